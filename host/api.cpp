// SPDX-License-Identifier: Apache-2.0
// The C boundary: argument blocks are checked here, and every failure becomes a status and a recorded text.
#include <lidx.h>

#include <cstring>
#include <memory>
#include <string>

#include "host/api_guard.h"
#include "host/context.h"
#include "host/launch.h"
#include "host/plan.h"
#include "host/status.h"

using lidx::copy_text;
using lidx::fail;
using lidx::guarded;
using lidx::init;
using lidx::require;
using lidx::require_struct;
using lidx::thread_error;

lidx_status lidx_config_init(lidx_config* config) {
    return guarded(nullptr, __func__, [&] {
        init(config, "config");
        config->device = -1;
    });
}

lidx_status lidx_open(const lidx_config* config, lidx_context** out) {
    return guarded(nullptr, __func__, [&] {
        require(out, "out");
        *out = nullptr;
        lidx_config defaults;
        init(&defaults, "config");
        defaults.device = -1;
        if (config != nullptr) require_struct(config, "config", "lidx_config", "lidx_config_init");
        *out = lidx::open_context(config != nullptr ? *config : defaults).release();
    });
}

void lidx_close(lidx_context* ctx) { delete ctx; }

lidx_status lidx_get_device_info(lidx_context* ctx, lidx_device_info* info) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require_struct(info, "info", "lidx_device_info");
        copy_text(info->name, ctx->device_name);
        copy_text(info->driver_path, ctx->driver.path);
        info->ordinal = ctx->ordinal;
        info->compute_capability = ctx->limits.compute_capability;
        info->multiprocessors = ctx->limits.multiprocessors;
        info->driver_version = ctx->driver_version;
    });
}

int32_t lidx_kernel_count(void) { return static_cast<int32_t>(lidx::kKernelCount); }

lidx_status lidx_get_kernel_info(lidx_context* ctx, int32_t index, lidx_kernel_info* info) {
    return guarded(ctx, __func__, [&] {
        require_struct(info, "info", "lidx_kernel_info");
        if (index < 0 || index >= lidx_kernel_count())
            fail(LIDX_ERR_VALUE,
                 "index = " + std::to_string(index) + ": must be 0 .. " + std::to_string(lidx_kernel_count() - 1));
        const lidx::KernelRow& row = lidx::kernel_rows()[static_cast<size_t>(index)];
        info->symbol = row.symbol;
        info->architectures = lidx::embedded_fatbin(row.source).architectures;
        info->arithmetic = row.arithmetic;
        info->heads = row.heads;
        info->depth = row.depth;
        info->depth_step = row.depth_step;
        info->tile_keys = row.tile_keys;
        info->tile_tokens = row.tile_tokens;
        info->threads = row.threads;
        info->shared_bytes = row.shared_bytes;
        info->shared_bytes_decode = row.shared_bytes_decode;
        info->tmem_columns = row.tmem_columns;
        info->registers = ctx != nullptr ? (*ctx->kernels)[static_cast<size_t>(index)].registers : 0;
    });
}

lidx_status lidx_score_desc_init(lidx_score_desc* desc) {
    return guarded(nullptr, __func__, [&] { init(desc, "desc"); });
}

lidx_status lidx_supports(lidx_context* ctx, const lidx_score_desc* desc, lidx_support* support) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(desc, "desc");
        require_struct(support, "support", "lidx_support");
        lidx::check_desc(*desc);
        const lidx::Choice choice = lidx::choose_kernel(*desc, ctx->limits);
        support->symbol = choice.kernel != nullptr ? choice.kernel->symbol : nullptr;
        support->arithmetic = choice.kernel != nullptr ? choice.kernel->arithmetic : 0;
        copy_text(support->reason, choice.reason);
    });
}

lidx_status lidx_plan_create(lidx_context* ctx, const lidx_score_desc* desc, lidx_plan** out) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(desc, "desc");
        require(out, "out");
        *out = std::make_unique<lidx_plan>(lidx::make_plan(*desc, ctx->limits)).release();
    });
}

void lidx_plan_destroy(lidx_plan* plan) { delete plan; }

lidx_status lidx_get_plan_info(const lidx_plan* plan, lidx_plan_info* info) {
    return guarded(nullptr, __func__, [&] {
        require(plan, "plan");
        require_struct(info, "info", "lidx_plan_info");
        info->symbol = plan->kernel->symbol;
        info->arithmetic = plan->kernel->arithmetic;
        std::memcpy(info->grid, plan->grid, sizeof(info->grid));
        std::memcpy(info->block, plan->block, sizeof(info->block));
        info->shared_bytes = plan->shared_bytes;
        info->workspace_bytes = plan->workspace_bytes;
    });
}

lidx_status lidx_plan_workspace_bytes(const lidx_plan* plan, size_t* bytes) {
    return guarded(nullptr, __func__, [&] {
        require(plan, "plan");
        require(bytes, "bytes");
        *bytes = plan->workspace_bytes;
    });
}

lidx_status lidx_score_args_init(lidx_score_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_score_enqueue(lidx_context* ctx, const lidx_plan* plan, const lidx_score_args* args, void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(plan, "plan");
        require(args, "args");
        lidx::enqueue_score(*ctx, *plan, *args, static_cast<CUstream>(stream));
    });
}

const char* lidx_status_string(lidx_status status) { return lidx::status_text(status); }

const char* lidx_last_error(const lidx_context* ctx) {
    return (ctx != nullptr ? ctx->last_error : thread_error()).text();
}

int32_t lidx_driver_error(const lidx_context* ctx) {
    return (ctx != nullptr ? ctx->last_error : thread_error()).driver_result();
}

#define LIDX_TEXT_(number) #number
#define LIDX_TEXT(number) LIDX_TEXT_(number)
const char* lidx_version(void) {
    return LIDX_TEXT(LIDX_VERSION_MAJOR) "." LIDX_TEXT(LIDX_VERSION_MINOR) "." LIDX_TEXT(LIDX_VERSION_PATCH);
}

// SPDX-License-Identifier: Apache-2.0
// The C boundary of score and select in one call.
#include <lidx.h>

#include <memory>

#include "host/api_guard.h"
#include "host/index_launch.h"

using lidx::guarded;
using lidx::init;
using lidx::require;
using lidx::require_struct;

lidx_status lidx_index_desc_init(lidx_index_desc* desc) {
    return guarded(nullptr, __func__, [&] {
        init(desc, "desc");
        desc->score.struct_size = sizeof(desc->score);
    });
}

lidx_status lidx_index_plan_create(lidx_context* ctx, const lidx_index_desc* desc, lidx_index_plan** out) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require_struct(desc, "desc", "lidx_index_desc", "lidx_index_desc_init");
        require(out, "out");
        *out = std::make_unique<lidx_index_plan>(lidx::make_index_plan(*desc, ctx->limits)).release();
    });
}

void lidx_index_plan_destroy(lidx_index_plan* plan) { delete plan; }

lidx_status lidx_get_index_plan_info(const lidx_index_plan* plan, lidx_index_plan_info* info) {
    return guarded(nullptr, __func__, [&] {
        require(plan, "plan");
        require_struct(info, "info", "lidx_index_plan_info");
        info->symbol = plan->score.kernel->symbol;
        info->arithmetic = plan->score.kernel->arithmetic;
        info->window_rows = plan->window_rows;
        info->windows = plan->windows();
        info->slices = plan->select.params.slices;
        info->workspace_bytes = plan->workspace_bytes;
        info->zero_bytes = plan->zero_bytes;
    });
}

lidx_status lidx_index_args_init(lidx_index_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_index_enqueue(lidx_context* ctx, const lidx_index_plan* plan, const lidx_index_args* args,
                               void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(plan, "plan");
        require_struct(args, "args", "lidx_index_args", "lidx_index_args_init");
        lidx::enqueue_index(*ctx, *plan, *args, static_cast<CUstream>(stream));
    });
}

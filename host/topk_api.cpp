// SPDX-License-Identifier: Apache-2.0
// The C boundary of the selection of keys.
#include <lidx.h>

#include "host/api_guard.h"
#include "host/topk_launch.h"

using lidx::guarded;
using lidx::init;
using lidx::require;
using lidx::require_struct;

lidx_status lidx_topk_desc_init(lidx_topk_desc* desc) {
    return guarded(nullptr, __func__, [&] { init(desc, "desc"); });
}

lidx_status lidx_topk_workspace_bytes(lidx_context* ctx, const lidx_topk_desc* desc, size_t* bytes) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(desc, "desc");
        require(bytes, "bytes");
        lidx::check_topk_desc(*desc);
        *bytes = lidx::topk_workspace_bytes(*ctx, *desc);
    });
}

lidx_status lidx_topk_args_init(lidx_topk_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_topk_enqueue(lidx_context* ctx, const lidx_topk_desc* desc, const lidx_topk_args* args,
                              void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(desc, "desc");
        require(args, "args");
        lidx::enqueue_topk(*ctx, *desc, *args, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_merge_args_init(lidx_merge_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_topk_merge_enqueue(lidx_context* ctx, const lidx_merge_args* args, void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require_struct(args, "args", "lidx_merge_args", "lidx_merge_args_init");
        lidx::enqueue_merge(*ctx, *args, static_cast<CUstream>(stream));
    });
}

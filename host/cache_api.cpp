// SPDX-License-Identifier: Apache-2.0
// The C boundary of the cache: store, gather, query.
#include <lidx.h>

#include "host/api_guard.h"
#include "host/cache_launch.h"
#include "host/context.h"

using lidx::guarded;
using lidx::init;
using lidx::require;

lidx_status lidx_pool_init(lidx_pool* pool) {
    return guarded(nullptr, __func__, [&] { init(pool, "pool"); });
}

lidx_status lidx_store_args_init(lidx_store_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_store_enqueue(lidx_context* ctx, const lidx_pool* pool, const lidx_store_args* args, void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(pool, "pool");
        require(args, "args");
        lidx::enqueue_store(*ctx, *pool, *args, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_gather_args_init(lidx_gather_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_gather_enqueue(lidx_context* ctx, const lidx_pool* pool, const lidx_gather_args* args, void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(pool, "pool");
        require(args, "args");
        lidx::enqueue_gather(*ctx, *pool, *args, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_query_args_init(lidx_query_args* args) {
    return guarded(nullptr, __func__, [&] { init(args, "args"); });
}

lidx_status lidx_query_enqueue(lidx_context* ctx, const lidx_query_args* args, void* stream) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(args, "args");
        lidx::enqueue_query(*ctx, *args, static_cast<CUstream>(stream));
    });
}

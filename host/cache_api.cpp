// SPDX-License-Identifier: Apache-2.0
// The C boundary of the cache: store, gather, query, and the page pool.
#include <lidx.h>

#include "host/api_guard.h"
#include "host/cache.h"
#include "host/cache_launch.h"
#include "host/context.h"

using lidx::guarded;
using lidx::init;
using lidx::require;
using lidx::require_struct;

namespace {

// Failures of a cache are told through its context.
const lidx_context* context_of(const lidx_cache* cache) { return cache != nullptr ? &cache->context : nullptr; }

}  // namespace

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

lidx_status lidx_cache_desc_init(lidx_cache_desc* desc) {
    return guarded(nullptr, __func__, [&] { init(desc, "desc"); });
}

lidx_status lidx_cache_create(lidx_context* ctx, const lidx_cache_desc* desc, lidx_cache** out) {
    return guarded(ctx, __func__, [&] {
        require(ctx, "ctx");
        require(desc, "desc");
        require(out, "out");
        *out = new lidx_cache(lidx::make_cache(*ctx, *desc));
    });
}

void lidx_cache_destroy(lidx_cache* cache) { delete cache; }

lidx_status lidx_cache_add(lidx_cache* cache, int64_t* sequence) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(sequence, "sequence");
        *sequence = cache->pages.add();
    });
}

lidx_status lidx_cache_fork(lidx_cache* cache, int64_t sequence, int64_t* child) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(child, "child");
        *child = cache->pages.fork(sequence);
    });
}

lidx_status lidx_cache_free(lidx_cache* cache, int64_t sequence) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        cache->pages.free(sequence);
    });
}

lidx_status lidx_cache_truncate(lidx_cache* cache, int64_t sequence, int64_t length) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        cache->pages.truncate(sequence, length);
    });
}

lidx_status lidx_cache_length(lidx_cache* cache, int64_t sequence, int64_t* length) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(length, "length");
        *length = cache->pages.length(sequence);
    });
}

lidx_status lidx_cache_extend(lidx_cache* cache, const int64_t* sequences, const int32_t* tokens, int32_t count,
                              void* stream) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        lidx::extend(*cache, sequences, tokens, count, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_cache_keys_init(lidx_cache_keys* keys) {
    return guarded(nullptr, __func__, [&] { init(keys, "keys"); });
}

lidx_status lidx_cache_append(lidx_cache* cache, int64_t sequence, const lidx_cache_keys* keys, void* stream) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(keys, "keys");
        lidx::append(*cache, sequence, *keys, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_cache_store(lidx_cache* cache, int64_t sequence, int64_t first, const lidx_cache_keys* keys,
                             void* stream) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(keys, "keys");
        lidx::store(*cache, sequence, first, *keys, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_cache_tables_init(lidx_cache_tables* tables) {
    return guarded(nullptr, __func__, [&] { init(tables, "tables"); });
}

lidx_status lidx_cache_fill_tables(lidx_cache* cache, const lidx_cache_tables* tables, void* stream) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require(tables, "tables");
        lidx::fill_tables(*cache, *tables, static_cast<CUstream>(stream));
    });
}

lidx_status lidx_cache_fill_slots(lidx_cache* cache, const int64_t* sequences, const int32_t* tokens, int32_t count,
                                  int64_t* slots) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        lidx::fill_slots(*cache, sequences, tokens, count, slots);
    });
}

lidx_status lidx_cache_get_stats(lidx_cache* cache, lidx_cache_stats* stats) {
    return guarded(context_of(cache), __func__, [&] {
        require(cache, "cache");
        require_struct(stats, "stats", "lidx_cache_stats");
        const lidx::PagePool::Stats seen = cache->pages.stats();
        stats->num_pages = cache->pool.num_pages;
        stats->free_pages = seen.free_pages;
        stats->shared_pages = seen.shared_pages;
        stats->sequences = seen.sequences;
        stats->tokens = seen.tokens;
    });
}

// SPDX-License-Identifier: Apache-2.0
// Arguments that every check lets pass, at addresses that nobody may dereference.
#pragma once
#include "catch_any.h"

#include <lidx.h>

#include <cstdint>

namespace good_calls {

template <typename T>
T* address(uintptr_t value) {
    return reinterpret_cast<T*>(value);
}

// 2 requests of up to 4 tokens, 64 heads, 1000 keys in 40 block-split pages of 64.
inline lidx_score_desc score_desc() {
    lidx_score_desc desc;
    REQUIRE(lidx_score_desc_init(&desc) == LIDX_OK);
    desc.batch = 2;
    desc.max_rows = 8;
    desc.max_tokens = 4;
    desc.heads = 64;
    desc.depth = 128;
    desc.max_keys = 1000;
    desc.page_size = 64;
    desc.num_pages = 40;
    desc.k_page_stride = desc.k_scale_page_stride = 64 * 132;
    desc.block_table_stride = 16;
    desc.score_stride = 1024;
    return desc;
}

// For a paged plan.
inline lidx_score_args score_args() {
    lidx_score_args args;
    REQUIRE(lidx_score_args_init(&args) == LIDX_OK);
    args.q = address<void>(0x10000);
    args.q_scale = address<float>(0x20000);
    args.k_base = address<void>(0x30000);
    args.k_scale_base = address<void>(0x30000 + 64 * 128);
    args.block_table = address<int32_t>(0x40000);
    args.context_lens = address<int32_t>(0x50000);
    args.cu_seqlens_q = address<int32_t>(0x60000);
    args.scores = address<float>(0x70000);
    return args;
}

// The same, and the 64 best keys of each row.
inline lidx_index_desc index_desc() {
    lidx_index_desc desc;
    REQUIRE(lidx_index_desc_init(&desc) == LIDX_OK);
    desc.score = score_desc();
    desc.score.score_stride = 0;
    desc.k = desc.index_stride = 64;
    return desc;
}
inline lidx_index_args index_args() {   // but for workspace_bytes
    const lidx_score_args score = score_args();
    lidx_index_args args;
    REQUIRE(lidx_index_args_init(&args) == LIDX_OK);
    args.q = score.q;
    args.q_scale = score.q_scale;
    args.k_base = score.k_base;
    args.k_scale_base = score.k_scale_base;
    args.block_table = score.block_table;
    args.context_lens = score.context_lens;
    args.cu_seqlens_q = score.cu_seqlens_q;
    args.indices = address<int32_t>(0x80000);
    args.workspace = address<void>(0x100000);
    return args;
}
inline lidx_topk_desc topk_desc() {
    lidx_topk_desc desc;
    REQUIRE(lidx_topk_desc_init(&desc) == LIDX_OK);
    desc.batch = 2;
    desc.max_rows = 8;
    desc.max_tokens = 4;
    desc.max_keys = 1000;
    desc.score_stride = 1024;
    desc.k = desc.index_stride = 64;
    return desc;
}

// Around one block-split pool.
struct CacheCalls {
    lidx_pool pool;
    lidx_store_args store;
    lidx_gather_args gather;
    lidx_query_args query;
    CacheCalls() {
        REQUIRE(lidx_pool_init(&pool) == LIDX_OK);
        pool.k_base = address<void>(0x30000);
        pool.k_scale_base = address<void>(0x30000 + 64 * 128);
        pool.depth = 128;
        pool.page_size = 64;
        pool.num_pages = 40;
        pool.k_page_stride = pool.k_scale_page_stride = 64 * 132;
        REQUIRE(lidx_store_args_init(&store) == LIDX_OK);
        store.rows = 9;
        store.key_stride = 128;
        store.keys = address<void>(0x10000);
        store.slot_mapping = address<int64_t>(0x20000);
        REQUIRE(lidx_gather_args_init(&gather) == LIDX_OK);
        gather.batch = 3;
        gather.max_rows = 33;
        gather.block_table_stride = 5;
        gather.block_table = address<int32_t>(0x40000);
        gather.cu_seqlens_k = address<int32_t>(0x50000);
        gather.k_out = address<void>(0x60000);
        gather.k_out_stride = 128;
        gather.k_scale_out = address<float>(0x70000);
        REQUIRE(lidx_query_args_init(&query) == LIDX_OK);
        query.rows = 5;
        query.heads = 64;
        query.depth = 128;
        query.q = address<void>(0x10000);
        query.q_out = address<void>(0x30000);
        query.weights_out = address<void>(0x40000);
    }
    CacheCalls(const CacheCalls&) = delete;
    CacheCalls& operator=(const CacheCalls&) = delete;
};

}  // namespace good_calls

// SPDX-License-Identifier: Apache-2.0
// From argument blocks to launches of the cache kernels. Every field is checked; nothing is allocated unless a check
// fails.
#pragma once
#include <lidx.h>

#include <cstdint>

#include "host/context.h"
#include "host/field_checks.h"

namespace lidx {

// Throws where a field of the pool is outside its limits. Gather takes more depths than store.
enum class PoolUse { kStore, kGather };
void check_pool(const lidx_pool& pool, PoolUse use, const Fields& name = {});

void enqueue_store(const lidx_context& context, const lidx_pool& pool, const lidx_store_args& args, CUstream stream);
void enqueue_gather(const lidx_context& context, const lidx_pool& pool, const lidx_gather_args& args, CUstream stream);
void enqueue_query(const lidx_context& context, const lidx_query_args& args, CUstream stream);

// Rows of keys that one sequence stores behind each other.
struct KeyRows {
    const void* keys;     // [rows, key_stride]
    int32_t key_type;     // lidx_float_type
    int32_t rows;
    int64_t key_stride;   // elements
    uint32_t flags;       // of the quantisation; others are ignored
};
// Throws where a field is outside its limits.
void check_key_rows(const KeyRows& keys, int32_t depth);
// Flags of the quantisation, or'd with `others`; names: of all that may be there.
void check_quantise_flags(uint32_t flags, uint32_t others, const char* names);
// Stores checked rows into a checked pool: row r into slot (first_slot + r) % page_size of page
// pages[(first_slot + r) / page_size]. One launch per cache::kMaxInlinePages pages.
void enqueue_store_pages(const lidx_context& context, const lidx_pool& pool, const KeyRows& keys, const int32_t* pages,
                         int32_t first_slot, CUstream stream);

}  // namespace lidx

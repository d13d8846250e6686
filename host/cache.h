// SPDX-License-Identifier: Apache-2.0
// A page pool over the caller's device memory: bookkeeping on the host (page_pool.h), keys and copies through streams.
#pragma once
#include <lidx.h>

#include <cstdint>

#include "host/context.h"
#include "host/page_pool.h"

struct lidx_cache {
    const lidx_context& context;
    lidx_pool pool;   // of layer 0
    int32_t layers;
    int64_t k_layer_stride, k_scale_layer_stride;   // bytes
    lidx::PagePool pages;
};

namespace lidx {

// Checks the description; throws where a field is outside its limits.
lidx_cache make_cache(const lidx_context& context, const lidx_cache_desc& desc);

// Grows sequences, all or none; copies of shared pages go to the stream. Nothing has changed if it throws.
void extend(lidx_cache& cache, const int64_t* sequences, const int32_t* tokens, int32_t count, CUstream stream);
// Stores keys of one layer at positions first .. first + rows - 1 of a sequence.
void store(const lidx_cache& cache, int64_t sequence, int64_t first, const lidx_cache_keys& keys, CUstream stream);
// extend() by the keys' rows, then store() behind what was there. Nothing has changed if it throws.
void append(lidx_cache& cache, int64_t sequence, const lidx_cache_keys& keys, CUstream stream);

void fill_tables(const lidx_cache& cache, const lidx_cache_tables& tables, CUstream stream);
// Slots of the last tokens[i] tokens of each sequence, behind each other.
void fill_slots(const lidx_cache& cache, const int64_t* sequences, const int32_t* tokens, int32_t count,
                int64_t* slots);

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// The hand-overs that the sm90 kernels make alike, and what their consumers do alike with an item that the loading
// warps brought (sm90_loader.cuh).
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_schedule.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"

namespace lidx::sm90_score {

// The mbarriers of the key tiles and of the items, by a thread each, with the arrivals that free a stage and a buffer
// of Q; the first loading thread fetches the tensor maps meanwhile. A barrier of the CTA must follow. sm90_fast.cu has
// one kind more, and makes its own.
template <class T>
__device__ __forceinline__ void begin_hand_overs(typename T::Shared& shared, const ptx::TensorMap& k_map,
                                                 const ptx::TensorMap& q_map, uint32_t k_arrivals, uint32_t q_arrivals,
                                                 uint32_t thread) {
    if (thread < T::kStages) {
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_full[thread]), kFullArrivals);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_empty[thread]), k_arrivals);
        if (thread < T::kQBuffers) {
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[thread]), kItemArrivals);
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_empty[thread]), q_arrivals);
        }
        ptx::fence_mbarrier_init_release_cluster();
        ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
    } else if (thread == T::kThreads - 128) {
        ptx::prefetch_tensormap(&k_map);
        ptx::prefetch_tensormap(&q_map);
    }
}

__device__ __forceinline__ int32_t load_int(ptx::SharedAddr from) {
    return static_cast<int32_t>(ptx::ld_shared_u32(from));
}

// Which keys the item's row `token` sees; sees: KeyRange [tokens].
__device__ __forceinline__ KeyRange load_sees(ptx::SharedAddr sees, uint32_t token) {
    const ptx::SharedAddr from = sees + token * 8;
    return {load_int(from), load_int(from + 4)};
}

// Causal rows, the first of which sees fewest keys. Of a warpgroup's tiles, one every `step`, of which the first begins
// with key `tile_key`: those that all rows see whole.
__device__ __forceinline__ uint32_t whole_tiles(ptx::SharedAddr sees, uint32_t step, int32_t tile_key, uint32_t tiles) {
    const int32_t seen = (load_sees(sees, 0).end - tile_key) / kTileKeys;
    const uint32_t whole = seen <= 0 ? 0 : (static_cast<uint32_t>(seen) - 1) / step + 1;
    return whole < tiles ? whole : tiles;
}

// Columns [begin, end) of an item's rows where no key of the row is live, by `threads` threads.
__device__ __forceinline__ void fill(const ScoreParams& p, ptx::SharedAddr sees, int32_t first_row, int32_t tokens,
                                     int32_t begin, int32_t end, uint32_t thread, int32_t threads) {
    for (int32_t token = 0; token < tokens; ++token) {
        const KeyRange range = load_sees(sees, static_cast<uint32_t>(token));
        const int64_t row = (int64_t{first_row} + token) * p.score_stride;
#pragma unroll 1
        for (int32_t column = begin + static_cast<int32_t>(thread); column < end; column += threads)
            if (dead_column(p, range, column)) store_score(p, row + column, dead_score());
    }
}

// Adds over the quad; lane `quad` of it gets the sum of a, b, c, d for 0, 2, 1, 3, as (p0 + p1) + (p2 + p3).
__device__ __forceinline__ float quad_sum(uint32_t quad, float a, float b, float c, float d) {
    const bool odd = quad % 2 != 0, high = quad >= 2;
    const float first = ptx::add_rn_f32(odd ? c : a, ptx::shfl_sync_bfly(odd ? a : c, 1, ptx::kFullMask));
    const float second = ptx::add_rn_f32(odd ? d : b, ptx::shfl_sync_bfly(odd ? b : d, 1, ptx::kFullMask));
    return ptx::add_rn_f32(high ? second : first, ptx::shfl_sync_bfly(high ? first : second, 2, ptx::kFullMask));
}

}  // namespace lidx::sm90_score

// SPDX-License-Identifier: Apache-2.0
// The k best of what the shards of a row chose, by the order of preference of topk.cu: the higher score, then the
// smaller position; -0 equals +0, NaN ranks below -inf.
//
// A row is one CTA's. The lists lie in the L2 cache (the caller has just gathered them) and are read in passes:
//
//     count the keys that there are      k or fewer: all of them
//     radix selection by score           11, 11 and 10 bits, a histogram each, up to three passes
//     radix selection by position        up to three more, only if keys equal to the k-th score are left over
//     keep the chosen                    their order is the threads'; what is sorted next makes it unique
//
// No map of positions: they may be anywhere in 31 bits, and lists in any order.
#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "kernel/variants.h"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

namespace {

// body(position, bits of the score) for every key in the lists of a row.
template <class Body>
__device__ __forceinline__ void each_listed(const MergeParams& p, int64_t row, const Thread& self, Body&& body) {
    constexpr int kUnroll = 4;
    const float* scores = p.scores + row * p.score_row_stride;
    const int32_t* positions = p.positions + row * p.position_row_stride;
#pragma unroll 1
    for (auto base = static_cast<int32_t>(self.index); base < p.entries; base += kUnroll * kThreads) {
        int32_t position[kUnroll];
        uint32_t score[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int32_t entry = base + u * kThreads;
            const auto shard = static_cast<int32_t>(static_cast<uint32_t>(entry) / static_cast<uint32_t>(p.k_in));
            const int32_t number = entry - shard * p.k_in;
            const bool exists = entry < p.entries;
            position[u] = static_cast<int32_t>(
                ptx::ld_global_u32(exists, positions + shard * p.position_shard_stride + number, ~0u));
            score[u] = ptx::ld_global_u32(exists, scores + shard * p.score_shard_stride + number, 0);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            if (position[u] >= 0) body(static_cast<uint32_t>(position[u]), score[u]);
    }
}

// A chosen key as the number to sort by. By position the score's bits follow; by preference the position, and whether
// the score is a negative zero, which its key does not tell.
constexpr uint32_t kNegativeZero = 0x80000000u;
__device__ __forceinline__ uint64_t sort_number(SortBy sort_by, uint32_t position, uint32_t score) {
    if (sort_by == SortBy::kPosition) return uint64_t{position} << 32 | score;
    return uint64_t{~fast_key(score)} << 32 | position << 1 | static_cast<uint32_t>(score == kNegativeZero);
}
struct Chosen {
    uint32_t position, score;
};
__device__ __forceinline__ Chosen from_number(SortBy sort_by, uint64_t number) {
    const auto high = static_cast<uint32_t>(number >> 32), low = static_cast<uint32_t>(number);
    if (sort_by == SortBy::kPosition) return {high, low};
    return {low >> 1, (low & 1) != 0 ? kNegativeZero : score_bits(~high)};
}

__device__ __forceinline__ void merge(const MergeParams& p) {
    __shared__ MergeLayout shared;
    const Thread self{ptx::tid_x()};
    const int64_t row = ptx::ctaid_x();
    const ptx::SharedAddr numbers = ptx::cvta_to_shared(shared.chosen);
    const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram);
    if (self.index == 0) {
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.stored), 0);
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.listed), 0);
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.equal), 0);
    }
    clear(histogram, kBins, self);
    ptx::bar_sync();
    uint32_t own = 0;
    each_listed(p, row, self, [&](uint32_t, uint32_t) { ++own; });
    ptx::bar_warp_sync(ptx::kFullMask);
    own = ptx::redux_sync_add_u32(own, ptx::kFullMask);
    if (self.lane() == 0) ptx::red_shared_add_u32(ptx::cvta_to_shared(&shared.listed), own);
    ptx::bar_sync();
    const auto listed = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.listed)));
    const int32_t count = listed < p.k ? listed : p.k;

    // Above `score`; or equal to it and, as ~position, above `place`; or equal to both: the first `place.ties` that
    // come (they are the same key, listed more than once).
    Threshold score{kNanKey, 0}, place{0, 0};
    if (listed > p.k) {
        score = find_threshold(p.k, 0, self, shared, [&](const Digit& digit) {
            each_listed(p, row, self, [&](uint32_t, uint32_t bits) { count_digit(fast_key(bits), digit, histogram); });
        });
        if (score.ties > 0)
            place = find_threshold(score.ties, 0, self, shared, [&](const Digit& digit) {
                each_listed(p, row, self, [&](uint32_t position, uint32_t bits) {
                    if (fast_key(bits) == score.key) count_digit(~position, digit, histogram);
                });
            });
    }
    each_listed(p, row, self, [&](uint32_t position, uint32_t bits) {
        const uint32_t key = fast_key(bits);
        bool chosen = listed <= p.k || key > score.key;
        if (!chosen && score.ties > 0 && key == score.key)
            chosen = ~position > place.key ||
                     (~position == place.key &&
                      static_cast<int32_t>(ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.equal), 1)) <
                          place.ties);
        if (!chosen) return;
        const uint32_t at = ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.stored), 1);
        if (at < kMaxK) ptx::st_shared_u64(numbers + at * 8, sort_number(p.sort_by, position, bits));
    });
    sort_ascending(numbers, count, self);
#pragma unroll 1
    for (auto i = static_cast<int32_t>(self.index); i < p.k; i += kThreads) {
        Chosen chosen{~0u, 0xff800000u};   // -1, -inf
        if (i < count) chosen = from_number(p.sort_by, ptx::ld_shared_u64(numbers + i * 8));
        ptx::st_global_u32(p.indices + row * p.index_stride + i, chosen.position);
        if (p.top_scores)
            ptx::st_global_f32(p.top_scores + row * p.top_score_stride + i, __uint_as_float(chosen.score));
    }
    if (p.counts && self.index == 0) ptx::st_global_u32(p.counts + row, static_cast<uint32_t>(count));
}

}  // namespace
}  // namespace lidx::topk

#define LIDX_TOPK_MERGE_KERNEL(symbol)                                    \
    extern "C" __global__ void __launch_bounds__(lidx::topk::kThreads, 2) \
    symbol(const __grid_constant__ lidx::topk::MergeParams p) {           \
        lidx::topk::merge(p);                                             \
    }
LIDX_TOPK_MERGE_VARIANTS(LIDX_TOPK_MERGE_KERNEL)

// SPDX-License-Identifier: Apache-2.0
// The threshold of keys that the CTAs of a cluster hold: every CTA counts in its own shared memory and reads the counts
// of all. Those of a round are written before its barrier and read after it; the next round has others.
#pragma once
#include <cstdint>

#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "ptx/atomic.cuh"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// Of the row: the threshold; and of the parts before this CTA's: keys above it, and equal to it.
struct Share {
    Threshold threshold;
    uint32_t before, equal_before;
};

// Of sums of lanes, the first at the top: the lane in which the `remaining`-th lies, and the sum of those above.
__device__ __forceinline__ uint32_t pick_lane(uint32_t sum, uint32_t remaining, uint32_t lane, uint32_t& above) {
    const uint32_t inclusive = warp_inclusive_sum(sum, lane);
    const uint32_t reached = ptx::vote_sync_ballot(inclusive >= remaining, ptx::kFullMask);
    const auto picked = static_cast<uint32_t>(__ffs(static_cast<int>(reached)) - 1);
    above = ptx::shfl_sync_idx(inclusive - sum, picked, ptx::kFullMask);
    return picked;
}

// count_digits as for find_threshold(), into the histogram given. All threads of all CTAs of the cluster; what
// ClusterCounts has is zeros before. Warp w reads what CTA w of the cluster counted, from the top bin down.
template <int kLastShift, class CountDigits>
__device__ __forceinline__ Share find_cluster_threshold(uint32_t k, uint32_t rank, uint32_t ctas, const Thread& self,
                                                        ClusterLayout& shared, CountDigits&& count_digits) {
    static_assert(kMaxClusterCtas <= kWarps);
    const uint32_t lane = self.lane(), peer = self.warp();
    uint32_t prefix = 0, mask = 0, remaining = k;
    uint32_t before = 0, equal = 0;   // of this lane's bins of its CTA: keys above the threshold, and equal to it
    int32_t ties = 0;
    ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.counts.histograms);
    ptx::SharedAddr coarse = ptx::cvta_to_shared(shared.coarse);
    ptx::SharedAddr sums = ptx::cvta_to_shared(shared.counts.sums);
#pragma unroll 1
    for (int shift = 21; shift >= kLastShift; shift -= 11) {
        const uint32_t low = shift < 0 ? 0 : shift;
        count_digits(prefix, mask, low, histogram);
        ptx::bar_sync();
        const ptx::U32x4 four = ptx::ld_shared_v4_u32(histogram + self.index * 16);
        uint32_t sum = four.x + four.y + four.z + four.w;
#pragma unroll
        for (uint32_t step = 1; step < kCoarseWidth / 4; step *= 2)
            sum += ptx::shfl_sync_bfly(sum, step, ptx::kFullMask);
        sum |= ptx::shfl_sync_bfly(sum, kCoarseWidth / 4, ptx::kFullMask) << 16;
        if (lane % (kCoarseWidth / 2) == 0)
            ptx::st_shared_u32(coarse + self.index / (kCoarseWidth / 2) * 4, sum);
        ptx::barrier_cluster_arrive();
        ptx::barrier_cluster_wait();

        const uint32_t pair = kCoarseBins / 2 - 1 - lane;
        uint32_t lower = 0, upper = 0;
        if (peer < ctas) {
            const uint32_t two = ptx::ld_shared_cluster_u32(ptx::mapa_shared_cluster(coarse + pair * 4, peer));
            lower = two & 0xffffu, upper = two >> 16;
            ptx::red_shared_add_u32(sums + pair * 8, lower);
            ptx::red_shared_add_u32(sums + pair * 8 + 4, upper);
        }
        ptx::bar_sync();
        uint32_t lower_all, upper_all, above;
        ptx::ld_shared_v2_u32(lower_all, upper_all, sums + pair * 8);
        const uint32_t owner = pick_lane(lower_all + upper_all, remaining, lane, above);
        upper_all = ptx::shfl_sync_idx(upper_all, owner, ptx::kFullMask);
        const bool in_upper = remaining <= above + upper_all;
        if (!in_upper) above += upper_all;
        remaining -= above;
        if (lane < owner) before += lower + upper;
        if (lane == owner && !in_upper) before += upper;

        const uint32_t top = (kCoarseBins - 2 * owner - (in_upper ? 0 : 1)) * kCoarseWidth - 1;   // of the coarse bin's
        uint32_t own = 0;
        const ptx::SharedAddr fine = sums + kCoarseBins * 4 + lane * 4;
        if (peer < ctas) {
            own = ptx::ld_shared_cluster_u32(ptx::mapa_shared_cluster(histogram + (top - lane) * 4, peer));
            ptx::red_shared_add_u32(fine, own);
        }
        ptx::bar_sync();
        const uint32_t all = ptx::ld_shared_u32(fine);
        const uint32_t digit = pick_lane(all, remaining, lane, above);
        const uint32_t in_bin = ptx::shfl_sync_idx(all, digit, ptx::kFullMask);
        remaining -= above;
        prefix |= (top - digit) << low;
        mask |= ~0u << low;
        if (lane < digit) before += own;
        equal = lane == digit ? own : 0;
        ties = static_cast<int32_t>(remaining);
        if (in_bin == remaining) {   // all of the bin
            before += equal;
            equal = 0;
            ties = 0;
            --prefix;
            break;
        }
        histogram = histogram + kBins * 4;
        coarse = coarse + kCoarseBins / 2 * 4;
        sums = sums + (kCoarseBins + kCoarseWidth) * 4;
    }
    const ptx::SharedAddr totals = ptx::cvta_to_shared(&shared.counts.before);
    if (peer < rank) {
        before = ptx::redux_sync_add_u32(before, ptx::kFullMask);
        equal = ptx::redux_sync_add_u32(equal, ptx::kFullMask);
        if (lane == 0) {
            ptx::red_shared_add_u32(totals, before);
            ptx::red_shared_add_u32(totals + 4, equal);
        }
    }
    ptx::bar_sync();
    Share share{{prefix, ties}, 0, 0};
    ptx::ld_shared_v2_u32(share.before, share.equal_before, totals);
    return share;
}

}  // namespace lidx::topk

// SPDX-License-Identifier: Apache-2.0
// The threshold of keys that a CTA holds, or that the CTAs of a cluster hold: every CTA counts in its own shared memory
// and reads the counts of all. Those of a round are written before its barrier and read after it; the next round has
// others.
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

// The same bins of another CTA of the cluster, where it exists.
template <int kOfThreads>
__device__ __forceinline__ OwnBins<kOfThreads> peer_bins(bool exists, ptx::ClusterAddr bins) {
    OwnBins<kOfThreads> own;
    if constexpr (OwnBins<kOfThreads>::kOwn == 4) {
        const ptx::U32x4 four = ptx::ld_shared_cluster_v4_u32(exists, bins);
        own.count[0] = four.w, own.count[1] = four.z, own.count[2] = four.y, own.count[3] = four.x;
    } else {
        const ptx::U32x2 two = ptx::ld_shared_cluster_v2_u32(exists, bins);
        own.count[0] = two.y, own.count[1] = two.x;
    }
    return own;
}

// Sums over a CTA's threads of what lies before its part; all threads, the same `wanted`.
__device__ __forceinline__ void sum_before(bool wanted, uint32_t before, uint32_t equal, const Thread& self,
                                           ClusterLayout& shared, Share& share) {
    const ptx::SharedAddr totals = ptx::cvta_to_shared(&shared.counts.before);
    if (wanted) {
        before = ptx::redux_sync_add_u32(before, ptx::kFullMask);
        equal = ptx::redux_sync_add_u32(equal, ptx::kFullMask);
        if (self.lane() == 0) {
            ptx::red_shared_add_u32(totals, before);
            ptx::red_shared_add_u32(totals + 4, equal);
        }
    }
    ptx::bar_sync();
    ptx::ld_shared_v2_u32(share.before, share.equal_before, totals);
}

// As find_threshold(), for all threads of a cluster of two CTAs (or the only one that has keys): each reads the other's
// whole histogram. count_digits counts in the histogram given, which is zeros before.
template <int kOfThreads, int kLastShift, class CountDigits>
__device__ __forceinline__ Share find_pair_threshold(uint32_t k, uint32_t rank, uint32_t ctas, const Thread& self,
                                                    ClusterLayout& shared, CountDigits&& count_digits) {
    using Bins = OwnBins<kOfThreads>;
    uint32_t prefix = 0, mask = 0, remaining = k;
    uint32_t before = 0, equal = 0;   // of this thread's bins in the first part: keys above the threshold, and equal
    Share share{};
    ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.counts.histograms);
#pragma unroll 1
    for (int shift = 21; shift >= kLastShift; shift -= 11) {
        const uint32_t low = shift < 0 ? 0 : shift;
        count_digits(prefix, mask, low, histogram);
        ptx::fence_release_shared_cta_cluster();
        ptx::barrier_cluster_arrive_relaxed();
        ptx::barrier_cluster_wait();
        const ptx::SharedAddr own = histogram + Bins::lowest(self) * 4;
        const Bins first = peer_bins<kOfThreads>(true, ptx::mapa_shared_cluster(own, 0));
        Bins all = peer_bins<kOfThreads>(ctas > 1, ptx::mapa_shared_cluster(own, 1));
#pragma unroll
        for (uint32_t i = 0; i < Bins::kOwn; ++i) all.count[i] += first.count[i];
        const Found found = pick_bin(all, remaining, self, shared);
        remaining -= found.above;
        prefix |= found.digit << low;
        mask |= ~0u << low;
        const bool whole = found.in_bin == remaining;   // all of the bin
        equal = 0;
#pragma unroll
        for (uint32_t i = 0; i < Bins::kOwn; ++i) {
            const uint32_t bin = Bins::lowest(self) + Bins::kOwn - 1 - i;
            if (bin > found.digit || (whole && bin == found.digit)) before += first.count[i];
            else if (bin == found.digit) equal = first.count[i];
        }
        share.threshold = {whole ? prefix - 1 : prefix, whole ? 0 : static_cast<int32_t>(remaining)};
        if (whole) break;
        histogram = histogram + kBins * 4;
    }
    sum_before(rank > 0, before, equal, self, shared, share);
    return share;
}

// Of sums of lanes, the first at the top: the lane in which the `remaining`-th lies, and the sum of those above.
__device__ __forceinline__ uint32_t pick_lane(uint32_t sum, uint32_t remaining, uint32_t lane, uint32_t& above) {
    const uint32_t inclusive = warp_inclusive_sum(sum, lane);
    const uint32_t reached = ptx::vote_sync_ballot(inclusive >= remaining, ptx::kFullMask);
    const auto picked = static_cast<uint32_t>(__ffs(static_cast<int>(reached)) - 1);
    above = ptx::shfl_sync_idx(inclusive - sum, picked, ptx::kFullMask);
    return picked;
}

// The same for clusters of any size; what ClusterCounts has is zeros before. Warp w reads what CTA w of the cluster
// counted, from the top bin down: sums of 32 bins first, then the 32 bins.
template <int kOfThreads, int kLastShift, class CountDigits>
__device__ __forceinline__ Share find_cluster_threshold(uint32_t k, uint32_t rank, uint32_t ctas, const Thread& self,
                                                        ClusterLayout& shared, CountDigits&& count_digits) {
    static_assert(kMaxClusterCtas <= kOfThreads / 32);
    constexpr uint32_t kOwn = kBins / kOfThreads;
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
        OwnBins<kOfThreads> bins;
        bins.load(histogram + self.index * kOwn * 4);
        uint32_t sum = bins.sum();
#pragma unroll
        for (uint32_t step = 1; step < kCoarseWidth / kOwn; step *= 2)
            sum += ptx::shfl_sync_bfly(sum, step, ptx::kFullMask);
        sum |= ptx::shfl_sync_bfly(sum, kCoarseWidth / kOwn, ptx::kFullMask) << 16;
        if (lane % (2 * kCoarseWidth / kOwn) == 0)
            ptx::st_shared_u32(coarse + self.index / (2 * kCoarseWidth / kOwn) * 4, sum);
        ptx::fence_release_shared_cta_cluster();
        ptx::barrier_cluster_arrive_relaxed();
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
    Share share{{prefix, ties}, 0, 0};
    sum_before(peer < rank, before, equal, self, shared, share);
    return share;
}

}  // namespace lidx::topk

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
template <class Layout>
__device__ __forceinline__ void sum_before(bool wanted, uint32_t before, uint32_t equal, const Thread& self,
                                           Layout& shared, Share& share) {
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

// A first digit that is guessed: 128 bins an octave of scores.
inline constexpr uint32_t kGuessLow = 16, kGuessSpan = (uint32_t{kBins} << kGuessLow) - 1;

// Rounds of digits begin with the whole keys' or, if `guess`, with the one given, to whose bins at the ends all keys
// outside are added: a bin at an end proves the guess wrong, and they begin again. kSame: bits that all keys share.
template <int kSame>
struct Rounds {
    Digit digit;
    uint32_t remaining;   // the k-th key's number among those of the digit
    bool guess, whole = false;
    // What a round has found. True: no round is left; then the threshold is digit.base, or, if `whole`, below that.
    __device__ __forceinline__ bool done(uint32_t value, uint32_t above, uint32_t in_bin) {
        const bool last = digit.low <= kSame;
        remaining -= above;
        digit.narrow(value);
        guess = false;
        whole = in_bin == remaining;   // all of the bin: whatever its keys are, those below are out
        return whole || last;
    }
    __device__ __forceinline__ bool misled(uint32_t value) const { return guess && (value == 0 || value == kBins - 1); }
    __device__ __forceinline__ void restart() { digit = Digit{}, guess = false; }
    __device__ __forceinline__ Threshold threshold() const {
        return {whole ? digit.base - 1 : digit.base, whole ? 0 : static_cast<int32_t>(remaining)};
    }
};

// The threshold of keys that one CTA holds; all threads. count_digits(rounds, histogram) counts in the histogram, which
// is zeros before and after.
template <int kOfThreads, int kSame, class CountDigits>
__device__ __forceinline__ Threshold find_held_threshold(Rounds<kSame> rounds, const Thread& self, HeldLayout& shared,
                                                         CountDigits&& count_digits) {
    using Bins = OwnBins<kOfThreads>;
    const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram), own = histogram + Bins::lowest(self) * 4;
#pragma unroll 1
    while (true) {
        count_digits(rounds, histogram);
        ptx::bar_sync();
        Bins bins;
        bins.load(own);
        Bins::clear(own);
        const Found found = pick_bin(bins, rounds.remaining, self, shared);
        if (rounds.misled(found.digit)) rounds.restart();
        else if (rounds.done(found.digit, found.above, found.in_bin)) return rounds.threshold();
    }
}

// The same for all threads of a cluster of two CTAs (or the only one that has keys): each reads the other's whole
// histogram. Every round has a histogram of its own, which is zeros before.
template <int kOfThreads, int kSame, class Layout, class CountDigits>
__device__ __forceinline__ Share find_pair_threshold(Rounds<kSame> rounds, uint32_t rank, uint32_t ctas,
                                                     const Thread& self, Layout& shared, CountDigits&& count_digits) {
    using Bins = OwnBins<kOfThreads>;
    uint32_t before = 0, equal = 0;   // of this thread's bins in the first part: keys above the threshold, and equal
    Share share{};
    ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.counts.histograms);
#pragma unroll 1
    for (bool done = false; !done; histogram = histogram + kBins * 4) {
        count_digits(rounds, histogram);
        ptx::fence_release_shared_cta_cluster();
        ptx::barrier_cluster_arrive_relaxed();
        ptx::barrier_cluster_wait();
        const ptx::SharedAddr own = histogram + Bins::lowest(self) * 4;
        const Bins first = peer_bins<kOfThreads>(true, ptx::mapa_shared_cluster(own, 0));
        Bins all = peer_bins<kOfThreads>(ctas > 1, ptx::mapa_shared_cluster(own, 1));
#pragma unroll
        for (uint32_t i = 0; i < Bins::kOwn; ++i) all.count[i] += first.count[i];
        const Found found = pick_bin(all, rounds.remaining, self, shared);
        if (rounds.misled(found.digit)) {
            rounds.restart();
            continue;
        }
        done = rounds.done(found.digit, found.above, found.in_bin);
        equal = 0;
#pragma unroll
        for (uint32_t i = 0; i < Bins::kOwn; ++i) {
            const uint32_t bin = Bins::lowest(self) + Bins::kOwn - 1 - i;
            if (bin > found.digit || (rounds.whole && bin == found.digit)) before += first.count[i];
            else if (bin == found.digit) equal = first.count[i];
        }
    }
    share.threshold = rounds.threshold();
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
template <int kOfThreads, int kSame, class Layout, class CountDigits>
__device__ __forceinline__ Share find_cluster_threshold(Rounds<kSame> rounds, uint32_t rank, uint32_t ctas,
                                                        const Thread& self, Layout& shared,
                                                        CountDigits&& count_digits) {
    static_assert(kMaxClusterCtas <= kOfThreads / 32);
    constexpr bool kSmall = sizeof(shared.coarse[0]) == kCoarseBins * 2;   // counts of 16 bits do
    constexpr uint32_t kOwn = kBins / kOfThreads;
    const uint32_t lane = self.lane(), peer = self.warp();
    uint32_t before = 0, equal = 0;   // of this lane's bins of its CTA: keys above the threshold, and equal to it
    ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.counts.histograms);
    ptx::SharedAddr coarse = ptx::cvta_to_shared(shared.coarse);
    ptx::SharedAddr sums = ptx::cvta_to_shared(shared.counts.sums);
#pragma unroll 1
    while (true) {
        count_digits(rounds, histogram);
        ptx::bar_sync();
        OwnBins<kOfThreads> bins;
        bins.load(histogram + self.index * kOwn * 4);
        uint32_t sum = bins.sum();
#pragma unroll
        for (uint32_t step = 1; step < kCoarseWidth / kOwn; step *= 2)
            sum += ptx::shfl_sync_bfly(sum, step, ptx::kFullMask);
        const uint32_t next = ptx::shfl_sync_bfly(sum, kCoarseWidth / kOwn, ptx::kFullMask);
        if (lane % (2 * kCoarseWidth / kOwn) == 0) {
            const uint32_t at = self.index / (2 * kCoarseWidth / kOwn);
            if constexpr (kSmall) ptx::st_shared_u32(coarse + at * 4, sum | next << 16);
            else ptx::st_shared_v2_u32(coarse + at * 8, sum, next);
        }
        ptx::fence_release_shared_cta_cluster();
        ptx::barrier_cluster_arrive_relaxed();
        ptx::barrier_cluster_wait();

        const uint32_t pair = kCoarseBins / 2 - 1 - lane;
        uint32_t lower = 0, upper = 0;
        if (peer < ctas) {
            if constexpr (kSmall) {
                const uint32_t two = ptx::ld_shared_cluster_u32(ptx::mapa_shared_cluster(coarse + pair * 4, peer));
                lower = two & 0xffffu, upper = two >> 16;
            } else {
                const ptx::U32x2 two =
                    ptx::ld_shared_cluster_v2_u32(true, ptx::mapa_shared_cluster(coarse + pair * 8, peer));
                lower = two.x, upper = two.y;
            }
            ptx::red_shared_add_u32(sums + pair * 8, lower);
            ptx::red_shared_add_u32(sums + pair * 8 + 4, upper);
        }
        ptx::bar_sync();
        uint32_t lower_all, upper_all, above, above_in;
        ptx::ld_shared_v2_u32(lower_all, upper_all, sums + pair * 8);
        const uint32_t owner = pick_lane(lower_all + upper_all, rounds.remaining, lane, above);
        upper_all = ptx::shfl_sync_idx(upper_all, owner, ptx::kFullMask);
        const bool in_upper = rounds.remaining <= above + upper_all;
        if (!in_upper) above += upper_all;
        uint32_t before_here = 0;
        if (lane < owner) before_here = lower + upper;
        if (lane == owner && !in_upper) before_here = upper;

        const uint32_t top = (kCoarseBins - 2 * owner - (in_upper ? 0 : 1)) * kCoarseWidth - 1;   // of the coarse bin's
        uint32_t own = 0;
        const ptx::SharedAddr fine = sums + kCoarseBins * 4 + lane * 4;
        if (peer < ctas) {
            own = ptx::ld_shared_cluster_u32(ptx::mapa_shared_cluster(histogram + (top - lane) * 4, peer));
            ptx::red_shared_add_u32(fine, own);
        }
        ptx::bar_sync();
        const uint32_t all = ptx::ld_shared_u32(fine);
        const uint32_t digit = pick_lane(all, rounds.remaining - above, lane, above_in);
        const uint32_t in_bin = ptx::shfl_sync_idx(all, digit, ptx::kFullMask);
        if (rounds.misled(top - digit)) {
            rounds.restart();
        } else {
            const bool done = rounds.done(top - digit, above + above_in, in_bin);
            before += before_here;
            if (lane < digit || (lane == digit && rounds.whole)) before += own;
            equal = lane == digit && !rounds.whole ? own : 0;
            if (done) break;
        }
        histogram = histogram + kBins * 4;
        coarse = coarse + sizeof(shared.coarse[0]);
        sums = sums + (kCoarseBins + kCoarseWidth) * 4;
    }
    Share share{rounds.threshold(), 0, 0};
    sum_before(peer < rank, before, equal, self, shared, share);
    return share;
}

// The faster of both.
template <int kOfThreads, int kSame, class Layout, class CountDigits>
__device__ __forceinline__ Share find_parts_threshold(const Rounds<kSame>& first, uint32_t rank, uint32_t parts,
                                                      const Thread& self, Layout& shared, const CountDigits& count) {
    return parts <= 2 ? find_pair_threshold<kOfThreads>(first, rank, parts, self, shared, count)
                      : find_cluster_threshold<kOfThreads>(first, rank, parts, self, shared, count);
}

}  // namespace lidx::topk

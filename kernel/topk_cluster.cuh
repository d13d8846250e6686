// SPDX-License-Identifier: Apache-2.0
// The threshold of keys that a CTA holds, or that the CTAs of a cluster hold: every CTA counts in its own shared memory
// and reads the counts of all. Those of a round are written before its barrier and read after it; the next round has
// others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

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
    bool of_scores = false;   // the digit is one of scores above zero, which compare as their bits
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
    __device__ __forceinline__ void restart() { digit = Digit{}, guess = of_scores = false; }
    __device__ __forceinline__ Threshold threshold() const {
        return {whole ? digit.base - 1 : digit.base, whole ? 0 : static_cast<int32_t>(remaining)};
    }
};

// The bin of a digit that has been counted, by all threads; the histogram is zeros afterwards.
template <int kOfThreads>
__device__ __forceinline__ Found take_bin(ptx::SharedAddr histogram, uint32_t remaining, const Thread& self,
                                          HeldLayout& shared) {
    OwnBins<kOfThreads> bins;
    const ptx::SharedAddr own = histogram + OwnBins<kOfThreads>::lowest(self) * 4;
    bins.load(own);
    OwnBins<kOfThreads>::clear(own);
    return pick_bin(bins, remaining, self, shared);
}

// The threshold of keys that one CTA holds; all threads. count_digits(rounds, histogram) counts in the histogram, which
// is zeros before and after.
template <int kOfThreads, int kSame, class CountDigits>
__device__ __forceinline__ Threshold find_held_threshold(Rounds<kSame> rounds, const Thread& self, HeldLayout& shared,
                                                         CountDigits&& count_digits) {
    const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram);
#pragma unroll 1
    while (true) {
        count_digits(rounds, histogram);
        ptx::bar_sync();
        const Found found = take_bin<kOfThreads>(histogram, rounds.remaining, self, shared);
        if (rounds.misled(found.digit)) rounds.restart();
        else if (rounds.done(found.digit, found.above, found.in_bin)) return rounds.threshold();
    }
}

// What a round counts in behind the one before; the first has been cleared with all other counts.
template <int kOfThreads>
__device__ __forceinline__ ptx::SharedAddr next_histogram(ptx::SharedAddr histogram, const Thread& self) {
    const ptx::SharedAddr next = histogram + kBins * 4;
    OwnBins<kOfThreads>::clear(next + OwnBins<kOfThreads>::lowest(self) * 4);
    ptx::bar_sync();
    return next;
}

// Adds a key of the digit's to the list.
__device__ __forceinline__ void list_key(uint32_t key, const Digit& digit, ptx::SharedAddr listed) {
    if (key - digit.base > digit.span) return;
    const uint32_t at = ptx::atom_shared_add_u32(listed + offsetof(ListedKeys, count), 1);
    ptx::st_shared_u32(listed + at * 4, key);
}

// The threshold among `count` keys, the first of a list of kListedKeys, zeros behind them; all threads. told: a zero.
template <class Layout>
__device__ __forceinline__ Threshold pick_listed(ptx::SharedAddr list, ptx::SharedAddr told, uint32_t count,
                                                 uint32_t remaining, const Thread& self, Layout& shared) {
    static_assert(kListedKeys % 16 == 0);
    const ptx::SharedAddr found = ptx::cvta_to_shared(&shared.found);
    if (self.index < count) {
        const uint32_t own = ptx::ld_shared_u32(list + self.index * 4);
        uint32_t above = 0, equal = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < count; i += 16) {
#pragma unroll
            for (uint32_t j = 0; j < 16; j += 4) {
                const ptx::U32x4 four = ptx::ld_shared_v4_u32(list + (i + j) * 4);
                above += (four.x > own) + (four.y > own) + (four.z > own) + (four.w > own);
                equal += (four.x == own) + (four.y == own) + (four.z == own) + (four.w == own);
            }
        }
        const bool whole = above + equal == remaining;   // all that are equal
        if (above < remaining && remaining <= above + equal &&
            (equal == 1 || ptx::atom_shared_add_u32(told, 1) == 0))
            ptx::st_shared_v2_u32(found, whole ? own - 1 : own, whole ? 0 : remaining - above);
    }
    ptx::bar_sync();
    uint32_t key, ties;
    ptx::ld_shared_v2_u32(key, ties, found);
    return {key, static_cast<int32_t>(ties)};
}

// The same of all keys that a cluster's CTAs have listed. Adds, of those that CTA self.warp() has: keys above the
// threshold, and equal to it.
template <class Layout>
__device__ __forceinline__ Threshold pick_listed_of_all(uint32_t count, uint32_t remaining, uint32_t ctas,
                                                        const Thread& self, Layout& shared, uint32_t& before,
                                                        uint32_t& equal) {
    constexpr uint32_t kMost = kListedKeys / 32;
    const ptx::SharedAddr listed = ptx::cvta_to_shared(&shared.counts.listed);
    const ptx::SharedAddr merged = ptx::cvta_to_shared(shared.counts.merged);
    const uint32_t lane = self.lane(), peer = self.warp();
    ptx::fence_release_shared_cta_cluster();
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
    uint32_t keys[kMost] = {}, own = 0;
    if (peer < ctas) {
        const ptx::ClusterAddr of_peer = ptx::mapa_shared_cluster(listed, peer);
        own = ptx::ld_shared_cluster_u32(of_peer + offsetof(ListedKeys, count));
        keys[0] = ptx::ld_shared_cluster_u32(of_peer + lane * 4);
        uint32_t first = 0;   // in no particular order
        if (lane == 0) first = ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.counts.placed), own);
        first = ptx::shfl_sync_idx(first, 0, ptx::kFullMask);
#pragma unroll
        for (uint32_t i = 0; i < kMost; ++i) {
            if (i > 0 && 32 * i < own) keys[i] = ptx::ld_shared_cluster_u32(of_peer + (32 * i + lane) * 4);
            const uint32_t at = first + 32 * i + lane;
            if (32 * i + lane < own && at < kListedKeys) ptx::st_shared_u32(merged + at * 4, keys[i]);
        }
    }
    ptx::bar_sync();
    const Threshold threshold =
        pick_listed(merged, listed + offsetof(ListedKeys, told), count, remaining, self, shared);
#pragma unroll
    for (uint32_t i = 0; i < kMost; ++i) {
        const bool exists = 32 * i + lane < own;
        before += static_cast<uint32_t>(exists && keys[i] > threshold.key);
        equal += static_cast<uint32_t>(exists && threshold.ties > 0 && keys[i] == threshold.key);
    }
    return threshold;
}

// The same for all threads of a cluster of two CTAs (or the only one that has keys): each reads the other's whole
// histogram. Every round has a histogram of its own. list_digit(digit, listed) lists the digit's keys; without it, more
// rounds follow.
template <int kOfThreads, int kSame, class Layout, class CountDigits, class ListDigit = std::nullptr_t>
__device__ __forceinline__ Share find_pair_threshold(Rounds<kSame> rounds, uint32_t rank, uint32_t ctas,
                                                     const Thread& self, Layout& shared, CountDigits&& count_digits,
                                                     const ListDigit& list_digit = nullptr) {
    constexpr bool kLists = !std::is_same_v<ListDigit, std::nullptr_t>;
    using Bins = OwnBins<kOfThreads>;
    uint32_t before = 0, equal = 0;   // of this thread's bins in the first part: keys above the threshold, and equal
    Share share{};
    ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.counts.histograms);
#pragma unroll 1
    while (true) {
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
        } else {
            const bool done = rounds.done(found.digit, found.above, found.in_bin);
            equal = 0;
#pragma unroll
            for (uint32_t i = 0; i < Bins::kOwn; ++i) {
                const uint32_t bin = Bins::lowest(self) + Bins::kOwn - 1 - i;
                if (bin > found.digit || (rounds.whole && bin == found.digit)) before += first.count[i];
                else if (bin == found.digit) equal = first.count[i];
            }
            if (done) {
                share.threshold = rounds.threshold();
                break;
            }
            if constexpr (kLists) {
                if (found.in_bin <= kListedKeys) {
                    list_digit(rounds.digit, ptx::cvta_to_shared(&shared.counts.listed));
                    uint32_t listed_before = 0, listed_equal = 0;
                    share.threshold = pick_listed_of_all(found.in_bin, rounds.remaining, ctas, self, shared,
                                                         listed_before, listed_equal);
                    const bool of_first = self.warp() == 0;
                    before += of_first ? listed_before : 0;
                    equal = of_first ? listed_equal : 0;
                    break;
                }
            }
        }
        histogram = next_histogram<kOfThreads>(histogram, self);
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
        histogram = next_histogram<kOfThreads>(histogram, self);
        coarse = coarse + sizeof(shared.coarse[0]);
        sums = sums + (kCoarseBins + kCoarseWidth) * 4;
    }
    Share share{rounds.threshold(), 0, 0};
    sum_before(peer < rank, before, equal, self, shared, share);
    return share;
}

// The faster of both.
template <int kOfThreads, int kSame, class Layout, class CountDigits, class ListDigit = std::nullptr_t>
__device__ __forceinline__ Share find_parts_threshold(const Rounds<kSame>& first, uint32_t rank, uint32_t parts,
                                                      const Thread& self, Layout& shared, const CountDigits& count,
                                                      const ListDigit& list = nullptr) {
    return parts <= 2 ? find_pair_threshold<kOfThreads>(first, rank, parts, self, shared, count, list)
                      : find_cluster_threshold<kOfThreads>(first, rank, parts, self, shared, count);
}

}  // namespace lidx::topk

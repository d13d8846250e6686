// SPDX-License-Identifier: Apache-2.0
// A sort of up to kMaxK numbers by one CTA. Each finds its bin among 2048 that follow the numbers' own distribution,
// and its place by a comparison with those that share the bin, a few, whatever the numbers are.
#pragma once
#include <cstdint>

#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// From one bound to the next, numbers of a sample in order, lie up to kSegmentBins bins of equal width.
inline constexpr uint32_t kSegmentBins = kBins / kSortSegments;
// Where a bin has more (numbers that 32 bits do not tell apart) pairs are exchanged instead.
inline constexpr uint32_t kMostOfBin = 256;
static_assert(kSortSegments == 128 && kSegmentBins == 16);   // four of the sample a lane; four bits

// Numbers in 32 bits, in the same order: how far each word is above the least, without what no number uses of them.
struct Narrow {
    uint32_t high, low;      // the least
    uint32_t low_bits, cut;  // bits of the low word; of both, what is more than 32
    uint32_t most;           // no number is more
    __device__ __forceinline__ uint32_t of(uint64_t number) const {
        const uint32_t above = static_cast<uint32_t>(number >> 32) - high, rest = static_cast<uint32_t>(number) - low;
        return static_cast<uint32_t>((uint64_t{above} << low_bits | rest) >> cut);
    }
};

// Which of `count` numbers the sample's are: they come in an order of some sort, which this does not follow.
__device__ __forceinline__ uint32_t sampled(uint32_t i, int32_t count) {
    return __umulhi(i * 0x9e3779b9u, static_cast<uint32_t>(count));
}

// A sample in order, as a search tree: the children of node i are 2 i and 2 i + 1; node 0, the sample's least, is none.
template <int kOfThreads>
__device__ __forceinline__ void store_bounds(ptx::SharedAddr numbers, int32_t count, const Narrow& narrow,
                                             ptx::SharedAddr bounds, const Thread& self) {
    constexpr uint32_t kOfLane = kSortSegments / 32, kWarps = kOfThreads / 32;
    uint32_t of_lane[kOfLane];
#pragma unroll
    for (uint32_t q = 0; q < kOfLane; ++q)
        of_lane[q] = narrow.of(ptx::ld_shared_u64(numbers + sampled(32 * q + self.lane(), count) * 8));
#pragma unroll
    for (uint32_t first = 0; first < kSortSegments; first += kWarps) {
        const uint32_t i = first % 32 + self.warp();   // of the 32 of the same q
        const uint32_t bound = ptx::shfl_sync_idx(of_lane[first / 32], i, ptx::kFullMask);
        uint32_t rank = 0;
#pragma unroll
        for (uint32_t q = 0; q < kOfLane; ++q) {   // of equal ones the first comes first
            const bool earlier = q < first / 32 || (q == first / 32 && self.lane() < i);
            const bool before = of_lane[q] < bound || (of_lane[q] == bound && earlier);
            rank += static_cast<uint32_t>(__popc(ptx::vote_sync_ballot(before, ptx::kFullMask)));
        }
        const uint32_t node = rank == 0 ? 0 : (kSortSegments + rank) >> __ffs(static_cast<int>(rank));
        if (self.lane() == 0) ptx::st_shared_u32(bounds + node * 4, bound);
    }
}

// Bins are in the numbers' order.
__device__ __forceinline__ uint32_t sort_bin(uint32_t number, uint32_t most, ptx::SharedAddr bounds) {
    uint32_t node = 1, low = 0, high = most;
#pragma unroll
    for (uint32_t step = kSortSegments; step > 1; step /= 2) {
        const uint32_t bound = ptx::ld_shared_u32(bounds + node * 4);
        const bool above = bound <= number;
        node = 2 * node + static_cast<uint32_t>(above);
        low = above ? bound : low;
        high = above ? high : bound;
    }
    const int width = 32 - __clz(static_cast<int>(high - low));
    return (node - kSortSegments) * kSegmentBins + ((number - low) >> (width > 4 ? width - 4 : 0));
}

// What all of a CTA's numbers have in common, those of `each` and of all other threads; one barrier.
template <int kOfThreads, int kEach>
__device__ __forceinline__ Narrow narrow_all(const uint64_t (&each)[kEach], int32_t count, ptx::SharedAddr ends,
                                             const Thread& self) {
    ptx::U32x4 end{0, 0, 0, 0};   // the most of each word's complement, and of each word
    const auto widen = [&](uint32_t not_high, uint32_t not_low, uint32_t high, uint32_t low) {
        end = {max(end.x, not_high), max(end.y, not_low), max(end.z, high), max(end.w, low)};
    };
    const auto of_warp = [&] {
        end = {ptx::redux_sync_max_u32(end.x, ptx::kFullMask), ptx::redux_sync_max_u32(end.y, ptx::kFullMask),
               ptx::redux_sync_max_u32(end.z, ptx::kFullMask), ptx::redux_sync_max_u32(end.w, ptx::kFullMask)};
    };
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (j * kOfThreads + static_cast<int32_t>(self.index) >= count) break;
        const auto high = static_cast<uint32_t>(each[j] >> 32), low = static_cast<uint32_t>(each[j]);
        widen(~high, ~low, high, low);
    }
    of_warp();
    if (self.lane() == 0) ptx::st_shared_v4_u32(ends + self.warp() * 16, end);
    ptx::bar_sync();
    if (self.lane() < kOfThreads / 32) {
        const ptx::U32x4 of_other = ptx::ld_shared_v4_u32(ends + self.lane() * 16);
        widen(of_other.x, of_other.y, of_other.z, of_other.w);
    }
    of_warp();
    Narrow narrow{~end.x, ~end.y, 0, 0, 0};
    const auto bits = [](uint32_t x) { return 32 - static_cast<uint32_t>(__clz(static_cast<int>(x))); };
    narrow.low_bits = bits(end.w - narrow.low);
    const uint32_t all_bits = bits(end.z - narrow.high) + narrow.low_bits;
    narrow.cut = all_bits > 32 ? all_bits - 32 : 0;
    narrow.most = narrow.of(uint64_t{end.z} << 32 | end.w);
    return narrow;
}

// Counts of bins -> where each bin begins; all threads, two barriers. Returns the largest count.
template <int kOfThreads, class Layout>
__device__ __forceinline__ uint32_t begin_bins(ptx::SharedAddr histogram, const Thread& self, Layout& shared) {
    constexpr uint32_t kOwn = kBins / kOfThreads;
    const ptx::SharedAddr totals = ptx::cvta_to_shared(shared.warp_total[0]);
    const ptx::SharedAddr others = ptx::cvta_to_shared(shared.warp_total[1]);
    OwnBins<kOfThreads> bins;   // the last is the lowest
    bins.load(histogram + self.index * kOwn * 4);
    uint32_t largest = 0;
#pragma unroll
    for (uint32_t i = 0; i < kOwn; ++i) largest = max(largest, bins.count[i]);
    const uint32_t inclusive = warp_inclusive_sum(bins.sum(), self.lane());
    largest = ptx::redux_sync_max_u32(largest, ptx::kFullMask);
    if (self.lane() == 31) {
        ptx::st_shared_u32(totals + self.warp() * 4, inclusive);
        ptx::st_shared_u32(others + self.warp() * 4, largest);
    }
    ptx::bar_sync();
    uint32_t before = 0;
    if (self.lane() < self.warp()) before = ptx::ld_shared_u32(totals + self.lane() * 4);
    if (self.lane() < kOfThreads / 32) largest = ptx::ld_shared_u32(others + self.lane() * 4);
    uint32_t begin = ptx::redux_sync_add_u32(before, ptx::kFullMask) + inclusive - bins.sum();
#pragma unroll
    for (uint32_t i = 0; i < kOwn; ++i) {
        ptx::st_shared_u32(histogram + (self.index * kOwn + i) * 4, begin);
        begin += bins.count[kOwn - 1 - i];
    }
    ptx::bar_sync();
    return ptx::redux_sync_max_u32(largest, ptx::kFullMask);
}

// A bin's numbers are those at [first, first + size).
struct BinPlaces {
    uint32_t first, size;
};
// The places of two numbers at places nth[0] and nth[1] among those of their bins, two of each at a time: a load's
// latency is most of a turn. No number is all ones.
__device__ __forceinline__ void rank_two(ptx::SharedAddr numbers, const uint64_t (&own)[2], const BinPlaces (&bin)[2],
                                         uint32_t last, uint32_t (&nth)[2]) {
    uint32_t rank[2] = {bin[0].first, bin[1].first};
#pragma unroll 1
    for (uint32_t i = 0; i < max(bin[0].size, bin[1].size); i += 2) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) {
            const uint32_t n = i + c / 2, at = bin[c % 2].first + n;
            const uint64_t other = ptx::ld_shared_u64(numbers + min(at, last) * 8);
            const uint64_t limit = own[c % 2] + static_cast<uint64_t>(at < nth[c % 2]);   // equal ones in front count
            rank[c % 2] += static_cast<uint32_t>(n < bin[c % 2].size && other < limit);
        }
    }
    nth[0] = rank[0];
    nth[1] = rank[1];
}

// Sorts `count` 64-bit numbers in shared memory, ascending; all threads, which may have stored them just before. The
// histogram is zeros before; it has no meaning afterwards.
template <int kOfThreads, class Layout>
__device__ __forceinline__ void sort_by_bins(ptx::SharedAddr numbers, int32_t count, const Thread& self,
                                             Layout& shared) {
    constexpr int kEach = kMaxK / kOfThreads;
    const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram);
    const ptx::SharedAddr bounds = ptx::cvta_to_shared(shared.bounds);
    const auto number_of = [&](int j) { return j * kOfThreads + static_cast<int32_t>(self.index); };
    if (count == 0) return;
    ptx::bar_sync();
    uint64_t own[kEach] = {};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (number_of(j) >= count) break;
        own[j] = ptx::ld_shared_u64(numbers + number_of(j) * 8);
    }
    const Narrow narrow = narrow_all<kOfThreads>(own, count, ptx::cvta_to_shared(shared.ends), self);
    store_bounds<kOfThreads>(numbers, count, narrow, bounds, self);
    ptx::bar_sync();
    uint32_t bin[kEach] = {}, nth[kEach] = {};   // nth: a number's place in its bin, then among all
#pragma unroll
    for (int j = 0; j < kEach; j += 2) {
        if (j * kOfThreads >= count) break;
        bin[j] = sort_bin(narrow.of(own[j]), narrow.most, bounds);   // two at a time, whether they exist or not
        bin[j + 1] = sort_bin(narrow.of(own[j + 1]), narrow.most, bounds);
        if (number_of(j) < count) nth[j] = ptx::atom_shared_add_u32(histogram + bin[j] * 4, 1);
        if (number_of(j + 1) < count) nth[j + 1] = ptx::atom_shared_add_u32(histogram + bin[j + 1] * 4, 1);
    }
    ptx::bar_sync();
    if (begin_bins<kOfThreads>(histogram, self, shared) > kMostOfBin)
        return sort_ascending<kOfThreads>(numbers, count, self);
    uint32_t size[kEach] = {};   // of its bin; bin: where it begins
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (number_of(j) >= count) break;
        const ptx::SharedAddr at = histogram + bin[j] * 4;
        const uint32_t end = bin[j] < kBins - 1 ? ptx::ld_shared_u32(at + 4) : static_cast<uint32_t>(count);
        bin[j] = ptx::ld_shared_u32(at);
        size[j] = end - bin[j];
        nth[j] += bin[j];
        ptx::st_shared_u64(numbers + nth[j] * 8, own[j]);
    }
    ptx::bar_sync();
#pragma unroll
    for (int j = 0; j < kEach; j += 2) {
        if (number_of(j) >= count) break;
        uint32_t places[2] = {nth[j], nth[j + 1]};
        rank_two(numbers, {own[j], own[j + 1]}, {{bin[j], size[j]}, {bin[j + 1], size[j + 1]}},
                 static_cast<uint32_t>(count) - 1, places);
        nth[j] = places[0];
        nth[j + 1] = places[1];
    }
    ptx::bar_sync();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (number_of(j) >= count) break;
        ptx::st_shared_u64(numbers + nth[j] * 8, own[j]);
    }
    ptx::bar_sync();
}

}  // namespace lidx::topk

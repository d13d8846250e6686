// SPDX-License-Identifier: Apache-2.0
// The parts of an exact selection by one CTA: the k-th largest of keys in registers or streamed from memory, a map of
// the chosen positions, and the positions out of the map in ascending order.
//
// What is chosen does not depend on the order in which threads run: every key above the threshold, and of the keys
// equal to it those at the smallest positions. Atomics only count and set bits.
#pragma once
#include <cstdint>

#include "kernel/topk_layout.h"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

// ordered_key() in five instructions: x + 0 takes the sign off a zero.
__device__ __forceinline__ uint32_t fast_key(uint32_t fp32_bits) {
    const float x = ptx::add_rn_f32(__uint_as_float(fp32_bits), 0.0f);
    const uint32_t bits = __float_as_uint(x);
    const uint32_t key = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return x == x ? key : kNanKey;
}

// Which keys are chosen: those above `key`, and the first `ties` of those equal to it.
struct Threshold {
    uint32_t key;
    int32_t ties;
};

struct Thread {
    uint32_t index;
    __device__ __forceinline__ uint32_t warp() const { return index / 32; }
    __device__ __forceinline__ uint32_t lane() const { return index % 32; }
};

__device__ __forceinline__ uint32_t lanes_below(uint32_t lane) { return (1u << lane) - 1; }

// Sum of a warp's values up to and including this lane's.
__device__ __forceinline__ uint32_t warp_inclusive_sum(uint32_t value, uint32_t lane) {
#pragma unroll
    for (uint32_t delta = 1; delta < 32; delta *= 2) {
        const uint32_t below = ptx::shfl_sync_up(value, delta, ptx::kFullMask);
        if (lane >= delta) value += below;
    }
    return value;
}

// Sum of the values of the CTA's threads before this one; all call it. slot: which warp_total, so that two sums can
// follow each other with one barrier each.
__device__ __forceinline__ uint32_t exclusive_sum(uint32_t value, const Thread& self, SearchLayout& shared, int slot) {
    const uint32_t inclusive = warp_inclusive_sum(value, self.lane());
    if (self.lane() == 31) ptx::st_shared_u32(ptx::cvta_to_shared(&shared.warp_total[slot][self.warp()]), inclusive);
    ptx::bar_sync();
    uint32_t before = 0;
    const uint32_t lane = self.lane();
    if (lane < self.warp()) before = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.warp_total[slot][lane]));
    return ptx::redux_sync_add_u32(before, ptx::kFullMask) + inclusive - value;
}

template <int kOfThreads = kThreads>
__device__ __forceinline__ void clear(ptx::SharedAddr words, int32_t count, const Thread& self) {
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index) * 4; i < count; i += kOfThreads * 4)
        ptx::st_shared_v4_u32(words + i * 4, {0, 0, 0, 0});
}

// A thread's bins of a histogram, from the top: thread t has the t-th from there.
template <int kOfThreads = kThreads>
struct OwnBins {
    static constexpr uint32_t kOwn = kBins / kOfThreads;
    static_assert(kOwn == 2 || kOwn == 4);
    uint32_t count[kOwn] = {};
    __device__ __forceinline__ static uint32_t lowest(const Thread& self) { return kBins - kOwn * (self.index + 1); }
    __device__ __forceinline__ void load(ptx::SharedAddr bins) {
        if constexpr (kOwn == 4) {
            const ptx::U32x4 four = ptx::ld_shared_v4_u32(bins);
            count[0] = four.w, count[1] = four.z, count[2] = four.y, count[3] = four.x;
        } else {
            ptx::ld_shared_v2_u32(count[1], count[0], bins);
        }
    }
    __device__ __forceinline__ static void clear(ptx::SharedAddr bins) {
        if constexpr (kOwn == 4) ptx::st_shared_v4_u32(bins, {0, 0, 0, 0});
        else ptx::st_shared_v2_u32(bins, 0, 0);
    }
    __device__ __forceinline__ uint32_t sum() const {
        uint32_t all = 0;
#pragma unroll
        for (uint32_t i = 0; i < kOwn; ++i) all += count[i];
        return all;
    }
};

// The digit in which the `remaining`-th key from the top lies, the keys above it, and those in its bin; all threads,
// with their bins. Two barriers: only the warp in whose bins it lies looks closer.
struct Found {
    uint32_t digit, above, in_bin;
};
template <int kOfThreads, class Layout>
__device__ __forceinline__ Found pick_bin(const OwnBins<kOfThreads>& bins, uint32_t remaining, const Thread& self,
                                          Layout& shared) {
    constexpr uint32_t kOwn = OwnBins<kOfThreads>::kOwn;
    const uint32_t lane = self.lane(), warp = self.warp(), sum = bins.sum();
    const uint32_t of_warp = ptx::redux_sync_add_u32(sum, ptx::kFullMask);
    const ptx::SharedAddr totals = ptx::cvta_to_shared(shared.warp_total[0]);
    if (lane == 0) ptx::st_shared_u32(totals + warp * 4, of_warp);
    ptx::bar_sync();
    uint32_t total = 0;
    if (lane < warp) total = ptx::ld_shared_u32(totals + lane * 4);
    uint32_t above = ptx::redux_sync_add_u32(total, ptx::kFullMask);
    if (above < remaining && remaining <= above + of_warp) {
        above += warp_inclusive_sum(sum, lane) - sum;
#pragma unroll
        for (uint32_t i = 0; i < kOwn; ++i) {
            if (above < remaining && remaining <= above + bins.count[i])
                ptx::st_shared_v4_u32(ptx::cvta_to_shared(&shared.found),
                                      {OwnBins<kOfThreads>::lowest(self) + kOwn - 1 - i, above, bins.count[i], 0});
            above += bins.count[i];
        }
    }
    ptx::bar_sync();
    const ptx::U32x4 found = ptx::ld_shared_v4_u32(ptx::cvta_to_shared(&shared.found));
    return {found.x, found.y, found.z};
}

// A digit of the keys [base, base + span]: the up to 11 bits from `low` on of what they are above base.
struct Digit {
    uint32_t base = 0, span = ~0u, low = 21;   // of all keys: 21, then 10, then the last 10 bits
    __device__ __forceinline__ bool is_first() const { return span == ~0u; }
    // The keys that have value `value` in it, and their next digit.
    __device__ __forceinline__ void narrow(uint32_t value) {
        base += value << low;
        span = (1u << low) - 1;
        low = low > 11 ? low - 11 : 0;
    }
};

// The threshold of the k largest among more than k keys. count_digits(digit) adds every key of the digit's into the
// histogram; all threads call it. There are fewer rounds where up to `slack` keys more may be chosen than asked for.
// The histogram is all zeros before and after.
template <class CountDigits>
__device__ __forceinline__ Threshold find_threshold(uint32_t k, uint32_t slack, const Thread& self,
                                                    SearchLayout& shared, CountDigits&& count_digits) {
    using Bins = OwnBins<kThreads>;
    const ptx::SharedAddr own = ptx::cvta_to_shared(shared.histogram) + Bins::lowest(self) * 4;
    Digit digit;
    uint32_t remaining = k;
#pragma unroll 1
    while (true) {
        count_digits(digit);
        ptx::bar_sync();
        Bins bins;
        bins.load(own);
        Bins::clear(own);
        const Found found = pick_bin(bins, remaining, self, shared);
        remaining -= found.above;
        const bool last = digit.low == 0;
        digit.narrow(found.digit);
        // All of the bin: whatever its keys are, those below are out.
        if (found.in_bin - remaining <= slack) return {digit.base - 1, 0};
        if (last) return {digit.base, static_cast<int32_t>(remaining)};
    }
}

__device__ __forceinline__ void count_digit(uint32_t key, const Digit& digit, ptx::SharedAddr histogram) {
    const uint32_t rest = key - digit.base;
    if (rest <= digit.span) ptx::red_shared_add_u32(histogram + (rest >> digit.low) * 4, 1);
}

// Of keys in registers; those that do not exist are kNanKey, and more than k do.
template <int kKeys>
__device__ __forceinline__ Threshold find_threshold(const uint32_t (&keys)[kKeys], uint32_t k, uint32_t slack,
                                                    const Thread& self, SearchLayout& shared) {
    return find_threshold(k, slack, self, shared, [&](const Digit& digit) {
        const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram);
        if (digit.is_first()) {   // no branch for each
#pragma unroll
            for (int j = 0; j < kKeys; ++j) ptx::red_shared_add_u32(histogram + (keys[j] >> 21) * 4, 1);
            return;
        }
#pragma unroll
        for (int j = 0; j < kKeys; ++j) count_digit(keys[j], digit, histogram);
    });
}

// Two maps, a bit per position: keys above the threshold, keys equal to it.
struct Maps {
    ptx::SharedAddr above, equal;
    int32_t words;   // in use, a multiple of 4
    int32_t shift;   // position i is bit i + shift
};

__device__ __forceinline__ void set_bit(ptx::SharedAddr map, int32_t bit) {
    ptx::red_shared_or_b32(map + bit / 32 * 4, 1u << bit % 32);
}

// Ascending positions of the chosen, `offset` added, into list, and their number into shared.stored; all threads.
// `ties`: how many of the equal ones, from the smallest position on. A thread takes pieces of 16 bits: the densest
// piece is what all wait for.
__device__ __forceinline__ void list_positions(const Maps& maps, int32_t ties, ptx::SharedAddr list, int32_t offset,
                                               const Thread& self, SharedLayout& shared) {
    const auto pieces = static_cast<uint32_t>(maps.words) * 2;
    const uint32_t each = (pieces + kThreads - 1) / kThreads;
    const uint32_t begin = self.index * each, end = begin + each < pieces ? begin + each : pieces;
    uint32_t above = 0, equal = 0;
#pragma unroll 1
    for (uint32_t i = begin; i < end; ++i) {
        above += __popc(ptx::ld_shared_u16(maps.above + i * 2));
        if (ties > 0) equal += __popc(ptx::ld_shared_u16(maps.equal + i * 2));
    }
    const uint32_t above_before = exclusive_sum(above, self, shared, 0);
    const uint32_t equal_before = ties > 0 ? exclusive_sum(equal, self, shared, 1) : 0;
    const auto limit = static_cast<uint32_t>(ties);
    int32_t left = static_cast<int32_t>(limit - (equal_before < limit ? equal_before : limit));
    ptx::SharedAddr to = list + (above_before + limit - static_cast<uint32_t>(left)) * 4;
#pragma unroll 1
    for (uint32_t i = begin; i < end; ++i) {
        uint32_t chosen = ptx::ld_shared_u16(maps.above + i * 2);
        uint32_t candidates = left > 0 ? ptx::ld_shared_u16(maps.equal + i * 2) : 0;
#pragma unroll 1
        for (; candidates != 0 && left > 0; candidates &= candidates - 1, --left)
            chosen |= candidates & (0 - candidates);
        const int32_t first = static_cast<int32_t>(i * 16) - 1 - maps.shift + offset;
#pragma unroll 1
        for (; chosen != 0; chosen &= chosen - 1, to = to + 4)
            ptx::st_shared_u32(to, static_cast<uint32_t>(first + __ffs(static_cast<int>(chosen))));
    }
    if (self.index == kThreads - 1)
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.stored), (to.value - list.value) / 4);
    ptx::bar_sync();
}

// The maps of keys in registers: index j * kThreads + t, so that a ballot is a word; lane j keeps and stores the j-th.
template <int kKeys>
__device__ __forceinline__ void map_registers(const uint32_t (&keys)[kKeys], int32_t count, const Threshold& threshold,
                                              const Maps& maps, const Thread& self) {
    static_assert(kKeys <= 32);
    uint32_t above = 0, equal = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
        const uint32_t word = ptx::vote_sync_ballot(keys[j] > threshold.key, ptx::kFullMask);
        if (self.lane() == j) above = word;
    }
    if (threshold.ties > 0) {
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            const bool exists = j * kThreads + static_cast<int32_t>(self.index) < count;
            const uint32_t word = ptx::vote_sync_ballot(exists && keys[j] == threshold.key, ptx::kFullMask);
            if (self.lane() == j) equal = word;
        }
    }
    const uint32_t word = self.lane() * kWarps + self.warp();
    if (self.lane() >= kKeys || static_cast<int32_t>(word) >= maps.words) return;
    ptx::st_shared_u32(maps.above + word * 4, above);
    ptx::st_shared_u32(maps.equal + word * 4, equal);
}

// Words of maps of `count` positions without a shift.
__device__ __forceinline__ int32_t words_of(int32_t count) { return static_cast<int32_t>(ceil_div(count, 128) * 4); }

// body(i, key) for the keys of a source in pieces of 32 consecutive ones, a key a lane; all lanes come along, also for
// i >= count, with any key.
template <class Source, class Body>
__device__ __forceinline__ void each_key(const Source& source, int32_t count, const Thread& self, Body&& body) {
    constexpr int kUnroll = 4;
#pragma unroll 1
    for (int32_t base = 32 * static_cast<int32_t>(self.warp()); base < count; base += kUnroll * kThreads) {
        uint32_t raw[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) raw[u] = source.load(base + u * kThreads + static_cast<int32_t>(self.lane()));
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int32_t i = base + u * kThreads + static_cast<int32_t>(self.lane());
            body(i, source.key_of(raw[u]));
        }
    }
}

// The maps of a source: every word of both. maps.words = words_of(source.keys), maps.shift = 0.
template <class Source>
__device__ __forceinline__ void map_streamed(const Source& source, const Threshold& threshold, const Maps& maps,
                                             const Thread& self) {
    const int32_t count = source.keys;
    each_key(source, maps.words * 32, self, [&](int32_t i, uint32_t key) {
        const uint32_t above = ptx::vote_sync_ballot(i < count && key > threshold.key, ptx::kFullMask);
        const uint32_t equal = ptx::vote_sync_ballot(i < count && key == threshold.key, ptx::kFullMask);
        if (self.lane() != 0 || i >= maps.words * 32) return;
        ptx::st_shared_u32(maps.above + i / 32 * 4, above);
        ptx::st_shared_u32(maps.equal + i / 32 * 4, equal);
    });
}

// Chooses k of more than k keys without keeping any: each is read up to four times. maps.words = words_of(source.keys)
// and maps.shift = 0 are the caller's. Returns the ties to take.
template <class Source>
__device__ __forceinline__ int32_t select_streamed(const Source& source, int32_t k, const Maps& maps,
                                                   const Thread& self, SharedLayout& shared) {
    const int32_t count = source.keys;
    const Threshold threshold = find_threshold(k, 0, self, shared, [&](const Digit& digit) {
        each_key(source, count, self, [&](int32_t i, uint32_t key) {
            if (i < count) count_digit(key, digit, ptx::cvta_to_shared(shared.histogram));
        });
    });
    map_streamed(source, threshold, maps, self);
    ptx::bar_sync();
    return threshold.ties;
}

// Sorts `count` 64-bit numbers in shared memory, ascending; all threads, which may have stored them just before.
// Bitonic, padded by all ones up to a power of two, which the buffer must hold.
template <int kOfThreads = kThreads>
__device__ __forceinline__ void sort_ascending(ptx::SharedAddr numbers, int32_t count, const Thread& self) {
    int32_t size = 2;
    while (size < count) size *= 2;
#pragma unroll 1
    for (int32_t i = count + static_cast<int32_t>(self.index); i < size; i += kOfThreads)
        ptx::st_shared_u64(numbers + i * 8, ~uint64_t{0});
    ptx::bar_sync();
    for (int32_t width = 2; width <= size; width *= 2) {
        for (int32_t distance = width / 2; distance > 0; distance /= 2) {
#pragma unroll 1
            for (int32_t i = static_cast<int32_t>(self.index); i < size / 2; i += kOfThreads) {
                const int32_t low = 2 * i - (i & (distance - 1)), high = low + distance;
                const uint64_t a = ptx::ld_shared_u64(numbers + low * 8), b = ptx::ld_shared_u64(numbers + high * 8);
                if ((a > b) == ((low & width) == 0)) {
                    ptx::st_shared_u64(numbers + low * 8, b);
                    ptx::st_shared_u64(numbers + high * 8, a);
                }
            }
            ptx::bar_sync();
        }
    }
}

}  // namespace lidx::topk

// SPDX-License-Identifier: Apache-2.0
// The k best of what the shards of a row chose, by the order of preference of topk.cu: the higher score, then the
// smaller position; -0 equals +0, NaN ranks below -inf.
//
// A row is one CTA's. The lists lie in the L2 cache (the caller has just gathered them):
//
//     up to 16384 entries, aligned        scores -> registers, the only time that all are read; others in every pass
//     count the keys that there are       k or fewer: all of them
//     radix selection by score            11, 11 and 10 bits, a histogram each, the first a guess (topk_keys.cuh)
//     radix selection by position         up to three more, only if keys equal to the k-th score are left over
//     keep the chosen                     their order is the threads'; what is sorted next makes it unique
//     sort (topk_sort.cuh)
//
// No map of positions: they may be anywhere in 31 bits, and lists in any order.
#include "kernel/topk_cluster.cuh"
#include "kernel/topk_keys.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "kernel/topk_sort.cuh"
#include "kernel/topk_source.cuh"
#include "kernel/variants.h"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

namespace {

// Where the lists have an entry.
struct Place {
    int32_t shard, number;
};
__device__ __forceinline__ Place place_of(const MergeParams& p, uint32_t entry) {
    const uint32_t shard = entry / static_cast<uint32_t>(p.k_in);
    return {static_cast<int32_t>(shard), static_cast<int32_t>(entry - shard * static_cast<uint32_t>(p.k_in))};
}
__device__ __forceinline__ const int32_t* position_at(const MergeParams& p, int64_t row, const Place& at) {
    return p.positions + row * p.position_row_stride + at.shard * p.position_shard_stride + at.number;
}
__device__ __forceinline__ const float* score_at(const MergeParams& p, int64_t row, const Place& at) {
    return p.scores + row * p.score_row_stride + at.shard * p.score_shard_stride + at.number;
}

// body(position, bits of the score) for every key in the lists of a row.
template <class Body>
__device__ __forceinline__ void each_listed(const MergeParams& p, int64_t row, const Thread& self, Body&& body) {
    constexpr int kUnroll = 4;
#pragma unroll 1
    for (auto base = static_cast<int32_t>(self.index); base < p.entries; base += kUnroll * kMergeThreads) {
        int32_t position[kUnroll];
        uint32_t score[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int32_t entry = base + u * kMergeThreads;
            const Place at = place_of(p, static_cast<uint32_t>(entry));
            const bool exists = entry < p.entries;
            position[u] = static_cast<int32_t>(ptx::ld_global_u32(exists, position_at(p, row, at), ~0u));
            score[u] = ptx::ld_global_u32(exists, score_at(p, row, at), 0);
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
// Of entries that tie in score and position some may be left out, whichever: what they differ in must not show.
__device__ __forceinline__ uint32_t shown_score(uint32_t threshold, const Threshold& place, uint32_t position,
                                                uint32_t score) {
    const bool ties = held_key<Fp32>(__uint_as_float(score)) == threshold && position == ~place.key;
    return place.ties > 0 && ties ? score_bits(fast_key(score)) : score;
}
struct Chosen {
    uint32_t position, score;
};
__device__ __forceinline__ Chosen from_number(SortBy sort_by, uint64_t number) {
    const auto high = static_cast<uint32_t>(number >> 32), low = static_cast<uint32_t>(number);
    if (sort_by == SortBy::kPosition) return {high, low};
    return {low >> 1, (low & 1) != 0 ? kNegativeZero : score_bits(~high)};
}

// ---- entries in registers

// A thread's i-th entry: four at a time are consecutive ones of a list.
__device__ __forceinline__ uint32_t entry_of(int i, const Thread& self) {
    return 4 * (self.index + static_cast<uint32_t>(i / 4) * kMergeThreads) + static_cast<uint32_t>(i % 4);
}

__device__ __forceinline__ void load_entries(const MergeParams& p, int64_t row, const Thread& self,
                                             uint32_t (&keys)[kKeysPerThread]) {
    ptx::F32x4 position[kGroups], score[kGroups];
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        const uint32_t entry = entry_of(4 * j, self);
        const Place at = place_of(p, entry);
        const bool exists = entry < static_cast<uint32_t>(p.entries);
        position[j] = ptx::ld_global_v4_f32(exists, position_at(p, row, at));
        score[j] = ptx::ld_global_v4_f32(exists, score_at(p, row, at));
    }
    const auto key = [](bool exists, float position_bits, float of) {
        return exists && static_cast<int32_t>(__float_as_uint(position_bits)) >= 0 ? held_key<Fp32>(of) : kNoKey;
    };
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        const bool exists = entry_of(4 * j, self) < static_cast<uint32_t>(p.entries);
        keys[4 * j] = key(exists, position[j].x, score[j].x);
        keys[4 * j + 1] = key(exists, position[j].y, score[j].y);
        keys[4 * j + 2] = key(exists, position[j].z, score[j].z);
        keys[4 * j + 3] = key(exists, position[j].w, score[j].w);
    }
}

// Keys equal to `key` become ~position, all others kNoKey.
__device__ __forceinline__ void load_tied(const MergeParams& p, int64_t row, uint32_t key, const Thread& self,
                                          uint32_t (&keys)[kKeysPerThread]) {
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) {
        if (keys[i] == key)
            keys[i] = ~ptx::ld_global_u32(position_at(p, row, place_of(p, entry_of(i, self))));
        else keys[i] = kNoKey;
    }
}

// Of 32 entries, one a lane.
__device__ __forceinline__ uint32_t load_sample(const MergeParams& p, int64_t row, uint32_t lane) {
    const Place at = place_of(p, lane * (static_cast<uint32_t>(p.entries) / 32));
    const uint32_t position = ptx::ld_global_u32(position_at(p, row, at));
    const uint32_t score = ptx::ld_global_u32(score_at(p, row, at));
    return static_cast<int32_t>(position) >= 0 ? score : kNanBits;
}

// The entries with a bit in `chosen` -> the list, in no particular order; then the numbers to sort, in its stead.
// threshold, place: that of scores, and of positions.
__device__ __forceinline__ void keep_entries(const MergeParams& p, int64_t row, uint32_t chosen, uint32_t threshold,
                                             const Threshold& place, int32_t count, const Thread& self,
                                             MergeLayout& shared) {
    const ptx::SharedAddr list = ptx::cvta_to_shared(shared.list);
    const auto mine = static_cast<uint32_t>(__popc(chosen));
    const uint32_t inclusive = warp_inclusive_sum(mine, self.lane());
    uint32_t at = 0;
    if (self.lane() == 31) at = ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.stored), inclusive);
    at = ptx::shfl_sync_idx(at, 31, ptx::kFullMask) + inclusive - mine;
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) {
        const bool wanted = (chosen & 1u << i) != 0;
        ptx::st_shared_u32(wanted && at < kMaxK, list + at * 4, entry_of(i, self));
        at += static_cast<uint32_t>(wanted);
    }
    ptx::bar_sync();
    constexpr int kEach = kMaxK / kMergeThreads;
    uint32_t position[kEach], score[kEach];
    const auto number_of = [&](int j) { return j * kMergeThreads + static_cast<int32_t>(self.index); };
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (number_of(j) >= count) break;
        const uint32_t entry = ptx::ld_shared_u32(list + number_of(j) * 4);
        const Place place = place_of(p, min(entry, static_cast<uint32_t>(p.entries) - 1));   // whatever is there
        position[j] = ptx::ld_global_u32(position_at(p, row, place));
        score[j] = ptx::ld_global_u32(score_at(p, row, place));
    }
    ptx::bar_sync();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (number_of(j) >= count) break;
        ptx::st_shared_u64(list + number_of(j) * 8,
                           sort_number(p.sort_by, position[j], shown_score(threshold, place, position[j], score[j])));
    }
}

// ---- thresholds

// Chosen are keys above a score's threshold; of those equal to it positions that are, as ~position, above a threshold
// of their own; and of keys equal to both (the same, listed more than once) the first that come: whether this one is.
__device__ __forceinline__ bool is_next(const Threshold& place, MergeLayout& shared) {
    return place.ties > 0 &&
           static_cast<int32_t>(ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.equal), 1)) < place.ties;
}
__device__ __forceinline__ Rounds<0> of_positions(const Threshold& score) {
    return {Digit{}, static_cast<uint32_t>(score.ties), false};
}

// Adds a key of many; those outside a guess go to the bins at the ends.
__device__ __forceinline__ void count_key(uint32_t key, const Rounds<0>& rounds, ptx::SharedAddr histogram) {
    const Digit& digit = rounds.digit;
    count_digit(rounds.guess ? min(max(key, digit.base), digit.base + digit.span) : key, digit, histogram);
}

// The chosen of a row's entries -> numbers to sort. `rounds` begins the search of a threshold, if not all are chosen.
__device__ __forceinline__ void keep_held(const MergeParams& p, int64_t row, const Rounds<0>& rounds, bool search,
                                          int32_t count, const Thread& self, MergeLayout& shared,
                                          uint32_t (&keys)[kKeysPerThread]) {
    const ptx::SharedAddr nowhere = ptx::cvta_to_shared(&shared.nowhere[self.lane()]);
    const auto count_all = [&](const Rounds<0>& now, ptx::SharedAddr histogram) {
        count_keys(keys, kGroups, now, histogram, nowhere);
    };
    Threshold score{kNoKey, 0};
    if (search) score = find_held_threshold<kMergeThreads>(rounds, self, shared, count_all);
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) chosen |= static_cast<uint32_t>(keys[i] > score.key) << i;
    Threshold place{0, 0};
    if (score.ties > 0) {
        load_tied(p, row, score.key, self, keys);
        place = find_held_threshold<kMergeThreads>(of_positions(score), self, shared, count_all);
#pragma unroll
        for (int i = 0; i < kKeysPerThread; ++i)
            if (keys[i] > place.key || (keys[i] == place.key && is_next(place, shared))) chosen |= 1u << i;
    }
    keep_entries(p, row, chosen, score.key, place, count, self, shared);
}

__device__ __forceinline__ void keep_listed(const MergeParams& p, int64_t row, const Rounds<0>& rounds, bool search,
                                            const Thread& self, MergeLayout& shared) {
    const auto key_of = [](uint32_t bits) { return held_key<Fp32>(__uint_as_float(bits)); };
    Threshold score{kNoKey, 0}, place{0, 0};
    if (search)
        score = find_held_threshold<kMergeThreads>(
            rounds, self, shared, [&](const Rounds<0>& now, ptx::SharedAddr histogram) {
                each_listed(p, row, self, [&](uint32_t, uint32_t bits) { count_key(key_of(bits), now, histogram); });
            });
    if (score.ties > 0)
        place = find_held_threshold<kMergeThreads>(
            of_positions(score), self, shared, [&](const Rounds<0>& now, ptx::SharedAddr histogram) {
                each_listed(p, row, self, [&](uint32_t position, uint32_t bits) {
                    if (key_of(bits) == score.key) count_key(~position, now, histogram);
                });
            });
    each_listed(p, row, self, [&](uint32_t position, uint32_t bits) {
        const uint32_t key = key_of(bits);
        const bool tied = score.ties > 0 && key == score.key;
        if (!(key > score.key ||
              (tied && (~position > place.key || (~position == place.key && is_next(place, shared))))))
            return;
        const uint32_t at = ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.stored), 1);
        if (at < kMaxK)
            ptx::st_shared_u64(ptx::cvta_to_shared(shared.list) + at * 8,
                               sort_number(p.sort_by, position, shown_score(score.key, place, position, bits)));
    });
}

__device__ __forceinline__ void merge(const MergeParams& p) {
    __shared__ MergeLayout shared;
    const Thread self{ptx::tid_x()};
    const int64_t row = ptx::ctaid_x();
    const ptx::SharedAddr numbers = ptx::cvta_to_shared(shared.list);
    const ptx::SharedAddr stored = ptx::cvta_to_shared(&shared.stored);
    if (self.index == 0) ptx::st_shared_v4_u32(stored, {0, 0, 0, 0});
    clear<kMergeThreads>(ptx::cvta_to_shared(shared.histogram), kBins, self);
    const uint32_t sample = load_sample(p, row, self.lane());
    uint32_t keys[kKeysPerThread];
    uint32_t own = 0;
    if (p.held) {
        load_entries(p, row, self, keys);
#pragma unroll
        for (int i = 0; i < kKeysPerThread; ++i) own += static_cast<uint32_t>(keys[i] != kNoKey);
    } else {
        each_listed(p, row, self, [&](uint32_t, uint32_t) { ++own; });
    }
    own = ptx::redux_sync_add_u32(own, ptx::kFullMask);
    ptx::bar_sync();   // counts are cleared
    if (self.lane() == 0) ptx::red_shared_add_u32(ptx::cvta_to_shared(&shared.listed), own);
    ptx::bar_sync();
    const auto listed = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.listed)));
    const int32_t count = listed < p.k ? listed : p.k;

    const Rounds<0> rounds = first_round<Fp32>(sample, p.k, listed);
    if (p.held) keep_held(p, row, rounds, count < listed, count, self, shared, keys);
    else keep_listed(p, row, rounds, count < listed, self, shared);
    sort_by_bins<kMergeThreads>(numbers, count, self, shared);
#pragma unroll 1
    for (auto i = static_cast<int32_t>(self.index); i < p.k; i += kMergeThreads) {
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

#define LIDX_TOPK_MERGE_KERNEL(symbol)                                        \
    extern "C" __global__ void __launch_bounds__(lidx::topk::kMergeThreads, 1) \
    symbol(const __grid_constant__ lidx::topk::MergeParams p) {               \
        lidx::topk::merge(p);                                                 \
    }
LIDX_TOPK_MERGE_VARIANTS(LIDX_TOPK_MERGE_KERNEL)

// SPDX-License-Identifier: Apache-2.0
// The k largest scores of every row whose keys all fit the registers of its CTAs, exactly; from sm_90 on. The order of
// preference, and so the result, is that of topk.cu.
//
// A row is one CTA's, or a cluster's of up to 16: each CTA holds a part of up to 8192 keys in registers, 16 a thread,
// after the only time that the scores are read. Rounds of 11, 11 and 10 bits: each CTA counts a digit of its keys in a
// histogram, and finds the bin of the k-th key of the row by its own reads of all histograms of the cluster, coarse
// ones (32 bins) first. The same reads give the keys above in the parts before its own, so that each CTA writes its
// positions where they belong. Nothing else is exchanged: no workspace, no atomics on global memory, and whatever the
// scores are, the work is the same.
//
//     scores -> registers -> histograms -> threshold, keys chosen before mine -> positions, ascending -> indices
//
// Budget: a part is 32 KiB (512 clocks at 64 bytes per clock of an SM); a round is a barrier of the cluster and two
// reads of other CTAs' shared memory, about 1100 clocks, and most rows need two. Two CTAs an SM.
#include <type_traits>

#include "kernel/topk_cluster.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_row.cuh"
#include "kernel/topk_select.cuh"
#include "kernel/topk_source.cuh"
#include "kernel/variants.h"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

extern __shared__ __align__(16) uint8_t dynamic_shared[];

namespace {

// Of a key that does not exist, below all others, NaN included.
inline constexpr uint32_t kNoKey = 0;

// ordered_key() + 2, so that NaN is 1: x + 0 takes the sign off a zero and makes every NaN 0x7fffffff, which counts on
// from +inf round to there. Keys of bf16 scores differ in their upper half alone: they need two digits.
template <class Score>
inline constexpr int kLastShift = Score::kBytes == 2 ? 10 : -1;
template <class Score>
__device__ __forceinline__ uint32_t held_key(float score) {
    const uint32_t bits = __float_as_uint(ptx::add_rn_f32(score, 0.0f));
    const uint32_t key = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return Score::kBytes == 2 ? (key & 0xffff0000u) + 0x20000u : key + 2;
}

// A CTA's keys of a row: [begin, begin + keys) of those to choose from.
struct Part {
    int32_t begin, keys;
};
inline constexpr int kGroups = kKeysPerThread / 4;
inline constexpr int32_t kGroupKeys = 4 * kThreads;   // keys[4 j + c] is key kGroupKeys j + 4 t + c of the part

template <class Score>
__device__ __forceinline__ void load_keys(const uint8_t* base, const Part& part, const Thread& self,
                                          uint32_t (&keys)[kKeysPerThread]) {
    const int32_t first = 4 * static_cast<int32_t>(self.index);
    const uint8_t* own = base + int64_t{first} * Score::kBytes;
    float score[kGroups][4];
    if (reinterpret_cast<uintptr_t>(base) % (4 * Score::kBytes) == 0) {
        // The group that lacks some of its four is one thread's.
        const int32_t rest = part.keys % 4, tail = part.keys - rest;
        const bool owns = rest != 0 && tail % kGroupKeys == first;
        uint32_t edge[3] = {};
        if (owns) {
#pragma unroll
            for (int c = 0; c < 3; ++c)
                edge[c] = Score::load(c < rest, base + int64_t{tail + c} * Score::kBytes, kNanBits);
        }
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
            Score::load4(first + j * kGroupKeys + 4 <= part.keys, own + int64_t{j} * kGroupKeys * Score::kBytes,
                         score[j]);
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) keys[4 * j + c] = held_key<Score>(score[j][c]);
            if ((j + 1) * kGroupKeys <= part.keys) continue;   // all threads' groups are whole
#pragma unroll
            for (int c = 0; c < 4; ++c)
                if (first + j * kGroupKeys + 4 > part.keys) keys[4 * j + c] = kNoKey;
        }
        if (owns) {
#pragma unroll
            for (int j = 0; j < kGroups; ++j)
#pragma unroll
                for (int c = 0; c < 3; ++c)
                    if (tail / kGroupKeys == j && c < rest) keys[4 * j + c] = held_key<Score>(__uint_as_float(edge[c]));
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c)
            score[j][c] = __uint_as_float(Score::load(first + j * kGroupKeys + c < part.keys,
                                                      own + int64_t{j * kGroupKeys + c} * Score::kBytes, kNanBits));
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c)
            keys[4 * j + c] = first + j * kGroupKeys + c < part.keys ? held_key<Score>(score[j][c]) : kNoKey;
}

__device__ __forceinline__ void count_keys(const uint32_t (&keys)[kKeysPerThread], int32_t groups, uint32_t prefix,
                                           uint32_t mask, uint32_t low, ptx::SharedAddr histogram) {
    if (mask == 0) {   // no key needs a branch
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
            if (j >= groups) break;
#pragma unroll
            for (int c = 0; c < 4; ++c) ptx::red_shared_add_u32(histogram + (keys[4 * j + c] >> 21) * 4, 1);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        if (j >= groups) break;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint32_t rest = keys[4 * j + c] ^ prefix;
            if (rest <= ~mask) ptx::red_shared_add_u32(histogram + (rest >> low) * 4, 1);
        }
    }
}

// ---- positions

// How many bits of all masks of the CTA lie before each of this thread's four groups of four, and in all.
struct Ranks {
    uint32_t of[kGroups];
    uint32_t all;
};
__device__ __forceinline__ Ranks ranks_of(uint32_t mask, const Thread& self, SearchLayout& shared, int slot) {
    static_assert(kGroups == 4 && kWarps <= 32);
    uint32_t bits = mask - (mask >> 1 & 0x5555u);
    bits = (bits & 0x3333u) + (bits >> 2 & 0x3333u);
    // A byte a group: up to 4 of a thread, 128 of a warp; 16 bits hold a CTA's 2048.
    const uint32_t own = (bits & 0xfu) | (bits & 0xf0u) << 4 | (bits & 0xf00u) << 8 | (bits & 0xf000u) << 12;
    const uint32_t inclusive = warp_inclusive_sum(own, self.lane());
    if (self.lane() == 31) ptx::st_shared_u32(ptx::cvta_to_shared(&shared.warp_total[slot][self.warp()]), inclusive);
    ptx::bar_sync();
    uint32_t even = 0, odd = 0;   // groups 0 and 2, groups 1 and 3
    if (self.lane() < kWarps) {
        even = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.warp_total[slot][self.lane()]));
        odd = even >> 8 & 0x00ff00ffu;
        even &= 0x00ff00ffu;
    }
    const uint32_t all_even = ptx::redux_sync_add_u32(even, ptx::kFullMask);
    const uint32_t all_odd = ptx::redux_sync_add_u32(odd, ptx::kFullMask);
    if (self.lane() >= self.warp()) even = odd = 0;
    even = ptx::redux_sync_add_u32(even, ptx::kFullMask);
    odd = ptx::redux_sync_add_u32(odd, ptx::kFullMask);
    const uint32_t exclusive = inclusive - own;
    Ranks ranks;
    ranks.of[0] = (even & 0xffffu) + (exclusive & 0xffu);
    ranks.all = all_even & 0xffffu;
    ranks.of[1] = ranks.all + (odd & 0xffffu) + (exclusive >> 8 & 0xffu);
    ranks.all += all_odd & 0xffffu;
    ranks.of[2] = ranks.all + (even >> 16) + (exclusive >> 16 & 0xffu);
    ranks.all += all_even >> 16;
    ranks.of[3] = ranks.all + (odd >> 16) + (exclusive >> 24);
    ranks.all += all_odd >> 16;
    return ranks;
}

// The first `limit` of the CTA's bits.
__device__ __forceinline__ uint32_t first_bits(uint32_t mask, uint32_t limit, const Thread& self,
                                               SearchLayout& shared) {
    const Ranks ranks = ranks_of(mask, self, shared, 1);
    uint32_t kept = 0;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        uint32_t at = ranks.of[j];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint32_t bit = mask & 1u << (4 * j + c);
            if (bit != 0 && at++ < limit) kept |= bit;
        }
    }
    return kept;
}

// Entry `slot` of the row's results: a position in the row, or -1.
template <class Score>
__device__ __forceinline__ void write_slot(const TopkParams& p, const RowKeys& row, int32_t offset, int32_t slot,
                                           int32_t position) {
    int32_t index = position + offset;
    if (position < 0) index = -1;
    else if (p.index_kind == IndexKind::kPhysical) index = physical_slot(p, row, index);
    ptx::st_global_u32(p.indices + row.row * p.index_stride + slot, static_cast<uint32_t>(index));
    if (!p.top_scores) return;
    const uint8_t* score = row_scores<Score>(p, row) + int64_t{position} * Score::kBytes;
    ptx::st_global_u32(p.top_scores + row.row * p.top_score_stride + slot,
                       Score::load(position >= 0, score, 0xff800000u));
}

// What is in the slots that are not chosen from: forced keys, or all keys of a short row; -1 after them.
__device__ __forceinline__ int32_t rest_position(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                                 int32_t slot) {
    if (slot < choice.begin) return slot;
    if (slot >= choice.count()) return -1;
    const int32_t newest = row.keys.size() - p.forced_last;
    return (newest > choice.begin ? newest : choice.begin) + slot - choice.begin - choice.k;
}

// numbers: ~key, then position, of the chosen; all threads of one CTA.
template <class Score>
__device__ __forceinline__ void write_sorted(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                             ptx::SharedAddr numbers, const Thread& self) {
    const int32_t count = choice.count();
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < count - choice.k; i += kThreads) {
        const int32_t slot = i < choice.begin ? i : i + choice.k;
        const int32_t at = rest_position(p, row, choice, slot);
        const bool forced = at < p.forced_first || at >= row.keys.size() - p.forced_last;
        uint32_t key = kForcedKey;
        if (!forced)
            key = fast_key(Score::load(true, row_scores<Score>(p, row) + int64_t{at} * Score::kBytes, kNanBits));
        ptx::st_shared_u64(numbers + slot * 8, uint64_t{~key} << 32 | static_cast<uint32_t>(at));
    }
    ptx::bar_sync();
    sort_ascending(numbers, count, self);
    const int32_t offset = count > 0 ? index_offset(p, row) : 0;
#pragma unroll 1
    for (int32_t slot = static_cast<int32_t>(self.index); slot < p.k; slot += kThreads) {
        const auto at = static_cast<int32_t>(ptx::ld_shared_u64(numbers + slot * 8));
        write_slot<Score>(p, row, offset, slot, slot < count ? at : -1);
    }
}

// What the first CTA of a row writes alone.
template <class Score>
__device__ __forceinline__ void write_rest(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                           ptx::SharedAddr numbers, const Thread& self) {
    if (p.counts && self.index == 0)
        ptx::st_global_u32(p.counts + row.row, static_cast<uint32_t>(choice.count()));
    if (p.sort_by == SortBy::kScore) return write_sorted<Score>(p, row, choice, numbers, self);
    if (p.k == choice.k) return;
    const int32_t offset = choice.count() > 0 ? index_offset(p, row) : 0;
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < p.k - choice.k; i += kThreads) {
        const int32_t slot = i < choice.begin ? i : i + choice.k;
        write_slot<Score>(p, row, offset, slot, rest_position(p, row, choice, slot));
    }
}

// A chosen key into the numbers of the row, which its first CTA has.
template <bool kCluster>
__device__ __forceinline__ void put_number(ptx::SharedAddr to, uint32_t key, uint32_t position) {
    const uint64_t number = uint64_t{~key} << 32 | position;
    if constexpr (kCluster) ptx::st_shared_cluster_u64(ptx::mapa_shared_cluster(to, 0), number);
    else ptx::st_shared_u64(to, number);
}

// A thread's chosen keys, bit i: keys[i].
struct Chosen {
    uint32_t bits;
    uint32_t before;   // chosen in the parts before this one
};
template <class Score, bool kCluster, class Layout>
__device__ __forceinline__ Chosen choose(const uint32_t (&keys)[kKeysPerThread], const Part& part, int32_t row_keys,
                                         int32_t k, int32_t ctas, uint32_t rank, const Thread& self, Layout& shared) {
    const int32_t groups = (part.keys + kGroupKeys - 1) / kGroupKeys;
    const auto count = [&](uint32_t prefix, uint32_t mask, uint32_t low, ptx::SharedAddr histogram) {
        count_keys(keys, groups, prefix, mask, low, histogram);
    };
    Share share{};
    if constexpr (kCluster) {
        share = find_cluster_threshold<kLastShift<Score>>(k, rank, parts_of(row_keys, ctas), self, shared, count);
    } else {
        share.threshold = find_threshold<kLastShift<Score>>(
            k, 0, self, shared, [&](uint32_t prefix, uint32_t mask, uint32_t low) {
                count(prefix, mask, low, ptx::cvta_to_shared(shared.histogram));
            });
    }
    Chosen chosen{0, share.before};
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) chosen.bits |= static_cast<uint32_t>(keys[i] > share.threshold.key) << i;
    const auto ties = static_cast<uint32_t>(share.threshold.ties);
    chosen.before += ties < share.equal_before ? ties : share.equal_before;
    if (ties <= share.equal_before) return chosen;
    uint32_t equal = 0;
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) equal |= static_cast<uint32_t>(keys[i] == share.threshold.key) << i;
    chosen.bits |= first_bits(equal, ties - share.equal_before, self, shared);
    return chosen;
}

template <class Score, bool kCluster>
__device__ __forceinline__ void select(const TopkParams& p) {
    using Layout = std::conditional_t<kCluster, ClusterLayout, HeldLayout>;
    auto& shared = *reinterpret_cast<Layout*>(dynamic_shared);
    const ptx::SharedAddr own_row = ptx::cvta_to_shared(&shared.row);
    const ptx::SharedAddr numbers = ptx::cvta_to_shared(dynamic_shared) + sizeof(Layout);
    const Thread self{ptx::tid_x()};
    const uint32_t rank = kCluster ? ptx::cluster_ctarank() : 0;
    if constexpr (kCluster) clear(ptx::cvta_to_shared(&shared.counts), sizeof(ClusterCounts) / 4, self);
    else clear(ptx::cvta_to_shared(shared.histogram), kBins, self);
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    if (self.index == 0) {
        const uint32_t index = ptx::ctaid_x() / (kCluster ? static_cast<uint32_t>(p.slices) : 1);
        find_row(p, p.view.first_row + static_cast<int32_t>(index), own_row);
    }
    ptx::bar_sync();
    const auto part_of = [&](const Choice& choice) {
        if (!kCluster) return Part{0, choice.keys};
        const int32_t each = part_keys(choice.keys, p.slices), begin = static_cast<int32_t>(rank) * each;
        return Part{begin, choice.keys - begin < each ? choice.keys - begin : each};
    };

    uint32_t keys[kKeysPerThread];
    Chosen chosen{0, 0};
    {
        const RowKeys row = load_row(own_row);
        const Choice choice = choice_of(p, row.keys.size());
        const Part part = part_of(choice);
        if (rank != 0 && part.keys <= 0) return;   // a short row needs fewer CTAs
        if (choice.k > 0) {
            load_keys<Score>(row_scores<Score>(p, row) + int64_t{choice.begin + part.begin} * Score::kBytes, part, self,
                             keys);
            chosen = choose<Score, kCluster>(keys, part, choice.keys, choice.k, p.slices, rank, self, shared);
        }
    }
    const RowKeys row = load_row(own_row);   // anew: cheaper than registers until here
    const Choice choice = choice_of(p, row.keys.size());
    const bool waits = kCluster && choice.k > 0;   // until no other CTA reads its histograms
    if (waits && p.sort_by != SortBy::kScore) ptx::barrier_cluster_arrive();
    if (choice.k > 0) {
        const Ranks ranks = ranks_of(chosen.bits, self, shared, 0);
        const uint32_t at = choice.begin + part_of(choice).begin + 4 * self.index;
        const uint32_t slots = choice.begin + chosen.before;   // the first of the CTA's
        const bool sorted = p.sort_by == SortBy::kScore;
        const ptx::SharedAddr list = sorted ? numbers + slots * 8 : ptx::cvta_to_shared(shared.list);
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
            uint32_t slot = ranks.of[j];
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const bool is_chosen = (chosen.bits & 1u << (4 * j + c)) != 0;
                const uint32_t position = at + j * kGroupKeys + c;
                if (!sorted) ptx::st_shared_u32(is_chosen, list + slot * 4, position);
                else if (is_chosen) put_number<kCluster>(list + slot * 8, keys[4 * j + c], position);
                slot += is_chosen;
            }
        }
        if (!sorted) {
            ptx::bar_sync();
            const int32_t offset = index_offset(p, row);
#pragma unroll 1
            for (uint32_t i = self.index; i < ranks.all; i += kThreads)
                write_slot<Score>(p, row, offset, static_cast<int32_t>(slots + i),
                                  static_cast<int32_t>(ptx::ld_shared_u32(list + i * 4)));
        } else if (waits) {
            ptx::barrier_cluster_arrive();
        }
    }
    if (waits && p.sort_by == SortBy::kScore) ptx::barrier_cluster_wait();   // all numbers are there
    if (rank == 0) write_rest<Score>(p, row, choice, numbers, self);
    if (waits && p.sort_by != SortBy::kScore) ptx::barrier_cluster_wait();
}

}  // namespace
}  // namespace lidx::topk

#define LIDX_TOPK_HELD_KERNEL(symbol, score, cluster)                            \
    extern "C" __global__ void __launch_bounds__(lidx::topk::kThreads, 2)        \
    symbol(const __grid_constant__ lidx::topk::TopkParams p) {                   \
        lidx::topk::select<lidx::topk::score, cluster>(p);                       \
    }
LIDX_TOPK_HELD_VARIANTS(LIDX_TOPK_HELD_KERNEL)

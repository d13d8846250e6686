// SPDX-License-Identifier: Apache-2.0
// The k largest scores of every row whose keys all fit the registers of its CTAs, exactly; from sm_90 on. The order of
// preference, and so the result, is that of topk.cu.
//
// A row is one CTA's, or a cluster's of up to 16: each CTA holds a part in registers, 16 or 32 keys a thread, after the
// only time that the scores are read. Rounds of 11, 11 and 10 bits: each CTA counts a digit of its keys in a histogram,
// and finds the bin of the k-th key of the row by its own reads of the others' histograms. The same reads give the keys
// above in the parts before its own, so that each CTA writes its positions where they belong. Nothing else is
// exchanged: no workspace, no atomics on global memory, and the scores decide only how many rounds there are.
//
//     scores -> registers -> histograms -> threshold, keys chosen before mine -> positions, ascending -> indices
//
// Budget: 8192 keys are 32 KiB (512 clocks at 64 bytes per clock of an SM) and about 1200 instructions a warp, half of
// them a few for each key; with one CTA an SM that is half the time, barriers and latency the rest. A round of a
// cluster is about 3000 clocks, 250 of them its barrier. Rows of 8192 keys need two rounds, of 131072 often three.
#include <type_traits>

#include "kernel/topk_cluster.cuh"
#include "kernel/topk_keys.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_output.cuh"
#include "kernel/topk_row.cuh"
#include "kernel/topk_select.cuh"
#include "kernel/topk_source.cuh"
#include "kernel/variants.h"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

extern __shared__ __align__(16) uint8_t dynamic_shared[];

namespace {

// A CTA's keys of a row: [begin, begin + keys) of those to choose from. A warp has `each` consecutive ones from
// warp * each on, a multiple of 128 so that all warps have some; keys[4 j + c] is the warp's key 128 j + 4 lane + c.
struct Part {
    int32_t begin, keys, each;
    __device__ __forceinline__ int32_t first(const Thread& self) const {
        return static_cast<int32_t>(self.warp()) * each + 4 * static_cast<int32_t>(self.lane());
    }
    __device__ __forceinline__ int32_t groups() const { return each / kGroupKeys; }   // of a lane
};

template <class Score, int kKeys>
__device__ __forceinline__ void load_keys(const uint8_t* base, const Part& part, const Thread& self,
                                          uint32_t (&keys)[kKeys]) {
    constexpr int kGroups = kKeys / 4;
    const int32_t first = part.first(self), warp_end = first - 4 * static_cast<int32_t>(self.lane()) + part.each;
    const int32_t end = part.keys < warp_end ? part.keys : warp_end;
    const uint8_t* own = base + int64_t{first} * Score::kBytes;
    const bool whole = warp_end <= part.keys && part.each == kGroups * kGroupKeys;   // the warp's keys all exist
    float score[kGroups][4];
    if (reinterpret_cast<uintptr_t>(base) % (4 * Score::kBytes) == 0) {
        // The group that lacks some of its four is one thread's.
        const int32_t rest = part.keys % 4, tail = part.keys - rest;
        const bool owns = rest != 0 && tail < end && tail >= first && (tail - first) % kGroupKeys == 0;
        uint32_t edge[3] = {};
        if (owns) {
#pragma unroll
            for (int c = 0; c < 3; ++c)
                edge[c] = Score::load(c < rest, base + int64_t{tail + c} * Score::kBytes, kNanBits);
        }
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
            Score::load4(first + j * kGroupKeys + 4 <= end, own + int64_t{j} * kGroupKeys * Score::kBytes, score[j]);
#pragma unroll
        for (int i = 0; i < kKeys; ++i) keys[i] = held_key<Score>(score[i / 4][i % 4]);
        if (whole) return;
#pragma unroll
        for (int i = 0; i < kKeys; ++i)
            if (first + i / 4 * kGroupKeys + 4 > end) keys[i] = kNoKey;
        if (!owns) return;
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
#pragma unroll
            for (int c = 0; c < 3; ++c)
                if (tail - first == j * kGroupKeys && c < rest)
                    keys[4 * j + c] = held_key<Score>(__uint_as_float(edge[c]));
        return;
    }
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
        const int32_t at = i / 4 * kGroupKeys + i % 4;
        score[i / 4][i % 4] =
            __uint_as_float(Score::load(first + at < end, own + int64_t{at} * Score::kBytes, kNanBits));
    }
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
        const bool exists = first + i / 4 * kGroupKeys + i % 4 < end;
        keys[i] = exists ? held_key<Score>(score[i / 4][i % 4]) : kNoKey;
    }
}

template <class Score>
__device__ __forceinline__ uint32_t load_sample(const uint8_t* base, int32_t keys, uint32_t lane) {
    const auto at = static_cast<int32_t>(lane / 4 * (static_cast<uint32_t>(keys) / 8) + lane % 4);
    return Score::load(at < keys, base + int64_t{at} * Score::kBytes, kNanBits);
}

template <int kKeys>
__device__ __forceinline__ void list_keys(const uint32_t (&keys)[kKeys], int32_t groups, const Digit& digit,
                                          ptx::SharedAddr listed) {
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        if (j >= groups) break;
        uint32_t least = ~0u;
#pragma unroll
        for (int c = 0; c < 4; ++c) least = min(least, keys[4 * j + c] - digit.base);
        if (least > digit.span) continue;
#pragma unroll
        for (int c = 0; c < 4; ++c) list_key(keys[4 * j + c], digit, listed);
    }
}

// ---- positions

// How many bits of all masks of the CTA lie before each of this thread's groups of four, and in all.
template <int kKeys>
struct Ranks {
    uint32_t of[kKeys / 4];
    uint32_t all;
};
template <int kKeys>
__device__ __forceinline__ Ranks<kKeys> ranks_of(uint32_t mask, int warps, const Thread& self, HeldLayout& shared,
                                                 int slot) {
    static_assert(kKeys == 16 || kKeys == 32);
    constexpr int kWords = kKeys / 16;   // of four groups each
    uint32_t bits = mask - (mask >> 1 & 0x55555555u);
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    uint32_t own[kWords], inclusive[kWords], totals[kWords], of_warp = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
        // A byte a group: up to 4 of a lane, 128 of a warp.
        const uint32_t four = bits >> 16 * w;
        own[w] = (four & 0xfu) | (four & 0xf0u) << 4 | (four & 0xf00u) << 8 | (four & 0xf000u) << 12;
        inclusive[w] = own[w];
    }
#pragma unroll
    for (uint32_t delta = 1; delta < 32; delta *= 2) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            const uint32_t below = ptx::shfl_sync_up(inclusive[w], delta, ptx::kFullMask);
            if (self.lane() >= delta) inclusive[w] += below;
        }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
        totals[w] = ptx::shfl_sync_idx(inclusive[w], 31, ptx::kFullMask);
        const uint32_t pairs = (totals[w] & 0x00ff00ffu) + (totals[w] >> 8 & 0x00ff00ffu);
        of_warp += (pairs & 0xffffu) + (pairs >> 16);
    }
    const ptx::SharedAddr of_warps = ptx::cvta_to_shared(shared.warp_total[slot]);
    if (self.lane() == 0) ptx::st_shared_u32(of_warps + self.warp() * 4, of_warp);
    ptx::bar_sync();
    uint32_t total = 0;
    if (static_cast<int>(self.lane()) < warps) total = ptx::ld_shared_u32(of_warps + self.lane() * 4);
    Ranks<kKeys> ranks;
    ranks.all = ptx::redux_sync_add_u32(total, ptx::kFullMask);
    uint32_t before = ptx::redux_sync_add_u32(self.lane() < self.warp() ? total : 0, ptx::kFullMask);
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        ranks.of[j] = before + (inclusive[j / 4] - own[j / 4] >> 8 * (j % 4) & 0xffu);
        before += totals[j / 4] >> 8 * (j % 4) & 0xffu;
    }
    return ranks;
}

// The first `limit` of the CTA's bits.
template <int kKeys>
__device__ __forceinline__ uint32_t first_bits(uint32_t mask, uint32_t limit, int warps, const Thread& self,
                                               HeldLayout& shared) {
    const Ranks<kKeys> ranks = ranks_of<kKeys>(mask, warps, self, shared, 1);
    uint32_t kept = 0;
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        uint32_t at = ranks.of[j];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint32_t bit = mask & 1u << (4 * j + c);
            if (bit != 0 && at++ < limit) kept |= bit;
        }
    }
    return kept;
}

// A thread's chosen keys, bit i: keys[i].
struct Chosen {
    uint32_t bits;
    uint32_t before;   // chosen in the parts before this one
};
template <Held kForm, class Layout, int kSame, int kKeys>
__device__ __forceinline__ Chosen choose(const uint32_t (&keys)[kKeys], const Part& part, const Rounds<kSame>& first,
                                         int32_t row_keys, int32_t ctas, uint32_t rank, const Thread& self,
                                         Layout& shared) {
    constexpr int kOfThreads = held_form(kForm).threads;
    const ptx::SharedAddr nowhere = ptx::cvta_to_shared(&shared.nowhere[self.lane()]);
    const auto count = [&](const Rounds<kSame>& rounds, ptx::SharedAddr histogram) {
        count_keys(keys, part.groups(), rounds, histogram, nowhere);
    };
    Share share{};
    if constexpr (kForm == Held::kAlone) {
        share.threshold = find_held_threshold<kOfThreads>(first, self, shared, count);
    } else if constexpr (kForm == Held::kWide) {
        const auto list = [&](const Digit& digit, ptx::SharedAddr listed) {
            list_keys(keys, part.groups(), digit, listed);
        };
        share = find_parts_threshold<kOfThreads>(first, rank, parts_of(row_keys, ctas), self, shared, count, list);
    } else {
        share = find_parts_threshold<kOfThreads>(first, rank, parts_of(row_keys, ctas), self, shared, count);
    }
    Chosen chosen{0, share.before};
#pragma unroll
    for (int i = 0; i < kKeys; ++i) chosen.bits |= static_cast<uint32_t>(keys[i] > share.threshold.key) << i;
    const auto ties = static_cast<uint32_t>(share.threshold.ties);
    chosen.before += ties < share.equal_before ? ties : share.equal_before;
    if (ties <= share.equal_before) return chosen;
    uint32_t equal = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) equal |= static_cast<uint32_t>(keys[i] == share.threshold.key) << i;
    chosen.bits |= first_bits<kKeys>(equal, ties - share.equal_before, kOfThreads / 32, self, shared);
    return chosen;
}

template <class Score, Held kForm>
__device__ __forceinline__ void select(const TopkParams& p) {
    constexpr bool kCluster = kForm != Held::kAlone;
    constexpr int kOfThreads = held_form(kForm).threads, kKeys = held_form(kForm).keys, kGroups = kKeys / 4;
    using Layout = std::conditional_t<kCluster, ClusterLayout, HeldLayout>;
    auto& shared = *reinterpret_cast<Layout*>(dynamic_shared);
    const ptx::SharedAddr own_row = ptx::cvta_to_shared(&shared.row), places = ptx::cvta_to_shared(&shared.places);
    const ptx::SharedAddr numbers = ptx::cvta_to_shared(dynamic_shared) + sizeof(Layout);
    const Thread self{ptx::tid_x()};
    const uint32_t rank = kCluster ? ptx::cluster_ctarank() : 0;
    if constexpr (kCluster)
        clear<kOfThreads>(ptx::cvta_to_shared(&shared.counts), kZeroCountWords, self);
    else OwnBins<kOfThreads>::clear(ptx::cvta_to_shared(shared.histogram) + OwnBins<kOfThreads>::lowest(self) * 4);
    wait_for_rows(p);
    const auto index = static_cast<int32_t>(ptx::ctaid_x() >> (kCluster ? cluster_bits(p.slices) : 0));
    if (self.warp() == 0) find_row(p, p.view.first_row + index, self.lane(), own_row);
    else if (self.index == 32) place_row<Score>(p, p.view.first_row + index, places);   // meanwhile
    ptx::bar_sync();
    const RowKeys row = load_row(own_row);
    const Choice choice = choice_of(p, row.keys.size());
    Part part{0, choice.keys, 0};
    if constexpr (kCluster) {
        const int32_t each = part_keys(choice.keys, p.slices);
        part.begin = static_cast<int32_t>(rank) * each;
        part.keys = choice.keys - part.begin < each ? choice.keys - part.begin : each;
    }
    part.each = (part.keys + 4 * kOfThreads - 1) / (4 * kOfThreads) * kGroupKeys;
    wait_for_scores(p);
    if (rank != 0 && part.keys <= 0) return;   // a short row needs fewer CTAs
    if (choice.k > 0) {
        uint32_t keys[kKeys];
        const int32_t column = choice.begin + (p.relative != 0 ? 0 : row.keys.begin);
        const uint8_t* const scores =
            reinterpret_cast<const uint8_t*>(ptx::ld_shared_u64(places + offsetof(RowPlaces, scores))) +
            int64_t{column} * Score::kBytes;
        const uint32_t sample = load_sample<Score>(scores, choice.keys, self.lane());
        load_keys<Score>(scores + int64_t{part.begin} * Score::kBytes, part, self, keys);
        const Chosen chosen = choose<kForm>(keys, part, first_round<Score>(sample, choice.k, choice.keys), choice.keys,
                                            p.slices, rank, self, shared);
        const bool sorted = p.sort_by == SortBy::kScore;
        if (kCluster && !sorted) ptx::barrier_cluster_arrive_relaxed();   // the others' histograms are read
        const Ranks<kKeys> ranks = ranks_of<kKeys>(chosen.bits, kOfThreads / 32, self, shared, 0);
        const uint32_t at = choice.begin + part.begin + part.first(self);
        const uint32_t slots = choice.begin + chosen.before;   // the first of the CTA's
        if (!sorted) {
            const ptx::SharedAddr list = ptx::cvta_to_shared(shared.list);
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                uint32_t slot = slots % 4 + ranks.of[j];
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const bool is_chosen = (chosen.bits & 1u << (4 * j + c)) != 0;
                    ptx::st_shared_u32(is_chosen, list + slot * 4, at + j * kGroupKeys + c);
                    slot += is_chosen;
                }
            }
            const int32_t offset = index_offset(p, row);
            const bool positions_alone = p.index_kind != IndexKind::kPhysical && !p.top_scores;
            auto* const results =
                reinterpret_cast<int32_t*>(ptx::ld_shared_u64(places + offsetof(RowPlaces, indices)));
            ptx::bar_sync();
            if (positions_alone) {
                write_list<kOfThreads>(results, offset, static_cast<int32_t>(slots), static_cast<int32_t>(ranks.all),
                                       list, self);
            } else {
#pragma unroll 1
                for (uint32_t i = self.index; i < ranks.all; i += kOfThreads)
                    write_slot<Score>(p, row, offset, static_cast<int32_t>(slots + i),
                                      static_cast<int32_t>(ptx::ld_shared_u32(list + (slots % 4 + i) * 4)));
            }
        } else {
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                ptx::SharedAddr to = numbers + (slots + ranks.of[j]) * 8;
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    if ((chosen.bits & 1u << (4 * j + c)) == 0) continue;
                    const uint64_t number = uint64_t{~keys[4 * j + c]} << 32 | (at + j * kGroupKeys + c);
                    if constexpr (kCluster) ptx::st_shared_cluster_u64(ptx::mapa_shared_cluster(to, 0), number);
                    else ptx::st_shared_u64(to, number);
                    to = to + 8;
                }
            }
            if constexpr (kCluster) {   // the first CTA's numbers are all there
                ptx::barrier_cluster_arrive();
                ptx::barrier_cluster_wait();
            }
        }
    }
    if (rank == 0) write_rest<Score, kOfThreads>(p, row, choice, numbers, self);
    if (kCluster && choice.k > 0 && p.sort_by != SortBy::kScore) ptx::barrier_cluster_wait();
}

}  // namespace
}  // namespace lidx::topk

// 64 registers a thread for 16 keys, 128 for 32.
#define LIDX_TOPK_HELD_KERNEL(symbol, score, form)                                                  \
    extern "C" __global__ void                                                                      \
    __launch_bounds__(lidx::topk::held_form(lidx::topk::Held::form).threads,                        \
                      lidx::topk::held_form(lidx::topk::Held::form).ctas_an_sm)                     \
    symbol(const __grid_constant__ lidx::topk::TopkParams p) {                                      \
        lidx::topk::select<lidx::topk::score, lidx::topk::Held::form>(p);                           \
    }
LIDX_TOPK_HELD_VARIANTS(LIDX_TOPK_HELD_KERNEL)

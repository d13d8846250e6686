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
// Registers hold scores as they came while a digit's bins are all above zero, where they compare as their bits; else,
// from then on, keys. A row of one CTA mostly has one round: few keys share the k-th's bin, and those are listed.
//
// Budget: 8192 keys are 32 KiB (512 clocks at 64 bytes per clock of an SM) and about 650 instructions a warp, more than
// half of them a few for each key; with one CTA an SM that is half the time, barriers and latency the rest. A round of
// a cluster is about 3000 clocks, 250 of them its barrier; there are two, often three for rows of 131072 keys.
#include <type_traits>

#include "kernel/topk_cluster.cuh"
#include "kernel/topk_keys.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_output.cuh"
#include "kernel/topk_part.cuh"
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

// ---- positions

// How many bits of all masks of a warp lie before each of this lane's groups of four, and in all: a byte a group, up to
// 4 of a lane, 128 of a warp.
template <int kKeys>
struct WarpRanks {
    static_assert(kKeys == 16 || kKeys == 32);
    static constexpr int kWords = kKeys / 16;   // of four groups each
    uint32_t before[kWords], totals[kWords];
    uint32_t all;
    __device__ __forceinline__ WarpRanks(uint32_t mask, uint32_t lane) : all(0) {
        uint32_t bits = mask - (mask >> 1 & 0x55555555u);
        bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
        uint32_t own[kWords], inclusive[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            const uint32_t four = bits >> 16 * w;
            own[w] = (four & 0xfu) | (four & 0xf0u) << 4 | (four & 0xf00u) << 8 | (four & 0xf000u) << 12;
            inclusive[w] = own[w];
        }
#pragma unroll
        for (uint32_t delta = 1; delta < 32; delta *= 2) {
#pragma unroll
            for (int w = 0; w < kWords; ++w) {
                const uint32_t below = ptx::shfl_sync_up(inclusive[w], delta, ptx::kFullMask);
                if (lane >= delta) inclusive[w] += below;
            }
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            before[w] = inclusive[w] - own[w];
            totals[w] = ptx::shfl_sync_idx(inclusive[w], 31, ptx::kFullMask);
            const uint32_t pairs = (totals[w] & 0x00ff00ffu) + (totals[w] >> 8 & 0x00ff00ffu);
            all += (pairs & 0xffffu) + (pairs >> 16);
        }
    }
};

// The same of the CTA's masks.
template <int kKeys>
struct Ranks {
    uint32_t of[kKeys / 4];
    uint32_t all;
    __device__ __forceinline__ Ranks(const WarpRanks<kKeys>& of_warp, uint32_t before, uint32_t all) : all(all) {
#pragma unroll
        for (int j = 0; j < kKeys / 4; ++j) {
            of[j] = before + (of_warp.before[j / 4] >> 8 * (j % 4) & 0xffu);
            before += of_warp.totals[j / 4] >> 8 * (j % 4) & 0xffu;
        }
    }
};
template <int kKeys>
__device__ __forceinline__ Ranks<kKeys> ranks_of(uint32_t mask, int warps, const Thread& self, HeldLayout& shared,
                                                 int slot) {
    const WarpRanks<kKeys> of_warp(mask, self.lane());
    const ptx::SharedAddr of_warps = ptx::cvta_to_shared(shared.warp_total[slot]);
    if (self.lane() == 0) ptx::st_shared_u32(of_warps + self.warp() * 4, of_warp.all);
    ptx::bar_sync();
    uint32_t total = 0;
    if (static_cast<int>(self.lane()) < warps) total = ptx::ld_shared_u32(of_warps + self.lane() * 4);
    const uint32_t all = ptx::redux_sync_add_u32(total, ptx::kFullMask);
    return {of_warp, ptx::redux_sync_add_u32(self.lane() < self.warp() ? total : 0, ptx::kFullMask), all};
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

// Counts digits of a part: of scores as long as the rounds are of those, of the keys that they become then.
template <class Score, int kKeys>
struct Counted {
    const Part& part;
    const Thread& self;
    uint32_t (&keys)[kKeys];
    ptx::SharedAddr nowhere;
    bool scores = true;   // in keys[], as bits
    __device__ __forceinline__ void make() {
        if (scores) make_keys<Score>(part, self, keys);
        scores = false;
    }
    template <int kSame>
    __device__ __forceinline__ void count(const Rounds<kSame>& rounds, ptx::SharedAddr histogram) {
        if (rounds.of_scores && rounds.guess)
            return count_scores(keys, part.groups(), rounds.digit.base, histogram);
        if (!rounds.of_scores) make();
        count_keys(keys, part.groups(), rounds, histogram, nowhere);
    }
};

// A thread's chosen keys, bit i: keys[i].
struct Chosen {
    uint32_t bits;
    uint32_t before;   // chosen in the parts before this one
};
template <class Score, int kKeys>
__device__ __forceinline__ Chosen choose(const Counted<Score, kKeys>& counted, const Share& share, int warps,
                                         HeldLayout& shared) {
    const uint32_t (&keys)[kKeys] = counted.keys;
    Chosen chosen{0, share.before};
    if (counted.scores) {
        chosen.bits = above_bits(keys, share.threshold.key);
    } else {
#pragma unroll
        for (int i = 0; i < kKeys; ++i) chosen.bits |= static_cast<uint32_t>(keys[i] > share.threshold.key) << i;
    }
    const auto ties = static_cast<uint32_t>(share.threshold.ties);
    chosen.before += ties < share.equal_before ? ties : share.equal_before;
    if (ties <= share.equal_before) return chosen;
    uint32_t equal = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) equal |= static_cast<uint32_t>(keys[i] == share.threshold.key) << i;
    chosen.bits |= first_bits<kKeys>(equal, ties - share.equal_before, warps, counted.self, shared);
    return chosen;
}

template <Held kForm, class Score, int kKeys>
__device__ __forceinline__ Chosen choose_part(Counted<Score, kKeys>& counted, const Rounds<kSameBits<Score>>& first,
                                              int32_t row_keys, int32_t ctas, uint32_t rank, ClusterLayout& shared) {
    constexpr int kOfThreads = held_form(kForm).threads;
    const Thread& self = counted.self;
    const auto count = [&](const auto& rounds, ptx::SharedAddr histogram) { counted.count(rounds, histogram); };
    Share share;
    if constexpr (kForm == Held::kWide) {
        const auto list = [&](const Digit& digit, ptx::SharedAddr listed) {
            list_keys(counted.keys, counted.part.groups(), digit, listed);
        };
        share = find_parts_threshold<kOfThreads>(first, rank, parts_of(row_keys, ctas), self, shared, count, list);
    } else {
        share = find_parts_threshold<kOfThreads>(first, rank, parts_of(row_keys, ctas), self, shared, count);
    }
    return choose(counted, share, kOfThreads / 32, shared);
}

// ---- a row of one CTA: few keys share the k-th's bin

template <int kOfThreads>
__device__ __forceinline__ void clear_alone(const Thread& self, HeldLayout& shared) {
    OwnBins<kOfThreads>::clear(ptx::cvta_to_shared(shared.histogram) + OwnBins<kOfThreads>::lowest(self) * 4);
    constexpr uint32_t kFirst = kOfThreads - sizeof(shared.few) / 4;
    if (self.index >= kFirst) ptx::st_shared_u32(ptx::cvta_to_shared(shared.few) + (self.index - kFirst) * 4, 0);
}

// How many are told apart at once, a lane each.
static_assert(kFewKeys == 32);
// A key of such a bin as a number that is the larger the earlier the key is chosen: what the keys of a bin do not
// share, and the position.
inline constexpr uint32_t kPositionBits = 13, kPositions = 1u << kPositionBits;
static_assert(held_form(Held::kAlone).cta_keys() <= kPositions && kGuessLow + kPositionBits < 32);

// The first score that is chosen from.
template <class Score>
__device__ __forceinline__ const uint8_t* scores_from(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                                      HeldLayout& shared) {
    const int32_t column = choice.begin + (p.relative != 0 ? 0 : row.keys.begin);
    return reinterpret_cast<const uint8_t*>(ptx::ld_shared_u64(ptx::cvta_to_shared(&shared.places.scores))) +
           int64_t{column} * Score::kBytes;
}

// The `remaining` first of the `count` keys whose scores begin with the upper bits of `bin`, and all above, as bits.
// One barrier, where a round and the sum of chosen keys over the warps have four; ties cost nothing.
template <class Score, int kKeys>
__device__ __forceinline__ Ranks<kKeys> choose_few(const uint32_t (&score)[kKeys], const Part& part,
                                                   const TopkParams& p, const Choice& choice, uint32_t bin,
                                                   uint32_t count, uint32_t remaining, const Thread& self,
                                                   HeldLayout& shared, uint32_t& bits) {
    bits = above_bits(score, bin + (1u << kGuessLow) - 1);
    const uint32_t reached = above_bits(score, bin - 1);
    const ptx::SharedAddr totals = ptx::cvta_to_shared(shared.warp_total[1]);
    const ptx::SharedAddr few = ptx::cvta_to_shared(shared.few);
    const uint32_t of_warp = ptx::redux_sync_add_u32(static_cast<uint32_t>(__popc(bits)), ptx::kFullMask);
    if (self.lane() == 0) ptx::st_shared_u32(totals + self.warp() * 4, of_warp);
    const uint8_t* const scores = scores_from<Score>(p, load_row(ptx::cvta_to_shared(&shared.row)), choice, shared);
#pragma unroll 1
    for (uint32_t mask = reached & ~bits; mask != 0; mask &= mask - 1) {
        const auto i = static_cast<uint32_t>(__ffs(static_cast<int>(mask)) - 1);
        const int32_t at = part.first(self) + static_cast<int32_t>(i / 4 * kGroupKeys + i % 4);
        const uint32_t own = Score::load(true, scores + int64_t{at} * Score::kBytes, 0) % (1u << kGuessLow);
        const uint32_t slot = ptx::atom_shared_add_u32(few + kFewKeys * 4, 1);
        ptx::st_shared_u32(few + slot * 4, own << kPositionBits | (kPositions - 1 - static_cast<uint32_t>(at)));
    }
    ptx::bar_sync();
    uint32_t before = 0;
    if (self.lane() < self.warp()) before = ptx::ld_shared_u32(totals + self.lane() * 4);
    before = ptx::redux_sync_add_u32(before, ptx::kFullMask);
    const uint32_t own = ptx::ld_shared_u32(few + self.lane() * 4);   // each warp does the same: all need it
    uint32_t rank = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < count; i += 4) {   // zeros behind the last
        const ptx::U32x4 four = ptx::ld_shared_v4_u32(few + i * 4);
        rank += (own - four.x >> 31) + (own - four.y >> 31) + (own - four.z >> 31) + (own - four.w >> 31);
    }
    const bool is_chosen = self.lane() < count && rank < remaining;
    const auto at = static_cast<int32_t>(kPositions - 1 - own % kPositions) - part.warp_first(self);   // in the warp
    before += static_cast<uint32_t>(__popc(ptx::vote_sync_ballot(is_chosen && at < 0, ptx::kFullMask)));
#pragma unroll 1
    for (uint32_t mine = ptx::vote_sync_ballot(is_chosen && at >= 0 && at < part.each, ptx::kFullMask); mine != 0;
         mine &= mine - 1) {
        const auto from = static_cast<uint32_t>(__ffs(static_cast<int>(mine)) - 1);
        const uint32_t key = ptx::shfl_sync_idx(static_cast<uint32_t>(at), from, ptx::kFullMask);
        if (key / 4 % 32 == self.lane()) bits |= 1u << (key / kGroupKeys * 4 + key % 4);
    }
    return {WarpRanks<kKeys>(bits, self.lane()), before, static_cast<uint32_t>(choice.k)};
}

template <class Score, int kKeys>
__device__ __forceinline__ Ranks<kKeys> choose_alone(Counted<Score, kKeys>& counted, Rounds<kSameBits<Score>> rounds,
                                                     const TopkParams& p, const Choice& choice, HeldLayout& shared,
                                                     uint32_t& bits) {
    constexpr int kOfThreads = held_form(Held::kAlone).threads;
    const Thread& self = counted.self;
    const ptx::SharedAddr histogram = ptx::cvta_to_shared(shared.histogram);
#pragma unroll 1
    while (true) {
        counted.count(rounds, histogram);
        ptx::bar_sync();
        const Found found = take_bin<kOfThreads>(histogram, rounds.remaining, self, shared);
        if (rounds.misled(found.digit)) {
            rounds.restart();
            continue;
        }
        if (rounds.of_scores && rounds.guess && found.in_bin <= kFewKeys)
            return choose_few<Score>(counted.keys, counted.part, p, choice,
                                     rounds.digit.base + (found.digit << kGuessLow), found.in_bin,
                                     rounds.remaining - found.above, self, shared, bits);
        if (rounds.done(found.digit, found.above, found.in_bin)) break;
    }
    bits = choose(counted, {rounds.threshold(), 0, 0}, kOfThreads / 32, shared).bits;
    return ranks_of<kKeys>(bits, kOfThreads / 32, self, shared, 0);
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
    else clear_alone<kOfThreads>(self, shared);
    wait_for_rows(p);
    const auto index = static_cast<int32_t>(ptx::ctaid_x() >> (kCluster ? cluster_bits(p.slices) : 0));
    if (self.warp() == 0) find_row(p, p.view.first_row + index, self.lane(), own_row);
    else if (self.index == 32) place_row<Score>(p, p.view.first_row + index, places);   // meanwhile
    ptx::bar_sync();
    RowKeys row = load_row(own_row);
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
        const uint8_t* const scores = scores_from<Score>(p, row, choice, shared);
        const uint32_t sample = load_sample<Score>(scores, choice.keys, self.lane());
        const bool sorted = p.sort_by == SortBy::kScore;
        uint32_t keys[kKeys];
        load_scores<Score>(scores + int64_t{part.begin} * Score::kBytes, part, self, keys);
        Counted<Score, kKeys> counted{part, self, keys, ptx::cvta_to_shared(&shared.nowhere[self.lane()])};
        Rounds<kSameBits<Score>> rounds = first_round<Score>(sample, choice.k, choice.keys);
        compare_scores(rounds);
        Chosen chosen{};
        const Ranks<kKeys> ranks = [&] {
            if constexpr (kCluster) {
                chosen = choose_part<kForm>(counted, rounds, choice.keys, p.slices, rank, shared);
                if (!sorted) ptx::barrier_cluster_arrive_relaxed();   // the others' histograms are read
                return ranks_of<kKeys>(chosen.bits, kOfThreads / 32, self, shared, 0);
            } else {
                return choose_alone(counted, rounds, p, choice, shared, chosen.bits);
            }
        }();
        if (sorted) counted.make();
        row = load_row(own_row);
        const uint32_t at = choice.begin + part.begin + part.first(self);
        const uint32_t slots = choice.begin + chosen.before;   // the first of the CTA's
        if (!sorted) {
            const ptx::SharedAddr list = ptx::cvta_to_shared(shared.list);
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                ptx::SharedAddr to = list + (slots % 4 + ranks.of[j]) * 4;
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    if ((chosen.bits & 1u << (4 * j + c)) == 0) continue;
                    ptx::st_shared_u32(to, at + j * kGroupKeys + c);
                    to = to + 4;
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

// SPDX-License-Identifier: Apache-2.0
// The k largest scores of few rows that are too long, or too many, for their keys to be held: a row is a cluster's, of
// 2 to 16 CTAs, and each streams a part of it. The order of preference, and so the result, is that of topk.cu.
//
//     sample of the row -> a score that a little more than k should reach     every CTA by itself, the same
//     own part -> candidates above it, marks of those equal to it             one pass
//     how many have all of the cluster                                        first barrier
//     candidates -> registers -> threshold of the row                         rounds of kernel/topk_cluster.cuh
//     maps of bits -> positions, ascending -> [sort] -> indices
//     misjudged: rounds over the parts themselves
//
// What is found in shared memory of other CTAs (counts) was written before a barrier of the cluster and stays until the
// last one. Sorted by score, all chosen meet in the first CTA, in the place of its candidates, which it no longer needs
// at the barrier before.
#include "kernel/live.h"
#include "kernel/topk_cluster.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_output.cuh"
#include "kernel/topk_row.cuh"
#include "kernel/topk_select.cuh"
#include "kernel/topk_source.cuh"
#include "kernel/variants.h"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

extern __shared__ __align__(16) uint8_t dynamic_shared[];

namespace {

// What the parts of a row kept.
struct Kept {
    uint32_t most, all, all_equal;   // of one part; of all
    uint32_t before, equal_before;   // in the parts before this one
};
__device__ __forceinline__ Kept exchange_kept(uint32_t rank, uint32_t parts, const Thread& self, SpreadLayout& shared) {
    const ptx::SharedAddr kept = ptx::cvta_to_shared(shared.kept);
    if (self.index == 0) {
        const uint32_t stored = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.stored));
        ptx::st_shared_v2_u32(kept, stored, ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.ties)));
    }
    ptx::fence_release_shared_cta_cluster();
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
    const uint32_t lane = self.lane();
    const ptx::U32x2 own = ptx::ld_shared_cluster_v2_u32(
        lane < parts, ptx::mapa_shared_cluster(kept, lane < parts ? lane : 0));
    const bool before = lane < rank;
    return {ptx::redux_sync_max_u32(own.x, ptx::kFullMask), ptx::redux_sync_add_u32(own.x, ptx::kFullMask),
            ptx::redux_sync_add_u32(own.y, ptx::kFullMask),
            ptx::redux_sync_add_u32(before ? own.x : 0, ptx::kFullMask),
            ptx::redux_sync_add_u32(before ? own.y : 0, ptx::kFullMask)};
}

// The first digit of candidates, none of which is below `least`.
__device__ __forceinline__ Rounds<0> candidate_rounds(uint32_t least, int32_t k) {
    const uint32_t base = (least >> kGuessLow) - 1 << kGuessLow;   // the lowest bin is empty
    if (base > ~kGuessSpan) return {Digit{}, static_cast<uint32_t>(k), false};
    return {Digit{base, kGuessSpan, kGuessLow}, static_cast<uint32_t>(k), true};
}

// Chooses k of the cluster's more than k keys: sets the maps of this CTA's. all: the row's; own: this CTA's.
template <class Score>
__device__ __forceinline__ Share select_part(const Source<Score>& all, const Source<Score>& own, int32_t k,
                                             uint32_t rank, uint32_t parts, Maps& maps, const Thread& self,
                                             SpreadLayout& shared) {
    uint32_t keys[kKeysPerThread] = {};   // kNanKey
    maps.words = words_of(own.keys);
    maps.shift = 0;
    const auto count_held = [&](const Rounds<0>& rounds, ptx::SharedAddr histogram) {
        const Digit digit = rounds.digit;
        const uint32_t top = digit.base + digit.span;
#pragma unroll
        for (int j = 0; j < kKeysPerThread; ++j) {
            const uint32_t key = rounds.guess ? min(keys[j], top) : keys[j];
            count_digit(key, digit, histogram);
        }
    };
    const Rounds<0> whole_keys{Digit{}, static_cast<uint32_t>(k), false};
    if (all.keys <= kCapacity) {   // one part
        load_all(own, self, keys);
        const Share share = find_pair_threshold<kThreads>(whole_keys, 0, 1, self, shared, count_held);
        map_registers(keys, own.keys, share.threshold, maps, self);
        ptx::bar_sync();
        return share;
    }
    const int32_t rank_in_sample = sample_rank(k, all.keys);
    bool streamed = rank_in_sample >= kSampleKeys;
    if (!streamed) {
        load_sample(all, self, keys);
        const Threshold sampled = find_threshold(keys, rank_in_sample, rank_in_sample / kSampleSlack, self, shared);
        streamed = !is_score(sampled);
        if (!streamed) {
            keep_candidates(own, sampled, maps, self, shared);
            const Kept kept = exchange_kept(rank, parts, self, shared);
            streamed = kept.most > kCapacity || kept.all + kept.all_equal < static_cast<uint32_t>(k);
            if (!streamed) {
                const auto count = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.stored)));
                load_candidates(own, count, maps, self, shared, keys);
                Share share{{kNanKey, k - static_cast<int32_t>(kept.all)}, kept.before, kept.equal_before};
                if (kept.all >= static_cast<uint32_t>(k)) {
                    share = find_parts_threshold<kThreads>(candidate_rounds(sampled.key + 1, k), rank, parts, self,
                                                           shared, count_held);
                    clear(maps.equal, maps.words, self);   // the marks of the sample's score
                    ptx::bar_sync();
                }
                mark_candidates(keys, count, share.threshold, maps, self, shared);
                ptx::bar_sync();
                return share;
            }
        }
    }
    maps.words = words_of(own.keys);
    maps.shift = 0;
    const Share share = find_parts_threshold<kThreads>(
        whole_keys, rank, parts, self, shared,
        [&](const Rounds<0>& rounds, ptx::SharedAddr histogram) {
            each_key(own, own.keys, self, [&](int32_t i, uint32_t key) {
                if (i < own.keys) count_digit(key, rounds.digit, histogram);
            });
        });
    map_streamed(own, share.threshold, maps, self);
    ptx::bar_sync();
    return share;
}

template <class Score>
__device__ __forceinline__ void select(const TopkParams& p) {
    auto& shared = *reinterpret_cast<SpreadLayout*>(dynamic_shared);
    const Thread self{ptx::tid_x()};
    const uint32_t rank = ptx::cluster_ctarank();
    clear(ptx::cvta_to_shared(&shared.counts), kZeroCountWords, self);
    clear(ptx::cvta_to_shared(shared.histogram), kBins, self);
    wait_for_rows(p);
    if (self.warp() == 0) {
        const auto index = static_cast<int32_t>(ptx::ctaid_x() >> cluster_bits(p.slices));
        find_row(p, p.view.first_row + index, self.lane(), ptx::cvta_to_shared(&shared.row));
    }
    ptx::bar_sync();
    const RowKeys row = load_row(ptx::cvta_to_shared(&shared.row));
    const Choice choice = choice_of(p, row.keys.size());
    const int32_t parts = spread_parts(choice.keys, p.slices);
    wait_for_scores(p);
    if (static_cast<int32_t>(rank) >= parts) return;   // a short row needs fewer CTAs
    const int32_t each = slice_keys(choice.keys, parts), begin = static_cast<int32_t>(rank) * each;
    const bool sorted = p.sort_by == SortBy::kScore;
    const ptx::SharedAddr candidates = ptx::cvta_to_shared(shared.candidate);
    if (choice.k > 0) {
        const ptx::SharedAddr map = ptx::cvta_to_shared(dynamic_shared) + sizeof(SpreadLayout);
        Maps maps{map, map + p.map_words * 4, 0, 0};
        const uint8_t* const scores = row_scores<Score>(p, row) + int64_t{choice.begin} * Score::kBytes;
        const Source<Score> all{scores, choice.keys, false};
        const Source<Score> own{scores + int64_t{begin} * Score::kBytes,
                                choice.keys - begin < each ? choice.keys - begin : each, false};
        const Share share = select_part(all, own, choice.k, rank, static_cast<uint32_t>(parts), maps, self, shared);
        if (sorted) ptx::fence_release_shared_cta_cluster();   // the first CTA's candidates are read, too
        ptx::barrier_cluster_arrive_relaxed();                 // the others' counts are read
        const auto ties = static_cast<uint32_t>(share.threshold.ties);
        const uint32_t ties_before = ties < share.equal_before ? ties : share.equal_before;
        const uint32_t first = static_cast<uint32_t>(choice.begin) + share.before + ties_before;
        const ptx::SharedAddr list = sorted ? ptx::cvta_to_shared(shared.list) : candidates;
        list_positions(maps, static_cast<int32_t>(ties - ties_before), sorted ? list : list + first % 4 * 4,
                       choice.begin + begin, self, shared);
        const uint32_t count = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.stored));
        if (sorted) {
            ptx::barrier_cluster_wait();   // the first CTA's candidates are of no more use
#pragma unroll 1
            for (uint32_t i = self.index; i < count; i += kThreads) {
                const uint32_t at = ptx::ld_shared_u32(list + i * 4);
                const Source<Score> whole{row_scores<Score>(p, row), row.keys.size(), false};
                const uint32_t key = whole.key_of(whole.load(static_cast<int32_t>(at)));
                ptx::st_shared_cluster_u64(ptx::mapa_shared_cluster(candidates + (first + i) * 8, 0),
                                           uint64_t{~key} << 32 | at);
            }
            ptx::barrier_cluster_arrive();
            ptx::barrier_cluster_wait();
        } else if (p.index_kind != IndexKind::kPhysical && !p.top_scores) {
            write_list<kThreads>(p.indices + row.row * p.index_stride, index_offset(p, row),
                                 static_cast<int32_t>(first), static_cast<int32_t>(count), list, self);
        } else {
            const int32_t offset = index_offset(p, row);
#pragma unroll 1
            for (uint32_t i = self.index; i < count; i += kThreads)
                write_slot<Score>(p, row, offset, static_cast<int32_t>(first + i),
                                  static_cast<int32_t>(ptx::ld_shared_u32(list + (first % 4 + i) * 4)));
        }
    }
    if (rank == 0) write_rest<Score, kThreads>(p, row, choice, candidates, self);
    if (choice.k > 0 && !sorted) ptx::barrier_cluster_wait();
}

}  // namespace
}  // namespace lidx::topk

#define LIDX_TOPK_SPREAD_KERNEL(symbol, score)                           \
    extern "C" __global__ void __launch_bounds__(lidx::topk::kThreads, 1) \
    symbol(const __grid_constant__ lidx::topk::TopkParams p) {           \
        lidx::topk::select<lidx::topk::score>(p);                        \
    }
LIDX_TOPK_SPREAD_VARIANTS(LIDX_TOPK_SPREAD_KERNEL)

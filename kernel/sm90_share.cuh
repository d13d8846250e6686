// SPDX-License-Identifier: Apache-2.0
// Which share of the work is this CTA's: every CTA sums the costs of all requests or token blocks by itself. Part of
// sm90_loader.cuh.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_schedule.h"
#include "ptx/elect.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_score {

__device__ __forceinline__ int64_t shfl_up(int64_t value, uint32_t delta) {
    const uint32_t low = ptx::shfl_sync_up(static_cast<uint32_t>(value), delta, ptx::kFullMask);
    const uint32_t high = ptx::shfl_sync_up(static_cast<uint32_t>(value >> 32), delta, ptx::kFullMask);
    return static_cast<int64_t>(uint64_t{high} << 32 | low);
}
__device__ __forceinline__ int64_t shfl_idx(int64_t value, uint32_t lane) {
    const uint32_t low = ptx::shfl_sync_idx(static_cast<uint32_t>(value), lane, ptx::kFullMask);
    const uint32_t high = ptx::shfl_sync_idx(static_cast<uint32_t>(value >> 32), lane, ptx::kFullMask);
    return static_cast<int64_t>(uint64_t{high} << 32 | low);
}
__device__ __forceinline__ int64_t inclusive_scan(int64_t value, uint32_t lane) {
#pragma unroll
    for (uint32_t delta = 1; delta < 32; delta *= 2) {
        const int64_t below = shfl_up(value, delta);
        if (lane >= delta) value += below;
    }
    return value;
}

template <class T>
__device__ __forceinline__ RequestWork load_work(const ScoreParams& p, int32_t request) {
    const RequestSpan span = request_span(p.view, request);
    return request_work(span.tokens, span.keys, T::kGroupTokens);
}

// Token blocks differ: in the keys that their rows see, or in the columns that are filled.
template <class T>
__device__ __forceinline__ bool blocks_differ(const ScoreParams& p) {
    if constexpr (T::kAlike) return false;
    return T::kAlwaysBlocks || !rows_see_alike(p.view) || p.fill_columns > 0;
}

template <class T>
__device__ __forceinline__ BlockWork load_block_work(const ScoreParams& p, const Block& block) {
    const KeyRange hull = hull_of_rows(p.view, block.request, block.rows, block.row, block.row + block.tokens);
    return block_work(hull, block.tokens, T::kTileKeys, T::kBlockCost, T::tile_cost(block.tokens), p.fill_columns);
}

// All threads; a CTA barrier, and one more must follow before shared.start is read. `own` is the cost of a thread's
// segment of the work; before is that of all segments before it.
struct Segment {
    int64_t before, begin, end;
    bool has_start;   // the share [begin, end) begins in this segment
};
template <class T>
__device__ __forceinline__ Segment share_out(typename T::Shared& shared, uint32_t thread, int64_t own) {
    const uint32_t lane = thread % 32;
    const int64_t through = inclusive_scan(own, lane);
    if (lane == 31) shared.warp_cost[thread / 32] = through;
    if (thread == 0) shared.start = {0, 0, 0, 0};
    ptx::bar_sync();
    const int64_t warps = inclusive_scan(lane < T::kThreads / 32 ? shared.warp_cost[lane] : 0, lane);
    const int64_t total = shfl_idx(warps, 31);
    const int64_t before_warp = thread >= 32 ? shfl_idx(warps, thread / 32 - 1) : 0;
    const int64_t before = before_warp + through - own;
    const int64_t begin = share_begin(total, ptx::ctaid_x(), ptx::nctaid_x());
    const int64_t end = share_begin(total, ptx::ctaid_x() + 1, ptx::nctaid_x());
    return {before, begin, end, begin < end && begin >= before && begin < before + own};
}

// All threads; two CTA barriers, behind which shared.start holds. A thread sums a segment of the requests, or the
// blocks that begin in a segment of the rows.
template <class T>
__device__ __forceinline__ void find_start(const ScoreParams& p, typename T::Shared& shared, uint32_t thread) {
    const bool differ = blocks_differ<T>(p);
    const int32_t count = differ ? p.view.rows : p.view.batch;
    const int32_t each = (count + T::kThreads - 1) / T::kThreads;
    const int64_t first = int64_t{thread} * each;
    const auto last = static_cast<int32_t>(first + each < count ? first + each : count);
    int64_t own = 0;
    if (T::kAlwaysBlocks || differ) {
        for (Block block = block_from_row(p.view, first, T::kBlockTokens); block.row < last;
             block = next_block(p.view, block, T::kBlockTokens))
            own += load_block_work<T>(p, block).cost();
    } else {
        for (auto request = static_cast<int32_t>(first); request < last; ++request) {
            const RequestWork work = load_work<T>(p, request);
            own += work.units * work.cost;
        }
    }
    const Segment segment = share_out<T>(shared, thread, own);
    if (segment.has_start) {
        int64_t before = segment.before;
        if (differ) {
            Block block = block_from_row(p.view, first, T::kBlockTokens);
            for (int64_t cost; segment.begin >= before + (cost = load_block_work<T>(p, block).cost()); before += cost)
                block = next_block(p.view, block, T::kBlockTokens);
            shared.start = {segment.begin - before, segment.end - before, block.request, block.row};
        } else {
            auto request = static_cast<int32_t>(first);
            RequestWork work = load_work<T>(p, request);
            while (segment.begin >= before + work.units * work.cost) {
                before += work.units * work.cost;
                work = load_work<T>(p, ++request);
            }
            // Units that begin inside the share are this CTA's.
            shared.start = {ceil_div(segment.begin - before, work.cost), segment.end - before, request, 0};
        }
    }
    ptx::bar_sync();
}

}  // namespace lidx::sm90_score

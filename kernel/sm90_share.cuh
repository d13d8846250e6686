// SPDX-License-Identifier: Apache-2.0
// Which share of the work is this CTA's: every CTA sums the costs of all requests or token blocks by itself. Part of
// sm90_loader.cuh.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_schedule.h"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_score {

__device__ __forceinline__ int32_t shfl_bfly(int32_t value, uint32_t mask) {
    return __float_as_int(ptx::shfl_sync_bfly(__int_as_float(value), mask, ptx::kFullMask));
}
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
    return request_work(span.tokens, span.keys, T::kBlockTokens, T::tile_cost(span.tokens));
}

// Token blocks differ: in the keys that their rows see, or in the columns that are filled.
template <class T>
__device__ __forceinline__ bool blocks_differ(const ScoreParams& p) {
    if constexpr (T::kAlike) return false;
    return T::kAlwaysBlocks || !rows_see_alike(p.view) || p.fill_columns > 0;
}

// Plain kernels fill no columns.
template <class T>
__device__ __forceinline__ int32_t columns_to_fill(const ScoreParams& p) {
    return T::kPlain ? 0 : p.fill_columns;
}

template <class T>
__device__ __forceinline__ BlockWork load_block_work(const ScoreParams& p, const Block& block) {
    const KeyRange hull = hull_of_rows(p.view, block.request, block.rows, block.row, block.row + block.tokens);
    return block_work(hull, block.tokens, T::kTileKeys, T::kBlockCost, T::tile_cost(block.tokens),
                      columns_to_fill<T>(p));
}

// Brings the Q of rows to L2, by `threads` threads; a row of 128 bytes is a line.
template <class T>
__device__ __forceinline__ void prefetch_query(const ScoreParams& p, int32_t row, int32_t tokens, uint32_t thread,
                                               int32_t threads) {
    const uint8_t* from = p.q + int64_t{row} * (T::kHeads * kDepth);
#pragma unroll 1
    for (auto line = static_cast<int32_t>(thread); line < tokens * T::kHeads; line += threads)
        ptx::prefetch_global_l2(from + line * kDepth);
}

// T::kScanThreads threads; a barrier of theirs, and another must follow before shared.start is read. `own` is the cost
// of a thread's segment of the work; before is that of all segments before it.
struct Segment {
    int64_t before, begin, end;
    bool has_start;   // the share [begin, end) begins in this segment
};
// Named barriers: T::kWarmUp, of the threads that share out, and theirs with the loading warps that bring items and
// tiles. sm90_fast has 1 to 3, all have 0.
inline constexpr uint32_t kScanBarrier = 4, kItemBarrier = 5, kTileBarrier = 6;

template <class T>
__device__ __forceinline__ Segment share_out(typename T::Shared& shared, uint32_t thread, int64_t own) {
    const uint32_t lane = thread % 32;
    const int64_t through = inclusive_scan(own, lane);
    if (lane == 31) shared.warp_cost[thread / 32] = through;
    if (thread == 0) shared.start = {0, 0, 0, 0, {0, 0, 0}};
    if constexpr (T::kScanThreads == T::kThreads) ptx::bar_sync();
    else ptx::bar_sync(kScanBarrier, T::kScanThreads);
    const int64_t warps = inclusive_scan(lane < T::kScanThreads / 32 ? shared.warp_cost[lane] : 0, lane);
    const int64_t total = shfl_idx(warps, 31);
    const int64_t before_warp = thread >= 32 ? shfl_idx(warps, thread / 32 - 1) : 0;
    const int64_t before = before_warp + through - own;
    const int64_t begin = share_begin(total, ptx::ctaid_x(), ptx::nctaid_x());
    const int64_t end = share_begin(total, ptx::ctaid_x() + 1, ptx::nctaid_x());
    return {before, begin, end, begin < end && begin >= before && begin < before + own};
}

// T::kScanThreads threads; behind the barrier at its end, in which all who read it must take part, shared.start holds.
// A thread sums a segment of the requests, or the blocks that begin in a segment of the rows.
template <class T>
__device__ __forceinline__ void find_start(const ScoreParams& p, typename T::Shared& shared, uint32_t thread) {
    const bool differ = blocks_differ<T>(p);
    const int32_t count = differ ? p.view.rows : p.view.batch;
    const int32_t each = (count + T::kScanThreads - 1) / T::kScanThreads;
    const int64_t first = int64_t{thread} * each;
    const auto last = static_cast<int32_t>(first + each < count ? first + each : count);
    int64_t own = 0, first_cost = 0;
    Block first_block{};
    if (T::kAlwaysBlocks || differ) {
        Block block = block_from_row(p.view, first, T::kBlockTokens);
        first_block = block;
        for (; block.row < last; block = next_block(p.view, block, T::kBlockTokens)) {
            own += load_block_work<T>(p, block).cost();
            if (block.row == first_block.row) first_cost = own;
        }
    } else {
        for (auto request = static_cast<int32_t>(first); request < last; ++request) {
            const RequestWork work = load_work<T>(p, request);
            own += work.units * work.cost;
        }
    }
    const Segment segment = share_out<T>(shared, thread, own);
    if (segment.has_start) {
        int64_t before = segment.before;
        if (segment.begin < before + first_cost) {   // mostly: a segment is a block where rows are few
            shared.start = {segment.begin - before, segment.end - before, first_block.request, first_block.row,
                            first_block.rows};
        } else if (differ) {
            Block block = block_from_row(p.view, first, T::kBlockTokens);
            for (int64_t cost; segment.begin >= before + (cost = load_block_work<T>(p, block).cost()); before += cost)
                block = next_block(p.view, block, T::kBlockTokens);
            shared.start = {segment.begin - before, segment.end - before, block.request, block.row, block.rows};
        } else {
            auto request = static_cast<int32_t>(first);
            RequestWork work = load_work<T>(p, request);
            while (segment.begin >= before + work.units * work.cost) {
                before += work.units * work.cost;
                work = load_work<T>(p, ++request);
            }
            // Units that begin inside the share are this CTA's.
            shared.start = {ceil_div(segment.begin - before, work.cost), segment.end - before, request, 0, {0, 0, 0}};
        }
    }
    if constexpr (T::kWarmUp) {
        ptx::bar_arrive(kItemBarrier, T::kScanThreads + 32);
        ptx::bar_arrive(kTileBarrier, T::kScanThreads + 32 * T::kLoaderWarps);
        ptx::bar_sync(kScanBarrier, T::kScanThreads);   // meanwhile the loading warp fetches its instructions
        const int32_t row = shared.start.row, rest = p.view.rows - row;
        prefetch_query<T>(p, row, rest < T::kBlockTokens ? rest : T::kBlockTokens, thread, T::kScanThreads);
    } else {
        ptx::bar_sync();
    }
}

}  // namespace lidx::sm90_score

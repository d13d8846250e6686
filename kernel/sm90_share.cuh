// SPDX-License-Identifier: Apache-2.0
// Which share of the work is this CTA's: every CTA sums the costs of all requests or token blocks by itself. Part of
// sm90_loader.cuh.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_schedule.h"
#include "ptx/bulk_tensor.cuh"
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

__device__ __forceinline__ KeyRange hull_of_block(const ScoreParams& p, const Block& block) {
    return hull_of_rows(p.view, block.request, block.rows, block.row, block.row + block.tokens);
}

// Of a block of so many tokens, whose rows see these keys.
template <class T>
__device__ __forceinline__ BlockWork work_of(const ScoreParams& p, const KeyRange& hull, int32_t tokens) {
    return block_work(hull, tokens, T::kTileKeys, T::kBlockCost, T::tile_cost(tokens), columns_to_fill<T>(p));
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

// Where this CTA's share begins if all rows see as many keys. What is likely to be asked for first is brought to L2
// while the share is still looked for: from DRAM Q alone takes longer than that.
template <class T>
__device__ __forceinline__ int32_t likely_row(const ScoreParams& p) {
    return likely_row(p.view, ptx::ctaid_x(), ptx::nctaid_x(), T::kBlockTokens);
}
template <class T>
__device__ __forceinline__ int32_t likely_tokens(const ScoreParams& p, int32_t row) {
    return p.view.end_row - row < T::kBlockTokens ? p.view.end_row - row : T::kBlockTokens;
}
// The block's Q, by one thread.
template <class T>
__device__ __forceinline__ void prefetch_likely_query(const ScoreParams& p) {
    const int32_t row = likely_row<T>(p);
    ptx::cp_async_bulk_prefetch_l2(p.q + int64_t{row} * (T::kHeads * kDepth),
                                   static_cast<uint32_t>(likely_tokens<T>(p, row) * T::kHeads * kDepth));
}
// Its weights, and a tile of the first request's contiguous keys, another by every CTA: by all lanes of a warp.
template <class T>
__device__ __forceinline__ void prefetch_likely_rest(const ScoreParams& p, uint32_t lane) {
    const int32_t keys = p.view.keys_limit;
    if (lane == 0 && !p.block_table && keys > 0) {
        const uint32_t tiles = static_cast<uint32_t>(keys + T::kTileKeys - 1) / T::kTileKeys;
        const auto key = static_cast<int32_t>(ptx::ctaid_x() % tiles) * T::kTileKeys;
        const int32_t rest = keys - key;
        ptx::cp_async_bulk_prefetch_l2(p.k + int64_t{key} * kDepth,
                                       static_cast<uint32_t>((rest < T::kTileKeys ? rest : T::kTileKeys) * kDepth));
    }
    if constexpr (T::kPlain) {
        const int32_t row = likely_row<T>(p);
        const auto* weights = static_cast<const float*>(p.q_scale) + int64_t{row} * T::kHeads;
        if (const uint32_t first = lane * 32; first < static_cast<uint32_t>(likely_tokens<T>(p, row) * T::kHeads))
            ptx::prefetch_global_l2(weights + first);
    }
}

// T::kScanThreads threads; a barrier of theirs, and another must follow before shared.start is read. `own` is the cost
// of a thread's segment of the work; before is that of all segments before it.
struct Segment {
    int64_t before, own, begin, end;   // the share is [begin, end)
    __device__ __forceinline__ bool has(int64_t cost) const {
        return begin < end && cost >= before && cost < before + own;
    }
};
// Named barriers: of the threads that share out; T::kWarmUp, theirs with the loading warp that brings items, those that
// bring the first tiles, and the one that does not; T::kRehearse, the last with all loading warps. sm90_score has 1,
// sm90_fast 1 to 3, all have 0.
inline constexpr uint32_t kScanBarrier = 4, kItemBarrier = 5, kTileBarrier = 6, kWalkBarrier = 7;

// T::kWarmUp: the warps that load a share's first tiles, all but one of the tiles' warps.
template <class T>
inline constexpr uint32_t kFirstWarps = T::kLoaderWarps - 1;

// T::kWarmUp: a share begins with the block in which its first tiles' costs end, so that a block of few tiles does not
// have to be followed in haste by the next; what it has before that block comes last.
template <class T>
__device__ __forceinline__ int64_t first_cost(int64_t share) {
    if constexpr (T::kWarmUp) {
        const int64_t first = T::kBlockCost + T::kStages * T::tile_cost(T::kBlockTokens);
        return first < share / 2 ? first : share / 2;
    }
    return 0;
}

template <class T>
__device__ __forceinline__ Segment share_out(typename T::Shared& shared, uint32_t thread, int64_t own) {
    const uint32_t lane = thread % 32;
    const int64_t through = inclusive_scan(own, lane);
    if (lane == 31) shared.warp_cost[thread / 32] = through;
    if (thread == 0) shared.start = {};
    if constexpr (T::kScanThreads == T::kThreads) ptx::bar_sync();
    else ptx::bar_sync(kScanBarrier, T::kScanThreads);
    const int64_t warps = inclusive_scan(lane < T::kScanThreads / 32 ? shared.warp_cost[lane] : 0, lane);
    const int64_t total = shfl_idx(warps, 31);
    const int64_t before_warp = thread >= 32 ? shfl_idx(warps, thread / 32 - 1) : 0;
    const int64_t before = before_warp + through - own;
    const int64_t begin = share_begin(total, ptx::ctaid_x(), ptx::nctaid_x());
    const int64_t end = share_begin(total, ptx::ctaid_x() + 1, ptx::nctaid_x());
    return {before, own, begin, end};
}

// The thread in whose segment of the blocks `at` lies, or the share's beginning: where the share begins, what it has
// before that.
template <class T>
__device__ __forceinline__ void find_block_start(const ScoreParams& p, typename T::Shared& shared,
                                                 const Segment& segment, int64_t at, const Block& first_block,
                                                 const KeyRange& first_keys) {
    bool rest = T::kWarmUp && !segment.has(at);
#pragma unroll 1
    while (true) {
        const int64_t cost = rest ? segment.begin : at;
        Block block = first_block;   // mostly this: a segment is a block where rows are few
        KeyRange keys = first_keys;
        int64_t before = segment.before;
        BlockWork work = work_of<T>(p, keys, block.tokens);
#pragma unroll 1
        while (cost >= before + work.cost()) {
            before += work.cost();
            block = next_block(p.view, block, T::kBlockTokens);
            keys = hull_of_block(p, block);
            work = work_of<T>(p, keys, block.tokens);
        }
        const int64_t begin = segment.begin - before, end = segment.end - before;
        Start* to = &shared.start;
        if constexpr (T::kWarmUp) to = rest ? &shared.rest : to;
        *to = {begin, end, block.request, block.row, block.rows, keys,
               block_part(work, columns_to_fill<T>(p), begin, end)};
        if (rest || begin >= 0 || !segment.has(segment.begin)) break;
        rest = true;
    }
}

// T::kScanThreads threads; behind the barrier at its end, in which all who read it must take part, shared.start holds.
// A thread sums a segment of the requests, or the blocks that begin in a segment of the launch's rows.
template <class T>
__device__ __forceinline__ void find_start(const ScoreParams& p, typename T::Shared& shared, uint32_t thread) {
    const bool differ = blocks_differ<T>(p);
    // Of all rows, those outside the launch's window cost nothing: sm90_score keeps them, for ten instructions less.
    const int32_t base = T::kAlwaysBlocks ? p.view.first_row : 0;
    const int32_t end = T::kAlwaysBlocks ? p.view.end_row : differ ? p.view.rows : p.view.batch;
    const int32_t each = (end - base + T::kScanThreads - 1) / T::kScanThreads;
    const int64_t first = base + int64_t{thread} * each;
    const auto last = static_cast<int32_t>(first + each < end ? first + each : end);
    int64_t own = 0;
    Block first_block{};
    KeyRange first_keys{0, 0};
    if (T::kAlwaysBlocks || differ) {
        Block block = block_from_row(p.view, first, T::kBlockTokens);
        first_block = block;
        for (; block.row < last; block = next_block(p.view, block, T::kBlockTokens)) {
            const KeyRange keys = hull_of_block(p, block);
            if (block.row == first_block.row) first_keys = keys;
            own += work_of<T>(p, keys, block.tokens).cost();
        }
    } else {
        for (auto request = static_cast<int32_t>(first); request < last; ++request) {
            const RequestWork work = load_work<T>(p, request);
            own += work.units * work.cost;
        }
    }
    if (T::kWarmUp && thread == 0 && own > 0) prefetch_likely_query<T>(p);   // behind the lengths that it is made of
    const Segment segment = share_out<T>(shared, thread, own);
    const int64_t at = segment.begin + first_cost<T>(segment.end - segment.begin);
    if (segment.has(at) || (T::kWarmUp && segment.has(segment.begin))) {
        if (T::kAlwaysBlocks || differ) {
            find_block_start<T>(p, shared, segment, at, first_block, first_keys);
        } else {
            auto request = static_cast<int32_t>(first);
            int64_t before = segment.before;
            RequestWork work = load_work<T>(p, request);
            while (segment.begin >= before + work.units * work.cost) {
                before += work.units * work.cost;
                work = load_work<T>(p, ++request);
            }
            // Units that begin inside the share are this CTA's.
            const int64_t unit = ceil_div(segment.begin - before, work.cost);
            shared.start = {unit, segment.end - before, request, 0, {}, {}, {}};
        }
    }
    if constexpr (T::kWarmUp) {
        ptx::bar_arrive(kItemBarrier, T::kScanThreads + 32);
        ptx::bar_arrive(kTileBarrier, T::kScanThreads + 32 * kFirstWarps<T>);
        ptx::bar_arrive(kWalkBarrier, T::kScanThreads + 32);
    } else if constexpr (T::kRehearse) {
        ptx::bar_arrive(kWalkBarrier, T::kThreads);
    } else {
        ptx::bar_sync();
    }
}

// T::kRehearse: what the consumers do before they consume, of up to kWarpBatch requests nothing but to meet.
template <class T>
__device__ __forceinline__ void share_requests(const ScoreParams& p, typename T::Shared& shared, uint32_t thread) {
    if (p.view.batch > kWarpBatch) {
        find_start<T>(p, shared, thread);
    } else {
        ptx::bar_sync(kScanBarrier, T::kScanThreads);
        ptx::bar_arrive(kWalkBarrier, T::kThreads);
    }
}

// T::kRehearse: where this CTA's share begins if all requests have as many rows and see as many keys. Its part of the
// block table, where lengths are, and the first block's Q are brought to L2 meanwhile; by a warp.
template <class T>
__device__ __forceinline__ void prefetch_likely_request(const ScoreParams& p, uint32_t lane) {
    const RowView& v = p.view;
    const auto tiles = static_cast<uint32_t>(v.keys_limit + T::kTileKeys - 1) / T::kTileKeys;
    const uint64_t units = uint64_t{static_cast<uint32_t>(v.batch)} * tiles;
    const uint32_t each = UINT32_MAX / ptx::nctaid_x() + 1;   // in 2^-32
    if (units == 0 || units > INT32_MAX) return;
    const auto begin = static_cast<uint32_t>(units * (each * ptx::ctaid_x()) >> 32);
    const auto share = static_cast<uint32_t>(units * each >> 32);
    if (lane == 0) {
        const uint32_t request = begin / tiles;
        const auto rows = static_cast<int32_t>(static_cast<uint32_t>(v.rows) / static_cast<uint32_t>(v.batch));
        const int32_t tokens = rows < T::kBlockTokens ? rows : T::kBlockTokens;
        if (tokens > 0)
            ptx::cp_async_bulk_prefetch_l2(p.q + int64_t{static_cast<int32_t>(request) * rows} * (T::kHeads * kDepth),
                                           static_cast<uint32_t>(tokens * T::kHeads * kDepth));
    }
    if (!p.block_table) return;
#pragma unroll 1
    for (uint32_t i = 32 * lane; i < share; i += 1024) {   // pages of 64 keys: 32 to a line
        const uint32_t unit = begin + i < units ? begin + i : static_cast<uint32_t>(units) - 1;
        const auto key = static_cast<int32_t>(unit % tiles) * T::kTileKeys;
        ptx::prefetch_global_l2(p.block_table + int64_t{static_cast<int32_t>(unit / tiles)} * p.block_table_stride +
                                static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size));
    }
}

}  // namespace lidx::sm90_score

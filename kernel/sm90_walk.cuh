// SPDX-License-Identifier: Apache-2.0
// The loading warps' walk over their CTA's share: token blocks that differ, or rectangles. Part of sm90_score.cu,
// sm90_pair.cu, sm90_wide.cu and sm90_fast.cu; sm90_loader.cuh loads what it meets.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_schedule.h"
#include "kernel/sm90_share.cuh"
#include "ptx/elect.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_score {

__device__ __forceinline__ KeyRange hull_of_lanes(KeyRange keys) {
    if (keys.empty()) keys = {INT32_MAX, 0};
#pragma unroll
    for (uint32_t mask = 16; mask > 0; mask /= 2) {
        const int32_t begin = shfl_bfly(keys.begin, mask), end = shfl_bfly(keys.end, mask);
        keys = {begin < keys.begin ? begin : keys.begin, end > keys.end ? end : keys.end};
    }
    return keys.empty() ? KeyRange{0, 0} : keys;
}

// T::kWarmUp: the share's first item and its first tiles, one a stage, which find_start has handed on. They are brought
// by little code of their own, since the instructions of a cold launch come from memory while all wait; it is gone
// through once without effect while the share is still looked for (docs/kernel-sm90.md).
template <class T>
__device__ __forceinline__ void load_first(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    const auto lane = static_cast<int32_t>(loader.lane);
    const bool items = loader.warp == T::kItemWarp;
    loader.idle = true;
    Start start{0, 0, 0, 0, {0, 0, 0}, {0, 0}, {0, 1, 0, 0}};
#pragma unroll 1
    while (true) {
        if (!loader.idle) {
            if (items) ptx::bar_sync(kItemBarrier, T::kScanThreads + 32);
            else ptx::bar_sync(kTileBarrier, T::kScanThreads + 32 * kFirstWarps<T>);
            start = shared.start;
        }
        const Block block = block_of_start(start, T::kBlockTokens);
        const BlockPart& part = start.part;
        if (!part.empty()) {
            if (items) {
                const Item item = item_of<T>(0, block.row, block.tokens, part);
                ask_item<T>(p, loader, shared, item);
                KeyRange sees{0, 0};
                if (lane < block.tokens) sees = live_keys(p.view, block.request, block.rows, block.row + lane);
                hand_item<T>(p, loader, shared, item, sees);
            } else if (!p.block_table) {
#pragma unroll 1
                for (auto i = static_cast<int32_t>(loader.idle ? 0 : loader.warp); i < part.tiles && i < T::kStages;
                     i += kFirstWarps<T>)
                    load_first_tile<T>(p, loader, shared, start.keys, block.request, part.tile + i,
                                       static_cast<uint32_t>(i));
            } else {
#pragma unroll 1
                for (auto i = static_cast<int32_t>(loader.idle ? 0 : loader.warp); i < part.tiles && i < T::kStages;
                     i += kFirstWarps<T>) {
                    const Pages pages = pages_at<T>(p, loader, {block.request, block.row, block.tokens, start.keys,
                                                                part.tile + i, 0, {}, {}});
                    load_tile<T, true>(p, loader, shared, pages, part.tile + i, static_cast<uint32_t>(i));
                }
            }
        }
        if (!loader.idle) return;
        loader.idle = false;
    }
}

// Blocks that differ: from shared.start on, a block at a time, then what of the share lies before it. Lane t has what
// row t of the block sees. T::kWarmUp: the last of the tiles' warps first goes through a block of one tile without
// effect and so fetches the instructions for all, while the others load the first tiles.
template <class T>
__device__ __forceinline__ void load_blocks(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    int64_t begin = 0, left = 0;
    Block block{0, 0, 0, {0, 0, 0}};
    bool rest = false;
    const auto from_start = [&] {
        begin = shared.start.unit;
        left = shared.start.cost_end;
        block = block_of_start(shared.start, T::kBlockTokens);
        if constexpr (T::kWarmUp) loader.begun = shared.start.part.empty() ? 0 : T::kStages;
    };
    loader.idle = T::kWarmUp && loader.warp == kFirstWarps<T>;
    if (loader.idle) {
        prefetch_likely_rest<T>(p, loader.lane);
    } else {
        if constexpr (T::kWarmUp) load_first<T>(p, loader, shared);
        from_start();
    }
#pragma unroll 1
    while (loader.idle || (left > 0 && block.tokens > 0)) {
        const auto lane = static_cast<int32_t>(loader.lane);
        KeyRange sees{0, 0};
        if (lane < block.tokens) sees = live_keys(p.view, block.request, block.rows, block.row + lane);
        const KeyRange hull = hull_of_lanes(sees);
        const BlockWork work = work_of<T>(p, hull, block.tokens);
        BlockPart part = block_part(work, columns_to_fill<T>(p), begin, left);
        left -= work.cost();
        begin = 0;
        if (loader.idle) part = {0, T::kLoaderWarps, 0, 0};
        if (!part.empty())
            load_run<T>(p, loader, shared, block.request, hull, block.row, block.tokens, part, sees);
        if (!loader.idle) {
            block = next_block(p.view, block, T::kBlockTokens);
            if constexpr (T::kWarmUp) {
                if (rest || (left > 0 && block.tokens > 0) || shared.start.unit >= 0) continue;
                rest = true;   // up to where shared.start began
                begin = shared.rest.unit;
                left = begin - shared.start.unit;
                block = block_of_start(shared.rest, T::kBlockTokens);
            }
            continue;
        }
        loader.idle = false;
        loader.ring = loader.items = 0;
        ptx::bar_sync(kWalkBarrier, T::kScanThreads + 32);
        from_start();
    }
}

// The same value, of which the compiler knows nothing.
__device__ __forceinline__ int32_t hidden(int32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}
__device__ __forceinline__ int64_t hidden(int64_t value) {
    asm volatile("" : "+l"(value));
    return value;
}

// Rectangles: requests 32 at a time, one a lane. T::kRehearse: where all threads share out, first a request of a tile
// for each warp without effect, which fetches the instructions meanwhile.
template <class T>
__device__ __forceinline__ void load_requests(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    const bool alone = p.view.batch <= kWarpBatch;   // the warp finds where the share begins by itself
    bool shared_out = !alone;
    Start start{0, 1, 0, 0, {}, {}, {}};
    const bool rehearse = T::kRehearse && !alone;
    if (rehearse) start.cost_end = INT32_MAX;
    else if (T::kRehearse) ptx::bar_sync(kWalkBarrier, T::kThreads);
    else if (shared_out) start = shared.start;
    int64_t unit = start.unit, cost_end = start.cost_end;
    int32_t base = start.request;
    loader.idle = rehearse;
    if (rehearse && loader.warp == 0) prefetch_likely_request<T>(p, loader.lane);
#pragma unroll 1
    while (loader.idle || (cost_end > 0 && base < p.view.batch)) {
        const int32_t mine = base + static_cast<int32_t>(loader.lane);
        RequestSpan span{0, 0, 0, 0};
        if (loader.idle) span = {0, loader.lane == 0 ? 1 : 0, T::kLoaderWarps * T::kTileKeys, 0};
        else if (mine < p.view.batch) span = request_span(p.view, mine);
        uint32_t busy = ptx::vote_sync_ballot(span.tokens > 0 && span.keys > 0, ptx::kFullMask);
        if (!shared_out) {
            const RequestWork work =
                request_work(span.tokens, span.keys, T::kBlockTokens, T::tile_cost(span.tokens));
            const int64_t through = inclusive_scan(work.units * work.cost, loader.lane);
            const int64_t total = shfl_idx(through, 31);
            const int64_t begin = share_begin(total, ptx::ctaid_x(), ptx::nctaid_x());
            const int64_t end = share_begin(total, ptx::ctaid_x() + 1, ptx::nctaid_x());
            busy &= ptx::vote_sync_ballot(begin < through, ptx::kFullMask);
            if (begin >= end || busy == 0) break;
            const auto from = static_cast<uint32_t>(__ffs(static_cast<int>(busy)) - 1);
            const int64_t before = shfl_idx(through - work.units * work.cost, from);
            unit = ceil_div(begin - before, shfl_idx(work.cost, from));
            cost_end = end - before;
            shared_out = true;
        }
        while (busy != 0 && cost_end > 0) {
            const auto from = static_cast<uint32_t>(__ffs(static_cast<int>(busy)) - 1);
            busy &= busy - 1;
            const auto row = static_cast<int32_t>(
                ptx::shfl_sync_idx(static_cast<uint32_t>(span.row_begin), from, ptx::kFullMask));
            const auto tokens =
                static_cast<int32_t>(ptx::shfl_sync_idx(static_cast<uint32_t>(span.tokens), from, ptx::kFullMask));
            const auto keys =
                static_cast<int32_t>(ptx::shfl_sync_idx(static_cast<uint32_t>(span.keys), from, ptx::kFullMask));
            const int64_t length = T::kAlike ? shfl_idx(span.length, from) : 0;
            while (true) {
                // What follows from tokens and keys is worked out again for each run: the registers are few.
                const int32_t of = hidden(tokens);
                const RequestWork work = request_work(of, keys, T::kBlockTokens, T::tile_cost(of));
                const int64_t share_end = ceil_div(cost_end, work.cost);
                const int64_t rest_units = (share_end < work.units ? share_end : work.units) - unit;
                if (rest_units <= 0) {
                    cost_end -= work.units * work.cost;
                    break;
                }
                Run run = run_at(work, unit);
                if (run.tiles > rest_units) run.tiles = static_cast<int32_t>(rest_units);
                unit += run.tiles;
                const int32_t token = run.block * T::kBlockTokens;
                const int32_t rest = tokens - token;
                const KeyRange hull{0, loader.idle ? 0 : keys};
                KeyRange sees = hull;
                if (T::kAlike && p.view.causal != 0)
                    sees.end = causal_end(p.view, length, rest - 1 - static_cast<int32_t>(loader.lane));
                load_run<T>(p, loader, shared, base + static_cast<int32_t>(from), hull, row + token,
                            loader.idle ? 0 : rest < T::kBlockTokens ? rest : T::kBlockTokens,
                            {run.tile, run.tiles, 0, 0}, sees);
            }
            unit = 0;
        }
        base += 32;
        if (!T::kRehearse || !loader.idle) continue;
        loader.idle = false;
        loader.ring = loader.items = 0;
        ptx::bar_sync(kWalkBarrier, T::kThreads);
        start = shared.start;
        unit = start.unit;
        cost_end = start.cost_end;
        base = start.request;
    }
}

template <class T>
__device__ __forceinline__ void load_all(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    if (T::kAlwaysBlocks || (!T::kAlike && blocks_differ<T>(p))) load_blocks<T>(p, loader, shared);
    else load_requests<T>(p, loader, shared);
    if (loader.warp == T::kItemWarp) load_item<T>(p, loader, shared, {loader.ring, 0, 0, 0, 0, 0, 0, 0}, {0, 0});
}

}  // namespace lidx::sm90_score

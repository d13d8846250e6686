// SPDX-License-Identifier: Apache-2.0
// The loading warps' walk over their CTA's share: token blocks that differ, or rectangles. Part of sm90_score.cu,
// sm90_wide.cu and sm90_fast.cu; sm90_loader.cuh loads what it meets.
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

// Blocks that differ: from shared.start on, a block at a time. Lane t has what row t of the block sees.
//
// T::kWarmUp: a block of one tile goes before them without effect, while the other threads find out where the share
// begins. It fetches the instructions: of a cold launch's time to the first tile they were two thirds, and more where
// they had to wait behind all CTAs' Q (docs/kernel-sm90.md). The CTA barrier of find_start is here.
template <class T, Brings kBrings>
__device__ __forceinline__ void load_blocks(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    int64_t begin = 0, left = 0;
    Block block{0, 0, 0, {0, 0, 0}};
    const auto from_start = [&] {
        begin = shared.start.unit;
        left = shared.start.cost_end;
        block = block_of_start(shared.start, T::kBlockTokens);
    };
    loader.idle = T::kWarmUp;
    if (!T::kWarmUp) from_start();
#pragma unroll 1
    while (loader.idle || (left > 0 && block.tokens > 0)) {
        const auto lane = static_cast<int32_t>(loader.lane);
        KeyRange sees{0, 0}, hull{0, 0};
        BlockPart part{0, 0, 0, 0};
        // The first of the tiles' warps fetches this, the others what is behind it. Plain kernels: elsewhere the
        // registers do not reach.
        if (!T::kPlain || !loader.idle || kBrings == Brings::kItems || loader.warp == 0) {
            if (lane < block.tokens) sees = live_keys(p.view, block.request, block.rows, block.row + lane);
            hull = hull_of_lanes(sees);
            const BlockWork work = block_work(hull, block.tokens, T::kTileKeys, T::kBlockCost,
                                              T::tile_cost(block.tokens), columns_to_fill<T>(p));
            part = block_part(work, columns_to_fill<T>(p), begin, left);
            left -= work.cost();
            begin = 0;
        }
        if (loader.idle) part = {0, T::kLoaderWarps, 0, 0};
        if (part.tiles > 0 || part.fill_begin < part.fill_end)
            load_run<T, kBrings>(p, loader, shared, block.request, hull, block.row, block.tokens, part, sees);
        if (!loader.idle) {
            block = next_block(p.view, block, T::kBlockTokens);
            continue;
        }
        loader.idle = false;
        loader.ring = loader.items = 0;
        if (kBrings == Brings::kItems) ptx::bar_sync(kItemBarrier, T::kScanThreads + 32);
        else ptx::bar_sync(kTileBarrier, T::kScanThreads + 32 * T::kLoaderWarps);
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

// Rectangles: requests 32 at a time, one a lane.
template <class T>
__device__ __forceinline__ void load_requests(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    Start start{0, 1, 0, 0, {0, 0, 0}};
    bool shared_out = p.view.batch > kWarpBatch;
    if (shared_out) start = shared.start;
    int64_t unit = start.unit, cost_end = start.cost_end;
    for (int32_t base = start.request; cost_end > 0 && base < p.view.batch; base += 32) {
        const int32_t mine = base + static_cast<int32_t>(loader.lane);
        RequestSpan span{0, 0, 0};
        if (mine < p.view.batch) span = request_span(p.view, mine);
        uint32_t busy = ptx::vote_sync_ballot(span.tokens > 0 && span.keys > 0, ptx::kFullMask);
        if (!shared_out) {   // no more requests than lanes: this warp alone finds where the share begins
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
                load_run<T, Brings::kBoth>(p, loader, shared, base + static_cast<int32_t>(from), {0, keys}, row + token,
                            rest < T::kBlockTokens ? rest : T::kBlockTokens, {run.tile, run.tiles, 0, 0}, {0, keys});
            }
            unit = 0;
        }
    }
}

template <class T>
__device__ __forceinline__ void load_all(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    if constexpr (T::kItemWarp == T::kLoaderWarps) {   // a warp for items alone runs ahead of the tiles
        static_assert(T::kAlwaysBlocks);
        if (loader.warp != T::kItemWarp) {
            load_blocks<T, Brings::kTiles>(p, loader, shared);
            return;
        }
        load_blocks<T, Brings::kItems>(p, loader, shared);
    } else if (T::kAlike || !blocks_differ<T>(p)) {
        load_requests<T>(p, loader, shared);
    } else {
        load_blocks<T, Brings::kBoth>(p, loader, shared);
    }
    if (loader.warp == T::kItemWarp) load_item<T>(p, loader, shared, {loader.ring, 0, 0, 0, 0, 0, 0, 0}, {0, 0});
}

}  // namespace lidx::sm90_score

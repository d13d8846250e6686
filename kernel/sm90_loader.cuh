// SPDX-License-Identifier: Apache-2.0
// The loading side of the sm_90 kernels: which share of the work is this CTA's, and the warps that bring it in. Part of
// sm90_score.cu, which has the picture and the hand-overs.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_score_layout.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_score {

__device__ __forceinline__ void wait(ptx::SharedAddr barrier, uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, {parity})) {
    }
}

// A place in the ring of key tiles.
struct Stage {
    uint32_t index, parity;
};
__device__ __forceinline__ Stage stage_at(uint32_t ring) { return {ring % kStages, ring / kStages % 2}; }

// ---- the share of this CTA

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

// All threads; two CTA barriers, behind which shared.start holds. A thread sums a segment of the requests.
template <class T>
__device__ __forceinline__ void find_start(const ScoreParams& p, Shared& shared, uint32_t thread) {
    const uint32_t lane = thread % 32;
    const int32_t each = (p.view.batch + kThreads - 1) / kThreads;
    const int32_t first = static_cast<int32_t>(thread) * each;
    const int32_t last = first + each < p.view.batch ? first + each : p.view.batch;
    int64_t own = 0;
    for (int32_t request = first; request < last; ++request) {
        const RequestWork work = load_work<T>(p, request);
        own += work.units * work.cost;
    }
    const int64_t through = inclusive_scan(own, lane);
    if (lane == 31) shared.warp_cost[thread / 32] = through;
    if (thread == 0) shared.start = {0, 0, p.view.batch, 0};
    ptx::bar_sync();
    const int64_t warps = inclusive_scan(lane < kWarps ? shared.warp_cost[lane] : 0, lane);
    const int64_t total = shfl_idx(warps, 31);
    const int64_t before_warp = thread >= 32 ? shfl_idx(warps, thread / 32 - 1) : 0;
    int64_t before = before_warp + through - own;
    const int64_t begin = share_begin(total, ptx::ctaid_x(), ptx::nctaid_x());
    const int64_t end = share_begin(total, ptx::ctaid_x() + 1, ptx::nctaid_x());
    if (begin < end && begin >= before && begin < before + own) {
        int32_t request = first;
        RequestWork work = load_work<T>(p, request);
        while (begin >= before + work.units * work.cost) {
            before += work.units * work.cost;
            work = load_work<T>(p, ++request);
        }
        // Units that begin inside the share are this CTA's.
        shared.start = {ceil_div(begin - before, work.cost), end - before, request, 0};
    }
    ptx::bar_sync();
}

// ---- warps 16-19: everything that is loaded. Ring position n is warp n % 4's: one warp alone needs 0.45 us a tile.

// The boxes of a request's key tiles, of this warp's only, 32 at a time: a lane looks up a page each. The next 32 are
// on their way while the first are used.
struct Pages {
    int32_t request, keys;
    int32_t tile;          // the tile that lane 0's `now` belongs to
    int32_t now, next;     // page ids, kDeadPage where nothing may be read
};

struct Loader {
    const ptx::TensorMap* k_map;
    const ptx::TensorMap* q_map;
    uint32_t warp, lane;
    int32_t box_slots, box_shift;   // keys of a box; log2 of the boxes of a tile
    uint32_t ring = 0, items = 0;
    bool bad = false;               // this lane has seen an illegal page id
    __device__ __forceinline__ int32_t boxes() const { return 1 << box_shift; }
    // Tiles whose boxes the 32 lanes hold, counted as this warp meets them.
    __device__ __forceinline__ int32_t batch() const { return 32 >> box_shift; }
};

// The page of this lane's box, of the batch of tiles that begins at `tile`.
__device__ __forceinline__ int32_t load_page(const ScoreParams& p, Loader& loader, const Pages& pages, int32_t tile) {
    const auto lane = static_cast<int32_t>(loader.lane);
    const int32_t box = lane & (loader.boxes() - 1);
    const int64_t key = int64_t{tile + kLoaderWarps * (lane >> loader.box_shift)} * kTileKeys + box * loader.box_slots;
    if (key >= pages.keys) return kDeadPage;
    int32_t page = pages.request;
    if (p.block_table) {
        const auto index = static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size);
        page = ptx::ld_global_nc_s32(p.block_table + pages.request * p.block_table_stride + index);
    }
    if (page >= 0 && page < p.num_pages) return page;
    loader.bad = true;
    return kDeadPage;
}

// The item and its Q: one box per group, and the q_scale of the tokens that there are.
template <class T>
__device__ __forceinline__ void load_item(const ScoreParams& p, const Loader& loader, Shared& shared,
                                          const Item& item) {
    const uint32_t buffer = loader.items % 2;
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[buffer]);
    wait(ptx::cvta_to_shared(&shared.q_empty[buffer]), (loader.items / 2 + 1) % 2);
    if (!ptx::elect_sync(ptx::kFullMask)) return;
    const ptx::SharedAddr to = ptx::cvta_to_shared(&shared.item[buffer]);
    ptx::st_shared_v4_u32(to, {item.ring, item.tiles, static_cast<uint32_t>(item.row),
                               static_cast<uint32_t>(item.tokens)});
    ptx::st_shared_v4_u32(to + 16, {static_cast<uint32_t>(item.key), 0, 0, 0});
    if (item.tiles == 0) {
        ptx::mbarrier_arrive(full);
        return;
    }
    const int32_t groups = groups_of(item.tokens, T::kGroupTokens);
    const auto scale_bytes = static_cast<uint32_t>(item.tokens * T::kHeads * 4);
    ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(groups * kColumns * kDepth) + scale_bytes);
    ptx::cp_async_bulk_shared_global(ptx::cvta_to_shared(shared.q_scale[buffer]),
                                     static_cast<const float*>(p.q_scale) + int64_t{item.row} * T::kHeads, scale_bytes,
                                     full);
    for (int32_t group = 0; group < groups; ++group)
        ptx::cp_async_bulk_tensor_2d(ptx::cvta_to_shared(shared.q[buffer][0]) +
                                         static_cast<uint32_t>(group * kColumns * kDepth),
                                     loader.q_map, 0, (item.row + group * T::kGroupTokens) * T::kHeads, full);
}

// One key tile of a request: its boxes, its k_scale, which of its keys live.
__device__ __forceinline__ void load_tile(const ScoreParams& p, Loader& loader, Shared& shared, Pages& pages,
                                          int32_t tile, uint32_t ring) {
    if (tile - pages.tile >= kLoaderWarps * loader.batch()) {
        pages.tile = tile;
        pages.now = pages.next;
        pages.next = load_page(p, loader, pages, tile + kLoaderWarps * loader.batch());
    }
    const int32_t first = (tile - pages.tile) / kLoaderWarps << loader.box_shift;   // lane of the tile's first box
    const int32_t key_begin = tile * kTileKeys;
    const int32_t slot_mask = p.block_table ? p.page_size - 1 : -1;   // paged: a power of two
    const auto page_of = [&](int32_t box) {
        return static_cast<int32_t>(ptx::shfl_sync_idx(static_cast<uint32_t>(pages.now),
                                                       static_cast<uint32_t>(first + box), ptx::kFullMask));
    };
    const int32_t first_page = page_of(0);
    const uint8_t* scale[kTileKeys / 32];   // of the lane's keys; null where they do not live
    uint32_t live[kTileKeys / 32];
#pragma unroll
    for (int32_t half = 0; half < kTileKeys / 32; ++half) {
        const int32_t index = half * 32 + static_cast<int32_t>(loader.lane), key = key_begin + index;
        const int32_t page = loader.box_shift == 0 ? first_page : page_of(index >> (6 - loader.box_shift));
        const bool lives = key < pages.keys && page != kDeadPage;
        scale[half] = lives ? p.k_scale + page * p.k_scale_page_stride + int64_t{key & slot_mask} * 4 : nullptr;
        live[half] = ptx::vote_sync_ballot(lives, ptx::kFullMask);
    }
    const Stage stage = stage_at(ring);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.k_full[stage.index]);
    const ptx::SharedAddr codes = ptx::cvta_to_shared(shared.k[stage.index]);
    wait(ptx::cvta_to_shared(&shared.k_empty[stage.index]), stage.parity ^ 1);
    if (ptx::elect_sync(ptx::kFullMask)) {
        ptx::st_shared_v2_u32(ptx::cvta_to_shared(shared.live[stage.index]), live[0], live[1]);
        ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>((loader.box_slots << loader.box_shift) * kDepth));
        ptx::cp_async_bulk_tensor_3d(codes, loader.k_map, 0, key_begin & slot_mask, first_page, full);
    }
#pragma unroll 1
    for (int32_t box = 1; box < loader.boxes(); ++box) {
        const int32_t page = page_of(box), slot = (key_begin + box * loader.box_slots) & slot_mask;
        if (ptx::elect_sync(ptx::kFullMask))
            ptx::cp_async_bulk_tensor_3d(codes + static_cast<uint32_t>(box * loader.box_slots * kDepth), loader.k_map,
                                         0, slot, page, full);
    }
#pragma unroll
    for (int32_t half = 0; half < kTileKeys / 32; ++half)
        if (scale[half])
            ptx::cp_async_ca_4(ptx::cvta_to_shared(&shared.k_scale[stage.index][half * 32]) + loader.lane * 4,
                               scale[half]);
    ptx::cp_async_mbarrier_arrive_noinc(full);
}

template <class T>
__device__ __forceinline__ void load_all(const ScoreParams& p, Loader& loader, Shared& shared) {
    Start start{0, 1, 0, 0};
    if (p.view.batch > kWarpBatch) start = shared.start;
    int64_t unit = start.unit, cost_end = start.cost_end;
    bool shared_out = p.view.batch > kWarpBatch;
    for (int32_t base = start.request; cost_end > 0 && base < p.view.batch; base += 32) {
        // Requests base .. base + 31, one a lane.
        const int32_t mine = base + static_cast<int32_t>(loader.lane);
        RequestSpan span{0, 0, 0};
        if (mine < p.view.batch) span = request_span(p.view, mine);
        uint32_t busy = ptx::vote_sync_ballot(span.tokens > 0 && span.keys > 0, ptx::kFullMask);
        if (!shared_out) {   // no more requests than lanes: this warp alone finds where the share begins
            const RequestWork work = request_work(span.tokens, span.keys, T::kGroupTokens);
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
            const RequestWork work = request_work(tokens, keys, T::kGroupTokens);
            const int64_t share_end = ceil_div(cost_end, work.cost);
            const int64_t unit_end = share_end < work.units ? share_end : work.units;
            while (unit < unit_end) {
                Run run = run_at(work, unit);
                if (run.tiles > unit_end - unit) run.tiles = static_cast<int32_t>(unit_end - unit);
                const int32_t token = run.block * T::kBlockTokens;
                const int32_t rest = tokens - token;
                if (loader.warp == 0)
                    load_item<T>(p, loader, shared,
                                 {loader.ring, static_cast<uint32_t>(run.tiles), row + token,
                                  rest < T::kBlockTokens ? rest : T::kBlockTokens, run.tile * kTileKeys, {}});
                ++loader.items;
                const auto own = static_cast<int32_t>((loader.warp - loader.ring) % kLoaderWarps);
                if (own < run.tiles) {
                    Pages pages{base + static_cast<int32_t>(from), keys, run.tile + own, 0, 0};
                    pages.now = load_page(p, loader, pages, pages.tile);
                    pages.next = load_page(p, loader, pages, pages.tile + kLoaderWarps * loader.batch());
#pragma unroll 1
                    for (int32_t i = own; i < run.tiles; i += kLoaderWarps)
                        load_tile(p, loader, shared, pages, run.tile + i, loader.ring + static_cast<uint32_t>(i));
                }
                loader.ring += static_cast<uint32_t>(run.tiles);
                unit += run.tiles;
            }
            cost_end -= work.units * work.cost;
            unit = 0;
        }
    }
    if (loader.warp == 0) load_item<T>(p, loader, shared, {loader.ring, 0, 0, 0, 0, {}});
    if (loader.bad && p.check_word) ptx::st_global_u32(p.check_word, 1);
}

}  // namespace lidx::sm90_score

// SPDX-License-Identifier: Apache-2.0
// The loading warps of the sm_90 kernels. Part of sm90_score.cu and sm90_wide.cu, which have the pictures and the
// hand-overs. T, a kernel's tile, says how large its tiles and blocks are and what its shared memory holds.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_schedule.h"
#include "kernel/sm90_share.cuh"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_score {

// The page coordinate of a box that must not be read (beyond the length, or an illegal page id).
inline constexpr int32_t kDeadPage = -1;

__device__ __forceinline__ void wait(ptx::SharedAddr barrier, uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, {parity})) {
    }
}

// A place in the ring of key tiles.
struct Stage {
    uint32_t index, parity;
};
template <class T>
__device__ __forceinline__ Stage stage_at(uint32_t ring) {
    return {ring % T::kStages, ring / T::kStages % 2};
}

// ---- the loading warps: everything that is loaded. Ring position n is warp n % kLoaderWarps's: one warp alone needs
// 0.45 us a tile.

// The boxes of a request's key tiles, of this warp's only, 32 at a time: a lane looks up a page each. The next 32 are
// on their way while the first are used.
struct Place {
    int32_t page, scale_page;   // kDeadPage where nothing may be read
};
struct Pages {
    int32_t request;
    int32_t row, tokens;   // of the token block
    KeyRange keys;         // outside of it nothing is read
    int32_t tile;          // the tile that lane 0's `now` belongs to
    int32_t slot;          // of `now` in its page
    Place now, next;
};

struct Loader {
    const ptx::TensorMap* k_map;
    const ptx::TensorMap* q_map;
    uint32_t warp, lane;
    int32_t box_slots, slot_shift, boxes;   // keys of a box, log2 (31: all keys of a tile), boxes of a tile
    uint32_t ring = 0, items = 0;
};
template <class T>
__device__ __forceinline__ Loader make_loader(const ScoreParams& p, const ptx::TensorMap& k_map,
                                              const ptx::TensorMap& q_map, uint32_t warp, uint32_t lane) {
    const int32_t slots = k_box_slots(p.block_table != nullptr, p.page_size, T::kTileKeys);
    const bool one = !p.block_table || slots == T::kTileKeys;
    return {&k_map, &q_map, warp, lane, slots, one ? 31 : 31 - __clz(slots), one ? 1 : T::kTileKeys / slots};
}

// Tiles whose boxes the 32 lanes hold, counted as this warp meets them.
__device__ __forceinline__ int32_t batch_tiles(const Loader& loader) { return 32 / loader.boxes; }

// First key of this lane's box, of the batch of tiles that begins at `tile`.
template <class T>
__device__ __forceinline__ int64_t box_key(const Loader& loader, int32_t tile) {
    const int32_t lane_tile = static_cast<int32_t>(loader.lane) / loader.boxes;
    const int32_t box = static_cast<int32_t>(loader.lane) - lane_tile * loader.boxes;
    return int64_t{tile + T::kLoaderWarps * lane_tile} * T::kTileKeys + box * loader.box_slots;
}

__device__ __forceinline__ int32_t page_index(const ScoreParams& p, int64_t key) {
    return p.block_table ? static_cast<int32_t>(static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size)) : 0;
}

// The pages of this lane's box, of the batch of tiles that begins at `tile`.
template <class T>
__device__ __forceinline__ Place load_place(const ScoreParams& p, const Loader& loader, const Pages& pages,
                                            int32_t tile) {
    const int64_t key = box_key<T>(loader, tile);
    if (key >= pages.keys.end || (!T::kAlike && key + loader.box_slots <= pages.keys.begin))
        return {kDeadPage, kDeadPage};
    Place place{pages.request, pages.request};
    if (p.block_table) {
        const int32_t index = page_index(p, key);
        place.page = ptx::ld_global_nc_s32(p.block_table + pages.request * p.block_table_stride + index);
        place.scale_page = place.page;
        if (!T::kPlain && p.scale_block_table != p.block_table)
            place.scale_page =
                ptx::ld_global_nc_s32(p.scale_block_table + pages.request * p.scale_block_table_stride + index);
    }
    if (place.page >= 0 && place.page < p.num_pages &&
        (T::kPlain || (place.scale_page >= 0 && place.scale_page < p.scale_num_pages)))
        return place;
    if (p.check_word) ptx::st_relaxed_gpu_global_u32(p.check_word, 1);
    return {kDeadPage, kDeadPage};
}

template <class T>
__device__ __forceinline__ void start_pages(const ScoreParams& p, Loader& loader, Pages& pages, int32_t tile) {
    pages.tile = tile;
    pages.now = pages.next;
    const int64_t key = box_key<T>(loader, tile);
    pages.slot = static_cast<int32_t>(key) - page_index(p, key) * p.page_size;
    pages.next = load_place<T>(p, loader, pages, tile + T::kLoaderWarps * batch_tiles(loader));
}

// The item's weights, by all lanes of a warp, and their arrivals; zeros for tokens that fill up a group and for head
// slots without a head. fp32 without a second factor: copied in the background.
template <class T>
__device__ __forceinline__ void load_weights(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                             const Item& item, ptx::SharedAddr full) {
    const ptx::SharedAddr to = ptx::cvta_to_shared(shared.q_scale[loader.items % T::kQBuffers]);
    const bool plain = T::kPlain || (p.weight_type == FloatType::kFp32 && !p.q_scale2);
    const int64_t stride = T::kPlain ? T::kHeads : p.weight_stride;
    const int32_t all_tokens = T::padded_tokens(item.tokens);
#pragma unroll 1
    for (auto i = static_cast<int32_t>(loader.lane); i < all_tokens * T::kHeadSlots; i += 32) {
        const int32_t token = i / T::kHeadSlots, head = i % T::kHeadSlots;
        const int64_t row = int64_t{item.row} + token;
        const ptx::SharedAddr cell = to + static_cast<uint32_t>((token * T::kWeightStride + head) * 4);
        if (token >= item.tokens || head >= T::kHeads) ptx::st_shared_f32(cell, 0.0f);
        else if (!plain) ptx::st_shared_f32(cell, load_weight(p, row, head));
        else ptx::cp_async_ca_4(cell, static_cast<const float*>(p.q_scale) + row * stride + head);
    }
    if (plain) ptx::cp_async_mbarrier_arrive_noinc(full);
    else ptx::mbarrier_arrive(full);
}

// The item, what its rows see (row t: lane t's `sees`), its weights and its Q.
template <class T>
__device__ __forceinline__ void load_item(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                          const Item& item, const KeyRange& sees) {
    const uint32_t buffer = loader.items % T::kQBuffers;
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[buffer]);
    wait(ptx::cvta_to_shared(&shared.q_empty[buffer]), (loader.items / T::kQBuffers + 1) % 2);
    if (!T::kAlike && loader.lane < T::kBlockTokens)
        ptx::st_shared_v2_u32(ptx::cvta_to_shared(&shared.sees[buffer][loader.lane]),
                              static_cast<uint32_t>(sees.begin), static_cast<uint32_t>(sees.end));
    load_weights<T>(p, loader, shared, item, full);
    ptx::bar_warp_sync(ptx::kFullMask);   // the elected lane's arrival hands over every lane's `sees`
    if (!ptx::elect_sync(ptx::kFullMask)) return;
    const ptx::SharedAddr to = ptx::cvta_to_shared(&shared.item[buffer]);
    ptx::st_shared_v4_u32(to, {item.ring, item.tiles, static_cast<uint32_t>(item.row),
                               static_cast<uint32_t>(item.tokens)});
    ptx::st_shared_v4_u32(to + 16, {static_cast<uint32_t>(item.key), static_cast<uint32_t>(item.fill_begin),
                                    static_cast<uint32_t>(item.fill_end), 0});
    constexpr bool kQElsewhere = requires { T::kConsumersLoadQ; };   // sm90_fast.cu: Q comes by the consumers
    if (kQElsewhere || item.tiles == 0) {
        ptx::mbarrier_arrive(full);
        return;
    }
    const auto boxes = static_cast<int32_t>(T::q_boxes(item.tokens));
    const auto buffer_boxes = static_cast<uint32_t>(T::q_boxes(most_tokens(p.view)));
    const auto first = ptx::cvta_to_shared(shared.q[buffer * buffer_boxes]);
    ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(boxes * T::kQBoxBytes));
    for (int32_t box = 0; box < boxes; ++box) {
        const ptx::SharedAddr box_to = first + static_cast<uint32_t>(box * T::kQBoxBytes);
        if constexpr (T::kQPairs)
            ptx::cp_async_bulk_tensor_5d(box_to, loader.q_map, 0, 0, item.row + 2 * box, 0, 0, full);
        else if constexpr (T::kHeadSlots != T::kHeads)
            ptx::cp_async_bulk_tensor_3d(box_to, loader.q_map, 0, 0, item.row + T::kGroupTokens * box, full);
        else ptx::cp_async_bulk_tensor_2d(box_to, loader.q_map, 0, item.row * T::kHeads + 64 * box, full);
    }
}

// One key tile of a request: its boxes, its k_scale, which of its keys live.
template <class T>
__device__ __forceinline__ void load_tile(const ScoreParams& p, Loader& loader, typename T::Shared& shared,
                                          Pages& pages, int32_t tile, uint32_t ring) {
    constexpr int32_t kWords = T::kTileKeys / 32;
    if (tile - pages.tile >= T::kLoaderWarps * batch_tiles(loader)) start_pages<T>(p, loader, pages, tile);
    const int32_t first = (tile - pages.tile) / T::kLoaderWarps * loader.boxes;   // lane of the tile's first box
    const auto of_box = [&](int32_t value, int32_t box) {
        return static_cast<int32_t>(
            ptx::shfl_sync_idx(static_cast<uint32_t>(value), static_cast<uint32_t>(first + box), ptx::kFullMask));
    };
    const int32_t first_page = of_box(pages.now.page, 0), first_slot = of_box(pages.slot, 0);
    const uint8_t* scale[kWords];   // of the lane's keys; null where they do not live
    uint32_t live[kWords];
#pragma unroll
    for (int32_t word = 0; word < kWords; ++word) {
        const int32_t index = word * 32 + static_cast<int32_t>(loader.lane), box = index >> loader.slot_shift;
        // One box, the common case: its page is known.
        const bool known = T::kPlain && loader.boxes == 1;
        const int64_t page = known ? first_page : of_box(T::kPlain ? pages.now.page : pages.now.scale_page, box);
        const int32_t slot = (known ? first_slot : of_box(pages.slot, box)) + index - box * loader.box_slots;
        const int32_t key = tile * T::kTileKeys + index;
        const bool lives = (T::kAlike ? key < pages.keys.end : pages.keys.has(key)) && page != kDeadPage;
        scale[word] = lives ? p.k_scale + page * p.k_scale_page_stride + int64_t{slot} * 4 : nullptr;
        live[word] = ptx::vote_sync_ballot(lives, ptx::kFullMask);
    }
    if (T::kAlike && p.fill_columns != 0) {   // keys on illegal pages; elsewhere consumers fill
#pragma unroll
        for (int32_t word = 0; word < kWords; ++word) {
            const int32_t key = tile * T::kTileKeys + word * 32 + static_cast<int32_t>(loader.lane);
            if (key >= pages.keys.end || (live[word] >> loader.lane & 1) != 0) continue;
#pragma unroll 1
            for (int32_t token = 0; token < pages.tokens; ++token)
                ptx::st_global_f32(static_cast<float*>(p.scores) + (int64_t{pages.row} + token) * p.score_stride + key,
                                   dead_score());
        }
    }
    const Stage stage = stage_at<T>(ring);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.k_full[stage.index]);
    const ptx::SharedAddr codes = ptx::cvta_to_shared(shared.k[stage.index]);
    const auto box_bytes = static_cast<uint32_t>(loader.box_slots * kDepth);
    wait(ptx::cvta_to_shared(&shared.k_empty[stage.index]), stage.parity ^ 1);
    if (ptx::elect_sync(ptx::kFullMask)) {
#pragma unroll
        for (int32_t word = 0; word < kWords; ++word)
            ptx::st_shared_u32(ptx::cvta_to_shared(&shared.live[stage.index][word]), live[word]);
        ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(loader.boxes) * box_bytes);
        ptx::cp_async_bulk_tensor_3d(codes, loader.k_map, 0, first_slot, first_page, full);
    }
#pragma unroll 1
    for (int32_t box = 1; box < loader.boxes; ++box) {
        const int32_t page = of_box(pages.now.page, box), slot = of_box(pages.slot, box);
        if (ptx::elect_sync(ptx::kFullMask))
            ptx::cp_async_bulk_tensor_3d(codes + static_cast<uint32_t>(box) * box_bytes, loader.k_map, 0, slot, page,
                                         full);
    }
#pragma unroll
    for (int32_t word = 0; word < kWords; ++word)
        if (scale[word])
            ptx::cp_async_ca_4(ptx::cvta_to_shared(&shared.k_scale[stage.index][word * 32]) + loader.lane * 4,
                               scale[word]);
    ptx::cp_async_mbarrier_arrive_noinc(full);
}

// A run of key tiles of a token block, and columns to fill.
template <class T>
__device__ __forceinline__ void load_run(const ScoreParams& p, Loader& loader, typename T::Shared& shared,
                                         int32_t request, const KeyRange& keys, int32_t row, int32_t tokens,
                                         const BlockPart& part, const KeyRange& sees) {
    const auto own = static_cast<int32_t>((loader.warp + T::kStages - loader.ring % T::kStages) % T::kLoaderWarps);
    Pages pages{request, row, tokens, keys, 0, 0, {kDeadPage, kDeadPage}, {kDeadPage, kDeadPage}};
    if (own < part.tiles) pages.next = load_place<T>(p, loader, pages, part.tile + own);
    if (loader.warp == T::kLoaderWarps - 1)   // the first tiles of a short share are the other warps'
        load_item<T>(p, loader, shared,
                     {loader.ring, static_cast<uint32_t>(part.tiles), row, tokens, part.tile * T::kTileKeys,
                      part.fill_begin, part.fill_end, 0},
                     sees);
    ++loader.items;
    if (own < part.tiles) {
        start_pages<T>(p, loader, pages, part.tile + own);
#pragma unroll 1
        for (int32_t i = own; i < part.tiles; i += T::kLoaderWarps)
            load_tile<T>(p, loader, shared, pages, part.tile + i, loader.ring + static_cast<uint32_t>(i));
    }
    loader.ring += static_cast<uint32_t>(part.tiles);
}

__device__ __forceinline__ int32_t shfl_bfly(int32_t value, uint32_t mask) {
    return __float_as_int(ptx::shfl_sync_bfly(__int_as_float(value), mask, ptx::kFullMask));
}
__device__ __forceinline__ KeyRange hull_of_lanes(KeyRange keys) {
    if (keys.empty()) keys = {INT32_MAX, 0};
#pragma unroll
    for (uint32_t mask = 16; mask > 0; mask /= 2) {
        const int32_t begin = shfl_bfly(keys.begin, mask), end = shfl_bfly(keys.end, mask);
        keys = {begin < keys.begin ? begin : keys.begin, end > keys.end ? end : keys.end};
    }
    return keys.empty() ? KeyRange{0, 0} : keys;
}

// Blocks that differ: from shared.start on, a block at a time. Lane t has what row t of the block sees. Little is kept
// from one block to the next: the registers are few.
template <class T>
__device__ __forceinline__ void load_blocks(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    int64_t begin = shared.start.unit, left = shared.start.cost_end;
    int32_t row = shared.start.row;
#pragma unroll 1
    while (left > 0) {
        const Block block = block_from_row(p.view, row, T::kBlockTokens);
        if (block.tokens == 0) break;
        row = block.row + block.tokens;
        const auto lane = static_cast<int32_t>(loader.lane);
        KeyRange sees{0, 0};
        if (lane < block.tokens) sees = live_keys(p.view, block.request, block.rows, block.row + lane);
        const KeyRange hull = hull_of_lanes(sees);
        const BlockWork work =
            block_work(hull, block.tokens, T::kTileKeys, T::kBlockCost, T::tile_cost(block.tokens), p.fill_columns);
        const BlockPart part = block_part(work, p.fill_columns, begin, left);
        left -= work.cost();
        begin = 0;
        if (part.tiles > 0 || part.fill_begin < part.fill_end)
            load_run<T>(p, loader, shared, block.request, hull, block.row, block.tokens, part, sees);
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
    Start start{0, 1, 0, 0};
    bool shared_out = p.view.batch > kWarpBatch;
    if (shared_out) start = shared.start;
    int64_t unit = start.unit, cost_end = start.cost_end;
    for (int32_t base = start.request; cost_end > 0 && base < p.view.batch; base += 32) {
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
            while (true) {
                // What follows from tokens and keys is worked out again for each run: the registers are few.
                const RequestWork work = request_work(hidden(tokens), keys, T::kGroupTokens);
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
                load_run<T>(p, loader, shared, base + static_cast<int32_t>(from), {0, keys}, row + token,
                            rest < T::kBlockTokens ? rest : T::kBlockTokens, {run.tile, run.tiles, 0, 0}, {0, keys});
            }
            unit = 0;
        }
    }
}

template <class T>
__device__ __forceinline__ void load_all(const ScoreParams& p, Loader& loader, typename T::Shared& shared) {
    if constexpr (T::kAlwaysBlocks) load_blocks<T>(p, loader, shared);
    else if constexpr (T::kAlike) load_requests<T>(p, loader, shared);
    else if (blocks_differ<T>(p)) load_blocks<T>(p, loader, shared);
    else load_requests<T>(p, loader, shared);
    if (loader.warp == T::kLoaderWarps - 1)
        load_item<T>(p, loader, shared, {loader.ring, 0, 0, 0, 0, 0, 0, 0}, {0, 0});
}

}  // namespace lidx::sm90_score

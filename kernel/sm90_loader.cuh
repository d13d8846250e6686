// SPDX-License-Identifier: Apache-2.0
// The loading warps of the sm_90 kernels, part of all but sm90_decode.cu, which have the pictures and the hand-overs.
// T, a kernel's tile, says how large its tiles and blocks are and what its shared memory holds.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm100_wide_load.cuh"
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

// ---- the loading warps: everything that is loaded. Ring position n is warp n % kLoaderWarps's, since one warp alone
// needs 0.45 us a tile; of T::kWarmUp's first kStages see load_first.

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
    int32_t begun = 0;   // tiles of the next run that are on their way already, as its item is
    bool idle = false;   // goes through everything without effect: see load_blocks
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
__device__ __forceinline__ int32_t box_key(const Loader& loader, int32_t tile) {
    const int32_t lane_tile = static_cast<int32_t>(loader.lane) / loader.boxes;
    const int32_t box = static_cast<int32_t>(loader.lane) - lane_tile * loader.boxes;
    return (tile + T::kLoaderWarps * lane_tile) * T::kTileKeys + box * loader.box_slots;
}

__device__ __forceinline__ int32_t page_index(const ScoreParams& p, int32_t key) {
    return p.block_table ? static_cast<int32_t>(static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size)) : 0;
}

// The pages of this lane's box, of the batch of tiles that begins at `tile`.
template <class T>
__device__ __forceinline__ Place load_place(const ScoreParams& p, const Loader& loader, const Pages& pages,
                                            int32_t tile) {
    const int32_t key = box_key<T>(loader, tile);
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

// From a tile of `now` to that of `next`.
template <class T>
__device__ __forceinline__ int32_t pages_step(const Loader& loader) {
    return T::kLoaderWarps * batch_tiles(loader);
}

// Of this lane's box, in its page.
template <class T>
__device__ __forceinline__ int32_t box_slot(const ScoreParams& p, const Loader& loader, int32_t tile) {
    const int32_t key = box_key<T>(loader, tile);
    return key - page_index(p, key) * p.page_size;
}

template <class T>
__device__ __forceinline__ void next_pages(const ScoreParams& p, const Loader& loader, Pages& pages) {
    pages.tile += pages_step<T>(loader);
    pages.now = pages.next;
    pages.slot = box_slot<T>(p, loader, pages.tile);
    pages.next = load_place<T>(p, loader, pages, pages.tile + pages_step<T>(loader));
}

// Those of pages.tile on, and no next.
template <class T>
__device__ __forceinline__ Pages pages_at(const ScoreParams& p, const Loader& loader, Pages pages) {
    pages.slot = box_slot<T>(p, loader, pages.tile);
    pages.now = load_place<T>(p, loader, pages, pages.tile);
    return pages;
}

// Zeros for the weights of tokens that fill up a group and of head slots without a head. By all lanes of a warp; an
// arrival must release them.
template <class T>
__device__ __forceinline__ void pad_weights(const Loader& loader, typename T::Shared& shared, const Item& item) {
    const ptx::SharedAddr to = ptx::cvta_to_shared(shared.q_scale[loader.items % T::kQBuffers]);
    const int32_t first = T::kHeadSlots == T::kHeads ? item.tokens * T::kHeadSlots : 0;
    const int32_t end = T::padded_tokens(item.tokens) * T::kHeadSlots;
#pragma unroll 1
    for (int32_t i = first + static_cast<int32_t>(loader.lane); i < end; i += 32) {
        const int32_t token = i / T::kHeadSlots, head = i % T::kHeadSlots;
        if (token >= item.tokens || head >= T::kHeads)
            ptx::st_shared_f32(to + weight_cell<T>(token, head), 0.0f);
    }
}

// fp32 without a second factor is copied in the background.
template <class T>
__device__ __forceinline__ bool plain_weights(const ScoreParams& p) {
    return T::kPlain || (p.weight_type == FloatType::kFp32 && !p.q_scale2);
}
// The item's weights, by all lanes of a warp.
template <class T>
__device__ __forceinline__ void load_weights(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                             const Item& item) {
    const ptx::SharedAddr to = ptx::cvta_to_shared(shared.q_scale[loader.items % T::kQBuffers]);
    const bool plain = plain_weights<T>(p);
    const int64_t stride = T::kPlain ? T::kHeads : p.weight_stride;
#pragma unroll 1
    for (auto i = static_cast<int32_t>(loader.lane); i < item.tokens * T::kHeads; i += 32) {
        const int32_t token = i / T::kHeads, head = i % T::kHeads;
        const int64_t row = int64_t{item.row} + token;
        const ptx::SharedAddr cell = to + weight_cell<T>(token, head);
        if (!plain) ptx::st_shared_f32(cell, load_weight(p, row, head));
        else ptx::cp_async_ca_4(cell, static_cast<const float*>(p.q_scale) + row * stride + head);
    }
}

// sm90_fast.cu: Q is loaded by the consumers, when they have multiplied the last one.
template <class T>
inline constexpr bool kQElsewhere = requires { T::kConsumersLoadQ; };

// A warpgroup's Q, by one lane.
template <class T>
__device__ __forceinline__ void load_group_query(const ptx::TensorMap* q_map, typename T::Shared& shared,
                                                 uint32_t group, int32_t row) {
    const ptx::SharedAddr to = ptx::cvta_to_shared(shared.q[group * T::kGroupQBoxes]);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.codes_full[group]);
    ptx::mbarrier_arrive_expect_tx(full, T::kGroupQBoxes * T::kQBoxBytes);
#pragma unroll
    for (int32_t box = 0; box < T::kGroupQBoxes; ++box)
        ptx::cp_async_bulk_tensor_2d(to + static_cast<uint32_t>(box * T::kQBoxBytes), q_map, 0,
                                     row * T::kHeads + 64 * (static_cast<int32_t>(group) * T::kGroupQBoxes + box),
                                     full);
}

// The item's Q and weights: asked for.
template <class T>
__device__ __forceinline__ void ask_item(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                         const Item& item) {
    const uint32_t buffer = loader.items % T::kQBuffers;
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[buffer]);
    if (!kQElsewhere<T> && ptx::elect_sync(ptx::kFullMask) && !loader.idle && item.tiles > 0) {
        const auto boxes = static_cast<int32_t>(T::q_boxes(item.tokens));
        const auto buffer_boxes = static_cast<uint32_t>(T::q_boxes(most_tokens(p.view)));
        const auto first = ptx::cvta_to_shared(shared.q[buffer * buffer_boxes]);
        ptx::mbarrier_expect_tx(full, static_cast<uint32_t>(boxes * T::kQBoxBytes));
#pragma unroll 1
        for (int32_t box = 0; box < boxes; ++box) {
            const ptx::SharedAddr box_to = first + static_cast<uint32_t>(box * T::kQBoxBytes);
            if constexpr (T::kQPairs)
                ptx::cp_async_bulk_tensor_5d(box_to, loader.q_map, 0, 0, item.row + 2 * box, 0, 0, full);
            else if constexpr (kTokensTurn<T>)
                ptx::cp_async_bulk_tensor_3d(box_to, loader.q_map, 0, item.row + 2 * box, 0, full);
            else if constexpr (T::kHeadSlots != T::kHeads)
                ptx::cp_async_bulk_tensor_3d(box_to, loader.q_map, 0, 0, item.row + T::kGroupTokens * box, full);
            else ptx::cp_async_bulk_tensor_2d(box_to, loader.q_map, 0, item.row * T::kHeads + 64 * box, full);
        }
    }
    load_weights<T>(p, loader, shared, item);
}

// The item, what its rows see (row t: lane t's `sees`), and the arrivals of all that comes with it.
template <class T>
__device__ __forceinline__ void hand_item(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                          const Item& item, const KeyRange& sees) {
    const uint32_t buffer = loader.items % T::kQBuffers;
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[buffer]);
    if (loader.lane < T::kBlockTokens)
        ptx::st_shared_v2_u32(ptx::cvta_to_shared(&shared.sees[buffer][loader.lane]),
                              static_cast<uint32_t>(sees.begin), static_cast<uint32_t>(sees.end));
    pad_weights<T>(loader, shared, item);
    ptx::bar_warp_sync(ptx::kFullMask);   // the elected lane's arrival hands over what every lane has stored
    if (ptx::elect_sync(ptx::kFullMask) && !loader.idle) {
        const ptx::SharedAddr to = ptx::cvta_to_shared(&shared.item[buffer]);
        ptx::st_shared_v4_u32(to, {item.ring, item.tiles, static_cast<uint32_t>(item.row),
                                   static_cast<uint32_t>(item.tokens)});
        ptx::st_shared_v4_u32(to + 16, {static_cast<uint32_t>(item.key), static_cast<uint32_t>(item.fill_begin),
                                        static_cast<uint32_t>(item.fill_end), 0});
        ptx::mbarrier_arrive(full);
        if constexpr (kQElsewhere<T>) {
            if (loader.items == 0 && item.tiles > 0) {
#pragma unroll 1
                for (int32_t group = 0; group < T::groups(item.tokens); ++group)
                    load_group_query<T>(loader.q_map, shared, static_cast<uint32_t>(group), item.row);
            }
        }
    }
    if (!loader.idle) {
        if (plain_weights<T>(p)) ptx::cp_async_mbarrier_arrive_noinc(full);
        else ptx::mbarrier_arrive(full);
    }
    if (kQElsewhere<T> && loader.items > 0 && item.tiles > 0)
        prefetch_query<T>(p, item.row, item.tokens, loader.lane, 32);
}

template <class T>
__device__ __forceinline__ void load_item(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                          const Item& item, const KeyRange& sees) {
    const uint32_t buffer = loader.items % T::kQBuffers;
    if (!loader.idle) wait(ptx::cvta_to_shared(&shared.q_empty[buffer]), (loader.items / T::kQBuffers + 1) % 2);
    ask_item<T>(p, loader, shared, item);
    hand_item<T>(p, loader, shared, item, sees);
}

// One key tile of a request, of the batch `pages.now`: its boxes, its k_scale, which of its keys live. kFresh: into a
// stage that no tile was in before.
template <class T, bool kFresh = false>
__device__ __forceinline__ void load_tile(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                          const Pages& pages, int32_t tile, uint32_t ring) {
    constexpr int32_t kWords = T::kTileKeys / 32;
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
    if (kLoadersFill<T> && p.fill_columns != 0) {
        uint32_t words = 0;   // in which the lane's key is seen by a row, on an illegal page
#pragma unroll
        for (int32_t word = 0; word < kWords; ++word)
            words |= (pages.keys.has(tile * T::kTileKeys + word * 32 + static_cast<int32_t>(loader.lane)) &&
                              (live[word] >> loader.lane & 1) == 0 ? 1u : 0) << word;
        if (words != 0)
            fill_keys<T>(p, pages.request, pages.row, pages.tokens,
                         tile * T::kTileKeys + static_cast<int32_t>(loader.lane), words);
    }
    const Stage stage = stage_at<T>(ring);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.k_full[stage.index]);
    const ptx::SharedAddr codes = ptx::cvta_to_shared(shared.k[stage.index]);
    const auto box_bytes = static_cast<uint32_t>(loader.box_slots * kDepth);
    if (!kFresh && !loader.idle) wait(ptx::cvta_to_shared(&shared.k_empty[stage.index]), stage.parity ^ 1);
    if (ptx::elect_sync(ptx::kFullMask) && !loader.idle) {
#pragma unroll
        for (int32_t word = 0; word < kWords; ++word)
            ptx::st_shared_u32(ptx::cvta_to_shared(&shared.live[stage.index][word]), live[word]);
        ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(loader.boxes) * box_bytes);
        ptx::cp_async_bulk_tensor_3d(codes, loader.k_map, 0, first_slot, first_page, full);
    }
#pragma unroll 1
    for (int32_t box = 1; box < loader.boxes; ++box) {
        const int32_t page = of_box(pages.now.page, box), slot = of_box(pages.slot, box);
        if (ptx::elect_sync(ptx::kFullMask) && !loader.idle)
            ptx::cp_async_bulk_tensor_3d(codes + static_cast<uint32_t>(box) * box_bytes, loader.k_map, 0, slot, page,
                                         full);
    }
#pragma unroll
    for (int32_t word = 0; word < kWords; ++word)
        if (scale[word])
            ptx::cp_async_ca_4(ptx::cvta_to_shared(&shared.k_scale[stage.index][word * 32]) + loader.lane * 4,
                               scale[word]);
    if (!loader.idle) ptx::cp_async_mbarrier_arrive_noinc(full);
}

// One of a share's first tiles, one a stage, of contiguous keys: nothing to look up, nothing to wait for.
template <class T>
__device__ __forceinline__ void load_first_tile(const ScoreParams& p, const Loader& loader, typename T::Shared& shared,
                                                const KeyRange& keys, int32_t request, int32_t tile, uint32_t stage) {
    constexpr int32_t kWords = T::kTileKeys / 32;
    const int32_t first = tile * T::kTileKeys;
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.k_full[stage]);
    uint32_t live[kWords];
    bool lives[kWords];
#pragma unroll
    for (int32_t word = 0; word < kWords; ++word) {
        lives[word] = keys.has(first + word * 32 + static_cast<int32_t>(loader.lane));
        live[word] = ptx::vote_sync_ballot(lives[word], ptx::kFullMask);
    }
    if (ptx::elect_sync(ptx::kFullMask) && !loader.idle) {
#pragma unroll
        for (int32_t word = 0; word < kWords; ++word)
            ptx::st_shared_u32(ptx::cvta_to_shared(&shared.live[stage][word]), live[word]);
        ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(loader.box_slots * kDepth));
        ptx::cp_async_bulk_tensor_3d(ptx::cvta_to_shared(shared.k[stage]), loader.k_map, 0, first, request, full);
    }
    const uint8_t* scale = p.k_scale + request * p.k_scale_page_stride + int64_t{first} * 4 + loader.lane * 4;
#pragma unroll
    for (int32_t word = 0; word < kWords; ++word)
        if (lives[word])
            ptx::cp_async_ca_4(ptx::cvta_to_shared(&shared.k_scale[stage][word * 32]) + loader.lane * 4,
                               scale + word * 128);
    if (!loader.idle) ptx::cp_async_mbarrier_arrive_noinc(full);
}

template <class T>
__device__ __forceinline__ Item item_of(uint32_t ring, int32_t row, int32_t tokens, const BlockPart& part) {
    return {ring, static_cast<uint32_t>(part.tiles), row, tokens, part.tile * T::kTileKeys, part.fill_begin,
            part.fill_end, 0};
}

// A run of key tiles of a token block, and columns to fill. T::kItemWarp brings the item; with a number beyond the
// tiles' warps it brings no tiles.
template <class T>
__device__ __forceinline__ void load_run(const ScoreParams& p, Loader& loader, typename T::Shared& shared,
                                         int32_t request, const KeyRange& keys, int32_t row, int32_t tokens,
                                         const BlockPart& part, const KeyRange& sees) {
    if (loader.warp == T::kItemWarp && loader.begun == 0)
        load_item<T>(p, loader, shared, item_of<T>(loader.ring, row, tokens, part), sees);
    ++loader.items;
    if (T::kItemWarp < T::kLoaderWarps || loader.warp != T::kItemWarp) {
        const auto own = static_cast<int32_t>((loader.warp + T::kStages - loader.ring % T::kStages) % T::kLoaderWarps);
        const int32_t first = own + loader.begun;
        Pages pages{request, row, tokens, keys, part.tile + first - 2 * pages_step<T>(loader), 0,
                    {kDeadPage, kDeadPage}, {kDeadPage, kDeadPage}};
#pragma unroll 1
        for (int32_t i = first; i < part.tiles; i += T::kLoaderWarps) {
            const int32_t tile = part.tile + i;
#pragma unroll 1
            while (tile - pages.tile >= pages_step<T>(loader)) next_pages<T>(p, loader, pages);   // first: twice
            load_tile<T>(p, loader, shared, pages, tile, loader.ring + static_cast<uint32_t>(i));
        }
    }
    loader.ring += static_cast<uint32_t>(part.tiles);
    loader.begun = 0;
}

}  // namespace lidx::sm90_score

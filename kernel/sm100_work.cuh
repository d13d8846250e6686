// SPDX-License-Identifier: Apache-2.0
// What a CTA of the sm_100 kernels has to do: its units, the part of each that any row sees, where keys lie, and the
// cells that no score goes to. Part of sm100_score.cu, which has the picture and the hand-overs.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm100_score_layout.h"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm100_score {

namespace {

// Who is asking. warp came through shfl: uniform for ptxas too.
struct Thread {
    uint32_t index, warp, lane;
    // The one lane of the CTA that issues TMA, MMA and commits. All of warp 0 must ask. Elected anew at each place (it
    // is the same lane every time): guarded by elect itself, ptxas knows that one lane is active and needs no loop over
    // lanes for uniform operands (1032 SASS instructions in sm100_score_h64; 1280 with the answer kept in a register).
    __device__ __forceinline__ bool issuer() const { return warp == 0 && ptx::elect_sync(ptx::kFullMask); }
};

// ---- units

// A key tile of a slice of a request's token tiles. A launch has a CTA for each, or, with a limit of its CTAs, fewer,
// which take them in turn: the first is `index`, the next index + ctas.
struct Unit {
    uint32_t request, key_tile, slice;
};
struct Units {
    uint32_t index, ctas, all;
    __device__ __forceinline__ Unit unit(const ScoreParams& p) const {
        if (all == ctas && ptx::nctaid_x() == p.tiles[0]) return {ptx::ctaid_x(), ptx::ctaid_y(), ptx::ctaid_z()};
        const uint32_t rest = index / p.tiles[0];
        return {index - rest * p.tiles[0], rest % p.tiles[1], rest / p.tiles[1]};
    }
    __device__ __forceinline__ bool next() {
        if (all - index <= ctas) return false;
        index += ctas;
        return true;
    }
};
__device__ __forceinline__ Units find_units(const ScoreParams& p) {
    return {ptx::ctaid_x() + ptx::nctaid_x() * (ptx::ctaid_y() + ptx::nctaid_y() * ptx::ctaid_z()),
            ptx::nctaid_x() * ptx::nctaid_y() * ptx::nctaid_z(), p.tiles[0] * p.tiles[1] * p.tiles[2]};
}

struct Work {
    int32_t request;
    RequestRows rows;                 // the request's
    int32_t key_begin;                // first key, and first column to fill, of the key tile
    KeyRange keys;                    // of the tile, from the first to the last that a row of the slice sees
    int32_t token_begin, token_end;   // the slice's tokens
    int32_t tile_begin, tile_end;     // token tiles from the first to the last that sees a key of the tile
    __device__ __forceinline__ bool empty() const { return tile_begin >= tile_end; }
};

__device__ __forceinline__ KeyRange in_tile(const KeyRange& keys, int32_t key_begin) {
    const int32_t begin = keys.begin > key_begin ? keys.begin : key_begin;
    const int32_t end = keys.end < key_begin + kTileKeys ? keys.end : key_begin + kTileKeys;
    return {begin, end};
}

// Rows with keys of their own: all threads look at the slice's rows, and every thread gets the answer. `hulls` counts
// the answers, not the units, some of which need none: a warp may still read the last one while others write this one.
template <class T>
__device__ __forceinline__ void narrow_to_rows(const ScoreParams& p, const Thread& self, uint32_t& hulls, Work& work,
                                               typename T::SharedLayout& shared) {
    int32_t begin = INT32_MAX, end = 0, first = INT32_MAX, last = -1;
    for (auto token = work.token_begin + static_cast<int32_t>(self.index); token < work.token_end; token += kThreads) {
        const KeyRange keys =
            in_tile(live_keys(p.view, work.request, work.rows, work.rows.begin + token), work.key_begin);
        if (keys.empty()) continue;
        begin = keys.begin < begin ? keys.begin : begin;
        end = keys.end > end ? keys.end : end;
        first = token < first ? token : first;
        last = token;
    }
    ptx::bar_warp_sync(ptx::kFullMask);
    begin = ptx::redux_sync_min_s32(begin, ptx::kFullMask);
    end = ptx::redux_sync_max_s32(end, ptx::kFullMask);
    first = ptx::redux_sync_min_s32(first, ptx::kFullMask);
    last = ptx::redux_sync_max_s32(last, ptx::kFullMask);
    if (self.lane == 0)
        ptx::st_shared_v4_u32(ptx::cvta_to_shared(&shared.hull[hulls & 1][self.warp]),
                              {static_cast<uint32_t>(begin), static_cast<uint32_t>(end), static_cast<uint32_t>(first),
                               static_cast<uint32_t>(last)});
    ptx::bar_sync();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        const ptx::U32x4 other = ptx::ld_shared_v4_u32(ptx::cvta_to_shared(&shared.hull[hulls & 1][warp]));
        begin = static_cast<int32_t>(other.x) < begin ? static_cast<int32_t>(other.x) : begin;
        end = static_cast<int32_t>(other.y) > end ? static_cast<int32_t>(other.y) : end;
        first = static_cast<int32_t>(other.z) < first ? static_cast<int32_t>(other.z) : first;
        last = static_cast<int32_t>(other.w) > last ? static_cast<int32_t>(other.w) : last;
    }
    ++hulls;
    work.keys = {begin, end};
    work.tile_begin = last < 0 ? 0 : first / T::kTokens;
    work.tile_end = last < 0 ? 0 : last / T::kTokens + 1;
}

template <class T>
__device__ __forceinline__ Work find_work(const ScoreParams& p, const Unit& unit, const Thread& self, uint32_t& hulls,
                                          typename T::SharedLayout& shared) {
    Work work;
    work.request = static_cast<int32_t>(unit.request);
    work.rows = request_rows(p.view, work.request);
    work.key_begin = static_cast<int32_t>(unit.key_tile) * kTileKeys;
    const auto tiles = static_cast<int32_t>(token_tiles(work.rows.tokens, T::kTokens));
    const TileRange slice = slice_tiles(tiles, unit.slice, p.tiles[2]);
    work.token_begin = slice.begin * T::kTokens;
    work.token_end = slice.end * T::kTokens < work.rows.tokens ? slice.end * T::kTokens : work.rows.tokens;
    work.tile_begin = work.tile_end = 0;
    work.keys = {0, 0};
    if (work.token_begin >= work.token_end) return work;
    if (p.view.visibility != Visibility::kRequestLength) {
        narrow_to_rows<T>(p, self, hulls, work, shared);
        return work;
    }
    // The last row sees most, and what a row sees, the rows after it do.
    const auto keys_of = [&](int32_t token) {
        return in_tile(live_keys(p.view, work.request, work.rows, work.rows.begin + token), work.key_begin);
    };
    work.keys = keys_of(work.token_end - 1);
    if (work.keys.empty()) return work;
    work.tile_begin = slice.begin;
    work.tile_end = slice.end;
    if (rows_see_alike(p.view)) return work;
    int32_t sees = slice.end - 1;   // the first token tile that sees a key is in [tile_begin, sees]
    while (work.tile_begin < sees) {
        const int32_t middle = (work.tile_begin + sees) / 2;
        if (keys_of((middle + 1) * T::kTokens - 1).empty()) work.tile_begin = middle + 1;
        else sees = middle;
    }
    return work;
}

// ---- keys

// Where a key's codes lie; page is kDeadPage where the page id is not one of the pool's.
struct KeyPlace {
    int32_t page, slot;
    uint32_t index;   // entry of the block table
};
__device__ __forceinline__ KeyPlace find_key(const ScoreParams& p, int32_t request, int32_t key) {
    if (!p.block_table) return {request, key, 0};
    const uint32_t index = static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size);
    const int32_t page = ptx::ld_global_nc_s32(p.block_table + request * p.block_table_stride + index);
    return {static_cast<uint32_t>(page) < p.num_pages ? page : kDeadPage,
            key - static_cast<int32_t>(index) * p.page_size, index};
}

// The key that a thread reduces and stores.
struct OwnKey {
    int32_t key;
    bool live;       // one of the tile's that rows see, its codes and its scale on legal pages
    float scale;
};
__device__ __forceinline__ OwnKey load_own_key(const ScoreParams& p, const Work& work, const Thread& self) {
    OwnKey own{work.key_begin + static_cast<int32_t>(self.index), false, 0.0f};
    if (!work.keys.has(own.key)) return own;
    const KeyPlace place = find_key(p, work.request, own.key);
    auto scale_page = static_cast<uint32_t>(work.request);
    if (p.block_table)
        scale_page = static_cast<uint32_t>(ptx::ld_global_nc_s32(
            p.scale_block_table + work.request * p.scale_block_table_stride + place.index));
    own.live = place.page != kDeadPage && scale_page < p.scale_num_pages;
    if (own.live)
        own.scale = ptx::ld_global_nc_f32(p.k_scale + scale_page * p.k_scale_page_stride + int64_t{place.slot} * 4);
    return own;
}

// ---- cells without a score

// LIDX_FLAG_FILL: the dead columns of the slice's rows in this tile's columns. A lane looks at a row each; the warp
// then writes those that have any.
__device__ __forceinline__ void fill_columns(const ScoreParams& p, const Work& work, const Thread& self) {
    const int32_t columns_end =
        p.fill_columns < work.key_begin + kTileKeys ? p.fill_columns : work.key_begin + kTileKeys;
    if (work.key_begin >= columns_end) return;
    for (int32_t first = work.token_begin + static_cast<int32_t>(self.warp) * 32; first < work.token_end;
         first += kThreads) {
        const int32_t token = first + static_cast<int32_t>(self.lane);
        KeyRange keys{0, 0};
        if (token < work.token_end) keys = live_keys(p.view, work.request, work.rows, work.rows.begin + token);
        // Live columns are an interval: all are live if the first and the last are.
        const bool dead = dead_column(p, keys, work.key_begin) || dead_column(p, keys, columns_end - 1);
        uint32_t rows = ptx::vote_sync_ballot(token < work.token_end && dead, ptx::kFullMask);
        for (; rows != 0; rows &= rows - 1) {
            const auto lane = static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1);
            const KeyRange sees{
                static_cast<int32_t>(ptx::shfl_sync_idx(static_cast<uint32_t>(keys.begin), lane, ptx::kFullMask)),
                static_cast<int32_t>(ptx::shfl_sync_idx(static_cast<uint32_t>(keys.end), lane, ptx::kFullMask))};
            const int64_t cells = (int64_t{work.rows.begin} + first + lane) * p.score_stride;
            for (int32_t column = work.key_begin + static_cast<int32_t>(self.lane); column < columns_end; column += 32)
                if (dead_column(p, sees, column)) store_score(p, cells + column, dead_score());
        }
        ptx::bar_warp_sync(ptx::kFullMask);
    }
}

// A key on an illegal page: reported if a row sees it, and filled in those rows.
__device__ __forceinline__ void give_up_key(const ScoreParams& p, const Work& work, int32_t key) {
    for (int32_t token = work.token_begin; token < work.token_end; ++token) {
        const int32_t row = work.rows.begin + token;
        const KeyRange keys = live_keys(p.view, work.request, work.rows, row);
        if (!keys.has(key)) continue;
        report_bad_page(p);
        if (p.fill_columns == 0) return;
        store_score(p, row * p.score_stride + column_of(p, keys, key), dead_score());
    }
}

}  // namespace
}  // namespace lidx::sm100_score

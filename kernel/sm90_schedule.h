// SPDX-License-Identifier: Apache-2.0
// How the persistent CTAs of the sm_90 kernels share the work. Plain C++, used by the kernel, by the host's launch and
// by tests.
//
// A unit is one key tile of one token block of one request. Every CTA sums the units of all requests, weighted by their
// cost, and takes an equal share of the sum: a contiguous range. Nothing is computed ahead of the launch, and no score
// depends on where a range ends: a unit's cells are its own.
//
// Where all rows of a request see the same keys (rectangles), the order of its units is: chunks of key tiles, in a
// chunk the token blocks, in a block the tiles. So a CTA keeps its tokens while keys stream by, and a chunk that
// several blocks need is still in the L2 cache when it comes again.
//
// Where rows see different keys, or dead columns are filled, the sum goes over token blocks in the order of their rows:
// a block's key tiles are those between the first and the last key that any of its rows sees, and its dead columns cost
// a little, too. A share may begin and end inside a block.
#pragma once
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"

namespace lidx::sm90_score {

inline constexpr int kTileKeys = 64;      // M of wgmma
inline constexpr int kColumns = 64;       // N of wgmma in sm90_score and sm90_pair: the token-head pairs of a group
inline constexpr int kGroups = 4;         // token groups: one per consumer warpgroup
// Key tiles of a chunk. A few token blocks (more than kGroups decode tokens): 132 CTAs x 32 tiles x 8 KiB = 33 MiB fit
// the 50 MiB L2 of an H200. Many blocks (prefill): K is read so often that long runs per token block matter more.
inline constexpr int32_t kChunkTilesFew = 32;
inline constexpr int32_t kChunkTilesMany = 512;
inline constexpr int32_t kManyBlocks = 16;

// Warpgroups that hold tokens of a block; the others take key tiles in turn. 3 tokens count as 4.
LIDX_HOST_DEVICE constexpr int32_t groups_of(int64_t tokens, int group_tokens) {
    return tokens <= group_tokens ? 1 : tokens <= 2 * group_tokens ? 2 : kGroups;
}

// Time of a unit in quarters: one or two groups wait for memory, four for the tensor core.
LIDX_HOST_DEVICE constexpr int64_t unit_cost(int32_t groups) { return groups == kGroups ? 7 : 4; }

struct RequestWork {
    int64_t units;
    int64_t cost;           // of a unit
    int32_t tiles;          // key tiles
    int32_t blocks;         // token blocks
    int32_t chunk_tiles;
};
// cost: of a unit.
LIDX_HOST_DEVICE constexpr RequestWork request_work(int32_t tokens, int32_t keys, int block_tokens, int64_t cost) {
    const auto tiles = static_cast<int32_t>(ceil_div(keys, kTileKeys));
    const auto blocks = static_cast<int32_t>(ceil_div(tokens, block_tokens));
    const int32_t chunk = blocks <= 1 ? tiles : blocks < kManyBlocks ? kChunkTilesFew : kChunkTilesMany;
    return {int64_t{tiles} * blocks, cost, tiles, blocks, chunk < tiles ? chunk : tiles};
}

// The run of units from `unit` on that has one token block and consecutive key tiles.
struct Run {
    int32_t block, tile, tiles;
};
LIDX_HOST_DEVICE constexpr Run run_at(const RequestWork& work, int64_t unit) {
    if (work.blocks == 1) return {0, static_cast<int32_t>(unit), static_cast<int32_t>(work.units - unit)};
    const int64_t chunk_units = int64_t{work.chunk_tiles} * work.blocks;
    const int64_t chunk = unit / chunk_units;
    const auto first = static_cast<int32_t>(chunk * work.chunk_tiles);
    const int32_t rest = work.tiles - first;
    const int32_t length = work.chunk_tiles < rest ? work.chunk_tiles : rest;
    const int64_t inside = unit - chunk * chunk_units;
    const auto block = static_cast<int32_t>(inside / length);
    const auto tile = static_cast<int32_t>(inside - int64_t{block} * length);
    return {block, first + tile, length - tile};
}

// ---- token blocks that differ

// The first request that has rows at `row` or beyond it, batch if there is none. Searches, so that requests without
// rows cost nothing.
LIDX_HOST_DEVICE inline int32_t request_from_row(const RowView& v, int32_t row) {
    if (row >= v.rows) return v.batch;
    if (v.row_map == RowMap::kFixed) {
        const int32_t request = row / v.max_tokens;
        return request < v.batch ? request : v.batch;
    }
    if (v.row_map == RowMap::kRequestIds) {
        const auto request = static_cast<uint32_t>(v.row_map_data[row]);
        return request < static_cast<uint32_t>(v.batch) ? static_cast<int32_t>(request) : v.batch;
    }
    int32_t begin = 0, end = v.batch;
    while (begin < end) {
        const int32_t middle = begin + (end - begin) / 2;
        if (v.row_map_data[middle + 1] <= row) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

// A token block: `tokens` rows from `row` on of a request.
struct Block {
    int32_t request, row, tokens;
    RequestRows rows;
};
// The first block whose first row is `row` or beyond it; its row is v.rows if there is none.
LIDX_HOST_DEVICE inline Block block_from_row(const RowView& v, int64_t row, int block_tokens) {
    while (row < v.rows) {
        const int32_t request = request_from_row(v, static_cast<int32_t>(row));
        if (request >= v.batch) break;
        const RequestRows rows = request_rows(v, request);
        const int64_t skipped = row > rows.begin ? ceil_div(row - rows.begin, block_tokens) * block_tokens : 0;
        if (skipped < rows.tokens) {
            const auto rest = static_cast<int32_t>(rows.tokens - skipped);
            return {request, static_cast<int32_t>(rows.begin + skipped), rest < block_tokens ? rest : block_tokens,
                    rows};
        }
        const int64_t end = int64_t{rows.begin} + rows.all;
        row = end > row ? end : row + 1;
    }
    return {v.batch, v.rows, 0, {0, 0, 0}};
}
LIDX_HOST_DEVICE inline Block next_block(const RowView& v, const Block& block, int block_tokens) {
    const int32_t done = block.row - block.rows.begin + block.tokens;
    if (done >= block.rows.tokens) return block_from_row(v, int64_t{block.row} + block.tokens, block_tokens);
    const int32_t rest = block.rows.tokens - done;
    return {block.request, block.row + block.tokens, rest < block_tokens ? rest : block_tokens, block.rows};
}

// Cells that get -inf in a quarter of a unit's time: what a multiprocessor's part of the memory bandwidth writes.
inline constexpr int64_t kFillCells = 512;

// From the last tile of a block to the first of the next 1.6 us pass: without it 8192 causal rows of 64 heads without a
// cached prefix took 777 us instead of 577, as one CTA was left with the first 179 blocks, of few tiles each.
inline constexpr int64_t kScoreBlockCost = 22;

struct BlockWork {
    int32_t tile, tiles;            // key tiles that its rows see
    int64_t block_cost;             // of the change-over to it
    int64_t tile_cost, fill_cost;   // of a tile; of all columns that are filled
    LIDX_HOST_DEVICE constexpr int64_t tiles_cost() const { return tiles == 0 ? 0 : block_cost + tiles * tile_cost; }
    LIDX_HOST_DEVICE constexpr int64_t cost() const { return tiles_cost() + fill_cost; }
};
LIDX_HOST_DEVICE constexpr BlockWork block_work(const KeyRange& hull, int32_t tokens, int32_t tile_keys,
                                                int64_t block_cost, int64_t tile_cost, int32_t fill_columns) {
    const int32_t tile = hull.begin / tile_keys;
    const int32_t tiles = hull.empty() ? 0 : (hull.end + tile_keys - 1) / tile_keys - tile;
    const int64_t dead = fill_columns > hull.size() ? fill_columns - hull.size() : 0;
    return {tile, tiles, block_cost, tile_cost,
            fill_columns <= 0 ? 0 : ceil_div(dead * tokens, kFillCells) + 1};
}

// What of a block lies in the costs [begin, end) of its own: tiles that begin there, the first behind the change-over,
// and columns to fill.
struct BlockPart {
    int32_t tile, tiles, fill_begin, fill_end;
    LIDX_HOST_DEVICE constexpr bool empty() const { return tiles <= 0 && fill_begin >= fill_end; }
};
LIDX_HOST_DEVICE constexpr BlockPart block_part(const BlockWork& work, int32_t fill_columns, int64_t begin,
                                                int64_t end) {
    const auto tile_at = [&](int64_t cost) {
        if (cost <= work.block_cost) return int32_t{0};
        if (cost >= work.tiles_cost()) return work.tiles;
        const auto inside = static_cast<uint32_t>(cost - work.block_cost), each = static_cast<uint32_t>(work.tile_cost);
        return static_cast<int32_t>((inside + each - 1) / each);   // the costs of a block's tiles fit 32 bits
    };
    const auto column_at = [&](int64_t cost) {
        const int64_t filled = cost - work.tiles_cost();
        if (filled <= 0 || fill_columns <= 0) return int32_t{0};
        return filled >= work.fill_cost ? fill_columns
                                        : static_cast<int32_t>(filled * fill_columns / work.fill_cost);
    };
    const int32_t first = tile_at(begin);
    return {work.tile + first, tile_at(end) - first, column_at(begin), column_at(end)};
}

// ---- what the loading warps hand on

inline constexpr int kDepth = 128;               // bytes of a row of K or Q: one 128-byte swizzle span
inline constexpr int kSwizzleAtomBytes = 1024;   // eight rows of 128 bytes; operand tiles begin on such a boundary
inline constexpr int kMmaK = 32;                 // depth of one wgmma
// Up to so many requests a loading warp finds its CTA's share by itself, a request a lane.
inline constexpr int kWarpBatch = 32;

// What the loading warp hands to the consumers with each token block: consecutive key tiles, ring positions from `ring`
// on, and columns of its rows that get -inf where no key is live. Neither: the end.
struct alignas(16) Item {
    uint32_t ring, tiles;
    int32_t row, tokens;           // rows of q and scores
    int32_t key;                   // first key of the first tile
    int32_t fill_begin, fill_end;  // columns
    int32_t unused;
};
// Where this CTA begins. Rectangles: a unit of a request, and the cost from that request's first unit to the share's
// end. Blocks: the row of a block and its request's rows, the cost from its beginning to that of the share (below zero:
// there is a rest, which comes last) and to the share's end, the keys that its rows see, and what of it is the share's.
struct alignas(16) Start {
    int64_t unit, cost_end;
    int32_t request, row;
    RequestRows rows;
    KeyRange keys;
    BlockPart part;
};
LIDX_HOST_DEVICE constexpr Block block_of_start(const Start& start, int block_tokens) {
    const int32_t rest = start.rows.begin + start.rows.tokens - start.row;
    return {start.request, start.row, rest < block_tokens ? rest : block_tokens, start.rows};
}
// Arrivals that complete a phase of a stage, of an item.
inline constexpr uint32_t kFullArrivals = 33;                  // 32 lanes' cp.async of k_scale, and the TMA's issuer
inline constexpr uint32_t kItemArrivals = 33;                  // 32 lanes' weights, and the item's lane

// ---- shares

// The share of CTA `index` out of `count` in a total cost: where it begins.
LIDX_HOST_DEVICE constexpr int64_t share_begin(int64_t total, int64_t index, int64_t count) {
    const int64_t each = total / count, rest = total % count;
    return each * index + (index < rest ? index : rest);
}

// Where the share of CTA `index` out of `count` begins if all the launch's rows see as many keys and one request has
// them: the first row of a block.
LIDX_HOST_DEVICE constexpr int32_t likely_row(const RowView& v, uint32_t index, uint32_t count, int block_tokens) {
    const auto rows = static_cast<uint32_t>(v.end_row - v.first_row);
    const uint32_t each = UINT32_MAX / count + 1;   // in 2^-32
    const auto row = static_cast<uint32_t>(uint64_t{rows} * (each * index) >> 32);
    return v.first_row + static_cast<int32_t>(row - row % static_cast<uint32_t>(block_tokens));
}

// CTAs of a launch: as many as the device has multiprocessors, fewer where there cannot be as many units.
constexpr int64_t grid_ctas(int64_t batch, int64_t max_keys, int64_t max_tokens, int tile_keys, int block_tokens,
                            int64_t sms) {
    const int64_t tiles = ceil_div(max_keys, tile_keys);
    const int64_t blocks = ceil_div(max_tokens, block_tokens);
    if (batch * tiles >= sms) return sms;
    const int64_t units = batch * tiles * (blocks < sms ? blocks : sms);
    return units < sms ? units : sms;
}

}  // namespace lidx::sm90_score

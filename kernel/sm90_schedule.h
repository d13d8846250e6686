// SPDX-License-Identifier: Apache-2.0
// How the persistent CTAs of the sm_90 kernels share the work. Plain C++, used by the kernel, by the host's launch and
// by tests.
//
// A unit is one key tile of one token block of one request. Every CTA sums the units of all requests, weighted by their
// cost, and takes an equal share of the sum: a contiguous range. Nothing is computed ahead of the launch, and no score
// depends on where a range ends: a unit's cells are its own.
//
// Order of a request's units: chunks of key tiles, in a chunk the token blocks, in a block the tiles. So a CTA keeps
// its tokens while keys stream by, and a chunk that several blocks need is still in the L2 cache when it comes again.
#pragma once
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/schedule.h"

namespace lidx::sm90_score {

inline constexpr int kTileKeys = 64;      // M of wgmma
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
LIDX_HOST_DEVICE constexpr RequestWork request_work(int32_t tokens, int32_t keys, int group_tokens) {
    const auto tiles = static_cast<int32_t>(ceil_div(keys, kTileKeys));
    const auto blocks = static_cast<int32_t>(ceil_div(tokens, kGroups * group_tokens));
    const int32_t chunk = blocks <= 1 ? tiles : blocks < kManyBlocks ? kChunkTilesFew : kChunkTilesMany;
    return {int64_t{tiles} * blocks, unit_cost(groups_of(tokens, group_tokens)), tiles, blocks,
            chunk < tiles ? chunk : tiles};
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

// The share of CTA `index` out of `count` in a total cost: where it begins.
LIDX_HOST_DEVICE constexpr int64_t share_begin(int64_t total, int64_t index, int64_t count) {
    const int64_t each = total / count, rest = total % count;
    return each * index + (index < rest ? index : rest);
}

// CTAs of a launch: as many as the device has multiprocessors, fewer where there cannot be as many units.
constexpr int64_t grid_ctas(int64_t batch, int64_t max_keys, int64_t max_tokens, int block_tokens, int64_t sms) {
    const int64_t tiles = ceil_div(max_keys, kTileKeys);
    const int64_t blocks = ceil_div(max_tokens, block_tokens);
    if (batch * tiles >= sms) return sms;
    const int64_t units = batch * tiles * (blocks < sms ? blocks : sms);
    return units < sms ? units : sms;
}

}  // namespace lidx::sm90_score

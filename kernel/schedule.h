// SPDX-License-Identifier: Apache-2.0
// The walk over (request, key tile, token tile) that the host's launch and every kernel share. Plain C++.
//
// Grid: (batch, key_tiles(max_keys), grid_slices(...)). Key tiles and token tiles are independent outputs: no split of
// the depth, no reduction between CTAs. blockIdx.z takes a contiguous range of its request's own token tiles.
#pragma once
#include <cstdint>
#include <type_traits>

#include "kernel/problem.h"

namespace lidx {

// gridDim.y and gridDim.z end at 65535 (CUDA C++ Programming Guide, compute capabilities).
inline constexpr int64_t kMaxGridYZ = 65535;
inline constexpr int64_t kMaxKeys = kMaxGridYZ * kTileKeys;

LIDX_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

LIDX_HOST_DEVICE constexpr int64_t key_tiles(int64_t keys) { return ceil_div(keys, kTileKeys); }

LIDX_HOST_DEVICE constexpr int64_t token_tiles(int64_t tokens, int tile_tokens) {
    return ceil_div(tokens, tile_tokens);
}

// gridDim.z. base = batch * key_tiles(max_keys). Where the key tiles alone underfill the machine, a request's token
// tiles are split so that about two CTAs per SM exist, each with at least two tiles to pipeline. One tile (decode): one
// slice.
LIDX_HOST_DEVICE constexpr int64_t grid_slices(int64_t base, int64_t sms, int64_t tiles) {
    if (base <= 0 || base >= sms) return 1;
    const int64_t fill = 2 * sms / base;
    const int64_t most = ceil_div(tiles, 2);
    const int64_t slices = fill < most ? fill : most;
    return slices < 1 ? 1 : slices > kMaxGridYZ ? kMaxGridYZ : slices;
}

// Keys of one box of the K map. Paged: the largest power of two that divides a page and a tile, so that no box
// crosses a page and a tile is a whole number of boxes. Contiguous: one box, as short as the request's buffer.
LIDX_HOST_DEVICE constexpr int32_t k_box_slots(bool paged, int64_t page_size, int32_t tile_keys) {
    const int64_t fit = paged ? page_size & -page_size : page_size;
    const int32_t most = paged ? tile_keys & -tile_keys : tile_keys;
    return fit < most ? static_cast<int32_t>(fit) : most;
}

struct TileRange {
    int32_t begin, end;   // token tiles [begin, end) of one request
};

// The tiles of one slice: sizes differ by at most one, the larger first; a request with fewer tiles than slices leaves
// the last slices empty.
LIDX_HOST_DEVICE constexpr TileRange slice_tiles(int32_t tiles, uint32_t slice, uint32_t slices) {
    const auto index = static_cast<int32_t>(slice), count = static_cast<int32_t>(slices);
    const int32_t each = tiles / count, rest = tiles % count;
    const int32_t begin = each * index + (index < rest ? index : rest);
    return {begin, begin + each + (index < rest ? 1 : 0)};
}

// Most tiles that one CTA can meet; 1 means that the launch never reaches the second Q buffer.
LIDX_HOST_DEVICE constexpr int64_t slice_tiles_max(int64_t tiles, int64_t slices) { return ceil_div(tiles, slices); }

template <class Int = int64_t>
LIDX_HOST_DEVICE constexpr Int clamp(std::type_identity_t<Int> value, std::type_identity_t<Int> low,
                                     std::type_identity_t<Int> high) {
    return value < low ? low : value > high ? high : value;
}

}  // namespace lidx

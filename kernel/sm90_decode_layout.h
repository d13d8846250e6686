// SPDX-License-Identifier: Apache-2.0
// Tiles, shared memory and shares of the sm_90 decode kernel. Plain C++, included by host, kernel and tests.
#pragma once
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/schedule.h"

namespace lidx::sm90_decode {

inline constexpr int kTileKeys = 64;          // M of wgmma: four warps of sixteen keys
inline constexpr int kWarpKeys = 16;
inline constexpr int kColumns = 64;           // N: the token-head pairs of a group
inline constexpr int kDepth = 128;
inline constexpr int kWarpgroups = 4;
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
inline constexpr int kGroups = 4;             // the most that share one read of K
// Key tiles a warpgroup has in flight; 66 KiB a multiprocessor.
inline constexpr int kStages = 2;
// Tiles of a warpgroup that its lanes look up at once; those of 32 behind them are looked up again with the next ones.
inline constexpr int kWindow = (32 - kStages) / kStages * kStages;

// ---- shared memory. K lies under the 128-byte swizzle of eight rows, Q too.
struct alignas(1024) Shared {
    uint8_t k[kWarpgroups][4][kStages][kWarpKeys * kDepth];   // [warpgroup][warp][stage][16 keys, 128 bytes]
    float k_scale[kWarpgroups][4][kStages][kWarpKeys];
    float weights[kGroups][kWarpgroups][kColumns];
    alignas(1024) uint8_t q[kGroups][kWarpgroups][kColumns * kDepth];   // [group][warpgroup][64 columns, 128 bytes]; B
};
// Dynamic shared memory of a launch: it ends behind the groups that its blocks can have.
LIDX_HOST_DEVICE constexpr int shared_bytes(int groups) {
    return static_cast<int>(sizeof(Shared)) - (kGroups - groups) * kWarpgroups * kColumns * kDepth;
}
static_assert(shared_bytes(kGroups) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");

// Groups of a launch whose requests have up to so many tokens.
LIDX_HOST_DEVICE constexpr int32_t groups_of(int64_t tokens, int group_tokens) {
    const int64_t groups = ceil_div(tokens, group_tokens);
    return groups < kGroups ? static_cast<int32_t>(groups) : kGroups;
}

// ---- rows of LIDX_SM90_DECODE_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr int kGroupTokens = kColumns / kHeads;
    static constexpr int kBlockTokens = kGroups * kGroupTokens;
};

// ---- shares. A unit is a key tile of a token block of a request: requests in their order, in a request its blocks, in
// a block its tiles. All units of a launch fit 31 bits (host/plan.cpp).
inline constexpr int64_t kMaxUnits = INT32_MAX;
LIDX_HOST_DEVICE constexpr int64_t units_of(int64_t keys, int64_t tokens, int block_tokens) {
    return ceil_div(keys, kTileKeys) * ceil_div(tokens, block_tokens);
}

// The equal part of worker `index` of `count` begins here: a worker is a warpgroup. part = share_part(count), which the
// host works out (ScoreParams::tiles[0]); count^2 < 2^32.
LIDX_HOST_DEVICE constexpr uint32_t share_part(uint32_t count) { return UINT32_MAX / count + 1; }   // 2^32 / count, up
LIDX_HOST_DEVICE constexpr uint32_t share_begin(uint32_t total, uint32_t index, uint32_t count, uint32_t part) {
    return index >= count ? total : static_cast<uint32_t>(uint64_t{total} * (index * part) >> 32);
}
inline constexpr int64_t kMaxCtas = 65535 / kWarpgroups;

// Up to so many units K is read as what L2 should give up first, so that what was there before stays: 16 x 32768 keys
// take 28.2 instead of 30.6 us, 32 x 8192 18.0 instead of 19.3; but 256 x 65536 take 570 instead of 567.
inline constexpr uint32_t kFewUnits = 65536;

// ---- whether a launch is this kernel's choice: few keys, or one group. With more groups a tile is multiplied and
// reduced by one warpgroup, group by group, where sm90_score has a warpgroup a group: measured, docs/kernel-sm90.md.
inline constexpr int64_t kMostGroupKeys = int64_t{1} << 21;
LIDX_HOST_DEVICE constexpr bool prefers_decode(int64_t batch, int64_t max_keys, int64_t tokens, int group_tokens) {
    const int64_t groups = ceil_div(tokens, group_tokens);
    return groups <= 1 || (groups <= kGroups && batch * max_keys <= kMostGroupKeys / (groups - 1));
}

}  // namespace lidx::sm90_decode

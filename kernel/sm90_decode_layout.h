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
inline constexpr int kWarpgroups = 4;         // of a CTA at most
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
inline constexpr int kGroups = 4;             // the most that share one read of K
// Key tiles a warpgroup has in flight; 66 KiB a multiprocessor.
inline constexpr int kStages = 2;
// Tiles of a warpgroup that its lanes look up at once; those of 32 behind them are looked up again with the next ones.
inline constexpr int kWindow = (32 - kStages) / kStages * kStages;

// ---- shared memory, of a warpgroup. K lies under the 128-byte swizzle of eight rows, Q too.
struct alignas(1024) Shared {
    uint8_t k[4][kStages][kWarpKeys * kDepth];   // [warp][stage][16 keys, 128 bytes]
    float k_scale[4][kStages][kWarpKeys];
    float weights[kGroups][kColumns];
    uint32_t warp_units[kThreads / 32];          // the first warpgroup's: of the CTA's warps
    int32_t row_end[kGroups * 2];                // [token of the block]: it sees the request's keys up to there
    alignas(1024) uint8_t q[kGroups][kColumns * kDepth];   // [group][64 columns, 128 bytes]; B
};
// It ends behind the groups that a launch's blocks can have.
LIDX_HOST_DEVICE constexpr int warpgroup_bytes(int groups) {
    return static_cast<int>(sizeof(Shared)) - (kGroups - groups) * kColumns * kDepth;
}
// Dynamic shared memory of a launch.
LIDX_HOST_DEVICE constexpr int shared_bytes(int groups, int warpgroups) { return warpgroups * warpgroup_bytes(groups); }
static_assert(shared_bytes(kGroups, kWarpgroups) <= 232448,
              "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");

// Two CTAs share a multiprocessor, with half of the warpgroups each: they start earlier than one. 1 x 131072 keys take
// 11.3 instead of 11.6 us, and no shape longer. A launch with a limit of multiprocessors has one CTA on each.
inline constexpr int kCtasPerSm = 2;
// Warpgroups of a CTA, of `most`: no more than there can be tiles for. 1 x 8192 keys take 6.1 us with one, 6.4 with
// four.
LIDX_HOST_DEVICE constexpr int launch_warpgroups(int64_t units, int64_t ctas, int most) {
    const int64_t each = ceil_div(units, ctas);
    return each < most ? static_cast<int>(each < 1 ? 1 : each) : most;
}

// Groups of a launch whose requests have up to so many tokens.
LIDX_HOST_DEVICE constexpr int32_t groups_of(int64_t tokens, int group_tokens) {
    const int64_t groups = ceil_div(tokens, group_tokens);
    return groups < kGroups ? static_cast<int32_t>(groups) : kGroups;
}

// ---- rows of LIDX_SM90_DECODE_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr int kHeadSlots = kHeads;
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
// host works out (ScoreParams::tiles[0]; tiles[1] is warpgroup_bytes(), tiles[2] the warpgroups of a CTA);
// count^2 < 2^32.
LIDX_HOST_DEVICE constexpr uint32_t share_part(uint32_t count) { return UINT32_MAX / count + 1; }   // 2^32 / count, up
LIDX_HOST_DEVICE constexpr uint32_t share_begin(uint32_t total, uint32_t index, uint32_t count, uint32_t part) {
    return index >= count ? total : static_cast<uint32_t>(uint64_t{total} * (index * part) >> 32);
}
inline constexpr int64_t kMaxCtas = 65535 / kWarpgroups;

// ---- whether a launch is this kernel's choice: few keys, or one group. With more groups a tile is multiplied and
// reduced by one warpgroup, group by group, where sm90_score has a warpgroup a group: measured, docs/trials-sm90.md.
inline constexpr int64_t kMostKeys[kGroups] = {INT64_MAX, 1 << 20, 1 << 19, 1 << 17};   // of all requests, by groups
LIDX_HOST_DEVICE constexpr bool prefers_decode(int64_t batch, int64_t max_keys, int64_t tokens, int group_tokens) {
    const int64_t groups = ceil_div(tokens, group_tokens);
    return groups <= kGroups && batch * max_keys <= kMostKeys[groups <= 1 ? 0 : groups - 1];
}

}  // namespace lidx::sm90_decode

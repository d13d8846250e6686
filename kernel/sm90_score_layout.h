// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes and launch sizes of the sm_90 kernels. Plain C++, included by host and kernel: the
// size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm90_score {

inline constexpr int kDepth = 128;               // bytes of a row of K or Q: one 128-byte swizzle span
inline constexpr int kSwizzleAtomBytes = 1024;   // eight rows of 128 bytes; operand tiles begin on such a boundary
inline constexpr int kMmaK = 32;                 // depth of one wgmma
inline constexpr int kColumns = 64;              // N of wgmma: the token-head pairs of a group
inline constexpr int kWarps = 4 * (kGroups + 1);                 // four consumer warpgroups, one that loads
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kConsumerWarps = 4 * kGroups;
inline constexpr int kLoaderWarps = 4;
// Registers per thread: 65536 / 640 threads are 96 at the launch; the loading warpgroup gives up 32 of its own.
inline constexpr int kConsumerRegisters = 104;
inline constexpr int kProducerRegisters = 64;
// Key tiles in flight: 128 KiB.
inline constexpr int kStages = 16;
// Up to so many requests a loading warp finds its CTA's share by itself, a request a lane.
inline constexpr int kWarpBatch = 32;
static_assert((kStages & (kStages - 1)) == 0, "a ring position's stage is its low bits");
static_assert(kStages % kLoaderWarps == 0, "a stage is always filled by the same warp");
static_assert(kStages > 3 * kGroups, "a warpgroup that takes every fourth tile waits for one with two unreleased");

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages}, strides {128, k_page_stride}, box {kDepth, k_box_slots(page_size), 1}
// Q: dims {128, rows * heads},         strides {128},                box {kDepth, kColumns}
LIDX_HOST_DEVICE constexpr int k_box_slots(int64_t page_size) {
    return page_size < kTileKeys ? static_cast<int>(page_size) : kTileKeys;
}
// The page coordinate of a box that must not be read (beyond the length, or an illegal page id).
inline constexpr int32_t kDeadPage = -1;

// ---- shared memory
// What the loading warp hands to the consumers with each token block: consecutive key tiles, ring positions from `ring`
// on. tiles 0: the end.
struct alignas(16) Item {
    uint32_t ring, tiles;
    int32_t row, tokens;   // rows of q and scores
    int32_t key;           // first key of the first tile
    int32_t unused[3];
};
// Where this CTA's share begins: unit of a request, and the cost from that request's first unit to the share's end.
struct alignas(16) Start {
    int64_t unit, cost_end;
    int32_t request, unused;
};
struct alignas(kSwizzleAtomBytes) Shared {
    uint8_t k[kStages][kTileKeys * kDepth];                    // [stage][64 keys, 128 bytes], 128-byte swizzle; A
    uint8_t q[2][kGroups][kColumns * kDepth];                  // [buffer][group][64 columns, 128 bytes], swizzled; B
    alignas(16) float q_scale[2][kGroups * kColumns];          // [buffer][token, head]
    alignas(16) float k_scale[kStages][kTileKeys];
    alignas(8) uint32_t live[kStages][kTileKeys / 32];         // bit = key: inside the length, on a legal page
    Item item[2];
    Start start;
    int64_t warp_cost[kWarps];
    uint64_t k_full[kStages], k_empty[kStages];                // mbarriers
    uint64_t q_full[2], q_empty[2];                            // mbarriers
};
static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
inline constexpr int kSharedBytes = sizeof(Shared);
static_assert(kSharedBytes <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");

// Arrivals that complete a phase.
inline constexpr uint32_t kFullArrivals = 33;                  // 32 lanes' cp.async of k_scale, and the TMA's issuer
inline constexpr uint32_t kEmptyArrivals = kConsumerWarps;     // a warp counts for as many as take no part in its tile

// ---- rows of LIDX_SM90_SCORE_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr int kGroupTokens = kColumns / kHeads;     // tokens of a group
    static constexpr int kBlockTokens = kGroups * kGroupTokens;
    static_assert(kHeads * kGroupTokens == kColumns && (kGroupTokens == 1 || kGroupTokens == 2));
};

}  // namespace lidx::sm90_score

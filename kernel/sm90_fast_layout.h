// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes, launch sizes and scaling limits of the fast sm_90 kernels. Plain C++, included by
// host and kernel: the size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm90_fast {

using sm90_score::Item;
using sm90_score::kDepth;
using sm90_score::kMmaK;
using sm90_score::kSwizzleAtomBytes;
using sm90_score::kTileKeys;
using sm90_score::Start;

inline constexpr int kColumns = 256;          // N of wgmma: the token-head pairs of a warpgroup
inline constexpr int kWarpgroups = 3;         // that multiply, each all key tiles for its own tokens
inline constexpr int kThreads = 128 * (kWarpgroups + 1);
inline constexpr int kLoaderWarps = 3;
inline constexpr int kStages = 12;            // key tiles, 8 KiB each
// Registers per thread: 65536 / 512 threads are 128 at the launch; the loading warpgroup gives up 48 of its own.
inline constexpr int kConsumerRegisters = 144;
inline constexpr int kProducerRegisters = 80;
static_assert(kStages % kLoaderWarps == 0, "a stage is filled by the same warp, but for first tiles");

// A head's codes are scaled by 2^-shift, so that the sum of their magnitudes is at most this: times 448, the largest
// key code, it stays below fp16's 65504 with all roundings on the way (docs/kernel-sm90.md, "Fast mode").
inline constexpr float kCodeSum = 144.0f;
inline constexpr int kMaxShift = 9;           // 128 * 448 / 144 < 2^9

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages}, strides {128, k_page_stride}, box {kDepth, k_box_slots(paged, page_size, 64), 1}
// Q: dims {128, rows * heads},         strides {128},                box {kDepth, 64}

// ---- rows of LIDX_SM90_FAST_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr bool kPlain = false;
    static constexpr bool kAlike = false;
    static constexpr int kQBoxBytes = 64 * kDepth;
    static constexpr int64_t kBlockCost = 34;                       // as tile_cost, measured: of 24, 34 and 44 8192 x
                                                                    // 8192 causal took 392, 366 and 373 us
    static constexpr int kGroupTokens = kColumns / kHeads;          // tokens of a warpgroup
    static constexpr int kBlockTokens = kWarpgroups * kGroupTokens;
    static constexpr int kPairs = kGroupTokens / 2;                 // pairs of tokens
    static constexpr int kChain = kHeads / 8;                       // heads that are added up in fp16
    static constexpr int kTileKeys = sm90_fast::kTileKeys;
    static constexpr int kStages = sm90_fast::kStages;
    static constexpr int kLoaderWarps = sm90_fast::kLoaderWarps;
    static constexpr int kItemWarp = kLoaderWarps;   // brings the items and Q, ahead of the tiles
    static constexpr int kThreads = sm90_fast::kThreads;
    static constexpr int kScanThreads = 128 * kWarpgroups;   // that share out the work
    static constexpr bool kRehearse = false;
    static constexpr bool kWarmUp = true;             // meanwhile the others fetch their instructions
    static constexpr int kQBuffers = 2;               // of all that comes with an item but Q
    static constexpr bool kConsumersLoadQ = true;     // but the first
    static constexpr int kHeadSlots = kHeads;
    static constexpr int kGroupQBoxes = kColumns / 64;
    static constexpr int kWeightStride = kHeads;
    static constexpr bool kAlwaysBlocks = true;
    static constexpr bool kQPairs = false;
    static_assert(kBlockTokens <= 32, "a lane of a loading warp per token");
    // Warpgroups that have tokens.
    LIDX_HOST_DEVICE static constexpr int32_t groups(int64_t tokens) {
        return static_cast<int32_t>(ceil_div(tokens < kBlockTokens ? tokens : kBlockTokens, kGroupTokens));
    }
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t tokens) { return groups(tokens) * (kColumns / 64); }
    // In 0.13 us. A lone warpgroup waits for each of its tiles, three keep the tensor core busy: a tile of 64 keys
    // takes 0.87, 0.96 and 1.06 us with one, two and three of them that have tokens.
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t tokens) { return groups(tokens) + 5; }
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) { return groups(tokens) * kGroupTokens; }

    struct alignas(kSwizzleAtomBytes) Shared {
        uint8_t k[kStages][kTileKeys * kDepth];                     // [stage][64 keys, 128 bytes], swizzled; A
        uint8_t q[kWarpgroups * (kColumns / 64)][kQBoxBytes];       // [64 token-head pairs, 128 bytes], swizzled; B
        alignas(16) float q_scale[kQBuffers][kBlockTokens * kWeightStride];
        alignas(16) int32_t shift[kWarpgroups * kColumns];          // the powers of two that the heads' codes lost
        alignas(16) uint32_t weight[kWarpgroups * kColumns / 2];    // pairs of fp16
        float unscale[kBlockTokens];                                // 2^u
        KeyRange sees[kQBuffers][kBlockTokens];
        alignas(16) float k_scale[kStages][kTileKeys];
        alignas(8) uint32_t live[kStages][kTileKeys / 32];          // bit = key: seen by a row, on a legal page
        Item item[kQBuffers];
        Start start, rest;
        int64_t warp_cost[kThreads / 32];
        uint64_t k_full[kStages], k_empty[kStages];                 // mbarriers
        uint64_t q_full[kQBuffers], q_empty[kQBuffers];             // mbarriers
        uint64_t codes_full[kWarpgroups];                           // mbarriers: a warpgroup's Q
    };
    static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
    static_assert(sizeof(Shared) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");
};

// Arrivals that complete a phase.
inline constexpr uint32_t kEmptyArrivals = 4 * kWarpgroups;

}  // namespace lidx::sm90_fast

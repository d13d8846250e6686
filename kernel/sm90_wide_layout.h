// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes and launch sizes of the sm_90 kernels for many tokens. Plain C++, included by host
// and kernel: the size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm90_wide {

using sm90_score::Item;
using sm90_score::kDepth;
using sm90_score::kMmaK;
using sm90_score::kSwizzleAtomBytes;
using sm90_score::Start;

inline constexpr int kTileKeys = 96;          // N of wgmma
inline constexpr int kBlockTokens = 8;        // two per warp of a warpgroup
inline constexpr int kWarpgroups = 3;         // that multiply, a key tile each
inline constexpr int kThreads = 128 * (kWarpgroups + 1);
inline constexpr int kLoaderWarps = 3;
inline constexpr int kStages = 6;             // key tiles, 12 KiB each
// Registers per thread: 65536 / 512 threads are 128 at the launch; the loading warpgroup gives up what the others take.
inline constexpr int kConsumerRegisters = 144;
inline constexpr int kProducerRegisters = 80;
static_assert(kStages % kLoaderWarps == 0 && kStages % kWarpgroups == 0, "a stage is read by the same warpgroup");

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages},    strides {128, k_page_stride},           box {128, k_box_slots(.., 96), 1}
// Q: dims {128, 4, rows, heads / 8, 2},   strides {256, heads * 128, 1024, 128},  box {128, 4, 2, heads / 8, 2}
//    head 8 j + 2 q + e of a row is (q, row, j, e)

// ---- rows of LIDX_SM90_WIDE_VARIANTS and, plain, of LIDX_SM90_WIDE_PLAIN_VARIANTS
template <int kHeads_, bool kPlain_ = false>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr bool kPlain = kPlain_;           // see LIDX_SM90_WIDE_PLAIN_VARIANTS
    static constexpr int kHeadSlots = kHeads;
    static constexpr bool kAlike = false;             // rows of a request may see different keys
    static constexpr int kMmas = kHeads / 8;          // of a key tile: eight heads of eight tokens each
    // Which of score_tile's arrays MMA j has for its accumulators, and whether its weights are loaded ahead of the next
    // MMA or behind it. Two sets are in use at a time, in the same registers whatever their names; but where an MMA
    // starts in the array of an earlier one, ptxas makes the weight the second factor of the reduction's FFMA, where
    // FMNMX drives it out of the operand cache. Arrays of their own: 64 heads 3 to 4 % less time, plain 32 heads, where
    // ptxas has registers for those of odd MMAs alone, 1 to 2.7 % (docs/kernel-sm90.md, "Order of issue").
    LIDX_HOST_DEVICE static constexpr int accumulators(int j) {
        return kHeads == 64 ? j : kPlain && j % 2 != 0 ? 1 + j / 2 : j % 2;
    }
    LIDX_HOST_DEVICE static constexpr bool early_weights(int j) { return kHeads == 64 || j % 2 != 0; }
    static constexpr int kTileKeys = sm90_wide::kTileKeys;
    static constexpr int kBlockTokens = sm90_wide::kBlockTokens;
    static constexpr int kGroupTokens = kBlockTokens;
    static constexpr int kStages = sm90_wide::kStages;
    static constexpr int kLoaderWarps = sm90_wide::kLoaderWarps;
    static constexpr int kItemWarp = kLoaderWarps;   // brings the items and Q, ahead of the tiles
    static constexpr int kThreads = sm90_wide::kThreads;
    static constexpr int kScanThreads = 128 * kWarpgroups;   // that share out the work
    static constexpr bool kRehearse = false;
    static constexpr bool kWarmUp = true;             // meanwhile the others fetch their instructions
    static constexpr int kQBuffers = kHeads <= 64 ? 2 : 1;
    static constexpr int kWeightStride = kHeads + 8;  // eight banks from one token's to the next
    static constexpr bool kAlwaysBlocks = true;
    static constexpr bool kQPairs = true;             // a box of Q: the heads of two tokens
    static constexpr int kQBoxBytes = 2 * kHeads * kDepth;
    // In 0.07 us. Of 12, 14, 24 and 36 the first two are best: 512 x 4096 and 2048 x 8192 with 32 heads gain 1 % on 24,
    // 8192 x 8192 causal nothing (docs/trials-sm90.md).
    static constexpr int64_t kBlockCost = 14;
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t) { return kBlockTokens / 2; }
    // In 0.07 us: 1.33 us for 64 heads.
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t) { return (19 * kMmas + 7) / 8; }
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) { return tokens > 0 ? kBlockTokens : 0; }

    struct alignas(kSwizzleAtomBytes) Shared {
        uint8_t k[kStages][kTileKeys * kDepth];                     // [stage][96 keys, 128 bytes], swizzled; B
        uint8_t q[kQBuffers * (kBlockTokens / 2)][kQBoxBytes];      // [buffer][2 tokens][2 halves][heads / 8][8 rows,
                                                                    // 128 bytes], swizzled; A
        alignas(16) float q_scale[kQBuffers][kBlockTokens * kWeightStride];
        KeyRange sees[kQBuffers][kBlockTokens];
        alignas(16) float k_scale[kStages][kTileKeys];
        alignas(16) uint32_t live[kStages][4];                      // bit = key: seen by a row, on a legal page
        Item item[kQBuffers];
        Start start, rest;
        int64_t warp_cost[kThreads / 32];
        uint64_t k_full[kStages], k_empty[kStages];                 // mbarriers
        uint64_t q_full[kQBuffers], q_empty[kQBuffers];             // mbarriers
    };
    static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
    static_assert(sizeof(Shared) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");
};

// Arrivals that complete a phase: the warps of the warpgroup whose tile it is.
inline constexpr uint32_t kEmptyArrivals = 4;

}  // namespace lidx::sm90_wide

// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes and launch sizes of the sm_90 kernels. Plain C++, included by host and kernel: the
// size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm90_score {

inline constexpr int kWarps = 4 * (kGroups + 1);                 // four consumer warpgroups, one that loads
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kConsumerWarps = 4 * kGroups;
inline constexpr int kLoaderWarps = 4;
// Registers per thread: 65536 / 640 threads are 96 at the launch; the loading warpgroup gives up 32 of its own.
inline constexpr int kConsumerRegisters = 104;
inline constexpr int kProducerRegisters = 64;
// Key tiles in flight or being multiplied: 128 KiB. With half as many 64 x 131072 keys take 324 instead of 289 us, and
// prefill of 2048 x 65536 1909 instead of 1836.
inline constexpr int kStages = 16;
inline constexpr int kMaxBlockTokens = 32;
inline constexpr int kRoundTiles = 8;
static_assert(kStages % kRoundTiles == 0);
static_assert(kStages % kLoaderWarps == 0, "a stage is always filled by the same warp");
static_assert(kStages % kGroups == 0 && kStages > kGroups,
              "the owner of a stage is always the same, and it waits for a tile with the one before unreleased");

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages}, strides {128, k_page_stride}, box {kDepth, k_box_slots(paged, page_size, 64), 1}
// Q: dims {128, rows * heads},         strides {128},                box {kDepth, kColumns}
//    4 heads: dims {128, 4, rows},     strides {128, 512},           box {kDepth, 8, 8}: head slots 4 to 7 are zeros
// ---- shared memory
struct alignas(kSwizzleAtomBytes) Shared {
    uint8_t k[kStages][kTileKeys * kDepth];                    // [stage][64 keys, 128 bytes], 128-byte swizzle; A
    alignas(16) float q_scale[2][kGroups * kColumns];          // [buffer][token, head]: the weights
    KeyRange sees[2][kMaxBlockTokens];                         // [buffer][token]
    alignas(16) float k_scale[kStages][kTileKeys];
    alignas(8) uint32_t live[kStages][kTileKeys / 32];         // bit = key: inside the length, on a legal page
    Item item[2];
    Start start;
    int64_t warp_cost[kWarps];
    uint64_t k_full[kStages], k_empty[kStages];                // mbarriers
    uint64_t q_full[2], q_empty[2];                            // mbarriers
    // [buffer][group][64 columns, 128 bytes], swizzled; B. A launch ends behind the groups that its blocks can have.
    alignas(kSwizzleAtomBytes) uint8_t q[2 * kGroups][kColumns * kDepth];
};
static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
inline constexpr int kSharedBytes = sizeof(Shared);
// Dynamic shared memory of a launch whose requests have up to so many tokens.
LIDX_HOST_DEVICE constexpr int shared_bytes(int64_t max_tokens, int group_tokens) {
    return kSharedBytes - 2 * (kGroups - groups_of(max_tokens, group_tokens)) * kColumns * kDepth;
}
static_assert(kSharedBytes <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");

// Arrivals that complete a phase.
inline constexpr uint32_t kEmptyArrivals = kConsumerWarps;     // a warp counts for as many as take no part in its tile

// ---- rows of LIDX_SM90_SCORE_VARIANTS and, plain, of LIDX_SM90_PLAIN_VARIANTS
template <int kHeads_, bool kPlain_ = false>
struct Tile {
    static constexpr bool kPlain = kPlain_;           // see LIDX_SM90_PLAIN_VARIANTS
    static constexpr bool kAlike = kPlain_;           // the rows of a request see the same keys, or are causal
    static constexpr int kHeads = kHeads_;
    // Columns of a token: an MMA's column block is 8, so 4 heads have as many empty columns beside them, zeros.
    static constexpr int kHeadSlots = kHeads < 8 ? 8 : kHeads;
    static constexpr int kGroupTokens = kColumns / kHeadSlots;     // tokens of a group
    static constexpr int kBlockTokens = kGroups * kGroupTokens;
    // What sm90_loader.cuh wants to know.
    using Shared = sm90_score::Shared;
    static constexpr int kTileKeys = sm90_score::kTileKeys;
    static constexpr int kStages = sm90_score::kStages;
    static constexpr int kLoaderWarps = sm90_score::kLoaderWarps;
    static constexpr int kItemWarp = kLoaderWarps - 1;   // the first tiles of a short share are the other warps'
    static constexpr int kThreads = sm90_score::kThreads;
    static constexpr bool kRehearse = kPlain;         // the loading warps fetch their instructions meanwhile
    static constexpr int kScanThreads = kRehearse ? kThreads - 128 : kThreads;   // that share out the work
    static constexpr bool kWarmUp = false;            // in the way of sm90_wide
    // Four groups multiply kRoundTiles tiles between two drains, from stage 0 or kRoundTiles on. With all 16 stages a
    // tile takes less, but the code is cold: 16 x 32768 keys with 4 tokens 55.2 instead of 42.0 us.
    static constexpr bool kRounds = kPlain && kGroupTokens == 1;
    static constexpr int kQBuffers = 2;
    static constexpr int kWeightStride = kHeadSlots;  // of the weights in shared memory
    static constexpr bool kAlwaysBlocks = false;
    static constexpr bool kQPairs = false;            // a box of Q: 64 token-head pairs, the heads of a token beside
                                                      // each other
    static constexpr int kQBoxBytes = kColumns * kDepth;
    static constexpr int64_t kBlockCost = kScoreBlockCost;
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t tokens) { return groups_of(tokens, kGroupTokens); }
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t tokens) {
        return unit_cost(groups_of(tokens, kGroupTokens));
    }
    // Tokens that fill the groups which have any.
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) {
        return static_cast<int32_t>(ceil_div(tokens, kGroupTokens)) * kGroupTokens;
    }
    static_assert(kHeadSlots * kGroupTokens == kColumns && kBlockTokens <= kMaxBlockTokens);
};

}  // namespace lidx::sm90_score

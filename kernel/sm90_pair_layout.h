// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes and launch sizes of the sm_90 kernels for plain work of five and six groups of
// tokens. Plain C++, included by host and kernel: the size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm90_pair {

using sm90_score::Item;
using sm90_score::kColumns;
using sm90_score::kDepth;
using sm90_score::kSwizzleAtomBytes;
using sm90_score::kTileKeys;
using sm90_score::Start;

inline constexpr int kWarpgroups = 3;         // that multiply: every key tile, with the groups of their own
inline constexpr int kSets = 2;               // of accumulators: the groups that a warpgroup can have
inline constexpr int kBlockGroups = kSets * kWarpgroups;
inline constexpr int kThreads = 128 * (kWarpgroups + 1);
inline constexpr int kConsumerWarps = 4 * kWarpgroups;
inline constexpr int kLoaderWarps = 4;
// Registers per thread: 65536 / 512 threads are 128 at the launch; the loading warpgroup gives up what the others take.
inline constexpr int kConsumerRegisters = 144;
inline constexpr int kProducerRegisters = 80;

// Groups of a block that hold tokens.
LIDX_HOST_DEVICE constexpr int32_t groups_of(int64_t tokens, int group_tokens) {
    return tokens < int64_t{kBlockGroups} * group_tokens ? static_cast<int32_t>(ceil_div(tokens, group_tokens))
                                                         : kBlockGroups;
}
// Time of a unit in 0.07 us: with four groups 0.57 us, five 0.66, six 0.73.
LIDX_HOST_DEVICE constexpr int64_t unit_cost(int32_t groups) {
    return groups <= kWarpgroups ? 6 : groups == 4 ? 8 : groups == 5 ? 9 : 10;
}

// ---- tensor maps: those of sm90_score_layout.h
// ---- rows of LIDX_SM90_PAIR_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr bool kPlain = true;              // see LIDX_SM90_PAIR_VARIANTS
    static constexpr bool kAlike = true;              // the rows of a request see the same keys, or are causal
    static constexpr int kHeadSlots = kHeads;
    static constexpr int kGroupTokens = kColumns / kHeads;
    static constexpr int kBlockTokens = kBlockGroups * kGroupTokens;
    static constexpr int kTileKeys = sm90_pair::kTileKeys;
    // Tiles between two drains, and key tiles in flight or being multiplied (8 KiB each). us, 64 x 32768 keys with 6
    // and 5 tokens of 64 heads: 8 stages and 1, 2, 4, 8 tiles 196.4, 196.1, 193.4, 196.4 and 176.8, 173.0, 172.9,
    // 174.2; 12 stages and 4 tiles 190.0 and 174.7. With 12 tokens of 32 heads, 8 stages: 1 tile 203.8, 4 tiles 207.6.
    static constexpr int kUnroll = kHeads == 64 ? 4 : 1;
    static constexpr int kStages = kHeads == 64 ? 12 : 8;
    static constexpr int kLoaderWarps = sm90_pair::kLoaderWarps;
    static_assert(kStages % kUnroll == 0, "the stages between two drains lie next to each other");
    static_assert(kStages % kLoaderWarps == 0, "a stage is always filled by the same warp");
    static constexpr int kItemWarp = kLoaderWarps - 1;   // the first tiles of a short share are the other warps'
    static constexpr int kThreads = sm90_pair::kThreads;
    static constexpr int kScanThreads = 128 * kWarpgroups;   // that share out the work
    static constexpr bool kRehearse = true;           // meanwhile the others fetch their instructions
    static constexpr bool kWarmUp = false;            // in the way of sm90_wide
    static constexpr int kQBuffers = 2;
    static constexpr int kWeightStride = kHeads;
    static constexpr bool kAlwaysBlocks = false;
    static constexpr bool kQPairs = false;
    static constexpr int64_t kBlockCost = sm90_score::kScoreBlockCost;
    static constexpr int kQBoxBytes = kColumns * kDepth;
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t tokens) { return groups_of(tokens, kGroupTokens); }
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t tokens) {
        return unit_cost(groups_of(tokens, kGroupTokens));
    }
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) {
        return static_cast<int32_t>(ceil_div(tokens, kGroupTokens)) * kGroupTokens;
    }
    static_assert(kHeads * kGroupTokens == kColumns);

    struct alignas(kSwizzleAtomBytes) Shared {
        uint8_t k[kStages][kTileKeys * kDepth];                       // [stage][64 keys, 128 bytes], swizzled; A
        uint8_t q[kQBuffers * kBlockGroups][kColumns * kDepth];       // [buffer][group][64 columns, 128 bytes]; B
        alignas(16) float q_scale[kQBuffers][kBlockGroups * kColumns];   // [buffer][token, head]
        KeyRange sees[kQBuffers][kBlockTokens];                       // [buffer][token]
        alignas(16) float k_scale[kStages][kTileKeys];
        alignas(8) uint32_t live[kStages][kTileKeys / 32];            // bit = key: inside the length, on a legal page
        Item item[kQBuffers];
        Start start;
        int64_t warp_cost[kThreads / 32];
        uint64_t k_full[kStages], k_empty[kStages];                   // mbarriers
        uint64_t q_full[kQBuffers], q_empty[kQBuffers];               // mbarriers
    };
    static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
    static_assert(sizeof(Shared) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");
};

}  // namespace lidx::sm90_pair

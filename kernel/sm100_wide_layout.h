// SPDX-License-Identifier: Apache-2.0
// Shared memory, Tensor Memory, tensor-map boxes and launch sizes of the sm_100 kernels for many tokens. Plain C++,
// included by host and kernel: the size of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/sm90_schedule.h"

namespace lidx::sm100_wide {

using sm90_score::Item;
using sm90_score::kDepth;
using sm90_score::kMmaK;
using sm90_score::kSwizzleAtomBytes;
using sm90_score::Start;

using lidx::kTileKeys;                        // M of tcgen05.mma: the 128 lanes of Tensor Memory, a key each
inline constexpr int kColumns = 256;          // N of tcgen05.mma: the token-head pairs of a block
inline constexpr int kGroups = 2;             // warpgroups that reduce, half of the columns each
inline constexpr int kGroupColumns = kColumns / kGroups;
inline constexpr int kThreads = 128 * (kGroups + 1);
inline constexpr int kLoaderWarps = 2;        // of the last warpgroup: key tiles; then one for the items, one for MMAs
inline constexpr int kItemWarp = kLoaderWarps;
inline constexpr int kMmaWarp = kLoaderWarps + 1;
inline constexpr int kStages = 8;             // key tiles, 16 KiB each
inline constexpr int kQBuffers = 2;           // 32 KiB each
inline constexpr int kScoreStages = 2;        // of S in Tensor Memory
inline constexpr int kTmemColumns = kScoreStages * kColumns;   // all there are
// Registers per thread: 65536 / 384 threads are 168 at the launch, and all that setmaxnreg shares out (9.7.19.5); the
// last warpgroup gives up what the others take.
inline constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
inline constexpr int kReducerRegisters = 208;
inline constexpr int kProducerRegisters = 88;
static_assert(kGroups * kReducerRegisters + kProducerRegisters <= (kGroups + 1) * kLaunchRegisters);
static_assert(kStages % kLoaderWarps == 0, "a stage is filled by the same warp");

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages}, strides {128, k_page_stride}, box {128, k_box_slots(.., 128), 1}
// Q: dims {128, rows, heads},          strides {heads * 128, 128},    box {128, 2, heads}

// ---- rows of LIDX_SM100_WIDE_VARIANTS. What sm90_loader.cuh, sm90_walk.cuh and sm90_share.cuh ask of a tile.
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr bool kPlain = true;              // see LIDX_SM100_WIDE_VARIANTS
    static constexpr int kHeadSlots = kHeads;
    static constexpr bool kAlike = false;             // rows of a request may see different keys
    static constexpr int kTileKeys = sm100_wide::kTileKeys;
    static constexpr int kBlockTokens = kColumns / kHeads;
    static constexpr int kGroupTokens = kBlockTokens / kGroups;
    static constexpr int kStages = sm100_wide::kStages;
    static constexpr int kLoaderWarps = sm100_wide::kLoaderWarps;
    static constexpr int kItemWarp = sm100_wide::kItemWarp;
    static constexpr int kThreads = sm100_wide::kThreads;
    static constexpr int kScanThreads = 128 * kGroups;   // that share out the work
    static constexpr bool kRehearse = false;
    static constexpr bool kWarmUp = true;             // meanwhile the others fetch their instructions
    static constexpr int kQBuffers = sm100_wide::kQBuffers;
    static constexpr int kWeightStride = kHeads;
    static constexpr bool kAlwaysBlocks = true;
    static constexpr bool kQPairs = false;
    static constexpr bool kTokenTurns = true;         // a box of Q: two tokens, which take turns in each head
    static constexpr bool kLoadersFill = true;        // kFillIllegalKeys is theirs
    static constexpr int kQBoxBytes = 2 * kHeads * kDepth;
    // In 64 clocks: a tile is 512 of MMA; a change of blocks, about 250 that hide behind no MMA.
    static constexpr int64_t kBlockCost = 4;
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t) { return 8; }
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t) { return kBlockTokens / 2; }
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) { return tokens > 0 ? kBlockTokens : 0; }

    struct alignas(kSwizzleAtomBytes) Shared {
        uint8_t k[kStages][kTileKeys * kDepth];              // [stage][128 keys, 128 bytes], swizzled; A
        uint8_t q[kQBuffers * (kBlockTokens / 2)][kQBoxBytes];   // [buffer][pair of tokens][heads, 2 tokens][128
                                                             // bytes], swizzled; B
        alignas(16) float q_scale[kQBuffers][kColumns];      // [buffer][pair of tokens, heads, 2 tokens]
        KeyRange sees[kQBuffers][kBlockTokens];
        alignas(16) float k_scale[kStages][kTileKeys];
        uint32_t live[kStages][kTileKeys];                   // bit = key: seen by a row, on a legal page; four words,
                                                             // as far apart as the scales
        Item item[kQBuffers];
        Start start, rest;
        int64_t warp_cost[kThreads / 32];
        uint64_t k_full[kStages], k_empty[kStages];          // mbarriers
        uint64_t q_full[kQBuffers], q_empty[kQBuffers];      // mbarriers
        uint64_t s_full[kScoreStages];                       // mbarriers
        uint64_t s_empty[kScoreStages];                      // mbarriers, behind those
        uint32_t tmem_base;                                  // written by tcgen05.alloc
    };
    static_assert(kHeads % 32 == 0 && kGroupColumns % kHeads == 0, "a token's columns are one group's");
    static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
    static_assert(sizeof(Shared) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 10.0)");
};

// Arrivals that complete a phase.
inline constexpr uint32_t kStageEmptyArrivals = 1;                       // the lane that issues MMAs
inline constexpr uint32_t kQEmptyArrivals = 128 * kGroups;               // who reduces
inline constexpr uint32_t kScoresFullArrivals = 2;                       // tcgen05.commit, and that lane
inline constexpr uint32_t kScoresEmptyArrivals = 4 * kGroups;            // a warp that reduces, each

// ---- TMEM column map, relative to the allocation
// columns 256 s .. 256 s + 255: S of stage s [key = lane, pair of tokens, heads, 2 tokens], fp32

}  // namespace lidx::sm100_wide

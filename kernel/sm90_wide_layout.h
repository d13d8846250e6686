// SPDX-License-Identifier: Apache-2.0
// Shared memory, tensor-map boxes and launch sizes of the sm_90 kernels for many heads. Plain C++, included by host and
// kernel: the size of the struct is the size of the launch.
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
using sm90_score::kQBoxBytes;
using sm90_score::kSwizzleAtomBytes;
using sm90_score::Start;

inline constexpr int kTileKeys = 96;          // N of wgmma
inline constexpr int kBlockTokens = 8;        // lanes l, l + 4, ... of a warp: the rows of an 8-row swizzle atom
inline constexpr int kWarpgroups = 3;         // that multiply, a key tile each
inline constexpr int kThreads = 128 * (kWarpgroups + 1);
inline constexpr int kLoaderWarps = 3;
inline constexpr int kStages = 6;             // key tiles, 12 KiB each
// Registers per thread: 65536 / 512 threads are 128 at the launch; the loading warpgroup gives up 48 of its own.
inline constexpr int kConsumerRegisters = 144;
inline constexpr int kProducerRegisters = 80;
static_assert(kStages % kLoaderWarps == 0 && kStages % kWarpgroups == 0, "who fills and who reads a stage is fixed");

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B, no interleave, element strides 1, zero fill
// K: dims {128, page_size, num_pages}, strides {128, k_page_stride}, box {kDepth, k_box_slots(paged, page_size, 96), 1}
// Q: dims {128, rows, heads},          strides {heads * 128, 128},   box {kDepth, kBlockTokens, 8}

// ---- rows of LIDX_SM90_WIDE_VARIANTS
template <int kHeads_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr bool kPlain = false;
    static constexpr int kMmas = kHeads / 8;          // of a key tile: eight heads of eight tokens each
    static_assert(kHeads % 16 == 0, "two accumulator sets take turns");
    static constexpr int kTileKeys = sm90_wide::kTileKeys;
    static constexpr int kBlockTokens = sm90_wide::kBlockTokens;
    static constexpr int kGroupTokens = kBlockTokens;
    static constexpr int kStages = sm90_wide::kStages;
    static constexpr int kLoaderWarps = sm90_wide::kLoaderWarps;
    static constexpr int kThreads = sm90_wide::kThreads;
    static constexpr int kQBuffers = kHeads <= 64 ? 2 : 1;
    static constexpr int kWeightStride = kHeads + 2;  // two banks from one token's to the next
    static constexpr bool kAlwaysBlocks = true;
    static constexpr bool kHeadMajor = true;          // Q rows: the tokens of a head beside each other
    LIDX_HOST_DEVICE static constexpr int32_t q_boxes(int64_t) { return kMmas; }
    LIDX_HOST_DEVICE static constexpr int64_t tile_cost(int64_t) { return kMmas; }
    LIDX_HOST_DEVICE static constexpr int32_t padded_tokens(int32_t tokens) { return tokens > 0 ? kBlockTokens : 0; }

    struct alignas(kSwizzleAtomBytes) Shared {
        uint8_t k[kStages][kTileKeys * kDepth];                     // [stage][96 keys, 128 bytes], swizzled; B. Then
                                                                    // the parts of sums [4 warps][8 tokens][96 keys]
        uint8_t q[kQBuffers * kMmas][kQBoxBytes];                   // [buffer][8 heads, 8 tokens, 128 bytes]; A
        alignas(16) float q_scale[kQBuffers][kBlockTokens * kWeightStride];
        KeyRange sees[kQBuffers][kBlockTokens];
        alignas(16) float k_scale[kStages][kTileKeys];
        uint32_t live[kStages][kTileKeys / 32];                     // bit = key: seen by a row, on a legal page
        Item item[kQBuffers];
        Start start;
        int64_t warp_cost[kThreads / 32];
        uint64_t k_full[kStages], k_empty[kStages];                 // mbarriers
        uint64_t q_full[kQBuffers], q_empty[kQBuffers];             // mbarriers
    };
    static_assert(offsetof(Shared, q) % kSwizzleAtomBytes == 0);
    static_assert(4 * kBlockTokens * sizeof(float) == kDepth, "the parts of a tile's sums fit where its codes were");
    static_assert(sizeof(Shared) <= 232448, "227 KiB per CTA (CUDA C++ Programming Guide, compute capability 9.0)");
};

// Arrivals that complete a phase: the warps of the warpgroup whose tile it is.
inline constexpr uint32_t kEmptyArrivals = 4;

}  // namespace lidx::sm90_wide

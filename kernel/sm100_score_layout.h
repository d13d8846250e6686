// SPDX-License-Identifier: Apache-2.0
// Shared memory, Tensor Memory and launch sizes of the SM100 kernels. Plain C++, included by host and kernel: the size
// of the struct is the size of the launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/problem.h"

namespace lidx::sm100_score {

inline constexpr int kDepth = 128;                  // most bytes of a row of K or Q; depth 64 uses half of each tile
inline constexpr int kDepthStep = 64;               // depth 64 or 128: a row is one span of the swizzle of that width
inline constexpr int kThreads = 128;                // four warps; warp w drains TMEM lanes 32w .. 32w + 31
inline constexpr int kSwizzleAtomBytes = 1024;      // eight rows of 128 bytes; operand tiles begin on such a boundary
inline constexpr int kMmaK = 32;                    // depth of one tcgen05.mma kind::f8f6f4

// ---- tensor maps (cuTensorMapEncodeTiled), both UINT8, SWIZZLE_128B (depth 64: SWIZZLE_64B), no interleave, element
// strides 1, zero fill
// K: dims {depth, page_size, num_pages}, strides {depth, k_page_stride}, box {depth, k_box_slots(...), 1}
// Q: dims {depth, rows * heads},         strides {depth},                box {depth, tile_tokens * heads}
// The row coordinate of the Q map is a signed 32-bit number.
constexpr bool rows_fit(int64_t rows, int64_t heads) { return rows >= 0 && rows * heads <= INT32_MAX; }
// The page coordinate of a box that must not be read (beyond the length, or an illegal page id): out of bounds, so it
// is zero-filled and still completes its full byte count.
inline constexpr int32_t kDeadPage = -1;

// The key of a thread that stores nothing: no row sees it, since no key is as far away.
inline constexpr int32_t kNoKey = INT32_MIN;

// ---- shared memory. The second Q buffer is last: a launch with one token tile gets only what lies before it.
struct alignas(8) Sight {
    int32_t begin;                                  // first key that a row sees
    uint32_t size;                                  // keys
};
struct alignas(16) Hull {
    int32_t begin, end;                             // keys that a warp's rows see
    int32_t first, last;                            // tokens that see any
};
template <int kColumns, int kTokens>
struct alignas(kSwizzleAtomBytes) Shared {
    uint8_t k[kTileKeys * kDepth];                  // [128 keys, depth bytes], swizzled; operand A
    uint8_t q0[kColumns * kDepth];                  // [tokens * heads, depth bytes], swizzled; B of even tiles
    alignas(16) float weights[2][kColumns];         // [buffer, tokens * heads]
    Sight sights[2][kTokens];                       // [buffer, tokens]
    Hull hull[2][kThreads / 32];                    // [unit modulo 2, warp]
    uint64_t k_full;                                // mbarrier: the K tile has landed
    uint64_t q_full[2];                             // mbarrier: a Q tile has landed
    uint64_t s_full;                                // mbarrier: S = K Q^T is complete in TMEM, and K and Q were read
    uint32_t tmem_base;                             // written by tcgen05.alloc
    alignas(kSwizzleAtomBytes) uint8_t q1[kColumns * kDepth];   // operand B of odd tiles
};

// ---- one tile variant; rows of LIDX_SM100_SCORE_VARIANTS
template <int kHeads_, int kTokens_>
struct Tile {
    static constexpr int kHeads = kHeads_;
    static constexpr int kTokens = kTokens_;
    static constexpr int kColumns = kHeads * kTokens;               // MMA N
    static constexpr int kTmemColumns = kColumns <= 32 ? 32 : kColumns <= 64 ? 64 : 128;   // a power of two
    // CTAs of an SM that the registers are meant for (16 tokens of 4 heads do not get along with 96).
    static constexpr int kCtas = kColumns <= 32 ? 6 : kColumns <= 64 && kTokens < 16 ? 5 : kColumns <= 96 ? 4 : 3;
    using SharedLayout = Shared<kColumns, kTokens>;
    static constexpr int kSharedBytes = sizeof(SharedLayout);
    static constexpr int kSharedBytesDecode = offsetof(SharedLayout, q1);   // launches with one token tile

    static_assert(kColumns % 32 == 0 && kColumns <= 128,
                  "drained in blocks of 32 columns; one thread stores one weight");
    static_assert(kColumns % 16 == 0, "MMA N for M = 128");
    static_assert(kTokens <= 32, "a lane stages the keys of a row");
    static_assert(kHeads % 4 == 0, "weights are read four at a time");
    static_assert(offsetof(SharedLayout, q0) % kSwizzleAtomBytes == 0 &&
                  offsetof(SharedLayout, q1) % kSwizzleAtomBytes == 0);
    static_assert(offsetof(SharedLayout, weights) % 16 == 0);
};

// ---- TMEM column map, relative to the allocation: one stage
// columns 0 .. kColumns - 1: S[key = lane, token * heads + head], fp32
inline constexpr int kTmemColumnS = 0;

// Launch sizes as plain numbers, for tables.
struct LaunchShape {
    int heads, tile_tokens, columns, tmem_columns, threads, shared_bytes, shared_bytes_decode;
};
template <int kHeads, int kTokens>
constexpr LaunchShape launch_shape() {
    using T = Tile<kHeads, kTokens>;
    return {kHeads, kTokens, T::kColumns, T::kTmemColumns, kThreads, T::kSharedBytes, T::kSharedBytesDecode};
}

}  // namespace lidx::sm100_score

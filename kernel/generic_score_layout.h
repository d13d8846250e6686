// SPDX-License-Identifier: Apache-2.0
// Launch sizes and limits of the generic kernel. Plain C++, included by host and kernel.
#pragma once
#include <cstdint>

#include "kernel/problem.h"

namespace lidx::generic_score {

inline constexpr int kThreads = 128;            // one key per thread: the key tile
inline constexpr int kTileTokens = 1;           // a token tile is one row
inline constexpr int kHeadChunk = 16;           // heads whose queries are decoded into shared memory at a time
inline constexpr int kDepthStep = 16;           // depth is a multiple of it: 16-byte loads of codes
inline constexpr int kDynamicSharedBytes = 0;   // all shared memory is static
inline constexpr int kStaticSharedBytes = kHeadChunk * kMaxDepth * 4 + kHeadChunk * 4;   // for tables

constexpr bool heads_fit(int64_t heads) { return heads >= 1 && heads <= kMaxHeads; }
constexpr bool depth_fits(int64_t depth) {
    return depth >= kDepthStep && depth <= kMaxDepth && depth % kDepthStep == 0;
}
// Any page size from 1.

}  // namespace lidx::generic_score

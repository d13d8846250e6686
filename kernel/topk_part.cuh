// SPDX-License-Identifier: Apache-2.0
// The part of a row that a CTA holds: where its keys lie, and how they come to its registers.
#pragma once
#include <cstdint>

#include "kernel/topk_cluster.cuh"
#include "kernel/topk_keys.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// A CTA's keys of a row: [begin, begin + keys) of those to choose from. A warp has `each` consecutive ones from
// warp * each on, a multiple of 128 so that all warps have some; keys[4 j + c] is the warp's key 128 j + 4 lane + c.
struct Part {
    int32_t begin, keys, each;
    __device__ __forceinline__ int32_t first(const Thread& self) const {
        return warp_first(self) + 4 * static_cast<int32_t>(self.lane());
    }
    __device__ __forceinline__ int32_t warp_first(const Thread& self) const {
        return static_cast<int32_t>(self.warp()) * each;
    }
    __device__ __forceinline__ int32_t end(const Thread& self) const { return min(keys, warp_first(self) + each); }
    template <int kKeys>
    __device__ __forceinline__ bool whole(const Thread& self) const {   // the warp's keys all exist
        return warp_first(self) + each <= keys && each == kKeys / 4 * kGroupKeys;
    }
    __device__ __forceinline__ int32_t groups() const { return each / kGroupKeys; }   // of a lane
};

// The bits of scores; of a NaN where there is none.
template <class Score, int kKeys>
__device__ __forceinline__ void load_scores(const uint8_t* base, const Part& part, const Thread& self,
                                            uint32_t (&score)[kKeys]) {
    constexpr int kGroups = kKeys / 4;
    const int32_t first = part.first(self), end = part.end(self);
    const uint8_t* own = base + int64_t{first} * Score::kBytes;
    if (reinterpret_cast<uintptr_t>(base) % (4 * Score::kBytes) == 0) {
        // The group that lacks some of its four is one thread's.
        const int32_t rest = part.keys % 4, tail = part.keys - rest;
        const bool owns = rest != 0 && tail < end && tail >= first && (tail - first) % kGroupKeys == 0;
        uint32_t edge[3] = {};
        if (owns) {
#pragma unroll
            for (int c = 0; c < 3; ++c)
                edge[c] = Score::load(c < rest, base + int64_t{tail + c} * Score::kBytes, kNanBits);
        }
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
            float four[4];
            Score::load4(first + j * kGroupKeys + 4 <= end, own + int64_t{j} * kGroupKeys * Score::kBytes, four);
#pragma unroll
            for (int c = 0; c < 4; ++c) score[4 * j + c] = __float_as_uint(four[c]);
        }
        if (part.whole<kKeys>(self)) return;
#pragma unroll
        for (int i = 0; i < kKeys; ++i)
            if (first + i / 4 * kGroupKeys + 4 > end) score[i] = kNanBits;
        if (!owns) return;
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
#pragma unroll
            for (int c = 0; c < 3; ++c)
                if (tail - first == j * kGroupKeys && c < rest) score[4 * j + c] = edge[c];
        return;
    }
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
        const int32_t at = i / 4 * kGroupKeys + i % 4;
        score[i] = Score::load(first + at < end, own + int64_t{at} * Score::kBytes, kNanBits);
    }
}

// Scores become keys.
template <class Score, int kKeys>
__device__ __forceinline__ void make_keys(const Part& part, const Thread& self, uint32_t (&keys)[kKeys]) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) keys[i] = held_key<Score>(__uint_as_float(keys[i]));
    if (part.whole<kKeys>(self)) return;
    const int32_t first = part.first(self), end = part.end(self);
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
        if (first + i / 4 * kGroupKeys + i % 4 >= end) keys[i] = kNoKey;
}

template <class Score>
__device__ __forceinline__ uint32_t load_sample(const uint8_t* base, int32_t keys, uint32_t lane) {
    const auto at = static_cast<int32_t>(lane / 4 * (static_cast<uint32_t>(keys) / 8) + lane % 4);
    return Score::load(at < keys, base + int64_t{at} * Score::kBytes, kNanBits);
}

template <int kKeys>
__device__ __forceinline__ void list_keys(const uint32_t (&keys)[kKeys], int32_t groups, const Digit& digit,
                                          ptx::SharedAddr listed) {
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        if (j >= groups) break;
        uint32_t least = ~0u;
#pragma unroll
        for (int c = 0; c < 4; ++c) least = min(least, keys[4 * j + c] - digit.base);
        if (least > digit.span) continue;
#pragma unroll
        for (int c = 0; c < 4; ++c) list_key(keys[4 * j + c], digit, listed);
    }
}

}  // namespace lidx::topk

// SPDX-License-Identifier: Apache-2.0
// Keys in registers: scores as ordered numbers, the first digit of them as a guess, and how they are counted.
#pragma once
#include <cstdint>

#include "kernel/topk_cluster.cuh"
#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"

namespace lidx::topk {

// Of a key that does not exist, below all others, NaN included.
inline constexpr uint32_t kNoKey = 0;
inline constexpr int kGroups = kKeysPerThread / 4;
inline constexpr int32_t kGroupKeys = 4 * 32;

// ordered_key() + 2, so that NaN is 1: x + 0 takes the sign off a zero and makes every NaN 0x7fffffff, which counts on
// from +inf round to there.
template <class Score>
__device__ __forceinline__ uint32_t held_key(float score) {
    const uint32_t bits = __float_as_uint(ptx::add_rn_f32(score, 0.0f));
    const uint32_t key = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return Score::kBytes == 2 ? (key & 0xffff0000u) + 0x20000u : key + 2;
}

// The bits that all keys of a type share.
template <class Score>
inline constexpr int kSameBits = Score::kBytes == 2 ? 16 : 0;

// The first digit: 128 bins an octave of scores, 14 octaves below the largest of 32 samples of the row and almost two
// above, so that few keys are left to tell apart. Not where many of the keys are chosen: they may be of either sign.
template <class Score>
__device__ __forceinline__ Rounds<kSameBits<Score>> first_round(uint32_t sample, int32_t k, int32_t keys) {
    Rounds<kSameBits<Score>> rounds{Digit{}, static_cast<uint32_t>(k), k <= keys / 2};
    if (!rounds.guess) return rounds;
    const uint32_t largest = ptx::redux_sync_max_u32(held_key<Score>(__uint_as_float(sample)), ptx::kFullMask);
    constexpr uint32_t kMore = 1u << 24;
    const uint32_t top = (largest < ~kMore ? largest + kMore : ~0u) | ((1u << kGuessLow) - 1);
    rounds.digit = {top > kGuessSpan ? top - kGuessSpan : 0, kGuessSpan, kGuessLow};
    return rounds;
}

template <int kSame, int kKeys>
__device__ __forceinline__ void count_keys(const uint32_t (&keys)[kKeys], int32_t groups, const Rounds<kSame>& rounds,
                                           ptx::SharedAddr histogram, ptx::SharedAddr nowhere) {
    const Digit digit = rounds.digit;
    if (rounds.guess || digit.is_first()) {   // keys outside are added to the bins at the ends
        const uint32_t top = digit.base + digit.span;
        const ptx::SharedAddr bins{histogram.value - (digit.base >> digit.low) * 4};
#pragma unroll
        for (int j = 0; j < kKeys / 4; ++j) {
            if (j >= groups) break;
#pragma unroll
            for (int c = 0; c < 4; ++c)
                ptx::red_shared_add_u32(bins + (min(max(keys[4 * j + c], digit.base), top) >> digit.low) * 4, 1);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        if (j >= groups) break;
        // A key without a bin is counted nowhere: cheaper than a branch for each. Most groups have none with one.
        uint32_t rest[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) rest[c] = keys[4 * j + c] - digit.base;
        if (min(min(rest[0], rest[1]), min(rest[2], rest[3])) > digit.span) continue;
#pragma unroll
        for (int c = 0; c < 4; ++c)
            ptx::red_shared_add_u32(rest[c] <= digit.span ? histogram + (rest[c] >> digit.low) * 4 : nowhere, 1);
    }
}

// A bit for each score above `bound`, bits of one above zero: the sign of the difference, which for a NaN is +.
template <int kKeys>
__device__ __forceinline__ uint32_t above_bits(const uint32_t (&score)[kKeys], uint32_t bound) {
    uint32_t bits = 0;
#pragma unroll
    for (int i = kKeys - 1; i >= 0; --i) {
        const float rest = ptx::add_rn_f32(__uint_as_float(bound), -__uint_as_float(score[i]));
        bits = ptx::shf_l_wrap_b32(__float_as_uint(rest), bits, 1);
    }
    return bits;
}

// A first digit whose bins are all above zero needs no keys: there scores compare as their bits.
template <int kSame>
__device__ __forceinline__ void compare_scores(Rounds<kSame>& rounds) {
    const uint32_t low = rounds.digit.base - 0x80000000u;
    rounds.of_scores = rounds.guess && low - 1 < 0x7f800000u - kGuessSpan - 1;
    if (rounds.of_scores) rounds.digit.base = low;
}

// Counts the first digit of scores, from `low` on: the least score of the lowest bin. NaN, and what is not there, lies
// below.
template <int kKeys>
__device__ __forceinline__ void count_scores(const uint32_t (&score)[kKeys], int32_t groups, uint32_t low,
                                             ptx::SharedAddr histogram) {
    const float least = __uint_as_float(low), most = __uint_as_float(low + kGuessSpan);
    const ptx::SharedAddr bins{histogram.value - (low >> kGuessLow) * 4};
#pragma unroll
    for (int j = 0; j < kKeys / 4; ++j) {
        if (j >= groups) break;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const float inside = ptx::min_f32(ptx::max_f32(__uint_as_float(score[4 * j + c]), least), most);
            ptx::red_shared_add_u32({ptx::mad_lo_u32(__float_as_uint(inside) >> kGuessLow, 4, bins.value)}, 1);
        }
    }
}

}  // namespace lidx::topk

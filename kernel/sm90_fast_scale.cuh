// SPDX-License-Identifier: Apache-2.0
// How the fast mode scales queries and weights, by all 128 threads of a warpgroup in shared memory. Part of
// sm90_fast.cu, which has the formulas.
#pragma once
#include "kernel/sm90_fast_layout.h"
#include "kernel/sm90_loader.cuh"
#include "ptx/half.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_fast {

using sm90_score::shfl_bfly;

__device__ __forceinline__ float power_of_two(int32_t exponent) {
    return __int_as_float((exponent + 127) << 23);
}

// The smallest shift with sum <= kCodeSum * 2^shift: an fp32's bits grow by 2^23 with every power of two.
__device__ __forceinline__ int32_t shift_of(float sum) {
    const int32_t above = __float_as_int(sum) - __float_as_int(kCodeSum);
    const int32_t shift = (above + 0x7fffff) >> 23;
    return shift < 0 ? 0 : shift < kMaxShift ? shift : kMaxShift;
}

// Scales the 256 heads of a warpgroup in place. Eight lanes have a row: fp16 sums of the even and the odd codes of 16,
// fp32 beyond. Four rows at a time, step by step: one after the other they would wait for each other's shared memory.
__device__ __forceinline__ void scale_queries(uint32_t thread, ptx::SharedAddr q, ptx::SharedAddr shifts) {
    constexpr int kRows = 4;
    const uint32_t chunk = thread % 8, first_row = thread / 8;
    const ptx::SharedAddr codes = q + first_row * kDepth + ((chunk ^ first_row % 8) << 4);
#pragma unroll 1
    for (uint32_t row = 0; row < kColumns; row += 16 * kRows) {
        const ptx::SharedAddr from = codes + row * kDepth;
        uint32_t pair[kRows][8];
        float sum[kRows];
        ptx::U32x4 quad[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) quad[r] = ptx::ld_shared_v4_u32(from + static_cast<uint32_t>(16 * r * kDepth));
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const uint32_t word[4] = {quad[r].x, quad[r].y, quad[r].z, quad[r].w};
            uint32_t sums = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                pair[r][i] = ptx::cvt_rn_f16x2_e4m3x2(static_cast<uint16_t>(word[i / 2] >> i % 2 * 16));
                sums = ptx::add_rn_f16x2(sums, ptx::abs_f16x2(pair[r][i]));
            }
            sum[r] = ptx::add_rn_f32(ptx::cvt_f32_f16(static_cast<uint16_t>(sums)),
                                     ptx::cvt_f32_f16(static_cast<uint16_t>(sums >> 16)));
        }
#pragma unroll
        for (uint32_t mask = 1; mask < 8; mask *= 2) {
#pragma unroll
            for (int r = 0; r < kRows; ++r)
                sum[r] = ptx::add_rn_f32(sum[r], ptx::shfl_sync_bfly(sum[r], mask, ptx::kFullMask));
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const int32_t shift = shift_of(sum[r]);
            const auto half = static_cast<uint32_t>(15 - shift) << 10;   // 2^-shift in fp16
            uint32_t scaled[8];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                scaled[i] = ptx::cvt_rn_satfinite_e4m3x2_f16x2(ptx::mul_rn_f16x2(pair[r][i], half | half << 16));
            ptx::st_shared_v4_u32(from + static_cast<uint32_t>(16 * r * kDepth),
                                  {scaled[0] | scaled[1] << 16, scaled[2] | scaled[3] << 16,
                                   scaled[4] | scaled[5] << 16, scaled[6] | scaled[7] << 16});
            if (chunk == 0)
                ptx::st_shared_u32(shifts + (row + static_cast<uint32_t>(16 * r) + first_row) * 4,
                                   static_cast<uint32_t>(shift));
        }
    }
}

// The weights of the warpgroup's columns as fp16 pairs, and 2^u of its tokens, into shared memory; a thread has the
// columns 2 thread and the next, kHeads / 2 lanes have a token.
template <class T>
__device__ __forceinline__ void scale_weights(uint32_t thread, ptx::SharedAddr scales, ptx::SharedAddr shifts,
                                              ptx::SharedAddr weights, ptx::SharedAddr unscales) {
    constexpr int32_t kChainLog2 = T::kChain == 8 ? 3 : 2;
    static_assert(T::kChain == 1 << kChainLog2);
    float weight[2];
    uint32_t shift[2];
    ptx::ld_shared_v2_f32(weight[0], weight[1], scales + thread * 8);
    ptx::ld_shared_v2_u32(shift[0], shift[1], shifts + thread * 8);
    int32_t largest = 1;   // biased exponent
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        const int32_t exponent = __float_as_int(weight[e]) >> 23 & 255;
        const int32_t scaled = (exponent == 0 ? 1 : exponent) + static_cast<int32_t>(shift[e]);
        if (exponent != 255 && scaled > largest) largest = scaled;
    }
#pragma unroll
    for (uint32_t mask = 1; mask < T::kHeads / 2; mask *= 2) {
        const int32_t other = shfl_bfly(largest, mask);
        if (other > largest) largest = other;
    }
    const int32_t u = (largest - 127 + 1 + kChainLog2 + 1) >> 1;
    uint32_t half[2];
#pragma unroll
    for (int e = 0; e < 2; ++e)
        half[e] = ptx::cvt_rn_f16_f32(
            ptx::mul_rn_f32(ptx::mul_rn_f32(weight[e], power_of_two(static_cast<int32_t>(shift[e]) - u)),
                            power_of_two(-u)));
    ptx::st_shared_u32(weights + thread * 4, half[0] | half[1] << 16);
    if (thread % (T::kHeads / 2) == 0) ptx::st_shared_f32(unscales + thread / (T::kHeads / 2) * 4, power_of_two(u));
}

}  // namespace lidx::sm90_fast

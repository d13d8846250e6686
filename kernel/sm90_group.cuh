// SPDX-License-Identifier: Apache-2.0
// A tile of 64 keys times a group of 64 token-head pairs, and the sums over heads: part of sm90_score.cu, sm90_pair.cu
// and, but for the MMA, sm90_decode.cu. sm90_score.cu has the arithmetic. Lane q of a quad holds columns 8 j + 2 q and
// the next.
#pragma once
#include "kernel/sm90_schedule.h"
#include "kernel/smem_descriptor.h"
#include "ptx/math.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm90_score {

// D = K Q^T, operands by their descriptors.
__device__ __forceinline__ void multiply_group(uint64_t k, uint64_t q, float (&d)[kColumns / 2]) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, smem_descriptor_advance(k, step * kMmaK),
                                                     smem_descriptor_advance(q, step * kMmaK), step > 0);
    ptx::wgmma_commit_group();
}
// The same, operands by the lower words of their descriptors, of which the upper ones are alike. Where a warpgroup has
// two groups this takes fewer instructions, a carry less for each step of q.
__device__ __forceinline__ void multiply_group(uint32_t k, uint32_t q, float (&d)[kColumns / 2]) {
    constexpr uint64_t kHigh = wgmma_descriptor_k_major_128b(0);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, smem_descriptor_advance(kHigh | k, step * kMmaK),
                                                     kHigh | (q + step * (kMmaK / 16)), step > 0);
    ptx::wgmma_commit_group();
}

// The compiler may not move reads of the accumulators above the wait that precedes this.
__device__ __forceinline__ void pin(float (&d)[kColumns / 2]) {
#pragma unroll
    for (float& x : d) asm volatile("" : "+f"(x));
}

// This lane's part of the head sums: sum[2 * token + half], rows lane / 4 + 8 * half of the warp. weights: of columns
// 8 j + 2 q + e at 2 j + e.
template <class T>
__device__ __forceinline__ void reduce(const float (&weights)[kColumns / 4], const float (&d)[kColumns / 2],
                                       float (&sum)[2 * T::kGroupTokens]) {
    constexpr int kBlocks = T::kHeadSlots / 8;
#pragma unroll
    for (int token = 0; token < T::kGroupTokens; ++token) {
        sum[2 * token] = sum[2 * token + 1] = 0.0f;
#pragma unroll
        for (int j = token * kBlocks; j < (token + 1) * kBlocks; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    sum[2 * token + half] = ptx::fma_rn_f32(
                        weights[2 * j + e], ptx::max_nan_f32(d[4 * j + 2 * half + e], 0.0f), sum[2 * token + half]);
            }
        }
    }
}

// A group's weights, from shared memory at the lane's first column.
__device__ __forceinline__ void load_group_weights(ptx::SharedAddr from, float (&weights)[kColumns / 4]) {
#pragma unroll
    for (uint32_t j = 0; j < kColumns / 8; ++j)
        ptx::ld_shared_v2_f32(weights[2 * j], weights[2 * j + 1], from + j * 32);
}

}  // namespace lidx::sm90_score

// SPDX-License-Identifier: Apache-2.0
// What every scorer reads and writes cell by cell: weights in either type, scores in either type, the fill.
#pragma once
#include "kernel/problem.h"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"

namespace lidx {

// bf16 is the upper half of an fp32.
__device__ __forceinline__ float load_float(const void* base, int64_t index, FloatType type) {
    if (type == FloatType::kFp32) return ptx::ld_global_nc_f32(static_cast<const float*>(base) + index);
    return __uint_as_float(uint32_t{ptx::ld_global_nc_u16(static_cast<const uint16_t*>(base) + index)} << 16);
}

// The weight of a row's head: q_scale, or the product of both factors, rounded once.
__device__ __forceinline__ float load_weight(const ScoreParams& p, int64_t row, int32_t head) {
    const float weight = load_float(p.q_scale, row * p.weight_stride + head, p.weight_type);
    if (p.q_scale2 == nullptr) return weight;
    return ptx::mul_rn_f32(weight, load_float(p.q_scale2, row * p.weight2_stride + head, p.weight2_type));
}

// bf16 scores are the fp32 scores, rounded to nearest even.
__device__ __forceinline__ void store_float(void* base, int64_t index, FloatType type, float value) {
    if (type == FloatType::kFp32) ptx::st_global_f32(static_cast<float*>(base) + index, value);
    else ptx::st_global_u16(static_cast<uint16_t*>(base) + index, ptx::cvt_rn_bf16_f32(value));
}
__device__ __forceinline__ void store_score(const ScoreParams& p, int64_t cell, float score) {
    store_float(p.scores, cell, p.score_type, score);
}

// LIDX_FLAG_CHECK: many threads of many CTAs may say so.
__device__ __forceinline__ void report_bad_page(const ScoreParams& p) {
    if (p.check_word) ptx::st_relaxed_gpu_global_u32(p.check_word, 1);
}

// What LIDX_FLAG_FILL leaves in a dead cell.
__device__ __forceinline__ float dead_score() { return __uint_as_float(0xff800000); }

}  // namespace lidx

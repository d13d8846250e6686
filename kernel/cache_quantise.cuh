// SPDX-License-Identifier: Apache-2.0
// One vector of 64 or 128 elements per warp: load, rotate, quantise to e4m3. Shared by the store and the query kernel;
// test/ref/quantise_model.h is the same in scalar code.
//
// All fp32, round to nearest even, subnormals kept, nothing contracted. Element e lives in lane e / kPerLane.
//     rotate   for half = 1, 2, 4 .. depth / 2 and all i with (i & half) == 0:
//              (x[i], x[i + half]) = (x[i] + x[i + half], x[i] - x[i + half]);  then x[i] = x[i] * fp32(depth^-0.5)
//     round    with kRound x[i] is then rounded to the source's type
//     amax     the largest |x[i]|, at least 1e-4; NaN if any x[i] is NaN
//     scale    amax / 448; with kPow2Scale rounded up to a power of two (NaN and infinity stay)
//     code     the e4m3 value nearest to x[i] / scale, ties to even, at most 448; NaN is 0x7f
#pragma once
#include "kernel/cache_layout.h"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"

namespace lidx::cache {

template <int kDepth>
inline constexpr int kPerLane = kDepth / 32;

__device__ __forceinline__ float bf16_value(uint32_t low_half) { return __uint_as_float(low_half << 16); }

__device__ __forceinline__ float half_value(uint32_t low_half, FloatType type) {
    return type == FloatType::kBf16 ? bf16_value(low_half & 0xffff) : ptx::cvt_f32_f16(static_cast<uint16_t>(low_half));
}

// One element anywhere.
__device__ __forceinline__ float load_element(const uint8_t* at, FloatType type) {
    return type == FloatType::kFp32 ? ptx::ld_global_nc_f32(at) : half_value(ptx::ld_global_nc_u16(at), type);
}

// The lane's elements of the vector at `from`. vector: one load, of 16, 8 or 4 bytes.
template <int kDepth>
__device__ __forceinline__ void load_vector(const uint8_t* from, FloatType type, bool vector, uint32_t lane,
                                            float (&x)[kPerLane<kDepth>]) {
    constexpr int kCount = kPerLane<kDepth>;
    const uint8_t* at = from + lane * kCount * float_bytes(type);
    if (!vector) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = load_element(at + i * float_bytes(type), type);
    } else if (type == FloatType::kFp32) {
        uint32_t words[4];
        if constexpr (kCount == 4) {
            const ptx::U32x4 four = ptx::ld_global_nc_v4_u32(at);
            words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
        } else {
            ptx::ld_global_nc_v2_u32(words[0], words[1], at);
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = __uint_as_float(words[i]);
    } else {
        uint32_t words[2];
        if constexpr (kCount == 4)
            ptx::ld_global_nc_v2_u32(words[0], words[1], at);
        else
            words[0] = ptx::ld_global_nc_u32(at);
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = half_value(words[i / 2] >> (i % 2 * 16), type);
    }
}

// Distances below kPerLane are within a lane, the others between lanes; both give each sum its one rounding.
template <int kDepth>
__device__ __forceinline__ void rotate(float (&x)[kPerLane<kDepth>], uint32_t lane) {
    constexpr int kCount = kPerLane<kDepth>;
#pragma unroll
    for (int half = 1; half < kCount; half *= 2)
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            if ((i & half) == 0) {
                const float a = x[i], b = x[i + half];
                x[i] = ptx::add_rn_f32(a, b);
                x[i + half] = ptx::add_rn_f32(a, -b);
            }
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2) {
        const uint32_t sign = (lane & lanes) != 0 ? 0x80000000u : 0;   // the upper one of a pair is subtracted
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float other = ptx::shfl_sync_bfly(x[i], lanes, ptx::kFullMask);
            x[i] = ptx::add_rn_f32(other, __uint_as_float(__float_as_uint(x[i]) ^ sign));
        }
    }
    constexpr float kFactor = kDepth == 128 ? 0x1.6a09e6p-4f : 0.125f;   // depth^-0.5
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = ptx::mul_rn_f32(x[i], kFactor);
}

// To bf16 or fp16 and back.
template <int kDepth>
__device__ __forceinline__ void round_to(FloatType type, float (&x)[kPerLane<kDepth>]) {
#pragma unroll
    for (int i = 0; i < kPerLane<kDepth>; ++i) {
        if (type == FloatType::kBf16) x[i] = bf16_value(ptx::cvt_rn_bf16_f32(x[i]));
        if (type == FloatType::kFp16) x[i] = ptx::cvt_f32_f16(ptx::cvt_rn_f16_f32(x[i]));
    }
}

// The smallest power of two that is not below a normal positive value; NaN and infinity stay.
__device__ __forceinline__ float round_up_to_power_of_two(float value) {
    const uint32_t bits = __float_as_uint(value);
    return bits >= 0x7f800000 ? value : __uint_as_float((bits + 0x007fffff) & 0x7f800000);
}

template <int kDepth>
__device__ __forceinline__ float scale_of(const float (&x)[kPerLane<kDepth>], bool pow2) {
    float amax = kMinAmax;
#pragma unroll
    for (int i = 0; i < kPerLane<kDepth>; ++i) amax = ptx::max_nan_f32(amax, ptx::abs_f32(x[i]));
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        amax = ptx::max_nan_f32(amax, ptx::shfl_sync_bfly(amax, lanes, ptx::kFullMask));
    const float scale = ptx::div_rn_f32(amax, kE4m3Max);
    return pow2 ? round_up_to_power_of_two(scale) : scale;
}

// cvt.rn.satfinite.e4m3x2.f32 needs sm_89 (PTX ISA 9.7.9.21); this is the same in integers, so that one PTX text serves
// every device from sm_80 on. Below 2^-6, the smallest normal, the sum with 2^14 is rounded to multiples of 2^-9, the
// subnormals' step, and its low bits are the code; a round-up to 2^-6 gives 8, which is that value's code.
__device__ __forceinline__ uint32_t encode_e4m3(float value) {
    const uint32_t bits = __float_as_uint(value), magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7f;
    uint32_t code;
    if (magnitude < 0x3c800000) {   // 2^-6
        code = __float_as_uint(ptx::add_rn_f32(__uint_as_float(magnitude), 0x1p14f)) - 0x46800000;
    } else {
        code = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3);   // exponent bias 127 to 7
        if (code > 0x7e) code = 0x7e;
    }
    return code | (bits >> 24 & 0x80);
}

// The lane's codes, the first in the low byte.
template <int kDepth>
__device__ __forceinline__ uint32_t encode_vector(const float (&x)[kPerLane<kDepth>], float scale) {
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < kPerLane<kDepth>; ++i) codes |= encode_e4m3(ptx::div_rn_f32(x[i], scale)) << (8 * i);
    return codes;
}

template <int kDepth>
__device__ __forceinline__ void store_codes(uint8_t* to, uint32_t lane, uint32_t codes) {
    if constexpr (kPerLane<kDepth> == 4)
        ptx::st_global_u32(to + lane * 4, codes);
    else
        ptx::st_global_u16(to + lane * 2, static_cast<uint16_t>(codes));
}

// The whole warp: reads and quantises one vector. Returns the scale; codes are the lane's.
template <int kDepth>
__device__ __forceinline__ float quantise_vector(const uint8_t* from, FloatType type, uint32_t bits, uint32_t lane,
                                                 uint32_t& codes) {
    float x[kPerLane<kDepth>];
    load_vector<kDepth>(from, type, (bits & kVector) != 0, lane, x);
    if ((bits & kRotate) != 0) {
        rotate<kDepth>(x, lane);
        if ((bits & kRound) != 0) round_to<kDepth>(type, x);
    }
    const float scale = scale_of<kDepth>(x, (bits & kPow2Scale) != 0);
    codes = encode_vector<kDepth>(x, scale);
    return scale;
}

}  // namespace lidx::cache

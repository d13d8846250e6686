// SPDX-License-Identifier: Apache-2.0
// Independent models of what the kernels compute, bit for bit. They share no code with the kernels or with ptxemu: the
// tensor core's rule is written with integers, as it is published (docs/kernel-sm100.md, "Arithmetic"); the order of
// the fp32 sums is the one that the kernels document at the top of their files. The self-test compares the first with
// ref/sm100_model.h, which says the same thing in another way, more slowly.
#pragma once
#include <array>
#include <cstdint>

namespace check {

// e4m3 codes taken apart: value = mantissa * 2^(exponent - 3), exponent as the tensor core sees it (-6 for subnormals).
struct ModelOperand {
    static constexpr int kDepth = 128;
    std::array<int32_t, kDepth> mantissa = {};  // signed; 0 beyond the depth
    std::array<int32_t, kDepth> exponent = {};
    std::array<float, kDepth> value = {};
    bool has_nan = false;
    void decode(const uint8_t* codes, int depth);
};

// sm100_score: four steps of K = 32 with window 25 and fp32 results; even and odd heads summed apart. q: [heads].
uint32_t model_sm100_score(const ModelOperand* q, const float* q_scale, int heads, const ModelOperand& k,
                           float k_scale);
// sm90_score: the same steps with window 13 and 13 result bits. Part q of four sums heads 8j + 2q and 8j + 2q + 1, j
// ascending; then (0 + 1) + (2 + 3).
uint32_t model_sm90_score(const ModelOperand* q, const float* q_scale, int heads, const ModelOperand& k, float k_scale);
// generic_score: fp32 fma, depth ascending, then heads ascending.
uint32_t model_generic_score(const ModelOperand* q, const float* q_scale, int heads, int depth, const ModelOperand& k,
                             float k_scale);

// One dot product of the tensor core, fp32 bits; NaN is 0x7fffffff.
uint32_t model_sm100_dot(const ModelOperand& q, const ModelOperand& k);
uint32_t model_sm90_dot(const ModelOperand& q, const ModelOperand& k);

}  // namespace check

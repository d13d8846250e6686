// SPDX-License-Identifier: Apache-2.0
// The tensor-core kernels' exact arithmetic, written down independently of the emulator and of the kernels, so that
// tests can demand the same bits on any input.
//
// One step takes 32 products and the accumulator C. R is the largest of the raw exponent sums of the nonzero products
// and of C's exponent; every product and C are cut toward zero to multiples of 2^(R - F), added exactly, and the sum is
// cut toward zero to T fraction bits. (F, T): (25, 23) on sm_100, (13, 13) on sm_90. Sources: microsoft/MMA-Sim (arXiv
// 2511.10909) and Khattak and Mikaitis (arXiv 2512.07004) for sm_100; sm_90 was compared with an H200, word for word. A
// NaN anywhere gives NaN.
//
// The head sum of the sm_100 kernels is the one that kernel/sm100_score.cu documents.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "e4m3.h"

namespace lidx::ref {

struct FixedWindow {
    int window;        // F
    int result_bits;   // T
};
inline constexpr FixedWindow kSm100Window{25, 23};
inline constexpr FixedWindow kSm90Window{13, 13};

// NVIDIA's fp32 instructions return this NaN whatever NaN goes in (PTX ISA, "Floating-point instructions").
inline float canonical_nan() { return std::bit_cast<float>(0x7fffffffu); }

namespace detail {

inline float fixed_window_step(const uint8_t* a, const uint8_t* b, int count, float c, FixedWindow rule) {
    constexpr int kNone = -1000;
    int r = c != 0 ? std::ilogb(c) : kNone;
    for (int i = 0; i < count; ++i)
        if ((a[i] & 0x7f) != 0 && (b[i] & 0x7f) != 0) {
            const int exponent = e4m3_raw_exponent(a[i]) + e4m3_raw_exponent(b[i]);
            r = exponent > r ? exponent : r;
        }
    if (r == kNone) return 0;
    const int unit = r - rule.window;
    const double units = std::ldexp(1.0, -unit);   // scaling is exact; conversion to an integer cuts toward zero
    auto sum = static_cast<int64_t>(c * units);
    for (int i = 0; i < count; ++i) sum += static_cast<int64_t>(kE4m3Value[a[i]] * kE4m3Value[b[i]] * units);
    // Keep the leading bit and T more.
    uint64_t magnitude = static_cast<uint64_t>(std::llabs(sum));
    const int excess = 64 - std::countl_zero(magnitude) - (rule.result_bits + 1);
    if (excess > 0) magnitude = magnitude >> excess << excess;
    const double result = std::ldexp(static_cast<double>(magnitude), unit);
    return static_cast<float>(sum < 0 ? -result : result);
}

}  // namespace detail

// q . k as the tensor core computes it: steps of 32 along the depth, ascending. Exact zero is +0.
inline float model_dot(const uint8_t* q, const uint8_t* k, int depth, FixedWindow rule) {
    for (int i = 0; i < depth; ++i)
        if (std::isnan(kE4m3Value[q[i]]) || std::isnan(kE4m3Value[k[i]])) return canonical_nan();
    float c = 0;
    for (int first = 0; first < depth; first += 32) c = detail::fixed_window_step(q + first, k + first, 32, c, rule);
    return c;
}

// The sum over heads, fp32: even and odd heads separately by fma from +0, then added, then times k_scale.
inline float sm100_head_sum(const float* dots, const float* q_scale, int heads, float k_scale) {
    float even = 0, odd = 0;
    for (int h = 0; h < heads; ++h) {
        const float relu = dots[h] > 0 || std::isnan(dots[h]) ? dots[h] : 0.0f;
        float& sum = h % 2 == 0 ? even : odd;
        sum = std::fma(q_scale[h], relu, sum);
    }
    const float both = even + odd;
    const float score = k_scale * both;
    return std::isnan(score) ? canonical_nan() : score;
}

// q [heads, depth] codes, q_scale [heads], k [depth] codes: the bits that sm100_score_* must store. heads up to 128.
inline float sm100_score_model(const uint8_t* q, const float* q_scale, int heads, const uint8_t* k, float k_scale,
                               int depth = 128) {
    float dots[128];
    for (int h = 0; h < heads; ++h) dots[h] = model_dot(q + h * depth, k, depth, kSm100Window);
    return sm100_head_sum(dots, q_scale, heads, k_scale);
}

}  // namespace lidx::ref

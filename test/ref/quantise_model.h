// SPDX-License-Identifier: Apache-2.0
// What the cache kernels must store, bit for bit, in scalar code written from docs/cache.md: fp32, round to nearest
// even, subnormals kept. NaN scales are 0x7fffffff and NaN codes 0x7f.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "e4m3.h"
#include "sm100_model.h"

namespace lidx::ref {

inline float bf16_decode(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Nearest, ties to even; NaN gives 0x7fff.
inline uint16_t bf16_encode(float value) {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rest = bits & 0xffff;
    const uint32_t up = rest > 0x8000 || (rest == 0x8000 && (bits & 0x10000) != 0) ? 1 : 0;
    return static_cast<uint16_t>((bits >> 16) + up);
}

// sign | exponent 5 bits, bias 15 | fraction 10 bits; exponent 31: infinity, or NaN with a fraction.
inline float fp16_decode(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
    return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

// The Walsh-Hadamard transform of n = 2^m points in the documented order of additions, times fp32(n^-0.5).
inline void rotate_fp32(float* x, int n) {
    std::vector<float> y(static_cast<size_t>(n));
    for (int half = 1; half < n; half *= 2) {
        for (int i = 0; i < n; ++i) y[i] = (i / half) % 2 == 0 ? x[i] + x[i + half] : x[i - half] - x[i];
        std::memcpy(x, y.data(), y.size() * sizeof(float));
    }
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
    for (int i = 0; i < n; ++i) x[i] *= factor;
}

// Quantises x[0..n) to codes and returns the scale.
inline float quantise_fp32(const float* source, int n, bool rotate, bool pow2, uint8_t* codes) {
    std::vector<float> x(source, source + n);
    if (rotate) rotate_fp32(x.data(), n);
    float amax = 1e-4f;
    bool nan = false;
    for (const float value : x) {
        nan = nan || std::isnan(value);
        if (std::fabs(value) > amax) amax = std::fabs(value);
    }
    float scale = nan ? canonical_nan() : amax / 448.0f;
    if (pow2 && std::isfinite(scale)) {
        int exponent;
        if (std::frexp(scale, &exponent) != 0.5f) scale = std::ldexp(1.0f, exponent);
    }
    for (int i = 0; i < n; ++i) {
        const float quotient = x[i] / scale;
        codes[i] = e4m3_encode(quotient);
    }
    return scale;
}

// A head's weight with the query's scale and the constants in it.
inline float fold_weight(float weight, float q_scale, float factor) {
    const float scaled = weight * q_scale;
    const float folded = scaled * factor;
    return std::isnan(folded) ? canonical_nan() : folded;
}

}  // namespace lidx::ref

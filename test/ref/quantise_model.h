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

// Nearest, ties to even, by looking at both neighbours; NaN gives 0x7fff.
inline uint16_t fp16_encode(float value) {
    if (std::isnan(value)) return 0x7fff;
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= 65520) return sign | 0x7c00;   // half a step above the largest finite value: infinity
    uint16_t low = 0;                               // the largest code that is not above
    for (uint16_t bit = 0x4000; bit != 0; bit >>= 1)
        if ((low | bit) < 0x7c00 && fp16_decode(low | bit) <= magnitude) low |= bit;
    const double below = magnitude - fp16_decode(low);
    const double above = (low == 0x7bff ? 65536.0 : fp16_decode(static_cast<uint16_t>(low + 1))) - magnitude;
    if (above < below || (above == below && (low & 1) != 0)) ++low;
    return static_cast<uint16_t>(sign | low);
}

// What the elements of a vector are in memory, for rounding to it.
enum class Stored { kFp32, kBf16, kFp16 };

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

// Quantises x[0..n) to codes and returns the scale. round: the type that rotated values are rounded to.
inline float quantise_fp32(const float* source, int n, bool rotate, bool pow2, uint8_t* codes,
                           Stored round = Stored::kFp32) {
    std::vector<float> x(source, source + n);
    if (rotate) rotate_fp32(x.data(), n);
    for (float& value : x) {
        if (rotate && round == Stored::kBf16) value = bf16_decode(bf16_encode(value));
        if (rotate && round == Stored::kFp16) value = fp16_decode(fp16_encode(value));
    }
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

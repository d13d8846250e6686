// SPDX-License-Identifier: Apache-2.0
// FP8 e4m3 (OCP "fn": no infinity, codes 0x7f and 0xff are NaN) and 128-point quantisation as DeepSeek-V3.2 does it.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lidx::ref {

inline constexpr uint8_t kE4m3NaN = 0x7f;
inline constexpr double kE4m3Max = 448;

// sign | exponent 4 bits, bias 7 | fraction 3 bits
inline double e4m3_decode(uint8_t code) {
    if ((code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
    const int exponent = (code >> 3) & 15;
    const int fraction = code & 7;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

inline const std::array<double, 256> kE4m3Value = [] {
    std::array<double, 256> value{};
    for (int code = 0; code < 256; ++code) value[code] = e4m3_decode(static_cast<uint8_t>(code));
    return value;
}();

// Exponent as the tensor core sees it: floor(log2|v|), and -6 for every subnormal. Not meant for zero or NaN.
inline int e4m3_raw_exponent(uint8_t code) {
    const int exponent = (code >> 3) & 15;
    return (exponent == 0 ? 1 : exponent) - 7;
}

// Nearest code, ties to even, saturating at 448; NaN gives 0x7f.
inline uint8_t e4m3_encode(double value) {
    if (std::isnan(value)) return kE4m3NaN;
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const double magnitude = std::fabs(value);
    if (magnitude >= kE4m3Max) return sign | 0x7e;
    int exponent = -6;
    while (exponent < 8 && magnitude >= std::ldexp(1.0, exponent + 1)) ++exponent;
    const double steps = std::ldexp(magnitude, 3 - exponent);   // in units of the last place: below 16
    int fraction = static_cast<int>(steps);
    const double rest = steps - fraction;
    if (rest > 0.5 || (rest == 0.5 && (fraction & 1))) ++fraction;
    // A fraction of 8 and more carries the exponent: subnormals become normal, 16 becomes the next binade.
    return static_cast<uint8_t>(sign | (fraction + ((exponent + 6) << 3)));
}

// Quantises x[0..n) to codes and returns the scale: amax clamped at 1e-4, scale = amax / 448 (fp32).
inline float e4m3_quantise(const double* x, int n, uint8_t* codes) {
    double amax = 1e-4;
    for (int i = 0; i < n; ++i) amax = std::fmax(amax, std::fabs(x[i]));
    const float scale = static_cast<float>(amax) / 448.0f;
    for (int i = 0; i < n; ++i) codes[i] = e4m3_encode(x[i] / scale);
    return scale;
}

}  // namespace lidx::ref

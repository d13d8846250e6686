// SPDX-License-Identifier: Apache-2.0
// Scalar f16 and bf16 arithmetic on bit patterns, rounded once; NaN results are 0x7fff as on NVIDIA hardware.
#pragma once
#include <cstdint>

namespace ptxemu {

// Rounds a binary64 value, plus an infinitesimal of the sign `tail`, to a format of `bits` precision (implicit bit
// included) and minimum exponent. mode: 0 nearest even, 1 zero, 2 minus infinity, 3 plus infinity, 4 nearest, ties
// away.
struct SmallFormat {
    int precision;      // significand bits, the leading one included
    int min_exponent;   // of normal numbers
    int max_exponent;
    int exponent_bits;
    bool has_infinity;   // e4m3 has none
};
inline constexpr SmallFormat kHalfFormat{11, -14, 15, 5, true};
inline constexpr SmallFormat kBf16Format{8, -126, 127, 8, true};
inline constexpr SmallFormat kTf32Format{11, -126, 127, 8, true};
inline constexpr SmallFormat kE4m3Format{4, -6, 8, 4, false};
inline constexpr SmallFormat kE5m2Format{3, -14, 15, 5, true};

// The code (sign, exponent, fraction; tf32 in its upper 19 bits of 32 is the caller's affair) of value + tail.
// saturate: values beyond the largest finite one become it, where rounding would give infinity (or, in e4m3, NaN).
uint32_t round_to_format(double value, int tail, const SmallFormat& format, int mode, bool saturate);
double format_value(uint32_t code, const SmallFormat& format);

double half_value(uint16_t code);
double bf16_value(uint16_t code);
uint16_t half_round(double value, int tail = 0, int mode = 0);
uint16_t bf16_round(double value, int tail = 0, int mode = 0);

enum class HalfOp : uint8_t { kAdd, kSub, kMul, kMin, kMax, kMinNan, kMaxNan };
uint16_t half_binary(HalfOp op, uint16_t a, uint16_t b);
uint16_t bf16_binary(HalfOp op, uint16_t a, uint16_t b);
uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c);
uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c);

}   // namespace ptxemu

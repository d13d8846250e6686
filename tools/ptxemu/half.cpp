// SPDX-License-Identifier: Apache-2.0
#include "half.h"

#include <algorithm>
#include <cmath>

namespace ptxemu {
namespace {

constexpr uint16_t kNan16 = 0x7fff;

// s + *tail is exactly a + b; only the sign of the error matters to a later rounding.
double two_sum(double a, double b, int* tail) {
    const double s = a + b;
    *tail = 0;
    if (!std::isfinite(s)) return s;
    const double t = s - a;
    const double error = (a - (s - t)) + (b - t);
    *tail = error > 0 ? 1 : error < 0 ? -1 : 0;
    return s;
}

}   // namespace

uint32_t round_to_format(double value, int tail, const SmallFormat& f, int mode, bool saturate) {
    const int fraction_bits = f.precision - 1;
    const int width = 1 + f.exponent_bits + fraction_bits;
    const uint32_t sign = std::signbit(value) ? 1u << (width - 1) : 0;
    const uint32_t infinity = ((1u << f.exponent_bits) - 1) << fraction_bits;
    const uint32_t nan = (1u << (width - 1)) - 1;
    // The largest finite code: e4m3 uses the top exponent, all but the last fraction.
    const uint32_t largest = f.has_infinity ? infinity - 1 : nan - 1;
    if (std::isnan(value)) return nan;
    if (std::isinf(value)) return sign | (saturate ? largest : f.has_infinity ? infinity : nan);
    double magnitude = std::fabs(value);
    if (sign) tail = -tail;   // now: above or below the magnitude
    if (magnitude == 0) return sign;
    int exponent;
    std::frexp(magnitude, &exponent);
    exponent = std::max(exponent - 1, f.min_exponent);
    const double scaled = std::ldexp(magnitude, fraction_bits - exponent);   // integer part: the significand
    double low = std::floor(scaled);
    double rest = scaled - low;
    if (rest == 0 && tail < 0 && low > 0) {   // less than an ulp below a representable value
        if (low == std::ldexp(1.0, fraction_bits) && exponent > f.min_exponent) {   // of the binade below
            low *= 2;
            --exponent;
        }
        low -= 1;
        rest = 1;
    }
    bool up = false;
    const bool inexact = rest != 0 || tail != 0;
    const bool odd = std::fmod(low, 2.0) != 0;
    switch (mode) {
        case 0: up = rest > 0.5 || (rest == 0.5 && (tail > 0 || (tail == 0 && odd))); break;
        case 4: up = rest > 0.5 || (rest == 0.5 && tail >= 0); break;
        case 1: up = false; break;
        case 2: up = inexact && sign; break;
        case 3: up = inexact && !sign; break;
        default: break;
    }
    if (rest == 1) up = mode == 0 || mode == 4 || up;   // less than one ulp below the next value
    double significand = low + (up ? 1 : 0);
    int e = exponent;
    const double top = std::ldexp(1.0, f.precision);
    if (significand >= top) {
        significand /= 2;
        ++e;
    }
    const bool subnormal = significand < std::ldexp(1.0, fraction_bits);
    uint64_t code;
    if (subnormal) {
        code = static_cast<uint64_t>(significand);
    } else {
        const int64_t biased = static_cast<int64_t>(e) - f.min_exponent + 1;
        code = (static_cast<uint64_t>(biased) << fraction_bits) +
               (static_cast<uint64_t>(significand) - (1ull << fraction_bits));
    }
    if (code > largest) {
        const bool away = mode == 0 || mode == 4 || (mode == 2 && sign) || (mode == 3 && !sign);
        if (saturate || !away) return sign | largest;
        return sign | (f.has_infinity ? infinity : nan);
    }
    return sign | static_cast<uint32_t>(code);
}

double format_value(uint32_t code, const SmallFormat& f) {
    const int fraction_bits = f.precision - 1;
    const int width = 1 + f.exponent_bits + fraction_bits;
    const bool negative = code >> (width - 1) & 1;
    const uint32_t exponent = code >> fraction_bits & ((1u << f.exponent_bits) - 1);
    const uint32_t fraction = code & ((1u << fraction_bits) - 1);
    const uint32_t top = (1u << f.exponent_bits) - 1;
    double magnitude;
    if (f.has_infinity && exponent == top) magnitude = fraction ? std::nan("") : HUGE_VAL;
    else if (!f.has_infinity && exponent == top && fraction == (1u << fraction_bits) - 1) magnitude = std::nan("");
    else if (exponent == 0) magnitude = std::ldexp(static_cast<double>(fraction), f.min_exponent - fraction_bits);
    else
        magnitude = std::ldexp(static_cast<double>(fraction + (1u << fraction_bits)),
                               static_cast<int>(exponent) - 1 + f.min_exponent - fraction_bits);
    return negative ? -magnitude : magnitude;
}

double half_value(uint16_t code) { return format_value(code, kHalfFormat); }
double bf16_value(uint16_t code) { return format_value(code, kBf16Format); }
uint16_t half_round(double value, int tail, int mode) {
    return static_cast<uint16_t>(round_to_format(value, tail, kHalfFormat, mode, false));
}
uint16_t bf16_round(double value, int tail, int mode) {
    return static_cast<uint16_t>(round_to_format(value, tail, kBf16Format, mode, false));
}

namespace {

bool is_nan(uint16_t code, const SmallFormat& f) { return std::isnan(format_value(code, f)); }

uint16_t binary(HalfOp op, uint16_t a, uint16_t b, const SmallFormat& f) {
    const double x = format_value(a, f), y = format_value(b, f);
    int tail = 0;
    double r = 0;
    switch (op) {
        case HalfOp::kAdd: r = two_sum(x, y, &tail); break;
        case HalfOp::kSub: r = two_sum(x, -y, &tail); break;
        case HalfOp::kMul: r = x * y; break;
        default: {
            const bool nan_a = is_nan(a, f), nan_b = is_nan(b, f);
            const bool propagate = op == HalfOp::kMinNan || op == HalfOp::kMaxNan;
            if ((nan_a && nan_b) || (propagate && (nan_a || nan_b))) return kNan16;
            if (nan_a) return b;
            if (nan_b) return a;
            // -0 is below +0
            const bool smaller = x < y || (x == y && (a & 0x8000) && !(b & 0x8000));
            const bool min = op == HalfOp::kMin || op == HalfOp::kMinNan;
            return smaller == min ? a : b;
        }
    }
    if (std::isnan(r)) return kNan16;
    return static_cast<uint16_t>(round_to_format(r, tail, f, 0, false));
}

uint16_t fused(uint16_t a, uint16_t b, uint16_t c, const SmallFormat& f) {
    int tail;
    const double r = two_sum(format_value(a, f) * format_value(b, f), format_value(c, f), &tail);
    if (std::isnan(r)) return kNan16;
    return static_cast<uint16_t>(round_to_format(r, tail, f, 0, false));
}

}   // namespace

uint16_t half_binary(HalfOp op, uint16_t a, uint16_t b) { return binary(op, a, b, kHalfFormat); }
uint16_t bf16_binary(HalfOp op, uint16_t a, uint16_t b) { return binary(op, a, b, kBf16Format); }
uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) { return fused(a, b, c, kHalfFormat); }
uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c) { return fused(a, b, c, kBf16Format); }

}   // namespace ptxemu

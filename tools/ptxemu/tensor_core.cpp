// SPDX-License-Identifier: Apache-2.0
// The arithmetic written to be read, not to be fast: decode, find the window, truncate, add exactly, cut.
#include "tensor_core.h"

#include <algorithm>

#include "tensor_core_format.h"

namespace ptxemu {
namespace {

using Wide = __int128;

// Sum of one fused step: kFinite: sum * 2^quantum exactly.
struct Sum {
    enum Kind { kFinite, kInfinite, kNan } kind = kFinite;
    bool negative = false;     // kInfinite
    Wide sum = 0;
    int quantum = 0;
};

// mantissa * 2^exponent in multiples of 2^quantum, cut toward zero.
Wide cut_to_multiples(uint64_t mantissa, int exponent, int quantum) {
    if (mantissa == 0) return 0;              // its exponent may lie far above the window
    const int shift = exponent - quantum;
    if (shift >= 0) return static_cast<Wide>(mantissa) << shift;
    return shift <= -64 ? 0 : static_cast<Wide>(mantissa >> -shift);
}

Sum fused_sum(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, Number c, int window) {
    bool nan = c.kind == Number::kNan, plus = false, minus = false, any = false;
    int largest = 0;                          // R: the largest raw exponent of what is not zero
    auto see_infinity = [&](bool negative) { (negative ? minus : plus) = true; };
    auto see_exponent = [&](int raw) {
        largest = any ? std::max(largest, raw) : raw;
        any = true;
    };
    for (int i = 0; i < k; ++i) {
        const Number x = decode_number(fa, a[i]), y = decode_number(fb, b[i]);
        const bool infinite = x.kind == Number::kInfinite || y.kind == Number::kInfinite;
        if (x.kind == Number::kNan || y.kind == Number::kNan) {
            nan = true;
        } else if (infinite && (x.is_zero() || y.is_zero())) {
            nan = true;
        } else if (infinite) {
            see_infinity(x.negative != y.negative);
        } else if (!x.is_zero() && !y.is_zero()) {
            see_exponent(x.raw_exponent + y.raw_exponent);
        }
    }
    if (c.kind == Number::kInfinite) see_infinity(c.negative);
    if (c.kind == Number::kFinite && !c.is_zero()) see_exponent(c.raw_exponent);

    Sum result;
    if (nan || (plus && minus)) {
        result.kind = Sum::kNan;
        return result;
    }
    if (plus || minus) {
        result.kind = Sum::kInfinite;
        result.negative = minus;
        return result;
    }
    result.quantum = largest - window;
    for (int i = 0; i < k; ++i) {
        const Number x = decode_number(fa, a[i]), y = decode_number(fb, b[i]);
        const Wide product = cut_to_multiples(x.mantissa * y.mantissa, x.exponent + y.exponent, result.quantum);
        result.sum += x.negative != y.negative ? -product : product;
    }
    const Wide addend = cut_to_multiples(c.mantissa, c.exponent, result.quantum);
    result.sum += c.negative ? -addend : addend;
    return result;
}

int floor_log2(Wide positive) {
    int log = 0;
    while (positive >>= 1) ++log;
    return log;
}

}  // namespace

Number decode_number(Format format, uint32_t code) {
    switch (format) {
        case Format::kE4m3: return decode_minifloat(code, 4, 3, 7, Specials::kNanAllOnes);
        case Format::kE5m2: return decode_minifloat(code, 5, 2, 15, Specials::kIeee);
        case Format::kE2m3: return decode_minifloat(code, 2, 3, 1, Specials::kNone);
        case Format::kE3m2: return decode_minifloat(code, 3, 2, 3, Specials::kNone);
        case Format::kE2m1: return decode_minifloat(code, 2, 1, 1, Specials::kNone);
        case Format::kF16: return decode_minifloat(code, 5, 10, 15, Specials::kIeee);
        case Format::kBf16: return decode_minifloat(code, 8, 7, 127, Specials::kIeee);
        case Format::kTf32: return decode_minifloat(code >> 13, 8, 10, 127, Specials::kIeee);
        case Format::kS8:
        case Format::kU8: break;               // integers have no such decoding: integer_dot
    }
    return {};
}

Number decode_fp32(uint32_t bits) { return decode_minifloat(bits, 8, 23, 127, Specials::kIeee); }

Number decode_minifloat(uint32_t code, int exponent_bits, int fraction_bits, int bias, Specials specials) {
    const uint32_t exponent_mask = (1u << exponent_bits) - 1, fraction_mask = (1u << fraction_bits) - 1;
    const uint32_t exponent = code >> fraction_bits & exponent_mask, fraction = code & fraction_mask;
    Number number;
    number.negative = (code >> (exponent_bits + fraction_bits) & 1) != 0;
    if (specials == Specials::kIeee && exponent == exponent_mask) {
        number.kind = fraction != 0 ? Number::kNan : Number::kInfinite;
        return number;
    }
    if (specials == Specials::kNanAllOnes && exponent == exponent_mask && fraction == fraction_mask) {
        number.kind = Number::kNan;
        return number;
    }
    number.raw_exponent = static_cast<int>(std::max(exponent, 1u)) - bias;
    number.mantissa = exponent == 0 ? fraction : fraction | 1u << fraction_bits;
    number.exponent = number.raw_exponent - fraction_bits;
    return number;
}

uint32_t fused_dot(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, uint32_t c_bits, bool use_c,
                   WindowRule rule) {
    const Sum exact = fused_sum(fa, fb, a, b, k, use_c ? decode_fp32(c_bits) : Number{}, rule.window);
    if (exact.kind == Sum::kNan) return kTensorCoreNan;
    if (exact.kind == Sum::kInfinite) return exact.negative ? 0xff800000u : 0x7f800000u;
    if (exact.sum == 0) return 0;
    const uint32_t sign = exact.sum < 0 ? 0x80000000u : 0;
    const Wide magnitude = exact.sum < 0 ? -exact.sum : exact.sum;
    const int exponent = floor_log2(magnitude) + exact.quantum;
    if (exponent > 127) return sign | 0x7f800000u;
    const int unit = std::max(exponent, -126) - rule.result_bits;
    const int shift = exact.quantum - unit;
    const uint32_t kept = shift <= -127 ? 0 : static_cast<uint32_t>(
        shift >= 0 ? magnitude << shift : magnitude >> -shift);
    const uint32_t fraction = kept << (23 - rule.result_bits);      // bit 23 set where the result is normal
    return sign | (exponent >= -126 ? fraction + (static_cast<uint32_t>(exponent + 126) << 23) : fraction);
}

uint32_t round_to_f16(int64_t sum, int quantum) {
    if (sum == 0) return 0;
    const uint32_t sign = sum < 0 ? 0x8000u : 0;
    const Wide magnitude = sum < 0 ? -static_cast<Wide>(sum) : sum;
    const int exponent = floor_log2(magnitude) + quantum;
    if (exponent > 15) return sign | 0x7c00;
    const int unit = std::max(exponent, -14) - 10;
    const int shift = quantum - unit;
    uint32_t kept;
    if (shift >= 0) {
        kept = static_cast<uint32_t>(magnitude << shift);
    } else if (shift <= -126) {
        kept = 0;
    } else {
        const Wide half = static_cast<Wide>(1) << (-shift - 1), rest = magnitude & (2 * half - 1);
        kept = static_cast<uint32_t>(magnitude >> -shift);
        if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    }
    // A carry out of the fraction moves into the exponent, and out of the largest one into infinity.
    return sign | (exponent >= -14 ? kept + (static_cast<uint32_t>(exponent + 14) << 10) : kept);
}

uint32_t fused_dot_f16(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, uint32_t c_bits, bool use_c,
                       int window) {
    const Sum exact = fused_sum(fa, fb, a, b, k, use_c ? decode_number(Format::kF16, c_bits) : Number{}, window);
    if (exact.kind == Sum::kNan) return 0x7fff;
    if (exact.kind == Sum::kInfinite) return exact.negative ? 0xfc00 : 0x7c00;
    return round_to_f16(static_cast<int64_t>(exact.sum), exact.quantum);   // window + log2(k) + 3 bits at the most
}

int32_t integer_dot(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, int32_t c, bool use_c,
                    bool saturate) {
    auto value = [](Format format, uint32_t code) -> int64_t {
        return format == Format::kS8 ? static_cast<int8_t>(code) : static_cast<uint8_t>(code);
    };
    int64_t sum = use_c ? c : 0;
    for (int i = 0; i < k; ++i) sum += value(fa, a[i]) * value(fb, b[i]);
    if (saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    return static_cast<int32_t>(static_cast<uint32_t>(sum));
}

}  // namespace ptxemu

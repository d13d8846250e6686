// SPDX-License-Identifier: Apache-2.0
// Decoding of operand codes, shared by the slow and the fast tensor-core arithmetic.
#pragma once
#include <cstdint>

#include "tensor_core.h"

namespace ptxemu {

inline constexpr uint32_t kTensorCoreNan = 0x7fffffff;

// A decoded operand. kFinite: (-1)^negative * mantissa * 2^exponent. raw_exponent is that of the encoding; a subnormal
// has the one of the smallest normal number. The default is +0.
struct Number {
    enum Kind : uint8_t { kFinite, kInfinite, kNan } kind = kFinite;
    bool negative = false;
    uint64_t mantissa = 0;
    int exponent = 0, raw_exponent = 0;
    bool is_zero() const { return kind == kFinite && mantissa == 0; }
};

// kNone: every code is finite. kNanAllOnes: e4m3, no infinities, NaN where exponent and fraction are all ones.
enum class Specials : uint8_t { kNone, kNanAllOnes, kIeee };

Number decode_minifloat(uint32_t code, int exponent_bits, int fraction_bits, int bias, Specials specials);
Number decode_number(Format format, uint32_t code);
Number decode_fp32(uint32_t bits);
// sum * 2^quantum as half-precision bits, rounded to nearest even; zero is +0, beyond the range lies infinity.
uint32_t round_to_f16(int64_t sum, int quantum);

}  // namespace ptxemu

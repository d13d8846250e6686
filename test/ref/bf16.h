// SPDX-License-Identifier: Apache-2.0
// bf16: sign, 8 bits of exponent, 7 of fraction; the upper half of an fp32.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace lidx::ref {

inline float bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Nearest, ties to even; a NaN is 0x7fff, as cvt.rn.bf16.f32 has it (PTX ISA 9.7.9.21).
inline uint16_t bf16_round(float value) {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto low = static_cast<uint16_t>(bits >> 16);   // toward zero
    const uint32_t rest = bits & 0xffff;
    const bool up = rest > 0x8000 || (rest == 0x8000 && (low & 1) != 0);
    return static_cast<uint16_t>(low + (up ? 1 : 0));     // a carry out of the fraction: the next exponent, or infinity
}

}  // namespace lidx::ref

// SPDX-License-Identifier: Apache-2.0
// Pairs of fp16 in a 32-bit register, the first in bits 15..0 (PTX ISA 9.7.4), and their conversion from and to pairs
// of e4m3 (9.7.9.21). All functions are pure: not volatile. Subnormals are kept; a NaN result is the canonical 0x7fff.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// add{.rnd}{.ftz}{.sat}.f16x2 d, a, b;          PTX ISA 4.2, sm_53 (9.7.4.1)
LIDX_PTX uint32_t add_rn_f16x2(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// mul{.rnd}{.ftz}{.sat}.f16x2 d, a, b;          PTX ISA 4.2, sm_53 (9.7.4.3)
LIDX_PTX uint32_t mul_rn_f16x2(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// fma.rnd{.ftz}{.sat}.f16x2 d, a, b, c;         PTX ISA 4.2, sm_53 (9.7.4.4)
LIDX_PTX uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// fma.rnd{.ftz}.relu.f16x2 d, a, b, c;          PTX ISA 7.0, sm_80 (9.7.4.4): negative results become +0, NaN stays
LIDX_PTX uint32_t fma_rn_relu_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.relu.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// abs{.ftz}.f16x2 d, a;                         PTX ISA 6.5, sm_53 (9.7.4.6)
LIDX_PTX uint32_t abs_f16x2(uint32_t a) {
    uint32_t d;
    asm("abs.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

// cvt.rn{.relu}.f16x2.f8x2type d, a;  .f8x2type = { .e4m3x2 }             PTX ISA 8.1, sm_89 (9.7.9.21): exact
LIDX_PTX uint32_t cvt_rn_f16x2_e4m3x2(uint16_t a) {
    uint32_t d;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(a));
    return d;
}

// cvt.rn.satfinite{.relu}.f8x2type.f16x2 d, a;  .f8x2type = { .e4m3x2 }   PTX ISA 8.1, sm_89 (9.7.9.21)
LIDX_PTX uint16_t cvt_rn_satfinite_e4m3x2_f16x2(uint32_t a) {
    uint16_t d;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(d) : "r"(a));
    return d;
}

}  // namespace lidx::ptx

// SPDX-License-Identifier: Apache-2.0
// fp32 arithmetic with its rounding spelled out, so that nothing is contracted or flushed (PTX ISA 9.7.3). All
// functions are pure: not volatile. Subnormals are kept; a NaN result is the canonical 0x7fffffff.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// fma.rnd{.ftz}{.sat}.f32 d, a, b, c;           PTX ISA 2.0, sm_20 (9.7.3.6)
LIDX_PTX float fma_rn_f32(float a, float b, float c) {
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

// add{.rnd}{.ftz}{.sat}.f32 d, a, b;            PTX ISA 1.0, all targets (9.7.3.3)
LIDX_PTX float add_rn_f32(float a, float b) {
    float d;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// mul{.rnd}{.ftz}{.sat}.f32 d, a, b;            PTX ISA 1.0, all targets (9.7.3.5)
LIDX_PTX float mul_rn_f32(float a, float b) {
    float d;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// div.rnd{.ftz}.f32 d, a, b;                    PTX ISA 1.4, .rn: sm_20 (9.7.3.8): correctly rounded
LIDX_PTX float div_rn_f32(float a, float b) {
    float d;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// max{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b;    .NaN: PTX ISA 7.0, sm_80 (9.7.3.12)
// NaN if a or b is; max(-0, +0) = +0.
LIDX_PTX float max_nan_f32(float a, float b) {
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// max{.ftz}.f32 d, a, b;                        PTX ISA 1.0, all targets (9.7.3.12)
// One of them that is NaN is the other.
LIDX_PTX float max_f32(float a, float b) {
    float d;
    asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
// min{.ftz}.f32 d, a, b;                        PTX ISA 1.0, all targets (9.7.3.11)
LIDX_PTX float min_f32(float a, float b) {
    float d;
    asm("min.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// mad.mode.type d, a, b, c;                     PTX ISA 1.0, all targets (9.7.1.4)
LIDX_PTX uint32_t mad_lo_u32(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
// shf.l.mode.b32 d, a, b, c;                    PTX ISA 3.1, sm_32 (9.7.8.7)
// The upper word of {b, a} << c.
LIDX_PTX uint32_t shf_l_wrap_b32(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// abs{.ftz}.f32 d, a;                           PTX ISA 1.0, all targets (9.7.3.9)
LIDX_PTX float abs_f32(float a) {
    float d;
    asm("abs.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

// cvt{.sat}.dtype.atype d, a;                   PTX ISA 1.0, all targets (9.7.9.21): exact
LIDX_PTX float cvt_f32_f16(uint16_t a) {
    float d;
    asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(a));
    return d;
}

// cvt.frnd{.sat}.f16.f32 d, a;                  PTX ISA 1.0, all targets (9.7.9.21): a NaN gives 0x7fff
LIDX_PTX uint16_t cvt_rn_f16_f32(float a) {
    uint16_t d;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d) : "f"(a));
    return d;
}

// cvt.frnd2{.relu}{.satfinite}.bf16.f32 d, a;   PTX ISA 7.0, sm_80 (9.7.9.21): a NaN gives 0x7fff
LIDX_PTX uint16_t cvt_rn_bf16_f32(float a) {
    uint16_t d;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(d) : "f"(a));
    return d;
}

// mov.b64 d, {a, b};                            PTX ISA 1.0, all targets (9.7.9.4): a in bits 31..0
LIDX_PTX F32x2 mov_b64(float a, float b) {
    F32x2 d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d.bits) : "f"(a), "f"(b));
    return d;
}

// mov.b64 {d, e}, a;                            PTX ISA 1.0, all targets (9.7.9.4)
LIDX_PTX void mov_b64(float& d, float& e, F32x2 a) { asm("mov.b64 {%0, %1}, %2;" : "=f"(d), "=f"(e) : "l"(a.bits)); }

// fma.rnd{.ftz}.f32x2 d, a, b, c;               PTX ISA 8.6, sm_100 (9.7.3.6)
LIDX_PTX F32x2 fma_rn_f32x2(F32x2 a, F32x2 b, F32x2 c) {
    F32x2 d;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits), "l"(c.bits));
    return d;
}

// add{.rnd}{.ftz}.f32x2 d, a, b;                PTX ISA 8.6, sm_100 (9.7.3.3)
LIDX_PTX F32x2 add_rn_f32x2(F32x2 a, F32x2 b) {
    F32x2 d;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits));
    return d;
}

// mul{.rnd}{.ftz}.f32x2 d, a, b;                PTX ISA 8.6, sm_100 (9.7.3.5)
LIDX_PTX F32x2 mul_rn_f32x2(F32x2 a, F32x2 b) {
    F32x2 d;
    asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits));
    return d;
}

}  // namespace lidx::ptx

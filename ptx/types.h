// SPDX-License-Identifier: Apache-2.0
// Address and phase types of the instruction layer: a shared address cannot be passed as a TMEM address.
//
// The ptx/ folder: one function is one instruction, with no policy. Above each function stand the instruction's syntax
// from the PTX ISA manual (version 9.1), the ISA version and the targets that have it, and the manual's section. Names
// are the opcode with underscores, operands are in PTX order. What orders or touches memory is volatile and clobbers
// memory.
#pragma once
#include <cstdint>

#define LIDX_PTX __device__ __forceinline__

namespace lidx::ptx {

// Byte address in the .shared window of the executing CTA.
struct SharedAddr {
    uint32_t value;
    LIDX_PTX SharedAddr operator+(uint32_t bytes) const { return {value + bytes}; }
};

// Tensor Memory: lane in bits 31..16, 32-bit column in bits 15..0 (PTX ISA 9.7.16.1).
struct TmemAddr {
    uint32_t value;
    LIDX_PTX TmemAddr column(uint32_t columns) const { return {value + columns}; }
    LIDX_PTX TmemAddr lane(uint32_t lanes) const { return {value + (lanes << 16)}; }
};

// Parity of an mbarrier phase: the first phase has parity 0 (PTX ISA 9.7.13.15.16).
struct Parity {
    uint32_t value;
    LIDX_PTX Parity next() const { return {value ^ 1}; }
};

// Opaque tensor map as cuTensorMapEncodeTiled fills it; a kernel parameter of this type must be __grid_constant__.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

// Two fp32 values in one 64-bit register: bits 31..0 are the first.
struct F32x2 {
    uint64_t bits;
};

struct F32x4 {
    float x, y, z, w;
};

struct U32x2 {
    uint32_t x, y;
};

struct U32x4 {
    uint32_t x, y, z, w;
};

}  // namespace lidx::ptx

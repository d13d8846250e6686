// SPDX-License-Identifier: Apache-2.0
// Shared-memory matrix descriptor of tcgen05.mma (PTX ISA 9.7.16.4.1): 64 bits, addresses in 16-byte units. Plain C++.
#pragma once
#include <cstdint>

#include "kernel/schedule.h"

namespace lidx {

enum class SmemSwizzle : uint64_t { kNone = 0, k128Byte32ByteAtom = 1, k128Byte = 2, k64Byte = 4, k32Byte = 6 };

struct SmemDescriptorFields {
    uint32_t start_bytes = 0;                   // shared address of the first row (18 bits, multiple of 16)
    uint32_t leading_bytes = 0;                 // ignored for swizzled K-major operands
    uint32_t stride_bytes = 0;                  // K-major: from eight rows to the next eight
    uint32_t base_offset = 0;                   // 0: the swizzle pattern starts on its own boundary
    SmemSwizzle swizzle = SmemSwizzle::kNone;
};

LIDX_HOST_DEVICE constexpr uint64_t smem_descriptor_address(uint32_t bytes) { return (bytes & 0x3ffff) >> 4; }

LIDX_HOST_DEVICE constexpr uint64_t smem_descriptor(const SmemDescriptorFields& f) {
    return smem_descriptor_address(f.start_bytes) << 0        // bits  0-13  start address / 16
         | smem_descriptor_address(f.leading_bytes) << 16     // bits 16-29  leading dimension byte offset / 16
         | smem_descriptor_address(f.stride_bytes) << 32      // bits 32-45  stride dimension byte offset / 16
         | uint64_t{0b001} << 46                              // bits 46-48  constant 0b001
         | (uint64_t{f.base_offset} & 7) << 49                // bits 49-51  base offset
         | uint64_t{0} << 52                                  // bit  52     leading dimension: relative
         | uint64_t{0} << 53                                  // bits 53-60  constant 0
         | static_cast<uint64_t>(f.swizzle) << 61;            // bits 61-63  swizzle
}

// A K-major operand of 128-byte rows under the 128-byte swizzle, starting on a 1024-byte boundary: what a TMA box of
// 128-byte rows with SWIZZLE_128B writes. Eight rows are one 1024-byte swizzle atom.
LIDX_HOST_DEVICE constexpr uint64_t smem_descriptor_k_major_128b(uint32_t start_bytes) {
    return smem_descriptor({.start_bytes = start_bytes, .stride_bytes = 1024, .swizzle = SmemSwizzle::k128Byte});
}

// The same with 64-byte rows under the 64-byte swizzle: an atom is eight rows, 512 bytes.
LIDX_HOST_DEVICE constexpr uint64_t smem_descriptor_k_major_64b(uint32_t start_bytes) {
    return smem_descriptor({.start_bytes = start_bytes, .stride_bytes = 512, .swizzle = SmemSwizzle::k64Byte});
}

// The 128-byte operand as wgmma.mma_async describes it (PTX ISA 9.7.15.5.1.2.2): no constant in bits 46-48, and the
// swizzle in bits 62-63, 1 = 128 bytes.
// stride_bytes: from eight rows to the next eight.
LIDX_HOST_DEVICE constexpr uint64_t wgmma_descriptor_k_major_128b(uint32_t start_bytes, uint32_t stride_bytes = 1024) {
    return smem_descriptor_address(start_bytes) | smem_descriptor_address(stride_bytes) << 32 | uint64_t{1} << 62;
}

// An operand `bytes` further along its rows. The swizzle is a function of the absolute address, so a
// step inside the atom is a plain addition to the start address; it cannot carry out of the field inside shared memory.
LIDX_HOST_DEVICE constexpr uint64_t smem_descriptor_advance(uint64_t descriptor, uint32_t bytes) {
    return descriptor + (bytes >> 4);
}

}  // namespace lidx

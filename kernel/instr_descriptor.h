// SPDX-License-Identifier: Apache-2.0
// Instruction descriptor of tcgen05.mma kind::f8f6f4, dense (PTX ISA 9.7.16.4.2): 32 bits. Plain C++.
#pragma once
#include <cstdint>

#include "kernel/schedule.h"

namespace lidx {

enum class MmaOperand : uint32_t { kE4m3 = 0, kE5m2 = 1, kE2m3 = 3, kE3m2 = 4, kE2m1 = 5 };
enum class MmaAccumulator : uint32_t { kF16 = 0, kF32 = 1 };
enum class MmaMajor : uint32_t { kK = 0, kMn = 1 };

struct InstrDescriptorFields {
    MmaAccumulator d = MmaAccumulator::kF32;
    MmaOperand a = MmaOperand::kE4m3;
    MmaOperand b = MmaOperand::kE4m3;
    MmaMajor a_major = MmaMajor::kK;
    MmaMajor b_major = MmaMajor::kK;
    uint32_t m = 0;
    uint32_t n = 0;
};

LIDX_HOST_DEVICE constexpr uint32_t instr_descriptor(const InstrDescriptorFields& f) {
    return 0u << 0                                     // bits  0-1   sparsity selector: dense
         | 0u << 2                                     // bit   2     sparse: no
         | 0u << 3                                     // bit   3     saturate: integer only
         | static_cast<uint32_t>(f.d) << 4             // bits  4-5   type of D
         | 0u << 6                                     // bit   6     reserved
         | static_cast<uint32_t>(f.a) << 7             // bits  7-9   type of A
         | static_cast<uint32_t>(f.b) << 10            // bits 10-12  type of B
         | 0u << 13                                    // bit  13     negate A: no
         | 0u << 14                                    // bit  14     negate B: no
         | static_cast<uint32_t>(f.a_major) << 15      // bit  15     transpose A
         | static_cast<uint32_t>(f.b_major) << 16      // bit  16     transpose B
         | (f.n >> 3) << 17                            // bits 17-22  N / 8
         | 0u << 23                                    // bit  23     reserved
         | (f.m >> 4) << 24                            // bits 24-28  M / 16
         | 0u << 29                                    // bit  29     reserved
         | 0u << 30;                                   // bits 30-31  maximum shift: .ws only
}

// Shapes of the dense kind for cta_group::1 (PTX ISA 9.7.16.2): N in steps of 8 for M = 64. For M = 128 older manuals
// say steps of 16, so that is what we allow.
LIDX_HOST_DEVICE constexpr bool mma_shape_fits(uint32_t m, uint32_t n) {
    return (m == 64 && n >= 8 && n <= 256 && n % 8 == 0) || (m == 128 && n >= 16 && n <= 256 && n % 16 == 0);
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// Atomics, reductions and the fences that go with them (PTX ISA 9.7.13.3 to 9.7.13.8).
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// red{.sem}{.scope}{.shared}.op.type [a], b;    PTX ISA 1.2, all targets (9.7.13.7)
LIDX_PTX void red_shared_add_u32(SharedAddr a, uint32_t b) {
    asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(a.value), "r"(b) : "memory");
}
LIDX_PTX void red_shared_or_b32(SharedAddr a, uint32_t b) {
    asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(a.value), "r"(b) : "memory");
}

// atom{.sem}{.scope}{.shared}.op.type d, [a], b;      PTX ISA 1.1, all targets (9.7.13.6)
// Returns what was there before.
LIDX_PTX uint32_t atom_shared_add_u32(SharedAddr a, uint32_t b) {
    uint32_t d;
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(d) : "r"(a.value), "r"(b) : "memory");
    return d;
}

// atom{.sem}{.scope}{.global}.op.type d, [a], b;      .acq_rel: PTX ISA 6.0, sm_70 (9.7.13.6)
// Acquire and release among the threads of the device. Returns what was there before.
LIDX_PTX uint32_t atom_acq_rel_gpu_global_add_u32(void* a, uint32_t b) {
    uint32_t d;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(d) : "l"(a), "r"(b) : "memory");
    return d;
}

// redux.sync.op.type dst, src, membermask;  .op = { .add, .max }, .type = { .u32 }      PTX ISA 7.0, sm_80 (9.7.13.12)
LIDX_PTX uint32_t redux_sync_max_u32(uint32_t a, uint32_t membermask) {
    uint32_t d;
    asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(membermask));
    return d;
}
LIDX_PTX uint32_t redux_sync_add_u32(uint32_t a, uint32_t membermask) {
    uint32_t d;
    asm volatile("redux.sync.add.u32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(membermask));
    return d;
}

}  // namespace lidx::ptx

// SPDX-License-Identifier: Apache-2.0
// Special registers (PTX ISA 10). Constant while a thread lives, hence not volatile.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// mov.u32 d, %tid.x;                            PTX ISA 1.0, all targets (10.1)
LIDX_PTX uint32_t tid_x() {
    uint32_t d;
    asm("mov.u32 %0, %%tid.x;" : "=r"(d));
    return d;
}

// mov.u32 d, %laneid;                           PTX ISA 1.3, all targets (10.3)
LIDX_PTX uint32_t laneid() {
    uint32_t d;
    asm("mov.u32 %0, %%laneid;" : "=r"(d));
    return d;
}

// mov.u32 d, %ctaid.{x,y,z};                    PTX ISA 1.0, all targets (10.6)
LIDX_PTX uint32_t ctaid_x() {
    uint32_t d;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(d));
    return d;
}
LIDX_PTX uint32_t ctaid_y() {
    uint32_t d;
    asm("mov.u32 %0, %%ctaid.y;" : "=r"(d));
    return d;
}
LIDX_PTX uint32_t ctaid_z() {
    uint32_t d;
    asm("mov.u32 %0, %%ctaid.z;" : "=r"(d));
    return d;
}

// mov.u32 d, %nctaid.x;                         PTX ISA 1.0, all targets (10.7)
LIDX_PTX uint32_t nctaid_x() {
    uint32_t d;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(d));
    return d;
}

// mov.u32 d, %nctaid.y;  mov.u32 d, %nctaid.z;  PTX ISA 1.0, all targets (10.7)
LIDX_PTX uint32_t nctaid_y() {
    uint32_t d;
    asm("mov.u32 %0, %%nctaid.y;" : "=r"(d));
    return d;
}
LIDX_PTX uint32_t nctaid_z() {
    uint32_t d;
    asm("mov.u32 %0, %%nctaid.z;" : "=r"(d));
    return d;
}

}  // namespace lidx::ptx

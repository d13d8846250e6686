// SPDX-License-Identifier: Apache-2.0
// Matrix fragments from shared memory (PTX ISA 9.7.14.5.15).
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// ldmatrix.sync.aligned.shape.num{.trans}{.ss}.type r, [p];  .shape = { .m8n8 }, .num = { .x4 }, .ss = { .shared },
// .type = { .b16 }                                                          PTX ISA 6.5, sm_75 (9.7.14.5.15)
// Four matrices of eight rows of 16 bytes. Lane 8 m + i gives the address of row i of matrix m; r[m] of lane 4 i + j
// are the bytes 4 j .. 4 j + 3 of that row.
LIDX_PTX void ldmatrix_m8n8_x4_b16(uint32_t (&r)[4], SharedAddr p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(p.value)
                 : "memory");
}

}  // namespace lidx::ptx

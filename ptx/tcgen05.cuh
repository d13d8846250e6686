// SPDX-License-Identifier: Apache-2.0
// Fifth-generation tensor core and its Tensor Memory (PTX ISA 9.7.16). All for cta_group::1: a kernel must use one
// value. Targets of every instruction here: sm_100a, and from PTX ISA 8.8 the family sm_100f.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols;          PTX ISA 8.6 (9.7.16.7.1)
// Whole warp. nCols: a power of two, 32 .. 512. Blocks until they are free, then writes their TMEM address to [dst].
LIDX_PTX void tcgen05_alloc(SharedAddr dst, uint32_t n_cols) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(dst.value), "r"(n_cols)
                 : "memory");
}

// tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols;                      PTX ISA 8.6 (9.7.16.7.1)
// Whole warp; mandatory before the kernel exits.
LIDX_PTX void tcgen05_dealloc(TmemAddr taddr, uint32_t n_cols) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(taddr.value), "r"(n_cols) : "memory");
}

// tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;                       PTX ISA 8.6 (9.7.16.7.1)
// Whole warp. This CTA will not allocate again; other CTAs of the SM may.
LIDX_PTX void tcgen05_relinquish_alloc_permit() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

// tcgen05.mma.cta_group.kind [d-tmem], a-desc, b-desc, idesc,
//                            { disable-output-lane }, enable-input-d {, scale-input-d};
// .kind = { .kind::f8f6f4 }                                                     PTX ISA 8.6 (9.7.16.10.9.1)
// One thread issues; asynchronous. D[m][n] = sum over k of A[m][k] B[n][k], plus D[m][n] where enable_input_d.
LIDX_PTX void tcgen05_mma_kind_f8f6f4(TmemAddr d_tmem, uint64_t a_desc, uint64_t b_desc, uint32_t idesc,
                                      bool enable_input_d) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n\t}" ::"r"(d_tmem.value),
        "l"(a_desc), "l"(b_desc), "r"(idesc), "r"(static_cast<uint32_t>(enable_input_d))
        : "memory");
}

// tcgen05.commit.cta_group.completion_mechanism{.shared::cluster}{.multicast}.b64 [mbar] {, ctaMask};
// .completion_mechanism = { .mbarrier::arrive::one }                            PTX ISA 8.6 (9.7.16.12.1)
// One arrival on mbar when all earlier tcgen05.mma of this thread are complete; implies before_thread_sync.
LIDX_PTX void tcgen05_commit_mbarrier_arrive_one(SharedAddr mbar) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(mbar.value)
                 : "memory");
}

// tcgen05.fence::before_thread_sync;                                            PTX ISA 8.6 (9.7.16.11.1)
// This thread's earlier asynchronous tcgen05 operations come before the synchronisation that follows.
LIDX_PTX void tcgen05_fence_before_thread_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

// tcgen05.fence::after_thread_sync;                                             PTX ISA 8.6 (9.7.16.11.1)
// This thread's later asynchronous tcgen05 operations come after the synchronisation that precedes.
LIDX_PTX void tcgen05_fence_after_thread_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// tcgen05.wait_operation.sync.aligned;  .wait_operation = { .wait::ld }         PTX ISA 8.6 (9.7.16.8.5)
// Whole warp: every earlier tcgen05.ld of this thread has read Tensor Memory.
LIDX_PTX void tcgen05_wait_ld() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

// tcgen05.ld.sync.aligned.shape1.num{.pack}.b32 r, [taddr];  .shape1 = { .32x32b }, .num = { .x32 }
//                                                                               PTX ISA 8.6 (9.7.16.8.3)
// Whole warp, one taddr. Lane l of warp w (modulo 4) reads TMEM lane 32w + l, columns taddr to taddr + 31, into r.
LIDX_PTX void tcgen05_ld_32x32b_x32(uint32_t (&r)[32], TmemAddr taddr) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]),
          "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]),
          "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]),
          "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
        : "r"(taddr.value)
        : "memory");
}

}  // namespace lidx::ptx

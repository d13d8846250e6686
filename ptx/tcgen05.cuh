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

// tcgen05.ld.sync.aligned.shape1.num{.pack}.b32 r, [taddr];  .shape1 = { .32x32b }, .num = { .x16 }
//                                                                               PTX ISA 8.6 (9.7.16.8.3)
// Whole warp, one taddr. Lane l of warp w (modulo 4) reads TMEM lane 32w + l, columns taddr to taddr + 15, into r.
LIDX_PTX void tcgen05_ld_32x32b_x16(float (&r)[16], TmemAddr taddr) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x16.b32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
        : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7]),
          "=f"(r[8]), "=f"(r[9]), "=f"(r[10]), "=f"(r[11]), "=f"(r[12]), "=f"(r[13]), "=f"(r[14]), "=f"(r[15])
        : "r"(taddr.value)
        : "memory");
}

// tcgen05.ld.sync.aligned.shape1.num{.pack}.b32 r, [taddr];  .shape1 = { .32x32b }, .num = { .x32 }
//                                                                               PTX ISA 8.6 (9.7.16.8.3)
// Whole warp, one taddr. Lane l of warp w (modulo 4) reads TMEM lane 32w + l, columns taddr to taddr + 31, into r.
// (The registers are untyped 32 bits; ours hold fp32 accumulators.)
LIDX_PTX void tcgen05_ld_32x32b_x32(float (&r)[32], TmemAddr taddr) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7]),
          "=f"(r[8]), "=f"(r[9]), "=f"(r[10]), "=f"(r[11]), "=f"(r[12]), "=f"(r[13]), "=f"(r[14]), "=f"(r[15]),
          "=f"(r[16]), "=f"(r[17]), "=f"(r[18]), "=f"(r[19]), "=f"(r[20]), "=f"(r[21]), "=f"(r[22]), "=f"(r[23]),
          "=f"(r[24]), "=f"(r[25]), "=f"(r[26]), "=f"(r[27]), "=f"(r[28]), "=f"(r[29]), "=f"(r[30]), "=f"(r[31])
        : "r"(taddr.value)
        : "memory");
}

}  // namespace lidx::ptx

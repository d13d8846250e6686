// SPDX-License-Identifier: Apache-2.0
// Clusters: the barrier of their CTAs and the shared memory of the others (PTX ISA 9.7.13.3, 9.7.9.23, 10.16).
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// Byte address in the .shared::cluster window: shared memory of any CTA of the cluster.
struct ClusterAddr {
    uint32_t value;
    LIDX_PTX ClusterAddr operator+(uint32_t bytes) const { return {value + bytes}; }
};

// mov.u32 d, %cluster_ctarank;                  PTX ISA 7.8, sm_90 (10.16)
LIDX_PTX uint32_t cluster_ctarank() {
    uint32_t d;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(d));
    return d;
}

// mapa.space.type d, a, b;  .space = { .shared::cluster }, .type = { .u32 }      PTX ISA 7.8, sm_90 (9.7.9.23)
// Where CTA b of the cluster has what the executing CTA has at a.
LIDX_PTX ClusterAddr mapa_shared_cluster(SharedAddr a, uint32_t b) {
    ClusterAddr d;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d.value) : "r"(a.value), "r"(b));
    return d;
}

// ld{.weak}{.ss}.type d, [a];  .ss = { .shared::cluster }      PTX ISA 7.8, sm_90 (9.7.9.8)
LIDX_PTX uint32_t ld_shared_cluster_u32(ClusterAddr a) {
    uint32_t d;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(d) : "r"(a.value) : "memory");
    return d;
}

// ld{.weak}{.ss}.vec.type d, [a];  .ss = { .shared::cluster }, .vec = { .v4, .v2 }: aligned to the whole
// @p ld: zeros where p is false, without a branch, so that several are in flight at once.
LIDX_PTX U32x4 ld_shared_cluster_v4_u32(bool p, ClusterAddr a) {
    U32x4 d{0, 0, 0, 0};
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %4, 0;\n\t@p ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%5];\n\t}"
        : "+r"(d.x), "+r"(d.y), "+r"(d.z), "+r"(d.w)
        : "r"(static_cast<uint32_t>(p)), "r"(a.value)
        : "memory");
    return d;
}
LIDX_PTX U32x2 ld_shared_cluster_v2_u32(bool p, ClusterAddr a) {
    U32x2 d{0, 0};
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.shared::cluster.v2.u32 {%0, %1}, [%3];\n\t}"
                 : "+r"(d.x), "+r"(d.y)
                 : "r"(static_cast<uint32_t>(p)), "r"(a.value)
                 : "memory");
    return d;
}

// st{.weak}{.ss}.type [a], b;  .ss = { .shared::cluster }      PTX ISA 7.8, sm_90 (9.7.9.11)
LIDX_PTX void st_shared_cluster_u64(ClusterAddr a, uint64_t b) {
    asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(a.value), "l"(b) : "memory");
}

// barrier.cluster.arrive{.sem}{.aligned};  barrier.cluster.wait{.acquire}{.aligned};      PTX ISA 7.8, sm_90 (9.7.13.3)
// All threads of the cluster that have not exited; default: release, acquire.
LIDX_PTX void barrier_cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
LIDX_PTX void barrier_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
LIDX_PTX void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// fence.sync_restrict.scope;  fence.release.sync_restrict::shared::cta.cluster      PTX ISA 8.6, sm_90 (9.7.13.4)
// Before a relaxed arrival: releases what was written to the CTA's own shared memory alone, which the fence of a
// releasing arrival does for global memory, too.
LIDX_PTX void fence_release_shared_cta_cluster() {
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}

}  // namespace lidx::ptx

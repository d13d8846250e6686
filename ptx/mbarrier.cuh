// SPDX-License-Identifier: Apache-2.0
// mbarrier objects in shared memory (PTX ISA 9.7.13.15) and the fences that belong to them (9.7.13.4).
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// mbarrier.init{.shared{::cta}}.b64 [addr], count;                      PTX ISA 7.0, sm_80 (9.7.13.15.9)
LIDX_PTX void mbarrier_init(SharedAddr addr, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr.value), "r"(count) : "memory");
}

// mbarrier.inval{.shared{::cta}}.b64 [addr];                            PTX ISA 7.0, sm_80 (9.7.13.15.10)
LIDX_PTX void mbarrier_inval(SharedAddr addr) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(addr.value) : "memory");
}

// mbarrier.arrive{.sem.scope}{.shared{::cta}}.b64 state, [addr]{, count};
//                                                                       PTX ISA 7.0, `_` 7.1, sm_80 (9.7.13.15.13)
// Default: release, CTA scope; count 1.
LIDX_PTX void mbarrier_arrive(SharedAddr addr) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(addr.value) : "memory");
}

// The same with a count: that many arrivals at once.
LIDX_PTX void mbarrier_arrive(SharedAddr addr, uint32_t count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(addr.value), "r"(count) : "memory");
}

// mbarrier.arrive.expect_tx{.sem.scope}{.shared{::cta}}.b64 state, [addr], txCount;   PTX ISA 8.0, sm_90 (9.7.13.15.13)
// First raises the phase's tx-count by txCount bytes, then arrives once.
LIDX_PTX void mbarrier_arrive_expect_tx(SharedAddr addr, uint32_t tx_count_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(addr.value), "r"(tx_count_bytes)
                 : "memory");
}

// mbarrier.expect_tx{.sem.scope}{.space}.b64 [addr], txCount;   .sem = { .relaxed }, .scope = { .cta, .cluster }
//                                                                       PTX ISA 8.0, sm_90 (9.7.13.15.11)
// Raises the phase's tx-count by txCount bytes; no arrival.
LIDX_PTX void mbarrier_expect_tx(SharedAddr addr, uint32_t tx_count_bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(addr.value), "r"(tx_count_bytes)
                 : "memory");
}

// mbarrier.try_wait.parity{.sem.scope}{.shared{::cta}}.b64 waitComplete, [addr], phaseParity{, suspendTimeHint};
//                                                                       PTX ISA 7.8, sm_90 (9.7.13.15.16)
// Potentially blocking; true if the phase of that parity is complete. Default: acquire, CTA scope. Call it in a loop.
LIDX_PTX bool mbarrier_try_wait_parity(SharedAddr addr, Parity phase_parity) {
    uint32_t complete;
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(complete)
        : "r"(addr.value), "r"(phase_parity.value)
        : "memory");
    return complete != 0;
}

// fence.op_restrict.release.cluster;  .op_restrict = { .mbarrier_init }        PTX ISA 8.0, sm_90 (9.7.13.4)
// Makes this thread's mbarrier.init visible to the asynchronous units and to the cluster.
LIDX_PTX void fence_mbarrier_init_release_cluster() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.proxykind;  .proxykind = { .async.shared::{cta, cluster} }       PTX ISA 8.0, sm_90 (9.7.13.4)
// Orders generic-proxy accesses to shared memory with those of the async proxy (TMA, tcgen05.mma), both ways.
LIDX_PTX void fence_proxy_async_shared_cta() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace lidx::ptx

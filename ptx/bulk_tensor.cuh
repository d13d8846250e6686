// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies: tensors by the bulk copy engine, TMA (PTX ISA 9.7.9.27.1.2), bulk copies, cp.async.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// cp.async.bulk.tensor.dim.dst.src{.load_mode}.completion_mechanism{.multicast}{.cta_group}{.level::cache_hint}
//                      [dstMem], [tensorMap, tensorCoords], [mbar]{, im2colInfo}{, ctaMask}{, cache-policy}
// .dim = { .2d, .3d, .5d }, .dst = { .shared::cluster }, .src = { .global }, .load_mode = { .tile },
// .completion_mechanism = { .mbarrier::complete_tx::bytes }             PTX ISA 8.0, sm_90 (9.7.9.27.1.2)
// One thread issues. tensorMap is a generic address; coordinates are signed elements, innermost first. Whatever lies
// out of bounds is filled (zero), and the whole box counts towards complete_tx. dst: 128-byte aligned, in this CTA.
LIDX_PTX void cp_async_bulk_tensor_2d(SharedAddr dst_mem, const TensorMap* tensor_map, int32_t c0, int32_t c1,
                                      SharedAddr mbar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(dst_mem.value),
        "l"(tensor_map), "r"(c0), "r"(c1), "r"(mbar.value)
        : "memory");
}
LIDX_PTX void cp_async_bulk_tensor_3d(SharedAddr dst_mem, const TensorMap* tensor_map, int32_t c0, int32_t c1,
                                      int32_t c2, SharedAddr mbar) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];" ::"r"(dst_mem.value),
        "l"(tensor_map), "r"(c0), "r"(c1), "r"(c2), "r"(mbar.value)
        : "memory");
}
LIDX_PTX void cp_async_bulk_tensor_5d(SharedAddr dst_mem, const TensorMap* tensor_map, int32_t c0, int32_t c1,
                                      int32_t c2, int32_t c3, int32_t c4, SharedAddr mbar) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(dst_mem.value),
        "l"(tensor_map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(mbar.value)
        : "memory");
}

// cp.async.bulk.dst.src.completion_mechanism{.multicast}{.level::cache_hint} [dstMem], [srcMem], size, [mbar] ...;
// .dst = { .shared::cluster }, .src = { .global }                       PTX ISA 8.0, sm_90 (9.7.9.25.4.1)
// Both addresses and the size in multiples of 16 bytes.
LIDX_PTX void cp_async_bulk_shared_global(SharedAddr dst_mem, const void* src_mem, uint32_t size_bytes,
                                          SharedAddr mbar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst_mem.value),
        "l"(src_mem), "r"(size_bytes), "r"(mbar.value)
        : "memory");
}

// cp.async.ca.state.global{.level::cache_hint}{.level::prefetch_size} [dst], [src], cp-size ...;  cp-size 4
//                                                                       PTX ISA 7.0, sm_80 (9.7.9.25.3.1)
LIDX_PTX void cp_async_ca_4(SharedAddr dst, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(dst.value), "l"(src) : "memory");
}

// cp-size 16: both addresses multiples of 16.
LIDX_PTX void cp_async_ca_16(SharedAddr dst, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst.value), "l"(src) : "memory");
}
// cp.async.cg.state.global{.level::cache_hint}{.level::prefetch_size} [dst], [src], 16{, cache-policy};
// .level::cache_hint = { .L2::cache_hint }: PTX ISA 7.4, sm_80. Not by way of L1.
LIDX_PTX void cp_async_cg_16(SharedAddr dst, const void* src, uint64_t cache_policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(dst.value), "l"(src),
                 "l"(cache_policy)
                 : "memory");
}

// cp.async.commit_group;                                                PTX ISA 7.0, sm_80 (9.7.9.25.3.2)
LIDX_PTX void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// cp.async.wait_group N;                                                PTX ISA 7.0, sm_80 (9.7.9.25.3.3)
// At most the N youngest groups of this thread are still pending.
template <int kPending>
LIDX_PTX void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [addr];          PTX ISA 7.0, sm_80 (9.7.13.15.15)
// An arrival when all earlier cp.async of this thread are complete. .noinc: the phase's count has it already.
LIDX_PTX void cp_async_mbarrier_arrive_noinc(SharedAddr addr) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(addr.value) : "memory");
}

// cp.async.bulk.prefetch.L2.src{.level::cache_hint} [srcMem], size;   .src = { .global }   PTX ISA 8.0, sm_90
//                                                                       (9.7.9.25.4.3)
// srcMem and size: multiples of 16.
LIDX_PTX void cp_async_bulk_prefetch_l2(const void* src, uint32_t size_bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(src), "r"(size_bytes) : "memory");
}

// prefetch{.tensormap_space}.tensormap [a];  .tensormap_space = { .const, .param }     PTX ISA 8.0, sm_90 (9.7.9.15)
// A generic address (no space) inside a kernel parameter, .const or .global.
LIDX_PTX void prefetch_tensormap(const TensorMap* a) { asm volatile("prefetch.tensormap [%0];" ::"l"(a) : "memory"); }

}  // namespace lidx::ptx

// SPDX-License-Identifier: Apache-2.0
// Loads and stores with their state space (PTX ISA 9.7.9.8, 9.7.9.9, 9.7.9.11).
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

// cvta.to.space.size p, a;  cvta.to.shared.u64, narrowed       PTX ISA 2.0, sm_20 (9.7.9.20)
LIDX_PTX SharedAddr cvta_to_shared(const void* a) { return {static_cast<uint32_t>(__cvta_generic_to_shared(a))}; }

// ld.global{.cop}.nc.type d, [a];               PTX ISA 3.1, sm_32 (9.7.9.9)
// For data that no thread writes while the kernel runs: pure, so not volatile.
LIDX_PTX int32_t ld_global_nc_s32(const void* a) {
    int32_t d;
    asm("ld.global.nc.s32 %0, [%1];" : "=r"(d) : "l"(a));
    return d;
}
LIDX_PTX float ld_global_nc_f32(const void* a) {
    float d;
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(d) : "l"(a));
    return d;
}
LIDX_PTX uint32_t ld_global_nc_u32(const void* a) {
    uint32_t d;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(d) : "l"(a));
    return d;
}
LIDX_PTX uint16_t ld_global_nc_u16(const void* a) {
    uint16_t d;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(d) : "l"(a));
    return d;
}
LIDX_PTX int64_t ld_global_nc_s64(const void* a) {
    int64_t d;
    asm("ld.global.nc.s64 %0, [%1];" : "=l"(d) : "l"(a));
    return d;
}
// ld.global{.cop}.nc.vec.type d, [a];  .vec = { .v2, .v4 }: aligned to the whole
LIDX_PTX void ld_global_nc_v2_u32(uint32_t& d0, uint32_t& d1, const void* a) {
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(d0), "=r"(d1) : "l"(a));
}
LIDX_PTX U32x4 ld_global_nc_v4_u32(const void* a) {
    U32x4 d;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w) : "l"(a));
    return d;
}

// ld{.weak}{.ss}.type d, [a];                   PTX ISA 1.0, all targets (9.7.9.8)
// Not .nc: for what another kernel or another CTA of this one may have written.
LIDX_PTX uint32_t ld_global_u32(const void* a) {
    uint32_t d;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(d) : "l"(a) : "memory");
    return d;
}
LIDX_PTX int32_t ld_global_s32(const void* a) {
    int32_t d;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(d) : "l"(a) : "memory");
    return d;
}
// With p, @p ld: the d given where p is false, without a branch, so that several are in flight at once.
LIDX_PTX uint32_t ld_global_u32(bool p, const void* a, uint32_t d) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\t@p ld.global.u32 %0, [%2];\n\t}"
                 : "+r"(d)
                 : "r"(static_cast<uint32_t>(p)), "l"(a)
                 : "memory");
    return d;
}
LIDX_PTX uint16_t ld_global_u16(bool p, const void* a, uint16_t d) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\t@p ld.global.u16 %0, [%2];\n\t}"
                 : "+h"(d)
                 : "r"(static_cast<uint32_t>(p)), "l"(a)
                 : "memory");
    return d;
}

// ld{.weak}{.ss}.vec.type d, [a];  .vec = { .v4, .v2 }: aligned to the whole     PTX ISA 1.0, all targets (9.7.9.8)
// @p ld: zeros where p is false.
LIDX_PTX F32x4 ld_global_v4_f32(bool p, const void* a) {
    F32x4 d{0.0f, 0.0f, 0.0f, 0.0f};
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %4, 0;\n\t@p ld.global.v4.f32 {%0, %1, %2, %3}, [%5];\n\t}"
                 : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
                 : "r"(static_cast<uint32_t>(p)), "l"(a)
                 : "memory");
    return d;
}
LIDX_PTX U32x2 ld_global_v2_u32(bool p, const void* a) {
    U32x2 d{0, 0};
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.global.v2.u32 {%0, %1}, [%3];\n\t}"
                 : "+r"(d.x), "+r"(d.y)
                 : "r"(static_cast<uint32_t>(p)), "l"(a)
                 : "memory");
    return d;
}

// st{.weak}{.ss}.type [a], b;                   PTX ISA 1.0, all targets (9.7.9.11)
LIDX_PTX void st_global_f32(void* a, float b) { asm volatile("st.global.f32 [%0], %1;" ::"l"(a), "f"(b) : "memory"); }
LIDX_PTX void st_global_u32(void* a, uint32_t b) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(a), "r"(b) : "memory");
}
LIDX_PTX void st_global_u32(bool p, void* a, uint32_t b) {   // @p st: without a branch
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %0, 0;\n\t@p st.global.u32 [%1], %2;\n\t}" ::"r"(
                     static_cast<uint32_t>(p)),
                 "l"(a), "r"(b)
                 : "memory");
}
LIDX_PTX void st_global_u16(void* a, uint16_t b) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(a), "h"(b) : "memory");
}
// st{.weak, .relaxed}{.scope}{.ss}.type [a], b;  .relaxed: PTX ISA 6.0, sm_70. Several threads may store at once.
LIDX_PTX void st_relaxed_gpu_global_u32(void* a, uint32_t b) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(a), "r"(b) : "memory");
}
LIDX_PTX void st_shared_u32(SharedAddr a, uint32_t b) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(a.value), "r"(b) : "memory");
}
LIDX_PTX void st_shared_u32(bool p, SharedAddr a, uint32_t b) {   // @p st: without a branch
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %0, 0;\n\t@p st.shared.u32 [%1], %2;\n\t}" ::"r"(
                     static_cast<uint32_t>(p)),
                 "r"(a.value), "r"(b)
                 : "memory");
}
LIDX_PTX void st_shared_u64(SharedAddr a, uint64_t b) {
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(a.value), "l"(b) : "memory");
}
LIDX_PTX void st_shared_f32(SharedAddr a, float b) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(a.value), "f"(b) : "memory");
}

// st{.weak}{.ss}.vec.type [a], b;  .vec = { .v4 }: 16-byte aligned      PTX ISA 1.0, all targets (9.7.9.11)
LIDX_PTX void st_global_v4_u32(void* a, U32x4 b) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(a), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w)
                 : "memory");
}
LIDX_PTX void st_shared_v4_f32(SharedAddr a, F32x4 b) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(a.value), "f"(b.x), "f"(b.y), "f"(b.z), "f"(b.w)
                 : "memory");
}
LIDX_PTX void st_shared_v4_u32(SharedAddr a, U32x4 b) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(a.value), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w)
                 : "memory");
}
LIDX_PTX void st_shared_v2_f32(SharedAddr a, float b0, float b1) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(a.value), "f"(b0), "f"(b1) : "memory");
}
LIDX_PTX void st_shared_v2_u32(SharedAddr a, uint32_t b0, uint32_t b1) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(a.value), "r"(b0), "r"(b1) : "memory");
}

// ld{.weak}{.ss}.type d, [a];                   PTX ISA 1.0, all targets (9.7.9.8)
LIDX_PTX uint32_t ld_shared_u32(SharedAddr a) {
    uint32_t d;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(d) : "r"(a.value) : "memory");
    return d;
}
LIDX_PTX uint16_t ld_shared_u16(SharedAddr a) {
    uint16_t d;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(d) : "r"(a.value) : "memory");
    return d;
}
LIDX_PTX uint64_t ld_shared_u64(SharedAddr a) {
    uint64_t d;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(d) : "r"(a.value) : "memory");
    return d;
}
LIDX_PTX float ld_shared_f32(SharedAddr a) {
    float d;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(d) : "r"(a.value) : "memory");
    return d;
}

// ld{.weak}{.ss}.vec.type d, [a];  .vec = { .v4, .v2 }: aligned to the whole     PTX ISA 1.0, all targets (9.7.9.8)
LIDX_PTX F32x4 ld_shared_v4_f32(SharedAddr a) {
    F32x4 d;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(d.x), "=f"(d.y), "=f"(d.z), "=f"(d.w)
                 : "r"(a.value)
                 : "memory");
    return d;
}
LIDX_PTX void ld_shared_v2_b64(F32x2& d0, F32x2& d1, SharedAddr a) {
    asm volatile("ld.shared.v2.b64 {%0, %1}, [%2];" : "=l"(d0.bits), "=l"(d1.bits) : "r"(a.value) : "memory");
}
LIDX_PTX U32x4 ld_shared_v4_u32(SharedAddr a) {
    U32x4 d;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
                 : "r"(a.value)
                 : "memory");
    return d;
}
LIDX_PTX void ld_shared_v2_u32(uint32_t& d0, uint32_t& d1, SharedAddr a) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(d0), "=r"(d1) : "r"(a.value) : "memory");
}
LIDX_PTX void ld_shared_v2_f32(float& d0, float& d1, SharedAddr a) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(d0), "=f"(d1) : "r"(a.value) : "memory");
}

// prefetch{.space}.level [a];  .space = { .global }, .level = { .L2 }        PTX ISA 2.0, sm_20 (9.7.9.15)
LIDX_PTX void prefetch_global_l2(const void* a) { asm volatile("prefetch.global.L2 [%0];" ::"l"(a) : "memory"); }

// createpolicy.fractional.L2::primary_priority.b64 cache-policy;             PTX ISA 7.4, sm_80 (9.7.9.18)
// .primary_priority = { .evict_first }: of all accesses that have the policy.
LIDX_PTX uint64_t createpolicy_fractional_evict_first() {
    uint64_t cache_policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(cache_policy));
    return cache_policy;
}

}  // namespace lidx::ptx

// SPDX-License-Identifier: Apache-2.0
// Instantiates every wrapper of ptx/, so that ptxas assembles each instruction. Built, never run. Each wrapper is
// called by its own name, in the source: a check of the tree compares these names with those in the headers.
#include <cstdint>

#include "ptx/atomic.cuh"
#include "ptx/bulk_tensor.cuh"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/tcgen05.cuh"
#include "ptx/types.h"

using namespace lidx::ptx;

extern "C" __global__ void wrappers_sreg_elect(uint32_t* out) {
    out[0] = tid_x();
    out[1] = laneid();
    out[2] = ctaid_x();
    out[3] = ctaid_y();
    out[4] = ctaid_z();
    out[5] = nctaid_z() + nctaid_x() + nctaid_y();
    out[6] = elect_sync(kFullMask);
    out[7] = shfl_sync_idx(out[8], 3, kFullMask);
    out[9] = shfl_sync_up(out[8], 1, kFullMask) + vote_sync_ballot(out[8] != 0, kFullMask);
    out[10] = __float_as_uint(shfl_sync_bfly(__uint_as_float(out[8]), 2, kFullMask));
    out[11] = static_cast<uint32_t>(redux_sync_min_s32(3, kFullMask) + redux_sync_max_s32(4, kFullMask));
    bar_warp_sync(kFullMask);
    bar_sync();
    bar_sync(1, 64);
    bar_arrive(2, 64);
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
}

extern "C" __global__ void wrappers_memory(const uint8_t* in, float* out, uint32_t* words) {
    __shared__ alignas(16) float shared[16];
    const SharedAddr address = cvta_to_shared(shared);
    const U32x4 codes = ld_global_nc_v4_u32(in + 16);
    st_shared_f32(address, ld_global_nc_f32(in));
    st_shared_u32(address, tid_x());
    st_shared_v2_f32(address, ld_global_nc_f32(in), 1.0f);
    st_shared_v4_f32(address + 16, {1.0f, 2.0f, 3.0f, __uint_as_float(codes.x ^ codes.y ^ codes.z ^ codes.w)});
    st_shared_v4_u32(address + 32, codes);
    st_shared_v2_u32(address + 48, codes.x, codes.y);
    bar_sync();
    const U32x4 words_back = ld_shared_v4_u32(address + 32);
    float first, second;
    ld_shared_v2_f32(first, second, address + 48);
    st_global_f32(out + 1, first + second + __uint_as_float(words_back.x ^ words_back.y ^ words_back.z ^ words_back.w));
    const F32x4 four = ld_shared_v4_f32(address + 16);
    F32x2 a, b;
    ld_shared_v2_b64(a, b, address + 32);
    st_global_f32(out, ld_shared_f32(address) + four.x + four.y + four.z + four.w);
    st_global_u32(words, ld_shared_u32(address + 4) + static_cast<uint32_t>(ld_global_nc_s32(in + 32)));
    st_global_u16(words + 2, ld_global_nc_u16(in + 48));
    st_relaxed_gpu_global_u32(words + 9, 1);
    st_global_u32(words + 1, static_cast<uint32_t>(a.bits ^ b.bits));
    uint32_t low, high;
    ld_shared_v2_u32(low, high, address + 56);
    st_global_u32(words + 3, low + high);
    ld_global_nc_v2_u32(low, high, in + 40);
    st_global_v4_u32(words + 4, {low, high, ld_global_nc_u32(in + 48), ld_global_nc_u16(in + 52)});
    st_global_u16(words + 8, static_cast<uint16_t>(ld_global_nc_s64(in + 56)));
}

extern "C" __global__ void wrappers_math(float* x) {
    x[0] = fma_rn_f32(x[0], x[1], x[2]);
    x[1] = add_rn_f32(x[0], x[1]);
    x[2] = mul_rn_f32(x[1], x[2]);
    x[3] = max_nan_f32(x[2], x[3]);
    x[4] = abs_f32(x[4]);
    x[7] = div_rn_f32(x[3], cvt_f32_f16(cvt_rn_bf16_f32(x[4]) ^ cvt_rn_f16_f32(x[5])));
    const F32x2 pair = mov_b64(x[0], x[1]);
    const F32x2 result = fma_rn_f32x2(pair, add_rn_f32x2(pair, mov_b64(x[2], x[3])), mul_rn_f32x2(pair, pair));
    mov_b64(x[5], x[6], result);
    reinterpret_cast<uint16_t*>(x)[14] = cvt_rn_bf16_f32(x[7]);
    x[8] = min_f32(max_f32(x[4], x[5]), x[6]);
    const uint32_t bits = static_cast<uint32_t>(__float_as_int(x[8]));
    x[9] = __int_as_float(static_cast<int>(shf_l_wrap_b32(bits, mad_lo_u32(bits, 4, 5), 1)));
}

extern "C" __global__ void wrappers_mbarrier_bulk_tensor(const __grid_constant__ TensorMap map, int32_t* at,
                                                        const uint8_t* codes) {
    __shared__ alignas(1024) uint8_t box[8192];
    __shared__ uint64_t barrier;
    const SharedAddr full = cvta_to_shared(&barrier);
    prefetch_tensormap(&map);
    mbarrier_init(full, 2);
    fence_mbarrier_init_release_cluster();
    fence_proxy_async_shared_cta();
    mbarrier_arrive_expect_tx(full, 8192);
    mbarrier_expect_tx(full, 8192);
    cp_async_bulk_tensor_2d(cvta_to_shared(box), &map, at[0], at[1], full);
    cp_async_bulk_tensor_3d(cvta_to_shared(box) + 4096, &map, at[0], at[1], at[2], full);
    cp_async_bulk_tensor_5d(cvta_to_shared(box), &map, at[0], at[1], at[2], at[3], at[4], full);
    cp_async_bulk_shared_global(cvta_to_shared(box), codes, 64, full);
    cp_async_ca_4(cvta_to_shared(box) + 64, codes);
    cp_async_ca_16(cvta_to_shared(box) + 128, codes);
    cp_async_cg_16(cvta_to_shared(box) + 144, codes, createpolicy_fractional_evict_first());
    cp_async_commit_group();
    cp_async_wait_group<1>();
    prefetch_global_l2(codes);
    cp_async_bulk_prefetch_l2(codes, 8192);
    uint32_t fragment[4];
    ldmatrix_m8n8_x4_b16(fragment, cvta_to_shared(box));
    st_shared_u32(cvta_to_shared(box), fragment[0] + fragment[1] + fragment[2] + fragment[3]);
    cp_async_mbarrier_arrive_noinc(full);
    mbarrier_arrive(full);
    mbarrier_arrive(full, 2);
    const Parity first{0};
    while (!mbarrier_try_wait_parity(full, first)) {
    }
    mbarrier_inval(full);
    at[3] = static_cast<int32_t>(first.next().value);
}

extern "C" __global__ void wrappers_cluster(uint32_t* out) {
    __shared__ alignas(16) uint32_t words[4];
    const ClusterAddr other = mapa_shared_cluster(cvta_to_shared(words), cluster_ctarank() ^ 1);
    st_shared_cluster_u64(other, out[0]);
    fence_release_shared_cta_cluster();
    barrier_cluster_arrive_relaxed();
    barrier_cluster_wait();
    const U32x4 four = ld_shared_cluster_v4_u32(out[1] != 0, other);
    const U32x2 two = ld_shared_cluster_v2_u32(out[2] != 0, other + 8);
    out[0] = ld_shared_cluster_u32(other) + four.x + four.w + two.y;
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ void wrappers_tcgen05(uint64_t a_desc, uint64_t b_desc, uint32_t idesc, uint32_t* out) {
    __shared__ uint32_t base;
    __shared__ uint64_t barrier;
    const SharedAddr full = cvta_to_shared(&barrier);
    tcgen05_alloc(cvta_to_shared(&base), 32);
    tcgen05_relinquish_alloc_permit();
    tcgen05_fence_before_thread_sync();
    bar_sync();
    tcgen05_fence_after_thread_sync();
    const TmemAddr d{ld_shared_u32(cvta_to_shared(&base))};
    if (elect_sync(kFullMask)) {
        tcgen05_mma_kind_f8f6f4(d, a_desc, b_desc, idesc, false);
        tcgen05_commit_mbarrier_arrive_one(full);
    }
    bar_warp_sync(kFullMask);
    float r[32];
    tcgen05_ld_32x32b_x32(r, d.lane(32).column(0));
    tcgen05_wait_ld();
    for (int i = 0; i < 32; ++i) out[i] = __float_as_uint(r[i]);
    float s[16];
    tcgen05_ld_32x32b_x16(s, d.lane(32).column(16));
    tcgen05_wait_ld();
    for (int i = 0; i < 16; ++i) out[32 + i] = __float_as_uint(s[i]);
    tcgen05_dealloc(d, 32);
}

extern "C" __global__ void wrappers_atomic(uint32_t* words, const uint8_t* in, bool there) {
    __shared__ alignas(16) uint32_t shared[16];
    const SharedAddr address = cvta_to_shared(shared);
    st_shared_u32(address, ld_global_u32(in));
    st_shared_u64(address + 8, ld_shared_u64(address + 16));
    red_shared_add_u32(address, 3);
    red_shared_or_b32(address + 4, redux_sync_add_u32(ld_shared_u16(address + 6), kFullMask));
    red_shared_or_b32(address + 4, redux_sync_max_u32(ld_shared_u16(address + 6), kFullMask));
    words[0] = atom_shared_add_u32(address, 1) + atom_acq_rel_gpu_global_add_u32(words + 1, 1);
    words[2] = ld_global_u32(there, in, 7) + ld_global_u16(there, in + 8, 7) +
               static_cast<uint32_t>(ld_global_s32(in + 12));
    const F32x4 four = ld_global_v4_f32(there, in + 16);
    const U32x2 two = ld_global_v2_u32(there, in + 32);
    st_global_v4_u32(words + 4, {__float_as_uint(four.x + four.y + four.z + four.w), two.x, two.y, 0});
}

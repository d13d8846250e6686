// SPDX-License-Identifier: Apache-2.0
// Instantiates the wrappers of ptx/wgmma.cuh and ptx/half.cuh, as ptx_wrappers_compile.cu does all others. Built, never
// run.
#include <cstdint>

#include "ptx/half.cuh"
#include "ptx/types.h"
#include "ptx/wgmma.cuh"

using namespace lidx::ptx;

extern "C" __global__ void __launch_bounds__(256, 1) wrappers_wgmma(uint64_t a_desc, uint64_t b_desc, float* out) {
    if (threadIdx.x >= 128) {
        setmaxnreg_dec<40>();
        return;
    }
    setmaxnreg_inc<240>();
    float d[32];
    wgmma_fence();
    wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, a_desc, b_desc, false);
    wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, a_desc, b_desc, true);
    float e[48];
    wgmma_mma_async_m64n96k32_f32_e4m3_e4m3(e, a_desc, b_desc, false);
    wgmma_mma_async_m64n96k32_f32_e4m3_e4m3(e, a_desc, b_desc, true);
    uint32_t f[64];
    wgmma_mma_async_m64n256k32_f16_e4m3_e4m3(f, a_desc, b_desc, false);
    wgmma_mma_async_m64n256k32_f16_e4m3_e4m3(f, a_desc, b_desc, true);
    const uint32_t a[4] = {1, 2, 3, 4};
    wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, a, b_desc, false);
    wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, a, b_desc, true);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = d[i];
    for (int i = 0; i < 48; ++i) out[threadIdx.x * 48 + i] = e[i];
    for (int i = 0; i < 64; ++i) out[threadIdx.x * 64 + i] = __uint_as_float(f[i]);
}

extern "C" __global__ void wrappers_half(uint32_t* out) {
    uint32_t x = out[threadIdx.x];
    x = cvt_rn_f16x2_e4m3x2(static_cast<uint16_t>(x));
    x = add_rn_f16x2(x, abs_f16x2(x));
    x = mul_rn_f16x2(x, 0x38003800);
    x = fma_rn_f16x2(x, 0x34003400, x);
    x = fma_rn_relu_f16x2(x, 0x3c003c00, 0);
    out[threadIdx.x] = cvt_rn_satfinite_e4m3x2_f16x2(x);
}

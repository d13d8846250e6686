// SPDX-License-Identifier: Apache-2.0
// The query side: quantise q per row and head, and fold its scale into the head's weight; sm_80 and later, depth 64 or
// 128.
//
//     q_out[r, h]       = e4m3 codes of q[r, h], q_scale its scale      kernel/cache_quantise.cuh
//     weights_out[r, h] = (weights[r, h] * q_scale) * factor            two fp32 products, each rounded; bf16 once more
//
// One warp per row and head, four per CTA, no shared memory.
#include "kernel/cache_layout.h"
#include "kernel/cache_quantise.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::cache {
namespace {

__device__ __forceinline__ void store_weight(const QueryParams& p, int64_t row, uint32_t head, float q_scale) {
    float weight = 1.0f;
    if (p.weights)
        weight = load_element(p.weights + row * p.weight_stride_bytes + head * float_bytes(p.weight_type),
                              p.weight_type);
    const float folded = ptx::mul_rn_f32(ptx::mul_rn_f32(weight, q_scale), p.factor);
    uint8_t* to = p.weights_out + row * p.weight_out_stride_bytes + head * float_bytes(p.weight_out_type);
    if (p.weight_out_type == FloatType::kFp32)
        ptx::st_global_f32(to, folded);
    else
        ptx::st_global_u16(to, ptx::cvt_rn_bf16_f32(folded));
}

template <int kDepth>
__device__ __forceinline__ void quantise_query(const QueryParams& p, int64_t pair, uint32_t lane) {
    const int64_t row = static_cast<uint32_t>(pair) / static_cast<uint32_t>(p.heads);
    const auto head = static_cast<uint32_t>(pair - row * p.heads);
    const uint8_t* from = p.q + row * p.q_row_stride_bytes + head * p.q_head_stride_bytes;
    uint32_t codes;
    const float scale = quantise_vector<kDepth>(from, p.q_type, p.quantise, lane, codes);
    store_codes<kDepth>(p.q_out + pair * kDepth, lane, codes);
    if (lane != 0) return;
    if (p.q_scale_out) ptx::st_global_f32(p.q_scale_out + pair, scale);
    if (p.weights_out) store_weight(p, row, head, scale);
}

}  // namespace
}  // namespace lidx::cache

extern "C" __global__ void __launch_bounds__(lidx::cache::kThreads)
cache_query(const __grid_constant__ lidx::cache::QueryParams p) {
    using namespace lidx::cache;
    namespace ptx = lidx::ptx;
    const int64_t pair = int64_t{ptx::ctaid_x()} * kWarps + ptx::tid_x() / 32;
    if (pair >= int64_t{p.rows} * p.heads) return;
    const uint32_t lane = ptx::laneid();
    if (p.depth == 128)
        quantise_query<128>(p, pair, lane);
    else
        quantise_query<64>(p, pair, lane);
}

// SPDX-License-Identifier: Apache-2.0
// The generic kernel: sm_80 and later, no tensor core, any page size from 1, 1 to 128 heads, depth a multiple of 16 up
// to 128.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// One key per thread. A thread decodes its key into registers once and keeps it; the queries of a token pass through
// shared memory, decoded to fp32, 16 heads at a time, and every lane reads the same value (broadcast).
//
// Arithmetic, the same bits for every grid, page size and layout, all fp32, round to nearest even, subnormals kept:
//     d[h]  = fma(q[h, i], k[i], d[h])              i ascending from 0, d[h] starts at +0
//     sum   = fma(q_scale[h], max.NaN(d[h], +0), sum)   h ascending from 0, sum starts at +0
//     score = k_scale * sum
// A NaN code (0x7f, 0xff) makes its dot products NaN, and relu lets NaN through.
//
// Grid (batch, key tiles of 128, slices of the tokens), 128 threads. Budget per token and 128 keys at 64 heads, depth
// 128, per SM: 4 warps x 8192 fma = 32768 warp instructions, 8192 clocks of FMA pipe; 4 warps x 2048 broadcast reads of
// 16 bytes.
#include "kernel/generic_score_layout.h"
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/variants.h"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::generic_score {
namespace {

struct Shared {
    float q[kHeadChunk][kMaxDepth];     // [heads of the chunk, depth]
    float q_scale[kHeadChunk];
};
static_assert(sizeof(Shared) == kStaticSharedBytes);

// e4m3 in the low byte of `code` to fp32. Sign, exponent and mantissa moved into place are the value times 2^-120,
// subnormals (then fp32 subnormals) included; the product with 2^120 is exact.
__device__ __forceinline__ float decode_e4m3(uint32_t code) {
    const uint32_t magnitude = code & 0x7f;
    const uint32_t bits = (code & 0x80) << 24 | magnitude << 20;
    return magnitude == 0x7f ? __uint_as_float(0x7fffffff) : ptx::mul_rn_f32(__uint_as_float(bits), 0x1p120f);
}

__device__ __forceinline__ ptx::F32x4 decode_e4m3x4(uint32_t codes) {
    return {decode_e4m3(codes & 0xff), decode_e4m3(codes >> 8 & 0xff), decode_e4m3(codes >> 16 & 0xff),
            decode_e4m3(codes >> 24)};
}

// Where key `key` of request `request` lies.
struct KeyPlace {
    int64_t page;
    int32_t slot;
    bool legal;    // the page id is one of the pool's
};
__device__ __forceinline__ KeyPlace find_key(const ScoreParams& p, int32_t request, int32_t key) {
    KeyPlace place{request, key, true};
    if (p.block_table) {
        const uint32_t index = static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size);
        place.page = ptx::ld_global_nc_s32(p.block_table + request * p.block_table_stride + index);
        place.slot = key - static_cast<int32_t>(index) * p.page_size;
    }
    place.legal = place.page >= 0 && place.page < p.num_pages;
    return place;
}

// Decodes the thread's key. Blocks of 16 beyond the depth are left out here and in dot_products().
__device__ __forceinline__ void load_key(const ScoreParams& p, const KeyPlace& place, float (&k)[kMaxDepth]) {
    const uint8_t* codes = p.k + place.page * p.k_page_stride + static_cast<int64_t>(place.slot) * p.depth;
#pragma unroll
    for (int block = 0; block < kMaxDepth / 16; ++block) {
        ptx::U32x4 word{0, 0, 0, 0};
        if (place.legal && block * 16 < p.depth) word = ptx::ld_global_nc_v4_u32(codes + block * 16);
        const uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const ptx::F32x4 value = decode_e4m3x4(words[i]);
            k[block * 16 + i * 4 + 0] = value.x;
            k[block * 16 + i * 4 + 1] = value.y;
            k[block * 16 + i * 4 + 2] = value.z;
            k[block * 16 + i * 4 + 3] = value.w;
        }
    }
}

// Decodes the queries and scales of heads head .. head + count - 1 of a row into shared memory, all threads together.
__device__ __forceinline__ void load_queries(const ScoreParams& p, int64_t row, int head, int count, uint32_t thread,
                                             Shared& shared) {
    const int64_t first = row * p.heads + head;
    const int blocks = p.depth / 16;
    const ptx::SharedAddr q_address = ptx::cvta_to_shared(&shared.q[0][0]);
    const int pairs_end = (count + 1) / 2 * 2;   // dot_products() reads pairs: an odd last head gets zeros beside it
    for (int i = static_cast<int>(thread); i < pairs_end * blocks; i += kThreads) {
        const int h = i / blocks, block = i - h * blocks;
        ptx::U32x4 word{0, 0, 0, 0};
        if (h < count) word = ptx::ld_global_nc_v4_u32(p.q + (first + h) * p.depth + block * 16);
        const ptx::SharedAddr to = q_address + static_cast<uint32_t>((h * kMaxDepth + block * 16) * sizeof(float));
        ptx::st_shared_v4_f32(to, decode_e4m3x4(word.x));
        ptx::st_shared_v4_f32(to + 16, decode_e4m3x4(word.y));
        ptx::st_shared_v4_f32(to + 32, decode_e4m3x4(word.z));
        ptx::st_shared_v4_f32(to + 48, decode_e4m3x4(word.w));
    }
    if (static_cast<int>(thread) < count)
        ptx::st_shared_f32(ptx::cvta_to_shared(&shared.q_scale[thread]),
                           ptx::ld_global_nc_f32(static_cast<const float*>(p.q_scale) + first + thread));
}

// Dot products of two heads with the thread's key: two independent chains, each i ascending.
__device__ __forceinline__ void dot_products(ptx::SharedAddr q, int depth, const float (&k)[kMaxDepth], float& even,
                                             float& odd) {
#pragma unroll
    for (int block = 0; block < kMaxDepth / 16; ++block) {
        if (block * 16 >= depth) continue;
#pragma unroll
        for (int i = block * 16; i < block * 16 + 16; i += 4) {
            const ptx::F32x4 a = ptx::ld_shared_v4_f32(q + i * sizeof(float));
            const ptx::F32x4 b = ptx::ld_shared_v4_f32(q + (kMaxDepth + i) * sizeof(float));
            even = ptx::fma_rn_f32(a.x, k[i], even);
            odd = ptx::fma_rn_f32(b.x, k[i], odd);
            even = ptx::fma_rn_f32(a.y, k[i + 1], even);
            odd = ptx::fma_rn_f32(b.y, k[i + 1], odd);
            even = ptx::fma_rn_f32(a.z, k[i + 2], even);
            odd = ptx::fma_rn_f32(b.z, k[i + 2], odd);
            even = ptx::fma_rn_f32(a.w, k[i + 3], even);
            odd = ptx::fma_rn_f32(b.w, k[i + 3], odd);
        }
    }
}

// sum over the heads of one row, for the thread's key. All threads call it: it synchronises the CTA.
__device__ __forceinline__ float score_row(const ScoreParams& p, int64_t row, uint32_t thread,
                                           const float (&k)[kMaxDepth], Shared& shared) {
    float sum = 0.0f;
    for (int head = 0; head < p.heads; head += kHeadChunk) {
        const int count = p.heads - head < kHeadChunk ? p.heads - head : kHeadChunk;
        ptx::bar_sync();   // the previous chunk has been read
        load_queries(p, row, head, count, thread, shared);
        ptx::bar_sync();   // this chunk is there
        for (int h = 0; h < count; h += 2) {
            float even = 0.0f, odd = 0.0f;
            dot_products(ptx::cvta_to_shared(&shared.q[h][0]), p.depth, k, even, odd);
            const ptx::SharedAddr scale = ptx::cvta_to_shared(&shared.q_scale[h]);
            sum = ptx::fma_rn_f32(ptx::ld_shared_f32(scale), ptx::max_nan_f32(even, 0.0f), sum);
            if (h + 1 < count) sum = ptx::fma_rn_f32(ptx::ld_shared_f32(scale + 4), ptx::max_nan_f32(odd, 0.0f), sum);
        }
    }
    return sum;
}

}  // namespace
}  // namespace lidx::generic_score

extern "C" __global__ void __launch_bounds__(lidx::generic_score::kThreads)
generic_score(const __grid_constant__ lidx::ScoreParams p) {
    using namespace lidx;
    using namespace lidx::generic_score;
    __shared__ Shared shared;
    const auto request = static_cast<int32_t>(ptx::ctaid_x());
    const RequestSpan span = request_span(p.view, request);
    const TileRange tokens = slice_tiles(span.tokens, ptx::ctaid_z(), ptx::nctaid_z());
    const auto key_begin = static_cast<int32_t>(ptx::ctaid_y()) * kTileKeys;
    if (key_begin >= span.keys || tokens.begin >= tokens.end) return;

    const uint32_t thread = ptx::tid_x();
    const int32_t key = key_begin + static_cast<int32_t>(thread);
    KeyPlace place{0, 0, false};
    if (key < span.keys) {
        place = find_key(p, request, key);
        if (!place.legal && p.check_word) ptx::st_global_u32(p.check_word, 1);
    }
    float k[kMaxDepth];
    load_key(p, place, k);
    float k_scale = 0.0f;
    if (place.legal)
        k_scale = ptx::ld_global_nc_f32(p.k_scale + place.page * p.k_scale_page_stride + int64_t{place.slot} * 4);

    for (int32_t token = tokens.begin; token < tokens.end; ++token) {
        const int64_t row = span.row_begin + token;
        const float sum = score_row(p, row, thread, k, shared);
        if (place.legal)
            ptx::st_global_f32(static_cast<float*>(p.scores) + row * p.score_stride + key,
                               ptx::mul_rn_f32(k_scale, sum));
    }
}

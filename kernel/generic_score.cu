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
// Tiles (requests, key tiles of 128, slices of the tokens), a CTA of 128 threads each. A CTA whose rows see none of its
// keys loads nothing. Budget per token and 128 keys at 64 heads, depth 128, per SM: 4 warps x 8192 fma = 32768 warp
// instructions, 8192 clocks of FMA pipe; 4 warps x 2048 broadcast reads of 16 bytes.
#include "kernel/generic_score_layout.h"
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
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

// Where a key's codes and its scale lie.
struct KeyPlace {
    int64_t page, scale_page;
    int32_t slot;
    bool legal;    // both page ids are ones of their pools
};
__device__ __forceinline__ KeyPlace find_key(const ScoreParams& p, int32_t request, int32_t key) {
    KeyPlace place{request, request, key, true};
    if (p.block_table) {
        const uint32_t index = static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size);
        const int32_t* entry = p.block_table + request * p.block_table_stride + index;
        const int32_t* scale_entry = p.scale_block_table + request * p.scale_block_table_stride + index;
        place.page = static_cast<uint32_t>(ptx::ld_global_nc_s32(entry));
        place.scale_page = static_cast<uint32_t>(ptx::ld_global_nc_s32(scale_entry));
        place.slot = key - static_cast<int32_t>(index) * p.page_size;
    }
    place.legal = place.page < p.num_pages && place.scale_page < p.scale_num_pages;
    return place;
}

// Decodes the thread's key. Blocks of 16 beyond the depth are left out here and in dot_products().
__device__ __forceinline__ void load_key(const ScoreParams& p, const KeyPlace& place, float (&k)[kMaxDepth]) {
    const uint8_t* codes = p.k + place.page * p.k_page_stride + static_cast<int64_t>(place.slot) * p.depth;
#pragma unroll
    for (int block = 0; block < kMaxDepth / 16; ++block) {
        ptx::U32x4 word{0, 0, 0, 0};
        if (block * 16 < p.depth) word = ptx::ld_global_nc_v4_u32(codes + block * 16);
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
    const int64_t first = row * p.heads + head;   // of q
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
                           load_weight(p, row, head + static_cast<int32_t>(thread)));
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

// One key tile of one slice of a request's tokens.
__device__ __forceinline__ void score_tile(const ScoreParams& p, int32_t request, int32_t key_begin, uint32_t slice,
                                           uint32_t thread, Shared& shared) {
    const RequestRows rows = request_rows(p.view, request);
    const TileRange tokens = slice_tiles(rows.tokens, slice, p.tiles[2]);
    if (tokens.begin >= tokens.end) return;
    const bool alike = rows_see_alike(p.view);
    KeyRange keys{0, 0};
    if (alike) keys = live_keys(p.view, request, rows, rows.begin);
    const int32_t key = key_begin + static_cast<int32_t>(thread);   // and a column that this thread fills
    bool known = false, legal = false;   // the key has been looked up; it is there
    float k_scale = 0.0f;
    float k[kMaxDepth] = {};
    for (int32_t token = tokens.begin; token < tokens.end; ++token) {
        const int32_t row = rows.begin + token;
        if (!alike) keys = live_keys(p.view, request, rows, row);
        const int64_t cells = row * p.score_stride;
        if (key < p.fill_columns && dead_column(p, keys, key)) store_score(p, cells + key, dead_score());
        if (key_begin >= keys.end || key_begin + kTileKeys <= keys.begin) continue;
        const bool lives = keys.has(key);
        if (lives && !known) {
            known = true;
            const KeyPlace place = find_key(p, request, key);
            legal = place.legal;
            if (legal) {
                load_key(p, place, k);
                k_scale = ptx::ld_global_nc_f32(p.k_scale + place.scale_page * p.k_scale_page_stride +
                                                int64_t{place.slot} * 4);
            } else {
                report_bad_page(p);
            }
        }
        const float score = ptx::mul_rn_f32(k_scale, score_row(p, row, thread, k, shared));
        if (lives && (legal || p.fill_columns != 0))
            store_score(p, cells + column_of(p, keys, key), legal ? score : dead_score());
    }
}

}  // namespace
}  // namespace lidx::generic_score

// A launch with a limit of its CTAs has fewer than tiles; they take them in turn.
extern "C" __global__ void __launch_bounds__(lidx::generic_score::kThreads)
generic_score(const __grid_constant__ lidx::ScoreParams p) {
    using namespace lidx;
    using namespace lidx::generic_score;
    __shared__ Shared shared;
    const uint32_t ctas = ptx::nctaid_x() * ptx::nctaid_y() * ptx::nctaid_z();
    const uint32_t tiles = p.tiles[0] * p.tiles[1] * p.tiles[2];
    uint32_t tile = ptx::ctaid_x() + ptx::nctaid_x() * (ptx::ctaid_y() + ptx::nctaid_y() * ptx::ctaid_z());
    for (;;) {
        const uint32_t key_tile = tile / p.tiles[0] % p.tiles[1];
        score_tile(p, static_cast<int32_t>(tile % p.tiles[0]), static_cast<int32_t>(key_tile) * kTileKeys,
                   tile / p.tiles[0] / p.tiles[1], ptx::tid_x(), shared);
        if (tiles - tile <= ctas) return;
        tile += ctas;
    }
}

// SPDX-License-Identifier: Apache-2.0
// From Tensor Memory to scores: what the four reducing warps of the sm_100 kernels do with a token tile. Part of
// sm100_score.cu, which has the arithmetic, the picture and the hand-overs.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm100_work.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/tcgen05.cuh"

namespace lidx::sm100_score {

namespace {

// ---- a thread's share of what a token tile needs beside S: the weight of a column, and in the last warp the keys that
// a row sees. Nothing for rows that the request does not have: weight +0, no keys.
struct Share {
    float weight;
    KeyRange keys;
};
template <class T>
__device__ __forceinline__ Share load_share(const ScoreParams& p, const Work& work, int32_t n, const Thread& self) {
    Share share{0.0f, {0, 0}};
    if (n >= work.tile_end) return share;
    const auto column = static_cast<int32_t>(self.index);
    const int32_t token = n * T::kTokens + column / T::kHeads;
    if (column < T::kColumns && token < work.token_end)
        share.weight = load_weight(p, int64_t{work.rows.begin} + token, column % T::kHeads);
    const int32_t own = n * T::kTokens + static_cast<int32_t>(self.lane);
    if (self.warp == kThreads / 32 - 1 && self.lane < T::kTokens && own < work.token_end)
        share.keys = live_keys(p.view, work.request, work.rows, work.rows.begin + own);
    return share;
}
template <class T>
__device__ __forceinline__ void keep_share(const Share& share, uint32_t turn, const Thread& self,
                                           typename T::SharedLayout& shared) {
    if (static_cast<int32_t>(self.index) < T::kColumns)
        ptx::st_shared_f32(ptx::cvta_to_shared(&shared.weights[turn & 1][self.index]), share.weight);
    if (self.warp == kThreads / 32 - 1 && self.lane < T::kTokens)
        ptx::st_shared_v2_u32(ptx::cvta_to_shared(&shared.sights[turn & 1][self.lane]),
                              static_cast<uint32_t>(share.keys.begin), static_cast<uint32_t>(share.keys.size()));
}

// All of the thread's TMEM lane into registers, complete when it returns. Whole warp.
template <class T>
__device__ __forceinline__ void drain(ptx::TmemAddr s, float (&row)[T::kColumns / 32][32]) {
    ptx::bar_warp_sync(ptx::kFullMask);   // tcgen05.ld is .aligned; waiting and the issuer's turn may have diverged
#pragma unroll
    for (int block = 0; block < T::kColumns / 32; ++block)
        ptx::tcgen05_ld_32x32b_x32(row[block], s.column(block * 32));
    ptx::tcgen05_wait_ld();
}

// relu of a pair of columns. A quarter of the pairs goes through the FMA pipe, the rest through the ALU: 192 clocks
// each per 128 x 128 tile. All on the ALU would take 256 there, half and half 256 on the FMA pipe.
__device__ __forceinline__ ptx::F32x2 relu(int pair, float a, float b) {
    if (pair % 4 != 0) return ptx::mov_b64(ptx::max_nan_f32(a, 0.0f), ptx::max_nan_f32(b, 0.0f));
    const ptx::F32x2 magnitude = ptx::mov_b64(ptx::abs_f32(a), ptx::abs_f32(b));
    return ptx::mul_rn_f32x2(ptx::add_rn_f32x2(ptx::mov_b64(a, b), magnitude), ptx::mov_b64(0.5f, 0.5f));
}

// sum[token] = sum over the heads, four heads of every token in turn.
template <class T>
__device__ __forceinline__ void reduce(const float (&row)[T::kColumns / 32][32], uint32_t turn,
                                       typename T::SharedLayout& shared, float (&sum)[T::kTokens]) {
    const ptx::SharedAddr weights = ptx::cvta_to_shared(shared.weights[turn & 1]);
    ptx::F32x2 total[T::kTokens];   // even heads, odd heads
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token) total[token] = ptx::mov_b64(0.0f, 0.0f);
#pragma unroll
    for (int head = 0; head < T::kHeads; head += 4) {
#pragma unroll
        for (int token = 0; token < T::kTokens; ++token) {
            const int column = token * T::kHeads + head;
            const float* x = &row[column / 32][column % 32];
            ptx::F32x2 w01, w23;
            ptx::ld_shared_v2_b64(w01, w23, weights + column * sizeof(float));
            total[token] = ptx::fma_rn_f32x2(w01, relu(column / 2, x[0], x[1]), total[token]);
            total[token] = ptx::fma_rn_f32x2(w23, relu(column / 2 + 1, x[2], x[3]), total[token]);
        }
    }
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token) {
        float even, odd;
        ptx::mov_b64(even, odd, total[token]);
        sum[token] = ptx::add_rn_f32(even, odd);
    }
}

// The cell of the thread's key (relative: of column 0) in the first row of the first token tile. It moves on with the
// tiles, so that the loop multiplies no strides.
template <class T>
__device__ __forceinline__ uint8_t* first_cells(const ScoreParams& p, const Work& work, const OwnKey& own) {
    const int64_t row = int64_t{work.rows.begin} + work.tile_begin * T::kTokens;
    const int64_t cell = row * p.score_stride + (p.relative != 0 ? 0 : own.key);
    return static_cast<uint8_t*>(p.scores) + cell * float_bytes(p.score_type);
}

// The scores of a token tile, in the rows that see the thread's key. A warp's lanes hold consecutive keys: each store
// of fp32 is one full line of 128 bytes.
template <class T>
__device__ __forceinline__ void store_tile(const ScoreParams& p, uint32_t turn, const OwnKey& own, uint8_t*& cells,
                                           const float (&sum)[T::kTokens], typename T::SharedLayout& shared) {
    const int64_t row_bytes = p.score_stride * float_bytes(p.score_type);
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token, cells += row_bytes) {
        uint32_t begin, size;
        ptx::ld_shared_v2_u32(begin, size, ptx::cvta_to_shared(&shared.sights[turn & 1][token]));
        const uint32_t offset = static_cast<uint32_t>(own.key) - begin;
        if (offset < size)
            store_float(cells, p.relative != 0 ? offset : 0, p.score_type, ptx::mul_rn_f32(own.scale, sum[token]));
    }
}

}  // namespace
}  // namespace lidx::sm100_score

// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core for many tokens, sm_90a: depth 128, heads 32 to 128, paged or
// contiguous K.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = Q K^T by wgmma, the other way round than in sm90_score.cu: operand A eight heads of eight tokens [64, 128 bytes],
// operand B a tile of 96 keys [96, 128 bytes]. Row 16 w + 8 e + 4 t + q of A is head 8 j + 2 q + e of token 2 w + t. So
// a quad of lanes has one token and two heads an MMA, a lane 24 keys; its sums over the heads are 24 registers that it
// adds to from MMA to MMA, with two weights each. Once a tile the four quads of a token exchange their sums.
// A warpgroup takes every third key tile and multiplies it with all heads of its token block.
//
// Arithmetic: bit for bit that of sm90_score.cu. Quad q of a token has part p[q]:
//     p[q] = fma(q_scale[h], max.NaN(S[h], +0), p[q])    h = 2q, 2q + 1, 8 + 2q, 8 + 2q + 1, ...    from +0
//     score = k_scale * ((p[0] + p[1]) + (p[2] + p[3]))
//
// Pipeline of a warpgroup: time runs down. Two accumulator sets, so that one multiplies while the other is reduced; all
// MMAs of a tile are done before the next tile begins, while the other two warpgroups keep the tensor core busy.
//
//     warps 12-14 (tile n: warp n % 3)   warpgroup n % 3
//     K tile n -> stage n % 6            k_full: MMA a = heads 0-7
//                                        MMA b = heads 8-15; a done: reduce a
//                                        MMA a = heads 16-23; b done: reduce b
//                                        ...
//                                        all done: reduce b; exchange sums; k_empty; store
//
// Hand-overs: those of sm90_score.cu, but a stage belongs to one warpgroup (four arrivals).
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_walk.cuh"
#include "kernel/sm90_wide_layout.h"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm90_wide {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

constexpr int kLaneKeys = kTileKeys / 16;   // keys of a tile whose scores a lane ends up with

using sm90_score::fill;
using sm90_score::hidden;
using sm90_score::load_all;
using sm90_score::load_int;
using sm90_score::load_sees;
using sm90_score::Loader;
using sm90_score::make_loader;
using sm90_score::Stage;
using sm90_score::stage_at;
using sm90_score::wait;

struct Consumer {
    uint32_t warp, lane;              // warp: of the CTA
    uint64_t k_descriptor, q_descriptor;
    ptx::SharedAddr weights;          // of the lane's token and its quad's first head
    KeyRange sees;                    // of the lane's token
    int64_t row;                      // of scores: the cell of the lane's first key in the tile of key 0; T::kPlain:
                                      // its address
    // The lane's keys of a tile are this one and every 16th behind it.
    __device__ __forceinline__ uint32_t key() const { return quad() / 2 * 8 + lane % 4 * 2 + quad() % 2; }
    __device__ __forceinline__ uint32_t quad() const { return lane / 4 % 4; }
    __device__ __forceinline__ uint32_t token() const { return warp % 4 * 2 + lane / 16; }
};

// D = Q K^T of eight heads, j, and the tile whose descriptor is k.
__device__ __forceinline__ void multiply(const Consumer& self, int j, uint64_t k, float (&d)[kTileKeys / 2]) {
    const uint64_t q = self.q_descriptor + j * (kSwizzleAtomBytes / 16);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n96k32_f32_e4m3_e4m3(d, smem_descriptor_advance(q, step * kMmaK),
                                                     smem_descriptor_advance(k, step * kMmaK), step > 0);
    ptx::wgmma_commit_group();
}

// Adds heads 8 j + 2 q and the next to the sums: sum[2 i + e] is key 8 i + 2 (lane % 4) + e.
__device__ __forceinline__ void reduce(int j, const float (&weight)[2], float (&d)[kTileKeys / 2],
                                       float (&sum)[kTileKeys / 4]) {
    // The compiler may not move reads of the accumulators above the wait that precedes this.
#pragma unroll
    for (float& x : d) asm volatile("" : "+f"(x));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kTileKeys / 8; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e)
                sum[2 * i + e] = ptx::fma_rn_f32(weight[half], ptx::max_nan_f32(d[4 * i + 2 * half + e], 0.0f),
                                                 j == 0 && half == 0 ? 0.0f : sum[2 * i + e]);
        }
    }
}

// Adds over the four quads of a token: total[m] is key self.key() + 16 m.
__device__ __forceinline__ void exchange(const Consumer& self, const float (&sum)[kTileKeys / 4],
                                         float (&total)[kLaneKeys]) {
    const bool odd = self.quad() % 2 != 0, high = self.quad() >= 2;
#pragma unroll
    for (int m = 0; m < kLaneKeys; ++m) {
        float pair[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float even_key = sum[4 * m + 2 * i], odd_key = sum[4 * m + 2 * i + 1];
            pair[i] = ptx::add_rn_f32(odd ? odd_key : even_key,
                                      ptx::shfl_sync_bfly(odd ? even_key : odd_key, 4, ptx::kFullMask));
        }
        total[m] = ptx::add_rn_f32(high ? pair[1] : pair[0],
                                   ptx::shfl_sync_bfly(high ? pair[0] : pair[1], 8, ptx::kFullMask));
    }
}

// Adds the quads' sums of a tile, frees its stage and stores the scores.
template <class T>
__device__ __forceinline__ void finish(const ScoreParams& p, const Consumer& self, typename T::Shared& shared,
                                       uint32_t stage, const float (&sum)[kTileKeys / 4], int32_t tile_key) {
    float score[kLaneKeys];
    exchange(self, sum, score);
    const ptx::SharedAddr scales = ptx::cvta_to_shared(&shared.k_scale[stage][0]) + self.key() * 4;
#pragma unroll
    for (int m = 0; m < kLaneKeys; ++m) score[m] = ptx::mul_rn_f32(ptx::ld_shared_f32(scales + m * 64), score[m]);
    const ptx::U32x4 live = ptx::ld_shared_v4_u32(ptx::cvta_to_shared(shared.live[stage]));
    ptx::bar_warp_sync(ptx::kFullMask);
    if (self.lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage]));
    const int64_t row = self.row + int64_t{tile_key} * (T::kPlain ? 4 : 1);
    const bool whole = self.sees.begin <= tile_key && self.sees.end >= tile_key + kTileKeys &&
                       (live.x & live.y & live.z) == ~0u;
    if (T::kPlain && ptx::vote_sync_ballot(whole, ptx::kFullMask) == ptx::kFullMask) {
#pragma unroll
        for (int m = 0; m < kLaneKeys; ++m) ptx::st_global_f32(reinterpret_cast<float*>(row) + 16 * m, score[m]);
        return;
    }
    const auto first = static_cast<int32_t>(self.key());
    const uint32_t words[3] = {live.x >> first, live.y >> first, live.z >> first};
#pragma unroll
    for (int m = 0; m < kLaneKeys; ++m) {
        const bool lives = (words[m / 2] >> (16 * (m % 2)) & 1) != 0;
        const bool seen = self.sees.has(tile_key + first + 16 * m);
        // A key that the row sees on a page that must not be read is dead: -inf where the launch fills.
        if (!seen || !(lives || p.fill_columns != 0)) continue;
        const float value = lives ? score[m] : dead_score();
        if constexpr (T::kPlain) ptx::st_global_f32(reinterpret_cast<float*>(row) + 16 * m, value);
        else store_score(p, row + 16 * m, value);
    }
}

// What the scores of the item's tiles need.
template <class T>
__device__ __forceinline__ void take_row(const ScoreParams& p, Consumer& self, typename T::Shared& shared,
                                         uint32_t buffer, int32_t first_row) {
    self.sees = load_sees(ptx::cvta_to_shared(shared.sees[buffer]), self.token());
    self.row = (int64_t{first_row} + self.token()) * p.score_stride + self.key();
    if (!T::kPlain && p.relative != 0) self.row -= self.sees.begin;
    if constexpr (T::kPlain) self.row = reinterpret_cast<int64_t>(static_cast<float*>(p.scores) + self.row);
}

template <class T>
__device__ __forceinline__ void score_tile(const ScoreParams& p, const Consumer& self, typename T::Shared& shared,
                                           uint32_t ring, int32_t tile_key) {
    const Stage stage = stage_at<T>(ring);
    const uint64_t k = self.k_descriptor + stage.index * (kTileKeys * kDepth / 16);
    float d[T::kMmas][kTileKeys / 2], sum[kTileKeys / 4];   // of d two at a time: accumulators()
    wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
    multiply(self, 0, k, d[T::accumulators(0)]);
#pragma unroll
    for (int j = 0; j < T::kMmas; ++j) {
        const bool last = j + 1 == T::kMmas, early = T::early_weights(j);
        float weight[2];
        if (early) ptx::ld_shared_v2_f32(weight[0], weight[1], self.weights + j * 32);
        if (!last) multiply(self, j + 1, k, d[T::accumulators(j + 1)]);
        if (!early) ptx::ld_shared_v2_f32(weight[0], weight[1], self.weights + j * 32);
        if (last) ptx::wgmma_wait_group<0>();
        else ptx::wgmma_wait_group<1>();
        reduce(j, weight, d[T::accumulators(j)], sum);
    }
    finish<T>(p, self, shared, stage.index, sum, tile_key);
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, typename T::Shared& shared, uint32_t warp,
                                            uint32_t lane) {
    Consumer self;
    self.warp = warp;
    self.lane = lane;
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
    uint32_t ring = warp / 4;   // of the warpgroup's next tile
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % T::kQBuffers;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / T::kQBuffers % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        if (item.w == 0) return;
        self.q_descriptor = wgmma_descriptor_k_major_128b(
            ptx::cvta_to_shared(shared.q[buffer * (kBlockTokens / 2)]).value, T::kMmas * kSwizzleAtomBytes);
        self.weights = ptx::cvta_to_shared(shared.q_scale[buffer]) +
                       (self.token() * T::kWeightStride + 2 * self.quad()) * 4;
        take_row<T>(p, self, shared, buffer, static_cast<int32_t>(item.z));
        int32_t tile_key = load_int(from + 16) + static_cast<int32_t>(ring - item.x) * kTileKeys;
#pragma unroll 1
        for (const uint32_t end = item.x + item.y; ring < end;
             ring += kWarpgroups, tile_key += kWarpgroups * kTileKeys)
            score_tile<T>(p, self, shared, ring, tile_key);
        if (!T::kPlain && p.fill_columns > 0) {
            const int32_t of = hidden(static_cast<int32_t>(buffer));
            const ptx::SharedAddr filled = ptx::cvta_to_shared(&shared.item[of]);
            fill(p, ptx::cvta_to_shared(shared.sees[of]), load_int(filled + 8), load_int(filled + 12),
                 load_int(filled + 20), load_int(filled + 24), ptx::tid_x(), 128 * kWarpgroups);
        }
        ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));   // every lane: docs/kernel-sm90.md
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    sm90_score::begin_hand_overs<T>(shared, k_map, q_map, kEmptyArrivals, 128 * kWarpgroups, thread);
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on
    ptx::griddepcontrol_launch_dependents();   // not before: a selection reads who sees what ahead of its own wait
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    if (warp >= 4 * kWarpgroups) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        Loader loader = make_loader<T>(p, k_map, q_map, warp - 4 * kWarpgroups, thread % 32);
        load_all<T>(p, loader, shared);
    } else {
        sm90_score::find_start<T>(p, shared, thread);
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume_all<T>(p, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_wide

#define LIDX_SM90_WIDE_ENTRY(symbol, heads, depth, tokens, plain)                                                      \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_wide::kThreads, 1) symbol(                                 \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm90_wide::kDepth);                                                               \
        static_assert(tokens == lidx::sm90_wide::kBlockTokens);                                                        \
        lidx::sm90_wide::score<lidx::sm90_wide::Tile<heads, plain>>(k_map, q_map, p);                                  \
    }
#define LIDX_SM90_WIDE_SCORE_ENTRY(symbol, heads, depth, tokens) \
    LIDX_SM90_WIDE_ENTRY(symbol, heads, depth, tokens, false)
#define LIDX_SM90_WIDE_PLAIN_ENTRY(symbol, heads, depth, tokens) \
    LIDX_SM90_WIDE_ENTRY(symbol, heads, depth, tokens, true)
LIDX_SM90_WIDE_VARIANTS(LIDX_SM90_WIDE_SCORE_ENTRY)
LIDX_SM90_WIDE_PLAIN_VARIANTS(LIDX_SM90_WIDE_PLAIN_ENTRY)

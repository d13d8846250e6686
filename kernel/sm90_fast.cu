// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core, sm_90a, the fast mode: fp16 accumulators and an fp16 reduction, rounded
// more coarsely than sm90_score.cu and never overflowing. Depth 128, 64 or 32 heads, prefill; paged or contiguous K.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = K Q^T by wgmma with fp16 accumulators: operand A a tile of 64 keys [64, 128 bytes], operand B 256 token-head
// pairs [256, 128 bytes], four tokens of 64 heads or eight of 32. Each of three warpgroups has tokens of its own and
// multiplies every key tile with them; fp16 accumulators are half the registers, and half their traffic.
//
// Scaling, once per row (powers of two, from the row alone; docs/kernel-sm90.md, "Fast mode"):
//     shift[h]  the smallest from 0 on with sum_i |q[h, i]| * 2^-shift <= 144: no dot product can pass 65504
//     q'[h, i]  = e4m3(q[h, i] * 2^-shift[h]), nearest even
//     u         = ceil((1 + log2(H / 8) + max_h (floor(log2 |q_scale[h]|) + shift[h])) / 2), finite q_scale only
//     w[h]      = fp16(q_scale[h] * 2^(shift[h] - 2 u)), nearest even: at most 8 / H, so no sum can pass 65504
// Arithmetic. Four wgmma of K = 32, depth ascending, the first without accumulator input (13-bit window, results
// rounded to fp16). Then fp16, nearest even, from +0; lane q of a quad holds the columns 8 j + 2 q and 8 j + 2 q + 1:
//     e[q], o[q] = fma16(w[h], relu(S[h]), e or o)   h = 8 j + 2 q (e), 8 j + 2 q + 1 (o), j ascending
// and fp32: p[q] = e[q] + o[q];  score = k_scale * ((((p[0] + p[1]) + (p[2] + p[3])) * 2^u) * 2^u)
//
// Pipeline: time runs down. One accumulator set a warpgroup; while one is reduced the others multiply.
//
//     warps 12-14 (tile n: warp n % 3)   warpgroups 0-2
//     warp 15: item 0, weights           .
//     K tile 0 -> stage 0                q_full: TMA of its Q; codes_full: scale it, weights -> registers
//     K tile 1 -> stage 1                k_full 0: MMA, done: k_empty 0; reduce; store
//     ...                                k_full 1: MMA, done: k_empty 1; reduce; store
//     warp 15: item 1, weights           ...
//     K tile 12 waits for k_empty        last tile: fill dead columns; q_empty
//
// Hand-overs: those of sm90_score.cu, but Q is its warpgroup's own:
//     codes_full[w]  TMA -> warpgroup w: its Q, issued by its first warp once all four are done with the last one.
//     query          a warpgroup's named barrier: done with the last Q; Q is scaled in place (fence.proxy.async, wgmma
//                    reads it next); weights are scaled.
//
// Budget per 64 keys x 256 columns (clocks of an SM; docs/kernel-sm90.md): MMA 512; per warp and sub-partition 128
// HFMA2, half of them relu, and about 80 others (64 heads), 130 (32). 207 KiB of shared memory, 144 registers a
// consumer, 80 a loader.
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_fast_layout.h"
#include "kernel/sm90_fast_scale.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_walk.cuh"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/half.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm90_fast {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

using sm90_score::fill;
using sm90_score::load_all;
using sm90_score::load_group_query;
using sm90_score::load_int;
using sm90_score::load_sees;
using sm90_score::Loader;
using sm90_score::make_loader;
using sm90_score::quad_sum;
using sm90_score::Stage;
using sm90_score::stage_at;
using sm90_score::wait;

constexpr uint32_t kQueryBarrier = 1;   // named barrier of warpgroup 0; 0 is the CTA's

// ---- warpgroups 0-2: scale, multiply, reduce, store

template <class T>
struct Consumer {
    uint32_t warp, lane;               // warp: of the warpgroup
    uint64_t k_descriptor, q_descriptor;
    uint32_t weights[kColumns / 8];    // fp16, of columns 8 j + 2 q and the next
    float unscale[T::kPairs];          // 2^u of the lane's token of a pair
    int32_t token, tokens;             // the lane's first, of the item's; it has every second one from there on
    int32_t row;                       // of the item's first token
    KeyRange whole;                    // keys that all tokens of the group see, where scores are fp32 at their keys
    float* cell;                       // of the lane's first token and its key in the next tile
    __device__ __forceinline__ uint32_t quad() const { return lane % 4; }
    // The key of a tile whose sums this lane ends up with.
    __device__ __forceinline__ int32_t key() const {
        return static_cast<int32_t>(16 * warp + lane / 4 + 8 * (quad() / 2));
    }
};

// Loads the warpgroup's Q of an item, scales it and the weights.
template <class T>
__device__ __forceinline__ void take_item(Consumer<T>& self, typename T::Shared& shared, const ptx::TensorMap& q_map,
                                          uint32_t warpgroup, uint32_t items, int32_t row, uint32_t loads) {
    const uint32_t buffer = items % T::kQBuffers;
    const uint32_t barrier = kQueryBarrier + warpgroup, thread = 32 * self.warp + self.lane;
    const ptx::SharedAddr q = ptx::cvta_to_shared(shared.q[warpgroup * (kColumns / 64)]);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.codes_full[warpgroup]);
    const ptx::SharedAddr scales = ptx::cvta_to_shared(&shared.q_scale[buffer][warpgroup * kColumns]);
    const ptx::SharedAddr shifts = ptx::cvta_to_shared(&shared.shift[warpgroup * kColumns]);
    const ptx::SharedAddr weights = ptx::cvta_to_shared(&shared.weight[warpgroup * kColumns / 2]);
    const ptx::SharedAddr unscales = ptx::cvta_to_shared(&shared.unscale[warpgroup * T::kGroupTokens]);
    if (items > 0) {   // the first comes by the loading warp
        ptx::bar_sync(barrier, 128);   // all warps have multiplied the last item's
        if (self.warp == 0 && ptx::elect_sync(ptx::kFullMask)) load_group_query<T>(&q_map, shared, warpgroup, row);
    }
    wait(full, loads % 2);
    scale_queries(thread, q, shifts);
    ptx::fence_proxy_async_shared_cta();   // ordinary stores here, wgmma's reads next
    ptx::bar_sync(barrier, 128);
    scale_weights<T>(thread, scales, shifts, weights, unscales);
    ptx::bar_sync(barrier, 128);
#pragma unroll
    for (uint32_t j = 0; j < kColumns / 8; ++j)
        self.weights[j] = ptx::ld_shared_u32(weights + (4 * j + self.quad()) * 4);
#pragma unroll
    for (uint32_t i = 0; i < T::kPairs; ++i)
        self.unscale[i] = ptx::ld_shared_f32(unscales + (2 * i + self.quad() % 2) * 4);
}

// D = K Q^T of the tile in a stage.
template <class T>
__device__ __forceinline__ void multiply(const Consumer<T>& self, uint32_t stage, uint32_t (&d)[kColumns / 4]) {
    const uint64_t k = self.k_descriptor + stage * (kTileKeys * kDepth / 16);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n256k32_f16_e4m3_e4m3(d, smem_descriptor_advance(k, step * kMmaK),
                                                      smem_descriptor_advance(self.q_descriptor, step * kMmaK),
                                                      step > 0);
    ptx::wgmma_commit_group();
}

// This lane's part of a token's head sum: rows lane / 4 + 8 * half of the warp.
template <class T>
__device__ __forceinline__ float reduce(const Consumer<T>& self, const uint32_t (&d)[kColumns / 4], int token,
                                        int half) {
    constexpr uint32_t kOnes = 0x3c003c00;
    uint32_t sums = 0;
#pragma unroll
    for (int j = token * T::kChain; j < (token + 1) * T::kChain; ++j)   // relu on the FMA pipe (docs/trials-sm90.md)
        sums = ptx::fma_rn_f16x2(self.weights[j], ptx::fma_rn_relu_f16x2(d[2 * j + half], kOnes, 0), sums);
    return ptx::add_rn_f32(ptx::cvt_f32_f16(static_cast<uint16_t>(sums)),
                           ptx::cvt_f32_f16(static_cast<uint16_t>(sums >> 16)));
}

// Scores of a tile that not all tokens see whole, or that are not fp32 at the column of their key.
template <class T>
__device__ __forceinline__ void store_cells(const ScoreParams& p, const Consumer<T>& self, ptx::SharedAddr sees,
                                            const float (&score)[T::kPairs], int32_t key, bool live) {
#pragma unroll
    for (int i = 0; i < T::kPairs; ++i) {
        const int32_t token = self.token + 2 * i;
        if (token >= self.tokens) break;
        const KeyRange range = load_sees(sees, token);
        // A key that the row sees on a page that must not be read is dead: -inf where the launch fills.
        if (range.has(key) && (live || p.fill_columns != 0))
            store_score(p, (int64_t{self.row} + token) * p.score_stride + column_of(p, range, key),
                        live ? score[i] : dead_score());
    }
}

template <class T>
__device__ __forceinline__ void score_tile(const ScoreParams& p, Consumer<T>& self, typename T::Shared& shared,
                                           uint32_t ring, int32_t tile_key, ptx::SharedAddr sees) {
    const Stage stage = stage_at<T>(ring);
    uint32_t d[kColumns / 4];
    wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
    multiply(self, stage.index, d);
    uint32_t live[2];
    ptx::ld_shared_v2_u32(live[0], live[1], ptx::cvta_to_shared(shared.live[stage.index]));
    const int32_t key = self.key();
    const float k_scale = ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[stage.index][key]));
    ptx::wgmma_wait_group<0>();
    // The compiler may not move reads of the accumulators above the wait that precedes this.
#pragma unroll
    for (uint32_t& x : d) asm volatile("" : "+r"(x));
    ptx::bar_warp_sync(ptx::kFullMask);
    if (self.lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage.index]));
    float score[T::kPairs];
#pragma unroll
    for (int i = 0; i < T::kPairs; ++i) {
        const float sum = quad_sum(self.quad(), reduce(self, d, 2 * i, 0), reduce(self, d, 2 * i, 1),
                                   reduce(self, d, 2 * i + 1, 0), reduce(self, d, 2 * i + 1, 1));
        score[i] = ptx::mul_rn_f32(
            k_scale, ptx::mul_rn_f32(ptx::mul_rn_f32(sum, self.unscale[i]), self.unscale[i]));
    }
    if (self.whole.begin <= tile_key && tile_key + kTileKeys <= self.whole.end && (live[0] & live[1]) == UINT32_MAX) {
#pragma unroll
        for (int i = 0; i < T::kPairs; ++i) ptx::st_global_f32(self.cell + 2 * i * p.score_stride, score[i]);
    } else {
        store_cells(p, self, sees, score, tile_key + key,
                    ((self.warp < 2 ? live[0] : live[1]) >> key % 32 & 1) != 0);
    }
    self.cell += kTileKeys;
}

// The key range that all tokens of the group see; nothing where a token is missing or cells need more than a store.
template <class T>
__device__ __forceinline__ KeyRange whole_range(const ScoreParams& p, ptx::SharedAddr sees, int32_t token,
                                                int32_t tokens) {
    if (p.score_type != FloatType::kFp32 || p.relative != 0 || token + T::kGroupTokens > tokens) return {0, 0};
    KeyRange whole{0, INT32_MAX};
#pragma unroll
    for (int32_t i = 0; i < T::kGroupTokens; ++i) {
        const KeyRange range = load_sees(sees, token + i);
        whole = {range.begin > whole.begin ? range.begin : whole.begin, range.end < whole.end ? range.end : whole.end};
    }
    return whole;
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, const ptx::TensorMap& q_map,
                                            typename T::Shared& shared, uint32_t warp, uint32_t lane) {
    const uint32_t warpgroup = warp / 4;
    Consumer<T> self;
    self.warp = warp % 4;
    self.lane = lane;
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
    self.q_descriptor =
        wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.q[warpgroup * (kColumns / 64)]).value);
    const auto group_token = static_cast<int32_t>(warpgroup) * T::kGroupTokens;
    uint32_t loads = 0;   // of the warpgroup's Q
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % 2;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / 2 % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::SharedAddr sees = ptx::cvta_to_shared(shared.sees[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        const auto tokens = static_cast<int32_t>(item.w);
        if (tokens == 0) return;
        const uint32_t end = item.x + item.y;
        if (item.x != end && group_token < tokens) {
            self.row = static_cast<int32_t>(item.z);
            take_item(self, shared, q_map, warpgroup, items, self.row, loads++);
            self.token = group_token + static_cast<int32_t>(self.quad() % 2);
            self.tokens = tokens;
            self.whole = whole_range<T>(p, sees, group_token, tokens);
            int32_t tile_key = load_int(from + 16);
            self.cell = static_cast<float*>(p.scores) + (int64_t{self.row} + self.token) * p.score_stride + tile_key +
                        self.key();
#pragma unroll 1
            for (uint32_t ring = item.x; ring != end; ++ring, tile_key += kTileKeys)
                score_tile(p, self, shared, ring, tile_key, sees);
        } else {
            for (uint32_t ring = item.x; ring != end; ++ring) {
                const Stage stage = stage_at<T>(ring);
                wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
                ptx::bar_warp_sync(ptx::kFullMask);
                if (lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage.index]));
            }
        }
        if (p.fill_columns > 0)
            fill(p, sees, static_cast<int32_t>(item.z), tokens, load_int(from + 20), load_int(from + 24), ptx::tid_x(),
                 128 * kWarpgroups);
        ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));   // every lane: docs/kernel-sm90.md
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    if (thread < kStages) {
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_full[thread]), sm90_score::kFullArrivals);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_empty[thread]), kEmptyArrivals);
        if (thread < T::kQBuffers) {
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[thread]), sm90_score::kItemArrivals);
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_empty[thread]), 128 * kWarpgroups);
        }
        if (thread < kWarpgroups) ptx::mbarrier_init(ptx::cvta_to_shared(&shared.codes_full[thread]), 1);
        ptx::fence_mbarrier_init_release_cluster();
        ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
    } else if (thread == 128 * kWarpgroups) {
        ptx::prefetch_tensormap(&k_map);
        ptx::prefetch_tensormap(&q_map);
    }
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
        consume_all<T>(p, q_map, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_fast

#define LIDX_SM90_FAST_ENTRY(symbol, heads, depth, tokens)                                                          \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_fast::kThreads, 1) symbol(                              \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,     \
        const __grid_constant__ lidx::ScoreParams p) {                                                              \
        static_assert(depth == lidx::sm90_fast::kDepth);                                                            \
        static_assert(tokens == lidx::sm90_fast::Tile<heads>::kBlockTokens);                                        \
        lidx::sm90_fast::score<lidx::sm90_fast::Tile<heads>>(k_map, q_map, p);                                      \
    }
LIDX_SM90_FAST_VARIANTS(LIDX_SM90_FAST_ENTRY)

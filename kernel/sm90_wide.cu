// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core for 128 heads, sm_90a: depth 128, paged or contiguous K, any tokens. The
// body takes any number of heads that 16 divides; up to 64 sm90_score.cu is faster (docs/kernel-sm90.md).
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = Q K^T by wgmma, the other way round than in sm90_score.cu: operand A eight heads of eight tokens [64, 128 bytes],
// row 8 h + token; operand B a tile of 96 keys [96, 128 bytes]. Thread t of a warpgroup then has two heads (half 0 and
// 1) of token t % 32 / 4 and 24 keys: its sums over the heads are 24 registers that it adds to from MMA to MMA, with
// two weights each, and nothing is exchanged between lanes. A warp w has the heads 8 j + 2 w and 8 j + 2 w + 1, j = 0,
// 1, ...; the four warps' sums meet once a tile, in the shared memory that the tile's codes no longer need.
// A warpgroup takes every third key tile and multiplies it with all heads of its token block.
//
// Arithmetic: bit for bit that of sm90_score.cu. p[w] here is p[q] there:
//     p[w] = fma(q_scale[h], max.NaN(S[h], +0), p[w])    h = 2w, 2w + 1, 8 + 2w, 8 + 2w + 1, ...    from +0
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
//                                        all done; the four warps write their sums over the tile, read all four;
//                                        k_empty; store
//
// Hand-overs: those of sm90_score.cu, but a stage belongs to one warpgroup (four arrivals), and its shared memory is
// written by ordinary stores before it goes back to TMA (fence.proxy.async). `sums`: a warpgroup's named barrier,
// before the sums are written (all warps' MMAs have read the tile) and after.
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_loader.cuh"
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

using sm90_score::hidden;
using sm90_score::load_all;
using sm90_score::Loader;
using sm90_score::make_loader;
using sm90_score::Stage;
using sm90_score::stage_at;
using sm90_score::wait;

constexpr uint32_t kSumsBarrier = 1;   // named barrier of warpgroup 0; 0 is the CTA's
constexpr int kWords = kTileKeys / 32;

struct Consumer {
    uint32_t warp, lane;              // warp: of the CTA
    uint64_t k_descriptor, q_descriptor;
    ptx::SharedAddr weights;          // of the lane's token and the warp's first head
};

// D = Q K^T of eight heads, j, and the tile whose descriptor is k.
__device__ __forceinline__ void multiply(const Consumer& self, int j, uint64_t k, float (&d)[kTileKeys / 2]) {
    const uint64_t q = self.q_descriptor + j * (kQBoxBytes / 16);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n96k32_f32_e4m3_e4m3(d, smem_descriptor_advance(q, step * kMmaK),
                                                     smem_descriptor_advance(k, step * kMmaK), step > 0);
    ptx::wgmma_commit_group();
}

// Adds heads 8 j + 2 warp and the next to the sums: sum[2 i + e] is key 8 i + 2 (lane % 4) + e.
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

__device__ __forceinline__ int32_t load_int(ptx::SharedAddr from) {
    return static_cast<int32_t>(ptx::ld_shared_u32(from));
}
__device__ __forceinline__ KeyRange load_sees(ptx::SharedAddr sees, uint32_t token) {
    return {load_int(sees + token * 8), load_int(sees + token * 8 + 4)};
}

// The parts of a tile's sums: [warp][token][key], blocks of eight keys exchanged so that neither the four tokens of a
// store nor the four blocks of a load meet in a bank.
__device__ __forceinline__ uint32_t part_offset(uint32_t warp, uint32_t token, uint32_t block) {
    const uint32_t place = (block & ~3u) | ((block ^ token) & 3u);
    return ((warp * kBlockTokens + token) * kTileKeys + 8 * place) * 4;
}

// Adds the four warps' sums of the tile in a stage, frees the stage and stores the scores of two tokens.
template <class T>
__device__ __forceinline__ void finish(const ScoreParams& p, const Consumer& self, typename T::Shared& shared,
                                       uint32_t stage, uint32_t buffer, const float (&sum)[kTileKeys / 4],
                                       int32_t tile_key) {
    // Addresses are worked out here, tile by tile: kept from one to the next they would not fit the registers.
    const auto lane = static_cast<uint32_t>(hidden(static_cast<int32_t>(self.lane)));
    const auto cta_warp = static_cast<uint32_t>(hidden(static_cast<int32_t>(self.warp)));
    const uint32_t warp = cta_warp % 4, sums_barrier = kSumsBarrier + cta_warp / 4;
    const ptx::SharedAddr parts = ptx::cvta_to_shared(shared.k[stage]);
    ptx::bar_sync(sums_barrier, 128);
#pragma unroll
    for (uint32_t block = 0; block < kTileKeys / 8; ++block)
        ptx::st_shared_v2_f32(parts + part_offset(warp, lane / 4, block) + lane % 4 * 8, sum[2 * block],
                              sum[2 * block + 1]);
    ptx::bar_sync(sums_barrier, 128);
    float score[2][kWords];
    bool live[kWords];
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
        const float scale =
            ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[stage][word * 32]) + lane * 4);
        live[word] = (ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.live[stage][word])) >> lane & 1) != 0;
#pragma unroll
        for (uint32_t t = 0; t < 2; ++t) {
            const ptx::SharedAddr from =
                parts + part_offset(0, 2 * warp + t, 4 * word + lane / 8) + lane % 8 * 4;
            float part[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) part[w] = ptx::ld_shared_f32(from + w * (kBlockTokens * kTileKeys * 4));
            score[t][word] = ptx::mul_rn_f32(
                scale, ptx::add_rn_f32(ptx::add_rn_f32(part[0], part[1]), ptx::add_rn_f32(part[2], part[3])));
        }
    }
    ptx::fence_proxy_async_shared_cta();   // the sums were read and written by ordinary accesses, TMA comes next
    ptx::bar_warp_sync(ptx::kFullMask);
    if (lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage]));
    const int32_t first_row = load_int(ptx::cvta_to_shared(&shared.item[buffer].row));
    const int64_t stride = hidden(p.score_stride);
#pragma unroll
    for (uint32_t t = 0; t < 2; ++t) {
        const uint32_t token = 2 * warp + t;
        const KeyRange range = load_sees(ptx::cvta_to_shared(shared.sees[buffer]), token);
        int64_t row = (int64_t{first_row} + token) * stride;
        if (p.relative != 0) row -= range.begin;
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
            const int32_t key = tile_key + word * 32 + static_cast<int32_t>(lane);
            // A key that the row sees on a page that must not be read is dead: -inf where the launch fills.
            if (range.has(key) && (live[word] || p.fill_columns != 0))
                store_score(p, row + key, live[word] ? score[t][word] : dead_score());
        }
    }
}

template <class T>
__device__ __forceinline__ void score_tile(const ScoreParams& p, const Consumer& self, typename T::Shared& shared,
                                           uint32_t ring, uint32_t buffer, int32_t tile_key) {
    const Stage stage = stage_at<T>(ring);
    const uint64_t k = self.k_descriptor + stage.index * (kTileKeys * kDepth / 16);
    float a[kTileKeys / 2], b[kTileKeys / 2], sum[kTileKeys / 4], weight_a[2], weight_b[2];
    wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
    multiply(self, 0, k, a);
#pragma unroll
    for (int j = 0; j < T::kMmas; j += 2) {
        multiply(self, j + 1, k, b);
        ptx::ld_shared_v2_f32(weight_a[0], weight_a[1], self.weights + j * 32);
        ptx::wgmma_wait_group<1>();
        reduce(j, weight_a, a, sum);
        ptx::ld_shared_v2_f32(weight_b[0], weight_b[1], self.weights + (j + 1) * 32);
        if (j + 2 < T::kMmas) {
            multiply(self, j + 2, k, a);
            ptx::wgmma_wait_group<1>();
        } else {
            ptx::wgmma_wait_group<0>();
        }
        reduce(j + 1, weight_b, b, sum);
    }
    finish<T>(p, self, shared, stage.index, buffer, sum, tile_key);
}

// Columns [begin, end) of an item's rows where no key of the row is live.
__device__ __forceinline__ void fill(const ScoreParams& p, ptx::SharedAddr sees, int32_t first_row, int32_t tokens,
                                     int32_t begin, int32_t end, uint32_t thread) {
    for (int32_t token = 0; token < tokens; ++token) {
        const KeyRange range = load_sees(sees, static_cast<uint32_t>(token));
        const int64_t row = (int64_t{first_row} + token) * p.score_stride;
#pragma unroll 1
        for (int32_t column = begin + static_cast<int32_t>(thread); column < end; column += 128 * kWarpgroups)
            if (dead_column(p, range, column)) store_score(p, row + column, dead_score());
    }
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, typename T::Shared& shared, uint32_t warp,
                                            uint32_t lane) {
    Consumer self;
    self.warp = warp;
    self.lane = lane;
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % T::kQBuffers;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / T::kQBuffers % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        if (item.w == 0) return;
        int32_t tile_key = load_int(from + 16);
        self.q_descriptor =
            wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.q[buffer * T::kMmas]).value);
        self.weights = ptx::cvta_to_shared(shared.q_scale[buffer]) +
                       (lane / 4 * T::kWeightStride + 2 * (warp % 4)) * 4;
        const auto warpgroup = static_cast<uint32_t>(hidden(static_cast<int32_t>(warp))) / 4;
        const uint32_t first = (warpgroup + kStages - item.x % kStages) % kWarpgroups;
        tile_key += static_cast<int32_t>(first) * kTileKeys;
        const uint32_t end = item.x + item.y;
#pragma unroll 1
        for (uint32_t ring = item.x + first; ring < end; ring += kWarpgroups, tile_key += kWarpgroups * kTileKeys)
            score_tile<T>(p, self, shared, ring, buffer, tile_key);
        if (p.fill_columns > 0) {
            const int32_t of = hidden(static_cast<int32_t>(buffer));
            const ptx::SharedAddr filled = ptx::cvta_to_shared(&shared.item[of]);
            fill(p, ptx::cvta_to_shared(shared.sees[of]), load_int(filled + 8), load_int(filled + 12),
                 load_int(filled + 20), load_int(filled + 24), ptx::tid_x());
        }
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
        ptx::fence_mbarrier_init_release_cluster();
        ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
    } else if (thread == 128 * kWarpgroups) {
        ptx::prefetch_tensormap(&k_map);
        ptx::prefetch_tensormap(&q_map);
    }
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on
    sm90_score::find_start<T>(p, shared, thread);
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    if (warp >= 4 * kWarpgroups) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        Loader loader = make_loader<T>(p, k_map, q_map, warp - 4 * kWarpgroups, thread % 32);
        if (loader.warp < kLoaderWarps) load_all<T>(p, loader, shared);
    } else {
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume_all<T>(p, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_wide

#define LIDX_SM90_WIDE_ENTRY(symbol, heads, depth, tokens)                                                        \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_wide::kThreads, 1) symbol(                            \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,      \
        const __grid_constant__ lidx::ScoreParams p) {                                                               \
        static_assert(depth == lidx::sm90_wide::kDepth);                                                          \
        static_assert(tokens == lidx::sm90_wide::kBlockTokens);                                                   \
        lidx::sm90_wide::score<lidx::sm90_wide::Tile<heads>>(k_map, q_map, p);                                 \
    }
LIDX_SM90_WIDE_VARIANTS(LIDX_SM90_WIDE_ENTRY)

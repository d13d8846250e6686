// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core, sm_90a: depth 128, 64 or 32 heads, paged or contiguous K, any tokens.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = K Q^T by wgmma: operand A a tile of 64 keys [64, 128 bytes], operand B the 64 token-head pairs of a group [64,
// 128 bytes]: one token of 64 heads or two of 32. A warpgroup owns a group for as long as its token block lasts, with
// its q_scale in registers; keys stream through a ring in shared memory that all warpgroups read. With fewer groups
// than warpgroups (decode) those that share a group take its key tiles in turn, so K is read once all the same.
//
// Arithmetic. Four wgmma of K = 32, depth ascending, the first without accumulator input (fp8 products in the tensor
// core's 13-bit window). Then fp32, round to nearest even, subnormals kept, the same for every variant, page size,
// layout, batch and split. Lane q of a quad holds the columns 8 j + 2 q and 8 j + 2 q + 1:
//     p[q] = fma(q_scale[h], max.NaN(S[h], +0), p[q])    h = 2q, 2q + 1, 8 + 2q, 8 + 2q + 1, ...    from +0
//     score = k_scale * ((p[0] + p[1]) + (p[2] + p[3]))
//
// Pipeline: time runs down. Two accumulator sets a warpgroup, so that one multiplies while the other is reduced; it
// drains every 16 tiles, because ptxas serialises wgmma that are in flight across a loop's back edge (C7514).
//
//     warps 16-19 (tile n: warp n % 4)   warpgroups 0-3
//     Q block 0, q_scale -> buffer 0     .
//     K tile 0 -> stage 0                q_full: q_scale -> registers
//     K tile 1 -> stage 1                k_full 0: MMA a = tile 0
//     ...                                k_full 1: MMA b = tile 1; a done: k_empty 0; reduce a
//     K tile 16 waits for k_empty        k_full 2: MMA a = tile 2; b done: k_empty 1; reduce b; store tiles 0, 1
//     Q block 1 -> buffer 1              ...
//     K tile 17 ...                      last tile: q_empty
//
// Hand-overs:
//     k_full[s]    TMA (K codes) and cp.async (k_scale) -> consumers: stage s has landed; `live` was stored before.
//     k_empty[s]   consumers -> loader: every warp that takes part has multiplied the stage and read its k_scale.
//     q_full[b]    TMA -> consumers: Q, q_scale and the item are in buffer b.
//     q_empty[b]   consumers -> warp 16: they are done with the item.
//     consumers    all meet (named barrier) before an item with another number of token groups.
//
// Budget per 64 keys x 64 columns (clocks of an SM; docs/kernel-sm90.md): MMA 128; per warp and sub-partition FMNMX 64,
// FFMA 32, all else about 50; shared memory 16 KiB read for operands, 2 KiB written. 199 KiB of shared memory, 104
// registers a consumer, 64 a loader.
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_score_layout.h"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm90_score {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

constexpr uint32_t kConsumerBarrier = 1;   // named barrier; 0 is the CTA's

// ---- warpgroups 0-3: multiply, reduce, store

struct Consumer {
    uint32_t warp, lane;         // warp: of the warpgroup
    uint32_t step;               // tiles from one of this warpgroup's to the next
    uint64_t k_descriptor, q_descriptor;
    float weights[kColumns / 4];   // q_scale of columns 8 j + 2 q + e at 2 j + e
    int64_t tile_elements;       // of scores, from one of this warpgroup's tiles to the next
    bool stores;                 // the lane's token exists
    __device__ __forceinline__ uint32_t quad() const { return lane % 4; }
    // The key of a tile whose sum this lane ends up with.
    __device__ __forceinline__ uint32_t key() const { return 16 * warp + lane / 4 + 8 * (quad() / 2); }
};

// D = K Q^T of the tile at a ring position.
__device__ __forceinline__ void multiply(const Consumer& self, uint32_t ring, float (&d)[kColumns / 2]) {
    const uint64_t k = self.k_descriptor + stage_at(ring).index * (kTileKeys * kDepth / 16);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, smem_descriptor_advance(k, step * kMmaK),
                                                     smem_descriptor_advance(self.q_descriptor, step * kMmaK),
                                                     step > 0);
    ptx::wgmma_commit_group();
}

// The compiler may not move reads of the accumulators above the wait that precedes this.
__device__ __forceinline__ void pin(float (&d)[kColumns / 2]) {
#pragma unroll
    for (float& x : d) asm volatile("" : "+f"(x));
}

__device__ __forceinline__ void release(const Consumer& self, Shared& shared, uint32_t ring) {
    if (self.lane == 0)
        ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage_at(ring).index]), self.step);
}

// This lane's part of the head sums: sum[2 * token + half], rows lane / 4 + 8 * half of the warp.
template <class T>
__device__ __forceinline__ void reduce(const Consumer& self, const float (&d)[kColumns / 2],
                                       float (&sum)[2 * T::kGroupTokens]) {
    constexpr int kBlocks = T::kHeads / 8;
#pragma unroll
    for (int token = 0; token < T::kGroupTokens; ++token) {
        sum[2 * token] = sum[2 * token + 1] = 0.0f;
#pragma unroll
        for (int j = token * kBlocks; j < (token + 1) * kBlocks; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    sum[2 * token + half] = ptx::fma_rn_f32(
                        self.weights[2 * j + e], ptx::max_nan_f32(d[4 * j + 2 * half + e], 0.0f),
                        sum[2 * token + half]);
            }
        }
    }
}

// Adds over the quad; lane q gets the sum of a, b, c, d for q = 0, 2, 1, 3, as (p0 + p1) + (p2 + p3).
__device__ __forceinline__ float quad_sum(const Consumer& self, float a, float b, float c, float d) {
    const bool odd = self.quad() % 2 != 0, high = self.quad() >= 2;
    const float first = ptx::add_rn_f32(odd ? c : a, ptx::shfl_sync_bfly(odd ? a : c, 1, ptx::kFullMask));
    const float second = ptx::add_rn_f32(odd ? d : b, ptx::shfl_sync_bfly(odd ? b : d, 1, ptx::kFullMask));
    return ptx::add_rn_f32(high ? second : first, ptx::shfl_sync_bfly(high ? first : second, 2, ptx::kFullMask));
}

struct KeyScale {
    float scale;
    bool live;
};
__device__ __forceinline__ KeyScale load_key_scale(const Consumer& self, Shared& shared, uint32_t ring) {
    const uint32_t index = stage_at(ring).index, key = self.key();
    const uint32_t bits = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.live[index][key / 32]));
    return {ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[index][key])),
            self.stores && (bits >> key % 32 & 1) != 0};
}

__device__ __forceinline__ void store(float* to, const KeyScale& key, float sum) {
    if (key.live) ptx::st_global_f32(to, ptx::mul_rn_f32(key.scale, sum));
}

// kLength tiles from a ring position on, none in flight before or after. A lane stores one key per tile (two tokens a
// group), or one per pair of tiles (one token): even lanes the first tile's, odd lanes the second's.
template <class T, int kLength>
__device__ __forceinline__ void stretch(const Consumer& self, Shared& shared, uint32_t& ring, float*& to) {
    float a[kColumns / 2], b[kColumns / 2];
    const auto arrived = [&](uint32_t at) {
        wait(ptx::cvta_to_shared(&shared.k_full[stage_at(at).index]), stage_at(at).parity);
    };
    arrived(ring);
    multiply(self, ring, a);
#pragma unroll
    for (int i = 0; i < kLength; i += 2) {
        constexpr int kPerTile = 2 * T::kGroupTokens;
        const bool two = kLength > 1, last = i + 2 >= kLength;
        const uint32_t ring_a = ring + i * self.step, ring_b = ring_a + self.step;
        const bool odd = self.quad() % 2 != 0;
        if (two) {
            arrived(ring_b);
            multiply(self, ring_b, b);
        }
        KeyScale key_a, key_b;
        if (T::kGroupTokens == 1) {
            key_a = load_key_scale(self, shared, two && odd ? ring_b : ring_a);
            if (!two && odd) key_a.live = false;
        } else {
            key_a = load_key_scale(self, shared, ring_a);
            if (two) key_b = load_key_scale(self, shared, ring_b);
        }
        float sum_a[kPerTile], sum_b[kPerTile] = {};
        if (two) ptx::wgmma_wait_group<1>();
        else ptx::wgmma_wait_group<0>();
        pin(a);
        release(self, shared, ring_a);
        reduce<T>(self, a, sum_a);
        if (T::kGroupTokens == 2) store(to, key_a, quad_sum(self, sum_a[0], sum_a[1], sum_a[2 % kPerTile],
                                                            sum_a[3 % kPerTile]));
        if (two) {
            if (!last) {
                arrived(ring_b + self.step);
                multiply(self, ring_b + self.step, a);
                ptx::wgmma_wait_group<1>();
            } else {
                ptx::wgmma_wait_group<0>();
            }
            pin(b);
            release(self, shared, ring_b);
            reduce<T>(self, b, sum_b);
        }
        if (T::kGroupTokens == 1) store(to, key_a, quad_sum(self, sum_a[0], sum_a[1], sum_b[0], sum_b[1]));
        else if (two) store(to + self.tile_elements, key_b, quad_sum(self, sum_b[0], sum_b[1], sum_b[2 % kPerTile],
                                                                     sum_b[3 % kPerTile]));
        to += 2 * self.tile_elements;
    }
    ring += kLength * self.step;
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, Shared& shared, uint32_t warp, uint32_t lane) {
    Consumer self;
    self.warp = warp % 4;
    self.lane = lane;
    const uint32_t warpgroup = warp / 4;
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
    uint32_t before = 0;   // groups of the last item
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % 2;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / 2 % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        const auto key = static_cast<int32_t>(ptx::ld_shared_u32(from + 16));
        const uint32_t all_tiles = item.y;
        if (all_tiles == 0) return;
        const auto tokens = static_cast<int32_t>(item.w);
        const auto groups = static_cast<uint32_t>(groups_of(tokens, T::kGroupTokens));
        self.step = kGroups / groups;
        // Which tiles are whose depends on the ring position, and changes only where all meet: so a warpgroup has seen
        // every phase of the stages that it waits for, and a parity cannot be mistaken for the one before it.
        if (groups != before && before != 0) ptx::bar_sync(kConsumerBarrier, 32 * kConsumerWarps);
        before = groups;
        const uint32_t group = warpgroup % groups;
        const uint32_t first = (warpgroup / groups - item.x) % self.step;
        uint32_t ring = item.x + first;
        uint32_t tiles = all_tiles > first ? (all_tiles - first + self.step - 1) / self.step : 0;
        self.q_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.q[buffer][0]).value +
                                                          group * (kColumns * kDepth));
        const ptx::SharedAddr scales = ptx::cvta_to_shared(&shared.q_scale[buffer][group * kColumns + 2 * self.quad()]);
#pragma unroll
        for (uint32_t j = 0; j < kColumns / 8; ++j)
            ptx::ld_shared_v2_f32(self.weights[2 * j], self.weights[2 * j + 1], scales + j * 32);
        const int32_t group_token = static_cast<int32_t>(group) * T::kGroupTokens;
        const int32_t token = group_token + (T::kGroupTokens == 2 ? static_cast<int32_t>(self.quad()) % 2 : 0);
        self.stores = token < tokens;
        self.tile_elements = int64_t{self.step} * kTileKeys;
        float* to = static_cast<float*>(p.scores) + (int64_t{static_cast<int32_t>(item.z)} + token) * p.score_stride +
                    key + first * kTileKeys + self.key();
        if (group_token >= tokens) {   // a fourth group where there are three
            for (; tiles > 0; --tiles, ring += self.step) {
                wait(ptx::cvta_to_shared(&shared.k_full[stage_at(ring).index]), stage_at(ring).parity);
                release(self, shared, ring);
            }
        } else {
            // The second of a pair of tiles is the odd lanes' where a group has one token.
            if (T::kGroupTokens == 1 && self.quad() % 2 != 0) to += self.tile_elements;
#pragma unroll 1
            for (; tiles >= 16; tiles -= 16) stretch<T, 16>(self, shared, ring, to);
#pragma unroll 1
            for (; tiles >= 4; tiles -= 4) stretch<T, 4>(self, shared, ring, to);
#pragma unroll 1
            for (; tiles >= 2; tiles -= 2) stretch<T, 2>(self, shared, ring, to);
            if (tiles != 0) stretch<T, 1>(self, shared, ring, to);
        }
        ptx::bar_warp_sync(ptx::kFullMask);
        if (lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    if (thread < kStages) {
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_full[thread]), kFullArrivals);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_empty[thread]), kEmptyArrivals);
        if (thread < 2) {
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[thread]), 1);
            ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_empty[thread]), kConsumerWarps);
        }
        ptx::fence_mbarrier_init_release_cluster();
        ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
    } else if (thread == 32 * kConsumerWarps) {
        ptx::prefetch_tensormap(&k_map);
        ptx::prefetch_tensormap(&q_map);
    }
    if (p.view.batch > kWarpBatch) find_start<T>(p, shared, thread);
    else ptx::bar_sync();
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    if (warp >= kConsumerWarps) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        const int32_t slots = k_box_slots(p.page_size);
        const int32_t shift = !p.block_table || slots == 64 ? 0 : slots == 32 ? 1 : 2;
        Loader loader{&k_map, &q_map, warp - kConsumerWarps, thread % 32, slots, shift};
        load_all<T>(p, loader, shared);
    } else {
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume_all<T>(p, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_score

#define LIDX_SM90_SCORE_ENTRY(symbol, heads, depth, tokens)                                                            \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_score::kThreads, 1) symbol(                                \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm90_score::kDepth);                                                              \
        static_assert(tokens == lidx::sm90_score::Tile<heads>::kBlockTokens);                                          \
        lidx::sm90_score::score<lidx::sm90_score::Tile<heads>>(k_map, q_map, p);                                       \
    }
LIDX_SM90_SCORE_VARIANTS(LIDX_SM90_SCORE_ENTRY)

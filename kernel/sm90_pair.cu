// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core for plain work of five and six groups of tokens, sm_90a: depth 128, 64
// heads (a token a group) or 32 (two), paged or contiguous K.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = K Q^T by wgmma as in sm90_score.cu, with its groups of 64 columns, tiles of 64 keys and loading warps. There each
// of four warpgroups has a group; here each of three has up to two, so that six groups read K once: of a block's groups
// warpgroup w has w and w + 3. A warpgroup multiplies every key tile with its first and then with its second group.
//
// Arithmetic: bit for bit that of sm90_score.cu.
//
// Pipeline of a warpgroup: time runs down. Set a is the first group's accumulators, set b the second's; one is reduced
// while the other is multiplied. With 64 heads it drains every four tiles, with 32 every tile, while the other two
// warpgroups keep the tensor core busy.
//
//     warps 12-15 (tile n: warp n % 4)   warpgroups 0-2
//     Q block 0, weights -> buffer 0     .
//     K tile 0 -> stage 0                q_full: weights of both groups -> registers
//     K tile 1 -> stage 1                k_full 0: MMA a = tile 0, first group
//     ...                                MMA b = tile 0, second group; a done: reduce a
//     K tile 12 waits for k_empty        k_full 1: MMA a = tile 1; b done: k_empty 0; reduce b; store tile 0
//     Q block 1 -> buffer 1              ...
//                                        last tile: q_empty
//
// Hand-overs: those of sm90_score.cu, but every warp of every warpgroup releases every tile, also those of a warpgroup
// that has no group of the item; so a change of the number of groups needs no barrier.
//
// Budget per 64 keys x 384 columns (clocks of an SM; docs/kernel-sm90.md): MMA 768; issue 700; ALU 520. 166 or 199 KiB
// of shared memory, 144 registers a consumer, 80 a loader.
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_group.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_pair_layout.h"
#include "kernel/sm90_walk.cuh"
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

namespace lidx::sm90_pair {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

using sm90_score::load_all;
using sm90_score::load_int;
using sm90_score::load_sees;
using sm90_score::Loader;
using sm90_score::make_loader;
using sm90_score::pin;
using sm90_score::quad_sum;
using sm90_score::Stage;
using sm90_score::stage_at;
using sm90_score::wait;
using sm90_score::whole_tiles;

// ---- warpgroups 0-2: multiply, reduce, store

struct Consumer {
    uint32_t warp, lane;                          // warp: of the warpgroup
    uint64_t k_descriptor, q_descriptor[kSets];
    float weights[kSets][kColumns / 4];           // of a group's columns 8 j + 2 q + e at 2 j + e
    float* cell[kSets];                           // of scores: the lane's key in the tile of key 0
    bool stores[kSets];                           // the lane's token exists
    __device__ __forceinline__ uint32_t quad() const { return lane % 4; }
    __device__ __forceinline__ bool odd() const { return lane % 2 != 0; }
    // The key of a tile whose sums this lane ends up with.
    __device__ __forceinline__ uint32_t key() const { return 16 * warp + lane / 4 + 8 * (quad() / 2); }
};

template <class T>
__device__ __forceinline__ void arrived(typename T::Shared& shared, const Stage& stage) {
    wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
}

// D = K Q^T of the tile at a ring position and the warpgroup's group `of`.
template <class T>
__device__ __forceinline__ void multiply(const Consumer& self, const Stage& stage, int of, float (&d)[kColumns / 2]) {
    sm90_score::multiply_group(static_cast<uint32_t>(self.k_descriptor) + stage.index * (kTileKeys * kDepth / 16),
                               static_cast<uint32_t>(self.q_descriptor[of]), d);
}

// The warp's reads of the stage, k_scale and live words included, are done before lane 0 says so for all.
template <class T>
__device__ __forceinline__ void release(const Consumer& self, typename T::Shared& shared, const Stage& stage) {
    ptx::bar_warp_sync(ptx::kFullMask);
    if (self.lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage.index]));
}

// The lane's key of a tile, as its score needs it.
struct Key {
    float scale;
    bool live;   // inside the length, on a legal page
};
template <class T>
__device__ __forceinline__ Key load_key(const Consumer& self, typename T::Shared& shared, const Stage& stage) {
    const uint32_t index = stage.index, key = self.key();
    const uint32_t bits = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.live[index][key / 32]));
    return {ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[index][key])), (bits >> key % 32 & 1) != 0};
}

__device__ __forceinline__ void store(const Consumer& self, int of, const Key& key, float* cell, float sum) {
    if (self.stores[of] && key.live) ptx::st_global_f32(cell, ptx::mul_rn_f32(key.scale, sum));
}

// The sum of a tile of two tokens that the lane ends up with: even lanes the first's, odd lanes the second's.
__device__ __forceinline__ float token_sum(const Consumer& self, const float (&sum)[4]) {
    return quad_sum(self.quad(), sum[0], sum[1], sum[2], sum[3]);
}

// kLength tiles from a ring position on that is a multiple of it, the first of which begins with key `tile_key`; none
// in flight before or after. kHeld: groups that the warpgroup has. One token a group: even lanes store the first
// group's score, odd lanes the second's, of a key each.
template <class T, int kHeld, int kLength>
__device__ __forceinline__ void stretch(const Consumer& self, typename T::Shared& shared, uint32_t& ring,
                                        int32_t& tile_key) {
    constexpr bool two = kHeld == 2;
    float a[kColumns / 2], b[kColumns / 2];
    const Stage first = stage_at<T>(ring);
    const auto stage = [&](int i) { return Stage{first.index + static_cast<uint32_t>(i), first.parity}; };
    float* const cells[kSets] = {self.cell[0] + tile_key, self.cell[1] + tile_key};
    arrived<T>(shared, first);
    multiply<T>(self, first, 0, a);
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        const bool last = i + 1 == kLength;
        float sum_a[2 * T::kGroupTokens], sum_b[2 * T::kGroupTokens] = {};
        if (two) multiply<T>(self, stage(i), 1, b);
        const Key key = load_key<T>(self, shared, stage(i));
        ptx::wgmma_wait_group<two ? 1 : 0>();
        pin(a);
        sm90_score::reduce<T>(self.weights[0], a, sum_a);
        if constexpr (T::kGroupTokens == 2) store(self, 0, key, cells[0] + i * kTileKeys, token_sum(self, sum_a));
        if (!last) {
            arrived<T>(shared, stage(i + 1));
            multiply<T>(self, stage(i + 1), 0, a);
        }
        if (two) {
            if (last) ptx::wgmma_wait_group<0>();
            else ptx::wgmma_wait_group<1>();
            pin(b);
        }
        release<T>(self, shared, stage(i));
        if (two) sm90_score::reduce<T>(self.weights[1], b, sum_b);
        if constexpr (T::kGroupTokens == 1)
            store(self, 0, key, cells[0] + i * kTileKeys,
                  quad_sum(self.quad(), sum_a[0], sum_a[1], sum_b[0], sum_b[1]));
        else if (two) store(self, 1, key, cells[1] + i * kTileKeys, token_sum(self, sum_b));
    }
    tile_key += kLength * kTileKeys;
    ring += kLength;
}

// Q and weights of the item's group `group`, as the warpgroup's group `of`, and where the lane stores.
template <class T>
__device__ __forceinline__ void take_group(const ScoreParams& p, Consumer& self, typename T::Shared& shared,
                                           uint32_t buffer, uint32_t group, int of, const ptx::U32x4& item) {
    const auto buffer_groups = static_cast<uint32_t>(T::q_boxes(most_tokens(p.view)));
    self.q_descriptor[of] = wgmma_descriptor_k_major_128b(
        ptx::cvta_to_shared(shared.q[0]).value + (buffer * buffer_groups + group) * (kColumns * kDepth));
    sm90_score::load_group_weights(
        ptx::cvta_to_shared(&shared.q_scale[buffer][group * kColumns + 2 * self.quad()]), self.weights[of]);
    const uint32_t token = group * T::kGroupTokens + (T::kGroupTokens == 2 && self.odd() ? 1 : 0);
    self.stores[of] = token < item.w;
    self.cell[of] = static_cast<float*>(p.scores) +
                    (int64_t{static_cast<int32_t>(item.z)} + token) * p.score_stride + self.key();
}

// The lane's tokens that exist and see the lane's key of the tile whose first key is `tile_key`: a stretch of one tile
// may ask. first, second: the warpgroup's groups.
template <class T>
__device__ __forceinline__ void see_tile(Consumer& self, const typename T::Shared& shared, uint32_t buffer,
                                         uint32_t tokens, uint32_t first, uint32_t second, int32_t tile_key) {
    const bool turns = T::kGroupTokens == 1 && self.odd() && second < tokens;
    const uint32_t groups[kSets] = {turns ? second : first, second};
#pragma unroll
    for (int of = 0; of < kSets; ++of) {
        const uint32_t token = groups[of] * T::kGroupTokens + (T::kGroupTokens == 2 && self.odd() ? 1 : 0);
        self.stores[of] = token < tokens && tile_key + static_cast<int32_t>(self.key()) <
                                                load_sees(ptx::cvta_to_shared(shared.sees[buffer]), token).end;
    }
    if (T::kGroupTokens == 1 && second >= tokens) self.stores[0] = self.stores[0] && !self.odd();
}

// Causal rows: the tiles behind whole_tiles(), from a ring position on. All else is looked up anew, so that nothing is
// kept for it meanwhile.
template <class T>
__device__ __forceinline__ void score_tail(Consumer& self, typename T::Shared& shared, uint32_t buffer, uint32_t first,
                                           uint32_t ring) {
    const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
    const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
    const auto groups = static_cast<uint32_t>(T::q_boxes(item.w));
    int32_t tile_key = load_int(from + 16) + static_cast<int32_t>(ring - item.x) * kTileKeys;
#pragma unroll 1
    while (ring != item.x + item.y) {
        if (first >= groups) {
            arrived<T>(shared, stage_at<T>(ring));
            release<T>(self, shared, stage_at<T>(ring));
            ++ring;
            continue;
        }
        see_tile<T>(self, shared, buffer, item.w, first, first + kWarpgroups, tile_key);
        if (first + kWarpgroups < groups) stretch<T, 2, 1>(self, shared, ring, tile_key);
        else stretch<T, 1, 1>(self, shared, ring, tile_key);
    }
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, typename T::Shared& shared, uint32_t warp,
                                            uint32_t lane) {
    Consumer self;
    self.warp = warp % 4;
    self.lane = lane;
    const uint32_t first = warp / 4, second = first + kWarpgroups;   // the warpgroup's groups
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % T::kQBuffers;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / T::kQBuffers % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        if (item.w == 0) return;
        uint32_t ring = item.x, tiles = item.y;
        int32_t tile_key = load_int(from + 16);
        const auto groups = static_cast<uint32_t>(T::q_boxes(item.w));
        if (p.view.causal != 0) tiles = whole_tiles(ptx::cvta_to_shared(shared.sees[buffer]), 1, tile_key, tiles);
        if (first < groups) take_group<T>(p, self, shared, buffer, first, 0, item);
        if (second < groups) {
            take_group<T>(p, self, shared, buffer, second, 1, item);
            if (T::kGroupTokens == 1 && self.odd()) self.cell[0] = self.cell[1];
#pragma unroll 1
            while (tiles > 0) {
                if (T::kUnroll > 1 && tiles >= T::kUnroll && ring % T::kUnroll == 0) {
                    stretch<T, 2, T::kUnroll>(self, shared, ring, tile_key);
                    tiles -= T::kUnroll;
                } else {
                    stretch<T, 2, 1>(self, shared, ring, tile_key);
                    --tiles;
                }
            }
        } else if (first < groups) {
            if (T::kGroupTokens == 1) self.stores[0] = !self.odd();
#pragma unroll 1
            for (; tiles > 0; --tiles) stretch<T, 1, 1>(self, shared, ring, tile_key);
        } else {
#pragma unroll 1
            for (; tiles > 0; --tiles, ++ring) {
                arrived<T>(shared, stage_at<T>(ring));
                release<T>(self, shared, stage_at<T>(ring));
            }
        }
        if (p.view.causal != 0) score_tail<T>(self, shared, buffer, first, ring);
        ptx::bar_warp_sync(ptx::kFullMask);
        if (lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on
    ptx::griddepcontrol_launch_dependents();   // not before: a selection reads who sees what ahead of its own wait
    sm90_score::begin_hand_overs<T>(shared, k_map, q_map, kConsumerWarps, kConsumerWarps, thread);
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    if (warp >= kConsumerWarps) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        Loader loader = make_loader<T>(p, k_map, q_map, warp - kConsumerWarps, thread % 32);
        load_all<T>(p, loader, shared);
    } else {
        sm90_score::share_requests<T>(p, shared, thread);
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume_all<T>(p, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_pair

#define LIDX_SM90_PAIR_ENTRY(symbol, heads, depth, tokens)                                                             \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_pair::kThreads, 1) symbol(                                 \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm90_pair::kDepth);                                                               \
        static_assert(tokens == lidx::sm90_pair::Tile<heads>::kBlockTokens);                                           \
        lidx::sm90_pair::score<lidx::sm90_pair::Tile<heads>>(k_map, q_map, p);                                         \
    }
LIDX_SM90_PAIR_VARIANTS(LIDX_SM90_PAIR_ENTRY)

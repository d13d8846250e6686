// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on Hopper's tensor core, sm_90a: depth 128, 4 to 64 heads, paged or contiguous K, any tokens.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// S = K Q^T by wgmma: operand A a tile of 64 keys [64, 128 bytes], operand B the 64 token-head pairs of a group [64,
// 128 bytes]: one token of 64 heads, two of 32, up to eight of 8 or 4. A warpgroup owns a group for as long as its
// token block lasts, with its weights in registers; keys stream through a ring in shared memory that all warpgroups
// read. With fewer groups than warpgroups (decode) those that share a group take its key tiles in turn, so K is read
// once all the same.
//
// Arithmetic. Four wgmma of K = 32, depth ascending, the first without accumulator input (fp8 products in the tensor
// core's 13-bit window). Then fp32, round to nearest even, subnormals kept, the same for every variant, page size,
// layout, batch and split. Lane q of a quad holds the columns 8 j + 2 q and 8 j + 2 q + 1:
//     p[q] = fma(q_scale[h], max.NaN(S[h], +0), p[q])    h = 2q, 2q + 1, 8 + 2q, 8 + 2q + 1, ...    from +0
//     score = k_scale * ((p[0] + p[1]) + (p[2] + p[3]))
//
// Pipeline: time runs down. Two accumulator sets a warpgroup, so that one multiplies while the other is reduced; it
// drains after 16 tiles or fewer, because ptxas serialises wgmma that are in flight across a loop's back edge (C7514).
//
//     warps 16-19 (tile n: warp n % 4)   warpgroups 0-3
//     Q block 0, weights -> buffer 0     .
//     K tile 0 -> stage 0                q_full: weights -> registers
//     K tile 1 -> stage 1                k_full 0: MMA a = tile 0
//     ...                                k_full 1: MMA b = tile 1; a done: k_empty 0; reduce a
//     K tile 16 waits for k_empty        k_full 2: MMA a = tile 2; b done: k_empty 1; reduce b; store tiles 0, 1
//     Q block 1 -> buffer 1              ...
//     K tile 17 ...                      last tile: fill dead columns; q_empty
//
// Hand-overs:
//     k_full[s]    TMA (K codes) and cp.async (k_scale) -> consumers: stage s has landed; `live` was stored before.
//     k_empty[s]   consumers -> loader: every warp that takes part has multiplied the stage and read its k_scale.
//     q_full[b]    TMA, cp.async -> consumers: Q, weights, the item and what its rows see are in buffer b.
//     q_empty[b]   consumers -> warp 19: they are done with the item.
//     consumers    all meet (named barrier) before an item with another number of token groups.
//
// Budget per 64 keys x 64 columns (clocks of an SM; docs/kernel-sm90.md): MMA 128; per warp and sub-partition FMNMX 64,
// FFMA 32, all else about 50; shared memory 16 KiB read for operands, 2 KiB written. 149 to 197 KiB of shared memory,
// 104 registers a consumer, 64 a loader.
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_group.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_score_layout.h"
#include "kernel/sm90_score_store.cuh"
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

namespace lidx::sm90_score {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

constexpr uint32_t kConsumerBarrier = 1;   // named barrier; 0 is the CTA's

// ---- warpgroups 0-3: multiply, reduce, store

// D = K Q^T of the tile in a stage.
__device__ __forceinline__ void multiply(const Consumer& self, const Stage& stage, float (&d)[kColumns / 2]) {
    multiply_group(self.k_descriptor + stage.index * (kTileKeys * kDepth / 16), self.q_descriptor, d);
}

// The warp's reads of the stage, k_scale and live words included, are done before lane 0 says so for all.
__device__ __forceinline__ void release(const Consumer& self, Shared& shared, const Stage& stage) {
    ptx::bar_warp_sync(ptx::kFullMask);
    if (self.lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[stage.index]), self.step);
}

// kLength tiles from a ring position on, the first of which begins with key `tile_key`; none in flight before or after.
// A lane stores one key per tile and pair of tokens, or one per pair of tiles (one token): even lanes the first tile's,
// odd lanes the second's. kRound: four groups, from a stage on whose number is a multiple of kLength, so that addresses
// differ by constants.
template <class T, int kLength, bool kRound = false>
__device__ __forceinline__ void stretch(const ScoreParams& p, Consumer& self, Shared& shared, uint32_t& ring,
                                        int32_t& tile_key) {
    static_assert(!kRound || T::kStages % kLength == 0);
    float a[kColumns / 2], b[kColumns / 2];
    const Stage first = stage_at<T>(ring);
    uint32_t at_ring = ring;   // of tile i
    const ptx::SharedAddr scale = self.scale + first.index * sizeof(shared.k_scale[0]);
    const ptx::SharedAddr live = self.live + first.index * sizeof(shared.live[0]);
    const auto stage = [&](int i, int ahead) {
        return kRound ? Stage{first.index + static_cast<uint32_t>(i + ahead), first.parity}
                      : stage_at<T>(at_ring + ahead * self.step);
    };
    const auto next = [&](int i, int ahead, float (&to)[kColumns / 2]) {
        const Stage at = stage(i, ahead);
        wait(ptx::cvta_to_shared(&shared.k_full[at.index]), at.parity);
        multiply(self, at, to);
    };
    const int32_t step_keys = (kRound ? 1 : static_cast<int32_t>(self.step)) * kTileKeys;
    next(0, 0, a);
#pragma unroll
    for (int i = 0; i < kLength; i += 2) {
        constexpr int kPerTile = 2 * T::kGroupTokens;
        const bool two = kLength > 1, last = i + 2 >= kLength;
        const Stage stage_a = stage(i, 0), stage_b = stage(i, 1);
        const bool odd = self.quad() % 2 != 0;
        const int32_t key_i = (T::kPlain ? 0 : tile_key) + i * step_keys;
        if (two) next(i, 1, b);
        Key key_a, key_b;
        if constexpr (kRound) {
            const uint32_t bits = ptx::ld_shared_u32(live + i * sizeof(shared.live[0]));
            key_a = {key_i, ptx::ld_shared_f32(scale + i * sizeof(shared.k_scale[0])),
                     self.stores && (bits >> self.key() % 32 & 1) != 0};
        } else if (T::kGroupTokens == 1) {
            key_a = load_key<T>(self, shared, two && odd ? stage_b : stage_a,
                                key_i + (odd && !T::kPlain ? step_keys : 0));
            if (!two && odd) key_a = {-1, 0.0f, false};
        } else {
            key_a = load_key<T>(self, shared, stage_a, key_i);
            if (two) key_b = load_key<T>(self, shared, stage_b, key_i + step_keys);
        }
        float sum_a[kPerTile], sum_b[kPerTile] = {};
        if (two) ptx::wgmma_wait_group<1>();
        else ptx::wgmma_wait_group<0>();
        pin(a);
        release(self, shared, stage_a);
        reduce<T>(self.weights, a, sum_a);
        if (T::kGroupTokens > 1) store_tokens<T>(p, self, shared, key_a, sum_a);
        if (two) {
            if (!last) {
                next(i, 2, a);
                ptx::wgmma_wait_group<1>();
            } else {
                ptx::wgmma_wait_group<0>();
            }
            pin(b);
            release(self, shared, stage_b);
            reduce<T>(self.weights, b, sum_b);
        }
        if (T::kGroupTokens == 1)
            store<T>(p, self.plain, self.row, self.sees, key_a,
                     quad_sum(self.quad(), sum_a[0], sum_a[1], sum_b[0], sum_b[1]));
        else if (two) store_tokens<T>(p, self, shared, key_b, sum_b);
        at_ring += 2 * self.step;
    }
    ring += kLength * self.step;
    if (T::kPlain) self.row += int64_t{4} * kLength * step_keys;
    else tile_key += kLength * step_keys;
}

// The same, of which the compiler knows nothing: else it works it out again for each tile.
__device__ __forceinline__ ptx::SharedAddr hidden(ptx::SharedAddr at) {
    asm volatile("" : "+r"(at.value));
    return at;
}

// The warpgroup's tiles of an item, one every self.step ring positions. T::kRounds: by little code, since a launch of
// few tiles waits for it.
template <class T>
__device__ __forceinline__ void score_tiles(const ScoreParams& p, Consumer& self, Shared& shared, uint32_t ring,
                                            uint32_t tiles, int32_t tile_key) {
    if constexpr (T::kRounds) {
#pragma unroll 1
        while (tiles != 0) {
            // With four groups first up to where a round begins.
            const uint32_t ahead = self.step == 1 ? (0 - ring) % kRoundTiles : 0;
            const uint32_t part = ahead != 0 && ahead < tiles ? ahead : tiles;
            uint32_t done = 1;
            if (self.step == 1 && part >= kRoundTiles) {
                stretch<T, kRoundTiles, true>(p, self, shared, ring, tile_key);
                done = kRoundTiles;
            } else if (part >= 4) {
                stretch<T, 4>(p, self, shared, ring, tile_key);
                done = 4;
            } else if (part >= 2) {
                stretch<T, 2>(p, self, shared, ring, tile_key);
                done = 2;
            } else {
                stretch<T, 1>(p, self, shared, ring, tile_key);
            }
            tiles -= done;
        }
    } else {
        if constexpr (T::kGroupTokens <= 2) {   // with fewer heads the stores take longer than the MMAs
#pragma unroll 1
            for (; tiles >= 16; tiles -= 16) stretch<T, 16>(p, self, shared, ring, tile_key);
#pragma unroll 1
            for (; tiles >= 4; tiles -= 4) stretch<T, 4>(p, self, shared, ring, tile_key);
        }
#pragma unroll 1
        for (; tiles >= 2; tiles -= 2) stretch<T, 2>(p, self, shared, ring, tile_key);
        if (tiles != 0) stretch<T, 1>(p, self, shared, ring, tile_key);
    }
}

// Causal rows: the warpgroup's tiles behind whole_tiles(). What they are is worked out anew, so that nothing is kept
// for it meanwhile.
template <class T>
__device__ __forceinline__ void score_tail(const ScoreParams& p, Consumer& self, Shared& shared, uint32_t buffer,
                                           uint32_t warpgroup) {
    const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
    const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
    const uint32_t step = self.step, groups = kGroups / step;
    const uint32_t first = (warpgroup / groups - item.x) % step;
    const uint32_t tiles = item.y > first ? (item.y - first + step - 1) / step : 0;
    int32_t tile_key = static_cast<int32_t>(ptx::ld_shared_u32(from + 16) + first * kTileKeys), unused = 0;
    const uint32_t whole = whole_tiles(ptx::cvta_to_shared(shared.sees[buffer]), step, tile_key, tiles);
    const auto token = static_cast<int32_t>(warpgroup % groups * T::kGroupTokens +
                                            (T::kGroupTokens > 1 ? self.quad() % 2 : 0));
    const int32_t end = token < static_cast<int32_t>(item.w) ? load_sees(shared, buffer, token).end : 0;
    const auto buffer_groups = static_cast<uint32_t>(T::q_boxes(most_tokens(p.view)));
    self.q_descriptor = wgmma_descriptor_k_major_128b(
        ptx::cvta_to_shared(shared.q[0]).value + (buffer * buffer_groups + warpgroup % groups) * (kColumns * kDepth));
    uint32_t ring = item.x + first + whole * step;
    tile_key += static_cast<int32_t>(whole * step * kTileKeys + self.key());   // the lane's
#pragma unroll 1
    for (uint32_t i = whole; i < tiles; ++i, tile_key += static_cast<int32_t>(step) * kTileKeys) {
        self.stores = tile_key < end;
        stretch<T, 1>(p, self, shared, ring, unused);
    }
}

template <class T>
__device__ __forceinline__ void consume_all(const ScoreParams& p, Shared& shared, uint32_t warp, uint32_t lane) {
    Consumer self;
    self.warp = warp % 4;
    self.lane = lane;
    self.plain = p.score_type == FloatType::kFp32 && p.fill_columns == 0;
    const uint32_t warpgroup = warp / 4;
    self.k_descriptor = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.k).value);
    if constexpr (T::kRounds) {
        self.scale = hidden(ptx::cvta_to_shared(&shared.k_scale[lane % 2][self.key()]));
        self.live = hidden(ptx::cvta_to_shared(&shared.live[lane % 2][self.key() / 32]));
    }
    const auto buffer_groups = static_cast<uint32_t>(T::q_boxes(most_tokens(p.view)));
    uint32_t before = 0;   // groups of the last item
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % 2;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / 2 % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        const uint32_t all_tiles = item.y;
        if (item.w == 0) return;
        const auto tokens = static_cast<int32_t>(item.w);
        if (all_tiles != 0) {
            const auto groups = static_cast<uint32_t>(groups_of(tokens, T::kGroupTokens));
            self.step = kGroups / groups;
            // Which tiles are whose depends on the ring position, and changes only where all meet: so a warpgroup has
            // seen every phase of the stages that it waits for, and a parity cannot be mistaken for the one before it.
            if (groups != before && before != 0) ptx::bar_sync(kConsumerBarrier, 32 * kConsumerWarps);
            before = groups;
            const uint32_t group = warpgroup % groups;
            const uint32_t first = (warpgroup / groups - item.x) % self.step;
            uint32_t ring = item.x + first;
            uint32_t tiles = all_tiles > first ? (all_tiles - first + self.step - 1) / self.step : 0;
            const auto item_key = static_cast<int32_t>(ptx::ld_shared_u32(from + 16));
            int32_t tile_key = item_key + static_cast<int32_t>(first) * kTileKeys;
            self.q_descriptor = wgmma_descriptor_k_major_128b(
                ptx::cvta_to_shared(shared.q[0]).value + (buffer * buffer_groups + group) * (kColumns * kDepth));
            load_group_weights(ptx::cvta_to_shared(&shared.q_scale[buffer][group * kColumns + 2 * self.quad()]),
                               self.weights);
            const int32_t group_token = static_cast<int32_t>(group) * T::kGroupTokens;
            self.token = group_token + (T::kGroupTokens > 1 ? static_cast<int32_t>(self.quad()) % 2 : 0);
            self.tokens = tokens;
            self.buffer = buffer;
            self.stores = self.token < tokens;
            if constexpr (!T::kPlain) self.sees = self.stores ? load_sees(shared, buffer, self.token) : KeyRange{0, 0};
            self.row = (int64_t{static_cast<int32_t>(item.z)} + self.token) * p.score_stride;
            if constexpr (T::kPlain) {   // the second of a pair of tiles is the odd lanes' where a group has one token
                self.row += self.key() + tile_key;
                if (T::kGroupTokens == 1 && self.quad() % 2 != 0) self.row += int64_t{self.step} * kTileKeys;
            } else if (p.relative != 0) {
                self.row -= self.sees.begin;
            }
            if (T::kPlain || self.plain) self.row = reinterpret_cast<int64_t>(static_cast<float*>(p.scores) + self.row);
            if (group_token >= tokens) {   // a fourth group where there are three
                for (; tiles > 0; --tiles, ring += self.step) {
                    wait(ptx::cvta_to_shared(&shared.k_full[stage_at<T>(ring).index]), stage_at<T>(ring).parity);
                    release(self, shared, stage_at<T>(ring));
                }
            } else {
                if (T::kPlain && p.view.causal != 0)
                    tiles = whole_tiles(ptx::cvta_to_shared(shared.sees[buffer]), self.step, tile_key, tiles);
                score_tiles<T>(p, self, shared, ring, tiles, tile_key);
                if (T::kPlain && p.view.causal != 0) score_tail<T>(p, self, shared, buffer, warpgroup);
            }
        }
        if (!T::kPlain && p.fill_columns > 0)
            fill(p, shared, buffer, item, static_cast<int32_t>(ptx::ld_shared_u32(from + 20)),
                 static_cast<int32_t>(ptx::ld_shared_u32(from + 24)), warp, lane);
        ptx::bar_warp_sync(ptx::kFullMask);
        if (lane == 0) ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on
    ptx::griddepcontrol_launch_dependents();   // not before: a selection reads who sees what ahead of its own wait
    begin_hand_overs<T>(shared, k_map, q_map, kEmptyArrivals, kConsumerWarps, thread);
    if constexpr (!T::kRehearse) {
        if (p.view.batch > kWarpBatch || blocks_differ<T>(p)) find_start<T>(p, shared, thread);
        else ptx::bar_sync();
    }
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    if (warp >= kConsumerWarps) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        Loader loader = make_loader<T>(p, k_map, q_map, warp - kConsumerWarps, thread % 32);
        load_all<T>(p, loader, shared);
    } else {
        if constexpr (T::kRehearse) share_requests<T>(p, shared, thread);
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume_all<T>(p, shared, warp, thread % 32);
    }
}

}  // namespace
}  // namespace lidx::sm90_score

#define LIDX_SM90_ENTRY(symbol, heads, depth, tokens, plain)                                                           \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_score::kThreads, 1) symbol(                                \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm90_score::kDepth);                                                              \
        static_assert(tokens == lidx::sm90_score::Tile<heads>::kBlockTokens);                                          \
        lidx::sm90_score::score<lidx::sm90_score::Tile<heads, plain>>(k_map, q_map, p);                                \
    }
#define LIDX_SM90_SCORE_ENTRY(symbol, heads, depth, tokens) LIDX_SM90_ENTRY(symbol, heads, depth, tokens, false)
#define LIDX_SM90_PLAIN_ENTRY(symbol, heads, depth, tokens) LIDX_SM90_ENTRY(symbol, heads, depth, tokens, true)
LIDX_SM90_SCORE_VARIANTS(LIDX_SM90_SCORE_ENTRY)
LIDX_SM90_PLAIN_VARIANTS(LIDX_SM90_PLAIN_ENTRY)

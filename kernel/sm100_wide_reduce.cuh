// SPDX-License-Identifier: Apache-2.0
// From Tensor Memory to scores: what the two reducing warpgroups of sm100_wide.cu do with the tiles of a block. It has
// the arithmetic, the picture and the hand-overs.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tcgen05.cuh"

namespace lidx::sm100_wide {

namespace {

using sm90_score::load_sees;
using sm90_score::wait;

// A value that all lanes of the warp have; ptxas knows it, too.
__device__ __forceinline__ uint32_t uniform(uint32_t value) { return ptx::shfl_sync_idx(value, 0, ptx::kFullMask); }

// A value that ptxas cannot work out again, and so keeps.
__device__ __forceinline__ uint32_t kept(uint32_t value) { return ptx::shfl_sync_bfly(value, 0, ptx::kFullMask); }

// Columns of a step: one tcgen05.ld.
constexpr int kStepColumns = 32, kSteps = kGroupColumns / kStepColumns;

// Whether a column pair of a group, one head of two tokens, goes through the FMA pipe: 22 of 64, which makes that pipe
// and the ALU 354 clocks of a tile each (21: 350 and 358).
LIDX_HOST_DEVICE constexpr bool on_fma_pipe(int pair) { return pair % 3 == 0; }

template <class T>
struct Reducer {
    static constexpr int kTokenPairs = T::kGroupTokens / 2;
    uint32_t group, lane;              // lane: of Tensor Memory, the thread's key in each tile
    ptx::TmemAddr s;                   // of the warp's lanes, the group's columns
    ptx::SharedAddr s_full;            // of stage 0; s_empty lies behind them
    ptx::SharedAddr scale, live;       // of stage 0; scale: of the thread's key; live: the word that has its bit
    uint32_t live_bit;
    bool first;                        // lane of the warp
    ptx::F32x2 weight[kGroupColumns / 2];
    float* cell[T::kGroupTokens];      // in the row of each token, of the thread's key in the next tile
};

// Sums of a pair of tokens.
struct Sums {
    ptx::F32x2 even, odd;   // heads
};

// Adds a step's columns, 16 heads of two tokens.
template <class T, bool kHalved>
__device__ __forceinline__ void reduce_step(int step, const float (&x)[kStepColumns],
                                            const ptx::F32x2 (&weight)[kGroupColumns / 2],
                                            Sums (&sums)[Reducer<T>::kTokenPairs]) {
    Sums& sum = sums[step * kStepColumns / (2 * T::kHeads)];
    if (step * kStepColumns % (2 * T::kHeads) == 0) sum = {ptx::mov_b64(0.0f, 0.0f), ptx::mov_b64(0.0f, 0.0f)};
#pragma unroll
    for (int i = 0; i < kStepColumns / 2; ++i) {
        const int pair = step * kStepColumns / 2 + i;
        const float a = x[2 * i], b = x[2 * i + 1];
        ptx::F32x2 r;
        if (kHalved && on_fma_pipe(pair))
            r = ptx::add_rn_f32x2(ptx::mov_b64(a, b), ptx::mov_b64(ptx::abs_f32(a), ptx::abs_f32(b)));
        else r = ptx::mov_b64(ptx::max_nan_f32(a, 0.0f), ptx::max_nan_f32(b, 0.0f));
        ptx::F32x2& to = i % 2 == 0 ? sum.even : sum.odd;
        to = ptx::fma_rn_f32x2(weight[pair], r, to);
    }
}

// A block's weights, those of the FMA pipe's pairs halved; false: one of these may not be, and none is.
__device__ __forceinline__ bool load_weights(ptx::SharedAddr from, ptx::F32x2 (&weight)[kGroupColumns / 2]) {
#pragma unroll
    for (int pair = 0; pair < kGroupColumns / 2; pair += 2)
        ptx::ld_shared_v2_b64(weight[pair], weight[pair + 1], from + static_cast<uint32_t>(pair) * 8);
    uint32_t least = UINT32_MAX;   // magnitude, as bits, less one: of zero the most
#pragma unroll
    for (int pair = 0; pair < kGroupColumns / 2; ++pair) {
        if (!on_fma_pipe(pair)) continue;
        float a, b;
        ptx::mov_b64(a, b, weight[pair]);
        const uint32_t bits_a = (__float_as_uint(a) & 0x7fffffff) - 1, bits_b = (__float_as_uint(b) & 0x7fffffff) - 1;
        least = bits_a < least ? bits_a : least;
        least = bits_b < least ? bits_b : least;
    }
    if (least < 0x01000000 - 1) return false;   // 2^-125
#pragma unroll
    for (int pair = 0; pair < kGroupColumns / 2; ++pair)
        if (on_fma_pipe(pair)) weight[pair] = ptx::mul_rn_f32x2(weight[pair], ptx::mov_b64(0.5f, 0.5f));
    return true;
}

// The tiles at ring positions [ring, end), an even number but zero for kWhole: all rows of the group see all of them.
// Two such tiles are a turn of the loop, so that what differs between the stages of S is worked out once.
template <class T, bool kHalved, bool kWhole>
__device__ __forceinline__ void reduce_tiles(Reducer<T>& self, ptx::SharedAddr sees, uint32_t ring, uint32_t end,
                                             int32_t key) {
    constexpr int kUnroll = kWhole ? 2 : 1;
    ptx::TmemAddr s[kUnroll];
    ptx::SharedAddr full[kUnroll];
    uint32_t parity[kUnroll];
    const auto place = [&](int i, uint32_t at) {
        s[i] = self.s.column(at % kScoreStages * kColumns);
        full[i] = self.s_full + at % kScoreStages * 8;
        parity[i] = at / kScoreStages % 2;
    };
    float x[2][kStepColumns], scale[kUnroll];
    uint32_t live[kUnroll];
    const auto begin_tile = [&](int i) {
        wait(full[i], parity[i]);
        parity[i] ^= 1;
        const uint32_t stage = ring % kStages * (kTileKeys * 4);
        scale[i] = ptx::ld_shared_f32(self.scale + stage);
        live[i] = ptx::ld_shared_u32(self.live + stage);
        ptx::tcgen05_fence_after_thread_sync();
        // All lanes have read scales and live before one releases them; and tcgen05.ld is .aligned, where waiting may
        // have diverged the warp.
        ptx::bar_warp_sync(ptx::kFullMask);
        ptx::tcgen05_ld_32x32b_x32(x[0], s[i].column(0));
    };
    const auto wait_step = [&](int step) {
        ptx::tcgen05_wait_ld();
        // The compiler may not move reads of the columns above the wait.
#pragma unroll
        for (float& value : x[step % 2]) asm volatile("" : "+f"(value));
    };
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        place(i, ring + i);
        if (kUnroll > 1) s[i] = {uniform(s[i].value)}, full[i] = {uniform(full[i].value)};   // kept
    }
    begin_tile(0);
    bool more = true;
#pragma unroll 1
    do {
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (i + 1 == kUnroll) {   // far from the stores, which read the addresses late
#pragma unroll
                for (float*& cell : self.cell) {
                    cell += kUnroll * kTileKeys;
                    asm volatile("" : "+l"(cell));
                }
            }
            const float own_scale = scale[i];
            const bool lives = (live[i] & self.live_bit) != 0;
            Sums sums[Reducer<T>::kTokenPairs];
#pragma unroll
            for (int step = 0; step < kSteps - 1; ++step) {
                wait_step(step);
                ptx::tcgen05_ld_32x32b_x32(x[(step + 1) % 2],
                                           s[i].column(static_cast<uint32_t>((step + 1) * kStepColumns)));
                reduce_step<T, kHalved>(step, x[step % 2], self.weight, sums);
            }
            wait_step(kSteps - 1);
            ptx::tcgen05_fence_before_thread_sync();
            if (self.first) ptx::mbarrier_arrive(full[i] + kScoreStages * 8);
            ++ring;
            if (i + 1 < kUnroll) {
                begin_tile(i + 1);
            } else {
                more = ring != end;
                if (more) {
                    if (kUnroll == 1) place(0, ring);
                    begin_tile(0);
                }
            }
            reduce_step<T, kHalved>(kSteps - 1, x[(kSteps - 1) % 2], self.weight, sums);
            float score[T::kGroupTokens];
#pragma unroll
            for (int pair = 0; pair < Reducer<T>::kTokenPairs; ++pair)
                ptx::mov_b64(score[2 * pair], score[2 * pair + 1],
                             ptx::mul_rn_f32x2(ptx::mov_b64(own_scale, own_scale),
                                               ptx::add_rn_f32x2(sums[pair].even, sums[pair].odd)));
#pragma unroll
            for (int token = 0; token < T::kGroupTokens; ++token) {
                constexpr int kAhead = kUnroll;   // tiles that the addresses have gone ahead
                if (lives && (kWhole || load_sees(sees, static_cast<uint32_t>(token)).has(key)))
                    ptx::st_global_f32(self.cell[token] + (i + 1 == kUnroll ? i - kAhead : i) * kTileKeys,
                                       score[token]);
            }
        }
        key += kUnroll * kTileKeys;
    } while (more);
}

// Keys that all rows of the group see.
template <class T>
__device__ __forceinline__ KeyRange seen_by_all(ptx::SharedAddr sees) {
    KeyRange all{0, INT32_MAX};
#pragma unroll
    for (int token = 0; token < T::kGroupTokens; ++token) {
        const KeyRange keys = load_sees(sees, static_cast<uint32_t>(token));
        all = {keys.begin > all.begin ? keys.begin : all.begin, keys.end < all.end ? keys.end : all.end};
    }
    return all;
}

// The tiles of a block, from its first key on. Those that all rows see whole, as many as are even, go by themselves.
template <class T>
__device__ __forceinline__ void reduce_block(Reducer<T>& self, ptx::SharedAddr sees, uint32_t ring, uint32_t tiles,
                                             int32_t key, bool halved) {
    const KeyRange all = seen_by_all<T>(sees);
    const auto most = static_cast<int32_t>(tiles);
    const auto skipped = clamp<int32_t>((all.begin - key + kTileKeys - 1) / kTileKeys, 0, most);
    const auto seen = clamp<int32_t>(all.end > key ? (all.end - key) / kTileKeys : 0, skipped, most);
    const uint32_t end = ring + tiles;
    const uint32_t whole = ring + uniform(static_cast<uint32_t>(skipped));
    const uint32_t whole_end = whole + (halved ? uniform(static_cast<uint32_t>(seen - skipped)) & ~1u : 0);
#pragma unroll 1
    while (ring != end) {
        const bool alike = ring == whole && whole != whole_end;
        const uint32_t stop = uniform(alike ? whole_end : static_cast<int32_t>(ring - whole) < 0 ? whole : end);
        const int32_t own_key = key + static_cast<int32_t>(self.lane);
        if (!halved) reduce_tiles<T, false, false>(self, sees, ring, stop, own_key);
        else if (alike) reduce_tiles<T, true, true>(self, sees, ring, stop, own_key);
        else reduce_tiles<T, true, false>(self, sees, ring, stop, own_key);
        key += static_cast<int32_t>((stop - ring) * kTileKeys);
        ring = stop;
    }
}

template <class T>
__device__ __forceinline__ void reduce_all(const ScoreParams& p, typename T::Shared& shared, uint32_t tmem,
                                           uint32_t warp, uint32_t thread) {
    Reducer<T> self;
    self.group = warp / 4;
    self.lane = thread % 128;
    self.s = {uniform(ptx::TmemAddr{tmem}.lane(warp % 4 * 32).column(self.group * kGroupColumns).value)};
    // Nought, of which ptxas does not know it: else it works the addresses of barriers out for each tile, since all
    // lanes have the same (401 instructions of two tiles, 412 then).
    self.s_full = ptx::cvta_to_shared(shared.s_full) + (kept(self.lane) - self.lane);
    self.scale = {kept((ptx::cvta_to_shared(shared.k_scale) + self.lane * 4).value)};
    self.live = {kept((ptx::cvta_to_shared(shared.live) + self.lane / 32 * 4).value)};
    self.live_bit = kept(1u << self.lane % 32);
    self.first = self.lane % 32 == 0;
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % kQBuffers;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / kQBuffers % 2);
        const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.item[buffer]);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(from);   // ring, tiles, row, tokens
        if (item.w == 0) return;
        const auto key = static_cast<int32_t>(uniform(ptx::ld_shared_u32(from + 16)));
        const uint32_t first_token = self.group * T::kGroupTokens;
#pragma unroll
        for (uint32_t token = 0; token < T::kGroupTokens; ++token)
            self.cell[token] = static_cast<float*>(p.scores) +
                               (int64_t{item.z} + first_token + token) * p.score_stride + key + self.lane;
        const bool halved =
            load_weights(ptx::cvta_to_shared(&shared.q_scale[buffer][self.group * kGroupColumns]), self.weight);
        reduce_block<T>(self, ptx::cvta_to_shared(&shared.sees[buffer][first_token]), uniform(item.x), uniform(item.y),
                        key, halved);
        ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.q_empty[buffer]));   // every lane: docs/kernel-sm90.md
    }
}

}  // namespace
}  // namespace lidx::sm100_wide

// SPDX-License-Identifier: Apache-2.0
// Where the sums of sm90_score.cu's warpgroups go: keys, rows, cells. Part of sm90_score.cu.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_score_layout.h"
#include "kernel/sm90_walk.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"

namespace lidx::sm90_score {

namespace {

struct Consumer {
    uint32_t warp, lane;         // warp: of the warpgroup
    uint32_t step;               // tiles from one of this warpgroup's to the next
    uint64_t k_descriptor, q_descriptor;
    float weights[kColumns / 4];   // of columns 8 j + 2 q + e at 2 j + e
    uint32_t buffer;
    bool plain;                  // fp32 scores and no fill
    bool stores;                 // T::kPlain: the lane's token exists
    int32_t token, tokens;       // the lane's first, of the item's; with 16 heads or fewer it has further ones
    KeyRange sees;               // of the lane's first token
    int64_t row;                 // of scores: the cell of key 0 of the lane's first token; plain: its address, in
                                 // T::kPlain that of the lane's key in the next tile
    ptx::SharedAddr scale, live; // T::kRounds: of the lane's key in stage 0; odd lanes: 1
    __device__ __forceinline__ uint32_t quad() const { return lane % 4; }
    // The key of a tile whose sum this lane ends up with.
    __device__ __forceinline__ uint32_t key() const { return 16 * warp + lane / 4 + 8 * (quad() / 2); }
};

// A key of a tile, as its score needs it.
struct Key {
    int32_t index;   // in the request
    float scale;
    bool live;       // on a legal page
};
template <class T>
__device__ __forceinline__ Key load_key(const Consumer& self, Shared& shared, const Stage& stage, int32_t tile_key) {
    const uint32_t index = stage.index, key = self.key();
    const uint32_t bits = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.live[index][key / 32]));
    const float scale = ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[index][key]));
    const bool live = (bits >> key % 32 & 1) != 0;
    if constexpr (T::kPlain) return {tile_key, scale, self.stores && live};
    return {tile_key + static_cast<int32_t>(key), scale, live};
}

// A key that the row sees on a page that must not be read is dead: -inf where the launch fills.
template <class T>
__device__ __forceinline__ void store(const ScoreParams& p, bool plain, int64_t row, const KeyRange& sees,
                                      const Key& key, float sum) {
    if (T::kPlain || plain) {
        auto* cell = reinterpret_cast<float*>(row) + key.index;
        if ((T::kPlain || sees.has(key.index)) && key.live) ptx::st_global_f32(cell, ptx::mul_rn_f32(key.scale, sum));
        return;
    }
    if (sees.has(key.index) && (key.live || p.fill_columns != 0))
        store_score(p, row + key.index, key.live ? ptx::mul_rn_f32(key.scale, sum) : dead_score());
}

__device__ __forceinline__ KeyRange load_sees(const Shared& shared, uint32_t buffer, int32_t token) {
    const ptx::SharedAddr from = ptx::cvta_to_shared(&shared.sees[buffer][token]);
    return {static_cast<int32_t>(ptx::ld_shared_u32(from)), static_cast<int32_t>(ptx::ld_shared_u32(from + 4))};
}

// The scores of a tile of two or more tokens: of tokens 2 i and 2 i + 1 each lane of a quad stores one, even lanes the
// first's, odd lanes the second's.
template <class T>
__device__ __forceinline__ void store_tokens(const ScoreParams& p, const Consumer& self, const Shared& shared,
                                             const Key& key, const float (&sum)[2 * T::kGroupTokens]) {
#pragma unroll
    for (int i = 0; i < T::kGroupTokens / 2; ++i) {
        KeyRange sees = self.sees;
        int64_t row = self.row;
        if (i > 0) {
            const int32_t token = self.token + 2 * i;
            sees = token < self.tokens ? load_sees(shared, self.buffer, token) : KeyRange{0, 0};
            const int64_t cell = self.plain ? 4 : 1;
            row += 2 * i * p.score_stride * cell;
            if (p.relative != 0) row += (self.sees.begin - sees.begin) * cell;
        }
        store<T>(p, self.plain, row, sees, key,
              quad_sum(self.quad(), sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    }
}

// Columns [begin, end) of an item's rows where no key of the row is live.
__device__ __forceinline__ void fill(const ScoreParams& p, const Shared& shared, uint32_t buffer,
                                     const ptx::U32x4& item, int32_t begin, int32_t end, uint32_t warp,
                                     uint32_t lane) {
    const auto tokens = static_cast<int32_t>(item.w);
    for (int32_t token = 0; token < tokens; ++token) {
        const KeyRange sees = load_sees(shared, buffer, token);
        const int64_t row = (int64_t{static_cast<int32_t>(item.z)} + token) * p.score_stride;
#pragma unroll 1
        for (auto column = begin + static_cast<int32_t>(32 * warp + lane); column < end; column += 32 * kConsumerWarps)
            if (dead_column(p, sees, column)) store_score(p, row + column, dead_score());
    }
}

}  // namespace
}  // namespace lidx::sm90_score

// SPDX-License-Identifier: Apache-2.0
// What the loading warps (sm90_loader.cuh) do otherwise for sm100_wide.cu than for the sm_90 kernels, by what its tile
// says.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/score_cells.cuh"
#include "ptx/memory.cuh"

namespace lidx::sm90_score {

// Tokens take turns in each head of Q and of its weights, two by two.
template <class T>
inline constexpr bool kTokensTurn = requires { T::kTokenTurns; };

// Where a weight lies in its buffer, in bytes.
template <class T>
__device__ __forceinline__ uint32_t weight_cell(int32_t token, int32_t head) {
    if constexpr (kTokensTurn<T>)
        return static_cast<uint32_t>((token / 2 * T::kHeads + head) * 2 + token % 2) * 4;
    return static_cast<uint32_t>((token * T::kWeightStride + head) * 4);
}

// kFillIllegalKeys is the loading warps', though rows may see different keys.
template <class T>
inline constexpr bool kLoadersFill = requires { T::kLoadersFill; };

// -inf for those of keys key, key + 32, ... whose bit of `words` is set, in the rows that see them.
template <class T>
__device__ __forceinline__ void fill_keys(const ScoreParams& p, int32_t request, int32_t row, int32_t tokens,
                                          int32_t key, uint32_t words) {
    const RequestRows rows = request_rows(p.view, request);
#pragma unroll 1
    for (int32_t token = 0; token < tokens; ++token) {
        const KeyRange keys = live_keys(p.view, request, rows, row + token);
        float* const cells = static_cast<float*>(p.scores) + (int64_t{row} + token) * p.score_stride + key;
#pragma unroll
        for (int32_t word = 0; word < T::kTileKeys / 32; ++word)
            if ((words >> word & 1) != 0 && keys.has(key + word * 32))
                ptx::st_global_f32(cells + word * 32, dead_score());
    }
}

}  // namespace lidx::sm90_score

// SPDX-License-Identifier: Apache-2.0
// Shapes, limits and the parameter block that host and kernels share. Plain C++: no CUDA header.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define LIDX_HOST_DEVICE __host__ __device__
#else
#define LIDX_HOST_DEVICE
#endif

namespace lidx {

inline constexpr int kTileKeys = 128;     // keys per CTA tile: MMA M, and the 128 TMEM lanes that four warps drain
inline constexpr int kMaxHeads = 128;
inline constexpr int kMaxDepth = 128;

// The kernels' parameter block, passed by value (`const __grid_constant__ ScoreParams`). Tensor maps, where a kernel
// has them, are separate __grid_constant__ parameters in front of it: (CUtensorMap k_map, CUtensorMap q_map,
// ScoreParams).
struct ScoreParams {
    const uint8_t* q;               // [rows, heads, depth] e4m3 codes
    const float* q_scale;           // [rows, heads]
    const uint8_t* k;               // page p, slot j at k + p * k_page_stride + j * depth
    const uint8_t* k_scale;         // page p, slot j: fp32 at k_scale + p * k_scale_page_stride + j * 4
    const int32_t* block_table;     // [batch, block_table_stride]; null: request b is page b
    const int32_t* context_lens;    // [batch]
    const int32_t* cu_seqlens_q;    // [batch + 1]
    float* scores;                  // [rows, score_stride]
    uint32_t* check_word;           // null: page ids are not reported
    int64_t num_pages;
    int64_t k_page_stride;          // bytes
    int64_t k_scale_page_stride;    // bytes
    int64_t block_table_stride;     // entries
    int64_t score_stride;           // elements
    int64_t max_keys;               // lengths are clamped to this (and to the table's width)
    int32_t rows;                   // rows that q and scores hold: cu_seqlens_q entries are clamped to it
    int32_t heads;
    int32_t depth;
    int32_t page_size;              // keys per page; contiguous: max_keys
    int32_t max_tokens;             // tokens of a request are clamped to it: grid and shared memory follow from it
    int32_t batch;                  // requests
};
static_assert(sizeof(ScoreParams) == 144, "host and device agree on the layout");

}  // namespace lidx

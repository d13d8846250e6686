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

// The values of lidx_row_map, lidx_visibility and lidx_float_type (host/plan.cpp holds them to lidx.h).
enum class RowMap : int32_t { kCuSeqlens = 0, kFixed = 1, kRequestIds = 2 };
enum class Visibility : int32_t { kRequestLength = 0, kRowLength = 1, kWindow = 2 };
enum class FloatType : int32_t { kFp32 = 0, kBf16 = 1, kFp16 = 2 };   // scorers take the first two
LIDX_HOST_DEVICE constexpr int float_bytes(FloatType type) { return type == FloatType::kFp32 ? 4 : 2; }

// Whose a row is and which keys it sees: what kernel/live.h answers from. A part of every parameter block whose kernel
// has rows.
struct RowView {
    const int32_t* row_map_data;    // kCuSeqlens: [batch + 1]; kRequestIds: [rows]; kFixed: null
    const void* lengths;            // kRequestLength: [batch]; kRowLength: [rows]; kWindow: [rows], first keys
    const void* ends;               // kWindow: [rows], one past the last keys; else null
    int32_t batch;                  // requests
    int32_t rows;                   // rows that q and scores hold: whatever the row map says is clamped to it
    int32_t max_tokens;             // tokens of a request are clamped to it; kFixed: their number, perhaps above rows
    int32_t keys_limit;             // keys of a request are clamped to it: max_keys, or the block tables' width
    int32_t window_limit;           // keys of a row are clamped to it: keys_limit, or the columns of relative scores
    int32_t compress_ratio;         // tokens per key, 1 or more
    RowMap row_map;
    Visibility visibility;
    int32_t causal;                 // kRequestLength: row j of n sees n - 1 - j tokens less than the last
    int32_t wide;                   // lengths and ends are int64, else int32
    int32_t first_row, end_row;     // the launch's rows: of [0, rows) only these are its work
};
static_assert(sizeof(RowView) == 72, "host and device agree on the layout");

inline constexpr int32_t kFillIllegalKeys = -1;

// The kernels' parameter block, passed by value (`const __grid_constant__ ScoreParams`). Tensor maps, where a kernel
// has them, are separate __grid_constant__ parameters in front of it: (CUtensorMap k_map, CUtensorMap q_map,
// ScoreParams).
struct ScoreParams {
    RowView view;
    const uint8_t* q;                   // [rows, heads, depth] e4m3 codes
    const void* q_scale;                // [rows, heads] weight_type, weight_stride
    const void* q_scale2;               // [rows, heads] weight2_type, weight2_stride; null: the weights are q_scale
    const uint8_t* k;                   // page p, slot j at k + p * k_page_stride + j * depth
    const uint8_t* k_scale;             // page p, slot j: fp32 at k_scale + p * k_scale_page_stride + j * 4
    const int32_t* block_table;         // [batch, block_table_stride]; null: request b is page b
    const int32_t* scale_block_table;   // [batch, scale_block_table_stride]; without one: block_table and its stride
    void* scores;                       // [rows, score_stride] score_type
    uint32_t* check_word;               // null: page ids are not reported
    int64_t num_pages;
    int64_t scale_num_pages;
    int64_t k_page_stride;              // bytes
    int64_t k_scale_page_stride;        // bytes
    int64_t block_table_stride;         // entries
    int64_t scale_block_table_stride;   // entries
    int64_t weight_stride;              // elements
    int64_t weight2_stride;             // elements
    int64_t score_stride;               // elements
    int32_t heads;
    int32_t depth;
    int32_t page_size;                  // keys per page; contiguous: max_keys
    int32_t fill_columns;               // columns that get -inf where no key is live; 0: dead cells stay as they are;
                                        // kFillIllegalKeys: only those of keys on illegal pages get it
    int32_t relative;                   // a row's column 0 is the first key that it sees
    FloatType weight_type;
    FloatType weight2_type;
    FloatType score_type;
    uint32_t tiles[3];                  // the launch's work: requests, key tiles, slices (kernel/schedule.h); or the
                                        // shares and shared memory of warpgroups (kernel/sm90_decode_layout.h)
};
static_assert(sizeof(ScoreParams) == 264, "host and device agree on the layout");

}  // namespace lidx

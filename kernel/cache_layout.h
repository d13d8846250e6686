// SPDX-License-Identifier: Apache-2.0
// Parameter blocks and launch sizes of the cache kernels: store, gather and the query side. Plain C++, for host and
// kernels.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/problem.h"

namespace lidx::cache {

inline constexpr int kThreads = 128;               // of every cache kernel
inline constexpr int kWarps = kThreads / 32;       // store, query: a vector of 64 or 128 elements per warp
inline constexpr int kGatherLanes = 8;             // gather: lanes per key, 16 bytes each
inline constexpr int kGatherKeys = kThreads / kGatherLanes;   // keys per CTA
inline constexpr int kMaxInlinePages = 512;        // page ids of one cache_store_pages launch, inside its parameters
inline constexpr float kMinAmax = 1e-4f;           // no scale below kMinAmax / kE4m3Max
inline constexpr float kE4m3Max = 448.0f;

constexpr bool depth_fits(int64_t depth) { return depth == 64 || depth == 128; }

enum QuantiseBits : uint32_t {
    kRotate = 1u << 0,      // Hadamard, times depth^-0.5
    kPow2Scale = 1u << 1,   // the scale is rounded up to a power of two
    kRound = 1u << 3,       // between rotation and quantisation, to the source's type
    kVector = 1u << 2,      // every source vector begins on a multiple of what a lane reads: one load a lane
};

struct StoreParams {
    const uint8_t* keys;            // [rows], key_stride_bytes apart, depth elements each
    const int64_t* slots;           // [rows]: page * page_size + slot, or with scale_slots the codes' byte offset
    const int64_t* scale_slots;     // [rows]: the scale's byte offset; null: slots are slot numbers
    uint8_t* k;                     // page p, slot j at k + p * k_page_stride + j * depth
    uint8_t* k_scale;               // fp32 at k_scale + p * k_scale_page_stride + j * 4
    uint32_t* check_word;           // null: illegal slots are not reported
    int64_t key_stride_bytes;
    int64_t num_pages;
    int64_t k_page_stride;          // bytes
    int64_t k_scale_page_stride;    // bytes
    int32_t rows;
    int32_t page_size;
    int32_t depth;
    FloatType key_type;
    uint32_t quantise;              // QuantiseBits
    uint32_t reserved;
};
static_assert(sizeof(StoreParams) == 104, "host and device agree on the layout");

// Rows of one sequence: row r goes to slot (first_slot + r) % page_size of page pages[(first_slot + r) / page_size].
// store.slots is not read.
struct StorePagesParams {
    StoreParams store;
    int32_t first_slot;             // in pages[0]
    int32_t page_count;
    int32_t pages[kMaxInlinePages];
};
static_assert(sizeof(StorePagesParams) == 104 + 8 + 4 * kMaxInlinePages && sizeof(StorePagesParams) <= 4096,
              "below the 4 KiB of kernel parameters that every architecture has (PTX ISA 5.1.6.1)");

struct GatherParams {
    const uint8_t* k;
    const uint8_t* k_scale;
    const uint32_t* block_table;    // [batch, block_table_stride] page ids
    const int32_t* cu_seqlens;      // [batch + 1]: request b fills rows cu_seqlens[b] .. cu_seqlens[b + 1] - 1
    const int32_t* key_begin;       // [batch]: the request's first key; null: 0
    const int32_t* context_lens;    // [batch]: keys from here on do not exist; null: the table's width decides
    uint8_t* k_out;                 // row r at k_out + r * k_out_stride
    float* k_scale_out;             // [max_rows]
    uint32_t* check_word;           // null: page ids are not reported
    int64_t num_pages;
    int64_t k_page_stride;          // bytes
    int64_t k_scale_page_stride;    // bytes
    int64_t block_table_stride;     // entries
    int64_t k_out_stride;           // bytes
    int32_t batch;
    int32_t max_rows;
    int32_t page_size;
    int32_t depth;
};
static_assert(sizeof(GatherParams) == 128, "host and device agree on the layout");

struct QueryParams {
    const uint8_t* q;               // head h of row r at q + r * q_row_stride_bytes + h * q_head_stride_bytes
    const uint8_t* weights;         // row r at weights + r * weight_stride_bytes, [heads]; null: ones
    uint8_t* q_out;                 // [rows, heads, depth] codes
    uint8_t* weights_out;           // row r at weights_out + r * weight_out_stride_bytes, [heads]; null: none
    float* q_scale_out;             // [rows, heads]; null: none
    int64_t q_row_stride_bytes;
    int64_t q_head_stride_bytes;
    int64_t weight_stride_bytes;
    int64_t weight_out_stride_bytes;
    int32_t rows;
    int32_t heads;
    int32_t depth;
    FloatType q_type;
    FloatType weight_type;
    FloatType weight_out_type;      // fp32 or bf16
    float factor;
    uint32_t quantise;              // QuantiseBits
};
static_assert(sizeof(QueryParams) == 104, "host and device agree on the layout");

}  // namespace lidx::cache

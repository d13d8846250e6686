// SPDX-License-Identifier: Apache-2.0
// The host side of a case: its shapes, the bytes of every buffer, and the same data as the formula sees it.
#pragma once
#include <cstdint>
#include <vector>

#include "check_cases.h"
#include "ref/sight.h"

namespace check {

// One request as the formula sees it: no pages, no padding.
struct Request {
    int row_begin = 0, tokens = 0;  // after the clamps that lidx.h promises
    int keys = 0;                   // up to the last that any of its rows sees
    std::vector<uint8_t> codes;  // [keys, depth]
    std::vector<float> scales;   // [keys]
    std::vector<uint8_t> dead;   // [keys]: 1 where the page id is outside the pool
};

// One row as the formula sees it.
struct Row {
    int request = -1;        // -1: nobody's
    int begin = 0, end = 0;  // the keys that it sees
};

struct Inputs {
    Case c;
    // what the plan is told
    int max_rows = 0, max_tokens = 0;
    int64_t max_keys = 0, num_pages = 0, k_page_stride = 0, k_scale_page_stride = 0, table_width = 0;
    int64_t score_columns = 0, declared_columns = 0;   // in effect; as the plan is told (0: max_keys)
    int64_t score_stride = 0;
    int64_t scale_num_pages = 0, scale_table_width = 0;   // 0: no table of its own
    int page_size = 0;  // 0: contiguous
    // device buffers
    std::vector<uint8_t> q;             // [max_rows, heads, depth]
    std::vector<uint8_t> weights;       // [max_rows, heads + gap] fp32 or bf16
    std::vector<uint8_t> weights2;      // [max_rows, heads + 1] fp32 or bf16; empty: no second factor
    std::vector<uint8_t> k_pool;        // codes; block-split: and scales
    std::vector<uint8_t> k_scale_pool;  // empty for block-split
    int64_t k_scale_offset = 0;         // block-split: of the first page's scales in k_pool
    std::vector<int32_t> block_table;   // [batch, table_width]
    std::vector<int32_t> scale_table;   // [batch, scale_table_width]
    lidx::ref::Sight sight;             // row map, lengths and windows, as the kernel reads them
    // the formula's view
    std::vector<float> q_scale;         // [max_rows, heads], the weights
    std::vector<Request> requests;
    std::vector<Row> rows;              // [max_rows]
    bool has_bad_pages = false;
    int64_t live_cells = 0;
};

// Throws std::logic_error where lattice values are not what their bit equality rests on.
Inputs make_inputs(const Case& c);

// int32 or int64, as the case has it.
std::vector<uint8_t> length_bytes(const Case& c, const std::vector<int64_t>& lengths);

// Poison of score cell i: a NaN whose payload tells the cell; of bf16 cells, the upper half of another one.
uint32_t score_poison(const Case& c, int64_t i);

}  // namespace check

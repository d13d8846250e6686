// SPDX-License-Identifier: Apache-2.0
// Who sees what: the rows of a request, and the keys that a row sees. The scorers, the fill and the selection of keys
// ask nobody else. Plain C++, host and device. Whatever the row map, lengths and windows hold, the answers lie inside
// the buffers.
#pragma once
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/schedule.h"

namespace lidx {

// ---- rows

struct RequestRows {
    int32_t begin;     // first row of q and scores that is the launch's work
    int32_t tokens;    // rows from there that are, 0 .. max_tokens
    int32_t all;       // rows from there that the row map gives: a causal row counts back from the last of these
};

// No request has more: max_tokens, or all rows there are.
LIDX_HOST_DEVICE constexpr int32_t most_tokens(const RowView& v) {
    return v.max_tokens < v.rows ? v.max_tokens : v.rows;
}

template <class Int = int64_t>
LIDX_HOST_DEVICE constexpr RequestRows clamp_rows(const RowView& v, std::type_identity_t<Int> begin,
                                                  std::type_identity_t<Int> end) {
    const Int first = clamp<Int>(begin, 0, v.rows);
    const Int last = clamp<Int>(end, first, v.rows);
    const Int tokens = clamp<Int>(last - first, 0, v.max_tokens);
    const Int from = clamp<Int>(first, v.first_row, v.end_row);
    return {static_cast<int32_t>(from), static_cast<int32_t>(clamp<Int>(first + tokens, from, v.end_row) - from),
            static_cast<int32_t>(last - from)};
}

// The first of the rows from `begin` on whose request, as an unsigned number, is `request` or more.
LIDX_HOST_DEVICE inline int32_t lower_bound_row(const RowView& v, int32_t begin, uint32_t request) {
    int32_t end = v.rows;
    while (begin < end) {
        const int32_t middle = begin + (end - begin) / 2;
        if (static_cast<uint32_t>(v.row_map_data[middle]) < request) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

LIDX_HOST_DEVICE inline RequestRows request_rows(const RowView& v, int32_t request) {
    switch (v.row_map) {
        case RowMap::kCuSeqlens: return clamp_rows(v, v.row_map_data[request], v.row_map_data[request + 1]);
        case RowMap::kFixed: {
            const int64_t begin = int64_t{request} * v.max_tokens;
            RequestRows rows = clamp_rows(v, begin, begin + v.max_tokens);
            rows.all = static_cast<int32_t>(v.max_tokens + clamp(begin, 0, v.rows) - rows.begin);
            return rows;
        }
        case RowMap::kRequestIds: {
            const int32_t begin = lower_bound_row(v, 0, static_cast<uint32_t>(request));
            return clamp_rows(v, begin, lower_bound_row(v, begin, static_cast<uint32_t>(request) + 1));
        }
    }
    return {0, 0, 0};
}

// The request that a row belongs to; -1: none. The inverse of request_rows, but for the limit max_tokens.
LIDX_HOST_DEVICE inline int32_t row_owner(const RowView& v, int32_t row) {
    int32_t request = v.batch;
    switch (v.row_map) {
        case RowMap::kFixed: request = v.max_tokens > 0 ? row / v.max_tokens : v.batch; break;
        case RowMap::kRequestIds: {
            const auto id = static_cast<uint32_t>(v.row_map_data[row]);
            if (id < static_cast<uint32_t>(v.batch)) request = static_cast<int32_t>(id);
            break;
        }
        case RowMap::kCuSeqlens: {
            int32_t begin = 0, end = v.batch;   // the first request that ends beyond the row
            while (begin < end) {
                const int32_t middle = begin + (end - begin) / 2;
                if (v.row_map_data[middle + 1] <= row) begin = middle + 1;
                else end = middle;
            }
            if (begin < v.batch && v.row_map_data[begin] <= row) request = begin;
        }
    }
    return request < v.batch ? request : -1;
}

// ---- keys

// Keys [begin, end) of a request; begin = end where there are none.
struct KeyRange {
    int32_t begin, end;
    LIDX_HOST_DEVICE constexpr bool has(int32_t key) const { return key >= begin && key < end; }
    LIDX_HOST_DEVICE constexpr bool empty() const { return begin >= end; }
    LIDX_HOST_DEVICE constexpr int32_t size() const { return end - begin; }
};

LIDX_HOST_DEVICE inline int64_t load_length(const RowView& v, const void* lengths, int64_t index) {
    return v.wide != 0 ? static_cast<const int64_t*>(lengths)[index] : static_cast<const int32_t*>(lengths)[index];
}

inline constexpr int32_t kMaxCompressRatio = 512;
static_assert(UINT32_MAX / kMaxCompressRatio >= kMaxKeys);

// The keys of a row that sees `tokens` tokens.
LIDX_HOST_DEVICE constexpr KeyRange keys_of_length(const RowView& v, int64_t tokens) {
    if (tokens <= 0) return {0, 0};
    if (v.compress_ratio > 1)   // up to kMaxCompressRatio a length of 2^32 - 1 is more than kMaxKeys keys
        tokens = static_cast<uint32_t>(tokens < UINT32_MAX ? tokens : UINT32_MAX) /
                 static_cast<uint32_t>(v.compress_ratio);
    return {0, static_cast<int32_t>(tokens < v.window_limit ? tokens : v.window_limit)};
}

// The keys of a row with a window. Empty windows are {0, 0}.
LIDX_HOST_DEVICE constexpr KeyRange keys_of_window(const RowView& v, int64_t begin, int64_t end) {
    const auto first = static_cast<int32_t>(clamp(begin, 0, v.keys_limit));
    const auto last = static_cast<int32_t>(clamp(end, 0, v.keys_limit));
    if (last <= first) return {0, 0};
    return {first, last - first > v.window_limit ? first + v.window_limit : last};
}

// The keys that a row without a window sees: `length` is its own or its request's.
LIDX_HOST_DEVICE constexpr KeyRange keys_below_length(const RowView& v, int64_t length, const RequestRows& rows,
                                                      int32_t row) {
    if (length <= 0 || v.causal == 0) return keys_of_length(v, length);
    return keys_of_length(v, length - rows.all + (row - rows.begin) + 1);
}

// The keys that a row of a request sees; rows = request_rows(view, request), and row is one of them.
LIDX_HOST_DEVICE inline KeyRange live_keys(const RowView& v, int32_t request, const RequestRows& rows, int32_t row) {
    const int64_t first = load_length(v, v.lengths, v.visibility == Visibility::kRequestLength ? request : row);
    if (v.visibility == Visibility::kWindow) return keys_of_window(v, first, load_length(v, v.ends, row));
    return keys_below_length(v, first, rows, row);
}

// All rows of a request see the same keys.
LIDX_HOST_DEVICE constexpr bool rows_see_alike(const RowView& v) {
    return v.visibility == Visibility::kRequestLength && v.causal == 0;
}

// The keys between the first and the last that any row of [row_begin, row_end) sees: what a tile of these rows loads.
// Reads a length per row unless the last row sees most.
LIDX_HOST_DEVICE inline KeyRange hull_of_rows(const RowView& v, int32_t request, const RequestRows& rows,
                                              int32_t row_begin, int32_t row_end) {
    if (row_begin >= row_end) return {0, 0};
    if (v.visibility == Visibility::kRequestLength) return live_keys(v, request, rows, row_end - 1);
    KeyRange hull{0, 0};
    for (int32_t row = row_begin; row < row_end; ++row) {
        const KeyRange keys = live_keys(v, request, rows, row);
        if (keys.empty()) continue;
        if (hull.empty() || keys.begin < hull.begin) hull.begin = keys.begin;
        if (keys.end > hull.end) hull.end = keys.end;
    }
    return hull;
}

// A request as one rectangle: its rows, and the keys that they see; causal rows, the last of them. Where rows have
// lengths or windows of their own, keys is the limit of what they may see.
struct RequestSpan {
    int32_t row_begin;    // first row of q and scores that is the launch's work
    int32_t tokens;       // rows, 0 .. max_tokens
    int32_t keys;         // keys, 0 .. keys_limit
    int64_t length;       // tokens that the last row sees; each causal row before it sees one less
};
LIDX_HOST_DEVICE constexpr RequestSpan span_of_length(const RowView& v, const RequestRows& rows, int64_t length) {
    if (length > 0 && v.causal != 0) length -= rows.all - rows.tokens;
    return {rows.begin, rows.tokens, keys_of_length(v, length).end, length};
}
LIDX_HOST_DEVICE inline RequestSpan request_span(const RowView& v, int32_t request) {
    const RequestRows rows = request_rows(v, request);
    if (v.visibility != Visibility::kRequestLength) return {rows.begin, rows.tokens, v.keys_limit, 0};
    return span_of_length(v, rows, load_length(v, v.lengths, request));
}
// The keys of the causal row that has `later` rows of its request behind it.
LIDX_HOST_DEVICE constexpr int32_t causal_end(const RowView& v, int64_t length, int32_t later) {
    return length <= 0 ? 0 : keys_of_length(v, length - later).end;
}

// ---- columns

// The column of a key in a row that sees `keys`.
LIDX_HOST_DEVICE constexpr int32_t column_of(const ScoreParams& p, const KeyRange& keys, int32_t key) {
    return p.relative != 0 ? key - keys.begin : key;
}

// Whether no key of a row that sees `keys` has that column: FILL writes -inf there (and where the page is not legal).
LIDX_HOST_DEVICE constexpr bool dead_column(const ScoreParams& p, const KeyRange& keys, int32_t column) {
    return p.relative != 0 ? column >= keys.size() : !keys.has(column);
}

}  // namespace lidx

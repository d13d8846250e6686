// SPDX-License-Identifier: Apache-2.0
#include "host/rows.h"

#include <algorithm>

#include "host/field_checks.h"
#include "kernel/live.h"
#include "kernel/schedule.h"

namespace lidx {

namespace {

constexpr int64_t kMaxBatch = 65536;
// The kernels' enumerations are lidx.h's numbers.
static_assert(static_cast<int>(RowMap::kRequestIds) == LIDX_ROWS_REQUEST_IDS);
static_assert(static_cast<int>(RowMap::kFixed) == LIDX_ROWS_FIXED);
static_assert(static_cast<int>(Visibility::kRowLength) == LIDX_SEE_ROW_LENGTH);
static_assert(static_cast<int>(Visibility::kWindow) == LIDX_SEE_WINDOW);

}  // namespace

void check_rows(const RowFields& fields, const Fields& name) {
    require_range(name("row_map"), fields.row_map, LIDX_ROWS_CU_SEQLENS, LIDX_ROWS_REQUEST_IDS);
    require_range(name("batch"), fields.batch, 0, kMaxBatch);
    require_range(name("max_rows"), fields.max_rows, 0, kMaxInt32);
    require_range(name("max_tokens"), fields.max_tokens, 0, kMaxInt32);
    require_range(name("visibility"), fields.visibility, LIDX_SEE_REQUEST_LENGTH, LIDX_SEE_WINDOW);
    if ((fields.flags & LIDX_FLAG_CAUSAL) != 0 && fields.visibility != LIDX_SEE_REQUEST_LENGTH)
        fail(LIDX_ERR_VALUE, equals_bits(name("flags"), fields.flags) + " has LIDX_FLAG_CAUSAL: with " +
                                 equals(name("visibility"), fields.visibility) + " each row has its own keys already");
    require_range(name("length_type"), fields.length_type, LIDX_INT32, LIDX_INT64);
    require_range(name("compress_ratio"), fields.compress_ratio, 0,
                  fields.visibility == LIDX_SEE_WINDOW ? 1 : kMaxCompressRatio);
    require_range(name("max_keys"), fields.max_keys, 0, kMaxKeys);
}

RowView make_view(const RowFields& fields, int64_t keys_limit, int64_t window_limit) {
    RowView view = {};
    view.batch = fields.batch;
    view.rows = view.end_row = fields.max_rows;
    view.max_tokens = fields.max_tokens;
    view.keys_limit = static_cast<int32_t>(keys_limit);
    view.window_limit = static_cast<int32_t>(std::min(keys_limit, window_limit));
    view.compress_ratio = std::max(fields.compress_ratio, 1);
    view.row_map = static_cast<RowMap>(fields.row_map);
    view.visibility = static_cast<Visibility>(fields.visibility);
    view.causal = (fields.flags & LIDX_FLAG_CAUSAL) != 0 ? 1 : 0;
    view.wide = fields.length_type == LIDX_INT64 ? 1 : 0;
    return view;
}

void check_row_pointers(const RowView& view, const RowPointers& pointers, const Fields& name) {
    const uintptr_t length_bytes = view.wide != 0 ? 8 : 4;
    const bool window = view.visibility == Visibility::kWindow;
    require_if(!window, "context_lens", pointers.context_lens, length_bytes, name("visibility"), "is LIDX_SEE_WINDOW");
    require_if(window, "row_begin", pointers.row_begin, length_bytes, name("visibility"), "is not LIDX_SEE_WINDOW");
    require_if(window, "row_end", pointers.row_end, length_bytes, name("visibility"), "is not LIDX_SEE_WINDOW");
    require_if(view.row_map == RowMap::kCuSeqlens, "cu_seqlens_q", pointers.cu_seqlens_q, 4,
               name("row_map"), "is not LIDX_ROWS_CU_SEQLENS");
    require_if(view.row_map == RowMap::kRequestIds, "row_requests", pointers.row_requests, 4,
               name("row_map"), "is not LIDX_ROWS_REQUEST_IDS");
}

void set_row_pointers(RowView& view, const RowPointers& pointers) {
    view.row_map_data = pointers.row_requests != nullptr ? pointers.row_requests : pointers.cu_seqlens_q;
    view.lengths = pointers.row_begin != nullptr ? pointers.row_begin : pointers.context_lens;
    view.ends = pointers.row_end;
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// The part of a description that says whose a row is and which keys it sees: its checks, and the RowView of it that the
// kernels ask (kernel/live.h). Descriptions and argument blocks that have it name its fields alike.
#pragma once
#include <lidx.h>

#include <cstdint>

#include "host/field_checks.h"
#include "kernel/problem.h"

namespace lidx {

struct RowFields {
    uint32_t flags;
    int32_t row_map, batch, max_rows, max_tokens, visibility, length_type, compress_ratio;
    int64_t max_keys;
};
template <typename Desc>
RowFields row_fields(const Desc& desc) {
    return {desc.flags,      desc.row_map,     desc.batch,          desc.max_rows, desc.max_tokens,
            desc.visibility, desc.length_type, desc.compress_ratio, desc.max_keys};
}

// Throws where a field is outside its limits. name: the description's fields.
void check_rows(const RowFields& fields, const Fields& name);

// Without pointers. keys_limit: keys of a request; window_limit: keys of a row.
RowView make_view(const RowFields& fields, int64_t keys_limit, int64_t window_limit);

struct RowPointers {
    const void *context_lens, *row_begin, *row_end;
    const int32_t *cu_seqlens_q, *row_requests;
};
template <typename Args>
RowPointers row_pointers(const Args& args) {
    return {args.context_lens, args.row_begin, args.row_end, args.cu_seqlens_q, args.row_requests};
}

// Throws where the view needs a pointer that is null or not aligned, or has no use for one that is given. name: the
// description's fields.
void check_row_pointers(const RowView& view, const RowPointers& pointers, const Fields& name);
void set_row_pointers(RowView& view, const RowPointers& pointers);

}  // namespace lidx

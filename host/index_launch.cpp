// SPDX-License-Identifier: Apache-2.0
#include "host/index_launch.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "host/field_checks.h"
#include "host/launch.h"
#include "host/status.h"
#include "kernel/schedule.h"

namespace lidx {

namespace {

// A row of scores begins on a line of 128 bytes.
constexpr int64_t kLineBytes = 128;

// Fields of lidx_index_desc.
constexpr Fields kOwn{""}, kScore{"score."}, kPlanScore{"the plan's score."};

int64_t round_up(int64_t value, int64_t step) { return ceil_div(value, step) * step; }

lidx_topk_desc topk_desc(const lidx_index_desc& desc, const lidx_score_desc& score) {
    lidx_topk_desc topk = {};
    topk.struct_size = sizeof(topk);
    topk.flags = score.flags & ~uint32_t{LIDX_FLAG_CHECK | LIDX_FLAG_FAST};   // of the score alone
    topk.row_map = score.row_map;
    topk.batch = score.batch;
    topk.max_rows = score.max_rows;
    topk.max_tokens = score.max_tokens;
    topk.visibility = score.visibility;
    topk.length_type = score.length_type;
    topk.compress_ratio = score.compress_ratio;
    topk.max_keys = score.max_keys;
    topk.score_stride = score.score_stride;
    topk.score_type = score.score_type;
    topk.k = desc.k;
    topk.forced_first = desc.forced_first;
    topk.forced_last = desc.forced_last;
    topk.index_kind = desc.index_kind;
    topk.sort = desc.sort;
    topk.index_stride = desc.index_stride;
    topk.top_score_stride = desc.top_score_stride;
    if (desc.index_kind == LIDX_INDEX_PHYSICAL) {
        topk.page_size = score.page_size;
        topk.block_table_stride = score.block_table_stride;
    }
    return topk;
}

// The most rows, up to all of them, for which needed_bytes(rows) is no more than the budget, as one row's is.
template <class Needed>
int64_t largest_window(int64_t rows, int64_t tile_tokens, int64_t budget_bytes, const Needed& needed_bytes) {
    if (needed_bytes(rows) <= budget_bytes) return rows;
    int64_t window = 1, over = rows;   // the window fits, `over` does not
    while (over - window > 1) {
        const int64_t middle = window + (over - window) / 2;
        if (needed_bytes(middle) <= budget_bytes) window = middle;
        else over = middle;
    }
    // Whole token tiles, and windows alike.
    const int64_t alike = round_up(ceil_div(rows, ceil_div(rows, window)), tile_tokens);
    if (alike < window && needed_bytes(alike) <= budget_bytes) return alike;
    const int64_t whole = window / tile_tokens * tile_tokens;
    return whole > 0 && needed_bytes(whole) <= budget_bytes ? whole : window;
}

}  // namespace

lidx_index_plan make_index_plan(const lidx_index_desc& desc, const DeviceLimits& device) {
    lidx_score_desc score = desc.score;
    require_struct_size(score, "lidx_index_desc.score", "lidx_index_desc_init");
    if ((score.flags & LIDX_FLAG_FILL) != 0)
        fail(LIDX_ERR_VALUE, equals_bits(kScore("flags"), score.flags) +
                                 " has LIDX_FLAG_FILL: no scores are given out whose dead columns could be filled");
    require_range(kScore("score_stride"), score.score_stride, 0, 0);
    require_range(kScore("reserved"), score.reserved, 0, 0);
    require_range("reserved", desc.reserved, 0, 0);
    require_range(kScore("score_type"), score.score_type, LIDX_FP32, LIDX_BF16);
    const int64_t unit = float_bytes(score.score_type);
    const int64_t columns = std::max(score.score_columns, (score.flags & LIDX_FLAG_RELATIVE_COLUMNS) != 0 &&
                                                                  score.score_columns != 0
                                                              ? 0
                                                              : score.max_keys);
    require_range(kScore("max_keys"), score.max_keys, 0, kMaxKeys);
    require_range(kScore("score_columns"), score.score_columns, 0, kMaxKeys);
    score.score_stride = round_up(std::max<int64_t>(columns, 1) * unit, kLineBytes) / unit;

    lidx_index_plan plan;
    plan.score = make_plan(score, device, score.max_rows, kScore);
    const lidx_topk_desc topk = topk_desc(desc, score);
    check_topk_desc(topk, {kOwn, kScore});
    plan.rows = score.max_rows;
    plan.score_bytes = score.score_stride * unit;
    const RowView view = plan.score.params.view;
    if (plan.rows == 0) return plan;

    const auto select_bytes = [&](int64_t rows) {
        return static_cast<int64_t>(plan_topk(topk, device, view, rows).workspace_bytes);
    };
    const auto scores_at = [&](int64_t rows) {
        return round_up(static_cast<int64_t>(plan.score.workspace_bytes) + select_bytes(rows), kLineBytes);
    };
    const auto needed = [&](int64_t rows) { return scores_at(rows) + rows * plan.score_bytes; };
    int64_t window = plan.rows;
    if (desc.workspace_budget_bytes != 0) {
        const auto budget = static_cast<int64_t>(std::min<size_t>(desc.workspace_budget_bytes, kMaxInt64));
        if (needed(1) > budget)
            fail(LIDX_ERR_VALUE, "workspace_budget_bytes = " + std::to_string(desc.workspace_budget_bytes) +
                                     ": one row of " + equals(kScore("max_keys"), score.max_keys) + " needs " +
                                     std::to_string(needed(1)));
        window = largest_window(plan.rows, plan.score.kernel->tile_tokens, budget, needed);
    }
    plan.window_rows = static_cast<int32_t>(window);
    plan.score = make_plan(score, device, window, kScore);
    // A key on an illegal page is -inf to the selection, which every kernel can do; no other dead cell is ever read.
    plan.score.params.fill_columns = kFillIllegalKeys;
    plan.select = plan_topk(topk, device, view, window);
    plan.select.name = {kOwn, kScore};
    check_topk_device(plan.select, device);
    plan.select.name = {kPlanFields, kPlanScore};   // of messages from here on
    plan.scores_at = static_cast<size_t>(scores_at(window));
    plan.workspace_bytes = static_cast<size_t>(needed(window));
    plan.zero_bytes = plan.score.workspace_bytes +
                      (plan.select.workspace_bytes != 0 ? static_cast<size_t>(topk::arrivals_bytes(window)) : 0);
    return plan;
}

namespace {

// What the two parts of a call get: the caller's pointers, and theirs of the workspace.
struct PartArgs {
    lidx_score_args score;
    lidx_topk_args topk;
};
PartArgs part_args(const lidx_index_plan& plan, const lidx_index_args& args) {
    // A device address: a pointer may not leave its object, a number may.
    const auto workspace = [&](size_t offset_bytes) {
        return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(args.workspace) + offset_bytes);
    };
    PartArgs parts = {};
    lidx_score_args& score = parts.score;
    lidx_topk_args& topk = parts.topk;
    score.q = args.q;
    score.q_scale = args.q_scale;
    score.q_scale2 = args.q_scale2;
    score.k_base = args.k_base;
    score.k_scale_base = args.k_scale_base;
    score.block_table = args.block_table;
    score.scale_block_table = args.scale_block_table;
    score.context_lens = topk.context_lens = args.context_lens;
    score.row_begin = topk.row_begin = args.row_begin;
    score.row_end = topk.row_end = args.row_end;
    score.cu_seqlens_q = topk.cu_seqlens_q = args.cu_seqlens_q;
    score.row_requests = topk.row_requests = args.row_requests;
    score.scores = workspace(plan.scores_at);
    topk.scores = score.scores;
    score.workspace = args.workspace;
    score.workspace_bytes = plan.score.workspace_bytes;
    topk.workspace = workspace(plan.score.workspace_bytes);
    topk.workspace_bytes = plan.scores_at - plan.score.workspace_bytes;
    if (plan.select.params.index_kind == topk::IndexKind::kPhysical) topk.block_table = args.block_table;
    topk.offsets = args.offsets;
    topk.indices = args.indices;
    topk.top_scores = args.top_scores;
    topk.counts = args.counts;
    return parts;
}

}  // namespace

void enqueue_index(const lidx_context& context, const lidx_index_plan& plan, const lidx_index_args& args,
                   CUstream stream) {
    if (plan.rows == 0) return;
    if (plan.workspace_bytes != 0)
        require_workspace(args.workspace, args.workspace_bytes, "the plan", plan.workspace_bytes);
    const auto [score, topk] = part_args(plan, args);
    check_topk_args(plan.select, topk);
    if (!plan.score.empty()) check_score_args(plan.score, score, kPlanScore);
    const topk::TopkParams& select = plan.select.params;
    const bool scored = !plan.score.empty() &&
                        (select.view.window_limit > select.k || select.sort_by == topk::SortBy::kScore ||
                         args.top_scores != nullptr || plan.score.workspace_bytes != 0);   // LIDX_FLAG_CHECK
    if (scored) check_score_device(plan.score, context.limits);
    check_topk_device(plan.select, context.limits);
    for (int64_t first = 0; first < plan.rows; first += plan.window_rows) {
        const RowWindow window{static_cast<int32_t>(first),
                               static_cast<int32_t>(std::min<int64_t>(first + plan.window_rows, plan.rows))};
        if (scored) launch_score(context, plan.score, score, window, stream);
        launch_topk(context, plan.select, topk, window, scored, stream);
    }
}

}  // namespace lidx

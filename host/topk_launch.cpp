// SPDX-License-Identifier: Apache-2.0
#include "host/topk_launch.h"

#include <algorithm>
#include <string>

#include "host/field_checks.h"
#include "host/launch.h"
#include "host/rows.h"
#include "host/status.h"
#include "kernel/topk_layout.h"

namespace lidx {

namespace {

constexpr uint32_t kTopkFlags = LIDX_FLAG_CAUSAL | LIDX_FLAG_RELATIVE_COLUMNS | LIDX_FLAG_PDL;
static_assert(static_cast<int>(topk::IndexKind::kRelative) == LIDX_INDEX_RELATIVE);
static_assert(static_cast<int>(topk::IndexKind::kPhysical) == LIDX_INDEX_PHYSICAL);
static_assert(static_cast<int>(topk::IndexKind::kOffset) == LIDX_INDEX_OFFSET);
static_assert(static_cast<int>(topk::SortBy::kScore) == LIDX_SORT_SCORE);

bool physical(const lidx_topk_desc& desc) { return desc.index_kind == LIDX_INDEX_PHYSICAL; }

// Elements between rows of k results; 0 in the description: k.
int64_t output_stride(int64_t stride, int32_t k) { return stride != 0 ? stride : k; }

void require_output_stride(const Field& field, int64_t stride, int32_t k, const Field& rows_field, int64_t rows) {
    if (stride != 0) require_range(field, stride, k, kMaxInt64);
    require_span(rows_field, rows, field, output_stride(stride, k), 4);
}

bool empty(const lidx_topk_desc& desc) { return desc.max_rows == 0; }

// Keys of a request: a block table that is read limits them. One of max_keys or more entries cannot.
int64_t topk_keys_limit(const lidx_topk_desc& desc) {
    if (!physical(desc) || desc.block_table_stride >= desc.max_keys) return desc.max_keys;
    return std::min(desc.max_keys, desc.block_table_stride * desc.page_size);
}

RowView topk_view(const lidx_topk_desc& desc) {
    const bool relative = (desc.flags & LIDX_FLAG_RELATIVE_COLUMNS) != 0;
    return make_view(row_fields(desc), topk_keys_limit(desc),
                     relative ? std::min<int64_t>(desc.score_stride, kMaxKeys) : kMaxKeys);
}

CUlaunchAttribute cluster_attribute(int32_t ctas) {
    CUlaunchAttribute cluster = {};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = static_cast<unsigned>(ctas);
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    return cluster;
}

bool in_clusters(const TopkPlan& plan) {
    return plan.spread || (plan.held != topk::Held::kNone && plan.params.slices > 1);
}

int64_t shared_bytes(const TopkPlan& plan) {
    if (plan.held != topk::Held::kNone) return topk::held_shared_bytes(plan.params.slices, plan.params.sort_by);
    return plan.spread ? topk::spread_shared_bytes(plan.params.map_words) : topk::shared_bytes(plan.params.map_words);
}

TopkKernel kernel_of(int compute_capability, const TopkPlan& plan) {
    TopkKernel fp32 = TopkKernel::k_topk_fp32;
    if (plan.held == topk::Held::kWide) fp32 = TopkKernel::k_topk_wide_fp32;
    else if (plan.held == topk::Held::kNarrow) fp32 = TopkKernel::k_topk_cluster_fp32;
    else if (plan.held == topk::Held::kAlone) fp32 = TopkKernel::k_topk_held_fp32;
    else if (plan.spread) fp32 = TopkKernel::k_topk_spread_fp32;
    else if (compute_capability < 90) fp32 = TopkKernel::k_topk_sm80_fp32;
    return static_cast<TopkKernel>(static_cast<size_t>(fp32) +
                                   (plan.params.score_type == FloatType::kBf16 ? 1 : 0));   // each pair's second
}

}  // namespace

void check_topk_desc(const lidx_topk_desc& desc, const TopkFields& name) {
    require_struct_size(desc, "lidx_topk_desc", "lidx_topk_desc_init");
    require_flags(name.score("flags"), desc.flags, kTopkFlags,
                  "LIDX_FLAG_CAUSAL, LIDX_FLAG_RELATIVE_COLUMNS and LIDX_FLAG_PDL");
    check_rows(row_fields(desc), name.score);
    require_range(name.own("k"), desc.k, 1, topk::kMaxK);
    require_range(name.score("score_type"), desc.score_type, LIDX_FP32, LIDX_BF16);
    const bool relative = (desc.flags & LIDX_FLAG_RELATIVE_COLUMNS) != 0;
    require_range(name.score("score_stride"), desc.score_stride, relative ? 0 : desc.max_keys, kMaxInt64);
    require_span(name.score("max_rows"), desc.max_rows, name.score("score_stride"), desc.score_stride,
                 float_bytes(desc.score_type));
    require_range(name.own("forced_first"), desc.forced_first, 0, kMaxInt32);
    require_range(name.own("forced_last"), desc.forced_last, 0, kMaxInt32);
    require_range(name.own("index_kind"), desc.index_kind, LIDX_INDEX_POSITION, LIDX_INDEX_OFFSET);
    require_range(name.own("sort"), desc.sort, LIDX_SORT_POSITION, LIDX_SORT_SCORE);
    require_output_stride(name.own("index_stride"), desc.index_stride, desc.k, name.score("max_rows"), desc.max_rows);
    require_output_stride(name.own("top_score_stride"), desc.top_score_stride, desc.k, name.score("max_rows"),
                          desc.max_rows);
    const char* why = physical(desc) ? " with LIDX_INDEX_PHYSICAL" : " without LIDX_INDEX_PHYSICAL";
    require_range(name.score("page_size"), desc.page_size, physical(desc) ? 1 : 0, physical(desc) ? kMaxInt32 : 0, why);
    require_range(name.own("reserved"), desc.reserved, 0, 0);
    require_range(name.score("block_table_stride"), desc.block_table_stride, physical(desc) ? 1 : 0,
                  physical(desc) ? kMaxInt64 : 0, why);
    require_span(name.score("batch"), desc.batch, name.score("block_table_stride"), desc.block_table_stride,
                 sizeof(int32_t));
}

TopkPlan plan_topk(const lidx_topk_desc& desc, const DeviceLimits& device, const RowView& view, int64_t window_rows) {
    TopkPlan plan;
    topk::TopkParams& params = plan.params;
    params.view = view;
    params.score_stride = desc.score_stride;
    params.block_table_stride = desc.block_table_stride;
    params.index_stride = output_stride(desc.index_stride, desc.k);
    params.top_score_stride = output_stride(desc.top_score_stride, desc.k);
    params.k = desc.k;
    params.workspace_rows = static_cast<int32_t>(std::min<int64_t>(desc.max_rows, window_rows));
    if (device.compute_capability >= 90) {
        const bool clusters = has_clusters(device.compute_capability);
        const topk::HeldShape held =
            topk::held_shape(params.workspace_rows, view.window_limit, device.multiprocessors, clusters);
        params.slices = held.ctas;
        plan.held = held.form;
        if (held.ctas == 0)
            params.slices =
                topk::spread_ctas(params.workspace_rows, view.window_limit, device.multiprocessors, clusters);
        plan.spread = held.ctas == 0 && params.slices != 0;
    }
    if (plan.spread) {
        params.map_words = static_cast<int32_t>(topk::spread_map_words(view.window_limit, params.slices));
    } else if (plan.held == topk::Held::kNone) {
        params.slices = topk::slices_per_row(params.workspace_rows, view.window_limit, desc.k, device.multiprocessors);
        params.map_words = static_cast<int32_t>(topk::map_words(view.window_limit, desc.k, params.slices));
        plan.workspace_bytes = static_cast<size_t>(topk::workspace_bytes(params.workspace_rows, params.slices, desc.k));
    }
    params.page_size = desc.page_size;
    params.forced_first = desc.forced_first;
    params.forced_last = desc.forced_last;
    params.score_type = static_cast<FloatType>(desc.score_type);
    params.relative = (desc.flags & LIDX_FLAG_RELATIVE_COLUMNS) != 0 ? 1 : 0;
    params.index_kind = static_cast<topk::IndexKind>(desc.index_kind);
    params.sort_by = static_cast<topk::SortBy>(desc.sort);
    plan.max_keys = desc.max_keys;
    plan.pdl = (desc.flags & LIDX_FLAG_PDL) != 0 && device.compute_capability >= 90;
    return plan;
}

void check_topk_device(const TopkPlan& plan, const DeviceLimits& device) {
    const TopkKernelRow& kernel = kTopkKernels[static_cast<size_t>(kernel_of(device.compute_capability, plan))];
    if (!runs_on(kernel, device.compute_capability) || (in_clusters(plan) && !has_clusters(device.compute_capability)))
        fail(LIDX_ERR_UNSUPPORTED, std::string("the plan's kernel ") + kernel.symbol +
                                       " was chosen for another device; this one, of compute capability " +
                                       capability_string(device.compute_capability) + ", cannot run it");
    if (shared_bytes(plan) > device.shared_bytes_per_cta)
        fail(LIDX_ERR_UNSUPPORTED, equals(plan.name.score("max_keys"), plan.max_keys) + " with " +
                                       equals(plan.name.own("k"), plan.params.k) + " needs " +
                                       std::to_string(shared_bytes(plan)) +
                                       " bytes of shared memory, the device gives a CTA " +
                                       std::to_string(device.shared_bytes_per_cta));
    if (int64_t{plan.params.workspace_rows} * plan.params.slices > kMaxInt32)
        fail(LIDX_ERR_VALUE, equals(plan.name.score("max_rows"), plan.params.view.rows) + ": " +
                                 std::to_string(plan.params.slices) + " CTAs each are more than 2^31 - 1");
}

void check_topk_args(const TopkPlan& plan, const lidx_topk_args& args) {
    const topk::TopkParams& p = plan.params;
    require_pointer("scores", args.scores, float_bytes(p.score_type));
    check_row_pointers(p.view, row_pointers(args), plan.name.score);
    require_if(p.index_kind == topk::IndexKind::kPhysical, "block_table", args.block_table, 4,
               plan.name.own("index_kind"), "is not LIDX_INDEX_PHYSICAL");
    require_if(p.index_kind == topk::IndexKind::kOffset, "offsets", args.offsets, 4,
               plan.name.own("index_kind"), "is not LIDX_INDEX_OFFSET");
    require_pointer("indices", args.indices, 4);
    if (args.top_scores != nullptr) require_pointer("top_scores", args.top_scores, 4);
    if (args.counts != nullptr) require_pointer("counts", args.counts, 4);
    if (plan.workspace_bytes != 0)
        require_workspace(args.workspace, args.workspace_bytes, "the top-k", plan.workspace_bytes);
}

void launch_topk(const lidx_context& context, const TopkPlan& plan, const lidx_topk_args& args,
                 const RowWindow& window, bool known_rows, CUstream stream) {
    topk::TopkParams params = plan.params;
    set_row_pointers(params.view, row_pointers(args));
    params.view.first_row = window.first;
    params.view.end_row = window.end;
    params.known_rows = known_rows ? 1 : 0;
    params.scores = before_window(const_cast<void*>(args.scores), window,
                                  params.score_stride * float_bytes(params.score_type));
    params.block_table = static_cast<const int32_t*>(args.block_table);
    params.offsets = args.offsets;
    params.indices = args.indices;
    params.top_scores = args.top_scores;
    params.counts = args.counts;
    params.workspace = static_cast<uint32_t*>(plan.workspace_bytes != 0 ? args.workspace : nullptr);

    CUlaunchConfig config = {};
    config.gridDimX = static_cast<unsigned>((window.end - window.first) * params.slices);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = static_cast<unsigned>(
        plan.held != topk::Held::kNone ? topk::held_form(plan.held).threads : topk::kThreads);
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(shared_bytes(plan));
    config.hStream = stream;
    const CurrentContext current(context);
    CUlaunchAttribute attributes[2];
    config.attrs = attributes;
    if (plan.pdl) attributes[config.numAttrs++] = overlap_attribute();
    if (in_clusters(plan)) attributes[config.numAttrs++] = cluster_attribute(params.slices);
    void* kernel_params[] = {&params};
    const TopkKernel kernel = kernel_of(context.limits.compute_capability, plan);
    launch_kernel(context, kTopkKernels[static_cast<size_t>(kernel)].symbol, (*context.kernels)[kernel], config,
                  kernel_params);
}

namespace {

TopkPlan plan_all_rows(const lidx_context& context, const lidx_topk_desc& desc) {
    TopkPlan plan = plan_topk(desc, context.limits, topk_view(desc), desc.max_rows);
    check_topk_device(plan, context.limits);
    return plan;
}

}  // namespace

size_t topk_workspace_bytes(const lidx_context& context, const lidx_topk_desc& desc) {
    if (empty(desc)) return 0;
    return plan_all_rows(context, desc).workspace_bytes;
}

void enqueue_topk(const lidx_context& context, const lidx_topk_desc& desc, const lidx_topk_args& args,
                  CUstream stream) {
    check_topk_desc(desc);
    require_struct_size(args, "lidx_topk_args", "lidx_topk_args_init");
    if (empty(desc)) return;
    const TopkPlan plan = plan_all_rows(context, desc);
    check_topk_args(plan, args);
    launch_topk(context, plan, args, {0, desc.max_rows}, false, stream);
}

namespace {

// Elements between rows, or shards, of lists. Both offsets together stay below 2^63 bytes: half of it each.
int64_t list_stride(const Field& field, int64_t stride, int64_t packed, const Field& count_field, int64_t count) {
    require_range(field, stride, 0, kMaxInt64);
    const int64_t used = stride != 0 ? stride : packed;
    require_span(count_field, count, field, used, 8);
    return used;
}

}  // namespace

void enqueue_merge(const lidx_context& context, const lidx_merge_args& args, CUstream stream) {
    require_no_flags("flags", args.flags);
    require_range("rows", args.rows, 0, kMaxInt32);
    require_range("shards", args.shards, 1, topk::kMaxMergeEntries);
    static_assert(topk::kMaxMergeEntries == 1 << 20);
    require_range("k_in", args.k_in, 1, topk::kMaxMergeEntries / args.shards, " = 2^20 / shards");
    require_range("k", args.k, 1, topk::kMaxK);
    require_range("sort", args.sort, LIDX_SORT_POSITION, LIDX_SORT_SCORE);
    topk::MergeParams params = {};
    params.k_in = args.k_in;
    params.entries = args.shards * args.k_in;
    params.k = args.k;
    params.sort_by = static_cast<topk::SortBy>(args.sort);
    const int64_t packed = params.entries;
    params.score_row_stride = list_stride("score_row_stride", args.score_row_stride, packed, "rows", args.rows);
    params.score_shard_stride =
        list_stride("score_shard_stride", args.score_shard_stride, args.k_in, "shards", args.shards);
    params.position_row_stride =
        list_stride("position_row_stride", args.position_row_stride, packed, "rows", args.rows);
    params.position_shard_stride =
        list_stride("position_shard_stride", args.position_shard_stride, args.k_in, "shards", args.shards);
    require_output_stride("index_stride", args.index_stride, args.k, "rows", args.rows);
    require_output_stride("top_score_stride", args.top_score_stride, args.k, "rows", args.rows);
    params.index_stride = output_stride(args.index_stride, args.k);
    params.top_score_stride = output_stride(args.top_score_stride, args.k);
    if (args.rows == 0) return;
    require_pointer("scores", args.scores, 4);
    require_pointer("positions", args.positions, 4);
    require_pointer("indices", args.indices, 4);
    if (args.top_scores != nullptr) require_pointer("top_scores", args.top_scores, 4);
    if (args.counts != nullptr) require_pointer("counts", args.counts, 4);
    params.scores = args.scores;
    params.positions = args.positions;
    params.indices = args.indices;
    params.top_scores = args.top_scores;
    params.counts = args.counts;
    params.held = topk::merge_held(params);

    CUlaunchConfig config = {};
    config.gridDimX = static_cast<unsigned>(args.rows);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = topk::kMergeThreads;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    const CurrentContext current(context);
    void* kernel_params[] = {&params};
    launch_kernel(context, kTopkMerge, context.kernels->topk_merge(), config, kernel_params);
}

}  // namespace lidx

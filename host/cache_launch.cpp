// SPDX-License-Identifier: Apache-2.0
#include "host/cache_launch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "host/field_checks.h"
#include "host/launch.h"
#include "host/status.h"
#include "kernel/cache_layout.h"
#include "kernel/problem.h"

namespace lidx {

namespace {

static_assert(static_cast<int>(FloatType::kFp16) == LIDX_FP16);

constexpr const char* kDepthText = ": the cache kernels serve depth 64 and 128";

void check_element(const char* field, int32_t element, bool fp16) {
    if (element < LIDX_FP32 || element > (fp16 ? LIDX_FP16 : LIDX_BF16))
        fail(LIDX_ERR_VALUE, equals(field, element) + ": must be LIDX_FP32 = 0" +
                                 (fp16 ? ", LIDX_BF16 = 1 or LIDX_FP16 = 2" : " or LIDX_BF16 = 1"));
}

void check_depth(const Field& field, int32_t depth) {
    if (!cache::depth_fits(depth)) fail(LIDX_ERR_UNSUPPORTED, equals(field, depth) + kDepthText);
}

void require_at_least(const char* field, int64_t value, int64_t low, const char* why) {
    if (value < low)
        fail(LIDX_ERR_VALUE, equals(field, value) + ": must be at least " + std::to_string(low) + " = " + why);
}

void check_workspace(uint32_t flags, const void* workspace, size_t workspace_bytes) {
    if ((flags & LIDX_FLAG_CHECK) != 0)
        require_workspace(workspace, workspace_bytes, "LIDX_FLAG_CHECK", kCheckWorkspaceBytes);
}

uint32_t* check_word(uint32_t flags, void* workspace) {
    return (flags & LIDX_FLAG_CHECK) != 0 ? static_cast<uint32_t*>(workspace) : nullptr;
}

uint32_t quantise_bits(uint32_t flags) {
    return ((flags & LIDX_FLAG_ROTATE) != 0 ? cache::kRotate : 0u) |
           ((flags & LIDX_FLAG_ROTATE_ROUND) != 0 ? cache::kRound : 0u) |
           ((flags & LIDX_FLAG_POW2_SCALE) != 0 ? cache::kPow2Scale : 0u);
}

// kVector where every source vector begins on a multiple of what a lane reads.
uint32_t vector_bit(const void* base, int64_t stride_bytes, int64_t other_stride_bytes, int32_t depth,
                    int64_t item_bytes) {
    const int64_t lane_bytes = depth / 32 * item_bytes;
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base) % 16);
    const bool aligned =
        address % lane_bytes == 0 && stride_bytes % lane_bytes == 0 && other_stride_bytes % lane_bytes == 0;
    return aligned ? cache::kVector : 0u;
}

cache::StoreParams store_params(const lidx_pool& pool, const KeyRows& keys) {
    cache::StoreParams params = {};
    params.keys = static_cast<const uint8_t*>(keys.keys);
    params.k = static_cast<uint8_t*>(pool.k_base);
    params.k_scale = static_cast<uint8_t*>(pool.k_scale_base);
    params.key_stride_bytes = keys.key_stride * float_bytes(keys.key_type);
    params.num_pages = pool.num_pages;
    params.k_page_stride = pool.k_page_stride;
    params.k_scale_page_stride = pool.k_scale_page_stride;
    params.rows = keys.rows;
    params.page_size = pool.page_size;
    params.depth = pool.depth;
    params.key_type = static_cast<FloatType>(keys.key_type);
    params.quantise = quantise_bits(keys.flags) |
                      vector_bit(keys.keys, params.key_stride_bytes, 0, pool.depth, float_bytes(keys.key_type));
    return params;
}

// One-dimensional: `items` shared out among CTAs of `per_cta`.
template <typename Params>
void launch_cache(const lidx_context& context, CacheKernel kernel, int64_t items, int per_cta, Params& params,
                  CUstream stream) {
    CUlaunchConfig config = {};
    config.gridDimX = static_cast<unsigned>((items + per_cta - 1) / per_cta);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = cache::kThreads;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    void* kernel_params[] = {&params};
    launch_kernel(context, kCacheKernels[static_cast<size_t>(kernel)].symbol, (*context.kernels)[kernel], config,
                  kernel_params);
}

}  // namespace

void check_quantise_flags(uint32_t flags, uint32_t others, const char* names) {
    require_flags("flags", flags, LIDX_FLAG_ROTATE | LIDX_FLAG_ROTATE_ROUND | LIDX_FLAG_POW2_SCALE | others, names);
    if ((flags & LIDX_FLAG_ROTATE_ROUND) != 0 && (flags & LIDX_FLAG_ROTATE) == 0)
        fail(LIDX_ERR_VALUE, equals_bits("flags", flags) + ": LIDX_FLAG_ROTATE_ROUND needs LIDX_FLAG_ROTATE");
}

void check_pool(const lidx_pool& pool, PoolUse use, const Fields& name) {
    require_struct_size(pool, "lidx_pool", "lidx_pool_init");
    require_range(name("depth"), pool.depth, 1, kMaxInt32);
    if (use == PoolUse::kStore)
        check_depth(name("depth"), pool.depth);
    else if (pool.depth % 16 != 0 || pool.depth > kMaxDepth)
        fail(LIDX_ERR_UNSUPPORTED, equals(name("depth"), pool.depth) + ": gathering serves multiples of 16 up to 128");
    require_range(name("page_size"), pool.page_size, 1, kMaxInt32);
    require_range(name("num_pages"), pool.num_pages, 1, kMaxInt32);
    require_multiple(name("k_page_stride"), pool.k_page_stride, 16);
    require_page_stride(name("k_page_stride"), pool.k_page_stride, name("num_pages"), pool.num_pages,
                        name("page_size"), pool.page_size, pool.depth);
    require_multiple(name("k_scale_page_stride"), pool.k_scale_page_stride, 4);
    require_page_stride(name("k_scale_page_stride"), pool.k_scale_page_stride, name("num_pages"), pool.num_pages,
                        name("page_size"), pool.page_size, sizeof(float));
    require_pointer(name("k_base"), pool.k_base, 16);
    require_pointer(name("k_scale_base"), pool.k_scale_base, 4);
}

void check_key_rows(const KeyRows& keys, int32_t depth) {
    check_element("key_type", keys.key_type, true);
    require_range("rows", keys.rows, 0, kMaxInt32);
    require_at_least("key_stride", keys.key_stride, depth, "the pool's depth");
    require_span("rows", keys.rows, "key_stride", keys.key_stride, float_bytes(keys.key_type));
    if (keys.rows != 0)
        require_pointer("keys", keys.keys, float_bytes(keys.key_type));
}

void enqueue_store(const lidx_context& context, const lidx_pool& pool, const lidx_store_args& args, CUstream stream) {
    check_pool(pool, PoolUse::kStore);
    require_struct_size(args, "lidx_store_args", "lidx_store_args_init");
    check_quantise_flags(args.flags, uint32_t{LIDX_FLAG_BYTE_SLOTS} | LIDX_FLAG_CHECK,
                         "LIDX_FLAG_ROTATE, _ROTATE_ROUND, _POW2_SCALE, _BYTE_SLOTS and _CHECK");
    const KeyRows keys{args.keys, args.key_type, args.rows, args.key_stride, args.flags};
    check_key_rows(keys, pool.depth);
    if (args.rows == 0) return;
    require_pointer("slot_mapping", args.slot_mapping, 8);
    if ((args.flags & LIDX_FLAG_BYTE_SLOTS) != 0)
        require_pointer("scale_slot_mapping", args.scale_slot_mapping, 8);
    else if (args.scale_slot_mapping != nullptr)
        fail(LIDX_ERR_VALUE, "scale_slot_mapping is not null: only LIDX_FLAG_BYTE_SLOTS has it");
    check_workspace(args.flags, args.workspace, args.workspace_bytes);
    const CurrentContext current(context);

    cache::StoreParams params = store_params(pool, keys);
    params.slots = args.slot_mapping;
    params.scale_slots = args.scale_slot_mapping;
    params.check_word = check_word(args.flags, args.workspace);
    launch_cache(context, CacheKernel::k_cache_store, args.rows, cache::kWarps, params, stream);
}

void enqueue_store_pages(const lidx_context& context, const lidx_pool& pool, const KeyRows& keys, const int32_t* pages,
                         int32_t first_slot, CUstream stream) {
    const CurrentContext current(context);
    cache::StorePagesParams params = {};
    const cache::StoreParams whole = store_params(pool, keys);
    for (int32_t row = 0; row < keys.rows;) {
        const int64_t room = int64_t{cache::kMaxInlinePages} * pool.page_size - first_slot;
        params.store = whole;
        params.store.keys += row * whole.key_stride_bytes;
        params.store.rows = static_cast<int32_t>(std::min<int64_t>(keys.rows - row, room));
        params.first_slot = first_slot;
        params.page_count =
            static_cast<int32_t>((int64_t{first_slot} + params.store.rows + pool.page_size - 1) / pool.page_size);
        std::copy(pages, pages + params.page_count, params.pages);
        launch_cache(context, CacheKernel::k_cache_store_pages, params.store.rows, cache::kWarps, params, stream);
        row += params.store.rows;   // what is left begins in the slot behind the last page
        pages += params.page_count;
        first_slot = 0;
    }
}

void enqueue_gather(const lidx_context& context, const lidx_pool& pool, const lidx_gather_args& args,
                    CUstream stream) {
    check_pool(pool, PoolUse::kGather);
    require_struct_size(args, "lidx_gather_args", "lidx_gather_args_init");
    require_flags("flags", args.flags, LIDX_FLAG_CHECK, "LIDX_FLAG_CHECK");
    require_range("batch", args.batch, 0, kMaxInt32 - 1);
    require_range("max_rows", args.max_rows, 0, kMaxInt32);
    require_range("block_table_stride", args.block_table_stride, args.batch > 0 ? 1 : 0, kMaxInt64);
    require_span("batch", args.batch, "block_table_stride", args.block_table_stride, sizeof(int32_t));
    require_multiple("k_out_stride", args.k_out_stride, 16);
    require_at_least("k_out_stride", args.k_out_stride, pool.depth, "the pool's depth");
    require_span("max_rows", args.max_rows, "k_out_stride", args.k_out_stride, 1);
    if (args.batch == 0 || args.max_rows == 0) return;
    require_pointer("block_table", args.block_table, 4);
    require_pointer("cu_seqlens_k", args.cu_seqlens_k, 4);
    if (args.key_begin != nullptr) require_pointer("key_begin", args.key_begin, 4);
    if (args.context_lens != nullptr) require_pointer("context_lens", args.context_lens, 4);
    require_pointer("k_out", args.k_out, 16);
    require_pointer("k_scale_out", args.k_scale_out, 4);
    check_workspace(args.flags, args.workspace, args.workspace_bytes);
    const CurrentContext current(context);

    cache::GatherParams params = {};
    params.k = static_cast<const uint8_t*>(pool.k_base);
    params.k_scale = static_cast<const uint8_t*>(pool.k_scale_base);
    params.block_table = reinterpret_cast<const uint32_t*>(args.block_table);
    params.cu_seqlens = args.cu_seqlens_k;
    params.key_begin = args.key_begin;
    params.context_lens = args.context_lens;
    params.k_out = static_cast<uint8_t*>(args.k_out);
    params.k_scale_out = args.k_scale_out;
    params.check_word = check_word(args.flags, args.workspace);
    params.num_pages = pool.num_pages;
    params.k_page_stride = pool.k_page_stride;
    params.k_scale_page_stride = pool.k_scale_page_stride;
    params.block_table_stride = args.block_table_stride;
    params.k_out_stride = args.k_out_stride;
    params.batch = args.batch;
    params.max_rows = args.max_rows;
    params.page_size = pool.page_size;
    params.depth = pool.depth;
    launch_cache(context, CacheKernel::k_cache_gather, args.max_rows, cache::kGatherKeys, params, stream);
}

void enqueue_query(const lidx_context& context, const lidx_query_args& args, CUstream stream) {
    require_struct_size(args, "lidx_query_args", "lidx_query_args_init");
    check_quantise_flags(args.flags, 0, "LIDX_FLAG_ROTATE, _ROTATE_ROUND and _POW2_SCALE");
    require_range("rows", args.rows, 0, kMaxInt32);
    require_range("heads", args.heads, 1, kMaxInt32);
    require_range("rows * heads", int64_t{args.rows} * args.heads, 0, kMaxInt32);
    require_range("depth", args.depth, 1, kMaxInt32);
    check_depth("depth", args.depth);
    check_element("q_type", args.q_type, true);
    check_element("weight_type", args.weight_type, true);
    check_element("weight_out_type", args.weight_out_type, false);
    if (!std::isfinite(args.factor)) fail(LIDX_ERR_VALUE, "factor is not finite");
    const int64_t q_head_stride = args.q_head_stride != 0 ? args.q_head_stride : args.depth;
    require_at_least("q_head_stride", q_head_stride, args.depth, "depth");
    require_span("heads", args.heads, "q_head_stride", q_head_stride, 4);
    const int64_t q_row_stride = args.q_row_stride != 0 ? args.q_row_stride : args.heads * q_head_stride;
    require_range("q_row_stride", q_row_stride, 0, kMaxInt64);
    require_span("rows", args.rows, "q_row_stride", q_row_stride, 4);
    const int64_t weight_stride = args.weight_stride != 0 ? args.weight_stride : args.heads;
    require_at_least("weight_stride", weight_stride, args.heads, "heads");
    require_span("rows", args.rows, "weight_stride", weight_stride, 4);
    const int64_t weight_out_stride = args.weight_out_stride != 0 ? args.weight_out_stride : args.heads;
    require_at_least("weight_out_stride", weight_out_stride, args.heads, "heads");
    require_span("rows", args.rows, "weight_out_stride", weight_out_stride, 4);
    if (args.rows == 0) return;
    require_pointer("q", args.q, float_bytes(args.q_type));
    if (args.weights != nullptr)
        require_pointer("weights", args.weights, float_bytes(args.weight_type));
    require_pointer("q_out", args.q_out, 16);
    if (args.weights_out != nullptr)
        require_pointer("weights_out", args.weights_out,
                        float_bytes(args.weight_out_type));
    if (args.q_scale_out != nullptr) require_pointer("q_scale_out", args.q_scale_out, 4);
    if (args.weights_out == nullptr && args.q_scale_out == nullptr)
        fail(LIDX_ERR_NULL, "weights_out and q_scale_out are both null: the scales would be lost");
    const CurrentContext current(context);

    cache::QueryParams params = {};
    params.q = static_cast<const uint8_t*>(args.q);
    params.weights = static_cast<const uint8_t*>(args.weights);
    params.q_out = static_cast<uint8_t*>(args.q_out);
    params.weights_out = static_cast<uint8_t*>(args.weights_out);
    params.q_scale_out = args.q_scale_out;
    params.q_row_stride_bytes = q_row_stride * float_bytes(args.q_type);
    params.q_head_stride_bytes = q_head_stride * float_bytes(args.q_type);
    params.weight_stride_bytes = weight_stride * float_bytes(args.weight_type);
    params.weight_out_stride_bytes = weight_out_stride * float_bytes(args.weight_out_type);
    params.rows = args.rows;
    params.heads = args.heads;
    params.depth = args.depth;
    params.q_type = static_cast<FloatType>(args.q_type);
    params.weight_type = static_cast<FloatType>(args.weight_type);
    params.weight_out_type = static_cast<FloatType>(args.weight_out_type);
    params.factor = args.factor != 0 ? args.factor
                                     : static_cast<float>(1 / std::sqrt(static_cast<double>(args.heads) * args.depth));
    params.quantise = quantise_bits(args.flags) | vector_bit(args.q, params.q_row_stride_bytes,
                                                             params.q_head_stride_bytes, args.depth,
                                                             float_bytes(args.q_type));
    launch_cache(context, CacheKernel::k_cache_query, int64_t{args.rows} * args.heads, cache::kWarps, params, stream);
}

}  // namespace lidx

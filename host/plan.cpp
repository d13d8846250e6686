// SPDX-License-Identifier: Apache-2.0
#include "host/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include "host/status.h"
#include "kernel/generic_score_layout.h"
#include "kernel/schedule.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm90_schedule.h"

namespace lidx {

namespace {

constexpr int64_t kMaxBatch = 65536;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
// globalStrides of a tensor map are below 2^40 (CUDA driver API, cuTensorMapEncodeTiled).
constexpr int64_t kMaxStrideBytes = (int64_t{1} << 40) - 1;
// The word that LIDX_FLAG_CHECK sets, rounded up to the workspace's alignment.
constexpr size_t kCheckWorkspaceBytes = 16;

std::string equals(const char* field, int64_t value) { return std::string(field) + " = " + std::to_string(value); }

void require_range(const char* field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
        fail(LIDX_ERR_VALUE, equals(field, value) + ": must be " + std::to_string(low) + " .. " + std::to_string(high));
}

void require_multiple(const char* field, int64_t value, int64_t step) {
    if (value % step != 0)
        fail(LIDX_ERR_ALIGNMENT, equals(field, value) + ": must be a multiple of " + std::to_string(step));
}

// count * stride * unit bytes must be addressable.
void require_span(const char* count_field, int64_t count, const char* stride_field, int64_t stride,
                  int64_t unit_bytes) {
    if (count != 0 && stride > kMaxInt64 / unit_bytes / count)
        fail(LIDX_ERR_VALUE, equals(stride_field, stride) + " with " + equals(count_field, count) + ": " +
                                 std::to_string(unit_bytes) + " * " + count_field + " * " + stride_field +
                                 " must be below 2^63 bytes");
}

bool is_contiguous(const lidx_score_desc& desc) { return desc.page_size == 0; }

int64_t page_capacity(const lidx_score_desc& desc) { return is_contiguous(desc) ? desc.max_keys : desc.page_size; }

void require_page_stride(const char* field, int64_t stride, const lidx_score_desc& desc, int64_t key_bytes) {
    const int64_t needed = page_capacity(desc) * key_bytes;
    if (stride < needed)
        fail(LIDX_ERR_VALUE, equals(field, stride) + ": must be at least " + std::to_string(needed) + " = " +
                                 (is_contiguous(desc) ? "max_keys" : "page_size") + " * " + std::to_string(key_bytes) +
                                 " bytes");
    require_range(field, stride, 0, kMaxStrideBytes);
    require_span("num_pages", desc.num_pages, field, stride, 1);
}

// Why a kernel does not serve a description on a device; empty if it does.
std::string obstacle(const KernelRow& row, const lidx_score_desc& desc, const DeviceLimits& device) {
    if (!runs_on(row, device.compute_capability))
        return std::string("needs compute capability ") + row.capability_text + ", the device has " +
               capability_string(device.compute_capability);
    if (row.heads != 0 ? desc.heads != row.heads : !generic_score::heads_fit(desc.heads))
        return "needs heads " + (row.heads != 0 ? std::to_string(row.heads) : "1 to " + std::to_string(kMaxHeads));
    if (row.depth != 0 ? desc.depth != row.depth : !generic_score::depth_fits(desc.depth))
        return "needs depth " +
               (row.depth != 0 ? std::to_string(row.depth) : "a multiple of 16 up to " + std::to_string(kMaxDepth));
    if (!row.any_page_size && !is_contiguous(desc) && !sm100_score::page_size_fits(desc.page_size))
        return "needs page size 16, 32, 64, 128, 256 or contiguous";
    // Coordinates of a tensor map are 32-bit signed.
    if (row.operands == Operands::kTensorMaps && int64_t{desc.max_rows} * desc.heads > kMaxInt32)
        return "needs max_rows * heads up to " + std::to_string(kMaxInt32);
    return "";
}

// No request has more tokens than there are rows.
int64_t request_tokens(const lidx_score_desc& desc) { return std::min(desc.max_tokens, desc.max_rows); }

std::string shape_text(const lidx_score_desc& desc) {
    return equals("heads", desc.heads) + ", " + equals("depth", desc.depth) + ", " +
           equals("page_size", desc.page_size);
}

// Columns of accumulator that one request's tokens occupy, padding included.
int64_t columns(const KernelRow& row, const lidx_score_desc& desc) {
    return token_tiles(request_tokens(desc), row.tile_tokens) * row.tile_tokens * desc.heads;
}

}  // namespace

void check_desc(const lidx_score_desc& desc) {
    if (desc.struct_size != sizeof(lidx_score_desc))
        fail(LIDX_ERR_STRUCT_SIZE, "lidx_score_desc.struct_size = " + std::to_string(desc.struct_size) +
                                       ": this version expects " + std::to_string(sizeof(lidx_score_desc)) +
                                       "; call lidx_score_desc_init");
    if ((desc.flags & ~static_cast<uint32_t>(LIDX_FLAG_CHECK)) != 0)
        fail(LIDX_ERR_VALUE, equals("flags", desc.flags) + ": the only flag is LIDX_FLAG_CHECK = 1");
    require_range("batch", desc.batch, 0, kMaxBatch);
    require_range("max_rows", desc.max_rows, 0, kMaxInt32);
    require_range("max_tokens", desc.max_tokens, 0, kMaxInt32);
    require_range("heads", desc.heads, 1, kMaxInt32);
    require_range("depth", desc.depth, 1, kMaxInt32);
    require_range("max_keys", desc.max_keys, 0, kMaxKeys);
    require_range("page_size", desc.page_size, 0, kMaxInt32);
    require_range("num_pages", desc.num_pages, 1, kMaxInt32);
    if (is_contiguous(desc) && desc.num_pages < desc.batch)
        fail(LIDX_ERR_VALUE, equals("num_pages", desc.num_pages) + " with page_size = 0: must be at least " +
                                 equals("batch", desc.batch));
    require_multiple("k_page_stride", desc.k_page_stride, 16);
    require_page_stride("k_page_stride", desc.k_page_stride, desc, desc.depth);
    require_multiple("k_scale_page_stride", desc.k_scale_page_stride, 4);
    require_page_stride("k_scale_page_stride", desc.k_scale_page_stride, desc, sizeof(float));
    if (!is_contiguous(desc)) {
        require_range("block_table_stride", desc.block_table_stride, desc.max_keys > 0 ? 1 : 0, kMaxInt64);
        require_span("batch", desc.batch, "block_table_stride", desc.block_table_stride, sizeof(int32_t));
    }
    if (desc.score_stride < desc.max_keys)
        fail(LIDX_ERR_VALUE,
             equals("score_stride", desc.score_stride) + ": must be at least " + equals("max_keys", desc.max_keys));
    require_span("max_rows", desc.max_rows, "score_stride", desc.score_stride, sizeof(float));
}

Choice choose_kernel(const lidx_score_desc& desc, const DeviceLimits& device) {
    if (desc.kernel != nullptr) {
        for (const KernelRow& row : kernel_rows()) {
            if (std::strcmp(row.symbol, desc.kernel) != 0) continue;
            const std::string why = obstacle(row, desc, device);
            if (why.empty()) return {&row, ""};
            return {nullptr,
                    "kernel = " + std::string(row.symbol) + " does not serve " + shape_text(desc) + ": it " + why};
        }
        return {
            nullptr,
            "kernel = \"" + std::string(desc.kernel).substr(0, 64) + "\" does not exist; there are " + kernel_symbols(),
            true};
    }
    // The table's order is the order of preference between sources; between the tiles of one source the fewest token
    // tiles win, then the fewest accumulator columns (3, 6 and 9 tokens: tiles of three), then the table's order.
    const KernelRow* best = nullptr;
    std::string obstacles;
    for (const KernelRow& row : kernel_rows()) {
        const std::string why = obstacle(row, desc, device);
        if (!why.empty()) {
            obstacles += (obstacles.empty() ? "" : "; ") + std::string(row.symbol) + " " + why;
            continue;
        }
        if (best == nullptr) {
            best = &row;
            continue;
        }
        if (std::strcmp(best->source, row.source) != 0) continue;
        const int64_t tiles = token_tiles(request_tokens(desc), row.tile_tokens);
        const int64_t best_tiles = token_tiles(request_tokens(desc), best->tile_tokens);
        if (tiles < best_tiles || (tiles == best_tiles && columns(row, desc) < columns(*best, desc))) best = &row;
    }
    if (best == nullptr)
        return {nullptr, "no kernel serves " + shape_text(desc) + " on compute capability " +
                             capability_string(device.compute_capability) + "; there are " + kernel_summaries()};
    if (best->arithmetic != LIDX_ARITHMETIC_FP32) return {best, ""};
    return {best, obstacles};
}

lidx_plan make_plan(const lidx_score_desc& desc, const DeviceLimits& device) {
    check_desc(desc);
    const Choice choice = choose_kernel(desc, device);
    if (choice.kernel == nullptr) fail(choice.forced_unknown ? LIDX_ERR_VALUE : LIDX_ERR_UNSUPPORTED, choice.reason);
    const KernelRow& row = *choice.kernel;

    lidx_plan plan;
    plan.kernel = &row;
    plan.batch = desc.batch;
    plan.contiguous = is_contiguous(desc);
    plan.params.num_pages = desc.num_pages;
    plan.params.k_page_stride = desc.k_page_stride;
    plan.params.k_scale_page_stride = desc.k_scale_page_stride;
    plan.params.block_table_stride = plan.contiguous ? 0 : desc.block_table_stride;
    plan.params.score_stride = desc.score_stride;
    plan.params.max_keys = desc.max_keys;
    plan.params.rows = desc.max_rows;
    plan.params.heads = desc.heads;
    plan.params.depth = desc.depth;
    plan.params.page_size = static_cast<int32_t>(page_capacity(desc));
    plan.params.batch = desc.batch;
    plan.params.max_tokens = static_cast<int32_t>(request_tokens(desc));
    plan.workspace_bytes = (desc.flags & LIDX_FLAG_CHECK) != 0 ? kCheckWorkspaceBytes : 0;
    if (desc.batch == 0 || desc.max_rows == 0 || desc.max_tokens == 0 || desc.max_keys == 0) return plan;

    plan.block[0] = static_cast<uint32_t>(row.threads);
    plan.block[1] = plan.block[2] = 1;
    if (row.schedule == Schedule::kPersistent) {
        plan.grid[0] = static_cast<uint32_t>(sm90_score::grid_ctas(
            desc.batch, desc.max_keys, request_tokens(desc), row.tile_tokens, device.multiprocessors));
        plan.grid[1] = plan.grid[2] = 1;
        plan.shared_bytes = static_cast<uint32_t>(row.shared_bytes);
        return plan;
    }
    const int64_t tiles = token_tiles(request_tokens(desc), row.tile_tokens);
    const int64_t slices = grid_slices(desc.batch * key_tiles(desc.max_keys), device.multiprocessors, tiles);
    plan.grid[0] = static_cast<uint32_t>(desc.batch);
    plan.grid[1] = static_cast<uint32_t>(key_tiles(desc.max_keys));
    plan.grid[2] = static_cast<uint32_t>(slices);
    plan.shared_bytes =
        static_cast<uint32_t>(slice_tiles_max(tiles, slices) <= 1 ? row.shared_bytes_decode : row.shared_bytes);
    return plan;
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
#include "host/plan.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>
#include <tuple>

#include "host/field_checks.h"
#include "host/rows.h"
#include "host/status.h"
#include "kernel/generic_score_layout.h"
#include "kernel/live.h"
#include "kernel/schedule.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm90_decode_layout.h"
#include "kernel/sm90_score_layout.h"

namespace lidx {

namespace {

constexpr uint32_t kKnownFlags = LIDX_FLAG_CHECK | LIDX_FLAG_CAUSAL | LIDX_FLAG_FILL | LIDX_FLAG_RELATIVE_COLUMNS |
                                 LIDX_FLAG_PDL | LIDX_FLAG_FAST;
static_assert(static_cast<int>(FloatType::kBf16) == LIDX_BF16);

bool is_contiguous(const lidx_score_desc& desc) { return desc.page_size == 0; }

bool has(const lidx_score_desc& desc, uint32_t flag) { return (desc.flags & flag) != 0; }

int64_t score_columns(const lidx_score_desc& desc) {
    return desc.score_columns != 0 ? desc.score_columns : desc.max_keys;
}

// Columns that the launch covers: those of the keys, and those that FILL writes.
int64_t launch_columns(const lidx_score_desc& desc) {
    return has(desc, LIDX_FLAG_FILL) ? std::max(desc.max_keys, score_columns(desc)) : desc.max_keys;
}

int64_t scale_pages(const lidx_score_desc& desc) {
    return desc.scale_num_pages != 0 ? desc.scale_num_pages : desc.num_pages;
}

// Keys that max_keys and the tables' widths allow a request. A table of max_keys or more entries cannot be the limit;
// below that the product fits 64 bits.
int64_t keys_limit(const lidx_score_desc& desc) {
    int64_t limit = desc.max_keys;
    if (is_contiguous(desc)) return limit;
    for (const int64_t entries : {desc.block_table_stride, desc.scale_block_table_stride})
        if (entries != 0 && entries < desc.max_keys) limit = std::min(limit, entries * desc.page_size);
    return limit;
}

// What a description asks for that not every kernel serves.
struct Wish {
    Feature feature;
    const char* text;   // "<kernel> does not serve ..."
    bool (*wanted)(const lidx_score_desc& desc);
};
constexpr Wish kWishes[] = {
    {kRowKeys, "rows with lengths or windows of their own",
     [](const lidx_score_desc& d) { return d.visibility != LIDX_SEE_REQUEST_LENGTH; }},
    {kCausalRows, "LIDX_FLAG_CAUSAL", [](const lidx_score_desc& d) { return has(d, LIDX_FLAG_CAUSAL); }},
    {kWeights, "weights that are not fp32 without gaps",
     [](const lidx_score_desc& d) {
         return d.weight_type != LIDX_FP32 || (d.weight_stride != 0 && d.weight_stride != d.heads) ||
                d.weight2_stride != 0;
     }},
    {kScaleTable, "a scale pool with a table or pages of its own",
     [](const lidx_score_desc& d) {
         return d.scale_block_table_stride != 0 || scale_pages(d) != d.num_pages;
     }},
    {kBf16Scores, "bf16 scores", [](const lidx_score_desc& d) { return d.score_type == LIDX_BF16; }},
    {kRelativeColumns, "relative columns",
     [](const lidx_score_desc& d) {
         return has(d, LIDX_FLAG_RELATIVE_COLUMNS) &&
                (d.visibility == LIDX_SEE_WINDOW || score_columns(d) < d.max_keys);
     }},
    {kFill, "LIDX_FLAG_FILL", [](const lidx_score_desc& d) { return has(d, LIDX_FLAG_FILL); }},
    {kSmLimit, "max_sms", [](const lidx_score_desc& d) { return d.max_sms != 0; }},
};

int64_t page_capacity(const lidx_score_desc& desc) { return is_contiguous(desc) ? desc.max_keys : desc.page_size; }

void require_weight_stride(const Fields& name, const char* field, int64_t stride, int32_t type,
                           const lidx_score_desc& desc) {
    require_range(name(field), stride, desc.heads, kMaxInt64);
    require_span(name("max_rows"), desc.max_rows, name(field), stride, float_bytes(type));
}

bool pages_fit(Pages pages, int64_t page_size) {
    return pages == Pages::kAny || page_size % 16 == 0;
}

std::string capability_obstacle(const KernelRow& row, const DeviceLimits& device) {
    if (runs_on(row, device.compute_capability)) return "";
    return std::string("needs compute capability ") + row.capability_text + ", the device has " +
           capability_string(device.compute_capability);
}

bool heads_fit(const KernelRow& row, int32_t heads) {
    return row.heads != 0 ? heads == row.heads : generic_score::heads_fit(heads);
}

// No request has more tokens than there are rows.
int64_t request_tokens(const lidx_score_desc& desc) { return std::min(desc.max_tokens, desc.max_rows); }

bool is_fast(const KernelRow& row) { return row.arithmetic == LIDX_ARITHMETIC_SM90_FAST; }

// Why a kernel does not serve a description on a device; empty if it does.
std::string obstacle(const KernelRow& row, const lidx_score_desc& desc, const DeviceLimits& device) {
    const std::string capability = capability_obstacle(row, device);
    if (!capability.empty()) return capability;
    if (!heads_fit(row, desc.heads))
        return "needs " + (row.heads != 0 ? "heads " + std::to_string(row.heads) : heads_text(row.source));
    if (desc.depth > row.depth || desc.depth % row.depth_step != 0) return "needs " + depth_text(row);
    if (!is_contiguous(desc) && !pages_fit(row.pages, desc.page_size)) return "needs " + pages_text(row);
    for (const Wish& wish : kWishes)
        if ((row.features & wish.feature) == 0 && wish.wanted(desc))
            return std::string("does not serve ") + wish.text;
    // Fewer tokens leave warpgroups without work; a forced kernel takes them all the same.
    if (is_fast(row) && desc.kernel == nullptr && request_tokens(desc) < row.tile_tokens)
        return "needs max_tokens and max_rows of " + std::to_string(row.tile_tokens) + " or more";
    // Coordinates of a tensor map are 32-bit signed.
    if (row.operands == Operands::kTensorMaps && int64_t{desc.max_rows} * desc.heads > kMaxInt32)
        return "needs max_rows * heads up to " + std::to_string(kMaxInt32);
    if (row.schedule == Schedule::kWarpgroups && desc.batch > 0 &&
        sm90_decode::units_of(desc.max_keys, request_tokens(desc), row.tile_tokens) >
            sm90_decode::kMaxUnits / desc.batch)
        return "needs batch * key tiles * token tiles up to " + std::to_string(sm90_decode::kMaxUnits);
    return "";
}

// Why none of a source's kernels does: what those for these heads lack, or that there is none for them.
std::string source_obstacle(const char* source, const lidx_score_desc& desc, const DeviceLimits& device) {
    std::string text;
    for (const KernelRow& row : kernel_rows()) {
        if (std::strcmp(row.source, source) != 0) continue;
        if (heads_fit(row, desc.heads)) return obstacle(row, desc, device);
        text = capability_obstacle(row, device);
        if (text.empty()) text = "needs " + heads_text(source);
    }
    return text;
}

// Tokens of a request on average, of as many rows as there may be.
int64_t average_tokens(const lidx_score_desc& desc) {
    return std::min<int64_t>(request_tokens(desc), desc.max_rows / std::max(desc.batch, 1));
}

// Where no kernel is forced, a kernel that others stand in for takes only what it does faster.
bool is_preferred(const KernelRow& row, const lidx_score_desc& desc) {
    const auto in = [&](const TokenBand& band) {
        return average_tokens(desc) >= band.average && request_tokens(desc) <= band.most;
    };
    if (!in(row.auto_tokens.few) && !in(row.auto_tokens.many)) return false;
    if (has(desc, LIDX_FLAG_CAUSAL) && request_tokens(desc) > row.auto_tokens.causal_most) return false;
    return row.schedule != Schedule::kWarpgroups ||
           sm90_decode::prefers_decode(desc.batch, desc.max_keys, request_tokens(desc),
                                       row.tile_tokens / sm90_decode::kGroups);
}

std::string shape_text(const lidx_score_desc& desc, const Fields& name) {
    return equals(name("heads"), desc.heads) + ", " + equals(name("depth"), desc.depth) + ", " +
           equals(name("page_size"), desc.page_size);
}

// Columns of accumulator that one request's tokens occupy, padding included.
int64_t columns(const KernelRow& row, const lidx_score_desc& desc) {
    return token_tiles(request_tokens(desc), row.tile_tokens) * row.tile_tokens * desc.heads;
}

}  // namespace

void check_desc(const lidx_score_desc& desc, const Fields& name) {
    require_struct_size(desc, "lidx_score_desc", "lidx_score_desc_init");
    require_flags(name("flags"), desc.flags, kKnownFlags,
                  "LIDX_FLAG_CHECK, _CAUSAL, _FILL, _RELATIVE_COLUMNS, _PDL and _FAST");
    check_rows(row_fields(desc), name);
    require_range(name("heads"), desc.heads, 1, kMaxInt32);
    require_range(name("depth"), desc.depth, 1, kMaxInt32);
    require_range(name("max_sms"), desc.max_sms, 0, kMaxInt32);
    require_range(name("page_size"), desc.page_size, 0, kMaxInt32);
    require_range(name("num_pages"), desc.num_pages, 1, kMaxInt32);
    require_range(name("scale_num_pages"), desc.scale_num_pages, 0, kMaxInt32);
    if (is_contiguous(desc)) {
        const auto with_page_size_0 = [&] { return " with " + equals(name("page_size"), 0) + ": must be "; };
        if (desc.num_pages < desc.batch)
            fail(LIDX_ERR_VALUE, equals(name("num_pages"), desc.num_pages) + with_page_size_0() + "at least " +
                                     equals(name("batch"), desc.batch));
        if (desc.scale_num_pages != 0 && desc.scale_num_pages < desc.batch)
            fail(LIDX_ERR_VALUE, equals(name("scale_num_pages"), desc.scale_num_pages) + with_page_size_0() +
                                     "0 or at least " + equals(name("batch"), desc.batch));
    }
    const Field capacity = name(is_contiguous(desc) ? "max_keys" : "page_size");
    require_multiple(name("k_page_stride"), desc.k_page_stride, 16);
    require_page_stride(name("k_page_stride"), desc.k_page_stride, name("num_pages"), desc.num_pages, capacity,
                        page_capacity(desc), desc.depth);
    require_multiple(name("k_scale_page_stride"), desc.k_scale_page_stride, 4);
    require_page_stride(name("k_scale_page_stride"), desc.k_scale_page_stride,
                        name(desc.scale_num_pages != 0 ? "scale_num_pages" : "num_pages"), scale_pages(desc), capacity,
                        page_capacity(desc), sizeof(float));
    if (!is_contiguous(desc)) {
        require_range(name("block_table_stride"), desc.block_table_stride, desc.max_keys > 0 ? 1 : 0, kMaxInt64);
        require_span(name("batch"), desc.batch, name("block_table_stride"), desc.block_table_stride, sizeof(int32_t));
    }
    require_range(name("scale_block_table_stride"), desc.scale_block_table_stride, 0,
                  is_contiguous(desc) ? 0 : kMaxInt64);
    require_span(name("batch"), desc.batch, name("scale_block_table_stride"), desc.scale_block_table_stride,
                 sizeof(int32_t));
    require_range(name("weight_type"), desc.weight_type, LIDX_FP32, LIDX_BF16);
    require_range(name("weight2_type"), desc.weight2_type, LIDX_FP32, LIDX_BF16);
    if (desc.weight_stride != 0)
        require_weight_stride(name, "weight_stride", desc.weight_stride, desc.weight_type, desc);
    if (desc.weight2_stride != 0)
        require_weight_stride(name, "weight2_stride", desc.weight2_stride, desc.weight2_type, desc);
    require_range(name("score_type"), desc.score_type, LIDX_FP32, LIDX_BF16);
    require_range(name("reserved"), desc.reserved, 0, 0);
    require_range(name("score_columns"), desc.score_columns, 0, kMaxKeys);
    if (score_columns(desc) < desc.max_keys && !has(desc, LIDX_FLAG_RELATIVE_COLUMNS))
        fail(LIDX_ERR_VALUE, equals(name("score_columns"), desc.score_columns) + ": must be 0 or at least " +
                                 equals(name("max_keys"), desc.max_keys) + " without LIDX_FLAG_RELATIVE_COLUMNS");
    if (desc.score_stride < score_columns(desc))
        fail(LIDX_ERR_VALUE, equals(name("score_stride"), desc.score_stride) + ": must be at least " +
                                 (desc.score_columns != 0 ? equals(name("score_columns"), desc.score_columns)
                                                          : equals(name("max_keys"), desc.max_keys)));
    require_span(name("max_rows"), desc.max_rows, name("score_stride"), desc.score_stride,
                 float_bytes(desc.score_type));
}

Choice choose_kernel(const lidx_score_desc& desc, const DeviceLimits& device, const Fields& name) {
    if (desc.kernel != nullptr) {
        for (const KernelRow& row : kernel_rows()) {
            if (std::strcmp(row.symbol, desc.kernel) != 0) continue;
            const std::string why = obstacle(row, desc, device);
            if (why.empty()) return {&row, ""};
            return {nullptr,
                    name("kernel").text() + " = " + row.symbol + " does not serve " + shape_text(desc, name) + ": it " +
                        why};
        }
        return {
            nullptr,
            name("kernel").text() + " = \"" + std::string(desc.kernel).substr(0, 64) +
                "\" does not exist; there are " + kernel_symbols(),
            true};
    }
    // The table's order is the order of preference between sources; between the tiles of one source the fewest token
    // tiles win, then the fewest accumulator columns (32 heads and 3, 5, 6 or 9 tokens: tiles of three), then the
    // kernel that serves least besides what is asked for, then the table's order.
    const auto better = [&](const KernelRow& row, const KernelRow& than) {
        const auto rank = [&](const KernelRow& r) {
            return std::tuple(token_tiles(request_tokens(desc), r.tile_tokens), columns(r, desc),
                              std::popcount(r.features));
        };
        return rank(row) < rank(than);
    };
    const KernelRow* best = nullptr;
    const char* source = "";
    std::string obstacles;
    for (const KernelRow& row : kernel_rows()) {
        if (is_fast(row) && !has(desc, LIDX_FLAG_FAST)) continue;
        const bool new_source = std::strcmp(source, row.source) != 0;
        if (new_source && best != nullptr) break;
        source = row.source;
        if (!obstacle(row, desc, device).empty()) {
            const bool speaks = new_source && !row.alternative;
            const std::string why = speaks ? source_obstacle(source, desc, device) : "";
            if (!why.empty()) obstacles += (obstacles.empty() ? "" : "; ") + std::string(source) + " " + why;
            continue;
        }
        if (is_preferred(row, desc) && (best == nullptr || better(row, *best))) best = &row;
    }
    if (best == nullptr)
        return {nullptr, "no kernel serves " + shape_text(desc, name) + " on compute capability " +
                             capability_string(device.compute_capability) + "; there are " + kernel_summaries()};
    if (best->arithmetic == LIDX_ARITHMETIC_FP32) return {best, obstacles};
    if (!has(desc, LIDX_FLAG_FAST) || is_fast(*best)) return {best, ""};
    for (const KernelRow& row : kernel_rows())
        if (is_fast(row)) return {best, std::string(row.source) + " " + source_obstacle(row.source, desc, device)};
    return {best, ""};
}

namespace {

// Every field that is not a pointer, but the work of the launch.
ScoreParams make_params(const lidx_score_desc& desc) {
    ScoreParams params = {};
    params.view = make_view(row_fields(desc), keys_limit(desc),
                            has(desc, LIDX_FLAG_RELATIVE_COLUMNS) ? score_columns(desc) : kMaxKeys);
    params.num_pages = desc.num_pages;
    params.scale_num_pages = scale_pages(desc);
    params.k_page_stride = desc.k_page_stride;
    params.k_scale_page_stride = desc.k_scale_page_stride;
    params.block_table_stride = is_contiguous(desc) ? 0 : desc.block_table_stride;
    params.scale_block_table_stride =
        desc.scale_block_table_stride != 0 ? desc.scale_block_table_stride : params.block_table_stride;
    params.weight_stride = desc.weight_stride != 0 ? desc.weight_stride : desc.heads;
    params.weight2_stride = desc.weight2_stride;
    params.score_stride = desc.score_stride;
    params.heads = desc.heads;
    params.depth = desc.depth;
    params.page_size = static_cast<int32_t>(page_capacity(desc));
    params.fill_columns = has(desc, LIDX_FLAG_FILL) ? static_cast<int32_t>(score_columns(desc)) : 0;
    params.relative = has(desc, LIDX_FLAG_RELATIVE_COLUMNS) ? 1 : 0;
    params.weight_type = static_cast<FloatType>(desc.weight_type);
    params.weight2_type = static_cast<FloatType>(desc.weight2_type);
    params.score_type = static_cast<FloatType>(desc.score_type);
    return params;
}

// What a launch covers.
struct Extent {
    int64_t tokens;    // of a request
    int64_t columns;   // of scores
    int64_t multiprocessors;
};

// A CTA per request, key tile and slice of token tiles.
void set_tiles(const lidx_score_desc& desc, const Extent& extent, lidx_plan& plan) {
    const KernelRow& row = *plan.kernel;
    const int64_t tiles = token_tiles(extent.tokens, row.tile_tokens);
    const int64_t slices = grid_slices(desc.batch * key_tiles(extent.columns), extent.multiprocessors, tiles);
    plan.grid[0] = plan.params.tiles[0] = static_cast<uint32_t>(desc.batch);
    plan.grid[1] = plan.params.tiles[1] = static_cast<uint32_t>(key_tiles(extent.columns));
    plan.grid[2] = plan.params.tiles[2] = static_cast<uint32_t>(slices);
    if (desc.max_sms != 0) {   // the CTAs share the work out among themselves
        const int64_t work = int64_t{plan.grid[0]} * plan.grid[1] * plan.grid[2];
        plan.grid[0] = static_cast<uint32_t>(std::min<int64_t>(work, desc.max_sms));
        plan.grid[1] = plan.grid[2] = 1;
    }
    // A CTA that takes several units alternates between its buffers even if each has one token tile.
    const bool one_tile = slice_tiles_max(tiles, slices) <= 1 && desc.max_sms == 0;
    plan.shared_bytes = static_cast<uint32_t>(one_tile ? row.shared_bytes_decode : row.shared_bytes);
}

// Persistent CTAs that share the work among themselves; as many Q buffers as a request's blocks have groups.
void set_persistent(const lidx_score_desc& desc, const Extent& extent, lidx_plan& plan) {
    const KernelRow& row = *plan.kernel;
    plan.grid[0] = static_cast<uint32_t>(sm90_score::grid_ctas(desc.batch, extent.columns, extent.tokens, row.tile_keys,
                                                               row.tile_tokens, extent.multiprocessors));
    plan.grid[1] = plan.grid[2] = 1;
    plan.shared_bytes = static_cast<uint32_t>(
        row.shared_bytes_decode == row.shared_bytes
            ? row.shared_bytes
            : sm90_score::shared_bytes(request_tokens(desc), row.tile_tokens / sm90_score::kGroups));
}

// Persistent warpgroups, several CTAs a multiprocessor where its number is not limited.
void set_warpgroups(const lidx_score_desc& desc, const Extent& extent, lidx_plan& plan) {
    const KernelRow& row = *plan.kernel;
    const int ctas_per_sm = desc.max_sms == 0 ? sm90_decode::kCtasPerSm : 1;
    const int64_t most_ctas = std::min(sm90_decode::kMaxCtas, extent.multiprocessors * ctas_per_sm);
    plan.grid[0] = static_cast<uint32_t>(sm90_score::grid_ctas(desc.batch, extent.columns, extent.tokens, row.tile_keys,
                                                               row.tile_tokens, most_ctas));
    plan.grid[1] = plan.grid[2] = 1;
    const int64_t tokens = request_tokens(desc);
    const int groups = sm90_decode::groups_of(tokens, row.tile_tokens / sm90_decode::kGroups);
    const int count = sm90_decode::launch_warpgroups(
        desc.batch * sm90_decode::units_of(extent.columns, tokens, row.tile_tokens), plan.grid[0],
        sm90_decode::kWarpgroups / ctas_per_sm);
    plan.shared_bytes = static_cast<uint32_t>(sm90_decode::shared_bytes(groups, count));
    plan.block[0] = static_cast<uint32_t>(count * sm90_decode::kWarpgroupThreads);
    plan.params.tiles[0] = sm90_decode::share_part(plan.grid[0] * static_cast<uint32_t>(count));
    plan.params.tiles[1] = static_cast<uint32_t>(sm90_decode::warpgroup_bytes(groups));
    plan.params.tiles[2] = static_cast<uint32_t>(count);
}

}  // namespace

lidx_plan make_plan(const lidx_score_desc& desc, const DeviceLimits& device, int64_t window_rows, const Fields& name) {
    check_desc(desc, name);
    const Choice choice = choose_kernel(desc, device, name);
    if (choice.kernel == nullptr) fail(choice.forced_unknown ? LIDX_ERR_VALUE : LIDX_ERR_UNSUPPORTED, choice.reason);

    lidx_plan plan;
    plan.kernel = choice.kernel;
    plan.batch = desc.batch;
    plan.contiguous = is_contiguous(desc);
    plan.scale_table = desc.scale_block_table_stride != 0;
    plan.pdl = choice.kernel->pdl && has(desc, LIDX_FLAG_PDL);
    plan.workspace_bytes = has(desc, LIDX_FLAG_CHECK) ? kCheckWorkspaceBytes : 0;
    plan.params = make_params(desc);
    const Extent extent{std::min(request_tokens(desc), window_rows), launch_columns(desc),
                        desc.max_sms != 0 ? std::min(desc.max_sms, device.multiprocessors) : device.multiprocessors};
    if (desc.batch == 0 || desc.max_rows == 0 || desc.max_tokens == 0 || extent.columns == 0) return plan;

    plan.block[0] = static_cast<uint32_t>(choice.kernel->threads);
    plan.block[1] = plan.block[2] = 1;
    switch (choice.kernel->schedule) {
        case Schedule::kTiles: set_tiles(desc, extent, plan); break;
        case Schedule::kPersistent: set_persistent(desc, extent, plan); break;
        case Schedule::kWarpgroups: set_warpgroups(desc, extent, plan); break;
    }
    return plan;
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
#include "host/kernel_table.h"

#include <climits>
#include <cstring>
#include <set>

#include "kernel/generic_score_layout.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm90_decode_layout.h"
#include "kernel/sm90_fast_layout.h"
#include "kernel/sm90_pair_layout.h"
#include "kernel/sm90_score_layout.h"
#include "kernel/sm90_wide_layout.h"
#include "kernel/variants.h"

namespace lidx {

namespace {

// sm_100f code runs on every compute capability 10.x (PTX ISA, .target: family-specific targets).
#define LIDX_SM100_SCORE_ROW(symbol_, heads_, depth_, tokens_)                                   \
    KernelRow{                                                                                   \
        .symbol = #symbol_,                                                                      \
        .source = "sm100_score",                                                                 \
        .arithmetic = LIDX_ARITHMETIC_SM100,                                                     \
        .capability_min = 100,                                                                   \
        .capability_max = 109,                                                                   \
        .capability_text = "10.x",                                                               \
        .operands = Operands::kTensorMaps,                                                       \
        .heads = heads_,                                                                         \
        .depth = depth_,                                                                         \
        .depth_step = sm100_score::kDepthStep,                                                   \
        .pages = Pages::kMultiplesOf16,                                                          \
        .features = kAllFeatures,                                                                \
        .pdl = true,                                                                             \
        .schedule = Schedule::kTiles,                                                            \
        .tile_keys = kTileKeys,                                                                  \
        .tile_tokens = tokens_,                                                                  \
        .q_box_rows = tokens_ * heads_,                                                          \
        .threads = sm100_score::kThreads,                                                        \
        .shared_bytes = sm100_score::launch_shape<heads_, tokens_>().shared_bytes,               \
        .shared_bytes_decode = sm100_score::launch_shape<heads_, tokens_>().shared_bytes_decode, \
        .tmem_columns = sm100_score::launch_shape<heads_, tokens_>().tmem_columns,               \
    },
// From 16 tokens on no number of tokens takes longer than sm100_score's tiles, by the clocks of docs/kernel-sm100.md.
#define LIDX_SM100_WIDE_ROW(symbol_, heads_, depth_, tokens_)              \
    KernelRow{                                                             \
        .symbol = #symbol_,                                                \
        .source = "sm100_wide",                                            \
        .arithmetic = LIDX_ARITHMETIC_SM100,                               \
        .capability_min = 100,                                             \
        .capability_max = 109,                                             \
        .capability_text = "10.x",                                         \
        .operands = Operands::kTensorMaps,                                 \
        .heads = heads_,                                                   \
        .depth = depth_,                                                   \
        .depth_step = depth_,                                              \
        .pages = Pages::kMultiplesOf16,                                    \
        .features = kRowKeys | kCausalRows | kSmLimit,                     \
        .pdl = true,                                                       \
        .schedule = Schedule::kPersistent,                                 \
        .tile_keys = kTileKeys,                                            \
        .tile_tokens = tokens_,                                            \
        .q_box_rows = 2 * heads_,                                          \
        .q_turns = true,                                                   \
        .alternative = true,                                               \
        .auto_tokens = {.few = {16}, .many = {16}},                        \
        .threads = sm100_wide::kThreads,                                   \
        .shared_bytes = sizeof(sm100_wide::Tile<heads_>::Shared),          \
        .shared_bytes_decode = sizeof(sm100_wide::Tile<heads_>::Shared),   \
        .tmem_columns = sm100_wide::kTmemColumns,                          \
    },
// sm_90a code runs on compute capability 9.0 alone (PTX ISA, .target: architecture-specific targets).
// source_: the kernel file and the namespace of its layout.
#define LIDX_SM90_ROW(source_, symbol_, arithmetic_, heads_, depth_, tokens_, features_, q_box_rows_, q_pairs_,      \
                      alternative_, auto_tokens_, shared_, decode_)                                                  \
    KernelRow{                                                                                                       \
        .symbol = #symbol_,                                                                                          \
        .source = #source_,                                                                                          \
        .arithmetic = arithmetic_,                                                                                   \
        .capability_min = 90,                                                                                        \
        .capability_max = 90,                                                                                        \
        .capability_text = "9.0",                                                                                    \
        .operands = Operands::kTensorMaps,                                                                           \
        .heads = heads_,                                                                                             \
        .depth = depth_,                                                                                             \
        .depth_step = depth_,                                                                                        \
        .pages = Pages::kMultiplesOf16,                                                                              \
        .features = features_,                                                                                       \
        .pdl = true,                                                                                                 \
        .schedule = Schedule::kPersistent,                                                                           \
        .tile_keys = source_::kTileKeys,                                                                             \
        .tile_tokens = tokens_,                                                                                      \
        .q_box_rows = q_box_rows_,                                                                                   \
        .q_head_slots = source_::Tile<heads_>::kHeadSlots != heads_ ? source_::Tile<heads_>::kHeadSlots : 0,         \
        .q_pairs = q_pairs_,                                                                                         \
        .alternative = alternative_,                                                                                 \
        .auto_tokens = auto_tokens_,                                                                                 \
        .threads = source_::kThreads,                                                                                \
        .shared_bytes = shared_,                                                                                     \
        .shared_bytes_decode = decode_,                                                                              \
    },
#define LIDX_SM90_FAST_ROW(symbol_, heads_, depth_, tokens_)                                                         \
    LIDX_SM90_ROW(sm90_fast, symbol_, LIDX_ARITHMETIC_SM90_FAST, heads_, depth_, tokens_, kAllFeatures, 64, false,   \
                  false, AutoTokens{}, sizeof(sm90_fast::Tile<heads_>::Shared),                                      \
                  sizeof(sm90_fast::Tile<heads_>::Shared))
// Measured (docs/trials-sm90.md, "Tokens of a request, and kernels"). 128 heads are served by nothing else.
constexpr AutoTokens wide_tokens(int heads) {
    if (heads > 64) return {};
    return {.few = {7, sm90_wide::kBlockTokens}, .many = {heads == 64 ? 14 : 13}};
}
constexpr AutoTokens pair_tokens(int heads) {
    return heads == 64 ? AutoTokens{.few = {5, 6}, .many = {9, 12}} : AutoTokens{.few = {9, 12}, .many = {9, 12}};
}
// All blocks of a request load what its last row sees: of causal rows half a tile at most is in vain.
constexpr AutoTokens kFewCausal{.causal_most = sm90_score::kTileKeys / 2};
#define LIDX_SM90_WIDE_TILE_ROW(symbol_, heads_, depth_, tokens_, features_)                                         \
    LIDX_SM90_ROW(sm90_wide, symbol_, LIDX_ARITHMETIC_SM90, heads_, depth_, tokens_, features_,                      \
                  sm90_wide::kBlockTokens * 8, true,                                                                 \
                  false, wide_tokens(heads_), sizeof(sm90_wide::Tile<heads_>::Shared),                               \
                  sizeof(sm90_wide::Tile<heads_>::Shared))
#define LIDX_SM90_WIDE_ROW(symbol_, heads_, depth_, tokens_)                                                         \
    LIDX_SM90_WIDE_TILE_ROW(symbol_, heads_, depth_, tokens_, kAllFeatures)
#define LIDX_SM90_WIDE_PLAIN_ROW(symbol_, heads_, depth_, tokens_)                                                   \
    LIDX_SM90_WIDE_TILE_ROW(symbol_, heads_, depth_, tokens_, kRowKeys | kCausalRows | kSmLimit)
#define LIDX_SM90_PAIR_ROW(symbol_, heads_, depth_, tokens_)                                                         \
    LIDX_SM90_ROW(sm90_pair, symbol_, LIDX_ARITHMETIC_SM90, heads_, depth_, tokens_, kCausalRows | kSmLimit,         \
                  sm90_pair::kColumns, false, true, pair_tokens(heads_),                                             \
                  sizeof(sm90_pair::Tile<heads_>::Shared), sizeof(sm90_pair::Tile<heads_>::Shared))
#define LIDX_SM90_TILE_ROW(symbol_, heads_, depth_, tokens_, features_, auto_tokens_)                                \
    LIDX_SM90_ROW(sm90_score, symbol_, LIDX_ARITHMETIC_SM90, heads_, depth_, tokens_, features_,                     \
                  sm90_score::kColumns, false, false, auto_tokens_, sm90_score::kSharedBytes,                        \
                  sm90_score::shared_bytes(1, 1))
#define LIDX_SM90_SCORE_ROW(symbol_, heads_, depth_, tokens_)                                                        \
    LIDX_SM90_TILE_ROW(symbol_, heads_, depth_, tokens_, kAllFeatures, AutoTokens{})
#define LIDX_SM90_PLAIN_ROW(symbol_, heads_, depth_, tokens_)                                                        \
    LIDX_SM90_TILE_ROW(symbol_, heads_, depth_, tokens_, kCausalRows | kSmLimit, kFewCausal)
#define LIDX_SM90_DECODE_ROW(symbol_, heads_, depth_, tokens_)                                                       \
    KernelRow{                                                                                                       \
        .symbol = #symbol_,                                                                                          \
        .source = "sm90_decode",                                                                                     \
        .arithmetic = LIDX_ARITHMETIC_SM90,                                                                          \
        .capability_min = 90,                                                                                        \
        .capability_max = 90,                                                                                        \
        .capability_text = "9.0",                                                                                    \
        .operands = Operands::kPointers,                                                                             \
        .heads = heads_,                                                                                             \
        .depth = depth_,                                                                                             \
        .depth_step = depth_,                                                                                        \
        .pages = Pages::kMultiplesOf16,                                                                              \
        .features = kCausalRows | kSmLimit,                                                                          \
        .pdl = true,                                                                                                 \
        .schedule = Schedule::kWarpgroups,                                                                           \
        .tile_keys = sm90_decode::kTileKeys,                                                                         \
        .tile_tokens = tokens_,                                                                                      \
        .alternative = true,                                                                                         \
        .threads = sm90_decode::kThreads,                                                                            \
        .shared_bytes = sm90_decode::shared_bytes(sm90_decode::kGroups, sm90_decode::kWarpgroups),                   \
        .shared_bytes_decode = sm90_decode::shared_bytes(1, sm90_decode::kWarpgroups),                               \
    },
#define LIDX_GENERIC_SCORE_ROW(symbol_, heads_, depth_, tokens_)   \
    KernelRow{                                                     \
        .symbol = #symbol_,                                        \
        .source = "generic_score",                                 \
        .arithmetic = LIDX_ARITHMETIC_FP32,                        \
        .capability_min = 80,                                      \
        .capability_max = INT_MAX,                                 \
        .capability_text = "8.0 or later",                         \
        .operands = Operands::kPointers,                           \
        .heads = heads_,                                           \
        .depth = kMaxDepth,                                        \
        .depth_step = generic_score::kDepthStep,                   \
        .pages = Pages::kAny,                                      \
        .features = kAllFeatures,                                  \
        .pdl = false,                                              \
        .schedule = Schedule::kTiles,                              \
        .tile_keys = kTileKeys,                                    \
        .tile_tokens = tokens_,                                    \
        .threads = generic_score::kThreads,                        \
        .shared_bytes = generic_score::kDynamicSharedBytes,        \
        .shared_bytes_decode = generic_score::kDynamicSharedBytes, \
        .shared_bytes_static = generic_score::kStaticSharedBytes,  \
    },
#define LIDX_ROWS(family) LIDX_##family##_VARIANTS(LIDX_##family##_ROW)
constexpr KernelRow kRows[] = {LIDX_SCORERS(LIDX_ROWS)};
#undef LIDX_ROWS
#undef LIDX_SM100_SCORE_ROW
#undef LIDX_SM100_WIDE_ROW
#undef LIDX_SM90_FAST_ROW
#undef LIDX_SM90_WIDE_ROW
#undef LIDX_SM90_WIDE_PLAIN_ROW
#undef LIDX_SM90_WIDE_TILE_ROW
#undef LIDX_SM90_SCORE_ROW
#undef LIDX_SM90_PLAIN_ROW
#undef LIDX_SM90_PAIR_ROW
#undef LIDX_SM90_TILE_ROW
#undef LIDX_SM90_ROW
#undef LIDX_SM90_DECODE_ROW
#undef LIDX_GENERIC_SCORE_ROW

}  // namespace

std::span<const KernelRow, kKernelCount> kernel_rows() { return kRows; }

std::string heads_text(const char* source) {
    std::set<int> heads;
    for (const KernelRow& row : kRows)
        if (std::strcmp(row.source, source) == 0) heads.insert(row.heads);
    if (heads.count(0) != 0) return "heads 1 to " + std::to_string(kMaxHeads);
    std::string text;
    for (const int h : heads) text += (text.empty() ? "heads " : ", ") + std::to_string(h);
    return text;
}

std::string depth_text(const KernelRow& row) {
    const std::string largest = std::to_string(row.depth);
    if (row.depth_step == row.depth) return "depth " + largest;
    return "depth a multiple of " + std::to_string(row.depth_step) + " up to " + largest;
}

std::string pages_text(const KernelRow& row) {
    if (row.pages == Pages::kAny) return "any page size";
    return "page_size 0 or a multiple of 16";
}

std::string kernel_summaries() {
    std::string text, said;
    for (size_t i = 0; i < kKernelCount; ++i) {
        const KernelRow& row = kRows[i];
        if (i > 0 && std::strcmp(kRows[i - 1].source, row.source) == 0) continue;
        if (row.arithmetic == LIDX_ARITHMETIC_SM90_FAST) continue;   // serves no shape that others do not
        if (row.alternative) continue;
        // A support reason has 512 bytes: what holds for the source before is not said again.
        const std::string rest =
            depth_text(row) + ", " + pages_text(row) + ", compute capability " + row.capability_text;
        text += std::string(text.empty() ? "" : "; ") + row.source + " (" + heads_text(row.source) + ", " +
                (rest == said ? "else the same" : rest) + ")";
        said = rest;
    }
    return text;
}

std::string kernel_symbols() {
    std::string text;
    for (size_t i = 0; i < kKernelCount; ++i) {
        const size_t stem = std::strlen(kRows[i].source);
        const bool first = i == 0 || std::strcmp(kRows[i - 1].source, kRows[i].source) != 0;
        const bool last = i + 1 == kKernelCount || std::strcmp(kRows[i + 1].source, kRows[i].source) != 0;
        text += text.empty() ? "" : ", ";
        if (first && last) {
            text += kRows[i].symbol;
            continue;
        }
        // Every symbol is its source's name, an underscore and what tells it from the others.
        text += (first ? std::string(kRows[i].source) + "_{" : "") + (kRows[i].symbol + stem + 1) + (last ? "}" : "");
    }
    return text;
}

std::string capability_string(int compute_capability) {
    return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

}  // namespace lidx

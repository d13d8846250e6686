// SPDX-License-Identifier: Apache-2.0
#include "host/kernel_table.h"

#include <climits>
#include <cstring>

#include "kernel/generic_score_layout.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm90_score_layout.h"
#include "kernel/variants.h"

namespace lidx {

namespace {

// sm_100f code runs on every compute capability 10.x (PTX ISA, .target: family-specific targets).
#define LIDX_SM100_SCORE_ROW(symbol_, heads_, depth_, tokens_)                                   \
    KernelRow{                                                                                   \
        .symbol = #symbol_,                                                                      \
        .source = "sm100_score",                                                                 \
        .architectures = "sm_100f",                                                              \
        .arithmetic = LIDX_ARITHMETIC_SM100,                                                     \
        .capability_min = 100,                                                                   \
        .capability_max = 109,                                                                   \
        .capability_text = "10.x",                                                               \
        .operands = Operands::kTensorMaps,                                                       \
        .heads = heads_,                                                                         \
        .depth = depth_,                                                                         \
        .any_page_size = false,                                                                  \
        .features = 0,                                                                           \
        .pdl = false,                                                                            \
        .weight_alignment_bytes = 0,                                                             \
        .schedule = Schedule::kTiles,                                                            \
        .tile_keys = kTileKeys,                                                                  \
        .tile_tokens = tokens_,                                                                  \
        .q_box_rows = tokens_ * heads_,                                                          \
        .threads = sm100_score::kThreads,                                                        \
        .shared_bytes = sm100_score::launch_shape<heads_, tokens_>().shared_bytes,               \
        .shared_bytes_decode = sm100_score::launch_shape<heads_, tokens_>().shared_bytes_decode, \
        .shared_bytes_static = 0,                                                                \
        .tmem_columns = sm100_score::launch_shape<heads_, tokens_>().tmem_columns,               \
    },
// sm_90a code runs on compute capability 9.0 alone (PTX ISA, .target: architecture-specific targets).
#define LIDX_SM90_SCORE_ROW(symbol_, heads_, depth_, tokens_)    \
    KernelRow{                                                   \
        .symbol = #symbol_,                                      \
        .source = "sm90_score",                                  \
        .architectures = "sm_90a",                               \
        .arithmetic = LIDX_ARITHMETIC_SM90,                      \
        .capability_min = 90,                                    \
        .capability_max = 90,                                    \
        .capability_text = "9.0",                                \
        .operands = Operands::kTensorMaps,                       \
        .heads = heads_,                                         \
        .depth = depth_,                                         \
        .any_page_size = false,                                  \
        .features = 0,                                           \
        .pdl = false,                                            \
        .weight_alignment_bytes = 16,                            \
        .schedule = Schedule::kPersistent,                       \
        .tile_keys = sm90_score::kTileKeys,                      \
        .tile_tokens = tokens_,                                  \
        .q_box_rows = sm90_score::kColumns,                      \
        .threads = sm90_score::kThreads,                         \
        .shared_bytes = sm90_score::kSharedBytes,                \
        .shared_bytes_decode = sm90_score::kSharedBytes,         \
        .shared_bytes_static = 0,                                \
        .tmem_columns = 0,                                       \
    },
#define LIDX_GENERIC_SCORE_ROW(symbol_, heads_, depth_, tokens_)   \
    KernelRow{                                                     \
        .symbol = #symbol_,                                        \
        .source = "generic_score",                                 \
        .architectures = "sm_80,sm_90,sm_100,sm_120",              \
        .arithmetic = LIDX_ARITHMETIC_FP32,                        \
        .capability_min = 80,                                      \
        .capability_max = INT_MAX,                                 \
        .capability_text = "8.0 or later",                         \
        .operands = Operands::kPointers,                           \
        .heads = heads_,                                           \
        .depth = depth_,                                           \
        .any_page_size = true,                                     \
        .features = kAllFeatures,                                  \
        .pdl = false,                                              \
        .weight_alignment_bytes = 0,                               \
        .schedule = Schedule::kTiles,                              \
        .tile_keys = kTileKeys,                                    \
        .tile_tokens = tokens_,                                    \
        .q_box_rows = 0,                                           \
        .threads = generic_score::kThreads,                        \
        .shared_bytes = generic_score::kDynamicSharedBytes,        \
        .shared_bytes_decode = generic_score::kDynamicSharedBytes, \
        .shared_bytes_static = generic_score::kStaticSharedBytes,  \
        .tmem_columns = 0,                                         \
    },
constexpr KernelRow kRows[] = {LIDX_SM100_SCORE_VARIANTS(LIDX_SM100_SCORE_ROW)
                                   LIDX_SM90_SCORE_VARIANTS(LIDX_SM90_SCORE_ROW)
                                       LIDX_GENERIC_SCORE_VARIANTS(LIDX_GENERIC_SCORE_ROW)};
#undef LIDX_SM100_SCORE_ROW
#undef LIDX_SM90_SCORE_ROW
#undef LIDX_GENERIC_SCORE_ROW
static_assert(sizeof(kRows) == kKernelCount * sizeof(KernelRow), "kernel_table.h counts the same rows");

}  // namespace

std::span<const KernelRow, kKernelCount> kernel_rows() { return kRows; }

std::string kernel_summaries() {
    std::string text;
    bool pages_said = false;
    for (size_t i = 0; i < kKernelCount; ++i) {
        const KernelRow& row = kRows[i];
        const bool new_source = i > 0 && std::strcmp(kRows[i - 1].source, row.source) != 0;
        const bool last = i + 1 == kKernelCount || std::strcmp(kRows[i + 1].source, row.source) != 0;
        const std::string heads = row.heads != 0 ? std::to_string(row.heads) : "1 to " + std::to_string(kMaxHeads);
        const std::string depth = row.depth != 0 ? std::to_string(row.depth)
                                                 : "a multiple of " + std::to_string(generic_score::kDepthStep) +
                                                       " up to " + std::to_string(kMaxDepth);
        if (i > 0) text += new_source ? "; " : ", ";
        // A support reason has 512 bytes: what holds for the row before is not said again.
        const bool same_depth = i > 0 && !new_source && kRows[i - 1].depth == row.depth;
        text += std::string(row.symbol) + " (heads " + heads + (same_depth ? "" : ", depth " + depth) + ")";
        if (last)
            text += std::string(": ") +
                    (row.any_page_size ? "any page size"
                     : pages_said      ? "the same pages"
                                       : "page size 16, 32, 64, 128, 256 or contiguous") +
                    ", compute capability " + row.capability_text;
        pages_said = pages_said || (last && !row.any_page_size);
    }
    return text;
}

std::string kernel_symbols() {
    std::string text;
    for (const KernelRow& row : kRows) text += (text.empty() ? "" : ", ") + std::string(row.symbol);
    return text;
}

std::string capability_string(int compute_capability) {
    return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

}  // namespace lidx

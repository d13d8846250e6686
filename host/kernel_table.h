// SPDX-License-Identifier: Apache-2.0
// The rows of kernel/variants.h as the host sees them: what each kernel serves and how it is launched.
#pragma once
#include <lidx.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernel/topk_layout.h"
#include "kernel/variants.h"

namespace lidx {

// What the grid is: a CTA per request, key tile and slice of token tiles (kernel/schedule.h), or persistent CTAs that
// share the work among themselves (kernel/sm90_schedule.h), or whose warpgroups do (kernel/sm90_decode_layout.h).
enum class Schedule { kTiles, kPersistent, kWarpgroups };
// Contiguous keys are served in any case.
enum class Pages { kAny, kMultiplesOf16 };
enum class Operands { kPointers, kTensorMaps };  // kernel parameters (ScoreParams) or (k_map, q_map, ScoreParams)

// What a description may ask for beyond the plain case; a kernel serves what its row names.
enum Feature : uint32_t {
    kRowKeys = 1u << 0,        // rows with keys of their own: LIDX_SEE_ROW_LENGTH, _WINDOW
    kWeights = 1u << 1,        // bf16 weights, gaps between their rows, a second factor
    kScaleTable = 1u << 2,     // a scale pool with a block table or a number of pages of its own
    kBf16Scores = 1u << 3,
    kRelativeColumns = 1u << 4,
    kFill = 1u << 5,
    kSmLimit = 1u << 6,        // max_sms
    kCausalRows = 1u << 7,     // each row sees a key more than the one before it: LIDX_FLAG_CAUSAL
    kAllFeatures = (1u << 8) - 1
};

// Numbers of tokens for which a kernel is chosen by itself: `average` a request or more, on average of what may come,
// and no request with more than `most`.
struct TokenBand {
    int64_t average = 0, most = INT32_MAX;
};
struct AutoTokens {
    TokenBand few, many;               // either
    int64_t causal_most = INT32_MAX;   // tokens of a request where rows are causal
};

struct KernelRow {
    const char* symbol;
    const char* source;         // stem of kernel/*.cu, and the name of its fatbin
    lidx_arithmetic arithmetic;
    int capability_min;  // major * 10 + minor, inclusive
    int capability_max;
    const char* capability_text;
    Operands operands;
    int heads;           // 0: 1 .. kMaxHeads
    int depth;           // the largest
    int depth_step;      // multiples of it up to depth
    Pages pages;
    uint32_t features;   // Feature
    bool pdl;            // waits for the kernel before it (griddepcontrol): LIDX_FLAG_PDL becomes a launch attribute
    Schedule schedule;
    int tile_keys;
    int tile_tokens;
    int q_box_rows = 0;      // of the Q tensor map: token-head pairs
    int q_head_slots = 0;    // that a token has in those boxes, where there are more than heads; or 0
    bool q_pairs = false;    // Q boxes are pairs of tokens, the order of heads kernel/sm90_wide_layout.h's
    bool q_turns = false;    // Q boxes are pairs of tokens, which take turns in each head (kernel/sm100_wide_layout.h)
    bool alternative = false;   // serves nothing that no other source serves on its devices, and does some of it faster
    AutoTokens auto_tokens = {};
    int threads;
    int shared_bytes;         // dynamic
    int shared_bytes_decode;  // dynamic, the smallest launch; equal: all launches have the same
    int shared_bytes_static = 0;
    int tmem_columns = 0;
};

#define LIDX_COUNT_ROW(...) +1
#define LIDX_COUNT_ROWS(family) LIDX_##family##_VARIANTS(LIDX_COUNT_ROW)
inline constexpr size_t kKernelCount = 0 LIDX_SCORERS(LIDX_COUNT_ROWS);
#undef LIDX_COUNT_ROWS
#undef LIDX_COUNT_ROW
std::span<const KernelRow, kKernelCount> kernel_rows();  // in order of preference

// Kernels around the cache: they run wherever any kernel of the library does, and are no choice of a plan.
enum class CacheKernel : size_t {
#define LIDX_CACHE_ENUM(symbol, source) k_##symbol,
    LIDX_CACHE_VARIANTS(LIDX_CACHE_ENUM)
#undef LIDX_CACHE_ENUM
        kCount
};
struct CacheKernelRow {
    const char* symbol;
    const char* source;
};
#define LIDX_CACHE_ROW(symbol, source) {#symbol, #source},
inline constexpr CacheKernelRow kCacheKernels[] = {LIDX_CACHE_VARIANTS(LIDX_CACHE_ROW)};
#undef LIDX_CACHE_ROW
inline constexpr size_t kCacheKernelCount = static_cast<size_t>(CacheKernel::kCount);

// Kernels that select keys; of each pair the first takes fp32 scores, the second bf16.
enum class TopkKernel : size_t {
#define LIDX_TOPK_ENUM(symbol, ...) k_##symbol,
    LIDX_TOPK_VARIANTS(LIDX_TOPK_ENUM)
    LIDX_TOPK_SM80_VARIANTS(LIDX_TOPK_ENUM)
    LIDX_TOPK_HELD_VARIANTS(LIDX_TOPK_ENUM)
    LIDX_TOPK_SPREAD_VARIANTS(LIDX_TOPK_ENUM)
#undef LIDX_TOPK_ENUM
        kCount
};
struct TopkKernelRow {
    const char* symbol;
    const char* source;
    bool before_sm90;        // for compute capabilities before 9.0, all others from there on
    bool clusters = false;   // launched in clusters of up to kMaxClusterCtas
};
#define LIDX_TOPK_ROW(symbol, score) {#symbol, "topk", false},
#define LIDX_TOPK_SM80_ROW(symbol, score) {#symbol, "topk_sm80", true},
#define LIDX_TOPK_HELD_ROW(symbol, score, form) \
    {#symbol, "topk_held", false, topk::Held::form != topk::Held::kAlone},
#define LIDX_TOPK_SPREAD_ROW(symbol, score) {#symbol, "topk_spread", false, true},
inline constexpr TopkKernelRow kTopkKernels[] = {
    LIDX_TOPK_VARIANTS(LIDX_TOPK_ROW) LIDX_TOPK_SM80_VARIANTS(LIDX_TOPK_SM80_ROW)
        LIDX_TOPK_HELD_VARIANTS(LIDX_TOPK_HELD_ROW) LIDX_TOPK_SPREAD_VARIANTS(LIDX_TOPK_SPREAD_ROW)};
#undef LIDX_TOPK_SPREAD_ROW
#undef LIDX_TOPK_HELD_ROW
#undef LIDX_TOPK_SM80_ROW
#undef LIDX_TOPK_ROW
inline constexpr size_t kTopkKernelCount = static_cast<size_t>(TopkKernel::kCount);
constexpr bool runs_on(const TopkKernelRow& row, int compute_capability) {
    return row.before_sm90 == (compute_capability < 90);
}
// sm_120 is left out: its clusters have never been tried.
constexpr bool has_clusters(int compute_capability) { return compute_capability >= 90 && compute_capability < 120; }
// Merges lists; its source has its name.
#define LIDX_TOPK_MERGE_SYMBOL(symbol) #symbol
inline constexpr const char* kTopkMerge = LIDX_TOPK_MERGE_VARIANTS(LIDX_TOPK_MERGE_SYMBOL);
#undef LIDX_TOPK_MERGE_SYMBOL
constexpr bool runs_on(const KernelRow& row, int compute_capability) {
    return compute_capability >= row.capability_min && compute_capability <= row.capability_max;
}

// A source's kernels, the rows of one architecture, together serve: "heads 4, 8, ...", "depth a multiple of 64 up to
// 128", "page_size 0 or a multiple of 16".
std::string heads_text(const char* source);
std::string depth_text(const KernelRow& row);
std::string pages_text(const KernelRow& row);
// What exists: "sm100_score (heads ..., depth ..., page size ..., compute capability 10.x); ...; generic_score (...)"
std::string kernel_summaries();
// "sm100_score_{h64, h64_t1, ...}, ..., generic_score"
std::string kernel_symbols();

// 103 -> "10.3"
std::string capability_string(int compute_capability);

}  // namespace lidx

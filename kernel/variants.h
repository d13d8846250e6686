// SPDX-License-Identifier: Apache-2.0
// THE variant table: one X-macro per family of kernels, one row per kernel symbol, in order of preference.
// The kernel source instantiates the rows, the loader and `lidx info` list them, the tests walk them.
// A new kernel is one source file, one row here (and its file in kernel/meson.build) and one check.
#pragma once

// X(NAME): the families that score, in order of preference: LIDX_<NAME>_VARIANTS below are a family's rows. What a row
// means to the host is LIDX_<NAME>_ROW in host/kernel_table.cpp.
#define LIDX_SCORERS(X) \
    X(SM100_WIDE)       \
    X(SM100_SCORE)      \
    X(SM90_FAST)        \
    X(SM90_DECODE)      \
    X(SM90_WIDE)        \
    X(SM90_WIDE_PLAIN)  \
    X(SM90_PAIR)        \
    X(SM90_SCORE)       \
    X(SM90_PLAIN)       \
    X(GENERIC_SCORE)

// X(symbol, heads, depth, tokens): query tokens per block, whose 256 columns meet each key tile. For many tokens per
// request; one factor of fp32 weights without gaps, fp32 scores at the column of their key, no fill but of keys on
// illegal pages, K and its scales found by one table. The same bits as sm100_score's.
#define LIDX_SM100_WIDE_VARIANTS(X) \
    X(sm100_wide_h64, 64, 128, 4)   \
    X(sm100_wide_h32, 32, 128, 8)

// X(symbol, heads, depth, tokens): query tokens per tile; columns of the tile = tokens * heads: 128, and fewer where a
// request has few tokens. depth 128: 64, too (a run-time value).
#define LIDX_SM100_SCORE_VARIANTS(X)   \
    X(sm100_score_h64, 64, 128, 2)     \
    X(sm100_score_h64_t1, 64, 128, 1)  \
    X(sm100_score_h128, 128, 128, 1)   \
    X(sm100_score_h32, 32, 128, 4)     \
    X(sm100_score_h32_t3, 32, 128, 3)  \
    X(sm100_score_h32_t2, 32, 128, 2)  \
    X(sm100_score_h32_t1, 32, 128, 1)  \
    X(sm100_score_h16, 16, 128, 8)     \
    X(sm100_score_h16_t4, 16, 128, 4)  \
    X(sm100_score_h16_t2, 16, 128, 2)  \
    X(sm100_score_h8, 8, 128, 16)      \
    X(sm100_score_h8_t8, 8, 128, 8)    \
    X(sm100_score_h8_t4, 8, 128, 4)    \
    X(sm100_score_h4, 4, 128, 32)      \
    X(sm100_score_h4_t16, 4, 128, 16)  \
    X(sm100_score_h4_t8, 4, 128, 8)

// X(symbol, heads, depth, tokens): query tokens per block, four or eight to each of three warpgroups. The fast mode:
// fp16 arithmetic, chosen by LIDX_FLAG_FAST alone.
#define LIDX_SM90_FAST_VARIANTS(X) \
    X(sm90_fast_h64, 64, 128, 12)  \
    X(sm90_fast_h32, 32, 128, 24)

// X(symbol, heads, depth, tokens): query tokens per block, all of whose heads meet each key tile in one warpgroup. For
// many tokens per request, and for 128 heads.
#define LIDX_SM90_WIDE_VARIANTS(X) \
    X(sm90_wide_h128, 128, 128, 8) \
    X(sm90_wide_h64, 64, 128, 8)   \
    X(sm90_wide_h32, 32, 128, 8)

// The same for one factor of fp32 weights without gaps, fp32 scores at the column of their key, no fill, K and its
// scales found by one table. The same bits.
#define LIDX_SM90_WIDE_PLAIN_VARIANTS(X)  \
    X(sm90_wide_h64_plain, 64, 128, 8)    \
    X(sm90_wide_h32_plain, 32, 128, 8)

// X(symbol, heads, depth, tokens): query tokens per block, shared out among four warpgroups.
#define LIDX_SM90_SCORE_VARIANTS(X) \
    X(sm90_score_h64, 64, 128, 4)   \
    X(sm90_score_h32, 32, 128, 8)   \
    X(sm90_score_h16, 16, 128, 16)  \
    X(sm90_score_h8, 8, 128, 32)    \
    X(sm90_score_h4, 4, 128, 32)

// The same for plain work: the rows of a request see the same keys or are causal, one factor of fp32 weights without
// gaps, fp32 scores at the column of their key, no fill but of keys on illegal pages, K and its scales found by one
// table. The same bits.
#define LIDX_SM90_PLAIN_VARIANTS(X)      \
    X(sm90_score_h64_plain, 64, 128, 4)  \
    X(sm90_score_h32_plain, 32, 128, 8)

// The same for plain work of five and six tokens per request, nine to twelve with 32 heads. X(symbol, heads, depth,
// tokens): query tokens per block, up to two groups to each of three warpgroups. The same bits.
#define LIDX_SM90_PAIR_VARIANTS(X)  \
    X(sm90_pair_h64, 64, 128, 6)    \
    X(sm90_pair_h32, 32, 128, 12)

// The same for plain work of few tokens per request (decode). X(symbol, heads, depth, tokens): query tokens that share
// one read of K. The same bits.
#define LIDX_SM90_DECODE_VARIANTS(X)     \
    X(sm90_decode_h64, 64, 128, 4)       \
    X(sm90_decode_h32, 32, 128, 8)

// heads 0 and depth 0: run-time values. One token per CTA row.
#define LIDX_GENERIC_SCORE_VARIANTS(X) \
    X(generic_score, 0, 0, 1)

// Kernels around the cache (store, gather, query): one parameter block, compute_80 code. X(symbol, source).
#define LIDX_CACHE_VARIANTS(X)            \
    X(cache_store, cache_store)           \
    X(cache_store_pages, cache_store)     \
    X(cache_gather, cache_gather)         \
    X(cache_query, cache_query)

// X(symbol, score type): what the scores are that keys are selected from; one after the other for fp32 and bf16. From
// compute capability 9.0 on, and before.
#define LIDX_TOPK_VARIANTS(X)   \
    X(topk_fp32, Fp32)          \
    X(topk_bf16, Bf16)
#define LIDX_TOPK_SM80_VARIANTS(X)   \
    X(topk_sm80_fp32, Fp32)          \
    X(topk_sm80_bf16, Bf16)
// X(symbol, score type, form: Held in topk_layout.h): rows whose keys fit the registers of a CTA, or of a cluster of
// CTAs; sm_90 and later.
#define LIDX_TOPK_HELD_VARIANTS(X)      \
    X(topk_held_fp32, Fp32, kAlone)     \
    X(topk_held_bf16, Bf16, kAlone)     \
    X(topk_cluster_fp32, Fp32, kNarrow) \
    X(topk_cluster_bf16, Bf16, kNarrow) \
    X(topk_wide_fp32, Fp32, kWide)      \
    X(topk_wide_bf16, Bf16, kWide)
// X(symbol, score type): rows streamed by clusters; sm_90 and later.
#define LIDX_TOPK_SPREAD_VARIANTS(X)  \
    X(topk_spread_fp32, Fp32)         \
    X(topk_spread_bf16, Bf16)
// X(symbol): the k best of lists; compute_80 code.
#define LIDX_TOPK_MERGE_VARIANTS(X)  \
    X(topk_merge)

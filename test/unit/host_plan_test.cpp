// SPDX-License-Identifier: Apache-2.0
#include "catch_any.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "host/plan.h"
#include "host/status.h"
#include "kernel/live.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm90_wide_layout.h"
#include "good_calls.h"

namespace {

using good_calls::score_desc;

constexpr lidx::DeviceLimits kB200{100, 148, 232448};
constexpr lidx::DeviceLimits kH200{90, 132, 232448};

std::string chosen(const lidx_score_desc& desc, const lidx::DeviceLimits& device) {
    const lidx::Choice choice = lidx::choose_kernel(desc, device);
    return choice.kernel != nullptr ? choice.kernel->symbol : "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// By hand: tiles of 128 columns unless fewer columns hold as many tokens in as few tiles.
TEST_CASE("plan: the fewest token tiles win, then the fewest columns") {
    const struct {
        int heads, tokens;
        const char* symbol;
    } cases[] = {
        {128, 1, "h128"}, {128, 7, "h128"},
        {64, 1, "h64_t1"}, {64, 2, "h64"}, {64, 3, "h64"}, {64, 1000, "h64"},
        {32, 1, "h32_t1"}, {32, 2, "h32_t2"}, {32, 3, "h32_t3"}, {32, 4, "h32"},
        {32, 5, "h32_t3"}, {32, 6, "h32_t3"},                      // two tiles either way, 192 columns instead of 256
        {32, 7, "h32"}, {32, 8, "h32"}, {32, 9, "h32_t3"},         // two tiles; two; three of three
        {32, 10, "h32"}, {32, 12, "h32"}, {32, 13, "h32"}, {32, 1000, "h32"},
        {16, 1, "h16_t2"}, {16, 2, "h16_t2"}, {16, 3, "h16_t4"}, {16, 4, "h16_t4"}, {16, 5, "h16"}, {16, 9, "h16"},
        {8, 1, "h8_t4"}, {8, 4, "h8_t4"}, {8, 5, "h8_t8"}, {8, 8, "h8_t8"}, {8, 9, "h8"}, {8, 100, "h8"},
        {4, 1, "h4_t8"}, {4, 8, "h4_t8"}, {4, 9, "h4_t16"}, {4, 16, "h4_t16"}, {4, 17, "h4"}, {4, 33, "h4"},
    };
    lidx_score_desc desc = score_desc();
    desc.max_rows = 1000;
    for (const auto& row : cases)
        for (const int depth : {64, 128}) {
            CAPTURE(row.heads, row.tokens, depth);
            desc.heads = row.heads;
            desc.depth = depth;
            desc.max_tokens = row.tokens;
            desc.weight_type = row.tokens >= 16 ? LIDX_BF16 : LIDX_FP32;   // no work for sm100_wide
            CHECK(chosen(desc, kB200) == std::string("sm100_score_") + row.symbol);
        }
}

TEST_CASE("plan: a request has no more tokens than there are rows") {
    lidx_score_desc desc = score_desc();
    desc.heads = 32;
    desc.max_tokens = INT32_MAX;
    desc.max_rows = 3;
    const lidx_plan plan = lidx::make_plan(desc, kB200);
    CHECK(std::string(plan.kernel->symbol) == "sm100_score_h32_t3");
    CHECK(lidx::most_tokens(plan.params.view) == 3);
    CHECK(plan.params.view.max_tokens == INT32_MAX);   // LIDX_ROWS_FIXED counts in these
    CHECK(plan.grid[2] == 1);
}

TEST_CASE("plan: the tensor-core kernels serve their pages and heads, each on its own chip") {
    lidx_score_desc desc = score_desc();
    for (const int page : {16, 32, 48, 64, 96, 112, 128, 256, 272, 4096}) {
        desc.page_size = page;
        desc.k_page_stride = desc.k_scale_page_stride = page * 132;
        CHECK(chosen(desc, kB200) == "sm100_score_h64");
        CHECK(lidx::choose_kernel(desc, kB200).reason.empty());
        CHECK(chosen(desc, kH200) == "sm90_decode_h64");
    }
    desc = score_desc();
    CHECK(chosen(desc, {103, 148}) == "sm100_score_h64");
    CHECK(chosen(desc, kH200) == "sm90_decode_h64");
    CHECK(lidx::choose_kernel(desc, kH200).reason.empty());
    for (const int heads : {8, 16, 32}) {
        desc.heads = heads;
        CHECK(chosen(desc, kH200) == (heads == 32 ? "sm90_decode_h32" : "sm90_score_h" + std::to_string(heads)));
    }
    desc.heads = 128;
    CHECK(chosen(desc, kH200) == "sm90_wide_h128");
    // From 16 tokens a request on, on average; on compute capability 9.0 from 14 of 64 heads or 13 of 32 on, and for 7
    // and 8.
    for (const int heads : {32, 64}) {
        const std::string name = std::to_string(heads);
        const int many = heads == 64 ? 14 : 13;
        desc = score_desc();
        desc.heads = heads;
        desc.max_tokens = 100;
        desc.max_rows = 31;
        CHECK(chosen(desc, kB200) == "sm100_score_h" + name);
        desc.max_rows = 2 * many - 1;
        CHECK(chosen(desc, kH200) == "sm90_score_h" + name + "_plain");
        desc.max_rows = 2 * many;
        CHECK(chosen(desc, kH200) == "sm90_wide_h" + name + "_plain");
        desc.max_keys = desc.score_stride = 131072;
        desc.block_table_stride = 2048;
        desc.max_tokens = 8;
        for (const int rows : {13, 14, 16}) {
            desc.max_rows = rows;
            CHECK(chosen(desc, kH200) == (rows < 14 ? "sm90_score_h" : "sm90_wide_h") + name + "_plain");
        }
        desc.max_tokens = 9;
        CHECK(chosen(desc, kH200) == "sm90_score_h" + name + "_plain");
        desc = score_desc();
        desc.heads = heads;
        desc.max_tokens = 100;
        desc.max_rows = 32;
        CHECK(chosen(desc, kH200) == "sm90_wide_h" + name + "_plain");
        CHECK(chosen(desc, kB200) == "sm100_wide_h" + name);
        CHECK(lidx::choose_kernel(desc, kB200).reason.empty());
        desc.flags = LIDX_FLAG_CAUSAL;
        CHECK(chosen(desc, kH200) == "sm90_wide_h" + name + "_plain");
        CHECK(chosen(desc, {103, 148}) == "sm100_wide_h" + name);
        desc.depth = 64;
        CHECK(chosen(desc, kB200) == "sm100_score_h" + name);
        desc.depth = 128;
        desc.weight_type = LIDX_BF16;
        CHECK(chosen(desc, kH200) == "sm90_wide_h" + name);
        CHECK(chosen(desc, kB200) == "sm100_score_h" + name);
        CHECK(lidx::choose_kernel(desc, kB200).reason.empty());
        desc.max_tokens = many - 1;
        CHECK(chosen(desc, kH200) == "sm90_score_h" + name);
        desc.batch = 0;
        desc.max_tokens = 16;
        CHECK(chosen(desc, kH200) == "sm90_wide_h" + name);
    }
    desc = score_desc();
    for (const int capability : {80, 86, 89, 120, 121}) CHECK(chosen(desc, {capability, 100}) == "generic_score");
    CHECK(chosen(desc, {75, 40}).empty());

    for (const int page : {1, 8, 63, 65, 520}) {
        desc.page_size = page;
        CHECK(chosen(desc, kB200) == "generic_score");
        CHECK(lidx::choose_kernel(desc, kB200).reason ==
              "sm100_score needs page_size 0 or a multiple of 16; sm90_wide needs compute capability 9.0, "
              "the device has 10.0; sm90_score needs compute capability 9.0, the device has 10.0");
    }
    for (const int page : {8, 500}) {
        desc.page_size = page;
        CHECK(chosen(desc, kH200) == "generic_score");
        CHECK(contains(lidx::choose_kernel(desc, kH200).reason,
                       "sm90_score needs page_size 0 or a multiple of 16"));
    }
    desc = score_desc();
    for (const int heads : {1, 2, 12, 48, 63, 127}) {
        desc.heads = heads;
        CHECK(chosen(desc, kB200) == "generic_score");
        CHECK(contains(lidx::choose_kernel(desc, kB200).reason, "sm100_score needs heads 4, 8, 16, 32, 64, 128; "));
        CHECK(contains(lidx::choose_kernel(desc, kH200).reason, "sm90_score needs heads 4, 8, 16, 32, 64"));
    }
    desc.heads = 64;
    for (const int depth : {16, 32, 96, 112}) {
        desc.depth = depth;
        CHECK(chosen(desc, kB200) == "generic_score");
        CHECK(contains(lidx::choose_kernel(desc, kB200).reason, "sm100_score needs depth a multiple of 64 up to 128;"));
    }
    desc.depth = 64;
    CHECK(chosen(desc, kB200) == "sm100_score_h64");
    CHECK(lidx::choose_kernel(desc, kH200).reason ==
          "sm100_score needs compute capability 10.x, the device has 9.0; sm90_wide needs depth 128; sm90_score needs "
          "depth 128");
    CHECK(contains(lidx::choose_kernel(desc, {80, 108}).reason,
                   "sm90_score needs compute capability 9.0, the device has 8.0"));
    desc.depth = 128;
    // 2^25 rows of 64 heads are one more than a 32-bit coordinate reaches.
    desc.max_rows = 1 << 25;
    CHECK(chosen(desc, kB200) == "generic_score");
    desc.max_rows -= 1;
    CHECK(chosen(desc, kB200) == "sm100_score_h64");
}

// By hand: a group is one token of 64 heads or two of 32; one group in any case, two up to 2^20 keys of all requests,
// three up to 2^19, four up to 2^17.
TEST_CASE("plan: decode has a kernel of its own on compute capability 9.0") {
    lidx_score_desc desc = score_desc();
    desc.max_rows = 1 << 20;
    const struct {
        int heads, tokens, batch;
        int64_t keys;
        bool decode;
    } cases[] = {
        {64, 1, 1, 64, true},      {64, 1, 4096, 131072, true}, {64, 2, 32, 32768, true},  {64, 2, 32, 32769, false},
        {64, 3, 16, 32768, true},  {64, 3, 16, 32769, false},   {64, 4, 1, 131072, true},  {64, 4, 1, 131073, false},
        {64, 5, 1, 64, false},     {32, 2, 4096, 131072, true}, {32, 3, 32, 32768, true},  {32, 3, 32, 32769, false},
        {32, 6, 16, 32768, true},  {32, 6, 16, 32769, false},   {32, 8, 4, 32768, true},   {32, 8, 4, 32769, false},
        {32, 9, 1, 64, false},
    };
    for (const auto& row : cases) {
        CAPTURE(row.heads, row.tokens, row.batch, row.keys);
        desc.heads = row.heads;
        desc.max_tokens = row.tokens;
        desc.batch = row.batch;
        desc.max_keys = desc.score_stride = row.keys;
        desc.block_table_stride = row.keys / 64 + 1;
        const std::string name = row.heads == 64 ? "h64" : "h32";
        const std::string other = row.tokens * row.heads > 256 ? "sm90_pair_" + name   // five groups
                                  : row.tokens == 8            ? "sm90_wide_" + name + "_plain"
                                                               : "sm90_score_" + name + "_plain";
        CHECK(chosen(desc, kH200) == (row.decode ? "sm90_decode_" + name : other));
        CHECK(lidx::choose_kernel(desc, kH200).reason.empty());
        desc.flags = LIDX_FLAG_CAUSAL;
        CHECK(chosen(desc, kH200) == (row.decode ? "sm90_decode_" + name : other));
        desc.flags = 0;
        desc.visibility = LIDX_SEE_ROW_LENGTH;   // of plain kernels only sm90_wide's serve it
        CHECK(chosen(desc, kH200) == (row.tokens == 8 ? other : "sm90_score_" + name));
        desc.visibility = LIDX_SEE_REQUEST_LENGTH;
        desc.kernel = row.heads == 64 ? "sm90_decode_h64" : "sm90_decode_h32";   // forced: any number of tokens
        CHECK(chosen(desc, kH200) == desc.kernel);
        desc.kernel = row.heads == 64 ? "sm90_score_h64_plain" : "sm90_score_h32_plain";
        CHECK(chosen(desc, kH200) == desc.kernel);
        desc.kernel = nullptr;
    }
    // 131072 tiles of 64 keys in each of 16383 requests are 2^31 - 131072 units; one request more is too many.
    desc.heads = 64;
    desc.max_tokens = 1;
    desc.max_keys = desc.score_stride = 131072 * 64 - 128;
    desc.block_table_stride = 131072;
    desc.max_rows = 1000;
    desc.batch = 16384;
    CHECK(chosen(desc, kH200) == "sm90_decode_h64");
    desc.batch = 16385;
    CHECK(chosen(desc, kH200) == "sm90_score_h64_plain");
    desc.kernel = "sm90_decode_h64";
    CHECK(contains(lidx::choose_kernel(desc, kH200).reason,
                   "it needs batch * key tiles * token tiles up to 2147483647"));
}

// By hand: a group is one token of 64 heads or two of 32; five and six, on average of what may come and at most; and of
// 64 heads nine to twelve, two blocks.
TEST_CASE("plan: plain work of five and six groups of tokens has a kernel of its own on compute capability 9.0") {
    const struct {
        int heads, tokens, rows;
        bool pair;
    } cases[] = {
        {64, 4, 8, false},  {64, 5, 10, true},   {64, 6, 12, true},   {64, 7, 14, false}, {64, 6, 10, true},
        {64, 6, 9, false},  {64, 9, 18, true},   {64, 12, 24, true},
        {64, 12, 17, false}, {64, 13, 26, false}, {64, 1000, 6, false}, {32, 8, 16, false}, {32, 9, 18, true},
        {32, 12, 24, true}, {32, 13, 26, false}, {32, 12, 18, true}, {32, 12, 17, false}, {16, 20, 40, false},
        {128, 5, 10, false},
    };
    for (const auto& row : cases) {
        CAPTURE(row.heads, row.tokens, row.rows);
        lidx_score_desc desc = score_desc();
        desc.batch = 2;
        desc.heads = row.heads;
        desc.max_tokens = row.tokens;
        desc.max_rows = row.rows;
        CHECK(contains(chosen(desc, kH200), "sm90_pair") == row.pair);
        if (!row.pair) continue;
        const std::string name = row.heads == 64 ? "h64" : "h32";
        CHECK(chosen(desc, kH200) == "sm90_pair_" + name);
        CHECK(lidx::choose_kernel(desc, kH200).reason.empty());
        const lidx_plan plan = lidx::make_plan(desc, kH200);
        // 1024 keys are 16 tiles of 64. K 12 or 8 times 8192, Q 12 * 8192, weights 3072, k_scale and live words 264 a
        // stage, items 64, start 48, costs 128, 28 or 20 mbarriers; up to the next 1024.
        CHECK(plan.grid[0] == (row.heads == 64 && row.tokens > 6 ? 64 : 32));
        CHECK(plan.block[0] == 512);
        CHECK(plan.shared_bytes == (row.heads == 64 ? 203776 : 169984));
        desc.score_type = LIDX_BF16;   // not plain work
        CHECK(chosen(desc, kH200) == "sm90_score_" + name);
        desc = score_desc();
        desc.heads = row.heads;
        desc.kernel = row.heads == 64 ? "sm90_pair_h64" : "sm90_pair_h32";   // forced: any number of tokens
        desc.max_tokens = 1;
        CHECK(chosen(desc, kH200) == desc.kernel);
    }
}

TEST_CASE("plan: decode launches two CTAs per multiprocessor, with as many warpgroups as there are tiles for") {
    lidx_score_desc desc = score_desc();
    desc.kernel = "sm90_decode_h64";
    const struct {
        int tokens;
        int64_t keys;
        uint32_t grid, warpgroups, each;
    } cases[] = {   // of a warpgroup K 16384, k_scale 512, weights 1024, then 8192 a group from 18432 on; two requests
        {1, 64, 2, 1, 26624},    {1, 6400, 200, 1, 26624},  {1, 8448, 264, 1, 26624},  {1, 8449, 264, 2, 26624},
        {2, 1000, 32, 1, 34816}, {3, 1000, 32, 1, 43008},   {4, 80000, 264, 2, 51200}, {5, 1000, 64, 1, 51200},
    };
    desc.max_rows = 100;
    for (const auto& row : cases) {
        CAPTURE(row.tokens, row.keys);
        desc.max_tokens = row.tokens;
        desc.max_keys = desc.score_stride = row.keys;
        desc.block_table_stride = row.keys / 64 + 1;
        const lidx_plan plan = lidx::make_plan(desc, kH200);
        CHECK(plan.grid[0] == row.grid);
        CHECK(plan.block[0] == 128 * row.warpgroups);
        CHECK(plan.shared_bytes == row.warpgroups * row.each);
        const uint64_t workers = row.warpgroups * row.grid, all = uint64_t{1} << 32;
        CHECK(plan.params.tiles[0] == (all + workers - 1) / workers);
        CHECK(plan.params.tiles[1] == row.each);
        CHECK(plan.params.tiles[2] == row.warpgroups);
    }
    desc.max_sms = 7;   // CTAs, too
    desc.max_tokens = 1;
    desc.max_keys = desc.score_stride = 80000;
    desc.block_table_stride = 1251;
    CHECK(lidx::make_plan(desc, kH200).grid[0] == 7);
    CHECK(lidx::make_plan(desc, kH200).block[0] == 512);
    CHECK(lidx::make_plan(desc, kH200).shared_bytes == 4 * 26624);
}

TEST_CASE("plan: no kernel is explained by what exists") {
    lidx_score_desc desc = score_desc();
    for (const int heads : {129, 4096}) {
        desc.heads = heads;
        const lidx::Choice choice = lidx::choose_kernel(desc, kB200);
        CHECK(choice.kernel == nullptr);
        CHECK(contains(choice.reason,
                       "no kernel serves heads = " + std::to_string(heads) + ", depth = 128, page_size = 64"));
        CHECK(contains(choice.reason,
                       "; there are sm100_score (heads 4, 8, 16, 32, 64, 128, depth a multiple of 64 up to 128, "
                       "page_size 0 or a multiple of 16, compute capability 10.x); sm90_wide (heads 32, 64, 128, "
                       "depth 128, page_size 0 or a multiple of 16, compute capability 9.0); sm90_score "
                       "(heads 4, 8, 16, 32, 64, else the same); generic_score (heads 1 to 128, depth a multiple of 16 "
                       "up to 128, any page size, compute capability 8.0 or later)"));
        CHECK(choice.reason.size() < sizeof(lidx_support::reason));
    }
    desc.heads = 64;
    for (const int depth : {8, 100, 144, 256}) {
        desc.depth = depth;
        CHECK(lidx::choose_kernel(desc, kB200).kernel == nullptr);
    }
}

TEST_CASE("plan: a kernel can be forced") {
    lidx_score_desc desc = score_desc();
    desc.kernel = "generic_score";
    CHECK(chosen(desc, kB200) == "generic_score");
    desc.kernel = "sm100_score_h32_t3";
    CHECK(contains(lidx::choose_kernel(desc, kB200).reason, "kernel = sm100_score_h32_t3 does not serve heads = 64"));
    desc.heads = 32;
    CHECK(chosen(desc, kB200) == "sm100_score_h32_t3");
    CHECK(chosen(desc, kH200).empty());
    desc.kernel = "sm100_score_h32";
    desc.max_tokens = 3;
    CHECK(chosen(desc, kB200) == "sm100_score_h32");
    desc.kernel = "sm100_score";
    const lidx::Choice unknown = lidx::choose_kernel(desc, kB200);
    CHECK(unknown.kernel == nullptr);
    CHECK(unknown.forced_unknown);
    CHECK(contains(unknown.reason, "there are sm100_wide_{h64, h32}, "
                                   "sm100_score_{h64, h64_t1, h128, h32, h32_t3, h32_t2, h32_t1, h16, h16_t4, "
                                   "h16_t2, h8, h8_t8, h8_t4, h4, h4_t16, h4_t8}, sm90_fast_{h64, h32}, "
                                   "sm90_decode_{h64, h32}, sm90_wide_{h128, h64, h32, h64_plain, h32_plain}, "
                                   "sm90_pair_{h64, h32}, sm90_score_{h64, h32, h16, h8, h4, "
                                   "h64_plain, h32_plain}, generic_score"));
    CHECK(unknown.reason.size() < sizeof(lidx_support::reason));
}

TEST_CASE("plan: the fast mode is chosen by its flag alone, and what it does not serve is computed as without") {
    lidx_score_desc desc = score_desc();
    const auto reason = [&](const lidx::DeviceLimits& device) { return lidx::choose_kernel(desc, device).reason; };
    desc.max_rows = 4096;
    desc.max_tokens = 4096;
    CHECK(chosen(desc, kH200) == "sm90_wide_h64_plain");
    const std::string on_b200 = chosen(desc, kB200);
    desc.flags = LIDX_FLAG_FAST;
    CHECK(chosen(desc, kH200) == "sm90_fast_h64");
    CHECK(reason(kH200).empty());
    CHECK(chosen(desc, kB200) == on_b200);
    CHECK(reason(kB200) == "sm90_fast needs compute capability 9.0, the device has 10.0");
    desc.flags |= LIDX_FLAG_CAUSAL | LIDX_FLAG_FILL;
    desc.score_type = LIDX_BF16;
    CHECK(chosen(desc, kH200) == "sm90_fast_h64");
    desc.max_tokens = 12;
    CHECK(chosen(desc, kH200) == "sm90_fast_h64");
    desc.max_tokens = 11;
    CHECK(chosen(desc, kH200) == "sm90_score_h64");
    CHECK(reason(kH200) == "sm90_fast needs max_tokens and max_rows of 12 or more");
    desc.max_tokens = 4096;
    desc.heads = 32;
    CHECK(chosen(desc, kH200) == "sm90_fast_h32");
    desc.max_rows = 23;
    CHECK(chosen(desc, kH200) == "sm90_score_h32");
    CHECK(reason(kH200) == "sm90_fast needs max_tokens and max_rows of 24 or more");
    desc.max_rows = 4096;
    desc.heads = 16;
    CHECK(chosen(desc, kH200) == "sm90_score_h16");
    CHECK(reason(kH200) == "sm90_fast needs heads 32, 64");
    desc = score_desc();
    desc.page_size = 8;
    desc.flags = LIDX_FLAG_FAST;
    CHECK(chosen(desc, kH200) == "generic_score");
    // Forced, it needs no flag and takes any number of tokens.
    desc = score_desc();
    desc.kernel = "sm90_fast_h64";
    desc.max_tokens = 1;
    CHECK(chosen(desc, kH200) == "sm90_fast_h64");
    CHECK(chosen(desc, kB200).empty());
}

// Expected numbers by hand: base = batch * ceil(keys / 128); slices = max(1, min(floor(2 * SMs / base), ceil(tiles /
// 2))) where base < SMs, else 1.
TEST_CASE("plan: grid and slices") {
    const struct {
        int batch, tokens, heads;
        int64_t keys;
        int sms;
        uint32_t y, slices;
    } cases[] = {
        {1, 1, 64, 8192, 148, 64, 1},     // decode
        {1, 2, 64, 8192, 148, 64, 1},     // one tile
        {1, 3, 64, 8192, 148, 64, 1},     // 2 tiles, ceil(2 / 2) = 1
        {1, 5, 64, 8192, 148, 64, 2},     // 3 tiles, min(296 / 64 = 4, 2)
        {1, 2048, 64, 8192, 148, 64, 4},  // min(4, 512)
        {1, 2048, 64, 1, 148, 1, 296},    // min(296, 512)
        {1, 100, 64, 1, 148, 1, 25},      // 50 tiles
        {1, 2048, 64, 147 * 128, 148, 147, 2},
        {1, 2048, 64, 148 * 128, 148, 148, 1},  // base = SMs
        {1, 2048, 64, 147 * 128 + 1, 148, 148, 1},
        {3, 2048, 64, 128, 148, 1, 98},  // 296 / 3
        {148, 2048, 64, 128, 148, 1, 1},
        {1, 2048, 32, 8192, 148, 64, 4},
        {1, 2048, 64, 8192, 20, 64, 1},
        {2, 9, 32, 600, 148, 5, 2},  // 3 tiles of three tokens
        {65536, 1, 64, 65535 * 128, 148, 65535, 1},
    };
    for (const auto& row : cases) {
        CAPTURE(row.batch, row.tokens, row.heads, row.keys, row.sms);
        lidx_score_desc desc = score_desc();
        desc.batch = row.batch;
        desc.max_tokens = row.tokens;
        desc.max_rows = row.batch * row.tokens;
        desc.heads = row.heads;
        desc.max_keys = desc.score_stride = row.keys;
        if (row.tokens >= 16) desc.kernel = row.heads == 64 ? "sm100_score_h64" : "sm100_score_h32";
        const lidx_plan plan = lidx::make_plan(desc, {100, row.sms});
        CHECK(plan.grid[0] == static_cast<uint32_t>(row.batch));
        CHECK(plan.grid[1] == row.y);
        CHECK(plan.grid[2] == row.slices);
        CHECK(plan.block[0] == 128);
        CHECK(plan.block[1] == 1);
        CHECK(plan.block[2] == 1);
    }
}

// By hand, 64 heads: K 128 * 128, Q 128 * 128, scales 2 * 128 * 4, four barriers, one word, up to 1024; then Q again.
TEST_CASE("plan: one token tile gets the shared-memory prefix") {
    lidx_score_desc desc = score_desc();
    desc.max_rows = 64;
    desc.max_tokens = 2;
    CHECK(lidx::make_plan(desc, kB200).shared_bytes == 16384 + 16384 + 2048);
    desc.max_tokens = 3;
    CHECK(lidx::make_plan(desc, kB200).shared_bytes == 16384 + 16384 + 2048 + 16384);
    desc.heads = 32;
    CHECK(lidx::make_plan(desc, kB200).shared_bytes == 16384 + 12288 + 1024);  // 96 columns
    desc.max_tokens = 6;
    CHECK(lidx::make_plan(desc, kB200).shared_bytes == 16384 + 12288 + 1024 + 12288);
    desc.kernel = "generic_score";
    CHECK(lidx::make_plan(desc, kH200).shared_bytes == 0);
}

// A CTA per multiprocessor, or per 64 keys of four tokens of 64 heads (eight of 32) where there are fewer.
TEST_CASE("plan: a persistent grid") {
    const struct {
        int batch, tokens, heads;
        int64_t keys;
        uint32_t ctas;
    } cases[] = {
        {1, 1, 64, 1, 1},   {1, 4, 64, 64, 1},       {1, 4, 64, 65, 2},      {1, 5, 64, 64, 2},
        {1, 8, 32, 64, 1},  {1, 9, 32, 65, 4},       {2, 5, 64, 200, 16},    {1, 1, 64, 8192, 128},
        {131, 1, 64, 1, 131}, {132, 1, 64, 1, 132}, {1, 4096, 64, 131072, 132}, {65536, 2, 32, 65535 * 128, 132},
    };
    for (const auto& row : cases) {
        CAPTURE(row.batch, row.tokens, row.heads, row.keys);
        lidx_score_desc desc = score_desc();
        desc.batch = row.batch;
        desc.max_tokens = row.tokens;
        desc.max_rows = row.batch * row.tokens;
        desc.heads = row.heads;
        desc.max_keys = desc.score_stride = row.keys;
        const bool wide = row.tokens >= 16;   // 8 tokens a block, all shared memory
        if (!wide) desc.kernel = row.heads == 64 ? "sm90_score_h64_plain" : "sm90_score_h32_plain";
        const lidx_plan plan = lidx::make_plan(desc, kH200);
        CHECK(plan.grid[0] == row.ctas);
        CHECK(plan.grid[1] == 1);
        CHECK(plan.grid[2] == 1);
        CHECK(plan.block[0] == (wide ? 512 : 640));
        if (wide) {
            CHECK(plan.shared_bytes == sizeof(lidx::sm90_wide::Tile<64>::Shared));
            continue;
        }
        // Two Q buffers of 1, 2 or 4 groups, 8192 bytes each, behind everything else.
        const int groups = row.tokens * row.heads <= 64 ? 1 : row.tokens * row.heads <= 128 ? 2 : 4;
        CHECK(plan.shared_bytes == static_cast<uint32_t>(139264 + 2 * groups * 8192));
    }
}

// A CTA per multiprocessor, or per 128 keys of four tokens of 64 heads (eight of 32) where there are fewer.
TEST_CASE("plan: a persistent grid on compute capability 10.0") {
    const struct {
        int batch, tokens, heads;
        int64_t keys;
        int max_sms;
        uint32_t ctas;
    } cases[] = {
        {1, 16, 64, 1, 0, 4},        {1, 17, 64, 129, 0, 10},       {1, 16, 32, 128, 0, 2},
        {2, 17, 32, 1024, 0, 48},    {3, 40, 64, 400, 0, 120},      {1, 4096, 64, 131072, 0, 148},
        {148, 16, 32, 1, 0, 148},    {1, 4096, 64, 131072, 20, 20},
    };
    for (const auto& row : cases) {
        CAPTURE(row.batch, row.tokens, row.heads, row.keys, row.max_sms);
        lidx_score_desc desc = score_desc();
        desc.batch = row.batch;
        desc.max_tokens = row.tokens;
        desc.max_rows = row.batch * row.tokens;
        desc.heads = row.heads;
        desc.max_keys = desc.score_stride = row.keys;
        desc.max_sms = row.max_sms;
        const lidx_plan plan = lidx::make_plan(desc, kB200);
        CHECK(std::string(plan.kernel->symbol) == "sm100_wide_h" + std::to_string(row.heads));
        CHECK(plan.grid[0] == row.ctas);
        CHECK(plan.grid[1] == 1);
        CHECK(plan.grid[2] == 1);
        CHECK(plan.block[0] == 384);
        CHECK(plan.shared_bytes == sizeof(lidx::sm100_wide::Tile<64>::Shared));
    }
}

TEST_CASE("plan: the parameter block carries the shape and no pointer") {
    lidx_score_desc desc = score_desc();
    desc.flags = LIDX_FLAG_CHECK;
    const lidx_plan plan = lidx::make_plan(desc, kB200);
    CHECK(plan.params.q == nullptr);
    CHECK(plan.params.scores == nullptr);
    CHECK(plan.params.check_word == nullptr);
    CHECK(plan.params.num_pages == 40);
    CHECK(plan.params.k_page_stride == 8448);
    CHECK(plan.params.k_scale_page_stride == 8448);
    CHECK(plan.params.block_table_stride == 16);
    CHECK(plan.params.score_stride == 1024);
    CHECK(plan.params.view.keys_limit == 1000);
    CHECK(plan.params.view.rows == 8);
    CHECK(plan.params.heads == 64);
    CHECK(plan.params.depth == 128);
    CHECK(plan.params.page_size == 64);
    CHECK(plan.params.view.max_tokens == 4);
    CHECK(plan.params.view.batch == desc.batch);
    CHECK(plan.workspace_bytes == 16);
    desc.flags = 0;
    CHECK(lidx::make_plan(desc, kB200).workspace_bytes == 0);
}

TEST_CASE("plan: the limit of keys is the narrowest of max_keys and the tables") {
    lidx_score_desc desc = score_desc();   // 16 pages of 64 keys
    const auto limit = [&] { return lidx::make_plan(desc, kB200).params.view.keys_limit; };
    CHECK(limit() == 1000);
    desc.block_table_stride = 15;
    CHECK(limit() == 960);
    desc.block_table_stride = INT64_MAX / 8;   // no overflow in the product
    CHECK(limit() == 1000);
}

TEST_CASE("plan: relative columns limit a row's keys, and the grid covers the keys; FILL lets it cover the columns") {
    lidx_score_desc desc = score_desc();
    desc.kernel = "generic_score";
    desc.scale_block_table_stride = 3;
    CHECK(lidx::make_plan(desc, kB200).params.view.keys_limit == 192);
    desc.scale_block_table_stride = 0;
    desc.flags = LIDX_FLAG_RELATIVE_COLUMNS;
    desc.visibility = LIDX_SEE_WINDOW;
    desc.score_columns = 40;
    lidx_plan plan = lidx::make_plan(desc, kB200);
    CHECK(plan.params.view.keys_limit == 1000);
    CHECK(plan.params.view.window_limit == 40);
    CHECK(plan.grid[1] == 8);
    CHECK(plan.params.fill_columns == 0);
    desc.flags |= LIDX_FLAG_FILL;
    plan = lidx::make_plan(desc, kB200);
    CHECK(plan.grid[1] == 8);
    CHECK(plan.params.fill_columns == 40);
    desc.flags = LIDX_FLAG_FILL;
    desc.score_columns = 0;
    CHECK(lidx::make_plan(desc, kB200).params.fill_columns == 1000);
    desc.score_columns = desc.score_stride = 1025;
    plan = lidx::make_plan(desc, kB200);
    CHECK(plan.grid[1] == 9);
    CHECK(plan.params.fill_columns == 1025);
    desc.max_keys = 0;   // nothing to score, something to fill
    CHECK(lidx::make_plan(desc, kB200).grid[1] == 9);
    desc.flags = 0;
    CHECK(lidx::make_plan(desc, kB200).empty());
}

TEST_CASE("plan: a limit of CTAs") {
    lidx_score_desc desc = score_desc();   // 2 requests, 8 key tiles, 2 slices of 4 tokens
    desc.kernel = "generic_score";
    lidx_plan plan = lidx::make_plan(desc, kB200);
    CHECK(plan.grid[0] * plan.grid[1] * plan.grid[2] == 32);
    for (const int limit : {1, 5, 31, 32, 33, INT32_MAX}) {
        CAPTURE(limit);
        desc.max_sms = limit;
        plan = lidx::make_plan(desc, kB200);
        const uint32_t work = plan.params.tiles[0] * plan.params.tiles[1] * plan.params.tiles[2];
        CHECK(plan.params.tiles[0] == 2);
        CHECK(plan.params.tiles[1] == 8);
        CHECK(plan.params.tiles[2] == (limit <= 16 ? 1 : 2));   // base 16, not below 5 multiprocessors
        CHECK(plan.grid[0] == std::min<uint32_t>(static_cast<uint32_t>(limit), work));
        CHECK(plan.grid[1] == 1);
        CHECK(plan.grid[2] == 1);
    }
}

TEST_CASE("plan: what the description asks for reaches the parameter block") {
    lidx_score_desc desc = score_desc();
    const lidx::ScoreParams plain = lidx::make_plan(desc, kB200).params;
    CHECK(plain.view.compress_ratio == 1);
    CHECK(plain.view.window_limit == 1000);
    CHECK(plain.weight_stride == 64);
    CHECK(plain.weight2_stride == 0);
    CHECK(plain.scale_num_pages == 40);
    CHECK(plain.scale_block_table_stride == 16);
    CHECK(plain.fill_columns == 0);
    CHECK(plain.relative == 0);
    CHECK(plain.view.row_map == lidx::RowMap::kCuSeqlens);
    CHECK(plain.view.visibility == lidx::Visibility::kRequestLength);
    CHECK(plain.view.causal + plain.view.wide == 0);
    desc.row_map = LIDX_ROWS_REQUEST_IDS;
    desc.length_type = LIDX_INT64;
    desc.compress_ratio = 4;
    const lidx::ScoreParams p = lidx::make_plan(desc, kB200).params;
    CHECK(p.view.row_map == lidx::RowMap::kRequestIds);
    CHECK(p.view.wide == 1);
    CHECK(p.view.compress_ratio == 4);
}

TEST_CASE("plan: a kernel serves what its row names, and says what it does not") {
    const struct {
        lidx::Feature feature;
        void (*ask)(lidx_score_desc&);
        const char* text;
    } rows[] = {
        {lidx::kRowKeys, [](lidx_score_desc& d) { d.visibility = LIDX_SEE_ROW_LENGTH; },
         "rows with lengths or windows of their own"},
        {lidx::kRowKeys, [](lidx_score_desc& d) { d.visibility = LIDX_SEE_WINDOW; },
         "rows with lengths or windows of their own"},
        {lidx::kCausalRows, [](lidx_score_desc& d) { d.flags = LIDX_FLAG_CAUSAL; }, "LIDX_FLAG_CAUSAL"},
        {lidx::kWeights, [](lidx_score_desc& d) { d.weight_type = LIDX_BF16; }, "weights that are not fp32"},
        {lidx::kWeights, [](lidx_score_desc& d) { d.weight_stride = 65; }, "weights that are not fp32"},
        {lidx::kWeights, [](lidx_score_desc& d) { d.weight2_stride = 64; }, "weights that are not fp32"},
        {lidx::kScaleTable, [](lidx_score_desc& d) { d.scale_block_table_stride = 16; }, "a scale pool with a table"},
        {lidx::kScaleTable, [](lidx_score_desc& d) { d.scale_num_pages = 41; }, "a scale pool with a table"},
        {lidx::kBf16Scores, [](lidx_score_desc& d) { d.score_type = LIDX_BF16; }, "bf16 scores"},
        {lidx::kRelativeColumns,
         [](lidx_score_desc& d) { d.flags = LIDX_FLAG_RELATIVE_COLUMNS, d.score_columns = 9; }, "relative columns"},
        {lidx::kFill, [](lidx_score_desc& d) { d.flags = LIDX_FLAG_FILL; }, "LIDX_FLAG_FILL"},
        {lidx::kSmLimit, [](lidx_score_desc& d) { d.max_sms = 3; }, "max_sms"},
    };
    uint32_t seen = 0;
    for (const auto& row : rows) {
        CAPTURE(row.text);
        seen |= row.feature;
        for (const lidx::DeviceLimits& device : {kB200, kH200}) {
            lidx_score_desc desc = score_desc();
            row.ask(desc);
            REQUIRE_NOTHROW(lidx::check_desc(desc));
            for (const lidx::KernelRow& kernel : lidx::kernel_rows()) {
                if (!lidx::runs_on(kernel, device.compute_capability) || (kernel.heads != 0 && kernel.heads != 64))
                    continue;
                desc.kernel = kernel.symbol;
                const lidx::Choice choice = lidx::choose_kernel(desc, device);
                CHECK((choice.kernel != nullptr) == ((kernel.features & row.feature) != 0));
                CHECK(contains(choice.reason, std::string("does not serve ") + row.text) ==
                      (choice.kernel == nullptr));
            }
        }
    }
    CHECK(seen == lidx::kAllFeatures);
    for (const auto& row : rows) {   // the kernels for plain work give way
        CAPTURE(row.text);
        lidx_score_desc desc = score_desc();
        row.ask(desc);
        const bool plain = row.feature == lidx::kSmLimit || row.feature == lidx::kCausalRows;
        CHECK(chosen(desc, kH200) == (plain ? "sm90_decode_h64" : "sm90_score_h64"));
        desc.max_tokens = desc.max_rows = 5;
        CHECK(chosen(desc, kH200) == (plain ? "sm90_score_h64_plain" : "sm90_score_h64"));
        desc.max_rows = 5 * desc.batch;
        CHECK(chosen(desc, kH200) == (plain ? "sm90_pair_h64" : "sm90_score_h64"));
    }
    lidx_score_desc few = score_desc();   // causal rows, 32 of a request at most
    few.batch = 8;
    few.max_rows = 80;
    few.max_tokens = 33;
    CHECK(chosen(few, kH200) == "sm90_score_h64_plain");
    few.flags = LIDX_FLAG_CAUSAL;
    CHECK(chosen(few, kH200) == "sm90_score_h64");
    few.max_tokens = 32;
    CHECK(chosen(few, kH200) == "sm90_score_h64_plain");
    lidx_score_desc desc = score_desc();   // what every kernel serves
    desc.row_map = LIDX_ROWS_FIXED;
    desc.length_type = LIDX_INT64;
    desc.compress_ratio = 128;
    desc.score_columns = 1024;
    desc.flags = LIDX_FLAG_RELATIVE_COLUMNS | LIDX_FLAG_PDL;   // lengths begin at key 0
    CHECK(chosen(desc, kB200) == "sm100_score_h64");
    CHECK(chosen(desc, kH200) == "sm90_decode_h64");
}

TEST_CASE("plan: contiguous keys are one page per request") {
    lidx_score_desc desc = score_desc();
    desc.page_size = 0;
    desc.num_pages = 2;
    desc.k_page_stride = 1000 * 128;
    desc.k_scale_page_stride = 1000 * 4;
    const lidx_plan plan = lidx::make_plan(desc, kB200);
    CHECK(std::string(plan.kernel->symbol) == "sm100_score_h64");
    CHECK(plan.contiguous);
    CHECK(plan.params.page_size == 1000);
    CHECK(plan.params.block_table_stride == 0);
}

TEST_CASE("plan: nothing to do is a plan with an empty grid") {
    for (int field = 0; field < 4; ++field) {
        lidx_score_desc desc = score_desc();
        if (field == 0) desc.batch = 0;
        if (field == 1) desc.max_rows = 0;
        if (field == 2) desc.max_tokens = 0;
        if (field == 3) desc.max_keys = 0;
        CAPTURE(field);
        const lidx_plan plan = lidx::make_plan(desc, kB200);
        CHECK(plan.empty());
        CHECK(plan.grid[0] + plan.grid[1] + plan.grid[2] + plan.block[0] + plan.shared_bytes == 0);
    }
    CHECK_FALSE(lidx::make_plan(score_desc(), kB200).empty());
}

TEST_CASE("plan: the table's rows agree with their launch sizes") {
    for (const lidx::KernelRow& row : lidx::kernel_rows()) {
        CAPTURE(row.symbol);
        CHECK(std::string(row.symbol).rfind(row.source, 0) == 0);
        const bool three_warpgroups = row.schedule == lidx::Schedule::kWarpgroups || row.q_pairs ||
                                      row.alternative || row.arithmetic == LIDX_ARITHMETIC_SM90_FAST;
        CHECK(row.threads == (row.schedule == lidx::Schedule::kTiles ? 128
                              : row.q_turns                          ? 384
                              : three_warpgroups                     ? 512
                                                                     : 640));
        CHECK(row.q_box_rows <= 256);  // cuTensorMapEncodeTiled: boxDim
        CHECK((row.q_box_rows > 0) == (row.operands == lidx::Operands::kTensorMaps));
        CHECK(row.shared_bytes_decode <= row.shared_bytes);
        CHECK(row.shared_bytes <= 227 * 1024);  // CUDA C++ Programming Guide, compute capability 9.0 and 10.0
        CHECK(row.depth % row.depth_step == 0);
        CHECK((row.tmem_columns & (row.tmem_columns - 1)) == 0);
        CHECK((row.tmem_columns > 0) == (row.arithmetic == LIDX_ARITHMETIC_SM100));
    }
}

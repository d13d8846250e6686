// SPDX-License-Identifier: Apache-2.0
// Bad input at lidx_topk_* and lidx_index_*, one row each: the status, words of the message, nothing launched.
#include "catch_any.h"

#include <lidx.h>

#include <climits>
#include <string>

#include "fake_driver.h"
#include "good_calls.h"
#include "refusal_fixture.h"

namespace {

using good_calls::address;
using refusal::Fixture;

struct Call {
    lidx_topk_desc desc;
    lidx_topk_args args;
    Call() {
        REQUIRE(lidx_topk_desc_init(&desc) == LIDX_OK);
        desc.batch = 50;
        desc.max_rows = 100;   // too many for clusters
        desc.max_tokens = 2;
        desc.max_keys = desc.score_stride = 1000000;   // slices: a workspace
        desc.k = 512;
        REQUIRE(lidx_topk_args_init(&args) == LIDX_OK);
        args.scores = address<void>(0x10000);
        args.context_lens = address<void>(0x20000);
        args.cu_seqlens_q = address<int32_t>(0x30000);
        args.indices = address<int32_t>(0x40000);
        args.workspace = address<void>(0x50000);
        args.workspace_bytes = size_t{1} << 30;
    }
};

TEST_CASE("topk: good input is one launch") {
    Fixture f;
    Call c;
    REQUIRE(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr) == LIDX_OK);
    REQUIRE(fake().launch_count == 1);
    CHECK(std::string(fake().launches[0].function) == "topk_fp32");
    CHECK(fake().launches[0].config.gridDimX == 2 * 100);
    CHECK(fake().launches[0].config.blockDimX == 512);
    c.desc.score_type = LIDX_BF16;
    c.desc.flags = LIDX_FLAG_PDL;
    REQUIRE(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr) == LIDX_OK);
    CHECK(std::string(fake().launches[1].function) == "topk_bf16");
    CHECK(fake().launches[1].config.numAttrs == 1);
    c.desc.max_rows = 0;
    REQUIRE(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr) == LIDX_OK);
    CHECK(fake().launch_count == 2);
}

TEST_CASE("topk: rows of CTAs and clusters are one launch without a workspace") {
    Fixture f;
    const struct {
        int64_t max_keys;
        const char* function;
        unsigned ctas, threads, attributes;
    } rows[] = {{8192, "topk_held_fp32", 1, 512, 1},
                {8193, "topk_cluster_fp32", 2, 512, 2},
                {131072, "topk_cluster_fp32", 16, 512, 2},
                {262144, "topk_wide_fp32", 16, 512, 2},
                {262145, "topk_spread_fp32", 16, 512, 2},
                {65535 * 128, "topk_spread_fp32", 16, 512, 2}};
    for (const auto& row : rows) {
        CAPTURE(row.max_keys);
        fake().launch_count = 0;
        Call c;
        c.desc.flags = LIDX_FLAG_PDL;
        c.desc.max_rows = 4;
        c.desc.max_keys = c.desc.score_stride = row.max_keys;
        c.args.workspace = nullptr;
        REQUIRE(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr) == LIDX_OK);
        REQUIRE(fake().launch_count == 1);
        CHECK(std::string(fake().launches[0].function) == row.function);
        CHECK(fake().launches[0].config.gridDimX == 4 * row.ctas);
        CHECK(fake().launches[0].config.blockDimX == row.threads);
        CHECK(fake().launches[0].config.numAttrs == row.attributes);
    }
}

TEST_CASE("topk: workspace only where rows are many and long") {
    Fixture f;
    Call c;
    size_t bytes = 1;
    REQUIRE(lidx_topk_workspace_bytes(f.context, &c.desc, &bytes) == LIDX_OK);
    CHECK(bytes > 0);
    c.desc.max_keys = 8192;
    REQUIRE(lidx_topk_workspace_bytes(f.context, &c.desc, &bytes) == LIDX_OK);
    CHECK(bytes == 0);
    c.args.workspace = nullptr;
    CHECK(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr) == LIDX_OK);
}

TEST_CASE("topk: what is wrong is named") {
    using Spoil = void (*)(Call&);
    const struct {
        Spoil spoil;
        lidx_status status;
        const char* part;
    } rows[] = {
        {[](Call& c) { c.desc.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "lidx_topk_desc.struct_size = 8"},
        {[](Call& c) { c.args.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "lidx_topk_args.struct_size = 8"},
        {[](Call& c) { c.desc.flags = LIDX_FLAG_FILL; }, LIDX_ERR_VALUE,
         "flags = 0x4: may hold LIDX_FLAG_CAUSAL, LIDX_FLAG_RELATIVE_COLUMNS and LIDX_FLAG_PDL, the bits of 0x1a"},
        {[](Call& c) { c.desc.k = 0; }, LIDX_ERR_VALUE, "k = 0: must be 1 .. 4096"},
        {[](Call& c) { c.desc.k = 4097; }, LIDX_ERR_VALUE, "k = 4097: must be 1 .. 4096"},
        {[](Call& c) { c.desc.batch = -1; }, LIDX_ERR_VALUE, "batch = -1"},
        {[](Call& c) { c.desc.max_rows = -1; }, LIDX_ERR_VALUE, "max_rows = -1"},
        {[](Call& c) { c.desc.max_rows = INT_MAX, c.desc.score_stride = INT64_MAX / 8; }, LIDX_ERR_VALUE,
         "score_stride"},
        {[](Call& c) { c.desc.max_keys = INT64_MAX; }, LIDX_ERR_VALUE, "max_keys"},
        {[](Call& c) { c.desc.score_stride = 999999; }, LIDX_ERR_VALUE,
         "score_stride = 999999: must be 1000000 .. "},
        {[](Call& c) { c.desc.score_type = LIDX_FP16; }, LIDX_ERR_VALUE, "score_type = 2"},
        {[](Call& c) { c.desc.visibility = 3; }, LIDX_ERR_VALUE, "visibility = 3"},
        {[](Call& c) { c.desc.row_map = -1; }, LIDX_ERR_VALUE, "row_map = -1"},
        {[](Call& c) { c.desc.forced_first = -1; }, LIDX_ERR_VALUE, "forced_first = -1"},
        {[](Call& c) { c.desc.forced_last = -1; }, LIDX_ERR_VALUE, "forced_last = -1"},
        {[](Call& c) { c.desc.index_kind = 4; }, LIDX_ERR_VALUE, "index_kind = 4"},
        {[](Call& c) { c.desc.sort = 2; }, LIDX_ERR_VALUE, "sort = 2"},
        {[](Call& c) { c.desc.index_stride = 511; }, LIDX_ERR_VALUE, "index_stride = 511: must be 512 .. "},
        {[](Call& c) { c.desc.top_score_stride = -1; }, LIDX_ERR_VALUE, "top_score_stride = -1"},
        {[](Call& c) { c.desc.page_size = 64; }, LIDX_ERR_VALUE, "page_size = 64: must be 0"},
        {[](Call& c) { c.desc.index_kind = LIDX_INDEX_PHYSICAL; }, LIDX_ERR_VALUE,
         "page_size = 0: must be 1 .. 2147483647 with LIDX_INDEX_PHYSICAL"},
        {[](Call& c) { c.desc.index_kind = LIDX_INDEX_PHYSICAL, c.desc.page_size = 64; }, LIDX_ERR_VALUE,
         "block_table_stride = 0: must be 1 .. "},
        {[](Call& c) {
             c.desc.index_kind = LIDX_INDEX_PHYSICAL, c.desc.page_size = 64, c.desc.block_table_stride = 20000;
         },
         LIDX_ERR_NULL, "block_table is null"},
        {[](Call& c) { c.args.block_table = c.args.scores; }, LIDX_ERR_VALUE,
         "block_table is not null: index_kind is not LIDX_INDEX_PHYSICAL"},
        {[](Call& c) { c.args.offsets = c.args.indices; }, LIDX_ERR_VALUE,
         "offsets is not null: index_kind is not LIDX_INDEX_OFFSET"},
        {[](Call& c) { c.desc.index_kind = LIDX_INDEX_OFFSET; }, LIDX_ERR_NULL, "offsets is null"},
        {[](Call& c) { c.args.scores = nullptr; }, LIDX_ERR_NULL, "scores is null"},
        {[](Call& c) { c.args.scores = address<void>(0x10002); }, LIDX_ERR_ALIGNMENT, "scores = address 0x10002"},
        {[](Call& c) { c.args.indices = nullptr; }, LIDX_ERR_NULL, "indices is null"},
        {[](Call& c) { c.args.top_scores = address<float>(2); }, LIDX_ERR_ALIGNMENT, "top_scores = address 0x2"},
        {[](Call& c) { c.args.counts = address<int32_t>(2); }, LIDX_ERR_ALIGNMENT, "counts = address 0x2"},
        {[](Call& c) { c.args.context_lens = nullptr; }, LIDX_ERR_NULL, "context_lens is null"},
        {[](Call& c) { c.args.row_begin = c.args.scores; }, LIDX_ERR_VALUE,
         "row_begin is not null: visibility is not LIDX_SEE_WINDOW"},
        {[](Call& c) { c.args.workspace = nullptr; }, LIDX_ERR_WORKSPACE, "workspace is null: the top-k needs "},
        {[](Call& c) { c.args.workspace_bytes = 100; }, LIDX_ERR_WORKSPACE, "workspace_bytes = 100"},
        {[](Call& c) { c.args.workspace = address<void>(0x50008); }, LIDX_ERR_ALIGNMENT, "workspace = address"},
    };
    for (const auto& row : rows) {
        Fixture f;
        Call c;
        row.spoil(c);
        f.refused(lidx_topk_enqueue(f.context, &c.desc, &c.args, nullptr), row.status, row.part);
    }
    Fixture f;
    Call c;
    f.refused(lidx_topk_enqueue(f.context, nullptr, &c.args, nullptr), LIDX_ERR_NULL, "desc is null");
    f.refused(lidx_topk_enqueue(f.context, &c.desc, nullptr, nullptr), LIDX_ERR_NULL, "args is null");
    f.refused(lidx_topk_workspace_bytes(f.context, &c.desc, nullptr), LIDX_ERR_NULL, "bytes is null");
}

struct Merge {
    lidx_merge_args args;
    Merge() {
        REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
        args.rows = 3;
        args.shards = 8;
        args.k_in = args.k = 2048;
        args.scores = address<float>(0x10000);
        args.positions = address<int32_t>(0x20000);
        args.indices = address<int32_t>(0x30000);
    }
};

TEST_CASE("topk merge: good input is one launch of a CTA a row") {
    Fixture f;
    Merge c;
    REQUIRE(lidx_topk_merge_enqueue(f.context, &c.args, nullptr) == LIDX_OK);
    REQUIRE(fake().launch_count == 1);
    CHECK(std::string(fake().launches[0].function) == "topk_merge");
    CHECK(fake().launches[0].config.gridDimX == 3);
    CHECK(fake().launches[0].config.sharedMemBytes == 0);
    c.args.rows = 0;
    REQUIRE(lidx_topk_merge_enqueue(f.context, &c.args, nullptr) == LIDX_OK);
    CHECK(fake().launch_count == 1);
}

TEST_CASE("topk merge: what is wrong is named") {
    using Spoil = void (*)(Merge&);
    const struct {
        Spoil spoil;
        lidx_status status;
        const char* part;
    } rows[] = {
        {[](Merge& c) { c.args.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "; call lidx_merge_args_init"},
        {[](Merge& c) { c.args.flags = LIDX_FLAG_PDL; }, LIDX_ERR_VALUE, "flags = 0x10: must be 0"},
        {[](Merge& c) { c.args.rows = -1; }, LIDX_ERR_VALUE, "rows = -1"},
        {[](Merge& c) { c.args.shards = 0; }, LIDX_ERR_VALUE, "shards = 0: must be 1 .. 1048576"},
        {[](Merge& c) { c.args.shards = INT_MAX; }, LIDX_ERR_VALUE, "shards = 2147483647: must be 1 .. 1048576"},
        {[](Merge& c) { c.args.k_in = 0; }, LIDX_ERR_VALUE, "k_in = 0: must be 1 .. 131072"},
        {[](Merge& c) { c.args.k_in = 131073; }, LIDX_ERR_VALUE, "k_in = 131073: must be 1 .. 131072 = 2^20 / shards"},
        {[](Merge& c) { c.args.k = 0; }, LIDX_ERR_VALUE, "k = 0: must be 1 .. 4096"},
        {[](Merge& c) { c.args.k = 4097; }, LIDX_ERR_VALUE, "k = 4097"},
        {[](Merge& c) { c.args.sort = 2; }, LIDX_ERR_VALUE, "sort = 2"},
        {[](Merge& c) { c.args.score_row_stride = -1; }, LIDX_ERR_VALUE, "score_row_stride = -1"},
        {[](Merge& c) { c.args.score_shard_stride = INT64_MAX; }, LIDX_ERR_VALUE, "score_shard_stride"},
        {[](Merge& c) { c.args.position_row_stride = INT64_MAX / 8; }, LIDX_ERR_VALUE, "position_row_stride"},
        {[](Merge& c) { c.args.position_shard_stride = -5; }, LIDX_ERR_VALUE, "position_shard_stride = -5"},
        {[](Merge& c) { c.args.index_stride = 2047; }, LIDX_ERR_VALUE, "index_stride = 2047: must be 2048 .. "},
        {[](Merge& c) { c.args.top_score_stride = 1; }, LIDX_ERR_VALUE, "top_score_stride = 1"},
        {[](Merge& c) { c.args.scores = nullptr; }, LIDX_ERR_NULL, "scores is null"},
        {[](Merge& c) { c.args.positions = address<int32_t>(0x20001); }, LIDX_ERR_ALIGNMENT, "positions = address"},
        {[](Merge& c) { c.args.indices = nullptr; }, LIDX_ERR_NULL, "indices is null"},
        {[](Merge& c) { c.args.top_scores = address<float>(2); }, LIDX_ERR_ALIGNMENT, "top_scores = address 0x2"},
        {[](Merge& c) { c.args.counts = address<int32_t>(2); }, LIDX_ERR_ALIGNMENT, "counts = address 0x2"},
    };
    for (const auto& row : rows) {
        Fixture f;
        Merge c;
        row.spoil(c);
        f.refused(lidx_topk_merge_enqueue(f.context, &c.args, nullptr), row.status, row.part);
    }
    Fixture f;
    f.refused(lidx_topk_merge_enqueue(f.context, nullptr, nullptr), LIDX_ERR_NULL, "args is null");
}

struct Index {
    lidx_index_desc desc;
    lidx_index_args args;
    Index() {
        REQUIRE(lidx_index_desc_init(&desc) == LIDX_OK);
        desc.score.batch = 4;
        desc.score.max_rows = 8;
        desc.score.max_tokens = 2;
        desc.score.heads = 64;
        desc.score.depth = 128;
        desc.score.max_keys = 1000;
        desc.score.page_size = 64;
        desc.score.num_pages = 100;
        desc.score.k_page_stride = desc.score.k_scale_page_stride = 64 * 132;
        desc.score.block_table_stride = 16;
        desc.k = 512;
        REQUIRE(lidx_index_args_init(&args) == LIDX_OK);
        args.q = args.q_scale = args.k_base = args.k_scale_base = args.block_table = address<void>(0x10000);
        args.context_lens = address<void>(0x20000);
        args.cu_seqlens_q = address<int32_t>(0x30000);
        args.indices = address<int32_t>(0x40000);
        args.workspace = address<void>(0x1000);
        args.workspace_bytes = 8 * 4096;
    }
    lidx_status run(const Fixture& f) {
        lidx_index_plan* plan = nullptr;
        const lidx_status status = lidx_index_plan_create(f.context, &desc, &plan);
        if (status != LIDX_OK) return status;
        const lidx_status enqueued = lidx_index_enqueue(f.context, plan, &args, nullptr);
        lidx_index_plan_destroy(plan);
        return enqueued;
    }
};

TEST_CASE("index: two launches a window, each of its rows") {
    Fixture f;
    Index c;
    c.desc.workspace_budget_bytes = 3 * 4096;   // 8 rows: windows of 3, 3 and 2, or of tiles of 2
    c.desc.score.flags = LIDX_FLAG_PDL;
    REQUIRE(c.run(f) == LIDX_OK);
    REQUIRE(fake().launch_count % 2 == 0);
    REQUIRE(fake().launch_count >= 6);
    int32_t row = 0;
    for (int i = 0; i < fake().launch_count; i += 2) {
        const lidx::RowView& view = fake().launches[i].params.view;
        CHECK(view.first_row == row);
        CHECK(view.end_row - row <= 3);
        // The window's first row lies where the scores begin.
        const auto scores = reinterpret_cast<uintptr_t>(fake().launches[i].params.scores);
        CHECK(scores + static_cast<uintptr_t>(row) * 4096 == 0x1000);
        CHECK(std::string(fake().launches[i + 1].function) == "topk_held_fp32");
        CHECK(static_cast<int32_t>(fake().launches[i + 1].config.gridDimX) == view.end_row - row);
        CHECK(fake().launches[i + 1].config.numAttrs == 1);
        row = view.end_row;
    }
    CHECK(row == 8);
}

TEST_CASE("index: decode is two launches, each of which may overlap what is before it") {
    Fixture f;
    Index c;
    c.desc.score.flags = LIDX_FLAG_PDL;
    REQUIRE(c.run(f) == LIDX_OK);
    REQUIRE(fake().launch_count == 2);
    CHECK(std::string(fake().launches[0].function).find("_score_") != std::string::npos);
    CHECK(std::string(fake().launches[1].function) == "topk_held_fp32");
    CHECK(fake().launches[0].config.numAttrs == 1);
    CHECK(fake().launches[1].config.numAttrs == 1);
}

TEST_CASE("index: no score is computed where every key is taken whatever it scores") {
    const struct {
        void (*change)(Index&);
        int launches;
    } rows[] = {
        {[](Index&) {}, 1},
        {[](Index& c) { c.desc.score.max_keys = 1024; }, 1},
        {[](Index& c) { c.desc.k = 999; }, 2},
        {[](Index& c) { c.args.top_scores = address<float>(0x50000); }, 2},
        {[](Index& c) { c.desc.sort = LIDX_SORT_SCORE; }, 2},
        {[](Index& c) { c.desc.score.flags = LIDX_FLAG_CHECK; }, 2},
    };
    for (const auto& row : rows) {
        Fixture f;
        Index c;
        c.desc.k = 1024;
        c.args.workspace_bytes = 16 * 4096;
        row.change(c);
        CAPTURE(&row - rows);
        REQUIRE(c.run(f) == LIDX_OK);
        CHECK(fake().launch_count == row.launches);
    }
    Fixture f;
    Index c;   // what the score would need is checked all the same
    c.desc.k = 1024;
    c.args.q = nullptr;
    f.refused(c.run(f), LIDX_ERR_NULL, "q is null");
}

TEST_CASE("index: compute capability 9.0 has kernels of their own for plain work") {
    const struct {
        void (*change)(Index&);
        const char* scorer;
    } rows[] = {
        {[](Index&) {}, "sm90_decode_h64"},
        {[](Index& c) { c.desc.score.max_tokens = 8; }, "sm90_score_h64_plain"},
        {[](Index& c) { c.desc.score.flags = LIDX_FLAG_CAUSAL; }, "sm90_decode_h64"},
        {[](Index& c) { c.desc.score.visibility = LIDX_SEE_ROW_LENGTH; }, "sm90_score_h64"},
        {[](Index& c) { c.desc.score.score_type = LIDX_BF16; }, "sm90_score_h64"},
        {[](Index& c) { c.desc.score.flags = LIDX_FLAG_FAST; }, "sm90_decode_h64"},
        {[](Index& c) {
             c.desc.score.flags = LIDX_FLAG_FAST | LIDX_FLAG_CAUSAL;
             c.desc.score.batch = 1, c.desc.score.max_rows = c.desc.score.max_tokens = 12;
             c.args.workspace_bytes = 12 * 4096;
         },
         "sm90_fast_h64"},
    };
    for (const auto& row : rows) {
        Fixture f(90);
        Index c;
        row.change(c);
        REQUIRE(c.run(f) == LIDX_OK);
        REQUIRE(fake().launch_count == 2);
        CHECK(std::string(fake().launches[0].function) == row.scorer);
        CHECK(fake().launches[0].params.fill_columns == lidx::kFillIllegalKeys);   // illegal pages are -inf
    }
}

TEST_CASE("index: what is wrong is named") {
    using Spoil = void (*)(Index&);
    const struct {
        Spoil spoil;
        lidx_status status;
        const char* part;
    } rows[] = {
        {[](Index& c) { c.desc.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "lidx_index_desc.struct_size = 8"},
        {[](Index& c) { c.desc.score.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "lidx_index_desc.score.struct_size = 8"},
        {[](Index& c) { c.args.struct_size = 8; }, LIDX_ERR_STRUCT_SIZE, "; call lidx_index_args_init"},
        {[](Index& c) { c.desc.score.flags = LIDX_FLAG_FILL; }, LIDX_ERR_VALUE, "LIDX_FLAG_FILL"},
        {[](Index& c) { c.desc.score.score_stride = 1000; }, LIDX_ERR_VALUE,
         "score.score_stride = 1000: must be 0"},
        {[](Index& c) { c.desc.score.max_keys = INT64_MAX; }, LIDX_ERR_VALUE, ": score.max_keys = 9223372036854775807"},
        {[](Index& c) { c.desc.score.score_type = LIDX_FP16; }, LIDX_ERR_VALUE, ": score.score_type = 2"},
        {[](Index& c) { c.desc.score.flags = 64; }, LIDX_ERR_VALUE, ": score.flags = 0x40: may hold"},
        {[](Index& c) { c.desc.score.batch = -1; }, LIDX_ERR_VALUE, ": score.batch = -1"},
        {[](Index& c) { c.desc.score.flags = LIDX_FLAG_CAUSAL, c.desc.score.visibility = LIDX_SEE_WINDOW; },
         LIDX_ERR_VALUE, ": score.flags = 0x2 has LIDX_FLAG_CAUSAL: with score.visibility = 2"},
        {[](Index& c) { c.desc.score.page_size = 0, c.desc.score.num_pages = 3; }, LIDX_ERR_VALUE,
         ": score.num_pages = 3 with score.page_size = 0: must be at least score.batch = 4"},
        {[](Index& c) { c.desc.score.k_page_stride = 8176; }, LIDX_ERR_VALUE,
         ": score.k_page_stride = 8176: must be at least 8192 = score.page_size * 128 bytes"},
        {[](Index& c) { c.desc.score.weight_stride = 63; }, LIDX_ERR_VALUE,
         ": score.weight_stride = 63: must be 64 .. "},
        {[](Index& c) { c.desc.score.block_table_stride = INT64_MAX; }, LIDX_ERR_VALUE,
         ": score.block_table_stride = 9223372036854775807 with score.batch = 4: 4 * score.batch * "
         "score.block_table_stride must be below"},
        {[](Index& c) { c.desc.score.score_columns = 999; }, LIDX_ERR_VALUE,
         ": score.score_columns = 999: must be 0 or at least score.max_keys = 1000"},
        {[](Index& c) { c.desc.score.heads = 129; }, LIDX_ERR_UNSUPPORTED, "no kernel serves score.heads = 129"},
        {[](Index& c) { c.desc.score.kernel = "none"; }, LIDX_ERR_VALUE, ": score.kernel = \"none\" does not exist"},
        {[](Index& c) { c.desc.score.kernel = "sm100_score_h32"; }, LIDX_ERR_UNSUPPORTED,
         ": score.kernel = sm100_score_h32 does not serve score.heads = 64"},
        {[](Index& c) { c.desc.score.page_size = 0, c.desc.index_kind = LIDX_INDEX_PHYSICAL,
                        c.desc.score.k_page_stride = c.desc.score.k_scale_page_stride = 128000; },
         LIDX_ERR_VALUE, ": score.page_size = 0: must be 1 .. 2147483647 with LIDX_INDEX_PHYSICAL"},
        {[](Index& c) { c.desc.index_stride = INT64_MAX / 8; }, LIDX_ERR_VALUE,
         ": index_stride = 1152921504606846975 with score.max_rows = 8: 4 * score.max_rows * index_stride must be"},
        {[](Index& c) { c.desc.k = 0; }, LIDX_ERR_VALUE, "k = 0: must be 1 .. 4096"},
        {[](Index& c) { c.desc.reserved = 1; }, LIDX_ERR_VALUE, ": reserved = 1: must be 0"},
        {[](Index& c) { c.desc.score.reserved = 1; }, LIDX_ERR_VALUE, ": score.reserved = 1: must be 0"},
        {[](Index& c) { c.desc.score.score_columns = 8388481; }, LIDX_ERR_VALUE,
         ": score.score_columns = 8388481: must be 0 .. 8388480"},
        {[](Index& c) { c.desc.workspace_budget_bytes = 4095; }, LIDX_ERR_VALUE,
         "workspace_budget_bytes = 4095: one row of score.max_keys = 1000 needs 4096"},
        {[](Index& c) { c.args.workspace = nullptr; }, LIDX_ERR_WORKSPACE, "workspace is null: the plan needs 32768"},
        {[](Index& c) { c.args.workspace_bytes = 5; }, LIDX_ERR_WORKSPACE, "workspace_bytes = 5"},
        {[](Index& c) { c.args.indices = nullptr; }, LIDX_ERR_NULL, "indices is null"},
        {[](Index& c) { c.args.q = nullptr; }, LIDX_ERR_NULL, "q is null"},
        {[](Index& c) { c.args.offsets = c.args.indices; }, LIDX_ERR_VALUE,
         "offsets is not null: the plan's index_kind is not LIDX_INDEX_OFFSET"},
        {[](Index& c) { c.args.row_begin = c.args.q; }, LIDX_ERR_VALUE,
         "row_begin is not null: the plan's score.visibility is not LIDX_SEE_WINDOW"},
        {[](Index& c) { c.args.q_scale2 = c.args.q; }, LIDX_ERR_VALUE,
         "q_scale2 is not null: the plan's score.weight2_stride = 0"},
    };
    for (const auto& row : rows) {
        Fixture f;
        Index c;
        row.spoil(c);
        f.refused(c.run(f), row.status, row.part);
    }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Bad input at the C ABI, one row each: the status, words of the message, and outputs left as they were.
#include "catch_any.h"

#include <lidx.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fake_driver.h"
#include "good_calls.h"

namespace {

constexpr unsigned char kCanary = 0xa5;

lidx_context* open_fake(int major) {
    fake_reset();
    fake().major = major;
    const std::string path = fake_driver_path();
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.driver_path = path.c_str();
    config.device = 0;
    lidx_context* context = nullptr;
    REQUIRE(lidx_open(&config, &context) == LIDX_OK);
    return context;
}

struct Fixture {
    lidx_context* context;
    explicit Fixture(int major = 10) : context(open_fake(major)) {}
    ~Fixture() { lidx_close(context); }
    Fixture(const Fixture&) = delete;
    Fixture& operator=(const Fixture&) = delete;
};

void check_message(const lidx_context* context, const std::string& part) {
    const std::string message = lidx_last_error(context);
    CAPTURE(message, part);
    CHECK(message.find(part) != std::string::npos);
}

// Overwrites what a struct holds beyond its size field; a failing call must leave it so.
template <typename Struct>
Struct canary_struct(size_t struct_size) {
    Struct value;
    std::memset(&value, kCanary, sizeof(value));
    value.struct_size = struct_size;
    return value;
}
template <typename Struct>
bool untouched(const Struct& value, size_t struct_size) {
    const Struct expected = canary_struct<Struct>(struct_size);
    return std::memcmp(&value, &expected, sizeof(value)) == 0;
}

using good_calls::address;
using good_calls::score_desc;

lidx_score_desc contiguous_desc() {
    lidx_score_desc desc = score_desc();
    desc.page_size = 0;
    desc.num_pages = 2;
    desc.k_page_stride = 1000 * 128;
    desc.k_scale_page_stride = 1000 * 4;
    desc.block_table_stride = 0;
    return desc;
}

constexpr int64_t kTwoTo40 = int64_t{1} << 40;

struct DescRow {
    const char* name;
    void (*change)(lidx_score_desc&);
    lidx_status status;
    const char* part;
};

// Refused by lidx_plan_create and by lidx_supports alike.
const DescRow kInvalidDescs[] = {
    {"size 0", [](lidx_score_desc& d) { d.struct_size = 0; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_score_desc.struct_size = 0: this version expects 168"},
    {"older version", [](lidx_score_desc& d) { d.struct_size -= 8; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_score_desc.struct_size = 160: this version expects 168"},
    {"newer version", [](lidx_score_desc& d) { d.struct_size += 8; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_score_desc.struct_size = 176: this version expects 168"},
    {"unknown flag", [](lidx_score_desc& d) { d.flags = 65; }, LIDX_ERR_VALUE,
     "flags = 0x41: may hold LIDX_FLAG_CHECK, _CAUSAL, _FILL, _RELATIVE_COLUMNS, _PDL and _FAST, the bits of 0x3f"},
    {"row map", [](lidx_score_desc& d) { d.row_map = 3; }, LIDX_ERR_VALUE, "row_map = 3: must be 0 .. 2"},
    {"row map < 0", [](lidx_score_desc& d) { d.row_map = -1; }, LIDX_ERR_VALUE, "row_map = -1: must be 0 .. 2"},
    {"visibility", [](lidx_score_desc& d) { d.visibility = 3; }, LIDX_ERR_VALUE, "visibility = 3: must be 0 .. 2"},
    {"causal rows of their own",
     [](lidx_score_desc& d) {
         d.flags = LIDX_FLAG_CAUSAL;
         d.visibility = LIDX_SEE_ROW_LENGTH;
     },
     LIDX_ERR_VALUE, "flags = 0x2 has LIDX_FLAG_CAUSAL: with visibility = 1"},
    {"length type", [](lidx_score_desc& d) { d.length_type = 2; }, LIDX_ERR_VALUE, "length_type = 2: must be 0 .. 1"},
    {"ratio < 0", [](lidx_score_desc& d) { d.compress_ratio = -1; }, LIDX_ERR_VALUE,
     "compress_ratio = -1: must be 0 .. 512"},
    {"ratio", [](lidx_score_desc& d) { d.compress_ratio = 513; }, LIDX_ERR_VALUE,
     "compress_ratio = 513: must be 0 .. 512"},
    {"ratio of windows",
     [](lidx_score_desc& d) {
         d.visibility = LIDX_SEE_WINDOW;
         d.compress_ratio = 2;
     },
     LIDX_ERR_VALUE, "compress_ratio = 2: must be 0 .. 1"},
    {"max_sms < 0", [](lidx_score_desc& d) { d.max_sms = -1; }, LIDX_ERR_VALUE, "max_sms = -1: must be 0 .."},
    {"scale pages < 0", [](lidx_score_desc& d) { d.scale_num_pages = -1; }, LIDX_ERR_VALUE,
     "scale_num_pages = -1: must be 0 .. 2147483647"},
    {"scale pool overflow",
     [](lidx_score_desc& d) {
         d.scale_num_pages = INT32_MAX;
         d.k_scale_page_stride = kTwoTo40 - 16;
     },
     LIDX_ERR_VALUE, "k_scale_page_stride = 1099511627760 with scale_num_pages = 2147483647"},
    {"scale table stride < 0", [](lidx_score_desc& d) { d.scale_block_table_stride = -1; }, LIDX_ERR_VALUE,
     "scale_block_table_stride = -1: must be 0 .."},
    {"scale table overflow", [](lidx_score_desc& d) { d.scale_block_table_stride = INT64_MAX / 4; }, LIDX_ERR_VALUE,
     "scale_block_table_stride = 2305843009213693951 with batch = 2"},
    {"weight type", [](lidx_score_desc& d) { d.weight_type = 2; }, LIDX_ERR_VALUE, "weight_type = 2: must be 0 .. 1"},
    {"weight2 type", [](lidx_score_desc& d) { d.weight2_type = -1; }, LIDX_ERR_VALUE,
     "weight2_type = -1: must be 0 .. 1"},
    {"weight stride < heads", [](lidx_score_desc& d) { d.weight_stride = 63; }, LIDX_ERR_VALUE,
     "weight_stride = 63: must be 64 .."},
    {"weight2 stride < heads", [](lidx_score_desc& d) { d.weight2_stride = 1; }, LIDX_ERR_VALUE,
     "weight2_stride = 1: must be 64 .."},
    {"weights overflow", [](lidx_score_desc& d) { d.weight2_stride = INT64_MAX / 8; }, LIDX_ERR_VALUE,
     "weight2_stride = 1152921504606846975 with max_rows = 8"},
    {"score type", [](lidx_score_desc& d) { d.score_type = 2; }, LIDX_ERR_VALUE, "score_type = 2: must be 0 .. 1"},
    {"reserved", [](lidx_score_desc& d) { d.reserved = 1; }, LIDX_ERR_VALUE, "reserved = 1: must be 0"},
    {"columns < 0", [](lidx_score_desc& d) { d.score_columns = -1; }, LIDX_ERR_VALUE, "score_columns = -1: must be 0"},
    {"columns < keys", [](lidx_score_desc& d) { d.score_columns = 999; }, LIDX_ERR_VALUE,
     "score_columns = 999: must be 0 or at least max_keys = 1000 without LIDX_FLAG_RELATIVE_COLUMNS"},
    {"columns > grid", [](lidx_score_desc& d) { d.score_columns = 65535 * 128 + 1; }, LIDX_ERR_VALUE,
     "score_columns = 8388481: must be 0 .. 8388480"},
    {"columns > stride", [](lidx_score_desc& d) { d.score_columns = 1025; }, LIDX_ERR_VALUE,
     "score_stride = 1024: must be at least score_columns = 1025"},
    {"contiguous with a scale table",
     [](lidx_score_desc& d) {
         d = contiguous_desc();
         d.scale_block_table_stride = 1;
     },
     LIDX_ERR_VALUE, "scale_block_table_stride = 1: must be 0"},
    {"contiguous, too few scales",
     [](lidx_score_desc& d) {
         d = contiguous_desc();
         d.scale_num_pages = 1;
     },
     LIDX_ERR_VALUE, "scale_num_pages = 1 with page_size = 0: must be 0 or at least batch = 2"},
    {"batch < 0", [](lidx_score_desc& d) { d.batch = -1; }, LIDX_ERR_VALUE, "batch = -1: must be 0 .. 65536"},
    {"batch > limit", [](lidx_score_desc& d) { d.batch = 65537; }, LIDX_ERR_VALUE, "batch = 65537: must be 0 .. 65536"},
    {"batch INT_MIN", [](lidx_score_desc& d) { d.batch = INT_MIN; }, LIDX_ERR_VALUE, "batch = -2147483648"},
    {"rows < 0", [](lidx_score_desc& d) { d.max_rows = -1; }, LIDX_ERR_VALUE, "max_rows = -1: must be 0 .."},
    {"tokens < 0", [](lidx_score_desc& d) { d.max_tokens = -5; }, LIDX_ERR_VALUE, "max_tokens = -5: must be 0 .."},
    {"heads 0", [](lidx_score_desc& d) { d.heads = 0; }, LIDX_ERR_VALUE, "heads = 0: must be 1 .."},
    {"heads < 0", [](lidx_score_desc& d) { d.heads = -64; }, LIDX_ERR_VALUE, "heads = -64: must be 1 .."},
    {"depth 0", [](lidx_score_desc& d) { d.depth = 0; }, LIDX_ERR_VALUE, "depth = 0: must be 1 .."},
    {"depth < 0", [](lidx_score_desc& d) { d.depth = -128; }, LIDX_ERR_VALUE, "depth = -128: must be 1 .."},
    {"keys < 0", [](lidx_score_desc& d) { d.max_keys = -1; }, LIDX_ERR_VALUE, "max_keys = -1: must be 0 .. 8388480"},
    {"keys > grid", [](lidx_score_desc& d) { d.max_keys = d.score_stride = 65535 * 128 + 1; }, LIDX_ERR_VALUE,
     "max_keys = 8388481: must be 0 .. 8388480"},
    {"keys INT64_MAX", [](lidx_score_desc& d) { d.max_keys = d.score_stride = INT64_MAX; }, LIDX_ERR_VALUE,
     "max_keys = 9223372036854775807"},
    {"page < 0", [](lidx_score_desc& d) { d.page_size = -64; }, LIDX_ERR_VALUE, "page_size = -64: must be 0 .."},
    {"pages 0", [](lidx_score_desc& d) { d.num_pages = 0; }, LIDX_ERR_VALUE, "num_pages = 0: must be 1 .. 2147483647"},
    {"pages < 0", [](lidx_score_desc& d) { d.num_pages = -1; }, LIDX_ERR_VALUE, "num_pages = -1: must be 1 .."},
    {"pages 2^31", [](lidx_score_desc& d) { d.num_pages = int64_t{1} << 31; }, LIDX_ERR_VALUE,
     "num_pages = 2147483648: must be 1 .. 2147483647"},
    {"page stride < page", [](lidx_score_desc& d) { d.k_page_stride = 64 * 128 - 16; }, LIDX_ERR_VALUE,
     "k_page_stride = 8176: must be at least 8192 = page_size * 128"},
    {"page stride 0", [](lidx_score_desc& d) { d.k_page_stride = 0; }, LIDX_ERR_VALUE,
     "k_page_stride = 0: must be at least 8192"},
    {"page stride < 0", [](lidx_score_desc& d) { d.k_page_stride = -8448; }, LIDX_ERR_VALUE,
     "k_page_stride = -8448: must be at least 8192"},
    {"page stride odd", [](lidx_score_desc& d) { d.k_page_stride = 8448 + 8; }, LIDX_ERR_ALIGNMENT,
     "k_page_stride = 8456: must be a multiple of 16"},
    {"page stride 2^40", [](lidx_score_desc& d) { d.k_page_stride = kTwoTo40; }, LIDX_ERR_VALUE,
     "k_page_stride = 1099511627776: must be 0 .. 1099511627775"},
    {"pool overflow",
     [](lidx_score_desc& d) {
         d.num_pages = INT32_MAX;
         d.k_page_stride = kTwoTo40 - 16;
     },
     LIDX_ERR_VALUE, "k_page_stride = 1099511627760 with num_pages = 2147483647"},
    {"page of 2^31 keys", [](lidx_score_desc& d) { d.page_size = INT32_MAX; }, LIDX_ERR_VALUE,
     "k_page_stride = 8448: must be at least 274877906816"},
    {"page and depth of 2^31",
     [](lidx_score_desc& d) {
         d.page_size = INT32_MAX;
         d.depth = INT32_MAX;
     },
     LIDX_ERR_VALUE, "must be at least 4611686014132420609"},
    {"scale stride < page", [](lidx_score_desc& d) { d.k_scale_page_stride = 252; }, LIDX_ERR_VALUE,
     "k_scale_page_stride = 252: must be at least 256 = page_size * 4"},
    {"scale stride odd", [](lidx_score_desc& d) { d.k_scale_page_stride = 258; }, LIDX_ERR_ALIGNMENT,
     "k_scale_page_stride = 258: must be a multiple of 4"},
    {"scale stride < 0", [](lidx_score_desc& d) { d.k_scale_page_stride = INT64_MIN; }, LIDX_ERR_VALUE,
     "k_scale_page_stride = -9223372036854775808"},
    {"table stride 0", [](lidx_score_desc& d) { d.block_table_stride = 0; }, LIDX_ERR_VALUE,
     "block_table_stride = 0: must be 1 .."},
    {"table stride < 0", [](lidx_score_desc& d) { d.block_table_stride = -1; }, LIDX_ERR_VALUE,
     "block_table_stride = -1: must be 1 .."},
    {"table overflow", [](lidx_score_desc& d) { d.block_table_stride = INT64_MAX / 4; }, LIDX_ERR_VALUE,
     "block_table_stride = 2305843009213693951 with batch = 2"},
    {"score stride < keys", [](lidx_score_desc& d) { d.score_stride = 999; }, LIDX_ERR_VALUE,
     "score_stride = 999: must be at least max_keys = 1000"},
    {"score stride < 0", [](lidx_score_desc& d) { d.score_stride = -1; }, LIDX_ERR_VALUE, "score_stride = -1"},
    {"scores overflow", [](lidx_score_desc& d) { d.score_stride = INT64_MAX / 8; }, LIDX_ERR_VALUE,
     "score_stride = 1152921504606846975 with max_rows = 8"},
    {"contiguous, too few requests",
     [](lidx_score_desc& d) {
         d = contiguous_desc();
         d.num_pages = 1;
     },
     LIDX_ERR_VALUE, "num_pages = 1 with page_size = 0: must be at least batch = 2"},
    {"contiguous, stride < keys",
     [](lidx_score_desc& d) {
         d = contiguous_desc();
         d.k_page_stride -= 16;
     },
     LIDX_ERR_VALUE, "k_page_stride = 127984: must be at least 128000 = max_keys * 128"},
    {"contiguous, scale stride < keys",
     [](lidx_score_desc& d) {
         d = contiguous_desc();
         d.k_scale_page_stride -= 4;
     },
     LIDX_ERR_VALUE, "k_scale_page_stride = 3996: must be at least 4000 = max_keys * 4"},
};

// Valid descriptions that nothing serves: lidx_plan_create fails, lidx_supports says so.
const DescRow kUnserved[] = {
    {"129 heads", [](lidx_score_desc& d) { d.heads = 129; }, LIDX_ERR_UNSUPPORTED,
     "no kernel serves heads = 129, depth = 128, page_size = 64 on compute capability 10.0; there are "
     "sm100_score (heads 4"},
    {"2^31 heads", [](lidx_score_desc& d) { d.heads = INT_MAX; }, LIDX_ERR_UNSUPPORTED, "heads = 2147483647"},
    {"depth 100", [](lidx_score_desc& d) { d.depth = 100; }, LIDX_ERR_UNSUPPORTED,
     "generic_score (heads 1 to 128, depth a multiple of 16 up to 128, any page size"},
    {"depth 144",
     [](lidx_score_desc& d) {
         d.depth = 144;
         d.k_page_stride = 64 * 148;
     },
     LIDX_ERR_UNSUPPORTED, "depth = 144"},
    {"unknown kernel", [](lidx_score_desc& d) { d.kernel = "sm100_score_h256"; }, LIDX_ERR_VALUE,
     "kernel = \"sm100_score_h256\" does not exist; there are sm100_wide_{h64, h32}, sm100_score_{h64, h64_t1, "},
    {"empty kernel", [](lidx_score_desc& d) { d.kernel = ""; }, LIDX_ERR_VALUE, "kernel = \"\" does not exist"},
    {"kernel of other heads", [](lidx_score_desc& d) { d.kernel = "sm100_score_h32"; }, LIDX_ERR_UNSUPPORTED,
     "kernel = sm100_score_h32 does not serve heads = 64, depth = 128, page_size = 64: it needs heads 32"},
    {"kernel of other pages",
     [](lidx_score_desc& d) {
         d.kernel = "sm100_score_h64";
         d.page_size = 40;
     },
     LIDX_ERR_UNSUPPORTED, "page_size = 40: it needs page_size 0 or a multiple of 16"},
};

}  // namespace

TEST_CASE("bad input: descriptions outside the limits") {
    const Fixture fixture;
    for (const DescRow& row : kInvalidDescs) {
        CAPTURE(row.name);
        lidx_score_desc desc = score_desc();
        row.change(desc);
        auto* plan = address<lidx_plan>(0x1234);
        CHECK(lidx_plan_create(fixture.context, &desc, &plan) == row.status);
        check_message(fixture.context, std::string("lidx_plan_create: "));
        check_message(fixture.context, row.part);
        CHECK(plan == address<lidx_plan>(0x1234));
        auto support = canary_struct<lidx_support>(sizeof(lidx_support));
        CHECK(lidx_supports(fixture.context, &desc, &support) == row.status);
        check_message(fixture.context, row.part);
        CHECK(untouched(support, sizeof(lidx_support)));
        CHECK(lidx_driver_error(fixture.context) == 0);
    }
    lidx_score_desc desc = score_desc();
    lidx_plan* plan = nullptr;
    CHECK(lidx_plan_create(fixture.context, &desc, &plan) == LIDX_OK);  // what the rows change was good before
    lidx_plan_destroy(plan);
    desc = contiguous_desc();
    CHECK(lidx_plan_create(fixture.context, &desc, &plan) == LIDX_OK);
    lidx_plan_destroy(plan);
}

TEST_CASE("bad input: shapes without a kernel") {
    const Fixture fixture;
    for (const DescRow& row : kUnserved) {
        CAPTURE(row.name);
        lidx_score_desc desc = score_desc();
        row.change(desc);
        auto* plan = address<lidx_plan>(0x1234);
        CHECK(lidx_plan_create(fixture.context, &desc, &plan) == row.status);
        check_message(fixture.context, row.part);
        CHECK(plan == address<lidx_plan>(0x1234));
        auto support = canary_struct<lidx_support>(sizeof(lidx_support));
        REQUIRE(lidx_supports(fixture.context, &desc, &support) == LIDX_OK);
        CHECK(support.symbol == nullptr);
        CHECK(support.arithmetic == 0);
        CHECK(std::string(support.reason).find(row.part) != std::string::npos);
    }
    lidx_score_desc desc = score_desc();
    std::string endless(100000, 'k');
    desc.kernel = endless.c_str();
    lidx_plan* plan = nullptr;
    CHECK(lidx_plan_create(fixture.context, &desc, &plan) == LIDX_ERR_VALUE);
    check_message(fixture.context, "does not exist; there are sm100_wide_{h64, h32}, sm100_score_{h64");
}

TEST_CASE("bad input: limits themselves are accepted") {
    const Fixture fixture;
    const struct {
        const char* name;
        void (*change)(lidx_score_desc&);
    } rows[] = {
        {"batch", [](lidx_score_desc& d) { d.batch = 65536; }},
        {"rows", [](lidx_score_desc& d) { d.max_rows = INT_MAX; }},
        {"tokens", [](lidx_score_desc& d) { d.max_tokens = INT_MAX; }},
        {"keys", [](lidx_score_desc& d) { d.max_keys = d.score_stride = 65535 * 128; }},
        {"pages", [](lidx_score_desc& d) { d.num_pages = INT_MAX; }},
        {"page stride", [](lidx_score_desc& d) { d.k_page_stride = kTwoTo40 - 16; }},
        {"exact page stride", [](lidx_score_desc& d) { d.k_page_stride = 8192, d.k_scale_page_stride = 256; }},
        {"exact score stride", [](lidx_score_desc& d) { d.score_stride = 1000; }},
        {"heads", [](lidx_score_desc& d) { d.heads = 128; }},
        {"one head", [](lidx_score_desc& d) { d.heads = 1; }},
        {"depth", [](lidx_score_desc& d) { d.depth = 16; }},
        {"page of one key", [](lidx_score_desc& d) { d.page_size = 1; }},
        {"check", [](lidx_score_desc& d) { d.flags = LIDX_FLAG_CHECK; }},
        {"PDL", [](lidx_score_desc& d) { d.flags = LIDX_FLAG_PDL; }},
        {"request ids", [](lidx_score_desc& d) { d.row_map = LIDX_ROWS_REQUEST_IDS; }},
        {"ratio", [](lidx_score_desc& d) { d.compress_ratio = 512; }},
        {"int64", [](lidx_score_desc& d) { d.length_type = LIDX_INT64; }},
        {"columns", [](lidx_score_desc& d) { d.score_columns = 1024; }},
        {"weight stride", [](lidx_score_desc& d) { d.weight_stride = 64; }},
        {"scale pages", [](lidx_score_desc& d) { d.scale_num_pages = 40; }},
    };
    for (const auto& row : rows) {
        CAPTURE(row.name);
        lidx_score_desc desc = score_desc();
        row.change(desc);
        lidx_plan* plan = nullptr;
        const lidx_status status = lidx_plan_create(fixture.context, &desc, &plan);
        CAPTURE(lidx_last_error(fixture.context));
        CHECK(status == LIDX_OK);
        lidx_plan_destroy(plan);
    }
}

TEST_CASE("bad input: enqueue arguments") {
    const Fixture fixture;
    struct Row {
        const char* name;
        void (*change)(lidx_score_args&);
        lidx_status status;
        const char* part;
    };
    const auto run = [&](const lidx_score_desc& desc, const lidx_score_args& good, const std::vector<Row>& rows) {
        lidx_plan* plan = nullptr;
        REQUIRE(lidx_plan_create(fixture.context, &desc, &plan) == LIDX_OK);
        for (const Row& row : rows) {
            CAPTURE(row.name);
            lidx_score_args args = good;
            row.change(args);
            CHECK(lidx_score_enqueue(fixture.context, plan, &args, nullptr) == row.status);
            check_message(fixture.context, row.part);
        }
        CHECK(fake().launch_count == 0);
        CHECK(fake().stack_depth == 0);
        CHECK(lidx_score_enqueue(fixture.context, plan, &good, nullptr) == LIDX_OK);
        CHECK(fake().launch_count == 1);
        fake().launch_count = 0;
        lidx_plan_destroy(plan);
    };

    lidx_score_args good = good_calls::score_args();
    run(score_desc(), good,
        {
            {"size 0", [](lidx_score_args& a) { a.struct_size = 0; }, LIDX_ERR_STRUCT_SIZE,
             "lidx_score_args.struct_size = 0: this version expects 128"},
            {"newer", [](lidx_score_args& a) { a.struct_size = 136; }, LIDX_ERR_STRUCT_SIZE, "struct_size = 136"},
            {"q", [](lidx_score_args& a) { a.q = nullptr; }, LIDX_ERR_NULL, "q is null"},
            {"q_scale", [](lidx_score_args& a) { a.q_scale = nullptr; }, LIDX_ERR_NULL, "q_scale is null"},
            {"k_base", [](lidx_score_args& a) { a.k_base = nullptr; }, LIDX_ERR_NULL, "k_base is null"},
            {"k_scale", [](lidx_score_args& a) { a.k_scale_base = nullptr; }, LIDX_ERR_NULL, "k_scale_base is null"},
            {"table", [](lidx_score_args& a) { a.block_table = nullptr; }, LIDX_ERR_NULL, "block_table is null"},
            {"lens", [](lidx_score_args& a) { a.context_lens = nullptr; }, LIDX_ERR_NULL, "context_lens is null"},
            {"cu", [](lidx_score_args& a) { a.cu_seqlens_q = nullptr; }, LIDX_ERR_NULL, "cu_seqlens_q is null"},
            {"scores", [](lidx_score_args& a) { a.scores = nullptr; }, LIDX_ERR_NULL, "scores is null"},
            {"q odd", [](lidx_score_args& a) { a.q = address<void>(0x10008); }, LIDX_ERR_ALIGNMENT,
             "q = address 0x10008: must be a multiple of 16"},
            {"q_scale odd", [](lidx_score_args& a) { a.q_scale = address<char>(0x20002); }, LIDX_ERR_ALIGNMENT,
             "q_scale = address 0x20002: must be a multiple of 4"},
            {"k odd", [](lidx_score_args& a) { a.k_base = address<void>(0x30001); }, LIDX_ERR_ALIGNMENT,
             "k_base = address 0x30001: must be a multiple of 16"},
            {"k_scale odd", [](lidx_score_args& a) { a.k_scale_base = address<void>(0x30002); }, LIDX_ERR_ALIGNMENT,
             "k_scale_base = address 0x30002: must be a multiple of 4"},
            {"table odd", [](lidx_score_args& a) { a.block_table = address<int32_t>(0x40001); }, LIDX_ERR_ALIGNMENT,
             "block_table = address"},
            {"lens odd", [](lidx_score_args& a) { a.context_lens = address<int32_t>(0x50002); }, LIDX_ERR_ALIGNMENT,
             "context_lens = address"},
            {"cu odd", [](lidx_score_args& a) { a.cu_seqlens_q = address<int32_t>(0x60003); }, LIDX_ERR_ALIGNMENT,
             "cu_seqlens_q = address"},
            {"scores odd", [](lidx_score_args& a) { a.scores = address<float>(0x70001); }, LIDX_ERR_ALIGNMENT,
             "scores = address"},
        });

    // Each pointer that a plan has no use for must be null; each that it needs must not be.
    run(score_desc(), good,
        {
            {"factor", [](lidx_score_args& a) { a.q_scale2 = address<float>(0x90000); }, LIDX_ERR_VALUE,
             "q_scale2 is not null: the plan's weight2_stride = 0"},
            {"scale table", [](lidx_score_args& a) { a.scale_block_table = address<int32_t>(0x90000); }, LIDX_ERR_VALUE,
             "scale_block_table is not null: the plan's scale_block_table_stride = 0"},
            {"begin", [](lidx_score_args& a) { a.row_begin = address<int32_t>(0x90000); }, LIDX_ERR_VALUE,
             "row_begin is not null: the plan's visibility is not LIDX_SEE_WINDOW"},
            {"end", [](lidx_score_args& a) { a.row_end = address<int32_t>(0x90000); }, LIDX_ERR_VALUE,
             "row_end is not null: the plan's visibility is not LIDX_SEE_WINDOW"},
            {"ids", [](lidx_score_args& a) { a.row_requests = address<int32_t>(0x90000); }, LIDX_ERR_VALUE,
             "row_requests is not null: the plan's row_map is not LIDX_ROWS_REQUEST_IDS"},
        });
    lidx_score_desc fixed = score_desc();
    fixed.row_map = LIDX_ROWS_FIXED;
    good.cu_seqlens_q = nullptr;
    run(fixed, good,
        {{"cu", [](lidx_score_args& a) { a.cu_seqlens_q = address<int32_t>(0x60000); }, LIDX_ERR_VALUE,
          "cu_seqlens_q is not null: the plan's row_map is not LIDX_ROWS_CU_SEQLENS"}});
    lidx_score_desc ids = score_desc();
    ids.row_map = LIDX_ROWS_REQUEST_IDS;
    ids.length_type = LIDX_INT64;
    good.row_requests = address<int32_t>(0x60000);
    run(ids, good,
        {{"no ids", [](lidx_score_args& a) { a.row_requests = nullptr; }, LIDX_ERR_NULL, "row_requests is null"},
         {"int64", [](lidx_score_args& a) { a.context_lens = address<int32_t>(0x50004); }, LIDX_ERR_ALIGNMENT,
          "context_lens = address 0x50004: must be a multiple of 8"}});
    good = good_calls::score_args();

    lidx_score_desc checked = score_desc();
    checked.flags = LIDX_FLAG_CHECK;
    good.workspace = address<void>(0x80000);
    good.workspace_bytes = 16;
    run(checked, good,
        {
            {"none", [](lidx_score_args& a) { a.workspace = nullptr; }, LIDX_ERR_WORKSPACE,
             "workspace is null: the plan needs 16 bytes"},
            {"small", [](lidx_score_args& a) { a.workspace_bytes = 15; }, LIDX_ERR_WORKSPACE,
             "workspace_bytes = 15: the plan needs 16"},
            {"empty", [](lidx_score_args& a) { a.workspace_bytes = 0; }, LIDX_ERR_WORKSPACE, "workspace_bytes = 0"},
            {"odd", [](lidx_score_args& a) { a.workspace = address<void>(0x80004); }, LIDX_ERR_ALIGNMENT,
             "workspace = address 0x80004: must be a multiple of 16"},
        });

    good = good_calls::score_args();
    good.block_table = nullptr;
    run(contiguous_desc(), good,
        {{"table", [](lidx_score_args& a) { a.block_table = address<int32_t>(0x40000); }, LIDX_ERR_VALUE,
          "block_table is not null: the plan's page_size = 0"}});
}

TEST_CASE("bad input: null arguments everywhere") {
    const Fixture fixture;
    lidx_context* const context = fixture.context;
    lidx_score_desc desc = score_desc();
    lidx_score_args args = good_calls::score_args();
    lidx_plan* plan = nullptr;
    REQUIRE(lidx_plan_create(context, &desc, &plan) == LIDX_OK);
    lidx_support support = {};
    support.struct_size = sizeof(support);
    lidx_device_info device = {};
    device.struct_size = sizeof(device);
    lidx_plan_info info = {};
    info.struct_size = sizeof(info);
    size_t bytes = 77;
    lidx_plan* out = nullptr;

    const auto null_of = [](lidx_status status, const lidx_context* reporter, const char* part) {
        CAPTURE(part);
        CHECK(status == LIDX_ERR_NULL);
        check_message(reporter, part);
    };
    null_of(lidx_config_init(nullptr), nullptr, "lidx_config_init: config is null");
    null_of(lidx_open(nullptr, nullptr), nullptr, "lidx_open: out is null");
    null_of(lidx_get_device_info(nullptr, &device), nullptr, "ctx is null");
    null_of(lidx_get_device_info(context, nullptr), context, "info is null");
    null_of(lidx_get_kernel_info(nullptr, 0, nullptr), nullptr, "info is null");
    null_of(lidx_score_desc_init(nullptr), nullptr, "desc is null");
    null_of(lidx_supports(nullptr, &desc, &support), nullptr, "ctx is null");
    null_of(lidx_supports(context, nullptr, &support), context, "desc is null");
    null_of(lidx_supports(context, &desc, nullptr), context, "support is null");
    null_of(lidx_plan_create(nullptr, &desc, &out), nullptr, "ctx is null");
    null_of(lidx_plan_create(context, nullptr, &out), context, "desc is null");
    null_of(lidx_plan_create(context, &desc, nullptr), context, "out is null");
    null_of(lidx_get_plan_info(nullptr, &info), nullptr, "plan is null");
    null_of(lidx_get_plan_info(plan, nullptr), nullptr, "info is null");
    null_of(lidx_plan_workspace_bytes(nullptr, &bytes), nullptr, "plan is null");
    null_of(lidx_plan_workspace_bytes(plan, nullptr), nullptr, "bytes is null");
    null_of(lidx_score_args_init(nullptr), nullptr, "args is null");
    null_of(lidx_score_enqueue(nullptr, plan, &args, nullptr), nullptr, "ctx is null");
    null_of(lidx_score_enqueue(context, nullptr, &args, nullptr), context, "plan is null");
    null_of(lidx_score_enqueue(context, plan, nullptr, nullptr), context, "args is null");
    CHECK(bytes == 77);
    CHECK(out == nullptr);
    lidx_plan_destroy(plan);
    lidx_plan_destroy(nullptr);
    lidx_close(nullptr);
}

TEST_CASE("bad input: structs from another version") {
    const Fixture fixture;
    const lidx_score_desc desc = score_desc();
    lidx_plan* plan = nullptr;
    REQUIRE(lidx_plan_create(fixture.context, &desc, &plan) == LIDX_OK);
    for (const int change : {-8, 8, INT_MIN}) {
        const auto size_of = [&](size_t size) {
            return change == INT_MIN ? size_t{0} : size + static_cast<size_t>(change);
        };
        CAPTURE(change);
        const auto wrong = [&](lidx_status status, const lidx_context* reporter, const std::string& type, size_t size) {
            CHECK(status == LIDX_ERR_STRUCT_SIZE);
            check_message(reporter, type + ".struct_size = " + std::to_string(size_of(size)) +
                                        ": this version expects " + std::to_string(size));
        };
        auto device = canary_struct<lidx_device_info>(size_of(sizeof(lidx_device_info)));
        wrong(lidx_get_device_info(fixture.context, &device), fixture.context, "lidx_device_info", sizeof(device));
        CHECK(untouched(device, size_of(sizeof(device))));
        auto kernel = canary_struct<lidx_kernel_info>(size_of(sizeof(lidx_kernel_info)));
        wrong(lidx_get_kernel_info(nullptr, 0, &kernel), nullptr, "lidx_kernel_info", sizeof(kernel));
        CHECK(untouched(kernel, size_of(sizeof(kernel))));
        auto support = canary_struct<lidx_support>(size_of(sizeof(lidx_support)));
        wrong(lidx_supports(fixture.context, &desc, &support), fixture.context, "lidx_support", sizeof(support));
        CHECK(untouched(support, size_of(sizeof(support))));
        auto info = canary_struct<lidx_plan_info>(size_of(sizeof(lidx_plan_info)));
        wrong(lidx_get_plan_info(plan, &info), nullptr, "lidx_plan_info", sizeof(info));
        CHECK(untouched(info, size_of(sizeof(info))));
        lidx_config config;
        REQUIRE(lidx_config_init(&config) == LIDX_OK);
        config.struct_size = size_of(sizeof(config));
        auto* context = address<lidx_context>(0x1234);
        wrong(lidx_open(&config, &context), nullptr, "lidx_config", sizeof(config));
        CHECK(context == nullptr);
    }
    lidx_plan_destroy(plan);
}

TEST_CASE("bad input: kernel index") {
    lidx_kernel_info info = canary_struct<lidx_kernel_info>(sizeof(lidx_kernel_info));
    const std::string limits = ": must be 0 .. " + std::to_string(lidx_kernel_count() - 1);
    for (const int32_t index : {-1, lidx_kernel_count(), INT32_MAX, INT32_MIN}) {
        CHECK(lidx_get_kernel_info(nullptr, index, &info) == LIDX_ERR_VALUE);
        check_message(nullptr, "index = " + std::to_string(index) + limits);
        CHECK(untouched(info, sizeof(info)));
    }
}

TEST_CASE("bad input: no driver, no device, no kernel for the device") {
    fake_reset();
    const std::string path = fake_driver_path();
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.device = 0;
    const auto fails = [&](lidx_status expected, const char* part) {
        auto* context = address<lidx_context>(0x1234);
        CAPTURE(part);
        CHECK(lidx_open(&config, &context) == expected);
        check_message(nullptr, part);
        CHECK(context == nullptr);
        CHECK(fake().retains == 0);
        CHECK(fake().modules_loaded == 0);
        CHECK(fake().stack_depth == 0);
    };
    config.driver_path = "/nonexistent/libcuda.so.1";
    fails(LIDX_ERR_NO_DRIVER, "'/nonexistent/libcuda.so.1' (lidx_config.driver_path) cannot be loaded");
    config.driver_path = "libc.so.6";
    fails(LIDX_ERR_NO_DRIVER, "lacks the symbol cuInit");
    // Where the caller did not choose the driver: how to do without a GPU.
    const char* emulator = "; LIDX_DRIVER=libptxemu.so in the environment runs in the emulator, without a GPU";
    CHECK(std::string(lidx_last_error(nullptr)).find(emulator) == std::string::npos);
    config.driver_path = nullptr;
    setenv("LIDX_DRIVER", "/nonexistent/libcuda.so.1", 1);
    fails(LIDX_ERR_NO_DRIVER, "'/nonexistent/libcuda.so.1' (LIDX_DRIVER) cannot be loaded");
    fails(LIDX_ERR_NO_DRIVER, emulator);
    setenv("LIDX_DRIVER", path.c_str(), 1);
    fake().init_result = CUDA_ERROR_NO_DEVICE;
    fails(LIDX_ERR_NO_DEVICE, emulator);
    fake().init_result = CUDA_SUCCESS;
    fake().device_count = 0;
    fails(LIDX_ERR_NO_DEVICE, emulator);
    fake().device_count = 1;
    unsetenv("LIDX_DRIVER");
    config.driver_path = path.c_str();

    fake().init_result = CUDA_ERROR_NO_DEVICE;
    fails(LIDX_ERR_NO_DEVICE, "cuInit: ");
    CHECK(lidx_driver_error(nullptr) == 100);
    fake().init_result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    fails(LIDX_ERR_NO_DRIVER, "cuInit: ");
    CHECK(lidx_driver_error(nullptr) == 803);
    fake().init_result = CUDA_SUCCESS;
    fake().device_count = 0;
    fails(LIDX_ERR_NO_DEVICE, "has no device");
    fake().device_count = 1;
    config.device = 1;
    fails(LIDX_ERR_NO_DEVICE, "device = 1: driver ");
    config.device = -2;
    fails(LIDX_ERR_VALUE, "device = -2: must be -1 (the current context) or a device ordinal");
    config.device = -1;
    fails(LIDX_ERR_NO_CONTEXT, "device = -1: no CUDA context is current in this thread");
    config.device = 0;
    config.flags = 1;
    fails(LIDX_ERR_VALUE, "flags = 0x1: must be 0");
    config.flags = 0;
    fake().major = 7;
    fake().minor = 5;
    fails(LIDX_ERR_NO_DEVICE, "has compute capability 7.5; there are sm100_score (heads 4, 8");
}

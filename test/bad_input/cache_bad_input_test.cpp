// SPDX-License-Identifier: Apache-2.0
// Bad input at the functions around the cache, one row each: the status, words of the message, nothing launched.
// And what is launched for good input, against a driver that records.
#include "catch_any.h"

#include <lidx.h>

#include <climits>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fake_driver.h"
#include "good_calls.h"
#include "refusal_fixture.h"

namespace {

using good_calls::address;
using refusal::Fixture;

struct Call : good_calls::CacheCalls {
    lidx_cache_desc desc;
    Call() {
        store.key_type = LIDX_BF16;
        query.q_type = LIDX_BF16;
        query.weights = address<void>(0x20000);
        REQUIRE(lidx_cache_desc_init(&desc) == LIDX_OK);
        desc.pool = &pool;
    }
};

struct Row {
    const char* name;
    void (*change)(Call&);
    lidx_status status;
    const char* part;
};

// Refused by store, gather and lidx_cache_create alike.
const Row kPools[] = {
    {"size", [](Call& c) { c.pool.struct_size = 48; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_pool.struct_size = 48: this version expects 56; call lidx_pool_init"},
    {"depth 0", [](Call& c) { c.pool.depth = 0; }, LIDX_ERR_VALUE, "depth = 0: must be 1 .."},
    {"depth 24", [](Call& c) { c.pool.depth = 24; }, LIDX_ERR_UNSUPPORTED, "depth = 24: "},
    {"depth 256", [](Call& c) { c.pool.depth = 256; }, LIDX_ERR_UNSUPPORTED, "depth = 256: "},
    {"page 0", [](Call& c) { c.pool.page_size = 0; }, LIDX_ERR_VALUE, "page_size = 0: must be 1 .."},
    {"page < 0", [](Call& c) { c.pool.page_size = INT_MIN; }, LIDX_ERR_VALUE, "page_size = -2147483648"},
    {"pages 0", [](Call& c) { c.pool.num_pages = 0; }, LIDX_ERR_VALUE, "num_pages = 0: must be 1 .. 2147483647"},
    {"pages 2^31", [](Call& c) { c.pool.num_pages = int64_t{1} << 31; }, LIDX_ERR_VALUE, "num_pages = 2147483648"},
    {"stride 8", [](Call& c) { c.pool.k_page_stride += 8; }, LIDX_ERR_ALIGNMENT,
     "k_page_stride = 8456: must be a multiple of 16"},
    {"stride small", [](Call& c) { c.pool.k_page_stride = 8176; }, LIDX_ERR_VALUE,
     "k_page_stride = 8176: must be at least 8192 = page_size * 128 bytes"},
    {"stride < 0", [](Call& c) { c.pool.k_page_stride = -16; }, LIDX_ERR_VALUE, "k_page_stride = -16"},
    {"stride 2^40", [](Call& c) { c.pool.k_page_stride = int64_t{1} << 40; }, LIDX_ERR_VALUE,
     "k_page_stride = 1099511"},
    {"scale stride 2", [](Call& c) { c.pool.k_scale_page_stride += 2; }, LIDX_ERR_ALIGNMENT,
     "k_scale_page_stride = 8450: must be a multiple of 4"},
    {"scale stride small", [](Call& c) { c.pool.k_scale_page_stride = 252; }, LIDX_ERR_VALUE,
     "k_scale_page_stride = 252: must be at least 256 = page_size * 4 bytes"},
    {"span", [](Call& c) { c.pool.k_page_stride = (int64_t{1} << 40) - 16, c.pool.num_pages = 1 << 24; },
     LIDX_ERR_VALUE, "num_pages * k_page_stride must be below 2^63"},
    {"no codes", [](Call& c) { c.pool.k_base = nullptr; }, LIDX_ERR_NULL, "k_base is null"},
    {"no scales", [](Call& c) { c.pool.k_scale_base = nullptr; }, LIDX_ERR_NULL, "k_scale_base is null"},
    {"codes at 8", [](Call& c) { c.pool.k_base = address<void>(0x30008); }, LIDX_ERR_ALIGNMENT,
     "k_base = address 0x30008: must be a multiple of 16"},
    {"scales at 2", [](Call& c) { c.pool.k_scale_base = address<void>(0x30002); }, LIDX_ERR_ALIGNMENT,
     "k_scale_base = address 0x30002: must be a multiple of 4"},
};

const Row kStores[] = {
    {"size", [](Call& c) { c.store.struct_size = 0; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_store_args.struct_size = 0: this version expects 72; call lidx_store_args_init"},
    {"flag", [](Call& c) { c.store.flags = 2; }, LIDX_ERR_VALUE, "flags = 0x2: may hold LIDX_FLAG_ROTATE"},
    {"round alone", [](Call& c) { c.store.flags = LIDX_FLAG_ROTATE_ROUND; }, LIDX_ERR_VALUE,
     "flags = 0x80000: LIDX_FLAG_ROTATE_ROUND needs LIDX_FLAG_ROTATE"},
    {"type 3", [](Call& c) { c.store.key_type = 3; }, LIDX_ERR_VALUE, "key_type = 3: must be LIDX_FP32 = 0"},
    {"type -1", [](Call& c) { c.store.key_type = -1; }, LIDX_ERR_VALUE, "key_type = -1"},
    {"rows < 0", [](Call& c) { c.store.rows = -1; }, LIDX_ERR_VALUE, "rows = -1: must be 0 .."},
    {"stride", [](Call& c) { c.store.key_stride = 127; }, LIDX_ERR_VALUE,
     "key_stride = 127: must be at least 128 = the pool's depth"},
    {"stride < 0", [](Call& c) { c.store.key_stride = INT64_MIN; }, LIDX_ERR_VALUE,
     "key_stride = -9223372036854775808"},
    {"span", [](Call& c) { c.store.key_stride = INT64_MAX / 2; }, LIDX_ERR_VALUE,
     "2 * rows * key_stride must be below"},
    {"depth 96", [](Call& c) { c.pool.depth = 96; }, LIDX_ERR_UNSUPPORTED,
     "depth = 96: the cache kernels serve depth 64 and 128"},
    {"no keys", [](Call& c) { c.store.keys = nullptr; }, LIDX_ERR_NULL, "keys is null"},
    {"keys at 1", [](Call& c) { c.store.keys = address<void>(0x10001); }, LIDX_ERR_ALIGNMENT, "keys = address 0x10001"},
    {"no slots", [](Call& c) { c.store.slot_mapping = nullptr; }, LIDX_ERR_NULL, "slot_mapping is null"},
    {"slots at 4", [](Call& c) { c.store.slot_mapping = address<int64_t>(0x20004); }, LIDX_ERR_ALIGNMENT,
     "slot_mapping = address 0x20004: must be a multiple of 8"},
    {"needless", [](Call& c) { c.store.scale_slot_mapping = address<int64_t>(0x20000); }, LIDX_ERR_VALUE,
     "scale_slot_mapping is not null: only LIDX_FLAG_BYTE_SLOTS has it"},
    {"needed", [](Call& c) { c.store.flags = LIDX_FLAG_BYTE_SLOTS; }, LIDX_ERR_NULL, "scale_slot_mapping is null"},
    {"no word", [](Call& c) { c.store.flags = LIDX_FLAG_CHECK; }, LIDX_ERR_WORKSPACE,
     "workspace is null: LIDX_FLAG_CHECK needs 16 bytes"},
    {"small word",
     [](Call& c) { c.store.flags = LIDX_FLAG_CHECK, c.store.workspace = address<void>(0x80000); }, LIDX_ERR_WORKSPACE,
     "workspace_bytes = 0: LIDX_FLAG_CHECK needs 16"},
};

const Row kGathers[] = {
    {"size", [](Call& c) { c.gather.struct_size += 8; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_gather_args.struct_size = 112: this version expects 104"},
    {"flag", [](Call& c) { c.gather.flags = LIDX_FLAG_ROTATE; }, LIDX_ERR_VALUE,
     "flags = 0x10000: may hold LIDX_FLAG_CHECK, the bits of 0x1"},
    {"batch", [](Call& c) { c.gather.batch = -1; }, LIDX_ERR_VALUE, "batch = -1: must be 0 .."},
    {"batch max", [](Call& c) { c.gather.batch = INT_MAX; }, LIDX_ERR_VALUE,
     "batch = 2147483647: must be 0 .. 2147483646"},
    {"rows", [](Call& c) { c.gather.max_rows = -2; }, LIDX_ERR_VALUE, "max_rows = -2"},
    {"table stride", [](Call& c) { c.gather.block_table_stride = 0; }, LIDX_ERR_VALUE,
     "block_table_stride = 0: must be 1"},
    {"table span", [](Call& c) { c.gather.block_table_stride = INT64_MAX; }, LIDX_ERR_VALUE,
     "must be below 2^63 bytes"},
    {"out stride", [](Call& c) { c.gather.k_out_stride = 136; }, LIDX_ERR_ALIGNMENT,
     "k_out_stride = 136: must be a mult"},
    {"out small", [](Call& c) { c.gather.k_out_stride = 112; }, LIDX_ERR_VALUE,
     "k_out_stride = 112: must be at least 128"},
    {"no table", [](Call& c) { c.gather.block_table = nullptr; }, LIDX_ERR_NULL, "block_table is null"},
    {"no boundaries", [](Call& c) { c.gather.cu_seqlens_k = nullptr; }, LIDX_ERR_NULL, "cu_seqlens_k is null"},
    {"begin at 2", [](Call& c) { c.gather.key_begin = address<int32_t>(2); }, LIDX_ERR_ALIGNMENT,
     "key_begin = address 0x2"},
    {"lens at 1", [](Call& c) { c.gather.context_lens = address<int32_t>(1); }, LIDX_ERR_ALIGNMENT,
     "context_lens = addr"},
    {"no output", [](Call& c) { c.gather.k_out = nullptr; }, LIDX_ERR_NULL, "k_out is null"},
    {"output at 8", [](Call& c) { c.gather.k_out = address<void>(0x60008); }, LIDX_ERR_ALIGNMENT, "k_out = address"},
    {"no scales", [](Call& c) { c.gather.k_scale_out = nullptr; }, LIDX_ERR_NULL, "k_scale_out is null"},
    {"no word", [](Call& c) { c.gather.flags = LIDX_FLAG_CHECK; }, LIDX_ERR_WORKSPACE, "workspace is null"},
};

const Row kQueries[] = {
    {"size", [](Call& c) { c.query.struct_size -= 8; }, LIDX_ERR_STRUCT_SIZE,
     "lidx_query_args.struct_size = 104: this version expects 112"},
    {"flag", [](Call& c) { c.query.flags = LIDX_FLAG_CHECK; }, LIDX_ERR_VALUE,
     "flags = 0x1: may hold LIDX_FLAG_ROTATE"},
    {"round alone", [](Call& c) { c.query.flags = LIDX_FLAG_ROTATE_ROUND | LIDX_FLAG_POW2_SCALE; }, LIDX_ERR_VALUE,
     "flags = 0xa0000: LIDX_FLAG_ROTATE_ROUND needs LIDX_FLAG_ROTATE"},
    {"rows", [](Call& c) { c.query.rows = -1; }, LIDX_ERR_VALUE, "rows = -1"},
    {"heads", [](Call& c) { c.query.heads = 0; }, LIDX_ERR_VALUE, "heads = 0: must be 1 .."},
    {"pairs", [](Call& c) { c.query.rows = 1 << 25; }, LIDX_ERR_VALUE,
     "rows * heads = 2147483648: must be 0 .. 2147483647"},
    {"depth", [](Call& c) { c.query.depth = 112; }, LIDX_ERR_UNSUPPORTED, "depth = 112: the cache kernels serve depth"},
    {"depth < 0", [](Call& c) { c.query.depth = -128; }, LIDX_ERR_VALUE, "depth = -128: must be 1 .."},
    {"q type", [](Call& c) { c.query.q_type = 9; }, LIDX_ERR_VALUE, "q_type = 9"},
    {"weight type", [](Call& c) { c.query.weight_type = -1; }, LIDX_ERR_VALUE, "weight_type = -1"},
    {"fp16 out", [](Call& c) { c.query.weight_out_type = LIDX_FP16; }, LIDX_ERR_VALUE,
     "weight_out_type = 2: must be LIDX_FP32 = 0 or LIDX_BF16 = 1"},
    {"factor", [](Call& c) { c.query.factor = NAN; }, LIDX_ERR_VALUE, "factor is not finite"},
    {"head stride", [](Call& c) { c.query.q_head_stride = 64; }, LIDX_ERR_VALUE,
     "q_head_stride = 64: must be at least 128"},
    {"head span", [](Call& c) { c.query.q_head_stride = INT64_MAX; }, LIDX_ERR_VALUE, "must be below 2^63 bytes"},
    {"row stride", [](Call& c) { c.query.q_row_stride = -1; }, LIDX_ERR_VALUE, "q_row_stride = -1"},
    {"weight stride", [](Call& c) { c.query.weight_stride = 63; }, LIDX_ERR_VALUE,
     "weight_stride = 63: must be at least 64"},
    {"out stride", [](Call& c) { c.query.weight_out_stride = -64; }, LIDX_ERR_VALUE, "weight_out_stride = -64"},
    {"no q", [](Call& c) { c.query.q = nullptr; }, LIDX_ERR_NULL, "q is null"},
    {"q at 1", [](Call& c) { c.query.q = address<void>(0x10001); }, LIDX_ERR_ALIGNMENT, "q = address 0x10001"},
    {"weights at 2", [](Call& c) { c.query.weights = address<void>(0x20002); }, LIDX_ERR_ALIGNMENT,
     "weights = address"},
    {"no codes", [](Call& c) { c.query.q_out = nullptr; }, LIDX_ERR_NULL, "q_out is null"},
    {"codes at 8", [](Call& c) { c.query.q_out = address<void>(0x30008); }, LIDX_ERR_ALIGNMENT, "q_out = address"},
    {"no scales", [](Call& c) { c.query.weights_out = nullptr; }, LIDX_ERR_NULL,
     "weights_out and q_scale_out are both null"},
};

const Row kCaches[] = {
    {"size", [](Call& c) { c.desc.struct_size = 1; }, LIDX_ERR_STRUCT_SIZE, "lidx_cache_desc.struct_size = 1: this"},
    {"no pool", [](Call& c) { c.desc.pool = nullptr; }, LIDX_ERR_NULL, "pool is null"},
    {"pool's depth", [](Call& c) { c.pool.depth = 96; }, LIDX_ERR_UNSUPPORTED, ": pool.depth = 96: the cache kernels"},
    {"pool's pages", [](Call& c) { c.pool.num_pages = 0; }, LIDX_ERR_VALUE, ": pool.num_pages = 0: must be 1 .. "},
    {"pool's stride", [](Call& c) { c.pool.k_page_stride = 8176; }, LIDX_ERR_VALUE,
     ": pool.k_page_stride = 8176: must be at least 8192 = pool.page_size * 128 bytes"},
    {"pool's scale stride", [](Call& c) { c.pool.k_scale_page_stride = 252; }, LIDX_ERR_VALUE,
     ": pool.k_scale_page_stride = 252: must be at least 256 = pool.page_size * 4 bytes"},
    {"pool's span", [](Call& c) { c.pool.k_page_stride = (int64_t{1} << 40) - 16, c.pool.num_pages = 1 << 24; },
     LIDX_ERR_VALUE, "1 * pool.num_pages * pool.k_page_stride must be below 2^63"},
    {"pool's codes", [](Call& c) { c.pool.k_base = nullptr; }, LIDX_ERR_NULL, ": pool.k_base is null"},
    {"pool's scales", [](Call& c) { c.pool.k_scale_base = address<void>(0x30002); }, LIDX_ERR_ALIGNMENT,
     ": pool.k_scale_base = address 0x30002: must be a multiple of 4"},
    {"flags", [](Call& c) { c.desc.flags = 1; }, LIDX_ERR_VALUE, "flags = 0x1: must be 0"},
    {"layers", [](Call& c) { c.desc.layers = -1; }, LIDX_ERR_VALUE, "layers = -1: must be 1 .. 1024"},
    {"many layers", [](Call& c) { c.desc.layers = 1025; }, LIDX_ERR_VALUE, "layers = 1025: must be 1 .. 1024"},
    {"layer stride", [](Call& c) { c.desc.layers = 2, c.desc.k_layer_stride = 8; }, LIDX_ERR_ALIGNMENT,
     "k_layer_stride = 8: must be a multiple of 16"},
    {"layer overlap", [](Call& c) { c.desc.layers = 2, c.desc.k_layer_stride = 16; }, LIDX_ERR_VALUE,
     "k_layer_stride = 16: must be 8192 .."},
    {"scale layer", [](Call& c) { c.desc.layers = 2, c.desc.k_layer_stride = 8192; }, LIDX_ERR_VALUE,
     "k_scale_layer_stride = 0: must be 256 .."},
};

}  // namespace

TEST_CASE("cache calls: every bad field is refused with its name") {
    for (const Row& row : kPools) {
        CAPTURE(row.name);
        const Fixture fixture;
        Call call;
        row.change(call);
        lidx_cache* cache = nullptr;
        fixture.refused(lidx_store_enqueue(fixture.context, &call.pool, &call.store, nullptr), row.status, row.part);
        fixture.refused(lidx_gather_enqueue(fixture.context, &call.pool, &call.gather, nullptr), row.status, row.part);
        fixture.refused(lidx_cache_create(fixture.context, &call.desc, &cache), row.status, "pool.");
        CHECK(cache == nullptr);
    }
    const auto each = [](const auto& rows, auto&& enqueue) {
        for (const Row& row : rows) {
            CAPTURE(row.name);
            const Fixture fixture;
            Call call;
            row.change(call);
            fixture.refused(enqueue(fixture.context, call), row.status, row.part);
        }
    };
    each(kStores, [](lidx_context* context, const Call& c) {
        return lidx_store_enqueue(context, &c.pool, &c.store, nullptr);
    });
    each(kGathers, [](lidx_context* context, const Call& c) {
        return lidx_gather_enqueue(context, &c.pool, &c.gather, nullptr);
    });
    each(kQueries, [](lidx_context* context, const Call& c) { return lidx_query_enqueue(context, &c.query, nullptr); });
    each(kCaches, [](lidx_context* context, const Call& c) {
        lidx_cache* cache = address<lidx_cache>(16);
        const lidx_status status = lidx_cache_create(context, &c.desc, &cache);
        CHECK(cache == address<lidx_cache>(16));
        return status;
    });
}

TEST_CASE("cache calls: null arguments") {
    const Fixture f;
    Call c;
    lidx_cache* cache = nullptr;
    f.refused(lidx_store_enqueue(f.context, nullptr, &c.store, nullptr), LIDX_ERR_NULL,
              "lidx_store_enqueue: pool is null");
    f.refused(lidx_store_enqueue(f.context, &c.pool, nullptr, nullptr), LIDX_ERR_NULL,
              "lidx_store_enqueue: args is null");
    f.refused(lidx_gather_enqueue(f.context, nullptr, &c.gather, nullptr), LIDX_ERR_NULL, "pool is null");
    f.refused(lidx_gather_enqueue(f.context, &c.pool, nullptr, nullptr), LIDX_ERR_NULL, "args is null");
    f.refused(lidx_query_enqueue(f.context, nullptr, nullptr), LIDX_ERR_NULL, "args is null");
    f.refused(lidx_cache_create(f.context, nullptr, &cache), LIDX_ERR_NULL, "desc is null");
    f.refused(lidx_cache_create(f.context, &c.desc, nullptr), LIDX_ERR_NULL, "out is null");
    CHECK(lidx_pool_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_store_args_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_gather_args_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_query_args_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_cache_desc_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_cache_keys_init(nullptr) == LIDX_ERR_NULL);
    CHECK(lidx_cache_tables_init(nullptr) == LIDX_ERR_NULL);
    lidx_cache_destroy(nullptr);
}

TEST_CASE("cache calls: nothing to do launches nothing and needs no pointer") {
    const Fixture f;
    Call c;
    c.store.rows = 0, c.store.keys = nullptr, c.store.slot_mapping = nullptr;
    CHECK(lidx_store_enqueue(f.context, &c.pool, &c.store, nullptr) == LIDX_OK);
    c.gather.batch = 0, c.gather.block_table = nullptr, c.gather.k_out = nullptr;
    CHECK(lidx_gather_enqueue(f.context, &c.pool, &c.gather, nullptr) == LIDX_OK);
    c.gather.batch = 3, c.gather.max_rows = 0;
    CHECK(lidx_gather_enqueue(f.context, &c.pool, &c.gather, nullptr) == LIDX_OK);
    c.query.rows = 0, c.query.q = nullptr;
    CHECK(lidx_query_enqueue(f.context, &c.query, nullptr) == LIDX_OK);
    CHECK(fake().launch_count == 0);
}

TEST_CASE("cache calls: what is launched") {
    const Fixture f;
    Call c;
    void* const stream = address<void>(0x5000);
    REQUIRE(lidx_store_enqueue(f.context, &c.pool, &c.store, stream) == LIDX_OK);
    REQUIRE(lidx_gather_enqueue(f.context, &c.pool, &c.gather, stream) == LIDX_OK);
    REQUIRE(lidx_query_enqueue(f.context, &c.query, stream) == LIDX_OK);
    REQUIRE(fake().launch_count == 3);
    const struct {
        const char* symbol;
        unsigned ctas;
    } expected[] = {{"cache_store", 3}, {"cache_gather", 3}, {"cache_query", 80}};
    for (int i = 0; i < 3; ++i) {
        const FakeLaunch& launch = fake().launches[i];
        CHECK(std::string(launch.function) == expected[i].symbol);
        CHECK(launch.config.gridDimX == expected[i].ctas);
        CHECK((launch.config.gridDimY == 1 && launch.config.gridDimZ == 1));
        CHECK(launch.config.blockDimX == 128);
        CHECK(launch.config.sharedMemBytes == 0);
        CHECK(launch.config.hStream == address<CUstream_st>(0x5000));
        CHECK(launch.retained_current);
    }
    CHECK(fake().launches[0].store.store.key_stride_bytes == 256);
    CHECK(fake().launches[1].gather.k_out_stride == 128);
    const lidx::cache::QueryParams& query = fake().launches[2].query;
    CHECK(query.q_row_stride_bytes == 64 * 128 * 2);
    CHECK(query.q_head_stride_bytes == 256);
    CHECK(query.weight_stride_bytes == 256);
    CHECK(query.factor == 0x1.6a09e6p-7f);   // (64 * 128)^-0.5
    CHECK(fake().stack_depth == 0);          // the caller's context is current again

    fake().fail_call = FakeCall::k_cuLaunchKernelEx;
    fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    fake().fail_after = fake().calls_of(FakeCall::k_cuLaunchKernelEx);
    CHECK(lidx_store_enqueue(f.context, &c.pool, &c.store, stream) == LIDX_ERR_DRIVER);
    CHECK(lidx_driver_error(f.context) == 700);
    const std::string text = lidx_last_error(f.context);
    CHECK(text.find("cuLaunchKernelEx of cache_store, grid 3 x 1 x 1, 128 threads") != std::string::npos);
}

TEST_CASE("lidx_cache: bad calls, and a failing driver changes nothing") {
    const Fixture f;
    Call c;
    lidx_cache* cache = nullptr;
    REQUIRE(lidx_cache_create(f.context, &c.desc, &cache) == LIDX_OK);
    int64_t a = 0, b = 0, length = -1;
    REQUIRE(lidx_cache_add(cache, &a) == LIDX_OK);
    const int32_t seventy = 70, many = 64 * 40, minus = -1, none = 0;
    REQUIRE(lidx_cache_extend(cache, &a, &seventy, 1, nullptr) == LIDX_OK);
    REQUIRE(lidx_cache_fork(cache, a, &b) == LIDX_OK);

    f.refused(lidx_cache_add(cache, nullptr), LIDX_ERR_NULL, "lidx_cache_add: sequence is null");
    f.refused(lidx_cache_fork(cache, 77, &b), LIDX_ERR_VALUE, "sequence = 77: no such sequence lives in this cache");
    f.refused(lidx_cache_fork(cache, a, nullptr), LIDX_ERR_NULL, "child is null");
    f.refused(lidx_cache_free(cache, -1), LIDX_ERR_VALUE, "sequence = -1");
    f.refused(lidx_cache_truncate(cache, a, 71), LIDX_ERR_VALUE, "length = 71: must be 0 .. 70");
    f.refused(lidx_cache_length(cache, a, nullptr), LIDX_ERR_NULL, "length is null");
    f.refused(lidx_cache_extend(cache, nullptr, &seventy, 1, nullptr), LIDX_ERR_NULL, "sequences is null");
    f.refused(lidx_cache_extend(cache, &a, nullptr, 1, nullptr), LIDX_ERR_NULL, "tokens is null");
    f.refused(lidx_cache_extend(cache, &a, &seventy, -1, nullptr), LIDX_ERR_VALUE, "count = -1");
    f.refused(lidx_cache_extend(cache, &a, &minus, 1, nullptr), LIDX_ERR_VALUE, "tokens[0] = -1");
    f.refused(lidx_cache_extend(cache, &a, &many, 1, nullptr), LIDX_ERR_NO_PAGES, "needs 41 pages, 38 of 40 are free");
    CHECK(lidx_cache_extend(cache, nullptr, nullptr, 0, nullptr) == LIDX_OK);

    lidx_cache_keys keys;
    REQUIRE(lidx_cache_keys_init(&keys) == LIDX_OK);
    keys.rows = 10, keys.key_stride = 128, keys.keys = address<void>(0x10000);
    const lidx_cache_keys good = keys;
    f.refused(lidx_cache_append(cache, a, nullptr, nullptr), LIDX_ERR_NULL, "keys is null");
    f.refused(lidx_cache_store(cache, a, 61, &keys, nullptr), LIDX_ERR_VALUE,
              "rows = 10 at first = 61: the sequence has 70");
    f.refused(lidx_cache_store(cache, a, -1, &keys, nullptr), LIDX_ERR_VALUE, "first = -1: must be 0 .. 70");
    f.refused(lidx_cache_store(cache, a, 58, &keys, nullptr), LIDX_ERR_VALUE,
              "first = 58: position 58 lies in a page that 2 sequences share");
    keys.layer = 1;
    f.refused(lidx_cache_append(cache, a, &keys, nullptr), LIDX_ERR_VALUE, "layer = 1: must be 0");
    keys = good, keys.flags = LIDX_FLAG_CHECK;
    f.refused(lidx_cache_append(cache, a, &keys, nullptr), LIDX_ERR_VALUE, "flags = 0x1: may hold LIDX_FLAG_ROTATE");
    keys = good, keys.struct_size = 8;
    f.refused(lidx_cache_append(cache, a, &keys, nullptr), LIDX_ERR_STRUCT_SIZE, "lidx_cache_keys.struct_size = 8");
    keys = good, keys.keys = nullptr;
    f.refused(lidx_cache_append(cache, a, &keys, nullptr), LIDX_ERR_NULL, "keys is null");
    keys = good, keys.rows = 64 * 40;
    f.refused(lidx_cache_append(cache, a, &keys, nullptr), LIDX_ERR_NO_PAGES,
              "lidx_cache_append: the call needs 41 pages");

    int32_t table[4] = {9, 9, 9, 9}, lens[2] = {9, 9};
    const int64_t both[] = {a, b};
    lidx_cache_tables tables;
    REQUIRE(lidx_cache_tables_init(&tables) == LIDX_OK);
    tables.sequences = both, tables.count = 2, tables.block_table_stride = 1;
    tables.block_table = table, tables.context_lens = lens;
    f.refused(lidx_cache_fill_tables(cache, &tables, nullptr), LIDX_ERR_VALUE,
              "block_table_stride = 1: sequences[0] has 2 pages");
    tables.block_table_stride = 0;
    f.refused(lidx_cache_fill_tables(cache, &tables, nullptr), LIDX_ERR_VALUE, "block_table_stride = 0: must be 1");
    tables.block_table_stride = 2, tables.block_table = nullptr;
    f.refused(lidx_cache_fill_tables(cache, &tables, nullptr), LIDX_ERR_NULL, "block_table is null");
    tables.block_table = table, tables.context_lens = nullptr;
    f.refused(lidx_cache_fill_tables(cache, &tables, nullptr), LIDX_ERR_NULL, "context_lens is null");
    tables.context_lens = lens, tables.block_table_device = address<int32_t>(2);
    f.refused(lidx_cache_fill_tables(cache, &tables, nullptr), LIDX_ERR_ALIGNMENT, "block_table_device = address 0x2");
    CHECK((table[0] == 9 && table[3] == 9 && lens[0] == 9));
    tables.block_table_device = nullptr;
    CHECK(lidx_cache_fill_tables(cache, &tables, nullptr) == LIDX_OK);
    CHECK((table[0] == 0 && table[1] == 1 && table[2] == 0 && table[3] == 1 && lens[0] == 70 && lens[1] == 70));

    int64_t slots[2] = {9, 9};
    const int32_t two = 2, too_many = 71;
    f.refused(lidx_cache_fill_slots(cache, &a, &too_many, 1, slots), LIDX_ERR_VALUE, "tokens[0] = 71: must be 0 .. 70");
    f.refused(lidx_cache_fill_slots(cache, &a, &two, 1, nullptr), LIDX_ERR_NULL, "slots is null");
    CHECK(lidx_cache_fill_slots(cache, &a, &two, 1, slots) == LIDX_OK);
    CHECK((slots[0] == 68 && slots[1] == 69));
    CHECK(lidx_cache_fill_slots(cache, &a, &none, 1, slots) == LIDX_OK);

    // The copy of the shared page, then the launch, fail: nobody has moved.
    keys = good;
    for (const FakeCall call : {FakeCall::k_cuMemcpyDtoDAsync_v2, FakeCall::k_cuLaunchKernelEx}) {
        fake().fail_call = call;
        fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
        fake().fail_after = fake().calls_of(call);
        CHECK(lidx_cache_append(cache, b, &keys, nullptr) == LIDX_ERR_DRIVER);
        CHECK(fake().stack_depth == 0);
        REQUIRE(lidx_cache_length(cache, b, &length) == LIDX_OK);
        CHECK(length == 70);
        lidx_cache_stats stats;
        stats.struct_size = sizeof(stats);
        REQUIRE(lidx_cache_get_stats(cache, &stats) == LIDX_OK);
        CHECK((stats.num_pages == 40 && stats.free_pages == 38 && stats.shared_pages == 2));
        CHECK((stats.sequences == 2 && stats.tokens == 140));
    }
    fake().fail_call = FakeCall::kCount;
    const int launches = fake().launch_count;
    CHECK(lidx_cache_append(cache, b, &keys, nullptr) == LIDX_OK);
    REQUIRE(fake().launch_count == launches + 1);
    const FakeLaunch& launch = fake().launches[launches];
    CHECK(std::string(launch.function) == "cache_store_pages");
    CHECK((launch.store.first_slot == 6 && launch.store.page_count == 1 && launch.store.pages[0] == 2));
    lidx_cache_destroy(cache);
}

TEST_CASE("lidx_cache: a long append is one launch per 512 pages, each page once") {
    const Fixture f;
    Call c;
    c.pool.num_pages = 3000;
    lidx_cache* cache = nullptr;
    REQUIRE(lidx_cache_create(f.context, &c.desc, &cache) == LIDX_OK);
    int64_t a = 0;
    REQUIRE(lidx_cache_add(cache, &a) == LIDX_OK);
    lidx_cache_keys keys;
    REQUIRE(lidx_cache_keys_init(&keys) == LIDX_OK);
    keys.rows = 5, keys.key_stride = 256, keys.keys = address<void>(0x10000);
    REQUIRE(lidx_cache_append(cache, a, &keys, nullptr) == LIDX_OK);
    keys.rows = 1030 * 64 - 3;
    REQUIRE(lidx_cache_append(cache, a, &keys, nullptr) == LIDX_OK);
    REQUIRE(fake().launch_count == 4);
    int32_t page = 0;
    int64_t row = 0;
    for (int i = 1; i < 4; ++i) {
        const lidx::cache::StorePagesParams& params = fake().launches[i].store;
        CHECK(params.store.keys == address<uint8_t>(0x10000) + row * 1024);
        CHECK(params.first_slot == (i == 1 ? 5 : 0));
        CHECK(params.page_count == (i < 3 ? 512 : 7));
        for (int32_t at = 0; at < params.page_count; ++at) CHECK(params.pages[at] == page++);
        row += params.store.rows;
    }
    CHECK(row == keys.rows);
    CHECK(page == 1031);
    lidx_cache_destroy(cache);
}

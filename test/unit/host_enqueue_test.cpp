// SPDX-License-Identifier: Apache-2.0
// The C ABI from open to enqueue against a driver that records: contexts, tensor maps, launches, and what is not done.
#include "catch_any.h"

#include <lidx.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "fake_driver.h"
#include "good_calls.h"

// Every allocation of the process is counted, and one of them can be made to fail.
static int malloc_calls = 0;
static int malloc_fails_in = 0;  // 0: never; 1: the next call
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kOwnMalloc = false;
#else
constexpr bool kOwnMalloc = true;
extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {  // operator new comes here too
    ++malloc_calls;
    if (malloc_fails_in > 0 && --malloc_fails_in == 0) return nullptr;
    return __libc_malloc(size);
}
#endif

namespace {

struct CloseContext {
    void operator()(lidx_context* context) const { lidx_close(context); }
};
struct DestroyPlan {
    void operator()(lidx_plan* plan) const { lidx_plan_destroy(plan); }
};
using Context = std::unique_ptr<lidx_context, CloseContext>;
using Plan = std::unique_ptr<lidx_plan, DestroyPlan>;
struct DestroyIndexPlan {
    void operator()(lidx_index_plan* plan) const { lidx_index_plan_destroy(plan); }
};
using IndexPlan = std::unique_ptr<lidx_index_plan, DestroyIndexPlan>;

lidx_status open(int32_t device, Context* context) {
    const std::string path = fake_driver_path();
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.driver_path = path.c_str();
    config.device = device;
    lidx_context* opened = nullptr;
    const lidx_status status = lidx_open(&config, &opened);
    context->reset(opened);
    return status;
}

lidx_score_desc paged_desc() {
    lidx_score_desc desc = good_calls::score_desc();
    desc.max_rows = 9;
    desc.max_tokens = 5;
    desc.k_page_stride = desc.k_scale_page_stride = 64 * 132 + 16;
    return desc;
}

Plan make_plan(const Context& context, const lidx_score_desc& desc) {
    lidx_plan* plan = nullptr;
    const lidx_status status = lidx_plan_create(context.get(), &desc, &plan);
    INFO(lidx_last_error(context.get()));
    REQUIRE(status == LIDX_OK);
    return Plan(plan);
}

IndexPlan make_index_plan(const Context& context, const lidx_index_desc& desc) {
    lidx_index_plan* plan = nullptr;
    const lidx_status status = lidx_index_plan_create(context.get(), &desc, &plan);
    INFO(lidx_last_error(context.get()));
    REQUIRE(status == LIDX_OK);
    return IndexPlan(plan);
}

size_t workspace_bytes(const IndexPlan& plan) {
    lidx_index_plan_info info = {};
    info.struct_size = sizeof(info);
    REQUIRE(lidx_get_index_plan_info(plan.get(), &info) == LIDX_OK);
    return info.workspace_bytes;
}

bool tells(const Context& context, const std::string& part) {
    const std::string text = lidx_last_error(context.get());
    UNSCOPED_INFO(text);
    return text.find(part) != std::string::npos;
}

using good_calls::address;

}  // namespace

TEST_CASE("enqueue: a tensor-core launch") {
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    const Plan plan = make_plan(context, paged_desc());
    const lidx_score_args args = good_calls::score_args();
    REQUIRE(lidx_score_enqueue(context.get(), plan.get(), &args, address<void>(0x5000)) == LIDX_OK);

    REQUIRE(fake().map_count == 2);
    REQUIRE(fake().launch_count == 1);
    const FakeLaunch& launch = fake().launches[0];
    CHECK(std::string(launch.function) == "sm100_score_h64");
    CHECK(launch.retained_current);
    CHECK(launch.config.hStream == address<CUstream_st>(0x5000));
    CHECK(launch.config.gridDimX == 2);
    CHECK(launch.config.gridDimY == 8);
    CHECK(launch.config.gridDimZ == 2);  // 3 tiles of 2 tokens: min(296 / 16, 2)
    CHECK(launch.config.blockDimX == 128);
    CHECK(launch.config.blockDimY == 1);
    CHECK(launch.config.blockDimZ == 1);
    CHECK(launch.config.sharedMemBytes == 51200);
    CHECK(launch.config.numAttrs == 0);
    CHECK(launch.params.q == args.q);
    CHECK(launch.params.q_scale == args.q_scale);
    CHECK(launch.params.k == args.k_base);
    CHECK(launch.params.k_scale == args.k_scale_base);
    CHECK(launch.params.block_table == args.block_table);
    CHECK(launch.params.view.lengths == args.context_lens);
    CHECK(launch.params.view.row_map_data == args.cu_seqlens_q);
    CHECK(launch.params.scores == args.scores);
    CHECK(launch.params.check_word == nullptr);
    CHECK(launch.params.page_size == 64);
    CHECK(launch.params.view.rows == 9);
    CHECK(launch.params.view.max_tokens == 5);

    for (const FakeTensorMap& map : {fake().maps[0], fake().maps[1]}) {
        CHECK(map.type == CU_TENSOR_MAP_DATA_TYPE_UINT8);
        CHECK(map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
        CHECK(map.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE);
        CHECK(map.oob_fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        for (cuuint32_t i = 0; i < map.rank; ++i) CHECK(map.element_strides[i] == 1);
    }
    const FakeTensorMap& k = fake().maps[launch.map_calls[0]];
    CHECK(k.rank == 3);
    CHECK(k.address == args.k_base);
    CHECK(k.dims[0] == 128);
    CHECK(k.dims[1] == 64);
    CHECK(k.dims[2] == 40);
    CHECK(k.strides_bytes[0] == 128);
    CHECK(k.strides_bytes[1] == 64 * 132 + 16);
    CHECK(k.box[0] == 128);
    CHECK(k.box[1] == 64);
    CHECK(k.box[2] == 1);
    const FakeTensorMap& q = fake().maps[launch.map_calls[1]];
    CHECK(q.rank == 2);
    CHECK(q.address == args.q);
    CHECK(q.dims[0] == 128);
    CHECK(q.dims[1] == 9 * 64);
    CHECK(q.strides_bytes[0] == 128);
    CHECK(q.box[0] == 128);
    CHECK(q.box[1] == 128);
}

TEST_CASE("enqueue: boxes follow page size, layout and tile") {
    const struct {
        int page_size, heads, tokens;
        int64_t keys;
        cuuint64_t slots;
        cuuint32_t k_box, q_box;
    } cases[] = {
        {16, 64, 2, 1000, 16, 16, 128},    {32, 64, 2, 1000, 32, 32, 128}, {128, 64, 2, 1000, 128, 128, 128},
        {256, 64, 2, 1000, 256, 128, 128}, {64, 32, 4, 1000, 64, 64, 128}, {64, 32, 3, 1000, 64, 64, 96},
        {0, 64, 2, 1000, 1000, 128, 128},  {0, 64, 2, 100, 100, 100, 128}, {0, 64, 2, 1, 1, 1, 128},
    };
    for (const auto& row : cases) {
        CAPTURE(row.page_size, row.heads, row.tokens, row.keys);
        fake_reset();
        Context context;
        REQUIRE(open(0, &context) == LIDX_OK);
        lidx_score_desc desc = paged_desc();
        desc.page_size = row.page_size;
        desc.heads = row.heads;
        desc.max_tokens = row.tokens;
        desc.max_keys = row.keys;
        desc.block_table_stride = 1000;
        desc.k_page_stride = desc.k_scale_page_stride = 1000 * 132 + 32;
        const Plan plan = make_plan(context, desc);
        lidx_score_args args = good_calls::score_args();
        if (row.page_size == 0) args.block_table = nullptr;
        REQUIRE(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
        REQUIRE(fake().launch_count == 1);
        const FakeTensorMap& k = fake().maps[fake().launches[0].map_calls[0]];
        const FakeTensorMap& q = fake().maps[fake().launches[0].map_calls[1]];
        CHECK(k.dims[1] == row.slots);
        CHECK(k.strides_bytes[1] == 1000 * 132 + 32);
        CHECK(k.box[1] == row.k_box);
        CHECK(q.dims[1] == static_cast<cuuint64_t>(9 * row.heads));
        CHECK(q.box[1] == row.q_box);
        CHECK(fake().launches[0].params.page_size == static_cast<int32_t>(row.slots));
        CHECK((fake().launches[0].params.block_table == nullptr) == (row.page_size == 0));
    }
}

TEST_CASE("enqueue: columns to fill and no room for a key, contiguous: the map of K is not empty") {
    for (const int major : {10, 9}) {
        fake_reset();
        fake().major = major;
        Context context;
        REQUIRE(open(0, &context) == LIDX_OK);
        lidx_score_desc desc = paged_desc();
        desc.page_size = 0;
        desc.max_keys = desc.k_page_stride = desc.k_scale_page_stride = 0;
        desc.flags = LIDX_FLAG_FILL;
        desc.score_columns = 150;
        const Plan plan = make_plan(context, desc);
        lidx_score_args args = good_calls::score_args();
        args.block_table = nullptr;
        REQUIRE(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
        REQUIRE(fake().launch_count == 1);
        const FakeTensorMap& k = fake().maps[fake().launches[0].map_calls[0]];
        CHECK(k.dims[1] == 1);
        CHECK(k.box[1] == 1);
        CHECK(k.strides_bytes[1] == 128);
    }
}

TEST_CASE("enqueue: the generic kernel takes no tensor map") {
    fake_reset();
    fake().major = 8;
    fake().multiprocessors = 132;
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    lidx_score_desc desc = paged_desc();
    desc.flags = LIDX_FLAG_CHECK;
    const Plan plan = make_plan(context, desc);
    lidx_score_args args = good_calls::score_args();
    args.workspace = address<void>(0x80000);
    args.workspace_bytes = 16;
    REQUIRE(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
    CHECK(fake().map_count == 0);
    REQUIRE(fake().launch_count == 1);
    CHECK(std::string(fake().launches[0].function) == "generic_score");
    CHECK(fake().launches[0].config.sharedMemBytes == 0);
    CHECK(fake().launches[0].config.gridDimZ == 3);  // 5 tiles of one token: min(264 / 16, 3)
    CHECK(fake().launches[0].params.check_word == args.workspace);
}

TEST_CASE("enqueue: a persistent launch on compute capability 9.0") {
    fake_reset();
    fake().major = 9;
    fake().multiprocessors = 132;
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    lidx_score_desc desc = paged_desc();
    desc.page_size = 256;
    desc.k_page_stride = desc.k_scale_page_stride = 256 * 132;
    const Plan plan = make_plan(context, desc);
    const lidx_score_args args = good_calls::score_args();
    REQUIRE(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
    REQUIRE(fake().map_count == 2);
    REQUIRE(fake().launch_count == 1);
    const FakeLaunch& launch = fake().launches[0];
    CHECK(std::string(launch.function) == "sm90_score_h64_plain");
    CHECK(launch.config.gridDimX == 64);  // 2 requests, 16 tiles of 64 keys, 2 blocks of 4 tokens
    CHECK(launch.config.gridDimY == 1);
    CHECK(launch.config.gridDimZ == 1);
    CHECK(launch.config.blockDimX == 640);
    CHECK(launch.config.sharedMemBytes == 204800);
    CHECK(launch.params.view.batch == 2);
    CHECK(fake().maps[launch.map_calls[0]].box[1] == 64);   // keys of a tile
    CHECK(fake().maps[launch.map_calls[1]].box[1] == 64);   // heads of a token
}

// Only behind a scorer of the same call may rows be read ahead of griddepcontrol.wait (TopkParams::known_rows).
TEST_CASE("enqueue: a selection knows its rows behind a scorer alone") {
    fake_reset();
    fake().major = 9;
    fake().multiprocessors = 132;
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    lidx_index_desc desc = good_calls::index_desc();
    desc.score.flags = LIDX_FLAG_PDL;
    const lidx_score_args score = good_calls::score_args();
    lidx_index_args args = good_calls::index_args();
    // Launches: s: a scorer; k: a selection that knows its rows; w: one that waits for them.
    const auto launches = [&](int32_t k, size_t budget_bytes) {
        desc.k = k;
        desc.index_stride = k;
        desc.workspace_budget_bytes = budget_bytes;
        const IndexPlan plan = make_index_plan(context, desc);
        args.workspace_bytes = workspace_bytes(plan);
        fake().launch_count = 0;
        REQUIRE(lidx_index_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
        std::string text;
        for (int i = 0; i < fake().launch_count; ++i) {
            const FakeLaunch& launch = fake().launches[i];
            const bool selects = std::string(launch.function).rfind("topk_", 0) == 0;
            text += !selects ? 's' : launch.select.known_rows != 0 ? 'k' : 'w';
            CHECK(launch.config.numAttrs >= 1);   // each may overlap the one before
        }
        return text;
    };
    CHECK(launches(64, 0) == "sk");
    CHECK(launches(64, 4 * 4096) == "sksk");   // two windows
    CHECK(launches(2048, 0) == "w");           // no row has more keys: nothing to score

    lidx_topk_desc topk = good_calls::topk_desc();
    topk.flags = LIDX_FLAG_PDL;
    lidx_topk_args given;
    REQUIRE(lidx_topk_args_init(&given) == LIDX_OK);
    given.scores = score.scores;
    given.context_lens = score.context_lens;
    given.cu_seqlens_q = score.cu_seqlens_q;
    given.indices = args.indices;
    fake().launch_count = 0;
    const lidx_status status = lidx_topk_enqueue(context.get(), &topk, &given, nullptr);
    INFO(lidx_last_error(context.get()));
    REQUIRE(status == LIDX_OK);
    REQUIRE(fake().launch_count == 1);
    CHECK(fake().launches[0].select.known_rows == 0);
}

TEST_CASE("index, topk: what the device cannot launch is refused where it is planned") {
    fake_reset();
    fake().major = 8;
    fake().minor = 9;
    fake().shared_bytes_per_cta = 101376;
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    lidx_index_desc desc = good_calls::index_desc();
    desc.score.max_rows = desc.score.max_tokens = 256;
    desc.score.max_keys = 262144;
    desc.score.block_table_stride = 4096;
    // topk::SharedLayout, and two maps of 262144 bits, of 3 more and of what fills up their words of 128.
    const std::string text = "max_keys = 262144 with k = 64 needs " + std::to_string(57536 + 2 * (32768 + 16));
    lidx_index_plan* out = nullptr;
    CHECK(lidx_index_plan_create(context.get(), &desc, &out) == LIDX_ERR_UNSUPPORTED);
    CHECK(out == nullptr);
    CHECK(tells(context, "lidx_index_plan_create: score." + text));
    CHECK(tells(context, "the device gives a CTA 101376"));

    lidx_topk_desc topk = good_calls::topk_desc();
    topk.max_rows = 256;
    topk.max_keys = topk.score_stride = 262144;
    size_t bytes = 77;
    CHECK(lidx_topk_workspace_bytes(context.get(), &topk, &bytes) == LIDX_ERR_UNSUPPORTED);
    CHECK(bytes == 77);
    CHECK(tells(context, "lidx_topk_workspace_bytes: " + text));
    lidx_topk_args args;
    REQUIRE(lidx_topk_args_init(&args) == LIDX_OK);
    CHECK(lidx_topk_enqueue(context.get(), &topk, &args, nullptr) == LIDX_ERR_UNSUPPORTED);
    CHECK(tells(context, "lidx_topk_enqueue: " + text));

    desc.score.max_keys = 131072;
    CHECK(lidx_index_plan_create(context.get(), &desc, &out) == LIDX_OK);
    lidx_index_plan_destroy(out);
}

TEST_CASE("index: a plan of another device is refused before the first launch, unless its kernels run here") {
    fake_reset();
    fake().major = 9;
    fake().multiprocessors = 132;
    Context made;
    REQUIRE(open(0, &made) == LIDX_OK);
    lidx_index_desc desc = good_calls::index_desc();
    desc.score.heads = 24;   // generic_score, which runs everywhere
    desc.score.block_table_stride = 65536;
    const struct {
        int64_t max_keys;
        int32_t rows;
        int major;
        const char* refused;   // null: it runs
    } cases[] = {
        {1000, 8, 8, "topk_held_fp32"},
        {1000, 8, 12, nullptr},
        {16384, 8, 8, "topk_cluster_fp32"},
        {16384, 8, 12, "topk_cluster_fp32"},
        {16384, 8, 10, nullptr},
        {1000000, 8, 12, "topk_spread_fp32"},
        {262144, 256, 8, nullptr},   // streamed: topk here, topk_sm80 there
    };
    for (const auto& row : cases) {
        CAPTURE(row.max_keys, row.major);
        desc.score.max_keys = row.max_keys;
        desc.score.max_rows = row.rows;
        const IndexPlan plan = make_index_plan(made, desc);
        fake().major = row.major;
        fake().function_count = fake().calls[static_cast<int>(FakeCall::k_cuModuleLoadData)] = 0;
        Context other;
        REQUIRE(open(0, &other) == LIDX_OK);
        lidx_index_args args = good_calls::index_args();
        args.workspace_bytes = workspace_bytes(plan);
        fake().launch_count = 0;
        const lidx_status status = lidx_index_enqueue(other.get(), plan.get(), &args, nullptr);
        if (row.refused == nullptr) {
            CHECK(status == LIDX_OK);
            CHECK(fake().launch_count == 2);
            continue;
        }
        CHECK(status == LIDX_ERR_UNSUPPORTED);
        CHECK(fake().launch_count == 0);
        CHECK(tells(other, std::string("the plan's kernel ") + row.refused + " was chosen for another device; this "
                            "one, of compute capability " + std::to_string(row.major) + ".0, cannot run it"));
    }
}

TEST_CASE("enqueue: allocates nothing, synchronises nothing, leaves the context stack as it was") {
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    const Plan plan = make_plan(context, paged_desc());
    const lidx_score_args args = good_calls::score_args();
    fake().stack[0] = fake_other_context();
    fake().stack_depth = 1;
    const int before = malloc_calls;
    lidx_status status = LIDX_OK;
    for (int i = 0; i < 20; ++i) {
        const lidx_status result = lidx_score_enqueue(context.get(), plan.get(), &args, nullptr);
        if (result != LIDX_OK) status = result;
    }
    const int after = malloc_calls;
    CHECK(status == LIDX_OK);
    CHECK(after == before);
    if (kOwnMalloc) {
        void* volatile one = std::malloc(1);
        std::free(one);
        CHECK(malloc_calls == after + 1);  // the count counts
    }
    CHECK(fake().launch_count == 20);
    CHECK(fake().stack_depth == 1);
    CHECK(fake().stack[0] == fake_other_context());
    for (const FakeCall call :
         {FakeCall::k_cuMemAlloc_v2, FakeCall::k_cuMemFree_v2, FakeCall::k_cuMemcpyDtoH_v2, FakeCall::k_cuMemcpyHtoD_v2,
          FakeCall::k_cuCtxSynchronize, FakeCall::k_cuStreamSynchronize, FakeCall::k_cuMemsetD8_v2,
          FakeCall::k_cuMemsetD32_v2, FakeCall::k_cuCtxSetCurrent})
        CHECK(fake().calls_of(call) == 0);
}

TEST_CASE("out of host memory: a status, wherever it strikes, and nothing is left behind") {
    if (!kOwnMalloc) return;
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    const lidx_score_desc desc = paged_desc();
    const std::string path = fake_driver_path();
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.driver_path = path.c_str();
    config.device = 0;
    lidx_score_args bad_args = good_calls::score_args();
    bad_args.cu_seqlens_q = nullptr;
    const Plan plan = make_plan(context, desc);

    int failures = 0;
    for (int n = 1;; ++n) {
        lidx_plan* out = nullptr;
        malloc_fails_in = n;
        const lidx_status status = lidx_plan_create(context.get(), &desc, &out);
        const bool struck = malloc_fails_in == 0;
        malloc_fails_in = 0;
        lidx_plan_destroy(out);
        if (!struck) {
            CHECK(status == LIDX_OK);
            break;
        }
        ++failures;
        CHECK(status == LIDX_ERR_OUT_OF_MEMORY);
        CHECK(out == nullptr);
        CHECK(std::string(lidx_last_error(context.get())) == "lidx_plan_create: host memory ran out");
    }
    CHECK(failures > 0);

    // The text of another failure cannot be made: memory is what ran out then.
    malloc_fails_in = 1;
    const lidx_status enqueued = lidx_score_enqueue(context.get(), plan.get(), &bad_args, nullptr);
    const bool struck = malloc_fails_in == 0;
    malloc_fails_in = 0;
    CHECK(enqueued == (struck ? LIDX_ERR_OUT_OF_MEMORY : LIDX_ERR_NULL));

    for (int n = 1;; ++n) {
        fake().retains = fake().modules_loaded = 0;
        fake().function_count = fake().calls[static_cast<int>(FakeCall::k_cuModuleLoadData)] = 0;
        lidx_context* out = nullptr;
        malloc_fails_in = n;
        const lidx_status status = lidx_open(&config, &out);
        const bool open_struck = malloc_fails_in == 0;
        malloc_fails_in = 0;
        lidx_close(out);
        CAPTURE(n, static_cast<int>(status));
        CHECK(fake().retains == 0);
        CHECK(fake().modules_loaded == 0);
        CHECK(fake().stack_depth == 0);
        CHECK((status == LIDX_OK || status == LIDX_ERR_OUT_OF_MEMORY || status == LIDX_ERR_NO_DRIVER));
        if (!open_struck) {
            CHECK(status == LIDX_OK);
            break;
        }
        REQUIRE(n < 10000);
    }
}

namespace {

struct CacheCalls : good_calls::CacheCalls {
    lidx_cache_keys keys;
    CacheCalls() {
        REQUIRE(lidx_cache_keys_init(&keys) == LIDX_OK);
        keys.rows = 100;
        keys.key_stride = 128;
        keys.keys = address<void>(0x10000);
    }
};

}  // namespace

TEST_CASE("enqueue: store, gather and query allocate nothing and synchronise nothing") {
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    const CacheCalls c;
    fake().stack[0] = fake_other_context();
    fake().stack_depth = 1;
    const int before = malloc_calls;
    bool good = true;
    for (int i = 0; i < 10; ++i) {
        good = good && lidx_store_enqueue(context.get(), &c.pool, &c.store, nullptr) == LIDX_OK;
        good = good && lidx_gather_enqueue(context.get(), &c.pool, &c.gather, nullptr) == LIDX_OK;
        good = good && lidx_query_enqueue(context.get(), &c.query, nullptr) == LIDX_OK;
    }
    const int after = malloc_calls;
    CHECK(good);
    CHECK(after == before);
    CHECK(fake().launch_count == 30);
    CHECK(fake().stack_depth == 1);
    CHECK(fake().stack[0] == fake_other_context());
    for (const FakeCall call :
         {FakeCall::k_cuMemAlloc_v2, FakeCall::k_cuMemcpyDtoH_v2, FakeCall::k_cuMemcpyHtoD_v2,
          FakeCall::k_cuCtxSynchronize, FakeCall::k_cuStreamSynchronize, FakeCall::k_cuCtxSetCurrent})
        CHECK(fake().calls_of(call) == 0);
}

TEST_CASE("lidx_cache: out of host memory is a status, and the cache is as it was") {
    if (!kOwnMalloc) return;
    const CacheCalls c;
    lidx_cache_desc desc;
    REQUIRE(lidx_cache_desc_init(&desc) == LIDX_OK);
    desc.pool = &c.pool;
    enum Step { kCreate, kAdd, kFork, kExtend, kAppend };
    for (const Step step : {kCreate, kAdd, kFork, kExtend, kAppend}) {
        int failures = 0;
        for (int n = 1;; ++n) {
            CAPTURE(static_cast<int>(step), n);
            REQUIRE(n < 100);
            fake_reset();
            Context context;
            REQUIRE(open(0, &context) == LIDX_OK);
            lidx_cache* cache = nullptr;
            int64_t sequences[3] = {0, 0, -7};
            const int32_t tokens[2] = {70, 70};
            lidx_cache_stats was = {}, is = {};
            was.struct_size = is.struct_size = sizeof(was);
            if (step != kCreate) {
                REQUIRE(lidx_cache_create(context.get(), &desc, &cache) == LIDX_OK);
                REQUIRE(lidx_cache_add(cache, &sequences[0]) == LIDX_OK);
                REQUIRE(lidx_cache_extend(cache, sequences, tokens, 1, nullptr) == LIDX_OK);
                REQUIRE(lidx_cache_fork(cache, sequences[0], &sequences[1]) == LIDX_OK);
                REQUIRE(lidx_cache_get_stats(cache, &was) == LIDX_OK);
            }
            malloc_fails_in = n;
            lidx_status status = LIDX_OK;
            if (step == kCreate) status = lidx_cache_create(context.get(), &desc, &cache);
            if (step == kAdd) status = lidx_cache_add(cache, &sequences[2]);
            if (step == kFork) status = lidx_cache_fork(cache, sequences[0], &sequences[2]);
            if (step == kExtend) status = lidx_cache_extend(cache, sequences, tokens, 2, nullptr);
            if (step == kAppend) status = lidx_cache_append(cache, sequences[1], &c.keys, nullptr);
            const bool struck = malloc_fails_in == 0;
            malloc_fails_in = 0;
            if (struck) {
                ++failures;
                CHECK(status == LIDX_ERR_OUT_OF_MEMORY);
                CHECK(sequences[2] == -7);
                if (step == kCreate) CHECK(cache == nullptr);
                if (step != kCreate) {
                    REQUIRE(lidx_cache_get_stats(cache, &is) == LIDX_OK);
                    CHECK((is.free_pages == was.free_pages && is.shared_pages == was.shared_pages));
                    CHECK((is.sequences == was.sequences && is.tokens == was.tokens));
                }
            } else {
                CHECK(status == LIDX_OK);
            }
            lidx_cache_destroy(cache);
            if (!struck) break;
        }
        CHECK(failures > 0);
    }
}

TEST_CASE("enqueue: nothing to do launches nothing and needs no pointer") {
    for (int field = 0; field < 4; ++field) {
        CAPTURE(field);
        fake_reset();
        Context context;
        REQUIRE(open(0, &context) == LIDX_OK);
        lidx_score_desc desc = paged_desc();
        if (field == 0) desc.batch = 0;
        if (field == 1) desc.max_rows = 0;
        if (field == 2) desc.max_tokens = 0;
        if (field == 3) desc.max_keys = 0;
        const Plan plan = make_plan(context, desc);
        lidx_score_args args;
        REQUIRE(lidx_score_args_init(&args) == LIDX_OK);
        CHECK(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
        CHECK(fake().launch_count == 0);
        CHECK(fake().map_count == 0);
    }
}

TEST_CASE("enqueue: driver failures carry the call and the number, and the context stack is balanced") {
    const struct {
        FakeCall call;
        const char* part;
    } cases[] = {
        {FakeCall::k_cuCtxPushCurrent_v2, "cuCtxPushCurrent: CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {FakeCall::k_cuTensorMapEncodeTiled,
         "cuTensorMapEncodeTiled of k, dims 128 64 40, strides 128 8464, box 128 64 1: CUDA_ERROR_ILLEGAL_ADDRESS "
         "(700)"},
        {FakeCall::k_cuLaunchKernelEx,
         "cuLaunchKernelEx of sm100_score_h64, grid 2 x 8 x 2, 128 threads, 51200 shared bytes: "
         "CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
    };
    for (const auto& row : cases) {
        CAPTURE(row.part);
        fake_reset();
        Context context;
        REQUIRE(open(0, &context) == LIDX_OK);
        const Plan plan = make_plan(context, paged_desc());
        const lidx_score_args args = good_calls::score_args();
        fake().fail_call = row.call;
        fake().fail_after = 0;
        fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
        CHECK(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_ERR_DRIVER);
        CHECK(std::string(lidx_last_error(context.get())).find(row.part) != std::string::npos);
        CHECK(lidx_driver_error(context.get()) == 700);
        CHECK(fake().stack_depth == 0);
        CHECK(fake().launch_count == 0);
        fake().fail_call = FakeCall::kCount;
    }
}

TEST_CASE("open: a retained primary context is released, modules are unloaded, the stack is balanced") {
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    CHECK(fake().retains == 1);
    CHECK(fake().modules_loaded == 10);  // three scorers, three of the cache, four of top-k
    CHECK(fake().stack_depth == 0);
    lidx_device_info info = {};
    info.struct_size = sizeof(info);
    REQUIRE(lidx_get_device_info(context.get(), &info) == LIDX_OK);
    CHECK(std::string(info.name) == "fake device");
    CHECK(std::string(info.driver_path) == fake_driver_path());
    CHECK(info.compute_capability == 100);
    CHECK(info.multiprocessors == 148);
    CHECK(info.driver_version == 13000);
    CHECK(info.ordinal == 0);
    lidx_kernel_info kernel = {};
    kernel.struct_size = sizeof(kernel);
    REQUIRE(lidx_get_kernel_info(context.get(), 6, &kernel) == LIDX_OK);
    CHECK(std::string(kernel.symbol) == "sm100_score_h32_t3");
    CHECK(kernel.registers == 77);
    CHECK(kernel.tile_tokens == 3);
    CHECK(kernel.depth == 128);
    CHECK(kernel.depth_step == 64);
    CHECK(kernel.tmem_columns == 128);
    REQUIRE(lidx_get_kernel_info(nullptr, 6, &kernel) == LIDX_OK);
    CHECK(kernel.registers == 0);
    context.reset();
    CHECK(fake().retains == 0);
    CHECK(fake().modules_loaded == 0);
    CHECK(fake().stack_depth == 0);
}

TEST_CASE("open: every driver failure on the way is an error that leaves nothing behind") {
    for (const FakeCall call :
         {FakeCall::k_cuInit, FakeCall::k_cuDriverGetVersion, FakeCall::k_cuDeviceGetCount, FakeCall::k_cuDeviceGet,
          FakeCall::k_cuDeviceGetName, FakeCall::k_cuDeviceGetAttribute, FakeCall::k_cuDevicePrimaryCtxRetain,
          FakeCall::k_cuCtxPushCurrent_v2, FakeCall::k_cuModuleLoadData, FakeCall::k_cuModuleGetFunction,
          FakeCall::k_cuFuncGetAttribute, FakeCall::k_cuFuncSetAttribute}) {
        fake_reset();
        fake().fail_call = call;
        fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
        Context context;
        const lidx_status status = open(0, &context);
        CAPTURE(static_cast<int>(call), lidx_last_error(nullptr));
        CHECK(status != LIDX_OK);
        CHECK(context == nullptr);
        CHECK(lidx_driver_error(nullptr) == 700);
        CHECK(fake().retains == 0);
        CHECK(fake().modules_loaded == 0);
        CHECK(fake().stack_depth == 0);
    }
}

TEST_CASE("open: device -1 takes the current context and insists on it afterwards") {
    fake_reset();
    Context context;
    CHECK(open(-1, &context) == LIDX_ERR_NO_CONTEXT);
    CHECK(context == nullptr);
    CHECK(std::string(lidx_last_error(nullptr)).find("device = -1: no CUDA context is current") != std::string::npos);

    fake().stack[0] = fake_other_context();
    fake().stack_depth = 1;
    REQUIRE(open(-1, &context) == LIDX_OK);
    CHECK(fake().retains == 0);
    CHECK(fake().calls_of(FakeCall::k_cuCtxPushCurrent_v2) == 0);
    const Plan plan = make_plan(context, paged_desc());
    const lidx_score_args args = good_calls::score_args();
    CHECK(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_OK);
    CHECK_FALSE(fake().launches[0].retained_current);

    fake().stack[0] = fake_primary_context();
    CHECK(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_ERR_NO_CONTEXT);
    CHECK(std::string(lidx_last_error(context.get())).find("is not the one lidx_open saw") != std::string::npos);
    fake().stack_depth = 0;
    CHECK(lidx_score_enqueue(context.get(), plan.get(), &args, nullptr) == LIDX_ERR_NO_CONTEXT);
    CHECK(fake().launch_count == 1);
    context.reset();  // unloads in the context it was opened with, current or not
    CHECK(fake().modules_loaded == 0);
    CHECK(fake().stack_depth == 0);
}

TEST_CASE("close: a context whose CUDA context is gone unloads nothing") {
    fake_reset();
    fake().stack[0] = fake_other_context();
    fake().stack_depth = 1;
    Context context;
    REQUIRE(open(-1, &context) == LIDX_OK);
    fake().fail_call = FakeCall::k_cuCtxPushCurrent_v2;
    fake().fail_result = CUDA_ERROR_INVALID_CONTEXT;
    context.reset();
    CHECK(fake().calls_of(FakeCall::k_cuModuleUnload) == 0);
    lidx_close(nullptr);
    lidx_plan_destroy(nullptr);
}

TEST_CASE("plan: serves any context of a device that has its kernel") {
    fake_reset();
    Context context;
    REQUIRE(open(0, &context) == LIDX_OK);
    const Plan plan = make_plan(context, paged_desc());
    fake().major = 9;
    Context other;
    REQUIRE(open(0, &other) == LIDX_OK);
    const lidx_score_args args = good_calls::score_args();
    CHECK(lidx_score_enqueue(other.get(), plan.get(), &args, nullptr) == LIDX_ERR_UNSUPPORTED);
    CHECK(std::string(lidx_last_error(other.get()))
              .find("sm100_score_h64 needs compute capability 10.x, this context's device has 9.0") !=
          std::string::npos);
    CHECK(fake().launch_count == 0);
}

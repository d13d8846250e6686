// SPDX-License-Identifier: Apache-2.0
// Drives every function of lidx.h with mutated structs and arguments, for a bounded time, built with the address, leak
// and undefined-behaviour sanitizers: a call ends with a status that the header names, never with LIDX_ERR_INTERNAL,
// and what was opened and made is gone at the end. The driver is test/unit's fake, which fails at random places.
// Usage: abi_fuzz SECONDS SEED. Pointers that the host reads are null or good; all others may be anything.
#include <lidx.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "test/ref/portable_rng.h"
#include "test/unit/fake_driver.h"

namespace {

using lidx::ref::Rng;

constexpr uint64_t kWords[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 100, 127, 128, 129, 255, 256, 512,
                               513, 1000, 4096, 8192, 8448, 65535, 65536, 65537, 8388480, 8388481, 0x7fffffff,
                               0x80000000, 0x80000001, 0xffffffff, uint64_t{1} << 32, (uint64_t{1} << 40) - 16,
                               uint64_t{1} << 40, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffff0,
                               0xffffffffffffffff};

struct Fuzzer {
    explicit Fuzzer(uint64_t seed) : rng(seed) {}
    bool chance(int in) { return rng.below(static_cast<uint64_t>(in)) == 0; }
    uint64_t word() { return chance(4) ? rng.next() >> rng.below(64) : kWords[rng.below(std::size(kWords))]; }

    // Up to three words of a struct become something else; fields at `host_pointers` stay what they are.
    template <class T>
    void mutate(T& value, std::initializer_list<size_t> host_pointers = {}) {
        auto* bytes = reinterpret_cast<unsigned char*>(&value);
        for (uint64_t times = rng.below(4); times > 0; --times) {
            const size_t width = chance(2) ? 4 : 8, at = rng.below(sizeof(T) / width) * width;
            bool free = true;
            for (const size_t pointer : host_pointers) free = free && (at + width <= pointer || at >= pointer + 8);
            const uint64_t to = word();
            if (free) std::memcpy(bytes + at, &to, width);
        }
    }
    void* device() { return reinterpret_cast<void*>(chance(6) ? word() : (1 + rng.below(1 << 20)) * 16); }

    Rng rng;
    uint64_t calls = 0;
    std::map<int, uint64_t> seen;   // status: calls
};

// A driver function that fails from its `after`-th call on, or none. A context that is not popped would fill the fake's
// stack: that one works.
void fail_any(Fuzzer& f, int after) {
    fake().fail_call = static_cast<FakeCall>(f.rng.below(static_cast<uint64_t>(FakeCall::kCount)));
    if (fake().fail_call == FakeCall::k_cuCtxPopCurrent_v2) fake().fail_call = FakeCall::kCount;
    fake().fail_after = after;
    fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
}

[[noreturn]] void die(const char* what, int status, const char* text) {
    std::fprintf(stderr, "abi_fuzz: %s: status %d: %s\n", what, status, text);
    std::abort();
}

// Every status is one of the header's, a failure has a text that names its function, and none is a defect of lidx.
bool good(Fuzzer& f, const char* what, const lidx_context* ctx, lidx_status status) {
    ++f.calls;
    ++f.seen[status];
    const std::string text = lidx_status_string(status);
    if (text.find("LIDX_") != 0) die(what, status, "is none of the header's");
    if (status == LIDX_ERR_INTERNAL) die(what, status, lidx_last_error(ctx));
    if (status != LIDX_OK && std::string(lidx_last_error(ctx)).find(what) != 0)
        die(what, status, lidx_last_error(ctx));
    (void)lidx_driver_error(ctx);
    return status == LIDX_OK;
}

// ---- templates: what succeeds if nothing is mutated

lidx_score_desc score_desc(Fuzzer& f) {
    lidx_score_desc d;
    lidx_score_desc_init(&d);
    constexpr int kHeads[] = {64, 32, 8, 4, 128, 16, 5};
    constexpr int kPages[] = {64, 16, 32, 128, 256, 48, 0};
    d.batch = 2, d.max_rows = 8, d.max_tokens = 4, d.heads = kHeads[f.rng.below(7)], d.depth = f.chance(3) ? 64 : 128;
    d.max_keys = 1000, d.page_size = kPages[f.rng.below(7)], d.num_pages = 40;
    d.k_page_stride = 1000 * 132 * 16, d.k_scale_page_stride = 1000 * 132 * 16, d.block_table_stride = 70;
    d.score_stride = 1024;
    d.row_map = static_cast<int32_t>(f.rng.below(3)), d.visibility = static_cast<int32_t>(f.rng.below(3));
    d.length_type = static_cast<int32_t>(f.rng.below(2)), d.weight_type = static_cast<int32_t>(f.rng.below(2));
    d.score_type = static_cast<int32_t>(f.rng.below(2));
    if (f.chance(2)) d.weight2_stride = d.heads;
    if (f.chance(3)) d.scale_block_table_stride = d.page_size != 0 ? 70 : 0;
    if (f.chance(3)) d.flags = static_cast<uint32_t>(f.rng.below(64));
    if (f.chance(6)) d.max_sms = 5;
    constexpr const char* kKernels[] = {"generic_score", "sm100_score_h64", "sm90_score_h32", "sm90_wide_h64",
                                        "sm90_decode_h32", "sm90_fast_h64", "sm90_pair_h64", "sm100_wide_h32", "",
                                        "no such kernel"};
    if (f.chance(5)) d.kernel = kKernels[f.rng.below(std::size(kKernels))];
    f.mutate(d, {offsetof(lidx_score_desc, kernel)});
    return d;
}

lidx_score_args score_args(Fuzzer& f, const lidx_score_desc& d) {
    lidx_score_args a;
    lidx_score_args_init(&a);
    a.q = f.device(), a.q_scale = f.device(), a.k_base = f.device(), a.k_scale_base = f.device();
    a.scores = f.device(), a.workspace = f.device(), a.workspace_bytes = 16;
    if (d.weight2_stride != 0) a.q_scale2 = f.device();
    if (d.page_size != 0) a.block_table = f.device();
    if (d.scale_block_table_stride != 0) a.scale_block_table = f.device();
    if (d.visibility == LIDX_SEE_WINDOW) a.row_begin = f.device(), a.row_end = f.device();
    else a.context_lens = f.device();
    if (d.row_map == LIDX_ROWS_CU_SEQLENS) a.cu_seqlens_q = static_cast<const int32_t*>(f.device());
    if (d.row_map == LIDX_ROWS_REQUEST_IDS) a.row_requests = static_cast<const int32_t*>(f.device());
    f.mutate(a);
    return a;
}

lidx_pool pool_of(Fuzzer& f) {
    lidx_pool p;
    lidx_pool_init(&p);
    p.k_base = f.device(), p.k_scale_base = f.device(), p.depth = 128, p.page_size = 64, p.num_pages = 50;
    p.k_page_stride = p.k_scale_page_stride = 8448;
    f.mutate(p);
    // Host memory for bookkeeping grows with the pool: either no legal number of pages, or few.
    if (p.num_pages > 100000 && p.num_pages < int64_t{1} << 31) p.num_pages %= 100000;
    return p;
}

// ---- one epoch: a context, what belongs to it, and calls in any order

void use_scores(Fuzzer& f, lidx_context* ctx, std::vector<lidx_plan*>& plans,
                std::vector<lidx_score_desc>& descs) {
    const lidx_score_desc desc = score_desc(f);
    lidx_support support = {};
    support.struct_size = f.chance(20) ? f.word() : sizeof(support);
    good(f, "lidx_supports", ctx,
         lidx_supports(ctx, f.chance(40) ? nullptr : &desc, f.chance(40) ? nullptr : &support));
    lidx_plan* plan = nullptr;
    if (good(f, "lidx_plan_create", ctx,
             lidx_plan_create(ctx, f.chance(40) ? nullptr : &desc, f.chance(40) ? nullptr : &plan))) {
        plans.push_back(plan);
        descs.push_back(desc);
    }
    if (plans.empty()) return;
    const size_t which = f.rng.below(plans.size());
    lidx_plan_info info = {};
    info.struct_size = f.chance(20) ? f.word() : sizeof(info);
    const lidx_plan* any = f.chance(40) ? nullptr : plans[which];
    good(f, "lidx_get_plan_info", nullptr, lidx_get_plan_info(any, f.chance(40) ? nullptr : &info));
    size_t bytes = 0;
    good(f, "lidx_plan_workspace_bytes", nullptr, lidx_plan_workspace_bytes(any, f.chance(40) ? nullptr : &bytes));
    const lidx_score_args args = score_args(f, descs[which]);
    good(f, "lidx_score_enqueue", ctx, lidx_score_enqueue(ctx, any, f.chance(40) ? nullptr : &args, f.device()));
    if (plans.size() > 8 || f.chance(8)) {
        lidx_plan_destroy(plans[which]);
        plans.erase(plans.begin() + static_cast<std::ptrdiff_t>(which));
        descs.erase(descs.begin() + static_cast<std::ptrdiff_t>(which));
    }
}

void use_keys(Fuzzer& f, lidx_context* ctx) {
    const lidx_pool pool = pool_of(f);
    const lidx_pool* any_pool = f.chance(40) ? nullptr : &pool;
    lidx_store_args store;
    lidx_store_args_init(&store);
    store.rows = 9, store.key_stride = 128, store.keys = f.device();
    store.slot_mapping = static_cast<const int64_t*>(f.device());
    store.workspace = f.device(), store.workspace_bytes = 16;
    f.mutate(store);
    good(f, "lidx_store_enqueue", ctx, lidx_store_enqueue(ctx, any_pool, f.chance(40) ? nullptr : &store, f.device()));
    lidx_gather_args gather;
    lidx_gather_args_init(&gather);
    gather.batch = 2, gather.max_rows = 100, gather.block_table_stride = 9, gather.k_out_stride = 128;
    gather.block_table = gather.cu_seqlens_k = static_cast<const int32_t*>(f.device());
    gather.k_out = f.device(), gather.k_scale_out = static_cast<float*>(f.device());
    gather.workspace = f.device(), gather.workspace_bytes = 16;
    f.mutate(gather);
    good(f, "lidx_gather_enqueue", ctx,
         lidx_gather_enqueue(ctx, any_pool, f.chance(40) ? nullptr : &gather, f.device()));
    lidx_query_args query;
    lidx_query_args_init(&query);
    query.rows = 3, query.heads = 64, query.depth = 128, query.q = f.device(), query.q_out = f.device();
    query.weights = f.device(), query.weights_out = f.device();
    f.mutate(query);
    good(f, "lidx_query_enqueue", ctx, lidx_query_enqueue(ctx, f.chance(40) ? nullptr : &query, f.device()));
}

void use_topk(Fuzzer& f, lidx_context* ctx) {
    const auto integers = [&] { return static_cast<int32_t*>(f.device()); };
    lidx_topk_desc desc;
    lidx_topk_desc_init(&desc);
    constexpr int64_t kKeys[] = {1000, 100, 65536, 131072, 1 << 20};
    constexpr int32_t kWanted[] = {512, 1, 100, 2048, 4096};
    desc.batch = 2, desc.max_rows = 8, desc.max_tokens = 4;
    desc.max_keys = desc.score_stride = kKeys[f.rng.below(std::size(kKeys))];
    desc.k = kWanted[f.rng.below(std::size(kWanted))];
    desc.row_map = static_cast<int32_t>(f.rng.below(3)), desc.visibility = static_cast<int32_t>(f.rng.below(3));
    desc.length_type = static_cast<int32_t>(f.rng.below(2)), desc.score_type = static_cast<int32_t>(f.rng.below(2));
    desc.index_kind = static_cast<int32_t>(f.rng.below(4)), desc.sort = static_cast<int32_t>(f.rng.below(2));
    if (desc.index_kind == LIDX_INDEX_PHYSICAL) desc.page_size = 64, desc.block_table_stride = 70;
    if (f.chance(3)) desc.forced_first = 4, desc.forced_last = 64;
    if (f.chance(3)) desc.flags = LIDX_FLAG_RELATIVE_COLUMNS | LIDX_FLAG_PDL;
    f.mutate(desc);
    const lidx_topk_desc* any_desc = f.chance(40) ? nullptr : &desc;
    size_t bytes = 0;
    good(f, "lidx_topk_workspace_bytes", ctx,
         lidx_topk_workspace_bytes(ctx, any_desc, f.chance(40) ? nullptr : &bytes));
    lidx_topk_args args;
    lidx_topk_args_init(&args);
    args.scores = f.device(), args.indices = integers(), args.workspace = f.device(), args.workspace_bytes = bytes;
    if (f.chance(2)) args.top_scores = static_cast<float*>(f.device()), args.counts = integers();
    if (desc.visibility == LIDX_SEE_WINDOW) args.row_begin = f.device(), args.row_end = f.device();
    else args.context_lens = f.device();
    if (desc.row_map == LIDX_ROWS_CU_SEQLENS) args.cu_seqlens_q = integers();
    if (desc.row_map == LIDX_ROWS_REQUEST_IDS) args.row_requests = integers();
    if (desc.index_kind == LIDX_INDEX_PHYSICAL) args.block_table = integers();
    if (desc.index_kind == LIDX_INDEX_OFFSET) args.offsets = integers();
    f.mutate(args);
    good(f, "lidx_topk_enqueue", ctx,
         lidx_topk_enqueue(ctx, any_desc, f.chance(40) ? nullptr : &args, f.device()));
    lidx_merge_args merge;
    lidx_merge_args_init(&merge);
    merge.rows = 3, merge.shards = 4, merge.k_in = 2048, merge.k = desc.k;
    merge.scores = static_cast<const float*>(f.device()), merge.positions = integers(), merge.indices = integers();
    if (f.chance(2)) merge.top_scores = static_cast<float*>(f.device()), merge.counts = integers();
    f.mutate(merge);
    good(f, "lidx_topk_merge_enqueue", ctx,
         lidx_topk_merge_enqueue(ctx, f.chance(40) ? nullptr : &merge, f.device()));
}

void use_index(Fuzzer& f, lidx_context* ctx) {
    const auto integers = [&] { return static_cast<int32_t*>(f.device()); };
    lidx_index_desc desc;
    lidx_index_desc_init(&desc);
    desc.score = score_desc(f);
    if (!f.chance(8)) desc.score.score_stride = 0, desc.score.flags &= ~uint32_t{LIDX_FLAG_FILL};
    desc.k = 512, desc.sort = static_cast<int32_t>(f.rng.below(2));
    desc.index_kind = static_cast<int32_t>(f.rng.below(4));
    if (f.chance(2)) desc.workspace_budget_bytes = f.rng.below(1 << 20);
    f.mutate(desc, {offsetof(lidx_index_desc, score) + offsetof(lidx_score_desc, kernel)});
    lidx_index_plan* plan = nullptr;
    if (!good(f, "lidx_index_plan_create", ctx,
              lidx_index_plan_create(ctx, f.chance(40) ? nullptr : &desc, f.chance(40) ? nullptr : &plan)))
        return;
    lidx_index_plan_info info = {};
    info.struct_size = f.chance(20) ? f.word() : sizeof(info);
    const bool known = good(f, "lidx_get_index_plan_info", nullptr,
                            lidx_get_index_plan_info(plan, f.chance(40) ? nullptr : &info));
    lidx_index_args args;
    lidx_index_args_init(&args);
    args.q = f.device(), args.q_scale = f.device(), args.k_base = f.device(), args.k_scale_base = f.device();
    args.indices = integers(), args.workspace = f.device(), args.workspace_bytes = known ? info.workspace_bytes : 0;
    const lidx_score_desc& score = desc.score;
    if (score.weight2_stride != 0) args.q_scale2 = f.device();
    if (score.page_size != 0) args.block_table = f.device();
    if (score.scale_block_table_stride != 0) args.scale_block_table = f.device();
    if (score.visibility == LIDX_SEE_WINDOW) args.row_begin = f.device(), args.row_end = f.device();
    else args.context_lens = f.device();
    if (score.row_map == LIDX_ROWS_CU_SEQLENS) args.cu_seqlens_q = integers();
    if (score.row_map == LIDX_ROWS_REQUEST_IDS) args.row_requests = integers();
    if (desc.index_kind == LIDX_INDEX_OFFSET) args.offsets = integers();
    f.mutate(args);
    // Two launches a window: a plan may well have a million, the driver that records keeps 64 launches and maps.
    fake().launch_count = fake().map_count = 0;
    if (known && info.windows <= 15)
        good(f, "lidx_index_enqueue", ctx,
             lidx_index_enqueue(ctx, plan, f.chance(40) ? nullptr : &args, f.device()));
    lidx_index_plan_destroy(plan);
    fake().launch_count = fake().map_count = 0;
}

void use_cache(Fuzzer& f, lidx_context* ctx) {
    const lidx_pool pool = pool_of(f);
    lidx_cache_desc desc;
    lidx_cache_desc_init(&desc);
    desc.pool = f.chance(40) ? nullptr : &pool;
    desc.layers = static_cast<int32_t>(f.rng.below(3));
    desc.k_layer_stride = desc.k_scale_layer_stride = 1 << 20;
    f.mutate(desc, {offsetof(lidx_cache_desc, pool)});
    lidx_cache* cache = nullptr;
    if (!good(f, "lidx_cache_create", ctx,
              lidx_cache_create(ctx, f.chance(40) ? nullptr : &desc, f.chance(40) ? nullptr : &cache)))
        return;
    constexpr int kSequences = 8;
    int64_t sequences[kSequences] = {};
    int32_t tokens[kSequences] = {};
    int used = 0;
    const auto any = [&] {
        return f.chance(10) || used == 0 ? static_cast<int64_t>(f.word()) : sequences[f.rng.below(used)];
    };
    for (int round = 0; round < 30; ++round) {
        int64_t number = 0;
        if (used < kSequences &&
            good(f, "lidx_cache_add", ctx, lidx_cache_add(cache, f.chance(40) ? nullptr : &number)))
            sequences[used++] = number;
        if (used < kSequences && f.chance(3) &&
            good(f, "lidx_cache_fork", ctx, lidx_cache_fork(cache, any(), f.chance(40) ? nullptr : &number)))
            sequences[used++] = number;
        for (int32_t& t : tokens)
            t = f.chance(20) ? static_cast<int32_t>(f.word()) : static_cast<int32_t>(f.rng.below(200));
        const auto count = static_cast<int32_t>(f.chance(20) ? -1 - static_cast<int64_t>(f.rng.below(9))
                                                             : static_cast<int64_t>(f.rng.below(used + 1)));
        const int64_t* list = f.chance(40) ? nullptr : sequences;
        good(f, "lidx_cache_extend", ctx,
             lidx_cache_extend(cache, list, f.chance(40) ? nullptr : tokens, count, f.device()));
        good(f, "lidx_cache_truncate", ctx, lidx_cache_truncate(cache, any(), static_cast<int64_t>(f.word())));
        good(f, "lidx_cache_length", ctx, lidx_cache_length(cache, any(), f.chance(40) ? nullptr : &number));
        lidx_cache_keys keys;
        lidx_cache_keys_init(&keys);
        keys.rows = 5, keys.key_stride = 128, keys.keys = f.device();
        f.mutate(keys);
        const lidx_cache_keys* any_keys = f.chance(40) ? nullptr : &keys;
        good(f, "lidx_cache_append", ctx, lidx_cache_append(cache, any(), any_keys, f.device()));
        good(f, "lidx_cache_store", ctx,
             lidx_cache_store(cache, any(), static_cast<int64_t>(f.word()), any_keys, f.device()));
        // Host arrays as large as what is asked for.
        static int32_t table[kSequences * 64], lens[kSequences];
        lidx_cache_tables tables;
        lidx_cache_tables_init(&tables);
        tables.sequences = list, tables.count = count;
        tables.block_table_stride = f.chance(20) ? -static_cast<int64_t>(f.word() >> 1) : f.rng.between(0, 64);
        tables.block_table = f.chance(40) ? nullptr : table, tables.context_lens = f.chance(40) ? nullptr : lens;
        tables.block_table_device = f.chance(2) ? nullptr : static_cast<int32_t*>(f.device());
        tables.context_lens_device = f.chance(2) ? nullptr : static_cast<int32_t*>(f.device());
        if (f.chance(20)) tables.struct_size = f.word();
        if (f.chance(20)) tables.reserved = 1;
        good(f, "lidx_cache_fill_tables", ctx,
             lidx_cache_fill_tables(cache, f.chance(40) ? nullptr : &tables, f.device()));
        for (int32_t& t : tokens) t = static_cast<int32_t>(f.rng.below(20)) - (f.chance(20) ? 20 : 0);
        static int64_t slots[kSequences * 20];
        good(f, "lidx_cache_fill_slots", ctx,
             lidx_cache_fill_slots(cache, list, f.chance(40) ? nullptr : tokens, count,
                                   f.chance(40) ? nullptr : slots));
        lidx_cache_stats stats = {};
        stats.struct_size = f.chance(20) ? f.word() : sizeof(stats);
        good(f, "lidx_cache_get_stats", ctx, lidx_cache_get_stats(cache, f.chance(40) ? nullptr : &stats));
        if (used > 0 && f.chance(3)) {
            good(f, "lidx_cache_free", ctx, lidx_cache_free(cache, sequences[used - 1]));
            --used;
        }
        fake().launch_count = fake().map_count = 0;
    }
    lidx_cache_destroy(cache);
}

void use_context_free(Fuzzer& f, lidx_context* ctx) {
    lidx_device_info device = {};
    device.struct_size = f.chance(4) ? f.word() : sizeof(device);
    good(f, "lidx_get_device_info", ctx, lidx_get_device_info(ctx, f.chance(10) ? nullptr : &device));
    lidx_kernel_info kernel = {};
    kernel.struct_size = f.chance(4) ? f.word() : sizeof(kernel);
    good(f, "lidx_get_kernel_info", ctx,
         lidx_get_kernel_info(ctx, static_cast<int32_t>(f.chance(2) ? f.word() : f.rng.below(6)),
                              f.chance(10) ? nullptr : &kernel));
    good(f, "lidx_config_init", nullptr, lidx_config_init(nullptr));
    good(f, "lidx_score_desc_init", nullptr, lidx_score_desc_init(nullptr));
    good(f, "lidx_score_args_init", nullptr, lidx_score_args_init(nullptr));
    good(f, "lidx_topk_desc_init", nullptr, lidx_topk_desc_init(nullptr));
    good(f, "lidx_topk_args_init", nullptr, lidx_topk_args_init(nullptr));
    good(f, "lidx_merge_args_init", nullptr, lidx_merge_args_init(nullptr));
    good(f, "lidx_index_desc_init", nullptr, lidx_index_desc_init(nullptr));
    good(f, "lidx_index_args_init", nullptr, lidx_index_args_init(nullptr));
    (void)lidx_status_string(static_cast<lidx_status>(f.word()));
    lidx_plan_destroy(nullptr);
    lidx_cache_destroy(nullptr);
    lidx_close(nullptr);
}

lidx_context* open_any(Fuzzer& f, const std::string& driver) {
    constexpr int kMajors[] = {10, 9, 8, 7, 12, 0};
    fake_reset();
    fake().major = kMajors[f.chance(4) ? f.rng.below(6) : f.rng.below(3)];
    fake().minor = static_cast<int>(f.rng.below(4));
    fake().multiprocessors = f.chance(4) ? 1 : 148;
    fake().stack[0] = fake_other_context();
    fake().stack_depth = f.chance(3) ? 0 : 1;
    if (f.chance(4)) fail_any(f, static_cast<int>(f.rng.below(5)));
    static const std::string endless(10000, 'x');
    const char* paths[] = {nullptr, "", "/nowhere/libcuda.so", endless.c_str()};   // null and "": $LIDX_DRIVER
    lidx_config config;
    lidx_config_init(&config);
    config.driver_path = f.chance(4) ? paths[f.rng.below(std::size(paths))] : driver.c_str();
    config.device = static_cast<int32_t>(f.rng.below(8)) == 0 ? -1 : 0;
    if (f.chance(4)) f.mutate(config, {offsetof(lidx_config, driver_path)});
    lidx_context* ctx = nullptr;
    good(f, "lidx_open", nullptr, lidx_open(f.chance(20) ? nullptr : &config, f.chance(40) ? nullptr : &ctx));
    return ctx;
}

void epoch(Fuzzer& f, const std::string& driver) {
    lidx_context* ctx = open_any(f, driver);
    std::vector<lidx_plan*> plans;
    std::vector<lidx_score_desc> descs;
    for (int round = 0; round < 40; ++round) {
        if (ctx != nullptr && f.chance(3)) {   // another call fails from now on, or none
            fake().fail_call = FakeCall::kCount;
            if (f.chance(2)) fail_any(f, 0);
        }
        if (f.chance(20)) fake().stack[0] = fake().stack[0] == nullptr ? fake_other_context() : nullptr;
        use_scores(f, ctx, plans, descs);
        use_keys(f, ctx);
        use_topk(f, ctx);
        use_index(f, ctx);
        if (round % 8 == 0) use_cache(f, ctx);
        use_context_free(f, ctx);
        fake().launch_count = fake().map_count = 0;
        if (ctx == nullptr && round > 2) break;
    }
    fake().fail_call = FakeCall::kCount;
    for (lidx_plan* plan : plans) lidx_plan_destroy(plan);
    lidx_close(ctx);
    if (fake().retains != 0 || fake().modules_loaded != 0) die("lidx_close", fake().retains, "something is still held");
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
    Fuzzer f(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    const std::string driver = fake_driver_path();
    setenv("LIDX_DRIVER", driver.c_str(), 1);
    const auto start = std::chrono::steady_clock::now();
    uint64_t epochs = 0;
    for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; ++epochs)
        epoch(f, driver);
    std::printf("abi_fuzz: %llu epochs, %llu calls", static_cast<unsigned long long>(epochs),
                static_cast<unsigned long long>(f.calls));
    for (const auto& [status, count] : f.seen)
        std::printf(", %d: %llu", status, static_cast<unsigned long long>(count));
    std::printf("\n");
    // Nothing was tested if nothing ever succeeded, or nothing ever failed.
    return f.seen[LIDX_OK] > f.calls / 50 && f.seen[LIDX_ERR_VALUE] > 0 && f.seen[LIDX_ERR_DRIVER] > 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// lidx_gather_enqueue: every byte of the outputs, what must stay untouched included.
#include "test/unit/catch_any.h"

#include <climits>

#include "cache_fixture.h"

namespace {

using namespace cache_test;

struct GatherCase {
    int32_t depth, page_size;
    bool split, use_begin, use_lens, check;
    int out_gap;   // bytes between output rows beyond the depth
    std::vector<int32_t> cu;
    int32_t max_rows;
    uint64_t seed;
    const char* what;
};

void run_gather(const GatherCase& c) {
    CAPTURE(c.what, c.depth, c.page_size, c.split, c.use_begin, c.use_lens, c.check, c.seed);
    constexpr int kPages = 11;
    const auto batch = static_cast<int32_t>(c.cu.size()) - 1;
    Rng rng(c.seed);
    const int table_width = 3;
    const int64_t k_stride = int64_t{c.page_size} * c.depth + (c.split ? 0 : (c.page_size * 4 + 15) / 16 * 16);
    const int64_t scale_stride = c.split ? c.page_size * 4 : k_stride;
    const int64_t scale_start = c.split ? 0 : int64_t{c.page_size} * c.depth;
    std::vector<uint8_t> k(static_cast<size_t>(kPages * k_stride)), k_scale(static_cast<size_t>(kPages * scale_stride));
    for (uint8_t& byte : k) byte = static_cast<uint8_t>(rng.next());
    for (uint8_t& byte : k_scale) byte = static_cast<uint8_t>(rng.next());
    std::vector<int32_t> table, begin, lens;
    const int32_t bad_ids[] = {-1, kPages, INT_MAX, INT_MIN};
    for (int i = 0; i < batch * table_width; ++i)
        table.push_back(rng.below(6) == 0 ? bad_ids[rng.below(4)] : static_cast<int32_t>(rng.below(kPages)));
    for (int b = 0; b < batch; ++b) {
        const int32_t odd_begins[] = {-1, INT_MIN, INT_MAX, table_width * c.page_size};
        begin.push_back(rng.below(5) == 0 ? odd_begins[rng.below(4)] : static_cast<int32_t>(rng.below(c.page_size)));
        const int32_t odd_lens[] = {0, -3, INT_MAX, INT_MIN};
        lens.push_back(rng.below(3) == 0 ? odd_lens[rng.below(4)]
                                         : static_cast<int32_t>(rng.below(table_width * c.page_size + 1)));
    }
    const int64_t out_stride = c.depth + c.out_gap;
    std::vector<uint8_t> out(static_cast<size_t>(c.max_rows * out_stride));
    std::vector<uint8_t> out_scale(static_cast<size_t>(c.max_rows) * 4);
    for (uint8_t& byte : out) byte = static_cast<uint8_t>(rng.next());
    for (uint8_t& byte : out_scale) byte = static_cast<uint8_t>(rng.next());

    const Machine& m = machine();
    GuardedBuffer d_k(m, "k", k.data(), k.size(), 16, true);
    GuardedBuffer d_k_scale(m, "k_scale", k_scale.data(), k_scale.size(), 4, true);
    GuardedBuffer d_table(m, "block_table", table.data(), table.size() * 4, 4, true);
    GuardedBuffer d_cu(m, "cu_seqlens_k", c.cu.data(), c.cu.size() * 4, 4, true);
    GuardedBuffer d_begin(m, "key_begin", begin.data(), begin.size() * 4, 4, true);
    GuardedBuffer d_lens(m, "context_lens", lens.data(), lens.size() * 4, 4, true);
    GuardedBuffer d_out(m, "k_out", out.data(), out.size(), 16, false);
    GuardedBuffer d_out_scale(m, "k_scale_out", out_scale.data(), out_scale.size(), 4, false);
    const uint32_t words[4] = {0, 7, 7, 7};
    GuardedBuffer d_workspace(m, "workspace", words, sizeof(words), 16, false);

    lidx_pool pool;
    REQUIRE(lidx_pool_init(&pool) == LIDX_OK);
    pool.k_base = d_k.at<void>();
    pool.k_scale_base = c.split ? d_k_scale.at<void>() : d_k.at<void>(scale_start);
    pool.depth = c.depth;
    pool.page_size = c.page_size;
    pool.num_pages = kPages;
    pool.k_page_stride = k_stride;
    pool.k_scale_page_stride = scale_stride;
    lidx_gather_args args;
    REQUIRE(lidx_gather_args_init(&args) == LIDX_OK);
    args.flags = c.check ? LIDX_FLAG_CHECK : 0;
    args.batch = batch;
    args.max_rows = c.max_rows;
    args.block_table_stride = table_width;
    args.block_table = d_table.at<int32_t>();
    args.cu_seqlens_k = d_cu.at<int32_t>();
    args.key_begin = c.use_begin ? d_begin.at<int32_t>() : nullptr;
    args.context_lens = c.use_lens ? d_lens.at<int32_t>() : nullptr;
    args.k_out = d_out.at<void>();
    args.k_out_stride = out_stride;
    args.k_scale_out = d_out_scale.at<float>();
    args.workspace = c.check ? d_workspace.at<void>() : nullptr;
    args.workspace_bytes = c.check ? 16 : 0;
    const lidx_status status = lidx_gather_enqueue(m.lidx, &pool, &args, nullptr);
    INFO(lidx_last_error(m.lidx));
    REQUIRE(status == LIDX_OK);
    m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");

    bool bad_page = false;
    int64_t gathered = 0;
    bool sorted = c.cu[0] == 0;
    for (int b = 0; b < batch; ++b) sorted = sorted && c.cu[b] <= c.cu[b + 1];
    CHECK(d_out.damage(false) == "");
    CHECK(d_out_scale.damage(false) == "");
    for (int b = 0; b < batch && sorted; ++b)
        for (int64_t row = c.cu[b]; row < c.cu[b + 1] && row < c.max_rows; ++row) {
            if (c.use_begin && begin[b] < 0) continue;
            const int64_t key = (c.use_begin ? begin[b] : 0) + row - c.cu[b];
            if (key >= int64_t{table_width} * c.page_size || (c.use_lens && key >= lens[b])) continue;
            const int32_t page = table[b * table_width + key / c.page_size];
            if (page < 0 || page >= kPages) {
                bad_page = true;
                continue;
            }
            const int64_t slot = key % c.page_size;
            std::memcpy(out.data() + row * out_stride, k.data() + page * k_stride + slot * c.depth, c.depth);
            std::memcpy(out_scale.data() + row * 4,
                        (c.split ? k_scale.data() : k.data() + scale_start) + page * scale_stride + slot * 4, 4);
            ++gathered;
        }
    CAPTURE(gathered);
    if (sorted) {
        CHECK(std::memcmp(d_out.payload(), out.data(), out.size()) == 0);
        CHECK(std::memcmp(d_out_scale.payload(), out_scale.data(), out_scale.size()) == 0);
    }
    for (GuardedBuffer* input : {&d_k, &d_k_scale, &d_table, &d_cu, &d_begin, &d_lens})
        CHECK(input->damage(true) == "");
    CHECK(d_workspace.damage(false) == "");
    uint32_t after[4];
    std::memcpy(after, d_workspace.payload(), 16);
    if (sorted) CHECK(after[0] == (c.check && bad_page ? 1u : 0u));
    CHECK((after[1] == 7 && after[2] == 7 && after[3] == 7));
}

}  // namespace

TEST_CASE("gather: depths, page sizes, layouts, ranges and lengths") {
    uint64_t seed = 1;
    for (const int32_t depth : {128, 64, 16, 112})
        for (const int32_t page_size : {64, 16, 5, 1})
            for (int options = 0; options < 8; ++options) {
                const std::vector<int32_t> cu = options % 2 != 0 ? std::vector<int32_t>{0, 0, 17, 17, 48, 80, 81}
                                                                 : std::vector<int32_t>{0, 100};
                run_gather({depth, page_size, (options & 1) != 0, (options & 2) != 0, (options & 4) != 0,
                            seed % 2 == 0, seed % 3 == 0 ? 16 : 0, cu, 100, seed, "plain"});
                ++seed;
            }
}

TEST_CASE("gather: more rows than there is room for, none at all, and one request in many") {
    run_gather({128, 16, false, false, false, true, 0, {0, 10, 40, INT_MAX}, 33, 7, "cut off"});
    run_gather({128, 16, true, true, true, true, 0, {0, 0, 0, 0, 0}, 33, 8, "all empty"});
    run_gather({64, 16, true, true, false, true, 0, {0, 0, 0, 0, 20, 20, 20, 20, 20}, 20, 9, "one of eight"});
    std::vector<int32_t> many = {0};
    for (int b = 0; b < 300; ++b) many.push_back(many.back() + b % 4);
    run_gather({128, 16, true, true, true, true, 16, many, many.back(), 10, "three hundred"});
}

TEST_CASE("gather: boundaries that make no sense stay inside the buffers") {
    run_gather({128, 16, false, false, false, true, 0, {-5, 3, 2, 40}, 33, 11, "falling"});
    run_gather({128, 16, false, true, true, true, 0, {INT_MAX, INT_MIN, INT_MAX, 7}, 33, 12, "far away"});
    run_gather({128, 16, false, true, false, false, 0, {INT_MIN, INT_MAX}, 33, 13, "from the lowest to the highest"});
}

// SPDX-License-Identifier: Apache-2.0
// lidx_index_enqueue: the keys that a sort of the oracle's scores gives, whatever the windows and the bounds.
#include "test/unit/catch_any.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "test/cache/cache_fixture.h"
#include "test/ref/lattice.h"
#include "test/ref/oracle.h"
#include "test/ref/sight.h"

namespace {

using cache_test::machine;
using check::GuardedBuffer;
using check::Machine;
using lidx::ref::Rng;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kHeads = 32, kDepth = 128;

// Requests over a paged pool, on the lattice: every kernel gives the oracle's scores bit for bit.
struct Problem {
    lidx::ref::Sight sight;
    int page_size = 64, pages = 0, width = 0;   // width: entries of a request's table
    std::vector<uint8_t> q, pool;
    std::vector<float> weights;
    std::vector<int32_t> table, lengths;
    std::vector<std::vector<float>> scores;     // of what each row sees

    int64_t page_bytes() const { return int64_t{page_size} * (kDepth + 4); }

    // tokens, lengths: per request. bad_page: a table entry of every request that leads outside the pool, or -1.
    Problem(uint64_t seed, int page_size_, bool causal, const std::vector<int>& tokens,
            const std::vector<int32_t>& lengths_, int bad_page = -1)
        : page_size(page_size_), lengths(lengths_) {
        Rng rng(seed);
        const auto batch = static_cast<int>(tokens.size());
        const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
        width = (longest + page_size - 1) / page_size + 1;
        pages = batch * width + 3;
        sight.keys = causal ? lidx::ref::SightKeys::kCausal : lidx::ref::SightKeys::kRequestLength;
        sight.batch = batch;
        sight.cu_seqlens = {0};
        for (const int count : tokens) sight.cu_seqlens.push_back(sight.cu_seqlens.back() + count);
        sight.max_tokens = *std::max_element(tokens.begin(), tokens.end());
        sight.max_rows = sight.cu_seqlens.back() + 2;   // two rows are nobody's
        sight.room = longest;
        sight.lengths.assign(lengths.begin(), lengths.end());
        const auto rows = static_cast<size_t>(sight.max_rows);
        q.resize(rows * kHeads * kDepth);
        weights.resize(rows * kHeads);
        for (size_t row = 0; row < rows; ++row)
            lidx::ref::lattice_query(rng, kHeads, kDepth, &q[row * kHeads * kDepth], &weights[row * kHeads]);
        pool.resize(static_cast<size_t>(pages * page_bytes()));
        for (int page = 0; page < pages; ++page)
            for (int slot = 0; slot < page_size; ++slot) {
                const float scale = lidx::ref::lattice_key(rng, kDepth, codes(page, slot));
                std::memcpy(scale_at(page, slot), &scale, 4);
            }
        std::vector<int32_t> ids(static_cast<size_t>(pages));
        std::iota(ids.begin(), ids.end(), 0);
        for (size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
        table.assign(ids.begin(), ids.begin() + batch * width);
        for (int b = 0; bad_page >= 0 && b < batch; ++b) table[static_cast<size_t>(b * width + bad_page)] = pages + b;
        scores.resize(rows);
        for (int64_t row = 0; row < sight.max_rows; ++row) {
            const lidx::ref::RowOwner owner = owner_of(sight, row);
            const lidx::ref::SeenKeys seen = seen_keys(sight, owner, row);
            for (int64_t key = seen.begin; key < seen.end; ++key) {
                const int32_t page = page_of(owner.request, key);
                float score = -kInf;
                if (page < pages) {
                    const auto slot = static_cast<int>(key % page_size);
                    float scale;
                    std::memcpy(&scale, scale_at(page, slot), 4);
                    score = static_cast<float>(lidx::ref::score(&q[static_cast<size_t>(row) * kHeads * kDepth],
                                                                &weights[static_cast<size_t>(row) * kHeads], kHeads,
                                                                kDepth, codes(page, slot), scale));
                }
                scores[static_cast<size_t>(row)].push_back(score);
            }
        }
    }
    int32_t page_of(int64_t request, int64_t key) const {
        return table[static_cast<size_t>(request * width + key / page_size)];
    }
    uint8_t* codes(int page, int slot) { return &pool[static_cast<size_t>(page * page_bytes() + slot * kDepth)]; }
    uint8_t* scale_at(int page, int slot) {
        return &pool[static_cast<size_t>(page * page_bytes() + page_size * kDepth + slot * 4)];
    }

    std::vector<int32_t> expected(int k, lidx_index_kind kind, lidx_sort sort) const {
        std::vector<int32_t> all;
        for (size_t row = 0; row < scores.size(); ++row) {
            const std::vector<float>& own = scores[row];
            std::vector<int32_t> order(own.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
                return own[static_cast<size_t>(a)] > own[static_cast<size_t>(b)];
            });
            order.resize(std::min(order.size(), static_cast<size_t>(k)));
            if (sort == LIDX_SORT_POSITION) std::sort(order.begin(), order.end());
            if (kind == LIDX_INDEX_PHYSICAL) {
                const int64_t request = owner_of(sight, static_cast<int64_t>(row)).request;
                for (int32_t& key : order) key = page_of(request, key) * page_size + key % page_size;
            }
            order.resize(static_cast<size_t>(k), -1);
            all.insert(all.end(), order.begin(), order.end());
        }
        return all;
    }
};

struct Options {
    int k = 20;
    size_t budget = 0;
    int64_t more_keys = 0;        // upper bounds above what is there
    int more_tokens = 0;
    lidx_index_kind kind = LIDX_INDEX_POSITION;
    lidx_sort sort = LIDX_SORT_POSITION;
    uint32_t flags = 0;
    const char* kernel = nullptr;
    int times = 1;
    int max_sms = 8;              // few CTAs: an emulated launch costs by the CTA
    int windows = 0;              // expected; 0: any
    bool found_bad = false;       // with LIDX_FLAG_CHECK
};

void run(const Problem& p, const Options& o) {
    CAPTURE(p.page_size, o.k, o.budget, o.more_keys, static_cast<int>(o.kind), static_cast<int>(o.sort), o.flags);
    const Machine& m = machine();
    lidx_index_desc desc;
    REQUIRE(lidx_index_desc_init(&desc) == LIDX_OK);
    const bool causal = p.sight.keys == lidx::ref::SightKeys::kCausal;
    desc.score.flags = o.flags | (causal ? uint32_t{LIDX_FLAG_CAUSAL} : 0);
    desc.score.batch = static_cast<int32_t>(p.sight.batch);
    desc.score.max_rows = static_cast<int32_t>(p.sight.max_rows);
    desc.score.max_tokens = static_cast<int32_t>(p.sight.max_tokens) + o.more_tokens;
    desc.score.heads = kHeads;
    desc.score.depth = kDepth;
    desc.score.max_keys = p.sight.room + o.more_keys;
    desc.score.page_size = p.page_size;
    desc.score.num_pages = p.pages;
    desc.score.k_page_stride = desc.score.k_scale_page_stride = p.page_bytes();
    desc.score.block_table_stride = p.width;
    desc.score.kernel = o.kernel;
    desc.score.max_sms = o.max_sms;
    desc.k = o.k;
    desc.index_kind = o.kind;
    desc.sort = o.sort;
    desc.workspace_budget_bytes = o.budget;
    lidx_index_plan* plan = nullptr;
    const lidx_status made = lidx_index_plan_create(m.lidx, &desc, &plan);
    INFO(lidx_last_error(m.lidx));
    REQUIRE(made == LIDX_OK);
    lidx_index_plan_info info = {};
    info.struct_size = sizeof(info);
    REQUIRE(lidx_get_index_plan_info(plan, &info) == LIDX_OK);
    if (o.budget != 0) CHECK(info.workspace_bytes <= o.budget);
    if (o.windows != 0) CHECK(info.windows == o.windows);
    CHECK(int64_t{info.windows} * info.window_rows >= p.sight.max_rows);

    const std::vector<int32_t> expected = p.expected(o.k, o.kind, o.sort);
    std::vector<uint32_t> workspace(info.workspace_bytes / 4, 0x7f800000u);   // +inf: the best score there is
    std::fill(workspace.begin(), workspace.begin() + static_cast<int64_t>(info.zero_bytes / 4), 0u);
    const std::vector<int32_t> poison(expected.size(), 0x55aa55aa);
    GuardedBuffer d_q(m, "q", p.q.data(), p.q.size(), 16, true);
    GuardedBuffer d_weights(m, "q_scale", p.weights.data(), p.weights.size() * 4, 16, true);
    GuardedBuffer d_pool(m, "pool", p.pool.data(), p.pool.size(), 16, true);
    GuardedBuffer d_table(m, "block_table", p.table.data(), p.table.size() * 4, 4, true);
    GuardedBuffer d_lengths(m, "context_lens", p.lengths.data(), p.lengths.size() * 4, 4, true);
    GuardedBuffer d_cu(m, "cu_seqlens_q", p.sight.cu_seqlens.data(), p.sight.cu_seqlens.size() * 4, 4, true);
    GuardedBuffer d_indices(m, "indices", poison.data(), poison.size() * 4, 4, false);
    GuardedBuffer d_workspace(m, "workspace", workspace.data(), info.workspace_bytes, 16, false);
    lidx_index_args args;
    REQUIRE(lidx_index_args_init(&args) == LIDX_OK);
    args.q = d_q.at<void>();
    args.q_scale = d_weights.at<void>();
    args.k_base = d_pool.at<void>();
    args.k_scale_base = d_pool.at<void>(int64_t{p.page_size} * kDepth);
    args.block_table = d_table.at<void>();
    args.context_lens = d_lengths.at<void>();
    args.cu_seqlens_q = d_cu.at<int32_t>();
    args.indices = d_indices.at<int32_t>();
    args.workspace = d_workspace.at<void>();
    args.workspace_bytes = info.workspace_bytes;
    std::vector<int32_t> indices(expected.size());
    for (int i = 0; i < o.times; ++i) {
        d_indices.restore();
        const lidx_status done = lidx_index_enqueue(m.lidx, plan, &args, nullptr);
        INFO(lidx_last_error(m.lidx));
        REQUIRE(done == LIDX_OK);
        m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CHECK(d_indices.damage(false) == "");
        CHECK(d_workspace.damage(false) == "");
        std::memcpy(indices.data(), d_indices.payload(), indices.size() * 4);
        if (indices != expected) {
            const auto at = std::mismatch(indices.begin(), indices.end(), expected.begin());
            FAIL_CHECK("run " << i << ": index " << at.first - indices.begin() << " is " << *at.first << ", expected "
                              << *at.second);
        }
    }
    for (size_t i = 0; i < info.zero_bytes / 4; ++i) {
        uint32_t word;
        std::memcpy(&word, d_workspace.payload() + i * 4, 4);
        CHECK(word == (i == 0 && o.found_bad ? 1u : 0u));
    }
    lidx_index_plan_destroy(plan);
}

// Bytes of a window of `rows` rows of scores without slices.
size_t room_for(const Problem& p, int64_t rows, int64_t more_keys = 0) {
    return static_cast<size_t>(rows * ((p.sight.room + more_keys + 31) / 32 * 128));
}

}  // namespace

TEST_CASE("index: decode is one window, the oracle's keys at every page size") {
    for (const int page_size : {32, 64, 128})
        for (const bool causal : {false, true}) {
            const Problem p(static_cast<uint64_t>(page_size), page_size, causal, {1, 2, 0, 1, 3},
                            {300, 17, 40, 0, 419});
            Options o;
            o.windows = 1;
            o.max_sms = page_size == 64 ? 0 : 8;
            run(p, o);
            o.max_sms = 8;
            o.sort = LIDX_SORT_SCORE;
            o.kind = LIDX_INDEX_PHYSICAL;
            o.flags = LIDX_FLAG_PDL;
            o.more_keys = 5000;   // upper bounds far above what is there
            o.more_tokens = 3;
            run(p, o);
        }
}

TEST_CASE("index: causal prefill in windows of any size is prefill in one") {
    for (const int page_size : {32, 64, 128}) {
        const Problem p(100 + static_cast<uint64_t>(page_size), page_size, true, {13, 0, 21, 3}, {150, 9, 333, 3});
        Options o;
        o.k = 64;
        run(p, o);
        for (const int64_t rows : {1, 7, 16, 38}) {
            o.budget = room_for(p, rows);
            o.flags = rows % 2 == 0 ? uint32_t{LIDX_FLAG_PDL} : 0;
            o.kernel = rows == 7 ? "generic_score" : nullptr;
            o.windows = rows == 1 ? 39 : 0;
            if (rows == 1 && page_size != 64) continue;
            run(p, o);
        }
    }
}

TEST_CASE("index: repeated runs give the same bits") {
    const Problem p(7, 64, true, {9, 6}, {220, 150});
    Options o;
    o.k = 100;
    o.sort = LIDX_SORT_SCORE;
    o.budget = room_for(p, 8);
    o.times = 20;
    o.max_sms = 2;
    run(p, o);
}

TEST_CASE("index: long rows are shared out in every window") {
    const Problem p(8, 128, false, {1, 1}, {135000, 500});
    Options o;
    o.k = 100;
    o.budget = room_for(p, 2) + 65536;
    o.windows = 2;
    run(p, o);
}

TEST_CASE("index: keys on illegal pages count as -inf, and are told of") {
    for (const bool causal : {false, true}) {
        const Problem p(9, 32, causal, {3, 1, 9}, {200, 150, 97}, 1);
        Options o;
        o.k = 190;   // more than the legal keys
        o.flags = LIDX_FLAG_CHECK;
        o.found_bad = true;
        run(p, o);
        o.kernel = "generic_score";
        o.k = 50;
        o.budget = room_for(p, 4) + 128;
        run(p, o);
    }
}

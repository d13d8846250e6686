// SPDX-License-Identifier: Apache-2.0
// lidx_index_enqueue under test: problems whose scores are known exactly, what a sort makes of them, and a call with
// all its buffers.
#pragma once
#include "test/unit/catch_any.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "test/cache/cache_fixture.h"
#include "test/ref/bf16.h"
#include "test/ref/lattice.h"
#include "test/ref/oracle.h"
#include "test/ref/sight.h"

namespace index_test {

using cache_test::machine;
using check::GuardedBuffer;
using check::Machine;
using lidx::ref::Rng;
using lidx::ref::SightKeys;
using lidx::ref::SightRows;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kHeads = 32, kDepth = 128;

struct Shape {
    uint64_t seed = 1;
    int page_size = 64;               // 0: contiguous
    bool causal = false;
    std::vector<int> tokens;          // of each request
    std::vector<int32_t> lengths;     // of each request, in tokens
    int bad_page = -1;                // a table entry of every request that leads outside the pool
    SightRows rows = SightRows::kCuSeqlens;
    SightKeys keys = SightKeys::kRequestLength;   // kRowLength, kWindow: drawn within the request's length
    int ratio = 1;
    bool wide = false;                // int64 lengths and windows
    bool bf16 = false;
    int64_t columns = 0;              // relative columns, so many; 0: columns are keys
    int64_t room = 0;                 // keys that fit; 0: as many as the longest request has
    int more_entries = 0;             // of a request's table, which nobody may read
    bool own_scales = false;          // scales in a pool of their own, with a table and a number of pages of its own
    bool two_factors = false;         // weights are products: fp32 in rows with a gap, and bf16
};

// Their bytes as int64 or int32.
inline std::vector<uint8_t> integers(const std::vector<int64_t>& from, bool wide) {
    const size_t each = wide ? 8 : 4;
    std::vector<uint8_t> bytes(from.size() * each);
    for (size_t i = 0; i < from.size(); ++i) {
        const auto narrow = static_cast<int32_t>(from[i]);
        std::memcpy(bytes.data() + i * each, wide ? static_cast<const void*>(&from[i]) : &narrow, each);
    }
    return bytes;
}

// On the lattice: every kernel gives the oracle's scores bit for bit.
struct Problem {
    Shape shape;
    lidx::ref::Sight sight;
    int pages = 0, width = 0;                   // width: entries of a request's table
    int64_t slots = 0;                          // keys of a page
    std::vector<uint8_t> q, pool;
    std::vector<float> weights;                 // [max_rows, weight_stride]
    std::vector<uint16_t> weights2;             // [max_rows, kHeads], bf16, shape.two_factors
    std::vector<float> scales;                  // [scale_pages, slots], shape.own_scales
    std::vector<int32_t> table, scale_table;
    std::vector<std::vector<float>> scores;     // of what each row sees
    std::vector<int64_t> first;                 // the first key that it sees

    int weight_stride() const { return shape.two_factors ? kHeads + 3 : kHeads; }
    int64_t scale_pages() const { return static_cast<int64_t>(scales.size()) / slots; }
    int64_t page_bytes() const { return (slots * (kDepth + 4) + 15) / 16 * 16; }
    bool contiguous() const { return shape.page_size == 0; }

    explicit Problem(const Shape& of) : shape(of) {
        Rng rng(shape.seed);
        const auto batch = static_cast<int>(shape.tokens.size());
        const int32_t longest = *std::max_element(shape.lengths.begin(), shape.lengths.end());
        sight.rows = shape.rows;
        sight.keys = shape.causal ? SightKeys::kCausal : shape.keys;
        sight.batch = batch;
        sight.ratio = shape.ratio;
        sight.room = shape.room != 0 ? shape.room : longest;
        slots = contiguous() ? sight.room : shape.page_size;
        width = contiguous() ? 0 : static_cast<int>((sight.room + slots - 1) / slots) + 1;
        pages = contiguous() ? batch : batch * width + 3;
        find_rows(rng);
        const auto rows = static_cast<size_t>(sight.max_rows);
        q.resize(rows * kHeads * kDepth);
        weights.resize(rows * static_cast<size_t>(weight_stride()), std::numeric_limits<float>::quiet_NaN());
        for (size_t row = 0; row < rows; ++row)
            lidx::ref::lattice_query(rng, kHeads, kDepth, &q[row * kHeads * kDepth],
                                     &weights[row * static_cast<size_t>(weight_stride())]);
        if (shape.two_factors)   // powers of two keep the lattice
            for (size_t i = 0; i < rows * kHeads; ++i)
                weights2.push_back(lidx::ref::bf16_encode(static_cast<float>(uint64_t{1} << rng.below(3))));
        pool.resize(static_cast<size_t>(pages * page_bytes()));
        for (int page = 0; page < pages; ++page)
            for (int slot = 0; slot < slots; ++slot) {
                const float scale = lidx::ref::lattice_key(rng, kDepth, codes(page, slot));
                std::memcpy(scale_at(page, slot), &scale, 4);
            }
        std::vector<int32_t> ids(static_cast<size_t>(pages));
        std::iota(ids.begin(), ids.end(), 0);
        for (size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
        table.assign(ids.begin(), ids.begin() + batch * width);
        for (int b = 0; shape.bad_page >= 0 && b < batch; ++b)
            table[static_cast<size_t>(b * width + shape.bad_page)] = pages + b;
        if (shape.own_scales) move_scales(rng);
        widen_tables();
        find_scores();
    }
    int32_t page_of(int64_t request, int64_t key) const {
        return contiguous() ? static_cast<int32_t>(request)
                            : table[static_cast<size_t>(request * width + key / slots)];
    }
    uint8_t* codes(int64_t page, int64_t slot) {
        return &pool[static_cast<size_t>(page * page_bytes() + slot * kDepth)];
    }
    uint8_t* scale_at(int64_t page, int64_t slot) {
        return &pool[static_cast<size_t>(page * page_bytes() + slots * kDepth + slot * 4)];
    }

    struct Selection {
        std::vector<int32_t> indices;   // [rows, k]
        std::vector<float> scores;      // [rows, k]
        std::vector<int32_t> counts;    // [rows]
    };
    Selection expected(int k, lidx_index_kind kind, lidx_sort sort) const {
        Selection all;
        for (size_t row = 0; row < scores.size(); ++row) {
            const std::vector<float>& own = scores[row];
            std::vector<int32_t> order(own.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
                return own[static_cast<size_t>(a)] > own[static_cast<size_t>(b)];
            });
            order.resize(std::min(order.size(), static_cast<size_t>(k)));
            if (sort == LIDX_SORT_POSITION) std::sort(order.begin(), order.end());
            all.counts.push_back(static_cast<int32_t>(order.size()));
            const int64_t request = owner_of(sight, static_cast<int64_t>(row)).request;
            for (int i = 0; i < k; ++i) {
                const bool chosen = static_cast<size_t>(i) < order.size();
                const int32_t at = chosen ? order[static_cast<size_t>(i)] : 0;
                const auto key = static_cast<int32_t>(first[row]) + at;
                int32_t index = kind == LIDX_INDEX_RELATIVE ? at : key;
                if (chosen && kind == LIDX_INDEX_PHYSICAL)
                    index = page_of(request, key) * shape.page_size + key % shape.page_size;
                if (kind == LIDX_INDEX_OFFSET) index += offset(row);
                all.indices.push_back(chosen ? index : -1);
                all.scores.push_back(chosen ? own[static_cast<size_t>(at)] : -kInf);
            }
        }
        return all;
    }
    static int32_t offset(size_t row) { return 1000003 * static_cast<int32_t>(row % 1000) - 7; }

private:
    // Whose rows are whose; two rows are nobody's.
    void find_rows(Rng& rng) {
        const std::vector<int>& tokens = shape.tokens;
        sight.cu_seqlens = {0};
        for (const int count : tokens) sight.cu_seqlens.push_back(sight.cu_seqlens.back() + count);
        sight.max_tokens = *std::max_element(tokens.begin(), tokens.end());
        const bool fixed = sight.rows == SightRows::kFixed;
        sight.max_rows = (fixed ? sight.batch * sight.max_tokens : sight.cu_seqlens.back()) + 2;
        for (int32_t b = 0; b < sight.batch; ++b)
            sight.row_requests.insert(sight.row_requests.end(), static_cast<size_t>(tokens[static_cast<size_t>(b)]), b);
        sight.row_requests.resize(static_cast<size_t>(sight.cu_seqlens.back()) + 2, -1);
        sight.lengths.assign(shape.lengths.begin(), shape.lengths.end());
        if (sight.keys != SightKeys::kRowLength && sight.keys != SightKeys::kWindow) return;
        sight.lengths.clear();
        for (int64_t row = 0; row < sight.max_rows; ++row) {
            const lidx::ref::RowOwner owner = owner_of(sight, row);
            const int64_t length = owner.request < 0 ? 99 : shape.lengths[static_cast<size_t>(owner.request)];
            const int64_t a = rng.between(-3, static_cast<int>(length)), b = rng.between(-3, static_cast<int>(length));
            if (sight.keys == SightKeys::kRowLength) {
                sight.lengths.push_back(a);
                continue;
            }
            // One row in four goes beyond what there is, one may end before it begins.
            sight.begins.push_back(row % 4 == 0 ? a : std::min(a, b));
            sight.ends.push_back(row % 4 == 0 ? b : row % 4 == 1 ? length + 1000 : std::max(a, b));
        }
    }
    // Each table entry's scales go to a page of the second pool; nothing is left in the first.
    void move_scales(Rng& rng) {
        const auto entries = static_cast<int>(table.size());
        std::vector<int32_t> ids(static_cast<size_t>(entries) + 5);
        std::iota(ids.begin(), ids.end(), 0);
        for (size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
        scale_table.assign(ids.begin(), ids.begin() + entries);
        scales.assign(ids.size() * static_cast<size_t>(slots), std::numeric_limits<float>::quiet_NaN());
        for (int entry = 0; entry < entries; ++entry)
            if (table[static_cast<size_t>(entry)] < pages)
                std::memcpy(&scales[static_cast<size_t>(scale_table[static_cast<size_t>(entry)] * slots)],
                            scale_at(table[static_cast<size_t>(entry)], 0), static_cast<size_t>(slots) * 4);
        for (int page = 0; page < pages; ++page) std::memset(scale_at(page, 0), 0xff, static_cast<size_t>(slots) * 4);
    }
    float scale_of(int64_t request, int64_t key) {
        if (shape.own_scales)
            return scales[static_cast<size_t>(scale_table[static_cast<size_t>(request * width + key / slots)] * slots +
                                              key % slots)];
        float scale;
        std::memcpy(&scale, scale_at(page_of(request, key), key % slots), 4);
        return scale;
    }
    void widen_tables() {
        if (shape.more_entries == 0) return;
        const std::vector<int32_t> narrow = table;
        table.clear();
        for (int64_t b = 0; b < sight.batch; ++b) {
            table.insert(table.end(), narrow.begin() + b * width, narrow.begin() + (b + 1) * width);
            table.insert(table.end(), static_cast<size_t>(shape.more_entries), -1);
        }
        width += shape.more_entries;
    }
    void find_scores() {
        scores.resize(static_cast<size_t>(sight.max_rows));
        first.resize(scores.size());
        for (int64_t row = 0; row < sight.max_rows; ++row) {
            const lidx::ref::RowOwner owner = owner_of(sight, row);
            lidx::ref::SeenKeys seen = seen_keys(sight, owner, row);
            if (shape.columns != 0) seen.end = std::min(seen.end, seen.begin + shape.columns);
            first[static_cast<size_t>(row)] = seen.begin;
            const float* factor = &weights[static_cast<size_t>(row * weight_stride())];
            std::vector<float> product(factor, factor + kHeads);
            for (size_t h = 0; shape.two_factors && h < kHeads; ++h)
                product[h] *= lidx::ref::bf16_decode(weights2[static_cast<size_t>(row) * kHeads + h]);
            for (int64_t key = seen.begin; key < seen.end; ++key) {
                const int32_t page = page_of(owner.request, key);
                float score = -kInf;
                if (page < pages) {
                    score = static_cast<float>(lidx::ref::score(&q[static_cast<size_t>(row) * kHeads * kDepth],
                                                                product.data(), kHeads, kDepth,
                                                                codes(page, key % slots),
                                                                scale_of(owner.request, key)));
                    if (shape.bf16) score = lidx::ref::bf16_decode(lidx::ref::bf16_encode(score));
                }
                scores[static_cast<size_t>(row)].push_back(score);
            }
        }
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
    int max_sms = 3;              // few CTAs: an emulated launch costs by the CTA
    int windows = 0;              // expected; 0: any
    bool found_bad = false;       // with LIDX_FLAG_CHECK
    bool optional = true;         // scores and counts are wanted
};

inline lidx_index_desc describe(const Problem& p, const Options& o) {
    lidx_index_desc desc;
    REQUIRE(lidx_index_desc_init(&desc) == LIDX_OK);
    lidx_score_desc& score = desc.score;
    score.flags = o.flags | (p.sight.keys == SightKeys::kCausal ? uint32_t{LIDX_FLAG_CAUSAL} : 0) |
                  (p.shape.columns != 0 ? uint32_t{LIDX_FLAG_RELATIVE_COLUMNS} : 0);
    score.row_map = static_cast<int32_t>(p.sight.rows);
    score.batch = static_cast<int32_t>(p.sight.batch);
    score.max_rows = static_cast<int32_t>(p.sight.max_rows);
    score.max_tokens = static_cast<int32_t>(p.sight.max_tokens) + o.more_tokens;
    score.visibility = p.sight.keys == SightKeys::kWindow      ? LIDX_SEE_WINDOW
                       : p.sight.keys == SightKeys::kRowLength ? LIDX_SEE_ROW_LENGTH
                                                               : LIDX_SEE_REQUEST_LENGTH;
    score.length_type = p.shape.wide ? LIDX_INT64 : LIDX_INT32;
    score.compress_ratio = p.shape.ratio;
    score.score_type = p.shape.bf16 ? LIDX_BF16 : LIDX_FP32;
    score.score_columns = p.shape.columns;
    score.heads = kHeads;
    score.depth = kDepth;
    score.max_keys = p.sight.room + o.more_keys;
    score.page_size = p.shape.page_size;
    score.num_pages = p.pages;
    score.k_page_stride = score.k_scale_page_stride = p.page_bytes();
    score.block_table_stride = p.width;
    score.weight_stride = p.weight_stride();
    if (p.shape.two_factors) score.weight2_type = LIDX_BF16, score.weight2_stride = kHeads;
    if (p.shape.own_scales) {
        score.scale_num_pages = p.scale_pages();
        score.scale_block_table_stride = p.width;
        score.k_scale_page_stride = p.slots * 4;
    }
    score.kernel = o.kernel;
    score.max_sms = o.max_sms;
    desc.k = o.k;
    desc.index_kind = o.kind;
    desc.sort = o.sort;
    desc.workspace_budget_bytes = o.budget;
    return desc;
}

// A plan, its buffers, and what they must hold after an enqueue.
class Call {
public:
    Call(const Problem& p, const Options& options) : o(options), m(machine()) {
        const lidx_index_desc desc = describe(p, o);
        const lidx_status made = lidx_index_plan_create(m.lidx, &desc, &plan);
        INFO(lidx_last_error(m.lidx));
        REQUIRE(made == LIDX_OK);
        info.struct_size = sizeof(info);
        REQUIRE(lidx_get_index_plan_info(plan, &info) == LIDX_OK);
        if (o.budget != 0) CHECK(info.workspace_bytes <= o.budget);
        if (o.windows != 0) CHECK(info.windows == o.windows);
        CHECK(int64_t{info.windows} * info.window_rows >= p.sight.max_rows);

        const auto rows = static_cast<size_t>(p.sight.max_rows), cells = rows * static_cast<size_t>(o.k);
        std::vector<uint32_t> workspace(sparse() ? 0 : info.workspace_bytes / 4, 0x7f800000u);   // +inf
        if (!sparse()) std::fill_n(workspace.begin(), info.zero_bytes / 4, 0u);
        const std::vector<int32_t> poison(cells, 0x55aa55aa);
        std::vector<int32_t> offsets(rows);
        for (size_t row = 0; row < rows; ++row) offsets[row] = Problem::offset(row);
        const auto input = [&](const char* name, const void* data, size_t bytes, size_t alignment) {
            buffers.push_back(std::make_unique<GuardedBuffer>(m, name, data, bytes, alignment, true));
            return buffers.back().get();
        };
        const size_t wide = p.shape.wide ? 8 : 4;
        d_q = input("q", p.q.data(), p.q.size(), 16);
        d_weights = input("q_scale", p.weights.data(), p.weights.size() * 4, 16);
        d_pool = input("pool", p.pool.data(), p.pool.size(), 16);
        const GuardedBuffer* d_weights2 = input("q_scale2", p.weights2.data(), p.weights2.size() * 2, 2);
        const GuardedBuffer* d_scale_pool = input("k_scale", p.scales.data(), p.scales.size() * 4, 4);
        const GuardedBuffer* d_scale_table =
            input("scale_block_table", p.scale_table.data(), p.scale_table.size() * 4, 4);
        d_table = input("block_table", p.table.data(), p.table.size() * 4, 4);
        const std::vector<uint8_t> lengths = integers(p.sight.lengths, p.shape.wide);
        const std::vector<uint8_t> begins = integers(p.sight.begins, p.shape.wide);
        const std::vector<uint8_t> ends = integers(p.sight.ends, p.shape.wide);
        d_lengths = input("context_lens", lengths.data(), lengths.size(), wide);
        d_begins = input("row_begin", begins.data(), begins.size(), wide);
        d_ends = input("row_end", ends.data(), ends.size(), wide);
        const GuardedBuffer* d_cu = input("cu_seqlens_q", p.sight.cu_seqlens.data(), p.sight.cu_seqlens.size() * 4, 4);
        const GuardedBuffer* d_requests =
            input("row_requests", p.sight.row_requests.data(), p.sight.row_requests.size() * 4, 4);
        const GuardedBuffer* d_offsets = input("offsets", offsets.data(), rows * 4, 4);
        d_indices = std::make_unique<GuardedBuffer>(m, "indices", poison.data(), cells * 4, 4, false);
        d_scores = std::make_unique<GuardedBuffer>(m, "top_scores", poison.data(), cells * 4, 4, false);
        d_counts = std::make_unique<GuardedBuffer>(m, "counts", poison.data(), rows * 4, 4, false);
        if (!sparse())
            d_workspace =
                std::make_unique<GuardedBuffer>(m, "workspace", workspace.data(), info.workspace_bytes, 16, false);
        else m.expect(m.driver.cuMemAlloc(&sparse_workspace, info.workspace_bytes), "cuMemAlloc");

        REQUIRE(lidx_index_args_init(&args) == LIDX_OK);
        args.q = d_q->at<void>();
        args.q_scale = d_weights->at<void>();
        args.q_scale2 = d_weights2->at<void>();
        args.k_base = d_pool->at<void>();
        args.k_scale_base = p.shape.own_scales ? d_scale_pool->at<void>() : d_pool->at<void>(p.slots * kDepth);
        args.scale_block_table = d_scale_table->at<void>();
        args.block_table = d_table->at<void>();
        if (p.sight.keys != SightKeys::kWindow) args.context_lens = d_lengths->at<void>();
        args.row_begin = d_begins->at<void>();
        args.row_end = d_ends->at<void>();
        if (p.sight.rows == SightRows::kCuSeqlens) args.cu_seqlens_q = d_cu->at<int32_t>();
        if (p.sight.rows == SightRows::kRequestIds) args.row_requests = d_requests->at<int32_t>();
        if (o.kind == LIDX_INDEX_OFFSET) args.offsets = d_offsets->at<int32_t>();
        args.indices = d_indices->at<int32_t>();
        if (o.optional) args.top_scores = d_scores->at<float>(), args.counts = d_counts->at<int32_t>();
        args.workspace = sparse() ? reinterpret_cast<void*>(sparse_workspace) : d_workspace->at<void>();
        args.workspace_bytes = info.workspace_bytes;
    }
    ~Call() {
        lidx_index_plan_destroy(plan);
        if (sparse_workspace != 0) m.driver.cuMemFree(sparse_workspace);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Another problem of the same sizes takes this one's place.
    void replace(const Problem& p) const {
        d_q->replace(p.q.data());
        d_weights->replace(p.weights.data());
        d_pool->replace(p.pool.data());
        d_table->replace(p.table.data());
        d_lengths->replace(integers(p.sight.lengths, p.shape.wide).data());
        if (p.sight.keys != SightKeys::kWindow) return;
        d_begins->replace(integers(p.sight.begins, p.shape.wide).data());
        d_ends->replace(integers(p.sight.ends, p.shape.wide).data());
    }
    // The outputs are poison again.
    void restore() const {
        for (const GuardedBuffer* output : {d_indices.get(), d_scores.get(), d_counts.get()}) output->restore();
    }
    void enqueue(CUstream stream) const {
        const lidx_status done = lidx_index_enqueue(m.lidx, plan, &args, stream);
        INFO(lidx_last_error(m.lidx));
        REQUIRE(done == LIDX_OK);
    }
    void verify(const Problem& p) {
        const Problem::Selection expected = p.expected(o.k, o.kind, o.sort);
        for (const auto& buffer : buffers) CHECK(buffer->damage(true) == "");
        for (GuardedBuffer* output : {d_indices.get(), d_scores.get(), d_counts.get()})
            CHECK(output->damage(!o.optional && output != d_indices.get()) == "");
        same<int32_t>("index", *d_indices, expected.indices);
        if (o.optional) same<float>("score", *d_scores, expected.scores);
        if (o.optional) same<int32_t>("count", *d_counts, expected.counts);
        if (sparse()) return;
        CHECK(d_workspace->damage(false) == "");
        for (size_t i = 0; i < info.zero_bytes / 4; ++i) {
            uint32_t word;
            std::memcpy(&word, d_workspace->payload() + i * 4, 4);
            CHECK(word == (i == 0 && o.found_bad ? 1u : 0u));
        }
    }

    lidx_index_plan_info info = {};

private:
    // Far larger than what is ever touched: no copy of it on the host, and memory that is new is zero.
    bool sparse() const { return info.workspace_bytes > size_t{1} << 30; }
    template <typename T>
    static void same(const char* what, const GuardedBuffer& buffer, const std::vector<T>& expected) {
        std::vector<T> got(expected.size());
        if (!got.empty()) std::memcpy(got.data(), buffer.payload(), got.size() * sizeof(T));
        if (got == expected) return;
        const auto at = std::mismatch(got.begin(), got.end(), expected.begin());
        FAIL_CHECK(what << " " << at.first - got.begin() << " is " << *at.first << ", expected " << *at.second);
    }

    const Options o;
    const Machine& m;
    lidx_index_plan* plan = nullptr;
    lidx_index_args args = {};
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;   // inputs
    GuardedBuffer *d_q, *d_weights, *d_pool, *d_table, *d_lengths, *d_begins, *d_ends;
    std::unique_ptr<GuardedBuffer> d_indices, d_scores, d_counts, d_workspace;
    CUdeviceptr sparse_workspace = 0;
};

inline void run(const Problem& p, const Options& o, int times = 1) {
    CAPTURE(p.shape.seed, p.shape.page_size, static_cast<int>(p.sight.rows), static_cast<int>(p.sight.keys),
            p.shape.ratio, p.shape.wide, p.shape.bf16, p.shape.columns, o.k, o.budget, o.more_keys,
            static_cast<int>(o.kind), static_cast<int>(o.sort), o.flags);
    Call call(p, o);
    for (int i = 0; i < std::max(times, cache_test::launches()); ++i) {
        call.restore();
        call.enqueue(nullptr);
        machine().expect(machine().driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CAPTURE(i);
        call.verify(p);
    }
}

// Bytes of a window of `rows` rows of scores without slices.
inline size_t room_for(const Problem& p, int64_t rows, int64_t more_keys = 0) {
    const int64_t columns = p.shape.columns != 0 ? p.shape.columns : p.sight.room + more_keys;
    return static_cast<size_t>(rows * ((columns * (p.shape.bf16 ? 2 : 4) + 127) / 128 * 128));
}

}  // namespace index_test

// SPDX-License-Identifier: Apache-2.0
// lidx_topk_merge_enqueue: what shards of a row choose, merged, is what a sort of the whole row gives.
#include "test/unit/catch_any.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "test/cache/cache_fixture.h"

namespace {

using cache_test::machine;
using check::GuardedBuffer;
using check::Machine;
using lidx::ref::Rng;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

struct Entry {
    float score;
    int32_t position;
};
bool before(const Entry& a, const Entry& b) {
    if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(b.score);
    if (!std::isnan(a.score) && a.score != b.score) return a.score > b.score;
    return a.position < b.position;
}
bool by_position(const Entry& a, const Entry& b) { return a.position < b.position; }

enum class Values { kNormal, kEqual, kTwo, kMixed, kNan, kCount };
float draw(Values values, Rng& rng) {
    switch (values) {
        case Values::kEqual: return 2.0f;
        case Values::kTwo: return rng.below(40) != 0 ? -1.0f : 7.0f;
        case Values::kMixed: {
            const float some[] = {kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -kNan, static_cast<float>(rng.heavy_tailed())};
            return some[rng.below(8)];
        }
        case Values::kNan: return rng.below(30) != 0 ? kNan : -kInf;
        default: return static_cast<float>(rng.heavy_tailed());
    }
}

struct Case {
    int64_t rows, keys;        // keys of a whole row; row r has keys - 13 r of them
    int32_t shards, k_in, k;   // k_in: room in a list
    bool interleaved = false;  // key i is shard i % shards's, else shards have consecutive keys
    bool gathered = false;     // [shards, rows, k_in], as an all-gather leaves lists; else [rows, shards, k_in]
    lidx_sort sort = LIDX_SORT_POSITION;
    Values values = Values::kNormal;
    bool optional = true;      // scores and counts are wanted
    int gap = 0;               // elements between lists, and between rows of the results
    size_t alignment = 16;     // of the lists, bytes: of 4 they are read in every pass, as they are with a gap
    int32_t spread = 0;        // positions between keys of the second half
};

void run(const Case& c, uint64_t seed, int times = 1) {
    CAPTURE(c.rows, c.keys, c.shards, c.k_in, c.k, c.interleaved, c.gathered, static_cast<int>(c.sort),
            static_cast<int>(c.values), c.gap, c.alignment, c.spread, seed);
    Rng rng(seed);
    const int64_t list = c.k_in + c.gap, lists = c.rows * c.shards;
    const int64_t row_stride = c.gathered ? list : c.shards * list, shard_stride = c.gathered ? c.rows * list : list;
    // Unused entries have the best of scores and, but for -1, other negative positions.
    std::vector<float> scores(static_cast<size_t>(lists * list), kInf);
    std::vector<int32_t> positions(scores.size());
    for (int32_t& position : positions) position = -1 - static_cast<int32_t>(rng.below(2) * rng.below(1000000));
    std::vector<std::vector<Entry>> expected(static_cast<size_t>(c.rows));
    for (int64_t row = 0; row < c.rows; ++row) {
        std::vector<Entry> whole;
        std::vector<std::vector<Entry>> shards(static_cast<size_t>(c.shards));
        const int64_t keys = std::max<int64_t>(c.keys - 13 * row, 0), each = (c.keys + c.shards - 1) / c.shards;
        for (int64_t i = 0; i < keys; ++i) {
            const int64_t apart = std::max<int64_t>(i - keys / 2, 0) * c.spread;
            const Entry entry{draw(c.values, rng), static_cast<int32_t>(i + apart)};
            whole.push_back(entry);
            shards[static_cast<size_t>(c.interleaved ? i % c.shards : i / each)].push_back(entry);
        }
        std::sort(whole.begin(), whole.end(), before);
        whole.resize(std::min(whole.size(), static_cast<size_t>(c.k)));
        if (c.sort == LIDX_SORT_POSITION) std::sort(whole.begin(), whole.end(), by_position);
        expected[static_cast<size_t>(row)] = whole;
        for (int64_t s = 0; s < c.shards; ++s) {
            std::vector<Entry>& own = shards[static_cast<size_t>(s)];
            std::sort(own.begin(), own.end(), before);
            own.resize(std::min(own.size(), static_cast<size_t>(c.k_in)));
            // Lists in any order, unused entries among them.
            std::vector<size_t> places(static_cast<size_t>(c.k_in));
            std::iota(places.begin(), places.end(), size_t{0});
            for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[rng.below(i)]);
            for (size_t i = 0; i < own.size(); ++i) {
                const size_t at = static_cast<size_t>(row * row_stride + s * shard_stride) + places[i];
                scores[at] = own[i].score;
                positions[at] = own[i].position;
            }
        }
    }

    const Machine& m = machine();
    const int64_t out_stride = c.k + c.gap;
    std::vector<uint8_t> poison(static_cast<size_t>(c.rows * out_stride * 4));
    for (uint8_t& byte : poison) byte = static_cast<uint8_t>(rng.next());
    GuardedBuffer d_scores(m, "scores", scores.data(), scores.size() * 4, c.alignment, true);
    GuardedBuffer d_positions(m, "positions", positions.data(), positions.size() * 4, c.alignment, true);
    GuardedBuffer d_indices(m, "indices", poison.data(), poison.size(), 4, false);
    GuardedBuffer d_top_scores(m, "top_scores", poison.data(), poison.size(), 4, false);
    GuardedBuffer d_counts(m, "counts", poison.data(), static_cast<size_t>(c.rows) * 4, 4, false);
    lidx_merge_args args;
    REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
    args.rows = static_cast<int32_t>(c.rows);
    args.shards = c.shards;
    args.k_in = c.k_in;
    args.k = c.k;
    args.sort = c.sort;
    if (c.gathered || c.gap != 0) {
        args.score_row_stride = args.position_row_stride = row_stride;
        args.score_shard_stride = args.position_shard_stride = shard_stride;
    }
    args.index_stride = args.top_score_stride = c.gap != 0 ? out_stride : 0;
    args.scores = d_scores.at<float>();
    args.positions = d_positions.at<int32_t>();
    args.indices = d_indices.at<int32_t>();
    args.top_scores = c.optional ? d_top_scores.at<float>() : nullptr;
    args.counts = c.optional ? d_counts.at<int32_t>() : nullptr;
    std::vector<uint8_t> before;
    for (int i = 0; i < std::max(times, cache_test::launches()); ++i) {
        for (const GuardedBuffer* output : {&d_indices, &d_top_scores, &d_counts}) output->restore();
        REQUIRE(lidx_topk_merge_enqueue(m.lidx, &args, nullptr) == LIDX_OK);
        m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CHECK(d_indices.damage(false) == "");
        std::vector<uint8_t> now(d_indices.payload(), d_indices.payload() + poison.size());
        if (i > 0) CHECK(now == before);
        before = now;
    }
    for (GuardedBuffer* input : {&d_scores, &d_positions}) CHECK(input->damage(true) == "");
    for (GuardedBuffer* output : {&d_indices, &d_top_scores, &d_counts}) CHECK(output->damage(false) == "");

    std::vector<int32_t> indices(poison.size() / 4), wanted(poison.size() / 4);
    std::vector<float> top_scores(poison.size() / 4), wanted_scores(poison.size() / 4);
    std::memcpy(indices.data(), d_indices.payload(), poison.size());
    std::memcpy(top_scores.data(), d_top_scores.payload(), poison.size());
    std::memcpy(wanted.data(), poison.data(), poison.size());
    std::memcpy(wanted_scores.data(), poison.data(), poison.size());
    for (int64_t row = 0; row < c.rows; ++row) {
        const std::vector<Entry>& entries = expected[static_cast<size_t>(row)];
        for (size_t i = 0; i < static_cast<size_t>(c.k); ++i) {
            const size_t at = static_cast<size_t>(row * out_stride) + i;
            wanted[at] = i < entries.size() ? entries[i].position : -1;
            wanted_scores[at] = i < entries.size() ? entries[i].score : -kInf;
        }
        int32_t count = 0;
        std::memcpy(&count, d_counts.payload() + row * 4, 4);
        if (c.optional) CHECK(count == static_cast<int32_t>(entries.size()));
    }
    if (indices != wanted) {
        const auto at = std::mismatch(indices.begin(), indices.end(), wanted.begin());
        FAIL("index " << at.first - indices.begin() << " is " << *at.first << ", expected " << *at.second);
    }
    for (size_t i = 0; c.optional && i < top_scores.size(); ++i)   // a NaN score may come back as any NaN
        if (std::memcmp(&top_scores[i], &wanted_scores[i], 4) != 0 &&
            !(std::isnan(top_scores[i]) && std::isnan(wanted_scores[i])))
            FAIL("score " << i << " is " << top_scores[i] << ", expected " << wanted_scores[i]);
}

TEST_CASE("topk merge: shards of a row give what the whole row gives") {
    uint64_t seed = 1;
    for (const bool interleaved : {false, true})
        for (const lidx_sort sort : {LIDX_SORT_POSITION, LIDX_SORT_SCORE})
            for (int values = 0; values < static_cast<int>(Values::kCount); ++values) {
                Case c{3, 3000, 4, 300, 300};
                c.interleaved = interleaved;
                c.sort = sort;
                c.values = static_cast<Values>(values);
                c.gathered = seed % 2 == 0;
                c.optional = seed % 5 != 0;
                run(c, ++seed);
                c.alignment = 4;
                run(c, seed);
                c.gap = static_cast<int>(seed % 3) + 1;
                run(c, seed);
                c.gap = 4;   // between lists that begin on 16 bytes
                c.alignment = 16;
                run(c, seed);
            }
}

// For test/mutant, as in topk_test.cpp.
TEST_CASE("small: topk_merge", "[.small]") {
    const char* repeats = std::getenv("LIDX_TEST_REPEATS");
    for (int i = repeats != nullptr ? std::atoi(repeats) : 1; i > 0; --i)
        for (const lidx_sort sort : {LIDX_SORT_POSITION, LIDX_SORT_SCORE})
            for (const Values values : {Values::kNormal, Values::kTwo, Values::kMixed}) {
                Case c{1, 2400, 8, 300, 280};   // entries in registers
                c.sort = sort;
                c.values = values;
                run(c, 40);
                c.alignment = 4;                // read in every pass
                run(c, 41);
                if (values != Values::kMixed) continue;
                c.k = 1300;                     // more in a bin than are compared
                run(c, 42);
                if (sort != LIDX_SORT_POSITION) continue;
                run({1, 5000, 6, 900, 3300}, 43);   // four numbers a thread to sort
            }
}

TEST_CASE("topk merge: repeated runs give the same bits") {
    for (const Values values : {Values::kNormal, Values::kEqual}) {
        Case c{2, 4000, 4, 500, 500};
        c.sort = LIDX_SORT_SCORE;
        c.values = values;
        run(c, 90, 20);
    }
}

TEST_CASE("topk merge: sizes") {
    const Case cases[] = {
        {1, 1, 1, 1, 1},          {2, 0, 3, 5, 7},          {1, 5, 8, 1, 5},           {1, 40, 8, 10, 41},
        {1, 40000, 16, 2048, 2048, true}, {1, 40000, 2, 4096, 4096}, {1, 9000, 1, 4096, 4096}, {5, 700, 7, 100, 512},
        {1, 20000, 8, 2048, 2048, true},  {1, 17000, 4, 4096, 31},   {2, 9000, 3, 4, 4},
    };
    uint64_t seed = 100;
    for (const Case& sizes : cases)
        for (const Values values : {Values::kNormal, Values::kEqual, Values::kMixed}) {
            Case c = sizes;
            c.values = values;
            c.sort = ++seed % 4 < 2 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            // Where a list has room for fewer than k, shards leave out what the whole row would choose.
            if (c.k_in < c.k && c.keys > int64_t{c.k_in}) c.keys = std::min<int64_t>(c.keys, c.k_in);
            run(c, seed);
        }
}

// What the sort's bins follow: positions close together and far apart, up to 2^31; equal scores.
TEST_CASE("topk merge: positions of any distribution") {
    uint64_t seed = 200;
    for (const int32_t spread : {1, 1000, 210000})
        for (const Values values : {Values::kNormal, Values::kTwo, Values::kMixed})
            for (const int32_t k : {500, 2048, 4096}) {
                Case c{1, 20000, 5, k, k, true};
                c.spread = spread;
                c.values = values;
                c.sort = ++seed % 2 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
                run(c, seed);
            }
}

// The row's keys are shared out, each shard selects its own k, and the lists are merged.
TEST_CASE("topk merge: selections of a row's shards, merged, are the selection of the row") {
    const Machine& m = machine();
    uint64_t seed = 300;
    for (const Values values : {Values::kNormal, Values::kTwo, Values::kMixed})
        for (const int shards : {2, 5, 8}) {
            constexpr int32_t kKeys = 30000, k = 700;
            Rng rng(++seed);
            std::vector<float> scores(kKeys);
            for (float& score : scores) score = draw(values, rng);
            const int32_t each = (kKeys + shards - 1) / shards;
            std::vector<int32_t> lengths, offsets;
            for (int s = 0; s < shards; ++s) {
                offsets.push_back(s * each);
                lengths.push_back(std::min(each, kKeys - s * each));
            }
            const int32_t whole_length = kKeys;
            scores.resize(static_cast<size_t>(shards) * static_cast<size_t>(each));
            GuardedBuffer d_scores(m, "scores", scores.data(), scores.size() * 4, 4, true);
            GuardedBuffer d_lengths(m, "context_lens", lengths.data(), lengths.size() * 4, 4, true);
            GuardedBuffer d_whole_length(m, "context_lens", &whole_length, 4, 4, true);
            GuardedBuffer d_offsets(m, "offsets", offsets.data(), offsets.size() * 4, 4, true);
            const std::vector<int32_t> poison(static_cast<size_t>(shards * k), 0x55aa55aa);
            GuardedBuffer d_lists(m, "indices", poison.data(), poison.size() * 4, 4, false);
            GuardedBuffer d_list_scores(m, "top_scores", poison.data(), poison.size() * 4, 4, false);
            GuardedBuffer d_whole(m, "indices", poison.data(), k * 4, 4, false);
            GuardedBuffer d_merged(m, "indices", poison.data(), k * 4, 4, false);
            lidx_topk_desc desc;
            REQUIRE(lidx_topk_desc_init(&desc) == LIDX_OK);
            desc.row_map = LIDX_ROWS_FIXED;
            desc.batch = desc.max_rows = shards;
            desc.max_tokens = 1;
            desc.max_keys = desc.score_stride = each;
            desc.k = k;
            desc.index_kind = LIDX_INDEX_OFFSET;
            lidx_topk_args args;
            REQUIRE(lidx_topk_args_init(&args) == LIDX_OK);
            args.scores = d_scores.at<void>();
            args.context_lens = d_lengths.at<void>();
            args.offsets = d_offsets.at<int32_t>();
            args.indices = d_lists.at<int32_t>();
            args.top_scores = d_list_scores.at<float>();
            REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, nullptr) == LIDX_OK);
            lidx_merge_args merge;
            REQUIRE(lidx_merge_args_init(&merge) == LIDX_OK);
            merge.rows = 1;
            merge.shards = shards;
            merge.k_in = merge.k = k;
            merge.sort = LIDX_SORT_SCORE;
            merge.scores = d_list_scores.at<float>();
            merge.positions = d_lists.at<int32_t>();
            merge.indices = d_merged.at<int32_t>();
            REQUIRE(lidx_topk_merge_enqueue(m.lidx, &merge, nullptr) == LIDX_OK);
            desc.batch = desc.max_rows = 1;   // the row as a whole
            desc.max_keys = desc.score_stride = kKeys;
            desc.index_kind = LIDX_INDEX_POSITION;
            desc.sort = LIDX_SORT_SCORE;
            args.context_lens = d_whole_length.at<void>();
            args.offsets = nullptr;
            args.indices = d_whole.at<int32_t>();
            args.top_scores = nullptr;
            REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, nullptr) == LIDX_OK);
            m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            for (GuardedBuffer* output : {&d_lists, &d_list_scores, &d_whole, &d_merged})
                CHECK(output->damage(false) == "");
            CAPTURE(seed, shards);
            CHECK(std::memcmp(d_merged.payload(), d_whole.payload(), k * 4) == 0);
            CHECK(std::memcmp(d_merged.payload(), poison.data(), k * 4) != 0);
        }
}

TEST_CASE("topk merge: a key that is listed twice counts twice") {
    const Machine& m = machine();
    const float scores[] = {1, 5, 5, 5, 9, 5, 0, 0};
    const int32_t positions[] = {7, 3, 3, 3, 8, 2, -1, -1};
    // Two lists of three, read in every pass; two of four in registers.
    for (const int32_t k_in : {3, 4}) {
        const auto entries = static_cast<size_t>(2 * k_in);
        const size_t alignment = k_in == 4 ? 16 : 4;
        GuardedBuffer d_scores(m, "scores", scores, entries * 4, alignment, true);
        GuardedBuffer d_positions(m, "positions", positions, entries * 4, alignment, true);
        GuardedBuffer d_indices(m, "indices", positions, 4 * 4, 4, false);
        lidx_merge_args args;
        REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
        args.rows = 1;
        args.shards = 2;
        args.k_in = k_in;
        args.k = 4;
        args.sort = LIDX_SORT_SCORE;
        args.scores = d_scores.at<float>();
        args.positions = d_positions.at<int32_t>();
        args.indices = d_indices.at<int32_t>();
        REQUIRE(lidx_topk_merge_enqueue(m.lidx, &args, nullptr) == LIDX_OK);
        m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CHECK(d_indices.damage(false) == "");
        int32_t indices[4];
        std::memcpy(indices, d_indices.payload(), sizeof(indices));
        CAPTURE(k_in);
        CHECK(std::vector<int32_t>(indices, indices + 4) == std::vector<int32_t>{8, 2, 3, 3});
    }
}

// 16 entries a thread, about eight of a position, 30 positions of a score; of the k-th's position a quarter of all, of
// which half are left out.
TEST_CASE("topk merge: keys that are listed many times, by every thread") {
    const Machine& m = machine();
    Rng rng(350);
    constexpr int32_t kShards = 8, kRoom = 2048, kEntries = kShards * kRoom;
    std::vector<Entry> entries(kEntries);
    std::vector<float> scores(kEntries);
    std::vector<int32_t> positions(kEntries);
    for (size_t i = 0; i < kEntries; ++i) {
        positions[i] = rng.below(4) == 0 ? 1747 : static_cast<int32_t>(rng.below(1500));
        scores[i] = static_cast<float>(positions[i] % 50);
        entries[i] = {scores[i], positions[i]};
    }
    std::sort(entries.begin(), entries.end(), before);
    for (const lidx_sort sort : {LIDX_SORT_SCORE, LIDX_SORT_POSITION})
        for (const size_t alignment : {16, 4}) {   // in registers; read in every pass
            constexpr size_t k = 2700;
            REQUIRE((entries[k - 1000].position == 1747 && entries[k + 1000].position == 1747));
            std::vector<Entry> chosen(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(k));
            if (sort == LIDX_SORT_POSITION) std::sort(chosen.begin(), chosen.end(), by_position);
            std::vector<int32_t> wanted(k), indices(k);
            for (size_t i = 0; i < k; ++i) wanted[i] = chosen[i].position;
            GuardedBuffer d_scores(m, "scores", scores.data(), scores.size() * 4, alignment, true);
            GuardedBuffer d_positions(m, "positions", positions.data(), positions.size() * 4, alignment, true);
            GuardedBuffer d_indices(m, "indices", indices.data(), k * 4, 4, false);
            lidx_merge_args args;
            REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
            args.rows = 1;
            args.shards = kShards;
            args.k_in = kRoom;
            args.k = k;
            args.sort = sort;
            args.scores = d_scores.at<float>();
            args.positions = d_positions.at<int32_t>();
            args.indices = d_indices.at<int32_t>();
            REQUIRE(lidx_topk_merge_enqueue(m.lidx, &args, nullptr) == LIDX_OK);
            m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            CHECK(d_indices.damage(false) == "");
            std::memcpy(indices.data(), d_indices.payload(), k * 4);
            CAPTURE(static_cast<int>(sort), alignment);
            CHECK(indices == wanted);
        }
}

// Which of them are chosen must not show, in whatever order they are listed: of zeros of either sign, and of NaNs.
TEST_CASE("topk merge: what entries of one position differ in does not show where some are left out") {
    const Machine& m = machine();
    const auto nan = [](uint32_t bits) { return std::bit_cast<float>(bits); };
    struct Variant {
        std::vector<Entry> entries;
        int32_t k;
        std::vector<Entry> by_score, by_position;
    };
    const Variant variants[] = {
        // Two of the three at 3: zeros without a sign. Those at 1 and 4 keep theirs, or are left out.
        {{{9, 8}, {2, 5}, {-0.0f, 1}, {-0.0f, 3}, {0.0f, 3}, {-0.0f, 3}, {-0.0f, 4}, {kInf, -1}}, 5,
         {{9, 8}, {2, 5}, {-0.0f, 1}, {0.0f, 3}, {0.0f, 3}}, {{-0.0f, 1}, {0.0f, 3}, {0.0f, 3}, {2, 5}, {9, 8}}},
        // All three, as they are.
        {{{9, 8}, {2, 5}, {-0.0f, 1}, {-0.0f, 3}, {0.0f, 3}, {-0.0f, 3}, {-0.0f, 4}, {kInf, -1}}, 6,
         {{9, 8}, {2, 5}, {-0.0f, 1}, {0.0f, 3}, {-0.0f, 3}, {-0.0f, 3}},
         {{-0.0f, 1}, {0.0f, 3}, {-0.0f, 3}, {-0.0f, 3}, {2, 5}, {9, 8}}},
        // The same position with another score.
        {{{7, 3}, {-0.0f, 3}, {0.0f, 3}, {8, 2}, {-1, 3}, {-1, 1}, {-2, 3}, {-0.0f, 9}}, 3, {{8, 2}, {7, 3}, {0.0f, 3}},
         {{8, 2}, {0.0f, 3}, {7, 3}}},
        // Left out are others of its position: a zero that they do not tie with keeps its sign.
        {{{5, 1}, {-0.0f, 3}, {-1, 3}, {-1, 3}, {-1, 3}, {-2, 3}, {-3, 0}, {9, -1}}, 3, {{5, 1}, {-0.0f, 3}, {-1, 3}},
         {{5, 1}, {-0.0f, 3}, {-1, 3}}},
        {{{1, 6}, {nan(0x7fc00001), 2}, {nan(0xffc00002), 2}, {nan(0x7f800003), 2}, {nan(0xff800001), 2},
          {nan(0x7fffffff), 7}, {-kInf, 4}, {kInf, -9}}, 4, {{1, 6}, {-kInf, 4}, {kNan, 2}, {kNan, 2}},
         {{kNan, 2}, {kNan, 2}, {-kInf, 4}, {1, 6}}},
    };
    Rng rng(400);
    for (const Variant& variant : variants)
        for (const lidx_sort sort : {LIDX_SORT_POSITION, LIDX_SORT_SCORE})
            for (const size_t alignment : {16, 4}) {   // in registers; read in every pass
                std::vector<uint32_t> nan_bits;
                for (int order = 0; order < 12; ++order) {
                    std::vector<Entry> entries = variant.entries;
                    for (size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[rng.below(i)]);
                    std::vector<float> scores;
                    std::vector<int32_t> positions;
                    for (const Entry& entry : entries) {
                        scores.push_back(entry.score);
                        positions.push_back(entry.position);
                    }
                    const auto k = static_cast<size_t>(variant.k);
                    GuardedBuffer d_scores(m, "scores", scores.data(), scores.size() * 4, alignment, true);
                    GuardedBuffer d_positions(m, "positions", positions.data(), positions.size() * 4, alignment, true);
                    const std::vector<int32_t> poison(k, 0x55aa55aa);
                    GuardedBuffer d_indices(m, "indices", poison.data(), k * 4, 4, false);
                    GuardedBuffer d_top_scores(m, "top_scores", poison.data(), k * 4, 4, false);
                    lidx_merge_args args;
                    REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
                    args.rows = 1;
                    args.shards = 2;
                    args.k_in = 4;
                    args.k = variant.k;
                    args.sort = sort;
                    args.scores = d_scores.at<float>();
                    args.positions = d_positions.at<int32_t>();
                    args.indices = d_indices.at<int32_t>();
                    args.top_scores = d_top_scores.at<float>();
                    REQUIRE(lidx_topk_merge_enqueue(m.lidx, &args, nullptr) == LIDX_OK);
                    m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
                    for (GuardedBuffer* output : {&d_indices, &d_top_scores}) CHECK(output->damage(false) == "");
                    const std::vector<Entry>& wanted =
                        sort == LIDX_SORT_SCORE ? variant.by_score : variant.by_position;
                    std::vector<uint32_t> nans;
                    for (size_t i = 0; i < k; ++i) {
                        int32_t index;
                        uint32_t bits;
                        std::memcpy(&index, d_indices.payload() + i * 4, 4);
                        std::memcpy(&bits, d_top_scores.payload() + i * 4, 4);
                        CAPTURE(static_cast<int>(sort), alignment, order, i, bits);
                        CHECK(index == wanted[i].position);
                        if (std::isnan(wanted[i].score)) {
                            CHECK(std::isnan(std::bit_cast<float>(bits)));
                            nans.push_back(bits);
                        } else {
                            CHECK(bits == std::bit_cast<uint32_t>(wanted[i].score));
                        }
                    }
                    if (order == 0) nan_bits = nans;
                    CHECK(nans == nan_bits);
                }
            }
}

}  // namespace

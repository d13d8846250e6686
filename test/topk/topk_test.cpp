// SPDX-License-Identifier: Apache-2.0
// lidx_topk_enqueue against a sort: every word of the outputs, what must stay untouched included.
#include "test/unit/catch_any.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernel/topk_layout.h"
#include "test/cache/cache_fixture.h"
#include "test/ref/bf16.h"
#include "test/ref/sight.h"

namespace {

using cache_test::machine;
using check::GuardedBuffer;
using check::Machine;
using lidx::ref::Rng;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// Rows of scores that try a selection.
enum class Kind {
    kNormal, kEqual, kZero, kSignedZeros, kTwoValues, kNarrow, kAscending, kDescending, kPlateau, kMinusInf, kPlusInf,
    kNan, kMixed, kSubnormal, kPeriodic, kMostlyZero, kTies, kFewAbovePlateau, kHuge, kSteps, kCrowds, kFewNan,
    kMostlyNan, kCount
};

// Of either sign, quiet and signalling, any payload.
float any_nan(Rng& rng) {
    const auto payload = static_cast<uint32_t>(1 + rng.below(0x7fffff));
    return std::bit_cast<float>(static_cast<uint32_t>(rng.below(2)) << 31 | 0x7f800000u | payload);
}

// unit: between neighbours of the type in [1, 2); tiny: its smallest.
float draw(Kind kind, int64_t i, int64_t n, bool bf16, int64_t each, Rng& rng) {
    const float unit = bf16 ? 1.0f / 128 : FLT_EPSILON, tiny = bf16 ? 65536 * FLT_TRUE_MIN : FLT_TRUE_MIN;
    const auto normal = [&] { return static_cast<float>(rng.heavy_tailed()); };
    switch (kind) {
        case Kind::kEqual: return 1.5f;
        case Kind::kZero: return 0.0f;
        case Kind::kSignedZeros: return rng.below(2) != 0 ? 0.0f : -0.0f;
        case Kind::kTwoValues: return rng.below(2) != 0 ? 1.0f : 2.0f;
        case Kind::kNarrow: return 1.0f + static_cast<float>(rng.below(7)) * unit;   // one coarse bin
        case Kind::kAscending: return static_cast<float>(i);
        case Kind::kDescending: return -static_cast<float>(i);
        case Kind::kPlateau: return rng.below(100) == 0 ? 5.0f + static_cast<float>(rng.below(1000)) : 1.0f;
        case Kind::kMinusInf: return -kInf;
        case Kind::kPlusInf: return kInf;
        case Kind::kNan: return kNan;
        case Kind::kMixed: {
            const float values[] = {kNan, kInf, -kInf, 0.0f, -0.0f, normal(), normal(), -kNan};
            return values[rng.below(8)];
        }
        case Kind::kSubnormal: return static_cast<float>(static_cast<int>(rng.below(1000)) - 500) * tiny;
        // What a sample of evenly spread pieces sees is not like the rest.
        case Kind::kPeriodic: return i % std::max<int64_t>(n / 128, 1) < 32 ? 100.0f + normal() : normal();
        case Kind::kMostlyZero: return rng.below(6) == 0 ? std::fabs(normal()) : 0.0f;
        case Kind::kTies: return i * 7919 % n < 10000 ? 3.0f : rng.below(1000) != 0 ? 1.0f : 4.0f;   // 10,000 equal
        case Kind::kFewAbovePlateau: return rng.below(2000) == 0 ? -kInf : rng.below(5000) == 0 ? 1.0f : -3.0f;
        case Kind::kHuge: return (rng.below(2) != 0 ? 1.0f : -1.0f) * FLT_MAX * static_cast<float>(rng.uniform());
        case Kind::kSteps: return static_cast<float>(i * 7919 % n / each);
        case Kind::kCrowds: return static_cast<float>(i * 7919 % n / each) + static_cast<float>(i % 3) / 1024;
        case Kind::kFewNan: return rng.below(300) == 0 ? any_nan(rng) : normal();
        // NaN across the k-th place, -inf just before it.
        case Kind::kMostlyNan: return rng.below(60) != 0 ? any_nan(rng) : rng.below(3) == 0 ? -kInf : normal();
        default: return normal();
    }
}

// The nearest, but of NaN the bits that bf16 has room for: of any sign and payload.
uint16_t bf16_of(float value) {
    if (!std::isnan(value)) return lidx::ref::bf16_encode(value);
    const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    return (half & 0x7f) != 0 ? half : half | 1;
}

struct Case {
    std::string what;
    lidx::ref::Sight sight;
    int64_t max_keys = 0, stride = 0;
    int k = 0;
    Kind kind = Kind::kNormal;
    int64_t each = 48;   // keys of a step or crowd
    bool bf16 = false, relative = false, wide = false, scores_out = true, counts = true;
    int forced_first = 0, forced_last = 0;
    lidx_index_kind index_kind = LIDX_INDEX_POSITION;
    lidx_sort sort = LIDX_SORT_POSITION;
    int page_size = 0;
    int index_gap = 0;   // elements between rows of indices beyond k
    uint64_t seed = 1;
};

// One row per request, which sees all its keys.
Case simple(int64_t rows, int64_t keys, int k, Kind kind, uint64_t seed) {
    Case c;
    c.what = "simple";
    c.sight.rows = lidx::ref::SightRows::kFixed;
    c.sight.batch = c.sight.max_rows = rows;
    c.sight.max_tokens = 1;
    c.sight.lengths.assign(static_cast<size_t>(rows), keys);
    c.max_keys = c.sight.room = keys;
    c.stride = keys + 3;
    c.k = k;
    c.kind = kind;
    c.seed = seed;
    return c;
}

struct Expected {
    std::vector<int32_t> indices;
    std::vector<float> scores;
    int32_t count = 0;
};

// scores: of the keys that the row sees, in their order.
Expected expect(const Case& c, const std::vector<float>& scores, int64_t begin, int32_t offset,
                const std::vector<int32_t>& table, int64_t table_at) {
    const auto n = static_cast<int64_t>(scores.size());
    const auto forced = [&](int64_t i) { return i < c.forced_first || i >= n - c.forced_last; };
    const auto before = [&](int64_t a, int64_t b) {
        if (forced(a) != forced(b)) return forced(a);
        const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
        if (!forced(a)) {
            if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
            if (!std::isnan(x) && x != y) return x > y;
        }
        return a < b;
    };
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), before);
    order.resize(static_cast<size_t>(std::min<int64_t>(c.k, n)));
    if (c.sort == LIDX_SORT_POSITION) std::sort(order.begin(), order.end());
    Expected e;
    e.count = static_cast<int32_t>(order.size());
    for (const int64_t i : order) {
        const int64_t position = begin + i;
        int64_t index = position;
        if (c.index_kind == LIDX_INDEX_RELATIVE) index = i;
        if (c.index_kind == LIDX_INDEX_OFFSET) index = position + offset;
        if (c.index_kind == LIDX_INDEX_PHYSICAL)
            index = int64_t{table[static_cast<size_t>(table_at + position / c.page_size)]} * c.page_size +
                    position % c.page_size;
        e.indices.push_back(static_cast<int32_t>(index));
        e.scores.push_back(scores[static_cast<size_t>(i)]);
    }
    e.indices.resize(static_cast<size_t>(c.k), -1);
    e.scores.resize(static_cast<size_t>(c.k), -kInf);
    return e;
}

struct Buffers {
    std::vector<uint8_t> scores;
    std::vector<float> values;   // what they hold
};

template <typename T>
std::vector<uint8_t> integers(const std::vector<int64_t>& from) {
    std::vector<uint8_t> bytes(from.size() * sizeof(T));
    for (size_t i = 0; i < from.size(); ++i) {
        const auto value = static_cast<T>(std::clamp<int64_t>(from[i], std::numeric_limits<T>::min(),
                                                              std::numeric_limits<T>::max()));
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
}

// Returns the indices. times: so many launches, the same bits each time; cache_test::launches() if that is more.
std::vector<int32_t> run(const Case& c, int times = 1) {
    CAPTURE(c.what, c.max_keys, c.stride, c.k, static_cast<int>(c.kind), c.bf16, c.relative, c.forced_first,
            c.forced_last, static_cast<int>(c.index_kind), static_cast<int>(c.sort), c.sight.max_rows, c.seed);
    const lidx::ref::Sight& sight = c.sight;
    Rng rng(c.seed);
    const auto rows = static_cast<size_t>(sight.max_rows);
    // Cells that no row sees hold +inf: a kernel that took them for scores would choose them.
    std::vector<float> values(rows * static_cast<size_t>(c.stride), kInf);
    std::vector<lidx::ref::SeenKeys> seen(rows);
    std::vector<lidx::ref::RowOwner> owners(rows);
    for (size_t row = 0; row < rows; ++row) {
        owners[row] = owner_of(sight, static_cast<int64_t>(row));
        seen[row] = seen_keys(sight, owners[row], static_cast<int64_t>(row));
        const int64_t n = seen[row].end - seen[row].begin;
        for (int64_t i = 0; i < n; ++i) {
            float value = draw(c.kind, i, n, c.bf16, c.each, rng);
            if (c.bf16) value = lidx::ref::bf16_decode(bf16_of(value));
            values[row * static_cast<size_t>(c.stride) + static_cast<size_t>((c.relative ? 0 : seen[row].begin) + i)] =
                value;
        }
    }
    std::vector<uint8_t> bytes(values.size() * (c.bf16 ? 2 : 4));
    for (size_t i = 0; i < values.size(); ++i) {
        if (c.bf16) {
            const uint16_t half = bf16_of(values[i]);
            std::memcpy(bytes.data() + i * 2, &half, 2);
        } else {
            std::memcpy(bytes.data() + i * 4, &values[i], 4);
        }
    }
    const bool physical = c.index_kind == LIDX_INDEX_PHYSICAL;
    const int64_t table_width = physical ? (sight.room + c.page_size - 1) / c.page_size : 0;
    std::vector<int32_t> table(static_cast<size_t>(sight.batch * table_width)), offsets(rows);
    for (int32_t& page : table) page = static_cast<int32_t>(rng.below(100000));
    for (int32_t& offset : offsets) offset = static_cast<int32_t>(rng.below(1000000));
    const auto to_bytes = [&](const std::vector<int64_t>& from) {
        return c.wide ? integers<int64_t>(from) : integers<int32_t>(from);
    };
    const std::vector<uint8_t> lengths = to_bytes(sight.lengths), begins = to_bytes(sight.begins),
                               ends = to_bytes(sight.ends);
    const int64_t index_stride = c.k + c.index_gap;
    std::vector<uint8_t> poison(rows * static_cast<size_t>(index_stride) * 4);
    for (uint8_t& byte : poison) byte = static_cast<uint8_t>(rng.next());

    const Machine& m = machine();
    GuardedBuffer d_scores(m, "scores", bytes.data(), bytes.size(), c.bf16 ? 2 : 4, true);
    GuardedBuffer d_lengths(m, "context_lens", lengths.data(), lengths.size(), c.wide ? 8 : 4, true);
    GuardedBuffer d_begins(m, "row_begin", begins.data(), begins.size(), c.wide ? 8 : 4, true);
    GuardedBuffer d_ends(m, "row_end", ends.data(), ends.size(), c.wide ? 8 : 4, true);
    GuardedBuffer d_cu(m, "cu_seqlens_q", sight.cu_seqlens.data(), sight.cu_seqlens.size() * 4, 4, true);
    GuardedBuffer d_requests(m, "row_requests", sight.row_requests.data(), sight.row_requests.size() * 4, 4, true);
    GuardedBuffer d_table(m, "block_table", table.data(), table.size() * 4, 4, true);
    GuardedBuffer d_offsets(m, "offsets", offsets.data(), offsets.size() * 4, 4, true);
    GuardedBuffer d_indices(m, "indices", poison.data(), poison.size(), 4, false);
    GuardedBuffer d_top_scores(m, "top_scores", poison.data(), poison.size(), 4, false);
    GuardedBuffer d_counts(m, "counts", poison.data(), rows * 4, 4, false);

    lidx_topk_desc desc;
    lidx_topk_desc_init(&desc);
    desc.flags = (c.relative ? uint32_t{LIDX_FLAG_RELATIVE_COLUMNS} : 0) |
                 (sight.keys == lidx::ref::SightKeys::kCausal ? uint32_t{LIDX_FLAG_CAUSAL} : 0);
    desc.row_map = static_cast<int32_t>(sight.rows);
    desc.batch = static_cast<int32_t>(sight.batch);
    desc.max_rows = static_cast<int32_t>(sight.max_rows);
    desc.max_tokens = static_cast<int32_t>(sight.max_tokens);
    desc.visibility = sight.keys == lidx::ref::SightKeys::kWindow      ? LIDX_SEE_WINDOW
                      : sight.keys == lidx::ref::SightKeys::kRowLength ? LIDX_SEE_ROW_LENGTH
                                                                       : LIDX_SEE_REQUEST_LENGTH;
    desc.length_type = c.wide ? LIDX_INT64 : LIDX_INT32;
    desc.compress_ratio = static_cast<int32_t>(sight.ratio);
    desc.max_keys = c.max_keys;
    desc.score_stride = c.stride;
    desc.score_type = c.bf16 ? LIDX_BF16 : LIDX_FP32;
    desc.k = c.k;
    desc.forced_first = c.forced_first;
    desc.forced_last = c.forced_last;
    desc.index_kind = c.index_kind;
    desc.sort = c.sort;
    desc.index_stride = desc.top_score_stride = index_stride;
    desc.page_size = physical ? c.page_size : 0;
    desc.block_table_stride = table_width;
    size_t workspace_bytes = 0;
    REQUIRE(lidx_topk_workspace_bytes(m.lidx, &desc, &workspace_bytes) == LIDX_OK);
    std::vector<uint8_t> zeros(workspace_bytes);
    GuardedBuffer d_workspace(m, "workspace", zeros.data(), workspace_bytes, 16, false);

    lidx_topk_args args;
    lidx_topk_args_init(&args);
    args.scores = d_scores.at<void>();
    args.context_lens = d_lengths.at<void>();
    args.row_begin = d_begins.at<void>();
    args.row_end = d_ends.at<void>();
    args.cu_seqlens_q = d_cu.at<int32_t>();
    args.row_requests = d_requests.at<int32_t>();
    args.block_table = d_table.at<void>();
    args.offsets = c.index_kind == LIDX_INDEX_OFFSET ? d_offsets.at<int32_t>() : nullptr;
    args.indices = d_indices.at<int32_t>();
    args.top_scores = c.scores_out ? d_top_scores.at<float>() : nullptr;
    args.counts = c.counts ? d_counts.at<int32_t>() : nullptr;
    args.workspace = d_workspace.at<void>();
    args.workspace_bytes = workspace_bytes;
    std::vector<int32_t> before;
    for (int i = 0; i < std::max(times, cache_test::launches()); ++i) {
        INFO(lidx_last_error(m.lidx));
        for (const GuardedBuffer* output : {&d_indices, &d_top_scores, &d_counts}) output->restore();
        REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, nullptr) == LIDX_OK);
        m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CHECK(d_indices.damage(false) == "");
        std::vector<int32_t> now(poison.size() / 4);
        std::memcpy(now.data(), d_indices.payload(), poison.size());
        if (i > 0) CHECK(now == before);
        before = now;
    }
    for (GuardedBuffer* input :
         {&d_scores, &d_lengths, &d_begins, &d_ends, &d_cu, &d_requests, &d_table, &d_offsets})
        CHECK(input->damage(true) == "");
    for (GuardedBuffer* output : {&d_indices, &d_top_scores, &d_counts, &d_workspace})
        CHECK(output->damage(false) == "");
    if (workspace_bytes != 0)   // the arrival counters are as they were
        CHECK(std::all_of(d_workspace.payload(), d_workspace.payload() + rows * 4, [](uint8_t b) { return b == 0; }));

    std::vector<int32_t> indices(poison.size() / 4), counts(rows);
    std::vector<uint8_t> expected_scores = poison;
    std::memcpy(indices.data(), d_indices.payload(), poison.size());
    std::memcpy(counts.data(), d_counts.payload(), rows * 4);
    std::vector<int32_t> expected(poison.size() / 4);
    std::memcpy(expected.data(), poison.data(), poison.size());
    for (size_t row = 0; row < rows; ++row) {
        const int64_t n = seen[row].end - seen[row].begin;
        const size_t first = row * static_cast<size_t>(c.stride) +
                             static_cast<size_t>(c.relative ? 0 : seen[row].begin);
        const std::vector<float> own(values.begin() + static_cast<int64_t>(first),
                                     values.begin() + static_cast<int64_t>(first) + n);
        const Expected e = expect(c, own, seen[row].begin, offsets[row], table,
                                  std::max<int64_t>(owners[row].request, 0) * table_width);
        std::copy(e.indices.begin(), e.indices.end(),
                  expected.begin() + static_cast<int64_t>(row) * index_stride);
        std::memcpy(expected_scores.data() + row * static_cast<size_t>(index_stride) * 4, e.scores.data(),
                    static_cast<size_t>(c.k) * 4);
        if (c.counts) CHECK(counts[row] == e.count);
    }
    if (indices != expected) {
        const auto at = std::mismatch(indices.begin(), indices.end(), expected.begin());
        FAIL_CHECK("index " << at.first - indices.begin() << " is " << *at.first << ", expected " << *at.second);
    }
    if (c.scores_out) {
        // A NaN score may come back as any NaN.
        for (size_t i = 0; i < indices.size(); ++i) {
            float got, want;
            std::memcpy(&got, d_top_scores.payload() + i * 4, 4);
            std::memcpy(&want, expected_scores.data() + i * 4, 4);
            if (std::memcmp(&got, &want, 4) != 0 && !(std::isnan(got) && std::isnan(want)))
                FAIL("score " << i << " is " << got << ", expected " << want);
        }
    }
    return indices;
}

TEST_CASE("topk: every kind of row at every path's lengths") {
    uint64_t seed = 1;
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind)
        for (const int64_t keys : {1, 31, 511, 512, 513, 2049, 8192, 8193, 20000}) {
            Case c = simple(2, keys, keys / 2 < 512 || keys % 2 != 0 ? 512 : 100, static_cast<Kind>(kind), ++seed);
            c.bf16 = seed % 3 == 0;
            c.sort = seed % 4 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            run(c);
        }
}

TEST_CASE("topk: k from 1 to 4096, rows around k") {
    uint64_t seed = 500;
    for (const int k : {1, 2, 3, 511, 1024, 2047, 2048, 4095, 4096})
        for (const int64_t keys : {k - 1, k, k + 1, 9000}) {
            if (keys == 0) continue;
            Case c = simple(3, keys, k, Kind::kMixed, ++seed);
            c.sort = seed % 2 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            c.index_gap = static_cast<int>(seed % 3);
            c.scores_out = seed % 5 != 0;
            c.counts = seed % 7 != 0;
            run(c);
        }
}

TEST_CASE("topk: long rows, shared out among CTAs") {
    for (const Kind kind : {Kind::kNormal, Kind::kTies, Kind::kMixed, Kind::kEqual, Kind::kPeriodic}) {
        Case c = simple(1, 270001, 2048, kind, 77 + static_cast<uint64_t>(kind));
        run(c, 2);
    }
    Case bf16 = simple(2, 280000, 1000, Kind::kMixed, 99);
    bf16.bf16 = true;
    bf16.sort = LIDX_SORT_SCORE;
    run(bf16);
    run(simple(1, 1048576, 512, Kind::kMostlyZero, 100));
}

TEST_CASE("topk: every kind of row of 64K + 1 keys") {
    uint64_t seed = 2000;
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind) {
        Case c = simple(1, 65537, 2048, static_cast<Kind>(kind), ++seed);
        c.bf16 = seed % 2 == 0;
        run(c);
    }
}

TEST_CASE("topk: every kind of row of 64K + 1 and of 1M keys, both types", "[.long]") {
    uint64_t seed = 2100;
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind)
        for (const int64_t keys : {65537, 1048576})
            for (const int k : {512, 2048, 4096})
                for (const bool bf16 : {false, true}) {
                    Case c = simple(keys == 65537 ? 2 : 1, keys, k, static_cast<Kind>(kind), ++seed);
                    c.bf16 = bf16;
                    c.sort = seed % 2 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
                    run(c);
                }
}

TEST_CASE("topk: repeated runs give the same bits") {
    for (const Kind kind : {Kind::kNormal, Kind::kTwoValues, Kind::kMixed}) {
        run(simple(3, 20000, 2048, kind, 70), 20);
        run(simple(1, 40000, 512, kind, 71), 20);    // a cluster
        Case parts = simple(1, 270000, 512, kind, 72);   // a launch for long rows: parts of one, or slices
        parts.sight.lengths = {70000};
        run(parts, 20);
    }
}

// More keys than a launch for these rows would hold. On cc 9.0 and 10.0: four parts, two, and rows of one that is
// sampled or not; elsewhere one CTA a row.
TEST_CASE("topk: every kind of row, streamed") {
    uint64_t seed = 2500;
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind) {
        Case c = simple(4, 262145, kind % 2 != 0 ? 512 : 2048, static_cast<Kind>(kind), ++seed);
        c.stride = c.max_keys + (kind % 3 == 1 ? 3 : 7);
        c.sight.lengths = {33000, 16400, 8192 + kind % 2, 2049};
        c.bf16 = seed % 3 == 0;
        c.sort = seed % 4 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        run(c);
    }
}

// Every output, forced keys, and all lengths around the parts' number and size.
TEST_CASE("topk: streaming clusters meet rows of any length") {
    uint64_t seed = 2600;
    for (int variant = 0; variant < 4; ++variant) {
        Case c = simple(8, 262145, 700, variant % 2 != 0 ? Kind::kMixed : Kind::kTies, ++seed);
        c.sight.lengths = {0, 700, 701, 8191, 16383, 16384, 24577, 40961};
        c.stride = c.max_keys + variant;
        c.index_kind = static_cast<lidx_index_kind>(variant);
        c.page_size = 48;
        c.scores_out = variant % 2 == 0;
        c.sort = variant == 3 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        if (variant >= 2) c.forced_first = 5, c.forced_last = 300;
        run(c, 2);
    }
}

// More rows than clusters pay for.
TEST_CASE("topk: many rows streamed") {
    uint64_t seed = 2700;
    for (const Kind kind : {Kind::kNormal, Kind::kTies, Kind::kMixed, Kind::kPeriodic, Kind::kFewAbovePlateau}) {
        Case c = simple(150, 20000, 600, kind, ++seed);
        for (int64_t i = 0; i < 150; ++i)   // few long ones: the emulator's time
            c.sight.lengths[static_cast<size_t>(i)] = i % 40 == 0 ? 20000 - i : i % 7;
        c.stride = 20000;
        c.bf16 = seed % 2 == 0;
        run(c);
    }
}

// Rows that clusters hold: 2 CTAs from 8193 keys on, 16 up to 131072, each with a part.
TEST_CASE("topk: rows held by clusters of every size") {
    uint64_t seed = 3000;
    for (const int64_t keys : {8193, 16383, 16384, 16385, 32768, 40001, 65536, 65537, 131069, 131072})
        for (const Kind kind : {Kind::kNormal, Kind::kTies, Kind::kMixed, Kind::kEqual}) {
            if (keys > 65536 && kind == Kind::kMixed) continue;
            Case c = simple(1, keys, keys % 3 == 0 ? 2048 : 700, kind, ++seed);
            c.what = "cluster";
            c.stride = seed % 2 == 0 ? keys + 3 : (keys + 3) / 4 * 4;
            c.bf16 = seed % 3 == 0;
            run(c, seed % 5 == 0 ? 2 : 1);
        }
    run(simple(1, 131072, 4096, Kind::kNarrow, ++seed));
}

// A launch for long rows meets short ones: parts of 1024 keys, CTAs without any, rows that take all of their keys.
TEST_CASE("topk: rows of any length in clusters") {
    for (const int64_t keys : {20000, 131072}) {
        Case c = simple(9, keys, 2047, Kind::kTwoValues, 3100 + static_cast<uint64_t>(keys));
        c.sight.lengths = {keys, 0, 1, 2047, 2048, 2049, 5001, 16384, keys - 1};
        run(c);
        c.kind = Kind::kNormal;
        c.k = 1000;
        c.sight.lengths = {1001, 1024, 1025, 3072, 16385, 16383, 8192, -5, keys};
        run(c);
    }
}

TEST_CASE("topk: every kind of row, and every output, from clusters") {
    uint64_t seed = 3200;
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind) {
        Case c = simple(2, 9000 + 4000 * (kind % 3), 300, static_cast<Kind>(kind), ++seed);
        c.bf16 = kind % 2 != 0;
        c.sort = kind % 3 == 1 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        c.index_kind = static_cast<lidx_index_kind>(kind % 4);
        c.page_size = 48;
        if (kind % 4 == 3) c.forced_first = 7, c.forced_last = 100;
        if (kind % 5 == 0) {
            c.sight.keys = lidx::ref::SightKeys::kWindow;
            c.sight.lengths.clear();
            c.sight.begins = {1, 203};
            c.sight.ends = {c.max_keys, 8500};
            c.relative = kind % 2 == 0;
        }
        run(c);
    }
    for (const bool sorted : {false, true}) {   // forced keys in several parts, and nothing else to choose
        Case c = simple(1, 30000, 2048, Kind::kDescending, ++seed);
        c.sort = sorted ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        c.forced_first = 48;
        c.forced_last = 2000;
        run(c);
        c.forced_last = 1999;
        run(c);
    }
}

TEST_CASE("topk: rows held by clusters of wide CTAs") {
    uint64_t seed = 3300;
    const struct {
        int64_t rows, keys;   // too many rows, or keys, for the others
    } cases[] = {{58, 20000}, {29, 40001}, {1, 131073}, {1, 262144}};
    for (const auto& row : cases) {
        Case c = simple(row.rows, row.keys, 2048, row.rows > 1 ? Kind::kTies : Kind::kMixed, ++seed);
        c.what = "wide";
        if (row.rows > 1)
            for (int64_t i = 0; i < row.rows; ++i)   // few long ones: the emulator's time
                c.sight.lengths[static_cast<size_t>(i)] = i % 10 == 0 ? row.keys - i : i * 40;
        c.bf16 = seed % 2 == 0;
        c.sort = seed % 4 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        run(c);
    }
}

// 128 bins an octave: four steps, two or half a one share the k-th's, around the 32 keys up to which they are listed.
TEST_CASE("topk: few keys share the bin of the k-th") {
    uint64_t seed = 3350;
    for (const int64_t each : {1, 7, 8, 9, 15, 16, 17, 33, 40})
        for (const Kind kind : {Kind::kSteps, Kind::kCrowds}) {
            Case c = simple(4, 8192, 2047 - static_cast<int>(each) / 2, kind, ++seed);
            c.what = "few";
            c.sight.lengths = {8192, 8191, 5003, 2300};
            c.each = each;
            c.bf16 = seed % 4 == 0;
            c.sort = seed % 4 == 1 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            run(c);
        }
    // Warps of 128 keys, and few of the k-th's bin at both ends of many of them.
    Case c = simple(48, 1400, 300, Kind::kSteps, ++seed);
    c.what = "few";
    for (size_t i = 0; i < 48; ++i) c.sight.lengths[i] = 1400 - 13 * static_cast<int64_t>(i);
    c.each = 16;
    run(c);
}

TEST_CASE("topk: CTAs and parts of a row") {
    using namespace lidx::topk;
    const struct {
        int64_t rows, keys;
        int32_t ctas;
        Held form;
    } cases[] = {{1, 0, 1, Held::kAlone},         {1, 8192, 1, Held::kAlone},    {100000, 8192, 1, Held::kAlone},
                 {1, 8193, 2, Held::kNarrow},     {1, 16385, 4, Held::kNarrow},  {14, 131072, 16, Held::kNarrow},
                 {15, 131072, 0, Held::kNone},    {14, 65537, 16, Held::kNarrow}, {1, 131073, 16, Held::kWide},
                 {7, 262144, 16, Held::kWide},    {8, 262144, 0, Held::kNone},   {1, 262145, 0, Held::kNone},
                 {57, 32768, 4, Held::kNarrow},   {58, 32768, 2, Held::kWide},   {66, 32768, 2, Held::kWide},
                 {67, 32768, 0, Held::kNone},     {132, 9000, 2, Held::kNarrow}, {133, 9000, 0, Held::kNone}};
    for (const auto& row : cases) {
        CAPTURE(row.rows, row.keys);
        const HeldShape shape = held_shape(row.rows, row.keys, 132, true);
        CHECK(shape.ctas == row.ctas);
        CHECK((shape.form == row.form));
        CHECK(held_shape(row.rows, row.keys, 132, false).ctas == (row.keys <= 8192 ? 1 : 0));
    }
    for (const Held form : {Held::kNarrow, Held::kWide})
        for (const int32_t ctas : {2, 4, 8, 16})
            for (int32_t n = 1; n <= ctas * held_form(form).cta_keys(); n += n < 3000 ? 1 : 997) {
                const int32_t each = part_keys(n, ctas), parts = parts_of(n, ctas);
                if (each % 32 != 0 || each > held_form(form).cta_keys() || parts > ctas || int64_t{parts} * each < n ||
                    int64_t{parts - 1} * each >= n)
                    FAIL(n << " keys: " << parts << " parts of " << each << ", " << ctas << " CTAs");
            }
}

// Short rows for every path of a kernel, for mutants and long seed runs (test/mutant), which name the kernel's test and
// make the device one that takes it for these shapes: the multiprocessors stand beside each. Launches for long rows
// meet short ones: few keys, and all the CTAs. LIDX_TEST_REPEATS: how often all of it is run.
std::vector<Case> small_cases(bool bf16, int64_t max_keys, const std::vector<int64_t>& lengths,
                              const std::vector<Kind>& kinds, int k = 150) {
    std::vector<Case> cases;
    for (const Kind kind : kinds)
        for (const bool sorted : {false, true}) {
            Case c = simple(static_cast<int64_t>(lengths.size()), max_keys, k, kind, 3400 + cases.size());
            c.sight.lengths = lengths;
            c.stride = cases.size() % 3 == 1 ? max_keys / 4 * 4 : max_keys + 1;
            c.bf16 = bf16;
            c.sort = sorted ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            c.scores_out = cases.size() % 4 != 0;
            c.index_kind = cases.size() % 4 == 2 ? LIDX_INDEX_PHYSICAL : LIDX_INDEX_POSITION;
            c.page_size = 48;
            if (sorted) c.forced_first = 3, c.forced_last = 20;
            cases.push_back(c);
        }
    return cases;
}
void run_all(const std::vector<Case>& cases) {
    const char* repeats = std::getenv("LIDX_TEST_REPEATS");
    for (int i = repeats != nullptr ? std::atoi(repeats) : 1; i > 0; --i)
        for (const Case& c : cases) run(c);
}
const std::vector<Kind> kHeldKinds = {Kind::kNormal, Kind::kTwoValues, Kind::kNarrow};
// Candidates, a plateau, streamed (a sample of NaNs gives nothing to compare with); and registers.
const std::vector<Kind> kStreamedKinds = {Kind::kNormal, Kind::kTies, Kind::kMostlyZero, Kind::kNan};

// Then every key that a thread can hold, 32 of the row in the k-th's bin: equal in pairs or more, and not.
void run_held(bool bf16) {
    run_all(small_cases(bf16, 1300, {1300, 151}, kHeldKinds));
    std::vector<Case> few = small_cases(bf16, 8192, {8190}, {Kind::kSteps, Kind::kCrowds}, 2000);
    for (Case& c : few) c.each = 16;
    run_all(few);
}
TEST_CASE("small: topk_held_fp32", "[.small]") { run_held(false); }
TEST_CASE("small: topk_held_bf16", "[.small]") { run_held(true); }
// Clusters of four, from four multiprocessors on, and of 16 wide CTAs, from 19 on; of the CTAs all or 3, 2 and 1 have
// keys.
void run_clusters(bool bf16, int64_t max_keys, int64_t keys) {
    run_all(small_cases(bf16, max_keys, {keys}, {Kind::kNormal, Kind::kTwoValues}));
    run_all(small_cases(bf16, max_keys, {2000}, {Kind::kNormal, Kind::kNarrow}));
    run_all(small_cases(bf16, max_keys, {300}, {Kind::kTwoValues}));
    // More than one round of bf16, too: its sample is an infinity, and too few keys are.
    for (const int64_t of : {2000, 2500}) run_all(small_cases(bf16, max_keys, {of}, {Kind::kMixed}, 400));
}
TEST_CASE("small: topk_cluster_fp32", "[.small]") { run_clusters(false, 32768, 32700); }
TEST_CASE("small: topk_cluster_bf16", "[.small]") { run_clusters(true, 32768, 32700); }
// Ten rows of two wide CTAs on 20 multiprocessors, one of them long: every key that a thread can hold, some of each
// chosen in both.
void run_wide(bool bf16) {
    run_clusters(bf16, 131080, 2500);
    run_all(small_cases(bf16, 32768, {32760, 0, 151, 0, 0, 0, 0, 0, 0, 0}, {Kind::kNormal}, 500));
    // A bin of the first round holds the whole row: a list of four keys a lane, all in the first CTA.
    run_all(small_cases(bf16, 131080, {120}, {Kind::kNarrow}, 100));
}
TEST_CASE("small: topk_wide_fp32", "[.small]") { run_wide(false); }
TEST_CASE("small: topk_wide_bf16", "[.small]") { run_wide(true); }
// Five, whose clusters are of four: parts of a row in one, two, three and all of them, and keys that registers hold.
void run_spread(bool bf16) {
    for (const int64_t keys : {33000, 25000, 17000, 9000, 8000})
        run_all(small_cases(bf16, 66000, {keys}, {Kind::kNormal}));
    for (const int64_t keys : {33000, 17000})
        run_all(small_cases(bf16, 66000, {keys}, {Kind::kSteps, Kind::kTies, Kind::kPeriodic}));
    run_all(small_cases(bf16, 66000, {17000}, {Kind::kNan}));
    run_all(small_cases(bf16, 66000, {8000}, {Kind::kSteps}));
}
TEST_CASE("small: topk_spread_fp32", "[.small]") { run_spread(false); }
TEST_CASE("small: topk_spread_bf16", "[.small]") { run_spread(true); }
// Two at the most; before sm_90 any number.
TEST_CASE("small: topk_fp32", "[.small]") { run_all(small_cases(false, 9000, {9000, 1300, 151}, kStreamedKinds)); }
TEST_CASE("small: topk_bf16", "[.small]") { run_all(small_cases(true, 9000, {9000, 1300, 151}, kStreamedKinds)); }
// One: a CTA has no room for the map of a whole row of the longest, so two slices.
TEST_CASE("small: topk_fp32 in slices", "[.small]") { run_all(small_cases(false, 600000, {140000}, {Kind::kNormal})); }
TEST_CASE("small: topk_bf16 in slices", "[.small]") { run_all(small_cases(true, 600000, {140000}, {Kind::kNormal})); }

TEST_CASE("topk: who sees what decides what is selected from") {
    using lidx::ref::Sight;
    using lidx::ref::SightKeys;
    using lidx::ref::SightRows;
    uint64_t seed = 900;
    const int64_t keys = 700;
    const auto base = [&](SightRows rows, SightKeys visible) {
        Case c;
        c.sight.rows = rows;
        c.sight.keys = visible;
        c.sight.batch = 4;
        c.sight.max_tokens = rows == SightRows::kFixed ? 3 : 5;
        c.sight.max_rows = 13;
        c.max_keys = c.sight.room = keys;
        c.stride = keys;
        c.k = 64;
        c.seed = ++seed;
        if (rows == SightRows::kCuSeqlens) c.sight.cu_seqlens = {0, 3, 3, 8, 12};
        if (rows == SightRows::kRequestIds) c.sight.row_requests = {0, 0, 0, 1, 1, 3, 3, 3, 3, 3, 3, -1, -1};
        c.sight.lengths.assign(visible == SightKeys::kRowLength ? 13 : 4, 0);
        const int64_t lengths[] = {700, 65, -3, 64, 1, 0, 3000, 63, 699, 66, 2, 333, 128};
        for (size_t i = 0; i < c.sight.lengths.size(); ++i) c.sight.lengths[i] = lengths[i];
        if (visible == SightKeys::kWindow) {
            c.sight.lengths.clear();
            c.sight.begins = {0, 5, 640, 700, 699, 10, -5, 300, 3000, 64, 0, 1, 200};
            c.sight.ends = {700, 70, 700, 700, 700, 5, 90, 900, 4000, 128, 0, 2, 190};
        }
        return c;
    };
    for (const SightRows rows : {SightRows::kCuSeqlens, SightRows::kFixed, SightRows::kRequestIds})
        for (const SightKeys visible :
             {SightKeys::kRequestLength, SightKeys::kCausal, SightKeys::kRowLength, SightKeys::kWindow})
            for (int variant = 0; variant < 4; ++variant) {
                Case c = base(rows, visible);
                c.what = "rows " + std::to_string(static_cast<int>(rows)) + " keys " +
                         std::to_string(static_cast<int>(visible));
                c.wide = variant % 2 != 0;
                c.relative = variant >= 2;
                c.bf16 = variant == 3;
                if (visible != SightKeys::kWindow && variant == 1) c.sight.ratio = 4;
                c.index_kind = static_cast<lidx_index_kind>(variant);
                c.page_size = 48;
                run(c);
            }
}

TEST_CASE("topk: forced keys are chosen whatever their score") {
    uint64_t seed = 1200;
    const struct {
        int64_t keys;
        int k, first, last;
    } cases[] = {{1000, 100, 4, 60}, {1000, 100, 100, 100}, {1000, 100, 0, 100}, {1000, 100, 300, 0},
                 {100, 100, 5, 5},   {101, 100, 90, 90},    {20000, 512, 16, 128}, {20000, 512, 512, 1},
                 {5000, 1, 1, 0},    {5000, 1, 0, 1},       {150000, 2048, 10, 2000}, {9000, 100, 0, INT_MAX}};
    for (const auto& row : cases)
        for (const Kind kind : {Kind::kNormal, Kind::kMixed, Kind::kDescending}) {
            Case c = simple(1, row.keys, row.k, kind, ++seed);
            c.forced_first = row.first;
            c.forced_last = row.last;
            c.sort = seed % 2 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            run(c);
        }
}

TEST_CASE("topk: upper bounds and company do not show in a row") {
    Case alone = simple(1, 9000, 300, Kind::kMostlyZero, 4242);
    alone.scores_out = false;
    const std::vector<int32_t> expected = run(alone);
    Case company = alone;   // row 0 draws its scores first
    company.sight.batch = company.sight.max_rows = 5;
    company.sight.lengths = {9000, 9000, 12, 8000, 0};
    std::vector<int32_t> in_company = run(company);
    in_company.resize(expected.size());
    CHECK(in_company == expected);
    Case bounded = alone;
    bounded.max_keys = bounded.stride = 400000;   // slices, were the row as long
    bounded.sight.room = 9000;
    CHECK(run(bounded) == expected);
}

// A row's last key lies behind 2^31 elements, its row begins there; both types, a row of every path.
TEST_CASE("topk: a stride beyond 2^31 elements") {
    const Machine& m = machine();
    const int64_t stride = (int64_t{1} << 31) + 64;
    const struct {
        int64_t max_keys, keys;
        int k;
        Kind kind;
    } rows[] = {{100, 100, 3, Kind::kNormal}, {20000, 20000, 512, Kind::kMixed}, {270000, 70000, 2048, Kind::kTies}};
    for (const bool bf16 : {false, true})
        for (const auto& row : rows) {
            CAPTURE(bf16, row.keys);
            const size_t element = bf16 ? 2 : 4, bytes = static_cast<size_t>(stride + row.max_keys) * element;
            CUdeviceptr scores = 0;   // far larger than what is ever touched
            if (m.driver.cuMemAlloc(&scores, bytes) != CUDA_SUCCESS) {
                WARN("no room for " << bytes << " bytes of scores");
                return;
            }
            Rng rng(4300 + static_cast<uint64_t>(row.keys));
            std::vector<float> values[2];   // row 0 sees seven keys
            for (const size_t r : {0, 1}) {
                std::vector<uint8_t> raw;
                const int64_t n = r == 0 ? 7 : row.keys;
                for (int64_t i = 0; i < n; ++i) {
                    const float drawn = draw(row.kind, i, n, bf16, 48, rng);
                    const uint16_t half = bf16_of(drawn);
                    values[r].push_back(bf16 ? lidx::ref::bf16_decode(half) : drawn);
                    const auto* from = bf16 ? reinterpret_cast<const uint8_t*>(&half)
                                            : reinterpret_cast<const uint8_t*>(&drawn);
                    raw.insert(raw.end(), from, from + element);
                }
                m.expect(m.driver.cuMemcpyHtoD(scores + r * static_cast<size_t>(stride) * element, raw.data(),
                                               raw.size()), "cuMemcpyHtoD");
            }
            Case c = simple(2, row.max_keys, row.k, row.kind, 1);
            const int32_t lengths[2] = {7, static_cast<int32_t>(row.keys)};
            const std::vector<int32_t> poison(static_cast<size_t>(2 * row.k), 0x55aa55aa);
            GuardedBuffer d_lengths(m, "context_lens", lengths, sizeof(lengths), 4, true);
            GuardedBuffer d_indices(m, "indices", poison.data(), poison.size() * 4, 4, false);
            lidx_topk_desc desc;
            REQUIRE(lidx_topk_desc_init(&desc) == LIDX_OK);
            desc.row_map = LIDX_ROWS_FIXED;
            desc.batch = desc.max_rows = 2;
            desc.max_tokens = 1;
            desc.max_keys = row.max_keys;
            desc.score_stride = stride;
            desc.score_type = bf16 ? LIDX_BF16 : LIDX_FP32;
            desc.k = row.k;
            size_t workspace_bytes = 0;
            REQUIRE(lidx_topk_workspace_bytes(m.lidx, &desc, &workspace_bytes) == LIDX_OK);
            const std::vector<uint8_t> zeros(workspace_bytes);
            GuardedBuffer d_workspace(m, "workspace", zeros.data(), workspace_bytes, 16, false);
            lidx_topk_args args;
            REQUIRE(lidx_topk_args_init(&args) == LIDX_OK);
            args.scores = reinterpret_cast<const void*>(scores);
            args.context_lens = d_lengths.at<void>();
            args.indices = d_indices.at<int32_t>();
            args.workspace = d_workspace.at<void>();
            args.workspace_bytes = workspace_bytes;
            REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, nullptr) == LIDX_OK);
            m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            m.expect(m.driver.cuMemFree(scores), "cuMemFree");
            CHECK(d_lengths.damage(true) == "");
            for (GuardedBuffer* output : {&d_indices, &d_workspace}) CHECK(output->damage(false) == "");
            std::vector<int32_t> expected;
            for (const std::vector<float>& own : values) {
                const Expected e = expect(c, own, 0, 0, {}, 0);
                expected.insert(expected.end(), e.indices.begin(), e.indices.end());
            }
            CHECK(std::memcmp(d_indices.payload(), expected.data(), expected.size() * 4) == 0);
        }
}

}  // namespace

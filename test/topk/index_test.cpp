// SPDX-License-Identifier: Apache-2.0
// lidx_index_enqueue: the keys that a sort of the oracle's scores gives, whatever the windows and the bounds.
#include "index_fixture.h"
#include "test/cache/graph_capture.h"

namespace {

using namespace index_test;

// Each request's own tokens and lengths.
Shape requests(uint64_t seed, int page_size, bool causal, std::vector<int> tokens, std::vector<int32_t> lengths) {
    Shape shape;
    shape.seed = seed;
    shape.page_size = page_size;
    shape.causal = causal;
    shape.tokens = std::move(tokens);
    shape.lengths = std::move(lengths);
    return shape;
}

}  // namespace

TEST_CASE("index: decode is one window, the oracle's keys at every page size") {
    for (const int page_size : {32, 64, 128})
        for (const bool causal : {false, true}) {
            const Problem p(requests(static_cast<uint64_t>(page_size), page_size, causal, {1, 2, 0, 1, 3},
                                     {300, 17, 40, 0, 419}));
            Options o;
            o.windows = 1;
            o.max_sms = page_size == 64 ? 0 : 8;
            run(p, o);
            o.max_sms = 3;
            o.sort = LIDX_SORT_SCORE;
            o.kind = LIDX_INDEX_PHYSICAL;
            o.flags = LIDX_FLAG_PDL;
            o.more_keys = 5000;   // upper bounds far above what is there
            o.more_tokens = 3;
            run(p, o);
        }
}

TEST_CASE("index: decode and causal prefill at k = 2048") {
    for (const int page_size : {32, 64, 128}) {
        Options o;
        o.k = 2048;
        o.flags = LIDX_FLAG_PDL;
        const Problem decode(requests(20 + static_cast<uint64_t>(page_size), page_size, false, {1, 1, 2, 1},
                                      {5000, 2048, 2049, 900}));
        o.sort = page_size == 32 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
        run(decode, o);
        const Problem prefill(requests(21 + static_cast<uint64_t>(page_size), page_size, true, {9, 4}, {2052, 3000}));
        o.budget = room_for(prefill, 5);
        o.kind = page_size == 64 ? LIDX_INDEX_PHYSICAL : LIDX_INDEX_POSITION;
        run(prefill, o);
    }
}

TEST_CASE("index: upper bounds far above the lengths, k = 2048") {
    for (const bool causal : {false, true}) {
        const Problem p(requests(30 + static_cast<uint64_t>(causal), 64, causal, {1, 2, 0, 1}, {3000, 2049, 70, 12}));
        Options o;
        o.k = 2048;
        o.more_keys = 1000000;
        o.more_tokens = causal ? 500 : 0;
        run(p, o);
        o.budget = room_for(p, 2, o.more_keys) + 131072;
        o.sort = LIDX_SORT_SCORE;
        run(p, o);
    }
}

TEST_CASE("index: causal prefill in windows of any size is prefill in one") {
    for (const int page_size : {32, 64, 128}) {
        const Problem p(requests(100 + static_cast<uint64_t>(page_size), page_size, true, {13, 0, 21, 3},
                                 {150, 9, 333, 3}));
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

TEST_CASE("index: who sees what, whatever a key is called, in one window and in several") {
    uint64_t seed = 300;
    for (const SightRows rows : {SightRows::kCuSeqlens, SightRows::kFixed, SightRows::kRequestIds})
        for (const SightKeys keys :
             {SightKeys::kRequestLength, SightKeys::kCausal, SightKeys::kRowLength, SightKeys::kWindow}) {
            const int variant = static_cast<int>(++seed % 4);
            const auto tokens = rows == SightRows::kFixed ? std::vector<int>{4, 4, 4, 4} : std::vector<int>{5, 0, 1, 7};
            Shape shape =
                requests(seed, variant == 3 ? 48 : 64, keys == SightKeys::kCausal, tokens, {210, 33, 64, 129});
            shape.rows = rows;
            if (!shape.causal) shape.keys = keys;
            shape.wide = variant % 2 == 0;
            shape.bf16 = variant >= 2;
            if (keys == SightKeys::kWindow) shape.columns = variant % 2 == 0 ? 50 : 210;
            else shape.ratio = variant == 1 ? 4 : 1;
            if (seed % 5 == 0) shape.page_size = 0;
            const Problem p(shape);
            Options o;
            o.k = 24;
            o.kind = static_cast<lidx_index_kind>(shape.page_size == 0 ? LIDX_INDEX_OFFSET : variant);
            o.sort = seed % 3 == 0 ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
            run(p, o);
            o.optional = false;
            o.budget = room_for(p, 3);
            o.flags = LIDX_FLAG_FAST;   // no kernel of that mode has so few tokens
            run(p, o);
            if (seed % 4 == 0) o.kernel = "generic_score", run(p, o);
        }
}

TEST_CASE("index: weights of two factors, scales in a pool of their own") {
    for (const bool causal : {false, true})
        for (const bool own_scales : {false, true}) {
            Shape shape = requests(60, 32, causal, {3, 2}, {170, 95});
            shape.own_scales = own_scales;
            shape.two_factors = causal || !own_scales;
            const Problem p(shape);
            Options o;
            o.k = 33;
            o.sort = LIDX_SORT_SCORE;
            run(p, o);
            o.kernel = "generic_score";
            run(p, o);
        }
}

TEST_CASE("index: a row is the same alone and in any batch") {
    const Problem all(requests(40, 64, true, {3, 5, 2}, {250, 180, 97}));
    Options o;
    o.k = 60;
    const Problem::Selection of_all = all.expected(o.k, o.kind, o.sort);
    run(all, o);
    for (size_t b = 0; b < 3; ++b) {
        Problem one = all;   // a request by itself
        const auto from = int64_t{all.sight.cu_seqlens[b]}, to = int64_t{all.sight.cu_seqlens[b + 1]};
        const auto part = [](auto& of, const auto& whole, int64_t begin, int64_t end) {
            of.assign(whole.begin() + begin, whole.begin() + end);
        };
        one.sight.batch = 1;
        one.sight.cu_seqlens = {0, static_cast<int32_t>(to - from)};
        one.sight.max_rows = one.sight.max_tokens = to - from;
        one.sight.lengths = {all.sight.lengths[b]};
        part(one.q, all.q, from * kHeads * kDepth, to * kHeads * kDepth);
        part(one.weights, all.weights, from * all.weight_stride(), to * all.weight_stride());
        part(one.table, all.table, static_cast<int64_t>(b) * all.width, static_cast<int64_t>(b + 1) * all.width);
        part(one.scores, all.scores, from, to);
        part(one.first, all.first, from, to);
        run(one, o);
        const Problem::Selection alone = one.expected(o.k, o.kind, o.sort);
        CHECK(std::equal(alone.indices.begin(), alone.indices.end(),
                         of_all.indices.begin() + from * o.k));
    }
}

TEST_CASE("index: repeated runs give the same bits") {
    const Problem p(requests(7, 64, true, {9, 6}, {220, 150}));
    Options o;
    o.k = 100;
    o.sort = LIDX_SORT_SCORE;
    o.budget = room_for(p, 8);
    o.max_sms = 2;
    run(p, o, 20);
}

TEST_CASE("index: a graph replays with other lengths, tables and scores") {
    const Machine& m = machine();
    const cache_test::Graphs graphs;
    for (const bool causal : {false, true}) {
        const auto problem = [&](uint64_t seed, std::vector<int32_t> lengths) {
            Shape shape = requests(seed, 64, causal, {2, 3, 1}, std::move(lengths));
            shape.room = 300;
            return Problem(shape);
        };
        const Problem at_capture = problem(50, {300, 20, 64});
        Options o;
        o.k = 40;
        o.flags = LIDX_FLAG_PDL;
        o.kind = LIDX_INDEX_PHYSICAL;
        o.budget = causal ? room_for(at_capture, 4) : 0;
        Call call(at_capture, o);
        const cache_test::Stream stream(m);
        const CUgraphExec exec = graphs.capture(m, stream.handle, [&] { call.enqueue(stream.handle); });
        uint64_t seed = 51;
        for (const std::vector<int32_t>& lengths :
             {std::vector<int32_t>{300, 20, 64}, {1, 300, 41}, {-1, 0, -5}, {40, 39, 300}}) {
            const Problem now = problem(++seed, lengths);
            call.replace(now);
            call.restore();
            m.expect(graphs.launch(exec, stream.handle), "cuGraphLaunch");
            stream.wait();
            CAPTURE(seed, causal);
            call.verify(now);
        }
        m.expect(graphs.destroy_exec(exec), "cuGraphExecDestroy");
    }
}

TEST_CASE("index: calls on two streams at once") {
    const Machine& m = machine();
    const Problem decode(requests(55, 64, false, {1, 1, 2}, {400, 33, 150}));
    const Problem prefill(requests(56, 32, true, {9, 7}, {90, 260}));
    Options o;
    o.k = 50;
    o.flags = LIDX_FLAG_PDL;
    Call first(decode, o);
    o.budget = room_for(prefill, 4);
    o.sort = LIDX_SORT_SCORE;
    Call second(prefill, o), third(prefill, o);
    const cache_test::Stream one(m), two(m);
    for (int round = 0; round < 3; ++round) {
        CAPTURE(round);
        for (const Call* call : {&first, &second, &third}) call->restore();
        first.enqueue(one.handle);
        second.enqueue(two.handle);
        third.enqueue(one.handle);
        one.wait();
        two.wait();
        first.verify(decode);
        second.verify(prefill);
        third.verify(prefill);
    }
}

TEST_CASE("index: long rows are shared out in every window") {
    const Problem p(requests(8, 128, false, {1, 1}, {135000, 500}));
    Options o;
    o.k = 100;
    o.budget = room_for(p, 2) + 65536;
    o.windows = 2;
    run(p, o);
}

TEST_CASE("index: keys on illegal pages count as -inf, and are told of") {
    // Few tokens a request, and so many that the kernels for many take them.
    for (const std::vector<int>& tokens : {std::vector{3, 1, 9}, std::vector{17, 24, 20}})
        for (const auto& [keys, page_size] :
             {std::pair{SightKeys::kRequestLength, 16}, {SightKeys::kRequestLength, 128}, {SightKeys::kCausal, 16},
              {SightKeys::kCausal, 32}, {SightKeys::kRowLength, 64}, {SightKeys::kWindow, 16}}) {
            Shape shape = requests(9, page_size, keys == SightKeys::kCausal, tokens, {200, 150, 97});
            if (keys != SightKeys::kCausal) shape.keys = keys;
            shape.bad_page = page_size == 128 ? 0 : 1;
            const Problem p(shape);
            Options o;
            o.k = 190;   // more than the legal keys
            o.flags = LIDX_FLAG_CHECK;
            o.found_bad = true;
            run(p, o);
            o.k = 50;
            o.budget = room_for(p, 4) + 128;
            run(p, o);
            o.kernel = "generic_score";
            run(p, o);
        }
}

TEST_CASE("index: rows of k keys or fewer are taken without a score") {
    Shape shape = requests(10, 64, true, {4, 3}, {90, 100});
    shape.bad_page = 0;
    const Problem p(shape);
    Options o;
    o.k = 100;
    o.optional = false;
    run(p, o);
    o.optional = true;    // scores are wanted
    run(p, o);
    o.optional = false;   // so is their order
    o.sort = LIDX_SORT_SCORE;
    run(p, o);
    o.sort = LIDX_SORT_POSITION;   // so is the check of page ids
    o.flags = LIDX_FLAG_CHECK;
    o.found_bad = true;
    run(p, o);
}

TEST_CASE("index: no keys at all") {
    for (const int page_size : {0, 64}) {
        Problem p(requests(11, page_size == 0 ? 0 : 64, false, {2, 1}, {1, 1}));
        p.sight.room = 0;
        p.scores.assign(p.scores.size(), {});
        Options o;
        o.k = 5;
        run(p, o);
    }
}

TEST_CASE("index: rows times keys beyond 2^31", "[.long]") {
    // Upper bounds far above what is there: of 8 GiB of scores hardly any is touched.
    Shape shape = requests(12, 64, false, {5400}, {3});
    shape.keys = SightKeys::kRowLength;
    shape.more_entries = 6250;
    const Problem p(shape);
    Options o;
    o.k = 2;
    o.more_keys = 400000;
    o.windows = 1;
    run(p, o);
}

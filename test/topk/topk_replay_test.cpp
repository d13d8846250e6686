// SPDX-License-Identifier: Apache-2.0
// lidx_topk_enqueue and lidx_topk_merge_enqueue captured in a graph: replays see new scores, lengths and tables.
#include "test/cache/graph_capture.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

using namespace cache_test;

// The k best of the first `length` scores, best first; smaller positions first among equals.
std::vector<int32_t> best(const float* scores, int32_t length, int32_t k) {
    std::vector<int32_t> order(static_cast<size_t>(std::max(length, 0)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
    order.resize(static_cast<size_t>(k), -1);
    if (length < k) std::fill(order.begin() + std::max(length, 0), order.end(), -1);
    return order;
}

struct Data {
    std::vector<float> scores;
    std::vector<int32_t> lengths, table;
};

}  // namespace

TEST_CASE("topk: a graph replays with other scores, lengths and tables") {
    const Machine& m = machine();
    const Graphs graphs;
    constexpr int32_t kRows = 3, k = 300, kPage = 64;
    for (const int32_t keys : {20000, 270000}) {   // held or streamed, shared out among CTAs
        const int32_t width = (keys + kPage - 1) / kPage;
        const auto draw = [&](uint64_t seed) {
            Rng rng(seed);
            Data data;
            data.scores.resize(static_cast<size_t>(kRows) * static_cast<size_t>(keys));
            for (float& score : data.scores) score = static_cast<float>(rng.below(5000));   // ties
            const int32_t lengths[] = {keys, k + 1, 0, keys / 2, -7, k};
            for (int32_t row = 0; row < kRows; ++row) data.lengths.push_back(lengths[rng.below(6)]);
            data.table.resize(static_cast<size_t>(kRows * width));
            for (int32_t& page : data.table) page = static_cast<int32_t>(rng.below(1000000));
            return data;
        };
        const Data at_capture = draw(1);
        GuardedBuffer d_scores(m, "scores", at_capture.scores.data(), at_capture.scores.size() * 4, 4, true);
        GuardedBuffer d_lengths(m, "context_lens", at_capture.lengths.data(), kRows * 4, 4, true);
        GuardedBuffer d_table(m, "block_table", at_capture.table.data(), at_capture.table.size() * 4, 4, true);
        const std::vector<int32_t> poison(kRows * k, 0x55aa55aa);
        GuardedBuffer d_indices(m, "indices", poison.data(), poison.size() * 4, 4, false);
        lidx_topk_desc desc;
        REQUIRE(lidx_topk_desc_init(&desc) == LIDX_OK);
        desc.flags = LIDX_FLAG_PDL;
        desc.row_map = LIDX_ROWS_FIXED;
        desc.batch = desc.max_rows = kRows;
        desc.max_tokens = 1;
        desc.max_keys = desc.score_stride = keys;
        desc.k = k;
        desc.sort = LIDX_SORT_SCORE;
        desc.index_kind = LIDX_INDEX_PHYSICAL;
        desc.page_size = kPage;
        desc.block_table_stride = width;
        size_t workspace_bytes = 0;
        REQUIRE(lidx_topk_workspace_bytes(m.lidx, &desc, &workspace_bytes) == LIDX_OK);
        if (keys < 65536) CHECK(workspace_bytes == 0);
        const std::vector<uint8_t> zeros(workspace_bytes);
        GuardedBuffer d_workspace(m, "workspace", zeros.data(), workspace_bytes, 16, false);
        lidx_topk_args args;
        REQUIRE(lidx_topk_args_init(&args) == LIDX_OK);
        args.scores = d_scores.at<void>();
        args.context_lens = d_lengths.at<void>();
        args.block_table = d_table.at<void>();
        args.indices = d_indices.at<int32_t>();
        args.workspace = d_workspace.at<void>();
        args.workspace_bytes = workspace_bytes;
        const Stream stream(m);
        const CUgraphExec exec = graphs.capture(m, stream.handle, [&] {
            REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, stream.handle) == LIDX_OK);
        });
        for (uint64_t seed = 2; seed < 6; ++seed) {
            const Data now = draw(seed);
            d_scores.replace(now.scores.data());
            d_lengths.replace(now.lengths.data());
            d_table.replace(now.table.data());
            d_indices.restore();
            m.expect(graphs.launch(exec, stream.handle), "cuGraphLaunch");
            stream.wait();
            CHECK(d_indices.damage(false) == "");
            std::vector<int32_t> expected;
            for (int32_t row = 0; row < kRows; ++row)
                for (const int32_t key : best(&now.scores[static_cast<size_t>(row * keys)],
                                              now.lengths[static_cast<size_t>(row)], k)) {
                    const int32_t page = key < 0 ? 0 : now.table[static_cast<size_t>(row * width + key / kPage)];
                    expected.push_back(key < 0 ? -1 : page * kPage + key % kPage);
                }
            CAPTURE(keys, seed);
            CHECK(std::memcmp(d_indices.payload(), expected.data(), expected.size() * 4) == 0);
        }
        m.expect(graphs.destroy_exec(exec), "cuGraphExecDestroy");
    }
}

TEST_CASE("topk merge: a graph replays with other lists") {
    const Machine& m = machine();
    const Graphs graphs;
    constexpr int32_t kShards = 4, kIn = 250, k = 200, kEntries = kShards * kIn;
    std::vector<float> scores(kEntries);
    std::vector<int32_t> positions(kEntries);
    const std::vector<int32_t> poison(k, 0x55aa55aa);
    GuardedBuffer d_scores(m, "scores", scores.data(), kEntries * 4, 4, true);
    GuardedBuffer d_positions(m, "positions", positions.data(), kEntries * 4, 4, true);
    GuardedBuffer d_indices(m, "indices", poison.data(), k * 4, 4, false);
    lidx_merge_args args;
    REQUIRE(lidx_merge_args_init(&args) == LIDX_OK);
    args.rows = 1;
    args.shards = kShards;
    args.k_in = kIn;
    args.k = k;
    args.sort = LIDX_SORT_SCORE;
    args.scores = d_scores.at<float>();
    args.positions = d_positions.at<int32_t>();
    args.indices = d_indices.at<int32_t>();
    const Stream stream(m);
    const CUgraphExec exec = graphs.capture(m, stream.handle, [&] {
        REQUIRE(lidx_topk_merge_enqueue(m.lidx, &args, stream.handle) == LIDX_OK);
    });
    for (uint64_t seed = 1; seed < 5; ++seed) {
        // Positions are a permutation; by_position is what an entry at each of them scores.
        Rng rng(seed);
        std::iota(positions.begin(), positions.end(), 0);
        for (size_t i = positions.size(); i > 1; --i) std::swap(positions[i - 1], positions[rng.below(i)]);
        std::vector<float> by_position(kEntries);
        for (size_t i = 0; i < positions.size(); ++i) {
            scores[i] = static_cast<float>(rng.below(100));
            by_position[static_cast<size_t>(positions[i])] = scores[i];
        }
        d_scores.replace(scores.data());
        d_positions.replace(positions.data());
        d_indices.restore();
        m.expect(graphs.launch(exec, stream.handle), "cuGraphLaunch");
        stream.wait();
        CHECK(d_indices.damage(false) == "");
        const std::vector<int32_t> expected = best(by_position.data(), kEntries, k);
        CHECK(std::memcmp(d_indices.payload(), expected.data(), k * 4) == 0);
    }
    m.expect(graphs.destroy_exec(exec), "cuGraphExecDestroy");
}

// SPDX-License-Identifier: Apache-2.0
// The whole loop through lidx.h: keys appended to a lidx_cache of two layers, forked, cut and freed at random, queries
// quantised, scores computed; every cell must have the bits that the models of quantisation and scoring give for the
// keys that the sequence was given.
#include "test/unit/catch_any.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "cache_fixture.h"
#include "check_model.h"

namespace {

using namespace cache_test;

constexpr int kDepth = 128, kHeads = 64, kPageSize = 16, kPages = 32, kLayers = 2, kTokens = 2;
// A page of the pool: both layers' block-split pages, one behind the other.
constexpr int64_t kLayerBytes = kPageSize * (kDepth + 4), kPageBytes = kLayers * kLayerBytes;
constexpr int kTableWidth = 12, kMaxKeys = kTableWidth * kPageSize, kStride = kMaxKeys + 8;

struct QuantisedKey {
    uint8_t codes[kDepth];
    float scale;
};
using Layers = std::array<QuantisedKey, kLayers>;

std::string error() { return lidx_last_error(machine().lidx); }

class Loop {
public:
    explicit Loop(uint64_t seed)
        : rng_(seed), pool_bytes_(kPages * kPageBytes, 0xff), d_pool_(machine(), "pool", pool_bytes_.data(),
                                                                      pool_bytes_.size(), 16, false) {
        lidx_pool pool;
        REQUIRE(lidx_pool_init(&pool) == LIDX_OK);
        pool.k_base = d_pool_.at<void>();
        pool.k_scale_base = d_pool_.at<void>(kPageSize * kDepth);
        pool.depth = kDepth;
        pool.page_size = kPageSize;
        pool.num_pages = kPages;
        pool.k_page_stride = pool.k_scale_page_stride = kPageBytes;
        pool_ = pool;
        lidx_cache_desc desc;
        REQUIRE(lidx_cache_desc_init(&desc) == LIDX_OK);
        desc.pool = &pool;
        desc.layers = kLayers;
        desc.k_layer_stride = desc.k_scale_layer_stride = kLayerBytes;
        const lidx_status status = lidx_cache_create(machine().lidx, &desc, &cache_);
        INFO(error());
        REQUIRE(status == LIDX_OK);
    }
    ~Loop() { lidx_cache_destroy(cache_); }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void step() {
        switch (keys_.empty() ? 0 : rng_.below(16)) {
            case 0: return add();
            case 1:
            case 2: return fork();
            case 3: return free();
            case 4: return truncate();
            case 5:
            case 6:
            case 7: return extend_batch();
            default: return append();
        }
    }
    void score(int32_t layer);
    int refused = 0, scored_cells = 0;

private:
    int64_t pick() {
        auto at = keys_.begin();
        std::advance(at, static_cast<int64_t>(rng_.below(keys_.size())));
        return at->first;
    }
    void add() {
        int64_t sequence = 0;
        REQUIRE(lidx_cache_add(cache_, &sequence) == LIDX_OK);
        keys_[sequence] = {};
    }
    void fork() {
        int64_t child = 0;
        const int64_t parent = pick();
        REQUIRE(lidx_cache_fork(cache_, parent, &child) == LIDX_OK);
        REQUIRE(keys_.count(child) == 0);
        keys_[child] = keys_[parent];
    }
    void free() {
        const int64_t sequence = pick();
        REQUIRE(lidx_cache_free(cache_, sequence) == LIDX_OK);
        CHECK(lidx_cache_free(cache_, sequence) == LIDX_ERR_VALUE);
        keys_.erase(sequence);
    }
    void truncate() {
        const int64_t sequence = pick();
        const auto length = rng_.below(keys_[sequence].size() + 1);
        REQUIRE(lidx_cache_truncate(cache_, sequence, static_cast<int64_t>(length)) == LIDX_OK);
        keys_[sequence].resize(length);
    }

    // Rows on the device, and what they become.
    struct Rows {
        std::unique_ptr<GuardedBuffer> device;
        lidx_cache_keys keys;
        std::vector<QuantisedKey> quantised;
    };
    Rows draw_rows(int32_t count, int32_t layer) {
        Rows rows;
        const int32_t type = kElementTypes[rng_.below(3)];
        const bool rotate = rng_.below(2) != 0, pow2 = rng_.below(2) != 0;
        const int64_t stride = kDepth + 4 * static_cast<int64_t>(rng_.below(2));
        Elements elements(type, static_cast<size_t>(count * stride));
        for (int32_t row = 0; row < count; ++row) {
            fill_vector(elements, static_cast<size_t>(row * stride), kDepth, rng_.below(8) == 0 ? rng_.next() >> 8 : 0,
                        rng_);
            float x[kDepth];
            for (int i = 0; i < kDepth; ++i) x[i] = elements.at(static_cast<size_t>(row * stride + i));
            QuantisedKey key;
            key.scale = lidx::ref::quantise_fp32(x, kDepth, rotate, pow2, key.codes);
            rows.quantised.push_back(key);
        }
        rows.device = std::make_unique<GuardedBuffer>(machine(), "keys", elements.bytes().data(),
                                                      elements.bytes().size(), 16, true);
        REQUIRE(lidx_cache_keys_init(&rows.keys) == LIDX_OK);
        rows.keys.flags = quantise_flags(rotate, pow2);
        rows.keys.key_type = type;
        rows.keys.rows = count;
        rows.keys.layer = layer;
        rows.keys.key_stride = stride;
        rows.keys.keys = rows.device->at<void>();
        return rows;
    }

    void append() {
        const int64_t sequence = pick();
        std::vector<Layers>& keys = keys_[sequence];
        const auto before = static_cast<int64_t>(keys.size());
        const auto count = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(rng_.below(40)),
                                                                  kMaxKeys - before));
        const Rows first = draw_rows(count, 0), second = draw_rows(count, 1);
        const lidx_status status = lidx_cache_append(cache_, sequence, &first.keys, nullptr);
        int64_t length = -1;
        REQUIRE(lidx_cache_length(cache_, sequence, &length) == LIDX_OK);
        if (status == LIDX_ERR_NO_PAGES) {
            ++refused;
            CHECK(length == before);
            return;
        }
        INFO(error());
        REQUIRE(status == LIDX_OK);
        CHECK(length == before + count);
        REQUIRE(lidx_cache_store(cache_, sequence, before, &second.keys, nullptr) == LIDX_OK);
        for (int32_t row = 0; row < count; ++row)
            keys.push_back({first.quantised[static_cast<size_t>(row)], second.quantised[static_cast<size_t>(row)]});
        finish();
    }

    // A decode step of an engine: one or two tokens for several sequences, one store launch per layer.
    void extend_batch() {
        std::vector<int64_t> sequences;
        std::vector<int32_t> tokens;
        for (const auto& [sequence, keys] : keys_)
            if (rng_.below(2) != 0 && keys.size() + 2 <= kMaxKeys) {
                sequences.push_back(sequence);
                tokens.push_back(static_cast<int32_t>(rng_.below(3)));
            }
        const auto count = static_cast<int32_t>(sequences.size());
        const lidx_status status = lidx_cache_extend(cache_, sequences.data(), tokens.data(), count, nullptr);
        if (status == LIDX_ERR_NO_PAGES) {
            ++refused;
            return;
        }
        INFO(error());
        REQUIRE(status == LIDX_OK);
        int32_t rows = 0;
        for (const int32_t number : tokens) rows += number;
        if (rows == 0) return;
        std::vector<int64_t> slots(static_cast<size_t>(rows));
        REQUIRE(lidx_cache_fill_slots(cache_, sequences.data(), tokens.data(), count, slots.data()) == LIDX_OK);
        const GuardedBuffer d_slots(machine(), "slots", slots.data(), slots.size() * 8, 8, true);
        std::array<Rows, kLayers> drawn = {draw_rows(rows, 0), draw_rows(rows, 1)};
        for (int layer = 0; layer < kLayers; ++layer) {
            const Rows& keys = drawn[static_cast<size_t>(layer)];
            lidx_pool pool = pool_;
            pool.k_base = static_cast<char*>(pool.k_base) + layer * kLayerBytes;
            pool.k_scale_base = static_cast<char*>(pool.k_scale_base) + layer * kLayerBytes;
            lidx_store_args args;
            REQUIRE(lidx_store_args_init(&args) == LIDX_OK);
            args.flags = keys.keys.flags;
            args.key_type = keys.keys.key_type;
            args.rows = rows;
            args.key_stride = keys.keys.key_stride;
            args.keys = keys.keys.keys;
            args.slot_mapping = d_slots.at<int64_t>();
            REQUIRE(lidx_store_enqueue(machine().lidx, &pool, &args, nullptr) == LIDX_OK);
        }
        size_t row = 0;
        for (size_t i = 0; i < sequences.size(); ++i)
            for (int32_t token = 0; token < tokens[i]; ++token, ++row)
                keys_[sequences[i]].push_back({drawn[0].quantised[row], drawn[1].quantised[row]});
        finish();
    }

    void finish() { machine().expect(machine().driver.cuCtxSynchronize(), "cuCtxSynchronize"); }

    Rng rng_;
    std::vector<uint8_t> pool_bytes_;
    GuardedBuffer d_pool_;
    lidx_pool pool_ = {};
    lidx_cache* cache_ = nullptr;
    std::map<int64_t, std::vector<Layers>> keys_;   // what each sequence was given
};

// The bits that the kernel of an arithmetic must give.
uint32_t model_score(int32_t arithmetic, const check::ModelOperand* q, const float* weights, const QuantisedKey& key) {
    check::ModelOperand k;
    k.decode(key.codes, kDepth);
    if (arithmetic == LIDX_ARITHMETIC_SM100) return check::model_sm100_score(q, weights, kHeads, k, key.scale);
    if (arithmetic == LIDX_ARITHMETIC_SM90) return check::model_sm90_score(q, weights, kHeads, k, key.scale);
    return check::model_generic_score(q, weights, kHeads, kDepth, k, key.scale);
}

// Two tokens for every sequence, all of which see all keys of the layer.
void Loop::score(int32_t layer) {
    const Machine& m = machine();
    const auto batch = static_cast<int32_t>(keys_.size());
    if (batch == 0) return;
    const int32_t rows = batch * kTokens;
    std::vector<int64_t> sequences;
    std::vector<int32_t> table(static_cast<size_t>(batch) * kTableWidth, 12345), lens(static_cast<size_t>(batch), 7);
    std::vector<int32_t> cu = {0};
    for (const auto& entry : keys_) {
        sequences.push_back(entry.first);
        cu.push_back(cu.back() + kTokens);
    }
    const GuardedBuffer d_table(m, "block_table", table.data(), table.size() * 4, 4, true);
    const GuardedBuffer d_lens(m, "context_lens", lens.data(), lens.size() * 4, 4, true);
    const GuardedBuffer d_cu(m, "cu_seqlens_q", cu.data(), cu.size() * 4, 4, true);
    lidx_cache_tables tables;
    REQUIRE(lidx_cache_tables_init(&tables) == LIDX_OK);
    tables.sequences = sequences.data();
    tables.count = batch;
    tables.block_table_stride = kTableWidth;
    tables.block_table = table.data();
    tables.context_lens = lens.data();
    tables.block_table_device = d_table.at<int32_t>();
    tables.context_lens_device = d_lens.at<int32_t>();
    const lidx_status filled = lidx_cache_fill_tables(cache_, &tables, nullptr);
    INFO(error());
    REQUIRE(filled == LIDX_OK);

    Elements q(LIDX_BF16, static_cast<size_t>(rows) * kHeads * kDepth), weights(LIDX_BF16,
                                                                                static_cast<size_t>(rows) * kHeads);
    for (size_t pair = 0; pair < static_cast<size_t>(rows) * kHeads; ++pair) {
        fill_vector(q, pair * kDepth, kDepth, 0, rng_);
        weights.set(pair, static_cast<float>(rng_.normal()));
    }
    const std::vector<uint8_t> codes(static_cast<size_t>(rows) * kHeads * kDepth, 0x7f);
    const std::vector<uint8_t> folded(static_cast<size_t>(rows) * kHeads * 4, 0xff);
    std::vector<uint32_t> scores(static_cast<size_t>(rows) * kStride);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = 0x7fc00000u | static_cast<uint32_t>(i);
    const GuardedBuffer d_q(m, "q", q.bytes().data(), q.bytes().size(), 16, true);
    const GuardedBuffer d_weights(m, "weights", weights.bytes().data(), weights.bytes().size(), 2, true);
    const GuardedBuffer d_codes(m, "q codes", codes.data(), codes.size(), 16, false);
    const GuardedBuffer d_folded(m, "q_scale", folded.data(), folded.size(), 16, false);
    GuardedBuffer d_scores(m, "scores", scores.data(), scores.size() * 4, 4, false);
    lidx_query_args query;
    REQUIRE(lidx_query_args_init(&query) == LIDX_OK);
    query.flags = LIDX_FLAG_ROTATE;
    query.rows = rows;
    query.heads = kHeads;
    query.depth = kDepth;
    query.q_type = query.weight_type = LIDX_BF16;
    query.q = d_q.at<void>();
    query.weights = d_weights.at<void>();
    query.q_out = d_codes.at<void>();
    query.weights_out = d_folded.at<void>();
    REQUIRE(lidx_query_enqueue(m.lidx, &query, nullptr) == LIDX_OK);

    lidx_score_desc desc;
    REQUIRE(lidx_score_desc_init(&desc) == LIDX_OK);
    desc.batch = batch;
    desc.max_rows = rows;
    desc.max_tokens = kTokens;
    desc.heads = kHeads;
    desc.depth = kDepth;
    desc.max_keys = kMaxKeys;
    desc.page_size = kPageSize;
    desc.num_pages = kPages;
    desc.k_page_stride = desc.k_scale_page_stride = kPageBytes;
    desc.block_table_stride = kTableWidth;
    desc.score_stride = kStride;
    lidx_plan* plan = nullptr;
    REQUIRE(lidx_plan_create(m.lidx, &desc, &plan) == LIDX_OK);
    lidx_plan_info info = {};
    info.struct_size = sizeof(info);
    REQUIRE(lidx_get_plan_info(plan, &info) == LIDX_OK);
    lidx_score_args args;
    REQUIRE(lidx_score_args_init(&args) == LIDX_OK);
    args.q = d_codes.at<void>();
    args.q_scale = d_folded.at<float>();
    args.k_base = d_pool_.at<void>(layer * kLayerBytes);
    args.k_scale_base = d_pool_.at<void>(layer * kLayerBytes + kPageSize * kDepth);
    args.block_table = d_table.at<int32_t>();
    args.context_lens = d_lens.at<int32_t>();
    args.cu_seqlens_q = d_cu.at<int32_t>();
    args.scores = d_scores.at<float>();
    const lidx_status status = lidx_score_enqueue(m.lidx, plan, &args, nullptr);
    lidx_plan_destroy(plan);
    REQUIRE(status == LIDX_OK);
    finish();

    CHECK(d_scores.damage(false) == "");
    CHECK(d_pool_.damage(false) == "");
    int wrong_keys = 0;
    for (int32_t request = 0; request < batch; ++request) {
        const std::vector<Layers>& keys = keys_[sequences[static_cast<size_t>(request)]];
        CHECK(lens[static_cast<size_t>(request)] == static_cast<int32_t>(keys.size()));
        for (size_t key = 0; key < keys.size(); ++key) {
            const int32_t page = table[static_cast<size_t>(request) * kTableWidth + key / kPageSize];
            const uint8_t* at = d_pool_.payload() + page * kPageBytes + layer * kLayerBytes;
            const QuantisedKey& expected = keys[key][static_cast<size_t>(layer)];
            wrong_keys += std::memcmp(at + key % kPageSize * kDepth, expected.codes, kDepth) != 0 ||
                          std::memcmp(at + kPageSize * kDepth + key % kPageSize * 4, &expected.scale, 4) != 0;
        }
    }
    CHECK(wrong_keys == 0);
    int wrong = 0;
    for (int32_t row = 0; row < rows; ++row) {
        std::vector<check::ModelOperand> operands(kHeads);
        std::vector<float> row_weights;
        for (int head = 0; head < kHeads; ++head) {
            const size_t pair = static_cast<size_t>(row) * kHeads + static_cast<size_t>(head);
            float x[kDepth];
            uint8_t expected[kDepth];
            for (int i = 0; i < kDepth; ++i) x[i] = q.at(pair * kDepth + static_cast<size_t>(i));
            const float scale = lidx::ref::quantise_fp32(x, kDepth, true, false, expected);
            row_weights.push_back(lidx::ref::fold_weight(weights.at(pair), scale, 0x1.6a09e6p-7f));   // (64 * 128)^-0.5
            operands[static_cast<size_t>(head)].decode(expected, kDepth);
        }
        const std::vector<Layers>& keys = keys_[sequences[static_cast<size_t>(row / kTokens)]];
        for (size_t key = 0; key < kStride; ++key) {
            const size_t cell = static_cast<size_t>(row) * kStride + key;
            uint32_t seen;
            std::memcpy(&seen, d_scores.payload() + cell * 4, 4);
            const uint32_t expected =
                key < keys.size() ? model_score(info.arithmetic, operands.data(), row_weights.data(),
                                                keys[key][static_cast<size_t>(layer)])
                                  : scores[cell];
            const bool both_nan = (seen & 0x7fffffff) > 0x7f800000 && (expected & 0x7fffffff) > 0x7f800000;
            wrong += seen != expected && !(both_nan && key < keys.size());
            scored_cells += key < keys.size();
        }
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("cache: append, fork, cut, free; query and score give the models' bits") {
    Loop loop(3);
    for (int step = 0; step < 150; ++step) {
        CAPTURE(step);
        loop.step();
        if (step % 25 == 24) loop.score(step / 25 % kLayers);
    }
    CHECK(loop.refused > 0);   // the pool was full at times
    CHECK(loop.scored_cells > 1000);
}

// SPDX-License-Identifier: Apache-2.0
// One step of an engine, in device buffers that stay where they are: quantise queries, store new keys, score, gather.
// What it must give follows from models alone. Steps follow each other over one pool.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cache_fixture.h"
#include "check_model.h"

namespace cache_test {

// Device memory of the context that is current, with its host copy.
template <typename T>
class Fixed {
public:
    Fixed(const Machine& machine, size_t count) : host(count), machine_(machine) {
        machine.expect(machine.driver.cuMemAlloc(&at_, bytes()), "cuMemAlloc");
    }
    ~Fixed() { machine_.driver.cuMemFree(at_); }
    Fixed(const Fixed&) = delete;
    Fixed& operator=(const Fixed&) = delete;
    void upload() { machine_.expect(machine_.driver.cuMemcpyHtoD(at_, host.data(), bytes()), "cuMemcpyHtoD"); }
    std::vector<T> download() const {
        std::vector<T> seen(host.size());
        machine_.expect(machine_.driver.cuMemcpyDtoH(seen.data(), at_, bytes()), "cuMemcpyDtoH");
        return seen;
    }
    T* at() const { return reinterpret_cast<T*>(at_); }
    std::vector<T> host;

private:
    size_t bytes() const { return host.size() * sizeof(T); }
    const Machine& machine_;
    CUdeviceptr at_ = 0;
};

class DecodeStep {
public:
    static constexpr int kBatch = 3, kMaxRows = 6, kMaxTokens = 3, kHeads = 32, kDepth = 128;
    static constexpr int kPageSize = 16, kPages = 24, kTable = 6, kMaxKeys = kTable * kPageSize, kStride = kMaxKeys + 4;
    static constexpr int kPageBytes = kPageSize * (kDepth + 4), kNewKeys = 7, kGathered = kBatch * kMaxKeys;

    // lidx: opened where the step will be enqueued; kernel: forced, or null.
    DecodeStep(const Machine& machine, lidx_context* lidx, const char* kernel, uint64_t seed)
        : machine_(machine), lidx_(lidx), rng_(seed), pool_(machine, kPages * kPageBytes),
          keys_(machine, kNewKeys * kDepth), slots_(machine, kNewKeys),
          q_(machine, kMaxRows * kHeads * kDepth), weights_(machine, kMaxRows * kHeads),
          codes_(machine, kMaxRows * kHeads * kDepth), folded_(machine, kMaxRows * kHeads),
          table_(machine, kBatch * kTable), lens_(machine, kBatch), cu_q_(machine, kBatch + 1),
          cu_k_(machine, kBatch + 1), scores_(machine, kMaxRows * kStride), gathered_(machine, kGathered * kDepth),
          gathered_scales_(machine, kGathered) {
        for (int page = 0; page < kPages; ++page)
            for (int slot = 0; slot < kPageSize; ++slot) {
                float x[kDepth];
                for (float& value : x) value = static_cast<float>(rng_.heavy_tailed());
                put(page, slot, x);
            }
        pool_.upload();
        lidx_score_desc desc;
        lidx_score_desc_init(&desc);
        desc.batch = kBatch;
        desc.max_rows = kMaxRows;
        desc.max_tokens = kMaxTokens;
        desc.heads = kHeads;
        desc.depth = kDepth;
        desc.max_keys = kMaxKeys;
        desc.page_size = kPageSize;
        desc.num_pages = kPages;
        desc.k_page_stride = desc.k_scale_page_stride = kPageBytes;
        desc.block_table_stride = kTable;
        desc.score_stride = kStride;
        desc.kernel = kernel;
        expect(lidx_plan_create(lidx, &desc, &plan_));
        lidx_plan_info info = {};
        info.struct_size = sizeof(info);
        expect(lidx_get_plan_info(plan_, &info));
        arithmetic_ = info.arithmetic;
    }
    ~DecodeStep() { lidx_plan_destroy(plan_); }

    // New keys, slots, tables, lengths, row boundaries, queries and weights, on the device. Outputs hold NaNs that
    // differ.
    void renew() {
        draw();
        upload();
    }

    // The same with slots, tables and lengths of a lidx_cache over pool_desc(), kBatch of whose sequences grow by 0 to
    // 2 tokens. Copies of shared pages go to the stream.
    void renew(lidx_cache* cache, const int64_t* sequences, CUstream stream) {
        draw();
        int32_t tokens[kBatch];
        int32_t rows = 0;
        for (int32_t& count : tokens) rows += count = static_cast<int32_t>(rng_.below(3));
        fill_tables(cache, sequences);
        const std::vector<int32_t> before = table_.host;
        const std::vector<int32_t> lengths = lens_.host;
        expect(lidx_cache_extend(cache, sequences, tokens, kBatch, stream));
        fill_tables(cache, sequences);
        for (size_t b = 0; b < kBatch; ++b) {
            const auto last = static_cast<size_t>(lengths[b] / kPageSize);
            const int32_t from = before[b * kTable + last], to = table_.host[b * kTable + last];
            const int used = lengths[b] % kPageSize;
            if (used == 0 || from == to) continue;
            const uint8_t* old = pool_.host.data() + from * kPageBytes;
            uint8_t* copy = pool_.host.data() + to * kPageBytes;
            std::memcpy(copy, old, static_cast<size_t>(used) * kDepth);
            std::memcpy(copy + kPageSize * kDepth, old + kPageSize * kDepth, static_cast<size_t>(used) * 4);
            ++copies;
        }
        std::fill(slots_.host.begin(), slots_.host.end(), -1);
        expect(lidx_cache_fill_slots(cache, sequences, tokens, kBatch, slots_.host.data()));
        for (size_t b = 0; b < kBatch; ++b) cu_k_.host[b + 1] = cu_k_.host[b] + lens_.host[b];
        upload();
    }
    int copies = 0;   // of shared pages

private:
    void draw() {
        std::vector<int64_t> free_slots;
        for (int64_t slot = 0; slot < kPages * kPageSize; ++slot) free_slots.push_back(slot);
        for (int row = 0; row < kNewKeys; ++row) {
            const size_t at = rng_.below(free_slots.size());
            slots_.host[static_cast<size_t>(row)] = rng_.below(4) == 0 ? -1 : free_slots[at];
            free_slots.erase(free_slots.begin() + static_cast<int64_t>(at));
        }
        for (uint16_t& element : keys_.host) element = lidx::ref::bf16_encode(static_cast<float>(rng_.heavy_tailed()));
        for (uint16_t& element : q_.host) element = lidx::ref::bf16_encode(static_cast<float>(rng_.heavy_tailed()));
        for (float& weight : weights_.host) weight = static_cast<float>(rng_.normal());
        for (int32_t& page : table_.host) page = static_cast<int32_t>(rng_.below(kPages));
        cu_q_.host[0] = cu_k_.host[0] = 0;
        for (size_t b = 0; b < kBatch; ++b) {
            lens_.host[b] = rng_.below(6) == 0 ? -1 : static_cast<int32_t>(rng_.below(kMaxKeys + 1));
            const auto room = static_cast<uint64_t>(kMaxRows - cu_q_.host[b]);
            const uint64_t tokens = rng_.below(std::min<uint64_t>(kMaxTokens, room) + 1);
            cu_q_.host[b + 1] = cu_q_.host[b] + static_cast<int32_t>(tokens);
            cu_k_.host[b + 1] = cu_k_.host[b] + std::max(0, lens_.host[b]);
        }
        for (size_t i = 0; i < scores_.host.size(); ++i) scores_.host[i] = 0x7fc00000u + static_cast<uint32_t>(i);
        for (size_t i = 0; i < gathered_.host.size(); ++i) gathered_.host[i] = static_cast<uint8_t>(i * 13 + 5);
        for (size_t i = 0; i < kGathered; ++i) gathered_scales_.host[i] = 0x7fc00000u + static_cast<uint32_t>(i);
    }
    void fill_tables(lidx_cache* cache, const int64_t* sequences) {
        lidx_cache_tables tables;
        lidx_cache_tables_init(&tables);
        tables.sequences = sequences;
        tables.count = kBatch;
        tables.block_table_stride = kTable;
        tables.block_table = table_.host.data();
        tables.context_lens = lens_.host.data();
        expect(lidx_cache_fill_tables(cache, &tables, nullptr));
    }
    void upload() {
        keys_.upload(), slots_.upload(), q_.upload(), weights_.upload(), table_.upload(), lens_.upload();
        cu_q_.upload(), cu_k_.upload(), scores_.upload(), gathered_.upload(), gathered_scales_.upload();
        // A copy from pageable memory may still be on its way to the device, and no stream waits for it by itself.
        machine_.expect(machine_.driver.cuCtxSynchronize(), "cuCtxSynchronize");
    }

public:
    void enqueue(CUstream stream) const {
        lidx_query_args query;
        lidx_query_args_init(&query);
        query.flags = LIDX_FLAG_ROTATE;
        query.rows = kMaxRows;
        query.heads = kHeads;
        query.depth = kDepth;
        query.q_type = LIDX_BF16;
        query.q = q_.at();
        query.weights = weights_.at();
        query.q_out = codes_.at();
        query.weights_out = folded_.at();
        expect(lidx_query_enqueue(lidx_, &query, stream));
        const lidx_pool pool = pool_desc();
        lidx_store_args store;
        lidx_store_args_init(&store);
        store.flags = LIDX_FLAG_ROTATE;
        store.key_type = LIDX_BF16;
        store.rows = kNewKeys;
        store.key_stride = kDepth;
        store.keys = keys_.at();
        store.slot_mapping = slots_.at();
        expect(lidx_store_enqueue(lidx_, &pool, &store, stream));
        lidx_score_args score;
        lidx_score_args_init(&score);
        score.q = codes_.at();
        score.q_scale = folded_.at();
        score.k_base = pool.k_base;
        score.k_scale_base = pool.k_scale_base;
        score.block_table = table_.at();
        score.context_lens = lens_.at();
        score.cu_seqlens_q = cu_q_.at();
        score.scores = reinterpret_cast<float*>(scores_.at());
        expect(lidx_score_enqueue(lidx_, plan_, &score, stream));
        lidx_gather_args gather;
        lidx_gather_args_init(&gather);
        gather.batch = kBatch;
        gather.max_rows = kGathered;
        gather.block_table_stride = kTable;
        gather.block_table = table_.at();
        gather.cu_seqlens_k = cu_k_.at();
        gather.context_lens = lens_.at();
        gather.k_out = gathered_.at();
        gather.k_out_stride = kDepth;
        gather.k_scale_out = reinterpret_cast<float*>(gathered_scales_.at());
        expect(lidx_gather_enqueue(lidx_, &pool, &gather, stream));
    }

    // After the stream has been waited for. "" or what is wrong.
    std::string verify() {
        for (int row = 0; row < kNewKeys; ++row) {
            const int64_t slot = slots_.host[static_cast<size_t>(row)];
            if (slot < 0) continue;
            float x[kDepth];
            for (int i = 0; i < kDepth; ++i)
                x[i] = lidx::ref::bf16_decode(keys_.host[static_cast<size_t>(row * kDepth + i)]);
            put(static_cast<int>(slot / kPageSize), static_cast<int>(slot % kPageSize), x);
        }
        if (pool_.download() != pool_.host) return "pool";
        for (size_t b = 0; b < kBatch; ++b) {
            for (int32_t key = 0; key < lens_.host[b]; ++key) {
                const auto row = static_cast<size_t>(cu_k_.host[b] + key);
                std::memcpy(gathered_.host.data() + row * kDepth, key_codes(b, key), kDepth);
                std::memcpy(&gathered_scales_.host[row], key_scale(b, key), 4);
            }
            for (int32_t row = cu_q_.host[b]; row < cu_q_.host[b + 1]; ++row) expect_scores(b, row);
        }
        if (gathered_.download() != gathered_.host) return "gathered codes";
        if (gathered_scales_.download() != gathered_scales_.host) return "gathered scales";
        return scores_.download() == scores_.host ? "" : "scores";
    }

    // Whether the outputs still hold what renew() put there.
    bool outputs_untouched() const {
        return pool_.download() == pool_.host && scores_.download() == scores_.host &&
               gathered_.download() == gathered_.host;
    }

    lidx_pool pool_desc() const {
        lidx_pool pool;
        lidx_pool_init(&pool);
        pool.k_base = pool_.at();
        pool.k_scale_base = pool_.at() + kPageSize * kDepth;
        pool.depth = kDepth;
        pool.page_size = kPageSize;
        pool.num_pages = kPages;
        pool.k_page_stride = pool.k_scale_page_stride = kPageBytes;
        return pool;
    }

private:
    void expect(lidx_status status) const {
        if (status != LIDX_OK) throw check::MachineError(lidx_last_error(lidx_));
    }
    void put(int page, int slot, const float* x) {
        uint8_t* at = pool_.host.data() + page * kPageBytes;
        const float scale = lidx::ref::quantise_fp32(x, kDepth, true, false, at + slot * kDepth);
        std::memcpy(at + kPageSize * kDepth + slot * 4, &scale, 4);
    }
    const uint8_t* key_page(size_t request, int32_t key) const {
        return pool_.host.data() + table_.host[request * kTable + static_cast<size_t>(key / kPageSize)] * kPageBytes;
    }
    const uint8_t* key_codes(size_t request, int32_t key) const {
        return key_page(request, key) + key % kPageSize * kDepth;
    }
    const uint8_t* key_scale(size_t request, int32_t key) const {
        return key_page(request, key) + kPageSize * kDepth + key % kPageSize * 4;
    }
    void expect_scores(size_t request, int32_t row) {
        std::vector<check::ModelOperand> operands(kHeads);
        std::vector<float> weights;
        const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeads) * kDepth));
        for (int head = 0; head < kHeads; ++head) {
            const auto pair = static_cast<size_t>(row * kHeads + head);
            float x[kDepth];
            uint8_t codes[kDepth];
            for (int i = 0; i < kDepth; ++i)
                x[i] = lidx::ref::bf16_decode(q_.host[pair * kDepth + static_cast<size_t>(i)]);
            const float scale = lidx::ref::quantise_fp32(x, kDepth, true, false, codes);
            weights.push_back(lidx::ref::fold_weight(weights_.host[pair], scale, factor));
            operands[static_cast<size_t>(head)].decode(codes, kDepth);
        }
        for (int32_t key = 0; key < lens_.host[request]; ++key) {
            check::ModelOperand k;
            float scale;
            k.decode(key_codes(request, key), kDepth);
            std::memcpy(&scale, key_scale(request, key), 4);
            scores_.host[static_cast<size_t>(row * kStride + key)] =
                arithmetic_ == LIDX_ARITHMETIC_SM100
                    ? check::model_sm100_score(operands.data(), weights.data(), kHeads, k, scale)
                : arithmetic_ == LIDX_ARITHMETIC_SM90
                    ? check::model_sm90_score(operands.data(), weights.data(), kHeads, k, scale)
                    : check::model_generic_score(operands.data(), weights.data(), kHeads, kDepth, k, scale);
        }
    }

    const Machine& machine_;
    lidx_context* lidx_;
    lidx_plan* plan_ = nullptr;
    int32_t arithmetic_ = 0;
    Rng rng_;
    Fixed<uint8_t> pool_;
    Fixed<uint16_t> keys_;
    Fixed<int64_t> slots_;
    Fixed<uint16_t> q_;
    Fixed<float> weights_;
    Fixed<uint8_t> codes_;
    Fixed<float> folded_;
    Fixed<int32_t> table_, lens_, cu_q_, cu_k_;
    Fixed<uint32_t> scores_;
    Fixed<uint8_t> gathered_;
    Fixed<uint32_t> gathered_scales_;
};

}  // namespace cache_test

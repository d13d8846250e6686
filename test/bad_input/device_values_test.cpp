// SPDX-License-Identifier: Apache-2.0
// Bad values in device memory, where no host check can see them: lengths, row boundaries and page ids that make no
// sense end inside the buffers, with every kernel of the device. $LIDX_DRIVER names the emulated driver.
//
// All codes are 1.0, so score = k_scale[page, slot] * 128 * heads * q_scale[row], exact in fp32.
#include "catch_any.h"

#include <lidx.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "host/driver.h"

namespace {

constexpr int kBatch = 3, kRows = 7, kMaxTokens = 3, kDepth = 128;
constexpr int kPageSize = 64, kPages = 13, kTableWidth = 4, kMaxKeys = 300;
constexpr int kPageBytes = kPageSize * (kDepth + 4);  // block-split
constexpr int kScoreStride = 320;
constexpr int kGuardFloats = 1024;  // on both sides of the scores
constexpr float kCanary = -12345.0f;

struct Machine {
    lidx::Driver driver;
    lidx_context* context = nullptr;

    Machine() {
        const char* setup = std::getenv("LIDX_TEST_DRIVER");  // meson test --setup=gpu: cuda
        if (setup != nullptr && std::string(setup) == "cuda") unsetenv("LIDX_DRIVER");
        std::string error;
        REQUIRE(lidx::load_driver(nullptr, &driver, &error));
        CUcontext primary = nullptr;
        REQUIRE(driver.cuInit(0) == CUDA_SUCCESS);
        REQUIRE(driver.cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
        REQUIRE(driver.cuCtxSetCurrent(primary) == CUDA_SUCCESS);
        REQUIRE(lidx_open(nullptr, &context) == LIDX_OK);
    }
    ~Machine() { lidx_close(context); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
};

// A device copy of exactly as many bytes as the host vector has: the emulator traps what lies beyond.
template <typename T>
class Buffer {
public:
    Buffer(const lidx::Driver& driver, const std::vector<T>& values) : driver_(driver), count_(values.size()) {
        REQUIRE(driver_.cuMemAlloc(&address_, count_ * sizeof(T)) == CUDA_SUCCESS);
        REQUIRE(driver_.cuMemcpyHtoD(address_, values.data(), count_ * sizeof(T)) == CUDA_SUCCESS);
    }
    ~Buffer() { driver_.cuMemFree(address_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* at(size_t element = 0) const { return reinterpret_cast<T*>(address_) + element; }
    std::vector<T> download() const {
        std::vector<T> values(count_);
        REQUIRE(driver_.cuMemcpyDtoH(values.data(), address_, count_ * sizeof(T)) == CUDA_SUCCESS);
        return values;
    }

private:
    const lidx::Driver& driver_;
    CUdeviceptr address_ = 0;
    size_t count_;
};

struct Case {
    std::string name;
    std::vector<int32_t> lens, cu_seqlens, table;
};

std::vector<int32_t> good_table() {
    std::vector<int32_t> table;
    for (int i = 0; i < kBatch * kTableWidth; ++i) table.push_back((i * 5 + 2) % kPages);
    return table;
}

std::vector<Case> cases() {
    const std::vector<int32_t> lens = {200, 130, 64}, cu = {0, 3, 5, 7};
    std::vector<Case> all = {
        {"all good", lens, cu, good_table()},
        {"nothing to see", {0, -1, INT_MIN}, cu, good_table()},
        {"beyond the table", {257, 301, INT_MAX}, cu, good_table()},
        {"row boundaries beyond the rows", lens, {-5, 2, 4, INT_MAX}, good_table()},
        {"row boundaries that fall", lens, {4, 2, 1, 3}, good_table()},
        {"row boundaries far away", lens, {INT_MAX, INT_MAX, INT_MIN, 0}, good_table()},
        {"more tokens than the plan's", lens, {0, 7, 7, 7}, good_table()},
    };
    const int32_t bad_ids[] = {-1, kPages, INT_MAX, INT_MIN};
    for (const int32_t id : bad_ids) {
        Case inside{"page id " + std::to_string(id) + " inside a length", lens, cu, good_table()};
        inside.table[1] = id;
        inside.table[kTableWidth + 2] = id;  // slots 128 and 129 of request 1
        all.push_back(inside);
        Case beyond{"page id " + std::to_string(id) + " beyond every length", lens, cu, good_table()};
        beyond.table[kTableWidth + 3] = beyond.table[2 * kTableWidth + 1] = id;
        all.push_back(beyond);
    }
    return all;
}

float k_scale_of(int page, int slot) { return static_cast<float>(page + 1 + slot * 16); }
float q_scale_of(int row) { return static_cast<float>(row + 1) / 8; }

// What the scores must hold, guards included, and whether a page id inside a length is bad.
std::vector<float> expected_scores(const Case& c, int heads, bool* bad_page) {
    std::vector<float> scores(2 * kGuardFloats + kRows * kScoreStride, kCanary);
    *bad_page = false;
    for (int b = 0; b < kBatch; ++b) {
        const int begin = std::clamp(c.cu_seqlens[b], 0, kRows);
        const int end = std::clamp(c.cu_seqlens[b + 1], begin, kRows);
        const int keys = std::clamp(c.lens[b], 0, std::min(kMaxKeys, kTableWidth * kPageSize));
        for (int row = begin; row < std::min(end, begin + kMaxTokens); ++row)
            for (int key = 0; key < keys; ++key) {
                const int page = c.table[b * kTableWidth + key / kPageSize];
                if (page < 0 || page >= kPages)
                    *bad_page = true;
                else
                    scores[kGuardFloats + row * kScoreStride + key] =
                        k_scale_of(page, key % kPageSize) * (128.0f * heads * q_scale_of(row));
            }
    }
    return scores;
}

int heads_of(const lidx_kernel_info& kernel) { return kernel.heads != 0 ? kernel.heads : 5; }

lidx_score_desc desc_for(const lidx_kernel_info& kernel, bool check) {
    lidx_score_desc desc;
    REQUIRE(lidx_score_desc_init(&desc) == LIDX_OK);
    desc.flags = check ? LIDX_FLAG_CHECK : 0;
    desc.batch = kBatch;
    desc.max_rows = kRows;
    desc.max_tokens = kMaxTokens;
    desc.heads = heads_of(kernel);
    desc.depth = kDepth;
    desc.max_keys = kMaxKeys;
    desc.page_size = kPageSize;
    desc.num_pages = kPages;
    desc.k_page_stride = desc.k_scale_page_stride = kPageBytes;
    desc.block_table_stride = kTableWidth;
    desc.score_stride = kScoreStride;
    desc.kernel = kernel.symbol;
    return desc;
}

void run(const Machine& machine, const lidx_kernel_info& kernel, const Case& c, bool check) {
    const int heads = heads_of(kernel);
    CAPTURE(kernel.symbol, c.name, check);
    std::vector<uint8_t> pool(kPages * kPageBytes, 0x38);
    for (int page = 0; page < kPages; ++page)
        for (int slot = 0; slot < kPageSize; ++slot) {
            const float scale = k_scale_of(page, slot);
            const auto* bytes = reinterpret_cast<const uint8_t*>(&scale);
            std::copy(bytes, bytes + 4, pool.begin() + page * kPageBytes + kPageSize * kDepth + slot * 4);
        }
    std::vector<float> q_scale;
    for (int row = 0; row < kRows; ++row) q_scale.insert(q_scale.end(), heads, q_scale_of(row));
    while (q_scale.size() % 4 != 0) q_scale.push_back(0);

    const lidx::Driver& driver = machine.driver;
    const Buffer<uint8_t> d_q(driver, std::vector<uint8_t>(kRows * heads * kDepth, 0x38)), d_pool(driver, pool);
    const Buffer<float> d_q_scale(driver, q_scale);
    const Buffer<int32_t> d_table(driver, c.table), d_lens(driver, c.lens), d_cu(driver, c.cu_seqlens);
    const Buffer<float> d_scores(driver, std::vector<float>(2 * kGuardFloats + kRows * kScoreStride, kCanary));
    const Buffer<uint32_t> d_workspace(driver, {0, 7, 7, 7});

    const lidx_score_desc desc = desc_for(kernel, check);
    lidx_plan* plan = nullptr;
    REQUIRE(lidx_plan_create(machine.context, &desc, &plan) == LIDX_OK);
    lidx_score_args args;
    REQUIRE(lidx_score_args_init(&args) == LIDX_OK);
    args.q = d_q.at();
    args.q_scale = d_q_scale.at();
    args.k_base = d_pool.at();
    args.k_scale_base = d_pool.at(kPageSize * kDepth);
    args.block_table = d_table.at();
    args.context_lens = d_lens.at();
    args.cu_seqlens_q = d_cu.at();
    args.scores = d_scores.at(kGuardFloats);
    args.workspace = check ? d_workspace.at() : nullptr;
    args.workspace_bytes = check ? 16 : 0;
    const lidx_status status = lidx_score_enqueue(machine.context, plan, &args, nullptr);
    lidx_plan_destroy(plan);
    CAPTURE(lidx_last_error(machine.context));
    REQUIRE(status == LIDX_OK);
    REQUIRE(driver.cuCtxSynchronize() == CUDA_SUCCESS);

    bool bad_page = false;
    const std::vector<float> expected = expected_scores(c, heads, &bad_page);
    const std::vector<float> scores = d_scores.download();
    int wrong = 0;
    for (size_t i = 0; i < scores.size(); ++i) wrong += scores[i] != expected[i];
    CHECK(wrong == 0);
    const std::vector<uint32_t> workspace = d_workspace.download();
    CHECK(workspace[0] == (check && bad_page ? 1u : 0u));
    CHECK(std::count(workspace.begin() + 1, workspace.end(), 7u) == 3);
}

}  // namespace

TEST_CASE("device values: every kernel stays inside its buffers and scores what is left") {
    const Machine machine;
    int kernels = 0;
    for (int32_t index = 0; index < lidx_kernel_count(); ++index) {
        lidx_kernel_info kernel = {};
        kernel.struct_size = sizeof(kernel);
        REQUIRE(lidx_get_kernel_info(machine.context, index, &kernel) == LIDX_OK);
        const lidx_score_desc desc = desc_for(kernel, false);
        lidx_support support = {};
        support.struct_size = sizeof(support);
        REQUIRE(lidx_supports(machine.context, &desc, &support) == LIDX_OK);
        if (support.symbol == nullptr) continue;  // not one of this device's
        ++kernels;
        for (const Case& c : cases())
            for (const bool check : {false, true}) run(machine, kernel, c, check);
    }
    CHECK(kernels >= 1);
}

// SPDX-License-Identifier: Apache-2.0
// Hidden: times of lidx_topk_enqueue on a GPU, the table of docs/topk.md.
//     LIDX_TEST_DRIVER=cuda topk_kernels "[.bench]"
#include "test/unit/catch_any.h"

#include <lidx.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "test/cache/cache_fixture.h"

namespace {

using cache_test::machine;
using check::Machine;

// Standard normal, by the polar method.
std::vector<float> normal_scores(size_t count) {
    lidx::ref::Rng rng(1);
    std::vector<float> scores(count);
    for (float& score : scores) {
        double x, y, square;
        do {
            x = 2 * rng.uniform() - 1, y = 2 * rng.uniform() - 1;
            square = x * x + y * y;
        } while (square >= 1 || square == 0);
        score = static_cast<float>(x * std::sqrt(-2 * std::log(square) / square));
    }
    return scores;
}

// Median over 15 groups of 10 launches, microseconds.
double time_topk(const Machine& m, const lidx_topk_desc& desc, const lidx_topk_args& args) {
    constexpr int kGroups = 15, kLaunches = 10;
    CUevent begin = nullptr, end = nullptr;
    m.expect(m.driver.cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
    m.expect(m.driver.cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
    std::vector<float> times;
    for (int group = 0; group < kGroups + 1; ++group) {   // the first warms up
        m.expect(m.driver.cuEventRecord(begin, nullptr), "cuEventRecord");
        for (int i = 0; i < kLaunches; ++i) REQUIRE(lidx_topk_enqueue(m.lidx, &desc, &args, nullptr) == LIDX_OK);
        m.expect(m.driver.cuEventRecord(end, nullptr), "cuEventRecord");
        m.expect(m.driver.cuEventSynchronize(end), "cuEventSynchronize");
        float milliseconds = 0;
        m.expect(m.driver.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
        if (group > 0) times.push_back(milliseconds * 1000 / kLaunches);
    }
    m.driver.cuEventDestroy(begin);
    m.driver.cuEventDestroy(end);
    std::nth_element(times.begin(), times.begin() + kGroups / 2, times.end());
    return times[kGroups / 2];
}

TEST_CASE("topk: times", "[.bench]") {
    const Machine& m = machine();
    std::printf("%s, k = 2048, fp32\n", m.name.c_str());
    const struct {
        int32_t rows;
        int64_t keys;
    } shapes[] = {{1, 8192},      {1, 65536},   {1, 131072},  {8, 131072},  {64, 32768},  {64, 131072},
                  {64, 1048576}, {256, 8192}, {256, 65536}, {4096, 8192}, {2048, 65536}};
    const std::vector<float> values = normal_scores(size_t{1} << 22);
    for (const auto& shape : shapes) {
        const auto cells = static_cast<size_t>(shape.rows * shape.keys);
        CUdeviceptr scores = 0, lengths = 0, indices = 0, workspace = 0;
        m.expect(m.driver.cuMemAlloc(&scores, cells * 4), "cuMemAlloc");
        for (size_t at = 0; at < cells; at += values.size())
            m.expect(m.driver.cuMemcpyHtoD(scores + at * 4, values.data(), std::min(values.size(), cells - at) * 4),
                     "cuMemcpyHtoD");
        m.expect(m.driver.cuMemAlloc(&lengths, static_cast<size_t>(shape.rows) * 4), "cuMemAlloc");
        m.expect(m.driver.cuMemsetD32(lengths, static_cast<unsigned>(shape.keys), static_cast<size_t>(shape.rows)),
                 "cuMemsetD32");
        m.expect(m.driver.cuMemAlloc(&indices, static_cast<size_t>(shape.rows) * 2048 * 4), "cuMemAlloc");
        lidx_topk_desc desc;
        lidx_topk_desc_init(&desc);
        desc.row_map = LIDX_ROWS_FIXED;
        desc.batch = desc.max_rows = shape.rows;
        desc.max_tokens = 1;
        desc.max_keys = desc.score_stride = shape.keys;
        desc.k = 2048;
        size_t workspace_bytes = 0;
        REQUIRE(lidx_topk_workspace_bytes(m.lidx, &desc, &workspace_bytes) == LIDX_OK);
        if (workspace_bytes > 0) {
            m.expect(m.driver.cuMemAlloc(&workspace, workspace_bytes), "cuMemAlloc");
            m.expect(m.driver.cuMemsetD8(workspace, 0, workspace_bytes), "cuMemsetD8");
        }
        lidx_topk_args args;
        lidx_topk_args_init(&args);
        args.scores = reinterpret_cast<const void*>(scores);
        args.context_lens = reinterpret_cast<const void*>(lengths);
        args.indices = reinterpret_cast<int32_t*>(indices);
        args.workspace = reinterpret_cast<void*>(workspace);
        args.workspace_bytes = workspace_bytes;
        std::printf("%5d x %7lld %8.2f us\n", shape.rows, static_cast<long long>(shape.keys),
                    time_topk(m, desc, args));
        for (const CUdeviceptr address : {scores, lengths, indices, workspace})
            if (address != 0) m.expect(m.driver.cuMemFree(address), "cuMemFree");
    }
}

}  // namespace

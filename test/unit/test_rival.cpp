// SPDX-License-Identifier: Apache-2.0
// A rival for the tests of lidx bench: the formula on the CPU, once, when it is prepared; a run copies the result to
// the device. TEST_RIVAL_DRIVER is the driver library; TEST_RIVAL makes it misbehave:
//     wrong     every score times 1.5; takes the worst keys
//     silent    writes nothing
//     twice     gives its first index twice
//     declines, refuses, fails    prepare gives 1; prepare gives -1; run gives 7
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/ref/e4m3.h"
#include "tools/lidx/rival.h"

namespace {

bool mode_is(const char* mode) {
    const char* set = std::getenv("TEST_RIVAL");
    return set != nullptr && std::strcmp(set, mode) == 0;
}

template <class Function>
Function driver_function(const char* name) {
    static void* const library = dlopen(std::getenv("TEST_RIVAL_DRIVER"), RTLD_NOW);
    return reinterpret_cast<Function>(dlsym(library, name));
}

template <class T>
std::vector<T> download(const T* device, size_t count) {
    static const auto copy = driver_function<decltype(&::cuMemcpyDtoH_v2)>("cuMemcpyDtoH_v2");
    std::vector<T> host(count);
    if (copy(host.data(), reinterpret_cast<CUdeviceptr>(device), count * sizeof(T)) != CUDA_SUCCESS) std::abort();
    return host;
}

struct State {
    lidx_rival_case work;
    std::vector<float> scores;      // [rows, score_stride]
    std::vector<int32_t> indices;   // [rows, k]
};

bool is_decode(const lidx_rival_case& c) { return c.work == LIDX_RIVAL_DECODE || c.work == LIDX_RIVAL_DECODE_TOPK; }


using Ints = std::vector<int32_t>;

void score(const lidx_rival_case& c, State& state, const Ints& begin, const Ints& end) {
    const auto q = download(c.q, size_t(c.rows) * c.heads * c.depth);
    const auto weights = download(c.q_scale, size_t(c.rows) * c.heads);
    const size_t page_bytes = size_t(c.page_size) * (c.depth + 4);
    const auto pool = is_decode(c) ? download(c.pool, c.num_pages * page_bytes) : std::vector<uint8_t>();
    const auto table = is_decode(c) ? download(c.block_table, size_t(c.batch) * c.block_table_stride) : Ints();
    const auto keys = is_decode(c) ? std::vector<uint8_t>() : download(c.keys, size_t(c.max_keys) * c.depth);
    const auto scales = is_decode(c) ? std::vector<float>() : download(c.key_scale, size_t(c.max_keys));
    for (int row = 0; row < c.rows; ++row)
        for (int key = begin[row]; key < end[row]; ++key) {
            const uint8_t* codes = keys.data() + size_t(key) * c.depth;
            float scale = is_decode(c) ? 0 : scales[key];
            if (is_decode(c)) {
                const int32_t page = table[size_t(row / c.next_n) * c.block_table_stride + key / c.page_size];
                const uint8_t* base = pool.data() + page * page_bytes;
                codes = base + size_t(key % c.page_size) * c.depth;
                std::memcpy(&scale, base + size_t(c.page_size) * c.depth + 4 * (key % c.page_size), 4);
            }
            double sum = 0;
            for (int h = 0; h < c.heads; ++h) {
                const uint8_t* query = q.data() + (size_t(row) * c.heads + h) * c.depth;
                double dot = 0;
                for (int d = 0; d < c.depth; ++d)
                    dot += lidx::ref::kE4m3Value[query[d]] * lidx::ref::kE4m3Value[codes[d]];
                sum += std::max(dot, 0.0) * weights[size_t(row) * c.heads + h];
            }
            state.scores[size_t(row) * c.score_stride + key] = float(sum * scale) * (mode_is("wrong") ? 1.5f : 1.0f);
        }
}

void choose(const lidx_rival_case& c, State& state, const Ints& begin, const Ints& end) {
    state.indices.assign(size_t(c.rows) * c.k, -1);
    for (int row = 0; row < c.rows; ++row) {
        std::vector<int32_t> order;
        for (int key = begin[row]; key < end[row]; ++key) order.push_back(key);
        const float* scores = state.scores.data() + size_t(row) * c.score_stride;
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return mode_is("wrong") ? scores[a] < scores[b] : scores[a] > scores[b];
        });
        if (mode_is("twice") && order.size() > 1) order[1] = order[0];
        std::copy_n(order.begin(), std::min(order.size(), size_t(c.k)), state.indices.begin() + size_t(row) * c.k);
    }
}

}  // namespace

extern "C" const char* lidx_rival_name(void) { return "test \"rival\", 1"; }

extern "C" int lidx_rival_prepare(const lidx_rival_case* work, void** state) {
    if (work->struct_size != sizeof *work || mode_is("refuses")) return -1;
    if (mode_is("declines")) return 1;
    auto* made = new State{*work, {}, {}};
    const lidx_rival_case& c = *work;
    std::vector<int32_t> begin(c.rows, 0), end(c.rows);
    if (is_decode(c)) {
        const auto lengths = download(c.context_lens, c.batch);
        for (int row = 0; row < c.rows; ++row) end[row] = lengths[row / c.next_n];
        if (end != download(c.row_end, c.rows)) return -1;
    } else {
        end = download(c.row_end, c.rows);
        if (c.row_begin != nullptr) begin = download(c.row_begin, c.rows);
    }
    if (c.work == LIDX_RIVAL_TOPK) {
        made->scores = download(c.scores, size_t(c.rows) * c.score_stride);
    } else {
        made->scores.resize(size_t(c.rows) * c.score_stride);
        score(c, *made, begin, end);
    }
    if (c.indices != nullptr) choose(c, *made, begin, end);
    *state = made;
    return 0;
}

extern "C" int lidx_rival_run(void* state, void* stream) {
    if (mode_is("fails")) return 7;
    if (mode_is("silent")) return 0;
    static const auto copy = driver_function<decltype(&::cuMemcpyHtoDAsync_v2)>("cuMemcpyHtoDAsync_v2");
    const State& s = *static_cast<State*>(state);
    const bool chooses = s.work.indices != nullptr;
    const void* from = chooses ? static_cast<const void*>(s.indices.data()) : s.scores.data();
    const void* to = chooses ? static_cast<const void*>(s.work.indices) : s.work.scores;
    const size_t size_bytes = 4 * (chooses ? s.indices.size() : s.scores.size());
    return copy(reinterpret_cast<CUdeviceptr>(to), from, size_bytes, static_cast<CUstream>(stream)) == CUDA_SUCCESS
               ? 0
               : -1;
}

extern "C" void lidx_rival_release(void* state) { delete static_cast<State*>(state); }

// SPDX-License-Identifier: Apache-2.0
// What several launches have to do with each other: a row has the same bits in whatever company and under whatever
// limits, launches replay with other lengths, streams and contexts do not disturb each other, and offsets pass 2^31.
// Every launch is judged against the reference and an independent model, too.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "catch_any.h"
#include "check_cases.h"
#include "check_inputs.h"
#include "check_machine.h"
#include "check_run.h"
#include "check_upload.h"
#include "test/cache/graph_capture.h"

using namespace check;

namespace {

// meson test --setup=gpu: the CUDA driver; else the emulator that $LIDX_DRIVER names.
bool on_silicon() {
    const char* setup = std::getenv("LIDX_TEST_DRIVER");
    return setup != nullptr && std::string(setup) == "cuda";
}
std::string driver_library() {
    const char* path = std::getenv("LIDX_DRIVER");
    return on_silicon() ? "libcuda.so.1" : path != nullptr ? path : "";
}

Inputs inputs_of(const std::string& name) { return make_inputs(cases_named({name.c_str()}).front()); }

struct Plan {
    Plan(lidx_context* context, const Inputs& in) {
        const lidx_score_desc desc = describe(in);
        const lidx_status status = lidx_plan_create(context, &desc, &plan);
        INFO(lidx_last_error(context));
        REQUIRE(status == LIDX_OK);
        info.struct_size = sizeof(info);
        REQUIRE(lidx_get_plan_info(plan, &info) == LIDX_OK);
    }
    ~Plan() { lidx_plan_destroy(plan); }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    lidx_plan* plan = nullptr;
    lidx_plan_info info = {};
};

Outcome outcome_of(const Plan& plan, Upload& upload) {
    Outcome out;
    out.problem = upload.damage();
    out.symbol = plan.info.symbol;
    out.arithmetic = plan.info.arithmetic;
    std::copy_n(plan.info.grid, 3, out.grid.begin());
    out.scores = upload.scores();
    return out;
}

void require_right(const Inputs& in, const Outcome& out) {
    CAPTURE(case_name(in.c), out.symbol);
    REQUIRE(out.problem.empty());
    const std::string judged = judge_scores(in, out);
    CAPTURE(judged);
    REQUIRE(judged.empty());
}

Outcome run(const Machine& machine, const Inputs& in) {
    const Plan plan(machine.lidx, in);
    Upload upload(machine, in, 16, plan.info.workspace_bytes);
    REQUIRE(lidx_score_enqueue(machine.lidx, plan.plan, &upload.args, nullptr) == LIDX_OK);
    machine.expect(machine.driver.cuCtxSynchronize(), "cuCtxSynchronize");
    Outcome out = outcome_of(plan, upload);
    require_right(in, out);
    return out;
}

// The scores of a row, from its first key to its last.
std::vector<uint32_t> row_bits(const Inputs& in, const Outcome& out, int row) {
    const Row& of = in.rows[row];
    const auto first = out.scores.begin() + row * in.score_stride + (in.c.engine.relative ? 0 : of.begin);
    return {first, first + (of.end - of.begin)};
}

// Kernels of this device for a number of heads, besides generic_score; one family, one arithmetic.
std::vector<std::string> family(const Machine& machine, int heads) {
    std::vector<std::string> symbols;
    for (int32_t i = 0; i < lidx_kernel_count(); ++i) {
        lidx_kernel_info info = {};
        info.struct_size = sizeof(info);
        REQUIRE(lidx_get_kernel_info(machine.lidx, i, &info) == LIDX_OK);
        Case c = cases_named({"auto/h64/d128/t1/b1/n9/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1"})[0];
        c.kernel = info.symbol;
        c.heads = heads;
        const Inputs in = make_inputs(c);
        const lidx_score_desc desc = describe(in);
        lidx_support support = {};
        support.struct_size = sizeof(support);
        REQUIRE(lidx_supports(machine.lidx, &desc, &support) == LIDX_OK);
        if (support.symbol != nullptr && info.arithmetic != LIDX_ARITHMETIC_FP32 &&
            info.arithmetic != LIDX_ARITHMETIC_SM90_FAST)
            symbols.push_back(info.symbol);
    }
    return symbols;
}

// "" where the device has no fast mode for them.
std::string fast_kernel(const Machine& machine, int heads) {
    const bool served = machine.compute_capability == 90 && (heads == 64 || heads == 32);
    return served ? "sm90_fast_h" + std::to_string(heads) : "";
}

// One request of one row: what a row of `in` is by itself.
Inputs alone(const Inputs& in, int row) {
    Inputs one = in;
    const int request = in.rows[row].request;
    one.c.batch = one.c.tokens = one.max_tokens = one.max_rows = 1;
    const auto q = in.q.begin() + int64_t{row} * in.c.heads * in.c.depth;
    one.q.assign(q, q + int64_t{in.c.heads} * in.c.depth);
    const auto q_scale = in.q_scale.begin() + int64_t{row} * in.c.heads;
    one.q_scale.assign(q_scale, q_scale + in.c.heads);
    const auto weights = in.weights.begin() + int64_t{row} * in.c.heads * 4;
    one.weights.assign(weights, weights + int64_t{in.c.heads} * 4);
    one.requests = {in.requests[request]};
    one.requests[0].row_begin = 0;
    one.requests[0].tokens = 1;
    one.rows = {in.rows[row]};
    one.rows[0].request = 0;
    one.block_table.assign(in.block_table.begin() + request * in.table_width,
                           in.block_table.begin() + (request + 1) * in.table_width);
    one.sight.cu_seqlens = {0, 1};
    one.sight.row_requests = {0};
    one.sight.lengths = {in.rows[row].end};
    one.live_cells = in.rows[row].end;
    return one;
}

// The same with every limit above what is used.
Inputs slack(const Inputs& in, int tokens, int64_t keys) {
    Inputs wide = in;
    wide.max_tokens += tokens;
    wide.max_rows += 5;
    wide.max_keys += keys;
    wide.score_stride += keys;
    wide.score_columns += keys;
    wide.rows.resize(wide.max_rows);
    wide.q.resize(static_cast<size_t>(wide.max_rows) * in.c.heads * in.c.depth, 0xff);
    wide.weights.resize(static_cast<size_t>(wide.max_rows) * in.c.heads * 4, 0xff);
    wide.q_scale.resize(static_cast<size_t>(wide.max_rows) * in.c.heads);
    wide.table_width += 7;
    wide.block_table.assign(in.c.batch * wide.table_width, -1);
    for (int b = 0; b < in.c.batch; ++b)
        std::copy_n(in.block_table.begin() + b * in.table_width, in.table_width,
                    wide.block_table.begin() + b * wide.table_width);
    return wide;
}

}  // namespace

TEST_CASE("alone, in any batch, under any limit: a row has the same bits") {
    const Machine machine(driver_library());
    const struct {
        std::string kernel, words;
        int heads;
    } families[] = {{"auto", "", 64},        {"auto", "", 32},        {"auto", "", 8},
                    {"auto", "/causal", 64}, {"auto", "/causal", 32}, {"auto", "/causal", 8},
                    {fast_kernel(machine, 64), "/causal", 64}, {fast_kernel(machine, 32), "", 32}};
    for (const auto& [kernel, words, heads] : families) {
        if (kernel.empty()) continue;
        const Inputs in = inputs_of(kernel + "/h" + std::to_string(heads) +
                                    "/d128/t6/b4/n300/p64/block-split/pad16/gap0/normal/ragged/nocheck/guard/s71" +
                                    words);
        const Outcome out = run(machine, in);
        int rows = 0;
        for (int row = 0; row < in.max_rows; ++row) {
            if (in.rows[row].end == 0) continue;
            ++rows;
            Inputs one = alone(in, row);
            one.c.engine.sees = Engine::Sees::kLength;
            if (out.symbol == "generic_score") one.c.kernel = out.symbol;   // one family, one arithmetic
            CAPTURE(row, heads, words);
            CHECK(row_bits(one, run(machine, one), 0) == row_bits(in, out, row));
        }
        CHECK(rows > 6);
        for (const auto& [tokens, keys] : {std::pair{1, 1}, {3, 0}, {200, 500}, {1000, 20000}}) {
            const Inputs wide = slack(in, tokens, keys);
            const Outcome again = run(machine, wide);
            CAPTURE(tokens, keys, again.grid[0], again.grid[1], again.grid[2]);
            for (int row = 0; row < in.max_rows; ++row)
                CHECK(row_bits(wide, again, row) == row_bits(in, out, row));
        }
    }
}

TEST_CASE("page size, layout, tile variant, limit of CTAs: a row has the same bits") {
    const Machine machine(driver_library());
    constexpr const char* kPlaces[] = {"p64/block-split/pad0",  "p16/block-split/pad16", "p32/split-pool/pad0",
                                       "p128/split-pool/pad16", "p256/block-split/pad0", "p0/contiguous/pad0"};
    for (const int heads : {64, 32, 128, 16, 8, 4}) {
        std::vector<std::string> kernels = family(machine, heads);
        if (kernels.empty() && heads != 64 && heads != 32) continue;
        if (kernels.empty()) kernels = {"generic_score"};
        const std::string shape = "/h" + std::to_string(heads) + "/d128/t7/b3/n300/", rest = "/gap0/normal/ragged/";
        std::map<std::pair<int, int>, std::vector<uint32_t>> first;   // request and token: bits
        const auto compare = [&](const std::string& name, std::vector<std::vector<uint32_t>>* rows) {
            const Inputs in = inputs_of(name);
            const Outcome out = run(machine, in);
            std::vector<std::vector<uint32_t>> bits;
            for (int row = 0; row < in.max_rows; ++row) bits.push_back(row_bits(in, out, row));
            CAPTURE(name);
            if (rows->empty()) *rows = bits;
            CHECK(bits == *rows);
        };
        std::vector<std::vector<uint32_t>> rows, generic;
        for (const std::string& kernel : kernels)
            for (const char* place : kPlaces) compare(kernel + shape + place + rest + "nocheck/guard/s72", &rows);
        for (const std::string& kernel : kernels)
            if (kernel.rfind("sm100_", 0) == 0)
                for (const char* words : {"/sms1", "/sms5", "/pdl", "/fill100", "/ids,i64"})
                    if (kernel.rfind("sm100_wide", 0) != 0 || std::string(words) != "/fill100")   // fills nothing
                        compare(kernel + shape + "p48/block-split/pad0" + rest + "nocheck/guard/s72" + words, &rows);
        if (const std::string fast = fast_kernel(machine, heads); !fast.empty()) {
            std::vector<std::vector<uint32_t>> fast_rows;
            for (const char* place : kPlaces) compare(fast + shape + place + rest + "nocheck/guard/s72", &fast_rows);
            for (const char* words : {"/sms1", "/pdl", "/fill100", "/ids,i64"})
                compare(fast + shape + "p48/block-split/pad0" + rest + "nocheck/guard/s72" + words, &fast_rows);
        }
        for (const char* place : kPlaces)
            compare("generic_score" + shape + place + rest + "check/tight/s72", &generic);
        for (const char* words : {"/sms1", "/sms5", "/pdl", "/fill100", "/ids,i64"})
            compare("generic_score" + shape + kPlaces[0] + rest + "nocheck/guard/s72" + words, &generic);
    }
}

// Among them those whose half is not exact: odd multiples of 2^-149 below 2^-125.
TEST_CASE("weights of every size: a row has the same bits by every kernel of one arithmetic") {
    const Machine machine(driver_library());
    for (const int heads : {64, 32}) {
        const std::vector<std::string> kernels = family(machine, heads);
        std::vector<std::vector<uint32_t>> rows;
        std::set<uint32_t> scores;
        for (const std::string& kernel : kernels) {
            Inputs in = inputs_of(kernel + "/h" + std::to_string(heads) +
                                  "/d128/t24/b1/n300/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s73");
            for (int row = 0; row < in.max_rows; ++row)
                for (int head = 0; head < heads; ++head) {
                    const float odd = static_cast<float>(2 * (row + 3 * head) + 1);
                    float& weight = in.q_scale[static_cast<size_t>(row) * heads + head];
                    if (row % 8 < 2) weight = std::ldexp(head % 5 == 0 ? -odd : odd, -149);
                    else if (row % 8 == 2) weight = std::ldexp(odd + 0x1p23f, -149);          // 2^-126 and up
                    else if (row % 8 == 3) weight = std::ldexp(0x1p24f - odd, -149);          // 2^-125 and down
                    else if (row % 8 == 4) weight = head % 16 == row / 8 ? std::ldexp(odd, -149) : 0.0f;
                    else if (row % 8 == 5) weight = head == row ? std::numeric_limits<float>::infinity() : -0.0f;
                    else if (row % 8 == 6) weight = head % 4 == 0 ? -0x1p115f : 0x1p115f;
                }
            std::memcpy(in.weights.data(), in.q_scale.data(), in.weights.size());
            const Outcome out = run(machine, in);
            std::vector<std::vector<uint32_t>> bits;
            for (int row = 0; row < in.max_rows; ++row) bits.push_back(row_bits(in, out, row));
            CAPTURE(kernel);
            if (rows.empty()) rows = bits;
            CHECK(bits == rows);
            for (const auto& row : bits) scores.insert(row.begin(), row.end());
        }
        CHECK((kernels.empty() || scores.size() > 2000));   // no test otherwise
    }
}

TEST_CASE("replay: the same plan and pointers, or the same graph, other lengths") {
    const Machine machine(driver_library());
    const cache_test::Graphs graphs;
    const std::string fast = fast_kernel(machine, 64);
    // On compute capability 9.0 a kernel of each kind: decode, score, generic; pair, wide, fast.
    for (const std::string& name :
         {std::string("auto/h64/d128/t3/b4/n300/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s73"),
          std::string("auto/h32/d128/t5/b3/n200/p16/split-pool/pad0/gap0/lattice/plain/nocheck/guard/s74/fill3"),
          std::string("generic_score/h8/d64/t3/b4/n300/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s75/"
                      "ids,i64"),
          std::string("auto/h64/d128/t6/b3/n200/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s84/pdl"),
          std::string("auto/h64/d128/t17/b3/n200/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s85/pdl"),
          (fast.empty() ? "auto" : fast) +
              "/h64/d128/t13/b3/n200/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s86/pdl"}) {
        const Inputs in = inputs_of(name);
        const Plan plan(machine.lidx, in);
        Upload upload(machine, in, 16, plan.info.workspace_bytes);
        const cache_test::Stream stream(machine);
        machine.make_current();
        const CUgraphExec graph = graphs.capture(machine, stream.handle, [&] {
            REQUIRE(lidx_score_enqueue(machine.lidx, plan.plan, &upload.args, stream.handle) == LIDX_OK);
        });
        for (int round = 0; round < 5; ++round) {
            // 0: all; then shorter ones, none, negative ones; all again at the end.
            Inputs now = in;
            for (int b = 0; b < in.c.batch; ++b) {
                int64_t& length = now.sight.lengths[b];
                if (round == 1) length = length * (b + 1) / (in.c.batch + 1);
                if (round == 2) length = b % 2 == 0 ? 0 : -b;
                if (round == 3) length = b == 0 ? length : 1;
                now.requests[b].keys = static_cast<int>(std::max<int64_t>(length, 0));
                for (Row& row : now.rows)
                    if (row.request == b) row.end = now.requests[b].keys;
            }
            for (const bool captured : {false, true}) {
                upload.replay_with(now);
                if (captured) machine.expect(graphs.launch(graph, stream.handle), "cuGraphLaunch");
                else REQUIRE(lidx_score_enqueue(machine.lidx, plan.plan, &upload.args, stream.handle) == LIDX_OK);
                stream.wait();
                CAPTURE(round, captured);
                require_right(now, outcome_of(plan, upload));
            }
        }
        machine.expect(graphs.destroy_exec(graph), "cuGraphExecDestroy");
    }
}

TEST_CASE("two streams, and two contexts of lidx, at once") {
    const Machine machine(driver_library()), other(driver_library());
    const Inputs a = inputs_of("auto/h64/d128/t5/b3/n500/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s76");
    const Inputs b = inputs_of("auto/h32/d128/t4/b2/n400/p32/split-pool/pad0/gap0/normal/ragged/check/guard/s77/"
                               "causal,fill9");
    const Plan plan_a(machine.lidx, a), plan_b(other.lidx, b);
    Upload on_a(machine, a, 16, plan_a.info.workspace_bytes), on_b(other, b, 16, plan_b.info.workspace_bytes);
    Upload again(machine, a, 16, plan_a.info.workspace_bytes);
    const lidx::Driver& driver = machine.driver;
    CUstream streams[2];
    for (CUstream& stream : streams)
        machine.expect(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    REQUIRE(lidx_score_enqueue(machine.lidx, plan_a.plan, &on_a.args, streams[0]) == LIDX_OK);
    REQUIRE(lidx_score_enqueue(other.lidx, plan_b.plan, &on_b.args, streams[1]) == LIDX_OK);
    REQUIRE(lidx_score_enqueue(machine.lidx, plan_a.plan, &again.args, streams[1]) == LIDX_OK);
    for (CUstream stream : streams) machine.expect(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    require_right(a, outcome_of(plan_a, on_a));
    require_right(a, outcome_of(plan_a, again));
    require_right(b, outcome_of(plan_b, on_b));
    for (CUstream stream : streams) machine.expect(driver.cuStreamDestroy(stream), "cuStreamDestroy");
}

TEST_CASE("the caller's current device and context stay current") {
    const Machine machine(driver_library());   // the primary context of device 0, where the buffers are
    const lidx::Driver& driver = machine.driver;
    void* const library = dlopen(driver_library().c_str(), RTLD_NOW);
    REQUIRE(library != nullptr);
    const auto create =
        reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(dlsym(library, "cuCtxCreate_v2"));
    const auto destroy = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(library, "cuCtxDestroy_v2"));
    REQUIRE(create != nullptr);
    REQUIRE(destroy != nullptr);
    const Inputs in = inputs_of("auto/h64/d128/t2/b2/n200/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s78");
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    const std::string path = driver_library();
    config.driver_path = path.c_str();
    config.device = 0;
    int devices = 0;
    machine.expect(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
    CUcontext mine = nullptr;   // of the last device there is
    machine.expect(create(&mine, 0, devices - 1), "cuCtxCreate");
    lidx_context* context = nullptr;
    REQUIRE(lidx_open(&config, &context) == LIDX_OK);
    const auto current = [&] {
        CUcontext now = nullptr;
        machine.expect(driver.cuCtxGetCurrent(&now), "cuCtxGetCurrent");
        return now;
    };
    CHECK(current() == mine);
    machine.make_current();
    {
        const Plan plan(context, in);
        Upload upload(machine, in, 16, 0);
        machine.expect(driver.cuCtxSetCurrent(mine), "cuCtxSetCurrent");
        CHECK(lidx_score_enqueue(context, plan.plan, &upload.args, nullptr) == LIDX_OK);
        CHECK(current() == mine);
        // A context that was opened on what was current insists on it.
        CHECK(lidx_score_enqueue(machine.lidx, plan.plan, &upload.args, nullptr) == LIDX_ERR_NO_CONTEXT);
        CHECK(current() == mine);
        machine.make_current();
        machine.expect(driver.cuCtxSynchronize(), "cuCtxSynchronize");
        require_right(in, outcome_of(plan, upload));
    }
    lidx_close(context);
    machine.expect(destroy(mine), "cuCtxDestroy");
}

// Sparse device memory: what is not written reads as 0, and on the emulator takes no room.
class Sparse {
public:
    Sparse(const Machine& machine, size_t bytes) : machine_(machine) {
        machine.expect(machine.driver.cuMemAlloc(&base_, bytes), "cuMemAlloc");
        // A GPU has the room, and whatever was in it.
        if (on_silicon()) machine.expect(machine.driver.cuMemsetD8(base_, 0, bytes), "cuMemsetD8");
    }
    ~Sparse() { machine_.driver.cuMemFree(base_); }
    Sparse(const Sparse&) = delete;
    Sparse& operator=(const Sparse&) = delete;
    template <typename T>
    T* at(int64_t bytes) const {
        return reinterpret_cast<T*>(base_ + bytes);
    }
    void write(int64_t at, const void* from, size_t bytes) const {
        machine_.expect(machine_.driver.cuMemcpyHtoD(base_ + at, from, bytes), "cuMemcpyHtoD");
    }
    std::vector<uint32_t> read(int64_t at, size_t words) const {
        std::vector<uint32_t> values(words);
        machine_.expect(machine_.driver.cuMemcpyDtoH(values.data(), base_ + at, words * 4), "cuMemcpyDtoH");
        return values;
    }

private:
    const Machine& machine_;
    CUdeviceptr base_ = 0;
};

TEST_CASE("page ids whose byte offset passes 2^31, 2^32 and 2^33") {
    const Machine machine(driver_library());
    for (const char* name : {"auto/h64/d128/t2/b2/n200/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s79",
                             "auto/h32/d128/t3/b2/n200/p64/split-pool/pad0/gap0/normal/plain/check/guard/s80",
                             "generic_score/h8/d128/t2/b2/n200/p64/split-pool/pad0/gap0/normal/plain/nocheck/guard/s81/"
                             "stable"})
        for (const int64_t stride : {int64_t{8448}, int64_t{1} << 20}) {
            const Inputs in = inputs_of(name);
            // Page p of the case becomes page p + shift of a pool with another pitch: the first lies just below an
            // offset of 2^31 bytes or of 2^33, the others beyond.
            const int64_t shift = (stride > 8448 ? (int64_t{1} << 33) : (int64_t{1} << 31)) / stride - 1;
            const int64_t pages = in.num_pages + shift, scale_pages = in.scale_num_pages + shift;
            const bool split = !in.k_scale_pool.empty();
            const Sparse codes(machine, static_cast<size_t>(pages * stride));
            const Sparse scales(machine, static_cast<size_t>(split ? scale_pages * stride : 16));
            const int64_t page_bytes = int64_t{in.page_size} * (in.c.depth + (split ? 0 : 4));
            for (int64_t page = 0; page < in.num_pages; ++page)
                codes.write((page + shift) * stride, in.k_pool.data() + page * in.k_page_stride,
                            static_cast<size_t>(page_bytes));
            for (int64_t page = 0; split && page < in.scale_num_pages; ++page)
                scales.write((page + shift) * stride, in.k_scale_pool.data() + page * in.k_scale_page_stride,
                             static_cast<size_t>(in.page_size) * 4);
            Inputs far = in;
            far.num_pages = pages;
            far.scale_num_pages = scale_pages;
            far.k_page_stride = far.k_scale_page_stride = stride;
            for (std::vector<int32_t>* table : {&far.block_table, &far.scale_table})
                for (int32_t& entry : *table)
                    if (entry >= 0 && entry < in.scale_num_pages) entry += static_cast<int32_t>(shift);
            const Plan plan(machine.lidx, far);
            Upload upload(machine, far, 16, plan.info.workspace_bytes);
            upload.args.k_base = codes.at<void>(0);
            upload.args.k_scale_base =
                split ? scales.at<void>(0) : codes.at<void>(int64_t{in.page_size} * in.c.depth);
            REQUIRE(lidx_score_enqueue(machine.lidx, plan.plan, &upload.args, nullptr) == LIDX_OK);
            machine.expect(machine.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            CAPTURE(stride, shift);
            require_right(far, outcome_of(plan, upload));
        }
}

TEST_CASE("rows * stride passes 2^31 elements and 2^33 bytes") {
    const Machine machine(driver_library());
    for (const char* name : {"auto/h64/d128/t5/b1/n200/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s82",
                             "generic_score/h8/d128/t5/b1/n200/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/"
                             "s83/window,fill0"}) {
        const Inputs in = inputs_of(name);
        const Outcome near = run(machine, in);
        Inputs far = in;
        far.score_stride = (int64_t{1} << 29) + 5;
        const lidx_score_desc desc = describe(far);
        lidx_plan* plan = nullptr;
        REQUIRE(lidx_plan_create(machine.lidx, &desc, &plan) == LIDX_OK);
        Upload upload(machine, in, 16, 0);
        const Sparse scores(machine, static_cast<size_t>(far.max_rows * far.score_stride * 4));
        upload.args.scores = scores.at<void>(0);
        REQUIRE(lidx_score_enqueue(machine.lidx, plan, &upload.args, nullptr) == LIDX_OK);
        machine.expect(machine.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        lidx_plan_destroy(plan);
        for (int row = 0; row < in.max_rows; ++row) {
            const int64_t at = row * far.score_stride * 4;
            const std::vector<uint32_t> cells = scores.read(at, static_cast<size_t>(in.score_stride) + 64);
            CAPTURE(name, row);
            for (int64_t column = 0; column < in.score_stride + 64; ++column) {
                const bool ours = column < in.score_columns &&
                                  near.scores[row * in.score_stride + column] !=
                                      score_poison(in.c, row * in.score_stride + column);
                if (cells[column] != (ours ? near.scores[row * in.score_stride + column] : 0u)) {
                    CAPTURE(column);
                    CHECK(cells[column] == (ours ? near.scores[row * in.score_stride + column] : 0u));
                    break;
                }
            }
            if (row > 0) {   // nothing in front of the row, either
                const std::vector<uint32_t> before = scores.read(at - 4096, 1024);
                CHECK(std::all_of(before.begin(), before.end(), [](uint32_t word) { return word == 0; }));
            }
        }
    }
}

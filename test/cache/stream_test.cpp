// SPDX-License-Identifier: Apache-2.0
// Enqueues on several streams, in several contexts and threads, and captured in a graph whose replays see new data.
#include "test/unit/catch_any.h"

#include <thread>

#include "decode_step.h"
#include "graph_capture.h"

namespace {

using namespace cache_test;

// The kernels that a device may choose for the step, and the plain one.
std::vector<const char*> kernels() { return {nullptr, "generic_score"}; }

}  // namespace

TEST_CASE("streams: a captured step replays with new lengths, tables, slots and data") {
    const Machine& m = machine();
    const Graphs graphs;
    for (const char* kernel : kernels()) {
        CAPTURE(kernel == nullptr ? "best" : kernel);
        DecodeStep step(m, m.lidx, kernel, 21);
        const Stream stream(m);
        step.renew();
        const CUgraphExec exec = graphs.capture(m, stream.handle, [&] { step.enqueue(stream.handle); });
        stream.wait();
        CHECK(step.outputs_untouched());   // capturing runs nothing
        for (int replay = 0; replay < 4; ++replay) {
            CAPTURE(replay);
            step.renew();
            m.expect(graphs.launch(exec, stream.handle), "cuGraphLaunch");
            stream.wait();
            CHECK(step.verify() == "");
        }
        m.expect(graphs.destroy_exec(exec), "cuGraphExecDestroy");
    }
}

TEST_CASE("streams: sequences of a lidx_cache grow from step to step, enqueued and in a graph") {
    const Machine& m = machine();
    const Graphs graphs;
    for (const bool captured : {false, true}) {
        CAPTURE(captured);
        DecodeStep step(m, m.lidx, nullptr, 61);
        const Stream stream(m);
        const lidx_pool pool = step.pool_desc();
        lidx_cache_desc desc;
        REQUIRE(lidx_cache_desc_init(&desc) == LIDX_OK);
        desc.pool = &pool;
        lidx_cache* cache = nullptr;
        REQUIRE(lidx_cache_create(m.lidx, &desc, &cache) == LIDX_OK);
        // Two forks of a prompt that ends inside a page, and one sequence that begins with nothing.
        int64_t sequences[DecodeStep::kBatch] = {};
        const int32_t prompt = 37;
        REQUIRE(lidx_cache_add(cache, &sequences[0]) == LIDX_OK);
        REQUIRE(lidx_cache_add(cache, &sequences[1]) == LIDX_OK);
        REQUIRE(lidx_cache_extend(cache, &sequences[0], &prompt, 1, stream.handle) == LIDX_OK);
        REQUIRE(lidx_cache_fork(cache, sequences[0], &sequences[2]) == LIDX_OK);
        CUgraphExec exec = nullptr;
        if (captured) exec = graphs.capture(m, stream.handle, [&] { step.enqueue(stream.handle); });
        for (int round = 0; round < 8; ++round) {
            CAPTURE(round);
            step.renew(cache, sequences, stream.handle);
            if (captured)
                m.expect(graphs.launch(exec, stream.handle), "cuGraphLaunch");
            else
                step.enqueue(stream.handle);
            stream.wait();
            CHECK(step.verify() == "");
        }
        CHECK(step.copies > 0);
        if (captured) m.expect(graphs.destroy_exec(exec), "cuGraphExecDestroy");
        lidx_cache_destroy(cache);
    }
}

TEST_CASE("streams: steps on two streams at once") {
    const Machine& m = machine();
    for (const char* kernel : kernels()) {
        CAPTURE(kernel == nullptr ? "best" : kernel);
        DecodeStep first(m, m.lidx, kernel, 31), second(m, m.lidx, kernel, 32);
        const Stream one(m), two(m);
        for (int round = 0; round < 3; ++round) {
            CAPTURE(round);
            first.renew();
            second.renew();
            first.enqueue(one.handle);
            second.enqueue(two.handle);
            one.wait();
            two.wait();
            CHECK(first.verify() == "");
            CHECK(second.verify() == "");
        }
    }
}

TEST_CASE("streams: a context of the caller's own, and the wrong one current") {
    const Machine& m = machine();
    auto* const create = symbol<CUresult(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2");
    auto* const destroy = symbol<CUresult(CUcontext)>("cuCtxDestroy_v2");
    CUcontext primary = nullptr, own = nullptr, current = nullptr;
    m.expect(m.driver.cuCtxGetCurrent(&primary), "cuCtxGetCurrent");
    m.expect(create(&own, 0, 0), "cuCtxCreate");   // and current
    const std::string path = m.driver.path;
    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.driver_path = path.c_str();
    lidx_context *in_own = nullptr, *retained = nullptr;
    REQUIRE(lidx_open(&config, &in_own) == LIDX_OK);
    config.device = 0;
    REQUIRE(lidx_open(&config, &retained) == LIDX_OK);
    {
        DecodeStep step(m, in_own, nullptr, 41);
        for (int round = 0; round < 2; ++round) {
            step.renew();
            step.enqueue(nullptr);
            m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            CHECK(step.verify() == "");
            m.expect(m.driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
            CHECK(current == own);
        }
        // With the primary context current, what was opened in another one refuses.
        m.expect(m.driver.cuCtxPushCurrent(primary), "cuCtxPushCurrent");
        CHECK_THROWS_AS(step.enqueue(nullptr), check::MachineError);
        CHECK(std::string(lidx_last_error(in_own)).find("is not the one lidx_open saw") != std::string::npos);
        {
            DecodeStep there(m, m.lidx, nullptr, 42);   // and what was opened there works
            there.renew();
            there.enqueue(nullptr);
            m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
            CHECK(there.verify() == "");
        }

        // A retained primary context needs nothing current, and leaves current what was.
        DecodeStep anywhere(m, retained, nullptr, 43);
        anywhere.renew();
        m.expect(m.driver.cuCtxPopCurrent(&current), "cuCtxPopCurrent");
        anywhere.enqueue(nullptr);
        m.expect(m.driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
        CHECK(current == own);
        m.expect(m.driver.cuCtxPushCurrent(primary), "cuCtxPushCurrent");
        m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        CHECK(anywhere.verify() == "");
        m.expect(m.driver.cuCtxPopCurrent(&current), "cuCtxPopCurrent");
    }
    lidx_close(retained);
    lidx_close(in_own);
    m.expect(destroy(own), "cuCtxDestroy");
    m.make_current();
}

TEST_CASE("streams: threads with a context of lidx each") {
    const Machine& m = machine();
    constexpr int kThreads = 3;
    std::string wrong[kThreads];
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&m, &wrong, t] {
            try {
                m.make_current();
                const std::string path = m.driver.path;
                lidx_config config;
                lidx_config_init(&config);
                config.driver_path = path.c_str();
                lidx_context* context = nullptr;
                if (lidx_open(&config, &context) != LIDX_OK) throw check::MachineError(lidx_last_error(nullptr));
                {
                    DecodeStep step(m, context, t == 0 ? "generic_score" : nullptr, 50 + static_cast<uint64_t>(t));
                    const Stream stream(m);
                    for (int round = 0; round < 4 && wrong[t].empty(); ++round) {
                        step.renew();
                        step.enqueue(stream.handle);
                        stream.wait();
                        wrong[t] = step.verify();
                    }
                }
                lidx_close(context);
            } catch (const std::exception& error) {
                wrong[t] = error.what();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : wrong) CHECK(text == "");
}

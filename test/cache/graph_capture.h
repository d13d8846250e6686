// SPDX-License-Identifier: Apache-2.0
// Streams, and what is enqueued on one captured in a graph.
#pragma once
#include "test/unit/catch_any.h"

#include <dlfcn.h>

#include "test/cache/cache_fixture.h"

namespace cache_test {

// A driver function beyond the library's own table.
template <typename Function>
inline Function* symbol(const char* name) {
    void* library = dlopen(machine().driver.path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != nullptr);
    void* found = dlsym(library, name);
    dlclose(library);
    INFO(name);
    REQUIRE(found != nullptr);
    return reinterpret_cast<Function*>(found);
}

struct Stream {
    explicit Stream(const Machine& m) : machine(m) {
        m.expect(m.driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }
    ~Stream() { machine.driver.cuStreamDestroy(handle); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    void wait() const { machine.expect(machine.driver.cuStreamSynchronize(handle), "cuStreamSynchronize"); }
    const Machine& machine;
    CUstream handle = nullptr;
};

struct Graphs {
    using Begin = CUresult(CUstream, CUstreamCaptureMode);
    using End = CUresult(CUstream, CUgraph*);
    using Instantiate = CUresult(CUgraphExec*, CUgraph, unsigned long long);
    Begin* begin = symbol<Begin>("cuStreamBeginCapture_v2");
    End* end = symbol<End>("cuStreamEndCapture");
    Instantiate* instantiate = symbol<Instantiate>("cuGraphInstantiateWithFlags");
    CUresult (*launch)(CUgraphExec, CUstream) = symbol<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch");
    CUresult (*destroy_exec)(CUgraphExec) = symbol<CUresult(CUgraphExec)>("cuGraphExecDestroy");
    CUresult (*destroy)(CUgraph) = symbol<CUresult(CUgraph)>("cuGraphDestroy");

    // What `enqueue` puts on the stream, as a graph.
    template <typename Enqueue>
    CUgraphExec capture(const Machine& m, CUstream stream, Enqueue&& enqueue) const {
        m.expect(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
        enqueue();
        CUgraph graph = nullptr;
        m.expect(end(stream, &graph), "cuStreamEndCapture");
        CUgraphExec exec = nullptr;
        m.expect(instantiate(&exec, graph, 0), "cuGraphInstantiate");
        m.expect(destroy(graph), "cuGraphDestroy");
        return exec;
    }
};

}  // namespace cache_test

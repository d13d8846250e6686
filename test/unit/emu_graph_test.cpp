// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs of the emulated driver, and memory that is given back while a kernel uses it.
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "catch_any.h"

namespace {

// add: x[i] += value;  scale: x[i] *= 3. In 32 bits, one block of 32. slow: adds 1 to x[0] a million times.
constexpr const char* kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 value) {
    .reg .b64 %d<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %d0, [x];
    ld.param.u32 %r0, [value];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d0, %d0, %d1;
    ld.global.u32 %r2, [%d0];
    add.u32 %r2, %r2, %r0;
    st.global.u32 [%d0], %r2;
    ret;
}
.visible .entry scale(.param .u64 x) {
    .reg .b64 %d<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %d0, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d0, %d0, %d1;
    ld.global.u32 %r2, [%d0];
    mul.lo.u32 %r2, %r2, 3;
    st.global.u32 [%d0], %r2;
    ret;
}
.visible .entry slow(.param .u64 x) {
    .reg .pred %p;
    .reg .b64 %d<2>;
    .reg .b32 %r<4>;
    ld.param.u64 %d0, [x];
    mov.u32 %r0, 0;
AGAIN:
    ld.volatile.global.u32 %r1, [%d0];
    add.u32 %r1, %r1, 1;
    st.volatile.global.u32 [%d0], %r1;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p, %r0, 1000000;
    @%p bra AGAIN;
    ret;
}
)";

struct Machine {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction add = nullptr, scale = nullptr, slow = nullptr;
    CUdeviceptr x = 0;
    CUstream a = nullptr, b = nullptr;

    Machine() {
        REQUIRE(cuInit(0) == CUDA_SUCCESS);
        REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
        REQUIRE(cuCtxPushCurrent(context) == CUDA_SUCCESS);
        REQUIRE(cuModuleLoadData(&module, kPtx) == CUDA_SUCCESS);
        REQUIRE(cuModuleGetFunction(&add, module, "add") == CUDA_SUCCESS);
        REQUIRE(cuModuleGetFunction(&scale, module, "scale") == CUDA_SUCCESS);
        REQUIRE(cuModuleGetFunction(&slow, module, "slow") == CUDA_SUCCESS);
        REQUIRE(cuMemAlloc(&x, 128) == CUDA_SUCCESS);
        REQUIRE(cuMemsetD32(x, 1, 32) == CUDA_SUCCESS);
        REQUIRE(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        REQUIRE(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }
    ~Machine() { cuDevicePrimaryCtxReset(0), cuCtxPopCurrent(nullptr); }

    CUresult launch_add(CUstream stream, uint32_t value) {
        void* params[] = {&x, &value};
        return cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr);
    }
    CUresult launch_scale(CUstream stream) {
        void* params[] = {&x};
        return cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr);
    }
    uint32_t first() {
        uint32_t values[32];
        REQUIRE(cuMemcpyDtoH(values, x, sizeof values) == CUDA_SUCCESS);
        for (uint32_t v : values) REQUIRE(v == values[0]);
        return values[0];
    }
    CUstreamCaptureStatus status(CUstream stream) {
        CUstreamCaptureStatus s = CU_STREAM_CAPTURE_STATUS_NONE;
        REQUIRE(cuStreamIsCapturing(stream, &s) == CUDA_SUCCESS);
        return s;
    }
};

}   // namespace

TEST_CASE("graphs: capture does nothing, replays do it in order with copied parameters", "[graph]") {
    Machine m;
    REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    REQUIRE(m.status(m.a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    REQUIRE(m.launch_add(m.a, 5) == CUDA_SUCCESS);   // the 5 is gone when the graph runs
    REQUIRE(m.launch_scale(m.a) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_SUCCESS);
    REQUIRE(m.status(m.a) == CU_STREAM_CAPTURE_STATUS_NONE);
    REQUIRE(m.first() == 1);
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
    for (uint32_t expected : {18u, 69u}) {   // (1 + 5) * 3, (18 + 5) * 3
        REQUIRE(cuGraphLaunch(exec, m.b) == CUDA_SUCCESS);
        REQUIRE(m.first() == expected);
    }
    REQUIRE(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    REQUIRE(cuGraphLaunch(exec, m.b) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("graphs: copies read their source, sets write, host functions run at each launch", "[graph]") {
    Machine m;
    uint32_t source[32];
    for (uint32_t& v : source) v = 7;
    int calls = 0;
    REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoDAsync(m.x, source, sizeof source, m.a) == CUDA_SUCCESS);
    REQUIRE(m.launch_add(m.a, 1) == CUDA_SUCCESS);
    REQUIRE(cuLaunchHostFunc(m.a, [](void* n) { ++*static_cast<int*>(n); }, &calls) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_SUCCESS);
    size_t count = 0;
    REQUIRE(cuGraphGetNodes(graph, nullptr, &count) == CUDA_SUCCESS);
    REQUIRE(count == 3);
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(calls == 0);
    for (uint32_t& v : source) v = 40;
    REQUIRE(cuGraphLaunch(exec, m.a) == CUDA_SUCCESS);
    REQUIRE(m.first() == 41);
    REQUIRE(calls == 1);
}

TEST_CASE("graphs: another stream joins by events", "[graph]") {
    Machine m;
    CUevent forked = nullptr, joined = nullptr;
    REQUIRE(cuEventCreate(&forked, 0) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&joined, 0) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    for (const bool joins : {true, false}) {
        REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
        REQUIRE(m.launch_add(m.a, 2) == CUDA_SUCCESS);
        REQUIRE(cuEventRecord(forked, m.a) == CUDA_SUCCESS);
        REQUIRE(cuStreamWaitEvent(m.b, forked, 0) == CUDA_SUCCESS);
        REQUIRE(m.status(m.b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        REQUIRE(m.launch_scale(m.b) == CUDA_SUCCESS);
        REQUIRE(cuEventRecord(joined, m.b) == CUDA_SUCCESS);
        if (joins) REQUIRE(cuStreamWaitEvent(m.a, joined, 0) == CUDA_SUCCESS);
        if (joins) REQUIRE(m.launch_add(m.a, 1) == CUDA_SUCCESS);
        CUgraph wrong = nullptr;
        if (joins) REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_SUCCESS);
        else REQUIRE(cuStreamEndCapture(m.a, &wrong) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        REQUIRE(m.status(m.b) == CU_STREAM_CAPTURE_STATUS_NONE);
    }
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
    REQUIRE(m.first() == 10);   // (1 + 2) * 3 + 1
}

TEST_CASE("graphs: what may not be called during a capture ends it", "[graph]") {
    Machine m;
    CUgraph graph = nullptr;
    CUdeviceptr p = 0;
    CUevent event = nullptr;
    REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    const auto ends = [&](CUresult expected, const auto& call) {
        REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
        REQUIRE(m.launch_add(m.a, 1) == CUDA_SUCCESS);
        REQUIRE(call() == expected);
        REQUIRE(m.status(m.a) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        REQUIRE(m.launch_add(m.a, 1) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        REQUIRE(graph == nullptr);
        REQUIRE(m.status(m.a) == CU_STREAM_CAPTURE_STATUS_NONE);
    };
    ends(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuStreamSynchronize(m.a); });
    ends(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuStreamQuery(m.a); });
    ends(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuCtxSynchronize(); });
    ends(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuMemAlloc(&p, 16); });
    ends(CUDA_ERROR_CAPTURED_EVENT, [&] {
        REQUIRE(cuEventRecord(event, m.a) == CUDA_SUCCESS);
        return cuEventSynchronize(event);
    });
    CUevent outside = nullptr;
    REQUIRE(cuEventCreate(&outside, 0) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(outside, m.b) == CUDA_SUCCESS);
    ends(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, [&] { return cuStreamWaitEvent(m.a, outside, 0); });
    REQUIRE(m.first() == 1);   // nothing of it ran

    REQUIRE(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_ERROR_ILLEGAL_STATE);
    // Relaxed: allocations are allowed. A blocking stream: the legacy stream is not.
    REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&p, 16) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_SUCCESS);
    CUstream blocking = nullptr;
    REQUIRE(cuStreamCreate(&blocking, 0) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    REQUIRE(m.launch_add(nullptr, 1) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    REQUIRE(cuStreamEndCapture(blocking, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // Another thread may not end it.
    REQUIRE(cuStreamBeginCapture(m.a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    std::thread([&] {
        cuCtxPushCurrent(m.context);
        CHECK(cuStreamEndCapture(m.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        cuCtxPopCurrent(nullptr);
    }).join();
    REQUIRE(cuStreamEndCapture(m.a, &graph) == CUDA_SUCCESS);
}

TEST_CASE("graphs: built by hand, changed and updated", "[graph]") {
    Machine m;
    CUgraph graph = nullptr, other = nullptr;
    REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
    CUDA_MEMSET_NODE_PARAMS set{m.x, 0, 4, 4, 32, 1};
    CUgraphNode first = nullptr, second = nullptr, third = nullptr;
    // Added in the wrong order: the dependency decides.
    uint32_t value = 10;
    void* params[] = {&m.x, &value};
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = m.add;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.blockDimX = 32;
    kernel.kernelParams = params;
    REQUIRE(cuGraphAddKernelNode(&second, graph, nullptr, 0, &kernel) == CUDA_SUCCESS);
    REQUIRE(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &set, m.context) == CUDA_SUCCESS);
    REQUIRE(cuGraphAddDependencies(graph, &first, &second, nullptr, 1) == CUDA_SUCCESS);
    CUdeviceptr y = 0;
    REQUIRE(cuMemAlloc(&y, 128) == CUDA_SUCCESS);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = m.x, copy.dstDevice = y;
    copy.WidthInBytes = 128, copy.Height = copy.Depth = 1;
    // Rows whose size as a number of 64 bits is none, and slices that reach as far.
    CUDA_MEMCPY3D endless = copy;
    endless.srcPitch = endless.dstPitch = 128;
    endless.srcHeight = endless.dstHeight = 1;
    endless.Height = size_t{1} << 57;
    CHECK(cuGraphAddMemcpyNode(&third, graph, &second, 1, &endless, m.context) == CUDA_ERROR_INVALID_VALUE);
    endless.Height = 1;
    endless.srcHeight = endless.dstHeight = size_t{1} << 57;
    endless.Depth = size_t{1} << 40;
    CHECK(cuGraphAddMemcpyNode(&third, graph, &second, 1, &endless, m.context) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuGraphAddMemcpyNode(&third, graph, &second, 1, &copy, m.context) == CUDA_SUCCESS);
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    REQUIRE(cuGraphNodeGetType(third, &type) == CUDA_SUCCESS);
    REQUIRE(type == CU_GRAPH_NODE_TYPE_MEMCPY);
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    const auto result = [&] {
        uint32_t got = 0;
        REQUIRE(cuMemsetD32(y, 0, 32) == CUDA_SUCCESS);
        REQUIRE(cuGraphLaunch(exec, m.a) == CUDA_SUCCESS);
        REQUIRE(cuMemcpyDtoH(&got, y, 4) == CUDA_SUCCESS);
        return got;
    };
    REQUIRE(result() == 14);
    value = 100;
    REQUIRE(result() == 14);   // parameters were copied
    REQUIRE(cuGraphExecKernelNodeSetParams(exec, second, &kernel) == CUDA_SUCCESS);
    REQUIRE(result() == 104);
    set.value = 1;
    REQUIRE(cuGraphExecMemsetNodeSetParams(exec, first, &set, m.context) == CUDA_SUCCESS);
    REQUIRE(result() == 101);
    REQUIRE(cuGraphExecMemsetNodeSetParams(exec, second, &set, m.context) == CUDA_ERROR_INVALID_VALUE);
    value = 7;
    REQUIRE(cuGraphKernelNodeSetParams(second, &kernel) == CUDA_SUCCESS);
    REQUIRE(cuGraphClone(&other, graph) == CUDA_SUCCESS);
    CUgraphExecUpdateResultInfo info{};
    REQUIRE(cuGraphExecUpdate(exec, other, &info) == CUDA_SUCCESS);
    REQUIRE(result() == 11);   // 4 + 7: the graph's own memset has kept its 4
    CUgraphNode more = nullptr;
    REQUIRE(cuGraphAddEmptyNode(&more, other, nullptr, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphExecUpdate(exec, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    REQUIRE(cuGraphAddDependencies(graph, &third, &first, nullptr, 1) == CUDA_SUCCESS);
    CUgraphExec cyclic = nullptr;
    REQUIRE(cuGraphInstantiate(&cyclic, graph, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory and modules that another thread gives back while a kernel uses them stay until it ends", "[graph]") {
    Machine m;
    CUdeviceptr y = 0;
    REQUIRE(cuMemAlloc(&y, 4) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32(y, 0, 1) == CUDA_SUCCESS);
    CUresult launched = CUDA_ERROR_UNKNOWN;
    std::thread runner([&] {
        cuCtxPushCurrent(m.context);
        void* params[] = {&y};
        launched = cuLaunchKernel(m.slow, 1, 1, 1, 1, 1, 1, 0, m.a, params, nullptr);
        cuCtxPopCurrent(nullptr);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));   // whether or not it has begun, it must not crash
    const CUresult freed = cuMemFree(y);
    const CUresult unloaded = cuModuleUnload(m.module);
    runner.join();
    REQUIRE(freed == CUDA_SUCCESS);
    REQUIRE(unloaded == CUDA_SUCCESS);
    REQUIRE((launched == CUDA_SUCCESS || launched == CUDA_ERROR_INVALID_HANDLE));
}

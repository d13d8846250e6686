// SPDX-License-Identifier: Apache-2.0
// Work as a value: what a call enqueues is done at once, or becomes a node of the graph that its stream is captured in.
#pragma once
#include <thread>
#include <variant>

#include "driver_state.h"

namespace ptxemu {

struct KernelCall {
    std::shared_ptr<Context> context;
    CUfunction handle = nullptr;
    const Function* function = nullptr;   // of the program; valid while the module is
    std::shared_ptr<const Program> program;
    std::shared_ptr<ToldWarnings> told;
    Launch launch;   // with its own copy of the parameters, tensor maps included
    bool cooperative = false;
};
struct CopyCall {
    uint64_t dst = 0, src = 0;
    bool dst_device = false, src_device = false;
    size_t width = 0, height = 1, depth = 1;   // bytes, rows, slices
    size_t dst_pitch = 0, src_pitch = 0, dst_slice = 0, src_slice = 0;
};
struct SetCall {
    CUDA_MEMSET_NODE_PARAMS params{};
};
struct HostCall {
    CUhostFn function = nullptr;
    void* data = nullptr;
};
using Work = std::variant<std::monostate, KernelCall, CopyCall, SetCall, HostCall>;   // monostate: an empty node

struct Graph;
struct GraphNode {
    Graph* graph = nullptr;
    Work work;
    std::vector<GraphNode*> from;   // it runs behind these
};
struct Graph {
    std::vector<std::unique_ptr<GraphNode>> nodes;
    GraphNode* add(Work work, std::vector<GraphNode*> from);
};

struct GraphExec {
    struct Item {
        const GraphNode* node;   // of the graph that it was made from: a name only
        Work work;
    };
    std::vector<Item> items;   // in an order that keeps every edge
};

struct Capture {
    uint64_t id = 0;
    Context* context = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstream origin = nullptr;
    std::thread::id thread;
    bool invalid = false;
    std::unique_ptr<Graph> graph = std::make_unique<Graph>();
    std::map<CUstream, std::vector<GraphNode*>> tails;   // of each stream that takes part: what comes next runs behind
};

// Does the work, or adds it to the graph that the stream is captured in. Checks the stream.
void enqueue(Current& call, CUstream stream, Work work);
// Throws where a call may not be made while a stream is being captured, and invalidates the capture.
void forbid_in_capture(State& s);
void forbid_in_capture(State& s, CUstream stream);
void run_kernel(State& s, std::unique_lock<std::mutex>& lock, const KernelCall& call);   // driver_launch.cpp
// Checks shape and attributes; the parameters are copied.
KernelCall make_kernel_call(Current& call, CUfunction function, Launch launch, void** params, void** extra,
                            const CUlaunchConfig* config, bool cooperative);
// Streams and events in captures: true if that is all there was to do.
bool capture_record(Current& call, Event& event, CUstream stream);
bool capture_wait(Current& call, const Event& event, CUstream stream);

}   // namespace ptxemu

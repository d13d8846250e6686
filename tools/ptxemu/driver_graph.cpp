// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs.
#include "driver_graph.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace ptxemu {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

Capture* capture_of(State& s, CUstream stream) {
    for (const auto& capture : s.captures)
        if (capture->tails.count(stream) != 0) return capture.get();
    return nullptr;
}

[[noreturn]] void invalidate(Capture& capture, CUresult code, const std::string& why) {
    capture.invalid = true;
    fail(code, why);
}

bool is_legacy(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

CUstreamCaptureStatus status_of(const Capture* capture) {
    if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// The capture that takes the stream's work; null: none does.
Capture* active_capture(State& s, CUstream stream) {
    if (is_legacy(stream)) {
        for (const auto& capture : s.captures) {
            const auto origin = s.streams.find(capture->origin);
            const bool blocking = origin != s.streams.end() && (origin->second->flags & CU_STREAM_NON_BLOCKING) == 0;
            if (blocking) {
                invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                           "the legacy stream would wait for a stream that is being captured");
            }
        }
        return nullptr;
    }
    Capture* capture = capture_of(s, stream);
    if (capture != nullptr && capture->invalid)
        fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture of this stream has been invalidated");
    return capture;
}

Graph& find_graph(State& s, CUgraph handle) {
    const auto found = s.graphs.find(handle);
    if (found == s.graphs.end()) fail(CUDA_ERROR_INVALID_VALUE, "no such graph");
    return *found->second;
}
GraphExec& find_exec(State& s, CUgraphExec handle) {
    const auto found = s.graph_execs.find(handle);
    if (found == s.graph_execs.end()) fail(CUDA_ERROR_INVALID_VALUE, "no such executable graph");
    return *found->second;
}
GraphNode& find_node(State& s, CUgraphNode handle) {
    for (const auto& [key, graph] : s.graphs)
        for (const auto& node : graph->nodes)
            if (reinterpret_cast<CUgraphNode>(node.get()) == handle) return *node;
    fail(CUDA_ERROR_INVALID_VALUE, "no such graph node");
}

CUgraph give(State& s, std::unique_ptr<Graph> graph) {
    const auto handle = reinterpret_cast<CUgraph>(graph.get());
    s.graphs.emplace(handle, std::move(graph));
    return handle;
}

// Nodes behind all that they depend on, otherwise as they were added.
std::vector<const GraphNode*> in_order(const Graph& graph) {
    std::vector<const GraphNode*> order;
    std::set<const GraphNode*> done;
    while (order.size() < graph.nodes.size()) {
        const size_t before = order.size();
        for (const auto& node : graph.nodes) {
            if (done.count(node.get()) != 0) continue;
            const auto is_done = [&](const GraphNode* n) { return done.count(n) != 0; };
            if (!std::all_of(node->from.begin(), node->from.end(), is_done)) continue;
            done.insert(node.get());
            order.push_back(node.get());
        }
        if (order.size() == before) fail(CUDA_ERROR_INVALID_VALUE, "the dependencies of the graph have a cycle");
    }
    return order;
}

std::vector<GraphNode*> dependencies_of(State& s, const Graph& graph, const CUgraphNode* nodes, size_t count) {
    std::vector<GraphNode*> from;
    if (count != 0) require(nodes, "dependencies");
    for (size_t i = 0; i < count; ++i) {
        GraphNode& node = find_node(s, nodes[i]);
        if (node.graph != &graph) fail(CUDA_ERROR_INVALID_VALUE, "a dependency belongs to another graph");
        from.push_back(&node);
    }
    return from;
}

void add_node(Current& call, CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
              Work work) {
    require(out, "phGraphNode");
    Graph& g = find_graph(call.s, graph);
    auto from = dependencies_of(call.s, g, dependencies, count);
    *out = reinterpret_cast<CUgraphNode>(g.add(std::move(work), std::move(from)));
}

KernelCall kernel_of(Current& call, const CUDA_KERNEL_NODE_PARAMS* p) {
    require(p, "nodeParams");
    if (p->func == nullptr) fail(CUDA_ERROR_NOT_SUPPORTED, "library kernels (CUkernel) are not supported");
    Launch launch;
    launch.grid = {p->gridDimX, p->gridDimY, p->gridDimZ};
    launch.block = {p->blockDimX, p->blockDimY, p->blockDimZ};
    launch.dynamic_shared_bytes = p->sharedMemBytes;
    return make_kernel_call(call, p->func, std::move(launch), p->kernelParams, p->extra, nullptr, false);
}

CopyCall copy_of(State& s, const CUDA_MEMCPY3D* p) {
    require(p, "copyParams");
    CopyCall c;
    c.width = p->WidthInBytes;
    c.height = std::max<size_t>(p->Height, 1);
    c.depth = std::max<size_t>(p->Depth, 1);
    Allocation allocation;
    const auto side = [&](CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t y, size_t z,
                          size_t pitch, size_t rows, uint64_t* at, bool* on_device, size_t* row, size_t* slice) {
        if (type == CU_MEMORYTYPE_ARRAY) fail(CUDA_ERROR_NOT_SUPPORTED, "arrays are not supported");
        const uint64_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
        *on_device = type == CU_MEMORYTYPE_DEVICE ||
                     (type == CU_MEMORYTYPE_UNIFIED && owner_of(s, device, &allocation) != nullptr);
        if (base == 0) fail(CUDA_ERROR_INVALID_VALUE, "an address is null");
        *row = pitch != 0 ? pitch : x + c.width;
        *slice = *row * (rows != 0 ? rows : c.height);
        const size_t in_slice = std::max(rows, c.height);   // nothing below overflows
        if (*row < c.width || *row > kDeviceMemoryBytes ||
            in_slice > kDeviceMemoryBytes / std::max<size_t>(*row, 1) ||
            c.depth > kDeviceMemoryBytes / std::max<size_t>(*slice, 1)) {
            fail(CUDA_ERROR_INVALID_VALUE, "pitch " + std::to_string(*row) + " does not fit the copy");
        }
        *at = base + z * *slice + y * *row + x;
    };
    side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, p->srcZ, p->srcPitch, p->srcHeight,
         &c.src, &c.src_device, &c.src_pitch, &c.src_slice);
    side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, p->dstZ, p->dstPitch, p->dstHeight,
         &c.dst, &c.dst_device, &c.dst_pitch, &c.dst_slice);
    return c;
}

SetCall set_of(const CUDA_MEMSET_NODE_PARAMS* p) {
    require(p, "memsetParams");
    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) {
        fail(CUDA_ERROR_INVALID_VALUE,
             "elementSize = " + std::to_string(p->elementSize) + " is not one of 1, 2, 4");
    }
    return {*p};
}

// For the checks of definedness: what comes from the host is defined, a copy within the device as much as its source.
void note_write(const State& s, uint64_t address, uint64_t bytes) {
    Allocation allocation;
    if (Context* owner = owner_of(s, address, &allocation)) owner->memory.mark_written(address, bytes);
}
void note_copy(const State& s, uint64_t dst, uint64_t src, uint64_t bytes) {
    Allocation allocation;
    if (Context* owner = owner_of(s, dst, &allocation)) owner->memory.copy_written(dst, src, bytes);
}

void perform(State& s, const CopyCall& c) {
    if (c.width == 0 || c.height == 0 || c.depth == 0) return;
    const size_t last = c.height - 1, deepest = c.depth - 1;
    if (c.dst_device)
        check_range(s, c.dst, deepest * c.dst_slice + last * c.dst_pitch + c.width, "destination");
    if (c.src_device) check_range(s, c.src, deepest * c.src_slice + last * c.src_pitch + c.width, "source");
    if (c.dst == 0 || c.src == 0) fail(CUDA_ERROR_INVALID_VALUE, "a host pointer is null");
    for (size_t z = 0; z < c.depth; ++z) {
        for (size_t y = 0; y < c.height; ++y) {
            const uint64_t dst = c.dst + z * c.dst_slice + y * c.dst_pitch;
            const uint64_t src = c.src + z * c.src_slice + y * c.src_pitch;
            std::memmove(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), c.width);
            if (c.dst_device) note_copy(s, dst, src, c.width);
        }
    }
}

template <class T>
void fill_rows(const State& s, const CUDA_MEMSET_NODE_PARAMS& p) {
    for (size_t row = 0; row < p.height; ++row) {
        T* cells = reinterpret_cast<T*>(p.dst + row * p.pitch);
        std::fill(cells, cells + p.width, static_cast<T>(p.value));
        note_write(s, p.dst + row * p.pitch, p.width * sizeof(T));
    }
}

void perform(State& s, const SetCall& call) {
    const CUDA_MEMSET_NODE_PARAMS& p = call.params;
    const size_t size = p.elementSize;
    if (p.dst % size != 0 || (p.height > 1 && p.pitch % size != 0)) {
        fail(CUDA_ERROR_INVALID_VALUE,
             "destination " + hex(p.dst) + " or pitch is not a multiple of " + std::to_string(size));
    }
    if (p.width == 0 || p.height == 0) return;
    if (p.width > kDeviceMemoryBytes / size || (p.height > 1 && p.pitch < p.width * size) ||
        (p.height > 1 && (p.pitch > kDeviceMemoryBytes || p.height > kDeviceMemoryBytes / p.pitch))) {
        fail(CUDA_ERROR_INVALID_VALUE, "pitch " + std::to_string(p.pitch) + " does not fit a width of " +
                                           std::to_string(p.width) + " elements and a height of " +
                                           std::to_string(p.height));
    }
    check_range(s, p.dst, (p.height - 1) * (p.height > 1 ? p.pitch : 0) + p.width * size, "destination");
    if (size == 1) fill_rows<uint8_t>(s, p);
    else if (size == 2) fill_rows<uint16_t>(s, p);
    else fill_rows<uint32_t>(s, p);
}

void perform(State& s, std::unique_lock<std::mutex>& lock, const Work& work) {
    if (const auto* kernel = std::get_if<KernelCall>(&work)) {
        run_kernel(s, lock, *kernel);
    } else if (const auto* copy = std::get_if<CopyCall>(&work)) {
        perform(s, *copy);
    } else if (const auto* set = std::get_if<SetCall>(&work)) {
        perform(s, *set);
    } else if (const auto* host = std::get_if<HostCall>(&work)) {
        lock.unlock();
        host->function(host->data);
        lock.lock();
    }
}

// Replaces an item's work by another of the same kind.
template <class T>
void set_item(Current& call, CUgraphExec exec, CUgraphNode node, T work) {
    for (GraphExec::Item& item : find_exec(call.s, exec).items) {
        if (reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(item.node)) != node) continue;
        if (!std::holds_alternative<T>(item.work))
            fail(CUDA_ERROR_INVALID_VALUE, "the node is of another kind");
        item.work = std::move(work);
        return;
    }
    fail(CUDA_ERROR_INVALID_VALUE, "the node is none of the graph that this was made from");
}

void instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
    const Current call;
    require(out, "phGraphExec");
    constexpr unsigned long long kKnown =
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if ((flags & ~kKnown) != 0) fail(CUDA_ERROR_NOT_SUPPORTED, "instantiation flags " + hex(flags));
    auto exec = std::make_unique<GraphExec>();
    for (const GraphNode* node : in_order(find_graph(call.s, graph))) exec->items.push_back({node, node->work});
    *out = reinterpret_cast<CUgraphExec>(exec.get());
    call.s.graph_execs.emplace(exec.get(), std::move(exec));
}

}   // namespace

GraphNode* Graph::add(Work work, std::vector<GraphNode*> from) {
    nodes.push_back(std::make_unique<GraphNode>(GraphNode{this, std::move(work), std::move(from)}));
    return nodes.back().get();
}

void enqueue(Current& call, CUstream stream, Work work) {
    check_stream(call.s, stream);
    if (Capture* capture = active_capture(call.s, stream)) {
        auto& tail = capture->tails[stream];
        GraphNode* node = capture->graph->add(std::move(work), std::move(tail));
        tail = {node};
        return;
    }
    perform(call.s, call.lock, work);
}

// CUDA driver API, cuThreadExchangeStreamCaptureMode: a thread in global mode respects its own captures but relaxed
// ones and everybody's global ones, one in thread-local mode its own, one in relaxed mode none.
void forbid_in_capture(State& s) {
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    for (const auto& capture : s.captures) {
        const bool own = capture->thread == std::this_thread::get_id();
        const bool respected = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                   : thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                         capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (respected)
            invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is captured");
    }
}

void forbid_in_capture(State& s, CUstream stream) {
    check_stream(s, stream);
    if (Capture* capture = active_capture(s, stream)) {
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured");
    }
}

bool capture_record(Current& call, Event& event, CUstream stream) {
    Capture* capture = active_capture(call.s, stream);
    event.capture_id = capture != nullptr ? capture->id : 0;
    event.nodes = capture != nullptr ? capture->tails[stream] : std::vector<GraphNode*>();
    return capture != nullptr;
}

bool capture_wait(Current& call, const Event& event, CUstream stream) {
    Capture* const capture = active_capture(call.s, stream);
    Capture* source = nullptr;
    for (const auto& c : call.s.captures)
        if (event.capture_id != 0 && c->id == event.capture_id) source = c.get();
    if (capture == nullptr && source == nullptr) return false;
    if (source == nullptr) {
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                   "the event was not recorded in the capture that would wait for it");
    }
    if (source->invalid) fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the event's capture has been invalidated");
    if (is_legacy(stream))
        invalidate(*source, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream cannot be captured");
    if (capture != nullptr && capture != source) {
        source->invalid = true;
        invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, "the event belongs to another capture");
    }
    auto& tail = source->tails[stream];
    for (GraphNode* node : event.nodes)
        if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
    return true;
}

}   // namespace ptxemu

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return guarded("cuStreamBeginCapture", [&] {
        const Current call;
        check_stream(call.s, stream);
        if (is_legacy(stream))
            fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
        if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            fail(CUDA_ERROR_INVALID_VALUE, "mode = " + std::to_string(mode) + " is outside 0..2");
        if (capture_of(call.s, stream) != nullptr)
            fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is being captured already");
        auto capture = std::make_shared<Capture>();
        capture->id = call.s.next_capture_id++;
        capture->context = call.context.get();
        capture->mode = mode;
        capture->origin = stream;
        capture->thread = std::this_thread::get_id();
        capture->tails[stream];
        call.s.captures.push_back(std::move(capture));
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    return guarded("cuStreamEndCapture", [&] {
        const Current call;
        require(graph, "phGraph");
        *graph = nullptr;
        check_stream(call.s, stream);
        Capture* const found = capture_of(call.s, stream);
        if (found == nullptr) fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
        if (found->mode != CU_STREAM_CAPTURE_MODE_RELAXED && found->thread != std::this_thread::get_id())
            fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture");
        if (found->origin != stream) {
            found->invalid = true;
            fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream");
        }
        std::shared_ptr<Capture> capture;
        std::erase_if(call.s.captures, [&](auto& c) {
            if (c.get() != found) return false;
            capture = c;
            return true;
        });
        if (capture->invalid) fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture has been invalidated");
        // Whatever other streams did must lie before the end of this one.
        std::set<const GraphNode*> joined;
        std::vector<const GraphNode*> open(capture->tails[stream].begin(), capture->tails[stream].end());
        while (!open.empty()) {
            const GraphNode* node = open.back();
            open.pop_back();
            if (!joined.insert(node).second) continue;
            open.insert(open.end(), node->from.begin(), node->from.end());
        }
        if (joined.size() != capture->graph->nodes.size())
            fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "work of another stream was not joined to the captured one");
        *graph = give(call.s, std::move(capture->graph));
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    return guarded("cuStreamIsCapturing", [&] {
        const Current call;
        require(status, "captureStatus");
        check_stream(call.s, stream);
        const Capture* capture = is_legacy(stream) ? nullptr : capture_of(call.s, stream);
        *status = status_of(capture);
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** dependencies,
                                                      const CUgraphEdgeData** edges, size_t* count) {
    return guarded("cuStreamGetCaptureInfo", [&] {
        const Current call;
        require(status, "captureStatus_out");
        check_stream(call.s, stream);
        const Capture* capture = is_legacy(stream) ? nullptr : capture_of(call.s, stream);
        *status = status_of(capture);
        if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
        const auto& tail = capture->tails.at(stream);
        if (id != nullptr) *id = capture->id;
        if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph.get());
        if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(tail.data());
        if (edges != nullptr) *edges = nullptr;   // all edges are the default ones
        if (count != nullptr) *count = tail.size();
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** dependencies,
                                                      size_t* count) {
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

PTXEMU_API CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return guarded("cuThreadExchangeStreamCaptureMode", [&] {
        const Initialised call;
        require(mode, "mode");
        if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            fail(CUDA_ERROR_INVALID_VALUE, "mode = " + std::to_string(*mode) + " is outside 0..2");
        std::swap(*mode, thread_mode);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphCreate(CUgraph* out, unsigned int flags) {
    return guarded("cuGraphCreate", [&] {
        const Initialised call;
        require(out, "phGraph");
        if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
        *out = give(call.s, std::make_unique<Graph>());
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    return guarded("cuGraphDestroy", [&] {
        const Initialised call;
        find_graph(call.s, graph);
        call.s.graphs.erase(graph);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphClone(CUgraph* out, CUgraph graph) {
    return guarded("cuGraphClone", [&] {
        const Initialised call;
        require(out, "phGraphClone");
        auto clone = std::make_unique<Graph>();
        std::map<const GraphNode*, GraphNode*> copies;
        for (const GraphNode* node : in_order(find_graph(call.s, graph))) {
            std::vector<GraphNode*> from;
            for (const GraphNode* n : node->from) from.push_back(copies.at(n));
            copies[node] = clone->add(node->work, std::move(from));
        }
        *out = give(call.s, std::move(clone));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                                    size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
    return guarded("cuGraphAddKernelNode", [&] {
        Current call;
        add_node(call, out, graph, dependencies, count, kernel_of(call, params));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                                 size_t count, const CUDA_MEMCPY3D* params, CUcontext) {
    return guarded("cuGraphAddMemcpyNode", [&] {
        Current call;
        add_node(call, out, graph, dependencies, count, copy_of(call.s, params));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                                 size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
    return guarded("cuGraphAddMemsetNode", [&] {
        Current call;
        add_node(call, out, graph, dependencies, count, set_of(params));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                               size_t count, const CUDA_HOST_NODE_PARAMS* params) {
    return guarded("cuGraphAddHostNode", [&] {
        Current call;
        require(params, "nodeParams");
        if (params->fn == nullptr) fail(CUDA_ERROR_INVALID_VALUE, "fn is null");
        add_node(call, out, graph, dependencies, count, HostCall{params->fn, params->userData});
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                                size_t count) {
    return guarded("cuGraphAddEmptyNode", [&] {
        Current call;
        add_node(call, out, graph, dependencies, count, std::monostate());
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                      const CUgraphEdgeData*, size_t count) {
    return guarded("cuGraphAddDependencies", [&] {
        const Current call;
        const Graph& g = find_graph(call.s, graph);
        const auto before = dependencies_of(call.s, g, from, count), behind = dependencies_of(call.s, g, to, count);
        for (size_t i = 0; i < count; ++i) behind[i]->from.push_back(before[i]);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    return guarded("cuGraphGetNodes", [&] {
        const Initialised call;
        require(count, "numNodes");
        const Graph& g = find_graph(call.s, graph);
        if (nodes != nullptr) {
            for (size_t i = 0; i < *count; ++i)
                nodes[i] = i < g.nodes.size() ? reinterpret_cast<CUgraphNode>(g.nodes[i].get()) : nullptr;
            *count = std::min(*count, g.nodes.size());
        } else {
            *count = g.nodes.size();
        }
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    return guarded("cuGraphNodeGetType", [&] {
        const Initialised call;
        require(type, "type");
        constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_KERNEL,
                                              CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                              CU_GRAPH_NODE_TYPE_HOST};
        *type = kTypes[find_node(call.s, node).work.index()];
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
    return guarded("cuGraphKernelNodeSetParams", [&] {
        Current call;
        GraphNode& n = find_node(call.s, node);
        if (!std::holds_alternative<KernelCall>(n.work)) fail(CUDA_ERROR_INVALID_VALUE, "it is no kernel node");
        n.work = kernel_of(call, params);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
    return guarded("cuGraphInstantiate", [&] { instantiate(out, graph, flags); });
}

PTXEMU_API CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    return guarded("cuGraphInstantiateWithParams", [&] {
        require(params, "instantiateParams");
        instantiate(out, graph, params->flags);
        params->hErrNode_out = nullptr;
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
    return guarded("cuGraphExecDestroy", [&] {
        const Initialised call;
        find_exec(call.s, exec);
        call.s.graph_execs.erase(exec);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                              const CUDA_KERNEL_NODE_PARAMS* params) {
    return guarded("cuGraphExecKernelNodeSetParams", [&] {
        Current call;
        set_item(call, exec, node, kernel_of(call, params));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                           const CUDA_MEMCPY3D* params, CUcontext) {
    return guarded("cuGraphExecMemcpyNodeSetParams", [&] {
        Current call;
        set_item(call, exec, node, copy_of(call.s, params));
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                           const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
    return guarded("cuGraphExecMemsetNodeSetParams", [&] {
        Current call;
        set_item(call, exec, node, set_of(params));
    });
}

// The graph must have the same nodes in the same order; their work is taken over.
PTXEMU_API CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
    return guarded("cuGraphExecUpdate", [&] {
        const Current call;
        require(info, "resultInfo");
        *info = {};
        GraphExec& e = find_exec(call.s, exec);
        const auto order = in_order(find_graph(call.s, graph));
        const auto refuse = [&](CUgraphExecUpdateResult result, const GraphNode* node, const std::string& why) {
            info->result = result;
            info->errorNode = reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(node));
            fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, why);
        };
        if (order.size() != e.items.size()) {
            refuse(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr,
                   std::to_string(order.size()) + " nodes, the executable graph has " + std::to_string(e.items.size()));
        }
        for (size_t i = 0; i < order.size(); ++i) {
            if (order[i]->work.index() != e.items[i].work.index())
                refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, order[i], "a node is of another kind");
        }
        for (size_t i = 0; i < order.size(); ++i) e.items[i].work = order[i]->work;
        info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return guarded("cuGraphUpload", [&] {
        const Current call;
        find_exec(call.s, exec);
        check_stream(call.s, stream);
    });
}

PTXEMU_API CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return guarded("cuGraphLaunch", [&] {
        Current call;
        const GraphExec copy = find_exec(call.s, exec);   // another thread may destroy it while kernels run
        check_stream(call.s, stream);
        if (Capture* capture = active_capture(call.s, stream))
            invalidate(*capture, CUDA_ERROR_NOT_SUPPORTED, "graphs inside captured graphs are not supported");
        for (const GraphExec::Item& item : copy.items) perform(call.s, call.lock, item.work);
    });
}

PTXEMU_API CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    return guarded("cuLaunchHostFunc", [&] {
        Current call;
        if (function == nullptr) fail(CUDA_ERROR_INVALID_VALUE, "fn is null");
        enqueue(call, stream, HostCall{function, data});
    });
}

// SPDX-License-Identifier: Apache-2.0
// The emulated driver's state: one device, its contexts and what they own. Every entry point checks its handles against
// the tables here before it touches what they point to.
#pragma once
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine.h"
#include "hex.h"
#include "ir.h"
#include "memory.h"
#include "occupancy.h"
#include "profile.h"

#define PTXEMU_API extern "C" __attribute__((visibility("default")))

namespace ptxemu {

// Thrown by whatever finds the fault; the entry point prints the message (if there is one) as a single line on stderr
// and returns the code.
struct Failure {
    CUresult code;
    std::string message;
};
[[noreturn]] inline void fail(CUresult code, std::string message = {}) { throw Failure{code, std::move(message)}; }

struct Config {
    DeviceConfig device;       // device.seed: of the next launch
    uint64_t seed_step = 0;    // PTXEMU_SEED_STEP
    std::string stats_path;   // PTXEMU_STATS
    std::string ptx_path;     // PTXEMU_PTX
    std::string trace_path;   // PTXEMU_TRACE
};
// Reads PTXEMU_*. Throws Failure(CUDA_ERROR_INVALID_VALUE) naming variable, value and limit.
Config read_config();

struct LoadedModule;
struct LoadedFunction {
    LoadedModule* module = nullptr;
    const Function* function = nullptr;
    std::shared_ptr<const Program> program;
    std::shared_ptr<ToldWarnings> told = std::make_shared<ToldWarnings>();
    int max_dynamic_shared_bytes = 0;
    int carveout = -1;
    bool non_portable_cluster = false;
    std::array<int, 3> required_cluster{};   // 0: not set
    int max_threads() const;
};

struct Context;
struct LibraryKernel;   // driver_library.cpp
struct LoadedModule {
    Context* context = nullptr;
    const void* library = nullptr;   // that it was loaded for; null: for itself
    std::unique_ptr<Module> module;
    std::map<std::string, uint64_t> symbols;   // device addresses of .global and .const
    std::map<std::string, std::unique_ptr<LoadedFunction>, std::less<>> functions;
};

struct Stream {
    Context* context = nullptr;
    unsigned flags = 0;
    int priority = 0;
};

struct Capture;   // driver_graph.h
struct Graph;
struct GraphExec;
struct GraphNode;

struct Event {
    Context* context = nullptr;
    bool timing = true;
    bool recorded = false;
    uint64_t capture_id = 0;   // recorded in this capture, behind these nodes; 0: in none
    std::vector<GraphNode*> nodes;
    std::chrono::steady_clock::time_point time;
};

struct Context {
    uint64_t id = 0;
    unsigned flags = 0;
    bool alive = true;
    GlobalMemory memory;
    std::set<uint64_t> host_memory;     // bases of what cuMemAllocHost and cuMemHostAlloc gave
    std::set<uint64_t> module_memory;   // bases of module variables and mapped memory: cuMemFree does not take them
    std::set<uint64_t> registered;      // of host_memory, those that cuMemHostRegister named
    std::set<uint64_t> managed;         // bases of what cuMemAllocManaged gave
};

struct State {
    std::mutex mutex;
    bool initialised = false;
    // Of the launch that faulted. As on silicon (H200, driver API 13.0), every later call that needs a context answers
    // with it, in all contexts, and so does making new ones, until the process ends.
    CUresult sticky = CUDA_SUCCESS;
    Config config;
    Stats stats;
    TraceLog trace;
    std::shared_ptr<Context> primary;
    int primary_count = 0;
    unsigned primary_flags = 0;
    uint64_t next_context_id = 1;
    std::unordered_map<const void*, std::shared_ptr<Context>> contexts;
    std::set<const void*> dead_contexts;   // handles of destroyed contexts that are not in use again
    std::unordered_map<const void*, std::unique_ptr<LoadedModule>> modules;
    std::unordered_map<const void*, LoadedFunction*> functions;
    std::unordered_map<const void*, LibraryKernel*> kernels;   // of libraries; their handles are good for launches, too
    std::unordered_map<const void*, std::unique_ptr<Stream>> streams;
    std::unordered_map<const void*, std::unique_ptr<Event>> events;
    std::vector<std::shared_ptr<Capture>> captures;   // not yet ended
    uint64_t next_capture_id = 1;
    std::unordered_map<const void*, std::unique_ptr<Graph>> graphs;
    std::unordered_map<const void*, std::unique_ptr<GraphExec>> graph_execs;
    std::string last_error;
};
State& state();                                           // never destroyed: threads may outlive main
std::vector<std::shared_ptr<Context>>& context_stack();   // of this thread

// The checks at the head of an entry point; each holds the lock while it lives.
struct Initialised {
    std::unique_lock<std::mutex> lock;
    State& s;
    Initialised();   // CUDA_ERROR_NOT_INITIALIZED
};
struct Current : Initialised {
    std::shared_ptr<Context> context;
    Current();   // ..., INVALID_CONTEXT, CONTEXT_IS_DESTROYED, the sticky error
};

// A kernel of a library: the function of that name in the library's module of the current context, loaded when needed.
LoadedFunction& function_of(State& s, LibraryKernel& kernel);

std::string ptx_of(const State& s, const void* image);   // the text of the image that fits the device
// Parses, decodes and places it; `name` is the call's, for messages.
LoadedModule& load_module(State& s, Context& context, const std::string& text, const char* name);
// The error log that the caller of a JIT function gave, if any: what a compiler would say.
void write_jit_log(unsigned count, const CUjit_option* options, void** values, const std::string& message);
int function_attribute(const State& s, const LoadedFunction& f, CUfunction_attribute attribute);
void set_function_attribute(const State& s, LoadedFunction& f, CUfunction_attribute attribute, int value);

LoadedModule& find_module(State& s, CUmodule handle);
LoadedFunction& find_function(State& s, CUfunction handle);   // a CUkernel, too
void check_stream(State& s, CUstream handle);
Event& find_event(State& s, CUevent handle);
void check_device(CUdevice device);
void check_sticky(const State& s);
void destroy_context(State& s, Context& context);
void erase_module(State& s, LoadedModule& module);

// Memory [address, address + bytes) must lie inside one allocation of a context, current or not (addresses are
// unified); `what` names it.
void check_range(const State& s, uint64_t address, uint64_t bytes, const char* what);
// The context that owns the allocation with this byte; null if there is none.
Context* owner_of(const State& s, uint64_t address, Allocation* allocation);

inline constexpr uint64_t kDeviceMemoryBytes = uint64_t{180} << 30;   // usable memory of a B200
uint64_t allocated_bytes(const State& s);

inline constexpr int kSharedPerBlock = 48 * 1024;   // without opt-in
inline constexpr int kMaxBlockDim[3] = {1024, 1024, 64};
inline constexpr int kMaxGridDim[3] = {2147483647, 65535, 65535};

const char* result_name(CUresult code);   // null if unknown
const char* result_text(CUresult code);
CUresult report(const char* call, CUresult code, const std::string& message);
void write_stats(const State& s);   // to the file that PTXEMU_STATS names, if any

// Runs an entry point's body: no exception crosses the C boundary.
template <class Body>
CUresult guarded(const char* call, Body&& body) noexcept {
    try {
        body();
        return CUDA_SUCCESS;
    } catch (const Failure& f) {
        return report(call, f.code, f.message);
    } catch (const std::bad_alloc&) {
        return report(call, CUDA_ERROR_OUT_OF_MEMORY, "host memory ran out");
    } catch (const std::exception& e) {
        return report(call, CUDA_ERROR_UNKNOWN, e.what());
    }
}

inline void require(const void* pointer, const char* name) {
    if (pointer == nullptr) fail(CUDA_ERROR_INVALID_VALUE, std::string(name) + " is null");
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
#include "driver_graph.h"


namespace ptxemu {

State& state() {
    static State& s = *new State;
    return s;
}

// Calls that come from destructors of static objects, when the thread's own are gone, find no context.
std::vector<std::shared_ptr<Context>>& context_stack() {
    using Stack = std::vector<std::shared_ptr<Context>>;
    thread_local bool ended = false;
    thread_local struct Owner {
        Stack stack;
        ~Owner() { ended = true; }
    } owner;
    if (!ended) [[likely]] return owner.stack;
    static Stack& none = *new Stack;
    none.clear();
    return none;
}

Initialised::Initialised() : lock(state().mutex), s(state()) {
    if (!s.initialised) fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called");
}

Current::Current() {
    const auto& stack = context_stack();
    if (stack.empty() || stack.back() == nullptr) fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    context = stack.back();
    if (!context->alive) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context has been destroyed");
    check_sticky(s);
}

LoadedModule& find_module(State& s, CUmodule handle) {
    const auto found = s.modules.find(handle);
    if (found == s.modules.end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such module");
    return *found->second;
}

LoadedFunction& find_function(State& s, CUfunction handle) {
    const auto found = s.functions.find(handle);
    if (found == s.functions.end()) {
        const auto kernel = s.kernels.find(handle);
        if (kernel != s.kernels.end()) return function_of(s, *kernel->second);
        fail(CUDA_ERROR_INVALID_HANDLE, "no such function");
    }
    return *found->second;
}

void check_stream(State& s, CUstream handle) {
    if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return;
    if (s.streams.find(handle) == s.streams.end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such stream");
}

Event& find_event(State& s, CUevent handle) {
    const auto found = s.events.find(handle);
    if (found == s.events.end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such event");
    return *found->second;
}

void check_device(CUdevice device) {
    if (device != 0) {
        fail(CUDA_ERROR_INVALID_DEVICE, "device " + std::to_string(device) + ": there is only device 0");
    }
}

void check_sticky(const State& s) {
    if (s.sticky != CUDA_SUCCESS) fail(s.sticky);   // its message was printed when it happened
}

void erase_module(State& s, LoadedModule& module) {
    for (const auto& [name, function] : module.functions) s.functions.erase(function.get());
    for (const auto& [name, address] : module.symbols) {
        module.context->memory.release(address);
        module.context->module_memory.erase(address);
    }
    s.modules.erase(&module);
}

void destroy_context(State& s, Context& context) {
    context.alive = false;
    std::vector<LoadedModule*> modules;
    for (const auto& [handle, module] : s.modules) {
        if (module->context == &context) modules.push_back(module.get());
    }
    for (LoadedModule* module : modules) erase_module(s, *module);
    std::erase_if(s.captures, [&](const auto& capture) { return capture->context == &context; });
    std::erase_if(s.streams, [&](const auto& item) { return item.second->context == &context; });
    std::erase_if(s.events, [&](const auto& item) { return item.second->context == &context; });
    s.dead_contexts.insert(&context);
    s.contexts.erase(&context);   // memory goes with the last thread that has it on its stack
}

Context* owner_of(const State& s, uint64_t address, Allocation* allocation) {
    for (const auto& [handle, context] : s.contexts) {
        *allocation = context->memory.find(address, 1);
        if (allocation->bytes != 0) return context.get();
    }
    return nullptr;
}

void check_range(const State& s, uint64_t address, uint64_t bytes, const char* what) {
    if (bytes == 0) return;
    Allocation allocation;
    if (owner_of(s, address, &allocation) == nullptr || !allocation.contains(address, bytes)) {
        fail(CUDA_ERROR_INVALID_VALUE, std::string(what) + ": " + std::to_string(bytes) + " bytes at " + hex(address) +
                                           " do not lie inside one allocation");
    }
}

uint64_t allocated_bytes(const State& s) {
    uint64_t total = 0;
    for (const auto& [handle, context] : s.contexts) total += context->memory.allocated_bytes();
    return total;
}

CUresult report(const char* call, CUresult code, const std::string& message) {
    if (message.empty()) return code;
    std::string line = "ptxemu: ";
    line += call;
    line += ": ";
    line += message;
    if (const char* name = result_name(code)) {
        line += " (";
        line += name;
        line += ')';
    }
    for (char& c : line) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    {
        // The lock of the failed call is gone by now.
        const std::lock_guard lock(state().mutex);
        state().last_error = line;
    }
    line += '\n';
    std::fputs(line.c_str(), stderr);
    return code;
}

int refuse(const char* name);
int refuse(const char* name) {
    return report(name, CUDA_ERROR_NOT_SUPPORTED, "this function is not supported");
}

}   // namespace ptxemu

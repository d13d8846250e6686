// SPDX-License-Identifier: Apache-2.0
// Contexts: the primary one with its count, others, and each thread's stack.
#include "driver_graph.h"

using namespace ptxemu;

namespace {

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

std::shared_ptr<Context> find_context(State& s, CUcontext handle) {
    const auto found = s.contexts.find(handle);
    if (found == s.contexts.end()) {
        if (s.dead_contexts.count(handle) != 0) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context has been destroyed");
        fail(CUDA_ERROR_INVALID_CONTEXT, "no such context");
    }
    return found->second;
}

void synchronize(State& s, const Context* context) {
    check_sticky(s);
    for (const auto& capture : s.captures) {
        if (capture->context != context) continue;
        capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is being captured");
    }
}

std::shared_ptr<Context> make_context(State& s, unsigned flags) {
    check_sticky(s);
    auto context = std::make_shared<Context>();
    if (s.config.device.check) context->memory.track_writes();
    s.dead_contexts.erase(context.get());
    context->id = s.next_context_id++;
    context->flags = flags;
    s.contexts.emplace(context.get(), context);
    return context;
}

constexpr unsigned kContextFlags = CU_CTX_FLAGS_MASK;

void check_flags(unsigned flags) {
    if ((flags & ~kContextFlags) != 0) fail(CUDA_ERROR_INVALID_VALUE, "unknown context flags " + hex(flags));
}

void create(CUcontext* out, unsigned flags, CUdevice device) {
    const Initialised call;
    require(out, "pctx");
    check_device(device);
    check_flags(flags);
    auto context = make_context(call.s, flags);
    *out = handle_of(context.get());
    context_stack().push_back(std::move(context));
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    return guarded("cuDevicePrimaryCtxRetain", [&] {
        const Initialised call;
        require(out, "pctx");
        check_device(device);
        check_sticky(call.s);
        if (call.s.primary == nullptr) call.s.primary = make_context(call.s, call.s.primary_flags);
        ++call.s.primary_count;
        *out = handle_of(call.s.primary.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return guarded("cuDevicePrimaryCtxRelease", [&] {
        const Initialised call;
        check_device(device);
        if (call.s.primary_count == 0) fail(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
        if (--call.s.primary_count > 0) return;
        destroy_context(call.s, *call.s.primary);
        call.s.primary.reset();
    });
}

PTXEMU_API CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return guarded("cuDevicePrimaryCtxReset", [&] {
        const Initialised call;
        check_device(device);
        if (call.s.primary == nullptr) return;
        destroy_context(call.s, *call.s.primary);
        call.s.primary.reset();
        call.s.primary_count = 0;
    });
}

PTXEMU_API CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    return guarded("cuDevicePrimaryCtxSetFlags", [&] {
        const Initialised call;
        check_device(device);
        check_flags(flags);
        call.s.primary_flags = flags;
        if (call.s.primary != nullptr) call.s.primary->flags = flags;
    });
}

PTXEMU_API CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
    return guarded("cuDevicePrimaryCtxGetState", [&] {
        const Initialised call;
        check_device(device);
        require(flags, "flags");
        require(active, "active");
        *flags = call.s.primary_flags;
        *active = call.s.primary != nullptr ? 1 : 0;
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags,
                                           CUdevice device) {
    return guarded("cuCtxCreate", [&] {
        if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr)) {
            fail(CUDA_ERROR_NOT_SUPPORTED, "execution affinity and graphics contexts are not supported");
        }
        create(out, flags, device);
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
    return guarded("cuCtxCreate", [&] { create(out, flags, device); });
}

PTXEMU_API CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle) {
    return guarded("cuCtxDestroy", [&] {
        const Initialised call;
        const std::shared_ptr<Context> context = find_context(call.s, handle);
        if (context == call.s.primary)
            fail(CUDA_ERROR_INVALID_CONTEXT, "the primary context is released, not destroyed");
        destroy_context(call.s, *context);
        auto& stack = context_stack();
        if (!stack.empty() && stack.back() == context) stack.pop_back();
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
    return guarded("cuCtxSetCurrent", [&] {
        const Initialised call;
        auto& stack = context_stack();
        if (handle == nullptr) {
            if (!stack.empty()) stack.pop_back();
            return;
        }
        std::shared_ptr<Context> context = find_context(call.s, handle);
        if (stack.empty()) {
            stack.push_back(std::move(context));
        } else {
            stack.back() = std::move(context);
        }
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
    return guarded("cuCtxGetCurrent", [&] {
        const Initialised call;
        require(out, "pctx");
        const auto& stack = context_stack();
        *out = stack.empty() ? nullptr : handle_of(stack.back().get());
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle) {
    return guarded("cuCtxPushCurrent", [&] {
        const Initialised call;
        context_stack().push_back(find_context(call.s, handle));
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* out) {
    return guarded("cuCtxPopCurrent", [&] {
        const Initialised call;
        auto& stack = context_stack();
        if (stack.empty()) fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
        if (out != nullptr) *out = handle_of(stack.back().get());
        stack.pop_back();
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
    return guarded("cuCtxGetDevice", [&] {
        const Current call;
        require(device, "device");
        *device = 0;
    });
}

// Of CUDA 13.0; a null context is the current one.
PTXEMU_API CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
    if (handle == nullptr) return cuCtxGetDevice(device);
    return guarded("cuCtxGetDevice_v2", [&] {
        const Initialised call;
        require(device, "device");
        find_context(call.s, handle);
        *device = 0;
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
    return guarded("cuCtxGetFlags", [&] {
        const Current call;
        require(flags, "flags");
        *flags = call.context->flags;
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long* id) {
    return guarded("cuCtxGetId", [&] {
        const Initialised call;
        require(id, "ctxId");
        const auto& stack = context_stack();
        if (handle == nullptr && stack.empty()) fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
        *id = handle == nullptr ? stack.back()->id : find_context(call.s, handle)->id;
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
    return guarded("cuCtxGetApiVersion", [&] {
        const Initialised call;
        require(version, "version");
        if (handle != nullptr) find_context(call.s, handle);
        *version = 3020;
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxSynchronize(void) {
    return guarded("cuCtxSynchronize", [&] {
        const Current call;
        synchronize(call.s, call.context.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle) {
    if (handle == nullptr) return cuCtxSynchronize();
    return guarded("cuCtxSynchronize_v2", [&] {
        const Initialised call;
        synchronize(call.s, find_context(call.s, handle).get());
    });
}

PTXEMU_API CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return guarded("cuCtxGetStreamPriorityRange", [&] {
        const Current call;
        if (least != nullptr) *least = 0;
        if (greatest != nullptr) *greatest = 0;
    });
}

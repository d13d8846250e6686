// SPDX-License-Identifier: Apache-2.0
// Settings that change nothing here and questions that have one answer: limits, caches, peers, bus ids, stream
// attributes, loading, occupancy by search; and the memory operations of streams.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver_graph.h"

using namespace ptxemu;

namespace {

constexpr const char* kBusId = "0000:01:00.0";
size_t limits[CU_LIMIT_MAX] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0, 0};   // guarded by State::mutex

void check_limit(CUlimit limit) {
    if (limit < 0 || limit >= CU_LIMIT_MAX)
        fail(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit " + std::to_string(limit) + " is not supported");
}

// The operations of a stream run in order, each to its end, so a wait is for what is there already.
template <class T>
void wait_value(CUstream stream, CUdeviceptr address, T value, unsigned flags) {
    Current call;
    check_stream(call.s, stream);
    forbid_in_capture(call.s, stream);
    check_range(call.s, address, sizeof(T), "addr");
    T now;
    std::memcpy(&now, reinterpret_cast<const void*>(address), sizeof now);
    bool there = false;
    using Signed = std::make_signed_t<T>;
    switch (flags & 3) {
        case CU_STREAM_WAIT_VALUE_GEQ: there = static_cast<Signed>(now - value) >= 0; break;
        case CU_STREAM_WAIT_VALUE_EQ: there = now == value; break;
        case CU_STREAM_WAIT_VALUE_AND: there = (now & value) != 0; break;
        default: there = (now | value) != static_cast<T>(~T{0}); break;
    }
    if (!there) {
        fail(CUDA_ERROR_NOT_SUPPORTED, "a wait for a value that is not there yet (" + hex(now) + " at " + hex(address) +
                                           ", waited for " + hex(value) + ") is not supported: launches end before the "
                                           "next call");
    }
}

template <class T>
void write_value(CUstream stream, CUdeviceptr address, T value) {
    Current call;
    check_range(call.s, address, sizeof(T), "addr");
    if (sizeof(T) == 4) {
        enqueue(call, stream, SetCall{{address, 0, static_cast<unsigned>(value), 4, 1, 1}});
        return;
    }
    forbid_in_capture(call.s, stream);
    check_stream(call.s, stream);
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
    call.context->memory.mark_written(address, sizeof value);
}

void potential_block_size(int* grid, int* block, CUfunction function, CUoccupancyB2DSize bytes_of, size_t bytes,
                          int limit) {
    State& s = state();
    int most_threads = 0, best = 0, best_blocks = 0;
    {
        const Current call;
        require(grid, "minGridSize");
        require(block, "blockSize");
        most_threads = find_function(call.s, function).max_threads();
    }
    if (limit > 0) most_threads = std::min(most_threads, limit);
    for (int threads = (most_threads + 31) / 32 * 32; threads > 0; threads -= 32) {
        const int used = std::min(threads, most_threads);
        int blocks = 0;
        const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, used, bytes_of != nullptr ? bytes_of(used) : bytes);
        if (result != CUDA_SUCCESS) fail(result);
        if (blocks * used > best_blocks * best) best = used, best_blocks = blocks;
    }
    *block = best;
    *grid = best_blocks * s.config.device.multiprocessors;
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuCtxGetLimit(size_t* value, CUlimit limit) {
    return guarded("cuCtxGetLimit", [&] {
        const Current call;
        require(value, "pvalue");
        check_limit(limit);
        *value = limits[limit];
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
    return guarded("cuCtxSetLimit", [&] {
        const Current call;
        check_limit(limit);
        limits[limit] = value;
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* config) {
    return guarded("cuCtxGetCacheConfig", [&] {
        const Current call;
        require(config, "pconfig");
        *config = CU_FUNC_CACHE_PREFER_NONE;
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache) {
    return guarded("cuCtxSetCacheConfig", [&] { const Current call; });
}
PTXEMU_API CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig* config) {
    return guarded("cuCtxGetSharedMemConfig", [&] {
        const Current call;
        require(config, "pConfig");
        *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig) {
    return guarded("cuCtxSetSharedMemConfig", [&] { const Current call; });
}
PTXEMU_API CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
    return guarded("cuFuncSetSharedMemConfig", [&] {
        const Current call;
        find_function(call.s, function);
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
    return guarded("cuCtxResetPersistingL2Cache", [&] { const Current call; });
}
PTXEMU_API CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
    return guarded("cuCtxSetFlags", [&] {
        const Current call;
        call.context->flags = flags;
    });
}
PTXEMU_API CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext, unsigned int) {
    return guarded("cuCtxEnablePeerAccess",
                   [&] { fail(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "there is only device 0"); });
}
PTXEMU_API CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext) {
    return guarded("cuCtxDisablePeerAccess",
                   [&] { fail(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "there is only device 0"); });
}

PTXEMU_API CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    return guarded("cuDeviceCanAccessPeer", [&] {
        const Initialised call;
        require(can, "canAccessPeer");
        check_device(device);
        check_device(peer);
        *can = 0;
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    return guarded("cuDeviceGetPCIBusId", [&] {
        const Initialised call;
        require(text, "pciBusId");
        check_device(device);
        if (length <= 0) fail(CUDA_ERROR_INVALID_VALUE, "len must be positive, not " + std::to_string(length));
        std::snprintf(text, static_cast<size_t>(length), "%s", kBusId);
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    return guarded("cuDeviceGetByPCIBusId", [&] {
        const Initialised call;
        require(device, "dev");
        require(text, "pciBusId");
        if (std::strstr(kBusId, text) == nullptr && std::strncmp(kBusId, text, std::strlen(kBusId)) != 0)
            fail(CUDA_ERROR_INVALID_DEVICE, "no device at '" + std::string(text) + "'");
        *device = 0;
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
    return guarded("cuDeviceGetExecAffinitySupport", [&] {
        const Initialised call;
        require(supported, "pi");
        check_device(device);
        *supported = 0;
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* out, CUdevice device) {
    return guarded("cuDeviceGetProperties", [&] {
        const Initialised call;
        require(out, "prop");
        check_device(device);
        *out = {};
        out->maxThreadsPerBlock = kMaxThreadsPerBlock;
        for (int d = 0; d < 3; ++d) out->maxThreadsDim[d] = kMaxBlockDim[d], out->maxGridSize[d] = kMaxGridDim[d];
        out->sharedMemPerBlock = kSharedPerBlock;
        out->totalConstantMemory = 65536;
        out->SIMDWidth = 32;
        out->memPitch = 2147483647;
        out->regsPerBlock = 65536;
        out->clockRate = 1000000;
        out->textureAlign = 512;
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    return guarded("cuModuleGetLoadingMode", [&] {
        const Initialised call;
        require(mode, "mode");
        *mode = CU_MODULE_EAGER_LOADING;
    });
}
PTXEMU_API CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count, CUmodule module) {
    return guarded("cuModuleEnumerateFunctions", [&] {
        const Current call;
        require(functions, "functions");
        for (const auto& [name, function] : find_module(call.s, module).functions) {
            if (count-- == 0) return;
            *functions++ = reinterpret_cast<CUfunction>(function.get());
        }
    });
}
PTXEMU_API CUresult CUDAAPI cuFuncLoad(CUfunction function) {
    return guarded("cuFuncLoad", [&] {
        const Current call;
        find_function(call.s, function);
    });
}
PTXEMU_API CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction function) {
    return guarded("cuFuncIsLoaded", [&] {
        const Current call;
        require(loaded, "state");
        find_function(call.s, function);
        *loaded = CU_FUNCTION_LOADING_STATE_LOADED;
    });
}

PTXEMU_API CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                             CUoccupancyB2DSize bytes_of, size_t bytes, int limit) {
    return guarded("cuOccupancyMaxPotentialBlockSize",
                   [&] { potential_block_size(grid, block, function, bytes_of, bytes, limit); });
}
PTXEMU_API CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                                      CUoccupancyB2DSize bytes_of, size_t bytes,
                                                                      int limit, unsigned int) {
    return guarded("cuOccupancyMaxPotentialBlockSizeWithFlags",
                   [&] { potential_block_size(grid, block, function, bytes_of, bytes, limit); });
}
PTXEMU_API CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks,
                                                                    int) {
    return guarded("cuOccupancyAvailableDynamicSMemPerBlock", [&] {
        const Current call;
        require(bytes, "dynamicSmemSize");
        const LoadedFunction& f = find_function(call.s, function);
        if (blocks <= 0) fail(CUDA_ERROR_INVALID_VALUE, "numBlocks = " + std::to_string(blocks) + " is not positive");
        const Limits most = limits_of(call.s.config.device.compute_capability);
        const int each =
            most.shared_per_sm / blocks - kReservedShared - static_cast<int>(f.function->static_shared_bytes);
        *bytes = static_cast<size_t>(std::clamp(each, 0, f.max_dynamic_shared_bytes));
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext* out) {
    return guarded("cuStreamGetCtx", [&] {
        const Current call;
        require(out, "pctx");
        check_stream(call.s, stream);
        const auto found = call.s.streams.find(stream);
        *out = reinterpret_cast<CUcontext>(found == call.s.streams.end() ? call.context.get() : found->second->context);
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice* device) {
    return guarded("cuStreamGetDevice", [&] {
        const Current call;
        require(device, "device");
        check_stream(call.s, stream);
        *device = 0;
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long* id) {
    return guarded("cuStreamGetId", [&] {
        const Current call;
        require(id, "streamId");
        check_stream(call.s, stream);
        *id = reinterpret_cast<unsigned long long>(stream);
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamGetAttribute(CUstream stream, CUstreamAttrID, CUstreamAttrValue* value) {
    return guarded("cuStreamGetAttribute", [&] {
        const Current call;
        require(value, "value_out");
        check_stream(call.s, stream);
        *value = {};
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamSetAttribute(CUstream stream, CUstreamAttrID, const CUstreamAttrValue* value) {
    return guarded("cuStreamSetAttribute", [&] {
        const Current call;
        require(value, "value");
        check_stream(call.s, stream);
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamCopyAttributes(CUstream to, CUstream from) {
    return guarded("cuStreamCopyAttributes", [&] {
        const Current call;
        check_stream(call.s, to);
        check_stream(call.s, from);
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                                                unsigned int flags) {
    return guarded("cuStreamAddCallback", [&] {
        {
            const Current call;
            check_stream(call.s, stream);
            forbid_in_capture(call.s, stream);
            if (callback == nullptr) fail(CUDA_ERROR_INVALID_VALUE, "callback is null");
            if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
        }
        callback(stream, CUDA_SUCCESS, data);
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                                   unsigned int flags) {
    return guarded("cuStreamWaitValue32", [&] { wait_value(stream, address, value, flags); });
}
PTXEMU_API CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                                   unsigned int flags) {
    return guarded("cuStreamWaitValue64", [&] { wait_value(stream, address, value, flags); });
}
PTXEMU_API CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                                    unsigned int) {
    return guarded("cuStreamWriteValue32", [&] { write_value(stream, address, value); });
}
PTXEMU_API CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                                    unsigned int) {
    return guarded("cuStreamWriteValue64", [&] { write_value(stream, address, value); });
}

PTXEMU_API CUresult CUDAAPI cuProfilerStart(void) { return CUDA_SUCCESS; }
PTXEMU_API CUresult CUDAAPI cuProfilerStop(void) { return CUDA_SUCCESS; }

// SPDX-License-Identifier: Apache-2.0
#include "fake_driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

FakeState state;
int primary, other, module_handles[64];

CUresult enter(FakeCall call) {
    const int count = state.calls[static_cast<int>(call)]++;
    return call == state.fail_call && count >= state.fail_after ? state.fail_result : CUDA_SUCCESS;
}

#define ENTER(function)                                                                                   \
    do {                                                                                                  \
        if (const CUresult result = enter(FakeCall::k_##function); result != CUDA_SUCCESS) return result; \
    } while (false)

// Capacity of a record table reached: the test is wrong, not the code under test.
void require_room(int count, int capacity, const char* what) {
    if (count < capacity) return;
    std::fprintf(stderr, "fake driver: more than %d %s in one test\n", capacity, what);
    std::abort();
}

CUcontext current() { return state.stack_depth > 0 ? state.stack[state.stack_depth - 1] : nullptr; }

}  // namespace

FakeState& fake() { return state; }

void fake_reset() {
    state = {};
    state.device_count = 1;
    state.major = 10;
    state.multiprocessors = 148;
    state.shared_bytes_per_cta = 232448;
    state.fail_call = FakeCall::kCount;
}

std::string fake_driver_path() {
    Dl_info info = {};
    dladdr(reinterpret_cast<const void*>(&fake), &info);
    return info.dli_fname != nullptr ? info.dli_fname : "";
}

CUcontext fake_primary_context() { return reinterpret_cast<CUcontext>(&primary); }
CUcontext fake_other_context() { return reinterpret_cast<CUcontext>(&other); }

extern "C" {

CUresult CUDAAPI cuInit(unsigned) {
    ENTER(cuInit);
    return state.init_result;
}
CUresult CUDAAPI cuDriverGetVersion(int* version) {
    ENTER(cuDriverGetVersion);
    *version = 13000;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
    *name = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
    return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
    *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : nullptr;
    return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuDeviceGetCount(int* count) {
    ENTER(cuDeviceGetCount);
    *count = state.device_count;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
    ENTER(cuDeviceGet);
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice) {
    ENTER(cuDeviceGetName);
    std::snprintf(name, static_cast<size_t>(length), "fake device");
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    ENTER(cuDeviceGetAttribute);
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.major; return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.minor; return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = state.multiprocessors; return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            *value = state.shared_bytes_per_cta;
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
    ENTER(cuDevicePrimaryCtxRetain);
    ++state.retains;
    *context = fake_primary_context();
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice) {
    ENTER(cuDevicePrimaryCtxRelease_v2);
    --state.retains;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
    ENTER(cuCtxGetCurrent);
    *context = current();
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
    ENTER(cuCtxSetCurrent);
    if (state.stack_depth == 0) state.stack_depth = 1;
    state.stack[state.stack_depth - 1] = context;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context) {
    ENTER(cuCtxPushCurrent_v2);
    require_room(state.stack_depth, 16, "contexts");
    state.stack[state.stack_depth++] = context;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* context) {
    ENTER(cuCtxPopCurrent_v2);
    if (state.stack_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    *context = state.stack[--state.stack_depth];
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
    ENTER(cuCtxGetDevice);
    *device = 0;
    return current() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult CUDAAPI cuCtxSynchronize() {
    ENTER(cuCtxSynchronize);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
    ENTER(cuModuleLoadData);
    if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const int index = state.calls_of(FakeCall::k_cuModuleLoadData) - 1;
    require_room(index, 64, "modules");
    state.images[index] = image;
    ++state.modules_loaded;
    *module = reinterpret_cast<CUmodule>(&module_handles[index]);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleUnload(CUmodule) {
    ENTER(cuModuleUnload);
    if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    --state.modules_loaded;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    ENTER(cuModuleGetFunction);
    require_room(state.function_count, 80, "functions");
    FakeFunction& entry = state.functions[state.function_count++];
    std::snprintf(entry.name, sizeof(entry.name), "%s", name);
    entry.module = module;
    *function = reinterpret_cast<CUfunction>(&entry);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
    ENTER(cuFuncGetAttribute);
    if (attribute != CU_FUNC_ATTRIBUTE_NUM_REGS) return CUDA_ERROR_INVALID_VALUE;
    *value = 77;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    ENTER(cuFuncSetAttribute);
    auto* fake = reinterpret_cast<FakeFunction*>(function);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) fake->max_dynamic_shared_bytes = value;
    else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) fake->non_portable_clusters = value;
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

// The first bytes of a map made here tell which call made it.
CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        const cuuint64_t* dims, const cuuint64_t* strides_bytes, const cuuint32_t* box,
                                        const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                        CUtensorMapFloatOOBfill oob_fill) {
    ENTER(cuTensorMapEncodeTiled);
    if (rank < 1 || rank > 5 || reinterpret_cast<uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
    require_room(state.map_count, 64, "tensor maps");
    FakeTensorMap& entry = state.maps[state.map_count];
    entry = {};
    entry.type = type;
    entry.rank = rank;
    entry.address = address;
    std::memcpy(entry.dims, dims, rank * sizeof(dims[0]));
    std::memcpy(entry.strides_bytes, strides_bytes, (rank - 1) * sizeof(strides_bytes[0]));
    std::memcpy(entry.box, box, rank * sizeof(box[0]));
    std::memcpy(entry.element_strides, element_strides, rank * sizeof(element_strides[0]));
    entry.interleave = interleave;
    entry.swizzle = swizzle;
    entry.l2_promotion = l2_promotion;
    entry.oob_fill = oob_fill;
    std::memset(map, 0, sizeof(*map));
    map->opaque[0] = static_cast<cuuint64_t>(state.map_count++);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** kernel_params,
                                  void** extra) {
    ENTER(cuLaunchKernelEx);
    if (function == nullptr || kernel_params == nullptr || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    require_room(state.launch_count, 64, "launches");
    FakeLaunch& launch = state.launches[state.launch_count++];
    launch = {};
    std::memcpy(launch.function, reinterpret_cast<FakeFunction*>(function)->name, sizeof(launch.function));
    launch.config = *config;
    launch.map_calls[0] = launch.map_calls[1] = -1;
    launch.retained_current = current() == fake_primary_context();
    const std::string name = launch.function;
    if (name.rfind("sm", 0) == 0 && name.rfind("sm90_decode_", 0) != 0)   // kernels of tensor maps
        for (int i = 0; i < 2; ++i)
            launch.map_calls[i] = static_cast<int>(static_cast<const CUtensorMap*>(*kernel_params++)->opaque[0]);
    if (name.rfind("cache_", 0) != 0 && name.rfind("topk_", 0) != 0)
        std::memcpy(&launch.params, *kernel_params, sizeof(launch.params));
    if (name.rfind("topk_", 0) == 0 && name != "topk_merge")
        std::memcpy(&launch.select, *kernel_params, sizeof(launch.select));
    if (name == "cache_store") std::memcpy(&launch.store.store, *kernel_params, sizeof(launch.store.store));
    if (name == "cache_store_pages") std::memcpy(&launch.store, *kernel_params, sizeof(launch.store));
    if (name == "cache_gather") std::memcpy(&launch.gather, *kernel_params, sizeof(launch.gather));
    if (name == "cache_query") std::memcpy(&launch.query, *kernel_params, sizeof(launch.query));
    return CUDA_SUCCESS;
}

#define FAKE_NOTHING(function, ...)          \
    CUresult CUDAAPI function(__VA_ARGS__) { \
        ENTER(function);                     \
        return CUDA_SUCCESS;                 \
    }
FAKE_NOTHING(cuMemGetInfo_v2, size_t*, size_t*)
FAKE_NOTHING(cuMemAlloc_v2, CUdeviceptr*, size_t)
FAKE_NOTHING(cuMemFree_v2, CUdeviceptr)
FAKE_NOTHING(cuMemcpyHtoD_v2, CUdeviceptr, const void*, size_t)
FAKE_NOTHING(cuMemcpyDtoH_v2, void*, CUdeviceptr, size_t)
FAKE_NOTHING(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, size_t)
FAKE_NOTHING(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*, size_t, CUstream)
FAKE_NOTHING(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)
FAKE_NOTHING(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)
FAKE_NOTHING(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)
FAKE_NOTHING(cuMemsetD32_v2, CUdeviceptr, unsigned int, size_t)
FAKE_NOTHING(cuStreamCreate, CUstream*, unsigned int)
FAKE_NOTHING(cuStreamDestroy_v2, CUstream)
FAKE_NOTHING(cuStreamSynchronize, CUstream)
FAKE_NOTHING(cuEventCreate, CUevent*, unsigned int)
FAKE_NOTHING(cuEventRecord, CUevent, CUstream)
FAKE_NOTHING(cuEventSynchronize, CUevent)
FAKE_NOTHING(cuEventElapsedTime_v2, float*, CUevent, CUevent)
FAKE_NOTHING(cuEventDestroy_v2, CUevent)

}  // extern "C"

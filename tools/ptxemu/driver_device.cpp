// SPDX-License-Identifier: Apache-2.0
// Initialisation, the device and its attributes, names of results.
#include <malloc.h>

#include <cerrno>
#include <cstring>

#include "driver_state.h"

namespace ptxemu {
namespace {

struct ResultRow {
    CUresult code;
    const char* name;
    const char* text;
};
#define ROW(code, text) \
    { code, #code, text }
constexpr ResultRow kResults[] = {
    ROW(CUDA_SUCCESS, "no error"),
    ROW(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ROW(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ROW(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ROW(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ROW(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ROW(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ROW(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ROW(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ROW(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ROW(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ROW(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ROW(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    ROW(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ROW(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    ROW(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ROW(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ROW(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ROW(CUDA_ERROR_NOT_READY, "device not ready"),
    ROW(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ROW(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ROW(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ROW(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    ROW(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ROW(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"),
    ROW(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    ROW(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ROW(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    ROW(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ROW(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, "Invalid cluster size"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        "operation would make the legacy stream depend on a capturing blocking stream"),
    ROW(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
        "attempt to terminate a thread-local capture sequence from another thread"),
    ROW(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed because it included changes which "
                                              "violated constraints specific to instantiated graph update"),
    ROW(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef ROW

const ResultRow* find_result(CUresult code) {
    for (const ResultRow& row : kResults) {
        if (row.code == code) return &row;
    }
    return nullptr;
}

std::string device_name(const DeviceConfig& device) {
    return "ptxemu (sm_" + std::to_string(device.compute_capability) + ", " + std::to_string(device.multiprocessors) +
           " SMs)";
}

int attribute(const DeviceConfig& device, CUdevice_attribute attribute) {
    const Limits limits = limits_of(device.compute_capability);
    const bool sm90 = device.compute_capability >= 90;
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return kMaxThreadsPerBlock;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return kMaxBlockDim[0];
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return kMaxBlockDim[1];
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return kMaxBlockDim[2];
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return kMaxGridDim[0];
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return kMaxGridDim[1];
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return kMaxGridDim[2];
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return kSharedPerBlock;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return device.multiprocessors;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return limits.l2_bytes;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return limits.threads_per_sm;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: return 1;
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: return 1;
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return CU_COMPUTEMODE_DEFAULT;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return device.compute_capability / 10;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return device.compute_capability % 10;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return limits.shared_per_sm;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return limits.shared_per_block_optin;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return limits.blocks_per_sm;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return kReservedShared;
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: return sm90 ? 1 : 0;
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
        case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: return sm90 ? 1 : 0;
        case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: return sm90 ? 4 : 1;
        // One host-speed clock serves %clock64 and %globaltimer; no memory bus is modelled.
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1000000;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 64;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: return 2;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
        case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: return 512;
        case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return -1;
        default: break;
    }
    if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
        fail(CUDA_ERROR_INVALID_VALUE, "unknown device attribute " + std::to_string(attribute));
    }
    return 0;   // not supported here: textures, surfaces, sharing, pools, peer access ...
}

}   // namespace

const char* result_name(CUresult code) {
    const ResultRow* row = find_result(code);
    return row == nullptr ? nullptr : row->name;
}

const char* result_text(CUresult code) {
    const ResultRow* row = find_result(code);
    return row == nullptr ? nullptr : row->text;
}

}   // namespace ptxemu

using namespace ptxemu;

namespace {

// What a launch gives back the next one takes, of many threads a megabyte or more. By default the C library hands it to
// the system, from which it comes as pages to be cleared: up to three quarters of the time of short launches. From
// 32 MiB on, as by default, a block is the system's.
void keep_memory() {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, 1 << 29);
    mallopt(M_MMAP_THRESHOLD, 1 << 25);
#endif
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuInit(unsigned int flags) {
    return guarded("cuInit", [&] {
        State& s = state();
        const std::lock_guard lock(s.mutex);
        if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0, not " + std::to_string(flags));
        if (s.initialised) return;
        s.config = read_config();
        keep_memory();
        if (!s.config.trace_path.empty()) {
            if (!s.trace.open(s.config.trace_path)) {
                fail(CUDA_ERROR_OPERATING_SYSTEM, "PTXEMU_TRACE '" + s.config.trace_path + "' cannot be created: " +
                                                      std::strerror(errno));
            }
            s.config.device.trace = &s.trace;
        }
        write_stats(s);   // all zero: a process that launches nothing has counts, too
        s.initialised = true;
    });
}

PTXEMU_API CUresult CUDAAPI cuDriverGetVersion(int* version) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

PTXEMU_API CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
    if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *text = result_name(error);
    return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

PTXEMU_API CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
    if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *text = result_text(error);
    return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

PTXEMU_API CUresult CUDAAPI cuDeviceGetCount(int* count) {
    return guarded("cuDeviceGetCount", [&] {
        const Initialised call;
        require(count, "count");
        *count = 1;
    });
}

PTXEMU_API CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
    return guarded("cuDeviceGet", [&] {
        const Initialised call;
        require(device, "device");
        check_device(ordinal);
        *device = 0;
    });
}

PTXEMU_API CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
    return guarded("cuDeviceGetName", [&] {
        const Initialised call;
        require(name, "name");
        check_device(device);
        if (length <= 0) fail(CUDA_ERROR_INVALID_VALUE, "len must be positive, not " + std::to_string(length));
        const std::string text = device_name(call.s.config.device);
        const size_t copied = std::min(text.size(), static_cast<size_t>(length) - 1);
        std::memcpy(name, text.data(), copied);
        name[copied] = '\0';
    });
}

PTXEMU_API CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
    return guarded("cuDeviceGetAttribute", [&] {
        const Initialised call;
        require(value, "pi");
        check_device(device);
        *value = attribute(call.s.config.device, which);
    });
}

PTXEMU_API CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return guarded("cuDeviceGetUuid", [&] {
        const Initialised call;
        require(uuid, "uuid");
        check_device(device);
        std::memset(uuid->bytes, 0, sizeof uuid->bytes);
        std::memcpy(uuid->bytes, "ptxemu", 6);
        uuid->bytes[15] = static_cast<char>(call.s.config.device.compute_capability);
    });
}

#undef cuDeviceGetUuid
PTXEMU_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

PTXEMU_API CUresult CUDAAPI cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    return guarded("cuDeviceTotalMem", [&] {
        const Initialised call;
        require(bytes, "bytes");
        check_device(device);
        *bytes = kDeviceMemoryBytes;
    });
}

PTXEMU_API CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    return guarded("cuDeviceComputeCapability", [&] {
        const Initialised call;
        require(major, "major");
        require(minor, "minor");
        check_device(device);
        *major = call.s.config.device.compute_capability / 10;
        *minor = call.s.config.device.compute_capability % 10;
    });
}

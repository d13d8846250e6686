// SPDX-License-Identifier: Apache-2.0
// The seam to the machine: a table of CUDA driver API functions, loaded from one shared library. Swapping the
// library (libcuda.so.1, libptxemu.so, a test's own) swaps the machine. Types come from cuda.h; nothing links to
// libcuda.
#pragma once
#include <cuda.h>

#include <string>

// Versioned symbols exactly as the library must export them. Members of Driver bear the same names, and cuda.h's macros
// make the unversioned spelling work too: driver.cuMemAlloc is driver.cuMemAlloc_v2.
// What lidx calls.
#define LIDX_OWN_DRIVER_FUNCTIONS(X) \
    X(cuInit)                        \
    X(cuDriverGetVersion)            \
    X(cuGetErrorName)                \
    X(cuGetErrorString)              \
    X(cuDeviceGetCount)              \
    X(cuDeviceGet)                   \
    X(cuDeviceGetName)               \
    X(cuDeviceGetAttribute)          \
    X(cuDevicePrimaryCtxRetain)      \
    X(cuDevicePrimaryCtxRelease_v2)  \
    X(cuCtxGetCurrent)               \
    X(cuCtxPushCurrent_v2)           \
    X(cuCtxPopCurrent_v2)            \
    X(cuCtxGetDevice)                \
    X(cuModuleLoadData)              \
    X(cuModuleUnload)                \
    X(cuModuleGetFunction)           \
    X(cuFuncGetAttribute)            \
    X(cuFuncSetAttribute)            \
    X(cuLaunchKernelEx)              \
    X(cuTensorMapEncodeTiled)        \
    X(cuMemcpyHtoDAsync_v2)          \
    X(cuMemcpyDtoDAsync_v2)
// What its commands and tests call besides.
#define LIDX_OTHER_DRIVER_FUNCTIONS(X) \
    X(cuCtxSetCurrent)                 \
    X(cuCtxSynchronize)                \
    X(cuMemGetInfo_v2)                 \
    X(cuMemAlloc_v2)                   \
    X(cuMemFree_v2)                    \
    X(cuMemcpyHtoD_v2)                 \
    X(cuMemcpyDtoH_v2)                 \
    X(cuMemcpyDtoD_v2)                 \
    X(cuMemsetD8_v2)                   \
    X(cuMemsetD8Async)                 \
    X(cuMemsetD32_v2)                  \
    X(cuStreamCreate)                  \
    X(cuStreamDestroy_v2)              \
    X(cuStreamSynchronize)             \
    X(cuEventCreate)                   \
    X(cuEventRecord)                   \
    X(cuEventSynchronize)              \
    X(cuEventElapsedTime_v2)           \
    X(cuEventDestroy_v2)
#define LIDX_DRIVER_FUNCTIONS(X) LIDX_OWN_DRIVER_FUNCTIONS(X) LIDX_OTHER_DRIVER_FUNCTIONS(X)

namespace lidx {

struct Driver {
    std::string path;  // of the library that was loaded
#define LIDX_DRIVER_MEMBER(function) decltype(&::function) function = nullptr;
    LIDX_DRIVER_FUNCTIONS(LIDX_DRIVER_MEMBER)
#undef LIDX_DRIVER_MEMBER
};

// kOwn: what lidx calls, and nothing else; kAll: every function of the table.
enum class DriverPart { kOwn, kAll };

// Loads the library that `path` names, or $LIDX_DRIVER if path is null or empty, else libcuda.so.1, and fills a part of
// the table, each of whose functions it must have. False: *error names the library or the symbol that is missing, and
// *driver is untouched. The library stays loaded until the process ends, since a driver's threads may outlive its last
// caller. Does not call cuInit.
bool load_driver(const char* path, Driver* driver, std::string* error, DriverPart part = DriverPart::kAll);

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
std::string driver_result_text(const Driver& driver, CUresult result);

}  // namespace lidx

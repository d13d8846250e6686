// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: the table of all that the emulator exports, and ptxemu's own one entry point.
#include <cstring>

#include "driver_state.h"

#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuGetProcAddress
// First versions, which cuda.h no longer declares or maps to newer ones.
PTXEMU_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device);
PTXEMU_API CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end);
PTXEMU_API CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device);
PTXEMU_API CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** dependencies, size_t* count);
PTXEMU_API CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags);
PTXEMU_API const char* ptxemu_last_error(void);

namespace ptxemu {

const void* find_refused(const char* symbol);   // driver_refused.cpp

namespace {

struct Row {
    const char* name;
    int version;   // of CUDA that brought this form of the function (cudaTypedefs.h)
    void* function;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define ROW(name, function, version) \
    { #name, version, reinterpret_cast < void*>(&::function) }
const Row kRows[] = {
    ROW(cuArrayCreate, cuArrayCreate_v2, 3020),
    ROW(cuCtxCreate, cuCtxCreate_v2, 3020),
    ROW(cuCtxCreate, cuCtxCreate_v4, 12050),
    ROW(cuCtxDestroy, cuCtxDestroy_v2, 4000),
    ROW(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000),
    ROW(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000),
    ROW(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020),
    ROW(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020),
    ROW(cuCtxGetCurrent, cuCtxGetCurrent, 4000),
    ROW(cuCtxGetDevice, cuCtxGetDevice, 2000),
    ROW(cuCtxGetDevice, cuCtxGetDevice_v2, 13000),
    ROW(cuCtxGetFlags, cuCtxGetFlags, 7000),
    ROW(cuCtxGetId, cuCtxGetId, 12000),
    ROW(cuCtxGetLimit, cuCtxGetLimit, 3010),
    ROW(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig, 4020),
    ROW(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050),
    ROW(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000),
    ROW(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000),
    ROW(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000),
    ROW(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020),
    ROW(cuCtxSetCurrent, cuCtxSetCurrent, 4000),
    ROW(cuCtxSetFlags, cuCtxSetFlags, 12010),
    ROW(cuCtxSetLimit, cuCtxSetLimit, 3010),
    ROW(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig, 4020),
    ROW(cuCtxSynchronize, cuCtxSynchronize, 2000),
    ROW(cuCtxSynchronize, cuCtxSynchronize_v2, 13000),
    ROW(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000),
    ROW(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000),
    ROW(cuDeviceGet, cuDeviceGet, 2000),
    ROW(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000),
    ROW(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010),
    ROW(cuDeviceGetCount, cuDeviceGetCount, 2000),
    ROW(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020),
    ROW(cuDeviceGetExecAffinitySupport, cuDeviceGetExecAffinitySupport, 11040),
    ROW(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020),
    ROW(cuDeviceGetName, cuDeviceGetName, 2000),
    ROW(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010),
    ROW(cuDeviceGetProperties, cuDeviceGetProperties, 2000),
    ROW(cuDeviceGetUuid, cuDeviceGetUuid, 9020),
    ROW(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040),
    ROW(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000),
    ROW(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000),
    ROW(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000),
    ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000),
    ROW(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 11000),
    ROW(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020),
    ROW(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020),
    ROW(cuDriverGetVersion, cuDriverGetVersion, 2020),
    ROW(cuEventCreate, cuEventCreate, 2000),
    ROW(cuEventDestroy, cuEventDestroy_v2, 4000),
    ROW(cuEventElapsedTime, cuEventElapsedTime, 2000),
    ROW(cuEventElapsedTime, cuEventElapsedTime_v2, 12080),
    ROW(cuEventQuery, cuEventQuery, 2000),
    ROW(cuEventRecord, cuEventRecord, 2000),
    ROW(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010),
    ROW(cuEventSynchronize, cuEventSynchronize, 2000),
    ROW(cuFuncGetAttribute, cuFuncGetAttribute, 2020),
    ROW(cuFuncGetModule, cuFuncGetModule, 11000),
    ROW(cuFuncGetName, cuFuncGetName, 12030),
    ROW(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040),
    ROW(cuFuncIsLoaded, cuFuncIsLoaded, 12040),
    ROW(cuFuncLoad, cuFuncLoad, 12040),
    ROW(cuFuncSetAttribute, cuFuncSetAttribute, 9000),
    ROW(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000),
    ROW(cuFuncSetSharedMemConfig, cuFuncSetSharedMemConfig, 4020),
    ROW(cuGetErrorName, cuGetErrorName, 6000),
    ROW(cuGetErrorString, cuGetErrorString, 6000),
    ROW(cuGetProcAddress, cuGetProcAddress, 11030),
    ROW(cuGetProcAddress, cuGetProcAddress_v2, 12000),
    ROW(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030),
    ROW(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000),
    ROW(cuGraphAddHostNode, cuGraphAddHostNode, 10000),
    ROW(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000),
    ROW(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000),
    ROW(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000),
    ROW(cuGraphClone, cuGraphClone, 10000),
    ROW(cuGraphCreate, cuGraphCreate, 10000),
    ROW(cuGraphDestroy, cuGraphDestroy, 10000),
    ROW(cuGraphExecDestroy, cuGraphExecDestroy, 10000),
    ROW(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000),
    ROW(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020),
    ROW(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020),
    ROW(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000),
    ROW(cuGraphGetNodes, cuGraphGetNodes, 10000),
    ROW(cuGraphInstantiate, cuGraphInstantiateWithFlags, 12000),
    ROW(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040),
    ROW(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000),
    ROW(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000),
    ROW(cuGraphLaunch, cuGraphLaunch, 10000),
    ROW(cuGraphNodeGetType, cuGraphNodeGetType, 10000),
    ROW(cuGraphUpload, cuGraphUpload, 11010),
    ROW(cuInit, cuInit, 2000),
    ROW(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010),
    ROW(cuKernelGetAttribute, cuKernelGetAttribute, 12000),
    ROW(cuKernelGetFunction, cuKernelGetFunction, 12000),
    ROW(cuKernelGetLibrary, cuKernelGetLibrary, 12050),
    ROW(cuKernelGetName, cuKernelGetName, 12030),
    ROW(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040),
    ROW(cuKernelSetAttribute, cuKernelSetAttribute, 12000),
    ROW(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000),
    ROW(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000),
    ROW(cuLaunchHostFunc, cuLaunchHostFunc, 10000),
    ROW(cuLaunchKernel, cuLaunchKernel, 4000),
    ROW(cuLaunchKernelEx, cuLaunchKernelEx, 11060),
    ROW(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040),
    ROW(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000),
    ROW(cuLibraryGetKernel, cuLibraryGetKernel, 12000),
    ROW(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040),
    ROW(cuLibraryGetManaged, cuLibraryGetManaged, 12000),
    ROW(cuLibraryGetModule, cuLibraryGetModule, 12000),
    ROW(cuLibraryLoadData, cuLibraryLoadData, 12000),
    ROW(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000),
    ROW(cuLibraryUnload, cuLibraryUnload, 12000),
    ROW(cuLinkAddData, cuLinkAddData_v2, 6050),
    ROW(cuLinkAddFile, cuLinkAddFile_v2, 6050),
    ROW(cuLinkComplete, cuLinkComplete, 5050),
    ROW(cuLinkCreate, cuLinkCreate_v2, 6050),
    ROW(cuLinkDestroy, cuLinkDestroy, 5050),
    ROW(cuMemAddressFree, cuMemAddressFree, 10020),
    ROW(cuMemAddressReserve, cuMemAddressReserve, 10020),
    ROW(cuMemAdvise, cuMemAdvise_v2, 12020),
    ROW(cuMemAlloc, cuMemAlloc_v2, 3020),
    ROW(cuMemAllocAsync, cuMemAllocAsync, 11020),
    ROW(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020),
    ROW(cuMemAllocHost, cuMemAllocHost_v2, 3020),
    ROW(cuMemAllocManaged, cuMemAllocManaged, 6000),
    ROW(cuMemAllocPitch, cuMemAllocPitch_v2, 3020),
    ROW(cuMemCreate, cuMemCreate, 10020),
    ROW(cuMemFree, cuMemFree_v2, 3020),
    ROW(cuMemFreeAsync, cuMemFreeAsync, 11020),
    ROW(cuMemFreeHost, cuMemFreeHost, 2000),
    ROW(cuMemGetAccess, cuMemGetAccess, 10020),
    ROW(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020),
    ROW(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020),
    ROW(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020),
    ROW(cuMemGetInfo, cuMemGetInfo_v2, 3020),
    ROW(cuMemHostAlloc, cuMemHostAlloc, 2020),
    ROW(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020),
    ROW(cuMemHostGetFlags, cuMemHostGetFlags, 2030),
    ROW(cuMemHostRegister, cuMemHostRegister_v2, 6050),
    ROW(cuMemHostUnregister, cuMemHostUnregister, 4000),
    ROW(cuMemMap, cuMemMap, 10020),
    ROW(cuMemPoolCreate, cuMemPoolCreate, 11020),
    ROW(cuMemPoolDestroy, cuMemPoolDestroy, 11020),
    ROW(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020),
    ROW(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020),
    ROW(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020),
    ROW(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020),
    ROW(cuMemRelease, cuMemRelease, 10020),
    ROW(cuMemSetAccess, cuMemSetAccess, 10020),
    ROW(cuMemUnmap, cuMemUnmap, 10020),
    ROW(cuMemcpy, cuMemcpy, 4000),
    ROW(cuMemcpy2D, cuMemcpy2D_v2, 3020),
    ROW(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020),
    ROW(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 3020),
    ROW(cuMemcpy3D, cuMemcpy3D_v2, 3020),
    ROW(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020),
    ROW(cuMemcpyAsync, cuMemcpyAsync, 4000),
    ROW(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020),
    ROW(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020),
    ROW(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020),
    ROW(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020),
    ROW(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020),
    ROW(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020),
    ROW(cuMemcpyPeer, cuMemcpyPeer, 4000),
    ROW(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000),
    ROW(cuMemsetD16, cuMemsetD16_v2, 3020),
    ROW(cuMemsetD16Async, cuMemsetD16Async, 3020),
    ROW(cuMemsetD2D16, cuMemsetD2D16_v2, 3020),
    ROW(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020),
    ROW(cuMemsetD2D32, cuMemsetD2D32_v2, 3020),
    ROW(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020),
    ROW(cuMemsetD2D8, cuMemsetD2D8_v2, 3020),
    ROW(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020),
    ROW(cuMemsetD32, cuMemsetD32_v2, 3020),
    ROW(cuMemsetD32Async, cuMemsetD32Async, 3020),
    ROW(cuMemsetD8, cuMemsetD8_v2, 3020),
    ROW(cuMemsetD8Async, cuMemsetD8Async, 3020),
    ROW(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040),
    ROW(cuModuleGetFunction, cuModuleGetFunction, 2000),
    ROW(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040),
    ROW(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020),
    ROW(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070),
    ROW(cuModuleLoad, cuModuleLoad, 2000),
    ROW(cuModuleLoadData, cuModuleLoadData, 2000),
    ROW(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010),
    ROW(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000),
    ROW(cuModuleUnload, cuModuleUnload, 2000),
    ROW(cuMulticastCreate, cuMulticastCreate, 12010),
    ROW(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020),
    ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        7000),
    ROW(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070),
    ROW(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050),
    ROW(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000),
    ROW(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, 11070),
    ROW(cuPointerGetAttribute, cuPointerGetAttribute, 4000),
    ROW(cuPointerGetAttributes, cuPointerGetAttributes, 7000),
    ROW(cuStreamAddCallback, cuStreamAddCallback, 5000),
    ROW(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000),
    ROW(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010),
    ROW(cuStreamCopyAttributes, cuStreamCopyAttributes, 11000),
    ROW(cuStreamCreate, cuStreamCreate, 2000),
    ROW(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050),
    ROW(cuStreamDestroy, cuStreamDestroy_v2, 4000),
    ROW(cuStreamEndCapture, cuStreamEndCapture, 10000),
    ROW(cuStreamGetAttribute, cuStreamGetAttribute, 11000),
    ROW(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030),
    ROW(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030),
    ROW(cuStreamGetCtx, cuStreamGetCtx, 9020),
    ROW(cuStreamGetDevice, cuStreamGetDevice, 12080),
    ROW(cuStreamGetFlags, cuStreamGetFlags, 5050),
    ROW(cuStreamGetId, cuStreamGetId, 12000),
    ROW(cuStreamGetPriority, cuStreamGetPriority, 5050),
    ROW(cuStreamIsCapturing, cuStreamIsCapturing, 10000),
    ROW(cuStreamQuery, cuStreamQuery, 2000),
    ROW(cuStreamSetAttribute, cuStreamSetAttribute, 11000),
    ROW(cuStreamSynchronize, cuStreamSynchronize, 2000),
    ROW(cuStreamWaitEvent, cuStreamWaitEvent, 3020),
    ROW(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070),
    ROW(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070),
    ROW(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070),
    ROW(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070),
    ROW(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000),
    ROW(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000),
    ROW(cuTexObjectCreate, cuTexObjectCreate, 5000),
    ROW(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010),
};
#undef ROW
#pragma GCC diagnostic pop

// Null where there is none; *known tells a name that exists in a newer form only.
void* find_function(const char* symbol, int version, bool* known) {
    const Row* best = nullptr;
    *known = false;
    for (const Row& row : kRows) {
        if (std::strcmp(row.name, symbol) != 0) continue;
        *known = true;
        if (row.version <= version && (best == nullptr || row.version > best->version)) best = &row;
    }
    return best == nullptr ? nullptr : best->function;
}

}   // namespace
}   // namespace ptxemu

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                                CUdriverProcAddressQueryResult* status) {
    return guarded("cuGetProcAddress", [&] {
        require(symbol, "symbol");
        require(out, "pfn");
        if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
            fail(CUDA_ERROR_INVALID_VALUE, "unknown flags " + hex(flags));
        }
        bool known = false;
        *out = find_function(symbol, version, &known);
        if (*out == nullptr && !known) *out = const_cast<void*>(find_refused(symbol));
        if (status == nullptr) return;
        *status = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    });
}

// The first form of it says CUDA_ERROR_NOT_FOUND instead of a status.
PTXEMU_API CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
    const CUresult result = cuGetProcAddress_v2(symbol, out, version, flags, nullptr);
    return result == CUDA_SUCCESS && *out == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

// The last message that a failed call printed, for a caller that has no stderr to read: the empty string before the
// first failure. Valid until this thread calls it again.
PTXEMU_API const char* ptxemu_last_error(void) {
    thread_local std::string copy;
    const std::lock_guard lock(state().mutex);
    copy = state().last_error;
    return copy.c_str();
}

// SPDX-License-Identifier: Apache-2.0
// Memory pools, and functions that hosts ask for and that are refused by name. What a pool gave is released when it is
// freed, so a pool is no more than its attributes.
#include <map>
#include <memory>
#include <set>

#include "driver_state.h"

using namespace ptxemu;

namespace {

struct Pool {
    int reuse[3] = {1, 1, 1};   // CU_MEMPOOL_ATTR_REUSE_*, in their order
    cuuint64_t release_threshold = 0;
};
struct Pools {
    std::map<const void*, std::unique_ptr<Pool>> made;
    Pool* standard = new Pool;
    Pool* current = standard;
};
Pools& pools() {   // guarded by State::mutex
    static Pools& all = *new Pools;
    return all;
}

CUmemoryPool handle_of(Pool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

Pool& find_pool(CUmemoryPool handle) {
    Pools& all = pools();
    if (reinterpret_cast<Pool*>(handle) == all.standard) return *all.standard;
    const auto found = all.made.find(handle);
    if (found == all.made.end()) fail(CUDA_ERROR_INVALID_VALUE, "no memory pool has this handle");
    return *found->second;
}

void attribute(CUmemoryPool handle, CUmemPool_attribute which, void* value, bool set) {
    const Initialised call;
    require(value, "value");
    Pool& pool = find_pool(handle);
    const auto take = [&](auto& own) {
        auto* other = static_cast<std::remove_reference_t<decltype(own)>*>(value);
        if (set) own = *other;
        else *other = own;
    };
    switch (which) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return take(pool.reuse[0]);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return take(pool.reuse[1]);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return take(pool.reuse[2]);
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return take(pool.release_threshold);
        default:
            fail(CUDA_ERROR_NOT_SUPPORTED, "memory pool attribute " + std::to_string(which) + " is not supported");
    }
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
    return guarded("cuDeviceGetDefaultMemPool", [&] {
        const Initialised call;
        require(out, "pool_out");
        check_device(device);
        *out = handle_of(pools().standard);
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
    return guarded("cuDeviceGetMemPool", [&] {
        const Initialised call;
        require(out, "pool");
        check_device(device);
        *out = handle_of(pools().current);
    });
}
PTXEMU_API CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    return guarded("cuDeviceSetMemPool", [&] {
        const Initialised call;
        check_device(device);
        pools().current = &find_pool(pool);
    });
}
PTXEMU_API CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
    return guarded("cuMemPoolCreate", [&] {
        const Initialised call;
        require(out, "pool");
        require(properties, "poolProps");
        if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
            properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
            fail(CUDA_ERROR_NOT_SUPPORTED, "only pools of pinned device memory that is not exported are supported");
        }
        check_device(properties->location.id);
        auto pool = std::make_unique<Pool>();
        *out = handle_of(pool.get());
        const void* key = pool.get();
        pools().made.emplace(key, std::move(pool));
    });
}
PTXEMU_API CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
    return guarded("cuMemPoolDestroy", [&] {
        const Initialised call;
        Pool& pool = find_pool(handle);
        if (&pool == pools().standard) fail(CUDA_ERROR_INVALID_VALUE, "the default pool cannot be destroyed");
        if (&pool == pools().current) pools().current = pools().standard;
        pools().made.erase(handle);
    });
}
PTXEMU_API CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
    return guarded("cuMemPoolSetAttribute", [&] { attribute(pool, which, value, true); });
}
PTXEMU_API CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
    return guarded("cuMemPoolGetAttribute", [&] { attribute(pool, which, value, false); });
}
PTXEMU_API CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    return guarded("cuMemPoolTrimTo", [&] {
        const Initialised call;
        find_pool(pool);   // nothing is kept
    });
}
PTXEMU_API CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                                    CUstream stream) {
    const CUresult found = guarded("cuMemAllocFromPoolAsync", [&] {
        const Initialised call;
        find_pool(pool);
    });
    return found == CUDA_SUCCESS ? cuMemAllocAsync(out, bytes, stream) : found;
}

// ---- refused ----

#define LIDX_REFUSE(name, what, ...) \
    PTXEMU_API CUresult CUDAAPI name(__VA_ARGS__) { \
        return guarded(#name, [] { fail(CUDA_ERROR_NOT_SUPPORTED, what " not supported"); }); \
    }

LIDX_REFUSE(cuMulticastCreate, "multicast objects are", CUmemGenericAllocationHandle*, const CUmulticastObjectProp*)
LIDX_REFUSE(cuIpcGetMemHandle, "memory of several processes is", CUipcMemHandle*, CUdeviceptr)
LIDX_REFUSE(cuArrayCreate_v2, "arrays, textures and surfaces are", CUarray*, const CUDA_ARRAY_DESCRIPTOR*)
LIDX_REFUSE(cuTexObjectCreate, "arrays, textures and surfaces are", CUtexObject*, const CUDA_RESOURCE_DESC*,
            const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*)
LIDX_REFUSE(cuTensorMapEncodeIm2col, "the im2col modes are", CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
            const cuuint64_t*, const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill)

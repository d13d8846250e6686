// SPDX-License-Identifier: Apache-2.0
// Device and pinned host memory, copies, sets, pointer queries. A device address is a host address, so that a copy is a
// memmove, once its device side is known to lie inside one allocation.
#include <algorithm>
#include <cstring>

#include "driver_graph.h"

using namespace ptxemu;

namespace {

constexpr uint64_t kPitchBytes = 512;

uint8_t* bytes_at(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }

uint64_t allocate(State& s, Context& context, size_t bytes) {
    forbid_in_capture(s);
    if (bytes == 0) fail(CUDA_ERROR_INVALID_VALUE, "bytesize is 0");
    const uint64_t used = allocated_bytes(s);
    const uint64_t address =
        bytes > kDeviceMemoryBytes - std::min(used, kDeviceMemoryBytes) ? 0 : context.memory.allocate(bytes);
    if (address == 0) {
        fail(CUDA_ERROR_OUT_OF_MEMORY, std::to_string(bytes) + " bytes asked for, " + std::to_string(used) + " of " +
                                           std::to_string(kDeviceMemoryBytes) + " in use");
    }
    return address;
}

void release(State& s, uint64_t address) {
    forbid_in_capture(s);
    if (address == 0) return;
    Allocation allocation;
    Context* owner = owner_of(s, address, &allocation);
    if (owner == nullptr || owner->host_memory.count(address) != 0 || owner->module_memory.count(address) != 0 ||
        !owner->memory.release(address)) {
        fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " is not the start of a device allocation");
    }
    owner->managed.erase(address);
}

void copy(CUstream stream, uint64_t dst, bool dst_device, uint64_t src, bool src_device, size_t bytes) {
    Current call;
    CopyCall c;
    c.dst = dst, c.src = src;
    c.dst_device = dst_device, c.src_device = src_device;
    c.width = bytes;
    enqueue(call, stream, c);
}

template <class T>
void set_2d(CUstream stream, uint64_t dst, size_t pitch, T value, size_t width, size_t height) {
    Current call;
    enqueue(call, stream, SetCall{{dst, pitch, value, sizeof(T), width, height}});
}
template <class T>
void set(CUstream stream, uint64_t dst, T value, size_t count) {
    set_2d<T>(stream, dst, 0, value, count, 1);
}

// One side of a 2-D copy: where its first byte lies.
uint64_t side_2d(const State& s, CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t y,
                 size_t pitch, size_t width, size_t height, const char* what, bool* device_side) {
    if (pitch == 0) pitch = x + width;
    if (pitch < x || pitch - x < width) {
        fail(CUDA_ERROR_INVALID_VALUE,
             std::string(what) + ": pitch " + std::to_string(pitch) + " is smaller than its x offset plus the width");
    }
    if (pitch > kDeviceMemoryBytes || y > kDeviceMemoryBytes || height > kDeviceMemoryBytes ||
        (y + height) > kDeviceMemoryBytes / std::max<size_t>(pitch, 1)) {
        fail(CUDA_ERROR_INVALID_VALUE, std::string(what) + ": larger than device memory");
    }
    uint64_t base = 0;
    bool on_device = false;
    Allocation allocation;
    switch (type) {
        case CU_MEMORYTYPE_HOST: base = reinterpret_cast<uint64_t>(host); break;
        case CU_MEMORYTYPE_DEVICE:
            base = device;
            on_device = true;
            break;
        case CU_MEMORYTYPE_UNIFIED:
            base = device;
            on_device = owner_of(s, device, &allocation) != nullptr;
            break;
        default: fail(CUDA_ERROR_NOT_SUPPORTED, std::string(what) + ": arrays are not supported");
    }
    const uint64_t first = base + y * pitch + x;
    if (on_device) check_range(s, first, (height - 1) * pitch + width, what);
    if (base == 0) fail(CUDA_ERROR_INVALID_VALUE, std::string(what) + " is null");
    *device_side = on_device;
    return first;
}

void copy_2d(const CUDA_MEMCPY2D* p, CUstream stream) {
    Current call;
    check_stream(call.s, stream);
    require(p, "pCopy");
    if (p->WidthInBytes == 0 || p->Height == 0) return;
    CopyCall c;
    c.src = side_2d(call.s, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, p->srcPitch,
                    p->WidthInBytes, p->Height, "source", &c.src_device);
    c.dst = side_2d(call.s, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, p->dstPitch,
                    p->WidthInBytes, p->Height, "destination", &c.dst_device);
    c.width = p->WidthInBytes;
    c.height = p->Height;
    c.src_pitch = p->srcPitch != 0 ? p->srcPitch : p->srcXInBytes + p->WidthInBytes;
    c.dst_pitch = p->dstPitch != 0 ? p->dstPitch : p->dstXInBytes + p->WidthInBytes;
    enqueue(call, stream, c);
}

void allocate_host(void** out, size_t bytes, unsigned flags) {
    const Current call;
    require(out, "pp");
    constexpr unsigned kKnown = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if ((flags & ~kKnown) != 0) fail(CUDA_ERROR_INVALID_VALUE, "unknown flags " + hex(flags));
    const uint64_t address = allocate(call.s, *call.context, bytes);
    call.context->host_memory.insert(address);
    call.context->memory.mark_written(address, bytes);   // the host writes it without asking
    *out = bytes_at(address);
}

// True if it answered.
bool pointer_attribute(const State& s, void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    Allocation allocation;
    Context* owner = owner_of(s, pointer, &allocation);
    if (owner == nullptr) return false;
    const bool on_host = owner->host_memory.count(allocation.base) != 0;
    const auto put = [&](const auto& value) { std::memcpy(data, &value, sizeof value); };
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: put(reinterpret_cast<CUcontext>(owner)); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put(static_cast<unsigned>(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put(pointer); break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (!on_host && owner->managed.count(allocation.base) == 0) return false;
            put(pointer);
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: put(owner->managed.count(allocation.base) != 0); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put(0); break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(static_cast<CUdeviceptr>(allocation.base)); break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(static_cast<size_t>(allocation.bytes)); break;
        case CU_POINTER_ATTRIBUTE_MAPPED: put(true); break;
        default: fail(CUDA_ERROR_NOT_SUPPORTED, "pointer attribute " + std::to_string(attribute) + " is not supported");
    }
    return true;
}

uint64_t address_of(const void* host) { return reinterpret_cast<uint64_t>(host); }

}   // namespace

PTXEMU_API CUresult CUDAAPI cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    return guarded("cuMemGetInfo", [&] {
        const Current call;
        require(free_bytes, "free");
        require(total_bytes, "total");
        *free_bytes = kDeviceMemoryBytes - std::min(kDeviceMemoryBytes, allocated_bytes(call.s));
        *total_bytes = kDeviceMemoryBytes;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    return guarded("cuMemAlloc", [&] {
        const Current call;
        require(out, "dptr");
        *out = allocate(call.s, *call.context, bytes);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                                               unsigned int element) {
    return guarded("cuMemAllocPitch", [&] {
        const Current call;
        require(out, "dptr");
        require(pitch, "pPitch");
        if (element != 4 && element != 8 && element != 16) {
            fail(CUDA_ERROR_INVALID_VALUE, "ElementSizeBytes must be 4, 8 or 16, not " + std::to_string(element));
        }
        if (width == 0 || height == 0 || width > kDeviceMemoryBytes || height > kDeviceMemoryBytes / width) {
            fail(CUDA_ERROR_INVALID_VALUE, std::to_string(width) + " x " + std::to_string(height) + " bytes");
        }
        const size_t rounded = (width + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
        if (height > kDeviceMemoryBytes / rounded) fail(CUDA_ERROR_OUT_OF_MEMORY, "larger than device memory");
        *out = allocate(call.s, *call.context, rounded * height);
        *pitch = rounded;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
    return guarded("cuMemFree", [&] {
        const Current call;
        release(call.s, address);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
    return guarded("cuMemAllocAsync", [&] {
        const Current call;
        require(out, "dptr");
        forbid_in_capture(call.s, stream);   // allocation nodes are not supported
        *out = allocate(call.s, *call.context, bytes);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    return guarded("cuMemFreeAsync", [&] {
        const Current call;
        forbid_in_capture(call.s, stream);
        release(call.s, address);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
    return guarded("cuMemGetAddressRange", [&] {
        const Current call;
        const Allocation allocation = call.context->memory.find(address, 1);
        if (allocation.bytes == 0) fail(CUDA_ERROR_NOT_FOUND, hex(address) + " lies in no allocation");
        if (base != nullptr) *base = allocation.base;
        if (bytes != nullptr) *bytes = allocation.bytes;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAllocHost_v2(void** out, size_t bytes) {
    return guarded("cuMemAllocHost", [&] { allocate_host(out, bytes, 0); });
}

PTXEMU_API CUresult CUDAAPI cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
    return guarded("cuMemHostAlloc", [&] { allocate_host(out, bytes, flags); });
}

PTXEMU_API CUresult CUDAAPI cuMemFreeHost(void* pointer) {
    return guarded("cuMemFreeHost", [&] {
        const Current call;
        const uint64_t address = address_of(pointer);
        if (call.context->registered.count(address) != 0 || call.context->host_memory.erase(address) == 0) {
            fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " is not pinned host memory");
        }
        call.context->memory.release(address);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
    return guarded("cuMemHostGetDevicePointer", [&] {
        const Current call;
        require(out, "pdptr");
        if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
        const Allocation allocation = call.context->memory.find(address_of(pointer), 1);
        if (allocation.bytes == 0 || call.context->host_memory.count(allocation.base) == 0) {
            fail(CUDA_ERROR_INVALID_VALUE, hex(address_of(pointer)) + " is not pinned host memory");
        }
        *out = address_of(pointer);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
    return guarded("cuMemcpyHtoD", [&] { copy(nullptr, dst, true, address_of(src), false, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
    return guarded("cuMemcpyDtoH", [&] { copy(nullptr, address_of(dst), false, src, true, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    return guarded("cuMemcpyDtoD", [&] { copy(nullptr, dst, true, src, true, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
    return guarded("cuMemcpyHtoDAsync", [&] { copy(stream, dst, true, address_of(src), false, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return guarded("cuMemcpyDtoHAsync", [&] { copy(stream, address_of(dst), false, src, true, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return guarded("cuMemcpyDtoDAsync", [&] { copy(stream, dst, true, src, true, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
    return guarded("cuMemcpy2D", [&] { copy_2d(p, nullptr); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
    return guarded("cuMemcpy2DUnaligned", [&] { copy_2d(p, nullptr); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream stream) {
    return guarded("cuMemcpy2DAsync", [&] { copy_2d(p, stream); });
}

// Unified addresses: where each side lies says its allocation; what lies in none is host memory.
static void copy_unified(CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    bool to_device = false, from_device = false;
    {
        const Current call;
        Allocation allocation;
        to_device = owner_of(call.s, dst, &allocation) != nullptr;
        from_device = owner_of(call.s, src, &allocation) != nullptr;
    }
    copy(stream, dst, to_device, src, from_device, bytes);
}

PTXEMU_API CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    return guarded("cuMemcpy", [&] { copy_unified(nullptr, dst, src, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return guarded("cuMemcpyAsync", [&] { copy_unified(stream, dst, src, bytes); });
}

// There is one device, so peers are contexts of it.
PTXEMU_API CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes) {
    return guarded("cuMemcpyPeer", [&] { copy(nullptr, dst, true, src, true, bytes); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes,
                                              CUstream stream) {
    return guarded("cuMemcpyPeerAsync", [&] { copy(stream, dst, true, src, true, bytes); });
}

// Slice after slice: a slice is a 2-D copy whose pitch rows are srcHeight (dstHeight) apart.
static void copy_3d(const CUDA_MEMCPY3D* p, CUstream stream) {
    require(p, "pCopy");
    if (p->srcLOD != 0 || p->dstLOD != 0) fail(CUDA_ERROR_INVALID_VALUE, "srcLOD and dstLOD must be 0");
    CUDA_MEMCPY2D slice{};
    slice.srcXInBytes = p->srcXInBytes, slice.dstXInBytes = p->dstXInBytes;
    slice.srcMemoryType = p->srcMemoryType, slice.dstMemoryType = p->dstMemoryType;
    slice.srcHost = p->srcHost, slice.dstHost = p->dstHost;
    slice.srcDevice = p->srcDevice, slice.dstDevice = p->dstDevice;
    slice.srcPitch = p->srcPitch != 0 ? p->srcPitch : p->srcXInBytes + p->WidthInBytes;
    slice.dstPitch = p->dstPitch != 0 ? p->dstPitch : p->dstXInBytes + p->WidthInBytes;
    slice.WidthInBytes = p->WidthInBytes, slice.Height = p->Height;
    const size_t src_rows = p->srcHeight != 0 ? p->srcHeight : p->srcY + p->Height;
    const size_t dst_rows = p->dstHeight != 0 ? p->dstHeight : p->dstY + p->Height;
    for (size_t z = 0; z < p->Depth; ++z) {
        slice.srcY = (p->srcZ + z) * src_rows + p->srcY;
        slice.dstY = (p->dstZ + z) * dst_rows + p->dstY;
        copy_2d(&slice, stream);
    }
}

PTXEMU_API CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
    return guarded("cuMemcpy3D", [&] { copy_3d(p, nullptr); });
}

PTXEMU_API CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream stream) {
    return guarded("cuMemcpy3DAsync", [&] { copy_3d(p, stream); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
    return guarded("cuMemsetD8", [&] { set<uint8_t>(nullptr, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count) {
    return guarded("cuMemsetD16", [&] { set<uint16_t>(nullptr, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t count) {
    return guarded("cuMemsetD32", [&] { set<uint32_t>(nullptr, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
    return guarded("cuMemsetD8Async", [&] { set<uint8_t>(stream, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
    return guarded("cuMemsetD16Async", [&] { set<uint16_t>(stream, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
    return guarded("cuMemsetD32Async", [&] { set<uint32_t>(stream, dst, value, count); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                                            size_t height) {
    return guarded("cuMemsetD2D8", [&] { set_2d<uint8_t>(nullptr, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                                             size_t height) {
    return guarded("cuMemsetD2D32", [&] { set_2d<uint32_t>(nullptr, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                                             size_t height) {
    return guarded("cuMemsetD2D16", [&] { set_2d<uint16_t>(nullptr, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                                              size_t height, CUstream stream) {
    return guarded("cuMemsetD2D8Async", [&] { set_2d<uint8_t>(stream, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                                               size_t height, CUstream stream) {
    return guarded("cuMemsetD2D16Async", [&] { set_2d<uint16_t>(stream, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                                               size_t height, CUstream stream) {
    return guarded("cuMemsetD2D32Async", [&] { set_2d<uint32_t>(stream, dst, pitch, value, width, height); });
}

PTXEMU_API CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    return guarded("cuPointerGetAttribute", [&] {
        const Initialised call;
        require(data, "data");
        // Asking about a pointer that CUDA does not know is how callers tell; no message.
        if (!pointer_attribute(call.s, data, attribute, pointer)) fail(CUDA_ERROR_INVALID_VALUE);
    });
}

PTXEMU_API CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                                   CUdeviceptr pointer) {
    return guarded("cuPointerGetAttributes", [&] {
        const Initialised call;
        require(attributes, "attributes");
        require(data, "data");
        for (unsigned i = 0; i < count; ++i) {
            require(data[i], "data[i]");
            if (pointer_attribute(call.s, data[i], attributes[i], pointer)) continue;
            // Unknown pointers give zeros here, and success.
            if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
                const int value = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? -2 : 0;
                std::memcpy(data[i], &value, sizeof value);
            } else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED) {
                const bool value = false;
                std::memcpy(data[i], &value, sizeof value);
            } else {
                const uint64_t value = 0;
                std::memcpy(data[i], &value, sizeof value);
            }
        }
    });
}

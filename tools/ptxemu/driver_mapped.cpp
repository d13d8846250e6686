// SPDX-License-Identifier: Apache-2.0
// Memory that host and device share (managed, registered), and virtual memory management: physical memory is a memfd,
// an address range is reserved without access, mapping puts the one into the other.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "driver_state.h"

using namespace ptxemu;

namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20;

struct Physical {
    int file = -1;
    size_t bytes = 0;
    int uses = 1;   // the handle, and each mapping
    CUmemAllocationProp properties{};
    ~Physical() {
        if (file >= 0) close(file);
    }
};
struct Mapping {
    size_t bytes = 0;
    Physical* physical = nullptr;
    bool accessible = false;
};
struct Reserved {
    size_t bytes = 0;
    Context* context = nullptr;            // in whose memory its accessible parts are
    uint64_t context_id = 0;
    std::map<uint64_t, Mapping> mappings;
    std::vector<uint64_t> adopted;         // bases of its parts in the context's memory
};
struct Mapped {
    std::map<CUmemGenericAllocationHandle, std::unique_ptr<Physical>> physical;
    std::map<uint64_t, Reserved> reserved;
};
Mapped& mapped() {   // guarded by State::mutex
    static Mapped& all = *new Mapped;
    return all;
}

void check_granular(const char* name, uint64_t value) {
    if (value == 0 || value % kGranularity != 0) {
        fail(CUDA_ERROR_INVALID_VALUE,
             std::string(name) + " = " + hex(value) + " is not a positive multiple of " + hex(kGranularity));
    }
}

Physical& find_physical(CUmemGenericAllocationHandle handle) {
    const auto found = mapped().physical.find(handle);
    if (found == mapped().physical.end()) fail(CUDA_ERROR_INVALID_VALUE, "no physical memory has this handle");
    return *found->second;
}

void drop(Physical& physical) {
    if (--physical.uses == 0) mapped().physical.erase(reinterpret_cast<CUmemGenericAllocationHandle>(&physical));
}

Reserved& find_reserved(uint64_t address, size_t bytes, uint64_t* base = nullptr) {
    auto after = mapped().reserved.upper_bound(address);
    if (after == mapped().reserved.begin()) fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " is not reserved");
    --after;
    if (address - after->first > after->second.bytes || bytes > after->second.bytes - (address - after->first))
        fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " of " + std::to_string(bytes) + " bytes is not reserved");
    if (base != nullptr) *base = after->first;
    return after->second;
}

// Neighbouring accessible mappings are one allocation of the context.
void adopt_parts(State& s, Reserved& range, Context* current) {
    const auto alive = s.contexts.find(range.context);
    const bool valid = alive != s.contexts.end() && alive->second->id == range.context_id;
    for (const uint64_t base : range.adopted) {
        if (!valid) break;
        range.context->memory.release(base);
        range.context->module_memory.erase(base);
    }
    range.adopted.clear();
    if (!valid) {
        range.context = current;
        range.context_id = current->id;
    }
    for (auto at = range.mappings.begin(); at != range.mappings.end();) {
        if (!at->second.accessible) {
            ++at;
            continue;
        }
        const uint64_t base = at->first;
        uint64_t end = base;
        for (; at != range.mappings.end() && at->first == end && at->second.accessible; ++at) end += at->second.bytes;
        if (!range.context->memory.adopt(base, end - base)) fail(CUDA_ERROR_INVALID_VALUE, "the range is in use");
        range.context->module_memory.insert(base);
        range.adopted.push_back(base);
    }
}

void check_properties(const CUmemAllocationProp* properties) {
    require(properties, "prop");
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) fail(CUDA_ERROR_INVALID_VALUE, "type must be pinned");
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        fail(CUDA_ERROR_NOT_SUPPORTED, "only memory of the device is supported");
    check_device(properties->location.id);
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
    return guarded("cuMemAllocManaged", [&] {
        const Current call;
        require(out, "dptr");
        if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
            fail(CUDA_ERROR_INVALID_VALUE, "flags must be CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST");
        if (bytes == 0) fail(CUDA_ERROR_INVALID_VALUE, "bytesize is 0");
        const uint64_t address = call.context->memory.allocate(bytes);
        if (address == 0) fail(CUDA_ERROR_OUT_OF_MEMORY, std::to_string(bytes) + " bytes asked for");
        call.context->managed.insert(address);
        call.context->memory.mark_written(address, bytes);   // the host writes it without asking
        *out = address;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
    return guarded("cuMemHostRegister", [&] {
        const Current call;
        require(pointer, "p");
        constexpr unsigned kKnown =
            CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
        if ((flags & ~kKnown) != 0) fail(CUDA_ERROR_INVALID_VALUE, "unknown flags " + hex(flags));
        const auto address = reinterpret_cast<uint64_t>(pointer);
        if (bytes == 0) fail(CUDA_ERROR_INVALID_VALUE, "bytesize is 0");
        Allocation allocation;
        if (owner_of(call.s, address, &allocation) != nullptr || !call.context->memory.adopt(address, bytes))
            fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, hex(address) + " is registered or allocated already");
        call.context->host_memory.insert(address);
        call.context->registered.insert(address);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemHostUnregister(void* pointer) {
    return guarded("cuMemHostUnregister", [&] {
        const Current call;
        const auto address = reinterpret_cast<uint64_t>(pointer);
        if (call.context->registered.erase(address) == 0)
            fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, hex(address) + " is not registered");
        call.context->host_memory.erase(address);
        call.context->memory.release(address);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemHostGetFlags(unsigned int* flags, void* pointer) {
    return guarded("cuMemHostGetFlags", [&] {
        const Current call;
        require(flags, "pFlags");
        const auto allocation = call.context->memory.find(reinterpret_cast<uint64_t>(pointer), 1);
        if (allocation.bytes == 0 || call.context->host_memory.count(allocation.base) == 0)
            fail(CUDA_ERROR_INVALID_VALUE, "p is not pinned host memory");
        *flags = CU_MEMHOSTALLOC_DEVICEMAP;
    });
}

// Managed memory is where host and device both find it: there is nothing to move.
PTXEMU_API CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation, unsigned int,
                                                  CUstream stream) {
    return guarded("cuMemPrefetchAsync", [&] {
        const Current call;
        check_stream(call.s, stream);
        check_range(call.s, address, bytes, "devPtr");
    });
}
PTXEMU_API CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
    return guarded("cuMemAdvise", [&] {
        const Current call;
        check_range(call.s, address, bytes, "devPtr");
    });
}
PTXEMU_API CUresult CUDAAPI cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t, unsigned int) {
    return guarded("cuStreamAttachMemAsync", [&] {
        const Current call;
        check_stream(call.s, stream);
        check_range(call.s, address, 1, "dptr");
    });
}

PTXEMU_API CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                                          CUmemAllocationGranularity_flags) {
    return guarded("cuMemGetAllocationGranularity", [&] {
        const Initialised call;
        require(bytes, "granularity");
        check_properties(properties);
        *bytes = kGranularity;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                                                unsigned long long flags) {
    return guarded("cuMemAddressReserve", [&] {
        const Initialised call;
        require(out, "ptr");
        check_granular("size", bytes);
        if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
        if (alignment != 0 && (alignment & (alignment - 1)) != 0)
            fail(CUDA_ERROR_INVALID_VALUE, "alignment = " + std::to_string(alignment) + " is no power of two");
        const uint64_t align = std::max<uint64_t>(alignment, kGranularity);
        void* area = mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY, std::to_string(bytes) + " bytes of addresses");
        const uint64_t first = reinterpret_cast<uint64_t>(area), base = (first + align - 1) / align * align;
        if (base != first) munmap(area, base - first);
        if (base + bytes != first + bytes + align)
            munmap(reinterpret_cast<void*>(base + bytes), first + align - base);
        mapped().reserved[base].bytes = bytes;
        *out = base;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    return guarded("cuMemAddressFree", [&] {
        const Initialised call;
        const auto found = mapped().reserved.find(address);
        if (found == mapped().reserved.end() || found->second.bytes != bytes)
            fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " of " + std::to_string(bytes) + " bytes is no reservation");
        if (!found->second.mappings.empty()) fail(CUDA_ERROR_INVALID_VALUE, "memory is still mapped there");
        munmap(reinterpret_cast<void*>(address), bytes);
        mapped().reserved.erase(found);
    });
}

PTXEMU_API CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                                        const CUmemAllocationProp* properties, unsigned long long flags) {
    return guarded("cuMemCreate", [&] {
        const Initialised call;
        require(out, "handle");
        check_properties(properties);
        check_granular("size", bytes);
        if (flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
        auto physical = std::make_unique<Physical>();
        physical->file = memfd_create("ptxemu", MFD_CLOEXEC);
        if (physical->file < 0 || bytes > kDeviceMemoryBytes ||
            ftruncate(physical->file, static_cast<off_t>(bytes)) != 0)
            fail(CUDA_ERROR_OUT_OF_MEMORY, std::to_string(bytes) + " bytes asked for");
        physical->bytes = bytes;
        physical->properties = *properties;
        *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical.get());
        mapped().physical.emplace(*out, std::move(physical));
    });
}

PTXEMU_API CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
    return guarded("cuMemRelease", [&] {
        const Initialised call;
        drop(find_physical(handle));
    });
}

PTXEMU_API CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                                   CUmemGenericAllocationHandle handle) {
    return guarded("cuMemGetAllocationPropertiesFromHandle", [&] {
        const Initialised call;
        require(properties, "prop");
        *properties = find_physical(handle).properties;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                     CUmemGenericAllocationHandle handle, unsigned long long flags) {
    return guarded("cuMemMap", [&] {
        const Initialised call;
        Physical& physical = find_physical(handle);
        check_granular("size", bytes);
        if (address % kGranularity != 0) fail(CUDA_ERROR_INVALID_VALUE, "ptr = " + hex(address) + " is not aligned");
        if (offset != 0 || flags != 0) fail(CUDA_ERROR_INVALID_VALUE, "offset and flags must be 0");
        if (bytes > physical.bytes)
            fail(CUDA_ERROR_INVALID_VALUE, "size = " + std::to_string(bytes) + ", the memory has " +
                                               std::to_string(physical.bytes) + " bytes");
        Reserved& range = find_reserved(address, bytes);
        const auto next = range.mappings.lower_bound(address);
        if (next != range.mappings.end() && next->first - address < bytes)
            fail(CUDA_ERROR_INVALID_VALUE, "memory is mapped there already");
        if (next != range.mappings.begin()) {
            const auto before = std::prev(next);
            if (address - before->first < before->second.bytes)
                fail(CUDA_ERROR_INVALID_VALUE, "memory is mapped there already");
        }
        void* at = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical.file, 0);
        if (at == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY, "the memory cannot be mapped");
        range.mappings[address] = {bytes, &physical, false};
        ++physical.uses;
    });
}

PTXEMU_API CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
    return guarded("cuMemUnmap", [&] {
        const Current call;
        Reserved& range = find_reserved(address, bytes);
        uint64_t end = address;
        for (auto at = range.mappings.find(address);
             at != range.mappings.end() && at->first == end && end < address + bytes; ++at)
            end += at->second.bytes;
        if (end != address + bytes || bytes == 0)
            fail(CUDA_ERROR_INVALID_VALUE,
                 hex(address) + " of " + std::to_string(bytes) + " bytes is no whole mapping");
        mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        for (auto at = range.mappings.find(address); at != range.mappings.end() && at->first < end;) {
            drop(*at->second.physical);
            at = range.mappings.erase(at);
        }
        adopt_parts(call.s, range, call.context.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* wanted,
                                           size_t count) {
    return guarded("cuMemSetAccess", [&] {
        const Current call;
        require(wanted, "desc");
        Reserved& range = find_reserved(address, bytes);
        for (size_t i = 0; i < count; ++i) {
            if (wanted[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;   // the host may read it anyway
            check_device(wanted[i].location.id);
            const bool writes = wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            const bool reads = writes || wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
            uint64_t end = address;
            for (auto at = range.mappings.find(address);
                 at != range.mappings.end() && at->first == end && end < address + bytes; ++at) {
                at->second.accessible = reads;
                end += at->second.bytes;
            }
            if (end != address + bytes) fail(CUDA_ERROR_INVALID_VALUE, "the range is not wholly mapped");
            mprotect(reinterpret_cast<void*>(address), bytes,
                     writes ? PROT_READ | PROT_WRITE : reads ? PROT_READ : PROT_NONE);
        }
        adopt_parts(call.s, range, call.context.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                           CUdeviceptr address) {
    return guarded("cuMemGetAccess", [&] {
        const Initialised call;
        require(flags, "flags");
        require(location, "location");
        const Reserved& range = find_reserved(address, 1);
        auto at = range.mappings.upper_bound(address);
        const bool there = at != range.mappings.begin() && (--at, address - at->first < at->second.bytes);
        if (!there) fail(CUDA_ERROR_INVALID_VALUE, hex(address) + " is not mapped");
        *flags = at->second.accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

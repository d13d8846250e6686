// SPDX-License-Identifier: Apache-2.0
// Device global memory: a device address is the host address of the same byte, so that copies are memcpy; every
// access of a kernel is checked against the table of live allocations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace ptxemu {

struct Allocation {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint8_t* written = nullptr;   // a bit per byte, set where somebody wrote it; null: not tracked
    bool contains(uint64_t address, uint64_t length) const {
        return address >= base && length <= bytes && address - base <= bytes - length;
    }
};

class GlobalMemory {
  public:
    // New allocations up to this size are filled with a poison pattern, larger ones read as zero until written.
    static constexpr uint64_t kMaxPoisonedBytes = uint64_t{64} << 20;

    GlobalMemory() = default;
    ~GlobalMemory();
    GlobalMemory(const GlobalMemory&) = delete;
    GlobalMemory& operator=(const GlobalMemory&) = delete;

    // 0 when memory ran out. Addresses are 512-byte aligned (as cuMemAlloc's are at least 256), with unmapped guard
    // pages on both sides, the end of the allocation as close to the upper one as the alignment allows; untouched pages
    // cost nothing.
    uint64_t allocate(uint64_t bytes);
    // Takes memory that is mapped already, and stays so after its release; false: it overlaps a live allocation. Its
    // bytes count as written.
    bool adopt(uint64_t base, uint64_t bytes);
    bool release(uint64_t base);                       // false: not the base of a live allocation
    // The allocation that holds [address, address + length), or a zero-sized one. Thread safe.
    Allocation find(uint64_t address, uint64_t length) const;
    // Names an allocation, for messages.
    void label(uint64_t base, const std::string& text);
    // The live allocation that holds the address or is the least away from it, with its label; a zero-sized one: none.
    Allocation nearest(uint64_t address, std::string* label) const;
    uint64_t allocated_bytes() const;

    // While one lives, memory that is released stays readable and writable: a kernel may be using it.
    class InUse {
      public:
        explicit InUse(GlobalMemory& memory);
        ~InUse();
        InUse(const InUse&) = delete;
        InUse& operator=(const InUse&) = delete;

      private:
        GlobalMemory& memory_;
    };

    // New allocations remember which of their bytes were written (PTXEMU_CHECK=1). The host says so with mark_written;
    // bytes that are in no allocation, or in one that is not tracked, are ignored.
    void track_writes() { tracks_writes_ = true; }
    void mark_written(uint64_t address, uint64_t bytes);
    // A copy within device memory: the destination is as written as the source.
    void copy_written(uint64_t dst, uint64_t src, uint64_t bytes);

  private:
    struct Block {
        uint64_t bytes;
        void* mapping;
        uint64_t mapping_bytes;
        uint8_t* written;
        uint64_t written_bytes;
        std::string label;
    };
    mutable std::shared_mutex mutex_;
    static void unmap(const Block& block);
    std::map<uint64_t, Block> blocks_;
    std::map<uint64_t, Block> released_;   // while in use
    int users_ = 0;
    uint64_t total_ = 0;
    bool tracks_writes_ = false;
};

// Of the bytes [offset, offset + bytes) of an allocation: sets their bits; are all set?; out[i] = 0xff where not set.
void set_written(uint8_t* written, uint64_t offset, uint64_t bytes);
bool all_written(const uint8_t* written, uint64_t offset, uint64_t bytes);
void unwritten_bytes(const uint8_t* written, uint64_t offset, uint64_t bytes, uint8_t* out);

}  // namespace ptxemu

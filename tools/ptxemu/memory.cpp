// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace ptxemu {
namespace {

constexpr uint64_t kAlign = 512;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

// New memory holds what a kernel must not rely on: as fp32 and as the top byte's e4m3 code a NaN, as int32 a page id
// beyond any pool, as two words an address that cannot exist. Larger allocations stay untouched, for sparse use.
constexpr uint32_t kPoison = 0x7ff7c0deu;

uint64_t page_bytes() {
    static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

}   // namespace

GlobalMemory::~GlobalMemory() {
    for (const auto& [base, block] : blocks_) munmap(block.mapping, block.mapping_bytes);
}

uint64_t GlobalMemory::allocate(uint64_t bytes) {
    if (bytes == 0 || bytes > kMaxBytes) return 0;
    const uint64_t page = page_bytes();
    const uint64_t body = (bytes + kAlign + page - 1) / page * page;
    const uint64_t mapping_bytes = body + 2 * page;
    void* mapping = mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return 0;
    const uint64_t low = reinterpret_cast<uint64_t>(mapping) + page;
    if (mprotect(reinterpret_cast<void*>(low), body, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, mapping_bytes);
        return 0;
    }
    const uint64_t base = (low + body - bytes) / kAlign * kAlign;
    if (bytes <= kMaxPoisonedBytes) {
        auto* words = reinterpret_cast<uint32_t*>(base);
        std::fill(words, words + (low + body - base) / sizeof(uint32_t), kPoison);
    }
    const std::unique_lock lock(mutex_);
    blocks_.emplace(base, Block{bytes, mapping, mapping_bytes});
    total_ += bytes;
    return base;
}

bool GlobalMemory::release(uint64_t base) {
    const std::unique_lock lock(mutex_);
    const auto found = blocks_.find(base);
    if (found == blocks_.end()) return false;
    total_ -= found->second.bytes;
    munmap(found->second.mapping, found->second.mapping_bytes);
    blocks_.erase(found);
    return true;
}

Allocation GlobalMemory::find(uint64_t address, uint64_t length) const {
    const std::shared_lock lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return {};
    --after;
    const Allocation allocation{after->first, after->second.bytes};
    return allocation.contains(address, length) ? allocation : Allocation{};
}

uint64_t GlobalMemory::allocated_bytes() const {
    const std::shared_lock lock(mutex_);
    return total_;
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <vector>

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

void GlobalMemory::unmap(const Block& block) {
    if (block.mapping != nullptr) munmap(block.mapping, block.mapping_bytes);
    if (block.written != nullptr) munmap(block.written, block.written_bytes);
}

GlobalMemory::~GlobalMemory() {
    for (const auto* blocks : {&blocks_, &released_})
        for (const auto& [base, block] : *blocks) unmap(block);
}

GlobalMemory::InUse::InUse(GlobalMemory& memory) : memory_(memory) {
    const std::unique_lock lock(memory_.mutex_);
    ++memory_.users_;
}

GlobalMemory::InUse::~InUse() {
    const std::unique_lock lock(memory_.mutex_);
    if (--memory_.users_ != 0) return;
    for (const auto& [base, block] : memory_.released_) unmap(block);
    memory_.released_.clear();
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
    Block block{bytes, mapping, mapping_bytes, nullptr, 0, {}};
    if (tracks_writes_) {   // a page of it costs nothing until a byte that it stands for is written
        block.written_bytes = (bytes + 7) / 8;
        void* bits = mmap(nullptr, block.written_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bits == MAP_FAILED) {
            munmap(mapping, mapping_bytes);
            return 0;
        }
        block.written = static_cast<uint8_t*>(bits);
    }
    const std::unique_lock lock(mutex_);
    blocks_.emplace(base, block);
    total_ += bytes;
    return base;
}

bool GlobalMemory::adopt(uint64_t base, uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    const auto after = blocks_.lower_bound(base);
    if (bytes == 0 || (after != blocks_.end() && after->first - base < bytes)) return false;
    if (after != blocks_.begin() && base - std::prev(after)->first < std::prev(after)->second.bytes) return false;
    blocks_.emplace(base, Block{bytes, nullptr, 0, nullptr, 0, {}});
    total_ += bytes;
    return true;
}

bool GlobalMemory::release(uint64_t base) {
    const std::unique_lock lock(mutex_);
    const auto found = blocks_.find(base);
    if (found == blocks_.end()) return false;
    total_ -= found->second.bytes;
    if (users_ != 0) released_.insert(*found);
    else unmap(found->second);
    blocks_.erase(found);
    return true;
}

Allocation GlobalMemory::find(uint64_t address, uint64_t length) const {
    const std::shared_lock lock(mutex_);
    for (const auto* blocks : {&blocks_, &released_}) {
        auto after = blocks->upper_bound(address);
        if (after == blocks->begin()) continue;
        --after;
        const Allocation allocation{after->first, after->second.bytes, after->second.written};
        if (allocation.contains(address, length)) return allocation;
    }
    return {};
}

void GlobalMemory::label(uint64_t base, const std::string& text) {
    const std::unique_lock lock(mutex_);
    if (const auto found = blocks_.find(base); found != blocks_.end()) found->second.label = text;
}

Allocation GlobalMemory::nearest(uint64_t address, std::string* label) const {
    const std::shared_lock lock(mutex_);
    auto found = blocks_.upper_bound(address);
    if (found == blocks_.end() && found == blocks_.begin()) return {};
    if (found != blocks_.begin()) {
        const auto below = std::prev(found);
        const uint64_t offset = address - below->first;
        const uint64_t behind = offset - std::min(offset, below->second.bytes);
        if (found == blocks_.end() || behind <= found->first - address) found = below;
    }
    *label = found->second.label;
    return {found->first, found->second.bytes, found->second.written};
}

void GlobalMemory::mark_written(uint64_t address, uint64_t bytes) {
    const Allocation a = find(address, bytes);
    if (a.written != nullptr) set_written(a.written, address - a.base, bytes);
}

void GlobalMemory::copy_written(uint64_t dst, uint64_t src, uint64_t bytes) {
    const Allocation to = find(dst, bytes), from = find(src, bytes);
    if (to.written == nullptr) return;
    if (from.written == nullptr || all_written(from.written, src - from.base, bytes)) {
        set_written(to.written, dst - to.base, bytes);
        return;
    }
    // The two may overlap: read the source's bits first.
    std::vector<bool> set(bytes);
    for (uint64_t i = 0; i < bytes; ++i) {
        const uint64_t at = src - from.base + i;
        set[i] = from.written[at / 8] >> (at & 7) & 1;
    }
    for (uint64_t i = 0; i < bytes; ++i) {
        const uint64_t at = dst - to.base + i;
        const auto bit = static_cast<uint8_t>(1u << (at & 7));
        to.written[at / 8] = static_cast<uint8_t>(set[i] ? to.written[at / 8] | bit : to.written[at / 8] & ~bit);
    }
}

void set_written(uint8_t* written, uint64_t offset, uint64_t bytes) {
    // CTAs of several host threads write neighbouring bytes.
    auto add = [written](uint64_t at, uint32_t bits) {
        uint8_t* p = written + at;
        if ((__atomic_load_n(p, __ATOMIC_RELAXED) & bits) != bits)
            __atomic_fetch_or(p, static_cast<uint8_t>(bits), __ATOMIC_RELAXED);
    };
    if (bytes == 0) return;
    const uint64_t end = offset + bytes, first = offset / 8, last = end / 8;
    const uint32_t head = 0xffu << (offset & 7) & 0xff, tail = (1u << (end & 7)) - 1;
    if (first == last) return add(first, head & tail);
    add(first, head);
    if (last - first > 1) std::memset(written + first + 1, 0xff, last - first - 1);
    if (tail != 0) add(last, tail);
}

bool all_written(const uint8_t* written, uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return true;
    const uint64_t end = offset + bytes, first = offset / 8, last = end / 8;
    const uint32_t head = 0xffu << (offset & 7) & 0xff, tail = (1u << (end & 7)) - 1;
    if (first == last) return (written[first] & head & tail) == (head & tail);
    if ((written[first] & head) != head || (tail != 0 && (written[last] & tail) != tail)) return false;
    for (uint64_t i = first + 1; i < last; ++i)
        if (written[i] != 0xff) return false;
    return true;
}

void unwritten_bytes(const uint8_t* written, uint64_t offset, uint64_t bytes, uint8_t* out) {
    for (uint64_t i = 0; i < bytes; ++i) {
        const uint64_t at = offset + i;
        out[i] = written[at / 8] >> (at & 7) & 1 ? 0 : 0xff;
    }
}

uint64_t GlobalMemory::allocated_bytes() const {
    const std::shared_lock lock(mutex_);
    return total_;
}

}   // namespace ptxemu

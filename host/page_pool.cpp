// SPDX-License-Identifier: Apache-2.0
#include "host/page_pool.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "host/field_checks.h"
#include "host/status.h"

namespace lidx {

const PagePool::Sequence& PagePool::at(int64_t sequence) const {
    const auto index = static_cast<uint64_t>(sequence) & 0xffffffffu;
    const auto generation = static_cast<uint32_t>(static_cast<uint64_t>(sequence) >> 32);
    if (index >= sequences_.size() || !sequences_[index].live || sequences_[index].generation != generation)
        fail(LIDX_ERR_VALUE, equals("sequence", sequence) + ": no such sequence lives in this cache");
    return sequences_[index];
}

int64_t PagePool::add() {
    if (vacant_.empty()) {
        sequences_.emplace_back();
        if (vacant_.capacity() < sequences_.size()) vacant_.reserve(sequences_.capacity());
        vacant_.push_back(static_cast<uint32_t>(sequences_.size() - 1));
    }
    const uint32_t index = vacant_.back();
    vacant_.pop_back();
    Sequence& sequence = sequences_[index];
    ++sequence.generation;   // from 1: 0 names no sequence
    sequence.live = true;
    sequence.length = 0;
    return static_cast<int64_t>(uint64_t{sequence.generation} << 32 | index);
}

int64_t PagePool::fork(int64_t parent) {
    std::vector<int32_t> pages = at(parent).pages;
    const int64_t child = add();   // may move the parent
    for (const int32_t page : pages) ++owners_[static_cast<size_t>(page)];
    at(child).pages = std::move(pages);
    at(child).length = at(parent).length;
    return child;
}

void PagePool::release(int32_t page) noexcept {
    if (--owners_[static_cast<size_t>(page)] == 0) returned_.push_back(page);
}

void PagePool::free(int64_t sequence) {
    Sequence& gone = at(sequence);
    for (const int32_t page : gone.pages) release(page);
    gone.pages = {};
    gone.live = false;
    vacant_.push_back(static_cast<uint32_t>(static_cast<uint64_t>(sequence) & 0xffffffffu));
}

void PagePool::truncate(int64_t sequence, int64_t length) {
    Sequence& cut = at(sequence);
    require_range("length", length, 0, cut.length);
    while (static_cast<int64_t>(cut.pages.size()) > pages_for(length)) {
        release(cut.pages.back());
        cut.pages.pop_back();
    }
    cut.length = length;
}

PagePool::Extension PagePool::prepare(std::span<const int64_t> sequences, std::span<const int32_t> tokens) {
    Extension extension;
    std::unordered_set<int64_t> seen;
    std::unordered_map<int32_t, int32_t> left;   // owners of a shared page that copies of this call leave behind
    int64_t needed = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
        const std::string here = "[" + std::to_string(i) + "]";
        const Sequence& sequence = at(sequences[i]);
        if (!seen.insert(sequences[i]).second)
            fail(LIDX_ERR_VALUE, equals(("sequences" + here).c_str(), sequences[i]) + ": named twice");
        require_range(("tokens" + here).c_str(), tokens[i], 0, kMaxInt32 - sequence.length);
        Growth growth{static_cast<uint32_t>(static_cast<uint64_t>(sequences[i]) & 0xffffffffu), tokens[i], {}};
        const auto used = static_cast<int32_t>(sequence.length % page_size_);
        if (tokens[i] > 0 && used > 0) {
            const int32_t last = sequence.pages.back();
            const auto found = left.try_emplace(last, owners(last)).first;
            if (found->second > 1) {   // the last of several writers keeps the page
                --found->second;
                growth.copy = {last, 0, used};
                ++needed;
            }
        }
        needed += pages_for(sequence.length + tokens[i]) - static_cast<int64_t>(sequence.pages.size());
        extension.growths.push_back(growth);
    }
    const int64_t available = free_pages();
    if (needed > available)
        fail(LIDX_ERR_NO_PAGES, "the call needs " + std::to_string(needed) + " pages, " + std::to_string(available) +
                                    " of " + std::to_string(num_pages_) + " are free");

    for (int64_t i = 0; i < needed; ++i) {
        const auto returned = static_cast<int64_t>(returned_.size());
        extension.pages.push_back(i < returned
                                      ? returned_[static_cast<size_t>(returned - 1 - i)]
                                      : static_cast<int32_t>(static_cast<int64_t>(owners_.size()) + i - returned));
    }
    size_t next = 0;
    for (Growth& growth : extension.growths) {
        const Sequence& sequence = sequences_[growth.index];
        if (growth.copy.used > 0) growth.copy.to = extension.pages[next++];
        next += static_cast<size_t>(pages_for(sequence.length + growth.tokens)) - sequence.pages.size();
    }
    // Room for what commit() does.
    for (const Growth& growth : extension.growths) {
        Sequence& sequence = sequences_[growth.index];
        const auto total = static_cast<size_t>(pages_for(sequence.length + growth.tokens));
        if (total > sequence.pages.capacity()) sequence.pages.reserve(std::max(total, 2 * sequence.pages.capacity()));
    }
    const size_t most = owners_.size() + extension.pages.size();
    if (most > owners_.capacity()) owners_.reserve(std::max(most, 2 * owners_.capacity()));
    if (owners_.capacity() > returned_.capacity()) returned_.reserve(owners_.capacity());
    return extension;
}

void PagePool::commit(const Extension& extension) noexcept {
    size_t next = 0;
    const auto take = [&] {
        const int32_t page = extension.pages[next++];
        if (static_cast<size_t>(page) < owners_.size()) {
            returned_.pop_back();
            owners_[static_cast<size_t>(page)] = 1;
        } else {
            owners_.push_back(1);
        }
        return page;
    };
    for (const Growth& growth : extension.growths) {
        Sequence& sequence = sequences_[growth.index];
        if (growth.copy.used > 0) {
            --owners_[static_cast<size_t>(growth.copy.from)];   // others stay: it never becomes free here
            sequence.pages.back() = take();
        }
        sequence.length += growth.tokens;
        while (static_cast<int64_t>(sequence.pages.size()) < pages_for(sequence.length))
            sequence.pages.push_back(take());
    }
}

PagePool::Stats PagePool::stats() const {
    Stats stats = {};
    stats.free_pages = free_pages();
    stats.shared_pages = std::count_if(owners_.begin(), owners_.end(), [](int32_t count) { return count > 1; });
    for (const Sequence& sequence : sequences_) {
        stats.sequences += sequence.live ? 1 : 0;
        stats.tokens += sequence.live ? sequence.length : 0;
    }
    return stats;
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// Who owns which page: sequences with block tables, shared prefixes, reference counts. Host memory only; knows nothing
// of a device. Not thread safe.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lidx {

class PagePool {
public:
    PagePool(int32_t page_size, int64_t num_pages) : page_size_(page_size), num_pages_(num_pages) {}

    // Sequences are named by numbers that are never used twice, so that a stale one is noticed. Every function that
    // takes one throws LIDX_ERR_VALUE, naming `field`, where no such sequence lives.
    int64_t add();
    int64_t fork(int64_t parent);   // shares all pages
    void free(int64_t sequence);
    void truncate(int64_t sequence, int64_t length);   // LIDX_ERR_VALUE unless 0 .. length

    // The first `used` slots of a shared page go to a page of the sequence's own.
    struct Copy {
        int32_t from, to, used;
    };
    // What growing takes: decided by prepare(), done by commit(), so that work between the two may fail.
    struct Growth {
        uint32_t index;
        int32_t tokens;
        Copy copy;   // used = 0: none
    };
    struct Extension {
        std::vector<Growth> growths;
        std::vector<int32_t> pages;   // to be taken, in order
    };
    // Each sequence by as many tokens; all or none. LIDX_ERR_NO_PAGES where the pool does not hold them, LIDX_ERR_VALUE
    // for a negative number, a sequence named twice, or a length above 2^31 - 1.
    Extension prepare(std::span<const int64_t> sequences, std::span<const int32_t> tokens);
    void commit(const Extension& extension) noexcept;

    int64_t length(int64_t sequence) const { return at(sequence).length; }
    std::span<const int32_t> pages(int64_t sequence) const { return at(sequence).pages; }
    int32_t owners(int32_t page) const { return owners_[static_cast<size_t>(page)]; }   // of a page in use

    struct Stats {
        int64_t free_pages, shared_pages, sequences, tokens;   // tokens: summed over sequences
    };
    Stats stats() const;

private:
    struct Sequence {
        uint32_t generation = 0;
        bool live = false;
        int64_t length = 0;
        std::vector<int32_t> pages;
    };
    const Sequence& at(int64_t sequence) const;
    Sequence& at(int64_t sequence) { return const_cast<Sequence&>(std::as_const(*this).at(sequence)); }
    void release(int32_t page) noexcept;
    int64_t pages_for(int64_t length) const { return (length + page_size_ - 1) / page_size_; }
    int64_t free_pages() const {
        return static_cast<int64_t>(returned_.size()) + num_pages_ - static_cast<int64_t>(owners_.size());
    }

    int32_t page_size_;
    int64_t num_pages_;
    std::vector<int32_t> owners_;      // [pages that were ever in use]; a page beyond was never used
    std::vector<int32_t> returned_;    // pages without an owner, the next one last; room for all of owners_
    std::vector<Sequence> sequences_;
    std::vector<uint32_t> vacant_;     // indices of sequences_; room for all of them
};

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// The page pool against a model that keeps, for every sequence, the contents of its slots, and copies them without any
// sharing: whatever happens, a sequence must read back what was written to it.
#include "catch_any.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/page_pool.h"
#include "host/status.h"
#include "test/ref/portable_rng.h"

namespace {

using lidx::PagePool;
using lidx::ref::Rng;

std::string message_of(const std::function<void()>& call, lidx_status status) {
    try {
        call();
    } catch (const lidx::Failure& failure) {
        CHECK(failure.status == status);
        return failure.text;
    }
    return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void extend(PagePool& pool, int64_t sequence, int32_t tokens) {
    pool.commit(pool.prepare({&sequence, 1}, {&tokens, 1}));
}

// Memory, the pool, and what each sequence should hold.
struct World {
    World(int32_t page_size, int32_t num_pages)
        : page_size(page_size), num_pages(num_pages), pool(page_size, num_pages),
          memory(static_cast<size_t>(page_size) * static_cast<size_t>(num_pages), -1) {}

    int64_t pages_of(int64_t length) const { return (length + page_size - 1) / page_size; }

    // Distinct pages in use, from the tables alone.
    std::map<int32_t, int> owners() const {
        std::map<int32_t, int> count;
        for (const auto& [sequence, values] : model)
            for (const int32_t page : pool.pages(sequence)) ++count[page];
        return count;
    }

    // Pages that growing takes, from what the tables say: new ones, and copies of shared last pages, whose last writer
    // keeps the page if nobody else has it.
    int64_t needed(const std::vector<int64_t>& sequences, const std::vector<int32_t>& tokens) const {
        std::map<int32_t, int> count = owners();
        int64_t pages = 0;
        for (size_t i = 0; i < sequences.size(); ++i) {
            const auto length = static_cast<int64_t>(model.at(sequences[i]).size());
            pages += pages_of(length + tokens[i]) - pages_of(length);
            if (tokens[i] > 0 && length % page_size != 0 && count[pool.pages(sequences[i]).back()]-- > 1) ++pages;
        }
        return pages;
    }

    void grow(const std::vector<int64_t>& sequences, const std::vector<int32_t>& tokens) {
        const int64_t free_pages = num_pages - static_cast<int64_t>(owners().size());
        if (needed(sequences, tokens) > free_pages) {
            const std::string text =
                message_of([&] { pool.prepare(sequences, tokens); }, LIDX_ERR_NO_PAGES);
            CHECK(contains(text, "the call needs " + std::to_string(needed(sequences, tokens)) + " pages, " +
                                     std::to_string(free_pages) + " of " + std::to_string(num_pages) + " are free"));
            ++refused;
            return;
        }
        const PagePool::Extension extension = pool.prepare(sequences, tokens);
        for (const PagePool::Growth& growth : extension.growths)
            for (int32_t slot = 0; slot < growth.copy.used; ++slot)
                memory[static_cast<size_t>(growth.copy.to * page_size + slot)] =
                    memory[static_cast<size_t>(growth.copy.from * page_size + slot)];
        pool.commit(extension);
        for (size_t i = 0; i < sequences.size(); ++i)
            for (int32_t token = 0; token < tokens[i]; ++token) {
                const auto position = static_cast<int64_t>(model[sequences[i]].size());
                const int32_t page = pool.pages(sequences[i])[static_cast<size_t>(position / page_size)];
                CHECK(pool.owners(page) == 1);   // written into
                memory[static_cast<size_t>(page * page_size + position % page_size)] = next_value;
                model[sequences[i]].push_back(next_value++);
            }
    }

    void check() const {
        const std::map<int32_t, int> count = owners();
        int64_t shared = 0, tokens = 0;
        bool pages_right = true, owners_right = true, values_right = true;
        for (const auto& [page, number] : count) {
            pages_right = pages_right && page >= 0 && page < num_pages;
            owners_right = owners_right && pool.owners(page) == number;
            shared += number > 1;
        }
        for (const auto& [sequence, values] : model) {
            const auto pages = pool.pages(sequence);
            tokens += static_cast<int64_t>(values.size());
            pages_right = pages_right && pool.length(sequence) == static_cast<int64_t>(values.size()) &&
                          static_cast<int64_t>(pages.size()) == pages_of(static_cast<int64_t>(values.size())) &&
                          std::set<int32_t>(pages.begin(), pages.end()).size() == pages.size();
            for (size_t i = 0; i < values.size() && pages_right; ++i)
                values_right = values_right && memory[static_cast<size_t>(pages[i / static_cast<size_t>(page_size)]) *
                                                          static_cast<size_t>(page_size) +
                                                      i % static_cast<size_t>(page_size)] == values[i];
        }
        CHECK(pages_right);
        CHECK(owners_right);
        CHECK(values_right);
        const PagePool::Stats stats = pool.stats();
        CHECK(stats.free_pages == num_pages - static_cast<int64_t>(count.size()));
        CHECK(stats.shared_pages == shared);
        CHECK(stats.sequences == static_cast<int64_t>(model.size()));
        CHECK(stats.tokens == tokens);
    }

    int32_t page_size, num_pages;
    PagePool pool;
    std::vector<int64_t> memory;                  // [num_pages, page_size]
    std::map<int64_t, std::vector<int64_t>> model;   // sequence: its values
    std::set<int64_t> dead;
    int64_t next_value = 0;
    int refused = 0;
};

}  // namespace

TEST_CASE("page pool: random operations keep what was written") {
    int refused = 0, operations = 0;
    for (const auto& [page_size, num_pages] : std::vector<std::array<int32_t, 2>>{{4, 12}, {16, 40}, {1, 30}, {7, 9}}) {
        World world(page_size, num_pages);
        Rng rng(static_cast<uint64_t>(page_size));
        const auto pick = [&] {
            auto at = world.model.begin();
            std::advance(at, static_cast<int64_t>(rng.below(world.model.size())));
            return at->first;
        };
        for (int step = 0; step < 3000; ++step, ++operations) {
            CAPTURE(page_size, step);
            const uint64_t draw = world.model.empty() ? 0 : rng.below(20);
            if (draw == 0) {
                const int64_t sequence = world.pool.add();
                CHECK((sequence != 0 && world.model.count(sequence) == 0 && world.dead.count(sequence) == 0));
                world.model[sequence] = {};
            } else if (draw <= 3) {
                const int64_t parent = pick(), child = world.pool.fork(parent);
                CHECK((child != 0 && world.model.count(child) == 0 && world.dead.count(child) == 0));
                world.model[child] = world.model[parent];
            } else if (draw <= 6) {
                const int64_t sequence = pick();
                world.pool.free(sequence);
                world.model.erase(sequence);
                world.dead.insert(sequence);
            } else if (draw <= 8) {
                const int64_t sequence = pick();
                const auto length = static_cast<int64_t>(rng.below(world.model[sequence].size() + 1));
                world.pool.truncate(sequence, length);
                world.model[sequence].resize(static_cast<size_t>(length));
            } else {
                std::vector<int64_t> sequences;
                std::vector<int32_t> tokens;
                for (const auto& entry : world.model)
                    if (rng.below(3) == 0) {
                        sequences.push_back(entry.first);
                        tokens.push_back(static_cast<int32_t>(rng.below(2 * static_cast<uint64_t>(page_size) + 2)));
                    }
                world.grow(sequences, tokens);
            }
            if (step % 8 == 0) world.check();
        }
        world.check();
        for (const int64_t sequence : world.dead)
            CHECK(contains(message_of([&] { world.pool.length(sequence); }, LIDX_ERR_VALUE), "no such sequence lives"));
        refused += world.refused;
        while (!world.model.empty()) {
            world.pool.free(world.model.begin()->first);
            world.model.erase(world.model.begin());
        }
        world.check();
    }
    CHECK(refused > operations / 50);   // the pools were full often enough
}

TEST_CASE("page pool: pages by hand") {
    PagePool pool(4, 5);
    const int64_t a = pool.add();
    extend(pool, a, 6);
    CHECK(std::vector<int32_t>(pool.pages(a).begin(), pool.pages(a).end()) == std::vector<int32_t>{0, 1});
    const int64_t b = pool.fork(a);
    CHECK(pool.stats().free_pages == 3);
    CHECK(pool.stats().shared_pages == 2);

    // Both write into page 1: the first takes a copy, the second, then alone, keeps it.
    const int64_t both[] = {b, a};
    const int32_t one[] = {1, 1};
    const PagePool::Extension extension = pool.prepare(both, one);
    CHECK(extension.pages == std::vector<int32_t>{2});
    CHECK(extension.growths[0].copy.from == 1);
    CHECK(extension.growths[0].copy.to == 2);
    CHECK(extension.growths[0].copy.used == 2);
    CHECK(extension.growths[1].copy.used == 0);
    CHECK(pool.length(a) == 6);   // until it is committed
    pool.commit(extension);
    CHECK(std::vector<int32_t>(pool.pages(b).begin(), pool.pages(b).end()) == std::vector<int32_t>{0, 2});
    CHECK(std::vector<int32_t>(pool.pages(a).begin(), pool.pages(a).end()) == std::vector<int32_t>{0, 1});

    // A fork at a page's end copies nothing.
    pool.truncate(a, 4);
    const int64_t c = pool.fork(a);
    const int32_t five = 5;
    const PagePool::Extension grown = pool.prepare({&c, 1}, {&five, 1});
    CHECK(grown.growths[0].copy.used == 0);
    CHECK(grown.pages == std::vector<int32_t>{1, 3});   // what was given back last comes first
}

TEST_CASE("page pool: refusals name what is wrong, and change nothing") {
    PagePool pool(4, 3);
    const int64_t a = pool.add(), b = pool.add();
    extend(pool, a, 8);
    const auto prepare = [&](std::vector<int64_t> sequences, std::vector<int32_t> tokens, lidx_status status) {
        return message_of([&] { pool.prepare(sequences, tokens); }, status);
    };
    CHECK(contains(prepare({a, b}, {1, 1}, LIDX_ERR_NO_PAGES), "the call needs 2 pages, 1 of 3 are free"));
    CHECK(contains(prepare({a, b, a}, {0, 0, 1}, LIDX_ERR_VALUE), "sequences[2] = "));
    CHECK(contains(prepare({a}, {-1}, LIDX_ERR_VALUE), "tokens[0] = -1: must be 0 .. 2147483639"));
    CHECK(contains(prepare({b, a}, {0, INT32_MAX}, LIDX_ERR_VALUE), "tokens[1] = 2147483647: must be 0 .. 2147483639"));
    CHECK(contains(prepare({b}, {INT32_MAX}, LIDX_ERR_NO_PAGES), "the call needs 536870912 pages"));
    for (const int64_t sequence : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN, a + 1, a ^ (int64_t{1} << 32)})
        if (sequence != b)
            CHECK(contains(prepare({sequence}, {1}, LIDX_ERR_VALUE),
                           "sequence = " + std::to_string(sequence) + ": no such sequence lives in this cache"));
    CHECK(contains(message_of([&] { pool.truncate(a, 9); }, LIDX_ERR_VALUE), "length = 9: must be 0 .. 8"));
    CHECK(contains(message_of([&] { pool.truncate(a, -1); }, LIDX_ERR_VALUE), "length = -1: must be 0 .. 8"));
    CHECK(pool.length(a) == 8);
    CHECK(pool.length(b) == 0);
    CHECK(pool.stats().free_pages == 1);
    pool.free(a);
    CHECK_THROWS_AS(pool.free(a), lidx::Failure);
    CHECK_THROWS_AS(pool.fork(a), lidx::Failure);
    CHECK(pool.stats().free_pages == 3);
}

// SPDX-License-Identifier: Apache-2.0
// mbarrier transitions after PTX ISA 9.7.13.15; every expected state is read off its text.
#include "tools/ptxemu/mbarrier.h"

#include <random>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

using namespace ptxemu;

namespace {
constexpr uint32_t kMax = (1u << 20) - 1;

uint64_t fresh(uint32_t count) {
    uint64_t word = 0;
    REQUIRE(mbarrier_init(&word, count).empty());
    return word;
}
}  // namespace

TEST_CASE("mbarrier word keeps every state", "[mbarrier]") {
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
        MbarrierState in;
        in.valid = true;
        in.phase = random() % 4;
        in.expected = round == 0 ? 1 : round == 1 ? kMax : 1 + random() % kMax;
        in.pending = round == 2 ? 0 : random() % (kMax + 1);
        in.tx = static_cast<int32_t>(random() % (2 * kMax + 1)) - static_cast<int32_t>(kMax);
        if (round == 3) in.tx = -static_cast<int32_t>(kMax);
        if (round == 4) in.tx = kMax;
        const MbarrierState out = mbarrier_unpack(mbarrier_pack(in));
        REQUIRE(out.valid);
        REQUIRE(out.phase == in.phase);
        REQUIRE(out.expected == in.expected);
        REQUIRE(out.pending == in.pending);
        REQUIRE(out.tx == in.tx);
    }
}

TEST_CASE("mbarrier init and inval", "[mbarrier]") {
    uint64_t word = 0;
    CHECK_FALSE(mbarrier_init(&word, 0).empty());
    CHECK_FALSE(mbarrier_init(&word, kMax + 1).empty());
    CHECK(word == 0);
    CHECK_FALSE(mbarrier_inval(&word).empty());
    REQUIRE(mbarrier_init(&word, kMax).empty());
    const MbarrierState state = mbarrier_unpack(word);
    CHECK(state.valid);
    CHECK(state.phase == 0);
    CHECK(state.expected == kMax);
    CHECK(state.pending == kMax);
    CHECK(state.tx == 0);
    CHECK_FALSE(mbarrier_init(&word, 1).empty());       // an object lives there
    CHECK(mbarrier_inval(&word).empty());
    CHECK_FALSE(mbarrier_unpack(word).valid);
    CHECK(mbarrier_init(&word, 1).empty());
}

TEST_CASE("nothing works on memory without an mbarrier", "[mbarrier]") {
    for (uint64_t junk : {uint64_t{0}, ~uint64_t{0}, uint64_t{0xcdcdcdcdcdcdcdcd}, uint64_t{0xffffc0deffffc0de}}) {
        uint64_t word = junk, token = 0;
        bool completed = true;
        CHECK_FALSE(mbarrier_expect_tx(&word, 1).empty());
        CHECK_FALSE(mbarrier_complete_tx(&word, 1, &completed).empty());
        CHECK_FALSE(completed);
        CHECK_FALSE(mbarrier_arrive(&word, 1, false, &token, &completed).empty());
        CHECK_FALSE(mbarrier_arrive(&word, 1, true, &token, &completed).empty());
        CHECK_FALSE(mbarrier_add_pending(&word, 1).empty());
        CHECK(word == junk);
    }
}

TEST_CASE("mbarrier parity of a fresh object", "[mbarrier]") {
    const uint64_t word = fresh(1);
    CHECK(mbarrier_test_parity(word, 1));               // the phase before the first counts as complete
    CHECK_FALSE(mbarrier_test_parity(word, 0));
}

TEST_CASE("mbarrier phases by arrivals", "[mbarrier]") {
    uint64_t word = fresh(3), token = 0;
    bool completed = true;
    REQUIRE(mbarrier_arrive(&word, 1, false, &token, &completed).empty());
    CHECK_FALSE(completed);
    CHECK(mbarrier_pending_count(token) == 3);          // the state is the one before the arrival
    CHECK_FALSE(mbarrier_test_token(word, token));
    REQUIRE(mbarrier_arrive(&word, 2, false, nullptr, &completed).empty());
    CHECK(completed);
    CHECK(mbarrier_test_token(word, token));
    CHECK(mbarrier_test_parity(word, 0));
    CHECK_FALSE(mbarrier_test_parity(word, 1));
    CHECK(mbarrier_unpack(word).pending == 3);
    CHECK_FALSE(mbarrier_arrive(&word, 4, false, nullptr, &completed).empty());
    CHECK_FALSE(mbarrier_arrive(&word, 0, false, nullptr, &completed).empty());
    CHECK(mbarrier_unpack(word).pending == 3);
    for (int phase = 1; phase < 9; ++phase) {
        CHECK(mbarrier_test_parity(word, (phase - 1) & 1));
        CHECK_FALSE(mbarrier_test_parity(word, phase & 1));
        REQUIRE(mbarrier_arrive(&word, 3, false, &token, &completed).empty());
        CHECK(completed);
        CHECK(mbarrier_test_token(word, token));
    }
}

TEST_CASE("mbarrier transactions", "[mbarrier]") {
    bool completed = false;
    SECTION("expect, arrive, complete") {
        uint64_t word = fresh(1);
        REQUIRE(mbarrier_expect_tx(&word, 16384).empty());
        REQUIRE(mbarrier_arrive(&word, 1, false, nullptr, &completed).empty());
        CHECK_FALSE(completed);
        REQUIRE(mbarrier_complete_tx(&word, 8192, &completed).empty());
        CHECK_FALSE(completed);
        REQUIRE(mbarrier_complete_tx(&word, 8192, &completed).empty());
        CHECK(completed);
        CHECK(mbarrier_unpack(word).phase == 1);
        CHECK(mbarrier_unpack(word).pending == 1);
        CHECK(mbarrier_unpack(word).tx == 0);
    }
    SECTION("bytes may land before they are expected, while an arrival is pending") {
        uint64_t word = fresh(1);
        REQUIRE(mbarrier_complete_tx(&word, 4096, &completed).empty());
        CHECK_FALSE(completed);
        CHECK(mbarrier_unpack(word).tx == -4096);
        bool by_expect = true;
        REQUIRE(mbarrier_expect_tx(&word, 4096, &by_expect).empty());
        CHECK_FALSE(by_expect);
        REQUIRE(mbarrier_arrive(&word, 1, false, nullptr, &completed).empty());
        CHECK(completed);
    }
    SECTION("a negative count does not complete a phase; the late expect-tx does") {
        uint64_t word = fresh(1);
        REQUIRE(mbarrier_complete_tx(&word, 64, &completed).empty());
        REQUIRE(mbarrier_arrive(&word, 1, false, nullptr, &completed).empty());
        CHECK_FALSE(completed);
        CHECK_FALSE(mbarrier_test_parity(word, 0));
        bool by_expect = false;
        REQUIRE(mbarrier_expect_tx(&word, 64, &by_expect).empty());
        CHECK(by_expect);
        CHECK(mbarrier_test_parity(word, 0));
    }
    SECTION("the count stays within +-(2^20 - 1)") {
        uint64_t word = fresh(1);
        REQUIRE(mbarrier_expect_tx(&word, kMax).empty());
        CHECK_FALSE(mbarrier_expect_tx(&word, 1).empty());
        CHECK_FALSE(mbarrier_expect_tx(&word, UINT32_MAX).empty());
        CHECK(mbarrier_unpack(word).tx == static_cast<int32_t>(kMax));
        REQUIRE(mbarrier_complete_tx(&word, kMax, &completed).empty());
        REQUIRE(mbarrier_complete_tx(&word, kMax, &completed).empty());
        CHECK_FALSE(mbarrier_complete_tx(&word, 1, &completed).empty());
        CHECK_FALSE(mbarrier_complete_tx(&word, UINT32_MAX, &completed).empty());
        CHECK(mbarrier_unpack(word).tx == -static_cast<int32_t>(kMax));
    }
}

TEST_CASE("mbarrier.arrive_drop lowers the later phases", "[mbarrier]") {
    uint64_t word = fresh(3);
    bool completed = false;
    REQUIRE(mbarrier_arrive(&word, 1, true, nullptr, &completed).empty());
    CHECK(mbarrier_unpack(word).expected == 2);
    CHECK(mbarrier_unpack(word).pending == 2);
    REQUIRE(mbarrier_arrive(&word, 2, false, nullptr, &completed).empty());
    CHECK(completed);
    CHECK(mbarrier_unpack(word).pending == 2);
    CHECK_FALSE(mbarrier_arrive(&word, 3, true, nullptr, &completed).empty());
}

TEST_CASE("cp.async.mbarrier.arrive adds a pending arrival", "[mbarrier]") {
    uint64_t word = fresh(1);
    bool completed = false;
    REQUIRE(mbarrier_add_pending(&word, 1).empty());
    REQUIRE(mbarrier_arrive(&word, 1, false, nullptr, &completed).empty());
    CHECK_FALSE(completed);
    REQUIRE(mbarrier_arrive(&word, 1, false, nullptr, &completed).empty());
    CHECK(completed);
    CHECK(mbarrier_unpack(word).pending == 1);
    CHECK_FALSE(mbarrier_add_pending(&word, kMax).empty());
}

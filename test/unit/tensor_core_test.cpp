// SPDX-License-Identifier: Apache-2.0
// The window arithmetic: words measured on a B200, words computed by hand, and the fast path against the slow one.
#include "tools/ptxemu/tensor_core.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "b200_words.h"
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

using namespace ptxemu;

namespace {

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// e4m3 codes of a few values
constexpr uint32_t kOne = 0x38, kMinusOne = 0xb8, kTwo = 0x40, k256 = 0x78, k448 = 0x7e, kMinSubnormal = 0x01;

uint32_t dot(std::vector<uint32_t> a, std::vector<uint32_t> b, uint32_t c, WindowRule rule = kSm100Rule) {
    a.resize(32);
    b.resize(32);
    return fused_dot(Format::kE4m3, Format::kE4m3, a.data(), b.data(), 32, c, true, rule);
}

enum class Fill { kAnyFinite, kLattice, kSubnormals, kHeavyTail, kAnyCode, kSparse };

uint8_t draw(Fill fill, Format format, std::mt19937& random) {
    const uint8_t code = static_cast<uint8_t>(random());
    const bool e4m3 = format == Format::kE4m3;
    const uint8_t magnitude_mask = format == Format::kE2m1 ? 0x7 : format <= Format::kE5m2 ? 0x7f : 0x1f;
    auto finite = [&](uint8_t c) -> uint8_t {
        if (e4m3 && (c & 0x7f) == 0x7f) return c ^ 0x10;
        if (format == Format::kE5m2 && (c & 0x7c) == 0x7c) return c ^ 0x40;
        return c;
    };
    switch (fill) {
        case Fill::kAnyCode: return code;
        case Fill::kAnyFinite: return finite(code);
        case Fill::kLattice: {
            // -8..8; the low mantissa bits that e5m2 lacks stay zero by drawing powers of two there
            static constexpr uint8_t kE4m3Small[] = {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
            static constexpr uint8_t kE5m2Small[] = {0x00, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46, 0x47, 0x48};
            const uint8_t sign = code & 0x80;
            return (e4m3 ? kE4m3Small : kE5m2Small)[random() % 9] | sign;
        }
        case Fill::kSubnormals: return code & (e4m3 ? 0x8f : 0x87);
        case Fill::kSparse: return random() % 8 == 0 ? finite(code) : code & 0x80;
        case Fill::kHeavyTail: {
            // magnitudes spread over the exponents like a rotated activation: mostly near the top, a tail below
            const int down = static_cast<int>(random() % 4 == 0 ? random() % 96 : random() % 24);
            const int top = e4m3 ? 0x7e : format == Format::kE5m2 ? 0x7b : magnitude_mask;
            return static_cast<uint8_t>(std::max(0, top - down)) | (code & 0x80);
        }
    }
    return 0;
}

struct Tile {
    int m, n;
    std::vector<uint8_t> a, b;
    std::vector<uint32_t> d;
};

Tile make_tile(int m, int n, Format fa, Format fb, Fill fill_a, Fill fill_b, std::mt19937& random) {
    Tile tile{m, n, std::vector<uint8_t>(32u * m), std::vector<uint8_t>(32u * n), std::vector<uint32_t>(size_t(m) * n)};
    for (uint8_t& code : tile.a) code = draw(fill_a, fa, random);
    for (uint8_t& code : tile.b) code = draw(fill_b, fb, random);
    return tile;
}

std::vector<uint32_t> slow_product(const Tile& tile, Format fa, Format fb, bool accumulate, WindowRule rule) {
    std::vector<uint32_t> d = tile.d;
    for (int i = 0; i < tile.m; ++i) {
        for (int j = 0; j < tile.n; ++j) {
            uint32_t a[32], b[32];
            for (int k = 0; k < 32; ++k) {
                a[k] = tile.a[32 * i + k];
                b[k] = tile.b[32 * j + k];
            }
            uint32_t& cell = d[size_t(i) * tile.n + j];
            cell = fused_dot(fa, fb, a, b, 32, cell, accumulate, rule);
        }
    }
    return d;
}

// Compares every SIMD path with fused_dot and leaves the product in tile.d.
void check_step(Tile& tile, Format fa, Format fb, bool accumulate, WindowRule rule) {
    const std::vector<uint32_t> expected = slow_product(tile, fa, fb, accumulate, rule);
    for (SimdPath path : {SimdPath::kBaseline, SimdPath::kAvx2, SimdPath::kAvx512}) {
        if (!simd_path_available(path)) continue;
        std::vector<uint32_t> d = tile.d;
        mma_fp8_k32_on(path, fa, fb, tile.a.data(), tile.b.data(), tile.m, tile.n, d.data(), tile.n, accumulate, rule);
        for (size_t cell = 0; cell < d.size(); ++cell) {
            if (d[cell] != expected[cell]) {
                char text[200];
                std::snprintf(text, sizeof text, "path %d row %zu column %zu: %08x, slow %08x, C %08x", int(path),
                              cell / tile.n, cell % tile.n, d[cell], expected[cell], tile.d[cell]);
                FAIL(text);
            }
        }
    }
    tile.d = expected;
}

}  // namespace

TEST_CASE("fused_dot gives every word measured on a B200", "[tensor_core]") {
    REQUIRE(kB200Words.size() == 34);
    for (const B200Word& word : kB200Words) {
        INFO(word.name);
        std::vector<uint32_t> a = word.a, b = word.b;
        a.resize(word.k);
        b.resize(word.k);
        CHECK(fused_dot(word.format, word.format, a.data(), b.data(), word.k, word.c, true, kSm100Rule) == word.d);
    }
}

TEST_CASE("integer_dot gives every word measured on a B200", "[tensor_core]") {
    REQUIRE(kB200IntegerWords.size() == 8);
    for (const B200IntegerWord& word : kB200IntegerWords) {
        CHECK(static_cast<uint32_t>(integer_dot(word.a_format, word.b_format, word.a.data(), word.b.data(), 32,
                                                static_cast<int32_t>(word.c), true, word.saturate)) == word.d);
    }
}

TEST_CASE("the B200 words tell the window and the cut apart from their neighbours", "[tensor_core]") {
    auto wrong = [](WindowRule rule) {
        int count = 0;
        for (const B200Word& word : kB200Words) {
            std::vector<uint32_t> a = word.a, b = word.b;
            a.resize(word.k);
            b.resize(word.k);
            count += fused_dot(word.format, word.format, a.data(), b.data(), word.k, word.c, true, rule) != word.d;
        }
        return count;
    };
    CHECK(wrong(kSm100Rule) == 0);
    CHECK(wrong({24, 23}) > 0);
    CHECK(wrong({26, 23}) > 0);
    CHECK(wrong({25, 22}) > 0);
}

TEST_CASE("mma_fp8_k32 gives the same B200 words", "[tensor_core]") {
    int compared = 0;
    for (const B200Word& word : kB200Words) {
        if (word.k != 32) continue;
        INFO(word.name);
        std::vector<uint8_t> a(word.a.begin(), word.a.end()), b(word.b.begin(), word.b.end());
        a.resize(32);
        b.resize(32);
        uint32_t d = word.c;
        mma_fp8_k32(word.format, word.format, a.data(), b.data(), 1, 1, &d, 1, true, kSm100Rule);
        CHECK(d == word.d);
        ++compared;
    }
    CHECK(compared == 18);
}

TEST_CASE("window arithmetic, by hand", "[tensor_core]") {
    SECTION("plain sums, zeros and signs") {
        CHECK(dot({kOne, kTwo}, {kOne, kTwo}, bits_of(0.5f)) == bits_of(5.5f));
        CHECK(dot({kOne, kOne}, {kOne, kMinusOne}, 0) == 0);                    // exact zero is +0
        CHECK(dot({0x80}, {kOne}, 0x80000000) == 0);                            // -0 * 1 + -0
        CHECK(dot({kMinSubnormal}, {kMinSubnormal}, 0) == bits_of(0x1p-18f));
        CHECK(dot({kMinSubnormal}, {0x80 | kMinSubnormal}, 0) == bits_of(-0x1p-18f));
    }
    SECTION("C below the window is cut toward zero") {
        // R = 16 (256 * 256), unit 2^-9: C = 1.5 * 2^-9 keeps one unit, either sign
        CHECK(dot({k256}, {k256}, bits_of(0x1.8p-9f)) == bits_of(65536.0f));    // 2^16 + 2^-9 needs 26 bits, cut again
        CHECK(dot({k256, k256}, {k256, 0xf8}, bits_of(0x1.8p-9f)) == bits_of(0x1p-9f));
        CHECK(dot({k256, k256}, {k256, 0xf8}, bits_of(-0x1.8p-9f)) == bits_of(-0x1p-9f));
        CHECK(dot({k256, k256}, {k256, 0xf8}, bits_of(0x1.8p-10f)) == 0);
    }
    SECTION("products below the window are cut, each on its own") {
        // R = 16, unit 2^-9: two products of 1.5 * 2^-10 vanish although their sum would not
        CHECK(dot({k256, k256, 0x0c, 0x0c}, {k256, 0xf8, 0x18, 0x18}, 0) == 0);
        // two of 1.5 * 2^-9 keep one unit each, toward zero for either sign
        CHECK(dot({k256, k256, 0x0c, 0x0c}, {k256, 0xf8, 0x20, 0x20}, 0) == bits_of(0x1p-8f));
        CHECK(dot({k256, k256, 0x8c, 0x8c}, {k256, 0xf8, 0x20, 0x20}, 0) == bits_of(-0x1p-8f));
        // 2^-18 is far below
        CHECK(dot({k256, k256, kMinSubnormal}, {k256, 0xf8, kMinSubnormal}, 0) == 0);
    }
    SECTION("the raw exponent of a subnormal is that of the smallest normal number") {
        // 2^-9 * 256 = 0.5 has raw exponent -6 + 8 = 2, not -1: Hopper's unit is 2^-11, and 2^-12 is cut
        CHECK(dot({kMinSubnormal, kMinSubnormal}, {k256, 0x20}, 0, kSm90Rule) == bits_of(0.5f));
        CHECK(dot({0x18, kMinSubnormal}, {0x50, 0x20}, 0, kSm90Rule) == bits_of(0.500244140625f));   // 2^-4 * 8 + 2^-12
    }
    SECTION("the result is cut toward zero to 24 bits") {
        // C = 2^20, unit 2^-5: plus or minus one unit needs 26 bits
        CHECK(dot({0x10}, {kOne}, bits_of(0x1p20f)) == bits_of(0x1p20f));
        CHECK(dot({0x90}, {kOne}, bits_of(0x1p20f)) == bits_of(0x1.fffffep19f));
    }
    SECTION("Hopper: window and result of 13 bits") {
        // R = 16, unit 8: 256 * 256 + 7 is cut to 65536, + 8 stays
        CHECK(dot({k256, kOne}, {k256, 0x4e}, 0, kSm90Rule) == bits_of(65536.0f));
        CHECK(dot({k256, kTwo}, {k256, 0x48}, 0, kSm90Rule) == bits_of(65544.0f));
        CHECK(dot({k256, kOne}, {k256, 0x4e}, 0, kSm100Rule) == bits_of(65543.0f));
        // C alone is cut to 13 fraction bits
        CHECK(dot({0}, {0}, 0x3fffffff, kSm90Rule) == 0x3ffffc00);
        CHECK(dot({0}, {0}, 0x3fffffff, kSm100Rule) == 0x3fffffff);
    }
    SECTION("overflow, infinity, NaN") {
        const uint32_t largest = 0x7f7fffff, infinity = 0x7f800000;
        CHECK(dot({0}, {0}, largest) == largest);
        CHECK(dot({k448}, {k448}, largest) == largest);                         // far below the window of C
        CHECK(dot({kOne}, {kOne}, infinity) == infinity);
        CHECK(dot({kOne}, {kOne}, 0xff800000) == 0xff800000);
        CHECK(dot({kOne}, {kOne}, 0xffc00001) == 0x7fffffff);
        CHECK(dot({0x7f}, {0}, 0) == 0x7fffffff);
        CHECK(dot({0xff}, {kOne}, 0) == 0x7fffffff);
        uint32_t a[2] = {0x7c, 0x7c}, b[2] = {0x3c, 0xbc};                      // e5m2: inf - inf
        CHECK(fused_dot(Format::kE5m2, Format::kE5m2, a, b, 2, 0, false, kSm100Rule) == 0x7fffffff);
        CHECK(fused_dot(Format::kE5m2, Format::kE5m2, a, b, 1, 0xff800000, true, kSm100Rule) == 0x7fffffff);
        CHECK(fused_dot(Format::kE5m2, Format::kE5m2, a, b + 1, 1, 0, false, kSm100Rule) == 0xff800000);
        const uint32_t big[2] = {0x7f00, 0x7f00};                               // bf16 2^127: sum 2^128
        const uint32_t one[2] = {0x3f80, 0x3f80};
        CHECK(fused_dot(Format::kBf16, Format::kBf16, big, one, 2, 0, false, kSm100Rule) == infinity);
    }
    SECTION("C is not read where it is not used") {
        const uint32_t a[1] = {kOne};
        CHECK(fused_dot(Format::kE4m3, Format::kE4m3, a, a, 1, 0x7fc00000, false, kSm100Rule) == bits_of(1.0f));
    }
}

TEST_CASE("F16 accumulator rounds to nearest even", "[tensor_core]") {
    auto half = [](std::vector<uint32_t> a, std::vector<uint32_t> b, uint32_t c) {
        return fused_dot_f16(Format::kE4m3, Format::kE4m3, a.data(), b.data(), int(a.size()), c, true, 25);
    };
    CHECK(half({kOne}, {kOne}, 0x3c00) == 0x4000);                              // 1 + 1
    CHECK(half({k256, kOne}, {0x40, kOne}, 0x6400) == 0x6601);                  // 512 + 1 + 1024 = 1537
    CHECK(half({kOne}, {kOne}, 0x6800) == 0x6800);                              // 2048 + 1: tie, down to even
    CHECK(half({kOne}, {kOne}, 0x6801) == 0x6802);                              // 2050 + 1: tie, up to even
    CHECK(half({k256, k256}, {k256, kOne}, 0) == 0x7c00);                       // 65792 overflows
    CHECK(half({k448}, {0x58}, 0x7bff) == 0x7c00);                              // 65504 + 448 * 16
    CHECK(half({0x7f}, {kOne}, 0) == 0x7fff);
    CHECK(half({kMinSubnormal}, {kMinSubnormal}, 0) == 0x0040);                 // 2^-18 is 64 units of 2^-24
    CHECK(half({kOne}, {kMinusOne}, 0x3c00) == 0);
}

// Codes of all ranges, C of all kinds: special ones, none, subnormal.
TEST_CASE("whole tiles with F16 accumulators give the bits of the readable step", "[tensor_core]") {
    std::mt19937 rng(16);
    const Format formats[] = {Format::kE4m3, Format::kE5m2};
    constexpr int m = 16, n = 300;
    for (int round = 0; round < 24; ++round) {
        const Format fa = formats[round % 2], fb = formats[round / 2 % 2];
        const int window = round % 3 == 0 ? 25 : 13;
        const bool accumulate = round % 4 != 3;
        const auto code = [&]() -> uint8_t {   // rounds in turn: any, no special ones, small ones, mostly zeros
            const auto any = static_cast<uint8_t>(rng());
            if (round % 8 < 2) return any;
            if (round % 8 < 4) return any & 0xbf;
            if (round % 8 < 6) return any & 0x87;
            return rng() % 20 == 0 ? any & 0xbf : 0;
        };
        std::vector<uint8_t> a(m * 32), b(n * 32);
        for (uint8_t& x : a) x = code();
        for (uint8_t& x : b) x = code();
        std::vector<uint32_t> d(m * n);
        for (uint32_t& c : d) c = rng() % 4 == 0 ? 0 : rng() & (round % 2 != 0 ? 0xffff : 0x83ff);
        const std::vector<uint32_t> c = d;
        mma_fp8_k32_f16(fa, fb, a.data(), b.data(), m, n, d.data(), n, accumulate, window);
        int wrong = 0;
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
                const std::vector<uint32_t> row(a.begin() + 32 * i, a.begin() + 32 * (i + 1));
                const std::vector<uint32_t> column(b.begin() + 32 * j, b.begin() + 32 * (j + 1));
                const size_t at = static_cast<size_t>(i * n + j);
                wrong += d[at] != fused_dot_f16(fa, fb, row.data(), column.data(), 32, c[at], accumulate, window);
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("integer dot products", "[tensor_core]") {
    const uint32_t a[4] = {0x80, 0xff, 0x7f, 1}, b[4] = {0x80, 2, 0xff, 0};
    CHECK(integer_dot(Format::kS8, Format::kS8, a, b, 4, 0, false, false) == 16384 - 2 - 127);
    CHECK(integer_dot(Format::kU8, Format::kU8, a, b, 4, 10, true, false) == 16384 + 510 + 127 * 255 + 10);
    CHECK(integer_dot(Format::kU8, Format::kS8, a, b, 4, 0, false, false) == -16384 + 510 - 127);
    CHECK(integer_dot(Format::kS8, Format::kS8, a, b, 1, INT32_MAX, true, true) == INT32_MAX);
    CHECK(integer_dot(Format::kS8, Format::kS8, a, b, 1, INT32_MAX, true, false) == INT32_MIN + 16383);
    CHECK(integer_dot(Format::kS8, Format::kU8, a, b, 1, INT32_MIN, true, true) == INT32_MIN);
}

TEST_CASE("every pair of codes, alone", "[tensor_core]") {
    // column j of B holds code j at k = 0; row i of A code i; all 65,536 products of one format pair
    for (auto [fa, fb] : {std::pair{Format::kE4m3, Format::kE4m3}, std::pair{Format::kE5m2, Format::kE4m3},
                          std::pair{Format::kE5m2, Format::kE5m2}}) {
        Tile tile{256, 256, std::vector<uint8_t>(32 * 256), std::vector<uint8_t>(32 * 256),
                  std::vector<uint32_t>(256 * 256)};
        for (int i = 0; i < 256; ++i) tile.a[32 * i] = tile.b[32 * i] = static_cast<uint8_t>(i);
        check_step(tile, fa, fb, false, kSm100Rule);
        check_step(tile, fa, fb, true, kSm90Rule);
    }
}

TEST_CASE("the fast path has the bits of fused_dot", "[tensor_core]") {
    std::mt19937 random(20240607);
    const Format formats[] = {Format::kE4m3, Format::kE5m2, Format::kE2m3, Format::kE3m2, Format::kE2m1};
    const WindowRule rules[] = {kSm100Rule, kSm90Rule, {24, 23}, {25, 20}, {5, 6}, {1, 3}, {26, 23}};
    auto chain = [&](int m, int n, Format fa, Format fb, Fill fill_a, Fill fill_b, WindowRule rule) {
        Tile tile = make_tile(m, n, fa, fb, fill_a, fill_b, random);
        check_step(tile, fa, fb, false, rule);
        for (int step = 0; step < 3; ++step) {
            Tile next = make_tile(m, n, fa, fb, fill_a, fill_b, random);
            next.d = tile.d;
            check_step(next, fa, fb, true, rule);
            tile = next;
        }
    };
    SECTION("e4m3, chains of four, every kind of data, both rules") {
        for (WindowRule rule : {kSm100Rule, kSm90Rule}) {
            for (Fill fill_a : {Fill::kAnyFinite, Fill::kLattice, Fill::kSubnormals, Fill::kHeavyTail, Fill::kSparse}) {
                for (Fill fill_b : {Fill::kAnyFinite, Fill::kLattice, Fill::kSubnormals, Fill::kHeavyTail}) {
                    chain(16, 64, Format::kE4m3, Format::kE4m3, fill_a, fill_b, rule);
                }
            }
        }
    }
    SECTION("every pair of formats, every code") {
        for (Format fa : formats) {
            for (Format fb : formats) {
                for (WindowRule rule : {kSm100Rule, kSm90Rule}) {
                    chain(5, 40, fa, fb, Fill::kAnyFinite, Fill::kAnyFinite, rule);
                    chain(5, 40, fa, fb, Fill::kSparse, Fill::kAnyFinite, rule);
                    chain(3, 24, fa, fb, Fill::kAnyCode, Fill::kAnyCode, rule);
                }
            }
        }
    }
    SECTION("odd shapes, odd rules") {
        for (WindowRule rule : rules) {
            for (int n : {1, 8, 63, 65, 256, 257, 300}) {
                chain(2, n, Format::kE4m3, Format::kE4m3, Fill::kHeavyTail, Fill::kAnyFinite, rule);
                chain(1, n, Format::kE5m2, Format::kE4m3, Fill::kSparse, Fill::kLattice, rule);
            }
        }
    }
    SECTION("arbitrary accumulators") {
        for (int round = 0; round < 24; ++round) {
            const Format fa = formats[round % 2], fb = formats[round / 2 % 2];
            const Fill fill = round % 3 == 0 ? Fill::kSparse : round % 3 == 1 ? Fill::kAnyFinite : Fill::kLattice;
            Tile tile = make_tile(8, 96, fa, fb, fill, fill, random);
            for (uint32_t& c : tile.d) {
                c = static_cast<uint32_t>(random());                            // any float: inf, NaN, subnormal, huge
                switch (random() % 6) {
                    case 0: c = bits_of(static_cast<float>(static_cast<int>(random() % 4001) - 2000)); break;
                    case 1: c &= 0x80000000; break;
                    case 2: c = (c & 0x807fffff) | (127 + 20 - random() % 40) << 23; break;
                    case 3: c &= 0x807fffff; break;
                    default: break;
                }
            }
            check_step(tile, fa, fb, true, round & 4 ? kSm90Rule : kSm100Rule);
        }
    }
    SECTION("the border between the exact way and the window") {
        // one product at the top, others one unit: sums just inside and outside of what fits
        for (int round = 0; round < 60; ++round) {
            Tile tile = make_tile(4, 64, Format::kE4m3, Format::kE4m3, Fill::kLattice, Fill::kLattice, random);
            for (int i = 0; i < 4; ++i) tile.a[32 * i] = static_cast<uint8_t>(random() % 0x7f);
            for (int j = 0; j < 64; ++j) tile.b[32 * j + random() % 2] = static_cast<uint8_t>(0x80 | random() % 0x7f);
            if (round % 2) {
                for (int i = 0; i < 4; ++i) tile.a[32 * i + 1] = kMinSubnormal;
            }
            for (uint32_t& c : tile.d) {
                c = bits_of(std::ldexp(static_cast<float>(random() % 3), int(random() % 30) - 9));
            }
            check_step(tile, Format::kE4m3, Format::kE4m3, true, round & 4 ? kSm90Rule : kSm100Rule);
        }
    }
}

TEST_CASE("nothing is written beside the tile", "[tensor_core]") {
    std::mt19937 random(7);
    Tile tile = make_tile(3, 20, Format::kE4m3, Format::kE4m3, Fill::kAnyFinite, Fill::kAnyFinite, random);
    std::vector<uint32_t> d(3 * 32, 0xdeadbeef);
    mma_fp8_k32(Format::kE4m3, Format::kE4m3, tile.a.data(), tile.b.data(), 3, 20, d.data(), 32, false, kSm100Rule);
    const std::vector<uint32_t> expected = slow_product(tile, Format::kE4m3, Format::kE4m3, false, kSm100Rule);
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 32; ++j) CHECK(d[32 * i + j] == (j < 20 ? expected[20 * i + j] : 0xdeadbeef));
    }
}

TEST_CASE("instruction descriptor", "[tensor_core]") {
    InstrDescriptor d;
    const uint32_t e4m3_128 = 1u << 4 | 16u << 17 | 8u << 24;                   // 0x08200010
    auto f8 = [&](uint32_t bits, int group = 1) { return decode_instr_descriptor(bits, MmaKind::kF8f6f4, group, &d); };
    REQUIRE(e4m3_128 == 0x08200010);
    REQUIRE(f8(e4m3_128).empty());
    CHECK(d.a == Format::kE4m3);
    CHECK(d.b == Format::kE4m3);
    CHECK(d.m == 128);
    CHECK(d.n == 128);
    CHECK(d.d_f32);
    CHECK_FALSE((d.negate_a || d.negate_b || d.transpose_a || d.transpose_b || d.saturate));
    REQUIRE(f8((e4m3_128 | 1u << 7 | 5u << 10 | 1u << 13 | 1u << 15) & ~(1u << 4)).empty());
    CHECK(d.a == Format::kE5m2);
    CHECK(d.b == Format::kE2m1);
    CHECK(d.negate_a);
    CHECK(d.transpose_a);
    CHECK_FALSE(d.d_f32);

    for (uint32_t code : {2u, 6u, 7u}) {
        CHECK_FALSE(f8(e4m3_128 | code << 7).empty());
        CHECK_FALSE(f8(e4m3_128 | code << 10).empty());
    }
    for (uint32_t bit : {0u, 1u, 2u, 3u, 6u, 23u, 29u, 30u, 31u}) CHECK_FALSE(f8(e4m3_128 | 1u << bit).empty());
    CHECK_FALSE(f8(e4m3_128 ^ (1u << 4 | 2u << 4)).empty());                    // D type S32
    CHECK_FALSE(f8(e4m3_128 | 1u << 16 | 5u << 10).empty());                    // MN-major 4-bit B

    auto shape = [](uint32_t m, uint32_t n) { return 1u << 4 | (n >> 3) << 17 | (m >> 4) << 24; };
    for (uint32_t m : {16u, 32u, 96u, 256u}) CHECK_FALSE(f8(shape(m, 64)).empty());
    for (uint32_t m : {64u, 128u}) CHECK(f8(shape(m, 96)).empty());
    for (uint32_t n : {8u, 24u, 96u, 256u}) CHECK(f8(shape(128, n)).empty());
    for (uint32_t n : {0u, 264u, 504u}) CHECK_FALSE(f8(shape(128, n)).empty());
    CHECK_FALSE(f8(shape(128, 24) | 1u << 16).empty());                         // MN-major B: steps of 16
    CHECK(f8(shape(256, 32), 2).empty());
    CHECK(f8(shape(128, 32), 2).empty());
    CHECK_FALSE(f8(shape(64, 32), 2).empty());
    CHECK_FALSE(f8(shape(256, 24), 2).empty());
    CHECK(f8(shape(128, 0)) != "");
    CHECK(f8(shape(32, 64)).find("M (bits 24-28) = 32") != std::string::npos);

    const uint32_t i8 = 2u << 4 | 1u << 7 | (64u >> 3) << 17 | (128u >> 4) << 24;
    REQUIRE(decode_instr_descriptor(i8 | 1u << 3, MmaKind::kI8, 1, &d).empty());
    CHECK(d.a == Format::kS8);
    CHECK(d.b == Format::kU8);
    CHECK(d.saturate);
    CHECK_FALSE(decode_instr_descriptor(i8 ^ (2u << 4 | 1u << 4), MmaKind::kI8, 1, &d).empty());
    CHECK_FALSE(decode_instr_descriptor((i8 & ~(63u << 17)) | 5u << 17, MmaKind::kI8, 1, &d).empty());   // N = 40
    CHECK(decode_instr_descriptor((i8 & ~(63u << 17)) | 3u << 17, MmaKind::kI8, 1, &d).empty());         // N = 24
    CHECK(decode_instr_descriptor(shape(128, 64) | 2u << 7 | 2u << 10, MmaKind::kTf32, 1, &d).empty());
    CHECK_FALSE(decode_instr_descriptor(shape(128, 64), MmaKind::kTf32, 1, &d).empty());
    CHECK(decode_instr_descriptor(shape(128, 64) | 1u << 7, MmaKind::kF16, 1, &d).empty());
    CHECK(d.a == Format::kBf16);
    CHECK(d.b == Format::kF16);
}

namespace {
uint64_t sm100_descriptor(uint32_t start, uint32_t lbo, uint32_t sbo, uint64_t swizzle) {
    return 1ull << 46 | swizzle << 61 | uint64_t{sbo >> 4} << 32 | uint64_t{lbo >> 4} << 16 | start >> 4;
}
}  // namespace

TEST_CASE("shared-memory descriptor", "[tensor_core]") {
    SmemDescriptor d;
    REQUIRE(decode_smem_descriptor(0x4000404000000000 | 0x400 >> 4, true, &d).empty());
    CHECK(d.start == 0x400);
    CHECK(d.sbo == 1024);
    CHECK(d.swizzle_bytes == 128);
    CHECK_FALSE(d.atom_32b);
    const uint64_t plain = sm100_descriptor(0x400, 16, 1024, 2);
    CHECK(decode_smem_descriptor(plain + 2, true, &d).empty());                 // advanced by 32 bytes of K
    CHECK(d.start == 0x420);
    CHECK(decode_smem_descriptor(plain + (128 >> 4), true, &d).empty());        // off its boundary: a warning elsewhere
    CHECK(smem_operand_address(d, 0, 0) == (0x480 ^ 0x10));                      // the swizzle is one of addresses
    CHECK_FALSE(decode_smem_descriptor(plain & ~(1ull << 46), true, &d).empty());
    for (int bit : {14, 15, 30, 31, 47, 48, 49, 50, 51, 52, 53, 60}) {
        INFO(bit);
        CHECK_FALSE(decode_smem_descriptor(plain | 1ull << bit, true, &d).empty());
    }
    for (uint64_t swizzle : {3, 5, 7}) {
        CHECK_FALSE(decode_smem_descriptor(sm100_descriptor(0, 0, 64, swizzle), true, &d).empty());
    }
    CHECK(decode_smem_descriptor(sm100_descriptor(0x200, 0, 512, 4), true, &d).empty());
    CHECK(d.swizzle_bytes == 64);
    CHECK(decode_smem_descriptor(sm100_descriptor(0x100, 0, 256, 6), true, &d).empty());
    CHECK(d.swizzle_bytes == 32);

    const uint64_t hopper = 1ull << 62 | uint64_t{1024 >> 4} << 32 | 0x800 >> 4;
    REQUIRE(decode_smem_descriptor(hopper, false, &d).empty());
    CHECK(d.swizzle_bytes == 128);
    CHECK(d.start == 0x800);
    CHECK_FALSE(decode_smem_descriptor(plain, false, &d).empty());              // Blackwell's version bit
}

TEST_CASE("operand addresses", "[tensor_core]") {
    SmemDescriptor d;
    SECTION("SW128, K-major: row 3, byte 37 of an operand at 1024, advanced by 32") {
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0x420, 0, 1024, 2), true, &d).empty());
        // linear 0x420 + 3 * 128 + 5 = 0x5a5; bits 7-9 are 3: 0x5a5 ^ 0x30
        CHECK(smem_operand_address(d, 3, 5) == 0x595);
        CHECK(smem_operand_address(d, 11, 5) == 0x595 + 1024);
    }
    SECTION("SW64 and SW32: the row pitch is the span") {
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0x200, 0, 512, 4), true, &d).empty());
        CHECK(smem_operand_address(d, 6, 17) == ((0x200 + 6 * 64 + 17) ^ 0x30));
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0x100, 0, 256, 6), true, &d).empty());
        CHECK(smem_operand_address(d, 5, 3) == ((0x100 + 5 * 32 + 3) ^ 0x10));
    }
    SECTION("no swizzle: LBO along K, SBO per 8 rows") {
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0x1000, 64, 32, 0), true, &d).empty());
        CHECK(smem_operand_address(d, 9, 20) == 0x1000 + 32 + 16 + 64 + 4);
    }
    SECTION("MN-major") {
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0x400, 4096, 1024, 2), true, &d).empty());
        // mn 130 -> second group of 128, byte 2; k 11 -> second group of 8, line 3
        CHECK(smem_operand_address_mn(d, 130, 11) == ((0x400 + 4096 + 2 + 1024 + 3 * 128) ^ 0x30));
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0, 2048, 128, 0), true, &d).empty());
        CHECK(smem_operand_address_mn(d, 20, 9) == 128 + 4 + 2048 + 16);
    }
    SECTION("gathering what a TMA-like writer put there, all four K slices") {
        std::vector<uint8_t> shared(0x400 + 128 * 128);
        auto content = [](int row, int byte) { return static_cast<uint8_t>(row * 7 + byte * 13 + 1); };
        for (int row = 0; row < 128; ++row) {
            for (int byte = 0; byte < 128; ++byte) {
                const int chunk = byte / 16 ^ row % 8;                          // the picture of the 128-byte swizzle
                shared[0x400 + row * 128 + chunk * 16 + byte % 16] = content(row, byte);
            }
        }
        for (int slice = 0; slice < 4; ++slice) {
            REQUIRE(decode_smem_descriptor(sm100_descriptor(0x400 + 32 * slice, 0, 1024, 2), true, &d).empty());
            std::vector<uint8_t> out(128 * 32);
            REQUIRE(gather_operand(d, shared.data(), uint32_t(shared.size()), 128, 32, out.data()).empty());
            bool same = true;
            for (int row = 0; row < 128; ++row) {
                for (int byte = 0; byte < 32; ++byte) same &= out[row * 32 + byte] == content(row, 32 * slice + byte);
            }
            CHECK(same);
        }
        // The last slice of row 127 (7 modulo 8) lies in the first 32 bytes of its line.
        std::vector<uint8_t> out(128 * 32);
        const uint32_t end = 0x400 + 127 * 128 + 32;
        CHECK(gather_operand(d, shared.data(), end, 128, 32, out.data()).empty());
        CHECK_FALSE(gather_operand(d, shared.data(), end - 1, 128, 32, out.data()).empty());
        CHECK(gather_operand(d, shared.data(), 0x3000, 128, 32, out.data()).find("12288") != std::string::npos);
    }
    SECTION("gathering MN-major transposes") {
        std::vector<uint8_t> shared(128 * 32);
        for (int k = 0; k < 32; ++k) {
            for (int mn = 0; mn < 128; ++mn) {
                shared[k * 128 + (mn / 16 ^ k % 8) * 16 + mn % 16] = uint8_t(mn * 3 + k * 5);
            }
        }
        REQUIRE(decode_smem_descriptor(sm100_descriptor(0, 0, 1024, 2), true, &d).empty());
        std::vector<uint8_t> out(128 * 32);
        REQUIRE(gather_operand_mn(d, shared.data(), uint32_t(shared.size()), 128, 32, out.data()).empty());
        bool same = true;
        for (int mn = 0; mn < 128; ++mn) {
            for (int k = 0; k < 32; ++k) same &= out[mn * 32 + k] == uint8_t(mn * 3 + k * 5);
        }
        CHECK(same);
    }
}

TEST_CASE("Tensor Memory allocation", "[tensor_core]") {
    Tmem tmem;
    CHECK(tmem.allocate(128) == 0);
    CHECK(tmem.allocate(256) == 256);
    CHECK(tmem.allocate(64) == 128);
    CHECK(tmem.allocate(128) == -1);
    CHECK(tmem.allocate(64) == 192);
    CHECK(tmem.allocate(32) == -1);
    CHECK(tmem.allocated_columns() == 512);
    CHECK(tmem.is_allocated(0, 512));
    CHECK_FALSE(tmem.is_allocated(500, 13));
    CHECK_FALSE(tmem.is_allocated(-1, 2));
    for (int columns : {0, -32, 16, 48, 96, 1024}) CHECK(tmem.allocate(columns) == -2);
    CHECK_FALSE(tmem.release(0, 64).empty());          // allocated with 128
    CHECK_FALSE(tmem.release(32, 32).empty());         // inside another
    CHECK_FALSE(tmem.release(7, 32).empty());
    CHECK_FALSE(tmem.release(512, 32).empty());
    CHECK(tmem.release(0, 128).empty());
    CHECK_FALSE(tmem.release(0, 128).empty());         // twice
    CHECK_FALSE(tmem.is_allocated(96, 64));
    CHECK(tmem.is_allocated(128, 384));
    CHECK(tmem.allocate(32) == 0);
    tmem.relinquish();
    CHECK(tmem.allocate(32) == -2);
    CHECK(tmem.release(0, 32).empty());
}

TEST_CASE("tcgen05.ld and st fragments", "[tensor_core]") {
    CHECK(tmem_registers(TmemShape::k32x32b, 128) == 128);
    CHECK(tmem_registers(TmemShape::k16x128b, 64) == 128);
    CHECK(tmem_registers(TmemShape::k16x128b, 128) == 0);
    CHECK(tmem_registers(TmemShape::k16x256b, 32) == 128);
    CHECK(tmem_registers(TmemShape::k16x256b, 64) == 0);
    CHECK(tmem_registers(TmemShape::k32x32b, 3) == 0);
    // Every shape covers its lanes x columns exactly once.
    struct Case { TmemShape shape; int num, lanes, columns; };
    for (const Case& c : {Case{TmemShape::k32x32b, 4, 32, 4}, Case{TmemShape::k16x64b, 4, 16, 8},
                          Case{TmemShape::k16x128b, 2, 16, 8}, Case{TmemShape::k16x256b, 2, 16, 16},
                          Case{TmemShape::k16x32bx2, 4, 16, 8}}) {
        std::vector<int> hits(size_t(c.lanes) * c.columns);
        for (int t = 0; t < 32; ++t) {
            for (int i = 0; i < tmem_registers(c.shape, c.num); ++i) {
                int lane = -1, column = -1;
                tmem_cell(c.shape, t, i, 4, &lane, &column);
                REQUIRE((lane >= 0 && lane < c.lanes && column >= 0 && column < c.columns));
                ++hits[size_t(lane) * c.columns + column];
            }
        }
        CHECK(std::count(hits.begin(), hits.end(), 1) == int(hits.size()));
    }
    int lane, column;
    tmem_cell(TmemShape::k16x256b, 5, 2, 0, &lane, &column);                    // the C fragment of mma.m16n8
    CHECK((lane == 9 && column == 2));
    tmem_cell(TmemShape::k16x32bx2, 20, 3, 64, &lane, &column);
    CHECK((lane == 4 && column == 67));
}

TEST_CASE("where D lies", "[tensor_core]") {
    int lane, column;
    CHECK(tmem_d_cell(128, 1, 77, 5, 128, &lane, &column) == 0);
    CHECK((lane == 77 && column == 5));
    CHECK(tmem_d_cell(64, 1, 37, 5, 128, &lane, &column) == 0);                 // 37 = 2 * 16 + 5 -> lane 69
    CHECK((lane == 69 && column == 5));
    CHECK(tmem_d_cell(256, 2, 200, 5, 128, &lane, &column) == 1);
    CHECK((lane == 72 && column == 5));
    CHECK(tmem_d_cell(128, 2, 70, 100, 128, &lane, &column) == 1);
    CHECK((lane == 70 && column == 36));
    wgmma_d_cell(0, 0, &lane, &column);
    CHECK((lane == 0 && column == 0));
    wgmma_d_cell(37, 7, &lane, &column);              // warp 1, lane 5: row 16 + 1 + 8, column 8 + 2 + 1
    CHECK((lane == 25 && column == 11));
}

TEST_CASE("speed of a 128 x 128 x 32 step", "[.bench]") {
    std::mt19937 random(3);
    for (SimdPath path : {SimdPath::kBaseline, SimdPath::kAvx2, SimdPath::kAvx512}) {
        if (!simd_path_available(path)) continue;
        for (Fill fill : {Fill::kHeavyTail, Fill::kAnyFinite, Fill::kLattice}) {
            Tile tile = make_tile(128, 128, Format::kE4m3, Format::kE4m3, fill, fill, random);
            double best = 1e9;
            for (int round = 0; round < 20; ++round) {
                const auto start = std::chrono::steady_clock::now();
                for (int step = 0; step < 4; ++step) {
                    mma_fp8_k32_on(path, Format::kE4m3, Format::kE4m3, tile.a.data(), tile.b.data(), 128, 128,
                                   tile.d.data(), 128, step != 0, kSm100Rule);
                }
                const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
                best = std::min(best, time.count() / 4);
            }
            const char* data = fill == Fill::kHeavyTail ? "heavy tail"
                               : fill == Fill::kLattice ? "lattice"
                                                        : "any code";
            std::printf("path %d %s: %.1f us\n", int(path), data, best);
        }
    }
}

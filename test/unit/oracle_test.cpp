// SPDX-License-Identifier: Apache-2.0
// The reference itself: hand-computed values, the bound against an independent model, the lattice's promises.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "catch_any.h"
#include "test/ref/error_bound.h"
#include "test/ref/lattice.h"
#include "test/ref/oracle.h"
#include "test/ref/portable_rng.h"
#include "test/ref/sm100_model.h"

using namespace lidx::ref;

namespace {

constexpr int kDepth = 128;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<uint8_t> codes_of(std::vector<double> values, size_t size = kDepth) {
    values.resize(size);
    std::vector<uint8_t> codes(size);
    for (size_t i = 0; i < size; ++i) codes[i] = e4m3_encode(values[i]);
    return codes;
}

struct Problem {
    int heads;
    std::vector<uint8_t> q;       // [heads, 128]
    std::vector<float> q_scale;   // [heads]
    std::vector<uint8_t> k;       // [128]
    float k_scale = 1;
    std::vector<Operand> q_operands;
    Operand k_operand;

    explicit Problem(int heads_)
        : heads(heads_), q(heads_ * kDepth), q_scale(heads_, 1.0f), k(kDepth), q_operands(heads_) {}
    double oracle() const { return score(q.data(), q_scale.data(), heads, kDepth, k.data(), k_scale); }
    BoundedScore bounded(Arithmetic arithmetic) {
        for (int h = 0; h < heads; ++h) q_operands[h].decode(q.data() + h * kDepth, kDepth);
        k_operand.decode(k.data(), kDepth);
        return bounded_score(q_operands.data(), q_scale.data(), heads, k_operand, k_scale, arithmetic);
    }
};

// Operands as quantisation leaves them, or any finite code at all.
Problem random_problem(Rng& rng, int heads, bool any_code) {
    Problem p(heads);
    const auto draw = [&](uint8_t* codes) {
        double x[kDepth];
        for (double& value : x) value = rng.heavy_tailed();
        const float scale = e4m3_quantise(x, kDepth, codes);
        if (any_code)
            for (int i = 0; i < kDepth; ++i) codes[i] = static_cast<uint8_t>(rng.below(2) << 7 | rng.below(0x7f));
        return scale;
    };
    for (int h = 0; h < heads; ++h) p.q_scale[h] = static_cast<float>(rng.normal()) * draw(p.q.data() + h * kDepth);
    p.k_scale = draw(p.k.data());
    return p;
}

}  // namespace

TEST_CASE("e4m3: values by hand", "[e4m3]") {
    REQUIRE(e4m3_decode(0x00) == 0);
    REQUIRE(std::signbit(e4m3_decode(0x80)));
    REQUIRE(e4m3_decode(0x01) == 1.0 / 512);
    REQUIRE(e4m3_decode(0x07) == 7.0 / 512);
    REQUIRE(e4m3_decode(0x08) == 1.0 / 64);
    REQUIRE(e4m3_decode(0x38) == 1);
    REQUIRE(e4m3_decode(0xb9) == -1.125);
    REQUIRE(e4m3_decode(0x7e) == 448);
    REQUIRE(std::isnan(e4m3_decode(0x7f)));
    REQUIRE(std::isnan(e4m3_decode(0xff)));
    REQUIRE(e4m3_raw_exponent(0x01) == -6);
    REQUIRE(e4m3_raw_exponent(0x08) == -6);
    REQUIRE(e4m3_raw_exponent(0x10) == -5);
    REQUIRE(e4m3_raw_exponent(0x7e) == 8);
}

TEST_CASE("e4m3: encoding is nearest, ties to even, saturating", "[e4m3]") {
    for (int code = 0; code < 256; ++code)
        if ((code & 0x7f) != 0x7f) REQUIRE(int(e4m3_encode(e4m3_decode(static_cast<uint8_t>(code)))) == code);
    for (int code = 0; code < 0x7e; ++code) {
        const double low = e4m3_decode(static_cast<uint8_t>(code)), high = e4m3_decode(static_cast<uint8_t>(code + 1));
        const double middle = (low + high) / 2;
        REQUIRE(int(e4m3_encode(middle)) == code + (code & 1));
        REQUIRE(int(e4m3_encode(std::nextafter(middle, 0))) == code);
        REQUIRE(int(e4m3_encode(std::nextafter(middle, 1000))) == code + 1);
        REQUIRE(int(e4m3_encode(-middle)) == (0x80 | (code + (code & 1))));
    }
    REQUIRE(int(e4m3_encode(1e9)) == 0x7e);
    REQUIRE(int(e4m3_encode(-kInfinity)) == 0xfe);
    REQUIRE(int(e4m3_encode(std::nan(""))) == 0x7f);
}

TEST_CASE("e4m3: quantisation clamps the largest magnitude at 1e-4", "[e4m3]") {
    uint8_t codes[3];
    const double x[3] = {1, -2, 4};
    REQUIRE(e4m3_quantise(x, 3, codes) == 4.0f / 448);
    REQUIRE(int(codes[0]) == int(e4m3_encode(112)));
    REQUIRE(int(codes[1]) == int(e4m3_encode(-224)));
    REQUIRE(int(codes[2]) == 0x7e);
    const double zeros[3] = {};
    REQUIRE(e4m3_quantise(zeros, 3, codes) == 1e-4f / 448);
    REQUIRE(int(codes[0]) == 0);
}

TEST_CASE("oracle: hand-computed scores", "[oracle]") {
    // d0 = 1*2 + 2*3 + (-1)*4 = 4; d1 = -1*2 + 0.5*4 = 0 .. -> relu 0; d2 = -8, relu 0. score = 0.5 * (3 * 4 - 2 * 0 +
    // 1 * 0) = 6
    Problem p(3);
    const auto q0 = codes_of({1, 2, -1}), q1 = codes_of({-1, 0, 0.5}), q2 = codes_of({-4});
    std::copy(q0.begin(), q0.end(), p.q.begin());
    std::copy(q1.begin(), q1.end(), p.q.begin() + kDepth);
    std::copy(q2.begin(), q2.end(), p.q.begin() + 2 * kDepth);
    p.k = codes_of({2, 3, 4});
    p.q_scale = {3, -2, 1};
    p.k_scale = 0.5f;
    REQUIRE(dot(q0.data(), p.k.data(), kDepth) == 4);
    REQUIRE(dot(q1.data(), p.k.data(), kDepth) == 0);
    REQUIRE(dot(q2.data(), p.k.data(), kDepth) == -8);
    REQUIRE(p.oracle() == 6);
    p.q_scale = {-3, 5, 7};
    REQUIRE(p.oracle() == -6);
}

TEST_CASE("oracle: a sum of nothing is +0", "[oracle]") {
    Problem p(4);
    p.q_scale = {-1, -2, -3, -4};
    REQUIRE(p.oracle() == 0);
    REQUIRE_FALSE(std::signbit(p.oracle()));
}

TEST_CASE("oracle: the smallest and the largest products are exact", "[oracle]") {
    Problem p(1);
    std::fill(p.q.begin(), p.q.end(), 0x7e);
    std::fill(p.k.begin(), p.k.end(), 0x7e);
    p.q[0] = p.k[0] = 0x01;
    REQUIRE(p.oracle() == 127.0 * 448 * 448 + 1.0 / 262144);
}

TEST_CASE("oracle: NaN codes and scales", "[oracle]") {
    Problem p(2);
    p.q = codes_of({1}, 2 * kDepth);
    p.k = codes_of({-1, 1});
    p.k[5] = 0xff;
    REQUIRE(std::isnan(p.oracle()));   // relu must not hide it
    p.k[5] = 0;
    REQUIRE(p.oracle() == 0);
    p.q_scale[0] = std::numeric_limits<float>::infinity();
    REQUIRE(std::isnan(p.oracle()));   // infinity * relu(-1)
    p.k = codes_of({1});
    REQUIRE(p.oracle() == kInfinity);
    p.k_scale = 0;
    REQUIRE(std::isnan(p.oracle()));
    p.q_scale[0] = 1;
    p.k_scale = std::nanf("");
    REQUIRE(std::isnan(p.oracle()));
}

TEST_CASE("bound: one product, by hand", "[bound]") {
    // 1.125 * 1.125 = 81/64: R = 0. sm_100: g = 2^-25, nothing is lost; each of the four results may lose 2^(0 - 23),
    // and from the second step on the carried sum may lose g. sm_90: g = 2^-13, result 2^-13.
    Operand a, b;
    a.decode(codes_of({1.125}).data(), kDepth);
    b.decode(codes_of({1.125}).data(), kDepth);
    const BoundedDot sm100 = bounded_dot(a, b, kSm100);
    REQUIRE(sm100.value == 81.0 / 64);
    REQUIRE(sm100.eps == 4 * 0x1p-23 + 3 * 0x1p-25);
    REQUIRE(bounded_dot(a, b, kSm90).eps == 7 * 0x1p-13);
    REQUIRE(std::fabs(bounded_dot(a, b, kFp32).eps / (128 * 0x1p-24 * 81 / 64) - 1) < 1e-4);
}

TEST_CASE("bound: a small product beside a large one loses itself or g", "[bound]") {
    // 256 * 256 has R = 16; sm_90: g = 2^3. A product of 1 is cut away: it loses 1. A product of 9 loses at most g = 8.
    Operand a, b;
    a.decode(codes_of({256, 1, 9}).data(), kDepth);
    b.decode(codes_of({256, 1, 1}).data(), kDepth);
    double eps = 1 + 8 + 8;                              // the two products, and the result's last place 2^(16 - 13)
    for (int step = 1; step < 4; ++step) eps += 8 + 8;   // carried sum and result
    REQUIRE(bounded_dot(a, b, kSm90).eps == eps);
    // sm_100: g = 2^-9, everything is a multiple of it.
    REQUIRE(bounded_dot(a, b, kSm100).eps == 4 * 0x1p-7 + 3 * 0x1p-9);
}

TEST_CASE("bound: zeros cost nothing", "[bound]") {
    Operand a, b;
    a.decode(codes_of({}).data(), kDepth);
    b.decode(codes_of({3}).data(), kDepth);
    for (const Arithmetic arithmetic : {kSm100, kSm90, kFp32}) {
        REQUIRE(bounded_dot(a, b, arithmetic).value == 0);
        REQUIRE(bounded_dot(a, b, arithmetic).eps == 0);
    }
}

TEST_CASE("model: one step by hand", "[model]") {
    // sm_90: 256 * 256 = 2^16 sets R = 16, g = 8: 9 becomes 8, 1 becomes 0.
    const auto a = codes_of({256, 1, 9}), b = codes_of({256, 1, 1});
    REQUIRE(model_dot(a.data(), b.data(), kDepth, kSm90Window) == 65536 + 8);
    REQUIRE(model_dot(a.data(), b.data(), kDepth, kSm100Window) == 65536 + 10);
    // Cut toward zero, not to nearest: 1 + 15/16 has one bit too many for nobody, -(2^16) + 9 keeps -65528 (g = 8: 9 ->
    // 8).
    const auto c = codes_of({-256, 0, 9});
    REQUIRE(model_dot(c.data(), b.data(), kDepth, kSm90Window) == -65536 + 8);
    // A result of 14 significant bits on sm_90: 2^14 * 1 + 1 * 1 in one step has R = 14, g = 2, so 1 is lost; 3
    // keeps 2.
    const auto d = codes_of({128, 3}), e = codes_of({128, 1});
    REQUIRE(model_dot(d.data(), e.data(), kDepth, kSm90Window) == 16384 + 2);
    const auto nan = std::vector<uint8_t>(kDepth, 0x7f);
    REQUIRE(std::bit_cast<uint32_t>(model_dot(nan.data(), e.data(), kDepth, kSm100Window)) == 0x7fffffffu);
    const auto zero = codes_of({-0.0});
    REQUIRE(std::bit_cast<uint32_t>(model_dot(zero.data(), e.data(), kDepth, kSm100Window)) == 0u);
}

TEST_CASE("model: sums over even and odd heads are apart", "[model]") {
    // In order: 2^24 + 1 + 1 = 2^24 in fp32. Apart: even 2^24 + 1 -> 2^24, odd 1: 2^24 + 1 -> 2^24; with odd 1 + 1 = 2:
    // 2^24 + 2.
    const float dots[4] = {16777216.0f, 1, 0, 1};
    const float ones[4] = {1, 1, 1, 1};
    REQUIRE(sm100_head_sum(dots, ones, 4, 1) == 16777218.0f);
    const float nan_dots[2] = {canonical_nan(), -1};
    REQUIRE(std::bit_cast<uint32_t>(sm100_head_sum(nan_dots, ones, 2, 1)) == 0x7fffffffu);
    const float negative[2] = {-5, -6};
    REQUIRE(std::bit_cast<uint32_t>(sm100_head_sum(negative, ones, 2, 1)) == 0u);
}

TEST_CASE("bound: 1200 random dots of the model stay inside it and come near it", "[bound]") {
    struct Row {
        Arithmetic arithmetic;
        FixedWindow window;
    };
    for (const Row& row : {Row{kSm100, kSm100Window}, Row{kSm90, kSm90Window}}) {
        for (const bool any_code : {false, true}) {
            Rng rng(11, any_code);
            double largest = 0;
            for (int i = 0; i < 1200; ++i) {
                const Problem p = random_problem(rng, 1, any_code);
                Operand q, k;
                q.decode(p.q.data(), kDepth);
                k.decode(p.k.data(), kDepth);
                const BoundedDot bounded = bounded_dot(q, k, row.arithmetic);
                REQUIRE(bounded.value == dot(p.q.data(), p.k.data(), kDepth));
                const double error = std::fabs(model_dot(p.q.data(), p.k.data(), kDepth, row.window) - bounded.value);
                REQUIRE(error <= bounded.eps);
                largest = std::max(largest, bounded.eps > 0 ? error / bounded.eps : 0);
            }
            INFO(row.arithmetic.name << (any_code ? ", any code" : ", quantised") << ": largest ratio " << largest);
            CHECK(largest > 0.2);
            CHECK(largest <= 1);
        }
    }
}

TEST_CASE("bound: scores of the model pass, moved by twice the bound they fail", "[bound]") {
    for (const int heads : {1, 32, 64, 128}) {
        Rng rng(12, heads);
        for (int i = 0; i < 100; ++i) {
            Problem p = random_problem(rng, heads, i % 2 == 1);
            const BoundedScore expected = p.bounded(kSm100);
            REQUIRE(expected.value == p.oracle());
            REQUIRE(expected.bound > 0);
            const float computed = sm100_score_model(p.q.data(), p.q_scale.data(), heads, p.k.data(), p.k_scale);
            REQUIRE(within_bound(computed, expected));
            for (const double sign : {-1.0, 1.0}) {
                const auto moved = static_cast<float>(computed + sign * 2 * expected.bound);
                // fp32 must be fine enough to show the move.
                REQUIRE(std::fabs(moved - (computed + sign * 2 * expected.bound)) < 0.5 * expected.bound);
                REQUIRE_FALSE(within_bound(moved, expected));
            }
            REQUIRE_FALSE(within_bound(std::nanf(""), expected));
        }
    }
}

TEST_CASE("bound: coarser arithmetic has the larger bound", "[bound]") {
    Rng rng(13);
    for (int i = 0; i < 50; ++i) {
        Problem p = random_problem(rng, 64, false);
        const double sm100 = p.bounded(kSm100).bound, sm90 = p.bounded(kSm90).bound, fp32 = p.bounded(kFp32).bound;
        REQUIRE(sm100 < fp32);
        REQUIRE(fp32 < sm90);
    }
}

TEST_CASE("bound: NaN, infinity and overflow", "[bound]") {
    Problem p(2);
    p.q = codes_of({1}, 2 * kDepth);
    p.k = codes_of({3});
    p.k[7] = 0x7f;
    REQUIRE(within_bound(std::nanf(""), p.bounded(kSm100)));
    REQUIRE_FALSE(within_bound(0, p.bounded(kSm100)));
    p.k[7] = 0;
    p.q_scale[0] = std::numeric_limits<float>::infinity();
    REQUIRE(within_bound(std::numeric_limits<float>::infinity(), p.bounded(kSm100)));
    REQUIRE_FALSE(within_bound(-std::numeric_limits<float>::infinity(), p.bounded(kSm100)));
    REQUIRE_FALSE(within_bound(std::nanf(""), p.bounded(kSm100)));
    p.q_scale[0] = 3e38f;
    p.k_scale = 1e3f;
    REQUIRE(std::isinf(p.bounded(kSm100).bound));   // 9e41 is beyond fp32: nothing can be demanded
}

TEST_CASE("lattice: bounds hold, few zeros, and every order of additions is exact", "[lattice]") {
    for (const int heads : {1, 2, 8, 32, 64, 128}) {
        int zeros = 0, negative_dots = 0, positive_dots = 0, negative_scores = 0;
        constexpr int kRows = 8, kKeys = 40;
        Rng rng(14, heads);
        for (int row = 0; row < kRows; ++row) {
            Problem p(heads);
            lattice_query(rng, heads, kDepth, p.q.data(), p.q_scale.data());
            for (int h = 0; h < heads; ++h) REQUIRE_NOTHROW(assert_lattice_codes(p.q.data() + h * kDepth, kDepth));
            REQUIRE_NOTHROW(assert_lattice_weights(p.q_scale.data(), heads));
            for (int key = 0; key < kKeys; ++key) {
                p.k_scale = lattice_key(rng, kDepth, p.k.data());
                REQUIRE_NOTHROW(assert_lattice_codes(p.k.data(), kDepth));
                REQUIRE_NOTHROW(assert_lattice_k_scale(p.k_scale));
                float forwards = 0, backwards = 0;
                for (int h = 0; h < heads; ++h) {
                    const uint8_t* q = p.q.data() + h * kDepth;
                    double magnitudes = 0;
                    for (int i = 0; i < kDepth; ++i) magnitudes += std::fabs(e4m3_decode(q[i]) * e4m3_decode(p.k[i]));
                    REQUIRE(magnitudes <= 8192);
                    const double d = dot(q, p.k.data(), kDepth);
                    (d < 0 ? negative_dots : positive_dots) += 1;
                    REQUIRE(model_dot(q, p.k.data(), kDepth, kSm100Window) == d);
                    REQUIRE(model_dot(q, p.k.data(), kDepth, kSm90Window) == d);
                    forwards = std::fma(p.q_scale[h], static_cast<float>(relu(d)), forwards);
                }
                for (int h = heads - 1; h >= 0; --h)
                    backwards =
                        std::fma(p.q_scale[h],
                                 static_cast<float>(relu(dot(p.q.data() + h * kDepth, p.k.data(), kDepth))), backwards);
                const double exact = p.oracle();
                const auto bits = std::bit_cast<uint32_t>(static_cast<float>(exact));
                REQUIRE(static_cast<double>(static_cast<float>(exact)) == exact);
                REQUIRE(std::bit_cast<uint32_t>(p.k_scale * forwards) == bits);
                REQUIRE(std::bit_cast<uint32_t>(p.k_scale * backwards) == bits);
                REQUIRE(std::bit_cast<uint32_t>(
                            sm100_score_model(p.q.data(), p.q_scale.data(), heads, p.k.data(), p.k_scale))
                        == bits);
                zeros += exact == 0;
                negative_scores += exact < 0;
            }
        }
        INFO(heads << " heads: " << zeros << " zeros of " << kRows * kKeys);
        CHECK(zeros * 10 <= kRows * kKeys);
        CHECK(negative_dots > 0);
        CHECK(positive_dots > 0);
        CHECK(negative_scores > 0);
    }
}

TEST_CASE("lattice: what is off the lattice is refused", "[lattice]") {
    auto codes = codes_of({8, -8, 3});
    REQUIRE_NOTHROW(assert_lattice_codes(codes.data(), kDepth));
    for (const double value : {9.0, -10.0, 0.5, 448.0}) {
        codes[3] = e4m3_encode(value);
        REQUIRE_THROWS_AS(assert_lattice_codes(codes.data(), kDepth), std::logic_error);
    }
    codes[3] = 0x7f;
    REQUIRE_THROWS_AS(assert_lattice_codes(codes.data(), kDepth), std::logic_error);
    const auto weights_ok = [](std::vector<float> w) {
        try {
            assert_lattice_weights(w.data(), static_cast<int>(w.size()));
            return true;
        } catch (const std::logic_error&) {
            return false;
        }
    };
    REQUIRE(weights_ok({1, -2, 3, -4}));
    REQUIRE(weights_ok({0.75f, -1, 0.25f}));
    REQUIRE(weights_ok({0, 0}));
    REQUIRE_FALSE(weights_ok({5}));
    REQUIRE_FALSE(weights_ok({1, 8}));
    REQUIRE_FALSE(weights_ok({0.5f, 3}));
    REQUIRE_FALSE(weights_ok({1.1f}));
    REQUIRE_NOTHROW(assert_lattice_k_scale(0.125f));
    REQUIRE_THROWS_AS(assert_lattice_k_scale(0.75f), std::logic_error);
    REQUIRE_THROWS_AS(assert_lattice_k_scale(-1), std::logic_error);
    REQUIRE_THROWS_AS(assert_lattice_k_scale(0), std::logic_error);
}

TEST_CASE("rng: the published first word and plain properties", "[rng]") {
    // SplitMix64 from state 0 begins with this word (the reference implementation, splitmix64.c).
    REQUIRE(Rng::mix(Rng::kStep) == 0xe220a8397b1dcdafu);
    Rng a(1), b(1), c(2), d(1, 1), e(1, 0, 1);
    const uint64_t first = a.next();
    REQUIRE(first == b.next());
    REQUIRE(first != c.next());
    REQUIRE(first != d.next());
    REQUIRE(first != e.next());
    Rng rng(3);
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; ++i) {
        const double x = rng.normal();
        sum += x;
        squares += x * x;
        const int64_t n = rng.between(-2, 2);
        REQUIRE((n >= -2 && n <= 2));
    }
    CHECK(std::fabs(sum / 100000) < 0.02);
    CHECK(std::fabs(squares / 100000 - 1) < 0.02);
}

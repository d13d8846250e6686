// SPDX-License-Identifier: Apache-2.0
// How far a kernel's score may be from the oracle's, derived from the arithmetic that computed it.
//
// One dot product goes through four steps of 32 products. With exact prefixes x_0 = 0 .. x_4, products p_i, raw
// exponents e(v) >= -6 and eps_0 = 0, a tensor core of window F and T result fraction bits obeys
//
//     R       = max( max over nonzero products of e(q_i) + e(k_i),
//                    floor(log2(|x_j| + eps_j)) where that is not 0 )
//     g       = 2^(R - F)
//     eps'    = eps_j + sum_i [p_i is not a multiple of g] * min(|p_i|, g) + min(|x_j| + eps_j, g)
//     eps_j+1 = eps' + 2^(floor(log2(|x_j+1| + eps')) - T)
//
// (each product and the carried sum lose less than g when they are cut, the result less than its last place). fp32 fma
// in any order: eps = gamma_128 * sum |p_i|. With u = 2^-24, gamma_n = n u / (1 - n u), H heads and weights w:
//
//     |error| <= |k_scale| * (sum |w_h| eps_h + gamma_(H+3) * sum |w_h| (|d_h| + eps_h)) * (1 + 2^-23)
//                + (2H + 2) * 2^-149 * max(1, |k_scale|)
#pragma once
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include "e4m3.h"
#include "oracle.h"

namespace lidx::ref {

struct Arithmetic {
    const char* name;
    int window;        // F; 0: fp32 fma
    int result_bits;   // T
};
inline constexpr Arithmetic kSm100{"sm_100", 25, 23};
inline constexpr Arithmetic kSm90{"sm_90", 13, 13};
inline constexpr Arithmetic kFp32{"fp32", 0, 0};

// A vector of e4m3 codes taken apart once, so that the loops over pairs of vectors stay simple. Shorter vectors are
// padded with zeros.
struct Operand {
    static constexpr int kDepth = 128;
    static constexpr int16_t kZeroExponent = -512;   // any sum with it stays below every real exponent
    static constexpr int16_t kZeroLowBit = 512;      // a zero product is a multiple of everything
    double value[kDepth];
    int16_t exponent[kDepth];   // raw exponent
    int16_t low_bit[kDepth];    // exponent of the lowest set bit; of a product: the sum of both

    void decode(const uint8_t* codes, int depth) {
        for (int i = 0; i < kDepth; ++i) {
            const uint8_t code = i < depth ? codes[i] : 0;
            value[i] = kE4m3Value[code];
            exponent[i] = kZeroExponent;
            low_bit[i] = kZeroLowBit;
            if (value[i] == 0 || std::isnan(value[i])) continue;
            const auto in_2_to_minus_9 = static_cast<uint32_t>(std::fabs(value[i]) * 512);
            exponent[i] = static_cast<int16_t>(e4m3_raw_exponent(code));
            low_bit[i] = static_cast<int16_t>(std::countr_zero(in_2_to_minus_9) - 9);
        }
    }
};

struct BoundedDot {
    double value;   // exact
    double eps;     // a computed dot product is at most this far off
};

namespace detail {

inline double pow2(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }
inline int floor_log2(double positive) { return static_cast<int>(std::bit_cast<uint64_t>(positive) >> 52) - 1023; }

// Sums of the 32 products from `first` on; four running sums, which is harmless where every partial sum is exact.
inline double sum_products(const Operand& q, const Operand& k, int first) {
    double lane[4] = {};
    for (int i = first; i < first + 32; i += 4)
        for (int l = 0; l < 4; ++l) lane[l] += q.value[i + l] * k.value[i + l];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

inline double sum_magnitudes(const Operand& q, const Operand& k) {
    double lane[4] = {};
    for (int i = 0; i < Operand::kDepth; i += 4)
        for (int l = 0; l < 4; ++l) lane[l] += std::fabs(q.value[i + l] * k.value[i + l]);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

inline double gamma(int n) { return n * 0x1p-24 / (1 - n * 0x1p-24); }

}  // namespace detail

inline BoundedDot bounded_dot(const Operand& q, const Operand& k, Arithmetic arithmetic) {
    using namespace detail;
    double x = 0, eps = 0;
    if (arithmetic.window == 0) {
        for (int first = 0; first < Operand::kDepth; first += 32) x += sum_products(q, k, first);
        return {x, gamma(128) * sum_magnitudes(q, k)};
    }
    for (int first = 0; first < Operand::kDepth; first += 32) {
        int16_t top = 2 * Operand::kZeroExponent, bottom = 2 * Operand::kZeroLowBit;
        for (int i = first; i < first + 32; ++i) {
            const auto exponent = static_cast<int16_t>(q.exponent[i] + k.exponent[i]);
            const auto low_bit = static_cast<int16_t>(q.low_bit[i] + k.low_bit[i]);
            top = exponent > top ? exponent : top;
            bottom = low_bit < bottom ? low_bit : bottom;
        }
        const double carried = std::fabs(x) + eps;
        int r = top;
        if (carried > 0) r = std::max(r, floor_log2(carried));
        if (r < Operand::kZeroExponent / 2) continue;   // nothing but zeros so far
        const int g_exponent = r - arithmetic.window;
        const double g = pow2(g_exponent);
        double lost = 0;
        if (bottom < g_exponent) {
            for (int i = first; i < first + 32; ++i) {
                const bool cut = q.low_bit[i] + k.low_bit[i] < g_exponent;
                lost += cut ? std::min(std::fabs(q.value[i] * k.value[i]), g) : 0.0;
            }
        }
        eps += lost + std::min(carried, g);
        x += sum_products(q, k, first);
        const double reached = std::fabs(x) + eps;
        if (reached > 0) eps += pow2(floor_log2(reached) - arithmetic.result_bits);
    }
    return {x, eps};
}

struct BoundedScore {
    double value;   // the oracle's
    double bound;   // infinite where nothing can be demanded: fp32 may overflow, or the sign of a sum that is too close
                    // to 0 decides what an infinite scale makes of it
};

// q [heads] operands.
inline BoundedScore bounded_score(const Operand* q, const float* q_scale, int heads, const Operand& k, float k_scale,
                                  Arithmetic arithmetic) {
    double sum = 0, weighted_eps = 0, magnitude = 0;
    bool unsure = false;
    for (int h = 0; h < heads; ++h) {
        const BoundedDot d = bounded_dot(q[h], k, arithmetic);
        const double w = q_scale[h];
        sum += w * relu(d.value);
        if (std::isinf(w)) {
            unsure |= d.eps > 0 && std::fabs(d.value) <= d.eps;
        } else {
            weighted_eps += std::fabs(w) * d.eps;
            magnitude += std::fabs(w) * (std::fabs(d.value) + d.eps);
        }
    }
    const double value = k_scale * sum;
    const double infinity = std::numeric_limits<double>::infinity();
    if (std::isnan(sum) || std::isnan(k_scale)) return {value, unsure ? infinity : 0};
    const double sum_bound = weighted_eps + detail::gamma(heads + 3) * magnitude;
    unsure |= 2 * magnitude > FLT_MAX;
    if (std::isinf(k_scale)) return {value, unsure || (sum_bound > 0 && std::fabs(sum) <= sum_bound) ? infinity : 0};
    unsure |= 2 * magnitude * std::fabs(k_scale) > FLT_MAX;
    if (unsure) return {value, infinity};
    return {value, std::fabs(k_scale) * sum_bound * (1 + 0x1p-23)
                       + (2 * heads + 2) * 0x1p-149 * std::max(1.0, static_cast<double>(std::fabs(k_scale)))};
}

inline bool within_bound(float computed, const BoundedScore& expected) {
    if (std::isinf(expected.bound)) return true;
    if (std::isnan(expected.value)) return std::isnan(computed);
    if (std::isinf(expected.value)) return computed == expected.value;
    return std::fabs(computed - expected.value) <= expected.bound;
}

}  // namespace lidx::ref

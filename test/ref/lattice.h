// SPDX-License-Identifier: Apache-2.0
// Exact-lattice inputs: every kernel, whatever its arithmetic and its order of additions, must give the oracle's bits.
//
//     q, k      integers with |q|, |k| <= 8, so sum_i |q_i k_i| <= 128 * 64 = 2^13: exact even in 13 bits (sm_90)
//     q_scale   nonzero integers |w| <= 4 times one power of two per row
//     k_scale   a power of two per key, positive
//
// Any order of a head sum is then exact in fp32: 2^13 * 128 heads * 4 = 2^22. q leans to one side per head and k to the
// positive side for most keys, so that dot products of both signs occur and more than nine tenths of the scores are not
// zero.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "e4m3.h"
#include "portable_rng.h"

namespace lidx::ref {

inline constexpr int kLatticeMax = 8;
inline constexpr int kLatticeMaxWeight = 4;

namespace detail {
inline void lattice_codes(Rng& rng, int depth, bool positive, uint8_t* codes) {
    for (int i = 0; i < depth; ++i) {
        const auto value = static_cast<double>(rng.between(-3, kLatticeMax));
        codes[i] = e4m3_encode(positive ? value : -value);
    }
}
}  // namespace detail

// One row: codes [heads, depth], q_scale [heads].
inline void lattice_query(Rng& rng, int heads, int depth, uint8_t* codes, float* q_scale) {
    const int exponent = static_cast<int>(rng.between(-8, 4));
    const uint64_t negative_in_8 = 1 + rng.below(7);   // so that rows of either sign occur
    for (int h = 0; h < heads; ++h) {
        const bool positive = h % 4 == 0 || rng.below(2) == 0;
        detail::lattice_codes(rng, depth, positive, codes + h * depth);
        const auto magnitude = static_cast<double>(rng.between(1, kLatticeMaxWeight));
        q_scale[h] = static_cast<float>(std::ldexp(rng.below(8) < negative_in_8 ? -magnitude : magnitude, exponent));
    }
}

// One key: codes [depth]; returns k_scale.
inline float lattice_key(Rng& rng, int depth, uint8_t* codes) {
    detail::lattice_codes(rng, depth, rng.below(24) != 0, codes);
    return static_cast<float>(std::ldexp(1.0, static_cast<int>(rng.between(-10, 3))));
}

// ---- the lattice of the fast mode, inside which fp16 is exact, too
//
//     q         at most 32 of a head's codes are not 0, those +- 2^a with one a per row, 0 .. 8
//     k         -2 .. 2 times 2^b with one b per key, 0 .. 7, so that sum_i |q_i k_i| <= 64 * 2^(a + b)
//     q_scale   as above
//
// The sums of eight heads then are integers up to 8 * 4 * 64 = 2^11 times a power of two, and so is all before them.

inline constexpr int kFastLatticeCodes = 32;

inline void fast_lattice_query(Rng& rng, int heads, int depth, uint8_t* codes, float* q_scale) {
    lattice_query(rng, heads, depth, codes, q_scale);
    const double unit = std::ldexp(1.0, static_cast<int>(rng.below(9)));
    for (int h = 0; h < heads; ++h) {
        const bool positive = h % 4 == 0 || rng.below(2) == 0;
        uint8_t* const head = codes + h * depth;
        for (int i = 0; i < depth; ++i) head[i] = 0;
        for (int n = 0; n < kFastLatticeCodes; ++n)
            head[rng.below(static_cast<uint64_t>(depth))] = e4m3_encode((rng.below(4) != 0) == positive ? unit : -unit);
    }
}

inline float fast_lattice_key(Rng& rng, int depth, uint8_t* codes) {
    const double unit = std::ldexp(rng.below(24) != 0 ? 1.0 : -1.0, static_cast<int>(rng.below(8)));
    for (int i = 0; i < depth; ++i) codes[i] = e4m3_encode(static_cast<double>(rng.between(-1, 2)) * unit);
    return static_cast<float>(std::ldexp(1.0, static_cast<int>(rng.between(-10, 3))));
}

// These throw std::logic_error when data are off the lattice.
inline void assert_fast_lattice_codes(const uint8_t* codes, int count, int depth, double most, int most_codes) {
    double unit = INFINITY;
    for (int i = 0; i < count * depth; ++i)
        if ((codes[i] & 0x7f) != 0) unit = std::fmin(unit, std::fabs(kE4m3Value[codes[i]]));
    int exponent = 0;
    if (std::isfinite(unit) && (std::frexp(unit, &exponent) != 0.5 || unit < 1))
        throw std::logic_error("fast lattice: the smallest code is not a power of two from 1 on");
    for (int row = 0; row < count; ++row) {
        int codes_set = 0;
        for (int i = 0; i < depth; ++i) {
            const double units = std::fabs(kE4m3Value[codes[row * depth + i]]) / unit;
            codes_set += units != 0 ? 1 : 0;
            if (units > most || units != std::floor(units)) throw std::logic_error("fast lattice: codes are too large");
        }
        if (codes_set > most_codes) throw std::logic_error("fast lattice: too many codes are not 0");
    }
}

inline void assert_lattice_codes(const uint8_t* codes, int depth) {
    if (depth > 128) throw std::logic_error("lattice: depth " + std::to_string(depth) + " is above 128");
    for (int i = 0; i < depth; ++i) {
        const double value = kE4m3Value[codes[i]];
        if (!(std::fabs(value) <= kLatticeMax) || value != std::floor(value))
            throw std::logic_error("lattice: code " + std::to_string(codes[i]) + " is not an integer from -8 to 8");
    }
}

inline void assert_lattice_weights(const float* q_scale, int heads) {
    if (heads > 128) throw std::logic_error("lattice: " + std::to_string(heads) + " heads are more than 128");
    double unit = INFINITY, largest = 0;   // unit: the lowest bit set in any weight of the row
    for (int h = 0; h < heads; ++h) {
        if (q_scale[h] == 0) continue;
        int exponent;
        const auto bits = static_cast<uint32_t>(std::ldexp(std::fabs(std::frexp(q_scale[h], &exponent)), 24));
        unit = std::fmin(unit, std::ldexp(1.0, exponent - 24 + std::countr_zero(bits)));
        largest = std::fmax(largest, std::fabs(q_scale[h]));
    }
    if (largest > 0 && !(largest <= kLatticeMaxWeight * unit))
        throw std::logic_error("lattice: the weights of a row are not integers up to 4 times one power of two");
}

inline void assert_lattice_k_scale(float k_scale) {
    int exponent;
    if (!(k_scale > 0) || std::frexp(k_scale, &exponent) != 0.5f)
        throw std::logic_error("lattice: k_scale " + std::to_string(k_scale) + " is not a power of two");
}

}  // namespace lidx::ref

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

// These throw std::logic_error when data are off the lattice.
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

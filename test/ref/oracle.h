// SPDX-License-Identifier: Apache-2.0
// What is computed, in double precision:
//
//     score = k_scale * sum_h q_scale[h] * relu(q[h] . k)
//
// A product of two e4m3 values has 8 significant bits and 128 of them span fewer than 53, so every dot product is
// exact. On exact-lattice inputs (lattice.h) the whole score is, and its fp32 value is the one that every kernel must
// produce bit for bit. A NaN code makes its dot product NaN and relu lets it through; NaN and infinity in the scales
// follow IEEE 754.
#pragma once
#include <cmath>
#include <cstdint>

#include "e4m3.h"

namespace lidx::ref {

inline double relu(double x) { return x > 0 || std::isnan(x) ? x : 0; }

inline double dot(const uint8_t* q, const uint8_t* k, int depth) {
    double sum = 0;
    for (int i = 0; i < depth; ++i) sum += kE4m3Value[q[i]] * kE4m3Value[k[i]];
    return sum;
}

// q [heads, depth] codes, q_scale [heads], k [depth] codes.
inline double score(const uint8_t* q, const float* q_scale, int heads, int depth, const uint8_t* k, float k_scale) {
    double sum = 0;
    for (int h = 0; h < heads; ++h) sum += static_cast<double>(q_scale[h]) * relu(dot(q + h * depth, k, depth));
    return k_scale * sum;
}

}  // namespace lidx::ref

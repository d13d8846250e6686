// SPDX-License-Identifier: Apache-2.0
// What sm90_score_* must store, bit for bit: the tensor core's rule of sm100_model.h with Hopper's window, and the head
// sum that kernel/sm90_score.cu documents.
#pragma once
#include <cmath>
#include <cstdint>

#include "sm100_model.h"

namespace lidx::ref {

// fp32: four parts by fma from +0, part q of heads 8j + 2q and 8j + 2q + 1, j ascending; then (0 + 1) + (2 + 3), then
// times k_scale.
inline float sm90_head_sum(const float* dots, const float* q_scale, int heads, float k_scale) {
    float part[4] = {};
    for (int first = 0; first < heads; first += 8)
        for (int q = 0; q < 4; ++q)
            for (int h = first + 2 * q; h < first + 2 * q + 2 && h < heads; ++h) {
                const float relu = dots[h] > 0 || std::isnan(dots[h]) ? dots[h] : 0.0f;
                part[q] = std::fma(q_scale[h], relu, part[q]);
            }
    const float low = part[0] + part[1], high = part[2] + part[3];
    const float both = low + high;
    const float score = k_scale * both;
    return std::isnan(score) ? canonical_nan() : score;
}

// q [heads, 128] codes, q_scale [heads], k [128] codes.
inline float sm90_score_model(const uint8_t* q, const float* q_scale, int heads, const uint8_t* k, float k_scale) {
    float dots[128];
    for (int h = 0; h < heads; ++h) dots[h] = model_dot(q + h * 128, k, 128, kSm90Window);
    return sm90_head_sum(dots, q_scale, heads, k_scale);
}

}  // namespace lidx::ref

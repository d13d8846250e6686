// SPDX-License-Identifier: Apache-2.0
// The exact arithmetic of the sm90_fast kernels in scalar code, and how far it may be from the formula. Written down
// independently of the emulator and of the kernels; the tensor core's rule is that of ref/sm100_model.h with results
// rounded to fp16.
//
// The bound, with the rounding unit v = 2^-11 of fp16, in the units of the scaled row: q' codes after scaling, s the
// shift, W the fp16 weight, D = q . k / 2^s the exact dot product, C = H / 8 heads of a chain, t = s_h - 2u:
//
//     eps_h   = eps(q', k) + sum_i |q'_i - q_i 2^-s| |k_i|      eps(): ref/error_bound.h with F = 13 and T = 11, for
//                                                              to nearest half of the last of 10 bits is lost
//     A       = sum_h |W_h| eps_h + |W_h - w_h 2^t| |D_h|
//     B       = sum_h |W_h| (|D_h| + eps_h)
//     |error| <= |k_scale| 4^u (A + ((1 + C v / (1 - C v)) (1 + gamma_3) - 1) B + H 2^-25) (1 + 2^-22)
//                + (2H + 2) 2^-149 max(1, |k_scale|)
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "e4m3.h"
#include "error_bound.h"
#include "sm100_model.h"

namespace lidx::ref {

inline constexpr Arithmetic kSm90Fast{"sm_90_fast", 13, 11};

// Nearest fp16, ties to even; beyond 65504 infinity. A product of two fp16 plus a third is rounded twice this way, to a
// double first, which gives the same: where the double is not exact, the sum is near no tie of fp16.
inline double half_round(double x) {
    if (x == 0 || !std::isfinite(x)) return x;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(x), -14) - 10);
    const double rounded = std::nearbyint(x / unit) * unit;
    return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, x) : rounded;
}

// A row as the fast kernels scale it.
struct FastQuery {
    struct Head {
        int shift;                     // s
        double weight;                 // W
        bool has_nan;                  // among the codes
        Operand scaled;                // q'
        double lost[Operand::kDepth];  // |q'_i - q_i 2^-s|
    };
    std::vector<Head> heads;
    int u = 0;
};

namespace detail {

// The sum of a head's |codes| as the kernel takes it: of 16 codes the even and the odd ones in fp16, then fp32.
inline float code_sum(const uint8_t* q) {
    float part[8];
    for (int chunk = 0; chunk < 8; ++chunk) {
        double sum[2] = {};
        for (int i = 0; i < 16; ++i)
            sum[i % 2] = half_round(sum[i % 2] + std::fabs(kE4m3Value[q[16 * chunk + i]]));
        part[chunk] = static_cast<float>(sum[0]) + static_cast<float>(sum[1]);
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

}  // namespace detail

// q [heads, 128] codes, q_scale [heads].
inline FastQuery fast_query(const uint8_t* q, const float* q_scale, int heads) {
    FastQuery row;
    row.heads.resize(static_cast<size_t>(heads));
    int largest = -126;
    for (int h = 0; h < heads; ++h) {
        FastQuery::Head& head = row.heads[h];
        const uint8_t* codes = q + h * Operand::kDepth;
        const float sum = detail::code_sum(codes);
        head.has_nan = std::isnan(sum);
        head.shift = head.has_nan ? 9 : 0;
        while (!head.has_nan && sum > std::ldexp(144.0, head.shift)) ++head.shift;
        uint8_t scaled[Operand::kDepth];
        for (int i = 0; i < Operand::kDepth; ++i) {
            const double value = std::ldexp(kE4m3Value[codes[i]], -head.shift);
            scaled[i] = e4m3_encode(value);
            head.lost[i] = std::fabs(kE4m3Value[scaled[i]] - value);
        }
        head.scaled.decode(scaled, Operand::kDepth);
        const float w = std::fabs(q_scale[h]);
        if (std::isfinite(w)) largest = std::max(largest, (w < 0x1p-126f ? -126 : std::ilogb(w)) + head.shift);
    }
    const int chain_log2 = std::countr_zero(static_cast<unsigned>(heads / 8));
    row.u = static_cast<int>(std::floor((largest + 1 + chain_log2 + 1) / 2.0));
    for (int h = 0; h < heads; ++h)
        row.heads[h].weight = half_round(std::ldexp(static_cast<double>(q_scale[h]), row.heads[h].shift - 2 * row.u));
    return row;
}

// q' . k in four steps of K = 32, each rounded to fp16.
inline double fast_dot(const FastQuery::Head& q, const Operand& k) {
    constexpr int kNone = 2 * Operand::kZeroExponent;
    double c = 0;
    for (int first = 0; first < Operand::kDepth; first += 32) {
        int r = kNone;
        for (int i = first; i < first + 32; ++i) r = std::max<int>(r, q.scaled.exponent[i] + k.exponent[i]);
        if (r < Operand::kZeroExponent / 2) r = kNone;
        if (c != 0) r = std::max(r, std::max(std::ilogb(c), -14));
        if (r == kNone) continue;
        const double units = std::bit_cast<double>(static_cast<uint64_t>(kSm90Fast.window - r + 1023) << 52);
        auto sum = static_cast<int64_t>(c * units);
        for (int i = first; i < first + 32; ++i) sum += static_cast<int64_t>(q.scaled.value[i] * k.value[i] * units);
        c = half_round(static_cast<double>(sum) / units);
    }
    return c;
}

// The bits that sm90_fast_* must store. k: a key's codes taken apart; has_nan: among them.
inline float fast_score_model(const FastQuery& row, const Operand& k, bool has_nan, float k_scale) {
    double chain[4][2] = {};
    for (size_t h = 0; h < row.heads.size(); ++h) {
        const FastQuery::Head& head = row.heads[h];
        const double dot = has_nan || head.has_nan ? std::nan("") : fast_dot(head, k);
        double& sum = chain[h / 2 % 4][h % 2];
        sum = half_round(head.weight * relu(dot) + sum);
    }
    float part[4];
    for (int q = 0; q < 4; ++q) part[q] = static_cast<float>(chain[q][0]) + static_cast<float>(chain[q][1]);
    const float unscale = std::ldexp(1.0f, row.u);
    const float score = k_scale * ((((part[0] + part[1]) + (part[2] + part[3])) * unscale) * unscale);
    return std::isnan(score) ? canonical_nan() : score;
}

// q [heads] operands and their weights as given.
inline BoundedScore bounded_fast_score(const FastQuery& row, const Operand* q, const float* q_scale, const Operand& k,
                                       float k_scale) {
    const auto heads = static_cast<int>(row.heads.size());
    double sum = 0, a = 0, b = 0, magnitude = 0;
    bool unsure = false;
    for (int h = 0; h < heads; ++h) {
        const FastQuery::Head& head = row.heads[h];
        const BoundedDot exact = bounded_dot(q[h], k, kFp32);   // its value
        const double w = q_scale[h], d = std::ldexp(exact.value, -head.shift);
        double eps = bounded_dot(head.scaled, k, kSm90Fast).eps;
        for (int i = 0; i < Operand::kDepth; ++i) eps += head.lost[i] * std::fabs(k.value[i]);
        sum += w * relu(exact.value);
        if (std::isinf(w)) {
            unsure |= eps > 0 && std::fabs(d) <= eps;
            continue;
        }
        const double weight = std::fabs(head.weight);
        a += weight * eps + std::fabs(head.weight - std::ldexp(w, head.shift - 2 * row.u)) * std::fabs(d);
        b += weight * (std::fabs(d) + eps);
        magnitude += std::fabs(w) * (std::fabs(exact.value) + std::ldexp(eps, head.shift));
    }
    const double value = k_scale * sum, infinity = std::numeric_limits<double>::infinity();
    if (std::isnan(sum) || std::isnan(k_scale)) return {value, unsure ? infinity : 0};
    const double chain = heads / 8 * 0x1p-11;
    const double growth = (1 + chain / (1 - chain)) * (1 + detail::gamma(3)) - 1;
    const double sum_bound = std::ldexp(a + growth * b + heads * 0x1p-25, 2 * row.u);
    unsure |= 2 * magnitude > FLT_MAX;
    if (std::isinf(k_scale)) return {value, unsure || (sum_bound > 0 && std::fabs(sum) <= sum_bound) ? infinity : 0};
    unsure |= 2 * magnitude * std::fabs(k_scale) > FLT_MAX;
    if (unsure) return {value, infinity};
    return {value, std::fabs(k_scale) * sum_bound * (1 + 0x1p-22) +
                       (2 * heads + 2) * 0x1p-149 * std::max(1.0, static_cast<double>(std::fabs(k_scale)))};
}

}  // namespace lidx::ref

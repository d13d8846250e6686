// SPDX-License-Identifier: Apache-2.0
#include "check_model.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace check {

namespace {

constexpr uint32_t kCanonicalNan = 0x7fffffff;
// Operands are cut below 2^(largest exponent - window), a result to `result_bits` fraction bits.
struct Rule {
    int window, result_bits;
};
constexpr Rule kSm100{25, 23}, kSm90{13, 13};

// relu that lets NaN through; relu(-0) = +0.
float relu(float x) { return std::isnan(x) ? x : x > 0 ? x : 0.0f; }

int64_t cut_shift(int64_t magnitude, int shift) {
    if (shift >= 0) return magnitude << shift;
    return shift <= -63 ? 0 : magnitude >> -shift;
}

// A finite fp32 with subnormals, taken apart: value = mantissa * 2^(exponent - 23).
struct Single {
    int64_t mantissa;  // signed
    int exponent;
};
Single take_apart(uint32_t bits) {
    const int field = static_cast<int>(bits >> 23 & 255);
    const int64_t fraction = bits & 0x7fffff;
    const int64_t magnitude = field == 0 ? fraction : fraction | 0x800000;
    return {bits >> 31 ? -magnitude : magnitude, field == 0 ? -126 : field - 127};
}

// sum * 2^quantum, cut toward zero to so many fraction bits. 0 gives +0.
uint32_t cut_to_single(int64_t sum, int quantum, int result_bits) {
    if (sum == 0) return 0;
    const auto magnitude = static_cast<uint64_t>(std::llabs(sum));
    const int top = 63 - std::countl_zero(magnitude);
    const uint64_t kept = top > result_bits ? magnitude >> (top - result_bits) << (top - result_bits) : magnitude;
    const auto value = static_cast<float>(std::ldexp(static_cast<double>(kept), quantum));
    return std::bit_cast<uint32_t>(sum < 0 ? -value : value);
}

// D = sum of 32 products + C.
uint32_t step(const ModelOperand& q, const ModelOperand& k, int first, uint32_t c_bits, Rule rule) {
    const Single c = take_apart(c_bits);
    int largest = std::numeric_limits<int>::min();
    for (int i = first; i < first + 32; ++i)
        if (q.mantissa[i] * k.mantissa[i] != 0) largest = std::max(largest, q.exponent[i] + k.exponent[i]);
    if (c.mantissa != 0) largest = std::max(largest, c.exponent);
    if (largest == std::numeric_limits<int>::min()) return 0;
    const int quantum = largest - rule.window;
    int64_t sum = 0;
    for (int i = first; i < first + 32; ++i) {
        const int64_t product = int64_t{q.mantissa[i]} * k.mantissa[i];
        const int64_t cut = cut_shift(std::llabs(product), q.exponent[i] + k.exponent[i] - 6 - quantum);
        sum += product < 0 ? -cut : cut;
    }
    const int64_t cut = cut_shift(std::llabs(c.mantissa), c.exponent - 23 - quantum);
    sum += c.mantissa < 0 ? -cut : cut;
    return cut_to_single(sum, quantum, rule.result_bits);
}

uint32_t dot(const ModelOperand& q, const ModelOperand& k, Rule rule) {
    if (q.has_nan || k.has_nan) return kCanonicalNan;
    uint32_t d = 0;
    for (int first = 0; first < ModelOperand::kDepth; first += 32) d = step(q, k, first, d, rule);
    return d;
}

}  // namespace

void ModelOperand::decode(const uint8_t* codes, int depth) {
    *this = {};
    for (int i = 0; i < depth; ++i) {
        const int field = codes[i] >> 3 & 15, fraction = codes[i] & 7;
        has_nan = has_nan || (codes[i] & 0x7f) == 0x7f;
        const int magnitude = field == 0 ? fraction : 8 + fraction;
        mantissa[i] = codes[i] & 0x80 ? -magnitude : magnitude;
        exponent[i] = field == 0 ? -6 : field - 7;
        value[i] = std::ldexp(static_cast<float>(magnitude), exponent[i] - 3);
        if (codes[i] & 0x80) value[i] = -value[i];
        if ((codes[i] & 0x7f) == 0x7f) value[i] = std::bit_cast<float>(kCanonicalNan);
    }
}

uint32_t model_sm100_dot(const ModelOperand& q, const ModelOperand& k) { return dot(q, k, kSm100); }
uint32_t model_sm90_dot(const ModelOperand& q, const ModelOperand& k) { return dot(q, k, kSm90); }

uint32_t model_sm100_score(const ModelOperand* q, const float* q_scale, int heads, const ModelOperand& k,
                           float k_scale) {
    float even = 0, odd = 0;
    for (int h = 0; h < heads; ++h) {
        float& sum = h % 2 == 0 ? even : odd;
        sum = std::fma(q_scale[h], relu(std::bit_cast<float>(model_sm100_dot(q[h], k))), sum);
    }
    const float score = k_scale * (even + odd);
    return std::isnan(score) ? kCanonicalNan : std::bit_cast<uint32_t>(score);
}

uint32_t model_sm90_score(const ModelOperand* q, const float* q_scale, int heads, const ModelOperand& k,
                          float k_scale) {
    float part[4] = {};
    for (int h = 0; h < heads; ++h) {
        float& sum = part[h / 2 % 4];
        sum = std::fma(q_scale[h], relu(std::bit_cast<float>(model_sm90_dot(q[h], k))), sum);
    }
    const float score = k_scale * ((part[0] + part[1]) + (part[2] + part[3]));
    return std::isnan(score) ? kCanonicalNan : std::bit_cast<uint32_t>(score);
}

uint32_t model_generic_score(const ModelOperand* q, const float* q_scale, int heads, int depth, const ModelOperand& k,
                             float k_scale) {
    float sum = 0;
    for (int h = 0; h < heads; ++h) {
        float d = 0;
        for (int i = 0; i < depth; ++i) d = std::fma(q[h].value[i], k.value[i], d);
        sum = std::fma(q_scale[h], relu(d), sum);
    }
    const float score = k_scale * sum;
    return std::isnan(score) ? kCanonicalNan : std::bit_cast<uint32_t>(score);
}

}  // namespace check

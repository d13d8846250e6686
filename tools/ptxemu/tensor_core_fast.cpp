// SPDX-License-Identifier: Apache-2.0
// The fused step of tensor_core.cpp for whole tiles. Three ways, chosen per row of A, all with the same bits:
//
//  exact   Where every value is a small multiple of one power of two (lattices), no product, sum or result can lose a
//          bit: plain fp32 multiply-add in any order.
//  window  Otherwise. A product of two codes is exact in fp32. R comes from an int8 maximum over sums of raw exponents;
//          adding F - R to the product's exponent field and converting to int32 with truncation is the cut to multiples
//          of 2^(R-F). |product| < 3.52 * 2^R, so 16 of them stay below 2^31 for F <= 25. Two such sums and the cut C
//          add up exactly in fp64, whose significand is then cut to the result's bits. A is scaled by 2^-60 beforehand,
//          so that what is added to the exponent field is never negative: a zero product then stays below 1 too.
//  slow    fused_dot for what is left: infinities, a window above 25 bits. A NaN needs no arithmetic at all.
//
// Columns (N) are the vector lanes. Nothing here depends on rounding, so a fused multiply-add or another vector width
// cannot change a bit.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor_core.h"
#include "tensor_core_format.h"

namespace ptxemu {
namespace {

constexpr int kDepth = 32, kGroup = 16;     // products of a step, and of an int32 sum
constexpr int kPanel = 256;                 // columns handled together: B decoded takes 40 KB
constexpr int8_t kNoExponent = -64;         // of a zero; a sum with it stays below every real one (>= -28)
constexpr int kLeastRealSum = -32;
constexpr int kMaxWindow = 25;
constexpr int kScaledDown = 60;             // A times 2^-60
constexpr float kScaleDown = 0x1p-60f;

struct Code {
    float value;                            // 0 for NaN and infinity
    int8_t raw_exponent;                    // kNoExponent for zero, NaN and infinity
    int8_t lowest_bit;                      // exponent of the lowest set bit; 127 for zero, NaN and infinity
    int8_t leading_zeros;                   // raw exponent minus floor(log2 |value|): above 0 for subnormals only
    Number::Kind kind;
};
using CodeTable = std::array<Code, 256>;

CodeTable make_table(Format format) {
    CodeTable table;
    for (uint32_t code = 0; code < 256; ++code) {
        const Number number = decode_number(format, code);
        Code& entry = table[code];
        entry = {0.0f, kNoExponent, 127, 0, number.kind};
        if (number.kind != Number::kFinite || number.is_zero()) continue;
        const float magnitude = std::ldexp(static_cast<float>(number.mantissa), number.exponent);
        entry.value = number.negative ? -magnitude : magnitude;
        entry.raw_exponent = static_cast<int8_t>(number.raw_exponent);
        entry.lowest_bit = static_cast<int8_t>(number.exponent + std::countr_zero(number.mantissa));
        const int log2 = number.exponent + static_cast<int>(std::bit_width(number.mantissa)) - 1;
        entry.leading_zeros = static_cast<int8_t>(number.raw_exponent - log2);
    }
    return table;
}

const CodeTable& table_of(Format format) {
    static const CodeTable tables[] = {make_table(Format::kE4m3), make_table(Format::kE5m2), make_table(Format::kE2m3),
                                       make_table(Format::kE3m2), make_table(Format::kE2m1)};
    return tables[static_cast<size_t>(format)];
}

// Columns of B: transposed, decoded, padded with zeros to a multiple of 64.
struct Panel {
    alignas(64) float value[kDepth * kPanel];           // [k][columns]
    alignas(64) int8_t exponent[kDepth * kPanel];
    int columns = 0;                                    // padded
    int lowest_bit = 127, leading_zeros = 0;
    float largest = 0;                                  // |value|
    bool any_special = false;
    Number::Kind special[kPanel];                       // kNan before kInfinite
};

struct RowOfA {
    float value[kDepth], scaled_down[kDepth];
    int8_t exponent[kDepth];
    Number::Kind special;
    int lowest_bit, leading_zeros;      // these three only where the exact way is possible at all
    float sum_of_magnitudes;
};

struct Job {
    const Panel* panel;
    const RowOfA* row;
    const uint32_t* c;            // [columns], null where not accumulated; NaN and infinity replaced by 0
    uint32_t* out;                // [columns]
    int window, result_bits;
    bool exact;                   // the products alone fit the exact way; C too where it is in bounds:
    float units_per_one, limit_of_c;
};

namespace baseline {
constexpr int kLanes = 4;
#include "tensor_core_rows.inc"
}  // namespace baseline

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
constexpr int kLanes = 8;
#include "tensor_core_rows.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
namespace avx512 {
constexpr int kLanes = 16;
#include "tensor_core_rows.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

using MultiplyRow = void (*)(const Job&);

MultiplyRow multiply_row_for(SimdPath path) {
#if defined(__x86_64__)
    if (path == SimdPath::kAvx512) return avx512::multiply_row;
    if (path == SimdPath::kAvx2) return avx2::multiply_row;
#endif
    (void)path;
    return baseline::multiply_row;
}

void load_panel(const CodeTable& table, const uint8_t* b, int columns, Panel& panel) {
    panel.columns = (columns + 63) / 64 * 64;
    panel.lowest_bit = 127;
    panel.leading_zeros = 0;
    panel.any_special = false;
    const int pitch = panel.columns;
    float largest = 0;
    for (int j = 0; j < columns; ++j) {
        Number::Kind special = Number::kFinite;
        for (int k = 0; k < kDepth; ++k) {
            const Code& code = table[b[kDepth * j + k]];
            panel.value[k * pitch + j] = code.value;
            panel.exponent[k * pitch + j] = code.raw_exponent;
            panel.lowest_bit = std::min<int>(panel.lowest_bit, code.lowest_bit);
            panel.leading_zeros = std::max<int>(panel.leading_zeros, code.leading_zeros);
            largest = std::max(largest, std::fabs(code.value));
            special = std::max(special, code.kind);
        }
        panel.special[j] = special;
        panel.any_special |= special != Number::kFinite;
    }
    panel.largest = largest;
    for (int k = 0; k < kDepth; ++k) {
        for (int j = columns; j < pitch; ++j) {
            panel.value[k * pitch + j] = 0;
            panel.exponent[k * pitch + j] = kNoExponent;
        }
    }
}

void load_row(const CodeTable& table, const uint8_t* a, bool with_extent, RowOfA& row) {
    row.special = Number::kFinite;
    for (int k = 0; k < kDepth; ++k) {
        const Code& code = table[a[k]];
        row.value[k] = code.value;
        row.scaled_down[k] = code.value * kScaleDown;
        row.exponent[k] = code.raw_exponent;
        row.special = std::max(row.special, code.kind);
    }
    if (!with_extent) return;
    row.lowest_bit = 127;
    row.leading_zeros = 0;
    row.sum_of_magnitudes = 0;
    for (int k = 0; k < kDepth; ++k) {
        const Code& code = table[a[k]];
        row.lowest_bit = std::min<int>(row.lowest_bit, code.lowest_bit);
        row.leading_zeros = std::max<int>(row.leading_zeros, code.leading_zeros);
        row.sum_of_magnitudes += std::fabs(code.value);
    }
}

// In units of the smallest product, everything must fit the window and the result's significand.
void judge_exactness(Job& job) {
    const Panel& panel = *job.panel;
    const RowOfA& row = *job.row;
    job.exact = false;
    const int unit = row.lowest_bit + panel.lowest_bit;           // 64 and more: one side is all zeros
    if (unit >= 64) return;
    const int zeros = row.leading_zeros + panel.leading_zeros;
    const float limit = static_cast<float>(1 << std::clamp(std::min(job.window - zeros, job.result_bits) + 1, 0, 24));
    job.units_per_one = std::bit_cast<float>((127 - unit) << 23);
    const float products = row.sum_of_magnitudes * panel.largest * job.units_per_one;   // exact below limit
    job.limit_of_c = limit - products;
    job.exact = products < limit;
}

uint32_t slow_cell(Format fa, Format fb, const uint8_t* a, const uint8_t* b, uint32_t c, bool accumulate,
                   WindowRule rule) {
    uint32_t wide_a[kDepth], wide_b[kDepth];
    std::copy(a, a + kDepth, wide_a);
    std::copy(b, b + kDepth, wide_b);
    return fused_dot(fa, fb, wide_a, wide_b, kDepth, c, accumulate, rule);
}

void multiply_panel(MultiplyRow multiply, Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int columns,
                    uint32_t* d, size_t d_pitch, bool accumulate, WindowRule rule) {
    Panel panel;
    load_panel(table_of(fb), b, columns, panel);
    // One unit in A times the range of B must fit already.
    const bool exact_possible = panel.lowest_bit < 64 && std::ldexp(panel.largest, -panel.lowest_bit) < 0x1p24f;
    RowOfA row;
    alignas(64) uint32_t addend[kPanel] = {}, out[kPanel];
    for (int i = 0; i < m; ++i, a += kDepth, d += d_pitch) {
        load_row(table_of(fa), a, exact_possible, row);
        if (row.special == Number::kNan) {
            std::fill(d, d + columns, kTensorCoreNan);
            continue;
        }
        bool special_c = false;
        if (accumulate) {
            for (int j = 0; j < columns; ++j) special_c |= (d[j] & 0x7f800000) == 0x7f800000;
            std::memcpy(addend, d, static_cast<size_t>(columns) * sizeof *d);
            if (special_c) {
                for (int j = 0; j < columns; ++j) addend[j] = (d[j] & 0x7f800000) == 0x7f800000 ? 0 : d[j];
            }
        }
        Job job{&panel, &row, accumulate ? addend : nullptr, out, rule.window, rule.result_bits, false, 0, 0};
        if (exact_possible) judge_exactness(job);
        multiply(job);
        if (special_c || panel.any_special || row.special != Number::kFinite) {
            for (int j = 0; j < columns; ++j) {
                const bool special = row.special != Number::kFinite || panel.special[j] != Number::kFinite ||
                                     (accumulate && (d[j] & 0x7f800000) == 0x7f800000);
                if (panel.special[j] == Number::kNan) {
                    out[j] = kTensorCoreNan;
                } else if (special) {
                    out[j] = slow_cell(fa, fb, a, b + kDepth * j, d[j], accumulate, rule);
                }
            }
        }
        std::memcpy(d, out, static_cast<size_t>(columns) * sizeof *d);
    }
}

// F16 accumulators, the window way: sums of 16 in int32, columns side by side.
void multiply_row_f16(const Panel& panel, const RowOfA& row, const uint32_t* d, int columns, bool accumulate,
                      int window, uint32_t* out) {
    const int pitch = panel.columns;
    int8_t largest[kPanel];
    std::fill(largest, largest + pitch, kNoExponent);
    for (int k = 0; k < kDepth; ++k) {
        const int8_t* exponent = panel.exponent + k * pitch;
        const int8_t own = row.exponent[k];
        for (int j = 0; j < pitch; ++j) largest[j] = std::max(largest[j], static_cast<int8_t>(exponent[j] + own));
    }
    alignas(64) float scale[kPanel] = {};
    int range[kPanel];
    int32_t cut_c[kPanel];
    for (int j = 0; j < columns; ++j) {
        const uint32_t c = accumulate ? d[j] & 0xffff : 0, field = c >> 10 & 31;
        const int raw_c = static_cast<int>(std::max(field, 1u)) - 15;
        range[j] = std::max<int>(largest[j], kLeastRealSum);
        if ((c & 0x7fff) != 0) range[j] = std::max(range[j], raw_c);
        scale[j] = std::bit_cast<float>((127 + window - range[j]) << 23);
        const auto mantissa = static_cast<float>((c & 0x3ff) | (field != 0 ? 0x400u : 0u));
        const auto magnitude = static_cast<int32_t>(std::ldexp(mantissa, raw_c - 10 + window - range[j]));
        cut_c[j] = c & 0x8000 ? -magnitude : magnitude;
    }
    alignas(64) int32_t sum[kDepth / kGroup][kPanel] = {};
    for (int k = 0; k < kDepth; ++k) {
        const float* value = panel.value + k * pitch;
        const float own = row.value[k];
        int32_t* to = sum[k / kGroup];
        for (int j = 0; j < pitch; ++j) to[j] += static_cast<int32_t>(value[j] * own * scale[j]);
    }
    for (int j = 0; j < columns; ++j)
        out[j] = round_to_f16(int64_t{sum[0][j]} + sum[1][j] + cut_c[j], range[j] - window);
}

}  // namespace

bool simd_path_available(SimdPath path) {
#if defined(__x86_64__)
    if (path == SimdPath::kAvx512) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    if (path == SimdPath::kAvx2) return __builtin_cpu_supports("avx2");
#endif
    return path == SimdPath::kBaseline;
}

void mma_fp8_k32_on(SimdPath path, Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d,
                    int d_pitch, bool accumulate, WindowRule rule) {
    const size_t pitch = static_cast<size_t>(d_pitch);
    if (rule.window > kMaxWindow || rule.window < 1 || rule.result_bits > 23) {
        for (int i = 0; i < m; ++i) {
            for (int j = 0; j < n; ++j) {
                uint32_t& cell = d[static_cast<size_t>(i) * pitch + static_cast<size_t>(j)];
                cell = slow_cell(fa, fb, a + kDepth * i, b + kDepth * j, cell, accumulate, rule);
            }
        }
        return;
    }
    const MultiplyRow multiply = multiply_row_for(path);
    for (int first = 0; first < n; first += kPanel) {
        multiply_panel(multiply, fa, fb, a, b + static_cast<size_t>(kDepth) * static_cast<size_t>(first), m,
                       std::min(kPanel, n - first), d + first, pitch, accumulate, rule);
    }
}

void mma_fp8_k32_f16(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                     bool accumulate, int window) {
    Panel panel;
    RowOfA row;
    uint32_t out[kPanel];
    const bool fast = window >= 1 && window <= kMaxWindow;
    for (int first = 0; first < n; first += kPanel) {
        const int columns = std::min(kPanel, n - first);
        const uint8_t* own_b = b + static_cast<size_t>(kDepth) * static_cast<size_t>(first);
        load_panel(table_of(fb), own_b, columns, panel);
        for (int i = 0; i < m; ++i) {
            uint32_t* cells = d + static_cast<size_t>(i) * static_cast<size_t>(d_pitch) + first;
            const uint8_t* own_a = a + kDepth * i;
            load_row(table_of(fa), own_a, false, row);
            if (fast) multiply_row_f16(panel, row, cells, columns, accumulate, window, out);
            for (int j = 0; j < columns; ++j) {
                const bool special = row.special != Number::kFinite || panel.special[j] != Number::kFinite ||
                                     (accumulate && (cells[j] & 0x7c00) == 0x7c00);
                if (fast && !special) {
                    cells[j] = out[j];
                    continue;
                }
                uint32_t wide_a[kDepth], wide_b[kDepth];
                std::copy(own_a, own_a + kDepth, wide_a);
                std::copy(own_b + kDepth * j, own_b + kDepth * (j + 1), wide_b);
                cells[j] = fused_dot_f16(fa, fb, wide_a, wide_b, kDepth, cells[j] & 0xffff, accumulate, window);
            }
        }
    }
}

void mma_fp8_k32(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                 bool accumulate, WindowRule rule) {
    static const SimdPath best = simd_path_available(SimdPath::kAvx512) ? SimdPath::kAvx512
                                 : simd_path_available(SimdPath::kAvx2) ? SimdPath::kAvx2
                                                                        : SimdPath::kBaseline;
    mma_fp8_k32_on(best, fa, fb, a, b, m, n, d, d_pitch, accumulate, rule);
}

}  // namespace ptxemu

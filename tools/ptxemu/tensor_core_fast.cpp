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
        entry.leading_zeros = static_cast<int8_t>(number.raw_exponent - number.exponent + 1 - std::bit_width(number.mantissa));
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
    int lowest_bit = 127, leading_zeros = 0;
    float sum_of_magnitudes = 0;
    Number::Kind special = Number::kFinite;
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

// F, I, B fill a register; D and L too, with half as many lanes; HalfF and HalfI have the lanes of D.
#define PTXEMU_VECTOR(lanes)                                                        \
    template <> struct Vector<lanes> {                                              \
        typedef float F __attribute__((vector_size(4 * lanes), may_alias));         \
        typedef int32_t I __attribute__((vector_size(4 * lanes), may_alias));       \
        typedef int8_t B __attribute__((vector_size(4 * lanes), may_alias));        \
        typedef double D __attribute__((vector_size(4 * lanes), may_alias));        \
        typedef int64_t L __attribute__((vector_size(4 * lanes), may_alias));       \
        typedef float HalfF __attribute__((vector_size(2 * lanes), may_alias));     \
        typedef int32_t HalfI __attribute__((vector_size(2 * lanes), may_alias));   \
    }
template <int kLanes> struct Vector;
PTXEMU_VECTOR(4);
PTXEMU_VECTOR(8);
PTXEMU_VECTOR(16);
#undef PTXEMU_VECTOR

// 64 columns of one row, window way.
template <int kLanes>
[[gnu::always_inline]] inline void window_row(const Job& job, int column) {
    using F = typename Vector<kLanes>::F;
    using I = typename Vector<kLanes>::I;
    using B = typename Vector<kLanes>::B;
    constexpr int kByteLanes = 4 * kLanes, kBlocks = 4;          // of vectors whose sums stay in registers
    const int pitch = job.panel->columns;
    const float* value = job.panel->value + column;
    const int8_t* exponent = job.panel->exponent + column;

    alignas(64) int8_t largest[64];
    for (int j = 0; j < 64; j += kByteLanes) {
        B most = B{} + kNoExponent;
        for (int k = 0; k < kDepth; ++k) {
            const B sum = *reinterpret_cast<const B*>(exponent + k * pitch + j) + job.row->exponent[k];
            most = sum > most ? sum : most;
        }
        *reinterpret_cast<B*>(largest + j) = most;
    }

    alignas(64) uint32_t addend[64] = {};
    if (job.c) std::memcpy(addend, job.c + column, sizeof addend);
    alignas(64) int32_t range[64];                               // R, of a column without products possibly less
    alignas(64) int32_t shift[64];                               // F - R + 60 in the exponent field
    alignas(64) int32_t cut_c[64];                               // C in units of 2^(R-F)
    for (int j = 0; j < 64; ++j) {
        const int field = static_cast<int>(addend[j] >> 23 & 0xff);
        const int raw = (field > 1 ? field : 1) - 127;
        const int with_c = (addend[j] << 1) != 0 && raw > largest[j] ? raw : largest[j];
        const int r = with_c > kLeastRealSum ? with_c : kLeastRealSum;
        range[j] = r;
        const int up = job.window - r + kScaledDown;             // below 0 every product is cut to nothing anyway
        shift[j] = (up > 0 ? up : 0) << 23;
        // C times 2^(F-R): exact, or so small that it is cut to nothing.
        const float scale = std::bit_cast<float>((job.window - r + 127) << 23);
        cut_c[j] = static_cast<int32_t>(std::bit_cast<float>(addend[j]) * scale);
    }

    alignas(64) int32_t low[64], high[64];
    for (int j = 0; j < 64; j += kBlocks * kLanes) {
        I sum[2][kBlocks] = {};
        I up[kBlocks];
        for (int v = 0; v < kBlocks; ++v) up[v] = *reinterpret_cast<const I*>(shift + j + v * kLanes);
        for (int half = 0; half < 2; ++half) {
            for (int k = half * kGroup; k < (half + 1) * kGroup; ++k) {
                const float a = job.row->scaled_down[k];
                for (int v = 0; v < kBlocks; ++v) {
                    const F product = *reinterpret_cast<const F*>(value + k * pitch + j + v * kLanes) * a;
                    const I scaled = reinterpret_cast<const I&>(product) + up[v];
                    sum[half][v] += __builtin_convertvector(reinterpret_cast<const F&>(scaled), I);
                }
            }
        }
        for (int v = 0; v < kBlocks; ++v) {
            *reinterpret_cast<I*>(low + j + v * kLanes) = sum[0][v];
            *reinterpret_cast<I*>(high + j + v * kLanes) = sum[1][v];
        }
    }

    using D = typename Vector<kLanes>::D;
    using L = typename Vector<kLanes>::L;
    using HalfI = typename Vector<kLanes>::HalfI;
    const int64_t keep = ~((int64_t{1} << (52 - job.result_bits)) - 1);
    for (int j = 0; j < 64; j += kLanes / 2) {
        const L field = __builtin_convertvector(*reinterpret_cast<const HalfI*>(range + j), L) + (1023 - job.window);
        const L unit = field << 52;
        const D sum = __builtin_convertvector(*reinterpret_cast<const HalfI*>(low + j), D) +
                      __builtin_convertvector(*reinterpret_cast<const HalfI*>(high + j), D) +
                      __builtin_convertvector(*reinterpret_cast<const HalfI*>(cut_c + j), D);
        const D exact = sum * reinterpret_cast<const D&>(unit);
        const L cut = reinterpret_cast<const L&>(exact) & keep;
        const auto result = __builtin_convertvector(reinterpret_cast<const D&>(cut), typename Vector<kLanes>::HalfF);
        std::memcpy(job.out + column + j, &result, sizeof result);
    }
    const uint32_t c_alone = ~uint32_t{0} << std::max(0, 23 - std::min(job.window, job.result_bits));
    for (int j = 0; j < 64; ++j) {
        // Without products C alone is cut to the window and the result's bits; -0 becomes +0.
        const uint32_t alone = (addend[j] << 1) == 0 ? 0 : addend[j] & c_alone;
        job.out[column + j] = largest[j] < kLeastRealSum ? alone : job.out[column + j];
    }
}

// 64 columns of one row, exact way.
template <int kLanes>
[[gnu::always_inline]] inline void exact_row(const Job& job, int column) {
    using F = typename Vector<kLanes>::F;
    constexpr int kBlocks = 4;
    const int pitch = job.panel->columns;
    const float* value = job.panel->value + column;
    for (int j = 0; j < 64; j += kBlocks * kLanes) {
        F sum[kBlocks] = {};
        if (job.c) std::memcpy(sum, job.c + column + j, sizeof sum);
        for (int k = 0; k < kDepth; ++k) {
            const float a = job.row->value[k];
            for (int v = 0; v < kBlocks; ++v) {
                sum[v] += *reinterpret_cast<const F*>(value + k * pitch + j + v * kLanes) * a;
            }
        }
        for (int v = 0; v < kBlocks; ++v) sum[v] += 0.0f;        // -0 + 0 = +0
        std::memcpy(job.out + column + j, sum, sizeof sum);
    }
}

// Whether all of C are multiples of 1 / up (a power of two) of magnitude at most limit / up.
template <int kLanes>
[[gnu::always_inline]] inline bool addends_fit(const uint32_t* c, int columns, float up, float limit) {
    using F = typename Vector<kLanes>::F;
    using I = typename Vector<kLanes>::I;
    I misfit = {};
    for (int j = 0; j < columns; j += kLanes) {
        const F scaled = *reinterpret_cast<const F*>(c + j) * up;
        const I magnitude = reinterpret_cast<const I&>(scaled) & 0x7fffffff;
        const I small = reinterpret_cast<const F&>(magnitude) <= limit;
        const I kept = reinterpret_cast<const I&>(scaled) & small;
        const F whole = __builtin_convertvector(__builtin_convertvector(reinterpret_cast<const F&>(kept), I), F);
        misfit |= (whole != scaled) | ~small;
    }
    int32_t any = 0;
    for (int lane = 0; lane < kLanes; ++lane) any |= misfit[lane];
    return any == 0;
}

template <int kLanes>
[[gnu::always_inline]] inline void multiply_row(const Job& job) {
    const Panel& panel = *job.panel;
    bool exact = job.exact;
    if (exact && job.c) {
        exact = addends_fit<kLanes>(job.c, panel.columns, job.units_per_one, job.limit_of_c);
    }
    for (int column = 0; column < panel.columns; column += 64) {
        if (exact) {
            exact_row<kLanes>(job, column);
        } else {
            window_row<kLanes>(job, column);
        }
    }
}

using MultiplyRow = void (*)(const Job&);

void multiply_row_baseline(const Job& job) { multiply_row<4>(job); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) void multiply_row_avx2(const Job& job) { multiply_row<8>(job); }
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void multiply_row_avx512(const Job& job) {
    multiply_row<16>(job);
}
#endif

MultiplyRow multiply_row_for(SimdPath path) {
#if defined(__x86_64__)
    if (path == SimdPath::kAvx512) return multiply_row_avx512;
    if (path == SimdPath::kAvx2) return multiply_row_avx2;
#endif
    (void)path;
    return multiply_row_baseline;
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

void load_row(const CodeTable& table, const uint8_t* a, RowOfA& row) {
    row = {};
    for (int k = 0; k < kDepth; ++k) {
        const Code& code = table[a[k]];
        row.value[k] = code.value;
        row.scaled_down[k] = code.value * kScaleDown;
        row.exponent[k] = code.raw_exponent;
        row.lowest_bit = std::min<int>(row.lowest_bit, code.lowest_bit);
        row.leading_zeros = std::max<int>(row.leading_zeros, code.leading_zeros);
        row.sum_of_magnitudes += std::fabs(code.value);
        row.special = std::max(row.special, code.kind);
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

uint32_t slow_cell(Format fa, Format fb, const uint8_t* a, const uint8_t* b, uint32_t c, bool accumulate, WindowRule rule) {
    uint32_t wide_a[kDepth], wide_b[kDepth];
    std::copy(a, a + kDepth, wide_a);
    std::copy(b, b + kDepth, wide_b);
    return fused_dot(fa, fb, wide_a, wide_b, kDepth, c, accumulate, rule);
}

void multiply_panel(MultiplyRow multiply, Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int columns,
                    uint32_t* d, size_t d_pitch, bool accumulate, WindowRule rule) {
    Panel panel;
    load_panel(table_of(fb), b, columns, panel);
    RowOfA row;
    alignas(64) uint32_t addend[kPanel] = {}, out[kPanel];
    for (int i = 0; i < m; ++i, a += kDepth, d += d_pitch) {
        load_row(table_of(fa), a, row);
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
        judge_exactness(job);
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

void mma_fp8_k32(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                 bool accumulate, WindowRule rule) {
    static const SimdPath best = simd_path_available(SimdPath::kAvx512) ? SimdPath::kAvx512
                                 : simd_path_available(SimdPath::kAvx2) ? SimdPath::kAvx2
                                                                        : SimdPath::kBaseline;
    mma_fp8_k32_on(best, fa, fb, a, b, m, n, d, d_pitch, accumulate, rule);
}

}  // namespace ptxemu

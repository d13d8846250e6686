// SPDX-License-Identifier: Apache-2.0
// f32, f32x2 and f64 arithmetic and comparison (PTX ISA 9.7.3, 9.7.6). Compiled twice: exec_float_avx2.cpp. IEEE 754
// throughout: this file must not be compiled with -ffast-math nor with contraction.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "lanes.h"

#ifndef LIDX_ROWS_FLOAT
#define LIDX_ROWS_FLOAT rows_float_base
#endif

namespace ptxemu {
namespace {

// The NaN that NVIDIA hardware produces in f32 arithmetic.
constexpr u32 kNan32 = 0x7fffffffu;
constexpr u64 kNan64 = 0x7fffffffffffffffull;

LIDX_LANES float f32(u32 v) { return std::bit_cast<float>(v); }
LIDX_LANES double f64(u64 v) { return std::bit_cast<double>(v); }
LIDX_LANES bool is_nan(u32 v) { return (v & 0x7fffffffu) > 0x7f800000u; }
LIDX_LANES bool is_nan(u64 v) { return (v & 0x7fffffffffffffffull) > 0x7ff0000000000000ull; }
// An arithmetic result.
LIDX_LANES u32 result(float v) { return v != v ? kNan32 : std::bit_cast<u32>(v); }
// PTX leaves f64 NaN payloads open beyond "a NaN"; one is chosen so that results do not depend on the host.
LIDX_LANES u64 result(double v) { return v != v ? kNan64 : std::bit_cast<u64>(v); }
LIDX_LANES u32 flush(u32 v) { return (v & 0x7f800000u) == 0 ? v & 0x80000000u : v; }
LIDX_LANES u32 saturate(u32 v) {   // .sat: [0, 1], NaN to +0
    const float f = f32(v);
    return !(f > 0) ? 0u : f > 1 ? 0x3f800000u : v;
}
LIDX_LANES u64 saturate(u64 v) {
    const double f = f64(v);
    return !(f > 0) ? 0ull : f > 1 ? 0x3ff0000000000000ull : v;
}
template <class U>
struct FloatOf;
template <>
struct FloatOf<u32> {
    using type = float;
};
template <>
struct FloatOf<u64> {
    using type = double;
};

enum class Op : uint8_t { kAdd, kSub, kMul, kFma, kDiv, kRcp, kSqrt };

template <Op kOp, class F>
LIDX_LANES F compute(F a, F b, F c) {
    switch (kOp) {
        case Op::kAdd: return a + b;
        case Op::kSub: return a - b;
        case Op::kMul: return a * b;
        case Op::kFma:
            if constexpr (sizeof(F) == 4) return __builtin_fmaf(a, b, c);
            else return __builtin_fma(a, b, c);
        case Op::kDiv: return a / b;
        case Op::kRcp: return F(1) / a;
        case Op::kSqrt:
            if constexpr (sizeof(F) == 4) return __builtin_sqrtf(a);
            else return __builtin_sqrt(a);
    }
    return a;
}

constexpr int sources_of(Op op) { return op == Op::kFma ? 3 : op == Op::kRcp || op == Op::kSqrt ? 1 : 2; }

// Round to nearest even, no flush, no saturation: the fast path.
template <Op kOp, class U>
bool exec_nearest(Exec& x, const Insn& in, uint32_t mask) {
    using F = typename FloatOf<U>::type;
    if constexpr (sources_of(kOp) == 1) {
        return lanes1<U, U>(x, in, mask,
                            [](U a) -> U { return result(compute<kOp>(std::bit_cast<F>(a), F(0), F(0))); });
    } else if constexpr (sources_of(kOp) == 2) {
        return lanes2<U, U, U>(x, in, mask, [](U a, U b) -> U {
            return result(compute<kOp>(std::bit_cast<F>(a), std::bit_cast<F>(b), F(0)));
        });
    } else {
        return lanes3<U, U, U, U>(x, in, mask, [](U a, U b, U c) -> U {
            return result(compute<kOp>(std::bit_cast<F>(a), std::bit_cast<F>(b), std::bit_cast<F>(c)));
        });
    }
}

int host_rounding(Rounding r) {
    switch (r) {
        case Rounding::kZero: return FE_TOWARDZERO;
        case Rounding::kMinus: return FE_DOWNWARD;
        case Rounding::kPlus: return FE_UPWARD;
        default: return FE_TONEAREST;
    }
}

// The operation between two changes of the rounding mode; volatile keeps it there.
template <Op kOp, class F>
[[gnu::noinline]] F compute_rounded(F a, F b, F c, int mode) {
    volatile F va = a, vb = b, vc = c;
    std::fesetround(mode);
    volatile F r = compute<kOp>(static_cast<F>(va), static_cast<F>(vb), static_cast<F>(vc));
    std::fesetround(FE_TONEAREST);
    return r;
}

template <Op kOp, class U>
U general(U a, U b, U c, uint32_t flags) {
    using F = typename FloatOf<U>::type;
    if constexpr (sizeof(U) == 4) {
        if (flags & kFtz) a = flush(a), b = flush(b), c = flush(c);
    }
    const int mode = host_rounding(rounding_of(flags));
    const F fa = std::bit_cast<F>(a), fb = std::bit_cast<F>(b), fc = std::bit_cast<F>(c);
    U r = result(mode == FE_TONEAREST ? compute<kOp>(fa, fb, fc) : compute_rounded<kOp>(fa, fb, fc, mode));
    if constexpr (sizeof(U) == 4) {
        if (flags & kFtz) r = flush(r);
    }
    if (flags & kSat) r = saturate(r);
    return r;
}

template <Op kOp, class U>
bool exec_general(Exec& x, const Insn& in, uint32_t mask) {
    U* d = x.at<U>(in.slot[0]);
    constexpr int n = sources_of(kOp);
    const U *a = x.at<U>(in.slot[1]), *b = n > 1 ? x.at<U>(in.slot[2]) : a, *c = n > 2 ? x.at<U>(in.slot[3]) : a;
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = general<kOp, U>(a[l], b[l], c[l], in.flags);
    return true;
}

// f32x2: two f32 in 64 bits, each as above.
template <Op kOp>
bool exec_pair(Exec& x, const Insn& in, uint32_t mask) {
    if ((in.flags & (kFtz | kRoundMask)) == 0) {
        auto half = [](u32 a, u32 b, u32 c) -> u32 { return result(compute<kOp>(f32(a), f32(b), f32(c))); };
        if constexpr (sources_of(kOp) == 2) {
            return lanes2<u64, u64, u64>(x, in, mask, [half](u64 a, u64 b) -> u64 {
                return half(static_cast<u32>(a), static_cast<u32>(b), 0) |
                       static_cast<u64>(half(static_cast<u32>(a >> 32), static_cast<u32>(b >> 32), 0)) << 32;
            });
        } else {
            return lanes3<u64, u64, u64, u64>(x, in, mask, [half](u64 a, u64 b, u64 c) -> u64 {
                return half(static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c)) |
                       static_cast<u64>(
                           half(static_cast<u32>(a >> 32), static_cast<u32>(b >> 32), static_cast<u32>(c >> 32)))
                           << 32;
            });
        }
    }
    u64* d = x.at<u64>(in.slot[0]);
    const u64 *a = x.at<u64>(in.slot[1]), *b = x.at<u64>(in.slot[2]),
              *c = sources_of(kOp) > 2 ? x.at<u64>(in.slot[3]) : a;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u32 low =
            general<kOp, u32>(static_cast<u32>(a[l]), static_cast<u32>(b[l]), static_cast<u32>(c[l]), in.flags);
        const u32 high = general<kOp, u32>(static_cast<u32>(a[l] >> 32), static_cast<u32>(b[l] >> 32),
                                           static_cast<u32>(c[l] >> 32), in.flags);
        d[l] = low | static_cast<u64>(high) << 32;
    }
    return true;
}

// min, max (9.7.3.11, .12): the other operand where one is NaN, or with .NaN the canonical NaN; -0 < +0.
template <bool kMax, bool kNan>
LIDX_LANES u32 extremum(u32 a, u32 b) {
    const float x = f32(a), y = f32(b);
    // As sign-magnitude order: every NaN is handled apart.
    const u32 equal = kMax ? a & b : a | b;   // zeros of either sign
    u32 r = kMax ? (x > y ? a : y > x ? b : equal) : (x < y ? a : y < x ? b : equal);
    const bool nan_a = is_nan(a), nan_b = is_nan(b);
    if constexpr (kNan) return nan_a || nan_b ? kNan32 : r;
    r = nan_a ? b : r;
    r = nan_b ? a : r;
    return nan_a && nan_b ? kNan32 : r;
}
template <bool kMax, bool kNan>
bool exec_extremum(Exec& x, const Insn& in, uint32_t mask) {
    return lanes2<u32, u32, u32>(x, in, mask, [](u32 a, u32 b) -> u32 { return extremum<kMax, kNan>(a, b); });
}
template <bool kMax>
bool exec_extremum_general(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    const bool third = in.aux != 0, magnitude = in.imm != 0;
    const u32 *pa = x.at<u32>(in.slot[1]), *pb = x.at<u32>(in.slot[2]), *pc = third ? x.at<u32>(in.slot[3]) : pa;
    auto pick = [&](u32 p, u32 q) {
        return in.flags & kNanMode ? extremum<kMax, true>(p, q) : extremum<kMax, false>(p, q);
    };
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        u32 a = pa[l], b = pb[l], c = pc[l];
        if (in.flags & kFtz) a = flush(a), b = flush(b), c = flush(c);
        const u32 sign = (a ^ b) & 0x80000000u;
        if (magnitude) a &= 0x7fffffffu, b &= 0x7fffffffu, c &= 0x7fffffffu;
        u32 r = pick(a, b);
        if (third) r = pick(r, c);
        if ((in.flags & kXorSignAbs) && !is_nan(r)) r |= sign;
        d[l] = r;
    }
    return true;
}
void encode_extremum(Decoder&, const Match& m, const Instruction& ir, Insn& out) {
    out.aux = ir.operands.size() == 4;
    out.imm = m.has("abs");
}

template <bool kMax>
bool exec_extremum64(Exec& x, const Insn& in, uint32_t mask) {
    return lanes2<u64, u64, u64>(x, in, mask, [](u64 a, u64 b) -> u64 {
        if (is_nan(a)) return is_nan(b) ? kNan64 : b;
        if (is_nan(b)) return a;
        const double p = f64(a), q = f64(b);
        if (p == q) return kMax ? a & b : a | b;
        return (kMax ? p > q : p < q) ? a : b;
    });
}

// Approximations are computed in double and rounded once: within the manual's error bounds, not bit-equal to hardware.
template <class F>
LIDX_LANES bool approximate(Exec& x, const Insn& in, uint32_t mask, F f) {
    u32* d = x.at<u32>(in.slot[0]);
    const u32* a = x.at<u32>(in.slot[1]);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        u32 v = a[l];
        if (in.flags & kFtz) v = flush(v);
        v = result(static_cast<float>(f(static_cast<double>(f32(v)))));
        if (in.flags & kFtz) v = flush(v);
        d[l] = v;
    }
    return true;
}
#define LIDX_APPROX(...) \
    [](Exec& x, const Insn& in, uint32_t m) { \
        return approximate(x, in, m, [](double a) -> double { return __VA_ARGS__; }); \
    }

bool exec_div_approx(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    const u32 *a = x.at<u32>(in.slot[1]), *b = x.at<u32>(in.slot[2]);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        u32 p = a[l], q = b[l];
        if (in.flags & kFtz) p = flush(p), q = flush(q);
        u32 r = result(f32(p) / f32(q));
        // 2^126 < |b| < 2^128 gives 0, or NaN for an infinite a (9.7.3.8); .full does not.
        const float magnitude = std::fabs(f32(q));
        if (in.aux == 0 && magnitude > 0x1p126f && !std::isinf(magnitude))
            r = std::isinf(f32(p)) ? kNan32 : r & 0x80000000u;
        if (in.flags & kFtz) r = flush(r);
        d[l] = r;
    }
    return true;
}

// testp.op.type p, a (9.7.3.1)
template <class U>
bool exec_testp(Exec& x, const Insn& in, uint32_t mask) {
    using F = typename FloatOf<U>::type;
    const U* a = x.at<U>(in.slot[1]);
    const u32 r = lane_mask([&](int l) {
        const F v = std::bit_cast<F>(a[l]);
        switch (in.aux) {
            case 0: return std::isfinite(v);
            case 1: return std::isinf(v);
            case 2: return !is_nan(a[l]);
            case 3: return is_nan(a[l]);
            case 4: return std::isnormal(v) || v == 0;   // zeros are normal numbers
            default: return std::fpclassify(v) == FP_SUBNORMAL;
        }
    });
    x.set_predicate(in.slot[0], r, mask);
    return true;
}
void encode_testp(Decoder&, const Match& m, const Instruction&, Insn& out) {
    out.aux = static_cast<u32>(m.one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
}

// ---- comparison: setp, set (9.7.6.1, .2), f16 and bf16 by way of f32 ----

enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <class F>
LIDX_LANES u32 compare_all(Compare op, const F* a, const F* b) {
    switch (op) {
        case Compare::kEq: return lane_mask([&](int l) { return a[l] == b[l]; });
        case Compare::kNe: return lane_mask([&](int l) { return a[l] < b[l] || a[l] > b[l]; });
        case Compare::kLt: return lane_mask([&](int l) { return a[l] < b[l]; });
        case Compare::kLe: return lane_mask([&](int l) { return a[l] <= b[l]; });
        case Compare::kGt: return lane_mask([&](int l) { return a[l] > b[l]; });
        case Compare::kGe: return lane_mask([&](int l) { return a[l] >= b[l]; });
        case Compare::kEqu: return lane_mask([&](int l) { return !(a[l] < b[l] || a[l] > b[l]); });
        case Compare::kNeu: return lane_mask([&](int l) { return !(a[l] == b[l]); });
        case Compare::kLtu: return lane_mask([&](int l) { return !(a[l] >= b[l]); });
        case Compare::kLeu: return lane_mask([&](int l) { return !(a[l] > b[l]); });
        case Compare::kGtu: return lane_mask([&](int l) { return !(a[l] <= b[l]); });
        case Compare::kGeu: return lane_mask([&](int l) { return !(a[l] < b[l]); });
        case Compare::kNum: return lane_mask([&](int l) { return a[l] == a[l] && b[l] == b[l]; });
        case Compare::kNan: return lane_mask([&](int l) { return a[l] != a[l] || b[l] != b[l]; });
    }
    return 0;
}

enum class Source : uint8_t { kF32, kF64, kF16, kBf16 };

float half_to_float(u32 h) {
    const u32 exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return f32((h & 0x8000) << 16 | 0x7f800000u | fraction << 13);
    const float magnitude =
        exponent == 0 ? static_cast<float>(fraction) * 0x1p-24f : f32((exponent + 112) << 23 | fraction << 13);
    return h & 0x8000 ? -magnitude : magnitude;
}

template <Source kSource>
u32 compare_slots(Exec& x, const Insn& in, int shift) {
    const auto op = static_cast<Compare>(in.aux & 0xff);
    if constexpr (kSource == Source::kF64) {
        double a[kLanes], b[kLanes];
        for (int l = 0; l < kLanes; ++l) a[l] = f64(x.at<u64>(in.slot[2])[l]), b[l] = f64(x.at<u64>(in.slot[3])[l]);
        return compare_all(op, a, b);
    } else {
        float a[kLanes], b[kLanes];
        const u32 *pa = x.at<u32>(in.slot[2]), *pb = x.at<u32>(in.slot[3]);
        for (int l = 0; l < kLanes; ++l) {
            if constexpr (kSource == Source::kF32) {
                a[l] = f32(in.flags & kFtz ? flush(pa[l]) : pa[l]);
                b[l] = f32(in.flags & kFtz ? flush(pb[l]) : pb[l]);
            } else if constexpr (kSource == Source::kF16) {
                a[l] = half_to_float(pa[l] >> shift & 0xffff);
                b[l] = half_to_float(pb[l] >> shift & 0xffff);
                if (in.flags & kFtz) {
                    if (std::fabs(a[l]) < 0x1p-14f) a[l] = 0;
                    if (std::fabs(b[l]) < 0x1p-14f) b[l] = 0;
                }
            } else {
                a[l] = f32((pa[l] >> shift & 0xffff) << 16);
                b[l] = f32((pb[l] >> shift & 0xffff) << 16);
            }
        }
        return compare_all(op, a, b);
    }
}

LIDX_LANES u32 boolean(u32 op, u32 r, u32 c) { return op == 0 ? r : op == 1 ? r & c : op == 2 ? r | c : r ^ c; }

template <Source kSource, bool kPair>
bool exec_setp(Exec& x, const Insn& in, uint32_t mask) {
    const u32 op = in.aux >> 8 & 0xff;
    const u32 c = op ? x.predicate(in, 4) : 0;
    const u32 r = compare_slots<kSource>(x, in, 0);
    if constexpr (kPair) {   // f16x2: p compares the low halves, q the high ones
        const u32 high = compare_slots<kSource>(x, in, 16);
        x.set_predicate(in.slot[0], boolean(op, r, c), mask);
        x.set_predicate(in.slot[1], boolean(op, high, c), mask);
    } else {
        x.set_predicate(in.slot[0], boolean(op, r, c), mask);
        x.set_predicate(in.slot[1], boolean(op, ~r, c), mask);
    }
    return true;
}
// set: imm: the value for true, per half for x2.
template <Source kSource, bool kPair>
bool exec_set(Exec& x, const Insn& in, uint32_t mask) {
    const u32 op = in.aux >> 8 & 0xff;
    const u32 c = op ? x.predicate(in, 4) : 0;
    const u32 r = boolean(op, compare_slots<kSource>(x, in, 0), c);
    const u32 high = kPair ? boolean(op, compare_slots<kSource>(x, in, 16), c) : 0;
    u32* d = x.at<u32>(in.slot[0]);
    const u32 yes = static_cast<u32>(in.imm);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = (r >> l & 1 ? yes : 0) | (kPair && high >> l & 1 ? yes << 16 : 0);
    return true;
}

template <Source kSource, bool kPair>
Handler comparison(bool set) {
    return set ? exec_set<kSource, kPair> : exec_setp<kSource, kPair>;
}

template <bool kSet>
void encode_compare(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const int op =
        m.one_of({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
    const int logic = m.one_of({"and", "or", "xor"});
    if (ir.operands.size() != (logic >= 0 ? 4u : 3u)) d.fail("it has another number of operands");
    out.aux = static_cast<u32>(op) | static_cast<u32>(logic + 1) << 8;
    const std::string_view t = m.words.back();
    const bool pair = t == "f16x2" || t == "bf16x2";
    const int bits = t == "f64" ? 64 : t == "f16" || t == "bf16" ? 16 : 32;
    const Operand& to = ir.operands[0];
    if constexpr (kSet) {
        const std::string_view dt = m.words[m.words.size() - 2];
        out.slot[0] = d.destination(to, dt == "f16" || dt == "bf16" || dt == "u16" || dt == "s16" ? 16 : 32);
        out.imm = dt == "f32"                          ? 0x3f800000u
                  : dt == "f16" || dt == "f16x2"       ? 0x3c00u
                  : dt == "bf16" || dt == "bf16x2"     ? 0x3f80u
                  : dt == "u16" || dt == "s16" || pair ? 0xffffu
                                                       : ~0u;
    } else {
        if (pair && !to.has_pair) d.fail("setp of packed values writes p|q");
        out.slot[0] = d.predicate_destination(to.has_pair ? to.elements[0] : to);
        out.slot[1] = to.has_pair ? d.predicate_destination(to.elements[1]) : kSinkSlot;
    }
    out.slot[2] = d.source(ir.operands[1], bits);
    out.slot[3] = d.source(ir.operands[2], bits);
    if (logic >= 0) out.slot[4] = d.predicate_source(ir.operands[3], out, 4);
    out.handler = t == "f32"     ? comparison<Source::kF32, false>(kSet)
                  : t == "f64"   ? comparison<Source::kF64, false>(kSet)
                  : t == "f16"   ? comparison<Source::kF16, false>(kSet)
                  : t == "bf16"  ? comparison<Source::kBf16, false>(kSet)
                  : t == "f16x2" ? comparison<Source::kF16, true>(kSet)
                                 : comparison<Source::kBf16, true>(kSet);
}

#define LIDX_ARITHMETIC(name, op) \
    {name ".f32", "r32 s32 s32", exec_nearest<op, u32>}, {name ".rn.f32", "r32 s32 s32", exec_nearest<op, u32>}, \
        {name ".[rn|rz|rm|rp].[ftz].[sat].f32", "r32 s32 s32", exec_general<op, u32>}, \
        {name ".[rn].f64", "r64 s64 s64", exec_nearest<op, u64>}, { \
        name ".(rz|rm|rp).f64", "r64 s64 s64", exec_general<op, u64> \
    }
// These have no default rounding.
#define LIDX_FUSED(name) \
    {name ".rn.f32", "r32 s32 s32 s32", exec_nearest<Op::kFma, u32>}, \
        {name ".(rn|rz|rm|rp).[ftz].[sat].f32", "r32 s32 s32 s32", exec_general<Op::kFma, u32>}, \
        {name ".rn.f64", "r64 s64 s64 s64", exec_nearest<Op::kFma, u64>}, { \
        name ".(rz|rm|rp).f64", "r64 s64 s64 s64", exec_general<Op::kFma, u64> \
    }

const Row kRows[] = {
    // add, sub, mul{.rnd}{.ftz}{.sat}.f32 d, a, b;  .f64;  fma.rnd{.ftz}{.sat}.f32 d, a, b, c;  .f64  (9.7.3.3 - .6)
    LIDX_ARITHMETIC("add", Op::kAdd),
    LIDX_ARITHMETIC("sub", Op::kSub),
    LIDX_ARITHMETIC("mul", Op::kMul),
    LIDX_FUSED("fma"),
    LIDX_FUSED("mad"),   // 9.7.3.7: fma on every current target
    // div.rnd{.ftz}.f32, .f64;  rcp.rnd{.ftz}.f32, .f64;  sqrt.rnd{.ftz}.f32, .f64  (9.7.3.8, .13, .15)
    {"div.rn.f32", "r32 s32 s32", exec_nearest<Op::kDiv, u32>},
    {"div.(rn|rz|rm|rp).[ftz].f32", "r32 s32 s32", exec_general<Op::kDiv, u32>},
    {"div.(rn|rz|rm|rp).f64", "r64 s64 s64", exec_general<Op::kDiv, u64>},
    {"rcp.rn.f32", "r32 s32", exec_nearest<Op::kRcp, u32>},
    {"rcp.(rn|rz|rm|rp).[ftz].f32", "r32 s32", exec_general<Op::kRcp, u32>},
    {"rcp.(rn|rz|rm|rp).f64", "r64 s64", exec_general<Op::kRcp, u64>},
    {"sqrt.rn.f32", "r32 s32", exec_nearest<Op::kSqrt, u32>},
    {"sqrt.(rn|rz|rm|rp).[ftz].f32", "r32 s32", exec_general<Op::kSqrt, u32>},
    {"sqrt.(rn|rz|rm|rp).f64", "r64 s64", exec_general<Op::kSqrt, u64>},
    // add, sub, mul, fma{.rnd}{.ftz}.f32x2  (9.7.3.3 - .6)
    {"add.[rn|rz|rm|rp].[ftz].f32x2", "r64 s64 s64", exec_pair<Op::kAdd>, "100"},
    {"sub.[rn|rz|rm|rp].[ftz].f32x2", "r64 s64 s64", exec_pair<Op::kSub>, "100"},
    {"mul.[rn|rz|rm|rp].[ftz].f32x2", "r64 s64 s64", exec_pair<Op::kMul>, "100"},
    {"fma.(rn|rz|rm|rp).[ftz].f32x2", "r64 s64 s64 s64", exec_pair<Op::kFma>, "100"},
    // abs, neg{.ftz}.f32 d, a;  .f64  (9.7.3.9, .10)
    {"abs.f32", "r32 s32", LIDX_OP1(u32, u32, return a & 0x7fffffffu;)},
    {"abs.ftz.f32", "r32 s32", LIDX_OP1(u32, u32, return flush(a) & 0x7fffffffu;)},
    {"abs.f64", "r64 s64", LIDX_OP1(u64, u64, return a & 0x7fffffffffffffffull;)},
    {"neg.f32", "r32 s32", LIDX_OP1(u32, u32, return a ^ 0x80000000u;)},
    {"neg.ftz.f32", "r32 s32", LIDX_OP1(u32, u32, return flush(a) ^ 0x80000000u;)},
    {"neg.f64", "r64 s64", LIDX_OP1(u64, u64, return a ^ 0x8000000000000000ull;)},
    // min, max{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b;  {.ftz}{.NaN}{.abs}.f32 d, a, b, c;  .f64  (9.7.3.11, .12)
    {"min.f32", "r32 s32 s32", exec_extremum<false, false>},
    {"min.NaN.f32", "r32 s32 s32", exec_extremum<false, true>, "80"},
    {"min.[ftz].[NaN].xorsign.abs.f32", "r32 s32 s32", exec_extremum_general<false>, "86", encode_extremum},
    {"min.[ftz].[NaN].f32", "r32 s32 s32", exec_extremum_general<false>, nullptr, encode_extremum},
    {"min.[ftz].[NaN].[abs].f32", "r32 s32 s32 s32", exec_extremum_general<false>, "100", encode_extremum},
    {"min.f64", "r64 s64 s64", exec_extremum64<false>},
    {"max.f32", "r32 s32 s32", exec_extremum<true, false>},
    {"max.NaN.f32", "r32 s32 s32", exec_extremum<true, true>, "80"},
    {"max.[ftz].[NaN].xorsign.abs.f32", "r32 s32 s32", exec_extremum_general<true>, "86", encode_extremum},
    {"max.[ftz].[NaN].f32", "r32 s32 s32", exec_extremum_general<true>, nullptr, encode_extremum},
    {"max.[ftz].[NaN].[abs].f32", "r32 s32 s32 s32", exec_extremum_general<true>, "100", encode_extremum},
    {"max.f64", "r64 s64 s64", exec_extremum64<true>},
    // testp.op.type p, a;  copysign.type d, a, b  (9.7.3.1, .2)
    {"testp.(finite|infinite|number|notanumber|normal|subnormal).f32", "p s32", exec_testp<u32>, nullptr, encode_testp},
    {"testp.(finite|infinite|number|notanumber|normal|subnormal).f64", "p s64", exec_testp<u64>, nullptr, encode_testp},
    {"copysign.f32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return (a & 0x80000000u) | (b & 0x7fffffffu);)},
    {"copysign.f64", "r64 s64 s64",
     LIDX_OP2(u64, u64, u64, return (a & 0x8000000000000000ull) | (b & 0x7fffffffffffffffull);)},
    // Approximations (9.7.3.8, .13 - .22)
    {"div.approx.[ftz].f32", "r32 s32 s32", exec_div_approx},
    {"div.full.[ftz].f32", "r32 s32 s32", exec_div_approx, nullptr,
     [](Decoder&, const Match&, const Instruction&, Insn& out) { out.aux = 1; }},
    {"rcp.approx.[ftz].f32", "r32 s32", LIDX_APPROX(1.0 / a)},
    {"sqrt.approx.[ftz].f32", "r32 s32", LIDX_APPROX(std::sqrt(a))},
    {"rsqrt.approx.[ftz].f32", "r32 s32", LIDX_APPROX(1.0 / std::sqrt(a))},
    {"sin.approx.[ftz].f32", "r32 s32", LIDX_APPROX(std::sin(a))},
    {"cos.approx.[ftz].f32", "r32 s32", LIDX_APPROX(std::cos(a))},
    {"lg2.approx.[ftz].f32", "r32 s32", LIDX_APPROX(std::log2(a))},
    {"ex2.approx.[ftz].f32", "r32 s32", LIDX_APPROX(std::exp2(a))},
    {"tanh.approx.f32", "r32 s32", LIDX_APPROX(std::tanh(a))},
    {"rcp.approx.ftz.f64", "r64 s64", LIDX_OP1(u64, u64, return result(1.0 / f64(a)) & 0xffffffff00000000ull;)},
    {"rsqrt.approx.[ftz].f64", "r64 s64",
     LIDX_OP1(u64, u64, return result(1.0 / std::sqrt(f64(a))) & 0xffffffff00000000ull;)},
    // setp.CmpOp{.BoolOp}{.ftz}.type p{|q}, a, b{, {!}c};  set.CmpOp{.BoolOp}{.ftz}.dtype.stype  (9.7.6.1, .2, 9.7.7)
    {"setp.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].[ftz].(f32|f64|f16|bf16|f16x2|bf16x2)", "*",
     nullptr, nullptr, encode_compare<false>},
    {"set.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].[ftz].(u32|s32|f32).(f32|f64|f16|bf16)", "*",
     nullptr, nullptr, encode_compare<true>},
    {"set.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].[ftz].(f16|u16|s16).f16", "*", nullptr,
     nullptr, encode_compare<true>},
    {"set.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].(bf16|u16|s16).bf16", "*", nullptr, nullptr,
     encode_compare<true>},
    {"set.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].[ftz].(f16x2|u32|s32).f16x2", "*", nullptr,
     nullptr, encode_compare<true>},
    {"set.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).[and|or|xor].(bf16x2|u32|s32).bf16x2", "*", nullptr,
     nullptr, encode_compare<true>},
};

}   // namespace

std::span<const Row> LIDX_ROWS_FLOAT() { return kRows; }

}   // namespace ptxemu

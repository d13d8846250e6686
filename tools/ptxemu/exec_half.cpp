// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and their pairs; mixed precision (PTX ISA 9.7.4, 9.7.5). Each operation rounds once.
#include <cmath>
#include <cstdint>

#include "half.h"
#include "lanes.h"

namespace ptxemu {
namespace {

enum class Op : uint8_t { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kTanh, kEx2 };

constexpr u16 kNan16 = 0x7fff;

template <bool kBf16>
u16 flush16(u16 v) {
    return (v & (kBf16 ? 0x7f80 : 0x7c00)) == 0 ? v & 0x8000 : v;
}
template <bool kBf16>
bool nan16(u16 v) {
    return (v & 0x7fff) > (kBf16 ? 0x7f80 : 0x7c00);
}
template <bool kBf16>
u16 round16(double v) {
    if (std::isnan(v)) return kNan16;
    return kBf16 ? bf16_round(v) : half_round(v);
}

template <bool kBf16>
u16 one(Op op, u16 a, u16 b, u16 c, uint32_t flags) {
    if (flags & kFtz) a = flush16<kBf16>(a), b = flush16<kBf16>(b), c = flush16<kBf16>(c);
    auto binary = [](HalfOp h, u16 p, u16 q) { return kBf16 ? bf16_binary(h, p, q) : half_binary(h, p, q); };
    auto value = [](u16 v) { return kBf16 ? bf16_value(v) : half_value(v); };
    u16 r = 0;
    switch (op) {
        case Op::kAdd: r = binary(HalfOp::kAdd, a, b); break;
        case Op::kSub: r = binary(HalfOp::kSub, a, b); break;
        case Op::kMul: r = binary(HalfOp::kMul, a, b); break;
        case Op::kFma: r = kBf16 ? bf16_fma(a, b, c) : half_fma(a, b, c); break;
        case Op::kMin:
        case Op::kMax: {
            const u16 sign = (a ^ b) & 0x8000;
            if (flags & kXorSignAbs) a &= 0x7fff, b &= 0x7fff;
            const bool nan = flags & kNanMode;
            r = binary(op == Op::kMin ? (nan ? HalfOp::kMinNan : HalfOp::kMin) : (nan ? HalfOp::kMaxNan : HalfOp::kMax),
                       a, b);
            if ((flags & kXorSignAbs) && !nan16<kBf16>(r)) r |= sign;
            break;
        }
        case Op::kNeg: r = a ^ 0x8000; break;
        case Op::kAbs: r = a & 0x7fff; break;
        case Op::kTanh: r = round16<kBf16>(std::tanh(value(a))); break;
        case Op::kEx2: r = round16<kBf16>(std::exp2(value(a))); break;
    }
    if (flags & kFtz) r = flush16<kBf16>(r);
    if (flags & kSat) {
        const double v = value(r);
        r = !(v > 0) ? 0 : v > 1 ? (kBf16 ? 0x3f80 : 0x3c00) : r;
    }
    if (flags & kRelu) r = nan16<kBf16>(r) ? kNan16 : r & 0x8000 ? 0 : r;
    return r;
}

template <Op kOp, bool kBf16, bool kPair>
bool exec_half(Exec& x, const Insn& in, uint32_t mask) {
    constexpr int sources = kOp == Op::kFma ? 3 : kOp <= Op::kMax ? 2 : 1;
    u32* d = x.at<u32>(in.slot[0]);
    const u32 *a = x.at<u32>(in.slot[1]), *b = sources > 1 ? x.at<u32>(in.slot[2]) : a,
              *c = sources > 2 ? x.at<u32>(in.slot[3]) : a;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u32 low =
            one<kBf16>(kOp, static_cast<u16>(a[l]), static_cast<u16>(b[l]), static_cast<u16>(c[l]), in.flags);
        if constexpr (kPair) {
            const u32 high = one<kBf16>(kOp, static_cast<u16>(a[l] >> 16), static_cast<u16>(b[l] >> 16),
                                        static_cast<u16>(c[l] >> 16), in.flags);
            d[l] = low | high << 16;
        } else {
            d[l] = low;
        }
    }
    return true;
}

// add, sub, fma with f16 or bf16 inputs, f32 accumulation and result (9.7.5).
template <Op kOp, bool kBf16>
bool exec_mixed(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    constexpr SmallFormat kFloatFormat{24, -126, 127, 8, true};
    const int mode = static_cast<int>(rounding_of(in.flags));
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u32 a = x.at<u32>(in.slot[1])[l], b = x.at<u32>(in.slot[2])[l];
        const double va = kBf16 ? bf16_value(static_cast<u16>(a)) : half_value(static_cast<u16>(a));
        double product = va, addend;
        if constexpr (kOp == Op::kFma) {
            product *= kBf16 ? bf16_value(static_cast<u16>(b)) : half_value(static_cast<u16>(b));
            addend = std::bit_cast<float>(x.at<u32>(in.slot[3])[l]);
        } else {
            addend = std::bit_cast<float>(b);
            if (kOp == Op::kSub) addend = -addend;
        }
        const double sum = product + addend;
        if (std::isnan(sum)) {
            d[l] = in.flags & kSat ? 0 : 0x7fffffffu;
            continue;
        }
        int tail = 0;
        if (std::isfinite(sum)) {
            const double t = sum - product;
            const double error = (product - (sum - t)) + (addend - t);
            tail = error > 0 ? 1 : error < 0 ? -1 : 0;
        }
        u32 r = round_to_format(sum, tail, kFloatFormat, mode, false);
        if (in.flags & kSat) {
            const float v = std::bit_cast<float>(r);
            r = !(v > 0) ? 0 : v > 1 ? 0x3f800000u : r;
        }
        d[l] = r;
    }
    return true;
}

#define LIDX_HALF2(name, mods16, modsbf, op) \
    {name "." mods16 ".f16", "r16 s16 s16", exec_half<op, false, false>}, \
        {name "." mods16 ".f16x2", "r32 s32 s32", exec_half<op, false, true>}, \
        {name "." modsbf ".bf16", "r16 s16 s16", exec_half<op, true, false>, "80"}, { \
        name "." modsbf ".bf16x2", "r32 s32 s32", exec_half<op, true, true>, "80" \
    }
#define LIDX_HALF1(name, mods, op) \
    {name "." mods ".f16", "r16 s16", exec_half<op, false, false>}, \
        {name "." mods ".f16x2", "r32 s32", exec_half<op, false, true>}, \
        {name "." mods ".bf16", "r16 s16", exec_half<op, true, false>, "80"}, { \
        name "." mods ".bf16x2", "r32 s32", exec_half<op, true, true>, "80" \
    }

const Row kRows[] = {
    // add, sub, mul{.rnd}{.ftz}{.sat}.(f16|f16x2|bf16|bf16x2) d, a, b  (9.7.4.1 - .3)
    LIDX_HALF2("add", "[rn].[ftz].[sat]", "[rn]", Op::kAdd),
    LIDX_HALF2("sub", "[rn].[ftz].[sat]", "[rn]", Op::kSub),
    LIDX_HALF2("mul", "[rn].[ftz].[sat]", "[rn]", Op::kMul),
    // fma.rnd{.ftz}{.sat|.relu}.f16 d, a, b, c;  fma.rnd{.relu}.bf16  (9.7.4.4)
    {"fma.rn.[ftz].[sat].[relu].f16", "r16 s16 s16 s16", exec_half<Op::kFma, false, false>},
    {"fma.rn.[ftz].[sat].[relu].f16x2", "r32 s32 s32 s32", exec_half<Op::kFma, false, true>},
    {"fma.rn.[relu].bf16", "r16 s16 s16 s16", exec_half<Op::kFma, true, false>, "80"},
    {"fma.rn.[relu].bf16x2", "r32 s32 s32 s32", exec_half<Op::kFma, true, true>, "80"},
    // neg, abs{.ftz}.type d, a  (9.7.4.5, .6)
    LIDX_HALF1("neg", "[ftz]", Op::kNeg),
    LIDX_HALF1("abs", "[ftz]", Op::kAbs),
    // min, max{.ftz}{.NaN}{.xorsign.abs}.type d, a, b  (9.7.4.7, .8)
    LIDX_HALF2("min", "[ftz].[NaN].[xorsign].[abs]", "[NaN].[xorsign].[abs]", Op::kMin),
    LIDX_HALF2("max", "[ftz].[NaN].[xorsign].[abs]", "[NaN].[xorsign].[abs]", Op::kMax),
    // tanh.approx.type d, a;  ex2.approx{.ftz}.type d, a  (9.7.4.9, .10)
    LIDX_HALF1("tanh", "approx", Op::kTanh),
    LIDX_HALF1("ex2", "approx.[ftz]", Op::kEx2),
    // add, sub{.rnd}{.sat}.f32.(f16|bf16) d, a, c;  fma.rnd{.sat}.f32.(f16|bf16) d, a, b, c  (9.7.5)
    {"add.[rn|rz|rm|rp].[sat].f32.f16", "r32 s16 s32", exec_mixed<Op::kAdd, false>, "100f"},
    {"add.[rn|rz|rm|rp].[sat].f32.bf16", "r32 s16 s32", exec_mixed<Op::kAdd, true>, "100f"},
    {"sub.[rn|rz|rm|rp].[sat].f32.f16", "r32 s16 s32", exec_mixed<Op::kSub, false>, "100f"},
    {"sub.[rn|rz|rm|rp].[sat].f32.bf16", "r32 s16 s32", exec_mixed<Op::kSub, true>, "100f"},
    {"fma.(rn|rz|rm|rp).[sat].f32.f16", "r32 s16 s16 s32", exec_mixed<Op::kFma, false>, "100f"},
    {"fma.(rn|rz|rm|rp).[sat].f32.bf16", "r32 s16 s16 s32", exec_mixed<Op::kFma, true>, "100f"},
};

}   // namespace

std::span<const Row> rows_half() { return kRows; }

}   // namespace ptxemu

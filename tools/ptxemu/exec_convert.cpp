// SPDX-License-Identifier: Apache-2.0
// cvt, cvt.pack (PTX ISA 9.7.9.21, .22).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "half.h"
#include "lanes.h"

namespace ptxemu {
namespace {

constexpr SmallFormat kFloatFormat{24, -126, 127, 8, true};
constexpr SmallFormat kE2m3Format{4, 0, 2, 2, false}, kE3m2Format{3, -2, 4, 3, false}, kE2m1Format{2, 0, 2, 2, false};
constexpr u32 kNan32 = 0x7fffffffu;

enum class Kind : uint8_t { kU8, kU16, kU32, kU64, kS8, kS16, kS32, kS64, kF16, kBf16, kF32, kF64, kNone };
constexpr std::string_view kKindNames[] = {"u8",  "u16", "u32", "u64",  "s8",  "s16",
                                           "s32", "s64", "f16", "bf16", "f32", "f64"};
Kind kind_of(std::string_view name) {
    for (size_t i = 0; i < std::size(kKindNames); ++i)
        if (kKindNames[i] == name) return static_cast<Kind>(i);
    return Kind::kNone;
}
bool is_integer(Kind k) { return k <= Kind::kS64; }
bool is_signed(Kind k) { return k >= Kind::kS8 && k <= Kind::kS64; }
int bits_of(Kind k) {
    constexpr int kBits[] = {8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64};
    return kBits[static_cast<int>(k)];
}

float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

int mode_of(uint32_t flags) {
    switch (rounding_of(flags)) {
        case Rounding::kZero: return 1;
        case Rounding::kMinus: return 2;
        case Rounding::kPlus: return 3;
        case Rounding::kNearestAway: return 4;
        default: return 0;
    }
}

double round_integral(double v, int mode) {
    switch (mode) {
        case 1: return std::trunc(v);
        case 2: return std::floor(v);
        case 3: return std::ceil(v);
        default: return std::nearbyint(v);   // the host rounds to nearest even
    }
}

// A source as a number: an integer (wide enough for u64 and s64) or a floating-point value.
struct Value {
    bool integer;
    __int128 i;
    double f;
};

Value read(Kind k, u64 raw, bool ftz) {
    switch (k) {
        case Kind::kU8: return {true, static_cast<uint8_t>(raw), 0};
        case Kind::kU16: return {true, static_cast<u16>(raw), 0};
        case Kind::kU32: return {true, static_cast<u32>(raw), 0};
        case Kind::kU64: return {true, static_cast<__int128>(raw), 0};
        case Kind::kS8: return {true, static_cast<int8_t>(raw), 0};
        case Kind::kS16: return {true, static_cast<s16>(raw), 0};
        case Kind::kS32: return {true, static_cast<s32>(raw), 0};
        case Kind::kS64: return {true, static_cast<s64>(raw), 0};
        case Kind::kF16: return {false, 0, half_value(static_cast<u16>(raw))};
        case Kind::kBf16: return {false, 0, static_cast<double>(std::bit_cast<float>(static_cast<u32>(raw) << 16))};
        case Kind::kF32: {
            const float v = std::bit_cast<float>(static_cast<u32>(raw));
            return {false, 0, ftz ? flush(v) : v};
        }
        default: return {false, 0, std::bit_cast<double>(raw)};
    }
}

u64 to_integer(const Value& v, Kind from, Kind to, int mode, bool saturate) {
    const int bits = bits_of(to);
    const __int128 one = 1;
    const __int128 low = is_signed(to) ? -(one << (bits - 1)) : 0;
    const __int128 high = is_signed(to) ? (one << (bits - 1)) - 1 : (one << bits) - 1;
    if (v.integer) {
        const __int128 i = saturate ? std::clamp(v.i, low, high) : v.i;
        return static_cast<u64>(i);
    }
    if (std::isnan(v.f)) {
        const bool zero = from != Kind::kF64 && to != Kind::kS64 && to != Kind::kU64;
        return zero ? 0 : 1ull << (bits - 1);
    }
    const double r = round_integral(v.f, mode);
    // Out-of-range values go to the nearest limit, with or without .sat.
    if (r <= static_cast<double>(low)) return static_cast<u64>(low);
    if (r >= std::ldexp(1.0, is_signed(to) ? bits - 1 : bits)) return static_cast<u64>(high);
    return static_cast<u64>(static_cast<__int128>(r));
}

// The value as binary64 plus the sign of what is missing.
double wide_value(const Value& v, int* tail) {
    *tail = 0;
    if (!v.integer) return v.f;
    const double d = static_cast<double>(v.i);
    const __int128 back = static_cast<__int128>(d);
    *tail = v.i > back ? 1 : v.i < back ? -1 : 0;
    return d;
}

u64 to_float(const Value& v, Kind to, uint32_t flags, bool integral) {
    int tail;
    double d = wide_value(v, &tail);
    const int mode = mode_of(flags);
    if (integral) d = round_integral(d, mode);
    if (flags & kSat) d = std::isnan(d) ? 0 : std::clamp(d, 0.0, 1.0);
    if ((flags & kSat) && d == 0) d = 0;
    switch (to) {
        case Kind::kF64: {
            if (std::isnan(d)) return 0x7fffffffffffffffull;
            if (v.integer && tail != 0 && mode != 0) {   // s64, u64 with directed rounding
                const bool toward_zero_down = (mode == 1 && d > 0) || mode == 2,
                           toward_zero_up = (mode == 1 && d < 0) || mode == 3;
                if (tail < 0 && toward_zero_down) d = std::nextafter(d, -HUGE_VAL);
                if (tail > 0 && toward_zero_up) d = std::nextafter(d, HUGE_VAL);
            }
            return std::bit_cast<u64>(d);
        }
        case Kind::kF32: {
            if (std::isnan(d)) return kNan32;
            const u32 code = round_to_format(d, tail, kFloatFormat, mode, false);
            return flags & kFtz && (code & 0x7f800000u) == 0 ? code & 0x80000000u : code;
        }
        case Kind::kF16:
        case Kind::kBf16: {
            if (std::isnan(d)) return 0x7fff;
            if ((flags & kRelu) && std::signbit(d)) d = 0;
            return round_to_format(d, tail, to == Kind::kF16 ? kHalfFormat : kBf16Format, mode, flags & kAlternate);
        }
        default: return 0;
    }
}

// slot 0 d, 1 a; aux: from | to << 8 | destination register bits << 16; kWideOperand: a is a 64-bit slot; imm: integral
// rounding.
bool exec_cvt(Exec& x, const Insn& in, uint32_t mask) {
    const Kind from = static_cast<Kind>(in.aux & 0xff), to = static_cast<Kind>(in.aux >> 8 & 0xff);
    const int reg = static_cast<int>(in.aux >> 16);
    const int mode = mode_of(in.flags);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u64 raw = in.flags & kWideOperand ? x.at<u64>(in.slot[1])[l] : x.at<u32>(in.slot[1])[l];
        const Value v = read(from, raw, in.flags & kFtz);
        u64 r;
        if (is_integer(to)) {
            r = to_integer(v, from, to, mode, in.flags & kSat);
            const int bits = bits_of(to);
            // Into a wider register: extended by the destination type's sign (9.4.1).
            if (bits < 64)
                r = is_signed(to) ? static_cast<u64>(static_cast<s64>(r << (64 - bits)) >> (64 - bits))
                                  : r & ((1ull << bits) - 1);
        } else {
            r = to_float(v, to, in.flags, in.imm != 0);
        }
        if (reg == 64) x.at<u64>(in.slot[0])[l] = r;
        else x.at<u32>(in.slot[0])[l] = static_cast<u32>(r) & (reg == 16 ? 0xffffu : ~0u);
    }
    return true;
}

void encode_cvt(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2) d.fail("cvt needs two operands");
    const Kind to = kind_of(m.words[m.words.size() - 2]), from = kind_of(m.words.back());
    const bool integral = m.one_of({"rni", "rzi", "rmi", "rpi"}) >= 0, rounds = m.one_of({"rn", "rz", "rm", "rp"}) >= 0;
    const bool needs_integral = is_integer(to) && !is_integer(from);
    if (needs_integral != integral && !(integral && to == from && !is_integer(to))) {
        d.fail(needs_integral ? "a float-to-integer conversion needs .rni, .rzi, .rmi or .rpi"
                              : "integer rounding does not apply here");
    }
    const bool narrows = !is_integer(to) && (is_integer(from) || bits_of(to) < bits_of(from) ||
                                             (bits_of(to) == 16 && bits_of(from) == 16 && to != from));
    if (narrows && !rounds) d.fail("a rounding modifier is needed");
    if (rounds && is_integer(to)) d.fail("a rounding modifier does not apply here");
    if (m.has("ftz") && from != Kind::kF32 && to != Kind::kF32) d.fail(".ftz applies to .f32 only");
    if (m.has("satfinite")) {
        out.flags = (out.flags & ~kSat) | kAlternate;
        if (to != Kind::kF16 && to != Kind::kBf16) d.fail(".satfinite does not apply here");
    }
    if (m.has("relu") && to != Kind::kF16 && to != Kind::kBf16) d.fail(".relu does not apply here");
    int to_bits = bits_of(to), from_bits = bits_of(from) <= 32 ? 32 : 64;
    out.slot[0] = d.any_destination(ir.operands[0], &to_bits);
    if (to_bits < bits_of(to)) d.fail("the destination register is narrower than the type");
    if (to_bits == 8) to_bits = 16;
    int have = d.register_bits(ir.operands[1]);
    if (have != 0 && have < bits_of(from)) d.fail("the source register is narrower than the type");
    if (ir.operands[1].is_float && bits_of(from) == 16) d.fail("a floating-point immediate cannot stand here");
    out.slot[1] = d.any_source(ir.operands[1], &from_bits);
    if (from_bits == 64) out.flags |= kWideOperand;
    out.imm = integral && !is_integer(to);
    out.aux = static_cast<u32>(from) | static_cast<u32>(to) << 8 | static_cast<u32>(to_bits) << 16;
}

// ---- packed formats ----

enum class Packed : uint8_t { kF16, kBf16, kE4m3, kE5m2, kE2m3, kE3m2, kE2m1, kTf32, kF32 };

const SmallFormat& format_of(Packed p) {
    static constexpr SmallFormat kFormats[] = {kHalfFormat, kBf16Format, kE4m3Format, kE5m2Format, kE2m3Format,
                                               kE3m2Format, kE2m1Format, kTf32Format, kFloatFormat};
    return kFormats[static_cast<int>(p)];
}
int width_of(Packed p) {
    constexpr int kWidths[] = {16, 16, 8, 8, 8, 8, 4, 32, 32};
    return kWidths[static_cast<int>(p)];
}

// Formats without NaN (e2m3, e3m2, e2m1): all codes are finite.
bool all_finite(Packed p) { return p == Packed::kE2m3 || p == Packed::kE3m2 || p == Packed::kE2m1; }

u32 pack_one(double v, Packed to, uint32_t flags, int mode) {
    const SmallFormat& f = format_of(to);
    const int code_bits = f.precision + f.exponent_bits;
    const u32 magnitude_mask = (1u << (code_bits - 1)) - 1;
    if (std::isnan(v)) {
        if (all_finite(to)) return magnitude_mask;   // positive MAX_NORM
        if (to == Packed::kTf32) return kNan32;
        return magnitude_mask;
    }
    if ((flags & kRelu) && std::signbit(v)) v = 0;
    if (all_finite(to)) {
        const double largest = std::ldexp(2.0 - std::ldexp(1.0, 1 - f.precision), f.max_exponent);
        // All ones is the largest value here, and odd: what is nearer to it than to the one below.
        if (std::fabs(v) > largest - std::ldexp(1.0, f.max_exponent - f.precision))
            return (std::signbit(v) ? magnitude_mask + 1 : 0) | magnitude_mask;
        return round_to_format(v, 0, f, mode, true);
    }
    const u32 code = round_to_format(v, 0, f, mode, flags & kSat);
    return to == Packed::kTf32 ? code << 13 : code;
}

double unpack_one(u32 code, Packed from) {
    if (from == Packed::kF32) return std::bit_cast<float>(code);
    const SmallFormat& f = format_of(from);
    if (all_finite(from)) {
        const int fraction_bits = f.precision - 1, code_bits = f.precision + f.exponent_bits;
        const u32 exponent = code >> fraction_bits & ((1u << f.exponent_bits) - 1),
                  fraction = code & ((1u << fraction_bits) - 1);
        const double magnitude = exponent == 0
                                     ? std::ldexp(fraction, f.min_exponent - fraction_bits)
                                     : std::ldexp(fraction + (1u << fraction_bits),
                                                  static_cast<int>(exponent) - 1 + f.min_exponent - fraction_bits);
        return code >> (code_bits - 1) & 1 ? -magnitude : magnitude;
    }
    return format_value(code, f);
}

// Two f32 (slots 1 high, 2 low), or one packed register (slot 1) -> packed. aux: from | to << 8 | count << 16.
bool exec_pack(Exec& x, const Insn& in, uint32_t mask) {
    const auto from = static_cast<Packed>(in.aux & 0xff), to = static_cast<Packed>(in.aux >> 8 & 0xff);
    const int mode = mode_of(in.flags), step = width_of(to), from_step = width_of(from);
    u32* d = x.at<u32>(in.slot[0]);
    const u32* a = x.at<u32>(in.slot[1]);
    const u32* b = in.aux >> 16 == 2 ? x.at<u32>(in.slot[2]) : a;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        if (in.aux >> 16 == 1) {   // one f32 -> tf32, f16 ...
            d[l] = pack_one(unpack_one(a[l], from), to, in.flags, mode);
            continue;
        }
        u32 high, low;
        if (from == Packed::kF32) {
            high = a[l];
            low = b[l];
        } else {
            const u32 keep = (1u << from_step) - 1;
            low = a[l] & keep;
            high = a[l] >> from_step & keep;
        }
        d[l] = pack_one(unpack_one(low, from), to, in.flags, mode) |
               pack_one(unpack_one(high, from), to, in.flags, mode) << step;
    }
    return true;
}

Packed packed_of(std::string_view name) {
    constexpr std::string_view kNames[] = {"f16x2",  "bf16x2", "e4m3x2", "e5m2x2", "e2m3x2",
                                           "e3m2x2", "e2m1x2", "tf32",   "f32"};
    for (size_t i = 0; i < std::size(kNames); ++i)
        if (kNames[i] == name) return static_cast<Packed>(i);
    return Packed::kF32;
}

void encode_pack(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const Packed to = packed_of(m.words[m.words.size() - 2]), from = packed_of(m.words.back());
    const size_t sources = from == Packed::kF32 && to != Packed::kTf32 ? 2 : 1;
    if (ir.operands.size() != 1 + sources) d.fail("it has another number of operands");
    const bool small = width_of(to) <= 8;
    if (small && !m.has("satfinite")) d.fail(".satfinite is mandatory here");
    const int to_bits = width_of(to) == 32 ? 32 : width_of(to) * 2,
              from_bits = width_of(from) == 32 ? 32 : width_of(from) * 2;
    int bits = to_bits;
    out.slot[0] = to_bits == 8 ? d.any_destination(ir.operands[0], &bits) : d.destination(ir.operands[0], to_bits);
    if (from_bits == 8) {
        bits = 32;
        out.slot[1] = d.any_source(ir.operands[1], &bits);
    } else {
        out.slot[1] = d.source(ir.operands[1], from_bits);
    }
    if (sources == 2) out.slot[2] = d.source(ir.operands[2], 32);
    out.aux = static_cast<u32>(from) | static_cast<u32>(to) << 8 |
              (to == Packed::kTf32    ? 1u
               : from == Packed::kF32 ? 2u
                                      : 3u)
                  << 16;
}

// ue8m0x2: powers of two, 2^(code - 127), 255 is NaN; rounding up or to zero (9.7.9.21).
u32 to_ue8m0(double v, bool up) {
    if (std::isnan(v)) return 255;
    v = std::fabs(v);
    if (v == 0) return 0;
    if (std::isinf(v)) return 254;
    int e;
    const double fraction = std::frexp(v, &e);   // v = fraction * 2^e, fraction in [0.5, 1)
    int exponent = e - 1;
    if (up && fraction != 0.5) ++exponent;
    return static_cast<u32>(std::clamp(exponent + 127, 0, 254));
}
bool exec_to_ue8m0(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    const bool up = rounding_of(in.flags) == Rounding::kPlus;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u32 a = x.at<u32>(in.slot[1])[l];
        double high, low;
        if (in.aux == 2) {
            high = std::bit_cast<float>(a);
            low = std::bit_cast<float>(x.at<u32>(in.slot[2])[l]);
        } else {
            high = std::bit_cast<float>(a & 0xffff0000u);
            low = std::bit_cast<float>(a << 16);
        }
        d[l] = to_ue8m0(high, up) << 8 | to_ue8m0(low, up);
    }
    return true;
}
bool exec_from_ue8m0(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    const u32* a = x.at<u32>(in.slot[1]);
    auto one = [](u32 code) -> u32 { return code == 255 ? 0x7fff : code == 0 ? 0x0040 : code << 7; };
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = one(a[l] >> 8 & 0xff) << 16 | one(a[l] & 0xff);
    return true;
}

bool exec_cvt_pack(Exec& x, const Insn& in, uint32_t mask) {
    const int size = static_cast<int>(in.imm);
    const bool is_signed = in.flags & kSigned;
    const s64 low = is_signed ? -(1ll << (size - 1)) : 0,
              high = is_signed ? (1ll << (size - 1)) - 1 : (1ll << size) - 1;
    u32* d = x.at<u32>(in.slot[0]);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const u32 keep = (1u << size) - 1;
        const u32 a = static_cast<u32>(std::clamp<s64>(static_cast<s32>(x.at<u32>(in.slot[1])[l]), low, high)) & keep;
        const u32 b = static_cast<u32>(std::clamp<s64>(static_cast<s32>(x.at<u32>(in.slot[2])[l]), low, high)) & keep;
        d[l] = b | a << size;
        if (size < 16) d[l] |= x.at<u32>(in.slot[3])[l] << (2 * size);
    }
    return true;
}
void encode_cvt_pack(Decoder&, const Match& m, const Instruction&, Insn& out) {
    const std::string_view t = m.words[3];
    if (t[0] == 's') out.flags |= kSigned;
    out.imm = static_cast<u64>(t == "u16" || t == "s16" ? 16
                               : t == "u8" || t == "s8" ? 8
                               : t == "u4" || t == "s4" ? 4
                                                        : 2);
}

#define LIDX_CVT_TYPES "(u8|u16|u32|u64|s8|s16|s32|s64|bf16|f16|f32|f64)"

const Row kRows[] = {
    // cvt{.rnd}{.ftz}{.sat}.dtype.atype d, a  (9.7.9.21); the frequent forms first
    {"cvt.rn.f32.s32", "R32 S32",
     LIDX_OP1(u32, u32, return std::bit_cast<u32>(static_cast<float>(static_cast<s32>(a)));)},
    {"cvt.rn.f32.u32", "R32 S32", LIDX_OP1(u32, u32, return std::bit_cast<u32>(static_cast<float>(a));)},
    {"cvt.s64.s32", "R64 S32", LIDX_OP1(u64, u32, return static_cast<u64>(static_cast<s64>(static_cast<s32>(a)));)},
    {"cvt.u64.u32", "R64 S32", LIDX_OP1(u64, u32, return a;)},
    {"cvt.(u32|s32).(u64|s64)", "R32 S64", LIDX_OP1(u32, u64, return static_cast<u32>(a);)},
    {"cvt.[rni|rzi|rmi|rpi|rn|rz|rm|rp].[relu].[ftz].[sat|satfinite].[relu]." LIDX_CVT_TYPES "." LIDX_CVT_TYPES, "*",
     exec_cvt, nullptr, encode_cvt},
    // cvt.frnd2{.relu}{.satfinite}.(f16x2|bf16x2).f32 d, a, b: a in the upper half
    {"cvt.(rn|rz).[relu].[satfinite].[relu].(f16x2|bf16x2).f32", "*", exec_pack, "80", encode_pack},
    // cvt.rna{.satfinite}.tf32.f32, cvt.(rn|rz){.satfinite}{.relu}.tf32.f32 d, a
    {"cvt.(rna|rn|rz).[relu].[satfinite].[relu].tf32.f32", "*", exec_pack, "80", encode_pack},
    // cvt.rn.satfinite{.relu}.(f8x2|f6x2|f4x2).f32 d, a, b;  .fp16x2 d, a;  cvt.rn{.relu}.f16x2.(f8x2|f6x2|f4x2) d, a
    {"cvt.rn.[relu].satfinite.[relu].(e4m3x2|e5m2x2).(f32|f16x2|bf16x2)", "*", exec_pack, "89", encode_pack},
    {"cvt.rn.[relu].f16x2.(e4m3x2|e5m2x2)", "*", exec_pack, "89", encode_pack},
    {"cvt.rn.[relu].satfinite.[relu].(e2m3x2|e3m2x2|e2m1x2).(f32|f16x2|bf16x2)", "*", exec_pack, "100f", encode_pack},
    {"cvt.rn.[relu].f16x2.(e2m3x2|e3m2x2|e2m1x2)", "*", exec_pack, "100f", encode_pack},
    // cvt.(rz|rp){.satfinite}.ue8m0x2.f32 d, a, b;  .bf16x2 d, a;  cvt.rn.bf16x2.ue8m0x2 d, a
    {"cvt.(rz|rp).[satfinite].ue8m0x2.f32", "r16 s32 s32", exec_to_ue8m0, "100f",
     [](Decoder&, const Match&, const Instruction&, Insn& out) { out.aux = 2; }},
    {"cvt.(rz|rp).[satfinite].ue8m0x2.bf16x2", "r16 s32", exec_to_ue8m0, "100f"},
    {"cvt.rn.bf16x2.ue8m0x2", "r32 s16", exec_from_ue8m0, "100f"},
    // cvt.pack.sat.convertType.s32{.b32} d, a, b{, c}  (9.7.9.22)
    {"cvt.pack.sat.(u16|s16).s32", "r32 s32 s32", exec_cvt_pack, nullptr, encode_cvt_pack},
    {"cvt.pack.sat.(u2|s2|u4|s4|u8|s8).s32.b32", "r32 s32 s32 s32", exec_cvt_pack, nullptr, encode_cvt_pack},
};

}   // namespace

std::span<const Row> rows_convert() { return kRows; }

}   // namespace ptxemu

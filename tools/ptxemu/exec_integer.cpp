// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic, comparison, logic, shifts (PTX ISA 9.7.1, .2, .6, .8). Compiled twice: exec_integer_avx2.cpp.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "lanes.h"

#ifndef LIDX_ROWS_INTEGER
#define LIDX_ROWS_INTEGER rows_integer_base
#endif

namespace ptxemu {
namespace {

template <class To, class From>
LIDX_LANES To as(From v) {
    return static_cast<To>(v);
}

LIDX_LANES u32 saturate_s32(s64 v) {
    return as<u32>(as<s32>(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v));
}
LIDX_LANES u64 mul_hi_u64(u64 a, u64 b) { return as<u64>((static_cast<unsigned __int128>(a) * b) >> 64); }
LIDX_LANES u64 mul_hi_s64(u64 a, u64 b) {
    return as<u64>(as<u64>((static_cast<__int128>(as<s64>(a)) * as<s64>(b)) >> 64));
}
LIDX_LANES s32 s24(u32 v) { return as<s32>(v << 8) >> 8; }
LIDX_LANES u32 u24(u32 v) { return v & 0xffffff; }

// Division by zero gives all ones (quotient) and the dividend (remainder), as the hardware's code sequence does; the
// manual leaves it unspecified. MIN / -1 wraps.
template <class T>
LIDX_LANES T divide(T a, T b) {
    if (b == 0) return as<T>(-1);
    if constexpr (std::numeric_limits<T>::is_signed) {
        if (b == -1) return as<T>(0 - as<u64>(a));
    }
    return as<T>(a / b);
}
template <class T>
LIDX_LANES T remainder(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::numeric_limits<T>::is_signed) {
        if (b == -1) return 0;
    }
    return as<T>(a % b);
}

// Storage S (uint32_t or uint64_t) of a value of type T.
template <class T>
using Storage = std::conditional_t<sizeof(T) == 8, u64, u32>;
template <class T>
LIDX_LANES Storage<T> store(T v) {
    return static_cast<Storage<T>>(static_cast<std::make_unsigned_t<T>>(v));
}

#define LIDX_T1(T, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { \
        return lanes1<Storage<T>, Storage<T>>(x, in, m, [](Storage<T> sa) -> Storage<T> { \
            const T a = static_cast<T>(sa); \
            return store<T>(static_cast<T>(__VA_ARGS__)); \
        }); \
    }
#define LIDX_T2(T, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { \
        return lanes2<Storage<T>, Storage<T>, Storage<T>>(x, in, m, [](Storage<T> sa, Storage<T> sb) -> Storage<T> { \
            const T a = static_cast<T>(sa), b = static_cast<T>(sb); \
            return store<T>(static_cast<T>(__VA_ARGS__)); \
        }); \
    }
#define LIDX_T3(T, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { \
        return lanes3<Storage<T>, Storage<T>, Storage<T>, Storage<T>>( \
            x, in, m, [](Storage<T> sa, Storage<T> sb, Storage<T> sc) -> Storage<T> { \
                const T a = static_cast<T>(sa), b = static_cast<T>(sb), c = static_cast<T>(sc); \
                return store<T>(static_cast<T>(__VA_ARGS__)); \
            }); \
    }

// Two 16-bit halves.
template <class F>
LIDX_LANES u32 halves(u32 a, u32 b, F f) {
    return (f(a & 0xffff, b & 0xffff) & 0xffff) | (f(a >> 16, b >> 16) & 0xffff) << 16;
}

// add.cc, addc, sub.cc, subc, mad.cc, madc: CC.CF is a predicate. imm bit 0: carry in, bit 1: carry out.
template <class T, bool kSubtract>
bool exec_carry(Exec& x, const Insn& in, uint32_t mask) {
    T* d = x.at<T>(in.slot[0]);
    const T *a = x.at<T>(in.slot[1]), *b = x.at<T>(in.slot[2]);
    const u32 carry_slot = x.program->carry_slot;
    const u32 carry_in = in.imm & 1 ? *x.at<u32>(carry_slot) : 0;
    u32 carry_out = 0;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const unsigned __int128 borrow_or_carry = carry_in >> l & 1;
        // Subtraction: CC.CF holds the borrow.
        const unsigned __int128 r = kSubtract ? static_cast<unsigned __int128>(a[l]) - b[l] - borrow_or_carry
                                              : static_cast<unsigned __int128>(a[l]) + b[l] + borrow_or_carry;
        d[l] = static_cast<T>(r);
        if (r >> (8 * sizeof(T)) & 1) carry_out |= 1u << l;
    }
    if (in.imm & 2) x.set_predicate(carry_slot, carry_out, mask);
    return true;
}
// mad.(lo|hi).cc, madc: kHigh is in imm bit 2; kSigned as a flag.
template <class T>
bool exec_mad_carry(Exec& x, const Insn& in, uint32_t mask) {
    T* d = x.at<T>(in.slot[0]);
    const T *a = x.at<T>(in.slot[1]), *b = x.at<T>(in.slot[2]), *c = x.at<T>(in.slot[3]);
    const u32 carry_slot = x.program->carry_slot;
    const u32 carry_in = in.imm & 1 ? *x.at<u32>(carry_slot) : 0;
    u32 carry_out = 0;
    constexpr int kBits = 8 * sizeof(T);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        using S = std::make_signed_t<T>;
        const unsigned __int128 product =
            in.flags & kSigned
                ? static_cast<unsigned __int128>(static_cast<__int128>(static_cast<S>(a[l])) * static_cast<S>(b[l]))
                : static_cast<unsigned __int128>(a[l]) * b[l];
        const T part = static_cast<T>(in.imm & 4 ? product >> kBits : product);
        const unsigned __int128 r = static_cast<unsigned __int128>(part) + c[l] + (carry_in >> l & 1);
        d[l] = static_cast<T>(r);
        if (r >> kBits & 1) carry_out |= 1u << l;
    }
    if (in.imm & 2) x.set_predicate(carry_slot, carry_out, mask);
    return true;
}
void encode_carry(Decoder&, const Match& m, const Instruction&, Insn& out) {
    out.imm = (m.words[0].back() == 'c' ? 1 : 0) | (m.has("cc") ? 2 : 0) | (m.has("hi") ? 4 : 0);
    if (m.words.back()[0] == 's') out.flags |= kSigned;
}

LIDX_LANES u32 reverse_bits(u32 v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

// bfe (9.7.1.19): position and length are b[7:0] and c[7:0].
template <class T>
LIDX_LANES T extract(T a, u32 b, u32 c) {
    constexpr u32 kMsb = 8 * sizeof(T) - 1;
    using U = std::make_unsigned_t<T>;
    const u32 position = b & 0xff, length = c & 0xff;
    bool sign = false;
    if (std::numeric_limits<T>::is_signed && length != 0) {
        const u32 at = std::min(position + length - 1, kMsb);
        sign = static_cast<U>(a) >> at & 1;
    }
    U d = sign ? ~U(0) : U(0);
    if (length == 0) return 0;
    const u32 have = position > kMsb ? 0 : std::min(length, kMsb - position + 1);
    const U keep = have > kMsb ? ~U(0) : (U(1) << have) - 1;
    if (have != 0) d = (d & ~keep) | (static_cast<U>(a) >> position & keep);
    return static_cast<T>(d);
}
// bfi (9.7.1.20): a into b at position c.
template <class U>
LIDX_LANES U insert(U a, U b, u32 c, u32 d) {
    constexpr u32 kMsb = 8 * sizeof(U) - 1;
    const u32 position = c & 0xff, length = d & 0xff;
    if (position > kMsb || length == 0) return b;
    const u32 have = std::min(length, kMsb - position + 1);
    const U keep = (have > kMsb ? ~U(0) : (U(1) << have) - 1) << position;
    return (b & ~keep) | ((a << position) & keep);
}

template <class U>
bool exec_bfi(Exec& x, const Insn& in, uint32_t mask) {
    U* f = x.at<U>(in.slot[0]);
    const U *a = x.at<U>(in.slot[1]), *b = x.at<U>(in.slot[2]);
    const u32 *c = x.at<u32>(in.slot[3]), *d = x.at<u32>(in.slot[4]);
    U t[kLanes];
    for (int l = 0; l < kLanes; ++l) t[l] = insert<U>(a[l], b[l], c[l], d[l]);
    merge_lanes(f, t, mask);
    return true;
}

// bfind (9.7.1.16): bit position of the most significant non-sign bit, ~0 if none.
template <class T>
LIDX_LANES u32 find_bit(T a, bool shift_amount) {
    using U = std::make_unsigned_t<T>;
    U v = static_cast<U>(a);
    if (std::numeric_limits<T>::is_signed && a < 0) v = static_cast<U>(~v);
    if (v == 0) return ~0u;
    const u32 position = static_cast<u32>(std::bit_width(v)) - 1;
    return shift_amount ? 8 * sizeof(T) - 1 - position : position;
}

// fns (9.7.1.x): the n-th set bit from base on (n > 0 upwards, n < 0 downwards, 0: base itself if set).
LIDX_LANES u32 find_nth_set(u32 mask, u32 base, s32 n) {
    if (base > 31) return ~0u;
    if (n == 0) return mask >> base & 1 ? base : ~0u;
    const int step = n > 0 ? 1 : -1;
    s64 left = n > 0 ? n : -static_cast<s64>(n);
    for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) && --left == 0) return static_cast<u32>(i);
    return ~0u;
}

// lop3.b32 (9.7.8.6): the table's index is a << 2 | b << 1 | c.
template <bool kPredicate>
bool exec_lop3(Exec& x, const Insn& in, uint32_t mask) {
    const u32 *a = x.at<u32>(in.slot[1]), *b = x.at<u32>(in.slot[2]), *c = x.at<u32>(in.slot[3]);
    const u32 t = in.aux;
    const u32 k0 = t & 1 ? ~0u : 0, k1 = t & 2 ? ~0u : 0, k2 = t & 4 ? ~0u : 0, k3 = t & 8 ? ~0u : 0,
              k4 = t & 16 ? ~0u : 0, k5 = t & 32 ? ~0u : 0, k6 = t & 64 ? ~0u : 0, k7 = t & 128 ? ~0u : 0;
    u32 r[kLanes];
    for (int l = 0; l < kLanes; ++l) {
        const u32 A = a[l], B = b[l], C = c[l];
        r[l] = (~A & ((~B & ((~C & k0) | (C & k1))) | (B & ((~C & k2) | (C & k3))))) |
               (A & ((~B & ((~C & k4) | (C & k5))) | (B & ((~C & k6) | (C & k7)))));
    }
    if constexpr (kPredicate) {   // lop3.BoolOp.b32 d|p, a, b, c, immLut, q: p = (d != 0) BoolOp q
        const u32 some = lane_mask([&](int l) { return r[l] != 0; });
        const u32 q = x.predicate(in, 4);
        x.set_predicate(in.slot[5], in.imm ? some & q : some | q, mask);
    }
    merge_lanes(x.at<u32>(in.slot[0]), r, mask);
    return true;
}
void encode_lop3(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool predicate = m.has("and") || m.has("or");
    if (ir.operands.size() != (predicate ? 6u : 5u)) d.fail("lop3 has another number of operands");
    const Operand* to = &ir.operands[0];
    if (predicate) {
        if (!to->has_pair) d.fail("lop3 with a predicate writes d|p");
        out.slot[5] = d.predicate_destination(to->elements[1]);
        to = &to->elements[0];
        out.slot[4] = d.predicate_source(ir.operands[5], out, 4);
        out.imm = m.has("and");
    }
    out.slot[0] = d.destination(*to, 32);
    for (int i = 1; i <= 3; ++i) out.slot[i] = d.source(ir.operands[i], 32);
    const u64 lut = d.immediate(ir.operands[4]);
    if (lut > 255) d.fail("immLut is outside 0..255");
    out.aux = static_cast<u32>(lut);
    out.handler = predicate ? exec_lop3<true> : exec_lop3<false>;
}

// prmt (9.7.9.7). aux: mode.
LIDX_LANES u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = a | static_cast<u64>(b) << 32;
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 s = selector >> (4 * i) & 15;
        u32 byte = static_cast<u32>(bytes >> (8 * (s & 7))) & 0xff;
        if (s & 8) byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * i);
    }
    return r;
}
bool exec_prmt(Exec& x, const Insn& in, uint32_t mask) {
    static constexpr u32 kForward[4] = {0x3210, 0x4321, 0x5432, 0x6543},
                         kBackward[4] = {0x5670, 0x6701, 0x7012, 0x0123},
                         kReplicate[4] = {0x0000, 0x1111, 0x2222, 0x3333}, kLeft[4] = {0x3210, 0x3211, 0x3222, 0x3333},
                         kRight[4] = {0x0000, 0x1110, 0x2210, 0x3210}, kHalf[4] = {0x1010, 0x3232, 0x1010, 0x3232};
    static constexpr const u32* kModes[] = {nullptr, kForward, kBackward, kReplicate, kLeft, kRight, kHalf};
    const u32* mode = kModes[in.aux];
    u32* d = x.at<u32>(in.slot[0]);
    const u32 *a = x.at<u32>(in.slot[1]), *b = x.at<u32>(in.slot[2]), *c = x.at<u32>(in.slot[3]);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = permute(a[l], b[l], mode ? mode[c[l] & 3] : c[l]);
    return true;
}

// dp4a, dp2a (9.7.1.23, .24). Signedness of a and b separately.
template <bool kSignedA, bool kSignedB, int kParts, bool kHigh>
bool exec_dot(Exec& x, const Insn& in, uint32_t mask) {
    return lanes3<u32, u32, u32, u32>(x, in, mask, [](u32 a, u32 b, u32 c) -> u32 {
        u32 sum = c;
        for (int i = 0; i < kParts; ++i) {
            s32 va, vb;
            if constexpr (kParts == 4)
                va = kSignedA ? static_cast<int8_t>(a >> 8 * i) : static_cast<s32>(a >> 8 * i & 0xff);
            else va = kSignedA ? static_cast<s16>(a >> 16 * i) : static_cast<s32>(a >> 16 * i & 0xffff);
            const u32 byte = b >> 8 * (i + (kHigh ? 2 : 0));
            vb = kSignedB ? static_cast<int8_t>(byte) : static_cast<s32>(byte & 0xff);
            sum += static_cast<u32>(va * vb);
        }
        return sum;
    });
}

// ---- comparison ----

enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };

template <class T, class F>
LIDX_LANES u32 compare_lanes(const Storage<T>* a, const Storage<T>* b, F f) {
    return lane_mask([&](int l) { return f(static_cast<T>(a[l]), static_cast<T>(b[l])); });
}
template <class T>
LIDX_LANES u32 compare_all(Compare op, const Storage<T>* a, const Storage<T>* b) {
    switch (op) {
        case Compare::kEq: return compare_lanes<T>(a, b, [](T x, T y) { return x == y; });
        case Compare::kNe: return compare_lanes<T>(a, b, [](T x, T y) { return x != y; });
        case Compare::kLt: return compare_lanes<T>(a, b, [](T x, T y) { return x < y; });
        case Compare::kLe: return compare_lanes<T>(a, b, [](T x, T y) { return x <= y; });
        case Compare::kGt: return compare_lanes<T>(a, b, [](T x, T y) { return x > y; });
        case Compare::kGe: return compare_lanes<T>(a, b, [](T x, T y) { return x >= y; });
    }
    return 0;
}

// setp: slot 0 p, 1 q (or the sink), 2 a, 3 b, 4 c; aux: Compare | BoolOp << 8 (0 none, 1 and, 2 or, 3 xor).
template <class T>
bool exec_setp(Exec& x, const Insn& in, uint32_t mask) {
    const u32 r =
        compare_all<T>(static_cast<Compare>(in.aux & 0xff), x.at<Storage<T>>(in.slot[2]), x.at<Storage<T>>(in.slot[3]));
    const u32 op = in.aux >> 8;
    if (op == 0) {
        x.set_predicate(in.slot[0], r, mask);
        x.set_predicate(in.slot[1], ~r, mask);
        return true;
    }
    const u32 c = x.predicate(in, 4);
    const u32 p = op == 1 ? r & c : op == 2 ? r | c : r ^ c;
    const u32 q = op == 1 ? ~r & c : op == 2 ? ~r | c : ~r ^ c;
    x.set_predicate(in.slot[0], p, mask);
    x.set_predicate(in.slot[1], q, mask);
    return true;
}
// set.CmpOp{.BoolOp}.dtype.stype: slot 0 d, 2 a, 3 b, 4 c; imm: the value for true.
template <class T>
bool exec_set(Exec& x, const Insn& in, uint32_t mask) {
    u32 r =
        compare_all<T>(static_cast<Compare>(in.aux & 0xff), x.at<Storage<T>>(in.slot[2]), x.at<Storage<T>>(in.slot[3]));
    const u32 op = in.aux >> 8;
    if (op != 0) {
        const u32 c = x.predicate(in, 4);
        r = op == 1 ? r & c : op == 2 ? r | c : r ^ c;
    }
    u32* d = x.at<u32>(in.slot[0]);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = r >> l & 1 ? static_cast<u32>(in.imm) : 0;
    return true;
}

template <class T, bool kSet>
Handler compare_handler() {
    return kSet ? exec_set<T> : exec_setp<T>;
}

template <bool kSet>
void encode_compare(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const int boolean = m.one_of({"and", "or", "xor"});
    if (ir.operands.size() != (boolean >= 0 ? 4u : 3u)) d.fail("it has another number of operands");
    const int op = m.one_of({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"});
    const std::string_view t = m.words.back();
    if (op >= 6 && t[0] != 'u' && t[0] != 'b') d.fail("lo, ls, hi and hs compare unsigned integers");
    if (t[0] == 'b' && op > 1) d.fail("bit-size types compare with eq and ne only");
    out.aux = static_cast<u32>(op < 6 ? op : op - 4) | static_cast<u32>(boolean + 1) << 8;
    const int bits = t.ends_with("16") ? 16 : t.ends_with("64") ? 64 : 32;
    const Operand& to = ir.operands[0];
    if constexpr (kSet) {
        out.slot[0] = d.destination(to, 32);
        out.imm = m.has("f32") ? 0x3f800000u : ~0u;
    } else if (to.has_pair) {
        out.slot[0] = d.predicate_destination(to.elements[0]);
        out.slot[1] = d.predicate_destination(to.elements[1]);
    } else {
        out.slot[0] = d.predicate_destination(to);
        out.slot[1] = kSinkSlot;
    }
    out.slot[2] = d.source(ir.operands[1], bits);
    out.slot[3] = d.source(ir.operands[2], bits);
    if (boolean >= 0) out.slot[4] = d.predicate_source(ir.operands[3], out, 4);
    const bool is_signed = t[0] == 's';
    out.handler = bits == 16   ? (is_signed ? compare_handler<s16, kSet>() : compare_handler<u16, kSet>())
                  : bits == 64 ? (is_signed ? compare_handler<s64, kSet>() : compare_handler<u64, kSet>())
                               : (is_signed ? compare_handler<s32, kSet>() : compare_handler<u32, kSet>());
}

// selp.type d, a, b, c (9.7.6.3)
template <class S>
bool exec_selp(Exec& x, const Insn& in, uint32_t mask) {
    S* d = x.at<S>(in.slot[0]);
    const S *a = x.at<S>(in.slot[1]), *b = x.at<S>(in.slot[2]);
    const u32 c = x.predicate(in, 3);
    S t[kLanes];
    for (int l = 0; l < kLanes; ++l) t[l] = c & kLaneBit[l] ? a[l] : b[l];
    if (mask == kFullMask) {
        for (int l = 0; l < kLanes; ++l) d[l] = t[l];
    } else {
        merge_lanes(d, t, mask);
    }
    return true;
}
// slct.type.s32 d, a, b, c: c >= 0 ? a : b; c an f32: -0 counts as >= 0, NaN selects b (9.7.6.4).
template <class S, bool kFloat>
bool exec_slct(Exec& x, const Insn& in, uint32_t mask) {
    const bool flush = in.flags & kFtz;
    return lanes3<S, S, S, u32>(x, in, mask, [flush](S a, S b, u32 c) -> S {
        bool first;
        if constexpr (kFloat) {
            float f = std::bit_cast<float>(c);
            if (flush && (c & 0x7f800000u) == 0) f = 0;
            first = f >= 0;
        } else {
            first = static_cast<s32>(c) >= 0;
        }
        return first ? a : b;
    });
}

bool exec_pred_op(Exec& x, const Insn& in, uint32_t mask) {
    const u32 a = x.predicate(in, 1), b = in.aux == 3 ? 0 : x.predicate(in, 2);
    x.set_predicate(in.slot[0], in.aux == 0 ? a & b : in.aux == 1 ? a | b : in.aux == 2 ? a ^ b : ~a, mask);
    return true;
}
void encode_pred_op(Decoder&, const Match& m, const Instruction&, Insn& out) {
    out.aux = static_cast<u32>(m.words[0] == "and" ? 0 : m.words[0] == "or" ? 1 : m.words[0] == "xor" ? 2 : 3);
}

const Row kRows[] = {
    // add{.sat}.type d, a, b;  sub  (9.7.1.1, .2)
    {"add.(u16|s16)", "r16 s16 s16", LIDX_T2(u16, a + b)},
    {"add.(u32|s32)", "r32 s32 s32", LIDX_T2(u32, a + b)},
    {"add.(u64|s64)", "r64 s64 s64", LIDX_T2(u64, a + b)},
    {"add.sat.s32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return saturate_s32(as<s64>(as<s32>(a)) + as<s32>(b));)},
    {"add.(u16x2|s16x2)", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return halves(a, b, [](u32 p, u32 q) { return p + q; });), "90"},
    {"sub.(u16|s16)", "r16 s16 s16", LIDX_T2(u16, a - b)},
    {"sub.(u32|s32)", "r32 s32 s32", LIDX_T2(u32, a - b)},
    {"sub.(u64|s64)", "r64 s64 s64", LIDX_T2(u64, a - b)},
    {"sub.sat.s32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return saturate_s32(as<s64>(as<s32>(a)) - as<s32>(b));)},
    // add.cc, addc{.cc}, sub.cc, subc{.cc}.type d, a, b;  mad(c).(lo|hi){.cc}.type d, a, b, c  (9.7.2)
    {"add.cc.(u32|s32)", "r32 s32 s32", exec_carry<u32, false>, nullptr, encode_carry},
    {"add.cc.(u64|s64)", "r64 s64 s64", exec_carry<u64, false>, nullptr, encode_carry},
    {"addc.[cc].(u32|s32)", "r32 s32 s32", exec_carry<u32, false>, nullptr, encode_carry},
    {"addc.[cc].(u64|s64)", "r64 s64 s64", exec_carry<u64, false>, nullptr, encode_carry},
    {"sub.cc.(u32|s32)", "r32 s32 s32", exec_carry<u32, true>, nullptr, encode_carry},
    {"sub.cc.(u64|s64)", "r64 s64 s64", exec_carry<u64, true>, nullptr, encode_carry},
    {"subc.[cc].(u32|s32)", "r32 s32 s32", exec_carry<u32, true>, nullptr, encode_carry},
    {"subc.[cc].(u64|s64)", "r64 s64 s64", exec_carry<u64, true>, nullptr, encode_carry},
    {"mad.(lo|hi).cc.(u32|s32)", "r32 s32 s32 s32", exec_mad_carry<u32>, nullptr, encode_carry},
    {"mad.(lo|hi).cc.(u64|s64)", "r64 s64 s64 s64", exec_mad_carry<u64>, nullptr, encode_carry},
    {"madc.(lo|hi).[cc].(u32|s32)", "r32 s32 s32 s32", exec_mad_carry<u32>, nullptr, encode_carry},
    {"madc.(lo|hi).[cc].(u64|s64)", "r64 s64 s64 s64", exec_mad_carry<u64>, nullptr, encode_carry},
    // mul.(hi|lo|wide).type d, a, b  (9.7.1.3)
    {"mul.lo.(u16|s16)", "r16 s16 s16", LIDX_T2(u16, as<u32>(a) * b)},
    {"mul.lo.(u32|s32)", "r32 s32 s32", LIDX_T2(u32, a* b)},
    {"mul.lo.(u64|s64)", "r64 s64 s64", LIDX_T2(u64, a* b)},
    {"mul.hi.u16", "r16 s16 s16", LIDX_T2(u16, (as<u32>(a) * b) >> 16)},
    {"mul.hi.s16", "r16 s16 s16", LIDX_T2(s16, (as<s32>(a) * b) >> 16)},
    {"mul.hi.u32", "r32 s32 s32", LIDX_T2(u32, (as<u64>(a) * b) >> 32)},
    {"mul.hi.s32", "r32 s32 s32", LIDX_T2(s32, (as<s64>(a) * b) >> 32)},
    {"mul.hi.u64", "r64 s64 s64", LIDX_T2(u64, mul_hi_u64(a, b))},
    {"mul.hi.s64", "r64 s64 s64", LIDX_T2(u64, mul_hi_s64(a, b))},
    {"mul.wide.u16", "r32 s16 s16", LIDX_OP2(u32, u32, u32, return a * b;)},
    {"mul.wide.s16", "r32 s16 s16", LIDX_OP2(u32, u32, u32, return as<u32>(as<s32>(as<s16>(a)) * as<s16>(b));)},
    {"mul.wide.u32", "r64 s32 s32", LIDX_OP2(u64, u32, u32, return as<u64>(a) * b;)},
    {"mul.wide.s32", "r64 s32 s32", LIDX_OP2(u64, u32, u32, return as<u64>(as<s64>(as<s32>(a)) * as<s32>(b));)},
    // mad.(hi|lo|wide).type d, a, b, c;  mad.hi.sat.s32  (9.7.1.4)
    {"mad.lo.(u16|s16)", "r16 s16 s16 s16", LIDX_T3(u16, as<u32>(a) * b + c)},
    {"mad.lo.(u32|s32)", "r32 s32 s32 s32", LIDX_T3(u32, a* b + c)},
    {"mad.lo.(u64|s64)", "r64 s64 s64 s64", LIDX_T3(u64, a* b + c)},
    {"mad.hi.u16", "r16 s16 s16 s16", LIDX_T3(u16, ((as<u32>(a) * b) >> 16) + c)},
    {"mad.hi.s16", "r16 s16 s16 s16", LIDX_T3(s16, ((as<s32>(a) * b) >> 16) + c)},
    {"mad.hi.u32", "r32 s32 s32 s32", LIDX_T3(u32, ((as<u64>(a) * b) >> 32) + c)},
    {"mad.hi.s32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>((as<s64>(as<s32>(a)) * as<s32>(b)) >> 32) + c;)},
    {"mad.hi.sat.s32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return saturate_s32(((as<s64>(as<s32>(a)) * as<s32>(b)) >> 32) + as<s32>(c));)},
    {"mad.hi.u64", "r64 s64 s64 s64", LIDX_T3(u64, mul_hi_u64(a, b) + c)},
    {"mad.hi.s64", "r64 s64 s64 s64", LIDX_T3(u64, mul_hi_s64(a, b) + c)},
    {"mad.wide.u16", "r32 s16 s16 s32", LIDX_OP3(u32, u32, u32, u32, return a * b + c;)},
    {"mad.wide.s16", "r32 s16 s16 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>(as<s32>(as<s16>(a)) * as<s16>(b)) + c;)},
    {"mad.wide.u32", "r64 s32 s32 s64", LIDX_OP3(u64, u32, u32, u64, return as<u64>(a) * b + c;)},
    {"mad.wide.s32", "r64 s32 s32 s64",
     LIDX_OP3(u64, u32, u32, u64, return as<u64>(as<s64>(as<s32>(a)) * as<s32>(b)) + c;)},
    // mul24, mad24.(hi|lo).type: 24-bit operands, bits 47..16 or 31..0 of the product  (9.7.1.5, .6)
    {"mul24.lo.u32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return u24(a) * u24(b);)},
    {"mul24.lo.s32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return as<u32>(as<s64>(s24(a)) * s24(b));)},
    {"mul24.hi.u32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return as<u32>((as<u64>(u24(a)) * u24(b)) >> 16);)},
    {"mul24.hi.s32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return as<u32>((as<s64>(s24(a)) * s24(b)) >> 16);)},
    {"mad24.lo.u32", "r32 s32 s32 s32", LIDX_OP3(u32, u32, u32, u32, return u24(a) * u24(b) + c;)},
    {"mad24.lo.s32", "r32 s32 s32 s32", LIDX_OP3(u32, u32, u32, u32, return as<u32>(as<s64>(s24(a)) * s24(b)) + c;)},
    {"mad24.hi.u32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>((as<u64>(u24(a)) * u24(b)) >> 16) + c;)},
    {"mad24.hi.s32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>((as<s64>(s24(a)) * s24(b)) >> 16) + c;)},
    {"mad24.hi.sat.s32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32,
              return saturate_s32(as<s64>(as<s32>((as<s64>(s24(a)) * s24(b)) >> 16)) + as<s32>(c));)},
    // sad.type d, a, b, c: c + |a - b|  (9.7.1.7)
    {"sad.u16", "r16 s16 s16 s16", LIDX_T3(u16, c + (a > b ? a - b : b - a))},
    {"sad.s16", "r16 s16 s16 s16", LIDX_T3(s16, c + (a > b ? a - b : b - a))},
    {"sad.u32", "r32 s32 s32 s32", LIDX_T3(u32, c + (a > b ? a - b : b - a))},
    {"sad.s32", "r32 s32 s32 s32", LIDX_T3(u32, c + (as<s32>(a) > as<s32>(b) ? a - b : b - a))},
    {"sad.u64", "r64 s64 s64 s64", LIDX_T3(u64, c + (a > b ? a - b : b - a))},
    {"sad.s64", "r64 s64 s64 s64", LIDX_T3(u64, c + (as<s64>(a) > as<s64>(b) ? a - b : b - a))},
    // div.type, rem.type d, a, b  (9.7.1.8, .9)
    {"div.u16", "r16 s16 s16", LIDX_T2(u16, divide<u16>(a, b))},
    {"div.s16", "r16 s16 s16", LIDX_T2(s16, divide<s16>(a, b))},
    {"div.u32", "r32 s32 s32", LIDX_T2(u32, divide<u32>(a, b))},
    {"div.s32", "r32 s32 s32", LIDX_T2(s32, divide<s32>(a, b))},
    {"div.u64", "r64 s64 s64", LIDX_T2(u64, divide<u64>(a, b))},
    {"div.s64", "r64 s64 s64", LIDX_T2(s64, divide<s64>(a, b))},
    {"rem.u16", "r16 s16 s16", LIDX_T2(u16, remainder<u16>(a, b))},
    {"rem.s16", "r16 s16 s16", LIDX_T2(s16, remainder<s16>(a, b))},
    {"rem.u32", "r32 s32 s32", LIDX_T2(u32, remainder<u32>(a, b))},
    {"rem.s32", "r32 s32 s32", LIDX_T2(s32, remainder<s32>(a, b))},
    {"rem.u64", "r64 s64 s64", LIDX_T2(u64, remainder<u64>(a, b))},
    {"rem.s64", "r64 s64 s64", LIDX_T2(s64, remainder<s64>(a, b))},
    // abs.type, neg.type d, a  (9.7.1.10, .11)
    {"abs.s16", "r16 s16", LIDX_T1(s16, a < 0 ? -a : a)},
    {"abs.s32", "r32 s32", LIDX_T1(u32, as<s32>(a) < 0 ? 0 - a : a)},
    {"abs.s64", "r64 s64", LIDX_T1(u64, as<s64>(a) < 0 ? 0 - a : a)},
    {"neg.s16", "r16 s16", LIDX_T1(s16, -a)},
    {"neg.s32", "r32 s32", LIDX_T1(u32, 0 - a)},
    {"neg.s64", "r64 s64", LIDX_T1(u64, 0 - a)},
    // min.type, max.type{.relu} d, a, b  (9.7.1.12, .13)
    {"min.u16", "r16 s16 s16", LIDX_T2(u16, a < b ? a : b)},
    {"min.s16", "r16 s16 s16", LIDX_T2(s16, a < b ? a : b)},
    {"min.u32", "r32 s32 s32", LIDX_T2(u32, a < b ? a : b)},
    {"min.s32", "r32 s32 s32", LIDX_T2(s32, a < b ? a : b)},
    {"min.u64", "r64 s64 s64", LIDX_T2(u64, a < b ? a : b)},
    {"min.s64", "r64 s64 s64", LIDX_T2(s64, a < b ? a : b)},
    {"min.[relu].s32.[relu]", "r32 s32 s32", LIDX_T2(s32, (a < b ? a : b) < 0 ? 0 : (a < b ? a : b)), "90"},
    {"max.u16", "r16 s16 s16", LIDX_T2(u16, a > b ? a : b)},
    {"max.s16", "r16 s16 s16", LIDX_T2(s16, a > b ? a : b)},
    {"max.u32", "r32 s32 s32", LIDX_T2(u32, a > b ? a : b)},
    {"max.s32", "r32 s32 s32", LIDX_T2(s32, a > b ? a : b)},
    {"max.u64", "r64 s64 s64", LIDX_T2(u64, a > b ? a : b)},
    {"max.s64", "r64 s64 s64", LIDX_T2(s64, a > b ? a : b)},
    {"max.[relu].s32.[relu]", "r32 s32 s32", LIDX_T2(s32, (a > b ? a : b) < 0 ? 0 : (a > b ? a : b)), "90"},
    {"min.u16x2", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return halves(a, b, [](u32 p, u32 q) { return p < q ? p : q; });), "90"},
    {"max.u16x2", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return halves(a, b, [](u32 p, u32 q) { return p > q ? p : q; });), "90"},
    {"min.s16x2", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return halves(a, b, [](u32 p, u32 q) { return as<s16>(p) < as<s16>(q) ? p : q; });), "90"},
    {"max.s16x2", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return halves(a, b, [](u32 p, u32 q) { return as<s16>(p) > as<s16>(q) ? p : q; });), "90"},
    {"min.[relu].s16x2.[relu]", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32,
              return halves(a, b,
                            [](u32 p, u32 q) {
                                const u32 r = as<s16>(p) < as<s16>(q) ? p : q;
                                return as<s16>(r) < 0 ? 0u : r;
                            });),
     "90"},
    {"max.[relu].s16x2.[relu]", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32,
              return halves(a, b,
                            [](u32 p, u32 q) {
                                const u32 r = as<s16>(p) > as<s16>(q) ? p : q;
                                return as<s16>(r) < 0 ? 0u : r;
                            });),
     "90"},
    // popc, clz, bfind{.shiftamt}, fns, brev  (9.7.1.14 - .18)
    {"popc.b32", "r32 s32", LIDX_OP1(u32, u32, return as<u32>(std::popcount(a));)},
    {"popc.b64", "r32 s64", LIDX_OP1(u32, u64, return as<u32>(std::popcount(a));)},
    {"clz.b32", "r32 s32", LIDX_OP1(u32, u32, return as<u32>(std::countl_zero(a));)},
    {"clz.b64", "r32 s64", LIDX_OP1(u32, u64, return as<u32>(std::countl_zero(a));)},
    {"bfind.u32", "r32 s32", LIDX_OP1(u32, u32, return find_bit<u32>(a, false);)},
    {"bfind.s32", "r32 s32", LIDX_OP1(u32, u32, return find_bit<s32>(as<s32>(a), false);)},
    {"bfind.u64", "r32 s64", LIDX_OP1(u32, u64, return find_bit<u64>(a, false);)},
    {"bfind.s64", "r32 s64", LIDX_OP1(u32, u64, return find_bit<s64>(as<s64>(a), false);)},
    {"bfind.shiftamt.u32", "r32 s32", LIDX_OP1(u32, u32, return find_bit<u32>(a, true);)},
    {"bfind.shiftamt.s32", "r32 s32", LIDX_OP1(u32, u32, return find_bit<s32>(as<s32>(a), true);)},
    {"bfind.shiftamt.u64", "r32 s64", LIDX_OP1(u32, u64, return find_bit<u64>(a, true);)},
    {"bfind.shiftamt.s64", "r32 s64", LIDX_OP1(u32, u64, return find_bit<s64>(as<s64>(a), true);)},
    {"fns.b32", "r32 s32 s32 s32", LIDX_OP3(u32, u32, u32, u32, return find_nth_set(a, b, as<s32>(c));)},
    {"brev.b32", "r32 s32", LIDX_OP1(u32, u32, return reverse_bits(a);)},
    {"brev.b64", "r64 s64",
     LIDX_OP1(u64, u64, return as<u64>(reverse_bits(as<u32>(a))) << 32 | reverse_bits(as<u32>(a >> 32));)},
    // bfe.type d, a, b, c;  bfi.type f, a, b, c, d  (9.7.1.19, .20)
    {"bfe.u32", "r32 s32 s32 s32", LIDX_OP3(u32, u32, u32, u32, return extract<u32>(a, b, c);)},
    {"bfe.s32", "r32 s32 s32 s32", LIDX_OP3(u32, u32, u32, u32, return as<u32>(extract<s32>(as<s32>(a), b, c));)},
    {"bfe.u64", "r64 s64 s32 s32", LIDX_OP3(u64, u64, u32, u32, return extract<u64>(a, b, c);)},
    {"bfe.s64", "r64 s64 s32 s32", LIDX_OP3(u64, u64, u32, u32, return as<u64>(extract<s64>(as<s64>(a), b, c));)},
    {"bfi.b32", "r32 s32 s32 s32 s32", exec_bfi<u32>},
    {"bfi.b64", "r64 s64 s64 s32 s32", exec_bfi<u64>},
    // szext.mode.type d, a, b;  bmsk.mode.b32 d, a, b  (9.7.1.21, .22): the low b bits of a extended; b bits from a on
    {"szext.clamp.u32", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32,
              return b >= 32  ? a
                     : b == 0 ? 0
                              : a & ((1u << b) - 1);)},
    {"szext.wrap.u32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return a & ((1u << (b & 31)) - 1);)},
    {"szext.clamp.s32", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32,
              return b >= 32  ? a
                     : b == 0 ? 0
                              : as<u32>(as<s32>(a << (32 - b)) >> (32 - b));)},
    {"szext.wrap.s32", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return (b & 31) == 0 ? 0 : as<u32>(as<s32>(a << (32 - (b & 31))) >> (32 - (b & 31)));)},
    {"bmsk.clamp.b32", "r32 s32 s32",
     LIDX_OP2(u32, u32, u32, return a >= 32 ? 0 : (b >= 32 ? ~0u : (1u << b) - 1) << a;)},
    {"bmsk.wrap.b32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return ((1u << (b & 31)) - 1) << (a & 31);)},
    // dp4a.atype.btype, dp2a.mode.atype.btype d, a, b, c  (9.7.1.23, .24)
    {"dp4a.u32.u32", "r32 s32 s32 s32", exec_dot<false, false, 4, false>},
    {"dp4a.u32.s32", "r32 s32 s32 s32", exec_dot<false, true, 4, false>},
    {"dp4a.s32.u32", "r32 s32 s32 s32", exec_dot<true, false, 4, false>},
    {"dp4a.s32.s32", "r32 s32 s32 s32", exec_dot<true, true, 4, false>},
    {"dp2a.lo.u32.u32", "r32 s32 s32 s32", exec_dot<false, false, 2, false>},
    {"dp2a.lo.u32.s32", "r32 s32 s32 s32", exec_dot<false, true, 2, false>},
    {"dp2a.lo.s32.u32", "r32 s32 s32 s32", exec_dot<true, false, 2, false>},
    {"dp2a.lo.s32.s32", "r32 s32 s32 s32", exec_dot<true, true, 2, false>},
    {"dp2a.hi.u32.u32", "r32 s32 s32 s32", exec_dot<false, false, 2, true>},
    {"dp2a.hi.u32.s32", "r32 s32 s32 s32", exec_dot<false, true, 2, true>},
    {"dp2a.hi.s32.u32", "r32 s32 s32 s32", exec_dot<true, false, 2, true>},
    {"dp2a.hi.s32.s32", "r32 s32 s32 s32", exec_dot<true, true, 2, true>},
    // setp.CmpOp{.BoolOp}.type p{|q}, a, b{, {!}c};  set.CmpOp{.BoolOp}.dtype.stype d, a, b{, c}  (9.7.6.1, .2)
    {"setp.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs).[and|or|xor].(b16|u16|s16|b32|u32|s32|b64|u64|s64)", "*", nullptr, nullptr,
     encode_compare<false>},
    {"set.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs).[and|or|xor].[ftz].(u32|s32|f32).(b16|u16|s16|b32|u32|s32|b64|u64|s64)", "*",
     nullptr, nullptr, encode_compare<true>},
    // selp.type d, a, b, c;  slct{.ftz}.dtype.(s32|f32) d, a, b, c  (9.7.6.3, .4)
    {"selp.(b16|u16|s16)", "r16 s16 s16 q", exec_selp<u32>},
    {"selp.(b32|u32|s32|f32)", "r32 s32 s32 q", exec_selp<u32>},
    {"selp.(b64|u64|s64|f64)", "r64 s64 s64 q", exec_selp<u64>},
    {"slct.(b16|u16|s16).s32", "r16 s16 s16 s32", exec_slct<u32, false>},
    {"slct.(b32|u32|s32|f32).s32", "r32 s32 s32 s32", exec_slct<u32, false>},
    {"slct.(b64|u64|s64|f64).s32", "r64 s64 s64 s32", exec_slct<u64, false>},
    {"slct.[ftz].(b16|u16|s16).f32", "r16 s16 s16 s32", exec_slct<u32, true>},
    {"slct.[ftz].(b32|u32|s32|f32).f32", "r32 s32 s32 s32", exec_slct<u32, true>},
    {"slct.[ftz].(b64|u64|s64|f64).f32", "r64 s64 s64 s32", exec_slct<u64, true>},
    // and, or, xor, not, cnot.type d, a{, b};  lop3{.BoolOp}.b32 d{|p}, a, b, c, immLut{, q}  (9.7.8)
    {"(and|or|xor).pred", "p q q", exec_pred_op, nullptr, encode_pred_op},
    {"not.pred", "p q", exec_pred_op, nullptr, encode_pred_op},
    {"and.b16", "r16 s16 s16", LIDX_T2(u16, a& b)},
    {"and.b32", "r32 s32 s32", LIDX_T2(u32, a& b)},
    {"and.b64", "r64 s64 s64", LIDX_T2(u64, a& b)},
    {"or.b16", "r16 s16 s16", LIDX_T2(u16, a | b)},
    {"or.b32", "r32 s32 s32", LIDX_T2(u32, a | b)},
    {"or.b64", "r64 s64 s64", LIDX_T2(u64, a | b)},
    {"xor.b16", "r16 s16 s16", LIDX_T2(u16, a ^ b)},
    {"xor.b32", "r32 s32 s32", LIDX_T2(u32, a ^ b)},
    {"xor.b64", "r64 s64 s64", LIDX_T2(u64, a ^ b)},
    {"not.b16", "r16 s16", LIDX_T1(u16, ~a)},
    {"not.b32", "r32 s32", LIDX_T1(u32, ~a)},
    {"not.b64", "r64 s64", LIDX_T1(u64, ~a)},
    {"cnot.b16", "r16 s16", LIDX_T1(u16, a == 0 ? 1 : 0)},
    {"cnot.b32", "r32 s32", LIDX_T1(u32, a == 0 ? 1 : 0)},
    {"cnot.b64", "r64 s64", LIDX_T1(u64, a == 0 ? 1 : 0)},
    {"lop3.[and|or].b32", "*", nullptr, nullptr, encode_lop3},
    // shl.type, shr.type d, a, b: amounts above the width are clamped;  shf.(l|r).(clamp|wrap).b32 d, a, b, c  (9.7.8.7
    // - .9)
    {"shl.b16", "r16 s16 s32", LIDX_OP2(u32, u32, u32, return b >= 16 ? 0 : (a << b) & 0xffff;)},
    {"shl.b32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return b >= 32 ? 0 : a << b;)},
    {"shl.b64", "r64 s64 s32", LIDX_OP2(u64, u64, u32, return b >= 64 ? 0 : a << b;)},
    {"shr.(u16|b16)", "r16 s16 s32", LIDX_OP2(u32, u32, u32, return b >= 16 ? 0 : a >> b;)},
    {"shr.s16", "r16 s16 s32",
     LIDX_OP2(u32, u32, u32, return as<u32>(as<s32>(as<s16>(a)) >> (b > 15 ? 15 : b)) & 0xffff;)},
    {"shr.(u32|b32)", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return b >= 32 ? 0 : a >> b;)},
    {"shr.s32", "r32 s32 s32", LIDX_OP2(u32, u32, u32, return as<u32>(as<s32>(a) >> (b > 31 ? 31 : b));)},
    {"shr.(u64|b64)", "r64 s64 s32", LIDX_OP2(u64, u64, u32, return b >= 64 ? 0 : a >> b;)},
    {"shr.s64", "r64 s64 s32", LIDX_OP2(u64, u64, u32, return as<u64>(as<s64>(a) >> (b > 63 ? 63 : b));)},
    {"shf.l.clamp.b32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, const u32 n = c > 32 ? 32 : c; return as<u32>(((as<u64>(b) << 32 | a) << n) >> 32);)},
    {"shf.l.wrap.b32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>(((as<u64>(b) << 32 | a) << (c & 31)) >> 32);)},
    {"shf.r.clamp.b32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, const u32 n = c > 32 ? 32 : c; return as<u32>((as<u64>(b) << 32 | a) >> n);)},
    {"shf.r.wrap.b32", "r32 s32 s32 s32",
     LIDX_OP3(u32, u32, u32, u32, return as<u32>((as<u64>(b) << 32 | a) >> (c & 31));)},
    // prmt.b32{.mode} d, a, b, c  (9.7.9.7)
    {"prmt.b32.[f4e|b4e|rc8|ecl|ecr|rc16]", "r32 s32 s32 s32", exec_prmt, nullptr,
     [](Decoder&, const Match& m, const Instruction&, Insn& out) {
         out.aux = static_cast<u32>(m.one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
     }},
};

}   // namespace

std::span<const Row> LIDX_ROWS_INTEGER() { return kRows; }

}   // namespace ptxemu

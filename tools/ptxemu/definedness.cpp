// SPDX-License-Identifier: Apache-2.0
// Shadows of registers and predicates, and the rules of what only computes. Memory: definedness_memory.cpp.
#include "definedness.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "scheduler.h"

namespace ptxemu {
namespace {

constexpr uint32_t kScratchSlots = 4;

template <class Word>
uint32_t lanes_of(const Word* words) {
    Word some = 0;
    for (int l = 0; l < kLanes; ++l) some |= words[l];
    if (some == 0) return 0;
    uint32_t mask = 0;
    for (int l = 0; l < kLanes; ++l) mask |= words[l] != 0 ? 1u << l : 0u;
    return mask;
}

struct Sources {
    bool dirty = false;
    uint32_t origin = Definedness::kNoOrigin;
};
Sources look(Definedness& d, const Exec& x, const ShadowInfo& info) {
    Sources s;
    for (const Use& u : uses_of(x, info)) {
        if (u.role == UseRole::kDestination || !d.dirty(x, u.slot)) continue;
        if (!s.dirty) s.origin = d.origin(x, u.slot);
        s.dirty = true;
    }
    return s;
}
void destinations_defined(Definedness& d, Exec& x, const ShadowInfo& info, uint32_t mask) {
    for (const Use& u : uses_of(x, info))
        if (u.role == UseRole::kDestination) d.set_lanes(x, u.slot, u.bits, mask, 0);
}
// Each destination is undefined in the lanes where a source is.
void propagate(Definedness& d, Exec& x, const Insn&, const ShadowInfo& info, uint32_t mask) {
    uint32_t lanes = 0, origin = Definedness::kNoOrigin;
    for (const Use& u : uses_of(x, info)) {
        if (u.role == UseRole::kDestination || !d.dirty(x, u.slot)) continue;
        const uint32_t here = d.undefined_lanes(x, u.slot, u.bits) & mask;
        if (here == 0) continue;
        if (u.role == UseRole::kAddress) {
            d.report(x, std::countr_zero(here), "undefined-address", "the address is undefined", u.slot);
            continue;
        }
        if (lanes == 0) origin = d.origin(x, u.slot);
        lanes |= here;
    }
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        d.set_lanes(x, u.slot, u.bits, mask, lanes);
        if (lanes != 0) d.set_origin(x, u.slot, origin);
    }
}

// The handler itself moves the shadows, for instructions that only move bits. data: bit i: slot i is no data but says
// how they move; the rule gives the handler its value, and where it is undefined, so is the result.
bool move_bits(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const Sources sources = look(d, x, info);
    if (!sources.dirty) {
        destinations_defined(d, x, info, mask);
        return false;
    }
    uint32_t unknown = 0;
    Insn moved = in;
    moved.flags &= (1u << kNegateShift) - 1;
    for (int i = 0, next = 0; i < 6; ++i) {
        if (!(info.data >> i & 1)) continue;
        int bits = 32;
        for (const Use& u : uses_of(x, info))
            if (u.slot == in.slot[i] && u.role == UseRole::kSource) bits = u.bits;
        if (d.dirty(x, in.slot[i])) unknown |= d.undefined_lanes(x, in.slot[i], bits) & mask;
        moved.slot[i] = d.scratch(next++);
        if (bits == 1) *d.at<uint32_t>(x, moved.slot[i]) = x.predicate(in, i);
        else std::memcpy(d.at<uint8_t>(x, moved.slot[i]), x.at<uint8_t>(in.slot[i]), bits == 64 ? 256 : 128);
    }
    uint8_t* const base[2] = {x.base[0], x.base[1]};
    x.base[0] = d.registers(x);
    x.base[1] = d.zeros();
    in.handler(x, moved, mask);
    x.base[0] = base[0];
    x.base[1] = base[1];
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        if (unknown != 0) d.set_lanes(x, u.slot, u.bits, unknown, unknown);
        d.refresh(x, u.slot, u.bits);
        d.set_origin(x, u.slot, sources.origin);
    }
    return true;
}
void move(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    move_bits(d, x, in, info, mask);
}

// ---- bitwise ----

// f(index of the lane) -> undefined bits of the destination in slot 0.
template <class T, class F>
void each_word(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask, F f) {
    const Sources sources = look(d, x, info);
    if (!sources.dirty) {
        destinations_defined(d, x, info, mask);
        return;
    }
    T value[kLanes];
    for (int l = 0; l < kLanes; ++l) value[l] = f(l);
    T* to = d.at<T>(x, in.slot[0]);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) to[l] = value[l];
    d.refresh(x, in.slot[0], sizeof(T) * 8);
    d.set_origin(x, in.slot[0], sources.origin);
}

enum Logic : uint32_t { kAnd, kOr, kXor, kNot };

// data: Logic | 64 bits << 8
template <class T>
void logic_of(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const T *ua = d.at<T>(x, in.slot[1]), *a = x.at<T>(in.slot[1]);
    const bool one = (info.data & 0xff) == kNot;
    const T *ub = one ? ua : d.at<T>(x, in.slot[2]), *b = one ? a : x.at<T>(in.slot[2]);
    each_word<T>(d, x, in, info, mask, [&](int l) -> T {
        switch (info.data & 0xff) {
            case kAnd: return (ua[l] & ub[l]) | (ua[l] & b[l]) | (ub[l] & a[l]);   // a defined 0 decides
            case kOr: return (ua[l] & ub[l]) | (ua[l] & ~b[l]) | (ub[l] & ~a[l]);
            default: return ua[l] | ub[l];
        }
    });
}
void logic(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (info.data >> 8) logic_of<uint64_t>(d, x, in, info, mask);
    else logic_of<uint32_t>(d, x, in, info, mask);
}
uint32_t logic_data(const Match& m) {
    const auto& w = m.words[0];
    return static_cast<uint32_t>(w == "and" ? kAnd : w == "or" ? kOr : w == "xor" ? kXor : kNot) |
           (m.words.back() == "b64" ? 1u << 8 : 0);
}

// A bit is undefined if the table's answer depends on undefined bits.
void lop3(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const uint32_t *u[3], *v[3];
    for (int i = 0; i < 3; ++i) u[i] = d.at<uint32_t>(x, in.slot[i + 1]), v[i] = x.at<uint32_t>(in.slot[i + 1]);
    auto table = [&in](uint32_t a, uint32_t b, uint32_t c) {
        uint32_t r = 0;
        for (uint32_t i = 0; i < 8; ++i)
            if (in.aux >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
        return r;
    };
    const Sources sources = look(d, x, info);
    each_word<uint32_t>(d, x, in, info, mask, [&](int l) -> uint32_t {
        if ((u[0][l] | u[1][l] | u[2][l]) == 0) return 0;
        const uint32_t now = table(v[0][l], v[1][l], v[2][l]);
        uint32_t changes = 0;
        for (uint32_t flip = 1; flip < 8; ++flip) {
            changes |= now ^ table(v[0][l] ^ (flip & 4 ? u[0][l] : 0), v[1][l] ^ (flip & 2 ? u[1][l] : 0),
                                   v[2][l] ^ (flip & 1 ? u[2][l] : 0));
        }
        return changes;
    });
    for (const Use& use : uses_of(x, info)) {   // d|p: the predicate
        if (use.role != UseRole::kDestination || use.bits != 1) continue;
        uint32_t lanes = 0;
        if (sources.dirty) {
            lanes = d.undefined_lanes(x, in.slot[0], 32) | *d.at<uint32_t>(x, in.slot[4]);
            d.set_origin(x, use.slot, sources.origin);
        }
        d.set_lanes(x, use.slot, 1, mask, lanes & mask);
    }
}

// An undefined bit reaches all higher ones: add, sub, the low half of a product.
template <class T>
T smear(T u) {
    return u | (T(0) - u);
}
// data: width
void carry_up(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    auto any = [&](auto tag, int l) {
        using T = decltype(tag);
        T u = 0;
        for (const Use& use : uses_of(x, info))
            if (use.role == UseRole::kSource && d.dirty(x, use.slot)) u |= d.at<T>(x, use.slot)[l];
        return smear(u);
    };
    if (info.data == 64) each_word<uint64_t>(d, x, in, info, mask, [&](int l) { return any(uint64_t{}, l); });
    else if (info.data == 16)
        each_word<uint32_t>(d, x, in, info, mask, [&](int l) { return any(uint32_t{}, l) & 0xffff; });
    else each_word<uint32_t>(d, x, in, info, mask, [&](int l) { return any(uint32_t{}, l); });
}
uint32_t width_data(const Match& m) {
    const auto& t = m.words.back();
    return t.ends_with("64") ? 64 : t.ends_with("16") ? 16 : 32;
}

// Carry chains: the condition code register is another source and, where it is written, another destination.
void carry(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const uint32_t slot = x.program->carry_slot;
    const Sources sources = look(d, x, info);
    uint32_t lanes = in.imm & 1 && d.dirty(x, slot) ? *d.at<uint32_t>(x, slot) : 0;
    uint32_t origin = lanes != 0 ? d.origin(x, slot) : sources.origin;
    for (const Use& u : uses_of(x, info))
        if (u.role == UseRole::kSource && d.dirty(x, u.slot)) lanes |= d.undefined_lanes(x, u.slot, u.bits);
    lanes &= mask;
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        d.set_lanes(x, u.slot, u.bits, mask, lanes);
        d.set_origin(x, u.slot, origin);
    }
    if (in.imm & 2) {
        d.set_lanes(x, slot, 1, mask, lanes);
        d.set_origin(x, slot, origin);
    }
}

// Halves that do not touch each other: f16x2 and the like (data 16), f32x2 (data 32).
void halves(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    auto merged = [&](auto tag, int l) {
        using T = decltype(tag);
        T u = 0;
        for (const Use& use : uses_of(x, info))
            if (use.role == UseRole::kSource && d.dirty(x, use.slot)) u |= d.at<T>(x, use.slot)[l];
        constexpr int kHalf = sizeof(T) * 4;
        const T low = (T(1) << kHalf) - 1;
        return static_cast<T>((u & low ? low : 0) | (u & ~low ? ~low : 0));
    };
    if (info.data == 32) each_word<uint64_t>(d, x, in, info, mask, [&](int l) { return merged(uint64_t{}, l); });
    else each_word<uint32_t>(d, x, in, info, mask, [&](int l) { return merged(uint32_t{}, l); });
}

// add, sub, mad: with the carry flag, of pairs, or plain. data: 1 carry, 16 and 32 pairs with halves so wide.
void sum(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    (info.data == 1 ? carry : info.data != 0 ? halves : propagate)(d, x, in, info, mask);
}
uint32_t sum_data(const Match& m) {
    if (m.has("cc") || m.words[0].back() == 'c') return 1;
    return m.words.back() == "f32x2" ? 32 : m.words.back().ends_with("x2") ? 16 : 0;
}

// cvt between packed formats. data: bits of an element of d | of a << 8 | two source registers << 16 (a above b).
void packed(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const uint32_t to = info.data & 0xff, from = info.data >> 8 & 0xff;
    const uint32_t element = to == 32 ? ~0u : (1u << to) - 1;
    const uint32_t* a = d.at<uint32_t>(x, in.slot[1]);
    const uint32_t* b = info.data >> 16 ? d.at<uint32_t>(x, in.slot[2]) : a;
    each_word<uint32_t>(d, x, in, info, mask, [&](int l) -> uint32_t {
        if (info.data >> 16) return (b[l] ? element : 0) | (a[l] ? element << to : 0);
        const uint32_t keep = (1u << from) - 1;
        return (a[l] & keep ? element : 0) | (a[l] >> from & keep ? element << to : 0);
    });
}
uint32_t packed_data(const Match& m) {
    auto width = [](std::string_view t) -> uint32_t {
        return t == "f32" ? 32 : t == "f16x2" || t == "bf16x2" ? 16 : t == "e2m1x2" ? 4 : 8;
    };
    const uint32_t from = width(m.words.back());
    return width(m.words[m.words.size() - 2]) | from << 8 | (from == 32 ? 1u << 16 : 0);
}

// ---- choices ----

// selp d, a, b, c: with an undefined c, what a and b have in common is still defined.
template <class T>
void select_of(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const T *ua = d.at<T>(x, in.slot[1]), *ub = d.at<T>(x, in.slot[2]);
    const T *a = x.at<T>(in.slot[1]), *b = x.at<T>(in.slot[2]);
    const uint32_t c = x.predicate(in, 3), uc = *d.at<uint32_t>(x, in.slot[3]);
    each_word<T>(d, x, in, info, mask, [&](int l) -> T {
        if (uc >> l & 1) return (a[l] ^ b[l]) | ua[l] | ub[l];
        return c >> l & 1 ? ua[l] : ub[l];
    });
}
void select(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (info.data == 64) select_of<uint64_t>(d, x, in, info, mask);
    else select_of<uint32_t>(d, x, in, info, mask);
}

// p = r BoolOp c: undefined unless a defined operand decides.
uint32_t combine(uint32_t op, uint32_t ur, uint32_t uc, uint32_t c) {
    switch (op) {
        case 1: return (ur & c) | uc;      // and: a defined false c decides
        case 2: return (ur & ~c) | uc;     // or: a defined true c
        default: return ur | uc;
    }
}
// setp: slot 0 p, 1 q, 2 a, 3 b, 4 c; aux as in exec_integer.cpp. data: equality of integers, where a defined bit that
// differs decides.
void compare(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const Sources sources = look(d, x, info);
    uint32_t lanes = 0;
    if (sources.dirty) {
        int bits = 32;
        for (const Use& u : uses_of(x, info))
            if (u.role == UseRole::kSource && u.bits != 1) bits = u.bits;
        auto differ = [&](auto tag) {
            using T = decltype(tag);
            const T *ua = d.at<T>(x, in.slot[2]), *ub = d.at<T>(x, in.slot[3]);
            const T *a = x.at<T>(in.slot[2]), *b = x.at<T>(in.slot[3]);
            uint32_t m = 0;
            for (int l = 0; l < kLanes; ++l) {
                const T u = ua[l] | ub[l];
                if (u != 0 && !(info.data != 0 && ((a[l] ^ b[l]) & ~u) != 0)) m |= 1u << l;
            }
            return m;
        };
        lanes = bits == 64 ? differ(uint64_t{}) : differ(uint32_t{});
        const uint32_t op = in.aux >> 8 & 0xff;
        if (op != 0) lanes = combine(op, lanes, *d.at<uint32_t>(x, in.slot[4]), x.predicate(in, 4));
        lanes &= mask;
    }
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        d.set_lanes(x, u.slot, u.bits, mask, lanes);
        if (lanes != 0) d.set_origin(x, u.slot, sources.origin);
    }
}

// and, or, xor, not of predicates. data: Logic
void predicate_logic(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    const Sources sources = look(d, x, info);
    uint32_t lanes = 0;
    if (sources.dirty) {
        const uint32_t ua = *d.at<uint32_t>(x, in.slot[1]), a = x.predicate(in, 1);
        lanes = ua;
        if (info.data != kNot) {
            const uint32_t ub = *d.at<uint32_t>(x, in.slot[2]), b = x.predicate(in, 2);
            lanes = info.data == kAnd  ? (ua & ub) | (ua & b) | (ub & a)
                    : info.data == kOr ? (ua & ub) | (ua & ~b) | (ub & ~a)
                                       : ua | ub;
        }
    }
    d.set_lanes(x, in.slot[0], 1, mask, lanes & mask);
    if (lanes & mask) d.set_origin(x, in.slot[0], sources.origin);
}

// ---- exchange between lanes ----

// Will gather_members() let the instruction run now? Its rule would otherwise see it several times.
bool gathered(const Exec& x, uint32_t slot, uint32_t mask) {
    const uint32_t* members = x.at<uint32_t>(slot);
    uint32_t want = 0;
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) want |= members[l] & x.warp->live;
    return (mask & want) == want;
}
void check_members(Definedness& d, Exec& x, uint32_t slot, uint32_t mask) {
    if (!d.dirty(x, slot)) return;
    const uint32_t lanes = d.undefined_lanes(x, slot, 32) & mask;
    if (lanes != 0) d.report(x, std::countr_zero(lanes), "undefined-operand", "the membermask is undefined", slot);
}

void shuffle(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (in.imm) {
        check_members(d, x, in.slot[4], mask);
        if (!gathered(x, in.slot[4], mask)) return;
    }
    uint32_t where = 0;   // lanes that do not know where their value comes from
    for (int i = 2; i <= 3; ++i)
        if (d.dirty(x, in.slot[i])) where |= d.undefined_lanes(x, in.slot[i], 32) & mask;
    move_bits(d, x, in, info, mask);
    for (const Use& u : uses_of(x, info))
        if (u.role == UseRole::kDestination && u.bits == 1) d.set_lanes(x, u.slot, 1, mask, where);
}

// vote: data 0 all, 1 any, 2 uni, 3 ballot. slot: 0 d, 1 a, 2 membermask
void vote(Definedness& d, Exec& x, const Insn& in, const ShadowInfo&, uint32_t mask) {
    check_members(d, x, in.slot[2], mask);
    if (!gathered(x, in.slot[2], mask)) return;
    const uint32_t u = d.dirty(x, in.slot[1]) ? *d.at<uint32_t>(x, in.slot[1]) & mask : 0, a = x.predicate(in, 1);
    const uint32_t origin = d.origin(x, in.slot[1]);
    if (in.aux == 3) {
        if (u == 0) return d.set_lanes(x, in.slot[0], 32, mask, 0);
        uint32_t* to = d.at<uint32_t>(x, in.slot[0]);
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) to[l] = u;
        d.refresh(x, in.slot[0], 32);
    } else {
        const uint32_t yes = a & mask & ~u, no = ~a & mask & ~u;
        const bool known = u == 0 || (in.aux == 0 ? no != 0 : in.aux == 1 ? yes != 0 : yes != 0 && no != 0);
        d.set_lanes(x, in.slot[0], 1, mask, known ? 0 : mask);
    }
    if (u != 0) d.set_origin(x, in.slot[0], origin);
}

// match, redux: every lane's result hangs on every lane's operand. slot 1 operand, 2 membermask.
void all_lanes(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    check_members(d, x, in.slot[2], mask);
    if (!gathered(x, in.slot[2], mask)) return;
    bool some = false;
    uint32_t origin = Definedness::kNoOrigin;
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kSource || u.slot == in.slot[2] || !d.dirty(x, u.slot)) continue;
        if ((d.undefined_lanes(x, u.slot, u.bits) & mask) == 0) continue;
        some = true;
        origin = d.origin(x, u.slot);
    }
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        d.set_lanes(x, u.slot, u.bits, mask, some ? mask : 0);
        if (some) d.set_origin(x, u.slot, origin);
    }
}

// movmatrix crosses lanes; its handler moves the shadow once the warp has converged.
void move_converged(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (mask == x.warp->live) move_bits(d, x, in, info, mask);
}

uint32_t slots(std::initializer_list<int> list) {
    uint32_t mask = 0;
    for (int i : list) mask |= 1u << i;
    return mask;
}
template <int... kSlots>
uint32_t controls(const Match&) {
    return slots({kSlots...});
}

#define LIDX_INTS "(u8|u16|u32|u64|s8|s16|s32|s64)"
const auto data16 = [](const Match&) -> uint32_t { return 16; };
const auto data32 = [](const Match&) -> uint32_t { return 32; };

const ShadowRow kRows[] = {
    // bits that only move
    {"mov.**", move},
    {"cvt." LIDX_INTS "." LIDX_INTS, move},
    {"brev.**", move},
    {"(shl|shr).**", move, false, controls<2>},
    {"shf.**", move, false, controls<3>},
    {"prmt.**", move, false, controls<3>},
    {"bfe.**", move, false, controls<2, 3>},
    {"bfi.**", move, false, controls<3, 4>},
    {"szext.**", move, false, controls<2>},
    {"slct.**", move, false, controls<3>},
    {"shfl.**", shuffle, false, controls<2, 3, 4>},
    {"movmatrix.**", move_converged},
    // bit by bit
    {"(and|or|xor|not).pred", predicate_logic, false, logic_data},
    {"(and|or|xor|not).(b16|b32|b64)", logic, false, logic_data},
    {"lop3.**", lop3},
    // from the lowest undefined bit up
    {"(add|sub).(u16|s16|u32|s32|u64|s64)", carry_up, false, width_data},
    {"(mul|mad).lo.(u16|s16|u32|s32|u64|s64)", carry_up, false, width_data},
    {"(add|addc|sub|subc).**", sum, false, sum_data},
    {"(mad|madc).(lo|hi).[cc].(u32|s32|u64|s64)", sum, false, sum_data},
    // pairs
    {"(mul|fma|min|max|abs|neg|ex2|tanh).[rn|rz|rm|rp|approx].[ftz].[sat].[relu].[NaN].[xorsign].[abs].[relu]."
     "(f16x2|bf16x2|u16x2|s16x2)",
     halves, false, data16},
    {"(mul|fma).[rn|rz|rm|rp].[ftz].f32x2", halves, false, data32},
    {"cvt.[rn|rz|rp].[relu].[satfinite].[relu].(f16x2|bf16x2|e4m3x2|e5m2x2|e2m3x2|e3m2x2|e2m1x2|ue8m0x2)."
     "(f32|f16x2|bf16x2|e4m3x2|e5m2x2|e2m3x2|e3m2x2|e2m1x2|ue8m0x2)",
     packed, false, packed_data},
    // choices
    {"selp.**", select, false, width_data},
    {"setp.**", compare, false,
     [](const Match& m) -> uint32_t {
         return (m.has("eq") || m.has("ne")) && !m.words.back().starts_with("f") && !m.words.back().starts_with("bf");
     }},
    // between lanes
    {"vote.**", vote},
    {"match.**", all_lanes},
    {"redux.**", all_lanes},
    {"elect.**", decide},
    // what decides
    {"brx.**", decide, true},
    {"(bar|barrier).**", decide, true},
    {"mbarrier.(arrive|arrive_drop|expect_tx|complete_tx|inval).**", decide, true},
    {"mbarrier.(test_wait|try_wait).**", decide},
    {"(trap|brkpt|exit|ret).**", decide, true},
};

}   // namespace

std::span<const Use> uses_of(const Exec& x, const ShadowInfo& info) {
    return {x.program->uses.data() + info.first_use, info.uses};
}

void check_addresses(Definedness& d, Exec& x, const ShadowInfo& info, uint32_t mask) {
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kAddress || !d.dirty(x, u.slot)) continue;
        const uint32_t lanes = d.undefined_lanes(x, u.slot, u.bits) & mask;
        if (lanes != 0) d.report(x, std::countr_zero(lanes), "undefined-address", "the address is undefined", u.slot);
    }
}

void decide(Definedness& d, Exec& x, const Insn&, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
    for (const Use& u : uses_of(x, info)) {
        if (u.role == UseRole::kDestination) {
            d.set_lanes(x, u.slot, u.bits, mask, 0);
        } else if (u.role == UseRole::kSource && d.dirty(x, u.slot)) {
            const uint32_t lanes = d.undefined_lanes(x, u.slot, u.bits) & mask;
            if (lanes == 0) continue;
            d.report(x, std::countr_zero(lanes), "undefined-operand",
                     "an operand that decides what happens is undefined", u.slot);
        }
    }
}

std::span<const ShadowRow> shadow_rows_registers() { return kRows; }

void Definedness::start(const Program& program, const Cta& cta) {
    const uint32_t warps = static_cast<uint32_t>(cta.warps.size());
    scratch_ = program.register_bytes;
    pitch_ = program.register_bytes + kScratchSlots * 512;
    dirty_pitch_ = pitch_ / 4;
    local_pitch_ = program.local_bytes;
    if (registers_.size() != pitch_ * warps) {
        registers_.assign(pitch_ * warps, 0xff);
        dirty_.assign(dirty_pitch_ * warps, 1);
        origins_.assign(dirty_pitch_ * warps, kNoOrigin);
    } else {
        const auto undefine = [this](size_t first, size_t end) {   // bytes
            std::fill(registers_.begin() + static_cast<long>(first), registers_.begin() + static_cast<long>(end), 0xff);
            std::fill(dirty_.begin() + static_cast<long>(first / 4), dirty_.begin() + static_cast<long>(end / 4), 1);
            std::fill(origins_.begin() + static_cast<long>(first / 4), origins_.begin() + static_cast<long>(end / 4),
                      kNoOrigin);
        };
        for (uint32_t w = 0; w < warps; ++w) {
            for (const SlotRange& r : program.poisoned) undefine(w * pitch_ + r.begin, w * pitch_ + r.end);
            undefine(w * pitch_ + scratch_, (w + 1) * pitch_);
        }
    }
    zeros_.assign(program.constants.size() + 512, 0);
    shared_.assign(cta.shared.size(), 0xff);
    local_.assign(cta.local_memory.size(), 0xff);
    tmem_.clear();
    for (uint32_t w = 0; w < warps; ++w) {
        for (const SpecialSlot& s : program.specials) {
            const size_t bytes = s.special == Special::kIsExplicitCluster ? 4 : s.wide ? 256 : 128;
            std::memset(registers_.data() + w * pitch_ + s.slot, 0, bytes);
            dirty_[w * dirty_pitch_ + s.slot / 4] = 0;
        }
    }
}

uint32_t Definedness::undefined_lanes(const Exec& x, uint32_t slot, int bits) {
    if (!dirty(x, slot)) return 0;
    if (bits == 1) return *at<uint32_t>(x, slot);
    if (bits <= 32) return lanes_of(at<uint32_t>(x, slot));
    if (bits == 64) return lanes_of(at<uint64_t>(x, slot));
    return lanes_of(at<uint64_t>(x, slot)) | lanes_of(at<uint64_t>(x, slot) + kLanes);
}

void Definedness::set_lanes(const Exec& x, uint32_t slot, int bits, uint32_t mask, uint32_t undefined) {
    if (slot & kConstantSlot || slot < kRegistersBegin) return;
    if (undefined == 0 && !dirty(x, slot)) return;
    if (bits == 1) {
        uint32_t* p = at<uint32_t>(x, slot);
        *p = (*p & ~mask) | (undefined & mask);
    } else if (bits <= 32) {
        uint32_t* p = at<uint32_t>(x, slot);
        const uint32_t all = bits == 32 ? ~0u : (1u << bits) - 1;
        for (int l = 0; l < kLanes; ++l) p[l] = !(mask >> l & 1) ? p[l] : undefined >> l & 1 ? all : 0;
    } else {
        uint64_t* p = at<uint64_t>(x, slot);
        for (int i = 0; i < (bits == 64 ? kLanes : 2 * kLanes); ++i) {
            const int l = i & 31;
            p[i] = !(mask >> l & 1) ? p[i] : undefined >> l & 1 ? ~0ull : 0;
        }
    }
    refresh(x, slot, bits);
}

void Definedness::refresh(const Exec& x, uint32_t slot, int bits) {
    if (slot & kConstantSlot || slot < kRegistersBegin) return;
    set_dirty(x, slot, true);
    set_dirty(x, slot, undefined_lanes(x, slot, bits) != 0);
}

void Definedness::before(Exec& x, const Insn& in, uint32_t lanes) {
    const ShadowInfo& info = x.program->shadow[x.pc];
    const uint32_t mask = lanes & (*x.at<uint32_t>(in.guard) ^ in.guard_flip);
    uint32_t guard = 0;
    if (dirty(x, in.guard)) {
        guard = *at<uint32_t>(x, in.guard) & lanes;
        if (guard != 0 && info.effect) {
            report(x, std::countr_zero(guard), "undefined-guard", "the predicate that guards it is undefined",
                   in.guard);
            guard = 0;
        }
    }
    if (info.looseness != 0 && mask != 0) warn_loose(x, info.looseness - 1);
    if (mask != 0) (info.rule ? info.rule : propagate)(*this, x, in, info, mask);
    if (guard == 0) return;
    // Written or not, nobody knows.
    for (const Use& u : uses_of(x, info)) {
        if (u.role != UseRole::kDestination) continue;
        set_lanes(x, u.slot, u.bits, guard, guard);
        set_origin(x, u.slot, origin(x, in.guard));
    }
}

void Definedness::warn_loose(Exec& x, int kind) {
    if (warned_ >> kind & 1) return;
    warned_ |= 1u << kind;
    const LooseArithmetic& loose = x.program->loose[kind];
    Finding f;
    f.code = loose.code;
    f.severity = Severity::kWarning;
    f.party = x.worker->party_at(loose.first_pc);
    f.what = loose.what;
    if (loose.count > 1) f.what += " (the first of " + std::to_string(loose.count) + " instructions of the kernel)";
    ptxemu::report(x, std::move(f));
}

void Definedness::report(Exec& x, int lane, const char* code, const std::string& what, uint32_t slot, uint64_t global,
                         uint64_t bytes) {
    Finding f;
    f.code = code;
    f.party = x.worker->party_at(x.pc);
    f.party.role = "warp " + std::to_string(x.warp->index) + ", lane " + std::to_string(lane);
    f.what = what;
    f.space = bytes != 0 ? "global" : "register";
    f.address = global;
    f.bytes = bytes;
    if (slot != kSinkSlot) {
        const uint32_t from = origin(x, slot);
        if (from == kNoOrigin) {
            f.what += ": the register, or one that it was computed from, was never written";
        } else {
            f.other = x.worker->party_at(from);
            f.other.role = "where the undefined value was read from memory";
        }
    }
    ptxemu::report(x, std::move(f));
}

}   // namespace ptxemu

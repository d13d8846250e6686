// SPDX-License-Identifier: Apache-2.0
// Exchange between the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync (PTX ISA 9.7.9.5-6,
// 9.7.13.9-12, .14).
#include <algorithm>
#include <bit>
#include <cstdint>

#include "lanes.h"

namespace ptxemu {
namespace {

// The lanes that name the same membermask as the lowest of mask.
u32 group_of(const u32* members, uint32_t mask) {
    const int first = std::countr_zero(mask);
    u32 group = 0;
    for (int l = first; l < kLanes; ++l)
        if ((mask >> l & 1) && members[l] == members[first]) group |= 1u << l;
    if ((members[first] & group) != group) {
        fault(RunStatus::kIllegalInstruction, std::countr_zero(group & ~members[first]),
              "the lane is not in its own membermask");
    }
    return group;
}

// Runs body(group, membermask) for the lanes of each membermask. Lanes that execute one instruction together may name
// different ones, as tiles of cooperative groups do; they go on when all lanes of all of them are here.
template <class Body>
bool in_groups(Exec& x, const Insn& in, int slot, uint32_t mask, Body body) {
    const u32* members = x.at<u32>(in.slot[slot]);
    u32 wanted = 0;
    for (u32 left = mask; left != 0;) {
        const u32 group = group_of(members, left);
        wanted |= members[std::countr_zero(left)];
        left &= ~group;
    }
    if (!gather_members(x, &mask, wanted)) return false;
    for (u32 left = mask; left != 0;) {
        const u32 group = group_of(members, left);
        body(group, members[std::countr_zero(left)]);
        left &= ~group;
    }
    return true;
}

// shfl{.sync}.mode.b32 d{|p}, a, b, c{, membermask} (9.7.9.6). slot: 0 d, 1 a, 2 b, 3 c, 4 membermask, 5 p; aux: mode;
// imm: synchronous.
void shuffle(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    const u32 *a = x.at<u32>(in.slot[1]), *b = x.at<u32>(in.slot[2]), *c = x.at<u32>(in.slot[3]);
    u32 value[kLanes];
    u32 inside = 0;
    for (int l = 0; l < kLanes; ++l) {
        const int lane = l;
        const int bound = static_cast<int>(b[l] & 31), clamp = static_cast<int>(c[l] & 31),
                  segment = static_cast<int>(c[l] >> 8 & 31);
        const int max_lane = (lane & segment) | (clamp & ~segment), min_lane = lane & segment;
        int j;
        bool p;
        switch (in.aux) {
            case 0:
                j = lane - bound;
                p = j >= max_lane;
                break;
            case 1:
                j = lane + bound;
                p = j <= max_lane;
                break;
            case 2:
                j = lane ^ bound;
                p = j <= max_lane;
                break;
            default:
                j = min_lane | (bound & ~segment);
                p = j <= max_lane;
                break;
        }
        if (!p) j = lane;
        value[l] = a[j & 31];
        if (p) inside |= 1u << l;
    }
    merge_lanes(d, value, mask);
    x.set_predicate(in.slot[5], inside, mask);
}
bool exec_shfl(Exec& x, const Insn& in, uint32_t mask) {
    if (in.imm) return in_groups(x, in, 4, mask, [&](u32 group, u32) { shuffle(x, in, group); });
    shuffle(x, in, mask);
    return true;
}
void encode_shfl(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool sync = m.has("sync");
    if (ir.operands.size() != (sync ? 5u : 4u)) d.fail("shfl has another number of operands");
    const Operand& to = ir.operands[0];
    out.slot[0] = d.destination(to.has_pair ? to.elements[0] : to, 32);
    out.slot[5] = to.has_pair ? d.predicate_destination(to.elements[1]) : kSinkSlot + 256;
    for (int i = 1; i <= 3; ++i) out.slot[i] = d.source(ir.operands[i], 32);
    if (sync) out.slot[4] = d.source(ir.operands[4], 32);
    out.imm = sync;
    out.aux = static_cast<u32>(m.one_of({"up", "down", "bfly", "idx"}));
}

// vote.sync.mode.pred d, {!}a, membermask;  vote.sync.ballot.b32 d, {!}a, membermask. aux: mode.
bool exec_vote(Exec& x, const Insn& in, uint32_t lanes) {
    return in_groups(x, in, 2, lanes, [&](u32 mask, u32) {
        const u32 a = x.predicate(in, 1) & mask;
        if (in.aux == 3) {
            u32* d = x.at<u32>(in.slot[0]);
            for (int l = 0; l < kLanes; ++l)
                if (mask >> l & 1) d[l] = a;
            return;
        }
        const bool r = in.aux == 0 ? a == mask : in.aux == 1 ? a != 0 : a == 0 || a == mask;
        x.set_predicate(in.slot[0], r ? kFullMask : 0, mask);
    });
}

// match.any.sync.type d, a, membermask;  match.all.sync.type d{|p}, a, membermask. imm: all.
template <class T>
bool exec_match(Exec& x, const Insn& in, uint32_t lanes) {
    return in_groups(x, in, 2, lanes, [&](u32 mask, u32) {
        const T* a = x.at<T>(in.slot[1]);
        u32 value[kLanes] = {};
        u32 everywhere = 0;
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            for (int k = 0; k < kLanes; ++k)
                if ((mask >> k & 1) && a[k] == a[l]) value[l] |= 1u << k;
            if (value[l] == mask) everywhere |= 1u << l;
        }
        if (in.imm) {
            for (int l = 0; l < kLanes; ++l) value[l] = everywhere >> l & 1 ? mask : 0;
            x.set_predicate(in.slot[3], everywhere, mask);
        }
        merge_lanes(x.at<u32>(in.slot[0]), value, mask);
    });
}
template <class T>
void encode_match(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 3) d.fail("match has another number of operands");
    const Operand& to = ir.operands[0];
    out.imm = m.has("all");
    if (to.has_pair && !out.imm) d.fail("match.any writes no predicate");
    out.slot[0] = d.destination(to.has_pair ? to.elements[0] : to, 32);
    out.slot[3] = to.has_pair ? d.predicate_destination(to.elements[1]) : kSinkSlot + 256;
    out.slot[1] = d.source(ir.operands[1], sizeof(T) * 8);
    out.slot[2] = d.source(ir.operands[2], 32);
}

// redux.sync.op.type d, a, membermask (9.7.13.12). aux: op (add min max and or xor); f32 min and max on sm_100a.
bool exec_redux(Exec& x, const Insn& in, uint32_t lanes) {
    return in_groups(x, in, 2, lanes, [&](u32 mask, u32) {
        const u32* a = x.at<u32>(in.slot[1]);
        const bool is_signed = in.flags & kSigned, is_float = in.flags & kAlternate;
        u32 r = 0;
        bool first = true;
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            u32 v = a[l];
            if (is_float && (in.flags & kAlternate2)) v &= 0x7fffffffu;
            if (first) {
                r = v;
                first = false;
                if (is_float && (v & 0x7fffffffu) > 0x7f800000u) r = 0x7fffffffu;
                continue;
            }
            if (is_float) {
                const bool nan_r = (r & 0x7fffffffu) > 0x7f800000u, nan_v = (v & 0x7fffffffu) > 0x7f800000u;
                if (in.flags & kNanMode && (nan_r || nan_v)) r = 0x7fffffffu;
                else if (nan_r) r = nan_v ? 0x7fffffffu : v;
                else if (!nan_v) {
                    const float p = std::bit_cast<float>(r), q = std::bit_cast<float>(v);
                    if (p == q) r = in.aux == 1 ? r | v : r & v;
                    else r = (in.aux == 1 ? p < q : p > q) ? r : v;
                }
                continue;
            }
            switch (in.aux) {
                case 0: r += v; break;
                case 1:
                    r = is_signed ? static_cast<u32>(std::min(static_cast<s32>(r), static_cast<s32>(v)))
                                  : std::min(r, v);
                    break;
                case 2:
                    r = is_signed ? static_cast<u32>(std::max(static_cast<s32>(r), static_cast<s32>(v)))
                                  : std::max(r, v);
                    break;
                case 3: r &= v; break;
                case 4: r |= v; break;
                default: r ^= v; break;
            }
        }
        u32* d = x.at<u32>(in.slot[0]);
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) d[l] = r;
    });
}
void encode_redux(Decoder&, const Match& m, const Instruction&, Insn& out) {
    out.aux = static_cast<u32>(m.one_of({"add", "min", "max", "and", "or", "xor"}));
    if (m.words.back() == "s32") out.flags |= kSigned;
    if (m.words.back() == "f32") out.flags |= kAlternate;
    if (m.has("abs")) out.flags |= kAlternate2;
}

// elect.sync d|p, membermask (9.7.13.14): the same lane every time for a membermask. The manual leaves open
// which one; silicon takes the lowest, and CUTLASS asserts so.
bool exec_elect(Exec& x, const Insn& in, uint32_t lanes) {
    return in_groups(x, in, 2, lanes, [&](u32 mask, u32 members) {
        u32 left = mask;
        u64 h = 0;
        if (x.device->seed != 0 && x.device->any_leader)
            h = (x.device->seed * 0x9E3779B97F4A7C15ull ^ members) * 0xD6E8FEB86659FD93ull >> 40;
        for (u64 skip = h % static_cast<u64>(std::popcount(mask)); skip != 0; --skip) left &= left - 1;
        const u32 leader = static_cast<u32>(std::countr_zero(left));
        u32* d = x.at<u32>(in.slot[0]);
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) d[l] = leader;
        x.set_predicate(in.slot[1], 1u << leader, mask);
    });
}
void encode_elect(Decoder& d, const Match&, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2 || !ir.operands[0].has_pair) d.fail("elect.sync writes d|p");
    out.slot[0] = d.destination(ir.operands[0].elements[0], 32);
    out.slot[1] = d.predicate_destination(ir.operands[0].elements[1]);
    if (out.slot[1] == kSinkSlot) out.slot[1] = kSinkSlot + 256;
    out.slot[2] = d.source(ir.operands[1], 32);
}

bool exec_activemask(Exec& x, const Insn& in, uint32_t mask) {
    u32* d = x.at<u32>(in.slot[0]);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) d[l] = mask;
    return true;
}

const Row kRows[] = {
    // shfl.sync.mode.b32 d{|p}, a, b, c, membermask;  shfl (deprecated)  (9.7.9.5, .6)
    {"shfl.[sync].(up|down|bfly|idx).b32", "*", exec_shfl, nullptr, encode_shfl},
    // vote.sync.(all|any|uni).pred d, {!}a, membermask;  vote.sync.ballot.b32  (9.7.13.9)
    {"vote.sync.(all|any|uni).pred", "p q s32", exec_vote, nullptr,
     [](Decoder&, const Match& m, const Instruction&, Insn& out) {
         out.aux = static_cast<u32>(m.one_of({"all", "any", "uni"}));
     }},
    {"vote.sync.ballot.b32", "r32 q s32", exec_vote, nullptr,
     [](Decoder&, const Match&, const Instruction&, Insn& out) { out.aux = 3; }},
    // match.(any|all).sync.(b32|b64) d{|p}, a, membermask  (9.7.13.10)
    {"match.(any|all).sync.b32", "*", exec_match<u32>, nullptr, encode_match<u32>},
    {"match.(any|all).sync.b64", "*", exec_match<u64>, nullptr, encode_match<u64>},
    // activemask.b32 d  (9.7.13.11)
    {"activemask.b32", "r32", exec_activemask},
    // redux.sync.op.type d, a, membermask  (9.7.13.12)
    {"redux.sync.(add|min|max).(u32|s32)", "r32 s32 s32", exec_redux, "80", encode_redux},
    {"redux.sync.(and|or|xor).b32", "r32 s32 s32", exec_redux, "80", encode_redux},
    {"redux.sync.(min|max).[abs].[NaN].f32", "r32 s32 s32", exec_redux, "100f", encode_redux},
    // elect.sync d|p, membermask  (9.7.13.14)
    {"elect.sync", "*", exec_elect, "90", encode_elect},
    // bar.warp.sync membermask  (9.7.13.2)
    {"bar.warp.sync", "s32",
     [](Exec& x, const Insn& in, uint32_t mask) { return warp_barrier(x, mask, x.at<u32>(in.slot[0])); }},
};

}   // namespace

std::span<const Row> rows_warp() { return kRows; }

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Control flow: branches, calls, exit, traps; hints that do nothing (PTX ISA 9.7.12, 9.7.19).
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

#include "hex.h"
#include "isa.h"
#include "scheduler.h"
#include "warp.h"

namespace ptxemu {
namespace {

// bra: the lanes in mask jump, the others go on.
bool branch_to(Exec& x, uint32_t mask, uint32_t target) {
    Fragment& f = x.frag();
    if (mask == f.mask) {
        x.target = target;
        x.flow = Flow::kJump;
        return false;
    }
    Fragment taken = f;
    taken.mask = mask;
    taken.pc = target;
    f.mask &= ~mask;
    f.pc = x.pc + 1;
    if (target <= x.pc && ++taken.spins >= 64) {
        taken.spins = 0;
        taken.yielded = true;
    }
    x.warp->fragments.push_back(taken);
    x.flow = Flow::kResched;
    return false;
}

// A branch to itself: nothing can change its predicate any more.
bool exec_bra(Exec& x, const Insn& in, uint32_t mask) {
    if (in.aux == x.pc && mask != 0)
        fault(RunStatus::kDeadlock, std::countr_zero(mask), "deadlock: the branch goes to itself for ever");
    return branch_to(x, mask, in.aux);
}

// brx.idx index, tlist: an index outside the table is undefined behaviour; here an error.
bool exec_brx(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t* index = x.at<uint32_t>(in.slot[0]);
    Fragment base = x.frag();
    std::vector<Fragment> parts;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        if (index[lane] >= in.list_count) {
            fault(RunStatus::kIllegalInstruction, lane,
                  "branch index " + std::to_string(index[lane]) + " is outside the table of " +
                      std::to_string(in.list_count));
        }
        const uint32_t pc = x.lists[in.list + index[lane]];
        bool found = false;
        for (auto& p : parts) {
            if (p.pc != pc) continue;
            p.mask |= 1u << lane;
            found = true;
        }
        if (!found) {
            parts.push_back(base);
            parts.back().pc = pc;
            parts.back().mask = 1u << lane;
        }
    }
    if (mask != base.mask) {
        parts.push_back(base);
        parts.back().pc = x.pc + 1;
        parts.back().mask = base.mask & ~mask;
    }
    if (parts.size() == 1) {
        x.target = parts[0].pc;
        x.flow = Flow::kJump;
        return false;
    }
    x.frag() = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) x.warp->fragments.push_back(parts[i]);
    x.flow = Flow::kResched;
    return false;
}

void encode_brx(Decoder& d, const Match&, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2 || ir.operands[1].kind != Operand::Kind::kSymbol)
        d.fail("brx.idx needs an index and a table");
    out.slot[0] = d.source(ir.operands[0], 32);
    out.list = d.list_begin();
    for (uint32_t pc : d.branch_table(ir.operands[1].name)) d.list_add(pc);
    out.list_count = d.list_begin() - out.list;
}

bool exec_trap(Exec&, const Insn&, uint32_t mask) { fault(RunStatus::kTrap, std::countr_zero(mask), "trap"); }
bool exec_brkpt(Exec&, const Insn&, uint32_t mask) { fault(RunStatus::kTrap, std::countr_zero(mask), "breakpoint"); }
bool exec_nothing(Exec&, const Insn&, uint32_t) { return true; }
bool exec_yield(Exec& x, const Insn&, uint32_t) {
    x.flow = Flow::kYield;
    return false;
}

uint64_t nanoseconds() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// mov of a register that changes while the thread runs. The clock counts warp instructions of the CTA.
template <class T, int kWhich>
bool exec_clock(Exec& x, const Insn& in, uint32_t mask) {
    const uint64_t now = kWhich == 2 ? nanoseconds() : x.cta->cluster->time + ++x.warp->dynamic_clock;
    const T value = static_cast<T>(kWhich == 1 ? now >> 32 : in.aux ? now >> 32 : now);
    T* d = x.at<T>(in.slot[0]);
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1) d[lane] = value;
    return true;
}

uint32_t lowest_shift(int bits) { return bits == 64 ? 64 : 32; }

// mov d, a: register, immediate, special register, address; or packing {a, b ..} and unpacking (PTX ISA 9.7.9.3, .4).
bool exec_mov32(Exec& x, const Insn& in, uint32_t mask) {
    uint32_t* d = x.at<uint32_t>(in.slot[0]);
    const uint32_t* a = x.at<uint32_t>(in.slot[1]);
    if (mask == kFullMask) std::memmove(d, a, 128);
    else
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) d[l] = a[l];
    return true;
}
bool exec_mov64(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t* d = x.at<uint64_t>(in.slot[0]);
    const uint64_t* a = x.at<uint64_t>(in.slot[1]);
    if (mask == kFullMask) std::memmove(d, a, 256);
    else
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) d[l] = a[l];
    return true;
}
bool exec_mov128(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t* d = x.at<uint64_t>(in.slot[0]);
    const uint64_t* a = x.at<uint64_t>(in.slot[1]);
    for (int l = 0; l < 2 * kLanes; ++l)
        if (mask >> (l & 31) & 1) d[l] = a[l];
    return true;
}
bool exec_mov_pred(Exec& x, const Insn& in, uint32_t mask) {
    x.set_predicate(in.slot[0], x.predicate(in, 1), mask);
    return true;
}

// A value of 16 to 128 bits in a slot, as two 64-bit halves.
struct Wide {
    uint64_t low, high;
};
Wide read_wide(const Exec& x, uint32_t slot, uint32_t bits, int lane) {
    if (bits <= 32) return {x.at<uint32_t>(slot)[lane], 0};
    return {x.at<uint64_t>(slot)[lane], bits == 128 ? x.at<uint64_t>(slot)[lane + kLanes] : 0};
}
void write_wide(const Exec& x, uint32_t slot, uint32_t bits, int lane, Wide value) {
    if (bits <= 32) {
        x.at<uint32_t>(slot)[lane] = static_cast<uint32_t>(value.low) & (bits == 32 ? ~0u : (1u << bits) - 1);
        return;
    }
    x.at<uint64_t>(slot)[lane] = value.low;
    if (bits == 128) x.at<uint64_t>(slot)[lane + kLanes] = value.high;
}

// list: parts; aux: bits of a part; imm: bits of the whole, in slot[0].
bool exec_mov_pack(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t part = in.aux, whole = static_cast<uint32_t>(in.imm);
    if (part == 32 && whole == 64) {
        uint64_t* d = x.at<uint64_t>(in.slot[0]);
        const uint32_t* a = x.at<uint32_t>(x.lists[in.list]);
        const uint32_t* b = x.at<uint32_t>(x.lists[in.list + 1]);
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) d[l] = a[l] | static_cast<uint64_t>(b[l]) << 32;
        return true;
    }
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        Wide value{0, 0};
        for (uint32_t i = 0; i < in.list_count; ++i) {
            const Wide piece = read_wide(x, x.lists[in.list + i], part, l);
            const uint32_t at = i * part;
            if (at < 64) value.low |= piece.low << at;
            else value.high |= piece.low << (at - 64);
        }
        write_wide(x, in.slot[0], whole, l, value);
    }
    return true;
}
bool exec_mov_unpack(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t part = in.aux, whole = static_cast<uint32_t>(in.imm);
    const uint64_t keep = part == 64 ? ~0ull : (1ull << part) - 1;
    if (part == 32 && whole == 64) {
        const uint64_t* a = x.at<uint64_t>(in.slot[0]);
        uint32_t* low = x.at<uint32_t>(x.lists[in.list]);
        uint32_t* high = x.at<uint32_t>(x.lists[in.list + 1]);
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            const uint64_t value = a[l];
            low[l] = static_cast<uint32_t>(value);
            high[l] = static_cast<uint32_t>(value >> 32);
        }
        return true;
    }
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const Wide value = read_wide(x, in.slot[0], whole, l);
        for (uint32_t i = 0; i < in.list_count; ++i) {
            const uint32_t at = i * part;
            write_wide(x, x.lists[in.list + i], part, l,
                       {(at < 64 ? value.low >> at : value.high >> (at - 64)) & keep, 0});
        }
    }
    return true;
}

// mov.v2, mov.v4: list: destinations, then sources; aux: bits of an element. All are read before any is written.
bool exec_mov_vector(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t n = in.list_count / 2;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        Wide value[8];
        for (uint32_t i = 0; i < n; ++i) value[i] = read_wide(x, x.lists[in.list + n + i], in.aux, l);
        for (uint32_t i = 0; i < n; ++i) write_wide(x, x.lists[in.list + i], in.aux, l, value[i]);
    }
    return true;
}

int mov_bits(const Match& m) {
    static constexpr std::string_view kWords[] = {"b8",  "b16", "u16", "s16", "b32", "u32", "s32",
                                                  "f32", "b64", "u64", "s64", "f64", "b128"};
    static constexpr int kBits[] = {8, 16, 16, 16, 32, 32, 32, 32, 64, 64, 64, 64, 128};
    for (size_t i = 0; i < std::size(kWords); ++i)
        if (m.has(kWords[i])) return kBits[i];
    return 0;
}

void encode_mov(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2) d.fail("mov needs two operands");
    const Operand &to = ir.operands[0], &from = ir.operands[1];
    const int bits = mov_bits(m);
    const bool packs = from.kind == Operand::Kind::kVector, unpacks = to.kind == Operand::Kind::kVector;
    if (packs || unpacks) {
        const auto& parts = packs ? from.elements : to.elements;
        if ((packs && unpacks) || parts.size() < 2 || bits % static_cast<int>(parts.size()) != 0)
            d.fail("mov cannot pack or unpack this");
        const int part = bits / static_cast<int>(parts.size());
        if (part < 8) d.fail("mov cannot pack or unpack this");
        out.handler = packs ? exec_mov_pack : exec_mov_unpack;
        out.aux = static_cast<uint32_t>(part);
        out.imm = static_cast<uint64_t>(bits);
        out.slot[0] = packs ? d.destination(to, bits) : d.source(from, bits);
        std::vector<uint32_t> slots;
        for (const auto& p : parts) slots.push_back(packs ? d.source(p, part) : d.destination(p, part));
        out.list = d.list_begin();
        out.list_count = static_cast<uint32_t>(slots.size());
        for (uint32_t s : slots) d.list_add(s);
        return;
    }
    out.slot[0] = d.destination(to, bits);
    if (from.kind == Operand::Kind::kSpecial) {
        struct Moving {
            std::string_view name;
            int bits;
            Handler handler;
        };
        static constexpr Moving kMoving[] = {
            {"%clock", 32, exec_clock<uint32_t, 0>},          {"%clock_hi", 32, exec_clock<uint32_t, 1>},
            {"%clock64", 64, exec_clock<uint64_t, 0>},        {"%globaltimer", 64, exec_clock<uint64_t, 2>},
            {"%globaltimer_lo", 32, exec_clock<uint32_t, 2>}, {"%globaltimer_hi", 32, exec_clock<uint32_t, 2>},
        };
        for (const auto& k : kMoving) {
            if (k.name != from.name) continue;
            if (lowest_shift(bits) != static_cast<uint32_t>(k.bits))
                d.fail(from.name + " has " + std::to_string(k.bits) + " bits");
            out.handler = k.handler;
            out.aux = k.name == "%globaltimer_hi";
            return;
        }
    }
    out.slot[1] = d.source(from, bits);
    out.handler = bits <= 32 ? exec_mov32 : bits == 64 ? exec_mov64 : exec_mov128;
}

void encode_mov_vector(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const size_t n = m.has("v2") ? 2 : 4;
    if (ir.operands.size() != 2 || ir.operands[0].elements.size() != n || ir.operands[1].elements.size() != n)
        d.fail("it needs two vectors of " + std::to_string(n) + " elements");
    const int bits = mov_bits(m);
    std::vector<uint32_t> slots;
    for (const auto& e : ir.operands[0].elements) slots.push_back(d.destination(e, bits));
    for (const auto& e : ir.operands[1].elements) slots.push_back(d.source(e, bits));
    out.aux = static_cast<uint32_t>(bits);
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
}

void copy_arguments(Exec& x, const Insn& in, uint32_t mask) {
    for (uint32_t i = 0; i < in.list_count; ++i) {
        const ParamCopy& c = x.program->copies[in.list + i];
        const uint32_t bytes = c.bytes & ~kConstantSlot;
        const size_t pitch = x.program->local_bytes;
        for (int lane = 0; lane < kLanes; ++lane) {
            if (!(mask >> lane & 1)) continue;
            if (c.bytes & kConstantSlot) {
                write_wide(x, c.to, bytes * 8, lane, read_wide(x, c.from, bytes * 8, lane));
            } else {
                std::memmove(x.warp->local + lane * pitch + c.to, x.warp->local + lane * pitch + c.from, bytes);
            }
        }
    }
}

template <class T>
T argument(const Exec& x, const Insn& in, int i, int lane) {
    T value;
    std::memcpy(&value, x.warp->local + static_cast<size_t>(lane) * x.program->local_bytes + x.lists[in.list + i],
                sizeof value);
    return value;
}

// A zero-terminated string in global, constant, shared or local memory, at most 4 KiB of it.
std::string text_at(Exec& x, int lane, uint64_t address) {
    std::string text;
    while (text.size() < 4096) {
        const char c = static_cast<char>(*generic_at(x, lane, address + text.size(), 1, 1, false));
        if (c == 0) break;
        text += c;
    }
    return text;
}

// Device printf: the arguments lie packed at their natural alignment behind `buffer` (CUDA C++ guide, "Formatted
// output").
std::string format_text(Exec& x, int lane, const std::string& format, uint64_t buffer) {
    std::string out;
    uint64_t at = buffer;
    auto take = [&](uint32_t bytes) {
        at = (at + bytes - 1) / bytes * bytes;
        uint64_t value = 0;
        std::memcpy(&value, generic_at(x, lane, at, bytes, bytes, false), bytes);
        at += bytes;
        return value;
    };
    for (size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') {
            out += format[i];
            continue;
        }
        if (i + 1 < format.size() && format[i + 1] == '%') {
            out += '%';
            ++i;
            continue;
        }
        std::string spec = "%";
        bool wide = false;
        for (++i; i < format.size(); ++i) {
            const char c = format[i];
            if (c == '*') {
                spec += std::to_string(static_cast<int32_t>(take(4)));
                continue;
            }
            if (c == 'l' || c == 'z' || c == 'j' || c == 't') wide = true;
            else if (c == 'h') continue;
            else if (std::string_view("diouxXcsfFeEgGaAp").find(c) != std::string_view::npos) break;
            else spec += c;
        }
        if (i >= format.size() || spec.size() > 32) return out;
        const char c = format[i];
        std::vector<char> piece(8192);
        if (std::string_view("fFeEgGaA").find(c) != std::string_view::npos) {
            spec += c;
            std::snprintf(piece.data(), piece.size(), spec.c_str(), std::bit_cast<double>(take(8)));
        } else if (c == 's') {
            spec += c;
            std::snprintf(piece.data(), piece.size(), spec.c_str(), text_at(x, lane, take(8)).c_str());
        } else if (c == 'p') {
            spec += c;
            std::snprintf(piece.data(), piece.size(), spec.c_str(), reinterpret_cast<void*>(take(8)));
        } else if (c == 'c') {
            spec += c;
            std::snprintf(piece.data(), piece.size(), spec.c_str(), static_cast<int>(take(4)));
        } else {
            spec += "ll";
            spec += c;
            const uint64_t raw = take(wide ? 8 : 4);
            const bool is_signed = c == 'd' || c == 'i';
            const long long value = wide        ? static_cast<long long>(raw)
                                    : is_signed ? static_cast<int32_t>(raw)
                                                : static_cast<long long>(static_cast<uint32_t>(raw));
            std::snprintf(piece.data(), piece.size(), spec.c_str(), value);
        }
        out += piece.data();
    }
    return out;
}

constexpr const char* kCachePriority =
    "(prefetch|prefetchu|applypriority|discard).[global|local|const|param].[L1|L2|L2::evict_last|L2::evict_normal].["
    "tensormap|L1|L2|L2::128B]";

const Row kRows[] = {
    // bra{.uni} tgt;  (9.7.12.3)
    {"bra.[uni]", "l", exec_bra},
    // brx.idx{.uni} index, tlist;  (9.7.12.4)
    {"brx.idx.[uni]", "*", exec_brx, nullptr, encode_brx},
    // ret{.uni};  exit;  (9.7.12.6, .7)
    {"ret.[uni]", "-", exec_return},
    {"exit", "-", exec_exit},
    // trap;  brkpt;  nanosleep.u32 t;  pmevent a;  (9.7.19)
    {"trap", "-", exec_trap},
    {"brkpt", "-", exec_brkpt},
    {"nanosleep.u32", "s32", exec_yield},
    {"pmevent.[mask]", "i", exec_nothing},
    // griddepcontrol.(launch_dependents|wait);  (9.7.13.13): launches run one after the other
    {"griddepcontrol.(launch_dependents|wait)", "-", exec_nothing, "90"},
    // setmaxnreg.(inc|dec).sync.aligned.u32 imm;  (9.7.19.5): registers are not limited here
    {"setmaxnreg.(inc|dec).sync.aligned.u32", "i",
     [](Exec& x, const Insn& in, uint32_t mask) {
         if (in.imm < 24 || in.imm > 256 || in.imm % 8 != 0) {
             fault(RunStatus::kIllegalInstruction, -1,
                   "register count " + std::to_string(in.imm) + " is not a multiple of 8 in 24..256");
         }
         return converge(x, mask);
     },
     "90"},
    // Cache hints do not change values (9.7.9.16 - .19).
    {kCachePriority, "m", exec_nothing},
    {kCachePriority, "m s32", exec_nothing},
    {"createpolicy.fractional.(L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged).[L2::evict_first|"
     "L2::evict_unchanged].b64",
     "*", exec_mov64, "80",
     [](Decoder& d, const Match&, const Instruction& ir, Insn& out) {
         if (ir.operands.empty()) d.fail("a destination is missing");
         out.slot[0] = d.destination(ir.operands[0], 64);
         out.slot[1] = d.constant(0x12F0000000000000ull, 64);
     }},
    {"createpolicy.range.[global].(L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged).[L2::evict_"
     "first|L2::evict_unchanged].b64",
     "*", exec_mov64, "80",
     [](Decoder& d, const Match&, const Instruction& ir, Insn& out) {
         if (ir.operands.empty()) d.fail("a destination is missing");
         out.slot[0] = d.destination(ir.operands[0], 64);
         out.slot[1] = d.constant(0x12F0000000000000ull, 64);
     }},
    {"createpolicy.cvt.L2.b64", "r64 s64", exec_mov64, "80"},
    // mov.type d, a;  mov.type d, {a, b ..};  mov.type {d, e ..}, a;  (9.7.9.3, .4)
    {"mov.pred", "p q", exec_mov_pred},
    // mov.vec.type d, a: vector registers or lists of registers  (6.4.3)
    {"mov.(v2|v4).(b8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64)", "*", exec_mov_vector, nullptr, encode_mov_vector},
    {"mov.(b8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64|b128)", "*", exec_mov32, nullptr, encode_mov},
};

}   // namespace

bool exec_exit(Exec& x, const Insn&, uint32_t mask) { return exit_lanes(x, mask); }

// Registers and local memory of a function are in one place, so it cannot be active twice in a thread.
static void refuse_recursion(const Exec& x, uint32_t callee, uint32_t mask) {
    const auto& ends = x.program->function_ends;
    const auto function = [&](uint32_t pc) { return std::upper_bound(ends.begin(), ends.end(), pc) - ends.begin(); };
    const auto called = function(callee);
    bool active = function(x.pc) == called;
    for (uint32_t s = x.frag().stack; s != 0 && !active; s = x.warp->frames[s].parent)
        active = function(x.warp->frames[s].return_pc) == called;
    if (active)
        fault(RunStatus::kIllegalInstruction, std::countr_zero(mask),
              "recursion is not supported: the function that is called is active already");
}

bool exec_call(Exec& x, const Insn& in, uint32_t mask) {
    if (x.program->indirect_calls) refuse_recursion(x, in.aux, mask);
    copy_arguments(x, in, mask);
    auto& frames = x.warp->frames;
    const Frame frame{x.frag().stack, x.pc + 1};
    uint32_t id = 0;
    for (uint32_t i = 1; i < frames.size() && id == 0; ++i)
        if (frames[i].parent == frame.parent && frames[i].return_pc == frame.return_pc) id = i;
    if (id == 0) {
        id = static_cast<uint32_t>(frames.size());
        frames.push_back(frame);
    }
    Fragment callee = x.frag();
    callee.mask = mask;
    callee.pc = in.aux;
    callee.stack = id;
    Fragment& f = x.frag();
    if (mask == f.mask) {
        f = callee;
    } else {
        f.mask &= ~mask;
        f.pc = x.pc + 2;   // beyond the copy of results
        x.warp->fragments.push_back(callee);
    }
    x.flow = Flow::kResched;
    return false;
}

bool exec_return(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t stack = x.frag().stack;
    if (stack == 0) return exec_exit(x, in, mask);
    Fragment back = x.frag();
    back.mask = mask;
    back.pc = x.warp->frames[stack].return_pc;
    back.stack = x.warp->frames[stack].parent;
    Fragment& f = x.frag();
    if (mask == f.mask) {
        f = back;
    } else {
        f.mask &= ~mask;
        f.pc = x.pc + 1;
        x.warp->fragments.push_back(back);
    }
    x.flow = Flow::kResched;
    return false;
}

bool exec_copy_arguments(Exec& x, const Insn& in, uint32_t mask) {
    copy_arguments(x, in, mask);
    return true;
}

// The lanes whose register holds the address imm call that function, the others go on behind its results.
bool exec_call_if(Exec& x, const Insn& in, uint32_t mask) {
    const uint64_t* target = x.at<uint64_t>(in.slot[0]);
    uint32_t callers = 0;
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1 && target[lane] == in.imm) callers |= 1u << lane;
    if (callers != 0) return exec_call(x, in, callers);
    return branch_to(x, x.frag().mask, x.pc + 2);
}
bool exec_copy_results(Exec& x, const Insn& in, uint32_t mask) {
    copy_arguments(x, in, mask);
    return branch_to(x, mask, in.aux);
}
bool exec_no_callee(Exec& x, const Insn& in, uint32_t mask) {
    const int lane = std::countr_zero(mask);
    fault(RunStatus::kIllegalInstruction, lane,
          hex(x.at<uint64_t>(in.slot[0])[lane]) + " is the address of none of the " + std::to_string(in.aux) +
              " functions that this call may reach");
}

// vprintf(format, arguments): results {characters}
bool exec_vprintf(Exec& x, const Insn& in, uint32_t mask) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const std::string format = text_at(x, lane, argument<uint64_t>(x, in, 0, lane));
        const std::string text = format_text(x, lane, format, argument<uint64_t>(x, in, 1, lane));
        std::fwrite(text.data(), 1, text.size(), stdout);
        const int32_t written = static_cast<int32_t>(text.size());
        std::memcpy(x.warp->local + static_cast<size_t>(lane) * x.program->local_bytes + x.lists[in.list + 2], &written,
                    4);
    }
    std::fflush(stdout);
    return true;
}

// __assertfail(message, file, line, function, char size)
bool exec_assertfail(Exec& x, const Insn& in, uint32_t mask) {
    const int lane = std::countr_zero(mask);
    const std::string message = text_at(x, lane, argument<uint64_t>(x, in, 0, lane));
    const std::string file = text_at(x, lane, argument<uint64_t>(x, in, 1, lane));
    const std::string function = text_at(x, lane, argument<uint64_t>(x, in, 3, lane));
    fault(RunStatus::kAssert, lane,
          "assertion `" + message + "` failed at " + file + ":" + std::to_string(argument<uint32_t>(x, in, 2, lane)) +
              " in " + function);
}

std::span<const Row> rows_control() { return kRows; }

}   // namespace ptxemu

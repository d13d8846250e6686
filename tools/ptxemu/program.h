// SPDX-License-Identifier: Apache-2.0
// A decoded kernel: instructions with their handler and resolved operands. Engine-private.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"

namespace ptxemu {

struct Exec;   // warp.h: what a handler sees of the running warp
struct Insn;

// Executes one instruction for the lanes in mask (never 0). True: go on with the next instruction; false: the handler
// has set Exec::flow.
using Handler = bool (*)(Exec& x, const Insn& in, uint32_t mask);

// An operand is a byte offset into the warp's register file, or, with this bit, into the program's constant pool. A
// slot holds all 32 lanes: uint32_t[32] for 32 bits and fewer (8 and 16 bits zero-extended), uint64_t[32] for 64 bits,
// two of those (low, high) for 128 bits. A predicate is one uint32_t, bit = lane.
inline constexpr uint32_t kConstantSlot = 1u << 31;
inline constexpr int kLanes = 32;
inline constexpr uint32_t kFullMask = ~0u;
inline constexpr uint32_t kSinkSlot = 0;   // offset of 512 bytes that nobody reads
inline constexpr uint32_t kRegistersBegin = 512;

// Modifiers that a handler looks at while running. All others select the handler, or are listed in the row as ignored.
enum InsnFlag : uint32_t {
    kFtz = 1u << 0,
    kSat = 1u << 1,
    kNanMode = 1u << 2,   // .NaN
    kXorSignAbs = 1u << 3,
    kRelu = 1u << 4,
    kRoundMask = 7u << 5,     // Rounding << 5
    kWideOperand = 1u << 8,   // st, cvt: the register is 64 bits wide though the type is not
    kAligned = 1u << 9,
    kUnified = 1u << 10,
    kAddress64 = 1u << 11,   // the address register is 64 bits wide
    kSigned = 1u << 12,
    kPopc = 1u << 13,
    kAlternate = 1u << 14,   // meaning belongs to the row
    kAlternate2 = 1u << 15,
    kAlternate3 = 1u << 16,
    kPollLoop = 1u << 17,    // the innermost loop around does nothing but read and compute
    kNegateShift = 24   // bit 24 + i: slot i is a negated predicate
};
enum class Rounding : uint32_t { kNearestEven, kZero, kMinus, kPlus, kNearestAway, kStochastic };
inline Rounding rounding_of(uint32_t flags) { return static_cast<Rounding>((flags & kRoundMask) >> 5); }

struct Insn {
    Handler handler = nullptr;
    uint64_t imm = 0;   // address offset, immediate
    uint32_t slot[6] = {};
    uint32_t guard = 0;        // predicate slot; the constant all-ones without a guard
    uint32_t guard_flip = 0;   // ~0: @!p
    uint32_t flags = 0;
    uint32_t aux = 0;                    // branch target, vector length, comparison, ...
    uint32_t list = 0, list_count = 0;   // operands that do not fit: Program::lists[list ..]
};

// What an instruction reads and writes, as the decoder resolved its operands; and its rule: definedness.h.
enum class UseRole : uint8_t { kSource, kDestination, kAddress };
struct Use {
    uint32_t slot;
    uint8_t bits;   // 1: predicate
    UseRole role;
};
class Definedness;
struct ShadowInfo;
using ShadowRule = void (*)(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask);
struct ShadowInfo {
    ShadowRule rule = nullptr;
    uint32_t data = 0;   // belongs to the rule
    uint32_t first_use = 0, uses = 0;
    bool effect = false;
    uint8_t looseness = 0;   // 1 + index of Program::loose; 0: none
};

// f32 arithmetic whose bits the PTX leaves open or that drops subnormals: a warning of each kind, at the first one.
struct LooseArithmetic {
    const char* code;
    const char* what;
    uint32_t first_pc = 0, count = 0;
};

struct InsnInfo {
    int line = 0;
    int source_file = 0, source_line = 0;
    uint32_t stat = 0;   // index into Program::stat_names
    std::string text;
};

// Special registers that are constant for a thread: filled in when a warp starts.
enum class Special : uint8_t {
    kTidX,
    kTidY,
    kTidZ,
    kNtidX,
    kNtidY,
    kNtidZ,
    kLaneId,
    kWarpId,
    kNwarpId,
    kCtaIdX,
    kCtaIdY,
    kCtaIdZ,
    kNctaIdX,
    kNctaIdY,
    kNctaIdZ,
    kSmId,
    kNsmId,
    kGridId,
    kIsExplicitCluster,
    kClusterIdX,
    kClusterIdY,
    kClusterIdZ,
    kNclusterIdX,
    kNclusterIdY,
    kNclusterIdZ,
    kClusterCtaIdX,
    kClusterCtaIdY,
    kClusterCtaIdZ,
    kClusterNctaIdX,
    kClusterNctaIdY,
    kClusterNctaIdZ,
    kClusterCtaRank,
    kClusterNctaRank,
    kLanemaskEq,
    kLanemaskLe,
    kLanemaskLt,
    kLanemaskGe,
    kLanemaskGt,
    kTotalSmemSize,
    kAggrSmemSize,
    kDynamicSmemSize,
    kReservedSmemOffsetBegin,
    kReservedSmemOffsetEnd,
    kReservedSmemOffsetCap,
    kCurrentGraphExec,
    kEnvReg1,
    kEnvReg2,
    kZero
};
struct SpecialSlot {
    Special special;
    uint32_t slot;
    bool wide;
};

// A constant that is a shared address: CTAs of another rank than 0 add theirs (kRankShift).
struct SharedConstant {
    uint32_t offset;   // in Program::constants
    bool wide;
};

// A part of a warp's register file.
struct SlotRange {
    uint32_t begin, end;
};

// A parameter or a shared variable, for messages.
struct NamedPlace {
    std::string name;
    uint64_t offset, bytes;   // shared: from kSharedBase
};

struct ParamCopy {
    uint32_t from, to, bytes;
};   // offsets in the thread's local memory

class Program {
  public:
    std::string name;
    std::string target;
    int target_sm = 0;
    std::vector<Insn> code;
    std::vector<uint32_t> function_ends;   // pcs, ascending
    bool indirect_calls = false;
    std::vector<InsnInfo> info;
    std::vector<ShadowInfo> shadow;
    std::vector<Use> uses;
    LooseArithmetic loose[3] = {
        {"f32-contractible", "f32 add, sub and mul without .rn may be contracted: two compilations, two results"},
        {"f32-ftz", "f32 arithmetic with .ftz takes subnormal numbers for zeros"},
        {"f32-approx", "the result of an .approx instruction is not the same on every machine"}};
    std::vector<uint8_t> constants;
    std::vector<SharedConstant> shared_constants;
    std::vector<uint32_t> lists;
    std::vector<Handler> polled;   // what loads that may be polls do first (exec_memory.cpp)
    std::vector<ParamCopy> copies;
    std::vector<std::string> stat_names;
    std::vector<std::string> source_files;
    std::vector<SpecialSlot> specials;
    std::vector<NamedPlace> params, shared;
    std::vector<SlotRange> poisoned;   // when a warp starts; ascending
    std::vector<std::string> function_of;   // per instruction: function name; empty: the entry
    uint32_t register_bytes = kRegistersBegin;
    uint32_t local_bytes = 0;   // per thread: locals of all functions, then their call areas
    uint32_t param_bytes = 0;
    uint32_t static_shared_bytes = 0;   // offset 0 is shared address kSharedBase
    uint32_t carry_slot = 0;   // condition code register CC.CF, a predicate
    uint32_t reqntid[3] = {0, 0, 0}, maxntid[3] = {0, 0, 0};
    uint32_t cluster[3] = {0, 0, 0}, max_cluster_rank = 0;   // 0: not given
    bool explicit_cluster = false;
};

// Shared addresses begin at 1 KiB, as on sm_90 and later, where the system keeps the first KiB of each CTA's window.
inline constexpr uint32_t kSharedBase = 1024;
// Where dynamic shared memory begins, behind the static part.
inline uint32_t dynamic_shared_begin(uint32_t static_bytes) {
    return (kSharedBase + static_bytes + 1023) / 1024 * 1024;
}
// In a cluster the window of the CTA of rank r begins at r << kRankShift (the addresses that an H200 gives).
inline constexpr int kRankShift = 24;

// Windows of the generic address space; host (= global) addresses stay below 2^48.
inline constexpr int kWindowShift = 48;
inline constexpr uint64_t kSharedWindow = 1ull << kWindowShift;
inline constexpr uint64_t kLocalWindow = 2ull << kWindowShift;
inline constexpr uint64_t kParamWindow = 3ull << kWindowShift;
inline constexpr uint64_t kWindowMask = (1ull << kWindowShift) - 1;
// Parameter space: the kernel's parameters from 0, call areas of functions from here (then offset in local memory).
inline constexpr uint64_t kParamLocalBase = 1u << 20;

}   // namespace ptxemu

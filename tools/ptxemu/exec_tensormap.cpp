// SPDX-License-Identifier: Apache-2.0
// Tensor maps changed, or built from zeros, by the kernel itself: tensormap.replace, tensormap.cp_fenceproxy
// (PTX ISA 9.7.9.28, 9.7.13.16).
#include <bit>
#include <cstring>

#include "checker.h"
#include "isa.h"
#include "tensor_map.h"
#include "warp.h"

namespace ptxemu {
namespace {

constexpr uint32_t kMapBytes = 128, kMapAlign = 64;

// slot: 0 address, 1 the new value (flags kWideOperand: 64 bits). aux: TensorMapField | ordinal << 8. kAlternate: an
// address of shared memory, kAlternate2: of global memory, neither: generic.
bool exec_tensormap_replace(Exec& x, const Insn& in, uint32_t mask) {
    const MemorySpace space = in.flags & kAlternate    ? MemorySpace::kShared
                              : in.flags & kAlternate2 ? MemorySpace::kGlobal
                                                       : MemorySpace::kGeneric;
    uint64_t at[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        at[lane] = lane_address(x, in, 0, lane);
        uint8_t* map = nullptr;
        if (space == MemorySpace::kShared) map = shared_at(x, lane, at[lane] & kWindowMask, kMapBytes, kMapAlign);
        else if (space == MemorySpace::kGlobal) map = global_at(x, lane, at[lane], kMapBytes, kMapAlign, true);
        else map = generic_at(x, lane, at[lane], kMapBytes, kMapAlign, true);
        const uint64_t value =
            in.flags & kWideOperand ? x.at<uint64_t>(in.slot[1])[lane] : x.at<uint32_t>(in.slot[1])[lane];
        std::string why;
        if (!tensor_map_replace(map, static_cast<TensorMapField>(in.aux & 0xff), in.aux >> 8, value, &why))
            fault(RunStatus::kIllegalInstruction, lane, why);
    }
    if (x.checker) [[unlikely]] {
        if (space == MemorySpace::kShared)
            for (uint64_t& a : at) a &= kWindowMask;
        x.checker->map_accessed(x, mask, at, space, true);
    }
    return true;
}

void encode_replace(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    static constexpr std::string_view kFields[] = {"global_address",    "rank",           "box_dim",      "global_dim",
                                                   "global_stride",     "element_stride", "elemtype",
                                                   "interleave_layout", "swizzle_mode",   "swizzle_atomicity",
                                                   "fill_mode"};
    uint32_t field = 0;
    while (!m.has(kFields[field])) ++field;
    const auto which = static_cast<TensorMapField>(field);
    const char last = d.program().target.back();
    if (last != 'a' && last != 'f')
        d.fail("needs an architecture- or family-specific target, the module's .target is " + d.program().target);
    const bool ordinal = which >= TensorMapField::kBoxDim && which <= TensorMapField::kElementStride;
    if (ir.operands.size() != (ordinal ? 3 : 2)) d.fail("it has another number of operands");
    d.address(ir.operands[0], out, 0);
    out.aux = field;
    if (ordinal) {
        const uint64_t n = d.immediate(ir.operands[1]), end = which == TensorMapField::kGlobalStride ? 4 : 5;
        if (n >= end) d.fail("ordinal " + std::to_string(n) + ", but a tensor map has " + std::to_string(end) +
                             " of this field");
        out.aux |= static_cast<uint32_t>(n) << 8;
    }
    const Operand& value = ir.operands.back();
    if (which >= TensorMapField::kElementType) d.immediate(value);
    const int bits = m.has("b64") ? 64 : 32;
    out.slot[1] = d.source(value, bits);
    if (bits == 64) out.flags |= kWideOperand;
    if (m.has("shared::cta") || m.has("shared")) out.flags |= kAlternate;
    if (m.has("global")) out.flags |= kAlternate2;
}

// Lists: destination (4 words), source (4). The warp copies once; what follows it in the tensormap proxy needs nothing
// here.
bool exec_copy_fence(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    uint64_t to[kLanes] = {}, from[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        to[lane] = listed_address(x, in.list, lane);
        from[lane] = listed_address(x, in.list + 4, lane) & kWindowMask;
        std::memcpy(global_at(x, lane, to[lane], kMapBytes, kMapAlign, true),
                    shared_at(x, lane, from[lane], kMapBytes, kMapAlign), kMapBytes);
    }
    if (x.checker) [[unlikely]] {
        x.checker->map_accessed(x, mask, from, MemorySpace::kShared, false);
        x.checker->map_accessed(x, mask, to, MemorySpace::kGlobal, true);
    }
    return true;
}
void encode_copy_fence(Decoder& d, const Match&, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 3) d.fail("it has another number of operands");
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    d.list_memory(ir.operands[1]);
    out.list_count = 8;
    if (d.immediate(ir.operands[2]) != kMapBytes) d.fail("the size must be 128");
}

#define LIDX_MAP_SPACE "[global|shared|shared::cta]"

const Row kRows[] = {
    // tensormap.replace.tile.field{.ss}.b1024.type [addr], {ord,} new_val  (9.7.9.28)
    {"tensormap.replace.tile.(global_address|global_stride)." LIDX_MAP_SPACE ".b1024.b64", "*", exec_tensormap_replace,
     "90", encode_replace},
    {"tensormap.replace.tile.(rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode|"
     "swizzle_atomicity|fill_mode)." LIDX_MAP_SPACE ".b1024.b32",
     "*", exec_tensormap_replace, "90", encode_replace},
    // tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], 128
    // (9.7.13.16)
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.(cta|cluster|gpu|sys).sync.aligned", "*",
     exec_copy_fence, "90", encode_copy_fence},
};

}   // namespace

std::span<const Row> rows_tensormap() { return kRows; }

}   // namespace ptxemu

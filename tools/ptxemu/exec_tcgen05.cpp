// SPDX-License-Identifier: Apache-2.0
// The fifth-generation tensor core: Tensor Memory, its loads and stores, MMA and commit (PTX ISA 9.7.16). Arithmetic
// and layouts are in tensor_core.*; here is what each instruction does when.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "checker.h"
#include "definedness.h"
#include "hex.h"
#include "isa.h"
#include "scheduler.h"
#include "tensor_core.h"
#include "warp.h"

namespace ptxemu {
namespace {

[[noreturn]] void illegal(int lane, const std::string& what) { fault(RunStatus::kIllegalInstruction, lane, what); }

uint32_t uniform(Exec& x, uint32_t slot, uint32_t mask, const char* what) {
    const uint32_t* a = x.at<uint32_t>(slot);
    const int first = std::countr_zero(mask);
    for (int lane = first; lane < kLanes; ++lane)
        if ((mask >> lane & 1) && a[lane] != a[first]) illegal(lane, std::string(what) + " differs between the lanes");
    return a[first];
}

Tmem& tmem_of(Exec& x) {
    if (!x.cta->tmem) x.cta->tmem = std::make_unique<Tmem>();
    return *x.cta->tmem;
}

void check_columns(const Cta& cta, int lane, uint32_t column, uint32_t columns, const char* what) {
    if (column + columns <= Tmem::kColumns && cta.tmem &&
        cta.tmem->is_allocated(static_cast<int>(column), static_cast<int>(columns)))
        return;
    fault(RunStatus::kIllegalAddress, lane,
          std::string(what) + " touches Tensor Memory columns " + std::to_string(column) + ".." +
              std::to_string(column + columns - 1) + ", which are not all allocated" +
              (cta.cluster->ctas.size() > 1 ? " in the CTA of rank " + std::to_string(cta.rank) : ""));
}

// .cta_group::2: the other CTA of the pair, whose rank differs in the last bit.
Cta& peer_of(Exec& x, int lane) {
    const auto& ctas = x.cta->cluster->ctas;
    const uint32_t rank = x.cta->rank ^ 1;
    if (rank >= ctas.size()) {
        illegal(lane, "cta_group::2 in a cluster of " + std::to_string(ctas.size()) +
                          (ctas.size() == 1 ? " CTA" : " CTAs") + ": the CTA of rank " + std::to_string(x.cta->rank) +
                          " has no peer");
    }
    if (ctas[rank]->exited())
        illegal(lane, "cta_group::2 while the peer CTA, of rank " + std::to_string(rank) + ", has exited");
    return *ctas[rank];
}

// In Insn::aux, bit 30: .cta_group::2. A kernel uses one group only (9.7.16.7).
constexpr uint32_t kPairBit = 1u << 30;
bool in_pair(Exec& x, const Insn& in) {
    const bool pair = in.aux & kPairBit;
    const uint8_t group = pair ? 2 : 1;
    if (x.device->check && x.cta->cta_group != 0 && x.cta->cta_group != group)
        warn(x, "mixed-cta-group", "the kernel uses both cta_group::1 and cta_group::2");
    x.cta->cta_group = group;
    return pair;
}
void encode_group(Decoder&, const Match& m, const Instruction&, Insn& out) {
    if (m.has("cta_group::2")) out.aux |= kPairBit;
}

// ---- allocation ----

// -1: not available now.
int allocate(Cta& cta, uint32_t columns) {
    if (!cta.tmem) cta.tmem = std::make_unique<Tmem>();
    Tmem& tmem = *cta.tmem;
    const int column = tmem.allocate(static_cast<int>(columns));
    if (column == -2) {
        illegal(-1, tmem.relinquished() ? "tcgen05.alloc after tcgen05.relinquish_alloc_permit"
                                        : "tcgen05.alloc of " + std::to_string(columns) +
                                              " columns: 32, 64, 128, 256 or 512 are legal");
    }
    if (column < 0) return column;
    // What the columns held before is anybody's guess.
    const uint32_t poison = cta.adversarial ? static_cast<uint32_t>(cta.cluster->random.next()) : ~0u;
    for (int l = 0; l < Tmem::kLanes; ++l) std::fill_n(tmem.lane(l) + column, columns, poison);
    if (cta.definedness) cta.definedness->tmem_allocated(static_cast<uint32_t>(column), columns);
    return column;
}
void release(Cta& cta, uint32_t address, uint32_t columns) {
    if (address >> 16 != 0) illegal(-1, "tcgen05.dealloc of address " + hex(address) + ": the lane is not 0");
    if (!cta.tmem) cta.tmem = std::make_unique<Tmem>();
    const std::string broken = cta.tmem->release(static_cast<int>(address), static_cast<int>(columns));
    if (!broken.empty()) illegal(-1, broken);
    ++cta.epoch;
}

// alloc and dealloc of .cta_group::2: a warp of either CTA posts its call; the second one carries out both, if the
// columns are there. True: done, *address holds what this CTA was given.
bool pair_call(Exec& x, PairCall call, uint32_t* address) {
    Cta& own = *x.cta;
    PairCall& mine = own.pair_call;
    if (mine.state != PairCall::State::kNone && mine.warp != x.warp->index) return false;   // another warp's is pending
    const auto done = [&] {
        *address = mine.address;
        mine.state = PairCall::State::kNone;
        ++own.epoch;
        return true;
    };
    if (mine.state == PairCall::State::kDone) return done();   // by the peer, which may have exited since
    Cta& peer = peer_of(x, -1);
    if (mine.state == PairCall::State::kNone) {
        mine = call;
        mine.state = PairCall::State::kPosted;
        mine.warp = x.warp->index;
    }
    if (mine.state == PairCall::State::kPosted && peer.pair_call.state == PairCall::State::kPosted) {
        PairCall& other = peer.pair_call;
        if (other.allocates != mine.allocates || other.columns != mine.columns ||
            (!mine.allocates && other.address != mine.address)) {
            const auto text = [](const PairCall& c) {
                return (c.allocates ? "tcgen05.alloc of " : "tcgen05.dealloc of ") + std::to_string(c.columns) +
                       " columns" + (c.allocates ? "" : " at column " + std::to_string(c.address));
            };
            illegal(-1, text(mine) + " in the CTA of rank " + std::to_string(own.rank) + " meets " + text(other) +
                            " in its peer");
        }
        if (mine.allocates) {
            const int column = allocate(own, mine.columns);
            if (column < 0) return false;
            const int column_there = allocate(peer, mine.columns);
            if (column_there < 0) {
                release(own, static_cast<uint32_t>(column), mine.columns);
                return false;
            }
            mine.address = static_cast<uint32_t>(column);
            other.address = static_cast<uint32_t>(column_there);
            if (x.checker) [[unlikely]]
                x.checker->allocated_in_pair(x, peer, other.warp, mine.address, other.address, mine.columns);
        } else {
            release(own, mine.address, mine.columns);
            release(peer, mine.address, mine.columns);
        }
        mine.state = other.state = PairCall::State::kDone;
        ++peer.epoch;
    }
    return mine.state == PairCall::State::kDone && done();
}

// slot 0: where the address goes (shared), 1: columns.
bool exec_alloc(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    const int first = std::countr_zero(mask);
    const uint32_t columns = uniform(x, in.slot[1], mask, "the number of columns");
    const uint32_t dst = own_shared_address(x, first, lane_address(x, in, 0, first), "destination");
    uint8_t* place = shared_at(x, first, dst, 4, 4);
    uint32_t address = 0;
    if (in_pair(x, in)) {
        PairCall call;
        call.allocates = true;
        call.columns = columns;
        if (!pair_call(x, call, &address)) return block(x, mask, Wait::kTmem);
    } else {
        const int column = allocate(*x.cta, columns);
        if (column == -1) return block(x, mask, Wait::kTmem);
        address = static_cast<uint32_t>(column);
    }
    std::memcpy(place, &address, 4);
    if (x.definedness) x.definedness->tmem_address_stored(dst - x.cta->shared_base);
    if (x.checker) [[unlikely]] {
        x.checker->data_of(x, mask, dst, 4, true, Record::kAddressTag);
        if (!(in.aux & kPairBit)) x.checker->allocated(x, address, columns);
    }
    return true;
}
// slot 0: address, 1: columns.
bool exec_dealloc(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    const uint32_t address = uniform(x, in.slot[0], mask, "the address"),
                   columns = uniform(x, in.slot[1], mask, "the number of columns");
    if (in_pair(x, in)) {
        PairCall call;
        call.address = address;
        call.columns = columns;
        uint32_t ignored = 0;
        if (!pair_call(x, call, &ignored)) return block(x, mask, Wait::kTmem);
    } else {
        release(*x.cta, address, columns);
    }
    if (x.checker) [[unlikely]] x.checker->deallocated(x, address, columns);
    return true;
}
bool exec_relinquish(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    in_pair(x, in);
    tmem_of(x).relinquish();
    return true;
}

// ---- ld, st ----

struct Access {
    TmemShape shape;
    int num;
    bool packed;      // .pack::16b, .unpack::16b
    uint32_t split;   // immHalfSplitoff
};
// In Insn::aux.
uint32_t encode_shape(const Access& a) {
    return static_cast<uint32_t>(a.shape) | static_cast<uint32_t>(a.num) << 8 | (a.packed ? 1u << 16 : 0);
}
Access decode_shape(uint32_t aux, uint64_t split) {
    return {static_cast<TmemShape>(aux & 0xff), static_cast<int>(aux >> 8 & 0xff), (aux >> 16 & 1) != 0,
            static_cast<uint32_t>(split)};
}

// A warp reaches the lanes of its quarter only: those bits of the address are ignored, as by the hardware.
struct Window {
    int lane;
    uint32_t column;
};
Window window_of(Exec& x, uint32_t address, const Access& a, const char* what) {
    const int within = static_cast<int>(address >> 16 & 31);
    const uint32_t column = address & 0xffff;
    const uint32_t quarter = address >> 21 & 3;
    if (x.device->check && quarter != x.warp->index % 4) {
        warn(x, "tmem-lane-quarter",
             std::string(what) + " names lanes of quarter " + std::to_string(quarter) + " of Tensor Memory, warp " +
                    std::to_string(x.warp->index) + " reaches quarter " + std::to_string(x.warp->index % 4) +
                    ": the hardware ignores these address bits");
    }
    const bool half = a.shape != TmemShape::k32x32b;
    if (within != 0 && !(half && within == 16))
        illegal(-1, std::string(what) + " at lane " + std::to_string(within) +
                        " of the warp's quarter, expected lane " + (half ? "0 or 16" : "0") + " for this shape");
    int last = 0;
    const int registers = tmem_registers(a.shape, a.num);
    for (int t = 0; t < kLanes; ++t) {
        int lane, c;
        tmem_cell(a.shape, t, registers - 1, static_cast<int>(a.split), &lane, &c);
        if (c > last) last = c;
    }
    const uint32_t columns = static_cast<uint32_t>(last + 1) * (a.packed ? 2 : 1);
    check_columns(*x.cta, -1, column, columns, what);
    return {static_cast<int>(x.warp->index % 4) * 32 + within, column};
}

void tell_access(Exec& x, const Access& a, uint32_t address, bool load) {
    const Window w = window_of(x, address, a, load ? "tcgen05.ld" : "tcgen05.st");
    const uint32_t lanes = a.shape == TmemShape::k32x32b ? kFullMask : 0xffffu << (w.lane & 31);
    const uint32_t width = a.packed ? 2 : 1, n = static_cast<uint32_t>(a.num) * width;
    std::vector<std::pair<uint32_t, uint32_t>> columns;
    switch (a.shape) {
        case TmemShape::k32x32b: columns = {{w.column, n}}; break;
        case TmemShape::k16x64b: columns = {{w.column, 2 * n}}; break;
        case TmemShape::k16x128b: columns = {{w.column, 4 * n}}; break;
        case TmemShape::k16x256b: columns = {{w.column, 8 * n}}; break;
        case TmemShape::k16x32bx2: columns = {{w.column, n}, {w.column + a.split * width, n}}; break;
    }
    x.checker->tmem_issued(x, load, lanes, columns);
}

void load_cells(Exec& x, const Access& a, uint32_t address, const uint32_t* slots, uint32_t mask) {
    const Window w = window_of(x, address, a, "tcgen05.ld");
    Tmem& tmem = *x.cta->tmem;
    const int registers = tmem_registers(a.shape, a.num);
    if (x.definedness) {
        x.definedness->tmem_load(x, a.shape, a.num, a.packed, static_cast<int>(a.split), w.lane, w.column, slots, mask);
    }
    if (a.shape == TmemShape::k32x32b && !a.packed) {
        for (int t = 0; t < kLanes; ++t) {
            if (!(mask >> t & 1)) continue;
            const uint32_t* row = tmem.lane(w.lane + t) + w.column;
            for (int i = 0; i < registers; ++i) x.at<uint32_t>(slots[i])[t] = row[i];
        }
        return;
    }
    for (int i = 0; i < registers; ++i) {
        uint32_t* d = x.at<uint32_t>(slots[i]);
        for (int t = 0; t < kLanes; ++t) {
            if (!(mask >> t & 1)) continue;
            int lane, column;
            tmem_cell(a.shape, t, i, static_cast<int>(a.split), &lane, &column);
            const uint32_t* row = tmem.lane(w.lane + lane) + w.column;
            d[t] = a.packed ? (row[2 * column] & 0xffff) | row[2 * column + 1] << 16 : row[column];
        }
    }
}

// values: [register][lane]; behind them, where definedness is checked, the same of undefined bits
void store_cells(Exec& x, const Access& a, uint32_t address, const uint32_t* values, uint32_t mask) {
    const Window w = window_of(x, address, a, "tcgen05.st");
    Tmem& tmem = *x.cta->tmem;
    const int registers = tmem_registers(a.shape, a.num);
    if (x.definedness) {
        x.definedness->tmem_store(a.shape, a.num, a.packed, static_cast<int>(a.split), w.lane, w.column,
                                  values + registers * kLanes, mask);
    }
    for (int i = 0; i < registers; ++i) {
        for (int t = 0; t < kLanes; ++t) {
            if (!(mask >> t & 1)) continue;
            int lane, column;
            tmem_cell(a.shape, t, i, static_cast<int>(a.split), &lane, &column);
            uint32_t* row = tmem.lane(w.lane + lane) + w.column;
            const uint32_t v = values[i * kLanes + t];
            if (a.packed) {
                row[2 * column] = v & 0xffff;
                row[2 * column + 1] = v >> 16;
            } else {
                row[column] = v;
            }
        }
    }
}

// slot 0: address; list: registers.
bool exec_tmem_load(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    const uint32_t address = uniform(x, in.slot[0], mask, "the address") + static_cast<uint32_t>(in.imm);
    const Access a = decode_shape(in.aux, in.slot[1]);
    if (x.checker) [[unlikely]] tell_access(x, a, address, true);
    if (!x.cta->adversarial) {
        load_cells(x, a, address, x.lists + in.list, mask);
        return true;
    }
    window_of(x, address, a, "tcgen05.ld");
    AsyncOp& op = queue_unordered(x, AsyncKind::kTmemLoad, std::countr_zero(mask));
    op.mask = mask;
    op.tmem = address;
    op.instr_descriptor = in.aux;
    op.bytes = in.slot[1];
    op.payload.assign(x.lists + in.list, x.lists + in.list + in.list_count);
    ++x.warp->tmem_loads;
    return true;
}
bool exec_tmem_store(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    const uint32_t address = uniform(x, in.slot[0], mask, "the address") + static_cast<uint32_t>(in.imm);
    const Access a = decode_shape(in.aux, in.slot[1]);
    std::vector<uint32_t> values(static_cast<size_t>(in.list_count) * kLanes * (x.definedness ? 2 : 1));
    for (uint32_t i = 0; i < in.list_count; ++i) {
        const uint32_t slot = x.lists[in.list + i];
        std::memcpy(values.data() + i * kLanes, x.at<uint32_t>(slot), kLanes * 4);
        if (!x.definedness) continue;
        std::memcpy(values.data() + (in.list_count + i) * kLanes, x.definedness->at<uint32_t>(x, slot), kLanes * 4);
    }
    window_of(x, address, a, "tcgen05.st");
    if (x.checker) [[unlikely]] tell_access(x, a, address, false);
    if (!x.cta->adversarial) {
        store_cells(x, a, address, values.data(), mask);
        return true;
    }
    AsyncOp& op = queue_unordered(x, AsyncKind::kTmemStore, std::countr_zero(mask));
    op.mask = mask;
    op.tmem = address;
    op.instr_descriptor = in.aux;
    op.bytes = in.slot[1];
    op.payload = std::move(values);
    return true;
}
void encode_tmem_access(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool load = m.words[1] == "ld";
    Access a{};
    static constexpr int kNumbers[] = {1, 2, 4, 8, 16, 32, 64, 128};
    const int num = m.one_of({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
    const int shape = m.one_of({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
    a.shape = static_cast<TmemShape>(shape);
    a.num = kNumbers[num];
    a.packed = m.has("pack::16b") || m.has("unpack::16b");
    const bool split = a.shape == TmemShape::k16x32bx2;
    if (ir.operands.size() != (split ? 3u : 2u)) d.fail("it has another number of operands");
    const int registers = tmem_registers(a.shape, a.num);
    if (registers == 0) d.fail("this shape has no such number of repetitions");
    const Operand& values = ir.operands[load ? 0 : split ? 2 : 1];
    d.address(ir.operands[load ? 1 : 0], out, 0);
    if (out.flags & kAddress64 && ir.operands[load ? 1 : 0].elements[0].kind == Operand::Kind::kRegister)
        d.fail("a Tensor Memory address has 32 bits");
    if (split) out.slot[1] = static_cast<uint32_t>(d.immediate(ir.operands[load ? 2 : 1]));
    std::vector<uint32_t> slots;
    if (values.kind == Operand::Kind::kVector)
        for (const auto& e : values.elements) slots.push_back(load ? d.destination(e, 32) : d.source(e, 32));
    else slots.push_back(load ? d.destination(values, 32) : d.source(values, 32));
    if (slots.size() != static_cast<size_t>(registers)) {
        d.fail(std::to_string(slots.size()) + " registers where " + std::to_string(registers) + " are expected");
    }
    out.aux = encode_shape(a);
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
}

bool exec_tmem_wait(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (x.cta->adversarial) finish_tmem_accesses(x, in.aux ? AsyncKind::kTmemStore : AsyncKind::kTmemLoad);
    if (x.checker) [[unlikely]] x.checker->tmem_waited(x, in.aux == 0);
    return true;
}

bool exec_tmem_fence(Exec& x, const Insn& in, uint32_t mask) {
    if (x.checker) [[unlikely]] x.checker->fence(x, mask, static_cast<FenceKind>(in.aux));
    return true;
}

// ---- mma, commit ----

// Columns of D in each CTA: layout B (M = 128, .cta_group::2) keeps the halves of a row in different lanes.
int accumulator_columns(const InstrDescriptor& d, int group) { return group == 2 && d.m == 128 ? d.n / 2 : d.n; }

// Lists: d (4 words), A's address in Tensor Memory (4; unless it is a descriptor). slot: 0 descriptor of A, 1 of B, 2
// instruction descriptor, 3 enable-input-d. list_count: mask registers behind the addresses. aux: MmaKind | A in Tensor
// Memory << 8 | scale-input-d << 16.
bool exec_tensor_mma(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t enable = x.predicate(in, 3);
    const int group = in_pair(x, in) ? 2 : 1;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const auto kind = static_cast<MmaKind>(in.aux & 0xff);
        const bool a_in_tmem = in.aux >> 8 & 1;
        const uint32_t bits = x.at<uint32_t>(in.slot[2])[lane];
        InstrDescriptor desc;
        std::string broken = decode_instr_descriptor(bits, kind, group, &desc);
        if (!broken.empty()) illegal(lane, "instruction descriptor " + hex(bits) + ": " + broken);
        SmemDescriptor smem;
        const uint64_t b = x.at<uint64_t>(in.slot[1])[lane];
        broken = decode_smem_descriptor(b, true, &smem);
        if (!broken.empty()) illegal(lane, "descriptor of B " + hex(b) + ": " + broken);
        uint64_t a = 0;
        if (!a_in_tmem) {
            a = x.at<uint64_t>(in.slot[0])[lane];
            broken = decode_smem_descriptor(a, true, &smem);
            if (!broken.empty()) illegal(lane, "descriptor of A " + hex(a) + ": " + broken);
        }
        const uint32_t d = static_cast<uint32_t>(listed_address(x, in.list, lane));
        const uint32_t d_columns = static_cast<uint32_t>(accumulator_columns(desc, group));
        check_columns(*x.cta, lane, d & 0xffff, d_columns, "the accumulator");
        if (group == 2) check_columns(peer_of(x, lane), lane, d & 0xffff, d_columns, "the accumulator");
        AsyncOp& op = queue_tensor(x, AsyncKind::kMma, lane);
        op.cta_group = static_cast<uint32_t>(group);
        op.tmem = d;
        op.descriptor_a = a;
        op.descriptor_b = b;
        op.instr_descriptor = bits;
        op.accumulate = enable >> lane & 1;
        op.mma_kind = in.aux & 0xff;
        op.a_in_tmem = a_in_tmem;
        if (a_in_tmem) op.tmem_a = static_cast<uint32_t>(listed_address(x, in.list + 4, lane));
        op.scale_d = in.aux >> 16 & 15;
        const uint32_t at = in.list + (a_in_tmem ? 8 : 4);
        for (uint32_t i = 0; i < in.list_count; ++i) op.disable[i] = x.at<uint32_t>(x.lists[at + i])[lane];
        if (x.checker) [[unlikely]] x.checker->mma_issued(x, op);
    }
    return true;
}
void encode_mma(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool pair = m.has("cta_group::2");
    const size_t n = ir.operands.size();
    if (n < 5) d.fail("it has too few operands");
    const bool a_in_tmem = ir.operands[1].kind == Operand::Kind::kMemory;
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    if (a_in_tmem) d.list_memory(ir.operands[1]);
    else out.slot[0] = d.source(ir.operands[1], 64);
    out.slot[1] = d.source(ir.operands[2], 64);
    out.slot[2] = d.source(ir.operands[3], 32);
    size_t at = 4;
    if (ir.operands[at].kind == Operand::Kind::kVector && !ir.operands[at].has_pair) {
        const auto& masks = ir.operands[at].elements;
        if (masks.size() != (pair ? 8u : 4u))
            d.fail("disable-output-lane has 4 registers, of cta_group::2 it has 8");
        std::vector<uint32_t> slots;
        for (const auto& e : masks) slots.push_back(d.source(e, 32));
        for (uint32_t s : slots) d.list_add(s);
        out.list_count = static_cast<uint32_t>(masks.size());
        ++at;
    }
    if (at >= n) d.fail("enable-input-d is missing");
    out.slot[3] = d.predicate_source(ir.operands[at++], out, 3);
    uint64_t scale = 0;
    const int kind = m.one_of({"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8"});
    if (at < n) {
        scale = d.immediate(ir.operands[at++]);
        if (kind > 1 || scale > 15) d.fail("scale-input-d is 0..15 and exists for kind::f16 and kind::tf32");
    }
    if (at != n) d.fail("it has too many operands");
    out.aux = static_cast<uint32_t>(kind) | (a_in_tmem ? 1u << 8 : 0) | static_cast<uint32_t>(scale) << 16 |
              (pair ? kPairBit : 0);
}

// slot 0: mbarrier, 1: ctaMask. A multicast signals the same place in each CTA.
bool exec_commit(Exec& x, const Insn& in, uint32_t mask) {
    if (in_pair(x, in)) peer_of(x, -1);
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint32_t barrier = shared_address(x, lane, lane_address(x, in, 0, lane), "mbarrier address");
        uint32_t ctas = 0;
        if (in.aux & 1) ctas = cta_mask_at(x, lane, x.at<uint32_t>(in.slot[1])[lane]);
        else ctas = 1u << cta_of(x, lane, barrier).rank;
        constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;
        for (uint32_t rank = 0; ctas >> rank != 0; ++rank) {
            if (!(ctas >> rank & 1)) continue;
            const uint32_t to = rank << kRankShift | (barrier & kOffsetMask);
            mbarrier_at(x, lane, to);
            AsyncOp& op = queue_tensor(x, AsyncKind::kCommit, lane);
            op.mbarrier = to;
            if (x.checker) [[unlikely]] x.checker->commit_issued(x, op);
        }
    }
    return true;
}
void encode_commit(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool multicast = m.has("multicast::cluster");
    if (ir.operands.size() != (multicast ? 2u : 1u)) d.fail("it has another number of operands");
    d.address(ir.operands[0], out, 0);
    if (multicast) out.slot[1] = d.source(ir.operands[1], 16);
    out.aux = (multicast ? 1 : 0) | (m.has("cta_group::2") ? kPairBit : 0);
}

// ---- the MMA itself ----

int element_bytes(MmaKind kind) { return kind == MmaKind::kF16 ? 2 : kind == MmaKind::kTf32 ? 4 : 1; }
bool eight_bits(Format f) { return f == Format::kE4m3 || f == Format::kE5m2; }

// Appends rows of 32 bytes of an operand in one CTA's shared memory.
void gather(const Cta& cta, const AsyncOp& op, uint64_t bits, int rows, bool mn_major, const char* name,
            std::vector<uint8_t>& codes) {
    SmemDescriptor smem;
    decode_smem_descriptor(bits, true, &smem);
    const size_t begin = codes.size();
    codes.resize(begin + static_cast<size_t>(rows) * 32);
    uint8_t* out = codes.data() + begin;
    const uint8_t* shared = cta.shared.data();
    const int bytes = element_bytes(static_cast<MmaKind>(op.mma_kind));
    std::string broken;
    if (!mn_major) {
        broken = gather_operand(smem, shared, cta.shared_bytes, rows, 32, out);
    } else if (bytes == 1) {
        broken = gather_operand_mn(smem, shared, cta.shared_bytes, rows, 32, out);
    } else if (bytes == 4 || smem.atom_32b) {
        illegal(op.lane, std::string("an MN-major operand ") + name + " of this kind or swizzle is not supported yet");
    } else {
        for (int row = 0; row < rows && broken.empty(); ++row) {
            for (int k = 0; k < 32 / bytes; ++k) {
                const uint32_t address = mn_major_address(smem, bytes, row, k);
                if (address + static_cast<uint32_t>(bytes) > cta.shared_bytes) {
                    broken = "matrix operand reaches shared address " + hex(address) + ", beyond the " +
                             std::to_string(cta.shared_bytes) + " bytes of shared memory";
                    break;
                }
                std::memcpy(out + row * 32 + k * bytes, shared + address, static_cast<size_t>(bytes));
            }
        }
    }
    if (!broken.empty()) fault(RunStatus::kIllegalAddress, op.lane, std::string("operand ") + name + ": " + broken);
}

std::vector<uint32_t> expand(const std::vector<uint8_t>& codes, int bytes) {
    std::vector<uint32_t> out(codes.size() / static_cast<size_t>(bytes));
    for (size_t i = 0; i < out.size(); ++i) {
        uint32_t v = 0;
        std::memcpy(&v, codes.data() + i * static_cast<size_t>(bytes), static_cast<size_t>(bytes));
        out[i] = v;
    }
    return out;
}

uint32_t sign_bit(Format f) {
    switch (f) {
        case Format::kE4m3:
        case Format::kE5m2: return 0x80;
        case Format::kF16:
        case Format::kBf16: return 0x8000;
        case Format::kTf32: return 0x80000000u;
        default: return 0;
    }
}

// With .cta_group::2 the CTA of even rank holds the first half of A's and B's rows, its peer the second, both where
// the same descriptors point to; each has its rows of D.
void multiply(Exec& x, const AsyncOp& op) {
    const auto kind = static_cast<MmaKind>(op.mma_kind);
    const int group = static_cast<int>(op.cta_group);
    Cta* ctas[2] = {x.cta, x.cta};
    if (group == 2) ctas[x.cta->rank & 1 ? 0 : 1] = &peer_of(x, op.lane);
    InstrDescriptor desc;
    decode_instr_descriptor(op.instr_descriptor, kind, group, &desc);
    const bool integer = kind == MmaKind::kI8;
    if (kind == MmaKind::kF8f6f4 && (!eight_bits(desc.a) || !eight_bits(desc.b))) {
        illegal(op.lane, "6-bit and 4-bit operands of kind::f8f6f4 are not supported yet");
    }
    const uint32_t column = op.tmem & 0xffff, start_lane = op.tmem >> 16;
    if (start_lane != 0 && !(group == 1 && desc.m == 64 && start_lane == 16))
        illegal(op.lane, "the accumulator starts at lane " + std::to_string(start_lane));
    std::vector<uint8_t> a, b;
    for (int part = 0; part < group; ++part) {
        Cta& cta = *ctas[part];
        check_columns(cta, op.lane, column, static_cast<uint32_t>(accumulator_columns(desc, group)), "the accumulator");
        if (op.a_in_tmem) {
            // Row m is lane m of D's layout; 32 bytes of K are 8 columns.
            const uint32_t a_column = op.tmem_a & 0xffff;
            check_columns(cta, op.lane, a_column, 8, "operand A");
            if (desc.transpose_a) illegal(op.lane, "operand A in Tensor Memory is K-major");
            if (group == 2 && desc.m == 128)
                illegal(op.lane, "operand A in Tensor Memory with M = 128 and cta_group::2 is not supported yet");
            const int rows = desc.m / group;
            for (int m = 0; m < rows; ++m) {
                int lane, c;
                tmem_d_cell(rows, 1, m, 0, desc.n, &lane, &c);
                const uint32_t* cells = cta.tmem->lane(lane + static_cast<int>(op.tmem_a >> 16)) + a_column;
                const auto* bytes = reinterpret_cast<const uint8_t*>(cells);
                a.insert(a.end(), bytes, bytes + 32);
            }
        } else {
            gather(cta, op, op.descriptor_a, desc.m / group, desc.transpose_a, "A", a);
        }
        gather(cta, op, op.descriptor_b, desc.n / group, desc.transpose_b, "B", b);
    }
    ++x.mma_operations;

    bool all_lanes = true;
    for (uint32_t v : op.disable) all_lanes &= v == 0;
    if (kind == MmaKind::kF8f6f4 && desc.d_f32 && all_lanes) {
        if (desc.negate_a)
            for (auto& v : a) v ^= 0x80;
        if (desc.negate_b)
            for (auto& v : b) v ^= 0x80;
        // Rows of D that lie in consecutive lanes, and columns that do in consecutive cells.
        const int rows = group == 1 ? (desc.m == 64 ? 16 : desc.m) : desc.m / 2;
        const int columns = accumulator_columns(desc, group);
        for (int m = 0; m < desc.m; m += rows) {
            for (int n = 0; n < desc.n; n += columns) {
                int lane, c;
                const int part = tmem_d_cell(desc.m, group, m, n, desc.n, &lane, &c);
                mma_fp8_k32(desc.a, desc.b, a.data() + m * 32, b.data() + n * 32, rows, columns,
                            ctas[part]->tmem->lane(lane + static_cast<int>(start_lane)) + column + c, Tmem::kColumns,
                            op.accumulate, kSm100Rule);
            }
        }
        return;
    }
    const int bytes = element_bytes(kind), k = 32 / bytes;
    std::vector<uint32_t> ea = expand(a, bytes), eb = expand(b, bytes);
    if (desc.negate_a)
        for (auto& v : ea) v ^= sign_bit(desc.a);
    if (desc.negate_b)
        for (auto& v : eb) v ^= sign_bit(desc.b);
    for (int m = 0; m < desc.m; ++m) {
        for (int n = 0; n < desc.n; ++n) {
            int lane, c;
            const int part = tmem_d_cell(desc.m, group, m, n, desc.n, &lane, &c);
            lane += static_cast<int>(start_lane);
            if (op.disable[part * 4 + lane / 32] >> (lane % 32) & 1) continue;
            uint32_t& cell = ctas[part]->tmem->lane(lane)[column + static_cast<uint32_t>(c)];
            const uint32_t *pa = ea.data() + m * k, *pb = eb.data() + n * k;
            if (integer) {
                cell = static_cast<uint32_t>(
                    integer_dot(desc.a, desc.b, pa, pb, k, static_cast<int32_t>(cell), op.accumulate, desc.saturate));
            } else if (desc.d_f32) {
                uint32_t in = cell;
                if (op.scale_d != 0)
                    in = std::bit_cast<uint32_t>(std::ldexp(std::bit_cast<float>(in), -static_cast<int>(op.scale_d)));
                cell = fused_dot(desc.a, desc.b, pa, pb, k, in, op.accumulate, kSm100Rule);
            } else {
                if (op.scale_d != 0) illegal(op.lane, "scale-input-d with an f16 accumulator is not supported yet");
                cell = fused_dot_f16(desc.a, desc.b, pa, pb, k, cell & 0xffff, op.accumulate, kSm100Rule.window);
            }
        }
    }
    if (group == 2) ++ctas[x.cta->rank & 1 ? 0 : 1]->epoch;
}

#define LIDX_GROUP "(cta_group::1|cta_group::2)"
#define LIDX_COLLECTOR "[collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard]"

const Row kRows[] = {
    // tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols;  dealloc taddr, nCols;
    // relinquish_alloc_permit  (9.7.16.7)
    {"tcgen05.alloc." LIDX_GROUP ".sync.aligned.[shared::cta].b32", "m s32", exec_alloc, "100f", encode_group},
    {"tcgen05.dealloc." LIDX_GROUP ".sync.aligned.b32", "s32 s32", exec_dealloc, "100f", encode_group},
    {"tcgen05.relinquish_alloc_permit." LIDX_GROUP ".sync.aligned", "-", exec_relinquish, "100f", encode_group},
    // tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 r, [taddr]{, immHalfSplitoff};  st [taddr]{, immHalfSplitoff},
    // r  (9.7.16.8)
    {"tcgen05.ld.sync.aligned.(16x64b|16x128b|16x256b|32x32b|16x32bx2).(x1|x2|x4|x8|x16|x32|x64|x128).[pack::16b].b32",
     "*", exec_tmem_load, "100f", encode_tmem_access},
    {"tcgen05.st.sync.aligned.(16x64b|16x128b|16x256b|32x32b|16x32bx2).(x1|x2|x4|x8|x16|x32|x64|x128).[unpack::16b]."
     "b32",
     "*", exec_tmem_store, "100f", encode_tmem_access},
    {"tcgen05.wait::ld.sync.aligned", "-", exec_tmem_wait, "100f"},
    {"tcgen05.wait::st.sync.aligned", "-", exec_tmem_wait, "100f",
     [](Decoder&, const Match&, const Instruction&, Insn& out) { out.aux = 1; }},
    // tcgen05.mma.cta_group.kind{.collector_usage} [d], a-desc|[a], b-desc, idesc{, {disable-output-lane}},
    // enable-input-d{, scale-input-d}  (9.7.16.10.9)
    {"tcgen05.mma." LIDX_GROUP ".(kind::f16|kind::tf32|kind::f8f6f4)." LIDX_COLLECTOR, "*", exec_tensor_mma, "100f",
     encode_mma},
    {"tcgen05.mma." LIDX_GROUP ".kind::i8." LIDX_COLLECTOR, "*", exec_tensor_mma, "100a", encode_mma},
    // tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast}.b64 [mbar]{, ctaMask}  (9.7.16.12)
    {"tcgen05.commit." LIDX_GROUP ".mbarrier::arrive::one.[shared::cluster].[multicast::cluster].b64", "*", exec_commit,
     "100f", encode_commit},
    // tcgen05.fence::before_thread_sync;  tcgen05.fence::after_thread_sync  (9.7.16.11)
    {"tcgen05.(fence::before_thread_sync|fence::after_thread_sync)", "-", exec_tmem_fence, "100f",
     [](Decoder&, const Match& m, const Instruction&, Insn& out) {
         out.aux = static_cast<uint32_t>(m.has("fence::before_thread_sync") ? FenceKind::kTmemBefore
                                                                            : FenceKind::kTmemAfter);
     }},
};

}   // namespace

void complete_tensor(Exec& x, AsyncOp& op) {
    switch (op.kind) {
        case AsyncKind::kMma:
            multiply(x, op);
            if (x.definedness) x.definedness->multiplied(x, op);
            break;
        case AsyncKind::kCommit: mbarrier_arrive_at(x, op, op.mbarrier); break;
        case AsyncKind::kTmemLoad:
            --x.warp->tmem_loads;
            load_cells(x, decode_shape(op.instr_descriptor, op.bytes), op.tmem, op.payload.data(), op.mask);
            break;
        case AsyncKind::kTmemStore:
            store_cells(x, decode_shape(op.instr_descriptor, op.bytes), op.tmem, op.payload.data(), op.mask);
            break;
        default: fault(RunStatus::kInternal, op.lane, "an asynchronous operation that nobody carries out");
    }
}

namespace {

template <typename Chosen>
void finish_of_warp(Exec& x, Chosen chosen) {
    auto& pending = x.cta->unordered;
    const uint32_t pc = x.pc;
    for (size_t i = 0; i < pending.size();) {
        if (pending[i].warp != x.warp->index || !chosen(pending[i])) {
            ++i;
            continue;
        }
        AsyncOp op = std::move(pending[i]);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
        x.pc = op.pc;
        complete_tensor(x, op);
        ++x.cta->epoch;
    }
    x.pc = pc;
}

}   // namespace

void finish_tmem_accesses(Exec& x, AsyncKind kind) {
    finish_of_warp(x, [kind](const AsyncOp& op) { return op.kind == kind; });
}

void finish_tmem_loads_used(Exec& x) {
    const ShadowInfo& info = x.program->shadow[x.pc];
    const std::span<const Use> uses{x.program->uses.data() + info.first_use, info.uses};
    if (uses.empty()) return;
    finish_of_warp(x, [uses](const AsyncOp& op) {
        return op.kind == AsyncKind::kTmemLoad && std::any_of(uses.begin(), uses.end(), [&op](const Use& use) {
                   return std::find(op.payload.begin(), op.payload.end(), use.slot) != op.payload.end();
               });
    });
}

std::span<const Row> rows_tcgen05() { return kRows; }

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Definedness of what moves through memory and the tensor core.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "definedness.h"
#include "tma.h"

namespace ptxemu {
namespace {

constexpr uint32_t kMaxElements = 32;   // bytes of one lane's access

bool any(const uint8_t* bytes, size_t n) {
    return std::any_of(bytes, bytes + n, [](uint8_t b) { return b != 0; });
}

// ---- one lane's bytes, wherever they are ----

enum class Where : uint32_t { kGlobal, kShared, kLocal, kParam, kGeneric };

Where where_of(const Match& m) {
    if (m.has("global") || m.has("const")) return Where::kGlobal;
    if (m.has("shared") || m.has("shared::cta") || m.has("shared::cluster")) return Where::kShared;
    if (m.has("local")) return Where::kLocal;
    if (m.has("param") || m.has("param::entry") || m.has("param::func")) return Where::kParam;
    return Where::kGeneric;
}

const Allocation* allocation_at(Exec& x, uint64_t address, uint64_t bytes) {
    Allocation& cached = x.warp->cached;
    if (!cached.contains(address, bytes)) {
        const Allocation found = x.memory->find(address, bytes);
        if (found.bytes == 0) return nullptr;
        cached = found;
    }
    return &cached;
}

// Of any CTA of the cluster; null outside.
uint8_t* shared_shadow(const Exec& x, uint64_t address, uint64_t bytes) {
    const uint64_t rank = address >> kRankShift;
    const auto& ctas = x.cta->cluster->ctas;
    if (rank >= ctas.size() || !ctas[rank]->definedness) return nullptr;
    Definedness& d = *ctas[rank]->definedness;
    const uint64_t offset = address - ctas[rank]->shared_base, end = d.shared_bytes();
    return offset > end || bytes > end - offset ? nullptr : d.shared(static_cast<uint32_t>(offset));
}

struct Bytes {
    uint8_t* shadow = nullptr;              // null: defined, or global
    const Allocation* global = nullptr;
    uint64_t offset = 0;                    // in the allocation
};
// What lies outside any memory is the handler's business, which faults.
Bytes locate(Definedness& d, Exec& x, Where where, int lane, uint64_t address, uint64_t bytes) {
    if (where == Where::kGeneric) {
        constexpr Where kWindows[] = {Where::kGlobal, Where::kShared, Where::kLocal, Where::kParam};
        const uint64_t window = address >> kWindowShift;
        if (window > 3) return {};
        where = kWindows[window];
        address &= kWindowMask;
    }
    if (where == Where::kParam) {
        if (address < kParamLocalBase) return {};
        address -= kParamLocalBase;
        where = Where::kLocal;
    }
    switch (where) {
        case Where::kGlobal: {
            const Allocation* a = allocation_at(x, address, bytes);
            return {nullptr, a, a ? address - a->base : 0};
        }
        case Where::kShared: return {shared_shadow(x, address, bytes), nullptr, 0};
        default: {
            const uint64_t size = x.program->local_bytes;
            if (address > size || bytes > size - address) return {};
            return {d.local(x, lane) + address, nullptr, 0};
        }
    }
}
// A shared address that may also be written as a generic one.
Bytes locate_shared(Definedness& d, Exec& x, int lane, uint64_t address, uint64_t bytes) {
    return locate(d, x, address >> kWindowShift ? Where::kGeneric : Where::kShared, lane, address, bytes);
}
// True if any of the bytes has an undefined bit; out: the bits.
bool read(const Bytes& from, uint32_t bytes, uint8_t* out) {
    if (from.global) {
        uint8_t* written = from.global->written;
        if (!written || all_written(written, from.offset, bytes)) {
            std::memset(out, 0, bytes);
            return false;
        }
        unwritten_bytes(written, from.offset, bytes, out);
        return true;
    }
    if (!from.shadow) {
        std::memset(out, 0, bytes);
        return false;
    }
    std::memcpy(out, from.shadow, bytes);
    return any(out, bytes);
}
void write(const Bytes& to, uint32_t bytes, const uint8_t* bits) {
    if (to.shadow) std::memcpy(to.shadow, bits, bytes);
    else if (to.global && to.global->written) set_written(to.global->written, to.offset, bytes);
}

int bits_of_slot(const Exec& x, const ShadowInfo& info, uint32_t slot) {
    for (const Use& u : uses_of(x, info))
        if (u.slot == slot && u.role != UseRole::kAddress) return u.bits;
    return 32;
}
// Element i of a lane's bytes from or to a register's shadow.
void copy_from_register(Definedness& d, Exec& x, uint32_t slot, int bits, int lane, uint32_t bytes, uint8_t* out) {
    if (bits <= 32) std::memcpy(out, d.at<uint32_t>(x, slot) + lane, std::min(bytes, 4u));
    else {
        std::memcpy(out, d.at<uint64_t>(x, slot) + lane, std::min(bytes, 8u));
        if (bytes == 16) std::memcpy(out + 8, d.at<uint64_t>(x, slot) + kLanes + lane, 8);
    }
}
void copy_to_register(Definedness& d, Exec& x, uint32_t slot, int bits, int lane, uint32_t bytes, bool is_signed,
                      const uint8_t* in) {
    uint64_t value = 0;
    std::memcpy(&value, in, std::min(bytes, 8u));
    if (is_signed && bytes < 8 && value >> (8 * bytes - 1) & 1) value |= ~0ull << (8 * bytes);
    if (bits <= 32) {
        d.at<uint32_t>(x, slot)[lane] = static_cast<uint32_t>(value) & (bits == 32 ? ~0u : (1u << bits) - 1);
        return;
    }
    d.at<uint64_t>(x, slot)[lane] = value;
    if (bytes == 16) {
        std::memcpy(&value, in + 8, 8);
        d.at<uint64_t>(x, slot)[lane + kLanes] = value;
    }
}

// data: bytes of an element | signed << 8 | Where << 12
uint32_t access_data(const Match& m) {
    const std::string_view t = m.words.back();
    uint32_t bytes = 4;
    if (t.ends_with("128")) bytes = 16;
    else if (t.ends_with("x2") || t.ends_with("32")) bytes = 4;
    else if (t.ends_with("64")) bytes = 8;
    else if (t.ends_with("16")) bytes = 2;
    else if (t.ends_with("8")) bytes = 1;
    return bytes | (t[0] == 's' ? 1u << 8 : 0) | static_cast<uint32_t>(where_of(m)) << 12;
}

void load(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
    const uint32_t bytes = info.data & 0xff, count = in.list_count;
    const bool is_signed = info.data >> 8 & 1;
    const auto where = static_cast<Where>(info.data >> 12);
    uint8_t bits[kLanes][kMaxElements];
    uint32_t undefined = 0;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        if (read(locate(d, x, where, l, lane_address(x, in, 0, l), bytes * count), bytes * count, bits[l]))
            undefined |= 1u << l;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t slot = x.lists[in.list + i];
        if (slot == kSinkSlot) continue;
        const int width = bits_of_slot(x, info, slot);
        d.set_lanes(x, slot, width, mask, 0);
        if (undefined == 0) continue;
        for (int l = 0; l < kLanes; ++l)
            if (undefined >> l & 1) copy_to_register(d, x, slot, width, l, bytes, is_signed, bits[l] + i * bytes);
        d.refresh(x, slot, width);
        d.set_origin(x, slot, x.pc);
    }
}

void store(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
    const uint32_t bytes = info.data & 0xff, count = in.list_count;
    const auto where = static_cast<Where>(info.data >> 12);
    uint32_t dirty = 0;
    int width[8];
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t slot = x.lists[in.list + i];
        if (d.dirty(x, slot)) dirty |= 1u << i;
        width[i] = bits_of_slot(x, info, slot);
    }
    uint8_t bits[kMaxElements] = {};
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, l);
        const Bytes to = locate(d, x, where, l, address, bytes * count);
        for (uint32_t i = 0; i < count && dirty != 0; ++i) {
            if (!(dirty >> i & 1)) continue;
            const uint32_t slot = x.lists[in.list + i];
            copy_from_register(d, x, slot, width[i], l, bytes, bits + i * bytes);
            if (to.global && any(bits + i * bytes, bytes)) {
                d.report(x, l, "undefined-store", "an undefined value is stored to global memory", slot,
                         address + i * bytes, bytes);
            }
        }
        write(to, bytes * count, bits);
    }
}

// atom, red; list and aux as exec_memory.cpp has them.
void atomic(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
    const uint32_t bytes = info.data & 0xff, count = std::max(in.aux >> 24, 1u);
    const auto where = static_cast<Where>(info.data >> 12);
    constexpr uint32_t kExch = 8, kCas = 9;
    const uint32_t op = in.aux & 0xff;
    const uint32_t* list = x.lists + in.list;
    uint32_t unknown[8] = {};
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, l);
        for (uint32_t i = 0; i < count; ++i) {
            const Bytes at = locate(d, x, where, l, address + i * bytes, bytes);
            uint8_t old[16], value[16] = {}, other[16] = {};
            const bool bad_old = read(at, bytes, old);
            const uint32_t b = list[count + i], c = op == kCas ? list[2 * count] : kSinkSlot;
            if (d.dirty(x, b)) copy_from_register(d, x, b, bits_of_slot(x, info, b), l, bytes, value);
            if (op == kCas && d.dirty(x, c)) copy_from_register(d, x, c, bits_of_slot(x, info, c), l, bytes, other);
            const bool bad_value = any(value, bytes) || any(other, bytes);
            if (bad_old) unknown[i] |= 1u << l;
            if (at.global && bad_value) {
                d.report(x, l, "undefined-store", "an atomic operation stores an undefined value to global memory",
                         any(value, bytes) ? b : c, address + i * bytes, bytes);
            } else if (at.global && bad_old && op != kExch) {
                d.report(x, l, "undefined-read", "an atomic operation on global memory that nobody has written",
                         kSinkSlot, address + i * bytes, bytes);
            }
            if (op != kExch && (bad_old || bad_value)) std::memset(value, 0xff, bytes);
            write(at, bytes, value);
        }
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (list[i] == kSinkSlot) continue;
        const int width = bits_of_slot(x, info, list[i]);
        d.set_lanes(x, list[i], width, mask, unknown[i]);
        if (unknown[i] != 0) d.set_origin(x, list[i], x.pc);
    }
}

void mbarrier_init(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const Bytes at = locate_shared(d, x, l, lane_address(x, in, 0, l), 8);
        if (at.shadow) std::memset(at.shadow, 0, 8);
    }
    if (d.undefined_lanes(x, in.slot[1], 32) & mask)
        d.report(x, std::countr_zero(mask), "undefined-operand", "the count of the mbarrier is undefined", in.slot[1]);
}

void store_bulk(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    decide(d, x, in, info, mask);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t bytes = in.flags & kWideOperand ? x.at<uint64_t>(in.slot[1])[l] : x.at<uint32_t>(in.slot[1])[l];
        const Bytes at = locate_shared(d, x, l, lane_address(x, in, 0, l), bytes);
        if (at.shadow) std::memset(at.shadow, 0, bytes);
    }
}

// The map is defined, or the instruction faults. cp_fenceproxy copies it as bytes.
void tensormap_replace(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    decide(d, x, in, info, mask);
    constexpr uint8_t kDefined[kMaxElements] = {};
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, l);
        for (uint32_t offset = 0; offset < 128; offset += kMaxElements) {
            const Bytes at = in.flags & kAlternate ? locate_shared(d, x, l, address + offset, kMaxElements)
                                                   : locate(d, x, Where::kGeneric, l, address + offset, kMaxElements);
            write(at, kMaxElements, kDefined);
        }
    }
}
void tensormap_copy(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    decide(d, x, in, info, mask);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t to = listed_address(x, in.list, l), from = listed_address(x, in.list + 4, l);
        for (uint32_t offset = 0; offset < 128; offset += kMaxElements) {
            uint8_t bits[kMaxElements];
            if (read(locate_shared(d, x, l, from + offset, kMaxElements), kMaxElements, bits)) {
                const auto bad = std::find_if(bits, bits + kMaxElements, [](uint8_t b) { return b != 0; });
                d.report(x, l, "undefined-store", "an undefined byte of a tensor map is stored to global memory",
                         kSinkSlot, to + offset + static_cast<uint64_t>(bad - bits), 1);
                std::memset(bits, 0, sizeof bits);
            }
            write(locate(d, x, Where::kGlobal, l, to + offset, kMaxElements), kMaxElements, bits);
        }
    }
}

// Arguments of a call: registers or the thread's parameter area.
void call(Definedness& d, Exec& x, const Insn& in, const ShadowInfo&, uint32_t mask) {
    if (in.handler != exec_call && in.handler != exec_call_if && in.handler != exec_copy_arguments &&
        in.handler != exec_copy_results)
        return;
    for (uint32_t i = 0; i < in.list_count; ++i) {
        const ParamCopy& c = x.program->copies[in.list + i];
        const uint32_t bytes = c.bytes & ~kConstantSlot;
        const bool registers = c.bytes & kConstantSlot;
        const int bits = static_cast<int>(bytes) * 8;
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            if (!registers) {
                std::memmove(d.local(x, l) + c.to, d.local(x, l) + c.from, bytes);
                continue;
            }
            uint8_t value[16] = {};
            copy_from_register(d, x, c.from, bits, l, bytes, value);
            if (!(c.to & kConstantSlot)) copy_to_register(d, x, c.to, bits, l, bytes, false, value);
        }
        if (registers) {
            d.refresh(x, c.to, bits);
            d.set_origin(x, c.to, d.origin(x, c.from));
        }
    }
}
void call_indirect(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    decide(d, x, in, info, mask);
    call(d, x, in, info, mask);
}
// vprintf's result.
void call_builtin(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (in.handler == exec_vprintf) {
        for (int l = 0; l < kLanes; ++l)
            if (mask >> l & 1) std::memset(d.local(x, l) + x.lists[in.list + 2], 0, 4);
        return;
    }
    call(d, x, in, info, mask);
}

// ---- matrices ----

void ldmatrix(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (mask != kFullMask || x.warp->live != kFullMask) return;
    check_addresses(d, x, info, mask);
    for (uint32_t i = 0; i < in.aux; ++i) {
        uint16_t cells[8][8] = {};
        bool bad = false;
        for (uint32_t r = 0; r < 8; ++r) {
            const int lane = static_cast<int>(8 * i + r);
            const Bytes at = locate_shared(d, x, lane, lane_address(x, in, 0, lane), 16);
            bad |= read(at, 16, reinterpret_cast<uint8_t*>(cells[r]));
        }
        const uint32_t slot = x.lists[in.list + i];
        if (!bad) {
            d.set_lanes(x, slot, 32, mask, 0);
            continue;
        }
        uint32_t* to = d.at<uint32_t>(x, slot);
        for (int t = 0; t < kLanes; ++t) {
            const int row = t / 4, column = 2 * (t % 4);
            to[t] = in.flags & kAlternate
                        ? cells[column][row] | static_cast<uint32_t>(cells[column + 1][row]) << 16
                        : cells[row][column] | static_cast<uint32_t>(cells[row][column + 1]) << 16;
        }
        d.refresh(x, slot, 32);
        d.set_origin(x, slot, x.pc);
    }
}

void stmatrix(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    if (mask != kFullMask || x.warp->live != kFullMask) return;
    check_addresses(d, x, info, mask);
    for (uint32_t i = 0; i < in.aux; ++i) {
        const uint32_t* s = d.at<uint32_t>(x, x.lists[in.list + i]);
        uint16_t cells[8][8];
        for (int t = 0; t < kLanes; ++t) {
            const int row = t / 4, column = 2 * (t % 4);
            const auto low = static_cast<uint16_t>(s[t]), high = static_cast<uint16_t>(s[t] >> 16);
            (in.flags & kAlternate ? cells[column][row] : cells[row][column]) = low;
            (in.flags & kAlternate ? cells[column + 1][row] : cells[row][column + 1]) = high;
        }
        for (uint32_t r = 0; r < 8; ++r) {
            const int lane = static_cast<int>(8 * i + r);
            write(locate_shared(d, x, lane, lane_address(x, in, 0, lane), 16), 16,
                  reinterpret_cast<const uint8_t*>(cells[r]));
        }
    }
}

// mma.sync.m16n8kK: an undefined element of A taints its row of D, one of B its column. Operands as exec_mma.cpp has
// them. data: bits of an element of A; accumulators of f16 hold two elements.
void mma(Definedness& d, Exec& x, const Insn& in, const ShadowInfo&, uint32_t mask) {
    if (mask != kFullMask || x.warp->live != kFullMask) return;
    const uint32_t d_registers = in.aux >> 20, inputs = in.list_count - 2 * d_registers;
    const uint32_t a_registers = inputs * 2 / 3, b_registers = inputs - a_registers;
    const uint32_t* slots = x.lists + in.list;
    const uint32_t *a = slots + d_registers, *b = a + a_registers, *c = b + b_registers;
    uint32_t rows = 0, columns = 0, origin = Definedness::kNoOrigin;   // bit: tainted
    auto note = [&](uint32_t slot) {
        if (origin == Definedness::kNoOrigin) origin = d.origin(x, slot);
    };
    bool dirty = false;
    for (uint32_t r = 0; r < a_registers; ++r) {
        const uint32_t lanes = d.undefined_lanes(x, a[r], 32);
        if (lanes == 0) continue;
        note(a[r]);
        for (int t = 0; t < kLanes; ++t)
            if (lanes >> t & 1) rows |= 1u << (t / 4 + 8 * (r & 1));
    }
    for (uint32_t r = 0; r < b_registers; ++r) {
        const uint32_t lanes = d.undefined_lanes(x, b[r], 32);
        if (lanes == 0) continue;
        note(b[r]);
        for (int t = 0; t < kLanes; ++t)
            if (lanes >> t & 1) columns |= 1u << (t / 4);
    }
    for (uint32_t i = 0; i < d_registers; ++i) dirty |= d.dirty(x, c[i]);
    uint32_t result[4][kLanes] = {};
    for (uint32_t i = 0; i < d_registers; ++i) {
        const uint32_t* before = d.at<uint32_t>(x, c[i]);
        if (d.dirty(x, c[i])) note(c[i]);
        for (int t = 0; t < kLanes; ++t) {
            const uint32_t row = static_cast<uint32_t>(t / 4) + 8 * (d_registers == 2 ? i : i >> 1),
                           column = static_cast<uint32_t>(2 * (t % 4));
            const bool whole_row = rows >> row & 1;
            if (d_registers == 2) {
                const bool low = whole_row || columns >> column & 1 || (dirty && before[t] & 0xffff),
                           high = whole_row || columns >> (column + 1) & 1 || (dirty && before[t] >> 16);
                result[i][t] = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
            } else {
                result[i][t] = whole_row || columns >> (column + (i & 1)) & 1 || (dirty && before[t]) ? ~0u : 0;
            }
        }
    }
    for (uint32_t i = 0; i < d_registers; ++i) {
        if (slots[i] == kSinkSlot) continue;
        std::memcpy(d.at<uint32_t>(x, slots[i]), result[i], sizeof result[i]);
        d.refresh(x, slots[i], 32);
        d.set_origin(x, slots[i], origin);
    }
}

// Operands that decide: descriptors, scale-d. What A's registers and D hold matters when the operation completes.
void wgmma_issued(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask) {
    for (const Use& u : uses_of(x, info)) {
        if (u.role == UseRole::kDestination || !d.dirty(x, u.slot)) continue;
        if (u.slot != in.slot[0] && u.slot != in.slot[1] && u.slot != in.slot[2]) continue;
        if (d.undefined_lanes(x, u.slot, u.bits) & mask)
            d.report(x, 0, "undefined-operand", "a descriptor or scale-d is undefined", u.slot);
    }
}
// The values are looked at when they move: Definedness::tmem_load, tmem_store.
void tmem_access(Definedness& d, Exec& x, const Insn&, const ShadowInfo& info, uint32_t mask) {
    check_addresses(d, x, info, mask);
}
void nothing(Definedness&, Exec&, const Insn&, const ShadowInfo&, uint32_t) {}

const ShadowRow kRows[] = {
    {"(ld|ldu).**", load, false, access_data},
    {"st.async.**", decide, true},
    {"st.bulk.**", store_bulk, true},
    {"st.**", store, true, access_data},
    {"red.async.**", decide, true},
    {"(atom|red).**", atomic, true, access_data},
    {"call.results", call},
    {"call", call_builtin, true},
    {"call.indirect", call_indirect, true},
    {"mbarrier.init.**", mbarrier_init, true},
    {"cp.async.**", decide, true},
    {"cp.reduce.**", decide, true},
    {"ldmatrix.**", ldmatrix},
    {"stmatrix.**", stmatrix, true},
    {"mma.**", mma},
    {"wgmma.mma_async.**", wgmma_issued, true},
    {"wgmma.**", nothing, true},
    {"tcgen05.(ld|st).**", tmem_access},
    {"tcgen05.**", decide, true},
    {"(prefetch|prefetchu|applypriority|discard).**", nothing},
    {"tensormap.replace.**", tensormap_replace, true},
    {"tensormap.cp_fenceproxy.**", tensormap_copy, true},
};

}   // namespace

std::span<const ShadowRow> shadow_rows_memory() { return kRows; }

// ---- Tensor Memory ----

void Definedness::tmem_allocated(uint32_t column, uint32_t columns) {
    if (tmem_.empty()) tmem_.assign(static_cast<size_t>(Tmem::kLanes) * Tmem::kColumns, ~0u);
    for (int l = 0; l < Tmem::kLanes; ++l) std::fill_n(tmem_lane(l) + column, columns, ~0u);
}
void Definedness::tmem_address_stored(uint32_t shared_offset) { std::memset(shared(shared_offset), 0, 4); }

void Definedness::tmem_load(Exec& x, TmemShape shape, int num, bool packed, int split, int lane, uint32_t column,
                            const uint32_t* slots, uint32_t mask) {
    const int registers_per_lane = tmem_registers(shape, num);
    for (int i = 0; i < registers_per_lane; ++i) {
        if (slots[i] == kSinkSlot) continue;
        uint32_t* to = at<uint32_t>(x, slots[i]);
        uint32_t some = 0;
        for (int t = 0; t < kLanes; ++t) {
            if (!(mask >> t & 1)) continue;
            int l, c;
            tmem_cell(shape, t, i, split, &l, &c);
            const uint32_t* row = tmem_lane(lane + l) + column;
            to[t] = packed ? (row[2 * c] & 0xffff) | row[2 * c + 1] << 16 : row[c];
            some |= to[t];
        }
        if (some == 0 && mask == kFullMask) {
            set_dirty(x, slots[i], false);
            continue;
        }
        refresh(x, slots[i], 32);
        set_origin(x, slots[i], x.pc);
    }
}

void Definedness::tmem_store(TmemShape shape, int num, bool packed, int split, int lane, uint32_t column,
                             const uint32_t* undefined, uint32_t mask) {
    const int registers_per_lane = tmem_registers(shape, num);
    for (int i = 0; i < registers_per_lane; ++i) {
        for (int t = 0; t < kLanes; ++t) {
            if (!(mask >> t & 1)) continue;
            int l, c;
            tmem_cell(shape, t, i, split, &l, &c);
            uint32_t* row = tmem_lane(lane + l) + column;
            const uint32_t v = undefined[i * kLanes + t];
            if (packed) {
                row[2 * c] = v & 0xffff;
                row[2 * c + 1] = v >> 16;
            } else {
                row[c] = v;
            }
        }
    }
}

// ---- asynchronous copies ----

void Definedness::copied(Exec& x, const AsyncOp& op) {
    auto global = [&](uint64_t address, uint64_t bytes) { return allocation_at(x, address, bytes); };
    auto stored = [&](const uint8_t* bits, uint64_t address, uint64_t bytes) {
        const uint8_t* bad = std::find_if(bits, bits + bytes, [](uint8_t b) { return b != 0; });
        if (bad == bits + bytes) return;
        report(x, op.lane, "undefined-store", "an undefined byte of shared memory is stored to global memory",
               kSinkSlot, address + static_cast<uint64_t>(bad - bits), 1);
    };
    const bool tensor = op.kind == AsyncKind::kTensorLoad || op.kind == AsyncKind::kTensorStore ||
                        op.kind == AsyncKind::kTensorReduce;
    const uint64_t extent = tensor ? 0 : op.bytes;
    if (op.kind == AsyncKind::kGlobalAsync) {   // undefined values were reported when it was issued
        const Allocation* a = global(op.global, op.bytes);
        if (a && a->written && op.reduction == ~0ull) set_written(a->written, op.global - a->base, op.bytes);
        return;
    }
    uint8_t* const place = shared_shadow(x, op.shared, extent);
    if (!place) return;
    Cta& cta = *x.cta->cluster->ctas[op.shared >> kRankShift];
    Definedness& owner = *cta.definedness;
    const uint32_t offset = op.shared - cta.shared_base;
    switch (op.kind) {
        case AsyncKind::kTensorLoad: {
            // The same copy of the shadows. What is filled in is defined, and rounding moves no bits.
            TensorMapArgs map = *op.map;
            map.oob_fill = 0;
            if (map.data_type == 11 || map.data_type == 12) map.data_type = 7;   // TF32 as FLOAT32
            uint8_t row[4096] = {};
            TmaAccess access;
            access.read = [&](uint64_t address, uint64_t bytes) -> const uint8_t* {
                const Allocation* a = global(address, bytes);
                if (!a || bytes > sizeof row) return nullptr;
                if (a->written) unwritten_bytes(a->written, address - a->base, bytes, row);
                return row;
            };
            tma_load(map, op.coords, owner.shared(0), owner.shared_bytes(), offset, access);
            break;
        }
        case AsyncKind::kTensorStore:
        case AsyncKind::kTensorReduce: {
            uint8_t row[4096] = {};
            uint64_t row_address = 0, row_bytes = 0;
            TmaAccess access;
            access.write = [&](uint64_t address, uint64_t bytes) -> uint8_t* {
                const Allocation* a = global(address, bytes);
                if (!a || bytes > sizeof row) return nullptr;
                stored(row, row_address, row_bytes);
                if (a->written) set_written(a->written, address - a->base, bytes);
                row_address = address;
                row_bytes = bytes;
                return row;
            };
            TensorMapArgs map = *op.map;
            tma_store(map, op.coords, owner.shared(0), owner.shared_bytes(), offset, access);
            stored(row, row_address, row_bytes);
            break;
        }
        case AsyncKind::kBulkLoad:
        case AsyncKind::kCopy: {
            const uint32_t bytes = op.kind == AsyncKind::kCopy ? op.source_bytes : op.bytes;
            std::memset(place, 0, op.bytes);
            if (bytes == 0) break;
            const Allocation* a = global(op.global, bytes);
            if (a && a->written) unwritten_bytes(a->written, op.global - a->base, bytes, place);
            break;
        }
        case AsyncKind::kBulkSharedCopy:
            if (const uint8_t* from = shared_shadow(x, op.source_bytes, op.bytes)) std::memmove(place, from, op.bytes);
            break;
        case AsyncKind::kBulkSharedReduce:
            if (const uint8_t* from = shared_shadow(x, op.source_bytes, op.bytes))
                for (uint32_t i = 0; i < op.bytes; ++i) place[i] |= from[i];
            break;
        case AsyncKind::kCancel: std::memset(place, 0, op.bytes); break;
        case AsyncKind::kStoreAsync:
            if (op.reduction == ~0ull) std::memset(place, 0, op.bytes);
            break;
        case AsyncKind::kBulkStore:
        case AsyncKind::kBulkReduce: {
            if (op.bytes == 0) break;
            const Allocation* a = global(op.global, op.bytes);
            stored(place, op.global, op.bytes);
            if (a && a->written) set_written(a->written, op.global - a->base, op.bytes);
            break;
        }
        default: break;
    }
}

// ---- the tensor core ----

namespace {

// Rows of an operand with an undefined byte. codes: [rows][32] shadow bytes.
std::vector<uint8_t> tainted_rows(const std::vector<uint8_t>& codes, int rows) {
    std::vector<uint8_t> bad(static_cast<size_t>(rows));
    for (int r = 0; r < rows; ++r) {
        uint64_t word[4];
        std::memcpy(word, codes.data() + r * 32, 32);
        bad[static_cast<size_t>(r)] = (word[0] | word[1] | word[2] | word[3]) != 0;
    }
    return bad;
}
bool some(const std::vector<uint8_t>& v) {
    return std::any_of(v.begin(), v.end(), [](uint8_t b) { return b != 0; });
}

}   // namespace

void Definedness::multiplied(Exec& x, const AsyncOp& op) {
    const int group = static_cast<int>(op.cta_group);
    InstrDescriptor desc;
    if (!decode_instr_descriptor(op.instr_descriptor, static_cast<MmaKind>(op.mma_kind), group, &desc).empty()) return;
    // Each CTA of a pair has its part of A, B and D.
    Definedness* parts[2] = {this, this};
    if (group == 2) {
        for (uint32_t i = 0; i < 2; ++i) parts[i] = x.cta->cluster->ctas[(x.cta->rank & ~1u) + i]->definedness.get();
        if (!parts[0] || !parts[1]) return;
    }
    const int bytes = static_cast<MmaKind>(op.mma_kind) == MmaKind::kF16 ? 2 : 1;   // of an MN-major element
    const auto gather = [bytes](Definedness& d, uint64_t bits, int rows, bool mn_major, std::vector<uint8_t>& codes) {
        const size_t begin = codes.size();
        codes.resize(begin + static_cast<size_t>(rows) * 32);
        SmemDescriptor smem;
        if (!decode_smem_descriptor(bits, true, &smem).empty()) return;
        uint8_t* out = codes.data() + begin;
        if (mn_major && bytes == 2) {
            for (int row = 0; row < rows; ++row) {
                for (int k = 0; k < 16; ++k) {
                    const uint32_t address = mn_major_address(smem, bytes, row, k);
                    if (address + 2 <= d.shared_bytes())
                        std::memcpy(out + row * 32 + k * 2, d.shared_.data() + address, 2);
                }
            }
        } else if (mn_major) gather_operand_mn(smem, d.shared_.data(), d.shared_bytes(), rows, 32, out);
        else gather_operand(smem, d.shared_.data(), d.shared_bytes(), rows, 32, out);
    };
    const uint32_t column = op.tmem & 0xffff, start_lane = op.tmem >> 16;
    std::vector<uint8_t> a, b;
    for (int part = 0; part < group; ++part) {
        Definedness& d = *parts[part];
        const int rows = desc.m / group;
        if (op.a_in_tmem) {
            for (int m = 0; m < rows; ++m) {
                int lane, c;
                tmem_d_cell(rows, 1, m, 0, desc.n, &lane, &c);
                const auto* cells = reinterpret_cast<const uint8_t*>(
                    d.tmem_lane(lane + static_cast<int>(op.tmem_a >> 16)) + (op.tmem_a & 0xffff));
                a.insert(a.end(), cells, cells + 32);
            }
        } else {
            gather(d, op.descriptor_a, rows, desc.transpose_a, a);
        }
        gather(d, op.descriptor_b, desc.n / group, desc.transpose_b, b);
    }
    const std::vector<uint8_t> rows = tainted_rows(a, desc.m), columns = tainted_rows(b, desc.n);
    const bool any_column = some(columns);
    if (op.accumulate && !any_column && !some(rows)) return;   // D stays as defined as it was
    const int run = group == 2 && desc.m == 128 ? desc.n / 2 : desc.n;   // columns of a row that lie in one lane
    for (int m = 0; m < desc.m; ++m) {
        for (int n = 0; n < desc.n; n += run) {
            int lane, c;
            const int part = tmem_d_cell(desc.m, group, m, n, desc.n, &lane, &c);
            lane += static_cast<int>(start_lane);
            if (op.disable[part * 4 + lane / 32] >> (lane % 32) & 1) continue;
            uint32_t* cells = parts[part]->tmem_lane(lane) + column + c;
            if (rows[static_cast<size_t>(m)]) std::fill_n(cells, run, ~0u);
            else if (!op.accumulate) std::fill_n(cells, run, 0u);
            if (any_column)
                for (int i = 0; i < run; ++i)
                    if (columns[static_cast<size_t>(n + i)]) cells[i] = ~0u;
        }
    }
}

// The warp's sixteen rows; registers and descriptors as complete_wgmma() has them.
void Definedness::multiplied_wgmma(Exec& x, const AsyncOp& op) {
    const int n = static_cast<int>(op.instr_descriptor & 0xfff);
    const auto format = static_cast<Format>(op.instr_descriptor >> 12 & 15);
    const bool f16 = (op.instr_descriptor >> 20 & 15) == 0, a_registers = op.instr_descriptor >> 24 & 1;
    const int bytes = format == Format::kTf32 ? 4 : format == Format::kF16 || format == Format::kBf16 ? 2 : 1;
    const size_t d_registers = static_cast<size_t>(f16 ? n / 4 : n / 2);
    auto operand = [&](uint64_t bits, int first, int count, bool mn_major) {
        std::vector<uint8_t> codes(static_cast<size_t>(count) * 32);
        SmemDescriptor smem;
        decode_smem_descriptor(bits, false, &smem);
        const int step = mn_major ? bytes : 4;
        for (int r = 0; r < count; ++r) {
            for (int k = 0; k < 32; k += step) {
                const uint32_t address = mn_major ? mn_major_address(smem, bytes, first + r, k / bytes)
                                                  : smem_operand_address(smem, first + r, k);
                if (address + static_cast<uint32_t>(step) > shared_bytes()) continue;
                std::memcpy(codes.data() + r * 32 + k, shared(address), static_cast<size_t>(step));
            }
        }
        return tainted_rows(codes, count);
    };
    uint32_t origin_pc = op.pc;
    std::vector<uint8_t> rows(16);
    if (a_registers) {
        for (uint32_t r = 0; r < 4; ++r) {
            const uint32_t lanes = undefined_lanes(x, op.payload[d_registers + r], 32);
            if (lanes != 0) origin_pc = origin(x, op.payload[d_registers + r]);
            for (int t = 0; t < kLanes; ++t)
                if (lanes >> t & 1) rows[static_cast<size_t>(t / 4) + 8 * (r & 1)] = 1;
        }
    } else {
        rows = operand(op.descriptor_a, static_cast<int>(op.warp % 4) * 16, 16, op.source_bytes & 4);
    }
    const std::vector<uint8_t> columns = operand(op.descriptor_b, 0, n, op.source_bytes & 8);
    const bool clean = !some(rows) && !some(columns);
    for (size_t r = 0; r < d_registers; ++r) {
        const uint32_t slot = op.payload[r];
        if (slot == kSinkSlot || (clean && op.accumulate)) continue;
        if (clean) {
            set_lanes(x, slot, 32, kFullMask, 0);
            continue;
        }
        uint32_t* to = at<uint32_t>(x, slot);
        for (int t = 0; t < kLanes; ++t) {
            uint32_t bits = op.accumulate ? to[t] : 0;
            for (int half = 0; half < (f16 ? 2 : 1); ++half) {
                const int i = f16 ? static_cast<int>(2 * r) + half : static_cast<int>(r);
                const int row = t / 4 + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
                if (rows[static_cast<size_t>(row)] || columns[static_cast<size_t>(column)])
                    bits |= f16 ? 0xffffu << (16 * half) : ~0u;
            }
            to[t] = bits;
        }
        const bool was = dirty(x, slot) && op.accumulate;
        refresh(x, slot, 32);
        if (!was) set_origin(x, slot, origin_pc);
    }
}

}   // namespace ptxemu

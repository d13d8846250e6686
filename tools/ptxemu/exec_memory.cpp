// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics, address conversion (PTX ISA 9.7.9, 9.7.13.6-9). Every access is checked.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>

#include "atomics.h"
#include "checker.h"
#include "half.h"
#include "hex.h"
#include "isa.h"
#include "warp.h"

namespace ptxemu {
namespace {

[[noreturn]] void misaligned(const Exec& x, const char* space, int lane, uint64_t address, uint64_t bytes,
                             uint32_t align) {
    fault_at(x, RunStatus::kMisaligned, lane, space, address, bytes,
             "address " + hex(address) + " is not a multiple of " + std::to_string(align));
}

uint8_t* local_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align) {
    const uint64_t size = x.program->local_bytes;
    if (address > size || bytes > size - address) {
        fault_at(x, RunStatus::kIllegalAddress, lane, "local", address, bytes,
              "local address " + hex(address) + " of " + std::to_string(bytes) + " bytes is outside the " +
                  std::to_string(size) + " bytes of the thread");
    }
    if (address & (align - 1)) misaligned(x, "local", lane, address, bytes, align);
    return x.warp->local + static_cast<size_t>(lane) * size + address;
}

const uint8_t* param_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align, bool write) {
    if (address >= kParamLocalBase) return local_at(x, lane, address - kParamLocalBase, bytes, align);
    const auto& params = x.cta->launch->params;
    if (address > params.size() || bytes > params.size() - address) {
        fault_at(x, RunStatus::kIllegalAddress, lane, "parameters", address, bytes,
              "parameter address " + hex(address) + " of " + std::to_string(bytes) + " bytes is outside the " +
                  std::to_string(params.size()) + " bytes of parameters");
    }
    if (write) fault(RunStatus::kIllegalAddress, lane, "kernel parameters cannot be written");
    if (address & (align - 1)) misaligned(x, "parameters", lane, address, bytes, align);
    return params.data() + address;
}

// "CTA's 0x400..0x440 (64 bytes static, 0 dynamic)"
std::string shared_window(const Cta& cta) {
    return "CTA's " + hex(cta.shared_base + kSharedBase) + ".." + hex(cta.shared_base + cta.shared_bytes) + " (" +
           std::to_string(cta.program->static_shared_bytes) + " bytes static, " +
           std::to_string(cta.launch->dynamic_shared_bytes) + " dynamic)";
}

}   // namespace

uint8_t* shared_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align) {
    const uint64_t offset = address - x.cta->shared_base, end = x.cta->shared_bytes;
    if (offset < kSharedBase || offset > end || bytes > end - offset) {
        std::string why = "shared address " + hex(address) + " of " + std::to_string(bytes) + " bytes is outside the ";
        const uint64_t rank = address >> kRankShift;
        if (rank != x.cta->rank && rank < x.cta->cluster->ctas.size()) {
            why += "executing CTA, of rank " + std::to_string(x.cta->rank) + ": it is of the CTA of rank " +
                   std::to_string(rank) + ", which .shared::cta does not reach";
        } else {
            why += shared_window(*x.cta);
        }
        fault_at(x, RunStatus::kIllegalAddress, lane, "shared", address, bytes, why);
    }
    if (address & (align - 1)) misaligned(x, "shared", lane, address, bytes, align);
    return x.cta->shared.data() + offset;
}

Cta& cta_of(Exec& x, int lane, uint64_t address) {
    const uint64_t rank = address >> kRankShift;
    const auto& ctas = x.cta->cluster->ctas;
    if (rank >= ctas.size()) {
        fault(RunStatus::kIllegalAddress, lane,
              "shared address " + hex(address) + " is of a CTA of rank " + std::to_string(rank) +
                  ", outside the cluster of " + std::to_string(ctas.size()) + (ctas.size() == 1 ? " CTA" : " CTAs"));
    }
    return *ctas[rank];
}

uint8_t* cluster_shared_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align) {
    Cta& cta = cta_of(x, lane, address);
    const uint64_t offset = address - cta.shared_base, end = cta.shared_bytes;
    if (offset < kSharedBase || offset > end || bytes > end - offset) {
        fault_at(x, RunStatus::kIllegalAddress, lane, "shared", address, bytes,
                 "shared address " + hex(address) + " of " + std::to_string(bytes) + " bytes is outside the " +
                     shared_window(cta));
    }
    if (cta.exited()) {
        fault_at(x, RunStatus::kIllegalAddress, lane, "shared", address, bytes,
              "shared address " + hex(address) + " is of the CTA of rank " + std::to_string(cta.rank) +
                  " of the cluster, which has exited");
    }
    if (address & (align - 1)) misaligned(x, "shared", lane, address, bytes, align);
    return cta.shared.data() + offset;
}

uint8_t* global_at(Exec& x, int lane, uint64_t address, uint64_t bytes, uint32_t align, bool write) {
    Allocation& cached = x.warp->cached;
    if (!cached.contains(address, bytes)) {
        const Allocation found = x.memory->find(address, bytes);
        if (found.bytes == 0) {
            fault_at(x, RunStatus::kIllegalAddress, lane, "global", address, bytes,
                     std::string("global ") + (write ? "write" : "read") + " of " + std::to_string(bytes) +
                         " bytes at address " + hex(address) + " is outside every allocation");
        }
        cached = found;
    }
    if (address & (align - 1)) misaligned(x, "global", lane, address, bytes, align);
    return reinterpret_cast<uint8_t*>(address);
}

uint8_t* generic_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align, bool write) {
    switch (address >> kWindowShift) {
        case 0: return global_at(x, lane, address, bytes, align, write);
        case 1: return cluster_shared_at(x, lane, address & kWindowMask, bytes, align);
        case 2: return local_at(x, lane, address & kWindowMask, bytes, align);
        case 3: return const_cast<uint8_t*>(param_at(x, lane, address & kWindowMask, bytes, align, write));
        default: fault(RunStatus::kIllegalAddress, lane, "address " + hex(address) + " is outside the address space");
    }
}

uint32_t shared_address(Exec&, int lane, uint64_t address, const char* what) {
    if (address >> kWindowShift == 1) address &= kWindowMask;
    if (address >> 32)
        fault(RunStatus::kIllegalAddress, lane, std::string(what) + " " + hex(address) + " is not in shared memory");
    return static_cast<uint32_t>(address);
}

uint32_t own_shared_address(Exec& x, int lane, uint64_t address, const char* what) {
    const uint32_t a = shared_address(x, lane, address, what);
    if (a >> kRankShift != x.cta->rank && a >> kRankShift < x.cta->cluster->ctas.size()) {
        fault(RunStatus::kIllegalAddress, lane,
              std::string(what) + " " + hex(address) + " is of the CTA of rank " + std::to_string(a >> kRankShift) +
                  ", but it must be of the executing CTA, of rank " + std::to_string(x.cta->rank));
    }
    return a;
}

uint64_t* mbarrier_at(Exec& x, int lane, uint64_t address) {
    const uint32_t a = shared_address(x, lane, address, "mbarrier address");
    return reinterpret_cast<uint64_t*>(cluster_shared_at(x, lane, a, 8, 8));
}

uint32_t cta_mask_at(Exec& x, int lane, uint32_t mask) {
    mask &= 0xffff;
    const uint32_t ctas = static_cast<uint32_t>(x.cta->cluster->ctas.size());
    if (mask == 0) fault(RunStatus::kIllegalInstruction, lane, "the ctaMask names no CTA");
    if (mask >> ctas != 0) {
        fault(RunStatus::kIllegalInstruction, lane,
              "ctaMask " + hex(mask) + " names a CTA outside the cluster of " + std::to_string(ctas));
    }
    return mask;
}

uint64_t lane_address(const Exec& x, const Insn& in, int i, int lane) {
    if (in.flags & kAddress64) return x.at<uint64_t>(in.slot[i])[lane] + in.imm;
    return static_cast<uint32_t>(x.at<uint32_t>(in.slot[i])[lane] + static_cast<uint32_t>(in.imm));
}

uint64_t listed_address(const Exec& x, uint32_t at, int lane) {
    const uint32_t* place = x.lists + at;
    const uint64_t offset = place[2] | static_cast<uint64_t>(place[3]) << 32;
    if (place[1]) return x.at<uint64_t>(place[0])[lane] + offset;
    return static_cast<uint32_t>(x.at<uint32_t>(place[0])[lane] + static_cast<uint32_t>(offset));
}

namespace {

constexpr uint64_t kMaxBulkStoreBytes = 16777216;   // PTX ISA 9.7.9.13

enum class Where : uint8_t { kGlobal, kShared, kCluster, kLocal, kParam, kGeneric };

template <Where kWhere>
[[gnu::always_inline]] inline uint8_t* place(Exec& x, int lane, uint64_t address, uint32_t bytes, bool write) {
    if constexpr (kWhere == Where::kGlobal) {
        const Allocation& cached = x.warp->cached;
        if (cached.contains(address, bytes) && !(address & (bytes - 1))) [[likely]]
            return reinterpret_cast<uint8_t*>(address);
        return global_at(x, lane, address, bytes, bytes, write);
    } else if constexpr (kWhere == Where::kShared) {
        return shared_at(x, lane, address, bytes, bytes);
    } else if constexpr (kWhere == Where::kCluster) {
        return cluster_shared_at(x, lane, address, bytes, bytes);
    } else if constexpr (kWhere == Where::kLocal) {
        return local_at(x, lane, address, bytes, bytes);
    } else if constexpr (kWhere == Where::kParam) {
        return const_cast<uint8_t*>(param_at(x, lane, address, bytes, bytes, write));
    } else {
        return generic_at(x, lane, address, bytes, bytes, write);
    }
}

// What a memory operation orders, in Insn::flags: Semantics (kAlternate to kAlternate3), Scope, Atomicity.
constexpr int kSemanticsShift = 14, kScopeShift = 18, kAtomicityShift = 20;
Strength strength_of(const Insn& in) {
    return {static_cast<Semantics>(in.flags >> kSemanticsShift & 7), static_cast<Scope>(in.flags >> kScopeShift & 3),
            static_cast<Atomicity>(in.flags >> kAtomicityShift & 3)};
}
void encode_semantics(const Match& m, Insn& out, Semantics otherwise) {
    Semantics s = otherwise;
    if (m.has("volatile") || m.has("relaxed") || m.has("mmio")) s = Semantics::kRelaxed;
    if (m.has("acquire")) s = Semantics::kAcquire;
    if (m.has("release")) s = Semantics::kRelease;
    if (m.has("acq_rel")) s = Semantics::kAcqRel;
    const Scope scope = m.has("cta") ? Scope::kCta : m.has("cluster") ? Scope::kCluster : Scope::kGpu;
    const Atomicity atomicity = m.words[0] == "atom"  ? Atomicity::kAtomic
                                : m.words[0] == "red" ? Atomicity::kReduction
                                                      : Atomicity::kNone;
    out.flags |= static_cast<uint32_t>(s) << kSemanticsShift | static_cast<uint32_t>(scope) << kScopeShift |
                 static_cast<uint32_t>(atomicity) << kAtomicityShift;
}

// Accesses of one instruction for the checker. stored (stores only): what each lane is about to write.
[[gnu::noinline]] void tell_access(Exec& x, const Insn& in, uint32_t mask, const uint64_t* at, uint32_t bytes,
                                   Where where, bool write, const uint8_t* stored = nullptr) {
    if (where == Where::kLocal || where == Where::kParam) return;
    const MemorySpace space = where == Where::kGlobal    ? MemorySpace::kGlobal
                              : where == Where::kGeneric ? MemorySpace::kGeneric
                                                         : MemorySpace::kShared;
    uint32_t same = 0;
    if (stored) {
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            const void* there = reinterpret_cast<const void*>(at[l]);
            if (space == MemorySpace::kShared || at[l] >> kWindowShift == 1) {
                const uint32_t a = static_cast<uint32_t>(at[l] & kWindowMask);
                const Cta& cta = cta_of(x, l, a);
                there = cta.shared.data() + (a - cta.shared_base);
            } else if (at[l] >> kWindowShift != 0) {
                continue;
            }
            if (std::memcmp(there, stored + static_cast<size_t>(l) * bytes, bytes) == 0) same |= 1u << l;
        }
    }
    x.checker->data(x, mask, at, bytes, space, write, strength_of(in), same);
}

void addresses(const Exec& x, const Insn& in, int slot, uint64_t* out) {
    if (in.flags & kAddress64) {
        const uint64_t* a = x.at<uint64_t>(in.slot[slot]);
        for (int l = 0; l < kLanes; ++l) out[l] = a[l] + in.imm;
    } else {
        const uint32_t* a = x.at<uint32_t>(in.slot[slot]);
        const uint32_t offset = static_cast<uint32_t>(in.imm);
        for (int l = 0; l < kLanes; ++l) out[l] = a[l] + offset;
    }
}

// The same where the addresses have not been checked yet.
template <Where kWhere>
[[gnu::noinline]] void tell_checked(Exec& x, const Insn& in, uint32_t mask, const uint64_t* at, uint32_t bytes,
                                    bool write, const uint8_t* stored) {
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) place<kWhere>(x, l, at[l], bytes, write);
    tell_access(x, in, mask, at, bytes, kWhere, write, stored);
}

// ld: slot[0] address, list: destinations. Raw: the element in memory; Reg: the register's storage.
template <Where kWhere, class Raw, class Reg, int kCount>
bool exec_load(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t at[kLanes];
    addresses(x, in, 0, at);
    constexpr uint32_t kBytes = sizeof(Raw) * kCount;
    const uint32_t* list = x.lists + in.list;
    Reg* d[kCount];
    for (int i = 0; i < kCount; ++i) d[i] = x.at<Reg>(list[i]);
    const uint32_t keep = in.aux;   // 16-bit registers: 0xffff
    const uint8_t* p[kLanes];
    for (int l = 0; l < kLanes; ++l) p[l] = mask >> l & 1 ? place<kWhere>(x, l, at[l], kBytes, false) : nullptr;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        Raw value[kCount];
        std::memcpy(value, p[l], kBytes);
        for (int i = 0; i < kCount; ++i) {
            if constexpr (sizeof(Reg) == 4) d[i][l] = static_cast<uint32_t>(value[i]) & keep;
            else d[i][l] = static_cast<Reg>(value[i]);
        }
    }
    // Afterwards: whoever stored the value has told of its release before.
    if (x.checker) [[unlikely]] tell_access(x, in, mask, at, kBytes, kWhere, false);
    return true;
}

// 128-bit elements: registers of two 64-bit halves.
template <Where kWhere, int kCount>
bool exec_load128(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t at[kLanes];
    addresses(x, in, 0, at);
    if (x.checker) [[unlikely]] tell_checked<kWhere>(x, in, mask, at, 16 * kCount, false, nullptr);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint8_t* p = place<kWhere>(x, l, at[l], 16 * kCount, false);
        for (int i = 0; i < kCount; ++i) {
            uint64_t* d = x.at<uint64_t>(x.lists[in.list + i]);
            std::memcpy(d + l, p + 16 * i, 8);
            std::memcpy(d + kLanes + l, p + 16 * i + 8, 8);
        }
    }
    return true;
}

template <Where kWhere, class Raw, class Reg, int kCount>
bool exec_store(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t at[kLanes];
    addresses(x, in, 0, at);
    constexpr uint32_t kBytes = sizeof(Raw) * kCount;
    const uint32_t* list = x.lists + in.list;
    const Reg* s[kCount];
    for (int i = 0; i < kCount; ++i) s[i] = x.at<Reg>(list[i]);
    if (x.checker) [[unlikely]] {
        Raw stored[kLanes][kCount];
        for (int l = 0; l < kLanes; ++l)
            for (int i = 0; i < kCount; ++i) stored[l][i] = static_cast<Raw>(s[i][l]);
        tell_checked<kWhere>(x, in, mask, at, kBytes, true, reinterpret_cast<const uint8_t*>(stored));
    }
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        Raw value[kCount];
        for (int i = 0; i < kCount; ++i) value[i] = static_cast<Raw>(s[i][l]);
        std::memcpy(place<kWhere>(x, l, at[l], kBytes, true), value, kBytes);
    }
    return true;
}

template <Where kWhere, int kCount>
bool exec_store128(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t at[kLanes];
    addresses(x, in, 0, at);
    if (x.checker) [[unlikely]] tell_checked<kWhere>(x, in, mask, at, 16 * kCount, true, nullptr);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        uint8_t* p = place<kWhere>(x, l, at[l], 16 * kCount, true);
        for (int i = 0; i < kCount; ++i) {
            const uint64_t* s = x.at<uint64_t>(x.lists[in.list + i]);
            std::memcpy(p + 16 * i, s + l, 8);
            std::memcpy(p + 16 * i + 8, s + kLanes + l, 8);
        }
    }
    return true;
}

// st.bulk: zeros. slot: 0 address, 1 size (flags kWideOperand: 64 bits).
bool exec_store_bulk(Exec& x, const Insn& in, uint32_t mask) {
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t bytes = in.flags & kWideOperand ? x.at<uint64_t>(in.slot[1])[l] : x.at<uint32_t>(in.slot[1])[l];
        if (bytes % 8 != 0 || bytes > kMaxBulkStoreBytes) {
            fault(RunStatus::kIllegalInstruction, l,
                  "size " + std::to_string(bytes) + " is not a multiple of 8 up to " +
                      std::to_string(kMaxBulkStoreBytes));
        }
        const uint32_t address = own_shared_address(x, l, lane_address(x, in, 0, l), "address");
        std::memset(shared_at(x, l, address, static_cast<uint32_t>(bytes), 8), 0, bytes);
    }
    return true;
}
void encode_store_bulk(Decoder& d, const Match&, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 3) d.fail("it has another number of operands");
    d.address(ir.operands[0], out, 0);
    int bits = 64;
    out.slot[1] = d.any_source(ir.operands[1], &bits);
    if (bits == 64) out.flags |= kWideOperand;
    if (d.immediate(ir.operands[2]) != 0) d.fail("the initial value must be 0");
}

struct Element {
    int bytes;
    bool is_signed;
};
Element element_of(const Match& m) {
    static constexpr std::string_view kWords[] = {"b8",   "u8",  "s8",   "b16",   "u16",   "s16", "f16",
                                                  "bf16", "b32", "u32",  "s32",   "f32",   "b64", "u64",
                                                  "s64",  "f64", "b128", "f16x2", "bf16x2"};
    static constexpr Element kElements[] = {{1, false}, {1, false},  {1, true},  {2, false}, {2, false},
                                            {2, true},  {2, false},  {2, false}, {4, false}, {4, false},
                                            {4, true},  {4, false},  {8, false}, {8, false}, {8, true},
                                            {8, false}, {16, false}, {4, false}, {4, false}};
    for (size_t i = 0; i < std::size(kWords); ++i)
        if (m.words.back() == kWords[i]) return kElements[i];
    return {0, false};
}

Where where_of(const Match& m) {
    if (m.has("global") || m.has("const")) return Where::kGlobal;
    if (m.has("shared") || m.has("shared::cta")) return Where::kShared;
    if (m.has("shared::cluster")) return Where::kCluster;
    if (m.has("local")) return Where::kLocal;
    if (m.has("param") || m.has("param::entry") || m.has("param::func")) return Where::kParam;
    return Where::kGeneric;
}

template <Where kWhere, class Raw, class Reg>
Handler load_of(int count, bool store) {
    if (store) {
        switch (count) {
            case 1: return exec_store<kWhere, Raw, Reg, 1>;
            case 2: return exec_store<kWhere, Raw, Reg, 2>;
            case 4: return exec_store<kWhere, Raw, Reg, 4>;
            case 8: return exec_store<kWhere, Raw, Reg, 8>;
            default: return nullptr;
        }
    }
    switch (count) {
        case 1: return exec_load<kWhere, Raw, Reg, 1>;
        case 2: return exec_load<kWhere, Raw, Reg, 2>;
        case 4: return exec_load<kWhere, Raw, Reg, 4>;
        case 8: return exec_load<kWhere, Raw, Reg, 8>;
        default: return nullptr;
    }
}

template <Where kWhere>
Handler access_handler(Element e, int reg_bits, int count, bool store) {
    const bool wide = reg_bits == 64;
    if (store) e.is_signed = false;
    switch (e.bytes) {
        case 1:
            if (e.is_signed)
                return wide ? load_of<kWhere, int8_t, uint64_t>(count, store)
                            : load_of<kWhere, int8_t, uint32_t>(count, store);
            return wide ? load_of<kWhere, uint8_t, uint64_t>(count, store)
                        : load_of<kWhere, uint8_t, uint32_t>(count, store);
        case 2:
            if (e.is_signed)
                return wide ? load_of<kWhere, int16_t, uint64_t>(count, store)
                            : load_of<kWhere, int16_t, uint32_t>(count, store);
            return wide ? load_of<kWhere, uint16_t, uint64_t>(count, store)
                        : load_of<kWhere, uint16_t, uint32_t>(count, store);
        case 4:
            if (e.is_signed && wide) return load_of<kWhere, int32_t, uint64_t>(count, store);
            return wide ? load_of<kWhere, uint32_t, uint64_t>(count, store)
                        : load_of<kWhere, uint32_t, uint32_t>(count, store);
        case 8: return wide ? load_of<kWhere, uint64_t, uint64_t>(count, store) : nullptr;
        case 16:
            if (reg_bits != 128) return nullptr;
            if (count == 1) return store ? exec_store128<kWhere, 1> : exec_load128<kWhere, 1>;
            if (count == 2) return store ? exec_store128<kWhere, 2> : exec_load128<kWhere, 2>;
            return nullptr;
        default: return nullptr;
    }
}

Handler access_handler(Where where, Element e, int reg_bits, int count, bool store) {
    switch (where) {
        case Where::kGlobal: return access_handler<Where::kGlobal>(e, reg_bits, count, store);
        case Where::kShared: return access_handler<Where::kShared>(e, reg_bits, count, store);
        case Where::kCluster: return access_handler<Where::kCluster>(e, reg_bits, count, store);
        case Where::kLocal: return access_handler<Where::kLocal>(e, reg_bits, count, store);
        case Where::kParam: return access_handler<Where::kParam>(e, reg_bits, count, store);
        case Where::kGeneric: return access_handler<Where::kGeneric>(e, reg_bits, count, store);
    }
    return nullptr;
}

// Operands of ld and st: values (one or a vector) and an address; a cache policy may follow where the row says so.
// Answers the width of the registers in bits.
int encode_access(Decoder& d, const Match& m, const Instruction& ir, Insn& out, bool store) {
    const size_t want = m.has("L2::cache_hint") ? 3 : 2;
    if (ir.operands.size() != want && !(want == 2 && ir.operands.size() == 3 && m.has("unified"))) {
        d.fail("it has " + std::to_string(ir.operands.size()) + " operands where " + std::to_string(want) +
               " are expected");
    }
    const Operand& value = ir.operands[store ? 1 : 0];
    const Operand& where = ir.operands[store ? 0 : 1];
    const Element e = element_of(m);
    const int count = m.has("v2") ? 2 : m.has("v4") ? 4 : m.has("v8") ? 8 : 1;
    std::vector<const Operand*> parts;
    if (count == 1 && value.kind != Operand::Kind::kVector) parts.push_back(&value);
    else if (value.kind == Operand::Kind::kVector)
        for (const auto& p : value.elements) parts.push_back(&p);
    if (parts.size() != static_cast<size_t>(count)) d.fail("the vector has another number of elements");
    int reg_bits = 0, sized = e.bytes * 8;
    std::vector<uint32_t> slots;
    bool narrow = false;
    for (const Operand* p : parts) {
        int bits = e.bytes <= 4 ? 32 : e.bytes * 8;
        if (store) {
            slots.push_back(d.any_source(*p, &bits));
        } else {
            if (p->kind == Operand::Kind::kSink) bits = 0;
            slots.push_back(d.any_destination(*p, &bits));
        }
        if (bits == 0) continue;
        if (bits <= 16) {
            narrow = true;
            if (bits < sized) d.fail("a register is narrower than the type");
            bits = 32;
        }
        if (bits < sized) d.fail("a register is narrower than the type");
        if (reg_bits != 0 && reg_bits != bits) d.fail("the vector mixes register widths");
        reg_bits = bits;
    }
    if (reg_bits == 0) reg_bits = e.bytes <= 4 ? 32 : e.bytes * 8;
    const Where space = where_of(m);
    encode_semantics(m, out, Semantics::kWeak);
    out.handler = access_handler(space, e, reg_bits, count, store);
    if (!out.handler || e.bytes * count > 32) d.fail("this combination of vector, type and register is not supported");
    d.address(where, out, 0);
    out.aux = narrow ? 0xffffu : ~0u;
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
    if (want == 3) d.source(ir.operands[2], 64);
    return reg_bits;
}

constexpr uint64_t kHashFactor = 0x9E3779B97F4A7C15ull;
uint64_t hashed(uint64_t h, uint64_t value) { return (h ^ value) * kHashFactor; }

// A strong load. slot: 1 index into Program::polled, 2 bits of a destination register.
bool exec_polling_load(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t seen = 0;
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) seen = hashed(seen, lane_address(x, in, 0, l));
    x.program->polled[in.slot[1]](x, in, mask);
    for (uint32_t i = 0; i < in.list_count; ++i) {
        const uint32_t slot = x.lists[in.list + i];
        for (int l = 0; l < kLanes; ++l) {
            if (!(mask >> l & 1)) continue;
            seen = hashed(seen, in.slot[2] == 32 ? x.at<uint32_t>(slot)[l] : x.at<uint64_t>(slot)[l]);
            if (in.slot[2] == 128) seen = hashed(seen, x.at<uint64_t>(slot)[l + kLanes]);
        }
    }
    return poll(x, in, mask, seen);
}

void encode_load(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const int reg_bits = encode_access(d, m, ir, out, false);
    if (!m.has("relaxed") && !m.has("acquire") && !m.has("volatile") && !m.has("cv") && !m.has("mmio")) return;
    out.slot[1] = static_cast<uint32_t>(d.program().polled.size());
    out.slot[2] = static_cast<uint32_t>(reg_bits);
    d.program().polled.push_back(out.handler);
    out.handler = exec_polling_load;
}
void encode_store(Decoder& d, const Match& m, const Instruction& ir, Insn& out) { encode_access(d, m, ir, out, true); }

// ---- atomics ----

template <class T>
T apply(AtomOp op, T old, T b, T c, bool is_signed) {
    using S = std::make_signed_t<T>;
    switch (op) {
        case AtomOp::kAdd: return static_cast<T>(old + b);
        case AtomOp::kMin:
            return is_signed ? static_cast<T>(std::min(static_cast<S>(old), static_cast<S>(b))) : std::min(old, b);
        case AtomOp::kMax:
            return is_signed ? static_cast<T>(std::max(static_cast<S>(old), static_cast<S>(b))) : std::max(old, b);
        case AtomOp::kInc: return old >= b ? T(0) : static_cast<T>(old + 1);
        case AtomOp::kDec: return old == 0 || old > b ? b : static_cast<T>(old - 1);
        case AtomOp::kAnd: return old & b;
        case AtomOp::kOr: return old | b;
        case AtomOp::kXor: return old ^ b;
        case AtomOp::kExch: return b;
        case AtomOp::kCas: return old == b ? c : old;
    }
    return old;
}

float add_canonical(float a, float b) {
    const float r = a + b;
    return r != r ? std::bit_cast<float>(0x7fffffffu) : r;
}

template <class T>
T apply_any(AtomOp op, AtomType type, T old, T b, T c, bool is_signed) {
    if (type == AtomType::kInt) return apply<T>(op, old, b, c, is_signed);
    if constexpr (sizeof(T) == 4) {
        if (type == AtomType::kF32) {
            // atom.add.f32 on global memory flushes subnormals on no current target (PTX ISA 9.7.13.5: since sm_20
            // it keeps them in shared memory; global memory is treated alike here).
            return std::bit_cast<uint32_t>(add_canonical(std::bit_cast<float>(old), std::bit_cast<float>(b)));
        }
        if (type == AtomType::kF16x2 || type == AtomType::kBf16x2) {
            uint32_t result = 0;
            for (int i = 0; i < 32; i += 16) {
                const uint16_t x = static_cast<uint16_t>(old >> i), y = static_cast<uint16_t>(b >> i);
                const uint16_t r =
                    type == AtomType::kF16x2 ? half_binary(HalfOp::kAdd, x, y) : bf16_binary(HalfOp::kAdd, x, y);
                const uint16_t lo = type == AtomType::kF16x2
                                        ? half_binary(op == AtomOp::kMin ? HalfOp::kMin : HalfOp::kMax, x, y)
                                        : bf16_binary(op == AtomOp::kMin ? HalfOp::kMin : HalfOp::kMax, x, y);
                result |= static_cast<uint32_t>(op == AtomOp::kAdd ? r : lo) << i;
            }
            return result;
        }
    }
    if constexpr (sizeof(T) == 8) {
        if (type == AtomType::kF64)
            return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
    }
    if constexpr (sizeof(T) == 2) {
        const HalfOp h = op == AtomOp::kAdd ? HalfOp::kAdd : op == AtomOp::kMin ? HalfOp::kMin : HalfOp::kMax;
        return type == AtomType::kF16 ? half_binary(h, old, b) : bf16_binary(h, old, b);
    }
    return old;
}

uint8_t* atomic_place(Exec& x, Where where, int lane, uint64_t address, uint32_t bytes) {
    switch (where) {
        case Where::kShared: return shared_at(x, lane, address, bytes, bytes);
        case Where::kCluster: return cluster_shared_at(x, lane, address, bytes, bytes);
        case Where::kGlobal: return global_at(x, lane, address, bytes, bytes, true);
        default: return generic_at(x, lane, address, bytes, bytes, true);
    }
}

// Under the checks, what an atomic does and what they are told of it happen at once for all host threads: else it could
// read a value and miss the release that came with it. The lock is the caller's until it is done.
[[nodiscard]] std::unique_lock<std::mutex> tell_atomic(Exec& x, const Insn& in, uint32_t mask, Where where,
                                                       uint32_t bytes) {
    static std::mutex atomics;
    std::unique_lock lock(atomics);
    uint64_t at[kLanes];
    addresses(x, in, 0, at);
    for (int l = 0; l < kLanes; ++l)
        if (mask >> l & 1) atomic_place(x, where, l, at[l], bytes);
    tell_access(x, in, mask, at, bytes, where, true);
    return lock;
}

// imm is the address offset; aux: AtomOp | AtomType << 8 | Where << 16 | count << 24; list: destinations, then values b
// (count), then c.
template <class T>
bool exec_atom(Exec& x, const Insn& in, uint32_t mask) {
    using Reg = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const auto op = static_cast<AtomOp>(in.aux & 0xff);
    const auto type = static_cast<AtomType>(in.aux >> 8 & 0xff);
    const auto where = static_cast<Where>(in.aux >> 16 & 0xff);
    const uint32_t count = in.aux >> 24;
    const bool is_signed = in.flags & kSigned;
    const uint32_t* list = x.lists + in.list;
    bool changed = false;
    uint64_t seen = 0;
    std::unique_lock<std::mutex> told;
    if (x.checker) [[unlikely]] told = tell_atomic(x, in, mask, where, sizeof(T) * count);
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        const uint32_t bytes = sizeof(T) * count;
        seen = hashed(seen, address);
        uint8_t* p = atomic_place(x, where, lane, address, bytes);
        for (uint32_t i = 0; i < count; ++i) {
            T* target = reinterpret_cast<T*>(p) + i;
            const T b = static_cast<T>(x.at<Reg>(list[count + i])[lane]);
            const T c = op == AtomOp::kCas ? static_cast<T>(x.at<Reg>(list[2 * count])[lane]) : T(0);
            T old = __atomic_load_n(target, __ATOMIC_SEQ_CST);
            while (true) {
                const T value = apply_any<T>(op, type, old, b, c, is_signed);
                if (!__atomic_compare_exchange_n(target, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                    continue;
                changed |= value != old;
                break;
            }
            x.at<Reg>(list[i])[lane] = old;
            seen = hashed(seen, old);
        }
    }
    if (list[0] == kSinkSlot) return true;
    if (!changed) return poll(x, in, mask, seen);
    x.warp->vain_polls = 0;
    return true;
}

bool exec_atom128(Exec& x, const Insn& in, uint32_t mask) {
    const auto op = static_cast<AtomOp>(in.aux & 0xff);
    const auto where = static_cast<Where>(in.aux >> 16 & 0xff);
    const uint32_t* list = x.lists + in.list;
    std::unique_lock<std::mutex> told;
    if (x.checker) [[unlikely]] told = tell_atomic(x, in, mask, where, 16);
    static std::mutex mutex;   // 16-byte operations of one device exclude each other
    std::lock_guard lock(mutex);
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        uint8_t* p = atomic_place(x, where, lane, address, 16);
        uint64_t old[2], b[2];
        std::memcpy(old, p, 16);
        for (int i = 0; i < 2; ++i) b[i] = x.at<uint64_t>(list[1])[lane + i * kLanes];
        if (op == AtomOp::kExch) {
            std::memcpy(p, b, 16);
        } else if (old[0] == b[0] && old[1] == b[1]) {
            uint64_t c[2];
            for (int i = 0; i < 2; ++i) c[i] = x.at<uint64_t>(list[2])[lane + i * kLanes];
            std::memcpy(p, c, 16);
        }
        for (int i = 0; i < 2; ++i) x.at<uint64_t>(list[0])[lane + i * kLanes] = old[i];
    }
    return true;
}

void encode_atomic(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool returns = m.words[0] == "atom";
    auto once = [&](std::initializer_list<std::string_view> words, const char* what) {
        int n = 0;
        for (const auto& w : m.words) n += std::find(words.begin(), words.end(), w) != words.end() ? 1 : 0;
        if (n > 1) d.fail(std::string("it has two ") + what);
    };
    once({"relaxed", "acquire", "release", "acq_rel"}, "semantics");
    once({"cta", "cluster", "gpu", "sys"}, "scopes");
    once({"global", "shared", "shared::cta", "shared::cluster"}, "spaces");
    const bool hint = m.has("L2::cache_hint");
    const int op = m.one_of({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
    std::string_view t = m.words.back();
    for (size_t i = m.words.size(); t == "noftz" || atom_op_of(t) >= 0; t = m.words[--i - 1]) {
    }   // the operation may stand behind the type
    const size_t sources = op == static_cast<int>(AtomOp::kCas) ? 2 : 1;
    if (ir.operands.size() != (returns ? 1u : 0u) + 1 + sources + (hint ? 1 : 0))
        d.fail("it has another number of operands");
    const bool is_float = t == "f32" || t == "f64" || t == "f16" || t == "bf16" || t == "f16x2" || t == "bf16x2";
    AtomType type = t == "f32"      ? AtomType::kF32
                    : t == "f64"    ? AtomType::kF64
                    : t == "f16"    ? AtomType::kF16
                    : t == "bf16"   ? AtomType::kBf16
                    : t == "f16x2"  ? AtomType::kF16x2
                    : t == "bf16x2" ? AtomType::kBf16x2
                                    : AtomType::kInt;
    const AtomOp o = static_cast<AtomOp>(op);
    const bool bits = t[0] == 'b' && !is_float;
    const bool logic =
        o == AtomOp::kAnd || o == AtomOp::kOr || o == AtomOp::kXor || o == AtomOp::kExch || o == AtomOp::kCas;
    const bool min_max = o == AtomOp::kMin || o == AtomOp::kMax;
    const bool legal = is_float ? (o == AtomOp::kAdd || (min_max && (t != "f64")))
                       : bits   ? logic
                                : (!logic || o == AtomOp::kExch || o == AtomOp::kCas);
    if (!legal || ((o == AtomOp::kInc || o == AtomOp::kDec) && t != "u32"))
        d.fail("this operation does not exist for this type");
    if (type == AtomType::kF32 && min_max) d.fail("min and max of .f32 are not supported");
    const int width = t == "b128" ? 128 : t.ends_with("64") ? 64 : t == "f16" || t == "bf16" || t == "b16" ? 16 : 32;
    const uint32_t count = m.has("v2") ? 2 : m.has("v4") ? 4 : m.has("v8") ? 8 : 1;
    size_t at = 0;
    std::vector<uint32_t> slots;
    auto add = [&](const Operand& operand, bool destination) {
        if (count == 1) {
            slots.push_back(destination ? d.destination(operand, width) : d.source(operand, width));
            return;
        }
        if (operand.kind != Operand::Kind::kVector || operand.elements.size() != count)
            d.fail("the vector has another number of elements");
        for (const auto& e : operand.elements)
            slots.push_back(destination ? d.destination(e, width) : d.source(e, width));
    };
    if (returns) {
        if (ir.operands[at].kind == Operand::Kind::kSink) slots.resize(count, kSinkSlot);
        else add(ir.operands[at], true);
        ++at;
    } else {
        slots.resize(count, kSinkSlot);
    }
    d.address(ir.operands[at++], out, 0);
    for (size_t i = 0; i < sources; ++i) add(ir.operands[at++], false);
    if (hint) d.source(ir.operands[at], 64);
    if (t[0] == 's') out.flags |= kSigned;
    encode_semantics(m, out, Semantics::kRelaxed);
    const Where where = where_of(m);
    out.aux =
        static_cast<uint32_t>(op) | static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(where) << 16 | count << 24;
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
    out.handler = width == 128  ? exec_atom128
                  : width == 64 ? exec_atom<uint64_t>
                  : width == 16 ? exec_atom<uint16_t>
                                : exec_atom<uint32_t>;
}

// ---- address conversion ----

template <class T, bool kTo>
bool exec_cvta(Exec& x, const Insn& in, uint32_t mask) {
    T* d = x.at<T>(in.slot[0]);
    const uint64_t window = in.imm;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        uint64_t a = x.at<T>(in.slot[1])[l];
        if (window != 0) a = kTo ? a & kWindowMask : (a & kWindowMask) | window;
        d[l] = static_cast<T>(a);
    }
    return true;
}

uint64_t window_of(const Match& m) {
    if (m.has("shared") || m.has("shared::cta") || m.has("shared::cluster")) return kSharedWindow;
    if (m.has("local")) return kLocalWindow;
    if (m.has("param") || m.has("param::entry")) return kParamWindow;
    return 0;
}

void encode_window(Decoder& d, const Match& m, const Instruction&, Insn& out) {
    out.imm = window_of(m);
    if (m.words.back() == "u32" && out.imm != 0) d.fail("32-bit generic addresses are not supported");
}

// aux: 0 global, 1 a window of its own (imm), 2 shared::cta. shared::cluster holds every CTA's shared::cta.
bool exec_isspacep(Exec& x, const Insn& in, uint32_t mask) {
    const uint64_t* a = x.at<uint64_t>(in.slot[1]);
    uint32_t value = 0;
    for (int l = 0; l < kLanes; ++l) {
        bool inside = in.aux == 0 ? a[l] >> kWindowShift == 0 && x.memory->find(a[l], 1).bytes != 0
                                  : a[l] >> kWindowShift == in.imm >> kWindowShift;
        if (in.aux == 2) inside = inside && (a[l] & kWindowMask) >> kRankShift == x.cta->rank;
        if (inside) value |= 1u << l;
    }
    x.set_predicate(in.slot[0], value, mask);
    return true;
}

// mapa: the address of the same variable in CTA `b` of the cluster. Without a space, a and d are generic.
template <class T, bool kGeneric>
bool exec_mapa(Exec& x, const Insn& in, uint32_t mask) {
    T* d = x.at<T>(in.slot[0]);
    const size_t ctas = x.cta->cluster->ctas.size();
    constexpr uint64_t kOffsetMask = (1ull << kRankShift) - 1;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint32_t rank = x.at<uint32_t>(in.slot[2])[l];
        if (rank >= ctas) {
            fault(RunStatus::kIllegalAddress, l,
                  "CTA rank " + std::to_string(rank) + " is outside the cluster of " + std::to_string(ctas) +
                      (ctas == 1 ? " CTA" : " CTAs"));
        }
        uint64_t a = x.at<T>(in.slot[1])[l];
        if (kGeneric && a >> kWindowShift != 1)
            fault(RunStatus::kIllegalAddress, l, "generic address " + hex(a) + " is not in shared memory");
        const uint64_t window = kGeneric ? kSharedWindow : 0;
        a = shared_address(x, l, a, "address");
        cta_of(x, l, a);
        d[l] = static_cast<T>((a & kOffsetMask) | static_cast<uint64_t>(rank) << kRankShift | window);
    }
    return true;
}
template <class T, bool kGeneric>
bool exec_getctarank(Exec& x, const Insn& in, uint32_t mask) {
    uint32_t* d = x.at<uint32_t>(in.slot[0]);
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        const uint64_t a = x.at<T>(in.slot[1])[l];
        if (kGeneric && a >> kWindowShift != 1)
            fault(RunStatus::kIllegalAddress, l, "generic address " + hex(a) + " is not in shared memory");
        d[l] = cta_of(x, l, shared_address(x, l, a, "address")).rank;
    }
    return true;
}

#define LIDX_SPACES "[const|global|local|param|param::entry|param::func|shared|shared::cta|shared::cluster]"
#define LIDX_TYPES "(b8|u8|s8|b16|u16|s16|f16|bf16|b32|u32|s32|f32|f16x2|bf16x2|b64|u64|s64|f64|b128)"
#define LIDX_EVICT "[L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
#define LIDX_ATOM_SPACE "[global|shared|shared::cta|shared::cluster]"
#define LIDX_EVICT2 "[L2::evict_normal|L2::evict_first|L2::evict_last]"

const Row kRows[] = {
    // ld{.weak|.relaxed.scope|.acquire.scope|.volatile}{.ss}{.cop|.nc}{.level::eviction_priority}{.level::cache_hint}
    //   {.level::prefetch_size}{.vec}.type d, [a]{, cache-policy};  (9.7.9.8, .9; ldu 9.7.9.10)
    {"ld.[mmio].[weak|relaxed|acquire|volatile].[cta|cluster|gpu|sys]." LIDX_SPACES ".[ca|cg|cs|lu|cv].[nc]." LIDX_EVICT
     "." LIDX_EVICT2 ".[L2::cache_hint].[L2::64B|L2::128B|L2::256B].[v2|v4|v8]." LIDX_TYPES,
     "*", nullptr, nullptr, encode_load},
    {"ldu.[global].[v2|v4]." LIDX_TYPES, "*", nullptr, nullptr, encode_load},
    // st{.weak|.relaxed.scope|.release.scope|.volatile}{.ss}{.cop}{.level::...}{.vec}.type [a], b{, cache-policy};
    // (9.7.9.12)
    {"st.[mmio].[weak|relaxed|release|volatile].[cta|cluster|gpu|sys]." LIDX_SPACES ".[wb|cg|cs|wt]." LIDX_EVICT
     "." LIDX_EVICT2 ".[L2::cache_hint].[v2|v4|v8]." LIDX_TYPES,
     "*", nullptr, nullptr, encode_store},
    // st.bulk{.weak}{.shared::cta} [a], size, 0;  (9.7.9.13)
    {"st.bulk.[weak].[shared::cta]", "*", exec_store_bulk, "100", encode_store_bulk},
    // atom{.sem}{.scope}{.space}.op{.noftz}{.level::cache_hint}{.vec}.type d, [a], b{, c}{, cache-policy};  (9.7.13.5)
    // ptxas also takes semantics, scope and space in other places, where libcu++ and cooperative groups put them.
    {"(atom|red)." LIDX_ATOM_SPACE ".[relaxed|acquire|release|acq_rel].[cta|cluster|gpu|sys]." LIDX_ATOM_SPACE
     ".(add|min|max|inc|dec|and|or|xor|exch|cas).[relaxed|acquire|release|acq_rel].[cta|cluster|gpu|sys]."
     LIDX_ATOM_SPACE ".[noftz].[L2::cache_hint].[v2|v4|v8]."
     "(b16|b32|u32|s32|f32|f16|bf16|f16x2|bf16x2|b64|u64|s64|f64|b128)",
     "*", nullptr, nullptr, encode_atomic},
    {"(atom|red).[relaxed|acquire|release|acq_rel].[cta|cluster|gpu|sys].[global].[v2|v4|v8].(f32|f16|bf16|f16x2|"
     "bf16x2).(add|min|max).[noftz]",
     "*", nullptr, "90", encode_atomic},
    // cvta{.to}.space.size p, a;  (9.7.9.20)
    {"cvta.to.(const|global|local|shared|shared::cta|shared::cluster|param|param::entry).u64", "r64 s64",
     exec_cvta<uint64_t, true>, nullptr, encode_window},
    {"cvta.(const|global|local|shared|shared::cta|shared::cluster|param|param::entry).u64", "r64 s64",
     exec_cvta<uint64_t, false>, nullptr, encode_window},
    // isspacep.space p, a;  (9.7.9.19)
    {"isspacep.(const|global|local|shared|shared::cta|shared::cluster|param|param::entry)", "p s64", exec_isspacep,
     nullptr,
     [](Decoder&, const Match& m, const Instruction&, Insn& out) {
         out.imm = m.has("const") ? 15ull << kWindowShift : window_of(m);   // constants live in global memory
         out.aux = m.has("global") ? 0 : m.has("shared") || m.has("shared::cta") ? 2 : 1;
     }},
    // mapa{.space}.type d, a, b;  getctarank{.space}.type d, a;  (9.7.9.22, .23)
    {"mapa.shared::cluster.u32", "r32 s32 s32", exec_mapa<uint32_t, false>, "90"},
    {"mapa.shared::cluster.u64", "r64 s64 s32", exec_mapa<uint64_t, false>, "90"},
    {"mapa.u64", "r64 s64 s32", exec_mapa<uint64_t, true>, "90"},
    {"getctarank.shared::cluster.u32", "r32 s32", exec_getctarank<uint32_t, false>, "90"},
    {"getctarank.shared::cluster.u64", "r32 s64", exec_getctarank<uint64_t, false>, "90"},
    {"getctarank.u64", "r32 s64", exec_getctarank<uint64_t, true>, "90"},
};

template <class T>
void reduce_as(const Reduction& r, uint8_t* target, const uint8_t* operand, uint32_t bytes) {
    for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
        T* place = reinterpret_cast<T*>(target + at);
        T b;
        std::memcpy(&b, operand + at, sizeof b);
        T old = __atomic_load_n(place, __ATOMIC_SEQ_CST);
        while (true) {
            const T value = apply_any<T>(r.op, r.type, old, b, T(0), r.is_signed);
            if (__atomic_compare_exchange_n(place, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
        }
    }
}

}   // namespace

int atom_op_of(std::string_view word) {
    static constexpr std::string_view kWords[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
    for (size_t i = 0; i < std::size(kWords); ++i)
        if (word == kWords[i]) return static_cast<int>(i);
    return -1;
}

void reduce_elements(const Reduction& r, uint8_t* target, const uint8_t* operand, uint32_t bytes) {
    switch (r.bytes) {
        case 2: return reduce_as<uint16_t>(r, target, operand, bytes);
        case 4: return reduce_as<uint32_t>(r, target, operand, bytes);
        default: return reduce_as<uint64_t>(r, target, operand, bytes);
    }
}

std::span<const Row> rows_memory() { return kRows; }

}   // namespace ptxemu

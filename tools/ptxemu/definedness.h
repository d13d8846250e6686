// SPDX-License-Identifier: Apache-2.0
// PTXEMU_CHECK=1: which bits somebody has written. Registers, shared, local and Tensor Memory have shadows of the same
// layout in which a set bit is an undefined one; global memory has a bit per byte (memory.h). Undefined bits travel
// through every instruction and are reported where they matter: in a store to global memory, an address, a predicate
// that decides an effect, the count of a barrier.
//
// An instruction's rule is found by its syntax in the tables of definedness*.cpp; without one, each destination becomes
// undefined in the lanes where any source is. Rules run before the instruction, on the operands that it will read; what
// asynchronous operations do happens when they complete.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isa.h"
#include "tensor_core.h"
#include "warp.h"

namespace ptxemu {

class Definedness {
  public:
    // Everything is undefined when a CTA starts, but for its special registers.
    void start(const Program& program, const Cta& cta);

    // Before the instruction `in` at x.pc; lanes: the fragment's.
    void before(Exec& x, const Insn& in, uint32_t lanes);

    // ---- registers of the warp that runs ----
    uint8_t* registers(const Exec& x) { return registers_.data() + x.warp->index * pitch_; }
    template <class T>
    T* at(const Exec& x, uint32_t slot) {
        uint8_t* base = slot & kConstantSlot ? zeros_.data() : registers(x);
        return reinterpret_cast<T*>(base + (slot & ~kConstantSlot));
    }
    bool dirty(const Exec& x, uint32_t slot) const {   // false: all bits of all lanes are defined
        return !(slot & kConstantSlot) && dirty_[x.warp->index * dirty_pitch_ + slot / 4] != 0;
    }
    void set_dirty(const Exec& x, uint32_t slot, bool value) {
        if (!(slot & kConstantSlot)) dirty_[x.warp->index * dirty_pitch_ + slot / 4] = value;
    }
    // Lanes with an undefined bit. bits: 1, 8 .. 128.
    uint32_t undefined_lanes(const Exec& x, uint32_t slot, int bits);
    // Of the lanes in mask: those in `undefined` become undefined in all bits, the others defined.
    void set_lanes(const Exec& x, uint32_t slot, int bits, uint32_t mask, uint32_t undefined);
    // After its shadow was written in place.
    void refresh(const Exec& x, uint32_t slot, int bits);
    uint32_t origin(const Exec& x, uint32_t slot) const {
        return slot & kConstantSlot ? kNoOrigin : origins_[x.warp->index * dirty_pitch_ + slot / 4];
    }
    void set_origin(const Exec& x, uint32_t slot, uint32_t pc) {
        if (!(slot & kConstantSlot)) origins_[x.warp->index * dirty_pitch_ + slot / 4] = pc;
    }
    uint32_t scratch(int i) const { return scratch_ + static_cast<uint32_t>(i) * 512; }   // slots for rules
    uint8_t* zeros() { return zeros_.data(); }

    // ---- memory ----
    uint8_t* shared(uint32_t address) { return shared_.data() + address; }
    uint32_t shared_bytes() const { return static_cast<uint32_t>(shared_.size()); }
    uint8_t* local(const Exec& x, int lane) { return local_.data() + (x.warp->index * kLanes + lane) * local_pitch_; }
    uint32_t* tmem_lane(int lane) { return tmem_.data() + lane * Tmem::kColumns; }

    // ---- what handlers and completions tell ----
    void tmem_allocated(uint32_t column, uint32_t columns);
    void tmem_address_stored(uint32_t shared_offset);
    void tmem_load(Exec& x, TmemShape shape, int num, bool packed, int split, int lane, uint32_t column,
                   const uint32_t* slots, uint32_t mask);
    void tmem_store(TmemShape shape, int num, bool packed, int split, int lane, uint32_t column,
                    const uint32_t* undefined, uint32_t mask);
    void copied(Exec& x, const AsyncOp& op);       // TMA, bulk copies, cp.async
    void multiplied(Exec& x, const AsyncOp& op);   // tcgen05.mma
    void multiplied_wgmma(Exec& x, const AsyncOp& op);

    // An undefined value matters here. slot: where the value stands, kSinkSlot: nowhere.
    // global, bytes: what it is about; bytes 0: no memory.
    void report(Exec& x, int lane, const char* code, const std::string& what, uint32_t slot = kSinkSlot,
                uint64_t global = 0, uint64_t bytes = 0);

    void warn_loose(Exec& x, int kind);

    static constexpr uint32_t kNoOrigin = ~0u;   // nobody wrote the register

  private:
    size_t pitch_ = 0, dirty_pitch_ = 0, local_pitch_ = 0;
    uint32_t scratch_ = 0;
    uint32_t warned_ = 0;   // bit: kind of loose arithmetic
    std::vector<uint8_t> registers_, dirty_, zeros_, shared_, local_;
    std::vector<uint32_t> origins_, tmem_;
};

// Helpers of rules. Reports the addresses that are undefined in lanes of mask; decide: every other source, too.
std::span<const Use> uses_of(const Exec& x, const ShadowInfo& info);
void check_addresses(Definedness& d, Exec& x, const ShadowInfo& info, uint32_t mask);
void decide(Definedness& d, Exec& x, const Insn& in, const ShadowInfo& info, uint32_t mask);

// A row of the rules: which instructions (syntax as in isa.h; a trailing "**" takes any further words), what happens.
struct ShadowRow {
    const char* syntax;
    ShadowRule rule;
    bool effect = false;   // decides more than its destinations: an undefined guard is reported
    uint32_t (*data)(const Match& m) = nullptr;   // what the rule wants to know: ShadowInfo::data
};
std::span<const ShadowRow> shadow_rows_registers();
std::span<const ShadowRow> shadow_rows_memory();

}   // namespace ptxemu

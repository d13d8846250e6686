// SPDX-License-Identifier: Apache-2.0
#include "assigned_registers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

namespace ptxemu {
namespace {

using Set = std::vector<uint64_t>;   // of registers, a bit each

struct Block {
    uint32_t begin = 0, end = 0;   // pcs
    std::vector<uint32_t> next;    // blocks
    Set written, known;            // by the block itself; on every way to its begin
};

// What may follow an instruction: the next one, a branch target.
struct Successors {
    bool next = true, target = false;
};

class Analysis {
  public:
    Analysis(const Program& program, const std::vector<SlotRange>& registers) : p_(program), words_(0) {
        of_slot_.assign(program.register_bytes / 4, kNone);
        for (size_t r = 0; r < registers.size(); ++r)
            std::fill(of_slot_.begin() + registers[r].begin / 4, of_slot_.begin() + registers[r].end / 4,
                      static_cast<uint32_t>(r));
        words_ = (registers.size() + 63) / 64;
        exposed_.assign(words_, 0);
    }

    // False: the program has jumps whose targets are not followed here.
    bool run() {
        if (!find_blocks()) return false;
        for (Block& b : blocks_) {
            b.written.assign(words_, 0);
            for (uint32_t pc = b.begin; pc < b.end; ++pc) each_write(pc, [&](uint32_t r) { add(b.written, r); });
            b.known.assign(words_, ~uint64_t{0});
        }
        blocks_[0].known.assign(words_, 0);
        for (bool changed = true; changed;) {
            changed = false;
            for (const Block& b : blocks_) {
                for (const uint32_t n : b.next) {
                    Set& known = blocks_[n].known;
                    for (size_t w = 0; w < words_; ++w) {
                        const uint64_t both = known[w] & (b.known[w] | b.written[w]);
                        changed = changed || both != known[w];
                        known[w] = both;
                    }
                }
            }
        }
        for (Block& b : blocks_) {
            Set known = b.known;
            for (uint32_t pc = b.begin; pc < b.end; ++pc) {
                const bool exchange = name(pc).starts_with("shfl");   // reads lanes that may be elsewhere
                const bool sums = accumulates(pc);
                each_use(pc, [&](const Use& u, uint32_t r) {
                    if ((sums || u.role != UseRole::kDestination) && (exchange || !has(known, r))) add(exposed_, r);
                });
                each_write(pc, [&](uint32_t r) { add(known, r); });
            }
        }
        return true;
    }

    bool exposed(size_t r) const { return has(exposed_, static_cast<uint32_t>(r)); }

  private:
    static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

    static bool has(const Set& s, uint32_t r) { return s[r / 64] >> (r % 64) & 1; }
    static void add(Set& s, uint32_t r) { s[r / 64] |= uint64_t{1} << (r % 64); }
    const std::string& name(uint32_t pc) const { return p_.stat_names[p_.info[pc].stat]; }

    // A wgmma reads its destination, too, unless scale-d is false.
    bool accumulates(uint32_t pc) const {
        if (name(pc) != "wgmma.mma_async") return false;
        const Insn& in = p_.code[pc];
        if (!(in.slot[2] & kConstantSlot)) return true;
        uint32_t scale_d = 0;
        std::memcpy(&scale_d, p_.constants.data() + (in.slot[2] & ~kConstantSlot), sizeof scale_d);
        return (scale_d != 0) != (in.flags >> (kNegateShift + 2) & 1);
    }

    template <class F>
    void each_use(uint32_t pc, F f) const {
        const ShadowInfo& info = p_.shadow[pc];
        for (uint32_t i = info.first_use; i < info.first_use + info.uses; ++i) {
            const Use& u = p_.uses[i];
            if (u.slot & kConstantSlot || of_slot_[u.slot / 4] == kNone) continue;
            f(u, of_slot_[u.slot / 4]);
        }
    }

    bool always(const Insn& in) const { return in.guard & kConstantSlot && in.guard_flip == 0; }

    template <class F>
    void each_write(uint32_t pc, F f) const {
        if (!always(p_.code[pc])) return;
        each_use(pc, [&](const Use& u, uint32_t r) {
            if (u.role == UseRole::kDestination) f(r);
        });
    }

    Successors after(uint32_t pc) const {
        const std::string& n = name(pc);
        const bool sure = always(p_.code[pc]);
        if (n == "bra" || n == "bra.uni") return {!sure, true};
        if (n == "ret" || n == "exit" || n == "trap") return {!sure, false};
        return {};
    }

    bool find_blocks() {
        const auto size = static_cast<uint32_t>(p_.code.size());
        if (p_.function_ends.size() != 1) return false;   // calls
        std::map<uint32_t, uint32_t> begins = {{0, 0}};
        for (uint32_t pc = 0; pc < size; ++pc) {
            if (name(pc).starts_with("call") || name(pc).starts_with("brx")) return false;
            const Successors s = after(pc);
            if (s.target) begins[p_.code[pc].aux] = 0;
            if ((s.target || !s.next) && pc + 1 < size) begins[pc + 1] = 0;
        }
        for (auto& [pc, index] : begins) {
            index = static_cast<uint32_t>(blocks_.size());
            blocks_.push_back({pc, size, {}, {}, {}});
            if (index != 0) blocks_[index - 1].end = pc;
        }
        for (Block& b : blocks_) {
            const Successors s = after(b.end - 1);
            if (s.next && b.end < size) b.next.push_back(begins.at(b.end));
            if (s.target) b.next.push_back(begins.at(p_.code[b.end - 1].aux));
        }
        return true;
    }

    const Program& p_;
    std::vector<uint32_t> of_slot_;   // by slot / 4
    size_t words_;
    std::vector<Block> blocks_;
    Set exposed_;
};

}   // namespace

std::vector<SlotRange> registers_to_poison(const Program& program, const std::vector<SlotRange>& registers) {
    Analysis analysis(program, registers);
    if (!analysis.run()) return {{0, program.register_bytes}};
    std::vector<SlotRange> poisoned;
    uint32_t at = 0;
    for (size_t r = 0; r < registers.size(); ++r) {
        if (analysis.exposed(r)) continue;
        if (registers[r].begin > at) poisoned.push_back({at, registers[r].begin});
        at = registers[r].end;
    }
    if (at < program.register_bytes) poisoned.push_back({at, program.register_bytes});
    return poisoned;
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// The instruction table. One row per opcode form: its syntax, its operands, the function that executes it. Rows stand
// in the exec_*.cpp files next to those functions; adding an instruction is one row and one function.
#pragma once
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program.h"

namespace ptxemu {

class Decoder;

// The words of an instruction as a row's syntax matched them.
struct Match {
    std::vector<std::string_view> words;
    bool has(std::string_view word) const {
        for (auto w : words)
            if (w == word) return true;
        return false;
    }
    // Index of the first candidate that is present, -1 if none.
    int one_of(std::initializer_list<std::string_view> candidates) const {
        int i = 0;
        for (auto c : candidates) {
            if (has(c)) return i;
            ++i;
        }
        return -1;
    }
};

using Encode = void (*)(Decoder& d, const Match& m, const Instruction& ir, Insn& out);

struct Row {
    // Dotted words as the manual writes them: "(a|b)" one of, "[a|b]" at most one of. Whatever does not match is
    // refused.
    const char* syntax;
    // Blank-separated operands, filled into Insn::slot in order:
    //   rN destination register of N bits (16 also serves 8), sN source register, immediate or special register,
    //   p destination predicate, q source predicate (may be negated), i immediate -> Insn::imm, l label -> Insn::aux,
    //   RN, SN the same, but the row is passed over unless the operand is a register of just that width
    //   m memory operand -> slot + Insn::imm. "*": the encoder does it all. "-": none.
    const char* operands;
    Handler handler;
    const char* needs =
        nullptr;               // "80": that sm or later; "90a": exactly; "100f": arch- or family-specific 100 series
    Encode encode = nullptr;   // runs after the operands
};

class Decoder {
  public:
    Decoder(const Module& module, const std::map<std::string, uint64_t>& addresses)
        : module_(module), addresses_(addresses) {}
    std::shared_ptr<Program> run(const Function& entry);

    // For encoders. All throw PtxError naming the line.
    uint32_t source(const Operand& operand, int bits);
    uint32_t destination(const Operand& operand, int bits);
    uint32_t predicate_source(const Operand& operand, Insn& out, int slot);
    uint32_t predicate_destination(const Operand& operand);
    // Register, 8 to 64 bits wide, or immediate, for ld/st/cvt where a register may be wider than the type; sets *bits.
    uint32_t any_source(const Operand& operand, int* bits);
    uint32_t any_destination(const Operand& operand, int* bits);
    // [base + offset]: slot `slot`, imm and kAddress64. part: which comma-separated element.
    void address(const Operand& operand, Insn& out, int slot, size_t part = 0);
    // Appends an address to the lists (4 words) for listed_address().
    void list_memory(const Operand& operand, size_t part = 0);
    uint64_t immediate(const Operand& operand);
    uint32_t label(const Operand& operand);
    uint32_t constant(uint64_t value, int bits);
    uint32_t shared_constant(uint64_t address, int bits);   // a constant that depends on the CTA's rank
    uint32_t list_begin() { return static_cast<uint32_t>(program_->lists.size()); }
    void list_add(uint32_t value) { program_->lists.push_back(value); }
    // True if the operand names something of this kind.
    int register_bits(const Operand& operand) const;   // 0: not a register; predicates 1
    bool is_special(const Operand& operand, std::string_view name) const {
        return operand.kind == Operand::Kind::kSpecial && operand.name == name;
    }
    uint64_t symbol_value(const Operand& operand);
    Space symbol_space(const Operand& operand);
    [[noreturn]] void fail(const std::string& why) const;
    const Instruction& instruction() const { return *ir_; }
    Program& program() { return *program_; }
    const Function& function() const { return *frame_->function; }
    std::vector<uint32_t> branch_table(const std::string& name);
    void encode_call(const Instruction& ir, Insn& out);
    bool in_entry() const { return frame_ == &frames_[0]; }

  private:
    struct FunctionFrame {
        const Function* function = nullptr;
        uint32_t first_pc = 0;
        std::vector<uint32_t> register_slots;
        uint32_t locals_base = 0, call_base = 0, params_base = 0;   // in local memory
        std::map<std::string, uint32_t> param_offsets;              // .func params and returns: offset in local memory
        std::vector<uint32_t> pcs;                                  // IR index -> pc (one more than there are)
        std::map<const Instruction*, std::vector<const Function*>> candidates;   // of calls through a register
    };
    void collect(const Function& function, std::vector<std::string>& path);
    void find_addressed();
    std::vector<const Function*> call_candidates(const Function& caller, const Instruction& ir);
    void encode_direct(const Instruction& ir, const FunctionFrame& callee, Insn& call, Insn& after);
    void encode_indirect(const Instruction& ir, Insn& out);
    void lay_out(FunctionFrame& frame);
    void decode_function(FunctionFrame& frame);
    void decode_instruction(const Instruction& ir);
    Insn guarded(const Instruction& ir, const std::vector<std::string_view>& words);
    InsnInfo info_of(const Instruction& ir);
    void decode_call(const Instruction& ir, Insn out, const InsnInfo& info);
    void mark_poll_loops();
    uint32_t special(const std::string& name, int bits);
    uint32_t allocate(int bits);
    const Variable* find_variable(const std::string& name) const;
    FunctionFrame* find_frame(const std::string& name);
    struct ArgumentPlace {
        bool memory;
        uint32_t place;
        int bits;
    };
    ArgumentPlace argument(const Operand& operand, bool destination);
    void add_copies(const Instruction& ir, const FunctionFrame& callee, const Operand& actual, bool returns);

    const Module& module_;
    const std::map<std::string, uint64_t>& addresses_;
    std::shared_ptr<Program> program_;
    std::deque<FunctionFrame> frames_;
    std::set<std::string> addressed_;   // functions whose address is taken
    FunctionFrame* frame_ = nullptr;
    const Instruction* ir_ = nullptr;
    uint32_t add_constant(std::map<std::pair<uint64_t, int>, uint32_t>& known, uint64_t value, int bits);

    std::map<std::pair<uint64_t, int>, uint32_t> constants_, shared_constants_;
    std::map<std::string, uint32_t> specials_;
    std::map<std::string, uint32_t> stats_;
    std::vector<Use> uses_;   // of the instruction that is being decoded
    void use(UseRole role, uint32_t slot, int bits) { uses_.push_back({slot, static_cast<uint8_t>(bits), role}); }
    void add_shadow(const std::vector<std::string_view>& words);
};

// The rows of each file.
std::span<const Row> rows_control();
std::span<const Row> rows_warp();
std::span<const Row> rows_integer_base();
std::span<const Row> rows_integer_avx2();
std::span<const Row> rows_float_base();
std::span<const Row> rows_float_avx2();
std::span<const Row> rows_half();
std::span<const Row> rows_convert();
std::span<const Row> rows_memory();
std::span<const Row> rows_barrier();
std::span<const Row> rows_bulk();
std::span<const Row> rows_tcgen05();
std::span<const Row> rows_mma();
std::span<const Row> rows_tensormap();
std::span<const Row> rows_refused();

// Handlers that decode() itself places.
bool exec_exit(Exec& x, const Insn& in, uint32_t mask);
bool exec_return(Exec& x, const Insn& in, uint32_t mask);
bool exec_call(Exec& x, const Insn& in, uint32_t mask);
bool exec_copy_arguments(Exec& x, const Insn& in, uint32_t mask);
bool exec_call_if(Exec& x, const Insn& in, uint32_t mask);
bool exec_copy_results(Exec& x, const Insn& in, uint32_t mask);
bool exec_no_callee(Exec& x, const Insn& in, uint32_t mask);
bool exec_vprintf(Exec& x, const Insn& in, uint32_t mask);
bool exec_assertfail(Exec& x, const Insn& in, uint32_t mask);

}   // namespace ptxemu

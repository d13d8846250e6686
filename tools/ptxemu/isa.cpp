// SPDX-License-Identifier: Apache-2.0
// decode(): finds each instruction's row, resolves its operands, lays out registers, local memory and code.
#include "isa.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "assigned_registers.h"
#include "definedness.h"
#include "opcode_forms.h"

namespace ptxemu {
namespace {

constexpr uint32_t kMaxPlaces = 1u << 22;   // instructions of a kernel

struct SyntaxWord {
    bool optional = false;
    std::vector<std::string_view> alternatives;
};

// An operand as Row::operands has it: its letter, and its width where it has one.
struct OperandForm {
    char kind;
    int bits;
};

struct CompiledRow {
    const Row* row = nullptr;
    std::vector<SyntaxWord> words;
    std::vector<OperandForm> operands;   // empty where the encoder does it all, and where there are none
};

std::vector<OperandForm> compile_operands(std::string_view text) {
    std::vector<OperandForm> forms;
    if (text == "*" || text == "-") return forms;
    while (true) {
        const size_t end = std::min(text.find(' '), text.size());
        forms.push_back({text[0], end > 1 ? std::stoi(std::string(text.substr(1, end - 1))) : 0});
        if (end == text.size()) return forms;
        text.remove_prefix(end + 1);
    }
}

std::vector<SyntaxWord> compile_syntax(std::string_view syntax) {
    std::vector<SyntaxWord> words;
    size_t i = 0;
    while (i < syntax.size()) {
        SyntaxWord word;
        const char open = syntax[i];
        if (open == '(' || open == '[') {
            const size_t close = syntax.find(open == '(' ? ')' : ']', i);
            std::string_view inside = syntax.substr(i + 1, close - i - 1);
            word.optional = open == '[';
            while (true) {
                const size_t bar = inside.find('|');
                word.alternatives.push_back(inside.substr(0, bar));
                if (bar == std::string_view::npos) break;
                inside.remove_prefix(bar + 1);
            }
            i = close + 1;
        } else {
            const size_t end = std::min(syntax.find('.', i), syntax.size());
            word.alternatives.push_back(syntax.substr(i, end - i));
            i = end;
        }
        words.push_back(std::move(word));
        if (i < syntax.size() && syntax[i] == '.') ++i;
    }
    return words;
}

bool match_words(const std::vector<SyntaxWord>& syntax, size_t s, const std::vector<std::string_view>& words,
                 size_t w) {
    if (s == syntax.size()) return w == words.size();
    const SyntaxWord& word = syntax[s];
    const auto& any = word.alternatives;
    if (any.front() == "**") return true;
    if (w < words.size() && (any.front() == "*" || std::find(any.begin(), any.end(), words[w]) != any.end()) &&
        match_words(syntax, s + 1, words, w + 1)) {
        return true;
    }
    return word.optional && match_words(syntax, s + 1, words, w);
}

// ptxas takes modifiers in any order, words of one kind (types, state spaces) in theirs. words: in the order of the
// syntax afterwards. Rows that leave words open are not for this.
bool reorder_words(const std::vector<SyntaxWord>& syntax, std::vector<std::string_view>* words) {
    std::vector<std::string_view> left = *words, ordered;
    for (const SyntaxWord& word : syntax) {
        const auto& any = word.alternatives;
        if (any.front() == "*" || any.front() == "**") return false;
        const auto at = std::find_first_of(left.begin(), left.end(), any.begin(), any.end());
        if (at != left.end()) {
            ordered.push_back(*at);
            left.erase(at);
        } else if (!word.optional) {
            return false;
        }
    }
    if (!left.empty() || ordered.front() != words->front()) return false;
    *words = std::move(ordered);
    return true;
}

bool cpu_has_avx2() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

using Table = std::unordered_map<std::string_view, std::vector<CompiledRow>>;

// All rows, file after file; first come, first matched.
std::vector<std::span<const Row>> files() {
    std::vector<std::span<const Row>> all = {rows_control(), rows_warp()};
#if defined(__x86_64__)
    all.push_back(cpu_has_avx2() ? rows_integer_avx2() : rows_integer_base());
    all.push_back(cpu_has_avx2() ? rows_float_avx2() : rows_float_base());
#else
    all.push_back(rows_integer_base());
    all.push_back(rows_float_base());
#endif
    for (const auto file : {rows_half(), rows_convert(), rows_memory(), rows_barrier(), rows_bulk(), rows_tcgen05(),
                            rows_mma(), rows_tensormap(), rows_refused()})   // refused: last, what nothing else takes
        all.push_back(file);
    return all;
}

const Table& table() {
    static const Table rows = [] {
        Table t;
        for (const auto file : files()) {
            for (const Row& row : file) {
                CompiledRow compiled{&row, compile_syntax(row.syntax), compile_operands(row.operands)};
                for (auto first : compiled.words.front().alternatives) t[first].push_back(compiled);
            }
        }
        return t;
    }();
    return rows;
}

thread_local std::set<const Row*>* noted = nullptr;

struct CompiledShadow {
    const ShadowRow* row = nullptr;
    std::vector<SyntaxWord> words;
};

const std::unordered_map<std::string_view, std::vector<CompiledShadow>>& shadow_table() {
    static const auto rows = [] {
        std::unordered_map<std::string_view, std::vector<CompiledShadow>> t;
        for (const auto file : {shadow_rows_registers(), shadow_rows_memory()}) {
            for (const ShadowRow& row : file) {
                CompiledShadow compiled{&row, compile_syntax(row.syntax)};
                for (auto first : compiled.words.front().alternatives) t[first].push_back(compiled);
            }
        }
        return t;
    }();
    return rows;
}

struct FlagWord {
    std::string_view word;
    uint32_t flag;
};
constexpr uint32_t rounding_flag(Rounding r) { return static_cast<uint32_t>(r) << 5; }
constexpr FlagWord kFlagWords[] = {
    {"ftz", kFtz},
    {"sat", kSat},
    {"satfinite", kSat},
    {"NaN", kNanMode},
    {"xorsign", kXorSignAbs},
    {"relu", kRelu},
    {"rz", rounding_flag(Rounding::kZero)},
    {"rzi", rounding_flag(Rounding::kZero)},
    {"rm", rounding_flag(Rounding::kMinus)},
    {"rmi", rounding_flag(Rounding::kMinus)},
    {"rp", rounding_flag(Rounding::kPlus)},
    {"rpi", rounding_flag(Rounding::kPlus)},
    {"rna", rounding_flag(Rounding::kNearestAway)},
    {"aligned", kAligned},
    {"uni", kUnified},
    {"popc", kPopc},
};

struct SpecialName {
    std::string_view name;
    Special special;
};
constexpr SpecialName kSpecialNames[] = {
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%laneid", Special::kLaneId},
    {"%warpid", Special::kWarpId},
    {"%nwarpid", Special::kNwarpId},
    {"%ctaid.x", Special::kCtaIdX},
    {"%ctaid.y", Special::kCtaIdY},
    {"%ctaid.z", Special::kCtaIdZ},
    {"%nctaid.x", Special::kNctaIdX},
    {"%nctaid.y", Special::kNctaIdY},
    {"%nctaid.z", Special::kNctaIdZ},
    {"%smid", Special::kSmId},
    {"%nsmid", Special::kNsmId},
    {"%gridid", Special::kGridId},
    {"%is_explicit_cluster", Special::kIsExplicitCluster},
    {"%clusterid.x", Special::kClusterIdX},
    {"%clusterid.y", Special::kClusterIdY},
    {"%clusterid.z", Special::kClusterIdZ},
    {"%nclusterid.x", Special::kNclusterIdX},
    {"%nclusterid.y", Special::kNclusterIdY},
    {"%nclusterid.z", Special::kNclusterIdZ},
    {"%cluster_ctaid.x", Special::kClusterCtaIdX},
    {"%cluster_ctaid.y", Special::kClusterCtaIdY},
    {"%cluster_ctaid.z", Special::kClusterCtaIdZ},
    {"%cluster_nctaid.x", Special::kClusterNctaIdX},
    {"%cluster_nctaid.y", Special::kClusterNctaIdY},
    {"%cluster_nctaid.z", Special::kClusterNctaIdZ},
    {"%cluster_ctarank", Special::kClusterCtaRank},
    {"%cluster_nctarank", Special::kClusterNctaRank},
    {"%lanemask_eq", Special::kLanemaskEq},
    {"%lanemask_le", Special::kLanemaskLe},
    {"%lanemask_lt", Special::kLanemaskLt},
    {"%lanemask_ge", Special::kLanemaskGe},
    {"%lanemask_gt", Special::kLanemaskGt},
    {"%total_smem_size", Special::kTotalSmemSize},
    {"%aggr_smem_size", Special::kAggrSmemSize},
    {"%dynamic_smem_size", Special::kDynamicSmemSize},
    {"%reserved_smem_offset_begin", Special::kReservedSmemOffsetBegin},
    {"%reserved_smem_offset_end", Special::kReservedSmemOffsetEnd},
    {"%reserved_smem_offset_cap", Special::kReservedSmemOffsetCap},
    {"%current_graph_exec", Special::kCurrentGraphExec},
    {"%envreg1", Special::kEnvReg1},
    {"%envreg2", Special::kEnvReg2},
    {"%tid.w", Special::kZero},
    {"%ntid.w", Special::kZero},
    {"%ctaid.w", Special::kZero},
    {"%nctaid.w", Special::kZero},
};

uint32_t align_up(uint32_t value, uint32_t align) { return (value + align - 1) / align * align; }

// Width of a register's slot in bits: 1 (predicate), 32, 64, 128. 8 and 16 bits live in 32-bit slots.
int slot_bits(Type type) {
    if (type == Type::kPred) return 1;
    const int bytes = type_bytes(type);
    return bytes <= 4 ? 32 : bytes * 8;
}

// The name under which executions are counted: engine.h, Stats.
std::string stat_name(const Instruction& ir) {
    if (ir.opcode.find('.') != std::string::npos) return ir.opcode;
    static constexpr std::string_view kSpaced[] = {"ld", "st", "atom", "red"};
    static constexpr std::string_view kSpaces[] = {"global", "shared", "shared::cta",  "shared::cluster", "local",
                                                   "const",  "param",  "param::entry", "param::func"};
    if (std::find(std::begin(kSpaced), std::end(kSpaced), ir.opcode) != std::end(kSpaced)) {
        for (const auto& m : ir.modifiers)
            for (auto s : kSpaces)
                if (m == s) return ir.opcode + "." + std::string(s.substr(0, s.find(':')));
        return ir.opcode;
    }
    std::string name = ir.opcode;
    for (const auto& m : ir.modifiers) name += "." + m;
    return name;
}

int target_number(const std::string& target) {
    int n = 0;
    for (char c : target)
        if (c >= '0' && c <= '9') n = n * 10 + (c - '0');
    return n;
}

bool target_has(const std::string& target, const char* needs) {
    const int have = target_number(target);
    const std::string_view want = needs;
    const char last = target.empty() ? ' ' : target.back();
    if (want.back() == 'a') return target == "sm_" + std::string(want);
    if (want.back() == 'f') return have / 10 >= 10 && have / 10 < 12 && (last == 'a' || last == 'f');
    return have >= target_number(std::string(want));
}

}   // namespace

void Decoder::fail(const std::string& why) const {
    const int line = ir_ ? ir_->line : 0;
    const std::string text = ir_ ? ir_->text() : "";
    throw PtxError(line, "`" + text + "`: " + why);
}

uint32_t Decoder::allocate(int bits) {
    const uint32_t slot = program_->register_bytes;
    program_->register_bytes += bits == 1 ? 4 : static_cast<uint32_t>(bits) / 8 * kLanes;
    return slot;
}

uint32_t Decoder::constant(uint64_t value, int bits) { return add_constant(constants_, value, bits); }

uint32_t Decoder::shared_constant(uint64_t address, int bits) {
    const size_t before = shared_constants_.size();
    const uint32_t slot = add_constant(shared_constants_, address, bits);
    if (shared_constants_.size() != before)
        program_->shared_constants.push_back({slot & ~kConstantSlot, bits == 64});
    return slot;
}

uint32_t Decoder::add_constant(std::map<std::pair<uint64_t, int>, uint32_t>& known, uint64_t value, int bits) {
    if (bits == 16 || bits == 8) bits = 32;
    if (bits <= 32) value &= 0xffffffffu;
    auto [it, inserted] = known.try_emplace({value, bits}, 0);
    if (inserted) {
        auto& pool = program_->constants;
        if (bits >= 64) pool.resize((pool.size() + 63) / 64 * 64);
        it->second = static_cast<uint32_t>(pool.size()) | kConstantSlot;
        if (bits == 1) {
            const uint32_t word = value ? kFullMask : 0;
            pool.resize(pool.size() + 128);
            std::memcpy(pool.data() + pool.size() - 128, &word, 4);
        } else {
            const size_t bytes = bits == 32 ? 4 : 8;
            const size_t begin = pool.size();
            pool.resize(begin + bytes * kLanes * (bits == 128 ? 2 : 1));
            for (int lane = 0; lane < kLanes; ++lane) std::memcpy(pool.data() + begin + lane * bytes, &value, bytes);
        }
    }
    return it->second;
}

uint32_t Decoder::special(const std::string& name, int bits) {
    auto known = specials_.find(name + (bits == 64 ? "/64" : ""));
    if (known != specials_.end()) return known->second;
    for (const auto& s : kSpecialNames) {
        if (s.name != name) continue;
        const uint32_t slot = s.special == Special::kIsExplicitCluster ? allocate(1) : allocate(bits == 64 ? 64 : 32);
        program_->specials.push_back({s.special, slot, bits == 64});
        specials_[name + (bits == 64 ? "/64" : "")] = slot;
        return slot;
    }
    if (name.starts_with("%envreg")) return constant(0, bits);
    if (name == "WARP_SZ") return constant(32, bits);
    fail("special register " + name + " is not known here");
}

int Decoder::register_bits(const Operand& operand) const {
    if (operand.kind != Operand::Kind::kRegister) return 0;
    const Type type = frame_->function->registers.at(operand.reg).type;
    return type == Type::kPred ? 1 : type_bytes(type) * 8;
}

const Variable* Decoder::find_variable(const std::string& name) const {
    for (const auto* list : {&frame_->function->locals, &frame_->function->params, &frame_->function->returns}) {
        for (const auto& v : *list)
            if (v.name == name) return &v;
    }
    return module_.find_global(name);
}

Space Decoder::symbol_space(const Operand& operand) {
    const Variable* v = find_variable(operand.name);
    return v ? v->space : Space::kNone;
}

uint64_t Decoder::symbol_value(const Operand& operand) {
    const Variable* v = find_variable(operand.name);
    if (!v) {
        if (const uint64_t address = function_address(module_, operand.name); address != 0) return address;
        fail("unknown symbol " + operand.name);
    }
    uint64_t base = 0;
    switch (v->space) {
        case Space::kShared:
            base = v->is_extern ? dynamic_shared_begin(program_->static_shared_bytes) : kSharedBase + v->offset;
            break;
        case Space::kLocal: base = frame_->locals_base + v->offset; break;
        case Space::kParam: {
            auto own = frame_->param_offsets.find(v->name);
            if (own != frame_->param_offsets.end()) base = kParamLocalBase + own->second;
            else if (in_entry() && !frame_->function->params.empty() && v >= frame_->function->params.data() &&
                     v < frame_->function->params.data() + frame_->function->params.size())
                base = v->offset;
            else base = kParamLocalBase + frame_->call_base + v->offset;
            break;
        }
        case Space::kGlobal:
        case Space::kConst: {
            auto it = addresses_.find(v->name);
            if (it == addresses_.end()) fail("symbol " + v->name + " has no device address");
            base = it->second;
            break;
        }
        default: fail("symbol " + v->name + " has no address");
    }
    return base + static_cast<uint64_t>(operand.offset);
}

uint64_t Decoder::immediate(const Operand& operand) {
    if (operand.kind != Operand::Kind::kImmediate) fail("an immediate operand is expected");
    return operand.bits;
}

uint32_t Decoder::source(const Operand& operand, int bits) {
    switch (operand.kind) {
        case Operand::Kind::kRegister: {
            const int have = register_bits(operand);
            if (have != bits && !(bits == 16 && have == 8)) {
                fail("register " + frame_->function->registers[operand.reg].name + " has " + std::to_string(have) +
                     " bits where " + std::to_string(bits) + " are expected");
            }
            use(UseRole::kSource, frame_->register_slots[operand.reg], bits);
            return frame_->register_slots[operand.reg];
        }
        case Operand::Kind::kImmediate: {
            uint64_t value = operand.bits;
            if (operand.is_float) {
                double wide = operand.is_double ? std::bit_cast<double>(value)
                                                : std::bit_cast<float>(static_cast<uint32_t>(value));
                if (bits == 64) value = std::bit_cast<uint64_t>(wide);
                else if (bits == 32)
                    value = operand.is_double ? std::bit_cast<uint32_t>(static_cast<float>(wide)) : value;
                else fail("a floating-point immediate cannot stand here");
            }
            if (bits == 16) value &= 0xffff;
            if (bits == 8) value &= 0xff;
            return constant(value, bits);
        }
        case Operand::Kind::kSpecial: return special(operand.name, bits);
        case Operand::Kind::kSymbol:
            if (symbol_space(operand) == Space::kShared && (bits == 32 || bits == 64))
                return shared_constant(symbol_value(operand), bits);
            return constant(symbol_value(operand), bits);
        default: fail("a register or immediate is expected");
    }
}

uint32_t Decoder::destination(const Operand& operand, int bits) {
    if (operand.kind == Operand::Kind::kSink) return kSinkSlot;
    if (operand.kind != Operand::Kind::kRegister) fail("a destination register is expected");
    const int have = register_bits(operand);
    if (have != bits && !(bits == 16 && have == 8)) {
        fail("register " + frame_->function->registers[operand.reg].name + " has " + std::to_string(have) +
             " bits where " + std::to_string(bits) + " are expected");
    }
    use(UseRole::kDestination, frame_->register_slots[operand.reg], bits);
    return frame_->register_slots[operand.reg];
}

uint32_t Decoder::any_source(const Operand& operand, int* bits) {
    if (operand.kind == Operand::Kind::kRegister) {
        const int have = register_bits(operand);
        if (have == 1) fail("a predicate cannot stand here");
        *bits = have <= 32 ? 32 : have;
        use(UseRole::kSource, frame_->register_slots[operand.reg], have);
        return frame_->register_slots[operand.reg];
    }
    return source(operand, *bits);
}

uint32_t Decoder::any_destination(const Operand& operand, int* bits) {
    if (operand.kind == Operand::Kind::kSink) return kSinkSlot;
    if (operand.kind != Operand::Kind::kRegister) fail("a destination register is expected");
    const int have = register_bits(operand);
    if (have == 1) fail("a predicate cannot stand here");
    *bits = have;
    use(UseRole::kDestination, frame_->register_slots[operand.reg], have);
    return frame_->register_slots[operand.reg];
}

uint32_t Decoder::predicate_source(const Operand& operand, Insn& out, int slot) {
    if (operand.negated) out.flags |= 1u << (kNegateShift + slot);
    if (operand.kind == Operand::Kind::kImmediate) return constant(operand.bits != 0, 1);
    if (operand.kind == Operand::Kind::kSpecial) return special(operand.name, 1);
    if (register_bits(operand) != 1) fail("a predicate is expected");
    use(UseRole::kSource, frame_->register_slots[operand.reg], 1);
    return frame_->register_slots[operand.reg];
}

uint32_t Decoder::predicate_destination(const Operand& operand) {
    if (operand.kind == Operand::Kind::kSink) return kSinkSlot;
    if (register_bits(operand) != 1) fail("a destination predicate is expected");
    use(UseRole::kDestination, frame_->register_slots[operand.reg], 1);
    return frame_->register_slots[operand.reg];
}

void Decoder::address(const Operand& operand, Insn& out, int slot, size_t part) {
    if (operand.kind != Operand::Kind::kMemory || part >= operand.elements.size())
        fail("an address in brackets is expected");
    const Operand& base = operand.elements[part];
    out.imm = part == 0 ? static_cast<uint64_t>(operand.offset) : 0;
    switch (base.kind) {
        case Operand::Kind::kRegister: {
            const int bits = register_bits(base);
            if (bits != 32 && bits != 64) fail("an address register has 32 or 64 bits");
            if (bits == 64) out.flags |= kAddress64;
            use(UseRole::kAddress, frame_->register_slots[base.reg], bits);
            out.slot[slot] = frame_->register_slots[base.reg];
            return;
        }
        case Operand::Kind::kSymbol:
            out.imm += symbol_value(base);
            if (symbol_space(base) != Space::kShared) break;
            out.flags |= kAddress64;
            out.slot[slot] = shared_constant(0, 64);
            return;
        case Operand::Kind::kImmediate: out.imm += base.bits; break;
        default: fail("an address is a register, a symbol or an immediate");
    }
    out.flags |= kAddress64;
    out.slot[slot] = constant(0, 64);
}

void Decoder::list_memory(const Operand& operand, size_t part) {
    Insn place;
    address(operand, place, 0, part);
    list_add(place.slot[0]);
    list_add(place.flags & kAddress64 ? 1 : 0);
    list_add(static_cast<uint32_t>(place.imm));
    list_add(static_cast<uint32_t>(place.imm >> 32));
}

uint32_t Decoder::label(const Operand& operand) {
    if (operand.kind != Operand::Kind::kSymbol) fail("a label is expected");
    auto it = frame_->function->labels.find(operand.name);
    if (it == frame_->function->labels.end()) fail("unknown label " + operand.name);
    return frame_->pcs.at(it->second);
}

std::vector<uint32_t> Decoder::branch_table(const std::string& name) {
    auto it = frame_->function->branch_targets.find(name);
    if (it == frame_->function->branch_targets.end()) fail("unknown branch table " + name);
    std::vector<uint32_t> pcs;
    for (const auto& target : it->second) {
        auto l = frame_->function->labels.find(target);
        if (l == frame_->function->labels.end()) fail("unknown label " + target);
        pcs.push_back(frame_->pcs.at(l->second));
    }
    return pcs;
}

Decoder::FunctionFrame* Decoder::find_frame(const std::string& name) {
    for (auto& f : frames_)
        if (f.function->name == name) return &f;
    return nullptr;
}

// Functions are placed once; registers and locals are per function, so that recursion has no room.
void Decoder::collect(const Function& function, std::vector<std::string>& path) {
    if (std::find(path.begin(), path.end(), function.name) != path.end()) {
        fail("recursion through " + function.name + " is not supported");
    }
    if (find_frame(function.name)) return;
    frames_.emplace_back();
    FunctionFrame& frame = frames_.back();
    frame.function = &function;
    path.push_back(function.name);
    for (const auto& ir : function.body) {
        if (ir.opcode != "call" || ir.operands.size() < 2) continue;
        if (ir.operands[1].kind == Operand::Kind::kRegister) {   // recursion is found when it happens
            ir_ = &ir;
            for (const Function* callee : frame.candidates[&ir] = call_candidates(function, ir)) {
                std::vector<std::string> other;
                collect(*callee, other);
            }
            program_->indirect_calls = true;
            continue;
        }
        if (ir.operands[1].kind != Operand::Kind::kSymbol) continue;
        auto it = module_.functions.find(ir.operands[1].name);
        if (it == module_.functions.end() || it->second->is_declaration) continue;
        ir_ = &ir;
        collect(*it->second, path);
    }
    path.pop_back();
}

// Functions whose address is taken anywhere in the module.
void Decoder::find_addressed() {
    for (const Variable& v : module_.globals)
        for (const Relocation& r : v.relocations) addressed_.insert(r.symbol);
    const auto note = [this](const auto& self, const Operand& operand) -> void {
        if (operand.kind == Operand::Kind::kSymbol) addressed_.insert(operand.name);
        for (const Operand& e : operand.elements) self(self, e);
    };
    for (const auto& [name, function] : module_.functions) {
        for (const auto& ir : function->body)
            for (size_t i = 0; i < ir.operands.size(); ++i)
                if (ir.opcode != "call" || i != 1) note(note, ir.operands[i]);
    }
}

// Whom a call through a register may reach: those that .calltargets names, or every function whose address is taken and
// that has the prototype.
std::vector<const Function*> Decoder::call_candidates(const Function& caller, const Instruction& ir) {
    if (ir.operands.size() < 4) fail("an indirect call needs a .callprototype or .calltargets");
    const std::string& name = ir.operands[3].name;
    std::vector<const Function*> found;
    if (const auto targets = caller.call_targets.find(name); targets != caller.call_targets.end()) {
        for (const std::string& target : targets->second) {
            const Function& f = *module_.functions.at(target);
            if (f.is_declaration || f.is_entry) fail("call target " + target + " is no function with a body");
            found.push_back(&f);
        }
        return found;
    }
    const auto prototype = caller.prototypes.find(name);
    if (prototype == caller.prototypes.end()) fail(name + " is neither a .callprototype nor a .calltargets");
    if (addressed_.empty()) find_addressed();
    const auto alike = [](const std::vector<Variable>& a, const std::vector<Variable>& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Variable& one, const Variable& other) {
            return one.bytes == other.bytes && (one.space == Space::kReg) == (other.space == Space::kReg);
        });
    };
    for (const std::string& candidate : addressed_) {
        const auto f = module_.functions.find(candidate);
        if (f == module_.functions.end() || f->second->is_entry || f->second->is_declaration) continue;
        if (alike(f->second->params, prototype->second.params) && alike(f->second->returns, prototype->second.returns))
            found.push_back(f->second.get());
    }
    return found;
}

void Decoder::lay_out(FunctionFrame& frame) {
    const Function& f = *frame.function;
    for (const auto& r : f.registers)
        frame.register_slots.push_back(r.type == Type::kPred ? 0 : allocate(slot_bits(r.type)));
    for (size_t i = 0; i < f.registers.size(); ++i)
        if (f.registers[i].type == Type::kPred) frame.register_slots[i] = allocate(1);
    program_->register_bytes = align_up(program_->register_bytes, 64);
    auto& local = program_->local_bytes;
    frame.locals_base = local = align_up(local, 16);
    local += f.local_bytes;
    frame.call_base = local = align_up(local, 16);
    local += f.call_param_bytes;
    if (!f.is_entry) {
        for (const auto* list : {&f.params, &f.returns}) {
            for (const auto& v : *list) {
                local = align_up(local, std::max<uint32_t>(v.align, 16));
                frame.param_offsets[v.name] = local;
                local += static_cast<uint32_t>(v.bytes);
            }
        }
    }
    if (local > (512u << 10)) throw PtxError(f.line, "local memory of " + f.name + " exceeds 512 KiB per thread");
    // A call takes two places: the jump with the arguments, then the copy of the results. One through a register has
    // those of every function that it may reach, and one more.
    uint32_t pc = frame.first_pc;
    for (const auto& ir : f.body) {
        frame.pcs.push_back(pc);
        const auto indirect = frame.candidates.find(&ir);
        const size_t places = indirect != frame.candidates.end() ? 2 * indirect->second.size() + 1
                              : ir.opcode == "call"              ? 2
                                                                 : 1;
        pc += static_cast<uint32_t>(places);
        if (pc > kMaxPlaces) throw PtxError(ir.line, "the kernel has more than " + std::to_string(kMaxPlaces) +
                                                     " instructions, calls through registers expanded");
    }
    frame.pcs.push_back(pc);
}

Decoder::ArgumentPlace Decoder::argument(const Operand& operand, bool destination_operand) {
    if (operand.kind == Operand::Kind::kSymbol) {
        const Variable* v = find_variable(operand.name);
        if (!v || v->space != Space::kParam) fail("argument " + operand.name + " is not a .param variable");
        return {true, static_cast<uint32_t>(symbol_value(operand) - kParamLocalBase), static_cast<int>(v->bytes * 8)};
    }
    if (operand.kind == Operand::Kind::kRegister)
        return {false, frame_->register_slots[operand.reg], register_bits(operand)};
    if (operand.kind == Operand::Kind::kImmediate && !destination_operand)
        return {false, constant(operand.bits, 64), 64};
    fail("a call argument is a .param variable, a register or an immediate");
}

void Decoder::add_copies(const Instruction&, const FunctionFrame& callee, const Operand& actual, bool returns) {
    const auto& formals = returns ? callee.function->returns : callee.function->params;
    if (actual.elements.size() != formals.size()) {
        fail("call of " + callee.function->name + " with " + std::to_string(actual.elements.size()) +
             (returns ? " results" : " arguments") + ", it has " + std::to_string(formals.size()));
    }
    for (size_t i = 0; i < formals.size(); ++i) {
        const ArgumentPlace place = argument(actual.elements[i], returns);
        const Variable& v = formals[i];
        const bool formal_register = v.space == Space::kReg;
        const uint32_t formal = formal_register ? callee.register_slots.at(v.offset) : callee.param_offsets.at(v.name);
        if (place.memory != !formal_register) {
            fail("call of " + callee.function->name + ": argument " + std::to_string(i + 1) +
                 " mixes a register and a .param variable");
        }
        const uint32_t marker = formal_register ? kConstantSlot : 0;
        const uint32_t bytes = static_cast<uint32_t>(formal_register ? type_bytes(v.type) : v.bytes);
        // ParamCopy::bytes with the top bit: register slots.
        program_->copies.push_back(returns ? ParamCopy{formal, place.place, bytes | marker}
                                           : ParamCopy{place.place, formal, bytes | marker});
    }
}

void Decoder::encode_call(const Instruction& ir, Insn& out) {
    if (ir.operands.size() < 3) fail("call needs results, a target and arguments");
    const Operand& target = ir.operands[1];
    if (target.kind != Operand::Kind::kSymbol) fail("a call names a function or a register");
    Insn after;
    if (const FunctionFrame* callee = find_frame(target.name)) {
        encode_direct(ir, *callee, out, after);
    } else if (target.name == "vprintf" || target.name == "__assertfail") {
        out.handler = target.name == "vprintf" ? exec_vprintf : exec_assertfail;
        out.list = list_begin();
        std::vector<uint32_t> places;
        for (const auto& e : ir.operands[2].elements) places.push_back(argument(e, false).place);
        for (const auto& e : ir.operands[0].elements) places.push_back(argument(e, true).place);
        const size_t want = target.name == "vprintf" ? 3 : 5;
        if (places.size() != want) fail(target.name + " has another number of arguments");
        for (uint32_t p : places) list_add(p);
        out.list_count = static_cast<uint32_t>(want);
    } else {
        fail("function " + target.name + " has no body");
    }
    if (after.handler == nullptr) after.handler = exec_copy_arguments;
    after.guard = out.guard;
    after.guard_flip = out.guard_flip;
    program_->code.push_back(out);
    out = after;
}

void Decoder::encode_direct(const Instruction& ir, const FunctionFrame& callee, Insn& call, Insn& after) {
    call.handler = exec_call;
    call.aux = callee.first_pc;
    call.list = static_cast<uint32_t>(program_->copies.size());
    add_copies(ir, callee, ir.operands[2], false);
    call.list_count = static_cast<uint32_t>(program_->copies.size()) - call.list;
    after.handler = exec_copy_arguments;
    after.list = static_cast<uint32_t>(program_->copies.size());
    add_copies(ir, callee, ir.operands[0], true);
    after.list_count = static_cast<uint32_t>(program_->copies.size()) - after.list;
}

// For each function that the register may hold: the call of the lanes in which it does, and the results, which go on
// behind all of them.
void Decoder::encode_indirect(const Instruction& ir, Insn& out) {
    if (register_bits(ir.operands[1]) != 64) fail("the address of a function has 64 bits");
    const Insn common = out;
    const auto& candidates = frame_->candidates.at(&ir);
    const uint32_t end = static_cast<uint32_t>(program_->code.size() + 2 * candidates.size() + 1);
    for (const Function* callee : candidates) {
        Insn call = common, after;
        encode_direct(ir, *find_frame(callee->name), call, after);
        call.handler = exec_call_if;
        call.slot[0] = source(ir.operands[1], 64);
        call.imm = function_address(module_, callee->name);
        program_->code.push_back(call);
        add_shadow({"call", "indirect"});
        after.handler = exec_copy_results;
        after.guard = common.guard;
        after.guard_flip = common.guard_flip;
        after.aux = end;
        program_->code.push_back(after);
        add_shadow({"call", "results"});
    }
    out.handler = exec_no_callee;
    out.slot[0] = source(ir.operands[1], 64);
    out.aux = static_cast<uint32_t>(candidates.size());
    program_->code.push_back(out);
    add_shadow({"call", "indirect"});
}

// Index of Program::loose, or -1.
static int looseness(const Match& m) {
    if (!m.words.back().starts_with("f32") && !m.has("f32")) return -1;
    if (m.has("approx") || m.has("full")) return 2;
    if (m.has("ftz")) return 1;
    const bool sum = m.words[0] == "add" || m.words[0] == "sub" || m.words[0] == "mul";
    return sum && m.one_of({"rn", "rz", "rm", "rp"}) < 0 ? 0 : -1;
}

// Called when the instruction is in place: its uses and its rule for definedness.
void Decoder::add_shadow(const std::vector<std::string_view>& words) {
    program_->shadow.resize(program_->code.size());
    ShadowInfo& info = program_->shadow.back();
    info.first_use = static_cast<uint32_t>(program_->uses.size());
    info.uses = static_cast<uint32_t>(uses_.size());
    program_->uses.insert(program_->uses.end(), uses_.begin(), uses_.end());
    // What writes no register is there for its effect.
    info.effect =
        std::none_of(uses_.begin(), uses_.end(), [](const Use& u) { return u.role == UseRole::kDestination; });
    uses_.clear();
    const Match match{words};
    if (const int kind = looseness(match); kind >= 0) {
        LooseArithmetic& loose = program_->loose[kind];
        if (loose.count++ == 0) loose.first_pc = static_cast<uint32_t>(program_->code.size() - 1);
        info.looseness = static_cast<uint8_t>(kind + 1);
    }
    const auto rows = shadow_table().find(words[0]);
    if (rows == shadow_table().end()) return;
    for (const auto& candidate : rows->second) {
        if (!match_words(candidate.words, 0, words, 0)) continue;
        info.rule = candidate.row->rule;
        info.effect |= candidate.row->effect;
        if (candidate.row->data) info.data = candidate.row->data(match);
        return;
    }
}

// Opcode and modifiers, parted at their dots.
static std::vector<std::string_view> words_of(const Instruction& ir) {
    std::vector<std::string_view> words;
    const auto add = [&words](std::string_view text) {
        while (true) {
            const size_t dot = text.find('.');
            words.push_back(text.substr(0, dot));
            if (dot == std::string_view::npos) break;
            text.remove_prefix(dot + 1);
        }
    };
    add(ir.opcode);
    for (const auto& m : ir.modifiers) add(m);
    return words;
}

// Only the guard and the flags are filled in.
Insn Decoder::guarded(const Instruction& ir, const std::vector<std::string_view>& words) {
    Insn out;
    out.guard = constant(1, 1);
    if (ir.has_guard) {
        if (frame_->function->registers.at(ir.guard).type != Type::kPred) fail("the guard is not a predicate");
        out.guard = frame_->register_slots[ir.guard];
        out.guard_flip = ir.guard_negated ? kFullMask : 0;
    }
    for (auto w : words)
        for (const auto& f : kFlagWords)
            if (f.word == w) out.flags |= f.flag;
    return out;
}

InsnInfo Decoder::info_of(const Instruction& ir) {
    InsnInfo info;
    info.line = ir.line;
    info.source_file = ir.source_file;
    info.source_line = ir.source_line;
    info.text = ir.text();
    auto [stat, inserted] = stats_.try_emplace(stat_name(ir), static_cast<uint32_t>(program_->stat_names.size()));
    if (inserted) program_->stat_names.push_back(stat->first);
    info.stat = stat->second;
    return info;
}

void Decoder::decode_call(const Instruction& ir, Insn out, const InsnInfo& info) {
    for (const auto& m : ir.modifiers)
        if (m != "uni") fail("unknown modifier ." + m);
    if (const auto indirect = frame_->candidates.find(&ir); indirect != frame_->candidates.end()) {
        encode_indirect(ir, out);
        program_->info.insert(program_->info.end(), 2 * indirect->second.size() + 1, info);
        return;
    }
    encode_call(ir, out);
    add_shadow({"call"});
    program_->code.push_back(out);
    add_shadow({"call", "results"});
    program_->info.push_back(info);
    program_->info.push_back(info);
}

// Operands R and S want a register of just their width.
static bool widths_fit(const Decoder& d, const CompiledRow& row, const Instruction& ir) {
    for (size_t i = 0; i < row.operands.size(); ++i) {
        const OperandForm& form = row.operands[i];
        if ((form.kind == 'R' || form.kind == 'S') && d.register_bits(ir.operands[i]) != form.bits) return false;
    }
    return true;
}

// The first row that takes the instruction. Where none does as the words stand, they are put in a row's order.
static const CompiledRow& row_for(const Decoder& d, const Instruction& ir, std::vector<std::string_view>& words) {
    const auto rows = table().find(words[0]);
    if (rows == table().end()) d.fail("unknown instruction " + ir.opcode);
    const auto as_written = [&words](const CompiledRow& row) { return match_words(row.words, 0, words, 0); };
    if (std::none_of(rows->second.begin(), rows->second.end(), as_written)) {
        for (const auto& candidate : rows->second)
            if (reorder_words(candidate.words, &words)) break;
    }
    std::string reason;
    for (const auto& candidate : rows->second) {
        if (!as_written(candidate)) continue;
        // Rows that differ only in their number of operands follow each other.
        const size_t count = candidate.operands.size();
        if (std::string_view(candidate.row->operands) != "*" && count != ir.operands.size()) {
            reason = "it has " + std::to_string(ir.operands.size()) + " operands where " + std::to_string(count) +
                     " are expected";
            continue;
        }
        if (widths_fit(d, candidate, ir)) return candidate;
    }
    d.fail(reason.empty() ? "unknown modifiers or types of " + std::string(words[0]) : reason);
}

static void encode_operands(Decoder& d, const CompiledRow& row, const Instruction& ir, Insn& out) {
    int slot = 0;
    for (size_t i = 0; i < row.operands.size(); ++i) {
        const OperandForm& form = row.operands[i];
        const Operand& operand = ir.operands[i];
        switch (form.kind) {
            case 'r':
            case 'R': out.slot[slot++] = d.destination(operand, form.bits); break;
            case 's':
            case 'S': out.slot[slot++] = d.source(operand, form.bits); break;
            case 'p': out.slot[slot++] = d.predicate_destination(operand); break;
            case 'q':
                out.slot[slot] = d.predicate_source(operand, out, slot);
                ++slot;
                break;
            case 'i': out.imm = d.immediate(operand); break;
            case 'l': out.aux = d.label(operand); break;
            case 'm': d.address(operand, out, slot++); break;
            default: d.fail("bad row");
        }
    }
}

void Decoder::decode_instruction(const Instruction& ir) {
    ir_ = &ir;
    uses_.clear();
    std::vector<std::string_view> words = words_of(ir);
    Insn out = guarded(ir, words);
    InsnInfo info = info_of(ir);
    if (ir.opcode == "call") {
        decode_call(ir, out, info);
        return;
    }
    const CompiledRow& found = row_for(*this, ir, words);
    const Row& row = *found.row;
    if (row.needs && !target_has(program_->target, row.needs))
        fail(std::string("needs sm_") + row.needs + ", the module's .target is " + program_->target);
    if (noted != nullptr) noted->insert(&row);
    out.handler = row.handler;
    encode_operands(*this, found, ir, out);
    if (row.encode) row.encode(*this, Match{words}, ir, out);
    program_->code.push_back(out);
    program_->info.push_back(std::move(info));
    add_shadow(words);
}

void Decoder::decode_function(FunctionFrame& frame) {
    frame_ = &frame;
    const Function& f = *frame.function;
    for (const auto& ir : f.body) {
        decode_instruction(ir);
        program_->function_of.resize(program_->code.size(), f.is_entry ? "" : f.name);
    }
    Insn end;
    end.handler = f.is_entry ? exec_exit : exec_return;
    end.guard = constant(1, 1);
    InsnInfo info;
    info.line = f.body.empty() ? f.line : f.body.back().line;
    info.text = f.is_entry ? "(end of kernel)" : "(end of function)";
    auto [stat, inserted] = stats_.try_emplace("ret", static_cast<uint32_t>(program_->stat_names.size()));
    if (inserted) program_->stat_names.push_back("ret");
    info.stat = stat->second;
    program_->code.push_back(end);
    program_->info.push_back(info);
    add_shadow({"ret"});
    program_->function_of.resize(program_->code.size(), f.is_entry ? "" : f.name);
}

// Sets kPollLoop for the instructions of every loop that only reads and computes. Atomics tell by their result whether
// they changed anything.
void Decoder::mark_poll_loops() {
    static constexpr std::string_view kEffects[] = {"st",      "red",   "cp.",   "bar",  "mbarrier.", "tcgen05.",
                                                    "wgmma.",  "call",  "multimem.", "clusterlaunchcontrol.",
                                                    "tensormap."};
    auto& code = program_->code;
    const size_t n = code.size();
    std::vector<uint32_t> effects(n + 1, 0), branches(program_->stat_names.size(), 0), acts(branches);
    for (size_t i = 0; i < acts.size(); ++i) {
        const std::string& name = program_->stat_names[i];
        branches[i] = name == "bra" || name == "bra.uni";
        for (std::string_view e : kEffects) acts[i] |= name.starts_with(e);
        if (name == "mbarrier.try_wait" || name == "mbarrier.test_wait") acts[i] = 0;
    }
    for (size_t pc = 0; pc < n; ++pc) effects[pc + 1] = effects[pc] + acts[program_->info[pc].stat];
    std::vector<int> depth(n + 1, 0);
    for (size_t pc = 0; pc < n; ++pc) {
        if (!branches[program_->info[pc].stat] || code[pc].aux > pc) continue;
        if (effects[pc + 1] != effects[code[pc].aux]) continue;
        ++depth[code[pc].aux];
        --depth[pc + 1];
    }
    int inside = 0;
    for (size_t pc = 0; pc < n; ++pc) {
        inside += depth[pc];
        if (inside > 0) code[pc].flags |= kPollLoop;
    }
}

std::shared_ptr<Program> Decoder::run(const Function& entry) {
    program_ = std::make_shared<Program>();
    program_->name = entry.name;
    program_->target = module_.target;
    program_->target_sm = target_number(module_.target);
    program_->param_bytes = entry.param_bytes;
    program_->static_shared_bytes = entry.static_shared_bytes;
    program_->source_files = module_.source_files;
    for (const Variable& v : entry.params) program_->params.push_back({v.name, v.offset, v.bytes});
    const auto name_shared = [this](const Variable& v) {
        if (v.space == Space::kShared && !v.is_extern)
            program_->shared.push_back({v.name.substr(0, v.name.find('#')), v.offset, v.bytes});
    };
    for (const Variable& v : module_.globals) name_shared(v);
    for (int i = 0; i < 3; ++i) {
        program_->reqntid[i] = entry.reqntid[i];
        program_->maxntid[i] = entry.maxntid[i];
        program_->cluster[i] = entry.reqnctapercluster[i];
    }
    program_->max_cluster_rank = entry.maxclusterrank;
    program_->explicit_cluster = entry.explicit_cluster;
    std::vector<std::string> path;
    collect(entry, path);
    program_->carry_slot = allocate(1);
    program_->register_bytes = align_up(program_->register_bytes, 64);
    uint32_t pc = 0;
    for (auto& frame : frames_) {
        for (const Variable& v : frame.function->locals) name_shared(v);
        frame.first_pc = pc;
        frame_ = &frame;
        lay_out(frame);
        pc = frame.pcs.back() + 1;   // the implicit end
        program_->function_ends.push_back(pc);
    }
    for (auto& frame : frames_) decode_function(frame);
    mark_poll_loops();
    program_->register_bytes = align_up(program_->register_bytes, 64);
    program_->local_bytes = align_up(program_->local_bytes, 16);
    std::vector<SlotRange> registers;
    for (const auto& frame : frames_) {
        for (size_t i = 0; i < frame.register_slots.size(); ++i) {
            const Type type = frame.function->registers[i].type;
            const uint32_t slot = frame.register_slots[i];
            if (type != Type::kPred)
                registers.push_back({slot, slot + static_cast<uint32_t>(slot_bits(type)) / 8 * kLanes});
        }
    }
    program_->poisoned = registers_to_poison(*program_, registers);
    ir_ = nullptr;
    return program_;
}

std::shared_ptr<const Program> decode(const Module& module, const Function& entry,
                                      const std::map<std::string, uint64_t>& symbol_addresses) {
    return Decoder(module, symbol_addresses).run(entry);
}

std::vector<OpcodeForm> opcode_forms() {
    std::vector<OpcodeForm> forms;
    for (const auto file : files())
        for (const Row& row : file)
            forms.push_back({&row, row.syntax, row.operands, file.data() == rows_refused().data()});
    return forms;
}

void note_opcode_forms(std::set<const Row*>* used) { noted = used; }

}   // namespace ptxemu

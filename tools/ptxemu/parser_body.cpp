// SPDX-License-Identifier: Apache-2.0
// Function bodies: block scopes, labels, tables, instructions and their operands.
#include "parser.h"

namespace ptxemu {
namespace {

constexpr const char* kElements[] = {".x", ".y", ".z", ".w", ".4", ".5", ".6", ".7"};   // of vector registers

bool is_special_register(std::string_view name) {
    static constexpr std::string_view kNames[] = {
        "%tid", "%ntid", "%laneid", "%warpid", "%nwarpid", "%ctaid", "%nctaid", "%smid", "%nsmid", "%gridid",
        "%is_explicit_cluster", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank",
        "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock",
        "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%reserved_smem_offset_0", "%reserved_smem_offset_1",
        "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec"};
    if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
    const auto numbered = [&](std::string_view prefix, std::string_view suffix, int count) {
        if (name.size() <= prefix.size() + suffix.size() || name.substr(0, prefix.size()) != prefix) return false;
        if (name.substr(name.size() - suffix.size()) != suffix) return false;
        const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
        if (digits.size() > 2 || (digits.size() == 2 && digits[0] == '0')) return false;
        int value = 0;
        for (char c : digits) {
            if (c < '0' || c > '9') return false;
            value = value * 10 + (c - '0');
        }
        return value < count;
    };
    return numbered("%envreg", "", 32) || numbered("%pm", "", 8) || numbered("%pm", "_64", 8);
}

bool has_components(std::string_view name) {
    return name == "%tid" || name == "%ntid" || name == "%ctaid" || name == "%nctaid" || name == "%clusterid" ||
           name == "%nclusterid" || name == "%cluster_ctaid" || name == "%cluster_nctaid";
}

// How many words after the first belong to the opcode (ir.h). words: without the first.
size_t opcode_extra_words(std::string_view first, const std::vector<std::string_view>& words) {
    const auto word = [&](size_t i) { return i < words.size() ? words[i] : std::string_view(); };
    static constexpr std::string_view kTwoWords[] = {"tcgen05", "wgmma", "mbarrier", "tensormap",
                                                     "clusterlaunchcontrol", "multimem"};
    if (std::find(std::begin(kTwoWords), std::end(kTwoWords), first) != std::end(kTwoWords)) {
        return words.empty() ? 0 : 1;
    }
    if (first == "barrier" && word(0) == "cluster") return words.size() > 1 ? 2 : 1;
    if (first == "cp" && word(0) == "async") {
        if (word(1) == "commit_group" || word(1) == "wait_group" || word(1) == "wait_all") return 2;
        if (word(1) == "mbarrier" && word(2) == "arrive") return 3;
        if (word(1) != "bulk") return 1;
        if (word(2) == "prefetch") return word(3) == "tensor" ? 4 : 3;
        if (word(2) == "tensor" || word(2) == "commit_group" || word(2) == "wait_group") return 3;
        return 2;
    }
    if (first == "cp" && word(0) == "reduce" && word(1) == "async" && word(2) == "bulk") {
        return word(3) == "tensor" ? 4 : 3;
    }
    return 0;
}

}   // namespace

void Parser::open_scope(int line) {
    if (open_.size() == kMaxBlockDepth) fail(line, "blocks nested too deeply");
    if (++block_count_ > kMaxBlocks) fail(line, "more than " + std::to_string(kMaxBlocks) + " blocks");
    scopes_.push_back({open_.empty() ? SIZE_MAX : open_.back(), {}, {}});
    open_.push_back(scopes_.size() - 1);
}

std::string Parser::unique_name(std::string_view name) const {
    std::string unique(name);
    if (open_.back() != 0) unique.append("#").append(std::to_string(open_.back()));
    return unique;
}

void Parser::declare(std::string_view name, Name meaning, int line) {
    if (!scopes_[open_.back()].names.emplace(name, std::move(meaning)).second) {
        fail(line, quoted(name) + " is declared twice in this block");
    }
}

const Parser::Name* Parser::find_name(std::string_view name, size_t scope, Name& range_hit) const {
    // Prefix/number splits of a name of a register range, longest prefix first: %r12 is %r1<..>[2] or %r<..>[12].
    size_t digits = 0;
    while (digits < name.size() && digits < 8 && name[name.size() - 1 - digits] >= '0' &&
           name[name.size() - 1 - digits] <= '9') {
        ++digits;
    }
    for (size_t s = scope; s != SIZE_MAX; s = scopes_[s].parent) {
        const auto found = scopes_[s].names.find(name);
        if (found != scopes_[s].names.end()) return &found->second;
        if (scopes_[s].ranges.empty()) continue;
        uint32_t value = 0, scale = 1;
        for (size_t d = 1; d <= digits && d < name.size(); ++d, scale *= 10) {
            const char c = name[name.size() - d];
            value += static_cast<uint32_t>(c - '0') * scale;
            if (c == '0' && d > 1) continue;   // no leading zeros
            const auto range = scopes_[s].ranges.find(name.substr(0, name.size() - d));
            if (range != scopes_[s].ranges.end() && value < range->second.count) {
                range_hit = {Name::What::kRegister, range->second.base + value, {}};
                return &range_hit;
            }
        }
    }
    return nullptr;
}

const std::string* Parser::find_label(std::string_view name, size_t scope) const {
    for (size_t s = scope; s != SIZE_MAX; s = scopes_[s].parent) {
        const auto found = scopes_[s].names.find(name);
        if (found != scopes_[s].names.end() && found->second.what == Name::What::kLabel) return &found->second.unique;
    }
    return nullptr;
}

void Parser::body() {
    scopes_.clear();
    open_.clear();
    pending_.clear();
    tables_.clear();
    source_file_ = source_line_ = 0;
    open_scope(lexer_.peek().line);
    const auto declare_parameters = [&](std::vector<Variable>& list) {
        for (Variable& v : list) {
            if (v.space == Space::kReg) {
                v.offset = f_->registers.size();
                declare(v.name, {Name::What::kRegister, static_cast<uint32_t>(f_->registers.size()), {}}, v.line);
                f_->registers.push_back({v.name, v.type});
            } else {
                declare(v.name, {Name::What::kVariable, 0, v.name}, v.line);
            }
        }
    };
    declare_parameters(f_->returns);
    declare_parameters(f_->params);
    expect('{');
    const size_t base = open_.size() - 1;
    while (open_.size() > base) statement();
}

void Parser::statement() {
    const Token token = lexer_.take();
    if (token.is('{')) return open_scope(token.line);
    if (token.is('}')) return open_.pop_back();
    if (token.is(';')) return;
    if (token.is('@')) {
        const bool negated = accept('!');
        const Token guard = expect_identifier("a guard predicate");
        const Token opcode = expect_identifier("an instruction");
        return instruction(opcode, true, negated, guard);
    }
    if (token.kind == Kind::kIdentifier) {
        if (accept(':')) return label_or_table(token);
        return instruction(token, false, false, token);
    }
    if (token.kind == Kind::kWord) {
        if (token.text == "loc") return loc_directive();
        if (token.text == "reg") return register_directive();
        if (token.text == "param") return local_variables(Space::kParam);
        if (token.text == "shared") return local_variables(Space::kShared);
        if (token.text == "local") return local_variables(Space::kLocal);
        if (token.text == "pragma") return pragma_directive();
        if (token.text == "file") return file_directive();
        fail(token.line, "unknown directive ." + std::string(token.text.substr(0, 80)) + " in a function");
    }
    if (token.kind == Kind::kEnd) fail(token.line, "function " + quoted(f_->name) + " has no closing '}'");
    unexpected(token, "an instruction, label or directive");
}

void Parser::register_directive() {
    const Declaration d = declaration(Space::kReg);
    do {
        const Token name = expect_identifier("a register name");
        uint64_t count = 1;
        const bool range = accept('<');
        if (range) {
            count = expect_literal("the number of registers", kMaxRegisters);
            expect('>');
        }
        if (range && d.vector > 1) fail(name.line, "a range of vector registers is not supported");
        register_count_ += count * d.vector;
        if (register_count_ > kMaxRegisters) {
            fail(name.line, "more than " + std::to_string(kMaxRegisters) + " registers");
        }
        const auto base = static_cast<uint32_t>(f_->registers.size());
        if (!range) {
            declare(name.text, {Name::What::kRegister, base, {}, d.vector}, name.line);
            for (uint32_t i = 0; i < d.vector; ++i)
                f_->registers.push_back({std::string(name.text) + (d.vector > 1 ? kElements[i] : ""), d.type});
            continue;
        }
        if (!scopes_[open_.back()].ranges.emplace(name.text, Range{base, static_cast<uint32_t>(count)}).second) {
            fail(name.line, "register range " + quoted(name.text) + " is declared twice in this block");
        }
        if (count * name.text.size() > (uint64_t{64} << 20)) fail(name.line, "register names are too long");
        for (uint64_t i = 0; i < count; ++i) {
            f_->registers.push_back({std::string(name.text) + std::to_string(i), d.type});
        }
    } while (accept(','));
    expect(';');
}

void Parser::local_variables(Space space) {
    const Declaration d = declaration(space);
    do {
        Variable v = declarator(d, false, false, false);
        if (v.bytes == 0) fail(v.line, "variable " + quoted(v.name) + " has no size");
        v.name = unique_name(v.name);
        uint32_t* end = nullptr;
        switch (space) {
            case Space::kLocal: end = &f_->local_bytes; break;
            case Space::kParam: end = &f_->call_param_bytes; break;
            default: end = f_->is_entry ? &f_->static_shared_bytes : &module_->module_shared_bytes; break;
        }
        v.offset = align_up(*end, v.align);
        if (v.offset + v.bytes > kMaxSpaceBytes) fail(v.line, "too many bytes of variables in " + quoted(f_->name));
        *end = static_cast<uint32_t>(v.offset + v.bytes);
        declare(last_name_, {Name::What::kVariable, 0, v.name}, v.line);
        f_->locals.push_back(std::move(v));
    } while (accept(','));
    expect(';');
}

void Parser::label_or_table(const Token& name) {
    const std::string unique = unique_name(name.text);
    declare(name.text, {Name::What::kLabel, 0, unique}, name.line);
    const auto list = [&](std::vector<std::pair<std::string_view, int>>& out) {
        do {
            const Token entry = expect_identifier("a name of the table");
            if (accept('<')) {
                const uint64_t count = expect_literal("the number of labels", kMaxTableLabels);
                expect('>');
                for (uint64_t i = 0; i < count; ++i) {
                    range_labels_.push_back(std::string(entry.text) + std::to_string(i));
                    out.emplace_back(range_labels_.back(), entry.line);
                }
            } else {
                out.emplace_back(entry.text, entry.line);
            }
            if (out.size() > kMaxTableLabels || range_labels_.size() > kMaxTableLabels) {
                fail(entry.line, "more than " + std::to_string(kMaxTableLabels) + " labels in a table");
            }
        } while (accept(','));
        expect(';');
    };
    if (accept_word("branchtargets")) {
        PendingTable table{unique, open_.back(), {}};
        list(table.labels);
        tables_.push_back(std::move(table));
    } else if (accept_word("calltargets")) {
        std::vector<std::pair<std::string_view, int>> names;
        list(names);
        std::vector<std::string>& targets = f_->call_targets[unique];
        for (const auto& [target, line] : names) {
            if (module_->functions.count(std::string(target)) == 0) fail(line, "unknown function " + quoted(target));
            targets.emplace_back(target);
        }
    } else if (accept_word("callprototype")) {
        Prototype& prototype = f_->prototypes[unique];
        if (lexer_.peek().is('(')) prototype.returns = parameter_list(true);
        const Token sink = lexer_.take();
        if (!sink.is('_')) unexpected(sink, "'_'");
        if (lexer_.peek().is('(')) prototype.params = parameter_list(true);
        place(prototype.returns);
        place(prototype.params);
        Function ignored;
        performance_directives(ignored);
        expect(';');
    } else {
        f_->labels[unique] = static_cast<uint32_t>(f_->body.size());
    }
}

// .loc file line column [, function_name label [+ offset], inlined_at file line column]
void Parser::loc_directive() {
    constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
    source_file_ = static_cast<int>(expect_literal("the file index", kMaxSourceFiles));
    source_line_ = static_cast<int>(expect_literal("the source line", kMax));
    expect_literal("the source column", kMax);
    while (accept(',')) {
        const Token attribute = expect_identifier("function_name or inlined_at");
        if (attribute.text == "function_name") {
            expect_identifier("a label of .debug_str");
            if (accept('+')) expect_literal("the offset", kMax);
        } else if (attribute.text == "inlined_at") {
            expect_literal("the file index", kMaxSourceFiles);
            expect_literal("the source line", kMax);
            expect_literal("the source column", kMax);
        } else {
            unexpected(attribute, "function_name or inlined_at");
        }
    }
}

void Parser::instruction(Token first, bool has_guard, bool negated, const Token& guard) {
    if (++instruction_count_ > kMaxInstructions) {
        fail(first.line, "more than " + std::to_string(kMaxInstructions) + " instructions");
    }
    Instruction i;
    i.line = first.line;
    i.source_file = source_file_;
    i.source_line = source_line_;
    if (has_guard) {
        Name hit;
        const Name* name = find_name(guard.text, open_.back(), hit);
        if (name == nullptr || name->what != Name::What::kRegister) {
            fail(guard.line, "undeclared guard predicate " + quoted(guard.text));
        }
        if (f_->registers[name->index].type != Type::kPred) {
            fail(guard.line, "guard " + quoted(guard.text) + " is not a .pred register");
        }
        i.has_guard = true;
        i.guard_negated = negated;
        i.guard = name->index;
        i.guard_name = std::string(guard.text);
    }
    words_.clear();
    while (lexer_.peek().kind == Kind::kWord) {
        if (words_.size() == kMaxWords) fail(first.line, "more than " + std::to_string(kMaxWords) + " modifiers");
        words_.push_back(lexer_.take().text);
    }
    const size_t extra = std::min(opcode_extra_words(first.text, words_), words_.size());
    i.opcode = std::string(first.text);
    for (size_t w = 0; w < extra; ++w) i.opcode.append(".").append(words_[w]);
    i.modifiers.assign(words_.begin() + static_cast<ptrdiff_t>(extra), words_.end());

    if (i.opcode == "call") {
        call_operands(i);
    } else if (!lexer_.peek().is(';')) {
        std::array<uint16_t, 3> path{};
        do {
            if (i.operands.size() == kMaxInstructionOperands) fail(first.line, "too many operands");
            path[0] = static_cast<uint16_t>(i.operands.size());
            i.operands.push_back(operand(path, 0));
        } while (accept(','));
    }
    const Token end = lexer_.take();
    if (!end.is(';')) unexpected(end, "',' or ';' after an operand");
    f_->body.push_back(std::move(i));
}

void Parser::call_operands(Instruction& i) {
    std::array<uint16_t, 3> path{};
    const auto next = [&] { path[0] = static_cast<uint16_t>(i.operands.size()); };
    const auto empty = [] {
        Operand o;
        o.kind = Operand::Kind::kVector;
        return o;
    };
    if (accept('(')) {
        next();
        i.operands.push_back(list_operand(path, 0, ')'));
        expect(',');
    } else {
        i.operands.push_back(empty());
    }
    next();
    const Token target = expect_identifier("the function to call");
    i.operands.push_back(named_operand(target, path, 0));
    bool more = accept(',');
    if (more && accept('(')) {
        next();
        i.operands.push_back(list_operand(path, 0, ')'));
        more = accept(',');
    } else {
        i.operands.push_back(empty());
    }
    if (more) {
        next();
        const Token prototype = expect_identifier("a prototype or table of targets");
        i.operands.push_back(named_operand(prototype, path, 0));
    }
}

Operand Parser::operand(std::array<uint16_t, 3>& path, uint8_t depth) {
    Operand first = single_operand(path, depth);
    if (!lexer_.peek().is('|')) return first;
    const int line = lexer_.take().line;
    Operand pair;
    pair.kind = Operand::Kind::kVector;
    pair.has_pair = true;
    pair.elements.push_back(std::move(first));
    pair.elements.push_back(single_operand(path, depth));
    for (const Operand& part : pair.elements) {
        if (part.kind != Operand::Kind::kRegister && part.kind != Operand::Kind::kSink) {
            fail(line, "both parts of p|q must be registers or '_'");
        }
    }
    return pair;
}

Operand Parser::single_operand(std::array<uint16_t, 3>& path, uint8_t depth) {
    const Token& next = lexer_.peek();
    count_operand(next.line);
    if (next.kind == Kind::kIdentifier && next.text != "WARP_SZ") {
        const Token name = lexer_.take();
        return named_operand(name, path, depth);
    }
    if (next.is('{') || next.is('[')) {
        const Token open = lexer_.take();
        if (depth == kMaxOperandDepth) fail(open.line, "operand nested too deeply");
        return list_operand(path, depth, open.is('{') ? '}' : ']');
    }
    if (next.is('_')) {
        lexer_.take();
        return Operand{};
    }
    if (next.is('!')) {
        const Token bang = lexer_.take();
        if (lexer_.peek().kind == Kind::kIdentifier && lexer_.peek().text != "WARP_SZ") {
            const Token name = lexer_.take();
            Operand o = named_operand(name, path, depth);
            if (o.kind != Operand::Kind::kRegister || f_->registers[o.reg].type != Type::kPred) {
                fail(name.line, "'!' needs a .pred register, found " + quoted(name.text));
            }
            o.negated = true;
            return o;
        }
        const Constant c = unary(1);
        if (c.is_float()) fail(bang.line, "! needs an integer");
        Operand o;
        o.kind = Operand::Kind::kImmediate;
        o.bits = c.bits == 0;
        return o;
    }
    return constant_operand();
}

Operand Parser::constant_operand() {
    const Constant c = expression(0);
    Operand o;
    o.kind = Operand::Kind::kImmediate;
    o.bits = c.bits;
    o.is_float = c.is_float();
    o.is_double = c.kind == Constant::Kind::kDouble;
    return o;
}

Operand Parser::list_operand(std::array<uint16_t, 3>& path, uint8_t depth, char close) {
    Operand list;
    list.kind = close == ']' ? Operand::Kind::kMemory : Operand::Kind::kVector;
    if (close == ')' && accept(')')) return list;
    const int line = lexer_.peek().line;
    do {
        if (list.elements.size() == kMaxElements) {
            fail(line, "more than " + std::to_string(kMaxElements) + " elements in an operand");
        }
        path[depth + 1u] = static_cast<uint16_t>(list.elements.size());
        list.elements.push_back(single_operand(path, static_cast<uint8_t>(depth + 1)));
        if (close == ']' && list.elements.size() == 1) {
            Operand& base = list.elements[0];
            if (base.kind == Operand::Kind::kVector || base.kind == Operand::Kind::kMemory ||
                base.kind == Operand::Kind::kSink || base.kind == Operand::Kind::kSpecial) {
                fail(line, "an address must be a register, a variable or a number");
            }
            list.offset = base.kind == Operand::Kind::kRegister ? additive_offset() : base.offset;
            base.offset = 0;
        }
    } while (accept(','));
    const Token end = lexer_.take();
    const char wanted[] = {'\'', close, '\'', '\0'};
    if (!end.is(close)) unexpected(end, wanted);
    return list;
}

// A vector register is its elements; with a suffix it is one of them (PTX ISA 6.4.3).
Operand Parser::register_operand(const Token& name, const Name& meaning) {
    const auto element = [&](uint32_t i) {
        Operand o;
        o.kind = Operand::Kind::kRegister;
        o.name = std::string(name.text) + (meaning.vector > 1 ? kElements[i] : "");
        o.reg = meaning.index + i;
        return o;
    };
    if (meaning.vector == 1) return element(0);
    const Token& next = lexer_.peek();
    if (next.kind == Kind::kWord && next.text.size() == 1) {
        const Token suffix = lexer_.take();
        const std::string_view position = "xyzw", colour = "rgba";
        const size_t at = std::min(position.find(suffix.text), colour.find(suffix.text));
        if (at >= meaning.vector) fail(suffix.line, quoted(name.text) + " has no element ." + std::string(suffix.text));
        return element(static_cast<uint32_t>(at));
    }
    Operand all;
    all.kind = Operand::Kind::kVector;
    for (uint32_t i = 0; i < meaning.vector; ++i) all.elements.push_back(element(i));
    return all;
}

Operand Parser::named_operand(const Token& name, std::array<uint16_t, 3>& path, uint8_t depth) {
    Operand o;
    Name hit;
    if (const Name* known = find_name(name.text, open_.back(), hit)) {
        if (known->what == Name::What::kRegister) return register_operand(name, *known);
        o.name = known->unique;
        o.kind = Operand::Kind::kSymbol;
        o.offset = additive_offset();
        return o;
    }
    o.name = std::string(name.text);
    if (name.text[0] == '%') {
        if (!is_special_register(name.text)) fail(name.line, "undeclared register " + quoted(name.text));
        o.kind = Operand::Kind::kSpecial;
        if (has_components(name.text)) {
            const Token component = lexer_.take();
            if (component.kind != Kind::kWord || component.text.size() != 1 || component.text[0] < 'w' ||
                component.text[0] > 'z') {
                fail(component.line, quoted(name.text) + " needs a component .x, .y, .z or .w");
            }
            o.name.append(".").append(component.text);
        }
        return o;
    }
    o.kind = Operand::Kind::kSymbol;
    pending_.push_back({f_, open_.back(), f_->body.size(), path, depth, name.text, name.line});
    o.offset = additive_offset();
    return o;
}

Operand& Parser::at_path(const Pending& p) {
    Operand* o = &p.function->body[p.instruction].operands[p.path[0]];
    for (uint8_t d = 1; d <= p.depth; ++d) o = &o->elements[p.path[d]];
    return *o;
}

void Parser::finish_function() {
    for (const Pending& p : pending_) {
        if (const std::string* label = find_label(p.name, p.scope)) {
            at_path(p).name = *label;
        } else {
            module_pending_.push_back(p);
        }
    }
    for (const PendingTable& table : tables_) {
        std::vector<std::string>& labels = f_->branch_targets[table.table];
        for (const auto& [name, line] : table.labels) {
            const std::string* label = find_label(name, table.scope);
            if (label == nullptr || f_->labels.count(*label) == 0) fail(line, "undefined label " + quoted(name));
            labels.push_back(*label);
        }
    }
    range_labels_.clear();
}

}   // namespace ptxemu

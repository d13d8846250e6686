// SPDX-License-Identifier: Apache-2.0
// Module scope: header, directives, functions' heads, and the names that are left at the end (PTX ISA 11).
#include <algorithm>
#include <set>

#include "parser.h"

namespace ptxemu {

std::unique_ptr<Module> Parser::parse() {
    module_ = std::make_unique<Module>();
    module_->source_files.emplace_back();
    header();
    while (lexer_.peek().kind != Kind::kEnd) module_statement();
    finish_module();
    return std::move(module_);
}

void Parser::header() {
    Token token = lexer_.take();
    if (token.kind != Kind::kWord || token.text != "version") {
        fail(token.line, "PTX text must begin with .version, found " + describe(token));
    }
    // "9.0" reads as a decimal; "9.10" would lose its zero, so the digits are taken from the text.
    token = lexer_.take();
    const size_t dot = token.text.find('.');
    if (token.kind != Kind::kFloat || dot == std::string_view::npos || dot > 2 || token.text.size() - dot > 3) {
        unexpected(token, "a version such as 9.0");
    }
    for (size_t i = 0; i < token.text.size(); ++i) {
        const char c = token.text[i];
        if (i == dot) continue;
        if (c < '0' || c > '9') unexpected(token, "a version such as 9.0");
        int& part = i < dot ? module_->version_major : module_->version_minor;
        part = part * 10 + (c - '0');
    }
    if (module_->version_major < 3 || module_->version_major > 9) {
        fail(token.line, "PTX version " + std::string(token.text) + " is outside 3.0..9.x");
    }
    token = lexer_.take();
    if (token.kind != Kind::kWord || token.text != "target") unexpected(token, ".target after .version");
    do {
        const Token name = expect_identifier("a target such as sm_100f");
        if (name.text.substr(0, 3) == "sm_") {
            if (!module_->target.empty()) fail(name.line, "more than one sm_ target");
            size_t i = 3;
            while (i < name.text.size() && name.text[i] >= '0' && name.text[i] <= '9') ++i;
            const std::string_view suffix = name.text.substr(i);
            if (i == 3 || i > 6 || !(suffix.empty() || suffix == "a" || suffix == "f")) {
                fail(name.line, "unknown target " + quoted(name.text));
            }
            module_->target = std::string(name.text);
        } else if (name.text != "debug" && name.text != "texmode_unified" && name.text != "texmode_independent") {
            fail(name.line, "unknown target " + quoted(name.text));
        }
    } while (accept(','));
    if (module_->target.empty()) fail(token.line, ".target names no sm_ architecture");
}

void Parser::module_statement() {
    bool is_extern = false;
    for (;;) {
        const Token token = lexer_.take();
        if (token.kind != Kind::kWord) unexpected(token, "a directive");
        const std::string_view word = token.text;
        if (word == "extern") {
            is_extern = true;
            continue;
        }
        if (word == "visible" || word == "weak" || word == "common") continue;
        if (word == "entry") return function(true, is_extern, token.line);
        if (word == "func") return function(false, is_extern, token.line);
        if (word == "global") return module_variables(Space::kGlobal, is_extern);
        if (word == "const") return module_variables(Space::kConst, is_extern);
        if (word == "shared") return module_variables(Space::kShared, is_extern);
        if (word == "address_size") {
            const int line = lexer_.peek().line;
            const uint64_t bits = expect_literal("the address size", 64);
            if (bits != 64) fail(line, ".address_size " + std::to_string(bits) + ": only 64 is supported");
            return;
        }
        if (word == "file") return file_directive();
        if (word == "section") return section();
        if (word == "pragma") return pragma_directive();
        if (word == "alias") return alias_directive();
        fail(token.line, "unknown directive ." + std::string(word.substr(0, 80)) + " at module scope");
    }
}

// .section .debug_xxx { ... }: DWARF, of no use here.
void Parser::section() {
    const Token name = lexer_.take();
    if (name.kind != Kind::kWord) unexpected(name, "a section name");
    expect('{');
    size_t depth = 1;
    while (depth != 0) {
        const Token token = lexer_.take();
        if (token.kind == Kind::kEnd) fail(name.line, ".section without its '}'");
        if (token.is('{')) ++depth;
        if (token.is('}')) --depth;
    }
}

void Parser::file_directive() {
    const auto index = static_cast<size_t>(expect_literal("the file index", kMaxSourceFiles));
    const Token name = lexer_.take();
    if (name.kind != Kind::kString) unexpected(name, "a file name");
    if (accept(',')) {
        expect_literal("the time stamp", std::numeric_limits<uint64_t>::max());
        expect(',');
        expect_literal("the file size", std::numeric_limits<uint64_t>::max());
    }
    if (module_->source_files.size() <= index) module_->source_files.resize(index + 1);
    module_->source_files[index] = std::string(name.text);
}

void Parser::alias_directive() {
    const Token name = expect_identifier("the alias");
    expect(',');
    const Token target = expect_identifier("the function it stands for");
    expect(';');
    if (!aliases_.emplace(std::string(name.text), Alias{std::string(target.text), name.line}).second) {
        fail(name.line, "alias " + quoted(name.text) + " is defined twice");
    }
}

void Parser::pragma_directive() {
    do {
        const Token text = lexer_.take();
        if (text.kind != Kind::kString) unexpected(text, "a pragma string");
    } while (accept(','));
    expect(';');
}

// .attribute(.managed), .attribute(.unified(19, 95))
void Parser::skip_attribute() {
    const int line = expect('(').line;
    int depth = 1;
    while (depth != 0) {
        const Token token = lexer_.take();
        if (token.kind == Kind::kEnd || token.is(';') || token.is('{')) fail(line, ".attribute without its ')'");
        if (token.is('(')) ++depth;
        if (token.is(')')) --depth;
    }
}

Variable Parser::parameter(bool prototype) {
    const Token token = lexer_.take();
    if (token.kind != Kind::kWord || (token.text != "param" && token.text != "reg")) {
        unexpected(token, "a parameter (.param or .reg)");
    }
    const Space space = token.text == "param" ? Space::kParam : Space::kReg;
    const Declaration d = declaration(space);
    if (space == Space::kReg && d.vector > 1) fail(token.line, "a vector register as a parameter is not supported");
    return declarator(d, false, false, prototype);
}

std::vector<Variable> Parser::parameter_list(bool prototype) {
    std::vector<Variable> list;
    expect('(');
    if (accept(')')) return list;
    do {
        list.push_back(parameter(prototype));
    } while (accept(','));
    expect(')');
    return list;
}

uint64_t place(std::vector<Variable>& list) {
    uint64_t end = 0;
    for (Variable& v : list) {
        if (v.space != Space::kParam) continue;
        v.offset = align_up(end, v.align);
        end = v.offset + v.bytes;
        if (end > kMaxSpaceBytes) return end;
    }
    return end;
}

void Parser::function(bool is_entry, bool is_extern, int line) {
    auto made = std::make_unique<Function>();
    Function& f = *made;
    f.is_entry = is_entry;
    f.line = line;
    if (accept_word("attribute")) skip_attribute();
    if (!is_entry && lexer_.peek().is('(')) f.returns = parameter_list(false);
    const Token name = expect_identifier("a function name");
    f.name = std::string(name.text);
    if (lexer_.peek().is('(')) f.params = parameter_list(false);
    if (f.returns.size() > 1 && f.returns[0].space == Space::kParam) {
        fail(name.line, "function " + quoted(name.text) + " returns more than one .param value");
    }
    for (const Variable& v : f.params) {
        if (is_entry && v.space == Space::kReg) fail(v.line, "a kernel's parameters must be .param");
        if (is_entry && v.bytes == 0) fail(v.line, "kernel parameter " + quoted(v.name) + " has no size");
    }
    const uint64_t param_bytes = place(f.params), return_bytes = place(f.returns);
    if (param_bytes > kMaxParamBytes || return_bytes > kMaxParamBytes) {
        fail(name.line, "parameters of " + quoted(name.text) + " take " +
                            std::to_string(std::max(param_bytes, return_bytes)) + " bytes, more than " +
                            std::to_string(kMaxParamBytes));
    }
    f.param_bytes = static_cast<uint32_t>(param_bytes);
    performance_directives(f);
    if (module_->global_index.count(name.text) != 0) {
        fail(name.line, quoted(name.text) + " is already a variable");
    }

    std::unique_ptr<Function>& slot = module_->functions[f.name];
    if (accept(';')) {
        f.is_declaration = true;
        if (!slot) slot = std::move(made);
        return;
    }
    if (is_extern) fail(name.line, "extern function " + quoted(name.text) + " has a body");
    if (slot && !slot->is_declaration) fail(name.line, "function " + quoted(name.text) + " is defined twice");
    slot = std::move(made);
    f_ = &f;
    body();
    finish_function();
    f_ = nullptr;
}

void Parser::performance_directives(Function& f) {
    constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
    const auto triple = [&](uint32_t (&out)[3], const char* wanted) {
        for (uint32_t& d : out) d = 1;
        for (size_t i = 0; i < 3; ++i) {
            out[i] = static_cast<uint32_t>(expect_integer(wanted, kMax));
            if (!accept(',')) return;
        }
        fail(lexer_.peek().line, std::string(wanted) + ": more than three dimensions");
    };
    const auto count = [&](const char* wanted) { return static_cast<uint32_t>(expect_integer(wanted, kMax)); };
    while (lexer_.peek().kind == Kind::kWord) {
        const Token token = lexer_.take();
        const std::string_view word = token.text;
        if (word == "maxntid") triple(f.maxntid, ".maxntid");
        else if (word == "reqntid") triple(f.reqntid, ".reqntid");
        else if (word == "reqnctapercluster") triple(f.reqnctapercluster, ".reqnctapercluster");
        else if (word == "minnctapersm") f.minnctapersm = count(".minnctapersm");
        else if (word == "maxnctapersm") count(".maxnctapersm");
        else if (word == "maxnreg") f.maxnreg = count(".maxnreg");
        else if (word == "maxclusterrank") f.maxclusterrank = count(".maxclusterrank");
        else if (word == "explicitcluster") f.explicit_cluster = true;
        else if (word == "blocksareclusters") f.blocks_are_clusters = true;
        else if (word == "noreturn") f.noreturn = true;
        else if (word == "abi_preserve" || word == "abi_preserve_control") count(".abi_preserve");
        else if (word == "pragma") pragma_directive();
        else if (word == "attribute") skip_attribute();
        else fail(token.line, "unknown directive ." + std::string(word.substr(0, 80)) + " of a function");
    }
}

void Parser::module_variables(Space space, bool is_extern) {
    const Declaration d = declaration(space);
    do {
        Variable v = declarator(d, is_extern, space != Space::kShared, false);
        if (!is_extern && v.bytes == 0) fail(v.line, "variable " + quoted(v.name) + " has no size");
        if (space == Space::kShared && !is_extern) {
            v.offset = align_up(module_->module_shared_bytes, v.align);
            if (v.offset + v.bytes > kMaxSpaceBytes) fail(v.line, "too much .shared memory");
            module_->module_shared_bytes = static_cast<uint32_t>(v.offset + v.bytes);
        }
        if (module_->functions.count(v.name) != 0) fail(v.line, quoted(v.name) + " is already a function");
        const auto [slot, fresh] = module_->global_index.emplace(v.name, module_->globals.size());
        if (fresh) {
            module_->globals.push_back(std::move(v));
            continue;
        }
        Variable& old = module_->globals[slot->second];
        if (old.space != v.space) fail(v.line, quoted(v.name) + " is declared in two state spaces");
        if (!old.is_extern && !is_extern) fail(v.line, "variable " + quoted(v.name) + " is defined twice");
        if (old.is_extern) old = std::move(v);
    } while (accept(','));
    expect(';');
}

void Parser::resolve_in_module(std::string& name, int line) const {
    auto alias = aliases_.find(name);
    for (int hops = 0; alias != aliases_.end(); ++hops) {
        if (hops == 16) fail(alias->second.line, "alias " + quoted(name) + " leads to itself");
        name = alias->second.target;
        alias = aliases_.find(name);
    }
    if (module_->global_index.count(name) == 0 && module_->functions.count(name) == 0) {
        fail(line, "undefined symbol " + quoted(name));
    }
}

namespace {

void collect_symbols(const Operand& operand, std::set<std::string>& names) {
    if (operand.kind == Operand::Kind::kSymbol) names.insert(operand.name);
    for (const Operand& e : operand.elements) collect_symbols(e, names);
}

// Everything that a launch of the entry can name, its callees' symbols included.
std::set<std::string> symbols_of(const Module& module, const Function& entry) {
    std::set<std::string> names;
    std::set<const Function*> done;
    std::vector<const Function*> open{&entry};
    while (!open.empty()) {
        const Function& f = *open.back();
        open.pop_back();
        if (!done.insert(&f).second) continue;
        for (const Instruction& ir : f.body)
            for (const Operand& operand : ir.operands) collect_symbols(operand, names);
        for (const std::string& name : names) {
            const auto found = module.functions.find(name);
            if (found != module.functions.end() && done.count(found->second.get()) == 0)
                open.push_back(found->second.get());
        }
    }
    return names;
}

// A launch has the shared memory that its kernel names, not the whole module's: variables that no kernel has in common
// may lie at the same place. Those that no kernel names come first, then the others as they fit; a kernel's own follow.
void lay_out_shared(Module& module) {
    std::map<std::string, std::set<const Function*>> users;   // of variables and functions
    for (const auto& [name, f] : module.functions) {
        if (!f->is_entry || f->is_declaration) continue;
        for (const std::string& symbol : symbols_of(module, *f)) users[symbol].insert(f.get());
    }
    struct Placed {
        Variable* variable;
        const std::set<const Function*>* by;
    };
    std::vector<Placed> all, placed;
    const auto is_shared = [](const Variable& v) { return v.space == Space::kShared && !v.is_extern; };
    for (Variable& v : module.globals)
        if (is_shared(v)) all.push_back({&v, &users[v.name]});
    for (auto& [name, f] : module.functions) {
        if (f->is_entry) continue;
        for (Variable& v : f->locals)
            if (is_shared(v)) all.push_back({&v, &users[name]});
    }
    uint64_t common = 0;
    for (const Placed& p : all) {
        if (!p.by->empty()) continue;
        p.variable->offset = (common + p.variable->align - 1) / p.variable->align * p.variable->align;
        common = p.variable->offset + p.variable->bytes;
    }
    module.module_shared_bytes = static_cast<uint32_t>(common);
    for (const Placed& p : all) {
        if (p.by->empty()) continue;
        Variable& v = *p.variable;
        uint64_t at = common;
        for (bool moved = true; moved;) {
            moved = false;
            at = (at + v.align - 1) / v.align * v.align;
            for (const Placed& q : placed) {
                const uint64_t begin = q.variable->offset, end = begin + q.variable->bytes;
                const bool together = std::any_of(q.by->begin(), q.by->end(),
                                                  [&](const Function* f) { return p.by->count(f) != 0; });
                if (!together || at >= end || at + v.bytes <= begin) continue;
                at = end;
                moved = true;
            }
        }
        v.offset = at;
        placed.push_back(p);
    }
    for (auto& [name, f] : module.functions) {
        if (!f->is_entry || f->is_declaration) continue;
        uint64_t end = common;
        for (const Placed& p : placed)
            if (p.by->count(f.get()) != 0) end = std::max(end, p.variable->offset + p.variable->bytes);
        uint32_t align = 1;
        for (const Variable& v : f->locals)
            if (is_shared(v)) align = std::max(align, v.align);
        const uint64_t base = (end + align - 1) / align * align;
        for (Variable& v : f->locals)
            if (is_shared(v)) v.offset += base;
        if (f->static_shared_bytes != 0) end = base + f->static_shared_bytes;
        if (end > kMaxSpaceBytes) throw PtxError(f->line, "too much .shared memory in '" + name.substr(0, 80) + "'");
        f->static_shared_bytes = static_cast<uint32_t>(end);
    }
}

}   // namespace

void Parser::finish_module() {
    for (const auto& [name, alias] : aliases_) {
        std::string target = alias.target;
        resolve_in_module(target, alias.line);
        if (module_->functions.count(target) == 0) fail(alias.line, "alias of " + quoted(target) + ", not a function");
    }
    for (const Pending& p : module_pending_) resolve_in_module(at_path(p).name, p.line);
    for (Variable& v : module_->globals) {
        for (Relocation& r : v.relocations) resolve_in_module(r.symbol, v.line);
    }
    lay_out_shared(*module_);
}

std::unique_ptr<Module> parse_ptx(std::string_view text) {
    if (text.size() > kMaxTextBytes) {
        throw PtxError(1, "PTX text of " + std::to_string(text.size()) + " bytes is larger than " +
                              std::to_string(kMaxTextBytes));
    }
    return Parser(text).parse();
}

}   // namespace ptxemu

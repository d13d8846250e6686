// SPDX-License-Identifier: Apache-2.0
// Recursive descent over PTX text (PTX ISA 4, 5.4, 6, 11). Names are resolved here, through the block scopes, so that
// the decoder sees only unique ones; instructions keep their words as written.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <unordered_map>

#include "ir.h"
#include "lexer.h"

namespace ptxemu {
namespace {

// Limits that keep any text from exhausting memory or stack; far above what a compiler writes.
constexpr size_t kMaxTextBytes = 64u << 20;
constexpr size_t kMaxRegisters = 1u << 20;      // per module
constexpr size_t kMaxInstructions = 1u << 21;   // per module
constexpr size_t kMaxBlocks = 1u << 20;         // per module
constexpr size_t kMaxOperands = 1u << 22;       // per module, vector elements included
constexpr size_t kMaxBlockDepth = 128;
constexpr int kMaxExpressionDepth = 64;
constexpr size_t kMaxWords = 64;
constexpr size_t kMaxInstructionOperands = 256;
constexpr size_t kMaxElements = 1024;           // of a vector or an argument list
constexpr uint8_t kMaxOperandDepth = 2;         // [address, {coordinates}]
constexpr size_t kMaxDimensions = 8;
constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxInitBytes = uint64_t{256} << 20;   // per module
constexpr uint64_t kMaxSpaceBytes = uint64_t{1} << 30;    // shared, local, parameters of a function
constexpr uint64_t kMaxParamBytes = 32764;                // PTX ISA 11.2.1, since PTX 8.1
constexpr uint32_t kMaxAlign = 1u << 20;
constexpr size_t kMaxSourceFiles = 1u << 16;
constexpr size_t kMaxTableLabels = 1u << 16;

std::string quoted(std::string_view name) {
    return "'" + std::string(name.substr(0, 200)) + (name.size() > 200 ? "...'" : "'");
}

uint64_t align_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

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

struct Constant {
    enum class Kind : uint8_t { kSigned, kUnsigned, kDouble, kSingle };
    Kind kind = Kind::kSigned;
    uint64_t bits = 0;
    bool is_float() const { return kind == Kind::kDouble || kind == Kind::kSingle; }
    double number() const {
        if (kind == Kind::kDouble) {
            double value;
            std::memcpy(&value, &bits, sizeof value);
            return value;
        }
        return 0;
    }
    static Constant of(double value) {
        Constant c{Kind::kDouble, 0};
        std::memcpy(&c.bits, &value, sizeof value);
        return c;
    }
    static Constant truth(bool value) { return {Kind::kSigned, value ? uint64_t{1} : uint64_t{0}}; }
};

class Parser {
  public:
    explicit Parser(std::string_view text) : lexer_(text) {}
    std::unique_ptr<Module> parse();

  private:
    using Kind = Token::Kind;

    // What a name means in a scope. Registers: index; range of registers: prefix plus count.
    struct Name {
        enum class What : uint8_t { kRegister, kVariable, kLabel };
        What what;
        uint32_t index = 0;
        std::string unique;   // kVariable, kLabel
    };
    struct Range {
        uint32_t base, count;
    };
    struct Scope {
        size_t parent;
        std::unordered_map<std::string_view, Name> names;
        std::unordered_map<std::string_view, Range> ranges;
    };
    // A symbol operand that no visible declaration explains yet: a label ahead, or a name of the module.
    struct Pending {
        Function* function;
        size_t scope;
        size_t instruction;
        std::array<uint16_t, 3> path;   // operand, element, element
        uint8_t depth;
        std::string_view name;
        int line;
    };
    struct PendingTable {
        std::string table;
        size_t scope;
        std::vector<std::pair<std::string_view, int>> labels;
    };

    [[noreturn]] static void fail(int line, const std::string& message) { throw PtxError(line, message); }
    [[noreturn]] void unexpected(const Token& token, const char* wanted) {
        fail(token.line, std::string("expected ") + wanted + ", found " + describe(token));
    }
    bool accept(char c) {
        if (!lexer_.peek().is(c)) return false;
        lexer_.take();
        return true;
    }
    Token expect(char c) {
        Token token = lexer_.take();
        if (!token.is(c)) {
            const char wanted[] = {'\'', c, '\'', '\0'};
            unexpected(token, wanted);
        }
        return token;
    }
    bool accept_word(std::string_view word) {
        const Token& token = lexer_.peek();
        if (token.kind != Kind::kWord || token.text != word) return false;
        lexer_.take();
        return true;
    }
    Token expect_identifier(const char* wanted) {
        Token token = lexer_.take();
        if (token.kind != Kind::kIdentifier) unexpected(token, wanted);
        return token;
    }
    uint64_t expect_integer(const char* wanted, uint64_t limit) {
        const int line = lexer_.peek().line;
        const Constant value = expression(0);
        if (value.is_float()) fail(line, std::string(wanted) + " is not an integer");
        const bool negative = value.kind == Constant::Kind::kSigned && (value.bits >> 63) != 0;
        if (negative || value.bits > limit) {
            fail(line, std::string(wanted) + " is outside 0.." + std::to_string(limit));
        }
        return value.bits;
    }
    uint64_t expect_literal(const char* wanted, uint64_t limit) {
        const Token token = lexer_.take();
        if (token.kind != Kind::kInteger) unexpected(token, wanted);
        if (token.bits > limit) fail(token.line, std::string(wanted) + " is outside 0.." + std::to_string(limit));
        return token.bits;
    }

    // Constant expressions (PTX ISA 4.5).
    Constant expression(int depth) { return ternary(depth); }
    Constant ternary(int depth);
    Constant binary(int depth, int lowest);
    Constant unary(int depth);
    Constant apply(std::string_view op, const Constant& a, const Constant& b, int line);
    Constant negate(Constant c);
    int64_t additive_offset();

    // Module scope.
    void header();
    void module_statement();
    void section();
    void file_directive();
    void alias_directive();
    void pragma_directive();
    void skip_attribute();
    void function(bool is_entry, bool is_extern, int line);
    void performance_directives(Function& f);
    std::vector<Variable> parameter_list(bool prototype);
    Variable parameter(bool prototype);
    void module_variables(Space space, bool is_extern);
    void finish_module();

    // Variables.
    struct Declaration {
        Space space = Space::kNone;
        Type type = Type::kNone;
        uint32_t vector = 1;
        uint32_t align = 0;
        bool has_type = false;
    };
    Declaration declaration(Space space);
    Variable declarator(const Declaration& d, bool is_extern, bool allow_init, bool allow_sink);
    void initialiser(Variable& v, const std::vector<uint64_t>& dims, size_t level, uint64_t& position,
                     uint32_t element);
    void initial_value(Variable& v, uint64_t position, uint32_t element);
    bool address_value(Relocation& relocation);
    void store(Variable& v, uint64_t position, uint32_t bytes, uint64_t value, int line);

    // Function bodies.
    void body();
    void statement();
    void register_directive();
    void local_variables(Space space);
    void label_or_table(const Token& name);
    void loc_directive();
    void instruction(Token first, bool has_guard, bool negated, const Token& guard);
    void call_operands(Instruction& i);
    Operand operand(std::array<uint16_t, 3>& path, uint8_t depth);
    Operand single_operand(std::array<uint16_t, 3>& path, uint8_t depth);
    Operand list_operand(std::array<uint16_t, 3>& path, uint8_t depth, char close);
    Operand named_operand(const Token& name, std::array<uint16_t, 3>& path, uint8_t depth);
    Operand constant_operand();
    void count_operand(int line) {
        if (++operand_count_ > kMaxOperands) fail(line, "more than " + std::to_string(kMaxOperands) + " operands");
    }

    // Names.
    const Name* find_name(std::string_view name, size_t scope, Name& range_hit) const;
    std::string unique_name(std::string_view name) const;
    void declare(std::string_view name, Name meaning, int line);
    void open_scope(int line);
    const std::string* find_label(std::string_view name, size_t scope) const;
    void finish_function();
    static Operand& at_path(const Pending& p);
    void resolve_in_module(std::string& name, int line) const;

    Lexer lexer_;
    std::unique_ptr<Module> module_;
    Function* f_ = nullptr;
    std::vector<Scope> scopes_;
    std::vector<size_t> open_;
    std::vector<Pending> pending_;          // of the current function
    std::vector<Pending> module_pending_;   // left for the module's names
    std::vector<PendingTable> tables_;
    struct Alias {
        std::string target;
        int line;
    };
    std::map<std::string, Alias, std::less<>> aliases_;
    std::deque<std::string> range_labels_;   // of L<n> in tables; stable addresses
    std::vector<std::string_view> words_;
    std::string_view last_name_;   // of the last declarator: a view of the text, so it can be a key of a scope
    size_t register_count_ = 0, instruction_count_ = 0, operand_count_ = 0, block_count_ = 0;
    uint64_t init_bytes_ = 0;
    int source_file_ = 0, source_line_ = 0;
};

// ---- constant expressions ------------------------------------------------------------------------------

int precedence(std::string_view op) {
    struct Row {
        std::string_view op;
        int level;
    };
    static constexpr Row kRows[] = {{"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},  {"-", 9},  {"<<", 8},
                                    {">>", 8}, {"<", 7},  {">", 7},  {"<=", 7}, {">=", 7}, {"==", 6},
                                    {"!=", 6}, {"&", 5},  {"^", 4},  {"|", 3},  {"&&", 2}, {"||", 1}};
    for (const Row& row : kRows) {
        if (row.op == op) return row.level;
    }
    return 0;
}

Constant Parser::ternary(int depth) {
    if (depth > kMaxExpressionDepth) fail(lexer_.peek().line, "constant expression nested too deeply");
    const Constant condition = binary(depth, 1);
    if (!lexer_.peek().is('?')) return condition;
    const int line = lexer_.take().line;
    if (condition.is_float()) fail(line, "the condition of ?: is not an integer");
    Constant a = ternary(depth + 1);
    expect(':');
    Constant b = ternary(depth + 1);
    if (a.is_float() != b.is_float()) fail(line, "?: mixes an integer and a floating-point number");
    if (!a.is_float() && (a.kind == Constant::Kind::kUnsigned || b.kind == Constant::Kind::kUnsigned)) {
        a.kind = b.kind = Constant::Kind::kUnsigned;
    }
    return condition.bits != 0 ? a : b;
}

Constant Parser::binary(int depth, int lowest) {
    Constant left = unary(depth);
    for (;;) {
        const Token& op = lexer_.peek();
        const int level = op.kind == Kind::kPunctuation ? precedence(op.text) : 0;
        if (level < lowest || level == 0) return left;
        const Token taken = lexer_.take();
        const Constant right = binary(depth, level + 1);   // at most 10 levels deep
        left = apply(taken.text, left, right, taken.line);
    }
}

Constant Parser::negate(Constant c) {
    switch (c.kind) {
        case Constant::Kind::kSigned:
        case Constant::Kind::kUnsigned: c.bits = 0 - c.bits; break;
        case Constant::Kind::kDouble: c.bits ^= uint64_t{1} << 63; break;
        case Constant::Kind::kSingle: c.bits ^= uint64_t{1} << 31; break;
    }
    return c;
}

Constant Parser::unary(int depth) {
    if (depth > kMaxExpressionDepth) fail(lexer_.peek().line, "constant expression nested too deeply");
    lexer_.peek_number();
    const Token token = lexer_.take();
    if (token.is('+')) return unary(depth + 1);
    if (token.is('-')) return negate(unary(depth + 1));
    if (token.is('!') || token.is('~')) {
        const Constant c = unary(depth + 1);
        if (c.is_float()) fail(token.line, std::string(token.text) + " needs an integer");
        if (token.is('!')) return Constant::truth(c.bits == 0);
        return {Constant::Kind::kUnsigned, ~c.bits};
    }
    if (token.is('(')) {
        const Token& next = lexer_.peek();
        if (next.kind == Kind::kWord && (next.text == "s64" || next.text == "u64")) {
            const bool is_signed = lexer_.take().text == "s64";
            expect(')');
            Constant c = unary(depth + 1);
            if (c.is_float()) fail(token.line, "a cast needs an integer");
            c.kind = is_signed ? Constant::Kind::kSigned : Constant::Kind::kUnsigned;
            return c;
        }
        const Constant c = ternary(depth + 1);
        expect(')');
        return c;
    }
    if (token.kind == Kind::kInteger) {
        return {token.is_unsigned ? Constant::Kind::kUnsigned : Constant::Kind::kSigned, token.bits};
    }
    if (token.kind == Kind::kFloat) {
        return {token.single ? Constant::Kind::kSingle : Constant::Kind::kDouble, token.bits};
    }
    if (token.kind == Kind::kIdentifier && token.text == "WARP_SZ") return {Constant::Kind::kSigned, 32};
    unexpected(token, "a constant");
}

Constant Parser::apply(std::string_view op, const Constant& a, const Constant& b, int line) {
    using K = Constant::Kind;
    if (a.kind == K::kSingle || b.kind == K::kSingle) {
        fail(line, "a 0f number cannot be part of a constant expression");
    }
    if (a.is_float() != b.is_float()) fail(line, "the expression mixes an integer and a floating-point number");
    if (a.is_float()) {
        const double x = a.number(), y = b.number();
        if (op == "+") return Constant::of(x + y);
        if (op == "-") return Constant::of(x - y);
        if (op == "*") return Constant::of(x * y);
        if (op == "/") return Constant::of(x / y);
        if (op == "<") return Constant::truth(x < y);
        if (op == ">") return Constant::truth(x > y);
        if (op == "<=") return Constant::truth(x <= y);
        if (op == ">=") return Constant::truth(x >= y);
        if (op == "==") return Constant::truth(x == y);
        if (op == "!=") return Constant::truth(x != y);
        fail(line, "operator " + std::string(op) + " needs integers");
    }
    const uint64_t x = a.bits, y = b.bits;
    const auto sx = static_cast<int64_t>(x), sy = static_cast<int64_t>(y);
    const bool is_unsigned = a.kind == K::kUnsigned || b.kind == K::kUnsigned;
    const K both = is_unsigned ? K::kUnsigned : K::kSigned;
    if (op == "+") return {both, x + y};
    if (op == "-") return {both, x - y};
    if (op == "*") return {both, x * y};
    if (op == "/" || op == "%") {
        if (y == 0) fail(line, "division by zero in a constant expression");
        if (op == "%") return {K::kSigned, x % y};
        if (is_unsigned) return {both, x / y};
        if (sy == -1) return {both, 0 - x};
        return {both, static_cast<uint64_t>(sx / sy)};
    }
    if (op == "<<") return {a.kind, y > 63 ? 0 : x << y};
    if (op == ">>") {
        if (a.kind == K::kUnsigned) return {a.kind, y > 63 ? 0 : x >> y};
        return {a.kind, static_cast<uint64_t>(sx >> (y > 63 ? 63 : y))};
    }
    if (op == "<") return Constant::truth(is_unsigned ? x < y : sx < sy);
    if (op == ">") return Constant::truth(is_unsigned ? x > y : sx > sy);
    if (op == "<=") return Constant::truth(is_unsigned ? x <= y : sx <= sy);
    if (op == ">=") return Constant::truth(is_unsigned ? x >= y : sx >= sy);
    if (op == "==") return Constant::truth(x == y);
    if (op == "!=") return Constant::truth(x != y);
    if (op == "&") return {both, x & y};
    if (op == "|") return {both, x | y};
    if (op == "^") return {both, x ^ y};
    if (op == "&&") return Constant::truth(x != 0 && y != 0);
    return Constant::truth(x != 0 || y != 0);
}

// The "+16-4" behind a base, with each term a product.
int64_t Parser::additive_offset() {
    uint64_t offset = 0;
    for (;;) {
        const bool plus = lexer_.peek().is('+'), minus = lexer_.peek().is('-');
        if (!plus && !minus) return static_cast<int64_t>(offset);
        const int line = lexer_.take().line;
        const Constant term = binary(0, 10);
        if (term.is_float()) fail(line, "an address offset must be an integer");
        offset = plus ? offset + term.bits : offset - term.bits;
    }
}

// ---- module scope --------------------------------------------------------------------------------------

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
    return declarator(declaration(space), false, false, prototype);
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

// ---- variables -----------------------------------------------------------------------------------------

Parser::Declaration Parser::declaration(Space space) {
    Declaration d;
    d.space = space;
    while (!d.has_type) {
        const Token token = lexer_.take();
        if (token.kind != Kind::kWord) unexpected(token, "a type");
        const std::string_view word = token.text;
        if (word == "align") {
            const uint64_t align = expect_literal(".align", kMaxAlign);
            if (align == 0 || (align & (align - 1)) != 0) {
                fail(token.line, ".align " + std::to_string(align) + " is not a power of two");
            }
            d.align = static_cast<uint32_t>(align);
        } else if (word == "attribute") {
            skip_attribute();
        } else if (word == "v2" || word == "v4" || word == "v8") {
            d.vector = static_cast<uint32_t>(word[1] - '0');
        } else {
            d.type = type_from_name(word);
            if (d.type == Type::kNone) fail(token.line, "unknown type ." + std::string(word.substr(0, 80)));
            if (d.type == Type::kPred && space != Space::kReg) fail(token.line, ".pred outside .reg");
            d.has_type = true;
        }
    }
    if (d.vector > 1 && space == Space::kReg) fail(lexer_.peek().line, "vector registers are not supported");
    // .ptr: what a pointer parameter points to, for the optimiser.
    if (space == Space::kParam && accept_word("ptr")) {
        while (lexer_.peek().kind == Kind::kWord) {
            const Token token = lexer_.take();
            if (token.text == "align") {
                expect_literal(".align", kMaxAlign);
            } else if (token.text != "global" && token.text != "const" && token.text != "local" &&
                       token.text != "shared") {
                unexpected(token, "a state space behind .ptr");
            }
        }
    }
    return d;
}

Variable Parser::declarator(const Declaration& d, bool is_extern, bool allow_init, bool allow_sink) {
    Token name = lexer_.take();
    if (!(name.kind == Kind::kIdentifier || (allow_sink && name.is('_')))) unexpected(name, "a variable name");
    last_name_ = name.text;
    Variable v;
    v.name = std::string(name.text);
    v.space = d.space;
    v.type = d.type;
    v.is_extern = is_extern;
    v.line = name.line;
    const uint32_t element = static_cast<uint32_t>(type_bytes(d.type));
    std::vector<uint64_t> dims;
    bool open_first = false;
    while (lexer_.peek().is('[')) {
        lexer_.take();
        if (dims.size() == kMaxDimensions) {
            fail(name.line, "more than " + std::to_string(kMaxDimensions) + " dimensions");
        }
        if (accept(']')) {
            if (!dims.empty()) fail(name.line, "only the first dimension may be left open");
            open_first = true;
            dims.push_back(0);
            continue;
        }
        dims.push_back(expect_integer("an array size", kMaxVariableBytes));
        expect(']');
    }
    if (d.vector > 1) dims.push_back(d.vector);
    v.align = d.align != 0 ? d.align : std::max<uint32_t>(1, element * d.vector);
    if ((v.align & (v.align - 1)) != 0) fail(name.line, "type has no natural alignment");

    uint64_t total = element;
    for (size_t i = open_first ? 1 : 0; i < dims.size(); ++i) {
        if (dims[i] != 0 && total > kMaxVariableBytes / dims[i]) {
            fail(name.line, "variable " + quoted(v.name) + " is too large");
        }
        total *= dims[i];
    }
    if (accept('=')) {
        if (!allow_init || is_extern) fail(name.line, "variable " + quoted(v.name) + " cannot have an initialiser");
        uint64_t position = 0;
        if (dims.empty()) {
            initial_value(v, 0, element);
        } else {
            if (open_first) dims[0] = std::numeric_limits<uint64_t>::max();
            initialiser(v, dims, 0, position, element);
            if (open_first) dims[0] = total == 0 ? 0 : align_up(position, total) / total;
        }
    }
    v.bytes = open_first ? total * dims[0] : total;
    if (v.bytes > kMaxVariableBytes) fail(name.line, "variable " + quoted(v.name) + " is too large");
    return v;
}

// Fills from `position`; on return position is where this level ended (only the open outermost level reads it).
void Parser::initialiser(Variable& v, const std::vector<uint64_t>& dims, size_t level, uint64_t& position,
                         uint32_t element) {
    uint64_t step = element;
    for (size_t i = level + 1; i < dims.size(); ++i) step *= dims[i];
    const int line = expect('{').line;
    uint64_t count = 0;
    if (!lexer_.peek().is('}')) {
        do {
            if (count == dims[level]) fail(line, "initialiser of " + quoted(v.name) + " has too many elements");
            if (lexer_.peek().is('{')) {
                if (level + 1 == dims.size()) fail(lexer_.peek().line, "initialiser nested too deeply");
                uint64_t inner = position;
                initialiser(v, dims, level + 1, inner, element);
            } else if (level + 1 == dims.size()) {
                initial_value(v, position, element);
            } else {
                fail(lexer_.peek().line, "initialiser of " + quoted(v.name) + " needs '{' for each dimension");
            }
            position += step;
            ++count;
        } while (accept(','));
    }
    expect('}');
}

void Parser::store(Variable& v, uint64_t position, uint32_t bytes, uint64_t value, int line) {
    const uint64_t end = position + bytes;
    if (v.init.size() < end) {
        init_bytes_ += end - v.init.size();
        if (end > kMaxInitBytes || init_bytes_ > kMaxInitBytes) {
            fail(line, "initialisers hold more than " + std::to_string(kMaxInitBytes) + " bytes");
        }
        v.init.resize(end);
    }
    for (uint32_t i = 0; i < bytes && i < 8; ++i) v.init[position + i] = static_cast<uint8_t>(value >> (8 * i));
}

// generic(symbol) + 8, symbol + 8; false if no symbol stands here.
bool Parser::address_value(Relocation& relocation) {
    const Token& next = lexer_.peek();
    if (next.kind != Kind::kIdentifier || next.text == "WARP_SZ") return false;
    Token name = lexer_.take();
    if (name.text == "generic" && lexer_.peek().is('(')) {
        expect('(');
        name = expect_identifier("a variable in generic()");
        relocation.addend = additive_offset();
        expect(')');
    }
    relocation.symbol = std::string(name.text);
    relocation.addend = static_cast<int64_t>(static_cast<uint64_t>(relocation.addend) +
                                             static_cast<uint64_t>(additive_offset()));
    return true;
}

void Parser::initial_value(Variable& v, uint64_t position, uint32_t element) {
    const int line = lexer_.peek().line;
    Relocation relocation;
    relocation.offset = position;
    relocation.bytes = element;
    if (address_value(relocation)) {
        if (element < 4) fail(line, "an address needs a .u32 or .u64 variable, or a mask such as 0xff()");
        store(v, position, element, 0, line);
        v.relocations.push_back(std::move(relocation));
        return;
    }
    const Constant c = expression(0);
    if (lexer_.peek().is('(') && !c.is_float()) {   // mask(address) or mask(constant)
        uint32_t shift = 0;
        while (shift < 64 && (uint64_t{0xff} << shift) != c.bits) shift += 8;
        if (shift >= 64) fail(line, "the mask of an initialiser must select one byte");
        expect('(');
        if (address_value(relocation)) {
            relocation.shift = shift;
            relocation.bytes = 1;
            store(v, position, element, 0, line);
            v.relocations.push_back(std::move(relocation));
        } else {
            const Constant value = expression(0);
            if (value.is_float()) fail(line, "a mask needs an integer");
            store(v, position, element, value.bits >> shift & 0xff, line);
        }
        expect(')');
        return;
    }
    uint64_t bits = c.bits;
    switch (v.type) {
        case Type::kF32:
            if (c.kind == Constant::Kind::kDouble) {
                const auto value = static_cast<float>(c.number());
                uint32_t word;
                std::memcpy(&word, &value, sizeof word);
                bits = word;
            } else if (!c.is_float()) {
                fail(line, "a .f32 variable needs a floating-point value");
            }
            break;
        case Type::kF64:
            if (c.kind == Constant::Kind::kSingle) {
                float value;
                const auto word = static_cast<uint32_t>(c.bits);
                std::memcpy(&value, &word, sizeof value);
                bits = Constant::of(value).bits;
            } else if (!c.is_float()) {
                fail(line, "a .f64 variable needs a floating-point value");
            }
            break;
        default:
            if (c.is_float()) fail(line, "an integer variable needs an integer value");
            break;
    }
    store(v, position, element, bits, line);
}

// ---- function bodies -----------------------------------------------------------------------------------

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
        register_count_ += count;
        if (register_count_ > kMaxRegisters) {
            fail(name.line, "more than " + std::to_string(kMaxRegisters) + " registers");
        }
        const auto base = static_cast<uint32_t>(f_->registers.size());
        if (!range) {
            declare(name.text, {Name::What::kRegister, base, {}}, name.line);
            f_->registers.push_back({std::string(name.text), d.type});
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

Operand Parser::named_operand(const Token& name, std::array<uint16_t, 3>& path, uint8_t depth) {
    Operand o;
    Name hit;
    if (const Name* known = find_name(name.text, open_.back(), hit)) {
        o.name = known->what == Name::What::kRegister ? std::string(name.text) : known->unique;
        if (known->what == Name::What::kRegister) {
            o.kind = Operand::Kind::kRegister;
            o.reg = known->index;
        } else {
            o.kind = Operand::Kind::kSymbol;
            o.offset = additive_offset();
        }
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
    // Shared memory of the module and of .func bodies lies below an entry's own.
    for (auto& [name, f] : module_->functions) {
        if (!f->is_entry || f->is_declaration) continue;
        uint32_t align = 1;
        for (const Variable& v : f->locals) {
            if (v.space == Space::kShared) align = std::max(align, v.align);
        }
        const uint64_t base = align_up(module_->module_shared_bytes, align);
        for (Variable& v : f->locals) {
            if (v.space == Space::kShared) v.offset += base;
        }
        const uint64_t total =
            f->static_shared_bytes == 0 ? module_->module_shared_bytes : base + f->static_shared_bytes;
        if (total > kMaxSpaceBytes) fail(f->line, "too much .shared memory in " + quoted(name));
        f->static_shared_bytes = static_cast<uint32_t>(total);
    }
}

}  // namespace

std::unique_ptr<Module> parse_ptx(std::string_view text) {
    if (text.size() > kMaxTextBytes) {
        throw PtxError(0, "PTX text of " + std::to_string(text.size()) + " bytes is larger than " +
                              std::to_string(kMaxTextBytes));
    }
    return Parser(text).parse();
}

}  // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// The parser's state and parts: recursive descent over PTX text (PTX ISA 4, 5.4, 6, 11). Names are resolved here,
// through the block scopes, so that the decoder sees only unique ones; instructions keep their words as written.
//   parser_expression.cpp  constant expressions        parser_module.cpp    module scope, functions' heads
//   parser_variables.cpp   variables and initialisers  parser_body.cpp      bodies: scopes, labels, instructions
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir.h"
#include "lexer.h"

namespace ptxemu {

// Limits that keep any text from exhausting memory or stack; far above what a compiler writes.
inline constexpr size_t kMaxTextBytes = 64u << 20;
inline constexpr size_t kMaxRegisters = 1u << 20;      // per module
inline constexpr size_t kMaxInstructions = 1u << 21;   // per module
inline constexpr size_t kMaxBlocks = 1u << 20;         // per module
inline constexpr size_t kMaxOperands = 1u << 22;       // per module, vector elements included
inline constexpr size_t kMaxBlockDepth = 128;
inline constexpr int kMaxExpressionDepth = 64;
inline constexpr size_t kMaxWords = 64;
inline constexpr size_t kMaxInstructionOperands = 256;
inline constexpr size_t kMaxElements = 1024;           // of a vector or an argument list
inline constexpr uint8_t kMaxOperandDepth = 2;         // [address, {coordinates}]
inline constexpr size_t kMaxDimensions = 8;
inline constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
inline constexpr uint64_t kMaxInitBytes = uint64_t{256} << 20;   // per module
inline constexpr uint64_t kMaxSpaceBytes = uint64_t{1} << 30;    // shared, local, parameters of a function
inline constexpr uint64_t kMaxParamBytes = 32764;                // PTX ISA 11.2.1, since PTX 8.1
inline constexpr uint32_t kMaxAlign = 1u << 20;
inline constexpr size_t kMaxSourceFiles = 1u << 16;
inline constexpr size_t kMaxTableLabels = 1u << 16;

inline std::string quoted(std::string_view name) {
    return "'" + std::string(name.substr(0, 200)) + (name.size() > 200 ? "...'" : "'");
}

inline uint64_t align_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

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
        uint32_t vector = 1;  // kRegister: elements, which have consecutive indices
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
    Operand register_operand(const Token& name, const Name& meaning);
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

// Offsets in the order of declaration; returns where the last one ends. (parser_module.cpp)
uint64_t place(std::vector<Variable>& list);

}   // namespace ptxemu

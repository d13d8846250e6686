// SPDX-License-Identifier: Apache-2.0
// Constant expressions (PTX ISA 4.5).
#include "parser.h"

#include <cmath>

namespace ptxemu {

static int precedence(std::string_view op) {
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

}   // namespace ptxemu

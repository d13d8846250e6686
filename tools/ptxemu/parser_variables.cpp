// SPDX-License-Identifier: Apache-2.0
// Variables, their sizes and initialisers (PTX ISA 5.4).
#include "parser.h"

namespace ptxemu {

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

}   // namespace ptxemu

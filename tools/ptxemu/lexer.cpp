// SPDX-License-Identifier: Apache-2.0
#include "lexer.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

namespace ptxemu {
namespace {

enum : uint8_t { kLetter = 1, kDigit = 2, kFollow = 4, kHexDigit = 8, kBlank = 16 };

constexpr std::array<uint8_t, 256> make_classes() {
    std::array<uint8_t, 256> classes{};
    for (int c = 'a'; c <= 'z'; ++c) classes[c] = kLetter | kFollow;
    for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kLetter | kFollow;
    for (int c = '0'; c <= '9'; ++c) classes[c] = kDigit | kFollow | kHexDigit;
    for (int c = 'a'; c <= 'f'; ++c) classes[c] |= kHexDigit;
    for (int c = 'A'; c <= 'F'; ++c) classes[c] |= kHexDigit;
    classes['_'] = classes['$'] = kFollow;
    for (char c : {' ', '\t', '\r', '\n', '\f', '\v'}) classes[static_cast<uint8_t>(c)] = kBlank;
    return classes;
}
constexpr std::array<uint8_t, 256> kClasses = make_classes();

bool has(char c, uint8_t mask) { return (kClasses[static_cast<uint8_t>(c)] & mask) != 0; }

int hex_value(char c) {
    if (c <= '9') return c - '0';
    return (c | 0x20) - 'a' + 10;
}

std::string printable(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) return std::string("'") + c + "'";
    static const char kHex[] = "0123456789abcdef";
    return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

}  // namespace

std::string describe(const Token& token) {
    if (token.kind == Token::Kind::kEnd) return "end of file";
    if (token.kind == Token::Kind::kString) return "a string";
    const bool number = token.kind == Token::Kind::kInteger || token.kind == Token::Kind::kFloat;
    std::string out = number ? "number '" : "'";
    if (token.kind == Token::Kind::kWord) out += '.';
    out += token.text.substr(0, 80);
    out += '\'';
    return out;
}

void Lexer::skip_blank() {
    while (position_ < text_.size()) {
        const char c = text_[position_];
        if (c == '\n') {
            ++line_;
            ++position_;
        } else if (has(c, kBlank)) {
            ++position_;
        } else if (c == '/' && at(position_ + 1) == '/') {
            const size_t end = text_.find('\n', position_);
            position_ = end == std::string_view::npos ? text_.size() : end;
        } else if (c == '/' && at(position_ + 1) == '*') {
            const size_t end = text_.find("*/", position_ + 2);
            if (end == std::string_view::npos) throw PtxError(line_, "comment without its end");
            for (size_t i = position_; i < end; ++i) line_ += text_[i] == '\n';
            position_ = end + 2;
        } else {
            return;
        }
    }
}

Token Lexer::scan() {
    skip_blank();
    Token token;
    token.line = line_;
    token_start_ = position_;
    if (position_ >= text_.size()) return token;
    const char c = text_[position_];

    if (has(c, kLetter) || ((c == '_' || c == '$' || c == '%') && has(at(position_ + 1), kFollow))) {
        size_t end = position_ + 1;
        while (has(at(end), kFollow)) ++end;
        token.kind = Token::Kind::kIdentifier;
        token.text = text_.substr(position_, end - position_);
        position_ = end;
        return token;
    }
    if (has(c, kDigit)) return scan_number();
    if (c == '.' && has(at(position_ + 1), kFollow)) {
        size_t end = position_ + 1;
        for (;;) {
            if (has(at(end), kFollow)) {
                ++end;
            } else if (at(end) == ':' && at(end + 1) == ':' && has(at(end + 2), kFollow)) {
                end += 2;
            } else {
                break;
            }
        }
        token.kind = Token::Kind::kWord;
        token.text = text_.substr(position_ + 1, end - position_ - 1);
        position_ = end;
        return token;
    }
    if (c == '"') {
        size_t end = position_ + 1;
        while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
        if (end >= text_.size() || text_[end] != '"') throw PtxError(line_, "string without its closing quote");
        token.kind = Token::Kind::kString;
        token.text = text_.substr(position_ + 1, end - position_ - 1);
        position_ = end + 1;
        return token;
    }
    token.kind = Token::Kind::kPunctuation;
    static constexpr std::string_view kPairs[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    const std::string_view two = text_.substr(position_, 2);
    for (std::string_view pair : kPairs) {
        if (two == pair) {
            token.text = two;
            position_ += 2;
            return token;
        }
    }
    if (c == '\0' || std::strchr("_()[]{}<>,;:+-*/%!~&|^?=@.", c) == nullptr) {
        const bool c_source = c == '#' && (position_ == 0 || text_[position_ - 1] == '\n');
        throw PtxError(line_, "unexpected " + printable(c) +
                                  (c_source ? " at the start of a line: nvcc -ptx makes PTX of CUDA C++" : ""));
    }
    token.text = text_.substr(position_, 1);
    ++position_;
    return token;
}

Token Lexer::scan_number() {
    Token token;
    token.line = line_;
    const size_t begin = position_;
    const auto finish = [&](size_t end) {
        if (has(at(end), kFollow)) throw PtxError(line_, "malformed number");
        token.text = text_.substr(begin, end - begin);
        position_ = end;
        return token;
    };
    const auto integer = [&](size_t end) {
        token.kind = Token::Kind::kInteger;
        token.is_unsigned = (token.bits >> 63) != 0;
        if (at(end) == 'U') {
            token.is_unsigned = true;
            ++end;
        }
        return finish(end);
    };
    const auto accumulate = [&](unsigned base, unsigned digit) {
        if (token.bits > (std::numeric_limits<uint64_t>::max() - digit) / base) {
            throw PtxError(line_, "integer does not fit in 64 bits");
        }
        token.bits = token.bits * base + digit;
    };

    const char c = text_[begin];
    const char marker = at(begin + 1);
    if (c == '0' && (marker == 'f' || marker == 'F' || marker == 'd' || marker == 'D')) {
        const size_t digits = (marker == 'f' || marker == 'F') ? 8 : 16;
        size_t i = begin + 2;
        for (; i < begin + 2 + digits && has(at(i), kHexDigit); ++i) {
            token.bits = token.bits << 4 | static_cast<unsigned>(hex_value(text_[i]));
        }
        if (i != begin + 2 + digits) {
            throw PtxError(line_, digits == 8 ? "0f needs 8 hexadecimal digits" : "0d needs 16 hexadecimal digits");
        }
        token.kind = Token::Kind::kFloat;
        token.single = digits == 8;
        return finish(i);
    }
    if (c == '0' && (marker == 'x' || marker == 'X')) {
        size_t i = begin + 2;
        if (!has(at(i), kHexDigit)) throw PtxError(line_, "0x needs hexadecimal digits");
        for (; has(at(i), kHexDigit); ++i) accumulate(16, static_cast<unsigned>(hex_value(text_[i])));
        return integer(i);
    }
    if (c == '0' && (marker == 'b' || marker == 'B')) {
        size_t i = begin + 2;
        if (at(i) != '0' && at(i) != '1') throw PtxError(line_, "0b needs binary digits");
        for (; at(i) == '0' || at(i) == '1'; ++i) accumulate(2, static_cast<unsigned>(text_[i] - '0'));
        return integer(i);
    }

    size_t end = begin;
    while (has(at(end), kDigit)) ++end;
    bool is_float = false;
    if (at(end) == '.' && !has(at(end + 1), kLetter | kFollow)) {
        is_float = true;
        ++end;
    } else if (at(end) == '.' && has(at(end + 1), kDigit)) {
        is_float = true;
        ++end;
        while (has(at(end), kDigit)) ++end;
    }
    if (at(end) == 'e' || at(end) == 'E') {
        const size_t digits = end + ((at(end + 1) == '+' || at(end + 1) == '-') ? 2 : 1);
        if (has(at(digits), kDigit)) {
            is_float = true;
            end = digits;
            while (has(at(end), kDigit)) ++end;
        }
    }
    if (is_float) {
        double value = 0;
        const auto result = std::from_chars(text_.data() + begin, text_.data() + end, value);
        if (result.ec != std::errc()) throw PtxError(line_, "floating-point number out of range");
        std::memcpy(&token.bits, &value, sizeof value);
        token.kind = Token::Kind::kFloat;
        return finish(end);
    }
    const bool octal = c == '0' && end > begin + 1;
    for (size_t i = begin; i < end; ++i) {
        const auto digit = static_cast<unsigned>(text_[i] - '0');
        if (octal && digit > 7) throw PtxError(line_, "octal number with digit 8 or 9");
        accumulate(octal ? 8 : 10, digit);
    }
    return integer(end);
}

void Lexer::peek_number() {
    const Token& word = peek();
    if (word.kind != Token::Kind::kWord || !has(word.text[0], kDigit)) return;
    line_ = word.line;
    position_ = token_start_;
    next_ = scan_number();
}

}  // namespace ptxemu

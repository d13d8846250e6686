// SPDX-License-Identifier: Apache-2.0
// Tokens of PTX text, made on demand; one token of look-ahead.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ir.h"

namespace ptxemu {

struct Token {
    enum class Kind : uint8_t {
        kEnd,
        kIdentifier,  // text: name, with its leading $ % _
        kWord,        // text: a dotted word without its dot, "::" parts included: "b32", "kind::f8f6f4", "32x32b"
        kInteger,     // bits, is_unsigned
        kFloat,       // bits: f64, or f32 where single
        kString,      // text: between the quotes, escapes untouched
        kPunctuation  // text: one or two characters
    };
    Kind kind = Kind::kEnd;
    bool is_unsigned = false;
    bool single = false;
    int line = 0;
    uint64_t bits = 0;
    std::string_view text;

    bool is(char c) const { return kind == Kind::kPunctuation && text.size() == 1 && text[0] == c; }
    bool is(std::string_view s) const { return kind == Kind::kPunctuation && text == s; }
};

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}

    const Token& peek() {
        if (!has_next_) {
            next_ = scan();
            has_next_ = true;
        }
        return next_;
    }
    Token take() {
        if (has_next_) {
            has_next_ = false;
            return next_;
        }
        return scan();
    }
    // A decimal such as `.05` reads as a kWord; where an operand stands, the parser asks for it as a number.
    void peek_number();
    int line() const { return line_; }

  private:
    Token scan();
    Token scan_number();
    void skip_blank();
    char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

    std::string_view text_;
    size_t position_ = 0;
    size_t token_start_ = 0;
    int line_ = 1;
    bool has_next_ = false;
    Token next_;
};

// How a token reads in a message: 'text', or "end of file".
std::string describe(const Token& token);

}  // namespace ptxemu

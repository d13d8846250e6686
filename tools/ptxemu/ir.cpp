// SPDX-License-Identifier: Apache-2.0
#include "ir.h"

#include <array>
#include <cstdio>
#include <iterator>

namespace ptxemu {
namespace {

struct TypeRow {
    std::string_view name;
    int bytes;
};
// In the order of Type.
constexpr std::array<TypeRow, 25> kTypes = {{
    {"", 0},      {"pred", 1},
    {"b8", 1},    {"b16", 2},    {"b32", 4},   {"b64", 8},     {"b128", 16},
    {"u8", 1},    {"u16", 2},    {"u32", 4},   {"u64", 8},
    {"s8", 1},    {"s16", 2},    {"s32", 4},   {"s64", 8},
    {"f16", 2},   {"f16x2", 4},  {"bf16", 2},  {"bf16x2", 4},  {"f32", 4},  {"f32x2", 8},  {"f64", 8},
    {"e4m3", 1},  {"e5m2", 1},   {"tf32", 4},
}};
static_assert(kTypes.size() == static_cast<size_t>(Type::kTf32) + 1);

void append_offset(std::string& out, int64_t offset) {
    if (offset == 0) return;
    out += '+';   // "+-8" as nvcc writes it
    out += std::to_string(offset);
}

void append(std::string& out, const Operand& operand) {
    if (operand.negated) out += '!';
    switch (operand.kind) {
        case Operand::Kind::kRegister:
        case Operand::Kind::kSpecial:
        case Operand::Kind::kSymbol:
            out += operand.name;
            append_offset(out, operand.offset);
            break;
        case Operand::Kind::kImmediate: {
            char text[32];
            if (operand.is_float && operand.is_double) {
                std::snprintf(text, sizeof text, "0d%016llX", static_cast<unsigned long long>(operand.bits));
            } else if (operand.is_float) {
                std::snprintf(text, sizeof text, "0f%08X", static_cast<unsigned>(operand.bits));
            } else {
                std::snprintf(text, sizeof text, "%lld", static_cast<long long>(operand.bits));
            }
            out += text;
            break;
        }
        case Operand::Kind::kMemory:
            out += '[';
            for (size_t i = 0; i < operand.elements.size(); ++i) {
                if (i != 0) out += ", ";
                append(out, operand.elements[i]);
                if (i == 0) append_offset(out, operand.offset);
            }
            out += ']';
            break;
        case Operand::Kind::kVector:
            if (operand.has_pair) {
                append(out, operand.elements[0]);
                out += '|';
                append(out, operand.elements[1]);
                break;
            }
            out += '{';
            for (size_t i = 0; i < operand.elements.size(); ++i) {
                if (i != 0) out += ", ";
                append(out, operand.elements[i]);
            }
            out += '}';
            break;
        case Operand::Kind::kSink:
            out += '_';
            break;
    }
}

}  // namespace

int type_bytes(Type t) { return kTypes[static_cast<size_t>(t)].bytes; }

std::string_view type_name(Type t) { return kTypes[static_cast<size_t>(t)].name; }

Type type_from_name(std::string_view name) {
    for (size_t i = 1; i < kTypes.size(); ++i) {
        if (kTypes[i].name == name) return static_cast<Type>(i);
    }
    return Type::kNone;
}

std::string Instruction::text() const {
    std::string out;
    if (has_guard) {
        out += guard_negated ? "@!" : "@";
        out += guard_name;
        out += ' ';
    }
    out += opcode;
    for (const std::string& modifier : modifiers) {
        out += '.';
        out += modifier;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
        out += i == 0 ? " " : ", ";
        append(out, operands[i]);
    }
    out += ';';
    return out;
}

const Variable* Module::find_global(std::string_view name) const {
    const auto found = global_index.find(name);
    return found == global_index.end() ? nullptr : &globals[found->second];
}

uint64_t function_address(const Module& module, const std::string& name) {
    constexpr uint64_t kFunctionWindow = 14ull << 48;   // beside those of shared, local and parameter memory
    const auto found = module.functions.find(name);
    if (found == module.functions.end()) return 0;
    return kFunctionWindow + 16 * (1 + static_cast<uint64_t>(std::distance(module.functions.begin(), found)));
}

}  // namespace ptxemu

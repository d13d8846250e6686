// SPDX-License-Identifier: Apache-2.0
// What the parser makes of a PTX module: syntax only, no meaning. The decoder (isa.*) gives each instruction its
// meaning, or refuses it with the PTX line.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptxemu {

// Any error in PTX text or in what it asks for. line is 1-based in the PTX text, 0 where there is none.
struct PtxError : std::runtime_error {
    int line;
    PtxError(int line, const std::string& message) : std::runtime_error(message), line(line) {}
};

enum class Type : uint8_t {
    kNone, kPred,
    kB8, kB16, kB32, kB64, kB128,
    kU8, kU16, kU32, kU64,
    kS8, kS16, kS32, kS64,
    kF16, kF16x2, kBf16, kBf16x2, kF32, kF32x2, kF64,
    kE4m3, kE5m2, kTf32
};
int type_bytes(Type t);                 // 0 for kNone; kPred 1
std::string_view type_name(Type t);     // "u32"; without the dot
Type type_from_name(std::string_view);  // kNone if unknown

enum class Space : uint8_t { kNone, kReg, kConst, kGlobal, kLocal, kParam, kShared };

struct Operand {
    enum class Kind : uint8_t {
        kRegister,   // reg
        kSpecial,    // name: "%tid.x", "%laneid", ...
        kImmediate,  // bits (two's complement integer, or IEEE bits if is_float: 0fXXXXXXXX -> f32, 0dX -> f64 or a decimal)
        kSymbol,     // name: variable, parameter, function or label (branch targets too); offset where written name+imm
        kMemory,     // [base+offset] or [base, {c0, c1}] or [base, coordinate, mbarrier ...]: elements = the comma-separated parts, in order;
                     // offset belongs to elements[0]
        kVector,     // {a, b, ...}: elements
        kSink        // _
    };
    Kind kind = Kind::kSink;
    bool negated = false;        // '!' in front (predicate operands) 
    bool is_float = false;
    bool is_double = false;      // is_float: the bits are f64
    uint32_t reg = 0;            // index into Function::registers
    uint64_t bits = 0;
    int64_t offset = 0;
    std::string name;
    std::vector<Operand> elements;
    bool has_pair = false;       // `p|q` destinations (setp, shfl, elect ...): elements = {p, q}, kind kVector
};

struct Instruction {
    std::string opcode;                  // "tcgen05.mma", "ld", ...: the first dotted word; modifiers holds all the others
    std::vector<std::string> modifiers;  // without dots, in order: {"cta_group::1", "kind::f8f6f4"}, {"global", "nc", "f32"}
    std::vector<Operand> operands;       // in written order, destination first
    bool has_guard = false;              // @p / @!p
    bool guard_negated = false;
    uint32_t guard = 0;                  // register index
    int line = 0;                        // 1-based line in the PTX text
    int source_file = 0;                 // .loc: index into Module::source_files, 0 where unknown
    int source_line = 0;
    std::string text() const;            // canonical text, for messages
};

struct Register { std::string name; Type type; };

struct Variable {                        // module or function scope, or a parameter
    std::string name;
    Space space = Space::kNone;
    Type type = Type::kNone;
    uint64_t bytes = 0;                  // total size (arrays included)
    uint32_t align = 1;
    uint64_t offset = 0;                 // parameters: byte offset in the parameter buffer; static shared and local: offset in that space
    bool is_extern = false;              // extern shared: the dynamic part
    std::vector<uint8_t> init;           // initialised bytes, zero-extended to `bytes`
    int line = 0;
};

struct Function {
    std::string name;
    bool is_entry = false;
    bool is_declaration = false;
    std::vector<Variable> params;        // entry parameters in order, offsets filled in
    std::vector<Variable> returns;       // .func only
    uint32_t param_bytes = 0;
    std::vector<Register> registers;     // all .reg of the function, ranges expanded: "%r1" ...
    std::vector<Variable> locals;        // .local, .shared and call-scope .param declared in the body
    std::vector<Instruction> body;
    std::map<std::string, uint32_t> labels;              // label -> index into body (may equal body.size())
    std::map<std::string, std::vector<std::string>> branch_targets;  // .branchtargets tables for brx.idx
    uint32_t static_shared_bytes = 0;    // function-scope .shared, offsets from 0; module-scope .shared come first
    uint32_t local_bytes = 0;
    uint32_t reqntid[3] = {0, 0, 0};
    uint32_t maxntid[3] = {0, 0, 0};
    uint32_t maxnreg = 0, minnctapersm = 0;
    uint32_t reqnctapercluster[3] = {0, 0, 0};
    bool explicit_cluster = false;
    int line = 0;
};

struct Module {
    int version_major = 0, version_minor = 0;
    std::string target;                  // "sm_100f", "sm_90a", "sm_80"
    int address_size = 64;
    std::vector<Variable> globals;       // .global .const .shared at module scope
    std::map<std::string, std::unique_ptr<Function>> functions;
    std::vector<std::string> source_files;   // index 0 is ""
    uint32_t module_shared_bytes = 0;
};

// Parses PTX text. Throws PtxError with the line; never crashes or hangs, whatever the text.
std::unique_ptr<Module> parse_ptx(std::string_view text);

}  // namespace ptxemu

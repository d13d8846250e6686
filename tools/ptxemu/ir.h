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
        kImmediate,  // bits (two's complement integer, or IEEE bits if is_float: 0fXXXXXXXX -> f32, 0dX or a decimal
                     // -> f64)
        kSymbol,     // name: variable, parameter, function or label (branch targets too), made unique (see Function);
                     // offset where written name+imm
        kMemory,     // [base+offset] or [base, {c0, c1}] or [base, coordinate, mbarrier ...]: elements = the
                     // comma-separated parts, in order. `offset` of the kMemory operand itself is what is added to
                     // elements[0]; elements[0].offset is 0
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
    std::string name;            // kRegister too: as written
    std::vector<Operand> elements;
    bool has_pair = false;       // `p|q` destinations (setp, shfl, elect ...): elements = {p, q}, kind kVector; a part
                                 // may be kSink
};

// opcode: the first dotted word ("ld", "setp", "shfl", "bar", "fence", "elect", "griddepcontrol" ...), except for the
// families whose members are different instructions. There it holds the words that name the member:
//   tcgen05.X  wgmma.X  mbarrier.X  tensormap.X  clusterlaunchcontrol.X  multimem.X
//   (X one word: "tcgen05.wait::ld"; "mbarrier.arrive", the modifiers of which then begin with a written "expect_tx")
//   barrier.cluster.arrive/wait  cp.async  cp.async.{commit_group,wait_group,wait_all,bulk}  cp.async.mbarrier.arrive
//   cp.async.bulk.{tensor,prefetch,commit_group,wait_group}  cp.async.bulk.prefetch.tensor
//   cp.reduce.async.bulk  cp.reduce.async.bulk.tensor
// Operands of `call`, whatever was left out: {vector of returns, target (symbol or register), vector of arguments
// [, prototype or target table]}; the two vectors may be empty.
struct Instruction {
    std::string opcode;
    std::vector<std::string> modifiers;  // all other words, without dots: {"cta_group::1", "kind::f8f6f4"}
    std::vector<Operand> operands;       // in written order, destination first
    bool has_guard = false;              // @p / @!p
    bool guard_negated = false;
    uint32_t guard = 0;                  // register index
    std::string guard_name;              // as written, for text()
    int line = 0;                        // 1-based line in the PTX text
    int source_file = 0;                 // .loc: index into Module::source_files, 0 where unknown
    int source_line = 0;
    std::string text() const;            // canonical text, for messages
};

struct Register { std::string name; Type type; };

// In an initialiser: the address of a symbol, to be stored once addresses are known.
struct Relocation {
    uint64_t offset = 0;                 // byte position in the variable
    uint32_t bytes = 8;                  // bytes stored there, little endian
    uint32_t shift = 0;                  // value >> shift is what is stored: the mask() operator
    std::string symbol;                  // module variable or function
    int64_t addend = 0;
};

struct Variable {                        // module or function scope, or a parameter
    std::string name;
    Space space = Space::kNone;
    Type type = Type::kNone;
    uint64_t bytes = 0;                  // total size (arrays included)
    uint32_t align = 1;
    uint64_t offset = 0;                 // parameters: byte offset in the parameter buffer; call-scope .param: in the
                                         // function's call area; static shared: absolute in the CTA's static shared
                                         // window; local: in the frame; kReg (.func parameters): register index
    bool is_extern = false;              // extern shared: the dynamic part
    std::vector<uint8_t> init;           // initialised bytes, zero-extended to `bytes`
    std::vector<Relocation> relocations;
    int line = 0;
};

// Names in a function's operands, locals, labels and tables are unique within it and differ from module names where
// they hide one: what a nested block declares is called "name#N" (N: the block), so a plain look-up needs no scopes.
// Order of look-up: registers are already resolved; then locals, params, returns, labels, tables, module.
struct Prototype { std::vector<Variable> returns, params; };

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
    std::map<std::string, std::vector<std::string>> call_targets;    // .calltargets
    std::map<std::string, Prototype> prototypes;                     // .callprototype
    uint32_t static_shared_bytes = 0;    // end of the static shared window of a launch of this entry: module-scope
                                         // .shared and that of .func bodies come first (module_shared_bytes)
    uint32_t local_bytes = 0;
    uint32_t call_param_bytes = 0;       // call area: all call-scope .param of the body
    bool noreturn = false;
    uint32_t reqntid[3] = {0, 0, 0};
    uint32_t maxntid[3] = {0, 0, 0};
    uint32_t maxnreg = 0, minnctapersm = 0;
    uint32_t reqnctapercluster[3] = {0, 0, 0};
    uint32_t maxclusterrank = 0;
    bool explicit_cluster = false, blocks_are_clusters = false;
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
    std::map<std::string, size_t, std::less<>> global_index;    // name -> index into globals
    const Variable* find_global(std::string_view name) const;   // null if there is none
};

// What a function's name stands for where its address is taken: a number in a window of its own. 0: no such function.
uint64_t function_address(const Module& module, const std::string& name);

// Parses PTX text. Throws PtxError with the line; never crashes or hangs, whatever the text.
std::unique_ptr<Module> parse_ptx(std::string_view text);

}  // namespace ptxemu

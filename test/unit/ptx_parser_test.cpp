// SPDX-License-Identifier: Apache-2.0
// The PTX parser on what nvcc writes, on each construct of PTX ISA 4 to 6 and 11 by hand, and on wrong text. Expected
// values are read off the text or worked out from the manual.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "catch_any.h"
#include "ptx_samples.h"
#include "tools/ptxemu/ir.h"

using namespace ptxemu;

namespace {

constexpr char kHeader[] = ".version 9.0\n.target sm_100f\n.address_size 64\n";

// A kernel with this body: its first line is line 11 of the text.
std::string kernel(const std::string& body) {
    return std::string(kHeader) +
           ".entry k(.param .u64 p0)\n{\n.reg .pred p, q;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<4>;\n"
           ".reg .f64 d;\n" +
           body + "\n}\n";
}

const Function& only(const Module& module) {
    REQUIRE(module.functions.count("k") == 1);
    return *module.functions.at("k");
}

Instruction parse_one(const std::string& line) {
    const auto module = parse_ptx(kernel(line));
    REQUIRE(only(*module).body.size() == 1);
    return only(*module).body[0];
}

struct Refusal {
    int line;
    std::string message;
};
Refusal refused(const std::string& text) {
    try {
        parse_ptx(text);
    } catch (const PtxError& e) {
        return {e.line, e.what()};
    }
    return {-1, "accepted"};
}

const Variable& local(const Function& f, const std::string& name) {
    for (const Variable& v : f.locals) {
        if (v.name == name) return v;
    }
    FAIL("no local " << name);
    return f.locals[0];
}

std::string squashed(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "//") == 0) break;
        if (text[i] == '#') {   // the number of a block behind a name
            while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9') ++i;
            continue;
        }
        if (text[i] != ' ' && text[i] != '\t') out += text[i];
    }
    return out;
}

// Every instruction that stands on a line of its own reads back as that line.
void check_round_trip(const std::string& text, size_t at_least) {
    const auto module = parse_ptx(text);
    std::vector<std::string> lines{""};
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    size_t compared = 0;
    for (const auto& [name, f] : module->functions) {
        int previous = 0;
        for (const Instruction& i : f->body) {
            REQUIRE(i.line > previous);
            previous = i.line;
            std::string written = squashed(lines[static_cast<size_t>(i.line)]);
            if (i.opcode == "call" || written.back() != ';' || written.find("0x") != std::string::npos) continue;
            // "[param0+0]" is the same address as "[param0]".
            for (size_t at; (at = written.find("+0]")) != std::string::npos;) written.erase(at, 2);
            CHECK(squashed(i.text()) == written);
            ++compared;
        }
        for (const auto& [label, index] : f->labels) CHECK(index <= f->body.size());
    }
    CHECK(compared >= at_least);
}

std::vector<int> bytes(const Module& module, const char* name) {
    const Variable* v = module.find_global(name);
    REQUIRE(v != nullptr);
    return {v->init.begin(), v->init.end()};
}

}   // namespace

TEST_CASE("nvcc's instructions read back as they were written", "[parser]") {
    check_round_trip(kSampleTcgen05, 140);
    check_round_trip(kSampleIndirect, 150);
    check_round_trip(kSampleAdd, 15);
}

TEST_CASE("the kernels' own PTX", "[parser]") {
    const char* list = std::getenv("LIDX_TEST_PTX");   // colon-separated; set by the build
    if (list == nullptr) return;
    std::istringstream files(list);
    size_t entries = 0;
    for (std::string path; std::getline(files, path, ':');) {
        INFO(path);
        std::ifstream file(path, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        REQUIRE(!text.empty());
        check_round_trip(text, 100);
        const auto module = parse_ptx(text);
        for (const auto& [name, f] : module->functions) entries += f->is_entry ? 1u : 0u;
        const size_t declared = [&] {
            size_t count = 0;
            for (size_t at = text.find(".visible .entry"); at != std::string::npos;
                 at = text.find(".visible .entry", at + 1))
                ++count;
            return count;
        }();
        CHECK(declared > 0);
        CHECK(entries >= declared);
    }
    CHECK(entries > 0);
}

TEST_CASE("a kernel with inline asm: parameters, scopes, labels", "[parser]") {
    const auto module = parse_ptx(kSampleTcgen05);
    CHECK(module->version_major == 9);
    CHECK(module->version_minor == 0);
    CHECK(module->target == "sm_100f");
    CHECK(module->address_size == 64);
    const Function& f = *module->functions.at("kern");
    CHECK(f.is_entry);
    CHECK(f.maxntid[0] == 128);
    CHECK(f.maxntid[1] == 1);
    CHECK(f.minnctapersm == 2);
    REQUIRE(f.params.size() == 3);
    CHECK(f.params[0].offset == 0);
    CHECK(f.params[0].align == 64);
    CHECK(f.params[1].offset == 128);
    CHECK(f.params[2].offset == 256);
    CHECK(f.params[2].bytes == 32);
    CHECK(f.param_bytes == 288);
    CHECK(f.static_shared_bytes == 20);   // two mbarriers, then a word
    CHECK(local(f, "_ZZ4kernE2tm").offset == 16);
    CHECK(f.local_bytes == 8);

    // Three blocks declare p, one declares P1; each use means its own.
    std::vector<uint32_t> predicates;
    for (const Instruction& i : f.body) {
        if (i.opcode == "elect") {
            REQUIRE(i.operands.size() == 2);
            CHECK(i.operands[0].has_pair);
            CHECK(i.operands[0].elements[0].kind == Operand::Kind::kSink);
            predicates.push_back(i.operands[0].elements[1].reg);
            CHECK(i.operands[1].bits == 0xffffffff);
        }
        if (i.opcode == "mbarrier.try_wait") predicates.push_back(i.operands[0].reg);
        if (i.opcode == "tcgen05.mma") {
            CHECK(i.modifiers == std::vector<std::string>{"cta_group::1", "kind::f8f6f4"});
            REQUIRE(i.operands.size() == 6);
            CHECK(i.operands[0].kind == Operand::Kind::kMemory);
            CHECK(i.operands[4].elements.size() == 4);
            predicates.push_back(i.operands[5].reg);
        }
        if (i.opcode == "cp.async.bulk.tensor") {
            CHECK(i.modifiers[0] == "3d");
            CHECK(i.modifiers.back() == "mbarrier::complete_tx::bytes");
            REQUIRE(i.operands.size() == 3);
            REQUIRE(i.operands[1].elements.size() == 2);
            CHECK(i.operands[1].elements[1].kind == Operand::Kind::kVector);
            CHECK(i.operands[1].elements[1].elements.size() == 3);
        }
    }
    REQUIRE(predicates.size() == 3);
    std::sort(predicates.begin(), predicates.end());
    CHECK(std::adjacent_find(predicates.begin(), predicates.end()) == predicates.end());
    for (uint32_t p : predicates) CHECK(f.registers[p].type == Type::kPred);

    // The loop of the block: WAIT is in front of the try_wait, DONE behind the branch back.
    const auto wait =
        std::find_if(f.labels.begin(), f.labels.end(), [](auto& l) { return l.first.rfind("WAIT#", 0) == 0; });
    REQUIRE(wait != f.labels.end());
    CHECK(f.body[wait->second].opcode == "mbarrier.try_wait");
    CHECK(f.body[wait->second + 2].operands[0].name == wait->first);
    const std::string done = f.body[wait->second + 1].operands[0].name;
    REQUIRE(f.labels.count(done) == 1);
    CHECK(f.labels.at(done) == wait->second + 3);

    // .loc of the instruction in an inlined function
    const auto dyn = std::find_if(f.body.begin(), f.body.end(), [](const Instruction& i) {
        return i.operands.size() == 2 && i.operands[1].name == "dyn";
    });
    REQUIRE(dyn != f.body.end());
    CHECK(dyn->source_line == 151);
    CHECK(module->source_files.at(static_cast<size_t>(dyn->source_file)) == "sm_20_intrinsics.hpp");

    CHECK(module->find_global("dyn")->is_extern);
    CHECK(module->find_global("dyn")->align == 1024);
    CHECK(bytes(*module, "kTab") == std::vector<int>{0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 96, 64, 0, 0, 0, 128});
    CHECK(bytes(*module, "$str").size() == 5);
    CHECK(module->find_global("$str")->bytes == 6);
    REQUIRE(module->find_global("gm")->relocations.size() == 1);
    CHECK(module->find_global("gm")->relocations[0].offset == 8);
    CHECK(module->find_global("gm")->relocations[0].symbol == "gv");
    CHECK(module->functions.at("vprintf")->is_declaration);
}

TEST_CASE("calls: direct and through a prototype", "[parser]") {
    const auto module = parse_ptx(kSampleIndirect);
    const Function& f = *module->functions.at("k2");
    CHECK(f.explicit_cluster);
    CHECK(f.reqnctapercluster[0] == 2);
    CHECK(f.reqnctapercluster[2] == 1);
    std::vector<const Instruction*> calls;
    for (const Instruction& i : f.body) {
        if (i.opcode == "call") calls.push_back(&i);
    }
    REQUIRE(calls.size() == 2);
    REQUIRE(calls[0]->operands.size() == 4);
    CHECK(calls[0]->operands[0].elements.size() == 1);
    CHECK(calls[0]->operands[1].kind == Operand::Kind::kRegister);
    CHECK(calls[0]->operands[2].elements.size() == 1);
    const std::string& prototype = calls[0]->operands[3].name;
    REQUIRE(f.prototypes.count(prototype) == 1);
    CHECK(f.prototypes.at(prototype).returns.at(0).bytes == 4);
    CHECK(f.prototypes.at(prototype).params.size() == 1);
    REQUIRE(calls[1]->operands.size() == 3);
    CHECK(calls[1]->operands[0].elements.empty());
    CHECK(calls[1]->operands[1].name == "__assertfail");
    REQUIRE(calls[1]->operands[2].elements.size() == 5);
    // Both call sequences declare param0; the two are different variables.
    CHECK(calls[0]->operands[2].elements[0].name != calls[1]->operands[2].elements[0].name);
    CHECK(local(f, calls[1]->operands[2].elements[2].name).bytes == 4);
    REQUIRE(module->find_global("tab")->relocations.size() == 2);
    CHECK(module->find_global("tab")->relocations[1].symbol == "_Z2f2f");
    CHECK(module->find_global("n")->relocations[0].addend == 8);

    const Function& t = *module->functions.at("_Z2tkILi3EEvcs4int4Px");
    CHECK(t.params[0].offset == 0);    // char
    CHECK(t.params[1].offset == 2);    // short
    CHECK(t.params[2].offset == 16);   // int4
    CHECK(t.params[3].offset == 32);   // pointer
    CHECK(t.param_bytes == 40);
}

TEST_CASE("operands: every form of a number", "[parser]") {
    struct Row {
        const char* text;
        uint64_t bits;
        int kind;   // 0 integer, 1 f32, 2 f64
    };
    const Row rows[] = {
        {"42", 42, 0},
        {"-1", ~uint64_t{0}, 0},
        {"0x1F", 31, 0},
        {"0X1fU", 31, 0},
        {"017", 15, 0},
        {"0b101", 5, 0},
        {"0", 0, 0},
        {"42U", 42, 0},
        {"0xffffffffffffffff", ~uint64_t{0}, 0},
        {"18446744073709551615", ~uint64_t{0}, 0},
        {"WARP_SZ", 32, 0},
        {"WARP_SZ-1", 31, 0},
        {"~0", ~uint64_t{0}, 0},
        {"!7", 0, 0},
        {"!0", 1, 0},
        {"(2+3)*4", 20, 0},
        {"2+3*4", 14, 0},
        {"1<<4|1", 17, 0},
        {"-8>>1", static_cast<uint64_t>(-4), 0},
        {"-8U>>1", 0x7ffffffffffffffc, 0},
        {"-7/2", static_cast<uint64_t>(-3), 0},
        {"7 % 4", 3, 0},
        {"-1 < 1", 1, 0},
        {"-1 < 1U", 0, 0},
        {"(.u64)-1 < 1", 0, 0},
        {"1 ? 5 : 6", 5, 0},
        {"0 ? 5 : 1 ? 7 : 8", 7, 0},
        {"3 && 0 || 2", 1, 0},
        {"5 == 5 != 0", 1, 0},
        {"6 & 3 ^ 1", 3, 0},
        {"0f3F800000", 0x3f800000, 1},
        {"0Fbf800000", 0xbf800000, 1},
        {"-0f3F800000", 0xbf800000, 1},
        {"0d3FF0000000000000", 0x3ff0000000000000, 2},
        {"1.0", 0x3ff0000000000000, 2},
        {"1.", 0x3ff0000000000000, 2},
        {".5", 0x3fe0000000000000, 2},
        {"-2.5e-1", 0xbfd0000000000000, 2},
        {"1e3", 0x408f400000000000, 2},
        {"0.5+0.25", 0x3fe8000000000000, 2},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        const Instruction i = parse_one(std::string("mov.b64 %rd1, ") + row.text + ";");
        REQUIRE(i.operands.size() == 2);
        CHECK(i.operands[1].kind == Operand::Kind::kImmediate);
        CHECK(i.operands[1].bits == row.bits);
        CHECK(i.operands[1].is_float == (row.kind != 0));
        CHECK(i.operands[1].is_double == (row.kind == 2));
    }
}

TEST_CASE("operands: addresses, vectors, pairs, guards, special registers", "[parser]") {
    Instruction i = parse_one("@!p ld.global.v2.u32 {%r1, _}, [%rd1+-8+4*2];");
    CHECK(i.has_guard);
    CHECK(i.guard_negated);
    CHECK(i.opcode == "ld");
    CHECK(i.modifiers == std::vector<std::string>{"global", "v2", "u32"});
    CHECK(i.operands[0].elements[1].kind == Operand::Kind::kSink);
    CHECK(i.operands[1].offset == 0);
    CHECK(i.operands[1].elements[0].kind == Operand::Kind::kRegister);

    i = parse_one("ld.param.u64 %rd1, [p0+0x10-8];");
    CHECK(i.operands[1].elements[0].name == "p0");
    CHECK(i.operands[1].offset == 8);
    CHECK(i.operands[1].elements[0].offset == 0);

    i = parse_one("ld.global.u32 %r1, [4096];");
    CHECK(i.operands[1].elements[0].bits == 4096);

    i = parse_one("setp.lt.and.s32 p|q, %r1, %r2, !p;");
    CHECK(i.operands[0].has_pair);
    CHECK(i.operands[0].elements[1].name == "q");
    CHECK(i.operands[3].negated);

    i = parse_one("mov.u64 %rd1, p0+12;");
    CHECK(i.operands[1].kind == Operand::Kind::kSymbol);
    CHECK(i.operands[1].offset == 12);

    for (const char* name : {"%tid.x", "%ctaid.z", "%ntid.w", "%laneid", "%clock64", "%globaltimer", "%cluster_ctarank",
                             "%dynamic_smem_size", "%envreg31", "%pm7", "%pm3_64", "%lanemask_lt", "%nclusterid.y",
                             "%reserved_smem_offset_1", "%is_explicit_cluster"}) {
        INFO(name);
        i = parse_one(std::string("mov.u32 %r1, ") + name + ";");
        CHECK(i.operands[1].kind == Operand::Kind::kSpecial);
        CHECK(i.operands[1].name == name);
    }
    for (const char* name : {"%tid", "%envreg32", "%pm8", "%bogus", "%r8", "%r01"}) {
        INFO(name);
        CHECK(refused(kernel(std::string("mov.u32 %r1, ") + name + ";")).line == 11);
    }
    i = parse_one("prefetch.tensormap [%rd1];");
    CHECK(i.text() == "prefetch.tensormap [%rd1];");
}

TEST_CASE("the opcode holds the words that name the member of a family", "[parser]") {
    const std::pair<const char*, const char*> rows[] = {
        {"tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::ld"},
        {"tcgen05.fence::after_thread_sync;", "tcgen05.fence::after_thread_sync"},
        {"wgmma.commit_group.sync.aligned;", "wgmma.commit_group"},
        {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 8;", "mbarrier.arrive"},
        {"barrier.cluster.arrive.release.aligned;", "barrier.cluster.arrive"},
        {"bar.sync 0;", "bar"},
        {"cp.async.ca.shared.global [%r1], [%rd1], 16;", "cp.async"},
        {"cp.async.commit_group;", "cp.async.commit_group"},
        {"cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", "cp.async.mbarrier.arrive"},
        {"cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group"},
        {"cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];", "cp.async.bulk.prefetch.tensor"},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];",
         "cp.async.bulk"},
        {"cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd1, {%r1}], [%r2];",
         "cp.reduce.async.bulk.tensor"},
        {"fence.proxy.async.shared::cta;", "fence"},
        {"griddepcontrol.wait;", "griddepcontrol"},
        {"exit;", "exit"},
    };
    for (const auto& [text, opcode] : rows) {
        INFO(text);
        const Instruction i = parse_one(text);
        CHECK(i.opcode == opcode);
        CHECK(i.text() == text);
    }
}

TEST_CASE("variables: sizes, alignment, initialisers", "[parser]") {
    const auto module = parse_ptx(std::string(kHeader) + R"(
.const .f32 vals[4] = {1.0, 0.5, 0f40000000};
.global .s32 x[3][2] = { {1,2}, {3} };
.global .s32 open[][2] = { {-1, 0}, {0, -1}, {1} };
.global .align 8 .u64 table[] = {generic(x)+4, vals, 7};
.global .u8 split[2] = {0xff(generic(x)+1), 0xff00(131187)};
.global .v4 .f32 v;
.global .f64 one = 1.0;
.global .attribute(.managed) .u16 h = 0xffff;
.visible .global .u8 a, b[3];
.shared .align 16 .b8 s0[20];
.shared .b64 s1;
.extern .shared .align 128 .b8 dyn[];
)");
    CHECK(bytes(*module, "vals") == std::vector<int>{0, 0, 128, 63, 0, 0, 0, 63, 0, 0, 0, 64});
    CHECK(module->find_global("vals")->bytes == 16);
    CHECK(module->find_global("vals")->space == Space::kConst);
    CHECK(bytes(*module, "x") == std::vector<int>{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0});
    CHECK(module->find_global("x")->bytes == 24);
    CHECK(module->find_global("open")->bytes == 24);
    CHECK(bytes(*module, "open").size() == 20);
    CHECK(bytes(*module, "open")[12] == 255);
    CHECK(bytes(*module, "open")[16] == 1);
    const Variable& table = *module->find_global("table");
    CHECK(table.bytes == 24);
    REQUIRE(table.relocations.size() == 2);
    CHECK(table.relocations[0].addend == 4);
    CHECK(table.relocations[1].symbol == "vals");
    CHECK(table.relocations[1].offset == 8);
    CHECK(table.init[16] == 7);
    const Variable& split = *module->find_global("split");
    REQUIRE(split.relocations.size() == 1);
    CHECK(split.relocations[0].bytes == 1);
    CHECK(split.relocations[0].shift == 0);
    CHECK(split.init[1] == (131187 >> 8 & 0xff));
    CHECK(module->find_global("v")->align == 16);
    CHECK(module->find_global("v")->bytes == 16);
    CHECK(bytes(*module, "one") == std::vector<int>{0, 0, 0, 0, 0, 0, 240, 63});
    CHECK(bytes(*module, "h") == std::vector<int>{255, 255});
    CHECK(module->find_global("b")->bytes == 3);
    CHECK(module->find_global("s1")->offset == 24);
    CHECK(module->module_shared_bytes == 32);
    CHECK(module->find_global("dyn")->bytes == 0);
    CHECK(module->find_global("nothing") == nullptr);
}

TEST_CASE("shared memory of the module and of functions lies below a kernel's own", "[parser]") {
    const auto module = parse_ptx(std::string(kHeader) + R"(
.shared .b32 m;
.func f() { .shared .b64 in_f; ret; }
.entry k() { .shared .b8 one; .shared .align 64 .b8 two[8]; ret; }
.entry none() { ret; }
)");
    CHECK(local(*module->functions.at("f"), "in_f").offset == 8);
    CHECK(module->module_shared_bytes == 16);
    const Function& k = *module->functions.at("k");
    CHECK(local(k, "one").offset == 64);
    CHECK(local(k, "two").offset == 128);
    CHECK(k.static_shared_bytes == 136);
    CHECK(module->functions.at("none")->static_shared_bytes == 16);
}

TEST_CASE("a kernel has the shared variables of the module that it or its callees name", "[parser]") {
    const auto module = parse_ptx(std::string(kHeader) + R"(
.shared .align 16 .b8 of_k[100];
.shared .align 4 .b8 of_both[20];
.shared .align 128 .b8 of_l[64];
.func f() { .reg .b32 %r; mov.u32 %r, of_l; ret; }
.entry k() { .shared .b32 own; .reg .b32 %r; mov.u32 %r, of_k; ld.shared.b32 %r, [of_both+4]; ret; }
.entry l() { .reg .b32 %r; st.shared.b32 [of_both], %r; call f; ret; }
.entry none() { ret; }
)");
    CHECK(module->find_global("of_k")->offset == 0);
    CHECK(module->find_global("of_both")->offset == 100);
    CHECK(module->find_global("of_l")->offset == 0);   // never in one launch with of_k
    const Function& k = *module->functions.at("k");
    CHECK(local(k, "own").offset == 120);
    CHECK(k.static_shared_bytes == 124);
    CHECK(module->functions.at("l")->static_shared_bytes == 120);
    CHECK(module->functions.at("none")->static_shared_bytes == 0);
}

TEST_CASE("blocks hide names and give them back", "[parser]") {
    const auto module =
        parse_ptx(kernel("L: mov.u32 %r1, 1;\n{ .reg .b32 %r1; L: mov.u32 %r1, 2; bra L; bra OUT;\n"
                         "{ .reg .b32 %r<2>; mov.u32 %r1, 3; mov.u32 %r2, 4; } }\n"
                         "mov.u32 %r1, 5; bra L; OUT:"));
    const Function& f = only(*module);
    REQUIRE(f.body.size() == 8);
    const uint32_t outer = f.body[0].operands[0].reg, middle = f.body[1].operands[0].reg;
    CHECK(outer != middle);
    CHECK(f.body[2].operands[0].name != "L");
    CHECK(f.labels.at(f.body[2].operands[0].name) == 1);
    CHECK(f.body[3].operands[0].name == "OUT");
    CHECK(f.labels.at("OUT") == 8);
    CHECK(f.body[4].operands[0].reg != middle);
    CHECK(f.body[4].operands[0].reg != outer);
    CHECK(f.registers[f.body[5].operands[0].reg].name == "%r2");
    CHECK(f.body[6].operands[0].reg == outer);
    CHECK(f.body[7].operands[0].name == "L");
    CHECK(f.labels.at("L") == 0);
}

TEST_CASE("tables of branches and calls, aliases, directives", "[parser]") {
    const auto module = parse_ptx(std::string(kHeader) + R"(
.func (.reg .b32 out) g(.reg .b32 in) .noreturn;
.func (.reg .b32 out) g(.reg .b32 in) { mov.b32 out, in; ret; }
.func (.reg .b32 out) h(.reg .b32 in);
.alias h, g;
.entry k() .maxntid 64, 2 .reqntid 32 .maxnreg 40 .maxclusterrank 4 .blocksareclusters .pragma "nounroll";
{
  .reg .b32 i; .reg .b64 t;
  N0: N1: mov.b32 i, 0; N2:
  ts: .branchtargets N<3>;
  us: .branchtargets N2, N0;
  brx.idx i, ts;
  cs: .calltargets g, h;
  call (i), t, (i), cs;
  call (i), h, (i);
  .pragma "used_bytes_mask 0x1";
  ret;
})");
    const Function& k = *module->functions.at("k");
    CHECK(k.branch_targets.at("ts") == std::vector<std::string>{"N0", "N1", "N2"});
    CHECK(k.branch_targets.at("us") == std::vector<std::string>{"N2", "N0"});
    CHECK(k.labels.at("N1") == 0);
    CHECK(k.labels.at("N2") == 1);
    CHECK(k.body[1].operands[1].name == "ts");
    CHECK(k.call_targets.at("cs").size() == 2);
    CHECK(k.body[3].operands[1].name == "g");   // through the alias
    CHECK(k.maxntid[1] == 2);
    CHECK(k.maxntid[2] == 1);
    CHECK(k.reqntid[0] == 32);
    CHECK(k.maxnreg == 40);
    CHECK(k.maxclusterrank == 4);
    CHECK(k.blocks_are_clusters);
    const Function& g = *module->functions.at("g");
    CHECK(!g.is_declaration);
    CHECK(g.registers[g.params[0].offset].name == "in");
}

TEST_CASE("wrong text names its line", "[parser]") {
    struct Row {
        std::string text;
        int line;
        const char* part;
    };
    const std::string h = kHeader;
    const Row rows[] = {
        {"", 1, "must begin with .version"},
        {".version 9.0", 1, "expected .target"},
        {".version 10.0\n.target sm_80\n", 1, "outside 3.0..9.x"},
        {".version 9\n.target sm_80\n", 1, "a version such as 9.0"},
        {".version 9.0\n.target debug\n", 2, "names no sm_"},
        {".version 9.0\n.target sm_1x0\n", 2, "unknown target"},
        {".version 9.0\n.target sm_80\n.address_size 32\n", 3, "only 64"},
        {h + "/* never ends", 4, "comment without its end"},
        {h + ".global .b8 a\n", 5, "expected ';'"},
        {h + ".global .b8 a;\n.global .b8 a;", 5, "defined twice"},
        {h + ".global .b9 a;", 4, "unknown type .b9"},
        {h + ".global .align 3 .b8 a;", 4, "not a power of two"},
        {h + ".global .pred p;", 4, ".pred outside .reg"},
        {h + ".global .b8 a[2] = {1,2,3};", 4, "too many elements"},
        {h + ".global .b8 a[2][2] = {1};", 4, "'{' for each dimension"},
        {h + ".global .u64 a = nowhere;", 4, "undefined symbol 'nowhere'"},
        {h + ".global .u32 a[4294967296][4294967296];", 4, "too large"},
        {h + ".global .b8 a[1073741824][4] = {{1},{2}};\n.global .b8 b[4] = {1/0};", 5, "division by zero"},
        {h + ".shared .b32 a = 1;", 4, "cannot have an initialiser"},
        {h + ".wrong", 4, "unknown directive .wrong"},
        {h + ".entry k(.param .u64 p0) .wrong {}", 4, "unknown directive .wrong"},
        {h + ".entry k() { ret; }\n.entry k() { ret; }", 5, "defined twice"},
        {h + ".entry k(.param .b8 p[40000]) { ret; }", 4, "more than 32764"},
        {h + ".entry k() { ret;", 4, "no closing '}'"},
        {kernel("mov.u32 %r1, %r2"), 12, "expected ',' or ';'"},
        {kernel("mov.u32 %r1, 0x;"), 11, "0x needs"},
        {kernel("mov.u32 %r1, 09;"), 11, "octal"},
        {kernel("mov.u32 %r1, 0f123;"), 11, "8 hexadecimal"},
        {kernel("mov.u32 %r1, 18446744073709551616;"), 11, "64 bits"},
        {kernel("mov.u32 %r1, 1e999;"), 11, "out of range"},
        {kernel("mov.u32 %r1, 12abc;"), 11, "malformed number"},
        {kernel("\nmov.u32 %r1, nowhere;"), 12, "undefined symbol"},
        {kernel("bra NOWHERE;"), 11, "undefined symbol"},
        {kernel("{ IN: }\nbra IN;"), 12, "undefined symbol 'IN'"},
        {kernel("ts: .branchtargets NOWHERE;"), 11, "undefined label"},
        {kernel("@%r1 ret;"), 11, "not a .pred"},
        {kernel("@nope ret;"), 11, "undeclared guard"},
        {kernel("L: L: ret;"), 11, "declared twice"},
        {kernel(".reg .b32 p;"), 11, "declared twice"},
        {kernel(".reg .b32 %r<9>;"), 11, "declared twice"},
        {kernel(".reg .v4 .f32 acc<2>;"), 11, "range of vector registers"},
        {kernel(".reg .v2 .f32 acc; mov.f32 acc.z, acc.x;"), 11, "no element .z"},
        {kernel("selp.b32 %r1, 1, 0, !%r2;"), 11, "needs a .pred"},
        {kernel("ld.u32 %r1, [_];"), 11, "an address must be"},
        {kernel("ld.u32 %r1, [%r2, {%r1, {%r2}}];"), 11, "nested too deeply"},
        {kernel("mov.u32 %r1, \"text\";"), 11, "expected a constant"},
        {kernel("mov.u32 %r1, \x01;"), 11, "unexpected byte 0x01"},
        {kernel("mov.u32 %r1, #;"), 11, "unexpected '#'"},
        {"#include <cuda.h>\n", 1, "nvcc -ptx makes PTX of CUDA C++"},
        {kernel("mov.u32 0f3F800000+1;"), 11, "cannot be part"},
        {kernel(".loc 1 2;"), 11, "source column"},
        {kernel("mov.u32 %r1, 1.5|2;"), 11, "mixes"},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        const Refusal refusal = refused(row.text);
        CHECK(refusal.line == row.line);
        CHECK(refusal.message.find(row.part) != std::string::npos);
        if (refusal.message.find(row.part) == std::string::npos) UNSCOPED_INFO(refusal.message);
    }
}

TEST_CASE("text that aims at memory, stack or time is refused, or read in linear time", "[parser]") {
    const auto repeat = [](const std::string& part, size_t count) {
        std::string out;
        out.reserve(part.size() * count);
        for (size_t i = 0; i < count; ++i) out += part;
        return out;
    };
    const auto started = std::chrono::steady_clock::now();
    CHECK(refused(kernel(repeat("{", 100000))).message.find("blocks nested too deeply") != std::string::npos);
    CHECK(refused(kernel("mov.u32 %r1, " + repeat("(", 100000))).message.find("nested too deeply") !=
          std::string::npos);
    CHECK(refused(kernel("mov.u32 %r1, " + repeat("-", 100000))).message.find("nested too deeply") !=
          std::string::npos);
    CHECK(refused(kernel("mov.u32 %r1, " + repeat("1?1:", 100000))).message.find("nested too deeply") !=
          std::string::npos);
    CHECK(refused(kernel("mov.u32 %r1, " + repeat("{", 100000))).line == 11);
    CHECK(refused(kernel("mov.u32 " + repeat("[", 100000))).line == 11);
    CHECK(refused(kernel("mov.b32 {" + repeat("%r1,", 5000) + "%r1}, 1;")).message.find("1024") != std::string::npos);
    CHECK(refused(kernel("mov.b32 " + repeat("%r1,", 5000) + "1;")).message.find("too many operands") !=
          std::string::npos);
    CHECK(refused(kernel(".reg .b32 %x<4000000000>;")).line == 11);
    CHECK(refused(kernel(repeat(".reg .b32 a<1000000>;", 2))).message.find("registers") != std::string::npos);
    CHECK(refused(kernel(".shared .b8 s[4000000000];")).message.find("too many bytes") != std::string::npos);
    CHECK(refused(std::string(kHeader) + ".global .b8 a[1000000000][2] = {" + repeat("{},", 300000000 / 4000) + "{1}};")
              .line == -1);
    CHECK(
        refused(std::string(kHeader) + ".global .b8 a[2][1000000000] = {{},{1}};").message.find("initialisers hold") !=
        std::string::npos);
    CHECK(refused(std::string(kHeader) + ".file 99999999 \"x\"").line == 4);
    CHECK(refused(kernel("mov.u32 %r1, 1" + repeat("+1", 300000) + ";")).line == -1);
    CHECK(refused(kernel("bra" + repeat(".a", 1000) + " L; L:")).message.find("modifiers") != std::string::npos);
    // 20 000 labels, all referenced from the deepest block.
    std::string labels, branches;
    for (int i = 0; i < 20000; ++i) {
        labels.append("L").append(std::to_string(i)).append(":");
        branches.append("bra L").append(std::to_string(i)).append(";");
    }
    CHECK(refused(kernel(repeat("{", 100) + branches + repeat("}", 100) + labels)).line == -1);
    CHECK(refused(kernel(repeat("x", 1000000) + ";")).line == -1);
    CHECK(refused(kernel("//" + repeat("/*", 1000000) + "\n")).line == -1);
    CHECK(refused(std::string(kHeader) + std::string(size_t{65} << 20, ' ')).line == 1);
    CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(20));
}

TEST_CASE("a large module parses fast", "[parser]") {
    std::string body;
    int count = 0;
    while (body.size() < 200000) {
        const std::string number = std::to_string(count++);
        body.append("L").append(number).append(
            ":\tfma.rn.f32 \t%f1, %f2, %f3, %f1;\n\tld.global.v2.u32 \t{%r1, %r2}, ");
        body.append("[%rd1+").append(number).append("];\n\tsetp.ne.s32 \tp, %r1, 0;\n\t@p bra \tL0;\n");
    }
    const std::string text = kernel(body);
    double best = 1e9;
    for (int run = 0; run < 5; ++run) {
        const auto started = std::chrono::steady_clock::now();
        const auto module = parse_ptx(text);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
        CHECK(only(*module).body.size() == static_cast<size_t>(4 * count));
    }
    INFO("200 KB in " << best * 1e3 << " ms");
    CHECK(best < 0.2);   // 3 ms on one 2025 core; the margin is for sanitizers and busy machines
}

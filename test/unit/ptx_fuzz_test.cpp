// SPDX-License-Identifier: Apache-2.0
// Mutated and random PTX for a bounded time: the parser answers or throws PtxError, soon, whatever it reads.
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "catch_any.h"
#include "ptx_samples.h"
#include "tools/ptxemu/ir.h"

using namespace ptxemu;

namespace {

const std::vector<std::string> kTokens = {".version",
                                          "9.0",
                                          ".target",
                                          "sm_100f",
                                          ".address_size",
                                          "64",
                                          ".entry",
                                          ".func",
                                          ".param",
                                          ".reg",
                                          ".shared",
                                          ".local",
                                          ".global",
                                          ".const",
                                          ".align",
                                          ".b8",
                                          ".b32",
                                          ".u64",
                                          ".f32",
                                          ".pred",
                                          ".loc",
                                          ".file",
                                          ".section",
                                          ".extern",
                                          ".visible",
                                          ".alias",
                                          ".pragma",
                                          ".maxntid",
                                          ".branchtargets",
                                          ".callprototype",
                                          "k",
                                          "%r1",
                                          "%r<4>",
                                          "%tid.x",
                                          "p",
                                          "L",
                                          "_",
                                          "{",
                                          "}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "<",
                                          ">",
                                          ",",
                                          ";",
                                          ":",
                                          "+",
                                          "-",
                                          "*",
                                          "/",
                                          "%",
                                          "!",
                                          "~",
                                          "&",
                                          "|",
                                          "^",
                                          "?",
                                          "=",
                                          "@",
                                          "@!",
                                          "0",
                                          "1",
                                          "0x7fffffffffffffff",
                                          "0f3F800000",
                                          "1.5",
                                          ".5",
                                          "-1",
                                          "generic",
                                          "mov.u32",
                                          "ld.global.v4.f32",
                                          "call",
                                          "bra",
                                          "ret",
                                          "\"s\"",
                                          "//",
                                          "/*",
                                          "*/",
                                          "\n",
                                          "0xff",
                                          "18446744073709551615"};

std::string mutate(std::string text, std::mt19937& random, const std::vector<std::string>& corpus) {
    const int edits = 1 + static_cast<int>(random() % 8);
    for (int e = 0; e < edits && !text.empty(); ++e) {
        const size_t at = random() % text.size();
        const size_t length = std::min<size_t>(random() % 64, text.size() - at);
        switch (random() % 7) {
            case 0: text[at] = static_cast<char>(random()); break;
            case 1: text.erase(at, length); break;
            case 2: text.insert(at, text.substr(random() % text.size(), length)); break;
            case 3: text.insert(at, " " + kTokens[random() % kTokens.size()] + " "); break;
            case 4: text.resize(at); break;
            case 5: {
                const std::string& other = corpus[random() % corpus.size()];
                text.insert(at, other.substr(random() % other.size(), random() % 512));
                break;
            }
            default: text.replace(at, length, kTokens[random() % kTokens.size()]); break;
        }
    }
    return text;
}

}   // namespace

TEST_CASE("mutated and random PTX", "[fuzz]") {
    const std::vector<std::string> corpus = {kSampleTcgen05, kSampleIndirect, kSampleAdd};
    const char* seconds = std::getenv("LIDX_FUZZ_SECONDS");
    const char* seed = std::getenv("LIDX_FUZZ_SEED");
    const auto limit = std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 3.0);
    std::mt19937 random(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1u);
    const auto started = std::chrono::steady_clock::now();
    size_t accepted = 0, refused = 0;
    double longest = 0;
    while (std::chrono::steady_clock::now() - started < limit) {
        std::string text;
        if (random() % 4 == 0) {
            text = ".version 9.0\n.target sm_80\n";
            if (random() % 2 == 0) text += ".entry k() {\n.reg .b32 %r<4>;\n";
            for (size_t n = random() % 200; n != 0; --n) text += kTokens[random() % kTokens.size()] + " ";
        } else {
            text = mutate(corpus[random() % corpus.size()], random, corpus);
        }
        const auto before = std::chrono::steady_clock::now();
        try {
            const auto module = parse_ptx(text);
            // What the decoder relies on: every index and name resolves.
            for (const auto& [name, f] : module->functions) {
                for (const Instruction& i : f->body) {
                    REQUIRE(!i.text().empty());
                    REQUIRE((!i.has_guard || i.guard < f->registers.size()));
                    for (const Operand& o : i.operands) {
                        if (o.kind == Operand::Kind::kRegister) REQUIRE(o.reg < f->registers.size());
                        if (o.kind == Operand::Kind::kMemory) REQUIRE(!o.elements.empty());
                    }
                }
                for (const auto& [label, index] : f->labels) REQUIRE(index <= f->body.size());
            }
            ++accepted;
        } catch (const PtxError& e) {
            REQUIRE(e.line >= 0);
            REQUIRE(e.what()[0] != '\0');
            ++refused;
        }
        longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
    }
    INFO(accepted << " accepted, " << refused << " refused, longest " << longest << " s");
    CHECK(refused > 50);
    CHECK(accepted > 5);   // so the mutations are not all hopeless
    CHECK(longest < 2.0);
}

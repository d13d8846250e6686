// SPDX-License-Identifier: Apache-2.0
// What the checks of a launch found: one record per kind and pair of instructions, however often it happened.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ptxemu {

enum class Severity : uint8_t {
    kWarning,   // known-good code relies on it, though the manual does not promise it
    kError      // the launch fails
};

// One side of a finding: an instruction and who executed it.
struct Party {
    std::string role;   // "warp 3, lane 0"; "TMA load of warp 0, lane 0"; "MMA of warp 1, lane 0"; empty: nobody known
    uint32_t pc = ~0u;
    int ptx_line = 0;          // 0: unknown
    std::string instruction;   // its PTX text
    std::string source;        // file:line of .loc; empty where the PTX has none
    uint32_t cta[3] = {0, 0, 0};
};

struct Finding {
    std::string code;   // stable, kebab-case: docs/emulator.md has the table
    Severity severity = Severity::kError;
    Party party, other;          // other.pc == ~0u: one side only
    std::string space;           // "shared", "global", "tensor memory", "register"; empty: none
    uint64_t address = 0;        // of the first byte; lane << 16 | column in Tensor Memory
    uint64_t bytes = 0;          // 0: no address
    std::string place;           // "byte 16 of the 64 bytes of buffer x", "byte 0 of variable tile"; empty: not known
    std::string what;            // the sentence
    std::string would_order;     // which instruction would have ordered the two sides; empty: not a matter of order
    std::string kernel;
    uint64_t count = 1;
};

// "ptxemu: error [code] what ..., PTX line ..." on one line, the other side and the remedy on a second one.
std::string finding_text(const Finding& finding);

// "[code] [code]" of the errors, each once.
std::string error_codes(const std::vector<Finding>& findings);

using FindingKey = std::tuple<std::string, uint32_t, uint32_t>;   // code, pc, other pc

// Warnings that launches of a program have printed: the next ones need not. Launches may run side by side.
class ToldWarnings {
  public:
    // Whether it is the first time.
    bool add(const FindingKey& key) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return keys_.insert(key).second;
    }
    size_t size() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return keys_.size();
    }

  private:
    mutable std::mutex mutex_;
    std::set<FindingKey> keys_;
};

// Of one launch; its workers share it. The first finding of a key is printed and kept, later ones are counted. told:
// null: the launch prints all warnings.
class FindingLog {
  public:
    static constexpr size_t kMaxFindings = 100;   // distinct ones; the launch then ends

    explicit FindingLog(ToldWarnings* told) : told_(told) {}
    // False: full of errors, stop the launch.
    bool add(Finding finding);
    // Counts one more of what is there already; false if it is not.
    bool again(const std::string& code, uint32_t pc, uint32_t other);
    std::vector<Finding> take();   // in the order of their first occurrence

  private:
    mutable std::mutex mutex_;
    std::map<FindingKey, size_t> index_;
    std::vector<Finding> findings_;
    ToldWarnings* told_;
};

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Runs cases in child processes: a crash, a hang or a lost CUDA context is one failed row, not the end of the run.
// Children are this program again, started with posix_spawn (a process that called cuInit must not fork).
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace check {

enum class Verdict { kOk, kFail, kSkip };

struct Result {
    std::string name;
    Verdict verdict = Verdict::kFail;
    std::string symbol = "-", hash = "-", event_order = "-";
    double seconds = 0;       // wall clock of the whole case, reference included
    double microseconds = 0;  // --bench: one launch
    std::string reason;
};

struct ChildSetup {
    std::vector<std::string> arguments;                            // after argv[0]
    std::vector<std::pair<std::string, std::string>> environment;  // added or replaced
    int jobs = 1;
    double limit_seconds = 120;  // per case
};

// Calls report once per name, from one thread at a time, in the order of completion. False: no child could work at all;
// *error says why.
bool run_in_children(const ChildSetup& setup, const std::vector<std::string>& names,
                     const std::function<void(const Result&)>& report, std::string* error);

// The child's half. Takes the names from standard input.
class ChildLink {
public:
    ChildLink();
    const std::vector<std::string>& names() const { return names_; }
    void begin(size_t i) const;
    void end(size_t i, const Result& result) const;
    void fatal(const std::string& text) const;

private:
    void send(const std::string& line) const;
    std::vector<std::string> names_;
};

}  // namespace check

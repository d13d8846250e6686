// SPDX-License-Identifier: Apache-2.0
// What the double-precision reference makes of a case, and how far a kernel may be from it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "case_io.h"
#include "test/ref/error_bound.h"
#include "test/ref/sm90_fast_model.h"

namespace lidx::command {

// option: the name of the arithmetic that computed a file of results; empty: what its sidecar names. exact: bits will
// be demanded, and any bound will do. Throws Failure(kBadInput).
ref::Arithmetic find_arithmetic(const std::filesystem::path& results, const std::string& option, bool exact);

// Throws Failure(kBadInput), naming the first value that is not on the exact lattice.
void require_lattice(const Case& c);

class CaseOracle {
  public:
    CaseOracle(const Case& c, ref::Arithmetic arithmetic);

    // The row that score() is asked for next.
    void take_row(int64_t row);
    // Of a key that the row sees.
    ref::BoundedScore score(int32_t request, int64_t key);

  private:
    const Case& c_;
    ref::Arithmetic arithmetic_;
    bool fast_;
    std::vector<ref::Operand> q_;   // [heads]
    const float* q_scale_ = nullptr;
    ref::FastQuery fast_row_ = {};
    ref::Operand k_;
};

}  // namespace lidx::command

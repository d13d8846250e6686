// SPDX-License-Identifier: Apache-2.0
// Shared libraries with the entry point of rival.h.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "bench/candidates.h"
#include "rival.h"

namespace lidx::command {

class Rival {
  public:
    // Throws Failure(kBadInput), naming the file and what it lacks.
    explicit Rival(const std::string& path);

    const std::string& name() const { return name_; }
    const std::string& path() const { return path_; }
    // Null where the rival does not do this work, or cannot: then *problem says why.
    std::unique_ptr<Candidate> candidate(const Machine& machine, const Workload& workload, const Extent& extent,
                                         const InputCopies& copies, std::string* problem) const;

  private:
    std::string path_, name_;
    decltype(&::lidx_rival_prepare) prepare_ = nullptr;
    decltype(&::lidx_rival_run) run_ = nullptr;
    decltype(&::lidx_rival_release) release_ = nullptr;
};

}  // namespace lidx::command

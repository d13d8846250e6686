// SPDX-License-Identifier: Apache-2.0
// Results of an earlier run, from the file that --json wrote.
#pragma once
#include <filesystem>

#include "bench/results.h"

namespace lidx::command {

// Throws Failure(kBadInput), naming the file and the field that is missing or of another type.
Results read_results(const std::filesystem::path& path);

}  // namespace lidx::command

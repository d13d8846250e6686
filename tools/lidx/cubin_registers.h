// SPDX-License-Identifier: Apache-2.0
// What the cubins inside the library say about a kernel, read without a device.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lidx::command {

// Registers per thread of a kernel in every embedded cubin of its source that holds it: {"sm_100", 96}, ... in the
// cubins' order. source: stem of kernel/*.cu.
std::vector<std::pair<std::string, int>> cubin_registers(const char* source, const std::string& symbol);

}  // namespace lidx::command

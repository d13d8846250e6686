// SPDX-License-Identifier: Apache-2.0
// What the cubins inside the library say about a kernel, read without a device.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lidx::command {

// Registers per thread of a kernel in every embedded cubin that holds it: {"sm_100", 96}, ... in the cubins' order.
std::vector<std::pair<std::string, int>> cubin_registers(const std::string& symbol);

}  // namespace lidx::command

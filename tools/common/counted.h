// SPDX-License-Identifier: Apache-2.0
// Numbers of things, as messages give them.
#pragma once
#include <concepts>
#include <string>

namespace tool {

// "1 row", "2 rows".
template <std::integral Count>
std::string counted(Count count, const std::string& one, const std::string& many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
}
template <std::integral Count>
std::string counted(Count count, const std::string& one) {
    return counted(count, one, one + "s");
}

}  // namespace tool

// SPDX-License-Identifier: Apache-2.0
// Addresses as messages give them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace ptxemu {

inline std::string hex(uint64_t value) {
    char text[2 + 16 + 1];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

}   // namespace ptxemu

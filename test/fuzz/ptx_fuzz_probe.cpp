// SPDX-License-Identifier: Apache-2.0
// Links if clang has libFuzzer and the sanitizers.
#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(data), bytes).empty() ? 0 : 0;
}

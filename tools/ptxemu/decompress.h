// SPDX-License-Identifier: Apache-2.0
// The two compressions of fat binaries: LZ4 blocks and Zstandard frames.
#pragma once
#include <cstdint>
#include <string>

namespace ptxemu {

enum class Compression : uint8_t { kLz4, kZstd };

// Writes exactly out_bytes of text; false, with the reason, for a damaged input. Zstandard needs libzstd.so.1, which
// nearly every system has; it is looked for when it is needed.
bool decompress(Compression kind, const uint8_t* data, uint64_t bytes, uint64_t out_bytes, std::string* out,
                std::string* why);

}   // namespace ptxemu

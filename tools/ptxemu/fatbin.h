// SPDX-License-Identifier: Apache-2.0
// What cuModuleLoadData takes: a fat binary, its wrapper, or PTX text; and the PTX in it that fits a device.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ptxemu {

struct ImageError : std::runtime_error {
    enum class Kind : uint8_t {
        kInvalidImage,  // not an image, or a damaged one
        kNoBinary       // sound, but holds no PTX that this device runs
    };
    Kind kind;
    ImageError(Kind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
};

// Whether code for `target` ("sm_80", "sm_90a", "sm_100f") runs on a device of this compute capability (major * 10 +
// minor): plain targets on their own and later ones, `f` on later ones of the same major number, `a` on its own only.
bool target_runs_on(std::string_view target, int compute_capability);

// The PTX text of an image. readable_bytes: how far `image` may be read; an image of another length says so itself, and
// its own length fields are trusted only below that. Among several PTX texts that fit, the highest architecture wins,
// then `a` before `f` before plain. Compressed PTX is expanded. Throws ImageError.
std::string select_ptx(const void* image, uint64_t readable_bytes, int compute_capability);

// Bytes from `address` up to the first one that this process cannot read; 0 where it is not readable at all.
uint64_t readable_bytes_at(const void* address);

}  // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Checks of single fields. Each throws with a text that names the field, its value and its limit.
#pragma once
#include <lidx.h>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "host/status.h"
#include "kernel/problem.h"

namespace lidx {

inline constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
// globalStrides of a tensor map are below 2^40 (CUDA driver API, cuTensorMapEncodeTiled).
inline constexpr int64_t kMaxStrideBytes = (int64_t{1} << 40) - 1;

// Of a lidx_float_type that has been checked.
inline int float_bytes(int32_t float_type) { return float_bytes(static_cast<FloatType>(float_type)); }

inline std::string equals(const char* field, int64_t value) {
    return std::string(field) + " = " + std::to_string(value);
}

inline std::string hexadecimal(uint64_t value) {
    char text[2 + 16 + 1];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

// Of a set of flags.
inline std::string equals_bits(const char* field, uint32_t value) {
    return std::string(field) + " = " + hexadecimal(value);
}

// type: the struct's name. init: what fills it in, where there is such a function.
template <typename Struct>
void require_struct_size(const Struct& value, const char* type, const char* init = nullptr) {
    if (value.struct_size != sizeof(Struct))
        fail(LIDX_ERR_STRUCT_SIZE, std::string(type) + ".struct_size = " + std::to_string(value.struct_size) +
                                       ": this version expects " + std::to_string(sizeof(Struct)) +
                                       (init != nullptr ? std::string("; call ") + init : ""));
}

// why: where the limit comes from, behind it.
inline void require_range(const char* field, int64_t value, int64_t low, int64_t high, const char* why = "") {
    if (value < low || value > high)
        fail(LIDX_ERR_VALUE, equals(field, value) + ": must be " + std::to_string(low) +
                                 (low < high ? " .. " + std::to_string(high) : "") + why);
}

inline void require_multiple(const char* field, int64_t value, int64_t step) {
    if (value % step != 0)
        fail(LIDX_ERR_ALIGNMENT, equals(field, value) + ": must be a multiple of " + std::to_string(step));
}

// count * stride * unit bytes must be addressable.
inline void require_span(const char* count_field, int64_t count, const char* stride_field, int64_t stride,
                         int64_t unit_bytes) {
    if (count != 0 && stride > kMaxInt64 / unit_bytes / count)
        fail(LIDX_ERR_VALUE, equals(stride_field, stride) + " with " + equals(count_field, count) + ": " +
                                 std::to_string(unit_bytes) + " * " + count_field + " * " + stride_field +
                                 " must be below 2^63 bytes");
}

// The word that LIDX_FLAG_CHECK sets, rounded up to the workspace's alignment.
inline constexpr size_t kCheckWorkspaceBytes = 16;

inline void require_pointer(const char* field, const void* pointer, uintptr_t alignment_bytes) {
    if (pointer == nullptr) fail(LIDX_ERR_NULL, std::string(field) + " is null");
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % alignment_bytes != 0)
        fail(LIDX_ERR_ALIGNMENT, std::string(field) + " = address " + hexadecimal(address) +
                                     ": must be a multiple of " + std::to_string(alignment_bytes));
}

// A pointer that is read (why: what makes it so), or else one that must be null.
inline void require_if(bool used, const char* field, const void* pointer, uintptr_t alignment_bytes, const char* why) {
    if (used) return require_pointer(field, pointer, alignment_bytes);
    if (pointer != nullptr) fail(LIDX_ERR_VALUE, std::string(field) + " is not null: the plan's " + why);
}

// who: what needs it, for the text.
inline void require_workspace(const void* workspace, size_t workspace_bytes, const char* who, size_t needed_bytes) {
    const std::string needs = std::string(": ") + who + " needs " + std::to_string(needed_bytes);
    if (workspace == nullptr) fail(LIDX_ERR_WORKSPACE, "workspace is null" + needs + " bytes");
    if (workspace_bytes < needed_bytes)
        fail(LIDX_ERR_WORKSPACE, "workspace_bytes = " + std::to_string(workspace_bytes) + needs);
    require_pointer("workspace", workspace, 16);
}

}  // namespace lidx

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

// A field as messages name it. of: what stands before the name, as "score." where a description has another in it.
struct Field {
    constexpr Field(const char* name) : of(""), name(name) {}
    constexpr Field(const char* of, const char* name) : of(of), name(name) {}
    std::string text() const { return std::string(of) + name; }

    const char* of;
    const char* name;
};
// The fields of one struct: fields("batch").
struct Fields {
    const char* of = "";
    constexpr Field operator()(const char* name) const { return {of, name}; }
};

inline std::string equals(const Field& field, int64_t value) { return field.text() + " = " + std::to_string(value); }

inline std::string hexadecimal(uint64_t value) {
    char text[2 + 16 + 1];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

// Of a set of flags.
inline std::string equals_bits(const Field& field, uint32_t value) { return field.text() + " = " + hexadecimal(value); }

// names: of the flags that are allowed.
inline void require_flags(const Field& field, uint32_t flags, uint32_t allowed, const char* names) {
    if ((flags & ~allowed) != 0)
        fail(LIDX_ERR_VALUE, equals_bits(field, flags) + ": may hold " + names + ", the bits of " +
                                 hexadecimal(allowed));
}
inline void require_no_flags(const Field& field, uint32_t flags) {
    if (flags != 0) fail(LIDX_ERR_VALUE, equals_bits(field, flags) + ": must be 0");
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
inline void require_range(const Field& field, int64_t value, int64_t low, int64_t high, const char* why = "") {
    if (value < low || value > high)
        fail(LIDX_ERR_VALUE, equals(field, value) + ": must be " + std::to_string(low) +
                                 (low < high ? " .. " + std::to_string(high) : "") + why);
}

inline void require_multiple(const Field& field, int64_t value, int64_t step) {
    if (value % step != 0)
        fail(LIDX_ERR_ALIGNMENT, equals(field, value) + ": must be a multiple of " + std::to_string(step));
}

// count * stride * unit bytes must be addressable.
inline void require_span(const Field& count_field, int64_t count, const Field& stride_field, int64_t stride,
                         int64_t unit_bytes) {
    if (count != 0 && stride > kMaxInt64 / unit_bytes / count)
        fail(LIDX_ERR_VALUE, equals(stride_field, stride) + " with " + equals(count_field, count) + ": " +
                                 std::to_string(unit_bytes) + " * " + count_field.text() + " * " + stride_field.text() +
                                 " must be below 2^63 bytes");
}

// Bytes from page to page, of which each holds `capacity` keys of key_bytes.
inline void require_page_stride(const Field& field, int64_t stride, const Field& pages_field, int64_t pages,
                                const Field& capacity_field, int64_t capacity, int64_t key_bytes) {
    const int64_t needed = capacity * key_bytes;
    if (stride < needed)
        fail(LIDX_ERR_VALUE, equals(field, stride) + ": must be at least " + std::to_string(needed) + " = " +
                                 capacity_field.text() + " * " + std::to_string(key_bytes) + " bytes");
    require_range(field, stride, 0, kMaxStrideBytes);
    require_span(pages_field, pages, field, stride, 1);
}

// The word that LIDX_FLAG_CHECK sets, rounded up to the workspace's alignment.
inline constexpr size_t kCheckWorkspaceBytes = 16;

inline void require_pointer(const Field& field, const void* pointer, uintptr_t alignment_bytes) {
    if (pointer == nullptr) fail(LIDX_ERR_NULL, field.text() + " is null");
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % alignment_bytes != 0)
        fail(LIDX_ERR_ALIGNMENT, field.text() + " = address " + hexadecimal(address) +
                                     ": must be a multiple of " + std::to_string(alignment_bytes));
}

// A pointer that is read, or else one that must be null, since `reason` is as `is` says.
inline void require_if(bool used, const Field& field, const void* pointer, uintptr_t alignment_bytes,
                       const Field& reason, const char* is) {
    if (used) return require_pointer(field, pointer, alignment_bytes);
    if (pointer != nullptr) fail(LIDX_ERR_VALUE, field.text() + " is not null: " + reason.text() + " " + is);
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

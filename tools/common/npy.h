// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files (format 1.0 to 3.0; numpy.lib.format), little-endian, C order. The reader believes nothing before
// it has checked it: magic, version, header length, every key of the header, the element type, the order, the product
// of the shape and the file's size. Messages name the file, the field, its value and what was expected; they arrive as
// Failure(kBadInputCode).
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

using Shape = std::vector<int64_t>;

// "(3, 4)" as NumPy writes it.
std::string shape_text(const Shape& shape);

template <class T>
struct Npy {
    Shape shape;
    std::vector<T> data;   // C order
};

inline constexpr int64_t kAnySize = -1;

// T: uint8_t, int32_t or float. `expected` has one entry per dimension, kAnySize where any will do; `why`: where they
// come from, for the message.
template <class T>
Npy<T> read_npy(const std::filesystem::path& path, const Shape& expected, std::string_view why = {});

// Writes the file whole, or throws and leaves none. The product of the shape must be data.size().
template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> data);

// Any plain little-endian type: descr as NumPy writes it ("<f4", "|u1"), the data as bytes.
struct RawNpy {
    std::string descr;
    Shape shape;
    std::vector<uint8_t> data;
};
RawNpy read_raw_npy(const std::filesystem::path& path);
void write_raw_npy(const std::filesystem::path& path, const RawNpy& array);

}  // namespace tool

// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "input_file.h"
#include "output_file.h"
#include "texts.h"
#include "tool_failure.h"

namespace tool {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without conversion");

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

template <class T> constexpr std::string_view kDescr;
template <> constexpr std::string_view kDescr<uint8_t> = "|u1";
template <> constexpr std::string_view kDescr<int32_t> = "<i4";
template <> constexpr std::string_view kDescr<float> = "<f4";

struct Header {
    std::string descr;
    bool fortran_order = false;
    Shape shape;
};

// The header is a Python dict literal with exactly the keys descr, fortran_order and shape.
class HeaderParser {
  public:
    HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    Header parse() {
        Header header;
        bool seen[3] = {};
        expect('{');
        while (!accept('}')) {
            const std::string key = string();
            expect(':');
            const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
            if (which < 0) fail("unknown key '" + printable(key) + "', expected descr, fortran_order and shape");
            if (seen[which]) fail("key '" + key + "' occurs twice");
            seen[which] = true;
            if (which == 0) header.descr = descr();
            if (which == 1) header.fortran_order = boolean();
            if (which == 2) header.shape = shape();
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_space();
        if (at_ != text_.size()) fail("text after the closing brace");
        for (int i = 0; i < 3; ++i)
            if (!seen[i])
                fail(std::string("key '") + (i == 0 ? "descr" : i == 1 ? "fortran_order" : "shape") + "' is missing");
        return header;
    }

  private:
    [[noreturn]] void fail(const std::string& what) {
        bad_input(file_ + ": header: " + what + " (at byte " + std::to_string(at_) + " of the header)");
    }
    static std::string printable(std::string text) {
        for (char& c : text) c = c >= 32 && c < 127 ? c : '?';
        return shown(text);
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }
    bool accept(char c) {
        skip_space();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) fail(std::string("expected '") + c + "'");
    }
    std::string string() {
        skip_space();
        if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("expected a quoted string");
        const size_t end = text_.find(text_[at_], at_ + 1);
        if (end == std::string_view::npos) fail("a quoted string does not end");
        const std::string value(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return value;
    }
    std::string descr() {
        skip_space();
        if (at_ < text_.size() && text_[at_] == '[') fail("descr is a structured type, expected a plain one");
        return printable(string());
    }
    bool boolean() {
        skip_space();
        for (const bool value : {false, true}) {
            const std::string_view word = value ? "True" : "False";
            if (text_.substr(at_, word.size()) != word) continue;
            at_ += word.size();
            return value;
        }
        fail("fortran_order is neither True nor False");
    }
    int64_t integer() {
        skip_space();
        const size_t begin = at_;
        uint64_t value = 0;
        for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
            const auto digit = static_cast<uint64_t>(text_[at_] - '0');
            if (value > (static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - digit) / 10)
                fail("shape: a size does not fit in 63 bits");
            value = value * 10 + digit;
        }
        if (at_ == begin) fail("shape: expected a size of 0 or more");
        return static_cast<int64_t>(value);
    }
    Shape shape() {
        constexpr size_t kMaxDimensions = 32;
        Shape value;
        expect('(');
        while (!accept(')')) {
            if (value.size() == kMaxDimensions) fail("shape: more than 32 dimensions");
            value.push_back(integer());
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return value;
    }

    std::string_view text_;
    const std::string& file_;
    size_t at_ = 0;
};

std::string expected_text(const Shape& expected) {
    std::string text = "(";
    for (size_t i = 0; i < expected.size(); ++i) {
        text += i ? ", " : "";
        text += expected[i] == kAnySize ? "any" : std::to_string(expected[i]);
    }
    return text + (expected.size() == 1 ? ",)" : ")");
}

int64_t product(const Shape& shape, size_t element_bytes, const std::string& file) {
    uint64_t elements = 1;
    for (const int64_t size : shape)
        if (size == 0) return 0;
    for (const int64_t size : shape) {
        if (elements
            > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / element_bytes / static_cast<uint64_t>(size))
            bad_input(file + ": shape: the product of " + shape_text(shape) + " times " + std::to_string(element_bytes)
                      + " bytes overflows 63 bits");
        elements *= static_cast<uint64_t>(size);
    }
    return static_cast<int64_t>(elements);
}

// Bytes of an element; 0 for a type other than plain little-endian numbers and booleans.
size_t element_bytes_of(const std::string& descr) {
    for (const char* known : {"|b1", "|u1", "|i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"})
        if (descr == known) return static_cast<size_t>(descr[2] - '0');
    return 0;
}

// Reads up to the data, whose size it has checked.
Header read_header(InputFile& file, uint64_t* data_bytes, std::string_view wanted, const Shape* expected,
                   std::string_view why) {
    const std::string& name = file.name();
    unsigned char start[12] = {};
    if (file.size_bytes() < 10)
        bad_input(name + ": size: " + std::to_string(file.size_bytes()) + " bytes are too few for an npy file");
    file.read(start, 8);
    if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) bad_input(name + ": magic: not an npy file");
    const int major = start[6], minor = start[7];
    if (major < 1 || major > 3 || minor != 0)
        bad_input(name + ": version: " + std::to_string(major) + "." + std::to_string(minor)
                  + ", expected 1.0, 2.0 or 3.0");

    const int length_bytes = major == 1 ? 2 : 4;
    if (file.size_bytes() < 8u + static_cast<unsigned>(length_bytes))
        bad_input(name + ": size: the file ends inside the header length");
    file.read(start + 8, static_cast<size_t>(length_bytes));
    uint64_t header_bytes = 0;
    for (int i = 0; i < length_bytes; ++i) header_bytes |= static_cast<uint64_t>(start[8 + i]) << (8 * i);
    const uint64_t data_at = 8 + static_cast<uint64_t>(length_bytes) + header_bytes;
    constexpr uint64_t kMaxHeaderBytes = 65535;
    if (data_at > file.size_bytes())
        bad_input(name + ": header length: " + std::to_string(header_bytes) + " bytes, but the whole file has "
                  + std::to_string(file.size_bytes()));
    if (header_bytes > kMaxHeaderBytes)
        bad_input(name + ": header length: " + std::to_string(header_bytes) + " bytes, expected at most 65535");
    std::string text(header_bytes, '\0');
    file.read(text.data(), text.size());
    const Header header = HeaderParser(text, name).parse();

    size_t element_bytes = element_bytes_of(header.descr);
    if (!wanted.empty() && header.descr != wanted) element_bytes = 0;
    if (element_bytes == 0) {
        const bool big_endian = header.descr.starts_with('>');
        bad_input(name + ": descr: '" + header.descr + "'" + (big_endian ? " (big-endian)" : "") + ", expected "
                  + (wanted.empty() ? "a plain little-endian number" : "'" + std::string(wanted) + "'"));
    }
    if (header.fortran_order) bad_input(name + ": fortran_order: True, expected False (C order)");
    if (expected != nullptr) {
        bool fits = header.shape.size() == expected->size();
        for (size_t i = 0; fits && i < expected->size(); ++i)
            fits = (*expected)[i] == kAnySize || (*expected)[i] == header.shape[i];
        if (!fits)
            bad_input(name + ": shape: " + shape_text(header.shape) + ", expected " + expected_text(*expected) +
                      (why.empty() ? "" : ", ") + std::string(why));
    }
    *data_bytes = static_cast<uint64_t>(product(header.shape, element_bytes, name)) * element_bytes;
    if (file.size_bytes() - data_at != *data_bytes)
        bad_input(name + ": size: " + std::to_string(file.size_bytes() - data_at) + " bytes of data, expected "
                  + std::to_string(*data_bytes) + " for shape " + shape_text(header.shape) + " of '" + header.descr
                  + "'");
    return header;
}

void write_array(const std::filesystem::path& path, std::string_view descr, const Shape& shape, const void* data,
                 size_t bytes) {
    const size_t element_bytes = static_cast<size_t>(descr[2] - '0');
    if (static_cast<size_t>(product(shape, element_bytes, path.string())) * element_bytes != bytes)
        throw Failure(kInternalCode, path.string() + ": shape " + shape_text(shape) + " does not hold "
                               + std::to_string(bytes / element_bytes) + " elements");
    std::string header =
        "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
    // Magic, version and length take 10 bytes; NumPy pads the whole to a multiple of 64 and ends it with a newline.
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    OutputFile file(path);
    file.write(kMagic);
    const unsigned char rest[4] = {1, 0, static_cast<unsigned char>(header.size() & 255),
                                   static_cast<unsigned char>(header.size() >> 8)};
    file.write(rest, sizeof rest);
    file.write(header);
    file.write(data, bytes);
    file.close();
}

}  // namespace

std::string shape_text(const Shape& shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

template <class T>
Npy<T> read_npy(const std::filesystem::path& path, const Shape& expected, std::string_view why) {
    InputFile file(path);
    uint64_t data_bytes = 0;
    Npy<T> array;
    array.shape = read_header(file, &data_bytes, kDescr<T>, &expected, why).shape;
    array.data.resize(static_cast<size_t>(data_bytes / sizeof(T)));
    file.read(array.data.data(), data_bytes);
    return array;
}

RawNpy read_raw_npy(const std::filesystem::path& path) {
    InputFile file(path);
    uint64_t data_bytes = 0;
    Header header = read_header(file, &data_bytes, {}, nullptr, {});
    RawNpy array{header.descr, std::move(header.shape), std::vector<uint8_t>(static_cast<size_t>(data_bytes))};
    file.read(array.data.data(), data_bytes);
    return array;
}

void write_raw_npy(const std::filesystem::path& path, const RawNpy& array) {
    write_array(path, array.descr, array.shape, array.data.data(), array.data.size());
}

template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> data) {
    write_array(path, kDescr<T>, shape, data.data(), data.size_bytes());
}

template Npy<uint8_t> read_npy<uint8_t>(const std::filesystem::path&, const Shape&, std::string_view);
template Npy<int32_t> read_npy<int32_t>(const std::filesystem::path&, const Shape&, std::string_view);
template Npy<float> read_npy<float>(const std::filesystem::path&, const Shape&, std::string_view);
template void write_npy<uint8_t>(const std::filesystem::path&, const Shape&, std::span<const uint8_t>);
template void write_npy<int32_t>(const std::filesystem::path&, const Shape&, std::span<const int32_t>);
template void write_npy<float>(const std::filesystem::path&, const Shape&, std::span<const float>);

}  // namespace tool

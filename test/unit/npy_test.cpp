// SPDX-License-Identifier: Apache-2.0
// The npy reader and writer: files written byte by byte here, good ones and every kind of bad one.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch_any.h"
#include "tools/common/npy.h"
#include "tools/lidx/failure.h"

using namespace lidx::command;

namespace {

class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lidx_npy_XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::filesystem::path operator/(const char* name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

std::string npy_bytes(const std::string& dict, const std::string& data, int major = 1) {
    std::string bytes("\x93NUMPY", 6);
    bytes += static_cast<char>(major);
    bytes += '\0';
    const std::string header = dict + "\n";
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 255);
    return bytes + header + data;
}

void put(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file.good());
}

std::string get(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void require_contains(const std::string& text, const std::string& part) {
    INFO("message: " << text << "\nexpected in it: " << part);
    REQUIRE(text.find(part) != std::string::npos);
}

template <class Function>
std::string failure_of(Function function) {
    try {
        function();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "no failure";
}

// The message of the failure, which must be "bad input" and begin with the file's name.
template <class T>
std::string refusal(const std::filesystem::path& path, const Shape& expected) {
    try {
        read_npy<T>(path, expected);
    } catch (const Failure& failure) {
        REQUIRE(failure.code == kBadInput);
        const std::string message = failure.what();
        REQUIRE(message.rfind(path.string() + ": ", 0) == 0);
        return message.substr(path.string().size() + 2);
    }
    return "accepted";
}

std::string refusal_of(const std::string& bytes) {
    Folder folder;
    put(folder / "a.npy", bytes);
    return refusal<uint8_t>(folder / "a.npy", {2, 3});
}

const std::string kGood = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";

}  // namespace

TEST_CASE("npy: reads versions 1, 2 and 3", "[npy]") {
    Folder folder;
    for (const int major : {1, 2, 3}) {
        put(folder / "a.npy", npy_bytes(kGood, "abcdef", major));
        const auto array = read_npy<uint8_t>(folder / "a.npy", {2, 3});
        REQUIRE(array.shape == Shape{2, 3});
        REQUIRE(std::string(array.data.begin(), array.data.end()) == "abcdef");
    }
}

TEST_CASE("npy: keys in any order, any spacing, either quote", "[npy]") {
    Folder folder;
    for (const char* dict : {"{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"|u1\"}",
                             "  { 'shape' : ( 2 , 3 , ) , 'descr':'|u1', 'fortran_order':False }  "}) {
        put(folder / "a.npy", npy_bytes(dict, "abcdef"));
        REQUIRE(refusal<uint8_t>(folder / "a.npy", {kAnySize, 3}) == "accepted");
    }
}

TEST_CASE("npy: element values, one dimension, none, and empty arrays", "[npy]") {
    Folder folder;
    const std::string little_one("\0\0\x80\x3f\0\0\0\xc0", 8);   // 1.0f, -2.0f
    put(folder / "f.npy", npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", little_one));
    REQUIRE(read_npy<float>(folder / "f.npy", {2}).data == std::vector<float>{1, -2});
    put(folder / "i.npy",
        npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", std::string("\xfe\xff\xff\xff", 4)));
    REQUIRE(read_npy<int32_t>(folder / "i.npy", {kAnySize}).data == std::vector<int32_t>{-2});
    put(folder / "s.npy", npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "x"));
    REQUIRE(read_npy<uint8_t>(folder / "s.npy", {}).data == std::vector<uint8_t>{'x'});
    put(folder / "e.npy",
        npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807), }", ""));
    REQUIRE(read_npy<float>(folder / "e.npy", {kAnySize, kAnySize}).data.empty());
}

TEST_CASE("npy: what is written is what NumPy writes, and reads back", "[npy]") {
    Folder folder;
    const std::vector<float> data = {1, 2, 3, 4, 5, 6};
    write_npy<float>(folder / "w.npy", {2, 3}, data);
    const std::string bytes = get(folder / "w.npy");
    REQUIRE(bytes.size() == 128 + 24);
    REQUIRE(bytes.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
    const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    REQUIRE(bytes.substr(10, 118) == dict + std::string(117 - dict.size(), ' ') + "\n");
    REQUIRE(read_npy<float>(folder / "w.npy", {2, 3}).data == data);
    // Every header length modulo 64 must come out aligned.
    for (int64_t n = 1; n < 1000000000000; n *= 7) {
        write_npy<uint8_t>(folder / "z.npy", {0, n}, {});
        REQUIRE(get(folder / "z.npy").size() % 64 == 0);
        REQUIRE(read_npy<uint8_t>(folder / "z.npy", {0, n}).shape == Shape{0, n});
    }
}

TEST_CASE("npy: malformed files are refused by field", "[npy]") {
    const std::string good = npy_bytes(kGood, "abcdef");
    REQUIRE(refusal_of(good) == "accepted");
    require_contains(refusal_of(""), "size: 0 bytes are too few");
    for (size_t size = 1; size < good.size(); ++size) REQUIRE(refusal_of(good.substr(0, size)) != "accepted");
    require_contains(refusal_of(good + "x"), "size: 7 bytes of data, expected 6 for shape (2, 3)");
    require_contains(refusal_of("PK\x03\x04" + good), "magic");
    for (const int major : {0, 4, 255}) {
        std::string bytes = good;
        bytes[6] = static_cast<char>(major);
        require_contains(refusal_of(bytes), "version: " + std::to_string(major) + ".0");
    }
    std::string minor = good;
    minor[7] = 1;
    require_contains(refusal_of(minor), "version: 1.1");
    std::string long_header = good;
    long_header[8] = '\xff';
    long_header[9] = '\xff';
    require_contains(refusal_of(long_header), "header length: 65535 bytes, but the whole file has");
    std::string huge_header = npy_bytes(kGood, "abcdef", 2);
    huge_header[8] = huge_header[9] = huge_header[10] = huge_header[11] = '\xff';
    require_contains(refusal_of(huge_header), "header length: 4294967295 bytes");
    require_contains(refusal_of(npy_bytes(std::string(70000, ' ') + kGood, "abcdef", 2)), "expected at most 65535");
}

TEST_CASE("npy: wrong headers are refused by field", "[npy]") {
    struct Row {
        const char* dict;
        const char* message;
    };
    const Row rows[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "descr: '<f4', expected '|u1'"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "descr: '>f4' (big-endian), expected '|u1'"},
        {"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (2, 3), }", "structured type"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "descr: '|O'"},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "fortran_order: True, expected False"},
        {"{'descr': '|u1', 'fortran_order': 0, 'shape': (2, 3), }", "fortran_order is neither True nor False"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", "shape: (3, 2), expected (2, 3)"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", "shape: (6,), expected (2, 3)"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, -3), }", "expected a size of 0 or more"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3L), }", "expected ')'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': 6, }", "expected '('"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 9223372036854775808), }", "does not fit in 63 bits"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 99999999999999999999999), }",
         "does not fit in 63 bits"},
        {"{'descr': '|u1', 'fortran_order': False, }", "key 'shape' is missing"},
        {"{'fortran_order': False, 'shape': (2, 3), }", "key 'descr' is missing"},
        {"{'descr': '|u1', 'shape': (2, 3), }", "key 'fortran_order' is missing"},
        {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", "key 'descr' occurs twice"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), 'more': 1}", "unknown key 'more'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), } + 1", "text after the closing brace"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)", "expected '}'"},
        {"{'descr': '|u1", "a quoted string does not end"},
        {"['descr']", "expected '{'"},
        {"", "expected '{'"},
    };
    for (const Row& row : rows) {
        INFO(row.dict);
        require_contains(refusal_of(npy_bytes(row.dict, "abcdef")), row.message);
    }
    const std::string many = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + [] {
        std::string ones;
        for (int i = 0; i < 33; ++i) ones += "1, ";
        return ones;
    }() + "), }";
    require_contains(refusal_of(npy_bytes(many, "a")), "more than 32 dimensions");
}

TEST_CASE("npy: sizes whose product overflows are refused before anything is allocated", "[npy]") {
    Folder folder;
    for (const char* shape : {"(4294967296, 4294967296)", "(9223372036854775807, 2)", "(2305843009213693952, 1)"}) {
        put(folder / "a.npy",
            npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(shape) + ", }", "abcd"));
        require_contains(refusal<float>(folder / "a.npy", {kAnySize, kAnySize}), "overflows 63 bits");
    }
    // Fits 63 bits, but not the file.
    put(folder / "a.npy", npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1), }", "abcd"));
    require_contains(refusal<float>(folder / "a.npy", {kAnySize, kAnySize}), "expected 4398046511104");
}

TEST_CASE("npy: files that are missing or no files", "[npy]") {
    Folder folder;
    require_contains(refusal<uint8_t>(folder / "missing.npy", {1}), "cannot open it: No such file");
    std::filesystem::create_directory(folder / "dir.npy");
    require_contains(refusal<uint8_t>(folder / "dir.npy", {1}), "not a regular file");
    require_contains(refusal<uint8_t>("/dev/zero", {1}), "not a regular file");
}

TEST_CASE("npy: outputs that cannot be written leave nothing behind", "[npy]") {
    Folder folder;
    const std::vector<float> data(100000);
    require_contains(failure_of([&] { write_npy<float>("/dev/full", {100000}, data); }),
                     "/dev/full: write failed: No space left");
    REQUIRE(std::filesystem::exists("/dev/full"));
    require_contains(failure_of([&] { write_npy<float>(folder / "no/such/dir.npy", {100000}, data); }),
                     "cannot create it");
    require_contains(failure_of([&] { write_npy<float>(folder / "a.npy", {2}, data); }),
                     "does not hold 100000 elements");
    REQUIRE_FALSE(std::filesystem::exists(folder / "a.npy"));
}

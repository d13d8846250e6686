// SPDX-License-Identifier: Apache-2.0
// Feeds the .npy reader files that were good before bytes of them were changed, cut, doubled or inserted, for a bounded
// time, built with the address, leak and undefined-behaviour sanitizers: an array that its shape describes, or a
// Failure. Usage: npy_fuzz SECONDS SEED
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "test/ref/portable_rng.h"
#include "tools/common/npy.h"
#include "tools/common/tool_failure.h"

namespace {

using lidx::ref::Rng;

std::string good_file(Rng& rng) {
    const char* const descrs[] = {"<f4", "<i4", "|u1", "<f8", "<i8", "<u2", "|b1"};
    const char* descr = descrs[rng.below(7)];
    const int64_t rows = rng.between(0, 5), columns = rng.between(0, 7);
    std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (" +
                         std::to_string(rows) + ", " + std::to_string(columns) + "), }";
    const int major = static_cast<int>(rng.between(1, 3));
    const size_t prefix = major == 1 ? 10 : 12;
    while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes("\x93NUMPY", 6);
    bytes += static_cast<char>(major);
    bytes += '\0';
    for (size_t i = 0; i < prefix - 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 255);
    bytes += header;
    for (int64_t i = 0; i < rows * columns * (descr[2] - '0'); ++i) bytes += static_cast<char>(rng.next());
    return bytes;
}

void spoil(Rng& rng, std::string& bytes) {
    const auto at = [&] {   // the header more often than the data
        return bytes.empty() ? size_t{0} : rng.below(rng.below(2) == 0 ? bytes.size() : 1 + bytes.size() / 2);
    };
    constexpr const char* kPieces[] = {"'shape': (", "9223372036854775807", "-1", ",", "(", ")", "}", "{", "'", "True",
                                       "99999999999999999999999", "'descr': '<f4'", "\\", "\n", " ", "<c8", "|O"};
    for (uint64_t times = rng.below(5); times > 0; --times) {
        switch (rng.below(6)) {
            case 0: if (!bytes.empty()) bytes[at()] = static_cast<char>(rng.next()); break;
            case 1: bytes.resize(at()); break;
            case 2: bytes.insert(at(), kPieces[rng.below(std::size(kPieces))]); break;
            case 3: bytes.erase(at(), rng.below(12)); break;
            case 4: bytes += bytes.substr(at(), rng.below(200)); break;
            default: if (!bytes.empty()) bytes[at()] ^= static_cast<char>(1 << rng.below(8)); break;
        }
    }
}

int64_t product(const tool::Shape& shape) {
    int64_t cells = 1;
    for (const int64_t edge : shape) cells *= edge;
    return cells;
}

[[noreturn]] void die(const std::filesystem::path& path, const char* what) {
    std::fprintf(stderr, "npy_fuzz: %s: %s\n", path.c_str(), what);
    std::abort();
}

struct Counts {
    uint64_t read = 0, refused = 0;
};

template <class T>
void read(const std::filesystem::path& path, const tool::Shape& expected, Counts& counts) {
    try {
        const tool::Npy<T> array = tool::read_npy<T>(path, expected);
        if (product(array.shape) != static_cast<int64_t>(array.data.size())) die(path, "shape and data disagree");
        ++counts.read;
    } catch (const tool::Failure& failure) {
        if (failure.what()[0] == '\0') die(path, "a failure without a text");
        ++counts.refused;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
    Rng rng(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    const auto path = std::filesystem::temp_directory_path() / ("lidx_npy_fuzz_" + std::to_string(getpid()) + ".npy");
    const auto start = std::chrono::steady_clock::now();
    Counts counts;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
        std::string bytes = good_file(rng);
        spoil(rng, bytes);
        std::FILE* file = std::fopen(path.c_str(), "wb");
        if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
            die(path, "not written");
        std::fclose(file);
        constexpr int64_t kAny = tool::kAnySize;
        const tool::Shape shapes[] = {{kAny, kAny}, {kAny}, {3, kAny}, {kAny, kAny, kAny}, {}};
        const tool::Shape& shape = shapes[rng.below(5)];
        read<float>(path, shape, counts);
        read<int32_t>(path, shape, counts);
        read<uint8_t>(path, shape, counts);
        try {
            const tool::RawNpy raw = tool::read_raw_npy(path);
            if (raw.data.size() > bytes.size()) die(path, "more data than the file has");
            ++counts.read;
        } catch (const tool::Failure&) {
            ++counts.refused;
        }
    }
    std::filesystem::remove(path);
    std::printf("npy_fuzz: %llu reads succeeded, %llu were refused\n", static_cast<unsigned long long>(counts.read),
                static_cast<unsigned long long>(counts.refused));
    return counts.read > 100 && counts.refused > 100 ? 0 : 1;
}

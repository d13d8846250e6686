// SPDX-License-Identifier: Apache-2.0
// Tiled bulk tensor copies against hand-computed places and against a model that looks at one byte at a time.
#include "tools/ptxemu/tma.h"

#include <algorithm>
#include <climits>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

using namespace ptxemu;

namespace {

struct Global {
    std::vector<uint8_t> bytes;
    uint64_t base;                   // device address of bytes[0]
    uint64_t read_bytes = 0;
    uint8_t* at(uint64_t address, uint64_t length) {
        if (address < base || length > bytes.size() || address - base > bytes.size() - length) return nullptr;
        return bytes.data() + (address - base);
    }
    TmaAccess access() {
        return {[this](uint64_t address, uint64_t length) -> const uint8_t* {
                    read_bytes += length;
                    return at(address, length);
                },
                [this](uint64_t address, uint64_t length) { return at(address, length); }};
    }
};

TensorMapArgs key_map(uint64_t base, uint32_t page_size, uint64_t pages, uint64_t page_stride) {
    TensorMapArgs map;
    map.rank = 3;
    map.address = base;
    map.dims[0] = 128, map.dims[1] = page_size, map.dims[2] = pages;
    map.strides[0] = 128, map.strides[1] = page_stride;
    map.box[0] = 128, map.box[1] = page_size < 128 ? page_size : 128, map.box[2] = 1;
    for (uint32_t& stride : map.element_strides) stride = 1;
    map.swizzle = 3;
    return map;
}

Global random_global(size_t size, uint64_t base, uint32_t seed) {
    Global global{std::vector<uint8_t>(size), base};
    std::mt19937 random(seed);
    for (uint8_t& byte : global.bytes) byte = static_cast<uint8_t>(random());
    return global;
}

// The pictures of PTX ISA 5.5.7: for each 128-byte line of the repeating pattern, where the 16-byte cell c goes.
int cell_place(uint32_t swizzle, int line, int cell) {
    static constexpr int k128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                       {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                       {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
    static constexpr int k32[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
    static constexpr int kAtom32[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {2, 3, 0, 1, 6, 7, 4, 5}, {4, 5, 6, 7, 0, 1, 2, 3},
                                          {6, 7, 4, 5, 2, 3, 0, 1}};
    static constexpr int kAtom64[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}};
    switch (swizzle) {
        case 1: return k32[line % 2][cell];
        case 2: return k128[line % 4][cell];
        case 3: return k128[line % 8][cell];
        case 4:
        case 5: return kAtom32[line % 4][cell];
        case 6: return kAtom64[line % 2][cell];
        default: return cell;
    }
}

// Byte address in shared memory of the byte that a copy without swizzle would put at `plain`.
uint32_t model_place(uint32_t swizzle, uint32_t plain) {
    const uint32_t line = plain / 128, cell = plain % 128 / 16;
    uint32_t inside = plain % 16;
    if (swizzle == 5 && line % 2 == 1) inside = (inside + 8) % 16;
    return line * 128 + static_cast<uint32_t>(cell_place(swizzle, int(line), int(cell))) * 16 + inside;
}

// Distance of two rows in shared memory. That a row narrower than the swizzle span takes the whole span was seen on an
// H200, as were the rules marked so below.
uint32_t model_pitch(const TensorMapArgs& map) {
    if (map.swizzle == 0) return map.box[0] * static_cast<uint32_t>(tensor_data_type_bytes(map.data_type));
    return map.swizzle == 1 ? 32 : map.swizzle == 2 ? 64 : 128;
}

// One byte of the box at a time: box index -> coordinate -> in or out -> address.
template <class Visit>
void for_each_box_byte(const TensorMapArgs& map, const int32_t* coords, Visit visit) {
    const int size = tensor_data_type_bytes(map.data_type);
    std::vector<int> counts;
    int total = size;
    for (uint32_t d = 0; d < map.rank; ++d) {
        const int step = d == 0 ? 1 : static_cast<int>(map.element_strides[d]);
        int count = 0;
        for (int i = 0; i < static_cast<int>(map.box[d]); i += step) ++count;
        counts.push_back(count);
        total *= count;
    }
    for (int byte = 0; byte < total; ++byte) {
        int rest = byte / size;
        const uint32_t row_bytes = map.box[0] * static_cast<uint32_t>(size);
        const uint32_t plain = static_cast<uint32_t>(byte) / row_bytes * model_pitch(map) +
                               static_cast<uint32_t>(byte) % row_bytes;
        bool inside = true;
        __int128 address = static_cast<__int128>(map.address) + byte % size;
        for (uint32_t d = 0; d < map.rank; ++d) {
            const int index = rest % counts[d];
            rest /= counts[d];
            const __int128 coordinate = static_cast<__int128>(coords[d]) +
                                        static_cast<__int128>(index) * (d == 0 ? 1 : map.element_strides[d]);
            inside = inside && coordinate >= 0 && coordinate < static_cast<__int128>(map.dims[d]);
            address += coordinate * (d == 0 ? static_cast<__int128>(size) : static_cast<__int128>(map.strides[d - 1]));
        }
        visit(plain, byte % size, inside, static_cast<uint64_t>(address));
    }
}

}  // namespace

TEST_CASE("swizzle addresses follow the pictures of the manual", "[tma]") {
    for (uint32_t swizzle = 0; swizzle < 7; ++swizzle) {
        for (uint32_t address = 0; address < 4096; ++address) {
            REQUIRE(tma_swizzle_address(swizzle, address) == model_place(swizzle, address));
        }
    }
}

TEST_CASE("a page of keys, by hand", "[tma]") {
    const uint64_t base = 0x10000;
    Global global{std::vector<uint8_t>(4 * 8448), base};
    for (size_t i = 0; i < global.bytes.size(); ++i) {
        global.bytes[i] = static_cast<uint8_t>(i / 8448 * 64 + i % 8448 / 128);
    }
    const TensorMapArgs map = key_map(base, 64, 4, 8448);
    CHECK(tma_box_bytes(map) == 8192);
    std::vector<uint8_t> shared(16384, 0xaa);
    const int32_t coords[3] = {0, 0, 2};
    REQUIRE(tma_load(map, coords, shared.data(), 16384, 1024, global.access()) == "");
    CHECK(shared[1023] == 0xaa);
    CHECK(shared[1024] == 128);
    CHECK(shared[1024 + 63 * 128 + 5] == 128 + 63);
    CHECK(shared[1024 + 8192] == 0xaa);
    CHECK(global.read_bytes == 8192);

    // one marked byte: slot 13, depth 100 -> cell 6 of line 13 % 8 = 5 goes to cell 3
    global.bytes[2 * 8448 + 13 * 128 + 100] = 0x5a;
    REQUIRE(tma_load(map, coords, shared.data(), 16384, 1024, global.access()) == "");
    CHECK(shared[1024 + 13 * 128 + 3 * 16 + 4] == 0x5a);
}

TEST_CASE("a dead page is zero-filled and never read", "[tma]") {
    for (uint32_t page_size : {16u, 32u, 64u, 128u, 256u}) {
        for (uint64_t pad : {0u, 64u}) {
            const uint64_t stride = page_size * 132 + pad, pages = 3;
            Global global = random_global(stride * pages, 0x4000, page_size);
            const TensorMapArgs map = key_map(0x4000, page_size, pages, stride);
            const uint32_t bytes = tma_box_bytes(map);
            CHECK(bytes == std::min(page_size, 128u) * 128);
            for (int32_t page : {3, -1, INT_MAX, INT_MIN}) {
                std::vector<uint8_t> shared(bytes + 128, 0xaa);
                const int32_t coords[3] = {0, 0, page};
                global.read_bytes = 0;
                REQUIRE(tma_load(map, coords, shared.data(), bytes + 128, 0, global.access()) == "");
                CHECK(global.read_bytes == 0);
                CHECK(std::count(shared.begin(), shared.begin() + bytes, 0) == int(bytes));
                CHECK(std::count(shared.begin() + bytes, shared.end(), 0xaa) == 128);
            }
            // rows partly or wholly out of the box
            for (int32_t slot : {int32_t(page_size) - 3, -5, int32_t(page_size), INT_MAX, INT_MIN}) {
                std::vector<uint8_t> shared(bytes, 0xaa);
                const int32_t coords[3] = {0, slot, 1};
                REQUIRE(tma_load(map, coords, shared.data(), bytes, 0, global.access()) == "");
                for_each_box_byte(map, coords, [&](uint32_t plain, int, bool inside, uint64_t address) {
                    const uint8_t expected = inside ? global.bytes[address - 0x4000] : 0;
                    if (shared[model_place(3, plain)] != expected) FAIL("byte " << plain);
                });
            }
        }
    }
}

TEST_CASE("boxes of 16-token pages packed at 2048-byte steps make one 128-key tile", "[tma]") {
    const uint64_t stride = 16 * 132;
    Global global = random_global(stride * 20, 0x8000, 5);
    const TensorMapArgs map = key_map(0x8000, 16, 20, stride);
    std::vector<uint8_t> shared(1024 + 16384);
    const int table[8] = {7, 19, 0, 3, 20, 11, 7, 2};                           // 20: dead
    for (int i = 0; i < 8; ++i) {
        const int32_t coords[3] = {0, 0, table[i]};
        REQUIRE(tma_load(map, coords, shared.data(), uint32_t(shared.size()), 1024 + 2048 * i, global.access()) == "");
    }
    for (int key = 0; key < 128; ++key) {
        for (int depth = 0; depth < 128; ++depth) {
            const int page = table[key / 16];
            const uint8_t expected = page < 20 ? global.bytes[page * stride + key % 16 * 128 + depth] : 0;
            REQUIRE(shared[1024 + key * 128 + cell_place(3, key, depth / 16) * 16 + depth % 16] == expected);
        }
    }
}

TEST_CASE("random maps against the byte-by-byte model", "[tma]") {
    std::mt19937 random(11);
    const uint32_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};                 // TF32 rounds: below
    int partly_outside = 0, wholly_outside = 0;
    for (int round = 0; round < 600; ++round) {
        TensorMapArgs map;
        map.data_type = types[round % 11];
        const uint32_t size = static_cast<uint32_t>(tensor_data_type_bytes(map.data_type));
        map.rank = 1 + random() % 5;
        map.swizzle = random() % 7;
        const uint32_t span = map.swizzle == 0 ? 256 : map.swizzle == 1 ? 32 : map.swizzle == 2 ? 64 : 128;
        map.box[0] = std::min(256u, 16 * (1 + static_cast<uint32_t>(random()) % (span / 16)) / size);
        map.dims[0] = 1 + random() % (2 * map.box[0]);
        uint64_t extent = (map.dims[0] * size + 15) / 16 * 16 + 16 * (random() % 3);
        for (uint32_t d = 1; d < map.rank; ++d) {
            map.dims[d] = 1 + random() % 7;
            map.strides[d - 1] = extent;
            extent = extent * map.dims[d] + 16 * (random() % 2);
            map.box[d] = 1 + random() % 5;
            map.element_strides[d] = random() % 3 ? 1 : 1 + random() % 8;
        }
        map.element_strides[0] = 1 + random() % 8;                              // ignored
        map.oob_fill = map.data_type >= 6 && random() % 2;
        const uint64_t base = 0x7f1200000000 + 16 * (random() % 64);
        map.address = base;
        Global global = random_global(extent, base, random());
        int32_t coords[5];
        for (uint32_t d = 0; d < map.rank; ++d) {
            const int32_t box = static_cast<int32_t>(map.box[d]);
            coords[d] = static_cast<int32_t>(random() % (map.dims[d] + map.box[d] + 2)) - box - 1;
            if (random() % 40 == 0) coords[d] = random() % 2 ? INT_MIN : INT_MAX;
        }
        const int32_t granule = std::max(1, 16 / static_cast<int32_t>(size));
        coords[0] = coords[0] / granule * granule;                              // boxes begin on 16 bytes
        std::string why;
        REQUIRE(tensor_map_check(map, &why));
        const uint32_t dst = 128 * (random() % 24), bytes = tma_box_bytes(map);
        const uint32_t rows = bytes / (map.box[0] * size);
        const uint32_t shared_bytes = dst + (rows * model_pitch(map) + 127) / 128 * 128 + 256;

        std::vector<uint8_t> shared(shared_bytes, 0xaa), expected(shared_bytes, 0xaa);
        uint32_t count = 0, outside = 0;
        for_each_box_byte(map, coords, [&](uint32_t plain, int byte_of_element, bool inside, uint64_t address) {
            const uint8_t fill = map.oob_fill == 0 ? 0 : byte_of_element % 2 == 0 ? 0xf7 : 0x7f;     // H200
            expected[model_place(map.swizzle, dst + plain)] = inside ? global.bytes[address - base] : fill;
            outside += !inside;
            ++count;
        });
        REQUIRE(count == bytes);
        partly_outside += outside > 0 && outside < bytes;
        wholly_outside += outside == bytes;
        INFO("round " << round << " rank " << map.rank << " swizzle " << map.swizzle << " size " << size);
        REQUIRE(tma_load(map, coords, shared.data(), shared_bytes, dst, global.access()) == "");
        REQUIRE(shared == expected);

        for (uint8_t& byte : shared) byte = static_cast<uint8_t>(random());
        std::vector<uint8_t> after = global.bytes;
        for (uint32_t d = 0; d < map.rank; ++d) coords[d] = std::max(coords[d], 0);
        TensorMapArgs written = map;                                            // a store fills 16 bytes (H200)
        written.dims[0] = (map.dims[0] * size + 15) / 16 * 16 / size;
        for_each_box_byte(written, coords, [&](uint32_t plain, int, bool inside, uint64_t address) {
            if (inside) after[address - base] = shared[model_place(map.swizzle, dst + plain)];
        });
        REQUIRE(tma_store(map, coords, shared.data(), shared_bytes, dst, global.access()) == "");
        REQUIRE(global.bytes == after);
    }
    CHECK(partly_outside > 100);
    CHECK(wholly_outside > 50);
    CHECK(wholly_outside < 500);
}

TEST_CASE("a narrow box under a wide swizzle keeps the pitch of the span", "[tma]") {
    // 16 bytes of each of 3 slots: row r at 128 r, chunk 0 moved to chunk r; complete_tx counts 48 bytes (H200)
    Global global = random_global(8448, 0x10000, 4);
    TensorMapArgs map = key_map(0x10000, 64, 1, 8448);
    map.box[0] = 16, map.box[1] = 3;
    CHECK(tma_box_bytes(map) == 48);
    std::vector<uint8_t> shared(1024, 0xaa);
    const int32_t coords[3] = {32, 5, 0};
    REQUIRE(tma_load(map, coords, shared.data(), 384, 0, global.access()) == "");
    for (int row = 0; row < 3; ++row) {
        for (int byte = 0; byte < 128; ++byte) {
            const bool written = byte / 16 == row;
            CHECK(shared[128 * row + byte] == (written ? global.bytes[(5 + row) * 128 + 32 + byte % 16] : 0xaa));
        }
    }
    CHECK_FALSE(tma_load(map, coords, shared.data(), 383, 0, global.access()).empty());
}

TEST_CASE("loads of the TF32 types round, stores do not", "[tma]") {
    // words in and out as an H200 gave them, for both TF32 types
    const uint32_t words[][2] = {{0x3f800000, 0x3f800000}, {0x3f801000, 0x3f800000}, {0x3f803000, 0x3f804000},
                                 {0x3f800fff, 0x3f800000}, {0x3f801001, 0x3f802000}, {0xbf801000, 0xbf800000},
                                 {0xbf803000, 0xbf804000}, {0x7f7fffff, 0x7f800000}, {0x7f7fefff, 0x7f7fe000},
                                 {0x7f7ff000, 0x7f800000}, {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
                                 {0x7f800001, 0x7fffe000}, {0x7fffffff, 0x7fffe000}, {0xffc00000, 0x7fffe000},
                                 {0x7fc01234, 0x7fffe000}, {0x7fa00000, 0x7fffe000}, {0x7f801000, 0x7fffe000},
                                 {0x00000001, 0x00000000}, {0x00000fff, 0x00000000}, {0x00001000, 0x00000000},
                                 {0x00001001, 0x00002000}, {0x00003000, 0x00004000}, {0x00400000, 0x00400000},
                                 {0x007fffff, 0x00800000}, {0x007ff000, 0x00800000}, {0x80000001, 0x80000000},
                                 {0x80401234, 0x80402000}, {0x00800000, 0x00800000}, {0x80000000, 0x80000000},
                                 {0x00000000, 0x00000000}, {0xffffffff, 0x7fffe000}};
    for (uint32_t type : {7u, 10u, 11u, 12u}) {
        Global global{std::vector<uint8_t>(128), 0x1000};
        for (int i = 0; i < 32; ++i) std::memcpy(&global.bytes[4 * i], &words[i][0], 4);
        TensorMapArgs map;
        map.data_type = type, map.rank = 1, map.address = 0x1000, map.dims[0] = 32, map.box[0] = 32;
        map.element_strides[0] = 1;
        uint32_t shared[32];
        uint8_t* bytes = reinterpret_cast<uint8_t*>(shared);
        const int32_t coords[1] = {0};
        REQUIRE(tma_load(map, coords, bytes, 128, 0, global.access()) == "");
        for (int i = 0; i < 32; ++i) CHECK(shared[i] == words[i][type >= 11 ? 1 : 0]);
        for (int i = 0; i < 32; ++i) shared[i] = words[i][0];
        REQUIRE(tma_store(map, coords, bytes, 128, 0, global.access()) == "");
        CHECK(std::memcmp(global.bytes.data(), shared, 128) == 0);
    }
}

TEST_CASE("addresses beyond 32 bits", "[tma]") {
    // page 1,000,000 of 8448 bytes: 8.4 GB past the base; the view answers for exactly that page
    const uint64_t base = 0x200000000000, page = 1000000;
    const TensorMapArgs map = key_map(base, 64, page + 1, 8448);
    std::vector<uint8_t> content(8448, 0x11);
    TmaAccess access;
    access.read = [&](uint64_t address, uint64_t length) -> const uint8_t* {
        const uint64_t start = base + page * 8448;
        return address >= start && address + length <= start + 8448 ? content.data() + (address - start) : nullptr;
    };
    std::vector<uint8_t> shared(8192);
    const int32_t coords[3] = {0, 0, int32_t(page)};
    REQUIRE(tma_load(map, coords, shared.data(), 8192, 0, access) == "");
    CHECK(std::count(shared.begin(), shared.end(), 0x11) == 8192);
    const int32_t before[3] = {0, 0, int32_t(page) - 1};
    const std::string why = tma_load(map, before, shared.data(), 8192, 0, access);
    CHECK(why.find("global memory fault: read of 128 bytes at 0x") == 0);
}

TEST_CASE("what a bulk tensor copy refuses", "[tma]") {
    Global global = random_global(4 * 8448, 0x10000, 1);
    std::vector<uint8_t> shared(16384);
    const int32_t coords[3] = {0, 0, 0};
    const TensorMapArgs good = key_map(0x10000, 64, 4, 8448);
    auto load = [&](const TensorMapArgs& map, uint32_t bytes, uint32_t dst) {
        return tma_load(map, coords, shared.data(), bytes, dst, global.access());
    };
    auto store = [&](const TensorMapArgs& map, uint32_t bytes, uint32_t src) {
        return tma_store(map, coords, shared.data(), bytes, src, global.access());
    };
    CHECK(load(good, 8192, 0) == "");
    for (int32_t start : {-1, 8, 15, 100}) {
        const int32_t odd[3] = {start, 0, 0};
        const std::string why = tma_load(good, odd, shared.data(), 16384, 0, global.access());
        CHECK(why.find("not a multiple of 16") != std::string::npos);
        CHECK_FALSE(tma_store(good, odd, shared.data(), 16384, 0, global.access()).empty());
    }
    for (int dim = 0; dim < 3; ++dim) {
        int32_t negative[3] = {0, 0, 0};
        negative[dim] = -16;
        CHECK(tma_load(good, negative, shared.data(), 16384, 0, global.access()) == "");
        const std::string why = tma_store(good, negative, shared.data(), 16384, 0, global.access());
        CHECK(why.find("negative") != std::string::npos);
    }
    CHECK(load(good, 16384, 64) == "shared address 0x40 is not a multiple of 128");
    CHECK(store(good, 16384, 16) == "shared address 0x10 is not a multiple of 128");
    CHECK(load(good, 8191, 0).find("8192 bytes at shared address 0x0 ends beyond the 8191") != std::string::npos);
    CHECK_FALSE(load(good, 16384, 0xffffff80).empty());
    CHECK_FALSE(store(good, 8191, 0).empty());
    TensorMapArgs map = good;
    map.box[1] = 300;
    CHECK(load(map, 16384, 0).find("boxDim[1] = 300") != std::string::npos);
    map = good;
    map.interleave = 1;
    CHECK(load(map, 16384, 0).find("interleave 16B") != std::string::npos);
    map.interleave = 2, map.swizzle = 1, map.box[0] = 32;
    CHECK(load(map, 16384, 0).find("interleave 32B") != std::string::npos);
    map = good;
    map.data_type = 14;
    CHECK(load(map, 16384, 0).find("packed data type 14") != std::string::npos);
    map = good;
    map.box[2] = 256;                                                            // 2 MiB
    CHECK_FALSE(load(map, 16384, 0).empty());
    map = key_map(0x10000, 64, 5, 8448);                                         // one page more than there is memory
    const int32_t last[3] = {0, 0, 4};
    CHECK(tma_load(map, last, shared.data(), 16384, 0, global.access()).find("fault") != std::string::npos);
    CHECK(tma_store(map, last, shared.data(), 16384, 0, global.access()).find("fault: write") != std::string::npos);
}

TEST_CASE("speed of a 128-key tile of 64-token pages", "[.bench]") {
    Global global = random_global(64 * 8448, 0x10000, 2);
    const TensorMapArgs map = key_map(0x10000, 64, 64, 8448);
    std::vector<uint8_t> shared(16384);
    const TmaAccess access = global.access();
    double best = 1e9;
    for (int round = 0; round < 50; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int half = 0; half < 2; ++half) {
            const int32_t coords[3] = {0, 0, (round * 7 + half * 3) % 64};
            REQUIRE(tma_load(map, coords, shared.data(), 16384, 8192 * half, access) == "");
        }
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
        best = std::min(best, time.count());
    }
    std::printf("16 KB by two boxes: %.2f us\n", best);
}

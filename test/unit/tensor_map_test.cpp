// SPDX-License-Identifier: Apache-2.0
// The argument rules of cuTensorMapEncodeTiled, each at its limit and one step past it. Source of the expectations: the
// CUDA 13.0 driver API reference; lines marked H200: what driver 13.0 answered there.
#include "tools/ptxemu/tensor_map.h"

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

// CUtensorMapDataType of cuda.h
enum Type : uint32_t { kU8 = 0, kU16, kU32, kS32, kU64, kS64, kF16, kF32, kF64, kBf16, kF32Ftz, kTf32, kTf32Ftz,
                       kU4Align8, kU4Align16, kU6Align16 };

// The key map of a paged cache: 128 bytes deep, 64 slots, 1000 pages of stride 8448.
TensorMapArgs pages() {
    TensorMapArgs args;
    args.data_type = kU8;
    args.rank = 3;
    args.address = 0x7f0000000000;
    args.dims[0] = 128, args.dims[1] = 64, args.dims[2] = 1000;
    args.strides[0] = 128, args.strides[1] = 8448;
    args.box[0] = 128, args.box[1] = 64, args.box[2] = 1;
    for (uint32_t& stride : args.element_strides) stride = 1;
    args.swizzle = 3;
    return args;
}

TensorMapArgs interleaved(uint32_t interleave) {
    TensorMapArgs args = pages();
    args.data_type = kU16;
    args.interleave = interleave;
    args.swizzle = interleave == 2 ? 1 : 0;
    args.box[0] = 8;
    args.strides[0] = 256;
    args.strides[1] = 8448;
    return args;
}

template <class Change>
bool accepts(TensorMapArgs args, Change change) {
    change(args);
    std::string why;
    const bool ok = tensor_map_check(args, &why);
    INFO(why);
    CHECK(ok == why.empty());
    return ok;
}

}  // namespace

TEST_CASE("element sizes", "[tensor_map]") {
    const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0, 0};
    for (uint32_t type = 0; type < 17; ++type) CHECK(tensor_data_type_bytes(type) == bytes[type]);
    CHECK(tensor_data_type_bits(kU4Align8) == 4);
    CHECK(tensor_data_type_bits(kU6Align16) == 6);
}

TEST_CASE("tensor map arguments at their limits", "[tensor_map]") {
    CHECK(accepts(pages(), [](auto&) {}));
    using A = TensorMapArgs;
    SECTION("enumerations") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.data_type = 16; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.interleave = 3; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.swizzle = 7; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.l2_promotion = 4; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.oob_fill = 2; }));
        for (uint32_t swizzle : {3u, 4u, 5u, 6u}) CHECK(accepts(pages(), [&](A& a) { a.swizzle = swizzle; }));
        for (uint32_t l2 = 0; l2 < 4; ++l2) CHECK(accepts(pages(), [&](A& a) { a.l2_promotion = l2; }));
    }
    SECTION("rank") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.rank = 0; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.rank = 6; }));
        for (uint32_t rank = 1; rank <= 5; ++rank) {
            CHECK(accepts(pages(), [&](A& a) {
                a.rank = rank;
                a.dims[3] = a.dims[4] = 2;
                a.strides[2] = a.strides[3] = 1 << 24;
                a.box[3] = a.box[4] = 1;
            }));
        }
        CHECK_FALSE(accepts(interleaved(1), [](A& a) { a.rank = 2; }));
        CHECK(accepts(interleaved(1), [](A&) {}));
    }
    SECTION("address") {
        CHECK(accepts(pages(), [](A& a) { a.address += 16; }));
        CHECK(accepts(pages(), [](A& a) { a.address = 0; }));                    // H200
        CHECK(accepts(pages(), [](A& a) { a.address = 1ull << 56; }));           // H200
        CHECK_FALSE(accepts(pages(), [](A& a) { a.address = 1ull << 57; }));     // H200
        for (int off : {1, 8, 15}) CHECK_FALSE(accepts(pages(), [&](A& a) { a.address += off; }));
        CHECK(accepts(interleaved(2), [](A&) {}));
        CHECK_FALSE(accepts(interleaved(2), [](A& a) { a.address += 16; }));
        CHECK(accepts(interleaved(1), [](A& a) { a.address += 16; }));
    }
    SECTION("dimensions") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.dims[2] = 0; }));
        CHECK(accepts(pages(), [](A& a) { a.dims[2] = 1ull << 32; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.dims[2] = (1ull << 32) + 1; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.dims[0] = 0; }));
        CHECK(accepts(pages(), [](A& a) { a.dims[3] = 0; }));                    // beyond the rank: not looked at
    }
    SECTION("strides") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.strides[1] = 8456; }));
        CHECK(accepts(pages(), [](A& a) { a.strides[1] = 8464; }));
        CHECK(accepts(pages(), [](A& a) { a.strides[1] = (1ull << 40) - 16; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.strides[1] = 1ull << 40; }));
        CHECK(accepts(interleaved(1), [](A& a) { a.strides[1] = 8464; }));
        CHECK_FALSE(accepts(interleaved(2), [](A& a) { a.strides[1] = 8464; }));
        CHECK(accepts(pages(), [](A& a) { a.rank = 1, a.strides[0] = 7; }));     // rank 1 has none
        CHECK(accepts(pages(), [](A& a) { a.strides[0] = 0, a.strides[1] = 0; }));               // H200
        CHECK(accepts(pages(), [](A& a) { a.strides[0] = 64; }));                // H200: rows may overlap
    }
    SECTION("box") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[1] = 0; }));
        CHECK(accepts(pages(), [](A& a) { a.box[1] = 256; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[1] = 257; }));
        CHECK(accepts(pages(), [](A& a) { a.box[0] = 112; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[0] = 120; }));             // not a multiple of 16 bytes
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[0] = 144; }));             // beyond the 128-byte span
        CHECK(accepts(pages(), [](A& a) { a.box[0] = 256, a.swizzle = 0; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[0] = 48, a.swizzle = 1; }));
        CHECK(accepts(pages(), [](A& a) { a.box[0] = 32, a.swizzle = 1; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[0] = 80, a.swizzle = 2; }));
        CHECK(accepts(pages(), [](A& a) { a.box[0] = 64, a.swizzle = 2; }));
        CHECK(accepts(pages(), [](A& a) { a.data_type = kF64, a.box[0] = 16; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.data_type = kF64, a.box[0] = 18; }));
        CHECK_FALSE(accepts(interleaved(1), [](A& a) { a.box[0] = 3; }));        // H200
        // 228 KB, counting whole element strides in every dimension: H200
        CHECK(accepts(pages(), [](A& a) { a.box[1] = 152, a.box[2] = 12; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[1] = 153, a.box[2] = 12; }));
        CHECK(accepts(pages(), [](A& a) { a.box[1] = 129, a.element_strides[1] = 4, a.box[2] = 57; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.box[1] = 252, a.element_strides[1] = 4, a.box[2] = 29; }));
        CHECK(accepts(pages(), [](A& a) { a.box[1] = 74, a.box[2] = 46, a.element_strides[0] = 2; }));
    }
    SECTION("element strides") {
        CHECK_FALSE(accepts(pages(), [](A& a) { a.element_strides[1] = 0; }));
        CHECK(accepts(pages(), [](A& a) { a.element_strides[1] = 8; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.element_strides[1] = 9; }));
        for (uint32_t stride : {0u, 9u}) {
            CHECK_FALSE(accepts(pages(), [&](A& a) { a.element_strides[0] = stride; }));         // H200
        }
        CHECK_FALSE(accepts(interleaved(1), [](A& a) { a.element_strides[0] = 0; }));
    }
    SECTION("interleave and swizzle") {
        for (uint32_t swizzle : {0u, 2u, 3u}) CHECK_FALSE(accepts(interleaved(2), [&](A& a) { a.swizzle = swizzle; }));
        CHECK(accepts(interleaved(1), [](A& a) { a.swizzle = 3; }));
    }
    SECTION("NaN fill needs a floating-point type") {
        for (uint32_t type = 0; type < 13; ++type) {
            const bool floating = type >= kF16 && type <= kTf32Ftz;
            CHECK(accepts(pages(), [&](A& a) { a.data_type = type, a.box[0] = 16, a.oob_fill = 1; }) == floating);
        }
    }
    SECTION("packed types") {
        const auto u6 = [](A& a) { a.data_type = kU6Align16, a.box[0] = 128, a.strides[1] = 8448; };
        CHECK(accepts(pages(), u6));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.address += 16; }));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.dims[0] = 192; }));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.strides[1] = 8464; }));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.box[0] = 64; }));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.interleave = 1; }));
        CHECK_FALSE(accepts(pages(), [&](A& a) { u6(a), a.oob_fill = 1; }));
        for (uint32_t swizzle = 0; swizzle < 7; ++swizzle) {
            const bool six = swizzle == 0 || swizzle == 3 || swizzle == 4 || swizzle == 6;
            CHECK(accepts(pages(), [&](A& a) { u6(a), a.swizzle = swizzle; }) == six);
            CHECK(accepts(pages(), [&](A& a) { u6(a), a.data_type = kU4Align16, a.swizzle = swizzle; }) ==
                  (six && swizzle != 6));
        }
        CHECK(accepts(pages(), [](A& a) { a.data_type = kU4Align8, a.box[0] = 256; }));
        CHECK_FALSE(accepts(pages(), [](A& a) { a.data_type = kU4Align8, a.box[0] = 16; }));    // 8 bytes
        CHECK_FALSE(accepts(pages(), [](A& a) { a.data_type = kU4Align8, a.dims[0] = 127, a.box[0] = 64; }));
    }
    SECTION("compute capability 9.0 has neither packed types nor wide swizzle atoms") {
        std::string why;
        TensorMapArgs args = pages();
        CHECK(tensor_map_check(args, &why, 90));
        for (uint32_t swizzle : {4u, 5u, 6u}) {                                  // H200
            args.swizzle = swizzle;
            CHECK_FALSE(tensor_map_check(args, &why, 90));
        }
        args = pages();
        for (uint32_t type : {13u, 14u, 15u}) {                                  // H200
            args.data_type = type;
            CHECK_FALSE(tensor_map_check(args, &why, 90));
        }
    }
    SECTION("the message names argument, value and limit") {
        TensorMapArgs args = pages();
        args.strides[1] = 8450;
        std::string why;
        CHECK_FALSE(tensor_map_check(args, &why));
        CHECK(why == "globalStrides[1] = 8450, but it must be a multiple of 16 bytes");
        CHECK_FALSE(tensor_map_check(args, nullptr));
    }
}

TEST_CASE("tensor maps survive their 128 bytes, and nothing else passes for one", "[tensor_map]") {
    TensorMapArgs args = pages();
    args.rank = 5;
    args.dims[3] = 1ull << 32, args.dims[4] = 3;
    args.strides[2] = (1ull << 40) - 16, args.strides[3] = 48;
    args.box[3] = 256, args.box[4] = 2;
    for (uint32_t i = 0; i < 5; ++i) args.element_strides[i] = i + 1;
    args.data_type = kTf32Ftz, args.interleave = 2, args.swizzle = 1, args.l2_promotion = 3, args.oob_fill = 1;
    std::vector<uint8_t> bytes(130, 0xee);
    tensor_map_encode(args, bytes.data() + 1);
    CHECK((bytes.front() == 0xee && bytes.back() == 0xee));
    TensorMapArgs out;
    REQUIRE(tensor_map_decode(bytes.data() + 1, &out));
    CHECK(out.data_type == args.data_type);
    CHECK(out.rank == args.rank);
    CHECK(out.address == args.address);
    CHECK(out.interleave == args.interleave);
    CHECK(out.swizzle == args.swizzle);
    CHECK(out.l2_promotion == args.l2_promotion);
    CHECK(out.oob_fill == args.oob_fill);
    for (int i = 0; i < 5; ++i) {
        CHECK(out.dims[i] == args.dims[i]);
        CHECK(out.box[i] == args.box[i]);
        CHECK(out.element_strides[i] == args.element_strides[i]);
        if (i < 4) CHECK(out.strides[i] == args.strides[i]);
    }
    for (size_t i = 1; i <= 128; ++i) {
        std::vector<uint8_t> damaged = bytes;
        damaged[i] ^= 0x10;
        CHECK_FALSE(tensor_map_decode(damaged.data() + 1, &out));
    }
    const std::vector<uint8_t> zeros(128), ones(128, 0xff);
    CHECK_FALSE(tensor_map_decode(zeros.data(), &out));
    CHECK_FALSE(tensor_map_decode(ones.data(), &out));
}

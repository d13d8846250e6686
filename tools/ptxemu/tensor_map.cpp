// SPDX-License-Identifier: Apache-2.0
// The rules are those of cuTensorMapEncodeTiled in the CUDA 13.0 driver API reference (cuda.h), one test per sentence,
// and what the driver 13.0 of an H200 refuses beyond them: addresses from 2^57 on, boxes that no shared memory holds, a
// stride of dimension 0 outside 1..8 (documented as ignored), and less than 16-byte granules with interleave too.
#include "tensor_map.h"

#include <cstring>

namespace ptxemu {
namespace {

// CUtensorMapDataType
constexpr uint32_t kFloat16 = 6, kTfloat32Ftz = 12, kU4Align8 = 13, kU4Align16 = 14, kU6Align16 = 15;
// CUtensorMapInterleave, CUtensorMapSwizzle
constexpr uint32_t kInterleaveNone = 0, kInterleave32 = 2;
constexpr uint32_t kSwizzleNone = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3, kSwizzle128Atom32 = 4,
                   kSwizzle128Atom64 = 6;

constexpr uint64_t kMaxBoxBytes = 233472;          // 228 KB

// The second word of a map, behind its address. Its bit 21 must be 0: for a driver of up to CUDA 13.1, CUTLASS clears
// that bit of the second word of maps of less than 128 KiB.
constexpr char kMagic[8] = {'p', 't', 'X', 'e', 'm', 'u', 'T', '2'};
constexpr size_t kMapBytes = 128, kChecksumOffset = 120;

bool is_float_type(uint32_t type) { return type >= kFloat16 && type <= kTfloat32Ftz; }
bool is_align16_type(uint32_t type) { return type == kU4Align16 || type == kU6Align16; }

std::string element(const char* name, uint32_t index) { return std::string(name) + "[" + std::to_string(index) + "]"; }

bool refuse(std::string* why, const std::string& argument, uint64_t value, const std::string& limit) {
    if (why) *why = argument + " = " + std::to_string(value) + ", but " + limit;
    return false;
}

uint64_t fnv1a(const uint8_t* bytes, size_t count) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

// Walks all fields in a fixed order; `move(pointer, bytes)` copies into or out of the 128 bytes.
template <class Args, class Move>
void for_each_field(Args& args, Move move) {
    move(args.dims, sizeof args.dims);
    move(args.strides, sizeof args.strides);
}

}  // namespace

int tensor_data_type_bits(uint32_t data_type) {
    static constexpr int kBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
    return data_type < sizeof kBits / sizeof kBits[0] ? kBits[data_type] : 0;
}

int tensor_data_type_bytes(uint32_t data_type) {
    const int bits = tensor_data_type_bits(data_type);
    return bits >= 8 ? bits / 8 : 0;
}

bool tensor_map_check(const TensorMapArgs& args, std::string* why, int compute_capability) {
    const int bits = tensor_data_type_bits(args.data_type);
    if (bits == 0) return refuse(why, "tensorDataType", args.data_type, "the types are 0..15");
    if (args.interleave > kInterleave32) return refuse(why, "interleave", args.interleave, "the modes are 0..2");
    if (args.swizzle > kSwizzle128Atom64) return refuse(why, "swizzle", args.swizzle, "the modes are 0..6");
    if (args.l2_promotion > 3) return refuse(why, "l2Promotion", args.l2_promotion, "the modes are 0..3");
    if (args.oob_fill > 1) return refuse(why, "oobFill", args.oob_fill, "the modes are 0..1");

    if (compute_capability < 100) {
        if (args.data_type >= kU4Align8) {
            return refuse(why, "tensorDataType", args.data_type, "packed types need compute capability 10.0");
        }
        if (args.swizzle >= kSwizzle128Atom32) {
            return refuse(why, "swizzle", args.swizzle, "this mode needs compute capability 10.0");
        }
    }

    if (args.rank < 1 || args.rank > 5) return refuse(why, "tensorRank", args.rank, "it must be 1..5");
    if (args.interleave != kInterleaveNone && args.rank < 3) {
        return refuse(why, "tensorRank", args.rank, "an interleaved layout needs 3..5");
    }

    const bool align32 = args.interleave == kInterleave32 || is_align16_type(args.data_type);
    const uint64_t alignment = align32 ? 32 : 16;
    const std::string multiple = "it must be a multiple of " + std::to_string(alignment) + " bytes";
    if (args.address % alignment != 0) return refuse(why, "globalAddress", args.address, multiple);
    if (args.address >> 57 != 0) return refuse(why, "globalAddress", args.address, "it must be below 2^57");

    for (uint32_t i = 0; i < args.rank; ++i) {
        if (args.dims[i] < 1 || args.dims[i] > (uint64_t{1} << 32)) {
            return refuse(why, element("globalDim", i), args.dims[i], "it must be 1..2^32");
        }
    }
    if (is_align16_type(args.data_type) && args.dims[0] % 128 != 0) {
        return refuse(why, "globalDim[0]", args.dims[0], "a 16-byte-aligned packed type needs a multiple of 128");
    }
    if (args.data_type == kU4Align8 && args.dims[0] % 2 != 0) {
        return refuse(why, "globalDim[0]", args.dims[0], "a packed 4-bit type needs a multiple of 2");
    }

    for (uint32_t i = 0; i + 1 < args.rank; ++i) {
        if (args.strides[i] % alignment != 0) {
            return refuse(why, element("globalStrides", i), args.strides[i], multiple);
        }
        if (args.strides[i] >= (uint64_t{1} << 40)) {
            return refuse(why, element("globalStrides", i), args.strides[i], "it must be below 2^40 bytes");
        }
    }

    for (uint32_t i = 0; i < args.rank; ++i) {
        if (args.box[i] < 1 || args.box[i] > 256) {
            return refuse(why, element("boxDim", i), args.box[i], "it must be 1..256");
        }
    }
    const uint64_t inner_bits = uint64_t{args.box[0]} * static_cast<uint64_t>(bits);
    if (is_align16_type(args.data_type)) {
        if (args.box[0] != 128) {
            return refuse(why, "boxDim[0]", args.box[0], "a 16-byte-aligned packed type needs 128");
        }
    } else if (inner_bits % 128 != 0) {
        return refuse(why, "boxDim[0]", args.box[0],
                      "boxDim[0] * " + std::to_string(bits) + " bits must be a multiple of 16 bytes");
    }

    for (uint32_t i = 0; i < args.rank; ++i) {
        if (args.element_strides[i] < 1 || args.element_strides[i] > 8) {
            return refuse(why, element("elementStrides", i), args.element_strides[i], "it must be 1..8");
        }
    }

    uint64_t elements = 1;
    for (uint32_t i = 0; i < args.rank; ++i) elements *= args.box[i] / args.element_strides[i];
    if (elements * static_cast<uint64_t>(bits) / 8 > kMaxBoxBytes) {
        return refuse(why, "boxDim: bytes of the box", elements * static_cast<uint64_t>(bits) / 8,
                      "shared memory has " + std::to_string(kMaxBoxBytes));
    }

    if (args.data_type == kU6Align16 && args.interleave != kInterleaveNone) {
        return refuse(why, "interleave", args.interleave, "the 6-bit packed type needs 0 (none)");
    }
    if (args.interleave == kInterleave32 && args.swizzle != kSwizzle32) {
        return refuse(why, "swizzle", args.swizzle, "the 32-byte interleave needs 1 (32B)");
    }
    if (args.interleave == kInterleaveNone && args.swizzle != kSwizzleNone && !is_align16_type(args.data_type)) {
        const uint64_t span = args.swizzle == kSwizzle32 ? 32 : args.swizzle == kSwizzle64 ? 64 : 128;
        if (inner_bits / 8 > span) {
            return refuse(why, "boxDim[0]", args.box[0],
                          "boxDim[0] * " + std::to_string(bits) + " bits must not exceed the swizzle span of " +
                              std::to_string(span) + " bytes");
        }
    }
    if (args.data_type == kU6Align16 && args.swizzle != kSwizzleNone && args.swizzle != kSwizzle128 &&
        args.swizzle != kSwizzle128Atom32 && args.swizzle != kSwizzle128Atom64) {
        return refuse(why, "swizzle", args.swizzle, "the 6-bit packed type takes 0, 3, 4 or 6");
    }
    if (args.data_type == kU4Align16 && args.swizzle != kSwizzleNone && args.swizzle != kSwizzle128 &&
        args.swizzle != kSwizzle128Atom32) {
        return refuse(why, "swizzle", args.swizzle, "the 16-byte-aligned 4-bit type takes 0, 3 or 4");
    }
    if (args.oob_fill == 1 && !is_float_type(args.data_type)) {
        return refuse(why, "oobFill", args.oob_fill, "NaN fill needs a floating-point data type");
    }
    return true;
}

void tensor_map_encode(const TensorMapArgs& args, void* out128) {
    uint8_t bytes[kMapBytes] = {};
    std::memcpy(bytes, &args.address, sizeof args.address);
    std::memcpy(bytes + sizeof args.address, kMagic, sizeof kMagic);
    uint8_t* at = bytes + sizeof args.address + sizeof kMagic;
    for_each_field(args, [&](const void* field, size_t size) {
        std::memcpy(at, field, size);
        at += size;
    });
    for (uint32_t box : args.box) {
        *at++ = static_cast<uint8_t>(box);
        *at++ = static_cast<uint8_t>(box >> 8);
    }
    for (uint32_t stride : args.element_strides) *at++ = static_cast<uint8_t>(stride);
    for (uint32_t small :
         {args.data_type, args.rank, args.interleave, args.swizzle, args.l2_promotion, args.oob_fill, args.replaced,
          args.swizzle_atomicity}) {
        *at++ = static_cast<uint8_t>(small);
    }
    const uint64_t checksum = fnv1a(bytes, kChecksumOffset);
    std::memcpy(bytes + kChecksumOffset, &checksum, sizeof checksum);
    std::memcpy(out128, bytes, kMapBytes);
}

bool tensor_map_decode(const void* in128, TensorMapArgs* args) {
    uint8_t bytes[kMapBytes];
    std::memcpy(bytes, in128, kMapBytes);
    uint64_t checksum;
    std::memcpy(&checksum, bytes + kChecksumOffset, sizeof checksum);
    TensorMapArgs out;
    if (std::memcmp(bytes + sizeof out.address, kMagic, sizeof kMagic) != 0 ||
        checksum != fnv1a(bytes, kChecksumOffset))
        return false;
    std::memcpy(&out.address, bytes, sizeof out.address);
    const uint8_t* at = bytes + sizeof out.address + sizeof kMagic;
    for_each_field(out, [&](void* field, size_t size) {
        std::memcpy(field, at, size);
        at += size;
    });
    for (uint32_t& box : out.box) {
        box = static_cast<uint32_t>(at[0] | at[1] << 8);
        at += 2;
    }
    for (uint32_t& stride : out.element_strides) stride = *at++;
    for (uint32_t* small :
         {&out.data_type, &out.rank, &out.interleave, &out.swizzle, &out.l2_promotion, &out.oob_fill, &out.replaced,
          &out.swizzle_atomicity}) {
        *small = *at++;
    }
    *args = out;
    return true;
}

bool tensor_map_replace(void* map128, TensorMapField field, uint32_t ordinal, uint64_t value, std::string* why) {
    static constexpr uint8_t kZeros[kMapBytes] = {};
    TensorMapArgs map;
    if (std::memcmp(map128, kZeros, kMapBytes) == 0) {
        map.rank = 1;
    } else if (!tensor_map_decode(map128, &map)) {
        *why = "the 128 bytes are neither a tensor map nor zeros";
        return false;
    }
    map.replaced = 1;
    const auto number = [&](const char* name, uint32_t end, uint32_t* to) {
        if (value >= end) return refuse(why, name, value, "the values are 0.." + std::to_string(end - 1));
        *to = static_cast<uint32_t>(value);
        return true;
    };
    bool fits = true;
    uint32_t n = 0;
    switch (field) {
        case TensorMapField::kAddress: map.address = value; break;
        case TensorMapField::kRank:
            fits = number("rank", 5, &n);
            map.rank = n + 1;
            break;
        // 16 bits of a box and 8 of an element stride are kept; what is larger is wrong all the same.
        case TensorMapField::kBoxDim: map.box[ordinal] = static_cast<uint32_t>(value < 0xffff ? value : 0xffff); break;
        case TensorMapField::kGlobalDim: map.dims[ordinal] = value; break;
        case TensorMapField::kGlobalStride: map.strides[ordinal] = value; break;
        case TensorMapField::kElementStride:
            map.element_strides[ordinal] = static_cast<uint32_t>(value < 0xff ? value : 0xff);
            break;
        case TensorMapField::kElementType: {
            // f32.ftz, f64, bf16 have other numbers here than in CUtensorMapDataType.
            static constexpr uint32_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};
            fits = number("elemtype", 16, &n);
            if (fits) map.data_type = kTypes[n];
            break;
        }
        case TensorMapField::kInterleave: fits = number("interleave_layout", 3, &map.interleave); break;
        case TensorMapField::kSwizzleMode:
            fits = number("swizzle_mode", kSwizzle128 + 1, &n);
            if (map.swizzle > kSwizzle128) map.swizzle_atomicity = map.swizzle - kSwizzle128;
            map.swizzle = n == kSwizzle128 ? kSwizzle128 + map.swizzle_atomicity : n;
            break;
        case TensorMapField::kSwizzleAtomicity:
            fits = number("swizzle_atomicity", 4, &map.swizzle_atomicity);
            if (map.swizzle >= kSwizzle128) map.swizzle = kSwizzle128 + map.swizzle_atomicity;
            break;
        case TensorMapField::kFillMode: fits = number("fill_mode", 2, &map.oob_fill); break;
    }
    if (fits) tensor_map_encode(map, map128);
    return fits;
}

}  // namespace ptxemu

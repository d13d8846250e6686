// SPDX-License-Identifier: Apache-2.0
// cuTensorMapEncodeTiled: the driver's argument checks, and the emulator's own packing of the 128 opaque bytes.
#pragma once
#include <cstdint>
#include <string>

namespace ptxemu {

// Enumerator values equal CUtensorMap* of cuda.h.
struct TensorMapArgs {
    uint32_t data_type = 0;                // CUtensorMapDataType
    uint32_t rank = 0;                     // 1..5
    uint64_t address = 0;
    uint64_t dims[5] = {};                 // elements
    uint64_t strides[4] = {};              // bytes, of dims 1..rank-1
    uint32_t box[5] = {};
    uint32_t element_strides[5] = {};
    uint32_t interleave = 0, swizzle = 0, l2_promotion = 0, oob_fill = 0;
    // tensormap.replace has changed it, so that tensor_map_check() is due when it is used.
    uint32_t replaced = 0, swizzle_atomicity = 0;   // the latter while the swizzle is none of 128 bytes
};
int tensor_data_type_bits(uint32_t data_type);    // 0 if unknown
int tensor_data_type_bytes(uint32_t data_type);   // 0 if unknown or a packed 4-bit or 6-bit type

// True if the driver would accept the arguments; otherwise *why names the argument, its value and the limit.
// compute_capability: packed types and swizzles with atoms above 16 bytes exist from 100 on.
bool tensor_map_check(const TensorMapArgs& args, std::string* why, int compute_capability = 100);
// Packs into / unpacks from 128 bytes. decode returns false if the bytes are not a map this emulator made
// (magic and checksum), for example an uninitialised or a real driver's one.
void tensor_map_encode(const TensorMapArgs& args, void* out128);
bool tensor_map_decode(const void* in128, TensorMapArgs* args);

// Fields in the order of PTX ISA 9.7.9.28.
enum class TensorMapField : uint32_t {
    kAddress,
    kRank,
    kBoxDim,   // this and the next three have an ordinal, a dimension
    kGlobalDim,
    kGlobalStride,
    kElementStride,
    kElementType,   // this and the next four take the numbers of table 33
    kInterleave,
    kSwizzleMode,
    kSwizzleAtomicity,
    kFillMode
};
// Replaces one field of the map in these 128 bytes, which may be zeros, the beginning of a new one. False: *why.
bool tensor_map_replace(void* map128, TensorMapField field, uint32_t ordinal, uint64_t value, std::string* why);

}  // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// The box is walked row by row (dimension 0). In shared memory the rows lie packed, dimension 0 fastest; the swizzle
// then moves 16-byte chunks by bits of their absolute address, so a row is always copied in chunks of 16 bytes.
// Marked "H200": not in the manual, but what an H200 does (docs/emulator-reference.md, "Tensor copies").
#include "tma.h"

#include <algorithm>
#include <cstring>

#include "hex.h"

namespace ptxemu {
namespace {

constexpr uint32_t kChunkBytes = 16;
constexpr uint32_t kSharedAlignmentBytes = 128;   // cp.async.bulk.tensor's shared operand
constexpr uint32_t kAtom32Flip8 = 5;              // CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B

uint32_t elements_along(const TensorMapArgs& map, uint32_t dim) {
    if (dim == 0) return map.box[0];               // the stride of dimension 0 is ignored without interleave
    return (map.box[dim] + map.element_strides[dim] - 1) / map.element_strides[dim];
}

// Distance of rows in shared memory: with a swizzle a row takes the whole span, however narrow the box (H200).
uint32_t shared_pitch(const TensorMapArgs& map) {
    static constexpr uint32_t kSpan[] = {0, 32, 64, 128, 128, 128, 128};
    return map.swizzle == 0 ? map.box[0] * static_cast<uint32_t>(tensor_data_type_bytes(map.data_type))
                            : kSpan[map.swizzle];
}

uint64_t rows_of_box(const TensorMapArgs& map) {
    uint64_t rows = 1;
    for (uint32_t dim = 1; dim < map.rank; ++dim) rows *= elements_along(map, dim);
    return rows;
}

uint64_t box_bytes_64(const TensorMapArgs& map) {
    return rows_of_box(map) * map.box[0] * static_cast<uint64_t>(tensor_data_type_bytes(map.data_type));
}

// What a copy needs to know before it moves the first byte; a non-empty answer says why it cannot.
std::string check_copy(const TensorMapArgs& map, const int32_t* coords, uint32_t shared_bytes,
                       uint32_t shared_address) {
    std::string why;
    if (!tensor_map_check(map, &why)) return "tensor map: " + why;
    if (map.interleave != 0) {
        return "tensor map: interleave " + std::to_string(map.interleave == 1 ? 16 : 32) + "B is not supported";
    }
    if (tensor_data_type_bytes(map.data_type) == 0) {
        return "tensor map: packed data type " + std::to_string(map.data_type) + " is not supported";
    }
    // The box has to begin on 16 bytes of global memory, inside the tensor or not (PTX ISA 5.5.3.1).
    const int64_t first_byte = int64_t{coords[0]} * tensor_data_type_bytes(map.data_type);
    if (first_byte % kChunkBytes != 0) {
        return "tensor coordinate 0 = " + std::to_string(coords[0]) + " is byte " + std::to_string(first_byte) +
               " of a row, not a multiple of 16";
    }
    if (shared_address % kSharedAlignmentBytes != 0) {
        return "shared address " + hex(shared_address) + " is not a multiple of 128";
    }
    uint64_t bytes = rows_of_box(map) * shared_pitch(map);
    if (map.swizzle != 0) bytes = (bytes + 127) / 128 * 128;   // a swizzle permutes whole 128-byte lines
    if (shared_address > shared_bytes || bytes > shared_bytes - shared_address) {
        return "box of " + std::to_string(bytes) + " bytes at shared address " + hex(shared_address) +
               " ends beyond the " + std::to_string(shared_bytes) + " bytes of shared memory";
    }
    return {};
}

// The fill of out-of-bounds elements of one row.
void fill_row(const TensorMapArgs& map, uint8_t* row, uint32_t row_bytes) {
    if (map.oob_fill == 0) {
        std::memset(row, 0, row_bytes);
        return;
    }
    // The special NaN of every floating-point type is 0x7ff7 in each 16 bits (H200).
    for (uint32_t i = 0; i < row_bytes; i += 2) {
        row[i] = 0xf7;
        row[i + 1] = 0x7f;
    }
}

bool is_tf32(const TensorMapArgs& map) { return map.data_type == 11 || map.data_type == 12; }

// Loads of the TF32 types round to 10 fraction bits, nearest even; every NaN becomes 0x7fffe000 (H200). Stores, and the
// FTZ of either load, change nothing.
void round_to_tf32(uint8_t* elements, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += 4) {
        uint32_t value;
        std::memcpy(&value, elements + at, 4);
        const bool nan = (value & 0x7fffffff) > 0x7f800000;
        value = nan ? 0x7fffe000 : (value + 0xfff + (value >> 13 & 1)) & ~0x1fffu;
        std::memcpy(elements + at, &value, 4);
    }
}

// Copies one row to or from its swizzled place. shared_address is the row's address before the swizzle.
template <bool kToShared, class SharedByte, class RowByte>
void move_row(uint32_t swizzle, SharedByte* shared, uint32_t shared_address, RowByte* row, uint32_t row_bytes) {
    for (uint32_t at = 0; at < row_bytes; at += kChunkBytes) {
        const uint32_t place = tma_swizzle_address(swizzle, shared_address + at);
        if (swizzle == kAtom32Flip8) {             // place differs from a chunk boundary by 8 on odd rows
            const uint32_t other = place ^ 8;
            if constexpr (kToShared) {
                std::memcpy(shared + place, row + at, 8);
                std::memcpy(shared + other, row + at + 8, 8);
            } else {
                std::memcpy(row + at, shared + place, 8);
                std::memcpy(row + at + 8, shared + other, 8);
            }
        } else if constexpr (kToShared) {
            std::memcpy(shared + place, row + at, kChunkBytes);
        } else {
            std::memcpy(row + at, shared + place, kChunkBytes);
        }
    }
}

// One row of the box: its place in shared memory before the swizzle, and the part of it that lies inside the tensor.
struct Row {
    uint32_t shared_address;
    bool inside;              // in all dimensions but 0
    uint64_t address;         // of the first element inside the tensor; valid where inside and last > first
    uint32_t first, last;     // elements [first, last) of the row are inside along dimension 0
};

// Calls visit(row) for every row of the box; stops at the first non-empty answer and returns it.
template <class Visit>
std::string walk_rows(const TensorMapArgs& map, const int32_t* coords, uint32_t shared_address, Visit visit) {
    const int64_t element_bytes = tensor_data_type_bytes(map.data_type);
    const uint32_t pitch = shared_pitch(map);
    const int64_t width = map.box[0];
    const int64_t start = coords[0];
    const int64_t extent = static_cast<int64_t>(map.dims[0]);
    const int64_t first = std::clamp<int64_t>(-start, 0, width);
    const int64_t last = std::clamp<int64_t>(extent - start, first, width);

    Row row;
    row.shared_address = shared_address;
    row.first = static_cast<uint32_t>(first);
    row.last = static_cast<uint32_t>(last);
    const uint64_t column_address = map.address + static_cast<uint64_t>((start + first) * element_bytes);

    uint32_t counts[5] = {1, 1, 1, 1, 1};
    for (uint32_t dim = 1; dim < map.rank; ++dim) counts[dim] = elements_along(map, dim);
    uint32_t index[5] = {};
    for (;;) {
        row.inside = true;
        row.address = column_address;
        for (uint32_t dim = 1; dim < map.rank; ++dim) {
            const int64_t position = int64_t{coords[dim]} + int64_t{index[dim]} * map.element_strides[dim];
            if (position < 0 || position >= static_cast<int64_t>(map.dims[dim])) row.inside = false;
            row.address += static_cast<uint64_t>(position) * map.strides[dim - 1];
        }
        if (std::string why = visit(row); !why.empty()) return why;
        row.shared_address += pitch;
        uint32_t dim = 1;
        while (dim < 5 && ++index[dim] == counts[dim]) index[dim++] = 0;
        if (dim >= 5) return {};
    }
}

std::string fault(const char* verb, uint64_t address, uint64_t bytes) {
    return std::string("global memory fault: ") + verb + " of " + std::to_string(bytes) + " bytes at " + hex(address);
}

}  // namespace

uint32_t tma_swizzle_address(uint32_t swizzle, uint32_t a) {
    switch (swizzle) {
        case 1: return a ^ ((a >> 7 & 1) << 4);
        case 2: return a ^ ((a >> 7 & 3) << 4);
        case 3: return a ^ ((a >> 7 & 7) << 4);
        case 4: return a ^ ((a >> 7 & 3) << 5);
        case 5: return a ^ ((a >> 7 & 3) << 5) ^ ((a >> 7 & 1) << 3);
        case 6: return a ^ ((a >> 7 & 1) << 6);
        default: return a;
    }
}

uint32_t tma_box_bytes(const TensorMapArgs& map) {
    return static_cast<uint32_t>(std::min<uint64_t>(box_bytes_64(map), UINT32_MAX));
}

std::string tma_load(const TensorMapArgs& map, const int32_t* coords, uint8_t* shared, uint32_t shared_bytes,
                     uint32_t dst, const TmaAccess& access) {
    if (std::string why = check_copy(map, coords, shared_bytes, dst); !why.empty()) return why;
    const uint32_t element_bytes = static_cast<uint32_t>(tensor_data_type_bytes(map.data_type));
    const uint32_t row_bytes = map.box[0] * element_bytes;
    uint8_t buffer[256 * 8];
    return walk_rows(map, coords, dst, [&](const Row& row) -> std::string {
        const uint8_t* source = buffer;
        if (row.inside && row.last > row.first) {
            const uint64_t bytes = uint64_t{row.last - row.first} * element_bytes;
            const uint8_t* global = access.read(row.address, bytes);
            if (global == nullptr) return fault("read", row.address, bytes);
            if (bytes == row_bytes && !is_tf32(map)) {
                source = global;
            } else {
                fill_row(map, buffer, row_bytes);
                std::memcpy(buffer + row.first * element_bytes, global, bytes);
                if (is_tf32(map)) round_to_tf32(buffer + row.first * element_bytes, bytes);
            }
        } else {
            fill_row(map, buffer, row_bytes);
        }
        move_row<true>(map.swizzle, shared, row.shared_address, source, row_bytes);
        return {};
    });
}

std::string tma_store(const TensorMapArgs& map, const int32_t* coords, const uint8_t* shared, uint32_t shared_bytes,
                      uint32_t src, const TmaAccess& access, const TmaCombine& combine) {
    if (std::string why = check_copy(map, coords, shared_bytes, src); !why.empty()) return why;
    const uint32_t element_bytes = static_cast<uint32_t>(tensor_data_type_bytes(map.data_type));
    const uint32_t row_bytes = map.box[0] * element_bytes;
    uint8_t buffer[256 * 8];
    for (uint32_t dim = 0; dim < map.rank; ++dim) {             // H200: allowed in loads only
        if (coords[dim] < 0) {
            return "tensor coordinate " + std::to_string(dim) + " = " + std::to_string(coords[dim]) +
                   " of a store is negative";
        }
    }
    return walk_rows(map, coords, src, [&](const Row& row) -> std::string {
        if (!row.inside || row.last <= row.first) return {};
        // The last 16 bytes of a row are written whole, even where the tensor ends inside them (H200).
        const uint32_t first_byte = row.first * element_bytes;
        uint32_t last_byte = row.last * element_bytes;
        if (!combine) last_byte = std::min((last_byte + 15) / 16 * 16, row_bytes);
        const uint64_t bytes = last_byte - first_byte;
        uint8_t* global = access.write(row.address, bytes);
        if (global == nullptr) return fault("write", row.address, bytes);
        move_row<false>(map.swizzle, shared, row.shared_address, buffer, row_bytes);
        if (combine) combine(global, buffer + first_byte, static_cast<uint32_t>(bytes));
        else std::memcpy(global, buffer + first_byte, bytes);
        return {};
    });
}

void tma_footprint(const TensorMapArgs& map, const int32_t* coords, uint32_t shared_address,
                   const std::function<void(uint32_t, uint32_t)>& shared,
                   const std::function<void(uint64_t, uint64_t)>& global) {
    const uint32_t element_bytes = static_cast<uint32_t>(tensor_data_type_bytes(map.data_type));
    const uint32_t row_bytes = map.box[0] * element_bytes;
    const bool packed = row_bytes == shared_pitch(map);   // then a swizzle moves nothing out of the whole box
    if (packed) shared(shared_address, static_cast<uint32_t>(rows_of_box(map)) * row_bytes);
    walk_rows(map, coords, shared_address, [&](const Row& row) -> std::string {
        if (!packed) {
            for (uint32_t at = 0; at < row_bytes; at += kChunkBytes)
                shared(tma_swizzle_address(map.swizzle, row.shared_address + at) & ~(kChunkBytes - 1), kChunkBytes);
        }
        if (row.inside && row.last > row.first) global(row.address, uint64_t{row.last - row.first} * element_bytes);
        return {};
    });
}

}  // namespace ptxemu

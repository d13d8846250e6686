// SPDX-License-Identifier: Apache-2.0
// Tiled-mode bulk tensor copies between global and shared memory: box walk, out-of-bounds fill, swizzle.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "tensor_map.h"

namespace ptxemu {

// Swizzle modes as in CUtensorMapSwizzle. XOR on absolute shared-memory byte address bits (blackwell.md A7).
uint32_t tma_swizzle_address(uint32_t swizzle, uint32_t shared_address);

// Bytes of a box of this map, out-of-bounds parts included = what complete_tx reports. In shared memory a box narrower
// than its swizzle span takes more: each row occupies a whole span.
uint32_t tma_box_bytes(const TensorMapArgs& map);

struct TmaAccess {
    // Checked view of global memory: pointer to `length` readable (writable) bytes at `address`, or null (fault).
    std::function<const uint8_t*(uint64_t address, uint64_t length)> read;
    std::function<uint8_t*(uint64_t address, uint64_t length)> write;
};

// shared: base of the CTA's shared window; dst: byte offset in it (the absolute shared address that the swizzle sees).
// Checks alignment of dst (128, 16 for untiled) and that the box lies inside shared_bytes.
// Returns an empty string, or what is wrong. An answer that begins with "global memory fault" is an illegal address,
// one that begins with "shared address" a misaligned one; an H200 traps the others as illegal instructions.
std::string tma_load(const TensorMapArgs& map, const int32_t* coords, uint8_t* shared, uint32_t shared_bytes,
                     uint32_t dst, const TmaAccess& access);
// combine: what happens to the elements of a row in global memory, given those of shared memory; null: they are
// overwritten.
using TmaCombine = std::function<void(uint8_t* global, const uint8_t* elements, uint32_t bytes)>;
std::string tma_store(const TensorMapArgs& map, const int32_t* coords, const uint8_t* shared, uint32_t shared_bytes,
                      uint32_t src, const TmaAccess& access, const TmaCombine& combine = nullptr);

// What a load (or store) of this box touches: ranges of shared memory and of global memory.
void tma_footprint(const TensorMapArgs& map, const int32_t* coords, uint32_t shared_address,
                   const std::function<void(uint32_t address, uint32_t length)>& shared,
                   const std::function<void(uint64_t address, uint64_t length)>& global);

}  // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// The operations of atom, red and of the asynchronous reductions, on one element.
#pragma once
#include <cstdint>
#include <string_view>

namespace ptxemu {

enum class AtomOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExch, kCas };
enum class AtomType : uint8_t { kInt, kF32, kF64, kF16, kBf16, kF16x2, kBf16x2 };

struct Reduction {
    AtomOp op = AtomOp::kAdd;
    AtomType type = AtomType::kInt;
    uint32_t bytes = 4;   // of an element: 2, 4 or 8
    bool is_signed = false;
};
inline uint64_t encode_reduction(const Reduction& r) {
    return static_cast<uint64_t>(r.op) | static_cast<uint64_t>(r.type) << 8 | uint64_t{r.bytes} << 16 |
           (r.is_signed ? 1ull << 24 : 0);
}
inline Reduction decode_reduction(uint64_t bits) {
    return {static_cast<AtomOp>(bits & 0xff), static_cast<AtomType>(bits >> 8 & 0xff),
            static_cast<uint32_t>(bits >> 16 & 0xff), (bits >> 24 & 1) != 0};
}
// Index of the word in AtomOp, -1: none.
int atom_op_of(std::string_view word);
// Elements [target, target + bytes) op= elements at operand, each atomically. f32 keeps subnormals: of
// cp.reduce.async.bulk.add.f32 the manual says that it flushes them, an H200 does not.
void reduce_elements(const Reduction& r, uint8_t* target, const uint8_t* operand, uint32_t bytes);

}   // namespace ptxemu

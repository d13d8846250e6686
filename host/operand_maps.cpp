// SPDX-License-Identifier: Apache-2.0
#include "host/operand_maps.h"

#include <algorithm>
#include <string>

#include "host/status.h"
#include "kernel/schedule.h"

namespace lidx {

namespace {

// Codes travel as bytes; rows of 128 (64) bytes are swizzled over 1024-byte (512-byte) groups of eight, as the shared
// memory descriptors of the MMA expect them. Whatever lies beyond the tensor arrives as zeros and still counts as bytes
// transferred.
template <int kRank>
CUtensorMap encode(const Driver& driver, const char* what, const void* base, const cuuint64_t (&dims)[kRank],
                   const cuuint64_t (&strides_bytes)[kRank - 1], const cuuint32_t (&box)[kRank]) {
    cuuint32_t element_strides[kRank];
    std::fill(element_strides, element_strides + kRank, 1u);
    CUtensorMap map;
    const CUresult result = driver.cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, kRank, const_cast<void*>(base), dims, strides_bytes, box, element_strides,
        CU_TENSOR_MAP_INTERLEAVE_NONE, box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        std::string text = std::string("cuTensorMapEncodeTiled of ") + what + ", dims";
        for (const cuuint64_t dim : dims) text += " " + std::to_string(dim);
        text += ", strides";
        for (const cuuint64_t stride : strides_bytes) text += " " + std::to_string(stride);
        text += ", box";
        for (const cuuint32_t edge : box) text += " " + std::to_string(edge);
        fail(LIDX_ERR_DRIVER, text + ": " + driver_result_text(driver, result), result);
    }
    return map;
}

}  // namespace

CUtensorMap encode_k_map(const Driver& driver, const lidx_plan& plan, const void* k_base) {
    const auto depth = static_cast<cuuint64_t>(plan.params.depth);
    // Contiguous without keys: FILL still launches. No box is loaded, but a map cannot be empty.
    const auto slots = static_cast<cuuint64_t>(std::max(plan.params.page_size, 1));
    const auto stride = std::max(static_cast<cuuint64_t>(plan.params.k_page_stride), slots * depth);
    const auto box_slots =
        static_cast<cuuint32_t>(k_box_slots(!plan.contiguous, static_cast<int32_t>(slots), plan.kernel->tile_keys));
    return encode<3>(driver, "k", k_base, {depth, slots, static_cast<cuuint64_t>(plan.params.num_pages)},
                     {depth, stride},
                     {static_cast<cuuint32_t>(depth), box_slots, 1});
}

CUtensorMap encode_q_map(const Driver& driver, const lidx_plan& plan, const void* q) {
    const auto depth = static_cast<cuuint64_t>(plan.params.depth);
    const auto rows = static_cast<cuuint64_t>(plan.params.view.rows);
    const auto heads = static_cast<cuuint64_t>(plan.params.heads);
    const auto box_depth = static_cast<cuuint32_t>(depth), box_rows = static_cast<cuuint32_t>(plan.kernel->q_box_rows);
    if (plan.kernel->q_pairs)   // head 8 j + 2 i + e of a row is [e, j, row, i]; a box has two rows
        return encode<5>(driver, "q", q, {depth, 4, rows, heads / 8, 2}, {2 * depth, heads * depth, 8 * depth, depth},
                         {box_depth, 4, 2, static_cast<cuuint32_t>(heads / 8), 2});
    if (plan.kernel->q_turns)
        return encode<3>(driver, "q", q, {depth, rows, heads}, {heads * depth, depth},
                         {box_depth, 2, static_cast<cuuint32_t>(heads)});
    if (plan.kernel->q_head_slots != 0) {   // heads that a token lacks are beyond the tensor: zeros
        const auto slots = static_cast<cuuint32_t>(plan.kernel->q_head_slots);
        return encode<3>(driver, "q", q, {depth, heads, rows}, {depth, heads * depth},
                         {box_depth, slots, box_rows / slots});
    }
    return encode<2>(driver, "q", q, {depth, rows * heads}, {depth}, {box_depth, box_rows});
}

}  // namespace lidx

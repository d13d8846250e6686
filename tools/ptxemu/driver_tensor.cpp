// SPDX-License-Identifier: Apache-2.0
// cuTensorMapEncodeTiled: the arguments checked as the driver does, then packed in the emulator's own form.
#include "driver_state.h"
#include "tensor_map.h"

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank,
                                                   void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                                   const cuuint32_t* box, const cuuint32_t* element_strides,
                                                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                                   CUtensorMapL2promotion l2_promotion,
                                                   CUtensorMapFloatOOBfill oob_fill) {
    return guarded("cuTensorMapEncodeTiled", [&] {
        const Initialised call;
        if (call.s.config.device.compute_capability < 90) {
            fail(CUDA_ERROR_NOT_SUPPORTED, "tensor maps need compute capability 9.0");
        }
        require(map, "tensorMap");
        if (rank < 1 || rank > 5) {
            fail(CUDA_ERROR_INVALID_VALUE, "tensorRank = " + std::to_string(rank) + " is outside 1..5");
        }
        require(dims, "globalDim");
        require(box, "boxDim");
        require(element_strides, "elementStrides");
        if (rank > 1) require(strides, "globalStrides");
        TensorMapArgs args;
        args.data_type = static_cast<uint32_t>(data_type);
        args.rank = rank;
        args.address = reinterpret_cast<uint64_t>(address);
        for (cuuint32_t d = 0; d < rank; ++d) {
            args.dims[d] = dims[d];
            args.box[d] = box[d];
            args.element_strides[d] = element_strides[d];
            if (d + 1 < rank) args.strides[d] = strides[d];
        }
        args.interleave = static_cast<uint32_t>(interleave);
        args.swizzle = static_cast<uint32_t>(swizzle);
        args.l2_promotion = static_cast<uint32_t>(l2_promotion);
        args.oob_fill = static_cast<uint32_t>(oob_fill);
        std::string why;
        if (!tensor_map_check(args, &why, call.s.config.device.compute_capability)) fail(CUDA_ERROR_INVALID_VALUE, why);
        tensor_map_encode(args, map);
    });
}

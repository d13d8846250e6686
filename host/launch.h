// SPDX-License-Identifier: Apache-2.0
// From a plan and pointers to a kernel launch.
#pragma once
#include <lidx.h>

#include <cstdint>

#include "host/context.h"
#include "host/plan.h"

namespace lidx {

// Programmatic dependent launch (LIDX_FLAG_PDL).
inline CUlaunchAttribute overlap_attribute() {
    CUlaunchAttribute overlap = {};
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
    return overlap;
}

// cuLaunchKernelEx in the current context; a failure names kernel, grid and sizes.
void launch_kernel(const lidx_context& context, const char* symbol, CUfunction function, const CUlaunchConfig& config,
                   void** kernel_params);

// Validates the pointers, encodes the tensor maps on the stack and launches. Allocates nothing unless it fails.
void enqueue_score(const lidx_context& context, const lidx_plan& plan, const lidx_score_args& args, CUstream stream);

inline constexpr Fields kPlanFields{"the plan's "};
// Throws where a pointer is missing, misplaced or not aligned. name: fields of the description, to those who gave it.
void check_score_args(const lidx_plan& plan, const lidx_score_args& args, const Fields& name = kPlanFields);
// LIDX_ERR_UNSUPPORTED where a device has not the plan's kernel.
void check_score_device(const lidx_plan& plan, const DeviceLimits& device);

// Rows [first, end) of what a call has; their scores alone, the first row's at the beginning of the buffer.
struct RowWindow {
    int32_t first, end;
};
// plan, which is not empty, and args as check_score_device() and check_score_args() saw them.
void launch_score(const lidx_context& context, const lidx_plan& plan, const lidx_score_args& args,
                  const RowWindow& window, CUstream stream);
// The buffer as if it began with row 0: kernels touch the window's rows alone.
inline void* before_window(void* scores, const RowWindow& window, int64_t stride_bytes) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(scores) -
                                   static_cast<uintptr_t>(window.first * stride_bytes));
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// From a shape to a kernel, a grid and a parameter block without pointers. Pure functions: no driver call.
#pragma once
#include <lidx.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "host/field_checks.h"
#include "host/kernel_table.h"
#include "kernel/problem.h"

struct lidx_plan {
    const lidx::KernelRow* kernel = nullptr;
    lidx::ScoreParams params = {};  // every field that is not a pointer
    int32_t batch = 0;
    bool contiguous = false;
    bool scale_table = false;  // the scales have a block table of their own
    bool pdl = false;          // launched with the attribute
    uint32_t grid[3] = {};  // zeros: nothing to launch
    uint32_t block[3] = {};
    uint32_t shared_bytes = 0;  // dynamic
    size_t workspace_bytes = 0;

    bool empty() const { return grid[0] == 0; }
    size_t kernel_index() const { return static_cast<size_t>(kernel - lidx::kernel_rows().data()); }
};

namespace lidx {

struct DeviceLimits {
    int compute_capability;  // major * 10 + minor
    int multiprocessors;
    int shared_bytes_per_cta;   // the most that a launch may ask for
};

// Throws where a field of the description is outside the limits that hold for every kernel. name: its fields, here and
// below.
void check_desc(const lidx_score_desc& desc, const Fields& name = {});

struct Choice {
    const KernelRow* kernel;      // null: none serves
    std::string reason;           // why none does, or why a preferred one does not; empty if the preferred one serves
    bool forced_unknown = false;  // desc.kernel names no kernel
};
// The kernel that serves a checked description on a device.
Choice choose_kernel(const lidx_score_desc& desc, const DeviceLimits& device, const Fields& name = {});

// check_desc, choose_kernel (a failure where none serves), then the launch. window_rows: launches are of at most so
// many rows (RowView::first_row, end_row).
lidx_plan make_plan(const lidx_score_desc& desc, const DeviceLimits& device,
                    int64_t window_rows = std::numeric_limits<int32_t>::max(), const Fields& name = {});

}  // namespace lidx

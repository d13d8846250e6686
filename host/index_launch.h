// SPDX-License-Identifier: Apache-2.0
// Score and select in one call: windows of rows, each scored into the workspace and selected from in turn.
#pragma once
#include <lidx.h>

#include <cstddef>
#include <cstdint>

#include "host/context.h"
#include "host/plan.h"
#include "host/topk_launch.h"

struct lidx_index_plan {
    lidx_plan score;
    lidx::TopkPlan select;
    int32_t rows = 0, window_rows = 0;   // all; of a window, but for the last
    int64_t score_bytes = 0;             // of a row in the workspace
    // Workspace: the word of LIDX_FLAG_CHECK, the selection's, the scores of a window.
    size_t scores_at = 0, zero_bytes = 0, workspace_bytes = 0;

    int32_t windows() const {
        return window_rows == 0 ? 0 : static_cast<int32_t>((int64_t{rows} + window_rows - 1) / window_rows);
    }
};

namespace lidx {

lidx_index_plan make_index_plan(const lidx_index_desc& desc, const DeviceLimits& device);
void enqueue_index(const lidx_context& context, const lidx_index_plan& plan, const lidx_index_args& args,
                   CUstream stream);

}  // namespace lidx

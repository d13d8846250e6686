// SPDX-License-Identifier: Apache-2.0
// The selection of keys: checks, workspace, launch.
#pragma once
#include <lidx.h>

#include <cstddef>

#include "host/context.h"
#include "host/launch.h"
#include "kernel/topk_layout.h"

namespace lidx {

// The fields of a description, to those who gave it: an index description has some of them in its score.
struct TopkFields {
    Fields own, score;
};
// Throws where a field is outside its limits.
void check_topk_desc(const lidx_topk_desc& desc, const TopkFields& name = {});

// Of a checked description.
size_t topk_workspace_bytes(const lidx_context& context, const lidx_topk_desc& desc);

// A selection, or the windows of one, without pointers.
struct TopkPlan {
    topk::TopkParams params = {};
    int64_t max_keys = 0;
    topk::Held held = topk::Held::kNone;   // by what CTAs keys are held (kernel/topk_held.cu)
    bool spread = false;         // they are, by clusters (kernel/topk_spread.cu)
    bool pdl = false;            // launched with the attribute
    size_t workspace_bytes = 0;
    TopkFields name;
};
// Of a checked description, for launches of up to window_rows rows. view: who sees what.
TopkPlan plan_topk(const lidx_topk_desc& desc, const DeviceLimits& device, const RowView& view, int64_t window_rows);
// LIDX_ERR_UNSUPPORTED where a device cannot launch the plan, which may have been made for another one; LIDX_ERR_VALUE
// where a launch has more CTAs than any can.
void check_topk_device(const TopkPlan& plan, const DeviceLimits& device);
// Throws where a pointer is missing, misplaced or not aligned.
void check_topk_args(const TopkPlan& plan, const lidx_topk_args& args);
// plan and args as check_topk_device() and check_topk_args() saw them; scores of the window alone. known_rows: the
// launch in front of this one is a scorer's of lidx, with the same row map and lengths (TopkParams::known_rows).
void launch_topk(const lidx_context& context, const TopkPlan& plan, const lidx_topk_args& args,
                 const RowWindow& window, bool known_rows, CUstream stream);

void enqueue_topk(const lidx_context& context, const lidx_topk_desc& desc, const lidx_topk_args& args, CUstream stream);

void enqueue_merge(const lidx_context& context, const lidx_merge_args& args, CUstream stream);

}  // namespace lidx

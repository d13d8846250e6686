// SPDX-License-Identifier: Apache-2.0
// The selection of keys: checks, workspace, launch.
#pragma once
#include <lidx.h>

#include <cstddef>

#include "host/context.h"

namespace lidx {

// Throws where a field is outside its limits.
void check_topk_desc(const lidx_topk_desc& desc);

// Of a checked description.
size_t topk_workspace_bytes(const lidx_context& context, const lidx_topk_desc& desc);

void enqueue_topk(const lidx_context& context, const lidx_topk_desc& desc, const lidx_topk_args& args, CUstream stream);

void enqueue_merge(const lidx_context& context, const lidx_merge_args& args, CUstream stream);

}  // namespace lidx

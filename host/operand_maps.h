// SPDX-License-Identifier: Apache-2.0
// Tensor maps of the tensor-core kernels' TMA loads.
#pragma once
#include <cuda.h>

#include "host/driver.h"
#include "host/plan.h"

namespace lidx {

// K codes, [num_pages, page slots, depth]. One box is a whole page, or 128 slots of a larger one.
CUtensorMap encode_k_map(const Driver& driver, const lidx_plan& plan, const void* k_base);

// Q codes, [rows * heads, depth]. One box is a tile of query tokens.
CUtensorMap encode_q_map(const Driver& driver, const lidx_plan& plan, const void* q);

}  // namespace lidx

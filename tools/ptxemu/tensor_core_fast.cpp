// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tensor_core.h"

namespace ptxemu {

void mma_fp8_k32(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                 bool accumulate, WindowRule rule) {
    std::vector<uint32_t> wide_b(b, b + 32 * static_cast<size_t>(n));
    for (int i = 0; i < m; ++i) {
        uint32_t row[32];
        for (int k = 0; k < 32; ++k) row[k] = a[32 * i + k];
        for (int j = 0; j < n; ++j) {
            uint32_t& cell = d[static_cast<size_t>(i) * static_cast<size_t>(d_pitch) + j];
            cell = fused_dot(fa, fb, row, wide_b.data() + 32 * j, 32, cell, accumulate, rule);
        }
    }
}

}  // namespace ptxemu

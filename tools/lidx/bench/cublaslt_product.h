// SPDX-License-Identifier: Apache-2.0
// The FP8 matrix product of cuBLASLt, where its library is on this machine: the compute ceiling. lidx does not link to
// it; the few declarations that are needed follow NVIDIA's documentation of the cuBLASLt API.
#pragma once
#include <memory>
#include <string>

#include "machine.h"

namespace lidx::command {

class CublasLtProduct {
  public:
    // bf16 D [n, n] = A^T B of e4m3 matrices [n, n] of random codes, fp32 accumulation with the fast mode, as
    // cuBLASLt's heuristic chooses. Null, with the reason: no library, a symbol that it lacks, no algorithm for this
    // device.
    static std::unique_ptr<CublasLtProduct> open(const Machine& machine, const std::string& library, std::string* why);
    ~CublasLtProduct();
    CublasLtProduct(const CublasLtProduct&) = delete;
    CublasLtProduct& operator=(const CublasLtProduct&) = delete;

    void enqueue(CUstream stream) const;
    double flops() const;
    std::string name() const;   // "cuBLASLt 13.1.0 FP8 8192^3"

  private:
    CublasLtProduct() = default;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lidx::command

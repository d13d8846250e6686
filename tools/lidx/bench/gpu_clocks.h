// SPDX-License-Identifier: Apache-2.0
// Clock and power of the GPU, through NVIDIA's management library where it is on this machine.
#pragma once
#include <memory>
#include <optional>

#include "machine.h"

namespace lidx::command {

struct GpuState {
    unsigned sm_mhz, memory_mhz;
    double watts;
};

class GpuClocks {
  public:
    // Looks for libnvidia-ml.so.1 and in it for the machine's device; read() gives nothing where either lacks.
    explicit GpuClocks(const Machine& machine);
    ~GpuClocks();
    GpuClocks(const GpuClocks&) = delete;
    GpuClocks& operator=(const GpuClocks&) = delete;

    std::optional<GpuState> read() const;

  private:
    struct Nvml;
    std::unique_ptr<Nvml> nvml_;   // null: not there
};

}  // namespace lidx::command

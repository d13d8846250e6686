// SPDX-License-Identifier: Apache-2.0
// The embedded fatbins (one per kernel source file) and the kernels loaded from them.
#pragma once
#include <lidx.h>

#include <array>
#include <cstddef>
#include <vector>

#include "host/driver.h"
#include "host/kernel_table.h"

namespace lidx {

struct Fatbin {
    const char* source;  // stem of kernel/*.cu
    const void* bytes;
    size_t size_bytes;
    const char* architectures = "";  // of its cubins, comma separated
};

// The fatbin of a kernel source file that the library carries. Throws LIDX_ERR_INTERNAL for an unknown stem.
Fatbin embedded_fatbin(const char* source);

struct LoadedKernel {
    CUfunction function = nullptr;  // null: the device cannot run it
    int registers = 0;              // per thread
};

// Kernels in one CUDA context, which must be current while this object is made and destroyed.
class Kernels {
public:
    explicit Kernels(const Driver& driver) : driver_(driver) {}  // nothing loaded yet
    // Loads the embedded fatbin of every source file that has a row for `compute_capability`, those of the cache and of
    // top-k, whose launches may have all the shared memory that the device gives a CTA.
    Kernels(const Driver& driver, int compute_capability, int shared_bytes_per_cta);
    ~Kernels();
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    // Loads one fatbin and the functions of its rows. LIDX_ERR_MODULE, naming the file, where the bytes are no
    // fatbin or the driver refuses them.
    void load(const Fatbin& fatbin, int compute_capability);
    // The context is gone and the modules with it: unload nothing.
    void forget() noexcept { modules_.clear(); }
    const LoadedKernel& operator[](size_t row) const { return kernels_[row]; }
    CUfunction operator[](CacheKernel kernel) const { return cache_kernels_[static_cast<size_t>(kernel)]; }
    CUfunction operator[](TopkKernel kernel) const { return topk_kernels_[static_cast<size_t>(kernel)]; }
    CUfunction topk_merge() const { return topk_merge_; }

private:
    void unload() noexcept;

    const Driver& driver_;
    std::vector<CUmodule> modules_;
    std::array<LoadedKernel, kKernelCount> kernels_ = {};
    std::array<CUfunction, kCacheKernelCount> cache_kernels_ = {};
    std::array<CUfunction, kTopkKernelCount> topk_kernels_ = {};
    CUfunction topk_merge_ = nullptr;
    int shared_bytes_per_cta_ = 0;
};

}  // namespace lidx

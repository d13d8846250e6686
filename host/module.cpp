// SPDX-License-Identifier: Apache-2.0
#include "host/module.h"

#include <cstring>
#include <string>

#include "host/status.h"
#include "kernel/kernel_sources.h"

extern "C" {
#define LIDX_FATBIN(source, architectures)                                                   \
    extern const unsigned char lidx_fatbin_##source[] __attribute__((visibility("hidden"))); \
    extern const unsigned char lidx_fatbin_##source##_end[] __attribute__((visibility("hidden")));
LIDX_KERNEL_SOURCES(LIDX_FATBIN)
#undef LIDX_FATBIN
}

namespace lidx {

namespace {

// cuModuleLoadData takes no size, so what it will read must be known to lie inside the bytes first. Header of a fat
// binary (CUDA toolkit, fatbinary output): magic, version, size of this header, bytes after it.
struct FatbinHeader {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t payload_bytes;
};
static_assert(sizeof(FatbinHeader) == 16);
constexpr uint32_t kFatbinMagic = 0xba55ed50;

void check_header(const Fatbin& fatbin) {
    const std::string name = std::string("fatbin of ") + fatbin.source + ": ";
    FatbinHeader header;
    if (fatbin.size_bytes < sizeof(header))
        fail(LIDX_ERR_MODULE, name + std::to_string(fatbin.size_bytes) + " bytes are shorter than its header of 16");
    std::memcpy(&header, fatbin.bytes, sizeof(header));
    if (header.magic != kFatbinMagic || header.version != 1 || header.header_bytes != sizeof(header))
        fail(LIDX_ERR_MODULE, name + "its first 8 bytes are not those of a fat binary of version 1");
    if (header.payload_bytes > fatbin.size_bytes - sizeof(header))
        fail(LIDX_ERR_MODULE, name + "it claims " + std::to_string(header.payload_bytes) +
                                  " bytes after its header, there are " +
                                  std::to_string(fatbin.size_bytes - sizeof(header)));
}

}  // namespace

Fatbin embedded_fatbin(const char* source) {
#define LIDX_FATBIN(name, architectures)                                                                           \
    if (std::strcmp(source, #name) == 0)                                                                           \
        return {#name, lidx_fatbin_##name, static_cast<size_t>(lidx_fatbin_##name##_end - lidx_fatbin_##name),     \
                architectures};
    LIDX_KERNEL_SOURCES(LIDX_FATBIN)
#undef LIDX_FATBIN
    fail(LIDX_ERR_INTERNAL, std::string("no fatbin is embedded for ") + source);
}

Kernels::Kernels(const Driver& driver, int compute_capability, int shared_bytes_per_cta)
    : driver_(driver), shared_bytes_per_cta_(shared_bytes_per_cta) {
    try {
        for (size_t row = 0; row < kKernelCount; ++row)
            if (kernels_[row].function == nullptr && runs_on(kernel_rows()[row], compute_capability))
                load(embedded_fatbin(kernel_rows()[row].source), compute_capability);
        for (size_t index = 0; index < kCacheKernelCount; ++index)
            if (cache_kernels_[index] == nullptr)
                load(embedded_fatbin(kCacheKernels[index].source), compute_capability);
        for (size_t index = 0; index < kTopkKernelCount; ++index)
            if (topk_kernels_[index] == nullptr && runs_on(kTopkKernels[index], compute_capability))
                load(embedded_fatbin(kTopkKernels[index].source), compute_capability);
        load(embedded_fatbin(kTopkMerge), compute_capability);
    } catch (...) {
        unload();
        throw;
    }
}

Kernels::~Kernels() { unload(); }

void Kernels::unload() noexcept {
    for (const CUmodule module : modules_) driver_.cuModuleUnload(module);
    modules_.clear();
}

void Kernels::load(const Fatbin& fatbin, int compute_capability) {
    check_header(fatbin);
    const auto check = [&](CUresult result, const std::string& call) {
        if (result != CUDA_SUCCESS)
            fail(LIDX_ERR_MODULE,
                 "fatbin of " + std::string(fatbin.source) + " on compute capability " +
                     capability_string(compute_capability) + ": " + call + ": " + driver_result_text(driver_, result),
                 result);
    };
    modules_.reserve(modules_.size() + 1);
    CUmodule module = nullptr;
    check(driver_.cuModuleLoadData(&module, fatbin.bytes), "cuModuleLoadData");
    modules_.push_back(module);
    for (size_t index = 0; index < kKernelCount; ++index) {
        const KernelRow& row = kernel_rows()[index];
        if (std::strcmp(row.source, fatbin.source) != 0 || !runs_on(row, compute_capability)) continue;
        const std::string of_row = std::string(" of ") + row.symbol;
        LoadedKernel kernel;
        check(driver_.cuModuleGetFunction(&kernel.function, module, row.symbol), "cuModuleGetFunction" + of_row);
        check(driver_.cuFuncGetAttribute(&kernel.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel.function),
              "cuFuncGetAttribute NUM_REGS" + of_row);
        if (row.shared_bytes > 0)
            check(driver_.cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             row.shared_bytes),
                  "cuFuncSetAttribute MAX_DYNAMIC_SHARED_SIZE_BYTES = " + std::to_string(row.shared_bytes) + of_row);
        kernels_[index] = kernel;
    }
    for (size_t index = 0; index < kCacheKernelCount; ++index)
        if (std::strcmp(kCacheKernels[index].source, fatbin.source) == 0)
            check(driver_.cuModuleGetFunction(&cache_kernels_[index], module, kCacheKernels[index].symbol),
                  std::string("cuModuleGetFunction of ") + kCacheKernels[index].symbol);
    if (std::strcmp(kTopkMerge, fatbin.source) == 0)
        check(driver_.cuModuleGetFunction(&topk_merge_, module, kTopkMerge),
              std::string("cuModuleGetFunction of ") + kTopkMerge);
    for (size_t index = 0; index < kTopkKernelCount; ++index) {
        const TopkKernelRow& row = kTopkKernels[index];
        if (std::strcmp(row.source, fatbin.source) != 0 || !runs_on(row, compute_capability)) continue;
        const std::string of_kernel = std::string(" of ") + row.symbol;
        check(driver_.cuModuleGetFunction(&topk_kernels_[index], module, row.symbol),
              "cuModuleGetFunction" + of_kernel);
        check(driver_.cuFuncSetAttribute(topk_kernels_[index], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         shared_bytes_per_cta_),
              "cuFuncSetAttribute MAX_DYNAMIC_SHARED_SIZE_BYTES = " + std::to_string(shared_bytes_per_cta_) +
                  of_kernel);
        if (row.clusters && has_clusters(compute_capability))
            check(driver_.cuFuncSetAttribute(topk_kernels_[index],
                                             CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                  "cuFuncSetAttribute NON_PORTABLE_CLUSTER_SIZE_ALLOWED" + of_kernel);
    }
}

}  // namespace lidx

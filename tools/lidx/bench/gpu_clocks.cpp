// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_clocks.h"

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "bench/driver_extras.h"

namespace lidx::command {

namespace {

// nvmlClockType_t
constexpr int kClockSm = 1, kClockMemory = 2;

// "GPU-00112233-4455-6677-8899-aabbccddeeff", as nvidia-smi -L prints it.
std::string uuid_text(const CUuuid& uuid) {
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        char byte[4];
        std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += "-";
        text += byte;
    }
    return text;
}

}  // namespace

// Declarations after NVIDIA's NVML reference; results are nvmlReturn_t, 0 is success.
struct GpuClocks::Nvml {
    int (*nvmlInit_v2)() = nullptr;
    int (*nvmlShutdown)() = nullptr;
    int (*nvmlDeviceGetHandleByUUID)(const char* uuid, void** device) = nullptr;
    int (*nvmlDeviceGetClockInfo)(void* device, int type, unsigned* mhz) = nullptr;
    int (*nvmlDeviceGetPowerUsage)(void* device, unsigned* milliwatts) = nullptr;
    void* device = nullptr;
};

GpuClocks::GpuClocks(const Machine& machine) {
    const auto get_uuid = driver_extra<decltype(&::cuDeviceGetUuid_v2)>(machine, "cuDeviceGetUuid_v2");
    CUuuid uuid = {};
    CUdevice device = 0;
    if (get_uuid == nullptr || machine.driver().cuDeviceGet(&device, machine.info().ordinal) != CUDA_SUCCESS ||
        get_uuid(&uuid, device) != CUDA_SUCCESS)
        return;
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return;
    auto nvml = std::make_unique<Nvml>();
    bool all = true;
    const auto find = [&](auto& function, const char* symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
        all &= function != nullptr;
    };
    find(nvml->nvmlInit_v2, "nvmlInit_v2");
    find(nvml->nvmlShutdown, "nvmlShutdown");
    find(nvml->nvmlDeviceGetHandleByUUID, "nvmlDeviceGetHandleByUUID");
    find(nvml->nvmlDeviceGetClockInfo, "nvmlDeviceGetClockInfo");
    find(nvml->nvmlDeviceGetPowerUsage, "nvmlDeviceGetPowerUsage");
    if (!all || nvml->nvmlInit_v2() != 0) return;
    nvml_ = std::move(nvml);
    if (nvml_->nvmlDeviceGetHandleByUUID(uuid_text(uuid).c_str(), &nvml_->device) != 0) nvml_->device = nullptr;
}

GpuClocks::~GpuClocks() {
    if (nvml_ != nullptr) nvml_->nvmlShutdown();
}

std::optional<GpuState> GpuClocks::read() const {
    if (nvml_ == nullptr || nvml_->device == nullptr) return std::nullopt;
    GpuState state = {};
    unsigned milliwatts = 0;
    if (nvml_->nvmlDeviceGetClockInfo(nvml_->device, kClockSm, &state.sm_mhz) != 0 ||
        nvml_->nvmlDeviceGetClockInfo(nvml_->device, kClockMemory, &state.memory_mhz) != 0 ||
        nvml_->nvmlDeviceGetPowerUsage(nvml_->device, &milliwatts) != 0)
        return std::nullopt;
    state.watts = milliwatts / 1000.0;
    return state;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <cstdio>
#include <cstdlib>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "failure.h"

namespace lidx::command {

std::filesystem::path emulator_path() {
    std::error_code error;
    const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) throw Failure(kNoDevice, "/proc/self/exe: " + error.message());
    const auto here = executable.parent_path();
    std::string tried;
    for (const char* place : {"../ptxemu", LIDX_EMULATOR_FROM_BINDIR, "../lib", "../lib/lidx"}) {
        const auto candidate = (here / place / "libptxemu.so").lexically_normal();
        if (std::filesystem::exists(candidate, error)) return candidate;
        tried += " " + candidate.string();
    }
    throw Failure(kNoDevice, "the emulator libptxemu.so was not found; looked for" + tried);
}

namespace {

Driver open_driver(const char* path) {
    Driver driver;
    std::string error;
    if (!load_driver(path, &driver, &error)) throw Failure(kNoDevice, error);
    const CUresult result = driver.cuInit(0);
    if (result != CUDA_SUCCESS)
        throw Failure(kNoDevice, driver.path + ": cuInit: " + driver_result_text(driver, result));
    return driver;
}

}  // namespace

int count_devices(const char* driver_path) {
    const Driver driver = open_driver(driver_path);
    int count = 0;
    const CUresult result = driver.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS)
        throw Failure(kNoDevice, driver.path + ": cuDeviceGetCount: " + driver_result_text(driver, result));
    if (count == 0) throw Failure(kNoDevice, driver.path + ": no device");
    return count;
}

Machine::Machine(const char* driver_path, int ordinal) : driver_(open_driver(driver_path)) {
    const auto require = [&](CUresult result, const char* call) {
        if (result == CUDA_SUCCESS) return;
        close();
        throw Failure(kNoDevice, driver_.path + ": " + call + ": " + driver_result_text(driver_, result));
    };
    require(driver_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
    require(driver_.cuDevicePrimaryCtxRetain(&cuda_, device_), "cuDevicePrimaryCtxRetain");
    require(driver_.cuCtxSetCurrent(cuda_), "cuCtxSetCurrent");

    lidx_config config;
    lidx_config_init(&config);
    config.driver_path = driver_path;
    const auto begin = std::chrono::steady_clock::now();
    const lidx_status status = lidx_open(&config, &context_);
    open_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (status != LIDX_OK) {
        close();
        const bool machine_lacks = status / 100 == 2;
        throw Failure(machine_lacks ? kNoDevice : kInternal, lidx_last_error(nullptr));
    }
    info_.struct_size = sizeof info_;
    check(lidx_get_device_info(context_, &info_));
}

Machine::~Machine() { close(); }

void Machine::close() {
    lidx_close(context_);
    context_ = nullptr;
    if (cuda_ == nullptr) return;
    driver_.cuCtxSetCurrent(nullptr);
    driver_.cuDevicePrimaryCtxRelease(device_);
    cuda_ = nullptr;
}

void Machine::check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS)
        throw Failure(kInternal, std::string(call) + ": " + driver_result_text(driver_, result));
}

// 1xx (arguments) and 3xx (shape) come from what the user asked for, 2xx from the machine.
void Machine::check(lidx_status status) const {
    if (status == LIDX_OK) return;
    const int group = status / 100;
    throw Failure(group == 1 || group == 3 ? kBadInput : group == 2 ? kNoDevice : kInternal, lidx_last_error(context_));
}

std::unique_ptr<Machine> open_emulator() {
    ::setenv("PTXEMU_PROGRESS", "1", 0);
    return std::make_unique<Machine>(emulator_path().c_str(), 0);
}

std::unique_ptr<Machine> open_machine(const std::string& device) {
    if (device != "emu") {
        try {
            return std::make_unique<Machine>(nullptr, 0);
        } catch (const Failure& failure) {
            if (failure.code != kNoDevice) throw;
            if (device == "cuda") throw Failure(kNoDevice, failure.what() + std::string(kWithoutGpu));
            std::fprintf(stderr, "lidx: using the emulator: no CUDA GPU (%s)\n", failure.what());
        }
    }
    return open_emulator();
}

lidx_support support_of(const Machine& machine, const lidx_score_desc& desc) {
    lidx_support support = {};
    support.struct_size = sizeof support;
    machine.check(lidx_supports(machine.context(), &desc, &support));
    return support;
}

DeviceBuffer::DeviceBuffer(const Machine& machine, size_t size_bytes) : machine_(machine) {
    const CUresult result = machine_.driver().cuMemAlloc(&address_, std::max<size_t>(size_bytes, 256));
    if (result != CUDA_SUCCESS)
        throw Failure(kInternal, "cuMemAlloc of " + std::to_string(size_bytes)
                                     + " bytes: " + driver_result_text(machine_.driver(), result));
}

DeviceBuffer::~DeviceBuffer() { machine_.driver().cuMemFree(address_); }

void DeviceBuffer::upload(const void* host, size_t size_bytes, size_t offset_bytes) {
    if (size_bytes > 0)
        machine_.check(machine_.driver().cuMemcpyHtoD(address_ + offset_bytes, host, size_bytes), "cuMemcpyHtoD");
}

void DeviceBuffer::download(void* host, size_t size_bytes, size_t offset_bytes) const {
    if (size_bytes > 0)
        machine_.check(machine_.driver().cuMemcpyDtoH(host, address_ + offset_bytes, size_bytes), "cuMemcpyDtoH");
}

void DeviceBuffer::fill32(uint32_t word, size_t words) {
    if (words > 0) machine_.check(machine_.driver().cuMemsetD32(address_, word, words), "cuMemsetD32");
}

const char* arithmetic_name(int32_t arithmetic) {
    switch (arithmetic) {
        case LIDX_ARITHMETIC_FP32: return "fp32";
        case LIDX_ARITHMETIC_SM90: return "sm_90";
        case LIDX_ARITHMETIC_SM100: return "sm_100";
        case LIDX_ARITHMETIC_SM90_FAST: return "sm_90_fast";
    }
    return "none";
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "check_machine.h"

#include <cstring>

namespace check {

Machine::Machine(const std::string& driver_library) {
    std::string error;
    if (!lidx::load_driver(driver_library.c_str(), &driver, &error)) throw MachineError(error);
    expect(driver.cuInit(0), "cuInit");
    expect(driver.cuDeviceGet(&device_, 0), "cuDeviceGet");
    expect(driver.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
    make_current();
    lidx_config config;
    lidx_config_init(&config);
    config.driver_path = driver_library.c_str();
    if (lidx_open(&config, &lidx) != LIDX_OK) throw MachineError(std::string("lidx_open: ") + lidx_last_error(nullptr));
    lidx_device_info info = {};
    info.struct_size = sizeof info;
    if (lidx_get_device_info(lidx, &info) != LIDX_OK)
        throw MachineError(std::string("lidx_get_device_info: ") + lidx_last_error(lidx));
    compute_capability = info.compute_capability;
    multiprocessors = info.multiprocessors;
    name = info.name;
}

Machine::~Machine() {
    lidx_close(lidx);
    if (context_ != nullptr) driver.cuDevicePrimaryCtxRelease(device_);
}

void Machine::expect(CUresult result, const char* what) const {
    if (result != CUDA_SUCCESS) throw MachineError(std::string(what) + ": " + lidx::driver_result_text(driver, result));
}

void Machine::make_current() const { expect(driver.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

GuardedBuffer::GuardedBuffer(const Machine& machine, const char* name, const void* payload, size_t bytes,
                             size_t alignment, bool tight)
    : machine_(machine), name_(name), bytes_(bytes), offset_(kGuardBytes + alignment) {
    if (bytes == 0) return;
    image_.resize(offset_ + bytes + (tight ? 0 : kGuardBytes));
    for (size_t i = 0; i < image_.size(); ++i) image_[i] = static_cast<uint8_t>(i * 167 + 13);
    std::memcpy(image_.data() + offset_, payload, bytes);
    machine.expect(machine.driver.cuMemAlloc(&base_, image_.size()), "cuMemAlloc");
    restore();
}

GuardedBuffer::~GuardedBuffer() {
    if (base_ != 0) machine_.driver.cuMemFree(base_);
}

void GuardedBuffer::restore() const {
    if (bytes_ != 0) machine_.expect(machine_.driver.cuMemcpyHtoD(base_, image_.data(), image_.size()), "cuMemcpyHtoD");
}

void GuardedBuffer::replace(const void* payload) {
    std::memcpy(image_.data() + offset_, payload, bytes_);
    restore();
}

std::string GuardedBuffer::damage(bool payload_too) {
    if (bytes_ == 0) return "";
    seen_.resize(image_.size());
    machine_.expect(machine_.driver.cuMemcpyDtoH(seen_.data(), base_, seen_.size()), "cuMemcpyDtoH");
    auto compare = [&](size_t begin, size_t end) -> std::string {
        if (std::memcmp(seen_.data() + begin, image_.data() + begin, end - begin) == 0) return "";
        while (seen_[begin] == image_[begin]) ++begin;
        return std::string(name_) + ": byte " +
               std::to_string(static_cast<int64_t>(begin) - static_cast<int64_t>(offset_)) + " of " +
               std::to_string(bytes_) + " was overwritten";
    };
    if (payload_too) return compare(0, image_.size());
    std::string text = compare(0, offset_);
    return text.empty() ? compare(offset_ + bytes_, image_.size()) : text;
}

}  // namespace check

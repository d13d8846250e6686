// SPDX-License-Identifier: Apache-2.0
// A machine to score on: a driver library, a device of it with its primary context current, and lidx opened there.
#pragma once
#include <lidx.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/driver.h"

namespace lidx::command {

// The emulator that belongs to this executable: beside it in the build tree, or in the library directory of the
// installation. Throws Failure(kNoDevice), naming the places where it looked.
std::filesystem::path emulator_path();

// Devices of a driver library; path as for Machine. Throws Failure(kNoDevice) where there is no driver or no device.
int count_devices(const char* driver_path);

class Machine {
  public:
    // driver_path null: $LIDX_DRIVER, else libcuda.so.1. Throws Failure(kNoDevice).
    Machine(const char* driver_path, int ordinal);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    const Driver& driver() const { return driver_; }
    lidx_context* context() const { return context_; }
    const lidx_device_info& info() const { return info_; }
    double open_ms() const { return open_ms_; }   // that lidx_open took, cuInit done and a context current

    // Throws unless the call succeeded, with the call's name and the driver's or lidx's own words.
    void check(CUresult result, const char* call) const;
    void check(lidx_status status) const;

  private:
    void close();

    Driver driver_;
    CUdevice device_ = 0;
    CUcontext cuda_ = nullptr;
    lidx_context* context_ = nullptr;
    lidx_device_info info_ = {};
    double open_ms_ = 0;
};

// The emulator, which tells how far a launch of over two seconds is.
std::unique_ptr<Machine> open_emulator();

// Said behind the reason why a GPU that was asked for is not there.
inline constexpr const char* kWithoutGpu = " (--device emu needs no GPU)";
// The machine of --device: auto (the first CUDA device, else, with a line on stderr, the emulator), cuda or emu. Throws
// Failure(kNoDevice).
std::unique_ptr<Machine> open_machine(const std::string& device);

// What lidx_supports() says; throws where the description is not valid.
lidx_support support_of(const Machine& machine, const lidx_score_desc& desc);

// Device memory. A size of 0 allocates a little all the same, so that pointers are never null.
class DeviceBuffer {
  public:
    DeviceBuffer(const Machine& machine, size_t size_bytes);
    template <class T>
    DeviceBuffer(const Machine& machine, const std::vector<T>& data) : DeviceBuffer(machine, data.size() * sizeof(T)) {
        upload(data.data(), data.size() * sizeof(T));
    }
    ~DeviceBuffer();
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;

    void upload(const void* host, size_t size_bytes, size_t offset_bytes = 0);
    void download(void* host, size_t size_bytes, size_t offset_bytes = 0) const;
    void fill32(uint32_t word, size_t words);
    template <class T = void>
    T* as() const {
        return reinterpret_cast<T*>(address_);
    }

  private:
    const Machine& machine_;
    CUdeviceptr address_ = 0;
};

const char* arithmetic_name(int32_t arithmetic);   // "sm_100", "sm_90", "fp32"

}  // namespace lidx::command

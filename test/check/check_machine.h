// SPDX-License-Identifier: Apache-2.0
// A machine that runs cases: a driver library, its first device, and lidx opened on it; and device memory that notices
// when something beside it is touched.
#pragma once
#include <lidx.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/driver.h"

namespace check {

// A driver call or a call of lidx that should have succeeded. The CUDA context may be lost: the process must end.
struct MachineError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Machine {
public:
    // Retains the primary context of device 0 and keeps it current. Throws MachineError.
    explicit Machine(const std::string& driver_library);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void expect(CUresult result, const char* what) const;
    // Its context becomes the calling thread's. Two machines in one process take turns.
    void make_current() const;

    lidx::Driver driver;
    lidx_context* lidx = nullptr;
    int compute_capability = 0, multiprocessors = 0;
    std::string name;

private:
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
};

// Device memory around a payload: [guard | payload | guard]. The payload begins on a multiple of `alignment` but of no
// larger power of two, so that nothing can rest on more alignment than lidx.h asks for. Tight: there is no guard behind
// it, and an emulator sees a read past its end.
class GuardedBuffer {
public:
    static constexpr size_t kGuardBytes = 4096;
    GuardedBuffer(const Machine& machine, const char* name, const void* payload, size_t bytes, size_t alignment,
                  bool tight);
    ~GuardedBuffer();
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;

    // Null when the payload is empty.
    template <typename T>
    T* at(int64_t offset_bytes = 0) const {
        return bytes_ == 0 ? nullptr : reinterpret_cast<T*>(base_ + offset_ + offset_bytes);
    }
    // Writes the image again: payload and guards as at first.
    void restore() const;
    // Another payload of the same size.
    void replace(const void* payload);
    // Copies everything back. "" or which byte beside the payload (payload_too: or inside) is not what was uploaded.
    std::string damage(bool payload_too);
    // As of the last damage().
    const uint8_t* payload() const { return seen_.data() + offset_; }

private:
    const Machine& machine_;
    const char* name_;
    CUdeviceptr base_ = 0;
    size_t bytes_, offset_;
    std::vector<uint8_t> image_, seen_;
};

}  // namespace check

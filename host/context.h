// SPDX-License-Identifier: Apache-2.0
// A device with its loaded kernels: what lidx_context stands for.
#pragma once
#include <lidx.h>

#include <memory>
#include <string>

#include "host/driver.h"
#include "host/module.h"
#include "host/plan.h"
#include "host/status.h"

struct lidx_context {
    lidx::Driver driver;
    CUcontext cuda = nullptr;
    CUdevice device = 0;
    bool retained = false;  // cuda is the device's primary context, retained by lidx_open
    std::string device_name;
    int ordinal = 0;
    int driver_version = 0;
    lidx::DeviceLimits limits = {};
    std::unique_ptr<lidx::Kernels> kernels;
    mutable lidx::LastError last_error;

    lidx_context() = default;
    ~lidx_context();
    lidx_context(const lidx_context&) = delete;
    lidx_context& operator=(const lidx_context&) = delete;
};

namespace lidx {

// Throws LIDX_ERR_DRIVER, naming the call, unless the result is CUDA_SUCCESS.
void check_driver(const Driver& driver, CUresult result, const char* call);

std::unique_ptr<lidx_context> open_context(const lidx_config& config);

// Makes the context's CUDA context current while this object lives, and restores the caller's: a retained primary
// context is pushed and popped; without one the caller must have the right context current already.
class CurrentContext {
public:
    explicit CurrentContext(const lidx_context& context);
    ~CurrentContext();
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;

private:
    const lidx_context& context_;
    bool pushed_ = false;
};

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
#include "host/context.h"

#include "host/field_checks.h"

namespace lidx {

namespace {

int device_attribute(const lidx_context& context, CUdevice_attribute attribute) {
    int value = 0;
    check_driver(context.driver, context.driver.cuDeviceGetAttribute(&value, attribute, context.device),
                 "cuDeviceGetAttribute");
    return value;
}

// What to do where there is no driver or no device; nothing where the caller chose the driver.
std::string without_gpu(const lidx_config& config) {
    if (config.driver_path != nullptr && config.driver_path[0] != '\0') return "";
    return "; LIDX_DRIVER=libptxemu.so in the environment runs in the emulator, without a GPU";
}

void find_device(lidx_context& context, const lidx_config& config) {
    const int32_t ordinal = config.device;
    int count = 0;
    check_driver(context.driver, context.driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (count <= 0) fail(LIDX_ERR_NO_DEVICE, "driver " + context.driver.path + " has no device" + without_gpu(config));
    if (ordinal >= count)
        fail(LIDX_ERR_NO_DEVICE, "device = " + std::to_string(ordinal) + ": driver " + context.driver.path +
                                     " has devices 0 .. " + std::to_string(count - 1));
    check_driver(context.driver, context.driver.cuDeviceGet(&context.device, ordinal), "cuDeviceGet");
}

void init_driver(lidx_context& context, const lidx_config& config) {
    const CUresult result = context.driver.cuInit(0);
    if (result == CUDA_SUCCESS) return;
    fail(result == CUDA_ERROR_NO_DEVICE ? LIDX_ERR_NO_DEVICE : LIDX_ERR_NO_DRIVER,
         "driver " + context.driver.path + ": cuInit: " + driver_result_text(context.driver, result) +
             without_gpu(config),
         result);
}

}  // namespace

void check_driver(const Driver& driver, CUresult result, const char* call) {
    if (result != CUDA_SUCCESS)
        fail(LIDX_ERR_DRIVER, std::string(call) + ": " + driver_result_text(driver, result), result);
}

std::unique_ptr<lidx_context> open_context(const lidx_config& config) {
    if (config.device < -1)
        fail(LIDX_ERR_VALUE,
             "device = " + std::to_string(config.device) + ": must be -1 (the current context) or a device ordinal");
    require_no_flags("flags", config.flags);

    auto context = std::make_unique<lidx_context>();
    const Driver& driver = context->driver;
    std::string error;
    if (!load_driver(config.driver_path, &context->driver, &error, DriverPart::kOwn))
        fail(LIDX_ERR_NO_DRIVER, error + without_gpu(config));
    init_driver(*context, config);
    check_driver(driver, driver.cuDriverGetVersion(&context->driver_version), "cuDriverGetVersion");

    if (config.device >= 0) {
        find_device(*context, config);
    } else {
        CUcontext current = nullptr;
        check_driver(driver, driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
        if (current == nullptr)
            fail(LIDX_ERR_NO_CONTEXT,
                 "device = -1: no CUDA context is current in this thread; make one current or name a device");
        check_driver(driver, driver.cuCtxGetDevice(&context->device), "cuCtxGetDevice");
        context->cuda = current;
    }

    char name[128] = "";
    check_driver(driver, driver.cuDeviceGetName(name, sizeof(name), context->device), "cuDeviceGetName");
    name[sizeof(name) - 1] = '\0';
    context->device_name = name;
    context->ordinal = context->device;
    context->limits.compute_capability = device_attribute(*context, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                                         device_attribute(*context, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    context->limits.multiprocessors = device_attribute(*context, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    context->limits.shared_bytes_per_cta =
        device_attribute(*context, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    bool served = false;
    for (const KernelRow& row : kernel_rows()) served |= runs_on(row, context->limits.compute_capability);
    if (!served)
        fail(LIDX_ERR_NO_DEVICE,
             "device " + std::to_string(context->ordinal) + " (" + context->device_name + ") has compute capability " +
                 capability_string(context->limits.compute_capability) + "; there are " + kernel_summaries());

    if (config.device >= 0) {
        check_driver(driver, driver.cuDevicePrimaryCtxRetain(&context->cuda, context->device),
                     "cuDevicePrimaryCtxRetain");
        context->retained = true;
    }
    const CurrentContext current(*context);
    context->kernels = std::make_unique<Kernels>(driver, context->limits.compute_capability,
                                                 context->limits.shared_bytes_per_cta);
    return context;
}

CurrentContext::CurrentContext(const lidx_context& context) : context_(context) {
    const Driver& driver = context.driver;
    if (context.retained) {
        check_driver(driver, driver.cuCtxPushCurrent(context.cuda), "cuCtxPushCurrent");
        pushed_ = true;
        return;
    }
    CUcontext current = nullptr;
    check_driver(driver, driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != context.cuda)
        fail(LIDX_ERR_NO_CONTEXT, current == nullptr
                                      ? "no CUDA context is current in this thread; lidx_open saw one"
                                      : "the CUDA context current in this thread is not the one lidx_open saw");
}

CurrentContext::~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_) context_.driver.cuCtxPopCurrent(&popped);
}

}  // namespace lidx

// Modules are unloaded in their context. A caller that destroyed its context has thereby unloaded them: then the push
// fails and there is nothing left to do.
lidx_context::~lidx_context() {
    if (kernels != nullptr && driver.cuCtxPushCurrent(cuda) == CUDA_SUCCESS) {
        kernels.reset();
        CUcontext popped = nullptr;
        driver.cuCtxPopCurrent(&popped);
    } else if (kernels != nullptr) {
        kernels->forget();
    }
    if (retained) driver.cuDevicePrimaryCtxRelease(device);
}

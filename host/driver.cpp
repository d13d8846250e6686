// SPDX-License-Identifier: Apache-2.0
#include "host/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace lidx {

namespace {

// The file behind an address of the library, so that a search-path name becomes the path that was found.
std::string library_of(const void* address, const std::string& fallback) {
    Dl_info info = {};
    if (dladdr(address, &info) != 0 && info.dli_fname != nullptr && info.dli_fname[0] != '\0') return info.dli_fname;
    return fallback;
}

}  // namespace

bool load_driver(const char* path, Driver* driver, std::string* error, DriverPart part) {
    std::string name = path != nullptr ? path : "";
    std::string source = "lidx_config.driver_path";
    if (name.empty()) {
        const char* environment = std::getenv("LIDX_DRIVER");
        if (environment != nullptr && environment[0] != '\0') {
            name = environment;
            source = "LIDX_DRIVER";
        } else {
            name = "libcuda.so.1";
            source = "the default: LIDX_DRIVER is not set";
        }
    }
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* told = dlerror();
        std::string reason = told != nullptr ? told : "unknown reason";
        if (reason.rfind(name + ": ", 0) == 0) reason.erase(0, name.size() + 2);   // the loader names the file, too
        *error = "CUDA driver library '" + name + "' (" + source + ") cannot be loaded: " + reason;
        return false;
    }
    Driver loaded;
#define LIDX_DRIVER_LOAD(function)                                                                  \
    loaded.function = reinterpret_cast<decltype(loaded.function)>(dlsym(library, #function));       \
    if (loaded.function == nullptr) {                                                               \
        *error = "CUDA driver library '" + name + "' (" + source + ") lacks the symbol " #function; \
        dlclose(library);                                                                           \
        return false;                                                                               \
    }
    LIDX_OWN_DRIVER_FUNCTIONS(LIDX_DRIVER_LOAD)
    if (part == DriverPart::kAll) {
        LIDX_OTHER_DRIVER_FUNCTIONS(LIDX_DRIVER_LOAD)
    }
#undef LIDX_DRIVER_LOAD
    loaded.path = library_of(reinterpret_cast<const void*>(loaded.cuInit), name);
    dlclose(library);
    *driver = std::move(loaded);
    return true;
}

std::string driver_result_text(const Driver& driver, CUresult result) {
    const char* name = nullptr;
    const char* text = nullptr;
    if (driver.cuGetErrorName == nullptr || driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
        name = "unknown CUresult";
    if (driver.cuGetErrorString == nullptr || driver.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
    std::string message = std::string(name) + " (" + std::to_string(static_cast<int>(result)) + ")";
    if (text != nullptr) message += std::string(": ") + text;
    return message;
}

}  // namespace lidx

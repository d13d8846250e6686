// SPDX-License-Identifier: Apache-2.0
#include "host/status.h"

#include <cstdio>
#include <utility>

namespace lidx {

void fail(lidx_status status, std::string text, int driver_result) {
    throw Failure{status, std::move(text), driver_result};
}

const char* status_text(lidx_status status) {
    switch (status) {
        case LIDX_OK: return "LIDX_OK: success";
        case LIDX_ERR_NULL: return "LIDX_ERR_NULL: a required pointer is null";
        case LIDX_ERR_STRUCT_SIZE: return "LIDX_ERR_STRUCT_SIZE: struct_size is not one that this version knows";
        case LIDX_ERR_VALUE: return "LIDX_ERR_VALUE: a field is outside its limits";
        case LIDX_ERR_ALIGNMENT: return "LIDX_ERR_ALIGNMENT: a pointer or stride is not aligned as documented";
        case LIDX_ERR_WORKSPACE: return "LIDX_ERR_WORKSPACE: workspace missing or too small";
        case LIDX_ERR_NO_DRIVER:
            return "LIDX_ERR_NO_DRIVER: the driver library could not be loaded, lacks a symbol or cannot start";
        case LIDX_ERR_NO_DEVICE: return "LIDX_ERR_NO_DEVICE: no device, or none that a kernel of this library serves";
        case LIDX_ERR_NO_CONTEXT:
            return "LIDX_ERR_NO_CONTEXT: no CUDA context is current, or another than the one opened with";
        case LIDX_ERR_UNSUPPORTED: return "LIDX_ERR_UNSUPPORTED: no kernel serves this shape on this device";
        case LIDX_ERR_DRIVER: return "LIDX_ERR_DRIVER: a driver call failed";
        case LIDX_ERR_MODULE: return "LIDX_ERR_MODULE: an embedded kernel module could not be loaded";
        case LIDX_ERR_OUT_OF_MEMORY: return "LIDX_ERR_OUT_OF_MEMORY: host memory ran out";
        case LIDX_ERR_NO_PAGES: return "LIDX_ERR_NO_PAGES: a cache's page pool has not enough free pages";
        case LIDX_ERR_INTERNAL: return "LIDX_ERR_INTERNAL: a defect in lidx";
    }
    return "unknown lidx_status";
}

void LastError::set(const char* function, const char* text, int driver_result) noexcept {
    std::snprintf(text_, sizeof(text_), "%s: %s", function, text);
    driver_result_ = driver_result;
}

}  // namespace lidx

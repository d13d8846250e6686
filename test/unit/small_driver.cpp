// SPDX-License-Identifier: Apache-2.0
// A driver library that exports what lidx calls and nothing else; it has no device.
#include "host/driver.h"

extern "C" {
#define SMALL_DRIVER_FUNCTION(function)                                          \
    __attribute__((visibility("default"))) int small_##function() __asm__(#function); \
    int small_##function() { return CUDA_ERROR_NO_DEVICE; }
LIDX_OWN_DRIVER_FUNCTIONS(SMALL_DRIVER_FUNCTION)
#undef SMALL_DRIVER_FUNCTION
}

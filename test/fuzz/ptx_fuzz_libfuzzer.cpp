// SPDX-License-Identifier: Apache-2.0
// The fuzzer's entry where clang has libFuzzer: coverage guides the mutations.
#include "ptx_fuzz_one.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
    ptx_fuzz_one(data, bytes);
    return 0;
}

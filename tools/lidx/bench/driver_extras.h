// SPDX-License-Identifier: Apache-2.0
// Functions of the driver library that only lidx bench needs, and that liblidx does not ask of it.
#pragma once
#include <dlfcn.h>

#include "machine.h"

namespace lidx::command {

// Null where the driver library lacks it. Driver libraries stay loaded.
template <class Function>
Function driver_extra(const Machine& machine, const char* symbol) {
    void* library = dlopen(machine.driver().path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    const auto function = reinterpret_cast<Function>(dlsym(library, symbol));
    dlclose(library);
    return function;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// What every function of the C boundary does: a failure inside becomes a status and a recorded text, and argument
// blocks are checked for null and size.
#pragma once
#include <lidx.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "host/context.h"
#include "host/field_checks.h"
#include "host/status.h"

namespace lidx {

// Failures of lidx_open and of calls without a context.
inline LastError& thread_error() {
    thread_local LastError error;
    return error;
}

template <typename Body>
lidx_status guarded(const lidx_context* context, const char* function, Body&& body) noexcept {
    LastError& error = context != nullptr ? context->last_error : thread_error();
    try {
        body();
        return LIDX_OK;
    } catch (const Failure& failure) {
        error.set(function, failure.text.c_str(), failure.driver_result);
        return failure.status;
    } catch (const std::bad_alloc&) {
        error.set(function, "host memory ran out", 0);
        return LIDX_ERR_OUT_OF_MEMORY;
    } catch (const std::exception& exception) {
        error.set(function, exception.what(), 0);
    } catch (...) {
        error.set(function, "unknown exception", 0);
    }
    return LIDX_ERR_INTERNAL;
}

inline void require(const void* pointer, const char* name) {
    if (pointer == nullptr) fail(LIDX_ERR_NULL, std::string(name) + " is null");
}

template <typename Struct>
void require_struct(const Struct* value, const char* name, const char* type, const char* init = nullptr) {
    require(value, name);
    require_struct_size(*value, type, init);
}

template <typename Struct>
void init(Struct* value, const char* name) {
    require(value, name);
    *value = {};
    value->struct_size = sizeof(Struct);
}

template <size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
    std::strncpy(to, from.c_str(), kSize - 1);
    to[kSize - 1] = '\0';
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
// Failures inside the library and the text that outlives them.
#pragma once
#include <lidx.h>

#include <string>

namespace lidx {

// Thrown inside the library, caught at the C boundary (api.cpp).
struct Failure {
    lidx_status status;
    std::string text;
    int driver_result = 0;  // the CUresult behind it, 0 if none
};

[[noreturn]] void fail(lidx_status status, std::string text, int driver_result = 0);

const char* status_text(lidx_status status);

// The last failure. A fixed buffer, so that it can be recorded when host memory has run out; longer texts are cut.
class LastError {
public:
    void set(const char* function, const char* text, int driver_result) noexcept;  // "function: text"
    const char* text() const noexcept { return text_; }
    int driver_result() const noexcept { return driver_result_; }

private:
    char text_[1024] = "";
    int driver_result_ = 0;
};

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
#include "catch_any.h"

#include <lidx.h>

#include <set>
#include <string>
#include <utility>

#include "host/status.h"

namespace {

// Pinned for ever: an embedder may have stored the number.
const std::pair<int, const char*> kPinned[] = {
    {0, "LIDX_OK"},
    {100, "LIDX_ERR_NULL"},
    {101, "LIDX_ERR_STRUCT_SIZE"},
    {102, "LIDX_ERR_VALUE"},
    {103, "LIDX_ERR_ALIGNMENT"},
    {104, "LIDX_ERR_WORKSPACE"},
    {200, "LIDX_ERR_NO_DRIVER"},
    {201, "LIDX_ERR_NO_DEVICE"},
    {202, "LIDX_ERR_NO_CONTEXT"},
    {300, "LIDX_ERR_UNSUPPORTED"},
    {400, "LIDX_ERR_DRIVER"},
    {401, "LIDX_ERR_MODULE"},
    {402, "LIDX_ERR_OUT_OF_MEMORY"},
    {500, "LIDX_ERR_NO_PAGES"},
    {900, "LIDX_ERR_INTERNAL"},
};

}  // namespace

TEST_CASE("status: values are pinned and each has a text of its own") {
    std::set<std::string> texts;
    for (const auto& [value, name] : kPinned) {
        const std::string text = lidx_status_string(static_cast<lidx_status>(value));
        CHECK(text.rfind(std::string(name) + ": ", 0) == 0);
        CHECK(text.size() > std::string(name).size() + 5);
        texts.insert(text);
    }
    CHECK(texts.size() == std::size(kPinned));
    CHECK(LIDX_ERR_STRUCT_SIZE == 101);
    CHECK(LIDX_ERR_NO_CONTEXT == 202);
    CHECK(LIDX_ERR_INTERNAL == 900);
}

TEST_CASE("status: every other number is unknown") {
    std::set<int> known;
    for (const auto& row : kPinned) known.insert(row.first);
    for (int value = -1; value <= 1000; ++value)
        if (known.count(value) == 0)
            CHECK(std::string(lidx_status_string(static_cast<lidx_status>(value))) == "unknown lidx_status");
}

TEST_CASE("status: arithmetic values are pinned") {
    CHECK(LIDX_ARITHMETIC_FP32 == 1);
    CHECK(LIDX_ARITHMETIC_SM90 == 2);
    CHECK(LIDX_ARITHMETIC_SM100 == 3);
    CHECK(LIDX_FLAG_CHECK == 1);
}

TEST_CASE("status: the last error keeps the function, the text and the driver's number, and cuts what is too long") {
    lidx::LastError error;
    CHECK(std::string(error.text()).empty());
    error.set("lidx_open", "no such thing", 700);
    CHECK(std::string(error.text()) == "lidx_open: no such thing");
    CHECK(error.driver_result() == 700);
    const std::string longer(5000, 'x');
    error.set("f", longer.c_str(), 0);
    CHECK(std::string(error.text()) == "f: " + longer.substr(0, 1020));
    CHECK(error.driver_result() == 0);
}

TEST_CASE("status: version text follows the macros") {
    CHECK(std::string(lidx_version()) == std::to_string(LIDX_VERSION_MAJOR) + "." + std::to_string(LIDX_VERSION_MINOR) +
                                             "." + std::to_string(LIDX_VERSION_PATCH));
}

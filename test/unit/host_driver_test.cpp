// SPDX-License-Identifier: Apache-2.0
#include "catch_any.h"

#include <lidx.h>

#include <cstdlib>
#include <string>

#include "fake_driver.h"
#include "host/driver.h"

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct LidxDriverVariable {
    explicit LidxDriverVariable(const std::string& value) { setenv("LIDX_DRIVER", value.c_str(), 1); }
    ~LidxDriverVariable() { unsetenv("LIDX_DRIVER"); }
};

}  // namespace

TEST_CASE("driver: a named library fills the whole table") {
    fake_reset();
    lidx::Driver driver;
    std::string error;
    REQUIRE(lidx::load_driver(fake_driver_path().c_str(), &driver, &error));
    CHECK(driver.path == fake_driver_path());
#define CHECK_MEMBER(function) CHECK(driver.function != nullptr);
    LIDX_DRIVER_FUNCTIONS(CHECK_MEMBER)
#undef CHECK_MEMBER
    CHECK(driver.cuInit(0) == CUDA_SUCCESS);
    CHECK(fake().calls_of(FakeCall::k_cuInit) == 1);
}

TEST_CASE("driver: LIDX_DRIVER names the library where no path does") {
    const LidxDriverVariable variable(fake_driver_path());
    lidx::Driver driver;
    std::string error;
    REQUIRE(lidx::load_driver(nullptr, &driver, &error));
    CHECK(driver.path == fake_driver_path());
    lidx::Driver from_empty;
    REQUIRE(lidx::load_driver("", &from_empty, &error));
    CHECK(from_empty.path == fake_driver_path());
}

TEST_CASE("driver: the argument wins over LIDX_DRIVER") {
    const LidxDriverVariable variable("/nonexistent/libother.so");
    lidx::Driver driver;
    std::string error;
    CHECK(lidx::load_driver(fake_driver_path().c_str(), &driver, &error));
    CHECK_FALSE(lidx::load_driver(nullptr, &driver, &error));
    CHECK(contains(error, "'/nonexistent/libother.so' (LIDX_DRIVER) cannot be loaded"));
}

TEST_CASE("driver: without a name it is the CUDA driver") {
    unsetenv("LIDX_DRIVER");
    lidx::Driver driver;
    std::string error;
    if (lidx::load_driver(nullptr, &driver, &error)) CHECK(contains(driver.path, "libcuda.so"));
    else CHECK(contains(error, "'libcuda.so.1' (the default: LIDX_DRIVER is not set) cannot be loaded: "));
}

TEST_CASE("driver: a missing library or symbol is named and the table stays as it was") {
    lidx::Driver driver;
    std::string error;
    CHECK_FALSE(lidx::load_driver("/nonexistent/libcuda.so.1", &driver, &error));
    CHECK(contains(error, "'/nonexistent/libcuda.so.1' (lidx_config.driver_path) cannot be loaded: "));
    CHECK(error.find("/nonexistent") == error.rfind("/nonexistent"));
    CHECK_FALSE(lidx::load_driver("libc.so.6", &driver, &error));
    CHECK(contains(error, "'libc.so.6' (lidx_config.driver_path) lacks the symbol cuInit"));
    CHECK(driver.cuInit == nullptr);
    CHECK(driver.path.empty());
}

TEST_CASE("driver: lidx asks for what it calls and no more") {
    const char* small = std::getenv("LIDX_TEST_SMALL_DRIVER");   // test/unit/small_driver.cpp
    if (small == nullptr) return;
    lidx::Driver driver;
    std::string error;
    CHECK_FALSE(lidx::load_driver(small, &driver, &error));
    CHECK(contains(error, "lacks the symbol cuCtxSetCurrent"));
    REQUIRE(lidx::load_driver(small, &driver, &error, lidx::DriverPart::kOwn));
#define CHECK_MEMBER(function) CHECK(driver.function != nullptr);
    LIDX_OWN_DRIVER_FUNCTIONS(CHECK_MEMBER)
#undef CHECK_MEMBER
#define CHECK_MEMBER(function) CHECK(driver.function == nullptr);
    LIDX_OTHER_DRIVER_FUNCTIONS(CHECK_MEMBER)
#undef CHECK_MEMBER

    lidx_config config;
    REQUIRE(lidx_config_init(&config) == LIDX_OK);
    config.driver_path = small;
    lidx_context* context = nullptr;
    CHECK(lidx_open(&config, &context) == LIDX_ERR_NO_DEVICE);
    CHECK(contains(lidx_last_error(nullptr), "cuInit: unknown CUresult (100)"));
}

TEST_CASE("driver: results are named") {
    fake_reset();
    lidx::Driver driver;
    std::string error;
    REQUIRE(lidx::load_driver(fake_driver_path().c_str(), &driver, &error));
    CHECK(lidx::driver_result_text(driver, CUDA_ERROR_ILLEGAL_ADDRESS) ==
          "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered");
    CHECK(lidx::driver_result_text(driver, static_cast<CUresult>(12345)) == "unknown CUresult (12345)");
}

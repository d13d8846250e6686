// SPDX-License-Identifier: Apache-2.0
// lidx opened on a driver that records, and what a refused call must leave behind.
#pragma once
#include "catch_any.h"

#include <lidx.h>

#include <cstdint>
#include <string>

#include "fake_driver.h"

namespace refusal {

struct Fixture {
    lidx_context* context = nullptr;
    explicit Fixture(int compute_capability = 100) {
        fake_reset();
        fake().major = compute_capability / 10;
        fake().minor = compute_capability % 10;
        const std::string path = fake_driver_path();
        lidx_config config;
        REQUIRE(lidx_config_init(&config) == LIDX_OK);
        config.driver_path = path.c_str();
        config.device = 0;
        REQUIRE(lidx_open(&config, &context) == LIDX_OK);
    }
    ~Fixture() { lidx_close(context); }
    Fixture(const Fixture&) = delete;
    Fixture& operator=(const Fixture&) = delete;

    void refused(lidx_status status, lidx_status expected, const std::string& part) const {
        const std::string message = lidx_last_error(context);
        CAPTURE(message, part);
        CHECK(status == expected);
        CHECK(message.find(part) != std::string::npos);
        CHECK(fake().launch_count == 0);
        CHECK(fake().stack_depth == 0);
    }
};

}  // namespace refusal

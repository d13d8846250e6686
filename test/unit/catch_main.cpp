// SPDX-License-Identifier: Apache-2.0
// main() of the unit tests with Catch2 2; Catch2 3 brings its own (catch2-with-main).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// SPDX-License-Identifier: Apache-2.0
// Catch2 3, else Catch2 2.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

// SPDX-License-Identifier: Apache-2.0
// Whether check would notice: needs no device.
#pragma once
#include <string>

namespace check {

// Coverage of the covering set, the models against published and hand-computed words, names that survive parsing, and
// that each kind of wrong score is found. "" or the first thing that is wrong; *text says what was looked at.
std::string self_test(std::string* text);

}  // namespace check

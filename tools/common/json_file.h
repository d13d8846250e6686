// SPDX-License-Identifier: Apache-2.0
// JSON in files.
#pragma once
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace tool {

// Parses a JSON file of at most 16 MiB; throws Failure(kBadInputCode).
nlohmann::json read_json(const std::filesystem::path& path);
// Two-space indentation; bytes that are not UTF-8 (a path may hold any) become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
// A value as a message shows it: on a line, long ones cut short with "..." (a string keeps its quotes).
std::string json_shown(const nlohmann::json& value);

}  // namespace tool

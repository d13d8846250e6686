// SPDX-License-Identifier: Apache-2.0
// A file of scores, f32 [rows, longest length], and its sidecar FILE.json, which says what computed it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

namespace lidx::command {

// FILE.json
std::filesystem::path sidecar_path(const std::filesystem::path& scores);

// Writes both or neither. Throws Failure(kBadInput).
void write_scores(const std::filesystem::path& path, int64_t rows, int64_t longest, const std::vector<float>& scores,
                  const nlohmann::ordered_json& sidecar);

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// A file of results, scores f32 [rows, longest length] or indices i32 [rows, k], and its sidecar FILE.json, which says
// what computed it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "npy.h"

namespace lidx::command {

// FILE.json
std::filesystem::path sidecar_path(const std::filesystem::path& results);

// Writes both or neither. T: float or int32_t. Throws Failure(kBadInput).
template <class T>
void write_with_sidecar(const std::filesystem::path& path, const Shape& shape, const std::vector<T>& data,
                        const std::filesystem::path& json_path, const nlohmann::ordered_json& sidecar);

// Scores that stand alone: f32 or the bits of bf16, [rows, keys], and how many of its keys each row sees.
struct ScoreMatrix {
    RawNpy scores;
    bool bf16 = false;
    int64_t rows = 0, keys = 0;
    std::vector<int32_t> lengths;   // [rows]

    float score(int64_t row, int64_t key) const;
};
// lengths: i32 [rows]; empty: all rows see all keys. Throws Failure(kBadInput).
ScoreMatrix read_score_matrix(const std::filesystem::path& path, const std::filesystem::path& lengths);

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "score_file.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

#include "failure.h"
#include "json_file.h"
#include "kernel/schedule.h"
#include "output_file.h"
#include "test/ref/bf16.h"

namespace lidx::command {

std::filesystem::path sidecar_path(const std::filesystem::path& results) { return results.string() + ".json"; }

template <class T>
void write_with_sidecar(const std::filesystem::path& path, const Shape& shape, const std::vector<T>& data,
                        const std::filesystem::path& json_path, const nlohmann::ordered_json& sidecar) {
    std::error_code error;
    if (std::filesystem::is_regular_file(json_path, error)) std::filesystem::remove(json_path, error);
    write_npy<T>(path, shape, data);
    try {
        OutputFile file(json_path);
        file.write(json_text(sidecar) + "\n");
        file.close();
    } catch (...) {
        if (std::filesystem::is_regular_file(path, error)) std::filesystem::remove(path, error);
        throw;
    }
}

template void write_with_sidecar(const std::filesystem::path&, const Shape&, const std::vector<float>&,
                                 const std::filesystem::path&, const nlohmann::ordered_json&);
template void write_with_sidecar(const std::filesystem::path&, const Shape&, const std::vector<int32_t>&,
                                 const std::filesystem::path&, const nlohmann::ordered_json&);

float ScoreMatrix::score(int64_t row, int64_t key) const {
    const size_t cell = static_cast<size_t>(row * keys + key);
    if (bf16) {
        uint16_t bits;
        std::memcpy(&bits, scores.data.data() + cell * sizeof bits, sizeof bits);
        return ref::bf16_value(bits);
    }
    float value;
    std::memcpy(&value, scores.data.data() + cell * sizeof value, sizeof value);
    return value;
}

ScoreMatrix read_score_matrix(const std::filesystem::path& path, const std::filesystem::path& lengths) {
    ScoreMatrix matrix;
    matrix.scores = read_raw_npy(path);
    const RawNpy& scores = matrix.scores;
    if (scores.descr != "<f4" && scores.descr != "<u2")   // NumPy has no bf16: two-byte integers hold its bits
        bad_input(path.string() + ": descr '" + scores.descr + "': must be '<f4' (fp32) or '<u2' (the bits of bf16)");
    matrix.bf16 = scores.descr == "<u2";
    if (scores.shape.size() != 2)
        bad_input(path.string() + ": shape: " + shape_text(scores.shape) + ", expected (rows, keys)");
    matrix.rows = scores.shape[0];
    matrix.keys = scores.shape[1];
    if (matrix.keys > kMaxKeys || matrix.rows > std::numeric_limits<int32_t>::max())
        bad_input(path.string() + ": shape: " + shape_text(scores.shape) + ": at most " +
                  std::to_string(std::numeric_limits<int32_t>::max()) + " rows and " + std::to_string(kMaxKeys) +
                  " keys");
    matrix.lengths.assign(static_cast<size_t>(matrix.rows), static_cast<int32_t>(matrix.keys));
    if (!lengths.empty()) matrix.lengths = read_npy<int32_t>(lengths, {matrix.rows}).data;
    for (size_t row = 0; row < matrix.lengths.size(); ++row)
        if (matrix.lengths[row] < 0 || matrix.lengths[row] > matrix.keys)
            bad_input(lengths.string() + ": [" + std::to_string(row) + "] = " + std::to_string(matrix.lengths[row]) +
                      ": must be 0 .. " + std::to_string(matrix.keys) + ", the columns of " + path.string());
    return matrix;
}

}  // namespace lidx::command

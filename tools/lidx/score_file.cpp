// SPDX-License-Identifier: Apache-2.0
#include "score_file.h"

#include <system_error>

#include "case_io.h"
#include "npy.h"
#include "output_file.h"

namespace lidx::command {

std::filesystem::path sidecar_path(const std::filesystem::path& scores) { return scores.string() + ".json"; }

void write_scores(const std::filesystem::path& path, int64_t rows, int64_t longest, const std::vector<float>& scores,
                  const nlohmann::ordered_json& sidecar) {
    std::error_code error;
    const auto json_path = sidecar_path(path);
    if (std::filesystem::is_regular_file(json_path, error)) std::filesystem::remove(json_path, error);
    write_npy<float>(path, {rows, longest}, scores);
    try {
        OutputFile file(json_path);
        file.write(json_text(sidecar) + "\n");
        file.close();
    } catch (...) {
        if (std::filesystem::is_regular_file(path, error)) std::filesystem::remove(path, error);
        throw;
    }
}

}  // namespace lidx::command

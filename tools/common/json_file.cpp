// SPDX-License-Identifier: Apache-2.0
#include "json_file.h"

#include <cstdint>

#include "input_file.h"
#include "texts.h"
#include "tool_failure.h"

namespace tool {

nlohmann::json read_json(const std::filesystem::path& path) {
    constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20;
    InputFile file(path);
    if (file.size_bytes() > kMaxJsonBytes)
        bad_input(file.name() + ": size: " + std::to_string(file.size_bytes()) + " bytes, expected at most "
                  + std::to_string(kMaxJsonBytes));
    std::string text(file.size_bytes(), '\0');
    file.read(text.data(), text.size());
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {
        bad_input(path.string() + ": not valid JSON: " + error.what());
    }
}

std::string json_text(const nlohmann::ordered_json& json) {
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string json_shown(const nlohmann::json& value) {
    return shown(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                 value.is_string() ? "...\"" : "...");
}

}  // namespace tool

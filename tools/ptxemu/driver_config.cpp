// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "driver_state.h"
#include "tools/common/texts.h"

namespace ptxemu {
namespace {

// Reads variables, and knows of which there are by what has been read. One that is empty is as if it were not set.
class Environment {
  public:
    std::string text(const char* variable) {
        known_.push_back(variable);
        const char* value = std::getenv(variable);
        return value == nullptr ? std::string() : std::string(value);
    }

    uint64_t number(const char* variable, uint64_t fallback, uint64_t lowest, uint64_t highest) {
        const std::string value = text(variable);
        if (value.empty()) return fallback;
        uint64_t parsed = 0;
        if (!is_number(value, &parsed) || parsed < lowest || parsed > highest)
            refuse(variable, value, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
        return parsed;
    }

    bool flag(const char* variable) {
        const std::string value = text(variable);
        if (!value.empty() && value != "0" && value != "1") refuse(variable, value, "0 or 1");
        return value == "1";
    }

    template <size_t N>
    int one_of(const char* variable, int fallback, const int (&allowed)[N]) {
        const std::string value = text(variable);
        if (value.empty()) return fallback;
        for (const int number : allowed)
            if (value == std::to_string(number)) return number;
        refuse(variable, value, "one of " + tool::joined(allowed));
    }

    // A misspelt variable would leave what it is meant for at its default.
    void tell_unknown() const {
        constexpr std::string_view kPrefix = "PTXEMU_";
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string_view setting = *entry, name = setting.substr(0, setting.find('='));
            if (!name.starts_with(kPrefix) || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
            std::fprintf(stderr, "ptxemu: cuInit: %s is ignored: there are %s\n", tool::shown(name).c_str(),
                         tool::joined(known_).c_str());
        }
    }

  private:
    static bool is_number(const std::string& value, uint64_t* number) {
        const char* end = value.data() + value.size();
        const auto result = std::from_chars(value.data(), end, *number);
        return result.ec == std::errc() && result.ptr == end;
    }

    [[noreturn]] static void refuse(const char* variable, const std::string& value, const std::string& expected) {
        fail(CUDA_ERROR_INVALID_VALUE, std::string(variable) + "='" + tool::shown(value) + "' is not " + expected);
    }

    std::vector<std::string> known_;
};

}   // namespace

Config read_config() {
    Environment environment;
    Config config;
    DeviceConfig& device = config.device;
    device.compute_capability = environment.one_of("PTXEMU_CC", 100, kComputeCapabilities);
    device.multiprocessors = static_cast<int>(environment.number("PTXEMU_SMS", 148, 1, 1024));
    device.seed = environment.number("PTXEMU_SEED", 0, 0, ~uint64_t{0});
    config.seed_step = environment.number("PTXEMU_SEED_STEP", 0, 0, ~uint64_t{0});
    const unsigned cores = std::max(1u, std::min(256u, std::thread::hardware_concurrency()));
    device.threads = static_cast<int>(environment.number("PTXEMU_THREADS", cores, 1, 1024));
    device.check = environment.flag("PTXEMU_CHECK");
    device.any_leader = environment.flag("PTXEMU_ANY_LEADER");
    device.detail = environment.flag("PTXEMU_DETAIL");
    device.progress = environment.flag("PTXEMU_PROGRESS");
    device.max_instructions = environment.number("PTXEMU_MAX_INSTRUCTIONS", device.max_instructions, 1, ~uint64_t{0});
    device.max_shared_per_block = static_cast<uint32_t>(limits_of(device.compute_capability).shared_per_block_optin);
    config.stats_path = environment.text("PTXEMU_STATS");
    config.ptx_path = environment.text("PTXEMU_PTX");
    config.trace_path = environment.text("PTXEMU_TRACE");
    environment.tell_unknown();
    return config;
}

}   // namespace ptxemu

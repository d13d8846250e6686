// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "driver_state.h"

namespace ptxemu {
namespace {

uint64_t number(const char* variable, uint64_t fallback, uint64_t lowest, uint64_t highest) {
    const char* value = std::getenv(variable);
    if (value == nullptr || value[0] == '\0') return fallback;
    const std::string_view text(value);
    uint64_t parsed = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size() || parsed < lowest || parsed > highest) {
        fail(CUDA_ERROR_INVALID_VALUE, std::string(variable) + "='" + std::string(text.substr(0, 80)) +
                                           "' is not a whole number from " + std::to_string(lowest) + " to " +
                                           std::to_string(highest));
    }
    return parsed;
}

std::string path(const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? std::string() : std::string(value);
}

}   // namespace

Config read_config() {
    Config config;
    DeviceConfig& device = config.device;
    const auto capability = static_cast<int>(number("PTXEMU_CC", 100, 80, 103));
    if (capability != 80 && capability != 90 && capability != 100 && capability != 103) {
        fail(CUDA_ERROR_INVALID_VALUE, "PTXEMU_CC='" + std::to_string(capability) + "' is not one of 80, 90, 100, 103");
    }
    device.compute_capability = capability;
    device.multiprocessors = static_cast<int>(number("PTXEMU_SMS", 148, 1, 1024));
    device.seed = number("PTXEMU_SEED", 0, 0, ~uint64_t{0});
    config.seed_step = number("PTXEMU_SEED_STEP", 0, 0, ~uint64_t{0});
    const unsigned cores = std::max(1u, std::min(256u, std::thread::hardware_concurrency()));
    device.threads = static_cast<int>(number("PTXEMU_THREADS", cores, 1, 1024));
    device.check = number("PTXEMU_CHECK", 0, 0, 1) != 0;
    device.any_leader = number("PTXEMU_ANY_LEADER", 0, 0, 1) != 0;
    device.detail = number("PTXEMU_DETAIL", 0, 0, 1) != 0;
    device.progress = number("PTXEMU_PROGRESS", 0, 0, 1) != 0;
    device.max_instructions = number("PTXEMU_MAX_INSTRUCTIONS", device.max_instructions, 1, ~uint64_t{0});
    device.max_shared_per_block = static_cast<uint32_t>(limits_of(capability).shared_per_block_optin);
    config.stats_path = path("PTXEMU_STATS");
    config.ptx_path = path("PTXEMU_PTX");
    config.trace_path = path("PTXEMU_TRACE");
    return config;
}

}   // namespace ptxemu

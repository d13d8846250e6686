// SPDX-License-Identifier: Apache-2.0
#include "bench/saved_results.h"

#include <limits>
#include <string>

#include "failure.h"
#include "json_file.h"

namespace lidx::command {

namespace {

constexpr double kLargestNumber = 1e24;   // beyond every time, rate and size; sums and ratios stay finite

const nlohmann::json& at(const nlohmann::json& json, const char* field) {
    if (!json.is_object()) bad_input(std::string("an object with ") + field + " is expected, not " + json.type_name());
    if (!json.contains(field)) bad_input(std::string(field) + " is missing");
    return json[field];
}

[[noreturn]] void unexpected(const char* field, const nlohmann::json& value, const std::string& expected) {
    const std::string text = value.is_structured() ? value.type_name() : json_shown(value);
    bad_input(std::string(field) + ": " + text + ", expected " + expected);
}

std::string text(const nlohmann::json& json, const char* field) {
    const nlohmann::json& value = at(json, field);
    if (!value.is_string()) unexpected(field, value, "a string");
    return value.get<std::string>();
}

bool flag(const nlohmann::json& json, const char* field) {
    const nlohmann::json& value = at(json, field);
    if (!value.is_boolean()) unexpected(field, value, "true or false");
    return value.get<bool>();
}

template <class T>
T whole(const nlohmann::json& json, const char* field) {
    const nlohmann::json& value = at(json, field);
    constexpr T kMost = std::numeric_limits<T>::max();
    if (!value.is_number_integer() || value < 0 || value > kMost)
        unexpected(field, value, "a whole number of 0 .. " + std::to_string(kMost));
    return value.get<T>();
}

const nlohmann::json& list(const nlohmann::json& json, const char* field) {
    const nlohmann::json& value = at(json, field);
    if (!value.is_array()) unexpected(field, value, "an array");
    return value;
}

double number(const nlohmann::json& json, const char* field) {   // null: not known
    const nlohmann::json& value = at(json, field);
    if (value.is_null()) return 0;
    if (!value.is_number() || value < 0 || value > kLargestNumber)
        unexpected(field, value, "a number of 0 .. 1e24, or null");
    return value.get<double>();
}

double time_us(const nlohmann::json& json, const char* field) {
    const double us = number(json, field);
    if (us == 0 && !at(json, field).is_null()) unexpected(field, at(json, field), "more than 0, or null");
    return us;
}

// The words that report.cpp writes, back to what they stand for.
template <class T>
T parse(const nlohmann::json& json, const char* field, std::initializer_list<T> values, const char* (*word)(T)) {
    const std::string found = text(json, field);
    for (const T value : values)
        if (found == word(value)) return value;
    bad_input(std::string(field) + ": \"" + found + "\" is none of those that lidx bench writes");
}

std::optional<GpuState> clocks(const nlohmann::json& json) {
    if (json.is_null()) return std::nullopt;
    return GpuState{whole<unsigned>(json, "sm_mhz"), whole<unsigned>(json, "memory_mhz"), number(json, "watts")};
}

Row row_of(const nlohmann::json& json) {
    Row row;
    row.candidate = text(json, "kernel");
    row.role = parse(json, "role", {Role::kLidx, Role::kScorer, Role::kRival}, role_text);
    row.us = {time_us(json, "us"), time_us(json, "least_us"), time_us(json, "most_us")};
    if (!at(json, "ratio_to_lidx").is_null()) row.ratio = number(json, "ratio_to_lidx");
    const std::string problem = text(json, "problem");
    if (at(json, "us").is_null()) row.failure = problem.empty() ? "not timed" : problem;
    if (!at(json, "agrees").is_null()) row.agreement = {flag(json, "agrees"), number(json, "difference"), problem};
    return row;
}

WorkloadResult result_of(const nlohmann::json& json) {
    WorkloadResult result;
    Workload& w = result.workload;
    w.name = text(json, "workload");
    w.batch = whole<int32_t>(json, "batch");
    w.tokens = whole<int32_t>(json, "tokens");
    w.heads = whole<int32_t>(json, "heads");
    w.keys = whole<int64_t>(json, "keys");
    w.page = whole<int32_t>(json, "page");
    result.flops = number(json, "flops");
    result.bytes = number(json, "bytes");
    result.read.median = time_us(json, "read_us");
    if (!at(json, "traffic_us").is_null()) result.traffic = Times{time_us(json, "traffic_us"), 0, 0};
    result.ceiling = {text(json, "ceiling"), time_us(json, "ceiling_us")};
    return result;
}

Results results_of(const nlohmann::json& json) {
    Results r;
    r.device = text(json, "device");
    r.date = text(json, "date");
    r.lidx = text(json, "lidx");
    r.compute_capability = whole<int>(json, "compute_capability");
    r.multiprocessors = whole<int>(json, "multiprocessors");
    r.driver_version = whole<int>(json, "driver_version");
    r.emulated = flag(json, "emulated");
    r.timing = parse(json, "timing", {Timing::kFlushed, Timing::kWarm, Timing::kGraph}, timing_text);
    r.flushed_by_reading = at(json, "flush") == "read";
    r.runs = whole<int>(json, "runs");
    r.open_ms = number(json, "open_ms");
    r.first_score_ms = number(json, "first_score_ms");
    r.memory = {number(json, "copy_bytes_per_second"), number(json, "read_bytes_per_second")};
    if (!at(json, "product_source").is_null())
        r.tensor = {number(json, "product_flops_per_second"), text(json, "product_source"),
                    flag(json, "product_measured")};
    for (const nlohmann::json& rival : list(json, "rivals")) {
        if (!rival.is_string()) unexpected("rivals", rival, "strings");
        r.rivals.push_back(rival.get<std::string>());
    }
    if (json.contains("clock_source")) r.clock_source = text(json, "clock_source");
    for (const nlohmann::json& row : list(json, "rows")) {
        if (r.workloads.empty() || r.workloads.back().workload.name != text(row, "workload"))
            r.workloads.push_back(result_of(row));
        r.workloads.back().rows.push_back(row_of(row));
    }
    for (const nlohmann::json& state : list(json, "clocks")) {
        const std::string name = text(state, "workload");
        for (WorkloadResult& result : r.workloads)
            if (result.workload.name == name)
                result.before = clocks(at(state, "before")), result.after = clocks(at(state, "after"));
    }
    return r;
}

}  // namespace

Results read_results(const std::filesystem::path& path) {
    const nlohmann::json json = read_json(path);
    try {
        return results_of(json);
    } catch (const Failure& failure) {
        bad_input(path.string() + ": not what lidx bench --json writes: " + failure.what());
    }
}

}  // namespace lidx::command

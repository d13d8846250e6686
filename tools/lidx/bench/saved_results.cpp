// SPDX-License-Identifier: Apache-2.0
#include "bench/saved_results.h"

#include <algorithm>

#include "failure.h"
#include "json_file.h"

namespace lidx::command {

namespace {

// The words that report.cpp writes, back to what they stand for. Throws nlohmann's exceptions and Failure.
template <class T>
T parse(const std::string& word, std::initializer_list<T> values, const char* (*text)(T), const char* field) {
    for (const T value : values)
        if (word == text(value)) return value;
    bad_input(std::string(field) + ": \"" + word + "\" is none of those that lidx bench writes");
}

double number(const nlohmann::json& json, const char* field) {   // null: not known
    return json.at(field).is_null() ? 0 : json.at(field).get<double>();
}

std::optional<GpuState> clocks(const nlohmann::json& json) {
    if (json.is_null()) return std::nullopt;
    return GpuState{json.at("sm_mhz"), json.at("memory_mhz"), json.at("watts")};
}

Row row_of(const nlohmann::json& json) {
    Row row;
    row.candidate = json.at("kernel");
    row.role = parse(json.at("role").get<std::string>(), {Role::kLidx, Role::kScorer, Role::kRival}, role_text, "role");
    row.us = {number(json, "us"), number(json, "least_us"), number(json, "most_us")};
    if (!json.at("ratio_to_lidx").is_null()) row.ratio = number(json, "ratio_to_lidx");
    const auto problem = json.at("problem").get<std::string>();
    if (json.at("us").is_null()) row.failure = problem.empty() ? "not timed" : problem;
    if (!json.at("agrees").is_null()) row.agreement = {json.at("agrees"), number(json, "difference"), problem};
    return row;
}

WorkloadResult result_of(const nlohmann::json& json) {
    WorkloadResult result;
    Workload& w = result.workload;
    w.name = json.at("workload");
    w.batch = json.at("batch");
    w.tokens = json.at("tokens");
    w.heads = json.at("heads");
    w.keys = json.at("keys");
    w.page = json.at("page");
    result.flops = number(json, "flops");
    result.bytes = number(json, "bytes");
    result.read.median = number(json, "read_us");
    if (!json.at("traffic_us").is_null()) result.traffic = Times{number(json, "traffic_us"), 0, 0};
    result.ceiling = {json.at("ceiling"), number(json, "ceiling_us")};
    return result;
}

Results results_of(const nlohmann::json& json) {
    Results r;
    r.device = json.at("device");
    r.date = json.at("date");
    r.lidx = json.at("lidx");
    r.compute_capability = json.at("compute_capability");
    r.multiprocessors = json.at("multiprocessors");
    r.driver_version = json.at("driver_version");
    r.emulated = json.at("emulated");
    r.timing = parse(json.at("timing").get<std::string>(), {Timing::kFlushed, Timing::kWarm, Timing::kGraph},
                     timing_text, "timing");
    r.flushed_by_reading = json.at("flush") == "read";
    r.runs = json.at("runs");
    r.open_ms = number(json, "open_ms");
    r.first_score_ms = number(json, "first_score_ms");
    r.memory = {number(json, "copy_bytes_per_second"), number(json, "read_bytes_per_second")};
    if (!json.at("product_source").is_null())
        r.tensor = {number(json, "product_flops_per_second"), json.at("product_source"), json.at("product_measured")};
    r.rivals = json.at("rivals").get<std::vector<std::string>>();
    r.clock_source = json.value("clock_source", "");
    for (const nlohmann::json& row : json.at("rows")) {
        if (r.workloads.empty() || r.workloads.back().workload.name != row.at("workload"))
            r.workloads.push_back(result_of(row));
        r.workloads.back().rows.push_back(row_of(row));
    }
    for (const nlohmann::json& state : json.at("clocks"))
        for (WorkloadResult& result : r.workloads)
            if (result.workload.name == state.at("workload"))
                result.before = clocks(state.at("before")), result.after = clocks(state.at("after"));
    return r;
}

}  // namespace

Results read_results(const std::filesystem::path& path) {
    const nlohmann::json json = read_json(path);
    try {
        return results_of(json);
    } catch (const nlohmann::json::exception& error) {
        bad_input(path.string() + ": not what lidx bench --json writes: " + error.what());
    } catch (const Failure& failure) {
        bad_input(path.string() + ": " + failure.what());
    }
}

}  // namespace lidx::command

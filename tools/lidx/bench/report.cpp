// SPDX-License-Identifier: Apache-2.0
// The results of lidx bench as a table, as JSON and as CSV.
#include <cstdio>

#include "bench/results.h"
#include "counted.h"
#include "failure.h"
#include "json_file.h"

namespace lidx::command {

namespace {

double tflops(const WorkloadResult& result, const Row& row) { return result.flops / row.us.median * 1e-6; }
double terabytes(const WorkloadResult& result, const Row& row) { return result.bytes / row.us.median * 1e-6; }

nlohmann::ordered_json clocks_json(const std::optional<GpuState>& state) {
    if (!state) return nullptr;
    return {{"sm_mhz", state->sm_mhz}, {"memory_mhz", state->memory_mhz}, {"watts", state->watts}};
}

// A column of the CSV, which is the JSON of a row without what lies deeper in it.
std::string csv_field(const nlohmann::ordered_json& value) {
    if (value.is_null()) return "";
    if (!value.is_string()) return value.dump();
    std::string text = value.get<std::string>();
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    return "\"" + text + "\"";
}

nlohmann::ordered_json row_json(const WorkloadResult& result, const Row& row) {
    const Workload& w = result.workload;
    const bool timed = row.failure.empty();
    const double percent = percent_of_ceiling(result, row);
    nlohmann::ordered_json json;
    const auto number = [](bool known, double value) {
        return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
    };
    json["workload"] = w.name;
    json["kernel"] = row.candidate;
    json["role"] = role_text(row.role);
    json["batch"] = w.batch;
    json["tokens"] = w.tokens;
    json["heads"] = w.heads;
    json["keys"] = w.keys;
    json["page"] = w.page;
    json["us"] = number(timed, row.us.median);
    json["least_us"] = number(timed, row.us.least);
    json["most_us"] = number(timed, row.us.most);
    json["flops"] = result.flops;
    json["bytes"] = result.bytes;
    json["tflops"] = number(timed, tflops(result, row));
    json["terabytes_per_second"] = number(timed, terabytes(result, row));
    json["read_us"] = result.read.median;
    json["traffic_us"] = number(result.traffic.has_value(), result.traffic ? result.traffic->median : 0);
    json["ceiling"] = result.ceiling.name;
    json["ceiling_us"] = number(result.ceiling.us > 0, result.ceiling.us);
    json["percent_of_ceiling"] = number(percent > 0, percent);
    json["ratio_to_lidx"] = number(row.ratio.has_value(), row.ratio.value_or(0));
    json["agrees"] = row.agreement ? nlohmann::ordered_json(row.agreement->agrees) : nullptr;
    json["difference"] = number(row.agreement.has_value(), row.agreement ? row.agreement->difference : 0);
    json["problem"] = !row.failure.empty() ? row.failure : row.agreement ? row.agreement->problem : "";
    json["sm_mhz"] = result.after ? nlohmann::ordered_json(result.after->sm_mhz) : nullptr;
    json["watts"] = number(result.after.has_value(), result.after ? result.after->watts : 0);
    return json;
}

void print_agreement(const Row& row) {
    const bool told = row.role == Role::kRival || (row.role == Role::kLidx && row.ratio);
    if (!row.agreement || (row.agreement->agrees && !told)) return;
    if (row.agreement->agrees) std::printf("  differs by %.1e", row.agreement->difference);
    else if (row.agreement->problem.empty()) std::printf("  OTHER RESULTS, by %.1e", row.agreement->difference);
    else std::printf("  OTHER RESULTS: %s", row.agreement->problem.c_str());
}

}  // namespace

double percent_of_ceiling(const WorkloadResult& result, const Row& row) {
    return row.failure.empty() ? 100 * result.ceiling.us / row.us.median : 0;
}

const char* timing_text(Timing timing) {
    switch (timing) {
        case Timing::kFlushed: return "flushed";
        case Timing::kWarm: return "warm";
        case Timing::kGraph: return "graph";
    }
    return "";
}

const char* role_text(Role role) {
    switch (role) {
        case Role::kLidx: return "lidx";
        case Role::kScorer: return "scorer";
        case Role::kRival: return "rival";
    }
    return "";
}

void print_head(const Results& r) {
    std::printf("%s, driver %d.%d, lidx %s; median, least and most of %s by events, ", r.device.c_str(),
                r.driver_version / 1000, r.driver_version % 1000 / 10, r.lidx.c_str(),
                counted(r.runs, "sample").c_str());
    switch (r.timing) {
        case Timing::kFlushed:
            std::printf("each one run with L2 %s before it\n",
                        r.flushed_by_reading ? "filled by reading" : "overwritten");
            break;
        case Timing::kWarm: std::printf("each the mean of %d runs in a row, L2 warm\n", kRunsPerSample); break;
        case Timing::kGraph:
            std::printf("each the mean of %d runs in a CUDA graph, L2 not flushed\n", kRunsPerSample);
            break;
    }
    if (r.emulated) std::printf("times of the emulator say nothing about any GPU\n");
    std::printf("start: lidx_open %.1f ms, first scores %.1f ms after its call\n", r.open_ms, r.first_score_ms);
    std::printf("ceilings: copy %.2f TB/s read + written, read %.2f TB/s, ", r.memory.copy * 1e-12,
                r.memory.read * 1e-12);
    if (r.tensor) std::printf("%s %.0f TFLOPS\n", r.tensor->source.c_str(), r.tensor->flops_per_second * 1e-12);
    else std::printf("no rate of FP8 products is known\n");
    if (!r.clock_source.empty()) std::printf("clocks: %s\n", r.clock_source.c_str());
    std::printf("%-26s %-28s %9s %9s %9s %7s %6s %8s %5s %8s %6s %5s %5s\n", "workload", "candidate", "us", "least",
                "most", "TFLOPS", "TB/s", "ceiling", "of it", "of moves", "x lidx", "MHz", "W");
    std::fflush(stdout);
}

void print_rows(const WorkloadResult& result) {
    for (const Row& row : result.rows) {
        std::printf("%-26s %-28s ", result.workload.name.c_str(), row.candidate.c_str());
        if (!row.failure.empty()) {
            std::printf("FAILED: %s\n", row.failure.c_str());
            continue;
        }
        std::printf("%9.1f %9.1f %9.1f %7.0f %6.2f ", row.us.median, row.us.least, row.us.most, tflops(result, row),
                    terabytes(result, row));
        if (result.ceiling.us > 0)
            std::printf("%8s %4.0f%%", result.ceiling.name.c_str(), percent_of_ceiling(result, row));
        else
            std::printf("%8s %5s", "", "");
        if (result.traffic) std::printf(" %7.0f%%", 100 * result.traffic->median / row.us.median);
        else std::printf(" %8s", "");
        if (row.ratio) std::printf(" %6.2f", *row.ratio);
        else std::printf(" %6s", "");
        if (result.after) std::printf(" %5u %5.0f", result.after->sm_mhz, result.after->watts);
        print_agreement(row);
        std::printf("\n");
    }
    std::fflush(stdout);
}

std::string json_report(const Results& r) {
    nlohmann::ordered_json json;
    json["device"] = r.device;
    json["compute_capability"] = r.compute_capability;
    json["multiprocessors"] = r.multiprocessors;
    json["driver_version"] = r.driver_version;
    json["lidx"] = r.lidx;
    json["date"] = r.date;
    json["emulated"] = r.emulated;
    json["timing"] = timing_text(r.timing);
    json["flush"] = r.timing != Timing::kFlushed ? nlohmann::ordered_json(nullptr)
                    : r.flushed_by_reading      ? "read"
                                                : "write";
    json["runs"] = r.runs;
    json["runs_per_sample"] = r.timing == Timing::kFlushed ? 1 : kRunsPerSample;
    json["open_ms"] = r.open_ms;
    json["first_score_ms"] = r.first_score_ms;
    json["copy_bytes_per_second"] = r.memory.copy;
    json["read_bytes_per_second"] = r.memory.read;
    json["product_flops_per_second"] = r.tensor ? nlohmann::ordered_json(r.tensor->flops_per_second) : nullptr;
    json["product_source"] = r.tensor ? nlohmann::ordered_json(r.tensor->source) : nullptr;
    json["product_measured"] = r.tensor.has_value() && r.tensor->measured;
    json["rivals"] = r.rivals;
    json["clock_source"] = r.clock_source;
    json["clocks"] = nlohmann::ordered_json::array();
    json["rows"] = nlohmann::ordered_json::array();
    for (const WorkloadResult& result : r.workloads) {
        json["clocks"].push_back({{"workload", result.workload.name},
                                  {"before", clocks_json(result.before)},
                                  {"after", clocks_json(result.after)}});
        for (const Row& row : result.rows) json["rows"].push_back(row_json(result, row));
    }
    return tool::json_text(json) + "\n";
}

std::string csv_report(const Results& r) {
    std::string text;
    for (const WorkloadResult& result : r.workloads)
        for (const Row& row : result.rows) {
            const nlohmann::ordered_json fields = row_json(result, row);
            if (text.empty()) {
                for (const auto& [name, value] : fields.items()) text += name + ",";
                text.back() = '\n';
            }
            for (const auto& [name, value] : fields.items()) text += csv_field(value) + ",";
            text.back() = '\n';
        }
    return text;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// lidx bench: named workloads timed through the public API, beside ceilings and rivals, in turns on the same data. Its
// parts are in bench/.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "bench/candidates.h"
#include "bench/ceilings.h"
#include "bench/gpu_clocks.h"
#include "bench/inputs.h"
#include "bench/results.h"
#include "bench/rivals.h"
#include "bench/saved_results.h"
#include "bench/stopwatch.h"
#include "bench/workloads.h"
#include "case_io.h"
#include "commands.h"
#include "failure.h"
#include "machine.h"
#include "output_file.h"
#include "progress.h"

namespace lidx::command {

namespace {

// What large transfers are measured on; the emulator only shows that it works.
constexpr size_t kRateBytes = size_t{1} << 30, kEmulatedRateBytes = size_t{1} << 16;
// Copies of a workload that take turns, where so much memory holds them.
constexpr uint64_t kCopyBytes = uint64_t{1} << 30;
constexpr int kCopies = 3;
// For the clock to come back up after products at the power limit.
constexpr std::chrono::milliseconds kRecovery{300};

int copies_of(uint64_t bytes, Timing timing) {
    const int most = timing == Timing::kWarm ? 1 : timing == Timing::kGraph ? kRunsPerSample : kCopies;
    return std::clamp(static_cast<int>(kCopyBytes / std::max<uint64_t>(bytes, 1)), 1, most);
}

std::string utc_now() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm utc = {};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &utc);
    return text;
}

// A rival's failure is its own row's; any other failure, and one of the machine, is the run's.
template <class Work>
void attempt(const Workload& workload, const Candidate& candidate, Row& row, Work work) {
    try {
        work();
    } catch (const Failure& failure) {
        if (candidate.role != Role::kRival || failure.code != kVerificationFailed)
            throw Failure(failure.code, workload.name + ", " + candidate.name + ": " + failure.what());
        row.failure = failure.what();
    }
}

class Bench {
  public:
    Bench(const Machine& machine, const BenchOptions& options, Timing timing)
        : machine_(machine), options_(options), watch_(machine, timing), yardstick_(machine), clocks_(machine) {
        results_.flushed_by_reading = options.flush == "read";
        if (results_.flushed_by_reading) flush_by_reading(watch_);
        measure_start();
        for (const std::string& path : options.rivals) rivals_.emplace_back(path);
        results_.device = machine.info().name;
        results_.date = utc_now();
        results_.lidx = lidx_version();
        results_.compute_capability = machine.info().compute_capability;
        results_.multiprocessors = machine.info().multiprocessors;
        results_.driver_version = machine.info().driver_version;
        results_.emulated = options.device == "emu";
        results_.timing = timing;
        results_.runs = options.runs;
        for (const Rival& rival : rivals_) results_.rivals.push_back(rival.name());
        if (!clocks_.read()) results_.clock_source = "NVML (libnvidia-ml.so.1) is absent, or does not know this device";
        measure_ceilings();
    }

    const Results& results() const { return results_; }
    bool all_well() const { return all_well_; }

    // Adds a result, unless no kernel serves the workload.
    void time(const Workload& workload) {
        const Extent extent = extent_of(workload);
        InputCopies copies;
        const int count = copies_of(input_bytes(workload, extent), watch_.timing());
        Progress progress("bench: " + workload.name + ", steps", count + 2 + options_.runs);
        for (int turn = 0; turn < count; ++turn) {
            copies.push_back(std::make_unique<Inputs>(machine_, patterns_, workload, extent, turn));
            progress.advance(1);
        }
        std::vector<std::unique_ptr<Candidate>> candidates =
            lidx_candidates(machine_, workload, extent, copies, options_.kernels, options_.fast);
        if (candidates.empty()) return;

        WorkloadResult result;
        result.workload = workload;
        result.flops = flops_of(workload, extent);
        result.bytes = bytes_of(workload, extent);
        std::vector<Row> failed;
        for (const Rival& rival : rivals_) {
            std::string problem;
            std::unique_ptr<Candidate> candidate = rival.candidate(machine_, workload, extent, copies, &problem);
            if (candidate != nullptr) candidates.push_back(std::move(candidate));
            if (!problem.empty()) {
                failed.push_back({.candidate = rival.name(), .role = Role::kRival});
                failed.back().failure = problem;
            }
        }
        measure(candidates, copies, extent, progress, result);
        progress.finish();
        for (const Row& row : failed) result.rows.push_back(row);
        for (const Row& row : result.rows)
            all_well_ &= row.failure.empty() && (!row.agreement || row.agreement->agrees);
        print_rows(result);
        results_.workloads.push_back(std::move(result));
    }

  private:
    void flush_by_reading(Stopwatch& watch) {
        watch.flush_by_reading([this](const DeviceBuffer& buffer, size_t size_bytes, CUstream stream) {
            yardstick_.enqueue({{buffer.as(), size_bytes}}, stream);
        });
    }
    // From lidx_open to a first score: plan, launch, a kernel that the driver loads when it is first launched.
    void measure_start() {
        const Workload workload = choose_workloads({"decode-1x8k"}, "").front();
        const Extent extent = extent_of(workload);
        InputCopies copies;
        copies.push_back(std::make_unique<Inputs>(machine_, patterns_, workload, extent, 0));
        watch_.wait();
        const auto begin = std::chrono::steady_clock::now();
        const auto candidates = lidx_candidates(machine_, workload, extent, copies, {}, false);
        for (const auto& candidate : candidates) candidate->run(0, watch_.stream());
        watch_.wait();
        results_.open_ms = machine_.open_ms();
        results_.first_score_ms =
            machine_.open_ms() +
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
    // The same ones for every timing of the workloads, hence a watch of their own.
    void measure_ceilings() {
        Stopwatch watch(machine_, Timing::kFlushed);
        if (results_.flushed_by_reading) flush_by_reading(watch);
        results_.memory = memory_rates(machine_, watch, yardstick_, results_.emulated ? kEmulatedRateBytes : kRateBytes,
                                       options_.runs);
        if (results_.emulated && options_.cublaslt.empty()) return;
        results_.tensor = tensor_rate(machine_, watch, options_.cublaslt, options_.runs);
        if (!results_.emulated) std::this_thread::sleep_for(kRecovery);
    }
    void measure(const std::vector<std::unique_ptr<Candidate>>& candidates, const InputCopies& copies,
                 const Extent& extent, Progress& progress, WorkloadResult& result) {
        const int count = static_cast<int>(copies.size());
        std::vector<std::vector<Region>> regions;
        for (const auto& in : copies) regions.push_back(in->regions());
        const EnqueueRun read = [&](int copy, CUstream stream) {
            yardstick_.enqueue(regions[static_cast<size_t>(copy)], stream);
        };
        const bool moves = copies.front()->traffic().has_value();
        const EnqueueRun traffic = [&](int copy, CUstream stream) {
            yardstick_.enqueue(*copies[static_cast<size_t>(copy)]->traffic(), stream);
        };
        for (const auto& candidate : candidates)
            result.rows.push_back({.candidate = candidate->name, .role = candidate->role});
        const auto each = [&](auto work) {
            for (size_t i = 0; i < candidates.size(); ++i) {
                Row& row = result.rows[i];
                if (!row.failure.empty()) continue;
                attempt(result.workload, *candidates[i], row, [&] { work(*candidates[i], row); });
            }
        };
        Judge judge(machine_, result.workload, extent, *copies.front());
        for (auto at = candidates.rbegin(); at != candidates.rend(); ++at)   // the last to be taken is the first
            if ((*at)->role != Role::kRival) judge.take_truth(**at, watch_.stream());
        each([&](Candidate& candidate, Row& row) { row.agreement = judge.compare(candidate, watch_.stream()); });
        progress.advance(1);

        // Warm up once, then A B A B: what heats the card or slows its clock hits all alike.
        result.before = clocks_.read();
        std::vector<double> read_us, traffic_us;
        for (int sample = -1; sample < options_.runs; ++sample) {
            const int turn = std::max(sample, 0);
            each([&](Candidate& candidate, Row&) {
                const double us = watch_.time_us(candidate.run, turn, count);
                if (sample >= 0) candidate.us.push_back(us);
            });
            const double us = watch_.time_us(read, turn, count);
            if (sample >= 0) read_us.push_back(us);
            progress.advance(1);
            if (!moves) continue;
            const double moved_us = watch_.time_us(traffic, turn, count);
            if (sample >= 0) traffic_us.push_back(moved_us);
        }
        result.after = clocks_.read();
        watch_.forget();

        result.read = summarise(read_us);
        if (moves) result.traffic = summarise(traffic_us);
        result.ceiling = {"read", result.read.median};
        if (results_.tensor) {
            const double us = result.flops / results_.tensor->flops_per_second * 1e6;
            if (us > result.ceiling.us) result.ceiling = {"product", us};
        }
        for (size_t i = 0; i < candidates.size(); ++i) {
            Row& row = result.rows[i];
            if (!row.failure.empty()) continue;
            row.us = summarise(candidates[i]->us);
            if (i > 0) row.ratio = row.us.median / result.rows.front().us.median;
        }
    }

    const Machine& machine_;
    const BenchOptions& options_;
    Stopwatch watch_;
    ReadYardstick yardstick_;
    GpuClocks clocks_;
    Patterns patterns_;
    std::vector<Rival> rivals_;
    Results results_;
    bool all_well_ = true;
};

// The files to write, made before anything is timed: what cannot be written is known at once.
class Reports {
  public:
    void open(const std::filesystem::path& path, std::string (*report)(const Results&)) {
        if (!path.empty()) files_.push_back({std::make_unique<OutputFile>(path), report});
    }
    void write(const Results& results) {
        for (const File& file : files_) {
            file.file->write(file.report(results));
            file.file->close();
        }
    }

  private:
    struct File {
        std::unique_ptr<OutputFile> file;
        std::string (*report)(const Results&);
    };
    std::vector<File> files_;
};

int time_workloads(const BenchOptions& options, const std::vector<Workload>& workloads, Reports& reports) {
    const auto opened = open_machine(options.device);
    const Machine& machine = *opened;
    Bench bench(machine, options,
                options.graph ? Timing::kGraph : options.warm ? Timing::kWarm : Timing::kFlushed);
    print_head(bench.results());
    try {
        for (const Workload& workload : workloads) bench.time(workload);
    } catch (const Failure&) {
        reports.write(bench.results());   // what there is so far
        throw;
    }
    if (bench.results().workloads.empty())
        bad_input("no kernel of --kernel serves any of the workloads on this device");
    reports.write(bench.results());
    if (!bench.all_well()) throw Failure(kVerificationFailed, "not all candidates ran and computed the same");
    return kDone;
}

// The table, chart, CSV and JSON of what an earlier run found, of all its workloads or of those that are chosen.
int report_again(const BenchOptions& options, Reports& reports) {
    Results results = read_results(options.from);
    if (!options.workloads.empty() || !options.filter.empty()) {
        const std::vector<Workload> chosen = choose_workloads(options.workloads, options.filter);
        std::erase_if(results.workloads, [&](const WorkloadResult& result) {
            return std::none_of(chosen.begin(), chosen.end(),
                                [&](const Workload& w) { return w.name == result.workload.name; });
        });
    }
    if (results.workloads.empty()) bad_input(options.from.string() + ": none of these workloads has a row there");
    print_head(results);
    for (const WorkloadResult& result : results.workloads) print_rows(result);
    reports.write(results);
    return kDone;
}

}  // namespace

int run_bench(const BenchOptions& options) {
    std::string filter = options.filter;
    if (options.workloads.empty() && filter.empty())   // the emulator would take days for the others
        filter = options.list ? "." : options.device == "emu" ? "^smoke" : "";
    const std::vector<Workload> workloads = choose_workloads(options.workloads, filter);
    if (options.list) {
        for (const Workload& w : workloads) std::printf("%-26s %s\n", w.name.c_str(), describe(w).c_str());
        return kDone;
    }
    require_kernels(options.kernels);
    std::vector<Output> outputs;
    for (const auto& [option, path] :
         {Output{"--json", options.json}, {"--csv", options.csv}, {"--plot", options.plot}})
        if (!path.empty()) outputs.push_back({option, path});
    std::vector<std::filesystem::path> inputs(options.rivals.begin(), options.rivals.end());
    for (const std::filesystem::path& input : {std::filesystem::path(options.cublaslt), options.from})
        if (!input.empty()) inputs.push_back(input);
    require_outputs(outputs, {}, inputs);
    require_ending({"--plot", options.plot}, ".svg");
    Reports reports;
    reports.open(options.json, json_report);
    reports.open(options.csv, csv_report);
    reports.open(options.plot, svg_chart);
    return options.from.empty() ? time_workloads(options, workloads, reports) : report_again(options, reports);
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// run(): checks the launch, hands clusters to host threads, folds their counters.
#include "engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "occupancy.h"
#include "scheduler.h"

namespace ptxemu {

std::string option_text(const Dim3& d) {
    return std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxCtasPerCluster = 16;   // with the non-portable size

RunResult invalid(const std::string& why) { return {RunStatus::kInvalidParams, why, {}}; }

RunResult check_launch(const Program& p, const Launch& l, const DeviceConfig& device) {
    const std::string kernel = "kernel " + p.name + ": ";
    const Dim3 &g = l.grid, &b = l.block;
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) {
        return invalid(kernel + "grid " + option_text(g) + " is outside 1..2147483647, 1..65535, 1..65535");
    }
    const uint64_t threads = static_cast<uint64_t>(b.x) * b.y * b.z;
    if (b.x == 0 || b.y == 0 || b.z == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 ||
        threads > static_cast<uint64_t>(kMaxThreadsPerBlock)) {
        return invalid(kernel + "block " + option_text(b) + " exceeds 1024,1024,64 or 1024 threads");
    }
    if (p.reqntid[0] != 0) {
        const uint32_t y = std::max(p.reqntid[1], 1u), z = std::max(p.reqntid[2], 1u);
        if (b.x != p.reqntid[0] || b.y != y || b.z != z)
            return invalid(kernel + "block " + option_text(b) + " differs from the kernel's .reqntid " +
                           option_text({p.reqntid[0], y, z}));
    }
    if (p.maxntid[0] != 0) {
        const uint64_t limit =
            static_cast<uint64_t>(p.maxntid[0]) * std::max(p.maxntid[1], 1u) * std::max(p.maxntid[2], 1u);
        if (threads > limit) {
            return invalid(kernel + "block " + option_text(b) + " has " + std::to_string(threads) +
                           " threads, .maxntid allows " + std::to_string(limit));
        }
    }
    const Dim3& c = l.cluster;
    const uint64_t cluster = static_cast<uint64_t>(c.x) * c.y * c.z;
    const std::string cluster_text = option_text(c);
    if (cluster == 0 || c.x > kMaxCtasPerCluster || c.y > kMaxCtasPerCluster || c.z > kMaxCtasPerCluster ||
        cluster > kMaxCtasPerCluster) {
        return invalid(kernel + "cluster " + cluster_text + " is outside 1.." + std::to_string(kMaxCtasPerCluster) +
                       " CTAs");
    }
    if (p.cluster[0] != 0) {
        const uint32_t y = std::max(p.cluster[1], 1u), z = std::max(p.cluster[2], 1u);
        if (c.x != p.cluster[0] || c.y != y || c.z != z)
            return invalid(kernel + "cluster " + cluster_text + " differs from the kernel's .reqnctapercluster " +
                           option_text({p.cluster[0], y, z}));
    }
    if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
        return invalid(kernel + "grid " + option_text(g) + " is not a multiple of the cluster " + cluster_text);
    if (p.max_cluster_rank != 0 && cluster > p.max_cluster_rank) {
        return invalid(kernel + "cluster " + cluster_text + " has " + std::to_string(cluster) +
                       " CTAs, .maxclusterrank allows " + std::to_string(p.max_cluster_rank));
    }
    if (l.params.size() != p.param_bytes) {
        return invalid(kernel + "parameters take " + std::to_string(p.param_bytes) + " bytes, the launch gives " +
                       std::to_string(l.params.size()));
    }
    const uint64_t shared = static_cast<uint64_t>(l.dynamic_shared_bytes) + p.static_shared_bytes;
    if (shared > device.max_shared_per_block) {
        return invalid(kernel + "needs " + std::to_string(shared) + " bytes of shared memory, the device has " +
                       std::to_string(device.max_shared_per_block) + " per block");
    }
    return {};
}

// The program's constants as CTAs of the ranks from 1 on see them; empty: all see the same.
std::vector<std::vector<uint8_t>> constants_of_ranks(const Program& program, uint64_t ctas) {
    std::vector<std::vector<uint8_t>> ranks;
    if (program.shared_constants.empty()) return ranks;
    for (uint32_t rank = 1; rank < ctas; ++rank) {
        auto& constants = ranks.emplace_back(program.constants);
        for (const auto& c : program.shared_constants) {
            uint8_t* lanes = constants.data() + c.offset;
            for (int lane = 0; lane < kLanes; ++lane) {
                if (c.wide) reinterpret_cast<uint64_t*>(lanes)[lane] += rank << kRankShift;
                else reinterpret_cast<uint32_t*>(lanes)[lane] += rank << kRankShift;
            }
        }
    }
    return ranks;
}

}   // namespace

RunResult run(const Program& program, const Launch& launch, const DeviceConfig& device, GlobalMemory& memory,
              Stats& stats) {
    const auto started = Clock::now();
    if (RunResult bad = check_launch(program, launch, device); bad.status != RunStatus::kOk) return bad;
    const uint64_t in_cluster = static_cast<uint64_t>(launch.cluster.x) * launch.cluster.y * launch.cluster.z;
    const uint64_t ctas = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
    const uint64_t clusters = ctas / in_cluster;
    const uint64_t threads_per_cta = static_cast<uint64_t>(launch.block.x) * launch.block.y * launch.block.z;
    const uint64_t shared_per_cta = static_cast<uint64_t>(launch.dynamic_shared_bytes) + program.static_shared_bytes;
    const uint64_t capacity = clusters_on_device(device.compute_capability, device.multiprocessors, threads_per_cta,
                                                 shared_per_cta, in_cluster);
    Residency residency(clusters, capacity, device.seed);
    const auto rank_constants = constants_of_ranks(program, in_cluster);

    std::atomic<uint64_t> done{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    FindingLog findings(device.told_warnings);
    GlobalShadow shadow;
    std::optional<Finding> last;
    RunResult result;
    Stats total;
    total.launches = 1;
    TraceLog::LaunchTrace launch_trace;
    if (device.trace != nullptr) launch_trace = device.trace->begin(launch.grid);
    auto last_report = started - std::chrono::seconds(5);
    bool reported = false;
    const bool terminal = device.progress && ::isatty(2) != 0;

    auto work = [&] {
        auto worker = std::make_unique<Worker>();
        worker->program = &program;
        worker->launch = &launch;
        worker->device = &device;
        worker->memory = &memory;
        worker->stop = &stop;
        worker->findings = &findings;
        worker->residency = &residency;
        worker->rank_constants = &rank_constants;
        worker->shadow = &shadow;
        worker->max_instructions = device.max_instructions;
        if (device.detail || device.trace != nullptr)
            worker->profile = std::make_unique<Profile>(program, device.trace != nullptr, device.detail);
        worker->warp_counts.assign(program.code.size(), 0);
        worker->lane_counts.assign(program.code.size(), 0);
        const auto report_progress = [&] {
            const uint64_t n = done.fetch_add(in_cluster) + in_cluster;
            if (!device.progress) return;
            const auto now = Clock::now();
            if (now - started < std::chrono::seconds(2)) return;
            std::lock_guard lock(mutex);
            if (now - last_report < std::chrono::seconds(terminal ? 1 : 5) && (n != ctas || !terminal)) return;
            last_report = now;
            reported = true;
            std::fprintf(stderr, "%sptxemu: %s: %llu of %llu CTAs%s", terminal ? "\r" : "", program.name.c_str(),
                         static_cast<unsigned long long>(n), static_cast<unsigned long long>(ctas),
                         terminal ? "" : "\n");
            std::fflush(stderr);
        };
        try {
            worker->run_clusters(report_progress);
        } catch (const Fault& f) {
            std::lock_guard lock(mutex);
            if (result.status == RunStatus::kOk && f.status != RunStatus::kFindings) {
                result = {f.status, worker->fault_text(f), {}};
                last = worker->fault_finding(f);
            }
            stop = true;
        } catch (const std::exception& e) {
            std::lock_guard lock(mutex);
            if (result.status == RunStatus::kOk)
                result = {RunStatus::kInternal, "kernel " + program.name + ": " + e.what(), {}};
            stop = true;
        }
        std::lock_guard lock(mutex);
        for (size_t pc = 0; pc < program.code.size(); ++pc) {
            if (worker->warp_counts[pc] == 0) continue;
            const std::string& name = program.stat_names[program.info[pc].stat];
            total.warp_counts[name] += worker->warp_counts[pc];
            total.thread_counts[name] += worker->lane_counts[pc];
            total.warp_instructions += worker->warp_counts[pc];
            total.thread_instructions += worker->lane_counts[pc];
        }
        total.ctas += worker->ended_clusters * in_cluster;
        total.tma_bytes_loaded += worker->exec.tma_bytes_loaded;
        total.mma_operations += worker->exec.mma_operations;
        total.event_order += worker->event_order;
        if (worker->profile) worker->profile->add_to(total);
        if (worker->profile && device.trace) worker->profile->add_to(*device.trace, launch_trace);
    };

    const uint64_t threads = std::clamp<uint64_t>(static_cast<uint64_t>(std::max(device.threads, 1)), 1, clusters);
    std::vector<std::thread> others;
    for (uint64_t i = 1; i < threads; ++i) {
        try {
            others.emplace_back(work);
        } catch (const std::system_error&) {
            break;   // fewer threads do the same work
        }
    }
    work();
    for (auto& t : others) t.join();
    if (reported && terminal) std::fputc('\n', stderr);
    result.findings = findings.take();
    if (last) result.findings.push_back(std::move(*last));
    for (const Finding& f : result.findings) ++(f.severity == Severity::kError ? total.errors : total.warnings);
    if (result.status == RunStatus::kOk && total.errors != 0) {
        result.status = RunStatus::kFindings;
        const auto first = std::find_if(result.findings.begin(), result.findings.end(),
                                        [](const Finding& f) { return f.severity == Severity::kError; });
        result.message = "kernel " + program.name + ": " + std::to_string(total.errors) +
                         (total.errors == 1 ? " error " : " errors ") + error_codes(result.findings);
        result.message += ", the first at PTX line " + std::to_string(first->party.ptx_line) + ": " + first->what;
    }
    total.findings = result.findings;
    total.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    stats.add(total);
    return result;
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// check: every kernel, shape and layout against the reference, on the emulator or on a GPU.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "check_cases.h"
#include "check_inputs.h"
#include "check_machine.h"
#include "check_pool.h"
#include "check_run.h"
#include "check_self_test.h"

namespace check {
namespace {

constexpr const char* kHelp = R"(usage: check [options]

Runs scoring cases and compares every cell with the reference. A case's name says all of it:
  kernel/heads/depth/tokens/batch/keys/page/layout/pad/gap/values/situation/check/edge/seed
(docs/testing.md explains the parts). One line per case; the last line is 'check: N passed, N failed'.
Exit code 0: all passed, 1: some failed, 2: bad usage, 3: no device or driver.

which cases
  (default)        the covering set: every value of every dimension, nearly every pair of values
  --long           the full product
  --seeds N        a few cases of each kind under scheduler seeds 0..N: same bits, other event orders
  --random N       N points drawn between those of the lists (--random-seed S; default 1)
  --case NAME      just this case, listed or not (repeatable)
  --filter TEXT    of those, only names that contain TEXT (repeatable: all must occur)
  --shard I/N      of those, every N-th from the I-th on (I from 0)

where
  --device emu     the emulator (default, unless $LIDX_TEST_DRIVER is cuda)
  --device cuda    the GPU; cases that its kernels serve are compared with the reference and, bit for bit, with the
                   emulator running the same kernel
  --emulator FILE  libptxemu.so; default: the one of this build tree
  --driver FILE    the CUDA driver library for --device cuda; default libcuda.so.1
  --jobs N         child processes at a time (default 1)
  --timeout S      seconds that a case may take (default 120)

what else
  --list           print the names and stop
  --self-test      whether check would notice: coverage, reference models, spoiled scores; needs no device
  --runs N         run each case N times on the device: the same bits each time (default: LIDX_TEST_RUNS, else
                   1; the emulator that --device cuda compares with runs once)
  --bench          time each case after it passed (median of 9 launches)
  --json FILE      write the results as JSON too
  --help
)";

struct Options {
    bool list = false, self_test = false, bench = false, long_suite = false, child = false;
    std::string device = "emu", emulator, driver = "libcuda.so.1", json;
    std::vector<std::string> cases, filters;
    int seeds = 0, random = 0, random_seed = 1, jobs = 1, shard = 0, shards = 1, runs = 1;
    double timeout = 120;
};

[[noreturn]] void usage_error(const std::string& text) {
    std::fprintf(stderr, "check: %s (see check --help)\n", text.c_str());
    std::exit(2);
}

int parse_number(const std::string& option, const std::string& text, int lowest, int highest) {
    int value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || stop != text.data() + text.size() || value < lowest || value > highest)
        usage_error(option + " " + text + ": not a number from " + std::to_string(lowest) + " to " +
                    std::to_string(highest));
    return value;
}

Options parse_options(int argc, char** argv) {
    Options o;
    const char* test_driver = std::getenv("LIDX_TEST_DRIVER");
    if (test_driver != nullptr && std::strcmp(test_driver, "cuda") == 0) o.device = "cuda";
    if (const char* runs = std::getenv("LIDX_TEST_RUNS")) o.runs = parse_number("LIDX_TEST_RUNS", runs, 1, 100000);
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        auto value = [&]() -> std::string {
            if (i + 1 >= argc) usage_error(option + " needs a value");
            return argv[++i];
        };
        if (option == "--help" || option == "-h") {
            std::fputs(kHelp, stdout);
            std::exit(0);
        } else if (option == "--list") {
            o.list = true;
        } else if (option == "--self-test") {
            o.self_test = true;
        } else if (option == "--bench") {
            o.bench = true;
        } else if (option == "--long") {
            o.long_suite = true;
        } else if (option == "--child") {
            o.child = true;
        } else if (option == "--device") {
            o.device = value();
            if (o.device != "emu" && o.device != "cuda") usage_error("--device " + o.device + ": emu or cuda");
        } else if (option == "--emulator") {
            o.emulator = value();
        } else if (option == "--driver") {
            o.driver = value();
        } else if (option == "--json") {
            o.json = value();
        } else if (option == "--case") {
            o.cases.push_back(value());
        } else if (option == "--filter") {
            o.filters.push_back(value());
        } else if (option == "--seeds") {
            o.seeds = parse_number(option, value(), 1, 100000);
        } else if (option == "--random") {
            o.random = parse_number(option, value(), 1, 10000000);
        } else if (option == "--random-seed") {
            o.random_seed = parse_number(option, value(), 0, 1 << 30);
        } else if (option == "--runs") {
            o.runs = parse_number(option, value(), 1, 100000);
        } else if (option == "--jobs") {
            o.jobs = parse_number(option, value(), 1, 1024);
        } else if (option == "--timeout") {
            o.timeout = parse_number(option, value(), 1, 86400);
        } else if (option == "--shard") {
            const std::string text = value();
            const size_t slash = text.find('/');
            if (slash == std::string::npos) usage_error("--shard " + text + ": not I/N");
            o.shards = parse_number(option, text.substr(slash + 1), 1, 100000);
            o.shard = parse_number(option, text.substr(0, slash), 0, o.shards - 1);
        } else {
            usage_error("unknown option " + option);
        }
    }
    if (o.emulator.empty()) {
        // <build>/test/check/check and <build>/tools/ptxemu/libptxemu.so
        std::error_code ignored;
        const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
        o.emulator = (self.parent_path() / "../../tools/ptxemu/libptxemu.so").lexically_normal().string();
    }
    return o;
}

std::vector<std::string> select_names(const Options& o) {
    std::vector<std::string> names = o.cases;
    for (const std::string& name : o.cases) {
        Case c;
        std::string error;
        if (!parse_case(name, &c, &error)) usage_error("--case " + name + ": " + error);
    }
    if (o.cases.empty()) {
        const std::vector<Case> cases = o.random > 0   ? random_cases(o.random, static_cast<uint32_t>(o.random_seed))
                                        : o.seeds > 0  ? seed_cases()
                                        : o.long_suite ? long_cases()
                                                       : covering_cases();
        for (const Case& c : cases) names.push_back(case_name(c));
    }
    std::erase_if(names, [&](const std::string& name) {
        return std::any_of(o.filters.begin(), o.filters.end(),
                           [&](const std::string& f) { return name.find(f) == std::string::npos; });
    });
    std::vector<std::string> mine;
    for (size_t i = static_cast<size_t>(o.shard); i < names.size(); i += static_cast<size_t>(o.shards))
        mine.push_back(names[i]);
    return mine;
}

// "" or the compute capability that a forced kernel needs: it is built for one family of chips.
std::string family_of(const std::string& kernel) {
    return kernel.rfind("sm100_", 0) == 0 ? "100" : kernel.rfind("sm90_", 0) == 0 ? "90" : "";
}

// ---- child

// A forced kernel of another family is not missed.
bool other_family(const std::string& kernel, int compute_capability) {
    const std::string family = family_of(kernel);
    return !family.empty() && std::stoi(family) / 10 != compute_capability / 10;
}

Result run_one(const std::string& name, const Machine& machine, const Machine* emulator, const std::string& stats_file,
               int runs, bool bench) {
    Result r;
    r.name = name;
    Case c;
    if (!parse_case(name, &c, &r.reason)) return r;
    const Inputs in = make_inputs(c);
    const int bench_runs = bench ? 9 : 0;
    const Outcome out = run_case(machine, in, stats_file, bench_runs);
    if (!out.not_served.empty()) {
        r.verdict = other_family(c.kernel, machine.compute_capability) ? Verdict::kSkip : Verdict::kFail;
        r.reason = "no kernel: " + out.not_served;
        return r;
    }
    r.symbol = out.symbol.empty() ? "-" : out.symbol;
    char hash[32];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(out.hash));
    r.hash = hash;
    if (!out.event_order.empty()) r.event_order = out.event_order;
    r.microseconds = out.microseconds;
    r.reason = out.problem;
    if (!out.scores.empty()) {
        const std::string judged = judge_scores(in, out);
        r.reason += (r.reason.empty() || judged.empty() ? "" : "; ") + judged;
    }
    for (int run = 2; run <= runs && r.reason.empty(); ++run) {
        const Outcome again = run_case(machine, in, stats_file, 0);
        r.reason = again.problem.empty() ? compare_bits(in, out, "the first run", again, "a later one") : again.problem;
        if (!r.reason.empty())
            r.reason = "run " + std::to_string(run) + " of " + std::to_string(runs) + ": " + r.reason;
    }
    if (emulator != nullptr && r.reason.empty()) {
        const Outcome emulated = run_case(*emulator, in, "", 0);
        r.reason =
            emulated.not_served.empty() ? emulated.problem : "the emulator has no kernel: " + emulated.not_served;
        if (r.reason.empty()) r.reason = judge_scores(in, emulated);
        if (r.reason.empty()) r.reason = compare_bits(in, out, "silicon", emulated, "emulator");
    }
    r.verdict = r.reason.empty() ? Verdict::kOk : Verdict::kFail;
    return r;
}

int child_main(const Options& o) {
    const ChildLink link;
    const bool cuda = o.device == "cuda";
    const std::string stats_file =
        (std::filesystem::temp_directory_path() / ("lidx-check-" + std::to_string(getpid()) + ".json")).string();
    struct Remove {
        const std::string& file;
        ~Remove() { std::remove(file.c_str()); }
    } const remove{stats_file};
    std::unique_ptr<Machine> machine, emulator;
    try {
        if (cuda) {
            setenv("CUDA_DISABLE_PTX_JIT", "1", 1);  // what runs is the cubin that was shipped
            machine = std::make_unique<Machine>(o.driver);
            // The emulated device is the same one, so that plans and kernels are the same.
            setenv("PTXEMU_CC", std::to_string(machine->compute_capability).c_str(), 1);
            setenv("PTXEMU_SMS", std::to_string(machine->multiprocessors).c_str(), 1);
            emulator = std::make_unique<Machine>(o.emulator);
        } else {
            setenv("PTXEMU_STATS", stats_file.c_str(), 1);
            machine = std::make_unique<Machine>(o.emulator);
        }
    } catch (const std::exception& e) {
        link.fatal(e.what());
        return 3;
    }
    for (size_t i = 0; i < link.names().size(); ++i) {
        link.begin(i);
        const auto start = std::chrono::steady_clock::now();
        Result r;
        bool lost = false;
        try {
            r = run_one(link.names()[i], *machine, emulator.get(), cuda ? "" : stats_file, o.runs, o.bench);
        } catch (const MachineError& e) {
            r.reason = e.what();
            lost = true;
        } catch (const std::exception& e) {
            r.reason = std::string("in the check itself: ") + e.what();
        }
        r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (lost) r.verdict = Verdict::kFail;
        link.end(i, r);
        if (lost) {
            std::remove(stats_file.c_str());
            std::_Exit(1);  // the context may be beyond use, and its clean-up with it; the parent starts a new child
        }
    }
    return 0;
}

// ---- parent

const char* verdict_text(Verdict v) { return v == Verdict::kOk ? "ok" : v == Verdict::kFail ? "FAIL" : "skip"; }

void print_row(const Result& r) {
    std::printf("%-4s %s", verdict_text(r.verdict), r.name.c_str());
    if (r.verdict != Verdict::kSkip) std::printf(" %s %s %.2fs", r.symbol.c_str(), r.hash.c_str(), r.seconds);
    if (r.microseconds > 0) std::printf(" %.1fus", r.microseconds);
    if (!r.reason.empty()) std::printf(": %s", r.reason.c_str());
    std::printf("\n");
    std::fflush(stdout);
}

std::string json_string(const std::string& text) {
    std::string out = "\"";
    for (const char ch : text) {
        if (ch == '"' || ch == '\\') out += '\\';
        if (static_cast<unsigned char>(ch) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", ch);
            out += escape;
        } else {
            out += ch;
        }
    }
    return out + "\"";
}

bool write_json(const Options& o, const std::vector<Result>& rows, double seconds) {
    std::FILE* file = std::fopen(o.json.c_str(), "w");
    if (file == nullptr) return false;
    std::map<Verdict, int> counts;
    for (const Result& r : rows) ++counts[r.verdict];
    std::fprintf(
        file, "{\"device\": %s, \"passed\": %d, \"failed\": %d, \"skipped\": %d, \"seconds\": %.3f, \"cases\": [",
        json_string(o.device).c_str(), counts[Verdict::kOk], counts[Verdict::kFail], counts[Verdict::kSkip], seconds);
    for (size_t i = 0; i < rows.size(); ++i) {
        const Result& r = rows[i];
        std::fprintf(file,
                     "%s\n {\"name\": %s, \"verdict\": %s, \"kernel\": %s, \"hash\": %s, \"event_order\": %s, "
                     "\"seconds\": %.3f, "
                     "\"microseconds\": %.3f, \"reason\": %s}",
                     i == 0 ? "" : ",", json_string(r.name).c_str(), json_string(verdict_text(r.verdict)).c_str(),
                     json_string(r.symbol).c_str(), json_string(r.hash).c_str(), json_string(r.event_order).c_str(),
                     r.seconds, r.microseconds, json_string(r.reason).c_str());
    }
    const bool written = std::fputs("\n]}\n", file) >= 0;
    return std::fclose(file) == 0 && written;
}

ChildSetup child_setup(const Options& o) {
    ChildSetup setup;
    setup.arguments = {"--child", "--device", o.device, "--emulator", o.emulator, "--driver", o.driver,
                       "--runs",  std::to_string(o.runs)};
    if (o.bench) setup.arguments.push_back("--bench");
    setup.jobs = o.jobs;
    setup.limit_seconds = o.timeout;
    return setup;
}

// The emulator becomes a device that has the forced kernels, unless PTXEMU_CC already says which device it is.
bool run_on_devices(const Options& o, ChildSetup setup, const std::vector<std::string>& names,
                    const std::function<void(const Result&)>& report, std::string* error) {
    std::map<std::string, std::vector<std::string>> by_device;
    for (const std::string& name : names) {
        const std::string family = family_of(name.substr(0, name.find('/')));
        const bool chosen = o.device == "emu" && std::getenv("PTXEMU_CC") == nullptr && family != "100";
        by_device[chosen ? family : ""].push_back(name);
    }
    for (const auto& [device, cases] : by_device) {
        ChildSetup on_device = setup;
        if (!device.empty()) on_device.environment.emplace_back("PTXEMU_CC", device);
        if (!run_in_children(on_device, cases, report, error)) return false;
    }
    return true;
}

// The same cases under each scheduler seed: one row per case, passed where all bits agree and the orders differ.
bool run_seeds(const Options& o, const std::vector<std::string>& names, std::vector<Result>* rows, std::string* error) {
    std::map<std::string, std::vector<Result>> runs;
    for (int seed = 0; seed <= o.seeds; ++seed) {
        ChildSetup setup = child_setup(o);
        setup.environment.emplace_back("PTXEMU_SEED", std::to_string(seed));
        setup.environment.emplace_back("PTXEMU_ANY_LEADER", "1");
        const auto keep = [&](const Result& r) { runs[r.name].push_back(r); };
        if (!run_on_devices(o, setup, names, keep, error)) return false;
    }
    for (const std::string& name : names) {
        Result row = runs[name].front();
        std::set<std::string> orders;
        row.verdict = Verdict::kOk;
        for (size_t seed = 0; seed < runs[name].size(); ++seed) {
            const Result& r = runs[name][seed];
            if (seed > 0) orders.insert(r.event_order);
            if (row.verdict != Verdict::kOk) continue;
            row.verdict = r.verdict;
            if (!r.reason.empty()) row.reason = "seed " + std::to_string(seed) + ": " + r.reason;
            if (r.verdict == Verdict::kOk && r.hash != row.hash) {
                row.verdict = Verdict::kFail;
                row.reason = "seed " + std::to_string(seed) + " gives other bits: " + r.hash;
            }
            if (seed > 0) row.seconds += r.seconds;
        }
        const std::string summary =
            std::to_string(orders.size()) + " event orders under " + std::to_string(o.seeds) + " seeds";
        if (row.verdict == Verdict::kOk && (orders.count("-") != 0 || static_cast<int>(orders.size()) * 2 < o.seeds)) {
            row.verdict = Verdict::kFail;
            row.reason = "the seeds change too little: " + summary;
        } else if (row.reason.empty()) {
            row.reason = summary;
        }
        print_row(row);
        rows->push_back(row);
    }
    return true;
}

int parent_main(const Options& o) {
    if (o.self_test) {
        std::string text;
        const std::string problem = self_test(&text);
        std::printf("check: self-test: %s; %s\n", text.c_str(), problem.empty() ? "ok" : problem.c_str());
        return problem.empty() ? 0 : 1;
    }
    const std::vector<std::string> names = select_names(o);
    if (o.list) {
        for (const std::string& name : names) std::printf("%s\n", name.c_str());
        return 0;
    }
    if (names.empty()) usage_error("no case has such a name");
    const auto start = std::chrono::steady_clock::now();
    std::vector<Result> rows;
    std::string error;
    auto keep = [&](const Result& r) {
        rows.push_back(r);
        print_row(r);
    };
    const bool ran =
        o.seeds > 0 ? run_seeds(o, names, &rows, &error) : run_on_devices(o, child_setup(o), names, keep, &error);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!ran) {
        std::fprintf(stderr, "check: %s\n", error.c_str());
        return 3;
    }
    if (!o.json.empty() && !write_json(o, rows, seconds)) {
        std::fprintf(stderr, "check: cannot write %s: %s\n", o.json.c_str(), std::strerror(errno));
        return 2;
    }
    const auto count = [&](Verdict v) {
        return static_cast<int>(
            std::count_if(rows.begin(), rows.end(), [&](const Result& r) { return r.verdict == v; }));
    };
    const int failed = count(Verdict::kFail), passed = count(Verdict::kOk), skipped = count(Verdict::kSkip);
    std::printf("check: %.1f s\n", seconds);
    std::printf("check: %d passed, %d failed", passed, failed);
    if (skipped > 0) std::printf(", %d skipped", skipped);  // forced kernels of other chips
    std::printf("\n");
    return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace check

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    const check::Options options = check::parse_options(argc, argv);
    return options.child ? check::child_main(options) : check::parent_main(options);
}

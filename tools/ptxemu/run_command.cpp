// SPDX-License-Identifier: Apache-2.0
#include "run_command.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "counted.h"
#include "fatbin.h"
#include "findings.h"
#include "hex.h"
#include "input_file.h"
#include "json_file.h"
#include "module_variables.h"
#include "occupancy.h"
#include "output_file.h"
#include "profile.h"
#include "run_arguments.h"
#include "texts.h"
#include "tool_failure.h"

namespace ptxemu {
namespace {

using Clock = std::chrono::steady_clock;

std::string read_image(const std::filesystem::path& path) {
    constexpr uint64_t kMaxImageBytes = uint64_t{256} << 20;
    tool::InputFile file(path);
    if (file.size_bytes() > kMaxImageBytes)
        tool::bad_input(file.name() + ": " + std::to_string(file.size_bytes()) + " bytes, expected at most " +
                        std::to_string(kMaxImageBytes));
    std::string image(file.size_bytes(), '\0');
    file.read(image.data(), image.size());
    return image;
}

bool is_text(const std::string& image) {
    return std::all_of(image.begin(), image.end(), [](char c) { return c != '\0'; });
}

struct LoadedFile {
    std::unique_ptr<Module> module;
    int compute_capability = 0;
};

// The device that runs it: the one asked for, else the first that the module's target names.
LoadedFile load(const std::filesystem::path& path, int wanted) {
    const std::string image = read_image(path);
    LoadedFile loaded;
    try {
        if (is_text(image)) {
            loaded.module = parse_ptx(image);
        } else if (wanted != 0) {
            loaded.module = parse_ptx(select_ptx(image.data(), image.size(), wanted));
        } else {
            for (const int device : {100, 90, 103, 80}) {
                try {
                    loaded.module = parse_ptx(select_ptx(image.data(), image.size(), device));
                    loaded.compute_capability = device;
                    break;
                } catch (const ImageError& e) {
                    if (e.kind != ImageError::Kind::kNoBinary || device == 80) throw;
                }
            }
        }
    } catch (const PtxError& e) {
        tool::bad_input(path.string() + (e.line > 0 ? ":" + std::to_string(e.line) : "") + ": " + e.what());
    } catch (const ImageError& e) {
        tool::bad_input(path.string() + ": " + e.what());
    }
    if (wanted != 0) loaded.compute_capability = wanted;
    const std::string& target = loaded.module->target;
    for (const int device : kComputeCapabilities)
        if (loaded.compute_capability == 0 && target_runs_on(target, device)) loaded.compute_capability = device;
    if (loaded.compute_capability == 0 || !target_runs_on(target, loaded.compute_capability)) {
        tool::bad_input(path.string() + ": .target " + target + " does not run on " +
                        (wanted != 0 ? "compute capability " + std::to_string(wanted)
                                     : "any of compute capability " + tool::joined(kComputeCapabilities)));
    }
    return loaded;
}

// `saxpy(float, float const*)` of a symbol that C++ mangled; of any other nothing.
std::string source_name(const std::string& symbol) {
    if (symbol.rfind("_Z", 0) != 0) return {};
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), std::free);
    return text != nullptr ? text.get() : std::string();
}

// The same without its parameters and, as templates have it, its result.
std::string bare_name(const std::string& source) {
    size_t end = source.size();
    for (int depth = 0; end > 0;) {
        --end;
        depth += source[end] == ')' ? 1 : source[end] == '(' ? -1 : 0;
        if (depth == 0) break;
    }
    const size_t begin = source.rfind("void ", 0) == 0 ? std::strlen("void ") : 0;
    return end > begin ? source.substr(begin, end - begin) : std::string();
}

// By its symbol, or by its name in C++ where only one kernel has it.
const Function& kernel_of(const Module& module, const std::filesystem::path& path, const std::string& name) {
    std::vector<const Function*> kernels, named;
    for (const auto& [symbol, function] : module.functions) {
        if (!function->is_entry || function->is_declaration) continue;
        if (symbol == name) return *function;
        kernels.push_back(function.get());
        if (!name.empty() && bare_name(source_name(symbol)) == name) named.push_back(function.get());
    }
    const std::string list = tool::joined(kernels, ", ", &Function::name);
    if (named.size() == 1) return *named[0];
    if (!named.empty()) tool::bad_input("--kernel: " + path.string() + " has several '" + name + "': " + list);
    if (name.empty() && kernels.size() == 1) return *kernels[0];
    if (kernels.empty()) tool::bad_input(path.string() + ": it has no kernel");
    tool::bad_input(name.empty() ? "--kernel: " + path.string() + " has several: " + list
                                 : "--kernel: " + path.string() + " has no kernel '" + name + "', it has: " + list);
}

const char* status_text(RunStatus status) {
    switch (status) {
        case RunStatus::kOk: return "clean";
        case RunStatus::kDeadlock: return "deadlock";
        case RunStatus::kInvalidParams: return "invalid";
        case RunStatus::kInternal: return "internal";
        case RunStatus::kFindings: return "findings";
        default: return "fault";
    }
}

int exit_of(RunStatus status) {
    switch (status) {
        case RunStatus::kOk: return kRunClean;
        case RunStatus::kDeadlock: return kRunDeadlock;
        case RunStatus::kInvalidParams: return kRunBadInput;
        case RunStatus::kInternal: return kRunInternal;
        default: return kRunFindings;
    }
}

nlohmann::ordered_json party_json(const Party& p) {
    nlohmann::ordered_json json;
    json["ptx_line"] = p.ptx_line;
    json["source"] = p.source;
    json["role"] = p.role;
    json["instruction"] = p.instruction;
    json["cta"] = {p.cta[0], p.cta[1], p.cta[2]};
    return json;
}

nlohmann::ordered_json finding_json(const Finding& f, uint64_t seed) {
    nlohmann::ordered_json json;
    json["code"] = f.code;
    json["severity"] = f.severity == Severity::kError ? "error" : "warning";
    json.update(party_json(f.party));
    json["space"] = f.space;
    json["address"] = f.bytes != 0 ? hex(f.address) : "";
    json["bytes"] = f.bytes;
    json["place"] = f.place;
    json["message"] = f.what;
    json["other"] = f.other.pc == ~0u ? nlohmann::ordered_json() : party_json(f.other);
    json["would_order"] = f.would_order;
    json["count"] = f.count;
    json["seed"] = seed;
    return json;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    tool::OutputFile file(path);
    file.write(text);
    file.close();
}

// Null for a kernel without parameters.
std::unique_ptr<RunArguments> arguments_of(const RunOptions& options, const Function& kernel, int compute_capability) {
    if (!options.args.empty()) return std::make_unique<RunArguments>(options.args, kernel, compute_capability);
    if (!kernel.params.empty())
        tool::bad_input("--args: kernel " + kernel.name + " has " + tool::counted(kernel.params.size(), "parameter") +
                        " (ptxemu info " + options.file.string() + " lists " +
                        (kernel.params.size() == 1 ? "it)" : "them)"));
    return nullptr;
}

void require_outputs(const RunOptions& options, const RunArguments* arguments) {
    std::vector<tool::Output> files;
    for (const auto& [option, path] :
         {tool::Output{"--json", options.json}, {"--stats", options.stats}, {"--trace", options.trace}})
        if (!path.empty()) files.push_back({option, path});
    std::vector<std::filesystem::path> inputs = {options.file};
    if (arguments != nullptr) {
        inputs.push_back(options.args);
        inputs.insert(inputs.end(), arguments->inputs().begin(), arguments->inputs().end());
        for (const tool::Output& output : arguments->outputs()) files.push_back(output);
    }
    tool::require_outputs(files, inputs);
}

DeviceConfig device_of(const RunOptions& options, int compute_capability) {
    DeviceConfig device;
    device.compute_capability = compute_capability;
    device.multiprocessors = options.multiprocessors;
    device.threads = options.threads;
    device.check = options.check;
    device.any_leader = options.any_leader;
    device.progress = true;
    device.max_instructions = options.max_instructions;
    device.detail = !options.stats.empty();
    device.max_shared_per_block = static_cast<uint32_t>(limits_of(compute_capability).shared_per_block_optin);
    return device;
}

// Without its parameters.
Launch launch_of(const RunOptions& options, const Function& kernel) {
    Launch launch;
    launch.grid = options.grid;
    launch.block = options.block;
    if (options.has_cluster) launch.cluster = options.cluster;
    else if (kernel.reqnctapercluster[0] != 0)
        launch.cluster = {kernel.reqnctapercluster[0], std::max(1u, kernel.reqnctapercluster[1]),
                          std::max(1u, kernel.reqnctapercluster[2])};
    launch.dynamic_shared_bytes = options.dynamic_shared_bytes;
    return launch;
}

std::shared_ptr<const Program> decoded(const RunOptions& options, const Module& module, const Function& kernel,
                                       GlobalMemory& memory) {
    try {
        return decode(module, kernel, place_variables(module, memory));
    } catch (const PtxError& e) {
        tool::bad_input(options.file.string() + (e.line > 0 ? ":" + std::to_string(e.line) : "") + ": " + e.what());
    } catch (const VariableMemoryError& e) {
        tool::bad_input(options.file.string() + ": no memory for " + e.what());
    }
}

// What the seeds left.
struct Outcome {
    RunResult result;    // of the last that ran
    uint64_t seed = 0;   // that one
    uint64_t ran = 0;    // how many
    Stats stats;
    nlohmann::ordered_json found = nlohmann::ordered_json::array();       // findings
    nlohmann::ordered_json differing = nlohmann::ordered_json::array();   // buffers that differ from the first seed's
};

// Holds a seed's buffers against those of the first.
void compare_outputs(const RunOptions& options, const RunArguments& arguments,
                     std::vector<std::vector<uint8_t>>& first_outputs, Outcome& outcome) {
    const auto outputs = arguments.contents();
    if (first_outputs.empty()) first_outputs = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == first_outputs[i]) continue;
        const std::string name = arguments.buffer_names()[i];
        outcome.differing.push_back({{"buffer", name}, {"seed", outcome.seed}});
        std::fprintf(stderr, "ptxemu: buffer %s: seed %llu leaves other bytes than seed %llu\n", name.c_str(),
                     static_cast<unsigned long long>(outcome.seed), static_cast<unsigned long long>(options.seed));
    }
}

// Each seed a launch with fresh memory, up to the first that fails.
Outcome run_seeds(const RunOptions& options, const Module& module, const Function& kernel, RunArguments* arguments,
                  DeviceConfig device) {
    Launch launch = launch_of(options, kernel);
    Outcome outcome;
    std::vector<std::vector<uint8_t>> first_outputs;
    auto next_report = Clock::now() + std::chrono::seconds(2);
    while (outcome.result.status == RunStatus::kOk && outcome.ran < options.seeds) {
        outcome.seed = device.seed = options.seed + outcome.ran;
        GlobalMemory memory;
        if (options.check) memory.track_writes();
        const auto program = decoded(options, module, kernel, memory);
        launch.params = arguments != nullptr ? arguments->place(memory) : std::vector<uint8_t>();
        outcome.result = run(*program, launch, device, memory, outcome.stats);
        ++outcome.ran;
        if (outcome.result.status == RunStatus::kInvalidParams) tool::bad_input(outcome.result.message);
        for (const Finding& f : outcome.result.findings) outcome.found.push_back(finding_json(f, outcome.seed));
        const bool clean = outcome.result.status == RunStatus::kOk, last = !clean || outcome.ran == options.seeds;
        if (arguments != nullptr) {
            if (clean) compare_outputs(options, *arguments, first_outputs, outcome);
            if (last) arguments->write_outputs();
            arguments->release(memory);
        }
        if (last || Clock::now() < next_report) continue;
        next_report = Clock::now() + (::isatty(2) ? std::chrono::milliseconds(500) : std::chrono::seconds(5));
        std::fprintf(stderr, "ptxemu: %llu of %llu seeds\n", static_cast<unsigned long long>(outcome.ran),
                     static_cast<unsigned long long>(options.seeds));
    }
    return outcome;
}

// Names of the module's dynamic shared memory; "" if it has none.
std::string dynamic_shared(const Module& module) {
    std::vector<std::string> names;
    for (const Variable& v : module.globals)
        if (v.space == Space::kShared && v.is_extern) names.push_back(v.name);
    return tool::joined(names);
}

void report_failure(const RunOptions& options, const Module& module, const Outcome& outcome) {
    std::fprintf(stderr, "ptxemu: %s\n", outcome.result.message.c_str());
    const std::string dynamic = dynamic_shared(module);
    if (!dynamic.empty() && options.dynamic_shared_bytes == 0 &&
        outcome.result.message.find("shared") != std::string::npos)
        std::fprintf(stderr, "ptxemu: %s declares dynamic shared memory (%s); --smem says how much, here 0 bytes\n",
                     options.file.c_str(), dynamic.c_str());
    std::fprintf(stderr, "ptxemu: seed %llu fails%s; again: %s --seed %llu\n",
                 static_cast<unsigned long long>(outcome.seed),
                 outcome.ran == 1 ? "" : (", the " + std::to_string(outcome.ran - 1) + " before it do not").c_str(),
                 options.replay.c_str(), static_cast<unsigned long long>(outcome.seed));
}

double rate_of(const Stats& stats) {
    return stats.seconds > 0 ? static_cast<double>(stats.warp_instructions) / stats.seconds : 0;
}

nlohmann::ordered_json outcome_json(const RunOptions& options, const LoadedFile& file, const Function& kernel,
                                    const Outcome& outcome) {
    const int code = exit_of(outcome.result.status);
    nlohmann::ordered_json json;
    json["kernel"] = kernel.name;
    json["file"] = options.file.string();
    json["status"] = status_text(outcome.result.status);
    json["exit_code"] = code;
    json["message"] = outcome.result.message;
    json["check"] = options.check;
    json["compute_capability"] = file.compute_capability;
    json["first_seed"] = options.seed;
    json["seeds_run"] = outcome.ran;
    json["failing_seed"] = code != kRunClean ? nlohmann::ordered_json(outcome.seed) : nlohmann::ordered_json();
    json["warp_instructions"] = outcome.stats.warp_instructions;
    json["seconds"] = outcome.stats.seconds;
    json["warp_instructions_per_second"] = rate_of(outcome.stats);
    json["outputs_differ"] = outcome.differing;
    json["findings"] = outcome.found;
    return json;
}

void print_outcome(const RunOptions& options, const Function& kernel, const Outcome& outcome, size_t warnings) {
    const auto errors = std::count_if(outcome.found.begin(), outcome.found.end(),
                                      [](const auto& f) { return f["severity"] == "error"; });
    std::printf("%s grid %s block %s: %s, %s, %s, %s, %s in %.3f s (%.1f million/s)\n", kernel.name.c_str(),
                option_text(options.grid).c_str(), option_text(options.block).c_str(),
                status_text(outcome.result.status), tool::counted(errors, "error").c_str(),
                tool::counted(warnings, "warning").c_str(),
                tool::counted(outcome.ran, "seed").c_str(),
                tool::counted(outcome.stats.warp_instructions, "warp instruction").c_str(), outcome.stats.seconds,
                rate_of(outcome.stats) * 1e-6);
}

}   // namespace

int run_kernel(const RunOptions& options) {
    const LoadedFile file = load(options.file, options.compute_capability);
    const Function& kernel = kernel_of(*file.module, options.file, options.kernel);
    const auto arguments = arguments_of(options, kernel, file.compute_capability);
    require_outputs(options, arguments.get());

    DeviceConfig device = device_of(options, file.compute_capability);
    ToldWarnings told;   // a warning is printed once, not once a seed
    device.told_warnings = &told;
    TraceLog trace;
    if (!options.trace.empty()) {
        if (!trace.open(options.trace.string()))
            tool::bad_input(options.trace.string() + ": cannot create it: " + std::strerror(errno));
        device.trace = &trace;
    }
    const Outcome outcome = run_seeds(options, *file.module, kernel, arguments.get(), device);

    const int code = exit_of(outcome.result.status);
    if (code != kRunClean) report_failure(options, *file.module, outcome);
    if (device.trace != nullptr && !trace.close())
        tool::bad_input(options.trace.string() + ": write failed: " + std::strerror(errno));
    if (!options.stats.empty()) write_text(options.stats, stats_json(outcome.stats));
    if (!options.json.empty())
        write_text(options.json, tool::json_text(outcome_json(options, file, kernel, outcome)) + "\n");
    print_outcome(options, kernel, outcome, told.size());
    return code;
}

int list_kernels(const InfoOptions& options) {
    const LoadedFile file = load(options.file, options.compute_capability);
    std::printf("PTX %d.%d, target %s\n", file.module->version_major, file.module->version_minor,
                file.module->target.c_str());
    if (const std::string dynamic = dynamic_shared(*file.module); !dynamic.empty())
        std::printf("dynamic shared memory: %s\n", dynamic.c_str());
    for (const auto& [name, function] : file.module->functions) {
        if (!function->is_entry || function->is_declaration) continue;
        std::printf("\n%s\n", name.c_str());
        if (const std::string source = source_name(name); !source.empty()) std::printf("  %s\n", source.c_str());
        if (function->reqntid[0] != 0 || function->maxntid[0] != 0) {
            const uint32_t* t = function->reqntid[0] != 0 ? function->reqntid : function->maxntid;
            std::printf("  block: %s %s\n", function->reqntid[0] != 0 ? "exactly" : "at most",
                        option_text({t[0], std::max(1u, t[1]), std::max(1u, t[2])}).c_str());
        }
        if (function->reqnctapercluster[0] != 0) {
            const uint32_t* c = function->reqnctapercluster;
            std::printf("  cluster: %s\n", option_text({c[0], std::max(1u, c[1]), std::max(1u, c[2])}).c_str());
        }
        std::printf("  static shared memory: %u bytes, parameters: %u bytes\n", function->static_shared_bytes,
                    function->param_bytes);
        for (size_t i = 0; i < function->params.size(); ++i) {
            const Variable& v = function->params[i];
            std::printf("  %3zu  offset %4llu  %4llu bytes  align %u  .%s  %s\n", i,
                        static_cast<unsigned long long>(v.offset), static_cast<unsigned long long>(v.bytes), v.align,
                        std::string(type_name(v.type)).c_str(), v.name.c_str());
        }
    }
    return kRunClean;
}

}   // namespace ptxemu

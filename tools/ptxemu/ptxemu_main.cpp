// SPDX-License-Identifier: Apache-2.0
// The command ptxemu: options and exit codes.
#include <CLI/CLI.hpp>

#include <charconv>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "command_line.h"
#include "occupancy.h"
#include "run_command.h"
#include "texts.h"

namespace {

using namespace ptxemu;
using tool::whole;

constexpr const char* kDescription =
    "ptxemu runs a kernel from a PTX file on this computer's CPU: tensor cores, TMA, mbarriers and Tensor Memory of\n"
    "compute capabilities 8.0 to 10.3 included. The library libptxemu.so does the same behind the CUDA driver API.\n";

constexpr const char* kExamples =
    "Examples\n"
    "  ptxemu info saxpy.ptx\n"
    "  ptxemu run saxpy.ptx --kernel saxpy --grid 4 --block 256 --args args.json\n"
    "  ptxemu run gemm.ptx --kernel gemm --grid 2,2 --block 192 --smem 98304 --args args.json --check --seeds 50\n"
    "\n"
    "Exit codes\n"
    "  0  ran, nothing found (warnings do not count)\n"
    "  2  usage, files, or PTX that is not understood\n"
    "  3  findings: errors that --check reports, or a fault (illegal address, trap ...)\n"
    "  4  deadlock, or more instructions than --max-instructions\n"
    "  5  a defect of ptxemu\n";

constexpr const char* kRunFooter = R"(args.json is an array, one entry per parameter, in order:
  {"buffer": "in.npy", "name": "x"}           device memory with the file's data; the parameter is its address
  {"buffer": {"shape": [4, 8], "dtype": "f32", "fill": 0}, "out": "y.npy"}
                                              fill: a number, "iota", "random" ("seed": 1); without it the
                                              memory is uninitialised. out: written after the run
  {"address": "x", "offset": 16}              a pointer into another entry's buffer, in bytes
  {"scalar": 3, "type": "u32"}                u8..u64, s8..s64, f16, bf16, f32, f64, e4m3, e5m2
  {"bytes": "00ff..."}                        as they lie in memory
  {"tensormap": {"globalAddress": "x", "tensorDataType": "UINT8", "globalDim": [128, 64],
     "globalStrides": [128], "boxDim": [128, 8], "elementStrides": [1, 1], "swizzle": "128B"}}
                                              the arguments of cuTensorMapEncodeTiled by name; also offset,
                                              tensorRank, interleave, l2Promotion, oobFill
  {"struct": [...]}                           members of these kinds; "at": their offset in bytes
An entry with "param": false is a buffer that only others name. File names start at the folder of args.json.

--check reports races, misuse of barriers and of Tensor Memory, and what is used before it is defined, on the
first schedule in which it happens. --seeds N runs seeds 0 to N - 1: seed 0 in order, others delay asynchronous
work and interleave warps at random. The first that fails ends the run and is named; --seed S repeats it.
)";

// "X", "X,Y" or "X,Y,Z", each 1 or more.
CLI::Validator dimensions(Dim3* to) {
    return {[to](std::string& text) -> std::string {
                uint32_t values[3] = {1, 1, 1};
                const char *at = text.data(), *end = text.data() + text.size();
                for (int d = 0; d < 3; ++d) {
                    const auto result = std::from_chars(at, end, values[d]);
                    if (result.ec != std::errc() || values[d] == 0) break;
                    at = result.ptr;
                    if (at == end) {
                        *to = {values[0], values[1], values[2]};
                        return "";
                    }
                    if (*at++ != ',') break;
                }
                return "Value '" + tool::shown(text) + "' is not X, X,Y or X,Y,Z with numbers from 1 to 4294967295";
            },
            "X,Y,Z"};
}

CLI::Validator one_of_devices() {
    std::vector<std::string> words;
    for (const int device : kComputeCapabilities) words.push_back(std::to_string(device));
    return tool::one_of(words);
}

// The command line as a shell would take it, without the options that choose seeds.
std::string without_seeds(int argc, char** argv) {
    std::string text;
    for (int i = 0; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--seed" || word == "--seeds") {
            ++i;
            continue;
        }
        if (word.starts_with("--seed=") || word.starts_with("--seeds=")) continue;
        const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~!") == std::string::npos;
        std::string quoted;
        for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
        text += (text.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
    }
    return text;
}

void add_run(CLI::App& app, std::function<int()>& chosen, const std::string& replay) {
    auto* command = app.add_subcommand("run", "Run a kernel of a PTX file");
    const auto o = std::make_shared<RunOptions>();
    o->replay = replay;
    o->threads = static_cast<int>(std::max(1u, std::min(256u, std::thread::hardware_concurrency())));
    const auto grid = std::make_shared<std::string>(), block = std::make_shared<std::string>(),
               cluster = std::make_shared<std::string>();
    command->add_option("FILE", o->file, "PTX text, or a fat binary with PTX")->required();
    command->add_option("--kernel", o->kernel, "Its symbol or C++ name; may be left out where there is only one")
        ->type_name("NAME");
    command->add_option("--grid", *grid, "CTAs")->required()->check(dimensions(&o->grid));
    command->add_option("--block", *block, "Threads per CTA")->required()->check(dimensions(&o->block));
    command->add_option("--cluster", *cluster, "CTAs per cluster; default: as the kernel requires, else 1")
        ->check(dimensions(&o->cluster));
    command->add_option("--smem", o->dynamic_shared_bytes, "Dynamic shared memory per CTA, bytes")
        ->transform(whole(uint32_t{0}, uint32_t{232448}))
        ->capture_default_str();
    command->add_option("--args", o->args, "JSON file with the parameters, see below")->type_name("FILE");
    command->add_flag("--check", o->check, "Report what the hardware would let pass");
    command->add_option("--seeds", o->seeds, "Run this many schedules, from --seed on")
        ->transform(whole(uint64_t{1}, uint64_t{1} << 32))
        ->capture_default_str();
    command->add_option("--seed", o->seed, "The first schedule; 0: in order")
        ->transform(whole(uint64_t{0}, std::numeric_limits<uint64_t>::max() - (uint64_t{1} << 32)))
        ->capture_default_str();
    command->add_flag("--any-leader", o->any_leader, 
                      "Seeds other than 0 have elect.sync choose other lanes than the lowest");
    command->add_option("--cc", o->compute_capability, "Compute capability of the device; default: the PTX target's")
        ->check(one_of_devices());
    command->add_option("--sms", o->multiprocessors, "Its multiprocessors")
        ->transform(whole(1, 1024))
        ->capture_default_str();
    command->add_option("--threads", o->threads, "Host threads that run CTAs")
        ->transform(whole(1, 1024))
        ->capture_default_str();
    command->add_option("--max-instructions", o->max_instructions, "Warp instructions after which a CTA never ends")
        ->transform(whole(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
        ->capture_default_str();
    command->add_option("--json", o->json, "Write result and findings as JSON")->type_name("FILE");
    command->add_option("--trace", o->trace, "Write a Chrome/Perfetto trace in nominal clocks")->type_name("FILE");
    command->add_option("--stats", o->stats, "Write dynamic counts as JSON: by opcode and warp, bytes, bank conflicts")
        ->type_name("FILE");
    command->footer(kRunFooter);
    command->callback([o, grid, block, cluster, &chosen] {
        o->has_cluster = !cluster->empty();
        chosen = [o] { return run_kernel(*o); };
    });
}

void add_info(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("info", "List the kernels of a PTX file and their parameters");
    const auto o = std::make_shared<InfoOptions>();
    command->add_option("FILE", o->file, "PTX text, or a fat binary with PTX")->required();
    command->add_option("--cc", o->compute_capability, "Compute capability that chooses among a fat binary's texts")
        ->check(one_of_devices());
    command->footer(
        "Parameters are listed with their offset, size and type: what args.json of ptxemu run has an entry for each.\n"
        "\n"
        "Example\n"
        "  ptxemu info saxpy.ptx");
    command->callback([o, &chosen] { chosen = [o] { return list_kernels(*o); }; });
}

int run_main(int argc, char** argv) {
    CLI::App app(kDescription, "ptxemu");
    app.footer(kExamples);
    app.require_subcommand(1);
    app.set_version_flag("--version", "ptxemu " PTXEMU_VERSION);
    std::function<int()> chosen;
    add_run(app, chosen, without_seeds(argc, argv));
    add_info(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return tool::report_arguments(app, error) ? kRunBadInput : kRunClean;
    }
    return chosen();
}

}   // namespace

int main(int argc, char** argv) {
    return tool::guarded_main("ptxemu", kRunInternal, [&] { return run_main(argc, argv); });
}

// SPDX-License-Identifier: Apache-2.0
// lidx score: a case through the public API on a GPU or on the emulator.
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "case_device.h"
#include "case_io.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "machine.h"
#include "npy.h"
#include "score_file.h"

namespace lidx::command {

namespace {

constexpr uint32_t kMinusInfinityBits = 0xff800000u;

// Scores [rows, longest]; cells of keys that a row does not see keep the -inf that the buffer was filled with.
std::vector<float> run_kernel(const Machine& machine, const Case& c, const lidx_score_desc& desc,
                              const lidx_plan* plan) {
    const int64_t stride = desc.score_stride, longest = c.longest();
    const CaseBuffers inputs(machine, c);
    DeviceBuffer scores(machine, static_cast<size_t>(c.rows * stride) * sizeof(float));
    scores.fill32(kMinusInfinityBits, static_cast<size_t>(c.rows * stride));
    size_t workspace_bytes = 0;
    machine.check(lidx_plan_workspace_bytes(plan, &workspace_bytes));
    DeviceBuffer workspace(machine, workspace_bytes);
    workspace.fill32(0, workspace_bytes / 4);

    lidx_score_args args;
    lidx_score_args_init(&args);
    inputs.set(args);
    args.scores = scores.as<float>();
    args.workspace = workspace_bytes > 0 ? workspace.as() : nullptr;
    args.workspace_bytes = workspace_bytes;
    machine.check(lidx_score_enqueue(machine.context(), plan, &args, nullptr));
    wait_for(machine, workspace, workspace_bytes > 0);

    std::vector<float> result(static_cast<size_t>(c.rows * stride));
    scores.download(result.data(), result.size() * sizeof(float));
    for (int64_t row = 1; row < c.rows; ++row)
        std::memmove(result.data() + row * longest, result.data() + row * stride,
                     static_cast<size_t>(longest) * sizeof(float));
    result.resize(static_cast<size_t>(c.rows * longest));
    return result;
}

}  // namespace

int run_score(const ScoreOptions& options) {
    std::vector<Output> outputs = {{"--out", options.out}, {"--out's .json", sidecar_path(options.out)}};
    if (!options.stats.empty()) outputs.push_back({"--stats", options.stats});
    require_outputs(outputs, options.in);
    const Case c = read_case(options.in);
    if (const auto bad_id = bad_page_id(c)) bad_input((options.in / *bad_id).string());
    lidx_score_desc desc = describe(c, options.kernel);
    if (options.fast) desc.flags |= LIDX_FLAG_FAST;
    const CaseMachine chosen = choose_machine(options.device, options.stats, desc);
    const Machine& machine = *chosen.machine;

    lidx_plan* made = nullptr;
    machine.check(lidx_plan_create(machine.context(), &desc, &made));
    const std::unique_ptr<lidx_plan, decltype(&lidx_plan_destroy)> plan(made, lidx_plan_destroy);
    lidx_plan_info info = {};
    info.struct_size = sizeof info;
    machine.check(lidx_get_plan_info(plan.get(), &info));

    const std::vector<float> scores = run_kernel(machine, c, desc, plan.get());

    nlohmann::ordered_json sidecar;
    sidecar["kernel"] = info.symbol;
    sidecar["arithmetic"] = arithmetic_name(info.arithmetic);
    sidecar["rows"] = c.rows;
    sidecar["longest"] = c.longest();
    sidecar["grid"] = {info.grid[0], info.grid[1], info.grid[2]};
    sidecar["shared_bytes"] = info.shared_bytes;
    chosen.describe(sidecar);
    write_with_sidecar<float>(options.out, {c.rows, c.longest()}, scores, sidecar_path(options.out), sidecar);

    std::printf("%s: %s x %s by %s (%s arithmetic) on %s\n", options.out.c_str(), counted(c.rows, "row").c_str(),
                counted(c.longest(), "key").c_str(), info.symbol, arithmetic_name(info.arithmetic),
                chosen.name().c_str());
    return kDone;
}

}  // namespace lidx::command

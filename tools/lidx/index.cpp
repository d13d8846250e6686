// SPDX-License-Identifier: Apache-2.0
// lidx index: each row's k best keys of a case, scored and selected in one call, on a GPU or on the emulator.
#include <lidx.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "case_device.h"
#include "case_io.h"
#include "chosen.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "machine.h"
#include "output_file.h"

namespace lidx::command {

namespace {

lidx_index_desc describe_index(const Case& c, const IndexOptions& options) {
    lidx_index_desc desc;
    lidx_index_desc_init(&desc);
    desc.score = describe(c, options.kernel);
    desc.score.score_stride = 0;
    if (options.fast) desc.score.flags |= LIDX_FLAG_FAST;
    desc.score.score_type = options.score_type == "bf16" ? LIDX_BF16 : LIDX_FP32;
    desc.k = options.k;
    desc.forced_first = options.forced_first;
    desc.forced_last = options.forced_last;
    desc.index_kind = options.output == "physical"   ? LIDX_INDEX_PHYSICAL
                      : options.output == "ragged"   ? LIDX_INDEX_OFFSET
                      : options.output == "relative" ? LIDX_INDEX_RELATIVE
                                                     : LIDX_INDEX_POSITION;
    desc.sort = options.sorted == "score" ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
    desc.workspace_budget_bytes = options.budget_bytes;
    return desc;
}

Chosen choose(const Machine& machine, const Case& c, const lidx_index_desc& desc, const lidx_index_plan* plan,
              const lidx_index_plan_info& info, const std::vector<int32_t>& offsets) {
    const CaseBuffers inputs(machine, c);
    const DeviceBuffer d_offsets(machine, offsets);
    const ChosenBuffers chosen(machine, c.rows, desc.k);
    DeviceBuffer workspace(machine, info.workspace_bytes);
    workspace.fill32(0, info.zero_bytes / 4);

    lidx_index_args args;
    lidx_index_args_init(&args);
    inputs.set(args);
    args.offsets = offsets.empty() ? nullptr : d_offsets.as<int32_t>();
    chosen.set(args);
    args.workspace = info.workspace_bytes > 0 ? workspace.as() : nullptr;
    args.workspace_bytes = info.workspace_bytes;
    machine.check(lidx_index_enqueue(machine.context(), plan, &args, nullptr));
    wait_for(machine, workspace, info.zero_bytes > 0 && (desc.score.flags & LIDX_FLAG_CHECK) != 0);

    return chosen.download();
}

nlohmann::ordered_json summary_of(const IndexOptions& options, const Case& c, const lidx_index_plan_info& info,
                                  const CaseMachine& chosen) {
    nlohmann::ordered_json json;
    json["kernel"] = info.symbol;
    json["arithmetic"] = arithmetic_name(info.arithmetic);
    json["rows"] = c.rows;
    json["longest"] = c.longest();
    describe(options, json);
    json["output"] = options.output;
    json["score_type"] = options.score_type;
    json["window_rows"] = info.window_rows;
    json["windows"] = info.windows;
    json["slices"] = info.slices;
    json["workspace_bytes"] = info.workspace_bytes;
    chosen.describe(json);
    return json;
}

}  // namespace

int run_index(const IndexOptions& options) {
    const ChosenFiles files{options.out, options.scores_out, options.counts_out, options.json};
    std::vector<Output> outputs = files.outputs();
    if (!options.stats.empty()) outputs.push_back({"--stats", options.stats});
    std::vector<std::filesystem::path> inputs;
    if (!options.offsets.empty()) inputs.push_back(options.offsets);
    require_outputs(outputs, options.in, inputs);
    const Case c = read_case(options.in);
    if (const auto bad_id = bad_page_id(c)) bad_input((options.in / *bad_id).string());
    require_cells(options.in / "q.npy", c.rows, options.k);
    const std::vector<int32_t> offsets = offsets_of(c, options.output, options.offsets);
    const lidx_index_desc desc = describe_index(c, options);
    lidx_score_desc scorer = desc.score;   // as lidx_supports asks for it: a stride of its own
    scorer.score_stride = describe(c, options.kernel).score_stride;
    const CaseMachine machine = choose_machine(options.device, options.stats, scorer);

    lidx_index_plan* made = nullptr;
    machine.machine->check(lidx_index_plan_create(machine.machine->context(), &desc, &made));
    const std::unique_ptr<lidx_index_plan, decltype(&lidx_index_plan_destroy)> plan(made, lidx_index_plan_destroy);
    lidx_index_plan_info info = {};
    info.struct_size = sizeof info;
    machine.machine->check(lidx_get_index_plan_info(plan.get(), &info));
    const Chosen chosen = choose(*machine.machine, c, desc, plan.get(), info, offsets);

    files.write(c.rows, options.k, chosen, summary_of(options, c, info, machine));
    std::printf("%s: %d of up to %s for each of %s by %s in %s on %s\n", options.out.c_str(),
                static_cast<int>(std::min<int64_t>(options.k, c.longest())), counted(c.longest(), "key").c_str(),
                counted(c.rows, "row").c_str(), info.symbol,
                counted(info.windows, "window").c_str(), machine.name().c_str());
    return kDone;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// lidx topk: each row's k largest scores through the public API, on a GPU or on the emulator.
#include <lidx.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "case_io.h"
#include "chosen.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "machine.h"
#include "score_file.h"

namespace lidx::command {

namespace {

Chosen choose(const Machine& machine, const TopkOptions& options, const ScoreMatrix& matrix) {
    const DeviceBuffer scores(machine, matrix.scores.data), lengths(machine, matrix.lengths);
    const ChosenBuffers chosen(machine, matrix.rows, options.k);

    lidx_topk_desc desc;
    lidx_topk_desc_init(&desc);
    desc.row_map = LIDX_ROWS_FIXED;   // all rows are one request's
    desc.batch = 1;
    desc.max_rows = desc.max_tokens = static_cast<int32_t>(matrix.rows);
    desc.visibility = LIDX_SEE_ROW_LENGTH;
    desc.max_keys = desc.score_stride = matrix.keys;
    desc.score_type = matrix.bf16 ? LIDX_BF16 : LIDX_FP32;
    desc.k = options.k;
    desc.forced_first = options.forced_first;
    desc.forced_last = options.forced_last;
    desc.sort = options.sorted == "score" ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
    size_t workspace_bytes = 0;
    machine.check(lidx_topk_workspace_bytes(machine.context(), &desc, &workspace_bytes));
    DeviceBuffer workspace(machine, workspace_bytes);
    if (workspace_bytes > 0) workspace.fill32(0, static_cast<size_t>(matrix.rows));

    lidx_topk_args args;
    lidx_topk_args_init(&args);
    args.scores = scores.as();
    args.context_lens = lengths.as();
    chosen.set(args);
    if (options.scores_out.empty()) args.top_scores = nullptr;
    args.workspace = workspace_bytes > 0 ? workspace.as() : nullptr;
    args.workspace_bytes = workspace_bytes;
    machine.check(lidx_topk_enqueue(machine.context(), &desc, &args, nullptr));
    machine.check(machine.driver().cuCtxSynchronize(), "cuCtxSynchronize");

    return chosen.download();
}

}  // namespace

int run_topk(const TopkOptions& options) {
    const ChosenFiles files{options.out, options.scores_out, options.counts_out, options.json};
    std::vector<std::filesystem::path> inputs = {options.scores};
    if (!options.lengths.empty()) inputs.push_back(options.lengths);
    require_outputs(files.outputs(), {}, inputs);
    const ScoreMatrix matrix = read_score_matrix(options.scores, options.lengths);
    require_cells(options.scores, matrix.rows, options.k);

    Chosen chosen;
    const char* device = "nothing to do";
    std::unique_ptr<Machine> machine;
    if (matrix.rows > 0) {
        machine = open_machine(options.device);
        chosen = choose(*machine, options, matrix);
        device = machine->info().name;
    }
    nlohmann::ordered_json summary;
    summary["rows"] = matrix.rows;
    summary["longest"] = matrix.keys;
    describe(options, summary);
    summary["score_type"] = matrix.bf16 ? "bf16" : "fp32";
    summary["device"] = device;
    files.write(matrix.rows, options.k, chosen, summary);
    if (matrix.rows == 0) std::printf("%s: 0 rows, nothing to do\n", options.out.c_str());
    else
        std::printf("%s: %d of %s for each of %s on %s\n", options.out.c_str(),
                    static_cast<int>(std::min<int64_t>(options.k, matrix.keys)),
                    counted(matrix.keys, "key").c_str(), counted(matrix.rows, "row").c_str(), device);
    return kDone;
}

}  // namespace lidx::command

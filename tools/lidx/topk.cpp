// SPDX-License-Identifier: Apache-2.0
// lidx topk: each row's k largest scores through the public API, on a GPU or on the emulator.
#include <lidx.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "case_io.h"
#include "commands.h"
#include "failure.h"
#include "kernel/schedule.h"
#include "machine.h"
#include "npy.h"

namespace lidx::command {

namespace {

// NumPy has no bf16: two-byte integers hold its bits.
int32_t score_type_of(const RawNpy& scores, const std::filesystem::path& path) {
    if (scores.descr == "<f4") return LIDX_FP32;
    if (scores.descr == "<u2") return LIDX_BF16;
    bad_input(path.string() + ": descr '" + scores.descr + "': must be '<f4' (fp32) or '<u2' (the bits of bf16)");
}

struct Chosen {
    std::vector<int32_t> indices;   // [rows, k]
    std::vector<float> scores;      // [rows, k]
    std::vector<int32_t> counts;    // [rows]
};

Chosen choose(const Machine& machine, const TopkOptions& options, const RawNpy& scores, int32_t score_type,
              const std::vector<int32_t>& lengths) {
    const int64_t rows = scores.shape[0], keys = scores.shape[1];
    const auto cells = static_cast<size_t>(rows * options.k);
    const DeviceBuffer d_scores(machine, scores.data), d_lengths(machine, lengths);
    const DeviceBuffer d_indices(machine, cells * sizeof(int32_t)), d_top_scores(machine, cells * sizeof(float));
    const DeviceBuffer d_counts(machine, lengths.size() * sizeof(int32_t));

    lidx_topk_desc desc;
    lidx_topk_desc_init(&desc);
    desc.row_map = LIDX_ROWS_FIXED;   // all rows are one request's
    desc.batch = 1;
    desc.max_rows = desc.max_tokens = static_cast<int32_t>(rows);
    desc.visibility = LIDX_SEE_ROW_LENGTH;
    desc.max_keys = desc.score_stride = keys;
    desc.score_type = score_type;
    desc.k = options.k;
    desc.forced_first = options.forced_first;
    desc.forced_last = options.forced_last;
    desc.sort = options.sorted == "score" ? LIDX_SORT_SCORE : LIDX_SORT_POSITION;
    size_t workspace_bytes = 0;
    machine.check(lidx_topk_workspace_bytes(machine.context(), &desc, &workspace_bytes));
    DeviceBuffer workspace(machine, workspace_bytes);
    if (workspace_bytes > 0) workspace.fill32(0, static_cast<size_t>(rows));

    lidx_topk_args args;
    lidx_topk_args_init(&args);
    args.scores = d_scores.as();
    args.context_lens = d_lengths.as();
    args.indices = d_indices.as<int32_t>();
    args.top_scores = options.scores_out.empty() ? nullptr : d_top_scores.as<float>();
    args.counts = d_counts.as<int32_t>();
    args.workspace = workspace_bytes > 0 ? workspace.as() : nullptr;
    args.workspace_bytes = workspace_bytes;
    machine.check(lidx_topk_enqueue(machine.context(), &desc, &args, nullptr));
    machine.check(machine.driver().cuCtxSynchronize(), "cuCtxSynchronize");

    Chosen chosen{std::vector<int32_t>(cells), {}, std::vector<int32_t>(lengths.size())};
    d_indices.download(chosen.indices.data(), cells * sizeof(int32_t));
    d_counts.download(chosen.counts.data(), chosen.counts.size() * sizeof(int32_t));
    if (!options.scores_out.empty()) {
        chosen.scores.resize(cells);
        d_top_scores.download(chosen.scores.data(), cells * sizeof(float));
    }
    return chosen;
}

}  // namespace

int run_topk(const TopkOptions& options) {
    std::vector<Output> outputs = {{"--out", options.out}};
    std::vector<std::filesystem::path> inputs = {options.scores};
    if (!options.scores_out.empty()) outputs.push_back({"--scores-out", options.scores_out});
    if (!options.counts_out.empty()) outputs.push_back({"--counts-out", options.counts_out});
    if (!options.lengths.empty()) inputs.push_back(options.lengths);
    require_apart(outputs, {}, inputs);
    const RawNpy scores = read_raw_npy(options.scores);
    const int32_t score_type = score_type_of(scores, options.scores);
    if (scores.shape.size() != 2)
        bad_input(options.scores.string() + ": shape: " + shape_text(scores.shape) + ", expected (rows, keys)");
    const int64_t rows = scores.shape[0], keys = scores.shape[1];
    if (rows > std::numeric_limits<int32_t>::max() / options.k || keys > kMaxKeys)
        bad_input(options.scores.string() + ": shape " + shape_text(scores.shape) + ": at most "
                  + std::to_string(std::numeric_limits<int32_t>::max() / options.k) + " rows with --k "
                  + std::to_string(options.k) + ", and " + std::to_string(kMaxKeys) + " keys");
    std::vector<int32_t> lengths(static_cast<size_t>(rows), static_cast<int32_t>(keys));
    if (!options.lengths.empty()) lengths = read_npy<int32_t>(options.lengths, {rows}).data;
    for (int64_t row = 0; row < rows; ++row) {
        const int32_t length = lengths[static_cast<size_t>(row)];
        if (length < 0 || length > keys)
            bad_input(options.lengths.string() + ": [" + std::to_string(row) + "] = " + std::to_string(length)
                      + ": must be 0 .. " + std::to_string(keys) + ", the columns of " + options.scores.string());
    }

    Chosen chosen;
    const char* device = "nothing to do";
    std::unique_ptr<Machine> machine;
    if (rows > 0) {
        ::setenv("PTXEMU_PROGRESS", "1", 0);
        machine = open_machine(options.device);
        chosen = choose(*machine, options, scores, score_type, lengths);
        device = machine->info().name;
    }
    write_npy<int32_t>(options.out, {rows, options.k}, chosen.indices);
    if (!options.scores_out.empty()) write_npy<float>(options.scores_out, {rows, options.k}, chosen.scores);
    if (!options.counts_out.empty()) write_npy<int32_t>(options.counts_out, {rows}, chosen.counts);
    std::printf("%s: %d of %" PRId64 " keys for each of %" PRId64 " rows, %s\n", options.out.c_str(), options.k, keys,
                rows, device);
    return kDone;
}

}  // namespace lidx::command

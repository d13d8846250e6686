// SPDX-License-Identifier: Apache-2.0
#include "chosen.h"

#include <limits>

#include "failure.h"
#include "json_file.h"
#include "npy.h"
#include "output_file.h"
#include "score_file.h"

namespace lidx::command {

ChosenBuffers::ChosenBuffers(const Machine& machine, int64_t rows, int32_t k)
    : rows_(static_cast<size_t>(rows)),
      cells_(static_cast<size_t>(rows * k)),
      indices_(machine, cells_ * sizeof(int32_t)),
      scores_(machine, cells_ * sizeof(float)),
      counts_(machine, rows_ * sizeof(int32_t)) {}

Chosen ChosenBuffers::download() const {
    Chosen chosen{std::vector<int32_t>(cells_), std::vector<float>(cells_), std::vector<int32_t>(rows_)};
    indices_.download(chosen.indices.data(), cells_ * sizeof(int32_t));
    scores_.download(chosen.scores.data(), cells_ * sizeof(float));
    counts_.download(chosen.counts.data(), rows_ * sizeof(int32_t));
    return chosen;
}

std::filesystem::path ChosenFiles::json_path() const { return json.empty() ? sidecar_path(out) : json; }

std::vector<Output> ChosenFiles::outputs() const {
    std::vector<Output> outputs = {{"--out", out}, {json.empty() ? "--out's .json" : "--json", json_path()}};
    if (!scores_out.empty()) outputs.push_back({"--scores-out", scores_out});
    if (!counts_out.empty()) outputs.push_back({"--counts-out", counts_out});
    return outputs;
}

void ChosenFiles::write(int64_t rows, int32_t k, const Chosen& chosen, const nlohmann::ordered_json& summary) const {
    write_with_sidecar<int32_t>(out, {rows, k}, chosen.indices, json_path(), summary);
    if (!scores_out.empty()) write_npy<float>(scores_out, {rows, k}, chosen.scores);
    if (!counts_out.empty()) write_npy<int32_t>(counts_out, {rows}, chosen.counts);
}

void require_cells(const std::filesystem::path& file, int64_t rows, int32_t k) {
    const int64_t most = std::numeric_limits<int32_t>::max() / k;
    if (rows > most)
        bad_input(file.string() + ": " + std::to_string(rows) + " rows with --k " + std::to_string(k) + ": at most " +
                  std::to_string(most));
}

namespace {

// The first key of each row's request where the keys of all requests lie one behind the other, as lidx_gather_enqueue()
// leaves them.
std::vector<int32_t> gathered_offsets(const Case& c) {
    std::vector<int32_t> offsets;
    int64_t first = 0;
    for (int32_t request = 0; request < c.batch; ++request) {
        if (first > std::numeric_limits<int32_t>::max())
            bad_input("--output ragged: the keys of request " + std::to_string(request) + " begin at "
                      + std::to_string(first) + ", which is more than 32 bits hold");
        const size_t rows = static_cast<size_t>(c.cu_seqlens_q[static_cast<size_t>(request) + 1]
                                                - c.cu_seqlens_q[static_cast<size_t>(request)]);
        offsets.insert(offsets.end(), rows, static_cast<int32_t>(first));
        first += c.length(request);
    }
    return offsets;
}

}  // namespace

std::vector<int32_t> offsets_of(const Case& c, const std::string& output, const std::filesystem::path& offsets) {
    if (output == "physical" && c.contiguous())
        bad_input("--output physical: the case is contiguous, it has no block table");
    if (!offsets.empty() && output != "ragged")
        bad_input("--offsets: only --output ragged adds them, not " + output);
    if (!offsets.empty()) return read_npy<int32_t>(offsets, {c.rows}).data;
    return output == "ragged" ? gathered_offsets(c) : std::vector<int32_t>{};
}

void describe(const ChoiceOptions& choice, nlohmann::ordered_json& json) {
    json["k"] = choice.k;
    json["sorted"] = choice.sorted;
    json["first"] = choice.forced_first;
    json["last"] = choice.forced_last;
}

}  // namespace lidx::command

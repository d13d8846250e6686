// SPDX-License-Identifier: Apache-2.0
// The keys that lidx topk and lidx index choose: in device memory, and in files.
#pragma once
#include <lidx.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "case_io.h"
#include "commands.h"
#include "machine.h"

namespace lidx::command {

struct Chosen {
    std::vector<int32_t> indices;   // [rows, k]
    std::vector<float> scores;      // [rows, k]
    std::vector<int32_t> counts;    // [rows]
};

class ChosenBuffers {
  public:
    ChosenBuffers(const Machine& machine, int64_t rows, int32_t k);

    // lidx_topk_args or lidx_index_args: the outputs.
    template <class Args>
    void set(Args& args) const {
        args.indices = indices_.as<int32_t>();
        args.top_scores = scores_.as<float>();
        args.counts = counts_.as<int32_t>();
    }
    Chosen download() const;

  private:
    size_t rows_, cells_;
    DeviceBuffer indices_, scores_, counts_;
};

// The files of a selection; json: what lidx verify must know of it and whatever else ran. An empty path: not written,
// but json: OUT.json.
struct ChosenFiles {
    std::filesystem::path out, scores_out, counts_out, json;

    std::vector<Output> outputs() const;
    void write(int64_t rows, int32_t k, const Chosen& chosen, const nlohmann::ordered_json& summary) const;

  private:
    std::filesystem::path json_path() const;
};

// Throws Failure(kBadInput) where so many rows of k have more cells than 2^31 - 1. file: what has them.
void require_cells(const std::filesystem::path& file, int64_t rows, int32_t k);

// What output "ragged" adds to the positions of each row, [rows]: a file's, or where the request's keys begin if those
// of all requests lie one behind the other, as lidx_gather_enqueue() leaves them. Empty for other outputs. Throws
// Failure(kBadInput) where output or offsets do not go with the case, or with each other.
std::vector<int32_t> offsets_of(const Case& c, const std::string& output, const std::filesystem::path& offsets);

// The fields of the summary that say how keys were chosen.
void describe(const ChoiceOptions& choice, nlohmann::ordered_json& json);

}  // namespace lidx::command

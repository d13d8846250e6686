// SPDX-License-Identifier: Apache-2.0
// The subcommands: their options and what they do. Each returns an exit code or throws Failure.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lidx::command {

struct GenOptions {
    std::filesystem::path out;
    int32_t batch = 1;
    int32_t tokens = 2;   // per request
    int32_t heads = 64;
    int32_t keys = 8192;   // per request
    int32_t page = 64;
    std::string layout = "block-split";
    uint64_t seed = 1;
    bool lattice = false;
    bool ragged = false;
    std::string rows = "cu-seqlens";
    bool causal = false;
    bool row_lengths = false;
    int32_t window = 0;   // keys; 0: no windows
    int32_t ratio = 1;    // tokens per key
};
int run_gen(const GenOptions& options);

struct ScoreOptions {
    std::filesystem::path in;
    std::filesystem::path out;
    std::string device = "auto";
    std::filesystem::path stats;
    std::string kernel;   // empty: the best one
    bool fast = false;    // LIDX_FLAG_FAST
};
int run_score(const ScoreOptions& options);

// How keys are chosen from scores: lidx topk and lidx index.
struct ChoiceOptions {
    int32_t k = 2048;
    std::string sorted = "position";
    int32_t forced_first = 0, forced_last = 0;   // keys
};

struct VerifyOptions {
    std::filesystem::path in, scores, indices;   // empty: not given
    std::filesystem::path lengths;               // of rows; empty: they are as long as the file's
    bool exact = false;
    std::string arithmetic;   // empty: as the sidecar says
    // How the indices came about; what is not given is as their sidecar says, else as lidx topk and index have it.
    std::optional<std::string> output, sorted, score_type;
    std::optional<int32_t> forced_first, forced_last;
    std::filesystem::path offsets;
};
int run_verify(const VerifyOptions& options);

struct TopkOptions : ChoiceOptions {
    std::filesystem::path scores;
    std::filesystem::path out;
    std::filesystem::path lengths;   // empty: rows are as long as the file's
    std::filesystem::path scores_out, counts_out;
    std::string device = "auto";
    std::filesystem::path json;   // empty: OUT.json
};
int run_topk(const TopkOptions& options);

struct IndexOptions : ChoiceOptions {
    std::filesystem::path in;
    std::filesystem::path out;
    std::string output = "local";
    std::filesystem::path offsets;   // empty: with "ragged" those of the gathered keys
    std::string score_type = "fp32";
    std::filesystem::path scores_out, counts_out;
    uint64_t budget_bytes = 0;   // 0: all rows in one window
    std::string device = "auto";
    std::filesystem::path json;   // empty: OUT.json
    std::filesystem::path stats;
    std::string kernel;   // empty: the best one
    bool fast = false;    // LIDX_FLAG_FAST
};
int run_index(const IndexOptions& options);

struct InfoOptions {
    bool json = false;
};
int run_info(const InfoOptions& options);

struct HeatmapOptions {
    std::filesystem::path in;
    std::filesystem::path scores;
    std::filesystem::path out;
};
int run_heatmap(const HeatmapOptions& options);

struct QuantizeOptions {
    std::filesystem::path in;
    std::filesystem::path codes;
    std::filesystem::path scales;
    bool rotate = false;
    bool pow2 = false;
    std::string device = "auto";
};
int run_quantize(const QuantizeOptions& options);

struct BenchOptions {
    bool list = false;
    std::filesystem::path from;           // results of an earlier run, instead of one; empty: none
    std::string device = "cuda";
    std::vector<std::string> workloads;   // these and those of the filter; both empty: all but those for tests
    std::string filter;                   // a regular expression
    std::vector<std::string> kernels;     // candidates; empty: the best kernel of each workload
    std::vector<std::string> rivals;      // shared libraries
    std::string cublaslt;                 // empty: as the loader finds it
    int32_t runs = 15;
    std::string flush = "write";          // or "read": what fills L2 before a sample
    bool fast = false;   // the fast mode beside the exact one
    bool warm = false;
    bool graph = false;
    std::filesystem::path json, csv, plot;   // empty: not written
};
int run_bench(const BenchOptions& options);

}  // namespace lidx::command

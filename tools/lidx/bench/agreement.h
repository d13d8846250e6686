// SPDX-License-Identifier: Apache-2.0
// Whether candidates computed the same: lidx's first candidate is compared with every other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/candidates.h"

namespace lidx::command {

// Score: the largest difference from lidx over the root mean square of lidx's scores in that row. Choice: how far a
// chosen score lies below the k-th best, over the same; with scores that are given it must be 0.
struct Agreement {
    bool agrees = false;
    double difference = 0;
    std::string problem;   // "row 3, key 17: NaN"; "": only the difference counts
};
// Additions in another order give about 1e-6, one rounding to bf16 4e-3, fp16 sums 1e-2; another formula about 1.
constexpr double kLargestDifference = 0.03;

// Rows that are looked at: all, or as many as make some millions of cells, spread evenly.
class Judge {
  public:
    Judge(const Machine& machine, const Workload& workload, const Extent& extent, const Inputs& inputs);

    // Runs a candidate once on the inputs (copy 0), outputs poisoned before; keeps what it gave as the truth. Scores of
    // a score + top-k come from the scorer alone.
    void take_truth(const Candidate& candidate, CUstream stream);
    // Nothing where there is no truth to compare with.
    std::optional<Agreement> compare(const Candidate& candidate, CUstream stream) const;
    int64_t rows() const { return static_cast<int64_t>(rows_.size()); }

  private:
    void run(const Candidate& candidate, CUstream stream) const;
    std::vector<float> scores_of(int64_t row) const;
    std::vector<int32_t> indices_of(int64_t row) const;
    Agreement compare_scores(int64_t row, const std::vector<float>& truth) const;
    Agreement compare_choice(int64_t row, const std::vector<float>& truth) const;

    const Machine& machine_;
    const Workload& workload_;
    const Extent& extent_;
    const Inputs& inputs_;
    std::vector<int64_t> rows_;
    std::vector<std::vector<float>> truth_;   // [rows_], the scores that a row sees
};

}  // namespace lidx::command

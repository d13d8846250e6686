// SPDX-License-Identifier: Apache-2.0
#include "bench/agreement.h"

#include <algorithm>
#include <cmath>

#include "failure.h"

namespace lidx::command {

namespace {

constexpr int64_t kCellsCompared = int64_t{8} << 20;
// A NaN and an index that no selection gives.
constexpr uint32_t kPoison = 0xffc0dead;

double root_mean_square(const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += double{value} * value;
    return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

double ratio(double difference, double scale) { return difference == 0 ? 0 : difference / scale; }

}  // namespace

Judge::Judge(const Machine& machine, const Workload& workload, const Extent& extent, const Inputs& inputs)
    : machine_(machine), workload_(workload), extent_(extent), inputs_(inputs) {
    const int64_t rows = workload.rows();
    const int64_t looked_at = std::clamp<int64_t>(kCellsCompared / std::max<int64_t>(extent.max_keys, 1), 2, rows);
    for (int64_t i = 0; i < std::min(looked_at, rows); ++i)
        rows_.push_back(rows <= looked_at ? i : i * (rows - 1) / (looked_at - 1));
    if (!workload.scores_keys())   // the scores are given
        for (const int64_t row : rows_) truth_.push_back(scores_of(row));
}

void Judge::take_truth(const Candidate& candidate, CUstream stream) {
    if (candidate.gives_indices) return;
    run(candidate, stream);
    truth_.clear();
    for (const int64_t row : rows_) truth_.push_back(scores_of(row));
}

std::optional<Agreement> Judge::compare(const Candidate& candidate, CUstream stream) const {
    if (truth_.empty()) return std::nullopt;
    run(candidate, stream);
    Agreement worst{true, 0, ""};
    for (size_t i = 0; i < rows_.size() && worst.problem.empty(); ++i) {
        const Agreement row = candidate.gives_indices ? compare_choice(rows_[i], truth_[i])
                                                      : compare_scores(rows_[i], truth_[i]);
        worst.problem = row.problem;
        worst.difference = std::max(worst.difference, row.difference);
    }
    const double limit = workload_.scores_keys() ? kLargestDifference : 0;
    worst.agrees = worst.problem.empty() && worst.difference <= limit;
    return worst;
}

void Judge::run(const Candidate& candidate, CUstream stream) const {
    const auto poison = [&](const Inputs::Buffer& buffer, int64_t words) {
        machine_.check(machine_.driver().cuMemsetD32(reinterpret_cast<CUdeviceptr>(buffer->as()), kPoison,
                                                     static_cast<size_t>(words)),
                       "cuMemsetD32");
    };
    if (workload_.scores_keys()) poison(inputs_.scores, workload_.rows() * inputs_.score_stride);
    if (candidate.gives_indices) poison(inputs_.indices, workload_.rows() * kBenchTopK);
    candidate.run(0, stream);
    machine_.check(machine_.driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
}

std::vector<float> Judge::scores_of(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    std::vector<float> scores(static_cast<size_t>(extent_.row_end[r] - extent_.row_begin[r]));
    inputs_.scores->download(scores.data(), scores.size() * sizeof(float),
                             static_cast<size_t>(row * inputs_.score_stride + extent_.row_begin[r]) * sizeof(float));
    return scores;
}

std::vector<int32_t> Judge::indices_of(int64_t row) const {
    std::vector<int32_t> indices(kBenchTopK);
    inputs_.indices->download(indices.data(), indices.size() * sizeof(int32_t),
                              static_cast<size_t>(row) * kBenchTopK * sizeof(int32_t));
    return indices;
}

Agreement Judge::compare_scores(int64_t row, const std::vector<float>& truth) const {
    const std::vector<float> scores = scores_of(row);
    double largest = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
        if (std::isnan(scores[i]) && !std::isnan(truth[i]))
            return {false, 0, "row " + std::to_string(row) + ", key " + std::to_string(extent_.row_begin[row] + i) +
                                  ": NaN, or not written"};
        largest = std::max(largest, std::abs(double{scores[i]} - truth[i]));
    }
    return {true, ratio(largest, root_mean_square(truth)), ""};
}

// A choice among equal scores is as good as another.
Agreement Judge::compare_choice(int64_t row, const std::vector<float>& truth) const {
    const std::string where = "row " + std::to_string(row) + ": ";
    const auto wanted = std::min<size_t>(kBenchTopK, truth.size());
    std::vector<int32_t> indices = indices_of(row);
    std::sort(indices.begin(), indices.end());
    indices.erase(indices.begin(), std::upper_bound(indices.begin(), indices.end(), -1));
    if (indices.size() != wanted)
        return {false, 0, where + std::to_string(indices.size()) + " indices, not " + std::to_string(wanted)};
    const int32_t begin = extent_.row_begin[static_cast<size_t>(row)];
    const int32_t end = extent_.row_end[static_cast<size_t>(row)];
    for (size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] < begin || indices[i] >= end)
            return {false, 0, where + "index " + std::to_string(indices[i]) + " is no key that it sees"};
        if (i > 0 && indices[i] == indices[i - 1])
            return {false, 0, where + "index " + std::to_string(indices[i]) + " twice"};
    }
    if (wanted == truth.size()) return {true, 0, ""};
    std::vector<float> best = truth;
    const auto kth = best.begin() + static_cast<ptrdiff_t>(wanted) - 1;
    std::nth_element(best.begin(), kth, best.end(), std::greater<>());
    double shortfall = 0;
    for (const int32_t index : indices)
        shortfall = std::max(shortfall, double{*kth} - truth[static_cast<size_t>(index - begin)]);
    return {true, ratio(shortfall, root_mean_square(truth)), ""};
}

}  // namespace lidx::command

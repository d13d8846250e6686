// SPDX-License-Identifier: Apache-2.0
// What lidx bench times: the named workloads, who sees what in each, and what each moves and computes at the least.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lidx::command {

constexpr int32_t kBenchDepth = 128;
constexpr int32_t kBenchTopK = 2048;

enum class Work {
    kScore,
    kTopk,    // from scores that are given; keys: columns
    kMerge,   // lists of `shards` shards
    kIndex    // score and select in one call
};

enum class Sight {
    kAll,           // every row sees its request's keys
    kCausal,        // the last row sees all keys, each one before it one less
    kPacked,        // one buffer of keys holds kPackedRequests requests; a row sees, causally, those of its own
    kZigzag,        // context parallel by rows: two pieces of the rows of a sequence, an early and a late one
    kInterleaved,   // context parallel by keys: every eighth key of a sequence, of whose end the rows are
    kRearShard      // context parallel by keys: the rear half of a sequence that all rows are of
};

struct Workload {
    std::string name;
    Work work = Work::kScore;
    int32_t batch = 1, tokens = 1;   // requests, and rows of each
    int64_t keys = 0;                // of a request; spread: on average; kMerge: entries of a list
    int32_t page = 0;                // keys per page; 0: contiguous
    int32_t heads = 64;              // 0: nothing is scored
    Sight sight = Sight::kAll;
    int32_t spread_percent = 0;   // lengths are uniform between keys * (1 - spread) and keys * (1 + spread)
    int32_t shards = 0;
    uint64_t workspace_budget_bytes = 0;   // kIndex; 0: no limit

    int64_t rows() const { return int64_t{batch} * tokens; }
    bool scores_keys() const { return work == Work::kScore || work == Work::kIndex; }
    bool chooses() const { return work != Work::kScore; }
    bool has_windows() const { return sight != Sight::kAll && sight != Sight::kCausal; }
};

// Who sees what: row r the keys row_begin[r] .. row_end[r] - 1 of its request; kMerge: the entries of all its lists.
struct Extent {
    std::vector<int32_t> lengths;              // [batch]
    std::vector<int32_t> row_begin, row_end;   // [rows]
    int64_t max_keys = 0;                      // the longest request
    int64_t keys = 0;                          // over all requests
    int64_t cells = 0;                         // pairs of a row and a key that it sees
};
Extent extent_of(const Workload& workload);

double flops_of(const Workload& workload, const Extent& extent);   // 2 * cells * heads * depth
// Every key's codes and scale, every score or list that is given, and every result once. Queries, weights and tables
// are not counted, nor are scores that stay inside a call.
double bytes_of(const Workload& workload, const Extent& extent);

// In the table's order. names: exactly these; pattern: those that a regular expression (ECMAScript) is found in;
// neither: all but those for tests, which are called smoke... Throws Failure(kBadInput), naming what does not exist.
std::vector<Workload> choose_workloads(const std::vector<std::string>& names, const std::string& pattern);
std::string describe(const Workload& workload);
// "prefill" of "prefill-2kx8k-h64"
std::string family_of(const Workload& workload);

}  // namespace lidx::command

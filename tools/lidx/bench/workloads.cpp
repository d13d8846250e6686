// SPDX-License-Identifier: Apache-2.0
#include "bench/workloads.h"

#include <algorithm>
#include <regex>

#include "failure.h"
#include "test/ref/portable_rng.h"

namespace lidx::command {

namespace {

constexpr int32_t kPackedRequests = 4;
constexpr int32_t kInterleavedRanks = 8, kInterleavedRank = 3;
constexpr int64_t kK = 1024, kM = 1024 * 1024;
constexpr uint64_t kIndexBudgetBytes = uint64_t{512} << 20;

Workload prefill(const char* name, int32_t tokens, int64_t keys, int32_t heads, Sight sight, int32_t page = 0) {
    return {.name = name, .tokens = tokens, .keys = keys, .page = page, .heads = heads, .sight = sight};
}
Workload chunks(const char* name, int32_t batch, int32_t tokens, int64_t keys, int32_t spread_percent) {
    return {.name = name, .batch = batch, .tokens = tokens, .keys = keys, .page = 64, .sight = Sight::kCausal,
            .spread_percent = spread_percent};
}
Workload decode(const char* name, int32_t batch, int64_t keys, int32_t tokens = 1, int32_t heads = 64,
                int32_t page = 64, int32_t spread_percent = 0) {
    return {.name = name, .batch = batch, .tokens = tokens, .keys = keys, .page = page, .heads = heads,
            .spread_percent = spread_percent};
}
Workload topk(const char* name, int32_t rows, int64_t columns) {
    return {.name = name, .work = Work::kTopk, .batch = rows, .keys = columns, .heads = 0};
}
Workload merge(const char* name, int32_t rows, int32_t shards, int64_t entries = kBenchTopK) {
    return {.name = name, .work = Work::kMerge, .batch = rows, .keys = entries, .heads = 0, .shards = shards};
}
Workload index(Workload scored, uint64_t budget_bytes = 0) {
    scored.work = Work::kIndex;
    scored.workspace_budget_bytes = budget_bytes;
    return scored;
}

// Rows x keys; requests x keys. k is 1024; next2: two rows a request; causal2: two, the second sees a key more than the
// first; h64: 64 heads, where nothing says another number.
const std::vector<Workload>& all_workloads() {
    static const std::vector<Workload> table = {
        decode("smoke", 2, 256, 2),
        prefill("smoke-prefill", 3, 300, 32, Sight::kZigzag),
        prefill("smoke-fast", 12, 200, 64, Sight::kCausal),
        decode("smoke-ragged", 3, 200, 1, 64, 16, 50),
        topk("smoke-topk", 3, 3000),
        merge("smoke-merge", 2, 3, 1000),
        index(decode("smoke-index", 2, 2300)),
        index(prefill("smoke-index-prefill", 12, 2304, 64, Sight::kCausal, 64), 40000),

        prefill("prefill-512x4k-h64", 512, 4 * kK, 64, Sight::kAll),
        prefill("prefill-2kx8k-h64", 2048, 8 * kK, 64, Sight::kAll),
        prefill("prefill-2kx64k-h64", 2048, 64 * kK, 64, Sight::kAll),
        prefill("prefill-4kx128k-h64", 4096, 128 * kK, 64, Sight::kAll),
        prefill("prefill-2kx8k-h32", 2048, 8 * kK, 32, Sight::kAll),
        prefill("prefill-4kx128k-h32", 4096, 128 * kK, 32, Sight::kAll),
        prefill("causal-512x4k-h64", 512, 4 * kK, 64, Sight::kCausal),
        prefill("causal-2kx8k-h64", 2048, 8 * kK, 64, Sight::kCausal),
        prefill("causal-2kx64k-h64", 2048, 64 * kK, 64, Sight::kCausal),
        prefill("causal-8kx8k-h64", 8192, 8 * kK, 64, Sight::kCausal),
        prefill("causal-8kx64k-h64", 8192, 64 * kK, 64, Sight::kCausal),
        prefill("causal-2kx8k-h32", 2048, 8 * kK, 32, Sight::kCausal),
        prefill("causal-8kx64k-h32", 8192, 64 * kK, 32, Sight::kCausal),
        prefill("causal-2kx64k-page16", 2048, 64 * kK, 64, Sight::kCausal, 16),
        prefill("causal-2kx64k-page64", 2048, 64 * kK, 64, Sight::kCausal, 64),
        prefill("causal-2kx64k-page256", 2048, 64 * kK, 64, Sight::kCausal, 256),
        prefill("packed-4kx32k-h64", 4096, 32 * kK, 64, Sight::kPacked),
        chunks("chunked-4x512x32k", 4, 512, 32 * kK, 50),
        chunks("chunked-16x128x16k", 16, 128, 16 * kK, 90),
        prefill("shard-zigzag-2kx64k", 2048, 64 * kK, 64, Sight::kZigzag),
        prefill("shard-interleaved-8kx8k", 8192, 8 * kK, 64, Sight::kInterleaved),
        prefill("shard-rear-8kx4k", 8192, 4 * kK, 64, Sight::kRearShard),

        decode("decode-1x8k", 1, 8 * kK),
        decode("decode-1x128k", 1, 128 * kK),
        decode("decode-4x32k", 4, 32 * kK),
        decode("decode-16x32k", 16, 32 * kK),
        decode("decode-32x8k", 32, 8 * kK),
        decode("decode-64x32k", 64, 32 * kK),
        decode("decode-64x128k", 64, 128 * kK),
        decode("decode-256x64k", 256, 64 * kK),
        decode("decode-64x32k-spread0", 64, 32 * kK, 1, 64, 64, 0),
        decode("decode-64x32k-spread50", 64, 32 * kK, 1, 64, 64, 50),
        decode("decode-64x32k-spread90", 64, 32 * kK, 1, 64, 64, 90),
        decode("decode-64x32k-page16", 64, 32 * kK, 1, 64, 16),
        decode("decode-64x32k-page32", 64, 32 * kK, 1, 64, 32),
        decode("decode-64x32k-page128", 64, 32 * kK, 1, 64, 128),
        decode("decode-64x32k-page256", 64, 32 * kK, 1, 64, 256),
        decode("decode-16x32k-next2", 16, 32 * kK, 2),
        decode("decode-64x128k-next2", 64, 128 * kK, 2),
        decode("decode-256x64k-next2", 256, 64 * kK, 2),
        decode("decode-64x32k-next3", 64, 32 * kK, 3),
        decode("decode-64x32k-next4", 64, 32 * kK, 4),
        decode("decode-64x32k-next5", 64, 32 * kK, 5),
        decode("decode-64x32k-next6", 64, 32 * kK, 6),
        chunks("decode-1x8k-causal1", 1, 1, 8 * kK, 0),
        chunks("decode-16x32k-causal1", 16, 1, 32 * kK, 0),
        chunks("decode-16x32k-causal2", 16, 2, 32 * kK, 0),
        chunks("decode-64x32k-causal4", 64, 4, 32 * kK, 0),
        chunks("decode-64x32k-causal5", 64, 5, 32 * kK, 0),
        decode("decode-64x128k-next4-h32", 64, 128 * kK, 4, 32),
        decode("decode-64x32k-next12-h32", 64, 32 * kK, 12, 32),

        topk("topk-1x8k", 1, 8 * kK),
        topk("topk-1x64k", 1, 64 * kK),
        topk("topk-1x128k", 1, 128 * kK),
        topk("topk-8x128k", 8, 128 * kK),
        topk("topk-64x32k", 64, 32 * kK),
        topk("topk-64x128k", 64, 128 * kK),
        topk("topk-64x1m", 64, kM),
        topk("topk-256x8k", 256, 8 * kK),
        topk("topk-256x64k", 256, 64 * kK),
        topk("topk-4kx8k", 4096, 8 * kK),
        topk("topk-2kx64k", 2048, 64 * kK),
        merge("merge-64x8", 64, 8),
        merge("merge-4kx8", 4096, 8),

        index(decode("index-1x8k", 1, 8 * kK)),
        index(decode("index-1x128k", 1, 128 * kK)),
        index(decode("index-4x32k", 4, 32 * kK)),
        index(decode("index-16x32k", 16, 32 * kK)),
        index(decode("index-32x8k", 32, 8 * kK)),
        index(decode("index-64x32k", 64, 32 * kK)),
        index(decode("index-64x128k", 64, 128 * kK)),
        index(decode("index-256x64k", 256, 64 * kK)),
        index(decode("index-64x32k-next2", 64, 32 * kK, 2)),
        index(prefill("index-2kx8k-h64", 2048, 8 * kK, 64, Sight::kCausal), kIndexBudgetBytes),
        index(prefill("index-4kx128k-h64", 4096, 128 * kK, 64, Sight::kAll), kIndexBudgetBytes),
    };
    return table;
}

bool is_for_tests(const Workload& w) { return w.name.starts_with("smoke"); }

std::vector<int32_t> lengths_of(const Workload& w) {
    const int64_t keys = w.work == Work::kMerge ? w.shards * w.keys : w.keys;
    std::vector<int32_t> lengths(static_cast<size_t>(w.batch), static_cast<int32_t>(keys));
    const int64_t reach = w.keys * w.spread_percent / 100;
    ref::Rng rng(7);
    if (reach > 0)
        for (int32_t& length : lengths)
            length = static_cast<int32_t>(std::max<int64_t>(rng.between(w.keys - reach, w.keys + reach), w.tokens));
    return lengths;
}

// What row `row` sees, token j of a request of `length` keys.
struct Window {
    int64_t begin, end;
};
Window window_of(const Workload& w, int64_t length, int64_t j) {
    const int64_t n = w.tokens;
    switch (w.sight) {
        case Sight::kAll: return {0, length};
        case Sight::kCausal: return {0, length - n + j + 1};
        case Sight::kPacked: {
            const int64_t rows = n / kPackedRequests, keys = length / kPackedRequests, first = j / rows * keys;
            return {first, first + keys - rows + j % rows + 1};
        }
        case Sight::kZigzag: {
            const int64_t half = n / 2, early = length / 8;
            return {0, j < half ? early + j + 1 : length - early - (n - half) + (j - half) + 1};
        }
        case Sight::kInterleaved:
            return {0, (length * kInterleavedRanks - n + j - kInterleavedRank) / kInterleavedRanks + 1};
        case Sight::kRearShard: return {0, j + 1 - length};
    }
    throw Failure(kInternal, "a sight without a window");
}

const char* sight_text(Sight sight) {
    switch (sight) {
        case Sight::kAll: return "";
        case Sight::kCausal: return ", causal";
        case Sight::kPacked: return ", four causal requests in one buffer";
        case Sight::kZigzag: return ", causal, an early and a late piece of the rows";
        case Sight::kInterleaved: return ", causal, every eighth key of a sequence";
        case Sight::kRearShard: return ", causal, the rear half of a sequence";
    }
    return "";
}

}  // namespace

Extent extent_of(const Workload& w) {
    Extent extent;
    extent.lengths = lengths_of(w);
    for (const int32_t length : extent.lengths) {
        extent.max_keys = std::max<int64_t>(extent.max_keys, length);
        extent.keys += length;
        for (int64_t j = 0; j < w.tokens; ++j) {
            const Window window = window_of(w, length, j);
            extent.row_begin.push_back(static_cast<int32_t>(window.begin));
            extent.row_end.push_back(static_cast<int32_t>(std::clamp<int64_t>(window.end, window.begin, length)));
            extent.cells += extent.row_end.back() - extent.row_begin.back();
        }
    }
    return extent;
}

double flops_of(const Workload& w, const Extent& extent) {
    return w.scores_keys() ? 2.0 * static_cast<double>(extent.cells) * w.heads * kBenchDepth : 0;
}

double bytes_of(const Workload& w, const Extent& extent) {
    const double chosen = w.chooses() ? static_cast<double>(w.rows()) * kBenchTopK * 4 : 0;
    const double key_bytes = static_cast<double>(extent.keys) * (kBenchDepth + 4);
    const double score_bytes = static_cast<double>(extent.cells) * 4;
    switch (w.work) {
        case Work::kScore: return key_bytes + score_bytes;
        case Work::kIndex: return key_bytes + chosen;
        case Work::kTopk: return score_bytes + chosen;
        case Work::kMerge: return 2 * score_bytes + chosen;
    }
    throw Failure(kInternal, "a work without bytes");
}

std::vector<Workload> choose_workloads(const std::vector<std::string>& names, const std::string& pattern) {
    for (const std::string& name : names)
        if (std::none_of(all_workloads().begin(), all_workloads().end(),
                         [&](const Workload& w) { return name == w.name; }))
            bad_input("--workload: no such workload: " + name + " (lidx bench --list names them)");
    // Longer ones may nest deeper than the stack is, and only the polynomial search ends with every pattern; it has no
    // references back to a group.
    constexpr size_t kMaxPatternBytes = 256;
    if (pattern.size() > kMaxPatternBytes)
        bad_input("--filter: " + std::to_string(pattern.size()) + " bytes, expected at most "
                  + std::to_string(kMaxPatternBytes));
    std::regex expression;
    try {
        expression.assign(pattern, std::regex_constants::ECMAScript | std::regex_constants::__polynomial);
    } catch (const std::regex_error& error) {
        bad_input("--filter: not a regular expression: " + pattern + ": " + error.what());
    }
    std::vector<Workload> chosen;
    for (const Workload& w : all_workloads()) {
        const bool named = std::find(names.begin(), names.end(), w.name) != names.end();
        const bool found = pattern.empty() ? names.empty() && !is_for_tests(w) : std::regex_search(w.name, expression);
        if (named || found) chosen.push_back(w);
    }
    if (chosen.empty()) bad_input("--filter: no workload's name has " + pattern + " (lidx bench --list names them)");
    return chosen;
}

// "   1 request ": as wide as of several.
std::string column(int count, const char* one) {
    char text[32];
    std::snprintf(text, sizeof text, "%4d %s%s", count, one, count == 1 ? " " : "s");
    return text;
}

std::string describe(const Workload& w) {
    char line[160];
    if (w.work == Work::kMerge)
        std::snprintf(line, sizeof line, "%4lld rows, %d lists of %lld each, k %d", static_cast<long long>(w.rows()),
                      w.shards, static_cast<long long>(w.keys), kBenchTopK);
    else if (w.work == Work::kTopk)
        std::snprintf(line, sizeof line, "%s x %7lld scores, k %d", column(static_cast<int>(w.rows()), "row").c_str(),
                      static_cast<long long>(w.keys), kBenchTopK);
    else
        std::snprintf(line, sizeof line, "%s x %s x %6lld keys, %d heads, %s%s%s", column(w.batch, "request").c_str(),
                      column(w.tokens, "token").c_str(), static_cast<long long>(w.keys), w.heads,
                      w.page > 0 ? "pages of " : "contiguous",
                      w.page > 0 ? std::to_string(w.page).c_str() : "", sight_text(w.sight));
    std::string text = line;
    if (w.spread_percent > 0) text += ", lengths +- " + std::to_string(w.spread_percent) + " %";
    if (w.work == Work::kIndex) text += ", then the best " + std::to_string(kBenchTopK);
    if (w.workspace_budget_bytes > 0)
        text += ", workspace of at most " +
                (w.workspace_budget_bytes % kM == 0 ? std::to_string(w.workspace_budget_bytes / kM) + " MiB"
                                                    : std::to_string(w.workspace_budget_bytes) + " bytes");
    return text;
}

std::string family_of(const Workload& w) { return w.name.substr(0, w.name.find('-')); }

}  // namespace lidx::command

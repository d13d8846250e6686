// SPDX-License-Identifier: Apache-2.0
#include "verify_indices.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "case_oracle.h"
#include "chosen.h"
#include "counted.h"
#include "failure.h"
#include "json_file.h"
#include "npy.h"
#include "progress.h"
#include "score_file.h"
#include "test/ref/bf16.h"
#include "texts.h"

namespace lidx::command {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- how the indices came about

struct Selection {
    std::string output = "local", sorted = "position", score_type = "fp32";
    int64_t forced_first = 0, forced_last = 0;
};

// A field of the sidecar that is one of these names.
std::string named(const nlohmann::json& field, const std::string& where, const std::vector<std::string>& names) {
    for (const std::string& name : names)
        if (field == name) return name;
    bad_input(where + ": " + json_shown(field) + ", expected one of " + joined(names));
}

Selection read_selection(const VerifyOptions& options, int64_t k) {
    Selection s;
    const auto path = sidecar_path(options.indices);
    nlohmann::json json = nlohmann::json::object();
    if (std::filesystem::exists(path)) json = read_json(path);
    if (!json.is_object()) bad_input(path.string() + ": not an object");
    if (json.contains("k") && json["k"] != k)
        bad_input(options.indices.string() + ": shape: k = " + std::to_string(k) + ", expected the " +
                  json_shown(json["k"]) + " of " + path.string());
    const auto text = [&](const char* key, const std::optional<std::string>& option, std::string& value,
                          const std::vector<std::string>& names) {
        if (option) value = *option;   // which the command line has held against the same names
        else if (json.contains(key)) value = named(json[key], path.string() + ": " + key, names);
    };
    const auto number = [&](const char* key, const std::optional<int32_t>& option, int64_t& value) {
        if (option) value = *option;
        else if (json.contains(key)) {
            constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
            if (!json[key].is_number_integer() || json[key] < 0 || json[key] > kMost)
                bad_input(path.string() + ": " + key + ": " + json_shown(json[key]) +
                          ", expected a whole number from 0 to " + std::to_string(kMost));
            value = json[key].get<int64_t>();
        }
    };
    text("output", options.output, s.output, {"local", "relative", "physical", "ragged"});
    text("sorted", options.sorted, s.sorted, {"none", "position", "score"});
    text("score_type", options.score_type, s.score_type, {"fp32", "bf16"});
    number("first", options.forced_first, s.forced_first);
    number("last", options.forced_last, s.forced_last);
    return s;
}

// ---- one row

// What a score may be: rank() of the lowest and of the highest. One that is known has low = high.
struct Span {
    double low, high;
};

// Scores as the selection orders them: NaN below -inf, -0 equal to +0.
double rank(double score) {
    if (std::isnan(score)) return -kInfinity;
    return score == -kInfinity ? std::numeric_limits<double>::lowest() : score;
}

double rounded(double score, bool bf16) {
    const auto single = static_cast<float>(score);
    return bf16 ? ref::bf16_value(ref::bf16_round(single)) : single;
}

Span known(float score, bool bf16) {
    const double r = rank(rounded(score, bf16));
    return {r, r};
}

Span bounded(const ref::BoundedScore& score, bool bf16) {
    if (std::isinf(score.bound)) return {-kInfinity, kInfinity};
    if (!std::isfinite(score.value)) return known(static_cast<float>(score.value), bf16);
    return {rank(rounded(score.value - score.bound, bf16)), rank(rounded(score.value + score.bound, bf16))};
}

struct RowKeys {
    int64_t row, begin, end;   // the keys begin .. end - 1 are seen
    std::vector<Span> spans;   // [end - begin]
    const Span& span(int64_t key) const { return spans[static_cast<size_t>(key - begin)]; }
};

// The keys that an entry may name, not all of which the row sees.
using KeysOf = std::function<std::vector<int64_t>(int32_t)>;

class RowCheck {
  public:
    // exact: spans are known scores, so that ties are decided by position.
    RowCheck(const Selection& selection, bool exact, const RowKeys& keys, int64_t k)
        : selection_(selection),
          exact_(exact),
          keys_(keys),
          count_(std::min(k, keys.end - keys.begin)),
          first_end_(std::min(keys.begin + selection.forced_first, keys.end)),
          last_begin_(std::max(keys.end - selection.forced_last, first_end_)),
          chosen_(static_cast<size_t>(keys.end - keys.begin)) {}

    // What is wrong with the row's entries, [k]; empty if nothing is.
    std::string problem(std::span<const int32_t> entries, const KeysOf& keys_of) {
        const std::vector<int64_t> order = named(entries.first(static_cast<size_t>(count_)), keys_of);   // count_ <= k
        for (size_t i = 0; i < entries.size(); ++i) {
            const std::string here = "entry " + std::to_string(i) + " is " + std::to_string(entries[i]);
            if (i >= order.size()) {
                if (entries[i] != -1)
                    return here + ", expected -1: the row sees " + counted(keys_.end - keys_.begin, "key");
                continue;
            }
            const int64_t key = order[i];
            if (key < 0 && seen(entries[i], keys_of).empty())
                return here + ", which names no key that the row sees (" + std::to_string(keys_.begin) + " .. " +
                       std::to_string(keys_.end - 1) + ")";
            if (key < 0) return here + ", more often than the row sees keys of that name";
            if (chosen_[at(key)]) return here + ", key " + std::to_string(key) + " a second time";
            chosen_[at(key)] = true;
        }
        std::string wrong = wrong_set();
        if (wrong.empty()) wrong = wrong_order(order);
        return wrong;
    }

  private:
    size_t at(int64_t key) const { return static_cast<size_t>(key - keys_.begin); }
    bool forced(int64_t key) const { return key < first_end_ || key >= last_begin_; }
    // Key a comes before key b in the order of preference if they have these ranks.
    bool better(int64_t a, int64_t b, double rank_a, double rank_b) const {
        if (forced(a) != forced(b)) return forced(a);
        return !forced(a) && rank_a != rank_b ? rank_a > rank_b : a < b;
    }
    // The keys of a name that the row sees.
    std::vector<int64_t> seen(int32_t name, const KeysOf& keys_of) const {
        std::vector<int64_t> of_name = keys_of(name);
        std::erase_if(of_name, [&](int64_t key) { return key < keys_.begin || key >= keys_.end; });
        return of_name;
    }
    // The keys that entries name, -1: none. Where a block table has a page twice, a name is that of several keys of one
    // score: as often as it stands, for the best of them, and in the order that is asked for.
    std::vector<int64_t> named(std::span<const int32_t> entries, const KeysOf& keys_of) const {
        std::vector<int64_t> keys(entries.size(), -1);
        std::map<int32_t, std::vector<size_t>> places;   // of names that several keys have
        for (size_t i = 0; i < entries.size(); ++i) {
            const std::vector<int64_t> of_name = seen(entries[i], keys_of);
            if (of_name.size() == 1) keys[i] = of_name[0];
            else if (of_name.size() > 1) places[entries[i]].push_back(i);
        }
        for (const auto& [name, at_entries] : places) {
            std::vector<int64_t> of_name = seen(name, keys_of);
            std::sort(of_name.begin(), of_name.end(), [&](int64_t a, int64_t b) {
                return better(a, b, keys_.span(a).high, keys_.span(b).high);
            });
            of_name.resize(std::min(of_name.size(), at_entries.size()));
            if (selection_.sorted == "position") std::sort(of_name.begin(), of_name.end());
            for (size_t i = 0; i < of_name.size(); ++i) keys[at_entries[i]] = of_name[i];
        }
        return keys;
    }
    // Key a certainly comes before key b in the order of preference.
    bool before(int64_t a, int64_t b) const {
        if (forced(a) != forced(b)) return forced(a);
        if (forced(a)) return a < b;
        const double low = keys_.span(a).low, high = keys_.span(b).high;
        return low > high || (exact_ && low == high && a < b);
    }
    std::string told(int64_t key) const {
        if (forced(key)) return "key " + std::to_string(key) + " (forced)";
        const Span& span = keys_.span(key);
        char text[96];
        if (exact_) std::snprintf(text, sizeof text, "key %" PRId64 " (%.9g)", key, span.low);
        else std::snprintf(text, sizeof text, "key %" PRId64 " (%.9g to %.9g)", key, span.low, span.high);
        return text;
    }
    // A key left out that comes before one that was chosen.
    std::string wrong_set() const {
        int64_t best = -1, worst = -1;   // of those left out by what it is at the least, of the chosen at the most
        for (int64_t key = keys_.begin; key < keys_.end; ++key) {
            const Span& span = keys_.span(key);
            if (chosen_[at(key)]) {
                if (worst < 0 || better(worst, key, keys_.span(worst).high, span.high)) worst = key;
            } else if (best < 0 || better(key, best, span.low, keys_.span(best).low)) {
                best = key;
            }
        }
        if (best < 0 || worst < 0 || !before(best, worst)) return "";
        return told(best) + " is left out, " + told(worst) + " is chosen";
    }
    std::string wrong_order(const std::vector<int64_t>& order) const {
        if (selection_.sorted == "none" || order.empty()) return "";
        int64_t least = order[0];   // of the entries so far by what it is at the most
        for (size_t i = 1; i < order.size(); ++i) {
            const bool wrong = selection_.sorted == "position" ? order[i] < order[i - 1] : before(order[i], least);
            if (wrong)
                return "entry " + std::to_string(i) + ", " + told(order[i]) + ", stands behind " +
                       told(selection_.sorted == "position" ? order[i - 1] : least) + ": not by " + selection_.sorted;
            if (keys_.span(order[i]).high <= keys_.span(least).high || forced(least)) least = order[i];
        }
        return "";
    }

    const Selection& selection_;
    const bool exact_;
    const RowKeys& keys_;
    const int64_t count_, first_end_, last_begin_;
    std::vector<bool> chosen_;   // [keys that the row sees]
};

// ---- what an entry of a case names

class KeyNames {
  public:
    KeyNames(const Case& c, const Selection& selection, std::vector<int32_t> offsets)
        : c_(c), output_(selection.output), offsets_(std::move(offsets)) {}

    void take_request(int32_t request) {
        entries_.clear();
        if (output_ != "physical") return;
        for (int64_t entry = 0; entry * c_.page_slots < c_.length(request); ++entry)
            entries_[c_.page_of(request, entry * c_.page_slots)].push_back(entry);
    }
    std::vector<int64_t> keys_of(int32_t name, const RowKeys& row) const {
        if (output_ == "local") return {name};
        if (output_ == "relative") return {row.begin + name};
        if (output_ == "ragged") return {int64_t{name} - offsets_[static_cast<size_t>(row.row)]};
        if (name < 0) return {};
        const auto found = entries_.find(name / c_.page_slots);
        if (found == entries_.end()) return {};
        std::vector<int64_t> keys;
        for (const int64_t entry : found->second) keys.push_back(entry * c_.page_slots + name % c_.page_slots);
        return keys;
    }

  private:
    const Case& c_;
    std::string output_;
    std::vector<int32_t> offsets_;                                // [rows], ragged
    std::unordered_map<int64_t, std::vector<int64_t>> entries_;   // of a request's block table, by page
};

// ---- reports

class Report {
  public:
    explicit Report(std::string rule) : rule_(std::move(rule)) {}
    void add(const std::string& where, const std::string& problem) {
        ++rows_;
        if (problem.empty()) return;
        if (wrong_++ == 0) first_ = where + ": " + problem;
    }
    int print(int64_t k) const {
        std::printf("%s of %s; %s\n", counted(rows_, "row").c_str(), counted(k, "index", "indices").c_str(),
                    rule_.c_str());
        if (wrong_ > 0)
            std::printf("%s wrong; the first: %s\nVERIFICATION FAILED\n",
                        counted(wrong_, "row is", "rows are").c_str(), first_.c_str());
        else std::printf("verified: sets, order and unused entries\n");
        return wrong_ == 0 ? kDone : kVerificationFailed;
    }

  private:
    std::string rule_, first_;
    int64_t rows_ = 0, wrong_ = 0;
};

Npy<int32_t> read_indices(const VerifyOptions& options, int64_t rows) {
    const Npy<int32_t> indices = read_npy<int32_t>(options.indices, {rows, kAnySize});
    if (indices.shape[1] == 0) bad_input(options.indices.string() + ": shape: k = 0, expected 1 or more");
    return indices;
}

std::span<const int32_t> row_of(const Npy<int32_t>& indices, int64_t row) {
    const auto k = static_cast<size_t>(indices.shape[1]);
    return std::span(indices.data).subspan(static_cast<size_t>(row) * k, k);
}

}  // namespace

int verify_indices_of_case(const VerifyOptions& options, const Case& c, const std::vector<float>* scores) {
    const Npy<int32_t> indices = read_indices(options, c.rows);
    const Selection selection = read_selection(options, indices.shape[1]);
    KeyNames names(c, selection, offsets_of(c, selection.output, options.offsets));

    const bool bf16 = selection.score_type == "bf16", exact = options.exact || scores != nullptr;
    if (options.exact) require_lattice(c);
    const ref::Arithmetic arithmetic =
        scores != nullptr ? ref::kFp32 : find_arithmetic(options.indices, options.arithmetic, options.exact);
    CaseOracle oracle(c, arithmetic);
    Report report(scores != nullptr ? "the order of " + options.scores.string()
                  : exact           ? "the order of the reference's scores"
                                    : std::string("bound of ") + arithmetic.name + " arithmetic");
    Progress progress("verify: rows", c.rows);
    const int64_t longest = c.longest();
    for (int32_t request = 0; request < c.batch; ++request) {
        names.take_request(request);
        const int64_t first = c.cu_seqlens_q[static_cast<size_t>(request)];
        for (int64_t row = first; row < c.cu_seqlens_q[static_cast<size_t>(request) + 1]; ++row) {
            const ref::SeenKeys seen = c.keys_of(request, row);
            RowKeys keys{row, seen.begin, seen.end, {}};
            if (scores == nullptr) oracle.take_row(row);
            for (int64_t key = seen.begin; key < seen.end; ++key) {
                if (scores != nullptr) {
                    keys.spans.push_back(known((*scores)[static_cast<size_t>(row * longest + key)], bf16));
                    continue;
                }
                const ref::BoundedScore score = oracle.score(request, key);
                if (exact && std::isinf(score.bound))
                    bad_input("--exact needs a case on the exact lattice: row " + std::to_string(row) + ", key " +
                              std::to_string(key) + " may overflow fp32");
                keys.spans.push_back(exact ? known(static_cast<float>(score.value), bf16) : bounded(score, bf16));
            }
            report.add("row " + std::to_string(row) + " (request " + std::to_string(request) + ", token " +
                           std::to_string(row - first) + ")",
                       RowCheck(selection, exact, keys, indices.shape[1])
                           .problem(row_of(indices, row),
                                    [&](int32_t name) { return names.keys_of(name, keys); }));
            progress.advance(1);
        }
    }
    progress.finish();
    return report.print(indices.shape[1]);
}

int verify_indices_of_scores(const VerifyOptions& options) {
    const ScoreMatrix scores = read_score_matrix(options.scores, options.lengths);
    const Npy<int32_t> indices = read_indices(options, scores.rows);
    const Selection selection = read_selection(options, indices.shape[1]);
    if (selection.output != "local")
        bad_input("--output " + selection.output + " needs --in: without a case keys are called by their column");
    Report report("the order of " + options.scores.string());
    Progress progress("verify: rows", scores.rows);
    for (int64_t row = 0; row < scores.rows; ++row) {
        RowKeys keys{row, 0, scores.lengths[static_cast<size_t>(row)], {}};
        for (int64_t key = 0; key < keys.end; ++key)
            keys.spans.push_back(known(scores.score(row, key), selection.score_type == "bf16"));
        report.add("row " + std::to_string(row),
                   RowCheck(selection, true, keys, indices.shape[1])
                       .problem(row_of(indices, row), [](int32_t name) { return std::vector<int64_t>{name}; }));
        progress.advance(1);
    }
    progress.finish();
    return report.print(indices.shape[1]);
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// lidx verify: every cell of a score file against the oracle, within the bound of the arithmetic that computed it, or
// bit by bit. Indices are verified by verify_indices.cpp.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>

#include "case_io.h"
#include "case_oracle.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "npy.h"
#include "progress.h"
#include "test/ref/error_bound.h"
#include "verify_indices.h"

namespace lidx::command {

namespace {

struct Cell {
    int32_t request = 0;
    int64_t row = 0, key = 0;
    float computed = 0;
    double expected = 0, bound = 0, ratio = -1;   // ratio -1: none yet
    bool right = true;
};

struct Report {
    int64_t live = 0, wrong = 0;
    int64_t dead = 0, dead_wrong = 0;
    int64_t unbounded = 0;       // cells of which nothing can be demanded
    Cell worst;                  // largest ratio of error to bound
    Cell dead_worst;             // the first dead cell that is not -inf
    std::vector<float> ratios;   // of the live cells with a bound
};

bool same_bits(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// A cell that is exactly as expected has ratio 0, NaN where a number is due (or the reverse) infinity.
double ratio_of(float computed, const ref::BoundedScore& expected) {
    if (std::isnan(expected.value) || std::isinf(expected.value) || !std::isfinite(computed))
        return ref::within_bound(computed, expected) ? 0 : std::numeric_limits<double>::infinity();
    const double error = std::fabs(computed - expected.value);
    return error == 0 ? 0 : error / expected.bound;
}

void look_at(const Cell& cell, const ref::BoundedScore& expected, bool exact, Report& report) {
    ++report.live;
    if (std::isinf(expected.bound)) {
        ++report.unbounded;
        return;
    }
    Cell seen = cell;
    seen.expected = expected.value;
    seen.bound = expected.bound;
    seen.ratio = ratio_of(cell.computed, expected);
    const bool right = exact ? same_bits(cell.computed, static_cast<float>(expected.value))
                             : ref::within_bound(cell.computed, expected);
    if (!right) ++report.wrong;
    report.ratios.push_back(static_cast<float>(seen.ratio));
    // Bit equality can fail at ratio 0 (-0 for +0): a cell that is wrong comes before one that is not.
    const bool worse = right == report.worst.right ? seen.ratio > report.worst.ratio : !right;
    seen.right = right;
    if (worse) report.worst = seen;
}

Report compare(const Case& c, const std::vector<float>& scores, int64_t longest, ref::Arithmetic arithmetic,
               bool exact) {
    Report report;
    int64_t live = 0;
    for (int32_t request = 0; request < c.batch; ++request)
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1]; ++row)
            live += c.keys_of(request, row).end - c.keys_of(request, row).begin;
    report.ratios.reserve(static_cast<size_t>(live));
    Progress progress("verify: cells", live);
    CaseOracle oracle(c, arithmetic);
    for (int32_t request = 0; request < c.batch; ++request) {
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1]; ++row) {
            oracle.take_row(row);
            const ref::SeenKeys seen = c.keys_of(request, row);
            for (int64_t key = 0; key < longest; ++key) {
                Cell cell;
                cell.request = request;
                cell.row = row;
                cell.key = key;
                cell.computed = scores[static_cast<size_t>(row * longest + key)];
                if (key < seen.begin || key >= seen.end) {
                    ++report.dead;
                    if (cell.computed == -std::numeric_limits<float>::infinity()) continue;
                    if (report.dead_wrong++ == 0) report.dead_worst = cell;
                    continue;
                }
                look_at(cell, oracle.score(request, key), exact, report);
                if (key % 256 == 255) progress.advance(256);
            }
        }
    }
    return report;
}

void print_report(const Case& c, Report& report, ref::Arithmetic arithmetic, bool exact) {
    std::printf("%s, %" PRId64 " live and %" PRId64 " dead; bound of %s arithmetic%s\n",
                counted(report.live + report.dead, "cell").c_str(), report.live, report.dead, arithmetic.name,
                exact ? "; bit equality demanded" : "");
    if (report.unbounded > 0)
        std::printf("%s may overflow fp32 or depend on an infinite scale: nothing is demanded there\n",
                    counted(report.unbounded, "cell").c_str());
    if (!report.ratios.empty()) {
        const Cell& w = report.worst;
        std::printf("worst cell: row %" PRId64 " (request %d, token %" PRId64 "), key %" PRId64
                    ": %.9g, expected %.17g\n",
                    w.row, w.request, w.row - c.cu_seqlens_q[w.request], w.key, w.computed, w.expected);
        std::printf("            error %.6g, bound %.6g, ratio %.4g\n", std::fabs(w.computed - w.expected), w.bound,
                    w.ratio);
        const auto middle = report.ratios.begin() + static_cast<std::ptrdiff_t>(report.ratios.size() / 2);
        std::nth_element(report.ratios.begin(), middle, report.ratios.end());
        std::printf("ratio of error to bound: median %.4g, largest %.4g\n", *middle, w.ratio);
    }
    if (report.wrong > 0)
        std::printf("%s %s\n", counted(report.wrong, "live cell is", "live cells are").c_str(),
                    exact ? "not bit-equal to the reference" : "outside the bound");
    if (report.dead_wrong > 0)
        std::printf("%s not -inf; the first: row %" PRId64 ", key %" PRId64 ": %.9g\n",
                    counted(report.dead_wrong, "dead cell is", "dead cells are").c_str(), report.dead_worst.row,
                    report.dead_worst.key, report.dead_worst.computed);
    const bool passed = report.wrong == 0 && report.dead_wrong == 0;
    std::printf("%s\n", passed ? exact ? "verified: bit-equal" : "verified: within the bound" : "VERIFICATION FAILED");
}

}  // namespace

namespace {

// Exit code. scores: kept for what else is to be checked.
int verify_scores(const VerifyOptions& options, const Case& c, const std::vector<float>& scores) {
    const ref::Arithmetic arithmetic = find_arithmetic(options.scores, options.arithmetic, options.exact);
    if (options.exact) require_lattice(c);
    Report report = compare(c, scores, c.longest(), arithmetic, options.exact);
    if (options.exact && report.unbounded > 0)
        bad_input("--exact needs a case on the exact lattice: " + counted(report.unbounded, "cell") +
                  " may overflow fp32");
    print_report(c, report, arithmetic, options.exact);
    return report.wrong == 0 && report.dead_wrong == 0 ? kDone : kVerificationFailed;
}

void require_sense(const VerifyOptions& o) {
    if (o.in.empty() && (o.scores.empty() || o.indices.empty()))
        bad_input("without --in, both --scores and --indices are needed: indices against the scores they are of");
    if (o.scores.empty() && o.indices.empty()) bad_input("nothing to verify: give --scores, --indices or both");
    if (o.in.empty() && (o.exact || !o.arithmetic.empty()))
        bad_input(std::string(o.exact ? "--exact" : "--arithmetic") + " needs --in: it is about scores of a case");
    if (!o.in.empty() && !o.lengths.empty()) bad_input("--lengths: the case of --in says what each row sees");
    if (o.in.empty() && o.output.value_or("local") != "local")
        bad_input("--output " + *o.output + " needs --in: without a case keys are called by their column");
    const bool of_indices = o.output || o.sorted || o.score_type || o.forced_first || o.forced_last ||
                            !o.offsets.empty() || !o.lengths.empty();
    if (of_indices && o.indices.empty())
        bad_input("--output, --sorted, --score-type, --first, --last, --offsets and --lengths need --indices");
}

}  // namespace

int run_verify(const VerifyOptions& options) {
    require_sense(options);
    if (options.in.empty()) return verify_indices_of_scores(options);
    const Case c = read_case(options.in);
    if (const auto bad_id = bad_page_id(c)) bad_input((options.in / *bad_id).string());
    Npy<float> scores;
    int code = kDone;
    if (!options.scores.empty()) {
        scores = read_npy<float>(options.scores, {c.rows, c.longest()});
        code = verify_scores(options, c, scores.data);
    }
    if (options.indices.empty() || code != kDone) return code;
    return verify_indices_of_case(options, c, options.scores.empty() ? nullptr : &scores.data);
}

}  // namespace lidx::command

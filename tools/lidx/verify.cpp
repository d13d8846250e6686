// SPDX-License-Identifier: Apache-2.0
// lidx verify: every cell of a score file against the oracle, within the bound of the arithmetic that computed it, or
// bit by bit.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "case_io.h"
#include "commands.h"
#include "failure.h"
#include "npy.h"
#include "progress.h"
#include "score_file.h"
#include "test/ref/error_bound.h"
#include "test/ref/lattice.h"
#include "test/ref/oracle.h"
#include "test/ref/sm90_fast_model.h"

namespace lidx::command {

namespace {

constexpr ref::Arithmetic kArithmetics[] = {ref::kSm100, ref::kSm90, ref::kSm90Fast, ref::kFp32};

ref::Arithmetic find_arithmetic(const VerifyOptions& options) {
    std::string name = options.arithmetic;
    std::string source = "--arithmetic";
    if (name.empty()) {
        const auto path = sidecar_path(options.scores);
        if (!std::filesystem::exists(path) && options.exact)
            return ref::kSm100;   // any bound would do beside bit equality
        if (!std::filesystem::exists(path))
            bad_input(path.string() + ": no sidecar says which arithmetic computed the scores; pass --arithmetic");
        const nlohmann::json sidecar = read_json(path);
        source = path.string() + ": arithmetic";
        if (!sidecar.is_object() || !sidecar.contains("arithmetic") || !sidecar["arithmetic"].is_string())
            bad_input(source + " is missing; pass --arithmetic");
        name = sidecar["arithmetic"].get<std::string>();
    }
    for (const ref::Arithmetic& arithmetic : kArithmetics)
        if (name == arithmetic.name) return arithmetic;
    bad_input(source + ": \"" + name + "\", expected sm_100, sm_90, sm_90_fast or fp32");
}

void require_lattice(const Case& c) {
    bool of_row = true;
    int64_t row = 0, key = 0;
    int32_t request = 0;
    try {
        for (; row < c.rows; ++row) {
            for (int h = 0; h < c.heads; ++h)
                ref::assert_lattice_codes(c.q.data() + (row * c.heads + h) * kDepth, kDepth);
            ref::assert_lattice_weights(c.q_scale.data() + row * c.heads, c.heads);
        }
        of_row = false;
        for (; request < c.batch; ++request)
            for (key = 0; key < c.length(request); ++key) {
                const int64_t page = c.page_of(request, key), slot = key % c.page_slots;
                ref::assert_lattice_codes(c.codes(page, slot), kDepth);
                ref::assert_lattice_k_scale(c.scale(page, slot));
            }
    } catch (const std::logic_error& error) {
        bad_input("--exact needs a case on the exact lattice (lidx gen --lattice); " +
                  (of_row ? "q, row " + std::to_string(row)
                          : "k, request " + std::to_string(request) + ", key " + std::to_string(key)) +
                  ": " + error.what());
    }
}

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
    std::vector<ref::Operand> q(static_cast<size_t>(c.heads));
    ref::Operand k;
    for (int32_t request = 0; request < c.batch; ++request) {
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1]; ++row) {
            for (int h = 0; h < c.heads; ++h) q[h].decode(c.q.data() + (row * c.heads + h) * kDepth, kDepth);
            const float* q_scale = c.q_scale.data() + row * c.heads;
            const bool fast = std::string_view(arithmetic.name) == ref::kSm90Fast.name;
            const ref::FastQuery fast_row =
                fast ? ref::fast_query(c.q.data() + row * c.heads * kDepth, q_scale, c.heads) : ref::FastQuery{};
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
                const int64_t page = c.page_of(request, key), slot = key % c.page_slots;
                k.decode(c.codes(page, slot), kDepth);
                const float scale = c.scale(page, slot);
                look_at(cell,
                        fast ? ref::bounded_fast_score(fast_row, q.data(), q_scale, k, scale)
                             : ref::bounded_score(q.data(), q_scale, c.heads, k, scale, arithmetic),
                        exact, report);
                if (key % 256 == 255) progress.advance(256);
            }
        }
    }
    return report;
}

void print_report(const Case& c, Report& report, ref::Arithmetic arithmetic, bool exact) {
    std::printf("%" PRId64 " cells, %" PRId64 " live and %" PRId64 " dead; bound of %s arithmetic%s\n",
                report.live + report.dead, report.live, report.dead, arithmetic.name,
                exact ? "; bit equality demanded" : "");
    if (report.unbounded > 0)
        std::printf("%" PRId64 " cells may overflow fp32 or depend on an infinite scale: nothing is demanded of them\n",
                    report.unbounded);
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
        std::printf("%" PRId64 " live cells are %s\n", report.wrong,
                    exact ? "not bit-equal to the reference" : "outside the bound");
    if (report.dead_wrong > 0)
        std::printf("%" PRId64 " dead cells are not -inf; the first: row %" PRId64 ", key %" PRId64 ": %.9g\n",
                    report.dead_wrong, report.dead_worst.row, report.dead_worst.key, report.dead_worst.computed);
    const bool passed = report.wrong == 0 && report.dead_wrong == 0;
    std::printf("%s\n", passed ? exact ? "verified: bit-equal" : "verified: within the bound" : "VERIFICATION FAILED");
}

}  // namespace

int run_verify(const VerifyOptions& options) {
    const Case c = read_case(options.in);
    if (const auto bad_id = bad_page_id(c)) bad_input((options.in / *bad_id).string());
    const ref::Arithmetic arithmetic = find_arithmetic(options);
    const int64_t longest = c.longest();
    const Npy<float> scores = read_npy<float>(options.scores, {c.rows, longest});
    if (options.exact) require_lattice(c);
    Report report = compare(c, scores.data, longest, arithmetic, options.exact);
    if (options.exact && report.unbounded > 0)
        bad_input("--exact needs a case on the exact lattice: " + std::to_string(report.unbounded)
                  + " cells may overflow fp32");
    print_report(c, report, arithmetic, options.exact);
    return report.wrong == 0 && report.dead_wrong == 0 ? kDone : kVerificationFailed;
}

}  // namespace lidx::command

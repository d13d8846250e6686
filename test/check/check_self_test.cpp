// SPDX-License-Identifier: Apache-2.0
#include "check_self_test.h"

#include <lidx.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "check_cases.h"
#include "check_inputs.h"
#include "check_model.h"
#include "check_run.h"
#include "ref/bf16.h"
#include "ref/error_bound.h"
#include "ref/portable_rng.h"
#include "ref/sm100_model.h"
#include "ref/sm90_fast_model.h"
#include "ref/sm90_model.h"

namespace check {

namespace {

namespace ref = lidx::ref;

ModelOperand operand(const std::vector<double>& values) {
    std::vector<uint8_t> codes;
    for (const double value : values) codes.push_back(ref::e4m3_encode(value));
    ModelOperand result;
    result.decode(codes.data(), static_cast<int>(codes.size()));
    return result;
}

std::string model_words() {
    const struct {
        const char* what;
        std::vector<double> q, k;
        uint32_t want;
    } words[] = {
        // Measured on a B200, published with the sf-tensor/tcgen05 model: e4m3-minsub, e4m3-nan, e4m3-negzero.
        {"smallest subnormal times 1", {0x1p-9}, {1}, 0x3b000000},
        {"NaN times 1", {std::nan("")}, {1}, 0x7fffffff},
        {"zeros", {-0.0}, {0}, 0},
        // By hand. Window 25 below exponent 16 keeps 2^-9 and cuts 2^-10.
        {"2^-9 beside 448 * 448", {448, -448, 0x1p-9}, {448, 448, 1}, 0x3b000000},
        {"2^-10 beside 448 * 448", {448, -448, 0x1p-9}, {448, 448, 0.5}, 0},
        // 448 * 448 + 2^-9 = 0x1.88p17 + 2^-9: the fp32 result is cut to 2^-6.
        {"sum cut toward zero", {448, 0x1p-9}, {448, 1}, 0x48440000},
        // The sum of step 0 is carried into step 1: 200704 - 200704 = +0.
        {"cancelled across steps",
         [] {
             std::vector<double> v(33);
             v[0] = 448;
             v[32] = -448;
             return v;
         }(),
         [] {
             std::vector<double> v(33);
             v[0] = v[32] = 448;
             return v;
         }(),
         0},
    };
    for (const auto& w : words) {
        const uint32_t got = model_sm100_dot(operand(w.q), operand(w.k));
        if (got != w.want) {
            char text[96];
            std::snprintf(text, sizeof text, "model of sm_100, %s: 0x%08x, expected 0x%08x", w.what, got, w.want);
            return text;
        }
    }
    // By hand, sm_90. Window 13 below exponent 16 keeps 2^3 and cuts 2^2.
    const struct {
        const char* what;
        std::vector<double> q, k;
        uint32_t want;
    } words90[] = {
        {"8 beside 448 * 448", {448, -448, 8}, {448, 448, 1}, 0x41000000},
        {"4 beside 448 * 448", {448, -448, 4}, {448, 448, 1}, 0},
        // 448 * 448 + 8 = 0x1.8804p17: a result keeps 13 fraction bits, here down to 2^4.
        {"sum cut toward zero", {448, 8}, {448, 1}, 0x48440000},
        {"NaN times 1", {std::nan("")}, {1}, 0x7fffffff},
        {"-8 beside 448 * 448", {448, -448, -8}, {448, 448, 1}, 0xc1000000},
    };
    for (const auto& w : words90) {
        const uint32_t got = model_sm90_dot(operand(w.q), operand(w.k));
        if (got != w.want) {
            char text[96];
            std::snprintf(text, sizeof text, "model of sm_90, %s: 0x%08x, expected 0x%08x", w.what, got, w.want);
            return text;
        }
    }
    return "";
}

// check's model, which takes operands apart once, against the reference's, which works on values: any codes, NaN
// included.
std::string models_agree() {
    ref::Rng rng(1);
    constexpr int kHeads = 32, kDepth = ModelOperand::kDepth;
    std::vector<uint8_t> q(kHeads * kDepth), k(kDepth);
    std::vector<float> q_scale(kHeads);
    std::vector<ModelOperand> model_q(kHeads);
    ModelOperand model_k;
    for (int round = 0; round < 400; ++round) {
        // Narrow ranges of exponents keep more bits than wide ones, so both are drawn; NaN codes only now and then.
        const bool nan = round % 50 == 49;
        const auto span = static_cast<uint64_t>(rng.between(1, 127)), low = rng.below(128 - span);
        auto draw = [&] {
            const auto code = static_cast<uint8_t>((low + rng.below(span)) | (rng.next() & 0x80));
            return static_cast<uint8_t>((code & 0x7f) == 0x7f && !nan ? code - 1 : code);
        };
        for (uint8_t& code : q) code = draw();
        for (uint8_t& code : k) code = draw();
        for (float& w : q_scale) w = static_cast<float>(rng.normal());
        for (int h = 0; h < kHeads; ++h) model_q[h].decode(q.data() + h * kDepth, kDepth);
        model_k.decode(k.data(), kDepth);
        const auto k_scale = static_cast<float>(rng.normal());
        const auto want =
            std::bit_cast<uint32_t>(ref::sm100_score_model(q.data(), q_scale.data(), kHeads, k.data(), k_scale));
        const uint32_t got = model_sm100_score(model_q.data(), q_scale.data(), kHeads, model_k, k_scale);
        if (got != want) return "the two models of sm_100 disagree in round " + std::to_string(round);
        std::vector<ModelOperand> half_q(kHeads);
        for (int h = 0; h < kHeads; ++h) half_q[h].decode(q.data() + h * kDepth / 2, kDepth / 2);
        ModelOperand half_k;
        half_k.decode(k.data(), kDepth / 2);
        const auto want_half = std::bit_cast<uint32_t>(
            ref::sm100_score_model(q.data(), q_scale.data(), kHeads, k.data(), k_scale, kDepth / 2));
        if (model_sm100_score(half_q.data(), q_scale.data(), kHeads, half_k, k_scale) != want_half)
            return "the two models of sm_100 disagree at depth 64 in round " + std::to_string(round);
        const auto want90 =
            std::bit_cast<uint32_t>(ref::sm90_score_model(q.data(), q_scale.data(), kHeads, k.data(), k_scale));
        const uint32_t got90 = model_sm90_score(model_q.data(), q_scale.data(), kHeads, model_k, k_scale);
        if (got90 != want90) return "the two models of sm_90 disagree in round " + std::to_string(round);
    }
    return "";
}

// What a faithful machine would leave behind.
Outcome modelled(const Inputs& in, int arithmetic) {
    Outcome out;
    out.symbol = "model";
    out.arithmetic = arithmetic;
    out.scores.resize(static_cast<size_t>(in.max_rows) * in.score_stride);
    for (size_t i = 0; i < out.scores.size(); ++i) out.scores[i] = score_poison(in.c, static_cast<int64_t>(i));
    const Case& c = in.c;
    const auto bits_of = [&](uint32_t fp32) {
        return c.engine.bf16 ? ref::bf16_round(std::bit_cast<float>(fp32)) : fp32;
    };
    std::vector<ModelOperand> q(c.heads);
    for (int row = 0; row < in.max_rows; ++row) {
        const Row& of = in.rows[row];
        if (of.request < 0) continue;
        const Request& r = in.requests[of.request];
        uint32_t* const cells = out.scores.data() + row * in.score_stride;
        if (c.engine.fills()) std::fill_n(cells, in.score_columns, bits_of(0xff800000u));
        for (int h = 0; h < c.heads; ++h)
            q[h].decode(in.q.data() + (static_cast<size_t>(row) * c.heads + h) * c.depth, c.depth);
        const float* const q_scale = in.q_scale.data() + static_cast<size_t>(row) * c.heads;
        const ref::FastQuery fast =
            arithmetic == LIDX_ARITHMETIC_SM90_FAST
                ? ref::fast_query(in.q.data() + static_cast<size_t>(row) * c.heads * c.depth, q_scale, c.heads)
                : ref::FastQuery{};
        for (int key = of.begin; key < of.end; ++key) {
            if (r.dead[key]) continue;
            ModelOperand k;
            k.decode(r.codes.data() + static_cast<size_t>(key) * c.depth, c.depth);
            ref::Operand bounded;
            bounded.decode(r.codes.data() + static_cast<size_t>(key) * c.depth, c.depth);
            cells[c.engine.relative ? key - of.begin : key] =
                bits_of(arithmetic == LIDX_ARITHMETIC_SM90_FAST
                            ? std::bit_cast<uint32_t>(
                                  ref::fast_score_model(fast, bounded, k.has_nan, r.scales[key]))
                        : arithmetic == LIDX_ARITHMETIC_SM90
                            ? model_sm90_score(q.data(), q_scale, c.heads, k, r.scales[key])
                        : arithmetic == LIDX_ARITHMETIC_SM100
                            ? model_sm100_score(q.data(), q_scale, c.heads, k, r.scales[key])
                            : model_generic_score(q.data(), q_scale, c.heads, c.depth, k, r.scales[key]));
        }
    }
    return out;
}

// Spoils single cells of a faithful outcome; each must be called by its name.
std::string judging(const char* name, int arithmetic) {
    Case c;
    std::string error;
    if (!parse_case(name, &c, &error)) return std::string(name) + ": " + error;
    const Inputs in = make_inputs(c);
    const Outcome good = modelled(in, arithmetic);
    const std::string verdict = judge_scores(in, good);
    if (!verdict.empty()) return std::string(name) + ": the model itself fails: " + verdict;
    auto expect = [&](const char* what, const char* kind, int64_t cell, uint32_t bits) -> std::string {
        Outcome bad = good;
        bad.scores[static_cast<size_t>(cell)] = bits;
        const std::string found = judge_scores(in, bad);
        if (found.rfind(kind, 0) == 0) return "";
        return std::string(name) + ": " + what + " was judged '" + found + "', expected '" + kind + "'";
    };
    int row = -1;
    for (int other = 0; other < in.max_rows; ++other)
        if (in.rows[other].end - in.rows[other].begin > 1) row = other;
    if (row < 0) return std::string(name) + " has no cell to spoil";
    const Row& of = in.rows[row];
    const Request* const request = &in.requests[of.request];
    int key = of.end - 1;
    while (key > of.begin && request->dead[key]) --key;
    const int64_t live = row * in.score_stride + (c.engine.relative ? key - of.begin : key);
    const int64_t dead = row * in.score_stride + in.score_stride - 1;
    const bool exact = c.values == Values::kLattice;
    const uint32_t bits = good.scores[static_cast<size_t>(live)];
    std::vector<ref::Operand> q(c.heads);
    for (int h = 0; h < c.heads; ++h)
        q[h].decode(in.q.data() + (static_cast<size_t>(row) * c.heads + h) * c.depth, c.depth);
    ref::Operand k;
    k.decode(request->codes.data() + static_cast<size_t>(key) * c.depth, c.depth);
    const float* const q_scale = in.q_scale.data() + static_cast<size_t>(row) * c.heads;
    const double bound =
        arithmetic == LIDX_ARITHMETIC_SM90_FAST
            ? ref::bounded_fast_score(
                  ref::fast_query(in.q.data() + static_cast<size_t>(row) * c.heads * c.depth, q_scale, c.heads),
                  q.data(), q_scale, k, request->scales[key])
                  .bound
            : ref::bounded_score(q.data(), q_scale, c.heads, k,
                           request->scales[key], arithmetic == LIDX_ARITHMETIC_SM100  ? ref::kSm100
                                           : arithmetic == LIDX_ARITHMETIC_SM90 ? ref::kSm90
                                                                                : ref::kFp32)
            .bound;
    const bool bf16 = c.engine.bf16;   // judged by the models alone, unless exact
    const uint32_t moved =
        bf16 ? bits + 2 : std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<float>(bits) + 2 * bound));
    if (c.engine.fills() && in.score_columns > of.end) {
        const std::string text = expect("an unfilled cell", "dead cell: ", row * in.score_stride + in.score_columns - 1,
                                        score_poison(c, row * in.score_stride + in.score_columns - 1));
        if (!text.empty()) return text;
    }
    for (const std::string& text : {
             expect("one unit in the last place", exact ? "lattice: " : "model: ", live, bits + 1),
             expect("twice the bound", exact ? "lattice: " : bf16 ? "model: " : "bound: ", live,
                    moved == bits ? bits ^ 0x80000000u : moved),
             expect("an unwritten cell", exact ? "lattice: " : bf16 ? "model: " : "bound: ", live,
                    score_poison(c, live)),
             expect("a dead cell", "dead cell: ", dead, 0),
         })
        if (!text.empty()) return text;
    return "";
}

}  // namespace

std::string self_test(std::string* text) {
    const std::vector<Case> cases = covering_cases();
    *text = "covering set " + std::to_string(cases.size()) + " cases, long set " + std::to_string(long_cases().size());
    std::string problem = missing_coverage(cases);
    for (const auto& list : {cases, long_cases(), seed_cases()})
        for (const Case& c : list) {
            Case again;
            std::string error;
            if (problem.empty() && (!parse_case(case_name(c), &again, &error) || case_name(again) != case_name(c)))
                problem = "the name " + case_name(c) + " does not survive: " + error;
        }
    if (problem.empty()) problem = model_words();
    if (problem.empty()) problem = models_agree();
    const struct {
        const char* name;
        int arithmetic;
    } judged[] = {
        {"auto/h64/d128/t3/b2/n150/p16/block-split/pad16/gap3/lattice/ragged/nocheck/guard/s5", LIDX_ARITHMETIC_SM100},
        {"auto/h32/d128/t2/b2/n70/p64/split-pool/pad0/gap1/normal/bad-pages/check/tight/s6", LIDX_ARITHMETIC_SM100},
        {"auto/h64/d128/t1/b1/n40/p0/contiguous/pad0/gap1/codes/plain/nocheck/guard/s7", LIDX_ARITHMETIC_SM100},
        {"auto/h32/d128/t2/b2/n70/p64/split-pool/pad0/gap1/normal/plain/nocheck/guard/s8", LIDX_ARITHMETIC_SM90},
        {"auto/h3/d64/t2/b2/n90/p7/block-split/pad16/gap2/lattice/slack/nocheck/guard/s8", LIDX_ARITHMETIC_FP32},
        {"auto/h8/d128/t2/b1/n40/p64/block-split/pad0/gap1/normal/plain/nocheck/guard/s9", LIDX_ARITHMETIC_FP32},
        {"auto/h8/d128/t3/b2/n90/p16/split-pool/pad0/gap1/normal/ragged/nocheck/guard/s10/ids,window,rel,bf16,fill9",
         LIDX_ARITHMETIC_FP32},
        {"auto/h64/d128/t3/b2/n90/p64/block-split/pad0/gap1/lattice/slack/nocheck/guard/s11/fixed,causal,w2bf16,fill4",
         LIDX_ARITHMETIC_SM100},
        {"auto/h32/d128/t3/b2/n90/p64/block-split/pad0/gap1/normal/ragged/nocheck/guard/s12/rowlen,wbf16,r4",
         LIDX_ARITHMETIC_SM90},
        {"sm90_fast_h64/h64/d128/t2/b2/n70/p64/block-split/pad0/gap1/lattice/plain/nocheck/guard/s13",
         LIDX_ARITHMETIC_SM90_FAST},
        {"sm90_fast_h32/h32/d128/t2/b2/n70/p64/split-pool/pad0/gap1/codes/plain/nocheck/guard/s14",
         LIDX_ARITHMETIC_SM90_FAST},
    };
    for (const auto& j : judged)
        if (problem.empty()) problem = judging(j.name, j.arithmetic);
    return problem;
}

}  // namespace check

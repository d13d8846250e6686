// SPDX-License-Identifier: Apache-2.0
// fast_recall: how many of the k best keys of the exact mode the fast mode finds, by the scalar models of both, which
// have the kernels' bits. Prints a table; fails where realistic data lose more than they may, or where a key is missed
// that the error bounds do not excuse.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "check_model.h"
#include "ref/e4m3.h"
#include "ref/error_bound.h"
#include "ref/oracle.h"
#include "ref/portable_rng.h"
#include "ref/sm90_fast_model.h"

namespace {

namespace ref = lidx::ref;
using ref::Rng;

constexpr int kDepth = 128;

struct Data {
    std::vector<uint8_t> q, k;            // [heads, depth], [keys, depth]
    std::vector<float> q_scale, k_scale;  // [heads], [keys]
};

// Walsh-Hadamard, scaled by depth^-0.5.
void rotate(double* x) {
    for (int step = 1; step < kDepth; step *= 2)
        for (int i = 0; i < kDepth; ++i)
            if ((i & step) == 0) {
                const double a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
    for (int i = 0; i < kDepth; ++i) x[i] /= std::sqrt(kDepth);
}

// A heavy-tailed activation: one channel in 32 is twelve times as large.
void draw_activation(Rng& rng, double* x) {
    for (int i = 0; i < kDepth; ++i) x[i] = rng.normal() * (i % 32 == 5 ? 12 : 1);
}

// What engines send: rotated, quantised by amax / 448; some keys lean to the query.
Data realistic(Rng& rng, int heads, int keys) {
    Data d;
    d.q.resize(static_cast<size_t>(heads) * kDepth);
    d.k.resize(static_cast<size_t>(keys) * kDepth);
    double topic[kDepth], x[kDepth];
    draw_activation(rng, topic);
    for (int h = 0; h < heads; ++h) {
        draw_activation(rng, x);
        for (int i = 0; i < kDepth; ++i) x[i] += 0.5 * topic[i];
        rotate(x);
        const float scale = ref::e4m3_quantise(x, kDepth, d.q.data() + h * kDepth);
        d.q_scale.push_back(scale * static_cast<float>(rng.normal() / std::sqrt(heads * kDepth)));
    }
    for (int key = 0; key < keys; ++key) {
        draw_activation(rng, x);
        const double lean = key % 4 == 0 ? rng.uniform() : 0;
        for (int i = 0; i < kDepth; ++i) x[i] += lean * topic[i];
        rotate(x);
        d.k_scale.push_back(ref::e4m3_quantise(x, kDepth, d.k.data() + static_cast<size_t>(key) * kDepth));
    }
    return d;
}

// Every finite code with equal chance.
Data any_codes(Rng& rng, int heads, int keys) {
    Data d = realistic(rng, heads, keys);
    for (std::vector<uint8_t>* codes : {&d.q, &d.k})
        for (uint8_t& code : *codes) code = static_cast<uint8_t>((rng.below(2) << 7) + rng.below(127));
    return d;
}

// All keys are one key with one code in its last place up or down: scores lie closer together than the fast mode sees.
Data near_ties(Rng& rng, int heads, int keys) {
    Data d = realistic(rng, heads, keys);
    for (int key = 1; key < keys; ++key) {
        uint8_t* const k = d.k.data() + static_cast<size_t>(key) * kDepth;
        std::copy_n(d.k.data(), kDepth, k);
        k[rng.below(kDepth)] ^= 1;
        d.k_scale[key] = d.k_scale[0];
    }
    return d;
}

// Half of the query's codes are 448 where the keys are 0; what decides is small codes, which scaling makes smaller.
Data hidden(Rng& rng, int heads, int keys) {
    Data d = realistic(rng, heads, keys);
    for (size_t at = 0; at < d.q.size(); ++at)
        d.q[at] = at % 2 == 0 ? 0x7e : static_cast<uint8_t>((d.q[at] & 0x80) | (0x08 + rng.below(24)));
    for (size_t at = 0; at < d.k.size(); at += 2) d.k[at] = 0;
    return d;
}

std::vector<int> best(const std::vector<double>& scores, int k) {
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[a] > scores[b]; });
    order.resize(k);
    std::sort(order.begin(), order.end());
    return order;
}

double recall(const std::vector<int>& found, const std::vector<int>& wanted) {
    std::vector<int> both;
    std::set_intersection(found.begin(), found.end(), wanted.begin(), wanted.end(), std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(wanted.size());
}

}  // namespace

int main(int argc, char** argv) {
    const int rows = argc > 1 ? std::atoi(argv[1]) : 1, keys = argc > 2 ? std::atoi(argv[2]) : 8192;
    if (argc > 3 || rows < 1 || keys < 4096) {
        std::fprintf(stderr, "usage: fast_recall [ROWS [KEYS]]    rows from 1, keys from 4096\n");
        return 2;
    }
    const struct {
        const char* name;
        Data (*draw)(Rng&, int, int);
        double least;   // recall that is demanded
    } sets[] = {{"realistic", realistic, 0.99}, {"any codes", any_codes, 0.99}, {"near ties", near_ties, 0},
                {"hidden", hidden, 0}};
    std::printf("%d rows x %d keys, recall of the k best keys; exact: sm_90 arithmetic, itself against the formula\n\n",
                rows, keys);
    std::printf("| data | heads | k | fast of exact | exact of formula | error / bound, largest |\n");
    std::printf("|---|---|---|---|---|---|\n");
    int failures = 0;
    for (const auto& set : sets)
        for (const int heads : {64, 32}) {
            double found[2] = {}, exact_found[2] = {}, worst = 0;
            const int ks[2] = {512, 2048};
            for (int row = 0; row < rows; ++row) {
                Rng rng(static_cast<uint64_t>(1000 * row + heads));
                const Data d = set.draw(rng, heads, keys);
                std::vector<ref::Operand> q(heads);
                std::vector<check::ModelOperand> q_model(heads);
                for (int h = 0; h < heads; ++h) {
                    q[h].decode(d.q.data() + h * kDepth, kDepth);
                    q_model[h].decode(d.q.data() + h * kDepth, kDepth);
                }
                const ref::FastQuery fast_row = ref::fast_query(d.q.data(), d.q_scale.data(), heads);
                std::vector<double> exact(keys), fast(keys), formula(keys), bound(keys);
                for (int key = 0; key < keys; ++key) {
                    const uint8_t* codes = d.k.data() + static_cast<size_t>(key) * kDepth;
                    ref::Operand k;
                    k.decode(codes, kDepth);
                    check::ModelOperand k_model;
                    k_model.decode(codes, kDepth);
                    exact[key] = std::bit_cast<float>(
                        check::model_sm90_score(q_model.data(), d.q_scale.data(), heads, k_model, d.k_scale[key]));
                    fast[key] = ref::fast_score_model(fast_row, k, false, d.k_scale[key]);
                    const ref::BoundedScore bounded =
                        ref::bounded_fast_score(fast_row, q.data(), d.q_scale.data(), k, d.k_scale[key]);
                    formula[key] = bounded.value;
                    bound[key] = bounded.bound;
                    worst = std::max(worst, std::fabs(fast[key] - formula[key]) / bounded.bound);
                }
                for (int i = 0; i < 2; ++i) {
                    const std::vector<int> wanted = best(formula, ks[i]), got = best(fast, ks[i]);
                    found[i] += recall(got, best(exact, ks[i])) / rows;
                    exact_found[i] += recall(best(exact, ks[i]), wanted) / rows;
                    // A key that is missed cannot beat one that was taken instead by more than both bounds.
                    double least_taken = INFINITY;
                    for (const int key : got) least_taken = std::min(least_taken, formula[key] + bound[key]);
                    for (const int key : wanted)
                        if (!std::binary_search(got.begin(), got.end(), key) && formula[key] - bound[key] > least_taken)
                            ++failures, std::printf("%s: key %d is missed beyond the bounds\n", set.name, key);
                }
            }
            for (int i = 0; i < 2; ++i) {
                std::printf("| %s | %d | %d | %.4f | %.4f | %.3f |\n", set.name, heads, ks[i], found[i],
                            exact_found[i], worst);
                if (found[i] < set.least) ++failures;
            }
            if (worst > 1) ++failures;
            std::fflush(stdout);
        }
    if (failures != 0) std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}

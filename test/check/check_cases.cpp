// SPDX-License-Identifier: Apache-2.0
#include "check_cases.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "ref/portable_rng.h"

namespace check {

namespace {

constexpr const char* kLayoutNames[] = {"block-split", "split-pool", "contiguous"};
constexpr const char* kValuesNames[] = {"lattice", "normal", "codes", "special"};
constexpr const char* kSituationNames[] = {"plain",   "ragged",      "slack",     "dead",
                                           "lengths", "zero-tokens", "bad-pages", "overrun"};

constexpr int kTokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
constexpr int kKeys[] = {1, 2, 127, 128, 129, 501, 600, 722, 723, 8192, 8300};
constexpr int kBatches[] = {1, 2, 3, 5};

struct Place {
    int page_size;
    Layout layout;
};
constexpr Place kTensorPlaces[] = {{16, Layout::kBlockSplit},  {32, Layout::kBlockSplit},  {64, Layout::kBlockSplit},
                                   {128, Layout::kBlockSplit}, {256, Layout::kBlockSplit}, {16, Layout::kSplitPool},
                                   {32, Layout::kSplitPool},   {64, Layout::kSplitPool},   {128, Layout::kSplitPool},
                                   {256, Layout::kSplitPool},  {0, Layout::kContiguous}};
constexpr Place kGenericPlaces[] = {{1, Layout::kBlockSplit},  {3, Layout::kBlockSplit},  {7, Layout::kBlockSplit},
                                    {16, Layout::kBlockSplit}, {64, Layout::kBlockSplit}, {256, Layout::kBlockSplit},
                                    {1, Layout::kSplitPool},   {3, Layout::kSplitPool},   {7, Layout::kSplitPool},
                                    {32, Layout::kSplitPool},  {128, Layout::kSplitPool}, {0, Layout::kContiguous}};

struct Shape {
    const char* kernel;
    int heads, depth;
};
constexpr Shape kTensorShapes[] = {{"auto", 64, 128},
                                   {"auto", 32, 128},
                                   {"sm100_score_h64", 64, 128},
                                   {"sm100_score_h32", 32, 128},
                                   {"sm100_score_h32_t3", 32, 128},
                                   {"sm90_score_h64", 64, 128},
                                   {"sm90_score_h32", 32, 128},
                                   {"sm90_decode_h64", 64, 128},
                                   {"sm90_decode_h32", 32, 128}};
// The other tiles of the sm100 kernels: each number of heads, narrow ones, both depths.
constexpr Shape kTileShapes[] = {
    {"sm100_score_h64_t1", 64, 128}, {"sm100_score_h128", 128, 128},  {"sm100_score_h32_t2", 32, 128},
    {"sm100_score_h32_t1", 32, 128}, {"sm100_score_h16", 16, 128},    {"sm100_score_h16_t4", 16, 128},
    {"sm100_score_h16_t2", 16, 128}, {"sm100_score_h8", 8, 128},      {"sm100_score_h8_t8", 8, 128},
    {"sm100_score_h8_t4", 8, 128},   {"sm100_score_h4", 4, 128},      {"sm100_score_h4_t16", 4, 128},
    {"sm100_score_h4_t8", 4, 128},   {"sm100_score_h64", 64, 64},     {"sm100_score_h64_t1", 64, 64},
    {"sm100_score_h128", 128, 64},   {"sm100_score_h32", 32, 64},     {"sm100_score_h32_t3", 32, 64},
    {"sm100_score_h32_t1", 32, 64},  {"sm100_score_h16", 16, 64},     {"sm100_score_h16_t4", 16, 64},
    {"sm100_score_h8", 8, 64},       {"sm100_score_h8_t4", 8, 64},    {"sm100_score_h4", 4, 64},
    {"sm100_score_h4_t8", 4, 64},    {"auto", 128, 128},              {"auto", 16, 128},
    {"auto", 8, 128},                {"auto", 4, 128},                {"auto", 4, 64},
    {"auto", 64, 64}};
constexpr int kTileTokens[] = {1, 2, 3, 5, 8, 16, 17, 33};
constexpr int kTileBatches[] = {1, 2, 3};
constexpr int kTileKeys[] = {1, 127, 129, 501, 723};
constexpr Place kTilePlaces[] = {{16, Layout::kBlockSplit},  {48, Layout::kBlockSplit}, {64, Layout::kSplitPool},
                                 {96, Layout::kSplitPool},   {112, Layout::kSplitPool}, {320, Layout::kBlockSplit},
                                 {384, Layout::kBlockSplit}, {0, Layout::kContiguous}};
constexpr Shape kGenericShapes[] = {{"auto", 1, 16},
                                    {"auto", 3, 64},
                                    {"generic_score", 8, 128},
                                    {"generic_score", 32, 128},
                                    {"generic_score", 64, 128},
                                    {"generic_score", 128, 128},
                                    {"generic_score", 64, 64},
                                    {"auto", 128, 16},
                                    {"auto", 32, 16}};

constexpr Situation kSituations[] = {Situation::kPlain,    Situation::kRagged,  Situation::kSlack,
                                     Situation::kDead,     Situation::kLengths, Situation::kZeroTokens,
                                     Situation::kBadPages, Situation::kOverrun};
constexpr Values kValues[] = {Values::kLattice, Values::kNormal, Values::kCodes, Values::kSpecial};

struct Finish {  // strides, flag and where the inputs end
    int page_pad, score_pad;
    bool check_flag, tight;
};
constexpr Finish kFinishes[] = {{0, 0, false, false}, {16, 3, true, false}, {0, 5, true, true}, {208, 0, false, true}};

// ---- the covering list ----

// Dimensions of a row, in this order; a row holds an index into each table.
enum Dimension { kShapeDim, kTokensDim, kBatchDim, kKeysDim, kPlaceDim, kSituationDim, kValuesDim, kFinishDim, kDims };
using Row = std::array<int, kDims>;
using Sizes = std::array<int, kDims>;
template <typename T, size_t n>
constexpr int count_of(const T (&)[n]) {
    return static_cast<int>(n);
}

// The values of the dimensions that differ from list to list.
struct Tables {
    std::span<const Shape> shapes;
    std::span<const int> tokens, batches, keys;
    std::span<const Place> places;
    Sizes sizes() const {
        auto size = [](const auto& table) { return static_cast<int>(table.size()); };
        return {size(shapes), size(tokens),           size(batches),     size(keys),
                size(places), count_of(kSituations), count_of(kValues), count_of(kFinishes)};
    }
};
constexpr Tables kTensorTables{kTensorShapes, kTokens, kBatches, kKeys, kTensorPlaces};
constexpr Tables kTileTables{kTileShapes, kTileTokens, kTileBatches, kTileKeys, kTilePlaces};
constexpr Tables kGenericTables{kGenericShapes, kTokens, kBatches, kKeys, kGenericPlaces};

Case case_of(const Row& row, const Tables& tables, uint32_t seed) {
    Case c;
    c.kernel = tables.shapes[row[kShapeDim]].kernel;
    c.heads = tables.shapes[row[kShapeDim]].heads;
    c.depth = tables.shapes[row[kShapeDim]].depth;
    c.tokens = tables.tokens[row[kTokensDim]];
    c.batch = tables.batches[row[kBatchDim]];
    c.keys = tables.keys[row[kKeysDim]];
    c.page_size = tables.places[row[kPlaceDim]].page_size;
    c.layout = tables.places[row[kPlaceDim]].layout;
    c.situation = kSituations[row[kSituationDim]];
    c.values = kValues[row[kValuesDim]];
    const Finish& finish = kFinishes[row[kFinishDim]];
    c.page_pad = finish.page_pad;
    c.score_pad = finish.score_pad;
    c.check_flag = finish.check_flag;
    c.tight = finish.tight;
    c.seed = seed;
    // Without a table there is no page id that could be bad.
    if (c.situation == Situation::kBadPages && c.layout == Layout::kContiguous) c.situation = Situation::kLengths;
    return c;
}

// Greedy pairwise cover: each row starts from a pair of values that no row has yet and takes, dimension by dimension,
// the value that adds most new pairs among those whose cost stays allowed. Pairs that are too costly with every partner
// are left out; missing_coverage() watches over single values.
template <typename CostOf>
std::vector<Row> pairwise_rows(const Sizes& sizes, CostOf cost_of, double max_cost) {
    auto pair_id = [](int d0, int v0, int d1, int v1) { return ((d0 * 32 + v0) * kDims + d1) * 32 + v1; };
    std::set<int> open;
    for (int d0 = 0; d0 < kDims; ++d0)
        for (int d1 = d0 + 1; d1 < kDims; ++d1)
            for (int v0 = 0; v0 < sizes[d0]; ++v0)
                for (int v1 = 0; v1 < sizes[d1]; ++v1) open.insert(pair_id(d0, v0, d1, v1));
    std::vector<Row> rows;
    int turn = 0;
    while (!open.empty()) {
        const int id = *open.begin();
        const int second = id % (32 * kDims), first = id / (32 * kDims);
        Row row;
        row.fill(-1);
        row[first / 32] = first % 32;
        row[second / 32] = second % 32;
        // Index 0 is each dimension's cheapest value, so an unset dimension counts as that.
        auto cost = [&](Row r) {
            for (int& v : r) v = std::max(v, 0);
            return cost_of(r);
        };
        if (cost(row) <= max_cost) {
            for (int d = 0; d < kDims; ++d) {
                if (row[d] >= 0) continue;
                int best = 0, best_gain = -1;
                for (int i = 0; i < sizes[d]; ++i) {
                    const int v = (i + turn) % sizes[d];  // ties rotate through the values
                    Row candidate = row;
                    candidate[d] = v;
                    if (cost(candidate) > max_cost) continue;
                    int gain = 0;
                    for (int e = 0; e < kDims; ++e)
                        if (e != d && row[e] >= 0)
                            gain += static_cast<int>(e < d ? open.count(pair_id(e, row[e], d, v))
                                                           : open.count(pair_id(d, v, e, row[e])));
                    if (gain > best_gain) best = v, best_gain = gain;
                }
                row[d] = best;
            }
            for (int d0 = 0; d0 < kDims; ++d0)
                for (int d1 = d0 + 1; d1 < kDims; ++d1) open.erase(pair_id(d0, row[d0], d1, row[d1]));
            rows.push_back(row);
        }
        open.erase(id);
        ++turn;
    }
    return rows;
}

// What a case costs on the emulator, in MMA tiles (128 keys x one token tile) and in heads * depth * keys of the
// generic kernel.
double tensor_cost(const Case& c) {
    const int tile_tokens = c.heads == 64 ? 2 : c.heads == 32 ? 3 : (128 + c.heads - 1) / c.heads;
    return double((c.keys + 127) / 128) * ((c.tokens + tile_tokens - 1) / tile_tokens) * c.batch;
}
double generic_cost(const Case& c) { return double(c.keys) * c.tokens * c.batch * c.heads * c.depth; }

constexpr double kCoveringTensorTiles = 400;   // 8300 keys, three token tiles, two requests
constexpr double kCoveringGenericFmas = 40e6;  // 4900 cells at 64 heads
constexpr double kCoveringTileFmas = 15e6;     // the judges' part of kTileShapes

void append(std::vector<Case>* cases, const std::vector<Case>& more) {
    cases->insert(cases->end(), more.begin(), more.end());
}
void append_named(std::vector<Case>* cases, std::initializer_list<const char*> names) {
    append(cases, cases_named(names));
}

// ---- the engine's words

struct Switch {
    const char* word;
    bool (*on)(const Engine&);
    void (*set)(Engine&);
};
constexpr Switch kSwitches[] = {
    {"fixed", [](const Engine& e) { return e.rows == Engine::Rows::kFixed; },
     [](Engine& e) { e.rows = Engine::Rows::kFixed; }},
    {"ids", [](const Engine& e) { return e.rows == Engine::Rows::kIds; },
     [](Engine& e) { e.rows = Engine::Rows::kIds; }},
    {"causal", [](const Engine& e) { return e.sees == Engine::Sees::kCausal; },
     [](Engine& e) { e.sees = Engine::Sees::kCausal; }},
    {"rowlen", [](const Engine& e) { return e.sees == Engine::Sees::kRowLength; },
     [](Engine& e) { e.sees = Engine::Sees::kRowLength; }},
    {"window", [](const Engine& e) { return e.sees == Engine::Sees::kWindow; },
     [](Engine& e) { e.sees = Engine::Sees::kWindow; }},
    {"i64", [](const Engine& e) { return e.wide; }, [](Engine& e) { e.wide = true; }},
    {"wbf16", [](const Engine& e) { return e.weight_bf16; }, [](Engine& e) { e.weight_bf16 = true; }},
    {"w2", [](const Engine& e) { return e.factor == 1; }, [](Engine& e) { e.factor = 1; }},
    {"w2bf16", [](const Engine& e) { return e.factor == 2; }, [](Engine& e) { e.factor = 2; }},
    {"stable", [](const Engine& e) { return e.scale_table; }, [](Engine& e) { e.scale_table = true; }},
    {"bf16", [](const Engine& e) { return e.bf16; }, [](Engine& e) { e.bf16 = true; }},
    {"rel", [](const Engine& e) { return e.relative; }, [](Engine& e) { e.relative = true; }},
    {"pdl", [](const Engine& e) { return e.pdl; }, [](Engine& e) { e.pdl = true; }},
    {"fast", [](const Engine& e) { return e.fast; }, [](Engine& e) { e.fast = true; }},
};
struct Number {
    const char* word;
    int Engine::*value;
    int none, lowest, highest;
};
constexpr Number kNumbers[] = {{"r", &Engine::ratio, 1, 2, 512},
                               {"wgap", &Engine::weight_gap, 0, 1, 4096},
                               {"cut", &Engine::cut, 0, 1, 1 << 20},
                               {"fill", &Engine::fill, -1, 0, 1 << 20},
                               {"sms", &Engine::sms, 0, 1, 1 << 20}};

std::string engine_words(const Engine& e) {
    std::string text;
    auto add = [&](const std::string& word) { text += (text.empty() ? "" : ",") + word; };
    for (const Switch& s : kSwitches)
        if (s.on(e)) add(s.word);
    for (const Number& n : kNumbers)
        if (e.*n.value != n.none) add(n.word + std::to_string(e.*n.value));
    if (!e.label.empty()) add("@" + e.label);
    return text;
}

bool parse_word(const std::string& word, Engine* e) {
    if (word.size() > 1 && word[0] == '@') return e->label = word.substr(1), true;
    for (const Switch& s : kSwitches)
        if (word == s.word) return s.set(*e), true;
    for (const Number& n : kNumbers) {
        const std::string prefix = n.word;
        if (word.compare(0, prefix.size(), prefix) != 0) continue;
        int value = 0;
        const auto [stop, code] = std::from_chars(word.data() + prefix.size(), word.data() + word.size(), value);
        if (code != std::errc() || stop != word.data() + word.size() || value < n.lowest || value > n.highest) continue;
        return e->*n.value = value, true;
    }
    return false;
}

}  // namespace

const char* layout_name(Layout layout) { return kLayoutNames[static_cast<int>(layout)]; }
const char* values_name(Values values) { return kValuesNames[static_cast<int>(values)]; }
const char* situation_name(Situation situation) { return kSituationNames[static_cast<int>(situation)]; }

std::string case_name(const Case& c) {
    auto number = [](const char* prefix, long long value) { return "/" + (prefix + std::to_string(value)); };
    return c.kernel + number("h", c.heads) + number("d", c.depth) + number("t", c.tokens) + number("b", c.batch) +
           number("n", c.keys) + number("p", c.page_size) + "/" + layout_name(c.layout) + number("pad", c.page_pad) +
           number("gap", c.score_pad) + "/" + values_name(c.values) + "/" + situation_name(c.situation) +
           (c.check_flag ? "/check" : "/nocheck") + (c.tight ? "/tight" : "/guard") + number("s", c.seed) +
           (c.engine == Engine{} ? "" : "/" + engine_words(c.engine));
}

bool parse_case(const std::string& name, Case* c, std::string* error) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= name.size();) {
        const size_t end = std::min(name.find('/', begin), name.size());
        parts.push_back(name.substr(begin, end - begin));
        begin = end + 1;
    }
    if (parts.size() != 15 && parts.size() != 16) {
        *error = "a case name has 15 parts or 16, this one has " + std::to_string(parts.size());
        return false;
    }
    auto number = [&](size_t i, const std::string& prefix, int lowest, int highest, int* value) {
        const std::string& part = parts[i];
        const char* begin = part.data() + std::min(prefix.size(), part.size());
        const char* end = part.data() + part.size();
        const auto [stop, code] = std::from_chars(begin, end, *value);
        const bool ok = part.compare(0, prefix.size(), prefix) == 0 && code == std::errc() && stop == end &&
                        *value >= lowest && *value <= highest;
        if (!ok)
            *error = "'" + part + "' is not " + prefix + "<" + std::to_string(lowest) + " .. " +
                     std::to_string(highest) + ">";
        return ok;
    };
    auto word = [&](size_t i, auto& names, int* value) {
        for (int v = 0; v < count_of(names); ++v)
            if (parts[i] == names[v]) return *value = v, true;
        *error = "'" + parts[i] + "' is unknown";
        return false;
    };
    constexpr const char* kCheckNames[] = {"nocheck", "check"};
    constexpr const char* kEdgeNames[] = {"guard", "tight"};
    Case r;
    int layout = 0, values = 0, situation = 0, check_flag = 0, tight = 0, seed = 0;
    r.kernel = parts[0];
    if (!number(1, "h", 1, 128, &r.heads) || !number(2, "d", 16, 128, &r.depth) ||
        !number(3, "t", 0, 4096, &r.tokens) || !number(4, "b", 1, 4096, &r.batch) ||
        !number(5, "n", 1, 1 << 20, &r.keys) || !number(6, "p", 0, 4096, &r.page_size) ||
        !word(7, kLayoutNames, &layout) || !number(8, "pad", 0, 1 << 16, &r.page_pad) ||
        !number(9, "gap", 0, 1 << 16, &r.score_pad) || !word(10, kValuesNames, &values) ||
        !word(11, kSituationNames, &situation) || !word(12, kCheckNames, &check_flag) ||
        !word(13, kEdgeNames, &tight) || !number(14, "s", 0, 1 << 30, &seed))
        return false;
    r.layout = static_cast<Layout>(layout);
    r.values = static_cast<Values>(values);
    r.situation = static_cast<Situation>(situation);
    r.check_flag = check_flag != 0;
    r.tight = tight != 0;
    r.seed = static_cast<uint32_t>(seed);
    if ((r.page_size == 0) != (r.layout == Layout::kContiguous)) {
        *error = "p0 and contiguous go together";
        return false;
    }
    if (r.page_pad % 16 != 0) {
        *error = "pad is not a multiple of 16";
        return false;
    }
    const std::string words = parts.size() == 16 ? parts[15] : "";
    for (size_t begin = 0; begin < words.size();) {
        const size_t end = std::min(words.find(',', begin), words.size());
        if (!parse_word(words.substr(begin, end - begin), &r.engine)) {
            *error = "'" + words.substr(begin, end - begin) + "' is unknown";
            return false;
        }
        begin = end + 1;
    }
    if (r.engine.scale_table && r.layout != Layout::kSplitPool) {
        *error = "stable goes with split-pool";   // elsewhere scales lie in their keys' pages
        return false;
    }
    *c = r;
    return true;
}

std::vector<Case> cases_named(std::initializer_list<const char*> names) {
    std::vector<Case> cases;
    for (const char* name : names) {
        Case c;
        std::string error;
        if (!parse_case(name, &c, &error)) {
            std::fprintf(stderr, "check: built-in case %s: %s\n", name, error.c_str());
            std::abort();
        }
        cases.push_back(c);
    }
    return cases;
}

std::vector<Case> covering_cases() {
    std::vector<Case> cases;
    uint32_t seed = 0;
    auto cover = [&](const Tables& tables, double (*cost_of)(const Case&), double max_cost) {
        auto cost = [&](const Row& row) { return cost_of(case_of(row, tables, 0)); };
        for (const Row& row : pairwise_rows(tables.sizes(), cost, max_cost))
            cases.push_back(case_of(row, tables, ++seed));
    };
    cover(kTensorTables, tensor_cost, kCoveringTensorTiles);
    cover(kTileTables, generic_cost, kCoveringTileFmas);
    cover(kGenericTables, generic_cost, kCoveringGenericFmas);
    // What pairs alone do not force: slices > 1 (few key tiles, many token tiles), slices cut short by the machine's
    // size, and one slice because the key tiles fill the machine.
    append_named(
        &cases,
        {
            "sm100_score_h64/h64/d128/t33/b1/n128/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1001",
            "sm100_score_h64/h64/d128/t9/b1/n501/p64/split-pool/pad16/gap1/normal/plain/nocheck/guard/s1002",
            "sm100_score_h64/h64/d128/t12/b3/n600/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1003",
            "sm100_score_h64/h64/d128/t7/b75/n129/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1004",
            "sm100_score_h64/h64/d128/t3/b150/n127/p128/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1005",
            "sm100_score_h32/h32/d128/t40/b1/n129/p16/block-split/pad0/gap0/lattice/slack/nocheck/guard/s1006",
            "sm100_score_h32/h32/d128/t17/b2/n128/p0/contiguous/pad0/gap0/codes/plain/nocheck/tight/s1007",
            "sm100_score_h32_t3/h32/d128/t31/b1/n128/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1008",
            "sm100_score_h32_t3/h32/d128/t9/b2/n722/p256/split-pool/pad0/gap7/lattice/ragged/check/tight/s1009",
            // The shares of persistent CTAs: chunks of keys under several token blocks, many requests per CTA and many
            // CTAs per request, three token groups out of four, more requests than threads.
            "sm90_score_h64/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1101",
            "sm90_score_h64/h64/d128/t3/b2/n4100/p16/block-split/pad16/gap1/normal/ragged/nocheck/guard/s1102",
            "sm90_score_h64/h64/d128/t2/b150/n200/p32/split-pool/pad0/gap0/lattice/ragged/nocheck/tight/s1103",
            "sm90_score_h64/h64/d128/t68/b1/n300/p0/contiguous/pad0/gap0/codes/plain/nocheck/guard/s1104",
            "sm90_score_h64/h64/d128/t1/b700/n70/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1105",
            "sm90_score_h64/h64/d128/t1/b1/n8300/p256/split-pool/pad0/gap3/normal/plain/check/tight/s1106",
            "sm90_score_h32/h32/d128/t5/b3/n1100/p128/block-split/pad0/gap0/normal/bad-pages/check/guard/s1107",
            "sm90_score_h32/h32/d128/t17/b2/n2600/p16/block-split/pad0/gap0/codes/slack/nocheck/guard/s1108",
            "sm90_score_h64/h64/d128/t6/b40/n300/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1110",
            "sm90_score_h32/h32/d128/t1/b40/n129/p64/block-split/pad32/gap0/special/lengths/nocheck/guard/s1109",
            "sm90_score_h64_plain/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1111",
            "sm90_score_h64_plain/h64/d128/t3/b2/n4100/p16/block-split/pad16/gap1/normal/ragged/nocheck/guard/s1112",
            "sm90_score_h64_plain/h64/d128/t1/b700/n70/p32/split-pool/pad0/gap0/special/lengths/check/tight/s1113",
            "sm90_score_h32_plain/h32/d128/t5/b3/n1100/p128/block-split/pad0/gap0/normal/bad-pages/check/guard/s1114",
            "sm90_score_h32_plain/h32/d128/t17/b2/n2600/p0/contiguous/pad0/gap0/codes/slack/nocheck/guard/s1115",
            "sm90_score_h32_plain/h32/d128/t6/b40/n300/p48/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1116",
            // Few CTAs, so that shares have many tiles: four groups in rounds of eight, from items that begin anywhere
            // in one, behind a rehearsal and without.
            "sm90_score_h64_plain/h64/d128/t4/b34/n900/p64/block-split/pad0/gap0/codes/ragged/nocheck/tight/s1117/sms3",
            "sm90_score_h64_plain/h64/d128/t3/b5/n1500/p0/contiguous/pad0/gap0/normal/ragged/nocheck/tight/s1118/sms2",
            // Up to six groups for three warpgroups: one to six, an odd token of 32 heads, chunks of keys under two
            // blocks, items whose groups change, more requests than threads.
            "sm90_pair_h64/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1151",
            "sm90_pair_h64/h64/d128/t6/b3/n1100/p16/block-split/pad16/gap1/normal/ragged/nocheck/guard/s1152",
            "sm90_pair_h64/h64/d128/t5/b2/n2100/p128/split-pool/pad0/gap0/normal/bad-pages/check/guard/s1153",
            "sm90_pair_h64/h64/d128/t6/b40/n300/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1154",
            "sm90_pair_h64/h64/d128/t2/b600/n70/p48/split-pool/pad0/gap0/special/lengths/check/tight/s1155",
            "sm90_pair_h32/h32/d128/t17/b2/n600/p0/contiguous/pad0/gap0/codes/slack/nocheck/guard/s1156",
            "sm90_pair_h32/h32/d128/t12/b3/n1100/p256/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1157",
            "sm90_pair_h32/h32/d128/t9/b7/n700/p16/split-pool/pad16/gap3/special/bad-pages/check/tight/s1158",
            // Four and five groups, of any number of tiles: warpgroups of one group beside those of two; three groups.
            "sm90_pair_h64/h64/d128/t4/b5/n1300/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1159",
            "sm90_pair_h64/h64/d128/t5/b40/n330/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s1163",
            "sm90_pair_h64/h64/d128/t3/b3/n1500/p32/split-pool/pad0/gap0/normal/ragged/nocheck/tight/s1164",
            "sm90_pair_h32/h32/d128/t7/b3/n900/p64/block-split/pad0/gap0/special/ragged/check/guard/s1165",
            "sm90_pair_h32/h32/d128/t10/b4/n1100/p48/split-pool/pad16/gap1/normal/lengths/nocheck/guard/s1166",
            "sm90_pair_h64/h64/d128/t6/b35/n600/p64/block-split/pad0/gap0/lattice/ragged/nocheck/tight/s1167/sms3",
            // Causal rows of plain kernels, which see less than the hull at the end of the keys alone: several tiles in
            // vain for the first rows (tokens per key), no keys for some, items of all kinds, rows by all maps.
            "sm90_decode_h64/h64/d128/t1/b3/n1100/p64/block-split/pad0/gap0/lattice/ragged/nocheck/tight/s1171/causal",
            "sm90_decode_h64/h64/d128/t4/b40/n300/p48/block-split/pad0/gap0/normal/bad-pages/check/guard/s1172/"
            "fixed,causal,i64",
            "sm90_decode_h64/h64/d128/t3/b2/n700/p16/split-pool/pad0/gap3/lattice/lengths/nocheck/tight/s1173/"
            "ids,causal,r4,sms3",
            "sm90_decode_h32/h32/d128/t8/b3/n530/p128/block-split/pad0/gap0/special/ragged/check/guard/s1174/causal,r2",
            "sm90_score_h64_plain/h64/d128/t4/b5/n1500/p64/block-split/pad0/gap0/lattice/ragged/nocheck/tight/s1175/"
            "causal,sms2",
            "sm90_score_h64_plain/h64/d128/t9/b2/n700/p32/split-pool/pad16/gap1/normal/bad-pages/check/guard/s1176/"
            "ids,causal,r4",
            "sm90_score_h64_plain/h64/d128/t2/b40/n300/p0/contiguous/pad0/gap0/codes/slack/nocheck/tight/s1177/"
            "fixed,causal,i64",
            "sm90_score_h32_plain/h32/d128/t7/b3/n900/p48/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s1178/"
            "causal",
            "sm90_score_h32_plain/h32/d128/t3/b35/n400/p64/split-pool/pad0/gap0/special/ragged/check/tight/s1179/"
            "causal,r2,sms3",
            "sm90_pair_h64/h64/d128/t6/b5/n1300/p64/block-split/pad0/gap0/lattice/ragged/nocheck/tight/s1180/"
            "causal,sms2",
            "sm90_pair_h64/h64/d128/t5/b2/n600/p16/split-pool/pad16/gap1/normal/bad-pages/check/guard/s1181/"
            "fixed,causal,r4,i64",
            "sm90_pair_h64/h64/d128/t9/b40/n200/p32/block-split/pad0/gap0/codes/lengths/nocheck/guard/s1182/causal",
            "sm90_pair_h32/h32/d128/t11/b3/n700/p0/contiguous/pad0/gap0/lattice/slack/nocheck/tight/s1183/causal",
            "sm90_pair_h32/h32/d128/t5/b35/n330/p48/split-pool/pad0/gap0/special/ragged/check/guard/s1184/"
            "ids,causal,r2",
            // Four heads: a token's columns are half zeros; one to four groups of eight tokens, the last with gaps.
            "sm90_score_h4/h4/d128/t33/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1140",
            "sm90_score_h4/h4/d128/t7/b3/n501/p16/split-pool/pad16/gap1/normal/ragged/check/guard/s1141",
            "sm90_score_h4/h4/d128/t17/b2/n300/p0/contiguous/pad0/gap0/codes/plain/nocheck/tight/s1142",
            "sm90_score_h4/h4/d128/t1/b40/n129/p48/block-split/pad0/gap0/special/lengths/check/guard/s1143",
            "sm90_score_h4/h4/d128/t25/b2/n700/p256/block-split/pad0/gap3/normal/bad-pages/check/guard/s1144/"
            "causal,bf16,wbf16",
            // The fast mode: blocks of 12 and 24 tokens, the last of them with one, two or three groups, rounds of the
            // ring, many requests a CTA, shares that begin inside a block; what a user gets with the flag.
            "sm90_fast_h64/h64/d128/t13/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1401",
            "sm90_fast_h64/h64/d128/t12/b2/n501/p16/block-split/pad16/gap1/normal/ragged/nocheck/guard/s1402",
            "sm90_fast_h64/h64/d128/t7/b40/n200/p32/split-pool/pad0/gap0/lattice/ragged/nocheck/tight/s1403",
            "sm90_fast_h64/h64/d128/t30/b1/n129/p0/contiguous/pad0/gap0/codes/plain/nocheck/guard/s1404",
            "sm90_fast_h64/h64/d128/t1/b5/n300/p256/split-pool/pad0/gap3/normal/bad-pages/check/tight/s1405",
            "sm90_fast_h64/h64/d128/t9/b3/n127/p128/block-split/pad0/gap0/special/lengths/check/guard/s1406",
            "sm90_fast_h64/h64/d128/t17/b2/n300/p48/block-split/pad0/gap0/lattice/slack/nocheck/guard/s1407",
            "sm90_fast_h32/h32/d128/t25/b1/n1100/p128/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1408",
            "sm90_fast_h32/h32/d128/t24/b2/n200/p16/block-split/pad0/gap0/codes/ragged/nocheck/guard/s1409",
            "sm90_fast_h32/h32/d128/t9/b20/n129/p64/split-pool/pad0/gap0/lattice/ragged/nocheck/tight/s1410",
            "sm90_fast_h32/h32/d128/t50/b1/n70/p0/contiguous/pad0/gap2/normal/slack/nocheck/guard/s1411",
            "sm90_fast_h32/h32/d128/t17/b3/n129/p64/block-split/pad32/gap0/special/lengths/nocheck/guard/s1412",
            "sm90_fast_h32/h32/d128/t3/b4/n300/p96/block-split/pad0/gap0/lattice/overrun/nocheck/guard/s1413",
            "sm90_fast_h64/h64/d128/t320/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1414",
            "sm90_fast_h32/h32/d128/t320/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1415",
            // Three CTAs: the second has the beginning of a block, without a tile, and the last tiles of that before.
            "sm90_fast_h64/h64/d128/t12/b2/n384/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1422",
            "sm90_fast_h32/h32/d128/t24/b2/n384/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1423",
            "sm90_fast_h64/h64/d128/t13/b9/n63/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/tight/s1420",
            "sm90_fast_h32/h32/d128/t9/b5/n1/p0/contiguous/pad0/gap0/codes/plain/nocheck/guard/s1421/bf16",
            "auto/h64/d128/t12/b2/n130/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1416/causal,fast",
            "auto/h32/d128/t24/b1/n130/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1417/fast",
            "auto/h64/d128/t11/b2/n130/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1418/fast",
            "auto/h16/d128/t30/b1/n130/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1419/fast",
            // The shares of warpgroups: more requests than lanes, thrice; windows of 32 tiles that cross them; several
            // token blocks; tiles whose warps have keys, a few or none.
            "sm90_decode_h64/h64/d128/t1/b700/n70/p32/split-pool/pad0/gap0/special/lengths/check/tight/s1121",
            "sm90_decode_h64/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1122",
            "sm90_decode_h64/h64/d128/t1/b2/n8300/p16/block-split/pad16/gap1/normal/ragged/nocheck/guard/s1123",
            "sm90_decode_h64/h64/d128/t3/b150/n200/p64/block-split/pad0/gap0/normal/ragged/check/guard/s1124",
            "sm90_decode_h64/h64/d128/t4/b40/n300/p48/block-split/pad0/gap0/lattice/bad-pages/check/guard/s1125",
            "sm90_decode_h32/h32/d128/t8/b3/n1100/p128/block-split/pad0/gap0/normal/bad-pages/check/guard/s1126",
            "sm90_decode_h32/h32/d128/t17/b2/n2600/p0/contiguous/pad0/gap0/codes/slack/nocheck/guard/s1127",
            "sm90_decode_h32/h32/d128/t2/b40/n730/p256/split-pool/pad0/gap3/lattice/ragged/nocheck/tight/s1128",
            "sm90_decode_h32/h32/d128/t5/b1/n8191/p0/contiguous/pad0/gap0/special/plain/nocheck/tight/s1129",
            // Blocks of eight tokens: several a CTA and several CTAs a block, tiles on whose edge a row's keys end.
            "sm90_wide_h64/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1121",
            "sm90_wide_h32/h32/d128/t17/b2/n1300/p16/block-split/pad0/gap0/codes/slack/nocheck/guard/s1122",
            "sm90_wide_h64_plain/h64/d128/t68/b1/n300/p0/contiguous/pad0/gap0/codes/plain/nocheck/guard/s1123/causal",
            "sm90_wide_h64_plain/h64/d128/t20/b3/n501/p48/split-pool/pad16/gap1/normal/bad-pages/check/guard/s1124/"
            "window",
            "sm90_wide_h32_plain/h32/d128/t33/b2/n700/p64/block-split/pad0/gap3/special/ragged/check/tight/s1125/"
            "rowlen",
            "sm90_wide_h64/h64/d128/t12/b2/n200/p64/block-split/pad0/gap3/codes/slack/check/guard/s1126/"
            "window,rel,bf16,wbf16",
            "sm90_wide_h32/h32/d128/t19/b2/n333/p128/block-split/pad0/gap0/normal/ragged/nocheck/guard/s1127/"
            "causal,fill400",
            "sm90_wide_h64_plain/h64/d128/t1/b40/n288/p96/block-split/pad0/gap0/lattice/lengths/check/guard/s1128",
            // Contiguous keys that are less than a tile: the first tiles' box is as short.
            "sm90_wide_h64_plain/h64/d128/t31/b5/n95/p0/contiguous/pad16/gap3/lattice/zero-tokens/check/tight/s1129/"
            "rowlen",
            "sm90_wide_h32/h32/d128/t17/b2/n1/p0/contiguous/pad0/gap0/normal/plain/nocheck/guard/s1130/w2",
            // The same on compute capability 10: blocks of four tokens and eight, few CTAs with many tiles.
            "sm100_wide_h64/h64/d128/t9/b1/n2600/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1501/sms2",
            "sm100_wide_h32/h32/d128/t17/b2/n1300/p16/block-split/pad0/gap0/codes/slack/nocheck/guard/s1502/sms3",
            "sm100_wide_h64/h64/d128/t68/b1/n300/p0/contiguous/pad0/gap0/codes/plain/nocheck/guard/s1503/causal",
            "sm100_wide_h64/h64/d128/t20/b3/n501/p48/split-pool/pad16/gap1/normal/bad-pages/check/guard/s1504/"
            "window,sms2",
            "sm100_wide_h32/h32/d128/t33/b2/n700/p64/block-split/pad0/gap3/special/ragged/check/tight/s1505/"
            "rowlen,sms2",
            "sm100_wide_h64/h64/d128/t12/b2/n1100/p128/block-split/pad0/gap0/normal/ragged/nocheck/guard/s1506/"
            "ids,causal,i64,pdl,r4,sms1",
            "sm100_wide_h32/h32/d128/t19/b2/n333/p256/split-pool/pad0/gap0/special/bad-pages/check/guard/s1507/"
            "fixed,causal",
            "sm100_wide_h64/h64/d128/t1/b40/n288/p96/block-split/pad0/gap0/lattice/lengths/check/guard/s1508/sms2",
            "sm100_wide_h64/h64/d128/t31/b5/n95/p0/contiguous/pad16/gap3/lattice/zero-tokens/check/tight/s1509/"
            "rowlen",
            "sm100_wide_h32/h32/d128/t17/b2/n1/p0/contiguous/pad0/gap0/normal/plain/nocheck/guard/s1510",
            "sm100_wide_h64/h64/d128/t6/b7/n700/p32/block-split/pad0/gap0/lattice/overrun/nocheck/guard/s1511/"
            "ids,window,sms1",
            "auto/h64/d128/t16/b2/n300/p112/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1512/causal",
            "auto/h32/d128/t40/b2/n300/p320/split-pool/pad0/gap0/normal/plain/check/guard/s1513/window,pdl",
            // A NaN for each head at each place of a token tile, one at a time.
            "sm100_score_h64/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1301",
            "sm100_score_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1302",
            "sm100_score_h32_t3/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1303",
            "sm100_score_h128/h128/d128/t1280/b1/n5/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1306",
            "sm100_wide_h64/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1314",
            "sm100_wide_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1315",
            "sm100_score_h16/h16/d64/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1307",
            "sm100_score_h8/h8/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1308",
            "sm100_score_h4/h4/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1309",
            "sm90_score_h64/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1304",
            "sm90_score_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1305",
            "sm90_pair_h64/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1312",
            "sm90_pair_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1313",
            "sm90_decode_h64/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1310",
            "sm90_decode_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1311",
            "sm90_wide_h64_plain/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1310",
            "sm90_wide_h32/h32/d128/t640/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1311",
        });
    append(&cases, engine_cases());
    append(&cases, sm100_engine_cases());
    return cases;
}

std::vector<Case> long_cases() {
    std::vector<Case> cases;
    uint32_t seed = 100000;
    constexpr Shape shapes[] = {{"sm90_score_h64", 64, 128},     {"sm90_score_h32", 32, 128},
                                {"sm90_score_h64_plain", 64, 128}, {"sm90_score_h32_plain", 32, 128},
                                {"sm90_pair_h64", 64, 128},      {"sm90_pair_h32", 32, 128},
                                {"sm90_decode_h64", 64, 128},    {"sm90_decode_h32", 32, 128},
                                {"sm90_wide_h64_plain", 64, 128}, {"sm90_wide_h32", 32, 128},
                                {"sm100_wide_h64", 64, 128},     {"sm100_wide_h32", 32, 128},
                                {"sm100_score_h64", 64, 128},    {"sm100_score_h32", 32, 128},
                                {"sm100_score_h32_t3", 32, 128}, {"generic_score", 64, 128},
                                {"generic_score", 32, 128}};
    for (const Shape& shape : shapes)
        for (int tokens : kTokens)
            for (const Place& place : kTensorPlaces)
                for (int keys : kKeys)
                    for (Situation situation : {Situation::kPlain, Situation::kRagged})
                        for (Values values : {Values::kLattice, Values::kNormal}) {
                            Case c;
                            c.kernel = shape.kernel;
                            c.heads = shape.heads;
                            c.depth = shape.depth;
                            c.tokens = tokens;
                            c.batch = situation == Situation::kRagged ? 3 : 1;
                            c.keys = keys;
                            c.page_size = place.page_size;
                            c.layout = place.layout;
                            c.situation = situation;
                            c.values = values;
                            c.seed = ++seed;
                            c.page_pad = (seed % 3) * 16;
                            c.score_pad = static_cast<int>(seed % 4);
                            c.tight = seed % 2 != 0;
                            // The generic kernel's random values are left to the covering set: they take longest here.
                            if (std::string(shape.kernel) == "generic_score" && values != Values::kLattice) continue;
                            cases.push_back(c);
                        }
    append(&cases, shape_cases());
    // Long runs of tiles per persistent CTA on a whole H200: the 16-fold unrolled loop.
    append_named(&cases, {
        "sm90_score_h64/h64/d128/t4/b1/n150000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1201",
        "sm90_score_h32/h32/d128/t8/b1/n150000/p0/contiguous/pad0/gap0/lattice/plain/nocheck/guard/s1202",
        "sm90_score_h64_plain/h64/d128/t4/b1/n150000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1203",
        "sm90_score_h32_plain/h32/d128/t8/b1/n150000/p0/contiguous/pad0/gap0/lattice/plain/nocheck/guard/s1204",
        "sm90_pair_h64/h64/d128/t6/b1/n150000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1207",
        "sm90_pair_h32/h32/d128/t12/b1/n150000/p0/contiguous/pad0/gap0/lattice/plain/nocheck/guard/s1208",
        "sm90_decode_h64/h64/d128/t1/b3/n550000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s1205",
        "sm90_decode_h32/h32/d128/t8/b1/n150000/p0/contiguous/pad0/gap0/lattice/plain/nocheck/guard/s1206",
    });
    return cases;
}

std::vector<Case> seed_cases() {
    std::vector<Case> cases;
    append_named(
        &cases,
        {
            "sm100_score_h64/h64/d128/t1/b1/n129/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s2001",
            "sm100_score_h64/h64/d128/t7/b1/n128/p16/block-split/pad16/gap1/normal/plain/nocheck/guard/s2002",
            "sm100_score_h64/h64/d128/t5/b3/n501/p32/split-pool/pad0/gap0/codes/ragged/nocheck/guard/s2003",
            "sm100_score_h64/h64/d128/t4/b2/n600/p256/block-split/pad0/gap3/normal/bad-pages/check/guard/s2004",
            "sm100_score_h32/h32/d128/t9/b2/n300/p128/block-split/pad0/gap0/codes/ragged/nocheck/tight/s2005",
            "sm100_score_h32/h32/d128/t4/b1/n723/p0/contiguous/pad0/gap0/normal/plain/nocheck/guard/s2006",
            "sm100_score_h32_t3/h32/d128/t9/b1/n257/p64/split-pool/pad32/gap0/normal/slack/nocheck/guard/s2007",
            "sm100_score_h32_t3/h32/d128/t6/b2/n127/p64/block-split/pad0/gap0/special/lengths/nocheck/guard/s2008",
            "sm100_score_h64_t1/h64/d128/t3/b2/n129/p48/block-split/pad0/gap0/normal/ragged/nocheck/guard/s2010",
            "sm100_score_h128/h128/d64/t4/b1/n200/p16/split-pool/pad0/gap0/codes/plain/nocheck/tight/s2011",
            "sm100_score_h16_t2/h16/d128/t7/b2/n300/p96/block-split/pad0/gap2/normal/bad-pages/check/guard/s2012",
            "sm100_score_h8/h8/d64/t50/b1/n129/p112/split-pool/pad0/gap0/normal/ragged/nocheck/guard/s2013",
            "sm100_score_h4/h4/d128/t100/b1/n150/p0/contiguous/pad0/gap0/special/plain/nocheck/guard/s2014",
            "sm100_wide_h64/h64/d128/t17/b3/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2015/"
            "causal,sms2",
            "sm100_wide_h64/h64/d128/t9/b1/n1400/p128/block-split/pad0/gap0/normal/plain/nocheck/tight/s2016/sms1",
            "sm100_wide_h32/h32/d128/t20/b2/n600/p16/block-split/pad0/gap0/special/bad-pages/check/guard/s2017/"
            "window,sms2",
            "sm90_score_h64/h64/d128/t1/b2/n700/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s2101",
            "sm90_score_h64/h64/d128/t1/b30/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2106",
            "sm90_score_h64/h64/d128/t5/b20/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
            "sm90_score_h32/h32/d128/t3/b20/n1450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2108",
            "sm90_score_h64/h64/d128/t3/b2/n300/p16/block-split/pad16/gap1/normal/plain/nocheck/guard/s2102",
            "sm90_score_h64/h64/d128/t9/b1/n600/p32/split-pool/pad0/gap0/codes/slack/nocheck/tight/s2103",
            "sm90_score_h32/h32/d128/t3/b3/n500/p256/block-split/pad0/gap0/normal/bad-pages/check/guard/s2104",
            "sm90_score_h32/h32/d128/t10/b1/n723/p0/contiguous/pad0/gap2/special/plain/nocheck/guard/s2105",
            "sm90_score_h64_plain/h64/d128/t5/b20/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2109",
            "sm90_score_h32_plain/h32/d128/t3/b20/n1450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2110",
            "sm90_pair_h64/h64/d128/t6/b12/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2115",
            "sm90_pair_h32/h32/d128/t11/b3/n700/p16/split-pool/pad16/gap1/normal/bad-pages/check/guard/s2116",
            "sm90_fast_h64/h64/d128/t14/b2/n700/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s2201",
            "sm90_fast_h64/h64/d128/t6/b6/n450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2202/causal",
            "sm90_fast_h32/h32/d128/t26/b2/n300/p32/split-pool/pad0/gap0/lattice/slack/check/tight/s2203/window,fill9",
            "sm90_fast_h32/h32/d128/t10/b3/n900/p0/contiguous/pad0/gap2/special/plain/nocheck/guard/s2204",
            "sm90_decode_h64/h64/d128/t1/b5/n1450/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s2111",
            "sm90_decode_h64/h64/d128/t3/b40/n200/p32/split-pool/pad0/gap1/lattice/ragged/check/guard/s2112",
            "sm90_decode_h32/h32/d128/t5/b3/n1100/p48/block-split/pad16/gap0/codes/bad-pages/check/guard/s2113",
            "sm90_decode_h32/h32/d128/t20/b2/n723/p0/contiguous/pad0/gap2/special/plain/nocheck/tight/s2114",
            "sm90_wide_h64_plain/h64/d128/t17/b3/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2111/"
            "causal",
            "sm90_wide_h32/h32/d128/t20/b2/n600/p16/block-split/pad0/gap0/normal/bad-pages/check/guard/s2112/window",
            "sm90_wide_h128/h128/d128/t9/b2/n300/p64/block-split/pad0/gap0/normal/ragged/nocheck/guard/s2113",
            "generic_score/h8/d64/t3/b2/n150/p7/block-split/pad0/gap2/normal/ragged/check/guard/s2009",
        });
    return cases;
}

std::vector<Case> random_cases(int count, uint32_t seed) {
    lidx::ref::Rng rng(seed);
    auto draw = [&](int low, int high) { return static_cast<int>(rng.between(low, high)); };
    // Mostly small, now and then large.
    auto skewed = [&](int high) { return draw(1, draw(1, draw(1, high))); };
    std::vector<Case> cases;
    while (static_cast<int>(cases.size()) < count) {
        Case c;
        const bool tensor = rng.below(2) == 0;
        const Shape shape = tensor ? kTensorShapes[rng.below(count_of(kTensorShapes))]
                                   : Shape{rng.below(4) == 0 ? "generic_score" : "auto", draw(1, 128), 16 * draw(1, 8)};
        c.kernel = shape.kernel;
        c.heads = shape.heads;
        c.depth = shape.depth;
        c.tokens = skewed(40);
        c.batch = skewed(200);
        c.keys = skewed(3000);
        const Place place = kTensorPlaces[rng.below(count_of(kTensorPlaces))];
        c.page_size = tensor || place.page_size == 0 ? place.page_size : skewed(300);
        c.layout = place.layout;
        c.page_pad = rng.below(2) == 0 ? 0 : 16 * draw(0, 40);
        c.score_pad = rng.below(2) == 0 ? 0 : draw(0, 40);
        c.values = kValues[rng.below(count_of(kValues))];
        c.situation = kSituations[rng.below(count_of(kSituations))];
        c.check_flag = rng.below(2) == 0;
        c.tight = rng.below(2) == 0;
        c.seed = static_cast<uint32_t>(rng.below(1000000000));
        if (c.situation == Situation::kBadPages && c.page_size == 0) continue;
        if (rng.below(2) == 0) {   // what a user gets: a forced kernel may not serve it
            Engine& e = c.engine;
            if (c.kernel != "generic_score") c.kernel = "auto";
            e.rows = static_cast<Engine::Rows>(rng.below(3));
            e.sees = static_cast<Engine::Sees>(rng.below(4));
            if (e.sees != Engine::Sees::kWindow && rng.below(3) == 0) e.ratio = draw(1, draw(1, 512));
            e.wide = rng.below(2) == 0;
            e.weight_bf16 = rng.below(3) == 0;
            if (rng.below(3) == 0) e.weight_gap = draw(1, 20);
            e.factor = draw(0, 2);
            e.scale_table = c.layout == Layout::kSplitPool && rng.below(2) == 0;
            e.bf16 = rng.below(3) == 0;
            e.relative = rng.below(3) == 0;
            if (e.relative && rng.below(2) == 0) e.cut = draw(1, c.keys + 100);
            if (rng.below(2) == 0) e.fill = draw(0, 300);
            if (rng.below(3) == 0) e.sms = draw(1, 200);
            e.pdl = rng.below(4) == 0;
        }
        if (tensor ? tensor_cost(c) > kCoveringTensorTiles : generic_cost(c) > kCoveringGenericFmas) continue;
        cases.push_back(c);
    }
    return cases;
}

bool is_fast(const Case& c) { return c.engine.fast || c.kernel.rfind("sm90_fast", 0) == 0; }

std::string missing_coverage(const std::vector<Case>& cases) {
    std::set<std::string> seen;
    for (const Case& c : cases) {
        const std::string name = case_name(c);
        for (size_t begin = 0, i = 0; begin < name.size(); ++i) {
            const size_t end = std::min(name.find('/', begin), name.size());
            seen.insert(std::to_string(i) + "=" + name.substr(begin, end - begin));
            begin = end + 1;
        }
        const std::string words = engine_words(c.engine);
        for (size_t begin = 0; begin < words.size();) {
            const size_t end = std::min(words.find(',', begin), words.size());
            const std::string word = words.substr(begin, end - begin);
            seen.insert("engine/" + word);
            seen.insert("engine/" + word.substr(0, word.find_last_not_of("0123456789") + 1));
            begin = end + 1;
        }
        if (c.kernel == "sm100_score_h64" && c.tokens > 4 && c.keys <= 128) seen.insert("sliced");
        seen.insert(c.kernel + "/d" + std::to_string(c.depth));
        seen.insert(c.kernel + (c.heads == 32 ? "/32/" : "/64/") + std::to_string(c.tokens));
        if (c.kernel != "generic_score" && c.depth == 128 && (c.heads == 32 || c.heads == 64)) {
            seen.insert("tensor/p" + std::to_string(c.page_size) + "/" + layout_name(c.layout));
            seen.insert("tensor/n" + std::to_string(c.keys));
        }
    }
    std::vector<std::string> wanted = {"sliced"};
    auto want = [&](int part, const std::string& value) { wanted.push_back(std::to_string(part) + "=" + value); };
    for (const char* kernel : {"auto", "sm100_wide_h64", "sm100_wide_h32", "sm90_score_h64", "sm90_score_h32",
                               "sm90_score_h64_plain", "sm90_score_h32_plain", "sm90_fast_h64", "sm90_fast_h32",
                               "sm90_decode_h64", "sm90_decode_h32", "sm90_pair_h64", "sm90_pair_h32",
                               "generic_score"})
        want(0, kernel);
    for (const Shape& shape : kTensorShapes)
        wanted.push_back(std::string(shape.kernel) + "/d" + std::to_string(shape.depth));
    for (const Shape& shape : kTileShapes)
        wanted.push_back(std::string(shape.kernel) + "/d" + std::to_string(shape.depth));
    for (int heads : {1, 3, 4, 8, 16, 32, 64, 128}) want(1, "h" + std::to_string(heads));
    for (int depth : {16, 64, 128}) want(2, "d" + std::to_string(depth));
    for (int keys : kKeys) {
        want(5, "n" + std::to_string(keys));
        wanted.push_back("tensor/n" + std::to_string(keys));
    }
    for (int page : {0, 1, 3, 7, 16, 32, 48, 64, 96, 112, 128, 256, 320, 384}) want(6, "p" + std::to_string(page));
    for (const Place& place : kTensorPlaces)
        wanted.push_back("tensor/p" + std::to_string(place.page_size) + "/" + layout_name(place.layout));
    for (const char* name : kValuesNames) want(10, name);
    for (const char* name : kSituationNames) want(11, name);
    for (const char* name : {"check", "nocheck"}) want(12, name);
    for (const char* name : {"guard", "tight"}) want(13, name);
    for (int tokens : kTokens)
        for (const char* kernel : {"sm100_score_h64/64/", "sm100_score_h32/32/", "sm100_score_h32_t3/32/",
                                   "sm90_score_h64/64/", "sm90_score_h32/32/"})
            wanted.push_back(kernel + std::to_string(tokens));
    for (const Switch& s : kSwitches) wanted.push_back(std::string("engine/") + s.word);
    for (const Number& n : kNumbers) wanted.push_back(std::string("engine/") + n.word);
    for (const char* label :
         {"rows=0", "rows=1", "rows=padded", "rows=graph-padding", "len<0", "lens-all-0", "len=1", "len=63", "len=64",
          "len=65", "len=2047", "len=2048", "len=2049", "len=64K+1", "len=128K", "next_n=1", "next_n=2", "next_n=3",
          "next_n=4", "next_n=5", "next_n=6", "next_n=uneven-5", "table-poison", "table-exact-width", "page-stride",
          "layers", "nan-inf", "subnormal-codes", "weights-negative-and-0"})
        wanted.push_back(std::string("engine/@") + label);
    for (int heads : {4, 8, 16, 32, 64, 128})
        for (int depth : {128, 64})
            wanted.push_back("engine/@heads=" + std::to_string(heads) + "-depth=" + std::to_string(depth));
    for (const std::string& value : wanted)
        if (seen.count(value) == 0) return "no case has " + value;
    return "";
}

}  // namespace check

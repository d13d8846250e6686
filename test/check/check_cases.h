// SPDX-License-Identifier: Apache-2.0
// What `check` runs: a case is a point in the space of kernels, shapes, layouts, values and situations. Its name says
// all of it, so that a name is enough to repeat the case.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace check {

enum class Layout {
    kBlockSplit,  // one pool: page_size * depth codes, then page_size fp32 scales
    kSplitPool,   // codes and scales in two pools
    kContiguous   // page_size 0: request b is page b, no block table
};

enum class Values {
    kLattice,  // exact in every order and arithmetic: bit equality
    kNormal,   // heavy-tailed activations, quantised: inside the bound
    kCodes,    // every finite e4m3 code with equal chance: inside the bound
    kSpecial   // lattice, with NaN codes in q and k and NaN, inf and -0 among the scales
};

enum class Situation {
    kPlain,       // every request has all its tokens and keys; the table is exactly wide enough
    kRagged,      // tokens 0..T and lengths 0..N drawn per request; rows past the last one stay untouched
    kSlack,       // limits (max_keys, max_tokens, max_rows, table width) above what the requests use
    kDead,        // lengths 0, -1 and INT_MIN only: nothing is written
    kLengths,     // 0, negative, INT_MIN, INT_MAX and too long ones mixed: clamped to the table's width and max_keys
    kZeroTokens,  // requests without tokens
    kBadPages,    // page ids outside the pool inside the lengths: their cells stay dead
    kOverrun      // cu_seqlens_q runs past max_rows: clamped
};

// What an engine sends beyond the plain case; in a name, words behind the seed: ids,window,wbf16,fill65,@rows=0
struct Engine {
    enum class Rows { kCuSeqlens, kFixed, kIds } rows = Rows::kCuSeqlens;                 // -, fixed, ids
    enum class Sees { kLength, kCausal, kRowLength, kWindow } sees = Sees::kLength;       // -, causal, rowlen, window
    int ratio = 1;              // rN: tokens per key
    bool wide = false;          // i64: lengths and windows
    bool weight_bf16 = false;   // wbf16
    int weight_gap = 0;         // wgapN: elements between rows of q_scale
    int factor = 0;             // 1, w2: a second, fp32 factor; 2, w2bf16
    bool scale_table = false;   // stable: the scale pool has a table and a size of its own
    bool bf16 = false;          // bf16: scores
    bool relative = false;      // rel: column 0 is a row's first key
    int cut = 0;                // cutN: N columns, wider windows are cut to them; with rel
    int fill = -1;              // fillN: dead columns get -inf, up to N columns beyond max_keys (or up to the cut)
    int sms = 0;                // smsN: a limit of CTAs
    bool pdl = false;           // pdl
    bool fast = false;          // fast: LIDX_FLAG_FAST
    std::string label;          // @...: the cell of the trigger matrix that the case stands for

    bool operator==(const Engine&) const = default;
    bool fills() const { return fill >= 0; }
};

struct Case {
    std::string kernel = "auto";  // or the symbol that is forced
    int heads = 64, depth = 128;
    int tokens = 1, batch = 1;  // tokens per request
    int keys = 128;             // per request
    int page_size = 64;         // 0: contiguous
    Layout layout = Layout::kBlockSplit;
    int page_pad = 0;   // bytes added to the smallest page strides, a multiple of 16
    int score_pad = 0;  // elements added to the smallest score stride
    Values values = Values::kLattice;
    Situation situation = Situation::kPlain;
    bool check_flag = false;  // LIDX_FLAG_CHECK
    bool tight = false;       // inputs end where their allocation ends, instead of at a canary
    uint32_t seed = 1;
    Engine engine;
};

// auto/h64/d128/t2/b1/n129/p64/block-split/pad16/gap3/lattice/plain/check/guard/s1
std::string case_name(const Case& c);
// False: *error says which part of the name is wrong.
bool parse_case(const std::string& name, Case* c, std::string* error);

const char* layout_name(Layout layout);
const char* values_name(Values values);
const char* situation_name(Situation situation);

// For every run of CI: every value of every dimension occurs, and nearly every pair of values.
std::vector<Case> covering_cases();
// What engines send: every feature by itself and in company, and the cells of the trigger matrix (docs/engines.md).
std::vector<Case> engine_cases();
// The same for every tile of the sm100 kernels.
std::vector<Case> sm100_engine_cases();
// A list of shapes (docs/engines.md) at heads 64, 32, 8, 4 and 128 and depth 128 and 64.
std::vector<Case> shape_cases();
// A list of names, which must be good ones.
std::vector<Case> cases_named(std::initializer_list<const char*> names);

// The whole product of heads, tokens, pages, layouts and lengths, uniform and ragged, for every kernel that serves
// them.
std::vector<Case> long_cases();
// A few of each kind, for runs under many scheduler seeds.
std::vector<Case> seed_cases();

// Points between those of the lists: any length, tokens, batch and, for the generic kernel, any heads, depth and page
// size.
std::vector<Case> random_cases(int count, uint32_t seed);

// Whose lattice is the fast mode's: a forced kernel of it, or the flag.
bool is_fast(const Case& c);

// "" or the dimension and value that `cases` lack although the covering list promises it.
std::string missing_coverage(const std::vector<Case>& cases);

}  // namespace check

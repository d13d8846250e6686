// SPDX-License-Identifier: Apache-2.0
// What engines send. docs/engines.md has the table of cells and the cases that stand for them.
#include <iterator>
#include <string>

#include "check_cases.h"

namespace check {

namespace {

// Words of check_cases.h's Engine, alone and in company, each with a situation and values.
struct Request {
    const char* words;
    const char* situation;
    const char* values;
};
constexpr Request kRequests[] = {
    // ---- one at a time
    {"fixed", "slack", "lattice"},
    {"ids", "ragged", "lattice"},
    {"causal", "ragged", "lattice"},
    {"rowlen", "ragged", "lattice"},
    {"window", "ragged", "lattice"},
    {"i64", "lengths", "lattice"},
    {"wbf16", "ragged", "normal"},
    {"wgap5", "ragged", "lattice"},
    {"w2", "ragged", "normal"},
    {"w2bf16", "ragged", "lattice"},
    {"stable", "ragged", "lattice"},
    {"bf16", "ragged", "normal"},
    {"bf16", "plain", "special"},
    {"fill0", "ragged", "lattice"},
    {"fill300", "ragged", "lattice"},
    {"fill1", "dead", "lattice"},
    {"fill0", "bad-pages", "lattice"},
    {"sms3", "ragged", "lattice"},
    {"pdl", "ragged", "lattice"},
    {"r4", "ragged", "lattice"},
    // ---- in company
    {"causal", "lengths", "lattice"},
    {"causal", "slack", "normal"},
    {"causal", "overrun", "lattice"},
    {"fixed,causal", "lengths", "lattice"},
    {"ids,causal,i64,r4", "ragged", "lattice"},
    {"ids,causal", "lengths", "special"},
    {"causal,i64,r128", "lengths", "lattice"},
    {"fixed,rowlen", "lengths", "lattice"},
    {"ids,rowlen,i64", "lengths", "lattice"},
    {"rowlen,r4", "ragged", "lattice"},
    {"ids,window", "ragged", "normal"},
    {"fixed,window,i64", "lengths", "lattice"},
    {"window", "slack", "codes"},
    {"window,rel", "ragged", "lattice"},
    {"window,rel,cut40", "ragged", "lattice"},
    {"causal,rel,cut100", "ragged", "lattice"},
    {"window,rel,fill0", "ragged", "lattice"},
    {"window,rel,cut40,fill0", "lengths", "lattice"},
    {"ids,window,rel,bf16,fill150", "ragged", "normal"},
    {"window,fill70", "slack", "lattice"},
    {"fixed,causal,fill200", "lengths", "lattice"},
    {"rowlen,fill0,bf16", "dead", "lattice"},
    {"causal,fill5", "zero-tokens", "lattice"},
    {"ids,fill64", "overrun", "lattice"},
    {"causal,stable,fill5", "bad-pages", "lattice"},
    {"window,stable,rel,fill0", "bad-pages", "lattice"},
    {"stable,i64", "lengths", "lattice"},
    {"wbf16,w2bf16,wgap3", "ragged", "special"},
    {"ids,rowlen,wbf16,w2,bf16,stable", "ragged", "normal"},
    {"window,sms5,fill130", "ragged", "lattice"},
    {"fixed,causal,sms1,bf16,fill0", "lengths", "lattice"},
    {"ids,causal,i64,wbf16,wgap8,w2bf16,stable,bf16,fill33,sms7,pdl,r4", "lengths", "normal"},
};
// Kernel, heads, depth and tokens; auto takes what is best on the device.
struct Kernel {
    const char* name;
    const char* shape;
};
constexpr Kernel kKernels[] = {{"auto", "h64/d128/t5/b3/n300"},
                               {"auto", "h32/d128/t7/b2/n200"},
                               {"generic_score", "h8/d64/t4/b3/n260"}};

std::string layout_of(const std::string& words, int i) {
    if (words.find("stable") != std::string::npos) return i % 2 == 0 ? "p64/split-pool/pad16" : "p16/split-pool/pad0";
    constexpr const char* kLayouts[] = {"p64/block-split/pad16", "p16/split-pool/pad0", "p128/block-split/pad0",
                                        "p32/block-split/pad208"};
    return kLayouts[i % 4];
}

void add(std::vector<Case>* cases, const std::string& name) {
    for (const Case& c : cases_named({name.c_str()})) cases->push_back(c);
}

}  // namespace

std::vector<Case> engine_cases() {
    std::vector<Case> cases;
    int seed = 3000;
    for (const Request& request : kRequests)
        for (const Kernel& kernel : kKernels) {
            ++seed;
            const bool bad = std::string(request.situation) == "bad-pages";
            add(&cases, std::string(kernel.name) + "/" + kernel.shape + "/" + layout_of(request.words, seed) + "/gap" +
                            std::to_string(seed % 3) + "/" + request.values + "/" + request.situation +
                            (bad || seed % 4 == 0 ? "/check" : "/nocheck") + (seed % 2 == 0 ? "/tight" : "/guard") +
                            "/s" + std::to_string(seed) + "/" + request.words);
        }
    // The fast mode, its two kernels in turn.
    seed = 4000;
    for (const Request& request : kRequests) {
        ++seed;
        const std::string words = request.words, situation = request.situation;
        const std::string kernel =
            seed % 2 == 0 ? "sm90_fast_h64/h64/d128/t13/b2/n130/" : "sm90_fast_h32/h32/d128/t25/b2/n100/";
        add(&cases, kernel + layout_of(request.words, seed) + "/gap" + std::to_string(seed % 3) + "/" +
                        request.values + "/" + situation +
                        (situation == "bad-pages" || seed % 4 == 0 ? "/check" : "/nocheck") +
                        (seed % 2 == 0 ? "/tight" : "/guard") + "/s" + std::to_string(seed) + "/" + words);
    }
    seed = 3000 + static_cast<int>(std::size(kRequests) * std::size(kKernels));
    // Pages that only the generic kernel serves; contiguous keys after a gather, one buffer for all rows.
    for (const char* name : {
             "auto/h64/d128/t3/b2/n150/p48/block-split/pad0/gap1/lattice/ragged/nocheck/guard/s3901/causal,fill10",
             "auto/h64/d128/t3/b2/n150/p80/split-pool/pad16/gap0/lattice/ragged/nocheck/tight/s3902/ids,window,stable",
             "auto/h64/d128/t40/b1/n300/p0/contiguous/pad0/gap4/lattice/plain/nocheck/guard/s3903/fixed,window,fill0",
             "auto/h32/d128/t40/b1/n300/p0/contiguous/pad0/gap0/normal/ragged/nocheck/tight/s3904/"
             "fixed,window,rel,cut64,fill0,bf16",
             "auto/h64/d128/t33/b1/n129/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s3905/causal,fill0",
             "auto/h64/d128/t70/b2/n70/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s3906/causal",
         })
        add(&cases, name);

    // ---- the trigger matrix, a label per cell
    const auto cell = [&](const std::string& name, const std::string& words, const std::string& label) {
        add(&cases, name + std::to_string(++seed) + "/" + words + (words.empty() ? "" : ",") + "@" + label);
    };
    cell("auto/h64/d128/t0/b1/n100/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s", "ids,fill0", "rows=0");
    cell("auto/h64/d128/t1/b1/n100/p64/block-split/pad0/gap0/lattice/plain/nocheck/tight/s", "fill0", "rows=1");
    cell("auto/h64/d128/t2/b5/n100/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s", "ids,fill0",
         "rows=padded");
    cell("auto/h64/d128/t2/b5/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s", "fixed,fill0",
         "rows=graph-padding");
    // A negative length or 0 in every third request, and in all.
    cell("auto/h64/d128/t2/b7/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s", "causal", "len<0");
    cell("auto/h64/d128/t2/b4/n100/p64/block-split/pad0/gap0/lattice/dead/nocheck/guard/s", "fill28", "lens-all-0");
    for (const int length : {1, 63, 64, 65, 2047, 2048, 2049})
        for (const char* words : {"", "fixed,causal,fill1", "ids,window", "rowlen,i64"})
            cell("auto/h64/d128/t2/b1/n" + std::to_string(length) +
                     "/p64/block-split/pad0/gap0/lattice/plain/nocheck/tight/s",
                 words, "len=" + std::to_string(length));
    cell("auto/h64/d128/t1/b1/n65537/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s", "", "len=64K+1");
    cell("auto/h64/d128/t1/b1/n131072/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s", "", "len=128K");
    cell("generic_score/h4/d16/t1/b1/n65537/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s", "window,fill0",
         "len=64K+1");
    cell("generic_score/h4/d16/t1/b1/n131072/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s", "causal",
         "len=128K");
    for (const int tokens : {1, 2, 3, 4, 5, 6, 9, 16}) {
        cell("auto/h64/d128/t" + std::to_string(tokens) +
                 "/b2/n130/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s",
             "fixed,causal", "next_n=" + std::to_string(tokens));
        cell("auto/h32/d128/t" + std::to_string(tokens) +
                 "/b3/n130/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s",
             "ids,causal", "next_n=uneven-" + std::to_string(tokens));
    }
    // Fewer rows than one request has tokens: these still count from its last.
    for (const char* words : {"fixed,causal", "fixed,causal,fill0,sms1"})
        cell("auto/h64/d128/t3/b1/n200/p64/block-split/pad0/gap0/lattice/overrun/nocheck/guard/s", words, "rows=cut");
    cell("auto/h64/d128/t2/b3/n500/p64/block-split/pad0/gap0/lattice/slack/nocheck/tight/s", "", "table-poison");
    cell("auto/h64/d128/t2/b3/n500/p64/block-split/pad0/gap0/lattice/plain/nocheck/tight/s", "", "table-exact-width");
    cell("auto/h64/d128/t2/b3/n500/p64/block-split/pad208/gap0/lattice/plain/nocheck/guard/s", "", "page-stride");
    cell("auto/h64/d128/t2/b3/n500/p64/split-pool/pad4096/gap0/lattice/plain/nocheck/guard/s", "stable", "layers");
    cell("auto/h64/d128/t6/b2/n200/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s", "", "nan-inf");
    cell("auto/h64/d128/t6/b2/n200/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s", "wbf16,w2,causal,fill3",
         "nan-inf-two-factors");
    cell("auto/h64/d128/t6/b2/n200/p64/block-split/pad0/gap0/codes/plain/nocheck/guard/s", "", "subnormal-codes");
    cell("auto/h64/d128/t9/b2/n200/p64/block-split/pad0/gap0/normal/plain/nocheck/guard/s", "",
         "weights-negative-and-0");
    for (const int heads : {4, 8, 16, 32, 64, 128})
        for (const int depth : {128, 64})
            cell("auto/h" + std::to_string(heads) + "/d" + std::to_string(depth) +
                     "/t3/b2/n140/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s",
                 "causal", "heads=" + std::to_string(heads) + "-depth=" + std::to_string(depth));
    return cases;
}

// Every tile of the sm100 kernels with what a few engines send at once: several token tiles, the last not full.
std::vector<Case> sm100_engine_cases() {
    struct Tile {
        const char* kernel;
        int heads, tokens;
    };
    constexpr Tile kTiles[] = {{"h64", 64, 2},  {"h64_t1", 64, 1}, {"h128", 128, 1}, {"h32", 32, 4},
                               {"h32_t3", 32, 3}, {"h32_t2", 32, 2}, {"h32_t1", 32, 1}, {"h16", 16, 8},
                               {"h16_t4", 16, 4}, {"h16_t2", 16, 2}, {"h8", 8, 16},     {"h8_t8", 8, 8},
                               {"h8_t4", 8, 4},   {"h4", 4, 32},     {"h4_t16", 4, 16}, {"h4_t8", 4, 8}};
    constexpr const char* kSent[][2] = {
        {"fixed,causal,fill0", "lengths"},
        {"ids,window,rel,bf16,fill150", "ragged"},
        {"rowlen,i64,wbf16,w2,r4", "ragged"},
        {"window,sms5,fill130", "lengths"},
        {"causal,bf16,sms1,pdl", "slack"},
        {"ids,causal,i64,wbf16,wgap8,w2bf16,stable,bf16,fill33,sms7,pdl,r4", "lengths"},
        {"window,stable,rel,cut40,fill0", "bad-pages"}};
    constexpr const char* kPlaces[] = {"p48/split-pool/pad0", "p16/split-pool/pad16", "p96/split-pool/pad0",
                                       "p64/split-pool/pad32"};
    constexpr const char* kValues[] = {"lattice", "normal", "special"};
    std::vector<Case> cases;
    int seed = 3500;
    for (const Tile& tile : kTiles)
        for (const auto& [words, situation] : kSent) {
            ++seed;
            add(&cases, "sm100_score_" + std::string(tile.kernel) + "/h" + std::to_string(tile.heads) +
                            (seed % 3 == 0 ? "/d64" : "/d128") + "/t" + std::to_string(3 * tile.tokens + 2) + "/b2/n" +
                            std::to_string(130 + seed % 200) + "/" + kPlaces[seed % 4] + "/gap" +
                            std::to_string(seed % 2) + "/" + kValues[seed % 5 % 3] + "/" + situation +
                            (situation[0] == 'b' ? "/check" : "/nocheck") + "/guard/s" + std::to_string(seed) + "/" +
                            words);
        }
    // Long runs of rows whose windows leave key tiles, whole token tiles and single boxes out; slices.
    for (const char* name : {
             "sm100_score_h64/h64/d128/t150/b1/n600/p16/block-split/pad0/gap0/lattice/plain/nocheck/tight/s3701/window",
             "sm100_score_h4/h4/d64/t300/b1/n500/p48/block-split/pad0/gap0/normal/plain/nocheck/tight/s3702/"
             "window,rel,fill7",
             "sm100_score_h32_t3/h32/d128/t100/b2/n400/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/guard/s3703/"
             "ids,rowlen,fill0",
             "sm100_score_h64/h64/d128/t140/b1/n900/p32/block-split/pad0/gap0/lattice/plain/nocheck/tight/s3704/"
             "causal,sms3",
             "sm100_score_h16_t4/h16/d128/t200/b3/n260/p112/split-pool/pad0/gap0/normal/ragged/nocheck/tight/s3705/"
             "fixed,causal,r4,i64",
             // One CTA for requests without rows between others whose windows are elsewhere: three of the seeds at
             // which warps once took each other's hulls for the next.
             "sm100_score_h64/h64/d128/t2/b7/n500/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s19/"
             "ids,window,sms1",
             "sm100_score_h64/h64/d128/t2/b7/n500/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s22/"
             "ids,window,sms1",
             "sm100_score_h64/h64/d128/t2/b7/n500/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s27/"
             "ids,window,sms1",
         })
        add(&cases, name);
    return cases;
}

// Batch, tokens, keys.
std::vector<Case> shape_cases() {
    constexpr int kShapes[][3] = {{2, 128, 128}, {2, 32, 32},  {4, 200, 200}, {1, 501, 501}, {3, 600, 600},
                                  {4, 722, 722}, {4, 723, 723}, {5, 32, 64},   {2, 128, 256}, {3, 2, 8300},
                                  {3, 5, 8300},  {2, 6, 8192}, {3, 9, 8300}};
    std::vector<Case> cases;
    uint32_t seed = 5000;
    for (const int heads : {64, 32, 8, 4, 128})
        for (const int depth : {128, 64})
            for (const auto& [batch, tokens, keys] : kShapes) {
                Case c;
                c.heads = heads;
                c.depth = depth;
                c.batch = batch;
                c.tokens = tokens;
                c.keys = keys;
                c.seed = ++seed;
                c.engine.label = "shapes";
                cases.push_back(c);
            }
    return cases;
}

}  // namespace check

// SPDX-License-Identifier: Apache-2.0
#include "check_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "check_model.h"
#include "check_upload.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm90_fast_layout.h"
#include "kernel/sm90_pair_layout.h"
#include "kernel/sm90_schedule.h"
#include "kernel/sm90_wide_layout.h"
#include "ref/bf16.h"
#include "ref/error_bound.h"
#include "ref/sm90_fast_model.h"
#include "ref/oracle.h"

namespace check {

namespace {

namespace ref = lidx::ref;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string lidx_failure(const Machine& machine, const char* what, lidx_status status) {
    return std::string(what) + ": " + lidx_status_string(status) + " (" + lidx_last_error(machine.lidx) + ")";
}

int tile_tokens_of(const std::string& symbol) {
    for (int32_t i = 0; i < lidx_kernel_count(); ++i) {
        lidx_kernel_info info = {};
        info.struct_size = sizeof info;
        if (lidx_get_kernel_info(nullptr, i, &info) == LIDX_OK && symbol == info.symbol) return info.tile_tokens;
    }
    return 0;
}

// What the kernels for plain work serve (docs/kernel-sm90.md, docs/kernel-sm100.md).
bool is_plain(const Inputs& in, bool rows_differ) {
    const Engine& e = in.c.engine;
    if (e.sees == Engine::Sees::kWindow && e.relative) return false;
    const bool few_differ = e.sees == Engine::Sees::kLength || e.sees == Engine::Sees::kCausal;
    return (rows_differ || few_differ) && !e.weight_bf16 && e.weight_gap == 0 && e.factor == 0 &&
           !e.scale_table && !e.bf16 && !e.fills() && !(e.relative && in.score_columns < in.max_keys);
}

// What a user must get on this machine; "" where any kernel will do.
std::string expected_symbol(const Machine& machine, const Inputs& in) {
    if (in.c.kernel != "auto") return in.c.kernel;
    const int page = in.c.page_size, heads = in.c.heads;
    const bool tensor_page = page == 0 || page == 16 || page == 32 || page == 64 || page == 128 || page == 256;
    if (machine.compute_capability == 90) {
        if (in.c.depth != 128 || !tensor_page) return "";
        if (heads == 128) return "sm90_wide_h128";
        if (heads != 64 && heads != 32 && heads != 16 && heads != 8) return "";
        if (in.c.engine.fast && heads >= 32 && std::min(in.max_tokens, in.max_rows) >= 3 * 256 / heads)
            return "sm90_fast_h" + std::to_string(heads);
        const std::string name = "_h" + std::to_string(heads);
        const int64_t tokens = std::min(in.max_tokens, in.max_rows);
        const int64_t average = std::min<int64_t>(tokens, in.max_rows / std::max(in.c.batch, 1));
        if (heads >= 32 && is_plain(in, false)) {
            // Decode: one token of 64 heads, two of 32; up to four times that by size.
            const int64_t groups = ceil_div(tokens * heads, 64);
            const int64_t keys = in.c.batch * in.max_keys;
            if (groups <= 1 || (groups == 2 && keys <= 1048576) || (groups == 3 && keys <= 524288) ||
                (groups == 4 && keys <= 131072))
                return "sm90_decode" + name;
        }
        // A block of eight that is full or nearly so, and many tokens: plain even where rows see different keys.
        if (heads >= 32 && ((average >= 7 && tokens <= 8) || average >= (heads == 64 ? 14 : 13)))
            return "sm90_wide" + name + (is_plain(in, true) ? "_plain" : "");
        const bool plain = heads >= 32 && is_plain(in, false);
        if (plain && ((heads == 64 && average >= 5 && tokens <= 6) || (average >= 9 && tokens <= 12)))
            return "sm90_pair" + name;
        const bool few = in.c.engine.sees != Engine::Sees::kCausal || tokens <= 32;
        return "sm90_score" + name + (plain && few ? "_plain" : "");
    }
    if (machine.compute_capability / 10 != 10) return "";
    if (in.c.depth % 64 != 0 || page % 16 != 0) return "generic_score";
    // The tiles of docs/kernel-sm100.md: 128 columns, and those that fewer tokens fill.
    static const std::map<int, std::vector<int>> kTileTokens = {{128, {1}},    {64, {2, 1}},     {32, {4, 3, 2, 1}},
                                                               {16, {8, 4, 2}}, {8, {16, 8, 4}}, {4, {32, 16, 8}}};
    const auto tiles = kTileTokens.find(heads);
    if (tiles == kTileTokens.end()) return "generic_score";
    const int64_t tokens = std::min(in.max_tokens, in.max_rows);
    if ((heads == 64 || heads == 32) && in.c.depth == 128 && is_plain(in, true) &&
        std::min<int64_t>(tokens, in.max_rows / std::max(in.c.batch, 1)) >= 16)
        return "sm100_wide_h" + std::to_string(heads);
    // Fewest tiles, then the narrowest.
    int best = tiles->second[0];
    for (const int t : tiles->second)
        if (std::pair(ceil_div(tokens, t), t) < std::pair(ceil_div(tokens, best), best)) best = t;
    const std::string name = "sm100_score_h" + std::to_string(heads);
    return best == tiles->second[0] ? name : name + "_t" + std::to_string(best);
}

bool is_sm90(const std::string& symbol) { return symbol.rfind("sm90_", 0) == 0; }
bool is_sm90_pair(const std::string& symbol) { return symbol.rfind("sm90_pair", 0) == 0; }
bool is_sm90_decode(const std::string& symbol) { return symbol.rfind("sm90_decode", 0) == 0; }
bool is_sm90_wide(const std::string& symbol) { return symbol.rfind("sm90_wide", 0) == 0; }
bool is_sm90_fast(const std::string& symbol) { return symbol.rfind("sm90_fast", 0) == 0; }
bool is_sm100_wide(const std::string& symbol) { return symbol.rfind("sm100_wide", 0) == 0; }
bool is_persistent(const std::string& symbol) { return is_sm90(symbol) || is_sm100_wide(symbol); }
int64_t tile_keys_of(const std::string& symbol) { return is_sm90_wide(symbol) ? 96 : is_sm90(symbol) ? 64 : 128; }

int64_t launch_columns(const Inputs& in) {
    return in.c.engine.fills() ? std::max(in.max_keys, in.score_columns) : in.max_keys;
}
int64_t usable_multiprocessors(const Machine& machine, const Inputs& in) {
    return in.c.engine.sms != 0 ? std::min(in.c.engine.sms, machine.multiprocessors) : machine.multiprocessors;
}

// Above 1 only where the key tiles underfill the machine.
int64_t expected_slices(const Machine& machine, const Inputs& in, const Outcome& out) {
    const int64_t multiprocessors = usable_multiprocessors(machine, in);
    const int64_t base = in.c.batch * ceil_div(launch_columns(in), 128);
    const int64_t token_tiles = ceil_div(std::min(in.max_tokens, in.max_rows), out.tile_tokens);
    if (base >= multiprocessors) return 1;
    return std::max<int64_t>(1, std::min(2 * multiprocessors / base, ceil_div(token_tiles, 2)));
}

// Persistent kernels: a CTA per multiprocessor (decode: two, unless their number is limited), or per key tile of a
// token block where there are fewer. Others, the seed document's grid: (requests, key tiles, slices).
std::array<uint32_t, 3> expected_grid(const Machine& machine, const Inputs& in, const Outcome& out) {
    if (is_persistent(out.symbol)) {
        const int64_t units = in.c.batch * ceil_div(launch_columns(in), tile_keys_of(out.symbol)) *
                              ceil_div(std::min(in.max_tokens, in.max_rows), out.tile_tokens);
        const int64_t each = out.symbol.rfind("sm90_decode_", 0) == 0 && in.c.engine.sms == 0 ? 2 : 1;
        return {static_cast<uint32_t>(std::min<int64_t>(units, each * usable_multiprocessors(machine, in))), 1, 1};
    }
    const int64_t key_tiles = ceil_div(launch_columns(in), 128), slices = expected_slices(machine, in, out);
    if (in.c.engine.sms != 0)   // the CTAs share the tiles
        return {static_cast<uint32_t>(std::min<int64_t>(in.c.batch * key_tiles * slices, in.c.engine.sms)), 1, 1};
    return {static_cast<uint32_t>(in.c.batch), static_cast<uint32_t>(key_tiles), static_cast<uint32_t>(slices)};
}

// ---- the emulator's counts: one JSON object that grows with every launch of the process

struct Counts {
    int64_t mma = 0, wgmma = 0, tma_loads = 0, tma_bytes = 0;
    int64_t warnings = 0;   // of PTXEMU_CHECK; an error fails the launch
    std::string findings;   // "[code] [code]": of the process so far
    std::string event_order;
};

// The value of a key outside the tables; "" without it.
std::string value_of(const std::string& json, const std::string& key) {
    const size_t at = json.find("\"" + key + "\":");
    if (at == std::string::npos) return "";
    const size_t begin = json.find_first_not_of(" \"", json.find(':', at) + 1);
    return json.substr(begin, json.find_first_of(" \",}\n", begin) - begin);
}

// Sums the numbers of all keys of "warp_counts" that begin with `prefix`.
int64_t sum_counts(const std::string& json, const std::string& prefix) {
    const size_t begin = json.find("\"warp_counts\"");
    if (begin == std::string::npos) return -1;
    const size_t end = json.find('}', begin);
    int64_t sum = 0;
    for (size_t at = json.find('"' + prefix, begin); at < end; at = json.find('"' + prefix, at + 1)) {
        const char next = json[at + 1 + prefix.size()];
        if (next == '.' || next == '"') sum += std::atoll(json.c_str() + json.find(':', json.find('"', at + 1)) + 1);
    }
    return sum;
}

std::optional<Counts> read_counts(const std::string& file) {
    std::ifstream stream(file);
    const std::string json{std::istreambuf_iterator<char>(stream), {}};
    Counts counts;
    counts.mma = sum_counts(json, "tcgen05.mma");
    counts.wgmma = sum_counts(json, "wgmma.mma_async");
    counts.tma_loads = sum_counts(json, "cp.async.bulk.tensor");
    if (counts.mma < 0) return std::nullopt;
    counts.tma_bytes = std::atoll(value_of(json, "tma_bytes_loaded").c_str());
    const size_t table = json.find("\"findings\": {");
    for (size_t at = table; at != std::string::npos && json[at] != '}'; ++at) {
        const size_t name = json.find_first_of("\"}", json.find_first_of("{,", at) + 1);
        if (name == std::string::npos || json[name] == '}') break;
        at = json.find('"', name + 1);
        counts.findings += " [" + json.substr(name + 1, at - name - 1) + "]";
        at = json.find_first_of(",}", at) - 1;
    }
    counts.warnings = std::atoll(value_of(json, "warnings").c_str());
    counts.event_order = value_of(json, "event_order");
    return counts;
}

struct PersistentCounts {
    int64_t mma = 0;   // wgmma of a warp, tcgen05.mma
    int64_t loads = 0, bytes = 0;
};
// What the persistent CTAs of sm90_wide and sm100_wide load and multiply: every block of tokens meets every key tile
// once, in `tile_mma` instructions. Q comes once for each run of a block's tiles in one CTA, in boxes of two tokens;
// where the runs end depends on the shares, which the kernel's own schedule gives.
template <class T>
PersistentCounts wide_counts(const Inputs& in, const Outcome& out, int64_t boxes, int64_t box_slots, int64_t tile_mma) {
    namespace s = lidx::sm90_score;
    constexpr int kTokens = T::kBlockTokens;
    PersistentCounts counts;
    std::vector<s::BlockWork> works;
    int64_t total = 0;
    for (const Request& r : in.requests)
        for (int token = 0; token < r.tokens; token += kTokens) {
            works.push_back(s::block_work({0, static_cast<int32_t>(r.keys)}, kTokens, T::kTileKeys, T::kBlockCost,
                                          T::tile_cost(kTokens), 0));
            total += works.back().cost();
            counts.mma += tile_mma * ceil_div(r.keys, T::kTileKeys);
        }
    for (uint32_t cta = 0; cta < out.grid[0]; ++cta) {
        int64_t begin = s::share_begin(total, cta, out.grid[0]), end = s::share_begin(total, cta + 1, out.grid[0]);
        for (const s::BlockWork& work : works) {
            const int64_t tiles = s::block_part(work, 0, begin, end).tiles;
            begin -= work.cost();
            end -= work.cost();
            if (tiles == 0) continue;
            counts.loads += tiles * boxes + kTokens / 2;
            counts.bytes += (tiles * boxes * box_slots + in.c.heads * kTokens) * 128;
        }
    }
    return counts;
}
// sm90: four steps for each eight heads, by four warps. sm100: four steps.
PersistentCounts wide_counts(const Inputs& in, const Outcome& out, int64_t boxes, int64_t box_slots) {
    const int heads = in.c.heads;
    if (is_sm100_wide(out.symbol))
        return heads == 64 ? wide_counts<lidx::sm100_wide::Tile<64>>(in, out, boxes, box_slots, 4)
                           : wide_counts<lidx::sm100_wide::Tile<32>>(in, out, boxes, box_slots, 4);
    switch (heads) {
        case 32: return wide_counts<lidx::sm90_wide::Tile<32>>(in, out, boxes, box_slots, 2 * heads);
        case 64: return wide_counts<lidx::sm90_wide::Tile<64>>(in, out, boxes, box_slots, 2 * heads);
        default: return wide_counts<lidx::sm90_wide::Tile<128>>(in, out, boxes, box_slots, 2 * heads);
    }
}

// The same for sm90_fast: blocks of three groups of 256 columns, an MMA of four steps for each group that has a token
// and each key tile, and what a block costs beside its tiles.
template <class T>
PersistentCounts sm90_fast_counts(const Inputs& in, const Outcome& out, int64_t boxes, int64_t box_slots) {
    namespace s = lidx::sm90_score;
    struct Block {
        int64_t groups;
        s::BlockWork work;
    };
    std::vector<Block> blocks;
    int64_t total = 0;
    for (const Request& r : in.requests)
        for (int token = 0; token < r.tokens; token += out.tile_tokens) {
            const int tokens = std::min(out.tile_tokens, r.tokens - token);
            const int64_t groups = ceil_div(tokens, out.tile_tokens / 3);
            blocks.push_back(
                {groups, s::block_work({0, r.keys}, tokens, 64, T::kBlockCost, T::tile_cost(tokens), 0)});
            total += blocks.back().work.cost();
        }
    PersistentCounts counts;
    for (uint32_t cta = 0; cta < out.grid[0]; ++cta) {
        const int64_t begin = s::share_begin(total, cta, out.grid[0]),
                      end = s::share_begin(total, cta + 1, out.grid[0]);
        int64_t before = 0;
        for (const Block& block : blocks) {
            const s::BlockPart part = s::block_part(block.work, 0, begin - before, end - before);
            before += block.work.cost();
            if (part.tiles <= 0) continue;
            counts.mma += 16 * part.tiles * block.groups;
            counts.loads += part.tiles * boxes + block.groups * 4;
            counts.bytes += (part.tiles * boxes * box_slots + block.groups * 256) * 128;
        }
    }
    return counts;
}

PersistentCounts sm90_fast_counts(const Inputs& in, const Outcome& out, int64_t boxes, int64_t box_slots) {
    return in.c.heads == 64 ? sm90_fast_counts<lidx::sm90_fast::Tile<64>>(in, out, boxes, box_slots)
                            : sm90_fast_counts<lidx::sm90_fast::Tile<32>>(in, out, boxes, box_slots);
}

// sm90_decode: cp.async brings everything, and every group of 64 columns meets every key tile once.
PersistentCounts sm90_decode_counts(const Inputs& in) {
    PersistentCounts counts;
    for (const Request& r : in.requests)
        counts.mma += 16 * ceil_div(r.keys, 64) * ceil_div(int64_t{r.tokens} * in.c.heads, 64);
    return counts;
}

// What the persistent CTAs of an sm90_score or sm90_pair kernel load and multiply: each token block reads each key tile
// once, and a warpgroup per group of 64 columns multiplies it, four warps in four steps. Q comes once for each run of
// tiles (weights do not come by TMA); where the runs end depends on the shares, which the kernel's own schedule gives.
// groups_of, unit_cost: the kernel's own.
template <class Groups, class Cost>
PersistentCounts sm90_counts(const Inputs& in, const Outcome& out, int64_t boxes, int64_t box_slots, Groups groups_of,
                       Cost unit_cost) {
    namespace s = lidx::sm90_score;
    PersistentCounts counts;
    const int group_tokens = std::min(64 / in.c.heads, 8);
    std::vector<s::RequestWork> works;
    int64_t total = 0;
    for (const Request& r : in.requests) {
        works.push_back(
            s::request_work(r.tokens, r.keys, out.tile_tokens, unit_cost(groups_of(r.tokens, group_tokens))));
        total += works.back().units * works.back().cost;
        const int64_t tiles = ceil_div(r.keys, 64);
        counts.mma += 16 * tiles * ceil_div(r.tokens, group_tokens);
        counts.loads += tiles * ceil_div(r.tokens, out.tile_tokens) * boxes;
        counts.bytes += tiles * ceil_div(r.tokens, out.tile_tokens) * boxes * box_slots * 128;
    }
    for (uint32_t cta = 0; cta < out.grid[0]; ++cta) {
        const int64_t begin = s::share_begin(total, cta, out.grid[0]),
                      end = s::share_begin(total, cta + 1, out.grid[0]);
        int64_t before = 0;
        for (size_t b = 0; b < works.size(); before += works[b].units * works[b].cost, ++b) {
            const s::RequestWork& work = works[b];
            if (work.units == 0) continue;
            int64_t unit = std::min(work.units, std::max<int64_t>(0, ceil_div(begin - before, work.cost)));
            const int64_t last = std::min(work.units, ceil_div(end - before, work.cost));
            for (; unit < last;) {
                const s::Run run = s::run_at(work, unit);
                const int64_t tokens =
                    std::min<int64_t>(out.tile_tokens, in.requests[b].tokens - int64_t{run.block} * out.tile_tokens);
                const int64_t groups = groups_of(tokens, group_tokens);
                counts.loads += groups;
                counts.bytes += groups * 64 * 128;
                unit += run.tiles;
            }
        }
    }
    return counts;
}

// Token tiles of a slice from the first to the last in which a row sees a key of [key_begin, key_begin + 128).
int64_t seeing_tiles(const Inputs& in, const Request& r, int tile_tokens, int64_t tile_begin, int64_t tile_end,
                     int64_t key_begin) {
    int64_t first = tile_end, last = tile_begin - 1;
    const int64_t tokens_end = std::min<int64_t>(tile_end * tile_tokens, r.tokens);
    for (int64_t token = tile_begin * tile_tokens; token < tokens_end; ++token) {
        const Row& row = in.rows[static_cast<size_t>(r.row_begin + token)];
        if (row.begin >= key_begin + 128 || row.end <= key_begin || row.begin >= row.end) continue;
        first = std::min(first, token / tile_tokens);
        last = token / tile_tokens;
    }
    return std::max<int64_t>(0, last - first + 1);
}

// sm100: a key tile of a slice that has token tiles seeing it loads K once (a box per page of the tile) and Q once for
// each of them, and multiplies in steps of K = 32. Boxes that no row sees or beyond a pool count in full.
std::string compare_counts(const Inputs& in, const Outcome& out, int64_t slices, const Counts& before,
                           const Counts& after) {
    const Engine& e = in.c.engine;
    if (is_persistent(out.symbol) && (e.sees != Engine::Sees::kLength || e.fills() || e.sms != 0))
        return "";   // other tiles, other shares
    int64_t mma = 0, loads = 0, bytes = 0;
    const int64_t slots = in.page_size != 0 ? in.page_size : in.max_keys;
    const int64_t tile_keys = tile_keys_of(out.symbol);
    const int64_t common = std::gcd(slots, tile_keys);   // of which a box is the largest power of two
    const int64_t box_slots = in.page_size != 0 ? common & -common : std::min<int64_t>(slots, tile_keys);
    const int64_t boxes = in.page_size != 0 ? tile_keys / box_slots : 1;
    int64_t wgmma = 0;
    if (is_persistent(out.symbol)) {
        const bool wide = is_sm90_wide(out.symbol) || is_sm100_wide(out.symbol);
        const PersistentCounts counts =
            wide                         ? wide_counts(in, out, boxes, box_slots)
            : is_sm90_fast(out.symbol)   ? sm90_fast_counts(in, out, boxes, box_slots)
            : is_sm90_decode(out.symbol) ? sm90_decode_counts(in)
            : is_sm90_pair(out.symbol)
                ? sm90_counts(in, out, boxes, box_slots, lidx::sm90_pair::groups_of, lidx::sm90_pair::unit_cost)
                : sm90_counts(in, out, boxes, box_slots, lidx::sm90_score::groups_of, lidx::sm90_score::unit_cost);
        (is_sm100_wide(out.symbol) ? mma : wgmma) = counts.mma;
        loads = counts.loads;
        bytes = counts.bytes;
    }
    if (out.arithmetic == LIDX_ARITHMETIC_SM100 && !is_sm100_wide(out.symbol)) {
        for (const Request& r : in.requests) {
            const int64_t tiles = ceil_div(r.tokens, out.tile_tokens);
            int64_t k_tiles = 0, q_tiles = 0;
            for (int64_t slice = 0, begin = 0; slice < slices; ++slice) {   // sizes differ by one at most
                const int64_t end = begin + tiles / slices + (slice < tiles % slices ? 1 : 0);
                for (int64_t key = 0; key < r.keys; key += 128) {
                    const int64_t seeing = seeing_tiles(in, r, out.tile_tokens, begin, end, key);
                    q_tiles += seeing;
                    k_tiles += seeing != 0 ? 1 : 0;
                }
                begin = end;
            }
            mma += in.c.depth / 32 * q_tiles;
            loads += k_tiles * boxes + q_tiles;
            bytes += (k_tiles * boxes * box_slots + q_tiles * out.tile_tokens * in.c.heads) * in.c.depth;
        }
    }
    std::string text;
    auto compare = [&](const char* what, int64_t got, int64_t expected) {
        if (got != expected && text.empty())
            text = std::string("the emulator counted ") + std::to_string(got) + " " + what + ", expected " +
                   std::to_string(expected);
    };
    compare("tcgen05.mma", after.mma - before.mma, mma);
    compare("wgmma.mma_async", after.wgmma - before.wgmma, wgmma);
    compare("TMA loads", after.tma_loads - before.tma_loads, loads);
    compare("bytes loaded by TMA", after.tma_bytes - before.tma_bytes, bytes);
    return text;
}

double time_launches(const Machine& machine, const lidx_plan* plan, const lidx_score_args& args, int runs) {
    const bool events = std::string(machine.driver.path).find("libcuda") != std::string::npos;
    CUevent begin = nullptr, end = nullptr;
    if (events) {
        machine.expect(machine.driver.cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
        machine.expect(machine.driver.cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
    }
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        const auto wall = std::chrono::steady_clock::now();
        if (events) machine.expect(machine.driver.cuEventRecord(begin, nullptr), "cuEventRecord");
        const lidx_status status = lidx_score_enqueue(machine.lidx, plan, &args, nullptr);
        if (status != LIDX_OK) throw MachineError(lidx_failure(machine, "lidx_score_enqueue", status));
        if (events) machine.expect(machine.driver.cuEventRecord(end, nullptr), "cuEventRecord");
        machine.expect(machine.driver.cuCtxSynchronize(), "cuCtxSynchronize");
        float milliseconds = 0;
        if (events) {
            machine.expect(machine.driver.cuEventElapsedTime_v2(&milliseconds, begin, end), "cuEventElapsedTime");
            times.push_back(milliseconds * 1e3);
        } else {
            times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - wall).count());
        }
    }
    if (events) {
        machine.driver.cuEventDestroy(begin);
        machine.driver.cuEventDestroy(end);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

// Which row and key a cell is, for messages.
std::string cell_text(const Inputs& in, int64_t cell) {
    const int64_t row = cell / in.score_stride, key = cell % in.score_stride;
    std::string text =
        "row " + std::to_string(row) + (in.c.engine.relative ? " column " : " key ") + std::to_string(key);
    const Row& of = in.rows[row];
    if (of.request < 0) return text + " (no request's)";
    const Request& r = in.requests[of.request];
    return text + " (request " + std::to_string(of.request) + " token " + std::to_string(row - r.row_begin) + " of " +
           std::to_string(r.tokens) + ", " +
           (of.begin == 0 ? "length " : "keys " + std::to_string(of.begin) + " .. ") + std::to_string(of.end) + ")";
}

std::string value_text(uint32_t bits) {
    char text[48];
    std::snprintf(text, sizeof text, "%.9g (0x%08x)", std::bit_cast<float>(bits), bits);
    return text;
}

// Collects wrong cells and keeps the worst.
class Worst {
public:
    // got: fp32 bits, for the message.
    void add(int64_t cell, double badness, uint32_t got, const std::string& want) {
        ++wrong_;
        if (wrong_ > 1 && !(badness > badness_)) return;
        badness_ = badness;
        cell_ = cell;
        got_ = got;
        want_ = want;
    }
    std::string text(const Inputs& in) const {
        if (wrong_ == 0) return "";
        return cell_text(in, cell_) + ": got " + value_text(got_) + ", want " + want_ + "; " + std::to_string(wrong_) +
               " wrong of " + std::to_string(in.live_cells) + " live cells";
    }

private:
    int64_t wrong_ = 0, cell_ = 0;
    double badness_ = 0;
    uint32_t got_ = 0;
    std::string want_;
};

}  // namespace

Outcome run_case(const Machine& machine, const Inputs& in, const std::string& stats_file, int bench_runs) {
    Outcome out;
    machine.make_current();
    const lidx_score_desc desc = describe(in);
    lidx_support support = {};
    support.struct_size = sizeof support;
    lidx_status status = lidx_supports(machine.lidx, &desc, &support);
    if (status != LIDX_OK) {
        out.problem = lidx_failure(machine, "lidx_supports", status);
        return out;
    }
    if (support.symbol == nullptr) {
        out.not_served = support.reason;
        return out;
    }
    lidx_plan* raw_plan = nullptr;
    status = lidx_plan_create(machine.lidx, &desc, &raw_plan);
    if (status != LIDX_OK) {
        out.problem = lidx_failure(machine, "lidx_plan_create", status);
        return out;
    }
    const std::unique_ptr<lidx_plan, void (*)(lidx_plan*)> plan(raw_plan, lidx_plan_destroy);
    lidx_plan_info info = {};
    info.struct_size = sizeof info;
    status = lidx_get_plan_info(raw_plan, &info);
    if (status != LIDX_OK) {
        out.problem = lidx_failure(machine, "lidx_get_plan_info", status);
        return out;
    }
    out.symbol = info.symbol;
    out.arithmetic = info.arithmetic;
    out.tile_tokens = tile_tokens_of(out.symbol);
    std::copy_n(info.grid, 3, out.grid.begin());
    auto complain = [&](const std::string& text) {
        if (out.problem.empty()) out.problem = text;
    };
    if (out.symbol != support.symbol)
        complain("the plan takes " + out.symbol + ", lidx_supports says " + support.symbol);
    const std::string expected = expected_symbol(machine, in);
    if (!expected.empty() && out.symbol != expected)
        complain("the plan takes " + out.symbol + ", expected " + expected);
    if (out.tile_tokens < 1) {
        complain(out.symbol + " is not among the kernels that lidx lists");
        return out;
    }
    const auto grid = expected_grid(machine, in, out);
    for (int i = 0; i < 3; ++i)
        if (grid[i] != out.grid[i])
            complain(std::string("grid.") + "xyz"[i] + " is " + std::to_string(out.grid[i]) + ", expected " +
                     std::to_string(grid[i]));
    if ((info.workspace_bytes != 0) != in.c.check_flag)
        complain("workspace_bytes is " + std::to_string(info.workspace_bytes));

    Upload upload(machine, in, in.c.engine.weight_bf16 ? 2 : 4, info.workspace_bytes);
    const lidx_score_args& args = upload.args;

    const std::optional<Counts> before = stats_file.empty() ? std::nullopt : read_counts(stats_file);
    status = lidx_score_enqueue(machine.lidx, raw_plan, &args, nullptr);
    if (status != LIDX_OK) throw MachineError(lidx_failure(machine, "lidx_score_enqueue", status));
    machine.expect(machine.driver.cuCtxSynchronize(), "cuCtxSynchronize after the launch");
    if (!stats_file.empty()) {
        const std::optional<Counts> after = read_counts(stats_file);
        if (!after) {
            complain("the emulator wrote no counts to " + stats_file);
        } else {
            const int64_t slices = expected_slices(machine, in, out);
            complain(compare_counts(in, out, slices, before.value_or(Counts{}), *after));
            const int64_t warned = after->warnings - before.value_or(Counts{}).warnings;
            if (warned != 0)
                complain("PTXEMU_CHECK warns of " + std::to_string(warned) + " instructions:" + after->findings);
            out.event_order = after->event_order;
        }
    }

    complain(upload.damage());
    out.scores = upload.scores();
    out.hash = 0xcbf29ce484222325u;  // FNV-1a over words
    for (uint32_t word : out.scores) out.hash = (out.hash ^ word) * 0x100000001b3u;
    const std::vector<uint32_t> words = upload.workspace();
    const uint32_t want = in.has_bad_pages ? 1 : 0;
    if (!words.empty() && words[0] != want)
        complain("the check word is " + std::to_string(words[0]) + ", expected " + std::to_string(want));
    if (bench_runs > 0 && out.problem.empty()) out.microseconds = time_launches(machine, raw_plan, args, bench_runs);
    return out;
}

namespace {

// A vector of codes as the reference and as the bit-exact models take it apart.
struct Codes {
    const uint8_t* codes = nullptr;
    ref::Operand bounded;
    ModelOperand model;
    void decode(const uint8_t* from, int depth) {
        codes = from;
        bounded.decode(from, depth);
        model.decode(from, depth);
    }
};

class Judge {
public:
    Judge(const Inputs& in, const Outcome& out) : in_(in), c_(in.c), out_(out), bounded_(c_.heads), model_(c_.heads) {}

    std::string judge() {
        std::vector<uint8_t> live(out_.scores.size(), 0);
        std::vector<Codes> keys;
        int request = -1;   // whose keys these are
        for (int row = 0; row < in_.max_rows; ++row) {
            const Row& of = in_.rows[row];
            if (of.request < 0) continue;
            const Request& r = in_.requests[of.request];
            if (of.request != request) {
                request = of.request;
                keys.resize(r.keys);
                for (int key = 0; key < r.keys; ++key)
                    keys[key].decode(r.codes.data() + static_cast<size_t>(key) * c_.depth, c_.depth);
            }
            take_row(row);
            const int64_t cells = row * in_.score_stride;
            for (int key = of.begin; key < of.end; ++key) {
                if (r.dead[key]) continue;
                const int64_t cell = cells + (c_.engine.relative ? key - of.begin : key);
                live[cell] = 1;
                if (c_.values == Values::kLattice || c_.values == Values::kSpecial)
                    judge_exact(cell, keys[key], r.scales[key]);
                // What bf16 loses is judged by the models, which are exact.
                if ((c_.values == Values::kNormal || c_.values == Values::kCodes) && !c_.engine.bf16)
                    judge_bound(cell, keys[key], r.scales[key]);
                if (c_.values != Values::kLattice) judge_model(cell, keys[key], r.scales[key]);
            }
        }
        for (size_t at = 0; at < live.size(); ++at) {
            const auto cell = static_cast<int64_t>(at);
            const int64_t row = cell / in_.score_stride, column = cell % in_.score_stride;
            const bool filled = c_.engine.fills() && in_.rows[row].request >= 0 && column < in_.score_columns;
            const uint32_t want = filled ? score_bits(-std::numeric_limits<float>::infinity()) : score_poison(c_, cell);
            if (!live[at] && out_.scores[at] != want)
                dead_.add(cell, 0, fp32_of(out_.scores[at]), filled ? "-inf" : "the dead cell's poison");
        }
        for (const auto& [what, worst] : {std::pair{"lattice: ", &lattice_},
                                          {"bound: ", &bound_},
                                          {"model: ", &off_model_},
                                          {"dead cell: ", &dead_}}) {
            const std::string text = worst->text(in_);
            if (!text.empty()) return what + text;
        }
        // Nine tenths of the scores must not be zero; a single head over few products cannot promise that.
        const int64_t most_zeros = in_.live_cells / (c_.heads * c_.depth >= 128 ? 10 : 4);
        if (c_.values == Values::kLattice && in_.live_cells >= 100 && zeros_ > most_zeros)
            return "no test: " + std::to_string(zeros_) + " of " + std::to_string(in_.live_cells) + " scores are zero";
        return "";
    }

private:
    uint32_t score_bits(float score) const {
        return c_.engine.bf16 ? ref::bf16_round(score) : std::bit_cast<uint32_t>(score);
    }
    // Of cells for messages and distances.
    float value_of_bits(uint32_t bits) const { return std::bit_cast<float>(fp32_of(bits)); }
    uint32_t fp32_of(uint32_t bits) const { return c_.engine.bf16 ? bits << 16 : bits; }

    void take_row(int row) {
        q_codes_ = in_.q.data() + static_cast<size_t>(row) * c_.heads * c_.depth;
        q_scale_ = in_.q_scale.data() + static_cast<size_t>(row) * c_.heads;
        for (int h = 0; h < c_.heads; ++h) {
            bounded_[h].decode(q_codes_ + h * c_.depth, c_.depth);
            model_[h].decode(q_codes_ + h * c_.depth, c_.depth);
        }
        if (fast()) fast_ = ref::fast_query(q_codes_, q_scale_, c_.heads);
    }

    void judge_exact(int64_t cell, const Codes& k, float k_scale) {
        const uint32_t bits = out_.scores[cell];
        const double exact = ref::score(q_codes_, q_scale_, c_.heads, c_.depth, k.codes, k_scale);
        const auto want = static_cast<float>(exact);
        zeros_ += want == 0;
        // Which NaN it is, is up to the arithmetic; the poison is none that arithmetic makes.
        const float got = value_of_bits(bits);
        const bool same =
            std::isnan(want) ? std::isnan(got) && bits != score_poison(c_, cell) : bits == score_bits(want);
        if (!same)
            lattice_.add(cell, std::fabs(double(got) - want), fp32_of(bits), value_text(fp32_of(score_bits(want))));
    }

    bool fast() const { return out_.arithmetic == LIDX_ARITHMETIC_SM90_FAST; }

    void judge_bound(int64_t cell, const Codes& k, float k_scale) {
        const auto got = std::bit_cast<float>(out_.scores[cell]);
        const ref::Arithmetic arithmetic = out_.arithmetic == LIDX_ARITHMETIC_SM100  ? ref::kSm100
                                           : out_.arithmetic == LIDX_ARITHMETIC_SM90 ? ref::kSm90
                                                                                     : ref::kFp32;
        const ref::BoundedScore want =
            fast() ? ref::bounded_fast_score(fast_, bounded_.data(), q_scale_, k.bounded, k_scale)
                   : ref::bounded_score(bounded_.data(), q_scale_, c_.heads, k.bounded, k_scale, arithmetic);
        if (ref::within_bound(got, want)) return;
        char text[96];
        std::snprintf(text, sizeof text, "%.9g within %.3g", want.value, want.bound);
        bound_.add(cell, std::fabs(got - want.value) / want.bound, out_.scores[cell], text);
    }

    void judge_model(int64_t cell, const Codes& k, float k_scale) {
        uint32_t model = 0;
        if (out_.arithmetic == LIDX_ARITHMETIC_SM100)
            model = model_sm100_score(model_.data(), q_scale_, c_.heads, k.model, k_scale);
        else if (out_.arithmetic == LIDX_ARITHMETIC_SM90)
            model = model_sm90_score(model_.data(), q_scale_, c_.heads, k.model, k_scale);
        else if (out_.arithmetic == LIDX_ARITHMETIC_FP32)
            model = model_generic_score(model_.data(), q_scale_, c_.heads, c_.depth, k.model, k_scale);
        else if (fast())
            model = std::bit_cast<uint32_t>(ref::fast_score_model(fast_, k.bounded, k.model.has_nan, k_scale));
        else
            return;
        const uint32_t bits = out_.scores[cell], want = score_bits(std::bit_cast<float>(model));
        if (bits == want) return;
        off_model_.add(cell, std::fabs(double(value_of_bits(bits)) - value_of_bits(want)), fp32_of(bits),
                       value_text(fp32_of(want)));
    }

    const Inputs& in_;
    const Case& c_;
    const Outcome& out_;
    const uint8_t* q_codes_ = nullptr;   // [heads, depth] of the row at hand
    const float* q_scale_ = nullptr;     // [heads]
    std::vector<ref::Operand> bounded_;  // [heads]
    std::vector<ModelOperand> model_;    // [heads]
    ref::FastQuery fast_;                // of the row at hand, where the fast mode computed
    Worst dead_, lattice_, bound_, off_model_;
    int64_t zeros_ = 0;
};

}  // namespace

std::string judge_scores(const Inputs& in, const Outcome& out) { return Judge(in, out).judge(); }

std::string compare_bits(const Inputs& in, const Outcome& a, const char* a_name, const Outcome& b, const char* b_name) {
    if (a.symbol != b.symbol) return std::string(a_name) + " ran " + a.symbol + ", " + b_name + " ran " + b.symbol;
    Worst worst;
    for (size_t cell = 0; cell < a.scores.size(); ++cell)
        if (a.scores[cell] != b.scores[cell])
            worst.add(static_cast<int64_t>(cell), 0, a.scores[cell], value_text(b.scores[cell]) + " of " + b_name);
    const std::string text = worst.text(in);
    return text.empty() ? "" : std::string(a_name) + ": " + text;
}

}  // namespace check

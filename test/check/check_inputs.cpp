// SPDX-License-Identifier: Apache-2.0
#include "check_inputs.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ref/e4m3.h"
#include "ref/lattice.h"
#include "ref/portable_rng.h"

namespace check {

namespace {

using lidx::ref::Rng;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

int draw(Rng& rng, int low, int high) { return static_cast<int>(rng.between(low, high)); }
template <typename T, size_t n>
T pick(Rng& rng, const std::array<T, n>& from) {
    return from[rng.below(n)];
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

void draw_tokens_and_lengths(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    std::vector<int> tokens(c.batch, c.tokens);
    in->context_lens.assign(c.batch, c.keys);
    const int lucky = draw(rng, 0, c.batch - 1);  // the request that keeps the full size
    for (int b = 0; b < c.batch; ++b) {
        int32_t& length = in->context_lens[b];
        switch (c.situation) {
            case Situation::kRagged:
                if (b != lucky) {
                    tokens[b] = draw(rng, 0, c.tokens);
                    length = draw(rng, 0, c.keys);
                }
                break;
            case Situation::kDead:
                length = std::array{0, -1, INT_MIN}[(b + c.seed) % 3];
                break;
            case Situation::kLengths:
                length = std::array{INT_MAX, 0, c.keys + 1, -7, c.keys, INT_MIN, 1}[(b + c.seed % 2) % 7];
                break;
            case Situation::kZeroTokens:
                tokens[b] = b % 2 == 0 ? 0 : c.tokens;
                break;
            default:
                break;
        }
    }
    in->cu_seqlens_q.assign(1, 0);
    for (int t : tokens) in->cu_seqlens_q.push_back(in->cu_seqlens_q.back() + t);
}

void set_limits(Inputs* in) {
    const Case& c = in->c;
    const int rows = in->cu_seqlens_q.back();
    in->page_size = c.page_size;
    in->max_tokens = std::max(c.tokens, 1);
    in->max_rows = std::max(rows, 1);
    in->max_keys = c.keys;
    in->table_width = c.page_size == 0 ? 0 : ceil_div(c.keys, c.page_size);
    switch (c.situation) {
        case Situation::kSlack:
            in->max_tokens += 3;
            in->max_rows += 2;
            in->max_keys += 200;
            if (c.page_size != 0) in->table_width += 3;
            break;
        case Situation::kRagged:
        case Situation::kZeroTokens:
            in->max_rows += 2;
            break;
        case Situation::kLengths:  // the table's width is the lower limit (contiguous: max_keys is)
            if (c.page_size != 0) in->max_keys = in->table_width * c.page_size + 5;
            break;
        case Situation::kOverrun:
            in->max_rows = std::max(rows - 1, 1);
            break;
        default:
            break;
    }
    in->score_stride = in->max_keys + c.score_pad;
}

void set_strides(Inputs* in) {
    const Case& c = in->c;
    const int64_t slots = c.page_size == 0 ? in->max_keys : c.page_size;
    const int64_t code_bytes = slots * c.depth, scale_bytes = slots * 4;
    if (c.layout == Layout::kBlockSplit) {
        in->k_page_stride = round_up(code_bytes + scale_bytes, 16) + c.page_pad;
        in->k_scale_page_stride = in->k_page_stride;
        in->k_scale_offset = code_bytes;
    } else {
        in->k_page_stride = code_bytes + c.page_pad;
        in->k_scale_page_stride = scale_bytes + c.page_pad / 4;
    }
}

bool on_lattice(const Case& c) { return c.values == Values::kLattice || c.values == Values::kSpecial; }

// Not for lattices. kNormal: quantised as if amax had been mapped to 448. kCodes: any finite code.
void draw_codes(Rng& rng, Values values, int depth, uint8_t* codes) {
    for (int i = 0; i < depth; ++i) {
        if (values == Values::kNormal) {
            codes[i] = lidx::ref::e4m3_encode(rng.heavy_tailed() * 60);
        } else {
            codes[i] = static_cast<uint8_t>(rng.below(256));
            if ((codes[i] & 0x7f) == 0x7f) codes[i] &= 0x80;
        }
    }
}

void fill_rows(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    in->q.resize(static_cast<size_t>(in->max_rows) * c.heads * c.depth);
    in->q_scale.resize(static_cast<size_t>(in->max_rows) * c.heads);
    for (int row = 0; row < in->max_rows; ++row) {
        uint8_t* const q = in->q.data() + static_cast<size_t>(row) * c.heads * c.depth;
        float* const w = in->q_scale.data() + static_cast<size_t>(row) * c.heads;
        if (on_lattice(c)) {
            lidx::ref::lattice_query(rng, c.heads, c.depth, q, w);
            for (int h = 0; h < c.heads; ++h) lidx::ref::assert_lattice_codes(q + h * c.depth, c.depth);
            lidx::ref::assert_lattice_weights(w, c.heads);
        } else {
            const double scale = std::ldexp(1.0, draw(rng, -12, 2));
            for (int h = 0; h < c.heads; ++h) {
                draw_codes(rng, c.values, c.depth, q + h * c.depth);
                w[h] = static_cast<float>(rng.normal() * scale);
            }
        }
        if (c.values != Values::kSpecial) continue;
        // Of five rows one holds a NaN code, one a scale that is no number, one weights that are subnormal (and every
        // sum still exact); the rest stays finite. Five is prime to the tokens of every tile, and a head keeps its turn
        // for four such rows: in 20 * heads rows each head has its NaN at each place of a tile.
        if (row % 5 == 0)
            q[(row / 20 + c.seed) % c.heads * c.depth + draw(rng, 0, c.depth - 1)] = row % 2 == 0 ? 0x7f : 0xff;
        if (row % 5 == 2) w[draw(rng, 0, c.heads - 1)] = pick(rng, std::array{kNan, kInf, -kInf, -0.0f});
        if (row % 5 == 4)
            for (int h = 0; h < c.heads; ++h) w[h] = std::ldexp(w[h], -132);
    }
}

void fill_keys(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    const int64_t width_keys = c.page_size == 0 ? in->max_keys : in->table_width * c.page_size;
    const int64_t longest = std::min(in->max_keys, width_keys);
    in->requests.resize(c.batch);
    for (int b = 0; b < c.batch; ++b) {
        Request& r = in->requests[b];
        r.row_begin = std::min(in->cu_seqlens_q[b], in->max_rows);
        r.tokens = std::min(in->cu_seqlens_q[b + 1], in->max_rows) - r.row_begin;
        r.keys = static_cast<int>(std::clamp<int64_t>(in->context_lens[b], 0, longest));
        r.codes.resize(static_cast<size_t>(r.keys) * c.depth);
        r.scales.resize(r.keys);
        r.dead.assign(r.keys, 0);
        for (int key = 0; key < r.keys; ++key) {
            uint8_t* const k = r.codes.data() + static_cast<size_t>(key) * c.depth;
            if (on_lattice(c)) {
                r.scales[key] = lidx::ref::lattice_key(rng, c.depth, k);
                lidx::ref::assert_lattice_codes(k, c.depth);
                lidx::ref::assert_lattice_k_scale(r.scales[key]);
            } else {
                draw_codes(rng, c.values, c.depth, k);
                r.scales[key] = static_cast<float>(std::ldexp(1 + rng.uniform(), draw(rng, -9, 1)));
            }
            if (c.values != Values::kSpecial) continue;
            if (key % 8 == 3) k[draw(rng, 0, c.depth - 1)] = key % 16 == 3 ? 0x7f : 0xff;
            if (key % 8 == 1) r.scales[key] = std::ldexp(r.scales[key], -138);
            if (key % 8 == 6) r.scales[key] = pick(rng, std::array{kNan, kInf, -kInf, -0.0f});
        }
    }
}

// Bytes of the pools, all poison at first: unused pages, slots past a length and padding keep NaN codes and NaN scales.
void fill_pools(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    const bool paged = c.page_size != 0;
    const int64_t slots = paged ? c.page_size : in->max_keys;
    int64_t used = c.batch;
    if (paged) {
        used = 0;
        for (const Request& r : in->requests) used += ceil_div(r.keys, slots);
    }
    in->num_pages = used + (paged ? 3 : 1);
    // The pools end with the last page's last byte, not with its padding.
    const int64_t code_bytes = slots * c.depth, scale_bytes = slots * 4;
    const bool split = c.layout != Layout::kBlockSplit;
    in->k_pool.assign((in->num_pages - 1) * in->k_page_stride + code_bytes + (split ? 0 : scale_bytes), 0xff);
    if (split) in->k_scale_pool.assign((in->num_pages - 1) * in->k_scale_page_stride + scale_bytes, 0xff);
    uint8_t* const scale_base = split ? in->k_scale_pool.data() : in->k_pool.data() + in->k_scale_offset;

    std::vector<int32_t> order(in->num_pages);
    std::iota(order.begin(), order.end(), 0);
    if (paged)
        for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);

    // Entries past ceil(len / P): -1, INT_MAX and stale ids of other requests' pages.
    in->block_table.resize(static_cast<size_t>(c.batch) * in->table_width);
    for (int32_t& entry : in->block_table)
        entry = pick(rng, std::array{-1, INT_MAX, static_cast<int32_t>(rng.below(in->num_pages)), INT_MIN});

    size_t next = 0;
    for (int b = 0; b < c.batch; ++b) {
        Request& r = in->requests[b];
        for (int64_t first = 0; first < r.keys; first += slots) {
            const int64_t page = order[paged ? next : static_cast<size_t>(b)];
            ++next;
            const int64_t live = std::min<int64_t>(slots, r.keys - first);
            std::memcpy(in->k_pool.data() + page * in->k_page_stride, r.codes.data() + first * c.depth, live * c.depth);
            std::memcpy(scale_base + page * in->k_scale_page_stride, r.scales.data() + first, live * 4);
            if (!paged) continue;
            int32_t& entry = in->block_table[b * in->table_width + first / slots];
            entry = static_cast<int32_t>(page);
            // The very first page of every second request is bad, others one in four.
            if (c.situation == Situation::kBadPages && (first == 0 ? b % 2 == 0 : rng.below(4) == 0)) {
                const auto pages = static_cast<int32_t>(in->num_pages);
                entry = pick(rng, std::array{pages, -1, INT_MAX, INT_MIN, pages + 5});
                std::fill_n(r.dead.begin() + first, live, uint8_t{1});
                in->has_bad_pages = in->has_bad_pages || r.tokens > 0;
            }
        }
    }
}

}  // namespace

uint32_t score_poison(int64_t i) {
    // Negative: what arithmetic makes on a GPU is 0x7fffffff.
    return 0xffc00000u | (static_cast<uint32_t>(i * 2654435761u >> 7) & 0x3ffffe) | 1;
}

Inputs make_inputs(const Case& c) {
    Inputs in;
    in.c = c;
    Rng rng(c.seed);
    draw_tokens_and_lengths(&in, rng);
    set_limits(&in);
    set_strides(&in);
    fill_rows(&in, rng);
    fill_keys(&in, rng);
    fill_pools(&in, rng);
    for (const Request& r : in.requests)
        in.live_cells += int64_t{r.tokens} * (r.keys - std::count(r.dead.begin(), r.dead.end(), 1));
    return in;
}

}  // namespace check

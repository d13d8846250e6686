// SPDX-License-Identifier: Apache-2.0
#include "check_inputs.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ref/bf16.h"
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

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

// Rows per request, and the tokens or keys of each request; Sight::lengths are those of the requests for now.
void draw_tokens_and_lengths(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    const bool wide = c.engine.wide;
    std::vector<int> tokens(c.batch, c.tokens);
    std::vector<int64_t>& lengths = in->sight.lengths;
    lengths.assign(c.batch, c.keys);
    const int lucky = draw(rng, 0, c.batch - 1);  // the request that keeps the full size
    for (int b = 0; b < c.batch; ++b) {
        int64_t& length = lengths[b];
        switch (c.situation) {
            case Situation::kRagged:
                if (b != lucky) {
                    tokens[b] = draw(rng, 0, c.tokens);
                    length = draw(rng, 0, c.keys);
                }
                break;
            case Situation::kDead:
                length = std::array<int64_t, 3>{0, -1, wide ? kLeast : INT_MIN}[(b + c.seed) % 3];
                break;
            case Situation::kLengths:
                length = std::array<int64_t, 7>{wide ? kMost : INT_MAX, 0, c.keys + 1, -7, c.keys,
                                                wide ? kLeast : INT_MIN, 1}[(b + c.seed % 2) % 7];
                break;
            case Situation::kZeroTokens:
                tokens[b] = b % 2 == 0 ? 0 : c.tokens;
                break;
            default:
                break;
        }
        // A key of r tokens is there from its last token on.
        if (c.engine.ratio > 1 && length > 0 && length < kMost / 1024 && length < INT_MAX / 1024)
            length = length * c.engine.ratio + draw(rng, 0, c.engine.ratio - 1);
    }
    if (c.engine.rows == Engine::Rows::kFixed) tokens.assign(c.batch, c.tokens);
    in->sight.cu_seqlens.assign(1, 0);
    for (int t : tokens) in->sight.cu_seqlens.push_back(in->sight.cu_seqlens.back() + t);
}

void set_limits(Inputs* in) {
    const Case& c = in->c;
    const int rows = in->sight.cu_seqlens.back();
    in->page_size = c.page_size;
    in->max_tokens = std::max(c.tokens, 1);
    in->max_rows = std::max(rows, 1);
    in->max_keys = c.keys;
    in->table_width = c.page_size == 0 ? 0 : ceil_div(c.keys, c.page_size);
    switch (c.situation) {
        case Situation::kSlack:
            if (c.engine.rows != Engine::Rows::kFixed) in->max_tokens += 3;
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
    in->declared_columns = c.engine.cut > 0 ? c.engine.cut : c.engine.fill > 0 ? in->max_keys + c.engine.fill : 0;
    in->score_columns = in->declared_columns != 0 ? in->declared_columns : in->max_keys;
    in->score_stride = in->score_columns + c.score_pad;
    // The scale pool's own table is the narrower one where lengths are to be clamped.
    if (c.engine.scale_table)
        in->scale_table_width = std::max<int64_t>(in->table_width - (c.situation == Situation::kLengths ? 1 : 0), 1);
}

// Lengths and windows of rows, drawn around the length of their request: none, part of it, all, beyond, negative.
void draw_sight(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    lidx::ref::Sight& s = in->sight;
    s.rows = static_cast<lidx::ref::SightRows>(c.engine.rows);
    s.keys = static_cast<lidx::ref::SightKeys>(c.engine.sees);
    s.batch = c.batch;
    s.max_rows = in->max_rows;
    s.max_tokens = in->max_tokens;
    s.ratio = c.engine.ratio;
    s.room = in->max_keys;
    if (c.page_size != 0) s.room = std::min(s.room, in->table_width * c.page_size);
    if (c.engine.scale_table) s.room = std::min(s.room, in->scale_table_width * c.page_size);
    s.row_requests.assign(in->max_rows, -1);   // padding rows
    for (int b = 0; b < c.batch; ++b)
        for (int row = s.cu_seqlens[b]; row < std::min(s.cu_seqlens[b + 1], in->max_rows); ++row)
            s.row_requests[row] = b;
    if (c.engine.sees != Engine::Sees::kRowLength && c.engine.sees != Engine::Sees::kWindow) return;
    const std::vector<int64_t> requests = std::move(s.lengths);
    s.lengths.assign(in->max_rows, -3);   // padding rows
    s.begins.assign(in->max_rows, 5);
    s.ends.assign(in->max_rows, -5);
    for (int row = 0; row < in->max_rows; ++row) {
        if (s.row_requests[row] < 0) continue;
        const int64_t length = requests[s.row_requests[row]];
        const auto few = static_cast<int>(std::clamp<int64_t>(length, 0, c.keys * c.engine.ratio));
        const bool exact = c.situation == Situation::kPlain;   // a named length is the length of every row
        const int64_t fewer = std::max<int64_t>(length - 1, -2);
        s.lengths[row] = exact ? length : std::array<int64_t, 6>{length, draw(rng, 0, few), fewer, 0, -1, length}[
                                              rng.below(6)];
        // Context-parallel splits hand over rows from both ends of a sequence.
        const int64_t first = draw(rng, 0, few);
        s.begins[row] = std::array<int64_t, 5>{0, first, first, -4, few}[rng.below(5)];
        s.ends[row] = std::array<int64_t, 5>{length, length, first + draw(rng, 0, 140), first - 1, few}[rng.below(5)];
        if (exact && row % 2 == 0) s.begins[row] = first, s.ends[row] = length;
    }
}

// Each row's keys, and what its request must have of them.
void find_rows(Inputs* in) {
    const Case& c = in->c;
    in->rows.resize(in->max_rows);
    in->requests.resize(c.batch);
    for (Request& r : in->requests) r.row_begin = in->max_rows;
    for (int row = 0; row < in->max_rows; ++row) {
        const lidx::ref::RowOwner owner = lidx::ref::owner_of(in->sight, row);
        if (owner.request < 0) continue;
        const lidx::ref::SeenKeys seen = lidx::ref::seen_keys(in->sight, owner, row);
        const int64_t end = c.engine.relative ? std::min(seen.end, seen.begin + in->score_columns) : seen.end;
        in->rows[row] = {static_cast<int>(owner.request), static_cast<int>(seen.begin), static_cast<int>(end)};
        Request& r = in->requests[owner.request];
        r.row_begin = std::min(r.row_begin, row);
        r.tokens += 1;
        r.keys = std::max(r.keys, in->rows[row].end);
    }
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

// One row's weights as they lie in memory; what the kernel makes of them goes back into w.
void store_weights(Inputs* in, Rng& rng, int row, float* w) {
    const Engine& e = in->c.engine;
    const auto store = [](std::vector<uint8_t>* to, int64_t at, bool bf16, float value) {
        const uint16_t half = lidx::ref::bf16_round(value);
        if (bf16) std::memcpy(to->data() + at * 2, &half, 2);
        else std::memcpy(to->data() + at * 4, &value, 4);
        return bf16 ? lidx::ref::bf16_value(half) : value;
    };
    for (int h = 0; h < in->c.heads; ++h) {
        float factor = 1;
        if (e.factor != 0) {
            factor = on_lattice(in->c) ? std::ldexp(1.0f, row % 7 - 3) : static_cast<float>(rng.normal());
            factor = store(&in->weights2, int64_t{row} * (in->c.heads + 1) + h, e.factor == 2, factor);
        }
        const float first = store(&in->weights, int64_t{row} * (in->c.heads + e.weight_gap) + h, e.weight_bf16,
                                  w[h] / factor);
        w[h] = e.factor != 0 ? first * factor : first;
    }
}

void fill_rows(Inputs* in, Rng& rng) {
    const Case& c = in->c;
    // Gaps between the rows of weights are NaNs of either type.
    in->weights.assign(static_cast<size_t>(in->max_rows) * (c.heads + c.engine.weight_gap) *
                           (c.engine.weight_bf16 ? 2 : 4), 0xff);
    if (c.engine.factor != 0)
        in->weights2.assign(static_cast<size_t>(in->max_rows) * (c.heads + 1) * (c.engine.factor == 2 ? 2 : 4), 0xff);
    in->q.resize(static_cast<size_t>(in->max_rows) * c.heads * c.depth);
    in->q_scale.resize(static_cast<size_t>(in->max_rows) * c.heads);
    for (int row = 0; row < in->max_rows; ++row) {
        uint8_t* const q = in->q.data() + static_cast<size_t>(row) * c.heads * c.depth;
        float* const w = in->q_scale.data() + static_cast<size_t>(row) * c.heads;
        if (on_lattice(c)) {
            if (is_fast(c)) {
                lidx::ref::fast_lattice_query(rng, c.heads, c.depth, q, w);
                lidx::ref::assert_fast_lattice_codes(q, c.heads, c.depth, 1, lidx::ref::kFastLatticeCodes);
            } else {
                lidx::ref::lattice_query(rng, c.heads, c.depth, q, w);
                for (int h = 0; h < c.heads; ++h) lidx::ref::assert_lattice_codes(q + h * c.depth, c.depth);
            }
            lidx::ref::assert_lattice_weights(w, c.heads);
        } else {
            const double scale = std::ldexp(1.0, draw(rng, -12, 2));
            for (int h = 0; h < c.heads; ++h) {
                draw_codes(rng, c.values, c.depth, q + h * c.depth);
                w[h] = static_cast<float>(rng.normal() * scale);
            }
        }
        struct Store {   // at the end of the row
            Inputs* in;
            Rng& rng;
            int row;
            float* w;
            ~Store() { store_weights(in, rng, row, w); }
        } const at_end{in, rng, row, w};
        // One weight in eight rows is exactly 0, of either sign.
        if (row % 8 == 6) w[draw(rng, 0, c.heads - 1)] = row % 16 == 6 ? 0.0f : -0.0f;
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
    for (int b = 0; b < c.batch; ++b) {
        Request& r = in->requests[b];
        r.codes.resize(static_cast<size_t>(r.keys) * c.depth);
        r.scales.resize(r.keys);
        r.dead.assign(r.keys, 0);
        for (int key = 0; key < r.keys; ++key) {
            uint8_t* const k = r.codes.data() + static_cast<size_t>(key) * c.depth;
            if (on_lattice(c)) {
                r.scales[key] = is_fast(c) ? lidx::ref::fast_lattice_key(rng, c.depth, k)
                                           : lidx::ref::lattice_key(rng, c.depth, k);
                if (is_fast(c)) lidx::ref::assert_fast_lattice_codes(k, 1, c.depth, 2, c.depth);
                else lidx::ref::assert_lattice_codes(k, c.depth);
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
    in->scale_num_pages = in->num_pages + (c.engine.scale_table ? 2 : 0);
    // The pools end with the last page's last byte, not with its padding.
    const int64_t code_bytes = slots * c.depth, scale_bytes = slots * 4;
    const bool split = c.layout != Layout::kBlockSplit;
    in->k_pool.assign((in->num_pages - 1) * in->k_page_stride + code_bytes + (split ? 0 : scale_bytes), 0xff);
    if (split) in->k_scale_pool.assign((in->scale_num_pages - 1) * in->k_scale_page_stride + scale_bytes, 0xff);
    uint8_t* const scale_base = split ? in->k_scale_pool.data() : in->k_pool.data() + in->k_scale_offset;

    const auto shuffled = [&](int64_t pages) {
        std::vector<int32_t> order(pages);
        std::iota(order.begin(), order.end(), 0);
        if (paged)
            for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
        return order;
    };
    const std::vector<int32_t> order = shuffled(in->num_pages);
    const std::vector<int32_t> scale_order = c.engine.scale_table ? shuffled(in->scale_num_pages) : order;

    // Entries past ceil(len / P): -1, INT_MAX and stale ids of other requests' pages.
    const auto garbage = [&](std::vector<int32_t>* table, int64_t width) {
        table->resize(static_cast<size_t>(c.batch) * width);
        for (int32_t& entry : *table)
            entry = pick(rng, std::array{-1, INT_MAX, static_cast<int32_t>(rng.below(in->num_pages)), INT_MIN});
    };
    garbage(&in->block_table, in->table_width);
    garbage(&in->scale_table, in->scale_table_width);

    size_t next = 0;
    for (int b = 0; b < c.batch; ++b) {
        Request& r = in->requests[b];
        for (int64_t first = 0; first < r.keys; first += slots) {
            const int64_t page = order[paged ? next : static_cast<size_t>(b)];
            const int64_t scale_page = scale_order[paged ? next : static_cast<size_t>(b)];
            ++next;
            const int64_t live = std::min<int64_t>(slots, r.keys - first);
            std::memcpy(in->k_pool.data() + page * in->k_page_stride, r.codes.data() + first * c.depth, live * c.depth);
            std::memcpy(scale_base + scale_page * in->k_scale_page_stride, r.scales.data() + first, live * 4);
            if (!paged) continue;
            int32_t& entry = in->block_table[b * in->table_width + first / slots];
            entry = static_cast<int32_t>(page);
            int32_t* const scale_entry =
                c.engine.scale_table ? &in->scale_table[b * in->scale_table_width + first / slots] : nullptr;
            if (scale_entry != nullptr) *scale_entry = static_cast<int32_t>(scale_page);
            // The very first page of every second request is bad, others one in four; of two tables either one is.
            if (c.situation == Situation::kBadPages && (first == 0 ? b % 2 == 0 : rng.below(4) == 0)) {
                const bool scales = scale_entry != nullptr && rng.below(2) == 0;
                const auto pages = static_cast<int32_t>(scales ? in->scale_num_pages : in->num_pages);
                (scales ? *scale_entry : entry) = pick(rng, std::array{pages, -1, INT_MAX, INT_MIN, pages + 5});
                std::fill_n(r.dead.begin() + first, live, uint8_t{1});
            }
        }
    }
}

}  // namespace

std::vector<uint8_t> length_bytes(const Case& c, const std::vector<int64_t>& lengths) {
    std::vector<uint8_t> bytes(lengths.size() * (c.engine.wide ? 8 : 4));
    for (size_t i = 0; i < lengths.size(); ++i) {
        const auto narrow = static_cast<int32_t>(lengths[i]);
        if (c.engine.wide) std::memcpy(bytes.data() + i * 8, &lengths[i], 8);
        else std::memcpy(bytes.data() + i * 4, &narrow, 4);
    }
    return bytes;
}

uint32_t score_poison(const Case& c, int64_t i) {
    if (c.engine.bf16) return 0xff81u + static_cast<uint32_t>(i * 2654435761u >> 9) % 0x7e;
    // Negative: what arithmetic makes on a GPU is 0x7fffffff.
    return 0xffc00000u | (static_cast<uint32_t>(i * 2654435761u >> 7) & 0x3ffffe) | 1;
}

Inputs make_inputs(const Case& c) {
    Inputs in;
    in.c = c;
    Rng rng(c.seed);
    draw_tokens_and_lengths(&in, rng);
    set_limits(&in);
    draw_sight(&in, rng);
    find_rows(&in);
    set_strides(&in);
    fill_rows(&in, rng);
    fill_keys(&in, rng);
    fill_pools(&in, rng);
    for (const Row& row : in.rows)
        for (int key = row.begin; key < row.end; ++key) {
            const bool dead = in.requests[row.request].dead[key] != 0;
            in.has_bad_pages = in.has_bad_pages || dead;
            in.live_cells += dead ? 0 : 1;
        }
    return in;
}

}  // namespace check

// SPDX-License-Identifier: Apache-2.0
// lidx gen: a case from a seed, the same files on every machine. What is drawn for a row or a key depends on the seed
// and on its request and position only, so cases that differ in layout or page size hold the same keys.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "case_io.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "output_file.h"
#include "progress.h"
#include "test/ref/lattice.h"
#include "test/ref/oracle.h"
#include "test/ref/portable_rng.h"

namespace lidx::command {

namespace {

using ref::Rng;

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

enum Stream : uint64_t { kShapes = 1, kPages, kModel, kQueries, kKeys, kSegments, kSight };

uint64_t index_of(int32_t request, int64_t position) {
    return (static_cast<uint64_t>(request) << 32) + static_cast<uint64_t>(position);
}

// Activations as an indexer sees them: heavy tails, a few outlier channels, and topics that last for a stretch of the
// text and that query heads care about or not. Keys are normalised before the channel gains, as a layer norm does.
class Activations {
  public:
    explicit Activations(uint64_t seed) : seed_(seed) {
        Rng rng(seed, kModel);
        for (double& gain : gain_) gain = rng.below(32) == 0 ? 8 + 24 * rng.uniform() : 0.5 + rng.uniform();
        for (auto& topic : topic_)
            for (double& x : topic) x = rng.normal();
    }

    void key(int32_t request, int64_t position, uint8_t* codes, float* scale) const {
        Rng segment(seed_, kSegments, index_of(request, position / kSegmentKeys));
        const auto& topic = topic_[segment.below(kTopics)];
        Rng rng(seed_, kKeys, index_of(request, position));
        std::array<double, kDepth> x;
        double squares = 0;
        for (int c = 0; c < kDepth; ++c) {
            x[c] = topic[c] + rng.heavy_tailed();
            squares += x[c] * x[c];
        }
        const double norm = 1 / std::sqrt(squares / kDepth + 1e-6);
        for (int c = 0; c < kDepth; ++c) x[c] *= norm * gain_[c];
        hadamard(x);
        *scale = ref::e4m3_quantise(x.data(), kDepth, codes);
    }

    // One head; its weight carries heads^-0.5, the query's scale and the softmax scale 128^-0.5, and has either sign.
    void query(Rng& rng, int heads, uint8_t* codes, float* weight) const {
        const auto& topic = topic_[rng.below(kTopics)];
        const double affinity = rng.normal();
        std::array<double, kDepth> x;
        for (int c = 0; c < kDepth; ++c) x[c] = (affinity * topic[c] + rng.heavy_tailed()) * gain_[c];
        hadamard(x);
        const float scale = ref::e4m3_quantise(x.data(), kDepth, codes);
        const double projected = rng.normal() + 0.25;
        *weight = static_cast<float>(projected / std::sqrt(static_cast<double>(heads)) * scale / std::sqrt(128.0));
    }

  private:
    static constexpr int kTopics = 16;
    static constexpr int kSegmentKeys = 256;

    // Walsh-Hadamard transform of 128 points, scaled by 128^-0.5.
    static void hadamard(std::array<double, kDepth>& x) {
        for (int half = 1; half < kDepth; half *= 2)
            for (int i = 0; i < kDepth; ++i)
                if ((i & half) == 0) {
                    const double a = x[i], b = x[i + half];
                    x[i] = a + b;
                    x[i + half] = a - b;
                }
        const double scale = 1 / std::sqrt(128.0);
        for (double& value : x) value *= scale;
    }

    uint64_t seed_;
    std::array<double, kDepth> gain_;
    std::array<std::array<double, kDepth>, kTopics> topic_;
};

// keys: of each request.
void draw_shapes(const GenOptions& options, Case& c, std::vector<int32_t>& keys_of) {
    c.batch = options.batch;
    c.heads = options.heads;
    c.lattice = options.lattice;
    Rng rng(options.seed, kShapes);
    c.cu_seqlens_q = {0};
    int64_t rows = 0;
    for (int32_t request = 0; request < options.batch; ++request) {
        const bool even = options.rows == kRowMapNames[static_cast<int>(RowMap::kFixed)];
        const int64_t drawn = options.ragged ? rng.between(0, options.tokens) : options.tokens;
        const int64_t tokens = even ? options.tokens : drawn;
        const int64_t keys = options.ragged ? rng.between(0, options.keys) : options.keys;
        rows += tokens;
        if (rows > kInt32Max)
            bad_input("--batch, --tokens: " + std::to_string(rows) + " rows in " + counted(request + 1, "request") +
                      ", expected at most " + std::to_string(kInt32Max) + " in all");
        c.cu_seqlens_q.push_back(static_cast<int32_t>(rows));
        keys_of.push_back(static_cast<int32_t>(keys));
    }
    c.rows = rows;
}

// Who sees what: the lengths, in tokens where a key is several, and each row's own.
void draw_sight(const GenOptions& options, const std::vector<int32_t>& keys_of, Case& c) {
    c.row_map = static_cast<RowMap>(std::find(std::begin(kRowMapNames), std::end(kRowMapNames), options.rows)
                                    - std::begin(kRowMapNames));
    c.visibility = options.causal        ? Visibility::kCausal
                   : options.row_lengths ? Visibility::kRowLengths
                   : options.window > 0  ? Visibility::kWindow
                                         : Visibility::kLength;
    c.compress_ratio = options.ratio;
    for (int32_t request = 0; request < c.batch; ++request) {
        Rng rng(options.seed, kSight, index_of(request, 0));
        // The last key has all its tokens, and the next perhaps some.
        const int64_t begun = keys_of[request] > 0 && options.ratio > 1 ? rng.between(0, options.ratio - 1) : 0;
        const int64_t length = int64_t{keys_of[request]} * options.ratio + begun;
        if (length > kInt32Max)
            bad_input("--keys, --ratio: a request of " + std::to_string(length) + " tokens, expected at most " +
                      std::to_string(kInt32Max));
        c.context_lens.push_back(static_cast<int32_t>(length));
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1]; ++row) {
            if (options.row_lengths) c.row_lengths.push_back(static_cast<int32_t>(rng.between(0, length)));
            if (options.window == 0) continue;
            const int64_t end = length - (c.cu_seqlens_q[request + 1] - row) + 1;   // as causal rows have it
            c.row_begin.push_back(static_cast<int32_t>(std::max<int64_t>(0, end - options.window)));
            c.row_end.push_back(static_cast<int32_t>(end));
        }
    }
}

// Said before anything is allocated: memory that does not exist is often granted, and the process killed when it is
// used.
void require_memory(const Case& c) {
    const int64_t key_bytes = kDepth + int64_t{sizeof(float)};
    const int64_t pool_bytes = c.num_pages * (c.page_slots * key_bytes + int64_t{sizeof(int32_t)});
    const int64_t needed = c.rows * c.heads * key_bytes + pool_bytes + c.batch * c.max_pages * int64_t{sizeof(int32_t)};
    const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
    if (needed > memory)
        bad_input("--batch, --tokens, --heads, --keys, --page: the case takes " + std::to_string(needed)
                  + " bytes, this machine has " + std::to_string(memory) + " bytes of memory");
}

// Keys of a request lie in pages all over the pool. A few pages belong to nobody. The table is one entry wider than any
// length needs, and entries past a length hold ids that would hurt if they were read.
void draw_pages(const GenOptions& options, const std::vector<int32_t>& keys_of, Case& c) {
    if (c.contiguous()) {
        c.page_slots = options.keys;
        c.num_pages = c.batch;
        require_memory(c);
        return;
    }
    c.page_slots = options.page;
    c.max_pages = (int64_t{options.keys} + options.page - 1) / options.page + 1;
    int64_t used = 0;
    for (const int32_t length : keys_of) used += (int64_t{length} + options.page - 1) / options.page;
    c.num_pages = used + 1 + used / 16;
    if (c.num_pages > kInt32Max)
        bad_input("--batch, --keys: " + std::to_string(c.num_pages) + " pages of --page " +
                  std::to_string(options.page) + " keys, expected at most " + std::to_string(kInt32Max));
    require_memory(c);

    Rng rng(options.seed, kPages);
    std::vector<int32_t> ids(static_cast<size_t>(c.num_pages));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    for (size_t i = ids.size() - 1; i > 0; --i) std::swap(ids[i], ids[rng.below(i + 1)]);

    const int32_t poison[] = {-1, std::numeric_limits<int32_t>::max(), static_cast<int32_t>(c.num_pages),
                              std::numeric_limits<int32_t>::min(), ids.back()};
    size_t next = 0, next_poison = 0;
    for (const int32_t length : keys_of) {
        const int64_t pages = (int64_t{length} + options.page - 1) / options.page;
        for (int64_t entry = 0; entry < c.max_pages; ++entry)
            c.block_table.push_back(entry < pages ? ids[next++] : poison[next_poison++ % std::size(poison)]);
    }
}

// At least nine tenths of the scores of a lattice case must not be zero; looks at up to 4096 cells.
void assert_lattice_scores(const Case& c) {
    int64_t cells = 0, zeros = 0;
    for (int32_t request = 0; request < c.batch; ++request) {
        const int64_t step = std::max<int64_t>(1, c.length(request) / std::max<int64_t>(1, 4096 / c.batch));
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1] && cells < 4096; ++row)
            for (int64_t key = c.keys_of(request, row).begin; key < c.keys_of(request, row).end && cells < 4096;
                 key += step) {
                const int64_t page = c.page_of(request, key), slot = key % std::max<int64_t>(1, c.page_slots);
                ++cells;
                zeros += ref::score(c.q.data() + row * c.heads * kDepth, c.q_scale.data() + row * c.heads, c.heads,
                                    kDepth, c.codes(page, slot), c.scale(page, slot))
                         == 0;
            }
    }
    if (cells >= 100 && zeros * 10 > cells)
        throw std::logic_error("lattice: " + std::to_string(zeros) + " of " + std::to_string(cells)
                               + " scores are zero");
}

// Room for all values. Unused pages and slots past a length hold NaN codes and NaN scales: a score that used one would
// show it.
void fill_with_nan(Case& c) {
    c.q.resize(static_cast<size_t>(c.rows * c.heads * kDepth));
    c.q_scale.resize(static_cast<size_t>(c.rows * c.heads));
    c.k.assign(static_cast<size_t>(c.num_pages * c.page_bytes()), ref::kE4m3NaN);
    if (!c.block_split()) c.k_scale.resize(static_cast<size_t>(c.num_pages * c.page_slots));
    for (int64_t page = 0; page < c.num_pages; ++page)
        for (int64_t slot = 0; slot < c.page_slots; ++slot)
            c.set_scale(page, slot, std::numeric_limits<float>::quiet_NaN());
}

void draw_query(const GenOptions& options, const Activations& activations, int32_t request, int64_t row, Case& c) {
    Rng rng(options.seed, kQueries, index_of(request, row - c.cu_seqlens_q[request]));
    uint8_t* codes = c.q.data() + row * c.heads * kDepth;
    float* weights = c.q_scale.data() + row * c.heads;
    if (!options.lattice) {
        for (int h = 0; h < c.heads; ++h) activations.query(rng, c.heads, codes + h * kDepth, weights + h);
        return;
    }
    ref::lattice_query(rng, c.heads, kDepth, codes, weights);
    for (int h = 0; h < c.heads; ++h) ref::assert_lattice_codes(codes + h * kDepth, kDepth);
    ref::assert_lattice_weights(weights, c.heads);
}

void draw_key(const GenOptions& options, const Activations& activations, int32_t request, int64_t key, Case& c) {
    const int64_t page = c.page_of(request, key), slot = c.contiguous() ? key : key % c.page_slots;
    uint8_t* codes = c.codes(page, slot);
    float scale;
    if (options.lattice) {
        Rng rng(options.seed, kKeys, index_of(request, key));
        scale = ref::lattice_key(rng, kDepth, codes);
        ref::assert_lattice_codes(codes, kDepth);
        ref::assert_lattice_k_scale(scale);
    } else {
        activations.key(request, key, codes, &scale);
    }
    c.set_scale(page, slot, scale);
}

}  // namespace

int run_gen(const GenOptions& options) {
    tool::require_output_folder("--out", options.out);
    Case c;
    c.layout =
        static_cast<Layout>(std::find(std::begin(kLayoutNames), std::end(kLayoutNames), options.layout) - kLayoutNames);
    std::vector<int32_t> keys_of;   // [batch]
    draw_shapes(options, c, keys_of);
    draw_sight(options, keys_of, c);
    draw_pages(options, keys_of, c);
    c.find_seen();
    fill_with_nan(c);

    const Activations activations(options.seed);
    int64_t keys = 0;
    for (const int32_t length : keys_of) keys += length;
    Progress progress("gen: rows and keys", c.rows + keys);
    for (int32_t request = 0; request < c.batch; ++request) {
        for (int64_t row = c.cu_seqlens_q[request]; row < c.cu_seqlens_q[request + 1]; ++row) {
            draw_query(options, activations, request, row, c);
            progress.advance(1);
        }
        for (int64_t key = 0; key < keys_of[request]; ++key) {
            draw_key(options, activations, request, key, c);
            progress.advance(1);
        }
    }
    progress.finish();
    if (options.lattice) assert_lattice_scores(c);

    write_case(options.out, c,
               {{"command", "lidx gen"},
                {"seed", options.seed},
                {"batch", options.batch},
                {"tokens", options.tokens},
                {"heads", options.heads},
                {"keys", options.keys},
                {"page", options.page},
                {"layout", options.layout},
                {"lattice", options.lattice},
                {"ragged", options.ragged},
                {"rows", options.rows},
                {"causal", options.causal},
                {"row_lengths", options.row_lengths},
                {"window", options.window},
                {"ratio", options.ratio}});
    std::printf("%s: %s, %s, %s, %s in %s (%s), longest %" PRId64 "%s\n", options.out.c_str(),
                counted(c.batch, "request").c_str(), counted(c.rows, "row").c_str(), counted(c.heads, "head").c_str(),
                counted(keys, "key").c_str(), counted(c.num_pages, "page").c_str(), options.layout.c_str(), c.longest(),
                options.lattice ? ", exact lattice" : "");
    return kDone;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "bench/inputs.h"

#include <algorithm>
#include <cstring>

namespace lidx::command {

namespace {

// Many times the 128 keys of a tile, little to draw and upload.
constexpr size_t kPatternBytes = size_t{32} << 20;
// A row of scores begins on a kilobyte, which is also what the entry point of a rival promises.
constexpr int64_t kScoreStep = 256;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t stride_of(const Extent& extent) { return round_up(extent.max_keys, kScoreStep); }

std::vector<float> key_scales(size_t count) {
    ref::Rng rng(3);
    std::vector<float> scales(count);
    for (float& scale : scales) scale = 0.01f + 0.02f * static_cast<float>(rng.uniform());
    return scales;
}

}  // namespace

const std::vector<uint8_t>& Patterns::codes(size_t size_bytes) {
    const size_t had = codes_.size();
    codes_.resize(std::max(had, std::min(size_bytes, kPatternBytes)));
    for (size_t at = had; at < codes_.size(); ++at) {
        codes_[at] = static_cast<uint8_t>(rng_.next());
        if ((codes_[at] & 0x7f) == 0x7f) codes_[at] ^= 1;   // 0x7f and 0xff are NaN
    }
    return codes_;
}

const std::vector<uint8_t>& Patterns::scores(size_t size_bytes) {
    const size_t had = scores_.size();
    scores_.resize(std::max(had, std::min((size_bytes + 3) / 4 * 4, kPatternBytes)));
    for (size_t at = had; at < scores_.size(); at += sizeof(float)) {
        // normal() alone draws from a grid of 2^-16, on which the k-th score of a long row is often another's, too.
        const auto score = static_cast<float>(rng_.normal() + rng_.uniform() * 0x1p-16);
        std::memcpy(&scores_[at], &score, sizeof score);
    }
    return scores_;
}

Inputs::Inputs(const Machine& machine, Patterns& patterns, const Workload& workload, const Extent& extent, int turn)
    : machine_(machine), workload_(workload), extent_(extent) {
    score_stride = stride_of(extent);
    if (workload.scores_keys()) {
        make_keys(patterns, turn);
        make_rows(patterns);
    }
    context_lens = upload(extent.lengths);
    row_begin = upload(extent.row_begin);
    row_end = upload(extent.row_end);
    const auto score_bytes = static_cast<size_t>(workload.rows() * score_stride) * sizeof(float);
    scores = workload.scores_keys() ? allocate(score_bytes) : repeat(patterns.scores(score_bytes), score_bytes);
    if (workload.work == Work::kMerge) {
        std::vector<int32_t> row(static_cast<size_t>(score_stride));
        for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<int32_t>(i);
        const auto* bytes = reinterpret_cast<const uint8_t*>(row.data());
        positions = repeat({bytes, bytes + row.size() * sizeof(int32_t)}, score_bytes);
    }
    if (workload.chooses()) indices = allocate(static_cast<size_t>(workload.rows()) * kBenchTopK * sizeof(int32_t));
}

void Inputs::make_keys(Patterns& patterns, int turn) {
    if (workload_.page > 0) return make_pages(patterns, turn);
    num_pages = workload_.batch;
    page_bytes = extent_.max_keys * kBenchDepth;
    const auto size_bytes = static_cast<size_t>(num_pages * page_bytes);
    keys = repeat(patterns.codes(size_bytes), size_bytes);
    key_scale = upload(key_scales(static_cast<size_t>(num_pages * extent_.max_keys)));
}

// Block-split pages in shuffled order. An image of some pages is made here, and repeated: as many pages as the pattern
// holds, for the pages of one request would all be alike.
void Inputs::make_pages(Patterns& patterns, int turn) {
    const int64_t page = workload_.page;
    block_table_stride = (extent_.max_keys + page - 1) / page;
    page_bytes = page * (kBenchDepth + 4);
    num_pages = 0;
    for (const int32_t length : extent_.lengths) num_pages += (length + page - 1) / page;

    const auto size_bytes = static_cast<size_t>(num_pages * page_bytes);
    const std::vector<uint8_t>& codes = patterns.codes(size_bytes);
    const int64_t image_pages = std::min(static_cast<int64_t>(codes.size()) / page_bytes, num_pages);
    std::vector<uint8_t> image(codes.begin(), codes.begin() + image_pages * page_bytes);
    const std::vector<float> scales = key_scales(static_cast<size_t>(image_pages * page));
    for (int64_t p = 0; p < image_pages; ++p)
        std::memcpy(image.data() + p * page_bytes + page * kBenchDepth, scales.data() + p * page,
                    static_cast<size_t>(page) * sizeof(float));
    keys = repeat(image, size_bytes);

    ref::Rng rng(11, static_cast<uint64_t>(turn));
    std::vector<int32_t> order(static_cast<size_t>(num_pages));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    std::vector<int32_t> table(static_cast<size_t>(workload_.batch * block_table_stride), -1);
    size_t next = 0;
    for (size_t b = 0; b < extent_.lengths.size(); ++b)
        for (int64_t p = 0; p * page < extent_.lengths[b]; ++p)
            table[b * static_cast<size_t>(block_table_stride) + static_cast<size_t>(p)] = order[next++];
    block_table = upload(table);
}

void Inputs::make_rows(Patterns& patterns) {
    const auto rows = static_cast<size_t>(workload_.rows()), heads = static_cast<size_t>(workload_.heads);
    const size_t query_bytes = rows * heads * kBenchDepth;
    const std::vector<uint8_t>& codes = patterns.codes(query_bytes);
    const auto drawn = static_cast<ptrdiff_t>(std::min(query_bytes, codes.size()));
    q = repeat({codes.rbegin(), codes.rbegin() + drawn}, query_bytes);   // no query is a key
    ref::Rng rng(5);
    std::vector<float> weights(rows * heads);
    for (float& weight : weights) weight = static_cast<float>(rng.normal()) * 0.01f;
    q_scale = upload(weights);
    std::vector<int32_t> cu(static_cast<size_t>(workload_.batch) + 1);
    for (int32_t request = 0; request <= workload_.batch; ++request)
        cu[static_cast<size_t>(request)] = request * workload_.tokens;
    cu_seqlens_q = upload(cu);
}

std::vector<Region> Inputs::regions() const {
    const auto key_count = static_cast<uint64_t>(extent_.keys), cells = static_cast<uint64_t>(extent_.cells);
    const auto chosen = static_cast<uint64_t>(workload_.rows()) * kBenchTopK * 4;
    std::vector<Region> regions;
    if (workload_.scores_keys()) {
        regions.push_back({keys->as(), key_count * (workload_.page > 0 ? kBenchDepth + 4 : kBenchDepth)});
        if (workload_.page == 0) regions.push_back({key_scale->as(), key_count * 4});
    }
    if (workload_.work != Work::kIndex) regions.push_back({scores->as(), cells * 4});
    if (workload_.work == Work::kMerge) regions.push_back({positions->as(), cells * 4});
    if (workload_.chooses()) regions.push_back({indices->as(), chosen});
    return regions;
}

std::optional<Traffic> Inputs::traffic() const {
    if (workload_.work != Work::kScore || workload_.page == 0) return std::nullopt;
    return Traffic{keys->as(), block_table->as<int32_t>(), workload_.batch * block_table_stride, page_bytes,
                   scores->as(), static_cast<uint64_t>(extent_.cells) * sizeof(float)};
}

Inputs::Buffer Inputs::allocate(size_t size_bytes) {
    size_bytes_ += size_bytes;
    return std::make_unique<DeviceBuffer>(machine_, size_bytes);
}

template <class T>
Inputs::Buffer Inputs::upload(const std::vector<T>& data) {
    Buffer buffer = allocate(data.size() * sizeof(T));
    buffer->upload(data.data(), data.size() * sizeof(T));
    return buffer;
}

// The image goes up once; what is there doubles on the device until the buffer is full.
Inputs::Buffer Inputs::repeat(const std::vector<uint8_t>& image, size_t size_bytes) {
    Buffer buffer = allocate(size_bytes);
    const auto base = reinterpret_cast<CUdeviceptr>(buffer->as());
    size_t filled = std::min(image.size(), size_bytes);
    buffer->upload(image.data(), filled);
    for (size_t more; filled < size_bytes; filled += more) {
        more = std::min(filled, size_bytes - filled);
        machine_.check(machine_.driver().cuMemcpyDtoD(base + filled, base, more), "cuMemcpyDtoD");
    }
    return buffer;
}

uint64_t input_bytes(const Workload& w, const Extent& extent) {
    const int64_t lists = w.work == Work::kMerge ? 2 : 1;
    int64_t bytes = lists * w.rows() * stride_of(extent) * 4;
    if (w.scores_keys()) bytes += extent.keys * (kBenchDepth + 4) + w.rows() * w.heads * (kBenchDepth + 4);
    return static_cast<uint64_t>(bytes);
}

}  // namespace lidx::command

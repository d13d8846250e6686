// SPDX-License-Identifier: Apache-2.0
#include "check_upload.h"

#include <cstring>

namespace check {

namespace {

bool has_windows(const Inputs& in) { return in.c.engine.sees == Engine::Sees::kWindow; }

std::vector<uint8_t> begins_or_lengths(const Inputs& in) {
    return length_bytes(in.c, has_windows(in) ? in.sight.begins : in.sight.lengths);
}
std::vector<uint8_t> end_bytes(const Inputs& in) {
    return has_windows(in) ? length_bytes(in.c, in.sight.ends) : std::vector<uint8_t>();
}

const std::vector<int32_t>& row_map(const Inputs& in) {
    static const std::vector<int32_t> none;
    return in.c.engine.rows == Engine::Rows::kFixed ? none
           : in.c.engine.rows == Engine::Rows::kIds ? in.sight.row_requests
                                                    : in.sight.cu_seqlens;
}

std::vector<uint8_t> poisoned_scores(const Inputs& in, size_t score_bytes) {
    const size_t cells = static_cast<size_t>(in.max_rows) * in.score_stride;
    std::vector<uint8_t> bytes(cells * score_bytes);
    for (size_t i = 0; i < cells; ++i) {
        const uint32_t poison = score_poison(in.c, static_cast<int64_t>(i));
        std::memcpy(bytes.data() + i * score_bytes, &poison, score_bytes);
    }
    return bytes;
}

// The buffers copy what they are given.
template <typename T>
GuardedBuffer guarded(const Machine& machine, const char* name, const std::vector<T>& data, size_t alignment,
                      bool tight) {
    return {machine, name, data.data(), data.size() * sizeof(T), alignment, tight};
}

}  // namespace

lidx_score_desc describe(const Inputs& in) {
    lidx_score_desc desc;
    lidx_score_desc_init(&desc);
    const Engine& e = in.c.engine;
    if (in.c.check_flag) desc.flags |= LIDX_FLAG_CHECK;
    if (e.fills()) desc.flags |= LIDX_FLAG_FILL;
    if (e.relative) desc.flags |= LIDX_FLAG_RELATIVE_COLUMNS;
    if (e.pdl) desc.flags |= LIDX_FLAG_PDL;
    if (e.fast) desc.flags |= LIDX_FLAG_FAST;
    if (e.sees == Engine::Sees::kCausal) desc.flags |= LIDX_FLAG_CAUSAL;
    if (e.rows == Engine::Rows::kFixed) desc.row_map = LIDX_ROWS_FIXED;
    if (e.rows == Engine::Rows::kIds) desc.row_map = LIDX_ROWS_REQUEST_IDS;
    if (e.sees == Engine::Sees::kRowLength) desc.visibility = LIDX_SEE_ROW_LENGTH;
    if (e.sees == Engine::Sees::kWindow) desc.visibility = LIDX_SEE_WINDOW;
    desc.length_type = e.wide ? LIDX_INT64 : LIDX_INT32;
    desc.compress_ratio = e.ratio > 1 ? e.ratio : 0;
    desc.max_sms = e.sms;
    desc.weight_type = e.weight_bf16 ? LIDX_BF16 : LIDX_FP32;
    desc.weight_stride = e.weight_gap != 0 ? in.c.heads + e.weight_gap : 0;
    desc.weight2_type = e.factor == 2 ? LIDX_BF16 : LIDX_FP32;
    desc.weight2_stride = e.factor != 0 ? in.c.heads + 1 : 0;
    desc.score_type = e.bf16 ? LIDX_BF16 : LIDX_FP32;
    desc.score_columns = in.declared_columns;
    desc.scale_block_table_stride = in.scale_table_width;
    if (e.scale_table) desc.scale_num_pages = in.scale_num_pages;
    desc.batch = in.c.batch;
    desc.max_rows = in.max_rows;
    desc.max_tokens = in.max_tokens;
    desc.heads = in.c.heads;
    desc.depth = in.c.depth;
    desc.max_keys = in.max_keys;
    desc.page_size = in.page_size;
    desc.num_pages = in.num_pages;
    desc.k_page_stride = in.k_page_stride;
    desc.k_scale_page_stride = in.k_scale_page_stride;
    desc.block_table_stride = in.table_width;
    desc.score_stride = in.score_stride;
    desc.kernel = in.c.kernel == "auto" ? nullptr : in.c.kernel.c_str();
    return desc;
}

Upload::Upload(const Machine& machine, const Inputs& in, size_t weight_alignment_bytes, size_t workspace_bytes)
    : score_bytes_(in.c.engine.bf16 ? 2 : 4),
      cells_(static_cast<size_t>(in.max_rows) * in.score_stride),
      workspace_words_(workspace_bytes / 4),
      q_(guarded(machine, "q", in.q, 16, in.c.tight)),
      q_scale_(guarded(machine, "q_scale", in.weights, weight_alignment_bytes, in.c.tight)),
      q_scale2_(guarded(machine, "q_scale2", in.weights2, in.c.engine.factor == 2 ? 2 : 4, in.c.tight)),
      k_pool_(guarded(machine, "k", in.k_pool, 16, in.c.tight)),
      k_scale_pool_(guarded(machine, "k_scale", in.k_scale_pool, 4, in.c.tight)),
      table_(guarded(machine, "block_table", in.block_table, 4, in.c.tight)),
      scale_table_(guarded(machine, "scale_block_table", in.scale_table, 4, in.c.tight)),
      lengths_(guarded(machine, has_windows(in) ? "row_begin" : "context_lens", begins_or_lengths(in),
                       in.c.engine.wide ? 8 : 4, in.c.tight)),
      ends_(guarded(machine, "row_end", end_bytes(in), in.c.engine.wide ? 8 : 4, in.c.tight)),
      rows_(guarded(machine, "the row map", row_map(in), 4, in.c.tight)),
      scores_(guarded(machine, "scores", poisoned_scores(in, score_bytes_), score_bytes_, false)),
      workspace_(guarded(machine, "workspace", std::vector<uint32_t>(workspace_words_), 16, false)) {
    lidx_score_args_init(&args);
    args.q = q_.at<void>();
    args.q_scale = q_scale_.at<void>();
    args.q_scale2 = q_scale2_.at<void>();
    args.k_base = k_pool_.at<void>();
    args.k_scale_base = in.k_scale_pool.empty() ? k_pool_.at<void>(in.k_scale_offset) : k_scale_pool_.at<void>();
    args.block_table = table_.at<void>();
    args.scale_block_table = scale_table_.at<void>();
    (has_windows(in) ? args.row_begin : args.context_lens) = lengths_.at<void>();
    args.row_end = ends_.at<void>();
    (in.c.engine.rows == Engine::Rows::kIds ? args.row_requests : args.cu_seqlens_q) = rows_.at<int32_t>();
    args.scores = scores_.at<void>();
    args.workspace = workspace_.at<void>();
    args.workspace_bytes = workspace_bytes;
}

void Upload::replay_with(const Inputs& in) {
    lengths_.replace(begins_or_lengths(in).data());
    rows_.replace(row_map(in).data());
    scores_.restore();
}

std::string Upload::damage() {
    std::string text;
    for (GuardedBuffer* buffer : {&q_, &q_scale_, &q_scale2_, &k_pool_, &k_scale_pool_, &table_, &scale_table_,
                                  &lengths_, &ends_, &rows_}) {
        const std::string found = buffer->damage(true);
        if (text.empty()) text = found;
    }
    for (GuardedBuffer* buffer : {&scores_, &workspace_}) {
        const std::string found = buffer->damage(false);
        if (text.empty()) text = found;
    }
    return text;
}

std::vector<uint32_t> Upload::scores() const {
    std::vector<uint32_t> bits(cells_);
    for (size_t i = 0; i < cells_; ++i) std::memcpy(&bits[i], scores_.payload() + i * score_bytes_, score_bytes_);
    return bits;
}

std::vector<uint32_t> Upload::workspace() const {
    std::vector<uint32_t> words(workspace_words_);
    if (!words.empty()) std::memcpy(words.data(), workspace_.payload(), words.size() * 4);
    return words;
}

}  // namespace check

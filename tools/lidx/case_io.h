// SPDX-License-Identifier: Apache-2.0
// A case: one call's worth of queries and paged keys in host memory, and the directory of .npy files that holds it.
//
//     case.json           format, layout, page_size, counts that must agree with the arrays, how the case was made
//     q.npy               u8  e4m3 codes [rows, heads, 128]
//     q_scale.npy         f32 [rows, heads]
//     cu_seqlens_q.npy    i32 [batch + 1]: request b owns rows cu[b] .. cu[b + 1] - 1
//     context_lens.npy    i32 [batch]: tokens of a request; case.json says which of its keys a row sees
//     row_lengths.npy     i32 [rows]: tokens that a row sees     only for visibility row-lengths
//     row_begin.npy, row_end.npy   i32 [rows]: its first key, and one past its last      only for visibility window
//     block_table.npy     i32 [batch, max_pages]             not for contiguous
//     block-split:        k_cache.npy u8 [pages, P, 1, 132]: a page is P * 128 codes, then P fp32 scales
//     split-pool:         k_pages.npy u8 [pages, P, 128], k_scales.npy f32 [pages, P]
//     contiguous:         k.npy u8 [batch, N, 128], k_scale.npy f32 [batch, N]
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "json_file.h"
#include "output_file.h"
#include "test/ref/sight.h"

namespace lidx::command {

inline constexpr int kDepth = 128;
inline constexpr int kPackedKeyBytes = kDepth + 4;   // codes and scale of one key in a block-split page

enum class Layout { kBlockSplit, kSplitPool, kContiguous };
inline constexpr const char* kLayoutNames[] = {"block-split", "split-pool", "contiguous"};

// How the rows of a request are told to lidx (lidx_row_map), and which keys a row sees. Fields of case.json, which may
// lack them: then rows go by cu_seqlens_q, and every row sees all keys of its request.
enum class RowMap { kCuSeqlens, kFixed, kRequestIds };
inline constexpr const char* kRowMapNames[] = {"cu-seqlens", "fixed", "request-ids"};
enum class Visibility { kLength, kCausal, kRowLengths, kWindow };
inline constexpr const char* kVisibilityNames[] = {"length", "causal", "row-lengths", "window"};
inline constexpr int32_t kMaxRatio = 512;

struct Case {
    Layout layout = Layout::kBlockSplit;
    int32_t batch = 0;
    int32_t heads = 0;
    int64_t rows = 0;
    int64_t page_slots = 0;   // keys that a page holds; contiguous: keys per request, one "page" each
    int64_t num_pages = 0;
    int64_t max_pages = 0;   // entries per request in the block table; contiguous: 0
    bool lattice = false;
    RowMap row_map = RowMap::kCuSeqlens;
    Visibility visibility = Visibility::kLength;
    int32_t compress_ratio = 1;   // tokens per key

    std::vector<uint8_t> q;              // [rows, heads, 128]
    std::vector<float> q_scale;          // [rows, heads]
    std::vector<int32_t> cu_seqlens_q;   // [batch + 1]
    std::vector<int32_t> context_lens;   // [batch], as in the file: may be negative or too large
    std::vector<int32_t> row_lengths;    // [rows], kRowLengths
    std::vector<int32_t> row_begin;      // [rows], kWindow
    std::vector<int32_t> row_end;        // [rows], kWindow
    std::vector<int32_t> block_table;    // [batch, max_pages]
    std::vector<uint8_t> k;       // block-split: [num_pages, page_slots * 132]; else [num_pages, page_slots, 128]
    std::vector<float> k_scale;   // [num_pages, page_slots]; block-split: empty

    bool contiguous() const { return layout == Layout::kContiguous; }
    bool block_split() const { return layout == Layout::kBlockSplit; }
    int64_t page_bytes() const { return page_slots * (block_split() ? kPackedKeyBytes : kDepth); }

    // Keys that a row sees, by the reference's definition, for all rows; to be called when everything is in place.
    void find_seen();
    ref::SeenKeys keys_of(int32_t request, int64_t row) const;
    // Keys of a request: up to the last that any of its rows sees.
    int64_t length(int32_t request) const { return lengths_[static_cast<size_t>(request)]; }
    int64_t longest() const;

    // Pool coordinates and contents of one key; its page id must be in range.
    int64_t page_of(int32_t request, int64_t key) const;
    uint8_t* codes(int64_t page, int64_t slot);
    const uint8_t* codes(int64_t page, int64_t slot) const;
    float scale(int64_t page, int64_t slot) const;
    void set_scale(int64_t page, int64_t slot, float scale);

private:
    std::vector<ref::SeenKeys> seen_;   // [rows]; empty where all rows of a request see all its keys
    std::vector<int64_t> lengths_;      // [batch]
};

// Says which entry of the block table, inside a request's length, is outside the pool; nothing if none is.
std::optional<std::string> bad_page_id(const Case& c);

// Reads and cross-checks every file; throws Failure(kBadInput). Page ids are left to bad_page_id().
Case read_case(const std::filesystem::path& dir);

// Creates dir if it is missing and writes all files, case.json last; removes what it wrote if it fails.
// `origin` is added to case.json: how the case was made.
void write_case(const std::filesystem::path& dir, const Case& c, const nlohmann::ordered_json& origin);

using tool::Output;
// tool::require_outputs(), and no output may be a file of the case (case_dir empty: there is none).
void require_outputs(const std::vector<Output>& outputs, const std::filesystem::path& case_dir,
                     const std::vector<std::filesystem::path>& inputs = {});

}  // namespace lidx::command

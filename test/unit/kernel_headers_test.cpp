// SPDX-License-Identifier: Apache-2.0
// The plain C++ headers that host and kernels share: descriptors, tile walk, shared-memory and launch sizes. Expected
// values are worked out by hand from the tables of the PTX ISA (9.7.16.4.1, 9.7.16.4.2) and from the grid rule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "catch_any.h"
#include "kernel/generic_score_layout.h"
#include "kernel/instr_descriptor.h"
#include "kernel/live.h"
#include "kernel/schedule.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm90_decode_layout.h"
#include "kernel/sm90_pair_layout.h"
#include "kernel/sm90_score_layout.h"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"

using namespace lidx;

TEST_CASE("shared-memory descriptor: every field lands in its bits") {
    CHECK(smem_descriptor({}) == uint64_t{1} << 46);
    CHECK(smem_descriptor({.start_bytes = 0x3fff0}) == ((uint64_t{1} << 46) | 0x3fff));
    CHECK(smem_descriptor({.leading_bytes = 16}) == ((uint64_t{1} << 46) | uint64_t{1} << 16));
    CHECK(smem_descriptor({.stride_bytes = 0x3fff0}) == ((uint64_t{1} << 46) | uint64_t{0x3fff} << 32));
    CHECK(smem_descriptor({.base_offset = 7}) == ((uint64_t{1} << 46) | uint64_t{7} << 49));
    CHECK(smem_descriptor({.swizzle = SmemSwizzle::k32Byte}) == ((uint64_t{1} << 46) | uint64_t{6} << 61));
    CHECK(smem_descriptor({.swizzle = SmemSwizzle::k64Byte}) == ((uint64_t{1} << 46) | uint64_t{4} << 61));
    CHECK(smem_descriptor({.swizzle = SmemSwizzle::k128Byte32ByteAtom}) == ((uint64_t{1} << 46) | uint64_t{1} << 61));
}

TEST_CASE("shared-memory descriptor: K-major rows of 128 bytes under the 128-byte swizzle") {
    // stride 1024 -> 64 at bit 32, constant 1 at bit 46, swizzle 2 at bit 61; start 0x8400 / 16 = 0x840
    CHECK(smem_descriptor_k_major_128b(0) == 0x4000404000000000u);
    CHECK(smem_descriptor_k_major_128b(0x8400) == 0x4000404000000840u);
    // K = 32 bytes further is two units; four steps stay inside the 128-byte row
    // By hand: swizzle 4 in bits 61-63, stride 512 / 16 in bits 32-45, the constant in bit 46.
    CHECK(smem_descriptor_k_major_64b(0) == 0x8000402000000000u);
    CHECK(smem_descriptor_advance(smem_descriptor_k_major_64b(0x4400), 32) == 0x8000402000000442u);
    CHECK(smem_descriptor_advance(smem_descriptor_k_major_128b(0x400), 96) == 0x4000404000000046u);
    // The last 1024-byte tile start below 256 KiB: advancing does not carry into the next field.
    CHECK(smem_descriptor_advance(smem_descriptor_k_major_128b(0x3fc00), 96) == 0x4000404000003fc6u);
}

TEST_CASE("instruction descriptor: e4m3 x e4m3 -> fp32, and every field") {
    CHECK(instr_descriptor({.m = 128, .n = 128}) == 0x08200010u);
    CHECK(instr_descriptor({.m = 128, .n = 96}) == 0x08180010u);
    CHECK(instr_descriptor({.m = 64, .n = 256}) == 0x04400010u);
    CHECK(instr_descriptor({.d = MmaAccumulator::kF16, .m = 128, .n = 128}) == 0x08200000u);
    CHECK(instr_descriptor({.a = MmaOperand::kE5m2, .m = 128, .n = 128}) == 0x08200090u);
    CHECK(instr_descriptor({.b = MmaOperand::kE2m1, .m = 128, .n = 128}) == 0x08201410u);
    CHECK(instr_descriptor({.a_major = MmaMajor::kMn, .m = 128, .n = 128}) == 0x08208010u);
    CHECK(instr_descriptor({.b_major = MmaMajor::kMn, .m = 128, .n = 128}) == 0x08210010u);
}

TEST_CASE("legal MMA shapes") {
    CHECK(mma_shape_fits(128, 16));
    CHECK(mma_shape_fits(128, 96));
    CHECK(mma_shape_fits(128, 256));
    CHECK(mma_shape_fits(64, 8));
    CHECK_FALSE(mma_shape_fits(128, 8));
    CHECK_FALSE(mma_shape_fits(128, 24));
    CHECK_FALSE(mma_shape_fits(128, 272));
    CHECK_FALSE(mma_shape_fits(64, 0));
    CHECK_FALSE(mma_shape_fits(96, 64));
}

TEST_CASE("grid: slices") {
    // base = batch * key tiles; slices = max(1, min(floor(2 * SMs / base), ceil(tiles / 2))) if base < SMs, else 1
    CHECK(grid_slices(1, 148, 1) == 1);        // decode: one token tile, one slice, however empty the machine
    CHECK(grid_slices(1, 148, 2) == 1);
    CHECK(grid_slices(1, 148, 3) == 2);
    CHECK(grid_slices(1, 148, 1000) == 296);   // the machine is the limit
    CHECK(grid_slices(10, 148, 1000) == 29);   // floor(296 / 10)
    CHECK(grid_slices(147, 148, 1000) == 2);
    CHECK(grid_slices(148, 148, 1000) == 1);
    CHECK(grid_slices(149, 148, 1000) == 1);
    CHECK(grid_slices(0, 148, 1000) == 1);
    CHECK(grid_slices(1, 148, 0) == 1);
    CHECK(grid_slices(1, 100000, 1000000) == 65535);   // gridDim.z ends there
}

TEST_CASE("grid: tiles") {
    CHECK(key_tiles(0) == 0);
    CHECK(key_tiles(1) == 1);
    CHECK(key_tiles(128) == 1);
    CHECK(key_tiles(129) == 2);
    CHECK(key_tiles(kMaxKeys) == 65535);
    CHECK(token_tiles(0, 2) == 0);
    CHECK(token_tiles(3, 2) == 2);
    CHECK(token_tiles(9, 3) == 3);
    CHECK(token_tiles(9, 4) == 3);
}

TEST_CASE("slices partition a request's token tiles, in order and evenly") {
    for (int32_t tiles = 0; tiles <= 40; ++tiles) {
        for (uint32_t slices = 1; slices <= 17; ++slices) {
            CAPTURE(tiles, slices);
            int32_t next = 0, shortest = tiles, longest = 0;
            for (uint32_t slice = 0; slice < slices; ++slice) {
                const TileRange range = slice_tiles(tiles, slice, slices);
                REQUIRE(range.begin == next);
                REQUIRE(range.end >= range.begin);
                next = range.end;
                shortest = std::min(shortest, range.end - range.begin);
                longest = std::max(longest, range.end - range.begin);
            }
            CHECK(next == tiles);
            CHECK(longest - shortest <= 1);
            CHECK(longest == slice_tiles_max(tiles, slices));
        }
    }
    const TileRange last = slice_tiles(INT32_MAX, 65534, 65535);
    CHECK(last.end == INT32_MAX);
    CHECK(last.end - last.begin == INT32_MAX / 65535);
}

// ---- who sees what, by hand

static RowView some_view() {
    RowView v{};
    v.batch = 3;
    v.rows = v.end_row = 20;
    v.max_tokens = 6;
    v.keys_limit = v.window_limit = 600;
    v.compress_ratio = 1;
    return v;
}
static std::vector<int32_t> rows_of(const RowView& v, int32_t request) {
    const RequestRows rows = request_rows(v, request);
    return {rows.begin, rows.tokens, rows.all};
}
static std::vector<int32_t> keys_of(const RowView& v, int32_t request, int32_t row) {
    const KeyRange keys = live_keys(v, request, request_rows(v, request), row);
    return {keys.begin, keys.end};
}

TEST_CASE("rows of a request: what cu_seqlens_q says, inside the buffers") {
    RowView v = some_view();
    const auto rows = [&](int32_t begin, int32_t end) {
        const int32_t cu[2] = {begin, end};
        v.row_map_data = cu;
        return rows_of(v, 0);
    };
    CHECK(rows(3, 7) == std::vector<int32_t>{3, 4, 4});
    CHECK(rows(3, 3) == std::vector<int32_t>{3, 0, 0});
    CHECK(rows(3, 2) == std::vector<int32_t>{3, 0, 0});
    CHECK(rows(3, 15) == std::vector<int32_t>{3, 6, 12});   // max_tokens
    CHECK(rows(18, 24) == std::vector<int32_t>{18, 2, 2});  // rows
    CHECK(rows(20, 24) == std::vector<int32_t>{20, 0, 0});
    CHECK(rows(25, 31) == std::vector<int32_t>{20, 0, 0});
    CHECK(rows(-5, 2) == std::vector<int32_t>{0, 2, 2});
    CHECK(rows(INT32_MIN, INT32_MAX) == std::vector<int32_t>{0, 6, 20});
    CHECK(rows(INT32_MAX, INT32_MIN) == std::vector<int32_t>{20, 0, 0});
}

TEST_CASE("rows of a request: a launch of some of the rows leaves each what it sees") {
    RowView v = some_view();
    v.row_map = RowMap::kCuSeqlens;
    const int32_t cu[4] = {2, 10, 11, 20}, lengths[3] = {100, 50, 300};
    v.row_map_data = cu;
    v.lengths = lengths;
    v.causal = 1;
    v.first_row = 4;
    v.end_row = 12;
    CHECK(rows_of(v, 0) == std::vector<int32_t>{4, 4, 6});    // of rows 2 .. 9 the first six are scored
    CHECK(rows_of(v, 1) == std::vector<int32_t>{10, 1, 1});
    CHECK(rows_of(v, 2) == std::vector<int32_t>{11, 1, 9});
    CHECK(keys_of(v, 0, 4) == std::vector<int32_t>{0, 95});   // the last, row 9, sees 100
    CHECK(keys_of(v, 0, 7) == std::vector<int32_t>{0, 98});
    CHECK(keys_of(v, 2, 11) == std::vector<int32_t>{0, 292});
    v.first_row = 12;
    v.end_row = 14;
    CHECK(rows_of(v, 0)[1] == 0);
    CHECK(rows_of(v, 1)[1] == 0);
    CHECK(rows_of(v, 2) == std::vector<int32_t>{12, 2, 8});
    CHECK(keys_of(v, 2, 13) == std::vector<int32_t>{0, 294});
    v.row_map = RowMap::kFixed;   // request 2's rows are 12 .. 17
    v.first_row = 14;
    v.end_row = 20;
    CHECK(rows_of(v, 2) == std::vector<int32_t>{14, 4, 4});
    CHECK(keys_of(v, 2, 14) == std::vector<int32_t>{0, 297});
    CHECK(rows_of(v, 1)[1] == 0);
}

TEST_CASE("rows of a request: a fixed number") {
    RowView v = some_view();
    v.row_map = RowMap::kFixed;
    CHECK(rows_of(v, 0) == std::vector<int32_t>{0, 6, 6});
    CHECK(rows_of(v, 2) == std::vector<int32_t>{12, 6, 6});
    CHECK(rows_of(v, 3) == std::vector<int32_t>{18, 2, 6});   // the buffer ends
    CHECK(rows_of(v, 4) == std::vector<int32_t>{20, 0, 6});
    v.max_tokens = INT32_MAX;
    CHECK(rows_of(v, 65535) == std::vector<int32_t>{20, 0, INT32_MAX});   // 65535 * (2^31 - 1) does not wrap
}

TEST_CASE("rows of a request: request ids") {
    RowView v = some_view();
    v.row_map = RowMap::kRequestIds;
    // Request 1 has no rows; -1 is 2^32 - 1 and sorts last.
    const int32_t ids[20] = {0, 0, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 9, 9, INT32_MAX, INT32_MIN, -2, -1, -1};
    v.row_map_data = ids;
    CHECK(rows_of(v, 0) == std::vector<int32_t>{0, 2, 2});
    CHECK(rows_of(v, 1) == std::vector<int32_t>{2, 0, 0});
    CHECK(rows_of(v, 2) == std::vector<int32_t>{2, 3, 3});
    CHECK(rows_of(v, 3) == std::vector<int32_t>{5, 6, 8});    // max_tokens
    CHECK(rows_of(v, 9) == std::vector<int32_t>{13, 2, 2});
    CHECK(rows_of(v, 65535) == std::vector<int32_t>{15, 0, 0});
    // Out of order: some answer, inside the buffer.
    const int32_t wild[20] = {7, -1, 0, 5, 0, -3, 2, 2, 9, 1, 1, 0, 0, -1, 4, 4, 3, 2, 1, 0};
    v.row_map_data = wild;
    for (int32_t request = 0; request < 10; ++request) {
        const RequestRows rows = request_rows(v, request);
        CHECK(rows.begin >= 0);
        CHECK(rows.tokens >= 0);
        CHECK(rows.begin + rows.all <= 20);
    }
}

TEST_CASE("keys of a row: a length per request") {
    RowView v = some_view();
    const int32_t cu[2] = {4, 8};
    v.row_map_data = cu;
    const auto keys = [&](int64_t len, int32_t row = 5) {
        v.wide = 1;
        v.lengths = &len;
        const std::vector<int32_t> wide = keys_of(v, 0, row);
        alignas(8) const int32_t narrow[2] = {static_cast<int32_t>(len), 0};
        if (narrow[0] != len) return wide;
        v.wide = 0;
        v.lengths = narrow;
        CHECK(keys_of(v, 0, row) == wide);
        return wide;
    };
    const std::vector<int32_t> none{0, 0};
    CHECK(keys(0) == none);
    CHECK(keys(-1) == none);
    CHECK(keys(INT32_MIN) == none);
    CHECK(keys(INT64_MIN) == none);
    CHECK(keys(599) == std::vector<int32_t>{0, 599});
    CHECK(keys(INT32_MAX) == std::vector<int32_t>{0, 600});
    CHECK(keys(INT64_MAX) == std::vector<int32_t>{0, 600});
    CHECK(keys((int64_t{1} << 32) + 5) == std::vector<int32_t>{0, 600});
    v.causal = 1;   // four rows: len - 3, len - 2, len - 1, len
    CHECK(keys(100, 4) == std::vector<int32_t>{0, 97});
    CHECK(keys(100, 6) == std::vector<int32_t>{0, 99});
    CHECK(keys(100, 7) == std::vector<int32_t>{0, 100});
    CHECK(keys(2, 4) == none);
    CHECK(keys(2, 5) == none);
    CHECK(keys(2, 6) == std::vector<int32_t>{0, 1});
    CHECK(keys(-1, 7) == none);
    CHECK(keys(INT64_MIN, 4) == none);
    CHECK(keys(INT64_MAX, 4) == std::vector<int32_t>{0, 600});
    CHECK(keys(602, 4) == std::vector<int32_t>{0, 599});   // clamped after the row's own count
    v.max_tokens = 2;   // the upper bound does not move what a row sees
    CHECK(keys(100, 4) == std::vector<int32_t>{0, 97});
    v.compress_ratio = 4;   // position i sees key j when i >= 4 j + 3
    CHECK(keys(100, 7) == std::vector<int32_t>{0, 25});
    CHECK(keys(99, 7) == std::vector<int32_t>{0, 24});
    CHECK(keys(3, 7) == none);
    CHECK(keys(4, 7) == std::vector<int32_t>{0, 1});
    v.compress_ratio = 512;
    v.keys_limit = v.window_limit = static_cast<int32_t>(kMaxKeys);
    CHECK(keys(INT64_MAX, 7) == std::vector<int32_t>{0, static_cast<int32_t>(kMaxKeys)});
    CHECK(keys((int64_t{1} << 32) + 512, 7) == std::vector<int32_t>{0, static_cast<int32_t>(kMaxKeys)});
}

TEST_CASE("keys of a row: a length or a window of its own, and the hull of a tile") {
    RowView v = some_view();
    v.row_map = RowMap::kFixed;
    v.visibility = Visibility::kRowLength;
    int32_t first[20] = {5, -7, 700, 0, 12, 1};
    v.lengths = first;
    CHECK(keys_of(v, 0, 0) == std::vector<int32_t>{0, 5});
    CHECK(keys_of(v, 0, 1) == std::vector<int32_t>{0, 0});
    CHECK(keys_of(v, 0, 2) == std::vector<int32_t>{0, 600});
    v.visibility = Visibility::kWindow;
    int32_t last[20] = {5, 30, INT32_MAX, -1, 4, 9};
    v.ends = last;
    const auto hull = [&](int32_t begin, int32_t end) {
        const KeyRange keys = hull_of_rows(v, 0, request_rows(v, 0), begin, end);
        return std::vector<int32_t>{keys.begin, keys.end};
    };
    CHECK(keys_of(v, 0, 0) == std::vector<int32_t>{0, 0});     // begin = end
    CHECK(keys_of(v, 0, 1) == std::vector<int32_t>{0, 30});    // -7 .. 29
    CHECK(keys_of(v, 0, 2) == std::vector<int32_t>{0, 0});     // begins beyond the limit
    CHECK(keys_of(v, 0, 3) == std::vector<int32_t>{0, 0});
    CHECK(keys_of(v, 0, 4) == std::vector<int32_t>{0, 0});     // end < begin
    CHECK(keys_of(v, 0, 5) == std::vector<int32_t>{1, 9});
    CHECK(hull(0, 0) == std::vector<int32_t>{0, 0});
    CHECK(hull(2, 5) == std::vector<int32_t>{0, 0});
    CHECK(hull(2, 6) == std::vector<int32_t>{1, 9});
    CHECK(hull(0, 6) == std::vector<int32_t>{0, 30});
    first[0] = 590, last[0] = INT32_MAX;
    CHECK(keys_of(v, 0, 0) == std::vector<int32_t>{590, 600});
    CHECK(hull(0, 6) == std::vector<int32_t>{0, 600});
    CHECK(hull(0, 1) == std::vector<int32_t>{590, 600});
    v.window_limit = 7;   // relative columns: a row has no more than seven
    CHECK(keys_of(v, 0, 0) == std::vector<int32_t>{590, 597});
    CHECK(keys_of(v, 0, 5) == std::vector<int32_t>{1, 8});
    v.visibility = Visibility::kRequestLength;
    v.causal = 1;
    alignas(8) const int32_t length[2] = {10, 0};
    v.lengths = length;
    v.window_limit = 600;
    CHECK(hull(0, 2) == std::vector<int32_t>{0, 6});
    CHECK(hull(0, 6) == std::vector<int32_t>{0, 10});
    CHECK(request_span(v, 0).keys == 10);
}

TEST_CASE("columns: absolute and relative to a row's first key") {
    ScoreParams p{};
    CHECK(column_of(p, {5, 9}, 7) == 7);
    CHECK(dead_column(p, {5, 9}, 4));
    CHECK_FALSE(dead_column(p, {5, 9}, 5));
    CHECK(dead_column(p, {5, 9}, 9));
    p.relative = 1;
    CHECK(column_of(p, {5, 9}, 7) == 2);
    CHECK_FALSE(dead_column(p, {5, 9}, 0));
    CHECK_FALSE(dead_column(p, {5, 9}, 3));
    CHECK(dead_column(p, {5, 9}, 4));
    CHECK(dead_column(p, {0, 0}, 0));
}

TEST_CASE("SM100 layout: sizes and offsets") {
    using T64 = sm100_score::Tile<64, 2>;
    using T32 = sm100_score::Tile<32, 4>;
    using T3 = sm100_score::Tile<32, 3>;
    // K 16384, Q 128 * columns, q_scale 8 * columns, four mbarriers and the address: 36; up to the next 1024, Q again
    CHECK(T64::kSharedBytesDecode == 34816);
    CHECK(T64::kSharedBytes == 51200);
    CHECK(T32::kSharedBytes == T64::kSharedBytes);
    CHECK(T3::kSharedBytesDecode == 29696);
    CHECK(T3::kSharedBytes == 41984);
    CHECK(T64::kTmemColumns == 128);
    CHECK(T3::kColumns == 96);
    CHECK(T3::kTmemColumns == 128);
    CHECK(offsetof(T64::SharedLayout, k) == 0);
    CHECK(offsetof(T64::SharedLayout, k_full) % 8 == 0);
    CHECK(offsetof(T64::SharedLayout, tmem_base) + 4 <= static_cast<size_t>(T64::kSharedBytesDecode));
    const auto shape = sm100_score::launch_shape<32, 3>();
    CHECK(shape.tile_tokens == 3);
    CHECK(shape.threads == 128);
    CHECK(shape.shared_bytes_decode == 29696);
    // Four CTAs of 128 columns fill Tensor Memory; their shared memory fits the 228 KiB of an SM, 1 KiB each reserved.
    CHECK(4 * (T64::kSharedBytes + 1024) <= 228 * 1024);
}

TEST_CASE("SM100 layout: the rows of the variant table are instances") {
#define CHECK_ROW(symbol, heads, depth, tokens)                                         \
    {                                                                                   \
        using T = sm100_score::Tile<heads, tokens>;                                     \
        CHECK(T::kColumns == heads * tokens);                                           \
        CHECK(depth == sm100_score::kDepth);                                            \
        CHECK(std::string(#symbol).find("_h" #heads) != std::string::npos);             \
        CHECK(mma_shape_fits(kTileKeys, T::kColumns));                                  \
        CHECK(T::kTmemColumns >= T::kColumns);                                          \
    }
    LIDX_SM100_SCORE_VARIANTS(CHECK_ROW)
#undef CHECK_ROW
}

TEST_CASE("SM100 wide layout: sizes, offsets, and the rows of the variant table") {
    using T = sm100_wide::Tile<64>;
    // K 8 * 16384, Q 2 * 32768, weights 2 * 1024, what rows see up to 2 * 64, scales and live bits 8 * 512 each.
    CHECK(offsetof(T::Shared, q) == 131072);
    CHECK(offsetof(T::Shared, q_scale) == 131072 + 65536);
    CHECK(offsetof(T::Shared, sees) == 131072 + 65536 + 2048);
    CHECK(offsetof(T::Shared, live) - offsetof(T::Shared, k_scale) == 4096);
    CHECK(sizeof(T::Shared::live[0]) == sizeof(T::Shared::k_scale[0]));
    CHECK(offsetof(T::Shared, k_full) % 8 == 0);
    CHECK(offsetof(T::Shared, s_empty) == offsetof(T::Shared, s_full) + sizeof(T::Shared::s_full));
    CHECK(sizeof(sm100_wide::Tile<32>::Shared) == sizeof(T::Shared));
    CHECK(T::kQBoxBytes * T::q_boxes(4) == 32768);
    CHECK(sm100_wide::Tile<32>::kQBoxBytes * sm100_wide::Tile<32>::q_boxes(8) == 32768);
    CHECK(mma_shape_fits(sm100_wide::kTileKeys, sm100_wide::kColumns));
    CHECK(sm100_wide::kTmemColumns == 512);
#define CHECK_ROW(symbol, heads, depth, tokens)              \
    CHECK(sm100_wide::Tile<heads>::kBlockTokens == tokens); \
    CHECK(depth == sm100_wide::kDepth);
    LIDX_SM100_WIDE_VARIANTS(CHECK_ROW)
#undef CHECK_ROW
}

TEST_CASE("SM90 descriptor: the 128-byte swizzle in bits 62-63, no constant in bits 46-48") {
    CHECK(wgmma_descriptor_k_major_128b(0x400) == ((uint64_t{1} << 62) | uint64_t{64} << 32 | 0x40));
    CHECK(smem_descriptor_advance(wgmma_descriptor_k_major_128b(0x2000), 96) ==
          ((uint64_t{1} << 62) | uint64_t{64} << 32 | 0x206));
}

TEST_CASE("SM90 layout: sizes, offsets, and the rows of the variant table") {
    // K 16 * 8192, then scales, live bits, items, barriers up to the next 1024, then Q 8 * 8192.
    CHECK(offsetof(sm90_score::Shared, q_scale) == 131072);
    CHECK(offsetof(sm90_score::Shared, k_full) % 8 == 0);
    CHECK(offsetof(sm90_score::Shared, q) == 139264);
    CHECK(sm90_score::kSharedBytes == 139264 + 65536);
    CHECK(sm90_score::shared_bytes(1, 1) == 139264 + 16384);
    CHECK(sm90_score::shared_bytes(2, 1) == 139264 + 32768);
    CHECK(sm90_score::shared_bytes(3, 1) == 139264 + 65536);
    CHECK(sm90_score::shared_bytes(8, 8) == 139264 + 16384);
    // What the warpgroups own together is what the CTA was launched with: 65536 / 640, a multiple of 8.
    CHECK(4 * sm90_score::kConsumerRegisters + sm90_score::kProducerRegisters <= 5 * 96);
#define CHECK_ROW(symbol, heads, depth, tokens)              \
    CHECK(sm90_score::Tile<heads>::kBlockTokens == tokens); \
    CHECK(depth == sm90_score::kDepth);
    LIDX_SM90_SCORE_VARIANTS(CHECK_ROW)
    LIDX_SM90_PLAIN_VARIANTS(CHECK_ROW)
#undef CHECK_ROW
}

TEST_CASE("SM90 pair layout: sizes, offsets, groups, and the rows of the variant table") {
    using T64 = sm90_pair::Tile<64>;
    using T32 = sm90_pair::Tile<32>;
    // K 12 * 8192 or 8 * 8192, Q 12 * 8192, weights 12 * 256.
    CHECK(offsetof(T64::Shared, q) == 98304);
    CHECK(offsetof(T64::Shared, q_scale) == 98304 + 98304);
    CHECK(offsetof(T64::Shared, sees) == 98304 + 98304 + 3072);
    CHECK(offsetof(T64::Shared, k_scale) == offsetof(T64::Shared, sees) + 2 * 6 * 8);
    CHECK(offsetof(T32::Shared, q) == 65536);
    CHECK(offsetof(T64::Shared, k_full) % 8 == 0);
    CHECK(3 * sm90_pair::kConsumerRegisters + sm90_pair::kProducerRegisters <= 4 * 128);
    CHECK(sm90_pair::groups_of(0, 1) == 0);
    CHECK(sm90_pair::groups_of(5, 1) == 5);
    CHECK(sm90_pair::groups_of(7, 1) == 6);
    CHECK(sm90_pair::groups_of(1, 2) == 1);
    CHECK(sm90_pair::groups_of(9, 2) == 5);
    CHECK(sm90_pair::groups_of(11, 2) == 6);
    CHECK(sm90_pair::groups_of(1000, 2) == 6);
    CHECK(T32::padded_tokens(9) == 10);
    CHECK(T64::padded_tokens(5) == 5);
#define CHECK_ROW(symbol, heads, depth, tokens)             \
    CHECK(sm90_pair::Tile<heads>::kBlockTokens == tokens); \
    CHECK(depth == sm90_pair::kDepth);
    LIDX_SM90_PAIR_VARIANTS(CHECK_ROW)
#undef CHECK_ROW
}

TEST_CASE("SM90 schedule: groups, chunks and runs by hand") {
    using namespace sm90_score;
    CHECK(groups_of(1, 1) == 1);
    CHECK(groups_of(2, 1) == 2);
    CHECK(groups_of(3, 1) == 4);
    CHECK(groups_of(9, 1) == 4);
    CHECK(groups_of(2, 2) == 1);
    CHECK(groups_of(5, 2) == 4);
    // 9 tokens of 64 heads are 3 blocks; 2600 keys are 41 tiles: a chunk of 32, then one of 9.
    const RequestWork work = request_work(9, 2600, 4, 7);
    CHECK(work.cost == 7);
    CHECK(work.blocks == 3);
    CHECK(work.tiles == 41);
    CHECK(work.units == 123);
    const struct {
        int64_t unit;
        int32_t block, tile, tiles;
    } rows[] = {{0, 0, 0, 32}, {31, 0, 31, 1},  {32, 1, 0, 32},  {70, 2, 6, 26},
                {96, 0, 32, 9}, {104, 0, 40, 1}, {105, 1, 32, 9}, {122, 2, 40, 1}};
    for (const auto& row : rows) {
        CAPTURE(row.unit);
        const Run run = run_at(work, row.unit);
        CHECK(run.block == row.block);
        CHECK(run.tile == row.tile);
        CHECK(run.tiles == row.tiles);
    }
    const Run decode = run_at(request_work(4, 640, 4, 7), 3);
    CHECK(decode.tile == 3);
    CHECK(decode.tiles == 7);
    CHECK(request_work(5, 0, 4, 7).units == 0);
    CHECK(request_work(0, 5, 4, 4).units == 0);
}

// Shares of CTAs, in whole units, as the kernel cuts them: unit i begins at cost * i; it belongs to the share that its
// beginning lies in.
TEST_CASE("SM90 schedule: every unit has one CTA, and runs cover every tile of every block once") {
    using namespace sm90_score;
    for (const int32_t tokens : {1, 3, 4, 9, 40, 70}) {
        for (const int32_t keys : {1, 64, 65, 2600, 40000}) {
            const RequestWork work = request_work(tokens, keys, 4, unit_cost(groups_of(tokens, 1)));
            std::vector<int> seen(static_cast<size_t>(work.units));
            const int64_t total = work.units * work.cost, ctas = 132;
            for (int64_t cta = 0; cta < ctas; ++cta) {
                int64_t unit = ceil_div(share_begin(total, cta, ctas), work.cost);
                const int64_t end = std::min(work.units, ceil_div(share_begin(total, cta + 1, ctas), work.cost));
                while (unit < end) {
                    const Run run = run_at(work, unit);
                    for (int32_t i = 0; i < run.tiles && unit < end; ++i, ++unit)
                        ++seen[static_cast<size_t>(run.block) * static_cast<size_t>(work.tiles) +
                               static_cast<size_t>(run.tile + i)];
                }
            }
            CAPTURE(tokens, keys);
            CHECK(std::count(seen.begin(), seen.end(), 1) == work.units);
        }
    }
    CHECK(share_begin(10, 0, 4) == 0);
    CHECK(share_begin(10, 1, 4) == 3);
    CHECK(share_begin(10, 2, 4) == 6);
    CHECK(share_begin(10, 4, 4) == 10);
}

TEST_CASE("SM90 schedule: the row that a share is likely to begin with is a block's of the launch") {
    using sm90_score::likely_row;
    RowView view{};
    view.rows = 4096;
    view.end_row = 512;
    CHECK(likely_row(view, 0, 132, 8) == 0);
    CHECK(likely_row(view, 33, 132, 8) == 128);
    CHECK(likely_row(view, 131, 132, 8) == 504);    // 508.1
    CHECK(likely_row(view, 131, 132, 12) == 504);
    CHECK(likely_row(view, 0, 1, 8) == 0);
    view.first_row = 1003;   // a window of the rows
    view.end_row = 1003 + 2048;
    CHECK(likely_row(view, 0, 132, 8) == 1003);
    CHECK(likely_row(view, 66, 132, 8) == 1003 + 1024);
    CHECK(likely_row(view, 131, 132, 8) == 1003 + 2032);   // 2032.5
    for (int32_t rows : {1, 7, 8, 131, 132, 133, 99'999, INT32_MAX - 1003}) {
        view.end_row = 1003 + rows;
        for (uint32_t count : {1u, 2u, 78u, 132u, 148u, 1000u}) {
            for (uint32_t index : {0u, count / 3, count - 1}) {
                const int64_t exact = int64_t{rows} * index / count;
                const int32_t row = likely_row(view, index, count, 8) - 1003;
                CAPTURE(rows, count, index);
                CHECK(row % 8 == 0);
                CHECK(row < rows);
                CHECK(row >= exact / 8 * 8);
                if (rows < 100'000) CHECK(row == exact / 8 * 8);
            }
        }
    }
}

TEST_CASE("SM90 schedule: what of a block lies in a share, by hand") {
    using namespace sm90_score;
    // Keys 200 .. 639 in tiles of 96 are tiles 2 to 6, which begin at the costs 14, 33, 52, 71 and 90; the end is 109.
    const BlockWork work = block_work({200, 640}, 8, 96, 14, 19, 0);
    CHECK(work.cost() == 109);
    const struct {
        int64_t begin, end;
        int32_t tile, tiles;
    } rows[] = {{0, 109, 2, 5},  {-7, 14, 2, 0},  {-7, 15, 2, 1},  {0, 33, 2, 1},     {0, 34, 2, 2},
                {14, 33, 2, 1},  {15, 33, 3, 0},  {33, 90, 3, 3},  {89, 91, 6, 1},    {90, 109, 6, 1},
                {91, 109, 7, 0}, {109, 500, 7, 0}, {-3, 0, 2, 0},  {20, 60, 3, 2},
                {0, 1'000'000'000'000, 2, 5}};
    for (const auto& row : rows) {
        CAPTURE(row.begin, row.end);
        const BlockPart part = block_part(work, 0, row.begin, row.end);
        CHECK(part.tile == row.tile);
        CHECK(part.tiles == row.tiles);
        CHECK(part.empty() == (row.tiles == 0));
    }
    CHECK(block_part(block_work({0, 0}, 8, 96, 14, 19, 0), 0, 0, 5).empty());
    // Columns alone: 8 rows of 1000 are 16 units of 512 cells, and one.
    const BlockWork fill = block_work({0, 0}, 8, 96, 14, 19, 1000);
    CHECK(fill.cost() == 17);
    CHECK_FALSE(block_part(fill, 1000, 0, 1).empty());
    CHECK(block_part(fill, 1000, 17, 30).empty());
}

TEST_CASE("SM90 decode layout: sizes, offsets, and the rows of the variant table") {
    CHECK(offsetof(sm90_decode::Shared, k_scale) == 16384);
    CHECK(offsetof(sm90_decode::Shared, weights) == 16384 + 512);
    CHECK(offsetof(sm90_decode::Shared, q) == 18432);
    CHECK(sm90_decode::warpgroup_bytes(1) == 18432 + 8192);
    CHECK(sm90_decode::shared_bytes(1, 4) == 106496);
    CHECK(sm90_decode::shared_bytes(4, 3) == 3 * (18432 + 32768));
    CHECK(2 * (sm90_decode::shared_bytes(4, 2) + 1024) <= 228 * 1024);   // two CTAs of a multiprocessor
    CHECK(sm90_decode::launch_warpgroups(1, 1, 4) == 1);
    CHECK(sm90_decode::launch_warpgroups(132, 132, 4) == 1);
    CHECK(sm90_decode::launch_warpgroups(133, 132, 4) == 2);
    CHECK(sm90_decode::launch_warpgroups(396, 132, 4) == 3);
    CHECK(sm90_decode::launch_warpgroups(397, 132, 4) == 4);
    CHECK(sm90_decode::launch_warpgroups(397, 132, 2) == 2);
    CHECK(sm90_decode::launch_warpgroups(int64_t{1} << 40, 132, 4) == 4);
    CHECK(sm90_decode::share_begin(9, 1, 1, sm90_decode::share_part(1)) == 9);
    CHECK(sm90_decode::kWindow == 30);
    CHECK(sm90_decode::groups_of(1, 1) == 1);
    CHECK(sm90_decode::groups_of(3, 1) == 3);
    CHECK(sm90_decode::groups_of(9, 1) == 4);
    CHECK(sm90_decode::groups_of(3, 2) == 2);
#define CHECK_ROW(symbol, heads, depth, tokens)               \
    CHECK(sm90_decode::Tile<heads>::kBlockTokens == tokens); \
    CHECK(depth == sm90_decode::kDepth);
    LIDX_SM90_DECODE_VARIANTS(CHECK_ROW)
#undef CHECK_ROW
}

TEST_CASE("SM90 decode shares: in order, equal but for rounding, nothing left over") {
    using namespace sm90_decode;
    CHECK(units_of(64, 4, 4) == 1);
    CHECK(units_of(65, 4, 4) == 2);
    CHECK(units_of(65, 5, 4) == 4);
    CHECK(units_of(0, 5, 4) == 0);
    CHECK(share_part(512) == 1u << 23);
    CHECK(share_begin(128, 0, 512, share_part(512)) == 0);
    CHECK(share_begin(128, 3, 512, share_part(512)) == 0);   // every fourth worker has one unit of 128
    CHECK(share_begin(128, 4, 512, share_part(512)) == 1);
    CHECK(share_begin(128, 512, 512, share_part(512)) == 128);
    for (const uint32_t count : {4u, 12u, 528u, 592u, 65532u})
        for (const uint32_t total : {0u, 1u, 7u, 528u, 131072u, 262144u, 0x7fffffffu}) {
            CAPTURE(count, total);
            const uint32_t part = share_part(count);
            uint32_t least = UINT32_MAX, most = 0, before = 0;
            bool ordered = true;
            for (uint32_t index = 0; index < count; ++index) {
                const uint32_t end = share_begin(total, index + 1, count, part);
                CHECK(share_begin(total, index, count, part) == before);
                ordered = ordered && end >= before;
                least = std::min(least, end - before);
                most = std::max(most, end - before);
                before = end;
            }
            CHECK(ordered);
            CHECK(before == total);
            // Rounded up by less than one, a part is at most total / 2^32 too large; the last share has what they lack.
            CHECK(most - least <= 1 + 1 + uint64_t{total} * count / (uint64_t{1} << 32));
        }
}

TEST_CASE("limits that the kernels state") {
    // A page and a tile are both a whole number of boxes.
    for (int64_t page = 16; page <= 4096; page += 16)
        for (int32_t tile : {64, 128}) {
            CAPTURE(page, tile);
            CHECK(page % k_box_slots(true, page, tile) == 0);
            CHECK(tile % k_box_slots(true, page, tile) == 0);
            CHECK(k_box_slots(true, page, tile) == std::gcd(page, int64_t{tile}));
        }
    CHECK(k_box_slots(false, 5, 128) == 5);   // contiguous: one box
    CHECK(k_box_slots(false, 129, 128) == 128);
    CHECK(k_box_slots(false, int64_t{1} << 40, 64) == 64);
    CHECK(sm100_score::rows_fit(33554431, 64));
    CHECK_FALSE(sm100_score::rows_fit(33554432, 64));
    CHECK_FALSE(sm100_score::rows_fit(-1, 64));
    CHECK(generic_score::heads_fit(1));
    CHECK(generic_score::heads_fit(128));
    CHECK_FALSE(generic_score::heads_fit(0));
    CHECK_FALSE(generic_score::heads_fit(129));
    for (int64_t depth : {16, 48, 128}) CHECK(generic_score::depth_fits(depth));
    for (int64_t depth : {0, 8, 24, 144}) CHECK_FALSE(generic_score::depth_fits(depth));
}

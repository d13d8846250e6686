// SPDX-License-Identifier: Apache-2.0
// lidx_store_enqueue against test/ref/quantise_model.h, bit for bit: every byte of pool, guards and inputs is compared.
#include "test/unit/catch_any.h"

#include <algorithm>
#include <climits>

#include "cache_fixture.h"

namespace {

using namespace cache_test;

struct StoreCase {
    int32_t type, depth, page_size;
    bool rotate, pow2, round, split, byte_slots;
    int key_gap;      // elements between rows beyond the depth
    int alignment;    // of the keys, bytes; no larger power of two
    int pad;          // bytes added to the smallest page strides
    uint64_t seed;
};

// What the pool must hold afterwards, in the order of its bytes.
struct PoolImage {
    int64_t pages, k_stride, scale_stride;
    std::vector<uint8_t> k, k_scale;   // block-split: k alone
    bool split;
    int64_t scale_start;   // block-split: offset of a page's scales

    uint8_t* codes(int64_t page, int64_t slot, int depth) { return k.data() + page * k_stride + slot * depth; }
    uint8_t* scale(int64_t page, int64_t slot) {
        return split ? k_scale.data() + page * scale_stride + slot * 4
                     : k.data() + scale_start + page * k_stride + slot * 4;
    }
};

PoolImage make_pool(const StoreCase& c, int64_t pages) {
    PoolImage image;
    image.pages = pages;
    image.split = c.split;
    const int64_t code_bytes = int64_t{c.page_size} * c.depth, scale_bytes = int64_t{c.page_size} * 4;
    image.scale_start = code_bytes;
    const auto up = [](int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; };
    image.k_stride = up(code_bytes + (c.split ? 0 : scale_bytes), 16) + c.pad;
    image.scale_stride = c.split ? scale_bytes + c.pad : image.k_stride;
    image.k.resize(static_cast<size_t>(pages * image.k_stride));
    if (c.split) image.k_scale.resize(static_cast<size_t>(pages * image.scale_stride));
    for (size_t i = 0; i < image.k.size(); ++i) image.k[i] = static_cast<uint8_t>(i * 31 + 7);
    for (size_t i = 0; i < image.k_scale.size(); ++i) image.k_scale[i] = static_cast<uint8_t>(i * 29 + 3);
    return image;
}

// Where the rows go: all slots of the pool in random order, with skipped and illegal ones between.
struct Slots {
    std::vector<int64_t> codes, scales;   // as passed
    std::vector<int64_t> slot;            // page * page_size + slot, or -1: nowhere
    bool bad = false;
};

Slots draw_slots(const StoreCase& c, const PoolImage& image, int rows, bool illegal, Rng& rng) {
    const int64_t count = image.pages * c.page_size;
    std::vector<int64_t> order(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) order[i] = i;
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
    const int64_t bad_slots[] = {count, -2, INT64_MAX, INT64_MIN, count + 1000, int64_t{1} << 32};
    const int64_t end = image.pages * image.k_stride, scale_end = image.pages * image.scale_stride;
    const int64_t bad_bytes[] = {end, end - c.depth + 4, -4, 2, INT64_MAX, INT64_MIN};
    const int64_t bad_scale_bytes[] = {scale_end, -4, 1, INT64_MAX - 3, INT64_MIN, scale_end - 3};
    Slots slots;
    size_t next = 0;
    for (int row = 0; row < rows; ++row) {
        const uint64_t draw = rng.below(8);
        int64_t slot = -1, codes = -1, scale = 0;
        if (draw == 0) {   // skipped
        } else if (draw == 1 && illegal) {
            slots.bad = true;
            codes = c.byte_slots ? bad_bytes[rng.below(6)] : bad_slots[rng.below(6)];
            if (c.byte_slots && rng.below(2) == 0) {
                codes = 0;
                scale = bad_scale_bytes[rng.below(6)];
            }
        } else if (next < order.size()) {
            slot = order[next++];
            codes = slot;
            if (c.byte_slots) {
                const int64_t page = slot / c.page_size, at = slot % c.page_size;
                codes = page * image.k_stride + at * c.depth;
                scale = (c.split ? page * image.scale_stride : image.scale_start + page * image.k_stride) + at * 4;
            }
        }
        slots.codes.push_back(codes);
        slots.scales.push_back(scale);
        slots.slot.push_back(slot);
    }
    return slots;
}

void run_store(const StoreCase& c, bool check, bool illegal) {
    CAPTURE(type_name(c.type), c.depth, c.page_size, c.rotate, c.pow2, c.round, c.split, c.byte_slots);
    CAPTURE(c.key_gap, c.alignment, c.pad, c.seed, check, illegal);
    Rng rng(c.seed);
    const int rows = 41;
    const int64_t stride = c.depth + c.key_gap;
    Elements keys(c.type, static_cast<size_t>(rows * stride - c.key_gap));
    for (int row = 0; row < rows; ++row)
        fill_vector(keys, static_cast<size_t>(row * stride), c.depth, static_cast<uint64_t>(row) + c.seed, rng);
    PoolImage image = make_pool(c, 2 + 48 / c.page_size);
    const Slots slots = draw_slots(c, image, rows, illegal, rng);

    const Machine& m = machine();
    GuardedBuffer d_keys(m, "keys", keys.bytes().data(), keys.bytes().size(), static_cast<size_t>(c.alignment), true);
    GuardedBuffer d_slots(m, "slot_mapping", slots.codes.data(), slots.codes.size() * 8, 8, true);
    GuardedBuffer d_scales(m, "scale_slot_mapping", slots.scales.data(), slots.scales.size() * 8, 8, true);
    GuardedBuffer d_k(m, "k", image.k.data(), image.k.size(), 16, false);
    GuardedBuffer d_k_scale(m, "k_scale", image.k_scale.data(), image.k_scale.size(), 4, false);
    const uint32_t words[4] = {0, 7, 7, 7};
    GuardedBuffer d_workspace(m, "workspace", words, sizeof(words), 16, false);

    lidx_pool pool;
    REQUIRE(lidx_pool_init(&pool) == LIDX_OK);
    pool.k_base = d_k.at<void>();
    pool.k_scale_base = c.split         ? d_k_scale.at<void>()
                        : c.byte_slots ? d_k.at<void>()   // flat offsets of one buffer
                                       : d_k.at<void>(image.scale_start);
    pool.depth = c.depth;
    pool.page_size = c.page_size;
    pool.num_pages = image.pages;
    pool.k_page_stride = image.k_stride;
    pool.k_scale_page_stride = image.scale_stride;
    lidx_store_args args;
    REQUIRE(lidx_store_args_init(&args) == LIDX_OK);
    args.flags = quantise_flags(c.rotate, c.pow2, c.round) | (c.byte_slots ? uint32_t{LIDX_FLAG_BYTE_SLOTS} : 0) |
                 (check ? uint32_t{LIDX_FLAG_CHECK} : 0);
    args.key_type = c.type;
    args.rows = rows;
    args.key_stride = stride;
    args.keys = d_keys.at<void>();
    args.slot_mapping = d_slots.at<int64_t>();
    args.scale_slot_mapping = c.byte_slots ? d_scales.at<int64_t>() : nullptr;
    args.workspace = check ? d_workspace.at<void>() : nullptr;
    args.workspace_bytes = check ? 16 : 0;
    const lidx_status status = lidx_store_enqueue(m.lidx, &pool, &args, nullptr);
    INFO(lidx_last_error(m.lidx));
    REQUIRE(status == LIDX_OK);
    m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");

    for (int row = 0; row < rows; ++row) {
        if (slots.slot[row] < 0) continue;
        const int64_t page = slots.slot[row] / c.page_size, slot = slots.slot[row] % c.page_size;
        std::vector<float> x;
        for (int i = 0; i < c.depth; ++i) x.push_back(keys.at(static_cast<size_t>(row * stride + i)));
        const float scale =
            lidx::ref::quantise_fp32(x.data(), c.depth, c.rotate, c.pow2, image.codes(page, slot, c.depth),
                                     rounding(c.round, c.type));
        std::memcpy(image.scale(page, slot), &scale, 4);
    }
    CHECK(d_keys.damage(true) == "");
    CHECK(d_slots.damage(true) == "");
    CHECK(d_scales.damage(true) == "");
    CHECK(d_k.damage(false) == "");
    CHECK(d_k_scale.damage(false) == "");
    CHECK(d_workspace.damage(false) == "");
    uint32_t after[4];
    std::memcpy(after, d_workspace.payload(), 16);
    CHECK(after[0] == (check && slots.bad ? 1u : 0u));
    CHECK((after[1] == 7 && after[2] == 7 && after[3] == 7));
    const auto first_wrong = [](const uint8_t* seen, const std::vector<uint8_t>& expected) {
        for (size_t i = 0; i < expected.size(); ++i)
            if (seen[i] != expected[i]) return static_cast<int64_t>(i);
        return int64_t{-1};
    };
    CHECK(first_wrong(d_k.payload(), image.k) == -1);
    if (c.split) CHECK(first_wrong(d_k_scale.payload(), image.k_scale) == -1);
}

}  // namespace

TEST_CASE("store: every type, depth, option and layout") {
    uint64_t seed = 0;
    for (const int32_t type : kElementTypes)
        for (const int32_t depth : {128, 64})
            for (const bool rotate : {false, true})
                for (const bool pow2 : {false, true}) {
                    const bool round = rotate && (seed / 4 + seed) % 2 != 0;
                    const int32_t page_sizes[] = {64, 16, 7, 1};
                    const int gaps[] = {0, 4, 1, 128};
                    Rng pick(seed, 1);
                    const bool split = pick.below(2) != 0, bytes = pick.below(2) != 0, odd = pick.below(2) != 0;
                    run_store({type, depth, page_sizes[pick.below(4)], rotate, pow2, round, split, bytes,
                               gaps[odd ? pick.below(4) : pick.below(2)],
                               odd ? static_cast<int>(element_bytes(type)) : 16, pick.below(2) != 0 ? 16 : 0, seed},
                              seed % 3 != 0, seed % 5 != 0);
                    ++seed;
                }
}

TEST_CASE("store: unaligned keys, element by element") {
    uint64_t seed = 100;
    for (const int32_t type : kElementTypes)
        for (const int32_t depth : {128, 64})
            for (const int gap : {0, 1, 3})
                run_store({type, depth, 16, true, false, true, false, false, gap,
                           static_cast<int>(element_bytes(type)) << (seed % 2), 0, seed++},
                          false, true);
}

TEST_CASE("store: pages whose byte offset passes 2^31, and 2^32") {
    // Memory that nobody touches costs nothing on the emulator.
    constexpr int64_t kPages = 600000, kPageBytes = 64 * 132;
    const Machine& m = machine();
    CUdeviceptr base = 0;
    m.expect(m.driver.cuMemAlloc(&base, kPages * kPageBytes), "cuMemAlloc");
    const int64_t pages[] = {0, 254200, 254201, 508401, kPages - 1};
    Elements keys(LIDX_BF16, 5 * 128);
    Rng rng(5);
    std::vector<int64_t> slots;
    for (int row = 0; row < 5; ++row) {
        fill_vector(keys, static_cast<size_t>(row) * 128, 128, 0, rng);
        slots.push_back(pages[row] * 64 + 63 - row);
    }
    GuardedBuffer d_keys(m, "keys", keys.bytes().data(), keys.bytes().size(), 16, true);
    GuardedBuffer d_slots(m, "slot_mapping", slots.data(), slots.size() * 8, 8, true);
    lidx_pool pool;
    REQUIRE(lidx_pool_init(&pool) == LIDX_OK);
    pool.k_base = reinterpret_cast<void*>(base);
    pool.k_scale_base = reinterpret_cast<void*>(base + 64 * 128);
    pool.depth = 128;
    pool.page_size = 64;
    pool.num_pages = kPages;
    pool.k_page_stride = pool.k_scale_page_stride = kPageBytes;
    lidx_store_args args;
    REQUIRE(lidx_store_args_init(&args) == LIDX_OK);
    args.key_type = LIDX_BF16;
    args.rows = 5;
    args.key_stride = 128;
    args.keys = d_keys.at<void>();
    args.slot_mapping = d_slots.at<int64_t>();
    REQUIRE(lidx_store_enqueue(m.lidx, &pool, &args, nullptr) == LIDX_OK);

    // And back: five requests of one key each, through a gather.
    std::vector<int32_t> table, cu = {0}, begin;
    for (int row = 0; row < 5; ++row) {
        table.push_back(static_cast<int32_t>(pages[row]));
        cu.push_back(row + 1);
        begin.push_back(63 - row);
    }
    const std::vector<uint8_t> codes(5 * 128, 0xaa), scales(5 * 4, 0xaa);
    GuardedBuffer d_table(m, "block_table", table.data(), table.size() * 4, 4, true);
    GuardedBuffer d_cu(m, "cu_seqlens_k", cu.data(), cu.size() * 4, 4, true);
    GuardedBuffer d_begin(m, "key_begin", begin.data(), begin.size() * 4, 4, true);
    GuardedBuffer d_codes(m, "k_out", codes.data(), codes.size(), 16, false);
    GuardedBuffer d_scales(m, "k_scale_out", scales.data(), scales.size(), 4, false);
    lidx_gather_args gather;
    REQUIRE(lidx_gather_args_init(&gather) == LIDX_OK);
    gather.batch = 5;
    gather.max_rows = 5;
    gather.block_table_stride = 1;
    gather.block_table = d_table.at<int32_t>();
    gather.cu_seqlens_k = d_cu.at<int32_t>();
    gather.key_begin = d_begin.at<int32_t>();
    gather.k_out = d_codes.at<void>();
    gather.k_out_stride = 128;
    gather.k_scale_out = d_scales.at<float>();
    REQUIRE(lidx_gather_enqueue(m.lidx, &pool, &gather, nullptr) == LIDX_OK);
    m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");

    REQUIRE(d_codes.damage(false) == "");
    REQUIRE(d_scales.damage(false) == "");
    for (int row = 0; row < 5; ++row) {
        CAPTURE(row);
        std::vector<float> x;
        for (int i = 0; i < 128; ++i) x.push_back(keys.at(static_cast<size_t>(row * 128 + i)));
        uint8_t expected[128], seen[128];
        const float scale = lidx::ref::quantise_fp32(x.data(), 128, false, false, expected);
        CHECK(std::memcmp(d_codes.payload() + row * 128, expected, 128) == 0);
        CHECK(std::memcmp(d_scales.payload() + row * 4, &scale, 4) == 0);
        // In the pool itself, at the offset computed here.
        const auto at = static_cast<CUdeviceptr>(pages[row] * kPageBytes);
        m.expect(m.driver.cuMemcpyDtoH(seen, base + at + static_cast<CUdeviceptr>(63 - row) * 128, 128),
                 "cuMemcpyDtoH");
        CHECK(std::memcmp(seen, expected, 128) == 0);
        m.expect(m.driver.cuMemcpyDtoH(seen, base + at + 8192 + static_cast<CUdeviceptr>(63 - row) * 4, 4),
                 "cuMemcpyDtoH");
        CHECK(std::memcmp(seen, &scale, 4) == 0);
    }
    m.driver.cuMemFree(base);
}

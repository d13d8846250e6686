// SPDX-License-Identifier: Apache-2.0
// lidx_query_enqueue against test/ref/quantise_model.h, bit for bit.
#include "test/unit/catch_any.h"

#include "cache_fixture.h"

namespace {

using namespace cache_test;

struct QueryCase {
    int32_t rows, heads, depth, q_type, weight_type, weight_out_type;
    bool rotate, pow2, round, head_major, weights, scales_out, weights_out;
    float factor;
    int gap;   // elements between rows of q, weights and weights_out beyond the smallest
    uint64_t seed;
};

void run_query(const QueryCase& c) {
    CAPTURE(c.rows, c.heads, c.depth, c.rotate, c.pow2, c.round, c.head_major, c.weights, c.factor, c.gap, c.seed);
    CAPTURE(type_name(c.q_type), type_name(c.weight_type), type_name(c.weight_out_type));
    Rng rng(c.seed);
    const int64_t head_stride = c.head_major ? int64_t{c.rows} * (c.depth + c.gap) : c.depth;
    const int64_t row_stride = c.head_major ? c.depth + c.gap : int64_t{c.heads} * c.depth + c.gap;
    const int64_t weight_stride = c.heads + c.gap, out_stride = c.heads + c.gap;
    const auto q_at = [&](int row, int head) { return static_cast<size_t>(row * row_stride + head * head_stride); };
    Elements q(c.q_type, q_at(c.rows - 1, c.heads - 1) + static_cast<size_t>(c.depth));
    Elements weights(c.weight_type, static_cast<size_t>(c.rows * weight_stride));
    const float odd_weights[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, 1e-44f, 3e38f};
    for (int row = 0; row < c.rows; ++row)
        for (int head = 0; head < c.heads; ++head) {
            fill_vector(q, q_at(row, head), c.depth, rng.next() >> 8, rng);
            weights.set(static_cast<size_t>(row * weight_stride + head),
                        rng.below(4) == 0 ? odd_weights[rng.below(7)] : static_cast<float>(rng.normal()));
        }
    const int64_t pairs = int64_t{c.rows} * c.heads;
    std::vector<uint8_t> q_out(static_cast<size_t>(pairs * c.depth)), scales(static_cast<size_t>(pairs) * 4);
    std::vector<uint8_t> weights_out(static_cast<size_t>(c.rows * out_stride) * element_bytes(c.weight_out_type));
    for (auto* bytes : {&q_out, &scales, &weights_out})
        for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(rng.next());

    const Machine& m = machine();
    GuardedBuffer d_q(m, "q", q.bytes().data(), q.bytes().size(), element_bytes(c.q_type) * (c.gap == 1 ? 1 : 8), true);
    GuardedBuffer d_weights(m, "weights", weights.bytes().data(), weights.bytes().size(), element_bytes(c.weight_type),
                            true);
    GuardedBuffer d_q_out(m, "q_out", q_out.data(), q_out.size(), 16, false);
    GuardedBuffer d_scales(m, "q_scale_out", scales.data(), scales.size(), 4, false);
    GuardedBuffer d_weights_out(m, "weights_out", weights_out.data(), weights_out.size(),
                                element_bytes(c.weight_out_type), false);
    lidx_query_args args;
    REQUIRE(lidx_query_args_init(&args) == LIDX_OK);
    args.flags = quantise_flags(c.rotate, c.pow2, c.round);
    args.rows = c.rows;
    args.heads = c.heads;
    args.depth = c.depth;
    args.q_type = c.q_type;
    args.weight_type = c.weight_type;
    args.weight_out_type = c.weight_out_type;
    args.factor = c.factor;
    if (c.gap != 0 || c.head_major) {   // else the defaults
        args.q_row_stride = row_stride;
        args.q_head_stride = head_stride;
        args.weight_stride = weight_stride;
        args.weight_out_stride = out_stride;
    }
    args.q = d_q.at<void>();
    args.weights = c.weights ? d_weights.at<void>() : nullptr;
    args.q_out = d_q_out.at<void>();
    args.weights_out = c.weights_out ? d_weights_out.at<void>() : nullptr;
    args.q_scale_out = c.scales_out ? d_scales.at<float>() : nullptr;
    const lidx_status status = lidx_query_enqueue(m.lidx, &args, nullptr);
    INFO(lidx_last_error(m.lidx));
    REQUIRE(status == LIDX_OK);
    m.expect(m.driver.cuCtxSynchronize(), "cuCtxSynchronize");

    const float factor =
        c.factor != 0 ? c.factor : static_cast<float>(std::pow(static_cast<double>(c.heads) * c.depth, -0.5));
    for (int row = 0; row < c.rows; ++row)
        for (int head = 0; head < c.heads; ++head) {
            std::vector<float> x;
            for (int i = 0; i < c.depth; ++i) x.push_back(q.at(q_at(row, head) + static_cast<size_t>(i)));
            const int64_t pair = int64_t{row} * c.heads + head;
            const float scale =
                lidx::ref::quantise_fp32(x.data(), c.depth, c.rotate, c.pow2, q_out.data() + pair * c.depth,
                                         rounding(c.round, c.q_type));
            if (c.scales_out) std::memcpy(scales.data() + pair * 4, &scale, 4);
            if (!c.weights_out) continue;
            const float weight = c.weights ? weights.at(static_cast<size_t>(row * weight_stride + head)) : 1.0f;
            const float folded = lidx::ref::fold_weight(weight, scale, factor);
            const uint16_t half = lidx::ref::bf16_encode(folded);
            const size_t at = static_cast<size_t>(row * out_stride + head) * element_bytes(c.weight_out_type);
            if (c.weight_out_type == LIDX_FP32)
                std::memcpy(weights_out.data() + at, &folded, 4);
            else
                std::memcpy(weights_out.data() + at, &half, 2);
        }
    CHECK(d_q.damage(true) == "");
    CHECK(d_weights.damage(true) == "");
    CHECK(d_q_out.damage(false) == "");
    CHECK(d_scales.damage(false) == "");
    CHECK(d_weights_out.damage(false) == "");
    CHECK(std::memcmp(d_q_out.payload(), q_out.data(), q_out.size()) == 0);
    CHECK(std::memcmp(d_scales.payload(), scales.data(), scales.size()) == 0);
    CHECK(std::memcmp(d_weights_out.payload(), weights_out.data(), weights_out.size()) == 0);
}

}  // namespace

TEST_CASE("query: every type, depth, option and layout") {
    uint64_t seed = 1;
    const int32_t heads[] = {64, 32, 5, 1, 128};
    for (const int32_t q_type : kElementTypes)
        for (const int32_t weight_type : kElementTypes)
            for (const int32_t out_type : {LIDX_FP32, LIDX_BF16, LIDX_FP32, LIDX_BF16})   // twice, with other options
                for (const int32_t depth : {128, 64}) {
                    Rng pick(seed, 1);
                    run_query({static_cast<int32_t>(1 + seed % 3), heads[seed % 5], depth, q_type, weight_type,
                               out_type,
                               pick.below(2) != 0, pick.below(2) != 0, pick.below(2) != 0, seed % 4 == 1,
                               seed % 5 != 0, seed % 7 < 3,
                               seed % 7 != 0, seed % 6 == 0 ? 0.75f : 0.0f,
                               seed % 3 == 1 ? 0 : seed % 3 == 2 ? 1 : 4, seed});
                    ++seed;
                }
}

// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores of few tokens per request (decode) on Hopper, sm_90a: depth 128, 64 and 32 heads, plain work
// (kernel/variants.h). Made to start early and to stay out of the memory's way: two CTAs of 256 threads
// a multiprocessor, 26 to 50 KiB of shared memory a warpgroup, a rolled loop, no tensor map, no loading warps.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// Each warpgroup is a worker of its own: it has an equal part of all key tiles
// (kernel/sm90_decode_layout.h), its own Q and its own weights, and meets the others nowhere. S = K Q^T by wgmma:
// operand A a tile of 64 keys in registers, sixteen keys a warp; operand B the 64 token-head pairs of a group in shared
// memory: one token of 64 heads, two of 32. A tile meets up to four groups, so 4 (8) tokens cost one read of K.
//
// Arithmetic and its order: those of sm90_score.cu, the same bits.
//
// Pipeline of a warp: time runs down. Nothing but Q is shared between warps, so K needs no mbarrier: a warp copies its
// sixteen keys of a tile by cp.async, waits for its own copies and reads them back as fragments.
//
//     lengths -> units of 32 requests, one a lane; shares from their sum
//     a lane: one of the next 32 tiles; its request by search, its page from the block table
//     Q, weights (all of the warpgroup)
//     K tile 0 -> stage 0
//     K tile 1 -> stage 1
//     tile 0 landed: fragments; MMA group 0, 1; tile 2 -> stage 0; reduce group 0, 1; store
//     tile 1 landed: ...
//     tile 30: the next 32 tiles are looked up
//     another request: the warpgroup meets, copies Q, waits for it, meets
//
// Hand-overs:
//     cp.async     of a thread's own: wait_group, then bar.warp.sync among the warp that reads the stage.
//     Q, weights   cp.async, wait_group, fence.proxy.async, then the warpgroup's named barrier: the MMA reads Q.
//
// Budget per 64 keys x 64 columns: docs/kernel-sm90.md. At full memory bandwidth a tile arrives every 470 clocks.
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm90_decode_layout.h"
#include "kernel/sm90_decode_places.cuh"
#include "kernel/sm90_group.cuh"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm90_decode {

extern __shared__ __align__(1024) uint8_t dynamic_shared[];

namespace {

// Q and the weights of a token block, by the threads of a warpgroup, under the swizzle of 128 bytes. What a group has
// beyond the block's tokens is whatever was there: nobody stores its sums.
template <class T>
__device__ __forceinline__ void copy_block(const ScoreParams& p, const Worker& self, Shared& shared, int32_t row,
                                           int32_t tokens) {
    const uint32_t thread = 32 * self.warp + self.lane, column = thread / 8, chunk = thread % 8;
    const auto columns = static_cast<uint32_t>(tokens * T::kHeads);
    const uint8_t* const from = p.q + int64_t{row} * (T::kHeads * kDepth) + thread * 16;
    const ptx::SharedAddr to = ptx::cvta_to_shared(shared.q[0]) +
                               (column * kDepth + ((chunk ^ column % 8) << 4));
    const float* const weights = static_cast<const float*>(p.q_scale) + int64_t{row} * T::kHeads + thread;
    const ptx::SharedAddr weights_to = ptx::cvta_to_shared(shared.weights[0]) + 4 * thread;
#pragma unroll 1
    for (uint32_t group = 0; group * kColumns < columns; ++group) {
        const uint32_t rest = columns - group * kColumns;   // 32 or, for a whole group, 64 or more
        for (uint32_t first = 0; first < kColumns; first += 16)
            if (first < rest)
                ptx::cp_async_ca_16(to + (group * sizeof(shared.q[0]) + first * kDepth),
                                    from + (group * kColumns + first) * kDepth);
        if (thread < kColumns && thread < rest)
            ptx::cp_async_ca_4(weights_to + group * sizeof(shared.weights[0]), weights + group * kColumns);
    }
}

// The warp's sixteen keys of tile i of the window, those that live; in the others' places is whatever was there.
__device__ __forceinline__ void load_tile(const Worker& self, Shared& shared, const Place& place, uint32_t i,
                                          uint64_t policy) {
    const int32_t live = live_of(shfl(place.facts, i));
    const uint8_t* const k = shfl(place.k, i) + self.lane * 16;
    const uint8_t* const k_scale = shfl(place.k_scale, i) + self.lane * 4;
    const uint32_t key = self.lane / 8, swizzle = (self.lane % 8 ^ key) << 4;
    const ptx::SharedAddr to = ptx::cvta_to_shared(&shared.k[self.warp][i % kStages][key * kDepth]);
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j)   // key + 4 j: bit 2 of its number changes with j
        if (static_cast<int32_t>(key + 4 * j) < live)
            ptx::cp_async_cg_16(to + (4 * j * kDepth + (swizzle ^ j % 2 * 64)), k + 4 * j * kDepth, policy);
    if (static_cast<int32_t>(self.lane) < live)
        ptx::cp_async_ca_4(ptx::cvta_to_shared(&shared.k_scale[self.warp][i % kStages][self.lane]),
                           k_scale);
    ptx::cp_async_commit_group();
}

// D = K Q^T of the warpgroup's tile and a group.
__device__ __forceinline__ void multiply(const uint32_t (&k)[4][4], uint64_t q_descriptor, float (&d)[kColumns / 2]) {
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t step = 0; step < 4; ++step)
        ptx::wgmma_mma_async_m64n64k32_f32_e4m3_e4m3(d, k[step], smem_descriptor_advance(q_descriptor, step * 32),
                                                     step > 0);
    ptx::wgmma_commit_group();
}

// Two sums a token: keys lane / 4 and 8 further of the warp's sixteen; then over the quad, as (p0 + p1) + (p2 + p3).
// The lane gets the key of lane_key() and, with two tokens, token lane % 2.
template <class T>
__device__ __forceinline__ float reduce(const Worker& self, const float (&weights)[kColumns / 4],
                                        float (&d)[kColumns / 2]) {
    float sum[2 * T::kGroupTokens];
    sm90_score::pin(d);
    sm90_score::reduce<T>(weights, d, sum);
    const bool odd = self.lane % 2 != 0, high = self.lane % 4 >= 2;
    const auto exchanged = [](bool keep_second, float first, float second, uint32_t mask) {
        return ptx::add_rn_f32(keep_second ? second : first,
                               ptx::shfl_sync_bfly(keep_second ? first : second, mask, ptx::kFullMask));
    };
    if constexpr (T::kGroupTokens == 1) {
        const float pair = exchanged(odd, sum[0], sum[1], 1);
        return ptx::add_rn_f32(pair, ptx::shfl_sync_bfly(pair, 2, ptx::kFullMask));
    } else {
        return exchanged(high, exchanged(odd, sum[0], sum[2], 1), exchanged(odd, sum[1], sum[3], 1), 2);
    }
}
template <class T>
__device__ __forceinline__ int32_t lane_key(uint32_t lane) {
    return static_cast<int32_t>(lane / 4 + 8 * (T::kGroupTokens == 1 ? lane % 2 : lane % 4 / 2));
}

// Where the scores of a block go, and how much of it there is.
struct Target {
    int32_t row = -1, tokens = 0, groups = 0;
    float* cell = nullptr;   // the lane's token of the block's first group, key lane_key() of key 0
};

// Q and weights of the block of tile i have come to all warps of the warpgroup. first: they are on their way since the
// share began.
template <class T>
__device__ __forceinline__ void take_block(const ScoreParams& p, const Worker& self, Shared& shared, const Place& place,
                                           uint32_t i, bool first, Target& target) {
    const uint32_t barrier = 1 + self.warpgroup;
    if (!first) {
        target.row = shfl(place.row, i);
        target.tokens = tokens_of(shfl(place.facts, i));
        ptx::bar_sync(barrier, kWarpgroupThreads);   // all have multiplied by the Q before
        copy_block<T>(p, self, shared, target.row, target.tokens);
        ptx::cp_async_commit_group();
    }
    const int64_t length = unpack_length(shfl(place.length, i));
    const uint32_t thread = 32 * self.warp + self.lane;
    if (thread < static_cast<uint32_t>(target.tokens))
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.row_end[thread]),
                           p.view.causal != 0 ? static_cast<uint32_t>(keys_of_length(p.view, length + thread).end)
                                              : static_cast<uint32_t>(INT32_MAX));
    if (first) ptx::cp_async_wait_group<kStages - 1>();
    else ptx::cp_async_wait_group<0>();
    target.groups = groups_of(target.tokens, T::kGroupTokens);
    const int32_t token = T::kGroupTokens == 1 ? 0 : static_cast<int32_t>(self.lane % 2);
    target.cell = static_cast<float*>(p.scores) + (int64_t{target.row} + token) * p.score_stride +
                  lane_key<T>(self.lane);
    ptx::fence_proxy_async_shared_cta();
    ptx::bar_sync(barrier, kWarpgroupThreads);
}

// Scores of tile i of the window, which a stage holds; tile i + kStages takes its place.
template <class T>
__device__ __forceinline__ void score_tile(const ScoreParams& p, const Worker& self, Shared& shared, const Place& place,
                                           uint32_t i, const Target& target, uint64_t policy) {
    const int32_t key = lane_key<T>(self.lane);
    // Of matrix lane / 8 of four the row lane % 8: keys 0-7, 8-15 of chunk 0, then of chunk 1.
    const uint32_t fragment_key = self.lane % 16, fragment_chunk = self.lane / 16;
    const ptx::SharedAddr fragment = ptx::cvta_to_shared(&shared.k[self.warp][0][fragment_key * kDepth]);
    const uint32_t fragment_swizzle = (fragment_chunk ^ fragment_key % 8) << 4;
    uint32_t k[4][4];
#pragma unroll
    for (uint32_t step = 0; step < 4; ++step)
        ptx::ldmatrix_m8n8_x4_b16(k[step], fragment + (i % kStages * sizeof(shared.k[0][0]) +
                                                       (fragment_swizzle ^ step * 32)));
    const float k_scale = ptx::ld_shared_f32(ptx::cvta_to_shared(&shared.k_scale[self.warp][i % kStages][key]));
    const bool live = key < live_of(shfl(place.facts, i));
    const int32_t tile_key = shfl(place.key, i);
    float* to = target.cell + tile_key;
    const uint32_t first_token = T::kGroupTokens == 1 ? 0 : self.lane % 2;
    ptx::SharedAddr row_end = ptx::cvta_to_shared(&shared.row_end[first_token]);
    uint64_t group_q = wgmma_descriptor_k_major_128b(ptx::cvta_to_shared(shared.q[0]).value);
    ptx::SharedAddr group_weights = ptx::cvta_to_shared(&shared.weights[0][2 * (self.lane % 4)]);
#pragma unroll 1
    for (int32_t group = 0; group < target.groups; ++group) {
        float d[kColumns / 2], weights[kColumns / 4];
        multiply(k, group_q, d);
        if (group == 0) {
            ptx::bar_warp_sync(ptx::kFullMask);   // the fragments have left the stage
            load_tile(self, shared, place, i + kStages, policy);
        }
        sm90_score::load_group_weights(group_weights, weights);
        const auto end = static_cast<int32_t>(ptx::ld_shared_u32(row_end));
        ptx::wgmma_wait_group<0>();
        const float score = ptx::mul_rn_f32(k_scale, reduce<T>(self, weights, d));
        const bool mine = T::kGroupTokens == 1 ? self.lane % 4 < 2
                                               : 2 * group + static_cast<int32_t>(self.lane % 2) < target.tokens;
        if (live && mine && tile_key + key < end) ptx::st_global_f32(to, score);
        to += T::kGroupTokens * p.score_stride;
        row_end = row_end + T::kGroupTokens * sizeof(shared.row_end[0]);
        group_q += sizeof(shared.q[0]) / 16;
        group_weights = group_weights + sizeof(shared.weights[0]);
    }
}

template <class T>
__device__ __forceinline__ void score(const ScoreParams& p) {
    Worker self;
    self.lane = ptx::tid_x() % 32;
    self.warp = shfl(ptx::tid_x() / 32 % 4, 0);
    self.warpgroup = shfl(ptx::tid_x() / kWarpgroupThreads, 0);
    self.warpgroups = p.tiles[2];
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on
    ptx::griddepcontrol_launch_dependents();   // not before: a selection reads who sees what ahead of its own wait
    RawSpan raw = ask_span(p, static_cast<int32_t>(self.lane));
    if (self.warpgroup == self.warpgroups - 1) prefetch_table(p, ptx::tid_x() % kWarpgroupThreads);
    self.total = self.unit = self.end = self.before = 0;
    self.base = 0;
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared + self.warpgroup * p.tiles[1]);
    if (p.view.batch > 32) {
        find_share<T>(p, self, *reinterpret_cast<Shared*>(dynamic_shared));
        raw = ask_span(p, self.base + static_cast<int32_t>(self.lane));
    }
    // K goes first where L2 needs room, so that what others left there stays.
    const uint64_t policy = ptx::createpolicy_fractional_evict_first();
    Target target;
    bool first = true;   // the first block's Q is still on its way
    while (true) {
        const bool start = target.row < 0;
        if (!start) raw = ask_span(p, self.base + static_cast<int32_t>(self.lane));
        const Place place = find_places<T>(p, self, raw, target.row, [&](const Place& at) {
            if (!start) return;
            target.row = shfl(at.row, 0);
            target.tokens = tokens_of(shfl(at.facts, 0));
            copy_block<T>(p, self, shared, target.row, target.tokens);   // nothing if the share is empty
        });
        if (start) {
#pragma unroll 1
            for (uint32_t i = 0; i < kStages; ++i) load_tile(self, shared, place, i, policy);
        }
#pragma unroll 1
        for (uint32_t i = 0; i < kWindow; ++i) {
            const uint32_t facts = shfl(place.facts, i);
            if (tokens_of(facts) == 0) return;
            if (is_fresh(facts)) {
                take_block<T>(p, self, shared, place, i, first, target);
                first = false;
            }
            ptx::cp_async_wait_group<kStages - 1>();
            ptx::bar_warp_sync(ptx::kFullMask);
            score_tile<T>(p, self, shared, place, i, target, policy);
        }
        self.unit += kWindow;
    }
}

}  // namespace
}  // namespace lidx::sm90_decode

#define LIDX_SM90_DECODE_ENTRY(symbol, heads, depth, tokens)                                                           \
    extern "C" __global__ void __launch_bounds__(lidx::sm90_decode::kThreads, 1) symbol(                               \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm90_decode::kDepth);                                                             \
        static_assert(tokens == lidx::sm90_decode::Tile<heads>::kBlockTokens);                                         \
        lidx::sm90_decode::score<lidx::sm90_decode::Tile<heads>>(p);                                                   \
    }
LIDX_SM90_DECODE_VARIANTS(LIDX_SM90_DECODE_ENTRY)

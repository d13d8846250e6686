// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on the fifth-generation tensor core, sm_100f: 4 to 128 heads, depth 128 or 64, paged or
// contiguous K.
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// A CTA owns 128 keys of one request and walks over token tiles. S^T = K Q^T: operand A is the K tile [128 keys, depth
// bytes], loaded once and kept; operand B a token tile [tokens * heads, depth bytes]: as many tokens as fill 128
// columns, or 96, 64 or 32 where a request has no more (kernel/variants.h). S lies in one Tensor Memory stage, a key
// per lane, token * heads + head along the columns; so a thread owns a key's whole row, and the sum over the heads
// never leaves its registers. No split of the depth, no reduction between threads or CTAs.
//
// Arithmetic. depth / 32 tcgen05.mma of K = 32, depth ascending, the first without accumulator input (fp8 products in
// the tensor core's fixed window). Then fp32, round to nearest even, subnormals kept, the same for every tile variant,
// page size, layout, batch and slice:
//     r[h] = relu(S[h]): max.NaN(x, +0), or (x + |x|) * 0.5 in column pairs 0, 4, 8, ...; the same bits, NaN included
//     even = fma(q_scale[h], r[h], even)    h = 0, 2, 4, ...    even and odd start at +0
//     odd  = fma(q_scale[h], r[h], odd)     h = 1, 3, 5, ...
//     score = k_scale * (even + odd)
//
// Pipeline: four warps drain and reduce; one elected lane of warp 0 also issues all TMA and MMA. Time runs down, n is
// the tile:
//
//     TMA             tensor core   warps 0-3
//     Q0, Q1, K       .             Tensor Memory, barriers, q_scale 0, k_scale
//     .               MMA 0         q_scale 1 on its way (registers)
//     Q2 -> buffer 0  .             s_full: drain S 0, meet; MMA 1 may go
//     .               MMA 1         relu, q_scale, sums, store of tile 0; q_scale 1 -> shared; q_scale 2 on its way
//     Q3 -> buffer 1  .             s_full: drain S 1, meet; MMA 2 may go ...
//
// Hand-overs:
//     k_full      TMA -> issuer: the K tile is in shared memory. One phase.
//     q_full[b]   TMA -> issuer: a token tile is in Q buffer b.
//     s_full      tcgen05.commit -> all: S is complete; so the MMA has read its Q buffer, which may be overwritten.
//     meet        all -> issuer: every warp has drained S (wait::ld), the stage may be overwritten;
//                 all -> all: tile n - 1's q_scale have been read, tile n's are in place.
//
// Budget of a 128 x 128 tile (clocks per SM; docs/kernel-sm100.md): MMA 256; FMA pipe 192 (64 FFMA2, 16 FADD2, 16 FMUL2
// per warp), ALU 192 (96 FMNMX per warp); shared memory 50 KiB, 34 KiB with one token tile; Tensor Memory 128 columns.
#include "kernel/instr_descriptor.h"
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm100_score_layout.h"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/tcgen05.cuh"

namespace lidx::sm100_score {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

// What this CTA computes.
struct Work {
    int32_t request;
    int32_t key_begin;      // first key of the tile
    int32_t key_end;        // keys that the request has
    int32_t row;            // first row of this slice's token tiles
    int32_t tokens;         // rows of this slice that the request has; <= 0: none
    int32_t tiles;          // token tiles of this slice
    __device__ __forceinline__ bool empty() const { return key_begin >= key_end || tiles <= 0; }
};

// Who is asking. warp came through shfl: uniform for ptxas too.
struct Thread {
    uint32_t index, warp, lane;
    // The one lane of the CTA that issues TMA, MMA and commits. All of warp 0 must ask. Elected anew at each place (it
    // is the same lane every time): guarded by elect itself, ptxas knows that one lane is active and needs no loop over
    // lanes for uniform operands (1032 SASS instructions in sm100_score_h64; 1280 with the answer kept in a register).
    __device__ __forceinline__ bool issuer() const { return warp == 0 && ptx::elect_sync(ptx::kFullMask); }
};

template <class T>
__device__ __forceinline__ Work find_work(const ScoreParams& p) {
    const auto request = static_cast<int32_t>(ptx::ctaid_x());
    const RequestSpan span = request_span(p.view, request);
    const auto tiles = static_cast<int32_t>(token_tiles(span.tokens, T::kTokens));
    const TileRange slice = slice_tiles(tiles, ptx::ctaid_z(), ptx::nctaid_z());
    const int32_t first = slice.begin * T::kTokens;
    return {request, static_cast<int32_t>(ptx::ctaid_y()) * kTileKeys, span.keys, span.row_begin + first,
            span.tokens - first, slice.end - slice.begin};
}

__device__ __forceinline__ void wait(ptx::SharedAddr barrier, ptx::Parity parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
}

// All 128 threads; what they did in Tensor Memory before is done before.
__device__ __forceinline__ void meet() {
    ptx::bar_warp_sync(ptx::kFullMask);   // bar.sync is .aligned
    ptx::tcgen05_fence_before_thread_sync();
    ptx::bar_sync();
}

// Where a key lies; page is kDeadPage where the page id is not one of the pool's.
struct KeyPlace {
    int32_t page, slot;
};
__device__ __forceinline__ KeyPlace find_key(const ScoreParams& p, int32_t request, int32_t key) {
    KeyPlace place{request, key};
    if (p.block_table) {
        const auto index = static_cast<int32_t>(static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size));
        place.page = ptx::ld_global_nc_s32(p.block_table + request * p.block_table_stride + index);
        place.slot = key - index * p.page_size;
    }
    if (place.page < 0 || place.page >= p.num_pages) place.page = kDeadPage;
    return place;
}

// Warp 0. The K tile is one box, or as many as it has pages: a lane looks up a page each, then the issuer sends the
// boxes, all on k_full. Boxes beyond the length or of an illegal page go out of bounds: nothing is read, their bytes
// still arrive.
template <class T>
__device__ __forceinline__ void load_k_tile(const ScoreParams& p, const ptx::TensorMap* k_map, const Work& work,
                                            const Thread& self, typename T::SharedLayout& shared) {
    const int32_t box_slots = k_box_slots(p.block_table, p.page_size, kTileKeys);
    const int32_t boxes = p.block_table ? kTileKeys / box_slots : 1;
    const int32_t key = work.key_begin + static_cast<int32_t>(self.lane) * box_slots;
    KeyPlace place{kDeadPage, 0};
    if (static_cast<int32_t>(self.lane) < boxes && key < work.key_end) place = find_key(p, work.request, key);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.k_full);
    const auto box_bytes = static_cast<uint32_t>(box_slots * p.depth);
    if (self.issuer()) ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(boxes) * box_bytes);
#pragma unroll 1
    for (int32_t box = 0; box < boxes; ++box) {
        const uint32_t page = ptx::shfl_sync_idx(static_cast<uint32_t>(place.page), box, ptx::kFullMask);
        const uint32_t slot = ptx::shfl_sync_idx(static_cast<uint32_t>(place.slot), box, ptx::kFullMask);
        const ptx::SharedAddr to = ptx::cvta_to_shared(shared.k) + static_cast<uint32_t>(box) * box_bytes;
        if (self.issuer())
            ptx::cp_async_bulk_tensor_3d(to, k_map, 0, static_cast<int32_t>(slot), static_cast<int32_t>(page), full);
    }
}

template <class T>
__device__ __forceinline__ ptx::SharedAddr q_buffer(int32_t n, typename T::SharedLayout& shared) {
    return n & 1 ? ptx::cvta_to_shared(shared.q1) : ptx::cvta_to_shared(shared.q0);
}

// Issuer. Rows of another request or beyond the last row come along (or as zeros) and are not stored.
template <class T>
__device__ __forceinline__ void load_q_tile(const ScoreParams& p, const ptx::TensorMap* q_map, const Work& work,
                                            int32_t n, typename T::SharedLayout& shared) {
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[n & 1]);
    ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(T::kColumns * p.depth));
    ptx::cp_async_bulk_tensor_2d(q_buffer<T>(n, shared), q_map, 0, (work.row + n * T::kTokens) * T::kHeads, full);
}

// Issuer. S = K Q^T of tile n as soon as its operands are there. Depth 64: two steps instead of four, over rows of 64
// bytes.
template <class T>
__device__ __forceinline__ void multiply(const ScoreParams& p, ptx::TmemAddr s, int32_t n,
                                         typename T::SharedLayout& shared) {
    constexpr uint32_t kInstr = instr_descriptor({.m = kTileKeys, .n = T::kColumns});
    static_assert(mma_shape_fits(kTileKeys, T::kColumns));
    wait(ptx::cvta_to_shared(&shared.q_full[n & 1]), {static_cast<uint32_t>(n >> 1) & 1});
    ptx::tcgen05_fence_after_thread_sync();
    const bool whole = p.depth == kDepth;
    const uint64_t layout = whole ? smem_descriptor_k_major_128b(0) : smem_descriptor_k_major_64b(0);
    const uint64_t k = layout | smem_descriptor_address(ptx::cvta_to_shared(shared.k).value);
    const uint64_t q = layout | smem_descriptor_address(q_buffer<T>(n, shared).value);
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        if (step < kDepthStep / kMmaK || whole)
            ptx::tcgen05_mma_kind_f8f6f4(s, smem_descriptor_advance(k, step * kMmaK),
                                         smem_descriptor_advance(q, step * kMmaK), kInstr, step > 0);
    ptx::tcgen05_commit_mbarrier_arrive_one(ptx::cvta_to_shared(&shared.s_full));
}

// A thread's share of tile n's q_scale [tokens * heads]: +0 for rows that the request does not have.
template <class T>
__device__ __forceinline__ float load_q_scale(const ScoreParams& p, const Work& work, int32_t n, uint32_t column) {
    const int32_t token = n * T::kTokens + static_cast<int32_t>(column) / T::kHeads;
    if (n >= work.tiles || static_cast<int32_t>(column) >= T::kColumns || token >= work.tokens) return 0.0f;
    const float* scales = static_cast<const float*>(p.q_scale) + int64_t{work.row} * T::kHeads + column;
    return ptx::ld_global_nc_f32(scales + int64_t{n} * T::kColumns);
}
template <class T>
__device__ __forceinline__ void keep_q_scale(float value, int32_t n, uint32_t column,
                                             typename T::SharedLayout& shared) {
    if (static_cast<int32_t>(column) < T::kColumns)
        ptx::st_shared_f32(ptx::cvta_to_shared(&shared.q_scale[n & 1][column]), value);
}

// All of the thread's TMEM lane into registers, complete when it returns. Whole warp.
template <class T>
__device__ __forceinline__ void drain(ptx::TmemAddr s, float (&row)[T::kColumns / 32][32]) {
    ptx::bar_warp_sync(ptx::kFullMask);   // tcgen05.ld is .aligned; waiting and the issuer's turn may have diverged
#pragma unroll
    for (int block = 0; block < T::kColumns / 32; ++block)
        ptx::tcgen05_ld_32x32b_x32(row[block], s.column(block * 32));
    ptx::tcgen05_wait_ld();
}

// relu of a pair of columns. A quarter of the pairs goes through the FMA pipe, the rest through the ALU: 192 clocks
// each per 128 x 128 tile. All on the ALU would take 256 there, half and half 256 on the FMA pipe.
__device__ __forceinline__ ptx::F32x2 relu(int pair, float a, float b) {
    if (pair % 4 != 0) return ptx::mov_b64(ptx::max_nan_f32(a, 0.0f), ptx::max_nan_f32(b, 0.0f));
    const ptx::F32x2 magnitude = ptx::mov_b64(ptx::abs_f32(a), ptx::abs_f32(b));
    return ptx::mul_rn_f32x2(ptx::add_rn_f32x2(ptx::mov_b64(a, b), magnitude), ptx::mov_b64(0.5f, 0.5f));
}

// sum[token] = sum over the heads, four heads of every token in turn.
template <class T>
__device__ __forceinline__ void reduce(const float (&row)[T::kColumns / 32][32], int32_t n,
                                       typename T::SharedLayout& shared, float (&sum)[T::kTokens]) {
    const ptx::SharedAddr scale = ptx::cvta_to_shared(shared.q_scale[n & 1]);
    ptx::F32x2 total[T::kTokens];   // even heads, odd heads
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token) total[token] = ptx::mov_b64(0.0f, 0.0f);
#pragma unroll
    for (int head = 0; head < T::kHeads; head += 4) {
#pragma unroll
        for (int token = 0; token < T::kTokens; ++token) {
            const int column = token * T::kHeads + head;
            const float* x = &row[column / 32][column % 32];
            ptx::F32x2 w01, w23;
            ptx::ld_shared_v2_b64(w01, w23, scale + column * sizeof(float));
            total[token] = ptx::fma_rn_f32x2(w01, relu(column / 2, x[0], x[1]), total[token]);
            total[token] = ptx::fma_rn_f32x2(w23, relu(column / 2 + 1, x[2], x[3]), total[token]);
        }
    }
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token) {
        float even, odd;
        ptx::mov_b64(even, odd, total[token]);
        sum[token] = ptx::add_rn_f32(even, odd);
    }
}

// Warp 0. Barriers, then everything that flies before the CTA meets: the K tile and the first two token tiles.
template <class T>
__device__ __forceinline__ void start_loads(const ScoreParams& p, const ptx::TensorMap* k_map,
                                            const ptx::TensorMap* q_map, const Work& work, const Thread& self,
                                            typename T::SharedLayout& shared) {
    if (self.issuer()) {
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_full), 1);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[0]), 1);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[1]), 1);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.s_full), 1);
        ptx::fence_mbarrier_init_release_cluster();
        ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
        load_q_tile<T>(p, q_map, work, 0, shared);
        if (work.tiles > 1) load_q_tile<T>(p, q_map, work, 1, shared);
    }
    ptx::bar_warp_sync(ptx::kFullMask);
    load_k_tile<T>(p, k_map, work, self, shared);
}

// The key that a thread reduces and stores.
struct OwnKey {
    int32_t key;
    bool live;       // inside the length and on a legal page
    float scale;
};
__device__ __forceinline__ OwnKey load_own_key(const ScoreParams& p, const Work& work, uint32_t index) {
    OwnKey own{work.key_begin + static_cast<int32_t>(index), false, 0.0f};
    if (own.key >= work.key_end) return own;
    const KeyPlace place = find_key(p, work.request, own.key);
    own.live = place.page != kDeadPage;
    const uint8_t* scale = p.k_scale + place.page * p.k_scale_page_stride + int64_t{place.slot} * 4;
    if (own.live) own.scale = ptx::ld_global_nc_f32(scale);
    else if (p.check_word) ptx::st_global_u32(p.check_word, 1);
    return own;
}

// The scores of one tile, from `to` on with a row every `stride` elements; tokens: those that the request still has. A
// warp's lanes hold consecutive keys: each store is one full line of 128 bytes.
template <class T>
__device__ __forceinline__ void store_tile(float* to, int64_t stride, int32_t tokens, const OwnKey& own,
                                           const float (&sum)[T::kTokens]) {
#pragma unroll
    for (int token = 0; token < T::kTokens; ++token)
        if (own.live && token < tokens) ptx::st_global_f32(to + token * stride, ptx::mul_rn_f32(own.scale, sum[token]));
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::SharedLayout*>(dynamic_shared);
    const uint32_t index = ptx::tid_x();
    if (index == 0) {   // the maps come in while the lengths do
        ptx::prefetch_tensormap(&q_map);
        ptx::prefetch_tensormap(&k_map);
    }
    const Work work = find_work<T>(p);
    if (work.empty()) return;
    const Thread self{index, ptx::shfl_sync_idx(index / 32, 0, ptx::kFullMask), index % 32};

    if (self.warp == 0) start_loads<T>(p, &k_map, &q_map, work, self, shared);
    if (self.warp == 1) {
        ptx::tcgen05_alloc(ptx::cvta_to_shared(&shared.tmem_base), T::kTmemColumns);
        ptx::tcgen05_relinquish_alloc_permit();
    }
    keep_q_scale<T>(load_q_scale<T>(p, work, 0, index), 0, index, shared);
    const OwnKey own = load_own_key(p, work, index);
    meet();   // barriers, Tensor Memory and q_scale 0 are there
    ptx::tcgen05_fence_after_thread_sync();
    const ptx::TmemAddr s{ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.tmem_base)) + kTmemColumnS};
    if (self.issuer()) {
        wait(ptx::cvta_to_shared(&shared.k_full), {0});
        multiply<T>(p, s, 0, shared);
    }

    float* to = static_cast<float*>(p.scores) + int64_t{work.row} * p.score_stride + own.key;
    for (int32_t n = 0; n < work.tiles; ++n, to += T::kTokens * p.score_stride) {
        const float next_q_scale = load_q_scale<T>(p, work, n + 1, index);
        wait(ptx::cvta_to_shared(&shared.s_full), {static_cast<uint32_t>(n) & 1});
        ptx::tcgen05_fence_after_thread_sync();
        if (n + 2 < work.tiles && self.issuer()) load_q_tile<T>(p, &q_map, work, n + 2, shared);
        float row[T::kColumns / 32][32];
        drain<T>(s.lane(self.warp * 32), row);
        meet();   // S may be overwritten; q_scale n is in place, q_scale n - 1 has been read
        if (n + 1 < work.tiles && self.issuer()) multiply<T>(p, s, n + 1, shared);
        float sum[T::kTokens];
        reduce<T>(row, n, shared, sum);
        store_tile<T>(to, p.score_stride, work.tokens - n * T::kTokens, own, sum);
        if (n + 1 < work.tiles) keep_q_scale<T>(next_q_scale, n + 1, index, shared);
    }
    ptx::bar_warp_sync(ptx::kFullMask);
    if (self.warp == 1) ptx::tcgen05_dealloc(s, T::kTmemColumns);   // all have drained: they met after the last drain
}

}  // namespace
}  // namespace lidx::sm100_score

#define LIDX_SM100_SCORE_ENTRY(symbol, heads, depth, tokens)                                                           \
    extern "C" __global__ void __launch_bounds__(lidx::sm100_score::kThreads) symbol(                                  \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm100_score::kDepth);                                                             \
        lidx::sm100_score::score<lidx::sm100_score::Tile<heads, tokens>>(k_map, q_map, p);                             \
    }
LIDX_SM100_SCORE_VARIANTS(LIDX_SM100_SCORE_ENTRY)

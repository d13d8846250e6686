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
//     score = k_scale * (even + odd)         bf16: rounded to nearest even from that
// q_scale[h] is the product of two factors, rounded once, where there are two.
//
// Who sees what (kernel/live.h) decides which token tiles and which boxes of K a CTA loads at all: those from the first
// to the last that see a key of its tile, and between the first and the last key that they see (sm100_work.cuh). Inside
// that rectangle rows differ only in what is stored.
//
// Pipeline: four warps drain and reduce (sm100_reduce.cuh); one elected lane of warp 0 also issues all TMA and MMA.
// Time runs down, n is the tile; its share is the weights of its columns and the keys that its rows see:
//
//     TMA             tensor core   warps 0-3
//     Q0, Q1, K       .             Tensor Memory, barriers, share 0, k_scale
//     .               MMA 0         share 1 on its way (registers)
//     Q2 -> buffer 0  .             s_full: drain S 0, meet; MMA 1 may go
//     .               MMA 1         share 1 -> shared; relu, weights, sums, store of tile 0; share 2 on its way
//     Q3 -> buffer 1  .             s_full: drain S 1, meet; MMA 2 may go ...
//
// Hand-overs:
//     k_full      TMA -> issuer: the K tile is in shared memory.
//     q_full[b]   TMA -> issuer: a token tile is in Q buffer b.
//     s_full      tcgen05.commit -> all: S is complete; so the MMA has read K and its Q buffer, which may go.
//     meet        all -> issuer: every warp has drained S (wait::ld), the stage may be overwritten;
//                 all -> all: tile n - 1's share has been read, tile n's is in place.
//     hull        all -> all, once a unit with rows where these see different keys: what each warp's see (bar.sync).
// The next unit of a launch with a limit of CTAs goes on with the same barriers, one phase further.
//
// Budget of a 128 x 128 tile (clocks per SM; docs/kernel-sm100.md): MMA 256; FMA pipe 192 (64 FFMA2, 16 FADD2, 16 FMUL2
// per warp), ALU 192 (96 FMNMX per warp); shared memory 50 KiB, 34 KiB with one token tile; Tensor Memory 128 columns.
#include "kernel/instr_descriptor.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/sm100_reduce.cuh"
#include "kernel/sm100_score_layout.h"
#include "kernel/sm100_work.cuh"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/tcgen05.cuh"

namespace lidx::sm100_score {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

// What the CTA has done so far; buffers and phases follow from it.
struct Progress {
    uint32_t turn = 0;    // token tiles: the next has buffers turn & 1, phase turn >> 1 of that q_full, turn of s_full
    uint32_t loads = 0;   // key tiles: the phase of k_full
};

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

// Warp 0. The K tile is one box, or as many as it has pages: a lane looks up a page each, then the issuer sends the
// boxes, all on k_full. Boxes without a key that rows see or of an illegal page go out of bounds: nothing is read,
// their bytes still arrive.
template <class T>
__device__ __forceinline__ void load_k_tile(const ScoreParams& p, const ptx::TensorMap* k_map, const Work& work,
                                            const Thread& self, typename T::SharedLayout& shared) {
    const int32_t box_slots = k_box_slots(p.block_table, p.page_size, kTileKeys);
    const int32_t boxes = p.block_table ? kTileKeys / box_slots : 1;
    const int32_t key = work.key_begin + static_cast<int32_t>(self.lane) * box_slots;
    KeyPlace place{kDeadPage, 0, 0};
    if (static_cast<int32_t>(self.lane) < boxes && key < work.keys.end && key + box_slots > work.keys.begin)
        place = find_key(p, work.request, key);
    ptx::bar_warp_sync(ptx::kFullMask);
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
__device__ __forceinline__ ptx::SharedAddr q_buffer(uint32_t turn, typename T::SharedLayout& shared) {
    return turn & 1 ? ptx::cvta_to_shared(shared.q1) : ptx::cvta_to_shared(shared.q0);
}

// Issuer. Rows of another request or beyond the last row come along (or as zeros) and are not stored.
template <class T>
__device__ __forceinline__ void load_q_tile(const ScoreParams& p, const ptx::TensorMap* q_map, const Work& work,
                                            int32_t n, uint32_t turn, typename T::SharedLayout& shared) {
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.q_full[turn & 1]);
    ptx::mbarrier_arrive_expect_tx(full, static_cast<uint32_t>(T::kColumns * p.depth));
    ptx::cp_async_bulk_tensor_2d(q_buffer<T>(turn, shared), q_map, 0, (work.rows.begin + n * T::kTokens) * T::kHeads,
                                 full);
}

// Issuer. S = K Q^T of a token tile as soon as its operands are there. Depth 64: two steps instead of four, over rows
// of 64 bytes.
template <class T>
__device__ __forceinline__ void multiply(const ScoreParams& p, ptx::TmemAddr s, uint32_t turn,
                                         typename T::SharedLayout& shared) {
    constexpr uint32_t kInstr = instr_descriptor({.m = kTileKeys, .n = T::kColumns});
    static_assert(mma_shape_fits(kTileKeys, T::kColumns));
    wait(ptx::cvta_to_shared(&shared.q_full[turn & 1]), {turn >> 1 & 1});
    ptx::tcgen05_fence_after_thread_sync();
    const bool whole = p.depth == kDepth;
    const uint64_t layout = whole ? smem_descriptor_k_major_128b(0) : smem_descriptor_k_major_64b(0);
    const uint64_t k = layout | smem_descriptor_address(ptx::cvta_to_shared(shared.k).value);
    const uint64_t q = layout | smem_descriptor_address(q_buffer<T>(turn, shared).value);
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        if (step < kDepthStep / kMmaK || whole)
            ptx::tcgen05_mma_kind_f8f6f4(s, smem_descriptor_advance(k, step * kMmaK),
                                         smem_descriptor_advance(q, step * kMmaK), kInstr, step > 0);
    ptx::tcgen05_commit_mbarrier_arrive_one(ptx::cvta_to_shared(&shared.s_full));
}

// Issuer, once.
template <class T>
__device__ __forceinline__ void initialise_barriers(typename T::SharedLayout& shared) {
    ptx::mbarrier_init(ptx::cvta_to_shared(&shared.k_full), 1);
    ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[0]), 1);
    ptx::mbarrier_init(ptx::cvta_to_shared(&shared.q_full[1]), 1);
    ptx::mbarrier_init(ptx::cvta_to_shared(&shared.s_full), 1);
    ptx::fence_mbarrier_init_release_cluster();
    ptx::fence_proxy_async_shared_cta();   // TMA completes on them through the async proxy
}

// Scores a unit that has something to score. All that an earlier unit of this CTA left in shared memory and in Tensor
// Memory has been read: its last MMA was waited for, and all drained before they last met.
template <class T>
__device__ __forceinline__ void score_unit(const ScoreParams& p, const ptx::TensorMap* k_map,
                                           const ptx::TensorMap* q_map, const Work& work, const Thread& self,
                                           Progress& progress, typename T::SharedLayout& shared) {
    if (self.warp == 0) {
        if (self.issuer()) {
            if (progress.turn == 0) initialise_barriers<T>(shared);
            load_q_tile<T>(p, q_map, work, work.tile_begin, progress.turn, shared);
            if (work.tile_begin + 1 < work.tile_end)
                load_q_tile<T>(p, q_map, work, work.tile_begin + 1, progress.turn + 1, shared);
        }
        ptx::bar_warp_sync(ptx::kFullMask);
        load_k_tile<T>(p, k_map, work, self, shared);
    }
    if (self.warp == 1 && progress.turn == 0) {
        ptx::tcgen05_alloc(ptx::cvta_to_shared(&shared.tmem_base), T::kTmemColumns);
        ptx::tcgen05_relinquish_alloc_permit();
    }
    OwnKey own = load_own_key(p, work, self);
    keep_share<T>(load_share<T>(p, work, work.tile_begin, self), progress.turn, self, shared);
    if (!own.live) {
        if (work.keys.has(own.key)) give_up_key(p, work, own.key);
        own.key = kNoKey;
    }
    meet();   // barriers, Tensor Memory and the first tile's shares are there
    ptx::griddepcontrol_launch_dependents();   // not before: a dependent CTA must not take our Tensor Memory
    const ptx::TmemAddr s{ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.tmem_base)) + kTmemColumnS};
    if (self.issuer()) {
        wait(ptx::cvta_to_shared(&shared.k_full), {progress.loads & 1});
        multiply<T>(p, s, progress.turn, shared);
    }
    ++progress.loads;

    uint8_t* cells = first_cells<T>(p, work, own);
    for (int32_t n = work.tile_begin; n < work.tile_end; ++n) {
        const uint32_t turn = progress.turn++;
        const Share next = load_share<T>(p, work, n + 1, self);
        wait(ptx::cvta_to_shared(&shared.s_full), {turn & 1});
        ptx::tcgen05_fence_after_thread_sync();
        if (n + 2 < work.tile_end && self.issuer()) load_q_tile<T>(p, q_map, work, n + 2, turn + 2, shared);
        float row[T::kColumns / 32][32];
        drain<T>(s.lane(self.warp * 32), row);
        meet();   // S may be overwritten; this tile's shares are in place, the last one's have been read
        if (n + 1 < work.tile_end) {
            if (self.issuer()) multiply<T>(p, s, turn + 1, shared);
            keep_share<T>(next, turn + 1, self, shared);
        }
        float sum[T::kTokens];
        reduce<T>(row, turn, shared, sum);
        store_tile<T>(p, turn, own, cells, sum, shared);
    }
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::SharedLayout*>(dynamic_shared);
    const uint32_t index = ptx::tid_x();
    if (index == 0) {   // the maps come in while the lengths do
        ptx::prefetch_tensormap(&q_map);
        ptx::prefetch_tensormap(&k_map);
    }
    ptx::griddepcontrol_wait();   // nothing of the caller's is read or written before, and no Tensor Memory taken
    const Thread self{index, ptx::shfl_sync_idx(index / 32, 0, ptx::kFullMask), index % 32};
    Progress progress;
    Units units = find_units(p);
    uint32_t hulls = 0;
    do {
        const Work work = find_work<T>(p, units.unit(p), self, hulls, shared);
        fill_columns(p, work, self);
        if (!work.empty()) score_unit<T>(p, &k_map, &q_map, work, self, progress, shared);
    } while (units.next());
    if (progress.turn == 0) return;
    ptx::bar_warp_sync(ptx::kFullMask);   // all have drained: they met after the last drain
    if (self.warp == 1)
        ptx::tcgen05_dealloc({ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.tmem_base))}, T::kTmemColumns);
}

}  // namespace
}  // namespace lidx::sm100_score

#define LIDX_SM100_SCORE_ENTRY(symbol, heads, depth, tokens)                                                           \
    extern "C" __global__ void __launch_bounds__(lidx::sm100_score::kThreads,                                          \
                                                 lidx::sm100_score::Tile<heads, tokens>::kCtas) symbol(                \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm100_score::kDepth);                                                             \
        lidx::sm100_score::score<lidx::sm100_score::Tile<heads, tokens>>(k_map, q_map, p);                             \
    }
LIDX_SM100_SCORE_VARIANTS(LIDX_SM100_SCORE_ENTRY)

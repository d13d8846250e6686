// SPDX-License-Identifier: Apache-2.0
// FP8 indexer scores on the fifth-generation tensor core for many tokens, sm_100f: depth 128, heads 64 and 32, paged or
// contiguous K, plain work (kernel/variants.h).
//
//     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
//
// One persistent CTA per multiprocessor. S^T = K Q^T: operand A a tile of 128 keys [128, 128 bytes], operand B a block
// of tokens [256 token-head pairs, 128 bytes], two by two, which take turns in each head. S lies in one of two Tensor
// Memory stages, a key per lane. Two warpgroups reduce (sm100_wide_reduce.cuh), half of the columns each, whose weights
// stay in registers for as long as the block does: a thread has one key, and its sums over the heads never leave its
// registers.
//
// Arithmetic: bit for bit that of sm100_score.cu. Column pairs 0, 3, 6, ... of a warpgroup's 64 go through the FMA pipe
// with half the weight: fma(w / 2, x + |x|, sum) is fma(w, relu(x), sum) to the bit, since x + |x| is exactly 2 relu(x)
// and w / 2 exact, too, but for odd multiples of 2^-149 below 2^-125. A block with a weight that small goes all through
// the ALU, where relu is max.NaN(x, +0).
//
// Pipeline: time runs down, n is the tile.
//
//     warps 8, 9: K       warp 10: Q, weights   warp 11: MMA             warps 0-3, 4-7
//     K 0 -> stage 0      block 0 -> buffer 0   Tensor Memory            share of the work
//     K 1 -> stage 1      block 1 -> buffer 1   q_full, k_full: MMA 0    q_full: weights -> registers
//     ...                 .                     k_full: MMA 1            s_full 0: reduce S 0; s_empty 0; store
//     K 8 waits k_empty   .                     s_empty 0: k_empty 0;    s_full 1: reduce S 1; s_empty 1; store
//     K 8 -> stage 0      .                     MMA 2                    ...
//     ...                 block 2 -> buffer 0   q_full: next block       last tile: q_empty; next block's weights
//
// Hand-overs:
//     k_full[s]   TMA, cp.async -> MMA's lane: a key tile, its scales and which of its keys live are there.
//     q_full[b]   TMA, cp.async, items' lane -> MMA's warp, who reduces: a block's Q, weights, rows and what they see.
//     s_full[t]   tcgen05.commit -> who reduces: S of a tile is complete; MMA's lane -> them: what k_full handed over.
//     s_empty[t]  a warp that reduces, each -> MMA's warp: it has S in registers, and read the tile's scales.
//     k_empty[s]  MMA's lane -> loading warps, when all have drained S, which the MMA had to be complete for.
//     q_empty[b]  who reduces, behind the block's last S, for which MMA's lane has read Q and the item -> items' warp.
//
// Budget of a tile (clocks per SM; docs/kernel-sm100.md): MMA 512; by the SASS of 64 heads FMA pipe 354, ALU 354, issue
// 401. Shared memory 203 KiB; Tensor Memory all 512 columns.
#include "kernel/instr_descriptor.h"
#include "kernel/problem.h"
#include "kernel/sm100_wide_layout.h"
#include "kernel/sm100_wide_reduce.cuh"
#include "kernel/sm90_item.cuh"
#include "kernel/sm90_loader.cuh"
#include "kernel/sm90_walk.cuh"
#include "kernel/smem_descriptor.h"
#include "kernel/variants.h"
#include "ptx/bulk_tensor.cuh"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "ptx/tcgen05.cuh"
#include "ptx/wgmma.cuh"

namespace lidx::sm100_wide {

extern __shared__ __align__(kSwizzleAtomBytes) uint8_t dynamic_shared[];

namespace {

// Of who reduces and the MMA's warp: barriers and Tensor Memory are there.
constexpr uint32_t kTmemBarrier = 1;

using sm90_score::load_all;
using sm90_score::Loader;
using sm90_score::make_loader;
using sm90_score::Stage;
using sm90_score::stage_at;
using sm90_score::wait;

// ---- the MMA's warp

// S = K Q^T of the tile at `ring`, when its keys are there and both warpgroups have drained the tile two before, whose
// keys are nobody's then.
template <class T>
__device__ __forceinline__ void multiply(typename T::Shared& shared, uint32_t tmem, uint64_t q, uint32_t ring) {
    constexpr uint32_t kInstr = instr_descriptor({.m = kTileKeys, .n = kColumns});
    static_assert(mma_shape_fits(kTileKeys, kColumns));
    const Stage stage = stage_at<T>(ring);
    const uint32_t half = ring % kScoreStages;
    wait(ptx::cvta_to_shared(&shared.k_full[stage.index]), stage.parity);
    wait(ptx::cvta_to_shared(&shared.s_empty[half]), ring / kScoreStages % 2 ^ 1);
    ptx::tcgen05_fence_after_thread_sync();
    ptx::bar_warp_sync(ptx::kFullMask);
    if (!ptx::elect_sync(ptx::kFullMask)) return;
    const uint64_t k = smem_descriptor_k_major_128b(0) |
                       smem_descriptor_address(ptx::cvta_to_shared(shared.k[stage.index]).value);
    const ptx::TmemAddr s = ptx::TmemAddr{tmem}.column(half * kColumns);
#pragma unroll
    for (int step = 0; step < kDepth / kMmaK; ++step)
        ptx::tcgen05_mma_kind_f8f6f4(s, smem_descriptor_advance(k, step * kMmaK),
                                     smem_descriptor_advance(q, step * kMmaK), kInstr, step > 0);
    const ptx::SharedAddr full = ptx::cvta_to_shared(&shared.s_full[half]);
    ptx::tcgen05_commit_mbarrier_arrive_one(full);
    ptx::mbarrier_arrive(full);
    if (ring >= kScoreStages)
        ptx::mbarrier_arrive(ptx::cvta_to_shared(&shared.k_empty[(ring - kScoreStages) % kStages]));
}

template <class T>
__device__ __forceinline__ void multiply_all(typename T::Shared& shared, uint32_t tmem) {
    uint32_t ring = 0;
#pragma unroll 1
    for (uint32_t items = 0;; ++items) {
        const uint32_t buffer = items % kQBuffers;
        wait(ptx::cvta_to_shared(&shared.q_full[buffer]), items / kQBuffers % 2);
        const ptx::U32x4 item = ptx::ld_shared_v4_u32(ptx::cvta_to_shared(&shared.item[buffer]));
        if (item.w == 0) break;
        const uint64_t q = smem_descriptor_k_major_128b(0) |
                           smem_descriptor_address(ptx::cvta_to_shared(shared.q[buffer * (T::kBlockTokens / 2)]).value);
#pragma unroll 1
        for (const uint32_t end = uniform(item.x + item.y); ring < end; ++ring) multiply<T>(shared, tmem, q, ring);
    }
    // Tensor Memory goes when the last tile is drained, and so all before it.
    ++ring;
    wait(ptx::cvta_to_shared(&shared.s_empty[ring % kScoreStages]), ring / kScoreStages % 2 ^ 1);
}

// ----

// The mbarriers of S, by one thread. A barrier of the CTA must follow.
template <class T>
__device__ __forceinline__ void begin_scores(typename T::Shared& shared) {
#pragma unroll
    for (int half = 0; half < kScoreStages; ++half) {
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.s_full[half]), kScoresFullArrivals);
        ptx::mbarrier_init(ptx::cvta_to_shared(&shared.s_empty[half]), kScoresEmptyArrivals);
    }
    ptx::fence_mbarrier_init_release_cluster();
    ptx::fence_proxy_async_shared_cta();
}

template <class T>
__device__ __forceinline__ void score(const ptx::TensorMap& k_map, const ptx::TensorMap& q_map, const ScoreParams& p) {
    auto& shared = *reinterpret_cast<typename T::Shared*>(dynamic_shared);
    const uint32_t thread = ptx::tid_x();
    sm90_score::begin_hand_overs<T>(shared, k_map, q_map, kStageEmptyArrivals, kQEmptyArrivals, thread);
    if (thread == 32) begin_scores<T>(shared);
    ptx::griddepcontrol_wait();   // what the kernel before wrote is read from here on, and Tensor Memory taken
    const uint32_t warp = ptx::shfl_sync_idx(thread / 32, 0, ptx::kFullMask);
    const ptx::SharedAddr tmem_base = ptx::cvta_to_shared(&shared.tmem_base);
    if (warp < 4 * kGroups) {
        sm90_score::find_start<T>(p, shared, thread);
        ptx::setmaxnreg_inc<kReducerRegisters>();
        ptx::bar_sync(kTmemBarrier, 128 * kGroups + 32);
        reduce_all<T>(p, shared, uniform(ptx::ld_shared_u32(tmem_base)), warp, thread);
        return;
    }
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (warp != 4 * kGroups + kMmaWarp) {
        Loader loader = make_loader<T>(p, k_map, q_map, warp - 4 * kGroups, thread % 32);
        load_all<T>(p, loader, shared);
        return;
    }
    ptx::tcgen05_alloc(tmem_base, kTmemColumns);
    ptx::tcgen05_relinquish_alloc_permit();
    ptx::griddepcontrol_launch_dependents();   // not before: a dependent CTA must not take our Tensor Memory
    ptx::bar_sync(kTmemBarrier, 128 * kGroups + 32);
    const uint32_t tmem = uniform(ptx::ld_shared_u32(tmem_base));
    multiply_all<T>(shared, tmem);
    ptx::bar_warp_sync(ptx::kFullMask);
    ptx::tcgen05_dealloc({tmem}, kTmemColumns);
}

}  // namespace
}  // namespace lidx::sm100_wide

#define LIDX_SM100_WIDE_ENTRY(symbol, heads, depth, tokens)                                                            \
    extern "C" __global__ void __launch_bounds__(lidx::sm100_wide::kThreads, 1) symbol(                                \
        const __grid_constant__ lidx::ptx::TensorMap k_map, const __grid_constant__ lidx::ptx::TensorMap q_map,        \
        const __grid_constant__ lidx::ScoreParams p) {                                                                 \
        static_assert(depth == lidx::sm100_wide::kDepth);                                                              \
        static_assert(tokens == lidx::sm100_wide::Tile<heads>::kBlockTokens);                                          \
        lidx::sm100_wide::score<lidx::sm100_wide::Tile<heads>>(k_map, q_map, p);                                       \
    }
LIDX_SM100_WIDE_VARIANTS(LIDX_SM100_WIDE_ENTRY)

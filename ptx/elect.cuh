// SPDX-License-Identifier: Apache-2.0
// Warp-wide election and exchange, and the CTA barrier.
#pragma once
#include <cstdint>

#include "ptx/types.h"

namespace lidx::ptx {

inline constexpr uint32_t kFullMask = 0xffffffffu;

// elect.sync d|p, membermask;                   PTX ISA 8.0, sm_90 (9.7.13.14)
// The same lane is elected for the same mask every time.
LIDX_PTX bool elect_sync(uint32_t membermask) {
    uint32_t elected;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, %1;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(elected)
                 : "r"(membermask));
    return elected != 0;
}

// shfl.sync.idx.b32 d, a, b, c, membermask;     PTX ISA 6.0, sm_30 (9.7.9.6)
// Lane `lane` of the whole warp gives its a to all; c = 0x1f: no segments.
LIDX_PTX uint32_t shfl_sync_idx(uint32_t a, uint32_t lane, uint32_t membermask) {
    uint32_t d;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, %3;" : "=r"(d) : "r"(a), "r"(lane), "r"(membermask));
    return d;
}

// shfl.sync.up.b32 d, a, b, c, membermask;      PTX ISA 6.0, sm_30 (9.7.9.6)
// From the lane `delta` below; the lowest lanes get their own a. c = 0: no segments.
LIDX_PTX uint32_t shfl_sync_up(uint32_t a, uint32_t delta, uint32_t membermask) {
    uint32_t d;
    asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, %3;" : "=r"(d) : "r"(a), "r"(delta), "r"(membermask));
    return d;
}

// shfl.sync.bfly.b32 d, a, b, c, membermask;    PTX ISA 6.0, sm_30 (9.7.9.6)
// From the lane whose number differs in the bits of lane_mask.
LIDX_PTX float shfl_sync_bfly(float a, uint32_t lane_mask, uint32_t membermask) {
    float d;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, %3;" : "=f"(d) : "f"(a), "r"(lane_mask), "r"(membermask));
    return d;
}
LIDX_PTX uint32_t shfl_sync_bfly(uint32_t a, uint32_t lane_mask, uint32_t membermask) {
    uint32_t d;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, %3;" : "=r"(d) : "r"(a), "r"(lane_mask), "r"(membermask));
    return d;
}

// redux.sync.op.type dst, src, membermask;  .op = { .min, .max }, .type = { .s32 }      PTX ISA 7.0, sm_80 (9.7.13.12)
LIDX_PTX int32_t redux_sync_min_s32(int32_t src, uint32_t membermask) {
    int32_t d;
    asm volatile("redux.sync.min.s32 %0, %1, %2;" : "=r"(d) : "r"(src), "r"(membermask));
    return d;
}
LIDX_PTX int32_t redux_sync_max_s32(int32_t src, uint32_t membermask) {
    int32_t d;
    asm volatile("redux.sync.max.s32 %0, %1, %2;" : "=r"(d) : "r"(src), "r"(membermask));
    return d;
}

// vote.sync.ballot.b32 d, {!}a, membermask;     PTX ISA 6.0, sm_30 (9.7.13.9)
// Bit = lane.
LIDX_PTX uint32_t vote_sync_ballot(bool a, uint32_t membermask) {
    uint32_t d;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, %2;\n\t}"
                 : "=r"(d)
                 : "r"(static_cast<uint32_t>(a)), "r"(membermask));
    return d;
}

// bar.warp.sync membermask;                     PTX ISA 6.0, sm_30 (9.7.13.2)
LIDX_PTX void bar_warp_sync(uint32_t membermask) { asm volatile("bar.warp.sync %0;" ::"r"(membermask) : "memory"); }

// barrier{.cta}.sync{.aligned} a{, b};  bar.sync a is barrier.cta.sync.aligned a;
//                                               PTX ISA 1.0, all targets (9.7.13.1)
// All threads of the CTA, barrier 0.
LIDX_PTX void bar_sync() { asm volatile("bar.sync 0;" ::: "memory"); }
// Barrier a, for b threads.
LIDX_PTX void bar_sync(uint32_t a, uint32_t b) { asm volatile("bar.sync %0, %1;" ::"r"(a), "r"(b) : "memory"); }
// barrier{.cta}.arrive a, b; bar.arrive is its .aligned form. Does not wait.    PTX ISA 2.0, sm_20 (9.7.13.1)
LIDX_PTX void bar_arrive(uint32_t a, uint32_t b) { asm volatile("bar.arrive %0, %1;" ::"r"(a), "r"(b) : "memory"); }

}  // namespace lidx::ptx

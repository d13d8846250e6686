// SPDX-License-Identifier: Apache-2.0
// Loops over the 32 lanes of a warp, for the element-wise handlers. Everything has internal linkage: files that include
// this are compiled for several instruction sets, and no copy may leak from one into another.
#pragma once
#include <bit>
#include <cstdint>

#include "isa.h"
#include "warp.h"

namespace ptxemu {
namespace {

#define LIDX_LANES [[gnu::always_inline]] inline

alignas(64) constexpr uint32_t kLaneBit[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

template <class T>
LIDX_LANES void merge_lanes(T* d, const T* value, uint32_t mask) {
    for (int l = 0; l < kLanes; ++l) d[l] = mask & kLaneBit[l] ? value[l] : d[l];
}

// D, A, B, C: uint32_t or uint64_t, the storage of slots 0 (result) and 1.. (sources). A destination may be one of the
// sources: lane l of it is written after lane l was read.
template <class D, class A, class F>
LIDX_LANES bool lanes1(Exec& x, const Insn& in, uint32_t mask, F f) {
    D* d = x.at<D>(in.slot[0]);
    const A* a = x.at<A>(in.slot[1]);
    if (mask == kFullMask) {
#pragma GCC ivdep
        for (int l = 0; l < kLanes; ++l) d[l] = f(a[l]);
    } else {
        D t[kLanes];
        for (int l = 0; l < kLanes; ++l) t[l] = f(a[l]);
        merge_lanes(d, t, mask);
    }
    return true;
}
template <class D, class A, class B, class F>
LIDX_LANES bool lanes2(Exec& x, const Insn& in, uint32_t mask, F f) {
    D* d = x.at<D>(in.slot[0]);
    const A* a = x.at<A>(in.slot[1]);
    const B* b = x.at<B>(in.slot[2]);
    if (mask == kFullMask) {
#pragma GCC ivdep
        for (int l = 0; l < kLanes; ++l) d[l] = f(a[l], b[l]);
    } else {
        D t[kLanes];
        for (int l = 0; l < kLanes; ++l) t[l] = f(a[l], b[l]);
        merge_lanes(d, t, mask);
    }
    return true;
}
template <class D, class A, class B, class C, class F>
LIDX_LANES bool lanes3(Exec& x, const Insn& in, uint32_t mask, F f) {
    D* d = x.at<D>(in.slot[0]);
    const A* a = x.at<A>(in.slot[1]);
    const B* b = x.at<B>(in.slot[2]);
    const C* c = x.at<C>(in.slot[3]);
    if (mask == kFullMask) {
#pragma GCC ivdep
        for (int l = 0; l < kLanes; ++l) d[l] = f(a[l], b[l], c[l]);
    } else {
        D t[kLanes];
        for (int l = 0; l < kLanes; ++l) t[l] = f(a[l], b[l], c[l]);
        merge_lanes(d, t, mask);
    }
    return true;
}

// Mask of the lanes for which f(lane) holds.
template <class F>
LIDX_LANES uint32_t lane_mask(F f) {
    uint32_t m = 0;
    for (int l = 0; l < kLanes; ++l) m |= f(l) ? kLaneBit[l] : 0u;
    return m;
}

using u16 = uint16_t;
using s16 = int16_t;
using u32 = uint32_t;
using s32 = int32_t;
using u64 = uint64_t;
using s64 = int64_t;

// Handlers of one expression. D, A ...: storage types; the lambda's parameters are called a, b, c.
#define LIDX_OP1(D, A, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { return lanes1<D, A>(x, in, m, [](A a) -> D { __VA_ARGS__ }); }
#define LIDX_OP2(D, A, B, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { return lanes2<D, A, B>(x, in, m, [](A a, B b) -> D { __VA_ARGS__ }); }
#define LIDX_OP3(D, A, B, C, ...) \
    [](Exec& x, const Insn& in, uint32_t m) { \
        return lanes3<D, A, B, C>(x, in, m, [](A a, B b, C c) -> D { __VA_ARGS__ }); \
    }

}   // namespace
}   // namespace ptxemu

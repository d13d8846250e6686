// SPDX-License-Identifier: Apache-2.0
// Nominal clocks: what the trace draws. Throughputs that were published or measured, and latencies that are round
// figures; no clock of a real machine. A trace shows which part waits for which and where the throughput bound lies,
// not how long a kernel takes.
#pragma once
#include <algorithm>

namespace ptxemu::nominal {

// tcgen05.mma, clocks between two instructions (B200, E4M3, public microbenchmarks by SemiAnalysis; every kind takes 32
// bytes of K per instruction, so the others are taken to be equal). N / 2 is the tensor core's, 128 bytes of shared
// memory a clock that of the operands: (M + N) * 32 / 128 with both there, which is what N < 128 meets.
//   measured, M = 128: N = 64 48, 80 52, 96 56, 112 60, 128 64, 256 128; M = 64 and A in Tensor Memory: N / 2
//   cta_group::2, M = 256: 43, 45.4, 49.4, 56, 64, 128; M = 128: 25, 27, 29, 30, 32, 64
constexpr double mma_interval(int m, int n, bool a_in_tmem, int cta_group) {
    if (cta_group == 2) return std::max(m == 256 ? n / 2.0 : n / 4.0, (m / 2 + n / 2) * 32 / 128.0);
    return a_in_tmem || m == 64 ? n / 2.0 : std::max(n / 2.0, (m + n) * 32 / 128.0);
}
// From issue to completion of one, the same source: N = 128 200 clocks, N = 256 264 (M = 128); 184, 248 (M = 64); 168,
// 232 (A in Tensor Memory); 234, 298 (M = 256 of a pair).
constexpr double mma_latency(int m, int n, bool a_in_tmem, int cta_group) {
    return n / 2.0 + (cta_group == 2 ? 170 : a_in_tmem ? 104 : m == 64 ? 120 : 136);
}

// wgmma m64nNk(32 bytes): 8192 dense 8-bit FLOP a clock and multiprocessor, a quarter in each sub-partition; from
// commit to the end of the wait a lone warpgroup saw 220 clocks more than the arithmetic (H200).
constexpr double wgmma_interval(int n) { return n / 2.0; }
inline constexpr double kWgmmaLatency = 220;

// mma.sync m16n8k(32 bytes) of one warp: the same rate.
inline constexpr double kMmaSyncInterval = 16;

// Copies into shared memory: 64 bytes a clock and multiprocessor is about what L2 gives all of them at once (B200); the
// latency is a round figure for a hit in L2.
inline constexpr double kCopyBytesPerClock = 64;
inline constexpr double kCopyLatency = 600;
inline constexpr double kGlobalLatency = 600;

// tcgen05.ld and st: the register file's write port, 128 bytes a clock and sub-partition. Public measurements
// contradict each other; the lowest is 57 a warp.
inline constexpr double kTmemBytesPerClock = 128;

// Clocks of a sub-partition's pipe for one warp instruction (B300 figures of ademeure/QuickRunCUDA, taken for the
// family; H200: FMNMX 63 lanes a clock and multiprocessor, FFMA 124). Issue: one instruction a clock.
inline constexpr double kFma = 1;         // 128 lanes a clock and multiprocessor
inline constexpr double kFmaPacked = 2;   // f32x2
inline constexpr double kAlu = 2;         // logic, integer add, comparison, min, max, selection, conversion
inline constexpr double kMufu = 8;        // ex2, rcp, sqrt ...: 16 lanes a clock and multiprocessor

}   // namespace ptxemu::nominal

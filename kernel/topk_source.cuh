// SPDX-License-Identifier: Apache-2.0
// What a CTA selects from: the scores of a row or slice, or the keys that the slices of a row left; and the selection
// itself: in registers, or of more than kCapacity scores by a sample, one pass, and the candidates that it keeps.
#pragma once
#include <climits>
#include <cstdint>

#include "kernel/topk_layout.h"
#include "kernel/topk_select.cuh"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// A score is loaded as the bits of an fp32.
struct Fp32 {
    static constexpr int kBytes = 4;
    __device__ static __forceinline__ uint32_t load(bool p, const uint8_t* at, uint32_t otherwise) {
        return ptx::ld_global_u32(p, at, otherwise);
    }
    __device__ static __forceinline__ void store_key(uint8_t* at, uint32_t key) { ptx::st_global_u32(at, key); }
    __device__ static __forceinline__ void load4(bool p, const uint8_t* at, float (&x)[4]) {
        const ptx::F32x4 four = ptx::ld_global_v4_f32(p, at);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    }
};

struct Bf16 {
    static constexpr int kBytes = 2;
    __device__ static __forceinline__ uint32_t load(bool p, const uint8_t* at, uint32_t otherwise) {
        return static_cast<uint32_t>(ptx::ld_global_u16(p, at, static_cast<uint16_t>(otherwise >> 16))) << 16;
    }
    // The upper half tells all keys of bf16 scores apart.
    __device__ static __forceinline__ void store_key(uint8_t* at, uint32_t key) {
        ptx::st_global_u16(at, static_cast<uint16_t>(key >> 16));
    }
    __device__ static __forceinline__ void load4(bool p, const uint8_t* at, float (&x)[4]) {
        const ptx::U32x2 two = ptx::ld_global_v2_u32(p, at);
        x[0] = __uint_as_float(two.x << 16), x[1] = __uint_as_float(two.x & 0xffff0000u);
        x[2] = __uint_as_float(two.y << 16), x[3] = __uint_as_float(two.y & 0xffff0000u);
    }
};

// What is selected from: the scores of a CTA's share of a row, or the keys that all its CTAs left.
template <class Score>
struct Source {
    const uint8_t* base;
    int32_t keys;
    bool lists;                        // keys instead of scores
    // Where i is not one of its keys, what key_of() makes kNanKey of.
    __device__ __forceinline__ uint32_t load(int32_t i) const {
        return Score::load(static_cast<uint32_t>(i) < static_cast<uint32_t>(keys), base + int64_t{i} * Score::kBytes,
                           lists ? kNanKey : kNanBits);
    }
    __device__ __forceinline__ uint32_t key_of(uint32_t raw) const { return lists ? raw : fast_key(raw); }
};

// ---- more than kCapacity scores: sample, one pass, candidates

// Which of the sample's keys stands for the k-th of n: four standard deviations of such a count behind its due place.
__device__ __forceinline__ int32_t sample_rank(int32_t k, int32_t n) {
    const float expected = __int2float_rn(k) * (kSampleKeys / __int2float_rn(n));
    return static_cast<int32_t>(expected + 4.0f * __fsqrt_rn(expected)) + 8;
}

// 16 scores of a lane: four groups of four consecutive ones, 4 * kThreads apart, the first from `first` on.
template <class Score>
struct Groups {
    float score[4][4];
    __device__ __forceinline__ static bool whole(const Source<Score>& source, int32_t i) {
        return static_cast<uint32_t>(i) <= static_cast<uint32_t>(source.keys - 4);   // there are more than four keys
    }
    __device__ __forceinline__ void load(const Source<Score>& source, int32_t first) {
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            const int32_t i = first + u * 4 * kThreads;
            Score::load4(whole(source, i), source.base + int64_t{i} * Score::kBytes, score[u]);
        }
    }
};

// What filter() looks for: scores of at least `above` become candidates, those equal to `plateau` are marked.
struct Wanted {
    float above;
    float plateau;   // NaN: none
};

// A bit for each of a lane's scores that is a candidate; plateau scores are marked and counted.
template <class Score>
__device__ __forceinline__ uint32_t sift(const Groups<Score>& groups, const Source<Score>& source, const Wanted& wanted,
                                         int32_t first, const Maps& maps, uint32_t& ties) {
    uint32_t above = 0;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        const bool whole = Groups<Score>::whole(source, first + u * 4 * kThreads);
#pragma unroll
        for (int c = 0; c < 4; ++c)
            if (whole && groups.score[u][c] >= wanted.above) above |= 1u << (4 * u + c);
    }
    if (wanted.plateau != wanted.plateau) return above;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int32_t bit = first + u * 4 * kThreads + maps.shift;
        uint32_t equal = 0;
#pragma unroll
        for (int c = 0; c < 4; ++c) equal |= static_cast<uint32_t>(groups.score[u][c] == wanted.plateau) << c;
        if (equal == 0 || !Groups<Score>::whole(source, first + u * 4 * kThreads)) continue;
        ptx::red_shared_or_b32(maps.equal + bit / 32 * 4, equal << bit % 32);
        ties += static_cast<uint32_t>(__popc(equal));
    }
    return above;
}

// Appends a bit of the map for every bit of `found`, whose bit 4 u + c is `first_bit` + 4 u kThreads + c. Whole warp.
__device__ __forceinline__ void append(uint32_t found, int32_t first_bit, const Thread& self, SharedLayout& shared) {
    const auto count = static_cast<uint32_t>(__popc(found));
    const uint32_t inclusive = warp_inclusive_sum(count, self.lane());
    uint32_t at = 0;
    if (self.lane() == 31 && inclusive != 0)
        at = ptx::atom_shared_add_u32(ptx::cvta_to_shared(&shared.stored), inclusive);
    at = ptx::shfl_sync_idx(at, 31, ptx::kFullMask) + inclusive - count;
#pragma unroll 1
    for (; found != 0 && at < kCapacity; found &= found - 1, ++at) {
        const int32_t place = __ffs(static_cast<int>(found)) - 1;
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.candidate[at]),
                           static_cast<uint32_t>(first_bit + place / 4 * 4 * kThreads + place % 4));
    }
}

// One pass over a source: candidates are kept as bits of the map, plateau scores marked in maps.equal.
template <class Score>
__device__ __forceinline__ void filter(const Source<Score>& source, const Wanted& wanted, const Maps& maps,
                                       const Thread& self, SharedLayout& shared) {
    constexpr int32_t kStep = 16 * kThreads;
    const int32_t end = source.keys + maps.shift;   // groups lie on four's alignment
    uint32_t ties = 0;
    int32_t bit = 4 * static_cast<int32_t>(self.index);
#pragma unroll 1
    for (int32_t base = 0; base < end; base += kStep, bit += kStep) {
        Groups<Score> groups;
        groups.load(source, bit - maps.shift);
        append(sift(groups, source, wanted, bit - maps.shift, maps, ties), bit, self, shared);
    }
    // The groups at the ends that lack some of their four: lanes 0 to 3 and 4 to 7 of warp 0, a key each.
    if (self.warp() == 0) {
        const int32_t group = self.lane() < 4 ? 0 : end / 4 * 4;
        const int32_t i = group + static_cast<int32_t>(self.lane() % 4) - maps.shift;
        const bool lacks = self.lane() < 4 ? maps.shift != 0 : self.lane() < 8;
        const float score = __uint_as_float(source.load(i));
        const bool exists = lacks && static_cast<uint32_t>(i) < static_cast<uint32_t>(source.keys);
        append(exists && score >= wanted.above, i + maps.shift, self, shared);
        if (exists && score == wanted.plateau) {
            set_bit(maps.equal, i + maps.shift);
            ++ties;
        }
    }
    ties = ptx::redux_sync_add_u32(ties, ptx::kFullMask);
    if (self.lane() == 0 && ties != 0) ptx::red_shared_add_u32(ptx::cvta_to_shared(&shared.ties), ties);
}

template <class Score>
__device__ __forceinline__ void load_all(const Source<Score>& source, const Thread& self,
                                         uint32_t (&keys)[kKeysPerThread]) {
    const auto first = static_cast<int32_t>(self.index);
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) keys[j] = source.load(first + j * kThreads);
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) keys[j] = source.key_of(keys[j]);
}

// Its lane's of 128 pieces of 32 keys.
template <class Score>
__device__ __forceinline__ void load_sample(const Source<Score>& source, const Thread& self,
                                            uint32_t (&keys)[kKeysPerThread]) {
    const int32_t piece = source.keys / (kSampleKeys / 32);
    const auto place = [&](int j) {
        return piece * (j * kWarps + static_cast<int32_t>(self.warp())) + static_cast<int32_t>(self.lane());
    };
#pragma unroll
    for (int j = 0; j < kSampleKeys / kThreads; ++j) keys[j] = source.load(place(j));
#pragma unroll
    for (int j = 0; j < kSampleKeys / kThreads; ++j) keys[j] = fast_key(keys[j]);
}

// Up to -inf: no score to compare with.
__device__ __forceinline__ bool is_score(const Threshold& sampled) {
    return sampled.key + 1 > ordered_key(0xff800000u);
}

// Keeps what a sample's threshold lets through; all threads. Afterwards shared.stored, which may be above kCapacity,
// and shared.ties count.
template <class Score>
__device__ __forceinline__ void keep_candidates(const Source<Score>& source, const Threshold& sampled, Maps& maps,
                                                const Thread& self, SharedLayout& shared) {
    maps.words = words_of(source.keys + 3);
    maps.shift = static_cast<int32_t>(reinterpret_cast<uintptr_t>(source.base) / Score::kBytes % 4);
    clear(maps.above, maps.words, self);
    clear(maps.equal, maps.words, self);
    if (self.index == 0) {
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.stored), 0);
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.ties), 0);
    }
    ptx::bar_sync();
    const Wanted wanted{__uint_as_float(score_bits(sampled.key + 1)),
                        __uint_as_float(sampled.ties > 0 ? score_bits(sampled.key) : 0x7fffffffu)};
    filter(source, wanted, maps, self, shared);
    ptx::bar_sync();
}

template <class Score>
__device__ __forceinline__ void load_candidates(const Source<Score>& source, int32_t count, const Maps& maps,
                                                const Thread& self, const SharedLayout& shared,
                                                uint32_t (&keys)[kKeysPerThread]) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) {
        const int32_t at = j * kThreads + static_cast<int32_t>(self.index);
        const uint32_t bit = ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.candidate[at]));
        keys[j] = source.load(at < count ? static_cast<int32_t>(bit) - maps.shift : -1);
    }
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) keys[j] = fast_key(keys[j]);
}

__device__ __forceinline__ void mark_candidates(const uint32_t (&keys)[kKeysPerThread], int32_t count,
                                                const Threshold& threshold, const Maps& maps, const Thread& self,
                                                const SharedLayout& shared) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) {
        const int32_t i = j * kThreads + static_cast<int32_t>(self.index);
        if (i >= count || keys[j] < threshold.key || (keys[j] == threshold.key && threshold.ties == 0)) continue;
        const auto bit = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.candidate[i])));
        set_bit(keys[j] > threshold.key ? maps.above : maps.equal, bit);
    }
}

// Chooses k of a source's more than k keys: sets the maps and returns the ties to take.
template <class Score>
__device__ __forceinline__ int32_t select_keys(const Source<Score>& source, int32_t k, Maps& maps, const Thread& self,
                                               SharedLayout& shared) {
    bool sampling = source.keys > kCapacity;
    int32_t rank = sampling ? sample_rank(k, source.keys) : k;
    bool streamed = sampling && (source.lists || rank >= kSampleKeys);
    int32_t count = sampling ? kSampleKeys : source.keys;
    uint32_t keys[kKeysPerThread] = {};   // kNanKey
    if (sampling) load_sample(source, self, keys);
    else load_all(source, self, keys);
    maps.words = words_of(source.keys);
    maps.shift = 0;

    bool candidates = false;
    Threshold threshold{0, 0};
#pragma unroll 1
    while (!streamed) {
        threshold = find_threshold(keys, rank, sampling ? rank / kSampleSlack : 0, self, shared);
        if (!sampling) break;
        sampling = false;
        candidates = true;
        streamed = !is_score(threshold);
        if (streamed) break;
        keep_candidates(source, threshold, maps, self, shared);
        count = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.stored)));
        const auto equal = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.ties)));
        streamed = count > kCapacity || count + equal < k;
        if (streamed) break;
        load_candidates(source, count, maps, self, shared, keys);
        if (count < k) {   // all that were kept, and the first of the equal ones
            threshold = {kNanKey, k - count};
            break;
        }
        rank = k;
        clear(maps.equal, maps.words, self);   // the marks of the sample's score
    }
    if (streamed) {
        maps.words = words_of(source.keys);
        maps.shift = 0;
        return select_streamed(source, k, maps, self, shared);
    }
    if (candidates) mark_candidates(keys, count, threshold, maps, self, shared);
    else map_registers(keys, count, threshold, maps, self);
    ptx::bar_sync();
    return threshold.ties;
}

}  // namespace lidx::topk

// SPDX-License-Identifier: Apache-2.0
// Which key tiles are a warpgroup's, and where they lie. Part of sm90_decode.cu.
#pragma once
#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"
#include "kernel/score_cells.cuh"
#include "kernel/sm90_decode_layout.h"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::sm90_decode {

__device__ __forceinline__ uint32_t shfl(uint32_t value, uint32_t lane) {
    return ptx::shfl_sync_idx(value, lane, ptx::kFullMask);
}
__device__ __forceinline__ int32_t shfl(int32_t value, uint32_t lane) {
    return static_cast<int32_t>(shfl(static_cast<uint32_t>(value), lane));
}
__device__ __forceinline__ const uint8_t* shfl(const uint8_t* value, uint32_t lane) {
    const auto bits = reinterpret_cast<uint64_t>(value);
    const uint32_t low = shfl(static_cast<uint32_t>(bits), lane), high = shfl(static_cast<uint32_t>(bits >> 32), lane);
    return reinterpret_cast<const uint8_t*>(uint64_t{high} << 32 | low);
}

__device__ __forceinline__ int64_t shfl(int64_t value, uint32_t lane) {
    const uint32_t low = shfl(static_cast<uint32_t>(value), lane);
    return static_cast<int64_t>(uint64_t{shfl(static_cast<uint32_t>(value >> 32), lane)} << 32 | low);
}

// The sum over the lanes up to and with this one, of the first `lanes`.
__device__ __forceinline__ uint32_t inclusive_scan(uint32_t value, uint32_t lane, uint32_t lanes) {
#pragma unroll 1
    for (uint32_t delta = 1; delta < lanes; delta *= 2) {
        const uint32_t below = ptx::shfl_sync_up(value, delta, ptx::kFullMask);
        if (lane >= delta) value += below;
    }
    return value;
}

// 32 requests, one a lane.
struct Requests {
    uint32_t units, through;   // of the request; of all requests up to and with it
    int32_t tiles, keys, tokens, row;
    int64_t length;            // RequestSpan's
};

// One of a warpgroup's tiles, as one of its warps sees it.
struct Place {
    const uint8_t* k;         // codes of the warp's sixteen keys
    const uint8_t* k_scale;
    int32_t key;              // the first of them
    int32_t row;              // of q and scores: the token block's first
    uint32_t length;          // if rows are causal: pack_length() of the tokens that this row sees
    uint32_t facts;
    // bits 0-7: keys that live, inside the length and on a legal page; 8-15: tokens of the block, 0: no tile;
    // 16: the block differs from that of the tile before.
    static __device__ __forceinline__ uint32_t pack(int32_t live, int32_t tokens, bool fresh) {
        return static_cast<uint32_t>(live) | static_cast<uint32_t>(tokens) << 8 | static_cast<uint32_t>(fresh) << 16;
    }
};
// Lengths near and below 0 and up to 2^32 as 32 bits: beyond, all rows of a block see nothing, or all that they may.
constexpr int32_t kLengthBias = 64;
static_assert((UINT32_MAX - kLengthBias) / kMaxCompressRatio >= kMaxKeys);
__device__ __forceinline__ uint32_t pack_length(int64_t length) {
    return static_cast<uint32_t>(clamp<int64_t>(length, -kLengthBias, int64_t{UINT32_MAX} - kLengthBias) + kLengthBias);
}
__device__ __forceinline__ int64_t unpack_length(uint32_t length) { return int64_t{length} - kLengthBias; }
__device__ __forceinline__ int32_t live_of(uint32_t facts) { return static_cast<int32_t>(facts & 0xff); }
__device__ __forceinline__ int32_t tokens_of(uint32_t facts) { return static_cast<int32_t>(facts >> 8 & 0xff); }
__device__ __forceinline__ bool is_fresh(uint32_t facts) { return facts >> 16 != 0; }

struct Worker {
    uint32_t lane, warp, warpgroup;   // warp: of the warpgroup
    uint32_t warpgroups;              // of the CTA
    uint32_t total;                   // units of the launch
    uint32_t unit, end;               // of the window's first tile; the share's
    int32_t base;                     // 32 requests that the window begins with
    uint32_t before;                  // units of all requests before those
};

// Small block tables come to L2 while the lengths are on their way, by all CTAs together.
__device__ __forceinline__ void prefetch_table(const ScoreParams& p, uint32_t thread) {
    constexpr int64_t kLineEntries = 32, kMostEntries = 65536;
    const int64_t entry = (ptx::ctaid_x() + int64_t{ptx::nctaid_x()} * thread) * kLineEntries;
    if (p.block_table && entry < kMostEntries && entry < p.view.batch * p.block_table_stride)
        ptx::prefetch_global_l2(p.block_table + entry);
}

// What memory holds about a request, asked for all at once: its length and, of cumulated rows, both ends.
struct RawSpan {
    uint32_t length;        // int32
    ptx::U32x2 wide_length; // int64
    uint32_t row_begin, row_end;
};
__device__ __forceinline__ RawSpan ask_span(const ScoreParams& p, int32_t request) {
    const bool exists = request < p.view.batch, wide = p.view.wide != 0;
    const bool cumulated = exists && p.view.row_map == RowMap::kCuSeqlens;
    const void* const lengths = p.view.lengths;
    RawSpan raw;
    raw.length = ptx::ld_global_u32(exists && !wide, static_cast<const int32_t*>(lengths) + request, 0);
    raw.row_begin = ptx::ld_global_u32(cumulated, p.view.row_map_data + request, 0);
    raw.row_end = ptx::ld_global_u32(cumulated, p.view.row_map_data + request + 1, 0);
    raw.wide_length = ptx::ld_global_v2_u32(exists && wide, static_cast<const int64_t*>(lengths) + request);
    return raw;
}

// As request_span() has it; all zeros where there is no such request.
__device__ __forceinline__ RequestSpan span_of(const ScoreParams& p, int32_t request, const RawSpan& raw) {
    if (request >= p.view.batch) return {0, 0, 0, 0};
    const RequestRows rows =
        p.view.row_map == RowMap::kCuSeqlens
            ? clamp_rows<int32_t>(p.view, static_cast<int32_t>(raw.row_begin), static_cast<int32_t>(raw.row_end))
            : request_rows(p.view, request);
    const int64_t length = p.view.wide != 0
                               ? static_cast<int64_t>(uint64_t{raw.wide_length.y} << 32 | raw.wide_length.x)
                               : static_cast<int32_t>(raw.length);
    return span_of_length(p.view, rows, length);
}

__device__ __forceinline__ uint32_t tiles_of(const RequestSpan& span) {
    return (static_cast<uint32_t>(span.keys) + kTileKeys - 1) / kTileKeys;
}
template <class T>
__device__ __forceinline__ uint32_t units_of(const RequestSpan& span) {
    return tiles_of(span) * ((static_cast<uint32_t>(span.tokens) + T::kBlockTokens - 1) / T::kBlockTokens);
}

template <class T>
__device__ __forceinline__ Requests requests_of(const ScoreParams& p, const Worker& self, int32_t base, uint32_t before,
                                                const RawSpan& raw) {
    const RequestSpan span = span_of(p, base + static_cast<int32_t>(self.lane), raw);
    const uint32_t units = units_of<T>(span);
    return {units, before + inclusive_scan(units, self.lane, static_cast<uint32_t>(min(p.view.batch, 32))),
            static_cast<int32_t>(tiles_of(span)), span.keys, span.tokens, span.row_begin, span.length};
}

__device__ __forceinline__ void take_share(const ScoreParams& p, Worker& self, uint32_t total) {
    const uint32_t workers = ptx::nctaid_x() * self.warpgroups, part = p.tiles[0];
    const uint32_t index = ptx::ctaid_x() * self.warpgroups + self.warpgroup;
    self.total = total;
    self.unit = share_begin(total, index, workers, part);
    self.end = share_begin(total, index + 1, workers, part);
}

// More requests than lanes: all threads of the CTA sum them, a thread a segment of them.
template <class T>
__device__ __forceinline__ void find_share(const ScoreParams& p, Worker& self, Shared& shared) {
    const uint32_t thread = ptx::tid_x(), threads = self.warpgroups * kWarpgroupThreads, warps = threads / 32;
    const auto batch = static_cast<uint32_t>(p.view.batch), each = (batch + threads - 1) / threads;
    uint32_t own = 0;
#pragma unroll 1
    for (uint32_t request = thread * each; request < (thread + 1) * each && request < batch; ++request)
        own += units_of<T>(span_of(p, static_cast<int32_t>(request), ask_span(p, static_cast<int32_t>(request))));
    const uint32_t of_warp = inclusive_scan(own, self.lane, 32);
    const ptx::SharedAddr warp_units = ptx::cvta_to_shared(shared.warp_units);
    if (self.lane == 31) ptx::st_shared_u32(warp_units + thread / 32 * 4, of_warp);
    ptx::bar_sync();
    const uint32_t units = self.lane < warps ? ptx::ld_shared_u32(warp_units + self.lane * 4) : 0;
    const uint32_t through = inclusive_scan(units, self.lane, kThreads / 32);
    take_share(p, self, shfl(through, warps - 1));
    if (self.unit >= self.end) return;
    const uint32_t beyond = ptx::vote_sync_ballot(self.lane < warps && through > self.unit, ptx::kFullMask);
    const auto warp = static_cast<uint32_t>(__ffs(static_cast<int>(beyond)) - 1);
    self.base = static_cast<int32_t>(warp * 32 * each);
    self.before = shfl(through - units, warp);
}

__device__ __forceinline__ uint32_t page_index(const ScoreParams& p, int32_t key) {
    const auto size = static_cast<uint32_t>(p.page_size);
    if ((size & (size - 1)) == 0) return static_cast<uint32_t>(key) >> (31 - __clz(static_cast<int>(size)));
    return static_cast<uint32_t>(key) / size;
}

// A launch may want keys on illegal pages dead: live keys of a place.
__device__ __forceinline__ void fill_place(const ScoreParams& p, const Place& place, int32_t live, int32_t tokens) {
#pragma unroll 1
    for (int32_t i = 0; i < live * tokens; ++i)
        ptx::st_global_f32(static_cast<float*>(p.scores) + (int64_t{place.row} + i / live) * p.score_stride +
                               place.key + i % live,
                           dead_score());
}

// Lane i: the warpgroup's tile at unit + i; none if the share is empty. raw: of request self.base + lane. `located`
// runs between the look into the block table and its answer.
template <class T, class Located>
__device__ __forceinline__ Place find_places(const ScoreParams& p, Worker& self, RawSpan raw, int32_t row_before,
                                             const Located& located) {
    Place place{nullptr, nullptr, 0, 0, 0, 0};
    int32_t keys = 0, tokens = 0, request = 0, base = self.base;
    uint32_t so_far = self.before;
    while (true) {
        const Requests r = requests_of<T>(p, self, base, so_far, raw);
        if (p.view.batch <= 32 && self.end == 0)
            take_share(p, self, shfl(r.through, static_cast<uint32_t>(p.view.batch) - 1));
        const uint32_t unit = self.unit + self.lane;
        const auto lanes = static_cast<uint32_t>(min(p.view.batch, 32));
        uint32_t at = 0;   // the first lane whose requests reach beyond the unit
#pragma unroll 1
        for (uint32_t step = lanes > 1 ? 1u << (31 - __clz(static_cast<int>(lanes - 1))) : 0; step > 0; step /= 2) {
            const uint32_t through = shfl(r.through, at + step - 1);
            if (at + step < lanes && through <= unit) at += step;
        }
        const uint32_t before = shfl(r.through - r.units, at), through = shfl(r.through, at);
        const int32_t of_keys = shfl(r.keys, at), of_tokens = shfl(r.tokens, at), of_row = shfl(r.row, at);
        const int32_t tiles = shfl(r.tiles, at);
        const int64_t of_length = shfl(r.length, at);
        const bool open = tokens == 0 && unit < self.end;
        if (open && unit < through) {
            auto tile = static_cast<int32_t>(unit - before);
            int32_t token = 0;
            if (tile >= tiles) {
                token = tile / tiles * T::kBlockTokens;
                tile %= tiles;
            }
            request = base + static_cast<int32_t>(at);
            keys = of_keys;
            place.row = of_row + token;
            tokens = min(of_tokens - token, T::kBlockTokens);
            place.length = pack_length(of_length - (of_tokens - token - 1));
            place.key = tile * kTileKeys + static_cast<int32_t>(self.warp) * kWarpKeys;
        }
        if (ptx::vote_sync_ballot(open && unit >= through, ptx::kFullMask) == 0) break;
        so_far = shfl(r.through, 31);
        base += 32;
        if (self.unit + kWindow >= so_far) {   // the next window's, too
            self.base = base;
            self.before = so_far;
        }
        raw = ask_span(p, base + static_cast<int32_t>(self.lane));
    }
    int32_t page = request, slot = place.key;
    const int32_t live = min(keys - place.key, kWarpKeys);
    if (p.block_table) {
        const uint32_t index = page_index(p, place.key);
        slot -= static_cast<int32_t>(index) * p.page_size;
        page = static_cast<int32_t>(
            ptx::ld_global_u32(live > 0, p.block_table + request * p.block_table_stride + index, 0));
    }
    const auto above = static_cast<int32_t>(ptx::shfl_sync_up(static_cast<uint32_t>(place.row), 1, ptx::kFullMask));
    const bool fresh = place.row != (self.lane == 0 ? row_before : above);
    place.facts = Place::pack(0, tokens, fresh);
    located(place);
    if (live <= 0) return place;
    if (page >= 0 && page < p.num_pages) {
        place.k = p.k + page * p.k_page_stride + int64_t{slot} * kDepth;
        place.k_scale = p.k_scale + page * p.k_scale_page_stride + int64_t{slot} * 4;
        place.facts = Place::pack(live, tokens, fresh);
    } else {
        report_bad_page(p);
        if (p.fill_columns != 0) fill_place(p, place, live, tokens);
    }
    return place;
}

}  // namespace lidx::sm90_decode

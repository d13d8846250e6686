// SPDX-License-Identifier: Apache-2.0
// Quantise keys and store them in a paged cache; sm_80 and later, depth 64 or 128, any page size from 1.
//
//     cache_store         row r goes to slots[r]: page * page_size + slot, or a byte offset; -1 skips the row
//     cache_store_pages   row r goes to the r-th slot behind first_slot of pages that lie in the kernel's parameters,
//                         so that a host that knows its pages needs no device memory for them
//
// What is computed is in kernel/cache_quantise.cuh. One warp per row, four rows per CTA, no shared memory. A slot
// outside the pool writes nothing and sets the check word. Rows with the same slot race: one of them wins.
//
// Budget per row of 128 bf16 elements: 256 bytes read, 132 written; 5 shuffles for amax, 20 for the rotation, 4
// divisions a lane.
#include "kernel/cache_layout.h"
#include "kernel/cache_quantise.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::cache {
namespace {

// Where a row's codes and scale go.
struct Place {
    uint8_t* codes;
    uint8_t* scale;
    bool store;
};

__device__ __forceinline__ Place place_at(const StoreParams& p, uint64_t page, uint64_t slot) {
    return {p.k + page * p.k_page_stride + slot * p.depth, p.k_scale + page * p.k_scale_page_stride + slot * 4, true};
}

__device__ __forceinline__ bool offset_fits(int64_t offset, int64_t bytes, int64_t pool_bytes) {
    return offset >= 0 && offset % 4 == 0 && offset <= pool_bytes - bytes;
}

__device__ __forceinline__ Place find_place(const StoreParams& p, int32_t row) {
    const int64_t slot = ptx::ld_global_nc_s64(p.slots + row);
    const Place nowhere{nullptr, nullptr, false};
    if (slot == -1) return nowhere;
    if (p.scale_slots) {
        const int64_t scale_slot = ptx::ld_global_nc_s64(p.scale_slots + row);
        if (offset_fits(slot, p.depth, p.num_pages * p.k_page_stride) &&
            offset_fits(scale_slot, 4, p.num_pages * p.k_scale_page_stride))
            return {p.k + slot, p.k_scale + scale_slot, true};
    } else if (slot >= 0) {
        const uint64_t page = static_cast<uint64_t>(slot) / static_cast<uint32_t>(p.page_size);
        if (page < static_cast<uint64_t>(p.num_pages))
            return place_at(p, page, static_cast<uint64_t>(slot) - page * static_cast<uint32_t>(p.page_size));
    }
    if (p.check_word) ptx::st_relaxed_gpu_global_u32(p.check_word, 1);
    return nowhere;
}

template <int kDepth>
__device__ __forceinline__ void store_row(const StoreParams& p, int32_t row, const Place& place, uint32_t lane) {
    uint32_t codes;
    const float scale =
        quantise_vector<kDepth>(p.keys + row * p.key_stride_bytes, p.key_type, p.quantise, lane, codes);
    store_codes<kDepth>(place.codes, lane, codes);
    if (lane == 0) ptx::st_global_f32(place.scale, scale);
}

__device__ __forceinline__ void store_row(const StoreParams& p, int32_t row, const Place& place) {
    const uint32_t lane = ptx::laneid();
    if (p.depth == 128)
        store_row<128>(p, row, place, lane);
    else
        store_row<64>(p, row, place, lane);
}

// The warp's row; it may be beyond the last one.
__device__ __forceinline__ int64_t warp_row() {
    return int64_t{ptx::ctaid_x()} * kWarps + ptx::tid_x() / 32;
}

}  // namespace
}  // namespace lidx::cache

extern "C" __global__ void __launch_bounds__(lidx::cache::kThreads)
cache_store(const __grid_constant__ lidx::cache::StoreParams p) {
    using namespace lidx::cache;
    const int64_t row = warp_row();
    if (row >= p.rows) return;
    const Place place = find_place(p, static_cast<int32_t>(row));
    if (place.store) store_row(p, static_cast<int32_t>(row), place);
}

extern "C" __global__ void __launch_bounds__(lidx::cache::kThreads)
cache_store_pages(const __grid_constant__ lidx::cache::StorePagesParams p) {
    using namespace lidx::cache;
    const int64_t row = warp_row();
    if (row >= p.store.rows) return;
    const auto position = static_cast<uint32_t>(p.first_slot + row);
    const uint32_t index = position / static_cast<uint32_t>(p.store.page_size);
    const uint32_t slot = position - index * static_cast<uint32_t>(p.store.page_size);
    if (index >= static_cast<uint32_t>(p.page_count)) return;
    store_row(p.store, static_cast<int32_t>(row), place_at(p.store, static_cast<uint32_t>(p.pages[index]), slot));
}

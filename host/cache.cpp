// SPDX-License-Identifier: Apache-2.0
#include "host/cache.h"

#include <algorithm>
#include <string>

#include "host/cache_launch.h"
#include "host/field_checks.h"
#include "host/status.h"

namespace lidx {

namespace {

// A shared page that is written into is copied layer by layer.
constexpr int32_t kMaxLayers = 1024;

CUdeviceptr address(const void* base, int64_t offset_bytes) {
    return reinterpret_cast<CUdeviceptr>(base) + static_cast<CUdeviceptr>(offset_bytes);
}

// The pool of one layer.
lidx_pool layer_pool(const lidx_cache& cache, int32_t layer) {
    lidx_pool pool = cache.pool;
    // Device addresses: nothing that host pointers may be added to.
    pool.k_base = reinterpret_cast<void*>(address(pool.k_base, layer * cache.k_layer_stride));
    pool.k_scale_base = reinterpret_cast<void*>(address(pool.k_scale_base, layer * cache.k_scale_layer_stride));
    return pool;
}

void copy_page(const lidx_cache& cache, const PagePool::Copy& copy, CUstream stream) {
    const Driver& driver = cache.context.driver;
    for (int32_t layer = 0; layer < cache.layers; ++layer) {
        const lidx_pool pool = layer_pool(cache, layer);
        check_driver(driver,
                     driver.cuMemcpyDtoDAsync(address(pool.k_base, copy.to * pool.k_page_stride),
                                              address(pool.k_base, copy.from * pool.k_page_stride),
                                              static_cast<size_t>(copy.used) * static_cast<size_t>(pool.depth), stream),
                     "cuMemcpyDtoDAsync of a shared page's codes");
        check_driver(driver,
                     driver.cuMemcpyDtoDAsync(address(pool.k_scale_base, copy.to * pool.k_scale_page_stride),
                                              address(pool.k_scale_base, copy.from * pool.k_scale_page_stride),
                                              static_cast<size_t>(copy.used) * sizeof(float), stream),
                     "cuMemcpyDtoDAsync of a shared page's scales");
    }
}

void enqueue_copies(const lidx_cache& cache, const PagePool::Extension& extension, CUstream stream) {
    bool any = false;
    for (const PagePool::Growth& growth : extension.growths) any = any || growth.copy.used > 0;
    if (!any) return;
    const CurrentContext current(cache.context);
    for (const PagePool::Growth& growth : extension.growths)
        if (growth.copy.used > 0) copy_page(cache, growth.copy, stream);
}

KeyRows check_keys(const lidx_cache& cache, const lidx_cache_keys& keys) {
    require_struct_size(keys, "lidx_cache_keys", "lidx_cache_keys_init");
    check_quantise_flags(keys.flags, 0, "LIDX_FLAG_ROTATE, _ROTATE_ROUND and _POW2_SCALE");
    require_range("layer", keys.layer, 0, cache.layers - 1);
    const KeyRows rows{keys.keys, keys.key_type, keys.rows, keys.key_stride, keys.flags};
    check_key_rows(rows, cache.pool.depth);
    return rows;
}

void check_sequences(const int64_t* sequences, int32_t count) {
    require_range("count", count, 0, kMaxInt32);
    if (count > 0) require_pointer("sequences", sequences, alignof(int64_t));
}

}  // namespace

lidx_cache make_cache(const lidx_context& context, const lidx_cache_desc& desc) {
    require_struct_size(desc, "lidx_cache_desc", "lidx_cache_desc_init");
    if (desc.pool == nullptr) fail(LIDX_ERR_NULL, "pool is null");
    const lidx_pool& pool = *desc.pool;
    check_pool(pool, PoolUse::kStore, {"pool."});
    require_no_flags("flags", desc.flags);
    const int32_t layers = desc.layers != 0 ? desc.layers : 1;
    require_range("layers", layers, 1, kMaxLayers);
    if (layers > 1) {
        require_multiple("k_layer_stride", desc.k_layer_stride, 16);
        require_range("k_layer_stride", desc.k_layer_stride, int64_t{pool.page_size} * pool.depth, kMaxInt64);
        require_span("layers", layers, "k_layer_stride", desc.k_layer_stride, 1);
        require_multiple("k_scale_layer_stride", desc.k_scale_layer_stride, 4);
        require_range("k_scale_layer_stride", desc.k_scale_layer_stride, int64_t{pool.page_size} * 4, kMaxInt64);
        require_span("layers", layers, "k_scale_layer_stride", desc.k_scale_layer_stride, 1);
    }
    return {context, pool, layers, layers > 1 ? desc.k_layer_stride : 0, layers > 1 ? desc.k_scale_layer_stride : 0,
            PagePool(pool.page_size, pool.num_pages)};
}

void extend(lidx_cache& cache, const int64_t* sequences, const int32_t* tokens, int32_t count, CUstream stream) {
    check_sequences(sequences, count);
    if (count > 0) require_pointer("tokens", tokens, alignof(int32_t));
    const auto size = static_cast<size_t>(count);
    const PagePool::Extension extension = cache.pages.prepare({sequences, size}, {tokens, size});
    enqueue_copies(cache, extension, stream);
    cache.pages.commit(extension);
}

void store(const lidx_cache& cache, int64_t sequence, int64_t first, const lidx_cache_keys& keys, CUstream stream) {
    const KeyRows rows = check_keys(cache, keys);
    const int64_t length = cache.pages.length(sequence);
    require_range("first", first, 0, length);
    if (rows.rows > length - first)
        fail(LIDX_ERR_VALUE, equals("rows", rows.rows) + " at " + equals("first", first) +
                                 ": the sequence has " + std::to_string(length) + " tokens");
    if (rows.rows == 0) return;
    const int32_t page_size = cache.pool.page_size;
    const std::span<const int32_t> pages = cache.pages.pages(sequence);
    const int64_t begin = first / page_size, end = (first + rows.rows + page_size - 1) / page_size;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t page = pages[static_cast<size_t>(i)];
        if (cache.pages.owners(page) > 1)
            fail(LIDX_ERR_VALUE, equals("first", first) + ": position " +
                                     std::to_string(std::max(first, i * page_size)) + " lies in a page that " +
                                     std::to_string(cache.pages.owners(page)) + " sequences share");
    }
    enqueue_store_pages(cache.context, layer_pool(cache, keys.layer), rows, pages.data() + begin,
                        static_cast<int32_t>(first % page_size), stream);
}

void append(lidx_cache& cache, int64_t sequence, const lidx_cache_keys& keys, CUstream stream) {
    const KeyRows rows = check_keys(cache, keys);
    const int64_t length = cache.pages.length(sequence);
    const PagePool::Extension extension = cache.pages.prepare({&sequence, 1}, {&rows.rows, 1});
    enqueue_copies(cache, extension, stream);
    // The rows' pages: the last one as it will be, then the new ones. Stored before anything is committed.
    std::vector<int32_t> pages;
    const int32_t first_slot = static_cast<int32_t>(length % cache.pool.page_size);
    if (first_slot != 0 && extension.growths[0].copy.used == 0) pages.push_back(cache.pages.pages(sequence).back());
    pages.insert(pages.end(), extension.pages.begin(), extension.pages.end());
    if (rows.rows > 0)
        enqueue_store_pages(cache.context, layer_pool(cache, keys.layer), rows, pages.data(), first_slot, stream);
    cache.pages.commit(extension);
}

void fill_tables(const lidx_cache& cache, const lidx_cache_tables& tables, CUstream stream) {
    require_struct_size(tables, "lidx_cache_tables", "lidx_cache_tables_init");
    check_sequences(tables.sequences, tables.count);
    if (tables.reserved != 0) fail(LIDX_ERR_VALUE, equals("reserved", tables.reserved) + ": must be 0");
    require_range("block_table_stride", tables.block_table_stride, tables.count > 0 ? 1 : 0, kMaxInt64);
    require_span("count", tables.count, "block_table_stride", tables.block_table_stride, sizeof(int32_t));
    if (tables.count == 0) return;
    require_pointer("block_table", tables.block_table, alignof(int32_t));
    require_pointer("context_lens", tables.context_lens, alignof(int32_t));
    if (tables.block_table_device != nullptr) require_pointer("block_table_device", tables.block_table_device, 4);
    if (tables.context_lens_device != nullptr) require_pointer("context_lens_device", tables.context_lens_device, 4);
    for (int32_t i = 0; i < tables.count; ++i) {
        const auto pages = static_cast<int64_t>(cache.pages.pages(tables.sequences[i]).size());
        if (pages > tables.block_table_stride)
            fail(LIDX_ERR_VALUE, equals("block_table_stride", tables.block_table_stride) + ": sequences[" +
                                     std::to_string(i) + "] has " + std::to_string(pages) + " pages");
    }
    for (int32_t i = 0; i < tables.count; ++i) {
        const std::span<const int32_t> pages = cache.pages.pages(tables.sequences[i]);
        int32_t* row = tables.block_table + i * tables.block_table_stride;
        std::fill(std::copy(pages.begin(), pages.end(), row), row + tables.block_table_stride, -1);
        tables.context_lens[i] = static_cast<int32_t>(cache.pages.length(tables.sequences[i]));
    }
    if (tables.block_table_device == nullptr && tables.context_lens_device == nullptr) return;
    const CurrentContext current(cache.context);
    const Driver& driver = cache.context.driver;
    const auto count = static_cast<size_t>(tables.count);
    if (tables.block_table_device != nullptr)
        check_driver(driver,
                     driver.cuMemcpyHtoDAsync(address(tables.block_table_device, 0), tables.block_table,
                                              count * static_cast<size_t>(tables.block_table_stride) * sizeof(int32_t),
                                              stream),
                     "cuMemcpyHtoDAsync of the block table");
    if (tables.context_lens_device != nullptr)
        check_driver(driver,
                     driver.cuMemcpyHtoDAsync(address(tables.context_lens_device, 0), tables.context_lens,
                                              count * sizeof(int32_t), stream),
                     "cuMemcpyHtoDAsync of the lengths");
}

void fill_slots(const lidx_cache& cache, const int64_t* sequences, const int32_t* tokens, int32_t count,
                int64_t* slots) {
    check_sequences(sequences, count);
    if (count == 0) return;
    require_pointer("tokens", tokens, alignof(int32_t));
    require_pointer("slots", slots, alignof(int64_t));
    for (int32_t i = 0; i < count; ++i)
        require_range(("tokens[" + std::to_string(i) + "]").c_str(), tokens[i], 0, cache.pages.length(sequences[i]));
    for (int32_t i = 0; i < count; ++i) {
        const std::span<const int32_t> pages = cache.pages.pages(sequences[i]);
        const int64_t length = cache.pages.length(sequences[i]);
        for (int64_t position = length - tokens[i]; position < length; ++position)
            *slots++ = int64_t{pages[static_cast<size_t>(position / cache.pool.page_size)]} * cache.pool.page_size +
                       position % cache.pool.page_size;
    }
}

}  // namespace lidx

/* SPDX-License-Identifier: Apache-2.0
 * The layout of every public struct on LP64, pinned, in C99 with -pedantic -Werror. A change here is a change of the
 * ABI: it needs a new LIDX_ABI, or a new struct size that old callers may still pass. */
#include <lidx.h>

#define PIN(name, condition) typedef char pinned_##name[(condition) ? 1 : -1]
#define PIN_AT(type, field, at) PIN(type##_##field, offsetof(type, field) == (at))

PIN(pointer, sizeof(void *) == 8);
PIN(status, sizeof(lidx_status) == 4);
PIN(arithmetic, sizeof(lidx_arithmetic) == 4);
PIN(row_map, LIDX_ROWS_CU_SEQLENS == 0 && LIDX_ROWS_FIXED == 1 && LIDX_ROWS_REQUEST_IDS == 2);
PIN(visibility, LIDX_SEE_REQUEST_LENGTH == 0 && LIDX_SEE_ROW_LENGTH == 1 && LIDX_SEE_WINDOW == 2);
PIN(types, LIDX_INT32 == 0 && LIDX_INT64 == 1 && LIDX_FP32 == 0 && LIDX_BF16 == 1);
PIN(flags, LIDX_FLAG_CHECK == 1 && LIDX_FLAG_CAUSAL == 2 && LIDX_FLAG_FILL == 4 && LIDX_FLAG_RELATIVE_COLUMNS == 8 &&
               LIDX_FLAG_PDL == 16 && LIDX_FLAG_FAST == 32);

PIN(lidx_config, sizeof(lidx_config) == 24);
PIN_AT(lidx_config, driver_path, 8);
PIN_AT(lidx_config, device, 16);
PIN_AT(lidx_config, flags, 20);

PIN(lidx_device_info, sizeof(lidx_device_info) == 408);
PIN_AT(lidx_device_info, name, 8);
PIN_AT(lidx_device_info, driver_path, 136);
PIN_AT(lidx_device_info, ordinal, 392);
PIN_AT(lidx_device_info, compute_capability, 396);
PIN_AT(lidx_device_info, multiprocessors, 400);
PIN_AT(lidx_device_info, driver_version, 404);

PIN(lidx_kernel_info, sizeof(lidx_kernel_info) == 72);
PIN_AT(lidx_kernel_info, symbol, 8);
PIN_AT(lidx_kernel_info, architectures, 16);
PIN_AT(lidx_kernel_info, arithmetic, 24);
PIN_AT(lidx_kernel_info, heads, 28);
PIN_AT(lidx_kernel_info, depth, 32);
PIN_AT(lidx_kernel_info, depth_step, 36);
PIN_AT(lidx_kernel_info, tile_keys, 40);
PIN_AT(lidx_kernel_info, tile_tokens, 44);
PIN_AT(lidx_kernel_info, threads, 48);
PIN_AT(lidx_kernel_info, shared_bytes, 52);
PIN_AT(lidx_kernel_info, shared_bytes_decode, 56);
PIN_AT(lidx_kernel_info, tmem_columns, 60);
PIN_AT(lidx_kernel_info, registers, 64);

PIN(lidx_score_desc, sizeof(lidx_score_desc) == 168);
PIN_AT(lidx_score_desc, flags, 8);
PIN_AT(lidx_score_desc, row_map, 12);
PIN_AT(lidx_score_desc, batch, 16);
PIN_AT(lidx_score_desc, max_rows, 20);
PIN_AT(lidx_score_desc, max_tokens, 24);
PIN_AT(lidx_score_desc, heads, 28);
PIN_AT(lidx_score_desc, depth, 32);
PIN_AT(lidx_score_desc, visibility, 36);
PIN_AT(lidx_score_desc, length_type, 40);
PIN_AT(lidx_score_desc, compress_ratio, 44);
PIN_AT(lidx_score_desc, max_keys, 48);
PIN_AT(lidx_score_desc, page_size, 56);
PIN_AT(lidx_score_desc, max_sms, 60);
PIN_AT(lidx_score_desc, num_pages, 64);
PIN_AT(lidx_score_desc, scale_num_pages, 72);
PIN_AT(lidx_score_desc, k_page_stride, 80);
PIN_AT(lidx_score_desc, k_scale_page_stride, 88);
PIN_AT(lidx_score_desc, block_table_stride, 96);
PIN_AT(lidx_score_desc, scale_block_table_stride, 104);
PIN_AT(lidx_score_desc, weight_type, 112);
PIN_AT(lidx_score_desc, weight2_type, 116);
PIN_AT(lidx_score_desc, weight_stride, 120);
PIN_AT(lidx_score_desc, weight2_stride, 128);
PIN_AT(lidx_score_desc, score_type, 136);
PIN_AT(lidx_score_desc, reserved, 140);
PIN_AT(lidx_score_desc, score_columns, 144);
PIN_AT(lidx_score_desc, score_stride, 152);
PIN_AT(lidx_score_desc, kernel, 160);

PIN(lidx_support, sizeof(lidx_support) == 536);
PIN_AT(lidx_support, symbol, 8);
PIN_AT(lidx_support, arithmetic, 16);
PIN_AT(lidx_support, reason, 20);

PIN(lidx_plan_info, sizeof(lidx_plan_info) == 56);
PIN_AT(lidx_plan_info, symbol, 8);
PIN_AT(lidx_plan_info, arithmetic, 16);
PIN_AT(lidx_plan_info, grid, 20);
PIN_AT(lidx_plan_info, block, 32);
PIN_AT(lidx_plan_info, shared_bytes, 44);
PIN_AT(lidx_plan_info, workspace_bytes, 48);

PIN(lidx_score_args, sizeof(lidx_score_args) == 128);
PIN_AT(lidx_score_args, q, 8);
PIN_AT(lidx_score_args, q_scale, 16);
PIN_AT(lidx_score_args, q_scale2, 24);
PIN_AT(lidx_score_args, k_base, 32);
PIN_AT(lidx_score_args, k_scale_base, 40);
PIN_AT(lidx_score_args, block_table, 48);
PIN_AT(lidx_score_args, scale_block_table, 56);
PIN_AT(lidx_score_args, context_lens, 64);
PIN_AT(lidx_score_args, row_begin, 72);
PIN_AT(lidx_score_args, row_end, 80);
PIN_AT(lidx_score_args, cu_seqlens_q, 88);
PIN_AT(lidx_score_args, row_requests, 96);
PIN_AT(lidx_score_args, scores, 104);
PIN_AT(lidx_score_args, workspace, 112);
PIN_AT(lidx_score_args, workspace_bytes, 120);

PIN(lidx_pool, sizeof(lidx_pool) == 56);
PIN_AT(lidx_pool, k_base, 8);
PIN_AT(lidx_pool, k_scale_base, 16);
PIN_AT(lidx_pool, depth, 24);
PIN_AT(lidx_pool, page_size, 28);
PIN_AT(lidx_pool, num_pages, 32);
PIN_AT(lidx_pool, k_page_stride, 40);
PIN_AT(lidx_pool, k_scale_page_stride, 48);

PIN(lidx_store_args, sizeof(lidx_store_args) == 72);
PIN_AT(lidx_store_args, flags, 8);
PIN_AT(lidx_store_args, key_type, 12);
PIN_AT(lidx_store_args, rows, 16);
PIN_AT(lidx_store_args, key_stride, 24);
PIN_AT(lidx_store_args, keys, 32);
PIN_AT(lidx_store_args, slot_mapping, 40);
PIN_AT(lidx_store_args, scale_slot_mapping, 48);
PIN_AT(lidx_store_args, workspace, 56);
PIN_AT(lidx_store_args, workspace_bytes, 64);

PIN(lidx_gather_args, sizeof(lidx_gather_args) == 104);
PIN_AT(lidx_gather_args, flags, 8);
PIN_AT(lidx_gather_args, batch, 12);
PIN_AT(lidx_gather_args, max_rows, 16);
PIN_AT(lidx_gather_args, block_table_stride, 24);
PIN_AT(lidx_gather_args, block_table, 32);
PIN_AT(lidx_gather_args, cu_seqlens_k, 40);
PIN_AT(lidx_gather_args, key_begin, 48);
PIN_AT(lidx_gather_args, context_lens, 56);
PIN_AT(lidx_gather_args, k_out, 64);
PIN_AT(lidx_gather_args, k_out_stride, 72);
PIN_AT(lidx_gather_args, k_scale_out, 80);
PIN_AT(lidx_gather_args, workspace, 88);
PIN_AT(lidx_gather_args, workspace_bytes, 96);

PIN(lidx_query_args, sizeof(lidx_query_args) == 112);
PIN_AT(lidx_query_args, flags, 8);
PIN_AT(lidx_query_args, rows, 12);
PIN_AT(lidx_query_args, heads, 16);
PIN_AT(lidx_query_args, depth, 20);
PIN_AT(lidx_query_args, q_type, 24);
PIN_AT(lidx_query_args, weight_type, 28);
PIN_AT(lidx_query_args, weight_out_type, 32);
PIN_AT(lidx_query_args, factor, 36);
PIN_AT(lidx_query_args, q_row_stride, 40);
PIN_AT(lidx_query_args, q_head_stride, 48);
PIN_AT(lidx_query_args, weight_stride, 56);
PIN_AT(lidx_query_args, weight_out_stride, 64);
PIN_AT(lidx_query_args, q, 72);
PIN_AT(lidx_query_args, weights, 80);
PIN_AT(lidx_query_args, q_out, 88);
PIN_AT(lidx_query_args, weights_out, 96);
PIN_AT(lidx_query_args, q_scale_out, 104);

PIN(lidx_cache_desc, sizeof(lidx_cache_desc) == 40);
PIN_AT(lidx_cache_desc, pool, 8);
PIN_AT(lidx_cache_desc, layers, 16);
PIN_AT(lidx_cache_desc, flags, 20);
PIN_AT(lidx_cache_desc, k_layer_stride, 24);
PIN_AT(lidx_cache_desc, k_scale_layer_stride, 32);

PIN(lidx_cache_keys, sizeof(lidx_cache_keys) == 40);
PIN_AT(lidx_cache_keys, flags, 8);
PIN_AT(lidx_cache_keys, key_type, 12);
PIN_AT(lidx_cache_keys, rows, 16);
PIN_AT(lidx_cache_keys, layer, 20);
PIN_AT(lidx_cache_keys, key_stride, 24);
PIN_AT(lidx_cache_keys, keys, 32);

PIN(lidx_cache_tables, sizeof(lidx_cache_tables) == 64);
PIN_AT(lidx_cache_tables, sequences, 8);
PIN_AT(lidx_cache_tables, count, 16);
PIN_AT(lidx_cache_tables, reserved, 20);
PIN_AT(lidx_cache_tables, block_table_stride, 24);
PIN_AT(lidx_cache_tables, block_table, 32);
PIN_AT(lidx_cache_tables, context_lens, 40);
PIN_AT(lidx_cache_tables, block_table_device, 48);
PIN_AT(lidx_cache_tables, context_lens_device, 56);

PIN(lidx_cache_stats, sizeof(lidx_cache_stats) == 48);
PIN_AT(lidx_cache_stats, num_pages, 8);
PIN_AT(lidx_cache_stats, free_pages, 16);
PIN_AT(lidx_cache_stats, shared_pages, 24);
PIN_AT(lidx_cache_stats, sequences, 32);
PIN_AT(lidx_cache_stats, tokens, 40);

PIN(float_type, sizeof(lidx_float_type) == 4 && LIDX_FP32 == 0 && LIDX_BF16 == 1 && LIDX_FP16 == 2);

/* Every function is linked, with the type that a C compiler sees. */
PIN(lidx_topk_desc, sizeof(lidx_topk_desc) == 112);
PIN_AT(lidx_topk_desc, flags, 8);
PIN_AT(lidx_topk_desc, row_map, 12);
PIN_AT(lidx_topk_desc, batch, 16);
PIN_AT(lidx_topk_desc, max_rows, 20);
PIN_AT(lidx_topk_desc, max_tokens, 24);
PIN_AT(lidx_topk_desc, visibility, 28);
PIN_AT(lidx_topk_desc, length_type, 32);
PIN_AT(lidx_topk_desc, compress_ratio, 36);
PIN_AT(lidx_topk_desc, max_keys, 40);
PIN_AT(lidx_topk_desc, score_stride, 48);
PIN_AT(lidx_topk_desc, score_type, 56);
PIN_AT(lidx_topk_desc, k, 60);
PIN_AT(lidx_topk_desc, forced_first, 64);
PIN_AT(lidx_topk_desc, forced_last, 68);
PIN_AT(lidx_topk_desc, index_kind, 72);
PIN_AT(lidx_topk_desc, sort, 76);
PIN_AT(lidx_topk_desc, index_stride, 80);
PIN_AT(lidx_topk_desc, top_score_stride, 88);
PIN_AT(lidx_topk_desc, page_size, 96);
PIN_AT(lidx_topk_desc, reserved, 100);
PIN_AT(lidx_topk_desc, block_table_stride, 104);

PIN(lidx_topk_args, sizeof(lidx_topk_args) == 112);
PIN_AT(lidx_topk_args, scores, 8);
PIN_AT(lidx_topk_args, context_lens, 16);
PIN_AT(lidx_topk_args, row_begin, 24);
PIN_AT(lidx_topk_args, row_end, 32);
PIN_AT(lidx_topk_args, cu_seqlens_q, 40);
PIN_AT(lidx_topk_args, row_requests, 48);
PIN_AT(lidx_topk_args, block_table, 56);
PIN_AT(lidx_topk_args, offsets, 64);
PIN_AT(lidx_topk_args, indices, 72);
PIN_AT(lidx_topk_args, top_scores, 80);
PIN_AT(lidx_topk_args, counts, 88);
PIN_AT(lidx_topk_args, workspace, 96);
PIN_AT(lidx_topk_args, workspace_bytes, 104);

PIN(lidx_merge_args, sizeof(lidx_merge_args) == 120);
PIN_AT(lidx_merge_args, flags, 8);
PIN_AT(lidx_merge_args, rows, 12);
PIN_AT(lidx_merge_args, shards, 16);
PIN_AT(lidx_merge_args, k_in, 20);
PIN_AT(lidx_merge_args, k, 24);
PIN_AT(lidx_merge_args, sort, 28);
PIN_AT(lidx_merge_args, score_row_stride, 32);
PIN_AT(lidx_merge_args, score_shard_stride, 40);
PIN_AT(lidx_merge_args, position_row_stride, 48);
PIN_AT(lidx_merge_args, position_shard_stride, 56);
PIN_AT(lidx_merge_args, index_stride, 64);
PIN_AT(lidx_merge_args, top_score_stride, 72);
PIN_AT(lidx_merge_args, scores, 80);
PIN_AT(lidx_merge_args, positions, 88);
PIN_AT(lidx_merge_args, indices, 96);
PIN_AT(lidx_merge_args, top_scores, 104);
PIN_AT(lidx_merge_args, counts, 112);

PIN(lidx_index_desc, sizeof(lidx_index_desc) == 224);
PIN_AT(lidx_index_desc, score, 8);
PIN_AT(lidx_index_desc, k, 176);
PIN_AT(lidx_index_desc, forced_first, 180);
PIN_AT(lidx_index_desc, forced_last, 184);
PIN_AT(lidx_index_desc, index_kind, 188);
PIN_AT(lidx_index_desc, sort, 192);
PIN_AT(lidx_index_desc, reserved, 196);
PIN_AT(lidx_index_desc, index_stride, 200);
PIN_AT(lidx_index_desc, top_score_stride, 208);
PIN_AT(lidx_index_desc, workspace_budget_bytes, 216);

PIN(lidx_index_plan_info, sizeof(lidx_index_plan_info) == 48);
PIN_AT(lidx_index_plan_info, symbol, 8);
PIN_AT(lidx_index_plan_info, arithmetic, 16);
PIN_AT(lidx_index_plan_info, window_rows, 20);
PIN_AT(lidx_index_plan_info, windows, 24);
PIN_AT(lidx_index_plan_info, slices, 28);
PIN_AT(lidx_index_plan_info, workspace_bytes, 32);
PIN_AT(lidx_index_plan_info, zero_bytes, 40);

PIN(lidx_index_args, sizeof(lidx_index_args) == 152);
PIN_AT(lidx_index_args, q, 8);
PIN_AT(lidx_index_args, q_scale, 16);
PIN_AT(lidx_index_args, q_scale2, 24);
PIN_AT(lidx_index_args, k_base, 32);
PIN_AT(lidx_index_args, k_scale_base, 40);
PIN_AT(lidx_index_args, block_table, 48);
PIN_AT(lidx_index_args, scale_block_table, 56);
PIN_AT(lidx_index_args, context_lens, 64);
PIN_AT(lidx_index_args, row_begin, 72);
PIN_AT(lidx_index_args, row_end, 80);
PIN_AT(lidx_index_args, cu_seqlens_q, 88);
PIN_AT(lidx_index_args, row_requests, 96);
PIN_AT(lidx_index_args, offsets, 104);
PIN_AT(lidx_index_args, indices, 112);
PIN_AT(lidx_index_args, top_scores, 120);
PIN_AT(lidx_index_args, counts, 128);
PIN_AT(lidx_index_args, workspace, 136);
PIN_AT(lidx_index_args, workspace_bytes, 144);

int main(void) {
    lidx_config config;
    lidx_score_desc desc;
    lidx_score_args args;
    lidx_kernel_info kernel;
    lidx_plan_info plan_info;
    lidx_support support;
    lidx_device_info device;
    size_t bytes = 0;
    lidx_plan *plan = NULL;
    lidx_pool pool;
    lidx_store_args store;
    lidx_gather_args gather;
    lidx_query_args query;
    lidx_cache_desc cache_desc;
    lidx_cache_keys keys;
    lidx_cache_tables tables;
    lidx_cache_stats stats;
    lidx_cache *cache = NULL;
    int64_t sequence = 5;
    lidx_topk_desc topk;
    lidx_topk_args topk_args;
    lidx_merge_args merge;
    lidx_index_desc index_desc;
    lidx_index_args index_args;
    lidx_index_plan *index_plan = NULL;
    lidx_index_plan_info index_info;
    int32_t index;

    kernel.struct_size = sizeof(kernel);
    plan_info.struct_size = sizeof(plan_info);
    support.struct_size = sizeof(support);
    device.struct_size = sizeof(device);
    if (lidx_config_init(&config) != LIDX_OK || config.struct_size != 24 || config.device != -1) return 1;
    if (lidx_score_desc_init(&desc) != LIDX_OK || desc.struct_size != 168 || desc.kernel != NULL) return 2;
    if (lidx_score_args_init(&args) != LIDX_OK || args.struct_size != 128 || args.workspace != NULL) return 3;
    if (lidx_kernel_count() < 1) return 4;
    for (index = 0; index < lidx_kernel_count(); ++index)
        if (lidx_get_kernel_info(NULL, index, &kernel) != LIDX_OK || kernel.symbol == NULL) return 5;
    if (lidx_get_device_info(NULL, &device) != LIDX_ERR_NULL) return 6;
    if (lidx_supports(NULL, &desc, &support) != LIDX_ERR_NULL) return 7;
    if (lidx_plan_create(NULL, &desc, &plan) != LIDX_ERR_NULL || plan != NULL) return 8;
    if (lidx_get_plan_info(NULL, &plan_info) != LIDX_ERR_NULL) return 9;
    if (lidx_plan_workspace_bytes(NULL, &bytes) != LIDX_ERR_NULL) return 10;
    if (lidx_score_enqueue(NULL, NULL, &args, NULL) != LIDX_ERR_NULL) return 11;
    if (lidx_open(&config, NULL) != LIDX_ERR_NULL || lidx_last_error(NULL)[0] == '\0') return 12;
    if (lidx_driver_error(NULL) != 0 || lidx_status_string(LIDX_OK) == NULL || lidx_version() == NULL) return 13;
    if (lidx_pool_init(&pool) != LIDX_OK || pool.struct_size != 56 || pool.k_base != NULL) return 14;
    if (lidx_store_args_init(&store) != LIDX_OK || store.struct_size != 72 || store.rows != 0) return 15;
    if (lidx_gather_args_init(&gather) != LIDX_OK || gather.struct_size != 104 || gather.k_out != NULL) return 16;
    if (lidx_query_args_init(&query) != LIDX_OK || query.struct_size != 112 || query.q_out != NULL) return 17;
    if (lidx_store_enqueue(NULL, &pool, &store, NULL) != LIDX_ERR_NULL) return 18;
    if (lidx_gather_enqueue(NULL, &pool, &gather, NULL) != LIDX_ERR_NULL) return 19;
    if (lidx_query_enqueue(NULL, &query, NULL) != LIDX_ERR_NULL) return 20;
    if (lidx_cache_desc_init(&cache_desc) != LIDX_OK || cache_desc.struct_size != 40) return 21;
    if (lidx_cache_keys_init(&keys) != LIDX_OK || keys.struct_size != 40) return 22;
    if (lidx_cache_tables_init(&tables) != LIDX_OK || tables.struct_size != 64) return 23;
    stats.struct_size = sizeof(stats);
    if (lidx_cache_create(NULL, &cache_desc, &cache) != LIDX_ERR_NULL || cache != NULL) return 24;
    if (lidx_cache_add(NULL, &sequence) != LIDX_ERR_NULL || sequence != 5) return 25;
    if (lidx_cache_fork(NULL, 1, &sequence) != LIDX_ERR_NULL || lidx_cache_free(NULL, 1) != LIDX_ERR_NULL) return 26;
    if (lidx_cache_truncate(NULL, 1, 0) != LIDX_ERR_NULL) return 27;
    if (lidx_cache_length(NULL, 1, &sequence) != LIDX_ERR_NULL) return 28;
    if (lidx_cache_extend(NULL, &sequence, &index, 1, NULL) != LIDX_ERR_NULL) return 29;
    if (lidx_cache_append(NULL, 1, &keys, NULL) != LIDX_ERR_NULL) return 30;
    if (lidx_cache_store(NULL, 1, 0, &keys, NULL) != LIDX_ERR_NULL) return 31;
    if (lidx_cache_fill_tables(NULL, &tables, NULL) != LIDX_ERR_NULL) return 32;
    if (lidx_cache_fill_slots(NULL, &sequence, &index, 1, &sequence) != LIDX_ERR_NULL) return 33;
    if (lidx_cache_get_stats(NULL, &stats) != LIDX_ERR_NULL) return 34;
    if (lidx_topk_desc_init(&topk) != LIDX_OK || topk.struct_size != 112 || topk.k != 0) return 35;
    if (lidx_topk_args_init(&topk_args) != LIDX_OK || topk_args.struct_size != 112) return 36;
    if (lidx_topk_enqueue(NULL, &topk, &topk_args, NULL) != LIDX_ERR_NULL) return 37;
    if (lidx_topk_workspace_bytes(NULL, &topk, &bytes) != LIDX_ERR_NULL) return 38;
    if (lidx_merge_args_init(&merge) != LIDX_OK || merge.struct_size != 120 || merge.rows != 0) return 39;
    if (lidx_topk_merge_enqueue(NULL, &merge, NULL) != LIDX_ERR_NULL) return 40;
    if (lidx_index_desc_init(&index_desc) != LIDX_OK || index_desc.score.struct_size != 168) return 41;
    if (lidx_index_args_init(&index_args) != LIDX_OK || index_args.struct_size != 152) return 42;
    if (lidx_index_plan_create(NULL, &index_desc, &index_plan) != LIDX_ERR_NULL || index_plan != NULL) return 43;
    index_info.struct_size = sizeof(index_info);
    if (lidx_get_index_plan_info(NULL, &index_info) != LIDX_ERR_NULL) return 44;
    if (lidx_index_enqueue(NULL, NULL, &index_args, NULL) != LIDX_ERR_NULL) return 45;
    lidx_index_plan_destroy(index_plan);
    lidx_cache_destroy(cache);
    lidx_plan_destroy(plan);
    lidx_close(NULL);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * What docs/abi.md promises those who embed: "What outlives what", "What memory must be there", streams, failures; and
 * docs/topk.md, "Merging shards". Every buffer ends where it may, and in the emulator a read behind it faults.
 *
 * All codes are 1.0 and all weights 1 / (heads * depth): a key's score is its scale, that of its slot in the pool. */
#include <cuda.h>
#include <lidx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 64, DEPTH = 128, PAGE = 64, PAGE_BYTES = PAGE * (DEPTH + 4), PAGES = 16, TABLE = 4, K = 16 };
enum { ROOM = TABLE * PAGE };   /* keys of a request */

static lidx_context *ctx;
static int wrong;

static void expect(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "wrong: %s (%s)\n", what, lidx_last_error(ctx));
    ++wrong;
}
static void ok(lidx_status status) {
    if (status == LIDX_OK) return;
    fprintf(stderr, "%s\n", lidx_last_error(ctx));
    exit(1);
}
static void cuda(CUresult result) {
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "CUresult %d\n", (int)result);
    exit(1);
}
static CUdeviceptr at(const void *device) { return (CUdeviceptr)(uintptr_t)device; }
static void *device(const void *data, size_t bytes) {   /* zeros without data */
    CUdeviceptr memory;
    cuda(cuMemAlloc(&memory, bytes));
    cuda(data != NULL ? cuMemcpyHtoD(memory, data, bytes) : cuMemsetD8(memory, 0, bytes));
    return (void *)(uintptr_t)memory;
}
static void fetch(void *to, const void *from, size_t bytes) {
    cuda(cuCtxSynchronize());
    cuda(cuMemcpyDtoH(to, at(from), bytes));
}

static float scale_of(int slot) { return (float)(slot * 631 % (PAGES * PAGE) + 1); }   /* no two alike */
static void *make_pool(void) {
    static unsigned char pool[PAGES * PAGE_BYTES];
    int page, i;
    for (page = 0; page < PAGES; ++page) {
        memset(pool + page * PAGE_BYTES, 0x38, PAGE * DEPTH);
        for (i = 0; i < PAGE; ++i) {
            const float scale = scale_of(page * PAGE + i);
            memcpy(pool + page * PAGE_BYTES + PAGE * DEPTH + 4 * i, &scale, sizeof scale);
        }
    }
    return device(pool, sizeof pool);
}
static void *make_queries(int rows) {
    static unsigned char ones[32 * HEADS * DEPTH];
    memset(ones, 0x38, sizeof ones);
    return device(ones, (size_t)rows * HEADS * DEPTH);
}
static void *make_weights(int rows) {
    float weights[32 * HEADS];
    int i;
    for (i = 0; i < rows * HEADS; ++i) weights[i] = 1.0f / (HEADS * DEPTH);
    return device(weights, sizeof(float) * (size_t)rows * HEADS);
}
static void describe(lidx_score_desc *desc, int batch, int tokens, int rows) {
    desc->batch = batch, desc->max_tokens = tokens, desc->max_rows = rows;
    desc->heads = HEADS, desc->depth = DEPTH, desc->max_keys = ROOM;
    desc->page_size = PAGE, desc->num_pages = PAGES, desc->block_table_stride = TABLE;
    desc->k_page_stride = desc->k_scale_page_stride = PAGE_BYTES;
}

/* The k best of `keys` scores, the best first, then -1. */
static void best_of(const float *scores, int keys, int32_t best[K]) {
    int i, j;
    for (i = 0; i < K; ++i) {
        best[i] = -1;
        for (j = 0; j < keys; ++j) {
            const int left = i == 0 || scores[j] < scores[best[i - 1]];
            if (left && (best[i] < 0 || scores[j] > scores[best[i]])) best[i] = j;
        }
        if (best[i] < 0) break;
    }
    for (; i < K; ++i) best[i] = -1;
}

/* Decode of two tokens each, captured once. The plan goes before the first replay; lengths and tables change. */
static void replays(void) {
    enum { BATCH = 3, TOKENS = 2, ROWS = BATCH * TOKENS };
    static const int32_t lengths[3][BATCH] = {{256, 1, 65}, {0, -7, 64}, {2, 200, 128}};
    lidx_index_desc desc;
    lidx_index_plan_info info;
    lidx_index_args args;
    lidx_index_plan *plan = NULL;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    int step, request, row, i;
    ok(lidx_index_desc_init(&desc));
    describe(&desc.score, BATCH, TOKENS, ROWS);
    desc.score.row_map = LIDX_ROWS_FIXED, desc.score.flags = LIDX_FLAG_CAUSAL;
    desc.k = K, desc.sort = LIDX_SORT_SCORE;
    ok(lidx_index_plan_create(ctx, &desc, &plan));
    info.struct_size = sizeof info;
    ok(lidx_get_index_plan_info(plan, &info));
    ok(lidx_index_args_init(&args));
    args.q = make_queries(ROWS), args.q_scale = make_weights(ROWS), args.k_base = make_pool();
    args.k_scale_base = (const char *)args.k_base + PAGE * DEPTH;
    args.block_table = device(NULL, sizeof(int32_t) * BATCH * TABLE);
    args.context_lens = device(NULL, sizeof(int32_t) * BATCH);
    args.indices = device(NULL, sizeof(int32_t) * ROWS * K);
    args.workspace = device(NULL, info.workspace_bytes), args.workspace_bytes = info.workspace_bytes;
    cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    cuda(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(lidx_index_enqueue(ctx, plan, &args, stream));
    cuda(cuStreamEndCapture(stream, &graph));
    lidx_index_plan_destroy(plan);
    cuda(cuGraphInstantiate(&exec, graph, 0));
    for (step = 0; step < 3; ++step) {
        int32_t table[BATCH][TABLE], found[ROWS][K], best[K];
        float scores[ROOM];
        for (request = 0; request < BATCH; ++request)   /* entries behind the last key are never looked at */
            for (i = 0; i < TABLE; ++i)
                table[request][i] = i * PAGE < lengths[step][request] ? (request * TABLE + i * 5 + step) % PAGES : -99;
        cuda(cuMemcpyHtoD(at(args.block_table), table, sizeof table));
        cuda(cuMemcpyHtoD(at(args.context_lens), lengths[step], sizeof lengths[step]));
        cuda(cuGraphLaunch(exec, stream));
        fetch(found, args.indices, sizeof found);
        for (row = 0; row < ROWS; ++row) {
            const int keys = lengths[step][row / TOKENS] - TOKENS + row % TOKENS + 1;
            for (i = 0; i < keys; ++i) scores[i] = scale_of(table[row / TOKENS][i / PAGE] * PAGE + i % PAGE);
            best_of(scores, keys, best);
            expect(memcmp(found[row], best, sizeof best) == 0, "a replay's indices");
        }
    }
    cuda(cuGraphExecDestroy(exec));
    cuda(cuGraphDestroy(graph));
}

/* Chunks of 5, 0 and 9 tokens behind prefixes, and two rows of padding; q, weights and ids end with max_rows. The plan
 * was made with another context, which is closed. */
static void chunks(lidx_plan *plan, CUstream stream) {
    enum { BATCH = 3, ROWS = 16 };
    static const int32_t ids[ROWS] = {0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, -1, -1}, lengths[BATCH] = {75, 10, 129};
    static const int32_t first_rows[BATCH + 1] = {0, 5, 5, 14};
    static float scores[ROWS][ROOM];
    int32_t table[BATCH][TABLE];
    lidx_score_args args;
    int row, key, bad = 0;
    for (key = 0; key < BATCH * TABLE; ++key) table[key / TABLE][key % TABLE] = (key * 7 + 2) % PAGES;
    ok(lidx_score_args_init(&args));
    args.q = make_queries(ROWS), args.q_scale = make_weights(ROWS), args.k_base = make_pool();
    args.k_scale_base = (const char *)args.k_base + PAGE * DEPTH;
    args.block_table = device(table, sizeof table), args.context_lens = device(lengths, sizeof lengths);
    args.row_requests = device(ids, sizeof ids), args.scores = device(NULL, sizeof scores);
    ok(lidx_score_enqueue(ctx, plan, &args, stream));
    fetch(scores, args.scores, sizeof scores);
    for (row = 0; row < ROWS; ++row) {
        const int request = ids[row];
        const int keys = request < 0 ? 0 : lengths[request] - (first_rows[request + 1] - row) + 1;
        for (key = 0; key < ROOM; ++key)
            bad += scores[row][key] != (key < keys ? scale_of(table[request][key / PAGE] * PAGE + key % PAGE) : 0.0f);
    }
    expect(bad == 0, "scores by request ids");
}
static lidx_plan *plan_of_chunks(lidx_context *of) {
    lidx_score_desc desc;
    lidx_plan *plan = NULL;
    ok(lidx_score_desc_init(&desc));
    describe(&desc, 3, 9, 16);
    desc.row_map = LIDX_ROWS_REQUEST_IDS, desc.flags = LIDX_FLAG_CAUSAL, desc.score_stride = ROOM;
    ok(lidx_plan_create(of, &desc, &plan));
    return plan;
}

/* Keys 0 .. 191 of each request are one shard's, those from 192 on another's. */
static void shards(void) {
    enum { BATCH = 2, TOKENS = 2, ROWS = BATCH * TOKENS, SHARDS = 2, FIRST = 192 };
    static const int32_t lengths[BATCH] = {400, 193};
    float *gathered = device(NULL, sizeof(float) * SHARDS * ROWS * K), scores[2 * ROOM];
    int32_t *positions = device(NULL, sizeof(int32_t) * SHARDS * ROWS * K);
    int32_t table[SHARDS][BATCH][TABLE], row_lengths[ROWS], offsets[ROWS], found[ROWS][K], best[K];
    lidx_merge_args merge;
    int shard, row, key;
    for (shard = 0; shard < SHARDS; ++shard) {
        lidx_index_desc desc;
        lidx_index_plan_info info;
        lidx_index_args args;
        lidx_index_plan *plan = NULL;
        ok(lidx_index_desc_init(&desc));
        describe(&desc.score, BATCH, TOKENS, ROWS);
        desc.score.row_map = LIDX_ROWS_FIXED, desc.score.visibility = LIDX_SEE_ROW_LENGTH;
        desc.score.max_keys = shard == 0 ? FIRST : ROOM;
        desc.k = K, desc.index_kind = LIDX_INDEX_OFFSET;
        ok(lidx_index_plan_create(ctx, &desc, &plan));
        info.struct_size = sizeof info;
        ok(lidx_get_index_plan_info(plan, &info));
        for (key = 0; key < BATCH * TABLE; ++key)
            table[shard][key / TABLE][key % TABLE] = (key + shard * BATCH * TABLE) * 3 % PAGES;
        for (row = 0; row < ROWS; ++row) {   /* below 0: none; beyond max_keys: the shard's own */
            offsets[row] = shard * FIRST;
            row_lengths[row] = lengths[row / TOKENS] - TOKENS + row % TOKENS + 1 - offsets[row];
        }
        ok(lidx_index_args_init(&args));
        args.q = make_queries(ROWS), args.q_scale = make_weights(ROWS), args.k_base = make_pool();
        args.k_scale_base = (const char *)args.k_base + PAGE * DEPTH;
        args.block_table = device(table[shard], sizeof table[shard]);
        args.context_lens = device(row_lengths, sizeof row_lengths), args.offsets = device(offsets, sizeof offsets);
        args.indices = positions + shard * ROWS * K, args.top_scores = gathered + shard * ROWS * K;
        args.workspace = device(NULL, info.workspace_bytes), args.workspace_bytes = info.workspace_bytes;
        ok(lidx_index_enqueue(ctx, plan, &args, NULL));
        lidx_index_plan_destroy(plan);
    }
    ok(lidx_merge_args_init(&merge));
    merge.rows = ROWS, merge.shards = SHARDS, merge.k_in = merge.k = K, merge.sort = LIDX_SORT_SCORE;
    merge.scores = gathered, merge.score_row_stride = K, merge.score_shard_stride = ROWS * K;
    merge.positions = positions, merge.position_row_stride = K, merge.position_shard_stride = ROWS * K;
    merge.indices = device(NULL, sizeof found);
    ok(lidx_topk_merge_enqueue(ctx, &merge, NULL));
    fetch(found, merge.indices, sizeof found);
    for (row = 0; row < ROWS; ++row) {
        const int keys = lengths[row / TOKENS] - TOKENS + row % TOKENS + 1;
        for (key = 0; key < keys; ++key) {
            const int local = key < FIRST ? key : key - FIRST;
            scores[key] = scale_of(table[key >= FIRST][row / TOKENS][local / PAGE] * PAGE + local % PAGE);
        }
        best_of(scores, keys, best);
        expect(memcmp(found[row], best, sizeof best) == 0, "indices of two shards");
    }
}

/* A fault of anyone's breaks CUDA for the process; what needs no driver, and closing, goes on. */
static void faults(void) {
    lidx_plan *plan = plan_of_chunks(ctx);
    lidx_score_args args;
    static const int32_t ids[16] = {0}, lengths[3] = {64, 64, 64};
    ok(lidx_score_args_init(&args));
    args.q = make_queries(16), args.q_scale = make_weights(16), args.k_base = make_pool();
    args.k_scale_base = (const char *)args.k_base + PAGE * DEPTH;
    args.block_table = device(NULL, sizeof(int32_t) * 3 * TABLE), args.context_lens = device(lengths, sizeof lengths);
    args.row_requests = device(ids, sizeof ids), args.scores = (void *)(uintptr_t)0x1000;
    (void)lidx_score_enqueue(ctx, plan, &args, NULL);   /* a GPU tells later, the emulator here */
    expect(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS, "the fault is told");
    args.scores = (void *)(uintptr_t)args.q;
    expect(lidx_score_enqueue(ctx, plan, &args, NULL) == LIDX_ERR_DRIVER, "an enqueue behind a fault");
    expect(lidx_driver_error(ctx) == CUDA_ERROR_ILLEGAL_ADDRESS, "the fault's number");
    lidx_plan_destroy(plan);
    plan = plan_of_chunks(ctx);
    lidx_plan_destroy(plan);
    lidx_close(ctx);
    ctx = NULL;
    expect(lidx_open(NULL, &ctx) == LIDX_ERR_DRIVER && ctx == NULL, "opening behind a fault");
}

int main(void) {
    static const CUstream streams[3] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    CUdevice gpu;
    CUcontext context;
    lidx_context *first = NULL;
    lidx_plan *plan;
    int i;
    cuda(cuInit(0));
    cuda(cuDeviceGet(&gpu, 0));
    cuda(cuDevicePrimaryCtxRetain(&context, gpu));
    cuda(cuCtxSetCurrent(context));
    ok(lidx_open(NULL, &first));
    plan = plan_of_chunks(first);
    cuda(cuCtxSetCurrent(NULL));
    lidx_close(first);   /* whatever is current */
    cuda(cuCtxSetCurrent(context));
    ok(lidx_open(NULL, &ctx));
    for (i = 0; i < 3; ++i) chunks(plan, streams[i]);
    lidx_plan_destroy(plan);
    replays();
    shards();
    faults();
    return wrong != 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The README's example, run: a C99 program with a CUDA context of its own scores a paged cache and checks every cell.
 *
 * All codes are 1.0 (e4m3 0x38) or, for odd rows, -1.0 in the first 32 of 64 heads, whose dot products relu drops:
 *     score[row, key] = k_scale[key] * (heads that count) * 128 * q_scale[row]     with heads 64 or 32
 * and all factors powers of two times a small integer, so that the product below is exact. */
#include <cuda.h>
#include <lidx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lidx_status start(void);
lidx_status score(const void *q, const float *q_scale, const void *pool, const int32_t *block_table,
                  const int32_t *context_lens, const int32_t *cu_seqlens_q, float *scores, void *stream);
void stop(void);

enum {
    BATCH = 8, ROWS = 16, HEADS = 64, DEPTH = 128, MAX_KEYS = 8192, PAGE = 64, PAGES = 1024, TABLE = 128,
    PAGE_BYTES = PAGE * 132
};
static const float CANARY = -12345.0f;

static void check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: CUresult %d\n", call, (int)result);
    exit(1);
}

static CUdeviceptr upload(const void *data, size_t bytes) {
    CUdeviceptr device = 0;
    check(cuMemAlloc(&device, bytes), "cuMemAlloc");
    check(cuMemcpyHtoD(device, data, bytes), "cuMemcpyHtoD");
    return device;
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL) exit(1);
    return memory;
}

int main(void) {
    static const int32_t lens[BATCH] = {300, 1, 0, 64, 129, -5, 128, 77};
    static const int32_t cu_seqlens[BATCH + 1] = {0, 2, 3, 5, 7, 9, 11, 13, 15};
    unsigned char *q = allocate((size_t)ROWS * HEADS * DEPTH), *pool = allocate((size_t)PAGES * PAGE_BYTES);
    float *q_scale = allocate(sizeof(float) * ROWS * HEADS), *scores = allocate(sizeof(float) * ROWS * MAX_KEYS);
    int32_t *table = allocate(sizeof(int32_t) * BATCH * TABLE);
    CUdevice device;
    CUcontext context;
    CUdeviceptr d_scores;
    int row, head, key, request, i, wrong = 0, cells = 0;

    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");

    for (row = 0; row < ROWS; ++row)
        for (head = 0; head < HEADS; ++head) {
            memset(q + ((size_t)row * HEADS + head) * DEPTH, row % 2 && head < 32 ? 0xb8 : 0x38, DEPTH);
            q_scale[row * HEADS + head] = (float)(row + 1) / 16;
        }
    for (i = 0; i < PAGES; ++i) {
        float *page_scales = (float *)(void *)(pool + (size_t)i * PAGE_BYTES + PAGE * DEPTH);
        memset(pool + (size_t)i * PAGE_BYTES, 0x38, PAGE * DEPTH);
        for (key = 0; key < PAGE; ++key) page_scales[key] = (float)(i + 1 + key * 1024);
    }
    /* Pages from the end of the pool; entries past a request's length are garbage that must not be read. */
    for (request = 0; request < BATCH; ++request)
        for (i = 0; i < TABLE; ++i)
            table[request * TABLE + i] = i * PAGE < lens[request] ? PAGES - 1 - (request * 8 + i) : -1 - i * 1000003;
    for (i = 0; i < ROWS * MAX_KEYS; ++i) scores[i] = CANARY;

    d_scores = upload(scores, sizeof(float) * ROWS * MAX_KEYS);
    if (start() != LIDX_OK) return 1;
    if (score((void *)upload(q, (size_t)ROWS * HEADS * DEPTH), (float *)upload(q_scale, sizeof(float) * ROWS * HEADS),
              (void *)upload(pool, (size_t)PAGES * PAGE_BYTES),
              (int32_t *)upload(table, sizeof(int32_t) * BATCH * TABLE), (int32_t *)upload(lens, sizeof(lens)),
              (int32_t *)upload(cu_seqlens, sizeof(cu_seqlens)), (float *)d_scores, NULL) != LIDX_OK)
        return 1;
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    check(cuMemcpyDtoH(scores, d_scores, sizeof(float) * ROWS * MAX_KEYS), "cuMemcpyDtoH");
    stop();

    for (row = 0; row < ROWS; ++row) {
        for (request = 0; request < BATCH && row >= cu_seqlens[request + 1]; ++request) {}
        for (key = 0; key < MAX_KEYS; ++key) {
            float expected = CANARY;
            if (request < BATCH && key < lens[request]) {
                const int page = PAGES - 1 - (request * 8 + key / PAGE);
                expected = (float)(page + 1 + key % PAGE * 1024) * ((row % 2 ? 32 : 64) * 128 * (float)(row + 1) / 16);
                ++cells;
            }
            if (scores[row * MAX_KEYS + key] != expected && wrong++ < 10)
                fprintf(stderr, "row %d key %d: %g, expected %g\n", row, key, (double)scores[row * MAX_KEYS + key],
                        (double)expected);
        }
    }
    printf("%d cells scored, %d wrong\n", cells, wrong);
    return wrong != 0 || cells != 300 * 2 + 1 + 2 * 64 + 2 * 129 + 2 * 128 + 2 * 77;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The C entry point of `lidx bench --rival LIB.so`: what a shared library exports so that its kernels are timed beside
 * lidx's, on the same data, in the same run. Plain C; a rival needs this header and nothing else of lidx.
 *
 *     score[row, key] = key_scale[key] * sum_h relu(q[row, h] . key[key]) * q_scale[row, h]
 *
 * Calls, all from one thread, with the device's primary context current:
 *     lidx_rival_name()                               once
 *     lidx_rival_prepare(), lidx_rival_run() ..., lidx_rival_release()
 * Several prepared states live side by side (copies of a workload that take turns). What stands in the inputs never
 * changes between prepare and release; outputs do, and hold anything before a run. A run computes everything anew from
 * the inputs: what a user would have to launch whenever lengths, tables or queries change (schedules, metadata,
 * cleaning) belongs to run and is timed. What is done once per shape belongs to prepare.
 */
#ifndef LIDX_RIVAL_H
#define LIDX_RIVAL_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum LidxRivalWork {
    LIDX_RIVAL_PREFILL = 0,      /* scores: contiguous keys, row r sees the keys row_begin[r] .. row_end[r] - 1 */
    LIDX_RIVAL_DECODE = 1,       /* scores: paged keys, rows b * next_n .. b * next_n + next_n - 1 are request b's and
                                    each of them sees the keys 0 .. context_lens[b] - 1 */
    LIDX_RIVAL_TOPK = 2,         /* indices from scores that are given: row r sees the columns 0 .. row_end[r] - 1 */
    LIDX_RIVAL_DECODE_TOPK = 3,  /* as DECODE, then the indices of those scores */
    LIDX_RIVAL_PREFILL_TOPK = 4  /* as PREFILL, then the indices of those scores */
};

/* All pointers are device memory, 256-byte aligned, valid from prepare to release; null where a work has no such
 * operand. The struct itself is valid during the call only. */
typedef struct lidx_rival_case {
    uint32_t struct_size;         /* sizeof(lidx_rival_case) of the caller. A rival that was built with another size
                                     returns -1: it would read other fields than were written */
    int32_t work;                 /* LidxRivalWork */
    int32_t heads, depth;         /* score works: 64 or 32 mostly; 128. Else 0 */
    int32_t rows;                 /* batch * next_n (decode), query tokens (prefill), rows (top-k) */
    int32_t batch, next_n;        /* decode; else 0 */
    int32_t max_keys;             /* the longest row: context length, contiguous keys, or columns */
    int32_t page_size, num_pages; /* decode; else 0 */
    int32_t block_table_stride;   /* entries between requests; decode, else 0 */
    int32_t k;                    /* works with indices: 1 .. 4096, mostly 2048; else 0 */
    int32_t sm_count;             /* multiprocessors of the device */
    const uint8_t *q;             /* e4m3 codes [rows, heads, depth] */
    const float *q_scale;         /* fp32 weights [rows, heads] */
    const uint8_t *keys;          /* prefill: e4m3 codes [max_keys, depth] */
    const float *key_scale;       /* prefill: fp32 [max_keys] */
    const uint8_t *pool;          /* decode: [num_pages] pages; a page is page_size * depth codes, then page_size fp32
                                     scales, without padding */
    const int32_t *block_table;   /* decode: page ids [batch, block_table_stride] */
    const int32_t *context_lens;  /* decode: [batch] */
    const int32_t *row_begin;     /* prefill: [rows] */
    const int32_t *row_end;       /* [rows]; decode: context_lens of the row's request */
    float *scores;                /* out, fp32 [rows, score_stride], column = key; a TOPK work only reads it. Cells that
                                     a row does not see may be left, or written with anything: nobody reads them. Works
                                     with indices may use it as a workspace, or not at all */
    int64_t score_stride;         /* elements, a multiple of 256, max_keys or more */
    int32_t *indices;             /* out: [rows, k] columns, in any order; -1 where the row sees fewer than k keys */
} lidx_rival_case;

/* Name and version, e.g. "DeepGEMM 54e2261". Static storage. It stands in every row and every chart. */
const char *lidx_rival_name(void);
/* Allocates, builds tensor maps and so on; sets *state, which goes to run and release. 0: ready. Positive: this library
 * does not do this case (no error, release is not called). Negative: it failed; why stands on stderr. */
int lidx_rival_prepare(const lidx_rival_case *work, void **state);
/* Enqueues one run on `stream` (a CUstream), everything a user would have to run for it included, and returns without
 * waiting. 0: enqueued; else it failed. With --graph the stream is being captured. */
int lidx_rival_run(void *state, void *stream);
/* Frees what prepare allocated; nothing of the state runs any more. */
void lidx_rival_release(void *state);

#ifdef __cplusplus
}
#endif
#endif

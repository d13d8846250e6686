/* SPDX-License-Identifier: Apache-2.0
 *
 * lidx: the FP8 lightning indexer of DeepSeek-style sparse attention.
 *
 *     score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]
 *
 * A row is one query token of one request; it sees some of the request's keys (lidx_visibility). Keys live in a paged
 * FP8 (e4m3) cache. All device memory is the caller's; the library allocates none, synchronises
 * nothing and compiles nothing.
 *
 * Threads: one thread at a time per context. Plans are immutable and may be shared by any number of threads, each with
 * a context of its own. docs/abi.md has the rules: lifetimes, streams, graphs, what memory must be there, failures.
 *
 * Every function that can fail returns a lidx_status and leaves its outputs untouched on failure, except where
 * it says otherwise. lidx_last_error() then names the field, the value and the limit.
 */
#ifndef LIDX_H
#define LIDX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIDX_VERSION_MAJOR 0
#define LIDX_VERSION_MINOR 1
#define LIDX_VERSION_PATCH 0
/* The ABI number is the library's soname version: it changes when a struct or a function changes incompatibly. */
#define LIDX_ABI 1

#if defined(_WIN32)
#error "lidx supports Linux only"
#endif
#define LIDX_API __attribute__((visibility("default")))

/* Status codes. The values are pinned for ever, in groups by theme:
 * 1xx the call's arguments, 2xx the machine, 3xx the shape, 4xx the driver, 5xx a cache, 9xx lidx itself. */
typedef enum lidx_status {
    LIDX_OK = 0,
    LIDX_ERR_NULL = 100,             /* a required pointer is null */
    LIDX_ERR_STRUCT_SIZE = 101,      /* struct_size is not one that this version knows */
    LIDX_ERR_VALUE = 102,            /* a field is outside its limits */
    LIDX_ERR_ALIGNMENT = 103,        /* a pointer or stride is not aligned as documented */
    LIDX_ERR_WORKSPACE = 104,        /* workspace missing or too small */
    LIDX_ERR_NO_DRIVER = 200,        /* the driver library could not be loaded, lacks a symbol or cannot start */
    LIDX_ERR_NO_DEVICE = 201,        /* no device, or none that a kernel of this library serves */
    LIDX_ERR_NO_CONTEXT = 202,       /* no CUDA context is current, or another than the one opened with */
    LIDX_ERR_UNSUPPORTED = 300,      /* no kernel serves this shape on this device; the text says what exists */
    LIDX_ERR_DRIVER = 400,           /* a driver call failed; see lidx_driver_error() */
    LIDX_ERR_MODULE = 401,           /* an embedded kernel module could not be loaded */
    LIDX_ERR_OUT_OF_MEMORY = 402,    /* host memory ran out */
    LIDX_ERR_NO_PAGES = 500,         /* a cache's page pool has not enough free pages */
    LIDX_ERR_INTERNAL = 900          /* a defect in lidx */
} lidx_status;

typedef struct lidx_context lidx_context; /* a device with its loaded kernels */
typedef struct lidx_plan lidx_plan;       /* one shape class; immutable host memory, knows no pointer and no context */

/* Which arithmetic computed the dot products; it decides the error bound (docs/architecture.md, "Numerics"). */
typedef enum lidx_arithmetic {
    LIDX_ARITHMETIC_FP32 = 1,   /* fp32 fma in a fixed order: the generic kernel */
    LIDX_ARITHMETIC_SM90 = 2,   /* wgmma FP8: 13-bit window, results cut to 13 fraction bits */
    LIDX_ARITHMETIC_SM100 = 3,  /* tcgen05 FP8: 25-bit window, fp32 results */
    LIDX_ARITHMETIC_SM90_FAST = 4 /* wgmma FP8 with fp16 results and an fp16 head sum, with LIDX_FLAG_FAST only
                                     (docs/kernel-sm90.md, "Fast mode") */
} lidx_arithmetic;

/* ---- context ------------------------------------------------------------------------------------------- */

typedef struct lidx_config {
    size_t struct_size;        /* set by lidx_config_init() */
    const char *driver_path;   /* shared library that exports the CUDA driver API; NULL: $LIDX_DRIVER, else
                                  libcuda.so.1. tools/ptxemu's libptxemu.so is such a library. */
    int32_t device;            /* device ordinal whose primary context is retained and used while a call of this
                                  library lasts; -1 (default): the CUDA context current in the opening thread */
    uint32_t flags;            /* 0 */
} lidx_config;

/* Fills *config with defaults. LIDX_ERR_NULL if config is null. */
LIDX_API lidx_status lidx_config_init(lidx_config *config);

/* Loads the driver library and every embedded kernel that the device can run. config may be NULL (defaults).
 * On failure *out is set to NULL and lidx_last_error(NULL) holds this thread's message. LIDX_ERR_NO_DRIVER: the library
 * is missing, lacks a symbol or cannot start; LIDX_ERR_NO_DEVICE: no such device, or none that a kernel serves;
 * LIDX_ERR_NO_CONTEXT: device = -1 and no context is current; LIDX_ERR_MODULE, LIDX_ERR_DRIVER: the driver refused. */
LIDX_API lidx_status lidx_open(const lidx_config *config, lidx_context **out);

/* Unloads the kernels. No work enqueued through ctx may be in flight, no graph that captured such work may be launched
 * any more, and caches of it are destroyed; plans stay good. NULL is allowed. */
LIDX_API void lidx_close(lidx_context *ctx);

typedef struct lidx_device_info {
    size_t struct_size;          /* set by the caller to sizeof(lidx_device_info) */
    char name[128];
    char driver_path[256];       /* what was loaded */
    int32_t ordinal;
    int32_t compute_capability;  /* major * 10 + minor */
    int32_t multiprocessors;
    int32_t driver_version;      /* as cuDriverGetVersion reports it, for example 13000 */
} lidx_device_info;
LIDX_API lidx_status lidx_get_device_info(lidx_context *ctx, lidx_device_info *info);

/* The kernels inside the library, in order of preference; needs no device. */
typedef struct lidx_kernel_info {
    size_t struct_size;          /* set by the caller to sizeof(lidx_kernel_info) */
    const char *symbol;          /* static; for example "sm100_score_h64" */
    const char *architectures;   /* static, comma separated; for example "sm_100f" */
    int32_t arithmetic;          /* lidx_arithmetic */
    int32_t heads;               /* 0: any number from 1 to 128 */
    int32_t depth;               /* the largest */
    int32_t depth_step;          /* multiples of it up to depth are served */
    int32_t tile_keys;           /* keys per tile */
    int32_t tile_tokens;         /* query tokens per tile */
    int32_t threads;             /* per CTA */
    int32_t shared_bytes;        /* dynamic shared memory, largest launch */
    int32_t shared_bytes_decode; /* dynamic shared memory of a launch with a single token tile */
    int32_t tmem_columns;        /* Tensor Memory columns allocated per CTA, 0 where there is none */
    int32_t registers;           /* per thread; 0 without a context that loaded the kernel, and on the emulator */
} lidx_kernel_info;
LIDX_API int32_t lidx_kernel_count(void);
/* ctx may be NULL (then registers = 0). LIDX_ERR_VALUE if index is outside [0, lidx_kernel_count()). */
LIDX_API lidx_status lidx_get_kernel_info(lidx_context *ctx, int32_t index, lidx_kernel_info *info);

/* ---- shape, support, plan ------------------------------------------------------------------------------ */

enum {
    /* Device-side check of page ids: a page id outside [0, num_pages) inside a request's length sets the first
     * 32-bit word of the workspace to 1 (its cells are dead). Needs a workspace; the caller zeroes the word. */
    LIDX_FLAG_CHECK = 1u << 0,
    /* With LIDX_SEE_REQUEST_LENGTH: row j of a request's n rows sees context_lens - n + j + 1 tokens, so that the last
     * row sees all of them and each row one token more than the row before it. */
    LIDX_FLAG_CAUSAL = 1u << 1,
    /* Dead columns 0 .. score_columns - 1 of every row that belongs to a request are written -inf, in the same launch.
     * Without it dead cells stay as they were. */
    LIDX_FLAG_FILL = 1u << 2,
    /* The score of a key is in column key - begin, where begin is the first key that the row sees (row_begin). */
    LIDX_FLAG_RELATIVE_COLUMNS = 1u << 3,
    /* Programmatic dependent launch: the launch may overlap the end of the kernel before it on the stream, whose
     * results it waits for before it reads; a kernel launched after it with the same attribute may do likewise. Kernels
     * below compute capability 9.0, and generic_score, have nothing to overlap and run as without it. */
    LIDX_FLAG_PDL = 1u << 4,
    /* The fast mode where a kernel has one: LIDX_ARITHMETIC_SM90_FAST, whose error is larger and stated, and in which
     * nothing can overflow (docs/kernel-sm90.md). It serves compute capability 9.0, 64 and 32 heads, depth 128, pages
     * of multiples of 16 keys, and max_tokens and max_rows of 12 (64 heads) or 24 (32 heads) or more; every other shape
     * is computed as without the flag. lidx_supports() says which it is, and why, a plan's arithmetic names it. */
    LIDX_FLAG_FAST = 1u << 5
};

/* Which rows of q, q_scale and scores are request b's. Rows that are no request's are never written, and of a request's
 * rows only the first max_tokens are its own. */
typedef enum lidx_row_map {
    LIDX_ROWS_CU_SEQLENS = 0,    /* rows cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1 */
    LIDX_ROWS_FIXED = 1,         /* rows b * max_tokens .. (b + 1) * max_tokens - 1, as far as max_rows reaches */
    LIDX_ROWS_REQUEST_IDS = 2    /* the rows whose row_requests is b. As unsigned numbers row_requests does not
                                    decrease: padding rows (-1, or anything from batch on) come last, no request's */
} lidx_row_map;

/* Which keys a row sees. A length counts tokens: with r = compress_ratio a row that sees t tokens sees the keys
 * 0 .. floor(t / r) - 1, that is, position i sees key j if i >= r * j + r - 1. Negative lengths and end < begin see
 * nothing; whatever lies beyond max_keys or beyond the width of a block table is not seen. */
typedef enum lidx_visibility {
    LIDX_SEE_REQUEST_LENGTH = 0, /* context_lens[b] tokens, or fewer with LIDX_FLAG_CAUSAL */
    LIDX_SEE_ROW_LENGTH = 1,     /* context_lens[row] tokens */
    LIDX_SEE_WINDOW = 2          /* the keys row_begin[row] .. row_end[row] - 1 of its request */
} lidx_visibility;

typedef enum lidx_int_type { LIDX_INT32 = 0, LIDX_INT64 = 1 } lidx_int_type;
/* LIDX_FP16 only where it is said: keys, queries and weights before they are quantised or folded. */
typedef enum lidx_float_type { LIDX_FP32 = 0, LIDX_BF16 = 1, LIDX_FP16 = 2 } lidx_float_type;

/* Keys of page p, slot j: codes at k_base + p * k_page_stride + j * depth, scale at
 * k_scale_base + p * k_scale_page_stride + j * 4. That covers
 *   block-split   one pool; page = page_size * depth bytes of codes, then page_size fp32 scales
 *   split pools   codes and scales in two pools with pitches, and perhaps block tables, of their own
 *   contiguous    page_size = 0: request b's keys are page b (no block table); k_page_stride between requests
 * Pools of several layers: the bases point at the layer, the strides step over all layers.
 *
 * All zeros but sizes and strides is the plain case: rows by cu_seqlens_q, one int32 length per request that all its
 * rows see, fp32 weights without gaps, fp32 scores, dead cells untouched. */
typedef struct lidx_score_desc {
    size_t struct_size;            /* set by lidx_score_desc_init() */
    uint32_t flags;                /* LIDX_FLAG_* */

    /* rows */
    int32_t row_map;               /* lidx_row_map */
    int32_t batch;                 /* requests, 0 .. 65536 (0: enqueue does nothing) */
    int32_t max_rows;              /* rows of q, q_scale and scores: an upper bound of what the row map uses. All of q's
                                      must be there: rows beyond what is used are read, too, and show nowhere */
    int32_t max_tokens;            /* upper bound of query tokens per request; LIDX_ROWS_FIXED: their number */
    int32_t heads;                 /* 1 or more */
    int32_t depth;                 /* codes per key and head, 1 or more */

    /* who sees what */
    int32_t visibility;            /* lidx_visibility */
    int32_t length_type;           /* lidx_int_type of context_lens, row_begin and row_end */
    int32_t compress_ratio;        /* tokens per key, 1 .. 512; 0 means 1. 0 or 1 with LIDX_SEE_WINDOW */
    int64_t max_keys;              /* upper bound of keys per request, 0 .. 65535 * 128; sizes the launch grid.
                                      Contiguous: so many keys and scales must be there, whatever the lengths */

    /* keys */
    int32_t page_size;             /* keys per page; 0: contiguous */
    int32_t max_sms;               /* the launch has at most so many CTAs; 0: as many as are useful */
    int64_t num_pages;             /* pages in the pool, 1 .. 2^31 - 1 (contiguous: requests in the buffer, >= batch) */
    int64_t scale_num_pages;       /* pages in the scale pool, 1 .. 2^31 - 1; 0: num_pages */
    int64_t k_page_stride;         /* bytes, a multiple of 16, < 2^40, >= page_size * depth (or max_keys * depth) */
    int64_t k_scale_page_stride;   /* bytes, a multiple of 4, < 2^40, >= page_size * 4 (or max_keys * 4) */
    int64_t block_table_stride;    /* entries per request row of the block table; a length above
                                      block_table_stride * page_size is clamped to it. 1 or more; contiguous: ignored */
    int64_t scale_block_table_stride; /* of the scale pool's own block table, which limits lengths, too; 0: it has none,
                                      page p of the scales belongs to page p of the codes. 0 where contiguous */

    /* weights: one per row and head, or the product of two factors */
    int32_t weight_type;           /* lidx_float_type of q_scale */
    int32_t weight2_type;          /* lidx_float_type of q_scale2 */
    int64_t weight_stride;         /* elements between rows of q_scale, >= heads; 0: heads */
    int64_t weight2_stride;        /* elements between rows of q_scale2, >= heads; 0: there is no second factor */

    /* scores */
    int32_t score_type;            /* lidx_float_type; bf16: the fp32 score rounded to nearest even */
    int32_t reserved;              /* 0 */
    int64_t score_columns;         /* columns of a row that are lidx's; 0: max_keys. At least max_keys, but with
                                      LIDX_FLAG_RELATIVE_COLUMNS any number from 1: wider windows are cut to it.
                                      Up to 65535 * 128 */
    int64_t score_stride;          /* elements between rows of scores, >= score_columns */
    const char *kernel;            /* debug: force the kernel of this symbol; NULL: the best one */
} lidx_score_desc;

/* Fills *desc with zeros and its struct_size. */
LIDX_API lidx_status lidx_score_desc_init(lidx_score_desc *desc);

typedef struct lidx_support {
    size_t struct_size;      /* set by the caller to sizeof(lidx_support) */
    const char *symbol;      /* static: the kernel that serves the shape; NULL if none */
    int32_t arithmetic;      /* lidx_arithmetic, 0 if none */
    char reason[512];        /* why no kernel serves it, or why a faster one does not; "" if the best one does */
} lidx_support;

/* Says which kernel serves a shape on this context's device. LIDX_OK also when none does or desc.kernel cannot be had
 * (symbol NULL, reason set); an invalid desc (negative size and the like) is an error. */
LIDX_API lidx_status lidx_supports(lidx_context *ctx, const lidx_score_desc *desc, lidx_support *support);

/* Makes a plan. desc and its strings need not outlive the call. batch, max_rows, max_tokens or max_keys of 0 make a
 * plan whose enqueue launches nothing (max_keys of 0 with LIDX_FLAG_FILL: nothing but the fill of score_columns).
 * LIDX_ERR_VALUE or LIDX_ERR_ALIGNMENT: a field outside its limits, or a forced kernel that does not exist;
 * LIDX_ERR_UNSUPPORTED: no kernel, or not the forced one, serves the shape on this device. On failure *out is
 * untouched. Calls no driver function. */
LIDX_API lidx_status lidx_plan_create(lidx_context *ctx, const lidx_score_desc *desc, lidx_plan **out);
/* At any time after the last enqueue has returned: launches and graphs have copies. NULL is allowed. */
LIDX_API void lidx_plan_destroy(lidx_plan *plan);

typedef struct lidx_plan_info {
    size_t struct_size;        /* set by the caller to sizeof(lidx_plan_info) */
    const char *symbol;        /* static */
    int32_t arithmetic;        /* lidx_arithmetic */
    uint32_t grid[3];          /* CTAs (docs/abi.md); zeros: nothing to launch */
    uint32_t block[3];
    uint32_t shared_bytes;     /* dynamic shared memory of the launch */
    size_t workspace_bytes;    /* 0 unless LIDX_FLAG_CHECK */
} lidx_plan_info;
LIDX_API lidx_status lidx_get_plan_info(const lidx_plan *plan, lidx_plan_info *info);
LIDX_API lidx_status lidx_plan_workspace_bytes(const lidx_plan *plan, size_t *bytes);

/* ---- enqueue ------------------------------------------------------------------------------------------- */

/* Device pointers. Lengths, windows, row maps and tables may hold anything: what leads outside the limits is clamped,
 * and page ids outside their pool make their cells dead. A row's keys are those that lidx_visibility gives it; its dead
 * cells are never written without LIDX_FLAG_FILL. Arrays are as large as their shapes say, in the plan's bounds. But
 * block-table entries past the last key that any row sees are never read, and pages wholly beyond it neither; one that
 * has such a key is there as a whole. A pointer that the plan has no use for must be null. */
typedef struct lidx_score_args {
    size_t struct_size;            /* set by lidx_score_args_init() */
    const void *q;                 /* e4m3 codes [max_rows, heads, depth], 16-byte aligned */
    const void *q_scale;           /* weights [max_rows, heads], weight_type, weight_stride; aligned to its type */
    const void *q_scale2;          /* [max_rows, heads], weight2_type, weight2_stride, aligned to its type; the
                                      weight is the fp32 product of both. NULL if and only if weight2_stride = 0 */
    const void *k_base;            /* 16-byte aligned */
    const void *k_scale_base;      /* fp32, 4-byte aligned */
    const void *block_table;       /* int32 or uint32 page ids [batch, block_table_stride]; NULL if and only if
                                      page_size = 0 */
    const void *scale_block_table; /* same type [batch, scale_block_table_stride]; NULL if and only if that is 0 */
    const void *context_lens;      /* [batch] or, with LIDX_SEE_ROW_LENGTH, [max_rows]; LIDX_SEE_WINDOW: NULL */
    const void *row_begin;         /* [max_rows] with LIDX_SEE_WINDOW, else NULL */
    const void *row_end;           /* [max_rows] with LIDX_SEE_WINDOW, else NULL */
    const int32_t *cu_seqlens_q;   /* [batch + 1] with LIDX_ROWS_CU_SEQLENS, non-decreasing, first 0; else NULL */
    const int32_t *row_requests;   /* [max_rows] with LIDX_ROWS_REQUEST_IDS, else NULL */
    void *scores;                  /* [max_rows, score_stride], score_type, aligned to its type */
    void *workspace;               /* 16-byte aligned; may be NULL if the plan needs none */
    size_t workspace_bytes;
} lidx_score_args;

/* Fills *args with zeros and its struct_size. */
LIDX_API lidx_status lidx_score_args_init(lidx_score_args *args);

/* Enqueues the scores of one plan on a CUstream (NULL: the legacy default stream). Validates, encodes the tensor maps
 * on its own stack and launches; it allocates nothing, reads no device memory, synchronises nothing and can be captured
 * in a CUDA graph. LIDX_ERR_NULL, LIDX_ERR_ALIGNMENT, LIDX_ERR_WORKSPACE, LIDX_ERR_VALUE (a pointer that the
 * plan has no use for): args; LIDX_ERR_NO_CONTEXT: opened with device = -1 and another CUDA context is current;
 * LIDX_ERR_UNSUPPORTED: the plan was made for another kind of device, whose kernel this one cannot run;
 * LIDX_ERR_DRIVER: a driver call failed, also where earlier work has broken the CUDA context. */
LIDX_API lidx_status lidx_score_enqueue(lidx_context *ctx, const lidx_plan *plan, const lidx_score_args *args,
                                        void *stream);

/* ---- cache: store, gather, query ----------------------------------------------------------------------- */

enum {
    LIDX_FLAG_ROTATE = 1u << 16,     /* store, query: Hadamard rotation times depth^-0.5 before quantisation */
    LIDX_FLAG_ROTATE_ROUND = 1u << 19, /* with LIDX_FLAG_ROTATE: what it gives is rounded to the type of its input, as a
                                          rotation that returns that type leaves it */
    LIDX_FLAG_POW2_SCALE = 1u << 17, /* store, query: scales rounded up to a power of two (ue8m0, stored as fp32) */
    LIDX_FLAG_BYTE_SLOTS = 1u << 18  /* store: slots are byte offsets, two arrays of them */
};

/* Where keys live: page p, slot j as lidx_score_desc has it. The memory is the caller's; all offsets are 64-bit. */
typedef struct lidx_pool {
    size_t struct_size;            /* set by lidx_pool_init() */
    void *k_base;                  /* codes, 16-byte aligned */
    void *k_scale_base;            /* fp32 scales, 4-byte aligned */
    int32_t depth;                 /* store: 64 or 128; gather: a multiple of 16 up to 128 */
    int32_t page_size;             /* keys per page, 1 or more */
    int64_t num_pages;             /* 1 .. 2^31 - 1 */
    int64_t k_page_stride;         /* bytes, a multiple of 16, >= page_size * depth, < 2^40 */
    int64_t k_scale_page_stride;   /* bytes, a multiple of 4, >= page_size * 4, < 2^40 */
} lidx_pool;

/* Fills *pool with zeros and its struct_size. */
LIDX_API lidx_status lidx_pool_init(lidx_pool *pool);

/* Quantise-and-store. Per row of `depth` elements, in fp32, round to nearest even (docs/cache.md has the order of the
 * rotation's additions): amax = max |x|, at least 1e-4; scale = amax / 448, rounded up to a power of two with
 * LIDX_FLAG_POW2_SCALE; codes = e4m3(x / scale), nearest even, saturating at 448. A NaN anywhere makes the key's scale
 * and codes NaN; an infinity makes the scale infinite, its own code NaN and the others zero.
 *
 * Row r goes to slot_mapping[r] = page * page_size + slot. -1 skips the row; a slot outside the pool is skipped, too,
 * and with LIDX_FLAG_CHECK sets the first 32-bit word of the workspace to 1 (the caller zeroes it). Rows with the same
 * slot: one of them, unspecified which. keys may hold more than `rows` rows; those beyond are not read.
 *
 * With LIDX_FLAG_BYTE_SLOTS slot_mapping[r] is the byte offset of the codes from k_base and scale_slot_mapping[r] that
 * of the scale from k_scale_base; both multiples of 4, inside num_pages * k_page_stride and num_pages *
 * k_scale_page_stride bytes. A row whose slot_mapping is -1 is skipped. */
typedef struct lidx_store_args {
    size_t struct_size;                 /* set by lidx_store_args_init() */
    uint32_t flags;                     /* LIDX_FLAG_ROTATE, _ROTATE_ROUND, _POW2_SCALE, _BYTE_SLOTS, _CHECK */
    int32_t key_type;                   /* lidx_float_type, LIDX_FP16 too */
    int32_t rows;                       /* entries of slot_mapping; 0: nothing to do */
    int64_t key_stride;                 /* elements between rows of keys, depth or more */
    const void *keys;                   /* [rows, key_stride], aligned to an element */
    const int64_t *slot_mapping;        /* [rows], 8-byte aligned */
    const int64_t *scale_slot_mapping;  /* [rows], 8-byte aligned; NULL unless LIDX_FLAG_BYTE_SLOTS */
    void *workspace;                    /* 16 bytes, 16-byte aligned, with LIDX_FLAG_CHECK; else it may be NULL */
    size_t workspace_bytes;
} lidx_store_args;
LIDX_API lidx_status lidx_store_args_init(lidx_store_args *args);

/* Enqueues one launch on a CUstream (NULL: the legacy default stream). Like every enqueue of this library it allocates
 * nothing, reads no device memory, synchronises nothing and can be captured in a CUDA graph; between replays slots and
 * keys may change. LIDX_ERR_NULL, _STRUCT_SIZE, _VALUE, _ALIGNMENT, _WORKSPACE: pool and args; LIDX_ERR_UNSUPPORTED:
 * the depth; LIDX_ERR_NO_CONTEXT, LIDX_ERR_DRIVER as for lidx_score_enqueue(). */
LIDX_API lidx_status lidx_store_enqueue(lidx_context *ctx, const lidx_pool *pool, const lidx_store_args *args,
                                        void *stream);

/* Gather paged keys into contiguous buffers. Request b fills rows cu_seqlens_k[b] .. cu_seqlens_k[b + 1] - 1 with
 * its keys key_begin[b], key_begin[b] + 1, ... Bytes are copied as they are. A row stays untouched where its key is
 * at or beyond context_lens[b] or the table's width, or its page id is outside the pool; the last also sets the word of
 * the workspace with LIDX_FLAG_CHECK. Rows from max_rows on do not exist. Table entries that no gathered key lies in
 * are not read. */
typedef struct lidx_gather_args {
    size_t struct_size;            /* set by lidx_gather_args_init() */
    uint32_t flags;                /* LIDX_FLAG_CHECK */
    int32_t batch;                 /* 0 .. 2^31 - 2; 0: nothing to do */
    int32_t max_rows;              /* rows of k_out and k_scale_out; 0: nothing to do */
    int64_t block_table_stride;    /* entries per request, 1 or more */
    const int32_t *block_table;    /* [batch, block_table_stride], compared unsigned with num_pages */
    const int32_t *cu_seqlens_k;   /* [batch + 1], non-decreasing, first 0 */
    const int32_t *key_begin;      /* [batch], or NULL: 0 */
    const int32_t *context_lens;   /* [batch], or NULL: the table's width */
    void *k_out;                   /* row r at k_out + r * k_out_stride, 16-byte aligned */
    int64_t k_out_stride;          /* bytes, a multiple of 16, depth or more */
    float *k_scale_out;            /* [max_rows], 4-byte aligned */
    void *workspace;               /* 16 bytes, 16-byte aligned, with LIDX_FLAG_CHECK; else it may be NULL */
    size_t workspace_bytes;
} lidx_gather_args;
LIDX_API lidx_status lidx_gather_args_init(lidx_gather_args *args);
/* Enqueues one launch; what is said of lidx_store_enqueue() holds here. */
LIDX_API lidx_status lidx_gather_enqueue(lidx_context *ctx, const lidx_pool *pool, const lidx_gather_args *args,
                                         void *stream);

/* The query side: q[r, h] is quantised like a key, and its scale folded into the head's weight,
 *     weights_out[r, h] = (weights[r, h] * q_scale) * factor
 * two fp32 products, each rounded, then once more to bf16 if that is asked for: what lidx_score_args.q_scale takes. */
typedef struct lidx_query_args {
    size_t struct_size;            /* set by lidx_query_args_init() */
    uint32_t flags;                /* LIDX_FLAG_ROTATE, _ROTATE_ROUND, _POW2_SCALE */
    int32_t rows;                  /* 0: nothing to do; rows * heads up to 2^31 - 1 */
    int32_t heads;                 /* 1 or more */
    int32_t depth;                 /* 64 or 128 */
    int32_t q_type;                /* lidx_float_type, LIDX_FP16 too */
    int32_t weight_type;           /* lidx_float_type, LIDX_FP16 too */
    int32_t weight_out_type;       /* LIDX_FP32 or LIDX_BF16 */
    float factor;                  /* 0 (default): heads^-0.5 * depth^-0.5, rounded once from double */
    int64_t q_row_stride;          /* elements between rows of q; 0: heads * q_head_stride */
    int64_t q_head_stride;         /* elements between heads; 0: depth */
    int64_t weight_stride;         /* elements between rows of weights; 0: heads */
    int64_t weight_out_stride;     /* elements between rows of weights_out; 0: heads */
    const void *q;                 /* aligned to an element */
    const void *weights;           /* [rows, heads], aligned to an element; NULL: ones */
    void *q_out;                   /* [rows, heads, depth] e4m3 codes, 16-byte aligned */
    void *weights_out;             /* [rows, heads], aligned to an element; NULL: none */
    float *q_scale_out;            /* [rows, heads], the scales alone, 4-byte aligned; NULL: none */
} lidx_query_args;
LIDX_API lidx_status lidx_query_args_init(lidx_query_args *args);
/* Enqueues one launch; what is said of lidx_store_enqueue() holds here. */
LIDX_API lidx_status lidx_query_enqueue(lidx_context *ctx, const lidx_query_args *args, void *stream);

/* ---- lidx_cache: a page pool for those who have no engine ------------------------------------------------- */

/* Sequences with block tables over one pool of pages, in the caller's device memory; the bookkeeping is host memory.
 * A page may belong to several sequences (fork); it is copied when one of them writes into it, and free again when none
 * has it. docs/cache.md shows the whole loop.
 *
 * Threads: one thread at a time per cache, and per context. Streams: work that a cache enqueues must run in the order
 * of the calls; use one stream, or order several by events. A page that one call frees may be given out by the next,
 * so scoring that still reads it must be ordered before the store that reuses it, which one stream does.
 * Capture: extend, append and store bake the page ids of the moment into a graph. What replays with new tables is
 * lidx_store_enqueue() with slots from lidx_cache_fill_slots().
 * Errors are told by lidx_last_error() of the cache's context. A failing call changes nothing. */
typedef struct lidx_cache lidx_cache;

typedef struct lidx_cache_desc {
    size_t struct_size;            /* set by lidx_cache_desc_init() */
    const lidx_pool *pool;         /* of layer 0; copied. depth 64 or 128 */
    int32_t layers;                /* layers that share the page ids, 1 .. 1024; 0 means 1 */
    uint32_t flags;                /* 0 */
    int64_t k_layer_stride;        /* bytes from a layer's k_base to the next one's, a multiple of 16; layers 1: any */
    int64_t k_scale_layer_stride;  /* bytes from k_scale_base to the next layer's, a multiple of 4; layers 1: any */
} lidx_cache_desc;
LIDX_API lidx_status lidx_cache_desc_init(lidx_cache_desc *desc);

/* ctx must outlive the cache. No device memory is allocated or touched. On failure *out is untouched. */
LIDX_API lidx_status lidx_cache_create(lidx_context *ctx, const lidx_cache_desc *desc, lidx_cache **out);
LIDX_API void lidx_cache_destroy(lidx_cache *cache);

/* An empty sequence. Numbers are never 0 and not used again, so that a freed one is noticed (LIDX_ERR_VALUE). */
LIDX_API lidx_status lidx_cache_add(lidx_cache *cache, int64_t *sequence);
/* A sequence of the same keys; all pages are shared, the partly filled last one too. Takes no page. */
LIDX_API lidx_status lidx_cache_fork(lidx_cache *cache, int64_t sequence, int64_t *child);
LIDX_API lidx_status lidx_cache_free(lidx_cache *cache, int64_t sequence);
/* Drops what lies behind the first `length` tokens, for example rejected speculative ones. */
LIDX_API lidx_status lidx_cache_truncate(lidx_cache *cache, int64_t sequence, int64_t length);
LIDX_API lidx_status lidx_cache_length(lidx_cache *cache, int64_t sequence, int64_t *length);

/* Grows `count` different sequences by tokens[i] (0 or more) each, all or none: LIDX_ERR_NO_PAGES if the pool has not
 * enough free pages. A shared last page that is written into is copied, on the stream, in all layers. The new slots
 * hold whatever was there until they are stored. */
LIDX_API lidx_status lidx_cache_extend(lidx_cache *cache, const int64_t *sequences, const int32_t *tokens,
                                       int32_t count, void *stream);

/* Keys of consecutive tokens of one sequence; quantised as lidx_store_enqueue() does it. */
typedef struct lidx_cache_keys {
    size_t struct_size;            /* set by lidx_cache_keys_init() */
    uint32_t flags;                /* LIDX_FLAG_ROTATE, _ROTATE_ROUND, _POW2_SCALE */
    int32_t key_type;              /* lidx_float_type, LIDX_FP16 too */
    int32_t rows;
    int32_t layer;                 /* 0 .. layers - 1 */
    int64_t key_stride;            /* elements between rows of keys, depth or more */
    const void *keys;              /* device, [rows, key_stride], aligned to an element */
} lidx_cache_keys;
LIDX_API lidx_status lidx_cache_keys_init(lidx_cache_keys *keys);

/* Extends a sequence by keys->rows tokens and stores their keys of one layer; one launch per 512 pages. */
LIDX_API lidx_status lidx_cache_append(lidx_cache *cache, int64_t sequence, const lidx_cache_keys *keys, void *stream);
/* Stores keys at positions first .. first + rows - 1, which the sequence has: the other layers after an append, or all
 * after an extend. LIDX_ERR_VALUE where such a position lies in a shared page. */
LIDX_API lidx_status lidx_cache_store(lidx_cache *cache, int64_t sequence, int64_t first, const lidx_cache_keys *keys,
                                      void *stream);

/* Block tables and lengths of a batch, as lidx_score_args takes them. Fills the host arrays; unused entries become -1.
 * Where device pointers are given, copies the host arrays there on the stream: they must stay as they are until those
 * copies have run. */
typedef struct lidx_cache_tables {
    size_t struct_size;            /* set by lidx_cache_tables_init() */
    const int64_t *sequences;      /* host, [count]; one may occur several times */
    int32_t count;
    int32_t reserved;              /* 0 */
    int64_t block_table_stride;    /* entries per sequence; LIDX_ERR_VALUE if one has more pages */
    int32_t *block_table;          /* host, [count, block_table_stride] */
    int32_t *context_lens;         /* host, [count] */
    int32_t *block_table_device;   /* [count, block_table_stride], or NULL */
    int32_t *context_lens_device;  /* [count], or NULL */
} lidx_cache_tables;
LIDX_API lidx_status lidx_cache_tables_init(lidx_cache_tables *tables);
/* LIDX_ERR_DRIVER: the host arrays are filled, a copy could not be enqueued. */
LIDX_API lidx_status lidx_cache_fill_tables(lidx_cache *cache, const lidx_cache_tables *tables, void *stream);

/* The slots (page * page_size + slot) of the last tokens[i] tokens of each sequence, one sequence behind the other: the
 * slot_mapping of a batched lidx_store_enqueue() after lidx_cache_extend(). slots is host memory, [sum of tokens]. */
LIDX_API lidx_status lidx_cache_fill_slots(lidx_cache *cache, const int64_t *sequences, const int32_t *tokens,
                                           int32_t count, int64_t *slots);

typedef struct lidx_cache_stats {
    size_t struct_size;            /* set by the caller to sizeof(lidx_cache_stats) */
    int64_t num_pages;
    int64_t free_pages;
    int64_t shared_pages;          /* that two or more sequences have */
    int64_t sequences;
    int64_t tokens;                /* summed over the sequences */
} lidx_cache_stats;
LIDX_API lidx_status lidx_cache_get_stats(lidx_cache *cache, lidx_cache_stats *stats);

/* ---- top-k --------------------------------------------------------------------------------------------- */

/* What a chosen key is called. */
typedef enum lidx_index_kind {
    LIDX_INDEX_POSITION = 0,     /* its number among the keys of its request: the column, without relative columns */
    LIDX_INDEX_RELATIVE = 1,     /* counted from the first key that the row sees (row_begin) */
    LIDX_INDEX_PHYSICAL = 2,     /* its slot in the pool: block_table[b][position / page_size] * page_size +
                                    position % page_size, in 32-bit arithmetic */
    LIDX_INDEX_OFFSET = 3        /* position + offsets[row] */
} lidx_index_kind;
typedef enum lidx_sort {
    LIDX_SORT_POSITION = 0,      /* ascending positions */
    LIDX_SORT_SCORE = 1          /* in the order of preference */
} lidx_sort;

/* For every row the k keys that come first in the order of preference: forced keys, these by position, then the higher
 * score, then the smaller position; -0 equals +0, +inf is the highest score, NaN is below -inf. Exact and
 * deterministic: a row's result is the same alone, in any batch and on every replay. A row that sees k keys or fewer
 * gets all of them. Limits: k 1 .. 4096, and those of lidx_score_desc for the fields that it shares. The first fields
 * say, as there, whose a row is and which keys it sees. */
typedef struct lidx_topk_desc {
    size_t struct_size;            /* set by lidx_topk_desc_init() */
    uint32_t flags;                /* LIDX_FLAG_CAUSAL, LIDX_FLAG_RELATIVE_COLUMNS, LIDX_FLAG_PDL */
    int32_t row_map;               /* lidx_row_map */
    int32_t batch;
    int32_t max_rows;              /* rows of scores and indices; one that is no request's sees nothing, and gets -1 */
    int32_t max_tokens;
    int32_t visibility;            /* lidx_visibility */
    int32_t length_type;           /* lidx_int_type */
    int32_t compress_ratio;
    int64_t max_keys;              /* upper bound of keys per request; sizes the launch */
    int64_t score_stride;          /* elements between rows of scores */
    int32_t score_type;            /* lidx_float_type: fp32 or bf16 */
    int32_t k;
    int32_t forced_first;          /* the first keys that a row sees which are chosen whatever their score, 0 or more */
    int32_t forced_last;           /* and the last; where both are more than k, the smaller positions */
    int32_t index_kind;            /* lidx_index_kind */
    int32_t sort;                  /* lidx_sort */
    int64_t index_stride;          /* elements between rows of indices, >= k; 0: k */
    int64_t top_score_stride;      /* of top_scores, >= k; 0: k */
    int32_t page_size;             /* LIDX_INDEX_PHYSICAL: keys per page; else 0 */
    int32_t reserved;              /* 0 */
    int64_t block_table_stride;    /* LIDX_INDEX_PHYSICAL: entries per request, which limit its keys, too; else 0 */
} lidx_topk_desc;
LIDX_API lidx_status lidx_topk_desc_init(lidx_topk_desc *desc);

/* Bytes of workspace of a top-k on this context's device: 0 where rows are short or many. Its first max_rows 32-bit
 * words are zero before the first call that uses it; every call leaves them so. Calls that may overlap need one
 * each. LIDX_ERR_UNSUPPORTED: the device's shared memory does not hold the rows that max_keys allows. */
LIDX_API lidx_status lidx_topk_workspace_bytes(lidx_context *ctx, const lidx_topk_desc *desc, size_t *bytes);

/* Device pointers. Scores of keys that a row does not see are not read. */
typedef struct lidx_topk_args {
    size_t struct_size;            /* set by lidx_topk_args_init() */
    const void *scores;            /* [max_rows, score_stride] score_type, aligned to its type; column = position, or
                                      with LIDX_FLAG_RELATIVE_COLUMNS position - the first that the row sees */
    const void *context_lens;      /* these five: as lidx_score_args has them */
    const void *row_begin;
    const void *row_end;
    const int32_t *cu_seqlens_q;
    const int32_t *row_requests;
    const void *block_table;       /* LIDX_INDEX_PHYSICAL: [batch, block_table_stride]; else NULL */
    const int32_t *offsets;        /* LIDX_INDEX_OFFSET: [max_rows]; else NULL */
    int32_t *indices;              /* [max_rows, index_stride]: min(k, keys seen) indices, then -1 up to k */
    float *top_scores;             /* [max_rows, top_score_stride]: their scores, then -inf up to k; NULL: not wanted */
    int32_t *counts;               /* [max_rows]: min(k, keys seen); NULL: not wanted */
    void *workspace;               /* 16-byte aligned; NULL if none is needed */
    size_t workspace_bytes;
} lidx_topk_args;
LIDX_API lidx_status lidx_topk_args_init(lidx_topk_args *args);

/* Enqueues one launch. Validates, allocates nothing, reads no device memory, synchronises nothing, can be captured.
 * LIDX_ERR_UNSUPPORTED as lidx_topk_workspace_bytes() has it. */
LIDX_API lidx_status lidx_topk_enqueue(lidx_context *ctx, const lidx_topk_desc *desc, const lidx_topk_args *args,
                                       void *stream);

/* The k best of lists that the shards of a row chose, in the same order of preference: the higher score, then the
 * smaller position; -0 equals +0, NaN is below -inf. Where each shard gives its own k best (or all that it has), that
 * is the exact selection from the whole row. Entry e of shard s of row r is scores[r * score_row_stride +
 * s * score_shard_stride + e], and so are positions. Lists may be in any order. */
typedef struct lidx_merge_args {
    size_t struct_size;            /* set by lidx_merge_args_init() */
    uint32_t flags;                /* 0 */
    int32_t rows;                  /* 0: nothing to do */
    int32_t shards;                /* 1 or more */
    int32_t k_in;                  /* entries of a list, 1 or more; shards * k_in up to 2^20 */
    int32_t k;                     /* 1 .. 4096 */
    int32_t sort;                  /* lidx_sort */
    int64_t score_row_stride;      /* elements; 0: shards * k_in */
    int64_t score_shard_stride;    /* 0: k_in */
    int64_t position_row_stride;   /* 0: shards * k_in */
    int64_t position_shard_stride; /* 0: k_in */
    int64_t index_stride;          /* elements between rows of indices, >= k; 0: k */
    int64_t top_score_stride;      /* of top_scores, >= k; 0: k */
    const float *scores;
    const int32_t *positions;      /* in the whole row; negative: the entry is unused. One that is listed
                                      more than once counts once for each entry */
    int32_t *indices;              /* [rows, index_stride]: min(k, entries in use) positions, then -1 up to k */
    float *top_scores;             /* [rows, top_score_stride]: their scores, then -inf up to k; NULL: not wanted */
    int32_t *counts;               /* [rows]: min(k, entries in use); NULL: not wanted */
} lidx_merge_args;
LIDX_API lidx_status lidx_merge_args_init(lidx_merge_args *args);

/* Enqueues one launch; needs no workspace. What is said of lidx_topk_enqueue() holds here. */
LIDX_API lidx_status lidx_topk_merge_enqueue(lidx_context *ctx, const lidx_merge_args *args, void *stream);

/* ---- index: score and select in one call ------------------------------------------------------------------ */

/* Scores go to the workspace, a window of rows at a time, and the selection's kernel chooses from them: two launches a
 * window. The result is that of lidx_score_enqueue() and lidx_topk_enqueue(), whatever the windows. A key whose page id
 * is outside its pool counts as one of score -inf. */
typedef struct lidx_index_desc {
    size_t struct_size;            /* set by lidx_index_desc_init(), score's, too */
    lidx_score_desc score;         /* score_stride 0, which lidx_supports() does not take: give it a copy that has one.
                                      No LIDX_FLAG_FILL. max_sms limits the score, not the selection. LIDX_FLAG_PDL:
                                      each of the launches may overlap the end of the one before it. bf16 scores
                                      halve the workspace, and round */
    int32_t k;                     /* from here on as lidx_topk_desc has them */
    int32_t forced_first;
    int32_t forced_last;
    int32_t index_kind;
    int32_t sort;
    int32_t reserved;              /* 0 */
    int64_t index_stride;
    int64_t top_score_stride;
    size_t workspace_budget_bytes; /* the workspace needs no more; 0: all rows are one window */
} lidx_index_desc;
LIDX_API lidx_status lidx_index_desc_init(lidx_index_desc *desc);

typedef struct lidx_index_plan lidx_index_plan; /* immutable, as lidx_plan is */

/* LIDX_ERR_VALUE, too, where the budget does not hold one row, LIDX_ERR_UNSUPPORTED as lidx_topk_workspace_bytes() has
 * it; else as lidx_plan_create() and lidx_plan_destroy(). */
LIDX_API lidx_status lidx_index_plan_create(lidx_context *ctx, const lidx_index_desc *desc, lidx_index_plan **out);
LIDX_API void lidx_index_plan_destroy(lidx_index_plan *plan);

typedef struct lidx_index_plan_info {
    size_t struct_size;            /* set by the caller to sizeof(lidx_index_plan_info) */
    const char *symbol;            /* static: the scorer */
    int32_t arithmetic;            /* lidx_arithmetic */
    int32_t window_rows;           /* rows of a window, the last one may have fewer */
    int32_t windows;
    int32_t slices;                /* most CTAs that select from one row */
    size_t workspace_bytes;
    size_t zero_bytes;             /* at the beginning of the workspace: zero before the first call that uses it. Every
                                      call leaves them so, but for LIDX_FLAG_CHECK's word where it found something.
                                      Another plan's call may leave scores there: zero them again behind it */
} lidx_index_plan_info;
LIDX_API lidx_status lidx_get_index_plan_info(const lidx_index_plan *plan, lidx_index_plan_info *info);

/* Device pointers, as lidx_score_args and lidx_topk_args have them. */
typedef struct lidx_index_args {
    size_t struct_size;            /* set by lidx_index_args_init() */
    const void *q;
    const void *q_scale;
    const void *q_scale2;
    const void *k_base;
    const void *k_scale_base;
    const void *block_table;
    const void *scale_block_table;
    const void *context_lens;
    const void *row_begin;
    const void *row_end;
    const int32_t *cu_seqlens_q;
    const int32_t *row_requests;
    const int32_t *offsets;        /* LIDX_INDEX_OFFSET: [max_rows]; else NULL */
    int32_t *indices;
    float *top_scores;
    int32_t *counts;
    void *workspace;               /* 16-byte aligned; calls that may overlap need one each */
    size_t workspace_bytes;
} lidx_index_args;
LIDX_API lidx_status lidx_index_args_init(lidx_index_args *args);

/* Enqueues two launches per window: the score and the selection; the selection alone where max_keys is k or less, which
 * needs no scores unless top_scores, their order or LIDX_FLAG_CHECK do. What is said of lidx_score_enqueue() and
 * lidx_topk_enqueue() holds here. Whatever lidx refuses is refused before the first launch; where the driver refuses a
 * later one, those before it have been enqueued. */
LIDX_API lidx_status lidx_index_enqueue(lidx_context *ctx, const lidx_index_plan *plan, const lidx_index_args *args,
                                        void *stream);

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Static text for a status, for example "LIDX_ERR_VALUE: a field is outside its limits". */
LIDX_API const char *lidx_status_string(lidx_status status);
/* The last failure through ctx (or, with NULL, of lidx_open and of context-free calls in this thread): names the
 * function, the field, the value and the limit. Never NULL; "" if none failed. Valid until the next call that fails, or
 * lidx_close(ctx); calls that succeed leave it. */
LIDX_API const char *lidx_last_error(const lidx_context *ctx);
/* The raw CUresult behind the failure that lidx_last_error(ctx) tells of; 0 if the driver was not its cause. */
LIDX_API int32_t lidx_driver_error(const lidx_context *ctx);
/* "0.1.0" */
LIDX_API const char *lidx_version(void);

#ifdef __cplusplus
}
#endif
#endif

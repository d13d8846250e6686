// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that computes nothing: it records what lidx asks of it and fails on demand. Tests link its shared
// library and hand lidx the path; one process, one thread. Storage is fixed, so recording allocates nothing.
#pragma once
#include <cuda.h>

#include <string>

#include "host/driver.h"
#include "kernel/cache_layout.h"
#include "kernel/problem.h"
#include "kernel/topk_layout.h"

enum class FakeCall {
#define FAKE_CALL(function) k_##function,
    LIDX_DRIVER_FUNCTIONS(FAKE_CALL)
#undef FAKE_CALL
        kCount
};

struct FakeTensorMap {
    CUtensorMapDataType type;
    cuuint32_t rank;
    const void* address;
    cuuint64_t dims[5];
    cuuint64_t strides_bytes[4];
    cuuint32_t box[5];
    cuuint32_t element_strides[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2_promotion;
    CUtensorMapFloatOOBfill oob_fill;
};

struct FakeLaunch {
    char function[64];
    CUlaunchConfig config;
    int map_calls[2];  // index into FakeState::maps of the k and the q map passed; -1: none
    lidx::ScoreParams params;        // of a scorer
    lidx::cache::StorePagesParams store;   // of cache_store_pages; cache_store fills the first member
    lidx::cache::GatherParams gather;
    lidx::cache::QueryParams query;
    lidx::topk::TopkParams select;   // of topk_*, topk_merge left out
    bool retained_current;  // the device's primary context was current
};

struct FakeFunction {
    char name[64];
    CUmodule module;
    int max_dynamic_shared_bytes;
    int non_portable_clusters;
};

struct FakeState {
    // What the machine is.
    int device_count, major, minor, multiprocessors, shared_bytes_per_cta;
    CUresult init_result;
    // From its `fail_after`-th call on (0: the first), `fail_call` returns `fail_result`.
    FakeCall fail_call;
    CUresult fail_result;
    int fail_after;

    // What happened.
    int calls[static_cast<int>(FakeCall::kCount)];
    CUcontext stack[16];
    int stack_depth;         // contexts pushed; the top one is current
    int retains;             // of the primary context, releases subtracted
    int modules_loaded;      // unloads subtracted
    const void* images[64];  // given to cuModuleLoadData
    FakeFunction functions[80];
    int function_count;
    FakeTensorMap maps[64];
    int map_count;
    FakeLaunch launches[64];
    int launch_count;

    int calls_of(FakeCall call) const { return calls[static_cast<int>(call)]; }
};

FakeState& fake();               // the state, for a test to read and to write
void fake_reset();               // a fresh compute capability 10.0 device with 148 multiprocessors, nothing current
std::string fake_driver_path();  // of the shared library
CUcontext fake_primary_context();
CUcontext fake_other_context();  // a context that is not the primary one

// SPDX-License-Identifier: Apache-2.0
// The device memory of a workload: what every candidate of it reads and writes.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/workloads.h"
#include "machine.h"
#include "test/ref/portable_rng.h"

namespace lidx::command {

// Random bytes, drawn once: larger buffers repeat them.
class Patterns {
  public:
    // Any finite e4m3 code.
    const std::vector<uint8_t>& codes(size_t size_bytes);
    // Normal scores, as fp32 bytes.
    const std::vector<uint8_t>& scores(size_t size_bytes);

  private:
    ref::Rng rng_{1};
    std::vector<uint8_t> codes_, scores_;
};

// Bytes that a workload must at the least read or write, as regions for the read yardstick.
struct Region {
    const void* base;
    uint64_t size_bytes;
};

// What a scorer of paged keys moves: pages in the order of a table, and scores.
struct Traffic {
    const void* pages;
    const int32_t* table;
    int64_t entries, page_bytes;
    void* scores;
    uint64_t score_bytes;
};

// Null where the workload has no such operand.
struct Inputs {
    // `turn` tells the copies of one workload from each other: their pages lie in other orders.
    Inputs(const Machine& machine, Patterns& patterns, const Workload& workload, const Extent& extent, int turn);

    using Buffer = std::unique_ptr<DeviceBuffer>;
    Buffer q;              // e4m3 [rows, heads, depth]
    Buffer q_scale;        // fp32 [rows, heads]
    Buffer keys;           // pages of codes and scales behind them; contiguous: e4m3 [batch, max_keys, depth]
    Buffer key_scale;      // contiguous: fp32 [batch, max_keys]
    Buffer block_table;    // int32 [batch, block_table_stride]
    Buffer context_lens;   // int32 [batch]
    Buffer cu_seqlens_q;   // int32 [batch + 1]
    Buffer row_begin;      // int32 [rows]
    Buffer row_end;        // int32 [rows]
    Buffer scores;         // fp32 [rows, score_stride]; merge: the lists
    Buffer positions;      // merge: int32 [rows, shards, entries]
    Buffer indices;        // int32 [rows, k]
    int64_t num_pages = 0, block_table_stride = 0, page_bytes = 0, score_stride = 0;

    std::vector<Region> regions() const;
    std::optional<Traffic> traffic() const;   // of a scorer of paged keys
    size_t size_bytes() const { return size_bytes_; }

  private:
    Buffer allocate(size_t size_bytes);
    template <class T>
    Buffer upload(const std::vector<T>& data);
    Buffer repeat(const std::vector<uint8_t>& image, size_t size_bytes);
    void make_keys(Patterns& patterns, int turn);
    void make_pages(Patterns& patterns, int turn);
    void make_rows(Patterns& patterns);

    const Machine& machine_;
    const Workload& workload_;
    const Extent& extent_;
    size_t size_bytes_ = 0;
};

// What Inputs will take.
uint64_t input_bytes(const Workload& workload, const Extent& extent);

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// What the machine itself can do, measured in the run that compares with it: copies, reads, and an FP8 product.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/inputs.h"
#include "bench/stopwatch.h"
#include "machine.h"

namespace lidx::command {

// Bytes read plus bytes written per second of a device-to-device copy; of a read by the yardstick. size_bytes: of the
// buffer.
struct MemoryRates {
    double copy, read;
};
class ReadYardstick;
MemoryRates memory_rates(const Machine& machine, Stopwatch& watch, const ReadYardstick& yardstick, size_t size_bytes,
                         int runs);

// The kernels of yardstick_read.cu, loaded.
class ReadYardstick {
  public:
    explicit ReadYardstick(const Machine& machine);
    ~ReadYardstick();
    ReadYardstick(const ReadYardstick&) = delete;
    ReadYardstick& operator=(const ReadYardstick&) = delete;

    // Reads every region once, but for what is left of them behind a multiple of 16 bytes.
    void enqueue(const std::vector<Region>& regions, CUstream stream) const;
    // Reads the pages and writes the scores, but for what is left of these behind a multiple of 16 bytes.
    void enqueue(const Traffic& traffic, CUstream stream) const;

  private:
    void launch(CUfunction function, void* parameter, uint64_t threads, CUstream stream) const;
    unsigned ctas(uint64_t threads) const;   // with some work for so many threads, up to four CTAs a multiprocessor

    const Machine& machine_;
    CUmodule module_ = nullptr;
    CUfunction read_ = nullptr, traffic_ = nullptr;
    std::unique_ptr<DeviceBuffer> sink_;
};

// What the tensor cores do: of cuBLASLt where its library is, else what the data sheet's clock would give.
struct TensorRate {
    double flops_per_second;
    std::string source;   // "cuBLASLt 13.1.0 FP8 8192^3", "nominal FP8 at 1980 MHz"
    bool measured;
};
// library empty: libcublasLt.so.13, then .12, as the loader finds them, else the nominal rate, if it is known. A
// library that is named and cannot be used throws Failure(kBadInput).
std::optional<TensorRate> tensor_rate(const Machine& machine, Stopwatch& watch, const std::string& library, int runs);

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// How one sample of a candidate's time is taken.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "machine.h"

namespace lidx::command {

enum class Timing {
    kFlushed,   // one run, L2 overwritten before it, or full of lines that were only read
    kWarm,      // the mean of kRunsPerSample runs in a row, after one that is not timed
    kGraph      // the mean of kRunsPerSample runs that a CUDA graph replays, copies of the workload taking turns
};
constexpr int kRunsPerSample = 10;

// Enqueues one run on copy number `copy` of its workload.
using EnqueueRun = std::function<void(int copy, CUstream stream)>;

struct Times {
    double median, least, most;   // microseconds
};
Times summarise(std::vector<double> us);

class Stopwatch {
  public:
    Stopwatch(const Machine& machine, Timing timing);
    ~Stopwatch();
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    CUstream stream() const { return stream_; }
    Timing timing() const { return timing_; }
    // Microseconds of a run; for the `sample`th sample of it. Graphs are captured once for each `run` that is passed,
    // told apart by its address, and kept until forget().
    double time_us(const EnqueueRun& run, int sample, int copies);
    // What is read in place of being overwritten, so that L2 holds nothing that must go back to memory: `read` reads
    // the buffer, once. kFlushed.
    void flush_by_reading(std::function<void(const DeviceBuffer& buffer, size_t size_bytes, CUstream stream)> read);
    void forget();
    void wait() const;

  private:
    struct GraphApi;
    CUgraphExec captured(const EnqueueRun& run, int copies);

    const Machine& machine_;
    Timing timing_;
    std::unique_ptr<DeviceBuffer> flush_;   // null where nothing is flushed
    std::function<void(const DeviceBuffer&, size_t, CUstream)> flush_read_;   // null: it is overwritten
    std::unique_ptr<GraphApi> api_;         // null without kGraph
    std::map<const EnqueueRun*, CUgraphExec> graphs_;
    CUstream stream_ = nullptr;
    CUevent start_ = nullptr, stop_ = nullptr;
};

}  // namespace lidx::command

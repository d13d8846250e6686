// SPDX-License-Identifier: Apache-2.0
#include "bench/stopwatch.h"

#include <algorithm>

#include "bench/driver_extras.h"
#include "failure.h"

namespace lidx::command {

namespace {

// Written or read before a run, so that nothing of the last one is left in L2 (60 MB on an H200, 126 MB on a B200).
constexpr size_t kFlushBytes = size_t{256} << 20;

}  // namespace

struct Stopwatch::GraphApi {
    explicit GraphApi(const Machine& machine)
        : begin(driver_extra<decltype(&::cuStreamBeginCapture_v2)>(machine, "cuStreamBeginCapture_v2")),
          end(driver_extra<decltype(&::cuStreamEndCapture)>(machine, "cuStreamEndCapture")),
          instantiate(driver_extra<decltype(&::cuGraphInstantiateWithFlags)>(machine, "cuGraphInstantiateWithFlags")),
          launch(driver_extra<decltype(&::cuGraphLaunch)>(machine, "cuGraphLaunch")),
          destroy(driver_extra<decltype(&::cuGraphDestroy)>(machine, "cuGraphDestroy")),
          destroy_exec(driver_extra<decltype(&::cuGraphExecDestroy)>(machine, "cuGraphExecDestroy")) {
        for (const bool there : {begin != nullptr, end != nullptr, instantiate != nullptr, launch != nullptr,
                                 destroy != nullptr, destroy_exec != nullptr})
            if (!there) throw Failure(kNoDevice, machine.driver().path + " has no CUDA graphs");
    }
    decltype(&::cuStreamBeginCapture_v2) begin;
    decltype(&::cuStreamEndCapture) end;
    decltype(&::cuGraphInstantiateWithFlags) instantiate;
    decltype(&::cuGraphLaunch) launch;
    decltype(&::cuGraphDestroy) destroy;
    decltype(&::cuGraphExecDestroy) destroy_exec;
};

Times summarise(std::vector<double> us) {
    std::sort(us.begin(), us.end());
    return {us[us.size() / 2], us.front(), us.back()};
}

Stopwatch::Stopwatch(const Machine& machine, Timing timing) : machine_(machine), timing_(timing) {
    if (timing == Timing::kGraph) api_ = std::make_unique<GraphApi>(machine);
    if (timing == Timing::kFlushed) flush_ = std::make_unique<DeviceBuffer>(machine, kFlushBytes);
    // Not the legacy stream, which cannot be captured; a blocking one, ordered with uploads through that.
    machine_.check(machine_.driver().cuStreamCreate(&stream_, CU_STREAM_DEFAULT), "cuStreamCreate");
    machine_.check(machine_.driver().cuEventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
    machine_.check(machine_.driver().cuEventCreate(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
}

Stopwatch::~Stopwatch() {
    forget();
    machine_.driver().cuEventDestroy(start_);
    machine_.driver().cuEventDestroy(stop_);
    machine_.driver().cuStreamDestroy(stream_);
}

double Stopwatch::time_us(const EnqueueRun& run, int sample, int copies) {
    const Driver& driver = machine_.driver();
    const auto record = [&](CUevent event) { machine_.check(driver.cuEventRecord(event, stream_), "cuEventRecord"); };
    switch (timing_) {
        case Timing::kFlushed:
            if (flush_read_)
                flush_read_(*flush_, kFlushBytes, stream_);
            else
                machine_.check(
                    driver.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(flush_->as()), 0x5a, kFlushBytes, stream_),
                    "cuMemsetD8Async");
            record(start_);
            run(sample % copies, stream_);
            break;
        case Timing::kWarm:
            run(0, stream_);
            record(start_);
            for (int i = 0; i < kRunsPerSample; ++i) run(0, stream_);
            break;
        case Timing::kGraph: {
            const CUgraphExec graph = captured(run, copies);
            machine_.check(api_->launch(graph, stream_), "cuGraphLaunch");
            record(start_);
            machine_.check(api_->launch(graph, stream_), "cuGraphLaunch");
            break;
        }
    }
    record(stop_);
    machine_.check(driver.cuEventSynchronize(stop_), "cuEventSynchronize");
    float milliseconds = 0;
    machine_.check(driver.cuEventElapsedTime(&milliseconds, start_, stop_), "cuEventElapsedTime");
    return milliseconds * 1e3 / (timing_ == Timing::kFlushed ? 1 : kRunsPerSample);
}

void Stopwatch::flush_by_reading(std::function<void(const DeviceBuffer&, size_t, CUstream)> read) {
    if (flush_ == nullptr) return;
    flush_->fill32(0x5a5a5a5a, kFlushBytes / 4);
    flush_read_ = std::move(read);
}

CUgraphExec Stopwatch::captured(const EnqueueRun& run, int copies) {
    CUgraphExec& exec = graphs_[&run];
    if (exec != nullptr) return exec;
    machine_.check(api_->begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    CUgraph graph = nullptr;
    try {
        for (int i = 0; i < kRunsPerSample; ++i) run(i % copies, stream_);
    } catch (...) {
        if (api_->end(stream_, &graph) == CUDA_SUCCESS && graph != nullptr) api_->destroy(graph);
        throw;
    }
    machine_.check(api_->end(stream_, &graph), "cuStreamEndCapture");
    const CUresult result = api_->instantiate(&exec, graph, 0);
    api_->destroy(graph);
    machine_.check(result, "cuGraphInstantiateWithFlags");
    return exec;
}

void Stopwatch::forget() {
    for (const auto& [run, graph] : graphs_)
        if (graph != nullptr) api_->destroy_exec(graph);
    graphs_.clear();
}

void Stopwatch::wait() const {
    machine_.check(machine_.driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.h"

#include <algorithm>
#include <cstdio>

#include "bench/cublaslt_product.h"
#include "bench/yardstick_read.h"
#include "failure.h"

extern "C" const unsigned char lidx_fatbin_yardstick_read[] __attribute__((visibility("hidden")));

namespace lidx::command {

namespace {

constexpr int kYardstickCtasPerSm = 4;   // 2048 threads
constexpr uint32_t kNever = 0x5eed;
// Dense FP8 multiply-adds per clock and SM: 4096 for wgmma (H200: 1979 TFLOPS at 1830 MHz), 8192 for tcgen05 (B200).
constexpr double kFmaPerClockSm90 = 4096, kFmaPerClockSm100 = 8192;
// The clock comes up meanwhile.
constexpr int kProductWarmUps = 3;

std::vector<double> sample(Stopwatch& watch, const EnqueueRun& run, int warm_ups, int runs) {
    std::vector<double> us;
    for (int i = -warm_ups; i < runs; ++i) {
        const double time = watch.time_us(run, 0, 1);
        if (i >= 0) us.push_back(time);
    }
    watch.forget();
    return us;
}

std::optional<TensorRate> nominal_rate(const Machine& machine) {
    CUdevice device = 0;
    int kilohertz = 0;
    machine.check(machine.driver().cuDeviceGet(&device, machine.info().ordinal), "cuDeviceGet");
    machine.check(machine.driver().cuDeviceGetAttribute(&kilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device),
                  "cuDeviceGetAttribute");
    const int family = machine.info().compute_capability / 10;
    const double fma = family == 9 ? kFmaPerClockSm90 : family == 10 ? kFmaPerClockSm100 : 0;
    if (fma == 0 || kilohertz <= 0) return std::nullopt;
    return TensorRate{2 * fma * machine.info().multiprocessors * kilohertz * 1e3,
                      "nominal FP8 at " + std::to_string(kilohertz / 1000) + " MHz", false};
}

}  // namespace

ReadYardstick::ReadYardstick(const Machine& machine)
    : machine_(machine), sink_(std::make_unique<DeviceBuffer>(machine, sizeof(uint32_t))) {
    machine_.check(machine_.driver().cuModuleLoadData(&module_, lidx_fatbin_yardstick_read), "cuModuleLoadData");
    machine_.check(machine_.driver().cuModuleGetFunction(&read_, module_, "yardstick_read"), "cuModuleGetFunction");
    machine_.check(machine_.driver().cuModuleGetFunction(&traffic_, module_, "yardstick_traffic"),
                   "cuModuleGetFunction");
}

ReadYardstick::~ReadYardstick() { machine_.driver().cuModuleUnload(module_); }

void ReadYardstick::enqueue(const std::vector<Region>& regions, CUstream stream) const {
    if (regions.size() > kYardstickRegions) throw Failure(kInternal, "too many regions for the read yardstick");
    YardstickRegions parameter = {};
    uint64_t most_units = 0;
    for (size_t i = 0; i < regions.size(); ++i) {
        parameter.base[i] = regions[i].base;
        parameter.units[i] = regions[i].size_bytes / kYardstickUnitBytes;
        most_units = std::max(most_units, parameter.units[i]);
    }
    launch(read_, &parameter, most_units, stream);
}

void ReadYardstick::enqueue(const Traffic& traffic, CUstream stream) const {
    const int64_t page_units = traffic.page_bytes / kYardstickUnitBytes, units = traffic.entries * page_units;
    if (units > UINT32_MAX / 2) throw Failure(kInternal, "too many pages for the traffic yardstick");
    const int64_t turn_units = int64_t{kYardstickInFlight} * kYardstickThreads * ctas(static_cast<uint64_t>(units));
    YardstickTraffic parameter = {
        .pages = traffic.pages,
        .table = traffic.table,
        .entries = static_cast<uint32_t>(traffic.entries),
        .page_units = static_cast<uint32_t>(page_units),
        .turns = static_cast<uint32_t>((units + turn_units - 1) / turn_units),
        .result = traffic.scores,
        .result_units = traffic.score_bytes / kYardstickUnitBytes,
    };
    launch(traffic_, &parameter, static_cast<uint64_t>(units), stream);
}

unsigned ReadYardstick::ctas(uint64_t threads) const {
    const auto useful = static_cast<unsigned>(
        std::min<uint64_t>((threads + kYardstickThreads - 1) / kYardstickThreads, 1u << 20));
    return std::clamp(static_cast<unsigned>(machine_.info().multiprocessors) * kYardstickCtasPerSm, 1u,
                      std::max(useful, 1u));
}

void ReadYardstick::launch(CUfunction function, void* parameter, uint64_t threads, CUstream stream) const {
    void* sink = sink_->as();
    uint32_t never = kNever;
    void* parameters[] = {parameter, &sink, &never};
    CUlaunchConfig config = {};
    config.gridDimX = ctas(threads);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = kYardstickThreads;
    config.hStream = stream;
    machine_.check(machine_.driver().cuLaunchKernelEx(&config, function, parameters, nullptr), "cuLaunchKernelEx");
}

MemoryRates memory_rates(const Machine& machine, Stopwatch& watch, const ReadYardstick& yardstick, size_t size_bytes,
                         int runs) {
    DeviceBuffer from(machine, size_bytes), to(machine, size_bytes);
    from.fill32(0x38c1a2b3, size_bytes / 4);
    const EnqueueRun copy = [&](int, CUstream stream) {
        machine.check(machine.driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to.as()),
                                                         reinterpret_cast<CUdeviceptr>(from.as()), size_bytes, stream),
                      "cuMemcpyDtoDAsync");
    };
    const EnqueueRun read = [&](int, CUstream stream) { yardstick.enqueue({{from.as(), size_bytes}}, stream); };
    const auto bytes = static_cast<double>(size_bytes);
    return {2 * bytes / summarise(sample(watch, copy, 1, runs)).median * 1e6,
            bytes / summarise(sample(watch, read, 1, runs)).median * 1e6};
}

std::optional<TensorRate> tensor_rate(const Machine& machine, Stopwatch& watch, const std::string& library, int runs) {
    std::string why;
    const auto product = CublasLtProduct::open(machine, library, &why);
    if (product == nullptr) {
        if (!library.empty()) bad_input("--cublaslt: " + why);
        std::fprintf(stderr, "lidx: no FP8 product of cuBLASLt: %s\n", why.c_str());
        return nominal_rate(machine);
    }
    const EnqueueRun run = [&](int, CUstream stream) { product->enqueue(stream); };
    const double us = summarise(sample(watch, run, kProductWarmUps, runs)).median;
    return TensorRate{product->flops() / us * 1e6, product->name(), true};
}

}  // namespace lidx::command

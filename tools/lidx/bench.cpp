// SPDX-License-Identifier: Apache-2.0
// lidx bench: named workloads timed through the public API, the candidates interleaved on the same data.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "failure.h"
#include "machine.h"
#include "output_file.h"
#include "test/ref/portable_rng.h"

namespace lidx::command {

namespace {

constexpr int32_t kBenchDepth = 128;
// Written before every launch, so that nothing of the last one is left in L2 (60 MB on an H200, 126 MB on a B200).
constexpr size_t kFlushBytes = size_t{256} << 20;
// Random bytes that the key pool repeats: many times the 128 keys of a tile, little to draw and upload.
constexpr size_t kPatternBytes = size_t{32} << 20;

struct Workload {
    const char* name;
    int32_t batch, tokens, heads;   // tokens per request
    int64_t keys;                   // per request
    int32_t page;                   // 0: contiguous
    bool causal = false;            // the last token sees all keys, each one before it one less
};
constexpr Workload kWorkloads[] = {
    {"smoke", 2, 2, 64, 256, 64},
    {"prefill-512x4k-h64", 1, 512, 64, 4096, 0},
    {"prefill-2kx8k-h64", 1, 2048, 64, 8192, 0},
    {"prefill-2kx64k-h64", 1, 2048, 64, 65536, 64},
    {"prefill-4kx128k-h64", 1, 4096, 64, 131072, 0},
    {"prefill-2kx8k-h32", 1, 2048, 32, 8192, 0},
    {"prefill-4kx128k-h32", 1, 4096, 32, 131072, 0},
    {"causal-512x4k-h64", 1, 512, 64, 4096, 64, true},
    {"causal-2kx8k-h64", 1, 2048, 64, 8192, 64, true},
    {"causal-2kx64k-h64", 1, 2048, 64, 65536, 64, true},
    {"causal-8kx8k-h64", 1, 8192, 64, 8192, 64, true},
    {"causal-8kx64k-h64", 1, 8192, 64, 65536, 64, true},
    {"causal-2kx8k-h32", 1, 2048, 32, 8192, 64, true},
    {"causal-8kx64k-h32", 1, 8192, 32, 65536, 64, true},
    {"decode-1x8k", 1, 1, 64, 8192, 64},
    {"decode-1x128k", 1, 1, 64, 131072, 64},
    {"decode-4x32k", 4, 1, 64, 32768, 64},
    {"decode-16x32k", 16, 1, 64, 32768, 64},
    {"decode-32x8k", 32, 1, 64, 8192, 64},
    {"decode-64x32k", 64, 1, 64, 32768, 64},
    {"decode-64x128k", 64, 1, 64, 131072, 64},
    {"decode-256x64k", 256, 1, 64, 65536, 64},
    {"decode-64x32k-page16", 64, 1, 64, 32768, 16},
    {"decode-16x32k-next2", 16, 2, 64, 32768, 64},
    {"decode-64x128k-next2", 64, 2, 64, 131072, 64},
    {"decode-64x32k-next4", 64, 4, 64, 32768, 64},
    {"decode-64x32k-next6", 64, 6, 64, 32768, 64},
    {"decode-64x128k-next4-h32", 64, 4, 32, 131072, 64},
};

// The workloads that are named, in the table's order; all but "smoke" where none is.
std::vector<Workload> choose(const std::vector<std::string>& names) {
    std::vector<Workload> chosen;
    for (const Workload& w : kWorkloads) {
        const bool named = std::find(names.begin(), names.end(), w.name) != names.end();
        if (named || (names.empty() && std::string(w.name) != "smoke")) chosen.push_back(w);
    }
    for (const std::string& name : names)
        if (std::none_of(std::begin(kWorkloads), std::end(kWorkloads),
                         [&](const Workload& w) { return name == w.name; }))
            bad_input("--workload: no such workload: " + name + " (lidx bench --list names them)");
    return chosen;
}

// The device's side of one workload: a pool of block-split pages in shuffled order, or contiguous keys.
class Data {
  public:
    Data(const Machine& machine, const Workload& w) : machine_(machine), w_(w) {
        const int64_t slots = w.page > 0 ? w.page : w.keys;
        const int64_t pages_each = (w.keys + slots - 1) / slots;
        pages_ = pages_each * w.batch;
        page_bytes_ = slots * (w.page > 0 ? kBenchDepth + 4 : kBenchDepth);
        rows_ = w.batch * w.tokens;
        ref::Rng rng(1);
        k_ = random_codes(rng, static_cast<size_t>(pages_ * page_bytes_));
        q_ = random_codes(rng, static_cast<size_t>(rows_) * w.heads * kBenchDepth);
        std::vector<float> weights(static_cast<size_t>(rows_) * w.heads);
        for (float& weight : weights) weight = static_cast<float>(rng.normal()) * 0.01f;
        q_scale_ = upload(weights);
        if (w.page == 0) k_scale_ = upload(std::vector<float>(static_cast<size_t>(pages_ * slots), 0.02f));
        else write_page_scales(slots);
        std::vector<int32_t> table(static_cast<size_t>(pages_));
        for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
        for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[rng.below(i)]);
        block_table_ = upload(table);
        context_lens_ = upload(std::vector<int32_t>(static_cast<size_t>(w.batch), static_cast<int32_t>(w.keys)));
        std::vector<int32_t> cu(static_cast<size_t>(w.batch) + 1);
        for (int32_t request = 0; request <= w.batch; ++request) cu[static_cast<size_t>(request)] = request * w.tokens;
        cu_seqlens_q_ = upload(cu);
        scores_ = std::make_unique<DeviceBuffer>(machine, static_cast<size_t>(rows_ * w.keys) * sizeof(float));

        lidx_score_desc_init(&desc_);
        desc_.flags = w.causal ? LIDX_FLAG_CAUSAL : 0;
        desc_.batch = w.batch;
        desc_.max_rows = static_cast<int32_t>(rows_);
        desc_.max_tokens = w.tokens;
        desc_.heads = w.heads;
        desc_.depth = kBenchDepth;
        desc_.max_keys = w.keys;
        desc_.page_size = w.page;
        desc_.num_pages = pages_;
        desc_.k_page_stride = page_bytes_;
        desc_.k_scale_page_stride = w.page > 0 ? page_bytes_ : slots * 4;
        desc_.block_table_stride = pages_each;
        desc_.score_stride = w.keys;
        lidx_score_args_init(&args_);
        args_.q = q_->as();
        args_.q_scale = q_scale_->as<float>();
        args_.k_base = k_->as();
        args_.k_scale_base = w.page > 0 ? k_->as<uint8_t>() + slots * kBenchDepth : k_scale_->as<uint8_t>();
        args_.block_table = w.page > 0 ? block_table_->as<int32_t>() : nullptr;
        args_.context_lens = context_lens_->as<int32_t>();
        args_.cu_seqlens_q = cu_seqlens_q_->as<int32_t>();
        args_.scores = scores_->as<float>();
    }

    lidx_score_desc desc() const { return desc_; }
    const lidx_score_args& args() const { return args_; }
    // Of the keys that are seen: a causal token sees w.tokens - 1 to none fewer than the last.
    double flops() const {
        const double seen = w_.causal ? static_cast<double>(w_.keys) - (w_.tokens - 1) / 2.0 : w_.keys;
        return 2.0 * rows_ * seen * w_.heads * kBenchDepth;
    }
    // Codes, scales and scores once each.
    double bytes() const { return static_cast<double>(w_.batch) * w_.keys * (kBenchDepth + 4 + w_.tokens * 4.0); }

  private:
    std::unique_ptr<DeviceBuffer> random_codes(ref::Rng& rng, size_t size_bytes) {
        std::vector<uint8_t> pattern(std::min(size_bytes, kPatternBytes));
        for (uint8_t& code : pattern) {
            code = static_cast<uint8_t>(rng.next());
            if ((code & 0x7f) == 0x7f) code ^= 1;   // 0x7f and 0xff are NaN
        }
        auto buffer = std::make_unique<DeviceBuffer>(machine_, size_bytes);
        for (size_t at = 0; at < size_bytes; at += pattern.size())
            buffer->upload(pattern.data(), std::min(pattern.size(), size_bytes - at), at);
        return buffer;
    }
    template <class T>
    std::unique_ptr<DeviceBuffer> upload(const std::vector<T>& data) {
        auto buffer = std::make_unique<DeviceBuffer>(machine_, data.size() * sizeof(T));
        buffer->upload(data.data(), data.size() * sizeof(T));
        return buffer;
    }
    // The pattern of codes covers the pages' scales too, as fp32 of any size; ordinary ones go over them. Copies of one
    // page's scales would take minutes for a large pool, so whole runs of pages are written from one image.
    void write_page_scales(int64_t slots) {
        const int64_t run = std::clamp<int64_t>(static_cast<int64_t>(kPatternBytes) / page_bytes_, 1, pages_);
        std::vector<uint8_t> image(static_cast<size_t>(run * page_bytes_));
        k_->download(image.data(), image.size());
        const std::vector<float> scales(static_cast<size_t>(slots), 0.02f);
        for (int64_t page = 0; page < run; ++page)
            std::copy_n(reinterpret_cast<const uint8_t*>(scales.data()), slots * 4,
                        image.data() + page * page_bytes_ + slots * kBenchDepth);
        for (int64_t page = 0; page < pages_; page += run)
            k_->upload(image.data(), static_cast<size_t>(std::min(run, pages_ - page) * page_bytes_),
                       static_cast<size_t>(page * page_bytes_));
    }

    const Machine& machine_;
    Workload w_;
    int64_t pages_ = 0, page_bytes_ = 0, rows_ = 0;
    std::unique_ptr<DeviceBuffer> k_, k_scale_, q_, q_scale_, block_table_, context_lens_, cu_seqlens_q_, scores_;
    lidx_score_desc desc_ = {};
    lidx_score_args args_ = {};
};

// A pair of events around what is timed.
class Stopwatch {
  public:
    explicit Stopwatch(const Machine& machine) : machine_(machine), flush_(machine, kFlushBytes) {
        machine_.check(machine_.driver().cuEventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
        machine_.check(machine_.driver().cuEventCreate(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
    }
    ~Stopwatch() {
        machine_.driver().cuEventDestroy(start_);
        machine_.driver().cuEventDestroy(stop_);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    // Microseconds of one call of work(), L2 flushed before it.
    template <class Work>
    double time_us(Work work) {
        const Driver& driver = machine_.driver();
        const auto flush = reinterpret_cast<CUdeviceptr>(flush_.as());
        machine_.check(driver.cuMemsetD8Async(flush, 0x5a, kFlushBytes, nullptr), "cuMemsetD8Async");
        machine_.check(driver.cuEventRecord(start_, nullptr), "cuEventRecord");
        work();
        machine_.check(driver.cuEventRecord(stop_, nullptr), "cuEventRecord");
        machine_.check(driver.cuEventSynchronize(stop_), "cuEventSynchronize");
        float milliseconds = 0;
        machine_.check(driver.cuEventElapsedTime(&milliseconds, start_, stop_), "cuEventElapsedTime");
        return milliseconds * 1e3;
    }

  private:
    const Machine& machine_;
    DeviceBuffer flush_;
    CUevent start_ = nullptr, stop_ = nullptr;
};

struct Times {
    double median, low, high;
};
Times summarise(std::vector<double> us) {
    std::sort(us.begin(), us.end());
    return {us[us.size() / 2], us.front(), us.back()};
}

using PlanPtr = std::unique_ptr<lidx_plan, decltype(&lidx_plan_destroy)>;
struct Candidate {
    PlanPtr plan;
    std::string symbol;
    std::vector<double> us;
};

// Bytes read plus bytes written per second of a device-to-device copy: the memory ceiling, taken in the same run.
double copy_bandwidth(const Machine& machine, Stopwatch& watch, int runs) {
    constexpr size_t kBytes = size_t{1} << 30;
    DeviceBuffer from(machine, kBytes), to(machine, kBytes);
    std::vector<double> us;
    for (int run = 0; run < runs; ++run)
        us.push_back(watch.time_us([&] {
            machine.check(machine.driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to.as()),
                                                             reinterpret_cast<CUdeviceptr>(from.as()), kBytes, nullptr),
                          "cuMemcpyDtoDAsync");
        }));
    return 2.0 * kBytes / summarise(us).median * 1e6;
}

std::vector<Candidate> make_candidates(const Machine& machine, const Data& data,
                                       const std::vector<std::string>& kernels) {
    std::vector<Candidate> candidates;
    for (const std::string& kernel : kernels.empty() ? std::vector<std::string>{""} : kernels) {
        lidx_score_desc desc = data.desc();
        desc.kernel = kernel.empty() ? nullptr : kernel.c_str();
        lidx_support support = {};
        support.struct_size = sizeof support;
        machine.check(lidx_supports(machine.context(), &desc, &support));
        if (support.symbol == nullptr) {
            std::fprintf(stderr, "lidx: %s skipped: %s\n", kernel.c_str(), support.reason);
            continue;
        }
        lidx_plan* plan = nullptr;
        machine.check(lidx_plan_create(machine.context(), &desc, &plan));
        candidates.push_back({PlanPtr(plan, lidx_plan_destroy), support.symbol, {}});
    }
    return candidates;
}

void require_kernels(const std::vector<std::string>& symbols) {
    for (const std::string& symbol : symbols) {
        std::string known;
        bool found = false;
        for (int32_t index = 0; index < lidx_kernel_count(); ++index) {
            lidx_kernel_info info = {};
            info.struct_size = sizeof info;
            if (lidx_get_kernel_info(nullptr, index, &info) != LIDX_OK)
                throw Failure(kInternal, lidx_last_error(nullptr));
            found |= symbol == info.symbol;
            known += (known.empty() ? "" : ", ") + std::string(info.symbol);
        }
        if (!found) bad_input("--kernel: no such kernel: " + symbol + "; there are " + known);
    }
}

}  // namespace

int run_bench(const BenchOptions& options) {
    if (options.list) {
        for (const Workload& w : kWorkloads)
            std::printf("%-26s %4d requests x %4d tokens x %6" PRId64 " keys, %d heads, %s%s%s\n", w.name, w.batch,
                        w.tokens, w.keys, w.heads, w.page > 0 ? "pages of " : "contiguous",
                        w.page > 0 ? std::to_string(w.page).c_str() : "", w.causal ? ", causal" : "");
        return kDone;
    }
    const std::vector<Workload> workloads = choose(options.workloads);
    require_kernels(options.kernels);
    std::optional<OutputFile> file;
    if (!options.json.empty()) file.emplace(options.json);
    const bool emulated = options.device == "emu";
    const Machine machine(emulated ? emulator_path().c_str() : nullptr, 0);
    Stopwatch watch(machine);
    const double ceiling = emulated ? 0 : copy_bandwidth(machine, watch, options.runs);

    std::printf("%s, driver %d.%d, lidx %s; median of %d launches by events, 256 MB written before each\n",
                machine.info().name, machine.info().driver_version / 1000, machine.info().driver_version % 1000 / 10,
                lidx_version(), options.runs);
    if (emulated) std::printf("times of the emulator say nothing about any GPU\n");
    else std::printf("device-to-device copy: %.2f TB/s read + written\n", ceiling * 1e-12);
    std::printf("%-26s %-20s %10s %10s %10s %8s %6s %7s\n", "workload", "kernel", "us", "least", "most", "TFLOPS",
                "TB/s", "of copy");
    nlohmann::ordered_json json;
    json["device"] = machine.info().name;
    json["driver_version"] = machine.info().driver_version;
    json["lidx"] = lidx_version();
    json["runs"] = options.runs;
    json["copy_bytes_per_second"] = ceiling;
    json["rows"] = nlohmann::ordered_json::array();
    for (const Workload& w : workloads) {
        const Data data(machine, w);
        std::vector<Candidate> candidates = make_candidates(machine, data, options.kernels);
        // Warm up once, then A B A B: what heats the card or slows its clock hits all alike.
        for (int run = -1; run < options.runs; ++run)
            for (Candidate& c : candidates) {
                const double us = watch.time_us([&] {
                    machine.check(lidx_score_enqueue(machine.context(), c.plan.get(), &data.args(), nullptr));
                });
                if (run >= 0) c.us.push_back(us);
            }
        for (const Candidate& c : candidates) {
            const Times t = summarise(c.us);
            const double tflops = data.flops() / t.median * 1e-6, tbs = data.bytes() / t.median * 1e-6;
            std::printf("%-26s %-20s %10.1f %10.1f %10.1f %8.0f %6.2f", w.name, c.symbol.c_str(), t.median, t.low,
                        t.high, tflops, tbs);
            if (ceiling > 0) std::printf(" %6.0f%%", 100 * tbs * 1e12 / ceiling);
            std::printf("\n");
            std::fflush(stdout);
            json["rows"].push_back({{"workload", w.name},
                                    {"kernel", c.symbol},
                                    {"batch", w.batch},
                                    {"tokens", w.tokens},
                                    {"heads", w.heads},
                                    {"keys", w.keys},
                                    {"page", w.page},
                                    {"us", t.median},
                                    {"least_us", t.low},
                                    {"most_us", t.high},
                                    {"flops", data.flops()},
                                    {"bytes", data.bytes()},
                                    {"tflops", tflops},
                                    {"terabytes_per_second", tbs}});
        }
    }
    if (json["rows"].empty()) bad_input("no kernel of --kernel serves any of the workloads on this device");
    if (file) {
        file->write(json.dump(2) + "\n");
        file->close();
    }
    return kDone;
}

}  // namespace lidx::command

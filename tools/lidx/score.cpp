// SPDX-License-Identifier: Apache-2.0
// lidx score: a case through the public API on a GPU or on the emulator.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "case_io.h"
#include "commands.h"
#include "failure.h"
#include "machine.h"
#include "npy.h"
#include "output_file.h"
#include "score_file.h"

namespace lidx::command {

namespace {

constexpr uint32_t kMinusInfinityBits = 0xff800000u;
constexpr int64_t kScoreStrideStep = 32;   // rows of scores begin at 128-byte boundaries

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Pages are multiples of 16 bytes in device memory, whatever they are in the file.
int64_t device_page_bytes(const Case& c) { return round_up(c.page_bytes(), 16); }

lidx_score_desc describe(const Case& c, const std::string& kernel) {
    lidx_score_desc desc;
    lidx_score_desc_init(&desc);
    desc.flags = c.contiguous() ? 0 : LIDX_FLAG_CHECK;
    if (c.visibility == Visibility::kCausal) desc.flags |= LIDX_FLAG_CAUSAL;
    if (c.visibility == Visibility::kRowLengths) desc.visibility = LIDX_SEE_ROW_LENGTH;
    if (c.visibility == Visibility::kWindow) desc.visibility = LIDX_SEE_WINDOW;
    if (c.row_map == RowMap::kFixed) desc.row_map = LIDX_ROWS_FIXED;
    if (c.row_map == RowMap::kRequestIds) desc.row_map = LIDX_ROWS_REQUEST_IDS;
    desc.compress_ratio = c.compress_ratio;
    desc.batch = c.batch;
    desc.max_rows = static_cast<int32_t>(c.rows);
    for (int32_t request = 0; request < c.batch; ++request)
        desc.max_tokens = std::max(desc.max_tokens, c.cu_seqlens_q[request + 1] - c.cu_seqlens_q[request]);
    desc.heads = c.heads;
    desc.depth = kDepth;
    desc.max_keys = c.longest();
    desc.page_size = c.contiguous() ? 0 : static_cast<int32_t>(c.page_slots);
    desc.num_pages = std::max<int64_t>(c.num_pages, 1);
    desc.k_page_stride = device_page_bytes(c);
    desc.k_scale_page_stride = c.block_split() ? device_page_bytes(c) : c.page_slots * 4;
    desc.block_table_stride = c.max_pages;
    desc.score_stride = std::max(round_up(c.longest(), kScoreStrideStep), kScoreStrideStep);
    desc.kernel = kernel.empty() ? nullptr : kernel.c_str();
    return desc;
}

lidx_support support_of(const Machine& machine, const lidx_score_desc& desc) {
    lidx_support support = {};
    support.struct_size = sizeof support;
    machine.check(lidx_supports(machine.context(), &desc, &support));
    return support;
}

struct Chosen {
    std::unique_ptr<Machine> machine;
    bool emulator = false;
};

Chosen open_emulator(const ScoreOptions& options) {
    ::setenv("PTXEMU_PROGRESS", "1", 0);
    if (!options.stats.empty()) {
        // The emulator rewrites it after every launch. Writing it now shows whether it can be written at all.
        OutputFile file(options.stats);
        file.write("{}\n");
        file.close();
        ::setenv("PTXEMU_STATS", std::filesystem::absolute(options.stats).c_str(), 1);
    }
    return {std::make_unique<Machine>(emulator_path().c_str(), 0), true};
}

// The first CUDA device with a kernel for the case; null, and *why, where there is none.
std::unique_ptr<Machine> open_cuda(const lidx_score_desc& desc, Failure* why) {
    int count = 1;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        try {
            if (ordinal == 0) count = count_devices(nullptr);
            auto machine = std::make_unique<Machine>(nullptr, ordinal);
            const lidx_support support = support_of(*machine, desc);
            if (support.symbol != nullptr) return machine;
            *why = Failure(kBadInput, support.reason);
        } catch (const Failure& failure) {
            if (failure.code != kNoDevice) throw;
            *why = failure;
        }
    }
    return nullptr;
}

Chosen choose_machine(const ScoreOptions& options, const lidx_score_desc& desc) {
    if (options.device == "emu") return open_emulator(options);
    Failure why(kNoDevice, "no device");
    if (auto machine = open_cuda(desc, &why)) return {std::move(machine), false};
    if (options.device == "cuda") throw why;
    std::fprintf(stderr, "lidx: no CUDA GPU can score this case (%s); using the emulator\n", why.what());
    return open_emulator(options);
}

void upload_keys(const Case& c, DeviceBuffer& k) {
    const int64_t pitch = device_page_bytes(c);
    if (pitch == c.page_bytes()) {
        k.upload(c.k.data(), c.k.size());
        return;
    }
    std::vector<uint8_t> padded(static_cast<size_t>(c.num_pages * pitch));
    for (int64_t page = 0; page < c.num_pages; ++page)
        std::memcpy(padded.data() + page * pitch, c.k.data() + page * c.page_bytes(),
                    static_cast<size_t>(c.page_bytes()));
    k.upload(padded.data(), padded.size());
}

template <class T>
std::unique_ptr<DeviceBuffer> to_device(const Machine& machine, const std::vector<T>& data) {
    auto buffer = std::make_unique<DeviceBuffer>(machine, data.size() * sizeof(T));
    buffer->upload(data.data(), data.size() * sizeof(T));
    return buffer;
}

// The request of each row, where rows are told to lidx so.
std::vector<int32_t> row_requests_of(const Case& c) {
    std::vector<int32_t> ids;
    for (int32_t request = 0; request < c.batch; ++request)
        ids.insert(ids.end(), static_cast<size_t>(c.cu_seqlens_q[request + 1] - c.cu_seqlens_q[request]), request);
    return ids;
}

// Scores [rows, longest]; cells of keys that a row does not see keep the -inf that the buffer was filled with.
std::vector<float> run_kernel(const Machine& machine, const Case& c, const lidx_score_desc& desc,
                              const lidx_plan* plan) {
    const int64_t stride = desc.score_stride, longest = c.longest();
    const auto q = to_device(machine, c.q);
    const auto q_scale = to_device(machine, c.q_scale);
    const auto cu_seqlens_q = to_device(machine, c.cu_seqlens_q);
    const auto row_requests = to_device(machine, row_requests_of(c));
    const auto lengths = to_device(machine, c.visibility == Visibility::kRowLengths ? c.row_lengths : c.context_lens);
    const auto row_begin = to_device(machine, c.row_begin);
    const auto row_end = to_device(machine, c.row_end);
    const auto block_table = to_device(machine, c.block_table);
    const auto k_scale = to_device(machine, c.k_scale);
    DeviceBuffer k(machine, static_cast<size_t>(c.num_pages * device_page_bytes(c)));
    upload_keys(c, k);
    DeviceBuffer scores(machine, static_cast<size_t>(c.rows * stride) * sizeof(float));
    scores.fill32(kMinusInfinityBits, static_cast<size_t>(c.rows * stride));
    size_t workspace_bytes = 0;
    machine.check(lidx_plan_workspace_bytes(plan, &workspace_bytes));
    DeviceBuffer workspace(machine, workspace_bytes);
    workspace.fill32(0, workspace_bytes / 4);

    lidx_score_args args;
    lidx_score_args_init(&args);
    args.q = q->as();
    args.q_scale = q_scale->as<float>();
    args.k_base = k.as();
    args.k_scale_base = c.block_split() ? k.as<uint8_t>() + c.page_slots * kDepth : k_scale->as();
    args.block_table = c.contiguous() ? nullptr : block_table->as<int32_t>();
    if (c.visibility != Visibility::kWindow) args.context_lens = lengths->as();
    if (c.visibility == Visibility::kWindow) args.row_begin = row_begin->as(), args.row_end = row_end->as();
    if (c.row_map == RowMap::kCuSeqlens) args.cu_seqlens_q = cu_seqlens_q->as<int32_t>();
    if (c.row_map == RowMap::kRequestIds) args.row_requests = row_requests->as<int32_t>();
    args.scores = scores.as<float>();
    args.workspace = workspace_bytes > 0 ? workspace.as() : nullptr;
    args.workspace_bytes = workspace_bytes;
    machine.check(lidx_score_enqueue(machine.context(), plan, &args, nullptr));
    machine.check(machine.driver().cuCtxSynchronize(), "cuCtxSynchronize");

    // The host has found every page id inside the lengths legal, so the kernel must not disagree.
    uint32_t check_word = 0;
    if (workspace_bytes > 0) workspace.download(&check_word, sizeof check_word);
    if (check_word != 0)
        throw Failure(kInternal, "the kernel reports an illegal page id, but the block table holds none");

    std::vector<float> result(static_cast<size_t>(c.rows * stride));
    scores.download(result.data(), result.size() * sizeof(float));
    for (int64_t row = 1; row < c.rows; ++row)
        std::memmove(result.data() + row * longest, result.data() + row * stride,
                     static_cast<size_t>(longest) * sizeof(float));
    result.resize(static_cast<size_t>(c.rows * longest));
    return result;
}

}  // namespace

int run_score(const ScoreOptions& options) {
    std::vector<Output> outputs = {{"--out", options.out}, {"--out's .json", sidecar_path(options.out)}};
    if (!options.stats.empty()) outputs.push_back({"--stats", options.stats});
    require_apart(outputs, options.in);
    const Case c = read_case(options.in);
    if (const auto bad_id = bad_page_id(c)) bad_input((options.in / *bad_id).string());
    const lidx_score_desc desc = describe(c, options.kernel);
    const auto folder = std::filesystem::absolute(options.out).parent_path();
    if (!std::filesystem::is_directory(folder)) bad_input("--out: no such directory: " + folder.string());
    const Chosen chosen = choose_machine(options, desc);
    const Machine& machine = *chosen.machine;
    if (!options.stats.empty() && !chosen.emulator)
        bad_input("--stats: only the emulator counts instructions; this ran on " + std::string(machine.info().name)
                  + " (use --device emu)");

    lidx_plan* made = nullptr;
    machine.check(lidx_plan_create(machine.context(), &desc, &made));
    const std::unique_ptr<lidx_plan, decltype(&lidx_plan_destroy)> plan(made, lidx_plan_destroy);
    lidx_plan_info info = {};
    info.struct_size = sizeof info;
    machine.check(lidx_get_plan_info(plan.get(), &info));

    const std::vector<float> scores = run_kernel(machine, c, desc, plan.get());

    const lidx_device_info& device = machine.info();
    nlohmann::ordered_json sidecar;
    sidecar["kernel"] = info.symbol;
    sidecar["arithmetic"] = arithmetic_name(info.arithmetic);
    sidecar["rows"] = c.rows;
    sidecar["longest"] = c.longest();
    sidecar["grid"] = {info.grid[0], info.grid[1], info.grid[2]};
    sidecar["shared_bytes"] = info.shared_bytes;
    sidecar["emulated"] = chosen.emulator;
    sidecar["device"] = {{"name", device.name},
                         {"ordinal", device.ordinal},
                         {"compute_capability", device.compute_capability},
                         {"multiprocessors", device.multiprocessors}};
    sidecar["driver"] = {{"path", device.driver_path}, {"version", device.driver_version}};
    sidecar["lidx"] = lidx_version();
    write_scores(options.out, c.rows, c.longest(), scores, sidecar);

    std::printf("%s: %lld rows x %lld keys by %s (%s arithmetic) on %s%s\n", options.out.c_str(),
                static_cast<long long>(c.rows), static_cast<long long>(c.longest()), info.symbol,
                arithmetic_name(info.arithmetic), chosen.emulator ? "the emulator: " : "", device.name);
    return kDone;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "case_device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "failure.h"
#include "output_file.h"

namespace lidx::command {

namespace {

constexpr int64_t kScoreStrideStep = 32;   // rows of scores begin at 128-byte boundaries

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Pages are multiples of 16 bytes in device memory, whatever they are in the file.
int64_t device_page_bytes(const Case& c) { return round_up(c.page_bytes(), 16); }

}  // namespace

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

namespace {

CaseMachine emulated(const std::filesystem::path& stats) {
    if (!stats.empty()) {
        // The emulator rewrites it after every launch. Writing it now shows whether it can be written at all.
        OutputFile file(stats);
        file.write("{}\n");
        file.close();
        ::setenv("PTXEMU_STATS", std::filesystem::absolute(stats).c_str(), 1);
    }
    return {open_emulator(), true};
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

}  // namespace

CaseMachine choose_machine(const std::string& device, const std::filesystem::path& stats,
                           const lidx_score_desc& desc) {
    if (device == "emu") return emulated(stats);
    Failure why(kNoDevice, "no device");
    if (auto machine = open_cuda(desc, &why)) {
        if (!stats.empty())
            bad_input("--stats: only the emulator counts instructions; this ran on " + std::string(machine->info().name)
                      + " (use --device emu)");
        return {std::move(machine), false};
    }
    if (device == "cuda") throw Failure(why.code, why.what() + std::string(why.code == kNoDevice ? kWithoutGpu : ""));
    std::fprintf(stderr, "lidx: using the emulator: no CUDA GPU can score this case (%s)\n", why.what());
    return emulated(stats);
}

std::string CaseMachine::name() const { return (emulator ? "the emulator: " : "") + std::string(machine->info().name); }

void CaseMachine::describe(nlohmann::ordered_json& json) const {
    const lidx_device_info& device = machine->info();
    json["emulated"] = emulator;
    json["device"] = {{"name", device.name},
                      {"ordinal", device.ordinal},
                      {"compute_capability", device.compute_capability},
                      {"multiprocessors", device.multiprocessors}};
    json["driver"] = {{"path", device.driver_path}, {"version", device.driver_version}};
    json["lidx"] = lidx_version();
}

namespace {

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

// The request of each row, where rows are told to lidx so.
std::vector<int32_t> row_requests_of(const Case& c) {
    std::vector<int32_t> ids;
    for (int32_t request = 0; request < c.batch; ++request)
        ids.insert(ids.end(), static_cast<size_t>(c.cu_seqlens_q[request + 1] - c.cu_seqlens_q[request]), request);
    return ids;
}

}  // namespace

CaseBuffers::CaseBuffers(const Machine& machine, const Case& c)
    : c_(c),
      q_(machine, c.q),
      q_scale_(machine, c.q_scale),
      cu_seqlens_q_(machine, c.cu_seqlens_q),
      row_requests_(machine, row_requests_of(c)),
      lengths_(machine, c.visibility == Visibility::kRowLengths ? c.row_lengths : c.context_lens),
      row_begin_(machine, c.row_begin),
      row_end_(machine, c.row_end),
      block_table_(machine, c.block_table),
      k_scale_(machine, c.k_scale),
      k_(machine, static_cast<size_t>(c.num_pages * device_page_bytes(c))) {
    upload_keys(c, k_);
}

void wait_for(const Machine& machine, const DeviceBuffer& workspace, bool checked) {
    machine.check(machine.driver().cuCtxSynchronize(), "cuCtxSynchronize");
    uint32_t check_word = 0;
    if (checked) workspace.download(&check_word, sizeof check_word);
    if (check_word != 0)
        throw Failure(kInternal, "the kernel reports an illegal page id, but the block table holds none");
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// A case on a device: its description as lidx has it, the machine that runs it, its arrays in device memory.
#pragma once
#include <lidx.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "case_io.h"
#include "machine.h"

namespace lidx::command {

// kernel: forced; empty: the best one.
lidx_score_desc describe(const Case& c, const std::string& kernel);

// Where a case runs.
struct CaseMachine {
    std::unique_ptr<Machine> machine;
    bool emulator = false;

    // "NVIDIA H200", "the emulator: ..."
    std::string name() const;
    // "device" and "driver" of a summary.
    void describe(nlohmann::ordered_json& json) const;
};
// device: auto (the first CUDA device with a kernel for the description, else, with a line on stderr, the emulator),
// cuda or emu. stats: where the emulator writes its counts; empty: nowhere. Throws Failure.
CaseMachine choose_machine(const std::string& device, const std::filesystem::path& stats, const lidx_score_desc& desc);

// The arrays of a case in device memory.
class CaseBuffers {
  public:
    CaseBuffers(const Machine& machine, const Case& c);

    // lidx_score_args or lidx_index_args: everything but outputs and workspace.
    template <class Args>
    void set(Args& args) const {
        args.q = q_.as();
        args.q_scale = q_scale_.as();
        args.k_base = k_.as();
        args.k_scale_base = c_.block_split() ? k_.as<uint8_t>() + c_.page_slots * kDepth : k_scale_.as();
        if (!c_.contiguous()) args.block_table = block_table_.as();
        if (c_.visibility != Visibility::kWindow) args.context_lens = lengths_.as();
        if (c_.visibility == Visibility::kWindow) args.row_begin = row_begin_.as(), args.row_end = row_end_.as();
        if (c_.row_map == RowMap::kCuSeqlens) args.cu_seqlens_q = cu_seqlens_q_.as<int32_t>();
        if (c_.row_map == RowMap::kRequestIds) args.row_requests = row_requests_.as<int32_t>();
    }

  private:
    const Case& c_;
    DeviceBuffer q_, q_scale_, cu_seqlens_q_, row_requests_, lengths_, row_begin_, row_end_, block_table_, k_scale_, k_;
};

// Waits for the launches. checked: the first word of the workspace is that of LIDX_FLAG_CHECK, and bad_page_id() has
// found every page id legal: throws Failure where a kernel disagrees.
void wait_for(const Machine& machine, const DeviceBuffer& workspace, bool checked);

}  // namespace lidx::command

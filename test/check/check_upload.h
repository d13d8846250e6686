// SPDX-License-Identifier: Apache-2.0
// A case's inputs as lidx takes them: the description, and buffers in device memory with the arguments of an enqueue.
#pragma once
#include <lidx.h>

#include <cstdint>
#include <string>
#include <vector>

#include "check_inputs.h"
#include "check_machine.h"

namespace check {

lidx_score_desc describe(const Inputs& in);

class Upload {
public:
    // weight_alignment_bytes: of q_scale, which starts on no larger power of two.
    Upload(const Machine& machine, const Inputs& in, size_t weight_alignment_bytes, size_t workspace_bytes);

    // Other lengths and row boundaries in the same buffers, and scores as they were before the first launch.
    void replay_with(const Inputs& in);
    // "" or what was overwritten that the launch must leave alone: all inputs, and what lies beside the outputs.
    std::string damage();
    // As of the last damage(): bits of each cell, and the workspace.
    std::vector<uint32_t> scores() const;
    std::vector<uint32_t> workspace() const;

    lidx_score_args args;

private:
    size_t score_bytes_, cells_, workspace_words_;
    GuardedBuffer q_, q_scale_, q_scale2_, k_pool_, k_scale_pool_, table_, scale_table_, lengths_, ends_, rows_;
    GuardedBuffer scores_, workspace_;
};

}  // namespace check

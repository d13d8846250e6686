// SPDX-License-Identifier: Apache-2.0
#include "bench/candidates.h"

#include <lidx.h>

#include <algorithm>
#include <cstdio>

#include "failure.h"
#include "texts.h"

namespace lidx::command {

namespace {

using CandidatePtr = std::unique_ptr<Candidate>;

// Descs and args ask for the same few things by the same names.
template <class Desc>
void describe_rows(Desc& desc, const Workload& w, const Extent& extent) {
    desc.flags = w.sight == Sight::kCausal ? LIDX_FLAG_CAUSAL : 0;
    desc.visibility = w.has_windows() ? LIDX_SEE_WINDOW : LIDX_SEE_REQUEST_LENGTH;
    desc.batch = w.batch;
    desc.max_rows = static_cast<int32_t>(w.rows());
    desc.max_tokens = w.tokens;
    desc.max_keys = extent.max_keys;
}

template <class Args>
void point_at_rows(Args& args, const Workload& w, const Inputs& in) {
    args.cu_seqlens_q = in.cu_seqlens_q->as<int32_t>();
    args.context_lens = w.has_windows() ? nullptr : in.context_lens->as();
    args.row_begin = w.has_windows() ? in.row_begin->as() : nullptr;
    args.row_end = w.has_windows() ? in.row_end->as() : nullptr;
}

template <class Args>
void point_at_operands(Args& args, const Workload& w, const Inputs& in) {
    point_at_rows(args, w, in);
    args.q = in.q->as();
    args.q_scale = in.q_scale->as();
    args.k_base = in.keys->as();
    args.k_scale_base = w.page > 0 ? in.keys->as<uint8_t>() + int64_t{w.page} * kBenchDepth
                                   : in.key_scale->as<uint8_t>();
    args.block_table = w.page > 0 ? in.block_table->as() : nullptr;
}

lidx_score_desc score_desc(const Workload& w, const Extent& extent, const Inputs& in) {
    lidx_score_desc desc;
    lidx_score_desc_init(&desc);
    describe_rows(desc, w, extent);
    desc.heads = w.heads;
    desc.depth = kBenchDepth;
    desc.page_size = w.page;
    desc.num_pages = in.num_pages;
    desc.k_page_stride = in.page_bytes;
    desc.k_scale_page_stride = w.page > 0 ? in.page_bytes : extent.max_keys * 4;
    desc.block_table_stride = in.block_table_stride;
    desc.score_stride = in.score_stride;
    return desc;
}

// Null where the kernel does not serve it, and says so.
const char* symbol_for(const Machine& machine, const lidx_score_desc& desc) {
    const lidx_support support = support_of(machine, desc);
    if (support.symbol == nullptr)
        std::fprintf(stderr, "lidx: %s skipped: %s\n", desc.kernel != nullptr ? desc.kernel : "a workload",
                     support.reason);
    return support.symbol;
}

CandidatePtr score_candidate(const Machine& machine, const Workload& w, const InputCopies& copies,
                             const lidx_score_desc& desc) {
    struct Held {
        std::unique_ptr<lidx_plan, decltype(&lidx_plan_destroy)> plan{nullptr, lidx_plan_destroy};
        std::vector<lidx_score_args> args;
    };
    const char* symbol = symbol_for(machine, desc);
    if (symbol == nullptr) return nullptr;
    const auto held = std::make_shared<Held>();
    lidx_plan* plan = nullptr;
    machine.check(lidx_plan_create(machine.context(), &desc, &plan));
    held->plan.reset(plan);
    for (const auto& in : copies) {
        lidx_score_args& args = held->args.emplace_back();
        lidx_score_args_init(&args);
        point_at_operands(args, w, *in);
        args.scores = in->scores->as();
    }
    auto candidate = std::make_unique<Candidate>();
    candidate->name = symbol;
    candidate->run = [&machine, held = held.get()](int copy, CUstream stream) {
        machine.check(lidx_score_enqueue(machine.context(), held->plan.get(), &held->args[static_cast<size_t>(copy)],
                                         stream));
    };
    candidate->holds = held;
    return candidate;
}

CandidatePtr index_candidate(const Machine& machine, const Workload& w, const InputCopies& copies,
                             const lidx_score_desc& score) {
    struct Held {
        std::unique_ptr<lidx_index_plan, decltype(&lidx_index_plan_destroy)> plan{nullptr, lidx_index_plan_destroy};
        std::unique_ptr<DeviceBuffer> workspace;   // of all copies: their runs never overlap
        std::vector<lidx_index_args> args;
    };
    if (symbol_for(machine, score) == nullptr) return nullptr;
    lidx_index_desc desc;
    lidx_index_desc_init(&desc);
    desc.score = score;
    desc.score.score_stride = 0;
    desc.score.flags |= LIDX_FLAG_PDL;
    desc.k = kBenchTopK;
    desc.workspace_budget_bytes = w.workspace_budget_bytes;
    const auto held = std::make_shared<Held>();
    lidx_index_plan* plan = nullptr;
    machine.check(lidx_index_plan_create(machine.context(), &desc, &plan));
    held->plan.reset(plan);
    lidx_index_plan_info info = {};
    info.struct_size = sizeof info;
    machine.check(lidx_get_index_plan_info(plan, &info));
    held->workspace = std::make_unique<DeviceBuffer>(machine, info.workspace_bytes);
    held->workspace->fill32(0, info.zero_bytes / 4);
    for (const auto& in : copies) {
        lidx_index_args& args = held->args.emplace_back();
        lidx_index_args_init(&args);
        point_at_operands(args, w, *in);
        args.indices = in->indices->as<int32_t>();
        args.workspace = held->workspace->as();
        args.workspace_bytes = info.workspace_bytes;
    }
    auto candidate = std::make_unique<Candidate>();
    candidate->name = std::string(info.symbol) + " + topk" +
                      (info.windows > 1 ? " x " + std::to_string(info.windows) : "");
    candidate->gives_indices = true;
    candidate->run = [&machine, held = held.get()](int copy, CUstream stream) {
        machine.check(lidx_index_enqueue(machine.context(), held->plan.get(), &held->args[static_cast<size_t>(copy)],
                                         stream));
    };
    candidate->holds = held;
    return candidate;
}

// overlapped: each selection may begin while the one before it ends (LIDX_FLAG_PDL).
CandidatePtr topk_candidate(const Machine& machine, const Workload& w, const Extent& extent, const InputCopies& copies,
                            bool overlapped) {
    struct Held {
        lidx_topk_desc desc;
        std::unique_ptr<DeviceBuffer> workspace;
        std::vector<lidx_topk_args> args;
    };
    const auto held = std::make_shared<Held>();
    lidx_topk_desc_init(&held->desc);
    describe_rows(held->desc, w, extent);
    if (overlapped) held->desc.flags |= LIDX_FLAG_PDL;
    held->desc.row_map = LIDX_ROWS_FIXED;
    held->desc.score_stride = copies.front()->score_stride;
    held->desc.k = kBenchTopK;
    size_t workspace_bytes = 0;
    machine.check(lidx_topk_workspace_bytes(machine.context(), &held->desc, &workspace_bytes));
    held->workspace = std::make_unique<DeviceBuffer>(machine, workspace_bytes);
    held->workspace->fill32(0, workspace_bytes / 4);
    for (const auto& in : copies) {
        lidx_topk_args& args = held->args.emplace_back();
        lidx_topk_args_init(&args);
        args.scores = in->scores->as();
        args.context_lens = in->context_lens->as();
        args.indices = in->indices->as<int32_t>();
        args.workspace = workspace_bytes > 0 ? held->workspace->as() : nullptr;
        args.workspace_bytes = workspace_bytes;
    }
    auto candidate = std::make_unique<Candidate>();
    candidate->name = overlapped ? "topk, overlapped" : "topk";
    candidate->gives_indices = true;
    candidate->run = [&machine, held = held.get()](int copy, CUstream stream) {
        machine.check(lidx_topk_enqueue(machine.context(), &held->desc, &held->args[static_cast<size_t>(copy)],
                                        stream));
    };
    candidate->holds = held;
    return candidate;
}

CandidatePtr merge_candidate(const Machine& machine, const Workload& w, const InputCopies& copies) {
    const auto held = std::make_shared<std::vector<lidx_merge_args>>();
    for (const auto& in : copies) {
        lidx_merge_args& args = held->emplace_back();
        lidx_merge_args_init(&args);
        args.rows = static_cast<int32_t>(w.rows());
        args.shards = w.shards;
        args.k_in = static_cast<int32_t>(w.keys);
        args.k = kBenchTopK;
        args.score_row_stride = args.position_row_stride = in->score_stride;
        args.scores = in->scores->as<float>();
        args.positions = in->positions->as<int32_t>();
        args.indices = in->indices->as<int32_t>();
    }
    auto candidate = std::make_unique<Candidate>();
    candidate->name = "topk_merge";
    candidate->gives_indices = true;
    candidate->run = [&machine, held = held.get()](int copy, CUstream stream) {
        machine.check(lidx_topk_merge_enqueue(machine.context(), &(*held)[static_cast<size_t>(copy)], stream));
    };
    candidate->holds = held;
    return candidate;
}

}  // namespace

std::vector<CandidatePtr> lidx_candidates(const Machine& machine, const Workload& w, const Extent& extent,
                                          const InputCopies& copies, const std::vector<std::string>& kernels,
                                          bool fast) {
    std::vector<CandidatePtr> candidates;
    const auto add = [&](CandidatePtr candidate) {
        if (candidate != nullptr) candidates.push_back(std::move(candidate));
    };
    if (w.work == Work::kTopk)
        for (const bool overlapped : {false, true}) add(topk_candidate(machine, w, extent, copies, overlapped));
    if (w.work == Work::kMerge) add(merge_candidate(machine, w, copies));
    if (!w.scores_keys()) return candidates;

    for (const std::string& kernel : kernels.empty() ? std::vector<std::string>{""} : kernels) {
        lidx_score_desc desc = score_desc(w, extent, *copies.front());
        desc.kernel = kernel.empty() ? nullptr : kernel.c_str();
        CandidatePtr scorer = score_candidate(machine, w, copies, desc);
        if (w.work == Work::kIndex && scorer != nullptr) {
            add(index_candidate(machine, w, copies, desc));
            scorer->role = Role::kScorer;
        }
        add(std::move(scorer));
    }
    lidx_score_desc desc = score_desc(w, extent, *copies.front());
    desc.flags |= LIDX_FLAG_FAST;
    if (fast && support_of(machine, desc).arithmetic == LIDX_ARITHMETIC_SM90_FAST)
        add(w.work == Work::kIndex ? index_candidate(machine, w, copies, desc)
                                   : score_candidate(machine, w, copies, desc));
    return candidates;
}

void require_kernels(const std::vector<std::string>& symbols) {
    std::vector<std::string> known;
    for (int32_t index = 0; index < lidx_kernel_count(); ++index) {
        lidx_kernel_info info = {};
        info.struct_size = sizeof info;
        if (lidx_get_kernel_info(nullptr, index, &info) != LIDX_OK)
            throw Failure(kInternal, lidx_last_error(nullptr));
        known.push_back(info.symbol);
    }
    for (const std::string& symbol : symbols)
        if (std::find(known.begin(), known.end(), symbol) == known.end())
            bad_input("--kernel: no such kernel: " + symbol + "; there are " + joined(known));
}

}  // namespace lidx::command

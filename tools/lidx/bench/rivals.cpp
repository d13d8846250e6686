// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals.h"

#include <dlfcn.h>

#include <filesystem>

#include "failure.h"

namespace lidx::command {

namespace {

// Nothing where rival.h has no words for the workload: lists to merge, paged keys of prefill, lengths without a width.
std::optional<LidxRivalWork> rival_work(const Workload& w) {
    const bool index = w.work == Work::kIndex;
    if (w.work == Work::kTopk) return LIDX_RIVAL_TOPK;
    if (w.work == Work::kMerge) return std::nullopt;
    if (w.page > 0 && w.sight == Sight::kAll) return index ? LIDX_RIVAL_DECODE_TOPK : LIDX_RIVAL_DECODE;
    if (w.page == 0 && w.batch == 1) return index ? LIDX_RIVAL_PREFILL_TOPK : LIDX_RIVAL_PREFILL;
    return std::nullopt;
}

lidx_rival_case rival_case(const Machine& machine, LidxRivalWork work, const Workload& w, const Extent& extent,
                           const Inputs& in) {
    const bool decode = work == LIDX_RIVAL_DECODE || work == LIDX_RIVAL_DECODE_TOPK;
    const bool prefill = work == LIDX_RIVAL_PREFILL || work == LIDX_RIVAL_PREFILL_TOPK;
    lidx_rival_case c = {};
    c.struct_size = sizeof c;
    c.work = work;
    c.rows = static_cast<int32_t>(w.rows());
    c.max_keys = static_cast<int32_t>(extent.max_keys);
    c.sm_count = machine.info().multiprocessors;
    c.row_end = in.row_end->as<int32_t>();
    c.scores = in.scores->as<float>();
    c.score_stride = in.score_stride;
    if (w.chooses()) {
        c.k = kBenchTopK;
        c.indices = in.indices->as<int32_t>();
    }
    if (decode || prefill) {
        c.heads = w.heads;
        c.depth = kBenchDepth;
        c.q = in.q->as<uint8_t>();
        c.q_scale = in.q_scale->as<float>();
    }
    if (decode) {
        c.batch = w.batch;
        c.next_n = w.tokens;
        c.page_size = w.page;
        c.num_pages = static_cast<int32_t>(in.num_pages);
        c.block_table_stride = static_cast<int32_t>(in.block_table_stride);
        c.pool = in.keys->as<uint8_t>();
        c.block_table = in.block_table->as<int32_t>();
        c.context_lens = in.context_lens->as<int32_t>();
    }
    if (prefill) {
        c.keys = in.keys->as<uint8_t>();
        c.key_scale = in.key_scale->as<float>();
        c.row_begin = in.row_begin->as<int32_t>();
    }
    return c;
}

}  // namespace

Rival::Rival(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) bad_input("--rival " + path + ": there is no such file");
    // Stays loaded until the process ends: it may have threads, or CUDA's runtime inside.
    void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* reason = dlerror();
        bad_input("--rival " + path + " cannot be loaded: " + (reason != nullptr ? reason : "unknown reason"));
    }
    const auto find = [&](auto& function, const char* symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
        if (function == nullptr)
            bad_input("--rival " + path + " lacks the symbol " + symbol + " (lidx/rival.h says what it exports)");
    };
    decltype(&::lidx_rival_name) name = nullptr;
    find(name, "lidx_rival_name");
    find(prepare_, "lidx_rival_prepare");
    find(run_, "lidx_rival_run");
    find(release_, "lidx_rival_release");
    const char* text = name();
    if (text == nullptr || *text == '\0') bad_input("--rival " + path + ": lidx_rival_name() gives no name");
    name_ = text;
}

std::unique_ptr<Candidate> Rival::candidate(const Machine& machine, const Workload& w, const Extent& extent,
                                            const InputCopies& copies, std::string* problem) const {
    const std::optional<LidxRivalWork> work = rival_work(w);
    if (!work) return nullptr;
    struct Held {
        ~Held() {
            for (void* state : states) release(state);
        }
        decltype(&::lidx_rival_release) release = nullptr;
        std::vector<void*> states;   // one per copy
    };
    const auto held = std::make_shared<Held>();
    held->release = release_;
    for (const auto& in : copies) {
        const lidx_rival_case c = rival_case(machine, *work, w, extent, *in);
        void* state = nullptr;
        const int result = prepare_(&c, &state);
        if (result < 0) *problem = "lidx_rival_prepare gave " + std::to_string(result);
        if (result != 0) return nullptr;
        held->states.push_back(state);
    }
    auto candidate = std::make_unique<Candidate>();
    candidate->name = name_;
    candidate->role = Role::kRival;
    candidate->gives_indices = w.chooses();
    candidate->run = [run = run_, held = held.get()](int copy, CUstream stream) {
        const int result = run(held->states[static_cast<size_t>(copy)], stream);
        if (result != 0) throw Failure(kVerificationFailed, "lidx_rival_run gave " + std::to_string(result));
    };
    candidate->holds = held;
    return candidate;
}

}  // namespace lidx::command

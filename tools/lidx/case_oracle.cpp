// SPDX-License-Identifier: Apache-2.0
#include "case_oracle.h"

#include <stdexcept>
#include <string_view>

#include "failure.h"
#include "json_file.h"
#include "score_file.h"
#include "test/ref/lattice.h"

namespace lidx::command {

namespace {

constexpr ref::Arithmetic kArithmetics[] = {ref::kSm100, ref::kSm90, ref::kSm90Fast, ref::kFp32};

[[noreturn]] void refuse_arithmetic(const std::string& source, const std::string& value) {
    bad_input(source + ": " + value + ", expected sm_100, sm_90, sm_90_fast or fp32");
}

}  // namespace

ref::Arithmetic find_arithmetic(const std::filesystem::path& results, const std::string& option, bool exact) {
    std::string name = option;
    std::string source = "--arithmetic";
    if (name.empty()) {
        const auto path = sidecar_path(results);
        if (!std::filesystem::exists(path) && exact) return ref::kSm100;
        if (!std::filesystem::exists(path))
            bad_input(path.string() + ": no sidecar says which arithmetic computed " + results.string() +
                      "; pass --arithmetic");
        const nlohmann::json sidecar = read_json(path);
        source = path.string() + ": arithmetic";
        if (!sidecar.is_object()) bad_input(path.string() + ": not an object; pass --arithmetic");
        if (!sidecar.contains("arithmetic")) bad_input(source + " is missing; pass --arithmetic");
        const nlohmann::json& value = sidecar["arithmetic"];
        if (!value.is_string()) refuse_arithmetic(source, json_shown(value));
        name = value.get<std::string>();
    }
    for (const ref::Arithmetic& arithmetic : kArithmetics)
        if (name == arithmetic.name) return arithmetic;
    refuse_arithmetic(source, json_shown(name));
}

void require_lattice(const Case& c) {
    bool of_row = true;
    int64_t row = 0, key = 0;
    int32_t request = 0;
    try {
        for (; row < c.rows; ++row) {
            for (int h = 0; h < c.heads; ++h)
                ref::assert_lattice_codes(c.q.data() + (row * c.heads + h) * kDepth, kDepth);
            ref::assert_lattice_weights(c.q_scale.data() + row * c.heads, c.heads);
        }
        of_row = false;
        for (; request < c.batch; ++request)
            for (key = 0; key < c.length(request); ++key) {
                const int64_t page = c.page_of(request, key), slot = key % c.page_slots;
                ref::assert_lattice_codes(c.codes(page, slot), kDepth);
                ref::assert_lattice_k_scale(c.scale(page, slot));
            }
    } catch (const std::logic_error& error) {
        bad_input("--exact needs a case on the exact lattice (lidx gen --lattice); " +
                  (of_row ? "q, row " + std::to_string(row)
                          : "k, request " + std::to_string(request) + ", key " + std::to_string(key)) +
                  ": " + error.what());
    }
}

CaseOracle::CaseOracle(const Case& c, ref::Arithmetic arithmetic)
    : c_(c),
      arithmetic_(arithmetic),
      fast_(std::string_view(arithmetic.name) == ref::kSm90Fast.name),
      q_(static_cast<size_t>(c.heads)) {}

void CaseOracle::take_row(int64_t row) {
    const uint8_t* codes = c_.q.data() + row * c_.heads * kDepth;
    for (int h = 0; h < c_.heads; ++h) q_[static_cast<size_t>(h)].decode(codes + h * kDepth, kDepth);
    q_scale_ = c_.q_scale.data() + row * c_.heads;
    if (fast_) fast_row_ = ref::fast_query(codes, q_scale_, c_.heads);
}

ref::BoundedScore CaseOracle::score(int32_t request, int64_t key) {
    const int64_t page = c_.page_of(request, key), slot = key % c_.page_slots;
    k_.decode(c_.codes(page, slot), kDepth);
    const float scale = c_.scale(page, slot);
    return fast_ ? ref::bounded_fast_score(fast_row_, q_.data(), q_scale_, k_, scale)
                 : ref::bounded_score(q_.data(), q_scale_, c_.heads, k_, scale, arithmetic_);
}

}  // namespace lidx::command

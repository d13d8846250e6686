// SPDX-License-Identifier: Apache-2.0
#include "findings.h"

#include <set>

#include "hex.h"

namespace ptxemu {
namespace {

std::string place_text(const Party& p) {
    std::string text;
    if (p.ptx_line != 0) text += ", PTX line " + std::to_string(p.ptx_line) + " `" + p.instruction + "`";
    if (!p.source.empty()) text += " (" + p.source + ")";
    text += ", CTA (" + std::to_string(p.cta[0]) + "," + std::to_string(p.cta[1]) + "," +
            std::to_string(p.cta[2]) + ")";
    if (!p.role.empty()) text += ", " + p.role;
    return text;
}

std::string address_text(const Finding& f) {
    if (f.bytes == 0) return {};
    const std::string text = " (" + f.space + " " + hex(f.address);
    if (f.space == "tensor memory") return text + ")";
    return text + ", " + std::to_string(f.bytes) + " bytes" + (f.place.empty() ? "" : ": " + f.place) + ")";
}

}   // namespace

std::string finding_text(const Finding& f) {
    std::string text = std::string("ptxemu: ") + (f.severity == Severity::kError ? "error" : "warning") + " [" +
                       f.code + "] kernel " + f.kernel + place_text(f.party) + ": " + f.what + address_text(f) + "\n";
    if (f.other.pc != ~0u) text += "ptxemu:   the other side" + place_text(f.other);
    if (!f.would_order.empty()) {
        text += f.other.pc != ~0u ? "; missing: " : "ptxemu:   missing: ";
        text += f.would_order;
    }
    if (text.back() != '\n') text += '\n';
    return text;
}

std::string error_codes(const std::vector<Finding>& findings) {
    std::set<std::string> codes;
    for (const Finding& f : findings)
        if (f.severity == Severity::kError) codes.insert("[" + f.code + "]");
    std::string text;
    for (const std::string& code : codes) text += (text.empty() ? "" : " ") + code;
    return text;
}

bool FindingLog::add(Finding finding) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] =
        index_.try_emplace({finding.code, finding.party.pc, finding.other.pc}, findings_.size());
    if (!is_new) {
        ++findings_[at->second].count;
        return true;
    }
    if (findings_.size() >= kMaxFindings) {
        index_.erase(at);
        return finding.severity == Severity::kWarning;
    }
    const bool is_told = finding.severity == Severity::kWarning && told_ != nullptr && !told_->add(at->first);
    if (!is_told) std::fputs(finding_text(finding).c_str(), stderr);
    findings_.push_back(std::move(finding));
    return true;
}

bool FindingLog::again(const std::string& code, uint32_t pc, uint32_t other) {
    const std::lock_guard lock(mutex_);
    const auto at = index_.find({code, pc, other});
    if (at == index_.end()) return false;
    ++findings_[at->second].count;
    return true;
}

std::vector<Finding> FindingLog::take() {
    const std::lock_guard lock(mutex_);
    index_.clear();
    return std::move(findings_);
}

}   // namespace ptxemu

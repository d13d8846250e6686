// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>

#include "engine.h"

namespace ptxemu {

std::string json_quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out + '"';
}

namespace {

void append_counts(std::string& json, const std::string& name, const std::map<std::string, uint64_t>& counts,
                   const std::string& indent = "  ") {
    json += indent + json_quoted(name) + ": {";
    const char* separator = "\n";
    for (const auto& [key, value] : counts) {
        json += separator + indent + "  " + json_quoted(key) + ": " + std::to_string(value);
        separator = ",\n";
    }
    json += counts.empty() ? "}" : "\n" + indent + "}";
}

}   // namespace

void Stats::add(const Stats& other) {
    for (const auto& [name, n] : other.warp_counts) warp_counts[name] += n;
    for (const auto& [name, n] : other.thread_counts) thread_counts[name] += n;
    warp_instructions += other.warp_instructions;
    thread_instructions += other.thread_instructions;
    launches += other.launches;
    ctas += other.ctas;
    tma_bytes_loaded += other.tma_bytes_loaded;
    mma_operations += other.mma_operations;
    warnings += other.warnings;
    errors += other.errors;
    findings.insert(findings.end(), other.findings.begin(), other.findings.end());
    for (const auto& [role, counts] : other.role_counts)
        for (const auto& [name, n] : counts) role_counts[role][name] += n;
    for (const auto& [name, n] : other.bytes) bytes[name] += n;
    for (const auto& [line, passes] : other.bank_conflicts)
        for (size_t i = 0; i < 2; ++i) bank_conflicts[line][i] += passes[i];
    seconds += other.seconds;
    event_order = other.event_order;
}

std::string stats_json(const Stats& stats) {
    std::string json = "{\n";
    const auto number = [&](const char* name, uint64_t value) {
        json += std::string("  \"") + name + "\": " + std::to_string(value) + ",\n";
    };
    number("launches", stats.launches);
    number("ctas", stats.ctas);
    number("warp_instructions", stats.warp_instructions);
    number("thread_instructions", stats.thread_instructions);
    number("tma_bytes_loaded", stats.tma_bytes_loaded);
    number("mma_operations", stats.mma_operations);
    number("warnings", stats.warnings);
    number("errors", stats.errors);
    number("event_order", stats.event_order);
    std::map<std::string, uint64_t> codes;
    for (const Finding& f : stats.findings) ++codes[f.code];
    append_counts(json, "findings", codes);
    json += ",\n";
    append_counts(json, "warp_counts", stats.warp_counts);
    json += ",\n";
    append_counts(json, "thread_counts", stats.thread_counts);
    json += ",\n";
    if (!stats.role_counts.empty()) {
        json += "  \"role_counts\": {";
        const char* separator = "\n";
        for (const auto& [role, counts] : stats.role_counts) {
            json += separator;
            append_counts(json, role, counts, "    ");
            separator = ",\n";
        }
        json += "\n  },\n";
        append_counts(json, "bytes", stats.bytes);
        json += ",\n  \"shared_memory_passes\": {";
        std::array<uint64_t, 2> all{};
        for (const auto& [line, passes] : stats.bank_conflicts)
            for (size_t i = 0; i < 2; ++i) all[i] += passes[i];
        json += "\n    \"taken\": " + std::to_string(all[0]) + ",\n    \"without_conflicts\": " +
                std::to_string(all[1]) + ",\n    \"by_line\": {";
        separator = "\n";
        for (const auto& [line, passes] : stats.bank_conflicts) {
            if (passes[0] == passes[1]) continue;
            json += separator + ("      " + json_quoted(line)) + ": {\"taken\": " + std::to_string(passes[0]) +
                    ", \"without_conflicts\": " + std::to_string(passes[1]) + "}";
            separator = ",\n";
        }
        json += separator[0] == ',' ? "\n    }\n  },\n" : "}\n  },\n";
    }
    const double rate = stats.seconds > 0 ? static_cast<double>(stats.warp_instructions) / stats.seconds : 0;
    json += "  \"warp_instructions_per_second\": " + std::to_string(static_cast<uint64_t>(rate)) + ",\n";
    char seconds[64];
    std::snprintf(seconds, sizeof seconds, "  \"seconds\": %.6f\n}\n", stats.seconds);
    return json + seconds;
}

}   // namespace ptxemu

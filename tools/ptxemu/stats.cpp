// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "engine.h"

namespace ptxemu {
namespace {

void append_counts(std::string& json, const char* name, const std::map<std::string, uint64_t>& counts) {
    json += std::string("  \"") + name + "\": {";
    const char* separator = "\n";
    for (const auto& [key, value] : counts) {
        json += separator;
        json += "    \"";
        for (char c : key) {
            if (c == '"' || c == '\\') json += '\\';
            if (static_cast<unsigned char>(c) >= 0x20) json += c;
        }
        json += "\": " + std::to_string(value);
        separator = ",\n";
    }
    json += counts.empty() ? "},\n" : "\n  },\n";
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
    append_counts(json, "warp_counts", stats.warp_counts);
    append_counts(json, "thread_counts", stats.thread_counts);
    char seconds[64];
    std::snprintf(seconds, sizeof seconds, "  \"seconds\": %.6f\n}\n", stats.seconds);
    return json + seconds;
}

}   // namespace ptxemu

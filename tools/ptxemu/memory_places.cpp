// SPDX-License-Identifier: Apache-2.0
#include "memory_places.h"

#include <algorithm>
#include <cstring>

namespace ptxemu {
namespace {

// "parameter 2 (p)" whose 8-byte words hold an address of the allocation; empty: none.
std::string parameter_of(const Program& program, const Launch& launch, const Allocation& a) {
    for (size_t i = 0; i < program.params.size(); ++i) {
        const NamedPlace& p = program.params[i];
        const uint64_t end = std::min<uint64_t>(p.offset + p.bytes, launch.params.size());
        for (uint64_t at = (p.offset + 7) & ~uint64_t{7}; at + 8 <= end; at += 8) {
            uint64_t word;
            std::memcpy(&word, launch.params.data() + at, 8);
            if (word >= a.base && word - a.base < a.bytes)
                return "parameter " + std::to_string(i) + " (" + p.name + ")";
        }
    }
    return {};
}

}   // namespace

std::string global_place(const Program& program, const Launch& launch, const GlobalMemory& memory, uint64_t address,
                         uint64_t bytes) {
    constexpr uint64_t kNullBytes = 1u << 16, kNearBytes = 64u << 20;
    if (address < kNullBytes) return "a null pointer and an offset";
    std::string label;
    const Allocation a = memory.nearest(address, &label);
    const bool before = address < a.base;
    const uint64_t offset = before ? a.base - address : address - a.base;
    if (a.bytes == 0 || (before ? offset : offset - std::min(offset, a.bytes)) > kNearBytes)
        return "no allocation is within " + std::to_string(kNearBytes >> 20) + " MiB";
    std::string text = std::string("byte ") + (before ? "-" : "") + std::to_string(offset);
    const std::string size = std::to_string(a.bytes) + " bytes";
    if (const std::string parameter = parameter_of(program, launch, a); !label.empty()) {
        text += " of the " + size + " of " + label;
    } else if (!parameter.empty()) {
        text += " of the " + size + " that " + parameter + " points to";
    } else {
        text += " of an allocation of " + size;
    }
    if (before) return text + ", before their begin";
    if (offset >= a.bytes) return text + ", behind their end";
    if (bytes > a.bytes - offset) text += ", and " + std::to_string(bytes - (a.bytes - offset)) + " beyond their end";
    return text;
}

std::string shared_place(const Program& program, uint64_t address) {
    const uint64_t at = address & ((uint64_t{1} << kRankShift) - 1);
    if (at < kSharedBase) return {};
    const uint64_t offset = at - kSharedBase;
    if (offset >= program.static_shared_bytes) {
        const uint64_t dynamic = dynamic_shared_begin(program.static_shared_bytes);
        return at >= dynamic ? "byte " + std::to_string(at - dynamic) + " of dynamic shared memory" : std::string();
    }
    for (const NamedPlace& v : program.shared)
        if (offset >= v.offset && offset - v.offset < v.bytes)
            return "byte " + std::to_string(offset - v.offset) + " of variable " + v.name;
    return {};
}

}   // namespace ptxemu

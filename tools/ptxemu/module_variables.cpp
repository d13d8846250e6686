// SPDX-License-Identifier: Apache-2.0
#include "module_variables.h"

#include <algorithm>
#include <cstring>

namespace ptxemu {
namespace {

constexpr uint64_t kMaxConstBytes = 65536;   // PTX ISA 5.1.3: constant memory of statically sized variables

struct Placed {
    GlobalMemory& memory;
    std::map<std::string, uint64_t> addresses;
    bool keep = false;
    ~Placed() {
        if (keep) return;
        for (const auto& [name, address] : addresses) memory.release(address);
    }
};

}   // namespace

std::map<std::string, uint64_t> place_variables(const Module& module, GlobalMemory& memory) {
    Placed placed{memory, {}};
    uint64_t const_bytes = 0;
    for (const Variable& v : module.globals) {
        if (v.space == Space::kShared) continue;
        if (v.is_extern) continue;   // whoever uses it is refused by the decoder
        if (v.space == Space::kConst) const_bytes += v.bytes;
        if (const_bytes > kMaxConstBytes)
            throw PtxError(v.line, "more than " + std::to_string(kMaxConstBytes) + " bytes of .const variables");
        const uint64_t address = memory.allocate(v.bytes);
        if (address == 0)
            throw VariableMemoryError("variable '" + v.name + "' of " + std::to_string(v.bytes) + " bytes");
        placed.addresses.emplace(v.name, address);
        memory.label(address, "variable " + v.name);
        memory.mark_written(address, v.bytes);
        auto* bytes = reinterpret_cast<uint8_t*>(address);
        if (v.bytes <= GlobalMemory::kMaxPoisonedBytes) std::memset(bytes, 0, v.bytes);
        if (!v.init.empty()) std::memcpy(bytes, v.init.data(), v.init.size());
    }
    for (const Variable& v : module.globals) {
        for (const Relocation& r : v.relocations) {
            const auto symbol = placed.addresses.find(r.symbol);
            const uint64_t address =
                symbol != placed.addresses.end() ? symbol->second : function_address(module, r.symbol);
            if (address == 0) {
                throw PtxError(v.line, "the initialiser of '" + v.name + "' takes the address of '" + r.symbol +
                                           "', which is neither a .global or .const variable nor a function");
            }
            const uint64_t value = (address + static_cast<uint64_t>(r.addend)) >> r.shift;
            std::memcpy(reinterpret_cast<uint8_t*>(placed.addresses.at(v.name)) + r.offset, &value,
                        std::min(r.bytes, 8u));
        }
    }
    placed.keep = true;
    return std::move(placed.addresses);
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
#include "ptx_fuzz_one.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tools/ptxemu/engine.h"
#include "tools/ptxemu/ir.h"
#include "tools/ptxemu/tensor_map.h"

using namespace ptxemu;

namespace {

constexpr uint64_t kBufferBytes = 65536;
constexpr uint64_t kBudget = 3000;   // warp instructions of a CTA
constexpr uint32_t kMaxThreads = 128;
constexpr uint32_t kMaxLocalBytes = 4096;

[[noreturn]] void broken(const char* what, const std::string& detail) {
    std::fprintf(stderr, "ptx_fuzz: %s: %s\n", what, detail.c_str());
    std::abort();
}

// The launch that a kernel asks for, as far as it is small; parameters are addresses of one buffer, a tensor map of it
// where there is room for one.
Launch launch_of(const Function& f, uint64_t buffer, uint8_t choice) {
    Launch launch;
    launch.block.x = f.reqntid[0] != 0 ? f.reqntid[0] : choice & 1 ? 32 : 64;
    if (f.reqntid[0] != 0) launch.block.y = std::max(1u, f.reqntid[1]), launch.block.z = std::max(1u, f.reqntid[2]);
    launch.grid.x = 2;
    if (f.reqnctapercluster[0] != 0) {
        launch.cluster = {f.reqnctapercluster[0], std::max(1u, f.reqnctapercluster[1]),
                          std::max(1u, f.reqnctapercluster[2])};
        launch.grid = launch.cluster;
    }
    launch.dynamic_shared_bytes = choice & 2 ? 16384 : 0;
    launch.params.resize(f.param_bytes);
    for (const Variable& v : f.params) {
        if (v.offset > launch.params.size() || v.bytes > launch.params.size() - v.offset) continue;
        uint8_t* to = launch.params.data() + v.offset;
        if (v.bytes >= 128) {
            TensorMapArgs map;
            map.data_type = 7, map.rank = 2, map.address = buffer;
            map.dims[0] = 64, map.dims[1] = 32, map.strides[0] = 256, map.box[0] = 32, map.box[1] = 8;
            for (auto& e : map.element_strides) e = 1;
            map.swizzle = 3;
            tensor_map_encode(map, to);
        } else if (v.bytes >= 8) {
            std::memcpy(to, &buffer, 8);
        } else {
            to[0] = 5;
        }
    }
    return launch;
}

}   // namespace

void ptx_fuzz_one(const uint8_t* data, size_t bytes) {
    static GlobalMemory& memory = []() -> GlobalMemory& {
        static GlobalMemory m;
        m.track_writes();
        return m;
    }();
    static const uint64_t buffer = memory.allocate(kBufferBytes);
    const uint8_t choice = bytes != 0 ? data[bytes - 1] : 0;
    try {
        const auto module = parse_ptx({reinterpret_cast<const char*>(data), bytes});
        std::map<std::string, uint64_t> addresses;
        for (const Variable& v : module->globals) addresses[v.name] = buffer;
        int kernels = 0;
        for (const auto& [name, function] : module->functions) {
            if (!function->is_entry || function->is_declaration || ++kernels > 4) continue;
            const auto program = decode(*module, *function, addresses);
            const Launch launch = launch_of(*function, buffer, choice);
            const uint64_t threads = static_cast<uint64_t>(launch.block.x) * launch.block.y * launch.block.z *
                                     launch.cluster.x * launch.cluster.y * launch.cluster.z;
            if (threads > kMaxThreads || function->local_bytes > kMaxLocalBytes) continue;
            DeviceConfig device;
            device.compute_capability = module->target.starts_with("sm_9") ? 90 : 100;
            device.seed = choice >> 3 & 3;
            device.check = choice & 4;
            device.max_instructions = kBudget;
            Stats stats;
            const RunResult result = run(*program, launch, device, memory, stats);
            if (result.status == RunStatus::kInternal) broken("a defect of its own", result.message);
            if (result.status != RunStatus::kOk && result.message.empty()) broken("no message", name);
        }
    } catch (const PtxError& e) {
        if (e.line <= 0) broken("an error without a line", e.what());
        if (e.what()[0] == '\0') broken("an error without words", std::to_string(e.line));
    } catch (const std::exception& e) {
        broken("an exception of another kind", e.what());
    }
}

// SPDX-License-Identifier: Apache-2.0
// lidx info: the kernels inside, and the machines that could run them.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <lidx.h>
#include <nlohmann/json.hpp>

#include "case_io.h"
#include "commands.h"
#include "counted.h"
#include "cubin_registers.h"
#include "failure.h"
#include "host/kernel_table.h"
#include "kernel/cache_layout.h"
#include "machine.h"
#include "texts.h"

namespace lidx::command {

namespace {

using Json = nlohmann::ordered_json;

Json registers_of(const char* source, const char* symbol) {
    Json registers = Json::object();
    for (const auto& [architecture, count] : cubin_registers(source, symbol)) registers[architecture] = count;
    return registers;
}

std::string registers_text(const Json& registers) {
    return joined(registers.items(), ", ", [](const auto& item) {
        return item.key() + " " + std::to_string(item.value().template get<int>());
    });
}

Json other_kernel(const char* source, const char* symbol) {
    return {{"symbol", symbol}, {"registers", registers_of(source, symbol)}};
}

Json cache_kernels() {
    Json list = Json::array();
    for (const CacheKernelRow& row : kCacheKernels) list.push_back(other_kernel(row.source, row.symbol));
    return list;
}

Json topk_kernels() {
    Json list = Json::array();
    for (const TopkKernelRow& row : kTopkKernels) list.push_back(other_kernel(row.source, row.symbol));
    list.push_back(other_kernel(kTopkMerge, kTopkMerge));
    return list;
}

Json kernels() {
    Json list = Json::array();
    for (int32_t index = 0; index < lidx_kernel_count(); ++index) {
        lidx_kernel_info kernel = {};
        kernel.struct_size = sizeof kernel;
        if (lidx_get_kernel_info(nullptr, index, &kernel) != LIDX_OK)
            throw Failure(kInternal, lidx_last_error(nullptr));
        const KernelRow& row = kernel_rows()[static_cast<size_t>(index)];
        const int shared_bytes_static = row.shared_bytes_static;
        list.push_back({{"symbol", kernel.symbol},
                        {"architectures", kernel.architectures},
                        {"arithmetic", arithmetic_name(kernel.arithmetic)},
                        {"heads", kernel.heads},
                        {"depth", kernel.depth},
                        {"depth_step", kernel.depth_step},
                        {"tile_keys", kernel.tile_keys},
                        {"tile_tokens", kernel.tile_tokens},
                        {"threads", kernel.threads},
                        {"shared_bytes", kernel.shared_bytes + shared_bytes_static},
                        {"shared_bytes_decode", kernel.shared_bytes_decode + shared_bytes_static},
                        {"tmem_columns", kernel.tmem_columns},
                        {"registers", registers_of(row.source, row.symbol)}});
    }
    return list;
}

// Every device of one driver library, or why there is none.
Json machine(const char* kind, const char* driver_path) {
    Json result = {{"kind", kind}};
    try {
        Json devices = Json::array();
        const int count = count_devices(driver_path);
        for (int ordinal = 0; ordinal < count; ++ordinal) {
            const Machine opened(driver_path, ordinal);
            const lidx_device_info& info = opened.info();
            result["driver"] = info.driver_path;
            result["driver_version"] = info.driver_version;
            devices.push_back({{"ordinal", ordinal},
                               {"name", info.name},
                               {"compute_capability", info.compute_capability},
                               {"multiprocessors", info.multiprocessors}});
        }
        result["devices"] = devices;
    } catch (const Failure& failure) {
        result["devices"] = Json::array();
        result["unavailable"] = failure.what();
    }
    return result;
}

Json emulator() {
    try {
        return machine("emulator", emulator_path().c_str());
    } catch (const Failure& failure) {
        return {{"kind", "emulator"}, {"devices", Json::array()}, {"unavailable", failure.what()}};
    }
}

std::string any_or(int value) { return value == 0 ? "any" : std::to_string(value); }

std::string depths(int step, int largest) {
    return (step < largest ? std::to_string(step) + ".." : "") + std::to_string(largest);
}

void print_others(const Json& kernels) {
    for (const Json& k : kernels)
        std::printf("  %-20s %s\n", k["symbol"].get<std::string>().c_str(), registers_text(k["registers"]).c_str());
}

void print(const Json& all) {
    std::printf("lidx %s\n\nkernels, in order of preference\n", all["version"].get<std::string>().c_str());
    std::printf("  %-20s %-10s %5s %7s %13s %7s %15s %5s  %s\n", "symbol", "arithmetic", "heads", "depth",
                "keys x tokens", "threads", "shared (least)", "tmem", "registers by architecture");
    for (const Json& k : all["kernels"]) {
        const std::string tile =
            std::to_string(k["tile_keys"].get<int>()) + " x " + std::to_string(k["tile_tokens"].get<int>());
        const std::string shared = std::to_string(k["shared_bytes"].get<int>()) + " ("
                                   + std::to_string(k["shared_bytes_decode"].get<int>()) + ")";
        std::printf("  %-20s %-10s %5s %7s %13s %7d %15s %5d  %s\n", k["symbol"].get<std::string>().c_str(),
                    k["arithmetic"].get<std::string>().c_str(), any_or(k["heads"].get<int>()).c_str(),
                    depths(k["depth_step"].get<int>(), k["depth"].get<int>()).c_str(), tile.c_str(),
                    k["threads"].get<int>(), shared.c_str(), k["tmem_columns"].get<int>(),
                    registers_text(k["registers"]).c_str());
    }
    std::printf("\nkernels that select keys\n");
    print_others(all["topk_kernels"]);
    std::printf("\nkernels around the cache, %d threads\n", cache::kThreads);
    print_others(all["cache_kernels"]);
    std::printf("\nmachines\n");
    for (const Json& m : all["machines"]) {
        const std::string kind = m["kind"].get<std::string>();
        if (m.contains("unavailable")) {
            std::printf("  %-8s  none: %s\n", kind.c_str(), m["unavailable"].get<std::string>().c_str());
            if (m["devices"].empty()) continue;
        }
        for (const Json& d : m["devices"])
            std::printf("  %-8s  device %d: %s, compute capability %d.%d, %s\n", kind.c_str(),
                        d["ordinal"].get<int>(), d["name"].get<std::string>().c_str(),
                        d["compute_capability"].get<int>() / 10, d["compute_capability"].get<int>() % 10,
                        counted(d["multiprocessors"].get<int>(), "multiprocessor").c_str());
        const int version = m["driver_version"].get<int>();
        std::printf("  %-8s  driver %s, CUDA %d.%d\n", "", m["driver"].get<std::string>().c_str(), version / 1000,
                    version % 1000 / 10);
    }
}

}  // namespace

int run_info(const InfoOptions& options) {
    const Json all = {{"version", lidx_version()},
                      {"kernels", kernels()},
                      {"topk_kernels", topk_kernels()},
                      {"cache_kernels", cache_kernels()},
                      {"machines", {machine("cuda", nullptr), emulator()}}};
    if (options.json)
        std::printf("%s\n", json_text(all).c_str());
    else
        print(all);
    return kDone;
}

}  // namespace lidx::command

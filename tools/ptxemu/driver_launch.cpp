// SPDX-License-Identifier: Apache-2.0
// Launches: checks, parameter packing, running, translation of what happened; occupancy; counts.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "driver_graph.h"

namespace ptxemu {
namespace {

CUresult result_of(RunStatus status) {
    switch (status) {
        case RunStatus::kOk: return CUDA_SUCCESS;
        case RunStatus::kIllegalAddress: return CUDA_ERROR_ILLEGAL_ADDRESS;
        case RunStatus::kMisaligned: return CUDA_ERROR_MISALIGNED_ADDRESS;
        case RunStatus::kIllegalInstruction: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case RunStatus::kInvalidParams: return CUDA_ERROR_INVALID_VALUE;
        case RunStatus::kDeadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
        case RunStatus::kTrap:
        case RunStatus::kLaunchFailed:
        case RunStatus::kFindings: return CUDA_ERROR_LAUNCH_FAILED;
        case RunStatus::kAssert: return CUDA_ERROR_ASSERT;
        case RunStatus::kInternal: break;
    }
    return CUDA_ERROR_UNKNOWN;
}

uint64_t volume(const Dim3& d) { return uint64_t{d.x} * d.y * d.z; }

void check_cluster(const State& s, const LoadedFunction& f, const Launch& launch) {
    const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
    const uint64_t cluster = volume(launch.cluster);
    if (cluster == 1) return;
    if (s.config.device.compute_capability < 90) {
        fail(CUDA_ERROR_NOT_SUPPORTED, "clusters need compute capability 9.0");
    }
    const uint64_t most = f.non_portable_cluster ? 16 : 8;
    if (cluster > most) {
        fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster " + option_text(launch.cluster) + " has " +
                                                  std::to_string(cluster) + " blocks, more than " +
                                                  std::to_string(most));
    }
    const uint32_t dims[3] = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    for (int d = 0; d < 3; ++d) {
        if (grid[d] % dims[d] != 0) {
            fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "grid " + option_text(launch.grid) +
                                                      " is not a multiple of the cluster " +
                                                      option_text(launch.cluster));
        }
    }
}

void check_shape(const State& s, const LoadedFunction& f, const Launch& launch) {
    const uint32_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
    const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
    for (int d = 0; d < 3; ++d) {
        if (grid[d] == 0 || grid[d] > static_cast<uint32_t>(kMaxGridDim[d])) {
            fail(CUDA_ERROR_INVALID_VALUE, std::string("gridDim") + "XYZ"[d] + " = " + std::to_string(grid[d]) +
                                               " is outside 1.." + std::to_string(kMaxGridDim[d]));
        }
        if (block[d] == 0 || block[d] > static_cast<uint32_t>(kMaxBlockDim[d])) {
            fail(CUDA_ERROR_INVALID_VALUE, std::string("blockDim") + "XYZ"[d] + " = " + std::to_string(block[d]) +
                                               " is outside 1.." + std::to_string(kMaxBlockDim[d]));
        }
    }
    const uint64_t threads = volume(launch.block);
    if (threads > kMaxThreadsPerBlock) {
        fail(CUDA_ERROR_INVALID_VALUE, "block " + option_text(launch.block) + " has " + std::to_string(threads) +
                                           " threads, more than " + std::to_string(kMaxThreadsPerBlock));
    }
    const uint32_t* required = f.function->reqntid;
    if (required[0] != 0 && !std::equal(required, required + 3, block)) {
        fail(CUDA_ERROR_INVALID_VALUE, "block " + option_text(launch.block) + " differs from the kernel's .reqntid " +
                                           option_text({required[0], required[1], required[2]}));
    }
    if (threads > static_cast<uint64_t>(f.max_threads())) {
        fail(CUDA_ERROR_INVALID_VALUE,
             "block of " + std::to_string(threads) + " threads, the kernel allows " + std::to_string(f.max_threads()));
    }
    if (launch.dynamic_shared_bytes > static_cast<uint32_t>(f.max_dynamic_shared_bytes)) {
        fail(CUDA_ERROR_INVALID_VALUE, "sharedMemBytes = " + std::to_string(launch.dynamic_shared_bytes) +
                                           ", the function's limit is " + std::to_string(f.max_dynamic_shared_bytes) +
                                           " (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    }
    check_cluster(s, f, launch);
}

std::vector<uint8_t> pack_params(const Function& function, void** params, void** extra) {
    if (params != nullptr && extra != nullptr) {
        fail(CUDA_ERROR_INVALID_VALUE, "kernelParams and extra are both given");
    }
    std::vector<uint8_t> packed(function.param_bytes, 0);
    if (extra != nullptr) {
        const void* buffer = nullptr;
        const size_t* bytes = nullptr;
        for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (i > 16) fail(CUDA_ERROR_INVALID_VALUE, "extra has no CU_LAUNCH_PARAM_END");
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
                buffer = extra[i + 1];
            } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
                bytes = static_cast<const size_t*>(extra[i + 1]);
            } else {
                fail(CUDA_ERROR_INVALID_VALUE, "extra holds an unknown key");
            }
        }
        if (bytes == nullptr || (buffer == nullptr && *bytes != 0)) {
            fail(CUDA_ERROR_INVALID_VALUE, "extra lacks the buffer or its size");
        }
        if (*bytes < function.param_bytes) {
            fail(CUDA_ERROR_INVALID_VALUE, "the parameter buffer of " + std::to_string(*bytes) +
                                               " bytes is smaller than the kernel's " +
                                               std::to_string(function.param_bytes));
        }
        if (!packed.empty()) std::memcpy(packed.data(), buffer, packed.size());
        return packed;
    }
    if (params == nullptr && !function.params.empty()) {
        fail(CUDA_ERROR_INVALID_VALUE,
             "kernelParams is null, the kernel has " + std::to_string(function.params.size()) + " parameters");
    }
    for (size_t i = 0; i < function.params.size(); ++i) {
        const Variable& v = function.params[i];
        if (params[i] == nullptr) fail(CUDA_ERROR_INVALID_VALUE, "kernelParams[" + std::to_string(i) + "] is null");
        std::memcpy(packed.data() + v.offset, params[i], v.bytes);
    }
    return packed;
}

struct Attributes {
    bool cluster = false;   // Launch::cluster is given
    bool cooperative = false;
    Dim3 preferred{0, 0, 0};   // a larger cluster that the device may use instead; 0: none is given
};
void read_attributes(const CUlaunchConfig& config, Launch& launch, Attributes& out) {
    if (config.numAttrs != 0 && config.attrs == nullptr) fail(CUDA_ERROR_INVALID_VALUE, "attrs is null");
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
                const auto& dim = attribute.value.clusterDim;
                if (dim.x == 0 || dim.y == 0 || dim.z == 0) {
                    fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a cluster dimension is 0");
                }
                launch.cluster = {dim.x, dim.y, dim.z};
                out.cluster = true;
                break;
            }
            // Launches run one after another, so these ask for nothing.
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
            case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: break;
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: {
                const auto& dim = attribute.value.preferredClusterDim;
                if (dim.x == 0 || dim.y == 0 || dim.z == 0) {
                    fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a preferred cluster dimension is 0");
                }
                out.preferred = {dim.x, dim.y, dim.z};
                break;
            }
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: out.cooperative = attribute.value.cooperative != 0; break;
            default:
                fail(CUDA_ERROR_NOT_SUPPORTED,
                     "launch attribute " + std::to_string(attribute.id) + " is not supported");
        }
    }
}

// The cluster of the launch: the attribute's, else what the kernel itself fixes.
void resolve_cluster(const LoadedFunction& f, bool has_cluster, Launch& launch) {
    if (f.required_cluster[0] != 0) {
        const Dim3 fixed{static_cast<uint32_t>(f.required_cluster[0]),
                         static_cast<uint32_t>(std::max(1, f.required_cluster[1])),
                         static_cast<uint32_t>(std::max(1, f.required_cluster[2]))};
        if (has_cluster &&
            (fixed.x != launch.cluster.x || fixed.y != launch.cluster.y || fixed.z != launch.cluster.z)) {
            fail(CUDA_ERROR_INVALID_VALUE,
                 "cluster " + option_text(launch.cluster) + " differs from the kernel's " + option_text(fixed));
        }
        launch.cluster = fixed;
    } else if (f.function->explicit_cluster && !has_cluster) {
        fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the kernel needs a cluster dimension");
    }
}

// Blocks may be grouped by the preferred dimension or by the regular one; here it is always the latter.
void check_preferred(const Dim3& preferred, const Launch& launch) {
    if (preferred.x == 0) return;
    const Dim3 &regular = launch.cluster, &grid = launch.grid;
    if (preferred.x % regular.x != 0 || preferred.y % regular.y != 0 || preferred.z != regular.z) {
        fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "preferred cluster " + option_text(preferred) + " is no multiple of " +
                                                  option_text(regular) + " in x and y, and the same in z");
    }
    if (grid.x % preferred.x != 0 || grid.y % preferred.y != 0) {
        fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
             "grid " + option_text(grid) + " is no multiple of the preferred cluster " + option_text(preferred));
    }
}

Launch shape_of(const State& s, const LoadedFunction& f, const CUlaunchConfig& config) {
    Launch launch;
    launch.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
    launch.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
    launch.dynamic_shared_bytes = config.sharedMemBytes;
    Attributes attributes;
    read_attributes(config, launch, attributes);
    resolve_cluster(f, attributes.cluster, launch);
    check_cluster(s, f, launch);
    check_preferred(attributes.preferred, launch);
    return launch;
}

// A cooperative launch must fit on the device at once.
void check_cooperative(const State& s, const LoadedFunction& f, const Launch& launch) {
    const uint64_t in_cluster = volume(launch.cluster);
    const uint64_t most =
        in_cluster * clusters_on_device(s.config.device.compute_capability, s.config.device.multiprocessors,
                                        volume(launch.block),
                                        f.function->static_shared_bytes + uint64_t{launch.dynamic_shared_bytes},
                                        in_cluster);
    if (volume(launch.grid) <= most) return;
    fail(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "cooperative grid " + option_text(launch.grid) + " has " +
                                                      std::to_string(volume(launch.grid)) +
                                                      " blocks, the device holds " + std::to_string(most) + " at once");
}

// What %envreg1 and %envreg2 point to in a cooperative launch: two words, the second the barrier of the grid.
struct GridWorkspace {
    GridWorkspace(GlobalMemory& memory, bool wanted) : memory_(memory) {
        constexpr uint64_t kBytes = 64;
        if (!wanted) return;
        address = memory.allocate(kBytes);
        if (address == 0) fail(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the barrier of the grid");
        std::memset(reinterpret_cast<void*>(address), 0, kBytes);
        memory.mark_written(address, kBytes);
    }
    ~GridWorkspace() {
        if (address != 0) memory_.release(address);
    }
    uint64_t address = 0;

  private:
    GlobalMemory& memory_;
};

void launch_kernel(CUfunction handle, Launch launch, CUstream stream, void** params, void** extra,
                   const CUlaunchConfig* config, bool cooperative = false) {
    Current call;
    check_stream(call.s, stream);
    enqueue(call, stream, make_kernel_call(call, handle, std::move(launch), params, extra, config, cooperative));
}

int active_blocks(const State& s, const LoadedFunction& f, int block_threads, size_t dynamic_bytes) {
    if (block_threads <= 0) {
        fail(CUDA_ERROR_INVALID_VALUE, "blockSize = " + std::to_string(block_threads) + " is not positive");
    }
    if (dynamic_bytes > static_cast<size_t>(f.max_dynamic_shared_bytes)) return 0;
    return blocks_per_multiprocessor(s.config.device.compute_capability, static_cast<uint64_t>(block_threads),
                                     f.function->static_shared_bytes + dynamic_bytes);
}

}   // namespace

KernelCall make_kernel_call(Current& call, CUfunction handle, Launch launch, void** params, void** extra,
                            const CUlaunchConfig* config, bool cooperative) {
    LoadedFunction& f = find_function(call.s, handle);
    if (f.module->context != call.context.get()) {
        fail(CUDA_ERROR_INVALID_HANDLE, "the function belongs to another context");
    }
    Attributes attributes;
    attributes.cooperative = cooperative;
    if (config != nullptr) read_attributes(*config, launch, attributes);
    resolve_cluster(f, attributes.cluster, launch);
    check_preferred(attributes.preferred, launch);
    launch.explicit_cluster = attributes.cluster;
    check_shape(call.s, f, launch);
    if (attributes.cooperative) check_cooperative(call.s, f, launch);
    launch.params = pack_params(*f.function, params, extra);
    return {call.context, handle, f.function, f.program, f.told, std::move(launch), attributes.cooperative};
}

// The lock is not held while the kernel runs; program and memory stay alive even if they are given up meanwhile.
void run_kernel(State& s, std::unique_lock<std::mutex>& lock, const KernelCall& call) {
    check_sticky(s);
    DeviceConfig device = s.config.device;
    s.config.device.seed += s.config.seed_step;
    const KernelCall kept = call;
    device.told_warnings = kept.told.get();
    Launch launch = call.launch;
    const GridWorkspace workspace(kept.context->memory, kept.cooperative);
    launch.grid_workspace = workspace.address;
    lock.unlock();
    Stats stats;
    RunResult result;
    {
        const GlobalMemory::InUse in_use(kept.context->memory);
        result = run(*kept.program, launch, device, kept.context->memory, stats);
    }
    lock.lock();
    s.stats.add(stats);
    const CUresult code = result_of(result.status);
    if (code != CUDA_SUCCESS && result.status != RunStatus::kInvalidParams) s.sticky = code;
    if (code != CUDA_SUCCESS) {
        std::string message = result.message.empty() ? "launch failed" : result.message;
        if (result.status != RunStatus::kFindings && !result.findings.empty()) {   // a fault: the last finding
            message = "[" + result.findings.back().code + "] " + message;
            result.findings.pop_back();
            const std::string earlier = error_codes(result.findings);
            if (!earlier.empty()) message += "; errors before it: " + earlier;
        }
        fail(code, message);
    }
    write_stats(s);
    if (s.config.device.trace != nullptr && !s.trace.flush()) {
        fail(CUDA_ERROR_OPERATING_SYSTEM, "PTXEMU_TRACE '" + s.config.trace_path + "' cannot be written: " +
                                              std::strerror(errno));
    }
}

void write_stats(const State& s) {
    const std::string& path = s.config.stats_path;
    if (path.empty()) return;
    const std::string json = stats_json(s.stats);
    std::FILE* file = std::fopen(path.c_str(), "w");
    const bool written = file != nullptr && std::fwrite(json.data(), 1, json.size(), file) == json.size();
    const bool closed = file != nullptr && std::fclose(file) == 0;
    if (!written || !closed) {
        fail(CUDA_ERROR_OPERATING_SYSTEM, "PTXEMU_STATS '" + path + "' cannot be written: " + std::strerror(errno));
    }
}

}   // namespace ptxemu

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                           void** params, void** extra) {
    return guarded("cuLaunchKernel", [&] {
        Launch launch;
        launch.grid = {grid_x, grid_y, grid_z};
        launch.block = {block_x, block_y, block_z};
        launch.dynamic_shared_bytes = shared_bytes;
        launch_kernel(function, std::move(launch), stream, params, extra, nullptr);
    });
}

PTXEMU_API CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                                             void** extra) {
    return guarded("cuLaunchKernelEx", [&] {
        require(config, "config");
        Launch launch;
        launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
        launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
        launch.dynamic_shared_bytes = config->sharedMemBytes;
        launch_kernel(function, std::move(launch), config->hStream, params, extra, config);
    });
}

PTXEMU_API CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                                      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                                      unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                                      void** params) {
    return guarded("cuLaunchCooperativeKernel", [&] {
        Launch launch;
        launch.grid = {grid_x, grid_y, grid_z};
        launch.block = {block_x, block_y, block_z};
        launch.dynamic_shared_bytes = shared_bytes;
        launch_kernel(function, std::move(launch), stream, params, nullptr, nullptr, true);
    });
}

PTXEMU_API CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                         const CUlaunchConfig* config) {
    return guarded("cuOccupancyMaxActiveClusters", [&] {
        const Current call;
        require(clusters, "numClusters");
        require(config, "config");
        const LoadedFunction& f = find_function(call.s, function);
        const Launch launch = shape_of(call.s, f, *config);
        const uint64_t in_cluster = volume(launch.cluster);
        const size_t dynamic_bytes = launch.dynamic_shared_bytes;
        *clusters = dynamic_bytes > static_cast<size_t>(f.max_dynamic_shared_bytes)
                        ? 0
                        : static_cast<int>(clusters_on_device(
                              call.s.config.device.compute_capability, call.s.config.device.multiprocessors,
                              volume(launch.block), f.function->static_shared_bytes + dynamic_bytes, in_cluster));
    });
}

PTXEMU_API CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                                               const CUlaunchConfig* config) {
    return guarded("cuOccupancyMaxPotentialClusterSize", [&] {
        const Current call;
        require(size, "clusterSize");
        require(config, "config");
        const LoadedFunction& f = find_function(call.s, function);
        const uint64_t threads = uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
        const DeviceConfig& device = call.s.config.device;
        int found = device.compute_capability < 90 ? 1 : f.non_portable_cluster ? 16 : 8;
        while (found > 1 && clusters_on_device(device.compute_capability, device.multiprocessors, threads,
                                               f.function->static_shared_bytes + uint64_t{config->sharedMemBytes},
                                               static_cast<uint64_t>(found)) == 0)
            found /= 2;
        *size = found;
    });
}

PTXEMU_API CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                                        size_t dynamic_bytes) {
    return guarded("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
        const Current call;
        require(blocks, "numBlocks");
        *blocks = active_blocks(call.s, find_function(call.s, function), threads, dynamic_bytes);
    });
}

PTXEMU_API CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                                 int threads, size_t dynamic_bytes,
                                                                                 unsigned int flags) {
    return guarded("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", [&] {
        const Current call;
        require(blocks, "numBlocks");
        if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) fail(CUDA_ERROR_INVALID_VALUE, "unknown flags");
        *blocks = active_blocks(call.s, find_function(call.s, function), threads, dynamic_bytes);
    });
}

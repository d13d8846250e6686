// SPDX-License-Identifier: Apache-2.0
// Modules: image -> PTX -> parsed -> every kernel decoded, variables placed and initialised; functions and attributes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "driver_state.h"
#include "fatbin.h"
#include "module_variables.h"

namespace ptxemu {
namespace {

CUresult result_of(const ImageError& e) {
    return e.kind == ImageError::Kind::kNoBinary ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
}

[[noreturn]] void fail_ptx(const PtxError& e, const std::string& origin) {
    std::string message = origin.empty() ? "PTX" : origin;
    if (e.line > 0) message += " line " + std::to_string(e.line);
    fail(CUDA_ERROR_INVALID_PTX, message + ": " + e.what());
}

std::set<std::string> kernels_of(const Module& module) {
    std::set<std::string> names;
    for (const auto& [name, function] : module.functions) {
        if (function->is_entry && !function->is_declaration) names.insert(name);
    }
    return names;
}

// A whole regular file: a device may have no end, and a FIFO may never begin.
std::string read_text(const std::string& path, const char* variable, CUresult missing) {
    const std::string what = std::string(variable) + " '" + path + "' ";
    std::error_code error;
    if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
        fail(missing, what + "is not a regular file");
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.good() && text.empty()) fail(missing, what + "cannot be read");
    return text;
}

// PTXEMU_PTX: the text of that file stands in for a module whose kernels it defines.
std::unique_ptr<Module> override_for(const Module& module, const Config& config, const char* call) {
    if (config.ptx_path.empty()) return nullptr;
    std::unique_ptr<Module> other;
    try {
        const std::string text = read_text(config.ptx_path, "PTXEMU_PTX", CUDA_ERROR_FILE_NOT_FOUND);
        other = parse_ptx(std::string_view(text.c_str()));
    } catch (const PtxError& e) {
        fail_ptx(e, "PTXEMU_PTX '" + config.ptx_path + "'");
    }
    const std::set<std::string> wanted = kernels_of(module), offered = kernels_of(*other);
    if (wanted.empty() || !std::includes(offered.begin(), offered.end(), wanted.begin(), wanted.end())) return nullptr;
    if (!target_runs_on(other->target, config.device.compute_capability)) {
        fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "PTXEMU_PTX '" + config.ptx_path + "' is for " + other->target);
    }
    std::fprintf(stderr, "ptxemu: %s: PTXEMU_PTX: '%s' runs instead of the module's own PTX\n", call,
                 config.ptx_path.c_str());
    return other;
}

struct Unplace {
    LoadedModule* loaded;
    ~Unplace() {
        if (loaded == nullptr) return;
        for (const auto& [name, address] : loaded->symbols) {
            loaded->context->memory.release(address);
            loaded->context->module_memory.erase(address);
        }
    }
};

}   // namespace

std::string ptx_of(const State& s, const void* image) {
    try {
        return select_ptx(image, readable_bytes_at(image), s.config.device.compute_capability);
    } catch (const ImageError& e) {
        fail(result_of(e), e.what());
    }
}

LoadedModule& load_module(State& s, Context& context, const std::string& text, const char* name) {
    const Config& config = s.config;
    auto loaded = std::make_unique<LoadedModule>();
    loaded->context = &context;
    Unplace undo{loaded.get()};
    std::string origin;
    try {
        loaded->module = parse_ptx(text);
        if (auto other = override_for(*loaded->module, config, name)) {
            loaded->module = std::move(other);
            origin = config.ptx_path;
        }
        loaded->symbols = place_variables(*loaded->module, loaded->context->memory);
        for (const auto& [variable, address] : loaded->symbols) loaded->context->module_memory.insert(address);
        for (const auto& [kernel, function] : loaded->module->functions) {
            if (!function->is_entry || function->is_declaration) continue;
            if (function->static_shared_bytes > kSharedPerBlock) {
                throw PtxError(function->line,
                               "kernel '" + kernel + "' has " + std::to_string(function->static_shared_bytes) +
                                   " bytes of static .shared, more than " + std::to_string(kSharedPerBlock));
            }
            auto made = std::make_unique<LoadedFunction>();
            made->module = loaded.get();
            made->function = function.get();
            made->program = decode(*loaded->module, *function, loaded->symbols);
            made->max_dynamic_shared_bytes = kSharedPerBlock - static_cast<int>(function->static_shared_bytes);
            for (int d = 0; d < 3; ++d) made->required_cluster[d] = static_cast<int>(function->reqnctapercluster[d]);
            loaded->functions.emplace(kernel, std::move(made));
        }
    } catch (const PtxError& e) {
        fail_ptx(e, origin);
    } catch (const VariableMemoryError& e) {
        fail(CUDA_ERROR_OUT_OF_MEMORY, e.what());
    }
    undo.loaded = nullptr;
    for (const auto& [kernel, function] : loaded->functions) s.functions.emplace(function.get(), function.get());
    LoadedModule& module = *loaded;
    s.modules.emplace(&module, std::move(loaded));
    return module;
}

namespace {

void load_image(CUmodule* out, const void* image, const char* name) {
    Current call;
    require(out, "module");
    require(image, "image");
    *out = reinterpret_cast<CUmodule>(&load_module(call.s, *call.context, ptx_of(call.s, image), name));
}

uint32_t product(const uint32_t (&dims)[3]) { return dims[0] * dims[1] * dims[2]; }

}   // namespace

void write_jit_log(unsigned count, const CUjit_option* options, void** values, const std::string& message) {
    char* buffer = nullptr;
    size_t size = 0;
    unsigned size_at = count;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            size = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
            size_at = i;
        }
    }
    if (size_at == count) return;
    size_t written = 0;
    if (buffer != nullptr && size != 0) {
        written = std::min(message.size(), size - 1);
        std::memcpy(buffer, message.data(), written);
        buffer[written] = '\0';
    }
    values[size_at] = reinterpret_cast<void*>(static_cast<uintptr_t>(written));
}

// PTX registers are virtual. An upper bound stands for their number: .maxnreg, else as many as let .minnctapersm blocks
// (or one) of the most threads that the kernel allows fit into a multiprocessor's 65,536.
static int registers_of(const LoadedFunction& f) {
    if (f.function->maxnreg != 0) return static_cast<int>(f.function->maxnreg);
    const uint32_t blocks = std::max(1u, f.function->minnctapersm);
    const uint32_t threads = (static_cast<uint32_t>(f.max_threads()) + 31) / 32 * 32 * blocks;
    return static_cast<int>(std::clamp(65536u / std::max(threads, 1u) / 8 * 8, 24u, 255u));
}

int function_attribute(const State& s, const LoadedFunction& f, CUfunction_attribute attribute) {
    const Function& function = *f.function;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return f.max_threads();
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(function.static_shared_bytes);
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
            uint64_t bytes = 0;
            for (const Variable& v : f.module->module->globals) bytes += v.space == Space::kConst ? v.bytes : 0;
            return static_cast<int>(bytes);
        }
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(function.local_bytes);
        case CU_FUNC_ATTRIBUTE_NUM_REGS: return registers_of(f);
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: {
            const std::string& target = f.module->module->target;
            return std::atoi(target.c_str() + 3);
        }
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return s.config.device.compute_capability;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return f.max_dynamic_shared_bytes;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return f.carveout;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
            return function.explicit_cluster && function.reqnctapercluster[0] == 0 ? 1 : 0;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return f.required_cluster[0];
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return f.required_cluster[1];
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return f.required_cluster[2];
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return f.non_portable_cluster ? 1 : 0;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CU_CLUSTER_SCHEDULING_POLICY_DEFAULT;
        default: fail(CUDA_ERROR_INVALID_VALUE, "unknown function attribute " + std::to_string(attribute));
    }
}

void set_function_attribute(const State& s, LoadedFunction& f, CUfunction_attribute attribute, int value) {
    const auto outside = [&](const char* name, int lowest, int highest) {
        fail(CUDA_ERROR_INVALID_VALUE, std::string(name) + " = " + std::to_string(value) + " is outside " +
                                           std::to_string(lowest) + ".." + std::to_string(highest));
    };
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
            const int highest = limits_of(s.config.device.compute_capability).shared_per_block_optin -
                                static_cast<int>(f.function->static_shared_bytes);
            if (value < 0 || value > highest) outside("MAX_DYNAMIC_SHARED_SIZE_BYTES", 0, highest);
            f.max_dynamic_shared_bytes = value;
            return;
        }
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value < -1 || value > 100) outside("PREFERRED_SHARED_MEMORY_CARVEOUT", -1, 100);
            f.carveout = value;
            return;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: f.non_portable_cluster = value != 0; return;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
            if (value < 0 || value > 16) outside("REQUIRED_CLUSTER", 0, 16);
            if (f.function->reqnctapercluster[0] != 0)
                fail(CUDA_ERROR_NOT_PERMITTED, "the kernel fixes its cluster size");
            f.required_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
            return;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            if (value < 0 || value > 2) outside("CLUSTER_SCHEDULING_POLICY_PREFERENCE", 0, 2);
            return;
        default: fail(CUDA_ERROR_INVALID_VALUE, "function attribute " + std::to_string(attribute) + " cannot be set");
    }
}

int LoadedFunction::max_threads() const {
    const uint32_t required = product(function->reqntid), most = product(function->maxntid);
    if (required != 0) return static_cast<int>(required);
    return most != 0 ? static_cast<int>(std::min<uint32_t>(most, kMaxThreadsPerBlock)) : kMaxThreadsPerBlock;
}

}   // namespace ptxemu

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) {
    return guarded("cuModuleLoadData", [&] { load_image(out, image, "cuModuleLoadData"); });
}

PTXEMU_API CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* out, const void* image) {
    return guarded("cuModuleLoadFatBinary", [&] { load_image(out, image, "cuModuleLoadFatBinary"); });
}

PTXEMU_API CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                                               CUjit_option* options, void** values) {
    return guarded("cuModuleLoadDataEx", [&] {
        if (count != 0) {
            require(options, "options");
            require(values, "optionValues");
        }
        try {
            load_image(out, image, "cuModuleLoadDataEx");
        } catch (const Failure& f) {
            write_jit_log(count, options, values, f.message);
            throw;
        }
        write_jit_log(count, options, values, {});
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleLoad(CUmodule* out, const char* path) {
    return guarded("cuModuleLoad", [&] {
        require(path, "fname");
        const std::string image = read_text(path, "file", CUDA_ERROR_FILE_NOT_FOUND);
        load_image(out, image.c_str(), "cuModuleLoad");
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
    return guarded("cuModuleUnload", [&] {
        const Current call;
        erase_module(call.s, find_module(call.s, handle));
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
    return guarded("cuModuleGetFunction", [&] {
        const Current call;
        require(out, "hfunc");
        require(name, "name");
        const LoadedModule& module = find_module(call.s, handle);
        const auto found = module.functions.find(std::string_view(name));
        if (found == module.functions.end())
            fail(CUDA_ERROR_NOT_FOUND, "the module has no kernel '" + std::string(name) + "'");
        *out = reinterpret_cast<CUfunction>(found->second.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
    return guarded("cuModuleGetFunctionCount", [&] {
        const Current call;
        require(count, "count");
        *count = static_cast<unsigned>(find_module(call.s, handle).functions.size());
    });
}

PTXEMU_API CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                                 const char* name) {
    return guarded("cuModuleGetGlobal", [&] {
        const Current call;
        require(name, "name");
        const LoadedModule& module = find_module(call.s, handle);
        const auto found = module.symbols.find(name);
        if (found == module.symbols.end())
            fail(CUDA_ERROR_NOT_FOUND, "the module has no variable '" + std::string(name) + "'");
        if (address != nullptr) *address = found->second;
        if (bytes != nullptr) *bytes = module.module->find_global(name)->bytes;
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
    return guarded("cuFuncGetAttribute", [&] {
        const Current call;
        require(value, "pi");
        *value = function_attribute(call.s, find_function(call.s, handle), attribute);
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
    return guarded("cuFuncSetAttribute", [&] {
        const Current call;
        set_function_attribute(call.s, find_function(call.s, handle), attribute, value);
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
    return guarded("cuFuncSetCacheConfig", [&] {
        const Current call;
        find_function(call.s, handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncGetModule(CUmodule* out, CUfunction handle) {
    return guarded("cuFuncGetModule", [&] {
        const Current call;
        require(out, "hmod");
        *out = reinterpret_cast<CUmodule>(find_function(call.s, handle).module);
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction handle) {
    return guarded("cuFuncGetName", [&] {
        const Current call;
        require(name, "name");
        *name = find_function(call.s, handle).function->name.c_str();
    });
}

PTXEMU_API CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
    return guarded("cuFuncGetParamInfo", [&] {
        const Current call;
        require(offset, "paramOffset");
        const Function& function = *find_function(call.s, handle).function;
        // Callers count parameters by asking until this fails; no message.
        if (index >= function.params.size()) fail(CUDA_ERROR_INVALID_VALUE);
        *offset = function.params[index].offset;
        if (bytes != nullptr) *bytes = function.params[index].bytes;
    });
}

// SPDX-License-Identifier: Apache-2.0
// Libraries (modules that belong to no context) and the linker, whose output is PTX again.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "driver_state.h"

namespace ptxemu {

struct Library {
    std::string text;
    std::map<const Context*, uint64_t> loaded;   // CUmodule of each context, which dies with it
    std::map<std::string, std::unique_ptr<LibraryKernel>, std::less<>> kernels;
};

struct LibraryKernel {
    Library* library = nullptr;
    std::string name;
    std::map<CUfunction_attribute, int> attributes;   // set so far, for contexts to come
};

namespace {

struct Linker {
    std::vector<std::string> texts;
    std::string linked;
    std::vector<CUjit_option> options;
    void** values = nullptr;   // the caller's, which must live until the end
};

std::map<const void*, std::unique_ptr<Library>>& libraries() {   // guarded by State::mutex
    static auto& all = *new std::map<const void*, std::unique_ptr<Library>>;
    return all;
}
std::map<const void*, std::unique_ptr<Linker>>& linkers() {
    static auto& all = *new std::map<const void*, std::unique_ptr<Linker>>;
    return all;
}

Library& find_library(CUlibrary handle) {
    const auto found = libraries().find(handle);
    if (found == libraries().end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such library");
    return *found->second;
}

LibraryKernel& find_kernel(State& s, CUkernel handle) {
    const auto found = s.kernels.find(handle);
    if (found == s.kernels.end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such kernel");
    return *found->second;
}

Linker& find_linker(CUlinkState handle) {
    const auto found = linkers().find(handle);
    if (found == linkers().end()) fail(CUDA_ERROR_INVALID_HANDLE, "no such linker state");
    return *found->second;
}

LoadedModule& module_of(State& s, Library& library) {
    const auto& stack = context_stack();
    if (stack.empty()) fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    Context& context = *stack.back();
    const auto found = library.loaded.find(&context);
    if (found != library.loaded.end() && found->second == context.id) {
        for (const auto& [handle, module] : s.modules) {
            if (module->context == &context && module->library == &library) return *module;
        }
    }
    LoadedModule& module = load_module(s, context, library.text, "cuLibraryLoadData");
    module.library = &library;
    library.loaded[&context] = context.id;
    for (const auto& [name, kernel] : library.kernels) {
        const auto function = module.functions.find(name);
        if (function == module.functions.end()) continue;
        for (const auto& [attribute, value] : kernel->attributes)
            set_function_attribute(s, *function->second, attribute, value);
    }
    return module;
}

std::string file_text(const char* path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        fail(CUDA_ERROR_FILE_NOT_FOUND, "file '" + std::string(path) + "' is not a regular file");
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void load_library(CUlibrary* out, const void* image) {
    const Initialised call;
    require(out, "library");
    auto library = std::make_unique<Library>();
    library->text = ptx_of(call.s, image);
    try {
        const auto module = parse_ptx(library->text);
        for (const auto& [name, function] : module->functions) {
            if (!function->is_entry || function->is_declaration) continue;
            auto kernel = std::make_unique<LibraryKernel>();
            kernel->library = library.get();
            kernel->name = name;
            library->kernels.emplace(name, std::move(kernel));
        }
    } catch (const PtxError& e) {
        fail(CUDA_ERROR_INVALID_PTX, "PTX line " + std::to_string(e.line) + ": " + e.what());
    }
    // With a context at hand what it cannot decode shows at once, as it does with cuModuleLoadData.
    if (!context_stack().empty()) module_of(call.s, *library);
    for (const auto& [name, kernel] : library->kernels) call.s.kernels.emplace(kernel.get(), kernel.get());
    *out = reinterpret_cast<CUlibrary>(library.get());
    const void* key = library.get();
    libraries().emplace(key, std::move(library));
}

void load_logged(CUlibrary* out, const void* image, unsigned count, const CUjit_option* options, void** values) {
    if (count != 0) {
        require(options, "jitOptions");
        require(values, "jitOptionsValues");
    }
    try {
        load_library(out, image);
    } catch (const Failure& f) {
        write_jit_log(count, options, values, f.message);
        throw;
    }
    write_jit_log(count, options, values, {});
}

bool is_header(std::string_view line) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == std::string_view::npos) return false;
    line.remove_prefix(at);
    return line.starts_with(".version") || line.starts_with(".target") || line.starts_with(".address_size");
}

// One text of several: the header is the first one's, with the newest version.
std::string join(const std::vector<std::string>& texts) {
    if (texts.size() == 1) return texts.front();
    std::string version, all;
    for (const std::string& text : texts) {
        const size_t at = text.find(".version");
        if (at != std::string::npos) version = std::max(version, text.substr(at, text.find('\n', at) - at));
    }
    for (size_t i = 0; i < texts.size(); ++i) {
        size_t begin = 0;
        while (begin < texts[i].size()) {
            const size_t end = std::min(texts[i].find('\n', begin), texts[i].size());
            const std::string line = texts[i].substr(begin, end - begin);
            const bool header = is_header(line);
            if (header && i == 0 && line.find(".version") != std::string::npos) all += version;
            else if (!header || i == 0) all += line;
            all += '\n';
            begin = end + 1;
        }
    }
    return all;
}

void add_input(State& s, CUlinkState handle, CUjitInputType type, const std::string& data) {
    Linker& linker = find_linker(handle);
    switch (type) {
        case CU_JIT_INPUT_PTX: linker.texts.emplace_back(data.c_str()); return;
        case CU_JIT_INPUT_FATBINARY: linker.texts.push_back(ptx_of(s, data.data())); return;
        case CU_JIT_INPUT_CUBIN: fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "a cubin has no PTX to run");
        default:
            fail(CUDA_ERROR_NOT_SUPPORTED, "linking inputs of type " + std::to_string(type) +
                                               " is not supported, only PTX and fat binaries with PTX are");
    }
}

}   // namespace

LoadedFunction& function_of(State& s, LibraryKernel& kernel) {
    return *module_of(s, *kernel.library).functions.find(kernel.name)->second;
}

}   // namespace ptxemu

using namespace ptxemu;

PTXEMU_API CUresult CUDAAPI cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options, void** values,
                                              unsigned int count, CUlibraryOption*, void**, unsigned int) {
    return guarded("cuLibraryLoadData", [&] {
        require(code, "code");
        load_logged(out, code, count, options, values);
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options,
                                                  void** values, unsigned int count, CUlibraryOption*, void**,
                                                  unsigned int) {
    return guarded("cuLibraryLoadFromFile", [&] {
        require(path, "fileName");
        const std::string image = file_text(path);
        load_logged(out, image.c_str(), count, options, values);
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
    return guarded("cuLibraryUnload", [&] {
        const Initialised call;
        Library& library = find_library(handle);
        std::vector<LoadedModule*> modules;
        for (const auto& [key, module] : call.s.modules) {
            if (module->library == &library) modules.push_back(module.get());
        }
        for (LoadedModule* module : modules) erase_module(call.s, *module);
        for (const auto& [name, kernel] : library.kernels) call.s.kernels.erase(kernel.get());
        libraries().erase(handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
    return guarded("cuLibraryGetKernel", [&] {
        const Initialised call;
        require(out, "pKernel");
        require(name, "name");
        const Library& library = find_library(handle);
        const auto found = library.kernels.find(std::string_view(name));
        if (found == library.kernels.end())
            fail(CUDA_ERROR_NOT_FOUND, "the library has no kernel '" + std::string(name) + "'");
        *out = reinterpret_cast<CUkernel>(found->second.get());
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
    return guarded("cuLibraryGetKernelCount", [&] {
        const Initialised call;
        require(count, "count");
        *count = static_cast<unsigned>(find_library(handle).kernels.size());
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
    return guarded("cuLibraryEnumerateKernels", [&] {
        const Initialised call;
        require(kernels, "kernels");
        for (const auto& [name, kernel] : find_library(handle).kernels) {
            if (count-- == 0) return;
            *kernels++ = reinterpret_cast<CUkernel>(kernel.get());
        }
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
    return guarded("cuLibraryGetModule", [&] {
        const Current call;
        require(out, "pMod");
        *out = reinterpret_cast<CUmodule>(&module_of(call.s, find_library(handle)));
    });
}

PTXEMU_API CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                               const char* name) {
    CUmodule module = nullptr;
    const CUresult found = cuLibraryGetModule(&module, handle);
    return found == CUDA_SUCCESS ? cuModuleGetGlobal_v2(address, bytes, module, name) : found;
}

PTXEMU_API CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr*, size_t*, CUlibrary handle, const char* name) {
    return guarded("cuLibraryGetManaged", [&] {
        const Initialised call;
        require(name, "name");
        find_library(handle);
        fail(CUDA_ERROR_NOT_FOUND, "the library has no managed variable '" + std::string(name) + "'");
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelGetFunction(CUfunction* out, CUkernel handle) {
    return guarded("cuKernelGetFunction", [&] {
        const Current call;
        require(out, "pFunc");
        *out = reinterpret_cast<CUfunction>(&function_of(call.s, find_kernel(call.s, handle)));
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
    return guarded("cuKernelGetLibrary", [&] {
        const Initialised call;
        require(out, "pLib");
        *out = reinterpret_cast<CUlibrary>(find_kernel(call.s, handle).library);
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel handle) {
    return guarded("cuKernelGetName", [&] {
        const Initialised call;
        require(name, "name");
        *name = find_kernel(call.s, handle).name.c_str();
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                                                 CUdevice device) {
    return guarded("cuKernelGetAttribute", [&] {
        const Current call;
        require(value, "pi");
        check_device(device);
        *value = function_attribute(call.s, function_of(call.s, find_kernel(call.s, handle)), attribute);
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                                 CUdevice device) {
    return guarded("cuKernelSetAttribute", [&] {
        const Current call;
        check_device(device);
        LibraryKernel& kernel = find_kernel(call.s, handle);
        set_function_attribute(call.s, function_of(call.s, kernel), attribute, value);
        kernel.attributes[attribute] = value;
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache, CUdevice device) {
    return guarded("cuKernelSetCacheConfig", [&] {
        const Initialised call;
        check_device(device);
        find_kernel(call.s, handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
    CUfunction function = nullptr;
    const CUresult found = cuKernelGetFunction(&function, handle);
    return found == CUDA_SUCCESS ? cuFuncGetParamInfo(function, index, offset, bytes) : found;
}

PTXEMU_API CUresult CUDAAPI cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                                            CUlinkState* out) {
    return guarded("cuLinkCreate", [&] {
        const Current call;
        require(out, "stateOut");
        if (count != 0) {
            require(options, "options");
            require(values, "optionValues");
        }
        auto linker = std::make_unique<Linker>();
        linker->options.assign(options, options + count);
        linker->values = values;
        *out = reinterpret_cast<CUlinkState>(linker.get());
        const void* key = linker.get();
        linkers().emplace(key, std::move(linker));
    });
}

PTXEMU_API CUresult CUDAAPI cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                                             const char*, unsigned int, CUjit_option*, void**) {
    return guarded("cuLinkAddData", [&] {
        const Initialised call;
        require(data, "data");
        add_input(call.s, handle, type, std::string(static_cast<const char*>(data), bytes));
    });
}

PTXEMU_API CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path, unsigned int,
                                             CUjit_option*, void**) {
    return guarded("cuLinkAddFile", [&] {
        const Initialised call;
        require(path, "path");
        add_input(call.s, handle, type, file_text(path));
    });
}

PTXEMU_API CUresult CUDAAPI cuLinkComplete(CUlinkState handle, void** image, size_t* bytes) {
    return guarded("cuLinkComplete", [&] {
        const Initialised call;
        require(image, "cubinOut");
        Linker& linker = find_linker(handle);
        if (linker.texts.empty()) fail(CUDA_ERROR_INVALID_VALUE, "nothing was added to link");
        linker.linked = join(linker.texts);
        const auto count = static_cast<unsigned>(linker.options.size());
        try {
            parse_ptx(linker.linked);
        } catch (const PtxError& e) {
            const std::string message = "PTX line " + std::to_string(e.line) + ": " + e.what();
            write_jit_log(count, linker.options.data(), linker.values, message);
            fail(CUDA_ERROR_INVALID_PTX, message);
        }
        write_jit_log(count, linker.options.data(), linker.values, {});
        *image = linker.linked.data();
        if (bytes != nullptr) *bytes = linker.linked.size() + 1;
    });
}

PTXEMU_API CUresult CUDAAPI cuLinkDestroy(CUlinkState handle) {
    return guarded("cuLinkDestroy", [&] {
        const Initialised call;
        find_linker(handle);
        linkers().erase(handle);
    });
}

// SPDX-License-Identifier: Apache-2.0
#include "bench/cublaslt_product.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/inputs.h"
#include "failure.h"

namespace lidx::command {

namespace {

constexpr uint64_t kSide = 8192;
constexpr size_t kWorkspaceBytes = size_t{64} << 20;

// Values of cublasComputeType_t, cudaDataType, cublasOperation_t, cublasLtMatmulDescAttributes_t and
// cublasLtMatmulPreferenceAttributes_t in the documentation of cuBLAS 12 and 13.
enum : int { kCompute32F = 68, kReal32F = 0, kReal8E4M3 = 28, kReal16BF = 14, kTranspose = 1 };
enum : int { kDescTransposeA = 3, kDescFastAccumulation = 25, kPreferenceWorkspaceBytes = 1 };

struct Algorithm {   // cublasLtMatmulAlgo_t
    uint64_t data[8];
};
struct Heuristic {   // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

using Handle = void*;
using Object = void*;

// name, result, parameters
#define LIDX_CUBLASLT_FUNCTIONS(X)                                                                                     \
    X(cublasLtGetVersion, size_t, ())                                                                                  \
    X(cublasLtCreate, int, (Handle*))                                                                                  \
    X(cublasLtDestroy, int, (Handle))                                                                                  \
    X(cublasLtMatmulDescCreate, int, (Object*, int compute_type, int scale_type))                                      \
    X(cublasLtMatmulDescSetAttribute, int, (Object, int attribute, const void*, size_t))                               \
    X(cublasLtMatmulDescDestroy, int, (Object))                                                                        \
    X(cublasLtMatrixLayoutCreate, int, (Object*, int type, uint64_t rows, uint64_t columns, int64_t leading))          \
    X(cublasLtMatrixLayoutDestroy, int, (Object))                                                                      \
    X(cublasLtMatmulPreferenceCreate, int, (Object*))                                                                  \
    X(cublasLtMatmulPreferenceSetAttribute, int, (Object, int attribute, const void*, size_t))                         \
    X(cublasLtMatmulPreferenceDestroy, int, (Object))                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic, int,                                                                             \
      (Handle, Object desc, Object a, Object b, Object c, Object d, Object preference, int wanted, Heuristic*, int*))  \
    X(cublasLtMatmul, int,                                                                                             \
      (Handle, Object desc, const void* alpha, const void* a, Object, const void* b, Object, const void* beta,         \
       const void* c, Object, void* d, Object, const Algorithm*, void* workspace, size_t, CUstream))

struct Api {
#define LIDX_CUBLASLT_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
    LIDX_CUBLASLT_FUNCTIONS(LIDX_CUBLASLT_MEMBER)
#undef LIDX_CUBLASLT_MEMBER
};

// Stays loaded until the process ends: it may have threads.
bool load(const std::string& wanted, Api* api, std::string* why) {
    const std::vector<std::string> names =
        wanted.empty() ? std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"}
                       : std::vector<std::string>{wanted};
    void* library = nullptr;
    for (const std::string& name : names) {
        library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library != nullptr) break;
        const char* reason = dlerror();
        *why += (why->empty() ? "" : "; ") + (reason != nullptr ? std::string(reason) : name + " cannot be loaded");
    }
    if (library == nullptr) return false;
#define LIDX_CUBLASLT_LOAD(name, result, parameters)                                    \
    api->name = reinterpret_cast<decltype(api->name)>(dlsym(library, #name));           \
    if (api->name == nullptr) {                                                         \
        *why = (wanted.empty() ? "libcublasLt" : wanted) + " lacks the symbol " #name;  \
        return false;                                                                   \
    }
    LIDX_CUBLASLT_FUNCTIONS(LIDX_CUBLASLT_LOAD)
#undef LIDX_CUBLASLT_LOAD
    return true;
}

}  // namespace

struct CublasLtProduct::State {
    explicit State(const Machine& on) : machine(on), a(on, kSide * kSide), b(on, kSide * kSide),
                                        d(on, kSide * kSide * 2), workspace(on, kWorkspaceBytes) {}
    ~State() {
        if (preference != nullptr) api.cublasLtMatmulPreferenceDestroy(preference);
        for (const Object layout : {input_layout, output_layout})
            if (layout != nullptr) api.cublasLtMatrixLayoutDestroy(layout);
        if (desc != nullptr) api.cublasLtMatmulDescDestroy(desc);
        if (handle != nullptr) api.cublasLtDestroy(handle);
    }
    // "": ready
    std::string set_up() {
        const auto call = [](int status, const char* name) {
            return status == 0 ? "" : std::string(name) + " gave status " + std::to_string(status) + "; ";
        };
        const int transpose = kTranspose;
        const int8_t fast = 1;
        const uint64_t workspace_bytes = kWorkspaceBytes;
        std::string bad = call(api.cublasLtCreate(&handle), "cublasLtCreate");
        if (!bad.empty()) return bad;
        bad += call(api.cublasLtMatmulDescCreate(&desc, kCompute32F, kReal32F), "cublasLtMatmulDescCreate");
        bad += call(api.cublasLtMatrixLayoutCreate(&input_layout, kReal8E4M3, kSide, kSide, kSide),
                    "cublasLtMatrixLayoutCreate");
        bad += call(api.cublasLtMatrixLayoutCreate(&output_layout, kReal16BF, kSide, kSide, kSide),
                    "cublasLtMatrixLayoutCreate");
        bad += call(api.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
        if (!bad.empty()) return bad;
        bad += call(api.cublasLtMatmulDescSetAttribute(desc, kDescTransposeA, &transpose, sizeof transpose),
                    "cublasLtMatmulDescSetAttribute");
        bad += call(api.cublasLtMatmulDescSetAttribute(desc, kDescFastAccumulation, &fast, sizeof fast),
                    "cublasLtMatmulDescSetAttribute");
        bad += call(api.cublasLtMatmulPreferenceSetAttribute(preference, kPreferenceWorkspaceBytes, &workspace_bytes,
                                                             sizeof workspace_bytes),
                    "cublasLtMatmulPreferenceSetAttribute");
        if (!bad.empty()) return bad;
        int found = 0;
        bad = call(api.cublasLtMatmulAlgoGetHeuristic(handle, desc, input_layout, input_layout, output_layout,
                                                      output_layout, preference, 1, &heuristic, &found),
                   "cublasLtMatmulAlgoGetHeuristic");
        if (bad.empty() && (found == 0 || heuristic.status != 0)) bad = "cuBLASLt has no FP8 product for this device";
        return bad;
    }

    const Machine& machine;
    Api api;
    DeviceBuffer a, b, d, workspace;
    Handle handle = nullptr;
    Object desc = nullptr, input_layout = nullptr, output_layout = nullptr, preference = nullptr;
    Heuristic heuristic = {};
};

std::unique_ptr<CublasLtProduct> CublasLtProduct::open(const Machine& machine, const std::string& library,
                                                       std::string* why) {
    Api api;
    if (!load(library, &api, why)) return nullptr;
    std::unique_ptr<CublasLtProduct> product(new CublasLtProduct);
    product->state_ = std::make_unique<State>(machine);
    State& state = *product->state_;
    state.api = api;
    Patterns patterns;
    const std::vector<uint8_t>& codes = patterns.codes(kSide * kSide);
    for (DeviceBuffer* matrix : {&state.a, &state.b})
        for (size_t at = 0; at < kSide * kSide; at += codes.size())
            matrix->upload(codes.data(), std::min<size_t>(codes.size(), kSide * kSide - at), at);
    *why = state.set_up();
    if (!why->empty()) return nullptr;
    return product;
}

CublasLtProduct::~CublasLtProduct() = default;

void CublasLtProduct::enqueue(CUstream stream) const {
    const State& s = *state_;
    const float one = 1, zero = 0;
    const int status = s.api.cublasLtMatmul(s.handle, s.desc, &one, s.a.as(), s.input_layout, s.b.as(), s.input_layout,
                                            &zero, s.d.as(), s.output_layout, s.d.as(), s.output_layout,
                                            &s.heuristic.algorithm, s.workspace.as(), kWorkspaceBytes, stream);
    if (status != 0) throw Failure(kInternal, "cublasLtMatmul gave status " + std::to_string(status));
}

double CublasLtProduct::flops() const { return 2.0 * kSide * kSide * kSide; }

std::string CublasLtProduct::name() const {
    // major * 10000 + minor * 100 + patch
    const size_t version = state_->api.cublasLtGetVersion();
    return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100) + " FP8 " + std::to_string(kSide) + "^3";
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
// A libcublasLt, version 13.4.5, for the tests of lidx bench: it takes the calls that it expects and computes nothing.
// FAKE_CUBLASLT=none: it has no algorithm.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

int objects = 0;

int make(void** object) {
    *object = &objects;
    ++objects;
    return 0;
}
int destroy(void* object) { return object == &objects && --objects >= 0 ? 0 : 7; }

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130405; }
int cublasLtCreate(void** handle) { return make(handle); }
int cublasLtDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
    return compute == 68 && scale == 0 ? make(desc) : 7;
}
int cublasLtMatmulDescSetAttribute(void*, int attribute, const void* value, size_t size_bytes) {
    const bool transpose = attribute == 3 && size_bytes == 4 && *static_cast<const int32_t*>(value) == 1;
    const bool fast = attribute == 25 && size_bytes == 1 && *static_cast<const int8_t*>(value) == 1;
    return transpose || fast ? 0 : 7;
}
int cublasLtMatmulDescDestroy(void* desc) { return destroy(desc); }
int cublasLtMatrixLayoutCreate(void** layout, int, uint64_t rows, uint64_t columns, int64_t leading) {
    return rows == columns && leading == static_cast<int64_t>(rows) ? make(layout) : 7;
}
int cublasLtMatrixLayoutDestroy(void* layout) { return destroy(layout); }
int cublasLtMatmulPreferenceCreate(void** preference) { return make(preference); }
int cublasLtMatmulPreferenceSetAttribute(void*, int attribute, const void*, size_t size_bytes) {
    return attribute == 1 && size_bytes == 8 ? 0 : 7;
}
int cublasLtMatmulPreferenceDestroy(void* preference) { return destroy(preference); }
// The result has 96 bytes: 64 of the algorithm, its workspace, status, waves, and 16 more.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void* result, int* found) {
    std::memset(result, 0, 96);
    std::memset(result, 0xa5, 64);
    const char* mode = std::getenv("FAKE_CUBLASLT");
    *found = mode != nullptr && std::strcmp(mode, "none") == 0 ? 0 : 1;
    return 0;
}
int cublasLtMatmul(void*, void*, const void* alpha, const void*, void*, const void*, void*, const void* beta,
                   const void*, void*, void*, void*, const void* algorithm, void*, size_t, void*) {
    const bool scaled = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
    return scaled && *static_cast<const uint8_t*>(algorithm) == 0xa5 ? 0 : 7;
}
}

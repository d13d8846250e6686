// SPDX-License-Identifier: Apache-2.0
// A machine that misbehaves, to see whether check notices. It is the emulator (this library depends on libptxemu, so
// that every symbol but one is found there) with a launch of its own: launches whose max_keys is BAD_MACHINE_KEYS do
// what BAD_MACHINE says.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "kernel/problem.h"

namespace {

// A symbol that is needed from libptxemu, or the linker would drop it.
[[gnu::used]] CUresult CUDAAPI (*const keep)(unsigned) = cuInit;

bool lost = false;  // a sticky error: nothing works any more in this process

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config,
                                                                                    CUfunction function,
                                                                                    void** kernel_params,
                                                                                    void** extra) {
    if (lost) return CUDA_ERROR_ILLEGAL_ADDRESS;
    using Launch = CUresult(const CUlaunchConfig*, CUfunction, void**, void**);
    static auto* const real = reinterpret_cast<Launch*>(dlsym(RTLD_NEXT, "cuLaunchKernelEx"));
    const char* const keys = std::getenv("BAD_MACHINE_KEYS");
    const char* const what = std::getenv("BAD_MACHINE");
    const auto& p = *static_cast<const lidx::ScoreParams*>(kernel_params[0]);  // generic_score
    if (keys == nullptr || what == nullptr || p.view.keys_limit != std::atoll(keys))
        return real(config, function, kernel_params, extra);
    auto* const scores = static_cast<float*>(p.scores);
    auto is = [&](const char* name) { return std::strcmp(what, name) == 0; };
    if (is("crash")) std::raise(SIGSEGV);
    if (is("exit")) std::_Exit(9);
    if (is("hang"))
        for (;;) pause();
    if (is("sticky")) {
        lost = true;
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (is("nothing")) return CUDA_SUCCESS;  // no score is written
    const CUresult result = real(config, function, kernel_params, extra);
    // Device addresses are host addresses here.
    if (is("before")) scores[-1] = 0;
    if (is("behind")) scores[p.view.rows * p.score_stride] = 0;
    if (is("gap")) scores[p.view.keys_limit] = 0;
    if (is("input")) const_cast<uint8_t*>(p.k)[0] ^= 1;
    if (is("bit")) scores[0] = -scores[0];
    static int launches = 0;
    if (is("later") && ++launches == 2) scores[0] = -scores[0];
    if (is("check_word") && p.check_word != nullptr) *p.check_word = 7;
    return result;
}

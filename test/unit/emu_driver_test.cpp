// SPDX-License-Identifier: Apache-2.0
// The emulated driver through its exported functions: what CUDA documents for right use and for misuse. Whatever
// depends on a fresh process or on the environment is a hidden case that runs in a process of its own.
#include <cuda.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "catch_any.h"
#include "ptx_samples.h"

extern "C" const char* ptxemu_last_error(void);   // of the emulator alone

namespace {

std::string temporary(const char* name) {
    const char* folder = std::getenv("TMPDIR");
    return std::string(folder != nullptr ? folder : "/tmp") + "/ptxemu_" + name + "_" + std::to_string(getpid());
}

// Runs one hidden test case of this program in a process of its own, with these variables and no other PTXEMU_*.
bool passes_alone(const char* test_case, const std::vector<std::pair<std::string, std::string>>& environment) {
    const std::string mark = temporary("mark");   // the test case removes it: a name that matches none would pass
    std::ofstream(mark) << "\n";
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        for (const char* name : {"PTXEMU_CC", "PTXEMU_SMS", "PTXEMU_SEED", "PTXEMU_SEED_STEP", "PTXEMU_THREADS",
                                 "PTXEMU_CHECK", "PTXEMU_PROGRESS", "PTXEMU_STATS", "PTXEMU_PTX", "PTXEMU_DETAIL",
                                 "PTXEMU_TRACE", "PTXEMU_MAX_INSTRUCTIONS", "PTXEMU_ANY_LEADER"}) {
            unsetenv(name);
        }
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        setenv("LIDX_TEST_MARK", mark.c_str(), 1);
        execl("/proc/self/exe", "unit_emu_driver", test_case, static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    const bool ran = std::remove(mark.c_str()) != 0;
    return ran && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string file_text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What run() prints on stderr.
template <class Run>
std::string printed_by(Run&& run) {
    const std::string path = temporary("stderr");
    const int kept = dup(2), file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    REQUIRE(kept >= 0);
    REQUIRE(file >= 0);
    std::fflush(stderr);
    dup2(file, 2);
    run();
    std::fflush(stderr);
    dup2(kept, 2);
    close(file);
    close(kept);
    const std::string text = file_text(path);
    std::remove(path.c_str());
    return text;
}

void arrived() {
    const char* mark = std::getenv("LIDX_TEST_MARK");
    if (mark != nullptr) std::remove(mark);
}

// Set by whoever runs this program on a GPU, with LD_PRELOAD=libcuda.so.1: leaves out what a real driver answers with a
// crash, or differently for the reason given in place. All else was seen to hold on an H200 (driver API 13.0).
const bool on_silicon = std::getenv("LIDX_TEST_SILICON") != nullptr;

constexpr char kPtx[] = R"(
.version 9.0
.target sm_80
.address_size 64
.const .align 4 .f32 scale = 2.0;
.global .align 8 .b32 numbers[3] = {1, 2, 3};
.global .u64 pointer = generic(numbers)+8;
.global .u32 untouched[4];
.visible .entry read_through(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [out];
  ld.global.u64 %rd2, [pointer];
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry params(.param .u8 a, .param .u32 b, .param .align 16 .b8 c[16], .param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<6>;
  ld.param.u64 %rd1, [out];
  ld.param.u8 %r1, [a];
  ld.param.u32 %r2, [b];
  ld.param.u32 %r3, [c+12];
  st.global.u32 [%rd1], %r1;
  st.global.u32 [%rd1+4], %r2;
  st.global.u32 [%rd1+8], %r3;
  ret;
}
.visible .entry store_to(.param .u64 where) {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, 7;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry trapped() { trap; ret; }
.visible .entry bounded(.param .u64 out) .maxntid 64 { .shared .b8 s[1024]; ret; }
.visible .entry exact() .reqntid 32, 2 { ret; }
)";

struct Fixture {
    CUcontext context = nullptr;
    Fixture() {
        REQUIRE(cuInit(0) == CUDA_SUCCESS);
        REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
    }
    ~Fixture() { cuCtxDestroy(context); }
    CUmodule load(const char* text) {
        CUmodule module = nullptr;
        REQUIRE(cuModuleLoadData(&module, text) == CUDA_SUCCESS);
        return module;
    }
    CUfunction function(CUmodule module, const char* name) {
        CUfunction f = nullptr;
        REQUIRE(cuModuleGetFunction(&f, module, name) == CUDA_SUCCESS);
        return f;
    }
    CUdeviceptr allocate(size_t bytes) {
        CUdeviceptr p = 0;
        REQUIRE(cuMemAlloc(&p, bytes) == CUDA_SUCCESS);
        return p;
    }
};

CUresult launch(CUfunction f, unsigned threads, unsigned shared_bytes, void** params) {
    return cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, shared_bytes, nullptr, params, nullptr);
}

// Adds 0.5 to n floats of value 1 with 3 blocks of 64 threads; the floats afterwards.
std::vector<float> run_add(CUmodule module, int n) {
    CUfunction f = nullptr;
    std::vector<float> values(192, 1.0f);
    CUdeviceptr p = 0;
    if (cuModuleGetFunction(&f, module, "addk") != CUDA_SUCCESS) return {};
    if (cuMemAlloc(&p, values.size() * 4) != CUDA_SUCCESS) return {};
    if (cuMemcpyHtoD(p, values.data(), values.size() * 4) != CUDA_SUCCESS) return {};
    float a = 0.5f;
    void* params[] = {&p, &a, &n};
    if (cuLaunchKernel(f, 3, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr) != CUDA_SUCCESS) return {};
    if (cuMemcpyDtoH(values.data(), p, values.size() * 4) != CUDA_SUCCESS) return {};
    cuMemFree(p);
    return values;
}

bool load_and_add(int n, std::vector<float>* values) {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate(&context, nullptr, 0, 0) != CUDA_SUCCESS) return false;
    if (cuModuleLoadData(&module, kSampleAdd) != CUDA_SUCCESS) return false;
    *values = run_add(module, n);
    return !values->empty();
}

}   // namespace

TEST_CASE("alone: nothing works before cuInit", "[.][alone]") {
    arrived();
    int count = 0;
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUdeviceptr p = 0;
    CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuMemAlloc(&p, 4) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED);
    int version = 0;
    CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS);
    CHECK(version == 13000);
    CHECK(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, 4) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS);
    CHECK(count == 1);
}

TEST_CASE("nothing works before cuInit", "[driver]") { CHECK(passes_alone("alone: nothing works before cuInit", {})); }

TEST_CASE("alone: cuInit refuses", "[.][alone]") {
    arrived();
    CHECK(cuInit(0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(ptxemu_last_error() == "ptxemu: cuInit: " + std::string(std::getenv("LIDX_TEST_EXPECTED")) +
                                     " (CUDA_ERROR_INVALID_VALUE)");
}

TEST_CASE("alone: a variable that is misspelt is told", "[.][alone]") {
    arrived();
    const std::string text = printed_by([] { CHECK(cuInit(0) == CUDA_SUCCESS); });
    CHECK(text == "ptxemu: cuInit: PTXEMU_CHEK is ignored: there are PTXEMU_CC, PTXEMU_SMS, PTXEMU_SEED, "
                  "PTXEMU_SEED_STEP, PTXEMU_THREADS, PTXEMU_CHECK, PTXEMU_ANY_LEADER, PTXEMU_DETAIL, PTXEMU_PROGRESS, "
                  "PTXEMU_MAX_INSTRUCTIONS, PTXEMU_STATS, PTXEMU_PTX, PTXEMU_TRACE\n");
}

TEST_CASE("alone: sm_80 with 7 SMs", "[.][alone]") {
    arrived();
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    int value = 0;
    const auto attribute = [&](CUdevice_attribute which) {
        CHECK(cuDeviceGetAttribute(&value, which, 0) == CUDA_SUCCESS);
        return value;
    };
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 8);
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0);
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 7);
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 166912);
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) == 0);
    char name[64] = "";
    CHECK(cuDeviceGetName(name, sizeof name, 0) == CUDA_SUCCESS);
    CHECK(std::string(name) == "ptxemu (sm_80, 7 SMs)");
    CHECK(cuDeviceGetName(name, 5, 0) == CUDA_SUCCESS);
    CHECK(std::string(name) == "ptxe");
    CHECK(cuDeviceGetName(name, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("alone: the default device", "[.][alone]") {
    arrived();
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    int value = 0;
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
    CHECK(value == 10);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == CUDA_SUCCESS);
    CHECK(value == 148);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0) == CUDA_SUCCESS);
    CHECK(value == 232448);
    // What there are functions for; programs ask before they call them.
    for (const auto has : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
                           CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
                           CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH}) {
        CHECK(cuDeviceGetAttribute(&value, has, 0) == CUDA_SUCCESS);
        CHECK(value == 1);
    }
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) == CUDA_ERROR_INVALID_VALUE);
    CUdevice device = 9;
    CHECK(cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGet(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(device == 9);
}

TEST_CASE("the environment makes the device, or cuInit refuses", "[driver]") {
    const std::string devices = "one of 80, 90, 100, 103", flag = "0 or 1", number = "a whole number from ",
                      small = number + "1 to 1024", any = number + "0 to 18446744073709551615",
                      some = number + "1 to 18446744073709551615";
    const struct {
        std::string name, value, expected;
    } wrong[] = {
        {"PTXEMU_CC", "70", devices},
        {"PTXEMU_CC", "85", devices},
        {"PTXEMU_CC", "abc", devices},
        {"PTXEMU_CC", "-90", devices},
        {"PTXEMU_SMS", "0", small},
        {"PTXEMU_SMS", "1e3", small},
        {"PTXEMU_THREADS", "0", small},
        {"PTXEMU_SEED", "1 ", any},
        {"PTXEMU_SEED", "18446744073709551616", any},
        {"PTXEMU_SEED_STEP", "-1", any},
        {"PTXEMU_CHECK", "2", flag},
        {"PTXEMU_ANY_LEADER", "2", flag},
        {"PTXEMU_DETAIL", "on", flag},
        {"PTXEMU_PROGRESS", "yes", flag},
        {"PTXEMU_MAX_INSTRUCTIONS", "0", some},
        {"PTXEMU_MAX_INSTRUCTIONS", "-1", some},
        {"PTXEMU_MAX_INSTRUCTIONS", "1e9", some}};
    for (const auto& row : wrong) {
        INFO(row.name << "=" << row.value);
        const std::string expected = row.name + "='" + row.value + "' is not " + row.expected;
        CHECK(passes_alone("alone: cuInit refuses", {{row.name, row.value}, {"LIDX_TEST_EXPECTED", expected}}));
    }
    CHECK(passes_alone("alone: a variable that is misspelt is told", {{"PTXEMU_CHEK", "1"}}));
    CHECK(passes_alone("alone: sm_80 with 7 SMs", {{"PTXEMU_CC", "80"}, {"PTXEMU_SMS", "7"}, {"PTXEMU_SEED", ""}}));
    CHECK(passes_alone("alone: the default device", {}));
}

TEST_CASE("names of results", "[driver]") {
    const char* text = nullptr;
    CHECK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS);
    CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
    CHECK(cuGetErrorString(CUDA_SUCCESS, &text) == CUDA_SUCCESS);
    CHECK(std::string(text) == "no error");
    CHECK(cuGetErrorName(static_cast<CUresult>(12345), &text) == CUDA_ERROR_INVALID_VALUE);
    CHECK(text == nullptr);
    if (!on_silicon) CHECK(cuGetErrorName(CUDA_SUCCESS, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("alone: contexts", "[.][alone]") {
    arrived();
    CUcontext primary = nullptr, again = nullptr, own = nullptr, current = nullptr;
    CUdeviceptr p = 0;
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
    CHECK(again == primary);
    CHECK(cuDevicePrimaryCtxRetain(&again, 3) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == nullptr);
    CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == primary);
    CHECK(cuCtxCreate(&own, nullptr, 0, 0) == CUDA_SUCCESS);
    CHECK(own != primary);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == own);
    CHECK(cuMemAlloc(&p, 64) == CUDA_SUCCESS);
    CHECK(cuCtxPopCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == own);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == primary);
    CHECK(cuMemFree(p) == CUDA_SUCCESS);   // the memory of a context that is not current
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuCtxPushCurrent(own) == CUDA_SUCCESS);
    CHECK(cuCtxPushCurrent(primary) == CUDA_SUCCESS);
    CHECK(cuCtxDestroy(own) == CUDA_SUCCESS);   // not on top: stays on the stack, dead
    CHECK(cuCtxDestroy(own) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, 64) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
    if (!on_silicon) {   // which takes the first, and crashes on the second
        CHECK(cuCtxSetCurrent(own) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
        CHECK(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&p)) == CUDA_ERROR_INVALID_CONTEXT);
    }
    CHECK(cuCtxDestroy(primary) == CUDA_ERROR_INVALID_CONTEXT);
    unsigned flags = 9;
    int active = 9;
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 1);
    CHECK(flags == 0);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, 64) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 0);
    CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(cuCtxPopCurrent(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
#if CUDA_VERSION >= 13000
    CHECK(cuCtxSynchronize_v2(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CUdevice device_of = -1;
    CHECK(cuCtxGetDevice_v2(&device_of, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CUcontext known = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&known, 0) == CUDA_SUCCESS);   // a context that is not current
    CHECK(cuCtxSynchronize_v2(known) == CUDA_SUCCESS);
    CHECK(cuCtxGetDevice_v2(&device_of, known) == CUDA_SUCCESS);
    CHECK(device_of == 0);
    CHECK(cuCtxGetDevice_v2(nullptr, known) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
#endif
}

TEST_CASE("contexts: stack, primary count, destroyed ones", "[driver]") { CHECK(passes_alone("alone: contexts", {})); }

TEST_CASE("memory: allocations, copies and sets are checked against what was allocated", "[driver]") {
    Fixture x;
    size_t free_before = 0, free_after = 0, total = 0;
    CHECK(cuMemGetInfo(&free_before, &total) == CUDA_SUCCESS);
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAlloc(&p, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc(&p, ~size_t{0}) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc(nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
    p = x.allocate(1000);
    CHECK(p % 256 == 0);
    CHECK(cuMemGetInfo(&free_after, &total) == CUDA_SUCCESS);
    CHECK(free_before - free_after >= 1000);

    std::vector<uint8_t> host(1000), back(1000);
    CHECK(cuMemcpyDtoH(back.data(), p, 1000) == CUDA_SUCCESS);
    float poison = 0;
    std::memcpy(&poison, back.data(), 4);
    if (!on_silicon) CHECK(std::isnan(poison));   // uninitialised memory is not zero
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint8_t>(i * 7);
    CHECK(cuMemcpyHtoD(p, host.data(), 1000) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(back.data(), p, 1000) == CUDA_SUCCESS);
    CHECK(back == host);

    CHECK(cuMemcpyHtoD(p, host.data(), 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(p + 1, host.data(), 1000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(p - 1, host.data(), 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(back.data(), p + 1000, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(back.data(), p, ~size_t{0}) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(p, nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(0, host.data(), 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(host.data()), host.data(), 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(p, host.data(), 0) == CUDA_SUCCESS);

    CHECK(cuMemsetD8(p + 3, 0xab, 5) == CUDA_SUCCESS);
    CHECK(cuMemsetD16(p + 10, 0x1234, 2) == CUDA_SUCCESS);
    CHECK(cuMemsetD32(p + 996, 0x01020304, 1) == CUDA_SUCCESS);
    CHECK(cuMemsetD16(p + 11, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD32(p + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD32(p + 996, 0, 2) == CUDA_ERROR_INVALID_VALUE);
    if (!on_silicon) CHECK(cuMemsetD32(p, 0, size_t{1} << 62) == CUDA_ERROR_INVALID_VALUE);   // 2^64 bytes: taken for 0
    CHECK(cuMemsetD8(p, 0, 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(back.data(), p, 1000) == CUDA_SUCCESS);
    for (size_t i = 3; i < 8; ++i) host[i] = 0xab;
    host[10] = host[12] = 0x34;
    host[11] = host[13] = 0x12;
    host[996] = 4, host[997] = 3, host[998] = 2, host[999] = 1;
    CHECK(back == host);

    CUdeviceptr q = x.allocate(1000);
    CHECK(cuMemcpyDtoD(q, p, 1000) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoD(q + 4, p, 1000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(back.data(), q, 1000) == CUDA_SUCCESS);
    CHECK(back == host);

    CHECK(cuMemFree(p + 256) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(p) == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(back.data(), p, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(0) == CUDA_SUCCESS);
    CHECK(cuMemFree(q) == CUDA_SUCCESS);

    p = x.allocate(size_t{20} << 30);   // sparse: only what is touched becomes real
    CHECK(cuMemsetD32(p + (size_t{19} << 30), 5, 3) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(back.data(), p + (size_t{19} << 30) - 4, 16) == CUDA_SUCCESS);
    CHECK(back[0] == 0);
    CHECK(back[12] == 5);
    CHECK(cuMemFree(p) == CUDA_SUCCESS);
}

TEST_CASE("memory: pitch, host memory, pointer queries", "[driver]") {
    Fixture x;
    CUdeviceptr p = 0;
    size_t pitch = 0;
    CHECK(cuMemAllocPitch(&p, &pitch, 100, 4, 3) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemAllocPitch(&p, &pitch, 100, 4, 16) == CUDA_SUCCESS);
    CHECK(pitch >= 100);
    CHECK(cuMemsetD2D8(p, pitch, 0, pitch, 4) == CUDA_SUCCESS);
    CHECK(cuMemsetD2D8(p, pitch, 0, pitch, 5) == CUDA_ERROR_INVALID_VALUE);
    std::vector<uint8_t> rows(60);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i + 1);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = rows.data();
    copy.srcPitch = 20;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = p;
    copy.dstPitch = pitch;
    copy.dstXInBytes = 7;
    copy.dstY = 1;
    copy.WidthInBytes = 20;
    copy.Height = 3;
    CHECK(cuMemcpy2D(&copy) == CUDA_SUCCESS);
    uint8_t got[3] = {};
    CHECK(cuMemcpyDtoH(got, p + 3 * pitch + 7 + 18, 3) == CUDA_SUCCESS);
    CHECK(got[0] == 59);
    CHECK(got[1] == 60);
    CHECK(got[2] == 0);
    copy.Height = 4;
    CHECK(cuMemcpy2D(&copy) == CUDA_ERROR_INVALID_VALUE);
    copy.Height = 3;
    copy.srcPitch = 19;
    CHECK(cuMemcpy2D(&copy) == CUDA_ERROR_INVALID_VALUE);
    if (!on_silicon) CHECK(cuMemcpy2D(nullptr) == CUDA_ERROR_INVALID_VALUE);

    void* host = nullptr;
    REQUIRE(cuMemHostAlloc(&host, 64, 0) == CUDA_SUCCESS);
    void* refused = nullptr;
    CHECK(cuMemHostAlloc(&refused, 64, 0x100) == CUDA_ERROR_INVALID_VALUE);
    std::memset(host, 3, 64);
    CHECK(cuMemcpyHtoD(p, host, 64) == CUDA_SUCCESS);
    unsigned type = 0;
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(host)) ==
          CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_HOST);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5) == CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    CUdeviceptr base = 0;
    CHECK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5) == CUDA_SUCCESS);
    CHECK(base == p);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&type)) ==
          CUDA_ERROR_INVALID_VALUE);
    size_t bytes = 0;
    CHECK(cuMemGetAddressRange(&base, &bytes, p + 9) == CUDA_SUCCESS);
    CHECK(base == p);
    CHECK(bytes == 4 * pitch);
    CHECK(cuMemGetAddressRange(&base, &bytes, 64) == CUDA_ERROR_NOT_FOUND);
    CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(host)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeHost(host) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(host) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("streams and events", "[driver]") {
    Fixture x;
    CUstream stream = nullptr;
    CHECK(cuStreamCreate(&stream, 0x80) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(nullptr) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CUevent begin = nullptr, end = nullptr, silent = nullptr;
    REQUIRE(cuEventCreate(&begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&silent, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    CHECK(cuEventCreate(&silent, 0x80) == CUDA_ERROR_INVALID_VALUE);
    float milliseconds = -1;
    CHECK(cuEventElapsedTime(&milliseconds, begin, end) == CUDA_ERROR_INVALID_HANDLE);   // never recorded
    CHECK(cuEventRecord(begin, stream) == CUDA_SUCCESS);
    usleep(2000);
    CHECK(cuEventRecord(end, stream) == CUDA_SUCCESS);
    CHECK(cuEventRecord(silent, nullptr) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(end) == CUDA_SUCCESS);
    CHECK(cuEventQuery(end) == CUDA_SUCCESS);
    CHECK(cuEventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS);
    CHECK(milliseconds >= 2.0f);
    CHECK(cuEventElapsedTime(&milliseconds, begin, silent) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuStreamWaitEvent(stream, end, 0) == CUDA_SUCCESS);
    CHECK(cuEventDestroy(end) == CUDA_SUCCESS);
    if (!on_silicon) CHECK(cuEventDestroy(end) == CUDA_ERROR_INVALID_HANDLE);
    if (!on_silicon) CHECK(cuEventRecord(end, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
    if (!on_silicon) CHECK(cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
    if (!on_silicon) CHECK(cuEventRecord(begin, stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("modules: bad images, lookups, variables", "[driver]") {
    Fixture x;
    CUmodule module = nullptr;
    CHECK(cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuModuleLoadData(nullptr, kPtx) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuModuleLoadData(&module, "certainly no image") == CUDA_ERROR_INVALID_IMAGE);
    if (!on_silicon)
        CHECK(cuModuleLoadData(&module, reinterpret_cast<void*>(uintptr_t{16})) == CUDA_ERROR_INVALID_IMAGE);
    if (!on_silicon) {   // another device; and it looks into a cubin first
        const char cubin[] = "\x7f\x45LF\x02\x01\x01\x41";
        CHECK(cuModuleLoadData(&module, cubin) == CUDA_ERROR_NO_BINARY_FOR_GPU);
        CHECK(cuModuleLoadData(&module, ".version 9.0\n.target sm_90a\n") == CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    CHECK(module == nullptr);
    // An extern variable matters to those that use it.
    const std::string head = ".version 9.0\n.target sm_80\n.address_size 64\n.extern .global .b32 elsewhere;\n";
    CHECK(cuModuleLoadData(&module, head.c_str()) == CUDA_SUCCESS);
    CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
    const std::string use = head + ".entry k() { .reg .b32 %r1; ld.global.b32 %r1, [elsewhere]; ret; }";
    if (!on_silicon) CHECK(cuModuleLoadData(&module, use.c_str()) == CUDA_ERROR_INVALID_PTX);   // which loads lazily

    // What is wrong, and where, reaches the log buffer of cuModuleLoadDataEx.
    const char* wrong = ".version 9.0\n.target sm_80\n.address_size 64\n.entry k() {\n  frobnicate.b32;\n  ret;\n}";
    char log[256] = "untouched";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CHECK(cuModuleLoadDataEx(&module, wrong, 2, options, values) == CUDA_ERROR_INVALID_PTX);
    CHECK(std::string(log).find("line 5") != std::string::npos);
    CHECK(std::string(log).find("frobnicate") != std::string::npos);
    CHECK(reinterpret_cast<size_t>(values[1]) == std::strlen(log));

    module = x.load(kPtx);
    CUfunction f = nullptr;
    CHECK(cuModuleGetFunction(&f, module, "no_such") == CUDA_ERROR_NOT_FOUND);
    if (!on_silicon)
        CHECK(cuModuleGetFunction(&f, reinterpret_cast<CUmodule>(&f), "params") == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuModuleGetFunction(&f, module, nullptr) == CUDA_ERROR_INVALID_VALUE);
    f = x.function(module, "params");
    const size_t expected[4][2] = {{0, 1}, {4, 4}, {16, 16}, {32, 8}};
    size_t offset = 0, bytes = 0;
    for (size_t i = 0; i < 4; ++i) {
        CHECK(cuFuncGetParamInfo(f, i, &offset, &bytes) == CUDA_SUCCESS);
        CHECK(offset == expected[i][0]);
        CHECK(bytes == expected[i][1]);
    }
    CHECK(cuFuncGetParamInfo(f, 4, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);

    CUdeviceptr numbers = 0;
    CHECK(cuModuleGetGlobal(&numbers, &bytes, module, "numbers") == CUDA_SUCCESS);
    CHECK(bytes == 12);
    uint32_t words[4] = {};
    CHECK(cuMemcpyDtoH(words, numbers, 12) == CUDA_SUCCESS);
    CHECK(words[0] == 1);
    CHECK(words[2] == 3);
    CHECK(cuMemFree(numbers) == CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr untouched = 0;
    CHECK(cuModuleGetGlobal(&untouched, nullptr, module, "untouched") == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(words, untouched, 16) == CUDA_SUCCESS);
    CHECK(words[0] == 0);
    CHECK(words[3] == 0);
    CHECK(cuModuleGetGlobal(&untouched, nullptr, module, "nothing") == CUDA_ERROR_NOT_FOUND);

    CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
    if (!on_silicon) CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuMemcpyDtoH(words, numbers, 4) == CUDA_ERROR_INVALID_VALUE);
    int value = 0;
    if (!on_silicon) CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f) == CUDA_ERROR_INVALID_HANDLE);
    if (!on_silicon) CHECK(launch(f, 1, 0, nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("function attributes and occupancy", "[driver]") {
    Fixture x;
    const CUmodule module = x.load(kPtx);
    const CUfunction f = x.function(module, "bounded");
    int value = 0;
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f) == CUDA_SUCCESS);
    CHECK(value == 64);
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f) == CUDA_SUCCESS);
    CHECK(value == 1024);
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f) == CUDA_SUCCESS);
    CHECK(value == 48 * 1024 - 1024);
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, f) == CUDA_SUCCESS);
    CHECK(value == 80);
    CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 1024) == CUDA_SUCCESS);
    int blocks = 0;
    // 228 KB per SM; a block has 1 KB of its own, 1 KB of the system's and what it asks for.
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 55 * 1024) == CUDA_SUCCESS);
    CHECK(blocks == 4);
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 0) == CUDA_SUCCESS);
    CHECK(blocks == 32);
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 65, 0) == CUDA_SUCCESS);
    CHECK(blocks == 64 / 3);   // .maxntid does not count here
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("launches: parameters arrive, in both forms", "[driver]") {
    Fixture x;
    const CUmodule module = x.load(kPtx);
    CUdeviceptr out = x.allocate(64);
    uint8_t a = 0xab;
    uint32_t b = 0x12345678;
    uint32_t c[4] = {1, 2, 3, 0xdeadbeef};
    void* params[] = {&a, &b, c, &out};
    const CUfunction f = x.function(module, "params");
    uint32_t words[3] = {};
    CHECK(launch(f, 1, 0, params) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(words, out, 12) == CUDA_SUCCESS);
    CHECK(words[0] == 0xab);
    CHECK(words[1] == 0x12345678);
    CHECK(words[2] == 0xdeadbeef);

    uint8_t buffer[40] = {0x11};
    const uint32_t second = 0x22;
    std::memcpy(buffer + 4, &second, 4);
    std::memcpy(buffer + 28, &second, 4);
    std::memcpy(buffer + 32, &out, 8);
    size_t size = sizeof buffer;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(words, out, 12) == CUDA_SUCCESS);
    CHECK(words[0] == 0x11);
    CHECK(words[1] == 0x22);
    CHECK(words[2] == 0x22);
    size = 39;   // a real driver takes a buffer that is too small
    if (!on_silicon) CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(f, 1, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    params[2] = nullptr;
    CHECK(launch(f, 1, 0, params) == CUDA_ERROR_INVALID_VALUE);

    void* one[] = {&out};
    CHECK(launch(x.function(module, "read_through"), 1, 0, one) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(words, out, 4) == CUDA_SUCCESS);
    CHECK(words[0] == 3);   // the pointer in the initialiser points to numbers[2]

    const std::vector<float> values = run_add(x.load(kSampleAdd), 130);
    REQUIRE(values.size() == 192);
    CHECK(values[0] == 1.5f);
    CHECK(values[129] == 1.5f);
    CHECK(values[130] == 1.0f);
}

TEST_CASE("threads with a context each, and threads that share one", "[driver]") {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext shared = nullptr;
    CUmodule module = nullptr;
    REQUIRE(cuCtxCreate(&shared, nullptr, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module, kSampleAdd) == CUDA_SUCCESS);
    int good[4] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            CUcontext own = nullptr;
            CUmodule own_module = module;
            if (t < 2) {
                if (cuCtxCreate(&own, nullptr, 0, 0) != CUDA_SUCCESS) return;
                if (cuModuleLoadData(&own_module, kSampleAdd) != CUDA_SUCCESS) return;
            } else if (cuCtxSetCurrent(shared) != CUDA_SUCCESS) {
                return;
            }
            for (int run = 0; run < 25; ++run) {
                const int n = 1 + (run * 37 + t) % 192;
                const std::vector<float> values = run_add(own_module, n);
                if (values.size() != 192) continue;
                bool right = true;
                for (int i = 0; i < 192; ++i) right = right && values[static_cast<size_t>(i)] == (i < n ? 1.5f : 1.0f);
                good[t] += right ? 1 : 0;
            }
            if (own != nullptr) cuCtxDestroy(own);
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < 4; ++t) {
        INFO("thread " << t);
        CHECK(good[t] == 25);
    }
    CHECK(cuCtxDestroy(shared) == CUDA_SUCCESS);
}

// Two warps store one value: a warning.
constexpr char kSameValue[] = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .entry same_value() {
  .shared .align 4 .b32 word;
  st.shared.b32 [word], 7;
  ret;
}
)";
TEST_CASE("alone: a warning is printed once a function", "[.][alone]") {
    arrived();
    Fixture x;
    const CUfunction f = x.function(x.load(kSameValue), "same_value");
    const auto printed = [&](CUfunction launched) {
        CUresult result = CUDA_ERROR_UNKNOWN;
        const std::string text = printed_by([&] { result = launch(launched, 64, 0, nullptr); });
        REQUIRE(result == CUDA_SUCCESS);
        size_t count = 0;
        for (size_t at = text.find("[race-same-value]"); at != text.npos; at = text.find("[race-same-value]", at + 1))
            ++count;
        return count;
    };
    CHECK(printed(f) == 1);
    CHECK(printed(f) == 0);
    CHECK(printed(f) == 0);
    CHECK(printed(x.function(x.load(kSameValue), "same_value")) == 1);   // another module's
}
TEST_CASE("a warning is printed once a function", "[driver]") {
    CHECK(passes_alone("alone: a warning is printed once a function", {{"PTXEMU_CHECK", "1"}}));
}

TEST_CASE("launches: misuse", "[driver]") {
    Fixture x;
    const CUmodule module = x.load(kPtx);
    CUdeviceptr out = x.allocate(64);
    void* params[] = {&out};
    const CUfunction store = x.function(module, "store_to"), bounded = x.function(module, "bounded"),
                     exact = x.function(module, "exact");
    const auto shape = [&](CUfunction f, unsigned gx, unsigned gy, unsigned bx, unsigned by, unsigned bz) {
        return cuLaunchKernel(f, gx, gy, 1, bx, by, bz, 0, nullptr, params, nullptr);
    };
    CHECK(shape(store, 0, 1, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 1, 65536, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 0x80000000u, 1, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 1, 1, 1025, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 1, 1, 1, 1, 65) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 1, 1, 512, 4, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(store, 1, 1, 0, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(bounded, 1, 1, 65, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shape(bounded, 1, 1, 64, 1, 1) == CUDA_SUCCESS);
    CHECK(cuLaunchKernel(exact, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
    if (!on_silicon)
        CHECK(std::string(ptxemu_last_error()).find(": block 64,1,1 differs from the kernel's .reqntid 32,2,1 (") !=
              std::string::npos);
    CHECK(cuLaunchKernel(exact, 1, 1, 1, 32, 2, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
    CHECK(launch(bounded, 32, 47 * 1024 + 1, params) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(bounded, 32, 47 * 1024, params) == CUDA_SUCCESS);
    CHECK(launch(nullptr, 32, 0, params) == CUDA_ERROR_INVALID_HANDLE);
    if (!on_silicon) CHECK(launch(reinterpret_cast<CUfunction>(&out), 32, 0, params) == CUDA_ERROR_INVALID_HANDLE);
    if (!on_silicon)
        CHECK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, reinterpret_cast<CUstream>(&out), params, nullptr) ==
              CUDA_ERROR_INVALID_HANDLE);

    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    CHECK(cuLaunchKernelEx(nullptr, store, params, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_SUCCESS);
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CUlaunchAttribute attribute = {};
    config.attrs = &attribute;
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_SUCCESS);
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {2, 1, 1};
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_ERROR_INVALID_CLUSTER_SIZE);   // grid 1, cluster 2
    if (!on_silicon)
        CHECK(std::string(ptxemu_last_error()).find(": grid 1,1,1 is not a multiple of the cluster 2,1,1 (") !=
              std::string::npos);
    attribute.value.clusterDim = {16, 1, 1};
    config.gridDimX = 16;
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim = {1, 0, 1};
    CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CUlaunchAttribute two[2] = {};   // a regular and a preferred cluster
    two[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    two[0].value.clusterDim = {2, 1, 1};
    two[1].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    config.attrs = two;
    config.numAttrs = 2;
    const struct {
        unsigned x, z;
        CUresult expected;
    } preferred[] = {{4, 1, CUDA_SUCCESS},
                     {2, 1, CUDA_SUCCESS},
                     {3, 1, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                     {6, 1, CUDA_ERROR_INVALID_CLUSTER_SIZE},   // the grid is 16
                     {4, 2, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                     {0, 1, CUDA_ERROR_INVALID_CLUSTER_SIZE}};
    for (const auto& c : preferred) {
        two[1].value.preferredClusterDim = {c.x, 1, c.z};
        CHECK(cuLaunchKernelEx(&config, store, params, nullptr) == c.expected);
    }
    uint32_t word = 0;
    CHECK(cuMemcpyDtoH(&word, out, 4) == CUDA_SUCCESS);
    CHECK(word == 7);
}

namespace {

// Every thread adds 1 to the first word and waits until all have; the second word is what the last one saw. In a
// cooperative launch %envreg1 and %envreg2 hold the address of the grid's workspace, which is the third word's test.
const char kMeeting[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry meeting(.param .u64 where, .param .u32 ctas)
{
    .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %l<4>;
    ld.param.u64 %l0, [where];
    ld.param.u32 %r0, [ctas];
    atom.acq_rel.gpu.global.add.u32 %r1, [%l0], 1;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%l0];
    setp.lt.u32 %p0, %r2, %r0;
    @%p0 bra WAIT;
    st.global.u32 [%l0+4], %r2;
    mov.u32 %r3, %envreg1;
    mov.u32 %r4, %envreg2;
    or.b32 %r3, %r3, %r4;
    setp.ne.u32 %p1, %r3, 0;
    selp.u32 %r3, 1, 0, %p1;
    st.global.u32 [%l0+8], %r3;
    ret;
}
.visible .entry pairs(.param .u64 where)
.reqnctapercluster 2, 1, 1
{
    .reg .b32 %r<4>; .reg .b64 %l<4>;
    ld.param.u64 %l0, [where];
    mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %l1, %r1, 4, %l0;
    st.global.u32 [%l1], %r0;
    ret;
}
)";

}   // namespace

TEST_CASE("cooperative launches: all CTAs are resident, and too many are refused") {
    Fixture x;
    const CUmodule module = x.load(kMeeting);
    const CUfunction f = x.function(module, "meeting");
    CUdeviceptr where = x.allocate(12);
    int per_sm = 0, sms = 0, cooperative = 0;
    REQUIRE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, f, 1, 0) == CUDA_SUCCESS);
    REQUIRE(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == CUDA_SUCCESS);
    REQUIRE(cuDeviceGetAttribute(&cooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0) == CUDA_SUCCESS);
    CHECK(cooperative == 1);
    for (uint32_t ctas : {1u, 40u, static_cast<uint32_t>(per_sm * sms)}) {
        CHECK(cuMemsetD32(where, 0, 3) == CUDA_SUCCESS);
        void* params[] = {&where, &ctas};
        CHECK(cuLaunchCooperativeKernel(f, ctas, 1, 1, 1, 1, 1, 0, nullptr, params) == CUDA_SUCCESS);
        uint32_t words[3] = {};
        CHECK(cuMemcpyDtoH(words, where, sizeof words) == CUDA_SUCCESS);
        CHECK(words[1] == ctas);
        CHECK(words[2] == 1);
    }
    uint32_t many = static_cast<uint32_t>(per_sm * sms) + 1;
    void* params[] = {&where, &many};
    CHECK(cuLaunchCooperativeKernel(f, many, 1, 1, 1, 1, 1, 0, nullptr, params) ==
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config = {};
    config.gridDimX = many;
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, f, params, nullptr) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_CASE("clusters: launched with the attribute or as the kernel says; how many fit") {
    Fixture x;
    const CUmodule module = x.load(kMeeting);
    const CUfunction pairs = x.function(module, "pairs"), meeting = x.function(module, "meeting");
    CUdeviceptr where = x.allocate(24);
    void* params[] = {&where};
    CHECK(cuLaunchKernel(pairs, 6, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr) == CUDA_SUCCESS);
    uint32_t ranks[6] = {};
    CHECK(cuMemcpyDtoH(ranks, where, sizeof ranks) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < 6; ++i) CHECK(ranks[i] == i % 2);
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    CUlaunchConfig config = {};
    config.gridDimX = 64;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 1024;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int last = 1 << 30;
    for (unsigned size : {1u, 2u, 4u, 8u}) {
        attribute.value.clusterDim = {size, 1, 1};
        int clusters = 0;
        CHECK(cuOccupancyMaxActiveClusters(&clusters, meeting, &config) == CUDA_SUCCESS);
        CHECK(clusters > 0);
        CHECK(clusters < last);
        last = clusters;
    }
    attribute.value.clusterDim = {16, 1, 1};
    int size = 0;
    CHECK(cuOccupancyMaxActiveClusters(&size, meeting, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    config.numAttrs = 0;
    CHECK(cuOccupancyMaxPotentialClusterSize(&size, meeting, &config) == CUDA_SUCCESS);
    CHECK(size == 8);
    CHECK(cuFuncSetAttribute(meeting, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) == CUDA_SUCCESS);
    CHECK(cuOccupancyMaxPotentialClusterSize(&size, meeting, &config) == CUDA_SUCCESS);
    CHECK(size == 16);
}

namespace {

// After a fault nothing works in this process any more, in no context.
void check_broken_by(const char* kernel, CUdeviceptr where, CUresult expected) {
    CUcontext other = nullptr, current = nullptr;
    CUdeviceptr q = 0;
    CUstream stream = nullptr;
    CUmodule again = nullptr;
    CUfunction f = nullptr;
    size_t free_bytes = 0, total = 0;
    int value = 0;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&other, nullptr, 0, 0) == CUDA_SUCCESS);
    Fixture x;
    const CUmodule module = x.load(kPtx);
    const CUfunction faulty = x.function(module, kernel), trapped = x.function(module, "trapped");
    const CUdeviceptr p = x.allocate(64);
    if (where >= 32) where = p + where;   // small values are addresses near null
    void* params[] = {&where};
    CUresult outcome = launch(faulty, 1, 0, params);
    if (outcome == CUDA_SUCCESS) outcome = cuCtxSynchronize();   // silicon tells later
    CHECK(outcome == expected);
    CHECK(cuCtxSynchronize() == expected);
    CHECK(launch(trapped, 1, 0, nullptr) == expected);
    CHECK(cuMemAlloc(&q, 4) == expected);
    CHECK(cuMemFree(p) == expected);
    CHECK(cuMemcpyDtoD(p, p, 4) == expected);
    CHECK(cuMemcpyHtoD(p, &value, 4) == expected);
    CHECK(cuMemsetD8(p, 0, 4) == expected);
    CHECK(cuStreamSynchronize(nullptr) == expected);
    CHECK(cuStreamCreate(&stream, 0) == expected);
    CHECK(cuModuleLoadData(&again, kPtx) == expected);
    CHECK(cuModuleUnload(module) == expected);
    CHECK(cuMemGetInfo(&free_bytes, &total) == expected);
    CHECK(cuModuleGetFunction(&f, module, "params") == expected);
    CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, faulty) == expected);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == x.context);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(other) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == expected);
    CHECK(cuMemAlloc(&q, 4) == expected);
    CHECK(cuCtxCreate(&current, nullptr, 0, 0) == expected);
    CHECK(cuDevicePrimaryCtxRetain(&current, 0) == expected);
    CHECK(cuCtxDestroy(other) == CUDA_SUCCESS);
}

}   // namespace

TEST_CASE("alone: illegal address", "[.][alone]") {
    arrived();
    check_broken_by("store_to", 16, CUDA_ERROR_ILLEGAL_ADDRESS);
}
TEST_CASE("alone: past the end", "[.][alone]") {   // which silicon lets pass within its page
    arrived();
    check_broken_by("store_to", 64, CUDA_ERROR_ILLEGAL_ADDRESS);
}
TEST_CASE("alone: misaligned", "[.][alone]") {
    arrived();
    check_broken_by("store_to", 34, CUDA_ERROR_MISALIGNED_ADDRESS);
}
TEST_CASE("alone: trap", "[.][alone]") {
    arrived();
    check_broken_by("trapped", 0, CUDA_ERROR_LAUNCH_FAILED);
}

TEST_CASE("a fault breaks the process", "[driver]") {
    CHECK(passes_alone("alone: illegal address", {}));
    CHECK(passes_alone("alone: past the end", {}));
    CHECK(passes_alone("alone: misaligned", {}));
    CHECK(passes_alone("alone: trap", {}));
}

TEST_CASE("tensor maps are checked and encoded", "[driver]") {
    Fixture x;
    alignas(64) CUtensorMap map[2];
    const cuuint64_t dims[3] = {128, 64, 10}, strides[2] = {128, 8448};
    const cuuint32_t box[3] = {128, 64, 1}, steps[3] = {1, 1, 1};
    const CUdeviceptr p = x.allocate(8448 * 10);
    const auto encode = [&](CUtensorMap* out, cuuint32_t rank, CUdeviceptr address, const cuuint64_t* sizes) {
        return cuTensorMapEncodeTiled(out, CU_TENSOR_MAP_DATA_TYPE_UINT8, rank, reinterpret_cast<void*>(address), sizes,
                                      strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    CHECK(encode(map, 3, p, dims) == CUDA_SUCCESS);
    CHECK(encode(nullptr, 3, p, dims) == CUDA_ERROR_INVALID_VALUE);
    CHECK(encode(reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(map) + 16), 3, p, dims) == CUDA_SUCCESS);
    CHECK(encode(map, 6, p, dims) == CUDA_ERROR_INVALID_VALUE);
    CHECK(encode(map, 0, p, dims) == CUDA_ERROR_INVALID_VALUE);
    CHECK(encode(map, 3, p + 8, dims) == CUDA_ERROR_INVALID_VALUE);
    CHECK(encode(map, 3, p, nullptr) == CUDA_ERROR_INVALID_VALUE);
    const cuuint64_t zero[3] = {128, 0, 10};
    CHECK(encode(map, 3, p, zero) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("entry points by name and version", "[driver]") {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status;
    const auto find = [&](const char* name, int version) {
        REQUIRE(cuGetProcAddress(name, &function, version, 0, &status) == CUDA_SUCCESS);
        return function;
    };
    CHECK(find("cuMemAlloc", 13000) == reinterpret_cast<void*>(&cuMemAlloc_v2));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(find("cuCtxCreate", 13000) == reinterpret_cast<void*>(&cuCtxCreate_v4));
    CHECK(find("cuCtxCreate", 12000) != reinterpret_cast<void*>(&cuCtxCreate_v4));
    CHECK(function != nullptr);
    CHECK(find("cuLaunchKernelEx", 4000) == nullptr);
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CHECK(find("cuNothing", 13000) == nullptr);
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    if (!on_silicon) CHECK(cuGetProcAddress(nullptr, &function, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("alone: add", "[.][alone]") {
    arrived();
    std::vector<float> values;
    REQUIRE(load_and_add(192, &values));
    CHECK(values[0] == 1.5f);
    CHECK(values[191] == 1.5f);
}

TEST_CASE("alone: no launch", "[.][alone]") {
    arrived();
    CHECK(cuInit(0) == CUDA_SUCCESS);
}

TEST_CASE("alone: no file for counts", "[.][alone]") {
    arrived();
    CHECK(cuInit(0) == CUDA_ERROR_OPERATING_SYSTEM);
}

TEST_CASE("alone: counts cannot be written", "[.][alone]") {
    arrived();
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    const char* path = std::getenv("PTXEMU_STATS");
    REQUIRE((std::remove(path) == 0 && mkdir(path, 0700) == 0));
    std::vector<float> values;
    CHECK(!load_and_add(192, &values));
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(rmdir(path) == 0);
}

TEST_CASE("PTXEMU_STATS counts what ran", "[driver]") {
    const std::string path = temporary("stats");
    CHECK(passes_alone("alone: add", {{"PTXEMU_STATS", path}}));
    const std::string json = file_text(path);
    std::remove(path.c_str());
    INFO(json);
    CHECK(json.find("\"launches\": 1,") != std::string::npos);
    CHECK(json.find("\"ctas\": 3,") != std::string::npos);
    // 3 blocks of 2 warps, each thread adds once.
    const size_t warps = json.find("\"warp_counts\""), threads = json.find("\"thread_counts\"");
    REQUIRE(threads != std::string::npos);
    CHECK(json.find("\"add.f32\": 6", warps) < threads);
    CHECK(json.find("\"add.f32\": 192", threads) != std::string::npos);
    CHECK(passes_alone("alone: no launch", {{"PTXEMU_STATS", path}}));
    const std::string zeros = file_text(path);
    CHECK(zeros.find("\"launches\": 0,") != std::string::npos);
    CHECK(zeros.find("\"warp_counts\": {}") != std::string::npos);
    CHECK(passes_alone("alone: no file for counts", {{"PTXEMU_STATS", "/dev/full"}}));
    CHECK(passes_alone("alone: counts cannot be written", {{"PTXEMU_STATS", path}}));
}

// Warp 1 reads Tensor Memory through an address with its own lanes, then through one with warp 0's.
constexpr char kQuarters[] = R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry quarters() {
  .reg .b32 %r<6>; .reg .pred %p<2>;
  .shared .align 4 .b32 base;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra READY;
  mov.u32 %r2, base;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
READY:
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r3, [base];
  and.b32 %r4, %r1, 32;
  shl.b32 %r4, %r4, 16;
  add.u32 %r4, %r4, %r3;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r4];
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3];
  tcgen05.wait::ld.sync.aligned;
  bar.sync 0;
  @%p1 bra END;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
END:
  ret;
}
)";

TEST_CASE("alone: foreign quarter", "[.][alone]") {
    arrived();
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction f = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module, kQuarters) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&f, module, "quarters") == CUDA_SUCCESS);
    CHECK(cuLaunchKernel(f, 3, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("PTXEMU_CHECK warns once of an instruction that relies on ignored address bits", "[driver]") {
    const std::string path = temporary("stats");
    for (const char* seed : {"0", "7"}) {
        CHECK(passes_alone("alone: foreign quarter", {{"PTXEMU_STATS", path}, {"PTXEMU_SEED", seed}}));
        CHECK(file_text(path).find("\"warnings\": 0,") != std::string::npos);
        CHECK(passes_alone("alone: foreign quarter",
                           {{"PTXEMU_STATS", path}, {"PTXEMU_SEED", seed}, {"PTXEMU_CHECK", "1"}}));
        CHECK(file_text(path).find("\"warnings\": 1,") != std::string::npos);
    }
    std::remove(path.c_str());
}

TEST_CASE("alone: subtract instead", "[.][alone]") {
    arrived();
    std::vector<float> values;
    REQUIRE(load_and_add(192, &values));
    CHECK(values[0] == 0.5f);
    CUmodule other = nullptr;
    CUfunction f = nullptr;
    CHECK(cuModuleLoadData(&other, kPtx) == CUDA_SUCCESS);   // other kernels: runs as it is
    CHECK(cuModuleGetFunction(&f, other, "params") == CUDA_SUCCESS);
}

TEST_CASE("alone: no module loads", "[.][alone]") {
    arrived();
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
    CHECK(cuModuleLoadData(&module, kSampleAdd) == CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_CASE("PTXEMU_PTX replaces a module that defines the same kernels", "[driver]") {
    const std::string path = temporary("edited.ptx");
    std::string edited = kSampleAdd;
    const size_t at = edited.find("add.f32");
    REQUIRE(at != std::string::npos);
    edited.replace(at, 7, "sub.f32");
    std::ofstream(path) << edited;
    CHECK(passes_alone("alone: subtract instead", {{"PTXEMU_PTX", path}}));
    std::remove(path.c_str());
    // Missing, a directory, a file without an end.
    for (const std::string& bad : {path, std::string("/"), std::string("/dev/zero")})
        CHECK(passes_alone("alone: no module loads", {{"PTXEMU_PTX", bad}}));
}

TEST_CASE("memory pools", "[driver]") {
    CUcontext context = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CUmemoryPool standard = nullptr, pool = nullptr, now = nullptr;
    CHECK(cuDeviceGetDefaultMemPool(&standard, 0) == CUDA_SUCCESS);
    CHECK(cuDeviceGetDefaultMemPool(&standard, 7) == CUDA_ERROR_INVALID_DEVICE);
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    CHECK(pool != standard);
    cuuint64_t threshold = 1 << 20, read = 1;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read) == CUDA_SUCCESS);
    CHECK(read == 0);
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read) == CUDA_SUCCESS);
    CHECK(read == threshold);
    CHECK(cuDeviceSetMemPool(0, pool) == CUDA_SUCCESS);
    CHECK(cuDeviceGetMemPool(&now, 0) == CUDA_SUCCESS);
    CHECK(now == pool);
    CUdeviceptr address = 0;
    REQUIRE(cuMemAllocFromPoolAsync(&address, 256, pool, nullptr) == CUDA_SUCCESS);
    uint32_t word = 0;
    CHECK(cuMemsetD32(address, 77, 64) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(&word, address + 252, 4) == CUDA_SUCCESS);
    CHECK(word == 77);
    CHECK(cuMemFreeAsync(address, nullptr) == CUDA_SUCCESS);
    CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
    CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
    CHECK(cuDeviceGetMemPool(&now, 0) == CUDA_SUCCESS);
    CHECK(now == standard);
    if (!on_silicon) {   // undefined behaviour there
        CHECK(cuMemPoolDestroy(standard) == CUDA_ERROR_INVALID_VALUE);
        CHECK(cuMemAllocFromPoolAsync(&address, 256, pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
    }
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
}

TEST_CASE("memory that host and device share, mapped memory, libraries and the linker", "[driver]") {
    CUcontext context = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    static const char kPtx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry put(.param .u64 p)\n{\n.reg .b64 %l<2>;\nld.param.u64 %l0, [p];\n"
                               "st.global.u32 [%l0], 42;\nret;\n}\n";
    CUlinkState link = nullptr;
    REQUIRE(cuLinkCreate(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
    REQUIRE(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), sizeof kPtx, "put", 0, nullptr, nullptr) ==
            CUDA_SUCCESS);
    void* image = nullptr;
    size_t bytes = 0;
    REQUIRE(cuLinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    REQUIRE(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0) == CUDA_SUCCESS);
    CHECK(cuLinkDestroy(link) == CUDA_SUCCESS);
    REQUIRE(cuLibraryGetKernel(&kernel, library, "put") == CUDA_SUCCESS);
    const auto put = [&](CUdeviceptr address) {
        void* params[] = {&address};
        return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
    };

    CUdeviceptr managed = 0;
    REQUIRE(cuMemAllocManaged(&managed, 4, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    CHECK(put(managed) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(*reinterpret_cast<uint32_t*>(managed) == 42);
    CHECK(cuMemFree(managed) == CUDA_SUCCESS);

    alignas(4096) static uint32_t own[1024] = {};
    REQUIRE(cuMemHostRegister(own, sizeof own, 0) == CUDA_SUCCESS);
    CHECK(cuMemHostRegister(own, sizeof own, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK(put(reinterpret_cast<CUdeviceptr>(own)) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(own[0] == 42);
    CHECK(cuMemHostUnregister(own) == CUDA_SUCCESS);

    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t granularity = 0;
    REQUIRE(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle physical[2];
    REQUIRE(cuMemAddressReserve(&range, 2 * granularity, 0, 0, 0) == CUDA_SUCCESS);
    for (unsigned i = 0; i < 2; ++i) {
        REQUIRE(cuMemCreate(&physical[i], granularity, &properties, 0) == CUDA_SUCCESS);
        REQUIRE(cuMemMap(range + i * granularity, granularity, 0, physical[i], 0) == CUDA_SUCCESS);
        CHECK(cuMemRelease(physical[i]) == CUDA_SUCCESS);
    }
    CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REQUIRE(cuMemSetAccess(range, 2 * granularity, &access, 1) == CUDA_SUCCESS);
    CHECK(cuMemsetD8(range, 1, 2 * granularity) == CUDA_SUCCESS);   // across the two
    CHECK(put(range + granularity) == CUDA_SUCCESS);
    uint32_t word = 0;
    CHECK(cuMemcpyDtoH(&word, range + granularity, 4) == CUDA_SUCCESS);
    CHECK(word == 42);
    CHECK(cuMemUnmap(range, 2 * granularity) == CUDA_SUCCESS);
    CHECK(cuMemAddressFree(range, 2 * granularity) == CUDA_SUCCESS);
    CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
}

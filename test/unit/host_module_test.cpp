// SPDX-License-Identifier: Apache-2.0
#include "catch_any.h"

#include <cstring>
#include <string>
#include <vector>

#include "fake_driver.h"
#include "host/module.h"
#include "host/status.h"

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

lidx::Driver fake_table() {
    lidx::Driver driver;
    std::string error;
    REQUIRE(lidx::load_driver(fake_driver_path().c_str(), &driver, &error));
    return driver;
}

std::vector<unsigned char> bytes_of(const char* source) {
    const lidx::Fatbin fatbin = lidx::embedded_fatbin(source);
    const auto* begin = static_cast<const unsigned char*>(fatbin.bytes);
    return {begin, begin + fatbin.size_bytes};
}

lidx::Failure failure_of(lidx::Kernels& kernels, const std::vector<unsigned char>& bytes) {
    try {
        kernels.load({"sm100_score", bytes.data(), bytes.size()}, 100);
    } catch (const lidx::Failure& failure) {
        return failure;
    }
    return {LIDX_OK, ""};
}

}  // namespace

TEST_CASE("module: every kernel source has an embedded fatbin whose header spans it") {
    for (const lidx::KernelRow& row : lidx::kernel_rows()) {
        CAPTURE(row.source);
        const std::vector<unsigned char> bytes = bytes_of(row.source);
        uint64_t payload_bytes = 0;
        REQUIRE(bytes.size() > 16);
        std::memcpy(&payload_bytes, bytes.data() + 8, 8);
        CHECK(bytes.size() == 16 + payload_bytes);
        CHECK(reinterpret_cast<uintptr_t>(lidx::embedded_fatbin(row.source).bytes) % 16 == 0);
    }
    for (const lidx::CacheKernelRow& row : lidx::kCacheKernels) CHECK(bytes_of(row.source).size() > 16);
    CHECK_THROWS_AS(lidx::embedded_fatbin("sm110_score"), lidx::Failure);
}

constexpr int kCommonModules = 5;   // store, gather, query, top-k and its merge run on every device
constexpr int kTopkMerges = 1;
constexpr int kSharedBytes = 101376;   // what the device is said to give a CTA

TEST_CASE("module: a device gets the modules it can run, and shared memory is set once") {
    const lidx::Driver driver = fake_table();
    const struct {
        int capability, modules, functions, topk, topk_clusters;
    } cases[] = {{100, 5, 19, 10, 6}, {103, 5, 19, 10, 6}, {90, 8, 19, 10, 6}, {80, 1, 1, 2, 0}, {120, 3, 1, 10, 0}};
    for (const auto& row : cases) {
        CAPTURE(row.capability);
        fake_reset();
        driver.cuCtxPushCurrent(fake_primary_context());
        {
            const lidx::Kernels kernels(driver, row.capability, kSharedBytes);
            CHECK(fake().modules_loaded == row.modules + kCommonModules);
            CHECK(fake().function_count ==
                  row.functions + static_cast<int>(lidx::kCacheKernelCount) + row.topk + kTopkMerges);
            const auto* merge = reinterpret_cast<const FakeFunction*>(kernels.topk_merge());
            REQUIRE(merge != nullptr);
            CHECK(std::string(merge->name) == "topk_merge");
            CHECK(merge->max_dynamic_shared_bytes == 0);
            for (size_t i = 0; i < lidx::kTopkKernelCount; ++i) {
                const auto* function =
                    reinterpret_cast<const FakeFunction*>(kernels[static_cast<lidx::TopkKernel>(i)]);
                CHECK((function != nullptr) == runs_on(lidx::kTopkKernels[i], row.capability));
                if (function == nullptr) continue;
                CHECK(std::string(function->name) == lidx::kTopkKernels[i].symbol);
                CHECK((function->non_portable_clusters == 1) ==
                      (lidx::kTopkKernels[i].clusters && row.topk_clusters > 0));
                CHECK(function->max_dynamic_shared_bytes == kSharedBytes);
            }
            for (size_t i = 0; i < lidx::kCacheKernelCount; ++i) {
                const auto* function =
                    reinterpret_cast<const FakeFunction*>(kernels[static_cast<lidx::CacheKernel>(i)]);
                REQUIRE(function != nullptr);
                CHECK(std::string(function->name) == lidx::kCacheKernels[i].symbol);
                CHECK(function->max_dynamic_shared_bytes == 0);
            }
            for (size_t i = 0; i < lidx::kKernelCount; ++i) {
                const lidx::KernelRow& kernel = lidx::kernel_rows()[i];
                CHECK((kernels[i].function != nullptr) == lidx::runs_on(kernel, row.capability));
                if (kernels[i].function == nullptr) continue;
                const auto* function = reinterpret_cast<const FakeFunction*>(kernels[i].function);
                CHECK(std::string(function->name) == kernel.symbol);
                CHECK(function->max_dynamic_shared_bytes == kernel.shared_bytes);
                CHECK(kernels[i].registers == 77);
            }
            CHECK(fake().calls_of(FakeCall::k_cuFuncSetAttribute) ==
                  row.functions - 1 + row.topk + row.topk_clusters);  // the generic kernel needs none
            if (row.functions == 1) CHECK(fake().images[0] == lidx::embedded_fatbin("generic_score").bytes);
        }
        CHECK(fake().modules_loaded == 0);
    }
}

TEST_CASE("module: a corrupt fatbin is refused before the driver sees it") {
    fake_reset();
    const lidx::Driver driver = fake_table();
    driver.cuCtxPushCurrent(fake_primary_context());
    lidx::Kernels kernels(driver);
    const std::vector<unsigned char> good = bytes_of("sm100_score");

    const auto refused = [&](const std::vector<unsigned char>& bytes, const std::string& part) {
        const lidx::Failure failure = failure_of(kernels, bytes);
        CHECK(failure.status == LIDX_ERR_MODULE);
        CHECK(contains(failure.text, "fatbin of sm100_score"));
        CHECK(contains(failure.text, part));
    };
    refused({}, "0 bytes are shorter than its header of 16");
    refused({good.begin(), good.begin() + 15}, "15 bytes are shorter");
    refused({good.begin(), good.end() - 1}, "bytes after its header, there are");
    refused({good.begin(), good.begin() + 16}, "bytes after its header, there are 0");
    for (size_t byte = 0; byte < 8; ++byte) {
        std::vector<unsigned char> bytes = good;
        bytes[byte] ^= 0x40;
        refused(bytes, "its first 8 bytes are not those of a fat binary");
    }
    std::vector<unsigned char> huge = good;
    std::memset(huge.data() + 8, 0xff, 8);
    refused(huge, "claims 18446744073709551615 bytes");
    refused(std::vector<unsigned char>(4096, 0), "its first 8 bytes");
    CHECK(fake().calls_of(FakeCall::k_cuModuleLoadData) == 0);

    CHECK(failure_of(kernels, good).status == LIDX_OK);
    CHECK(fake().modules_loaded == 1);
}

TEST_CASE("module: what the driver refuses is LIDX_ERR_MODULE, and nothing stays loaded") {
    const lidx::Driver driver = fake_table();
    const struct {
        FakeCall call;
        int after;
        const char* part;
    } cases[] = {
        {FakeCall::k_cuModuleLoadData, 0,
         "fatbin of sm100_wide on compute capability 10.0: cuModuleLoadData: CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {FakeCall::k_cuModuleLoadData, 1, "fatbin of sm100_score on compute capability 10.0: cuModuleLoadData"},
        {FakeCall::k_cuModuleLoadData, 2, "fatbin of generic_score on compute capability 10.0: cuModuleLoadData"},
        {FakeCall::k_cuModuleGetFunction, 2, "cuModuleGetFunction of sm100_score_h64"},
        {FakeCall::k_cuModuleGetFunction, 18, "cuModuleGetFunction of generic_score"},
        {FakeCall::k_cuModuleGetFunction, 20, "cuModuleGetFunction of cache_store_pages"},
        {FakeCall::k_cuModuleGetFunction, 23,
         "fatbin of topk on compute capability 10.0: cuModuleGetFunction of topk_fp32"},
        {FakeCall::k_cuModuleGetFunction, 25, "cuModuleGetFunction of topk_held_fp32"},
        {FakeCall::k_cuModuleGetFunction, 33, "cuModuleGetFunction of topk_merge"},
        {FakeCall::k_cuFuncGetAttribute, 3, "cuFuncGetAttribute NUM_REGS of sm100_score_h64_t1"},
        {FakeCall::k_cuFuncSetAttribute, 2, "cuFuncSetAttribute MAX_DYNAMIC_SHARED_SIZE_BYTES"},
    };
    for (const auto& row : cases) {
        CAPTURE(row.part);
        fake_reset();
        fake().fail_call = row.call;
        fake().fail_after = row.after;
        fake().fail_result = CUDA_ERROR_ILLEGAL_ADDRESS;
        driver.cuCtxPushCurrent(fake_primary_context());
        try {
            const lidx::Kernels kernels(driver, 100, kSharedBytes);
            FAIL("the failing call went unnoticed");
        } catch (const lidx::Failure& failure) {
            CHECK(failure.status == LIDX_ERR_MODULE);
            CHECK(failure.driver_result == 700);
            CHECK(contains(failure.text, row.part));
        }
        CHECK(fake().modules_loaded == 0);
    }
}

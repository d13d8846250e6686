// SPDX-License-Identifier: Apache-2.0
// The emulator's tensor-map checks against the CUDA driver of this machine (--setup=gpu; without a GPU there is nothing
// to compare).
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "tools/ptxemu/tensor_map.h"
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

using namespace ptxemu;

namespace {

struct Driver {
    decltype(&cuTensorMapEncodeTiled) encode = nullptr;
    int compute_capability = 0;

    bool open() {
        const char* wanted = std::getenv("LIDX_TEST_DRIVER");
        if (wanted == nullptr || std::string(wanted) != "cuda") return false;
        void* library = dlopen("libcuda.so.1", RTLD_NOW);
        REQUIRE(library != nullptr);
        auto symbol = [&](const char* name) {
            void* address = dlsym(library, name);
            REQUIRE(address != nullptr);
            return address;
        };
        CUdevice device = 0;
        CUcontext context = nullptr;
        REQUIRE(reinterpret_cast<decltype(&cuInit)>(symbol("cuInit"))(0) == CUDA_SUCCESS);
        REQUIRE(reinterpret_cast<decltype(&cuDeviceGet)>(symbol("cuDeviceGet"))(&device, 0) == CUDA_SUCCESS);
        REQUIRE(reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(symbol("cuDevicePrimaryCtxRetain"))(
                    &context, device) == CUDA_SUCCESS);
        REQUIRE(reinterpret_cast<decltype(&cuCtxSetCurrent)>(symbol("cuCtxSetCurrent"))(context) == CUDA_SUCCESS);
        const auto attribute = reinterpret_cast<decltype(&cuDeviceGetAttribute)>(symbol("cuDeviceGetAttribute"));
        int major = 0, minor = 0;
        REQUIRE(attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS);
        REQUIRE(attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS);
        compute_capability = 10 * major + minor;
        encode = reinterpret_cast<decltype(encode)>(symbol("cuTensorMapEncodeTiled"));
        return true;
    }

    bool accepts(const TensorMapArgs& a) const {
        alignas(64) CUtensorMap map;
        cuuint64_t dims[5], strides[4];
        std::copy(a.dims, a.dims + 5, dims);
        std::copy(a.strides, a.strides + 4, strides);
        return encode(&map, static_cast<CUtensorMapDataType>(a.data_type), a.rank, reinterpret_cast<void*>(a.address),
                      dims, strides, a.box, a.element_strides, static_cast<CUtensorMapInterleave>(a.interleave),
                      static_cast<CUtensorMapSwizzle>(a.swizzle), static_cast<CUtensorMapL2promotion>(a.l2_promotion),
                      static_cast<CUtensorMapFloatOOBfill>(a.oob_fill)) == CUDA_SUCCESS;
    }
};

TensorMapArgs key_map(uint64_t address, uint64_t page_size, uint64_t page_stride, uint64_t pages) {
    TensorMapArgs a;
    a.rank = 3, a.address = address, a.swizzle = 3;
    a.dims[0] = 128, a.dims[1] = page_size, a.dims[2] = pages;
    a.strides[0] = 128, a.strides[1] = page_stride;
    a.box[0] = 128, a.box[1] = static_cast<uint32_t>(std::min<uint64_t>(page_size, 128)), a.box[2] = 1;
    std::fill(a.element_strides, a.element_strides + 5, 1u);
    return a;
}

}  // namespace

TEST_CASE("the driver and the emulator accept the same tensor maps", "[tensor_map]") {
    Driver driver;
    if (!driver.open()) return;
    std::mt19937_64 random(12);
    auto below = [&](uint64_t limit) { return random() % limit; };
    const uint64_t base = 0x7f0000000000;
    int accepted = 0, compared = 0;
    auto compare = [&](const TensorMapArgs& a) {
        std::string why;
        const bool ours = tensor_map_check(a, &why, driver.compute_capability), theirs = driver.accepts(a);
        INFO("type " << a.data_type << " rank " << a.rank << " interleave " << a.interleave << " swizzle " << a.swizzle
                     << " box " << a.box[0] << " " << a.box[1] << " " << a.box[2] << " emulator: " << why);
        if (ours != theirs) CHECK(ours == theirs);
        accepted += theirs;
        ++compared;
    };
    for (uint64_t page_size : {16, 32, 64, 128, 256, 8192, 1 << 20}) {
        const uint64_t packed = page_size * 132;
        for (uint64_t stride : {packed, packed + 16, packed + 8, page_size * 128, uint64_t{1} << 40}) {
            for (uint64_t pages : {uint64_t{1}, uint64_t{300000}, uint64_t{1} << 32, (uint64_t{1} << 32) + 1}) {
                for (uint64_t off : {0, 8, 16}) compare(key_map(base + off, page_size, stride, pages));
            }
        }
    }
    for (int round = 0; round < 20000; ++round) {
        TensorMapArgs a = key_map(base + (below(6) == 0 ? below(64) : 0), 64, 8448, 100);
        a.rank = static_cast<uint32_t>(below(20) == 0 ? below(8) : 1 + below(5));
        a.data_type = static_cast<uint32_t>(below(10) == 0 ? below(17) : below(13));
        a.swizzle = static_cast<uint32_t>(below(8));
        a.interleave = static_cast<uint32_t>(below(5) == 0 ? below(4) : 0);
        if (a.interleave == 2) a.swizzle = 1;                    // the one rule that the driver does not enforce
        a.l2_promotion = static_cast<uint32_t>(below(30) == 0 ? 4 : below(4));
        a.oob_fill = static_cast<uint32_t>(below(8) == 0 ? below(3) : 0);
        const int bits = std::max(4, tensor_data_type_bits(a.data_type));
        const uint64_t granules = std::min<uint64_t>(256, (1 + below(8)) * 128 / static_cast<uint64_t>(bits));
        a.box[0] = static_cast<uint32_t>(below(8) == 0 ? below(260) : granules);
        a.dims[0] = below(20) == 0 ? (uint64_t{1} << 32) + below(2) : 128 * below(5);
        for (int d = 0; d < 5; ++d) {
            if (d > 0) a.box[d] = static_cast<uint32_t>(below(12) == 0 ? below(260) : 1 + below(6));
            if (d > 0) a.dims[d] = below(30) == 0 ? below(2) : 1 + below(100);
            a.element_strides[d] = static_cast<uint32_t>(below(6) == 0 ? below(10) : 1);
            if (d < 4) a.strides[d] = below(12) == 0 ? below(1000) : 32 * below(1 << 12);
        }
        compare(a);
    }
    CHECK(accepted > compared / 10);
    CHECK(accepted < compared * 9 / 10);
}

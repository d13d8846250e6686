// SPDX-License-Identifier: Apache-2.0
// Damaged fatbins of lidx itself, given to the emulated driver: a status each time, never a crash. $LIDX_DRIVER names
// it.
#include "catch_any.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "host/driver.h"
#include "host/module.h"
#include "host/status.h"

namespace {

using Bytes = std::vector<unsigned char>;

struct Machine {
    lidx::Driver driver;
    int compute_capability = 0;

    Machine() {
        std::string error;
        const bool loaded = lidx::load_driver(nullptr, &driver, &error);
        INFO(error);
        REQUIRE(loaded);
        CUdevice device = 0;
        CUcontext context = nullptr;
        int major = 0, minor = 0;
        REQUIRE(driver.cuInit(0) == CUDA_SUCCESS);
        REQUIRE(driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS);
        driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
        compute_capability = major * 10 + minor;
        REQUIRE(driver.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
        REQUIRE(driver.cuCtxSetCurrent(context) == CUDA_SUCCESS);
    }
};

Bytes bytes_of(const char* source) {
    const lidx::Fatbin fatbin = lidx::embedded_fatbin(source);
    const auto* begin = static_cast<const unsigned char*>(fatbin.bytes);
    return {begin, begin + fatbin.size_bytes};
}

// LIDX_OK or the status of the failure; the text in *text.
lidx_status load(const Machine& machine, const char* source, const Bytes& bytes, std::string* text) {
    lidx::Kernels kernels(machine.driver);
    text->clear();
    try {
        kernels.load({source, bytes.data(), bytes.size()}, machine.compute_capability);
    } catch (const lidx::Failure& failure) {
        *text = failure.text;
        return failure.status;
    }
    return LIDX_OK;
}

// Where the PTX of a fatbin begins.
size_t ptx_offset(const Bytes& bytes) {
    const std::string text(bytes.begin(), bytes.end());
    const size_t at = text.find(".version");
    REQUIRE(at != std::string::npos);
    return at;
}

}  // namespace

TEST_CASE("corrupt fatbin: what must be refused is refused as LIDX_ERR_MODULE, naming the file") {
    const Machine machine;
    for (const char* source : {"sm100_score", "generic_score"}) {
        CAPTURE(source);
        const Bytes good = bytes_of(source);
        std::string text;
        REQUIRE(load(machine, source, good, &text) == LIDX_OK);
        const size_t ptx = ptx_offset(good);

        const auto refused = [&](const char* what, const Bytes& bytes) {
            CAPTURE(what);
            const lidx_status status = load(machine, source, bytes, &text);
            CAPTURE(text);
            CHECK(status == LIDX_ERR_MODULE);
            CHECK(text.find(std::string("fatbin of ") + source) != std::string::npos);
        };
        Bytes bytes = good;
        std::memset(bytes.data() + 16, 0, bytes.size() - 16);
        refused("zeros", bytes);
        bytes = good;
        std::memset(bytes.data() + 16, 0xff, bytes.size() - 16);
        refused("ones", bytes);
        bytes = good;
        std::memcpy(bytes.data() + ptx, ".versiom", 8);
        refused("no .version", bytes);
        bytes = good;
        std::memset(bytes.data() + ptx + 200, '{', 64);
        refused("braces", bytes);
        bytes = good;
        const uint64_t half = (good.size() - 16) / 2;
        std::memcpy(bytes.data() + 8, &half, 8);
        bytes.resize(16 + half);
        refused("cut in half", bytes);

        // Another file's fatbin is well formed and lacks the functions.
        refused("another file", bytes_of(std::strcmp(source, "sm100_score") == 0 ? "generic_score" : "sm100_score"));
    }
}

TEST_CASE("corrupt fatbin: single damaged bytes are harmless, whatever the verdict") {
    const Machine machine;
    const Bytes good = bytes_of("generic_score");
    const size_t ptx = ptx_offset(good);
    std::string text;
    int refused = 0, tried = 0;
    const auto damage = [&](size_t at, unsigned char with) {
        Bytes bytes = good;
        bytes[at] ^= with;
        const lidx_status status = load(machine, "generic_score", bytes, &text);
        CAPTURE(at, static_cast<int>(with), text);
        CHECK((status == LIDX_OK || status == LIDX_ERR_MODULE));
        ++tried;
        refused += status != LIDX_OK;
    };
    for (size_t at = 0; at < 16 + 80; ++at)
        for (const unsigned char with : {0x01, 0x80, 0xff}) damage(at, with);
    for (size_t at = ptx; at < good.size() && at < ptx + 40 * 37; at += 37) damage(at, 0x7f);
    CHECK(tried > 200);
    CHECK(refused > 60);
}

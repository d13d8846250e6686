// SPDX-License-Identifier: Apache-2.0
// What the tests of the cache share: the machine, elements of every type with their values, and pools.
#pragma once
#include <lidx.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/check/check_machine.h"
#include "test/ref/portable_rng.h"
#include "test/ref/quantise_model.h"

namespace cache_test {

using check::GuardedBuffer;
using check::Machine;
using lidx::ref::Rng;

// The emulator that $LIDX_DRIVER names; meson test --setup=gpu: the CUDA driver.
inline std::string driver_library() {
    const char* setup = std::getenv("LIDX_TEST_DRIVER");
    const char* driver = std::getenv("LIDX_DRIVER");
    if ((setup != nullptr && std::string(setup) == "cuda") || driver == nullptr) return "libcuda.so.1";
    return driver;
}

// How often each launch is repeated, to give the same bits each time: LIDX_TEST_RUNS, which --setup=gpu sets.
inline int launches() {
    const char* runs = std::getenv("LIDX_TEST_RUNS");
    return runs != nullptr ? std::atoi(runs) : 1;
}

// One machine for all test cases of a program. It lives until the process ends: a driver library must not be called
// once its own static objects are gone.
inline Machine& machine() {
    static Machine* instance = new Machine(driver_library());
    return *instance;
}

inline constexpr int32_t kElementTypes[] = {LIDX_FP32, LIDX_BF16, LIDX_FP16};
inline uint32_t quantise_flags(bool rotate, bool pow2, bool round = false) {
    return (rotate ? uint32_t{LIDX_FLAG_ROTATE} : 0) | (pow2 ? uint32_t{LIDX_FLAG_POW2_SCALE} : 0) |
           (rotate && round ? uint32_t{LIDX_FLAG_ROTATE_ROUND} : 0);
}
inline lidx::ref::Stored rounding(bool round, int32_t type) {
    return !round              ? lidx::ref::Stored::kFp32
           : type == LIDX_BF16 ? lidx::ref::Stored::kBf16
           : type == LIDX_FP16 ? lidx::ref::Stored::kFp16
                               : lidx::ref::Stored::kFp32;
}

inline size_t element_bytes(int32_t type) { return type == LIDX_FP32 ? 4 : 2; }
inline const char* type_name(int32_t type) {
    return type == LIDX_FP32 ? "fp32" : type == LIDX_BF16 ? "bf16" : "fp16";
}

// Elements as they lie in memory, and as fp32.
class Elements {
public:
    Elements(int32_t type, size_t count) : type_(type), bytes_(count * element_bytes(type), 0xff) {}   // NaN

    // Nearest value of the type, cut toward zero for fp16: the tests take the stored value from at().
    void set(size_t index, float value) {
        if (type_ == LIDX_FP32) {
            std::memcpy(bytes_.data() + index * 4, &value, 4);
            return;
        }
        const uint16_t half = type_ == LIDX_BF16 ? lidx::ref::bf16_encode(value) : fp16_bits(value);
        std::memcpy(bytes_.data() + index * 2, &half, 2);
    }
    void set_bits(size_t index, uint32_t bits) {
        std::memcpy(bytes_.data() + index * element_bytes(type_), &bits, element_bytes(type_));
    }
    float at(size_t index) const {
        if (type_ == LIDX_FP32) {
            float value;
            std::memcpy(&value, bytes_.data() + index * 4, 4);
            return value;
        }
        uint16_t half;
        std::memcpy(&half, bytes_.data() + index * 2, 2);
        return type_ == LIDX_BF16 ? lidx::ref::bf16_decode(half) : lidx::ref::fp16_decode(half);
    }
    int32_t type() const { return type_; }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    static uint16_t fp16_bits(float value) {
        const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
        const double magnitude = std::fabs(static_cast<double>(value));
        if (std::isnan(value)) return 0x7e00;
        if (std::isinf(value)) return sign | 0x7c00;
        if (magnitude >= 65504) return sign | 0x7bff;
        int exponent = 0;
        std::frexp(magnitude, &exponent);   // magnitude in [2^(exponent - 1), 2^exponent)
        if (magnitude == 0 || exponent < -13)
            return static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
        return static_cast<uint16_t>(sign |
                                     (((exponent + 14) << 10) + static_cast<int>(std::ldexp(magnitude, 11 - exponent)) -
                                      1024));
    }
    int32_t type_;
    std::vector<uint8_t> bytes_;
};

// Vectors that try the quantisation; kind counts through them.
inline constexpr uint64_t kVectorKinds = 19;
inline void fill_vector(Elements& elements, size_t first, int depth, uint64_t kind, Rng& rng) {
    const auto put = [&](int i, double value) { elements.set(first + i, static_cast<float>(value)); };
    const auto scale_down = [&](double factor) {
        for (int i = 0; i < depth; ++i) put(i, rng.heavy_tailed() * factor);
    };
    const auto at = [&] { return static_cast<int>(rng.below(depth)); };
    const int exponent = static_cast<int>(rng.between(-6, 5));
    switch (kind % kVectorKinds) {
        case 0: scale_down(1); return;
        case 1:   // nothing, of both signs: scale 1e-4 / 448
            for (int i = 0; i < depth; ++i) put(i, i % 2 != 0 ? 0.0 : -0.0);
            return;
        case 2: scale_down(1e-6); return;   // amax below the clamp
        case 3:                             // the smallest subnormals of the type
            for (int i = 0; i < depth; ++i)
                elements.set_bits(first + i, static_cast<uint32_t>(rng.below(4)) |
                                                 (rng.below(2) != 0 ? elements.type() == LIDX_FP32 ? 1u << 31 : 1u << 15
                                                                    : 0));
            return;
        case 4: scale_down(1e4); return;
        case 5:   // the largest of the type: sums overflow in the rotation
            for (int i = 0; i < depth; ++i) put(i, (rng.below(2) != 0 ? 1 : -1) * (3.0e38 + rng.uniform() * 3e37));
            return;
        case 6:
            scale_down(1);
            put(at(), NAN);
            return;
        case 7:
            scale_down(1);
            put(at(), rng.below(2) != 0 ? INFINITY : -INFINITY);
            return;
        case 8:   // infinities of both signs
            scale_down(1);
            put(0, INFINITY);
            put(depth - 1, -INFINITY);
            return;
        case 9:   // amax = 448 * 2^e: the scale is a power of two, and half the values are ties between two codes
        case 10:  // the same amax one step up: the power of two above
        case 11:  // one step down
            for (int i = 0; i < depth; ++i) {
                const auto code = static_cast<uint8_t>(rng.below(0x7e));
                const double low = lidx::ref::e4m3_decode(code), high = lidx::ref::e4m3_decode(code + 1);
                const double value = i % 2 != 0 ? (low + high) / 2 : low;
                put(i, std::ldexp(rng.below(2) != 0 ? value : -value, exponent));
            }
            put(at(), std::ldexp(448, exponent) * (kind % kVectorKinds == 9    ? 1.0
                                                   : kind % kVectorKinds == 10 ? 1 + 0x1p-7
                                                                               : 1 - 0x1p-8));
            return;
        case 12:   // amax exactly at the clamp, and a little beside it
            scale_down(1e-6);
            put(at(), 1e-4);
            return;
        case 13:
            scale_down(1e-6);
            put(at(), 1e-4 * (rng.below(2) != 0 ? 1 + 1e-2 : 1 - 1e-2));
            return;
        case 14:   // one value alone
            for (int i = 0; i < depth; ++i) put(i, 0);
            put(at(), -rng.uniform() * 100);
            return;
        case 15:   // all the same
            for (int i = 0; i < depth; ++i) put(i, 0.1);
            return;
        case 16:   // any bits at all
            for (int i = 0; i < depth; ++i) elements.set_bits(first + i, static_cast<uint32_t>(rng.next()));
            return;
        case 17:   // quotients that lie just below a tie and are rounded to it, where even is up
        {
            const auto amax = static_cast<float>(1 + rng.uniform());
            const float scale = amax / 448.0f;
            for (int i = 0; i < depth; ++i) {
                const auto code = static_cast<uint8_t>(1 + 2 * rng.below(62));
                const auto tie = static_cast<float>((lidx::ref::e4m3_decode(code) +
                                                     lidx::ref::e4m3_decode(static_cast<uint8_t>(code + 1))) / 2);
                float x = scale * tie;
                for (int tries = 0; tries < 3 && !(static_cast<double>(x) < static_cast<double>(scale) * tie); ++tries)
                    x = std::nextafterf(x, 0);
                put(i, x);
            }
            put(at(), amax);
            return;
        }
        default:   // one outlier: the others end among the subnormal codes
            scale_down(1e-2);
            put(at(), 60);
            return;
    }
}

}  // namespace cache_test

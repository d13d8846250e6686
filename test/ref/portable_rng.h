// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine: 64-bit integer arithmetic (SplitMix64; Steele, Lea, Flood, OOPSLA
// 2014) and IEEE operations only. A generator is named by (seed, stream, index), so that what is drawn for one key does
// not depend on any other.
#pragma once
#include <cmath>
#include <cstdint>

namespace lidx::ref {

class Rng {
  public:
    explicit Rng(uint64_t seed, uint64_t stream = 0, uint64_t index = 0)
        : state_(mix(mix(mix(seed + kStep) + stream + kStep) + index + kStep)) {}

    uint64_t next() { return mix(state_ += kStep); }

    // Uniform integer in [0, n), n >= 1.
    uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
    // Uniform integer in [low, high].
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
    }
    // Uniform in [0, 1).
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

    // Mean 0, variance 1, bell-shaped: eight 16-bit uniforms added up (no libm, so the bits agree everywhere).
    double normal() {
        int64_t sum = -8 * 65535 / 2;
        for (int draw = 0; draw < 2; ++draw) {
            const uint64_t bits = next();
            for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int64_t>((bits >> shift) & 0xffff);
        }
        return static_cast<double>(sum) / 53509.8;   // 65536 * sqrt(8 / 12)
    }
    // Student's t with three degrees of freedom: heavy tails.
    double heavy_tailed() {
        const double x = normal(), a = normal(), b = normal(), c = normal();
        return x / std::sqrt((a * a + b * b + c * c) / 3 + 1e-6);
    }

    static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
    static constexpr uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

  private:
    uint64_t state_;
};

}  // namespace lidx::ref

// SPDX-License-Identifier: Apache-2.0
// The 64-bit mbarrier object as it lies in shared memory, and its transitions (PTX ISA 9.7.13.15, blackwell.md A6).
#pragma once
#include <cstdint>
#include <string>

namespace ptxemu {

// State packed in the 8 bytes at the barrier's address (opaque to kernels, but it must survive being memory):
// phase, expected and pending arrivals (1..2^20-1), tx-count in [-(2^20-1), 2^20-1], plus what tells
// initialised objects from other memory.
struct MbarrierState {
    uint32_t phase = 0;       // parity = phase & 1 (kept modulo 4 or more, as bits allow)
    uint32_t expected = 0, pending = 0;
    int32_t tx = 0;
    bool valid = false;
};
MbarrierState mbarrier_unpack(uint64_t word);
uint64_t mbarrier_pack(const MbarrierState& state);

// The finding that such a text is: "mbarrier-arrival-underflow" ...
const char* mbarrier_code(const std::string& broken);

// Each returns an empty string or what rule was broken (count out of range, tx overflow, arrival underflow, not
// initialised ...). completed tells whether the phase just completed.
std::string mbarrier_init(uint64_t* word, uint32_t count);
std::string mbarrier_inval(uint64_t* word);
// completed (may be null): true where transactions had completed early and the expect-tx was the last thing missing.
std::string mbarrier_expect_tx(uint64_t* word, uint32_t bytes, bool* completed = nullptr);
std::string mbarrier_complete_tx(uint64_t* word, uint32_t bytes, bool* completed);
// arrive; drop also lowers expected. *token is the phase state before the arrive (the state operand).
std::string mbarrier_arrive(uint64_t* word, uint32_t count, bool drop, uint64_t* token, bool* completed);
// The increment of cp.async.mbarrier.arrive without .noinc.
std::string mbarrier_add_pending(uint64_t* word, uint32_t count);
bool mbarrier_test_parity(uint64_t word, uint32_t parity);  // (phase & 1) != parity
bool mbarrier_test_token(uint64_t word, uint64_t token);
uint32_t mbarrier_pending_count(uint64_t token);            // mbarrier.pending_count

}  // namespace ptxemu

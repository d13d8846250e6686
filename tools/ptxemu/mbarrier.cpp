// SPDX-License-Identifier: Apache-2.0
// Word layout (bit 63 down): 0 | phase modulo 4 (2 bits) | expected (20) | pending (20) | tx-count (21, two's
// complement). A word is an initialised object when bit 63 is clear and expected is not zero: zeroed memory is none.
#include "mbarrier.h"

namespace ptxemu {
namespace {

constexpr uint32_t kMaxCount = (1u << 20) - 1;   // PTX ISA 9.7.13.15.2
constexpr int64_t kMaxTx = (1 << 20) - 1;
constexpr int kTxBits = 21, kCountBits = 20;
constexpr int kPendingShift = kTxBits, kExpectedShift = kPendingShift + kCountBits;
constexpr int kPhaseShift = kExpectedShift + kCountBits;

std::string not_initialised(const char* operation) {
    return std::string(operation) + " on memory that holds no initialised mbarrier object";
}

std::string count_out_of_range(const char* operation, uint32_t count) {
    return std::string(operation) + " count " + std::to_string(count) + " is outside 1.." + std::to_string(kMaxCount);
}

// The phase ends when neither arrivals nor transactions are outstanding; the next one starts with the expected count.
bool complete_if_done(MbarrierState& state) {
    if (state.pending != 0 || state.tx != 0) return false;
    state.phase = (state.phase + 1) & 3;
    state.pending = state.expected;
    return true;
}

}  // namespace

MbarrierState mbarrier_unpack(uint64_t word) {
    MbarrierState state;
    state.tx = static_cast<int32_t>(static_cast<uint32_t>(word) << (32 - kTxBits)) >> (32 - kTxBits);
    state.pending = static_cast<uint32_t>(word >> kPendingShift) & kMaxCount;
    state.expected = static_cast<uint32_t>(word >> kExpectedShift) & kMaxCount;
    state.phase = static_cast<uint32_t>(word >> kPhaseShift) & 3;
    state.valid = (word >> 63) == 0 && state.expected != 0 && state.tx >= -kMaxTx;
    return state;
}

uint64_t mbarrier_pack(const MbarrierState& state) {
    if (!state.valid) return 0;
    return (static_cast<uint64_t>(state.phase & 3) << kPhaseShift) |
           (static_cast<uint64_t>(state.expected & kMaxCount) << kExpectedShift) |
           (static_cast<uint64_t>(state.pending & kMaxCount) << kPendingShift) |
           (static_cast<uint32_t>(state.tx) & ((1u << kTxBits) - 1));
}

const char* mbarrier_code(const std::string& broken) {
    const auto says = [&broken](const char* text) { return broken.find(text) != std::string::npos; };
    if (says("no initialised")) return "mbarrier-not-initialised";
    if (says("already holds")) return "mbarrier-reinitialised";
    if (says("pending arrivals")) return "mbarrier-arrival-underflow";
    if (says("tx-count")) return "mbarrier-tx-overflow";
    return "mbarrier-misuse";
}

std::string mbarrier_init(uint64_t* word, uint32_t count) {
    if (count < 1 || count > kMaxCount) return count_out_of_range("mbarrier.init", count);
    if (mbarrier_unpack(*word).valid) {
        return "mbarrier.init on memory that already holds an mbarrier object (mbarrier.inval it first)";
    }
    MbarrierState state;
    state.expected = state.pending = count;
    state.valid = true;
    *word = mbarrier_pack(state);
    return {};
}

std::string mbarrier_inval(uint64_t* word) {
    if (!mbarrier_unpack(*word).valid) return not_initialised("mbarrier.inval");
    *word = 0;
    return {};
}

std::string mbarrier_expect_tx(uint64_t* word, uint32_t bytes, bool* completed) {
    if (completed) *completed = false;
    MbarrierState state = mbarrier_unpack(*word);
    if (!state.valid) return not_initialised("mbarrier.expect_tx");
    const int64_t tx = static_cast<int64_t>(state.tx) + bytes;
    if (tx > kMaxTx) {
        return "mbarrier.expect_tx of " + std::to_string(bytes) + " raises the tx-count from " +
               std::to_string(state.tx) + " above " + std::to_string(kMaxTx);
    }
    state.tx = static_cast<int32_t>(tx);
    // Only early transactions (tx < 0) of a phase whose arrivals are all in can make expect-tx the last event.
    const bool done = bytes != 0 && complete_if_done(state);
    if (completed) *completed = done;
    *word = mbarrier_pack(state);
    return {};
}

std::string mbarrier_complete_tx(uint64_t* word, uint32_t bytes, bool* completed) {
    *completed = false;
    MbarrierState state = mbarrier_unpack(*word);
    if (!state.valid) return not_initialised("complete-tx");
    const int64_t tx = static_cast<int64_t>(state.tx) - bytes;
    if (tx < -kMaxTx) {
        return "complete-tx of " + std::to_string(bytes) + " lowers the tx-count from " + std::to_string(state.tx) +
               " below " + std::to_string(-kMaxTx);
    }
    state.tx = static_cast<int32_t>(tx);
    *completed = complete_if_done(state);
    *word = mbarrier_pack(state);
    return {};
}

std::string mbarrier_arrive(uint64_t* word, uint32_t count, bool drop, uint64_t* token, bool* completed) {
    *completed = false;
    const char* name = drop ? "mbarrier.arrive_drop" : "mbarrier.arrive";
    MbarrierState state = mbarrier_unpack(*word);
    if (!state.valid) return not_initialised(name);
    if (count < 1 || count > kMaxCount) return count_out_of_range(name, count);
    if (count > state.pending) {
        return std::string(name) + " count " + std::to_string(count) + " exceeds the " + std::to_string(state.pending) +
               " pending arrivals of this phase (expected " + std::to_string(state.expected) + ")";
    }
    if (drop && count > state.expected) {
        return std::string(name) + " count " + std::to_string(count) + " exceeds the expected arrival count " +
               std::to_string(state.expected);
    }
    if (token) *token = *word;
    state.pending -= count;
    if (drop) state.expected -= count;
    *completed = complete_if_done(state);
    *word = mbarrier_pack(state);
    return {};
}

std::string mbarrier_add_pending(uint64_t* word, uint32_t count) {
    MbarrierState state = mbarrier_unpack(*word);
    if (!state.valid) return not_initialised("cp.async.mbarrier.arrive");
    if (count > kMaxCount - state.pending) {
        return "cp.async.mbarrier.arrive raises the pending count from " + std::to_string(state.pending) + " above " +
               std::to_string(kMaxCount);
    }
    state.pending += count;
    *word = mbarrier_pack(state);
    return {};
}

bool mbarrier_test_parity(uint64_t word, uint32_t parity) { return (mbarrier_unpack(word).phase & 1) != (parity & 1); }

bool mbarrier_test_token(uint64_t word, uint64_t token) {
    return mbarrier_unpack(word).phase != mbarrier_unpack(token).phase;
}

uint32_t mbarrier_pending_count(uint64_t token) { return mbarrier_unpack(token).pending; }

}  // namespace ptxemu

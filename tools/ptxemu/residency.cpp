// SPDX-License-Identifier: Apache-2.0
#include "residency.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace ptxemu {
namespace {

constexpr uint64_t kSlicedAtOnce = 4;   // that could go on, before one of them is taken rather than a new one
constexpr uint64_t kSlicedAtOnceAdversarial = 8;
constexpr uint64_t kHopelessTurns = 16384, kHopelessTurnsEach = 256;   // of polling, that mean deadlock
constexpr uint64_t kMaxShuffled = 1ull << 26;
constexpr auto kBackOff = std::chrono::microseconds(200);

}   // namespace

Residency::Residency(uint64_t clusters, uint64_t capacity, uint64_t seed)
    : clusters_(clusters), capacity_(std::max<uint64_t>(capacity, 1)), adversarial_(seed != 0) {
    random_.state = seed * 0x9E3779B97F4A7C15ull | 1;
    random_.next();
    if (!adversarial_ || clusters > kMaxShuffled) return;
    order_.resize(clusters);
    std::iota(order_.begin(), order_.end(), 0ull);
    // Blocks start in order of their numbers as others end, so that one of a later wave never keeps an earlier one out.
    for (uint64_t first = 0; first < clusters; first += capacity_) {
        const uint64_t n = std::min(capacity_, clusters - first);
        for (uint64_t i = n; i > 1; --i) std::swap(order_[first + i - 1], order_[first + random_.next() % i]);
    }
}

Residency::Choice Residency::start(std::unique_ptr<Cluster> spare) {
    Choice choice;
    choice.cluster = spare ? std::move(spare) : std::make_unique<Cluster>();
    choice.fresh = true;
    choice.linear = take();
    ++resident_;
    fruitless_ = 0;
    return choice;
}

Residency::Choice Residency::next(Turn last, std::unique_ptr<Cluster> spare) {
    std::unique_lock lock(mutex_);
    if (waiting_.empty() || (last == Turn::kPolls && may_start())) {
        if (may_start()) return start(std::move(spare));
        if (waiting_.empty()) return {};
    }
    const uint64_t at_once = adversarial_ ? kSlicedAtOnceAdversarial : kSlicedAtOnce;
    if (last == Turn::kSliced && sliced_ < at_once && may_start()) return start(std::move(spare));
    // All have polled in vain and another worker is busy: leave it the machine for a while.
    if (fruitless_ > waiting_.size() && busy_ > 0) {
        changed_.wait_for(lock, kBackOff);
        if (waiting_.empty()) return {};
    }
    const size_t i = adversarial_ ? random_.next() % waiting_.size() : 0;
    Choice choice;
    choice.cluster = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    if (choice.cluster->sliced) --sliced_;
    return choice;
}

bool Residency::give_back(std::unique_ptr<Cluster>& cluster, Turn turn, bool progressed) {
    const std::lock_guard lock(mutex_);
    if (progressed) {
        fruitless_ = 0;
        changed_.notify_all();
    } else {
        ++fruitless_;
        if (busy_ > 0) fruitless_ = std::min(fruitless_, resident_ + 1);
        // A cluster that has not started may be the one that would help.
        if (!may_start() && fruitless_ > std::max(kHopelessTurns, kHopelessTurnsEach * resident_)) return false;
    }
    cluster->sliced = turn == Turn::kSliced;
    if (cluster->sliced) ++sliced_;
    waiting_.push_back(std::move(cluster));
    return true;
}

void Residency::ended() {
    const std::lock_guard lock(mutex_);
    --resident_;
    fruitless_ = 0;
    changed_.notify_all();
}

bool Residency::cancel(uint64_t* linear) {
    const std::lock_guard lock(mutex_);
    if (started_ == clusters_) return false;
    *linear = take();
    fruitless_ = 0;
    changed_.notify_all();
    return true;
}

Residency::Counts Residency::counts() const {
    const std::lock_guard lock(mutex_);
    return {resident_, capacity_, clusters_ - started_};
}

}   // namespace ptxemu

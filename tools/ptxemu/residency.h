// SPDX-License-Identifier: Apache-2.0
// Which clusters of a launch are resident, and which of them a worker runs next. A cluster runs until it ends, unless
// it only polls memory that others must change or takes very long: then it waits here while others run.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "warp.h"

namespace ptxemu {

// How a cluster's turn on a worker ended.
enum class Turn : uint8_t {
    kEnded,    // all CTAs have exited
    kSliced,   // it could go on
    kPolls,    // all that its warps do is read again what they have read
    kStopped   // the launch has failed elsewhere
};

class Residency {
  public:
    // capacity: clusters that the device holds at once. seed 0: clusters start in order; else in an order of its own
    // among those that may be resident together.
    Residency(uint64_t clusters, uint64_t capacity, uint64_t seed);

    struct Choice {
        std::unique_ptr<Cluster> cluster;   // null: nothing left for this worker
        bool fresh = false;                 // to be started as number `linear`
        uint64_t linear = 0;
    };
    // last: how the worker's previous turn ended. spare: the cluster that ended, for reuse, or null.
    Choice next(Turn last, std::unique_ptr<Cluster> spare);
    // Of a turn that ended with kSliced or kPolls. progressed: it did more than poll. False: no cluster can ever go on.
    [[nodiscard]] bool give_back(std::unique_ptr<Cluster>& cluster, Turn turn, bool progressed);
    void ended();   // after kEnded
    // A cluster that has not started and never will, for another one does its work. False: all have started.
    bool cancel(uint64_t* linear);

    // A worker whose turn has made progress counts as busy until the turn ends.
    void busy() { ++busy_; }
    void idle() { --busy_; }

    struct Counts {
        uint64_t resident, capacity, unstarted;
    };
    Counts counts() const;

  private:
    bool may_start() const { return started_ < clusters_ && resident_ < capacity_; }
    uint64_t take() { return order_.empty() ? started_++ : order_[started_++]; }
    Choice start(std::unique_ptr<Cluster> spare);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    const uint64_t clusters_, capacity_;
    const bool adversarial_;
    std::vector<uint64_t> order_;   // empty: as numbered
    Random random_;
    uint64_t started_ = 0, resident_ = 0;
    std::deque<std::unique_ptr<Cluster>> waiting_;
    uint64_t sliced_ = 0;      // of waiting_: turns that ended with kSliced
    uint64_t fruitless_ = 0;   // turns since one made progress
    std::atomic<int> busy_{0};
};

}   // namespace ptxemu

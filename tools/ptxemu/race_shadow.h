// SPDX-License-Identifier: Apache-2.0
// Who touched which memory, and when: vector clocks, and the accesses that may still conflict with a later one.
//
// Time is counted per agent. A warp is one agent; a lane that hands over alone becomes one of its own, and so do the
// accesses of Tensor Memory and the MMAs of a thread, and chains of asynchronous copies (a copy joins a chain whose
// last copy is known to be complete where it is issued). A clock holds for every agent the time up to which its
// accesses have happened before: `strict` by the rules of the manual, `loose` also by the convergence that shfl, vote,
// elect and .aligned instructions bring about without ordering memory. `narrow` holds what would be known besides if
// every scope were wide enough, `issuer` what the issuer of a try_cancel knew to whom its response has come: the
// response hands over nothing of it (8.9.1.1), but no read can come so late. Both are empty in most kernels.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ptxemu {

struct VectorClock {
    std::vector<uint32_t> strict, loose, narrow, issuer;

    static uint32_t at(const std::vector<uint32_t>& v, uint32_t index) { return index < v.size() ? v[index] : 0; }
    static void raise(std::vector<uint32_t>& v, uint32_t index, uint32_t time) {
        if (index >= v.size()) v.resize(index + 1 + index / 2, 0);
        if (v[index] < time) v[index] = time;
    }
    static void join(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
        if (to.size() < from.size()) to.resize(from.size(), 0);
        for (size_t i = 0; i < from.size(); ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
    }
    void raise(uint32_t index, uint32_t time) {
        raise(strict, index, time);
        raise(loose, index, time);
    }
    void join(const VectorClock& other) {
        join(strict, other.strict);
        join(loose, other.loose);
        join(narrow, other.narrow);
        join(issuer, other.issuer);
    }
    void join_issuer(const VectorClock& other) {
        join(issuer, other.loose);
        join(issuer, other.issuer);
    }
    void join_narrow(const VectorClock& other) {
        join(narrow, other.loose);
        join(narrow, other.narrow);
    }
};

// The agents of a cluster's lanes that hand over alone, [warp][lane]; 0: none. They go with a clock that counts them.
using LaneAgents = std::vector<uint32_t>;

// Who may interact with an operation (PTX ISA 8.5), and how far apart two threads are. There is one device, so .sys is
// .gpu.
enum class Scope : uint8_t { kNone, kCta, kCluster, kGpu };

enum class AgentKind : uint8_t {
    kThread,
    kTmaLoad,      // cp.async.bulk and cp.async.bulk.tensor to shared memory
    kTmaRead,      // the reading half of a bulk copy that completes by group
    kTmaWrite,     // its writing half
    kCopy,         // cp.async
    kMma,          // tcgen05.mma
    kTmemCopy,     // tcgen05.cp, shift
    kTmemLoad,     // tcgen05.ld
    kTmemStore,    // tcgen05.st
    kTmemAlloc,
    kWgmma
};

// One access, or several alike of one instruction, to a cell: 32 bytes of memory, or a column of 32 lanes of Tensor
// Memory.
struct Record {
    static constexpr uint8_t kWrite = 1;
    // Atomic, volatile, relaxed and stronger: no race among themselves if their scopes include each other.
    static constexpr int kScopeShift = 6;
    static constexpr uint8_t strong(Scope scope) {
        return static_cast<uint8_t>(2 | static_cast<int>(scope) << kScopeShift);
    }
    static constexpr uint8_t kStrong = 2;
    static constexpr uint8_t kAsync = 4;       // through the async proxy
    static constexpr uint8_t kInit = 8;        // mbarrier.init
    static constexpr uint8_t kSameValue = 16;  // stores what is there already
    static constexpr uint8_t kBarrier = 32;    // an operation on an mbarrier object
    static constexpr uint16_t kAddressTag = 1;   // what tcgen05.alloc writes to shared memory

    uint32_t parts = 0;   // bytes of the cell, lanes of the column
    uint32_t clock = 0;   // of its agent
    uint32_t issue = 0;   // of the issuing warp
    uint32_t pc = 0;
    uint32_t next = 0;    // in the cell's list
    uint32_t lanes = 0;   // of the warp
    uint32_t unit = 0;    // cluster in the grid
    uint16_t agent = 0;   // index in clocks
    uint16_t warp = 0;    // that issued it, counted through the cluster
    uint16_t tag = 0;     // MMAs with the same accumulator and shape are alike; of a thread: kAddressTag or 0
    int16_t origin = 0;   // of lane 0: lane l has parts [origin + l * width, + width)
    uint8_t width = 0;    // 0: every lane touched all parts
    uint8_t flags = 0;
    AgentKind kind = AgentKind::kThread;

    uint32_t lanes_of(uint32_t overlap) const;
    Scope scope() const { return static_cast<Scope>(flags >> kScopeShift & 3); }
};

// Records in lists, by index; 0 ends a list.
class RecordPool {
  public:
    RecordPool() { records_.emplace_back(); }
    Record& operator[](uint32_t i) { return records_[i]; }
    uint32_t add(const Record& r) {
        if (free_ == 0) {
            records_.push_back(r);
            return static_cast<uint32_t>(records_.size()) - 1;
        }
        const uint32_t i = free_;
        free_ = records_[i].next;
        records_[i] = r;
        return i;
    }
    void release(uint32_t i) {
        records_[i].next = free_;
        free_ = i;
    }
    void clear() {
        records_.resize(1);
        free_ = 0;
    }
    size_t size() const { return records_.size(); }

  private:
    std::vector<Record> records_;
    uint32_t free_ = 0;
};

// Global memory, of all clusters of a launch. Memory for records is bounded: once it is full, cells that were not
// touched before are no longer watched.
class GlobalShadow {
  public:
    static constexpr size_t kMaxRecordsPerShard = 1u << 16, kShards = 64;   // 200 MB

    struct Shard {
        std::mutex mutex;
        RecordPool pool;
        std::unordered_map<uint64_t, uint32_t> heads;   // by address / 32
        bool full() const { return pool.size() >= kMaxRecordsPerShard; }
    };
    Shard& shard(uint64_t cell) { return shards_[(cell ^ cell >> 6) % kShards]; }

    // What a release at an address hands over: its own clock, or one that it had been handed itself.
    struct Handed {
        uint32_t unit, warp, lanes;   // of the release
        Scope scope;                  // the narrowest of its operations
        uint32_t clock_unit;          // cluster that counted the clock
        std::shared_ptr<const VectorClock> clock;
        std::shared_ptr<const LaneAgents> agents;   // of that cluster
    };
    std::mutex handed_mutex;
    std::unordered_map<uint64_t, std::vector<Handed>> handed;

  private:
    std::array<Shard, kShards> shards_;
};

}   // namespace ptxemu

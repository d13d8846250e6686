// SPDX-License-Identifier: Apache-2.0
// What a launch did, in detail: a trace in nominal clocks (nominal_clocks.h), and counts by warp, bytes and bank
// conflicts. Only where DeviceConfig asks for it; otherwise Exec::profile is null and nothing is recorded.
//
// Clocks. Each warp has one; instructions advance it by the pipe that they keep busiest, and warps of one sub-partition
// share its pipes. An asynchronous operation starts when it is issued and its unit is free. Whoever waits goes on at
// the nominal time of what it waited for: arrivals and bytes of an mbarrier phase, threads of a barrier, operations of
// a group. So the trace depends on the dependences that a kernel makes, not on the order in which the emulator happened
// to run it. Every CTA is drawn as if it had a multiprocessor for itself.
#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "program.h"

namespace ptxemu {

struct AsyncOp;
struct Cta;
struct Cluster;
struct Exec;
struct Warp;
struct Stats;

struct TraceSlice {
    enum class Kind : uint8_t {
        kRun, kIssueCopy, kIssueMma, kEpilogue,                        // of a warp
        kWaitBarrier, kWaitMbarrier, kWaitGroup, kWaitMemory, kWaitTmem,
        kCopy, kMma                                                    // of a unit
    };
    Kind kind;
    uint16_t track;       // warp; or kCopyTrack, kMmaTrack
    uint32_t cta;         // linear, in the grid
    uint32_t pc;
    double begin, end;
    uint64_t value;       // mbarrier address, bytes, M << 32 | N
};
inline constexpr uint16_t kCopyTrack = 64, kMmaTrack = 65;

// The slices of all launches, written as they come.
class TraceLog {
  public:
    TraceLog() = default;
    ~TraceLog() { close(); }
    TraceLog(const TraceLog&) = delete;
    TraceLog& operator=(const TraceLog&) = delete;

    static constexpr uint64_t kMaxSlices = uint64_t{1} << 22;   // about 600 MB of text; later ones are only counted
    // Creates the file. False: errno says why.
    bool open(const std::string& path);
    struct LaunchTrace {
        uint64_t number;
        uint64_t first_process;   // its CTAs are processes of the trace
        Dim3 grid;
        std::map<uint32_t, std::set<uint16_t>> named;   // CTA -> tracks
    };
    LaunchTrace begin(const Dim3& grid);
    // One worker's slices of a launch.
    void add(LaunchTrace& launch, const Program& program, const std::vector<TraceSlice>& slices);
    // Ends the text, so that the file is whole; add() may follow. False: writing failed.
    bool flush();
    bool close();

  private:
    std::mutex mutex_;
    std::FILE* file_ = nullptr;
    bool first_ = true, failed_ = false;
    uint64_t launches_ = 0, written_ = 0, dropped_ = 0, processes_ = 0;
};

// Intervals of time in which a unit is busy.
class BusyTrack {
  public:
    // The first free stretch from `earliest` on; returns its begin.
    double place(double earliest, double length);
    // Takes `length` of free time from `earliest` on, in pieces; returns the end of the last one.
    double consume(double earliest, double length);

  private:
    void insert(double begin, double end);
    std::map<double, double> busy_;   // begin -> end, disjoint and not touching
};

// The nominal clocks of a cluster; they go with it from worker to worker.
struct ProfileClocks {
    struct WarpClock {
        double now = 0;
        double issue = 0, fma = 0, alu = 0, mufu = 0, lsu = 0;   // since `now`
        double segment = 0;
        TraceSlice::Kind category = TraceSlice::Kind::kRun;
        uint32_t segment_pc = 0;
        double tmem_ready = 0;
        bool accumulators = false;   // it has read some: its floating-point arithmetic is epilogue
        bool at_barrier = false;
        uint32_t barrier = 0;
        uint64_t generation = 0;
        std::map<uint32_t, double> groups[3];   // bulk, cp.async, wgmma: group -> end of its operations
        std::vector<double> ready;              // by register slot / 64
    };
    struct Mbarrier {
        uint32_t phase = 0;
        double pending = 0, done = 0;
    };
    struct CtaClock {
        std::vector<WarpClock> warps;
        std::array<BusyTrack, 4> sub_partitions, wgmma;
        BusyTrack copies, mma;
        double last_mma = 0;   // end of the last one issued
        std::map<std::pair<uint32_t, uint64_t>, double> barriers;   // number, generation
    };
    std::vector<CtaClock> ctas;   // by rank
    std::map<uint32_t, Mbarrier> mbarriers;
    std::map<uint64_t, double> cluster_barrier;   // by generation
};

class Profile {
  public:
    Profile(const Program& program, bool trace, bool detail);
    void start(Cluster& cluster);
    void finish(Exec& x);
    // Around the handler of an instruction that mask executes.
    void before(Exec& x, const Insn& in, uint32_t mask);
    void after(Exec& x, const Insn& in, uint32_t mask, bool next);
    void issued(Exec& x, AsyncOp& op);
    void completing(Exec& x, const AsyncOp& op);
    // The mbarrier at this address has had an arrival or bytes, at the time of whoever is at work.
    void arrived(Exec& x, uint32_t address);
    void add_to(Stats& stats) const;
    void add_to(TraceLog& log, TraceLog::LaunchTrace& launch) const { log.add(launch, program_, slices_); }

  private:
    enum class Kind : uint8_t {
        kPlain, kLoad, kStore, kMatrix, kInit, kArrive, kMbarrierWait, kCopy, kMma, kCommit, kTmemLoad, kTmemStore,
        kTmemWait, kBarrier, kClusterArrive, kClusterWait, kBulkWait, kCopyWait, kWgmmaWait
    };
    struct Cost {
        Kind kind = Kind::kPlain;
        float fma = 0, alu = 0, mufu = 0;
        uint16_t bytes = 0;   // of one lane's access
        uint16_t n = 0;       // wgmma
        bool shared = false, global = false, loads = false, floats = false;
    };
    using WarpClock = ProfileClocks::WarpClock;
    using CtaClock = ProfileClocks::CtaClock;
    using Mbarrier = ProfileClocks::Mbarrier;

    WarpClock& clock_of(Exec& x);
    CtaClock& cta_clock(Exec& x);
    void advance(Exec& x, WarpClock& w);
    void wait_until(Exec& x, WarpClock& w, double time, TraceSlice::Kind kind, uint64_t value);
    void cut(Exec& x, WarpClock& w, TraceSlice::Kind next);
    void slice(Exec& x, TraceSlice::Kind kind, uint32_t track, uint32_t pc, double begin, double end, uint64_t value);
    void access(Exec& x, const Insn& in, uint32_t mask, const Cost& cost);
    void group_done(Exec& x, WarpClock& w, int which, uint32_t open, uint64_t keep);

    const Program& program_;
    const bool trace_, detail_;
    std::vector<Cost> costs_;
    std::vector<TraceSlice> slices_;
    double moment_ = 0;   // of what is at work

    // Counts.
    std::vector<std::vector<uint64_t>> by_warp_;   // [warp][pc]
    uint64_t counted_ = 0;
    std::vector<uint64_t> wavefronts_, least_wavefronts_;   // by pc
    std::map<std::string, uint64_t> bytes_;
};

}   // namespace ptxemu

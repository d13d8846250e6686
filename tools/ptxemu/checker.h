// SPDX-License-Identifier: Apache-2.0
// The checks of PTXEMU_CHECK=1: a happens-before race detector over shared memory, Tensor Memory and global memory.
// Handlers tell it what is accessed and what orders (Exec::checker; null when off). It decides by order alone, never by
// time: an asynchronous operation is judged where it is issued, whenever the scheduler carries it out.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "findings.h"
#include "race_shadow.h"
#include "warp.h"

namespace ptxemu {

enum class MemorySpace : uint8_t { kGlobal, kShared, kGeneric };
enum class FenceKind : uint8_t { kAcqRel, kAcquire, kRelease, kProxyAsync, kMbarrierInit, kTmemBefore, kTmemAfter };

// Release and acquire of a memory operation that threads may synchronise by.
enum class Semantics : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcqRel };
enum class Atomicity : uint8_t { kNone, kAtomic, kReduction };   // a reduction reads for nobody (8.11.1)
struct Strength {
    Semantics semantics = Semantics::kWeak;
    Scope scope = Scope::kGpu;
    Atomicity atomicity = Atomicity::kNone;
};

class Checker {
  public:
    void start(Cluster& cluster, GlobalShadow& global);
    void finish(const Cta& cta);   // the CTA has exited
    void attach(Worker& worker) { worker_ = &worker; }   // that runs the cluster now

    // ---- accesses of threads, generic proxy; addresses have been checked ----

    // One instruction, `bytes` a lane. same: lanes that store what is there already.
    void data(Exec& x, uint32_t mask, const uint64_t* at, uint32_t bytes, MemorySpace space, bool write,
              Strength strength, uint32_t same = 0);
    // Whole tensor maps, 128 bytes a lane, weakly.
    void map_accessed(Exec& x, uint32_t mask, const uint64_t* maps, MemorySpace space, bool write);
    // One access of all these lanes together.
    void data_of(Exec& x, uint32_t lanes, uint32_t shared_address, uint32_t bytes, bool write, uint16_t tag = 0,
                 bool same = false);

    // ---- what orders threads ----

    void converged(Exec& x, uint32_t mask);                        // .aligned and .sync: loose only
    void warp_sync(Cta& cta, uint32_t warp, uint32_t mask);        // bar.warp.sync, complete
    void barrier_arrive(Exec& x, uint32_t mask, uint32_t id);      // before barrier_check
    void barrier_done(Cta& cta, uint32_t warp, uint32_t mask, uint32_t id);
    void barrier_next(Cta& cta, uint32_t id);                      // all waiters are through
    void cluster_arrive(Exec& x, uint32_t mask, bool release);
    void cluster_next();                                           // all have arrived
    void cluster_done(Exec& x, uint32_t mask);
    void fence(Exec& x, uint32_t mask, FenceKind kind, Scope scope = Scope::kGpu);

    // ---- mbarriers; shared addresses with the CTA's rank ----

    void mbarrier_init(Exec& x, int lane, uint32_t address);
    void mbarrier_inval(Exec& x, int lane, uint32_t address);
    // All lanes of an arrive, or of an expect-tx (release false and arrives false), before it takes effect.
    void mbarrier_arrive(Exec& x, uint32_t mask, const uint32_t* at, bool release, bool arrives, Scope scope);
    // parity: which phase is said by its parity, not by a state.
    void mbarrier_waited(Exec& x, uint32_t mask, const uint32_t* at, bool acquire, bool parity, Scope scope);
    void mbarrier_completed(uint32_t address);                     // its phase

    // ---- asynchronous operations: issued ----

    void copy_issued(Exec& x, AsyncOp& op);                        // bulk and tensor copies
    // cp.async, all lanes of an instruction.
    void small_copy_issued(Exec& x, uint32_t mask, const uint32_t* to, const uint64_t* from, uint32_t bytes,
                           const uint32_t* source_bytes);
    void small_copy_arrive_issued(Exec& x, AsyncOp& op);
    void mma_issued(Exec& x, AsyncOp& op);
    void commit_issued(Exec& x, AsyncOp& op);
    void tmem_issued(Exec& x, bool load, uint32_t lanes, const std::vector<std::pair<uint32_t, uint32_t>>& columns);
    void wgmma_issued(Exec& x, const AsyncOp& op, int element_bytes);

    // ---- asynchronous operations: complete ----

    // The signal of op at the mbarrier, before it takes effect.
    void signalled(const AsyncOp& op, uint32_t address);
    // Registers of wgmma (9.7.15.7.1): before an instruction, and at wgmma.fence.
    bool watches_registers() const { return has_wgmma_; }
    void registers(Exec& x);
    void registers_fenced(Exec& x);
    void groups_waited(Exec& x, uint32_t mask, AsyncKind first, AsyncKind last, const uint32_t* below, bool read_only);
    void tmem_waited(Exec& x, bool load);
    void allocated(Exec& x, uint32_t column, uint32_t columns);
    // By both CTAs of a pair together, the other one in peer_warp.
    void allocated_in_pair(Exec& x, Cta& peer, uint32_t peer_warp, uint32_t column, uint32_t peer_column,
                           uint32_t columns);
    void deallocated(Exec& x, uint32_t column, uint32_t columns);

  private:
    struct Group {   // lanes that know the same
        uint32_t lanes = 0;
        VectorClock clock;
        std::vector<uint32_t> tmem;   // by agent: accesses of Tensor Memory that later ones of the thread come behind
        // By a fence of this scope for strong writes; by strong reads, of those this far away, for a fence.
        std::array<std::shared_ptr<VectorClock>, 4> released, observed;
    };
    struct Outstanding {   // an operation that wait_group can wait for
        AsyncKind kind;
        uint32_t lanes, group, index, clock;
        bool read_half;
    };
    struct WgmmaUse {
        uint32_t count = 0, pc = 0;   // the warp's count-th wgmma; 0: none
    };
    struct RegisterState {
        static constexpr uint32_t kNever = ~0u;
        uint32_t touched = kNever;       // pc that last accessed it
        uint32_t fences = 0;             // of the warp when it did; kNever with 0: not accessed, nor fenced
        uint8_t shape = 0;               // that access is a wgmma's, of this shape, as its accumulator
        WgmmaUse accumulator, fragment;  // the last wgmma that writes it, or reads it as a part of A
    };
    struct WarpState {
        uint32_t time = 1, live = 0;
        std::vector<Group> groups;
        uint32_t load = 0, store = 0, alloc = 0, wgmma = 0;   // agents
        std::vector<RegisterState> registers;   // by slot / 128; of kernels with wgmma
        uint32_t fences = 0;                    // wgmma.fence so far
        bool init_fence = false;                // it has executed a fence.mbarrier_init
        uint32_t wgmma_done = 0;
        std::vector<Outstanding> outstanding;
        // By warp: when it came to the last barrier of the cluster that this warp has left, in whatever manner.
        std::shared_ptr<const std::vector<uint32_t>> arrived;
        // Whether r, of a warp of this cluster, came before that warp's arrival there.
        bool met_behind(const Record& r) const { return arrived && (*arrived)[r.warp] >= r.clock; }
    };
    struct Waiter {
        uint32_t warp, lanes, time, pc;
    };
    struct Mbarrier {
        VectorClock current, completed;   // of the phase that runs; of those that ended
        std::vector<uint32_t> arriving;   // loose: what those who arrive know, asynchronously or not
        std::vector<Waiter> waiters;      // of the last phase that ended
        uint32_t expect_pc = ~0u;         // of the last arrival
        // Arrivals of other CTAs that release to the cluster, of the phase that runs and of the last one.
        std::vector<Record> remote, remote_completed;
        uint32_t index = 0;               // in clocks: how many phases are known to have ended
        uint32_t first = 0, ended = 0;    // phases that ended before its initialisation, and so far
        // Who arrived in the phase that runs, and in the last one; asynchronous: and others, whom nobody can know of.
        std::vector<Waiter> arrivals, last_arrivals;
        bool asynchronous = false, last_asynchronous = false;
    };
    struct Chain {
        uint32_t index, last;
    };
    struct Import {
        uint32_t index, clock, unit;
        std::shared_ptr<const VectorClock> known;
        std::shared_ptr<const LaneAgents> agents;   // of that cluster
    };
    enum class Order : uint8_t {
        kOrdered,
        kLoose,
        kWarpgroup,   // a wgmma of another warp of a warpgroup one of whose warps has waited for it
        kExit,        // known to a warp that had exited when a barrier of the cluster ended
        kIssuer,      // a read, known to the issuer of a try_cancel whose response has come
        kNarrow,      // only if scopes were wider
        kReaderFence,
        kNoProxyFence,
        kNoBefore,
        kNoAfter,
        kNotWaited,
        kRace
    };

    struct Shared {
        std::vector<uint32_t> heads, tmem_heads;
    };

    static constexpr uint32_t kRaw = 0, kFenced = 1, kAnyFence = 2, kInitFence = 3, kPerThread = 4;
    static constexpr uint32_t kChainFenced = 1, kPerChain = 2;   // a proxy fence has followed
    static constexpr uint32_t kTmemDone = 0, kTmemFenced = 1, kTmemIssued = 2, kPerTmem = 3;

    uint32_t warp_of(const Exec& x) const;
    uint32_t warp_of(const Cta& cta, uint32_t warp) const { return cta.rank * warps_per_cta_ + warp; }
    uint32_t lane_agent(uint32_t warp, uint32_t lane);
    uint32_t tmem_agent();
    uint32_t chain_for(const Group& group, uint32_t* clock);
    Group& group_of(uint32_t warp, uint32_t lane);
    Group& separate(uint32_t warp, uint32_t mask, size_t* at);
    template <class F>
    void each_group(uint32_t warp, uint32_t mask, F f);
    void own(VectorClock& clock, uint32_t warp, uint32_t lanes, uint32_t which);
    void release(VectorClock& to, uint32_t warp, uint32_t mask);
    void release_fenced(VectorClock& to, uint32_t warp, uint32_t mask, Scope distance);
    void acquire(uint32_t warp, uint32_t mask, const VectorClock& from);
    void acquire_fenced(uint32_t warp, uint32_t mask, const VectorClock& from);
    void merge(uint32_t warp, uint32_t mask);
    bool thread_known(const std::vector<uint32_t>& clock, uint32_t warp, uint32_t lanes, uint32_t time,
                      uint32_t which) const {
        return thread_known(clock, lane_agents_, warp, lanes, time, which);
    }
    static bool thread_known(const std::vector<uint32_t>& clock, const LaneAgents& agents, uint32_t warp,
                             uint32_t lanes, uint32_t time, uint32_t which);
    Order order(const Record& r, const Record& a, uint32_t overlap, const Group& group, bool tmem) const;
    Order foreign_order(const Record& r, uint32_t overlap, const Group& group) const;
    Scope distance(const Record& r, const Record& a) const;
    bool warpgroup_known(const Record& r, const std::vector<uint32_t>& clock) const;
    bool known_to_exited(const Record& r, const Record& a) const;
    void touch(RecordPool& pool, uint32_t& head, Record& a, const Group& group, MemorySpace space, uint64_t address,
               bool tmem);
    void touch_shared(uint64_t address, Record& a, const Group& group);
    void touch_global(uint64_t cell, Record& a, const Group& group);
    void range(MemorySpace space, uint64_t address, uint64_t bytes, Record a, const Group& group);
    void run(MemorySpace space, uint64_t cell, Record& a, const Group& group);
    void tmem_range(Cta& cta, uint32_t quarter, uint32_t lanes, uint32_t column, uint32_t columns, Record a,
                    const Group& group);
    void synchronise(Exec& x, uint32_t mask, const uint64_t* at, MemorySpace space, bool write, Strength strength);
    Scope distance_to(const GlobalShadow::Handed& h, uint32_t warp) const;
    void hand_over(uint64_t key, uint32_t warp, uint32_t lanes, const std::vector<GlobalShadow::Handed>& what,
                   Strength strength);
    Record record_of(const Exec& x, uint32_t warp, uint32_t lanes) const;
    VectorClock export_clock(uint32_t warp, uint32_t lanes);
    Mbarrier& mbarrier(uint32_t address) { return mbarriers_[address]; }
    void allocated(Exec& x, Cta& cta, uint32_t warp, uint32_t column, uint32_t columns);
    void know_allocation(uint32_t warp, uint32_t of);
    void wgmma_registers(Exec& x, const AsyncOp& op, uint32_t count, int element_bytes);
    void register_in_use(Exec& x, const WgmmaUse& use, Severity severity, const char* what);
    bool known_in_cluster(const Record& r) const;
    void never_waited();
    void left_alone(const Cta& cta);
    void check_live_mbarrier(const Record& r, const Record& a, uint64_t address, uint32_t overlap);
    void report_aliasing(const Record& wait, uint32_t address, const char* what, const char* would_order);
    void phase_unknown(Mbarrier& b, const Record& a, uint32_t address, const Group& group);
    void narrow_mbarrier(const Record& a, const Record* arrival, uint32_t address);
    void swizzle_alignment(uint32_t pc, uint32_t address, uint32_t span, const Record& a);
    void conflict(const Record& r, const Record& a, Order order, MemorySpace space, uint64_t address, uint32_t overlap,
                  bool tmem);
    void operand(uint64_t descriptor, int first_row, int rows, bool mn_major, int element_bytes, bool sm100,
                 const Record& a, const Group& group, uint32_t base);
    std::string role_of(const Record& r) const;
    Party party_of(const Record& r) const;

    Worker* worker_ = nullptr;
    GlobalShadow* global_ = nullptr;
    Cluster* cluster_ = nullptr;
    uint32_t warps_per_cta_ = 1, unit_ = 0, next_index_ = 0, finished_ = 0;   // finished_: CTAs
    std::vector<WarpState> warps_;
    LaneAgents lane_agents_;
    std::shared_ptr<const LaneAgents> handed_agents_;   // as they are now; null: a copy is due
    std::vector<uint32_t> fenceable_;     // raw indices of warps and lanes
    std::vector<uint32_t> tmem_agents_;
    std::unordered_map<uint32_t, std::pair<uint32_t, uint32_t>> mma_agents_;   // (warp, lane) -> index, issued
    std::vector<uint32_t> counts_;        // by index: accesses of Tensor Memory and wgmma agents
    std::vector<Chain> chains_;
    std::vector<Import> imports_;
    std::vector<Shared> shared_;          // by rank
    RecordPool pool_;
    bool has_wgmma_ = false;
    uint32_t wgmma_stat_ = 0;   // index in Program::stat_names
    std::unordered_map<uint32_t, Mbarrier> mbarriers_;
    std::vector<std::array<VectorClock, 2>> barriers_;   // [cta * 16 + id]: gathering, done
    std::array<VectorClock, 2> cluster_barrier_;
    std::vector<uint32_t> arriving_;   // as WarpState::arrived, of the barrier that runs
    std::shared_ptr<const std::vector<uint32_t>> arrived_;
    std::unordered_set<uint64_t> seen_;
};

}   // namespace ptxemu

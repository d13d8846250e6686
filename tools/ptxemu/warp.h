// SPDX-License-Identifier: Apache-2.0
// Run-time state: a cluster of CTAs with their warps, fragments, barriers and asynchronous work, and what a handler
// sees of it.
//
// A warp is a set of fragments (pc, lanes). The lowest pc runs first, so that fragments reconverge; one that spins
// yields to the others. A fragment that must wait is blocked and its instruction is executed again after the next event
// that could have changed the outcome (Cta::epoch), except at named barriers, which release their waiters themselves.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "mbarrier.h"
#include "program.h"
#include "tensor_core.h"
#include "tensor_map.h"

namespace ptxemu {

// xorshift64*: one per cluster, so that a seed gives the same schedule whatever the number of host threads.
struct Random {
    uint64_t state = 1;
    uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545F4914F6CDD1Dull;
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
};

// Ends a launch. what is completed with kernel, line, CTA, warp and lane where it is caught.
struct Fault {
    RunStatus status;
    std::string what;
    int lane;           // -1: the warp
    const char* code;   // of the finding
    std::string space;  // of the address; empty: none
    uint64_t address = 0, bytes = 0;
    std::string would_order;
};

enum class Wait : uint8_t {
    kNone,          // ready
    kConverge,      // .aligned: all live lanes of the warp
    kMembers,       // *.sync: the lanes of membermask
    kWarpBarrier,   // bar.warp.sync: the lanes of membermask, at any pc
    kBarrier,       // a named barrier (Fragment::wait_id)
    kMbarrier,      // mbarrier.try_wait at wait_address
    kAsync,         // wait_group, tcgen05.wait: the thread's own asynchronous work
    kTmem,          // tcgen05.alloc: columns
    kCluster        // barrier.cluster.wait
};

struct Fragment {
    uint32_t pc = 0;
    uint32_t mask = 0;
    uint32_t stack = 0;   // Warp::frames index, 0: the entry function
    Wait wait = Wait::kNone;
    bool yielded = false;   // spun: runs again after the other fragments of its warp
    bool forced = false;    // the next try_wait returns what it sees instead of waiting
    uint32_t spins = 0;
    uint32_t wait_id = 0;   // barrier number, membermask
    uint32_t wait_address = 0, wait_phase = 0;
    uint64_t wait_epoch = 0;
};

struct Frame {
    uint32_t parent, return_pc;
};

struct Warp {
    uint32_t index = 0;   // in the CTA
    uint32_t live = 0;    // lanes that have not exited
    uint8_t* registers = nullptr;
    uint8_t* local = nullptr;   // [32][local_bytes]
    std::vector<Fragment> fragments;
    std::vector<Frame> frames;   // interned return stacks; [0] unused
    uint32_t dynamic_clock = 0;
    uint32_t pending_async = 0;   // AsyncOps of this warp that wait_group or tcgen05.wait can wait for
    uint32_t tmem_loads = 0;      // tcgen05.ld that have not delivered their registers yet
    Allocation cached;            // the last global allocation accessed
    std::array<uint32_t, kLanes> bulk_group{}, copy_group{}, wgmma_group{};   // number of the open group per lane
    struct Wgmma {
        uint32_t pc;
        uint64_t descriptor_a, descriptor_b;   // a: 0 where A is in registers
    };
    uint64_t wgmma_count = 0;                // that it has executed,
    std::array<Wgmma, 16> last_wgmmas{};     // and the last of them, by number
    // Of the lane's barrier.cluster.arrive that it has not yet waited for: the cluster's generation + 1; else 0.
    std::array<uint32_t, kLanes> cluster_arrival{};
    // What the warp's last polls saw, by pc and lanes: an access that others must change before the warp can go on.
    struct Poll {
        uint32_t pc = ~0u;
        uint64_t seen = 0;
    };
    std::array<Poll, 8> polls{};
    uint32_t vain_polls = 0;            // in a row that saw what they had seen
    uint64_t executed_since_poll = 0;   // instructions
    bool poll_loop = false;             // the last one stands in a loop that does nothing else
};

// wait_group's view of a thread: groups are numbered from 0 in commit order.
enum class AsyncKind : uint8_t {
    kTensorLoad,
    kTensorStore,
    kTensorReduce,
    kBulkLoad,
    kBulkStore,
    kBulkReduce,
    kBulkSharedCopy,
    kBulkSharedReduce,
    kStoreAsync,    // st.async, red.async to shared memory
    kGlobalAsync,   // the same to global memory
    kCancel,        // the response of clusterlaunchcontrol.try_cancel
    kCopy,
    kCopyArrive,
    kMma,
    kCommit,
    kTmemLoad,
    kTmemStore,
    kTmemCopy,
    kWgmma
};

// What an asynchronous operation is to the checker: where its completion stands in clocks, or what it hands over.
struct VectorClock;
struct AsyncAgent {
    uint32_t index = 0, clock = 0;
    std::shared_ptr<const VectorClock> hands_over, issuer;   // issuer: what the thread knew that issued it
};

struct AsyncOp {
    AsyncKind kind = AsyncKind::kCopy;
    uint64_t due = 0;   // Cluster::time; not before
    uint64_t serial = 0;
    uint32_t pc = 0, warp = 0;
    uint32_t mask = 0;   // lanes (one for most)
    int lane = 0;
    uint32_t group = 0;     // of the issuing thread
    bool grouped = false;   // completion by group, else by mbarrier
    bool read_done = false;
    bool repeated = false;   // an earlier lane of the instruction stores the same
    uint32_t shared = 0, mbarrier = 0, bytes = 0;
    uint64_t global = 0;
    uint32_t source_bytes = 0;
    uint64_t reduction = 0;   // encode_reduction(); kStoreAsync, kGlobalAsync: ~0 for a store
    int32_t coords[5] = {};
    std::shared_ptr<TensorMapArgs> map;
    uint64_t descriptor_a = 0, descriptor_b = 0;
    uint32_t instr_descriptor = 0, tmem = 0, tmem_a = 0;
    bool accumulate = false, a_in_tmem = false;
    uint32_t mma_kind = 0, cta_group = 1;
    uint32_t scale_d = 0;
    double issued = 0;   // nominal clock (Profile)
    std::array<uint32_t, 8> disable{};
    std::vector<uint32_t> payload;   // registers captured at issue, or destination slots
    AsyncAgent agent;
};

struct NamedBarrier {
    uint32_t expected = 0;   // threads; 0: all of the CTA
    uint32_t arrived = 0;
    bool active = false;
    uint32_t count_true = 0, count_all = 0;   // bar.red
    uint64_t generation = 0;
};

// A call of tcgen05.alloc or dealloc with .cta_group::2 that waits for the same one in the peer CTA.
struct PairCall {
    enum class State : uint8_t { kNone, kPosted, kDone };
    State state = State::kNone;
    bool allocates = false;
    uint32_t columns = 0, address = 0, warp = 0;
};

struct Worker;
struct Cluster;
class Definedness;
class Checker;
class Profile;
struct ProfileClocks;

struct Cta {
    Cluster* cluster = nullptr;
    const Program* program = nullptr;
    const Launch* launch = nullptr;
    const uint8_t* constants = nullptr;   // the program's, with this CTA's shared addresses
    Dim3 id;
    uint64_t linear = 0;
    uint32_t rank = 0;             // in the cluster
    uint32_t shared_base = 0;      // rank << kRankShift
    std::vector<uint8_t> shared;   // the window from shared_base
    uint32_t shared_bytes = 0;     // end of the window, counted from shared_base
    std::vector<bool> mbarriers;   // by 8 bytes of the window: initialised and not invalidated
    std::vector<uint8_t> register_file, local_memory;
    std::vector<Warp> warps;
    uint32_t threads = 0, live_threads = 0, live_warps = 0;
    std::array<NamedBarrier, 16> barriers;
    std::unique_ptr<Tmem> tmem;
    PairCall pair_call;
    uint8_t cta_group = 0;   // of the tcgen05 instructions so far
    std::vector<AsyncOp> unordered;      // any order
    std::vector<AsyncOp> tensor_queue;   // tcgen05 mma, cp and commit: in issue order
    size_t tensor_head = 0;
    bool adversarial = false;
    uint64_t epoch = 0;   // grows with every event that can end a wait of one of its warps
    std::shared_ptr<Definedness> definedness;   // DeviceConfig::check only

    bool async_pending() const { return !unordered.empty() || tensor_head < tensor_queue.size(); }
    bool finishing = false;   // copies use its shared memory once more, see Worker::finish_copies
    bool exited() const { return live_warps == 0 && !finishing; }
};

// What is scheduled as one: the CTAs of a cluster, or a CTA alone.
struct Cluster {
    uint64_t linear = 0;   // in the grid
    Dim3 id;
    std::vector<std::unique_ptr<Cta>> ctas;   // by rank
    uint32_t live_ctas = 0, live_threads = 0;
    uint32_t arrived = 0, generation = 0;   // barrier.cluster
    Random random;
    bool adversarial = false;
    uint64_t time = 0;   // warp instructions executed
    uint64_t serial = 0;
    uint64_t event_order = 0;   // hash of the warps run and the operations completed so far
    uint32_t hopeless = 0;      // rounds of forced try_waits without any event
    std::shared_ptr<ProfileClocks> clocks;   // with a Profile that traces
    uint32_t current_warp = 0;   // counted through the CTAs
    bool sliced = false;         // Residency: its last turn ended though it could go on
    std::shared_ptr<Checker> checker;   // null unless DeviceConfig::check

    uint64_t events() const {
        uint64_t n = 0;
        for (const auto& cta : ctas) n += cta->epoch;
        return n;
    }
};

enum class Flow : uint8_t {
    kJump,     // Exec::target
    kYield,    // go on with the next instruction, but let others run first
    kResched   // fragments changed; the handler stored their pcs
};

// What a handler sees. One per host thread, set up for the warp that runs.
struct Exec {
    uint8_t* base[2] = {nullptr, nullptr};   // registers of the warp, constants of the program
    Warp* warp = nullptr;
    Cta* cta = nullptr;
    uint32_t fragment = 0;   // index into warp->fragments
    uint32_t pc = 0;
    uint32_t target = 0;
    Flow flow = Flow::kResched;
    const Program* program = nullptr;
    const uint32_t* lists = nullptr;
    GlobalMemory* memory = nullptr;
    const DeviceConfig* device = nullptr;
    Worker* worker = nullptr;
    Definedness* definedness = nullptr;   // of the CTA; null without DeviceConfig::check
    Checker* checker = nullptr;   // PTXEMU_CHECK; null: handlers check what must not happen, and nothing else
    uint64_t tma_bytes_loaded = 0, mma_operations = 0;
    Profile* profile = nullptr;   // null: nothing is recorded

    template <class T>
    [[gnu::always_inline]] T* at(uint32_t slot) const {
        return reinterpret_cast<T*>(base[slot >> 31] + (slot & ~kConstantSlot));
    }
    [[gnu::always_inline]] uint32_t predicate(const Insn& in, int i) const {
        const uint32_t value = *at<uint32_t>(in.slot[i]);
        return (in.flags >> (kNegateShift + i)) & 1 ? ~value : value;
    }
    [[gnu::always_inline]] void set_predicate(uint32_t slot, uint32_t value, uint32_t mask) const {
        uint32_t* p = at<uint32_t>(slot);
        *p = (*p & ~mask) | (value & mask);
    }
    Fragment& frag() const { return warp->fragments[fragment]; }
};

[[noreturn]] void fault(RunStatus status, int lane, const std::string& what);   // the status names the code
[[noreturn]] void fault(RunStatus status, const char* code, int lane, const std::string& what);
// An access that the memory does not take: the message ends with what the address is to a person.
[[noreturn]] void fault_at(const Exec& x, RunStatus status, int lane, const char* space, uint64_t address,
                           uint64_t bytes, const std::string& what);
// For handlers under DeviceConfig::check. Ends the launch when there are too many.
void report(Exec& x, Finding finding);
void warn(Exec& x, const char* code, const std::string& what);

// ---- scheduling services of handlers (scheduler.cpp) ----

// Blocks the lanes in mask at this instruction; the fragment's other lanes go on. Returns false (for the handler).
bool block(Exec& x, uint32_t mask, Wait wait);
// .aligned: true when every live lane of the warp is here. false: blocked.
bool converge(Exec& x, uint32_t mask);
// *.sync: true when all live lanes of members are in mask, which grows by those that waited here.
bool gather_members(Exec& x, uint32_t* mask, uint32_t members);
// After an access that a thread may repeat until another one changes the memory: a strong load, an atomic that left its
// value, a failed test of an mbarrier. seen: a hash of places and values. Answers for the handler: a warp that sees the
// same again and again yields.
bool poll(Exec& x, const Insn& in, uint32_t mask, uint64_t seen);
// Lanes leave: exit.
bool exit_lanes(Exec& x, uint32_t mask);
bool warp_barrier(Exec& x, uint32_t mask, const uint32_t* members);   // of each lane
// Named barrier. sync: wait; reduction slot: predicate or register written at completion.
bool barrier_arrive(Exec& x, uint32_t mask, uint32_t id, uint32_t threads, bool aligned, bool wait, uint32_t value);
// Releases named barriers, and barrier.cluster, whose count is reached by arrivals or exits.
void barrier_check(Cta& cta);
void cluster_barrier_check(Cluster& cluster);
// Takes a cluster of the launch that has not started, which then never does. False: none is left, or the request is
// refused, as in some schedules. first: the id of its first CTA.
bool cancel_cluster(Exec& x, Dim3* first);
// Queue an asynchronous operation: due, serial and owner are filled in here.
AsyncOp& queue_unordered(Exec& x, AsyncKind kind, int lane);
AsyncOp& queue_tensor(Exec& x, AsyncKind kind, int lane);
bool async_done(const Cta& cta, uint32_t warp, uint32_t lanes, AsyncKind first, AsyncKind last,
                const uint32_t* below_group, bool read_only);
// Completes one operation, for the warp that issued it: exec_bulk.cpp; those of the tensor core and of Tensor Memory
// in exec_tcgen05.cpp.
void complete(Exec& x, AsyncOp& op);
void complete_tensor(Exec& x, AsyncOp& op);
void complete_wgmma(Exec& x, AsyncOp& op);
// Address in shared memory of element (mn, k), `bytes` wide, of an MN-major matrix operand.
uint32_t mn_major_address(const SmemDescriptor& d, int bytes, int mn, int k);
// tcgen05.ld and st of the warp that are still in flight; loads into registers that the instruction at x.pc uses:
// "ordering through true register dependency will be respected" without tcgen05.wait::ld (PTX ISA 9.7.16.6.4.5).
void finish_tmem_accesses(Exec& x, AsyncKind kind);
void finish_tmem_loads_used(Exec& x);

// Address helpers (exec_memory.cpp). Each faults with the lane and address. A shared address holds the rank of its CTA
// in the cluster from bit kRankShift on, as on sm_90 and later.
// .shared::cta: memory of the executing CTA.
uint8_t* shared_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align);
// .shared::cluster: memory of any CTA of the cluster that has not exited.
uint8_t* cluster_shared_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align);
Cta& cta_of(Exec& x, int lane, uint64_t address);
uint8_t* global_at(Exec& x, int lane, uint64_t address, uint64_t bytes, uint32_t align, bool write);
uint8_t* generic_at(Exec& x, int lane, uint64_t address, uint32_t bytes, uint32_t align, bool write);
// Shared address, of any CTA of the cluster, out of a generic or shared operand.
uint32_t shared_address(Exec& x, int lane, uint64_t address, const char* what);
// The same, which must be of the executing CTA.
uint32_t own_shared_address(Exec& x, int lane, uint64_t address, const char* what);
uint64_t* mbarrier_at(Exec& x, int lane, uint64_t address);
// The CTAs of the cluster that a ctaMask names; faults on a mask of none or of others.
uint32_t cta_mask_at(Exec& x, int lane, uint32_t mask);
// One lane's address operand: slot i of in plus in.imm.
uint64_t lane_address(const Exec& x, const Insn& in, int i, int lane);
// The same for instructions with several addresses: Decoder::list_memory's entry at lists[at].
uint64_t listed_address(const Exec& x, uint32_t at, int lane);
// The signal of an asynchronous operation: arrives on / completes bytes of the mbarrier at a shared address; faults on
// misuse, wakes waiters.
void mbarrier_arrive_at(Exec& x, const AsyncOp& op, uint32_t address);
void mbarrier_complete_at(Exec& x, const AsyncOp& op, uint32_t address, uint32_t bytes);

}   // namespace ptxemu

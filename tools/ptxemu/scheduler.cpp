// SPDX-License-Identifier: Apache-2.0
// Runs one cluster: picks warps and fragments, executes instructions, completes asynchronous work, finds deadlocks.
#include "scheduler.h"

#include <algorithm>
#include <bit>

#include "definedness.h"
#include "hex.h"
#include "memory_places.h"

namespace ptxemu {
namespace {

constexpr uint32_t kPlainQuantum = 4096;     // warp instructions before another warp may run, seed 0
constexpr uint32_t kSpinsBeforeYield = 64;   // backward branches of a fragment while others of its warp are ready
constexpr uint32_t kHopelessRounds = 16;   // rounds of false try_waits, with nothing else happening, that mean deadlock
constexpr uint32_t kVainPolls = 8;         // that saw nothing new, before a warp lets others run
constexpr uint32_t kPollReach = 256;       // instructions after a vain poll that still belong to polling
constexpr uint64_t kSliceInstructions = 1ull << 22;   // of a turn, seed 0
constexpr uint64_t kNever = ~0ull;         // due only when nothing else can run

uint64_t mix(uint64_t x) {   // splitmix64 finaliser
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

std::string coordinates(const Dim3& d) {
    return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}

uint32_t lane_count(uint32_t mask) { return mask == kFullMask ? 32u : static_cast<uint32_t>(std::popcount(mask)); }

bool retried(Wait wait) {
    return wait == Wait::kMbarrier || wait == Wait::kAsync || wait == Wait::kTmem || wait == Wait::kCluster;
}

bool ready(const Fragment& f, const Cta& cta) {
    return f.wait == Wait::kNone || (retried(f.wait) && f.wait_epoch != cta.epoch);
}

uint64_t special_value(Special s, const Cta& cta, uint32_t warp, uint32_t lane, const DeviceConfig& device) {
    const Dim3& block = cta.launch->block;
    const Dim3& grid = cta.launch->grid;
    const Dim3& cluster = cta.launch->cluster;
    const Dim3& cluster_id = cta.cluster->id;
    const uint32_t thread = warp * kLanes + lane;
    switch (s) {
        case Special::kTidX: return thread % block.x;
        case Special::kTidY: return thread / block.x % block.y;
        case Special::kTidZ: return thread / block.x / block.y;
        case Special::kNtidX: return block.x;
        case Special::kNtidY: return block.y;
        case Special::kNtidZ: return block.z;
        case Special::kLaneId: return lane;
        case Special::kWarpId: return warp;
        case Special::kNwarpId: return 64;
        case Special::kCtaIdX: return cta.id.x;
        case Special::kCtaIdY: return cta.id.y;
        case Special::kCtaIdZ: return cta.id.z;
        case Special::kNctaIdX: return grid.x;
        case Special::kNctaIdY: return grid.y;
        case Special::kNctaIdZ: return grid.z;
        case Special::kClusterIdX: return cluster_id.x;
        case Special::kClusterIdY: return cluster_id.y;
        case Special::kClusterIdZ: return cluster_id.z;
        case Special::kNclusterIdX: return grid.x / cluster.x;
        case Special::kNclusterIdY: return grid.y / cluster.y;
        case Special::kNclusterIdZ: return grid.z / cluster.z;
        case Special::kSmId: return cta.linear % static_cast<uint64_t>(std::max(device.multiprocessors, 1));
        case Special::kNsmId: return static_cast<uint64_t>(std::max(device.multiprocessors, 1));
        case Special::kGridId: return 1;
        case Special::kIsExplicitCluster: return cta.program->explicit_cluster || cta.launch->explicit_cluster;
        case Special::kClusterCtaIdX: return cta.id.x % cluster.x;
        case Special::kClusterCtaIdY: return cta.id.y % cluster.y;
        case Special::kClusterCtaIdZ: return cta.id.z % cluster.z;
        case Special::kClusterNctaIdX: return cluster.x;
        case Special::kClusterNctaIdY: return cluster.y;
        case Special::kClusterNctaIdZ: return cluster.z;
        case Special::kClusterCtaRank: return cta.rank;
        case Special::kClusterNctaRank: return cta.cluster->ctas.size();
        case Special::kLanemaskEq: return 1u << lane;
        case Special::kLanemaskLe: return (2ull << lane) - 1;
        case Special::kLanemaskLt: return (1ull << lane) - 1;
        case Special::kLanemaskGe: return static_cast<uint32_t>(~((1ull << lane) - 1));
        case Special::kLanemaskGt: return static_cast<uint32_t>(~((2ull << lane) - 1));
        case Special::kTotalSmemSize:
        case Special::kAggrSmemSize: return cta.shared_bytes - kSharedBase;
        case Special::kDynamicSmemSize: return cta.launch->dynamic_shared_bytes;
        case Special::kReservedSmemOffsetBegin: return 0;
        case Special::kReservedSmemOffsetEnd:
        case Special::kReservedSmemOffsetCap: return kSharedBase;
        case Special::kEnvReg1: return cta.launch->grid_workspace >> 32;
        case Special::kEnvReg2: return cta.launch->grid_workspace & 0xffffffffu;
        case Special::kCurrentGraphExec:
        case Special::kZero: return 0;
    }
    return 0;
}

void fill(uint8_t* bytes, size_t size, uint64_t pattern) {
    size_t i = 0;
    for (; i + 8 <= size; i += 8) std::memcpy(bytes + i, &pattern, 8);
    for (; i < size; ++i) bytes[i] = static_cast<uint8_t>(pattern >> 8 * (i & 7));
}

void set_delay(Cluster& cluster, AsyncOp& op) {
    op.serial = cluster.serial++;
    if (!cluster.adversarial) {
        op.due = cluster.time;
        return;
    }
    switch (cluster.random.below(8)) {
        case 0:
        case 1: op.due = cluster.time; break;
        case 2:
        case 3: op.due = cluster.time + cluster.random.below(64); break;
        case 4:
        case 5: op.due = cluster.time + cluster.random.below(1024); break;
        case 6: op.due = cluster.time + cluster.random.below(16384); break;
        default: op.due = kNever; break;
    }
}

void wake_warp(Warp& warp, bool converging_only) {
    for (auto& f : warp.fragments)
        if (f.wait == Wait::kConverge || (!converging_only && f.wait == Wait::kMembers)) f.wait = Wait::kNone;
}

}   // namespace

void fault(RunStatus status, int lane, const std::string& what) {
    const auto code = [status] {
        switch (status) {
            case RunStatus::kIllegalAddress: return "illegal-address";
            case RunStatus::kMisaligned: return "misaligned-address";
            case RunStatus::kDeadlock: return "deadlock";
            case RunStatus::kTrap: return "trap";
            case RunStatus::kAssert: return "assertion";
            default: return "illegal-instruction";
        }
    };
    throw Fault{status, what, lane, code()};
}
void fault(RunStatus status, const char* code, int lane, const std::string& what) {
    throw Fault{status, what, lane, code, {}, 0, 0, {}};
}

void fault_at(const Exec& x, RunStatus status, int lane, const char* space, uint64_t address, uint64_t bytes,
              const std::string& what) {
    const std::string place = x.worker->place_of(space, address, bytes);
    const char* code = status == RunStatus::kMisaligned ? "misaligned-address" : "illegal-address";
    throw Fault{status, place.empty() ? what : what + ": " + place, lane, code, space, address, bytes, {}};
}

bool block(Exec& x, uint32_t mask, Wait wait) {
    if (wait != Wait::kBarrier) {   // it will be executed again: count it once
        --x.worker->warp_counts[x.pc];
        x.worker->lane_counts[x.pc] -= lane_count(mask);
    }
    Fragment& f = x.frag();
    f.pc = x.pc;
    f.wait = wait;
    f.wait_epoch = x.cta->epoch;
    if (mask != f.mask) {
        Fragment rest = f;
        rest.mask &= ~mask;
        rest.pc = x.pc + 1;
        rest.wait = Wait::kNone;
        f.mask = mask;
        x.warp->fragments.push_back(rest);
    }
    x.flow = Flow::kResched;
    return false;
}

// Takes in fragments that wait for the same reason at the same place. Only for a fragment that is wholly in mask.
static void absorb(Exec& x, Wait wait) {
    auto& fragments = x.warp->fragments;
    const uint32_t stack = x.frag().stack;
    for (uint32_t i = 0; i < fragments.size();) {
        if (i == x.fragment || fragments[i].wait != wait || fragments[i].pc != x.pc || fragments[i].stack != stack) {
            ++i;
            continue;
        }
        fragments[x.fragment].mask |= fragments[i].mask;
        const uint32_t last = static_cast<uint32_t>(fragments.size()) - 1;
        if (x.fragment == last) x.fragment = i;   // the last one moves into the hole
        fragments[i] = fragments[last];
        fragments.pop_back();
    }
}

bool converge(Exec& x, uint32_t mask) {
    if (mask == x.warp->live) {
        if (x.checker) [[unlikely]] x.checker->converged(x, mask);
        return true;
    }
    if (mask != x.frag().mask) {
        fault(RunStatus::kIllegalInstruction, -1,
              "an .aligned instruction is executed by only part of the warp: its predicate differs between lanes");
    }
    absorb(x, Wait::kConverge);
    Fragment& f = x.frag();
    if (f.mask == x.warp->live) {   // run it again with all lanes
        f.pc = x.pc;
        f.wait = Wait::kNone;
        --x.worker->warp_counts[x.pc];
        x.worker->lane_counts[x.pc] -= lane_count(mask);
        x.flow = Flow::kResched;
        return false;
    }
    return block(x, mask == f.mask ? mask : f.mask, Wait::kConverge);
}

bool gather_members(Exec& x, uint32_t* mask, uint32_t members) {
    const uint32_t want = members & x.warp->live;
    if ((*mask & want) == want) {
        if (x.checker) [[unlikely]] x.checker->converged(x, want);
        return true;
    }
    if (*mask != x.frag().mask) return block(x, *mask, Wait::kMembers);
    const uint32_t before = x.frag().mask;
    absorb(x, Wait::kMembers);
    Fragment& f = x.frag();
    if ((f.mask & want) == want) {
        f.pc = x.pc;
        f.wait = Wait::kNone;
        --x.worker->warp_counts[x.pc];
        x.worker->lane_counts[x.pc] -= lane_count(before);
        x.flow = Flow::kResched;
        return false;
    }
    const bool result = block(x, f.mask, Wait::kMembers);
    x.worker->lane_counts[x.pc] += lane_count(x.frag().mask) - lane_count(before);
    return result;
}

// Lets the lanes of a membermask go on if all are here, the lanes of the executing fragment in `group`.
static bool release_members(Exec& x, uint32_t group, uint32_t members) {
    const uint32_t want = members & x.warp->live;
    uint32_t have = group;
    for (const auto& f : x.warp->fragments)
        if (f.wait == Wait::kWarpBarrier && f.wait_id == members) have |= f.mask;
    if ((have & want) != want) return false;
    if (x.checker) [[unlikely]] x.checker->warp_sync(*x.cta, x.warp->index, have & want);
    for (auto& f : x.warp->fragments) {
        if (f.wait != Wait::kWarpBarrier || f.wait_id != members) continue;
        f.wait = Wait::kNone;
        ++f.pc;
        if (f.pc - 1 != x.pc) ++x.worker->warp_counts[f.pc - 1];
        x.worker->lane_counts[f.pc - 1] += lane_count(f.mask);
    }
    return true;
}

bool warp_barrier(Exec& x, uint32_t mask, const uint32_t* members) {
    uint32_t waiting[kLanes], groups = 0;
    for (uint32_t left = mask; left != 0;) {
        const int first = std::countr_zero(left);
        uint32_t group = 0;
        for (int l = first; l < kLanes; ++l)
            if ((left >> l & 1) && members[l] == members[first]) group |= 1u << l;
        if ((members[first] & group) != group) {
            fault(RunStatus::kIllegalInstruction, std::countr_zero(group & ~members[first]),
                  "the lane is not in its own membermask");
        }
        if (!release_members(x, group, members[first])) waiting[groups++] = group;
        left &= ~group;
    }
    if (groups == 0) {
        if (x.warp->fragments.size() == 1) return true;
        x.target = x.pc + 1;   // look again for fragments to merge with
        x.flow = Flow::kJump;
        return false;
    }
    // Lanes of different membermasks wait apart.
    for (uint32_t i = 1; i < groups; ++i) {
        Fragment apart = x.frag();
        apart.mask = waiting[i];
        apart.pc = x.pc;
        apart.wait = Wait::kWarpBarrier;
        apart.wait_id = members[std::countr_zero(waiting[i])];
        apart.wait_epoch = x.cta->epoch;
        x.frag().mask &= ~waiting[i];
        x.worker->lane_counts[x.pc] -= lane_count(waiting[i]);
        x.warp->fragments.push_back(apart);
    }
    x.frag().wait_id = members[std::countr_zero(waiting[0])];
    return block(x, waiting[0], Wait::kWarpBarrier);
}

bool exit_lanes(Exec& x, uint32_t mask) {
    Warp& warp = *x.warp;
    Cta& cta = *x.cta;
    warp.live &= ~mask;
    cta.live_threads -= lane_count(mask);
    cta.cluster->live_threads -= lane_count(mask);
    Fragment& f = x.frag();
    f.mask &= ~mask;
    f.pc = x.pc + 1;
    if (f.mask == 0) {
        f = warp.fragments.back();
        warp.fragments.pop_back();
    }
    if (warp.live == 0) {
        --cta.live_warps;
        const size_t first = warp.index & ~3u;
        for (size_t w = first; w < std::min<size_t>(first + 4, cta.warps.size()); ++w)
            if (cta.warps[w].wgmma_count > warp.wgmma_count)
                fault(RunStatus::kIllegalInstruction, -1,
                      "the warp exits without a wgmma that warp " + std::to_string(w) +
                          " of its warpgroup has executed");
    }
    wake_warp(warp, false);
    for (auto& g : warp.fragments) {   // bar.warp.sync does not wait for lanes that have exited
        if (g.wait != Wait::kWarpBarrier) continue;
        uint32_t have = 0;
        for (const auto& h : warp.fragments)
            if (h.wait == Wait::kWarpBarrier && h.wait_id == g.wait_id) have |= h.mask;
        if ((have & g.wait_id & warp.live) != (g.wait_id & warp.live)) continue;
        const uint32_t id = g.wait_id;
        if (x.checker) [[unlikely]] x.checker->warp_sync(cta, warp.index, have & id);
        for (auto& h : warp.fragments) {
            if (h.wait != Wait::kWarpBarrier || h.wait_id != id) continue;
            h.wait = Wait::kNone;
            ++h.pc;
        }
    }
    ++cta.epoch;
    barrier_check(cta);
    cluster_barrier_check(*cta.cluster);
    x.flow = Flow::kResched;
    return false;
}

bool barrier_arrive(Exec& x, uint32_t mask, uint32_t id, uint32_t threads, bool aligned, bool wait, uint32_t value) {
    Cta& cta = *x.cta;
    if (id >= cta.barriers.size())
        fault(RunStatus::kIllegalInstruction, -1, "barrier " + std::to_string(id) + " is outside 0..15");
    if (threads % kLanes != 0) {
        fault(RunStatus::kIllegalInstruction, -1,
              "the thread count " + std::to_string(threads) + " of a barrier is not a multiple of 32");
    }
    NamedBarrier& b = cta.barriers[id];
    if (!b.active) {
        b.active = true;
        b.expected = threads;
        b.arrived = b.count_true = b.count_all = 0;
    } else if (b.expected != threads) {
        fault(RunStatus::kIllegalInstruction, -1,
              "barrier " + std::to_string(id) + " is used with " + std::to_string(threads) +
                  " threads while another warp waits with " + std::to_string(b.expected) + " (0: all)");
    }
    b.arrived += threads != 0 && aligned ? kLanes : lane_count(mask);
    b.count_all += lane_count(mask);
    b.count_true += lane_count(mask & value);
    if (threads != 0 && b.arrived > threads) {
        fault(RunStatus::kIllegalInstruction, -1,
              "barrier " + std::to_string(id) + ": " + std::to_string(b.arrived) + " threads arrive, " +
                  std::to_string(threads) + " are expected");
    }
    if (x.checker) [[unlikely]] x.checker->barrier_arrive(x, mask, id);
    if (wait) {
        x.frag().wait_id = id;
        block(x, mask, Wait::kBarrier);
        barrier_check(cta);
        return false;
    }
    barrier_check(cta);
    return true;
}

void cluster_barrier_check(Cluster& cluster) {
    if (cluster.arrived == 0 || cluster.arrived < cluster.live_threads) return;
    cluster.arrived = 0;
    ++cluster.generation;
    if (cluster.checker) [[unlikely]] cluster.checker->cluster_next();
    for (auto& cta : cluster.ctas) ++cta->epoch;
}

void barrier_check(Cta& cta) {
    for (uint32_t id = 0; id < cta.barriers.size(); ++id) {
        NamedBarrier& b = cta.barriers[id];
        if (!b.active || b.arrived < (b.expected != 0 ? b.expected : cta.live_threads)) continue;
        if (cta.live_threads == 0) continue;
        b.active = false;
        ++b.generation;
        ++cta.epoch;
        for (auto& warp : cta.warps) {
            for (auto& f : warp.fragments) {
                if (f.wait != Wait::kBarrier || f.wait_id != id) continue;
                if (cta.cluster->checker) [[unlikely]]
                    cta.cluster->checker->barrier_done(cta, warp.index, f.mask, id);
                const Insn& in = cta.program->code[f.pc];
                if (in.list_count != 0) {   // bar.red: [0] operation (0 popc, 1 and, 2 or), [1] destination
                    const uint32_t* list = cta.program->lists.data() + in.list;
                    uint8_t* place = warp.registers + list[1];
                    if (list[0] == 0) {
                        for (int lane = 0; lane < kLanes; ++lane)
                            if (f.mask >> lane & 1) reinterpret_cast<uint32_t*>(place)[lane] = b.count_true;
                    } else {
                        const bool result = list[0] == 1 ? b.count_true == b.count_all : b.count_true != 0;
                        uint32_t* p = reinterpret_cast<uint32_t*>(place);
                        *p = result ? *p | f.mask : *p & ~f.mask;
                    }
                }
                f.wait = Wait::kNone;
                ++f.pc;
            }
        }
        if (cta.cluster->checker) [[unlikely]] cta.cluster->checker->barrier_next(cta, id);
    }
}

namespace {

AsyncOp& issue(Exec& x, AsyncOp& op, AsyncKind kind, int lane) {
    op.kind = kind;
    op.pc = x.pc;
    op.warp = x.warp->index;
    op.lane = lane;
    op.mask = 1u << lane;
    set_delay(*x.cta->cluster, op);
    if (x.profile) x.profile->issued(x, op);
    return op;
}

}   // namespace

AsyncOp& queue_unordered(Exec& x, AsyncKind kind, int lane) {
    return issue(x, x.cta->unordered.emplace_back(), kind, lane);
}

AsyncOp& queue_tensor(Exec& x, AsyncKind kind, int lane) {
    return issue(x, x.cta->tensor_queue.emplace_back(), kind, lane);
}

bool async_done(const Cta& cta, uint32_t warp, uint32_t lanes, AsyncKind first, AsyncKind last,
                const uint32_t* below_group, bool read_only) {
    for (const auto& op : cta.unordered) {
        if (op.warp != warp || !(op.mask & lanes) || op.kind < first || op.kind > last || !op.grouped) continue;
        if (read_only && op.read_done) continue;
        if (op.group < below_group[op.lane]) return false;
    }
    return true;
}

// ---- the cluster ----

void Worker::set_up_exec(Cta& cta, Warp& warp) {
    exec.base[0] = warp.registers;
    exec.base[1] = const_cast<uint8_t*>(cta.constants);
    exec.cta = &cta;
    exec.warp = &warp;
    exec.definedness = cta.definedness.get();
    exec.checker = cta.cluster->checker.get();
    if (exec.checker) exec.checker->attach(*this);
}

Dim3 Worker::cluster_id(uint64_t linear) const {
    const uint32_t across = launch->grid.x / launch->cluster.x, down = launch->grid.y / launch->cluster.y;
    return {static_cast<uint32_t>(linear % across), static_cast<uint32_t>(linear / across % down),
            static_cast<uint32_t>(linear / across / down)};
}

bool cancel_cluster(Exec& x, Dim3* first) {
    Cluster& cluster = *x.cta->cluster;
    uint64_t linear = 0;
    if (cluster.adversarial && cluster.random.below(8) == 0) return false;
    if (!x.worker->residency->cancel(&linear)) return false;
    const Dim3 id = x.worker->cluster_id(linear), &size = x.worker->launch->cluster;
    *first = {id.x * size.x, id.y * size.y, id.z * size.z};
    return true;
}

void Worker::start_cluster(uint64_t linear) {
    Cluster& cluster = *current;
    const Dim3 &grid = launch->grid, &size = launch->cluster;
    const uint32_t ctas = size.x * size.y * size.z;
    cluster.linear = linear;
    cluster.id = cluster_id(linear);
    cluster.adversarial = device->seed != 0;
    cluster.random.state = mix(mix(device->seed) + linear) | 1;
    cluster.live_ctas = ctas;
    cluster.live_threads = ctas * launch->block.x * launch->block.y * launch->block.z;
    cluster.arrived = cluster.generation = 0;
    cluster.time = cluster.serial = cluster.event_order = 0;
    cluster.hopeless = cluster.current_warp = 0;
    cluster.sliced = false;
    while (cluster.ctas.size() < ctas) cluster.ctas.push_back(std::make_unique<Cta>());

    for (uint32_t rank = 0; rank < ctas; ++rank) {
        Cta& cta = *cluster.ctas[rank];
        cta.cluster = &cluster;
        cta.rank = rank;
        cta.shared_base = rank << kRankShift;
        const bool own = rank != 0 && !rank_constants->empty();
        cta.constants = own ? (*rank_constants)[rank - 1].data() : program->constants.data();
        cta.id = {cluster.id.x * size.x + rank % size.x, cluster.id.y * size.y + rank / size.x % size.y,
                  cluster.id.z * size.z + rank / size.x / size.y};
        cta.linear = cta.id.x + static_cast<uint64_t>(grid.x) * (cta.id.y + static_cast<uint64_t>(grid.y) * cta.id.z);
        start_cta(cta);
    }
    if (profile) profile->start(cluster);
    if (!device->check) return;
    if (!cluster.checker) cluster.checker = std::make_shared<Checker>();
    cluster.checker->attach(*this);
    cluster.checker->start(cluster, *shadow);
}

void Worker::start_cta(Cta& cta) {
    Cluster& cluster = *current;
    const Program& p = *program;
    const Launch& l = *launch;
    cta.program = program;
    cta.launch = launch;
    cta.adversarial = cluster.adversarial;
    // Seed 0 leaves NaNs of every format; other seeds leave noise that can never look like an mbarrier object.
    const uint64_t poison = cluster.adversarial ? cluster.random.next() | 0x8080808080808080ull : ~0ull;

    cta.shared_bytes = kSharedBase + p.static_shared_bytes;
    if (l.dynamic_shared_bytes != 0)
        cta.shared_bytes = dynamic_shared_begin(p.static_shared_bytes) + l.dynamic_shared_bytes;
    cta.shared.resize(cta.shared_bytes);
    fill(cta.shared.data(), cta.shared.size(), poison);
    cta.threads = l.block.x * l.block.y * l.block.z;
    const uint32_t warps = (cta.threads + kLanes - 1) / kLanes;
    cta.register_file.resize(static_cast<size_t>(warps) * p.register_bytes + 64);
    cta.local_memory.resize(static_cast<size_t>(warps) * kLanes * p.local_bytes);
    fill(cta.local_memory.data(), cta.local_memory.size(), poison);
    cta.warps.resize(warps);
    cta.live_threads = cta.threads;
    cta.live_warps = warps;
    cta.barriers = {};
    cta.mbarriers.clear();
    cta.tmem.reset();
    cta.pair_call = {};
    cta.cta_group = 0;
    cta.unordered.clear();
    cta.tensor_queue.clear();
    cta.tensor_head = 0;
    cta.epoch = 0;

    uint8_t* registers = cta.register_file.data();
    registers += (64 - reinterpret_cast<uintptr_t>(registers) % 64) % 64;
    for (uint32_t w = 0; w < warps; ++w) {
        Warp& warp = cta.warps[w];
        const uint32_t in_warp = std::min<uint32_t>(kLanes, cta.threads - w * kLanes);
        warp = Warp();
        warp.index = w;
        warp.live = in_warp == kLanes ? kFullMask : (1u << in_warp) - 1;
        warp.registers = registers + static_cast<size_t>(w) * p.register_bytes;
        for (const SlotRange& r : p.poisoned) fill(warp.registers + r.begin, r.end - r.begin, poison);
        warp.local = cta.local_memory.data() + static_cast<size_t>(w) * kLanes * p.local_bytes;
        warp.fragments.reserve(4);
        warp.fragments.emplace_back();
        warp.fragments[0].mask = warp.live;
        warp.frames.push_back({0, 0});
        for (const auto& s : p.specials) {
            if (s.special == Special::kIsExplicitCluster) {
                const uint32_t value = special_value(s.special, cta, w, 0, *device) ? kFullMask : 0;
                std::memcpy(warp.registers + s.slot, &value, 4);
                continue;
            }
            for (uint32_t lane = 0; lane < kLanes; ++lane) {
                const uint64_t value = special_value(s.special, cta, w, lane, *device);
                if (s.wide) std::memcpy(warp.registers + s.slot + lane * 8, &value, 8);
                else std::memcpy(warp.registers + s.slot + lane * 4, &value, 4);
            }
        }
    }
    if (device->check) {
        if (!cta.definedness) cta.definedness = std::make_shared<Definedness>();
        cta.definedness->start(p, cta);
    }
}

bool warp_ready(const Warp& warp, const Cta& cta) {
    for (const auto& f : warp.fragments)
        if (ready(f, cta)) return true;
    return false;
}

// Counted through the CTAs of the cluster; -1: none is ready.
int Worker::pick_warp() {
    Cluster& cluster = *current;
    const uint32_t in_cta = static_cast<uint32_t>(cluster.ctas[0]->warps.size());
    const uint32_t n = in_cta * static_cast<uint32_t>(cluster.ctas.size());
    const uint32_t start = cluster.adversarial ? cluster.random.below(n) : cluster.current_warp;
    uint32_t rank = start / in_cta, w = start % in_cta;
    for (uint32_t i = 0; i < n; ++i) {
        const Cta& cta = *cluster.ctas[rank];
        if (warp_ready(cta.warps[w], cta)) return static_cast<int>(rank * in_cta + w);
        if (++w < in_cta) continue;
        w = 0;
        if (++rank == cluster.ctas.size()) rank = 0;
    }
    return -1;
}

// The ready fragment with the lowest pc that has not yielded, merged with the others at its pc. *limit: the pc where
// another ready fragment stands.
int Worker::pick_fragment(Warp& warp, uint32_t* limit) {
    const Cta& cta = *exec.cta;
    auto& fragments = warp.fragments;
    *limit = UINT32_MAX;
    if (fragments.size() == 1) {
        fragments[0].yielded = false;
        return ready(fragments[0], cta) ? 0 : -1;
    }
    for (int round = 0; round < 2; ++round) {
        int best = -1;
        for (size_t i = 0; i < fragments.size(); ++i) {
            if (!ready(fragments[i], cta) || fragments[i].yielded) continue;
            if (best < 0 || fragments[i].pc < fragments[best].pc) best = static_cast<int>(i);
        }
        if (best < 0) {
            for (auto& f : fragments) f.yielded = false;
            continue;
        }
        for (size_t i = 0; i < fragments.size();) {
            Fragment& f = fragments[i];
            if (static_cast<int>(i) == best || f.pc != fragments[best].pc || f.stack != fragments[best].stack ||
                !ready(f, cta)) {
                ++i;
                continue;
            }
            fragments[best].mask |= f.mask;
            if (best == static_cast<int>(fragments.size()) - 1) best = static_cast<int>(i);
            f = fragments.back();
            fragments.pop_back();
        }
        for (size_t i = 0; i < fragments.size(); ++i) {
            const Fragment& f = fragments[i];
            if (static_cast<int>(i) != best && f.pc > fragments[best].pc && !f.yielded && ready(f, cta))
                *limit = std::min(*limit, f.pc);
        }
        return best;
    }
    return -1;
}

// kObserved: definedness is checked or what happens is recorded.
template <bool kObserved>
uint32_t Worker::run_warp(Warp& warp, uint32_t budget) {
    const Insn* code = program->code.data();
    uint32_t executed = 0;
    while (executed < budget) {
        uint32_t limit;
        const int picked = pick_fragment(warp, &limit);
        if (picked < 0) break;
        exec.fragment = static_cast<uint32_t>(picked);
        Fragment& start = warp.fragments[picked];
        start.wait = Wait::kNone;
        const bool alone = warp.fragments.size() == 1;
        uint32_t pc = start.pc;
        const uint32_t mask = start.mask;
        bool stored = false, yielded = false;
        do {
            const Insn& in = code[pc];
            if constexpr (kObserved) {
                exec.pc = pc;
                if (warp.tmem_loads != 0) finish_tmem_loads_used(exec);
                if (exec.definedness) exec.definedness->before(exec, in, mask);
            }
            const uint32_t m = mask & (*exec.at<uint32_t>(in.guard) ^ in.guard_flip);
            if constexpr (kObserved) {
                if (m != 0 && exec.checker && exec.checker->watches_registers()) exec.checker->registers(exec);
            }
            ++executed;
            if (m != 0) {
                ++warp_counts[pc];
                lane_counts[pc] += lane_count(m);
                exec.pc = pc;
                if constexpr (kObserved) {
                    if (exec.profile) exec.profile->before(exec, in, m);
                }
                const bool next = in.handler(exec, in, m);
                if constexpr (kObserved) {
                    if (exec.profile) exec.profile->after(exec, in, m, next);
                }
                if (!next) [[unlikely]] {
                    if (exec.flow == Flow::kResched) {
                        stored = true;
                        break;
                    }
                    if (exec.flow == Flow::kYield) {
                        warp.fragments[exec.fragment].pc = pc + 1;
                        warp.fragments[exec.fragment].yielded = true;
                        stored = yielded = true;
                        break;
                    }
                    const bool backward = exec.target <= pc;
                    pc = exec.target;
                    if (alone) continue;
                    Fragment& f = warp.fragments[exec.fragment];
                    f.pc = pc;
                    if (backward && ++f.spins >= kSpinsBeforeYield) {
                        f.spins = 0;
                        f.yielded = true;
                    }
                    stored = true;
                    break;
                }
            }
            ++pc;
        } while (executed < budget && pc < limit);
        if (!stored) warp.fragments[exec.fragment].pc = pc;
        if (yielded) break;
    }
    return executed;
}

void Worker::run_completion(Cta& cta, AsyncOp& op) {
    Cluster& cluster = *current;
    cluster.event_order = mix(cluster.event_order ^ (op.serial << 1 | 1));
    set_up_exec(cta, cta.warps[op.warp]);
    exec.pc = op.pc;
    if (exec.profile) exec.profile->completing(exec, op);
    complete(exec, op);
    ++cta.epoch;
}

// Completions may queue nothing, but they change epochs.
void Worker::drain_async(bool stuck) {
    Cluster& cluster = *current;
    if (!cluster.adversarial) {
        for (auto& owner : cluster.ctas) {
            Cta& cta = *owner;
            std::vector<AsyncOp> batch;
            batch.swap(cta.unordered);
            for (AsyncOp& op : batch) run_completion(cta, op);
            while (cta.tensor_head < cta.tensor_queue.size()) {
                AsyncOp op = std::move(cta.tensor_queue[cta.tensor_head++]);
                run_completion(cta, op);
            }
            cta.tensor_queue.clear();
            cta.tensor_head = 0;
        }
        return;
    }
    const auto finish_unordered = [this](Cta& cta, size_t i) {
        AsyncOp op = std::move(cta.unordered[i]);
        if (i + 1 != cta.unordered.size()) cta.unordered[i] = std::move(cta.unordered.back());
        cta.unordered.pop_back();
        run_completion(cta, op);
    };
    const auto finish_tensor = [this](Cta& cta) {
        AsyncOp op = std::move(cta.tensor_queue[cta.tensor_head++]);
        if (cta.tensor_head == cta.tensor_queue.size()) {
            cta.tensor_queue.clear();
            cta.tensor_head = 0;
        }
        run_completion(cta, op);
    };
    bool any = false;
    while (true) {
        // One of the operations that are due: any unordered one, and with equal chance the tensor core's next.
        uint32_t due = 0, tensors_due = 0;
        Cta *owner = nullptr, *tensor_owner = nullptr;
        size_t chosen = 0;
        for (auto& cta : cluster.ctas) {
            for (size_t i = 0; i < cta->unordered.size(); ++i) {
                if (cta->unordered[i].due > cluster.time || cluster.random.below(++due) != 0) continue;
                chosen = i;
                owner = cta.get();
            }
            if (cta->tensor_head == cta->tensor_queue.size() || cta->tensor_queue[cta->tensor_head].due > cluster.time)
                continue;
            if (++tensors_due == 1 || cluster.random.below(tensors_due) == 0) tensor_owner = cta.get();
        }
        if (due == 0 && tensors_due == 0) break;
        any = true;
        if (tensors_due != 0 && (due == 0 || cluster.random.below(2) == 0)) finish_tensor(*tensor_owner);
        else finish_unordered(*owner, chosen);
    }
    if (any || !stuck) return;
    uint32_t n = 0;
    for (const auto& cta : cluster.ctas)
        n += static_cast<uint32_t>(cta->unordered.size()) + (cta->tensor_head < cta->tensor_queue.size() ? 1 : 0);
    if (n == 0) return;
    uint32_t pick = cluster.random.below(n);
    for (auto& cta : cluster.ctas) {
        if (pick < cta->unordered.size()) return finish_unordered(*cta, pick);
        pick -= static_cast<uint32_t>(cta->unordered.size());
        if (cta->tensor_head == cta->tensor_queue.size()) continue;
        if (pick == 0) return finish_tensor(*cta);
        --pick;
    }
}

bool Worker::force_pollers() {
    Cluster& cluster = *current;
    if (++cluster.hopeless > kHopelessRounds) return false;
    bool any = false;
    for (auto& cta : cluster.ctas) {
        for (auto& warp : cta->warps) {
            for (auto& f : warp.fragments) {
                if (f.wait != Wait::kMbarrier) continue;
                f.forced = true;
                f.wait = Wait::kNone;
                any = true;
            }
        }
    }
    return any;
}

// What a fragment waits for, and how far that is.
std::string waits_text(const Fragment& f, const Cta& cta) {
    switch (f.wait) {
        case Wait::kConverge: return " for the other lanes of the warp (.aligned)";
        case Wait::kMembers:
        case Wait::kWarpBarrier: return " for the lanes of its membermask";
        case Wait::kBarrier: {
            const NamedBarrier& b = cta.barriers[f.wait_id];
            return " for barrier " + std::to_string(f.wait_id) + " (" + std::to_string(b.arrived) + " of " +
                   std::to_string(b.expected != 0 ? b.expected : cta.live_threads) + " threads arrived)";
        }
        case Wait::kCluster:
            return " for barrier.cluster (" + std::to_string(cta.cluster->arrived) + " of " +
                   std::to_string(cta.cluster->live_threads) + " threads arrived)";
        case Wait::kMbarrier: {
            const std::string place = shared_place(*cta.program, f.wait_address);
            std::string text = " for mbarrier " + hex(f.wait_address) + (place.empty() ? "" : " (" + place + ")") +
                               " to complete phase " + std::to_string(f.wait_phase);
            const uint32_t offset = f.wait_address - cta.shared_base;
            if (offset + 8 > cta.shared_bytes) return text;
            uint64_t word;
            std::memcpy(&word, cta.shared.data() + offset, 8);
            const MbarrierState s = mbarrier_unpack(word);
            if (!s.valid) return text + " (not a valid mbarrier object)";
            return text + " (now phase parity " + std::to_string(s.phase & 1) + ", pending arrivals " +
                   std::to_string(s.pending) + " of " + std::to_string(s.expected) + ", tx-count " +
                   std::to_string(s.tx) + ")";
        }
        case Wait::kAsync: return " for its asynchronous operations";
        case Wait::kTmem:
            return std::string(" for Tensor Memory columns") +
                   (cta.pair_call.state == PairCall::State::kPosted ? ", or the peer CTA's call" : "");
        case Wait::kNone: break;
    }
    return " (spins)";
}

// Every fragment of the cluster, where it stands and what it waits for.
std::string Worker::waiters_text(bool* all_aligned) const {
    const Cluster& cluster = *current;
    std::string text;
    *all_aligned = true;
    int shown = 0;
    for (const auto& cta : cluster.ctas) {
        for (const auto& warp : cta->warps) {
            for (const auto& f : warp.fragments) {
                const InsnInfo& info = program->info[f.pc];
                if (f.wait != Wait::kConverge && f.wait != Wait::kMembers) *all_aligned = false;
                if (++shown > 16) continue;
                text += "; ";
                if (cluster.ctas.size() > 1) text += "rank " + std::to_string(cta->rank) + " ";
                text += "warp " + std::to_string(warp.index) + " lanes 0x";
                char mask[16];
                std::snprintf(mask, sizeof mask, "%08x", f.mask);
                text += mask;
                text += " at line " + std::to_string(info.line) + " `" + info.text + "`" + waits_text(f, *cta);
            }
        }
    }
    if (shown > 16) text += "; and " + std::to_string(shown - 16) + " more";
    return text;
}

void Worker::report_deadlock() {
    bool aligned = false;
    const std::string text = waiters_text(&aligned);
    exec.warp = nullptr;
    if (aligned) fault(RunStatus::kIllegalInstruction, -1, "a diverged warp waits for itself" + text);
    deadlock("deadlock: nothing can run" + text);
}

// The finding's side is the first that waits for an mbarrier, or else the first of all.
void Worker::deadlock(const std::string& what) {
    Fault f{RunStatus::kDeadlock, what, -1, "deadlock", {}, 0, 0, {}};
    exec.warp = nullptr;
    for (const bool any : {false, true}) {
        for (auto& cta : current->ctas) {
            for (Warp& warp : cta->warps) {
                for (const Fragment& fragment : warp.fragments) {
                    if (exec.warp != nullptr || !(any || fragment.wait == Wait::kMbarrier)) continue;
                    exec.cta = cta.get();
                    exec.warp = &warp;
                    exec.pc = fragment.pc;
                    f.would_order = "what ends the wait" + waits_text(fragment, *cta);
                    if (any) continue;
                    f.space = "shared";
                    f.address = fragment.wait_address;
                    f.bytes = 8;
                }
            }
        }
    }
    throw f;
}

void Worker::report_endless_polls() {
    bool aligned = false;
    const std::string text = waiters_text(&aligned);
    const Residency::Counts counts = residency->counts();
    const std::string unit = launch->cluster.x * launch->cluster.y * launch->cluster.z == 1 ? " CTA" : " cluster";
    const auto number = [&unit](uint64_t n) { return std::to_string(n) + unit + (n == 1 ? "" : "s"); };
    std::string what = "deadlock: ";
    what += counts.resident == 1 ? "the only resident" + unit + " polls" : "all " + number(counts.resident) +
                                                                               " that are resident poll";
    what += " memory that nothing changes";
    if (counts.unstarted != 0) {
        what += "; " + number(counts.unstarted) + " of the grid cannot start, for the device holds " +
                std::to_string(counts.capacity) + " at once";
    }
    deadlock(what + text);
}

// Does an operation that this CTA issued still read or write memory of the CTA of this rank? Copies and arrivals that
// nobody waits for any more do not count.
bool in_use(const AsyncOp& op, const Cta& issuer, uint32_t rank) {
    const bool own = issuer.rank == rank;
    switch (op.kind) {
        case AsyncKind::kCopy:
        case AsyncKind::kCopyArrive:
        case AsyncKind::kGlobalAsync: return false;
        case AsyncKind::kTensorLoad:
        case AsyncKind::kBulkLoad:
        case AsyncKind::kCancel:
        case AsyncKind::kStoreAsync: return op.shared >> kRankShift == rank || op.mbarrier >> kRankShift == rank;
        case AsyncKind::kBulkSharedCopy:
        case AsyncKind::kBulkSharedReduce: return own || op.shared >> kRankShift == rank;
        case AsyncKind::kCommit: return !own && op.mbarrier >> kRankShift == rank;
        case AsyncKind::kMma: return own || (op.cta_group == 2 && issuer.rank == (rank ^ 1));
        default: return own;
    }
}

// Bulk and tensor stores that still read this CTA's shared memory: the manual wants wait_group.read before the memory
// goes, but known-good kernels (CUTLASS's epilogues without a source) exit, and the hardware keeps it for the copies.
// Loads into it that nobody has waited for (a prefetch behind the last tile of a Gluon tutorial) are an error of the
// checks; without them they complete, too.
void Worker::finish_copies(Cta& cta) {
    const auto finishes = [&cta](const AsyncOp& op) {
        return op.kind == AsyncKind::kTensorStore || op.kind == AsyncKind::kTensorReduce ||
               op.kind == AsyncKind::kBulkStore || op.kind == AsyncKind::kBulkReduce ||
               (!cta.cluster->checker && (op.kind == AsyncKind::kTensorLoad || op.kind == AsyncKind::kBulkLoad) &&
                op.shared >> kRankShift == cta.rank && op.mbarrier >> kRankShift == cta.rank);
    };
    for (size_t i = 0; i < cta.unordered.size();) {
        if (!finishes(cta.unordered[i])) {
            ++i;
            continue;
        }
        AsyncOp op = std::move(cta.unordered[i]);
        cta.unordered.erase(cta.unordered.begin() + static_cast<long>(i));
        if (cta.cluster->checker) {
            set_up_exec(cta, cta.warps[op.warp]);
            exec.pc = op.pc;
            warn(exec, "exit-in-flight", "the CTA exits while this store reads its shared memory: "
                                         "cp.async.bulk.wait_group.read is missing");
        }
        cta.finishing = true;
        run_completion(cta, op);
        cta.finishing = false;
    }
}

void Worker::finish_cta(Cta& cta) {
    finish_copies(cta);
    for (auto& issuer : current->ctas) {
        const AsyncOp* pending = nullptr;
        for (size_t i = issuer->tensor_head; i < issuer->tensor_queue.size(); ++i)
            if (in_use(issuer->tensor_queue[i], *issuer, cta.rank)) pending = &issuer->tensor_queue[i];
        for (const auto& op : issuer->unordered)
            if (in_use(op, *issuer, cta.rank)) pending = &op;
        if (!pending) continue;
        exec.cta = issuer.get();
        exec.warp = &issuer->warps[pending->warp];
        exec.pc = pending->pc;
        throw Fault{RunStatus::kLaunchFailed,
                    (issuer.get() == &cta ? "the CTA" : "the CTA of rank " + std::to_string(cta.rank)) +
                        std::string(" exits while this asynchronous operation is in flight"),
                    pending->lane, "exit-in-flight", {}, 0, 0, "a wait for its end before the CTA exits"};
    }
    exec.cta = &cta;
    exec.warp = nullptr;
    // What goes elsewhere stays in flight.
    std::erase_if(cta.unordered, [](const AsyncOp& op) {
        return op.kind == AsyncKind::kCopy || op.kind == AsyncKind::kCopyArrive;
    });
    cta.tensor_queue.erase(cta.tensor_queue.begin(), cta.tensor_queue.begin() + static_cast<long>(cta.tensor_head));
    cta.tensor_head = 0;
    std::erase_if(cta.tensor_queue, [&cta](const AsyncOp& op) { return op.mbarrier >> kRankShift == cta.rank; });
    if (cta.tmem && cta.tmem->allocated_columns() != 0) {
        fault(RunStatus::kLaunchFailed, "exit-tmem-held", -1,
              "the CTA exits with " + std::to_string(cta.tmem->allocated_columns()) +
                  " columns of Tensor Memory allocated");
    }
    if (exec.checker) exec.checker->finish(cta);
}

bool poll(Exec& x, const Insn& in, uint32_t mask, uint64_t seen) {
    Warp& warp = *x.warp;
    seen = mix(seen ^ mask);
    Warp::Poll& last = warp.polls[(x.pc ^ static_cast<uint32_t>(std::countr_zero(mask))) % warp.polls.size()];
    if (last.pc != x.pc || last.seen != seen) {
        last = {x.pc, seen};
        warp.vain_polls = 0;
        return true;
    }
    warp.poll_loop = in.flags & kPollLoop;
    warp.executed_since_poll = 0;
    if (++warp.vain_polls < kVainPolls) return true;
    x.flow = Flow::kYield;
    return false;
}

void Worker::note_progress() {
    if (progressed) return;
    progressed = true;
    residency->busy();
}

// Runs the cluster for a turn and hands it back unless it has ended.
Turn Worker::run_turn() {
    current = choice.cluster.get();
    exec.program = program;
    exec.lists = program->lists.data();
    exec.memory = memory;
    exec.device = device;
    exec.worker = this;
    exec.profile = profile.get();
    progressed = false;
    if (choice.fresh) {
        start_cluster(choice.linear);
        note_progress();
    }
    const Turn turn = run_cluster();
    if (progressed) residency->idle();
    if (turn == Turn::kEnded) {
        if (profile) profile->finish(exec);
        event_order += mix(current->event_order ^ current->linear);
        residency->ended();
    } else if (turn != Turn::kStopped && !residency->give_back(choice.cluster, turn, progressed)) {
        report_endless_polls();
    }
    return turn;
}

Turn Worker::run_cluster() {
    Cluster& cluster = *current;
    const uint32_t in_cta = static_cast<uint32_t>(cluster.ctas[0]->warps.size());
    const uint32_t warps = in_cta * static_cast<uint32_t>(cluster.ctas.size());
    const uint64_t limit =
        max_instructions > ~0ull / cluster.ctas.size() ? ~0ull : max_instructions * cluster.ctas.size();
    uint64_t slice_end = cluster.time + kSliceInstructions;
    if (cluster.adversarial) slice_end = cluster.time + (512ull << cluster.random.below(12));
    uint32_t vain_rounds = 0;   // warps in a row that only polled
    const auto pending = [&cluster] {
        for (const auto& cta : cluster.ctas)
            if (cta->async_pending()) return true;
        return false;
    };
    while (true) {
        const int picked = pick_warp();
        if (picked < 0) {
            const uint64_t before = cluster.events();
            if (pending()) {
                drain_async(true);
                if (cluster.events() != before) cluster.hopeless = 0;
                continue;
            }
            if (!force_pollers()) report_deadlock();
            continue;
        }
        const uint32_t w = static_cast<uint32_t>(picked);
        const uint64_t before = cluster.events();
        Cta& cta = *cluster.ctas[w / in_cta];
        Warp& warp = cta.warps[w % in_cta];
        cluster.current_warp = w;
        cluster.event_order = mix(cluster.event_order ^ static_cast<uint64_t>(w) << 1);
        uint32_t quantum = kPlainQuantum;
        if (cluster.adversarial)
            quantum = cluster.random.below(8) == 0 ? 1 + cluster.random.below(2048) : 1 + cluster.random.below(48);
        set_up_exec(cta, warp);
        const bool observed = cluster.adversarial || exec.definedness != nullptr || exec.profile != nullptr;
        const uint32_t executed =
            std::max(1u, observed ? run_warp<true>(warp, quantum) : run_warp<false>(warp, quantum));
        cluster.time += executed;
        warp.executed_since_poll += executed;
        const bool polls = warp.vain_polls >= kVainPolls && warp.executed_since_poll < kPollReach + quantum;
        if (!cluster.adversarial && (warp.fragments.size() <= 1 || polls))
            cluster.current_warp = w + 1 < warps ? w + 1 : 0;
        if (cta.exited()) {
            finish_cta(cta);
            if (--cluster.live_ctas == 0) {
                while (pending()) drain_async(true);   // stores to global memory
                return Turn::kEnded;
            }
        }
        drain_async(false);
        const bool happened = cluster.events() != before;
        if (happened) cluster.hopeless = 0;
        if (happened || !polls || !warp.poll_loop) note_progress();
        vain_rounds = polls && !happened ? vain_rounds + 1 : 0;
        if (cluster.time > limit) {
            fault(RunStatus::kDeadlock, -1,
                  std::string("the ") + (cluster.ctas.size() == 1 ? "CTA" : "cluster") + " ran " +
                      std::to_string(cluster.time) + " warp instructions (PTXEMU_MAX_INSTRUCTIONS)");
        }
        if (stop->load(std::memory_order_relaxed)) return Turn::kStopped;
        if (vain_rounds > 2 * warps + 8) {
            if (!pending()) return Turn::kPolls;
            drain_async(true);
            note_progress();
        }
        if (cluster.time >= slice_end) return Turn::kSliced;
    }
}

void Worker::report_finding(Finding finding) {
    finding.kernel = program->name;
    if (finding.bytes != 0) finding.place = place_of(finding.space, finding.address, finding.bytes);
    if (!findings->add(std::move(finding))) fault(RunStatus::kFindings, -1, "too many findings");
}
void report(Exec& x, Finding finding) { x.worker->report_finding(std::move(finding)); }

void warn(Exec& x, const char* code, const std::string& what) {
    Finding f;
    f.code = code;
    f.severity = Severity::kWarning;
    f.party = x.worker->party_at(x.pc);
    f.party.role = "warp " + std::to_string(x.warp->index);
    f.what = what;
    report(x, std::move(f));
}

std::string Worker::place_of(const std::string& space, uint64_t address, uint64_t bytes) const {
    if (space == "global") return global_place(*program, *launch, *memory, address, bytes);
    return space == "shared" ? shared_place(*program, address) : std::string();
}

Party Worker::party_at(uint32_t pc) const {
    Party p;
    p.pc = pc;
    if (exec.cta) p.cta[0] = exec.cta->id.x, p.cta[1] = exec.cta->id.y, p.cta[2] = exec.cta->id.z;
    if (pc >= program->info.size()) return p;
    const InsnInfo& info = program->info[pc];
    p.ptx_line = info.line;
    p.instruction = info.text;
    if (info.source_line != 0 && info.source_file > 0 &&
        static_cast<size_t>(info.source_file) < program->source_files.size()) {
        p.source = program->source_files[static_cast<size_t>(info.source_file)] + ":" +
                   std::to_string(info.source_line);
    }
    return p;
}

Finding Worker::fault_finding(const Fault& fault) const {
    Finding f;
    f.code = fault.code;
    f.party = party_at(exec.pc);
    if (exec.warp) f.party.role = "warp " + std::to_string(exec.warp->index);
    if (exec.warp && fault.lane >= 0) f.party.role += ", lane " + std::to_string(fault.lane);
    f.what = fault.what;
    f.kernel = program->name;
    f.space = fault.space;
    f.address = fault.address;
    f.bytes = fault.bytes;
    f.would_order = fault.would_order;
    f.place = place_of(f.space, f.address, f.bytes);
    return f;
}

std::string Worker::fault_text(const Fault& f) const {
    std::string text = "kernel " + program->name;
    if (exec.pc < program->info.size()) {
        const InsnInfo& info = program->info[exec.pc];
        if (!program->function_of[exec.pc].empty()) text += ", function " + program->function_of[exec.pc];
        text += ", PTX line " + std::to_string(info.line) + " `" + info.text + "`";
        if (info.source_line != 0 && info.source_file > 0 &&
            static_cast<size_t>(info.source_file) < program->source_files.size()) {
            text += " (" + program->source_files[info.source_file] + ":" + std::to_string(info.source_line) + ")";
        }
    }
    if (exec.cta) {
        text += ", CTA " + coordinates(exec.cta->id);
        if (exec.cta->cluster->ctas.size() > 1) text += " of rank " + std::to_string(exec.cta->rank);
    }
    if (exec.warp) text += ", warp " + std::to_string(exec.warp->index);
    if (f.lane >= 0) text += ", lane " + std::to_string(f.lane);
    return text + ": " + f.what;
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// The accesses of threads and asynchronous operations, each held against those before it that touched the same memory.
#include <algorithm>
#include <bit>

#include "checker.h"
#include "scheduler.h"
#include "tma.h"

namespace ptxemu {
namespace {

template <class F>
void each_lane(uint32_t mask, F f) {
    for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

constexpr uint32_t kCellBytes = 32;
uint32_t parts_of(uint32_t first, uint32_t bytes) {
    return (bytes >= 32 ? ~0u : (1u << bytes) - 1) << first;
}

bool alike(const Record& r, const Record& a) {
    return r.agent == a.agent && r.clock == a.clock && r.pc == a.pc && r.flags == a.flags && r.kind == a.kind &&
           r.unit == a.unit;
}

constexpr uint8_t kStrongToAll = Record::strong(Scope::kGpu);
constexpr size_t kMaxReaders = 12;   // of a cell of global memory; of shared memory all are kept

}   // namespace

uint32_t Record::lanes_of(uint32_t overlap) const {
    if (width == 0) return lanes;
    uint32_t found = 0;
    overlap &= parts;
    each_lane(lanes, [&](uint32_t lane) {   // at most 32 / width of them have a part in this cell
        const int first = origin + static_cast<int>(lane * width);
        if (first <= -static_cast<int>(width) || first >= static_cast<int>(kCellBytes)) return;
        const uint32_t all = width >= 32 ? ~0u : (1u << width) - 1;
        if (overlap & (first >= 0 ? all << first : all >> -first)) found |= 1u << lane;
    });
    return found;
}

Record Checker::record_of(const Exec& x, uint32_t warp, uint32_t lanes) const {
    Record a;
    a.clock = a.issue = warps_[warp].time;
    a.pc = x.pc;
    a.lanes = lanes;
    a.unit = unit_;
    a.agent = static_cast<uint16_t>(warp * kPerThread);
    a.warp = static_cast<uint16_t>(warp);
    return a;
}

bool Checker::thread_known(const std::vector<uint32_t>& clock, const LaneAgents& agents, uint32_t warp, uint32_t lanes,
                           uint32_t time, uint32_t which) {
    if (VectorClock::at(clock, warp * kPerThread + which) >= time) return true;
    bool known = lanes != 0;
    each_lane(lanes, [&](uint32_t lane) {
        const uint32_t agent = agents[warp * kLanes + lane];
        if (agent == 0 || VectorClock::at(clock, agent + which) < time) known = false;
    });
    return known;
}

// Whether r, of another cluster, was handed to this one through global memory.
Checker::Order Checker::foreign_order(const Record& r, uint32_t overlap, const Group& group) const {
    const auto holds = [&](const Import& i, const std::vector<uint32_t>& known) {
        if (r.kind != AgentKind::kThread) return VectorClock::at(known, r.agent) >= r.clock;
        return thread_known(known, *i.agents, r.warp, r.lanes_of(overlap), r.clock, kRaw);
    };
    bool narrow = false;
    for (const Import& i : imports_) {
        if (i.unit != r.unit) continue;
        const bool imported = VectorClock::at(group.clock.loose, i.index) >= i.clock;
        if (imported && holds(i, i.known->loose)) return Order::kOrdered;
        if (imported || VectorClock::at(group.clock.narrow, i.index) >= i.clock)
            narrow = narrow || holds(i, i.known->loose) || holds(i, i.known->narrow);
    }
    return narrow ? Order::kNarrow : Order::kRace;
}

Scope Checker::distance(const Record& r, const Record& a) const {
    if (r.unit != a.unit) return Scope::kGpu;
    return r.warp / warps_per_cta_ == a.warp / warps_per_cta_ ? Scope::kCta : Scope::kCluster;
}

// Whether some warp of r's warpgroup has waited for its part of the wgmma of which r is a part. All of them execute the
// same ones in the same order.
bool Checker::warpgroup_known(const Record& r, const std::vector<uint32_t>& clock) const {
    const uint32_t cta = r.warp / warps_per_cta_ * warps_per_cta_, first = (r.warp - cta) & ~3u;
    for (uint32_t w = first; w < std::min(first + 4, warps_per_cta_); ++w) {
        const uint32_t agent = warps_[cta + w].wgmma;
        if (agent != 0 && VectorClock::at(clock, agent) >= r.clock) return true;
    }
    return false;
}

Checker::Order Checker::order(const Record& r, const Record& a, uint32_t overlap, const Group& group,
                              bool tmem) const {
    if (r.unit != a.unit) return foreign_order(r, overlap, group);
    const auto &loose = group.clock.loose, &strict = group.clock.strict;
    const uint32_t lanes = r.kind == AgentKind::kThread ? r.lanes_of(overlap) : r.lanes;
    // The same lane's: in program order.
    const auto same_lanes = [&](uint32_t mine) {
        if (r.warp != a.warp) return false;
        if ((lanes & (lanes - 1)) == 0) return lanes == mine;
        if (r.width == 0 && r.flags & Record::kWrite && (mine & ~lanes) == 0) return true;   // one write of all
        if (r.width != 0 && r.width == a.width && r.origin == a.origin) return true;
        bool same = r.width != 0 || a.width != 0;
        each_lane(overlap, [&](uint32_t part) {
            const uint32_t one = r.lanes_of(1u << part), other = a.lanes_of(1u << part);
            same = same && one == other && (one & (one - 1)) == 0;
        });
        return same;
    };
    if (tmem) {
        const uint32_t t = r.agent;
        if (r.kind == AgentKind::kMma && a.kind == AgentKind::kMma && r.tag == a.tag &&
            (r.agent == a.agent || VectorClock::at(group.tmem, t + kTmemIssued) >= r.clock)) {
            return Order::kOrdered;   // pipelined: same accumulator and shape
        }
        if (VectorClock::at(group.tmem, t) >= r.clock) return Order::kOrdered;
        if (VectorClock::at(loose, t + kTmemFenced) >= r.clock) return Order::kNoAfter;
        if (VectorClock::at(loose, t + kTmemDone) >= r.clock) return Order::kNoBefore;
        const bool issued = r.warp == a.warp || thread_known(loose, r.warp, r.lanes, r.issue, kRaw);
        return issued ? Order::kNotWaited : Order::kRace;
    }
    if (r.kind != AgentKind::kThread) {
        if (r.agent == a.agent && r.kind == a.kind && r.kind != AgentKind::kTmaLoad) return Order::kOrdered;
        const bool known = VectorClock::at(loose, r.agent) >= r.clock;
        if (known && r.kind == AgentKind::kCopy && a.flags & Record::kAsync && r.flags & Record::kWrite &&
            VectorClock::at(loose, r.agent + kChainFenced) < r.clock)
            return Order::kNoProxyFence;
        if (VectorClock::at(strict, r.agent) >= r.clock) return Order::kOrdered;
        if (known) return Order::kLoose;
        if (r.kind == AgentKind::kWgmma && warpgroup_known(r, loose)) return Order::kWarpgroup;
        if (VectorClock::at(group.clock.narrow, r.agent) >= r.clock) return Order::kNarrow;
        const bool issued = (r.warp == a.warp && (r.lanes & a.lanes) != 0 && r.issue < a.issue) ||
                            thread_known(loose, r.warp, r.lanes, r.issue, kRaw);
        return issued ? Order::kNotWaited : Order::kRace;
    }
    const bool program = same_lanes(a.width == 0 ? a.lanes : a.lanes_of(overlap));
    const bool fenced = r.flags & Record::kInit && thread_known(loose, r.warp, lanes, r.clock, kInitFence);
    if (!program && !fenced && !thread_known(loose, r.warp, lanes, r.clock, kRaw)) {
        if (thread_known(group.clock.narrow, r.warp, lanes, r.clock, kRaw)) return Order::kNarrow;
        const bool read = !(r.flags & Record::kWrite);
        return read && thread_known(group.clock.issuer, r.warp, lanes, r.clock, kRaw) ? Order::kIssuer : Order::kRace;
    }
    if (a.flags & Record::kAsync && r.flags & Record::kWrite && !(r.flags & Record::kBarrier)) {
        if (!fenced && !thread_known(loose, r.warp, lanes, r.clock, kFenced)) {
            return thread_known(loose, r.warp, lanes, r.clock, kAnyFence) ? Order::kReaderFence : Order::kNoProxyFence;
        }
    }
    const bool ordered = program || thread_known(strict, r.warp, lanes, r.clock, kRaw) ||
                         (fenced && thread_known(strict, r.warp, lanes, r.clock, kInitFence));
    return ordered ? Order::kOrdered : Order::kLoose;
}

void Checker::touch(RecordPool& pool, uint32_t& head, Record& a, const Group& group, MemorySpace space,
                    uint64_t address, bool tmem) {
    if (head != 0) {
        const Record& r = pool[head];
        if (alike(r, a) && (a.parts & ~r.parts) == 0 && r.width == a.width && r.origin == a.origin &&
            (a.lanes & ~r.lanes) == 0)
            return;
    }
    const bool writes = a.flags & Record::kWrite;
    // Behind a read that saw a write, a later access need not be ordered behind that write again.
    uint32_t seen = 0;
    if (writes) {
        for (uint32_t i = head; i != 0; i = pool[i].next) {
            const Record& r = pool[i];
            const uint32_t overlap = r.parts & a.parts;
            if (overlap != 0 && !(r.flags & Record::kWrite) && order(r, a, overlap, group, tmem) <= Order::kIssuer)
                seen |= overlap;
        }
    }
    uint32_t* link = &head;
    uint32_t merge_into = 0;
    size_t readers = 0;
    while (*link != 0) {
        const uint32_t i = *link;
        Record& r = pool[i];
        const uint32_t overlap = r.parts & a.parts;
        if (alike(r, a)) {
            const bool same_shape = r.width == a.width && r.origin == a.origin && (r.width != 0 || r.parts == a.parts);
            if (same_shape) merge_into = i;
            link = &r.next;
            continue;
        }
        if (!(r.flags & Record::kWrite)) ++readers;
        if (overlap == 0) {
            link = &r.next;
            continue;
        }
        if (r.flags & (Record::kInit | Record::kBarrier) && !(a.flags & (Record::kInit | Record::kBarrier)))
            check_live_mbarrier(r, a, address, overlap);
        Order o = order(r, a, overlap, group, tmem);
        // A wait that has returned came before its thread's arrival at a barrier of the cluster, be it a relaxed one.
        if ((o == Order::kRace || o == Order::kLoose) && r.flags & Record::kBarrier && !(r.flags & Record::kWrite) &&
            r.unit == a.unit && warps_[a.warp].met_behind(r))
            o = Order::kOrdered;
        const bool morally_strong =
            a.flags & r.flags & Record::kStrong && std::min(a.scope(), r.scope()) >= distance(r, a);
        const bool conflicting = (writes || r.flags & Record::kWrite) && !morally_strong;
        if (conflicting && o != Order::kOrdered) {
            const bool covered = writes && r.flags & Record::kWrite && (overlap & ~seen) == 0;
            if (!covered || o == Order::kNoProxyFence || o == Order::kReaderFence) {
                if (!(covered && o == Order::kLoose)) conflict(r, a, o, space, address, overlap, tmem);
            }
            o = Order::kLoose;   // said once; what comes later is held against the later access
        }
        // A strong access leaves a weak one, or one of narrower scope, to be seen: what conflicts with that need not
        // conflict with this. So does an operation on an mbarrier its initialisation.
        const bool keep = a.flags & Record::kStrong && (!(r.flags & Record::kStrong) || r.scope() < a.scope());
        if (o <= Order::kReaderFence && !keep && (writes || !(r.flags & Record::kWrite))) {
            Record& again = pool[i];
            again.parts &= ~a.parts;
            if (again.parts == 0) {
                if (!(again.flags & Record::kWrite)) --readers;
                *link = again.next;
                pool.release(i);
                continue;
            }
        }
        link = &pool[i].next;
    }
    if (merge_into != 0) {
        Record& r = pool[merge_into];
        r.parts |= a.parts;
        r.lanes |= a.lanes;
        return;
    }
    if (space == MemorySpace::kGlobal && !writes && readers >= kMaxReaders) {
        uint32_t* last = nullptr;
        for (uint32_t* l = &head; *l != 0; l = &pool[*l].next)
            if (!(pool[*l].flags & Record::kWrite)) last = l;
        const uint32_t gone = *last;
        *last = pool[gone].next;
        pool.release(gone);
    }
    Record added = a;
    added.next = head;
    head = pool.add(added);
}

void Checker::touch_shared(uint64_t address, Record& a, const Group& group) {
    const uint32_t rank = static_cast<uint32_t>(address >> kRankShift & 0xff);
    const uint32_t cell = static_cast<uint32_t>(address & ((1u << kRankShift) - 1)) / kCellBytes;
    if (rank >= shared_.size() || cell >= shared_[rank].heads.size()) return;
    touch(pool_, shared_[rank].heads[cell], a, group, MemorySpace::kShared, address & ~uint64_t{kCellBytes - 1}, false);
}

void Checker::touch_global(uint64_t cell, Record& a, const Group& group) {
    GlobalShadow::Shard& shard = global_->shard(cell);
    const std::lock_guard lock(shard.mutex);
    if (shard.full()) {
        const auto found = shard.heads.find(cell);
        if (found == shard.heads.end()) return;
        touch(shard.pool, found->second, a, group, MemorySpace::kGlobal, cell * kCellBytes, false);
        return;
    }
    touch(shard.pool, shard.heads[cell], a, group, MemorySpace::kGlobal, cell * kCellBytes, false);
}

void Checker::run(MemorySpace space, uint64_t cell, Record& a, const Group& group) {
    if (space == MemorySpace::kShared) touch_shared(cell * kCellBytes, a, group);
    else touch_global(cell, a, group);
}

void Checker::range(MemorySpace space, uint64_t address, uint64_t bytes, Record a, const Group& group) {
    const uint64_t end = address + bytes;
    while (address < end) {
        const uint32_t first = static_cast<uint32_t>(address % kCellBytes);
        const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(kCellBytes - first, end - address));
        a.parts = parts_of(first, n);
        run(space, address / kCellBytes, a, group);
        address += n;
    }
}

// ---- threads ----

void Checker::data(Exec& x, uint32_t mask, const uint64_t* at, uint32_t bytes, MemorySpace space, bool write,
                   Strength strength, uint32_t same) {
    const uint32_t warp = warp_of(x);
    const bool strong = strength.semantics != Semantics::kWeak;
    const auto access = [&] {
        Record base = record_of(x, warp, 0);
        base.flags = static_cast<uint8_t>((write ? Record::kWrite : 0) | (strong ? Record::strong(strength.scope) : 0));
        const auto groups = warps_[warp].groups.size();
        for (size_t g = 0; g < groups; ++g) {
            const Group& group = warps_[warp].groups[g];
            const uint32_t lanes = group.lanes & mask;
            // A run: lanes of one cell, either all at one address or one behind the other.
            Record a = base;
            uint64_t cell = ~0ull;
            MemorySpace cell_space = space;
            const auto flush = [&] {
                if (cell != ~0ull) run(cell_space, cell, a, group);
                cell = ~0ull;
            };
            each_lane(lanes, [&](uint32_t lane) {
                uint64_t address = at[lane];
                MemorySpace s = space;
                if (space == MemorySpace::kGeneric) {
                    const uint64_t window = address >> kWindowShift;
                    if (window > 1) return;
                    s = window == 1 ? MemorySpace::kShared : MemorySpace::kGlobal;
                    address &= kWindowMask;
                }
                const uint64_t c = address / kCellBytes;
                const uint32_t first = static_cast<uint32_t>(address % kCellBytes), parts = parts_of(first, bytes);
                const int origin = static_cast<int>(first) - static_cast<int>(lane * bytes);
                const uint8_t flags = static_cast<uint8_t>(base.flags | (same >> lane & 1 ? Record::kSameValue : 0));
                if (c == cell && s == cell_space && flags == a.flags) {
                    const bool single = (a.lanes & (a.lanes - 1)) == 0;
                    if (parts == a.parts && (single || a.width == 0)) {
                        a.lanes |= 1u << lane;
                        a.width = 0;
                        return;
                    }
                    if ((single || a.width != 0) && a.origin == origin) {
                        a.lanes |= 1u << lane;
                        a.parts |= parts;
                        a.width = static_cast<uint8_t>(bytes);
                        return;
                    }
                }
                flush();
                cell = c;
                cell_space = s;
                a.flags = flags;
                a.parts = parts;
                a.lanes = 1u << lane;
                a.width = 0;
                a.origin = static_cast<int16_t>(origin);
            });
            flush();
        }
    };
    // What an acquire brings is known before the access is judged, what a release hands over includes it.
    access();
    if (strong) synchronise(x, mask, at, space, write, strength);
}

void Checker::map_accessed(Exec& x, uint32_t mask, const uint64_t* maps, MemorySpace space, bool write) {
    for (uint32_t offset = 0; offset < 128; offset += kCellBytes) {
        uint64_t at[kLanes] = {};
        each_lane(mask, [&](uint32_t lane) { at[lane] = maps[lane] + offset; });
        data(x, mask, at, kCellBytes, space, write, {});
    }
}

void Checker::data_of(Exec& x, uint32_t lanes, uint32_t shared_address, uint32_t bytes, bool write, uint16_t tag,
                      bool same) {
    Record a = record_of(x, warp_of(x), lanes);
    a.flags = static_cast<uint8_t>((write ? Record::kWrite : 0) | (same ? Record::kSameValue : 0));
    a.tag = tag;
    range(MemorySpace::kShared, shared_address, bytes, a,
          group_of(a.warp, static_cast<uint32_t>(std::countr_zero(lanes))));
}

// ---- copies ----

void Checker::copy_issued(Exec& x, AsyncOp& op) {
    const uint32_t warp = warp_of(x);
    const Group& g = group_of(warp, static_cast<uint32_t>(op.lane));
    Record a = record_of(x, warp, 1u << op.lane);
    const auto chained = [&](AgentKind kind, uint8_t flags) {
        uint32_t clock;
        a.agent = static_cast<uint16_t>(chain_for(g, &clock));
        a.clock = clock;
        a.kind = kind;
        a.flags = static_cast<uint8_t>(Record::kAsync | flags);
    };
    const auto wait_by_group = [&](bool read_half) {
        warps_[warp].outstanding.push_back({op.kind, 1u << op.lane, op.group, a.agent, a.clock, read_half});
    };
    const bool tensor = op.kind == AsyncKind::kTensorLoad || op.kind == AsyncKind::kTensorStore ||
                        op.kind == AsyncKind::kTensorReduce;
    const auto shared_part = [&](uint32_t address, uint32_t bytes) {
        range(MemorySpace::kShared, address, bytes, a, g);
    };
    const auto global_part = [&](uint64_t address, uint64_t bytes) {
        range(MemorySpace::kGlobal, address, bytes, a, g);
    };
    const auto nothing = [](uint64_t, uint64_t) {};
    static constexpr uint32_t kSpans[] = {0, 32, 64, 128, 128, 128, 128};
    if (tensor) swizzle_alignment(x.pc, op.shared, kSpans[op.map->swizzle], a);
    switch (op.kind) {
        case AsyncKind::kTensorLoad:
        case AsyncKind::kBulkLoad:
        case AsyncKind::kCancel:
        case AsyncKind::kBulkSharedCopy:
        case AsyncKind::kBulkSharedReduce: {
            // One agent reads and writes; nobody waits for the reading half alone.
            chained(AgentKind::kTmaLoad, 0);
            op.agent.index = a.agent;
            op.agent.clock = a.clock;
            if (tensor) tma_footprint(*op.map, op.coords, op.shared, nothing, global_part);
            else if (op.kind == AsyncKind::kBulkLoad) global_part(op.global, op.bytes);
            else if (op.kind != AsyncKind::kCancel) shared_part(op.source_bytes, op.bytes);
            a.flags = Record::kAsync | Record::kWrite;
            if (op.kind == AsyncKind::kBulkSharedReduce) a.flags |= kStrongToAll;
            if (tensor) tma_footprint(*op.map, op.coords, op.shared, shared_part, nothing);
            else shared_part(op.shared, op.bytes);
            Record signal = a;
            signal.flags = Record::kAsync | Record::kWrite | kStrongToAll | Record::kBarrier;
            range(MemorySpace::kShared, op.mbarrier, 8, signal, g);
            break;
        }
        case AsyncKind::kStoreAsync: {   // st.async, red.async: of the generic proxy
            chained(AgentKind::kTmaWrite, 0);
            op.agent.index = a.agent;
            op.agent.clock = a.clock;
            a.flags = Record::kWrite;
            if (op.reduction != ~0ull) a.flags |= kStrongToAll;
            shared_part(op.shared, op.bytes);
            Record signal = a;
            signal.flags = Record::kWrite | kStrongToAll | Record::kBarrier;
            range(MemorySpace::kShared, op.mbarrier, 8, signal, g);
            break;
        }
        default: {
            chained(AgentKind::kTmaRead, 0);
            if (tensor) tma_footprint(*op.map, op.coords, op.shared, shared_part, nothing);
            else shared_part(op.shared, op.bytes);
            wait_by_group(true);
            const bool reduces = op.kind == AsyncKind::kTensorReduce || op.kind == AsyncKind::kBulkReduce;
            chained(AgentKind::kTmaWrite, static_cast<uint8_t>(Record::kWrite | (reduces ? kStrongToAll : 0)));
            if (op.repeated) {   // the first lane's writes stand for it
            } else if (tensor) {
                tma_footprint(*op.map, op.coords, op.shared, nothing, global_part);
            } else {
                global_part(op.global, op.bytes);
            }
            wait_by_group(false);
            break;
        }
    }
    if (op.mbarrier != 0) {
        auto issuer = std::make_shared<VectorClock>();
        issuer->loose = g.clock.loose;
        if (op.kind == AsyncKind::kCancel) issuer->issuer = g.clock.issuer;
        own(*issuer, warp, 1u << op.lane, kRaw);
        op.agent.issuer = issuer;
    }
    ++warps_[warp].time;
}

void Checker::small_copy_issued(Exec& x, uint32_t mask, const uint32_t* to, const uint64_t* from, uint32_t bytes,
                                const uint32_t* source_bytes) {
    const uint32_t warp = warp_of(x);
    WarpState& w = warps_[warp];
    if (w.outstanding.size() > 64) {
        std::erase_if(w.outstanding, [&](const Outstanding& o) {
            bool known = true;
            for (const Group& g : w.groups) known = known && VectorClock::at(g.clock.strict, o.index) >= o.clock;
            return known && o.kind == AsyncKind::kCopy;
        });
    }
    Record a = record_of(x, warp, mask);
    uint32_t clock;
    const uint32_t index = chain_for(w.groups[0], &clock);
    for (const Group& g : w.groups) {
        each_lane(g.lanes & mask, [&](uint32_t lane) {
            a.agent = static_cast<uint16_t>(index);
            a.clock = clock;
            a.kind = AgentKind::kCopy;
            a.lanes = 1u << lane;
            a.flags = 0;
            if (source_bytes[lane] != 0) range(MemorySpace::kGlobal, from[lane], source_bytes[lane], a, g);
            a.flags = Record::kWrite;
            range(MemorySpace::kShared, to[lane], bytes, a, g);
        });
    }
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(lanes));
        const uint32_t group = x.warp->copy_group[lane];
        if (!w.outstanding.empty() && w.outstanding.back().index == index &&
            w.outstanding.back().clock == clock && w.outstanding.back().group == group) {
            w.outstanding.back().lanes |= 1u << lane;
        } else {
            w.outstanding.push_back({AsyncKind::kCopy, 1u << lane, group, index, clock, false});
        }
    }
    ++w.time;
}

// ---- Tensor Memory and matrix operands ----

void Checker::tmem_range(Cta& cta, uint32_t quarter, uint32_t lanes, uint32_t column, uint32_t columns, Record a,
                         const Group& group) {
    auto& heads = shared_[cta.rank].tmem_heads;
    if (heads.empty()) heads.assign(4 * Tmem::kColumns, 0);
    a.parts = lanes;
    for (uint32_t c = column; c < column + columns && c < static_cast<uint32_t>(Tmem::kColumns); ++c) {
        touch(pool_, heads[quarter * Tmem::kColumns + c], a, group, MemorySpace::kShared,
              (quarter * 32 + static_cast<uint32_t>(std::countr_zero(lanes))) << 16 | c, true);
    }
}

void Checker::tmem_issued(Exec& x, bool load, uint32_t lanes,
                          const std::vector<std::pair<uint32_t, uint32_t>>& columns) {
    const uint32_t warp = warp_of(x);
    WarpState& w = warps_[warp];
    uint32_t& agent = load ? w.load : w.store;
    if (agent == 0) agent = tmem_agent();
    const uint32_t count = VectorClock::at(counts_, agent) + 1;
    VectorClock::raise(counts_, agent, count);
    Record a = record_of(x, warp, w.live);
    a.agent = static_cast<uint16_t>(agent);
    a.clock = count;
    a.kind = load ? AgentKind::kTmemLoad : AgentKind::kTmemStore;
    a.flags = load ? 0 : Record::kWrite;
    for (const auto& [first, n] : columns)
        tmem_range(*x.cta, x.warp->index % 4, lanes, first, n, a, w.groups[0]);
    ++w.time;
}

// 32 bytes of K of `rows` rows, in pieces of 16 bytes.
void Checker::operand(uint64_t descriptor, int first_row, int rows, bool mn_major, int element_bytes, bool sm100,
                      const Record& a, const Group& group, uint32_t base) {
    SmemDescriptor d;
    if (!decode_smem_descriptor(descriptor, sm100, &d).empty()) return;
    if (d.base_offset == 0) swizzle_alignment(a.pc, d.start, static_cast<uint32_t>(d.swizzle_bytes), a);
    const auto piece = [&](uint32_t address) {
        Record r = a;
        r.parts = parts_of(address % kCellBytes & ~15u, 16);
        touch_shared(base | address, r, group);
    };
    if (!mn_major) {
        for (int row = first_row; row < first_row + rows; ++row) {
            const uint32_t low = smem_operand_address(d, row, 0), high = smem_operand_address(d, row, 16);
            if (low / kCellBytes == high / kCellBytes) {
                Record r = a;
                r.parts = ~0u;
                touch_shared(base | low, r, group);
            } else {
                piece(low);
                piece(high);
            }
        }
        return;
    }
    const int step = 16 / element_bytes;
    for (int k = 0; k < 32 / element_bytes; ++k)
        for (int row = first_row; row < first_row + rows; row += step)
            piece(mn_major_address(d, element_bytes, row, k));
}

void Checker::mma_issued(Exec& x, AsyncOp& op) {
    const uint32_t warp = warp_of(x), lane = static_cast<uint32_t>(op.lane);
    auto [found, is_new] = mma_agents_.try_emplace(warp * kLanes + lane, 0, 0);
    if (is_new) found->second.first = tmem_agent();
    const uint32_t agent = found->second.first, count = ++found->second.second;
    Group& g = group_of(warp, lane);
    const auto kind = static_cast<MmaKind>(op.mma_kind);
    InstrDescriptor desc;
    if (!decode_instr_descriptor(op.instr_descriptor, kind, static_cast<int>(op.cta_group), &desc).empty()) return;
    const int bytes = kind == MmaKind::kF16 ? 2 : kind == MmaKind::kTf32 ? 4 : 1;
    Record a = record_of(x, warp, 1u << lane);
    a.agent = static_cast<uint16_t>(agent);
    a.clock = count;
    a.kind = AgentKind::kMma;
    a.flags = Record::kAsync;
    const uint32_t column = op.tmem & 0xffff, start = op.tmem >> 16 & 31;
    const int group = static_cast<int>(op.cta_group);
    const uint32_t lanes_of_d = group == 1 && desc.m == 64 ? 0xffffu << start : kFullMask;
    const int d_columns = group == 2 && desc.m == 128 ? desc.n / 2 : desc.n;
    const Record reader = a;
    for (int part = 0; part < group; ++part) {   // each CTA of a pair has its part of A, B and D
        Cta& cta = group == 1 ? *x.cta : *cluster_->ctas[(x.cta->rank & ~1u) + static_cast<uint32_t>(part)];
        a = reader;
        if (op.a_in_tmem) {
            a.tag = 0;
            for (uint32_t q = 0; q < 4; ++q) tmem_range(cta, q, lanes_of_d, op.tmem_a & 0xffff, 8, a, g);
        } else {
            operand(op.descriptor_a, 0, desc.m / group, desc.transpose_a, bytes, true, a, g, cta.shared_base);
        }
        operand(op.descriptor_b, 0, desc.n / group, desc.transpose_b, bytes, true, a, g, cta.shared_base);
        a.tag = static_cast<uint16_t>(
            (column << 5 ^ static_cast<uint32_t>(desc.n) << 1 ^ static_cast<uint32_t>(desc.m)) | 0x8000u);
        a.flags = Record::kWrite;
        for (uint32_t q = 0; q < 4; ++q) {
            const uint32_t lanes = lanes_of_d & ~op.disable[static_cast<uint32_t>(part) * 4 + q];
            if (lanes != 0) tmem_range(cta, q, lanes, column, static_cast<uint32_t>(d_columns), a, g);
        }
    }
    VectorClock::raise(g.tmem, agent + kTmemIssued, count);
    ++warps_[warp].time;
}

void Checker::wgmma_issued(Exec& x, const AsyncOp& op, int element_bytes) {
    const uint32_t warp = warp_of(x);
    WarpState& w = warps_[warp];
    if (w.wgmma == 0) w.wgmma = next_index_++;
    const uint32_t count = VectorClock::at(counts_, w.wgmma) + 1;
    VectorClock::raise(counts_, w.wgmma, count);
    Record a = record_of(x, warp, w.live);
    a.agent = static_cast<uint16_t>(w.wgmma);
    a.clock = count;
    a.kind = AgentKind::kWgmma;
    a.flags = Record::kAsync;
    wgmma_registers(x, op, count, element_bytes);
    const int n = static_cast<int>(op.instr_descriptor & 0xfff);
    const bool registers = op.instr_descriptor >> 24 & 1;
    if (!registers) {   // a warp multiplies sixteen rows of A
        operand(op.descriptor_a, static_cast<int>(x.warp->index % 4) * 16, 16, op.source_bytes & 4, element_bytes,
                false, a, w.groups[0], x.cta->shared_base);
    }
    operand(op.descriptor_b, 0, n, op.source_bytes & 8, element_bytes, false, a, w.groups[0], x.cta->shared_base);
    auto& o = w.outstanding;
    if (!o.empty() && o.back().kind == AsyncKind::kWgmma && o.back().group == op.group) o.back().clock = count;
    else o.push_back({AsyncKind::kWgmma, w.live, op.group, w.wgmma, count, false});
    ++w.time;
}

void Checker::register_in_use(Exec& x, const WgmmaUse& use, Severity severity, const char* what) {
    if (worker_->seen_finding("wgmma-register-in-use", x.pc, use.pc)) return;
    Record a = record_of(x, warp_of(x), warps_[warp_of(x)].live), r = a;
    r.pc = use.pc;
    r.kind = AgentKind::kWgmma;
    Finding f;
    f.code = "wgmma-register-in-use";
    f.severity = severity;
    f.party = party_of(a);
    f.other = party_of(r);
    f.space = "register";
    f.what = what;
    f.would_order = "wgmma.commit_group and wgmma.wait_group";
    worker_->report_finding(std::move(f));
}

void Checker::registers(Exec& x) {
    WarpState& w = warps_[warp_of(x)];
    const ShadowInfo& info = x.program->shadow[x.pc];
    const Use* uses = x.program->uses.data() + info.first_use;
    if (info.uses == 0 || x.program->info[x.pc].stat == wgmma_stat_) return;
    for (const Use* u = uses; u != uses + info.uses; ++u) {
        if (u->slot & kConstantSlot || u->bits == 1) continue;
        RegisterState& r = w.registers[u->slot / 128];
        const bool writes = u->role == UseRole::kDestination;
        r.touched = x.pc;
        r.fences = w.fences;
        r.shape = 0;
        if (r.accumulator.count > w.wgmma_done) {
            register_in_use(x, r.accumulator, Severity::kError,
                            writes ? "writes an accumulator of a wgmma that may still be in flight"
                                   : "reads an accumulator of a wgmma that may still be in flight");
            r.accumulator.count = 0;
        } else if (r.fragment.count > w.wgmma_done) {   // a read takes the right value all the same
            register_in_use(x, r.fragment, writes ? Severity::kError : Severity::kWarning,
                            writes ? "writes a register of A of a wgmma that may still be in flight"
                                   : "reads a register of A of a wgmma that may still be in flight");
            if (writes) r.fragment.count = 0;
        }
    }
}

void Checker::registers_fenced(Exec& x) {
    ++warps_[warp_of(x)].fences;
}

// wgmmas of one shape may follow each other with the same accumulators; all else wants wgmma.fence (9.7.15.7.1), and
// where one of them makes what the other takes as A, wgmma.wait_group (9.7.15.7.3).
void Checker::wgmma_registers(Exec& x, const AsyncOp& op, uint32_t count, int element_bytes) {
    WarpState& w = warps_[warp_of(x)];
    const bool registers = op.instr_descriptor >> 24 & 1;
    const size_t fragments = registers ? 4 : 0, accumulators = op.payload.size() - fragments;
    const uint32_t n_of_8 = (op.instr_descriptor & 0xfff) / 8;   // up to 32
    const auto shape = static_cast<uint8_t>(1 + n_of_8 + static_cast<uint32_t>(element_bytes) * 40);
    bool fenced = true;
    uint32_t unfenced = 0;
    for (size_t n = 0; n < op.payload.size(); ++n) {
        RegisterState& r = w.registers[op.payload[n] / 128];
        const bool writes = n < accumulators;
        if (r.fences == w.fences && !(writes && r.shape == shape)) {
            fenced = false;
            unfenced = r.touched;
        }
        if (writes) {
            if (r.fragment.count > w.wgmma_done)
                register_in_use(x, r.fragment, Severity::kError,
                                "accumulates in a register of A of another wgmma that may still be in flight");
            r.accumulator = {count, x.pc};
            r.touched = x.pc;
            r.fences = w.fences;
            r.shape = shape;
        } else {
            if (r.accumulator.count > w.wgmma_done)
                register_in_use(x, r.accumulator, Severity::kError,
                                "takes as A an accumulator of another wgmma that may still be in flight");
            r.fragment = {count, x.pc};
        }
    }
    if (fenced) return;
    const bool first = unfenced == RegisterState::kNever;
    if (worker_->seen_finding("missing-wgmma-fence", x.pc, first ? ~0u : unfenced)) return;
    Record a = record_of(x, warp_of(x), w.live), r = a;
    Finding f;
    f.code = "missing-wgmma-fence";
    f.party = party_of(a);
    if (!first) {
        r.pc = unfenced;
        f.other = party_of(r);
    }
    f.space = "register";
    f.what = first ? "there was no wgmma.fence before this wgmma"
                   : "a register of this wgmma was accessed since the last wgmma.fence";
    f.would_order = "wgmma.fence behind the access";
    worker_->report_finding(std::move(f));
}

// A warning where the pattern of a swizzle does not begin on its natural boundary.
void Checker::swizzle_alignment(uint32_t pc, uint32_t address, uint32_t span, const Record& a) {
    if (span == 0 || address % (8 * span) / 128 == 0) return;
    if (worker_->seen_finding("swizzle-alignment", pc, ~0u)) return;
    Finding f;
    f.code = "swizzle-alignment";
    f.severity = Severity::kWarning;
    f.party = party_of(a);
    f.space = "shared";
    f.address = address;
    f.bytes = span;
    f.what = "a " + std::to_string(span) + "-byte swizzle whose pattern does not begin on a multiple of " +
             std::to_string(8 * span) + " bytes";
    worker_->report_finding(std::move(f));
}

void Checker::allocated(Exec& x, Cta& cta, uint32_t warp, uint32_t column, uint32_t columns) {
    WarpState& w = warps_[warp];
    if (w.alloc == 0) w.alloc = tmem_agent();
    const uint32_t count = VectorClock::at(counts_, w.alloc) + 1;
    VectorClock::raise(counts_, w.alloc, count);
    Record a = record_of(x, warp, w.live);
    a.agent = static_cast<uint16_t>(w.alloc);
    a.clock = count;
    a.kind = AgentKind::kTmemAlloc;
    a.flags = Record::kWrite;
    for (uint32_t q = 0; q < 4; ++q) tmem_range(cta, q, kFullMask, column, columns, a, w.groups[0]);
    know_allocation(warp, warp);
    ++w.time;
}

// Synchronous: nothing to wait for, nothing to fence before.
void Checker::know_allocation(uint32_t warp, uint32_t of) {
    const uint32_t agent = warps_[of].alloc, count = VectorClock::at(counts_, agent);
    for (Group& g : warps_[warp].groups) {
        for (uint32_t i = 0; i < kPerTmem; ++i) g.clock.raise(agent + i, count);
        VectorClock::raise(g.tmem, agent, count);
    }
}

void Checker::allocated(Exec& x, uint32_t column, uint32_t columns) {
    allocated(x, *x.cta, warp_of(x), column, columns);
}

void Checker::allocated_in_pair(Exec& x, Cta& peer, uint32_t peer_warp, uint32_t column, uint32_t peer_column,
                                uint32_t columns) {
    const uint32_t here = warp_of(x), there = warp_of(peer, peer_warp);
    allocated(x, *x.cta, here, column, columns);
    allocated(x, peer, there, peer_column, columns);
    know_allocation(here, there);
    know_allocation(there, here);
}

// Whether a warp knew that r, of Tensor Memory, is complete, and exited before a barrier of the cluster ended which a's
// warp has left.
bool Checker::known_to_exited(const Record& r, const Record& a) const {
    const auto& arrived = warps_[a.warp].arrived;
    if (!arrived) return false;
    for (size_t w = 0; w < warps_.size(); ++w) {
        const bool exited = cluster_->ctas[w / warps_per_cta_]->warps[w % warps_per_cta_].live == 0;
        if (!exited || (*arrived)[w] != warps_[w].time) continue;
        for (const Group& g : warps_[w].groups)
            if (VectorClock::at(g.clock.loose, static_cast<uint32_t>(r.agent) + kTmemDone) >= r.clock) return true;
    }
    return false;
}

void Checker::deallocated(Exec& x, uint32_t column, uint32_t columns) {
    auto& heads = shared_[x.cta->rank].tmem_heads;
    if (heads.empty()) return;
    const uint32_t warp = warp_of(x);
    Record a = record_of(x, warp, warps_[warp].live);
    a.flags = Record::kWrite;
    const VectorClock& clock = warps_[warp].groups[0].clock;
    for (uint32_t q = 0; q < 4; ++q) {
        for (uint32_t c = column; c < column + columns; ++c) {
            uint32_t& head = heads[q * Tmem::kColumns + c];
            while (head != 0) {
                const Record r = pool_[head];
                if (VectorClock::at(clock.loose, static_cast<uint32_t>(r.agent) + kTmemDone) < r.clock) {
                    const bool issued =
                        r.warp == warp || thread_known(clock.loose, r.warp, r.lanes, r.issue, kRaw);
                    const Order o = issued ? Order::kNotWaited : known_to_exited(r, a) ? Order::kExit : Order::kRace;
                    conflict(r, a, o, MemorySpace::kShared, q << 21 | c, r.parts, true);
                }
                pool_.release(head);
                head = r.next;
            }
        }
    }
}

// ---- findings ----

std::string Checker::role_of(const Record& r) const {
    std::string who = "warp " + std::to_string(r.warp % warps_per_cta_);
    if (r.lanes != 0 && (r.lanes & (r.lanes - 1)) == 0)
        who += ", lane " + std::to_string(std::countr_zero(r.lanes));
    switch (r.kind) {
        case AgentKind::kThread: return who;
        case AgentKind::kTmaLoad: return "bulk copy to shared memory, issued by " + who;
        case AgentKind::kTmaRead: return "reads of a bulk store, issued by " + who;
        case AgentKind::kTmaWrite: return "writes of a bulk store, issued by " + who;
        case AgentKind::kCopy: return "cp.async of " + who;
        case AgentKind::kMma: return "tcgen05.mma, issued by " + who;
        case AgentKind::kTmemCopy: return "tcgen05.cp, issued by " + who;
        case AgentKind::kTmemLoad: return "tcgen05.ld of " + who;
        case AgentKind::kTmemStore: return "tcgen05.st of " + who;
        case AgentKind::kTmemAlloc: return "tcgen05.alloc of " + who;
        case AgentKind::kWgmma: return "wgmma of " + who;
    }
    return who;
}

Party Checker::party_of(const Record& r) const {
    Party p = worker_->party_at(r.pc);
    p.role = role_of(r);
    if (r.unit == unit_) {
        const Dim3& id = cluster_->ctas[r.warp / warps_per_cta_ % cluster_->ctas.size()]->id;
        p.cta[0] = id.x, p.cta[1] = id.y, p.cta[2] = id.z;
    } else {
        const Dim3 &grid = worker_->launch->grid, &size = worker_->launch->cluster;
        const uint32_t across = grid.x / size.x, down = grid.y / size.y;
        const uint32_t rank = r.warp / warps_per_cta_;
        p.cta[0] = r.unit % across * size.x + rank % size.x;
        p.cta[1] = r.unit / across % down * size.y + rank / size.x % size.y;
        p.cta[2] = r.unit / across / down * size.z + rank / size.x / size.y;
    }
    return p;
}

// Between mbarrier.init and mbarrier.inval the object is nothing but an mbarrier (9.7.13.15.2).
void Checker::check_live_mbarrier(const Record& r, const Record& a, uint64_t address, uint32_t overlap) {
    for (uint32_t part = 0; part < kCellBytes; part += 8) {
        if ((overlap >> part & 0xff) == 0) continue;
        const uint64_t object = address + part;
        const auto found = mbarriers_.find(static_cast<uint32_t>(object));
        if (found == mbarriers_.end() || found->second.index == 0) continue;
        if (worker_->seen_finding("mbarrier-misuse", a.pc, r.pc)) return;
        const bool writes = a.flags & Record::kWrite;
        Finding f;
        f.code = "mbarrier-misuse";
        if (!writes) f.severity = Severity::kWarning;
        f.party = party_of(a);
        f.other = party_of(r);
        f.space = "shared";
        f.address = object;
        f.bytes = 8;
        f.what = std::string(writes ? "writes over" : "reads") +
                 " an mbarrier object that is initialised; nothing but mbarrier instructions may access it";
        f.would_order = "mbarrier.inval before its memory serves another purpose";
        worker_->report_finding(std::move(f));
        return;
    }
}

bool Checker::known_in_cluster(const Record& r) const {
    for (const WarpState& w : warps_)
        for (const Group& g : w.groups)
            if (VectorClock::at(g.clock.loose, r.agent) >= r.clock) return true;
    return false;
}

// When the whole cluster has exited: copies to its shared memory for which nobody has waited. Whether they were
// complete by then is a matter of the schedule.
void Checker::never_waited() {
    for (uint32_t rank = 0; rank < shared_.size(); ++rank) {
        const std::vector<uint32_t>& heads = shared_[rank].heads;
        for (size_t cell = 0; cell < heads.size(); ++cell) {
            for (uint32_t i = heads[cell]; i != 0; i = pool_[i].next) {
                const Record& r = pool_[i];
                const bool small = r.kind == AgentKind::kCopy;
                if ((r.kind != AgentKind::kTmaLoad && !small) || !(r.flags & Record::kWrite) ||
                    r.flags & Record::kBarrier || worker_->seen_finding("exit-in-flight", r.pc, ~0u) ||
                    known_in_cluster(r))
                    continue;
                Finding f;
                f.code = "exit-in-flight";
                if (small) f.severity = Severity::kWarning;
                f.party = party_of(r);
                f.space = "shared";
                f.address = static_cast<uint64_t>(rank) << kRankShift |
                            (cell * kCellBytes + static_cast<uint32_t>(std::countr_zero(r.parts)));
                f.bytes = static_cast<uint64_t>(std::popcount(r.parts));
                f.what = "writes shared memory, and the CTA exits without a wait for it";
                f.would_order = small ? "cp.async.wait_all before the threads exit"
                                      : "mbarrier.try_wait for the phase that the copy's bytes complete, before the "
                                        "CTA exits";
                worker_->report_finding(std::move(f));
            }
        }
    }
}

void Checker::conflict(const Record& r, const Record& a, Order o, MemorySpace space, uint64_t address,
                       uint32_t overlap, bool tmem) {
    Finding f;
    f.space = tmem ? "tensor memory" : space == MemorySpace::kGlobal ? "global" : "shared";
    const char* wait = "";
    switch (r.kind) {
        case AgentKind::kThread: break;
        case AgentKind::kTmaLoad:
            f.code = "tma-load-not-waited";
            wait = "mbarrier.try_wait for the phase that the copy's bytes complete";
            break;
        case AgentKind::kTmaRead:
            f.code = "bulk-store-not-read";
            wait = "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read";
            break;
        case AgentKind::kTmaWrite:
            f.code = "bulk-store-not-waited";
            wait = "cp.async.bulk.commit_group and cp.async.bulk.wait_group";
            break;
        case AgentKind::kCopy:
            f.code = "cp-async-not-waited";
            wait = "cp.async.wait_group, wait_all, or cp.async.mbarrier.arrive and a wait for its phase";
            break;
        case AgentKind::kMma:
        case AgentKind::kTmemCopy:
            f.code = "mma-not-waited";
            wait = "tcgen05.commit and mbarrier.try_wait for its phase";
            break;
        case AgentKind::kTmemLoad:
            f.code = "tmem-ld-not-waited";
            wait = "tcgen05.wait::ld";
            break;
        case AgentKind::kTmemStore:
            f.code = "tmem-st-not-waited";
            wait = "tcgen05.wait::st";
            break;
        case AgentKind::kTmemAlloc: f.code = "race-tmem"; break;
        case AgentKind::kWgmma:
            f.code = "wgmma-not-waited";
            wait = "wgmma.commit_group and wgmma.wait_group";
            break;
    }
    const bool in_warp = r.unit == a.unit && r.warp == a.warp && r.kind == AgentKind::kThread;
    const char* verb = a.flags & Record::kWrite ? "writes" : "reads";
    const char* did = r.flags & Record::kWrite ? "written" : "read";
    const char* wider = r.unit == a.unit ? "scope .cluster or wider for the release, the acquire, and what they meet by"
                                         : "scope .gpu or wider for the release, the acquire, and what they meet by";
    f.what = std::string(verb) + " what another access has " + did;
    switch (o) {
        case Order::kNotWaited:
            f.what += ", which was issued before but is not known to be complete";
            f.would_order = wait;
            // Attention kernels (Triton's, CUTLASS's) write S where the MMA before has its operand P.
            if (r.kind == AgentKind::kMma && a.kind == AgentKind::kMma && r.agent == a.agent &&
                !(r.flags & Record::kWrite)) {
                f.severity = Severity::kWarning;
                f.what += "; only the order of a thread's MMAs is between them, which the manual promises for the same "
                          "accumulator and shape alone (PTX ISA 9.7.16.6.4)";
            }
            break;
        case Order::kRace:
            if (r.flags & Record::kInit) {
                f.code = "mbarrier-not-initialised";
                f.what = "uses an mbarrier whose initialisation by another thread is not ordered before";
                f.would_order = "bar.sync, or barrier.cluster behind fence.mbarrier_init, after mbarrier.init";
                // CUTLASS's kernels for pairs of CTAs have one mbarrier more than were there at their fence.
                if (r.unit == a.unit && warps_[r.warp].init_fence && warps_[a.warp].met_behind(r)) {
                    f.severity = Severity::kWarning;
                    f.what += "; a relaxed arrival at a barrier of the cluster is between the two, and the "
                              "initialising warp's fence.mbarrier_init came before the initialisation";
                }
                break;
            }
            if (r.flags & a.flags & Record::kStrong) {
                f.code = "scope-too-narrow";
                f.what += "; both are strong, but the scope of one does not include the other's thread";
                f.would_order = wider;
                break;
            }
            f.code = tmem ? "race-tmem" : space == MemorySpace::kGlobal ? "race-global" : "race-shared";
            f.what += ", and nothing orders the two";
            if (in_warp) {
                f.code = "race-in-warp";
                f.would_order = "bar.warp.sync";
            } else if (space == MemorySpace::kGlobal) {
                f.would_order = r.unit == a.unit ? "bar.sync, or release and acquire" :
                                                   "release and acquire at gpu scope, or separate launches";
            } else {
                f.would_order = std::string("a hand-over: arrive and wait at an mbarrier, or bar.sync") +
                                (*wait == '\0' ? "" : "; before it ") + wait;
            }
            // In shared memory, which is written again and again, only where all execute the same store.
            if (a.flags & r.flags & Record::kWrite && a.flags & Record::kSameValue &&
                (space == MemorySpace::kGlobal || a.pc == r.pc)) {
                f.code = "race-same-value";
                f.severity = Severity::kWarning;
            }
            break;
        case Order::kLoose:
            f.code = "ordered-by-convergence";
            f.severity = Severity::kWarning;
            f.what += "; only the convergence of a warp orders the two (shfl, vote, elect and .aligned instructions "
                      "order no memory)";
            f.would_order = "bar.warp.sync";
            break;
        case Order::kWarpgroup:
            f.code = "wgmma-by-warpgroup";
            f.severity = Severity::kWarning;
            f.what += ", and only another warp of that warpgroup has waited for it: a wgmma-group is the warpgroup's, "
                      "yet the manual lets a wait speak for the executing thread";
            f.would_order = "a hand-over from every warp of the warpgroup, behind its own wgmma.wait_group";
            break;
        case Order::kExit:
            f.code = "ordered-by-exit";
            f.severity = Severity::kWarning;
            f.what += "; a warp that had waited for it had exited when the barrier of the cluster ended, which waits "
                      "for all that have not, but an exit releases nothing (PTX ISA 9.7.13.3)";
            f.would_order = "barrier.cluster.arrive, or another hand-over, of the warp that waited";
            break;
        case Order::kIssuer:
            f.code = "ordered-by-issuer";
            f.severity = Severity::kWarning;
            f.what += "; only the issuer of a try_cancel knows of the read, and its response hands over nothing of "
                      "what its issuer knows (PTX ISA 8.9.1.1)";
            f.would_order = "an arrival of the reading thread for which the writing one waits";
            break;
        case Order::kNarrow:
            f.code = "scope-too-narrow";
            f.what += "; what was to order the two has a scope that does not include both threads (PTX ISA 8.5, 8.7)";
            f.would_order = wider;
            break;
        case Order::kReaderFence:
            f.code = "proxy-fence-by-reader";
            f.severity = Severity::kWarning;
            f.what += " through the generic proxy; a fence.proxy.async follows, but not in the thread that wrote";
            f.would_order = "fence.proxy.async in the writing thread, before the hand-over";
            break;
        case Order::kNoProxyFence:
            f.code = "missing-proxy-fence";
            // Known-good kernels lack these.
            if (r.flags & Record::kInit || r.kind == AgentKind::kCopy ||
                (r.kind == AgentKind::kThread && r.tag == Record::kAddressTag))
                f.severity = Severity::kWarning;
            f.what = std::string(verb) + " through the async proxy what " +
                     (r.kind == AgentKind::kCopy ? "a cp.async, which is of the generic proxy, has written"
                                                 : "a thread has written through the generic proxy");
            f.would_order = r.flags & Record::kInit
                                ? "fence.mbarrier_init or fence.proxy.async in the initialising thread"
                            : r.kind == AgentKind::kCopy
                                ? "fence.proxy.async behind the wait for the cp.async, before the hand-over"
                                : "fence.proxy.async in the writing thread, before the hand-over";
            break;
        case Order::kNoBefore:
            f.code = "missing-fence-before";
            f.severity = Severity::kWarning;   // known-good kernels lack both fences
            f.would_order = "tcgen05.fence::before_thread_sync in the thread that waited for the other side, before it "
                            "hands over";
            break;
        case Order::kNoAfter:
            f.code = "missing-fence-after";
            f.severity = Severity::kWarning;
            f.would_order = "tcgen05.fence::after_thread_sync behind this thread's wait";
            break;
        case Order::kOrdered: return;
    }
    f.address = tmem ? address : address + static_cast<uint32_t>(std::countr_zero(overlap));
    f.bytes = tmem ? 4 : static_cast<uint64_t>(std::popcount(overlap));
    if (worker_->seen_finding(f.code, a.pc, r.pc)) return;
    f.party = party_of(a);
    f.other = party_of(r);
    worker_->report_finding(std::move(f));
}

// Shared memory lasts as long as its CTA: what other CTAs do there must be known to be done by a thread that has not
// exited, through memory or because they came to a barrier of the cluster afterwards, be it a relaxed arrival.
void Checker::left_alone(const Cta& cta) {
    const uint32_t first = cta.rank * warps_per_cta_;
    const auto done = [&](const Record& r) {
        for (uint32_t w = first; w < first + warps_per_cta_; ++w) {
            if (warps_[w].met_behind(r)) return true;
            for (const Group& g : warps_[w].groups)
                if (thread_known(g.clock.loose, r.warp, r.lanes, r.clock, kRaw)) return true;
        }
        return false;
    };
    const std::vector<uint32_t>& heads = shared_[cta.rank].heads;
    for (size_t cell = 0; cell < heads.size(); ++cell) {
        for (uint32_t i = heads[cell]; i != 0; i = pool_[i].next) {
            const Record& r = pool_[i];
            if (r.kind != AgentKind::kThread || r.flags & Record::kBarrier || r.warp / warps_per_cta_ == cta.rank ||
                done(r))
                continue;
            Finding f;
            f.code = "exit-before-access";
            if (worker_->seen_finding(f.code, r.pc, ~0u)) continue;
            f.party = party_of(r);
            f.space = "shared";
            f.address = static_cast<uint64_t>(cta.rank) << kRankShift |
                        (cell * kCellBytes + static_cast<uint32_t>(std::countr_zero(r.parts)));
            f.bytes = static_cast<uint64_t>(std::popcount(r.parts));
            f.what = "accesses shared memory of the CTA of rank " + std::to_string(cta.rank) +
                     ", which may exit before: none of its threads waits for this";
            f.would_order = "barrier.cluster.arrive behind this access, and a wait for it before the other exits";
            worker_->report_finding(std::move(f));
        }
    }
}

}   // namespace ptxemu

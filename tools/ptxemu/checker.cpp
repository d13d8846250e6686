// SPDX-License-Identifier: Apache-2.0
// What orders: threads, barriers, fences, asynchronous operations. Accesses and the comparison are in race_check.cpp.
//
// Sources (PTX ISA): release and acquire patterns, causality order 8.8, 8.9; asynchronous operations 8.9.1.1 (a
// complete-tx hands over what the operation itself did, nothing of its issuer); proxies 8.6, 9.7.9.25.2, 9.7.16.6.5;
// tcgen05 9.7.16.6; mbarrier 9.7.13.15.
#include "checker.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "scheduler.h"

namespace ptxemu {
namespace {

constexpr const char* kPhaseAliasing = "mbarrier-phase-aliasing";

template <class F>
void each_lane(uint32_t mask, F f) {
    for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

// The lanes whose address is the lowest lane's; they leave the mask.
uint32_t take_same(uint32_t& mask, const uint32_t* at) {
    const uint32_t address = at[std::countr_zero(mask)];
    uint32_t same = 0;
    each_lane(mask, [&](uint32_t lane) { same |= at[lane] == address ? 1u << lane : 0; });
    mask &= ~same;
    return same;
}

}   // namespace

// ---- agents and groups of lanes ----

void Checker::start(Cluster& cluster, GlobalShadow& global) {
    cluster_ = &cluster;
    global_ = &global;
    const Cta& first = *cluster.ctas[0];
    warps_per_cta_ = static_cast<uint32_t>(first.warps.size());
    unit_ = static_cast<uint32_t>(cluster.linear);
    const size_t ctas = cluster.ctas.size(), warps = ctas * warps_per_cta_;
    next_index_ = static_cast<uint32_t>(warps) * kPerThread;
    lane_agents_.assign(warps * kLanes, 0);
    handed_agents_ = nullptr;
    fenceable_.clear();
    tmem_agents_.clear();
    mma_agents_.clear();
    counts_.clear();
    chains_.clear();
    imports_.clear();
    pool_.clear();
    mbarriers_.clear();
    barriers_.assign(ctas * 16, {});
    cluster_barrier_ = {};
    arriving_.assign(warps, 0);
    arrived_ = nullptr;
    finished_ = 0;
    warps_.clear();
    warps_.resize(warps);
    for (uint32_t w = 0; w < warps; ++w) {
        warps_[w].live = cluster.ctas[w / warps_per_cta_]->warps[w % warps_per_cta_].live;
        warps_[w].groups.resize(1);
        warps_[w].groups[0].lanes = warps_[w].live;
        fenceable_.push_back(w * kPerThread);
    }
    const auto& names = first.program->stat_names;
    wgmma_stat_ = static_cast<uint32_t>(std::find(names.begin(), names.end(), "wgmma.mma_async") - names.begin());
    has_wgmma_ = wgmma_stat_ != names.size();
    if (has_wgmma_) {
        const size_t slots = first.program->register_bytes / 128 + 1;
        for (WarpState& w : warps_) w.registers.assign(slots, {});
    }
    shared_.resize(ctas);
    for (size_t rank = 0; rank < ctas; ++rank) {
        shared_[rank].heads.assign(cluster.ctas[rank]->shared_bytes / 32 + 1, 0);
        shared_[rank].tmem_heads.clear();
    }
}

uint32_t Checker::warp_of(const Exec& x) const { return warp_of(*x.cta, x.warp->index); }

uint32_t Checker::lane_agent(uint32_t warp, uint32_t lane) {
    uint32_t& index = lane_agents_[warp * kLanes + lane];
    if (index == 0) {
        index = next_index_;
        next_index_ += kPerThread;
        handed_agents_ = nullptr;
        fenceable_.push_back(index);
    }
    return index;
}

uint32_t Checker::tmem_agent() {
    const uint32_t index = next_index_;
    next_index_ += kPerTmem;
    tmem_agents_.push_back(index);
    return index;
}

// A chain whose last operation is known to be complete by the lanes that issue the next one.
uint32_t Checker::chain_for(const Group& group, uint32_t* clock) {
    for (Chain& c : chains_) {
        if (VectorClock::at(group.clock.strict, c.index) < c.last) continue;
        *clock = ++c.last;
        return c.index;
    }
    chains_.push_back({next_index_, 1});
    next_index_ += kPerChain;
    *clock = 1;
    return chains_.back().index;
}

Checker::Group& Checker::group_of(uint32_t warp, uint32_t lane) {
    for (Group& g : warps_[warp].groups)
        if (g.lanes >> lane & 1) return g;
    return warps_[warp].groups[0];
}

// Calls f with each group of which lanes are in mask; those lanes become a group of their own.
template <class F>
void Checker::each_group(uint32_t warp, uint32_t mask, F f) {
    auto& groups = warps_[warp].groups;
    for (size_t i = 0, n = groups.size(); i < n; ++i) {
        const uint32_t lanes = groups[i].lanes & mask;
        if (lanes == 0) continue;
        if (lanes == groups[i].lanes) {
            f(groups[i]);
            continue;
        }
        groups.push_back(groups[i]);
        groups[i].lanes &= ~lanes;
        groups.back().lanes = lanes;
        f(groups.back());
    }
}

// What these lanes did themselves so far, in a clock: all of the warp's together, or each for itself.
void Checker::own(VectorClock& clock, uint32_t warp, uint32_t lanes, uint32_t which) {
    const WarpState& w = warps_[warp];
    if ((lanes & w.live) == w.live) {
        clock.raise(warp * kPerThread + which, w.time);
        return;
    }
    each_lane(lanes, [&](uint32_t lane) { clock.raise(lane_agent(warp, lane) + which, w.time); });
}

void Checker::release(VectorClock& to, uint32_t warp, uint32_t mask) {
    WarpState& w = warps_[warp];
    for (const Group& g : w.groups)
        if (g.lanes & mask) to.join(g.clock);
    own(to, warp, mask, kRaw);
    ++w.time;
}

// .relaxed hands over what a fence has readied: of any kind (8.8), of mbarrier.init (9.7.13.4), tcgen05.fence
// (9.7.16.6.4).
void Checker::release_fenced(VectorClock& to, uint32_t warp, uint32_t mask, Scope distance) {
    for (const Group& g : warps_[warp].groups) {
        if (!(g.lanes & mask)) continue;
        for (size_t fence = 0; fence < g.released.size(); ++fence) {
            if (!g.released[fence]) continue;
            if (static_cast<Scope>(fence) >= distance) to.join(*g.released[fence]);
            else to.join_narrow(*g.released[fence]);
        }
        for (uint32_t f : fenceable_) to.raise(f + kInitFence, VectorClock::at(g.clock.strict, f + kInitFence));
        for (uint32_t t : tmem_agents_)
            for (uint32_t i = t; i < t + kPerTmem; ++i) to.raise(i, VectorClock::at(g.clock.strict, i));
    }
}

void Checker::acquire(uint32_t warp, uint32_t mask, const VectorClock& from) {
    each_group(warp, mask, [&](Group& g) { g.clock.join(from); });
}

void Checker::acquire_fenced(uint32_t warp, uint32_t mask, const VectorClock& from) {
    each_group(warp, mask, [&](Group& g) {
        auto observed = std::make_shared<VectorClock>(from);   // a fence.acquire behind it brings the rest
        auto& so_far = g.observed[static_cast<size_t>(Scope::kCta)];
        if (so_far) observed->join(*so_far);
        so_far = std::move(observed);
        for (uint32_t t : tmem_agents_)
            for (uint32_t i = t; i < t + kPerTmem; ++i) g.clock.raise(i, VectorClock::at(from.strict, i));
    });
}

// The lanes know the same from here on, each other's accesses included.
void Checker::merge(uint32_t warp, uint32_t mask) {
    WarpState& w = warps_[warp];
    size_t into = w.groups.size();
    each_group(warp, mask, [](Group&) {});
    for (size_t i = 0; i < w.groups.size();) {
        if (!(w.groups[i].lanes & mask)) {
            ++i;
        } else if (into == w.groups.size() || into > i) {
            into = i++;
        } else {
            Group& to = w.groups[into];
            Group& from = w.groups[i];
            to.lanes |= from.lanes;
            to.clock.join(from.clock);
            VectorClock::join(to.tmem, from.tmem);
            for (size_t n = 0; n < to.released.size(); ++n) {
                if (!to.released[n]) to.released[n] = from.released[n];
                if (!to.observed[n]) to.observed[n] = from.observed[n];
            }
            if (i + 1 != w.groups.size()) from = std::move(w.groups.back());
            w.groups.pop_back();
        }
    }
    if (into < w.groups.size()) own(w.groups[into].clock, warp, mask, kRaw);
    ++w.time;
}

// ---- threads ----

void Checker::converged(Exec& x, uint32_t mask) {
    const uint32_t warp = warp_of(x);
    WarpState& w = warps_[warp];
    if (w.groups.size() == 1 && (mask & w.live) == w.live) {
        VectorClock::raise(w.groups[0].clock.loose, warp * kPerThread, w.time++);
        return;
    }
    std::vector<uint32_t> all, narrow, issuer, tmem;
    for (const Group& g : w.groups) {
        if (!(g.lanes & mask)) continue;
        VectorClock::join(all, g.clock.loose);
        VectorClock::join(narrow, g.clock.narrow);
        VectorClock::join(issuer, g.clock.issuer);
        VectorClock::join(tmem, g.tmem);
    }
    VectorClock mine;
    own(mine, warp, mask, kRaw);
    VectorClock::join(all, mine.loose);
    each_group(warp, mask, [&](Group& g) {
        g.clock.loose = all;
        g.clock.narrow = narrow;
        g.clock.issuer = issuer;
        g.tmem = tmem;
    });
    ++w.time;
    for (size_t i = 0; i < w.groups.size(); ++i) {
        for (size_t j = i + 1; j < w.groups.size();) {
            if (w.groups[i].clock.strict != w.groups[j].clock.strict ||
                w.groups[i].clock.loose != w.groups[j].clock.loose || w.groups[i].tmem != w.groups[j].tmem ||
                w.groups[i].released != w.groups[j].released || w.groups[i].observed != w.groups[j].observed) {
                ++j;
                continue;
            }
            w.groups[i].lanes |= w.groups[j].lanes;
            if (j + 1 != w.groups.size()) w.groups[j] = std::move(w.groups.back());
            w.groups.pop_back();
        }
    }
}

void Checker::warp_sync(Cta& cta, uint32_t warp, uint32_t mask) { merge(warp_of(cta, warp), mask); }

void Checker::barrier_arrive(Exec& x, uint32_t mask, uint32_t id) {
    release(barriers_[x.cta->rank * 16 + id][0], warp_of(x), mask);
}
void Checker::barrier_done(Cta& cta, uint32_t warp, uint32_t mask, uint32_t id) {
    const uint32_t w = warp_of(cta, warp);
    acquire(w, mask, barriers_[cta.rank * 16 + id][0]);
    merge(w, mask);
}
void Checker::barrier_next(Cta& cta, uint32_t id) { barriers_[cta.rank * 16 + id][0] = {}; }

void Checker::cluster_arrive(Exec& x, uint32_t mask, bool hands_over) {
    if (hands_over) release(cluster_barrier_[0], warp_of(x), mask);
    else release_fenced(cluster_barrier_[0], warp_of(x), mask, cluster_->ctas.size() > 1 ? Scope::kCluster
                                                                                         : Scope::kCta);
    arriving_[warp_of(x)] = warps_[warp_of(x)].time++;
}
void Checker::cluster_next() {
    for (const auto& cta : cluster_->ctas)
        for (const Warp& warp : cta->warps)   // who has exited has arrived
            if (warp.live == 0) arriving_[warp_of(*cta, warp.index)] = warps_[warp_of(*cta, warp.index)].time;
    arrived_ = std::make_shared<const std::vector<uint32_t>>(arriving_);
    cluster_barrier_[1].join(cluster_barrier_[0]);
    cluster_barrier_[0] = {};
}
void Checker::cluster_done(Exec& x, uint32_t mask) {
    const uint32_t warp = warp_of(x);
    acquire(warp, mask, cluster_barrier_[1]);
    warps_[warp].arrived = arrived_;
}

void Checker::fence(Exec& x, uint32_t mask, FenceKind kind, Scope scope) {
    const uint32_t warp = warp_of(x);
    WarpState& w = warps_[warp];
    switch (kind) {
        case FenceKind::kAcqRel:
        case FenceKind::kAcquire:
        case FenceKind::kRelease:
            each_group(warp, mask, [&](Group& g) {
                for (size_t d = 0; kind != FenceKind::kRelease && d < g.observed.size(); ++d) {
                    if (!g.observed[d]) continue;
                    if (static_cast<Scope>(d) > scope) {
                        g.clock.join_narrow(*g.observed[d]);   // a wider fence may follow
                        continue;
                    }
                    g.clock.join(*g.observed[d]);
                    g.observed[d].reset();
                }
                if (kind == FenceKind::kAcquire) return;
                auto released = std::make_shared<VectorClock>(g.clock);
                own(*released, warp, g.lanes, kRaw);
                for (size_t narrower = 0; narrower < static_cast<size_t>(scope); ++narrower)
                    g.released[narrower].reset();
                g.released[static_cast<size_t>(scope)] = std::move(released);
            });
            ++w.time;
            break;
        case FenceKind::kProxyAsync:
            each_group(warp, mask, [&](Group& g) {
                own(g.clock, warp, g.lanes, kFenced);
                own(g.clock, warp, g.lanes, kAnyFence);
                for (uint32_t f : fenceable_) {
                    VectorClock::raise(g.clock.strict, f + kAnyFence, VectorClock::at(g.clock.strict, f));
                    VectorClock::raise(g.clock.loose, f + kAnyFence, VectorClock::at(g.clock.loose, f));
                }
                for (const Chain& c : chains_) {
                    const uint32_t fenced = c.index + kChainFenced;
                    VectorClock::raise(g.clock.strict, fenced, VectorClock::at(g.clock.strict, c.index));
                    VectorClock::raise(g.clock.loose, fenced, VectorClock::at(g.clock.loose, c.index));
                }
            });
            ++w.time;
            break;
        case FenceKind::kMbarrierInit:
            each_group(warp, mask, [&](Group& g) { own(g.clock, warp, g.lanes, kInitFence); });
            w.init_fence = true;
            ++w.time;
            break;
        case FenceKind::kTmemBefore:
            each_group(warp, mask, [&](Group& g) {
                for (uint32_t t : tmem_agents_) {
                    g.clock.raise(t + kTmemFenced, VectorClock::at(g.tmem, t));
                    g.clock.raise(t + kTmemIssued, VectorClock::at(g.tmem, t + kTmemIssued));
                }
            });
            break;
        case FenceKind::kTmemAfter:
            each_group(warp, mask, [&](Group& g) {
                for (uint32_t t : tmem_agents_) {
                    VectorClock::raise(g.tmem, t, VectorClock::at(g.clock.loose, t + kTmemFenced));
                    VectorClock::raise(g.tmem, t + kTmemIssued, VectorClock::at(g.clock.loose, t + kTmemIssued));
                }
            });
            break;
    }
}

// Release and acquire patterns on a location (8.8): by the operation itself, or by a fence with a strong operation. A
// write is observed, and a release synchronises with an acquire, only if their scopes include each other (8.9.2,
// 8.9.4).
void Checker::synchronise(Exec& x, uint32_t mask, const uint64_t* at, MemorySpace space, bool write,
                          Strength strength) {
    const uint32_t warp = warp_of(x);
    const Semantics semantics = strength.semantics;
    const bool releases = semantics == Semantics::kRelease || semantics == Semantics::kAcqRel;
    const bool acquires = semantics == Semantics::kAcquire || semantics == Semantics::kAcqRel;
    const bool reads = !write || strength.atomicity == Atomicity::kAtomic;
    const auto key_of = [&](uint32_t lane) {
        const bool shared = space == MemorySpace::kShared || at[lane] >> kWindowShift == 1;
        return shared ? static_cast<uint64_t>(unit_) << 32 | (at[lane] & 0xffffffffu) | 1ull << 63 : at[lane];
    };
    each_group(warp, mask, [&](Group& g) {
        if (reads) {
            std::array<VectorClock, 4> seen;   // by distance
            std::array<bool, 4> any = {};
            const std::lock_guard lock(global_->handed_mutex);
            each_lane(g.lanes & mask, [&](uint32_t lane) {
                const auto found = global_->handed.find(key_of(lane));
                if (found == global_->handed.end()) return;
                for (const GlobalShadow::Handed& h : found->second) {
                    const Scope distance = distance_to(h, warp);
                    const bool wide = std::min(h.scope, strength.scope) >= distance;
                    const size_t d = static_cast<size_t>(distance);
                    any[d] = true;
                    if (h.clock_unit == unit_) {
                        if (wide) seen[d].join(*h.clock);
                        else seen[d].join_narrow(*h.clock);
                        continue;
                    }
                    uint32_t time;
                    const uint32_t index = chain_for(g, &time);
                    imports_.push_back({index, time, h.clock_unit, h.clock, h.agents});
                    if (wide) seen[d].raise(index, time);
                    else VectorClock::raise(seen[d].narrow, index, time);
                }
            });
            for (size_t d = 0; d < seen.size(); ++d) {
                if (!any[d]) continue;
                if (acquires) {
                    g.clock.join(seen[d]);
                    continue;
                }
                auto observed = std::make_shared<VectorClock>(std::move(seen[d]));
                if (g.observed[d]) observed->join(*g.observed[d]);
                g.observed[d] = std::move(observed);
            }
        }
        if (!write) return;
        std::vector<GlobalShadow::Handed> what;
        const auto hand = [&](const VectorClock& clock, Scope scope) {
            const auto add = [&](Scope of, uint32_t unit, std::shared_ptr<const VectorClock> known,
                                 std::shared_ptr<const LaneAgents> agents) {
                what.push_back({unit_, warp, g.lanes & mask, of, unit, std::move(known), std::move(agents)});
            };
            for (const Import& i : imports_) {
                if (VectorClock::at(clock.loose, i.index) >= i.clock) add(scope, i.unit, i.known, i.agents);
                else if (VectorClock::at(clock.narrow, i.index) >= i.clock)
                    add(Scope::kNone, i.unit, i.known, i.agents);
            }
            if (!handed_agents_) handed_agents_ = std::make_shared<const LaneAgents>(lane_agents_);
            add(scope, unit_, std::make_shared<const VectorClock>(clock), handed_agents_);
        };
        for (size_t fence = 0; fence < g.released.size(); ++fence)
            if (g.released[fence]) hand(*g.released[fence], std::min(static_cast<Scope>(fence), strength.scope));
        if (releases) {
            VectorClock clock = g.clock;
            own(clock, warp, g.lanes & mask, kRaw);
            hand(clock, strength.scope);
        }
        const std::lock_guard lock(global_->handed_mutex);
        each_lane(g.lanes & mask, [&](uint32_t lane) { hand_over(key_of(lane), warp, 1u << lane, what, strength); });
    });
    ++warps_[warp].time;
}

Scope Checker::distance_to(const GlobalShadow::Handed& h, uint32_t warp) const {
    if (h.unit != unit_) return Scope::kGpu;
    return h.warp / warps_per_cta_ == warp / warps_per_cta_ ? Scope::kCta : Scope::kCluster;
}

// A strong write at an address: what it hands over, and what becomes of that which others did.
void Checker::hand_over(uint64_t key, uint32_t warp, uint32_t lanes, const std::vector<GlobalShadow::Handed>& what,
                        Strength strength) {
    const auto found = global_->handed.find(key);
    if (found == global_->handed.end() && what.empty()) return;
    auto& to = found != global_->handed.end() ? found->second : global_->handed[key];
    if (strength.atomicity == Atomicity::kNone) {   // a plain store ends the release sequence of others
        std::erase_if(to, [&](const GlobalShadow::Handed& h) {
            return h.unit != unit_ || h.warp != warp || (h.lanes & lanes) == 0;
        });
    } else {   // an atomic operation passes on what it observes
        for (GlobalShadow::Handed& h : to)
            if (strength.scope < distance_to(h, warp)) h.scope = Scope::kNone;
    }
    for (const GlobalShadow::Handed& h : what) {
        bool placed = false;
        for (GlobalShadow::Handed& have : to) {
            if (have.unit != h.unit || have.warp != h.warp || have.scope != h.scope || have.clock_unit != h.clock_unit)
                continue;
            auto joined = std::make_shared<VectorClock>(*have.clock);
            joined->join(*h.clock);
            have.clock = std::move(joined);
            if (have.agents != h.agents) {   // of one cluster at two times: the later has those of the earlier
                auto agents = std::make_shared<LaneAgents>(*have.agents);
                VectorClock::join(*agents, *h.agents);
                have.agents = std::move(agents);
            }
            have.lanes |= h.lanes;
            placed = true;
            break;
        }
        if (!placed) to.push_back(h);
    }
}

// ---- mbarriers ----

void Checker::mbarrier_init(Exec& x, int lane, uint32_t address) {
    Record a = record_of(x, warp_of(x), 1u << lane);
    a.flags = Record::kWrite | Record::kInit;
    range(MemorySpace::kShared, address, 8, a, group_of(a.warp, static_cast<uint32_t>(lane)));
    Mbarrier& b = mbarriers_[address];
    const uint32_t index = b.index != 0 ? b.index : next_index_++, ended = b.ended;
    b = {};
    b.index = index;
    b.first = b.ended = ended;
}
void Checker::mbarrier_inval(Exec& x, int lane, uint32_t address) {
    Record a = record_of(x, warp_of(x), 1u << lane);
    a.flags = Record::kWrite;
    mbarriers_.erase(address);
    range(MemorySpace::kShared, address, 8, a, group_of(a.warp, static_cast<uint32_t>(lane)));
}

void Checker::mbarrier_arrive(Exec& x, uint32_t mask, const uint32_t* at, bool hands_over, bool arrives,
                              Scope scope) {
    const uint32_t warp = warp_of(x);
    while (mask != 0) {
        const uint32_t address = at[std::countr_zero(mask)];
        const uint32_t same = take_same(mask, at);
        Record a = record_of(x, warp, same);
        a.flags = Record::kWrite | Record::strong(Scope::kGpu) | Record::kBarrier;
        each_group(warp, same, [&](Group& g) {
            a.lanes = g.lanes;
            range(MemorySpace::kShared, address, 8, a, g);
        });
        Mbarrier& b = mbarrier(address);
        b.expect_pc = x.pc;
        if (!arrives) continue;
        b.arrivals.push_back({warp, same, warps_[warp].time, x.pc});
        for (const Group& g : warps_[warp].groups)
            if (g.lanes & same) VectorClock::join(b.arriving, g.clock.loose);
        VectorClock mine;
        own(mine, warp, same, kRaw);
        VectorClock::join(b.arriving, mine.loose);
        const bool remote = address >> kRankShift != x.cta->rank;
        if (hands_over) release(b.current, warp, same);
        else release_fenced(b.current, warp, same, remote ? Scope::kCluster : Scope::kCta);
        if (!remote || !hands_over) continue;
        if (scope == Scope::kCluster) b.remote.assign(1, a);
        else narrow_mbarrier(a, nullptr, address);
    }
}

// Known-good kernels lack the scope: what they hand over so counts, with a warning.
void Checker::narrow_mbarrier(const Record& a, const Record* arrival, uint32_t address) {
    Finding f;
    f.code = "mbarrier-scope";
    if (worker_->seen_finding(f.code, a.pc, arrival != nullptr ? arrival->pc : ~0u)) return;
    f.severity = Severity::kWarning;
    f.party = party_of(a);
    if (arrival != nullptr) f.other = party_of(*arrival);
    f.space = "shared";
    f.address = address;
    f.bytes = 8;
    f.what = arrival == nullptr
                 ? "releases to its own CTA only, at an mbarrier of another one (the default scope is .cta)"
                 : "acquires from its own CTA only what a thread of another one releases (the default scope is .cta)";
    f.would_order = "mbarrier.arrive.release.cluster and mbarrier.try_wait.acquire.cluster";
    worker_->report_finding(std::move(f));
}

// A wait that may take one phase of an mbarrier for another.
void Checker::report_aliasing(const Record& wait, uint32_t address, const char* what, const char* would_order) {
    Finding f;
    f.code = kPhaseAliasing;
    f.severity = Severity::kWarning;
    f.party = party_of(wait);
    f.space = "shared";
    f.address = address;
    f.bytes = 8;
    f.what = what;
    f.would_order = would_order;
    worker_->report_finding(std::move(f));
}

// A wait that has seen a phase end, named by its parity, of a thread that does not know that the one before ended: it
// might as well have come when that one ran, and then it would have taken the end of the last but one for this.
void Checker::phase_unknown(Mbarrier& b, const Record& a, uint32_t address, const Group& group) {
    if (b.index == 0 || b.ended - b.first < 2 || VectorClock::at(group.clock.loose, b.index) >= b.ended - 1) return;
    const auto known = [&](const Waiter& arrival) {
        return (arrival.warp == a.warp && (arrival.lanes & ~group.lanes) == 0) ||
               thread_known(group.clock.loose, arrival.warp, arrival.lanes, arrival.time, kRaw);
    };
    if (!b.last_asynchronous && std::all_of(b.last_arrivals.begin(), b.last_arrivals.end(), known)) return;
    if (worker_->seen_finding(kPhaseAliasing, a.pc, ~0u)) return;
    report_aliasing(a, address,
                    "this wait may come too early: nothing says that the phase before the one it waits for has ended, "
                    "and by its parity the last but one looks like it",
                    "a wait of this thread for the phase before, or something behind such a wait of another thread");
}

void Checker::mbarrier_waited(Exec& x, uint32_t mask, const uint32_t* at, bool acquires, bool parity, Scope scope) {
    const uint32_t warp = warp_of(x);
    while (mask != 0) {
        const uint32_t address = at[std::countr_zero(mask)];
        const uint32_t same = take_same(mask, at);
        Record a = record_of(x, warp, same);
        a.flags = Record::strong(Scope::kGpu) | Record::kBarrier;
        each_group(warp, same, [&](Group& g) {
            a.lanes = g.lanes;
            range(MemorySpace::kShared, address, 8, a, g);
        });
        Mbarrier& b = mbarrier(address);
        each_group(warp, same, [&](Group& g) {
            a.lanes = g.lanes;
            if (parity) phase_unknown(b, a, address, g);
            if (b.index != 0) g.clock.raise(b.index, b.ended);
        });
        a.lanes = same;
        if (acquires && scope < Scope::kCluster)
            for (const Record& arrival : b.remote_completed) narrow_mbarrier(a, &arrival, address);
        if (acquires) acquire(warp, same, b.completed);
        else acquire_fenced(warp, same, b.completed);
        for (Waiter& old : b.waiters)
            if (old.warp == warp) old.lanes &= ~same;
        std::erase_if(b.waiters, [](const Waiter& old) { return old.lanes == 0; });
        b.waiters.push_back({warp, same, warps_[warp].time, x.pc});
        ++warps_[warp].time;
    }
}

// Whoever waits for a phase must have seen its end before the next phase can end, or it may see two phases as none.
void Checker::mbarrier_completed(uint32_t address) {
    Mbarrier& b = mbarrier(address);
    for (const Waiter& w : b.waiters) {
        if (thread_known(b.arriving, w.warp, w.lanes, w.time, kRaw)) continue;
        Record r;
        r.warp = static_cast<uint16_t>(w.warp);
        r.lanes = w.lanes;
        r.pc = w.pc;
        report_aliasing(r, address,
                        "this wait may be overtaken: the mbarrier can complete its next phase before, and by its "
                        "parity the phase then looks as if it had not ended",
                        "an arrival of this thread, direct or through another barrier, that the next phase waits for");
    }
    b.waiters.clear();
    b.completed.join(b.current);
    b.current = {};
    b.remote_completed = std::move(b.remote);
    b.remote.clear();
    ++b.ended;
    b.last_arrivals = std::move(b.arrivals);
    b.arrivals.clear();
    b.last_asynchronous = b.asynchronous;
    b.asynchronous = false;
}

void Checker::finish(const Cta& cta) {
    if (cluster_->ctas.size() > 1) left_alone(cta);
    if (++finished_ == cluster_->ctas.size()) never_waited();
    for (const auto& [address, b] : mbarriers_) {
        if (address >> kRankShift != cta.rank) continue;
        uint64_t word;
        std::memcpy(&word, cta.shared.data() + (address - cta.shared_base), 8);
        const MbarrierState state = mbarrier_unpack(word);
        if (!state.valid || state.tx == 0) continue;
        // In a cluster a barrier may expect what its peer's receives (cta_group::2), and nobody wait for it.
        if (state.tx > 0 && cluster_->ctas.size() > 1) continue;
        Finding f;
        f.code = "mbarrier-bytes";
        f.party = worker_->party_at(b.expect_pc);
        f.party.cta[0] = cta.id.x, f.party.cta[1] = cta.id.y, f.party.cta[2] = cta.id.z;
        f.party.role = "at exit";
        f.space = "shared";
        f.address = address;
        f.bytes = 8;
        f.what = state.tx > 0 ? std::to_string(state.tx) + " bytes that the mbarrier expects have not arrived"
                              : std::to_string(-state.tx) + " bytes have arrived that the mbarrier does not expect";
        worker_->report_finding(std::move(f));
    }
}

// ---- asynchronous operations ----

void Checker::small_copy_arrive_issued(Exec& x, AsyncOp& op) {
    const uint32_t warp = warp_of(x), lanes = op.mask;
    auto handed = std::make_shared<VectorClock>();
    for (Outstanding& o : warps_[warp].outstanding)
        if (o.kind == AsyncKind::kCopy && o.lanes & lanes) handed->raise(o.index, o.clock);
    op.agent.hands_over = handed;
    Mbarrier& b = mbarrier(op.mbarrier);
    VectorClock::join(b.arriving, group_of(warp, static_cast<uint32_t>(op.lane)).clock.loose);
    VectorClock mine;
    own(mine, warp, warps_[warp].live, kRaw);   // all lanes execute it together, or the count would not come out
    VectorClock::join(b.arriving, mine.loose);
}

void Checker::commit_issued(Exec& x, AsyncOp& op) {
    const uint32_t warp = warp_of(x);
    const Group& g = group_of(warp, static_cast<uint32_t>(op.lane));
    auto handed = std::make_shared<VectorClock>();
    for (uint32_t t : tmem_agents_) {   // tcgen05.fence::before_thread_sync is part of it
        handed->raise(t + kTmemFenced, VectorClock::at(g.tmem, t));
        handed->raise(t + kTmemDone, VectorClock::at(g.clock.strict, t + kTmemDone));
    }
    const auto found = mma_agents_.find(warp * kLanes + static_cast<uint32_t>(op.lane));
    if (found != mma_agents_.end()) {
        for (uint32_t i = 0; i < kPerTmem; ++i) handed->raise(found->second.first + i, found->second.second);
    }
    op.agent.hands_over = handed;
    auto issuer = std::make_shared<VectorClock>();
    issuer->loose = g.clock.loose;
    own(*issuer, warp, 1u << op.lane, kRaw);
    op.agent.issuer = issuer;
    ++warps_[warp].time;
}

void Checker::signalled(const AsyncOp& op, uint32_t address) {
    Mbarrier& b = mbarrier(address);
    b.asynchronous = true;
    if (op.agent.hands_over) b.current.join(*op.agent.hands_over);
    else if (op.agent.index != 0) b.current.raise(op.agent.index, op.agent.clock);
    if (op.agent.issuer) VectorClock::join(b.arriving, op.agent.issuer->loose);
    if (op.kind == AsyncKind::kCancel) b.current.join_issuer(*op.agent.issuer);
}

void Checker::groups_waited(Exec& x, uint32_t mask, AsyncKind first, AsyncKind last, const uint32_t* below,
                            bool read_only) {
    const uint32_t warp = warp_of(x);
    auto& outstanding = warps_[warp].outstanding;
    if (first == AsyncKind::kWgmma) {
        const uint32_t agent = warps_[warp].wgmma;
        uint32_t done = 0;
        for (const Outstanding& o : outstanding)
            if (o.kind == AsyncKind::kWgmma && o.group < below[0]) done = std::max(done, o.clock);
        std::erase_if(outstanding,
                      [&](const Outstanding& o) { return o.kind == AsyncKind::kWgmma && o.group < below[0]; });
        warps_[warp].wgmma_done = std::max(warps_[warp].wgmma_done, done);
        if (done != 0) each_group(warp, mask, [&](Group& g) { g.clock.raise(agent, done); });
        return;
    }
    for (Outstanding& o : outstanding) {
        if (o.kind < first || o.kind > last || !(o.lanes & mask) || (read_only && !o.read_half)) continue;
        const uint32_t lanes = o.lanes & mask;
        if (o.group >= below[std::countr_zero(lanes)]) continue;
        each_group(warp, lanes, [&](Group& g) { g.clock.raise(o.index, o.clock); });
        o.lanes &= ~lanes;
    }
    std::erase_if(outstanding, [](const Outstanding& o) { return o.lanes == 0; });
}

void Checker::tmem_waited(Exec& x, bool load) {
    const uint32_t warp = warp_of(x);
    const uint32_t agent = load ? warps_[warp].load : warps_[warp].store;
    if (agent == 0) return;
    const uint32_t done = VectorClock::at(counts_, agent);
    each_group(warp, kFullMask, [&](Group& g) {
        VectorClock::raise(g.tmem, agent, done);
        g.clock.raise(agent + kTmemDone, done);
    });
}

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Named barriers, cluster barriers, mbarrier objects, fences (PTX ISA 9.7.13.1, .3, .4, .15).
#include <bit>

#include "checker.h"
#include "hex.h"
#include "isa.h"
#include "profile.h"
#include "warp.h"

namespace ptxemu {
namespace {

// ---- bar, barrier ----

// slot: 0 barrier, 1 thread count (imm bit 0: given), 2 predicate of red. aux: 0 sync, 1 arrive, 2 red.
bool exec_bar(Exec& x, const Insn& in, uint32_t mask) {
    const bool aligned = in.flags & kAligned;
    if (aligned && !converge(x, mask)) return false;
    const int first = std::countr_zero(mask);
    const uint32_t id = x.at<uint32_t>(in.slot[0])[first];
    const uint32_t threads = in.imm & 1 ? x.at<uint32_t>(in.slot[1])[first] : 0;
    for (int lane = first; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        if (x.at<uint32_t>(in.slot[0])[lane] != id || (in.imm & 1 && x.at<uint32_t>(in.slot[1])[lane] != threads)) {
            fault(RunStatus::kIllegalInstruction, lane,
                  "the lanes of one instruction name different barriers or thread counts");
        }
    }
    if (in.imm & 1 && threads == 0) fault(RunStatus::kIllegalInstruction, -1, "a thread count of 0");
    const uint32_t value = in.aux == 2 ? x.predicate(in, 2) : 0;
    return barrier_arrive(x, mask, id, threads, aligned, in.aux != 1, value);
}

void encode_bar(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (m.words[0] == "bar") out.flags |= kAligned;
    out.aux = m.has("arrive") ? 1 : m.has("red") ? 2 : 0;
    size_t at = out.aux == 2 ? 1 : 0;
    const size_t n = ir.operands.size(), tail = out.aux == 2 ? 1 : 0;
    if (n != at + 1 + tail && n != at + 2 + tail) d.fail("it has another number of operands");
    if (out.aux == 1 && n != 2) d.fail("arrive needs a thread count");
    out.slot[0] = d.source(ir.operands[at++], 32);
    if (n == at + 1 + tail) {
        out.imm = 1;
        out.slot[1] = d.source(ir.operands[at++], 32);
    }
    if (out.aux != 2) return;
    out.slot[2] = d.predicate_source(ir.operands[at], out, 2);
    const bool popc = m.has("popc");
    const uint32_t to = popc ? d.destination(ir.operands[0], 32) : d.predicate_destination(ir.operands[0]);
    out.list = d.list_begin();
    d.list_add(popc ? 0 : m.has("and") ? 1 : 2);
    d.list_add(to);
    out.list_count = 2;
}

// ---- barrier.cluster ----

bool exec_cluster_arrive(Exec& x, const Insn& in, uint32_t mask) {
    if (in.flags & kAligned && !converge(x, mask)) return false;
    Cluster& cluster = *x.cta->cluster;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        uint32_t& arrived = x.warp->cluster_arrival[lane];
        if (arrived == cluster.generation + 1)
            fault(RunStatus::kIllegalInstruction, lane, "the thread arrives twice without barrier.cluster.wait");
        arrived = cluster.generation + 1;
    }
    if (x.checker) [[unlikely]] x.checker->cluster_arrive(x, mask, !(in.flags & kAlternate));
    cluster.arrived += static_cast<uint32_t>(std::popcount(mask));
    cluster_barrier_check(cluster);
    return true;
}
bool exec_cluster_wait(Exec& x, const Insn& in, uint32_t mask) {
    if (in.flags & kAligned && !converge(x, mask)) return false;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint32_t arrived = x.warp->cluster_arrival[lane];
        if (arrived == 0)
            fault(RunStatus::kIllegalInstruction, lane, "the thread waits without barrier.cluster.arrive");
        if (arrived == x.cta->cluster->generation + 1) return block(x, mask, Wait::kCluster);
    }
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1) x.warp->cluster_arrival[lane] = 0;
    if (x.checker) [[unlikely]] x.checker->cluster_done(x, mask);
    return true;
}

// ---- mbarrier ----

void check(Exec&, int lane, uint64_t address, const std::string& broken) {
    if (broken.empty()) return;
    fault(RunStatus::kIllegalInstruction, mbarrier_code(broken), lane,
          "mbarrier " + hex(address & kWindowMask) + ": " + broken);
}

// The object at a shared address that must be, or (remote) need not be, of the executing CTA.
uint64_t* own_mbarrier_at(Exec& x, int lane, uint64_t address) {
    return mbarrier_at(x, lane, own_shared_address(x, lane, address, "mbarrier address"));
}
void phase_completed(Exec& x, int lane, uint64_t address) {
    if (x.checker) [[unlikely]] x.checker->mbarrier_completed(static_cast<uint32_t>(address));
    ++cta_of(x, lane, address & 0xffffffffu).epoch;
}

Scope scope_of(const Insn& in) { return in.flags & kAlternate2 ? Scope::kCluster : Scope::kCta; }
void shared_addresses(const Exec& x, const Insn& in, int slot, uint32_t mask, uint32_t* at) {
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1) at[lane] = static_cast<uint32_t>(lane_address(x, in, slot, lane) & kWindowMask);
}
void tell_arrival(Exec& x, const Insn& in, int slot, uint32_t mask, bool arrives) {
    uint32_t at[kLanes];
    shared_addresses(x, in, slot, mask, at);
    x.checker->mbarrier_arrive(x, mask, at, !(in.flags & kAlternate), arrives, scope_of(in));
}
void note_relaxed(Decoder&, const Match& m, const Instruction&, Insn& out) {
    if (m.has("relaxed")) out.flags |= kAlternate;
    if (m.has("cluster")) out.flags |= kAlternate2;
}

// Whether an object lives at a shared address of the executing CTA: data may look like one.
std::vector<bool>::reference mbarrier_lives(Exec& x, uint64_t address) {
    const size_t word = (static_cast<uint32_t>(address) - x.cta->shared_base) / 8;
    if (x.cta->mbarriers.size() <= word) x.cta->mbarriers.resize(x.cta->shared.size() / 8 + 1);
    return x.cta->mbarriers[word];
}

// slot: 0 address, 1 count.
bool exec_mbarrier_init(Exec& x, const Insn& in, uint32_t mask) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        const uint32_t count = x.at<uint32_t>(in.slot[1])[lane];
        const auto same = [&](int other) {
            return (mask >> other & 1) && lane_address(x, in, 0, other) == address &&
                   x.at<uint32_t>(in.slot[1])[other] == count;
        };
        int earlier = 0;
        while (earlier < lane && !same(earlier)) ++earlier;
        if (earlier < lane) {   // stored once, like any value that several lanes store
            if (x.device->check)
                warn(x, "mbarrier-reinitialised", "several lanes initialise the same mbarrier; one of them is enough");
            continue;
        }
        uint64_t* word = own_mbarrier_at(x, lane, address);
        if (auto lives = mbarrier_lives(x, address); !lives) {
            *word = 0;
            lives = true;
        }
        check(x, lane, address, mbarrier_init(word, count));
        if (x.checker) [[unlikely]] x.checker->mbarrier_init(x, lane, static_cast<uint32_t>(address));
    }
    return true;
}
bool exec_mbarrier_inval(Exec& x, const Insn& in, uint32_t mask) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        check(x, lane, address, mbarrier_inval(own_mbarrier_at(x, lane, address)));
        mbarrier_lives(x, address) = false;
        if (x.checker) [[unlikely]] x.checker->mbarrier_inval(x, lane, static_cast<uint32_t>(address));
    }
    return true;
}
// aux: 0 expect_tx, 1 complete_tx; 2: of any CTA of the cluster.
bool exec_mbarrier_tx(Exec& x, const Insn& in, uint32_t mask) {
    if (x.checker) [[unlikely]] tell_arrival(x, in, 0, mask, false);
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        uint64_t* word = in.aux & 2 ? mbarrier_at(x, lane, address) : own_mbarrier_at(x, lane, address);
        const uint32_t bytes = x.at<uint32_t>(in.slot[1])[lane];
        bool completed = false;
        check(x, lane, address,
              in.aux & 1 ? mbarrier_complete_tx(word, bytes, &completed)
                         : mbarrier_expect_tx(word, bytes, &completed));
        if (completed) phase_completed(x, lane, address);
        if (x.profile) x.profile->arrived(x, shared_address(x, lane, address, "mbarrier address"));
    }
    return true;
}
void encode_tx(Decoder&, const Match& m, const Instruction&, Insn& out) {
    out.aux = (m.words[1] == "complete_tx" ? 1 : 0) | (m.has("shared") || m.has("shared::cta") ? 0 : 2);
}

// Known-good kernels end with a release of a stage to a peer that may have exited. Its memory is there until the
// cluster ends, and nobody looks.
uint64_t* arrival_at(Exec& x, int lane, uint64_t address) {
    const uint32_t a = shared_address(x, lane, address, "mbarrier address");
    Cta& cta = cta_of(x, lane, a);
    const uint32_t offset = a - cta.shared_base;
    if (!cta.exited() || offset < kSharedBase || offset + 8 > cta.shared_bytes || offset % 8 != 0)
        return mbarrier_at(x, lane, address);
    if (x.device->check) {
        warn(x, "arrive-at-exited-cta", "arrives at an mbarrier of the CTA of rank " + std::to_string(cta.rank) +
                                            " of the cluster, which has exited");
    }
    return reinterpret_cast<uint64_t*>(cta.shared.data() + offset);
}

// mbarrier.arrive, arrive_drop. slot: 0 address, 1 count or txCount, 2 state. aux bit 0 drop, 1 expect_tx, 2
// noComplete, 3 of any CTA of the cluster.
bool exec_mbarrier_arrive(Exec& x, const Insn& in, uint32_t mask) {
    uint64_t* state = x.at<uint64_t>(in.slot[2]);
    if (x.checker) [[unlikely]] tell_arrival(x, in, 0, mask, true);
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 0, lane);
        uint64_t* word = in.aux & 8 ? arrival_at(x, lane, address) : own_mbarrier_at(x, lane, address);
        if (in.slot[2] != kSinkSlot) own_shared_address(x, lane, address, "mbarrier address of an arrive with a state");
        const uint32_t operand = x.at<uint32_t>(in.slot[1])[lane];
        uint64_t token = 0;
        bool completed = false;
        if (in.aux & 2) {
            // The arrival that follows is part of the same phase: it is pending, so that expect-tx completes nothing.
            check(x, lane, address, mbarrier_expect_tx(word, operand, &completed));
        }
        check(x, lane, address, mbarrier_arrive(word, in.aux & 2 ? 1 : operand, in.aux & 1, &token, &completed));
        if (completed && in.aux & 4) check(x, lane, address, "an arrive.noComplete completes the phase");
        if (completed) phase_completed(x, lane, address);
        if (x.profile) x.profile->arrived(x, shared_address(x, lane, address, "mbarrier address"));
        state[lane] = token;
    }
    return true;
}
void encode_arrive(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool expect = m.has("expect_tx"), no_complete = m.has("noComplete");
    size_t at = 0;
    out.slot[2] = kSinkSlot;
    if (ir.operands.empty()) d.fail("it needs an address");
    if (ir.operands[0].kind != Operand::Kind::kMemory) {   // the state may be left out: mbarrier.arrive [addr]
        out.slot[2] = d.destination(ir.operands[0], 64);
        ++at;
    }
    if (m.has("shared::cluster") && out.slot[2] != kSinkSlot)
        d.fail("an arrive on .shared::cluster returns no state; write _");
    const size_t left = ir.operands.size() - at;
    const bool needs_count = expect || no_complete;
    if (left != 2 && !(left == 1 && !needs_count)) d.fail("it has another number of operands");
    d.address(ir.operands[at], out, 0);
    out.slot[1] = left == 2 ? d.source(ir.operands[at + 1], 32) : d.constant(1, 32);
    const bool any = !m.has("shared") && !m.has("shared::cta") && !no_complete;
    note_relaxed(d, m, ir, out);
    out.aux = (m.words[1] == "arrive_drop" ? 1 : 0) | (expect ? 2 : 0) | (no_complete ? 4 : 0) | (any ? 8 : 0);
}

// test_wait, try_wait. slot: 0 p, 1 address, 2 state (64 bits) or parity. aux bit 0 parity, 1 may wait.
bool exec_mbarrier_wait(Exec& x, const Insn& in, uint32_t mask) {
    uint32_t done = 0;
    uint64_t waits_at = 0, seen = 0;
    uint32_t waits_phase = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t address = lane_address(x, in, 1, lane);
        const uint64_t word = *own_mbarrier_at(x, lane, address);
        if (!mbarrier_unpack(word).valid)
            check(x, lane, address, "wait on memory that holds no initialised mbarrier object");
        bool complete;
        if (in.aux & 1) {
            // 0 or 1 by the manual. ptxas shifts it left by 31 (SHF before SYNCS.PHASECHK, sm_90 and sm_100), and
            // Triton passes a predicate extended by its sign.
            const uint32_t given = x.at<uint32_t>(in.slot[2])[lane], parity = given & 1;
            if (given > 1 && x.device->check)
                warn(x, "mbarrier-misuse", "the phase parity is " + std::to_string(given) +
                                               ", neither 0 nor 1; the hardware takes its lowest bit");
            complete = mbarrier_test_parity(word, parity);
            if (!complete) waits_phase = parity;
        } else {
            const uint64_t token = x.at<uint64_t>(in.slot[2])[lane];
            complete = mbarrier_test_token(word, token);
            if (!complete) waits_phase = mbarrier_unpack(token).phase & 1;
        }
        if (complete) done |= 1u << lane;
        else waits_at = address;
        seen = (seen ^ address ^ word) * 0x9E3779B97F4A7C15ull;
    }
    Fragment& f = x.frag();
    const bool forced = f.forced;
    f.forced = false;
    const bool spurious = x.cta->adversarial && x.cta->cluster->random.below(8) == 0;
    if (done == 0 && in.aux & 2 && !forced && !spurious) {
        f.wait_address = static_cast<uint32_t>(waits_at & kWindowMask);
        f.wait_phase = waits_phase;
        return block(x, mask, Wait::kMbarrier);
    }
    x.set_predicate(in.slot[0], done, mask);
    if (x.checker && done != 0) [[unlikely]] {
        uint32_t at[kLanes];
        shared_addresses(x, in, 1, done, at);
        x.checker->mbarrier_waited(x, done, at, !(in.flags & kAlternate), (in.aux & 1) != 0, scope_of(in));
    }
    if (done == mask) return true;
    if (!(in.aux & 2)) poll(x, in, mask, seen);
    x.flow = Flow::kYield;
    return false;
}
void encode_wait(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool may_wait = m.words[1] == "try_wait", parity = m.has("parity");
    if (ir.operands.size() != 3 && !(may_wait && ir.operands.size() == 4)) d.fail("it has another number of operands");
    out.slot[0] = d.predicate_destination(ir.operands[0]);
    d.address(ir.operands[1], out, 1);
    out.slot[2] = d.source(ir.operands[2], parity ? 32 : 64);
    if (ir.operands.size() == 4) d.source(ir.operands[3], 32);   // suspendTimeHint
    note_relaxed(d, m, ir, out);
    out.aux = (parity ? 1 : 0) | (may_wait ? 2 : 0);
}

bool exec_pending_count(Exec& x, const Insn& in, uint32_t mask) {
    uint32_t* d = x.at<uint32_t>(in.slot[0]);
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1) d[lane] = mbarrier_pending_count(x.at<uint64_t>(in.slot[1])[lane]);
    return true;
}

// Instructions of a warp take effect in order and memory is one: fences change nothing here. (Asynchronous operations
// complete when the scheduler says so.) aux: FenceKind; imm: Scope.
bool exec_fence(Exec& x, const Insn& in, uint32_t mask) {
    if (x.checker) [[unlikely]] x.checker->fence(x, mask, static_cast<FenceKind>(in.aux), static_cast<Scope>(in.imm));
    return true;
}
bool exec_other_fence(Exec&, const Insn&, uint32_t) { return true; }
template <FenceKind kKind>
void encode_fence(Decoder&, const Match& m, const Instruction&, Insn& out) {
    FenceKind kind = kKind;
    if (kKind == FenceKind::kAcqRel && m.has("acquire")) kind = FenceKind::kAcquire;
    if (kKind == FenceKind::kAcqRel && m.has("release")) kind = FenceKind::kRelease;
    out.aux = static_cast<uint32_t>(kind);
    out.imm = static_cast<uint64_t>(m.has("cta") ? Scope::kCta : m.has("cluster") ? Scope::kCluster : Scope::kGpu);
}

#define LIDX_SHARED_CTA "[shared|shared::cta]"
#define LIDX_SHARED_ANY "[shared|shared::cta|shared::cluster]"

const Row kRows[] = {
    // barrier{.cta}.sync{.aligned} a{, b};  barrier{.cta}.arrive{.aligned} a, b;  bar{.cta}.sync, bar{.cta}.arrive
    // (9.7.13.1)
    {"bar.[cta].(sync|arrive)", "*", exec_bar, nullptr, encode_bar},
    {"barrier.[cta].(sync|arrive).[aligned]", "*", exec_bar, nullptr, encode_bar},
    // barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, {!}c;  barrier{.cta}.red.(and|or){.aligned}.pred p, a{, b}, {!}c
    {"bar.[cta].red.popc.u32", "*", exec_bar, nullptr, encode_bar},
    {"bar.[cta].red.(and|or).pred", "*", exec_bar, nullptr, encode_bar},
    {"barrier.[cta].red.popc.[aligned].u32", "*", exec_bar, nullptr, encode_bar},
    {"barrier.[cta].red.(and|or).[aligned].pred", "*", exec_bar, nullptr, encode_bar},
    // barrier.cluster.arrive{.sem}{.aligned};  barrier.cluster.wait{.acquire}{.aligned}  (9.7.13.3)
    {"barrier.cluster.arrive.[release|relaxed].[aligned]", "-", exec_cluster_arrive, "90", note_relaxed},
    {"barrier.cluster.wait.[acquire].[aligned]", "-", exec_cluster_wait, "90"},
    // membar.level;  fence{.sem}.scope;  fence.proxy...;  fence.mbarrier_init.release.cluster  (9.7.13.4)
    {"membar.(cta|gl|sys)", "-", exec_fence, nullptr, encode_fence<FenceKind::kAcqRel>},
    {"membar.proxy.alias", "-", exec_other_fence},
    {"membar.proxy.(async|async.global|async.shared::cta|async.shared::cluster)", "-", exec_fence, nullptr,
     encode_fence<FenceKind::kProxyAsync>},
    {"fence.[sc|acq_rel|acquire|release].(cta|cluster|gpu|sys)", "-", exec_fence, nullptr,
     encode_fence<FenceKind::kAcqRel>},
    {"fence.acquire.sync_restrict::shared::cluster.cluster", "-", exec_fence, "90", encode_fence<FenceKind::kAcqRel>},
    {"fence.release.sync_restrict::shared::cta.cluster", "-", exec_fence, "90", encode_fence<FenceKind::kAcqRel>},
    {"fence.mbarrier_init.release.cluster", "-", exec_fence, "90", encode_fence<FenceKind::kMbarrierInit>},
    {"fence.proxy.alias", "-", exec_other_fence},
    {"fence.proxy.async.[global|shared::cta|shared::cluster]", "-", exec_fence, "90",
     encode_fence<FenceKind::kProxyAsync>},
    {"fence.proxy.tensormap::generic.release.(cta|cluster|gpu|sys)", "-", exec_other_fence, "90"},
    {"fence.proxy.tensormap::generic.acquire.(cta|cluster|gpu|sys)", "m i", exec_other_fence, "90"},
    {"fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", "-", exec_fence, "90",
     encode_fence<FenceKind::kProxyAsync>},
    {"fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", "-", exec_fence, "90",
     encode_fence<FenceKind::kProxyAsync>},
    // mbarrier.init{.shared{::cta}}.b64 [addr], count;  mbarrier.inval  (9.7.13.15.9, .10)
    {"mbarrier.init." LIDX_SHARED_CTA ".b64", "m s32", exec_mbarrier_init, "80"},
    {"mbarrier.inval." LIDX_SHARED_CTA ".b64", "m", exec_mbarrier_inval, "80"},
    // mbarrier.expect_tx, complete_tx{.sem.scope}{.space}.b64 [addr], txCount  (9.7.13.15.11, .12)
    {"mbarrier.expect_tx.[relaxed].[cta|cluster]." LIDX_SHARED_ANY ".b64", "m s32", exec_mbarrier_tx, "90",
     encode_tx},
    {"mbarrier.complete_tx.[relaxed].[cta|cluster]." LIDX_SHARED_ANY ".b64", "m s32", exec_mbarrier_tx, "90",
     encode_tx},
    // mbarrier.arrive, arrive_drop{.expect_tx|.noComplete}{.sem.scope}{.space}.b64 state|_, [addr]{, count|txCount}
    // (9.7.13.15.13, .14)
    {"mbarrier.(arrive|arrive_drop).[expect_tx].[release|relaxed].[cta|cluster]." LIDX_SHARED_ANY ".b64", "*",
     exec_mbarrier_arrive, "80", encode_arrive},
    {"mbarrier.(arrive|arrive_drop).noComplete.[release].[cta]." LIDX_SHARED_CTA ".b64", "*", exec_mbarrier_arrive,
     "80", encode_arrive},
    // mbarrier.test_wait, try_wait{.parity}{.sem.scope}{.shared{::cta}}.b64 p, [addr], state|parity{, suspendTimeHint}
    // (9.7.13.15.16)
    {"mbarrier.test_wait.[parity].[acquire|relaxed].[cta|cluster]." LIDX_SHARED_CTA ".b64", "*", exec_mbarrier_wait,
     "80", encode_wait},
    {"mbarrier.try_wait.[parity].[acquire|relaxed].[cta|cluster]." LIDX_SHARED_CTA ".b64", "*", exec_mbarrier_wait,
     "90", encode_wait},
    // mbarrier.pending_count.b64 count, state  (9.7.13.15.17)
    {"mbarrier.pending_count.b64", "r32 s64", exec_pending_count, "80"},
};

}   // namespace

void mbarrier_arrive_at(Exec& x, const AsyncOp& op, uint32_t address) {
    bool completed = false;
    if (x.checker) [[unlikely]] x.checker->signalled(op, address);
    check(x, op.lane, address, mbarrier_arrive(mbarrier_at(x, op.lane, address), 1, false, nullptr, &completed));
    if (completed) phase_completed(x, op.lane, address);
    if (x.profile) x.profile->arrived(x, address);
}

void mbarrier_complete_at(Exec& x, const AsyncOp& op, uint32_t address, uint32_t bytes) {
    bool completed = false;
    if (x.checker) [[unlikely]] x.checker->signalled(op, address);
    check(x, op.lane, address, mbarrier_complete_tx(mbarrier_at(x, op.lane, address), bytes, &completed));
    if (completed) phase_completed(x, op.lane, address);
    if (x.profile) x.profile->arrived(x, address);
}

std::span<const Row> rows_barrier() { return kRows; }

}   // namespace ptxemu

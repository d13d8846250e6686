// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies: cp.async, cp.async.bulk, TMA tensor copies (PTX ISA 9.7.9.25). Issued here, carried out by
// complete() when the scheduler lets time pass: global memory is read and shared memory written at that moment.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "atomics.h"
#include "checker.h"
#include "definedness.h"
#include "isa.h"
#include "profile.h"
#include "tma.h"
#include "warp.h"

namespace ptxemu {
namespace {

template <class F>
bool each_lane(uint32_t mask, F f) {
    for (int lane = 0; lane < kLanes; ++lane)
        if (mask >> lane & 1) f(lane);
    return true;
}

std::shared_ptr<TensorMapArgs> tensor_map_at(Exec& x, int lane, uint64_t address) {
    const uint8_t* bytes = generic_at(x, lane, address, 128, 64, false);
    auto map = std::make_shared<TensorMapArgs>();
    if (!tensor_map_decode(bytes, map.get())) {
        fault(RunStatus::kIllegalInstruction, lane,
              "the 128 bytes at the tensor map's address are not a map made by cuTensorMapEncodeTiled");
    }
    if (x.checker && address >> kWindowShift == 0) [[unlikely]] {
        uint64_t at[kLanes] = {};
        at[lane] = address;
        x.checker->map_accessed(x, 1u << lane, at, MemorySpace::kGlobal, false);
    }
    std::string why;
    if (map->replaced != 0 && !tensor_map_check(*map, &why, x.device->compute_capability))
        fault(RunStatus::kIllegalInstruction, lane,
              "the tensor map, as tensormap.replace has left it, is wrong: " + why);
    return map;
}

// aux: rank | coordinates listed from lists[list_count - 1 ...]. Lists: see encode_tensor.
void read_coordinates(const Exec& x, uint32_t at, int rank, int lane, int32_t* coords) {
    for (int i = 0; i < rank; ++i) coords[i] = static_cast<int32_t>(x.at<uint32_t>(x.lists[at + i])[lane]);
}

void check_rank(int lane, const TensorMapArgs& map, int rank) {
    if (static_cast<int>(map.rank) != rank) {
        fault(RunStatus::kIllegalInstruction, lane,
              "the tensor map has rank " + std::to_string(map.rank) + ", the instruction " + std::to_string(rank));
    }
}

// Where a copy to shared memory goes, and the mbarrier that counts it: one place, or the same one in several CTAs.
struct Destination {
    uint32_t shared, mbarrier;
};
enum DestinationFlag : uint32_t {
    kOwnOnly = kAlternate,      // .shared::cta
    kMulticast = kAlternate2,   // slot 1: ctaMask
    kPair = kAlternate3         // .cta_group::2
};
std::vector<Destination> destinations(Exec& x, const Insn& in, int lane, uint64_t dst, uint64_t barrier,
                                      uint32_t bytes, uint32_t align) {
    uint32_t at = 0, signal = 0;
    if (in.flags & kOwnOnly) {
        at = own_shared_address(x, lane, dst, "destination in .shared::cta");
        signal = own_shared_address(x, lane, barrier, "mbarrier address");
    } else {
        at = shared_address(x, lane, dst, "destination");
        signal = shared_address(x, lane, barrier, "mbarrier address");
    }
    constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;
    const uint32_t rank = at >> kRankShift, signal_rank = signal >> kRankShift;
    const bool pair = in.flags & kPair;
    if (signal_rank != rank && !(pair && signal_rank == (rank ^ 1))) {
        fault(RunStatus::kIllegalAddress, lane,
              "the mbarrier is in the CTA of rank " + std::to_string(signal_rank) +
                  ", the destination in that of rank " + std::to_string(rank) +
                  (pair ? ", which is not its peer" : ""));
    }
    std::vector<Destination> all;
    if (!(in.flags & kMulticast)) {
        all.push_back({at, signal});
    } else {
        const uint32_t mask = cta_mask_at(x, lane, x.at<uint32_t>(in.slot[1])[lane]);
        for (uint32_t r = 0; r < 16; ++r) {
            if (!(mask >> r & 1)) continue;
            const uint32_t to = pair ? (r & ~1u) | (signal_rank & 1) : r;
            all.push_back({r << kRankShift | (at & kOffsetMask), to << kRankShift | (signal & kOffsetMask)});
        }
    }
    for (const Destination& d : all) {
        mbarrier_at(x, lane, d.mbarrier);
        cluster_shared_at(x, lane, d.shared, bytes, align);
    }
    return all;
}

// cp.async.bulk.tensor global -> shared. Lists: dst (4 words), map (4), mbarrier (4), coordinates. A multicast arrives
// in each CTA at a time of its own.
bool exec_tensor_load(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const int rank = static_cast<int>(in.aux);
        auto map = tensor_map_at(x, lane, listed_address(x, in.list + 4, lane));
        check_rank(lane, *map, rank);
        const uint32_t bytes = tma_box_bytes(*map);
        for (const Destination& d : destinations(x, in, lane, listed_address(x, in.list, lane),
                                                 listed_address(x, in.list + 8, lane), bytes, 128)) {
            AsyncOp& op = queue_unordered(x, AsyncKind::kTensorLoad, lane);
            op.map = map;
            op.shared = d.shared;
            op.mbarrier = d.mbarrier;
            op.bytes = bytes;
            read_coordinates(x, in.list + 12, rank, lane, op.coords);
            if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
        }
    });
}

// The element of a reduction is the tensor map's.
Reduction tensor_reduction(int lane, const TensorMapArgs& map, AtomOp op) {
    // In the order of CUtensorMapDataType: UINT8, UINT16, UINT32, INT32, UINT64, INT64, FLOAT16, FLOAT32, FLOAT64,
    // BFLOAT16.
    static constexpr struct {
        AtomType type;
        uint32_t bytes;
        bool is_signed;
    } kTypes[] = {{AtomType::kInt, 1, false}, {AtomType::kInt, 2, false}, {AtomType::kInt, 4, false},
                  {AtomType::kInt, 4, true},  {AtomType::kInt, 8, false}, {AtomType::kInt, 8, true},
                  {AtomType::kF16, 2, false}, {AtomType::kF32, 4, false}, {AtomType::kF64, 8, false},
                  {AtomType::kBf16, 2, false}};
    const bool known = map.data_type < std::size(kTypes);
    Reduction r;
    if (known) {
        const auto& t = kTypes[map.data_type];
        r = {op, t.type, t.bytes, t.is_signed};
    }
    const bool integer = r.type == AtomType::kInt && r.bytes >= 4;
    const bool half = r.type == AtomType::kF16 || r.type == AtomType::kBf16;
    bool legal = false;
    switch (op) {
        case AtomOp::kAdd:
            legal = (integer && !(r.bytes == 8 && r.is_signed)) || half || r.type == AtomType::kF32;
            break;
        case AtomOp::kMin:
        case AtomOp::kMax: legal = integer || half; break;
        case AtomOp::kInc:
        case AtomOp::kDec: legal = integer && r.bytes == 4 && !r.is_signed; break;
        default: legal = integer; break;
    }
    if (!known || !legal) {
        fault(RunStatus::kIllegalInstruction, lane,
              "this reduction does not exist for the tensor map's data type " + std::to_string(map.data_type));
    }
    return r;
}

// shared -> global. Lists: map (4), src (4), coordinates. imm: 0 store, else AtomOp + 1.
bool exec_tensor_store(Exec& x, const Insn& in, uint32_t mask) {
    struct Stored {
        uint64_t map;
        uint32_t from;
        std::array<int32_t, 5> coords;
        bool operator==(const Stored&) const = default;
    };
    std::vector<Stored> earlier;   // by other lanes
    return each_lane(mask, [&](int lane) {
        const int rank = static_cast<int>(in.aux);
        const uint64_t map_address = listed_address(x, in.list, lane);
        auto map = tensor_map_at(x, lane, map_address);
        check_rank(lane, *map, rank);
        const uint32_t src = own_shared_address(x, lane, listed_address(x, in.list + 4, lane), "source");
        const uint32_t bytes = tma_box_bytes(*map);
        shared_at(x, lane, src, bytes, 128);
        Reduction reduction;
        if (in.imm != 0) reduction = tensor_reduction(lane, *map, static_cast<AtomOp>(in.imm - 1));
        AsyncOp& op =
            queue_unordered(x, in.imm != 0 ? AsyncKind::kTensorReduce : AsyncKind::kTensorStore, lane);
        op.reduction = encode_reduction(reduction);
        op.map = std::move(map);
        op.shared = src;
        op.bytes = bytes;
        op.grouped = true;
        op.group = x.warp->bulk_group[lane];
        read_coordinates(x, in.list + 8, rank, lane, op.coords);
        if (!x.checker) [[likely]] return;
        const Stored stored{map_address, src, std::to_array(op.coords)};
        op.repeated = in.imm == 0 && std::find(earlier.begin(), earlier.end(), stored) != earlier.end();
        if (op.repeated)
            warn(x, "repeated-store", "several lanes of one instruction store the same tile; one of them is enough");
        earlier.push_back(stored);
        x.checker->copy_issued(x, op);
    });
}

// Lists: map (4), coordinates. Only the map is checked.
bool exec_tensor_prefetch(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        check_rank(lane, *tensor_map_at(x, lane, listed_address(x, in.list, lane)), static_cast<int>(in.aux));
    });
}

void list_coordinates(Decoder& d, const Operand& map, int rank) {
    if (map.kind != Operand::Kind::kMemory || map.elements.size() != 2)
        d.fail("a tensor map operand is [map, {coordinates}]");
    const Operand& c = map.elements[1];
    const size_t given = c.kind == Operand::Kind::kVector ? c.elements.size() : 1;
    if (given != static_cast<size_t>(rank))
        d.fail(std::to_string(given) + " coordinates for a tensor of rank " + std::to_string(rank));
    std::vector<uint32_t> slots;
    if (c.kind == Operand::Kind::kVector)
        for (const auto& e : c.elements) slots.push_back(d.source(e, 32));
    else slots.push_back(d.source(c, 32));
    for (uint32_t s : slots) d.list_add(s);
}

int rank_of(const Match& m) { return m.one_of({"1d", "2d", "3d", "4d", "5d"}) + 1; }

// What may follow: the CTA mask of a multicast (slot 1), a cache policy (ignored).
void encode_tail(Decoder& d, const Match& m, const Instruction& ir, Insn& out, size_t used) {
    if (m.has("multicast::cluster")) {
        if (used >= ir.operands.size()) d.fail("the CTA mask is missing");
        out.slot[1] = d.source(ir.operands[used++], 16);
        out.flags |= kMulticast;
    }
    if (m.has("L2::cache_hint")) {
        if (used >= ir.operands.size()) d.fail("the cache policy is missing");
        d.source(ir.operands[used++], 64);
    }
    if (used != ir.operands.size()) d.fail("it has too many operands");
}
// Of a copy to shared memory.
void encode_destination(Decoder& d, const Match& m, Insn& out) {
    if (!m.has("shared::cluster")) out.flags |= kOwnOnly;
    if (m.has("cta_group::2")) out.flags |= kPair;
    if (m.has("multicast::cluster") && !m.has("shared::cluster")) d.fail("a multicast goes to .shared::cluster");
}

void encode_tensor_load(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() < 3) d.fail("it has too few operands");
    encode_tail(d, m, ir, out, 3);
    encode_destination(d, m, out);
    out.aux = static_cast<uint32_t>(rank_of(m));
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    d.list_memory(ir.operands[1]);
    d.list_memory(ir.operands[2]);
    list_coordinates(d, ir.operands[1], static_cast<int>(out.aux));
}
void encode_tensor_store(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() < 2) d.fail("it has too few operands");
    encode_tail(d, m, ir, out, 2);
    for (std::string_view word : m.words)
        if (m.words[1] == "reduce" && atom_op_of(word) >= 0) out.imm = static_cast<uint64_t>(atom_op_of(word)) + 1;
    out.aux = static_cast<uint32_t>(rank_of(m));
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    d.list_memory(ir.operands[1]);
    list_coordinates(d, ir.operands[0], static_cast<int>(out.aux));
}
void encode_tensor_prefetch(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.empty()) d.fail("it has too few operands");
    encode_tail(d, m, ir, out, 1);
    out.aux = static_cast<uint32_t>(rank_of(m));
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    list_coordinates(d, ir.operands[0], static_cast<int>(out.aux));
}

// ---- cp.async.bulk without a tensor: multiples of 16 bytes, 16-byte aligned ----

void check_bulk(int lane, uint32_t bytes, const char* what = "copy") {
    if (bytes % 16 != 0)
        fault(RunStatus::kIllegalInstruction, lane,
              std::string("bulk ") + what + " of " + std::to_string(bytes) + " bytes, not a multiple of 16");
}

// Lists: dst (4), src (4), mbarrier (4; unused by stores); slot 0: size.
bool exec_bulk_load(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint32_t bytes = x.at<uint32_t>(in.slot[0])[lane];
        check_bulk(lane, bytes);
        const uint64_t src = listed_address(x, in.list + 4, lane);
        if (bytes != 0) global_at(x, lane, src, bytes, 16, false);
        for (const Destination& d : destinations(x, in, lane, listed_address(x, in.list, lane),
                                                 listed_address(x, in.list + 8, lane), bytes, 16)) {
            AsyncOp& op = queue_unordered(x, AsyncKind::kBulkLoad, lane);
            op.shared = d.shared;
            op.global = src;
            op.mbarrier = d.mbarrier;
            op.bytes = bytes;
            if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
        }
    });
}
// imm: 0 copy, else encode_reduction() + 1.
bool exec_bulk_shared(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint32_t bytes = x.at<uint32_t>(in.slot[0])[lane];
        check_bulk(lane, bytes);
        const uint32_t src = own_shared_address(x, lane, listed_address(x, in.list + 4, lane), "source");
        shared_at(x, lane, src, bytes, 16);
        for (const Destination& d : destinations(x, in, lane, listed_address(x, in.list, lane),
                                                 listed_address(x, in.list + 8, lane), bytes, 16)) {
            AsyncOp& op = queue_unordered(
                x, in.imm != 0 ? AsyncKind::kBulkSharedReduce : AsyncKind::kBulkSharedCopy, lane);
            op.shared = d.shared;
            op.source_bytes = src;
            op.mbarrier = d.mbarrier;
            op.bytes = bytes;
            op.reduction = in.imm - 1;
            if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
        }
    });
}
bool exec_bulk_store(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint32_t bytes = x.at<uint32_t>(in.slot[0])[lane];
        check_bulk(lane, bytes);
        const uint64_t dst = listed_address(x, in.list, lane);
        const uint32_t src = own_shared_address(x, lane, listed_address(x, in.list + 4, lane), "source");
        shared_at(x, lane, src, bytes, 16);
        if (bytes != 0) global_at(x, lane, dst, bytes, 16, true);
        AsyncOp& op = queue_unordered(x, in.imm != 0 ? AsyncKind::kBulkReduce : AsyncKind::kBulkStore, lane);
        op.shared = src;
        op.global = dst;
        op.bytes = bytes;
        op.reduction = in.imm - 1;
        op.grouped = true;
        op.group = x.warp->bulk_group[lane];
        if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
    });
}
void encode_bulk(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool to_group = m.has("bulk_group");
    const size_t n = to_group ? 3 : 4;
    if (ir.operands.size() < n) d.fail("it has too few operands");
    encode_tail(d, m, ir, out, n);
    if (!to_group) encode_destination(d, m, out);
    out.slot[0] = d.source(ir.operands[2], 32);
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    d.list_memory(ir.operands[1]);
    if (!to_group) d.list_memory(ir.operands[3]);
}
// The operation and type of a reduction, checked against the manual's tables (9.7.9.25.4.2, 9.7.13.7).
Reduction reduction_of(Decoder& d, const Match& m, bool to_shared) {
    const std::string_view t = m.words.back();
    Reduction r;
    for (std::string_view word : m.words)
        if (word != m.words[0] && atom_op_of(word) >= 0) r.op = static_cast<AtomOp>(atom_op_of(word));
    r.type = t == "f32"    ? AtomType::kF32
             : t == "f64"  ? AtomType::kF64
             : t == "f16"  ? AtomType::kF16
             : t == "bf16" ? AtomType::kBf16
                           : AtomType::kInt;
    r.bytes = t.ends_with("64") ? 8 : t.ends_with("16") ? 2 : 4;
    r.is_signed = t[0] == 's';
    const bool bits = t == "b32" || t == "b64", half = t == "f16" || t == "bf16";
    const bool logic = r.op == AtomOp::kAnd || r.op == AtomOp::kOr || r.op == AtomOp::kXor;
    bool legal = false;
    if (bits) legal = logic && (!to_shared || t == "b32");
    else if (r.op == AtomOp::kInc || r.op == AtomOp::kDec) legal = t == "u32";
    else if (r.op == AtomOp::kAdd) legal = to_shared ? t == "u32" || t == "s32" || t == "u64" : t != "s64";
    else if (!logic) legal = to_shared ? t == "u32" || t == "s32" : t[0] == 'u' || t[0] == 's' || half;
    if (!legal) d.fail("this operation does not exist for this type and destination");
    if (half && m.has("noftz") != (r.op == AtomOp::kAdd))
        d.fail(".add.noftz.f16 and .bf16, and only they, have .noftz");
    return r;
}
void encode_bulk_reduce(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    encode_bulk(d, m, ir, out);
    out.imm = encode_reduction(reduction_of(d, m, !m.has("bulk_group"))) + 1;
}

// ---- st.async, red.async ----

// Lists: dst (4), mbarrier (4), values (list_count). aux: bytes of a value. imm: encode_reduction(), ~0 for a store.
bool exec_async_shared(Exec& x, const Insn& in, uint32_t mask) {
    const bool reduces = in.imm != ~0ull;
    const char* name = reduces ? "red.async" : "st.async";
    if (x.cta->cluster->ctas.size() == 1)
        fault(RunStatus::kIllegalInstruction, -1, std::string(name) + " needs a cluster of more than one CTA");
    return each_lane(mask, [&](int lane) {
        const uint32_t bytes = in.aux * in.list_count;
        const uint32_t dst = shared_address(x, lane, listed_address(x, in.list, lane), "destination");
        const uint32_t barrier = shared_address(x, lane, listed_address(x, in.list + 4, lane), "mbarrier address");
        if (dst >> kRankShift != barrier >> kRankShift) {
            fault(RunStatus::kIllegalAddress, lane,
                  std::string("the mbarrier of ") + name + " is in the CTA of rank " +
                      std::to_string(barrier >> kRankShift) + ", the destination in that of rank " +
                      std::to_string(dst >> kRankShift));
        }
        if (reduces && dst >> kRankShift == x.cta->rank)
            fault(RunStatus::kIllegalAddress, lane, "the destination of red.async is in the executing CTA");
        cluster_shared_at(x, lane, dst, bytes, bytes);
        mbarrier_at(x, lane, barrier);
        AsyncOp& op = queue_unordered(x, AsyncKind::kStoreAsync, lane);
        op.shared = dst;
        op.mbarrier = barrier;
        op.bytes = bytes;
        op.reduction = in.imm;
        op.payload.resize(4);
        uint8_t* to = reinterpret_cast<uint8_t*>(op.payload.data());
        for (uint32_t i = 0; i < in.list_count; ++i) {
            const uint32_t slot = x.lists[in.list + 8 + i];
            const uint64_t v = in.aux == 8 ? x.at<uint64_t>(slot)[lane] : x.at<uint32_t>(slot)[lane];
            std::memcpy(to + i * in.aux, &v, in.aux);
        }
        if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
    });
}
// The same to global memory: no mbarrier; it is complete when the CTA ends.
bool exec_async_global(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint64_t dst = listed_address(x, in.list, lane);
        global_at(x, lane, dst, in.aux, in.aux, true);
        AsyncOp& op = queue_unordered(x, AsyncKind::kGlobalAsync, lane);
        op.global = dst;
        op.bytes = in.aux;
        op.reduction = in.imm;
        op.payload.resize(2);
        const uint32_t slot = x.lists[in.list + 4];
        const uint64_t v = in.aux == 8 ? x.at<uint64_t>(slot)[lane] : x.at<uint32_t>(slot)[lane];
        std::memcpy(op.payload.data(), &v, in.aux);
    });
}
void encode_async(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool to_shared = m.has("mbarrier::complete_tx::bytes");
    const bool reduces = m.words[0] == "red";
    const std::string_view t = m.words.back();
    if (ir.operands.size() != (to_shared ? 3u : 2u)) d.fail("it has another number of operands");
    out.aux = t.ends_with("64") ? 8 : t.ends_with("16") ? 2 : t.ends_with("8") ? 1 : 4;
    const uint32_t count = m.has("v2") ? 2 : m.has("v4") ? 4 : 1;
    if (count * out.aux > 16) d.fail("a vector has at most 16 bytes");
    std::vector<uint32_t> slots;
    const auto source = [&](const Operand& o) {
        int bits = static_cast<int>(out.aux) * 8;
        const uint32_t slot = out.aux < 4 ? d.any_source(o, &bits) : d.source(o, bits);
        if (out.aux < 4 && bits == 64) d.fail("a register of 64 bits cannot stand here");
        slots.push_back(slot);
    };
    if (count == 1) {
        source(ir.operands[1]);
    } else {
        if (ir.operands[1].kind != Operand::Kind::kVector || ir.operands[1].elements.size() != count)
            d.fail("the vector has another number of elements");
        for (const Operand& e : ir.operands[1].elements) source(e);
    }
    out.imm = ~0ull;
    if (reduces && to_shared) {
        out.imm = encode_reduction(reduction_of(d, m, true));
    } else if (reduces) {
        out.imm = encode_reduction({AtomOp::kAdd, AtomType::kInt, out.aux, t[0] == 's'});
    }
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    if (to_shared) d.list_memory(ir.operands[2]);
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = count;
}

// ---- groups ----

bool exec_bulk_commit(Exec& x, const Insn&, uint32_t mask) {
    return each_lane(mask, [&](int lane) { ++x.warp->bulk_group[lane]; });
}
bool exec_copy_commit(Exec& x, const Insn&, uint32_t mask) {
    return each_lane(mask, [&](int lane) { ++x.warp->copy_group[lane]; });
}

// Waits until at most `keep` of the most recent groups are pending: groups below open - keep are complete.
bool wait_groups(Exec& x, uint32_t mask, const std::array<uint32_t, kLanes>& open, uint64_t keep, AsyncKind first,
                 AsyncKind last, bool read_only) {
    uint32_t below[kLanes];
    for (int lane = 0; lane < kLanes; ++lane)
        below[lane] = open[lane] > keep ? open[lane] - static_cast<uint32_t>(keep) : 0;
    if (!async_done(*x.cta, x.warp->index, mask, first, last, below, read_only)) return block(x, mask, Wait::kAsync);
    if (x.checker) [[unlikely]] x.checker->groups_waited(x, mask, first, last, below, read_only);
    return true;
}
bool exec_bulk_wait(Exec& x, const Insn& in, uint32_t mask) {
    return wait_groups(x, mask, x.warp->bulk_group, in.imm, AsyncKind::kTensorStore, AsyncKind::kBulkReduce, in.aux);
}
bool exec_copy_wait(Exec& x, const Insn& in, uint32_t mask) {
    return wait_groups(x, mask, x.warp->copy_group, in.imm, AsyncKind::kCopy, AsyncKind::kCopy, false);
}
bool exec_copy_wait_all(Exec& x, const Insn&, uint32_t mask) {
    std::array<uint32_t, kLanes> all;
    all.fill(~0u);
    return wait_groups(x, mask, all, 0, AsyncKind::kCopy, AsyncKind::kCopy, false);
}

// ---- cp.async: 4, 8 or 16 bytes per thread ----

// Lists: dst (4), src (4). aux: cp-size; slot 0: src-size, or slot 1: ignore-src (imm 1: src-size, 2: ignore-src).
bool exec_copy(Exec& x, const Insn& in, uint32_t mask) {
    const uint32_t ignored = in.imm == 2 ? x.predicate(in, 1) : 0;
    uint32_t to[kLanes], source_bytes[kLanes];
    uint64_t from[kLanes];
    each_lane(mask, [&](int lane) {
        const uint32_t size = in.aux;
        uint32_t source = in.imm == 1 ? x.at<uint32_t>(in.slot[0])[lane] : size;
        if (ignored >> lane & 1) source = 0;
        if (source > size)
            fault(RunStatus::kIllegalInstruction, lane,
                  "src-size " + std::to_string(source) + " exceeds cp-size " + std::to_string(size));
        const uint32_t dst = shared_address(x, lane, listed_address(x, in.list, lane), "destination");
        const uint64_t src = listed_address(x, in.list + 4, lane);
        shared_at(x, lane, dst, size, size);
        if (source != 0) global_at(x, lane, src, source, size, false);
        AsyncOp& op = queue_unordered(x, AsyncKind::kCopy, lane);
        op.shared = dst;
        op.global = src;
        op.bytes = size;
        op.source_bytes = source;
        op.grouped = true;
        op.group = x.warp->copy_group[lane];
        to[lane] = dst;
        from[lane] = src;
        source_bytes[lane] = source;
    });
    if (x.checker) [[unlikely]] x.checker->small_copy_issued(x, mask, to, from, in.aux, source_bytes);
    return true;
}
void encode_copy(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool hint = m.has("L2::cache_hint");
    const size_t n = ir.operands.size() - (hint ? 1 : 0);
    if (n != 3 && n != 4) d.fail("it has another number of operands");
    out.aux = static_cast<uint32_t>(d.immediate(ir.operands[2]));
    if (out.aux != 16 && (m.has("cg") || (out.aux != 4 && out.aux != 8)))
        d.fail("cp-size is 4, 8 or 16; .cg copies 16");
    if (n == 4) {
        if (d.register_bits(ir.operands[3]) == 1) {
            out.imm = 2;
            out.slot[1] = d.predicate_source(ir.operands[3], out, 1);
        } else {
            out.imm = 1;
            out.slot[0] = d.source(ir.operands[3], 32);
        }
    }
    if (hint) d.source(ir.operands[n], 64);
    out.list = d.list_begin();
    d.list_memory(ir.operands[0]);
    d.list_memory(ir.operands[1]);
}

// ---- cluster launch control ----

// The response that the manual calls opaque: x, y and z of the first CTA, and this if a cluster was cancelled.
constexpr uint32_t kCancelled = 1, kResponseBytes = 16;

// Lists: response (4 words), mbarrier (4). The decision falls here; the responses arrive in each CTA at a time of its
// own.
bool exec_try_cancel(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint32_t at = own_shared_address(x, lane, listed_address(x, in.list, lane), "response");
        const uint32_t signal = own_shared_address(x, lane, listed_address(x, in.list + 4, lane), "mbarrier address");
        constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;
        std::vector<Destination> all{{at, signal}};
        if (in.flags & kMulticast) {
            all.clear();
            for (uint32_t r = 0; r < x.cta->cluster->ctas.size(); ++r)
                all.push_back({r << kRankShift | (at & kOffsetMask), r << kRankShift | (signal & kOffsetMask)});
        }
        for (const Destination& d : all) {
            mbarrier_at(x, lane, d.mbarrier);
            cluster_shared_at(x, lane, d.shared, kResponseBytes, kResponseBytes);
        }
        Dim3 first{~0u, ~0u, ~0u};
        const bool cancelled = cancel_cluster(x, &first);
        for (const Destination& d : all) {
            AsyncOp& op = queue_unordered(x, AsyncKind::kCancel, lane);
            op.shared = d.shared;
            op.mbarrier = d.mbarrier;
            op.bytes = kResponseBytes;
            op.reduction = ~0ull;
            op.payload = {first.x, first.y, first.z, cancelled ? kCancelled : 0};
            if (x.checker) [[unlikely]] x.checker->copy_issued(x, op);
        }
    });
}
void encode_try_cancel(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2) d.fail("clusterlaunchcontrol.try_cancel needs two operands");
    if (m.has("multicast::cluster::all")) out.flags |= kMulticast;
    out.list = d.list_begin();
    for (const Operand& operand : ir.operands) d.list_memory(operand);
}

uint32_t response_word(Exec& x, uint32_t slot, int word, int lane) {
    const uint64_t half = x.at<uint64_t>(slot + (word < 2 ? 0 : kLanes * 8))[lane];
    return static_cast<uint32_t>(half >> 32 * (word & 1));
}
// slot: 0 predicate, 1 response.
bool exec_is_canceled(Exec& x, const Insn& in, uint32_t mask) {
    uint32_t value = 0;
    for (int lane = 0; lane < kLanes; ++lane)
        value |= (response_word(x, in.slot[1], 3, lane) == kCancelled ? 1u : 0) << lane;
    x.set_predicate(in.slot[0], value, mask);
    return true;
}
// slot 0: response. list: registers for the words from aux on.
bool exec_first_ctaid(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        for (uint32_t i = 0; i < in.list_count; ++i) {
            x.at<uint32_t>(x.lists[in.list + i])[lane] =
                response_word(x, in.slot[0], static_cast<int>(in.aux + i), lane);
        }
    });
}
void encode_first_ctaid(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 2) d.fail("clusterlaunchcontrol.query_cancel needs two operands");
    const int dimension = m.one_of({"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
    const Operand& to = ir.operands[0];
    if (dimension < 0 && (to.kind != Operand::Kind::kVector || to.elements.size() != 4))
        d.fail("get_first_ctaid.v4 needs a vector of four registers");
    out.aux = dimension < 0 ? 0 : static_cast<uint32_t>(dimension);
    out.slot[0] = d.source(ir.operands[1], 128);
    std::vector<uint32_t> slots;
    if (dimension >= 0) slots.push_back(d.destination(to, 32));
    else for (const auto& e : to.elements) slots.push_back(d.destination(e, 32));
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
}

// cp.async.mbarrier.arrive{.noinc}: arrives when this thread's earlier cp.async are complete.
bool exec_copy_arrive(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint64_t address = lane_address(x, in, 0, lane);
        uint64_t* word = mbarrier_at(x, lane, address);
        if (in.aux == 0) {
            const std::string broken = mbarrier_add_pending(word, 1);
            if (!broken.empty()) fault(RunStatus::kIllegalInstruction, lane, broken);
        }
        AsyncOp& op = queue_unordered(x, AsyncKind::kCopyArrive, lane);
        op.mbarrier = shared_address(x, lane, address, "mbarrier address");
        if (x.checker) [[unlikely]] x.checker->small_copy_arrive_issued(x, op);
    });
}

// A weak memory operation (9.7.9.25.4.3): it may read what it names.
bool exec_bulk_prefetch(Exec& x, const Insn& in, uint32_t mask) {
    return each_lane(mask, [&](int lane) {
        const uint32_t bytes = x.at<uint32_t>(in.slot[1])[lane];
        check_bulk(lane, bytes, "prefetch");
        if (bytes != 0) global_at(x, lane, lane_address(x, in, 0, lane), bytes, 16, false);
    });
}

#define LIDX_DIM "(1d|2d|3d|4d|5d)"
#define LIDX_HINT "[L2::cache_hint]"

const Row kRows[] = {
    // cp.async.(ca|cg).shared{::cta}.global{.L2::...} [dst], [src], cp-size{, src-size | ignore-src}{, cache-policy}
    // (9.7.9.25.3.1)
    {"cp.async.(ca|cg).(shared|shared::cta).global." LIDX_HINT ".[L2::64B|L2::128B|L2::256B]", "*", exec_copy, "80",
     encode_copy},
    {"cp.async.commit_group", "-", exec_copy_commit, "80"},
    {"cp.async.wait_group", "i", exec_copy_wait, "80"},
    {"cp.async.wait_all", "-", exec_copy_wait_all, "80"},
    // cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [addr]  (9.7.13.15.15)
    {"cp.async.mbarrier.arrive.[noinc].[shared|shared::cta].b64", "m", exec_copy_arrive, "80",
     [](Decoder&, const Match& m, const Instruction&, Insn& out) { out.aux = m.has("noinc"); }},
    // cp.async.bulk.dst.src.completion{.multicast}{.cache_hint} [dst], [src], size, [mbar]{, ctaMask}{, cache-policy}
    // (9.7.9.25.4.1)
    {"cp.async.bulk.(shared::cta|shared::cluster).global.mbarrier::complete_tx::bytes.[multicast::cluster]." LIDX_HINT,
     "*", exec_bulk_load, "90", encode_bulk},
    {"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "*", exec_bulk_shared, "90",
     encode_bulk},
    {"cp.async.bulk.global.shared::cta.bulk_group." LIDX_HINT, "*", exec_bulk_store, "90", encode_bulk},
    // cp.reduce.async.bulk.dst.src.completion{.cache_hint}.redOp{.noftz}.type [dst], [src], size{, [mbar]}
    // {, cache-policy}  (9.7.9.25.4.2)
    {"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.(and|or|xor|add|inc|dec|min|max)."
     "(b32|u32|s32|u64)",
     "*", exec_bulk_shared, "90", encode_bulk_reduce},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group." LIDX_HINT ".(and|or|xor|add|inc|dec|min|max).[noftz]."
     "(f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64)",
     "*", exec_bulk_store, "90", encode_bulk_reduce},
    // cp.reduce.async.bulk.tensor.dim.global.shared::cta.redOp{.tile}.bulk_group{.cache_hint} [map, {c}], [src]
    // {, cache-policy}  (9.7.9.25.5.3)
    {"cp.reduce.async.bulk.tensor." LIDX_DIM ".global.shared::cta.(add|min|max|inc|dec|and|or|xor).[tile].bulk_group."
     LIDX_HINT,
     "*", exec_tensor_store, "90", encode_tensor_store},
    // st.async{.weak}{.cluster}{.shared::cluster}.completion{.vec}.type [a], b, [mbar];  st.async{.mmio}.release.scope
    // {.global}.type [a], b  (9.7.9.12)
    {"st.async.[weak].[cluster].[shared::cluster].mbarrier::complete_tx::bytes.[v2|v4].(b32|b64|u32|u64|s32|s64|f32|"
     "f64)",
     "*", exec_async_shared, "90", encode_async},
    {"st.async.[mmio].release.(gpu|sys).[global].(b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64)", "*",
     exec_async_global, "100", encode_async},
    // red.async.relaxed.cluster{.shared::cluster}{.completion}.op.type [a], b, [mbar];  red.async{.mmio}.release.scope
    // {.global}.add.type [a], b  (9.7.13.7)
    {"red.async.relaxed.cluster.[shared::cluster].mbarrier::complete_tx::bytes.(inc|dec|min|max|and|or|xor|add)."
     "(u32|s32|u64|b32)",
     "*", exec_async_shared, "90", encode_async},
    {"red.async.[mmio].release.(gpu|cluster|sys).[global].add.(u32|s32|u64|s64)", "*", exec_async_global, "100",
     encode_async},
    // clusterlaunchcontrol.try_cancel.async{.space}.completion{.multicast::cluster::all}.b128 [addr], [mbar]
    // (9.7.13.17)
    {"clusterlaunchcontrol.try_cancel.async.[shared::cta].mbarrier::complete_tx::bytes.b128", "*", exec_try_cancel,
     "100", encode_try_cancel},
    {"clusterlaunchcontrol.try_cancel.async.[shared::cta].mbarrier::complete_tx::bytes.multicast::cluster::all.b128",
     "*", exec_try_cancel, "100f", encode_try_cancel},
    // clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, response;  .get_first_ctaid.v4.b32.b128 {x, y, z, _},
    // response;  .get_first_ctaid::dimension.b32.b128 d, response  (9.7.13.18)
    {"clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", "p s128", exec_is_canceled, "100"},
    {"clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", "*", exec_first_ctaid, "100", encode_first_ctaid},
    {"clusterlaunchcontrol.query_cancel.(get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z).b32.b128", "*",
     exec_first_ctaid, "100", encode_first_ctaid},
    // cp.async.bulk.prefetch.L2.global{.cache_hint} [src], size  (9.7.9.25.4.3)
    {"cp.async.bulk.prefetch.L2.global", "m s32", exec_bulk_prefetch, "90"},
    {"cp.async.bulk.prefetch.L2.global.L2::cache_hint", "m s32 s64", exec_bulk_prefetch, "90"},
    // cp.async.bulk.tensor.dim.dst.src{.tile}.completion{.multicast}{.cta_group}{.cache_hint} [dst], [map, {c}],
    // [mbar]{, ...}  (9.7.9.25.5.2)
    {"cp.async.bulk.tensor." LIDX_DIM ".(shared::cta|shared::cluster).global.[tile].mbarrier::complete_tx::bytes.["
     "multicast::cluster].[cta_group::1]." LIDX_HINT,
     "*", exec_tensor_load, "90", encode_tensor_load},
    {"cp.async.bulk.tensor." LIDX_DIM ".(shared::cta|shared::cluster).global.[tile].mbarrier::complete_tx::bytes.["
     "multicast::cluster].cta_group::2." LIDX_HINT,
     "*", exec_tensor_load, "100f", encode_tensor_load},
    // cp.async.bulk.tensor.dim.global.shared::cta{.tile}.bulk_group{.cache_hint} [map, {c}], [src]{, cache-policy}
    {"cp.async.bulk.tensor." LIDX_DIM ".global.shared::cta.[tile].bulk_group." LIDX_HINT, "*", exec_tensor_store, "90",
     encode_tensor_store},
    // cp.async.bulk.prefetch.tensor.dim.L2.global{.tile}{.cache_hint} [map, {c}]{, cache-policy}
    {"cp.async.bulk.prefetch.tensor." LIDX_DIM ".L2.global.[tile]." LIDX_HINT, "*", exec_tensor_prefetch, "90",
     encode_tensor_prefetch},
    // cp.async.bulk.commit_group;  cp.async.bulk.wait_group{.read} N
    {"cp.async.bulk.commit_group", "-", exec_bulk_commit, "90"},
    {"cp.async.bulk.wait_group.[read]", "i", exec_bulk_wait, "90",
     [](Decoder&, const Match& m, const Instruction&, Insn& out) { out.aux = m.has("read"); }},
};

}   // namespace

void complete(Exec& x, AsyncOp& op) {
    const auto place = [&x, &op](uint32_t address, uint32_t bytes) {
        return cluster_shared_at(x, op.lane, address, bytes, 1);
    };
    if (x.definedness) x.definedness->copied(x, op);
    switch (op.kind) {
        case AsyncKind::kTensorLoad:
        case AsyncKind::kTensorStore:
        case AsyncKind::kTensorReduce: {
            TmaCombine combine;
            if (op.kind == AsyncKind::kTensorReduce) {
                combine = [r = decode_reduction(op.reduction)](uint8_t* to, const uint8_t* elements, uint32_t bytes) {
                    reduce_elements(r, to, elements, bytes);
                };
            }
            uint64_t asked = 0, asked_bytes = 0;
            const auto found = [&](uint64_t address, uint64_t length) -> uint8_t* {
                asked = address, asked_bytes = length;
                return x.memory->find(address, length).bytes != 0 ? reinterpret_cast<uint8_t*>(address) : nullptr;
            };
            TmaAccess access;
            access.read = found;
            access.write = found;
            const bool load = op.kind == AsyncKind::kTensorLoad;
            Cta& cta = cta_of(x, op.lane, op.shared);
            place(op.shared, op.bytes);
            const uint32_t at = op.shared - cta.shared_base;
            const std::string broken =
                load ? tma_load(*op.map, op.coords, cta.shared.data(), cta.shared_bytes, at, access)
                     : tma_store(*op.map, op.coords, cta.shared.data(), cta.shared_bytes, at, access, combine);
            if (broken.starts_with("global memory fault"))
                fault_at(x, RunStatus::kIllegalAddress, op.lane, "global", asked, asked_bytes, broken);
            if (!broken.empty()) {
                fault(broken.starts_with("shared address") ? RunStatus::kMisaligned : RunStatus::kIllegalInstruction,
                      op.lane, broken);
            }
            if (load) {
                x.tma_bytes_loaded += op.bytes;
                mbarrier_complete_at(x, op, op.mbarrier, op.bytes);
            }
            break;
        }
        case AsyncKind::kBulkLoad:
            std::memcpy(place(op.shared, op.bytes), reinterpret_cast<const void*>(op.global), op.bytes);
            x.tma_bytes_loaded += op.bytes;
            mbarrier_complete_at(x, op, op.mbarrier, op.bytes);
            break;
        case AsyncKind::kBulkSharedCopy:
            std::memmove(place(op.shared, op.bytes), place(op.source_bytes, op.bytes), op.bytes);
            mbarrier_complete_at(x, op, op.mbarrier, op.bytes);
            break;
        case AsyncKind::kBulkSharedReduce:
            reduce_elements(decode_reduction(op.reduction), place(op.shared, op.bytes),
                            place(op.source_bytes, op.bytes), op.bytes);
            mbarrier_complete_at(x, op, op.mbarrier, op.bytes);
            break;
        case AsyncKind::kCancel:
        case AsyncKind::kStoreAsync:
        case AsyncKind::kGlobalAsync: {
            const bool shared = op.kind != AsyncKind::kGlobalAsync;
            uint8_t* to = shared ? place(op.shared, op.bytes) : reinterpret_cast<uint8_t*>(op.global);
            const uint8_t* values = reinterpret_cast<const uint8_t*>(op.payload.data());
            if (op.reduction == ~0ull) std::memcpy(to, values, op.bytes);
            else reduce_elements(decode_reduction(op.reduction), to, values, op.bytes);
            if (shared) mbarrier_complete_at(x, op, op.mbarrier, op.bytes);
            break;
        }
        case AsyncKind::kBulkReduce:
            reduce_elements(decode_reduction(op.reduction), reinterpret_cast<uint8_t*>(op.global),
                            place(op.shared, op.bytes), op.bytes);
            break;
        case AsyncKind::kBulkStore:
            std::memcpy(reinterpret_cast<void*>(op.global), place(op.shared, op.bytes), op.bytes);
            break;
        case AsyncKind::kCopy:
            std::memcpy(place(op.shared, op.bytes), reinterpret_cast<const void*>(op.global), op.source_bytes);
            std::memset(place(op.shared, op.bytes) + op.source_bytes, 0, op.bytes - op.source_bytes);
            break;
        case AsyncKind::kCopyArrive: {
            // Earlier copies of the thread first.
            auto& pending = x.cta->unordered;
            for (size_t i = 0; i < pending.size();) {
                if (pending[i].kind != AsyncKind::kCopy || pending[i].warp != op.warp || pending[i].lane != op.lane ||
                    pending[i].serial > op.serial) {
                    ++i;
                    continue;
                }
                AsyncOp earlier = std::move(pending[i]);
                pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
                if (x.profile) x.profile->completing(x, earlier);
                complete(x, earlier);
            }
            if (x.profile) x.profile->completing(x, op);   // behind them
            mbarrier_arrive_at(x, op, op.mbarrier);
            break;
        }
        case AsyncKind::kWgmma: complete_wgmma(x, op); break;
        default: complete_tensor(x, op); break;
    }
}

std::span<const Row> rows_bulk() { return kRows; }

}   // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, movmatrix, mma.sync (PTX ISA 9.7.14) and wgmma (9.7.15).
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "checker.h"
#include "definedness.h"
#include "isa.h"
#include "tensor_core.h"
#include "warp.h"

namespace ptxemu {
namespace {

[[noreturn]] void illegal(int lane, const std::string& what) { fault(RunStatus::kIllegalInstruction, lane, what); }

// ---- ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements ----

// slot 0: address; list: registers. aux: matrices; flags kAlternate: .trans. Row r of matrix i comes from the address
// of lane 8 i + r; lane t holds elements 2 (t % 4) and + 1 of row t / 4 (of column t / 4 when transposed).
bool exec_ldmatrix(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (mask != kFullMask) illegal(-1, "the warp has lanes that exited");
    const int n = static_cast<int>(in.aux);
    uint16_t cells[4][8][8];
    for (int i = 0; i < n; ++i) {
        for (int r = 0; r < 8; ++r) {
            const int lane = 8 * i + r;
            const uint32_t a = shared_address(x, lane, lane_address(x, in, 0, lane), "address");
            std::memcpy(cells[i][r], shared_at(x, lane, a, 16, 16), 16);
            if (x.checker) [[unlikely]] x.checker->data_of(x, 1u << lane, a, 16, false);
        }
    }
    for (int i = 0; i < n; ++i) {
        uint32_t* d = x.at<uint32_t>(x.lists[in.list + static_cast<uint32_t>(i)]);
        for (int t = 0; t < kLanes; ++t) {
            const int row = t / 4, column = 2 * (t % 4);
            d[t] = in.flags & kAlternate
                       ? cells[i][column][row] | static_cast<uint32_t>(cells[i][column + 1][row]) << 16
                       : cells[i][row][column] | static_cast<uint32_t>(cells[i][row][column + 1]) << 16;
        }
    }
    return true;
}
bool exec_stmatrix(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (mask != kFullMask) illegal(-1, "the warp has lanes that exited");
    const int n = static_cast<int>(in.aux);
    for (int i = 0; i < n; ++i) {
        const uint32_t* s = x.at<uint32_t>(x.lists[in.list + static_cast<uint32_t>(i)]);
        uint16_t cells[8][8];
        for (int t = 0; t < kLanes; ++t) {
            const int row = t / 4, column = 2 * (t % 4);
            const auto low = static_cast<uint16_t>(s[t]), high = static_cast<uint16_t>(s[t] >> 16);
            (in.flags & kAlternate ? cells[column][row] : cells[row][column]) = low;
            (in.flags & kAlternate ? cells[column + 1][row] : cells[row][column + 1]) = high;
        }
        for (int r = 0; r < 8; ++r) {
            const int lane = 8 * i + r;
            const uint32_t a = shared_address(x, lane, lane_address(x, in, 0, lane), "address");
            uint8_t* to = shared_at(x, lane, a, 16, 16);
            if (x.checker) [[unlikely]]
                x.checker->data_of(x, 1u << lane, a, 16, true, 0, std::memcmp(to, cells[r], 16) == 0);
            std::memcpy(to, cells[r], 16);
        }
    }
    return true;
}
void encode_matrix(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const bool load = m.words[0] == "ldmatrix";
    if (ir.operands.size() != 2) d.fail("it has another number of operands");
    out.aux = m.has("x1") ? 1 : m.has("x2") ? 2 : 4;
    if (m.has("trans")) out.flags |= kAlternate;
    const Operand& values = ir.operands[load ? 0 : 1];
    std::vector<uint32_t> slots;
    if (values.kind == Operand::Kind::kVector)
        for (const auto& e : values.elements) slots.push_back(load ? d.destination(e, 32) : d.source(e, 32));
    else slots.push_back(load ? d.destination(values, 32) : d.source(values, 32));
    if (slots.size() != out.aux) d.fail("the vector has another number of elements");
    d.address(ir.operands[load ? 1 : 0], out, 0);
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = out.aux;
}

bool exec_movmatrix(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    uint32_t* d = x.at<uint32_t>(in.slot[0]);
    const uint32_t* a = x.at<uint32_t>(in.slot[1]);
    uint16_t cells[8][8];
    for (int t = 0; t < kLanes; ++t) {
        cells[t / 4][2 * (t % 4)] = static_cast<uint16_t>(a[t]);
        cells[t / 4][2 * (t % 4) + 1] = static_cast<uint16_t>(a[t] >> 16);
    }
    for (int t = 0; t < kLanes; ++t)
        d[t] = cells[2 * (t % 4)][t / 4] | static_cast<uint32_t>(cells[2 * (t % 4) + 1][t / 4]) << 16;
    return true;
}

// ---- types of mma and wgmma ----

Format format_of(std::string_view name) {
    constexpr std::string_view kNames[] = {"e4m3", "e5m2", "f16", "bf16", "tf32", "s8", "u8"};
    constexpr Format kFormats[] = {Format::kE4m3, Format::kE5m2, Format::kF16, Format::kBf16,
                                   Format::kTf32, Format::kS8,   Format::kU8};
    for (size_t i = 0; i < std::size(kNames); ++i)
        if (kNames[i] == name) return kFormats[i];
    return Format::kF16;
}
int bits_of(Format f) {
    switch (f) {
        case Format::kF16:
        case Format::kBf16: return 16;
        case Format::kTf32: return 32;
        default: return 8;
    }
}
bool is_integer(Format f) { return f == Format::kS8 || f == Format::kU8; }
bool is_fp8(Format f) { return f == Format::kE4m3 || f == Format::kE5m2; }
uint32_t element(const uint32_t* registers, int bits, int i) {
    const int per = 32 / bits;
    return bits == 32 ? registers[i] : registers[i / per] >> (i % per * bits) & ((1u << bits) - 1);
}

// Fixed-window arithmetic of the tensor cores (blackwell.md A3, A9: fp8 on sm_90 keeps 13 bits).
WindowRule rule_of(Format f, int capability) {
    if (is_fp8(f) && capability >= 90 && capability < 100) return kSm90Rule;
    return kSm100Rule;
}

enum class Accumulator : uint32_t { kF16, kF32, kS32 };

// One element of D.
uint32_t dot(Format fa, Format fb, Accumulator type, const uint32_t* a, const uint32_t* b, int k, uint32_t c,
             bool use_c, bool saturate, WindowRule rule) {
    switch (type) {
        case Accumulator::kS32:
            return static_cast<uint32_t>(integer_dot(fa, fb, a, b, k, static_cast<int32_t>(c), use_c, saturate));
        case Accumulator::kF16: return fused_dot_f16(fa, fb, a, b, k, c, use_c, rule.window);
        default: return fused_dot(fa, fb, a, b, k, c, use_c, rule);
    }
}

// ---- mma.sync.m16n8kK ----

// list: d registers, a, b, c. aux: K | format a << 8 | format b << 12 | Accumulator << 16 | registers of d << 20.
bool exec_mma(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (mask != kFullMask) illegal(-1, "the warp has lanes that exited");
    const int k = static_cast<int>(in.aux & 0xff);
    const auto fa = static_cast<Format>(in.aux >> 8 & 15), fb = static_cast<Format>(in.aux >> 12 & 15);
    const auto type = static_cast<Accumulator>(in.aux >> 16 & 15);
    const int bits = bits_of(fa), per = 32 / bits;
    const int a_registers = 16 * k * bits / 32 / kLanes, b_registers = a_registers / 2;
    const uint32_t d_registers = in.aux >> 20;
    const uint32_t* slots = x.lists + in.list;
    const uint32_t *da = slots + d_registers, *db = da + a_registers, *dc = db + b_registers;

    uint32_t a[16][32], b[8][32];   // [row][k], [column][k]
    for (int t = 0; t < kLanes; ++t) {
        const int group = t / 4, in_group = t % 4;
        for (int r = 0; r < a_registers; ++r) {
            const uint32_t v = x.at<uint32_t>(da[r])[t];
            for (int e = 0; e < per; ++e)
                a[group + 8 * (r & 1)][(r >> 1) * 4 * per + in_group * per + e] = element(&v, bits, e);
        }
        for (int r = 0; r < b_registers; ++r) {
            const uint32_t v = x.at<uint32_t>(db[r])[t];
            for (int e = 0; e < per; ++e) b[group][r * 4 * per + in_group * per + e] = element(&v, bits, e);
        }
    }
    const WindowRule rule = rule_of(fa, x.device->compute_capability);
    uint32_t c[16][8];
    for (int t = 0; t < kLanes; ++t) {
        for (int i = 0; i < 4; ++i) {
            uint32_t& cell = c[t / 4 + 8 * (i >> 1)][2 * (t % 4) + (i & 1)];
            if (type == Accumulator::kF16) cell = x.at<uint32_t>(dc[i >> 1])[t] >> (16 * (i & 1)) & 0xffff;
            else cell = x.at<uint32_t>(dc[i])[t];
        }
    }
    for (int m = 0; m < 16; ++m)
        for (int n = 0; n < 8; ++n) c[m][n] = dot(fa, fb, type, a[m], b[n], k, c[m][n], true, in.flags & kSat, rule);
    for (int t = 0; t < kLanes; ++t) {
        for (uint32_t i = 0; i < d_registers; ++i) {
            const int row = t / 4, column = 2 * (t % 4);
            x.at<uint32_t>(slots[i])[t] = type == Accumulator::kF16
                                              ? c[row + 8 * i][column] | c[row + 8 * i][column + 1] << 16
                                              : c[row + 8 * (i >> 1)][column + (i & 1)];
        }
    }
    return true;
}

int number_after(std::string_view shape, char letter) {
    const size_t at = shape.find(letter);
    if (at == std::string_view::npos) return 0;
    int n = 0;
    for (size_t i = at + 1; i < shape.size() && shape[i] >= '0' && shape[i] <= '9' && n < 10000; ++i)
        n = n * 10 + (shape[i] - '0');
    return n;
}

void add_vector(Decoder& d, const Operand& operand, size_t want, bool destination, std::vector<uint32_t>& slots) {
    const size_t before = slots.size();
    if (operand.kind == Operand::Kind::kVector) {
        for (const auto& e : operand.elements) slots.push_back(destination ? d.destination(e, 32) : d.source(e, 32));
    } else {
        slots.push_back(destination ? d.destination(operand, 32) : d.source(operand, 32));
    }
    if (slots.size() - before != want) {
        d.fail(std::to_string(slots.size() - before) + " registers where " + std::to_string(want) + " are expected");
    }
}

void encode_mma(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    if (ir.operands.size() != 4) d.fail("mma has another number of operands");
    const std::string_view shape = m.words[3];
    const size_t n = m.words.size();
    const Format fa = format_of(m.words[n - 3]), fb = format_of(m.words[n - 2]);
    const int k = number_after(shape, 'k'), bits = bits_of(fa);
    if (bits_of(fb) != bits || (!is_integer(fa) && !is_fp8(fa) && fa != fb))
        d.fail("these operand types do not go together");
    const bool legal_k = k * bits == 256 || k * bits == 128;
    if (!shape.starts_with("m16n8k") || !legal_k) d.fail("this shape is not supported for these types");
    const std::string_view dt = m.words[n - 4], ct = m.words[n - 1];
    if (dt != ct) d.fail("accumulators of two types are not supported");
    const Accumulator type = dt == "f16" ? Accumulator::kF16 : dt == "s32" ? Accumulator::kS32 : Accumulator::kF32;
    if ((type == Accumulator::kS32) != is_integer(fa)) d.fail("the accumulator has another type");
    if (type == Accumulator::kF16 && fa != Format::kF16 && !is_fp8(fa)) d.fail("the accumulator has another type");
    const size_t accumulators = type == Accumulator::kF16 ? 2 : 4, a = static_cast<size_t>(k * bits / 64);
    std::vector<uint32_t> slots;
    add_vector(d, ir.operands[0], accumulators, true, slots);
    add_vector(d, ir.operands[1], a, false, slots);
    add_vector(d, ir.operands[2], a / 2, false, slots);
    add_vector(d, ir.operands[3], accumulators, false, slots);
    out.aux = static_cast<uint32_t>(k) | static_cast<uint32_t>(fa) << 8 | static_cast<uint32_t>(fb) << 12 |
              static_cast<uint32_t>(type) << 16 | static_cast<uint32_t>(accumulators) << 20;
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
}

// ---- wgmma ----

// .aligned is the warpgroup's (9.7.15.5): its four warps execute the same ones in the same order, with the same
// descriptors. One that exits without what another has executed: exit_lanes().
void check_warpgroup(Exec& x, const Warp::Wgmma& own) {
    Warp& warp = *x.warp;
    const std::vector<Warp>& warps = x.cta->warps;
    const size_t first = warp.index & ~3u, place = warp.wgmma_count % warp.last_wgmmas.size();
    if (first + 4 > warps.size())
        illegal(-1, "its warpgroup has only " + std::to_string(warps.size() - first) + " warps");
    for (size_t w = first; w < first + 4; ++w) {
        const Warp& peer = warps[w];
        const auto refuse = [w](const std::string& what) {
            illegal(-1, "warp " + std::to_string(w) + " of its warpgroup has " + what);
        };
        if (peer.wgmma_count <= warp.wgmma_count) {
            if (peer.live == 0) refuse("exited without it");
            continue;
        }
        if (peer.wgmma_count - warp.wgmma_count > peer.last_wgmmas.size()) continue;
        const Warp::Wgmma& other = peer.last_wgmmas[place];
        if (other.pc != own.pc)
            refuse("executed the one at PTX line " + std::to_string(x.program->info[other.pc].line) + " instead");
        if (other.descriptor_a != own.descriptor_a || other.descriptor_b != own.descriptor_b)
            refuse("executed it with other descriptors");
    }
    warp.last_wgmmas[place] = own;
    ++warp.wgmma_count;
}

uint64_t uniform_descriptor(Exec& x, uint32_t slot, const char* name) {
    const uint64_t* lanes = x.at<uint64_t>(slot);
    if (!std::all_of(lanes, lanes + kLanes, [&](uint64_t d) { return d == lanes[0]; }))
        illegal(-1, std::string("the descriptor of ") + name + " differs between the lanes");
    return lanes[0];
}

// slot: 0 descriptor of A, 1 of B, 2 scale-d. list: N / 2 (f32, s32) or N / 4 (f16) registers of D, then four of A
// where it is in registers. aux: N | format a << 12 | format b << 16 | Accumulator << 20 | A in registers << 24. imm:
// bit 0 negate a, 1 negate b, 2 transpose a, 3 transpose b, 4 saturate.
bool exec_wgmma(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (mask != kFullMask) illegal(-1, "the warp has lanes that exited");
    const uint32_t scale = x.predicate(in, 2);
    if (scale != 0 && scale != kFullMask) illegal(-1, "scale-d differs between the lanes");
    const bool registers = in.aux >> 24 & 1;
    const uint64_t descriptor_a = registers ? 0 : uniform_descriptor(x, in.slot[0], "A");
    const uint64_t descriptor_b = uniform_descriptor(x, in.slot[1], "B");
    check_warpgroup(x, {x.pc, descriptor_a, descriptor_b});
    AsyncOp& op = queue_unordered(x, AsyncKind::kWgmma, 0);
    op.mask = mask;
    op.grouped = true;
    op.group = x.warp->wgmma_group[0];
    op.accumulate = scale != 0;
    op.descriptor_a = descriptor_a;
    op.descriptor_b = descriptor_b;
    op.instr_descriptor = in.aux;
    op.source_bytes = static_cast<uint32_t>(in.imm);
    op.payload.assign(x.lists + in.list, x.lists + in.list + in.list_count);
    SmemDescriptor smem;
    std::string broken = decode_smem_descriptor(op.descriptor_b, false, &smem);
    if (!broken.empty()) illegal(-1, "descriptor of B: " + broken);
    if (!registers) {
        broken = decode_smem_descriptor(op.descriptor_a, false, &smem);
        if (!broken.empty()) illegal(-1, "descriptor of A: " + broken);
    }
    if (x.checker) [[unlikely]]
        x.checker->wgmma_issued(x, op, bits_of(static_cast<Format>(in.aux >> 12 & 15)) / 8);
    return true;
}

void encode_wgmma(Decoder& d, const Match& m, const Instruction& ir, Insn& out) {
    const std::string_view shape = m.words[4];
    const Format fa = format_of(m.words[6]), fb = format_of(m.words[7]);
    const int n = number_after(shape, 'n'), k = number_after(shape, 'k'), bits = bits_of(fa);
    const std::string_view dt = m.words[5];
    const Accumulator type = dt == "f16" ? Accumulator::kF16 : dt == "s32" ? Accumulator::kS32 : Accumulator::kF32;
    if (bits_of(fb) != bits || (!is_integer(fa) && !is_fp8(fa) && fa != fb))
        d.fail("these operand types do not go together");
    if (!shape.starts_with("m64n") || k * bits != 256 || n < 8 || n > 256 || n % 8 != 0)
        d.fail("this shape does not exist");
    if (is_integer(fa) && n % 16 != 0 && n != 8 && n != 24) d.fail("this shape does not exist");
    if ((type == Accumulator::kS32) != is_integer(fa)) d.fail("the accumulator has another type");
    if (type == Accumulator::kF16 && fa != Format::kF16 && !is_fp8(fa)) d.fail("the accumulator has another type");
    const size_t have = ir.operands.size();
    if (have < 4) d.fail("it has too few operands");
    const bool registers = ir.operands[1].kind == Operand::Kind::kVector;
    // Operands after scale-d: imm-scale-a, imm-scale-b (not for integers), imm-trans-a (A in shared memory),
    // imm-trans-b (16-bit types).
    const size_t want = 4 + (is_integer(fa) ? 0 : 2) + (bits == 16 ? (registers ? 1 : 2) : 0);
    if (have != want)
        d.fail("it has " + std::to_string(have) + " operands where " + std::to_string(want) + " are expected");
    std::vector<uint32_t> slots;
    add_vector(d, ir.operands[0], static_cast<size_t>(type == Accumulator::kF16 ? n / 4 : n / 2), true, slots);
    if (registers) add_vector(d, ir.operands[1], 4, false, slots);
    else out.slot[0] = d.source(ir.operands[1], 64);
    out.slot[1] = d.source(ir.operands[2], 64);
    out.slot[2] = d.predicate_source(ir.operands[3], out, 2);
    size_t at = 4;
    if (!is_integer(fa)) {
        for (int i = 0; i < 2; ++i) {
            const auto scale = static_cast<int64_t>(d.immediate(ir.operands[at++]));
            if (scale != 1 && scale != -1) d.fail("imm-scale is 1 or -1");
            if (scale == -1) out.imm |= 1u << i;
        }
    }
    if (bits == 16) {
        for (int i = registers ? 1 : 0; i < 2; ++i) {
            const uint64_t trans = d.immediate(ir.operands[at++]);
            if (trans > 1) d.fail("imm-trans is 0 or 1");
            if (trans) out.imm |= 4u << i;
        }
    }
    if (m.has("satfinite")) out.imm |= 16;
    out.aux = static_cast<uint32_t>(n) | static_cast<uint32_t>(fa) << 12 | static_cast<uint32_t>(fb) << 16 |
              static_cast<uint32_t>(type) << 20 | (registers ? 1u << 24 : 0);
    out.list = d.list_begin();
    for (uint32_t s : slots) d.list_add(s);
    out.list_count = static_cast<uint32_t>(slots.size());
}

bool exec_wgmma_fence(Exec& x, const Insn&, uint32_t mask) {
    if (!converge(x, mask)) return false;
    if (x.checker) [[unlikely]] x.checker->registers_fenced(x);
    return true;
}
bool exec_wgmma_commit(Exec& x, const Insn&, uint32_t mask) {
    if (!converge(x, mask)) return false;
    for (auto& g : x.warp->wgmma_group) ++g;
    ++x.cta->epoch;   // its warpgroup may wait for it
    return true;
}
// A wgmma-group is the warpgroup's (9.7.15.7.2): it is complete once the part of each of its warps is.
bool warpgroup_done(const Cta& cta, uint32_t warp, const uint32_t* below) {
    const size_t first = warp & ~3u, end = std::min<size_t>(first + 4, cta.warps.size());
    for (size_t w = first; w < end; ++w) {
        const Warp& peer = cta.warps[w];
        if (peer.live == 0) continue;
        if (peer.wgmma_group[0] < below[0]) return false;
        if (!async_done(cta, peer.index, kFullMask, AsyncKind::kWgmma, AsyncKind::kWgmma, below, false)) return false;
    }
    return true;
}
bool exec_wgmma_wait(Exec& x, const Insn& in, uint32_t mask) {
    if (!converge(x, mask)) return false;
    const uint32_t open = x.warp->wgmma_group[0];
    uint32_t below[kLanes];
    for (auto& b : below) b = open > in.imm ? open - static_cast<uint32_t>(in.imm) : 0;
    if (!warpgroup_done(*x.cta, x.warp->index, below)) return block(x, mask, Wait::kAsync);
    if (x.checker) [[unlikely]]
        x.checker->groups_waited(x, mask, AsyncKind::kWgmma, AsyncKind::kWgmma, below, false);
    return true;
}

// Rows [first, first + rows) of an operand, 32 bytes of K each.
void gather(Exec& x, uint64_t bits, int first, int rows, int element_bytes, bool mn_major, uint8_t* out,
            const char* name) {
    SmemDescriptor d;
    decode_smem_descriptor(bits, false, &d);
    const uint8_t* shared = x.cta->shared.data();
    for (int r = 0; r < rows; ++r) {
        for (int at = 0; at < 32; at += mn_major ? element_bytes : 4) {
            const int bytes = mn_major ? element_bytes : 4;
            const uint32_t address = mn_major ? mn_major_address(d, element_bytes, first + r, at / element_bytes)
                                              : smem_operand_address(d, first + r, at);
            if (address + static_cast<uint32_t>(bytes) > x.cta->shared_bytes || address < kSharedBase) {
                fault(RunStatus::kIllegalAddress, -1,
                      std::string("operand ") + name + " reaches shared address " + std::to_string(address) +
                          ", outside the CTA's shared memory");
            }
            std::memcpy(out + r * 32 + at, shared + address, static_cast<size_t>(bytes));
        }
    }
}

void negate(uint8_t* codes, size_t bytes, int bits) {
    const size_t step = static_cast<size_t>(bits) / 8;
    for (size_t i = step - 1; i < bytes; i += step) codes[i] ^= 0x80;
}

#define LIDX_SHARED "[shared|shared::cta]"

const Row kRows[] = {
    // ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [p];  stmatrix [p], r;  movmatrix d, a  (9.7.14.5.15 -
    // .17)
    {"ldmatrix.sync.aligned.m8n8.(x1|x2|x4).[trans]." LIDX_SHARED ".b16", "*", exec_ldmatrix, "75", encode_matrix},
    {"stmatrix.sync.aligned.m8n8.(x1|x2|x4).[trans]." LIDX_SHARED ".b16", "*", exec_stmatrix, "90", encode_matrix},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "r32 s32", exec_movmatrix, "75"},
    // mma.sync.aligned.m16n8kK.row.col.dtype.atype.btype.ctype d, a, b, c  (9.7.14.5.14)
    {"mma.sync.aligned.*.row.col.(f16|f32).f16.f16.(f16|f32)", "*", exec_mma, "80", encode_mma},
    {"mma.sync.aligned.*.row.col.f32.(bf16|tf32).(bf16|tf32).f32", "*", exec_mma, "80", encode_mma},
    {"mma.sync.aligned.*.row.col.(f16|f32).(e4m3|e5m2).(e4m3|e5m2).(f16|f32)", "*", exec_mma, "89", encode_mma},
    {"mma.sync.aligned.*.row.col.[satfinite].s32.(u8|s8).(u8|s8).s32", "*", exec_mma, "80", encode_mma},
    // wgmma.fence, commit_group, wait_group N  (9.7.15.7)
    {"wgmma.fence.sync.aligned", "-", exec_wgmma_fence, "90a"},
    {"wgmma.commit_group.sync.aligned", "-", exec_wgmma_commit, "90a"},
    {"wgmma.wait_group.sync.aligned", "i", exec_wgmma_wait, "90a"},
    // wgmma.mma_async.sync.aligned.shape.dtype.atype.btype d, a-desc|a, b-desc, scale-d{, imm-scale-a, imm-scale-b}
    //   {, imm-trans-a}{, imm-trans-b}  (9.7.15.5.2)
    {"wgmma.mma_async.sync.aligned.*.(f16|f32).f16.f16", "*", exec_wgmma, "90a", encode_wgmma},
    {"wgmma.mma_async.sync.aligned.*.f32.(bf16|tf32).(bf16|tf32)", "*", exec_wgmma, "90a", encode_wgmma},
    {"wgmma.mma_async.sync.aligned.*.(f16|f32).(e4m3|e5m2).(e4m3|e5m2)", "*", exec_wgmma, "90a", encode_wgmma},
    {"wgmma.mma_async.sync.aligned.*.s32.(s8|u8).(s8|u8).[satfinite]", "*", exec_wgmma, "90a", encode_wgmma},
};

}   // namespace

// Canonical layouts in units of 16 bytes (T elements): MN-major
//   none ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO)); 32B, 64B, 128B: ((T,s,m),(8,k)):((1,T,LBO),(sT,SBO)), s = 2, 4, 8
// (PTX ISA 9.7.15.5.1, 9.7.16.3.3); swizzle: address bits 4.. ^= bits 7.. .
uint32_t mn_major_address(const SmemDescriptor& d, int bytes, int mn, int k) {
    const int t = 16 / bytes;
    const uint32_t i = static_cast<uint32_t>(mn % t * bytes);
    if (d.swizzle_bytes == 0) {
        return d.start + i + static_cast<uint32_t>(mn / t) * d.sbo + static_cast<uint32_t>(k % 8) * 16 +
               static_cast<uint32_t>(k / 8) * d.lbo;
    }
    const int s = d.swizzle_bytes / 16;
    const uint32_t address = d.start + i + static_cast<uint32_t>(mn / t % s) * 16 +
                             static_cast<uint32_t>(mn / t / s) * d.lbo + static_cast<uint32_t>(k % 8 * s) * 16 +
                             static_cast<uint32_t>(k / 8) * d.sbo;
    const uint32_t bits = d.swizzle_bytes == 128 ? 7 : d.swizzle_bytes == 64 ? 3 : 1;
    return address ^ ((address >> 7 & bits) << 4);
}

// A warp's sixteen rows of D, 16 * (warp % 4) on.
void complete_wgmma(Exec& x, AsyncOp& op) {
    // In issue order.
    auto& pending = x.cta->unordered;
    for (size_t i = 0; i < pending.size();) {
        if (pending[i].kind != AsyncKind::kWgmma || pending[i].warp != op.warp || pending[i].serial > op.serial) {
            ++i;
            continue;
        }
        size_t first = i;
        for (size_t j = i; j < pending.size(); ++j) {
            if (pending[j].kind == AsyncKind::kWgmma && pending[j].warp == op.warp &&
                pending[j].serial < pending[first].serial)
                first = j;
        }
        AsyncOp earlier = std::move(pending[first]);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(first));
        complete_wgmma(x, earlier);
        i = 0;
    }
    if (x.definedness) x.definedness->multiplied_wgmma(x, op);
    const int n = static_cast<int>(op.instr_descriptor & 0xfff);
    const auto fa = static_cast<Format>(op.instr_descriptor >> 12 & 15),
               fb = static_cast<Format>(op.instr_descriptor >> 16 & 15);
    const auto type = static_cast<Accumulator>(op.instr_descriptor >> 20 & 15);
    const bool registers = op.instr_descriptor >> 24 & 1;
    const int bits = bits_of(fa), bytes = bits / 8, k = 256 / bits;
    const size_t d_registers = static_cast<size_t>(type == Accumulator::kF16 ? n / 4 : n / 2);

    uint8_t a[16 * 32];
    std::vector<uint8_t> b(static_cast<size_t>(n) * 32);
    if (registers) {
        // The layout of mma's A: register r, lane t holds row t / 4 + 8 (r % 2), bytes 16 (r / 2) + 4 (t % 4) on.
        for (int r = 0; r < 4; ++r) {
            const uint32_t* s = x.at<uint32_t>(op.payload[d_registers + static_cast<size_t>(r)]);
            for (int t = 0; t < kLanes; ++t)
                std::memcpy(a + (t / 4 + 8 * (r & 1)) * 32 + 16 * (r >> 1) + 4 * (t % 4), s + t, 4);
        }
    } else {
        gather(x, op.descriptor_a, static_cast<int>(op.warp % 4) * 16, 16, bytes, op.source_bytes & 4, a, "A");
    }
    gather(x, op.descriptor_b, 0, n, bytes, op.source_bytes & 8, b.data(), "B");
    if (op.source_bytes & 1) negate(a, sizeof a, bits);
    if (op.source_bytes & 2) negate(b.data(), b.size(), bits);
    if (op.warp % 4 == 0) ++x.mma_operations;

    std::vector<uint32_t> d(16 * static_cast<size_t>(n));
    auto cell = [&](int t, int i) -> uint32_t& {   // accumulator i of lane t
        const int row = t / 4 + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
        return d[static_cast<size_t>(row * n + column)];
    };
    const int accumulators = n / 2;
    if (op.accumulate) {
        for (int i = 0; i < accumulators; ++i) {
            for (int t = 0; t < kLanes; ++t) {
                cell(t, i) = type == Accumulator::kF16
                                 ? x.at<uint32_t>(op.payload[static_cast<size_t>(i / 2)])[t] >> (16 * (i & 1)) & 0xffff
                                 : x.at<uint32_t>(op.payload[static_cast<size_t>(i)])[t];
            }
        }
    }
    const WindowRule rule = rule_of(fa, 90);
    if (is_fp8(fa) && type == Accumulator::kF32) {
        mma_fp8_k32(fa, fb, a, b.data(), 16, n, d.data(), n, op.accumulate, rule);
    } else if (is_fp8(fa) && type == Accumulator::kF16) {
        mma_fp8_k32_f16(fa, fb, a, b.data(), 16, n, d.data(), n, op.accumulate, rule.window);
    } else {
        std::vector<uint32_t> ea(16 * static_cast<size_t>(k)), eb(static_cast<size_t>(n * k));
        for (size_t i = 0; i < ea.size(); ++i)
            std::memcpy(&ea[i], a + i * static_cast<size_t>(bytes), static_cast<size_t>(bytes));
        for (size_t i = 0; i < eb.size(); ++i)
            std::memcpy(&eb[i], b.data() + i * static_cast<size_t>(bytes), static_cast<size_t>(bytes));
        for (int row = 0; row < 16; ++row) {
            for (int column = 0; column < n; ++column) {
                uint32_t& v = d[static_cast<size_t>(row * n + column)];
                v = dot(fa, fb, type, ea.data() + row * k, eb.data() + column * k, k, v, op.accumulate,
                        op.source_bytes & 16, rule);
            }
        }
    }
    for (int i = 0; i < accumulators; ++i) {
        for (int t = 0; t < kLanes; ++t) {
            if (type == Accumulator::kF16) {
                uint32_t& r = x.at<uint32_t>(op.payload[static_cast<size_t>(i / 2)])[t];
                r = i & 1 ? (r & 0xffff) | cell(t, i) << 16 : (r & 0xffff0000u) | cell(t, i);
            } else {
                x.at<uint32_t>(op.payload[static_cast<size_t>(i)])[t] = cell(t, i);
            }
        }
    }
}

std::span<const Row> rows_mma() { return kRows; }

}   // namespace ptxemu

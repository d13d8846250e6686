// SPDX-License-Identifier: Apache-2.0
// Descriptors, operand addresses and Tensor Memory: where elements lie, not what is computed with them.
#include <algorithm>
#include <cstring>

#include "tensor_core.h"

namespace ptxemu {
namespace {

uint32_t field(uint64_t bits, int low, int count) {
    return static_cast<uint32_t>(bits >> low & ((uint64_t{1} << count) - 1));
}

std::string illegal(const char* what, uint32_t value, const std::string& legal) {
    return std::string(what) + " = " + std::to_string(value) + ", but " + legal;
}

// The XOR of address bits 4-6 with bits 7-9, as many as the mode has.
uint32_t swizzled(int swizzle_bytes, uint32_t address) {
    switch (swizzle_bytes) {
        case 32: return address ^ ((address >> 7 & 1) << 4);
        case 64: return address ^ ((address >> 7 & 3) << 4);
        case 128: return address ^ ((address >> 7 & 7) << 4);
        default: return address;
    }
}

std::string operand_type(MmaKind kind, const char* what, uint32_t code, Format* out) {
    static constexpr Format kF8f6f4[] = {Format::kE4m3, Format::kE5m2, Format::kE4m3, Format::kE2m3, Format::kE3m2,
                                         Format::kE2m1};
    switch (kind) {
        case MmaKind::kF16:
            if (code > 1) return illegal(what, code, "kind::f16 takes 0 (F16) or 1 (BF16)");
            *out = code == 0 ? Format::kF16 : Format::kBf16;
            return {};
        case MmaKind::kTf32:
            if (code != 2) return illegal(what, code, "kind::tf32 takes 2 (TF32)");
            *out = Format::kTf32;
            return {};
        case MmaKind::kF8f6f4:
            if (code > 5 || code == 2) return illegal(what, code, "kind::f8f6f4 takes 0, 1, 3, 4 or 5");
            *out = kF8f6f4[code];
            return {};
        case MmaKind::kI8:
            if (code > 1) return illegal(what, code, "kind::i8 takes 0 (U8) or 1 (S8)");
            *out = code == 0 ? Format::kU8 : Format::kS8;
            return {};
    }
    return "unknown kind";
}

bool is_six_or_four_bit(Format f) { return f == Format::kE2m3 || f == Format::kE3m2 || f == Format::kE2m1; }

std::string out_of_shared(uint32_t address, uint32_t shared_bytes) {
    return "matrix operand reaches shared address " + std::to_string(address) + ", beyond the " +
           std::to_string(shared_bytes) + " bytes of shared memory";
}

}  // namespace

std::string decode_instr_descriptor(uint32_t bits, MmaKind kind, int cta_group, InstrDescriptor* out) {
    const std::string zero = "it must be 0";
    if (field(bits, 2, 1) != 0) return illegal("sparsity (bit 2)", 1, "sparse matrices are not supported");
    if (field(bits, 0, 2) != 0) return illegal("sparsity selector (bits 0-1)", field(bits, 0, 2), zero);
    if (field(bits, 6, 1) != 0) return illegal("reserved bit 6", 1, zero);
    if (field(bits, 23, 1) != 0) return illegal("reserved bit 23", 1, zero);
    if (field(bits, 29, 1) != 0) return illegal("reserved bit 29", 1, zero);
    if (field(bits, 30, 2) != 0) return illegal("maximum shift (bits 30-31)", field(bits, 30, 2), "it needs .ws");

    InstrDescriptor d{};
    d.saturate = field(bits, 3, 1) != 0;
    if (d.saturate && kind != MmaKind::kI8) return illegal("saturate (bit 3)", 1, "only kind::i8 has it");
    const uint32_t dtype = field(bits, 4, 2);
    d.d_f32 = dtype == 1;
    const bool f16_allowed = kind == MmaKind::kF16 || kind == MmaKind::kF8f6f4;
    if (kind == MmaKind::kI8 ? dtype != 2 : !(dtype == 1 || (dtype == 0 && f16_allowed))) {
        return illegal("D type (bits 4-5)", dtype,
                       kind == MmaKind::kI8 ? "kind::i8 takes 2 (S32)"
                       : f16_allowed        ? "it must be 0 (F16) or 1 (F32)"
                                            : "kind::tf32 takes 1 (F32)");
    }
    if (auto why = operand_type(kind, "A type (bits 7-9)", field(bits, 7, 3), &d.a); !why.empty()) return why;
    if (auto why = operand_type(kind, "B type (bits 10-12)", field(bits, 10, 3), &d.b); !why.empty()) return why;
    if (dtype == 0 && (d.a == Format::kBf16 || d.b == Format::kBf16)) {
        return illegal("D type (bits 4-5)", 0, "BF16 operands need 1 (F32)");
    }
    d.negate_a = field(bits, 13, 1) != 0;
    d.negate_b = field(bits, 14, 1) != 0;
    if (kind == MmaKind::kI8 && (d.negate_a || d.negate_b)) {
        return illegal("negate (bits 13-14)", field(bits, 13, 2), "kind::i8 has no negation");
    }
    d.transpose_a = field(bits, 15, 1) != 0;
    d.transpose_b = field(bits, 16, 1) != 0;
    if ((d.transpose_a && is_six_or_four_bit(d.a)) || (d.transpose_b && is_six_or_four_bit(d.b))) {
        return illegal("transpose (bits 15-16)", field(bits, 15, 2), "6-bit and 4-bit operands are K-major");
    }
    d.n = static_cast<int>(field(bits, 17, 6) << 3);
    d.m = static_cast<int>(field(bits, 24, 5) << 4);

    const int small_m = 64 * cta_group;
    if (d.m != small_m && d.m != 2 * small_m) {
        return illegal("M (bits 24-28)", static_cast<uint32_t>(d.m),
                       "cta_group::" + std::to_string(cta_group) + " takes " + std::to_string(small_m) + " or " +
                           std::to_string(2 * small_m));
    }
    // PTX ISA table 39; the MN-major steps are those of CUTLASS's static checks.
    int step = 8 * cta_group;
    if (d.transpose_b) step *= 2;
    if (kind == MmaKind::kI8) step = cta_group == 2 ? 32 : d.n > 32 ? 16 : step;
    if (d.n < step || d.n > 256 || d.n % step != 0) {
        return illegal("N (bits 17-22)", static_cast<uint32_t>(d.n),
                       "it must be a multiple of " + std::to_string(step) + " up to 256");
    }
    *out = d;
    return {};
}

std::string decode_smem_descriptor(uint64_t bits, bool sm100, SmemDescriptor* out) {
    const std::string zero = "it must be 0";
    if (field(bits, 14, 2) != 0) return illegal("descriptor bits 14-15", field(bits, 14, 2), zero);
    if (field(bits, 30, 2) != 0) return illegal("descriptor bits 30-31", field(bits, 30, 2), zero);
    SmemDescriptor d{};
    d.start = field(bits, 0, 14) << 4;
    d.lbo = field(bits, 16, 14) << 4;
    d.sbo = field(bits, 32, 14) << 4;
    d.base_offset = static_cast<int>(field(bits, 49, 3));
    if (sm100) {
        if (field(bits, 46, 3) != 1) return illegal("descriptor bits 46-48", field(bits, 46, 3), "they must be 0b001");
        if (field(bits, 52, 1) != 0) {
            return illegal("leading dimension mode (bit 52)", 1, "absolute addresses exist on sm_103a only");
        }
        if (field(bits, 53, 8) != 0) return illegal("descriptor bits 53-60", field(bits, 53, 8), zero);
        switch (field(bits, 61, 3)) {
            case 0: d.swizzle_bytes = 0; break;
            case 1: d.swizzle_bytes = 128; d.atom_32b = true; break;
            case 2: d.swizzle_bytes = 128; break;
            case 4: d.swizzle_bytes = 64; break;
            case 6: d.swizzle_bytes = 32; break;
            default: return illegal("swizzle (bits 61-63)", field(bits, 61, 3), "it must be 0, 1, 2, 4 or 6");
        }
    } else {
        if (field(bits, 46, 3) != 0) return illegal("descriptor bits 46-48", field(bits, 46, 3), zero);
        if (field(bits, 52, 10) != 0) return illegal("descriptor bits 52-61", field(bits, 52, 10), zero);
        static constexpr int kSwizzle[] = {0, 128, 64, 32};
        d.swizzle_bytes = kSwizzle[field(bits, 62, 2)];
    }
    if (d.base_offset != 0) {
        return illegal("matrix base offset (bits 49-51)", static_cast<uint32_t>(d.base_offset),
                       "only patterns that start on their natural boundary are supported (0)");
    }
    *out = d;
    return {};
}

uint32_t smem_operand_address(const SmemDescriptor& d, int row, int k_byte) {
    const uint32_t r = static_cast<uint32_t>(row), k = static_cast<uint32_t>(k_byte);
    if (d.swizzle_bytes == 0) return d.start + r / 8 * d.sbo + r % 8 * 16 + k / 16 * d.lbo + k % 16;
    const uint32_t pitch = static_cast<uint32_t>(d.swizzle_bytes);
    return swizzled(d.swizzle_bytes, d.start + r / 8 * d.sbo + r % 8 * pitch + k);
}

uint32_t smem_operand_address_mn(const SmemDescriptor& d, int mn, int k) {
    const uint32_t i = static_cast<uint32_t>(mn), j = static_cast<uint32_t>(k);
    if (d.swizzle_bytes == 0) return d.start + i % 16 + i / 16 * d.sbo + j % 8 * 16 + j / 8 * d.lbo;
    const uint32_t span = static_cast<uint32_t>(d.swizzle_bytes);
    return swizzled(d.swizzle_bytes, d.start + i % span + i / span * d.lbo + j % 8 * span + j / 8 * d.sbo);
}

std::string gather_operand(const SmemDescriptor& d, const uint8_t* shared, uint32_t shared_bytes, int rows, int k_bytes,
                           uint8_t* out) {
    if (d.atom_32b) return "the 128-byte swizzle with 32-byte atoms exists for MN-major operands only";
    if (k_bytes % 16 != 0) return "operand depth of " + std::to_string(k_bytes) + " bytes is not a multiple of 16";
    // Every layout keeps 16 bytes of a row together, so the walk is by chunks.
    for (int row = 0; row < rows; ++row) {
        for (int k = 0; k < k_bytes; k += 16) {
            const uint32_t address = smem_operand_address(d, row, k);
            if (address >= shared_bytes || shared_bytes - address < 16) return out_of_shared(address, shared_bytes);
            std::memcpy(out + static_cast<size_t>(row) * static_cast<size_t>(k_bytes) + k, shared + address, 16);
        }
    }
    return {};
}

std::string gather_operand_mn(const SmemDescriptor& d, const uint8_t* shared, uint32_t shared_bytes, int rows, int k,
                              uint8_t* out) {
    if (d.atom_32b) return "the 128-byte swizzle with 32-byte atoms is not supported for 8-bit operands";
    if (rows % 8 != 0) return "MN-major operand of " + std::to_string(rows) + " rows: not a multiple of 8";
    for (int depth = 0; depth < k; ++depth) {
        for (int row = 0; row < rows; ++row) {
            const uint32_t address = smem_operand_address_mn(d, row, depth);
            if (address >= shared_bytes) return out_of_shared(address, shared_bytes);
            out[static_cast<size_t>(row) * static_cast<size_t>(k) + depth] = shared[address];
        }
    }
    return {};
}

namespace {
constexpr int kUnitColumns = 32;                       // granule of tcgen05.alloc
constexpr int kUnits = Tmem::kColumns / kUnitColumns;
constexpr uint32_t kUnwritten = 0xffffc0de;            // a NaN, so that a read of what nobody wrote is seen
}  // namespace

Tmem::Tmem() : cells_(static_cast<size_t>(kLanes) * kColumns, kUnwritten), owner_(kUnits, -1) {}

int Tmem::allocate(int columns) {
    if (relinquished_ || columns < kUnitColumns || columns > kColumns || (columns & (columns - 1)) != 0) return -2;
    const int units = columns / kUnitColumns;
    for (int first = 0; first + units <= kUnits; first += units) {
        const auto begin = owner_.begin() + first;
        if (std::any_of(begin, begin + units, [](int8_t owner) { return owner >= 0; })) continue;
        std::fill(begin, begin + units, static_cast<int8_t>(first));      // an allocation is known by its first unit
        return first * kUnitColumns;
    }
    return -1;
}

std::string Tmem::release(int first_column, int columns) {
    const std::string what = "tcgen05.dealloc of " + std::to_string(columns) + " columns at column " +
                             std::to_string(first_column);
    const int first = first_column / kUnitColumns, units = columns / kUnitColumns;
    const bool aligned = first_column % kUnitColumns == 0 && columns % kUnitColumns == 0;
    if (!aligned || first_column < 0 || columns <= 0 || columns > kColumns || first + units > kUnits) {
        return what + ": no such range";
    }
    if (owner_[static_cast<size_t>(first)] != first) return what + ": no allocation starts there";
    const int held = static_cast<int>(std::count(owner_.begin(), owner_.end(), static_cast<int8_t>(first)));
    if (held != units) return what + ": the allocation has " + std::to_string(held * kUnitColumns) + " columns";
    std::fill(owner_.begin() + first, owner_.begin() + first + units, static_cast<int8_t>(-1));
    return {};
}

int Tmem::allocated_columns() const {
    const auto used = std::count_if(owner_.begin(), owner_.end(), [](int8_t owner) { return owner >= 0; });
    return kUnitColumns * static_cast<int>(used);
}

bool Tmem::is_allocated(int first_column, int columns) const {
    if (first_column < 0 || columns < 0 || first_column > kColumns || columns > kColumns - first_column) return false;
    for (int unit = first_column / kUnitColumns; unit * kUnitColumns < first_column + columns; ++unit) {
        if (owner_[static_cast<size_t>(unit)] < 0) return false;
    }
    return true;
}

int tmem_registers(TmemShape shape, int num) {
    if (num < 1 || num > 128 || (num & (num - 1)) != 0) return 0;
    switch (shape) {
        case TmemShape::k32x32b:
        case TmemShape::k16x64b:
        case TmemShape::k16x32bx2: return num;
        case TmemShape::k16x128b: return num <= 64 ? 2 * num : 0;
        case TmemShape::k16x256b: return num <= 32 ? 4 * num : 0;
    }
    return 0;
}

void tmem_cell(TmemShape shape, int t, int i, int imm_half_split, int* lane, int* column) {
    switch (shape) {
        case TmemShape::k32x32b:
            *lane = t;
            *column = i;
            return;
        case TmemShape::k16x64b:
            *lane = 8 * (t & 1) + (t >> 2);
            *column = 2 * i + (t >> 1 & 1);
            return;
        case TmemShape::k16x128b:
            *lane = (t >> 2) + 8 * (i & 1);
            *column = 4 * (i >> 1) + (t & 3);
            return;
        case TmemShape::k16x256b:
            *lane = (t >> 2) + 8 * (i >> 1 & 1);
            *column = 8 * (i >> 2) + 2 * (t & 3) + (i & 1);
            return;
        case TmemShape::k16x32bx2:
            *lane = t % 16;
            *column = i + (t < 16 ? 0 : imm_half_split);
            return;
    }
}

int tmem_d_cell(int m_size, int cta_group, int m, int n, int n_size, int* lane, int* column) {
    *column = n;
    if (cta_group == 1) {
        *lane = m_size == 64 ? m % 16 + m / 16 * 32 : m;       // layouts F, D
        return 0;
    }
    if (m_size == 256) {                                       // layout A
        *lane = m % 128;
        return m / 128;
    }
    *lane = m % 64 + (n >= n_size / 2 ? 64 : 0);               // layout B
    *column = n % (n_size / 2);
    return m / 64;
}

void wgmma_d_cell(int t, int i, int* row, int* column) {
    const int warp = t / 32, lane = t % 32;
    *row = 16 * warp + lane / 4 + 8 * (i >> 1 & 1);
    *column = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1);
}

}  // namespace ptxemu

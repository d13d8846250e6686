// SPDX-License-Identifier: Apache-2.0
// Tensor-core arithmetic, descriptors and TMEM, bit for bit (blackwell.md A1-A4, A9). No scheduling here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ptxemu {

enum class Format : uint8_t { kE4m3, kE5m2, kE2m3, kE3m2, kE2m1, kF16, kBf16, kTf32, kS8, kU8 };

// The fixed-window rule: products and C truncated toward zero to 2^(R - window), summed exactly, result cut to
// result_bits fraction bits (23: fp32). sm_100: (25, 23); sm_90: (13, 13).
struct WindowRule { int window; int result_bits; };
inline constexpr WindowRule kSm100Rule{25, 23};
inline constexpr WindowRule kSm90Rule{13, 13};

// One fused step: D = A.B + C over k elements; a, b are element codes (one per uint32: tf32/bf16/f16 in the low bits
// as their own bit pattern; tf32 as fp32 bits). Slow, obviously right, used by tests and by rare formats.
uint32_t fused_dot(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, uint32_t c_bits, bool use_c,
                   WindowRule rule);
// The same with an F16 accumulator: C and the result are half-precision bits; the exact sum is rounded to nearest even.
uint32_t fused_dot_f16(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, uint32_t c_bits, bool use_c,
                       int window);
// kind::i8: S8 or U8 codes, exact sum; saturate clamps the result to int32, else it wraps.
int32_t integer_dot(Format fa, Format fb, const uint32_t* a, const uint32_t* b, int k, int32_t c, bool use_c,
                    bool saturate);

// The fast path: D[m][n] (fp32 bits, row pitch d_pitch words) = sum_k A[m][k] * B[n][k] + (accumulate ? D : 0), K = 32
// per step, same bits as fused_dot for every input. fa, fb: kE4m3, kE5m2, kE2m3, kE3m2 or kE2m1, one code per byte
// (unused high bits ignored). a: [m][32] codes, b: [n][32] codes, packed. Any m, n >= 0.
void mma_fp8_k32(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                 bool accumulate, WindowRule rule);
// The instruction sets that it is compiled for; the best one the CPU has is taken. Every one gives the same bits.
enum class SimdPath : uint8_t { kBaseline, kAvx2, kAvx512 };
bool simd_path_available(SimdPath path);
void mma_fp8_k32_on(SimdPath path, Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d,
                    int d_pitch, bool accumulate, WindowRule rule);

// The same for F16 accumulators (half-precision bits in the low half of a word), same bits as fused_dot_f16.
void mma_fp8_k32_f16(Format fa, Format fb, const uint8_t* a, const uint8_t* b, int m, int n, uint32_t* d, int d_pitch,
                     bool accumulate, int window);

// Instruction descriptor of kind::f16/tf32/f8f6f4/i8 (blackwell.md A2).
struct InstrDescriptor {
    Format a, b;
    bool d_f32;                 // else f16, or s32 for kind::i8
    bool saturate;              // kind::i8 only
    bool negate_a, negate_b, transpose_a, transpose_b;
    int m, n;
};
enum class MmaKind : uint8_t { kF16, kTf32, kF8f6f4, kI8 };
// Empty string, or which field has which illegal value (reserved bits, type codes, legal M and N for cta_group).
std::string decode_instr_descriptor(uint32_t bits, MmaKind kind, int cta_group, InstrDescriptor* out);

// Shared-memory matrix descriptor of tcgen05 (sm_100) or wgmma (sm_90).
struct SmemDescriptor {
    uint32_t start, lbo, sbo;   // bytes
    int base_offset;
    int swizzle_bytes;          // 0, 32, 64, 128
    bool atom_32b;              // 128B swizzle with 32B atoms
};
std::string decode_smem_descriptor(uint64_t bits, bool sm100, SmemDescriptor* out);
// Byte address in shared memory of element (row, byte k) of a K-major operand (A1.1); absolute-address swizzle.
uint32_t smem_operand_address(const SmemDescriptor& d, int row, int k_byte);
// The same for an MN-major operand of 8-bit elements: (row mn, element k).
uint32_t smem_operand_address_mn(const SmemDescriptor& d, int mn, int k);
// Gathers rows x k_bytes of a K-major operand; checks the bounds. out: [rows][k_bytes].
std::string gather_operand(const SmemDescriptor& d, const uint8_t* shared, uint32_t shared_bytes, int rows, int k_bytes,
                           uint8_t* out);
std::string gather_operand_mn(const SmemDescriptor& d, const uint8_t* shared, uint32_t shared_bytes, int rows, int k,
                              uint8_t* out);

// Tensor Memory of one CTA's SM: 128 lanes x 512 columns x 32 bit.
class Tmem {
  public:
    static constexpr int kLanes = 128, kColumns = 512;
    Tmem();
    uint32_t* lane(int l) { return cells_.data() + l * kColumns; }
    // Power of two 32..512; returns the first column, -1 when there is no room now, -2 when the size is illegal or
    // permits were given up.
    int allocate(int columns);
    std::string release(int first_column, int columns);
    void relinquish() { relinquished_ = true; }
    bool relinquished() const { return relinquished_; }
    int allocated_columns() const;
    bool is_allocated(int first_column, int columns) const;
  private:
    std::vector<uint32_t> cells_;
    std::vector<int8_t> owner_;    // per 32-column unit: allocation id or -1
    bool relinquished_ = false;
};

// tcgen05.ld / st fragment maps (A4): for lane t and register i, the TMEM lane and column relative to the base.
enum class TmemShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
int tmem_registers(TmemShape shape, int num);   // 32-bit registers per thread; 0 if the shape has no such .num
void tmem_cell(TmemShape shape, int t, int i, int imm_half_split, int* lane, int* column);

// Where tcgen05.mma (dense, not .ws) keeps element (m, n) of D, relative to the accumulator's first column (A3 layouts
// D, F of cta_group 1; A, B of cta_group 2). m_size, n_size: the instruction's M and N. Returns the CTA of the pair
// that holds it.
int tmem_d_cell(int m_size, int cta_group, int m, int n, int n_size, int* lane, int* column);

// wgmma m64nN: row and column of D that thread t (0..127) of the warpgroup keeps in accumulator register i (0..N/2-1).
void wgmma_d_cell(int t, int i, int* row, int* column);

}  // namespace ptxemu

// SPDX-License-Identifier: Apache-2.0
// Instructions that are known and not carried out: refused by name, with their line, when the kernel is loaded.
#include "isa.h"

namespace ptxemu {
namespace {

template <size_t kBytes>
struct Text {
    char bytes[kBytes];
    constexpr Text(const char (&text)[kBytes]) {
        for (size_t i = 0; i < kBytes; ++i) bytes[i] = text[i];
    }
};
template <Text kWhat>
void refuse(Decoder& d, const Match&, const Instruction&, Insn&) {
    d.fail(std::string(kWhat.bytes) + " not supported");
}

const Row kRows[] = {
    {"tcgen05.mma.ws.**", "*", nullptr, nullptr, refuse<"tcgen05.mma.ws is">},
    {"tcgen05.mma.sp.**", "*", nullptr, nullptr, refuse<"sparse tcgen05.mma is">},
    {"tcgen05.mma.*.(kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4).**", "*", nullptr, nullptr,
     refuse<"block scaling (kinds mxf8f6f4, mxf4, mxf4nvf4) is">},
    {"tcgen05.cp.**", "*", nullptr, nullptr, refuse<"tcgen05.cp is">},
    {"tcgen05.shift.**", "*", nullptr, nullptr, refuse<"tcgen05.shift is">},
    {"tcgen05.ld.red.**", "*", nullptr, nullptr, refuse<"tcgen05.ld.red is">},
    {"cp.async.bulk.tensor.*.*.*.(tile::gather4|tile::scatter4).**", "*", nullptr, nullptr,
     refuse<"gather4 and scatter4 are">},
    {"cp.async.bulk.prefetch.tensor.*.*.*.tile::gather4.**", "*", nullptr, nullptr, refuse<"gather4 is">},
    {"cp.async.bulk.tensor.*.*.*.(im2col|im2col::w|im2col::w::128|im2col_no_offs).**", "*", nullptr, nullptr,
     refuse<"the im2col modes are">},
    {"cp.async.bulk.global.shared::cta.bulk_group.[L2::cache_hint].cp_mask", "*", nullptr, nullptr,
     refuse<"cp_mask is">},
    {"multimem.**", "*", nullptr, nullptr, refuse<"multimem is">},
    {"mma.sp.**", "*", nullptr, nullptr, refuse<"a sparse matrix operand is">},
    {"mma.sp::ordered_metadata.**", "*", nullptr, nullptr, refuse<"a sparse matrix operand is">},
    {"wgmma.mma_async.sp.**", "*", nullptr, nullptr, refuse<"a sparse matrix operand is">},
    {"wmma.**", "*", nullptr, nullptr, refuse<"wmma (mma.sync is) is">},
    {"(tex|tld4|txq|istypep|suld|sust|sured|suq).**", "*", nullptr, nullptr, refuse<"textures and surfaces are">},
    {"(vadd|vsub|vabsdiff|vmin|vmax|vshl|vshr|vmad|vset|vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2|vset2|vadd4|vsub4|"
     "vavrg4|vabsdiff4|vmin4|vmax4|vset4).**",
     "*", nullptr, nullptr, refuse<"video instructions are">},
};

}   // namespace

std::span<const Row> rows_refused() { return kRows; }

}   // namespace ptxemu

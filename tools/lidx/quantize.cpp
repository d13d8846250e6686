// SPDX-License-Identifier: Apache-2.0
// lidx quantize: vectors to e4m3 codes and scales, as they lie in a cache, by the store kernel of the public API.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "case_io.h"
#include "commands.h"
#include "failure.h"
#include "machine.h"
#include "npy.h"

namespace lidx::command {

namespace {

// NumPy has no bf16: two-byte integers hold its bits.
int32_t float_type_of(const std::string& descr, const std::string& path) {
    if (descr == "<f4") return LIDX_FP32;
    if (descr == "<f2") return LIDX_FP16;
    if (descr == "<u2") return LIDX_BF16;
    bad_input(path + ": descr '" + descr + "': must be '<f4' (fp32), '<f2' (fp16) or '<u2' (the bits of bf16)");
}

struct Quantized {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
};

// One page of as many slots as there are rows: codes and scales come out contiguous.
Quantized quantize(const Machine& machine, const std::vector<uint8_t>& data, int32_t type, int64_t rows, int32_t depth,
                   uint32_t flags) {
    std::vector<int64_t> slots(static_cast<size_t>(rows));
    std::iota(slots.begin(), slots.end(), 0);
    DeviceBuffer keys(machine, data.size()), slot_mapping(machine, slots.size() * sizeof(int64_t));
    DeviceBuffer codes(machine, static_cast<size_t>(rows * depth));
    DeviceBuffer scales(machine, static_cast<size_t>(rows) * sizeof(float));
    keys.upload(data.data(), data.size());
    slot_mapping.upload(slots.data(), slots.size() * sizeof(int64_t));
    lidx_pool pool;
    lidx_pool_init(&pool);
    pool.k_base = codes.as();
    pool.k_scale_base = scales.as();
    pool.depth = depth;
    pool.page_size = static_cast<int32_t>(rows);
    pool.num_pages = 1;
    pool.k_page_stride = rows * depth;
    pool.k_scale_page_stride = rows * int64_t{sizeof(float)};
    lidx_store_args args;
    lidx_store_args_init(&args);
    args.flags = flags;
    args.key_type = type;
    args.rows = static_cast<int32_t>(rows);
    args.key_stride = depth;
    args.keys = keys.as();
    args.slot_mapping = slot_mapping.as<int64_t>();
    machine.check(lidx_store_enqueue(machine.context(), &pool, &args, nullptr));
    machine.check(machine.driver().cuCtxSynchronize(), "cuCtxSynchronize");
    Quantized result{std::vector<uint8_t>(static_cast<size_t>(rows * depth)),
                     std::vector<float>(static_cast<size_t>(rows))};
    codes.download(result.codes.data(), result.codes.size());
    scales.download(result.scales.data(), result.scales.size() * sizeof(float));
    return result;
}

}  // namespace

int run_quantize(const QuantizeOptions& options) {
    require_outputs({{"--codes", options.codes}, {"--scales", options.scales}}, {}, {options.in});
    const RawNpy input = read_raw_npy(options.in);
    const int32_t type = float_type_of(input.descr, options.in.string());
    if (input.shape.empty() || (input.shape.back() != 64 && input.shape.back() != 128))
        bad_input(options.in.string() + ": shape " + shape_text(input.shape)
                  + ": the last dimension must be 64 or 128");
    const auto depth = static_cast<int32_t>(input.shape.back());
    const Shape leading(input.shape.begin(), input.shape.end() - 1);
    int64_t rows = 1;
    for (const int64_t count : leading) rows *= count;   // the reader has seen the product fit the file
    constexpr int64_t kMaxRows = int64_t{1} << 30;
    if (rows > kMaxRows)
        bad_input(options.in.string() + ": shape " + shape_text(input.shape) + ": " + std::to_string(rows) +
                  " vectors, expected at most " + std::to_string(kMaxRows));

    Quantized result;
    std::string device = "no device: there is nothing to do";
    if (rows > 0) {
        const std::unique_ptr<Machine> machine = open_machine(options.device);
        const uint32_t flags = (options.rotate ? uint32_t{LIDX_FLAG_ROTATE} : 0) |
                               (options.pow2 ? uint32_t{LIDX_FLAG_POW2_SCALE} : 0);
        result = quantize(*machine, input.data, type, rows, depth, flags);
        device = machine->info().name;
    }
    write_npy<uint8_t>(options.codes, input.shape, result.codes);
    write_npy<float>(options.scales, leading, result.scales);
    std::printf("%s: %" PRId64 " vectors of %d on %s\n", options.codes.c_str(), rows, depth, device.c_str());
    return kDone;
}

}  // namespace lidx::command

// SPDX-License-Identifier: Apache-2.0
#include "host/launch.h"

#include <cstdint>
#include <string>

#include "host/operand_maps.h"
#include "host/status.h"

namespace lidx {

namespace {

void require_pointer(const char* field, const void* pointer, uintptr_t alignment_bytes) {
    if (pointer == nullptr) fail(LIDX_ERR_NULL, std::string(field) + " is null");
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % alignment_bytes != 0)
        fail(LIDX_ERR_ALIGNMENT, std::string(field) + " = address " + std::to_string(address) +
                                     ": must be a multiple of " + std::to_string(alignment_bytes));
}

void check_args(const lidx_plan& plan, const lidx_score_args& args) {
    require_pointer("q", args.q, 16);
    require_pointer("q_scale", args.q_scale, 16);
    require_pointer("k_base", args.k_base, 16);
    require_pointer("k_scale_base", args.k_scale_base, 4);
    if (!plan.contiguous)
        require_pointer("block_table", args.block_table, 4);
    else if (args.block_table != nullptr)
        fail(LIDX_ERR_VALUE, "block_table is not null: the plan's page_size = 0 (contiguous) has none");
    require_pointer("context_lens", args.context_lens, 4);
    require_pointer("cu_seqlens_q", args.cu_seqlens_q, 4);
    require_pointer("scores", args.scores, 4);
    if (plan.workspace_bytes == 0) return;
    if (args.workspace == nullptr)
        fail(LIDX_ERR_WORKSPACE,
             "workspace is null: the plan needs " + std::to_string(plan.workspace_bytes) + " bytes");
    if (args.workspace_bytes < plan.workspace_bytes)
        fail(LIDX_ERR_WORKSPACE, "workspace_bytes = " + std::to_string(args.workspace_bytes) + ": the plan needs " +
                                     std::to_string(plan.workspace_bytes));
    require_pointer("workspace", args.workspace, 16);
}

void launch(const lidx_context& context, const lidx_plan& plan, void** kernel_params, CUstream stream) {
    CUlaunchConfig config = {};
    config.gridDimX = plan.grid[0];
    config.gridDimY = plan.grid[1];
    config.gridDimZ = plan.grid[2];
    config.blockDimX = plan.block[0];
    config.blockDimY = plan.block[1];
    config.blockDimZ = plan.block[2];
    config.sharedMemBytes = plan.shared_bytes;
    config.hStream = stream;
    const CUfunction function = (*context.kernels)[plan.kernel_index()].function;
    const CUresult result = context.driver.cuLaunchKernelEx(&config, function, kernel_params, nullptr);
    if (result != CUDA_SUCCESS)
        fail(LIDX_ERR_DRIVER,
             std::string("cuLaunchKernelEx of ") + plan.kernel->symbol + ", grid " + std::to_string(plan.grid[0]) +
                 " x " + std::to_string(plan.grid[1]) + " x " + std::to_string(plan.grid[2]) + ", " +
                 std::to_string(plan.block[0]) + " threads, " + std::to_string(plan.shared_bytes) +
                 " shared bytes: " + driver_result_text(context.driver, result),
             result);
}

}  // namespace

void enqueue_score(const lidx_context& context, const lidx_plan& plan, const lidx_score_args& args, CUstream stream) {
    if (args.struct_size != sizeof(lidx_score_args))
        fail(LIDX_ERR_STRUCT_SIZE, "lidx_score_args.struct_size = " + std::to_string(args.struct_size) +
                                       ": this version expects " + std::to_string(sizeof(lidx_score_args)) +
                                       "; call lidx_score_args_init");
    if (plan.empty()) return;
    check_args(plan, args);
    if ((*context.kernels)[plan.kernel_index()].function == nullptr)
        fail(LIDX_ERR_UNSUPPORTED, std::string("the plan's kernel ") + plan.kernel->symbol +
                                       " needs compute capability " + plan.kernel->capability_text +
                                       ", this context's device has " +
                                       capability_string(context.limits.compute_capability));
    const CurrentContext current(context);

    ScoreParams params = plan.params;
    params.q = static_cast<const uint8_t*>(args.q);
    params.q_scale = args.q_scale;
    params.k = static_cast<const uint8_t*>(args.k_base);
    params.k_scale = static_cast<const uint8_t*>(args.k_scale_base);
    params.block_table = args.block_table;
    params.context_lens = args.context_lens;
    params.cu_seqlens_q = args.cu_seqlens_q;
    params.scores = args.scores;
    params.check_word = plan.workspace_bytes != 0 ? static_cast<uint32_t*>(args.workspace) : nullptr;

    if (plan.kernel->operands == Operands::kTensorMaps) {
        CUtensorMap k_map = encode_k_map(context.driver, plan, args.k_base);
        CUtensorMap q_map = encode_q_map(context.driver, plan, args.q);
        void* kernel_params[] = {&k_map, &q_map, &params};
        launch(context, plan, kernel_params, stream);
    } else {
        void* kernel_params[] = {&params};
        launch(context, plan, kernel_params, stream);
    }
}

}  // namespace lidx

// SPDX-License-Identifier: Apache-2.0
#include "host/launch.h"

#include <cstdint>
#include <string>

#include "host/field_checks.h"
#include "host/operand_maps.h"
#include "host/rows.h"
#include "host/status.h"

namespace lidx {

void check_score_args(const lidx_plan& plan, const lidx_score_args& args, const Fields& name) {
    const ScoreParams& p = plan.params;
    require_pointer("q", args.q, 16);
    require_pointer("q_scale", args.q_scale, float_bytes(p.weight_type));
    require_if(p.weight2_stride != 0, "q_scale2", args.q_scale2, float_bytes(p.weight2_type),
               name("weight2_stride"), "= 0 (no second factor)");
    require_pointer("k_base", args.k_base, 16);
    require_pointer("k_scale_base", args.k_scale_base, 4);
    require_if(!plan.contiguous, "block_table", args.block_table, 4, name("page_size"), "= 0 (contiguous) has none");
    require_if(plan.scale_table, "scale_block_table", args.scale_block_table, 4,
               name("scale_block_table_stride"), "= 0 (the scales have no table of their own)");
    check_row_pointers(p.view, row_pointers(args), name);
    require_pointer("scores", args.scores, float_bytes(p.score_type));
    if (plan.workspace_bytes != 0)
        require_workspace(args.workspace, args.workspace_bytes, "the plan", plan.workspace_bytes);
}

void check_score_device(const lidx_plan& plan, const DeviceLimits& device) {
    if (!runs_on(*plan.kernel, device.compute_capability))
        fail(LIDX_ERR_UNSUPPORTED, std::string("the plan's kernel ") + plan.kernel->symbol +
                                       " needs compute capability " + plan.kernel->capability_text +
                                       ", this context's device has " + capability_string(device.compute_capability));
}

namespace {

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
    CUlaunchAttribute overlap = overlap_attribute();
    if (plan.pdl) {
        config.attrs = &overlap;
        config.numAttrs = 1;
    }
    launch_kernel(context, plan.kernel->symbol, (*context.kernels)[plan.kernel_index()].function, config,
                  kernel_params);
}

}  // namespace

void launch_kernel(const lidx_context& context, const char* symbol, CUfunction function, const CUlaunchConfig& config,
                   void** kernel_params) {
    const CUresult result = context.driver.cuLaunchKernelEx(&config, function, kernel_params, nullptr);
    if (result != CUDA_SUCCESS)
        fail(LIDX_ERR_DRIVER,
             std::string("cuLaunchKernelEx of ") + symbol + ", grid " + std::to_string(config.gridDimX) + " x " +
                 std::to_string(config.gridDimY) + " x " + std::to_string(config.gridDimZ) + ", " +
                 std::to_string(config.blockDimX) + " threads, " + std::to_string(config.sharedMemBytes) +
                 " shared bytes: " + driver_result_text(context.driver, result),
             result);
}

void enqueue_score(const lidx_context& context, const lidx_plan& plan, const lidx_score_args& args, CUstream stream) {
    require_struct_size(args, "lidx_score_args", "lidx_score_args_init");
    if (plan.empty()) return;
    check_score_args(plan, args);
    check_score_device(plan, context.limits);
    launch_score(context, plan, args, {0, plan.params.view.rows}, stream);
}

void launch_score(const lidx_context& context, const lidx_plan& plan, const lidx_score_args& args,
                  const RowWindow& window, CUstream stream) {
    const CurrentContext current(context);

    ScoreParams params = plan.params;
    set_row_pointers(params.view, row_pointers(args));
    params.q = static_cast<const uint8_t*>(args.q);
    params.q_scale = args.q_scale;
    params.q_scale2 = args.q_scale2;
    params.k = static_cast<const uint8_t*>(args.k_base);
    params.k_scale = static_cast<const uint8_t*>(args.k_scale_base);
    params.block_table = static_cast<const int32_t*>(args.block_table);
    params.scale_block_table =
        static_cast<const int32_t*>(plan.scale_table ? args.scale_block_table : args.block_table);
    params.view.first_row = window.first;
    params.view.end_row = window.end;
    params.scores = before_window(args.scores, window,
                                  params.score_stride * float_bytes(params.score_type));
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

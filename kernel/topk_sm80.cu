// SPDX-License-Identifier: Apache-2.0
// topk.cu for compute capabilities before 9.0: without griddepcontrol, with one CTA an SM.
#define LIDX_TOPK_SM80
#include "kernel/topk.cu"

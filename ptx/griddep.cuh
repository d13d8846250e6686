// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch (PTX ISA 9.7.13.13). Without the launch attribute both do nothing.
#pragma once
#include "ptx/types.h"

namespace lidx::ptx {

// griddepcontrol.action;  .action = { .launch_dependents, .wait }       PTX ISA 7.8, sm_90 (9.7.13.13)
// wait: until all grids that this one depends on are complete and what they wrote is visible.
LIDX_PTX void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// launch_dependents: the grids that depend on this one may be scheduled once all its CTAs have said so or are done.
LIDX_PTX void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace lidx::ptx

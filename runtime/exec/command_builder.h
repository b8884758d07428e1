// From a program's actions to what is issued for them.
#pragma once

#include "exec/command.h"
#include "exec/execution_context.h"
#include "memory/memory_plan.h"

namespace tessera::host {

/// The commands of `program`, in list order. With DebugOptions::check_memory they keep in `first_not_finite` the
/// position of the first action that wrote a value which is not finite. All arguments outlive the result.
/// [control-thread]
Commands build_commands(const Program& program, const MemoryPlan& memory, ExecutionContext& context,
                        std::atomic<size_t>& first_not_finite);

}  // namespace tessera::host

// Turns a program's actions into commands.
#pragma once

#include "exec/command.h"
#include "exec/execution_context.h"
#include "memory/memory_plan.h"

namespace tessera::host {

/// The commands of `program`, in list order. With DebugOptions::check_memory they set `first_not_finite` to the index
/// of the first action that wrote a value that is not finite. All arguments outlive the result. [control-thread]
Commands build_commands(const Program& program, const MemoryPlan& memory, ExecutionContext& context,
                        std::atomic<size_t>& first_not_finite);

}  // namespace tessera::host

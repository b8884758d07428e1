// Asks communicators for results that are known, before a run begins: with one that does nothing and says OK a run
// would go on over garbage.
#pragma once

#include <span>

#include "exec/execution_context.h"

namespace tessera::host {

/// One small sum over each communicator of these programs, on its own stream, all at once: to the bit of the canonical
/// tree where `is_canonical`; then the forms of collectives for which the programs use it. A collective of all members.
/// Throws INTERNAL, naming plugin and communicator, and what the collectives report; then all communicators are
/// aborted. [control-thread]
void test_communicators(ExecutionContext& context, std::span<const Program* const> programs, bool is_canonical,
                        int64_t timeout_ms);

}  // namespace tessera::host

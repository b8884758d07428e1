// Finds strategies that cannot be combined, from the layouts that they declare, before any of them edits a program.
#pragma once

#include <span>

#include "compile/edit/pass_runner.h"

namespace tessera::host {

/// Throws UsageError, naming both strategies and alternatives, when two axes of one kind (batch, layers, tensors) split
/// the same dim and role of a parameter. Axes of different kinds may: fsdp splits what pipeline or tensor leaves to a
/// rank.
void refuse_conflicts(const Mesh& mesh, const Layout& layout, std::span<const StrategyOnAxis> strategies);

}  // namespace tessera::host

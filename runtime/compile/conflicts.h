// Strategies that cannot be together, found in what they say of the layout, before any of them edits a program.
#pragma once

#include <span>

#include "compile/pass_runner.h"

namespace tessera::host {

/// Throws UsageError, naming both strategies and what goes instead, when two axes that split the same kind of thing
/// (batch, layers, tensors) both split the same roles of a parameter, or the same dim of it. Axes of different kinds
/// may: fsdp cuts what pipeline or tensor left to a rank.
void refuse_conflicts(const Mesh& mesh, const Layout& layout, std::span<const StrategyOnAxis> strategies);

}  // namespace tessera::host

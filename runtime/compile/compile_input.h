// The input of a compilation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/log.h"
#include "compile/edit/offload_runner.h"
#include "compile/edit/pass_runner.h"
#include "passes/build_program.h"
#include "passes/host_staging.h"
#include "program/collective.h"

namespace tessera::host {

/// Everything that a compilation depends on. Borrows, and must outlive the result.
struct CompileInput {
  const Model& model;
  const Mesh& mesh;
  StepConfig step_config;
  std::span<const StrategyOnAxis> strategies;  ///< of the axes with more than one rank, in the mesh's order
  DescribeOp describe_op;
  DescribeCollective describe_collective;
  uint64_t guard_bytes = 0;      ///< left free after every buffer (debug mode)
  StagedKinds staged = {};       ///< actions that work in the host's memory, with a device that has its own
  bool evaluates = false;        ///< compile a program for evaluation too
  Log log = Log(LogLevel::off);  ///< gets the progress of long planning
  std::span<const OffloadPolicy> policies = {};  ///< in the order in which they are asked
  OffloadLimits offload_limits = {};
  uint64_t chunk_bytes = 16 << 20;  ///< of float32 values, where a policy cuts homes
  bool trains = true;               ///< compile steps; false: `evaluates` is true
};

/// The order in which passes run: by role, then strategies that shard storage before those that replicate, then
/// innermost axis first.
std::vector<StrategyOnAxis> pass_order(std::span<const StrategyOnAxis> strategies);

}  // namespace tessera::host

// What the host does after the passes of strategies, of one rank: the later stages of the pipeline in compile.cc.
//
// A policy may choose its moves by the device memory that a rank may use, but all it can count is what is alive at
// once. Where the arena is larger than that memory, policies are asked again with device_bytes lowered by the
// excess.

#include "compile/finish.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/concat.h"
#include "passes/casts.h"
#include "passes/chunks.h"
#include "passes/dependencies.h"
#include "passes/finalize.h"
#include "passes/workspaces.h"
#include "passes/zero_pads.h"
#include "program/text_words.h"
#include "tessera/error.hpp"
#include "verify/verify_common.h"
#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

/// One mistake usually causes many diagnostics; report the first few.
constexpr size_t kDiagnosticsShown = 8;
/// How often policies are asked again when what they move does not fit.
constexpr int kMaxTighterPlans = 8;

void refuse(const Program& program, const Diagnostics& diagnostics) {
  if (diagnostics.empty()) return;
  std::string text = concat("the ", text_of(kPurposeNames, program.purpose, "purpose"), " program under ",
                            strategies_text(*program.mesh, program.strategies), " is wrong:");
  for (size_t i = 0; i < std::min(diagnostics.size(), kDiagnosticsShown); ++i)
    text += "\n  " + diagnostics[i];
  if (diagnostics.size() > kDiagnosticsShown)
    text += "\n  and " + std::to_string(diagnostics.size() - kDiagnosticsShown) + " more";
  throw Error(TSR_E_INTERNAL, text);  // a pass is to blame, not the flags
}

/// Policies are asked about steps; the other programs find persistent buffers where a step has left them.
void offload(Program& program, const CompileInput& input, std::vector<RestingBuffer>& resting) {
  if (input.policies.empty()) return;
  const auto ask = [&](uint32_t flag) {
    return std::ranges::any_of(input.policies,
                               [&](const OffloadPolicy& p) { return (p.interface->flags & flag) != 0; });
  };
  if (ask(TSR_OFFLOAD_CASTS_ANEW)) cast_anew(program);
  if (program.purpose != TSR_PURPOSE_STEP)
    return follow_resting_buffers(program, resting, input.offload_limits.device_memory_is_host);
  if (ask(TSR_OFFLOAD_CUTS_HOMES)) cut_homes(program, input.chunk_bytes);
  for (const OffloadPolicy& policy : input.policies)
    std::ranges::move(run_policy(program, policy, input.offload_limits), std::back_inserter(resting));
}

/// What the host does after the passes.
void finish_program(Program& program, const CompileInput& input, std::vector<RestingBuffer>& resting) {
  finalize_program(program);
  offload(program, input, resting);
  zero_pads(program);
  stage_through_host(program, input.staged);
  bind_workspaces(program, input.describe_collective);
  derive_dependencies(program);
  refuse(program, verify_form(program));
}

RankPrograms compile_checked(const CompileInput& input, LoweredPrograms lowered, Progress& progress) {
  for (const Program* program : lowered.all()) {
    DiagnosticList diagnostics;
    verify_pieces(*program, lowered.init, diagnostics);
    refuse(*program, diagnostics.take());
  }
  HomesFingerprint homes = fingerprint_of_homes(lowered.init);
  std::string places = fingerprint_of_places(lowered.all());
  RankPrograms result{
      std::move(lowered.model), std::move(lowered.init), std::move(lowered.steps), std::move(lowered.eval), {},
      std::move(homes),         std::move(places)};
  std::vector<RestingBuffer> resting;
  for (Program& step : result.steps)
    finish_program(step, input, resting);
  for (Program& step : result.steps)
    agree_on_resting_buffers(step, resting);
  finish_program(result.init, input, resting);
  if (result.eval) finish_program(*result.eval, input, resting);

  std::vector<Program*> programs{&result.init};
  for (Program& step : result.steps)
    programs.push_back(&step);
  if (result.eval) programs.push_back(&*result.eval);
  if (input.guard_bytes)
    for (Program* program : programs)
      order_live_ranges(*program);
  progress.phase("placing its buffers");
  result.memory = plan_memory(programs, kDeviceBudget, input.guard_bytes);
  progress.phase("checking its programs");
  for (size_t i = 0; i < programs.size(); ++i) {
    refuse(*programs[i], verify_waits(*programs[i], &result.memory[i]));
    refuse(*programs[i], verify_placement(*programs[i]));
  }
  return result;
}

/// What is alive at once in the program with the largest arena on the device.
uint64_t live_peak_bytes(const RankPrograms& programs) {
  const auto use = [](const MemoryPlan& plan) {
    const auto found = plan.use.find(TSR_MEMORY_DEVICE);
    return found == plan.use.end() ? MemoryUse() : found->second;
  };
  const MemoryUse largest = use(
      *std::ranges::max_element(programs.memory, {}, [&](const MemoryPlan& plan) { return use(plan).arena_bytes; }));
  return largest.persistent_bytes + largest.live_peak_bytes;
}

}  // namespace

RankPrograms finish_rank(const CompileInput& input, LoweredPrograms lowered, Progress& progress) {
  if (input.policies.empty()) return compile_checked(input, std::move(lowered), progress);
  RankPrograms smallest = compile_checked(input, lowered, progress);
  uint64_t arena = smallest.arena_bytes(TSR_MEMORY_DEVICE), live = live_peak_bytes(smallest);
  std::pair<uint64_t, uint64_t> last;
  CompileInput tighter = input;
  uint64_t& told = tighter.offload_limits.device_bytes;
  const uint64_t limit = told;
  for (int i = 0; i < kMaxTighterPlans && arena > limit && last != std::pair(arena, live); ++i) {
    last = {arena, live};
    told = std::min(told, live) - std::min({arena - limit, told, live});
    try {
      RankPrograms programs = compile_checked(tighter, lowered, progress);
      arena = programs.arena_bytes(TSR_MEMORY_DEVICE), live = live_peak_bytes(programs);
      if (arena < smallest.arena_bytes(TSR_MEMORY_DEVICE)) smallest = std::move(programs);
    } catch (const PolicyRefusal&) {
      break;  // it cannot do with less
    }
  }
  return smallest;
}

}  // namespace tessera::host

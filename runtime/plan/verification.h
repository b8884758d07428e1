// What the checks of a planned job have proved, or why it must not start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/job_plan.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// What verify_job finds, as one error that names the strategies; nothing when it finds nothing.
std::optional<Error> fault_of(const CompileInput& input, const JobPrograms& programs);

/// The ranks' programs do not fit one another or the model, or not into --device-memory; nothing when the job may
/// start. The last check before ranks are started, or before a started rank joins the others.
std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs);

/// Sums over all programs (init, step, eval).
struct VerificationSummary {
  int num_ranks = 1, num_classes = 1;
  std::vector<std::string> programs;
  uint64_t num_planned_actions = 0;  ///< of one rank of each class
  uint64_t num_actions = 0;          ///< of all ranks
  uint64_t num_collectives = 0;      ///< each counted once, however many ranks take part
  uint64_t num_messages = 0;
  uint64_t num_homes = 0;  ///< of all ranks
  uint64_t arena_bytes = 0;
  int largest_rank = 0;
};

/// The summary of a job in which compilation and verify_job found no fault.
VerificationSummary summarize_verification(const JobPlan& planned);
std::string verification_text(const VerificationSummary& summary);

}  // namespace tessera::host

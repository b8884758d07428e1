// A job with the programs of all its ranks: planned, and not started.
#pragma once

#include <optional>

#include "config/usage_error.h"
#include "job/job.h"
#include "plan/memory_report.h"
#include "plugins/host_services.h"

namespace tessera::host {

/// Plans, and turns what a strategy, a plugin or a check refuses of the flags into a UsageError.
template <class Plan>
auto as_usage(Plan&& plan) {
  try {
    return plan();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const tsr_status code = error.code();
    if (code != TSR_E_INVALID_ARGUMENT && code != TSR_E_UNSUPPORTED && code != TSR_E_NOT_FOUND) throw;
    throw UsageError(error.what(), code);
  }
}

/// Why a planned job must not start, if so: its ranks' programs do not fit one another, or --device-memory.
std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs);

/// A program of a rank and its report.
struct ReportedProgram {
  const Program* program = nullptr;
  MemoryReport memory;
};
/// Of the program with the largest arena; of equal ones the first step.
ReportedProgram largest_program(const RankPrograms& programs);

/// Owns what the programs borrow.
class JobPlan {
 public:
  /// Compiles one rank of each class; throws UsageError for what a pass or a check refuses.
  JobPlan(Job job, const Log& log);
  JobPlan(const JobPlan&) = delete;

  const Job& job() const { return job_; }
  const JobPrograms& programs() const { return programs_; }
  const Log& log() const { return input_.log; }
  /// The programs of that very rank, with its coordinates.
  RankPrograms compile(int rank) const { return compile_rank(input_, job_.mesh.coordinates(rank)); }
  /// What is wrong between the ranks.
  Diagnostics verify() const { return verify_job(input_, programs_); }
  /// Throws why it must not start, if so.
  void require_sound() const;

 private:
  Job job_;
  HostServices host_;
  JobStrategies strategies_;
  CompileInput input_;
  JobPrograms programs_;
};

/// The first rank of those with the largest arena of device memory.
int largest_rank(const JobPrograms& programs);

}  // namespace tessera::host

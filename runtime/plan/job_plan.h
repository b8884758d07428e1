// A job with the programs of all its ranks, which is not started.
#pragma once

#include "job/job.h"
#include "job/job_policies.h"
#include "plan/memory_report.h"
#include "plugins/host_services.h"

namespace tessera::host {

/// A program of a rank, and its memory.
struct ReportedProgram {
  const Program* program = nullptr;
  MemoryReport memory;
};
/// The program with the largest arena in a memory; the first step if that is one of several.
ReportedProgram largest_program(const RankPrograms& programs, uint32_t memory = TSR_MEMORY_DEVICE);

/// Owns what the programs borrow.
class JobPlan {
 public:
  /// Compiles one rank of each class; throws UsageError when a pass or a check refuses the job.
  JobPlan(Job job, const Log& log);
  JobPlan(const JobPlan&) = delete;

  const Job& job() const { return job_; }
  const JobPrograms& programs() const { return programs_; }
  const Log& log() const { return input_.log; }
  /// The programs of that rank itself, with its own coordinates.
  RankPrograms compile(int rank) const { return compile_rank(input_, job_.mesh.coordinates(rank)); }
  const CompileInput& input() const { return input_; }

 private:
  Job job_;
  HostServices host_;
  JobStrategies strategies_;
  JobPolicies policies_;
  CompileInput input_;
  JobPrograms programs_;
};

/// The first of the ranks with the largest arena in a memory.
int largest_rank(const JobPrograms& programs, uint32_t memory = TSR_MEMORY_DEVICE);

}  // namespace tessera::host

// A job with the programs of all its ranks: planned, and not started.
#pragma once

#include "plugins/host_services.h"
#include "program/memory_report.h"
#include "train/job.h"

namespace tessera {

/// A program of a rank and its report.
struct ReportedProgram {
  const Program* program = nullptr;
  MemoryReport memory;
};
/// Of the program with the largest arena; of equal ones the first step.
ReportedProgram largest_program(const RankPrograms& programs);

/// Owns what the programs borrow.
class PlannedJob {
 public:
  /// Compiles one rank of each class; throws what a pass or a check refuses.
  PlannedJob(Job job, const Log& log);
  PlannedJob(const PlannedJob&) = delete;

  const Job& job() const { return job_; }
  const JobPrograms& programs() const { return programs_; }
  const Log& log() const { return input_.log; }
  /// The programs of that very rank, with its coordinates.
  RankPrograms compile(int rank) const { return compile_rank(input_, job_.mesh.coordinates(rank)); }
  /// What is wrong between the ranks.
  Findings verify() const { return verify_job(input_, programs_); }

 private:
  Job job_;
  HostServices host_;
  JobStrategies strategies_;
  CompileInput input_;
  JobPrograms programs_;
};

/// The first rank of those with the largest arena of device memory.
int largest_rank(const JobPrograms& programs);

}  // namespace tessera

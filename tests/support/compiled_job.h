// The programs of a job, compiled from flags and checked, without running anything.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/job_policies.h"
#include "plugins/host_services.h"
#include "program/program_text.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;

class CompiledJob {
 public:
  /// Of `tessera train` with these flags. Throws what planning throws; diagnostics() says what does not fit together.
  CompiledJob(std::vector<std::string> flags, int num_ranks, const std::string& comm = "local")
      : log_(LogLevel::off),
        job_(make(std::move(flags), num_ranks, comm)),
        host_(log_),
        strategies_(job_, host_),
        policies_(job_, host_),
        programs_(compile_job(input())),
        diagnostics_(verify_job(input(), programs_)) {}

  const Job& job() const { return job_; }
  const RankPrograms& of(int rank) const { return programs_.of(rank); }
  const RankClasses& classes() const { return programs_.classes; }
  /// As the rank itself compiles them.
  RankPrograms compile(int rank) const { return compile_rank(input(), job_.mesh.coordinates(rank)); }
  const Program& step(int rank) const { return of(rank).steps.front(); }
  const Diagnostics& diagnostics() const { return diagnostics_; }
  const JobPrograms& programs() const { return programs_; }
  CompileInput input() const { return compile_input(job_, strategies_.all(), policies_.all()); }
  std::span<const StrategyOnAxis> strategies() const { return strategies_.all(); }
  const Log& log() const { return log_; }

 private:
  Job make(std::vector<std::string> flags, int num_ranks, const std::string& comm) {
    flags.insert(flags.end(), {"--comm=" + comm, "--plugin-dir=" + plugin_dir()});
    Job job = make_job(parse_flags(FlagSet::plan, flags), num_ranks, log_);
    job.evaluates = true;
    return job;
  }

  Log log_;
  Job job_;
  HostServices host_;
  JobStrategies strategies_;
  JobPolicies policies_;
  JobPrograms programs_;
  Diagnostics diagnostics_;
};

}  // namespace tessera::testing

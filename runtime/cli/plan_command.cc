#include <iostream>

#include "cli/commands.h"
#include "config/usage_error.h"
#include "plugins/host_services.h"
#include "program/text.h"
#include "train/job.h"
#include "train/report.h"

namespace tessera {

int plan_command(std::span<const std::string> arguments) {
  const ParsedFlags flags = parse_flags(FlagSet::plan, arguments);
  if (flags.help) {
    std::cout << flags_help(FlagSet::plan);
    return 0;
  }
  const Log log(parse_log_level(flags.config.log_level));
  const int num_ranks = std::max(1, requested_world(flags.config));
  if (flags.plan.rank >= num_ranks)
    throw UsageError("--rank " + std::to_string(flags.plan.rank) + " is outside a world of " +
                     std::to_string(num_ranks) + " ranks");
  const Job job = make_job(flags, num_ranks, log);
  const HostServices host(log);
  const JobStrategies strategies(job, host.table());
  const CompileInput input = compile_input(job, strategies.all());
  const JobPrograms programs = compile_job(input);
  const Findings findings = verify_job(input, programs);
  for (const std::string& finding : findings)
    std::cerr << "tessera: " << finding << '\n';
  if (!findings.empty()) return 1;

  const RankPrograms& shown = programs.of(flags.plan.rank);
  if (flags.plan.print_program)
    for (const Program* program : shown.all())
      std::cout << print_program(*program) << '\n';
  else
    std::cout << "rank " << flags.plan.rank << " of " << num_ranks << ", " << job.tokens_per_step()
              << " tokens a step\n\n"
              << memory_table(shown);
  return 0;
}

}  // namespace tessera

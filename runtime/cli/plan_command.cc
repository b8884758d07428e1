#include <iostream>

#include "cli/commands.h"
#include "config/usage_error.h"
#include "program/text.h"
#include "train/plan_report.h"

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
  const PlannedJob planned(make_job(flags, num_ranks, log), log);
  const Findings findings = planned.verify();
  for (const std::string& finding : findings)
    std::cerr << "tessera: " << finding << '\n';
  if (!findings.empty()) return 1;
  if (flags.plan.print_program) {
    const RankPrograms shown = planned.compile(std::max(0, flags.plan.rank));
    for (const Program* program : shown.all())
      std::cout << print_program(*program) << '\n';
    return 0;
  }
  const PlanReport report = plan_report(planned, flags.plan.rank);
  std::cout << (flags.plan.as_json ? plan_json(report) + "\n" : plan_text(report));
  if (!report.misfit) return 0;
  std::cerr << "tessera: " << misfit_text(*report.misfit) << '\n';
  return 1;
}

}  // namespace tessera

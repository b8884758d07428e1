// `tessera bench rates`: measures on this machine what a step of the job consists of, and writes it for `plan --rates`.

#include <iostream>

#include "base/log.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/flags_help_text.h"
#include "cli/outputs.h"
#include "config/usage_error.h"
#include "plan/job_plan.h"
#include "rates/measure.h"

namespace tessera::host {

int bench_command(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] != "rates")
    throw UsageError(arguments.empty() ? "tessera bench needs what to measure; give tessera bench rates"
                                       : "tessera bench measures rates, not '" + arguments[0] +
                                             "'; give tessera bench rates (see tessera bench rates --help)");
  const ParsedFlags flags = parse_flags(FlagSet::bench, arguments.subspan(1));
  if (flags.help) {
    std::cout << flags_help_text(flags);
    return 0;
  }
  const Log log(parse_log_level(flags.config.log_level));
  Job job = make_job(flags, std::max(1, requested_world(flags.config)), log);
  check_rates(job, flags.plan.rates);
  const JobPlan planned(std::move(job), log);
  const JobPrograms& programs = planned.programs();
  const Rates rates = measure_rates(planned.job(), programs.of(largest_rank(programs)), log);
  write_rates(planned.job(), flags.plan.rates, rates_json(rates));
  if (!is_standard_output(flags.plan.rates))
    std::cout << "wrote the rates of " << rates.ops.size() << " ops to " << flags.plan.rates << '\n';
  return 0;
}

}  // namespace tessera::host

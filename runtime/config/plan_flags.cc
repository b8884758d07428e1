// The flags of plan and bench that train does not have.

#include "config/plan_flags.h"

#include <boost/program_options.hpp>

#include "base/concat.h"
#include "base/output_file.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

namespace po = boost::program_options;

void add_rates_flag(po::options_description& group, std::vector<std::string>& names, std::string& rates,
                    const char* help) {
  const auto read = [&rates](const std::string& path) {
    if (path.empty()) throw UsageError("--rates is empty; give a file");
    rates = path;
  };
  group.add_options()("rates", po::value<std::string>()->value_name("FILE")->notifier(read), help);
  names.emplace_back("rates");
}

}  // namespace

void add_plan_flags(po::options_description& group, std::vector<std::string>& names, PlanFlags& plan) {
  const auto set_rank = [&plan](const char* flag, const std::string& text) {
    const int rank = static_cast<int>(parse_integer(flag, text, 0, (1 << 20) - 1));
    if (plan.rank >= 0 && plan.rank != rank)
      throw UsageError(concat("--print-program and --rank name two ranks, ", plan.rank, " and ", rank, "; give one"));
    plan.rank = rank;
  };
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  group.add_options()("print-program", text("[R]")->implicit_value("", "")->notifier([=, &plan](const std::string& r) {
    plan.print_program = true;
    if (!r.empty()) set_rank("print-program", r);
  }),
                      "print every action of the programs of rank R (default: --rank, else 0)");
  group.add_options()("json", po::bool_switch(&plan.as_json), "print one JSON object, with memory in bytes");
  group.add_options()("rank", text("R")->notifier([=](const std::string& r) { set_rank("rank", r); }),
                      "rank whose plan is shown (default: the one that needs most memory)");
  group.add_options()("verify", po::bool_switch(&plan.verify), "print what was verified of the programs of all ranks");
  group.add_options()("schedule", po::bool_switch(&plan.schedule),
                      "draw the pipeline: a row per stage, a column per slot of equal cost");
  group.add_options()("svg", text("FILE")->notifier([&plan](const std::string& path) {
    if (path.empty()) throw UsageError("--svg is empty; give a file to write");
    plan.svg = path;
  }),
                      "draw one step into this file: all streams of all ranks, and live memory");
  group.add_options()("trace", text("FILE")->notifier([&plan](const std::string& path) {
    if (path.empty()) throw UsageError("--trace is empty; give a file that tessera train --profile wrote");
    plan.trace = path;
  }),
                      "compare the step with this trace of a run: predicted and measured time by kind of action; --svg "
                      "draws both");
  names.insert(names.end(), {"print-program", "json", "rank", "verify", "schedule", "svg", "trace"});
  add_rates_flag(
      group, names, plan.rates,
      "predict the time of a step from these rates, which tessera bench rates wrote; also for --svg and --trace");
}

void add_bench_flags(po::options_description& group, std::vector<std::string>& names, PlanFlags& plan) {
  add_rates_flag(group, names, plan.rates, "write what was measured into this file");
}

void check_plan(const PlanFlags& plan) {
  if (is_standard_output(plan.svg) && (plan.verify || plan.schedule || !plan.trace.empty()))
    throw UsageError(
        "--svg - writes the drawing to standard output, where --verify, --schedule and --trace write too; give a file");
  const bool simulates = !plan.svg.empty() || !plan.trace.empty();
  const bool draws = plan.verify || plan.schedule || simulates;
  if (int{plan.print_program} + int{plan.as_json} + int{draws} > 1)
    throw UsageError(
        "--print-program, --json, and --verify, --schedule, --svg or --trace select different outputs; choose one (the "
        "last four may be combined)");
  if (!plan.rates.empty() && (plan.print_program || (draws && !simulates)))
    throw UsageError(
        "--rates changes the report, --svg and --trace; --print-program, --verify and --schedule print neither, so "
        "leave "
        "it out");
}

}  // namespace tessera::host

// The flags of plan and bench that train does not have.
// They fill a PlanFlags of their own, so that no setting of a run depends on what is printed about it: ranks do not
// compare them, and config.json does not hold them.

#include "config/plan_flags.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "base/output_file.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

// --print-program R is short for --print-program --rank R.
void set_rank(PlanFlags& plan, const char* flag, const std::string& text) {
  const int rank = static_cast<int>(parse_integer(flag, text, 0, (1 << 20) - 1));
  if (plan.rank >= 0 && plan.rank != rank)
    throw UsageError(concat("--print-program and --rank name two ranks, ", plan.rank, " and ", rank, "; give one"));
  plan.rank = rank;
}

PlanFlag boolean(std::string_view name, std::string_view help, bool PlanFlags::*field) {
  return {name, "", help, [=](PlanFlags& plan, const std::string& given) {
            if (!given.empty()) throw UsageError(concat("--", name, " takes no value; leave it out"));
            plan.*field = true;
          }};
}

PlanFlag file(std::string_view name, std::string_view help, std::string PlanFlags::*field) {
  return {name, "FILE", help, [=](PlanFlags& plan, const std::string& given) {
            if (given.empty()) throw UsageError(concat("--", name, " is empty; give a file"));
            require_no_tilde(concat("--", name), given);
            plan.*field = given;
          }};
}

std::vector<PlanFlag> flags_of_plan() {
  return {
      {"print-program", "[R]", "print every action of the programs of rank R (default: --rank, else 0)",
       [](PlanFlags& plan, const std::string& given) {
         plan.print_program = true;
         if (!given.empty()) set_rank(plan, "print-program", given);
       }},
      boolean("json", "print one JSON object, with memory in bytes", &PlanFlags::as_json),
      {"rank", "R", "rank whose plan is shown (default: the one that needs most memory)",
       [](PlanFlags& plan, const std::string& given) { set_rank(plan, "rank", given); }},
      boolean("verify", "print what was verified of the programs of all ranks", &PlanFlags::verify),
      boolean("schedule", "draw the pipeline: a row per stage, a column per slot of equal cost", &PlanFlags::schedule),
      file("svg", "draw one step to this file: all streams of all ranks, and live memory", &PlanFlags::svg),
      file("trace",
           "compare the step with this trace of a run: predicted and measured time by kind of action; --svg draws both",
           &PlanFlags::trace),
      {"rates", "FILE,...",
       "predict the step time from these rates, which tessera bench wrote; of several files the last one that has a "
       "rate counts; also for --svg and --trace",
       [](PlanFlags& plan, const std::string& given) {
         for (const std::string_view file : split(given, ',')) {
           if (file.empty())
             throw UsageError(concat("--rates '", given, "' has an empty part; give files with commas between them"));
           require_no_tilde("--rates", file);
         }
         plan.rates = given;
       }}};
}

}  // namespace

std::span<const PlanFlag> own_flags(FlagSet set) {
  // parse_flags keeps references into them.
  static const std::vector<PlanFlag> of_plan = flags_of_plan();
  static const std::vector<PlanFlag> of_bench = {
      file("rates", "write the measured rates to this file", &PlanFlags::rates)};
  if (set == FlagSet::plan) return of_plan;
  if (set == FlagSet::bench) return of_bench;
  return {};
}

void check_plan(const PlanFlags& plan) {
  if (is_standard_output(plan.svg) && (plan.verify || plan.schedule || !plan.trace.empty()))
    throw UsageError(
        "--svg - writes the drawing to standard output, where --verify, --schedule and --trace write too; give a file");
  // Only these have times that --rates can replace.
  const bool simulates = !plan.svg.empty() || !plan.trace.empty();
  const bool draws = plan.verify || plan.schedule || simulates;
  if (int{plan.print_program} + int{plan.as_json} + int{draws} > 1)
    throw UsageError(
        "--print-program, --json, and --verify, --schedule, --svg or --trace select different outputs; choose one (the "
        "last four may be combined)");
  if (plan.rank >= 0 && draws)
    throw UsageError(
        "--rank selects the rank of the report, --json and --print-program; --verify, --schedule, --svg and --trace "
        "are "
        "of all ranks, so leave it out");
  if (!plan.rates.empty() && (plan.print_program || (draws && !simulates)))
    throw UsageError(
        "--rates changes the report, --svg and --trace; --print-program, --verify and --schedule print none of these, "
        "so leave it out");
}

}  // namespace tessera::host

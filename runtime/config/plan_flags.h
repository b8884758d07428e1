// Flags of `tessera plan` and `tessera bench` beyond those of train.
#pragma once

#include <string>
#include <vector>

namespace boost::program_options {
class options_description;
}

namespace tessera::host {

/// Flags that only `tessera plan` has, and `tessera bench rates` the last of them.
struct PlanFlags {
  bool print_program = false;
  bool as_json = false;
  bool verify = false;    ///< print what was verified
  bool schedule = false;  ///< draw the pipeline as text
  std::string svg;        ///< file that the step of all ranks is drawn into; empty: none
  std::string trace;      ///< file of a trace that is compared with the plan; empty: none
  int rank = -1;          ///< the rank to show; -1: the one that needs most memory (for programs: rank 0)
  std::string rates;      ///< file of rates, read by plan and written by bench; empty: none
};

/// Adds them to a group of the help, and their names to the known ones; they are read into `plan`, which must outlive
/// the parsing.
void add_plan_flags(boost::program_options::options_description& group, std::vector<std::string>& names,
                    PlanFlags& plan);
void add_bench_flags(boost::program_options::options_description& group, std::vector<std::string>& names,
                     PlanFlags& plan);
/// Throws UsageError for flags that select different outputs.
void check_plan(const PlanFlags& plan);

}  // namespace tessera::host

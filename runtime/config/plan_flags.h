// Flags of `tessera plan` and `tessera bench` beyond those of train.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config/flag.h"

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

/// One of them, as a row of a table.
struct PlanFlag {
  std::string_view name;   ///< without dashes
  std::string_view value;  ///< what the help writes for the value; empty: a switch; in brackets: it may be left out
  std::string_view help;
  /// Reads `text`, which is empty when no value was given; throws UsageError.
  std::function<void(PlanFlags&, const std::string& text)> read;

  bool has_optional_value() const { return value.empty() || value.starts_with("["); }
};

/// The flags that the command has, in the order of its help; none for train and eval.
std::span<const PlanFlag> own_flags(FlagSet set);
/// Throws UsageError for flags that select different outputs.
void check_plan(const PlanFlags& plan);

}  // namespace tessera::host

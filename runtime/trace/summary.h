// Where the time of traced steps went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace tessera::host {

/// The actions of one kind; means per rank and step.
struct KindTime {
  std::string kind;
  Work work = Work::compute;
  double num_actions = 0, seconds = 0, num_bytes = 0, num_operations = 0;
  double waiting_seconds = 0;  ///< of `seconds`: in collectives and messages, until their last rank had arrived
};

/// One stream, by name over all ranks that have it; shares are fractions of the step time.
struct StreamTime {
  std::string stream;
  double busy_seconds = 0;  ///< mean of a rank and step
  double idle_share = 0;    ///< the same
  double least_idle_share = 0, most_idle_share = 0;
  int least_idle_rank = 0, most_idle_rank = 0;
};

/// Work besides compute: means per rank and step. Hidden time is when compute of the same rank also ran.
struct Overlap {
  double seconds = 0, hidden_seconds = 0;
  double exposed_seconds() const { return seconds - hidden_seconds; }
};

/// The parts of the critical path by kind of action; means of a step.
struct PathKind {
  std::string kind;
  double num_actions = 0, seconds = 0;
};

struct TraceSummary {
  int num_traced_ranks = 0;
  int64_t first_step = 0, last_step = 0;
  std::vector<double> step_seconds;  ///< ascending steps, each from the first begin of an action on any rank to the
                                     ///< last end
  std::vector<KindTime> kinds;       ///< most time first
  std::vector<StreamTime> streams;   ///< in the order of Trace::streams
  Overlap communication, copies;
  std::vector<PathKind> path;  ///< most time first
  double path_delay_seconds = 0;

  double mean_step_seconds() const;
};

/// Of a trace with at least one action. Pure.
TraceSummary summarize(const Trace& trace);

}  // namespace tessera::host

// The actions of a run or a plan, with their times: the contents of a trace file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// The resource that an action uses, to see what overlaps what.
enum class Work { compute, communication, copy };
inline constexpr std::string_view kWorkNames[] = {"compute", "communication", "copy"};
inline std::string_view to_string(Work work) {
  return kWorkNames[static_cast<size_t>(work)];
}

/// An action of one rank in one step.
struct TracedAction {
  int rank = 0;
  int64_t step = 0;     ///< from 1 on
  uint32_t action = 0;  ///< its index in the program, as `plan --print-program` numbers it
  uint32_t stream = 0;  ///< index in Trace::streams
  std::string name;     ///< "forward h.0.qkv"
  std::string kind;     ///< "forward"
  Work work = Work::compute;
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t num_bytes = 0;       ///< sent by a collective, else of all operands
  double num_operations = 0;    ///< of products and attention
  std::vector<uint32_t> after;  ///< actions of its rank and step that it waits for, beyond its stream's order
  std::vector<std::string> communications;  ///< actions of several ranks that share one wait for one another
};

struct Trace {
  std::string job;                   ///< "examples/char on dp=2 ddp"
  int num_ranks = 1;                 ///< of the job
  int64_t clock_error_ns = 0;        ///< maximum error between times of different hosts; 0: all ranks read one clock
  std::vector<std::string> streams;  ///< names, without repetition
  std::vector<TracedAction> actions;
};

}  // namespace tessera::host

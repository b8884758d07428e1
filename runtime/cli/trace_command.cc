// `tessera trace FILE`: where the time of the steps went that `tessera train --profile` recorded. It needs neither the
// flags nor the plugins of the run: the trace holds what waits for what (trace/trace.h).

#include <iostream>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "trace/read_trace.h"
#include "trace/summary_text.h"

namespace tessera::host {
namespace {

const CommandSyntax kSyntax = {"usage: tessera trace FILE",
                               "Prints where the time of the steps in FILE went, which tessera train --profile wrote: "
                               "the critical path, time by kind of action, idle time of each stream, and "
                               "communication hidden and exposed. "
                               "tessera plan --trace FILE, with the flags of the run, compares it with the plan.",
                               {},
                               1,
                               "tessera trace trace.json"};

}  // namespace

const CommandSyntax& trace_syntax() {
  return kSyntax;
}

int trace_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (line.wants_help()) {
    std::cout << help_of(kSyntax);
    return 0;
  }
  const Trace trace = read_trace(line.words()[0]);
  std::cout << summary_text(trace, summarize(trace));
  return 0;
}

}  // namespace tessera::host

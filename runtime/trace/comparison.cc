// A table of both times for what the step is made of:
//
//       ms of a rank and step           predicted     measured        ratio
//       step                               28.400       29.100         1.02
//         backward                         14.200       14.500         1.02
//         all_reduce                        3.100        3.200         1.03
//         waiting for other ranks                        0.900
//       communication, exposed              0.800        1.200         1.50
//       compute idle                        3.1 %        5.2 %
//
// A measured collective begins when its own rank has arrived, a simulated one when all have; so the measured wait has a
// row of its own. Traces of other programs are refused, by the actions of each kind: their number, bytes and
// operations.

#include "trace/comparison.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "trace/summary_text.h"

namespace tessera::host {
namespace {

constexpr double kMinSeconds = 1e-6;  // below this a ratio is meaningless

const KindTime* find(const TraceSummary& summary, const std::string& kind) {
  const auto found = std::ranges::find(summary.kinds, kind, &KindTime::kind);
  return found == summary.kinds.end() ? nullptr : &*found;
}

/// The wait in collectives and messages. A simulated one begins when all its ranks have arrived.
double waiting_of(const TraceSummary& summary) {
  double seconds = 0;
  for (const KindTime& kind : summary.kinds)
    seconds += kind.waiting_seconds;
  return seconds;
}

/// What the actions of a kind do, which depends on the program alone; means per rank and step.
struct Amount {
  const char* unit;
  double KindTime::*of;
};
constexpr Amount kAmounts[] = {
    {"actions", &KindTime::num_actions}, {"bytes", &KindTime::num_bytes}, {"operations", &KindTime::num_operations}};

double amount_in(const TraceSummary& summary, const std::string& kind, const Amount& amount) {
  const KindTime* const found = find(summary, kind);
  return found ? found->*amount.of : 0;
}

/// But for the rounding of a mean.
bool are_equal(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(1.0, std::max(a, b));
}

std::string row(const std::string& name, const std::string& predicted, const std::string& measured,
                const std::string& ratio) {
  return format("  %-28.60s %12s %12s %12s\n", name.c_str(), predicted.c_str(), measured.c_str(), ratio.c_str());
}

std::string times_row(const std::string& name, double predicted, double measured) {
  const std::string ratio = predicted >= kMinSeconds ? format("%.2f", measured / predicted) : std::string("-");
  return row(name, milliseconds(predicted), milliseconds(measured), ratio);
}

std::string amount_text(double value, const Amount& amount) {
  return format("%.0f %s", value, amount.unit);
}

}  // namespace

void check_same_program(const TraceSummary& predicted, const TraceSummary& measured, const std::string& where) {
  if (predicted.num_traced_ranks != measured.num_traced_ranks)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(where, " is of a run with ", measured.num_traced_ranks, " ranks, and the plan has ",
                       predicted.num_traced_ranks, "; give plan the flags of that run"));
  for (const TraceSummary* summary : {&predicted, &measured})
    for (const KindTime& kind : summary->kinds)
      for (const Amount& amount : kAmounts) {
        const double planned = amount_in(predicted, kind.kind, amount), traced = amount_in(measured, kind.kind, amount);
        if (are_equal(planned, traced)) continue;
        throw Error(TSR_E_INVALID_ARGUMENT,
                    concat(where, " is of another program: a rank has ", amount_text(traced, amount), " of ",
                           printable(kind.kind), " in a step, and in the plan ", amount_text(planned, amount),
                           "; give plan the flags of that run"));
      }
}

std::string comparison_text(const TraceSummary& predicted, const TraceSummary& measured) {
  std::string text = row("ms of a rank and step", "predicted", "measured", "ratio");
  text += times_row("step", predicted.mean_step_seconds(), measured.mean_step_seconds());
  for (const KindTime& kind : measured.kinds)
    if (const KindTime* const planned = find(predicted, kind.kind))
      text += times_row("  " + printable(kind.kind), planned->seconds, kind.seconds - kind.waiting_seconds);
  if (measured.communication.seconds > 0) {
    text += row("  waiting for other ranks", "", milliseconds(waiting_of(measured)), "");
    text += times_row("communication, hidden", predicted.communication.hidden_seconds,
                      measured.communication.hidden_seconds);
    text += times_row("communication, exposed", predicted.communication.exposed_seconds(),
                      measured.communication.exposed_seconds());
  }
  const auto idle = [](const TraceSummary& summary) {
    const auto compute = std::ranges::find(summary.streams, "compute", &StreamTime::stream);
    return compute == summary.streams.end() ? std::string("-") : format("%.1f %%", 100 * compute->idle_share);
  };
  return text + row("compute idle", idle(predicted), idle(measured), "");
}

}  // namespace tessera::host

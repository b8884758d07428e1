// The format is that of the "Trace Event Format" of Chrome: an object whose "traceEvents" are complete events (ph "X")
// with a begin and a duration, and metadata (ph "M") that names processes and threads. What this program needs to read
// a trace back is in "otherData" and in the args of each event.
//
//     {"otherData":{"tessera_trace":1,"job":"examples/char on dp=2 ddp","ranks":2,"clock_error_ns":0},
//     "displayTimeUnit":"ms","traceEvents":[
//     {"ph":"M","pid":0,"name":"process_name","args":{"name":"rank 0"}},
//     {"ph":"X","pid":0,"tid":1,"ts":12.500,"dur":3.250,"name":"forward h.0.qkv","cat":"compute","args":{...}}
//     ]}

#include "trace/write_trace.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/concat.h"
#include "trace/gzip.h"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr std::string_view kBegin = "{\"otherData\":{\"tessera_trace\":";

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Nanoseconds as microseconds, exactly.
std::string microseconds(int64_t ns) {
  const std::string digits = std::to_string(1000 + std::abs(ns) % 1000);
  return concat(ns < 0 ? "-" : "", std::abs(ns) / 1000, ".", digits.substr(1));
}

std::string named(int rank, const char* what, const json& args, int64_t thread = -1) {
  json event = {{"ph", "M"}, {"pid", rank}, {"name", what}, {"args", args}};
  if (thread >= 0) event["tid"] = thread;
  return dumped(event);
}

std::string event_of(const TracedAction& action, int64_t origin_ns) {
  json args = {{"step", action.step}, {"action", action.action}, {"kind", action.kind}, {"bytes", action.num_bytes}};
  if (action.num_operations > 0) args["operations"] = action.num_operations;
  if (!action.after.empty()) args["after"] = action.after;
  if (!action.communications.empty()) args["communications"] = action.communications;
  return concat("{\"ph\":\"X\",\"pid\":", action.rank, ",\"tid\":", action.stream,
                ",\"ts\":", microseconds(action.begin_ns - origin_ns),
                ",\"dur\":", microseconds(action.end_ns - action.begin_ns), ",\"name\":", dumped(action.name),
                ",\"cat\":\"", to_string(action.work), "\",\"args\":", dumped(args), "}");
}

}  // namespace

std::string trace_events(const Trace& trace, int64_t origin_ns) {
  if (trace.actions.empty()) return "";
  const int rank = trace.actions.front().rank;
  std::string text = concat(named(rank, "process_name", {{"name", concat("rank ", rank)}}), ",\n",
                            named(rank, "process_sort_index", {{"sort_index", rank}}));
  std::set<uint32_t> used;
  for (const TracedAction& action : trace.actions)
    used.insert(action.stream);
  for (const uint32_t stream : used)
    text += concat(",\n", named(rank, "thread_name", {{"name", trace.streams.at(stream)}}, stream), ",\n",
                   named(rank, "thread_sort_index", {{"sort_index", stream}}, stream));
  for (const TracedAction& action : trace.actions)
    text += ",\n" + event_of(action, origin_ns);
  return text;
}

std::string trace_file(const Trace& trace, std::span<const std::string> events_of_ranks) {
  std::string text =
      concat(kBegin, "1,\"job\":", dumped(trace.job), ",\"ranks\":", trace.num_ranks,
             ",\"clock_error_ns\":", trace.clock_error_ns, "},\n\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  bool is_first = true;
  for (const std::string& events : events_of_ranks) {
    if (events.empty()) continue;
    if (!is_first) text += ",\n";
    text += events;
    is_first = false;
  }
  return text + "\n]}\n";
}

bool begins_like_trace(std::string_view begin) {
  bool is_whole = false;
  return begin.starts_with(kBegin) || (is_gzip(begin) && gunzip(begin, kBegin.size(), is_whole) == kBegin);
}

}  // namespace tessera::host

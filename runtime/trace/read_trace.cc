// The file may come from anywhere, so every field is checked before it is used: what a summary relies on (begins before
// ends, dependencies on earlier actions) holds for everything that parse_trace returns.

#include "trace/read_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"
#include "trace/gzip.h"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 29;  // of text; a trace has about 300 for an action
constexpr int kMaxDepth = 8;
constexpr double kMaxMicroseconds = 1e12;  // eleven days
constexpr int64_t kMaxRanks = 1 << 20, kMaxSteps = int64_t{1} << 53, kMaxActions = 1 << 24;

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  Trace read(const json& file) {
    const auto other = file.find("otherData");
    if (other == file.end() || !other->is_object() || other->value("tessera_trace", json()) != 1)
      refuse("is not a trace that tessera train --profile wrote: it has no \"tessera_trace\": 1");
    trace_.job = text(*other, "job");
    trace_.num_ranks = static_cast<int>(integer(*other, "ranks", 1, kMaxRanks));
    trace_.clock_error_ns = integer(*other, "clock_error_ns", 0, kMaxSteps);
    const auto events = file.find("traceEvents");
    if (events == file.end() || !events->is_array()) refuse("has no array \"traceEvents\"");
    // Names of streams may come after the actions on them, so they are read first.
    for (const json& event : *events) {
      place_ = concat("event ", ++num_events_, " ");
      if (!event.is_object()) refuse("is not an object");
      if (event.value("name", json()) == "thread_name") name_stream(event);
    }
    num_events_ = 0;
    for (const json& event : *events) {
      place_ = concat("event ", ++num_events_, " ");
      const auto args = event.find("args");
      if (event.value("ph", json()) == "X" && args != event.end() && args->is_object() && args->contains("action"))
        trace_.actions.push_back(action_of(event, *args));
    }
    place_.clear();
    if (trace_.actions.empty()) refuse("has no action of a step");
    return std::move(trace_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where_, ": ", place_.empty() ? "it " : place_, what));
  }
  const json& field(const json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end()) refuse(concat("has no \"", name, "\""));
    return *found;
  }
  std::string text(const json& object, const char* name) const {
    const json& value = field(object, name);
    if (!value.is_string()) refuse(concat("has a \"", name, "\" that is not text"));
    return value.get<std::string>();
  }
  int64_t integer(const json& object, const char* name, int64_t min, int64_t max) const {
    return checked(field(object, name), name, min, max);
  }
  int64_t checked(const json& value, const char* name, int64_t min, int64_t max) const {
    const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(max);
    if (!value.is_number_integer() || is_large || value.get<int64_t>() < min || value.get<int64_t>() > max)
      refuse(concat("has a \"", name, "\" that is not an integer from ", min, " to ", max));
    return value.get<int64_t>();
  }
  double number(const json& object, const char* name, double max) const {
    const json& value = field(object, name);
    if (!value.is_number() || !(std::abs(value.get<double>()) <= max))
      refuse(concat("has a \"", name, "\" that is not a number up to ", max));
    return value.get<double>();
  }

  /// Ranks have numbers of their own for streams; streams of one name are one.
  void name_stream(const json& event) {
    const int64_t rank = integer(event, "pid", 0, kMaxRanks), thread = integer(event, "tid", 0, kMaxActions);
    const std::string name = text(field(event, "args"), "name");
    const auto known = std::ranges::find(trace_.streams, name);
    if (known == trace_.streams.end()) trace_.streams.push_back(name);
    const auto index = static_cast<uint32_t>(std::ranges::find(trace_.streams, name) - trace_.streams.begin());
    streams_[{rank, thread}] = index;
  }

  TracedAction action_of(const json& event, const json& args) const {
    TracedAction action;
    action.rank = static_cast<int>(integer(event, "pid", 0, trace_.num_ranks - 1));
    const auto stream = streams_.find({action.rank, integer(event, "tid", 0, kMaxActions)});
    if (stream == streams_.end()) refuse("is on a thread without a name");
    action.stream = stream->second;
    action.step = integer(args, "step", 1, kMaxSteps);
    action.action = static_cast<uint32_t>(integer(args, "action", 0, kMaxActions));
    action.name = text(event, "name");
    action.kind = text(args, "kind");
    action.work = work_of(text(event, "cat"));
    const double begin = number(event, "ts", kMaxMicroseconds), duration = number(event, "dur", kMaxMicroseconds);
    if (duration < 0) refuse("ends before it begins");
    action.begin_ns = std::llround(begin * 1e3);
    action.end_ns = action.begin_ns + std::llround(duration * 1e3);
    action.num_bytes = static_cast<uint64_t>(integer(args, "bytes", 0, kMaxSteps));
    if (args.contains("operations")) action.num_operations = std::max(0.0, number(args, "operations", 1e30));
    for (const json& before : list(args, "after"))
      action.after.push_back(static_cast<uint32_t>(checked(before, "after", 0, int64_t{action.action} - 1)));
    for (const json& communication : list(args, "communications")) {
      if (!communication.is_string()) refuse("has a \"communications\" that is not text");
      action.communications.push_back(communication.get<std::string>());
    }
    return action;
  }

  const json& list(const json& args, const char* name) const {
    static const json none = json::array();
    const auto found = args.find(name);
    if (found == args.end()) return none;
    if (!found->is_array()) refuse(concat("has an \"", name, "\" that is not an array"));
    return *found;
  }

  Work work_of(const std::string& name) const {
    const auto* const found = std::ranges::find(kWorkNames, name);
    if (found == std::end(kWorkNames)) refuse(concat("has the unknown category ", printable(name)));
    return static_cast<Work>(found - std::begin(kWorkNames));
  }

  const std::string where_;
  std::string place_;
  size_t num_events_ = 0;
  Trace trace_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> streams_;  // by process and thread
};

}  // namespace

Trace parse_trace(std::string_view bytes, const std::string& where) {
  std::string text;
  if (is_gzip(bytes)) {
    bool is_whole = false;
    text = gunzip(bytes, kMaxBytes, is_whole);
    if (!is_whole)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat(where, ": it is compressed, and truncated, damaged, or larger than ", human_bytes(kMaxBytes)));
    bytes = text;
  }
  return Reader(where).read(parse_strict_json(bytes, where, kMaxDepth));
}

Trace read_trace(const std::string& path, std::string_view flag) {
  return parse_trace(read_text_file(path, kMaxBytes, flag), path);
}

}  // namespace tessera::host

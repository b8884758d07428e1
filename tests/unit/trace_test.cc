// Traces: what is written is read back, hostile files are refused, and the summary of known actions is known.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include "support/expect_error.h"
#include "trace/comparison.h"
#include "trace/critical_path.h"
#include "trace/gzip.h"
#include "trace/intervals.h"
#include "trace/read_trace.h"
#include "trace/summary.h"
#include "trace/summary_text.h"
#include "trace/write_trace.h"

namespace tessera::testing {
using namespace host;
namespace {

using nlohmann::json;

constexpr int64_t kMs = 1'000'000;

/// Two ranks of ddp, times in ms. Rank 1 computes longer, so rank 0's all_reduce waits for it:
///
///     rank 0   compute  backward 0-4   forward 4-6          optimizer 9-10
///              comm                    all_reduce 4-8
///     rank 1   compute  backward 0-6                        optimizer 8-9
///              comm                        all_reduce 6-8
Trace two_ranks(int64_t step = 3, int64_t origin_ns = 0) {
  Trace trace{"toy on dp=2 ddp", 2, 1500, {"compute", "comm.dp.gradient"}, {}};
  const auto add = [&](int rank, uint32_t index, const char* kind, double begin, double end,
                       std::vector<uint32_t> after = {}) {
    TracedAction action;
    action.rank = rank;
    action.step = step;
    action.action = index;
    action.kind = kind;
    action.name = std::string(kind) + " h.0 \"of\" <it>";
    action.begin_ns = origin_ns + static_cast<int64_t>(begin * kMs);
    action.end_ns = origin_ns + static_cast<int64_t>(end * kMs);
    action.num_bytes = 1000;
    action.after = std::move(after);
    if (action.kind == "all_reduce") {
      action.work = Work::communication;
      action.stream = 1;
      action.communications = {"comm.dp.gradient dp of 0 #0"};
    } else if (action.kind != "optimizer") {
      action.num_operations = 2e6;
    }
    trace.actions.push_back(action);
  };
  add(0, 0, "backward", 0, 4);
  add(0, 1, "all_reduce", 4, 8, {0});
  add(0, 2, "forward", 4, 6);
  add(0, 3, "optimizer", 9, 10, {1});
  add(1, 0, "backward", 0, 6);
  add(1, 1, "all_reduce", 6, 8, {0});
  add(1, 3, "optimizer", 8, 9, {1});
  return trace;
}

std::string file_of(const Trace& trace) {
  Trace one = trace;
  std::vector<std::string> events;
  for (int rank = 0; rank < trace.num_ranks; ++rank) {
    one.actions.clear();
    for (const TracedAction& action : trace.actions)
      if (action.rank == rank) one.actions.push_back(action);
    events.push_back(trace_events(one, 0));
  }
  return trace_file(trace, events);
}

TEST(TraceFile, IsReadBack) {
  const Trace written = two_ranks(3, 12'345);
  for (const std::string& bytes : {file_of(written), gzip(file_of(written))}) {
    EXPECT_TRUE(begins_like_trace(bytes.substr(0, 512)));
    const Trace read = parse_trace(bytes, "it");
    EXPECT_EQ(read.job, written.job);
    EXPECT_EQ(read.num_ranks, 2);
    EXPECT_EQ(read.clock_error_ns, 1500);
    ASSERT_EQ(read.actions.size(), written.actions.size());
    for (size_t i = 0; i < read.actions.size(); ++i) {
      const TracedAction &a = read.actions[i], &b = written.actions[i];
      EXPECT_EQ(std::tie(a.rank, a.step, a.action, a.name, a.kind, a.work, a.begin_ns, a.end_ns, a.num_bytes,
                         a.num_operations, a.after, a.communications),
                std::tie(b.rank, b.step, b.action, b.name, b.kind, b.work, b.begin_ns, b.end_ns, b.num_bytes,
                         b.num_operations, b.after, b.communications));
      EXPECT_EQ(read.streams[a.stream], written.streams[b.stream]);
    }
  }
}

// What Chrome's format asks for, read with a parser of its own.
TEST(TraceFile, HasTheFieldsOfTraceEvents) {
  const json file = json::parse(file_of(two_ranks()));
  EXPECT_EQ(file["displayTimeUnit"], "ms");
  std::set<std::pair<int, int>> named, used;
  std::set<int> processes;
  for (const json& event : file["traceEvents"]) {
    ASSERT_TRUE(event["ph"] == "M" || event["ph"] == "X") << event;
    EXPECT_TRUE(event["pid"].is_number_integer() && event["name"].is_string() && event["args"].is_object()) << event;
    if (event["name"] == "process_name") processes.insert(event["pid"].get<int>());
    if (event["name"] == "thread_name") named.emplace(event["pid"].get<int>(), event["tid"].get<int>());
    if (event["ph"] != "X") continue;
    used.emplace(event["pid"].get<int>(), event["tid"].get<int>());
    EXPECT_TRUE(event["ts"].is_number() && event["dur"].is_number() && event["cat"].is_string()) << event;
    EXPECT_GE(event["dur"], 0);
  }
  EXPECT_EQ(named, used);
  EXPECT_EQ(processes, (std::set<int>{0, 1}));
}

TEST(TraceFile, TruncatedFilesAreRefused) {
  const std::string plain = file_of(two_ranks()), packed = gzip(plain);
  for (const std::string& whole : {plain, packed})
    for (const size_t num_bytes : {size_t{0}, size_t{1}, size_t{40}, whole.size() / 2, whole.size() - 3})
      expect_error([&] { parse_trace(whole.substr(0, num_bytes), "it"); }, {"it"});
  std::string damaged = packed;
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  expect_error([&] { parse_trace(damaged, "it"); }, {"it"});
  expect_error([&] { parse_trace(packed + "more", "it"); }, {"truncated"});
}

/// More than zlib is given at a time.
TEST(TraceFile, IsCompressedInPieces) {
  std::mt19937 random(1);
  std::string text;
  for (const size_t num_bytes : {0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 20) / 2}) {
    while (text.size() < num_bytes)
      text += static_cast<char>(random() >> 24);
    bool is_whole = false;
    EXPECT_TRUE(gunzip(gzip(text), num_bytes + 1, is_whole) == text) << num_bytes;
    EXPECT_TRUE(is_whole) << num_bytes;
  }
}

/// As `cat a.gz b.gz` and tools that compress in parallel make it.
TEST(TraceFile, MayHaveSeveralCompressedMembers) {
  const std::string text = file_of(two_ranks());
  const size_t half = text.size() / 2;
  const std::string packed = gzip(text.substr(0, half)) + gzip("") + gzip(text.substr(half));
  EXPECT_EQ(parse_trace(packed, "it").actions.size(), parse_trace(text, "it").actions.size());
  expect_error([&] { parse_trace(packed.substr(0, packed.size() - 1), "it"); }, {"truncated"});
  bool is_whole = true;
  EXPECT_EQ(gunzip(packed, half + 1, is_whole).size(), half + 1);
  EXPECT_FALSE(is_whole);
}

/// The file with one field of its first action changed.
std::string changed(const std::function<void(json&)>& change) {
  json file = json::parse(file_of(two_ranks()));
  for (json& event : file["traceEvents"])
    if (event["ph"] == "X") {
      change(event);
      break;
    }
  return file.dump();
}

TEST(TraceFile, HostileFieldsAreRefused) {
  const std::vector<std::pair<std::function<void(json&)>, const char*>> kChanges = {
      {[](json& e) { e["pid"] = 2; }, "\"pid\" that is not an integer from 0 to 1"},
      {[](json& e) { e["pid"] = -1; }, "\"pid\""},
      {[](json& e) { e["tid"] = 77; }, "thread without a name"},
      {[](json& e) { e["ts"] = "0"; }, "\"ts\" that is not a number"},
      {[](json& e) { e["ts"] = 1e300; }, "\"ts\" that is not a number"},
      {[](json& e) { e["dur"] = -1; }, "ends before it begins"},
      {[](json& e) { e.erase("dur"); }, "has no \"dur\""},
      {[](json& e) { e["cat"] = "magic"; }, "unknown category magic"},
      {[](json& e) { e["args"]["step"] = 0; }, "\"step\""},
      {[](json& e) { e["args"]["action"] = 18446744073709551615u; }, "\"action\""},
      {[](json& e) { e["args"]["after"] = {0}; }, "\"after\""},
      {[](json& e) { e["args"]["after"] = 5; }, "not an array"},
      {[](json& e) { e["args"]["communications"] = {1}; }, "\"communications\""},
      {[](json& e) { e["args"]["kind"] = json::object(); }, "\"kind\" that is not text"},
      {[](json& e) { e["name"] = 7; }, "\"name\" that is not text"},
  };
  for (const auto& [change, words] : kChanges) {
    const std::string text = changed(change);  // clang 14 takes no structured binding into a lambda
    expect_error([&] { parse_trace(text, "it"); }, {words});
  }
  for (const char* other : {"{}", "[]", R"({"traceEvents":[]})", R"({"otherData":{"tessera_trace":2}})",
                            R"({"otherData":5,"traceEvents":[]})"})
    expect_error([&] { parse_trace(other, "it"); }, {"it"});
}

TEST(Intervals, JoinAndMeet) {
  const auto spans = joined({{5, 7}, {0, 2}, {1, 3}, {7, 8}});
  EXPECT_EQ(total_ns(spans), 3 + 3);
  EXPECT_EQ(common_ns(spans, joined({{2, 6}, {7, 20}})), 1 + 1 + 1);
  EXPECT_EQ(common_ns(spans, {}), 0);
}

TEST(CriticalPath, GoesThroughTheRankThatComesLast) {
  const Trace trace = two_ranks();
  std::vector<const TracedAction*> actions;
  for (const TracedAction& action : trace.actions)
    actions.push_back(&action);
  std::vector<std::tuple<int, std::string, int64_t, int64_t, int64_t>> found;
  for (const PathPart& part : critical_path(actions))
    found.emplace_back(part.action->rank, part.action->kind, part.begin_ns / kMs, part.end_ns / kMs,
                       part.delay_ns / kMs);
  const std::vector<std::tuple<int, std::string, int64_t, int64_t, int64_t>> expected = {
      {1, "backward", 0, 6, 0}, {0, "all_reduce", 6, 8, 0}, {0, "optimizer", 9, 10, 1}};
  EXPECT_EQ(found, expected);
}

// Ranks that contradict one another: all meet, and none came last. The walk ends.
TEST(CriticalPath, EndsForAnyActions) {
  Trace trace = two_ranks();
  for (TracedAction& action : trace.actions) {
    action.communications = {"all of them"};
    action.begin_ns = 5;
    action.end_ns = 5;
  }
  std::vector<const TracedAction*> actions;
  for (const TracedAction& action : trace.actions)
    actions.push_back(&action);
  EXPECT_LE(critical_path(actions).size(), trace.actions.size());
  EXPECT_TRUE(critical_path({}).empty());
}

TEST(TraceSummary, CountsWhatWasHiddenAndWhatIdled) {
  const TraceSummary summary = summarize(two_ranks());
  EXPECT_EQ(summary.num_traced_ranks, 2);
  EXPECT_NEAR(summary.mean_step_seconds(), 10e-3, 1e-12);
  // Of 4 ms on rank 0 two were beside the forward; rank 1 computed nothing beside its 2 ms.
  EXPECT_NEAR(summary.communication.seconds, 3e-3, 1e-12);
  EXPECT_NEAR(summary.communication.hidden_seconds, 1e-3, 1e-12);
  EXPECT_NEAR(summary.communication.exposed_seconds(), 2e-3, 1e-12);
  EXPECT_EQ(summary.kinds.front().kind, "backward");
  const KindTime& all_reduce = summary.kinds[1];
  EXPECT_EQ(all_reduce.kind, "all_reduce");
  EXPECT_NEAR(all_reduce.seconds, 3e-3, 1e-12);
  EXPECT_NEAR(all_reduce.waiting_seconds, 1e-3, 1e-12);  // rank 0 for 2 ms, rank 1 not at all
  EXPECT_NEAR(summary.kinds.front().seconds, 5e-3, 1e-12);
  const StreamTime& compute = summary.streams.front();
  EXPECT_EQ(compute.stream, "compute");
  EXPECT_NEAR(compute.idle_share, 0.3, 1e-9);  // both computed for 7 of 10 ms
  EXPECT_NEAR(summary.path_delay_seconds, 1e-3, 1e-12);
  double path = summary.path_delay_seconds;
  for (const PathKind& kind : summary.path)
    path += kind.seconds;
  EXPECT_NEAR(path, summary.mean_step_seconds(), 1e-12);
}

TEST(TraceSummary, AveragesOverSteps) {
  Trace trace = two_ranks(3);
  const Trace later = two_ranks(4, 50 * kMs);
  trace.actions.insert(trace.actions.end(), later.actions.begin(), later.actions.end());
  const TraceSummary one = summarize(two_ranks()), both = summarize(trace);
  EXPECT_EQ(both.step_seconds.size(), 2u);
  EXPECT_NEAR(both.communication.hidden_seconds, one.communication.hidden_seconds, 1e-12);
  EXPECT_NEAR(both.kinds.front().seconds, one.kinds.front().seconds, 1e-12);
  EXPECT_NEAR(both.streams.front().idle_share, one.streams.front().idle_share, 1e-9);
  const std::string text = summary_text(trace, both);
  for (const char* part :
       {"toy on dp=2 ddp; steps 3 to 4; 2 ranks", "a step takes 10.000 ms", "within 1.5 us", "critical path of a step",
        "comm.dp.gradient", "1.000 ms hidden by compute, 2.000 ms exposed"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

TEST(TraceComparison, IsOfTheSameProgramOnly) {
  const TraceSummary measured = summarize(two_ranks());
  Trace planned = two_ranks(1);
  for (TracedAction& action : planned.actions)
    action.end_ns = action.begin_ns + (action.end_ns - action.begin_ns) / 2;
  const TraceSummary predicted = summarize(planned);
  check_same_program(predicted, measured, "it");
  const std::string text = comparison_text(predicted, measured);
  EXPECT_TRUE(std::regex_search(text, std::regex(R"(backward +2\.500 +5\.000 +2\.00\n)"))) << text;
  for (const auto& change : std::vector<std::function<void(TracedAction&)>>{
           [](TracedAction& action) { action.num_bytes = 2 * action.num_bytes + 10; },
           [](TracedAction& action) { action.num_operations = 2 * action.num_operations + 10; }}) {
    Trace other = planned;
    change(other.actions.front());
    expect_error([&] { check_same_program(summarize(other), measured, "it"); }, {"of another program"});
  }
  planned.actions.back().kind = "forward";
  expect_error([&] { check_same_program(summarize(planned), measured, "it"); }, {"of another program"});
  std::erase_if(planned.actions, [](const TracedAction& action) { return action.rank == 1; });
  expect_error([&] { check_same_program(summarize(planned), measured, "it"); }, {"2 ranks, and the plan has 1"});
}

}  // namespace
}  // namespace tessera::testing

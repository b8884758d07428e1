// When one rank fails, all others fail because of it within moments, each with its own error. The block at the end must
// name the one failure that caused the others (decision 0026). Errors carry the rank that they are about, so a rank
// that many others blame and that says nothing itself is found as well:
//
//     rank 0: timed out waiting for rank 2     about 2: an echo
//     rank 1: timed out waiting for rank 2     about 2: an echo
//     rank 2: (killed by signal 9)             the cause
//
// Reports travel through the job's store as JSON, one key per rank, with a number that orders them.

#include "launch/failure.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using How = RankEnd::How;

constexpr size_t kMaxLines = 8;        // for ranks that only reported
constexpr size_t kLongestText = 4000;  // of a sentence
// torchrun polls its processes every 0.1 s, and its times are whole seconds.
constexpr std::time_t kEchoSeconds = 3;

std::string key_of(int rank) {
  return concat("failure/", rank);
}

std::string pack(const Failure& f, int64_t order) {
  const nlohmann::json packed = {{"rank", f.who.rank}, {"pid", f.who.pid},         {"host", f.who.host},
                                 {"code", f.code},     {"about", f.about},         {"step", f.step},
                                 {"order", order},     {"exit_code", f.exit_code}, {"sentence", f.sentence}};
  return packed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void unpack(const std::string& packed, RankEnd& end) {
  const auto from = nlohmann::json::parse(packed);
  Failure f;
  f.who = {from.at("rank"), from.at("pid"), from.at("host")};
  f.code = from.at("code");
  f.about = from.at("about");
  f.step = from.at("step");
  f.exit_code = from.at("exit_code") == 2 ? 2 : 1;  // whatever else wrote here, a failure is none of success
  f.sentence = from.at("sentence");
  end.failure_order = from.at("order");
  end.who = f.who;
  end.failure = std::move(f);
}

/// By rank: how many other ranks blame it.
std::map<int, int> count_blame(std::span<const RankEnd> ends) {
  std::map<int, int> blame;
  for (const RankEnd& end : ends)
    if (end.failure && end.failure->is_echo() && end.failure->about != end.who.rank) ++blame[end.failure->about];
  return blame;
}

/// The rank was told to end and knows no reason of its own.
bool is_told(const Failure& failure) {
  return failure.code == TSR_E_ABORTED || failure.code == TSR_E_CANCELLED;
}
/// Died without a report. (A rank that reported why it ends may leave its connections and threads as they are.)
bool is_dead(const RankEnd& end) {
  return !end.failure && ((end.how == How::killed && !end.was_ended) || end.how == How::lost);
}
bool failed_itself(const RankEnd& end) {
  return end.failure && !end.failure->is_echo();
}
bool has_told(const RankEnd& end) {
  return end.failure.has_value();
}
bool ended_wordless(const RankEnd& end) {
  return end.how == How::exited && !end.was_ended && !end.failure;
}

/// The index of the first, by `less`, of the `wanted` ends; -1: there is none.
template <class Wanted, class Less>
int first_of(std::span<const RankEnd> ends, Wanted wanted, Less less) {
  int first = -1;
  for (size_t i = 0; i < ends.size(); ++i)
    if (wanted(ends[i]) && (first < 0 || less(ends[i], ends[static_cast<size_t>(first)]))) first = static_cast<int>(i);
  return first;
}

int64_t last_step(std::span<const RankEnd> ends) {
  int64_t step = 0;
  for (const RankEnd& end : ends)
    if (end.failure) step = std::max(step, end.failure->step);
  return step;
}

// So that "[gloo] dp rank 0: no memory" and "[gloo] dp rank 1: no memory" count as the same.
std::string without_own_rank(const RankEnd& end) {
  std::string text = end.failure->sentence;
  const std::string name = concat(" rank ", end.who.rank, ": ");
  if (const size_t at = text.find(name); at != text.npos) text.erase(at, name.size());
  return text;
}

bool says_the_same(const RankEnd& a, const RankEnd& b) {
  return a.failure->sentence == b.failure->sentence || without_own_rank(a) == without_own_rank(b);
}

}  // namespace

std::string rank_name(const Participant& who) {
  return who.pid ? concat("rank ", who.rank, " (", to_string(who), ")") : concat("rank ", who.rank);
}

bool Failure::is_echo() const {
  return (about >= 0 && about != who.rank) || is_told(*this);
}

Failure make_failure(const std::exception& error, int rank, int64_t step) {
  Failure failure;
  failure.who = this_process(rank);
  failure.step = step;
  failure.sentence = sentence_of(error).substr(0, kLongestText);
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    failure.code = ours->code();
    failure.about = ours->rank();
  } else if (dynamic_cast<const std::bad_alloc*>(&error)) {
    failure.code = TSR_E_RESOURCE_EXHAUSTED;
  }
  if (dynamic_cast<const UsageError*>(&error)) failure.exit_code = 2;
  return failure;
}

void report_failure(KeyValueStore& store, const Failure& failure) {
  // The report before the close: when the others learn that the job is over, why is in the store already.
  store.set(key_of(failure.who.rank), pack(failure, store.add("failure/order", 1)));
  store.close(concat(rank_name(failure.who), " failed: ", failure.sentence));
}

void read_failures(KeyValueStore& store, std::vector<RankEnd>& ends) {
  for (RankEnd& end : ends) {
    if (end.failure) continue;
    try {
      unpack(store.get(key_of(end.who.rank), 0), end);
    } catch (const Error&) {  // it reported nothing
    } catch (const nlohmann::json::exception&) {
    }
  }
}

int first_cause(std::span<const RankEnd> ends) {
  const auto blame = count_blame(ends);
  const auto blamed = [&](const RankEnd& end) {
    const auto found = blame.find(end.who.rank);
    return found == blame.end() ? 0 : found->second;
  };
  const auto is_missed = [&](const RankEnd& end) { return blamed(end) > 0 && !end.failure; };
  const auto noticed = [](const RankEnd& a, const RankEnd& b) { return a.order < b.order; };
  const auto told = [](const RankEnd& a, const RankEnd& b) { return a.failure_order < b.failure_order; };
  const auto more_blamed = [&](const RankEnd& a, const RankEnd& b) {
    return a.was_stopped != b.was_stopped ? a.was_stopped : blamed(a) > blamed(b);
  };
  if (const int dead = first_of(ends, is_dead, noticed); dead >= 0) return dead;
  if (const int guilty = first_of(ends, failed_itself, told); guilty >= 0) return guilty;
  const auto is_missed_and_stopped = [&](const RankEnd& end) { return end.was_stopped && is_missed(end); };
  if (const int stopped = first_of(ends, is_missed_and_stopped, more_blamed); stopped >= 0) return stopped;
  if (const int mute = first_of(ends, ended_wordless, noticed); mute >= 0) return mute;
  if (const int missed = first_of(ends, is_missed, more_blamed); missed >= 0) return missed;
  if (const int first = first_of(ends, has_told, told); first >= 0) return first;
  return first_of(
      ends, [](const RankEnd& end) { return end.was_ended; }, more_blamed);
}

int exit_code_of(const RankEnd& cause) {
  if (cause.failure) return cause.failure->exit_code;
  return cause.how == How::exited && cause.value != 0 && !cause.was_ended ? cause.value : 1;
}

std::string cause_text(const RankEnd& end) {
  if (is_dead(end) && end.how == How::lost) return "ended without an error: its process died or was cut off";
  if (is_dead(end))
    return concat(
        "killed by signal ", end.value, " (", ::strsignal(end.value), ")",
        end.value == SIGKILL ? "; unless a user sent it, the system may have run out of memory: see dmesg" : "");
  if (end.failure) return end.failure->sentence;
  const bool exited_with_zero = end.how == How::exited && end.value == 0;
  if (end.how == How::finished || exited_with_zero) return "ended with exit code 0 before the job was done";
  if (end.how == How::exited && !end.was_ended) return concat("ended with exit code ", end.value, " without an error");
  if (end.was_stopped) return "did not answer: its process was stopped (SIGSTOP, or a debugger)";
  return end.was_ended ? "did not answer, although its process was running"
                       : "did not answer: it never started, or was stopped or cut off; see its own log";
}

std::string failure_block(std::span<const RankEnd> ends, bool has_steps) {
  const RankEnd& cause = ends[static_cast<size_t>(first_cause(ends))];
  const int64_t step = last_step(ends);
  const bool is_known =
      !has_steps || step > 0 || std::ranges::any_of(ends, [](const RankEnd& end) { return end.failure.has_value(); });
  std::string text = concat("the job failed",
                            step > 0                ? concat(" after step ", step)
                            : is_known && has_steps ? " before step 1 was done"
                                                    : "",
                            "\n  cause:        ", rank_name(cause.who), ": ", cause_text(cause));
  std::vector<int> died, same, more, told, ended;
  size_t num_lines = 0;
  for (const RankEnd& end : ends) {
    if (end.who.rank == cause.who.rank) continue;
    if (is_dead(end))
      died.push_back(end.who.rank);
    else if (!end.failure && end.was_ended)
      ended.push_back(end.who.rank);
    else if (!end.failure)
      continue;
    else if (cause.failure && says_the_same(end, cause))
      same.push_back(end.who.rank);
    else if (is_told(*end.failure))
      told.push_back(end.who.rank);
    else if (num_lines++ < kMaxLines)
      text += concat("\n  reported by:  ", rank_name(end.who), ": ", end.failure->sentence);
    else
      more.push_back(end.who.rank);
  }
  const auto add = [&text](const char* what, const std::vector<int>& ranks) {
    if (!ranks.empty()) text += what + ranks_text(ranks);
  };
  add("\n  reported by:  ", more);
  add("\n  died too:     ", died);
  add("\n  the same on:  ", same);
  add("\n  ended when told to: ", told);
  add("\n  ended by the launcher: ", ended);
  return text;
}

void write_torchelastic_error(const Failure& failure) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  const std::time_t time = std::time(nullptr) + (failure.is_echo() ? kEchoSeconds : 0);
  const nlohmann::json error = {
      {"message",
       {{"message", failure.sentence},
        {"errorCode", failure.exit_code},
        {"extraInfo", {{"py_callstack", rank_name(failure.who)}, {"timestamp", std::to_string(time)}}}}}};
  // All at once: another thread may end the process meanwhile, or write its own.
  const std::string draft = concat(path, ".", ::gettid());
  std::ofstream(draft) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::rename(draft.c_str(), path);
}

}  // namespace tessera::host

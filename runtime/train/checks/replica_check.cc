// The verifier proves which results are the same on all ranks of an axis. This check shows whether the machines really
// compute them so: it finds a processor, kernel or transport that flips a bit on one rank, and a plugin whose
// arithmetic differs by rank. In a checked step each rank takes the crc32c of every such result, after its action:
//
//     rank r      sets replicas/<r> to one line for each: key (a hash of action, buffer and range), checksum
//     all         meet
//     rank r      if it is the first of an axis, reads the lines of all of them, and answers with the first difference
//     all         throw the lowest answer, which begins with the position of its action, if there is one
//
// A key overwrites that of the previous comparison, so the store does not grow: a rank sets it after all have read the
// old one. Programs of an axis that splits the layers write different things on each rank; what they share, such as a
// tied embedding, has equal keys.

#include "train/checks/replica_check.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/concat.h"
#include "base/sha256.h"
#include "tessera/error.hpp"
#include "train/consistency.h"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

constexpr size_t kHashChars = 16, kSumChars = 8, kLineChars = kHashChars + kSumChars, kPositionChars = 10;

std::string store_key(int rank) {
  return concat("replicas/", rank);
}

using Sums = std::map<std::string_view, std::string_view>;  // by key

Sums sums_in(std::string_view lines) {
  Sums sums;
  for (; lines.size() >= kLineChars; lines.remove_prefix(kLineChars))
    sums[lines.substr(0, kHashChars)] = lines.substr(kHashChars, kSumChars);
  return sums;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Job& job, const RankInfo& info, RankRuntime& runtime)
    : job_(job), info_(info), every_(job.config.debug_replicas) {
  if (every_ == 0) return;
  const std::vector<Program>& steps = runtime.programs().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    Variant made{&steps[i], &runtime.step_executable(i), {}, {}};
    made.writes = replicated_writes(steps[i]);
    std::vector<Write> writes;
    for (const ReplicatedWrite& write : made.writes) {
      writes.push_back({write.action, write.range});
      made.keys.push_back(sha256_hex(write.key).substr(0, kHashChars));
    }
    const bool is_new = std::none_of(variants_.begin(), variants_.end(),
                                     [&](const Variant& other) { return other.executable == made.executable; });
    if (is_new) made.executable->sum_writes(writes);
    variants_.push_back(std::move(made));
  }
}

void ReplicaCheck::before_step(int64_t step) {
  if (every_ > 0) variant(step).executable->set_takes_sums(is_due(step));
}

void ReplicaCheck::after_step(int64_t step) {
  if (!is_due(step)) return;
  const Variant& own = variant(step);
  const std::vector<uint32_t> sums = own.executable->write_sums();
  std::string lines;
  for (size_t i = 0; i < sums.size(); ++i)
    lines += own.keys[i] + format("%08x", sums[i]);
  info_.store->set(store_key(info_.rank), lines);
  const int64_t timeout_ms = job_.config.timeout_ms;
  const int num_ranks = job_.mesh.num_ranks();
  const std::string question = concat("replicas after step ", step + 1);
  lowest_answer(info_, num_ranks, question + "/sums", "", timeout_ms);
  const std::string first = lowest_answer(info_, num_ranks, question, first_difference(own), timeout_ms);
  if (first.empty()) return;
  // So that all ranks know why before any of them ends.
  barrier(info_, num_ranks, "end, since ranks differ", timeout_ms, Log(LogLevel::off));
  throw Error(TSR_E_DATA_LOSS, concat("--debug-replicas: in step ", step + 1, ", ", first.substr(kPositionChars)));
}

/// The lowest over the axes of which this is the first rank; empty when there is none.
std::string ReplicaCheck::first_difference(const Variant& own) const {
  const Coordinates coordinates = job_.mesh.coordinates(info_.rank);
  std::string first;
  for (int axis = 0; axis < static_cast<int>(coordinates.size()); ++axis) {
    if (coordinates[static_cast<size_t>(axis)] != 0 || job_.mesh.axes()[static_cast<size_t>(axis)].num_ranks < 2)
      continue;
    const std::string on_axis = difference_on(axis, own);
    if (!on_axis.empty() && (first.empty() || on_axis < first)) first = on_axis;
  }
  return first;
}

/// Begins with the position of the action; empty when there is none.
std::string ReplicaCheck::difference_on(int axis, const Variant& own) const {
  const std::vector<int> ranks = job_.mesh.members({axis, {}}, job_.mesh.coordinates(info_.rank));
  std::vector<std::string> lines;
  std::vector<Sums> sums;
  for (const int rank : ranks)
    lines.push_back(info_.store->get(store_key(rank), job_.config.timeout_ms));
  for (const std::string& of_rank : lines)
    sums.push_back(sums_in(of_rank));
  for (size_t i = 0; i < own.writes.size(); ++i) {
    if (std::ranges::count(own.writes[i].axes, axis) == 0) continue;
    std::map<std::string_view, std::vector<int>> by_sum;
    for (size_t r = 0; r < ranks.size(); ++r)
      if (const auto found = sums[r].find(own.keys[i]); found != sums[r].end())
        by_sum[found->second].push_back(ranks[r]);
    if (by_sum.size() < 2) continue;
    std::vector<std::string> parties;
    for (const auto& [sum, with_it] : by_sum)
      parties.push_back(ranks_text(with_it));
    std::ranges::sort(parties);
    return format("%0*zu", static_cast<int>(kPositionChars), own.writes[i].action) + describe(axis, own, i, parties);
  }
  return "";
}

std::string ReplicaCheck::describe(int axis, const Variant& own, size_t write,
                                   const std::vector<std::string>& parties) const {
  const Program& program = *own.program;
  const ReplicatedWrite& differs = own.writes[write];
  std::string text = concat(action_text(program, info_.rank, differs.action), " wrote ",
                            range_text(program, differs.range), ", which must be identical on all ranks of ",
                            job_.mesh.axes()[static_cast<size_t>(axis)].name, ", but the bits of ", parties[0]);
  for (size_t i = 1; i < parties.size(); ++i)
    text += concat(i == 1 ? " differ from those of " : " and from those of ", parties[i]);
  return text;
}

}  // namespace tessera::host

// Matches the collectives and messages of all ranks by order, as MPI and NCCL do at run time. The k-th collective that
// a rank issues on a communicator matches the k-th of every other member; so do the sends and receives of a pair. In a
// pipeline of two stages:
//
//     rank 0 #11   comm.pp.activation_0  send mb=0 group=pp{0,1} peer=1 tag=36  r %38 src
//     rank 1 #1    comm.pp.activation_0  recv mb=0 group=pp{0,1} peer=0 tag=36  w %21 dst
//
// Compared are kind, reduction, root, dtype and counts (of messages: elements, dtype, tag). At run time a difference
// would be a hang or silent garbage. Where both ranks know what an operand is, its origin is compared too: two ranks
// that gather different parameters of equal size agree in everything else.
//
// One rank of each class is enough as long as ranks of a class take part in a collective with the same action of their
// lists. So a job of 1,024 ranks under fsdp is matched as one rank. Groups of some ranks of a class and messages within
// a class break that, and then every rank is matched.
//
// A communicator with a mismatch is reported once, and none of its collectives is in the result.
//
// Cost: the collectives of one rank of each class, times the classes in a group.

#include "verify/collective_matching.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "program/collective_operands.h"
#include "verify/data_origin.h"

namespace tessera::host {
namespace {

/// What all members of a collective must agree on.
struct Signature {
  uint32_t kind = 0, reduce = 0;
  tsr_dtype dtype = 0;
  int root = -1;
  uint64_t num_elements = 0;  // of the whole buffer that is scattered or gathered
  std::span<const uint64_t> counts;

  bool operator==(const Signature& other) const {
    return kind == other.kind && reduce == other.reduce && dtype == other.dtype && root == other.root &&
           num_elements == other.num_elements && std::ranges::equal(counts, other.counts);
  }
};

/// The operand of equal size on all members: the destination of a gather or broadcast, the source of the others.
const Binding* whole_of(const Action& action) {
  const Binding* source = action.find(kSource);
  const Binding* destination = action.find(kDestination);
  const bool spreads = action.kind == TSR_ACTION_ALL_GATHER || action.kind == TSR_ACTION_BROADCAST;
  return spreads || !source ? destination : source;
}

Signature signature_of(const Program& program, const Action& action) {
  Signature signature{action.kind, action.reduce, 0, action.peer, 0, {}};
  if (const Binding* whole = whole_of(action)) {
    signature.dtype = program.buffer(whole->buffer).dtype;
    signature.num_elements = whole->num_elements;
  }
  // Slices of an all_to_all are compared pair by pair.
  if (action.kind == TSR_ACTION_ALL_TO_ALL)
    signature.num_elements = 0;
  else
    signature.counts = action.counts;
  return signature;
}

std::string text_of(const Signature& signature) {
  static constexpr const char* kReduces[] = {"", " sum", " avg", " min", " max"};
  if (signature.kind == TSR_ACTION_BARRIER) return "barrier";
  const std::string count = signature.kind == TSR_ACTION_ALL_TO_ALL ? "" : std::to_string(signature.num_elements) + " ";
  std::string text =
      count + std::string(dtype_name(signature.dtype)) + kReduces[std::min(signature.reduce, uint32_t{TSR_REDUCE_MAX})];
  if (signature.root >= 0) text += " root=" + std::to_string(signature.root);
  for (size_t i = 0; i < signature.counts.size(); ++i)
    text += (i ? "," : " counts=") + std::to_string(signature.counts[i]);
  return text;
}

/// One end of a message.
struct End {
  ActionRef place;
  const Binding* binding;
};

/// A communicator: the ranks of a group on streams of one name. Ranks that list the same members as another group wait
/// in another communicator (exec/communicators.cc).
struct Channel {
  std::string stream;
  std::vector<int> members;
  std::vector<std::vector<uint32_t>> collectives;                                         // of each member
  std::map<std::pair<int, int>, std::pair<std::vector<End>, std::vector<End>>> messages;  // [from, to]: sends, receives
};

class Matcher {
 public:
  Matcher(const Mesh& mesh, const RankClasses& matched, const ProgramOf& program, DiagnosticList& diagnostics)
      : mesh_(mesh), matched_(matched), program_(program), diagnostics_(diagnostics) {}

  MatchedOps run() {
    for (const auto& [rank, members] : matched_.members()) {
      result_.ranks.push_back(rank);
      const Program& program = program_(rank);
      const DataOrigins& origins = origins_.try_emplace(&program, program).first->second;
      known_.emplace(rank, Known{&program, &origins});
      collect(rank);
    }
    for (const Channel& channel : channels_) {
      match_collectives(channel);
      for (const auto& [pair, ends] : channel.messages)
        match_messages(channel, pair.first, pair.second, ends.first, ends.second);
    }
    return std::move(result_);
  }

 private:
  void collect(int rank) {
    const Program& program = program_(rank);
    std::map<std::pair<int, uint32_t>, std::pair<size_t, int>> known;  // (group, stream) -> channel, position in it
    for (uint32_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      if (!is_collective(action.kind)) continue;
      auto [entry, is_new] = known.try_emplace({action.group, action.stream});
      if (is_new) entry->second = join_channel(rank, program, action);
      const auto [index, position] = entry->second;
      if (position < 0) {
        diagnostics_.add(text(rank, i) + ": rank " + std::to_string(rank) + " is outside its group " +
                         group_text(program, program.groups[action.group]));
        continue;
      }
      Channel& channel = channels_[index];
      if (!is_message(action.kind)) {
        channel.collectives[position].push_back(i);
        continue;
      }
      for (const Message& message : messages_of(action)) {
        auto& ends = message.is_receive ? channel.messages[{message.peer, position}].second
                                        : channel.messages[{position, message.peer}].first;
        ends.push_back({{rank, i}, message.binding});
      }
    }
  }

  std::pair<size_t, int> join_channel(int rank, const Program& program, const Action& action) {
    const Group& group = program.groups[action.group];
    const std::string& stream = program.streams[action.stream].name;
    const Coordinates coordinates = mesh_.coordinates(rank);
    std::vector<int> members;
    std::unordered_set<int> listed;
    for (const int member : mesh_.members(group, coordinates)) {
      const int matched = matched_.representative(member);
      if (listed.insert(matched).second) members.push_back(matched);
    }
    const auto own = std::ranges::find(members, rank);
    if (own == members.end()) return {0, -1};
    const auto position = static_cast<int>(own - members.begin());
    const auto [entry, is_new] =
        by_group_.try_emplace({members, stream, group.axis, group.coordinates}, channels_.size());
    if (is_new) {
      channels_.push_back({stream, members, {}, {}});
      channels_.back().collectives.resize(members.size());
    }
    return {entry->second, position};
  }

  std::string text(int rank, uint32_t action) const { return action_text(program_(rank), rank, action); }

  void match_collectives(const Channel& channel) {
    const auto fewest = std::ranges::min_element(channel.collectives, {}, [](const auto& list) { return list.size(); });
    const auto most = std::ranges::max_element(channel.collectives, {}, [](const auto& list) { return list.size(); });
    const size_t num_before = result_.collectives.size();
    for (size_t k = 0; k < fewest->size(); ++k)
      if (!match_collective(channel, k)) {
        result_.collectives.resize(num_before);
        return;
      }
    if (fewest->size() == most->size()) return;
    const int few = channel.members[fewest - channel.collectives.begin()];
    const int many = channel.members[most - channel.collectives.begin()];
    const uint32_t extra = (*most)[fewest->size()];
    diagnostics_.add("rank " + std::to_string(few) + " issues " + std::to_string(fewest->size()) + " collectives on " +
                     channel.stream + ", rank " + std::to_string(many) + " issues " + std::to_string(most->size()) +
                     "; the first extra is " + text(many, extra) + ", in group " +
                     group_text(program_(many), program_(many).groups[action_at({many, extra}).group]));
  }

  bool match_collective(const Channel& channel, size_t k) {
    std::vector<ActionRef> places;
    for (size_t m = 0; m < channel.members.size(); ++m)
      places.push_back({channel.members[m], channel.collectives[m][k]});
    const Signature first = signature_at(places[0]);
    ActionRef known = places[0];  // the first member that knows the origin of its operand
    DataOrigin known_origin = origin_at(known);
    for (const ActionRef& place : places) {
      const Signature signature = signature_at(place);
      if (signature != first) return mismatch(channel, k, places[0], text_of(first), place, text_of(signature));
      const DataOrigin origin = origin_at(place);
      if (!known_origin.is_known()) known = place, known_origin = origin;
      const bool is_same = origin == known_origin && origin.position == 0;
      if (!is_same && !agree(place, known))
        return mismatch(channel, k, known, origin_text_at(known), place, origin_text_at(place));
    }
    if (first.kind == TSR_ACTION_ALL_TO_ALL && !match_slices(channel, k, places)) return false;
    result_.collectives.push_back(std::move(places));
    return true;
  }

  /// Each member receives of each other what that one sends to it.
  bool match_slices(const Channel& channel, size_t k, const std::vector<ActionRef>& places) {
    const Action& any = action_at(places[0]);
    const auto n = static_cast<size_t>(mesh_.num_members(program_(places[0].rank).groups[any.group]));
    // One rank of each class is enough where no action has counts (matches_by_class).
    const auto slice = [&](ActionRef place, size_t index) {
      const Action& action = action_at(place);
      return action.counts.empty() ? whole_of(action)->num_elements / n : action.counts[index];
    };
    for (size_t from = 0; from < places.size(); ++from)
      for (size_t to = 0; to < places.size(); ++to) {
        const uint64_t sent = slice(places[from], to), received = slice(places[to], n + from);
        if (sent != received)
          return mismatch(channel, k, places[from], "sends " + std::to_string(sent), places[to],
                          "receives " + std::to_string(received));
      }
    return true;
  }

  bool mismatch(const Channel& channel, size_t k, ActionRef a, const std::string& what_a, ActionRef b,
                const std::string& what_b) {
    diagnostics_.add("collective " + std::to_string(k) + " on " + channel.stream +
                     " does not match: " + text(a.rank, a.action) + " (" + what_a + ") meets " +
                     text(b.rank, b.action) + " (" + what_b + ")");
    return false;
  }

  const Action& action_at(ActionRef place) const { return known_.at(place.rank).program->actions[place.action]; }
  Signature signature_at(ActionRef place) const {
    return signature_of(*known_.at(place.rank).program, action_at(place));
  }
  /// The first known origin from element `begin` of the operand on.
  DataOrigin origin_at(ActionRef place, uint64_t begin = 0) const {
    const Binding* whole = whole_of(action_at(place));
    if (!whole || action_at(place).kind == TSR_ACTION_ALL_TO_ALL) return {};
    Binding rest = *whole;
    rest.offset += begin;
    rest.num_elements -= begin;
    return known_.at(place.rank).origins->of(rest);
  }
  /// Whether both agree where both know something: of a gathered buffer, each may know only its own slice.
  bool agree(ActionRef a, ActionRef b) const {
    const auto knows = [&](ActionRef place, DataOrigin origin) {
      if (!origin.is_known()) return true;
      const DataOrigin own = origin_at(place, std::exchange(origin.position, 0));
      return !own.is_known() || own.position > 0 || own == origin;
    };
    return knows(a, origin_at(b)) && knows(b, origin_at(a));
  }
  std::string origin_text_at(ActionRef place) const { return origin_text(program_(place.rank), origin_at(place)); }

  void match_messages(const Channel& channel, int from, int to, const std::vector<End>& sends,
                      const std::vector<End>& receives) {
    const size_t num_pairs = std::min(sends.size(), receives.size());
    for (size_t k = 0; k < num_pairs; ++k) {
      if (message(sends[k]) != message(receives[k])) {
        diagnostics_.add("message " + std::to_string(k) + " on " + channel.stream +
                         " does not match: " + message_text(sends[k]) + " meets " + message_text(receives[k]));
        return;
      }
      result_.transfers.push_back({sends[k].place, receives[k].place});
    }
    if (sends.size() == receives.size()) return;
    const End& extra = sends.size() > num_pairs ? sends[num_pairs] : receives[num_pairs];
    diagnostics_.add("rank " + std::to_string(channel.members[from]) + " sends " + std::to_string(sends.size()) +
                     " messages to rank " + std::to_string(channel.members[to]) + " on " + channel.stream +
                     ", which receives " + std::to_string(receives.size()) + "; the first extra is " +
                     text(extra.place.rank, extra.place.action));
  }

  /// What both ends of a message must agree on: elements, dtype, tag.
  std::tuple<uint64_t, tsr_dtype, uint64_t> message(const End& end) const {
    const Program& program = program_(end.place.rank);
    return {end.binding->num_elements, program.buffer(end.binding->buffer).dtype,
            program.actions[end.place.action].tag};
  }

  std::string message_text(const End& end) const {
    const auto [num_elements, dtype, tag] = message(end);
    return text(end.place.rank, end.place.action) + " (" + std::to_string(num_elements) + " " +
           std::string(dtype_name(dtype)) + " tag=" + std::to_string(tag) + ")";
  }

  const Mesh& mesh_;
  const RankClasses& matched_;
  const ProgramOf& program_;
  DiagnosticList& diagnostics_;
  std::vector<Channel> channels_;
  std::map<std::tuple<std::vector<int>, std::string, int, std::vector<int32_t>>, size_t> by_group_;
  std::map<const Program*, DataOrigins> origins_;  // ranks of one class may share a program
  struct Known {
    const Program* program;
    const DataOrigins* origins;
  };
  std::unordered_map<int, Known> known_;  // by rank
  MatchedOps result_;
};

/// Whether one rank of each class is enough to match this action.
bool matches_by_class(const Mesh& mesh, const RankClasses& classes, const Program& program, int rank,
                      const Action& action) {
  const Group& group = program.groups[action.group];
  const std::vector<int> members = mesh.members(group, mesh.coordinates(rank));
  std::set<int> met;
  for (const int member : members)
    met.insert(classes.representative(member));
  if (met.size() == members.size()) return true;
  const bool is_whole = group.axis == TSR_WORLD_AXIS || group.coordinates.empty();
  const bool is_uneven = action.kind == TSR_ACTION_ALL_TO_ALL && !action.counts.empty();
  return is_whole && !is_message(action.kind) && !is_uneven;
}

}  // namespace

RankClasses matched_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program) {
  for (const auto& [rank, ranks] : classes.members()) {
    const Program& own = program(rank);
    std::set<std::tuple<int, uint32_t, bool>> seen;  // group, kind, whether it has counts
    for (const Action& action : own.actions)
      if (is_collective(action.kind) && seen.insert({action.group, action.kind, !action.counts.empty()}).second &&
          !matches_by_class(mesh, classes, own, rank, action))
        return RankClasses(mesh);
  }
  return classes;
}

MatchedOps match_ranks(const Mesh& mesh, const RankClasses& matched, const ProgramOf& program,
                       DiagnosticList& diagnostics) {
  return Matcher(mesh, matched, program, diagnostics).run();
}

}  // namespace tessera::host

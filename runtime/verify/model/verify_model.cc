// Walks the lists of all ranks, one of each class, as they would run: each from top to bottom, waiting at collectives
// and receives. verify_ranks has proved that this ends. Then counts what ran over the axes that split layers:
//
//     segment wpe mb=0: its forward runs 2 times where the model needs it once: rank 0 #1 ...
//
// Cost: linear in the bindings of the walked ranks, up to the pieces that buffers fall into.

#include "verify/model/verify_model.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/concat.h"
#include "verify/model/collective_rules.h"
#include "verify/model/replicas.h"
#include "verify/model/taken.h"
#include "verify/model/verify_homes.h"

namespace tessera::host {
namespace {

const char* phase_name(SegmentPhase phase) {
  switch (phase) {
    case SegmentPhase::forward:
      return "forward";
    case SegmentPhase::backward_input:
      return "backward for its inputs";
    case SegmentPhase::backward_weight:
      return "backward for its parameters";
    default:
      return "loss";
  }
}

/// All ranks' lists, one of each class, run together.
class JointWalk {
 public:
  JointWalk(WalkedRanks ranks, const MatchedOps& matched) : ranks_(ranks), matched_(matched) {
    for (auto& [rank, walk] : ranks_.walks)
      lists_.emplace(rank, List{walk, std::vector<uint32_t>(walk.program().actions.size(), kNone)});
    for (size_t c = 0; c < matched.collectives.size(); ++c) {
      for (const ActionRef& member : matched.collectives[c])
        lists_.at(member.rank).collectives[member.action] = static_cast<uint32_t>(c);
      num_missing_.push_back(matched.collectives[c].size());
    }
    sent_.resize(matched.transfers.size());
    for (size_t t = 0; t < matched.transfers.size(); ++t) {
      const auto& [sender, receiver] = matched.transfers[t];
      outgoing_[{sender.rank, sender.action}].push_back(t);
      incoming_[{receiver.rank, receiver.action}].push_back(t);
    }
  }

  /// False when ranks wait for one another forever.
  bool run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (auto& [rank, list] : lists_)
        while (!list.is_done() && pass(list)) {
          ++list.position;
          list.has_arrived = false;
          moves = true;
        }
    }
    return std::ranges::all_of(lists_, [](const auto& entry) { return entry.second.is_done(); });
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  using Place = std::pair<int, uint32_t>;

  /// The state of the walk through one rank's list.
  struct List {
    RankWalk& walk;
    std::vector<uint32_t> collectives;  ///< that each action is a member of
    size_t position = 0;
    bool has_arrived = false;  ///< at the collective there

    bool is_done() const { return position == collectives.size(); }
  };

  /// Whether the rank can pass its next action.
  bool pass(List& list) {
    const Action& action = list.walk.program().actions[list.position];
    if (!is_collective(action.kind)) {
      list.walk.apply(list.position);
      return true;
    }
    if (action.kind == TSR_ACTION_BARRIER) return true;
    return is_message(action.kind)
               ? exchange(list.walk, action, {list.walk.rank(), static_cast<uint32_t>(list.position)})
               : meet(list);
  }

  bool meet(List& list) {
    const uint32_t c = list.collectives[list.position];
    if (c == kNone) return true;
    if (!std::exchange(list.has_arrived, true) && --num_missing_[c] == 0)
      apply_collective(ranks_, matched_.collectives[c]);
    return num_missing_[c] == 0;
  }

  int peer_of(const RankWalk& walk, const Action& action, const Message& message) const {
    const Group& group = walk.program().groups[static_cast<size_t>(action.group)];
    return ranks_.mesh.member(group, message.peer, ranks_.mesh.coordinates(walk.rank()));
  }

  /// Sends what the action sends, once; then receives, if all has been sent.
  bool exchange(RankWalk& walk, const Action& action, const Place& place) {
    const std::vector<Message> messages = messages_of(action);
    std::deque<size_t> out(outgoing_[place].begin(), outgoing_[place].end());
    std::deque<size_t> in(incoming_[place].begin(), incoming_[place].end());
    if (begun_.insert(place).second)
      for (const Message& message : messages)
        if (!message.is_receive) send(walk, take(out, peer_of(walk, action, message), false), *message.binding);
    if (std::ranges::any_of(in, [&](size_t t) { return !sent_[t]; })) return false;
    for (const Message& message : messages)
      if (message.is_receive)
        if (const int peer = peer_of(walk, action, message); const auto t = take(in, peer, true))
          walk.write(*message.binding, received(walk, peer, *sent_[*t]));
    return true;
  }

  /// The first of these transfers that is to or from `peer`, or the rank walked in its place.
  std::optional<size_t> take(std::deque<size_t>& transfers, int peer, bool receives) const {
    const int walked = ranks_.classes.representative(peer);
    const auto found = std::ranges::find_if(transfers, [&](size_t t) {
      return (receives ? matched_.transfers[t].sender : matched_.transfers[t].receiver).rank == walked;
    });
    if (found == transfers.end()) return std::nullopt;
    const size_t t = *found;
    transfers.erase(found);
    return t;
  }

  void send(RankWalk& walk, std::optional<size_t> transfer, const Binding& binding) {
    if (!transfer) return;
    ContentParts parts = walk.by_element(walk.read(binding), ranks_.homes(walk.rank()));
    forget_own_slices(parts);
    sent_[*transfer] = std::move(parts);
  }

  ContentParts received(const RankWalk& walk, int from, const ContentParts& sent) const {
    const uint32_t axes = differing_axes(ranks_.mesh, walk.rank(), from);
    return taken_alone(*walk.program().model, walk.axes_of_states(), axes, taken(ranks_.mesh, walk.rank(), from, sent));
  }

  WalkedRanks ranks_;
  const MatchedOps& matched_;
  std::map<int, List> lists_;
  std::vector<size_t> num_missing_;  // of each collective: members that have not reached it
  std::map<Place, std::vector<size_t>> outgoing_, incoming_;
  std::set<Place> begun_;
  std::vector<std::optional<ContentParts>> sent_;  // of each transfer
};

/// What ran of each segment on the ranks that differ from one in axes that split layers alone.
class PhaseCounter {
  using Runs = std::map<PhaseKey, std::vector<std::pair<int, size_t>>>;  // rank and action of each

 public:
  PhaseCounter(const WalkedRanks& ranks, WalkContext& context) : ranks_(ranks), context_(context) {}

  void check(const RankWalk& walk) {
    Runs runs;
    for (const int rank : line_of(walk.rank())) {
      const int walked = ranks_.classes.representative(rank);
      for (const auto& [key, actions] : ranks_.walks.at(walked).phases())
        for (const size_t action : actions)
          runs[key].emplace_back(walked, action);
    }
    const Model& model = *walk.program().model;
    const bool trains = walk.program().purpose == TSR_PURPOSE_STEP;
    const auto num_segments = static_cast<int>(model.segments.size());
    for (int mb = 0; mb < static_cast<int>(walk.program().step_config.num_micro_batches); ++mb)
      for (int s = 0; s < num_segments; ++s) {
        const bool is_loss = s == num_segments - 1;
        const bool goes_back = trains && !is_loss && walk.needs().needs_backward(s);
        require({s, mb, SegmentPhase::forward}, runs, !is_loss, !is_loss);
        require({s, mb, SegmentPhase::loss}, runs, is_loss, is_loss);
        require({s, mb, SegmentPhase::backward_input}, runs, goes_back && walk.needs().needs_input_gradient(s),
                goes_back);
        require({s, mb, SegmentPhase::backward_weight}, runs, goes_back && walk.needs().needs_parameter_gradient(s),
                goes_back);
      }
  }

 private:
  /// Those that differ from `rank` in axes that split layers alone.
  std::vector<int> line_of(int rank) const {
    std::vector<int> line;
    const uint32_t others = ~axes_that_split(ranks_.mesh, TSR_SPLITS_LAYERS);
    for (int other = 0; other < ranks_.mesh.num_ranks(); ++other)
      if ((differing_axes(ranks_.mesh, rank, other) & others) == 0) line.push_back(other);
    return line;
  }

  void require(const PhaseKey& key, const Runs& runs, bool once, bool at_most_once) {
    const auto found = runs.find(key);
    const size_t n = found == runs.end() ? 0 : found->second.size();
    if ((n == 1 && at_most_once) || (n == 0 && !once)) return;
    const auto& [s, mb, phase] = key;
    const Program& program = ranks_.walks.begin()->second.program();
    std::string finding = concat("segment ", program.model->segments[static_cast<size_t>(s)].name, " mb=", mb, ": ");
    if (n == 0) finding += concat("nothing runs its ", phase_name(phase), ", which the model needs once");
    if (n > 0) {
      finding += concat("its ", phase_name(phase), " runs ", n, " times where the model needs it ",
                        at_most_once ? "once" : "not at all");
      const char* before = ": ";
      for (const auto& [rank, action] : found->second)
        finding += std::exchange(before, ", ") + action_text(ranks_.walks.at(rank).program(), rank, action);
    }
    context_.add(finding, finding);
  }

  const WalkedRanks& ranks_;
  WalkContext& context_;
};

/// The program of `rank`, which is that of another rank of its class, with what is its own.
Program own_program(const Program& of_class, int rank, const RankHomes& homes) {
  Program own = of_class;
  own.coordinates = of_class.mesh->coordinates(rank);
  own.model = homes.model.get();
  const bool has_them_whole = own.homes.size() == homes.init.homes.size();  // no policy has cut them
  for (size_t h = 0; h < own.homes.size() && has_them_whole; ++h)
    own.homes[h].pieces = homes.init.homes[h].pieces;
  return own;
}

}  // namespace

const RankHomes& ModelVerifier::homes(int rank) {
  const auto found = homes_.find(rank);
  return found != homes_.end() ? found->second : homes_.emplace(rank, homes_of_(rank)).first->second;
}

/// Findings about ranks of one class are the same, and so are those about several.
void ModelVerifier::check_homes(const ProgramOf& init, DiagnosticList& diagnostics) {
  HomeVerifier verifier(mesh_, [&](int rank) -> const Program& {
    return classes_.representative(rank) == rank ? init(rank) : homes(rank).init;
  });
  std::set<std::string> reported;
  for (const auto& [rank, members] : classes_.members()) {
    DiagnosticList found;
    verifier.check(init(rank), found);
    for (const std::string& finding : found.take())
      if (reported.insert(finding).second) diagnostics.add(finding);
  }
  if (reported.empty()) check_places(verifier, init, diagnostics);
}

/// What is compiled for this alone is not kept: the homes of a thousand ranks that own all are as many models' worth of
/// tables.
void ModelVerifier::check_places(HomeVerifier& verifier, const ProgramOf& init, DiagnosticList& diagnostics) {
  for (const auto& [representative, members] : classes_.members())
    for (const int rank : members) {
      std::optional<RankHomes> compiled;
      const auto own = [&]() -> const Program& {
        if (const auto known = homes_.find(rank); known != homes_.end()) return known->second.init;
        if (!compiled) compiled = homes_of_(rank);
        return compiled->init;
      };
      if (rank != representative) verifier.check_places(init(representative), rank, own, diagnostics);
    }
}

void ModelVerifier::note_calls(const Program& program) {
  for (const Action& action : program.actions) {
    if (action.kind != TSR_ACTION_CALL) continue;
    for (const Binding& binding : action.bindings)
      if (const Buffer& buffer = program.buffer(binding.buffer); binding.mode != TSR_MODE_READ && buffer.persistent)
        context_.made_by_calls.insert(context_.buffers.number_of(buffer));
  }
}

Diagnostics ModelVerifier::check(const ProgramOf& program, const RankClasses& walked, const MatchedOps& matched) {
  DiagnosticList diagnostics;
  context_.diagnostics = &diagnostics;
  context_.reported.clear();
  std::map<int, Program> own_programs;
  std::unordered_map<int, HomeTable> tables;  // of up to all ranks, each asked for by every gather
  std::map<int, RankWalk> walks;
  const std::function<const HomeTable&(int)> table_of = [&](int rank) -> const HomeTable& {
    const auto known = tables.find(rank);
    return known != tables.end() ? known->second
                                 : tables.emplace(rank, HomeTable(homes(rank).init, context_.buffers)).first->second;
  };
  for (const auto& [rank, members] : walked.members()) {
    const Program* of_rank = &program(rank);
    if (of_rank->coordinates != mesh_.coordinates(rank))
      of_rank = &own_programs.emplace(rank, own_program(*of_rank, rank, homes(rank))).first->second;
    const HomeTable& table = tables.emplace(rank, HomeTable(*of_rank, context_.buffers)).first->second;
    uint32_t walked_axes = 0;
    for (const int member : members)
      walked_axes |= differing_axes(mesh_, rank, member);
    walks.try_emplace(rank, *of_rank, rank, table, kept_[rank], walked_axes, context_);
  }
  if (walks.begin()->second.program().purpose == TSR_PURPOSE_INIT) check_homes(program, diagnostics);
  WalkedRanks ranks{mesh_, walked, walks, table_of, context_.sets};
  if (!JointWalk(ranks, matched).run()) diagnostics.add("the ranks wait for one another forever");
  PhaseCounter counter(ranks, context_);
  for (auto& [rank, walk] : walks) {
    KeptContents left = walk.finish();
    if (walk.program().purpose == TSR_PURPOSE_INIT)
      kept_[rank] = std::move(left);
    else
      counter.check(walk);
  }
  if (walks.begin()->second.program().purpose == TSR_PURPOSE_STEP) compare_replicas(walks, context_);
  return diagnostics.take();
}

}  // namespace tessera::host

// Derives which action waits for which, from the bindings alone. In the program of ddp (the numbers after '#'):
//
//     40    compute           backward wte mb=0  ...  a %61+28928:3072 g:weight
//     41    compute           zero  w %61+32:96 dst  ...
//     42    comm.dp.gradient  all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
//     43    compute           sum_squares home=wte.weight  r %61+28928:3072 src  a %17+0:20 x:squares  # 42
//     44    compute           sum_squares home=wpe.weight  r %61+26880:2048 src  a %17+0:20 x:squares
//
// 42 needs all writers of %61, but waits for 41 only: streams are in order, so 41 implies the rest. 44 needs 42 too,
// but 43 before it has waited for that.
//
// Two steps. The Deriver walks the list and keeps, for each range of each buffer, the last writer and its readers,
// which gives all pairs of read after write, write after read and write after write. keep_unimplied then drops what
// streams and other waits imply, with vector clocks (Fidge 1988, Mattern 1989): a clock tells for each stream how many
// of its actions have finished before this one starts.
//
// Invariant: any execution that keeps stream order and these waits gives the result of running the list from top to
// bottom. The verifier checks it anew by address (verify_addresses.cc), and does not use what is derived here.
//
// Cost: actions times streams for the clocks; the waits are linear in the bindings, up to the pieces a buffer falls
// into.

#include "passes/dependencies.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "program/buffer_index.h"
#include "program/collective_operands.h"
#include "program/range_map.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Computes the clocks in list order. An action's row is the progress of each stream when the action *starts*.
class ClockBuilder {
 public:
  explicit ClockBuilder(const std::vector<Action>& actions) {
    uint32_t num_streams = 0;
    for (const Action& action : actions)
      num_streams = std::max(num_streams, action.stream + 1);
    clocks_.num_streams_ = num_streams;
    clocks_.stream_.reserve(actions.size());
    clocks_.position_.reserve(actions.size());
    clocks_.clock_.reserve(actions.size() * num_streams);
    last_.resize(num_streams, kNone);
  }

  /// Starts the row of the next action, which waits for the one before it on its stream.
  void next(uint32_t stream) {
    const auto self = static_cast<uint32_t>(clocks_.stream_.size());
    const uint32_t before = last_[stream];
    clocks_.stream_.push_back(stream);
    clocks_.position_.push_back(before == kNone ? 1 : clocks_.position_[before] + 1);
    clocks_.clock_.resize(clocks_.clock_.size() + clocks_.num_streams_, 0);
    if (before != kNone) wait(before);
    last_[stream] = self;
  }

  /// Whether the action of the current row is known to start after `earlier` has finished.
  bool implied(uint32_t earlier) const {
    return clocks_.ordered(earlier, static_cast<uint32_t>(clocks_.stream_.size() - 1));
  }

  /// Adds what `earlier` knew when it started, and that it has finished itself.
  void wait(uint32_t earlier) {
    const size_t n = clocks_.num_streams_;
    uint32_t* row = clocks_.clock_.data() + clocks_.clock_.size() - n;
    const uint32_t* known = clocks_.clock_.data() + earlier * n;
    for (size_t s = 0; s < n; ++s)
      row[s] = std::max(row[s], known[s]);
    uint32_t& own = row[clocks_.stream_[earlier]];
    own = std::max(own, clocks_.position_[earlier]);
  }

  VectorClocks take() { return std::move(clocks_); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  VectorClocks clocks_;
  std::vector<uint32_t> last_;  // of each stream
};

namespace {

using Waits = std::vector<std::vector<uint32_t>>;  // for each action: the actions it must follow

// Transitive reduction. Candidates are tried latest first: an earlier action never implies a later one, so one pass
// finds the smallest set.
void keep_unimplied(Program& program, Waits& waits) {
  ClockBuilder builder(program.actions);
  for (size_t i = 0; i < program.actions.size(); ++i) {
    Action& action = program.actions[i];
    builder.next(action.stream);
    action.dependencies.clear();
    std::ranges::sort(waits[i], std::greater{});
    for (const uint32_t earlier : waits[i]) {
      if (builder.implied(earlier)) continue;
      builder.wait(earlier);
      action.dependencies.push_back(earlier);
    }
    std::ranges::reverse(action.dependencies);
  }
}

// The last accesses of a range: its writer, and of the readers since then the last one on each stream, which has waited
// for those before it.
struct Access {
  uint32_t writer = UINT32_MAX;
  std::vector<uint32_t> readers;
};

class Deriver {
 public:
  explicit Deriver(const Program& program) : program_(program), index_(program), waits_(program.actions.size()) {
    accesses_.reserve(program.buffers.size());
    for (const Buffer& buffer : program.buffers)
      accesses_.emplace_back(buffer.num_elements);
  }

  Waits run() {
    for (uint32_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& binding : program_.actions[i].bindings)
        bind(i, binding);
    return std::move(waits_);
  }

 private:
  void bind(uint32_t action, const Binding& binding) {
    auto& accesses = accesses_[index_(binding.buffer)];
    const uint64_t begin = binding.offset, end = begin + binding.num_elements;
    const bool reads_only = binding.mode == TSR_MODE_READ;
    for (auto& [from, part] : accesses.parts(begin, end)) {
      follow(action, part.value.writer);
      if (reads_only)
        add_reader(part.value.readers, action);
      else
        for (const uint32_t reader : part.value.readers)
          follow(action, reader);
    }
    if (!reads_only) accesses.assign(begin, end, {action, {}});
  }

  void follow(uint32_t action, uint32_t earlier) {
    std::vector<uint32_t>& waits = waits_[action];
    // `earlier == action`: an action may bind a range twice, in place. Repeats are common (many parameters of one
    // buffer) and cheap to drop here.
    if (earlier == UINT32_MAX || earlier == action || (!waits.empty() && waits.back() == earlier)) return;
    waits.push_back(earlier);
  }

  void add_reader(std::vector<uint32_t>& readers, uint32_t action) const {
    const uint32_t stream = program_.actions[action].stream;
    for (uint32_t& reader : readers)
      if (program_.actions[reader].stream == stream) {
        reader = action;
        return;
      }
    readers.push_back(action);
  }

  const Program& program_;
  const BufferIndex index_;
  Waits waits_;
  std::vector<BufferRangeMap<Access>> accesses_;  // of each buffer
};

/// The waits that passes asked for beyond those of the bindings.
void add_asked_for(const Program& program, Waits& waits) {
  std::unordered_map<uint64_t, uint32_t> index;
  for (uint32_t i = 0; i < program.actions.size(); ++i) {
    for (const uint64_t earlier : program.actions[i].waits_for) {
      // Only earlier actions are indexed yet, so a wait for a later one is not found.
      const auto found = index.find(earlier);
      if (found == index.end())
        throw Error(TSR_E_INVALID_ARGUMENT, "a pass makes action " + std::to_string(i) +
                                                " of the list wait for action id " + std::to_string(earlier) +
                                                ", which is not before it");
      waits[i].push_back(found->second);
    }
    index.emplace(program.actions[i].id, i);
  }
}

}  // namespace

VectorClocks::VectorClocks(const Program& program) {
  ClockBuilder builder(program.actions);
  for (size_t i = 0; i < program.actions.size(); ++i) {
    builder.next(program.actions[i].stream);
    for (const uint32_t earlier : program.actions[i].dependencies) {
      if (earlier >= i)
        throw Error(TSR_E_INTERNAL, "action " + std::to_string(i) + " of the program waits for action " +
                                        std::to_string(earlier) + ", which is not before it");
      builder.wait(earlier);
    }
  }
  *this = builder.take();
}

bool VectorClocks::ordered(uint32_t first, uint32_t second) const {
  return clock_[second * num_streams_ + stream_[first]] >= position_[first];
}

namespace {

/// Whether what waits for a send is a send to the same rank or a receive from it, as in what the pipeline strategy
/// makes.
bool sends_delay_their_peers_alone(const Program& program) {
  std::vector<const Action*> before(program.streams.size(), nullptr);  // of each stream: the last action, once it sends
  const auto may_follow = [](const Action& action, const Action& send) {
    return (action.kind == TSR_ACTION_SEND || action.kind == TSR_ACTION_RECV) && action.group == send.group &&
           action.peer == send.peer;
  };
  for (const Action& action : program.actions) {
    const Action*& last = before[action.stream];
    if (action.kind == TSR_ACTION_EXCHANGE || (last && !may_follow(action, *last))) return false;
    for (const uint32_t earlier : action.dependencies)
      if (const Action& send = program.actions[earlier]; sends(send.kind) && !may_follow(action, send)) return false;
    if (last || action.kind == TSR_ACTION_SEND) last = &action;
  }
  return true;
}

}  // namespace

// A job without messages ends when every rank runs its list from top to bottom, and a wait for an earlier action of the
// list does not change that. A send ends when another rank has received, which may be later in the list, so a wait for
// it may close a cycle; and so may a wait for what follows it on its stream, or for what follows on another rank.
//
// Where sends delay nothing but messages with the same rank, which are in order there too, only waits for a send, or
// for what follows one on its stream, are left out: no other one is known to close a cycle. Elsewhere a wait may only
// be for what has no more of other ranks before it than its action waits for already: then each way around a cycle is
// there without the wait.
AddableWaits::AddableWaits(const Program& program, const VectorClocks& clocks) : clocks_(clocks) {
  if (std::ranges::none_of(program.actions, [](const Action& action) { return is_message(action.kind); })) return;
  own_sends_alone_ = sends_delay_their_peers_alone(program);
  num_shared_.assign(clocks.num_streams_, {0});
  for (const Action& action : program.actions) {
    std::vector<uint32_t>& of_stream = num_shared_[action.stream];
    const bool counts = own_sends_alone_ ? sends(action.kind) : is_collective(action.kind);
    of_stream.push_back(of_stream.back() + (counts ? 1 : 0));
  }
}

bool AddableWaits::allows(uint32_t first, uint32_t second) const {
  if (allows_all() || clocks_.ordered(first, second)) return true;
  const size_t n = clocks_.num_streams_;
  const uint32_t own = clocks_.stream_[first];
  const auto adds_none = [&](size_t s) {
    const uint32_t end = s == own ? clocks_.position_[first] : clocks_.clock_[first * n + s];
    return num_shared_[s][end] <= num_shared_[s][clocks_.clock_[second * n + s]];
  };
  if (own_sends_alone_) return adds_none(own);
  for (size_t s = 0; s < n; ++s)
    if (!adds_none(s)) return false;
  return true;
}

void derive_dependencies(Program& program) {
  Waits waits = Deriver(program).run();
  add_asked_for(program, waits);
  keep_unimplied(program, waits);
}

void add_dependencies(Program& program, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  Waits waits;
  waits.reserve(program.actions.size());
  for (const Action& action : program.actions)
    waits.push_back(action.dependencies);
  for (const auto& [first, second] : pairs) {
    if (first >= second || second >= waits.size())
      throw Error(TSR_E_INTERNAL, "cannot make action " + std::to_string(second) + " wait for action " +
                                      std::to_string(first) + ": it must come later in the list of " +
                                      std::to_string(waits.size()));
    waits[second].push_back(first);
  }
  keep_unimplied(program, waits);
}

void order_live_ranges(Program& program) {
  std::map<uint64_t, std::vector<uint32_t>> uses;
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings)
      if (!program.buffer(b.buffer).persistent) uses[b.buffer].push_back(i);
  std::vector<std::pair<uint32_t, uint32_t>> waits;
  for (const auto& [buffer, actions] : uses)
    for (uint32_t action : actions) {
      if (action != actions.front() && !sends(program.actions[actions.front()].kind))
        waits.emplace_back(actions.front(), action);
      if (action != actions.back() && !sends(program.actions[action].kind)) waits.emplace_back(action, actions.back());
    }
  add_dependencies(program, waits);
}

}  // namespace tessera::host

#include "mutants.h"

#include "base/concat.h"
#include "program/collective_operands.h"
#include "verify/diagnostics.h"

namespace tessera::testing {
namespace {

class Mutator {
 public:
  explicit Mutator(const Program& program) : program_(program) {}

  std::vector<Mutant> run() {
    for (index_ = 0; index_ < program_.actions.size(); ++index_) {
      move_action();
      for (size_t b = 0; b < program_.actions[index_].bindings.size(); ++b) {
        redirect(b);
        shift(b);
        change_mode(b);
        exchange(b);
      }
      exchange_with_next_of_kind();
      insert_after();
      change_kind();
      change_stream();
      change_attributes();
    }
    return std::move(mutants_);
  }

 private:
  const Action& action() const { return program_.actions[index_]; }

  void add(const std::string& kind, const std::string& what, std::function<void(Program&)> change) {
    mutants_.push_back({kind, concat(action_text(program_, index_), " ", what), std::move(change)});
  }
  /// One that changes a field of the action.
  template <class T>
  void set(const std::string& kind, T Action::*field, T value) {
    const size_t i = index_;
    add(kind, concat("-> ", value), [=](Program& p) { p.actions[i].*field = value; });
  }

  void move_action() {
    const auto i = static_cast<ptrdiff_t>(index_);
    add("removed", "", [=](Program& p) { p.actions.erase(p.actions.begin() + i); });
    add("doubled", "", [=](Program& p) {
      Action again = p.actions[static_cast<size_t>(i)];
      again.id = p.next_id++;
      p.actions.insert(p.actions.begin() + i + 1, std::move(again));
    });
    if (index_ + 1 < program_.actions.size())
      add("swapped", "with the next",
          [=](Program& p) { std::swap(p.actions[static_cast<size_t>(i)], p.actions[static_cast<size_t>(i) + 1]); });
  }

  void redirect(size_t b) {
    const size_t i = index_;
    const Buffer& own = program_.buffer(action().bindings[b].buffer);
    for (const Buffer& other : program_.buffers)
      if (other.id != own.id && other.num_elements == own.num_elements && other.dtype == own.dtype &&
          other.memory == own.memory)
        add("redirected", concat("binding ", b, " -> ", buffer_text(other)),
            [=, id = other.id](Program& p) { p.actions[i].bindings[b].buffer = id; });
  }

  void shift(size_t b) {
    const size_t i = index_;
    const Binding& own = action().bindings[b];
    const uint64_t end = program_.buffer(own.buffer).num_elements;
    const auto to = [&](uint64_t offset, uint64_t num_elements) {
      if (offset > end || num_elements > end - offset || num_elements == 0) return;
      add("shifted", concat("binding ", b, " -> ", offset, ":", num_elements), [=](Program& p) {
        p.actions[i].bindings[b].offset = offset;
        p.actions[i].bindings[b].num_elements = num_elements;
      });
    };
    const uint64_t n = own.num_elements;
    to(own.offset + 1, n);
    to(own.offset - 1, n);
    to(own.offset + n, n);
    to(own.offset - n, n);
    to(own.offset, n - 1);
    to(own.offset + 1, n - 1);
    to(own.offset, n + 1);
  }

  void change_mode(size_t b) {
    const size_t i = index_;
    for (const uint32_t mode : {TSR_MODE_READ, TSR_MODE_WRITE, TSR_MODE_ADD})
      if (mode != action().bindings[b].mode)
        add("mode", concat("binding ", b, " -> ", mode), [=](Program& p) { p.actions[i].bindings[b].mode = mode; });
  }

  /// Of two bindings of one action: what a pass does that takes one slot for another.
  void exchange(size_t b) {
    const size_t i = index_;
    const std::vector<Binding>& all = action().bindings;
    for (size_t other = b + 1; other < all.size(); ++other)
      if (all[other].num_elements == all[b].num_elements)
        add("exchanged", concat("bindings ", b, " and ", other),
            [=](Program& p) { exchange_ranges(p.actions[i].bindings[b], p.actions[i].bindings[other]); });
  }
  static void exchange_ranges(Binding& a, Binding& b) {
    std::swap(a.buffer, b.buffer);
    std::swap(a.offset, b.offset);
  }

  /// Two actions of one kind take one another's ranges: also messages, homes and sums.
  void exchange_with_next_of_kind() {
    const size_t i = index_;
    for (size_t next = i + 1; next < program_.actions.size(); ++next) {
      if (program_.actions[next].kind != action().kind) continue;
      for (size_t b = 0; b < std::min(action().bindings.size(), program_.actions[next].bindings.size()); ++b)
        if (action().bindings[b].num_elements == program_.actions[next].bindings[b].num_elements)
          add("crossed", concat("binding ", b, " with that of #", next),
              [=](Program& p) { exchange_ranges(p.actions[i].bindings[b], p.actions[next].bindings[b]); });
      return;
    }
  }

  void insert(const std::string& what, uint32_t kind, const Binding& range, double factor) {
    add("inserted", what, [=, at = static_cast<ptrdiff_t>(index_) + 1](Program& p) {
      Action action;
      action.id = p.next_id++;
      action.kind = kind;
      action.scale = factor;
      action.bindings = {range};
      p.actions.insert(p.actions.begin() + at, std::move(action));
    });
  }
  /// A scale, and zeros, of what the action has written.
  void insert_after() {
    for (Binding range : action().bindings) {
      if (range.mode == TSR_MODE_READ) continue;
      const std::string where = range_text(program_, range);
      range.slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
      range.mode = TSR_MODE_ADD;
      if (program_.buffer(range.buffer).dtype == TSR_F32)
        insert(concat("scale of ", where), TSR_ACTION_SCALE, range, 0.5);
      range.mode = TSR_MODE_WRITE;
      insert(concat("zero of ", where), TSR_ACTION_ZERO, range, 0);
    }
  }

  void change_kind() {
    constexpr uint32_t kAlike[][2] = {{TSR_ACTION_COPY, TSR_ACTION_CAST},
                                      {TSR_ACTION_COPY, TSR_ACTION_ADD_INTO},
                                      {TSR_ACTION_FORWARD, TSR_ACTION_RECOMPUTE},
                                      {TSR_ACTION_BACKWARD, TSR_ACTION_BACKWARD_INPUT},
                                      {TSR_ACTION_BACKWARD, TSR_ACTION_BACKWARD_WEIGHT},
                                      {TSR_ACTION_BACKWARD_INPUT, TSR_ACTION_BACKWARD_WEIGHT},
                                      {TSR_ACTION_ALL_REDUCE, TSR_ACTION_REDUCE_SCATTER},
                                      {TSR_ACTION_ALL_REDUCE, TSR_ACTION_ALL_GATHER},
                                      {TSR_ACTION_REDUCE_SCATTER, TSR_ACTION_ALL_GATHER},
                                      {TSR_ACTION_SEND, TSR_ACTION_RECV}};
    for (const auto& [a, b] : kAlike)
      if (action().kind == a || action().kind == b) set("kind", &Action::kind, action().kind == a ? b : a);
  }

  void change_stream() {
    for (uint32_t stream = 0; stream < program_.streams.size(); ++stream)
      if (stream != action().stream) set("stream", &Action::stream, stream);
  }

  void change_attributes() {
    const Action& own = action();
    if (is_collective(own.kind)) change_collective();
    if (own.kind == TSR_ACTION_SCALE) set("scale", &Action::scale, 2 * own.scale);
    for (const Home& home : program_.homes)
      if (own.home != 0 && home.id != own.home) set("home", &Action::home, home.id);
    set("flags", &Action::flags, own.flags ^ TSR_ACTION_PREDICATED);
    if (!is_compute(own.kind)) return;
    for (int mb = 0; mb < static_cast<int>(program_.step_config.num_micro_batches); ++mb)
      if (mb != own.micro_batch) set("micro_batch", &Action::micro_batch, mb);
    const auto& segments = program_.model->segments;
    for (int s = 0; s < static_cast<int>(segments.size()); ++s)
      if (s != own.segment &&
          segments[static_cast<size_t>(s)].op.kind == segments[static_cast<size_t>(own.segment)].op.kind)
        set("segment", &Action::segment, s);
  }

  void change_collective() {
    const Action& own = action();
    const int n = program_.mesh->num_members(program_.groups[static_cast<size_t>(own.group)]);
    for (int peer = 0; peer < n && own.peer >= 0; ++peer)
      if (peer != own.peer) set(has_root(own.kind) ? "root" : "peer", &Action::peer, peer);
    for (int group = 0; group < static_cast<int>(program_.groups.size()); ++group)
      if (group != own.group) set("group", &Action::group, group);
    for (uint32_t reduce = TSR_REDUCE_SUM; reduce <= TSR_REDUCE_MAX; ++reduce)
      if (own.reduce != 0 && reduce != own.reduce) set("reduce", &Action::reduce, reduce);
    if (is_message(own.kind)) set("tag", &Action::tag, own.tag + 1);
    for (size_t c = 0; c + 1 < own.counts.size(); ++c)
      add("counts", concat("of member ", c), [=, i = index_](Program& p) {
        ++p.actions[i].counts[c];
        --p.actions[i].counts[c + 1];
      });
  }

  const Program& program_;
  size_t index_ = 0;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants_of(const Program& program) {
  std::vector<Mutant> mutants = Mutator(program).run();
  add_table_mutants(program, mutants);
  return mutants;
}

}  // namespace tessera::testing

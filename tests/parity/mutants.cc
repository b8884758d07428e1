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
      }
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

  void change_attributes() {
    const Action& own = action();
    if (is_collective(own.kind)) change_collective();
    if (own.kind == TSR_ACTION_SCALE) set("scale", &Action::scale, 2 * own.scale);
    for (const Home& home : program_.homes)
      if (own.home != 0 && home.id != own.home) set("home", &Action::home, home.id);
    set("flags", &Action::flags, own.flags ^ TSR_ACTION_PREDICATED);
    if (!is_compute(own.kind)) return;
    for (int mb = 0; mb < static_cast<int>(program_.shape.num_micro_batches); ++mb)
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
  }

  const Program& program_;
  size_t index_ = 0;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants_of(const Program& program) {
  return Mutator(program).run();
}

}  // namespace tessera::testing

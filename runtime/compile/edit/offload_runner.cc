// The host's side of an offload policy: the view and the sink of offload.h. The answer "item %30 leaves for host memory
// after the forward of h.0" becomes, through movement.cc,
//
//     23    evict     copy  r %30 src  w %61 dst  # 5
//     69    fetch     copy  r %61 src  w %113 dst
//
// A wrong answer fails at the call that gives it, where the author of a policy sees it:
//
//     item 1 (wte) cannot leave after visit 0, other: that visit does not use it; give the visit of one of its uses
//
// Invariant: the program is changed only when the policy has returned OK and its answers fit together. Cost: a snapshot
// of the program, and that of movement.cc; an answer takes a search of its item's uses, and one that runs an action on
// the host takes a search of the list, and of the other answers for each operand.

#include "compile/edit/offload_runner.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/concat.h"
#include "compile/edit/program_snapshot.h"
#include "guard/lent_table.h"
#include "guard/plugin_calls.h"
#include "guard/process_state.h"
#include "guard/readable.h"
#include "offload/items.h"
#include "offload/movement.h"
#include "offload/visits.h"
#include "program/collective_operands.h"
#include "tessera/error.hpp"
#include "tessera/offload.hpp"

namespace tessera::host {
namespace {

constexpr std::string_view kDomain = "host";

class OffloadSnapshot {
 public:
  OffloadSnapshot(const Program& program, std::span<const tsr_visit> visits, std::span<const Item> items,
                  const OffloadLimits& limits)
      : program_(program, TSR_WORLD_AXIS) {
    for (const Item& item : items)
      items_.push_back({item.buffer->id, str(item.buffer->name), item.buffer->kind,
                        item.buffer->persistent ? TSR_BUFFER_PERSISTENT : 0u, item.unit, 0, item.buffer->num_bytes(),
                        item.uses.data(), item.uses.size()});
    view_.struct_size = sizeof view_;
    view_.device_bytes = limits.device_bytes;
    view_.program = &program_.view();
    view_.places = limits.places.data();
    view_.visits = visits.data();
    view_.items = items_.data();
    view_.num_places = limits.places.size();
    view_.num_visits = visits.size();
    view_.num_items = items_.size();
    shown_.add(visits.data(), visits.size());
    shown_.add(items_.data(), items_.size());
    for (const Item& item : items)
      shown_.add(item.uses.data(), item.uses.size());
    shown_.add(limits.places.data(), limits.places.size());
    shown_.add(&view_, 1);
    shown_.remember();
  }

  const tsr_offload_view& view() const { return view_; }
  /// As ProgramSnapshot's.
  void check_unchanged(const void* function) const {
    program_.check_unchanged(function);
    shown_.check_unchanged(function);
  }

 private:
  ProgramSnapshot program_;
  std::vector<tsr_item> items_;
  tsr_offload_view view_{};
  ShownMemory shown_;
};

/// Collects the answers of one policy.
class AnswerSink {
 public:
  AnswerSink(const Program& program, std::span<const Item> items, const tsr_offload_view& view,
             const OffloadLimits& limits)
      : program_(program), items_(items), view_(view), limits_(limits) {}

  static tsr_offload_sink functions() {
    tsr_offload_sink table{};
    table.struct_size = sizeof table;
    table.leave = [](void* ctx, const tsr_leave* leave, tsr_error* err) noexcept {
      return guard(err, kDomain, [&] { borrowed<AnswerSink>(ctx, "leave").add(checked(leave, "the answer")); });
    };
    table.run_on_host = [](void* ctx, uint64_t action, tsr_error* err) noexcept {
      return guard(err, kDomain, [&] { borrowed<AnswerSink>(ctx, "run_on_host").add_host_run(action); });
    };
    return table;
  }
  const std::vector<tsr_leave>& leaves() const { return leaves_; }
  /// Indices of actions, ascending.
  std::vector<size_t> on_host() const { return {on_host_.begin(), on_host_.end()}; }

  /// A persistent item that leaves must leave after its last use too, and always to the same memory: it has one buffer.
  void check_resting_items() const {
    std::map<uint64_t, uint32_t> memories;
    for (const tsr_leave& leave : leaves_) {
      const Item& item = *find(leave.buffer);
      if (!item.buffer->persistent) continue;
      const auto refuse = [&](const auto&... what) {
        throw Error(TSR_E_INVALID_ARGUMENT, concat("item ", leave.buffer, " (", item.buffer->name, ") ", what...));
      };
      const uint32_t memory = memories.emplace(leave.buffer, leave.memory).first->second;
      if (memory != leave.memory)
        refuse("leaves for memory ", memory, " and for memory ", leave.memory,
               "; a persistent item rests in one memory: give the same one in all answers");
      if (!answered_.contains({leave.buffer, item.uses.back().visit}))
        refuse("leaves after ", view_.describe(leave.after), ", and not after its last use, ",
               view_.describe(item.uses.back().visit),
               "; a persistent item rests in the memory that it leaves for: let it leave after its last use too");
    }
  }

  /// What an action on the host uses is in the host's memory then: it has left for it after its last use on the device,
  /// and a persistent item rests there.
  void check_host_runs() const {
    if (on_host_.empty()) return;
    const std::vector<uint32_t> visit_of = visit_of_actions(view_.visits());
    std::map<uint64_t, uint32_t> last_visit;  // that uses a buffer on the device
    for (size_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& b : accesses(program_, program_.actions[i])) {
        if (!on_host_.contains(i))
          last_visit[b.buffer] = visit_of[i];
        else if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_SCALAR)
          check_host_use(i, *find(b.buffer), last_visit, visit_of[i]);
      }
  }

 private:
  void check_host_use(size_t index, const Item& item, const std::map<uint64_t, uint32_t>& last_visit,
                      uint32_t visit) const {
    const Buffer& buffer = *item.buffer;
    const auto refuse = [&](const auto&... what) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(action_words(index), " cannot run on the host: its operand ",
                                                 buffer.id, " (", buffer.name, ") ", what...));
    };
    const auto leaves_for_host = [&](uint32_t after) {
      return std::ranges::any_of(leaves_, [&](const tsr_leave& leave) {
        return leave.buffer == buffer.id && leave.after == after && leave.memory == TSR_MEMORY_HOST;
      });
    };
    if (buffer.persistent && !leaves_for_host(item.uses.back().visit))
      refuse("does not rest in host memory; let it leave for it after its last use");
    const auto last = last_visit.find(buffer.id);
    if (last == last_visit.end() ? buffer.persistent : last->second < visit && leaves_for_host(last->second)) return;
    refuse("is not in host memory then; let it leave for it after ",
           last == last_visit.end() ? "an earlier visit that writes it"
                                    : view_.describe(last->second) + ", the last to use it on the device");
  }

  std::string action_words(size_t index) const {
    const Action& action = program_.actions[index];
    std::string words = concat("action ", action.id, " (", action_name(action.kind));
    if (action.home) words += " of " + program_.home(action.home).name;
    return words + ")";
  }

  void add_host_run(uint64_t id) {
    const auto action = std::ranges::find(program_.actions, id, &Action::id);
    if (action == program_.actions.end())
      throw Error(TSR_E_INVALID_ARGUMENT, concat(id, " is not the id of an action of the step"));
    const auto index = static_cast<size_t>(action - program_.actions.begin());
    const auto refuse = [&](const auto&... what) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(action_words(index), " cannot run on the host: ", what...));
    };
    if (!limits_.host_obstacle.empty()) refuse(limits_.host_obstacle, "; let it run on the device");
    if (!has_equal_bits_everywhere(action->kind))
      refuse("only elementwise actions, sum_squares and optimizer can; they have the same bits on every device");
    for (const Binding& b : action->bindings)
      if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_SCALAR && find(b.buffer) == items_.end())
        refuse("its operand ", b.buffer, " (", program_.buffer(b.buffer).name, ") is not an item");
    if (program_.streams[action->stream].kind == TSR_STREAM_KIND_HOST || !on_host_.insert(index).second)
      refuse("it runs there already");
  }

  std::span<const Item>::iterator find(uint64_t buffer) const {
    const auto item = std::ranges::lower_bound(items_, buffer, {}, [](const Item& i) { return i.buffer->id; });
    return item != items_.end() && item->buffer->id == buffer ? item : items_.end();
  }

  void add(const tsr_leave& leave) {
    check_spare(leave, "tsr_leave");
    const auto item = find(leave.buffer);
    if (item == items_.end())
      throw Error(TSR_E_INVALID_ARGUMENT, concat(leave.buffer, " is not an item; an item's id is its buffer's"));
    const size_t num_visits = view_.visits().size();
    const auto refuse = [&](const auto&... what) {
      const std::string visit = leave.after < num_visits ? view_.describe(leave.after) : concat("visit ", leave.after);
      throw Error(TSR_E_INVALID_ARGUMENT, concat("item ", leave.buffer, " (", item->buffer->name,
                                                 ") cannot leave after ", visit, ": ", what...));
    };
    if (leave.after >= num_visits) refuse("the last visit of the step is ", num_visits - 1);
    const auto use = std::ranges::find(item->uses, leave.after, &tsr_use::visit);
    if (use == item->uses.end()) refuse("that visit does not use it; give the visit of one of its uses");
    if (use + 1 == item->uses.end() && !item->buffer->persistent)
      refuse("that is its last use, and nothing fetches it again");
    if (!view_.find_place(leave.memory)) refuse("memory ", leave.memory, " is not one of the view's places");
    if (!answered_.insert({leave.buffer, leave.after}).second)
      refuse("it leaves then already; give one answer for an item and a visit");
    leaves_.push_back(leave);
  }

  const Program& program_;
  const std::span<const Item> items_;
  const OffloadView view_;
  const OffloadLimits& limits_;
  std::vector<tsr_leave> leaves_;
  std::set<std::pair<uint64_t, uint32_t>> answered_;
  std::set<size_t> on_host_;  // actions
};

}  // namespace

std::vector<RestingBuffer> run_policy(Program& program, const OffloadPolicy& policy, const OffloadLimits& limits) {
  const std::vector<tsr_visit> visits = visits_of(program);
  const std::vector<Item> items = items_of(program, visits);
  const OffloadSnapshot snapshot(program, visits, items, limits);
  AnswerSink sink(program, items, snapshot.view(), limits);
  const LentTable table(AnswerSink::functions(), &sink, "the offload sink", address_of(policy.interface->plan));
  try {
    call_unchanged(policy.interface->plan, policy.instance, &snapshot.view(), &table.table());
    snapshot.check_unchanged(address_of(policy.interface->plan));
    sink.check_resting_items();
    sink.check_host_runs();
  } catch (const Error& e) {
    const std::string text = concat("offload policy ", policy.name, ": ", e.what());
    if (e.code() == TSR_E_RESOURCE_EXHAUSTED) throw PolicyRefusal(e.code(), text);
    throw Error(e.code(), text);
  }
  std::vector<RestingBuffer> resting = resting_buffers(program, sink.leaves());
  const std::vector<size_t> on_host = sink.on_host();
  if (!on_host.empty()) program.host_flag = policy.host_flag.empty() ? "--offload " + policy.name : policy.host_flag;
  move_items(program, visits, sink.leaves(), limits.device_memory_is_host, on_host);
  return resting;
}

}  // namespace tessera::host

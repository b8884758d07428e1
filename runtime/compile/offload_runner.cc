// The host's side of an offload policy: the view and the sink of offload.h. A wrong answer fails at the call that gives
// it, where the author of a policy sees it. The program is changed only when the policy has returned OK.

#include "compile/offload_runner.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/concat.h"
#include "compile/program_snapshot.h"
#include "offload/items.h"
#include "offload/movement.h"
#include "offload/visits.h"
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
  }

  const tsr_offload_view& view() const { return view_; }

 private:
  ProgramSnapshot program_;
  std::vector<tsr_item> items_;
  tsr_offload_view view_{};
};

/// Collects the answers of one policy.
class LeaveSink {
 public:
  LeaveSink(std::span<const Item> items, const tsr_offload_view& view) : items_(items), view_(view) {
    table_.struct_size = sizeof table_;
    table_.ctx = this;
    table_.leave = [](void* ctx, const tsr_leave* leave, tsr_error* err) noexcept {
      return guard(err, kDomain, [&] { static_cast<LeaveSink*>(ctx)->add(*leave); });
    };
  }

  const tsr_offload_sink& table() const { return table_; }
  const std::vector<tsr_leave>& leaves() const { return leaves_; }

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

 private:
  std::span<const Item>::iterator find(uint64_t buffer) const {
    const auto item = std::ranges::lower_bound(items_, buffer, {}, [](const Item& i) { return i.buffer->id; });
    return item != items_.end() && item->buffer->id == buffer ? item : items_.end();
  }

  void add(const tsr_leave& leave) {
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

  const std::span<const Item> items_;
  const OffloadView view_;
  tsr_offload_sink table_{};
  std::vector<tsr_leave> leaves_;
  std::set<std::pair<uint64_t, uint32_t>> answered_;
};

}  // namespace

std::vector<RestingBuffer> run_policy(Program& program, const OffloadPolicy& policy, const OffloadLimits& limits) {
  const std::vector<tsr_visit> visits = visits_of(program);
  const std::vector<Item> items = items_of(program, visits);
  const OffloadSnapshot snapshot(program, visits, items, limits);
  const LeaveSink sink(items, snapshot.view());
  try {
    call(policy.interface->plan, policy.instance, &snapshot.view(), &sink.table());
    sink.check_resting_items();
  } catch (const Error& e) {
    const std::string text = concat("offload policy ", policy.name, ": ", e.what());
    if (e.code() == TSR_E_RESOURCE_EXHAUSTED) throw PolicyRefusal(e.code(), text);
    throw Error(e.code(), text);
  }
  std::vector<RestingBuffer> resting = resting_buffers(program, sink.leaves());
  move_items(program, visits, sink.leaves(), limits.device_memory_is_host);
  return resting;
}

}  // namespace tessera::host

// Random steps: each unit has a forward and a backward visit for every micro-batch, then an update; items are used in
// any of these, at least in two, as the header promises. The program under them has one action a visit, which binds
// what the items say, and a home for each buffer of optimizer state.

#include "conformance/offload_views.h"

#include <algorithm>
#include <random>
#include <set>

#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

// The kinds of buffers that are items, and one that no policy knows.
constexpr uint32_t kKinds[] = {TSR_BUFFER_HOME,     TSR_BUFFER_GRADIENT,   TSR_BUFFER_OPTIMIZER,
                               TSR_BUFFER_GATHERED, TSR_BUFFER_ACTIVATION, TSR_BUFFER_SAVED,
                               TSR_BUFFER_PLUGIN,   TSR_BUFFER_SAVED,      1000};

std::vector<tsr_visit> random_visits(std::mt19937& random, int num_units) {
  const int num_micro_batches = 1 + static_cast<int>(random() % 3);
  std::vector<tsr_visit> visits;
  const auto add = [&](uint32_t kind, int unit, int micro_batch) {
    const uint64_t action = visits.size();
    visits.push_back({action, action, kind, unit, micro_batch, 0, static_cast<double>(random() % 1'000'000),
                      random() % 1'000'000, 0});
  };
  add(TSR_VISIT_OTHER, -1, -1);
  for (int m = 0; m < num_micro_batches; ++m) {
    for (int unit = 0; unit < num_units; ++unit)
      add(TSR_VISIT_FORWARD, unit, m);
    add(TSR_VISIT_LOSS, -1, m);
    for (int unit = num_units; unit-- > 0;)
      add(TSR_VISIT_BACKWARD, unit, m);
  }
  for (int unit = 0; unit < num_units; ++unit)
    add(TSR_VISIT_UPDATE, unit, -1);
  return visits;
}

std::vector<tsr_use> random_uses(std::mt19937& random, size_t num_visits, uint64_t num_bytes) {
  std::set<uint32_t> visits;
  const size_t num_uses = std::min<size_t>(num_visits, 2 + random() % 4);
  while (visits.size() < num_uses)
    visits.insert(static_cast<uint32_t>(random() % num_visits));
  std::vector<tsr_use> uses;
  for (const uint32_t visit : visits)
    uses.push_back({visit, random() % 2 ? TSR_MODE_READ : TSR_MODE_ADD, 1 + random() % num_bytes});
  return uses;
}

std::vector<tsr_place> random_places(std::mt19937& random) {
  const tsr_place host{TSR_MEMORY_HOST, 0, random() % 2 ? UINT64_MAX : random() % (1u << 20)};
  const tsr_place unknown{kUnknownMemory, 0, UINT64_MAX};
  switch (random() % 4) {
    case 0:
      return {};
    case 1:
      return {host};
    case 2:
      return {unknown, host};
    default:
      return {unknown};
  }
}

/// What is in use in each visit is the items that are alive in it; a limit is between half of the most and all of it.
void limit_memory(std::mt19937& random, StepPlan& step) {
  for (size_t i = 0; i < step.items.size(); ++i) {
    const bool is_persistent = (step.items[i].flags & TSR_BUFFER_PERSISTENT) != 0;
    const uint32_t first = is_persistent ? 0 : step.uses[i].front().visit;
    const auto last = is_persistent ? static_cast<uint32_t>(step.visits.size() - 1) : step.uses[i].back().visit;
    for (uint32_t v = first; v <= last; ++v)
      step.visits[v].live_bytes += step.items[i].num_bytes;
  }
  const uint64_t most = std::ranges::max(step.visits, {}, &tsr_visit::live_bytes).live_bytes;
  if (random() % 2) step.device_bytes = most / 2 + random() % (most / 2 + 1);
}

/// In an update, what an optimizer makes of an item of that kind.
uint32_t role_of(uint32_t kind) {
  return kind == TSR_BUFFER_HOME        ? TSR_ROLE_DESTINATION
         : kind == TSR_BUFFER_OPTIMIZER ? TSR_ROLE_STATE
                                        : TSR_ROLE_SOURCE;
}

}  // namespace

uint32_t action_of(const tsr_visit& visit) {
  constexpr uint32_t kActions[] = {TSR_ACTION_COPY, TSR_ACTION_FORWARD,   TSR_ACTION_BACKWARD,
                                   TSR_ACTION_LOSS, TSR_ACTION_OPTIMIZER, TSR_ACTION_CAST};
  return kActions[visit.kind];
}

StepPlan random_step(uint32_t seed) {
  std::mt19937 random(seed);
  StepPlan step;
  step.num_units = 1 + random() % 6;
  step.places = random_places(random);
  step.visits = random_visits(random, static_cast<int>(step.num_units));
  const uint64_t num_items = random() % 40;
  for (uint64_t i = 0; i < num_items; ++i) {
    const uint32_t kind = kKinds[random() % std::size(kKinds)];
    const bool is_persistent = kind == TSR_BUFFER_HOME || kind == TSR_BUFFER_OPTIMIZER;
    const uint64_t num_bytes = 4 * (1 + random() % 1'000'000);
    step.uses.push_back(random_uses(random, step.visits.size(), num_bytes));
    const auto unit = static_cast<int32_t>(random() % (step.num_units + 1)) - 1;
    // Ids ascend with gaps, as those of a program do.
    const uint64_t id = 3 * i + 1 + random() % 3;
    step.items.push_back(
        {id, {}, kind, is_persistent ? TSR_BUFFER_PERSISTENT : 0u, unit, 0, num_bytes, nullptr, step.uses[i].size()});
  }
  limit_memory(random, step);
  return step;
}

template <class T>
const T* HeldView::hold(const std::vector<T>& values) {
  pages_.push_back(std::make_unique<GuardedBytes>(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))));
  return reinterpret_cast<const T*>(pages_.back()->data());
}

tsr_str HeldView::hold(const std::string& text) {
  pages_.push_back(std::make_unique<GuardedBytes>(text));
  return {pages_.back()->data(), text.size()};
}

std::vector<tsr_action> HeldView::actions_of(const StepPlan& step) {
  std::vector<tsr_action> actions;
  for (uint32_t visit = 0; visit < step.visits.size(); ++visit) {
    std::vector<tsr_binding> bindings;
    for (size_t i = 0; i < step.items.size(); ++i)
      for (const tsr_use& use : step.uses[i])
        if (use.visit == visit)
          bindings.push_back(
              {step.items[i].buffer, 0, use.num_bytes / 4, TSR_SLOT(role_of(step.items[i].kind), i), use.mode});
    tsr_action action{};
    action.id = visit + 1;
    action.kind = action_of(step.visits[visit]);
    action.segment = action.group = action.peer = action.strategy = -1;
    action.micro_batch = step.visits[visit].micro_batch;
    action.num_bindings = bindings.size();
    action.bindings = hold(bindings);
    actions.push_back(action);
  }
  return actions;
}

std::vector<tsr_home> HeldView::homes_of(const StepPlan& step) {
  std::vector<tsr_home> homes;
  for (const tsr_item& item : step.items) {
    if (item.kind != TSR_BUFFER_OPTIMIZER) continue;
    const uint64_t num_elements = item.num_bytes / 4;
    tsr_home home{};
    home.id = 1'000 + item.buffer;
    home.name = hold("home " + std::to_string(item.buffer));
    home.unit = item.unit;
    home.num_elements = num_elements;
    const uint32_t state = item.buffer % 2 ? TSR_HOME_M : TSR_HOME_V;
    home.roles = hold(std::vector<tsr_home_role>{{state, 1, item.buffer, 0, num_elements}});
    home.num_roles = 1;
    homes.push_back(home);
  }
  return homes;
}

void HeldView::make_program(const StepPlan& step) {
  std::vector<tsr_unit> units;
  for (uint64_t i = 0; i < step.num_units; ++i)
    units.push_back({hold("h." + std::to_string(i)), 1024});
  std::vector<tsr_buffer> buffers;
  for (const tsr_item& item : step.items)
    buffers.push_back({item.buffer, item.num_bytes / 4, hold("buffer " + std::to_string(item.buffer)), item.kind,
                       TSR_MEMORY_DEVICE, TSR_F32, item.flags, -1, 0});
  tsr_program_view program{};
  program.struct_size = sizeof program;
  program.purpose = TSR_PURPOSE_STEP;
  program.reduce_every = TSR_EVERY_STEP;
  program.num_micro_batches = 1;
  program.dtype = program.reduce_dtype = TSR_F32;
  program.axis = TSR_WORLD_AXIS;
  const std::vector<tsr_action> actions = actions_of(step);
  const std::vector<tsr_home> homes = homes_of(step);
  program.units = hold(units);
  program.num_units = units.size();
  program.buffers = hold(buffers);
  program.num_buffers = buffers.size();
  program.homes = hold(homes);
  program.num_homes = homes.size();
  program.actions = hold(actions);
  program.num_actions = actions.size();
  program_ = std::make_unique<GuardedStruct<tsr_program_view>>(program);
}

HeldView::HeldView(const StepPlan& step, uint32_t num_bytes) {
  make_program(step);
  std::vector<tsr_item> items = step.items;
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].uses = hold(step.uses[i]);
    items[i].name = hold("item " + std::to_string(items[i].buffer));
  }
  tsr_offload_view view{};
  view.device_bytes = step.device_bytes;
  view.program = program_->get();
  view.places = hold(step.places);
  view.num_places = step.places.size();
  view.visits = hold(step.visits);
  view.num_visits = step.visits.size();
  view.items = hold(items);
  view.num_items = items.size();
  view_ = std::make_unique<GuardedStruct<tsr_offload_view>>(view, num_bytes);
}

tsr_status AnswerRecorder::take(std::string objection, tsr_error* err) {
  if (num_calls_++ == refused_) objection = "this answer is refused by the test";
  if (objection.empty()) return TSR_OK;
  if (refusal_.empty()) refusal_ = objection;
  fill_error(err, TSR_E_INVALID_ARGUMENT, "host", objection);
  return TSR_E_INVALID_ARGUMENT;
}

tsr_status AnswerRecorder::leave(void* ctx, const tsr_leave* answer, tsr_error* err) noexcept {
  auto& recorder = *static_cast<AnswerRecorder*>(ctx);
  const tsr_status status = recorder.take(recorder.objection_to(*answer), err);
  if (status == TSR_OK) recorder.answers_.push_back(*answer);
  return status;
}

tsr_status AnswerRecorder::run_on_host(void* ctx, uint64_t action, tsr_error* err) noexcept {
  auto& recorder = *static_cast<AnswerRecorder*>(ctx);
  const tsr_status status = recorder.take(recorder.objection_to_host_run(action), err);
  if (status == TSR_OK) recorder.host_runs_.push_back(action);
  return status;
}

std::string AnswerRecorder::objection_to_host_run(uint64_t action) const {
  if (action == 0 || action > step_.visits.size()) return "it is not the id of an action";
  const uint32_t kind = action_of(step_.visits[action - 1]);
  if (kind != TSR_ACTION_OPTIMIZER && kind != TSR_ACTION_CAST) return "an action of its kind runs on the device";
  return std::ranges::count(host_runs_, action) ? "the action runs on the host already" : "";
}

bool AnswerRecorder::leaves_for_host(uint64_t buffer, uint32_t after) const {
  return std::ranges::any_of(answers_, [&](const tsr_leave& a) {
    return a.buffer == buffer && a.after == after && a.memory == TSR_MEMORY_HOST;
  });
}

std::string AnswerRecorder::objection_to_host_runs() const {
  const auto runs_on_host = [&](const tsr_use& use) { return std::ranges::count(host_runs_, use.visit + 1) > 0; };
  for (size_t i = 0; i < step_.items.size(); ++i) {
    const tsr_item& item = step_.items[i];
    const bool is_persistent = item.flags & TSR_BUFFER_PERSISTENT;
    const tsr_use* on_device = nullptr;  // the last use
    for (const tsr_use& use : step_.uses[i]) {
      if (!runs_on_host(use)) {
        on_device = &use;
        continue;
      }
      if (is_persistent && !leaves_for_host(item.buffer, step_.uses[i].back().visit))
        return "an item of an action on the host does not rest there";
      if (on_device ? !leaves_for_host(item.buffer, on_device->visit) : !is_persistent)
        return "an item of an action on the host is in device memory then";
    }
  }
  return "";
}

std::string AnswerRecorder::objection_to(const tsr_leave& answer) const {
  const auto found = std::ranges::find(step_.items, answer.buffer, &tsr_item::buffer);
  if (found == step_.items.end()) return "the buffer is not an item";
  const auto& uses = step_.uses[static_cast<size_t>(found - step_.items.begin())];
  if (!std::ranges::count(uses, answer.after, &tsr_use::visit)) return "the visit does not use the item";
  if (uses.back().visit == answer.after && !(found->flags & TSR_BUFFER_PERSISTENT))
    return "it is a transient item's last use";
  if (!std::ranges::count(step_.places, answer.memory, &tsr_place::memory)) return "the memory is not a place";
  if (std::ranges::any_of(answers_,
                          [&](const tsr_leave& a) { return a.buffer == answer.buffer && a.after == answer.after; }))
    return "the item and the visit have an answer";
  return "";
}

std::string AnswerRecorder::objection_at_the_end() const {
  for (const tsr_leave& answer : answers_) {
    const auto item = std::ranges::find(step_.items, answer.buffer, &tsr_item::buffer);
    if (!(item->flags & TSR_BUFFER_PERSISTENT)) continue;
    const uint32_t last = step_.uses[static_cast<size_t>(item - step_.items.begin())].back().visit;
    bool rests = false;
    for (const tsr_leave& other : answers_) {
      if (other.buffer != answer.buffer) continue;
      if (other.memory != answer.memory) return "a persistent item leaves for two memories";
      rests |= other.after == last;
    }
    if (!rests) return "a persistent item leaves and stays after its last use";
  }
  return objection_to_host_runs();
}

}  // namespace tessera::testing

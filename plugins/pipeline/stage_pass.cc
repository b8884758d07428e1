// The rewriting of pipeline. Of two stages, 1f1b with 3 micro-batches, the end of stage 0's first forward and the first
// receive of stage 1 (tests/golden/programs/two-blocks-pipeline-stage-0.txt and -1.txt):
//
//     10    compute               forward h.0.add mb=0  ...  w %38 o:h.1.x
//     11    comm.pp.activation_0  send mb=0 group=pp{0,1} peer=1 tag=36  r %38 src  # 10
//     12    compute               forward wte mb=1  ...
//
//     1     comm.pp.activation_0  recv mb=0 group=pp{0,1} peer=0 tag=36  w %21 dst
//     2     compute               forward h.1.ln_1 mb=0  ...  r %21 i:x  ...  # 1
//
// The base program holds the whole model. The pass removes the compute of other stages, drops the homes that this stage
// does not use, sorts the rest by the schedule's items, and adds a send after the last writer of what leaves a part and
// a receive for what enters it. All stages start from one base program, so both ends of a message know its size without
// asking one another.
//
// Actions that a schedule does not know (a collective of another pass) are refused: there is no right place for them.
//
// Cost: linear in the actions of the whole model, and for each gradient that is sent one look through a stage's items.

#include "stage_pass.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tessera/collective.hpp"

namespace tessera::pipeline {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

bool is_compute(const tsr_action& action) {
  return action.kind >= TSR_ACTION_FORWARD && action.kind <= TSR_ACTION_LOSS;
}

/// Of the actions that the host's program does not begin with.
std::string name_of(uint32_t action_kind) {
  constexpr uint32_t kFirst = TSR_ACTION_COLLECTIVE(0);
  if (action_kind > kFirst && action_kind <= TSR_ACTION_BARRIER)
    return std::string("a collective (") + collective_name(action_kind - kFirst) + ")";
  if (action_kind == TSR_ACTION_CALL) return "a call of its own";
  return action_kind == TSR_ACTION_SCALE ? "a scale" : "a copy";
}

/// The position after the last action that writes the buffer; if none does, after all.
size_t behind_last_writer(std::span<const tsr_action* const> actions, uint64_t buffer) {
  for (size_t i = actions.size(); i-- > 0;)
    for (const tsr_binding& b : ProgramView::bindings(*actions[i]))
      if (b.buffer == buffer && b.mode != TSR_MODE_READ) return i + 1;
  return actions.size();
}

}  // namespace

StagePass::StagePass(const ProgramView& view, const Edit& edit, Schedule schedule, const Shape& shape,
                     std::span<const Part> parts)
    : view_(view), edit_(edit), schedule_(schedule), shape_(shape), parts_(parts) {}

void StagePass::drop_homes(const std::vector<std::vector<int32_t>>& stages_by_layout) {
  for (const tsr_home& home : view_.homes()) {
    const auto& stages = stages_by_layout[static_cast<size_t>(home.pieces[0].parameter)];
    if (stages.empty() || std::ranges::find(stages, stage()) != stages.end()) continue;
    dropped_homes_.insert(home.id);
  }
  const std::vector<uint64_t> all(dropped_homes_.begin(), dropped_homes_.end());
  if (!all.empty()) edit_.replace_homes(all, nullptr);
}

void StagePass::run(std::span<const Item> items) {
  find_crossings();
  sort_actions();
  for (const tsr_action* action : before_)
    order_.push_back(action->id);
  bool is_received = false;  // what the item needs
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_received) append_receives(items[i]);
    is_received = i + 1 < items.size() && receives_early(schedule_, shape_, stage(), items[i], items[i + 1]);
    if (is_received) append_receives(items[i + 1]);
    append_item(items[i]);
  }
  for (const tsr_action* action : after_)
    order_.push_back(action->id);
  edit_.order(order_);
  wait_for_answered_sends();
}

int StagePass::part_of(int segment) const {
  const auto after = std::ranges::upper_bound(parts_, segment, {}, &Part::begin);
  return static_cast<int>(after - parts_.begin()) - 1;
}

/// The buffers of the values that enter parts, and of their gradients: all stages' programs come from one base, so a
/// buffer has the same id and size on both sides. A value whose producer has no backward (frozen parameters) has no
/// gradient.
void StagePass::find_crossings() {
  std::set<int> entering;
  for (const Part& part : parts_)
    entering.insert(part.entering);
  for (const tsr_action& action : view_.actions()) {
    if (!is_compute(action)) continue;
    const tsr_segment& segment = view_.segments()[static_cast<size_t>(action.segment)];
    for (const tsr_binding& b : ProgramView::bindings(action)) {
      const uint32_t role = TSR_SLOT_ROLE(b.slot);
      if (role != TSR_ROLE_OUTPUT && role != TSR_ROLE_OUTPUT_GRADIENT) continue;
      const int value = segment.outputs[TSR_SLOT_INDEX(b.slot)];
      if (!entering.contains(value)) continue;
      (role == TSR_ROLE_OUTPUT ? activations_ : gradients_)[{value, action.micro_batch}] = b;
    }
  }
}

/// Puts every action into an item, before or after all items, or removes it.
void StagePass::sort_actions() {
  std::vector<const tsr_action*> casts;
  for (const tsr_action& action : view_.actions()) {
    if (action.home && dropped_homes_.contains(action.home)) continue;  // gone with its home
    if (is_compute(action))
      sort_compute(action);
    else if (action.kind == TSR_ACTION_ADD_INTO && action.home && action.micro_batch >= 0)
      sort_gradient_add(action);
    else if (action.kind == TSR_ACTION_CAST)
      casts.push_back(&action);
    else if (action.kind == TSR_ACTION_ZERO)
      before_.push_back(&action);
    else if (action.kind >= TSR_ACTION_SUM_SQUARES && action.kind <= TSR_ACTION_OPTIMIZER)
      after_.push_back(&action);
    else
      throw Error(TSR_E_UNSUPPORTED, "another pass has put " + name_of(action.kind) +
                                         " into the program, which a schedule does not know where to put");
  }
  keep_casts_that_are_read(casts);
}

void StagePass::sort_compute(const tsr_action& action) {
  const int part = part_of(action.segment);
  if (part % shape_.num_stages != stage()) return edit_.remove(action.id);
  bool is_forward = action.kind == TSR_ACTION_FORWARD || action.kind == TSR_ACTION_RECOMPUTE;
  if (is_of_loss(view_.segments()[static_cast<size_t>(action.segment)]))
    is_forward = view_.raw.purpose == TSR_PURPOSE_EVAL;
  of_item_[{is_forward, action.micro_batch, part / shape_.num_stages}].push_back(&action);
}

/// After the last backward that adds to the gradient: that of the first part on this stage that uses the parameter.
void StagePass::sort_gradient_add(const tsr_action& action) {
  const auto home = std::ranges::find(view_.homes(), action.home, &tsr_home::id);
  const int32_t parameter = home->pieces[0].parameter;
  for (size_t s = 0; s < view_.segments().size(); ++s) {
    const tsr_segment& segment = view_.segments()[s];
    const int part = part_of(static_cast<int>(s));
    if (part % shape_.num_stages != stage()) continue;
    if (std::ranges::count(std::span(segment.parameters, segment.num_parameters), parameter) == 0) continue;
    of_item_[{false, action.micro_batch, part / shape_.num_stages}].push_back(&action);
    return;
  }
}

void StagePass::keep_casts_that_are_read(const std::vector<const tsr_action*>& casts) {
  std::set<uint64_t> read;
  for (const auto& [item, actions] : of_item_)
    for (const tsr_action* action : actions)
      for (const tsr_binding& b : ProgramView::bindings(*action))
        read.insert(b.buffer);
  for (const tsr_action* cast : casts) {
    const auto is_read = [&](const tsr_binding& b) { return b.slot == kDestination && read.contains(b.buffer); };
    if (std::ranges::any_of(ProgramView::bindings(*cast), is_read))
      before_.push_back(cast);
    else
      edit_.remove(cast->id);
  }
}

/// What an item needs of its neighbours: the value that enters its part, or the gradient of the one that leaves it.
void StagePass::append_receives(const Item& item) {
  const int part = item.chunk * shape_.num_stages + stage();
  const int from = item.is_forward ? part - 1 : part + 1;
  if (from < 0 || from > last_part()) return;
  const Crossing crossing{parts_[static_cast<size_t>(std::max(from, part))].entering, item.micro_batch};
  const auto& places = item.is_forward ? activations_ : gradients_;
  const auto place = places.find(crossing);
  if (place == places.end()) return;
  order_.push_back(message(TSR_ACTION_RECV, item.is_forward, from, part, place->second, crossing));
}

/// The item's compute, and what leaves it right after the action that completes it.
void StagePass::append_item(const Item& item) {
  const std::vector<const tsr_action*>& actions = of_item_[key(item)];
  const int part = item.chunk * shape_.num_stages + stage();
  const int to = item.is_forward ? part + 1 : part - 1;
  std::optional<size_t> send_at;
  uint64_t send = 0;
  if (to >= 0 && to <= last_part()) {
    const Crossing crossing{parts_[static_cast<size_t>(std::max(part, to))].entering, item.micro_batch};
    const auto& places = item.is_forward ? activations_ : gradients_;
    if (const auto place = places.find(crossing); place != places.end()) {
      send = message(TSR_ACTION_SEND, item.is_forward, part, to, place->second, crossing);
      send_at = behind_last_writer(actions, place->second.buffer);
    }
  }
  for (size_t i = 0; i <= actions.size(); ++i) {
    if (send_at == i) order_.push_back(send);
    if (i < actions.size()) order_.push_back(actions[i]->id);
  }
}

/// Two stages that exchange messages have communicators of their own, one per direction and kind, named by the sender:
/// so on each stage a stream only sends or only receives, and what is received never waits for what is sent.
uint64_t StagePass::message(uint32_t kind, bool is_activation, int from_part, int to_part, const tsr_binding& what,
                            const Crossing& crossing) {
  const int32_t from = from_part % shape_.num_stages, to = to_part % shape_.num_stages;
  const int32_t pair[] = {std::min(from, to), std::max(from, to)};
  const bool sends = kind == TSR_ACTION_SEND;
  const std::string lane = (is_activation ? "activation_" : "gradient_") + std::to_string(from);
  tsr_action action = make_action(kind, edit_.stream(view_.raw.axis, lane));
  action.micro_batch = crossing.second;
  action.group = edit_.group(view_.raw.axis, pair);
  action.peer = (sends ? to : from) == pair[0] ? 0 : 1;
  action.tag =
      static_cast<uint64_t>(crossing.first) * view_.raw.num_micro_batches + static_cast<uint64_t>(crossing.second);
  const tsr_binding operand{what.buffer, what.offset, what.num_elements, sends ? kSource : kDestination,
                            sends ? TSR_MODE_READ : TSR_MODE_WRITE};
  const uint64_t id = edit_.insert(0, TSR_AFTER, action, {&operand, 1});
  (sends ? sends_ : receives_)[{is_activation, crossing.second, std::max(from_part, to_part)}] = id;
  return id;
}

/// The first activation that the stage of `part` sends here once it has run that part's backward of a micro-batch.
std::optional<StagePass::Message> StagePass::next_activation_after(int micro_batch, int part) const {
  const int other = part % shape_.num_stages;
  const std::vector<Item> items = step_items(schedule_, shape_, other);
  const auto backward = std::ranges::find(items, Item{false, micro_batch, part / shape_.num_stages});
  for (auto item = backward; item != items.end(); ++item) {
    const int next = item->chunk * shape_.num_stages + other + 1;
    if (item->is_forward && next <= last_part() && next % shape_.num_stages == stage())
      return Message{true, item->micro_batch, next};
  }
  return std::nullopt;
}

/// A send lasts until the other stage has received, so the host lets nothing wait for one of itself: what was sent
/// would keep its memory to the end of the step. But what comes back tells that it has arrived: the gradient of a value
/// that was sent, and the next activation of a stage that has run the backward for which a gradient was sent.
void StagePass::wait_for_answered_sends() {
  std::map<uint64_t, size_t> position;
  for (size_t i = 0; i < order_.size(); ++i)
    position[order_[i]] = i;
  for (const auto& [message, send] : sends_) {
    const auto [is_activation, micro_batch, part] = message;
    std::optional<Message> answer;
    if (is_activation)
      answer = Message{false, micro_batch, part};
    else
      answer = next_activation_after(micro_batch, part - 1);
    if (!answer) continue;
    const auto receive = receives_.find(*answer);
    if (receive != receives_.end() && position.at(receive->second) > position.at(send))
      edit_.wait_for(receive->second, send);
  }
}

}  // namespace tessera::pipeline

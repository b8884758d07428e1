// Rewrites a program for one stage. Two stages, 1f1b with 3 micro-batches: the end of stage 0's first forward and the
// first receive of stage 1 (tests/golden/programs/two-blocks-pipeline-stage-0.txt and -1.txt):
//
//     10    compute               forward h.0.add mb=0  ...  w %38 o:h.1.x
//     11    comm.pp.activation_0  send mb=0 group=pp{0,1} peer=1 tag=36  r %38 src  # 10
//     12    compute               forward wte mb=1  ...
//
//     1     comm.pp.activation_0  recv mb=0 group=pp{0,1} peer=0 tag=36  w %21 dst
//     2     compute               forward h.1.ln_1 mb=0  ...  r %21 i:x  ...  # 1
//
// The base program holds the whole model. The pass removes the compute of other stages, drops the homes that this stage
// does not use, sorts the rest by the schedule, and inserts a send after the last writer of a value that leaves a
// virtual stage and a receive for one that enters. All stages start from the same base program, so both ends of a
// message know its size.
//
// Other actions (a collective of another pass) are refused: the schedule has no place for them.
//
// Cost: linear in the actions of the whole model, plus one scan of a stage's schedule for each gradient that is sent.

#include "stage_pass.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tessera/collective.hpp"

namespace tessera::pipeline {
namespace {

/// The names of actions that the host's base program does not have.
std::string name_of(uint32_t action_kind) {
  constexpr uint32_t kFirst = TSR_ACTION_COLLECTIVE(0);
  if (action_kind > kFirst && action_kind <= TSR_ACTION_BARRIER)
    return std::string("a collective (") + collective_name(action_kind - kFirst) + ")";
  if (action_kind == TSR_ACTION_CALL) return "a call of its own";
  if (action_kind == TSR_ACTION_ADD_INTO) return "an add";
  return action_kind == TSR_ACTION_SCALE ? "a scale" : "a copy";
}

/// The position after the last action that writes the buffer; the end if none does.
size_t after_last_writer(std::span<const tsr_action* const> actions, uint64_t buffer) {
  for (size_t i = actions.size(); i-- > 0;)
    for (const tsr_binding& b : ProgramView::bindings(*actions[i]))
      if (b.buffer == buffer && b.mode != TSR_MODE_READ) return i + 1;
  return actions.size();
}

}  // namespace

StagePass::StagePass(const ProgramView& view, const Edit& edit, Schedule schedule, const Shape& shape,
                     std::span<const VirtualStage> virtual_stages)
    : view_(view), edit_(edit), schedule_(schedule), shape_(shape), virtual_stages_(virtual_stages) {}

void StagePass::drop_homes(const std::vector<std::vector<int32_t>>& stages_by_layout) {
  for (const tsr_home& home : view_.homes()) {
    const auto& stages = stages_by_layout[static_cast<size_t>(home.pieces[0].parameter)];
    if (stages.empty() || std::ranges::find(stages, stage()) != stages.end()) continue;
    dropped_homes_.insert(home.id);
  }
  const std::vector<uint64_t> all(dropped_homes_.begin(), dropped_homes_.end());
  if (!all.empty()) edit_.replace_homes(all, nullptr);
}

void StagePass::run(std::span<const ScheduledAction> schedule) {
  find_boundary_values();
  sort_actions();
  for (const tsr_action* action : before_)
    order_.push_back(action->id);
  bool is_received = false;  // the input of schedule[i]
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (!is_received) append_receives(schedule[i]);
    is_received = i + 1 < schedule.size() && receives_early(schedule_, shape_, stage(), schedule[i], schedule[i + 1]);
    if (is_received) append_receives(schedule[i + 1]);
    append_compute(schedule[i]);
  }
  for (const tsr_action* action : after_)
    order_.push_back(action->id);
  edit_.order(order_);
  wait_for_answered_sends();
}

int StagePass::virtual_stage_of(int segment) const {
  const auto after = std::ranges::upper_bound(virtual_stages_, segment, {}, &VirtualStage::begin);
  return static_cast<int>(after - virtual_stages_.begin()) - 1;
}

/// The buffers of the values that enter virtual stages, and of their gradients: all stages start from the same base
/// program, so a buffer has the same id and size on both sides. A gradient goes to where it is read. That need not be
/// the value's producer: with frozen position embeddings the backward of wte reads what they would have passed on
/// unchanged, in the same buffer, or the whole of it that tensor parallelism makes of that.
void StagePass::find_boundary_values() {
  std::map<int, int> entering;  // value -> first segment of the stage that it enters
  for (const VirtualStage& virtual_stage : virtual_stages_)
    entering.emplace(virtual_stage.entering, virtual_stage.begin);
  std::map<uint64_t, int> first_reader;   // buffer with a gradient -> segment
  std::map<int32_t, int> first_of_whole;  // value in rows -> segment that reads the gradient of its whole
  for_operands(TSR_ROLE_OUTPUT_GRADIENT, [&](const tsr_action& action, const tsr_binding& b) {
    const auto known = first_reader.try_emplace(b.buffer, action.segment).first;
    known->second = std::min(known->second, action.segment);
    if (const int32_t rows = view_.raw.values[segment_of(action).outputs[TSR_SLOT_INDEX(b.slot)]].same_as; rows >= 0)
      first_of_whole.try_emplace(with_gradient_of(rows), action.segment);
  });
  for (const auto& [role, places] :
       {std::pair(TSR_ROLE_OUTPUT, &activations_), std::pair(TSR_ROLE_OUTPUT_GRADIENT, &gradients_)})
    for_operands(role, [&, to = places](const tsr_action& action, const tsr_binding& b) {
      if (const int value = segment_of(action).outputs[TSR_SLOT_INDEX(b.slot)]; entering.contains(value))
        (*to)[{value, action.micro_batch}] = b;
    });
  for_operands(TSR_ROLE_INPUT_GRADIENT, [&](const tsr_action& action, const tsr_binding& b) {
    const auto entered = entering.find(segment_of(action).inputs[TSR_SLOT_INDEX(b.slot)]);
    if (entered == entering.end()) return;
    const auto reader = first_reader.find(b.buffer);
    const auto of_whole = first_of_whole.find(with_gradient_of(entered->first));
    if ((reader != first_reader.end() && reader->second < entered->second) ||
        (of_whole != first_of_whole.end() && of_whole->second < entered->second))
      gradients_.try_emplace({entered->first, action.micro_batch}, b);
  });
}

/// The value whose gradient's buffer is that of `value` too.
int32_t StagePass::with_gradient_of(int32_t value) const {
  while (view_.raw.values[value].gradient_of >= 0)
    value = view_.raw.values[value].gradient_of;
  return value;
}

void StagePass::for_operands(uint32_t role, const std::function<void(const tsr_action&, const tsr_binding&)>& visit) {
  for (const tsr_action& action : view_.actions())
    if (is_compute(action))
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (TSR_SLOT_ROLE(b.slot) == role) visit(action, b);
}

const tsr_segment& StagePass::segment_of(const tsr_action& action) const {
  return view_.segments()[static_cast<size_t>(action.segment)];
}

/// Assigns every action to a scheduled one, before or after all of them, or removes it.
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
      throw Error(TSR_E_UNSUPPORTED, "another pass has inserted " + name_of(action.kind) +
                                         " into the program, which the pipeline cannot schedule");
  }
  keep_casts_that_are_read(casts);
}

void StagePass::sort_compute(const tsr_action& action) {
  const int virtual_stage = virtual_stage_of(action.segment);
  if (virtual_stage % shape_.num_stages != stage()) return edit_.remove(action.id);
  bool is_forward = action.kind == TSR_ACTION_FORWARD || action.kind == TSR_ACTION_RECOMPUTE;
  if (is_of_loss(view_.segments()[static_cast<size_t>(action.segment)]))
    is_forward = view_.raw.purpose == TSR_PURPOSE_EVAL;
  actions_of_[{is_forward, action.micro_batch, virtual_stage / shape_.num_stages}].push_back(&action);
}

/// Goes with the last backward that adds to the gradient: that of the first virtual stage here that uses the parameter.
void StagePass::sort_gradient_add(const tsr_action& action) {
  const auto home = std::ranges::find(view_.homes(), action.home, &tsr_home::id);
  const int32_t parameter = home->pieces[0].parameter;
  for (size_t s = 0; s < view_.segments().size(); ++s) {
    const tsr_segment& segment = view_.segments()[s];
    const int virtual_stage = virtual_stage_of(static_cast<int>(s));
    if (virtual_stage % shape_.num_stages != stage()) continue;
    if (std::ranges::count(std::span(segment.parameters, segment.num_parameters), parameter) == 0) continue;
    actions_of_[{false, action.micro_batch, virtual_stage / shape_.num_stages}].push_back(&action);
    return;
  }
}

void StagePass::keep_casts_that_are_read(const std::vector<const tsr_action*>& casts) {
  std::set<uint64_t> read;
  for (const auto& [scheduled, actions] : actions_of_)
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

/// Receives an action's input from another stage: the value that enters, or the gradient of the value that leaves.
void StagePass::append_receives(const ScheduledAction& scheduled) {
  const int virtual_stage = scheduled.chunk * shape_.num_stages + stage();
  const int from = scheduled.is_forward ? virtual_stage - 1 : virtual_stage + 1;
  if (from < 0 || from > last_virtual_stage()) return;
  const BoundaryValue boundary_value{virtual_stages_[static_cast<size_t>(std::max(from, virtual_stage))].entering,
                                     scheduled.micro_batch};
  const auto& places = scheduled.is_forward ? activations_ : gradients_;
  const auto place = places.find(boundary_value);
  if (place == places.end()) return;
  order_.push_back(message(TSR_ACTION_RECV, scheduled.is_forward, from, virtual_stage, place->second, boundary_value));
}

/// Appends the action's compute, and the send of its result directly after the result's last writer.
void StagePass::append_compute(const ScheduledAction& scheduled) {
  const std::vector<const tsr_action*>& actions = actions_of_[key(scheduled)];
  const int virtual_stage = scheduled.chunk * shape_.num_stages + stage();
  const int to = scheduled.is_forward ? virtual_stage + 1 : virtual_stage - 1;
  std::optional<size_t> send_at;
  uint64_t send = 0;
  if (to >= 0 && to <= last_virtual_stage()) {
    const BoundaryValue boundary_value{virtual_stages_[static_cast<size_t>(std::max(virtual_stage, to))].entering,
                                       scheduled.micro_batch};
    const auto& places = scheduled.is_forward ? activations_ : gradients_;
    if (const auto place = places.find(boundary_value); place != places.end()) {
      send = message(TSR_ACTION_SEND, scheduled.is_forward, virtual_stage, to, place->second, boundary_value);
      send_at = after_last_writer(actions, place->second.buffer);
    }
  }
  for (size_t i = 0; i <= actions.size(); ++i) {
    if (send_at == i) order_.push_back(send);
    if (i < actions.size()) order_.push_back(actions[i]->id);
  }
}

/// Two stages that exchange messages have one communicator per direction and kind, named by the sender, so on each
/// stage a stream either sends or receives, and a receive never waits for a send.
uint64_t StagePass::message(uint32_t kind, bool is_activation, int from_index, int to_index, const tsr_binding& what,
                            const BoundaryValue& boundary_value) {
  const int32_t from = from_index % shape_.num_stages, to = to_index % shape_.num_stages;
  const int32_t pair[] = {std::min(from, to), std::max(from, to)};
  const bool sends = kind == TSR_ACTION_SEND;
  const std::string lane = (is_activation ? "activation_" : "gradient_") + std::to_string(from);
  tsr_action action = make_action(kind, edit_.stream(view_.raw.axis, lane));
  action.micro_batch = boundary_value.second;
  action.group = edit_.group(view_.raw.axis, pair);
  action.peer = (sends ? to : from) == pair[0] ? 0 : 1;
  action.tag = static_cast<uint64_t>(boundary_value.first) * view_.raw.num_micro_batches +
               static_cast<uint64_t>(boundary_value.second);
  const tsr_binding operand{what.buffer, what.offset, what.num_elements, sends ? kSource : kDestination,
                            sends ? TSR_MODE_READ : TSR_MODE_WRITE};
  const uint64_t id = edit_.insert(0, TSR_AFTER, action, {&operand, 1});
  (sends ? sends_ : receives_)[{is_activation, boundary_value.second, std::max(from_index, to_index)}] = id;
  return id;
}

/// The first activation that the stage of `virtual_stage` sends here after that one's backward of a micro-batch.
std::optional<StagePass::MessageKey> StagePass::next_activation_after(int micro_batch, int virtual_stage) const {
  const int other = virtual_stage % shape_.num_stages;
  const std::vector<ScheduledAction> schedule = step_schedule(schedule_, shape_, other);
  const auto backward =
      std::ranges::find(schedule, ScheduledAction{false, micro_batch, virtual_stage / shape_.num_stages});
  for (auto scheduled = backward; scheduled != schedule.end(); ++scheduled) {
    const int next = scheduled->chunk * shape_.num_stages + other + 1;
    if (scheduled->is_forward && next <= last_virtual_stage() && next % shape_.num_stages == stage())
      return MessageKey{true, scheduled->micro_batch, next};
  }
  return std::nullopt;
}

/// A send lasts until the other stage has received, so the host adds no waits for sends, and sent buffers would keep
/// their memory until the end of the step. But a later message proves the arrival: the gradient of the value that was
/// sent, or the next activation of a stage that has run the backward to which a gradient was sent.
void StagePass::wait_for_answered_sends() {
  std::map<uint64_t, size_t> position;
  for (size_t i = 0; i < order_.size(); ++i)
    position[order_[i]] = i;
  for (const auto& [message, send] : sends_) {
    const auto [is_activation, micro_batch, virtual_stage] = message;
    std::optional<MessageKey> answer;
    if (is_activation)
      answer = MessageKey{false, micro_batch, virtual_stage};
    else
      answer = next_activation_after(micro_batch, virtual_stage - 1);
    if (!answer) continue;
    const auto receive = receives_.find(*answer);
    if (receive != receives_.end() && position.at(receive->second) > position.at(send))
      edit_.wait_for(receive->second, send);
  }
}

}  // namespace tessera::pipeline

// Inserts copies between device and host memory around actions that work on the host. A reduction of ddp,
//
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
//
// becomes, with gloo beside a device with memory of its own (tests/golden/programs/two-blocks-ddp-staged.txt)
//
//     %88 = staging bucket 0 of dp host f32[32000]
//     44    copy_out            copy  r %61 src  w %88 dst  # 43
//     45    comm.dp.gradient    all_reduce group=dp reduce=sum  a %88 dst  w %89 w:0  # 44
//     46    copy_in             copy  r %88 src  w %61 dst  # 45
//
// They are actions like any other: the verifiers check them, the planner gives the staging buffers addresses in pinned
// host memory, and the derived waits let them overlap with compute.
//
// The copy after a receive is inserted in front of the first action that touches the value, not right after the
// receive. Schedules post receives long before they are needed, and copy_in is first in, first out: one early copy
// would hold up those of all later sums (with pp=4, dp=2, tp=2 and 8 micro-batches, 48.9 % idle slots against 27.3 %;
// decision 0018).
//
// Cost: linear in the bindings, plus the receives that are open at a time for each action.

#include "passes/host_staging.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "program/collective_operands.h"

namespace tessera::host {
namespace {

/// A part of a binding, in elements from its start.
struct Part {
  uint64_t begin, end;
};

/// The parts copied between a binding and its staging buffer: out before the action, in after it.
struct Passage {
  Part out, in;
};

Passage passage_of(const Action& action, const CollectiveOperands* form, const Binding& binding) {
  const Part none{0, 0}, all{0, binding.num_elements};
  if (binding.mode == TSR_MODE_READ) return {all, none};
  if (binding.mode == TSR_MODE_WRITE) return {none, all};
  const bool gathers = action.kind == TSR_ACTION_ALL_GATHER, scatters = action.kind == TSR_ACTION_REDUCE_SCATTER;
  // In place, only the own slice is an operand of a gather, and only the own slice a result of a scatter.
  if (!form || !(gathers || scatters)) return {all, all};
  const auto offsets = slice_offsets(action, binding.num_elements, form->num_ranks);
  const Part own{offsets[form->position], offsets[form->position + 1]};
  return gathers ? Passage{own, all} : Passage{all, own};
}

class Stager {
 public:
  Stager(Program& program, const StagedKinds& kinds) : program_(program), kinds_(kinds) {}

  void run() {
    for (Action& action : std::exchange(program_.actions, {})) {
      if (is_collective(action.kind) && kinds_.collectives)
        stage_collective(std::move(action));
      else if (action.kind == TSR_ACTION_CALL && kinds_.calls)
        stage(std::move(action), nullptr);
      else
        append(std::move(action));
    }
    std::ranges::move(awaited_, std::back_inserter(program_.actions));
  }

 private:
  void stage_collective(Action action) {
    const CollectiveOperands form(program_, action);
    if (form.num_ranks > 1) return stage(std::move(action), &form);
    if (form.source && form.destination && !overlap(*form.source, *form.destination)) turn_into_copy(action);
    append(std::move(action));
  }

  void turn_into_copy(Action& action) const {
    action.kind = TSR_ACTION_COPY;
    action.stream = TSR_STREAM_COPY_IN;
    action.group = action.peer = -1;
    action.reduce = 0;
    action.counts.clear();
  }

  void stage(Action action, const CollectiveOperands* form) {
    std::vector<Action> copies_in;
    for (Binding& binding : action.bindings) {
      const Buffer buffer = program_.buffer(binding.buffer);
      if (buffer.memory != TSR_MEMORY_DEVICE || binding.num_elements == 0) continue;
      const Binding device = binding;
      binding.offset = 0;
      binding.buffer = program_.add_buffer(
          {0, buffer.name, TSR_BUFFER_STAGING, TSR_MEMORY_HOST, buffer.dtype, false, binding.num_elements});
      const auto [out, in] = passage_of(action, form, device);
      if (out.begin < out.end) append(copy(TSR_STREAM_COPY_OUT, device, binding, out));
      if (in.begin < in.end) copies_in.push_back(copy(TSR_STREAM_COPY_IN, binding, device, in));
    }
    const bool receives = is_message(action.kind);
    append(std::move(action));
    for (Action& back : copies_in)
      receives ? await(std::move(back)) : append(std::move(back));
  }

  Action copy(uint32_t stream, Binding from, Binding to, const Part& part) {
    for (Binding* range : {&from, &to}) {
      range->offset += part.begin;
      range->num_elements = part.end - part.begin;
    }
    return copy_action(program_, stream, from, to);
  }

  void append(Action action) {
    append_awaited_by(action);
    program_.actions.push_back(std::move(action));
  }

  void await(Action back) {
    append_awaited_by(back);
    awaited_.push_back(std::move(back));
  }

  /// Appends the postponed copies whose ranges `action` touches, in the order of their receives.
  void append_awaited_by(const Action& action) {
    const auto is_touched = [&](const Action& back) {
      return std::ranges::any_of(action.bindings,
                                 [&](const Binding& binding) { return overlap(binding, *back.find(kDestination)); });
    };
    const auto touched = std::stable_partition(awaited_.begin(), awaited_.end(), std::not_fn(is_touched));
    std::move(touched, awaited_.end(), std::back_inserter(program_.actions));
    awaited_.erase(touched, awaited_.end());
  }

  Program& program_;
  const StagedKinds kinds_;
  std::vector<Action> awaited_;  // copies of received operands, until an action touches their range
};

bool is_staging(const Buffer& buffer) {
  return buffer.kind == TSR_BUFFER_STAGING && buffer.memory == TSR_MEMORY_HOST;
}

}  // namespace

Action copy_action(Program& program, uint32_t stream, Binding from, Binding to) {
  from.slot = kSource;
  from.mode = TSR_MODE_READ;
  to.slot = kDestination;
  to.mode = TSR_MODE_WRITE;
  Action action;
  action.id = program.next_id++;
  action.kind = TSR_ACTION_COPY;
  action.stream = stream;
  action.bindings = {from, to};
  return action;
}

void stage_through_host(Program& program, const StagedKinds& kinds) {
  Stager(program, kinds).run();
}

bool brings_back(const Program& program, const Action& action) {
  const Binding* source = action.kind == TSR_ACTION_COPY ? action.find(kSource) : nullptr;
  return source && is_staging(program.buffer(source->buffer));
}

StagedRanges::StagedRanges(const Program& program) {
  for (const Action& action : program.actions) {
    if (action.kind != TSR_ACTION_COPY) continue;
    const Binding *source = action.find(kSource), *destination = action.find(kDestination);
    if (!source || !destination) continue;  // a program that is yet to be verified
    for (const auto& [staging, other] : {std::pair(source, destination), std::pair(destination, source)})
      if (is_staging(program.buffer(staging->buffer)))
        places_.try_emplace(staging->buffer, Place{other->buffer, other->offset - staging->offset});
  }
}

Binding StagedRanges::of(Binding range) const {
  const auto place = places_.find(range.buffer);
  if (place == places_.end()) return range;
  range.buffer = place->second.buffer;
  range.offset += place->second.shift;
  return range;
}

}  // namespace tessera::host

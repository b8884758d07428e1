// Activation checkpointing as a pass (Chen et al. 2016; `attention` alone: Korthikanti et al. 2022). Under fsdp, with
// --recompute=full, the backward of h.0.fc_proj was
//
//     12    compute    forward h.0.fc_gelu mb=0  ...  r %38 i:norm_2  w %41 o:hidden  w %42 s:0
//     ...
//     44    compute    backward h.0.fc_proj mb=0  ...  r %41 i:hidden  r %80 do:ffn_out  w %91 di:hidden  ...
//
// and is now (tests/golden/programs/two-blocks-fsdp-recompute-full.txt)
//
//     12    compute    forward h.0.fc_gelu mb=0  ...  r %35 i:norm_2  w %36 o:hidden
//     ...
//     50    compute    recompute h.0.ln_1 mb=0  ...  r %27 i:x  w %93 o:norm_1  w %94 s:0  w %95 s:1
//     ...
//     55    compute    recompute h.0.fc_gelu mb=0  ...  r %102 i:norm_2  w %105 o:hidden  w %106 s:0
//     56    compute    backward h.0.fc_proj mb=0  ...  r %105 i:hidden  r %82 do:ffn_out  w %107 di:hidden  ...
//
// The forward's `hidden` now dies right after line 13, and its `s:0` is not saved at all. Kept are the block's input
// %27 and its output. h.0.fc_proj and h.0.add do not run again: nothing in the block's backward reads what they make.
//
// Invariant: a RECOMPUTE has the op and the operands of its FORWARD, so it gives the same bits. It is a compute action
// that binds parameters, so the storage passes after this one gather for it as for any other.
//
// Cost: for `full` about one more forward. Memory goes down to the blocks' inputs and one block's activations.

#include "passes/recompute.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tessera::host {
namespace {

/// Outputs and saved tensors of a forward, not its scratch.
bool is_result(const Binding& binding) {
  const uint32_t role = TSR_SLOT_ROLE(binding.slot);
  return binding.mode == TSR_MODE_WRITE && (role == TSR_ROLE_OUTPUT || role == TSR_ROLE_SAVED);
}

/// A block of a micro-batch: the forwards that may run again, and all backwards. Indices of actions, ascending.
struct Region {
  std::vector<size_t> forwards, backwards;
};

class RecomputePass {
 public:
  RecomputePass(Program& program, const DescribeOp& describe) : program_(program), describe_(describe) {}

  void run() {
    find_regions();
    find_results();
    for (const auto& [key, region] : regions_)
      make_again(region);
    insert();
    drop_unread_results();
  }

 private:
  using Key = std::pair<int, int>;  // micro-batch, block

  bool is_chosen(const Segment& segment) const {
    const Recompute& recompute = program_.step_config.recompute;
    if (recompute.what == Recompute::What::attention) return segment.op.kind == TSR_OP_ATTENTION;
    return segment.block % recompute.every == recompute.every - 1;
  }

  const Segment* segment_in_block(const Action& action) const {
    if (action.kind != TSR_ACTION_FORWARD && !is_backward(action.kind)) return nullptr;
    const Segment& segment = program_.model->segments[action.segment];
    return segment.block < 0 ? nullptr : &segment;
  }

  void find_regions() {
    for (size_t i = 0; i < program_.actions.size(); ++i) {
      const Action& action = program_.actions[i];
      const Segment* segment = segment_in_block(action);
      if (!segment) continue;
      Region& region = regions_[{action.micro_batch, segment->block}];
      if (is_backward(action.kind))
        region.backwards.push_back(i);
      else if (is_chosen(*segment))
        region.forwards.push_back(i);
    }
  }

  /// Only results that no action outside their block touches may be recomputed.
  void find_results() {
    for (const auto& [key, region] : regions_)
      for (const size_t i : region.forwards)
        for (const Binding& b : program_.actions[i].bindings)
          if (is_result(b)) results_[b.buffer] = key;
    for (const Action& action : program_.actions) {
      const Segment* segment = segment_in_block(action);
      for (const Binding& b : action.bindings) {
        const auto found = results_.find(b.buffer);
        if (found != results_.end() && (!segment || found->second != Key{action.micro_batch, segment->block}))
          results_.erase(found);
      }
    }
  }

  void make_again(const Region& region) {
    std::set<uint64_t> needed;
    size_t first = program_.actions.size();
    for (const size_t i : region.backwards)
      for (const Binding& b : program_.actions[i].bindings)
        if (b.mode == TSR_MODE_READ && results_.contains(b.buffer)) {
          needed.insert(b.buffer);
          first = std::min(first, i);
        }
    // Last forward first: what a recomputed segment reads may have to be recomputed as well.
    std::vector<Action> again;
    for (size_t n = region.forwards.size(); n-- > 0;) {
      const Action& forward = program_.actions[region.forwards[n]];
      const auto makes_needed = [&](const Binding& b) { return is_result(b) && needed.contains(b.buffer); };
      if (std::ranges::none_of(forward.bindings, makes_needed)) continue;
      again.push_back(recompute_of(forward, needed));
      for (const Binding& b : forward.bindings)
        if (b.mode == TSR_MODE_READ && results_.contains(b.buffer)) needed.insert(b.buffer);
    }
    std::ranges::reverse(again);
    for (Action& action : again)
      read_again(action);
    for (const size_t i : region.backwards)
      read_again(program_.actions[i]);
    if (!again.empty()) inserts_[first] = std::move(again);
  }

  /// `forward` once more, into new buffers; optional results that are not needed are left out.
  Action recompute_of(const Action& forward, const std::set<uint64_t>& needed) {
    Action action = forward;
    action.id = program_.next_id++;
    action.kind = TSR_ACTION_RECOMPUTE;
    action.bindings.clear();
    const auto slots = describe_(op_of(program_, forward));
    for (Binding b : forward.bindings) {
      if (is_result(b) && !needed.contains(b.buffer) && is_optional(slots, b.slot)) continue;
      if (b.mode != TSR_MODE_READ) b.buffer = new_buffer(b.buffer);
      action.bindings.push_back(b);
    }
    return action;
  }

  uint64_t new_buffer(uint64_t old) {
    auto [found, is_new] = again_.try_emplace(old, 0);
    if (is_new) {
      Buffer buffer = program_.buffer(old);
      buffer.name += " again";
      found->second = program_.add_buffer(std::move(buffer));
    }
    return found->second;
  }

  void read_again(Action& action) const {
    for (Binding& b : action.bindings)
      if (const auto found = again_.find(b.buffer); b.mode == TSR_MODE_READ && found != again_.end())
        b.buffer = found->second;
  }

  void insert() {
    std::vector<Action> actions;
    for (size_t i = 0; i < program_.actions.size(); ++i) {
      if (const auto found = inserts_.find(i); found != inserts_.end())
        std::ranges::move(found->second, std::back_inserter(actions));
      actions.push_back(std::move(program_.actions[i]));
    }
    program_.actions = std::move(actions);
  }

  /// Forwards need not save what is recomputed.
  void drop_unread_results() {
    std::set<uint64_t> read;
    for (const Action& action : program_.actions)
      for (const Binding& b : action.bindings)
        if (b.mode != TSR_MODE_WRITE) read.insert(b.buffer);
    for (Action& action : program_.actions) {
      if (action.kind != TSR_ACTION_FORWARD) continue;
      const auto slots = describe_(op_of(program_, action));
      std::erase_if(action.bindings, [&](const Binding& b) {
        return again_.contains(b.buffer) && is_result(b) && !read.contains(b.buffer) && is_optional(slots, b.slot);
      });
    }
    program_.erase_unused_buffers(program_.actions);
  }

  static bool is_optional(const std::vector<tsr_slot_spec>& slots, uint32_t slot) {
    const auto found = std::ranges::find(slots, slot, &tsr_slot_spec::slot);
    return found != slots.end() && (found->flags & TSR_SLOT_OPTIONAL);
  }

  Program& program_;
  const DescribeOp& describe_;
  std::map<Key, Region> regions_;
  std::map<uint64_t, Key> results_;                // buffer -> the block that makes and reads it
  std::map<uint64_t, uint64_t> again_;             // old buffer -> its new copy
  std::map<size_t, std::vector<Action>> inserts_;  // before the action of that index
};

}  // namespace

bool recomputes(const Program& program) {
  return program.purpose == TSR_PURPOSE_STEP && program.step_config.recompute.what != Recompute::What::none;
}

void recompute_forward(Program& program, const DescribeOp& describe) {
  if (recomputes(program)) RecomputePass(program, describe).run();
}

}  // namespace tessera::host

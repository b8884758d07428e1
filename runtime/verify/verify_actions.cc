// Checks each action by itself, whatever its kind: bindings inside their buffers, a stream and a group that fit the
// kind, waits for earlier actions only. A program that names what does not exist is refused here:
//
//     rank 0 #42 comm.dp.gradient all_reduce bucket 0 of dp is for group dp, but its stream is for another axis
//     rank 0 #73 compute optimizer wte.weight has a predicate, but does not read the result of clip (slot x2), ...
//
// Only collectives and messages may be on comm streams: these may be another device's streams (the host's), where no
// kernel of the job's device can run. Streams of the host are the CPU's. Cost: linear in the bindings.

#include <algorithm>
#include <string>
#include <unordered_set>

#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

// Several times what job.cc lets a step have before passes add to it; a pass that never stops ends here.
constexpr size_t kMaxActions = size_t{1} << 24;

class ActionChecker {
 public:
  ActionChecker(const Program& program, size_t index, DiagnosticList& diagnostics)
      : program_(program), index_(index), action_(program.actions[index]), diagnostics_(diagnostics) {}

  void run() {
    if (!is_known_action(action_.kind)) return report("has an unknown kind");
    for (const Binding& binding : action_.bindings)
      check_binding(binding);
    check_apart();
    check_stream();
    check_indices();
    if (is_collective(action_.kind))
      check_group();
    else if (action_.kind == TSR_ACTION_CALL)
      check_call();
    else
      check_no_group();
    check_flags();
    for (const uint32_t earlier : action_.dependencies)
      if (earlier >= index_) report("waits for #" + std::to_string(earlier) + ", which is not before it in the list");
  }

 private:
  void report(const std::string& what) { diagnostics_.add(action_text(program_, index_) + " " + what); }

  void check_binding(const Binding& binding) {
    const Buffer* buffer = buffer_or_null(program_, binding.buffer);
    const auto slot = [&] { return slot_text(program_, action_, binding.slot); };
    if (!buffer)
      return report("binds " + slot() + " to buffer %" + std::to_string(binding.buffer) + ", which does not exist");
    if (binding.offset > buffer->num_elements || binding.num_elements > buffer->num_elements - binding.offset)
      report("binds " + slot() + " to " + std::to_string(binding.num_elements) + " elements from " +
             std::to_string(binding.offset) + " of " + buffer_text(*buffer) + ", which has " +
             std::to_string(buffer->num_elements));
    if (binding.mode < TSR_MODE_READ || binding.mode > TSR_MODE_ADD)
      report("binds " + slot() + " with the unknown mode " + std::to_string(binding.mode));
    if (TSR_SLOT_ROLE(binding.slot) < TSR_ROLE_PARAMETER || TSR_SLOT_ROLE(binding.slot) > TSR_ROLE_STATE)
      report("binds the unknown slot " + std::to_string(binding.slot));
  }

  /// What a kernel keeps in its scratch must not be overwritten by its results or by other scratch, nor what it reads
  /// by what it writes. Elementwise actions and collectives may be in place, by rules of their own.
  void check_apart() {
    const bool is_never_in_place = is_compute(action_.kind) || action_.kind == TSR_ACTION_SUM_SQUARES ||
                                   action_.kind == TSR_ACTION_CLIP || action_.kind == TSR_ACTION_OPTIMIZER;
    for (const Binding& binding : action_.bindings) {
      const bool is_scratch = TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE;
      if (!is_scratch && (!is_never_in_place || binding.mode == TSR_MODE_READ)) continue;
      const auto overlaps = [&](const Binding& other) { return &other != &binding && overlap(other, binding); };
      const auto other = std::ranges::find_if(action_.bindings, overlaps);
      if (other != action_.bindings.end())
        return report("binds " + slot_text(program_, action_, binding.slot) + " to " + range_text(program_, binding) +
                      ", and " + slot_text(program_, action_, other->slot) + " too; an operand " +
                      (is_scratch ? "of scratch" : "that is written") + " has its own");
    }
  }

  void check_stream() {
    if (!is_index(action_.stream, program_.streams))
      return report("is on stream " + std::to_string(action_.stream) + ", which does not exist");
    check_host_stream();
    const bool on_comm = program_.streams[action_.stream].kind == TSR_STREAM_KIND_COMM;
    if (is_collective(action_.kind) && !on_comm) report("must be on a comm stream");
    if (!is_collective(action_.kind) && on_comm)
      report(action_.kind == TSR_ACTION_CALL ? "is on a comm stream; a call never communicates"
                                             : "is on a comm stream; only collectives and messages are");
    if (is_compute(action_.kind) && action_.stream != TSR_STREAM_COMPUTE && !on_comm)
      report("must be on the compute stream");
  }

  /// Files are read and written by the host's streams, on which else are only actions that work in the host's memory,
  /// and that have the same results there.
  void check_host_stream() {
    const bool on_host = program_.streams[action_.stream].kind == TSR_STREAM_KIND_HOST;
    const auto is_in = [&](uint32_t memory) {
      return [this, memory](const Binding& b) {
        const Buffer* buffer = buffer_or_null(program_, b.buffer);
        return buffer && buffer->memory == memory;
      };
    };
    const bool is_in_file = std::ranges::any_of(action_.bindings, is_in(TSR_MEMORY_FILE));
    if (is_in_file && (action_.kind != TSR_ACTION_COPY || !on_host))
      report("binds a buffer that is in a file; only copies on the host's streams read and write files");
    if (!on_host || is_in_file) return;
    if (!has_equal_bits_everywhere(action_.kind))
      report(
          "is on a stream of the host; only copies from and to files, elementwise actions, sum_squares and optimizer "
          "are");
    else if (!std::ranges::all_of(action_.bindings, is_in(TSR_MEMORY_HOST)))
      report("is on a stream of the host, and binds a buffer that is not in the host's memory");
  }

  void check_indices() {
    if (action_.code != 0 && action_.kind != TSR_ACTION_CALL) report("has a code of addends; only calls do");
    const int num_micro_batches = static_cast<int>(program_.step_config.num_micro_batches);
    if (action_.micro_batch < -1 || action_.micro_batch >= num_micro_batches)
      report("is for micro-batch " + std::to_string(action_.micro_batch) + " of " + std::to_string(num_micro_batches));
    if (is_compute(action_.kind)) check_segment();
    if (action_.home != 0 && !home_or_null(program_, action_.home))
      report("is for home %" + std::to_string(action_.home) + ", which does not exist");
    if ((action_.kind == TSR_ACTION_SUM_SQUARES || action_.kind == TSR_ACTION_OPTIMIZER) && action_.home == 0)
      report("names no home");
  }

  void check_segment() {
    if (action_.micro_batch < 0) report("names no micro-batch");
    if (!is_index(action_.segment, program_.model->segments))
      return report("is for segment " + std::to_string(action_.segment) + ", which the model does not have");
    const bool is_loss = static_cast<size_t>(action_.segment) + 1 == program_.model->segments.size();
    if (is_loss != (action_.kind == TSR_ACTION_LOSS))
      report(is_loss ? "is for the segment of the loss; its action is loss" : "is for a segment that is not the loss");
  }

  void check_group() {
    if (!is_index(action_.group, program_.groups))
      return report("is for group " + std::to_string(action_.group) + ", which does not exist");
    const Group& group = program_.groups[action_.group];
    if (is_index(action_.stream, program_.streams) && program_.streams[action_.stream].kind == TSR_STREAM_KIND_COMM &&
        program_.streams[action_.stream].axis != group.axis)
      report("is for group " + group_text(program_, group) + ", but its stream is for another axis");
    if (program_.mesh->position(group, program_.coordinates) < 0)
      report("is for group " + group_text(program_, group) + ", which this rank is not in");
  }

  void check_no_group() {
    if (action_.group != -1 || action_.peer != -1 || action_.reduce != 0 || !action_.counts.empty() ||
        !action_.peers.empty())
      report("has a group, a peer or a reduction, but is not a collective");
  }

  void check_written_by_call(const Binding& binding) {
    const Buffer* buffer = buffer_or_null(program_, binding.buffer);
    if (!buffer) return;  // reported already
    const std::string written = "writes " + range_text(program_, binding);
    const uint32_t kind = buffer->kind;
    if (kind == TSR_BUFFER_INPUT || kind == TSR_BUFFER_SCALAR || kind == TSR_BUFFER_ACCUMULATOR)
      report(written + ", which is the host's; a call may read it");
    else if (program_.purpose != TSR_PURPOSE_STEP && buffer->persistent && kind != TSR_BUFFER_PLUGIN)
      report(written + ", which the next step reads; outside of steps a call writes what is its strategy's own");
  }

  /// A group and a reduction say what its results are (placement/call_rules.cc).
  void check_call() {
    if (!is_index(action_.strategy, program_.strategies))
      return report("calls strategy " + std::to_string(action_.strategy) + " of " +
                    std::to_string(program_.strategies.size()));
    if (action_.peer != -1 || !action_.counts.empty() || !action_.peers.empty())
      report("has a peer or counts; a call never communicates");
    if (action_.reduce != 0 && action_.reduce != TSR_REDUCE_SUM)
      report("has the reduction " + std::to_string(action_.reduce) + "; a call makes sums (1) or reduces nothing (0)");
    for (const Binding& binding : action_.bindings)
      if (binding.mode != TSR_MODE_READ) check_written_by_call(binding);
    if (action_.group == -1) return;
    if (!is_index(action_.group, program_.groups))
      return report("is for group " + std::to_string(action_.group) + ", which does not exist");
    const StrategyOnAxis& strategy = program_.strategies[static_cast<size_t>(action_.strategy)];
    const Group& group = program_.groups[action_.group];
    if (action_.reduce == 0) report("has a group and no reduction; a call names the group whose sum it makes");
    if (group.axis != strategy.axis)
      report("makes the sum over " + group_text(program_, group) + "; " + strategy.name + " is for axis " +
             program_.mesh->axes()[strategy.axis].name);
    else if (program_.mesh->position(group, program_.coordinates) < 0)
      report("makes the sum over " + group_text(program_, group) + ", which this rank is not in");
  }

  void check_flags() {
    if (action_.flags & ~TSR_ACTION_PREDICATED) report("has the unknown flags " + std::to_string(action_.flags));
    if (!(action_.flags & TSR_ACTION_PREDICATED)) return;
    if (action_.kind != TSR_ACTION_OPTIMIZER)
      return report("has a predicate; so far only the optimizer may be skipped");
    const Binding* clip = action_.find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP));
    if (!clip || clip->mode != TSR_MODE_READ)
      report("has a predicate, but does not read the result of clip (slot x2), so nothing makes it wait for clip");
  }

  const Program& program_;
  const size_t index_;
  const Action& action_;
  DiagnosticList& diagnostics_;
};

}  // namespace

void verify_actions(const Program& program, DiagnosticList& diagnostics) {
  if (program.actions.size() > kMaxActions)
    diagnostics.add("the program has " + std::to_string(program.actions.size()) + " actions; a rank may have " +
                    std::to_string(kMaxActions));
  std::unordered_set<uint64_t> ids;
  for (size_t i = 0; i < program.actions.size(); ++i) {
    ActionChecker(program, i, diagnostics).run();
    const uint64_t id = program.actions[i].id;
    if (id == 0 || !ids.insert(id).second)
      diagnostics.add(action_text(program, i) + " has id " + std::to_string(id) +
                      (id ? ", which another action has too" : ""));
  }
}

}  // namespace tessera::host

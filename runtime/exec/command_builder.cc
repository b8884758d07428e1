// Turns each action into a command with everything resolved: kernel, pointers, events to wait for, communicator.
// Running a program then allocates nothing and looks nothing up. Of ddp's line
//
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
//
// the command holds the communicator of (dp, comm.dp.gradient), recv = send = the address of %61, the workspace's
// address, and the event that the command of action 41 records.
//
// Dependencies on the same stream cost nothing, as stream order covers them; others share one event for each awaited
// action. Kernels are prepared once for all actions with equal op, slots and stream: the blocks of a model share
// theirs.
//
// With --debug-memory each range of a buffer is filled with NaN before its first writer, bytes after the buffer's end
// are guarded, and all results are checked. The first writer fills, on its own stream: all else that uses the range
// waits for it, while actions that write other ranges of the buffer need not wait for one another.

#include "exec/command_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/concat.h"
#include "passes/dependencies.h"
#include "program/collective.h"
#include "program/collective_operands.h"
#include "program/lower_op.h"
#include "program/range_set.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

/// What --debug-memory does to a buffer.
struct CheckedBuffer {
  uint32_t first = 0, last = 0;  // actions: the bytes after its end are filled before `first`, looked at after `last`
  RangeSet filled;               // by the commands built so far; the whole of what persists
};

/// By id. `last` is the last action to bind the buffer, of those that come after `first` on every execution: others do
/// not wait for a `first` that sends, nor for that of a buffer that persists (order_live_ranges).
std::map<uint64_t, CheckedBuffer> checked_buffers(const Program& program) {
  const VectorClocks clocks(program);
  std::map<uint64_t, CheckedBuffer> result;
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings) {
      const Buffer& buffer = program.buffer(b.buffer);
      if (buffer.memory == TSR_MEMORY_FILE) continue;
      const auto [found, is_new] = result.try_emplace(b.buffer, CheckedBuffer{i, i, {}});
      CheckedBuffer& checked = found->second;
      if (is_new && buffer.persistent) checked.filled.add(0, buffer.num_elements);
      if (clocks.ordered(checked.first, i)) checked.last = i;
    }
  return result;
}

/// Everything that makes two kernels interchangeable on one stream.
std::string kernel_key(tsr_op op, const std::vector<tsr_slot_spec>& slots, const std::vector<tsr_op_range>& ranges,
                       const RankStream& stream) {
  op.ranges = nullptr;
  std::string key(reinterpret_cast<const char*>(&op), sizeof op);
  key.append(reinterpret_cast<const char*>(slots.data()), slots.size() * sizeof(tsr_slot_spec));
  key.append(reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(tsr_op_range));
  return key.append(reinterpret_cast<const char*>(&stream.handle), sizeof stream.handle);
}

struct CommandBuilder {
  Commands& result;
  std::atomic<size_t>& first_not_finite;
  const Program& program;
  const MemoryPlan& memory;
  ExecutionContext& context;
  std::map<std::string, tsr_kernel*> kernels;
  std::map<uint64_t, CheckedBuffer> checked;

  void* pointer(const Binding& b) const { return context.pointer(program.buffer(b.buffer), memory, b.offset); }

  void run() {
    if (context.debug().check_memory) checked = checked_buffers(program);
    for (uint32_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      result.list.push_back(std::make_unique<Command>());
      Command& command = *result.list.back();
      command.stream = context.stream(program, action.stream);
      if (std::ranges::find(result.streams, command.stream) == result.streams.end())
        result.streams.push_back(command.stream);
      for (uint32_t before : action.dependencies)
        if (program.actions[before].stream != action.stream) wait_for(command, *result.list[before]);
      build(command, action);
      add_debug(command, i);
    }
    if (context.debug().check_memory) place_finite_checks();
  }

  void wait_for(Command& command, Command& earlier) {
    const Device& from = *earlier.stream.device;
    if (&from != command.stream.device) {
      if (!earlier.sync) earlier.sync = add_sync(from);
      return command.awaited_syncs.push_back(earlier.sync);
    }
    if (!earlier.record) {
      result.events.push_back(make_event(from));
      earlier.record = result.events.back().get();
    }
    command.waits.push_back(earlier.record);
  }

  CrossDeviceSync* add_sync(const Device& from) {
    // One sync serves all actions that wait for the same one: two devices have one other device each.
    const bool to_host = &from == &context.device();
    result.syncs.push_back(to_host ? make_sync_to_host() : make_sync_to(context.device()));
    return result.syncs.back().get();
  }

  void build(Command& command, const Action& action) {
    if (is_collective(action.kind)) return build_collective(command, action);
    if (action.kind == TSR_ACTION_CALL) return build_call(command, action);
    if (is_elementwise(action.kind) && (action.flags & TSR_ACTION_PREDICATED))
      throw Error(TSR_E_UNSUPPORTED,
                  std::string(action_name(action.kind)) + " with a predicate: only optimizer takes one");
    if (std::ranges::any_of(action.bindings, [this](const Binding& b) { return is_in_file(b); }))
      return build_transfer(command, action);
    if (action.kind == TSR_ACTION_COPY && touches_host_memory(action))
      return build_copy(command, *action.find(kDestination), *action.find(kSource));
    build_kernel(command, action);
  }

  void build_transfer(Command& command, const Action& action) const {
    const Binding &source = *action.find(kSource), &destination = *action.find(kDestination);
    const bool is_write = is_in_file(destination);
    const Binding &in_file = is_write ? destination : source, &in_memory = is_write ? source : destination;
    const Buffer& buffer = program.buffer(in_file.buffer);
    const uint64_t element_bytes = TSR_NUM_BYTES(buffer.dtype, 1);
    command.kind = Command::Kind::file;
    command.transfer = {context.files(),
                        is_write,
                        memory.address.at(buffer.id) + in_file.offset * element_bytes,
                        {static_cast<std::byte*>(pointer(in_memory)), in_memory.num_elements * element_bytes},
                        std::string(buffer_kind_name(buffer.kind)) + " " + buffer.name};
  }

  bool is_in_file(const Binding& b) const { return program.buffer(b.buffer).memory == TSR_MEMORY_FILE; }

  bool touches_host_memory(const Action& action) const {
    return std::ranges::any_of(action.bindings,
                               [&](const Binding& b) { return program.buffer(b.buffer).memory == TSR_MEMORY_HOST; });
  }

  void build_copy(Command& command, const Binding& destination, const Binding& source) const {
    command.kind = Command::Kind::copy;
    command.pointers = {pointer(destination), pointer(source)};
    command.num_bytes = TSR_NUM_BYTES(program.buffer(destination.buffer).dtype, destination.num_elements);
  }

  void build_kernel(Command& command, const Action& action) {
    tsr_op op = op_of(program, action);
    const std::vector<tsr_op_range> ranges = op_ranges_of(program, action);
    op.ranges = ranges.data();
    op.num_ranges = ranges.size();
    std::vector<tsr_slot_spec> slots;
    for (const Binding& b : action.bindings) {
      slots.push_back({b.slot, b.mode, program.buffer(b.buffer).dtype, 0, b.num_elements});
      command.pointers.push_back(pointer(b));
    }
    tsr_kernel*& kernel = kernels[kernel_key(op, slots, ranges, command.stream)];
    if (!kernel) {
      result.kernels.push_back(make_kernel(*command.stream.device, op, slots));
      kernel = result.kernels.back().get();
    }
    command.kind = Command::Kind::kernel;
    command.kernel = kernel;
  }

  void build_call(Command& command, const Action& action) {
    const StrategyOnAxis& strategy = context.strategy(action.strategy);
    if (!TSR_HAS_FN(strategy.interface, tsr_strategy_interface, call))
      throw Error(TSR_E_UNSUPPORTED, "strategy " + strategy.name + " has call actions and no call function");
    command.kind = Command::Kind::call;
    StrategyCall& made = command.call;
    made.strategy = &strategy;
    made.label = concat(action_text(program, -1, static_cast<size_t>(&action - program.actions.data())), " of ",
                        strategies_text(*program.mesh, {&strategy, 1}), " (tag ", action.tag, ")");
    for (const Binding& b : action.bindings)
      made.shapes.push_back(static_cast<int64_t>(b.num_elements));
    for (size_t i = 0; i < action.bindings.size(); ++i)
      made.operands.push_back(
          {pointer(action.bindings[i]), &made.shapes[i], 1, program.buffer(action.bindings[i].buffer).dtype});
    if (action.home) made.ranges = optimizer_ranges(program, program.home(action.home));
    made.optimizer = optimizer_op(program);
    made.optimizer.ranges = made.ranges.data();
    made.optimizer.num_ranges = made.ranges.size();
    made.call = {sizeof made.call,
                 context.device().num_threads(),
                 action.tag,
                 made.operands.data(),
                 made.operands.size(),
                 program.coordinates[strategy.axis],
                 program.mesh->axes()[strategy.axis].num_ranks,
                 &made.optimizer};
  }

  void build_collective(Command& command, const Action& action) {
    command.comm = context.comms().find(program, action);
    if (!command.comm) return build_alone(command, action);
    command.kind = Command::Kind::collective;
    command.label = std::string(action_name(action.kind));
    if (!action.bindings.empty()) command.label += " " + program.buffer(action.bindings[0].buffer).name;
    tsr_collective& c = command.collective;
    c = collective_of(program, action);
    const Binding *source = action.find(kSource), *destination = action.find(kDestination);
    if (destination) c.recv = pointer(*destination);
    c.send = source ? pointer(*source) : c.recv;
    if (!source && destination) point_at_slice(c, action, *destination);
    if (const Binding* workspace = action.find(TSR_SLOT(TSR_ROLE_WORKSPACE, 0))) c.workspace = pointer(*workspace);
    c.stream = command.stream.handle;
    c.timeout_ms = context.comms().timeout_ms(program);
    c.label = str(command.label);
    if (action.kind == TSR_ACTION_EXCHANGE) build_transfers(command, action);
  }

  /// In place, a gather sends this rank's slice of the whole, and a scatter receives it.
  void point_at_slice(tsr_collective& c, const Action& action, Binding slice) const {
    if (c.kind != TSR_COLL_ALL_GATHER && c.kind != TSR_COLL_REDUCE_SCATTER) return;
    const CollectiveOperands form(program, action);
    slice.offset += slice_offsets(action, slice.num_elements, form.num_ranks)[form.position];
    if (c.kind == TSR_COLL_ALL_GATHER)
      c.send = pointer(slice);
    else
      c.recv = pointer(slice);
  }

  void build_transfers(Command& command, const Action& action) {
    for (const Message& message : messages_of(action))
      command.transfers.push_back(
          {pointer(*message.binding), message.binding->num_elements, message.peer, message.is_receive ? 1u : 0u});
    command.collective.transfers = command.transfers.data();
    command.collective.num_transfers = command.transfers.size();
  }

  /// In a group of one every collective is the identity.
  void build_alone(Command& command, const Action& action) {
    const Binding *source = action.find(kSource), *destination = action.find(kDestination);
    if (source && destination && pointer(*source) != pointer(*destination)) build_copy(command, *destination, *source);
  }

  void add_debug(Command& command, size_t position) {
    const DebugOptions& debug = context.debug();
    if (debug.stream_delay) {
      command.delayed = true;
      command.delay.state = *debug.stream_delay + position * 0x9e3779b97f4a7c15u;
    }
    if (!debug.check_memory) return;
    add_finite_checks(command, position);
    std::set<uint64_t> seen;
    for (const Binding& b : program.actions[position].bindings) {
      const auto found = checked.find(b.buffer);
      if (found == checked.end()) continue;
      fill_fresh(command, b, found->second.filled);
      if (debug.guard_bytes && seen.insert(b.buffer).second) guard_end(command, position, b.buffer, found->second);
    }
  }

  /// What the action is the first to bind of a transient buffer, which it writes: a range is not read before it is
  /// written.
  void fill_fresh(Command& command, const Binding& b, RangeSet& filled) const {
    const Buffer& buffer = program.buffer(b.buffer);
    const uint64_t end = b.offset + b.num_elements;
    for (const auto& [from, to] : filled.gaps(b.offset, end))
      command.fills.push_back({context.pointer(buffer, memory, from), 0xFF, TSR_NUM_BYTES(buffer.dtype, to - from)});
    filled.add(b.offset, end);
  }

  void guard_end(Command& command, size_t position, uint64_t id, const CheckedBuffer& life) const {
    const Buffer& buffer = program.buffer(id);
    const uint64_t end = buffer.num_bytes();  // the bytes up to the next buffer belong to none
    const uint64_t guard = round_up<uint64_t>(end, kBufferAlignment) - end + context.debug().guard_bytes;
    auto* const zone = static_cast<std::byte*>(context.pointer(buffer, memory)) + end;
    if (life.first == position) command.fills.push_back({zone, RedZone::kByte, guard});
    if (life.last == position) {
      Arena copy(*command.stream.device, TSR_MEMORY_HOST, guard);
      command.red_zones.push_back(std::make_unique<RedZone>(RedZone{zone, std::move(copy), guarded_text(buffer)}));
    }
  }

  /// The buffer as a message about its end names it: with the calls that write it, since kernels keep to their
  /// operands.
  std::string guarded_text(const Buffer& buffer) const {
    std::set<std::string> calls;
    for (const Action& action : program.actions)
      for (const Binding& b : action.bindings)
        if (action.kind == TSR_ACTION_CALL && b.buffer == buffer.id && b.mode != TSR_MODE_READ)
          calls.insert(context.strategy(action.strategy).name + " with tag " + std::to_string(action.tag));
    std::string text = buffer.name;
    for (const std::string& call : calls)
      text += (text == buffer.name ? ", which is written by the call of " : ", the call of ") + call;
    return text;
  }

  void add_finite_checks(Command& command, size_t position) {
    for (const Binding& b : program.actions[position].bindings)
      if (b.mode != TSR_MODE_READ && TSR_SLOT_ROLE(b.slot) != TSR_ROLE_WORKSPACE && !is_in_file(b))
        command.finite_checks.push_back({static_cast<const std::byte*>(pointer(b)), b.num_elements,
                                         program.buffer(b.buffer).dtype, position, &first_not_finite});
  }

  /// The checks of a stream come one after the other, so they share memory.
  void place_finite_checks() {
    std::map<tsr_stream*, uint64_t> most;
    for (const auto& command : result.list)
      for (const FiniteCheck& check : command->finite_checks)
        most[command->stream.handle] = std::max(most[command->stream.handle], check.num_bytes());
    for (const auto& command : result.list)
      for (FiniteCheck& check : command->finite_checks) {
        tsr_stream* const stream = command->stream.handle;
        const auto arena =
            result.seen.try_emplace(stream, *command->stream.device, TSR_MEMORY_HOST, most[stream]).first;
        check.seen = static_cast<std::byte*>(arena->second.at(0));
      }
  }
};

}  // namespace

Commands build_commands(const Program& program, const MemoryPlan& memory, ExecutionContext& context,
                        std::atomic<size_t>& first_not_finite) {
  Commands result;
  CommandBuilder{result, first_not_finite, program, memory, context, {}, {}}.run();
  return result;
}

}  // namespace tessera::host

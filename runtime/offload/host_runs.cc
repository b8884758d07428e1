// An update on the host, of --optimizer-state.update=host (tests/golden/programs/two-blocks-update-host.txt):
//
//     48    host      zero  w %83 dst                             %83 = accumulator squares host i64[24]
//     66    evict     copy  r %86+0:13216 src  w %99 dst  # 65    %99 = gradient h.0 host f32[13216]
//     67    host      sum_squares home=h.0/0  r %99+0:8192 src  a %83+0:20 x:squares  # 66
//     ...
//     74    fetch     copy  r %83 src  w %102 dst  # 73           %102 = fetched squares i64[24]
//     75    compute   add  r %102 src  a %17 dst  # 74            %17 is the step's accumulator
//     76    compute   clip  r %17 x:squares  w %18 x:clip  a %19 x:step
//     77    evict     copy  r %18 src  w %103 dst  # 76           %103 = fetched clip host f64[3]
//     82    host      optimizer home=h.0/0 predicated  a %7+0:8192 dst  r %99+0:8192 src  ...  r %103 x:clip  ...
//
// No bit changes. These kinds of actions have the same results on every device (TSR-DEVICE-011), and sums of squares
// are exact, so it does not matter which accumulator they are summed in; limbs are added like those of ranks. A scalar
// is copied once after each action that writes it; one that is filled before the step, such as the learning rate,
// before its first use.
//
// Cost: linear in the bindings of the program, for each scalar.

#include "offload/host_runs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

class HostRunner {
 public:
  HostRunner(Program& program, CopyList& copies) : program_(program), copies_(copies) {}

  void run(const std::set<size_t>& actions) {
    const uint32_t stream = program_.host_stream(kHostStream);
    for (const size_t index : actions) {
      Action& action = program_.actions[index];
      action.stream = stream;
      for (Binding& b : action.bindings)
        if (TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SCALAR)
          b.buffer = b.mode == TSR_MODE_READ ? scalar_for(index, b.buffer) : accumulator_for(index, b.buffer);
    }
    for (const auto& [buffer, own] : accumulators_)
      add_up(buffer, own);
  }

 private:
  struct Accumulator {
    uint64_t buffer = 0;
    size_t first = SIZE_MAX;  // position of an action that adds to it
    size_t last = 0;          // action that adds to it
  };

  Binding whole(uint64_t buffer, uint32_t slot = 0, uint32_t mode = 0) const {
    return {buffer, 0, program_.buffer(buffer).num_elements, slot, mode};
  }

  uint64_t add_buffer(uint64_t like, uint32_t kind, uint32_t memory) {
    const Buffer buffer = program_.buffer(like);
    return program_.add_buffer({0, buffer.name, kind, memory, buffer.dtype, false, buffer.num_elements});
  }

  static bool uses(const Action& action, uint64_t buffer, bool writes) {
    return std::ranges::any_of(
        action.bindings, [&](const Binding& b) { return b.buffer == buffer && (!writes || b.mode != TSR_MODE_READ); });
  }

  /// The last action before `index` that writes the buffer.
  std::optional<size_t> writer_of(uint64_t buffer, size_t index) const {
    while (index-- > 0)
      if (uses(program_.actions[index], buffer, true)) return index;
    return std::nullopt;
  }

  uint64_t scalar_for(size_t index, uint64_t buffer) {
    const std::optional<size_t> writer = writer_of(buffer, index);
    const auto [found, is_new] = scalars_.try_emplace({buffer, writer}, 0);
    if (is_new) {
      found->second = add_buffer(buffer, TSR_BUFFER_FETCHED, TSR_MEMORY_HOST);
      const size_t position = writer ? *writer + 1 : index;
      copies_.evict(position, writer.value_or(index), whole(buffer), whole(found->second));
    }
    return found->second;
  }

  uint64_t accumulator_for(size_t index, uint64_t buffer) {
    const auto [found, is_new] = accumulators_.try_emplace(buffer);
    Accumulator& own = found->second;
    if (is_new) own.buffer = add_buffer(buffer, TSR_BUFFER_ACCUMULATOR, TSR_MEMORY_HOST);
    own.first = std::min(own.first, copies_.position_of(index));
    own.last = index;
    return own.buffer;
  }

  /// Before the first action that reads the sum, which is that over the ranks, or clip.
  void add_up(uint64_t buffer, const Accumulator& own) {
    copies_.add_before_copies(own.first, action(TSR_ACTION_ZERO, program_.host_stream(kHostStream),
                                                {whole(own.buffer, kDestination, TSR_MODE_WRITE)}));
    const auto begin = program_.actions.begin() + static_cast<ptrdiff_t>(own.last);
    const auto reader = std::find_if(begin, program_.actions.end(), [&](const Action& one) {
      return one.kind != TSR_ACTION_SUM_SQUARES && uses(one, buffer, false);
    });
    if (reader == program_.actions.end())
      throw Error(TSR_E_INTERNAL, "nothing reads the accumulator " + program_.buffer(buffer).name +
                                      " after the actions that run on the host");
    const auto position = static_cast<size_t>(reader - program_.actions.begin());
    const uint64_t fetched = add_buffer(buffer, TSR_BUFFER_FETCHED, TSR_MEMORY_DEVICE);
    copies_.fetch(position, position, whole(own.buffer), whole(fetched));
    copies_.add_after_copies(
        position, action(TSR_ACTION_ADD_INTO, TSR_STREAM_COMPUTE,
                         {whole(fetched, kSource, TSR_MODE_READ), whole(buffer, kDestination, TSR_MODE_ADD)}));
  }

  Action action(uint32_t kind, uint32_t stream, std::vector<Binding> bindings) {
    Action result;
    result.id = program_.next_id++;
    result.kind = kind;
    result.stream = stream;
    result.bindings = std::move(bindings);
    return result;
  }

  Program& program_;
  CopyList& copies_;
  std::map<std::pair<uint64_t, std::optional<size_t>>, uint64_t> scalars_;  // copies, by buffer and its last writer
  std::map<uint64_t, Accumulator> accumulators_;                            // by the step's
};

}  // namespace

void run_on_host(Program& program, const std::set<size_t>& actions, CopyList& copies) {
  if (!actions.empty()) HostRunner(program, copies).run(actions);
}

}  // namespace tessera::host

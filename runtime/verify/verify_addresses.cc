// Checks that conflicting accesses to one address are ordered: data races, use after reuse, errors of the memory
// planner. It walks the list and keeps, for each range of bytes, the last writer and the readers since. For example, a
// sum that the norm does not wait for:
//
//     rank 0 #43 compute sum_squares wte.weight does not wait for rank 0 #42 comm.dp.gradient all_reduce bucket 0 of
//     dp, and both touch gradient bucket 0 of dp: nothing orders them
//
// It trusts neither derive_dependencies nor plan_memory: it works on bytes where they work on buffers, and computes its
// own clocks from the final waits. Ordering with the last accesses is enough. Order is transitive, and those accesses
// have been checked against the ones before them.
//
// Cost: linear in the bindings, up to the pieces the arena falls into; clocks as in dependencies.cc.

#include <map>
#include <vector>

#include "passes/dependencies.h"
#include "program/buffer_index.h"
#include "program/collective_operands.h"
#include "program/range_map.h"
#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// The last accesses of a range of bytes, in list order: the writer, and of the readers since then the last one on each
/// stream.
struct Access {
  uint32_t owner = kNone;  // index of the buffer whose contents are there
  uint32_t writer = kNone;
  struct Reader {
    uint32_t action, buffer;
  };
  std::vector<Reader> readers;
};

class AddressChecker {
 public:
  AddressChecker(const Program& program, const MemoryPlan* memory, DiagnosticList& diagnostics)
      : program_(program), index_(program), clocks_(program), diagnostics_(diagnostics) {
    place(memory);
  }

  void run() {
    if (!complete_) return;
    put_persistent_buffers();
    for (uint32_t i = 0; i < program_.actions.size(); ++i) {
      const std::vector<Binding> all = accesses(program_, program_.actions[i]);
      for (const Binding& binding : all)
        if (binding.mode == TSR_MODE_READ) access(i, binding);
      for (const Binding& binding : all)
        if (binding.mode != TSR_MODE_READ) access(i, binding);
    }
    check_persistent_buffers();
  }

 private:
  /// The bytes of each buffer; disjoint ones without a plan.
  void place(const MemoryPlan* memory) {
    uint64_t next = 0;
    for (const Buffer& buffer : program_.buffers) {
      bytes_.emplace(buffer.memory, UINT64_MAX);
      address_.push_back(next);
      next += buffer.num_bytes();
    }
    if (!memory) return;
    std::vector<bool> needed(program_.buffers.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      needed[i] = program_.buffers[i].persistent;
    for (const Action& action : program_.actions)
      for (const Binding& binding : action.bindings)
        needed[index_of(binding.buffer)] = true;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const auto found = memory->address.find(program_.buffers[i].id);
      if (found != memory->address.end()) address_[i] = found->second;
      if (!needed[i] || found != memory->address.end()) continue;
      complete_ = false;
      diagnostics_.add("rank " + rank() + " has no address for " + buffer_text(program_.buffers[i]));
    }
  }

  std::string rank() const { return std::to_string(program_.mesh->rank(program_.coordinates)); }
  uint32_t index_of(uint64_t id) const { return static_cast<uint32_t>(index_(id)); }

  auto parts(uint32_t buffer, uint64_t begin, uint64_t end) {
    return bytes_.at(program_.buffers[buffer].memory).parts(address_[buffer] + begin, address_[buffer] + end);
  }

  void put_persistent_buffers() {
    for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (!buffer.persistent) continue;
      for (auto& [begin, part] : parts(i, 0, buffer.num_bytes())) {
        if (part.value.owner != kNone)
          diagnostics_.add("rank " + rank() + " has " + buffer_text(buffer) + " and " +
                           buffer_text(program_.buffers[part.value.owner]) + " at one address; both live across steps");
        part.value.owner = i;
      }
    }
  }

  void access(uint32_t action, const Binding& binding) {
    const uint32_t buffer = index_of(binding.buffer);
    const uint64_t width = TSR_NUM_BYTES(program_.buffers[buffer].dtype, 1);
    const uint64_t begin = binding.offset * width, end = begin + binding.num_elements * width;
    uint32_t reported = kNone;  // one diagnostic for a pair of actions, not for each part
    for (auto& [from, part] : parts(buffer, begin, end)) {
      check(action, buffer, binding, part.value, reported);
      if (binding.mode == TSR_MODE_READ) add_reader(part.value, action, buffer);
    }
    if (binding.mode != TSR_MODE_READ && begin < end)
      bytes_.at(program_.buffers[buffer].memory)
          .assign(address_[buffer] + begin, address_[buffer] + end, {buffer, action, {}});
  }

  void check(uint32_t action, uint32_t buffer, const Binding& binding, const Access& last, uint32_t& reported) {
    if (last.writer != kNone) check_order(last.writer, last.owner, action, buffer, reported);
    if (binding.mode != TSR_MODE_READ)
      for (const Access::Reader& reader : last.readers)
        check_order(reader.action, reader.buffer, action, buffer, reported);
    // Unwritten ranges are reported by verify_written.
    if (binding.mode == TSR_MODE_WRITE || last.owner == buffer || last.owner == kNone || reported != kNone) return;
    reported = action;
    const std::string owner = buffer_text(program_.buffers[last.owner]);
    diagnostics_.add(action_text(program_, action) + " reads " + range_text(program_, binding) + ", but " +
                     (last.writer == kNone
                          ? owner + " is at its address"
                          : action_text(program_, last.writer) + " has put " + owner + " at its address"));
  }

  void check_order(uint32_t first, uint32_t first_buffer, uint32_t second, uint32_t second_buffer, uint32_t& reported) {
    const bool is_own = first == second;  // an action may bind one buffer twice: in place
    if (first == reported || (is_own ? first_buffer == second_buffer : clocks_.ordered(first, second))) return;
    reported = first;
    const std::string buffer = buffer_text(program_.buffers[second_buffer]);
    if (is_own) {
      diagnostics_.add(action_text(program_, second) + " uses " + buffer_text(program_.buffers[first_buffer]) +
                       " and " + buffer + " at once, and they share an address");
      return;
    }
    diagnostics_.add(action_text(program_, second) + " does not wait for " + action_text(program_, first) +
                     (first_buffer == second_buffer ? ", and both touch " + buffer
                                                    : ", and " + buffer + " reuses the address of " +
                                                          buffer_text(program_.buffers[first_buffer])) +
                     ": nothing orders them");
  }

  void add_reader(Access& access, uint32_t action, uint32_t buffer) const {
    const uint32_t stream = program_.actions[action].stream;
    for (Access::Reader& reader : access.readers)
      if (program_.actions[reader.action].stream == stream) {
        reader = {action, buffer};
        return;
      }
    access.readers.push_back({action, buffer});
  }

  void check_persistent_buffers() {
    for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (!buffer.persistent) continue;
      for (auto& [begin, part] : parts(i, 0, buffer.num_bytes())) {
        if (part.value.owner == i || part.value.writer == kNone) continue;
        diagnostics_.add(action_text(program_, part.value.writer) + " puts " +
                         buffer_text(program_.buffers[part.value.owner]) + " at the address of " + buffer_text(buffer) +
                         ", which must outlive the step");
        break;
      }
    }
  }

  const Program& program_;
  const BufferIndex index_;
  const VectorClocks clocks_;
  DiagnosticList& diagnostics_;
  bool complete_ = true;
  std::vector<uint64_t> address_;               // of each buffer, bytes
  std::map<uint32_t, RangeMap<Access>> bytes_;  // of each memory
};

}  // namespace

void verify_addresses(const Program& program, const MemoryPlan* memory, DiagnosticList& diagnostics) {
  AddressChecker(program, memory, diagnostics).run();
}

}  // namespace tessera::host

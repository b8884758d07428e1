// Checks, in list order, that no transient range is read before it is written, and that none is written twice. For
// example, when a pass forgets a gather:
//
//     rank 0 #7 compute forward h.0.ln_1 mb=0 reads gathered h.0[0:32] through p0 (h.0.ln_1.weight), which nothing has
//     written
//
// Why written once: with two writes the contents of a range would depend on the position in the list, and passes that
// look for "the writer" of a gradient would find one of two. Workspaces are exempt, and so are copies back from
// staging, and calls, which may put the sum where the addend was.
//
// Cost: linear in the bindings, up to the pieces a buffer falls into.

#include <vector>

#include "passes/host_staging.h"
#include "program/buffer_index.h"
#include "program/collective_operands.h"
#include "program/range_map.h"
#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

class WrittenChecker {
 public:
  WrittenChecker(const Program& program, DiagnosticList& diagnostics)
      : program_(program), index_(program), diagnostics_(diagnostics) {
    ranges_.reserve(program.buffers.size());
    for (const Buffer& buffer : program.buffers) {
      ranges_.emplace_back(buffer.num_elements);
      if (buffer.persistent) ranges_.back().assign(0, buffer.num_elements, true);
    }
  }

  void run() {
    for (size_t i = 0; i < program_.actions.size(); ++i) {
      const std::vector<Binding> all = accesses(program_, program_.actions[i]);
      for (const Binding& binding : all)
        if (binding.mode != TSR_MODE_WRITE) check_read(i, binding);
      for (const Binding& binding : all)
        if (binding.mode == TSR_MODE_WRITE) check_write(i, binding);
    }
  }

 private:
  BufferRangeMap<bool>& ranges(const Buffer& buffer) { return ranges_[&buffer - program_.buffers.data()]; }

  void check_read(size_t index, const Binding& binding) {
    const Action& action = program_.actions[index];
    const Buffer& buffer = program_.buffers[index_(binding.buffer)];
    const uint64_t end = binding.offset + binding.num_elements;
    for (const auto& [begin, part] : ranges(buffer).parts(binding.offset, end)) {
      if (part.value) continue;
      const std::string what = binding.mode == TSR_MODE_ADD ? " adds to " : " reads ";
      diagnostics_.add(action_text(program_, index) + what + range_text(buffer, begin, part.end) + " through " +
                       slot_text(program_, action, binding.slot) + ", which nothing has written");
      ranges(buffer).assign(binding.offset, end, true);  // once is enough
      return;
    }
  }

  void check_write(size_t index, const Binding& binding) {
    const Action& action = program_.actions[index];
    const Buffer& buffer = program_.buffers[index_(binding.buffer)];
    const uint64_t end = binding.offset + binding.num_elements;
    const bool once = !buffer.persistent && buffer.kind != TSR_BUFFER_WORKSPACE && action.kind != TSR_ACTION_CALL &&
                      action.find(binding.slot)->mode == TSR_MODE_WRITE && !brings_back(program_, action);
    if (once)
      for (const auto& [begin, part] : ranges(buffer).parts(binding.offset, end)) {
        if (!part.value) continue;
        diagnostics_.add(action_text(program_, index) + " writes " + range_text(buffer, begin, part.end) + " through " +
                         slot_text(program_, action, binding.slot) +
                         " a second time; a transient range is written once, then added to or read");
        break;
      }
    ranges(buffer).assign(binding.offset, end, true);
  }

  const Program& program_;
  const BufferIndex index_;
  DiagnosticList& diagnostics_;
  std::vector<BufferRangeMap<bool>> ranges_;  // of each buffer: whether something has written it
};

}  // namespace

void verify_written(const Program& program, DiagnosticList& diagnostics) {
  WrittenChecker(program, diagnostics).run();
}

}  // namespace tessera::host

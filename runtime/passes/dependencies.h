// Which actions wait for which: derived from the bindings by range, without the waits that streams and other waits
// imply.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Vector clocks of a program's actions under stream order and `dependencies`. Independent of the program after
/// construction. Memory: 4 bytes x actions x streams.
class VectorClocks {
 public:
  /// Throws INTERNAL for a dependency on an action that is not earlier in the list.
  explicit VectorClocks(const Program& program);
  /// True when action `first` has finished before action `second` starts, on every execution. Indices into the list;
  /// O(1).
  bool ordered(uint32_t first, uint32_t second) const;

 private:
  friend class ClockBuilder;
  friend class AddableWaits;
  VectorClocks() = default;

  size_t num_streams_ = 0;
  std::vector<uint32_t> stream_, position_;  // of each action: its stream, and its position (from 1) on it
  std::vector<uint32_t> clock_;              // [action][stream]: how far that stream is known to have come
};

/// The waits that may be added to a program without a deadlock between ranks, from this rank's program alone. Borrows
/// the clocks; independent of the program after construction.
class AddableWaits {
 public:
  AddableWaits(const Program& program, const VectorClocks& clocks);
  /// True when `second`, which is later in the list, waits for `first` or may be made to; O(streams).
  bool allows(uint32_t first, uint32_t second) const;
  /// No pair is refused.
  bool allows_all() const { return num_shared_.empty(); }

 private:
  const VectorClocks& clocks_;
  /// [stream][position]: the actions among the first `position` of the stream that no more may be waited for. Empty:
  /// any wait may be added.
  std::vector<std::vector<uint32_t>> num_shared_;
  bool own_sends_alone_ = false;  ///< that count, and only on the stream of what is waited for
};

/// Replaces every action's `dependencies` by the fewest that keep the semantics of the list (read after write, write
/// after read, write after write, by element range) and the waits that passes asked for (`waits_for`; INVALID_ARGUMENT
/// for an action that is not earlier in the list). Linear in the bindings, up to the pieces a buffer falls into.
/// Bindings must lie inside their buffers.
void derive_dependencies(Program& program);

/// Adds the wait `second` on `first` (first < second) to each pair, then drops all waits already implied.
void add_dependencies(Program& program, const std::vector<std::pair<uint32_t, uint32_t>>& pairs);

/// For debug mode, which fills the guard after a buffer's end before its first action and checks it when its last
/// action has run, in list order. Since actions on different streams are not ordered, here all other actions on the
/// buffer wait for the first, and the last waits for all others. No action waits for a send (see plan_memory).
void order_live_ranges(Program& program);

}  // namespace tessera::host

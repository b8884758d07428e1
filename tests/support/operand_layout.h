// Where the operands of an op lie in one piece of memory: each between guards, workspaces after all others.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "support/device_runner.h"

namespace tessera::testing {

/// [guard operand guard operand ... guard] [guard workspace guard workspace ... guard]. The first part is copied to and
/// fro; the second is filled with the guard's byte, which makes NaN of every dtype, and of it only guards are read.
class OperandLayout {
 public:
  static constexpr unsigned kGuard = 0xff;

  /// `offset` as in Placement.
  OperandLayout(const std::vector<BoundOperand>& operands, int offset);

  size_t num_bytes() const { return num_bytes_; }
  /// Of operand i.
  size_t start(size_t i) const { return starts_[i]; }
  /// The first part, with the operands' bytes.
  std::vector<std::byte> image(const std::vector<BoundOperand>& operands) const;
  /// {start, num_bytes} of the bytes that belong to no operand; then those of the second part alone.
  std::span<const std::pair<size_t, size_t>> guards() const { return guards_; }
  std::span<const std::pair<size_t, size_t>> guards_of_workspaces() const {
    return guards().subspan(num_image_guards_);
  }
  size_t num_guard_bytes_of_workspaces() const;

  /// Throws INTERNAL with the slot's name if a guard, or an operand that is only read, is not what it was.
  void check(const std::vector<BoundOperand>& operands, const std::vector<std::byte>& before,
             const std::vector<std::byte>& after, const std::vector<std::byte>& around_workspaces) const;
  /// Copies the operands out of the first part.
  void take(const std::vector<std::byte>& after, std::vector<BoundOperand>& operands) const;

 private:
  std::vector<size_t> starts_;
  std::vector<std::pair<size_t, size_t>> guards_;
  size_t num_image_bytes_ = 0, num_bytes_ = 0, num_image_guards_ = 0;
};

}  // namespace tessera::testing

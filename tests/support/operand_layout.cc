#include "support/operand_layout.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tessera/error.hpp"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

constexpr size_t kAlignment = 256, kGuardBytes = 256;

size_t round_up(size_t num_bytes) {
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

size_t bytes_of(const tsr_slot_spec& slot) {
  return TSR_NUM_BYTES(slot.dtype, slot.num_elements);
}

bool is_workspace(const tsr_slot_spec& slot) {
  return TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_WORKSPACE;
}

size_t offset_bytes(const tsr_slot_spec& slot, size_t i, int offset) {
  if (TSR_NUM_BYTES(slot.dtype, 1) == 8) return 0;
  return 4 * (offset >= 0 ? static_cast<size_t>(offset) : i % 4);
}

bool is_guard(std::byte b) {
  return b == std::byte{OperandLayout::kGuard};
}

}  // namespace

OperandLayout::OperandLayout(const std::vector<BoundOperand>& operands, int offset) : starts_(operands.size()) {
  for (const bool of_workspaces : {false, true}) {
    if (of_workspaces) {
      num_image_bytes_ = num_bytes_;
      num_image_guards_ = guards_.size();
    }
    size_t guard = num_bytes_;
    for (size_t i = 0; i < operands.size(); ++i) {
      const tsr_slot_spec& slot = operands[i].slot;
      if (is_workspace(slot) != of_workspaces) continue;
      starts_[i] = round_up(num_bytes_ + kGuardBytes) + offset_bytes(slot, i, offset);
      num_bytes_ = starts_[i] + bytes_of(slot);
      guards_.emplace_back(guard, starts_[i] - guard);
      guard = num_bytes_;
    }
    if (num_bytes_ == (of_workspaces ? num_image_bytes_ : 0)) continue;
    num_bytes_ = round_up(num_bytes_ + kGuardBytes);
    guards_.emplace_back(guard, num_bytes_ - guard);
  }
}

size_t OperandLayout::num_guard_bytes_of_workspaces() const {
  size_t sum = 0;
  for (const auto& [start, num_bytes] : guards_of_workspaces())
    sum += num_bytes;
  return sum;
}

std::vector<std::byte> OperandLayout::image(const std::vector<BoundOperand>& operands) const {
  std::vector<std::byte> image(num_image_bytes_, std::byte{kGuard});
  for (size_t i = 0; i < operands.size(); ++i) {
    if (is_workspace(operands[i].slot)) continue;
    if (operands[i].bytes.size() != bytes_of(operands[i].slot))
      throw Error(TSR_E_INVALID_ARGUMENT, "wrong number of bytes for " + op::slot_name(operands[i].slot.slot));
    std::copy(operands[i].bytes.begin(), operands[i].bytes.end(),
              image.begin() + static_cast<std::ptrdiff_t>(starts_[i]));
  }
  return image;
}

void OperandLayout::check(const std::vector<BoundOperand>& operands, const std::vector<std::byte>& before,
                          const std::vector<std::byte>& after, const std::vector<std::byte>& around_workspaces) const {
  // Bytes outside of what may be written, from one operand's end to the next one's start.
  const auto expect_same = [&](size_t begin, size_t end, const std::string& what) {
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = before.begin() + static_cast<std::ptrdiff_t>(end);
    const auto changed = std::mismatch(first, last, after.begin() + static_cast<std::ptrdiff_t>(begin)).first;
    if (changed != last)
      throw Error(TSR_E_INTERNAL, "the kernel wrote byte " + std::to_string(changed - first) + " of what lies " + what);
  };
  size_t guard = 0;
  std::string name = "before the first operand";
  for (size_t i = 0; i < operands.size(); ++i) {
    const tsr_slot_spec& slot = operands[i].slot;
    if (is_workspace(slot)) continue;
    const size_t end = starts_[i] + bytes_of(slot);
    expect_same(guard, starts_[i], name + ", before " + op::slot_name(slot.slot));
    if (slot.mode == TSR_MODE_READ) expect_same(starts_[i], end, "in " + op::slot_name(slot.slot) + ", which it reads");
    guard = end;
    name = "after " + op::slot_name(slot.slot);
  }
  expect_same(guard, before.size(), name);
  if (!std::all_of(around_workspaces.begin(), around_workspaces.end(), is_guard))
    throw Error(TSR_E_INTERNAL, "the kernel wrote beyond the ends of a workspace");
}

void OperandLayout::take(const std::vector<std::byte>& after, std::vector<BoundOperand>& operands) const {
  for (size_t i = 0; i < operands.size(); ++i)
    if (!is_workspace(operands[i].slot))
      std::copy_n(after.begin() + static_cast<std::ptrdiff_t>(starts_[i]), operands[i].bytes.size(),
                  operands[i].bytes.begin());
}

}  // namespace tessera::testing

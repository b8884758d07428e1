// What happens to a linear op in bfloat16, forward:
//
//     bound     p0 bf16   i0 bf16   o0 bf16     w0 float32 [p0 | i0 | o0], each from a multiple of 256 bytes on
//     1. widen  p0 -> w0, i0 -> w0              exact
//     2. run    the float32 kernel on w0
//     3. narrow w0 -> o0                        rounded once, to nearest even
//
// An operand bound with ADD is widened, added to in float32, and rounded. Cost: 4 bytes of workspace a value and two
// passes over the operands; against 16-bit kernels it saves a second set of all of them (docs/decisions/0009).
#include "cpu-device/kernels/mixed_precision.h"

#include <array>
#include <string>
#include <utility>

#include "cpu-device/kernels/elementwise/elementwise.h"
#include "tessera/error.hpp"
#include "tessera/op_slots.hpp"
#include "tessera/ranges.hpp"

namespace tessera::cpu {
namespace {

constexpr uint64_t kPartElements = 256 / sizeof(float);  // copies start at multiples of this
constexpr size_t kMaxOperands = 24;

tsr_op as_float32(tsr_op op) {
  op.dtype = TSR_F32;
  return op;
}

/// Whether this slot, float32 in the float32 op, is of op.dtype in the 16-bit one.
bool holds_values(const SlotList& slots_16_bit, const tsr_op& op, const tsr_slot_spec& slot) {
  const int i = op::slot_index(slots_16_bit, slot.slot);
  return i >= 0 && slots_16_bit[static_cast<size_t>(i)].dtype == op.dtype;
}

uint64_t copy_elements(const tsr_slot_spec& slot) {
  return round_up<uint64_t>(slot.num_elements, kPartElements);
}

/// The slot that describe_16_bit adds to those of the float32 op.
tsr_slot_spec copies_slot(const tsr_op& op, const SlotList& slots) {
  uint32_t num_workspaces = 0;
  uint64_t num_elements = 0;
  const SlotList slots_16_bit = op::segment_slots(op);
  for (const tsr_slot_spec& slot : slots) {
    num_workspaces += TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_WORKSPACE ? 1 : 0;
    if (holds_values(slots_16_bit, op, slot)) num_elements += copy_elements(slot);
  }
  return op::workspace(num_workspaces, num_elements);
}

class MixedPrecision : public Kernel {
 public:
  MixedPrecision(const OpImpl& impl, const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : num_threads_(num_threads),
        widen_(cast_loop(op.dtype, TSR_F32)),
        narrow_(cast_loop(TSR_F32, op.dtype)),
        copies_(op::slot_index(slots, copies_slot(op, impl.describe(as_float32(op))).slot)) {
    SlotList float32_slots;
    uint64_t offset = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (static_cast<int>(i) == copies_) continue;
      tsr_slot_spec slot = slots[i];
      Float32Operand operand{i, slot.num_elements};
      if (slot.dtype == op.dtype) {
        slot.dtype = TSR_F32;
        operand.is_copied = true;
        operand.offset = std::exchange(offset, offset + copy_elements(slot));
        operand.is_read = slot.mode != TSR_MODE_WRITE;
        operand.is_written = slot.mode != TSR_MODE_READ;
      }
      float32_slots.push_back(slot);
      operands_.push_back(operand);
    }
    if (operands_.size() > kMaxOperands)
      throw Error(TSR_E_INTERNAL, "op " + op::op_name(op.kind) + " has " + std::to_string(operands_.size()) +
                                      " operands; 16-bit kernels take " + std::to_string(kMaxOperands));
    kernel_ = impl.prepare(as_float32(op), float32_slots, num_threads);
  }

  void run(void* const* pointers) override {
    std::array<void*, kMaxOperands> float32;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Float32Operand& operand = operands_[i];
      void* const bound = pointers[operand.position];
      float32[i] = operand.is_copied ? static_cast<float*>(pointers[copies_]) + operand.offset : bound;
      if (operand.is_read) run_loop(widen_, float32[i], bound, operand.num_elements, num_threads_);
    }
    kernel_->run(float32.data());
    for (size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].is_written)
        run_loop(narrow_, pointers[operands_[i].position], float32[i], operands_[i].num_elements, num_threads_);
  }

 private:
  // An operand of the float32 kernel: the one bound at `position`, or its copy.
  struct Float32Operand {
    size_t position;
    uint64_t num_elements;
    bool is_copied = false, is_read = false, is_written = false;
    uint64_t offset = 0;  // of the copy
  };

  const int num_threads_;
  const SizedLoop widen_, narrow_;
  const int copies_;
  std::vector<Float32Operand> operands_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

SlotList describe_16_bit(const OpImpl& impl, const tsr_op& op) {
  SlotList slots = impl.describe(as_float32(op));
  const tsr_slot_spec copies = copies_slot(op, slots);
  const SlotList slots_16_bit = op::segment_slots(op);
  for (tsr_slot_spec& slot : slots)
    if (holds_values(slots_16_bit, op, slot)) slot.dtype = op.dtype;
  if (copies.num_elements > 0) slots.push_back(copies);
  return slots;
}

std::unique_ptr<Kernel> prepare_16_bit(const OpImpl& impl, const tsr_op& op, std::span<const tsr_slot_spec> slots,
                                       int num_threads) {
  return std::make_unique<MixedPrecision>(impl, op, slots, num_threads);
}

}  // namespace tessera::cpu

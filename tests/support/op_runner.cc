#include "support/op_runner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "cpu-device/slots.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::testing {
namespace {

constexpr size_t kAlignment = 64;
constexpr std::byte kGuard{0xa5};

// One operand in memory: a guard, the elements, a guard.
class Memory {
 public:
  Memory(const tsr_slot_spec& slot, size_t offset_bytes)
      : num_bytes_(slot.num_elements * TSR_DTYPE_BYTES(slot.dtype)),
        bytes_(num_bytes_ + 4 * kAlignment, kGuard),
        start_((kAlignment - reinterpret_cast<uintptr_t>(bytes_.data()) % kAlignment) + kAlignment + offset_bytes) {}

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data() + start_);
  }

  bool is_whole() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(bytes_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(num_bytes_), bytes_.end(), is_guard);
  }

 private:
  size_t num_bytes_;
  std::vector<std::byte> bytes_;
  size_t start_;
};

bool is_gradient(uint32_t slot) {
  return TSR_SLOT_ROLE(slot) == TSR_ROLE_GRADIENT || TSR_SLOT_ROLE(slot) == TSR_ROLE_INPUT_GRADIENT;
}

constexpr uint32_t kLossScale = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE);

std::vector<tsr_slot_spec> bound_slots(const tsr_op& op, const cpu::OpFamily& family, const Operands& operands,
                                       const RunOptions& options) {
  const auto described = family.describe(op);
  std::vector<tsr_slot_spec> slots;
  for (tsr_slot_spec slot : described) {
    if (std::count(options.left_out.begin(), options.left_out.end(), slot.slot)) continue;
    if (slot.slot == kLossScale && !operands.loss_scale) continue;
    if (is_gradient(slot.slot)) slot.mode = options.gradient_mode;
    slots.push_back(slot);
  }
  cpu::check_slots(described, slots);
  return slots;
}

uint16_t narrow(tsr_dtype dtype, float value) {
  return dtype == TSR_BF16 ? float_to_bf16(value) : float_to_f16(value);
}
float widen(tsr_dtype dtype, uint16_t bits) {
  return dtype == TSR_BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

void put(const tsr_slot_spec& slot, const std::vector<float>& values, Memory& memory) {
  if (values.size() != slot.num_elements)
    throw Error(TSR_E_INVALID_ARGUMENT, "wrong number of values for " + cpu::slot_name(slot.slot));
  for (size_t i = 0; i < values.size(); ++i)
    if (is_16_bit(slot.dtype))
      memory.as<uint16_t>()[i] = narrow(slot.dtype, values[i]);
    else
      memory.as<float>()[i] = values[i];
}

std::vector<float> get(const tsr_slot_spec& slot, Memory& memory) {
  std::vector<float> values(slot.num_elements);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = is_16_bit(slot.dtype) ? widen(slot.dtype, memory.as<uint16_t>()[i]) : memory.as<float>()[i];
  return values;
}

void fill(const tsr_slot_spec& slot, const Operands& operands, Memory& memory) {
  const auto n = static_cast<size_t>(slot.num_elements);
  const auto copy = [&](const auto& values, auto* to) {
    if (values.size() != n)
      throw Error(TSR_E_INVALID_ARGUMENT, "wrong number of values for " + cpu::slot_name(slot.slot));
    std::copy(values.begin(), values.end(), to);
  };
  if (slot.slot == kLossScale) {
    *memory.as<double>() = *operands.loss_scale;
  } else if (slot.dtype == TSR_I64) {
    if (operands.loss.empty())
      std::fill_n(memory.as<int64_t>(), n, 0);
    else
      copy(operands.loss, memory.as<int64_t>());
  } else if (slot.dtype == TSR_I32) {
    copy(operands.tokens.at(slot.slot), memory.as<int32_t>());
  } else if (const auto found = operands.floats.find(slot.slot);
             found != operands.floats.end() && slot.mode != TSR_MODE_WRITE) {
    put(slot, found->second, memory);
  } else {
    put(slot, std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()), memory);
  }
}

}  // namespace

tsr_op segment_op(uint32_t kind, uint32_t phase, const std::map<int, int64_t>& dims,
                  const std::map<int, double>& attributes) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.phase = phase;
  op.dtype = op.gradient_dtype = TSR_F32;
  for (const auto& [dim, extent] : dims)
    op.dims[dim] = extent;
  for (const auto& [attribute, value] : attributes)
    op.attributes[attribute] = value;
  return op;
}

Operands run(const tsr_op& op, const Operands& operands, const RunOptions& options) {
  const cpu::OpFamily* family = cpu::compute_ops(op.kind);
  if (!family) throw Error(TSR_E_UNSUPPORTED, "no family computes this kind");
  const auto slots = bound_slots(op, *family, operands, options);
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<void*> pointers;
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t offset = options.offset >= 0 ? static_cast<size_t>(options.offset) : i % 4;
    const size_t offset_bytes = TSR_DTYPE_BYTES(slots[i].dtype) == 8 ? 0 : offset * TSR_DTYPE_BYTES(slots[i].dtype);
    memories.push_back(std::make_unique<Memory>(slots[i], offset_bytes));
    fill(slots[i], operands, *memories.back());
    pointers.push_back(memories.back()->as<void>());
  }
  family->prepare(op, slots, options.num_threads)->run(pointers.data());

  Operands results = operands;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!memories[i]->is_whole())
      throw Error(TSR_E_INTERNAL, "the kernel wrote beyond the ends of " + cpu::slot_name(slots[i].slot));
    if (slots[i].dtype == TSR_I64)
      results.loss.assign(memories[i]->as<int64_t>(), memories[i]->as<int64_t>() + slots[i].num_elements);
    else if (slots[i].dtype == TSR_F32 || is_16_bit(slots[i].dtype))
      results.floats[slots[i].slot] = get(slots[i], *memories[i]);
  }
  return results;
}

bool is_16_bit(tsr_dtype dtype) {
  return dtype == TSR_BF16 || dtype == TSR_F16;
}

float rounded(tsr_dtype dtype, float value) {
  return is_16_bit(dtype) ? widen(dtype, narrow(dtype, value)) : value;
}

std::vector<float> random_floats(uint64_t num_elements, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(num_elements);
  for (float& value : values)
    value = uniform(generator);
  return values;
}

std::vector<int32_t> random_tokens(uint64_t num_tokens, int32_t vocabulary, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int32_t> uniform(0, vocabulary - 1);
  std::vector<int32_t> tokens(num_tokens);
  for (int32_t& token : tokens)
    token = uniform(generator);
  return tokens;
}

}  // namespace tessera::testing

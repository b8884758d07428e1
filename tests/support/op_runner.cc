#include "support/op_runner.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tessera/error.hpp"
#include "tessera/half.hpp"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

constexpr uint32_t kLossScale = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE);
constexpr uint32_t kCorrect = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT);
constexpr std::byte kNan{0xff};  // every byte of one

bool is_gradient(uint32_t slot) {
  return TSR_SLOT_ROLE(slot) == TSR_ROLE_GRADIENT || TSR_SLOT_ROLE(slot) == TSR_ROLE_INPUT_GRADIENT;
}

uint16_t narrow(tsr_dtype dtype, float value) {
  return dtype == TSR_BF16 ? float_to_bf16(value) : float_to_f16(value);
}
float widen(tsr_dtype dtype, uint16_t bits) {
  return dtype == TSR_BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

template <class T>
std::vector<std::byte> to_bytes(const T* values, size_t num_values) {
  std::vector<std::byte> bytes(num_values * sizeof(T));
  if (num_values > 0) std::memcpy(bytes.data(), values, bytes.size());
  return bytes;
}
template <class T>
std::vector<T> from_bytes(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::byte> float_bytes(tsr_dtype dtype, const std::vector<float>& values) {
  if (!is_16_bit(dtype)) return to_bytes(values.data(), values.size());
  std::vector<uint16_t> narrowed(values.size());
  std::transform(values.begin(), values.end(), narrowed.begin(), [&](float value) { return narrow(dtype, value); });
  return to_bytes(narrowed.data(), narrowed.size());
}

std::vector<float> floats_of(tsr_dtype dtype, const std::vector<std::byte>& bytes) {
  if (!is_16_bit(dtype)) return from_bytes<float>(bytes);
  const auto narrowed = from_bytes<uint16_t>(bytes);
  std::vector<float> values(narrowed.size());
  std::transform(narrowed.begin(), narrowed.end(), values.begin(), [&](uint16_t bits) { return widen(dtype, bits); });
  return values;
}

// What the slot holds before the run; without a value of the caller's, NaN.
std::vector<std::byte> bytes_before(const tsr_slot_spec& slot, const Operands& operands) {
  if (slot.slot == kLossScale) return to_bytes(&*operands.loss_scale, 1);
  if (slot.slot == kCorrect) return to_bytes(&operands.correct, 1);
  if (slot.dtype == TSR_I32)
    return to_bytes(operands.tokens.at(slot.slot).data(), operands.tokens.at(slot.slot).size());
  if (slot.dtype == TSR_I64) {
    const std::vector<int64_t> zeros(slot.num_elements);
    return to_bytes((operands.loss.empty() ? zeros : operands.loss).data(), zeros.size());
  }
  const auto found = operands.floats.find(slot.slot);
  if (found != operands.floats.end() && slot.mode != TSR_MODE_WRITE) return float_bytes(slot.dtype, found->second);
  return std::vector<std::byte>(TSR_NUM_BYTES(slot.dtype, slot.num_elements), kNan);
}

std::vector<BoundOperand> bind(DeviceRunner& device, const tsr_op& op, const Operands& operands,
                               const RunOptions& options) {
  std::vector<BoundOperand> bound;
  for (tsr_slot_spec slot : device.describe(op)) {
    if (std::count(options.left_out.begin(), options.left_out.end(), slot.slot)) continue;
    if (slot.slot == kLossScale && !operands.loss_scale) continue;
    if (is_gradient(slot.slot)) slot.mode = options.gradient_mode;
    const bool is_workspace = TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_WORKSPACE;
    bound.push_back({slot, is_workspace ? std::vector<std::byte>{} : bytes_before(slot, operands)});
  }
  return bound;
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

Operands run(DeviceRunner& device, const tsr_op& op, const Operands& operands, const RunOptions& options) {
  std::vector<BoundOperand> bound = bind(device, op, operands, options);
  device.run(op, bound, {options.num_threads, options.offset, options.in_graph});
  Operands results = operands;
  for (const auto& [slot, bytes] : bound) {
    if (TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_WORKSPACE) continue;
    if (slot.slot == kCorrect)
      results.correct = from_bytes<int64_t>(bytes).at(0);
    else if (slot.dtype == TSR_I64)
      results.loss = from_bytes<int64_t>(bytes);
    else if (slot.dtype == TSR_F32 || is_16_bit(slot.dtype))
      results.floats[slot.slot] = floats_of(slot.dtype, bytes);
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

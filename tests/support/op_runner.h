// The ops of segments on operands given as float32 values: rounded, run, widened again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "support/device_runner.h"

namespace tessera::testing {

/// Slots by role and index, as in tessera/device.h.
inline uint32_t p(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_PARAMETER, i);
}
inline uint32_t g(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_GRADIENT, i);
}
inline uint32_t in(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_INPUT, i);
}
inline uint32_t out(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_OUTPUT, i);
}
inline uint32_t din(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, i);
}
inline uint32_t dout(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, i);
}
inline uint32_t saved(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_SAVED, i);
}
inline uint32_t context(uint32_t i) {
  return TSR_SLOT(TSR_ROLE_CONTEXT, i);
}

/// An op with every dim 0 but those given.
tsr_op segment_op(uint32_t kind, uint32_t phase, const std::map<int, int64_t>& dims,
                  const std::map<int, double>& attributes = {});

struct RunOptions {
  int num_threads = 1;
  /// Mode of the gradients: TSR_MODE_ADD, or TSR_MODE_WRITE, and then they start as NaN.
  uint32_t gradient_mode = TSR_MODE_ADD;
  /// As in Placement.
  int offset = 0;
  /// Slots not bound.
  std::vector<uint32_t> left_out = {};
  bool in_graph = false;
};

/// Operands by slot; the values of 16-bit ones as float32, rounded when they are bound. Those the caller does not set
/// hold NaN, integers 0.
struct Operands {
  std::map<uint32_t, std::vector<float>> floats;
  std::map<uint32_t, std::vector<int32_t>> tokens;
  std::vector<int64_t> loss;         // x:LOSS, when the op has it
  int64_t correct = 0;               // x:CORRECT, when the op has it
  std::optional<double> loss_scale;  // x:LOSS_SCALE; not bound without
};

/// Runs `op` once on copies of `operands`, and gives them as they are afterwards, those that the caller did not name
/// included, save workspaces. Throws as DeviceRunner::run does.
Operands run(DeviceRunner& device, const tsr_op& op, const Operands& operands, const RunOptions& options = {});

/// bfloat16 or float16.
bool is_16_bit(tsr_dtype dtype);
/// `value`, rounded to nearest even if the dtype is of 16 bits.
float rounded(tsr_dtype dtype, float value);

/// num_elements values in [-scale, scale], by `seed`.
std::vector<float> random_floats(uint64_t num_elements, uint32_t seed, float scale = 1.0f);
std::vector<int32_t> random_tokens(uint64_t num_tokens, int32_t vocabulary, uint32_t seed);

}  // namespace tessera::testing

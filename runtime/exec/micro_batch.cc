// What a step was given must be what its programs bind. A copy that has begun still reads memory that the caller frees
// on an error, so everything is checked before the first copy.

#include "exec/micro_batch.h"

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

void check_input(const Buffer& buffer, const InputValues& values) {
  const bool is_float = std::holds_alternative<std::vector<float>>(values);
  const size_t num_elements = std::visit([](const auto& elements) { return elements.size(); }, values);
  const tsr_dtype dtype = is_float ? TSR_F32 : TSR_I32;
  const bool is_rounded = is_float && (buffer.dtype == TSR_BF16 || buffer.dtype == TSR_F16);
  if ((buffer.dtype != dtype && !is_rounded) || num_elements != buffer.num_elements)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("input '", buffer.name, "' takes ", dtype_name(buffer.dtype), "[", buffer.num_elements,
                       "] and was given ", dtype_name(dtype), "[", num_elements, "]"));
}

}  // namespace

const InputValues& input_values(const InputBuffer& input, std::span<const MicroBatch> micro_batches) {
  return micro_batches[static_cast<size_t>(input.micro_batch)][static_cast<size_t>(input.input)];
}

void check_batches(const Program& program, std::span<const MicroBatch> micro_batches) {
  if (micro_batches.size() != program.step_config.num_micro_batches)
    throw Error(TSR_E_INVALID_ARGUMENT, concat("a step takes ", program.step_config.num_micro_batches,
                                               " micro-batches and was given ", micro_batches.size()));
  const size_t num_inputs = program.model->inputs().size();
  for (const MicroBatch& batch : micro_batches)
    if (batch.size() != num_inputs)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat("a micro-batch has ", num_inputs, " inputs and was given ", batch.size()));
  for (const InputBuffer& input : program.inputs)
    check_input(program.buffer(input.buffer), input_values(input, micro_batches));
}

}  // namespace tessera::host

// Turns applied ops into segments and values. What an op does to dims is its entry's (infer_op.h); what is left for
// here is to keep the lists of the model, which are the order of the forward.

#include "model/model_builder.h"

#include <algorithm>

#include "base/concat.h"
#include "model/infer_op.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

uint64_t product(const std::vector<tsr_dim>& dims) {
  uint64_t n = 1;
  for (const tsr_dim& dim : dims)
    n *= static_cast<uint64_t>(dim.extent);
  return n;
}

template <class T>
std::vector<Operand> operands(const std::vector<T>& all, const std::vector<int>& indices) {
  std::vector<Operand> result;
  result.reserve(indices.size());
  for (const int i : indices)
    result.push_back({all.at(static_cast<size_t>(i)).name, all[static_cast<size_t>(i)].dims});
  return result;
}

InferredOp infer(const Model& model, const OpCall& call) {
  try {
    InferredOp inferred =
        infer_op(call.op, {operands(model.parameters, call.parameters), operands(model.values, call.inputs)});
    if (inferred.outputs.size() == call.outputs.size()) return inferred;
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("its op has ", inferred.outputs.size(), " outputs, not ", call.outputs.size()));
  } catch (const Error& e) {
    throw Error(e.code(), concat("segment ", call.segment, ": ", e.what()));
  }
}

}  // namespace

tsr_dim make_dim(uint32_t name, int64_t extent, uint32_t blocks, int64_t granule) {
  return {name, blocks, extent, granule};
}

ModelBuilder::ModelBuilder(const BatchShape& shape) : shape_(shape) {
  model_.batch = shape.batch;
  model_.seq = std::max<int64_t>(1, shape.seq);
}

int ModelBuilder::unit(std::string name) {
  model_.units.push_back({std::move(name), 0, {}});
  return static_cast<int>(model_.units.size()) - 1;
}

int ModelBuilder::parameter(std::string name, std::vector<tsr_dim> dims, InitialRule initial) {
  const int index = static_cast<int>(model_.parameters.size()), unit = static_cast<int>(model_.units.size()) - 1;
  Parameter parameter{std::move(name), std::move(dims), unit};
  parameter.num_elements = product(parameter.dims);
  parameter.initial = initial;
  model_.parameters.push_back(std::move(parameter));
  model_.units.back().parameters.push_back(index);
  return index;
}

int ModelBuilder::add_value(std::string name, std::vector<tsr_dim> dims, uint32_t kind, tsr_dtype dtype) {
  const uint64_t num_elements = product(dims);
  model_.values.push_back({std::move(name), std::move(dims), kind, dtype, -1, num_elements});
  return static_cast<int>(model_.values.size()) - 1;
}

int ModelBuilder::input(std::string name, tsr_dtype dtype, std::vector<tsr_dim> columns) {
  std::vector<tsr_dim> dims = {make_dim(TSR_DIM_BATCH, shape_.batch)};
  if (shape_.seq > 0) dims.push_back(make_dim(TSR_DIM_SEQ, shape_.seq));
  dims.insert(dims.end(), columns.begin(), columns.end());
  return add_value(std::move(name), std::move(dims), TSR_VALUE_INPUT, dtype);
}

std::vector<int> ModelBuilder::apply(const OpCall& call) {
  InferredOp inferred = infer(model_, call);
  Segment segment{call.segment, inferred.op, call.parameters, call.inputs, {}, {}};
  segment.op.dtype = shape_.dtype;
  // Gradients of parameters leave the product in float32 whatever the compute dtype is.
  segment.op.gradient_dtype = TSR_F32;
  for (const auto& [attribute, value] : call.attributes)
    segment.op.attributes[attribute] = value;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    InferredOutput& output = inferred.outputs[i];
    segment.outputs.push_back(add_value(call.outputs[i], std::move(output.dims), TSR_VALUE_ACTIVATION,
                                        output.is_float32 ? TSR_F32 : shape_.dtype));
  }
  if (const int addend = inferred.shares_gradient; addend >= 0)
    model_.values[static_cast<size_t>(call.inputs[static_cast<size_t>(addend)])].gradient_of = segment.outputs[0];
  segment.contractions = std::move(inferred.contractions);
  segment.block = block_;
  std::copy(std::begin(inferred.dim_names), std::end(inferred.dim_names), segment.dim_names.begin());
  segment.is_row_wise = inferred.is_row_wise;
  model_.segments.push_back(std::move(segment));
  return model_.segments.back().outputs;
}

Model ModelBuilder::finish() {
  lay_out_units(model_);
  return std::move(model_);
}

}  // namespace tessera::host

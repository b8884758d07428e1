// Programs made by hand, for tests of what reads programs.
//
//     Mesh mesh({{"dp", 2}});
//     Model model = toy_model();
//     Program p = empty_program(model, mesh);
//     const uint64_t x = transient(p, "x", 1024);
//     add_action(p, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x)});
//     add_action(p, TSR_ACTION_ALL_REDUCE, p.comm_stream(0, "gradient"), {add(x).at(0, 512)}).group = p.group({0});
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace tessera::testing {
using namespace host;

inline constexpr uint64_t kWhole = UINT64_MAX;

/// A binding before the size of its buffer is looked up.
struct Use {
  uint64_t buffer = 0;
  uint32_t mode = TSR_MODE_READ;
  uint32_t slot = 0;
  uint64_t offset = 0;
  uint64_t num_elements = kWhole;

  Use at(uint64_t new_offset, uint64_t new_num_elements) const {
    return {buffer, mode, slot, new_offset, new_num_elements};
  }
};

inline Use read(uint64_t buffer, uint32_t slot = TSR_SLOT(TSR_ROLE_SOURCE, 0)) {
  return {buffer, TSR_MODE_READ, slot};
}
inline Use write(uint64_t buffer, uint32_t slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0)) {
  return {buffer, TSR_MODE_WRITE, slot};
}
inline Use add(uint64_t buffer, uint32_t slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0)) {
  return {buffer, TSR_MODE_ADD, slot};
}

/// A program with the three streams that every program has, and nothing else.
inline Program empty_program(const Model& model, const Mesh& mesh, Coordinates coordinates = {}) {
  Program program;
  program.model = &model;
  program.mesh = &mesh;
  program.coordinates = std::move(coordinates);
  program.coordinates.resize(mesh.axes().size());
  return program;
}

inline uint64_t transient(Program& program, std::string name, uint64_t num_elements,
                          uint32_t kind = TSR_BUFFER_ACTIVATION, tsr_dtype dtype = TSR_F32,
                          uint32_t memory = TSR_MEMORY_DEVICE) {
  return program.add_buffer({0, std::move(name), kind, memory, dtype, false, num_elements});
}

inline uint64_t persistent(Program& program, std::string name, uint64_t num_elements, uint32_t kind = TSR_BUFFER_HOME,
                           tsr_dtype dtype = TSR_F32, uint32_t memory = TSR_MEMORY_DEVICE) {
  return program.add_buffer({0, std::move(name), kind, memory, dtype, true, num_elements});
}

/// Appends; the reference is good until the next call.
inline Action& add_action(Program& program, uint32_t kind, uint32_t stream, const std::vector<Use>& uses) {
  Action action;
  action.id = program.next_id++;
  action.kind = kind;
  action.stream = stream;
  for (const Use& use : uses) {
    const uint64_t num_elements =
        use.num_elements == kWhole ? program.buffer(use.buffer).num_elements - use.offset : use.num_elements;
    action.bindings.push_back({use.buffer, use.offset, num_elements, use.slot, use.mode});
  }
  program.actions.push_back(std::move(action));
  return program.actions.back();
}

/// Token embedding `wte`, blocks `h.0.fc`, `h.1.fc`, ... (linear with bias, [width, width]), and the tied `loss`.
/// Values: tokens, targets, x.0 (output of wte), x.1, ... One unit for wte and one for each block.
inline Model toy_model(int num_blocks = 2, int64_t num_rows = 8, int64_t width = 16, int64_t vocab = 32) {
  Model model;
  model.batch = 1;
  model.seq = num_rows;
  const auto dim = [](uint32_t name, int64_t extent) { return tsr_dim{name, 1, extent, 1}; };
  const auto padded = [](uint64_t n) {
    return (n + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
  };
  const auto parameter = [&](std::string name, std::vector<tsr_dim> dims, int unit) {
    uint64_t num_elements = 1;
    for (const tsr_dim& d : dims)
      num_elements *= static_cast<uint64_t>(d.extent);
    Unit& home = model.units[unit];
    home.parameters.push_back(static_cast<int>(model.parameters.size()));
    model.parameters.push_back({std::move(name), std::move(dims), unit, num_elements, home.num_elements, true});
    home.num_elements += padded(num_elements);
  };
  const auto value = [&](std::string name, uint32_t kind, tsr_dtype dtype, std::vector<tsr_dim> dims) {
    uint64_t num_elements = 1;
    for (const tsr_dim& d : dims)
      num_elements *= static_cast<uint64_t>(d.extent);
    model.values.push_back({std::move(name), std::move(dims), kind, dtype, -1, num_elements});
    return static_cast<int>(model.values.size()) - 1;
  };
  const auto segment = [&](std::string name, uint32_t op, std::vector<int> parameters, std::vector<int> inputs,
                           std::vector<int> outputs) {
    Segment s;
    s.name = std::move(name);
    s.op.struct_size = sizeof s.op;
    s.op.kind = op;
    s.op.dtype = s.op.gradient_dtype = TSR_F32;
    s.parameters = std::move(parameters);
    s.inputs = std::move(inputs);
    s.outputs = std::move(outputs);
    model.segments.push_back(std::move(s));
  };
  const tsr_dim rows = dim(TSR_DIM_SEQ, num_rows), columns = dim(TSR_DIM_EMBED, width);
  const int tokens = value("tokens", TSR_VALUE_INPUT, TSR_I32, {rows});
  const int targets = value("targets", TSR_VALUE_INPUT, TSR_I32, {rows});
  model.units.push_back({"wte", 0, {}});
  parameter("wte.weight", {dim(TSR_DIM_VOCAB, vocab), columns}, 0);
  int x = value("x.0", TSR_VALUE_ACTIVATION, TSR_F32, {rows, columns});
  segment("wte", TSR_OP_TOKEN_EMBEDDING, {0}, {tokens}, {x});
  for (int block = 0; block < num_blocks; ++block) {
    const std::string unit = "h." + std::to_string(block);
    model.units.push_back({unit, 0, {}});
    parameter(unit + ".fc.weight", {columns, columns}, block + 1);
    parameter(unit + ".fc.bias", {columns}, block + 1);
    const int y = value("x." + std::to_string(block + 1), TSR_VALUE_ACTIVATION, TSR_F32, {rows, columns});
    segment(unit + ".fc", TSR_OP_LINEAR, {2 * block + 1, 2 * block + 2}, {x}, {y});
    x = y;
  }
  segment("loss", TSR_OP_LOSS, {0}, {x, targets}, {});
  return model;
}

}  // namespace tessera::testing

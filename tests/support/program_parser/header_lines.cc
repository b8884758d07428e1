// The lines above a program's buffers: purpose and coordinates, the configuration of the step, streams, groups.

#include "support/program_parser/header_lines.h"

#include <algorithm>

#include "offload/copies.h"

namespace tessera::testing {
namespace {

void check_coordinate(int coordinate, const Axis& axis) {
  if (coordinate < 0 || coordinate >= axis.num_ranks)
    fail_text("coordinate " + std::to_string(coordinate) + " is outside axis " + axis.name + " of " +
              std::to_string(axis.num_ranks));
}

// Kind and axis are part of the name: "comm.<axis or world>.<lane>", or a stream of the device.
Stream stream_named(const std::string& name, const Mesh& mesh) {
  if (name == kFetchStream || name == kEvictStream) return {name};
  if (name == kFileInStream || name == kFileOutStream || name == kHostStream)
    return {name, TSR_WORLD_AXIS, TSR_STREAM_KIND_HOST};
  if (name.starts_with("comm.world.")) return {name, TSR_WORLD_AXIS, TSR_STREAM_KIND_COMM};
  for (size_t i = 0; i < mesh.axes().size(); ++i)
    if (name.starts_with("comm." + mesh.axes()[i].name + ".")) return {name, static_cast<int>(i), TSR_STREAM_KIND_COMM};
  fail_text(in_quotes(name) +
            " is not a stream: expected comm.<axis or world>.<lane>, fetch, evict, file_in, file_out or host");
}

}  // namespace

void parse_program_line(Line& line, Program& program) {
  line.take_exactly("program");
  program.purpose = number_of(kPurposeNames, line.take("a purpose"), "purpose");
  line.take_exactly("variant");
  program.variant = number_from<uint32_t>(line.take("the variant"), "variant");
  const auto axes = program.mesh->axes();
  if (!axes.empty()) line.take_exactly("coordinates");
  program.coordinates.clear();
  for (const Axis& axis : axes) {
    program.coordinates.push_back(index_from(line.take_value(axis.name), "coordinate"));
    check_coordinate(program.coordinates.back(), axis);
  }
}

void parse_shape_line(Line& line, Program& program) {
  StepConfig& step_config = program.step_config;
  line.take_exactly("shape");
  step_config.num_micro_batches = number_from<uint32_t>(line.take_value("micro_batches"), "number");
  step_config.reduce_every = number_of(kReduceEveryNames, line.take_value("reduce_every"), "reduction point");
  step_config.dtype = dtype_from(line.take_value("dtype"));
  step_config.reduce_dtype = dtype_from(line.take_value("reduce_dtype"));
  step_config.optimizer = number_of(kOptimizerNames, line.take_value("optimizer"), "optimizer");
  step_config.beta1 = number_from<double>(line.take_value("beta1"), "number");
  step_config.beta2 = number_from<double>(line.take_value("beta2"), "number");
  step_config.epsilon = number_from<double>(line.take_value("epsilon"), "number");
  step_config.weight_decay = number_from<double>(line.take_value("weight_decay"), "number");
  step_config.max_norm = number_from<double>(line.take_value("max_norm"), "number");
}

void parse_stream_line(Line& line, Program& program) {
  line.take_exactly("stream");
  const std::string name = unquoted(line.take("a stream's name"));
  if (std::ranges::count(program.streams, name, &Stream::name)) fail_text("stream " + name + " is declared twice");
  program.streams.push_back(stream_named(name, *program.mesh));
}

void parse_group_line(Line& line, Program& program) {
  line.take_exactly("group");
  const Group group = group_from(line.take("a group"), *program.mesh);
  if (std::ranges::count(program.groups, group)) fail_text("the group is declared twice");
  program.groups.push_back(group);
}

Group group_from(std::string_view text, const Mesh& mesh) {
  if (text == "world") return {};
  Group result;
  const size_t brace = text.find('{');
  result.axis = mesh.axis(text.substr(0, brace));
  if (brace == std::string_view::npos) return result;
  if (!text.ends_with('}')) fail_text(in_quotes(text) + " is not a group: '}' is missing");
  result.coordinates = numbers_from<int>(text.substr(brace + 1, text.size() - brace - 2), "coordinate");
  for (const int coordinate : result.coordinates)
    check_coordinate(coordinate, mesh.axes()[result.axis]);
  if (std::ranges::adjacent_find(result.coordinates, std::greater_equal{}) != result.coordinates.end())
    fail_text("the coordinates of group " + in_quotes(text) + " do not ascend");
  return result;
}

}  // namespace tessera::testing

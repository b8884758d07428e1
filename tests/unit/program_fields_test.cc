// Every field of a program, where one that is forgotten would not show: what passes are shown of it, and the digest by
// which ranks are said to have equal programs.
#include <gtest/gtest.h>

#include <functional>

#include "compile/edit/program_snapshot.h"
#include "compile/lower.h"
#include "model/gpt2/gpt2.h"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace {
using namespace host;

const Mesh& mesh() {
  static const Mesh all({{"dp", 3, TSR_SPLITS_BATCH}, {"tp", 2, TSR_SPLITS_TENSORS}});
  return all;
}

const Model& model() {
  static const Model gpt2 = [] {
    Model made = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 8, .vocab = 16, .positions = 4, .ffn = 8},
                           {.batch = 1, .seq = 4});
    made.parameters[1].trainable = false;
    made.parameters[2].rows_axis = 1;
    return made;
  }();
  return gpt2;
}

/// No field has its default value.
Program program() {
  Program made;
  made.model = &model();
  made.mesh = &mesh();
  made.coordinates = {2, 1};
  made.purpose = TSR_PURPOSE_EVAL;
  made.variant = 3;
  made.step_config.num_micro_batches = 5;
  made.step_config.reduce_every = TSR_EVERY_MICRO_BATCH;
  made.step_config.dtype = TSR_BF16;
  made.step_config.reduce_dtype = TSR_F16;
  made.layout = {{4, 1, 7, TSR_LAYOUT_SPLIT, 1, 2, 3, {0, 1}, 96, 0}};
  made.buffers = {{11, "mine", TSR_BUFFER_PLUGIN, TSR_MEMORY_HOST, TSR_I64, true, 40, 1, {}},
                  {12, "h.0", TSR_BUFFER_HOME, TSR_MEMORY_DEVICE, TSR_F32, true, 128, -1, {}}};
  made.inputs = {{11, 1, 4}};
  made.homes = {{13, "h.0", 2, {tsr_piece{}}, 100, {}}};
  made.homes[0].pieces[0].parameter = 5;
  made.homes[0].pieces[0].home_offset = 7;
  made.homes[0].roles[TSR_HOME_VALUE] = {12, 9, 100};
  made.homes[0].roles[TSR_HOME_STATE(0)] = {12, 19, 99};
  made.streams.push_back({"comm.tp.sums", 1, TSR_STREAM_KIND_COMM});
  made.groups = {{0, {1, 2}}};
  made.actions = {{14,
                   TSR_ACTION_ALL_REDUCE,
                   3,
                   2,
                   4,
                   0,
                   1,
                   TSR_REDUCE_MAX,
                   TSR_ACTION_PREDICATED,
                   13,
                   77,
                   0.5,
                   1,
                   6,
                   {{11, 1, 2, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ, {}}},
                   {8, 9},
                   {1, 0},
                   {},
                   {3}}};
  made.next_id = 15;
  return made;
}

TEST(ProgramFields, AreShownToPasses) {
  Program shown = program();
  tsr_strategy_interface tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.role = TSR_STRATEGY_SPLIT_COMPUTE;
  shown.strategies = {{"tensor", 1, &tensor, nullptr}};
  const ProgramSnapshot snapshot(shown, 1, 0);
  const tsr_program_view& v = snapshot.view();
  EXPECT_EQ(v.purpose, TSR_PURPOSE_EVAL);
  EXPECT_EQ(v.variant, 3u);
  EXPECT_EQ(v.reduce_every, TSR_EVERY_MICRO_BATCH);
  EXPECT_EQ(v.num_micro_batches, 5u);
  EXPECT_EQ(v.dtype, TSR_BF16);
  EXPECT_EQ(v.reduce_dtype, TSR_F16);

  ASSERT_EQ(v.num_axes, 2u);
  EXPECT_EQ(to_string(v.axes[1].name), "tp");
  EXPECT_EQ(v.axes[0].num_ranks, 3);
  EXPECT_EQ(v.axes[0].coordinate, 2);
  EXPECT_EQ(v.axes[1].coordinate, 1);
  EXPECT_EQ(v.axes[1].splits, TSR_SPLITS_TENSORS);
  ASSERT_EQ(v.num_data_ranks, 1u);
  EXPECT_EQ(v.data_ranks[0], 2);
  ASSERT_EQ(v.num_strategies, 1u);
  EXPECT_EQ(to_string(v.strategies[0].name), "tensor");
  EXPECT_EQ(v.strategies[0].axis, 1);
  EXPECT_EQ(v.strategies[0].role, TSR_STRATEGY_SPLIT_COMPUTE);

  ASSERT_EQ(v.num_layout_entries, 1u);
  const tsr_layout_entry& e = v.layout[0];
  EXPECT_EQ(e.parameter, 4);
  EXPECT_EQ(e.axis, 1);
  EXPECT_EQ(e.roles, 7u);
  EXPECT_EQ(e.kind, TSR_LAYOUT_SPLIT);
  EXPECT_EQ(e.dim, 1);
  EXPECT_EQ(e.parts, 2u);
  EXPECT_EQ(e.blocks, 3u);
  EXPECT_EQ(std::vector(e.coordinates, e.coordinates + e.num_coordinates), (std::vector{0, 1}));
  EXPECT_EQ(e.padded_size, 96u);
  EXPECT_EQ(e.name, 0u);

  ASSERT_EQ(v.num_buffers, 2u);
  const tsr_buffer& b = v.buffers[0];
  EXPECT_EQ(b.id, 11u);
  EXPECT_EQ(b.num_elements, 40u);
  EXPECT_EQ(to_string(b.name), "mine");
  EXPECT_EQ(b.kind, TSR_BUFFER_PLUGIN);
  EXPECT_EQ(b.memory, TSR_MEMORY_HOST);
  EXPECT_EQ(b.dtype, TSR_I64);
  EXPECT_EQ(b.flags, TSR_BUFFER_PERSISTENT);
  EXPECT_EQ(b.strategy, 1);

  ASSERT_EQ(v.num_homes, 1u);
  const tsr_home& h = v.homes[0];
  EXPECT_EQ(h.id, 13u);
  EXPECT_EQ(to_string(h.name), "h.0");
  EXPECT_EQ(h.unit, 2);
  EXPECT_EQ(h.num_elements, 100u);
  ASSERT_EQ(h.num_pieces, 1u);
  EXPECT_EQ(h.pieces[0].parameter, 5);
  EXPECT_EQ(h.pieces[0].home_offset, 7u);
  ASSERT_EQ(h.num_roles, 2u);
  EXPECT_EQ(h.roles[1].number, TSR_HOME_STATE(0));
  EXPECT_EQ(h.roles[1].granule, 1u);
  EXPECT_EQ(h.roles[1].buffer, 12u);
  EXPECT_EQ(h.roles[1].offset, 19u);
  EXPECT_EQ(h.roles[1].num_elements, 99u);

  ASSERT_EQ(v.num_streams, 4u);
  EXPECT_EQ(to_string(v.streams[3].name), "comm.tp.sums");
  EXPECT_EQ(v.streams[3].axis, 1);
  EXPECT_EQ(v.streams[3].kind, TSR_STREAM_KIND_COMM);
  ASSERT_EQ(v.num_groups, 1u);
  EXPECT_EQ(v.groups[0].axis, 0);
  EXPECT_EQ(std::vector(v.groups[0].coordinates, v.groups[0].coordinates + v.groups[0].num_coordinates),
            (std::vector{1, 2}));

  ASSERT_EQ(v.num_actions, 1u);
  const tsr_action& a = v.actions[0];
  EXPECT_EQ(a.id, 14u);
  EXPECT_EQ(a.kind, TSR_ACTION_ALL_REDUCE);
  EXPECT_EQ(a.stream, 3u);
  EXPECT_EQ(a.segment, 2);
  EXPECT_EQ(a.micro_batch, 4);
  EXPECT_EQ(a.group, 0);
  EXPECT_EQ(a.peer, 1);
  EXPECT_EQ(a.reduce, TSR_REDUCE_MAX);
  EXPECT_EQ(a.flags, TSR_ACTION_PREDICATED);
  EXPECT_EQ(a.home, 13u);
  EXPECT_EQ(a.tag, 77u);
  EXPECT_EQ(a.scale, 0.5);
  EXPECT_EQ(a.strategy, 1);
  EXPECT_EQ(a.code, 6u);
  ASSERT_EQ(a.num_bindings, 1u);
  EXPECT_EQ(a.bindings[0].buffer, 11u);
  EXPECT_EQ(std::vector(a.counts, a.counts + a.num_counts), (std::vector<uint64_t>{8, 9}));
  EXPECT_EQ(std::vector(a.peers, a.peers + a.num_peers), (std::vector{1, 0}));
}

TEST(ProgramFields, OfTheModelAreShownToPasses) {
  const Program shown = program();
  const ProgramSnapshot snapshot(shown, 1, -1);
  const tsr_program_view& v = snapshot.view();
  ASSERT_EQ(v.num_units, model().units.size());
  for (size_t i = 0; i < v.num_units; ++i) {
    EXPECT_EQ(to_string(v.units[i].name), model().units[i].name);
    EXPECT_EQ(v.units[i].num_elements, model().units[i].num_elements);
  }
  ASSERT_EQ(v.num_parameters, model().parameters.size());
  for (size_t i = 0; i < v.num_parameters; ++i) {
    const Parameter& p = model().parameters[i];
    EXPECT_EQ(to_string(v.parameters[i].name), p.name);
    EXPECT_EQ(v.parameters[i].num_dims, p.dims.size());
    EXPECT_EQ(v.parameters[i].unit, p.unit);
    EXPECT_EQ(v.parameters[i].num_elements, p.num_elements);
    EXPECT_EQ(v.parameters[i].unit_offset, p.unit_offset);
    EXPECT_EQ(v.parameters[i].partial_axes, i == 2 ? 2u : 0u);
    EXPECT_EQ(v.parameters[i].flags, i == 1 ? TSR_PARAMETER_FROZEN : 0u);
  }
  ASSERT_EQ(v.num_values, model().values.size());
  for (size_t i = 0; i < v.num_values; ++i) {
    const Value& value = model().values[i];
    EXPECT_EQ(to_string(v.values[i].name), value.name);
    EXPECT_EQ(v.values[i].num_dims, value.dims.size());
    EXPECT_EQ(v.values[i].kind, value.kind);
    EXPECT_EQ(v.values[i].gradient_of, value.gradient_of);
    EXPECT_EQ(v.values[i].dtype, value.dtype);
    EXPECT_EQ(v.values[i].num_elements, value.num_elements);
    for (const auto& [axis, kind, dim] :
         {std::tuple{0, TSR_PLACEMENT_SPLIT, TSR_DIM_BATCH}, {1, TSR_PLACEMENT_REPLICATED, 0u}}) {
      EXPECT_EQ(v.values[i].placements[axis].kind, kind);
      EXPECT_EQ(v.values[i].placements[axis].dim, dim);
      EXPECT_EQ(v.values[i].placements[axis].reduce, 0u);
    }
  }
  ASSERT_EQ(v.num_segments, model().segments.size());
  for (size_t i = 0; i < v.num_segments; ++i) {
    EXPECT_EQ(v.segments[i].num_parameters, model().segments[i].parameters.size());
    EXPECT_EQ(v.segments[i].num_inputs, model().segments[i].inputs.size());
    EXPECT_EQ(v.segments[i].num_outputs, model().segments[i].outputs.size());
  }
}

// A pass that writes into what it is shown is found, wherever it writes.
TEST(ProgramFields, AreWatchedWhileAPassSeesThem) {
  Program shown = program();
  tsr_strategy_interface tensor{};
  tensor.struct_size = sizeof tensor;
  shown.strategies = {{"tensor", 1, &tensor, nullptr}};
  const ProgramSnapshot snapshot(shown, 1, 0);
  const tsr_program_view& v = snapshot.view();
  const auto is_watched = [&](const void* place) {
    auto* byte = static_cast<unsigned char*>(const_cast<void*>(place));
    *byte ^= 1;
    bool is_found = false;
    try {
      snapshot.check_unchanged(nullptr);
    } catch (const Error&) {
      is_found = true;
    }
    *byte ^= 1;
    return is_found;
  };
  EXPECT_NO_THROW(snapshot.check_unchanged(nullptr));
  EXPECT_TRUE(is_watched(&v.num_actions));
  EXPECT_TRUE(is_watched(&v.axes[1].num_ranks));
  EXPECT_TRUE(is_watched(v.axes[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.strategies[0].role));
  EXPECT_TRUE(is_watched(v.strategies[0].name.ptr));
  EXPECT_TRUE(is_watched(&v.units[1].num_elements));
  EXPECT_TRUE(is_watched(v.units[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.parameters[1].flags));
  EXPECT_TRUE(is_watched(v.parameters[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.parameters[1].dims[0].extent));
  EXPECT_TRUE(is_watched(&v.values[1].kind));
  EXPECT_TRUE(is_watched(v.values[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.values[1].dims[0].extent));
  EXPECT_TRUE(is_watched(&v.values[1].placements[1].kind));
  EXPECT_TRUE(is_watched(&v.segments[1].block));
  EXPECT_TRUE(is_watched(v.segments[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.segments[1].op->kind));
  EXPECT_TRUE(is_watched(&v.segments[1].parameters[0]));
  EXPECT_TRUE(is_watched(&v.segments[1].inputs[0]));
  EXPECT_TRUE(is_watched(&v.segments[1].outputs[0]));
  for (uint64_t i = 0; i < v.num_segments; ++i)
    if (v.segments[i].rule->num_contractions > 0) {
      EXPECT_TRUE(is_watched(&v.segments[i].rule->num_contractions));
      EXPECT_TRUE(is_watched(&v.segments[i].rule->contractions[0].reduce));
      break;
    }
  EXPECT_TRUE(is_watched(&v.layout[0].dim));
  EXPECT_TRUE(is_watched(&v.layout[0].coordinates[1]));
  EXPECT_TRUE(is_watched(&v.buffers[1].num_elements));
  EXPECT_TRUE(is_watched(v.buffers[1].name.ptr));
  EXPECT_TRUE(is_watched(&v.homes[0].unit));
  EXPECT_TRUE(is_watched(v.homes[0].name.ptr));
  EXPECT_TRUE(is_watched(&v.homes[0].pieces[0].num_elements));
  EXPECT_TRUE(is_watched(&v.homes[0].roles[1].offset));
  EXPECT_TRUE(is_watched(&v.streams[3].axis));
  EXPECT_TRUE(is_watched(v.streams[3].name.ptr));
  EXPECT_TRUE(is_watched(&v.groups[0].axis));
  EXPECT_TRUE(is_watched(&v.groups[0].coordinates[1]));
  EXPECT_TRUE(is_watched(&v.actions[0].tag));
  EXPECT_TRUE(is_watched(&v.actions[0].bindings[0].offset));
  EXPECT_TRUE(is_watched(&v.actions[0].counts[1]));
  EXPECT_TRUE(is_watched(&v.actions[0].peers[1]));
  EXPECT_TRUE(is_watched(&v.data_ranks[0]));
  EXPECT_TRUE(is_watched(&v.optimizer->kind));
}

TEST(ProgramFields, AreInTheDigest) {
  const auto digest = [](const Program& init, bool is_step = false) {
    LoweredPrograms programs;
    programs.init = init;
    if (is_step) programs.steps = {init};
    return digest_of(programs);
  };
  const std::string known = digest(program());
  EXPECT_EQ(digest(program()), known);
  EXPECT_NE(digest(program(), true), known);
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& p) { p.purpose = TSR_PURPOSE_STEP; },
      [](Program& p) { ++p.variant; },
      [](Program& p) { ++p.next_id; },
      [](Program& p) { p.coordinates[1] = 0; },
      [](Program& p) { ++p.buffers[0].id; },
      [](Program& p) { p.buffers[0].name = "miNe"; },
      [](Program& p) { p.buffers[0].name = "mine and more than a word"; },
      [](Program& p) { p.buffers[0].kind = TSR_BUFFER_SCALAR; },
      [](Program& p) { p.buffers[0].memory = TSR_MEMORY_DEVICE; },
      [](Program& p) { p.buffers[0].dtype = TSR_F32; },
      [](Program& p) { p.buffers[0].persistent = false; },
      [](Program& p) { ++p.buffers[0].num_elements; },
      [](Program& p) { ++p.buffers[0].strategy; },
      [](Program& p) { p.buffers.pop_back(); },
      [](Program& p) { ++p.inputs[0].buffer; },
      [](Program& p) { ++p.inputs[0].input; },
      [](Program& p) { ++p.inputs[0].micro_batch; },
      [](Program& p) { ++p.homes[0].id; },
      [](Program& p) { ++p.homes[0].num_elements; },
      [](Program& p) { ++p.homes[0].unit; },
      [](Program& p) { p.homes[0].name = "h.1"; },
      [](Program& p) { ++p.homes[0].pieces[0].parameter; },
      [](Program& p) { ++p.homes[0].pieces[0].parameter_offset; },
      [](Program& p) { ++p.homes[0].pieces[0].home_offset; },
      [](Program& p) { ++p.homes[0].pieces[0].num_elements; },
      [](Program& p) { ++p.homes[0].roles[TSR_HOME_VALUE].buffer; },
      [](Program& p) { ++p.homes[0].roles[TSR_HOME_VALUE].offset; },
      [](Program& p) { ++p.homes[0].roles[TSR_HOME_VALUE].num_elements; },
      [](Program& p) {
        p.homes[0].roles[TSR_HOME_GRADIENT] = {12, 0, 1};
      },
      [](Program& p) { p.streams[3].name = "comm.tp.other"; },
      [](Program& p) { --p.streams[3].axis; },
      [](Program& p) { ++p.streams[3].kind; },
      [](Program& p) { ++p.groups[0].axis; },
      [](Program& p) {
        p.groups[0].coordinates = {0, 2};
      },
      [](Program& p) { p.groups[0].coordinates.clear(); },
      [](Program& p) { ++p.actions[0].id; },
      [](Program& p) { ++p.actions[0].kind; },
      [](Program& p) { ++p.actions[0].stream; },
      [](Program& p) { ++p.actions[0].segment; },
      [](Program& p) { ++p.actions[0].micro_batch; },
      [](Program& p) { ++p.actions[0].group; },
      [](Program& p) { ++p.actions[0].peer; },
      [](Program& p) { --p.actions[0].reduce; },
      [](Program& p) { ++p.actions[0].flags; },
      [](Program& p) { ++p.actions[0].home; },
      [](Program& p) { ++p.actions[0].tag; },
      [](Program& p) { p.actions[0].scale = 0.25; },
      [](Program& p) { ++p.actions[0].strategy; },
      [](Program& p) { ++p.actions[0].code; },
      [](Program& p) { ++p.actions[0].bindings[0].buffer; },
      [](Program& p) { ++p.actions[0].bindings[0].offset; },
      [](Program& p) { ++p.actions[0].bindings[0].num_elements; },
      [](Program& p) { ++p.actions[0].bindings[0].slot; },
      [](Program& p) { ++p.actions[0].bindings[0].mode; },
      [](Program& p) { ++p.actions[0].counts[1]; },
      [](Program& p) { p.actions[0].counts.clear(); },
      [](Program& p) { ++p.actions[0].peers[1]; },
      [](Program& p) { p.actions[0].peers.clear(); },
      [](Program& p) { ++p.actions[0].waits_for[0]; },
      [](Program& p) { p.actions[0].waits_for.clear(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Program changed = program();
    changes[i](changed);
    EXPECT_NE(digest(changed), known) << "change " << i;
  }
  Program elsewhere = program();
  elsewhere.coordinates[0] = 0;  // of an axis that does not split tensors: ranks with other tokens run the same program
  EXPECT_EQ(digest(elsewhere), known);
}

}  // namespace
}  // namespace tessera::testing

// The form of a program: one broken program for each rule. What is broken is a GPT-2 under ddp that is clean.
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_diagnostic.h"
#include "unit/rank_fault.h"
#include "verify/verify_rank.h"

namespace tessera::testing {
namespace {

Action& forward(Program& program) {
  return first(program, TSR_ACTION_FORWARD);
}
/// A call of a strategy for axis dp.
Action& caller(Program& program) {
  program.strategies.push_back({"caller", 0});
  Action& call = add_action(program, TSR_ACTION_CALL, 0, {});
  call.strategy = 0;
  return call;
}

LayoutEntry& add_entry(Program& program, int parameter) {
  LayoutEntry& split = program.layout.emplace_back();
  split.parameter = parameter;
  split.axis = 0;
  return split;
}

TEST_P(RankForm, IsReported) {
  Program program = job().finished(0);
  GetParam().make(program);
  EXPECT_TRUE(has_diagnostic(verify_rank(program), GetParam().diagnostic));
}

const Fault kTableFaults[] = {
    {"buffer_ids_descend", [](Program& p) { std::swap(p.buffers[0], p.buffers[1]); }, "ids start at 1 and ascend"},
    {"buffer_kind", [](Program& p) { p.buffers[0].kind = 99; }, "buffer wte has the unknown kind 99"},
    {"buffer_dtype", [](Program& p) { p.buffers[0].dtype = 0; }, "home wte has the unknown dtype 0"},
    {"buffer_memory", [](Program& p) { p.buffers[0].memory = 7; }, "home wte is in the unknown memory 7"},
    {"buffer_length", [](Program& p) { p.buffers[0].num_elements = UINT64_MAX; }, "too many to address"},
    {"streams_missing", [](Program& p) { p.streams.resize(2); }, "the program has 2 streams"},
    {"stream_kind", [](Program& p) { p.streams.back().kind = 9; }, "is of the unknown kind 9"},
    {"stream_axis", [](Program& p) { p.streams.back().axis = 5; }, "is for axis 5, which the mesh does not have"},
    {"world_with_coordinates",
     [](Program& p) {
       p.groups.push_back({TSR_WORLD_AXIS, {0}});
     },
     "it must be all ranks"},
    {"group_axis",
     [](Program& p) {
       p.groups.push_back({3, {}});
     },
     "a group is for axis 3"},
    {"group_coordinates",
     [](Program& p) {
       p.groups.push_back({0, {1, 0}});
     },
     "group dp {1,0} must list ascending coordinates below 2"},
    {"group_coordinate_twice",
     [](Program& p) {
       p.groups.push_back({0, {1, 1}});
     },
     "group dp {1,1} must list ascending coordinates below 2"},
    {"group_coordinate_beyond",
     [](Program& p) {
       p.groups.push_back({0, {0, 2}});
     },
     "group dp {0,2} must list ascending coordinates below 2"},
    {"home_unit", [](Program& p) { p.homes[0].unit = 99; }, "is of unit 99, which does not exist"},
    {"layout_parameter", [](Program& p) { add_entry(p, 999); }, "for parameter 999"},
    {"layout_axis", [](Program& p) { add_entry(p, 0).axis = 7; }, "for parameter 0 on axis 7, which do not exist"},
    {"layout_rows_axis",
     [](Program& p) {
       LayoutEntry& rows = add_entry(p, kNamedDim);
       rows.name = TSR_DIM_ROWS;
       rows.axis = 7;
     },
     "for parameter -1 on axis 7, which do not exist"},
    {"layout_named_dim", [](Program& p) { add_entry(p, kNamedDim).name = TSR_DIM_BATCH; },
     "for parameter -1 on axis 0, which do not exist"},
    {"layout_rows_of_a_parameter",
     [](Program& p) {
       LayoutEntry& rows = add_entry(p, 0);
       rows.name = TSR_DIM_ROWS;
       rows.dim = 2;
     },
     "splits dim 2"},
    {"layout_kind", [](Program& p) { add_entry(p, 0).kind = 9; }, "unknown kind 9"},
    {"layout_kind_zero", [](Program& p) { add_entry(p, 0).kind = 0; }, "unknown kind 0"},
    {"layout_dim_below", [](Program& p) { add_entry(p, 0).dim = -2; }, "splits dim -2"},
    {"layout_dim", [](Program& p) { add_entry(p, 0).dim = 2; }, "splits dim 2"},
    {"home_buffer", [](Program& p) { p.homes[0].roles[TSR_HOME_M].buffer = 12345; },
     "the m of home wte.weight is in buffer %12345, which does not exist"},
    {"home_range", [](Program& p) { p.homes[0].roles[TSR_HOME_M].offset = 1; },
     "the m of home wte.weight reaches beyond"},
    {"home_size", [](Program& p) { p.homes[0].roles[TSR_HOME_M].num_elements = 5; }, "has 5 elements, the home 768"},
    {"home_in_a_buffer_of_a_strategy",
     [](Program& p) {
       Buffer own = p.buffers[0];
       own.kind = TSR_BUFFER_PLUGIN;
       HomeRole place = p.homes[0].roles[TSR_HOME_VALUE];
       place.buffer = p.add_buffer(own);
       p.homes[0].roles[TSR_HOME_MASTER] = place;
     },
     "the master of home wte.weight is in plugin wte, a strategy's own, of which nothing is proved"},
    {"home_transient", [](Program& p) { p.buffers[0].persistent = false; },
     "the value of home wte.weight is in home wte, which does not outlive the step"},
    {"piece_parameter", [](Program& p) { p.homes[0].pieces[0].parameter = -1; }, "has a piece of parameter -1"},
    {"piece_beyond_parameter", [](Program& p) { p.homes[0].pieces[0].parameter_offset = 1; },
     "the piece of wte.weight in home wte.weight reaches beyond the parameter's 768 elements"},
    {"piece_begins_beyond_parameter", [](Program& p) { p.homes[0].pieces[0].parameter_offset = 769; },
     "the piece of wte.weight in home wte.weight reaches beyond the parameter's 768 elements"},
    {"piece_begins_beyond_home", [](Program& p) { p.homes[0].pieces[0].home_offset = 769; },
     "reaches beyond the home's 768"},
    {"piece_beyond_home", [](Program& p) { p.homes[0].pieces[0].home_offset = 1; }, "reaches beyond the home's 768"},
    {"piece_overlap", [](Program& p) { p.homes[0].pieces.push_back(p.homes[0].pieces[0]); }, "pieces ascend"},
    {"homes_that_overlap",
     [](Program& p) {
       const auto home = [&](std::string_view name) { return std::ranges::find(p.homes, name, &Home::name); };
       const HomeRole& m = home("h.0.ln_1.weight")->roles[TSR_HOME_M];
       home("h.0.ln_1.bias")->roles[TSR_HOME_M].offset = m.offset + m.num_elements - 1;
     },
     "the m of home h.0.ln_1.weight and the m of home h.0.ln_1.bias both have "},
    {"homes_of_one_place", [](Program& p) { p.homes[0].roles[TSR_HOME_V] = p.homes[0].roles[TSR_HOME_M]; },
     "the m of home wte.weight and the v of home wte.weight both have "},
};
INSTANTIATE_TEST_SUITE_P(Tables, RankForm, ::testing::ValuesIn(kTableFaults), name_of);

/// A transient buffer in that memory.
uint64_t buffer_in(Program& p, uint32_t memory) {
  const uint64_t id = transient(p, "elsewhere", 8, TSR_BUFFER_STAGING);
  p.buffers.back().memory = memory;
  return id;
}

const Fault kActionFaults[] = {
    {"file_on_a_stream_of_the_device",
     [](Program& p) {
       const uint64_t file = buffer_in(p, TSR_MEMORY_FILE), host = buffer_in(p, TSR_MEMORY_HOST);
       add_action(p, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(file), write(host)});
     },
     "binds a buffer that is in a file; only copies on the host's streams read and write files"},
    {"file_that_is_zeroed",
     [](Program& p) {
       const uint64_t file = buffer_in(p, TSR_MEMORY_FILE);
       add_action(p, TSR_ACTION_ZERO, p.host_stream("file_out"), {write(file)});
     },
     "binds a buffer that is in a file; only copies on the host's streams read and write files"},
    {"forward_on_a_stream_of_the_host", [](Program& p) { forward(p).stream = p.host_stream("file_in"); },
     "is on a stream of the host; only copies from and to files, elementwise actions, sum_squares and optimizer are"},
    {"memory_of_the_device_on_a_stream_of_the_host",
     [](Program& p) {
       const uint64_t host = buffer_in(p, TSR_MEMORY_HOST), device = buffer_in(p, TSR_MEMORY_DEVICE);
       add_action(p, TSR_ACTION_COPY, p.host_stream("host"), {read(host), write(device)});
     },
     "is on a stream of the host, and binds a buffer that is not in the host's memory"},
    {"id_twice", [](Program& p) { p.actions[1].id = p.actions[0].id; }, "which another action has too"},
    {"unknown_kind", [](Program& p) { p.actions[1].kind = 11; }, "#1 compute kind 11"},
    {"buffer", [](Program& p) { forward(p).bindings[0].buffer = 99999; }, "to buffer %99999, which does not exist"},
    {"outside", [](Program& p) { forward(p).bindings[0].offset = 1; },
     "rank 0 #1 compute forward wte mb=0 binds p0 (wte.weight) to 768 elements from 1 of home wte, which has 768"},
    {"outside_overflow", [](Program& p) { forward(p).bindings[0].offset = UINT64_MAX - 3; },
     "of home wte, which has 768"},
    {"mode", [](Program& p) { forward(p).bindings[0].mode = 0; }, "with the unknown mode 0"},
    {"slot", [](Program& p) { forward(p).bindings[0].slot = 7; }, "binds the unknown slot 7"},
    {"stream", [](Program& p) { forward(p).stream = 77; }, "is on stream 77, which does not exist"},
    {"collective_on_compute", [](Program& p) { sum(p).stream = TSR_STREAM_COMPUTE; }, "must be on a comm stream"},
    {"elementwise_on_comm", [](Program& p) { first(p, TSR_ACTION_ZERO).stream = 3; },
     "is on a comm stream; only collectives and messages are"},
    {"compute_on_copy", [](Program& p) { forward(p).stream = TSR_STREAM_COPY_IN; }, "must be on the compute stream"},
    {"call_on_comm", [](Program& p) { add_action(p, TSR_ACTION_CALL, 3, {}).strategy = 0; },
     "a call never communicates"},
    {"code_without_call", [](Program& p) { forward(p).code = 1; }, "has a code of addends; only calls do"},
    {"call_with_peer",
     [](Program& p) {
       Action& call = caller(p);
       call.peer = 0;
     },
     "has a peer or counts; a call never communicates"},
    {"call_that_writes_a_scalar",
     [](Program& p) {
       const auto scalar = std::ranges::find(p.buffers, uint32_t{TSR_BUFFER_SCALAR}, &Buffer::kind);
       caller(p).bindings = {{scalar->id, 0, 1, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE}};
     },
     "which is the host's; a call may read it"},
    {"call_in_an_evaluation_that_writes_a_home",
     [](Program& p) {
       p.purpose = TSR_PURPOSE_EVAL;
       caller(p).bindings = {{p.buffers[0].id, 0, 1, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE}};
     },
     "outside of steps a call writes what is its strategy's own"},
    {"call_by_maximum", [](Program& p) { caller(p).reduce = TSR_REDUCE_MAX; },
     "has the reduction 4; a call makes sums (1) or reduces nothing (0)"},
    {"call_with_unknown_group", [](Program& p) { caller(p).group = 9; }, "is for group 9, which does not exist"},
    {"call_with_group_alone", [](Program& p) { caller(p).group = 0; },
     "has a group and no reduction; a call names the group whose sum it makes"},
    {"call_for_the_world",
     [](Program& p) {
       const int world = p.group({TSR_WORLD_AXIS, {}});
       Action& call = caller(p);
       call.reduce = TSR_REDUCE_SUM;
       call.group = world;
     },
     "makes the sum over world; caller is for axis dp"},
    {"call_for_other_ranks",
     [](Program& p) {
       const int others = p.group({0, {1}});
       Action& call = caller(p);
       call.reduce = TSR_REDUCE_SUM;
       call.group = others;
     },
     "makes the sum over dp {1}, which this rank is not in"},
    {"call_strategy", [](Program& p) { add_action(p, TSR_ACTION_CALL, 0, {}); }, "calls strategy -1 of 0"},
    {"micro_batch", [](Program& p) { forward(p).micro_batch = 2; }, "is for micro-batch 2 of 2"},
    {"no_micro_batch", [](Program& p) { forward(p).micro_batch = -1; }, "names no micro-batch"},
    {"segment", [](Program& p) { forward(p).segment = 1000; }, "is for segment 1000"},
    {"loss_of_another_segment", [](Program& p) { first(p, TSR_ACTION_LOSS).segment = 0; },
     "is for a segment that is not the loss"},
    {"forward_of_the_loss", [](Program& p) { forward(p).segment = first(p, TSR_ACTION_LOSS).segment; },
     "is for the segment of the loss; its action is loss"},
    {"home", [](Program& p) { first(p, TSR_ACTION_OPTIMIZER).home = 5555; }, "is for home %5555, which does not exist"},
    {"no_home", [](Program& p) { first(p, TSR_ACTION_SUM_SQUARES).home = 0; }, "names no home"},
    {"group", [](Program& p) { sum(p).group = 9; }, "is for group 9, which does not exist"},
    {"stream_of_other_axis",
     [](Program& p) {
       sum(p).group = p.group({TSR_WORLD_AXIS, {}});
     },
     "is for group world, but its stream is for another axis"},
    {"foreign_group",
     [](Program& p) {
       sum(p).group = p.group({0, {1}});
     },
     "is for group dp {1}, which this rank is not in"},
    {"group_on_compute", [](Program& p) { forward(p).group = 0; },
     "has a group, a peer or a reduction, but is not a collective"},
    {"flags", [](Program& p) { forward(p).flags = 8; }, "has the unknown flags 8"},
    {"predicate_on_compute", [](Program& p) { forward(p).flags = TSR_ACTION_PREDICATED; },
     "has a predicate; so far only the optimizer may be skipped"},
    {"predicate_on_elementwise", [](Program& p) { first(p, TSR_ACTION_ZERO).flags = TSR_ACTION_PREDICATED; },
     "has a predicate; so far only the optimizer may be skipped"},
    {"predicate_without_clip",
     [](Program& p) {
       std::erase_if(first(p, TSR_ACTION_OPTIMIZER).bindings,
                     [](const Binding& b) { return b.slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP); });
     },
     "does not read the result of clip"},
    {"predicate_that_adds_to_clip",
     [](Program& p) {
       for (Binding& b : first(p, TSR_ACTION_OPTIMIZER).bindings)
         if (b.slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP)) b.mode = TSR_MODE_ADD;
     },
     "does not read the result of clip"},
    {"dependency_forwards", [](Program& p) { p.actions[3].dependencies = {3}; },
     "waits for #3, which is not before it"},
};
INSTANTIATE_TEST_SUITE_P(Actions, RankForm, ::testing::ValuesIn(kActionFaults), name_of);

Binding* binding(Action& action, uint32_t slot) {
  for (Binding& b : action.bindings)
    if (b.slot == slot) return &b;
  return nullptr;
}

const Fault kSlotFaults[] = {
    {"copy_onto_itself",
     [](Program& p) {
       const uint64_t x = transient(p, "x", 8);
       add_action(p, TSR_ACTION_COPY, 0, {read(x).at(0, 5), write(x).at(3, 5)});
     },
     "reads and writes activation x[3:8]; an elementwise action has operands apart"},
    {"scale_that_is_no_number",
     [](Program& p) {
       add_action(p, TSR_ACTION_SCALE, 0, {add(transient(p, "x", 8))}).scale = std::numeric_limits<double>::quiet_NaN();
     },
     "scales by nan, which float32 has no normal number for"},
    {"scale_that_float32_lacks",
     [](Program& p) { add_action(p, TSR_ACTION_SCALE, 0, {add(transient(p, "x", 8))}).scale = 1e-40; },
     "which float32 has no normal number for"},
    {"twice", [](Program& p) { forward(p).bindings.push_back(forward(p).bindings[0]); }, "binds p0 (wte.weight) twice"},
    {"not_there", [](Program& p) { forward(p).bindings[0].slot = TSR_SLOT(TSR_ROLE_GRADIENT, 0); },
     "binds g0 (wte.weight), which forward does not have"},
    {"mode", [](Program& p) { forward(p).bindings[0].mode = TSR_MODE_ADD; },
     "binds p0 (wte.weight) with mode add; it must be read"},
    {"position", [](Program& p) { forward(p).bindings[0].slot = TSR_SLOT(TSR_ROLE_PARAMETER, 1); },
     "binds p1; its segment has 1 of those"},
    {"parameter_size", [](Program& p) { --forward(p).bindings[0].num_elements; },
     "binds p0 (wte.weight) to 767 elements; it has 768"},
    {"value_size", [](Program& p) { --binding(forward(p), TSR_SLOT(TSR_ROLE_OUTPUT, 0))->num_elements; },
     "binds o0 (wte.out) to 255 elements; it has 256"},
    {"gradient_where_a_state_is",
     [](Program& p) {
       Action& update = first(p, TSR_ACTION_OPTIMIZER);
       const Binding& state = *binding(update, TSR_SLOT(TSR_ROLE_STATE, 0));
       Binding& gradient = *binding(update, kSrc);
       gradient.buffer = state.buffer, gradient.offset = state.offset;
     },
     "and src0 too; an operand that is written has its own"},
    {"missing", [](Program& p) { first(p, TSR_ACTION_CLIP).bindings.pop_back(); }, "compute clip squares binds no x3"},
    {"home_size", [](Program& p) { --binding(first(p, TSR_ACTION_OPTIMIZER), kSrc)->num_elements; },
     "binds src0 to 767 elements; home wte.weight has 768"},
    {"state_size",
     [](Program& p) { --binding(first(p, TSR_ACTION_OPTIMIZER), TSR_SLOT(TSR_ROLE_STATE, 1))->num_elements; },
     "to 767 elements; home wte.weight has 768"},
    {"accumulator",
     [](Program& p) { --binding(first(p, TSR_ACTION_CLIP), TSR_SLOT(TSR_ROLE_SCALAR, 0))->num_elements; },
     "accumulator squares[0:23]; an accumulator is i64[24], with its run words"},
    {"copy_sizes",
     [](Program& p) {
       const uint64_t a = transient(p, "a", 4), b = transient(p, "b", 5);
       add_action(p, TSR_ACTION_COPY, 0, {read(a), write(b)});
     },
     "copy a reads 4 elements and writes 5"},
    {"scalar_that_nothing_fills",
     [](Program& p) {
       const uint64_t own = transient(p, "own", 4, TSR_BUFFER_SCALAR), copy = transient(p, "copy", 4);
       add_action(p, TSR_ACTION_COPY, 0, {read(own), write(copy)});
     },
     "reads scalar own through src0, which nothing has written"},
    {"copy_dtypes",
     [](Program& p) {
       const uint64_t a = transient(p, "a", 4), b = transient(p, "b", 4, TSR_BUFFER_STAGING, TSR_F16);
       add_action(p, TSR_ACTION_COPY, 0, {read(a), write(b)});
     },
     "copies f32 to f16; that is a cast"},
};
INSTANTIATE_TEST_SUITE_P(Slots, RankForm, ::testing::ValuesIn(kSlotFaults), name_of);

// Of a VALUE of 16 bits beside a MASTER each step makes another one.
TEST(RankFormClean, AValueBesideAMasterNeedNotOutliveTheStep) {
  const auto lost = [](bool has_master) {
    Program p = job().finished(0);
    HomeRoles& roles = p.homes[0].roles;
    if (has_master) roles[TSR_HOME_MASTER] = roles[TSR_HOME_VALUE];
    Buffer copy{0, "copy", TSR_BUFFER_HOME};
    copy.dtype = TSR_BF16;
    copy.num_elements = p.homes[0].num_elements;
    roles[TSR_HOME_VALUE] = {p.add_buffer(copy), 0, copy.num_elements};
    return has_diagnostic(verify_rank(p), "which does not outlive the step");
  };
  EXPECT_FALSE(lost(true));
  EXPECT_TRUE(lost(false));
}

TEST(RankFormClean, CopiesOfFilesAndUpdatesOnStreamsOfTheHost) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 1}});
  Program p = empty_program(model, mesh, {0});
  const uint64_t rests = persistent(p, "rests", 8, TSR_BUFFER_PLUGIN), host = buffer_in(p, TSR_MEMORY_HOST),
                 scaled = buffer_in(p, TSR_MEMORY_HOST);
  for (Buffer& buffer : p.buffers)
    if (buffer.id == rests) buffer.memory = TSR_MEMORY_FILE;
  add_action(p, TSR_ACTION_COPY, p.host_stream("file_in"), {read(rests), write(host)});
  add_action(p, TSR_ACTION_COPY, p.host_stream("host"), {read(host), write(scaled)});
  add_action(p, TSR_ACTION_COPY, p.host_stream("file_out"), {read(scaled), write(rests)});
  derive_dependencies(p);
  EXPECT_TRUE(is_clean(verify_rank(p)));
}

// As of the largest steps that a job may ask for.
TEST(RankFormClean, MoreThanAMillionActions) {
  Program p = job().finished(0);
  Action barrier;
  barrier.kind = TSR_ACTION_BARRIER;
  barrier.stream = sum(p).stream;
  barrier.group = sum(p).group;
  p.actions.assign((size_t{1} << 20) + 1, barrier);
  for (Action& action : p.actions)
    action.id = p.next_id++;
  DiagnosticList diagnostics;
  verify_actions(p, diagnostics);
  EXPECT_EQ(diagnostics.take(), Diagnostics{});
}

TEST(RankFormClean, EveryKindOfBufferHasAName) {
  Buffer buffer;
  buffer.name = "b";
  for (buffer.kind = TSR_BUFFER_HOME; buffer.kind <= TSR_BUFFER_FETCHED; ++buffer.kind)
    EXPECT_EQ(buffer_text(buffer), std::string(buffer_kind_name(buffer.kind)) + " b");
}

TEST(RankFormClean, LongListsOfFindingsAreCut) {
  Program program = job().finished(0);
  for (Action& action : program.actions)
    action.flags = 8;
  const Diagnostics diagnostics = verify_rank(program);
  ASSERT_EQ(diagnostics.size(), 51u);
  EXPECT_TRUE(diagnostics.back().starts_with("and ") && diagnostics.back().ends_with(" more")) << diagnostics.back();
}

}  // namespace
}  // namespace tessera::testing

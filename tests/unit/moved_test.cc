// Bytes between memories, by phase and direction, and memories with what they hold.
#include "plan/moved.h"

#include <gtest/gtest.h>

#include "offload/copies.h"
#include "passes/dependencies.h"
#include "plan/format.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 64;
constexpr uint64_t kBytes = 256;
constexpr uint32_t kFarMemory = 7;
constexpr int kSegment = 0;

/// Each linear op takes 2 * 2^4 operations.
Model model_with_extents() {
  Model model = toy_model();
  for (Segment& segment : model.segments)
    if (segment.op.kind == TSR_OP_LINEAR) std::ranges::fill(segment.op.dims, 2);
  return model;
}

class MovedIn : public ::testing::Test {
 protected:
  uint64_t buffer(const std::string& name, uint32_t memory, uint64_t num_elements = kElements) {
    return program_.add_buffer({0, name, TSR_BUFFER_SAVED, memory, TSR_F32, false, num_elements});
  }
  void copy(std::string_view stream, uint64_t from, uint64_t to) { copy(program_.device_stream(stream), from, to); }
  void copy(uint32_t stream, uint64_t from, uint64_t to) {
    const uint64_t num_elements = program_.buffer(from).num_elements;
    add_action(program_, TSR_ACTION_COPY, stream,
               {{from, TSR_MODE_READ, TSR_SLOT(TSR_ROLE_SOURCE, 0), 0, num_elements},
                {to, TSR_MODE_WRITE, TSR_SLOT(TSR_ROLE_DESTINATION, 0), 0, num_elements}});
  }
  void action(uint32_t kind, const std::vector<Use>& uses) {
    add_action(program_, kind, TSR_STREAM_COMPUTE, uses).segment = kSegment;
  }

  const Model model_ = model_with_extents();
  const Mesh mesh_{{{"dp", 1}}};
  Program program_ = empty_program(model_, mesh_, {0});
};

TEST_F(MovedIn, ACopyBelongsToThePhaseThatItServes) {
  const uint64_t saved = buffer("saved", TSR_MEMORY_DEVICE), away = buffer("saved", TSR_MEMORY_HOST);
  const uint64_t back = buffer("saved", TSR_MEMORY_DEVICE);
  const uint64_t rests = buffer("m", TSR_MEMORY_HOST, 2 * kElements), m = buffer("m", TSR_MEMORY_DEVICE, 2 * kElements);
  action(TSR_ACTION_FORWARD, {write(saved)});
  copy(kEvictStream, saved, away);
  copy(kFetchStream, away, back);
  copy(kFetchStream, rests, m);  // during the backward, for the update
  action(TSR_ACTION_BACKWARD, {read(back)});
  action(TSR_ACTION_OPTIMIZER, {add(m)});
  copy(kEvictStream, m, rests);
  const Moved moved = moved_in(program_);
  EXPECT_EQ(moved.of(MovePhase::forward).in_bytes, 0u);
  EXPECT_EQ(moved.of(MovePhase::forward).out_bytes, kBytes);
  EXPECT_EQ(moved.of(MovePhase::backward).in_bytes, kBytes);
  EXPECT_EQ(moved.of(MovePhase::backward).out_bytes, 0u);
  EXPECT_EQ(moved.of(MovePhase::update).in_bytes, 2 * kBytes);
  EXPECT_EQ(moved.of(MovePhase::update).out_bytes, 2 * kBytes);
  EXPECT_EQ(moved.total().in_bytes, 3 * kBytes);
}

TEST_F(MovedIn, StagingAndWhatStaysOutsideTheDeviceDoNotCount) {
  const uint64_t value = buffer("value", TSR_MEMORY_DEVICE), other = buffer("other", TSR_MEMORY_DEVICE);
  const uint64_t host = buffer("host", TSR_MEMORY_HOST), file = buffer("file", TSR_MEMORY_FILE);
  action(TSR_ACTION_ZERO, {write(value)});
  copy(TSR_STREAM_COPY_OUT, value, host);
  copy(TSR_STREAM_COPY_IN, host, other);
  copy(TSR_STREAM_COMPUTE, value, other);
  copy(kFileOutStream, host, file);
  copy(kFileInStream, file, host);
  EXPECT_EQ(moved_in(program_).total().in_bytes + moved_in(program_).total().out_bytes, 0u);
  copy(kFetchStream, host, other);
  copy(kFileInStream, file, value);
  EXPECT_EQ(moved_in(program_).total().in_bytes, 2 * kBytes);
}

TEST_F(MovedIn, FilesCountInWholeBlocksOnBothWays) {
  const uint64_t rests = buffer("m", TSR_MEMORY_FILE, 4096), m = buffer("m", TSR_MEMORY_DEVICE, 4096);
  action(TSR_ACTION_FORWARD, {});
  // Bytes 4000 to 8200 of the file: a part of each of three blocks.
  add_action(program_, TSR_ACTION_COPY, program_.host_stream(kFileInStream),
             {{rests, TSR_MODE_READ, TSR_SLOT(TSR_ROLE_SOURCE, 0), 1000, 1050},
              {m, TSR_MODE_WRITE, TSR_SLOT(TSR_ROLE_DESTINATION, 0), 0, 1050}});
  action(TSR_ACTION_OPTIMIZER, {add(m)});
  copy(program_.host_stream(kFileOutStream), m, rests);
  const Moved moved = moved_in(program_);
  const MovedBytes& update = moved.of(MovePhase::update);
  EXPECT_EQ(update.in_bytes, 4200u);
  EXPECT_EQ(update.file_read_bytes, 3 * 4096u);
  EXPECT_EQ(update.file_written_bytes, 4 * 4096u);
  EXPECT_EQ(update.narrowest_bytes(), 7 * 4096u);
  EXPECT_EQ(moved.of(MovePhase::forward).narrowest_bytes() + moved.of(MovePhase::backward).narrowest_bytes(), 0u);
}

TEST_F(MovedIn, BothHalvesOfACopyByWayOfTheHostAreInOnePhase) {
  const uint64_t rests = buffer("m", TSR_MEMORY_FILE), bounce = buffer("m", TSR_MEMORY_HOST);
  const uint64_t m = buffer("m", TSR_MEMORY_DEVICE), other_bounce = buffer("m", TSR_MEMORY_HOST);
  action(TSR_ACTION_FORWARD, {});
  copy(program_.host_stream(kFileInStream), rests, bounce);
  copy(kFetchStream, bounce, m);
  action(TSR_ACTION_OPTIMIZER, {add(m)});
  copy(kEvictStream, m, other_bounce);
  action(TSR_ACTION_FORWARD, {});
  copy(program_.host_stream(kFileOutStream), other_bounce, rests);
  const MovedBytes update = moved_in(program_).of(MovePhase::update);
  EXPECT_EQ(update.in_bytes, kBytes);
  EXPECT_EQ(update.out_bytes, kBytes);
  EXPECT_EQ(update.file_read_bytes, 4096u);
  EXPECT_EQ(update.file_written_bytes, 4096u);
  EXPECT_EQ(move_phases_of(program_).back(), MovePhase::update);
}

TEST_F(MovedIn, OperationsAreThoseOfTheirPhase) {
  const Segment& linear =
      *std::ranges::find(model_.segments, uint32_t{TSR_OP_LINEAR}, [](const Segment& s) { return s.op.kind; });
  const auto segment = static_cast<int>(&linear - model_.segments.data());
  add_action(program_, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {}).segment = segment;
  add_action(program_, TSR_ACTION_BACKWARD, TSR_STREAM_COMPUTE, {}).segment = segment;
  add_action(program_, TSR_ACTION_CLIP, TSR_STREAM_COMPUTE, {});
  const Moved moved = moved_in(program_);
  EXPECT_EQ(moved.operations_of(MovePhase::forward), 32);
  EXPECT_EQ(moved.operations_of(MovePhase::backward), 2 * 32);
  EXPECT_EQ(moved.operations_of(MovePhase::update), 0);
}

TEST_F(MovedIn, MicroBatchesOverlapWhereAForwardComesBetween) {
  const auto of = [&](const std::vector<std::pair<uint32_t, int>>& actions) {
    Program program = empty_program(model_, mesh_, {0});
    for (const auto& [kind, micro_batch] : actions)
      add_action(program, kind, TSR_STREAM_COMPUTE, {}).micro_batch = micro_batch;
    return have_overlapping_micro_batches(program);
  };
  constexpr uint32_t kForward = TSR_ACTION_FORWARD, kBackward = TSR_ACTION_BACKWARD;
  EXPECT_FALSE(of({}));
  EXPECT_FALSE(of({{kForward, 0}, {kBackward, 0}, {kBackward, 0}, {kForward, 1}, {kBackward, 1}}));
  EXPECT_FALSE(of({{kForward, 0}, {kForward, 1}, {kBackward, 0}, {kBackward, 1}}));  // GPipe
  EXPECT_TRUE(of({{kForward, 0}, {kForward, 1}, {kBackward, 0}, {kForward, 2}, {kBackward, 1}, {kBackward, 2}}));
}

TEST_F(MovedIn, OfStepsThatAlternateTheOneThatMovesMostIsShown) {
  RankPrograms programs;
  const uint64_t value = buffer("value", TSR_MEMORY_DEVICE), host = buffer("host", TSR_MEMORY_HOST);
  action(TSR_ACTION_ZERO, {write(value)});
  programs.steps.push_back(program_);
  copy(kEvictStream, value, host);
  programs.steps.push_back(program_);
  EXPECT_EQ(moved_in_step(programs).total().out_bytes, kBytes);
}

TEST_F(MovedIn, APlaceShowsWhatLeftForIt) {
  const uint64_t saved = buffer("saved", TSR_MEMORY_DEVICE), away = buffer("saved", TSR_MEMORY_HOST);
  const uint64_t back = program_.add_buffer({0, "saved", TSR_BUFFER_FETCHED, TSR_MEMORY_DEVICE, TSR_F32, false, 64});
  const uint64_t staged = program_.add_buffer({0, "sum", TSR_BUFFER_STAGING, TSR_MEMORY_HOST, TSR_F32, false, 128});
  action(TSR_ACTION_FORWARD, {write(saved)});
  copy(kEvictStream, saved, away);
  action(TSR_ACTION_ZERO, {write(staged)});
  copy(kFetchStream, away, back);
  action(TSR_ACTION_BACKWARD, {read(back)});
  derive_dependencies(program_);
  RankPrograms programs;
  programs.init = empty_program(model_, mesh_, {0});
  programs.steps.push_back(program_);
  Program* all[] = {&programs.init, &programs.steps[0]};
  programs.memory = plan_memory(all);
  const std::vector<PlaceUse> places = places_of(programs);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].memory, TSR_MEMORY_DEVICE);
  EXPECT_EQ(places[0].report.most[MemoryClass::fetched], kBytes);
  EXPECT_EQ(places[0].report.most[MemoryClass::inputs], 0u);
  EXPECT_EQ(places[1].memory, TSR_MEMORY_HOST);
  EXPECT_EQ(places[1].report.peak[MemoryClass::saved], kBytes);
  EXPECT_EQ(places[1].report.peak[MemoryClass::communication], 2 * kBytes);
  EXPECT_EQ(places[1].report.arena_bytes, 3 * kBytes);
  EXPECT_EQ(offloaded_bytes(places[1].report), kBytes);
}

TEST(Memories, HaveNames) {
  EXPECT_EQ(memory_name(TSR_MEMORY_DEVICE), "device");
  EXPECT_EQ(memory_name(kFarMemory), "memory 7");
  EXPECT_EQ(memory_name(TSR_MEMORY_FILE), "file");
  EXPECT_EQ(place_name(TSR_MEMORY_HOST), "host memory");
  EXPECT_EQ(place_name(TSR_MEMORY_FILE), "files");
  EXPECT_EQ(place_name(kFarMemory), "memory 7");
}

TEST(Words, AreJoinedByCommas) {
  EXPECT_EQ(joined({}), "");
  EXPECT_EQ(joined({"stream"}), "stream");
  EXPECT_EQ(joined({"stream", "activations", "fit"}), "stream, activations, fit");
}

}  // namespace
}  // namespace tessera::testing

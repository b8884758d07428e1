// What the pipeline pass makes of a program: what each stage keeps, sends, owns and needs of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "memory/live_ranges.h"
#include "support/expect_error.h"
#include "support/pipeline_programs.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

size_t count(const Program& program, uint32_t kind) {
  return static_cast<size_t>(std::ranges::count(program.actions, kind, &Action::kind));
}

std::vector<PipelineOptions> shapes() {
  std::vector<PipelineOptions> all;
  for (const int stages : {1, 2, 3, 4})
    for (const uint32_t micro_batches : {1u, 2u, 3u, 5u})
      for (const char* schedule : {"gpipe", "1f1b"})
        all.push_back({stages, micro_batches, schedule, 1, "auto"});
  all.push_back({2, 2, "interleaved_1f1b", 2, "even"});
  all.push_back({2, 6, "interleaved_1f1b", 2, "even"});
  all.push_back({2, 4, "interleaved_1f1b", 3, "auto"});
  all.push_back({3, 3, "interleaved_1f1b", 2, "auto"});
  all.push_back({4, 8, "interleaved_1f1b", 2, "auto"});
  return all;
}

// compile() runs the whole verifier, on each rank and across ranks.
TEST(PipelineProgram, EveryComputeActionStandsOnOneStage) {
  for (const PipelineOptions& options : shapes()) {
    PipelinePrograms whole({1, options.num_micro_batches}, 8), programs(options, 8);
    const JobPrograms one = whole.compile(), job = programs.compile();
    std::multiset<std::tuple<uint32_t, int, int>> expected, found;
    const auto collect = [](const Program& program, auto& to) {
      for (const Action& action : program.actions)
        if (is_compute(action.kind)) to.insert({action.kind, action.segment, action.micro_batch});
    };
    collect(one.of(0).steps[0], expected);
    for (int rank = 0; rank < options.num_stages; ++rank)
      collect(job.of(rank).steps[0], found);
    EXPECT_EQ(found, expected) << options.schedule << " " << options.num_stages << " " << options.num_micro_batches;
  }
}

TEST(PipelineProgram, SendsOneValueAndOneGradientPerCutAndMicroBatch) {
  PipelinePrograms three({3, 4, "1f1b", 1, "auto"}), six({3, 3, "interleaved_1f1b", 2, "auto"}, 6);
  const auto messages = [](const JobPrograms& job, uint32_t kind) {
    size_t n = 0;
    for (int rank = 0; rank < 3; ++rank)
      n += count(job.of(rank).steps[0], kind);
    return n;
  };
  const JobPrograms flat = three.compile(), interleaved = six.compile();
  EXPECT_EQ(messages(flat, TSR_ACTION_SEND), 2u * 2 * 4);
  EXPECT_EQ(messages(flat, TSR_ACTION_RECV), 2u * 2 * 4);
  EXPECT_EQ(messages(interleaved, TSR_ACTION_SEND), 2u * 5 * 3);
  EXPECT_EQ(count(*flat.of(1).eval, TSR_ACTION_SEND), 4u);
}

TEST(PipelineProgram, HomesStandWhereTheyAreUsed) {
  PipelinePrograms programs({2, 2});
  const JobPrograms job = programs.compile();
  const auto names = [&](int rank) {
    std::set<std::string> found;
    for (const Home& home : job.of(rank).steps[0].homes)
      found.insert(home.name);
    return found;
  };
  EXPECT_TRUE(names(0).contains("wte.weight") && names(1).contains("wte.weight"));
  EXPECT_TRUE(names(0).contains("wpe.weight") && !names(1).contains("wpe.weight"));
  EXPECT_TRUE(!names(0).contains("h.2.ln_1.weight") && names(1).contains("h.2.ln_1.weight"));
  EXPECT_EQ(names(0).size() + names(1).size(), programs.model().parameters.size() + 1);
  for (const LayoutEntry& split : programs.layout()) {
    const bool is_tied = split.parameter == programs.model().parameter("wte.weight");
    EXPECT_EQ(split.kind, is_tied ? TSR_LAYOUT_REPLICATED : TSR_LAYOUT_SPLIT);
    EXPECT_EQ(split.coordinates.size(), is_tied ? 2u : 1u);
  }
}

TEST(PipelineProgram, TheTiedEmbeddingsGradientIsCompletedAmongItsStages) {
  PipelinePrograms programs({4, 2, "1f1b", 1, "even"});
  const JobPrograms job = programs.compile();
  for (int rank = 0; rank < 4; ++rank) {
    const Program& step = job.of(rank).steps[0];
    const auto completes = [&](const Action& action) {
      return action.kind == TSR_ACTION_ALL_REDUCE && step.streams[action.stream].name == "comm.pp.completion";
    };
    const auto found = std::ranges::find_if(step.actions, completes);
    ASSERT_EQ(found != step.actions.end(), rank == 0 || rank == 3) << rank;
    if (found != step.actions.end()) {
      EXPECT_EQ(step.groups[found->group].coordinates, (std::vector<int>{0, 3}));
    }
  }
}

// The loss belongs to the backward: with it right in front, what it makes lives shortly.
TEST(PipelineProgram, TheLossStandsRightBeforeTheLastStagesBackward) {
  PipelinePrograms programs({2, 3, "gpipe"});
  const JobPrograms job = programs.compile();
  const Program& last = job.of(1).steps[0];
  EXPECT_EQ(count(job.of(0).steps[0], TSR_ACTION_LOSS), 0u);
  EXPECT_EQ(count(last, TSR_ACTION_LOSS), 3u);
  for (size_t i = 0; i < last.actions.size(); ++i)
    if (last.actions[i].kind == TSR_ACTION_LOSS) {
      EXPECT_EQ(last.actions[i + 1].kind, TSR_ACTION_BACKWARD);
      EXPECT_EQ(last.actions[i + 1].micro_batch, last.actions[i].micro_batch);
    }
}

TEST(PipelineProgram, FrozenFirstStagesGetNoGradients) {
  PipelinePrograms programs({2, 2});
  for (Parameter& parameter : programs.model().parameters) {
    const bool is_on_first = parameter.name == "wpe.weight" || parameter.name == "wte.weight" ||
                             parameter.name.starts_with("h.0.") || parameter.name.starts_with("h.1.");
    if (is_on_first) parameter.trainable = false;
  }
  lay_out_units(programs.model());
  const JobPrograms job = programs.compile();
  EXPECT_EQ(count(job.of(0).steps[0], TSR_ACTION_BACKWARD), 0u);
  EXPECT_EQ(count(job.of(0).steps[0], TSR_ACTION_RECV), 0u);
  EXPECT_EQ(count(job.of(1).steps[0], TSR_ACTION_SEND), 0u);
}

/// Most bytes of activations and of what is saved alive at once in a rank's step.
uint64_t peak_activations(const Program& step) {
  uint64_t most = 0;
  const std::vector<LiveRange> lifetimes = live_ranges_in(step, TSR_MEMORY_DEVICE);
  for (uint32_t i = 0; i < step.actions.size(); ++i) {
    uint64_t live = 0;
    for (const LiveRange& lifetime : lifetimes) {
      const uint32_t kind = lifetime.buffer->kind;
      const bool counts = kind == TSR_BUFFER_ACTIVATION || kind == TSR_BUFFER_SAVED;
      if (counts && lifetime.first <= i && i <= lifetime.last) live += lifetime.buffer->num_bytes();
    }
    most = std::max(most, live);
  }
  return most;
}

// gpipe keeps all M micro-batches, 1f1b those in flight: stages - stage.
TEST(PipelineProgram, ActivationsAliveFollowTheFormula) {
  constexpr int kStages = 4;
  constexpr uint32_t kMicroBatches = 8;
  const auto peaks = [](const char* schedule, uint32_t micro_batches) {
    PipelinePrograms programs({kStages, micro_batches, schedule}, 8);
    const JobPrograms job = programs.compile();
    std::vector<double> of_ranks;
    for (int rank = 0; rank < kStages; ++rank)
      of_ranks.push_back(static_cast<double>(peak_activations(job.of(rank).steps[0])));
    return of_ranks;
  };
  const auto two = peaks("gpipe", 2), three = peaks("gpipe", 3), gpipe = peaks("gpipe", kMicroBatches);
  const auto one_f_one_b = peaks("1f1b", kMicroBatches);
  for (size_t s = 0; s < kStages; ++s) {
    const double per_micro_batch = three[s] - two[s], of_running_backward = two[s] - 2 * per_micro_batch;
    const auto expected = [&](double in_flight) { return of_running_backward + in_flight * per_micro_batch; };
    EXPECT_NEAR(gpipe[s], expected(kMicroBatches), 0.01 * gpipe[s]) << s;
    EXPECT_NEAR(one_f_one_b[s], expected(static_cast<double>(kStages - s)), 0.05 * one_f_one_b[s]) << s;
  }
}

// What was sent gives its memory back: micro-batches that are not in flight take none.
TEST(PipelineProgram, TheArenaOf1f1bDoesNotGrowWithTheMicroBatches) {
  const auto transient = [](uint32_t micro_batches) {
    PipelinePrograms programs({4, micro_batches, "1f1b"}, 8);
    const JobPrograms job = programs.compile();
    std::vector<uint64_t> bytes;
    for (int rank = 0; rank < 4; ++rank)
      bytes.push_back(job.of(rank).memory[1].use.at(TSR_MEMORY_DEVICE).transient_bytes());
    return bytes;
  };
  const auto few = transient(8), many = transient(24);
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_LE(static_cast<double>(many[rank]), 1.01 * static_cast<double>(few[rank])) << rank;
}

TEST(PipelineProgram, RefusesWhatDoesNotFit) {
  const auto compile = [](PipelineOptions options) { return [=] { PipelinePrograms(options).compile(); }; };
  expect_error(compile({2, 3, "interleaved_1f1b", 2}),
               {"strategy pipeline on axis pp", "multiples of its 2 stages: 2 or 4, not 3"});
  expect_error(compile({2, 4, "1f1b", 2}), {"virtual-stages=2 needs"});
  expect_error(compile({3, 4, "1f1b", 1, "even"}), {"4 blocks into 1, 2, 4 equal parts, not into 3"});
  expect_error(compile({8, 4, "1f1b", 1, "auto"}), {"at most 7 parts, not 8"});
}

TEST(PipelineProgram, RefusesWhatAnotherPassHasInserted) {
  const auto expect_refused = [](uint32_t kind, const std::string& what) {
    const auto insert = [&](Program& program) {
      const Home& home = program.homes[0];
      const HomeRole& sum = home.roles[TSR_HOME_GRADIENT];
      const uint64_t addend = transient(program, "addend", sum.num_elements);
      Action& action = add_action(program, kind, TSR_STREAM_COMPUTE,
                                  {read(addend), add(sum.buffer).at(sum.offset, sum.num_elements)});
      if (is_collective(kind)) action.group = program.group({0, {}});
      if (kind == TSR_ACTION_ADD_INTO) action.home = home.id;  // as those of micro-batches, but of none
    };
    expect_error(
        [&] {
          PipelinePrograms({2, 2}).lowered(insert);
        },
        {"another pass has inserted " + what + " into the program, which the pipeline cannot schedule"});
  };
  expect_refused(TSR_ACTION_COPY, "a copy");
  expect_refused(TSR_ACTION_SCALE, "a scale");
  expect_refused(TSR_ACTION_ADD_INTO, "an add");
  expect_refused(TSR_ACTION_ALL_REDUCE, "a collective (all_reduce)");
}

TEST(PipelineProgram, KeepsCastsWhoseResultsAreRead) {
  const auto num_casts = [](bool is_read) {
    const Program step = PipelinePrograms({2, 2}).lowered([&](Program& program) {
      const HomeRole& value = program.homes[0].roles[TSR_HOME_VALUE];  // compute reads it
      const uint64_t copy = transient(program, "copy", value.num_elements, TSR_BUFFER_STAGING, TSR_BF16);
      add_action(program, TSR_ACTION_CAST, TSR_STREAM_COMPUTE,
                 {read(value.buffer).at(value.offset, value.num_elements), write(copy)});
      if (!is_read) return;
      const auto forward = std::ranges::find(program.actions, uint32_t{TSR_ACTION_FORWARD}, &Action::kind);
      forward->bindings.push_back({copy, 0, value.num_elements, TSR_SLOT(TSR_ROLE_PARAMETER, 1), TSR_MODE_READ});
    });
    return count(step, TSR_ACTION_CAST);
  };
  EXPECT_EQ(num_casts(true), 1u);
  EXPECT_EQ(num_casts(false), 0u);
}

}  // namespace
}  // namespace tessera::testing

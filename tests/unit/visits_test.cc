// How steps are cut into visits, with micro-batches, recomputation and backwards in halves, and what is counted of
// them.
#include "offload/visits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/footprint.h"
#include "memory/live_ranges.h"
#include "passes/casts.h"
#include "passes/recompute.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"
#include "tessera/offload.hpp"

namespace tessera::testing {
namespace {

using Texts = std::vector<std::string>;

/// "forward h.0", "backward h.1 mb=1", "update h.0": runs of equal ones, which updates of one unit are, once.
Texts texts(const Program& program, const std::vector<tsr_visit>& visits) {
  Texts result;
  for (const tsr_visit& visit : visits) {
    std::string text(visit_name(visit.kind));
    if (visit.unit >= 0) text += " " + program.model->units[visit.unit].name;
    if (visit.micro_batch > 0) text += " mb=" + std::to_string(visit.micro_batch);
    if (result.empty() || result.back() != text) result.push_back(text);
  }
  return result;
}

Texts texts(const Program& program) {
  return texts(program, visits_of(program));
}

/// Two blocks.
class Visits : public ::testing::Test {
 protected:
  Program step(StepConfig step_config = {}) const {
    const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
    Program program = build_program(model_, mesh_, {0}, step_config, {}, TSR_PURPOSE_STEP, describe);
    recompute_forward(program, describe);
    finalize_program(program);
    return program;
  }

  Model model_ = make_gpt2({.num_layers = 2, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                           {.batch = 2, .seq = 8, .loss_scale = 1.0 / 16});
  Mesh mesh_{{{"dp", 1, TSR_SPLITS_BATCH}}};
};

TEST_F(Visits, AreBlocksThereAndBackThenUpdates) {
  EXPECT_EQ(texts(step()),
            (Texts{"other",      "forward wte",   "forward wpe",  "forward h.0",  "forward h.1",  "forward ln_f",
                   "loss wte",   "backward ln_f", "backward h.1", "backward h.0", "backward wpe", "backward wte",
                   "update wte", "update wpe",    "update h.0",   "update h.1",   "update ln_f",  "other",
                   "update wte", "update wpe",    "update h.0",   "update h.1",   "update ln_f"}));
}

// Where movement puts them so that a gradient can leave.
TEST_F(Visits, OfSquaresBetweenBackwardsAreThose) {
  Program program = step();
  const Texts before = texts(program);
  const auto squares = std::ranges::find(program.actions, TSR_ACTION_SUM_SQUARES, &Action::kind);
  const auto last = std::ranges::find_if(program.actions.rbegin(), program.actions.rend(),
                                         [](const Action& action) { return is_compute(action.kind); });
  std::rotate(last.base() - 1, squares, squares + 1);
  Texts moved = before;
  moved.erase(std::ranges::find(moved, "update wte"));
  EXPECT_EQ(texts(program), moved);
}

TEST_F(Visits, OfCastsBeforeTheForwardAreOneForEachUnit) {
  StepConfig step_config;
  step_config.dtype = TSR_BF16;
  const Program program = step(step_config);
  const std::vector<tsr_visit> visits = visits_of(program);
  size_t num_casts = 0;
  for (const tsr_visit& visit : visits) {
    const auto begin = program.actions.begin() + static_cast<ptrdiff_t>(visit.first_action);
    const auto end = program.actions.begin() + static_cast<ptrdiff_t>(visit.last_action) + 1;
    const auto casts = std::count_if(begin, end, [](const Action& action) { return action.kind == TSR_ACTION_CAST; });
    EXPECT_LE(casts, 1);
    num_casts += visit.kind == TSR_VISIT_OTHER && casts == 1;
  }
  EXPECT_EQ(num_casts, model_.units.size());
}

// What a strategy keeps may have to be cast where the strategy did.
TEST(CastAnew, IsOfHomesAlone) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 1}});
  for (const uint32_t kind : {TSR_BUFFER_HOME, TSR_BUFFER_PLUGIN}) {
    Program p = empty_program(model, mesh);
    const uint64_t kept = persistent(p, "kept", 64, kind),
                   copy = transient(p, "copy", 64, TSR_BUFFER_GATHERED, TSR_BF16);
    add_action(p, TSR_ACTION_CAST, TSR_STREAM_COMPUTE, {read(kept), write(copy)});
    for (const int segment : {1, 2})
      add_action(p, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {read(copy, TSR_SLOT(TSR_ROLE_PARAMETER, 0))}).segment =
          segment;
    cast_anew(p);
    EXPECT_EQ(std::ranges::count(p.actions, TSR_ACTION_CAST, &Action::kind), kind == TSR_BUFFER_HOME ? 2 : 1);
  }
}

// Each micro-batch is there and back before the next one.
TEST_F(Visits, AreOfOneMicroBatch) {
  StepConfig step_config;
  step_config.num_micro_batches = 2;
  const Texts all = texts(step(step_config));
  const auto first = std::ranges::find(all, "backward wte"), second = std::ranges::find(all, "forward h.0 mb=1");
  EXPECT_LT(first, second);
  EXPECT_EQ(std::ranges::count(all, "forward h.0"), 1);
  EXPECT_EQ(std::ranges::count(all, "backward h.0 mb=1"), 1);
  for (const tsr_visit& visit : visits_of(step(step_config)))
    EXPECT_EQ(visit.micro_batch < 0, visit.kind == TSR_VISIT_UPDATE || visit.kind == TSR_VISIT_OTHER);
}

TEST_F(Visits, OfABackwardBeginWithWhatItRunsAgain) {
  StepConfig step_config;
  step_config.recompute = {Recompute::What::blocks, 1};
  const Program program = step(step_config);
  EXPECT_EQ(texts(program), texts(step())) << "no visit of its own";
  size_t num_recomputed = 0;
  for (const tsr_visit& visit : visits_of(program))
    for (uint64_t i = visit.first_action; i <= visit.last_action; ++i)
      if (program.actions[i].kind == TSR_ACTION_RECOMPUTE) {
        ++num_recomputed;
        EXPECT_EQ(visit.kind, TSR_VISIT_BACKWARD);
      }
  EXPECT_GT(num_recomputed, 0u);
}

TEST_F(Visits, HoldEveryActionOnce) {
  const Program program = step();
  const std::vector<tsr_visit> visits = visits_of(program);
  uint64_t next = 0;
  for (const tsr_visit& visit : visits) {
    EXPECT_EQ(visit.first_action, next);
    EXPECT_GE(visit.last_action, visit.first_action);
    next = visit.last_action + 1;
  }
  EXPECT_EQ(next, program.actions.size());
  const std::vector<uint32_t> visit_of = visit_of_actions(visits);
  ASSERT_EQ(visit_of.size(), program.actions.size());
  for (size_t i = 0; i < visit_of.size(); ++i)
    EXPECT_TRUE(visits[visit_of[i]].first_action <= i && i <= visits[visit_of[i]].last_action);
}

// Every home is updated in a visit of its own, so that its state can come and go.
TEST_F(Visits, OfUpdatesAreOfOneHome) {
  const Program program = step();
  size_t num_updates = 0;
  for (const tsr_visit& visit : visits_of(program)) {
    if (visit.kind != TSR_VISIT_UPDATE) continue;
    ++num_updates;
    const Action& action = program.actions[visit.first_action];
    EXPECT_EQ(visit.unit, program.home(action.home).unit);
  }
  EXPECT_EQ(num_updates, 2 * program.homes.size());
}

// What is not compute joins the visit it comes in, but for clip: all updates wait for it.
TEST_F(Visits, TakeInWhatHasNoPlaceOfItsOwn) {
  Program program = step();
  const std::vector<tsr_visit> before = visits_of(program);
  const uint64_t in_block = before[3].first_action + 1;
  Action zero;
  zero.id = program.next_id++;
  zero.kind = TSR_ACTION_ZERO;
  program.actions.insert(program.actions.begin() + static_cast<int64_t>(in_block), zero);
  const std::vector<tsr_visit> after = visits_of(program);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after[3].last_action, before[3].last_action + 1);
  const auto clip = std::ranges::find_if(program.actions, [](const Action& a) { return a.kind == TSR_ACTION_CLIP; });
  const tsr_visit& visit = after[visit_of_actions(after)[static_cast<size_t>(clip - program.actions.begin())]];
  EXPECT_EQ(visit.kind, TSR_VISIT_OTHER);
  EXPECT_EQ(&program.actions[visit.first_action], &*clip);
}

TEST_F(Visits, CountOperationsBytesAndLiveBytes) {
  const Program program = step();
  const std::vector<tsr_visit> visits = visits_of(program);
  const tsr_visit &forward = visits[3], &update = visits.back();
  // Of 16 rows: c_attn, c_proj, c_fc, c_proj, 2 rows x columns each; attention, whose pairs are causal.
  const double products = 2.0 * 16 * (16 * 48 + 16 * 16 + 16 * 32 + 32 * 16);
  EXPECT_GT(forward.operations, products);
  EXPECT_LT(forward.operations, 1.5 * products);
  const auto backward = std::ranges::find_if(
      visits, [&](const tsr_visit& v) { return v.kind == TSR_VISIT_BACKWARD && v.unit == forward.unit; });
  EXPECT_EQ(backward->operations, 2 * forward.operations);
  EXPECT_EQ(update.operations, 0);

  uint64_t persistent = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent) persistent += footprint_bytes(buffer, 0);
  const std::vector<uint64_t> live = live_bytes(program, live_ranges_in(program, TSR_MEMORY_DEVICE));
  for (const tsr_visit& visit : visits) {
    uint64_t bound = 0, peak = 0;
    for (uint64_t i = visit.first_action; i <= visit.last_action; ++i) {
      for (const Binding& b : program.actions[i].bindings)
        bound += TSR_NUM_BYTES(program.buffer(b.buffer).dtype, b.num_elements);
      peak = std::max(peak, live[i]);
    }
    EXPECT_EQ(visit.num_bytes, bound);
    EXPECT_EQ(visit.live_bytes, persistent + peak);
  }
}

// By elements, not by how often a unit is named.
TEST_F(Visits, AreOfTheUnitOfWhichTheyUseMost) {
  Program program = step();
  const std::vector<tsr_visit> visits = visits_of(program);
  const auto ln_f = std::ranges::find_if(visits, [&](const tsr_visit& v) {
    return v.kind == TSR_VISIT_BACKWARD && v.unit >= 0 && model_.units[v.unit].name == "ln_f";
  });
  ASSERT_NE(ln_f, visits.end());
  for (int i = 0; i < 3; ++i) {
    Action sum;
    sum.id = program.next_id++;
    sum.kind = TSR_ACTION_ZERO;
    sum.home = program.homes.front().id;  // of wte
    program.actions.insert(program.actions.begin() + static_cast<int64_t>(ln_f->last_action) + 1, sum);
  }
  EXPECT_EQ(visits_of(program)[static_cast<size_t>(ln_f - visits.begin())].unit, ln_f->unit);
}

TEST_F(Visits, OfSquaresAndUpdateOfOneHomeAreTwo) {
  Program program = step();
  std::erase_if(program.actions, [&](const Action& action) {
    return (action.kind != TSR_ACTION_SUM_SQUARES && action.kind != TSR_ACTION_OPTIMIZER) ||
           action.home != program.homes.front().id;
  });
  EXPECT_EQ(visits_of(program).size(), 2u);
}

TEST_F(Visits, DoNotCountWhatIsElsewhereAsLive) {
  Program program = step();
  const uint64_t before = visits_of(program)[3].live_bytes;
  Buffer& home = program.buffers.front();
  ASSERT_TRUE(home.persistent);
  home.memory = TSR_MEMORY_HOST;
  EXPECT_EQ(visits_of(program)[3].live_bytes, before - footprint_bytes(home, 0));
}

// A stage that computes the input half of a backward first and the weight half later is back in its block twice.
TEST_F(Visits, OfABackwardInHalvesAreTwo) {
  const auto half = [](uint32_t kind, int segment, int micro_batch) {
    Action action;
    action.kind = kind;
    action.segment = segment;
    action.micro_batch = micro_batch;
    return action;
  };
  Program program = empty_program(model_, mesh_);
  const int first = model_.segment("h.0.fc_proj"), second = model_.segment("h.1.fc_proj");
  program.actions = {half(TSR_ACTION_BACKWARD_INPUT, second, 0), half(TSR_ACTION_BACKWARD_WEIGHT, second, 0),
                     half(TSR_ACTION_BACKWARD_INPUT, first, 0),  half(TSR_ACTION_FORWARD, first, 1),
                     half(TSR_ACTION_BACKWARD_WEIGHT, first, 0), half(TSR_ACTION_BACKWARD_WEIGHT, first, 1)};
  EXPECT_EQ(texts(program),
            (Texts{"backward h.1", "backward h.0", "forward h.0 mb=1", "backward h.0", "backward h.0 mb=1"}));
}

TEST_F(Visits, OfAnEmptyProgramAreNone) {
  EXPECT_TRUE(visits_of(empty_program(model_, mesh_)).empty());
}

}  // namespace
}  // namespace tessera::testing

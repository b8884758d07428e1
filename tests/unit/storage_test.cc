// What storage passes share: what is in one buffer, when whole copies are made, when gradients are complete.
#include "tessera/storage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compile/edit/program_snapshot.h"
#include "fsdp.h"
#include "support/expect_error.h"
#include "support/gpt2_pass.h"

namespace tessera::testing {
namespace {

using storage::flat_params;
using storage::FlatParam;
using storage::GradientSum;
using storage::GradientSums;
using storage::ParamGroup;
using storage::plan_unshards;
using storage::suffix_of;
using storage::Unshard;
using storage::UnshardOptions;
using storage::Use;
using Backward = UnshardOptions::Backward;

std::vector<ParamGroup> one_group_a_flat(const ProgramView& view) {
  std::vector<ParamGroup> groups;
  for (const FlatParam& param : flat_params(view))
    groups.emplace_back().add(param);
  return groups;
}

TEST(Storage, AFlatIsAUnit) {
  const Gpt2Pass gpt2(2);
  gpt2.look_at([&](const ProgramView& view, const Edit&) {
    std::vector<std::string> names;
    for (const FlatParam& param : flat_params(view)) {
      names.push_back(to_string(param.value->name));
      EXPECT_TRUE(param.gradient && param.states.size() == 2);
      EXPECT_EQ(param.copy, nullptr);
      EXPECT_EQ(&param.computed_with(), param.value);
      EXPECT_EQ(param.num_elements(), gpt2.model().units[names.size() - 1].num_elements);
      EXPECT_TRUE(std::ranges::is_sorted(param.homes, {},
                                         [](const tsr_home* home) { return role_of(*home, TSR_HOME_VALUE).offset; }));
    }
    EXPECT_EQ(names, (std::vector<std::string>{"wte", "wpe", "h.0", "h.1", "ln_f"}));
  });
}

TEST(Storage, In16BitsAFlatIsComputedWithItsCast) {
  StepConfig step_config;
  step_config.dtype = TSR_BF16;
  Gpt2Pass(2, step_config).look_at([](const ProgramView& view, const Edit&) {
    for (const FlatParam& param : flat_params(view)) {
      ASSERT_NE(param.copy, nullptr);
      EXPECT_EQ(param.value->dtype, static_cast<uint32_t>(TSR_F32));
      EXPECT_EQ(param.computed_with().dtype, static_cast<uint32_t>(TSR_BF16));
      EXPECT_NE(param.cast, 0u);
    }
  });
}

TEST(Storage, WithoutTrainingThereAreValuesOnly) {
  Gpt2Pass(2).look_at(
      [](const ProgramView& view, const Edit&) {
        const GradientSums sums(view);
        for (const ParamGroup& group : one_group_a_flat(view))
          EXPECT_TRUE(sums.of(group).empty());
      },
      TSR_PURPOSE_EVAL);
}

TEST(Storage, AGroupIsItsFlatsOneBehindTheOther) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    const std::vector<FlatParam> params = flat_params(view);
    ParamGroup group;
    group.add(params[0]);
    EXPECT_EQ(group.name, "wte");
    group.add(params[1]);
    group.add(params[2]);
    EXPECT_EQ(group.name, "wte..h.0");
    EXPECT_EQ(group.base, (std::vector<uint64_t>{0, params[0].num_elements(),
                                                 params[0].num_elements() + params[1].num_elements()}));
    EXPECT_EQ(group.num_elements, group.base[2] + params[2].num_elements());
    EXPECT_EQ(group.home_ids().size(), params[0].homes.size() + params[1].homes.size() + params[2].homes.size());
    EXPECT_TRUE(group.trains());
  });
}

// The backward leaves the first parameters for last.
TEST(Storage, AGroupIsSummedAfterItsLastWriter) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    const GradientSums sums(view);
    ParamGroup all;
    std::vector<uint64_t> writers;
    for (const FlatParam& param : flat_params(view)) {
      ParamGroup own;
      own.add(param);
      all.add(param);
      writers.push_back(sums.of(own).front().last_writer);
    }
    EXPECT_EQ(sums.of(all).front().last_writer, writers.front());
    EXPECT_NE(writers.front(), writers.back());
  });
}

fsdp::Fsdp make_fsdp() {
  const OptionValues options = {{"sharding", "full_shard"},        {"wrap", "unit"},
                                {"reshard-after-forward", "auto"}, {"prefetch", "", 1},
                                {"backward-prefetch", "pre"},      {"limit-all-gathers", "", 0}};
  return fsdp::Fsdp("dp", options);
}

TEST(Storage, GradientsAreFoundOfWhatIsSplitToo) {
  for (const bool is_split : {false, true}) {
    const Gpt2Pass gpt2(2);
    const Gpt2Pass::Change split = [&](Program& program) { program = gpt2.lowered(make_fsdp(), 0); };
    const auto look = [&](const ProgramView& view, const Edit&) {
      const std::vector<ParamGroup> groups = storage::gradients(view);
      ASSERT_EQ(groups.size(), gpt2.model().units.size());
      const GradientSums sums(view);
      for (const ParamGroup& group : groups) {
        EXPECT_EQ(group.num_elements, view.buffer(group.first().gradient).num_elements);
        const std::vector<GradientSum> found = sums.of(group);
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(found[0].buffers, std::vector{group.first().gradient});
        const auto writer = std::ranges::find(view.actions(), found[0].last_writer, &tsr_action::id);
        ASSERT_NE(writer, view.actions().end());
        EXPECT_EQ(writer->kind == TSR_ACTION_REDUCE_SCATTER, is_split);
      }
    };
    gpt2.look_at(look, TSR_PURPOSE_STEP, is_split ? split : Gpt2Pass::Change());
  }
}

TEST(Storage, WhatIsSplitAlreadyIsRefused) {
  const Gpt2Pass gpt2(2);
  const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
  const fsdp::Fsdp fsdp = make_fsdp();
  Program program = gpt2.lowered(fsdp, 0);
  using Table = StrategyTable<fsdp::Fsdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;
  Strategy* again = const_cast<fsdp::Fsdp*>(&fsdp);
  expect_error(
      [&] {
        run_pass(program, {"fsdp", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(again)}, describe);
      },
      {"the parameters of wte are already split by the strategy of another axis",
       "--strategy replicate=ddp,shard=fsdp"});
}

/// What flat_params says of a base program with one thing changed.
void expect_refused(const Gpt2Pass::Change& change, tsr_dtype dtype = TSR_F32) {
  StepConfig step_config;
  step_config.dtype = dtype;
  const auto look = [](const ProgramView& view, const Edit&) { flat_params(view); };
  expect_error([&] { Gpt2Pass(2, step_config).look_at(look, TSR_PURPOSE_STEP, change); },
               {"are already split by the strategy of another axis"});
}

Action& first_cast(Program& program) {
  return *std::ranges::find(program.actions, uint32_t{TSR_ACTION_CAST}, &Action::kind);
}

TEST(Storage, AFlatOfWhichAPartIsCastIsRefused) {
  const auto cast_half = [](Program& program) {
    for (Binding& binding : first_cast(program).bindings)
      binding.num_elements /= 2;
  };
  expect_refused(cast_half, TSR_BF16);
}

TEST(Storage, AFlatThatIsCastTwiceIsRefused) {
  const auto cast_again = [](Program& program) {
    Action again = first_cast(program);
    again.id = program.next_id++;
    program.actions.insert(program.actions.begin(), again);
  };
  expect_refused(cast_again, TSR_BF16);
}

TEST(Storage, HomesThatShareOneBufferShareThoseOfAllRoles) {
  expect_refused([](Program& program) {
    const auto bias = std::ranges::find(program.homes, "h.0.ln_1.bias", &Home::name);
    ASSERT_NE(bias, program.homes.end());
    std::swap(bias->roles[TSR_HOME_M], bias->roles[TSR_HOME_V]);
  });
}

// ---- when copies are made ----

std::string name_of(const ProgramView& view, uint64_t action) {
  static const std::map<uint32_t, std::string> kinds = {{TSR_ACTION_FORWARD, "f:"}, {TSR_ACTION_BACKWARD, "b:"}};
  for (const tsr_action& a : view.actions())
    if (a.id == action)
      return (a.kind == TSR_ACTION_LOSS ? "" : kinds.at(a.kind)) +
             to_string(view.segments()[static_cast<size_t>(a.segment)].name);
  return "?";
}

/// "wte f:wte" a copy: its group, and what it is made before.
std::vector<std::string> copies(const UnshardOptions& options, uint32_t purpose = TSR_PURPOSE_STEP) {
  std::vector<std::string> result;
  Gpt2Pass(2).look_at(
      [&](const ProgramView& view, const Edit&) {
        const auto groups = one_group_a_flat(view);
        for (const Unshard& copy : plan_unshards(view, groups, options))
          result.push_back(groups[copy.group].name + " " + name_of(view, copy.anchor));
      },
      purpose);
  return result;
}

using Copies = std::vector<std::string>;

TEST(Unshard, JustInTime) {
  EXPECT_EQ(copies({.prefetch = 0}),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f", "wte loss",
                    "ln_f b:ln_f", "h.1 b:h.1.fc_proj", "h.0 b:h.0.fc_proj"}));
}

TEST(Unshard, OneUnitAhead) {
  // The copy of ln_f is still there when the backward's would be made.
  EXPECT_EQ(copies({.prefetch = 1}), (Copies{"wte f:wte", "wpe f:wte", "h.0 f:wpe", "h.1 f:h.0.ln_1", "ln_f f:h.1.ln_1",
                                             "wte f:ln_f", "h.1 b:ln_f", "h.0 b:h.1.fc_proj"}));
}

TEST(Unshard, BackwardPrefetchOnlyChangesTheBackward) {
  EXPECT_EQ(copies({.prefetch = 1, .backward = Backward::none}),
            (Copies{"wte f:wte", "wpe f:wte", "h.0 f:wpe", "h.1 f:h.0.ln_1", "ln_f f:h.1.ln_1", "wte loss",
                    "ln_f b:ln_f", "h.1 b:h.1.fc_proj", "h.0 b:h.0.fc_proj"}));
}

TEST(Unshard, BackwardPrefetchMayWaitForTheEndOfAUnit) {
  // That of one unit ahead is when the unit itself begins.
  EXPECT_EQ(copies({.prefetch = 1, .backward = Backward::post}), copies({.prefetch = 1, .backward = Backward::none}));
  // The copy of ln_f is still there when the backward's would be made.
  EXPECT_EQ(copies({.prefetch = 2, .backward = Backward::post}),
            (Copies{"wte f:wte", "wpe f:wte", "h.0 f:wte", "h.1 f:wpe", "ln_f f:h.0.ln_1", "wte f:ln_f", "h.1 b:ln_f",
                    "h.0 b:h.1.fc_proj"}));
}

TEST(Unshard, KeptCopiesAreMadeOnce) {
  EXPECT_EQ(copies({.keep = true, .prefetch = 0}),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f"}));
}

TEST(Unshard, NothingIsComputedInInit) {
  EXPECT_TRUE(copies({}, TSR_PURPOSE_INIT).empty());
}

TEST(Unshard, EvalUsesEachUnitInTheForward) {
  EXPECT_EQ(copies({.prefetch = 0}, TSR_PURPOSE_EVAL),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f", "wte loss"}));
}

/// Most copies alive at once, counting one from where it is made to its last use.
size_t most_alive(const ProgramView& view, const std::vector<Unshard>& copies) {
  std::map<uint64_t, size_t> position;
  for (const tsr_action& action : view.actions())
    position.emplace(action.id, position.size());
  size_t most = 0;
  for (const Unshard& at : copies) {
    size_t alive = 0;
    for (const Unshard& copy : copies) {
      size_t last = 0;
      for (const Use& use : copy.uses)
        last = std::max(last, position.at(use.action));
      alive += position.at(copy.anchor) <= position.at(at.anchor) && position.at(at.anchor) <= last;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(Unshard, AliveAtOnceAreThoseInUseAndAhead) {
  for (const uint32_t num_micro_batches : {1u, 3u})
    for (const Backward backward : {Backward::pre, Backward::post, Backward::none})
      for (uint64_t prefetch = 0; prefetch < 4; ++prefetch)
        for (uint64_t limit = 0; limit < 4; ++limit) {
          StepConfig step_config;
          step_config.num_micro_batches = num_micro_batches;
          Gpt2Pass(2, step_config).look_at([&](const ProgramView& view, const Edit&) {
            const auto groups = one_group_a_flat(view);
            const UnshardOptions options{.prefetch = prefetch, .backward = backward, .limit = limit};
            const uint64_t bound = limit ? std::min(limit, 1 + prefetch) : 1 + prefetch;
            EXPECT_LE(most_alive(view, plan_unshards(view, groups, options)), bound)
                << "prefetch " << prefetch << " limit " << limit << " backward " << static_cast<int>(backward);
          });
        }
}

TEST(Unshard, EveryUseReadsOneCopyOfItsGroupMadeBefore) {
  StepConfig step_config;
  step_config.num_micro_batches = 2;
  for (const bool keep : {false, true})
    Gpt2Pass(2, step_config).look_at([&](const ProgramView& view, const Edit&) {
      std::map<uint64_t, size_t> position;
      size_t num_reads = 0, num_uses = 0;
      const auto groups = one_group_a_flat(view);
      for (const tsr_action& action : view.actions()) {
        position.emplace(action.id, position.size());
        if (!is_compute(action)) continue;
        for (const tsr_binding& b : ProgramView::bindings(action))
          num_reads +=
              std::ranges::count_if(groups, [&](const ParamGroup& g) { return g.first().value->id == b.buffer; });
      }
      for (const Unshard& copy : plan_unshards(view, groups, {.keep = keep, .prefetch = 2}))
        for (const Use& use : copy.uses) {
          ++num_uses;
          EXPECT_LE(position.at(copy.anchor), position.at(use.action));
          EXPECT_EQ(use.binding.buffer, groups[copy.group].first().value->id);
        }
      EXPECT_EQ(num_uses, num_reads);
    });
}

/// The options beside an axis of so many stages.
UnshardOptions with_stages(int num_stages, const UnshardOptions& options) {
  const Gpt2Pass gpt2(2);
  const Mesh mesh({{"pp", num_stages, TSR_SPLITS_LAYERS}, {"dp", 2, TSR_SPLITS_BATCH}});
  Program bare;
  bare.model = &gpt2.model();
  bare.mesh = &mesh;
  bare.coordinates = {0, 0};
  const ProgramSnapshot snapshot(bare, 1);
  return options_in_mesh(options, ProgramView(snapshot.view()), "fsdp");
}

TEST(Unshard, CopiesAreKeptWhereThereAreStages) {
  EXPECT_TRUE(with_stages(2, {.keep_in_pipeline = true}).keep);
  EXPECT_FALSE(with_stages(2, {.keep_in_pipeline = false}).keep);
  EXPECT_FALSE(with_stages(1, {.keep_in_pipeline = true}).keep);
  EXPECT_EQ(with_stages(1, {.limit = 2, .keep_in_pipeline = true}).limit, 2u);
  expect_error([] { with_stages(2, {.limit = 2, .keep_in_pipeline = true}); },
               {"fsdp.limit-all-gathers needs parameters that are freed after use", "fsdp.reshard-after-forward=true"});
}

// ---- when gradients are complete ----

TEST(GradientSums, OneOfTheStep) {
  StepConfig step_config;
  step_config.num_micro_batches = 2;
  Gpt2Pass(2, step_config).look_at([](const ProgramView& view, const Edit&) {
    const GradientSums sums(view);
    std::vector<std::string> writers;
    for (const ParamGroup& group : one_group_a_flat(view)) {
      const auto found = sums.of(group);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].micro_batch, -1);
      EXPECT_EQ(found[0].buffers, std::vector<uint64_t>{group.first().gradient});
      EXPECT_TRUE(found[0].adds.empty());
      EXPECT_EQ(suffix_of(found[0]), "");
      writers.push_back(name_of(view, found[0].last_writer));
    }
    // The tied embedding is complete when the embedding's own backward has run.
    EXPECT_EQ(writers, (Copies{"b:wte", "b:wpe", "b:h.0.ln_1", "b:h.1.ln_1", "b:ln_f"}));
  });
}

TEST(GradientSums, OneOfEachMicroBatch) {
  StepConfig step_config;
  step_config.num_micro_batches = 3;
  step_config.reduce_every = TSR_EVERY_MICRO_BATCH;
  Gpt2Pass(2, step_config).look_at([](const ProgramView& view, const Edit&) {
    const GradientSums sums(view);
    const auto groups = one_group_a_flat(view);
    const auto found = sums.of(groups[2]);
    ASSERT_EQ(found.size(), 3u);
    for (int mb = 0; mb < 3; ++mb) {
      const GradientSum& sum = found[static_cast<size_t>(mb)];
      EXPECT_EQ(sum.micro_batch, mb);
      EXPECT_EQ(sum.adds.size(), groups[2].first().homes.size());
      EXPECT_NE(sum.buffers[0], groups[2].first().gradient);
      EXPECT_EQ(suffix_of(sum), " mb=" + std::to_string(mb));
    }
  });
}

}  // namespace
}  // namespace tessera::testing

// What storage passes share: what stands in one buffer, when whole copies are made, when gradients are complete.
#include "tessera/storage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fsdp.h"
#include "support/expect_error.h"
#include "support/gpt2_pass.h"

namespace tessera::testing {
namespace {

using storage::Flat;
using storage::flats_of;
using storage::Gathering;
using storage::GatherOptions;
using storage::GradientSum;
using storage::GradientSums;
using storage::Group;
using storage::plan_gatherings;
using storage::suffix_of;
using storage::Use;
using Backward = GatherOptions::Backward;

std::vector<Group> one_group_a_flat(const ProgramView& view) {
  std::vector<Group> groups;
  for (const Flat& flat : flats_of(view))
    groups.emplace_back().add(flat);
  return groups;
}

TEST(Storage, AFlatIsAUnit) {
  const Gpt2Pass gpt2(2);
  gpt2.look_at([&](const ProgramView& view, const Edit&) {
    std::vector<std::string> names;
    for (const Flat& flat : flats_of(view)) {
      names.push_back(to_string(flat.value->name));
      EXPECT_TRUE(flat.gradient && flat.m && flat.v);
      EXPECT_EQ(flat.copy, nullptr);
      EXPECT_EQ(&flat.computed_with(), flat.value);
      EXPECT_EQ(flat.num_elements(), gpt2.model().units[names.size() - 1].num_elements);
      EXPECT_TRUE(std::ranges::is_sorted(flat.homes, {},
                                         [](const tsr_home* home) { return home->roles[TSR_HOME_VALUE].offset; }));
    }
    EXPECT_EQ(names, (std::vector<std::string>{"wte", "wpe", "h.0", "h.1", "ln_f"}));
  });
}

TEST(Storage, In16BitsAFlatIsComputedWithItsCast) {
  StepConfig shape;
  shape.dtype = TSR_BF16;
  Gpt2Pass(2, shape).look_at([](const ProgramView& view, const Edit&) {
    for (const Flat& flat : flats_of(view)) {
      ASSERT_NE(flat.copy, nullptr);
      EXPECT_EQ(flat.value->dtype, static_cast<uint32_t>(TSR_F32));
      EXPECT_EQ(flat.computed_with().dtype, static_cast<uint32_t>(TSR_BF16));
      EXPECT_NE(flat.cast, 0u);
    }
  });
}

TEST(Storage, WithoutTrainingThereAreValuesOnly) {
  Gpt2Pass(2).look_at(
      [](const ProgramView& view, const Edit&) {
        const GradientSums sums(view);
        for (const Group& group : one_group_a_flat(view))
          EXPECT_TRUE(sums.of(group).empty());
      },
      TSR_PURPOSE_EVAL);
}

TEST(Storage, AGroupIsItsFlatsOneBehindTheOther) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    const std::vector<Flat> flats = flats_of(view);
    Group group;
    group.add(flats[0]);
    EXPECT_EQ(group.name, "wte");
    group.add(flats[1]);
    group.add(flats[2]);
    EXPECT_EQ(group.name, "wte..h.0");
    EXPECT_EQ(group.base,
              (std::vector<uint64_t>{0, flats[0].num_elements(), flats[0].num_elements() + flats[1].num_elements()}));
    EXPECT_EQ(group.num_elements, group.base[2] + flats[2].num_elements());
    EXPECT_EQ(group.home_ids().size(), flats[0].homes.size() + flats[1].homes.size() + flats[2].homes.size());
    EXPECT_TRUE(group.trains());
  });
}

TEST(Storage, WhatIsSplitAlreadyIsRefused) {
  const Gpt2Pass gpt2(2);
  const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
  const OptionValues options = {{"sharding", "full_shard"},        {"wrap", "unit"},
                                {"reshard-after-forward", "auto"}, {"prefetch", "", 1},
                                {"backward-prefetch", "pre"},      {"limit-all-gathers", "", 0}};
  const fsdp::Fsdp fsdp("dp", options);
  Program program = gpt2.lowered(fsdp, 0);
  using Table = StrategyTable<fsdp::Fsdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;
  Strategy* again = const_cast<fsdp::Fsdp*>(&fsdp);
  expect_error(
      [&] {
        run_pass(program, {"fsdp", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(again)}, describe);
      },
      {"the parameters of wte are split by another strategy already", "--strategy replicate=ddp,shard=fsdp"});
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
std::vector<std::string> copies(const GatherOptions& options, uint32_t purpose = TSR_PURPOSE_STEP) {
  std::vector<std::string> result;
  Gpt2Pass(2).look_at(
      [&](const ProgramView& view, const Edit&) {
        const auto groups = one_group_a_flat(view);
        for (const Gathering& copy : plan_gatherings(view, groups, options))
          result.push_back(groups[copy.group].name + " " + name_of(view, copy.anchor));
      },
      purpose);
  return result;
}

using Copies = std::vector<std::string>;

TEST(Gatherings, JustInTime) {
  EXPECT_EQ(copies({.prefetch = 0}),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f", "wte loss",
                    "ln_f b:ln_f", "h.1 b:h.1.fc_proj", "h.0 b:h.0.fc_proj"}));
}

TEST(Gatherings, OneUnitAhead) {
  // The copy of ln_f is still there when the backward's would be made.
  EXPECT_EQ(copies({.prefetch = 1}), (Copies{"wte f:wte", "wpe f:wte", "h.0 f:wpe", "h.1 f:h.0.ln_1", "ln_f f:h.1.ln_1",
                                             "wte f:ln_f", "h.1 b:ln_f", "h.0 b:h.1.fc_proj"}));
}

TEST(Gatherings, BackwardPrefetchOnlyChangesTheBackward) {
  EXPECT_EQ(copies({.prefetch = 1, .backward = Backward::none}),
            (Copies{"wte f:wte", "wpe f:wte", "h.0 f:wpe", "h.1 f:h.0.ln_1", "ln_f f:h.1.ln_1", "wte loss",
                    "ln_f b:ln_f", "h.1 b:h.1.fc_proj", "h.0 b:h.0.fc_proj"}));
}

TEST(Gatherings, KeptCopiesAreMadeOnce) {
  EXPECT_EQ(copies({.keep = true, .prefetch = 0}),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f"}));
}

TEST(Gatherings, NothingIsComputedInInit) {
  EXPECT_TRUE(copies({}, TSR_PURPOSE_INIT).empty());
}

TEST(Gatherings, EvalUsesEachUnitInTheForward) {
  EXPECT_EQ(copies({.prefetch = 0}, TSR_PURPOSE_EVAL),
            (Copies{"wte f:wte", "wpe f:wpe", "h.0 f:h.0.ln_1", "h.1 f:h.1.ln_1", "ln_f f:ln_f", "wte loss"}));
}

/// Most copies alive at once, counting one from where it is made to its last use.
size_t most_alive(const ProgramView& view, const std::vector<Gathering>& copies) {
  std::map<uint64_t, size_t> position;
  for (const tsr_action& action : view.actions())
    position.emplace(action.id, position.size());
  size_t most = 0;
  for (const Gathering& at : copies) {
    size_t alive = 0;
    for (const Gathering& copy : copies) {
      size_t last = 0;
      for (const Use& use : copy.uses)
        last = std::max(last, position.at(use.action));
      alive += position.at(copy.anchor) <= position.at(at.anchor) && position.at(at.anchor) <= last;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(Gatherings, AliveAtOnceAreThoseInUseAndAhead) {
  for (const uint32_t num_micro_batches : {1u, 3u})
    for (const Backward backward : {Backward::pre, Backward::post, Backward::none})
      for (uint64_t prefetch = 0; prefetch < 4; ++prefetch)
        for (uint64_t limit = 0; limit < 4; ++limit) {
          StepConfig shape;
          shape.num_micro_batches = num_micro_batches;
          Gpt2Pass(2, shape).look_at([&](const ProgramView& view, const Edit&) {
            const auto groups = one_group_a_flat(view);
            const GatherOptions options{.prefetch = prefetch, .backward = backward, .limit = limit};
            const uint64_t bound = limit ? std::min(limit, 1 + prefetch) : 1 + prefetch;
            EXPECT_LE(most_alive(view, plan_gatherings(view, groups, options)), bound)
                << "prefetch " << prefetch << " limit " << limit << " backward " << static_cast<int>(backward);
          });
        }
}

TEST(Gatherings, EveryUseReadsOneCopyOfItsGroupMadeBefore) {
  StepConfig shape;
  shape.num_micro_batches = 2;
  for (const bool keep : {false, true})
    Gpt2Pass(2, shape).look_at([&](const ProgramView& view, const Edit&) {
      std::map<uint64_t, size_t> position;
      size_t num_reads = 0, num_uses = 0;
      const auto groups = one_group_a_flat(view);
      for (const tsr_action& action : view.actions()) {
        position.emplace(action.id, position.size());
        if (!storage::detail::is_compute(action)) continue;
        for (const tsr_binding& b : ProgramView::bindings(action))
          num_reads += std::ranges::count_if(groups, [&](const Group& g) { return g.first().value->id == b.buffer; });
      }
      for (const Gathering& copy : plan_gatherings(view, groups, {.keep = keep, .prefetch = 2}))
        for (const Use& use : copy.uses) {
          ++num_uses;
          EXPECT_LE(position.at(copy.anchor), position.at(use.action));
          EXPECT_EQ(use.binding.buffer, groups[copy.group].first().value->id);
        }
      EXPECT_EQ(num_uses, num_reads);
    });
}

// ---- when gradients are complete ----

TEST(GradientSums, OneOfTheStep) {
  StepConfig shape;
  shape.num_micro_batches = 2;
  Gpt2Pass(2, shape).look_at([](const ProgramView& view, const Edit&) {
    const GradientSums sums(view);
    std::vector<std::string> writers;
    for (const Group& group : one_group_a_flat(view)) {
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
  StepConfig shape;
  shape.num_micro_batches = 3;
  shape.reduce_every = TSR_EVERY_MICRO_BATCH;
  Gpt2Pass(2, shape).look_at([](const ProgramView& view, const Edit&) {
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

// What a rank has of contents that ranks with other parts or replicas give it, and what a model needs of a step.
#include "verify/model/taken.h"

#include <gtest/gtest.h>

#include "model/gpt2/gpt2.h"
#include "support/program_builder.h"
#include "verify/model/needs.h"

namespace tessera::testing {
using namespace host;
namespace {

Content of(ContentKind kind) {
  Content content{kind};
  content.index = 0;
  return content;
}

/// What is left of it on a rank that differs on axis 0 from the one that gives it.
ContentKind left_of(const Content& content, const AxesOfStates& axes) {
  const Model model = toy_model();
  return taken_alone(model, axes, 1, {{0, 8, content}}).front().content.kind;
}

TEST(Taken, WhatSegmentsKeepIsOfAPartOfTensors) {
  for (const ContentKind kind : {ContentKind::saved, ContentKind::context}) {
    EXPECT_EQ(left_of(of(kind), {.parts = 1}), ContentKind::unknown);
    EXPECT_EQ(left_of(of(kind), {.parts = 2}), kind) << "of another axis";
  }
  EXPECT_EQ(left_of(of(ContentKind::value), {.parts = 1}), ContentKind::value) << "whole on each rank";
}

TEST(Taken, SumsAndStatesAreOfAReplica) {
  for (const ContentKind kind : {ContentKind::gradient, ContentKind::squares, ContentKind::scalar, ContentKind::state})
    EXPECT_EQ(left_of(of(kind), {.replicas = 1}), ContentKind::unknown);
  Content mean = of(ContentKind::state);
  mean.is_mean = true;
  EXPECT_EQ(left_of(mean, {.replicas = 1}), ContentKind::state);
}

TEST(Taken, SlicesOfOthersAreForgotten) {
  Content content = of(ContentKind::state);
  content.own = 1;
  content.local = 2;
  content.is_mean = true;
  ContentParts parts{{0, 8, content}};
  forget_slices(parts);
  EXPECT_EQ(parts.front().content, of(ContentKind::state));
}

TEST(AxesOfStates, AreThoseOfTensorsAndAllOnWhichAParameterDiverges) {
  const Model model = toy_model();
  const Mesh mesh({{"x", 2}, {"tp", 2, TSR_SPLITS_TENSORS}, {"y", 2}, {"z", 2}});
  Program program = empty_program(model, mesh);
  for (const int axis : {0, 2}) {
    LayoutEntry entry;
    entry.parameter = 0;
    entry.axis = axis;
    entry.kind = TSR_LAYOUT_DIVERGENT;
    program.layout.push_back(entry);
  }
  const AxesOfStates axes = axes_of_states(program);
  EXPECT_EQ(axes.parts, 0b10u);
  EXPECT_EQ(axes.replicas, 0b101u);
}

class ModelNeedsTest : public ::testing::Test {
 protected:
  ModelNeedsTest() { program_.step_config.num_micro_batches = 2; }

  Model model_ = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                           {.batch = 1, .seq = 8, .loss_scale = 1.0 / 16});
  const Mesh mesh_{{{"dp", 1}}};
  Program program_ = empty_program(model_, mesh_);
  AddendSets sets_;
};

/// The tied embedding's gradient has two in each.
TEST_F(ModelNeedsTest, AMicroBatchIsCompleteWithAllItsAddends) {
  const ModelNeeds needs(program_, sets_);
  const int wte = model_.parameter("wte.weight"), last = static_cast<int>(model_.segments.size()) - 1;
  const auto addend = [&](int segment, int micro_batch) {
    const auto& parameters = model_.segments[static_cast<size_t>(segment)].parameters;
    const auto slot = static_cast<uint32_t>(std::ranges::find(parameters, wte) - parameters.begin());
    return static_cast<uint32_t>(needs.parameter_addend(segment, slot, micro_batch));
  };
  const AddendSets::Set all = {addend(0, 0), addend(last, 0), addend(0, 1), addend(last, 1)};
  ASSERT_EQ(all, (AddendSets::Set{0, 1, 2, 3}));
  using MicroBatches = std::vector<int>;
  EXPECT_EQ(needs.complete_micro_batches(wte, {}), MicroBatches{});
  EXPECT_EQ(needs.complete_micro_batches(wte, {0}), MicroBatches{});
  EXPECT_EQ(needs.complete_micro_batches(wte, {0, 1}), MicroBatches{0});
  EXPECT_EQ(needs.complete_micro_batches(wte, {1, 2, 3}), MicroBatches{1});
  EXPECT_EQ(needs.complete_micro_batches(wte, all), (MicroBatches{0, 1}));
}

TEST_F(ModelNeedsTest, ASegmentWithoutABackwardNeedsNone) {
  EXPECT_TRUE(ModelNeeds(program_, sets_).needs_backward(1));
  model_.segments[1].has_backward = false;
  const ModelNeeds needs(program_, sets_);
  EXPECT_TRUE(needs.needs_backward(0));
  EXPECT_FALSE(needs.needs_backward(1));
}

}  // namespace
}  // namespace tessera::testing

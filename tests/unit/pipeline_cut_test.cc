// Where a model can be cut, and where it is.
#include <gtest/gtest.h>

#include "compile/edit/program_snapshot.h"
#include "support/expect_error.h"
#include "support/pipeline_programs.h"

namespace tessera::testing {
namespace {

using Names = std::vector<std::string>;

/// The segments that parts 1, 2, ... begin with.
Names cut(const PipelinePrograms& programs, const std::string& how, int num_virtual_stages) {
  return programs.with_view([&](const ProgramView& view) {
    Names names;
    for (const pipeline::VirtualStage& virtual_stage : pipeline::partition_model(view, how, num_virtual_stages))
      if (virtual_stage.begin > 0)
        names.push_back(to_string(view.segments()[static_cast<size_t>(virtual_stage.begin)].name));
    return names;
  });
}

TEST(Cut, IsPossibleWhereOneValueIsAllThatIsNeeded) {
  const PipelinePrograms programs({}, 2);
  programs.with_view([](const ProgramView& view) {
    Names segments, values;
    for (const pipeline::CutPoint& point : pipeline::cut_points(view)) {
      segments.push_back(to_string(view.segments()[static_cast<size_t>(point.segment)].name));
      values.push_back(to_string(view.values()[static_cast<size_t>(point.value)].name));
    }
    EXPECT_EQ(segments, (Names{"wpe", "h.0.ln_1", "h.1.ln_1", "ln_f"}));
    EXPECT_EQ(values, (Names{"wte.out", "h.0.x", "h.1.x", "h.2.x"}));
  });
}

TEST(Cut, NotThroughAUnit) {
  PipelinePrograms programs({}, 2);
  // A final norm that shares its unit with the second block.
  Model& model = programs.model();
  const int block = model.parameters[model.parameter("h.1.ln_1.weight")].unit;
  model.parameters[model.parameter("ln_f.weight")].unit = block;
  programs.with_view([](const ProgramView& view) {
    for (const pipeline::CutPoint& point : pipeline::cut_points(view))
      EXPECT_NE(to_string(view.segments()[static_cast<size_t>(point.segment)].name), "ln_f");
  });
}

TEST(Cut, EvenPartsHaveEquallyManyBlocks) {
  const PipelinePrograms programs({}, 8);
  EXPECT_EQ(cut(programs, "even", 2), (Names{"h.4.ln_1"}));
  EXPECT_EQ(cut(programs, "even", 4), (Names{"h.2.ln_1", "h.4.ln_1", "h.6.ln_1"}));
  EXPECT_EQ(cut(programs, "even", 1), Names{});
  expect_error([&] { cut(programs, "even", 3); }, {"8 blocks into 1, 2, 4, 8 equal parts, not into 3", "use auto"});
}

TEST(Cut, ListedPartsBeginWithSegmentsOrUnits) {
  const PipelinePrograms programs({}, 4);
  EXPECT_EQ(cut(programs, "h.1,h.3.ln_1", 3), (Names{"h.1.ln_1", "h.3.ln_1"}));
  EXPECT_EQ(cut(programs, "wpe,ln_f", 3), (Names{"wpe", "ln_f"}));
  expect_error([&] { cut(programs, "h.1.qkv,h.3", 3); },
               {"a part cannot begin with 'h.1.qkv'", "wpe, h.0.ln_1, h.1.ln_1, h.2.ln_1, h.3.ln_1, ln_f"});
  expect_error([&] { cut(programs, "loss", 2); }, {"cannot begin with 'loss'"});
  expect_error([&] { cut(programs, "wte", 2); }, {"cannot begin with 'wte'"});
  expect_error([&] { cut(programs, "h.3,h.1", 3); }, {"'h.1' does not come after"});
  expect_error([&] { cut(programs, "h.1,h.1.ln_1", 3); }, {"'h.1.ln_1' does not come after"});
  expect_error([&] { cut(programs, "h.1", 3); },
               {"cuts the model into 2 parts, not 3; list the beginnings of all parts but the first, 2 in all"});
}

TEST(Cut, MorePartsThanCutPointsAllowAreRefused) {
  const PipelinePrograms programs({}, 2);
  EXPECT_EQ(cut(programs, "auto", 5).size(), 4u);
  expect_error([&] { cut(programs, "auto", 6); }, {"at most 5 parts, not 6"});
}

TEST(Cut, ACostIsOfElementsAndOfProducts) {
  const PipelinePrograms programs({}, 1);
  programs.with_view([](const ProgramView& view) {
    constexpr double kTokens = 2 * 8, kWidth = 16, kElements = 32;
    const auto cost = [&](std::string_view name) {
      for (const tsr_segment& segment : view.segments())
        if (to_string(segment.name) == name) return pipeline::cost_of(view, segment);
      return 0.0;
    };
    EXPECT_EQ(cost("h.0.ln_1"), kElements * 2 * kTokens * kWidth);
    EXPECT_EQ(cost("h.0.qkv"), kElements * 4 * kTokens * kWidth + 2 * kTokens * 3 * kWidth * kWidth);
    EXPECT_EQ(cost("h.0.attention"), kElements * 4 * kTokens * kWidth + 2 * 8 * kTokens * kWidth);
  });
}

/// The cost of the most expensive part.
double most(const PipelinePrograms& programs, const std::string& how, int num_virtual_stages) {
  return programs.with_view([&](const ProgramView& view) {
    double most = 0;
    for (const pipeline::VirtualStage& virtual_stage : pipeline::partition_model(view, how, num_virtual_stages)) {
      double cost = 0;
      for (int s = virtual_stage.begin; s < virtual_stage.end; ++s)
        cost += pipeline::cost_of(view, view.segments()[static_cast<size_t>(s)]);
      most = std::max(most, cost);
    }
    return most;
  });
}

TEST(Cut, AutoIsTheBestOfAllLists) {
  const PipelinePrograms programs({}, 4);
  const Names points = {"wpe", "h.0", "h.1", "h.2", "h.3", "ln_f"};
  for (const std::string& first : points)
    for (const std::string& second : points)
      if (first < second || first == "wpe" || second == "ln_f") {
        if (first == second || first == "ln_f" || second == "wpe") continue;
        EXPECT_LE(most(programs, "auto", 3), most(programs, first + "," + second, 3)) << first << " " << second;
      }
  EXPECT_LT(most(programs, "auto", 3), most(programs, "wpe,h.0", 3));
}

// The loss of GPT-2 124M costs as much as five of its blocks.
TEST(Cut, AutoGivesTheLastPartFewerBlocks) {
  const Model model = make_gpt2(gpt2_config_by_name("gpt2").value(), {.batch = 4, .seq = 256, .loss_scale = 1});
  const Mesh mesh({{"pp", 2, TSR_SPLITS_LAYERS}});
  Program bare;
  bare.model = &model;
  bare.mesh = &mesh;
  bare.coordinates = {0};
  const ProgramSnapshot snapshot(bare, 0);
  const ProgramView view(snapshot.view());
  const auto virtual_stages = pipeline::partition_model(view, "auto", 2);
  const std::string begins = to_string(view.segments()[static_cast<size_t>(virtual_stages[1].begin)].name);
  EXPECT_TRUE(begins == "h.8.ln_1" || begins == "h.9.ln_1") << begins;
}

}  // namespace
}  // namespace tessera::testing

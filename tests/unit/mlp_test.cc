// The perceptron: what its name says, and the model it becomes.
#include "model/mlp/mlp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/usage_error.h"
#include "model/model_name.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

TEST(Mlp, ANameHoldsWidthsAndActivation) {
  EXPECT_EQ(parse_mlp("mlp:784,256,10"), (MlpConfig{{784, 256, 10}, TSR_ACTIVATION_RELU}));
  EXPECT_EQ(parse_mlp("mlp:784,256,10:relu"), (MlpConfig{{784, 256, 10}, TSR_ACTIVATION_RELU}));
  EXPECT_EQ(parse_mlp("mlp:4,3:gelu"), (MlpConfig{{4, 3}, TSR_ACTIVATION_GELU_TANH}));
  EXPECT_EQ(parse_mlp("mlp:1,16777216,2").num_layers(), 2);
}

TEST(Mlp, NamesThatAreWrongSayWhatToGive) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"mlp", {"'' is not a width", "mlp:784,256,10"}},
      {"mlp:", {"'' is not a width"}},
      {"mlp:784", {"one width makes no layer"}},
      {"mlp:784,,10", {"'' is not a width"}},
      {"mlp:784,10,", {"'' is not a width"}},
      {"mlp:784,0,10", {"'0' is not a width", "from 1 to 16777216"}},
      {"mlp:784,-5,10", {"'-5' is not a width"}},
      {"mlp:784,2.5,10", {"'2.5' is not a width"}},
      {"mlp:784,16777217,10", {"'16777217' is not a width"}},
      {"mlp:784,99999999999999999999,10", {"is not a width"}},
      {"mlp:784,256,1", {"at least 2"}},
      {"mlp:784,10:silu", {"'silu' is not an activation", "relu or gelu"}},
      {"mlp:784,10:", {"'' is not an activation"}},
      {"mlp:784,10:gelu:relu", {"'gelu:relu' is not an activation"}},
      {"mlp:784, 10", {"' 10' is not a width"}}};
  for (const auto& [name, parts] : cases) {
    const std::string text = expect_error<UsageError>([&, name = name] { find_architecture(name); }, parts);
    EXPECT_TRUE(text.starts_with(std::string("--model ") + name + ": ")) << text;
  }
}

TEST(Mlp, IsAChainOfLayersAndALoss) {
  const Model model = make_mlp({{6, 5, 3}, TSR_ACTIVATION_GELU_TANH}, {.batch = 4, .seq = 0, .loss_scale = 0.25});
  ASSERT_EQ(model.segments.size(), 3u);
  const Segment &first = model.segments[0], &second = model.segments[1], &loss = model.loss();
  EXPECT_EQ(first.name, "layers.0");
  EXPECT_EQ(first.op.attributes[TSR_ATTR_ACTIVATION], TSR_ACTIVATION_GELU_TANH);
  EXPECT_EQ(second.op.attributes[TSR_ATTR_ACTIVATION], TSR_ACTIVATION_NONE);
  EXPECT_EQ(second.op.attributes[TSR_ATTR_HAS_BIAS], 1);
  EXPECT_EQ(loss.op.kind, static_cast<uint32_t>(TSR_OP_CROSS_ENTROPY));
  EXPECT_EQ(loss.op.dims[TSR_DIM_CLASSES], 3);
  EXPECT_EQ(loss.op.attributes[TSR_ATTR_SCALE], 0.25);
  for (const Segment& segment : model.segments) {
    EXPECT_EQ(segment.op.dims[TSR_DIM_BATCH], 4);
    EXPECT_EQ(segment.op.dims[TSR_DIM_SEQ], 1);
    EXPECT_FALSE(segment.is_row_wise);
  }
  ASSERT_EQ(model.inputs().size(), 2u);
  EXPECT_EQ(model.values[static_cast<size_t>(model.inputs()[0])].num_elements, 24u);
  EXPECT_EQ(model.values[static_cast<size_t>(model.inputs()[1])].num_elements, 4u);
  EXPECT_EQ(model.units.size(), 2u);
  EXPECT_EQ(model.num_blocks(), 2);
  EXPECT_EQ(model.num_parameter_elements(), 6u * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(model.batch * model.seq, 4);
}

TEST(Mlp, WeightsKeepTheVarianceAndBiasesAreZero) {
  const Model model = make_mlp({{8, 50, 3}}, {.batch = 1, .seq = 0});
  EXPECT_EQ(model.parameters[0].initial, (InitialRule{0.0f, std::sqrt(2.0f / 8.0f)}));
  EXPECT_EQ(model.parameters[1].initial, (InitialRule{0.0f, 0.0f}));
  EXPECT_EQ(model.parameters[2].initial, (InitialRule{0.0f, std::sqrt(1.0f / 50.0f)})) << "no activation follows";
}

TEST(Mlp, SaysWhatItTakesAndWhatItIs) {
  const auto mlp = find_architecture("mlp:784,256,10").architecture;
  const auto inputs = std::get<ExampleInputs>(mlp->inputs());
  EXPECT_EQ(inputs.num_features, 784);
  EXPECT_EQ(inputs.num_classes, 10);
  EXPECT_EQ(mlp->summary(), "2 layers, 784 features, 10 classes, relu");
  EXPECT_EQ(mlp->num_segments(), 3);
  EXPECT_EQ(static_cast<size_t>(mlp->num_segments()), mlp->build({.batch = 1, .seq = 0}).segments.size());
  EXPECT_EQ(mlp->facts()[0].value, "784,256,10");
}

}  // namespace
}  // namespace tessera::testing

// Models are written as ops applied to values; everything else follows from the entries of ops.
#include "model/model_builder.h"

#include <gtest/gtest.h>

#include "model/infer_op.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr InitialRule kSmall = {0.0f, 0.02f};

std::vector<int64_t> extents(const std::vector<tsr_dim>& dims) {
  std::vector<int64_t> result;
  for (const tsr_dim& dim : dims)
    result.push_back(dim.extent);
  return result;
}

class ModelBuilderTest : public ::testing::Test {
 protected:
  ModelBuilderTest() { builder_.unit("u"); }

  int parameter(const char* name, std::vector<tsr_dim> dims) {
    return builder_.parameter(name, std::move(dims), kSmall);
  }
  /// An activation of that width.
  int activation(tsr_dim width) {
    const int table = parameter("table", {make_dim(TSR_DIM_VOCAB, 11), width});
    return builder_.apply({"embed", TSR_OP_TOKEN_EMBEDDING, {table}, {tokens_}, {}, {"x"}})[0];
  }

  ModelBuilder builder_{{.batch = 3, .seq = 5, .loss_scale = 0.25}};
  const int tokens_ = builder_.input("tokens", TSR_I32);
  const tsr_dim embed_ = make_dim(TSR_DIM_EMBED, 8), ffn_ = make_dim(TSR_DIM_FFN, 12);
};

TEST_F(ModelBuilderTest, ExtentsNamesAndContractionsFollow) {
  const int x = activation(embed_);
  const int w = parameter("w", {embed_, ffn_}), b = parameter("b", {ffn_});
  const int y =
      builder_.apply({"up", TSR_OP_LINEAR, {w, b}, {x}, {{TSR_ATTR_ACTIVATION, TSR_ACTIVATION_RELU}}, {"y"}})[0];
  const Model model = builder_.finish();
  const Segment& up = model.segments.back();
  EXPECT_EQ(extents(model.values[static_cast<size_t>(y)].dims), (std::vector<int64_t>{3, 5, 12}));
  EXPECT_EQ(model.values[static_cast<size_t>(y)].num_elements, 180u);
  EXPECT_EQ(model.values[static_cast<size_t>(y)].dims[2].name, TSR_DIM_FFN);
  EXPECT_EQ(up.op.dims[TSR_DIM_BATCH], 3);
  EXPECT_EQ(up.op.dims[TSR_DIM_SEQ], 5);
  EXPECT_EQ(up.op.dims[TSR_DIM_IN], 8);
  EXPECT_EQ(up.op.dims[TSR_DIM_OUT], 12);
  EXPECT_EQ(up.op.dims[TSR_DIM_EMBED], 0);
  EXPECT_EQ(up.dim_names[TSR_DIM_OUT], TSR_DIM_FFN);
  EXPECT_EQ(up.op.attributes[TSR_ATTR_HAS_BIAS], 1);
  EXPECT_EQ(up.op.attributes[TSR_ATTR_ACTIVATION], TSR_ACTIVATION_RELU);
  ASSERT_EQ(up.contractions.size(), 1u);
  EXPECT_EQ(up.contractions[0].dim, TSR_DIM_EMBED);
  EXPECT_FALSE(up.is_row_wise);
  EXPECT_EQ(model.parameters[static_cast<size_t>(w)].initial, kSmall);
  EXPECT_EQ(model.units[0].parameters.size(), 3u);
}

TEST_F(ModelBuilderTest, ABiasMayBeLeftOut) {
  const int x = activation(embed_), w = parameter("w", {embed_, ffn_});
  builder_.apply({"up", TSR_OP_LINEAR, {w}, {x}, {}, {"y"}});
  EXPECT_EQ(builder_.finish().segments.back().op.attributes[TSR_ATTR_HAS_BIAS], 0);
}

TEST_F(ModelBuilderTest, VocabulariesAreWhole) {
  activation(embed_);
  const Segment embed = builder_.finish().segments.back();
  EXPECT_EQ(embed.op.dims[TSR_DIM_VOCAB], 11);
  EXPECT_EQ(embed.op.attributes[TSR_ATTR_VOCAB_COUNT], 11);
  EXPECT_EQ(embed.op.attributes[TSR_ATTR_VOCAB_TOTAL], 11);
}

TEST_F(ModelBuilderTest, AnAddendsGradientIsThatOfTheSum) {
  const int x = activation(embed_), b = parameter("b", {embed_}), w = parameter("w", {embed_, embed_});
  const int y = builder_.apply({"l", TSR_OP_LINEAR, {w}, {x}, {}, {"y"}})[0];
  const int z = builder_.apply({"add", TSR_OP_ADD, {b}, {x, y}, {}, {"z"}})[0];
  const Model model = builder_.finish();
  EXPECT_EQ(model.values[static_cast<size_t>(y)].gradient_of, z);
  EXPECT_EQ(model.values[static_cast<size_t>(x)].gradient_of, -1);
  EXPECT_TRUE(model.segments.back().is_row_wise);
}

TEST_F(ModelBuilderTest, HeadsAreCutInEachOfThreeBlocks) {
  const tsr_dim qkv = make_dim(TSR_DIM_HEADS, 24, 3, 2);
  const int x = activation(embed_), w = parameter("w", {embed_, qkv});
  const int y = builder_.apply({"qkv", TSR_OP_LINEAR, {w}, {x}, {}, {"qkv"}})[0];
  const int z = builder_.apply({"attention", TSR_OP_ATTENTION, {}, {y}, {}, {"z"}})[0];
  const Model model = builder_.finish();
  const tsr_dim& heads = model.values[static_cast<size_t>(z)].dims[2];
  EXPECT_EQ(heads.extent, 8);
  EXPECT_EQ(heads.blocks, 1u);
  EXPECT_EQ(heads.granule, 2);
  EXPECT_EQ(heads.name, TSR_DIM_HEADS);
  const Segment& attention = model.segments.back();
  EXPECT_EQ(attention.op.dims[TSR_DIM_HEADS], 4);
  EXPECT_EQ(attention.op.dims[TSR_DIM_HEAD_DIM], 2);
  EXPECT_EQ(attention.dim_names[TSR_DIM_HEADS], TSR_DIM_HEADS);
  EXPECT_EQ(attention.dim_names[TSR_DIM_HEAD_DIM], 0u);
}

TEST_F(ModelBuilderTest, OperandsThatContradictEachOtherAreBothNamed) {
  const int x = activation(embed_);
  const int w = parameter("w", {ffn_, embed_}), b = parameter("b", {ffn_});
  expect_error(
      [&] {
        builder_.apply({"down", TSR_OP_LINEAR, {w}, {x}, {}, {"y"}});
      },
      {"segment down", "op linear", "x [3, 5, 8]", "w [12, 8]", "IN is 8 in the one and 12 in the other"});
  const int other = parameter("other", {make_dim(TSR_DIM_HEADS, 8), embed_});
  expect_error([&] { builder_.apply({"down", TSR_OP_LINEAR, {other}, {x}, {}, {"y"}}); }, {"of another name"});
  expect_error([&] { builder_.apply({"down", TSR_OP_LINEAR, {b}, {x}, {}, {"y"}}); }, {"b [12] has 1 dims, not 2"});
  expect_error([&] { builder_.apply({"attend", TSR_OP_ATTENTION, {}, {x}, {}, {"y"}}); }, {"3 blocks are needed"});
}

TEST_F(ModelBuilderTest, OperandsAreCounted) {
  const int x = activation(embed_), w = parameter("w", {embed_, ffn_});
  expect_error([&] { builder_.apply({"up", TSR_OP_LINEAR, {}, {x}, {}, {"y"}}); }, {"takes 1 to 2 parameters, not 0"});
  expect_error([&] { builder_.apply({"up", TSR_OP_LINEAR, {w}, {x, x}, {}, {"y"}}); }, {"takes 1 inputs, not 2"});
  expect_error(
      [&] {
        builder_.apply({"up", TSR_OP_LINEAR, {w}, {x}, {}, {}});
      },
      {"segment up: its op has 1 outputs, not 0"});
  expect_error([&] { builder_.apply({"up", TSR_OP_COPY, {}, {x}, {}, {"y"}}); }, {"op copy is not one"});
}

// ---- models without sequences --------------------------------------------------------------------------------

const tsr_dim kBatch = make_dim(TSR_DIM_BATCH, 3), kSeq = make_dim(TSR_DIM_SEQ, 5);
const tsr_dim kIn = make_dim(TSR_DIM_EMBED, 8), kOut = make_dim(TSR_DIM_FFN, 12);

TEST(InferOp, WithoutASequenceRowsAreTheBatch) {
  const std::vector<tsr_dim> x = {kBatch, kIn}, w = {kIn, kOut};
  const InferredOp linear = infer_op(TSR_OP_LINEAR, {{{"w", w}}, {{"x", x}}});
  EXPECT_EQ(extents(linear.outputs.at(0).dims), (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(linear.op.dims[TSR_DIM_SEQ], 1);
  EXPECT_EQ(linear.op.dims[TSR_DIM_BATCH], 3);
}

TEST(InferOp, OneOperandWithASequenceAndOneWithoutAreRefused) {
  const std::vector<tsr_dim> x = {kBatch, kSeq, kIn}, y = {kBatch, kIn}, b = {kIn};
  expect_error(
      [&] {
        infer_op(TSR_OP_ADD, {{{"b", b}}, {{"x", x}, {"y", y}}});
      },
      {"op add", "y [3, 8] has no sequence"});
}

TEST(InferOp, StatisticsOfALossAreFloat32) {
  const std::vector<tsr_dim> x = {kBatch, kSeq, kIn}, table = {make_dim(TSR_DIM_VOCAB, 7), kIn};
  const InferredOp head = infer_op(TSR_OP_HEAD_LOGITS, {{{"table", table}}, {{"x", x}}});
  EXPECT_TRUE(head.outputs.at(0).is_float32);
  EXPECT_EQ(extents(head.outputs.at(0).dims), (std::vector<int64_t>{3, 5, 7}));
  ASSERT_EQ(head.contractions.size(), 1u);
  EXPECT_EQ(head.contractions[0].reduce, static_cast<uint32_t>(TSR_REDUCE_MAX));
}

}  // namespace
}  // namespace tessera::testing

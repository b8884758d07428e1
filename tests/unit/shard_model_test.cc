// What one rank computes of a model whose tensors are split: extents, which elements it has, and what is refused.
#include <gtest/gtest.h>

#include "model/gpt2/gpt2.h"
#include "passes/shard_model.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr Gpt2Config kConfig{.num_layers = 1, .num_heads = 2, .embed = 8, .vocab = 23, .positions = 6, .ffn = 12};

class LocalModel : public ::testing::Test {
 protected:
  LocalModel() {
    for (const char* name : {"h.0.attn.c_attn.weight", "h.0.mlp.c_fc.weight"})
      split(name, 1);
    for (const char* name :
         {"h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight", "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "wte.weight"})
      split(name, 0);
  }

  LayoutEntry& split(const std::string& name, int dim) {
    LayoutEntry& s = layout_.emplace_back();
    s.parameter = model_.parameter(name);
    s.axis = 0;
    s.kind = TSR_LAYOUT_SPLIT;
    s.dim = dim;
    s.parts = 2;
    const tsr_dim& whole = model_.parameters[s.parameter].dims[dim];
    s.padded_size = static_cast<uint64_t>((whole.extent + 1) / 2 * 2);
    return s;
  }
  void split_rows() {
    LayoutEntry& rows = layout_.emplace_back();
    rows.parameter = kNamedDim;
    rows.name = TSR_DIM_ROWS;
    rows.axis = 0;
    rows.kind = TSR_LAYOUT_SPLIT;
    rows.parts = 2;
  }
  Model local(int rank) const { return shard_model(model_, mesh_, {rank}, layout_); }
  static const Parameter& parameter(const Model& model, const char* name) {
    return model.parameters[model.parameter(name)];
  }
  static const Value& value(const Model& model, std::string_view name) {
    return *std::ranges::find(model.values, name, &Value::name);
  }

  const Model model_ = make_gpt2(kConfig, {.batch = 2, .seq = 5, .loss_scale = 0.1});
  const Mesh mesh_{{{"tp", 2, TSR_SPLITS_TENSORS}}};
  Layout layout_;
};

TEST_F(LocalModel, OfNoSplitIsTheModel) {
  layout_.clear();
  const Model same = local(1);
  EXPECT_EQ(same.segments.size(), model_.segments.size());
  EXPECT_EQ(same.num_parameter_elements(), model_.num_parameter_elements());
}

TEST_F(LocalModel, ColumnsOfEveryBlock) {
  const Model right = local(1);
  const Parameter& weight = parameter(right, "h.0.attn.c_attn.weight");  // [8, q 8 | k 8 | v 8]
  EXPECT_EQ(weight.shape(), (std::vector<int64_t>{8, 12}));
  ASSERT_TRUE(weight.part);
  EXPECT_EQ(weight.part->whole_elements, 8u * 24);
  ASSERT_EQ(weight.part->pieces.size(), 8u * 3);
  const ParameterPiece& k_of_row_2 = weight.part->pieces[2 * 3 + 1];
  EXPECT_EQ(k_of_row_2.whole_offset, 2u * 24 + 8 + 4);  // the second half of k
  EXPECT_EQ(k_of_row_2.local_offset, 2u * 12 + 4);
  EXPECT_EQ(k_of_row_2.num_elements, 4u);
}

TEST_F(LocalModel, RowsAreOnePiece) {
  const Model right = local(1);
  const Parameter& weight = parameter(right, "h.0.mlp.c_proj.weight");  // [12, 8]
  EXPECT_EQ(weight.shape(), (std::vector<int64_t>{6, 8}));
  ASSERT_EQ(weight.part->pieces.size(), 1u);
  EXPECT_EQ(weight.part->pieces[0].whole_offset, 6u * 8);
}

TEST_F(LocalModel, PartsAreTheWhole) {
  std::vector<int> seen(8 * 24);
  for (const int rank : {0, 1}) {
    const Model part = local(rank);
    for (const ParameterPiece& piece : parameter(part, "h.0.attn.c_attn.weight").part->pieces)
      for (uint64_t i = 0; i < piece.num_elements; ++i)
        ++seen[piece.whole_offset + i];
  }
  EXPECT_EQ(seen, std::vector<int>(8 * 24, 1));
}

TEST_F(LocalModel, OpsHaveLocalExtents) {
  const Model part = local(0);
  const tsr_op& attention = part.segments[part.segment("h.0.attention")].op;
  EXPECT_EQ(attention.dims[TSR_DIM_HEADS], 1);
  EXPECT_EQ(attention.dims[TSR_DIM_HEAD_DIM], 4);
  const tsr_op& qkv = part.segments[part.segment("h.0.qkv")].op;
  EXPECT_EQ(qkv.dims[TSR_DIM_IN], 8);
  EXPECT_EQ(qkv.dims[TSR_DIM_OUT], 12);
  EXPECT_EQ(part.segments[part.segment("h.0.fc_proj")].op.dims[TSR_DIM_IN], 6);
  EXPECT_EQ(value(part, "h.0.hidden").num_elements, 2u * 5 * 6);
}

TEST_F(LocalModel, TheVocabularyIsPaddedAndItsLossIsThreeSegments) {
  const Model right = local(1);
  EXPECT_EQ(parameter(right, "wte.weight").shape(), (std::vector<int64_t>{12, 8}));
  EXPECT_EQ(parameter(right, "wte.weight").part->pieces[0].num_elements, 11u * 8);  // the last row is padding
  EXPECT_EQ(right.loss().name, "loss_grad");
  const tsr_op& head = right.segments[right.segment("head_logits")].op;
  EXPECT_EQ(head.dims[TSR_DIM_VOCAB], 12);
  EXPECT_EQ(head.attributes[TSR_ATTR_VOCAB_BEGIN], 12);
  EXPECT_EQ(head.attributes[TSR_ATTR_VOCAB_COUNT], 11);
  EXPECT_FALSE(right.segments[right.segment("softmax_stats")].has_backward);
  EXPECT_EQ(value(right, "logits").num_elements, 2u * 5 * 12);
}

TEST_F(LocalModel, RowsOfValues) {
  split_rows();
  const Model right = local(1);
  EXPECT_EQ(value(right, "h.0.mid").num_elements, 5u * 8);  // 10 rows on 2 ranks
  const Value& whole = value(right, "h.0.norm_1.whole");
  EXPECT_EQ(whole.num_elements, 10u * 8);
  EXPECT_EQ(right.values[whole.same_as].name, "h.0.norm_1");
  EXPECT_TRUE(whole.splits.empty());
  ASSERT_EQ(value(right, "h.0.norm_1").splits.size(), 1u);
  EXPECT_EQ(value(right, "h.0.norm_1").splits[0].dim, TSR_DIM_ROWS);
  ASSERT_EQ(value(right, "h.0.hidden").splits.size(), 1u);
  EXPECT_EQ(value(right, "h.0.hidden").splits[0].dim, TSR_DIM_FFN);
  const tsr_op& norm = right.segments[right.segment("h.0.ln_1")].op;
  EXPECT_EQ(norm.dims[TSR_DIM_BATCH] * norm.dims[TSR_DIM_SEQ], 5);
  const tsr_op& positions = right.segments[right.segment("wpe")].op;
  EXPECT_EQ(positions.attributes[TSR_ATTR_ROW_BEGIN], 0);  // row 5 is the second sequence's first
  EXPECT_EQ(positions.attributes[TSR_ATTR_ROW_PERIOD], 5);
  EXPECT_EQ(parameter(right, "h.0.ln_1.weight").rows_axis, 0);
  EXPECT_EQ(parameter(right, "h.0.attn.c_attn.bias").rows_axis, -1);
}

TEST_F(LocalModel, RefusesLayoutsThatDoNotGo) {
  Layout good = layout_;
  layout_.front().padded_size += 6;
  expect_error([&] { local(0); }, {"axis tp", "h.0.attn.c_attn.weight", "24 elements", "cannot be split into 2 parts"});
  layout_ = good;
  layout_.front().parts = 0;
  expect_error([&] { local(0); }, {"axis tp", "h.0.attn.c_attn.weight", "cannot be split into 0 parts"});
  layout_ = good;
  layout_.front().roles &= ~(1u << TSR_HOME_GRADIENT);
  expect_error([&] { local(0); }, {"axis tp", "h.0.attn.c_attn.weight", "is split for some roles only"});
  layout_ = good;
  layout_.erase(layout_.begin());
  expect_error([&] { local(0); }, {"axis tp", "must be split alike"});
  layout_ = good;
  split("h.0.attn.c_attn.weight", 0).dim = 7;
  expect_error([&] { local(0); }, {"dim 7", "does not exist"});
  layout_ = good;
  split_rows();
  split_rows();
  expect_error([&] { local(0); }, {"two axes split the rows"});
}

TEST_F(LocalModel, OnlyTensorAxesSplitDims) {
  const Mesh batch({{"dp", 2, TSR_SPLITS_BATCH}});
  expect_error([&] { shard_model(model_, batch, {0}, layout_); }, {"axis dp", "does not split tensors"});
}

}  // namespace
}  // namespace tessera::testing

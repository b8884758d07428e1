// Token and position embeddings, on every device.
#include <algorithm>
#include <cmath>

#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace tessera::testing {
namespace {

class TokenEmbeddingOp : public DeviceOpTestOf<TokenExtents> {};

// Forward moves values: it rounds nothing.
TEST_P(TokenEmbeddingOp, IsTheReference) {
  const OpCase c = token_embedding_case(extents());
  check_forward(device(), c.op, c.operands, {0.0});
  check_backward(device(), c.op, c.operands);
}

// Fewer tokens than rows, so that rows stay untouched; more, so that rows are added to again and again; parts of a
// vocabulary, one of them empty; rows of GPT-2's width.
TESSERA_EVERY_DEVICE_ON(TokenEmbeddingOp, TokenExtents, TokenExtents{2, 5, 33, 96, 0, 96, 96},
                        TokenExtents{2, 33, 33, 7, 0, 7, 7}, TokenExtents{2, 19, 33, 6, 3, 4, 11},
                        TokenExtents{2, 19, 33, 5, 0, 5, 11}, TokenExtents{2, 19, 33, 3, 12, 0, 12},
                        TokenExtents{1, 200, 130, 3, 0, 3, 3}, TokenExtents{2, 64, 768, 515, 0, 515, 515},
                        TokenExtents{1, 64, 16, 50257, 0, 50257, 50257});

class TokenEmbeddingOps : public DeviceOpTest {};

TEST_P(TokenEmbeddingOps, RefuseTokensOutsideOfTheVocabulary) {
  for (const auto& [token, text] : {std::pair{7, "token 7 at position 3"}, std::pair{-1, "token -1 at position 3"}}) {
    OpCase c = token_embedding_case(1, 5, 4, 7);
    c.operands.tokens[in(0)][3] = token;
    c.operands.floats[dout(0)] = random_floats(20, 1);
    expect_error([&] { run(runner(), c.op, c.operands); }, {text, "[0, 7)"});
    c.op.phase = TSR_PHASE_BACKWARD;
    expect_error([&] { run(runner(), c.op, c.operands, {.gradient_mode = TSR_MODE_WRITE}); }, {text});
    c.operands.tokens[in(0)][3] = 0;  // and the device is of use again, once it was opened anew
    run(runner(), c.op, c.operands, {.gradient_mode = TSR_MODE_WRITE});
  }
}

// The last part may have fewer tokens than rows, or none.
TEST_P(TokenEmbeddingOps, OfPartsOfTheVocabularySumToTheWhole) {
  constexpr int64_t kEmbed = 5, kVocabulary = 23, kNumTokens = 40;
  const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16})
    for (const auto& [num_parts, num_rows] : {std::pair{1, 25}, {2, 12}, {3, 8}, {4, 6}, {4, 8}}) {
      OpCase whole = token_embedding_case(2, kNumTokens / 2, kEmbed, kVocabulary);
      whole.op.dtype = dtype;
      const std::vector<float> expected = run(runner(), whole.op, whole.operands).floats.at(out(0));
      whole.operands.floats[dout(0)] = random_floats(kNumTokens * kEmbed, 5);
      whole.op.phase = TSR_PHASE_BACKWARD;
      const std::vector<float> expected_gradient = run(runner(), whole.op, whole.operands, write).floats.at(g(0));

      std::vector<float> sum(expected.size()), gradient, table = whole.operands.floats.at(p(0));
      table.resize(static_cast<size_t>(num_parts * num_rows * kEmbed));
      for (int64_t part = 0; part < num_parts; ++part) {
        const int64_t begin = part * num_rows, count = std::clamp<int64_t>(kVocabulary - begin, 0, num_rows);
        tsr_op op = token_embedding_case({2, kNumTokens / 2, kEmbed, num_rows, begin, count, kVocabulary}).op;
        op.dtype = dtype;
        Operands operands = whole.operands;
        operands.floats[p(0)].assign(table.begin() + begin * kEmbed, table.begin() + (begin + num_rows) * kEmbed);
        const std::vector<float> rows = run(runner(), op, operands).floats.at(out(0));
        std::transform(sum.begin(), sum.end(), rows.begin(), sum.begin(), std::plus());
        op.phase = TSR_PHASE_BACKWARD_WEIGHT;
        const std::vector<float> part_gradient = run(runner(), op, operands, write).floats.at(g(0));
        gradient.insert(gradient.end(), part_gradient.begin(), part_gradient.end());
      }
      EXPECT_EQ(sum, expected);
      for (auto padding = gradient.begin() + kVocabulary * kEmbed; padding != gradient.end(); ++padding)
        EXPECT_EQ(*padding, 0.0f);
      gradient.resize(expected_gradient.size());
      EXPECT_EQ(gradient, expected_gradient);
    }
}

TEST_P(TokenEmbeddingOps, RefusePartsThatAreNone) {
  const auto refuse = [this](const tsr_op& wrong, const char* text) {
    expect_error([&] { runner().describe(wrong); }, {"op token_embedding ", text, "table of 6 rows"});
  };
  refuse(token_embedding_case({1, 5, 4, 6, 0, 7, 7}).op, "VOCAB_COUNT 7");
  refuse(token_embedding_case({1, 5, 4, 6, 3, 5, 7}).op, "VOCAB_BEGIN 3");
  refuse(token_embedding_case({1, 5, 4, 6, -1, 5, 7}).op, "VOCAB_BEGIN -1");
  for (const auto& [attribute, value, text] : {std::tuple{TSR_ATTR_VOCAB_COUNT, 2.5, "VOCAB_COUNT 2.5"},
                                               {TSR_ATTR_VOCAB_TOTAL, 0.0, "VOCAB_TOTAL 0"},
                                               {TSR_ATTR_VOCAB_BEGIN, std::nan(""), "VOCAB_BEGIN nan"}}) {
    tsr_op wrong = token_embedding_case({1, 5, 4, 6, 0, 0, 7}).op;
    wrong.attributes[attribute] = value;
    refuse(wrong, text);
  }
}

TEST_P(TokenEmbeddingOps, RefuseASequenceLongerThanTheTableOfPositions) {
  expect_error([&] { runner().describe(position_embedding_case({1, 9, 4, 8}).op); }, {"9 tokens", "8 positions"});
}

TESSERA_EVERY_DEVICE(TokenEmbeddingOps);

class PositionEmbeddingOp : public DeviceOpTestOf<PositionExtents> {};

TEST_P(PositionEmbeddingOp, IsTheReference) {
  const OpCase c = position_embedding_case(extents());
  check_forward(device(), c.op, c.operands);
  check_backward(device(), c.op, c.operands);
}

// Whole sequences; some rows of sequences of 9, that begin within one; rows fewer than a sequence; GPT-2's width.
TESSERA_EVERY_DEVICE_ON(PositionEmbeddingOp, PositionExtents, PositionExtents{3, 5, 7, 5},
                        PositionExtents{3, 33, 7, 64}, PositionExtents{1, 22, 7, 12, 5, 9},
                        PositionExtents{1, 3, 33, 9, 7, 9}, PositionExtents{1, 4, 33, 9, 22, 9},
                        PositionExtents{2, 64, 768, 128});

}  // namespace
}  // namespace tessera::testing

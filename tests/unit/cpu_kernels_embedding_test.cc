// Token and position embeddings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "support/expect_error.h"
#include "support/op_check.h"

namespace tessera {
namespace {

using namespace tessera::testing;

tsr_op token_op(int64_t batch, int64_t seq, int64_t embed, int64_t vocabulary) {
  const auto num_tokens = static_cast<double>(vocabulary);
  return segment_op(TSR_OP_TOKEN_EMBEDDING, TSR_PHASE_FORWARD,
                    {{TSR_DIM_BATCH, batch}, {TSR_DIM_SEQ, seq}, {TSR_DIM_EMBED, embed}, {TSR_DIM_VOCAB, vocabulary}},
                    {{TSR_ATTR_VOCAB_COUNT, num_tokens}, {TSR_ATTR_VOCAB_TOTAL, num_tokens}});
}

// A table of `num_rows` rows, the first of which are those of tokens begin to begin + count - 1.
tsr_op part_of(tsr_op op, int64_t num_rows, int64_t begin, int64_t count) {
  op.dims[TSR_DIM_VOCAB] = num_rows;
  op.attributes[TSR_ATTR_VOCAB_BEGIN] = static_cast<double>(begin);
  op.attributes[TSR_ATTR_VOCAB_COUNT] = static_cast<double>(count);
  return op;
}

tsr_op position_op(int64_t batch, int64_t seq, int64_t embed, int64_t positions) {
  return segment_op(
      TSR_OP_POSITION_EMBEDDING, TSR_PHASE_FORWARD,
      {{TSR_DIM_BATCH, batch}, {TSR_DIM_SEQ, seq}, {TSR_DIM_EMBED, embed}, {TSR_DIM_POSITIONS, positions}});
}

Operands token_operands(uint64_t num_tokens, uint64_t embed, int32_t vocabulary) {
  Operands operands;
  operands.floats[p(0)] = random_floats(static_cast<uint64_t>(vocabulary) * embed, 1);
  operands.tokens[in(0)] = random_tokens(num_tokens, vocabulary, 2);
  return operands;
}

TEST(TokenEmbedding, IsTheReference) {
  // Fewer tokens than rows, so that rows stay untouched; and more, so that rows are added to again and again.
  for (const auto& [seq, vocabulary] : {std::pair{5, 96}, std::pair{33, 7}}) {
    const tsr_op op = token_op(2, seq, 33, vocabulary);
    const Operands operands = token_operands(static_cast<uint64_t>(2 * seq), 33, vocabulary);
    check_forward(op, operands, {0.0});
    check_backward(op, operands);
  }
}

TEST(TokenEmbedding, AddsRowsInTheOrderOfTheTokens) {
  const uint64_t num_tokens = 40, embed = 130;
  tsr_op op = token_op(1, 40, 130, 3);
  op.phase = TSR_PHASE_BACKWARD;
  Operands operands = token_operands(num_tokens, embed, 3);
  operands.floats[dout(0)] = random_floats(num_tokens * embed, 5);
  std::vector<float> expected(3 * embed, 0.0f);
  for (size_t n = 0; n < num_tokens; ++n)
    for (size_t c = 0; c < embed; ++c)
      expected[static_cast<size_t>(operands.tokens[in(0)][n]) * embed + c] += operands.floats[dout(0)][n * embed + c];
  for (const int num_threads : {1, 3})
    EXPECT_EQ(run(op, operands, {.num_threads = num_threads, .gradient_mode = TSR_MODE_WRITE}).floats.at(g(0)),
              expected);
}

TEST(TokenEmbedding, RefusesTokensOutsideOfTheVocabulary) {
  for (const auto& [token, text] : {std::pair{7, "token 7 at position 3"}, std::pair{-1, "token -1 at position 3"}}) {
    Operands operands = token_operands(5, 4, 7);
    operands.tokens[in(0)][3] = token;
    operands.floats[dout(0)] = random_floats(20, 1);
    tsr_op op = token_op(1, 5, 4, 7);
    expect_error([&] { run(op, operands); }, {text, "[0, 7)"});
    op.phase = TSR_PHASE_BACKWARD;
    expect_error([&] { run(op, operands, {.gradient_mode = TSR_MODE_WRITE}); }, {text});
  }
}

TEST(TokenEmbedding, OfAPartOfTheVocabularyIsTheReference) {
  for (const auto& [num_rows, begin, count] : {std::tuple{6, 3, 4}, std::tuple{5, 0, 5}, std::tuple{3, 12, 0}}) {
    const tsr_op op = part_of(token_op(2, 19, 33, 11), num_rows, begin, count);
    Operands operands = token_operands(38, 33, 11);
    operands.floats[p(0)].resize(static_cast<size_t>(num_rows) * 33);
    check_forward(op, operands, {0.0});
    check_backward(op, operands);
  }
}

// The last part may have fewer tokens than rows, or none.
TEST(TokenEmbedding, PartsOfTheVocabularySumToTheWhole) {
  constexpr int64_t kEmbed = 5, kVocabulary = 23, kNumTokens = 40;
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16})
    for (const auto& [num_parts, num_rows] : {std::pair{1, 25}, {2, 12}, {3, 8}, {4, 6}, {4, 8}}) {
      tsr_op op = token_op(2, kNumTokens / 2, kEmbed, kVocabulary);
      op.dtype = dtype;
      Operands operands = token_operands(kNumTokens, kEmbed, kVocabulary);
      const std::vector<float> whole = run(op, operands).floats.at(out(0));
      operands.floats[dout(0)] = random_floats(kNumTokens * kEmbed, 5);
      op.phase = TSR_PHASE_BACKWARD;
      const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
      const std::vector<float> whole_gradient = run(op, operands, write).floats.at(g(0));

      std::vector<float> sum(whole.size()), gradient;
      std::vector<float> table = operands.floats.at(p(0));
      table.resize(static_cast<size_t>(num_parts * num_rows * kEmbed));
      for (int64_t part = 0; part < num_parts; ++part) {
        const int64_t begin = part * num_rows, count = std::clamp<int64_t>(kVocabulary - begin, 0, num_rows);
        tsr_op local = part_of(op, num_rows, begin, count);
        Operands part_operands = operands;
        part_operands.floats[p(0)].assign(table.begin() + begin * kEmbed, table.begin() + (begin + num_rows) * kEmbed);
        local.phase = TSR_PHASE_FORWARD;
        const std::vector<float> rows = run(local, part_operands).floats.at(out(0));
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] += rows[i];
        local.phase = TSR_PHASE_BACKWARD_WEIGHT;
        const std::vector<float> part_gradient = run(local, part_operands, write).floats.at(g(0));
        gradient.insert(gradient.end(), part_gradient.begin(), part_gradient.end());
      }
      EXPECT_EQ(sum, whole);
      for (auto padding = gradient.begin() + kVocabulary * kEmbed; padding != gradient.end(); ++padding)
        EXPECT_EQ(*padding, 0.0f);
      gradient.resize(whole_gradient.size());
      EXPECT_EQ(gradient, whole_gradient);
    }
}

TEST(TokenEmbedding, RefusesPartsThatAreNone) {
  const tsr_op op = token_op(1, 5, 4, 7);
  const auto refuse = [](const tsr_op& wrong, const char* text) {
    expect_error([&] { cpu::compute_ops(wrong.kind)->describe(wrong); }, {"op 1 ", text, "table of 6 rows"});
  };
  refuse(part_of(op, 6, 0, 7), "VOCAB_COUNT 7");
  refuse(part_of(op, 6, 3, 5), "VOCAB_BEGIN 3");
  refuse(part_of(op, 6, -1, 5), "VOCAB_BEGIN -1");
  for (const auto& [attribute, value, text] : {std::tuple{TSR_ATTR_VOCAB_COUNT, 2.5, "VOCAB_COUNT 2.5"},
                                               {TSR_ATTR_VOCAB_TOTAL, 0.0, "VOCAB_TOTAL 0"},
                                               {TSR_ATTR_VOCAB_BEGIN, std::nan(""), "VOCAB_BEGIN nan"}}) {
    tsr_op wrong = part_of(op, 6, 0, 0);
    wrong.attributes[attribute] = value;
    refuse(wrong, text);
  }
}

TEST(PositionEmbedding, IsTheReference) {
  for (const auto& [seq, positions] : {std::pair{5, 5}, std::pair{33, 64}}) {
    const auto elements = static_cast<uint64_t>(3 * seq * 7);
    Operands operands;
    operands.floats[p(0)] = random_floats(static_cast<uint64_t>(positions) * 7, 1);
    operands.floats[in(0)] = random_floats(elements, 2);
    check_forward(position_op(3, seq, 7, positions), operands);
    check_backward(position_op(3, seq, 7, positions), operands);
  }
}

TEST(PositionEmbedding, RefusesASequenceLongerThanItsTable) {
  const tsr_op op = position_op(1, 9, 4, 8);
  expect_error([&] { cpu::compute_ops(op.kind)->describe(op); }, {"9 tokens", "8 positions"});
}

TEST(EmbeddingReference, GradientsAreNumericalOnes) {
  check_reference(token_op(1, 5, 3, 4), token_operands(5, 3, 4));
  Operands operands;
  operands.floats[p(0)] = random_floats(12, 1);
  operands.floats[in(0)] = random_floats(18, 2);
  check_reference(position_op(2, 3, 3, 4), operands);
}

}  // namespace
}  // namespace tessera

// Token and position embeddings.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/op_check.h"

namespace tessera {
namespace {

using namespace tessera::testing;

tsr_op token_op(int64_t batch, int64_t seq, int64_t embed, int64_t vocabulary) {
  return segment_op(TSR_OP_TOKEN_EMBEDDING, TSR_PHASE_FORWARD,
                    {{TSR_DIM_BATCH, batch}, {TSR_DIM_SEQ, seq}, {TSR_DIM_EMBED, embed}, {TSR_DIM_VOCAB, vocabulary}});
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

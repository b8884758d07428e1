#include "support/op_cases.h"

#include <algorithm>
#include <cmath>

#include "support/device_ops.h"

namespace tessera::testing {
namespace {

uint64_t product(std::initializer_list<int64_t> extents) {
  uint64_t n = 1;
  for (const int64_t extent : extents)
    n *= static_cast<uint64_t>(extent);
  return n;
}

std::map<int, double> attributes_of(const TokenExtents& e) {
  return {{TSR_ATTR_VOCAB_BEGIN, static_cast<double>(e.begin)},
          {TSR_ATTR_VOCAB_COUNT, static_cast<double>(e.count)},
          {TSR_ATTR_VOCAB_TOTAL, static_cast<double>(e.total)}};
}

tsr_op split_op(uint32_t kind, uint32_t phase, const TokenExtents& e) {
  tsr_op op = segment_op(
      kind, phase,
      {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_EMBED, e.embed}, {TSR_DIM_VOCAB, e.num_rows}},
      attributes_of(e));
  op.attributes[TSR_ATTR_SCALE] = 1.0 / 37.0;
  return known_part(op);
}

// Logits of one part, and a maximum as those of the other parts leave it.
Operands logits_operands(const TokenExtents& e) {
  const uint64_t num_tokens = product({e.batch, e.seq});
  Operands operands;
  operands.floats[in(0)] = random_floats(num_tokens * product({e.num_rows}), 3, 6.0f);
  operands.floats[in(1)] = std::vector<float>(num_tokens, 6.25f);
  operands.tokens[in(2)] = operands.tokens[in(4)] = random_tokens(num_tokens, static_cast<int32_t>(e.total), 4);
  return operands;
}

// Inputs of a head: its logits are of about the same size whatever the width, so that rounding them to 16 bits changes
// the softmax by a few roundoffs only.
std::vector<float> head_inputs(uint64_t num_rows, int64_t embed) {
  const double scale = std::min(1.0, std::sqrt(48.0 / static_cast<double>(embed)));
  return random_floats(num_rows * product({embed}), 2, static_cast<float>(scale));
}

}  // namespace

OpCase token_embedding_case(const TokenExtents& e) {
  OpCase c{segment_op(
               TSR_OP_TOKEN_EMBEDDING, TSR_PHASE_FORWARD,
               {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_EMBED, e.embed}, {TSR_DIM_VOCAB, e.num_rows}},
               attributes_of(e)),
           {}};
  c.operands.floats[p(0)] = random_floats(product({e.num_rows, e.embed}), 1);
  c.operands.tokens[in(0)] = random_tokens(product({e.batch, e.seq}), static_cast<int32_t>(e.total), 2);
  return c;
}

OpCase token_embedding_case(int64_t batch, int64_t seq, int64_t embed, int64_t vocabulary) {
  return token_embedding_case({batch, seq, embed, vocabulary, 0, vocabulary, vocabulary});
}

OpCase position_embedding_case(const PositionExtents& e) {
  OpCase c{
      segment_op(
          TSR_OP_POSITION_EMBEDDING, TSR_PHASE_FORWARD,
          {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_EMBED, e.embed}, {TSR_DIM_POSITIONS, e.positions}},
          {{TSR_ATTR_ROW_BEGIN, static_cast<double>(e.row_begin)},
           {TSR_ATTR_ROW_PERIOD, static_cast<double>(e.row_period)}}),
      {}};
  c.operands.floats[p(0)] = random_floats(product({e.positions, e.embed}), 1);
  c.operands.floats[in(0)] = random_floats(product({e.batch, e.seq, e.embed}), 2);
  return c;
}

OpCase norm_case(uint32_t kind, const NormExtents& e) {
  OpCase c{known_part(segment_op(kind, TSR_PHASE_FORWARD,
                                 {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_EMBED, e.embed}},
                                 {{TSR_ATTR_EPSILON, 1e-5}})),
           {}};
  for (const uint32_t i : {0u, 1u, 2u})
    c.operands.floats[p(i)] = random_floats(product({e.embed}), i);
  for (const uint32_t i : {0u, 1u}) {
    c.operands.floats[in(i)] = random_floats(product({e.batch, e.seq, e.embed}), 10 + i, 3.0f);
    for (float& x : c.operands.floats[in(i)])
      x += 1.5f;
  }
  return c;
}

OpCase linear_case(const LinearExtents& e) {
  OpCase c{segment_op(TSR_OP_LINEAR, TSR_PHASE_FORWARD,
                      {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_IN, e.in}, {TSR_DIM_OUT, e.out}},
                      {{TSR_ATTR_ACTIVATION, e.activation}, {TSR_ATTR_HAS_BIAS, e.has_bias ? 1.0 : 0.0}}),
           {}};
  c.operands.floats[p(0)] = random_floats(product({e.in, e.out}), 1, 0.5f);
  if (e.has_bias) c.operands.floats[p(1)] = random_floats(product({e.out}), 2);
  c.operands.floats[in(0)] = random_floats(product({e.batch, e.seq, e.in}), 3, 2.0f);
  return c;
}

OpCase attention_case(const AttentionExtents& e, float scale) {
  OpCase c{
      segment_op(
          TSR_OP_ATTENTION, TSR_PHASE_FORWARD,
          {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_HEADS, e.heads}, {TSR_DIM_HEAD_DIM, e.head_dim}}),
      {}};
  c.operands.floats[in(0)] = random_floats(product({e.batch, e.seq, 3, e.heads, e.head_dim}), 1, scale);
  return c;
}

OpCase loss_case(const LossExtents& e) {
  OpCase c{
      segment_op(
          TSR_OP_LOSS, TSR_PHASE_BACKWARD,
          {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_EMBED, e.embed}, {TSR_DIM_VOCAB, e.vocabulary}},
          {{TSR_ATTR_SCALE, 1.0 / 37.0}}),
      {}};
  c.operands.floats[p(0)] = random_floats(product({e.vocabulary, e.embed}), 1);
  c.operands.floats[in(0)] = head_inputs(product({e.batch, e.seq}), e.embed);
  c.operands.tokens[in(1)] = random_tokens(product({e.batch, e.seq}), static_cast<int32_t>(e.vocabulary), 3);
  return c;
}

OpCase cross_entropy_case(const ClassExtents& e) {
  OpCase c{segment_op(TSR_OP_CROSS_ENTROPY, TSR_PHASE_BACKWARD,
                      {{TSR_DIM_BATCH, e.batch}, {TSR_DIM_SEQ, e.seq}, {TSR_DIM_CLASSES, e.classes}},
                      {{TSR_ATTR_SCALE, 1.0 / 37.0}}),
           {}};
  c.operands.floats[in(0)] = random_floats(product({e.batch, e.seq, e.classes}), 1, 3.0f);
  c.operands.tokens[in(1)] = random_tokens(product({e.batch, e.seq}), static_cast<int32_t>(e.classes), 2);
  return c;
}

OpCase head_logits_case(const TokenExtents& e) {
  OpCase c{split_op(TSR_OP_HEAD_LOGITS, TSR_PHASE_FORWARD, e), {}};
  c.operands.floats[p(0)] = random_floats(product({e.count, e.embed}), 1);
  c.operands.floats[p(0)].resize(product({e.num_rows, e.embed}));
  c.operands.floats[in(0)] = head_inputs(product({e.batch, e.seq}), e.embed);
  return c;
}

OpCase softmax_stats_case(const TokenExtents& e) {
  return {split_op(TSR_OP_SOFTMAX_STATS, TSR_PHASE_FORWARD, e), logits_operands(e)};
}

OpCase loss_grad_case(const TokenExtents& e) {
  OpCase c{split_op(TSR_OP_LOSS_GRAD, TSR_PHASE_BACKWARD, e), logits_operands(e)};
  const uint64_t num_tokens = product({e.batch, e.seq});
  c.operands.floats[in(2)] = random_floats(num_tokens, 5, 3.0f);
  for (float& sum : c.operands.floats[in(2)])
    sum += 4.0f;
  c.operands.floats[in(3)] = random_floats(num_tokens, 6, 6.0f);
  return c;
}

}  // namespace tessera::testing

// The table of ops: what is read of an entry, and what follows for slots and costs.
#include "tessera/op_table.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tessera/op_slots.hpp"

namespace tessera::op {
namespace {

constexpr OpEntry parse(std::string_view text) {
  return op_text::Parser(77, "AN_OP", text).parse();
}

tsr_op op_of(uint32_t kind, uint32_t phase) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.phase = phase;
  op.dtype = op.gradient_dtype = TSR_F32;
  for (int64_t& extent : op.dims)
    extent = 2 + (&extent - op.dims);
  op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] = 1;
  return op;
}

std::string names_of(const SlotList& slots) {
  std::string names;
  for (const tsr_slot_spec& slot : slots)
    names += (names.empty() ? "" : " ") + slot_name(slot.slot) + (slot.flags & TSR_SLOT_OPTIONAL ? "?" : "");
  return names;
}

TEST(OpTable, HasEveryOpOnceUnderItsName) {
  for (const OpEntry& entry : kOps) {
    EXPECT_EQ(find_op(entry.kind), &entry) << entry.kind << " is there twice";
    EXPECT_EQ(op_name(entry.kind), entry.name());
  }
  EXPECT_EQ(op_name(TSR_OP_CROSS_ENTROPY), "cross_entropy");
  EXPECT_EQ(op_name(TSR_OP_ADAMW), "adamw");
  EXPECT_EQ(find_op(0), nullptr);
  EXPECT_EQ(op_name(31000), "of unknown kind 31000");
}

TEST(OpTable, NamesTheDimOfAnExtentThatIsTooSmall) {
  tsr_op op = op_of(TSR_OP_LAYER_NORM, TSR_PHASE_FORWARD);
  op.dims[TSR_DIM_EMBED] = 0;
  testing::expect_error([&] { extent(op, TSR_DIM_EMBED); },
                        {"op layer_norm has extent 0 in dim embed; it must be at least 1"});
  op.dims[TSR_DIM_ELEMENTS] = -3;
  testing::expect_error([&] { num_elements(op); }, {"has extent -3 in dim elements; it must be at least 0"});
}

TEST(OpTable, HasTheAttributesAndDimsOfAnEntry) {
  constexpr OpEntry entry =
      parse("p0?has_bias[3*H*D] i0[B] -> o0[B]=sum(B) ; begin V ; with epsilon scale ; weight do0!activation");
  EXPECT_EQ(entry.dims, 1u << TSR_DIM_HEADS | 1u << TSR_DIM_HEAD_DIM | 1u << TSR_DIM_BATCH);
  EXPECT_EQ(entry.attributes, 1u << TSR_ATTR_HAS_BIAS | 1u << TSR_ATTR_ACTIVATION | 1u << TSR_ATTR_EPSILON |
                                  1u << TSR_ATTR_SCALE | 1u << TSR_ATTR_VOCAB_BEGIN | 1u << TSR_ATTR_VOCAB_COUNT |
                                  1u << TSR_ATTR_VOCAB_TOTAL);
  constexpr OpEntry step = parse("with max_norm arrivals");
  EXPECT_EQ(step.dims, 1u << TSR_DIM_ELEMENTS);
  EXPECT_EQ(step.attributes, 1u << TSR_ATTR_MAX_NORM | 1u << TSR_ATTR_ARRIVALS);
  EXPECT_FALSE(step.is_segment_op());
  EXPECT_EQ(find_op(TSR_OP_ZERO)->attributes, 0u);
}

TEST(OpTable, ReadsOperandsInTheOrderOfTheirSlots) {
  constexpr OpEntry entry = parse("i0![B,T]:tokens p1?has_bias[O] -> o0?[3*H*D]=max(V) ; keep s0[B]:f32 ; cost 6 B O");
  ASSERT_EQ(entry.operands.count, 4u);
  const OperandEntry &p1 = entry.operands.items[0], &i0 = entry.operands.items[1], &o0 = entry.operands.items[2];
  EXPECT_EQ(p1.role, TSR_ROLE_PARAMETER);
  EXPECT_EQ(p1.exists.attribute, TSR_ATTR_HAS_BIAS);
  EXPECT_FALSE(i0.has_gradient);
  EXPECT_EQ(i0.type, OperandType::int32);
  EXPECT_EQ(o0.factor, 3u);
  EXPECT_TRUE(o0.dims.contains(TSR_DIM_HEADS) && o0.dims.contains(TSR_DIM_HEAD_DIM));
  EXPECT_TRUE(o0.may_be_left_out);
  EXPECT_EQ(entry.contracted, TSR_DIM_VOCAB);
  EXPECT_EQ(entry.reduce, TSR_REDUCE_MAX);
  EXPECT_EQ(entry.operands.items[3].type, OperandType::float32);
  EXPECT_EQ(entry.backward, Backward::none);
}

TEST(OpTable, SaysWhatEachHalfReads) {
  tsr_op op = op_of(TSR_OP_LINEAR, TSR_PHASE_BACKWARD_INPUT);
  EXPECT_EQ(names_of(slots_of(op)), "p0 do0 di0?");
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  EXPECT_EQ(names_of(slots_of(op)), "i0 do0 g0?");
  op.attributes[TSR_ATTR_ACTIVATION] = TSR_ACTIVATION_RELU;
  op.attributes[TSR_ATTR_HAS_BIAS] = 1;
  EXPECT_EQ(names_of(slots_of(op)), "i0 g0? g1?") << "the input half leaves the activation's gradient in its context";
  op.phase = TSR_PHASE_BACKWARD_INPUT;
  EXPECT_EQ(names_of(slots_of(op)), "p0 s0 do0 di0?");
  op.phase = TSR_PHASE_FORWARD;
  EXPECT_EQ(names_of(slots_of(op)), "p0 p1 i0 o0? s0?");
}

TEST(OpTable, LeavesOutGradientsThatAreAnAlias) {
  EXPECT_EQ(names_of(slots_of(op_of(TSR_OP_ADD, TSR_PHASE_BACKWARD))), "do0 di0? g0?");
  EXPECT_EQ(names_of(slots_of(op_of(TSR_OP_ATTENTION, TSR_PHASE_BACKWARD_WEIGHT))), "");
}

TEST(OpTable, ListsTheScalarsOfALoss) {
  EXPECT_EQ(names_of(slots_of(op_of(TSR_OP_LOSS_GRAD, TSR_PHASE_FORWARD))), "i1 i2 i3 x1");
  EXPECT_EQ(names_of(slots_of(op_of(TSR_OP_CROSS_ENTROPY, TSR_PHASE_FORWARD))), "i0 i1 x1 x6?");
  EXPECT_EQ(names_of(slots_of(op_of(TSR_OP_CROSS_ENTROPY, TSR_PHASE_BACKWARD))), "i0 i1 x1 x6? x5? di0?");
}

TEST(OpTable, CountsOperations) {
  const tsr_op forward = op_of(TSR_OP_LINEAR, TSR_PHASE_FORWARD);
  const auto extent = [&](uint32_t dim) { return static_cast<double>(forward.dims[dim]); };
  const double tokens = extent(TSR_DIM_BATCH) * extent(TSR_DIM_SEQ);
  const double expected = 2 * tokens * extent(TSR_DIM_IN) * extent(TSR_DIM_OUT);
  EXPECT_EQ(find_op(TSR_OP_LINEAR)->operations(forward), expected);
  EXPECT_EQ(find_op(TSR_OP_LINEAR)->operations(op_of(TSR_OP_LINEAR, TSR_PHASE_BACKWARD)), 2 * expected);
  EXPECT_EQ(find_op(TSR_OP_LINEAR)->operations(op_of(TSR_OP_LINEAR, TSR_PHASE_BACKWARD_INPUT)), expected);
  const double loss = 2 * tokens * extent(TSR_DIM_EMBED) * extent(TSR_DIM_VOCAB);
  EXPECT_EQ(find_op(TSR_OP_LOSS)->operations(op_of(TSR_OP_LOSS, TSR_PHASE_BACKWARD)), 3 * loss)
      << "it makes its logits there";
  EXPECT_EQ(find_op(TSR_OP_ADD)->operations(op_of(TSR_OP_ADD, TSR_PHASE_FORWARD)), 0);
}

TEST(OpTable, SaysWhatMultipliesByParametersAndWhatIsTheTail) {
  std::string products, tail, losses;
  for (const OpEntry& entry : kOps) {
    if (entry.multiplies_by_parameters()) products += std::string(entry.name()) + " ";
    if (entry.is_tail) tail += std::string(entry.name()) + " ";
    if (entry.makes_loss()) losses += std::string(entry.name()) + " ";
  }
  EXPECT_EQ(products, "linear loss head_logits ");
  EXPECT_EQ(tail, "loss head_logits softmax_stats loss_grad cross_entropy ");
  EXPECT_EQ(losses, "loss loss_grad cross_entropy ");
}

}  // namespace
}  // namespace tessera::op

#include <iterator>
#include <sstream>

#include "support/device_runner.h"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

std::string kind_name(uint32_t kind) {
  static constexpr std::pair<uint32_t, const char*> kNames[] = {{TSR_OP_TOKEN_EMBEDDING, "TOKEN_EMBEDDING"},
                                                                {TSR_OP_POSITION_EMBEDDING, "POSITION_EMBEDDING"},
                                                                {TSR_OP_LAYER_NORM, "LAYER_NORM"},
                                                                {TSR_OP_LINEAR, "LINEAR"},
                                                                {TSR_OP_ATTENTION, "ATTENTION"},
                                                                {TSR_OP_ADD_LAYER_NORM, "ADD_LAYER_NORM"},
                                                                {TSR_OP_ADD, "ADD"},
                                                                {TSR_OP_LOSS, "LOSS"},
                                                                {TSR_OP_HEAD_LOGITS, "HEAD_LOGITS"},
                                                                {TSR_OP_SOFTMAX_STATS, "SOFTMAX_STATS"},
                                                                {TSR_OP_LOSS_GRAD, "LOSS_GRAD"},
                                                                {TSR_OP_COPY, "COPY"},
                                                                {TSR_OP_CAST, "CAST"},
                                                                {TSR_OP_ADD_INTO, "ADD_INTO"},
                                                                {TSR_OP_SCALE, "SCALE"},
                                                                {TSR_OP_ZERO, "ZERO"},
                                                                {TSR_OP_SUM_SQUARES, "SUM_SQUARES"},
                                                                {TSR_OP_CLIP, "CLIP"},
                                                                {TSR_OP_ADAMW, "ADAMW"},
                                                                {TSR_OP_SGD, "SGD"}};
  for (const auto& [value, name] : kNames)
    if (value == kind) return name;
  return "op " + std::to_string(kind);
}

constexpr const char* kPhases[] = {"", " forward", " backward", " backward_input", " backward_weight"};
constexpr const char* kDims[TSR_NUM_DIMS] = {"BATCH", "SEQ", "HEADS", "HEAD_DIM",  "EMBED",
                                             "IN",    "OUT", "VOCAB", "POSITIONS", "ELEMENTS"};
constexpr const char* kAttributes[TSR_NUM_ATTRIBUTES] = {"EPSILON",     "ACTIVATION",  "HAS_BIAS",  "SCALE",
                                                         "MAX_NORM",    "BETA1",       "BETA2",     "VOCAB_BEGIN",
                                                         "VOCAB_COUNT", "VOCAB_TOTAL", "ROW_BEGIN", "ROW_PERIOD"};

}  // namespace

std::string op_text(const tsr_op& op) {
  std::ostringstream text;
  text << kind_name(op.kind) << (op.phase < std::size(kPhases) ? kPhases[op.phase] : " ?") << ' '
       << op::dtype_name(op.dtype) << " {";
  const char* separator = "";
  const auto item = [&](const char* name, auto value) {
    if (!name || value == 0) return;
    text << std::exchange(separator, ", ") << name << ' ' << value;
  };
  for (int i = 0; i < TSR_NUM_DIMS; ++i)
    item(kDims[i], op.dims[i]);
  for (int i = 0; i < TSR_NUM_ATTRIBUTES; ++i)
    item(kAttributes[i], op.attributes[i]);
  text << '}';
  return text.str();
}

}  // namespace tessera::testing

#include <iterator>
#include <sstream>
#include <utility>

#include "support/device_runner.h"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

constexpr const char* kPhases[] = {"", " forward", " backward", " backward_input", " backward_weight"};
constexpr const char* kDims[TSR_NUM_DIMS] = {"BATCH", "SEQ",   "HEADS",     "HEAD_DIM", "EMBED",  "IN",
                                             "OUT",   "VOCAB", "POSITIONS", "ELEMENTS", "CLASSES"};
constexpr const char* kAttributes[TSR_NUM_ATTRIBUTES] = {
    "EPSILON",     "ACTIVATION",  "HAS_BIAS",    "SCALE",     "MAX_NORM",   "BETA1",   "BETA2",
    "VOCAB_BEGIN", "VOCAB_COUNT", "VOCAB_TOTAL", "ROW_BEGIN", "ROW_PERIOD", "ARRIVALS"};

}  // namespace

std::string op_text(const tsr_op& op) {
  std::ostringstream text;
  text << op::op_name(op.kind) << (op.phase < std::size(kPhases) ? kPhases[op.phase] : " ?") << ' '
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

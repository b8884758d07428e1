// Abstract interpretation of a program for one axis: each action is applied to meanings instead of numbers. The rules
// are in four files: meaning_compute (axes that split the batch or the layers), meaning_tensor, meaning_collective,
// meaning_step (elementwise, norm, optimizer). What has caused a finding becomes unknown, which fits everything, so a
// fault is reported once and not for each action after it.

#include "verify/meaning_rules.h"

namespace tessera::host {

MeaningRules::MeaningRules(const Program& program, int axis, MeaningMap& meanings, FindingList& findings)
    : program_(program),
      axis_(axis),
      axis_name_(program.mesh->axes()[axis].name),
      splits_(program.mesh->axes()[axis].splits),
      staged_(program),
      meanings_(meanings),
      findings_(findings) {}

void MeaningRules::apply(size_t index) {
  index_ = index;
  action_ = &program_.actions[index];
  if (is_compute(action_->kind)) return compute();
  if (is_collective(action_->kind)) return collective();
  if (is_elementwise(action_->kind)) return elementwise();
  switch (action_->kind) {
    case TSR_ACTION_SUM_SQUARES:
      return sum_squares();
    case TSR_ACTION_CLIP:
      return clip();
    case TSR_ACTION_OPTIMIZER:
      return optimizer();
    default:
      return call();
  }
}

void MeaningRules::report(const std::string& what) {
  findings_.add(action_text(program_, index_) + " " + what);
}

std::string MeaningRules::text(const Binding& binding, const Meaning& meaning) const {
  return slot_text(program_, *action_, binding.slot) + " = " + range_text(program_, binding) + ", which is " +
         meaning_text(meaning, axis_name_);
}

bool MeaningRules::expect(const Binding& binding, uint32_t allowed, const std::string& why) {
  for (const MeaningPart& part : meanings_.read(binding)) {
    if (part.meaning.is_neutral() || (allowed & bit(part.meaning.state))) continue;
    report("takes " + text(binding, part.meaning) + ": " + why);
    meanings_.write(binding, Meaning{});
    return false;
  }
  return true;
}

void MeaningRules::expect_unscaled(const Binding& binding) {
  for (const MeaningPart& part : meanings_.read(binding)) {
    if (part.meaning.is_neutral() || !part.meaning.is_scaled()) continue;
    report("takes " + text(binding, part.meaning) + ": the loss is scaled once, strategies only sum");
    return meanings_.write(binding, Meaning{});
  }
}

void MeaningRules::put(const Binding& binding, const Meaning& meaning) {
  put(binding, MeaningParts{{0, binding.num_elements, meaning}});
}

void MeaningRules::put(const Binding& binding, const MeaningParts& parts) {
  if (binding.mode != TSR_MODE_ADD) return meanings_.write(binding, parts);
  MeaningParts sums;
  for (const MeaningPair& pair : zip(meanings_.read(binding), parts)) {
    const auto sum = meaning_of_sum(pair.first, pair.second);
    if (!sum) {
      report("adds what is " + meaning_text(pair.second, axis_name_) + " to " + text(binding, pair.first) +
             ": the sum means nothing");
      return meanings_.write(binding, Meaning{});
    }
    sums.push_back({pair.offset, pair.num_elements, *sum});
  }
  meanings_.write(binding, sums);
}

}  // namespace tessera::host

// What each kind of action does to meanings on one axis, and what it may not do.
#pragma once

#include <string>

#include "passes/staging.h"
#include "program/collective_form.h"
#include "verify/findings.h"
#include "verify/meaning.h"

namespace tessera::host {

class SegmentCut;

inline bool is_output(const Binding& binding) {
  return binding.mode != TSR_MODE_READ;
}
inline bool has_role(const Binding& binding, uint32_t role) {
  return TSR_SLOT_ROLE(binding.slot) == role;
}

/// Walks a program's list for one axis. `meanings` holds what is known before the first action.
class MeaningRules {
 public:
  MeaningRules(const Program& program, int axis, MeaningMap& meanings, FindingList& findings);
  void apply(size_t index);

 private:
  // A set of states, as bits.
  static constexpr uint32_t bit(State state) { return 1u << static_cast<uint32_t>(state); }

  // What every rule uses.
  void report(const std::string& what);
  std::string text(const Binding& binding, const Meaning& meaning) const;
  /// One finding unless all of the range fits `allowed`; then the range is unknown, so that each fault is told once.
  bool expect(const Binding& binding, uint32_t allowed, const std::string& why);
  void expect_unscaled(const Binding& binding);
  /// A *write* sets, an *add* sums; a sum without meaning is a finding.
  void put(const Binding& binding, const Meaning& meaning);
  void put(const Binding& binding, const MeaningParts& parts);

  // Compute: by what the axis splits.
  void compute();
  void compute_on_batch_axis();
  void compute_on_layer_axis();
  void compute_on_tensor_axis();
  bool take_on_tensor_axis(const SegmentCut& cut, const Binding& binding);
  State state_on_tensor_axis(const SegmentCut& cut, const Binding& binding, bool on_parts) const;
  int parameter_at(const Binding& binding) const;

  // Collectives: on this axis, and on others (where meanings are carried along).
  void collective();
  bool leaves_out_ranks(const CollectiveForm& form) const;
  MeaningParts reduced(const CollectiveForm& form, State result);
  void reduce_on_axis(const CollectiveForm& form);
  void gather_on_axis(const CollectiveForm& form);
  void broadcast_on_axis(const CollectiveForm& form);
  void transpose_on_axis(const CollectiveForm& form);
  void carry(const CollectiveForm& form);
  void carry_gather(const CollectiveForm& form);
  void messages();

  // Elementwise and step.
  void elementwise();
  void sum_squares();
  void clip();
  void optimizer();
  State updated_state(const Binding& value, const MeaningPair& pair, State moments, bool clips_alike);
  void call();

  const Program& program_;
  const int axis_;
  const std::string axis_name_;
  const uint32_t splits_;
  const StagedRanges staged_;
  MeaningMap& meanings_;
  FindingList& findings_;
  size_t index_ = 0;
  const Action* action_ = nullptr;
};

}  // namespace tessera::host

// What each kind of action does to placements on one axis, and what it must not do. Implemented in placement_rules.cc
// and the *_rules.cc beside it.
#pragma once

#include <string>
#include <string_view>

#include "passes/host_staging.h"
#include "program/collective_operands.h"
#include "verify/diagnostics.h"
#include "verify/placement/placement.h"

namespace tessera::host {

class SegmentCut;

inline bool is_output(const Binding& binding) {
  return binding.mode != TSR_MODE_READ;
}
inline bool has_role(const Binding& binding, uint32_t role) {
  return TSR_SLOT_ROLE(binding.slot) == role;
}

/// A set of kinds, as bits.
constexpr uint32_t bit(PlacementKind kind) {
  return 1u << static_cast<uint32_t>(kind);
}
inline constexpr uint32_t kCodes = bit(PlacementKind::encoded) | bit(PlacementKind::gathered) |
                                   bit(PlacementKind::exchanged) | bit(PlacementKind::bound);
/// Of one rank's part of what is summed, or of which the minimum or maximum is taken.
inline constexpr uint32_t kOfParts = bit(PlacementKind::partial) | bit(PlacementKind::extremum);
/// Neither of one rank's part nor codes of addends.
inline constexpr uint32_t kComplete = ~(kOfParts | kCodes);

/// Walks a program's list for one axis. `placements` are those before the first action.
class PlacementRules {
 public:
  PlacementRules(const Program& program, int axis, PlacementMap& placements, DiagnosticList& diagnostics);
  void apply(size_t index);

 private:
  // Used by every rule.
  void report(const std::string& what);
  std::string text(const Binding& binding, const Placement& placement) const;
  /// One diagnostic unless the whole range fits `allowed`; the range is then unknown, so that each fault is reported
  /// once.
  bool expect(const Binding& binding, uint32_t allowed, std::string_view why);
  void expect_unscaled(const Binding& binding, std::string_view why);
  /// A *write* sets, an *add* sums; a sum without a placement is a diagnostic.
  void put(const Binding& binding, const Placement& placement);
  void put(const Binding& binding, const PlacementParts& parts);

  // Compute, depending on what the axis splits.
  void compute();
  void compute_on_batch_axis();
  void compute_on_layer_axis();
  void compute_on_tensor_axis();
  bool take_on_tensor_axis(const SegmentCut& cut, const Binding& binding);
  PlacementKind placement_on_tensor_axis(const SegmentCut& cut, const Binding& binding, bool on_parts) const;
  int parameter_at(const Binding& binding) const;

  // Collectives on this axis, and on others (which carry placements along).
  void collective();
  Binding copied_of(Binding range) const;
  bool leaves_out_ranks(const CollectiveOperands& form) const;
  PlacementParts reduced(const CollectiveOperands& form, PlacementKind result);
  Binding gathered_slice(const CollectiveOperands& form) const;
  bool carry_code_on_axis(const CollectiveOperands& form);
  void write_codes(const CollectiveOperands& form, Placement codes);
  void refuse_received(const Binding& given);
  void expect_one_factor(const Binding& given);
  void reduce_on_axis(const CollectiveOperands& form);
  void gather_on_axis(const CollectiveOperands& form);
  void broadcast_on_axis(const CollectiveOperands& form);
  void transpose_on_axis(const CollectiveOperands& form);
  void carry(const CollectiveOperands& form);
  void carry_gather(const CollectiveOperands& form);
  void carry_transpose(const CollectiveOperands& form);
  void messages();

  // Elementwise and step.
  void elementwise();
  void sum_squares();
  void clip();
  void optimizer();
  PlacementKind updated_placement(const Binding& value, const PlacementPair& pair, PlacementKind moments,
                                  bool clips_alike);

  // Calls, of a strategy of this axis and of another one.
  void call();
  void call_of_another_axis();
  void encode();
  void decode();
  bool take_for_decoding(const Binding& binding, PlacementKind& result);
  bool takes_codes_of_all();
  PlacementParts operands_of_call() const;
  void put_results(const Placement& placement);

  const Program& program_;
  const int axis_;
  const std::string axis_name_;
  const uint32_t splits_;
  const StagedRanges staged_;
  PlacementMap& placements_;
  DiagnosticList& diagnostics_;
  size_t index_ = 0;
  const Action* action_ = nullptr;
};

}  // namespace tessera::host

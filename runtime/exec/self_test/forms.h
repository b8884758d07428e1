// The forms in which programs use collectives of all members, and probes of them.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "exec/self_test/probe.h"

namespace tessera::host {

/// How a program uses a collective. Not its size; nor whether it is in place, in which the members may differ.
struct CollectiveForm {
  uint32_t kind;  ///< TSR_COLL_*
  bool is_even;   ///< without counts
  tsr_dtype dtype;
  uint32_t reduce;  ///< TSR_REDUCE_*, or 0
  int root;         ///< -1: it has none

  auto operator<=>(const CollectiveForm&) const = default;
};

CollectiveForm form_of(const tsr_collective& collective);

/// The forms to be tested where programs use these, in an order that is the same on all members. Added are those that
/// reveal more: parts of unequal length, the last member as a root. Those that have no probe here, such as messages,
/// are left out, and of very many a selection is tested.
std::vector<CollectiveForm> tested_forms(const std::set<CollectiveForm>& used, int num_members);

/// A collective of a form, in place and not in place. Results are exact in the dtype but averages, which are compared
/// with a tolerance.
std::vector<Probe> form_probes(const CollectiveForm& form, const ProbedGroup& group);

}  // namespace tessera::host

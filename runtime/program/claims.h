// The capabilities that a communicator claims, and the check that programs use no others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/collective.h"

namespace tessera::host {

/// A copy of its tsr_comm_caps for the streams of one kind.
struct CommunicatorClaims {
  std::string name;    ///< of the plugin
  uint32_t flags = 0;  ///< TSR_COMM_*
  uint64_t collectives = 0, reduces = 0;
  std::vector<tsr_dtype> dtypes;

  bool sums_float32() const;
};

/// Asks for them; nothing, with the plugin's `reason`, if it does not take such streams. Throws UsageError for an
/// answer that claims nothing, contradicts itself or cannot be read.
std::optional<CommunicatorClaims> claims_on(const tsr_communicator_interface& communicator, const std::string& name,
                                            tsr_str stream_kind, std::string& reason);

/// Asks its describe(). Throws UsageError for a collective with a kind, reduction or dtype that it does not claim.
DescribeCollective describe_with(const tsr_communicator_interface* communicator, CommunicatorClaims claims);

}  // namespace tessera::host

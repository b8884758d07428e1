// What the actions of a program cost on a machine whose rates are known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/prediction/sharing.h"
#include "program/program.h"
#include "rates/rates.h"

namespace tessera::host {

/// Movement and staging are copies or files, by the memories that they connect; an op on a stream of the host is
/// `host`. Pure.
Resource resource_of(const Program& program, const Action& action);

/// Borrows `rates`, from which all follows.
class Costs {
 public:
  explicit Costs(const Rates& rates);

  /// Seconds that the action takes when nothing runs beside it. An op of a shape that was not measured takes as long
  /// for each operation (or byte, where it has no products) as the nearest that was. Throws INVALID_ARGUMENT for a
  /// program that uses copies, files or links when their rates are not known.
  double seconds(const Program& program, const Action& action) const;
  /// False for an op that was not measured in any shape: its seconds are by the average rate of the others.
  bool is_measured(const OpRate& op) const;
  /// The share of its speed that work keeps while all of `running` is at work on the same rank.
  double speed(Resource resource, const ResourceSet& running) const;

 private:
  double op_seconds(const OpRate& op) const;
  double collective_seconds(const Program& program, const Action& action) const;
  const CopyRates& copies() const;
  const CollectiveRates* collectives_of(int num_ranks) const;
  double nearest_seconds(const OpRate& op) const;
  const FileRates& files() const;

  const Rates& rates_;
  std::map<std::pair<std::string, std::string>, const OpRate*> exact_;  // by op and shape
  std::map<std::string, std::vector<const OpRate*>> by_op_;
  double operations_per_second_ = 0, bytes_per_second_ = 0;  // over all ops, for kinds that were not measured
};

}  // namespace tessera::host

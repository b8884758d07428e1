// What a range of a buffer holds, according to homes and compute actions: a parameter, a value, a gradient, a scalar.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "passes/host_staging.h"
#include "program/program.h"

namespace tessera::host {

/// The first known content of a range: its element `element` is at `position` of the range. Elements of a parameter are
/// those of the part that the rank has, from homes as from compute.
struct DataOrigin {
  /// TSR_ROLE_*: PARAMETER, GRADIENT, INPUT (a value), INPUT_GRADIENT (its gradient), SCALAR; 0: unknown.
  uint32_t role = 0;
  int index = -1;  ///< parameter, value, TSR_SCALAR_*
  int micro_batch = -1;
  uint64_t element = 0;
  uint64_t position = 0;

  bool is_known() const { return role != 0; }
  bool operator==(const DataOrigin&) const = default;
};

/// "the gradient of h.0.ln_1.weight", with "[5:]" or "(at 5)" when it does not begin there.
std::string origin_text(const Program& program, const DataOrigin& origin);

/// Looks up origins in one program, which must outlive this. Equal programs give equal origins.
class DataOrigins {
 public:
  explicit DataOrigins(const Program& program);
  /// The origin of a staging buffer is that of the range it is a copy of.
  DataOrigin of(const Binding& binding) const;

 private:
  struct Known {
    uint64_t end = 0;
    DataOrigin origin;  // of the range's first element
  };
  void learn(uint64_t buffer, uint64_t begin, uint64_t num_elements, const DataOrigin& origin);
  void learn_homes(const Program& program);
  void learn_action(const Program& program, const Action& action);

  StagedRanges staged_;
  std::map<uint64_t, std::map<uint64_t, Known>> known_;  // by buffer, by begin
};

}  // namespace tessera::host

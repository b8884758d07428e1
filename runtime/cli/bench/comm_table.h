// The report of `tessera bench comm`, with the columns of nccl-tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rates/collective_bench.h"

namespace tessera::host {

/// One line.
struct CommLine {
  std::string_view collective, dtype, reduce;  ///< reduce: empty if nothing is reduced
  uint64_t num_bytes = 0, num_elements = 0;
  CollectiveSeconds out_of_place;
  std::optional<CollectiveSeconds> in_place;
  double bus_factor = 1;
  uint64_t num_wrong = 0;              ///< elements, on all ranks
  std::optional<double> memory_share;  ///< fraction of memory bandwidth, of the faster of the two
};

std::string comm_header();
std::string comm_text(const CommLine& line);

}  // namespace tessera::host

// Times collectives, and checks their results.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rates/collective_group.h"

namespace tessera::host {

/// What one line of a report measures.
struct CollectiveCase {
  uint32_t kind = 0;       ///< TSR_COLL_*
  uint64_t num_bytes = 0;  ///< of the whole buffer, what all slices have together; a message: its own
  tsr_dtype dtype = TSR_F32;
  uint32_t reduce = TSR_REDUCE_SUM;  ///< of reductions
};

/// How often it is measured.
struct CollectiveRounds {
  int num_warmups = 5, num_measured = 20;
};

/// The median and the least of the measured collectives.
struct CollectiveSeconds {
  double median = 0, least = 0;
};

/// A kind and what is computed of it.
struct CollectiveKind {
  uint32_t kind;
  std::string_view name;  ///< as programs print it
  bool is_reduction;
  bool has_slices;  ///< each rank has one of n equal parts of the whole
};

/// All kinds, in the order of reports; SEND measures SEND and RECV.
std::span<const CollectiveKind> collective_kinds();

/// busbw / algbw: with this factor the rate is that of the busiest link, whatever the number of ranks (nccl-tests,
/// doc/PERFORMANCE.md). Pure.
double bus_factor(uint32_t kind, int num_ranks);
/// The minimum number of bytes that all ranks together read and write, per byte of the buffer, if each rank can access
/// the memory of the others and results are in place. Pure.
double memory_factor(uint32_t kind, int num_ranks);

/// Measures collectives of one group. All functions are collective over it. [control-thread]
class CollectiveBench {
 public:
  /// Allocates and fills buffers of that many bytes, for elements of `dtype`. Borrows the group.
  CollectiveBench(CollectiveGroup& group, uint64_t most_bytes, tsr_dtype dtype);

  /// Elements of the whole buffer: whole slices, at least one element each.
  uint64_t num_elements(const CollectiveCase& one) const;
  /// Elements of this rank's result that are wrong.
  uint64_t count_wrong(const CollectiveCase& one);
  /// Out of place, or in place where the two differ.
  CollectiveSeconds measure(const CollectiveCase& one, const CollectiveRounds& rounds, bool in_place);
  static bool can_be_in_place(uint32_t kind);

 private:
  using Clock = std::chrono::steady_clock;

  tsr_collective prepare(const CollectiveCase& one, bool in_place);
  std::function<int(uint64_t element)> expected(const CollectiveCase& one) const;
  std::optional<uint64_t> num_received(const CollectiveCase& one) const;
  std::vector<std::byte> encoded_numbers() const;
  void fill();

  CollectiveGroup& group_;
  const tsr_dtype dtype_;
  Arena send_, recv_;
  std::optional<Arena> workspace_;
  std::vector<tsr_transfer> transfers_;
};

}  // namespace tessera::host

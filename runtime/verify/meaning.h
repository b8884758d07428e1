// What the elements of buffers mean to the ranks of one axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/range_map.h"

namespace tessera::host {

enum class State : uint8_t {
  unknown,     ///< not written yet, or taken on trust: fits everything
  zero,        ///< fits everything
  replicated,  ///< the same on all ranks of the axis
  partial,     ///< each rank has an addend; their sum is meant
  split,       ///< each rank has another part
  different,   ///< each rank has its own, of equal standing: results of its own tokens, divergent parameters
};

/// A state, and what the elements have been multiplied with on the way.
struct Meaning {
  State state = State::unknown;
  double factor = 1;

  bool is_neutral() const { return state <= State::zero; }
  bool is_scaled() const { return factor < 1 - 1e-9 || factor > 1 + 1e-9; }
};

/// "the same on all ranks of dp", "a sum over dp that nothing has taken yet", ...
std::string meaning_text(const Meaning& meaning, const std::string& axis);

/// The meaning of a + b, or nothing when the sum has none: a partial sum and anything else, unequal factors.
std::optional<Meaning> meaning_of_sum(const Meaning& a, const Meaning& b);

/// A stretch of a binding: offset from the binding's start, elements, meaning.
struct MeaningPart {
  uint64_t offset = 0;
  uint64_t num_elements = 0;
  Meaning meaning;
};
using MeaningParts = std::vector<MeaningPart>;

/// The one meaning of all parts that are not neutral; unknown when there are several or none.
Meaning common_meaning(const MeaningParts& parts);
/// Those of [begin, end), moved to begin at 0.
MeaningParts slice(const MeaningParts& parts, uint64_t begin, uint64_t end);

/// Two lists over the same elements, cut at the ends of both.
struct MeaningPair {
  uint64_t offset = 0;
  uint64_t num_elements = 0;
  Meaning first, second;
};
std::vector<MeaningPair> zip(const MeaningParts& first, const MeaningParts& second);

/// The meanings of all elements of a program's buffers.
class MeaningMap {
 public:
  explicit MeaningMap(const Program& program);
  MeaningParts read(const Binding& range);
  void write(const Binding& range, const Meaning& meaning);
  void write(const Binding& range, const MeaningParts& parts);

 private:
  RangeMap<Meaning>& buffer(uint64_t id) { return buffers_[&program_.buffer(id) - program_.buffers.data()]; }

  const Program& program_;
  std::vector<RangeMap<Meaning>> buffers_;
};

State layout_state(const Program& program, int parameter, int axis, uint32_t role);

}  // namespace tessera::host

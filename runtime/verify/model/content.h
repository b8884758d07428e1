// What a range of a buffer holds, in the model's words: value numbers for verify_model.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/buffer_values.h"
#include "program/program.h"

namespace tessera::host {

enum class ContentKind : uint8_t {
  unknown,         ///< nothing that an action may need
  opaque,          ///< a call's result, of the used elements in `addends` (none: unknown): fits their parameters' needs
  zero,            ///< zeros
  kept,            ///< what a persistent buffer had before the program, by its place: `index` names the buffer
  state,           ///< of parameter `index`: its value or, by `role`, a state of the optimizer
  value,           ///< `index`, of a micro-batch
  value_gradient,  ///< of value `index`: the sum of `addends`
  gradient,        ///< of parameter `index`: the sum of `addends`
  saved,           ///< slot `part` that segment `index` saves for its backward
  context,         ///< slot `part` that the first half of a backward leaves for the second
  loss,            ///< the sum over the micro-batches in `addends`
  correct,         ///< the same of correct predictions
  squares,         ///< of the gradients of the homes in `addends`
  run_words,       ///< what ranks ask of one another
  scalar,          ///< TSR_SCALAR_* `index`
};

/// Contents are the same when all fields are. The element at position x of a range is `x + shift`.
struct Content {
  ContentKind kind = ContentKind::unknown;
  uint8_t version = 0;          ///< of states and scalars: 1 after the step's update
  bool is_rows = false;         ///< this rank's rows of a value that others have whole
  bool is_sum_rounded = false;  ///< `rounded` since it was last summed over ranks
  bool is_mean = false;  ///< of states that diverge: the average over all that they diverge on, not updated since
  uint32_t role = 0;     ///< TSR_HOME_*, of states
  int index = -1, part = -1, micro_batch = -1;
  uint32_t addends = 0;  ///< a set of AddendSets
  int64_t shift = 0;
  double factor = 1;      ///< by which SCALE and averages have multiplied gradients, and parameters that diverge
  tsr_dtype rounded = 0;  ///< the dtype of fewer than 32 bits that it went through; 0: none; kSeveralDtypes
  // Axes, as bits:
  uint32_t summed = 0;  ///< of a loss, correct predictions and gradients: over whose tokens it is summed
  uint32_t own = 0;     ///< of slices: over which each rank that is walked as one has its own there
  uint32_t local = 0;   ///< of states: over which these ranks have other elements there

  bool operator==(const Content&) const = default;
  /// Elements have places in the model; of the others every element is like the next. What a call has made has places in
  /// that.
  bool has_places() const { return kind > ContentKind::zero; }
  /// It is of a rank's own tokens: on ranks with others, nothing that an action may need.
  bool is_of_tokens() const {
    return kind == ContentKind::value || kind == ContentKind::value_gradient || kind == ContentKind::saved ||
           kind == ContentKind::context;
  }
  /// Of a parameter, named by itself or by its place.
  bool is_state() const { return kind == ContentKind::state || kind == ContentKind::kept; }
  /// Of elements of a parameter, so of a slice where parameters are sliced.
  bool is_sliced() const { return kind == ContentKind::gradient || kind == ContentKind::state; }
  /// It is stored in another dtype.
  void round_to(tsr_dtype dtype);
  /// Multiplies its factor; what comes to 1 but for rounding, as an average of n does by n, is 1.
  void scale_by(double by);
  Content moved_by(int64_t positions) const;  ///< as seen from a range that begins `positions` later
};

inline constexpr tsr_dtype kSeveralDtypes = UINT32_MAX;

/// A range from `offset` of a binding on; `content` counts from the binding's start.
struct ContentPart {
  uint64_t offset = 0, num_elements = 0;
  Content content;

  bool operator==(const ContentPart&) const = default;
};
/// Most ranges hold one thing, and a walk reads millions of them.
using ContentParts = boost::container::small_vector<ContentPart, 1>;

/// Appends; joins what continues the last part.
void append(ContentParts& parts, const ContentPart& part);
/// The parts of [begin, end), counted from `begin`.
ContentParts slice(const ContentParts& parts, uint64_t begin, uint64_t end);
/// What was rounded to `dtype` alone counts as exact: where its next reader reads that dtype, or may.
void accept_rounding(ContentParts& parts, tsr_dtype dtype);
/// Appends all of `more`, which begins at `at`.
void append_at(ContentParts& parts, uint64_t at, const ContentParts& more);

/// Elements of a parameter that a call has used.
struct UsedElements {
  static constexpr uint64_t kAll = UINT64_MAX;

  uint32_t parameter = 0;
  uint64_t begin = 0, end = kAll;
  auto operator<=>(const UsedElements&) const = default;
};

/// Sets of small numbers, each once, by an id: 0 is empty. Used elements have such numbers.
class AddendSets {
 public:
  AddendSets() { sets_.emplace_back(); }
  using Set = std::vector<uint32_t>;  ///< ascending
  uint32_t id_of(Set set);
  /// The set with one more; UINT32_MAX when it has it already.
  uint32_t with(uint32_t set, uint32_t addend);
  /// Both together; UINT32_MAX when they have an addend in common.
  uint32_t united(uint32_t a, uint32_t b);
  /// Both together, each once.
  uint32_t merged(uint32_t a, uint32_t b);
  const Set& set(uint32_t id) const { return sets_[id]; }
  uint32_t number_of(const UsedElements& used);
  const UsedElements& used(uint32_t number) const { return used_[number]; }

 private:
  std::vector<UsedElements> used_;
  std::map<UsedElements, uint32_t> numbers_;
  std::vector<Set> sets_;
  std::map<Set, uint32_t> ids_{{{}, 0}};
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> with_, united_;
};
inline constexpr uint32_t kTwice = UINT32_MAX;

/// What a strategy's own arithmetic makes of these ranges, each as an operand holds it.
Content made_of(const std::vector<ContentParts>& operands, AddendSets& sets);
/// What a sum is of which one is what a strategy has made.
Content sum_with_made(const Content& a, const Content& b, AddendSets& sets);

/// The contents of all elements of a program's buffers.
class ContentMap {
 public:
  explicit ContentMap(const Program& program) : values_(program) {}
  ContentParts read(const Binding& range);
  void write(const Binding& range, const Content& content);
  void write(const Binding& range, const ContentParts& parts);

 private:
  BufferValues<Content> values_;
};

/// "the gradient of h.0.ln_1.weight mb=0", for findings; `names` are those of kept buffers.
std::string content_text(const Content& content, const Model& model, const std::vector<std::string>& names);

}  // namespace tessera::host

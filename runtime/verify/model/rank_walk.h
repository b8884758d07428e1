// One rank of verify_model: what its buffers hold while its list is walked, and the rules of the actions that need no
// other rank. Implemented in rank_walk.cc, compute_rules.cc, update_rules.cc and move_rules.cc.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "verify/diagnostics.h"
#include "verify/model/content.h"
#include "verify/model/home_table.h"
#include "verify/model/needs.h"
#include "verify/model/taken.h"

namespace tessera::host {

/// What the ranks of a walk share.
struct WalkContext {
  AddendSets sets = {};
  KeptBuffers buffers = {};
  std::set<int> made_by_calls = {};     ///< kept buffers that a strategy's own arithmetic writes in some program
  std::set<std::string> reported = {};  ///< findings without their rank: those of several ranks are one
  DiagnosticList* diagnostics = nullptr;

  /// Adds `text`, unless the same finding of another rank is there.
  void add(const std::string& finding, const std::string& text) {
    if (reported.insert(finding).second) diagnostics->add(text);
  }
};

/// What persistent buffers hold between programs, by their number.
using KeptContents = std::map<int, ContentParts>;

/// Parts of a segment's work that run once for each micro-batch.
enum class SegmentPhase : uint8_t { forward, backward_input, backward_weight, loss };
using PhaseKey = std::tuple<int, int, SegmentPhase>;  // segment, micro-batch

class RankWalk {
 public:
  /// `entry` is what init left; empty when this is init. Borrows all.
  /// `walked_axes`: those, as bits, on which ranks that this one is walked for have other coordinates.
  RankWalk(const Program& program, int rank, const HomeTable& homes, const KeptContents& entry, uint32_t walked_axes,
           WalkContext& context);

  const Program& program() const { return program_; }
  const ModelNeeds& needs() const { return needs_; }
  int rank() const { return rank_; }
  /// Any action that is neither collective nor message.
  void apply(size_t index);
  /// After the last action: what must have come of the program. What it keeps.
  KeptContents finish();
  /// The actions that ran each phase.
  const std::map<PhaseKey, std::vector<size_t>>& phases() const { return phases_; }
  /// What it keeps and what it has updated it with; after finish().
  const std::vector<KeptElements>& kept() const { return kept_; }

  // For the rules of collectives.
  ContentParts read(const Binding& range) { return contents_.read(range); }
  void write(const Binding& range, const ContentParts& parts) { contents_.write(range, parts); }
  void write(const Binding& range, const Content& content) { contents_.write(range, content); }
  void report(size_t index, const std::string& what);
  std::string text(const Content& content) const {
    return content_text(content, *program_.model, context_.buffers.names());
  }
  /// Whether the layout has parameters that differ by rank.
  bool diverges() const { return axes_of_states_.replicas != 0; }
  const AxesOfStates& axes_of_states() const { return axes_of_states_; }
  /// The same parts, with states and zeros for what is kept; `local` where it is sliced.
  ContentParts by_element(const ContentParts& parts, const HomeTable& homes) const;
  /// The axes, as bits, on which the ranks that this one is walked for have other slices of a parameter.
  uint32_t sliced_over(int parameter, uint32_t role) const;
  /// The squares of all homes of this rank, each once.
  Content all_squares() const;

 private:
  void enter(const KeptContents& entry);
  void enter_scalars();
  void enter_kept(const KeptContents& entry);
  void empty_copies();
  ContentParts wanted_of_kept(const ContentParts& entry) const;
  void check_kept(const Buffer& buffer, ContentParts wanted);
  void note_kept(int buffer, const ContentParts& held, const ContentPart& wanted);
  void refuse_made(const Buffer& buffer);
  void check_scalars();
  void check_scalar(const Binding& range, const Content& wanted);
  void report_end(const std::string& finding);
  bool is_kept(const Buffer& buffer) const;

  // Used by every rule.
  void report(const std::string& what) { report(index_, what); }
  /// What was rounded to the operand's own dtype is taken, or to `rounded`.
  bool take(const Binding& binding, const ContentParts& wanted, tsr_dtype rounded = 0);
  bool take(const Binding& binding, const Content& wanted, tsr_dtype rounded = 0);
  bool may_be_made(const Binding& binding, const ContentParts& wanted) const;
  std::string first_difference(const ContentParts& held, const ContentParts& wanted, bool may_be_made = true) const;
  bool is_made_for(const Content& made, const Content& needed) const;
  std::string difference(const Content& seen, const Content& needed) const;
  void add(const Binding& binding, Content sum, uint32_t addend);
  void put_scratch();

  void compute();
  void count_phase();
  void take_operand(const Binding& binding);
  void take_parameter(const Binding& binding, int parameter);
  void put_result(const Binding& binding);
  void check_micro_batches(const Binding& binding, int parameter);
  void put_gradient(const Binding& binding, int addend, Content sum);
  const ContentParts& parameter(int p);

  void sum_squares();
  void clip();
  void optimizer();
  void take_state(const Binding& binding, const std::vector<HomeRun>& runs, uint32_t role);
  void take_gradient(const Binding& binding, const std::vector<HomeRun>& runs);
  bool is_summed_last(const Binding& range);
  std::string fault_of_slice(const ContentParts& held) const;
  void update(const Binding& binding, const std::vector<HomeRun>& runs, const HomeRole& own);
  void take_padding(const Binding& binding, const std::vector<HomeRun>& runs);
  Content scalar(int index, int version) const;
  void take_scalar(uint32_t index, int version);
  void require_loss_scale();

  void elementwise();
  void zero();
  void scale();
  void scale_content(Content& content, tsr_dtype dtype);
  ContentParts stored(const Binding& source, const Binding& destination);
  void add_into(const Binding& source, const Binding& destination);
  std::string other_rounding(const Content& there, const Content& more, const Binding& destination) const;
  bool is_own_memory(const Binding& binding) const;
  void call();

  const Program& program_;
  const int rank_;
  const HomeTable& homes_;
  const uint32_t walked_axes_;
  const AxesOfStates axes_of_states_;
  WalkContext& context_;
  const ModelNeeds needs_;
  ContentMap contents_;
  std::map<uint64_t, ContentParts> entered_;  // of each kept buffer
  std::map<int, ContentParts> parameters_;    // what compute needs of each: its value before the update
  std::map<PhaseKey, std::vector<size_t>> phases_;
  std::vector<KeptElements> kept_;
  mutable std::map<std::pair<int, uint32_t>, uint32_t> sliced_over_;  // by parameter and role, those asked for
  size_t index_ = 0;
  const Action* action_ = nullptr;
};

/// The content of a + b; nothing when one has an addend of the other, or they are sums of different things.
std::optional<Content> sum_of(const Content& a, const Content& b, AddendSets& sets);

}  // namespace tessera::host

// Checks what a program means, axis by axis: it interprets the program on placements (meaning.cc) instead of numbers.
// It finds what no other check can: mistakes that all ranks make alike, which race with nothing and match perfectly.
//
//     enter     tokens are different on a batch axis; homes are as the layout says; pads are zero
//     walk      each action by its rule (meaning_rules.h)
//     leave     every persistent home must have the placement that it entered with, and the loss must be summed
//
// The last condition makes steps repeatable: a step that took replicated values and left split ones would train on
// garbage from the second step on. For example, zero3 stage 2 without its broadcasts at the end:
//
//     rank 0 home wte.weight: its value, home wte, is the same on all ranks of dp before the program, and after it
//     split over dp
//
// Unknown contents (a strategy's own buffers, other ranks' slices on some axes) fit everything, so the check can miss a
// mistake in them. Cost: linear in the bindings, up to pieces, for each axis of more than one rank.

#include <vector>

#include "verify/meaning_rules.h"
#include "verify/verify.h"

namespace tessera::host {
namespace {

/// A stretch of a home that lives across steps, with what it means when the step begins.
struct Entered {
  const Home* home;
  uint32_t role;
  Binding range;
  Meaning meaning;
};

class AxisVerifier {
 public:
  AxisVerifier(const Program& program, int axis, FindingList& findings)
      : program_(program), axis_(axis), findings_(findings), meanings_(program) {}

  void run() {
    enter_buffers();
    enter_homes();
    MeaningRules rules(program_, axis_, meanings_, findings_);
    for (size_t i = 0; i < program_.actions.size(); ++i)
      rules.apply(i);
    check_homes();
    check_loss();
  }

 private:
  const Axis& axis() const { return program_.mesh->axes()[axis_]; }

  void enter_buffers() {
    for (const Buffer& buffer : program_.buffers)
      meanings_.write({buffer.id, 0, buffer.num_elements, 0, 0}, {entry_state(buffer)});
  }

  State entry_state(const Buffer& buffer) const {
    if (buffer.kind == TSR_BUFFER_INPUT)
      return axis().splits == TSR_SPLITS_BATCH ? State::different : State::replicated;
    if (buffer.kind == TSR_BUFFER_SCALAR) return State::replicated;
    if (!buffer.persistent) return State::unknown;
    switch (buffer.kind) {
      case TSR_BUFFER_ACCUMULATOR:
        return State::replicated;
      case TSR_BUFFER_HOME:
      case TSR_BUFFER_OPTIMIZER:
        return State::zero;  // pads; enter_homes says what is between them
      default:
        return State::unknown;  // a strategy's own
    }
  }

  void enter_homes() {
    for (const Home& home : program_.homes) {
      const std::vector<Stretch> stretches = stretches_of(home);
      for (uint32_t role = 0; role < TSR_NUM_HOME_ROLES; ++role) {
        const tsr_home_role& place = home.roles[role];
        if (!place.buffer || !program_.buffer(place.buffer).persistent) continue;
        for (const Stretch& stretch : stretches) {
          const Binding range{place.buffer, place.offset + stretch.home_offset, stretch.num_elements, 0, 0};
          const Meaning meaning{layout_state(program_, stretch.parameter, axis_, role)};
          meanings_.write(range, meaning);
          entered_.push_back({&home, role, range, meaning});
        }
      }
    }
  }

  /// Divergent parameters may leave equal: that is what averaging them is for.
  void check_homes() {
    static constexpr const char* kRoles[] = {"value", "master", "gradient", "m", "v"};
    for (const Entered& entered : entered_)
      for (const MeaningPart& part : meanings_.read(entered.range)) {
        const State before = entered.meaning.state, after = part.meaning.state;
        if (part.meaning.is_neutral() || after == before) continue;
        if (before == State::different && after == State::replicated) continue;
        findings_.add("rank " + std::to_string(program_.mesh->rank(program_.coordinates)) + " home " +
                      entered.home->name + ": its " + kRoles[entered.role] + ", " +
                      range_text(program_, entered.range) + ", is " + meaning_text(entered.meaning, axis().name) +
                      " before the program, and after it " + meaning_text(part.meaning, axis().name));
        break;
      }
  }

  void check_loss() {
    check_sum(kLossAccumulator, "a loss");
    check_sum(kCorrectCount, "a count of correct predictions");
  }

  void check_sum(std::string_view name, const char* what) {
    const uint64_t sum = find_buffer(program_, TSR_BUFFER_ACCUMULATOR, name);
    if (!sum) return;
    for (const MeaningPart& part : meanings_.read({sum, 0, program_.buffer(sum).num_elements, 0, 0}))
      if (part.meaning.state == State::partial) {
        findings_.add("rank " + std::to_string(program_.mesh->rank(program_.coordinates)) + " ends with " + what +
                      " that is " + meaning_text(part.meaning, axis().name));
        return;
      }
  }

  const Program& program_;
  const int axis_;
  FindingList& findings_;
  MeaningMap meanings_;
  std::vector<Entered> entered_;
};

}  // namespace

Findings verify_meaning(const Program& program) {
  FindingList findings;
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis)
    if (program.mesh->axes()[axis].num_ranks > 1) AxisVerifier(program, static_cast<int>(axis), findings).run();
  return findings.take();
}

}  // namespace tessera::host

// Views for offload policies: random steps, held so that a policy that reads past an array, or after the call, crashes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/guard_page.h"
#include "tessera/offload.h"

namespace tessera::testing {

inline constexpr uint32_t kUnknownMemory = 77;

/// A step as plain values: what a tsr_offload_view points at.
struct StepPlan {
  uint64_t device_bytes = UINT64_MAX;
  std::vector<tsr_place> places;
  std::vector<tsr_visit> visits;
  std::vector<tsr_item> items;  ///< their uses and names are those below
  std::vector<std::vector<tsr_use>> uses;
  uint64_t num_units = 0;
};

/// The kind of the action that is the whole of a visit; its id is the visit's number plus one.
uint32_t action_of(const tsr_visit& visit);

/// A step with forwards, backwards and updates of a few units, and items of every kind with uses in two visits or
/// more. Equal seeds give equal steps.
StepPlan random_step(uint32_t seed);

/// The view of a step. Every array ends at a page that may not be touched, and all are gone with this object.
class HeldView {
 public:
  /// `num_bytes`: of the view as the host has it; fewer are an older host's, more a newer one's.
  explicit HeldView(const StepPlan& step, uint32_t num_bytes = sizeof(tsr_offload_view));

  const tsr_offload_view* get() const { return view_->get(); }

 private:
  template <class T>
  const T* hold(const std::vector<T>& values);
  tsr_str hold(const std::string& text);
  void make_program(const StepPlan& step);
  std::vector<tsr_action> actions_of(const StepPlan& step);
  std::vector<tsr_home> homes_of(const StepPlan& step);

  std::vector<std::unique_ptr<GuardedBytes>> pages_;
  std::unique_ptr<GuardedStruct<tsr_program_view>> program_;
  std::unique_ptr<GuardedStruct<tsr_offload_view>> view_;
};

/// Takes the answers to one view as the host does: it refuses what the header forbids, and may be told to refuse the
/// n-th answer whatever it is.
class AnswerRecorder {
 public:
  explicit AnswerRecorder(const StepPlan& step, int refused_answer = -1) : step_(step), refused_(refused_answer) {}

  tsr_offload_sink sink() {
    return {sizeof(tsr_offload_sink), 0, this, &AnswerRecorder::leave, &AnswerRecorder::run_on_host};
  }
  const std::vector<tsr_leave>& answers() const { return answers_; }
  /// Ids of actions that run on the host.
  const std::vector<uint64_t>& host_runs() const { return host_runs_; }
  /// The sentence of the first refusal; empty: none.
  const std::string& refusal() const { return refusal_; }
  /// What the host says of all answers together when plan has returned; empty: nothing.
  std::string objection_at_the_end() const;

 private:
  static tsr_status leave(void* ctx, const tsr_leave* answer, tsr_error* err) noexcept;
  static tsr_status run_on_host(void* ctx, uint64_t action, tsr_error* err) noexcept;
  tsr_status take(std::string objection, tsr_error* err);
  std::string objection_to(const tsr_leave& answer) const;
  std::string objection_to_host_run(uint64_t action) const;
  std::string objection_to_host_runs() const;
  bool leaves_for_host(uint64_t buffer, uint32_t after) const;

  const StepPlan& step_;
  int refused_;
  int num_calls_ = 0;
  std::vector<tsr_leave> answers_;
  std::vector<uint64_t> host_runs_;
  std::string refusal_;
};

}  // namespace tessera::testing

#include "train/lost_run.h"

#include <cmath>

#include "config/text_values.h"
#include "observe/text.h"
#include "tessera/error.hpp"
#include "train/agree.h"
#include "train/text.h"

namespace tessera {
namespace {

constexpr size_t kPositionChars = 32;

/// Begins with its position, so that of two texts the lesser one is about the earlier element.
std::string describe(const Model& model, const ParameterElement& e) {
  const std::string& name = model.parameters[static_cast<size_t>(e.parameter)].name;
  return format("%011d/%019llu/", e.parameter, static_cast<unsigned long long>(e.index)) +
         concat("parameter ", name, " is not finite (element ", e.index, " is ", e.value, ")");
}

/// Of all ranks' answers that are not empty the least; each asks, and no question twice.
std::string least_answer(const RankPlace& place, int num_ranks, const std::string& question,
                         const std::string& own_answer, int64_t timeout_ms) {
  KeyValueStore& store = *place.store;
  store.set(concat(question, "/", place.rank), own_answer);
  if (store.add(question + "/answers", 1) == num_ranks) {  // the last has all
    std::string least;
    for (int rank = 0; rank < num_ranks; ++rank)
      if (const std::string answer = store.get(concat(question, "/", rank), timeout_ms);
          !answer.empty() && (least.empty() || answer < least))
        least = answer;
    store.set(question + "/least", least);
  }
  return store.get(question + "/least", timeout_ms);
}

}  // namespace

LostRunCheck::LostRunCheck(const Job& job, const RankPlace& place, RankRuntime& runtime)
    : job_(job), place_(place), runtime_(runtime) {}

std::string LostRunCheck::first_not_finite() {
  has_changed_ = false;
  const auto own = runtime_.first_not_finite();
  const std::string found =
      least_answer(place_, job_.mesh.num_ranks(), concat("not finite/", num_looks_++),
                   own ? describe(job_.model, *own) : "", job_.config.timeout_ms);
  return found.empty() ? "" : found.substr(kPositionChars);
}

std::string LostRunCheck::advice() const {
  if (last_good_step_ == 0)
    return "no step before it was good, so look at the weights in --model first, then lower --lr";
  return concat("step ", last_good_step_, " was the last that updated with a finite loss; lower --lr (",
                shortest(job_.config.lr), "), lengthen --warmup-steps (", job_.config.warmup_steps,
                ") or lower --clip (", shortest(job_.config.clip), "; 0: off)");
}

void LostRunCheck::fail(const std::string& why) const {
  // Nobody ends before all know why.
  wait_for_all(place_, job_.mesh.num_ranks(), "lost", job_.config.timeout_ms);
  throw Error(TSR_E_FAILED_PRECONDITION, concat("the run is lost: ", why, "; ", advice()));
}

void LostRunCheck::after_step(int64_t step, const StepResult& result) {
  has_changed_ = has_changed_ || result.updated;
  if (result.updated && std::isfinite(result.loss_sum)) {
    last_good_step_ = step;
    num_not_good_ = 0;
    return;
  }
  ++num_not_good_;
  if (has_changed_)
    if (const std::string found = first_not_finite(); !found.empty())
      fail(concat(found, " in step ", step, ", and so is every gradient from here on"));
  if (num_not_good_ == job_.config.max_skipped_steps)
    fail(concat(num_not_good_, " steps in a row, up to step ", step,
                ", have a loss or a gradient that is not finite (--max-skipped-steps), while all parameters are finite"));
}

void LostRunCheck::after_last_step() {
  if (!has_changed_) return;
  if (const std::string found = first_not_finite(); !found.empty()) fail(found + " after the last step");
}

}  // namespace tessera

// Detects that a run cannot recover (decision 0023). It costs nothing while the run goes well, since all ranks know
// whether a step was good. Only after a bad step do ranks inspect the parameters that they hold. A single rank may hold
// the bad slice, so the ranks agree on the worst element of all, by the lowest of one string per rank:
//
//     a0000000012/...  element 34 of h.0.ln_1.weight is nan          not finite: by parameter, then element
//     b3199729663/...  element 7 of wte.weight is 12.5               finite: the largest value has the smallest key
//
// A magnitude is compared as the bits of its float, which sort like the numbers.
//
// All ranks then throw the same sentence, after a barrier: no rank ends while another still uses the store.

#include "train/checks/lost_run.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/concat.h"
#include "config/text_values.h"
#include "tessera/error.hpp"
#include "train/consistency.h"
#include "train/loss_scaler.h"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

/// Below it adamw divides by almost zero where a gradient is zero.
constexpr double kMinEps = 1e-12;
/// An answer begins with a key, such that the lowest of all ranks' answers is about the worst element.
constexpr size_t kKeyChars = 33;
constexpr char kNotFinite = 'a', kFinite = 'b';

std::string key_of(const ParameterElement& e) {
  const auto below = [](float value) {
    return std::numeric_limits<uint32_t>::max() - std::bit_cast<uint32_t>(std::abs(value));
  };
  const auto index = static_cast<unsigned long long>(e.index);
  if (e.is_finite()) return format("%c%010u/%021d", kFinite, below(e.value), 0);
  return format("%c%010d/%021llu", kNotFinite, e.parameter, index);
}

std::string describe(const Model& model, const ParameterElement& e) {
  return concat(key_of(e), "element ", e.index, " of ", model.parameters[static_cast<size_t>(e.parameter)].name, " is ",
                std::isnan(e.value) ? std::abs(e.value) : e.value);  // the sign of a NaN means nothing
}

/// What the run began with: "--resume runs/char".
std::string source_of_weights(const TrainConfig& config) {
  const std::string start = config.init_from.empty() ? "" : concat("--init-from ", config.init_from);
  if (!config.resume.empty()) return concat("--resume ", config.resume, start.empty() ? "" : " or ", start);
  if (!start.empty()) return start;
  return "--model";
}

}  // namespace

LostRunCheck::LostRunCheck(const Job& job, const RankInfo& info, RankRuntime& runtime)
    : job_(job), info_(info), runtime_(runtime) {}

std::string LostRunCheck::advice() const {
  const TrainConfig& config = job_.config;
  if (last_good_step_ == 0)
    return concat("no step updated with a finite loss; check the weights in ", source_of_weights(config),
                  ", then lower --lr");
  // lr times weight decay is the fraction of a parameter that one step removes; from 1 on it overshoots zero.
  const bool decays_too_much = config.weight_decay > 1 && config.lr * config.weight_decay >= 1;
  const bool divides_by_nothing = config.optimizer == OptimizerKind::adamw && config.eps < kMinEps;
  return concat("step ", last_good_step_, " was the last that updated with a finite loss; lower --lr (",
                shortest(config.lr), "), ",
                decays_too_much ? concat("lower --weight-decay (", shortest(config.weight_decay), "), ") : "",
                divides_by_nothing ? concat("raise --eps (", shortest(config.eps), "), ") : "",
                "lengthen --warmup-steps (", config.warmup_steps, ") or ",
                config.clip > 0 ? concat("lower --clip (", shortest(config.clip), ")") : "set --clip, which is off");
}

/// The first such action of all ranks, as the end of a sentence.
std::string LostRunCheck::first_action() const {
  if (!job_.config.debug_memory) return "";
  const std::string first =
      lowest_answer(info_, job_.mesh.num_ranks(), "first action", first_action_, job_.config.timeout_ms);
  return first.empty()
             ? ""
             : concat("; the first action of that step with a result that is not finite: ", first.substr(kKeyChars));
}

void LostRunCheck::fail(const std::string& why) const {
  const std::string action = first_action();
  // No rank ends before all know why.
  barrier(info_, job_.mesh.num_ranks(), "end, since the run is lost", job_.config.timeout_ms, Log(LogLevel::off));
  throw Error(TSR_E_FAILED_PRECONDITION, concat("the run is lost: ", why, action, "; ", advice()));
}

void LostRunCheck::look(const std::string& when) {
  // Without an update, parameters are as they were at the last check.
  if (!has_changed_) return;
  has_changed_ = false;
  const auto own = runtime_.worst_parameter_element();
  const std::string worst = lowest_answer(info_, job_.mesh.num_ranks(), concat("worst element/", num_looks_++),
                                          own ? describe(job_.model, *own) : "", job_.config.timeout_ms);
  largest_ = worst.substr(kKeyChars);
  if (worst[0] == kNotFinite) fail(concat("a parameter is not finite, ", when, ": ", largest_));
}

std::string LostRunCheck::first_action_of(int64_t step, const StepResult& result) const {
  if (!result.first_not_finite) return "";
  const auto& steps = runtime_.programs().steps;
  const Program& program = steps[static_cast<size_t>(step - 1) % steps.size()];
  return format("%033zu", *result.first_not_finite) + action_text(program, info_.rank, *result.first_not_finite);
}

void LostRunCheck::after_step(int64_t step, const StepResult& result) {
  has_changed_ = has_changed_ || result.updated;
  last_loss_is_finite_ = std::isfinite(result.loss_sum);
  first_action_ = first_action_of(step, result);
  if (result.updated && last_loss_is_finite_) {
    last_good_step_ = step;
    num_not_good_ = 0;
    return;
  }
  ++num_not_good_;
  look(concat("in step ", step));
  if (num_not_good_ == job_.config.max_skipped_steps)
    fail(concat("in steps ", step - num_not_good_ + 1, " to ", step, " (--max-skipped-steps ", num_not_good_,
                ") the loss or a gradient is not finite, and the largest parameter is finite: ", largest_));
}

void LostRunCheck::before_saving() {
  look("and was not saved");
}

void LostRunCheck::after_last_step() {
  look("after the last step");
  if (!last_loss_is_finite_)
    fail(concat("the last loss is not finite, and the largest parameter is finite: ", largest_));
  // In float16, up to this many skipped steps in a row may be the loss scale on its way down.
  const int64_t limit = runtime_.scales_loss() ? LossScaler::kMaxBackoffs : 1;
  if (job_.config.max_skipped_steps != 0 && num_not_good_ > limit)
    fail(concat("the last ", num_not_good_, " steps were skipped because a gradient was not finite, and the largest ",
                "parameter is finite: ", largest_));
}

}  // namespace tessera::host

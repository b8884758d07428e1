// Enters a program with what its persistent buffers hold, and leaves it with what they must hold then: the steps of a
// run repeat because a step finds what the step before it has left, with every trainable element updated once.
//
//     rank 0 #31 compute backward h.0.ln_1 mb=0 takes p0 (h.0.ln_1.weight) = home h.0[0:32], which holds
//     h.0.ln_1.weight, updated; the model needs h.0.ln_1.weight
//
// After a finding an action leaves what the model names, so a fault is reported once. Cost: linear in the bindings, up
// to the pieces that buffers fall into.

#include "verify/model/rank_walk.h"

#include <algorithm>

#include "base/concat.h"

namespace tessera::host {
namespace {

constexpr std::pair<std::string_view, uint32_t> kScalars[] = {{kClipResult, TSR_SCALAR_CLIP},
                                                              {kOptimizerStep, TSR_SCALAR_STEP},
                                                              {kLearningRate, TSR_SCALAR_LR},
                                                              {kLossScale, TSR_SCALAR_LOSS_SCALE}};

}  // namespace

RankWalk::RankWalk(const Program& program, int rank, const HomeTable& homes, const KeptContents& entry,
                   uint32_t walked_axes, WalkContext& context)
    : program_(program),
      rank_(rank),
      homes_(homes),
      walked_axes_(walked_axes),
      axes_of_states_(host::axes_of_states(program)),
      context_(context),
      needs_(program, context.sets),
      contents_(program) {
  enter_scalars();
  enter_kept(entry);
}

/// Parameters and states. What a strategy keeps for itself is its own affair.
bool RankWalk::is_kept(const Buffer& buffer) const {
  return buffer.persistent && (buffer.kind == TSR_BUFFER_HOME || buffer.kind == TSR_BUFFER_OPTIMIZER);
}

void RankWalk::enter_scalars() {
  for (const auto& [name, index] : kScalars)
    if (const uint64_t id = find_buffer(program_, TSR_BUFFER_SCALAR, name))
      contents_.write({id, 0, program_.buffer(id).num_elements, 0, 0}, scalar(static_cast<int>(index), 0));
  if (const uint64_t squares = find_buffer(program_, TSR_BUFFER_ACCUMULATOR, kSquaresAccumulator))
    contents_.write({squares, TSR_ACCUMULATOR_LIMBS, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS, 0, 0},
                    {ContentKind::run_words});
  const std::vector<int> values = program_.model->inputs();
  for (const InputBuffer& input : program_.inputs)
    contents_.write({input.buffer, 0, program_.buffer(input.buffer).num_elements, 0, 0},
                    needs_.value(values[static_cast<size_t>(input.input)], input.micro_batch));
}

void RankWalk::enter_kept(const KeptContents& entry) {
  for (const Buffer& buffer : program_.buffers) {
    const Binding whole{buffer.id, 0, buffer.num_elements, 0, 0};
    if (buffer.kind == TSR_BUFFER_PLUGIN && buffer.persistent &&
        context_.made_by_calls.contains(context_.buffers.number_of(buffer)))
      contents_.write(whole, {ContentKind::opaque});
    if (!is_kept(buffer)) continue;
    const int number = context_.buffers.number_of(buffer);
    Content kept{ContentKind::kept};
    kept.index = number;
    kept.round_to(buffer.dtype);
    const auto left = entry.find(number);
    const ContentParts parts = left == entry.end() ? ContentParts{{0, buffer.num_elements, kept}} : left->second;
    contents_.write(whole, parts);
    entered_[buffer.id] = homes_.resolve(parts);
  }
  if (program_.purpose == TSR_PURPOSE_INIT) empty_copies();
}

/// Beside a MASTER the host fills that one alone; what the VALUE holds init copies.
void RankWalk::empty_copies() {
  for (const Home& home : program_.homes) {
    const HomeRole &copy = home.roles[TSR_HOME_VALUE], &master = home.roles[TSR_HOME_MASTER];
    if (master.buffer == 0 || copy.buffer == 0) continue;
    if (is_kept(program_.buffer(copy.buffer)))
      contents_.write({copy.buffer, copy.offset, copy.num_elements, 0, 0}, {ContentKind::zero});
  }
}

void RankWalk::apply(size_t index) {
  index_ = index;
  action_ = &program_.actions[index];
  put_scratch();
  if (is_compute(action_->kind)) return compute();
  if (is_elementwise(action_->kind)) return elementwise();
  switch (action_->kind) {
    case TSR_ACTION_SUM_SQUARES:
      return sum_squares();
    case TSR_ACTION_CLIP:
      return clip();
    case TSR_ACTION_OPTIMIZER:
      return optimizer();
    default:
      return call();
  }
}

void RankWalk::report(size_t index, const std::string& what) {
  context_.add(action_text(program_, -1, index) + " " + what, action_text(program_, index) + " " + what);
}

/// What is wrong with `seen`, where `needed` is not.
std::string RankWalk::difference(const Content& seen, const Content& needed) const {
  if (seen.kind == ContentKind::opaque && !is_made_for(seen, needed))
    return concat("holds what a call has made of other parameters; the model needs ", text(needed));
  Content exact = seen;
  exact.rounded = needed.rounded;
  if (exact == needed)
    return concat("holds ", text(needed), ", rounded to ",
                  seen.rounded == kSeveralDtypes ? "several dtypes" : dtype_name(seen.rounded),
                  "; the model needs it as it was");
  if (text(seen) != text(needed)) return concat("holds ", text(seen), "; the model needs ", text(needed));
  if (seen.addends != needed.addends) return concat("has not all addends of ", text(needed));
  std::string axes;
  for (size_t axis = 0; axis < program_.mesh->axes().size(); ++axis)
    if ((needed.summed & ~seen.summed) >> axis & 1u)
      axes += concat(axes.empty() ? "" : " and ", program_.mesh->axes()[axis].name);
  return concat("holds ", text(needed), axes.empty() ? " of other tokens" : ", not summed over " + axes);
}

/// Whether a call has made it of that parameter, or of nothing that is known, as of what it kept from the last step.
bool RankWalk::is_made_for(const Content& made, const Content& needed) const {
  if (made.kind != ContentKind::opaque) return false;
  if (made.addends == 0 || !needed.is_sliced()) return true;
  return std::ranges::any_of(context_.sets.set(made.addends), [&](uint32_t number) {
    return context_.sets.used(number).parameter == static_cast<uint32_t>(needed.index);
  });
}

/// Where `held` is not what is wanted; empty where it fits, as what a call has made does if it `may_be_made`.
std::string RankWalk::first_difference(const ContentParts& held, const ContentParts& wanted, bool may_be_made) const {
  size_t k = 0;
  for (const ContentPart& want : wanted) {
    uint64_t at = want.offset;
    const uint64_t end = want.offset + want.num_elements;
    while (at < end && k < held.size()) {
      const uint64_t held_end = held[k].offset + held[k].num_elements;
      const Content& content = held[k].content;
      const bool is_made = may_be_made && is_made_for(content, want.content);
      if (!is_made && content != want.content)
        return difference(content.moved_by(static_cast<int64_t>(at)), want.content.moved_by(static_cast<int64_t>(at)));
      at = std::min(end, held_end);
      if (held_end <= end) ++k;
    }
  }
  return "";
}

bool RankWalk::take(const Binding& binding, const ContentParts& wanted, tsr_dtype rounded) {
  ContentParts held = homes_.resolve(contents_.read(binding));
  accept_rounding(held, program_.buffer(binding.buffer).dtype);
  accept_rounding(held, rounded);
  forget_slices(held);
  const std::string difference = first_difference(held, wanted, may_be_made(binding, wanted));
  if (difference.empty()) return true;
  report(concat("takes ", slot_text(program_, *action_, binding.slot), " = ", range_text(program_, binding), ", which ",
                difference));
  return false;
}

ContentParts RankWalk::by_element(const ContentParts& parts, const HomeTable& homes) const {
  if (walked_axes_ == 0) return homes.resolve(parts);
  ContentParts result;
  for (const ContentPart& part : parts) {
    ContentParts named = homes.resolve(ContentParts{part});
    for (ContentPart& one : named)
      if (part.content.kind == ContentKind::kept && one.content.is_sliced())
        one.content.local = sliced_over(one.content.index, one.content.role);
    for (const ContentPart& one : named)
      append(result, one);
  }
  return result;
}

/// Not what the host computes, nor the tokens that it fills in.
bool RankWalk::may_be_made(const Binding& binding, const ContentParts& wanted) const {
  if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_SCALAR) return false;
  return std::ranges::none_of(wanted, [&](const ContentPart& part) {
    return part.content.kind == ContentKind::value &&
           program_.model->values[static_cast<size_t>(part.content.index)].kind == TSR_VALUE_INPUT;
  });
}

bool RankWalk::take(const Binding& binding, const Content& wanted, tsr_dtype rounded) {
  return take(binding, ContentParts{{0, binding.num_elements, wanted}}, rounded);
}

/// Scratch leaves nothing that another action may need.
void RankWalk::put_scratch() {
  for (const Binding& binding : action_->bindings)
    if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE) contents_.write(binding, Content{});
}

/// A *write* makes a sum of one addend, an *add* puts it to those that are there.
void RankWalk::add(const Binding& binding, Content sum, uint32_t addend) {
  sum.addends = 0;
  if (binding.mode == TSR_MODE_ADD)
    for (const ContentPart& part : contents_.read(binding)) {
      Content before = part.content;
      if (before.kind == ContentKind::opaque) return;
      if (before.kind == ContentKind::zero && part.num_elements == binding.num_elements) continue;
      sum.addends = before.addends;
      sum.rounded = before.rounded;
      if (before == sum && part.num_elements == binding.num_elements) continue;
      report(concat("adds to ", range_text(program_, binding), ", which holds ", text(before), ", not ", text(sum)));
      sum.addends = 0;
      break;
    }
  const uint32_t with = context_.sets.with(sum.addends, addend);
  if (with == kTwice)
    report(concat("adds to ", text(sum), " in ", range_text(program_, binding), ", which has this addend already"));
  else
    sum.addends = with;
  contents_.write(binding, sum);
}

// ---- after the last action ------------------------------------------------------------------------------------

void RankWalk::report_end(const std::string& finding) {
  context_.add(finding, concat("rank ", rank_, ": ", finding));
}

/// Of a step: what was there before it, trainable parameters and their states updated.
ContentParts RankWalk::wanted_of_kept(const ContentParts& entry) const {
  ContentParts wanted = entry;
  if (program_.purpose == TSR_PURPOSE_STEP)
    for (ContentPart& part : wanted)
      if (part.content.kind == ContentKind::state &&
          program_.model->parameters[static_cast<size_t>(part.content.index)].trainable)
        part.content.version = 1;
  return wanted;
}

void RankWalk::note_kept(int buffer, const ContentParts& held, const ContentPart& wanted) {
  const Content& named = wanted.content;
  if (named.kind != ContentKind::state) return;
  for (const ContentPart& part : slice(held, wanted.offset, wanted.offset + wanted.num_elements)) {
    const Origin origin = part.content.kind == ContentKind::opaque ? Origin::made
                          : part.content.is_mean                   ? Origin::averaged
                                                                   : Origin::named;
    const auto begin = static_cast<uint64_t>(named.shift) + wanted.offset + part.offset;
    KeptElements kept{named.index, named.role, buffer, begin, begin + part.num_elements, origin};
    kept.made_of = origin == Origin::made ? part.content.addends : 0;
    if (kept.made_of != 0)
      kept.place = part.content.shift + static_cast<int64_t>(part.offset) - static_cast<int64_t>(begin);
    kept_.push_back(kept);
  }
}

void RankWalk::check_kept(const Buffer& buffer, ContentParts wanted) {
  const ContentParts left = contents_.read({buffer.id, 0, buffer.num_elements, 0, 0});
  ContentParts held = homes_.resolve(left);
  accept_rounding(held, buffer.dtype);
  accept_rounding(wanted, buffer.dtype);
  for (const ContentPart& part : wanted)
    note_kept(context_.buffers.number_of(buffer), held, part);
  forget_slices(held);
  std::string difference = fault_of_slice(left);
  for (const ContentPart& part : wanted)
    if (difference.empty()) {
      // Only what trains may be what a call has made, and that in a step.
      const bool trains = program_.purpose == TSR_PURPOSE_STEP && part.content.version == 1;
      difference = first_difference(slice(held, part.offset, part.offset + part.num_elements),
                                    slice(wanted, part.offset, part.offset + part.num_elements), trains);
    }
  if (!difference.empty()) report_end(concat("after the program ", buffer_text(buffer), " ", difference));
}

void RankWalk::refuse_made(const Buffer& buffer) {
  for (const ContentPart& part : contents_.read({buffer.id, 0, buffer.num_elements, 0, 0}))
    if (part.content.kind == ContentKind::opaque)
      return report_end(concat("after init ", buffer_text(buffer), " holds ", text(part.content),
                               "; calls change parameters in steps alone"));
}

void RankWalk::check_scalar(const Binding& range, const Content& wanted) {
  if (range.buffer == 0) return;
  const std::string difference = first_difference(contents_.read(range), {{0, range.num_elements, wanted}}, false);
  if (!difference.empty()) report_end(concat("after the program ", range_text(program_, range), " ", difference));
}

void RankWalk::check_scalars() {
  const bool trains = program_.purpose == TSR_PURPOSE_STEP;
  for (const auto& [name, index] : kScalars) {
    const bool is_counted = trains && (index == TSR_SCALAR_CLIP || index == TSR_SCALAR_STEP);
    if (const uint64_t id = find_buffer(program_, TSR_BUFFER_SCALAR, name))
      check_scalar({id, 0, program_.buffer(id).num_elements, 0, 0}, scalar(static_cast<int>(index), is_counted));
  }
  if (program_.purpose == TSR_PURPOSE_INIT) return;
  const auto sum = [&](std::string_view name, const Content& wanted, uint64_t num_elements) {
    check_scalar({find_buffer(program_, TSR_BUFFER_ACCUMULATOR, name), 0, num_elements, 0, 0}, wanted);
  };
  sum(kLossAccumulator, needs_.loss(ContentKind::loss), TSR_ACCUMULATOR_LIMBS);
  sum(kCorrectCount, needs_.loss(ContentKind::correct), 1);
  if (!trains) return;
  sum(kSquaresAccumulator, all_squares(), TSR_ACCUMULATOR_LIMBS);
  // The host reads them after the step.
  check_scalar({find_buffer(program_, TSR_BUFFER_ACCUMULATOR, kSquaresAccumulator), TSR_ACCUMULATOR_LIMBS,
                TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS, 0, 0},
               {ContentKind::run_words});
}

KeptContents RankWalk::finish() {
  KeptContents kept;
  for (const Buffer& buffer : program_.buffers) {
    if (!is_kept(buffer)) continue;
    // Init may fill what it likes, but by calls: the other programs show whether it is what they need.
    if (program_.purpose != TSR_PURPOSE_INIT)
      check_kept(buffer, wanted_of_kept(entered_.at(buffer.id)));
    else
      refuse_made(buffer);
    kept[context_.buffers.number_of(buffer)] = contents_.read({buffer.id, 0, buffer.num_elements, 0, 0});
  }
  check_scalars();
  return kept;
}

}  // namespace tessera::host

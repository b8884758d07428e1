// Norm, clip and optimizer. A home's gradient must hold all addends of each of its elements; the squares of every home
// are summed once, one clip takes them, and every home is updated once, after it: its states are those from before the
// step when the optimizer takes them. In two-blocks-ddp, which has 28 homes:
//
//     43    sum_squares home=wte.weight  r %61+28928:3072 src  a %17+0:20 x:squares       adds one home to %17
//     72    clip  r %17 x:squares  w %18 x:clip  a %19 x:step                             needs all 28 in %17
//     73    optimizer home=wte.weight predicated  a %1 dst  ...                           %1 holds wte.weight, updated
//
// A second line 73 takes dst0 = home wte, which holds wte.weight, updated; the model needs wte.weight. Cost: linear in
// the pieces of homes.

#include <algorithm>

#include "base/concat.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {
namespace {

Binding part_of(Binding whole, uint64_t offset, uint64_t num_elements) {
  whole.offset += offset;
  whole.num_elements = num_elements;
  return whole;
}

/// Even where the rank's slice of it is padding.
bool is_trained(const Home& home, const Model& model) {
  if (home.roles[TSR_HOME_GRADIENT].buffer != 0) return true;
  for (const tsr_piece& piece : home.pieces)
    if (model.parameters[static_cast<size_t>(piece.parameter)].trainable) return true;
  return false;
}

/// Whether it may be where a home has no element of a parameter.
bool is_padding(const ContentPart& part, const Model& model) {
  const Content& content = part.content;
  if (content.kind != ContentKind::gradient)
    return content.kind == ContentKind::zero || content.kind == ContentKind::opaque;
  const Parameter& parameter = model.parameters[static_cast<size_t>(content.index)];
  const auto begin = static_cast<uint64_t>(content.shift + static_cast<int64_t>(part.offset));
  return parameter.part && std::ranges::none_of(parameter.part->pieces, [&](const ParameterPiece& piece) {
           return begin < piece.local_offset + piece.num_elements && piece.local_offset < begin + part.num_elements;
         });
}

}  // namespace

Content RankWalk::scalar(int index, int version) const {
  Content content{ContentKind::scalar};
  content.index = index;
  content.version = static_cast<uint8_t>(version);
  return content;
}

void RankWalk::take_scalar(uint32_t index, int version) {
  if (const Binding* binding = action_->find(TSR_SLOT(TSR_ROLE_SCALAR, index)))
    take(*binding, scalar(static_cast<int>(index), version));
}

/// The loss is multiplied by it, and clip divides the gradients by it: both or neither.
void RankWalk::require_loss_scale() {
  if (find_buffer(program_, TSR_BUFFER_SCALAR, kLossScale) &&
      !action_->find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE)))
    report("does not take the loss scale, which this job has");
}

Content RankWalk::all_squares() const {
  AddendSets::Set homes;
  for (size_t h = 0; h < program_.homes.size(); ++h)
    if (is_trained(program_.homes[h], *program_.model)) homes.push_back(static_cast<uint32_t>(h));
  Content content{ContentKind::squares};
  content.addends = context_.sets.id_of(std::move(homes));
  return content;
}

uint32_t RankWalk::sliced_over(int parameter, uint32_t role) const {
  const auto [known, is_new] = sliced_over_.try_emplace({parameter, role}, 0);
  uint32_t& axes = known->second;
  if (!is_new) return axes;
  for (size_t axis = 0; axis < program_.mesh->axes().size(); ++axis) {
    if ((walked_axes_ >> axis & 1u) == 0) continue;
    const LayoutEntry* entry = entry_on(program_, parameter, static_cast<int>(axis), role);
    if (entry && is_sliced_by(*entry, *program_.mesh)) axes |= 1u << axis;
  }
  return axes;
}

/// What is right for a slice of this rank is right for the slices of those that it is walked for only where each of
/// them has got its own. Empty: it is, or no slice is there.
std::string RankWalk::fault_of_slice(const ContentParts& held) const {
  if (walked_axes_ == 0) return "";
  for (const ContentPart& part : held) {
    const Content& content = part.content;
    if (!content.is_sliced()) continue;
    const uint32_t role = content.kind == ContentKind::gradient ? TSR_HOME_GRADIENT : content.role;
    if (sliced_over(content.index, role) & ~content.own)
      return concat("holds ", text(content),
                    ", the same elements on all ranks with this program, which own different ones: only what a "
                    "reduce_scatter or all_to_all leaves, each rank its own, is known to fit all of them");
  }
  return "";
}

/// A sum is rounded to --reduce-dtype before or as it is made: afterwards, one replica might do so alone.
bool RankWalk::is_summed_last(const Binding& range) {
  for (const ContentPart& part : contents_.read(range))
    if (part.content.kind == ContentKind::gradient && part.content.is_sum_rounded) {
      report(concat("takes ", range_text(program_, range), ", which was rounded to ", dtype_name(part.content.rounded),
                    " after it was summed; round what is summed, not the sum"));
      return false;
    }
  return true;
}

/// It may have been summed in --reduce-dtype.
void RankWalk::take_gradient(const Binding& binding, const std::vector<HomeRun>& runs) {
  for (const HomeRun& run : runs) {
    const Binding range = part_of(binding, run.offset, run.num_elements);
    if (!is_summed_last(range)) return;
    if (!take(range, needs_.gradient(run.parameter).moved_by(static_cast<int64_t>(run.element)),
              program_.step_config.reduce_dtype))
      return;
    if (const std::string fault = fault_of_slice(contents_.read(range)); !fault.empty())
      return report(concat("takes ", range_text(program_, range), ", which ", fault));
  }
}

/// Squares are of the whole range of a home, so what pads it there is zeros, or what a backward leaves where it pads
/// the rank's part of a parameter.
void RankWalk::take_padding(const Binding& binding, const std::vector<HomeRun>& runs) {
  const ContentParts held = contents_.read(binding);
  const auto check = [&](uint64_t begin, uint64_t end) {
    for (const ContentPart& part : slice(held, begin, end))
      if (!is_padding(part, *program_.model))
        return report(concat("takes ", text(part.content), " in ",
                             range_text(program_, part_of(binding, begin, end - begin)),
                             ", which is padding of the home; zeros are needed there"));
  };
  uint64_t end = 0;
  for (const HomeRun& run : runs) {
    if (end < run.offset) check(end, run.offset);
    end = run.offset + run.num_elements;
  }
  if (end < binding.num_elements) check(end, binding.num_elements);
}

void RankWalk::sum_squares() {
  const Home& home = program_.home(action_->home);
  const std::vector<HomeRun> runs = runs_of(home, *program_.model);
  take_gradient(*action_->find(kSource), runs);
  take_padding(*action_->find(kSource), runs);
  add(*action_->find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR)), {ContentKind::squares},
      static_cast<uint32_t>(&home - program_.homes.data()));
}

void RankWalk::clip() {
  const Binding& accumulator = *action_->find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR));
  ContentParts wanted{{0, TSR_ACCUMULATOR_LIMBS, all_squares()}};
  append(wanted, {TSR_ACCUMULATOR_LIMBS, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS,
                  Content{ContentKind::run_words}.moved_by(-TSR_ACCUMULATOR_LIMBS)});
  require_loss_scale();
  take(accumulator, wanted);
  take_scalar(TSR_SCALAR_STEP, 0);
  take_scalar(TSR_SCALAR_LOSS_SCALE, 0);
  contents_.write(*action_->find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP)), scalar(TSR_SCALAR_CLIP, 1));
  contents_.write(*action_->find(TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP)), scalar(TSR_SCALAR_STEP, 1));
}

void RankWalk::take_state(const Binding& binding, const std::vector<HomeRun>& runs, uint32_t role) {
  for (const HomeRun& run : runs) {
    Content state{ContentKind::state};
    state.role = role;
    state.index = run.parameter;
    const Binding range = part_of(binding, run.offset, run.num_elements);
    if (!take(range, state.moved_by(static_cast<int64_t>(run.element)))) return;
    if (const std::string fault = fault_of_slice(contents_.read(range)); !fault.empty())
      return report(concat("takes ", range_text(program_, range), ", which ", fault));
  }
}

/// The kernel changes the home's runs alone. What else was kept in the home's own range is padding here and may be
/// elements on other ranks of the class; of what was kept elsewhere nothing is updated.
void RankWalk::update(const Binding& binding, const std::vector<HomeRun>& runs, const HomeRole& own) {
  const int number = own.buffer ? context_.buffers.number_of(program_.buffer(own.buffer)) : -1;
  const auto is_own = [&](const ContentPart& part) {
    const auto begin = static_cast<uint64_t>(part.content.shift) + part.offset;
    return part.content.kind == ContentKind::kept && part.content.index == number && begin >= own.offset &&
           begin + part.num_elements <= own.offset + own.num_elements;
  };
  const auto mark = [&](const Binding& range, const auto& is_updated) {
    ContentParts parts = contents_.read(range);
    for (ContentPart& part : parts)
      if (is_updated(part)) {
        part.content.version = 1;
        part.content.is_mean = false;
      }
    contents_.write(range, parts);
  };
  mark(binding, is_own);
  for (const HomeRun& run : runs)
    mark(part_of(binding, run.offset, run.num_elements),
         [](const ContentPart& part) { return part.content.is_state(); });
}

void RankWalk::optimizer() {
  const Home& home = program_.home(action_->home);
  const std::vector<HomeRun> runs = runs_of(home, *program_.model);
  if (!(action_->flags & TSR_ACTION_PREDICATED))
    report("is not predicated: it would update in a step that the run skips");
  const auto pass = [&](const Binding& binding, uint32_t role, const HomeRole& own) {
    if (binding.num_elements != home.num_elements) return;  // verify_slots says so
    take_state(binding, runs, role);
    update(binding, runs, own);
  };
  for (const Binding& binding : action_->bindings)
    switch (TSR_SLOT_ROLE(binding.slot)) {
      case TSR_ROLE_DESTINATION:
        pass(binding, TSR_HOME_VALUE, role_of_values(home));
        break;
      case TSR_ROLE_STATE: {
        const uint32_t role = TSR_HOME_STATE(TSR_SLOT_INDEX(binding.slot));
        pass(binding, role, home.roles[role]);
        break;
      }
      case TSR_ROLE_SOURCE:
        take_gradient(binding, runs);
        for (const HomeRun& run : runs) {
          ContentPart wanted{0, run.num_elements, {ContentKind::state}};
          wanted.content.index = run.parameter;
          wanted.content.role = TSR_HOME_GRADIENT;
          wanted.content.shift = static_cast<int64_t>(run.element);
          note_kept(-1, contents_.read(part_of(binding, run.offset, run.num_elements)), wanted);
        }
        break;
      default:
        break;
    }
  take_scalar(TSR_SCALAR_CLIP, 1);
  take_scalar(TSR_SCALAR_STEP, 1);
  take_scalar(TSR_SCALAR_LR, 0);
}

}  // namespace tessera::host

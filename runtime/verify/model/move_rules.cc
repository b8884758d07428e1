// Elementwise actions and calls. Copies and casts keep what a range holds, `add` puts sums of different addends
// together, `zero` empties an accumulator. With --reduce-every micro-batch:
//
//     57     add mb=0 home=ln_f  r %75 src  w %110 dst      %110 holds the addends of mb=0
//     117    add mb=1 home=ln_f  r %164 src  a %110 dst     and those of mb=1
//
// If line 117 read %75 again, the finding would be
//
//     rank 0 #117 compute add ln_f adds the gradient of ln_f.weight in staging ln_f mb=0 to the gradient of ln_f.weight
//     in gradient ln_f: such a sum is not in the model, or has an addend twice
//
// What a strategy's call makes only the strategy knows: it fits every need of the parameters whose gradients or states
// it was made of (verify_placement has its rules). Invariant: a sum has each addend once. Cost: linear in the pieces of
// source and destination.

#include <cmath>

#include "base/concat.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {
namespace {

bool is_sum(ContentKind kind) {
  return kind == ContentKind::gradient || kind == ContentKind::value_gradient || kind == ContentKind::loss ||
         kind == ContentKind::correct || kind == ContentKind::squares;
}

/// Also an accumulator to which nothing was added.
bool is_zero(const Content& content) {
  return content.kind == ContentKind::zero || (content.kind == ContentKind::squares && content.addends == 0);
}

ContentKind accumulator_kind(const Buffer& buffer) {
  if (buffer.kind != TSR_BUFFER_ACCUMULATOR) return ContentKind::zero;
  if (buffer.name == kLossAccumulator) return ContentKind::loss;
  if (buffer.name == kCorrectCount) return ContentKind::correct;
  return ContentKind::squares;
}

}  // namespace

std::optional<Content> sum_of(const Content& a, const Content& b, AddendSets& sets) {
  if (is_zero(b)) return a;
  if (is_zero(a)) return b;
  if (a.kind == ContentKind::opaque || b.kind == ContentKind::opaque) return sum_with_made(a, b, sets);
  Content sum = a;
  sum.addends = b.addends;
  sum.rounded = b.rounded;
  sum.is_sum_rounded = b.is_sum_rounded;
  if (!is_sum(a.kind) || sum != b) return std::nullopt;
  if (a.rounded != 0) sum.round_to(a.rounded);
  sum.is_sum_rounded = a.is_sum_rounded || b.is_sum_rounded;  // of micro-batches it is not rounded anew
  sum.addends = sets.united(a.addends, b.addends);
  if (sum.addends == kTwice) return std::nullopt;
  return sum;
}

void RankWalk::zero() {
  for (const Binding& binding : action_->bindings)
    if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_DESTINATION)
      contents_.write(binding, {accumulator_kind(program_.buffer(binding.buffer))});
}

/// Gradients keep their bits: by powers of two, as long as the dtype holds what was in it. Parameters that diverge may
/// be scaled where their strategy averages them.
void RankWalk::scale_content(Content& content, tsr_dtype dtype) {
  constexpr double kMaxFactor = 0x1p20;
  int exponent = 0;
  if (content.kind == ContentKind::gradient && std::abs(std::frexp(action_->scale, &exponent)) != 0.5)
    report(concat("scales ", text(content), " by ", action_->scale, ", which rounds; powers of two do not"));
  if (dtype == TSR_F16) report(concat("scales ", text(content), " in fp16, which loses small values and large ones"));
  content.scale_by(action_->scale);
  if (!(content.factor >= 1 / kMaxFactor && content.factor <= kMaxFactor))
    report(concat("leaves ", text(content), "; values of float32 are lost beyond 2^-20 and 2^20"));
}

void RankWalk::scale() {
  const Binding& binding = *action_->find(kDestination);
  ContentParts parts = contents_.read(binding);
  for (ContentPart& part : parts) {
    const ContentKind kind = part.content.kind;
    if (kind == ContentKind::gradient || (part.content.is_state() && diverges()))
      scale_content(part.content, program_.buffer(binding.buffer).dtype);
    else if (kind != ContentKind::opaque && kind != ContentKind::zero)
      part.content = {};
  }
  contents_.write(binding, parts);
}

/// A strategy's buffer from step to step. What it held before the step is nothing that the model names, and may be
/// added to, as a moving average does.
bool RankWalk::is_own_memory(const Binding& binding) const {
  const Buffer& buffer = program_.buffer(binding.buffer);
  return buffer.persistent && buffer.kind == TSR_BUFFER_PLUGIN;
}

/// What `source` holds, in the dtype of `destination`.
ContentParts RankWalk::stored(const Binding& source, const Binding& destination) {
  ContentParts parts = contents_.read(source);
  const tsr_dtype dtype = program_.buffer(destination.buffer).dtype;
  if (dtype == program_.buffer(source.buffer).dtype) return parts;
  for (ContentPart& part : parts) {
    if (dtype == TSR_F16 && part.content.factor != 1)
      report(concat("stores ", text(part.content), " in fp16, which loses other small and large values than unscaled"));
    part.content.round_to(dtype);
  }
  return parts;
}

/// Why a sum of gradients would round otherwise than the model's, or be of another dtype; empty: it does not. The sum
/// of micro-batches is made in float32 and in ascending order, one after another, and over ranks once, or with
/// --reduce-every micro-batch once for each.
std::string RankWalk::other_rounding(const Content& there, const Content& more, const Binding& destination) const {
  const bool are_gradients = there.kind == ContentKind::gradient && more.kind == ContentKind::gradient;
  if (!are_gradients || !there.addends || !more.addends) return "";
  const auto micro_batch = [&](const Content& sum, bool last) {
    const auto& addends = context_.sets.set(sum.addends);
    return needs_.micro_batch_of(sum.index, last ? addends.back() : addends.front());
  };
  const int last = micro_batch(there, true), first = micro_batch(more, false);
  if (last > first)
    return concat("the gradient of mb=", first, " to ", range_text(program_, destination),
                  ", which holds that of mb=", last, " already; micro-batches are added in ascending order");
  if (first != micro_batch(more, true))
    return concat("a sum of micro-batches to ", range_text(program_, destination), "; they are added one by one");
  if (there.summed != 0 && program_.step_config.reduce_every == TSR_EVERY_STEP)
    return concat("sums over ranks in ", range_text(program_, destination),
                  "; this job sums over them once a step (--reduce-every)");
  if (program_.step_config.reduce_every == TSR_EVERY_STEP && (there.rounded || more.rounded))
    return concat("micro-batches that were rounded to ", range_text(program_, destination),
                  "; their sum is rounded, once");
  if (TSR_DTYPE_BITS(program_.buffer(destination.buffer).dtype) != 32)
    return concat("micro-batches in ", dtype_name(program_.buffer(destination.buffer).dtype), " in ",
                  range_text(program_, destination), "; their sum is made in f32");
  return "";
}

void RankWalk::add_into(const Binding& source, const Binding& destination) {
  const ContentParts there = by_element(contents_.read(destination), homes_),
                     more = by_element(stored(source, destination), homes_);
  ContentParts sums;
  for (size_t i = 0, k = 0; i < there.size() && k < more.size();) {
    const uint64_t begin = std::max(there[i].offset, more[k].offset);
    const uint64_t there_end = there[i].offset + there[i].num_elements,
                   more_end = more[k].offset + more[k].num_elements;
    const bool is_unknown = (is_own_memory(destination) && there[i].content.kind == ContentKind::unknown) ||
                            (is_own_memory(source) && more[k].content.kind == ContentKind::unknown);
    const auto sum = is_unknown ? Content{} : sum_of(there[i].content, more[k].content, context_.sets);
    if (!sum) {
      report(concat("adds ", text(more[k].content), " in ", range_text(program_, source), " to ",
                    text(there[i].content), " in ", range_text(program_, destination),
                    ": such a sum is not in the model, or has an addend twice"));
      return contents_.write(destination, {ContentKind::opaque});
    }
    if (const std::string other = other_rounding(there[i].content, more[k].content, destination); !other.empty()) {
      report("adds " + other);
      return contents_.write(destination, {ContentKind::opaque});
    }
    append(sums, {begin, std::min(there_end, more_end) - begin, *sum});
    if (there_end <= more_end) ++i;
    if (more_end <= there_end) ++k;
  }
  contents_.write(destination, sums);
}

void RankWalk::elementwise() {
  if (action_->kind == TSR_ACTION_ZERO) return zero();
  if (action_->kind == TSR_ACTION_SCALE) return scale();
  const Binding& source = *action_->find(kSource);
  const Binding& destination = *action_->find(kDestination);
  if (destination.mode == TSR_MODE_ADD) return add_into(source, destination);
  contents_.write(destination, stored(source, destination));
}

void RankWalk::call() {
  std::vector<ContentParts> operands;
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_WRITE) operands.push_back(by_element(contents_.read(binding), homes_));
  const Content made = made_of(operands, context_.sets);
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_READ) contents_.write(binding, made);
}

}  // namespace tessera::host

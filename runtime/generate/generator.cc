// Two forwards, which share weights and caches: `start_` computes a prompt at once and is made anew for the length of
// each, `next_` computes one token and is made once.
//
//     start [a b c]    start_: rows 0 to 2 -> caches, logits of the token after c
//     append d         next_: row 3, attention to the caches
//     ...              the context is full: start [the later half, and the new token]

#include "generate/generator.h"

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

TokenInputs token_inputs(const Architecture& architecture) {
  const ModelInputs inputs = architecture.inputs();
  if (const auto* tokens = std::get_if<TokenInputs>(&inputs)) return *tokens;
  throw Error(TSR_E_UNSUPPORTED,
              "the model predicts classes, not tokens, so it cannot generate; give a language model");
}

}  // namespace

Generator::Generator(std::shared_ptr<const Architecture> architecture, const ParameterSource& weights,
                     const Device& device, int64_t context)
    : architecture_(std::move(architecture)),
      inputs_(token_inputs(*architecture_)),
      context_(context > 0 ? context : inputs_.max_seq),
      device_(device) {
  if (context_ > inputs_.max_seq)
    throw Error(TSR_E_INVALID_ARGUMENT, concat("a context of ", context_, " tokens was asked for, and the model has ",
                                               inputs_.max_seq, "; give fewer"));
  const Model model = architecture_->build({.batch = 1, .seq = 1});
  for (const Parameter& parameter : model.parameters)
    weights.read(parameter.name, 0, weights_.emplace_back(parameter.num_elements));
  for (const Segment& segment : model.segments)
    if (segment.op.kind == TSR_OP_ATTENTION)
      caches_.emplace_back(context_, segment.op.dims[TSR_DIM_HEADS], segment.op.dims[TSR_DIM_HEAD_DIM]);
  next_ = std::make_unique<Forward>(setup(), Forward::Rows::next, 1);
}

std::span<const float> Generator::start(std::span<const int32_t> prompt) {
  if (prompt.empty()) throw Error(TSR_E_INVALID_ARGUMENT, "the prompt has no token; give one");
  for (const int32_t token : prompt)
    if (token < 0 || token >= vocab())
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat("the prompt has the token ", token, ", and the model's are 0 to ", vocab() - 1));
  const auto taken = prompt.last(std::min(prompt.size(), static_cast<size_t>(context())));
  tokens_.assign(taken.begin(), taken.end());
  start_.reset();  // its memory, before the next one's
  start_ = std::make_unique<Forward>(setup(), Forward::Rows::first, static_cast<int64_t>(tokens_.size()));
  return start_->run(tokens_, 0);
}

std::span<const float> Generator::append(int32_t token) {
  if (std::ssize(tokens_) == context()) {
    const std::vector<int32_t> all = [&] {
      std::vector<int32_t> kept(tokens_.begin() + context() / 2, tokens_.end());
      kept.push_back(token);
      return kept;
    }();
    return start(all);
  }
  tokens_.push_back(token);
  return next_->run(std::span(&token, 1), std::ssize(tokens_) - 1);
}

}  // namespace tessera::host

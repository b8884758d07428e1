// Suggestions for unknown names: first a table of other frameworks' flags with the same meaning, then the nearest name.
//
// The distance is Damerau-Levenshtein in its restricted form (optimal string alignment): insertions, deletions,
// substitutions and swaps of neighbours cost one each. Three rows of the table are kept: O(len(a) len(b)) time,
// O(len(b)) memory. A third of the letters may differ; beyond that, suggestions are noise.

#include "config/did_you_mean.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera::host {
namespace {

struct ForeignFlag {
  std::string_view theirs;
  std::string_view ours;
};

// Spellings of Megatron-LM, nanoGPT, torchtitan, DeepSpeed and torchrun.
constexpr ForeignFlag kForeignFlags[] = {
    {"micro-batch-size", "--batch-size"},
    {"local-batch-size", "--batch-size"},
    {"train-micro-batch-size-per-gpu", "--batch-size"},
    {"global-batch-size", "--grad-accum (a step has batch-size x grad-accum x data ranks sequences)"},
    {"train-batch-size", "--grad-accum (a step has batch-size x grad-accum x data ranks sequences)"},
    {"gradient-accumulation-steps", "--grad-accum"},
    {"grad-accum-steps", "--grad-accum"},
    {"max-iters", "--steps"},
    {"train-iters", "--steps"},
    {"max-steps", "--steps"},
    {"iters", "--steps"},
    {"block-size", "--seq-len"},
    {"seq-length", "--seq-len"},
    {"sequence-length", "--seq-len"},
    {"context-length", "--seq-len"},
    {"learning-rate", "--lr"},
    {"warmup-iters", "--warmup-steps"},
    {"lr-warmup-iters", "--warmup-steps"},
    {"lr-decay-style", "--lr-schedule"},
    {"adam-beta1", "--beta1"},
    {"adam-beta2", "--beta2"},
    {"adam-eps", "--eps"},
    {"grad-clip", "--clip"},
    {"clip-grad", "--clip"},
    {"max-norm", "--clip"},
    {"gradient-clipping", "--clip"},
    {"nproc-per-node", "--nproc"},
    {"num-gpus", "--nproc"},
    {"world-size", "--nproc"},
    {"backend", "--comm"},
    {"dataset", "--data"},
    {"data-path", "--data"},
    {"val-data", "--eval-data"},
    {"eval-interval", "--eval-every"},
    {"eval-iters", "--eval-batches"},
    {"bf16", "--dtype bf16"},
    {"fp16", "--dtype fp16"},
    {"half", "--dtype fp16"},
    {"precision", "--dtype"},
    {"mixed-precision", "--dtype"},
    {"activation-checkpointing", "--recompute"},
    {"gradient-checkpointing", "--recompute"},
    {"out", "--save"},
    {"out-dir", "--save"},
    {"checkpoint", "--save"},
    {"save-interval", "--save-every"},
    {"checkpoint-every", "--save-every"},
    {"checkpoint-interval", "--save-every"},
    {"keep-latest-k", "--keep"},
    {"load", "--resume"},
    {"load-checkpoint", "--resume"},
    {"async-save", "--save-async"},
    {"dry-run", "tessera plan, which takes the same flags"},
    {"tensor-model-parallel-size", "--mesh tp=N with --strategy tp=tensor"},
    {"pipeline-model-parallel-size", "--mesh pp=N with --strategy pp=pipeline"},
};

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      // A swap of neighbours (--setps) is one mistake, not two.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view given, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest_flag(std::string_view given, std::span<const std::string> known) {
  for (const auto& [theirs, ours] : kForeignFlags)
    if (theirs == given) return "; use " + std::string(ours);
  const std::string near = nearest(given, known);
  return near.empty() ? "; see --help" : "; did you mean --" + near + "?";
}

}  // namespace tessera::host

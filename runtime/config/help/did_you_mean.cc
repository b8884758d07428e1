// Suggestions for unknown names: first a table of other frameworks' flags with the same meaning, then the nearest name.
//
// The distance is Damerau-Levenshtein in its restricted form (optimal string alignment): insertions, deletions,
// substitutions and swaps of neighbors cost one each. Three rows of the table are kept: O(len(a) len(b)) time,
// O(len(b)) memory. A third of the letters may differ; beyond that, suggestions are noise.
//
//     --learning-rate    use --lr               by the table
//     --setps            did you mean --steps?  one swap
//     --dropout          see --help             far from every flag
//
// The table comes first: --block-size is nearer to --batch-size than to --seq-len, which it means.

#include "config/help/did_you_mean.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace tessera::host {
namespace {

struct ForeignFlag {
  std::string_view theirs;
  std::string_view ours;
};

// What replaces several flags, as a sentence that goes on after "use ".
constexpr std::string_view kEventFiles = "--out FOLDER, which holds event files that TensorBoard reads";
constexpr std::string_view kMetricsFile = "--metrics FILE, which has a JSON object for each step";
constexpr std::string_view kTensor = "--mesh tp=N with --strategy tp=tensor";
constexpr std::string_view kPipeline = "--mesh pp=N with --strategy pp=pipeline";
constexpr std::string_view kBatch = "--grad-accum (a step has batch-size x grad-accum x data ranks sequences)";

// Of rows with one name the first counts whose flag the command has: --val-data is --eval-data of train, --data of
// eval. Spellings of Megatron-LM, nanoGPT, llm.c, torchtitan, DeepSpeed, Hugging Face's Trainer, Lightning and
// torchrun.
constexpr ForeignFlag kForeignFlags[] = {
    {"micro-batch-size", "--batch-size"},
    {"local-batch-size", "--batch-size"},
    {"device-batch-size", "--batch-size"},
    {"per-device-train-batch-size", "--batch-size"},
    {"train-micro-batch-size-per-gpu", "--batch-size"},
    {"batch", "--batch-size"},
    {"bs", "--batch-size"},
    {"global-batch-size", kBatch},
    {"total-batch-size", kBatch},
    {"train-batch-size", kBatch},
    {"gradient-accumulation-steps", "--grad-accum"},
    {"grad-accum-steps", "--grad-accum"},
    {"accumulate-grad-batches", "--grad-accum"},
    {"max-iters", "--steps"},
    {"train-iters", "--steps"},
    {"max-steps", "--steps"},
    {"num-iterations", "--steps"},
    {"iters", "--steps"},
    {"epochs", "--steps (an epoch is the data's tokens / the tokens of a step)"},
    {"max-epochs", "--steps (an epoch is the data's tokens / the tokens of a step)"},
    {"num-epochs", "--steps (an epoch is the data's tokens / the tokens of a step)"},
    {"num-train-epochs", "--steps (an epoch is the data's tokens / the tokens of a step)"},
    {"block-size", "--seq-len"},
    {"seq-length", "--seq-len"},
    {"sequence-length", "--seq-len"},
    {"max-seq-len", "--seq-len"},
    {"context-length", "--seq-len"},
    {"learning-rate", "--lr"},
    {"max-lr", "--lr"},
    {"warmup-iters", "--warmup-steps"},
    {"lr-warmup-iters", "--warmup-steps"},
    {"warmup", "--warmup-steps"},
    {"lr-decay-style", "--lr-schedule"},
    {"lr-scheduler-type", "--lr-schedule"},
    {"scheduler", "--lr-schedule"},
    {"adam-beta1", "--beta1"},
    {"adam-beta2", "--beta2"},
    {"adam-eps", "--eps"},
    {"momentum", "--beta1"},
    {"wd", "--weight-decay"},
    {"grad-clip", "--clip"},
    {"clip-grad", "--clip"},
    {"max-norm", "--clip"},
    {"max-grad-norm", "--clip"},
    {"gradient-clipping", "--clip"},
    {"gradient-clip-val", "--clip"},
    {"random-seed", "--seed"},
    {"manual-seed", "--seed"},
    {"rng-seed", "--seed"},
    {"data-seed", "--seed"},
    {"nproc-per-node", "--nproc"},
    {"num-gpus", "--nproc"},
    {"n-gpus", "--nproc"},
    {"gpus", "--nproc"},
    {"devices", "--nproc"},
    {"num-processes", "--nproc"},
    {"world-size", "--nproc"},
    {"backend", "--comm"},
    {"dist-backend", "--comm"},
    {"distributed-backend", "--comm"},
    {"zero", "--strategy"},
    {"zero-stage", "--strategy"},
    {"deepspeed", "--strategy"},
    {"tensor-parallel", kTensor},
    {"tensor-parallel-size", kTensor},
    {"tensor-model-parallel-size", kTensor},
    {"pipeline-parallel", kPipeline},
    {"pipeline-parallel-size", kPipeline},
    {"pipeline-model-parallel-size", kPipeline},
    {"cpu-offload", "--offload"},
    {"num-threads", "--threads"},
    {"dataset", "--data"},
    {"data-path", "--data"},
    {"train-data", "--data"},
    {"input-bin", "--data"},
    {"shuffle", "--data-order shuffled"},
    {"val-data", "--eval-data"},
    {"valid-data", "--eval-data"},
    {"validation-data", "--eval-data"},
    {"input-val-bin", "--eval-data"},
    {"val-data", "--data"},
    {"eval-data", "--data"},
    {"eval-interval", "--eval-every"},
    {"val-every", "--eval-every"},
    {"val-loss-every", "--eval-every"},
    {"eval-steps", "--eval-every"},
    {"val-check-interval", "--eval-every"},
    {"eval-iters", "--eval-batches"},
    {"limit-val-batches", "--eval-batches"},
    {"bf16", "--dtype bf16"},
    {"fp16", "--dtype fp16"},
    {"fp32", "--dtype float32"},
    {"half", "--dtype fp16"},
    {"amp", "--dtype bf16 or fp16"},
    {"precision", "--dtype"},
    {"mixed-precision", "--dtype"},
    {"activation-checkpointing", "--recompute"},
    {"gradient-checkpointing", "--recompute"},
    {"recompute-activations", "--recompute"},
    {"out-dir", "--save"},
    {"output-dir", "--save"},
    {"checkpoint", "--save"},
    {"checkpoint", "--model"},
    {"checkpoint-dir", "--save"},
    {"ckpt-dir", "--save"},
    {"save-dir", "--save"},
    {"resume-from", "--resume"},
    {"ckpt", "--resume"},
    {"logdir", kEventFiles},
    {"quiet", "--log-level warning"},
    {"verbose", "--log-level debug"},
    {"config-file", "--config"},
    {"force", "--overwrite"},
    {"save-interval", "--save-every"},
    {"save-steps", "--save-every"},
    {"checkpoint-every", "--save-every"},
    {"checkpoint-interval", "--save-every"},
    {"keep-latest-k", "--keep"},
    {"save-total-limit", "--keep"},
    {"load", "--resume"},
    {"load-checkpoint", "--resume"},
    {"resume-from-checkpoint", "--resume"},
    {"ckpt-path", "--resume"},
    {"async-save", "--save-async"},
    {"log-interval", "--log-every"},
    {"log-freq", "--log-every"},
    {"logging-steps", "--log-every"},
    {"log-every-n-steps", "--log-every"},
    {"wandb", kMetricsFile},
    {"wandb-log", kMetricsFile},
    {"wandb-project", kMetricsFile},
    {"tensorboard", kEventFiles},
    {"tensorboard-dir", kEventFiles},
    {"log-dir", kEventFiles},
    {"logger", kMetricsFile},
    {"report-to", kEventFiles},
    {"length", "--max-tokens"},
    {"temp", "--temperature"},
    {"start", "--prompt"},
    {"generate", "tessera generate FOLDER, which continues a text"},
    {"sample", "tessera generate FOLDER, which continues a text"},
    {"sample-every", "tessera generate FOLDER, which continues a text with what --save has saved"},
    {"dry-run", "tessera plan, which takes the same flags"},
    {"estimate-memory", "tessera plan, which takes the same flags"},
    {"fast-dev-run", "--steps 1"},
    {"tensor-parallel-degree", kTensor},
    {"tp", kTensor},
    {"pipeline-parallel-degree", kPipeline},
    {"data-parallel-replicate-degree", "--mesh dp=N"},
    {"data-parallel-shard-degree", "--mesh dp=N and --strategy"},
    {"enable-profiling", "--profile FROM:TO"},
    {"enable-tensorboard", kEventFiles},
    {"enable-wandb", kMetricsFile},
    {"pp", kPipeline},
    {"dp", "--mesh dp=N"},
    {"data-parallel-size", "--mesh dp=N"},
};

/// Types. By letters alone f16 is as near to bf16 as to fp16.
constexpr ForeignFlag kForeignChoices[] = {
    {"f16", "fp16"},     {"float16", "fp16"},  {"half", "fp16"},     {"f32", "float32"},
    {"fp32", "float32"}, {"float", "float32"}, {"bfloat16", "bf16"},
};

/// Of torchtitan, and of Lightning's command line.
constexpr std::string_view kSections[] = {
    "training", "optimizer",  "lr-scheduler", "parallelism", "checkpoint", "activation-checkpoint",
    "metrics",  "validation", "profiling",    "model",       "job",        "debug",
    "trainer",  "data"};

/// Flags whose last part alone does not say what they are.
constexpr ForeignFlag kSectionedFlags[] = {
    {"model.name", "--model"},
    {"model.flavor", "--model"},
    {"model.hf-assets-path", "--model FOLDER"},
    {"optimizer.name", "--optimizer"},
    {"checkpoint.enable", "--save FOLDER"},
    {"checkpoint.enable-checkpoint", "--save FOLDER"},
    {"checkpoint.folder", "--save FOLDER"},
    {"checkpoint.interval", "--save-every"},
    {"checkpoint.async-mode", "--save-async"},
    {"activation-checkpoint.mode", "--recompute"},
    {"validation.freq", "--eval-every"},
    {"validation.steps", "--eval-batches"},
    {"validation.dataset", "--eval-data"},
    {"lr-scheduler.decay-type", "--lr-schedule"},
    {"job.dump-folder", "--out FOLDER"},
    {"job.config-file", "--config"},
};

/// Whether the command has the flag that the hint begins with; another command can always be named.
bool is_possible(std::string_view hint, std::span<const std::string> known) {
  return !hint.starts_with("--") || std::ranges::count(known, hint.substr(2, hint.find(' ') - 2)) > 0;
}

std::string_view find_foreign(std::span<const ForeignFlag> flags, std::string_view theirs,
                              std::span<const std::string> known) {
  for (const auto& [name, ours] : flags)
    if (name == theirs && is_possible(ours, known)) return ours;
  return "";
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(std::min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
      // A swap of neighbors (--setps) is one mistake, not two.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view given, std::span<const std::string> known) {
  std::string best;
  // Of names with up to five letters one may differ: --lt is --lr.
  size_t best_distance = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string& name : known) {
    // The distance is at least the difference of the lengths: words of megabytes are far from all names.
    if (std::max(given.size(), name.size()) - std::min(given.size(), name.size()) >= best_distance) continue;
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_choice(std::string_view given, std::span<const std::string> known) {
  // Only where the choice has that value: --lr-schedule half is not fp16.
  for (const auto& [theirs, ours] : kForeignChoices)
    if (theirs == given && std::ranges::count(known, ours) > 0) return std::string(ours);
  return nearest(given, known);
}

std::string suggest_flag(std::string_view given, std::span<const std::string> known) {
  if (const std::string_view ours = find_foreign(kForeignFlags, given, known); !ours.empty())
    return concat("; use ", ours);
  if (given.starts_with("no-") && std::ranges::count(known, given.substr(3)) > 0)
    return concat("; use --", given.substr(3), "=false, or leave --", given.substr(3), " out");
  const std::string near = nearest(given, known);
  return near.empty() ? "; see --help" : "; did you mean --" + near + "?";
}

std::string suggest_sectioned_flag(std::string_view given, std::span<const std::string> known) {
  const size_t dot = given.find('.');
  if (dot == given.npos || std::ranges::count(kSections, given.substr(0, dot)) == 0) return "";
  if (const std::string_view ours = find_foreign(kSectionedFlags, given, known); !ours.empty())
    return concat("; use ", ours);
  const std::string_view name = given.substr(given.rfind('.') + 1);
  return std::ranges::count(known, name) > 0 ? concat("; use --", name) : suggest_flag(name, known);
}

}  // namespace tessera::host

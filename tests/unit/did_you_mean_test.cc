#include "config/help/did_you_mean.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::host {
namespace {

TEST(EditDistance, HasTheKnownValues) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1u);  // neighbors swapped
  EXPECT_EQ(edit_distance("lr", "lr"), 0u);
}

TEST(EditDistance, IsSymmetric) {
  EXPECT_EQ(edit_distance("min-lr", "lr"), edit_distance("lr", "min-lr"));
}

TEST(Nearest, FindsATypoAndNothingFarAway) {
  const std::vector<std::string> known = {"batch-size", "seq-len", "steps"};
  EXPECT_EQ(nearest("bach-size", known), "batch-size");
  EXPECT_EQ(nearest("step", known), "steps");
  EXPECT_EQ(nearest("metrics", known), "");
}

TEST(SuggestFlag, KnowsOtherFrameworks) {
  const std::vector<std::string> known = {"batch-size", "steps", "grad-accum", "seq-len", "lr", "nproc", "out"};
  EXPECT_EQ(suggest_flag("micro-batch-size", known), "; use --batch-size");
  EXPECT_EQ(suggest_flag("max-iters", known), "; use --steps");
  EXPECT_EQ(suggest_flag("train-iters", known), "; use --steps");
  EXPECT_EQ(suggest_flag("gradient-accumulation-steps", known), "; use --grad-accum");
  EXPECT_EQ(suggest_flag("block-size", known), "; use --seq-len");
  EXPECT_EQ(suggest_flag("learning-rate", known), "; use --lr");
  EXPECT_EQ(suggest_flag("nproc-per-node", known), "; use --nproc");
  EXPECT_EQ(suggest_flag("stpes", known), "; did you mean --steps?");
  EXPECT_EQ(suggest_flag("something-else", known), "; see --help");
  const std::string events = "; use --out FOLDER, which holds event files that TensorBoard reads";
  EXPECT_EQ(suggest_flag("report-to", known), events);
  EXPECT_EQ(suggest_flag("log-dir", known), events);
}

TEST(SuggestFlag, NamesFlagsThatTheCommandHas) {
  const std::vector<std::string> of_train = {"data", "eval-data", "save", "mesh", "strategy", "config"};
  EXPECT_EQ(suggest_flag("val-data", of_train), "; use --eval-data");
  EXPECT_EQ(suggest_flag("checkpoint", of_train), "; use --save");
  EXPECT_EQ(suggest_flag("tensor-model-parallel-size", of_train), "; use --mesh tp=N with --strategy tp=tensor");
  EXPECT_EQ(suggest_sectioned_flag("job.config-file", of_train), "; use --config");
  const std::vector<std::string> of_eval = {"data", "model"};
  EXPECT_EQ(suggest_flag("val-data", of_eval), "; use --data");
  EXPECT_EQ(suggest_flag("checkpoint", of_eval), "; use --model");
  EXPECT_EQ(suggest_flag("output-dir", of_eval), "; see --help");
  const std::vector<std::string> of_generate = {"prompt", "max-tokens"};
  EXPECT_EQ(suggest_flag("checkpoint", of_generate), "; see --help");
  EXPECT_EQ(suggest_flag("start", of_generate), "; use --prompt");
  EXPECT_EQ(suggest_flag("dry-run", of_generate), "; use tessera plan, which takes the same flags");
}

TEST(SuggestFlag, KnowsFlagsThatAreInSections) {
  const std::vector<std::string> known = {"batch-size", "steps", "seq-len", "lr", "save-every", "mesh"};
  EXPECT_EQ(suggest_sectioned_flag("training.steps", known), "; use --steps");
  EXPECT_EQ(suggest_sectioned_flag("optimizer.lr", known), "; use --lr");
  EXPECT_EQ(suggest_sectioned_flag("training.seq-len", known), "; use --seq-len");
  EXPECT_EQ(suggest_sectioned_flag("training.local-batch-size", known), "; use --batch-size");
  EXPECT_EQ(suggest_sectioned_flag("checkpoint.interval", known), "; use --save-every");
  EXPECT_EQ(suggest_sectioned_flag("parallelism.tensor-parallel-degree", known),
            "; use --mesh tp=N with --strategy tp=tensor");
  EXPECT_EQ(suggest_sectioned_flag("training.something-else", known), "; see --help");
  EXPECT_EQ(suggest_sectioned_flag("nothing.steps", known), "");  // may be meant for a plugin
  EXPECT_EQ(suggest_sectioned_flag("steps", known), "");
}

}  // namespace
}  // namespace tessera::host

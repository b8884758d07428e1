// The memory that a run needs to save and to load, beyond what it trains with: pieces, whatever the size of the model.
#include <gtest/gtest.h>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

/// 8.2 million parameters, so a checkpoint has 94 MiB, more than what is allowed.
constexpr double kCheckpoint = 12 * 8.2e6, kAllowed = 64 << 20;

class CheckpointMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    model_.write("config.json", R"({"model_type": "gpt2", "activation_function": "gelu_new", "n_layer": 1, "n_head": 2,
                                    "layer_norm_epsilon": 1e-05, "tie_word_embeddings": true, "vocab_size": 32000,
                                    "n_positions": 8, "n_embd": 256})");
  }

  /// Peak resident memory after the last step.
  double peak(const Flags& more) const {
    const TempFolder folder;
    Flags flags = {"train",          "--model",     model_.path(), "--data",    golden("/tokens.bin"),
                   "--batch-size=1", "--seq-len=8", "--threads=1", "--metrics", folder.path("m")};
    flags.insert(flags.end(), more.begin(), more.end());
    const CommandResult run = run_command(tessera(flags));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return read_metrics(folder.path("m")).back()["peak_memory_bytes"];
  }

  std::string saved() const { return folder_.path("run"); }

 private:
  const TempFolder model_, folder_;
};

TEST_F(CheckpointMemory, IsThatOfPieces) {
  const double plain = peak({"--steps=3"});
  const double saving = peak({"--steps=3", "--save-every=1", "--keep=1", "--save", saved()});
  EXPECT_LT(saving - plain, kAllowed);
  EXPECT_LT(peak({"--steps=5", "--resume", saved()}) - plain, kAllowed);
  const double beside = peak({"--steps=3", "--save-every=1", "--keep=1", "--save", saved() + "-2", "--save-async"});
  EXPECT_GT(beside - plain, kCheckpoint * 0.9) << "the copy is not seen";
  EXPECT_LT(beside - plain, kCheckpoint + kAllowed);
}

}  // namespace
}  // namespace tessera::testing

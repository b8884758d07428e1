// The perceptron against a reference in float64, and under every strategy against one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/examples/example_source.h"
#include "model/initial_values.h"
#include "parity/mesh_run.h"
#include "support/expect_error.h"
#include "support/idx_bytes.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

const std::string kDigits = source_dir("examples/digits/digits.csv.gz");
constexpr const char* kModel = "--model=mlp:64,32,24,10";

/// 12 micro-batches of 8 examples a step, whatever the ranks.
std::vector<std::string> flags(int num_data_ranks, std::vector<std::string> more = {"--lr=0.003"}) {
  std::vector<std::string> all = {kModel, "--data=" + kDigits, "--batch-size=8", "--steps=6",
                                  "--grad-accum=" + std::to_string(12 / num_data_ranks)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// ---- a reference ---------------------------------------------------------------------------------------------

/// The formulas of the perceptron, in float64: relu, softmax cross-entropy, plain gradient descent.
class Reference {
 public:
  explicit Reference(const std::vector<int64_t>& widths, uint64_t seed, double rate) : widths_(widths), rate_(rate) {
    const Model model = find_architecture(std::string(kModel).substr(8)).architecture->build({.batch = 1, .seq = 0});
    const InitialValues initial(seed, model.parameters);
    for (const Parameter& parameter : model.parameters) {
      std::vector<float> values(parameter.num_elements);
      initial.read(parameter.name, 0, values);
      parameters_.emplace_back(values.begin(), values.end());
    }
    gradients_ = parameters_;
  }

  struct Step {
    double loss = 0, norm = 0;
    int64_t num_correct = 0;
  };

  /// One step on these micro-batches: the mean loss, and then the update.
  Step step(const std::vector<std::vector<InputValues>>& micro_batches) {
    Step result;
    size_t num_examples = 0;
    for (auto& gradient : gradients_)
      std::ranges::fill(gradient, 0);
    for (const auto& batch : micro_batches) {
      const auto& features = std::get<std::vector<float>>(batch[0]);
      const auto& labels = std::get<std::vector<int32_t>>(batch[1]);
      for (size_t i = 0; i < labels.size(); ++i, ++num_examples)
        add_example({features.begin() + static_cast<ptrdiff_t>(i) * widths_[0],
                     features.begin() + static_cast<ptrdiff_t>(i + 1) * widths_[0]},
                    static_cast<size_t>(labels[i]), result);
    }
    const auto n = static_cast<double>(num_examples);
    result.loss /= n;
    for (size_t p = 0; p < parameters_.size(); ++p)
      for (size_t i = 0; i < parameters_[p].size(); ++i) {
        result.norm += gradients_[p][i] / n * gradients_[p][i] / n;
        parameters_[p][i] -= rate_ * gradients_[p][i] / n;
      }
    result.norm = std::sqrt(result.norm);
    return result;
  }

 private:
  using Vector = std::vector<double>;

  size_t width(size_t i) const { return static_cast<size_t>(widths_[i]); }

  void add_example(Vector x, size_t label, Step& result) {
    const size_t num_layers = widths_.size() - 1;
    std::vector<Vector> values{std::move(x)};  // of each layer's input, and the logits
    for (size_t l = 0; l < num_layers; ++l) {
      Vector y = parameters_[2 * l + 1];
      for (size_t i = 0; i < width(l); ++i)
        for (size_t o = 0; o < width(l + 1); ++o)
          y[o] += values[l][i] * parameters_[2 * l][i * width(l + 1) + o];
      if (l + 1 < num_layers)
        for (double& value : y)
          value = std::max(0.0, value);
      values.push_back(std::move(y));
    }
    Vector& logits = values.back();
    const auto largest = std::ranges::max_element(logits);
    result.num_correct += static_cast<size_t>(largest - logits.begin()) == label;
    const double most = *largest;
    double sum = 0;
    for (const double logit : logits)
      sum += std::exp(logit - most);
    result.loss += std::log(sum) + most - logits[label];
    Vector d(logits.size());
    for (size_t o = 0; o < d.size(); ++o)
      d[o] = std::exp(logits[o] - most) / sum - (o == label ? 1 : 0);
    for (size_t l = num_layers; l-- > 0;)
      d = backward(l, values[l], d);
  }

  /// Adds a layer's gradients; gives that of its input's argument.
  Vector backward(size_t l, const Vector& x, const Vector& d) {
    Vector dx(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t o = 0; o < d.size(); ++o) {
        gradients_[2 * l][i * d.size() + o] += x[i] * d[o];
        if (x[i] > 0 || l == 0) dx[i] += parameters_[2 * l][i * d.size() + o] * d[o];
      }
    for (size_t o = 0; o < d.size(); ++o)
      gradients_[2 * l + 1][o] += d[o];
    return dx;
  }

  const std::vector<int64_t> widths_;
  const double rate_;
  std::vector<Vector> parameters_, gradients_;
};

TEST(Mlp, FollowsAReferenceInFloat64) {
  const std::vector<std::string> sgd = {"--optimizer=sgd", "--beta1=0",        "--lr=0.2",
                                        "--clip=0",        "--weight-decay=0", "--seed=5"};
  const RunResult run = run_local(flags(1, sgd), 1);
  std::vector<std::string> given = flags(1, sgd);
  given.push_back("--plugin-dir=" + plugin_dir());
  const Job job = make_job(parse_flags(FlagSet::train, given), 1, Log(LogLevel::off));
  const auto data = open_data(job);
  const auto reader = data.training->reader(dataset_use(job));
  Reference reference({64, 32, 24, 10}, 5, 0.2);
  for (const StepMetrics& step : run.steps) {
    std::vector<std::vector<InputValues>> batches;
    for (int i = 0; i < 12; ++i, reader->advance())
      batches.push_back(reader->read(0));
    const Reference::Step expected = reference.step(batches);
    EXPECT_NEAR(step.loss, expected.loss, 1e-5 * expected.loss) << "step " << step.step;
    EXPECT_NEAR(step.grad_norm, expected.norm, 1e-4 * expected.norm) << "step " << step.step;
    ASSERT_TRUE(step.accuracy);
    EXPECT_NEAR(*step.accuracy * 96, static_cast<double>(expected.num_correct), 1e-9) << "step " << step.step;
  }
  EXPECT_EQ(run.steps.size(), 6u);
  EXPECT_EQ(run.steps[0].items, "examples");
  EXPECT_EQ(run.steps[5].tokens, 6 * 96);
}

// ---- strategies ----------------------------------------------------------------------------------------------

void expect_near(const RunResult& a, const RunResult& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  EXPECT_EQ(a.num_missing + a.num_contradictions, 0u);
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 1e-4 * b.steps[i].loss) << "step " << i;
    EXPECT_NEAR(a.steps[i].grad_norm, b.steps[i].grad_norm, 1e-4 * b.steps[i].grad_norm) << "step " << i;
    EXPECT_NEAR(*a.steps[i].accuracy, *b.steps[i].accuracy, 0.011) << "step " << i;  // one example of 96
  }
  for (const double loss : a.final_losses)
    EXPECT_EQ(loss, a.final_losses[0]);
}

class MlpOnMesh : public ::testing::TestWithParam<MeshRun> {};

TEST_P(MlpOnMesh, AgreesWithOneRank) {
  expect_near(GetParam().run(flags(GetParam().num_data_ranks)), run_local(flags(1), 1));
}

const MeshRun kMeshes[] = {
    {"dp=2", "dp=ddp", 2, 2},
    {"dp=3", "dp=fsdp", 3, 3},
    {"dp=3", "dp=zero3", 3, 3},
    {"pp=3", "pp=pipeline", 3, 1},
    {"pp=2,dp=2", "pp=pipeline,dp=fsdp", 4, 2},
    {"a=2,b=2", "a=ddp,b=fsdp", 4, 4},
    {"pp=2", "pp=pipeline", 2, 1, {"--pipeline.schedule=gpipe"}},
};
INSTANTIATE_TEST_SUITE_P(All, MlpOnMesh, ::testing::ValuesIn(kMeshes), mesh_name);

TEST(Mlp, StorageStrategiesHaveTheBitsOfDdp) {
  const RunResult ddp = run_local(flags(3), 3);
  for (const char* strategy : {"fsdp", "zero3"})
    EXPECT_EQ(first_difference(ddp, run_local(flags(3, {"--lr=0.003", std::string("--strategy=") + strategy}), 3)), "")
        << strategy;
}

TEST(Mlp, CommunicatorsTimeAndMemoryChangeNoBit) {
  const RunResult run = run_local(flags(2), 2);
  EXPECT_EQ(first_difference(run, run_local(flags(2), 2, "gloo")), "");
  EXPECT_EQ(first_difference(run, run_local(flags(2, {"--lr=0.003", "--debug-memory", "--stream-delay=7"}), 2)), "");
  EXPECT_EQ(first_difference(run, run_local(flags(2, {"--lr=0.003", "--ddp.bucket-mb=0.002"}), 2)), "");
}

TEST(Mlp, RecomputingChangesNoBit) {
  EXPECT_EQ(first_difference(run_local(flags(1), 1), run_local(flags(1, {"--lr=0.003", "--recompute=full"}), 1)), "");
}

TEST(Mlp, TrainsWithFrozenLayers) {
  for (const char* frozen : {"--freeze=layers.0.*", "--freeze=*.bias", "--freeze=layers.1.*"})
    expect_near(run_local(flags(2, {"--lr=0.003", frozen}), 2), run_local(flags(1, {"--lr=0.003", frozen}), 1));
}

TEST(Mlp, TrainsIn16Bits) {
  const RunResult wide = run_local(flags(1), 1);
  for (const char* dtype : {"--dtype=bf16", "--dtype=fp16"}) {
    const RunResult run = run_local(flags(2, {"--lr=0.003", dtype}), 2);
    for (size_t i = 0; i < run.steps.size(); ++i)
      EXPECT_NEAR(run.steps[i].loss, wide.steps[i].loss, 0.03 * wide.steps[i].loss) << dtype << " step " << i;
  }
}

TEST(Mlp, TensorParallelismIsRefused) {
  expect_error(
      [] {
        run_local(flags(1, {"--mesh=tp=2", "--strategy=tp=tensor"}), 2);
      },
      {"no heads, feed-forward columns or vocabulary", "another strategy"});
}

TEST(Mlp, AnEvaluationHasTheLossAndAccuracyOfTheNextStep) {
  double loss = 0, accuracy = 0;
  const AtEnd evaluate = [&](const Job& job, const Dataset& data, int rank, RankRuntime& runtime) {
    const auto reader = data.reader(dataset_use(job));
    for (int64_t i = 0; i < 5 * job.config.grad_accum; ++i)
      reader->advance();
    std::vector<MicroBatch> batches;
    for (int64_t i = 0; i < job.config.grad_accum; ++i, reader->advance())
      batches.push_back(reader->read(rank));
    const Evaluation evaluation = runtime.run_eval(batches);
    if (rank != 0) return;
    loss = evaluation.loss_sum() / 96;
    accuracy = static_cast<double>(evaluation.num_correct.value()) / 96;
  };
  std::vector<std::string> five = flags(2);
  std::ranges::replace(five, std::string("--steps=6"), std::string("--steps=5"));
  run_local(five, 2, "local", evaluate);
  const RunResult six = run_local(flags(2), 2);
  EXPECT_EQ(loss, six.steps[5].loss);
  EXPECT_EQ(accuracy, *six.steps[5].accuracy);
}

// ---- a real set of data --------------------------------------------------------------------------------------

/// Mean accuracy of the last 20 steps of 250, which see each of the 1,797 examples 13 times.
double final_accuracy(int num_ranks, const std::string& strategy, const std::string& comm,
                      const std::string& data = kDigits) {
  const RunResult run =
      run_local({"--model=mlp:64,32,10", "--data=" + data, "--batch-size=" + std::to_string(96 / num_ranks),
                 "--steps=250", "--lr=0.01", "--strategy=" + strategy},
                num_ranks, comm);
  double sum = 0;
  for (size_t i = run.steps.size() - 20; i < run.steps.size(); ++i)
    sum += *run.steps[i].accuracy;
  return sum / 20;
}

TEST(MlpOnDigits, LearnsThemUnderDdpOverGloo) {
  EXPECT_GT(final_accuracy(2, "ddp", "gloo"), 0.98);
}

/// The digits as MNIST is published: pixels of one byte, in two files.
void write_as_idx(const TempFolder& folder) {
  const auto csv = open_examples(kDigits, {{64, 10}, LabelColumn::last, DataScale::none});
  const auto n = static_cast<uint32_t>(csv->num_examples());
  std::vector<uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<float> features(all.size() * 64);
  std::vector<int32_t> labels(n);
  csv->read(all, features, labels);
  std::vector<uint8_t> pixels(features.size());
  std::ranges::transform(features, pixels.begin(), [](float gray) { return static_cast<uint8_t>(15 * gray); });
  folder.write("train-images-idx3-ubyte", idx_bytes(0x08, {n, 8, 8}, pixels));
  folder.write("train-labels-idx1-ubyte", idx_bytes(0x08, {n}, std::vector<uint8_t>(labels.begin(), labels.end())));
}

TEST(MlpOnDigits, LearnsThemFromIdxFiles) {
  const TempFolder folder;
  write_as_idx(folder);
  EXPECT_GT(final_accuracy(2, "ddp", "local", folder.path()), 0.98);
}

TEST(MlpOnDigits, LearnsThemUnderFsdp) {
  EXPECT_GT(final_accuracy(3, "fsdp", "local"), 0.98);
}

}  // namespace
}  // namespace tessera::testing

// The golden model's first loss, in float64 and by the definition of GPT-2: the folder and the data are read right.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "data/batch_order.h"
#include "model/gpt2/gpt2.h"
#include "model/gpt2/gpt2_family.h"
#include "weights/hf_folder.h"

#include "support/paths.h"

namespace tessera::host {
namespace {

const std::string kFolder = testing::source_dir("tests/golden/gpt2-nano");

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  // [tokens][columns]

class Gpt2Reference {
 public:
  Gpt2Reference() : weights_(kFolder, model_.parameters, gpt2_tensor_names()) {}

  /// Sum of the losses of one sequence.
  double loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const {
    const std::size_t embed = static_cast<std::size_t>(config_.embed);
    const Vector wte = read("wte.weight"), wpe = read("wpe.weight");
    Rows x(inputs.size(), Vector(embed));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < embed; ++c) {
        x[t][c] = wte[static_cast<std::size_t>(inputs[t]) * embed + c] + wpe[t * embed + c];
      }
    }
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string block = "h." + std::to_string(layer) + ".";
      add(x, linear(attention(linear(norm(x, block + "ln_1"), block + "attn.c_attn")), block + "attn.c_proj"));
      Rows hidden = linear(norm(x, block + "ln_2"), block + "mlp.c_fc");
      for (Vector& row : hidden) {
        for (double& value : row)
          value = gelu(value);
      }
      add(x, linear(hidden, block + "mlp.c_proj"));
    }
    double sum = 0;
    const Rows normed = norm(x, "ln_f");
    for (std::size_t t = 0; t < normed.size(); ++t) {
      Vector logits(static_cast<std::size_t>(config_.vocab), 0.0);
      for (std::size_t i = 0; i < wte.size(); ++i)
        logits[i / embed] += wte[i] * normed[t][i % embed];
      double total = 0;
      for (const double logit : logits)
        total += std::exp(logit);
      sum += std::log(total) - logits[static_cast<std::size_t>(targets[t])];
    }
    return sum;
  }

 private:
  Vector read(const std::string& name) const {
    const Parameter& parameter = model_.parameters[static_cast<std::size_t>(model_.parameter(name))];
    std::vector<float> values(parameter.num_elements);
    weights_.read(name, 0, values);
    return {values.begin(), values.end()};
  }

  Rows norm(const Rows& x, const std::string& name) const {
    const Vector weight = read(name + ".weight"), bias = read(name + ".bias");
    Rows out = x;
    for (Vector& row : out) {
      const auto n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double value : row)
        mean += value / n;
      for (const double value : row)
        variance += (value - mean) * (value - mean) / n;
      for (std::size_t c = 0; c < row.size(); ++c) {
        row[c] = (row[c] - mean) / std::sqrt(variance + config_.epsilon) * weight[c] + bias[c];
      }
    }
    return out;
  }

  // Conv1D: the weight is [in, out].
  Rows linear(const Rows& x, const std::string& name) const {
    const Vector weight = read(name + ".weight"), bias = read(name + ".bias");
    Rows out(x.size(), bias);
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < weight.size(); ++i)
        out[t][i % bias.size()] += x[t][i / bias.size()] * weight[i];
    }
    return out;
  }

  Rows attention(const Rows& qkv) const {
    const auto embed = static_cast<std::size_t>(config_.embed), heads = static_cast<std::size_t>(config_.num_heads);
    const std::size_t width = embed / heads;
    Rows out(qkv.size(), Vector(embed, 0.0));
    for (std::size_t head = 0; head < embed; head += width) {
      for (std::size_t t = 0; t < qkv.size(); ++t) {
        Vector weights(t + 1, 0.0);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t c = head; c < head + width; ++c)
            weights[s] += qkv[t][c] * qkv[s][embed + c];
          weights[s] = std::exp(weights[s] / std::sqrt(static_cast<double>(width)));
          total += weights[s];
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t c = head; c < head + width; ++c)
            out[t][c] += weights[s] / total * qkv[s][2 * embed + c];
        }
      }
    }
    return out;
  }

  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  static void add(Rows& x, const Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < x[t].size(); ++c)
        x[t][c] += y[t][c];
    }
  }

  Gpt2Config config_ = read_gpt2_config(ConfigFile(kFolder + "/config.json")).config;
  Model model_ = make_gpt2(config_, {});
  HuggingFaceWeights weights_;
};

TEST(GoldenLoss, OfTheFirstStep) {
  std::ifstream in(kFolder + "/trajectory.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  const auto batch = golden["batch_size"].get<std::size_t>(), seq = golden["seq_len"].get<std::size_t>();
  const auto data_ranks = golden["dp"].get<int64_t>(), grad_accum = golden["grad_accum"].get<int64_t>();

  const Gpt2Reference reference;
  const auto tokens = open_tokens(kFolder + "/tokens.bin", 96);
  BatchOrder order(*tokens, static_cast<int64_t>(batch), static_cast<int64_t>(seq), data_ranks);
  std::vector<int32_t> inputs(batch * seq), targets(batch * seq);
  double sum = 0;
  for (int64_t micro_step = 0; micro_step < grad_accum; ++micro_step, order.advance()) {
    for (int64_t rank = 0; rank < data_ranks; ++rank) {
      order.read(rank, inputs, targets);
      for (std::size_t row = 0; row < batch; ++row) {
        sum += reference.loss(std::span(inputs).subspan(row * seq, seq), std::span(targets).subspan(row * seq, seq));
      }
    }
  }
  const double mean = sum / static_cast<double>(batch * seq) / static_cast<double>(data_ranks * grad_accum);
  EXPECT_NEAR(mean, golden["loss"][0].get<double>(), 1e-9);
}

}  // namespace
}  // namespace tessera::host

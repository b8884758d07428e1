// The perceptron as the host sees it: its name has all of its dimensions, so there are no files and no sizes to know.

#include "model/mlp/mlp_family.h"

#include "base/concat.h"
#include "model/mlp/mlp.h"

namespace tessera::host {
namespace {

class Mlp final : public Architecture {
 public:
  explicit Mlp(MlpConfig config) : config_(std::move(config)) {}

  Model build(const BatchShape& shape) const override { return make_mlp(config_, shape); }
  ModelInputs inputs() const override { return ExampleInputs{config_.widths.front(), config_.widths.back()}; }
  int64_t num_layers() const override { return config_.num_layers(); }
  int64_t num_segments() const override { return config_.num_layers() + 1; }

  std::vector<ModelFact> facts() const override {
    std::string widths;
    for (const int64_t width : config_.widths)
      widths += concat(widths.empty() ? "" : ",", width);
    return {{"widths of the model", widths}, {"activation of the model", activation()}};
  }
  std::string summary() const override {
    return concat(counted(config_.num_layers(), "layer"), ", ", config_.widths.front(), " features, ",
                  config_.widths.back(), " classes, ", activation());
  }

 private:
  std::string activation() const { return config_.activation == TSR_ACTIVATION_RELU ? "relu" : "gelu"; }

  MlpConfig config_;
};

class MlpFamily final : public ArchitectureFamily {
 public:
  std::vector<std::string> names() const override { return {}; }
  std::string pattern() const override { return "mlp:INPUTS,HIDDEN,...,CLASSES"; }
  std::string help() const override {
    return "mlp:784,256,10 or mlp:784,256,10:gelu (random weights): a classifier with\n"
           "    these widths and relu or gelu; --data holds features and labels, CSV or IDX\n"
           "    (MNIST's format)";
  }
  std::shared_ptr<const Architecture> by_name(std::string_view name) const override {
    if (name != "mlp" && !name.starts_with("mlp:")) return nullptr;
    return std::make_shared<Mlp>(parse_mlp(name));
  }
};

}  // namespace

const ArchitectureFamily& mlp_family() {
  static const MlpFamily family;
  return family;
}

}  // namespace tessera::host

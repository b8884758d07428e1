// tensor, but the first sum it inserts, that of the embedding, is forgotten on all ranks alike.
#include "edit_recorder.h"
#include "tensor.h"

namespace {

class FaultyTensor final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "faulty-tensor";
  FaultyTensor(std::string_view axis, std::span<const tsr_option_value> options) : tensor_(axis, options) {}

  void layout(const tessera::ProgramView& view, const tessera::LayoutSink& sink) const override {
    tensor_.layout(view, sink);
  }
  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    const tessera::testing::EditRecorder recorder(edit);
    tensor_.lower(view, recorder.edit());
    const auto sums = recorder.of_kind(TSR_ACTION_ALL_REDUCE);
    if (!sums.empty()) edit.remove(sums.front().id);
  }

 private:
  tessera::tensor::Tensor tensor_;
};

constexpr tsr_option kOptions[] = {tessera::bool_option("sequence-parallel", "false", "as tensor's")};
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("faulty-tensor", TSR_KIND_STRATEGY, "org.tessera.tests.faulty-tensor", "1",
                        "forgets to sum the embedding", kOptions);
using Table = tessera::StrategyTable<FaultyTensor, TSR_STRATEGY_SPLIT_COMPUTE, TSR_SPLITS_TENSORS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

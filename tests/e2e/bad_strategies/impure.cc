// ddp, but the first step program that a thread plans has a barrier more: the same on all ranks, and not the same
// twice.
#include "ddp.h"

namespace {

class Impure final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "impure";
  Impure(std::string_view axis, std::span<const tsr_option_value> options) : ddp_(axis, options) {}

  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    static thread_local int num_calls = 0;
    ddp_.lower(view, edit);
    if (view.raw.purpose != TSR_PURPOSE_STEP || num_calls++ > 0) return;
    tsr_action barrier = tessera::make_action(TSR_ACTION_BARRIER, edit.stream(view.raw.axis, "gradient"));
    barrier.group = edit.group(view.raw.axis);
    edit.insert(0, TSR_AFTER, barrier, {});
  }

 private:
  tessera::ddp::Ddp ddp_;
};

constexpr tsr_option kOptions[] = {tessera::float_option("bucket-mb", "25", 1e-6, 65536, "as ddp's")};
constexpr tsr_descriptor kDescriptor = tessera::descriptor("impure", TSR_KIND_STRATEGY, "org.tessera.tests.impure", "1",
                                                           "plans another program each time", kOptions);
using Table = tessera::StrategyTable<Impure, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

// ddp, but not on coordinate 0 the same as elsewhere, and it does not say so.
#include "ddp.h"

namespace {

class Secretive final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "secretive";
  Secretive(std::string_view axis, std::span<const tsr_option_value> options) : ddp_(axis, options) {}

  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    ddp_.lower(view, edit);
    if (view.axis().coordinate == 0 || view.raw.purpose != TSR_PURPOSE_STEP) return;
    tsr_action barrier = tessera::make_action(TSR_ACTION_BARRIER, edit.stream(view.raw.axis, "gradient"));
    barrier.group = edit.group(view.raw.axis);
    edit.insert(0, TSR_AFTER, barrier, {});
  }

 private:
  tessera::ddp::Ddp ddp_;
};

constexpr tsr_option kOptions[] = {tessera::float_option("bucket-mb", "25", 1e-6, 65536, "as ddp's")};
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("secretive", TSR_KIND_STRATEGY, "org.tessera.tests.secretive", "1",
                        "depends on its coordinate without saying so", kOptions);
using Table = tessera::StrategyTable<Secretive, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

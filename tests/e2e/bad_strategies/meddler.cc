// Says how an axis that is not its own cuts a parameter.
#include "tessera/strategy.hpp"

namespace {

class Meddler final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "meddler";
  Meddler(std::string_view, std::span<const tsr_option_value>) {}
  void lower(const tessera::ProgramView&, const tessera::Edit&) const override {}

  void layout(const tessera::ProgramView& view, const tessera::LayoutSink& sink) const override {
    tsr_layout_entry split{};
    split.axis = view.raw.axis + 1;
    split.kind = TSR_LAYOUT_REPLICATED;
    split.roles = TSR_ALL_HOME_ROLES;
    sink.add_entry(split);
  }
};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("meddler", TSR_KIND_STRATEGY, "org.tessera.tests.meddler", "1", "lays out what is not its own");
using Table = tessera::StrategyTable<Meddler, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

// Sums no gradient, on any rank: nothing races, all ranks match, and the ranks' parameters drift apart.
#include "tessera/strategy.hpp"

namespace {

class Forgetful final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "forgetful";
  Forgetful(std::string_view, std::span<const tsr_option_value>) {}
  void lower(const tessera::ProgramView&, const tessera::Edit&) const override {}
};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("forgetful", TSR_KIND_STRATEGY, "org.tessera.tests.forgetful", "1", "forgets to sum gradients");
using Table = tessera::StrategyTable<Forgetful, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

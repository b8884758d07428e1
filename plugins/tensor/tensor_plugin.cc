#include "tensor.h"

namespace {

constexpr tsr_option kOptions[] = {tessera::bool_option(
    "sequence-parallel", "false",
    "split the tokens of norms and residuals over the ranks: less activation memory, the same traffic")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "tensor", TSR_KIND_STRATEGY, "org.tessera.tensor", "0.12.0",
    "tensor parallelism: heads, feed-forward columns and vocabulary are split over the axis", kOptions, "Tessera");

using Table = tessera::StrategyTable<tessera::tensor::Tensor, TSR_STRATEGY_SPLIT_COMPUTE, TSR_SPLITS_TENSORS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

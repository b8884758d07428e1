#include "zero3.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::int_option("stage", "3", 1, 3,
                        "kept by the owner only: 1: optimizer state; 2: also summed gradients; 3: also parameters"),
    tessera::string_option("partition", "balanced", "balanced|contiguous|round_robin",
                           "owner of each tensor: the largest first, to the rank with the fewest elements; equal "
                           "ranges in model order; in turn"),
    tessera::string_option(
        "reshard-after-forward", "auto", "auto|true|false",
        "stage 3: free broadcast parameters after the forward; auto: true, but false with a pipeline"),
    tessera::int_option("prefetch", "1", 0, 64, "stage 3: number of units ahead for which parameters are broadcast"),
    tessera::string_option("backward-prefetch", "pre", "pre|post|none",
                           "in the backward, prefetch before a unit's compute (pre), after it (post), or not at all"),
    tessera::int_option("limit-all-gathers", "0", 0, 4096,
                        "maximum number of broadcast units alive at once; 0: 1 + prefetch, as needed")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "zero3", TSR_KIND_STRATEGY, "org.tessera.zero3", "0.12.0",
    "data parallelism with owners: each tensor's optimizer state, gradient and value are on one rank", kOptions,
    "Tessera");

using Table = tessera::StrategyTable<tessera::zero3::Zero3, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH,
                                     TSR_STRATEGY_SHARDS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

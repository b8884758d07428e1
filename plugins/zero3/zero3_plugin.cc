#include "zero3.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::int_option("stage", "3", 1, 3,
                        "what only the owner keeps. 1: optimizer state; 2: and summed gradients; 3: and parameters"),
    tessera::string_option("partition", "balanced", "balanced|contiguous|round_robin",
                           "who owns which tensor: largest first to who has least; runs in model order; in turn"),
    tessera::string_option(
        "reshard-after-forward", "auto", "auto|true|false",
        "stage 3: give up broadcast parameters after the forward; auto: yes, but not under a pipeline"),
    tessera::int_option("prefetch", "1", 0, 64, "stage 3: how many units ahead parameters are broadcast"),
    tessera::string_option("backward-prefetch", "pre", "pre|post|none",
                           "in the backward, broadcast ahead before a unit's compute, after it, or not"),
    tessera::int_option("limit-all-gathers", "0", 0, 4096,
                        "most broadcast units alive at once; 0: 1 + prefetch, as needed")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "zero3", TSR_KIND_STRATEGY, "org.tessera.zero3", "0.9.0",
    "data parallel with owners: each tensor's state, gradient and value stand on one rank", kOptions);

using Table = tessera::StrategyTable<tessera::zero3::Zero3, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH,
                                     TSR_STRATEGY_SHARDS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

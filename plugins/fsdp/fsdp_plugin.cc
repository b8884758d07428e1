#include "fsdp.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::string_option("sharding", "full_shard", "full_shard|shard_grad_op|optimizer_only|no_shard",
                           "what is split over the axis: parameters, gradients and optimizer state (ZeRO-3); the same, "
                           "with parameters gathered once per step (ZeRO-2); optimizer state only (ZeRO-1); nothing"),
    tessera::string_option(
        "reshard-after-forward", "auto", "auto|true|false",
        "free gathered parameters after the forward; auto: true for full_shard, but false with a pipeline"),
    tessera::int_option("prefetch", "1", 0, 64, "number of units ahead for which parameters are gathered"),
    tessera::string_option("backward-prefetch", "pre", "pre|post|none",
                           "in the backward, prefetch before a unit's compute (pre), after it (post), or not at all"),
    tessera::int_option("limit-all-gathers", "0", 0, 4096,
                        "maximum number of gathered units alive at once; 0: 1 + prefetch, as needed"),
    tessera::string_option("wrap", "unit", "",
                           "parameters gathered together: unit, size:BYTES or min-params:N (consecutive units up to "
                           "that size), or root (the whole model)")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "fsdp", TSR_KIND_STRATEGY, "org.tessera.fsdp", "0.12.0",
    "fully sharded data parallelism: each rank owns a slice of parameters, gradients and optimizer state", kOptions,
    "Tessera");

using Table = tessera::StrategyTable<tessera::fsdp::Fsdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH,
                                     TSR_STRATEGY_SHARDS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

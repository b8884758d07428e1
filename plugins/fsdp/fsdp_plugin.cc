#include "fsdp.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::string_option(
        "sharding", "full_shard", "full_shard|shard_grad_op|optimizer_only|no_shard",
        "what is cut over the axis: everything (ZeRO-3); everything, parameters gathered once a step "
        "(ZeRO-2); optimizer state only (ZeRO-1); nothing"),
    tessera::string_option("reshard-after-forward", "auto", "auto|true|false",
                           "give up gathered parameters after the forward; auto: as the sharding says, and not under a "
                           "pipeline"),
    tessera::int_option("prefetch", "1", 0, 64, "how many units ahead parameters are gathered"),
    tessera::string_option("backward-prefetch", "pre", "pre|post|none",
                           "in the backward, gather ahead before a unit's compute, after it, or not"),
    tessera::int_option("limit-all-gathers", "0", 0, 4096,
                        "most gathered units alive at once; 0: 1 + prefetch, as needed"),
    tessera::string_option("wrap", "unit", "",
                           "what is gathered together: unit, size:BYTES, min-params:N (units until a group is that "
                           "large), or root (the whole model)")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "fsdp", TSR_KIND_STRATEGY, "org.tessera.fsdp", "0.9.0",
    "fully sharded data parallel: each rank owns a slice of parameters, gradients and optimizer state", kOptions);

using Table = tessera::StrategyTable<tessera::fsdp::Fsdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH,
                                     TSR_STRATEGY_SHARDS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

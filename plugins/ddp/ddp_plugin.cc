#include "ddp.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::float_option("bucket-mb", "25", 1e-6, 65536, "gradients are summed in buckets of about this many MiB")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "ddp", TSR_KIND_STRATEGY, "org.tessera.ddp", "0.12.0",
    "data parallelism: all parameters on every rank, gradients summed in buckets during the backward", kOptions,
    "Tessera");

using Table = tessera::StrategyTable<tessera::ddp::Ddp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

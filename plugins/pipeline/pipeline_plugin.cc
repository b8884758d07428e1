#include "pipeline.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::string_option("schedule", "1f1b", "gpipe|1f1b|interleaved_1f1b",
                           "order of micro-batches: all forwards first; a backward as soon as there is one; the same "
                           "over several parts of the model on each stage (a smaller bubble)"),
    tessera::int_option("virtual-stages", "1", 1, 1024, "parts of the model on each stage, for interleaved_1f1b"),
    tessera::string_option("cut", "auto", "",
                           "where parts begin: auto (the most expensive is as cheap as it can be), even (equally many "
                           "blocks), or the names of their first segments or units: h.4,h.8")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "pipeline", TSR_KIND_STRATEGY, "org.tessera.pipeline", "0.9.0",
    "pipeline parallel: each rank runs a part of the model, micro-batches pass from stage to stage", kOptions);

using Table = tessera::StrategyTable<tessera::pipeline::Pipeline, TSR_STRATEGY_SCHEDULE, TSR_SPLITS_LAYERS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

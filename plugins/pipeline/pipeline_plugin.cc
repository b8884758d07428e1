#include "pipeline.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::string_option("schedule", "1f1b", "gpipe|1f1b|interleaved_1f1b",
                           "order of micro-batches: gpipe: all forwards first; 1f1b: a backward as soon as possible; "
                           "interleaved_1f1b: 1f1b over several parts of the model per stage (a smaller bubble)"),
    tessera::int_option("virtual-stages", "1", 1, 1024, "parts of the model per stage, for interleaved_1f1b"),
    tessera::string_option("cut", "auto", "",
                           "where parts begin: auto (minimizes the cost of the most expensive part), even (equal "
                           "numbers of blocks), or the names of their first segments or units: h.4,h.8")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "pipeline", TSR_KIND_STRATEGY, "org.tessera.pipeline", "0.12.0",
    "pipeline parallelism: each rank runs a part of the model, micro-batches pass from stage to stage", kOptions,
    "Tessera");

using Table = tessera::StrategyTable<tessera::pipeline::Pipeline, TSR_STRATEGY_SCHEDULE, TSR_SPLITS_LAYERS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

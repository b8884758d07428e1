#include "optimizer_state.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::float_option("fraction", "1", 0, 1, "the share of the state's bytes that leaves, spread over the model"),
    tessera::string_option("states", "all", "all|m|v",
                           "what leaves: AdamW's first moment m, its second moment v, both"),
    tessera::bool_option("gradients", "false", "gradients leave too, between their micro-batches and until the update"),
    tessera::kUpdateOption,
    tessera::int_option("ahead", "2", 0, 64, "visits by which a chunk of state is fetched before its update"),
    tessera::int_option("linger", "1", 0, 64, "visits for which a chunk keeps its device memory after its update")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "optimizer-state", TSR_KIND_OFFLOAD, "org.tessera.optimizer-state-offload", "0.12.0",
    "optimizer state rests in host memory and visits the device for its update", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::optimizer_state::OptimizerState, TSR_OFFLOAD_CUTS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

#include "optimizer_state.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::float_option("fraction", "1", 0, 1,
                          "the share of the state's bytes that is offloaded, spread over the model"),
    tessera::string_option("states", "all", "all|m|v",
                           "what leaves: AdamW's first moment m, its second moment v, both"),
    tessera::bool_option("gradients", "false",
                         "offload gradients too, between their micro-batches and until the update"),
    tessera::kUpdateOption,
    tessera::int_option("ahead", "2", 0, 64,
                        "how early a chunk of state is fetched, in visits (forward, backward or update of a block)"),
    tessera::int_option("linger", "1", 0, 64, "how long a chunk keeps its device memory after its update, in visits")};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "optimizer-state", TSR_KIND_OFFLOAD, "org.tessera.optimizer-state-offload", "0.12.0",
    "optimizer state rests in host memory and visits the device for its update", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::optimizer_state::OptimizerState, TSR_OFFLOAD_CUTS_HOMES>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

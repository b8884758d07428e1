#include "stream.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::float_option("fraction", "1", 0, 1, "the share of the bytes that is offloaded, spread over the model"),
    tessera::string_option("keep", "", "", "units that stay, with commas between them: wte,ln_f"),
    tessera::bool_option("gradients", "true",
                         "offload gradients too, between their micro-batches and until the update"),
    tessera::kUpdateOption,
    tessera::int_option("ahead", "1", 0, 64,
                        "how early a tensor is fetched, in visits (forward, backward or update of a block)"),
    tessera::int_option("linger", "1", 0, 64, "how long an offloaded tensor keeps its device memory, in visits")};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("stream", TSR_KIND_OFFLOAD, "org.tessera.stream-offload", "0.12.0",
                        "parameters, gradients and optimizer state come and go, block by block", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::stream::Stream, TSR_OFFLOAD_CUTS_HOMES | TSR_OFFLOAD_CASTS_ANEW>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

#include "stream.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::float_option("fraction", "1", 0, 1, "the share of the bytes that leaves, spread over the model"),
    tessera::string_option("keep", "", "", "units that stay, with commas between them: wte,ln_f"),
    tessera::bool_option("gradients", "true", "gradients leave too, between their micro-batches and until the update"),
    tessera::kUpdateOption,
    tessera::int_option("ahead", "1", 0, 64, "visits by which a tensor is fetched before its use"),
    tessera::int_option("linger", "1", 0, 64, "visits for which a tensor that leaves keeps its device memory")};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("stream", TSR_KIND_OFFLOAD, "org.tessera.stream-offload", "0.12.0",
                        "parameters, gradients and optimizer state come and go, block by block", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::stream::Stream, TSR_OFFLOAD_CUTS_HOMES | TSR_OFFLOAD_CASTS_ANEW>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

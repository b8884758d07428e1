#include "fit.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::float_option("margin", "0.02", 0, 0.9,
                          "the share of --device-memory that stays free beside what is in use at once: what placing "
                          "it takes"),
    tessera::int_option("ahead", "1", 0, 64,
                        "how early a tensor is fetched, in visits (forward, backward or update of a block)"),
    tessera::int_option("linger", "1", 0, 64, "how long an offloaded tensor keeps its device memory, in visits")};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("fit", TSR_KIND_OFFLOAD, "org.tessera.fit-offload", "0.12.0",
                        "the fewest moves with which the step fits --device-memory", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::fit::Fit, TSR_OFFLOAD_CUTS_HOMES | TSR_OFFLOAD_CASTS_ANEW>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

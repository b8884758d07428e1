#include "activations.h"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::kPlaceOption,
    tessera::string_option("what", "all", "saved|values|all",
                           "what leaves: tensors that the forward saves for the backward, the values between segments, "
                           "or both"),
    tessera::float_option("fraction", "1", 0, 1, "the share of these bytes that is offloaded, spread over the model"),
    tessera::int_option("min-bytes", "1048576", 0, 1e15, "smaller tensors stay"),
    tessera::int_option("ahead", "1", 0, 64,
                        "how early a tensor is fetched, in visits (forward, backward or update of a block)"),
    tessera::int_option("linger", "1", 0, 64, "how long an offloaded tensor keeps its device memory, in visits")};

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("activations", TSR_KIND_OFFLOAD, "org.tessera.activations-offload", "0.12.0",
                        "activations wait in host memory between forward and backward", kOptions, "Tessera");

using Table = tessera::OffloadTable<tessera::activations::Activations>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_OFFLOAD_INTERFACE, Table::kInterface)

// The ABI edge of nccl-comm. It does not claim CANONICAL_SUM, since NCCL adds in an order of its own. It needs no
// workspace, since NCCL has its own buffers.
#include "nccl-comm/enqueue.h"
#include "nccl-comm/nccl_comm.h"
#include "tessera/plugin.hpp"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::bool_option("launch-order", "false",
                         "the GPU starts the collectives of all communicators in the order of the step "
                         "(NCCL_LAUNCH_ORDER_IMPLICIT=1): with less overlap, and none waits for one that cannot start"),
    tessera::int_option(
        "max-channels", "0", 0, 64,
        "multiprocessors of the GPU that one collective takes at most, one for each of NCCL's channels; "
        "0: as many as NCCL chooses")};

struct Plugin {
  static constexpr const char* kName = "nccl-comm";
  static constexpr tsr_str kStreamKinds[] = {tessera::literal("cuda.stream")};

  static void caps(std::string_view stream_kind, tsr_comm_caps& caps) {
    if (stream_kind != tessera::view(kStreamKinds[0]))
      throw tessera::Error(TSR_E_UNSUPPORTED,
                           "[nccl-comm] supports streams of the kind cuda.stream, not " + std::string(stream_kind));
    caps.flags = TSR_COMM_CAPTURABLE;
    caps.collectives = (uint64_t{2} << TSR_COLL_BARRIER) - (uint64_t{1} << TSR_COLL_ALL_REDUCE);
    caps.reduces = (uint64_t{2} << TSR_REDUCE_MAX) - (uint64_t{1} << TSR_REDUCE_SUM);
    caps.dtypes = tessera::nccl_comm::kDtypes;
    caps.num_dtypes = std::size(tessera::nccl_comm::kDtypes);
    caps.stream_kinds = kStreamKinds;
    caps.num_stream_kinds = std::size(kStreamKinds);
  }
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args& args) {
    tessera::nccl_comm::Settings settings;
    for (const tsr_option_value& option : std::span(args.options, args.num_options)) {
      if (tessera::view(option.name) == "launch-order") settings.keeps_order = option.i != 0;
      if (tessera::view(option.name) == "max-channels") settings.max_channels = static_cast<int>(option.i);
    }
    return std::make_unique<tessera::nccl_comm::NcclCommunicator>(args, settings);
  }
};

constexpr tsr_communicator_interface kTable = tessera::communicator_table<Plugin>();
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("nccl", TSR_KIND_COMMUNICATOR, "org.tessera.nccl-comm", "0.12.0",
                        "ranks as processes with a GPU each, over NCCL", kOptions, "Tessera");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)

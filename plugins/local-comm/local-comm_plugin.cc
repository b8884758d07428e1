// The ABI edge of local-comm. Ranks in other processes are refused by join_shared_state, in a sentence that names both
// processes.
#include "local-comm/local_comm.h"
#include "tessera/plugin.hpp"

namespace {

struct Plugin {
  static constexpr const char* kName = "local-comm";
  static constexpr tsr_str kStreamKinds[] = {tessera::literal("cpu.queue")};

  static void caps(std::string_view stream_kind, tsr_comm_caps& caps) {
    if (stream_kind != tessera::view(kStreamKinds[0]))
      throw tessera::Error(TSR_E_UNSUPPORTED,
                           "[local-comm] supports streams of the kind cpu.queue, not " + std::string(stream_kind));
    caps.flags = TSR_COMM_CANONICAL_SUM | TSR_COMM_ONE_PROCESS;
    caps.collectives = (uint64_t{2} << TSR_COLL_BARRIER) - (uint64_t{1} << TSR_COLL_ALL_REDUCE);
    caps.reduces = (uint64_t{2} << TSR_REDUCE_MAX) - (uint64_t{1} << TSR_REDUCE_SUM);
    caps.dtypes = tessera::kAllDtypes;
    caps.num_dtypes = std::size(tessera::kAllDtypes);
    caps.stream_kinds = kStreamKinds;
    caps.num_stream_kinds = std::size(kStreamKinds);
  }
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args& args) {
    return std::make_unique<tessera::local::LocalCommunicator>(args);
  }
};

constexpr tsr_communicator_interface kTable = tessera::communicator_table<Plugin>();
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("local", TSR_KIND_COMMUNICATOR, "org.tessera.local-comm", "0.12.0",
                        "collectives between ranks that are threads of one process", {}, "Tessera");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)

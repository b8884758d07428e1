// The ABI edge of gloo-comm: ranks that are processes, over TCP, on one machine or many. Sums are canonical, so its
// bits are those of local-comm.
#include "gloo-comm/collectives/reduce.h"
#include "gloo-comm/gloo_comm.h"
#include "tessera/plugin.hpp"
#include "tessera/ranges.hpp"

namespace {

using tessera::Error;

constexpr tsr_option kOptions[] = {
    tessera::per_rank(tessera::string_option(
        "interface", "", "",
        "network interface to listen on, for example eth0; machines may differ; empty: loopback if all ranks are "
        "local, else the interface with the route to the store's host (MASTER_ADDR)")),
    tessera::string_option("direct", "auto", "auto|off",
                           "auto: ranks on one machine read each other's memory (process_vm_readv) where the system "
                           "permits it, instead of sending; off: all data goes over TCP")};
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("gloo", TSR_KIND_COMMUNICATOR, "org.tessera.gloo-comm", "0.12.0",
                        "ranks as processes over TCP, with canonical sums", kOptions, "Tessera");

struct Plugin {
  static constexpr const char* kName = "gloo-comm";
  static constexpr tsr_str kStreamKinds[] = {tessera::literal("cpu.queue")};

  static void caps(std::string_view stream_kind, tsr_comm_caps& caps) {
    if (stream_kind != tessera::view(kStreamKinds[0]))
      throw Error(TSR_E_UNSUPPORTED,
                  "[gloo-comm] supports streams of the kind cpu.queue, not " + std::string(stream_kind));
    caps.flags = TSR_COMM_CANONICAL_SUM;
    caps.collectives = (uint64_t{2} << TSR_COLL_BARRIER) - 2;
    caps.reduces = (uint64_t{2} << TSR_REDUCE_MAX) - 2;
    caps.dtypes = tessera::kAllDtypes;
    caps.num_dtypes = std::size(tessera::kAllDtypes);
    caps.stream_kinds = kStreamKinds;
    caps.num_stream_kinds = std::size(kStreamKinds);
  }

  // Only reductions need workspace, for the operands of other ranks. It depends on the largest slice, so it is the same
  // on all ranks, and ranks' programs stay equal.
  static uint64_t describe(const tsr_collective& c, int num_ranks) {
    if (!tessera::is_reduction(c.kind)) return 0;
    const uint64_t n = static_cast<uint64_t>(num_ranks);
    uint64_t total = c.num_elements, largest = c.num_elements;
    if (c.kind == TSR_COLL_ALL_REDUCE) {
      std::vector<uint64_t> offsets;
      tessera::divide_evenly(c.num_elements, num_ranks, offsets);
      largest = offsets[1];
    } else if (c.kind == TSR_COLL_REDUCE_SCATTER && c.counts) {
      largest = *std::max_element(c.counts, c.counts + n);
    }
    const uint64_t element_bytes = TSR_NUM_BYTES(c.dtype, 1);
    return tessera::gloo_comm::reduce_workspace(c.kind, total * element_bytes, largest * element_bytes, num_ranks);
  }

  static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args& args) {
    std::string interface;
    bool uses_cma = true;
    for (const tsr_option_value& option : std::span(args.options, args.num_options)) {
      if (tessera::view(option.name) == "interface") interface = tessera::to_string(option.s);
      if (tessera::view(option.name) == "direct") uses_cma = tessera::view(option.s) != "off";
    }
    return std::make_unique<tessera::gloo_comm::GlooCommunicator>(args, interface, uses_cma);
  }
};

constexpr auto kTable = tessera::communicator_table<Plugin>();

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)

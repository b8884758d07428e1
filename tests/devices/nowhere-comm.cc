// A communicator that takes the streams of no device.
#include "tessera/communicator.hpp"
#include "tessera/plugin.hpp"

namespace {

struct Plugin {
  static constexpr const char* kName = "nowhere-comm";
  static void caps(std::string_view, tsr_comm_caps&) {
    throw tessera::Error(TSR_E_UNSUPPORTED, "[nowhere-comm] takes streams of kind moon.queue only");
  }
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args&) { return nullptr; }
};

constexpr tsr_communicator_interface kTable = tessera::communicator_table<Plugin>();
constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "nowhere", TSR_KIND_COMMUNICATOR, "org.tessera.tests.nowhere-comm", "0.12.0", "takes the streams of no device");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)

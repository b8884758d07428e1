// A communicator that takes the streams of no device; and `there`, which claims to take those of `other`. Neither can
// be created.
#include <array>

#include "tessera/communicator.hpp"
#include "tessera/plugin.hpp"

namespace {

struct Plugin {
  static constexpr const char* kName = TESSERA_NOWHERE "-comm";
  static void caps(std::string_view stream_kind, tsr_comm_caps& caps) {
    static constexpr std::array<tsr_dtype, 5> kDtypes = {TSR_F32, TSR_F64, TSR_F16, TSR_BF16, TSR_I32};
    static const tsr_str kKind = tessera::str("other.queue");
    if (std::string_view(TESSERA_NOWHERE) == "nowhere" || stream_kind != tessera::view(kKind))
      throw tessera::Error(TSR_E_UNSUPPORTED, "[" TESSERA_NOWHERE "-comm] takes streams of kind moon.queue only");
    caps.collectives = 1u << TSR_COLL_ALL_REDUCE;
    caps.reduces = 1u << TSR_REDUCE_SUM;
    caps.dtypes = kDtypes.data();
    caps.num_dtypes = kDtypes.size();
    caps.stream_kinds = &kKind;
    caps.num_stream_kinds = 1;
  }
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args&) { return nullptr; }
};

constexpr tsr_communicator_interface kTable = tessera::communicator_table<Plugin>();
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor(TESSERA_NOWHERE, TSR_KIND_COMMUNICATOR, "org.tessera.tests." TESSERA_NOWHERE "-comm", "0.12.0",
                        "takes the streams of no device, or only claims to");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)

// Gives other answers on rank 1 of a job whose ranks are processes: it reads the environment.
#include <cstdlib>

#include "long_gaps.h"

namespace tessera::bad_policies {
namespace {

class Impure {
 public:
  static constexpr std::string_view kName = "impure";
  explicit Impure(std::span<const tsr_option_value>) {}

  void plan(const OffloadView& view, const OffloadSink& sink) const {
    const char* rank = std::getenv("TESSERA_RANK");
    for (const tsr_leave& answer : long_gaps(view, rank && std::string_view(rank) == "1" ? 2 : 1))
      sink.leave(answer);
  }
};

constexpr tsr_descriptor kDescriptor =
    descriptor("impure", TSR_KIND_OFFLOAD, "org.tessera.tests.impure", "1", "decides otherwise on rank 1");

}  // namespace
}  // namespace tessera::bad_policies

TESSERA_PLUGIN(tessera::bad_policies::kDescriptor, TSR_OFFLOAD_INTERFACE,
               tessera::OffloadTable<tessera::bad_policies::Impure>::kInterface)

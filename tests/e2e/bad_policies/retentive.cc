// Keeps the items of a call of plan, and reads them in the next one: with the host's view gone, that is undefined. On
// guarded pages it is a crash, and where they were reused the answers are those of another view.
#include <mutex>

#include "long_gaps.h"

namespace tessera::bad_policies {
namespace {

class Retentive {
 public:
  static constexpr std::string_view kName = "retentive";
  explicit Retentive(std::span<const tsr_option_value>) {}

  void plan(const OffloadView& view, const OffloadSink& sink) const {
    const std::scoped_lock lock(mutex_);
    if (kept_.empty()) kept_ = view.items();
    for (const tsr_leave& answer : long_gaps(view, 1))
      if (std::ranges::count(kept_, answer.buffer, &tsr_item::buffer)) sink.leave(answer);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::span<const tsr_item> kept_;
};

constexpr tsr_descriptor kDescriptor =
    descriptor("retentive", TSR_KIND_OFFLOAD, "org.tessera.tests.retentive", "1", "keeps what it borrows");

}  // namespace
}  // namespace tessera::bad_policies

TESSERA_PLUGIN(tessera::bad_policies::kDescriptor, TSR_OFFLOAD_INTERFACE,
               tessera::OffloadTable<tessera::bad_policies::Retentive>::kInterface)

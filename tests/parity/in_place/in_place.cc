// Data parallel in two halves: each unit's gradients are reduced to slices in place, and the slices gathered in place.
#include <array>

#include "tessera/storage.hpp"

namespace {

using namespace tessera;

class InPlace final : public Strategy {
 public:
  static constexpr std::string_view kName = "in-place";
  InPlace(std::string_view, std::span<const tsr_option_value>) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    const uint32_t stream = edit.stream(view.raw.axis, "gradient");
    if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
    const storage::GradientSums sums(view);
    for (const storage::FlatParam& param : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(param);
      for (const storage::GradientSum& sum : sums.of(group)) {
        const std::array whole{storage::BufferRange{sum.buffers[0], 0, group.num_elements}.in_place()};
        const storage::Inserter after(edit, sum.last_writer, TSR_AFTER, sum.micro_batch);
        after.collective(TSR_ACTION_REDUCE_SCATTER, stream, edit.group(view.raw.axis), whole);
        after.collective(TSR_ACTION_ALL_GATHER, stream, edit.group(view.raw.axis), whole);
      }
    }
  }
};

constexpr tsr_descriptor kDescriptor = descriptor("in-place", TSR_KIND_STRATEGY, "org.tessera.tests.in-place", "1",
                                                  "scatters and gathers gradients in place");
using Table = StrategyTable<InPlace, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

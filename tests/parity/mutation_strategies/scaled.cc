// Data parallel for gradients that would overflow as they are summed: they are multiplied by a quarter before the sum
// and by four after it.
#include <array>

#include "tessera/storage.hpp"

namespace {

using namespace tessera;

class Scaled final : public Strategy {
 public:
  static constexpr std::string_view kName = "scaled";
  Scaled(std::string_view, std::span<const tsr_option_value>) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    const uint32_t stream = edit.stream(view.raw.axis, "gradient");
    if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
    const storage::GradientSums sums(view);
    for (const storage::FlatParam& param : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(param);
      for (const storage::GradientSum& sum : sums.of(group)) {
        const std::array whole{storage::BufferRange{sum.buffers[0], 0, group.num_elements}.in_place()};
        const auto scale = [&](double by) {
          tsr_action action = make_action(TSR_ACTION_SCALE, TSR_STREAM_COMPUTE);
          action.scale = by;
          edit.insert(sum.last_writer, TSR_AFTER, action, whole);
        };
        scale(0.25);
        storage::Inserter(edit, sum.last_writer, TSR_AFTER, sum.micro_batch)
            .collective(TSR_ACTION_ALL_REDUCE, stream, edit.group(view.raw.axis), whole);
        scale(4);
      }
    }
  }
};

constexpr tsr_descriptor kDescriptor = descriptor("scaled", TSR_KIND_STRATEGY, "org.tessera.tests.scaled", "1",
                                                  "sums gradients that are scaled, and scales the sums back");
using Table = StrategyTable<Scaled, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

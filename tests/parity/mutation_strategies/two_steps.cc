// Data parallel whose sums are made in two steps, as communicators make large ones: each rank sums its slice, and all
// gather the slices. What a rank has between the two is its own slice, in a buffer of its own.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tessera/storage.hpp"

namespace {

using namespace tessera;

class TwoSteps final : public Strategy {
 public:
  static constexpr std::string_view kName = "two-steps";
  TwoSteps(std::string_view, std::span<const tsr_option_value> options)
      : shift_(option(options, "shift").i != 0), to_first_(option(options, "to-first").i != 0) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    const uint32_t stream = edit.stream(view.raw.axis, "gradient");
    if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
    const storage::GradientSums sums(view);
    for (const storage::FlatParam& param : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(param);
      for (const storage::GradientSum& sum : sums.of(group))
        sum_by_slices(view, edit, stream, sum, group.num_elements);
    }
  }

 private:
  void sum_by_slices(const ProgramView& view, const Edit& edit, uint32_t stream, const storage::GradientSum& sum,
                     uint64_t num_elements) const {
    const std::array whole{storage::BufferRange{sum.buffers[0], 0, num_elements}.in_place()};
    const auto num_ranks = static_cast<uint64_t>(view.axis().num_ranks);
    std::vector<uint64_t> counts(num_ranks, num_elements / num_ranks);
    counts.back() += num_elements % num_ranks;
    if (to_first_) std::fill(counts.begin(), counts.end(), 0), counts.front() = num_elements;
    uint64_t last = sum.last_writer;
    for (const uint32_t kind : {uint32_t{TSR_ACTION_REDUCE_SCATTER}, uint32_t{TSR_ACTION_ALL_GATHER}}) {
      tsr_action step = make_action(kind, stream);
      step.group = edit.group(view.raw.axis);
      step.micro_batch = sum.micro_batch;
      if (kind == TSR_ACTION_REDUCE_SCATTER) step.reduce = TSR_REDUCE_SUM;
      step.counts = counts.data();
      step.num_counts = counts.size();
      last = edit.insert(last, TSR_AFTER, step, whole);
      if (shift_) std::swap(counts.front(), counts.back());
    }
  }

  bool shift_, to_first_;
};

constexpr tsr_option kOptions[] = {
    bool_option("shift", "false", "a fault: gather other slices than those of the sums"),
    bool_option("to-first", "false", "the first rank sums all, and the others have empty slices")};

constexpr tsr_descriptor kDescriptor = descriptor("two-steps", TSR_KIND_STRATEGY, "org.tessera.tests.two-steps", "1",
                                                  "sums gradients by slices, and gathers the slices", kOptions);
using Table = StrategyTable<TwoSteps, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

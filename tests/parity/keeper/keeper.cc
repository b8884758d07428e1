// Data parallel, and two persistent buffers of its own, other on each rank: the sum of the rank's own gradients over
// all steps, which `init` sets to zero, and the number of steps, which a call counts. Options describe them.
#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "tessera/storage.hpp"

namespace {

using namespace tessera;

class Keeper final : public Strategy {
 public:
  static constexpr std::string_view kName = "keeper";
  Keeper(std::string_view, std::span<const tsr_option_value> options)
      : version_(static_cast<uint32_t>(option(options, "version").i)),
        on_change_(static_cast<uint32_t>(option(options, "on-change").i)),
        num_unused_(option(options, "unused").i) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    uint64_t num_elements = 0;
    std::set<uint64_t> values;
    for (const tsr_home& home : view.homes())
      if (const uint64_t value = role_of(home, TSR_HOME_VALUE).buffer; values.insert(value).second)
        num_elements += view.buffer(value).num_elements;
    const uint64_t sums = edit.add_buffer("sums", TSR_BUFFER_PLUGIN, TSR_F32, num_elements, true);
    const uint64_t count = edit.add_buffer("count", TSR_BUFFER_PLUGIN, TSR_I64, 1, true);
    for (int64_t i = 0; i < num_unused_; ++i)
      edit.add_buffer("unused." + std::to_string(i), TSR_BUFFER_PLUGIN, TSR_F32, 4, true);
    if (on_change_)
      for (const uint64_t buffer : {sums, count})
        edit.describe_state(buffer, version_, on_change_);
    if (view.raw.purpose == TSR_PURPOSE_INIT) begin(view, edit, sums, num_elements);
    if (view.raw.purpose != TSR_PURPOSE_STEP) return;
    const storage::GradientSums gradients(view);
    uint64_t offset = 0;
    for (const storage::FlatParam& param : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(param);
      for (const storage::GradientSum& sum : gradients.of(group))
        keep_and_reduce(view, edit, sum, {sums, offset, param.num_elements(), kDestination, TSR_MODE_ADD});
      offset += param.num_elements();
    }
    tsr_action call = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    call.strategy = view.raw.strategy;
    edit.insert(0, TSR_AFTER, call, std::array{tsr_binding{count, 0, 1, kDestination, TSR_MODE_ADD}});
  }

  void call_action(const tsr_call& call) const override { ++*static_cast<int64_t*>(operands(call)[0].data); }

 private:
  static void begin(const ProgramView& view, const Edit& edit, uint64_t sums, uint64_t num_elements) {
    storage::broadcast_values(view, edit, edit.stream(view.raw.axis, "gradient"));
    const tsr_action zero = make_action(TSR_ACTION_ZERO, TSR_STREAM_COMPUTE);
    edit.insert(0, TSR_AFTER, zero, std::array{tsr_binding{sums, 0, num_elements, kDestination, TSR_MODE_WRITE}});
  }

  static void keep_and_reduce(const ProgramView& view, const Edit& edit, const storage::GradientSum& sum,
                              const tsr_binding& kept) {
    tsr_binding gradient{sum.buffers[0], 0, kept.num_elements, kSource, TSR_MODE_READ};
    tsr_action add = make_action(TSR_ACTION_ADD_INTO, TSR_STREAM_COMPUTE);
    add.micro_batch = sum.micro_batch;
    const uint64_t added = edit.insert(sum.last_writer, TSR_AFTER, add, std::array{gradient, kept});
    tsr_action reduce = make_action(TSR_ACTION_ALL_REDUCE, edit.stream(view.raw.axis, "gradient"));
    reduce.micro_batch = sum.micro_batch;
    reduce.group = edit.group(view.raw.axis);
    reduce.reduce = TSR_REDUCE_SUM;
    gradient.slot = kDestination;
    gradient.mode = TSR_MODE_ADD;
    edit.insert(added, TSR_AFTER, reduce, std::array{gradient});
  }

  const uint32_t version_, on_change_;
  const int64_t num_unused_;
};

constexpr tsr_option kOptions[] = {int_option("version", "0", 0, 9, "of its buffers"),
                                   int_option("on-change", "0", 0, 3, "TSR_ON_CHANGE_*; 0: not described"),
                                   int_option("unused", "0", 0, 9, "buffers that nothing uses")};

constexpr tsr_descriptor kDescriptor = descriptor("keeper", TSR_KIND_STRATEGY, "org.tessera.tests.keeper", "1",
                                                  "sums gradients, and keeps state of its own", kOptions);
using Table = StrategyTable<Keeper, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

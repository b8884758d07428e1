// Data parallel that also sends messages of all to all, with more elements for some ranks than for others, and keeps a
// state of its own from step to step. Its calls fill and check both: a wrong element ends the run. Rank r sends rank j
// 1 + (r + 2 j) mod 3 elements of 100 r + j. The state is {steps, 1 + the axis}: of two instances, on two axes, each
// has its own.
#include "tessera/storage.hpp"

namespace {

using namespace tessera;

enum Call : uint64_t { kFill, kCheck, kCount };
constexpr uint64_t kMaxRanks = 1000;

uint64_t num_sent(uint64_t from, uint64_t to) {
  return 1 + (from + 2 * to) % 3;
}

class Routing final : public Strategy {
 public:
  static constexpr std::string_view kName = "routing";
  Routing(std::string_view, std::span<const tsr_option_value>) {}

  bool depends_on_coordinate() const override { return true; }

  void lower(const ProgramView& view, const Edit& edit) const override {
    const uint32_t stream = edit.stream(view.raw.axis, "gradient");
    const uint64_t state = edit.add_buffer("state", TSR_BUFFER_PLUGIN, TSR_F32, 2, true);
    const tsr_binding whole{state, 0, 2, kDestination, TSR_MODE_WRITE};
    if (view.raw.purpose == TSR_PURPOSE_INIT) {
      storage::broadcast_values(view, edit, stream);
      edit.insert(0, TSR_AFTER, make_action(TSR_ACTION_ZERO, TSR_STREAM_COMPUTE), {&whole, 1});
    }
    if (view.raw.purpose != TSR_PURPOSE_STEP) return;
    const storage::GradientSums sums(view);
    for (const storage::FlatParam& param : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(param);
      for (const storage::GradientSum& sum : sums.of(group))
        storage::sum_group_on_every_rank(view, edit, stream, group, sum);
    }
    route(view, edit);
    call(view, edit, kCount, {state, 0, 2, kDestination, TSR_MODE_ADD});
  }

  void call_action(const tsr_call& call) const override {
    auto* values = static_cast<float*>(operands(call)[0].data);
    const auto num_elements = static_cast<uint64_t>(operands(call)[0].shape[0]);
    const uint64_t own = call.tag % kMaxRanks, axis = call.tag / kMaxRanks % kMaxRanks,
                   kind = call.tag / kMaxRanks / kMaxRanks;
    if (kind == kCount) return count(values, static_cast<float>(axis + 1));
    for (uint64_t rank = 0, i = 0; i < num_elements; ++rank)
      for (uint64_t left = kind == kFill ? num_sent(own, rank) : num_sent(rank, own); left > 0; --left, ++i) {
        const auto value = static_cast<float>(kind == kFill ? 100 * own + rank : 100 * rank + own);
        if (kind == kFill) values[i] = value;
        if (values[i] != value)
          throw Error(TSR_E_DATA_LOSS, "element " + std::to_string(i) + " of rank " + std::to_string(own) + " is " +
                                           std::to_string(values[i]) + ", not " + std::to_string(value));
      }
  }

 private:
  static void count(float* state, float axis) {
    if (state[0] > 0 && state[1] != axis) throw Error(TSR_E_DATA_LOSS, "the state is another instance's");
    state[0] += 1;
    state[1] = axis;
  }

  static void call(const ProgramView& view, const Edit& edit, Call kind, const tsr_binding& operand) {
    tsr_action action = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    action.strategy = view.raw.strategy;
    action.tag = (kind * kMaxRanks + static_cast<uint64_t>(view.raw.axis)) * kMaxRanks +
                 static_cast<uint64_t>(view.axis().coordinate);
    edit.insert(0, TSR_AFTER, action, {&operand, 1});
  }

  static void route(const ProgramView& view, const Edit& edit) {
    const auto n = static_cast<uint64_t>(view.axis().num_ranks), own = static_cast<uint64_t>(view.axis().coordinate);
    std::vector<uint64_t> counts(2 * n);
    uint64_t sent = 0, received = 0;
    for (uint64_t rank = 0; rank < n; ++rank) {
      sent += counts[rank] = num_sent(own, rank);
      received += counts[n + rank] = num_sent(rank, own);
    }
    const uint64_t from = edit.add_buffer("sent", TSR_BUFFER_PLUGIN, TSR_F32, sent);
    const uint64_t to = edit.add_buffer("received", TSR_BUFFER_PLUGIN, TSR_F32, received);
    call(view, edit, kFill, {from, 0, sent, kDestination, TSR_MODE_WRITE});
    tsr_action action = make_action(TSR_ACTION_ALL_TO_ALL, edit.stream(view.raw.axis, "routes"));
    action.group = edit.group(view.raw.axis);
    action.counts = counts.data();
    action.num_counts = counts.size();
    const tsr_binding operands[] = {{from, 0, sent, kSource, TSR_MODE_READ},
                                    {to, 0, received, kDestination, TSR_MODE_WRITE}};
    edit.insert(0, TSR_AFTER, action, operands);
    call(view, edit, kCheck, {to, 0, received, kSource, TSR_MODE_READ});
  }
};

constexpr tsr_descriptor kDescriptor = descriptor("routing", TSR_KIND_STRATEGY, "org.tessera.tests.routing", "1",
                                                  "sums gradients, and sends uneven messages beside it");
using Table = StrategyTable<Routing, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

// Tensor parallelism in which each rank also sends its heads of the first block to the next one of its axis, which
// keeps them and does not use them: ranks whose programs differ, and a value of another rank's part.
#include <array>

#include "tensor.h"

namespace {

using namespace tessera;

class Ring final : public Strategy {
 public:
  static constexpr std::string_view kName = "ring";
  Ring(std::string_view axis, std::span<const tsr_option_value> options) : tensor_(axis, options) {}
  bool depends_on_coordinate() const override { return true; }

  void layout(const ProgramView& view, const LayoutSink& sink) const override { tensor_.layout(view, sink); }

  void lower(const ProgramView& view, const Edit& edit) const override {
    tensor_.lower(view, edit);
    if (view.raw.purpose != TSR_PURPOSE_STEP) return;
    for (const tsr_action& action : view.actions())
      if (action.kind == TSR_ACTION_FORWARD && to_string(view.segments()[action.segment].name) == "h.0.proj")
        send_heads(view, edit, action);
  }

 private:
  static void send_heads(const ProgramView& view, const Edit& edit, const tsr_action& before) {
    const tsr_binding heads = *ProgramView::find_binding(before, TSR_SLOT(TSR_ROLE_INPUT, 0));
    const int32_t num_ranks = view.axis().num_ranks, own = view.axis().coordinate;
    const std::array peers{(own + 1) % num_ranks, (own + num_ranks - 1) % num_ranks};
    const uint64_t received =
        edit.add_buffer("received", TSR_BUFFER_ACTIVATION, view.buffer(heads.buffer).dtype, heads.num_elements);
    tsr_action exchange = make_action(TSR_ACTION_EXCHANGE, edit.stream(view.raw.axis, "ring"));
    exchange.group = edit.group(view.raw.axis);
    exchange.peers = peers.data();
    exchange.num_peers = peers.size();
    const std::array operands{tsr_binding{heads.buffer, heads.offset, heads.num_elements, kSource, TSR_MODE_READ},
                              tsr_binding{received, 0, heads.num_elements, kDestination, TSR_MODE_WRITE}};
    edit.insert(before.id, TSR_BEFORE, exchange, operands);
  }

  tensor::Tensor tensor_;
};

constexpr tsr_option kOptions[] = {bool_option("sequence-parallel", "false", "as tensor's")};

constexpr tsr_descriptor kDescriptor =
    descriptor("ring", TSR_KIND_STRATEGY, "org.tessera.tests.ring", "1.0.0",
               "tensor parallelism with messages around the axis", kOptions, "tests");

using Table = StrategyTable<Ring, TSR_STRATEGY_SPLIT_COMPUTE, TSR_SPLITS_TENSORS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

// pipeline, but for one fault on its first stage or in its lanes.
#include "edit_recorder.h"
#include "pipeline.h"

namespace {

using tessera::testing::EditRecorder;

class FaultyPipeline final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "faulty-pipeline";
  FaultyPipeline(std::string_view axis, std::span<const tsr_option_value> options)
      : pipeline_(axis, options), fault_(tessera::view(tessera::option(options, "fault").s)) {}

  bool depends_on_coordinate() const override { return true; }
  void layout(const tessera::ProgramView& view, const tessera::LayoutSink& sink) const override {
    pipeline_.layout(view, sink);
  }

  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    const auto change = [&](tsr_action& action) {
      const bool is_message = action.kind == TSR_ACTION_SEND || action.kind == TSR_ACTION_RECV;
      if (fault_ == "one-lane" && is_message) action.stream = edit.stream(view.raw.axis, "all");
    };
    const EditRecorder recorder(edit, change);
    pipeline_.lower(view, recorder.edit());
    const auto sends = recorder.of_kind(TSR_ACTION_SEND);
    if (view.axis().coordinate > 0 || view.raw.purpose != TSR_PURPOSE_STEP) return;
    if (fault_ == "forgotten-send") edit.remove(sends.back().id);
    if (fault_ == "swapped-sends") {
      edit.insert(sends[1].id, TSR_AFTER, sends[0].action, sends[0].bindings);
      edit.remove(sends[0].id);
    }
  }

 private:
  tessera::pipeline::Pipeline pipeline_;
  std::string fault_;
};

constexpr tsr_option kOptions[] = {
    tessera::string_option("schedule", "1f1b", "gpipe|1f1b|interleaved_1f1b", "as pipeline's"),
    tessera::int_option("virtual-stages", "1", 1, 1024, "as pipeline's"),
    tessera::string_option("cut", "auto", "", "as pipeline's"),
    tessera::string_option("fault", "forgotten-send", "forgotten-send|swapped-sends|one-lane", "what is wrong")};
constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("faulty-pipeline", TSR_KIND_STRATEGY, "org.tessera.tests.faulty-pipeline", "1",
                        "sends less, or otherwise, than is received", kOptions);
using Table = tessera::StrategyTable<FaultyPipeline, TSR_STRATEGY_SCHEDULE, TSR_SPLITS_LAYERS>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

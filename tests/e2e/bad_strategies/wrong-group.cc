// ddp, but it sums over others than the ranks of its axis.
#include "ddp.h"
#include "edit_recorder.h"

namespace {

class WrongGroup final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "wrong-group";
  WrongGroup(std::string_view axis, std::span<const tsr_option_value> options)
      : ddp_(axis, options), group_(tessera::view(tessera::option(options, "group").s)) {}

  bool depends_on_coordinate() const override { return group_ == "own-half"; }
  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    const tessera::testing::EditRecorder recorder(edit, [&](tsr_action& action) {
      if (action.kind == TSR_ACTION_ALL_REDUCE) action.group = group(view, edit);
    });
    ddp_.lower(view, recorder.edit());
  }

 private:
  /// Of an axis of four ranks.
  int32_t group(const tessera::ProgramView& view, const tessera::Edit& edit) const {
    constexpr int32_t kHalves[2][2] = {{0, 1}, {2, 3}};
    if (group_ == "other-axis") return edit.group(view.raw.axis == 0 ? 1 : 0);
    return edit.group(view.raw.axis, kHalves[group_ == "own-half" ? view.axis().coordinate / 2 : 1]);
  }

  tessera::ddp::Ddp ddp_;
  std::string group_;
};

constexpr tsr_option kOptions[] = {
    tessera::float_option("bucket-mb", "25", 1e-6, 65536, "as ddp's"),
    tessera::string_option("group", "other-axis", "other-axis|own-half|second-half", "the group that it sums over")};
constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "wrong-group", TSR_KIND_STRATEGY, "org.tessera.tests.wrong-group", "1", "sums over the wrong ranks", kOptions);
using Table = tessera::StrategyTable<WrongGroup, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

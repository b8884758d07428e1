// ddp, but in the process of rank 1 it says otherwise than rank 0 does of rank 1: what a home's roles are, or the
// layout. Or on coordinate 1 it says otherwise than on coordinate 0: the layout, which pieces two homes have, or in
// step and eval alone these or the roles. The text of the program is the same.
#include <array>
#include <cstdlib>
#include <string_view>

#include "ddp.h"

namespace {

bool is_rank_1() {
  const char* const rank = std::getenv("TESSERA_RANK");
  return rank && std::string_view(rank) == "1";
}

class Inconsistent final : public tessera::Strategy {
 public:
  static constexpr std::string_view kName = "inconsistent";
  Inconsistent(std::string_view axis, std::span<const tsr_option_value> options)
      : ddp_(axis, options), fault_(tessera::view(tessera::option(options, "fault").s)) {}

  bool depends_on_coordinate() const override { return fault_ == "own-layout"; }

  void layout(const tessera::ProgramView& view, const tessera::LayoutSink& sink) const override {
    ddp_.layout(view, sink);
    const bool is_other =
        (fault_ == "layout" && is_rank_1()) || (fault_.ends_with("-layout") && view.axis().coordinate == 1);
    if (!is_other) return;
    static constexpr int32_t kOne[] = {1};
    tsr_layout_entry entry{};
    entry.axis = view.raw.axis;
    entry.kind = TSR_LAYOUT_REPLICATED;
    entry.roles = TSR_ALL_HOME_ROLES;
    entry.dim = -1;
    entry.parts = entry.blocks = entry.num_coordinates = 1;
    entry.coordinates = kOne;
    sink.add_entry(entry);
  }

  void lower(const tessera::ProgramView& view, const tessera::Edit& edit) const override {
    const bool is_1 = view.axis().coordinate == 1, is_after_init = view.raw.purpose != TSR_PURPOSE_INIT;
    if (is_1 && (fault_ == "pieces" || (fault_ == "later-pieces" && is_after_init))) exchange_pieces(view, edit);
    ddp_.lower(view, edit);
    if (fault_ == "homes" && is_rank_1()) exchange_roles(view, edit);
    if (fault_ == "later-roles" && is_1 && is_after_init) exchange_roles(view, edit);
  }

 private:
  /// Of the first two homes of one length.
  static void exchange_pieces(const tessera::ProgramView& view, const tessera::Edit& edit) {
    for (const tsr_home& one : view.homes())
      for (const tsr_home& other : view.homes()) {
        if (one.id >= other.id || one.num_elements != other.num_elements) continue;
        tsr_home first = one, second = other;
        std::swap(first.pieces, second.pieces);
        edit.replace_homes(std::array{one.id}, &first);
        edit.replace_homes(std::array{other.id}, &second);
        return;
      }
  }

  static void exchange_roles(const tessera::ProgramView& view, const tessera::Edit& edit) {
    for (const tsr_home& home : view.homes()) {
      tsr_home_role m = tessera::role_of(home, TSR_HOME_M), v = tessera::role_of(home, TSR_HOME_V);
      if (!m.buffer || !v.buffer) continue;
      std::swap(m.number, v.number);
      edit.set_role(home.id, m);
      edit.set_role(home.id, v);
    }
  }

  tessera::ddp::Ddp ddp_;
  std::string fault_;
};

constexpr tsr_option kOptions[] = {
    tessera::float_option("bucket-mb", "25", 1e-6, 65536, "as ddp's"),
    tessera::string_option("fault", "homes", "homes|layout|own-layout|hidden-layout|pieces|later-pieces|later-roles",
                           "what differs")};
constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "inconsistent", TSR_KIND_STRATEGY, "org.tessera.tests.inconsistent", "1", "says otherwise on one rank", kOptions);
using Table = tessera::StrategyTable<Inconsistent, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

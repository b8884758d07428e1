// Breaks one rule of the answers, --faulty.fault; with `none` it breaks none.
#include "long_gaps.h"

namespace tessera::bad_policies {
namespace {

/// A visit that does not use the item.
uint32_t unused_visit(const OffloadView& view, uint64_t buffer) {
  const auto item = std::ranges::find(view.items(), buffer, &tsr_item::buffer);
  uint32_t visit = 0;
  while (std::ranges::count(OffloadView::uses(*item), visit, &tsr_use::visit))
    ++visit;
  return visit;
}

uint32_t last_use(const OffloadView& view, uint64_t buffer) {
  return OffloadView::uses(*std::ranges::find(view.items(), buffer, &tsr_item::buffer)).back().visit;
}

/// A persistent item that several visits use: it leaves after the first one and stays after the last one.
void leave_without_rest(const OffloadView& view, const OffloadSink& sink) {
  const auto item = std::ranges::find_if(
      view.items(), [](const tsr_item& i) { return OffloadView::is_persistent(i) && i.num_uses > 1; });
  if (item != view.items().end() && view.find_place(TSR_MEMORY_HOST))
    sink.leave({item->buffer, item->uses[0].visit, TSR_MEMORY_HOST, 1, 1});
}

/// The first action of that kind; 0: there is none.
uint64_t action_of(const OffloadView& view, uint32_t kind) {
  const auto actions = view.program().actions();
  const auto found = std::ranges::find(actions, kind, &tsr_action::kind);
  return found == actions.end() ? 0 : found->id;
}

/// What is wrong is what runs on the host.
void run_on_host(const OffloadView& view, const OffloadSink& sink, std::string_view fault) {
  if (fault == "run-unknown") sink.run_on_host(1'000'000);
  if (fault == "run-forward") sink.run_on_host(action_of(view, TSR_ACTION_FORWARD));
  if (fault == "run-twice") sink.run_on_host(action_of(view, TSR_ACTION_OPTIMIZER));
  if (fault == "run-twice" || fault == "run-optimizer") sink.run_on_host(action_of(view, TSR_ACTION_OPTIMIZER));
  if (fault == "run-squares") sink.run_on_host(action_of(view, TSR_ACTION_SUM_SQUARES));
  if (fault == "run-scalars") sink.run_on_host(action_of(view, TSR_ACTION_ZERO));
}

uint64_t no_item(const OffloadView& view) {
  uint64_t largest = 0;
  for (const tsr_item& item : view.items())
    largest = std::max(largest, item.buffer);
  return largest + 1'000'000;
}

class Faulty {
 public:
  static constexpr std::string_view kName = "faulty";
  explicit Faulty(std::span<const tsr_option_value> options) : fault_(to_string(option(options, "fault").s)) {
    if (fault_ == "options")
      throw Error(TSR_E_INVALID_ARGUMENT, "fault=options goes with no other option; give another fault");
  }

  void plan(const OffloadView& view, const OffloadSink& sink) const {
    if (fault_ == "error")
      throw Error(TSR_E_INVALID_ARGUMENT, "cannot decide for this step with fault=error; give fault=none");
    if (fault_ == "exhausted") throw Error(TSR_E_RESOURCE_EXHAUSTED, "has no room for its tables");
    if (fault_ == "no-rest") return leave_without_rest(view, sink);
    if (fault_.starts_with("run-")) return run_on_host(view, sink, fault_);
    std::vector<tsr_leave> answers = long_gaps(view, 1);
    if (answers.empty()) return;
    tsr_leave& wrong = answers.back();
    if (fault_ == "unknown-item") wrong.buffer = no_item(view);
    if (fault_ == "unused-visit") wrong.after = unused_visit(view, wrong.buffer);
    if (fault_ == "no-visit") wrong.after = static_cast<uint32_t>(view.visits().size());
    if (fault_ == "unknown-place") wrong.memory = 99;
    if (fault_ == "last-use") wrong.after = last_use(view, wrong.buffer);
    for (const tsr_leave& answer : answers)
      sink.leave(answer);
    if (fault_ == "twice") sink.leave(answers.back());
  }

 private:
  std::string fault_;
};

constexpr tsr_option kOptions[] = {string_option(
    "fault", "none",
    "none|unknown-item|unused-visit|no-visit|unknown-place|last-use|twice|no-rest|exhausted|error|options|"
    "run-unknown|run-forward|run-twice|run-optimizer|run-squares|run-scalars",
    "the rule that is broken")};
constexpr tsr_descriptor kDescriptor =
    descriptor("faulty", TSR_KIND_OFFLOAD, "org.tessera.tests.faulty", "1", "gives answers that are refused", kOptions);

}  // namespace
}  // namespace tessera::bad_policies

TESSERA_PLUGIN(tessera::bad_policies::kDescriptor, TSR_OFFLOAD_INTERFACE,
               tessera::OffloadTable<tessera::bad_policies::Faulty>::kInterface)

// SPDX-License-Identifier: Apache-2.0
// unit-ddp: data parallelism, one sum for each unit of the model: a whole Tessera strategy in C++20. Copy it and change
// it. On another axis a strategy may split the parameters (--strategy r=unit-ddp,s=fsdp): it sums the gradients of what
// each rank has.
//
// A strategy is a compiler pass: it neither computes nor communicates, it inserts collectives into the host's program.
// `tessera/storage.hpp` finds what data parallelism asks for: where the gradients of each unit are complete, also with
// --reduce-every=micro-batch, and how they are sent in 16 bits (--reduce-dtype). What throws ends in a status and a
// sentence; the host then drops all edits.
#include <tessera/storage.hpp>

namespace {

using namespace tessera;

class UnitDdp final : public Strategy {
 public:
  static constexpr std::string_view kName = "unit-ddp";
  explicit UnitDdp(const tsr_strategy_create_args& args)
      : is_verbose_(option(std::span(args.options, args.num_options), "verbose").i != 0), host_(*args.host) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    if (view.raw.purpose == TSR_PURPOSE_EVAL) return;
    const uint32_t stream = edit.stream(view.raw.axis, "gradient");  // of its own: sums run beside the backward
    if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
    size_t num_sums = 0;
    const storage::GradientSums sums(view);
    for (const storage::ParamGroup& unit : storage::gradients(view))
      for (const storage::GradientSum& sum : sums.of(unit)) {
        storage::sum_group_on_every_rank(view, edit, stream, unit, sum);
        ++num_sums;
      }
    edit.collect_garbage();
    if (is_verbose_) host_.log(TSR_LOG_INFO, "unit-ddp: " + std::to_string(num_sums) + " sums in a step");
  }

 private:
  const bool is_verbose_;
  const Host host_;
};

constexpr tsr_option kOptions[] = {bool_option("verbose", "false", "log how many sums a step has")};
constexpr tsr_descriptor kDescriptor =
    descriptor("unit-ddp", TSR_KIND_STRATEGY, "com.example.unit-ddp", "1.0.0",
               "data parallel: one sum for each unit of the model", kOptions, "Example");
using Table = StrategyTable<UnitDdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

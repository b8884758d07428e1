// ddp with one fault, of those that no text of the program shows: what it computes, saves or leaves for the next step
// would be something else than it seems. `master-copied` has none.
#include <array>
#include <map>
#include <vector>

#include "ddp.h"
#include "tessera/storage.hpp"

namespace {

using namespace tessera;
using storage::BufferRange;

class Deceptive final : public Strategy {
 public:
  static constexpr std::string_view kName = "deceptive";
  Deceptive(std::string_view axis, std::span<const tsr_option_value> options)
      : ddp_(axis, options), fault_(tessera::view(option(options, "fault").s)) {}
  bool depends_on_coordinate() const override { return is("received-sum"); }

  void layout(const ProgramView& view, const LayoutSink& sink) const override {
    static constexpr int32_t kMissing[] = {99};
    if (!is("scaled-average") && !is("coordinates") && !is("second-moment")) return ddp_.layout(view, sink);
    for (size_t p = 0; p < view.parameters().size(); ++p) {
      tsr_layout_entry entry{};
      entry.parameter = static_cast<int32_t>(p);
      entry.axis = view.raw.axis;
      entry.dim = -1;
      entry.parts = entry.blocks = 1;
      if (is("scaled-average")) {
        entry.kind = TSR_LAYOUT_DIVERGENT;
        entry.roles = TSR_ALL_HOME_ROLES;
      } else if (is("coordinates")) {
        entry.kind = TSR_LAYOUT_REPLICATED;
        entry.roles = 1u << TSR_HOME_M;
        entry.coordinates = kMissing;
        entry.num_coordinates = 1;
      } else {
        entry.kind = TSR_LAYOUT_SPLIT;
        entry.roles = 1u << TSR_HOME_V;
        entry.parts = view.axis().num_ranks;
        entry.padded_size = view.parameters()[p].num_elements;
      }
      sink.add_entry(entry);
    }
  }

  void lower(const ProgramView& view, const Edit& edit) const override {
    const bool is_init = view.raw.purpose == TSR_PURPOSE_INIT, is_step = view.raw.purpose == TSR_PURPOSE_STEP;
    const uint32_t stream = edit.stream(view.raw.axis, "test");
    if (is("scaled-average")) return is_step ? average(view, edit, stream) : void();
    if (is_step && sums_otherwise()) return sum(view, edit, stream);
    ddp_.lower(view, edit);
    if (is("master") || is("master-copied")) add_masters(view, edit);
    if (is("state")) add_state(view, edit);
    if (is("unit")) replace_with_unit(view, edit);
    if (is_init && is("init-sum"))
      storage::Inserter(edit, 0, TSR_AFTER)
          .collective(TSR_ACTION_ALL_REDUCE, stream, edit.group(view.raw.axis),
                      std::array{value_of(view.homes()[0]).in_place()});
    if (is_init && is("init-call")) call(view, edit, value_of(view.homes()[0]));
    if (!is_step) return;
    if (is("received-sum")) sum_received(view, edit, stream);
    if (is("padding")) call(view, edit, padding_of(view));
    if (is("workspace")) bind_workspace(view, edit, stream);
    if (is("run-words")) zero_run_words(view, edit);
  }

  void call_action(const tsr_call&) const override {}

 private:
  bool is(std::string_view fault) const { return fault_ == fault; }

  static BufferRange value_of(const tsr_home& home) {
    const tsr_home_role& value = role_of(home, TSR_HOME_VALUE);
    return {value.buffer, value.offset, value.num_elements};
  }

  static void compute(const Edit& edit, uint64_t anchor, uint32_t where, uint32_t kind,
                      std::span<const tsr_binding> bindings, double scale = 0) {
    tsr_action action = make_action(kind, TSR_STREAM_COMPUTE);
    action.scale = scale;
    edit.insert(anchor, where, action, bindings);
  }

  /// A call that writes it, at the end.
  static void call(const ProgramView& view, const Edit& edit, const BufferRange& range) {
    tsr_action action = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    action.strategy = view.raw.strategy;
    edit.insert(0, TSR_AFTER, action, std::array{range.destination()});
  }

  /// Between two homes in one buffer.
  static BufferRange padding_of(const ProgramView& view) {
    for (const tsr_home& home : view.homes()) {
      const BufferRange own = value_of(home);
      const uint64_t begin = own.offset + own.num_elements;
      uint64_t end = view.buffer(own.buffer).num_elements;
      for (const tsr_home& other : view.homes())
        if (const BufferRange next = value_of(other); next.buffer == own.buffer && next.offset >= begin)
          end = std::min(end, next.offset);
      if (begin < end) return {own.buffer, begin, end - begin};
    }
    return {};
  }

  void add_masters(const ProgramView& view, const Edit& edit) const {
    std::map<uint64_t, uint64_t> masters;
    for (const tsr_home& home : view.homes()) {
      const BufferRange value = value_of(home);
      const auto [master, is_new] = masters.try_emplace(value.buffer);
      const tsr_buffer& buffer = view.buffer(value.buffer);
      if (is_new)
        master->second =
            edit.add_buffer(to_string(buffer.name) + " master", TSR_BUFFER_HOME, TSR_F32, buffer.num_elements, true);
      const BufferRange own{master->second, value.offset, value.num_elements};
      edit.set_role(home.id, own.role(TSR_HOME_MASTER));
      if (view.raw.purpose == TSR_PURPOSE_INIT && is("master-copied"))
        compute(edit, 0, TSR_AFTER, TSR_ACTION_COPY, std::array{own.source(), value.destination()});
      for (const tsr_action& action : view.actions())
        if (action.kind == TSR_ACTION_OPTIMIZER && action.home == home.id) {
          edit.bind(action.id, own.in_place());
          compute(edit, action.id, TSR_AFTER, TSR_ACTION_COPY, std::array{own.source(), value.destination()});
        }
    }
  }
  static void add_state(const ProgramView& view, const Edit& edit) {
    for (const tsr_home& home : view.homes()) {
      const uint64_t state =
          edit.add_buffer(to_string(home.name) + " state", TSR_BUFFER_OPTIMIZER, TSR_F32, home.num_elements, true);
      edit.set_role(home.id, BufferRange{state, 0, home.num_elements}.role(TSR_HOME_STATE(5)));
    }
  }

  static void replace_with_unit(const ProgramView& view, const Edit& edit) {
    tsr_home home = view.homes()[0];
    home.unit = 999;
    edit.replace_homes(std::array{view.homes()[0].id}, &home);
  }

  static void bind_workspace(const ProgramView& view, const Edit& edit, uint32_t stream) {
    const uint64_t byte = edit.add_buffer("byte", TSR_BUFFER_WORKSPACE, TSR_U8, 1);
    const BufferRange value = value_of(view.homes()[0]);
    const tsr_binding workspace{byte, 0, 1, TSR_SLOT(TSR_ROLE_WORKSPACE, 0), TSR_MODE_WRITE};
    storage::Inserter(edit, 0, TSR_AFTER)
        .collective(TSR_ACTION_BROADCAST, stream, edit.group(view.raw.axis), std::array{value.in_place(), workspace},
                    0);
  }

  static void zero_run_words(const ProgramView& view, const Edit& edit) {
    for (const tsr_action& action : view.actions())
      if (action.kind == TSR_ACTION_CLIP) {
        const auto slot = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR);
        const BufferRange words{ProgramView::find_binding(action, slot)->buffer, TSR_WORD_STOP, 1};
        compute(edit, action.id, TSR_AFTER, TSR_ACTION_ZERO, std::array{words.destination()});
      }
  }

  /// What compute reads of the first home: the sum over the axis of what the neighbors have sent.
  static void sum_received(const ProgramView& view, const Edit& edit, uint32_t stream) {
    const BufferRange value = value_of(view.homes()[0]);
    const uint64_t n = value.num_elements, first = view.actions()[0].id;
    const BufferRange received{edit.add_buffer("received", TSR_BUFFER_STAGING, TSR_F32, n), 0, n};
    const BufferRange sum{edit.add_buffer("sum", TSR_BUFFER_GATHERED, TSR_F32, n), 0, n};
    const int32_t num_ranks = view.axis().num_ranks, own = view.axis().coordinate;
    const std::array peers{(own + 1) % num_ranks, (own + num_ranks - 1) % num_ranks};
    tsr_action exchange = make_action(TSR_ACTION_EXCHANGE, stream);
    exchange.group = edit.group(view.raw.axis);
    exchange.peers = peers.data();
    exchange.num_peers = peers.size();
    edit.insert(first, TSR_BEFORE, exchange, std::array{value.source(), received.destination()});
    storage::Inserter(edit, first, TSR_BEFORE)
        .collective(TSR_ACTION_ALL_REDUCE, stream, exchange.group, std::array{received.source(), sum.destination()});
    for (const tsr_action& action : view.actions())
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (is_compute(action) && TSR_SLOT_ROLE(b.slot) == TSR_ROLE_PARAMETER && b.buffer == value.buffer &&
            b.offset == value.offset)
          edit.bind(action.id, {sum.buffer, 0, n, b.slot, b.mode});
  }

  /// Parameters that diverge, averaged after each step: each rank's tripled before.
  static void average(const ProgramView& view, const Edit& edit, uint32_t stream) {
    for (const tsr_action& action : view.actions()) {
      if (action.kind != TSR_ACTION_OPTIMIZER) continue;
      const tsr_binding value = *ProgramView::find_binding(action, kDestination);
      compute(edit, action.id, TSR_AFTER, TSR_ACTION_SCALE, std::array{value}, 3);
      tsr_action mean = make_action(TSR_ACTION_ALL_REDUCE, stream);
      mean.group = edit.group(view.raw.axis);
      mean.reduce = TSR_REDUCE_AVG;
      edit.insert(action.id, TSR_AFTER, mean, std::array{value});
    }
  }

  bool sums_otherwise() const {
    return is("thirds") || is("lost-bits") || is("wide") || is("wide-to-narrow") || is("reversed") || is("each") ||
           is("half");
  }

  void sum(const ProgramView& view, const Edit& edit, uint32_t stream) const {
    const storage::GradientSums sums(view);
    for (const storage::FlatParam& parameter : storage::flat_params(view)) {
      storage::ParamGroup group;
      group.add(parameter);
      for (const storage::GradientSum& one : sums.of(group)) {
        const BufferRange whole{one.buffers[0], 0, group.num_elements};
        const storage::Inserter after(edit, one.last_writer, TSR_AFTER, one.micro_batch);
        const auto all_reduce = [&](const BufferRange& range) {
          after.collective(TSR_ACTION_ALL_REDUCE, stream, edit.group(view.raw.axis), std::array{range.in_place()});
        };
        const auto scale = [&](double by) {
          compute(edit, one.last_writer, TSR_AFTER, TSR_ACTION_SCALE, std::array{whole.in_place()}, by);
        };
        if (is("wide") || is("wide-to-narrow"))
          sum_wide(view, edit, one, whole, all_reduce);
        else if (is("thirds") || is("lost-bits"))
          scale_around(scale, [&] { all_reduce(whole); });
        else
          sum_micro_batches(view, edit, whole, stream);
      }
    }
    edit.collect_garbage();
  }

  template <class Scale, class Sum>
  void scale_around(const Scale& scale, const Sum& sum) const {
    const double by = is("thirds") ? 3 : 0x1p-100;
    scale(by);
    sum();
    scale(1 / by);
  }

  template <class Sum>
  void sum_wide(const ProgramView& view, const Edit& edit, const storage::GradientSum& one, const BufferRange& whole,
                const Sum& all_reduce) const {
    const uint64_t n = whole.num_elements;
    const BufferRange own{edit.add_buffer("own", TSR_BUFFER_GRADIENT, TSR_F32, n), 0, n};
    const BufferRange wide{edit.add_buffer("wide", TSR_BUFFER_STAGING, TSR_F64, n), 0, n};
    for (const tsr_action& action : view.actions())
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (b.buffer == whole.buffer && b.mode != TSR_MODE_READ)
          edit.bind(action.id, {own.buffer, b.offset, b.num_elements, b.slot, b.mode});
    const storage::Inserter after(edit, one.last_writer, TSR_AFTER, one.micro_batch);
    after.cast(own, wide);
    if (is("wide")) {
      all_reduce(wide);
      return after.cast(wide, whole);
    }
    compute(edit, one.last_writer, TSR_AFTER, TSR_ACTION_ADD_INTO, std::array{wide.source(), whole.destination()});
    all_reduce(whole);
  }

  /// Each micro-batch has its gradients in a buffer of its own; then they are added: the last one first; or each after
  /// its own sum over the ranks; or in 16 bits.
  void sum_micro_batches(const ProgramView& view, const Edit& edit, const BufferRange& whole, uint32_t stream) const {
    const uint64_t n = whole.num_elements;
    std::vector<BufferRange> own;
    for (uint32_t mb = 0; mb < view.raw.num_micro_batches; ++mb)
      own.push_back({edit.add_buffer("own " + std::to_string(mb), TSR_BUFFER_GRADIENT, TSR_F32, n), 0, n});
    uint64_t last = 0;
    for (const tsr_action& action : view.actions())
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (b.buffer == whole.buffer && b.mode != TSR_MODE_READ) {
          const BufferRange& range = own[static_cast<size_t>(action.micro_batch)];
          edit.bind(action.id, {range.buffer, b.offset, b.num_elements, b.slot, b.mode});
          last = action.id;
        }
    const storage::Inserter after(edit, last, TSR_AFTER);
    const auto all_reduce = [&](const BufferRange& range) {
      after.collective(TSR_ACTION_ALL_REDUCE, stream, edit.group(view.raw.axis), std::array{range.in_place()});
    };
    BufferRange sum = whole;
    if (is("half")) {
      sum.buffer = edit.add_buffer("half sum", TSR_BUFFER_STAGING, TSR_BF16, n);
      for (BufferRange& range : own) {
        const BufferRange half{edit.add_buffer("half", TSR_BUFFER_STAGING, TSR_BF16, n), 0, n};
        after.cast(range, half);
        range = half;
      }
    }
    if (is("reversed")) std::ranges::reverse(own);
    for (const BufferRange& range : own) {
      if (is("each")) all_reduce(range);
      compute(edit, last, TSR_AFTER, TSR_ACTION_ADD_INTO,
              std::array{range.source(), range.buffer == own[0].buffer ? sum.destination() : sum.in_place()});
    }
    if (is("half")) after.cast(sum, whole);
    if (!is("each")) all_reduce(whole);
  }

  ddp::Ddp ddp_;
  std::string fault_;
};

constexpr tsr_option kOptions[] = {float_option("bucket-mb", "25", 1e-6, 65536, "as ddp's"),
                                   string_option("fault", "master-copied", "", "what is wrong")};
constexpr tsr_descriptor kDescriptor = descriptor("deceptive", TSR_KIND_STRATEGY, "org.tessera.tests.deceptive", "1",
                                                  "sums or keeps something else than it seems", kOptions);
using Table = StrategyTable<Deceptive, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

// Data parallelism that sends gradients as int8, with error feedback (Seide et al. 2014; QSGD, Alistarh et al. 2017),
// as a third party would write it. Of a home's gradient g and what earlier steps have left out of it, the residual e:
//
//     call code=1                         x = g + s e; for each block of 64: scale = max |x| / 127, q = round(x /
//     scale);
//                                         f = (x - scale q) / s
//     all_gather                          q of all ranks
//     all_gather                          the scales of all ranks
//     call code=1 reduce=sum group=dp     g = sum over the ranks of scale q, over the gradient
//     clip                                the host's
//     call code=1                         e = f, if the step counts
//
// s is the loss scale of the step under --dtype fp16, else 1. --quantized.scheme=sum agrees on scales by the ranks'
// maximum first, and sends q so small that int8 holds the sum:
//
//     call code=2                         m = max |x| of each block
//     all_reduce by max                   m
//     call reduce=sum                     scale = n m / 127, q = round(x / scale), f = (x - scale q) / s
//     all_reduce by sum                   q
//     call                                g = scale q, over the gradient
//     clip, call reduce=sum               as above
//
// A tied embedding on two stages is summed over them first (tsr_edit.complete). --quantized.fault makes a program that
// the host must refuse.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/storage.hpp"

namespace {

using namespace tessera;

enum Tag : uint64_t { kEncode, kDecode, kMeasure, kRound, kExpand, kKeep };
constexpr uint32_t kInt8 = 1, kBound = 2;
constexpr uint64_t kBlock = 64;

uint64_t num_blocks(uint64_t num_elements) {
  return (num_elements + kBlock - 1) / kBlock;
}

// ---- arithmetic ----

template <class T>
std::span<T> values(const tsr_tensor_view& view) {
  return {static_cast<T*>(view.data), static_cast<size_t>(view.shape[0])};
}

/// What a rank adds to the sum. A gradient has the loss scale of its step, which changes, so the residual is kept
/// without it.
struct Addend {
  std::span<const float> gradient, residual;
  float loss_scale;  // a power of two

  /// The loss scale is the last operand, where there is one beside the first `num_operands`.
  Addend(std::span<const tsr_tensor_view> o, size_t residual_at, size_t num_operands)
      : gradient(values<float>(o[0])),
        residual(values<float>(o[residual_at])),
        loss_scale(o.size() > num_operands ? static_cast<float>(values<double>(o[num_operands])[0]) : 1.0f) {}
  float operator[](size_t i) const { return gradient[i] + loss_scale * residual[i]; }
};

/// The largest |x| of each block; infinite where one is not finite.
void measure(const Addend& addend, std::span<float> bounds) {
  std::ranges::fill(bounds, 0.0f);
  for (size_t i = 0; i < addend.gradient.size(); ++i) {
    const float x = std::abs(addend[i]);
    bounds[i / kBlock] = std::max(bounds[i / kBlock], std::isfinite(x) ? x : INFINITY);
  }
}

/// Where a gradient is not finite the scale is none either, and so the sum: the step is skipped.
void round_to(std::span<const float> scales, const Addend& addend, std::span<int8_t> codes, std::span<float> left) {
  for (size_t i = 0; i < left.size(); ++i) {
    const float scale = scales[i / kBlock], x = addend[i];
    codes[i] = scale > 0 && std::isfinite(scale) ? static_cast<int8_t>(std::lround(x / scale)) : int8_t{0};
    left[i] = std::isfinite(scale) ? (x - scale * static_cast<float>(codes[i])) / addend.loss_scale : 0.0f;
  }
}

void encode(std::span<const tsr_tensor_view> o) {
  const Addend addend(o, 1, 5);
  const auto scales = values<float>(o[3]);
  measure(addend, scales);
  for (float& scale : scales)
    scale /= 127;
  round_to(scales, addend, values<int8_t>(o[2]), values<float>(o[4]));
}

/// A step that is skipped has sent nothing, so what earlier ones have left is still to be sent.
void keep(std::span<const tsr_tensor_view> o) {
  if (values<double>(o[0])[1] != 0) std::ranges::copy(values<float>(o[1]), values<float>(o[2]).begin());
}

/// In the order of the ranks, so every rank has the same bits.
void decode(std::span<const tsr_tensor_view> o, size_t num_ranks) {
  const auto codes = values<int8_t>(o[0]);
  const auto scales = values<float>(o[1]);
  const auto sum = values<float>(o[2]);
  const size_t n = sum.size(), blocks = scales.size() / num_ranks;
  for (size_t i = 0; i < n; ++i) {
    sum[i] = 0;
    for (size_t rank = 0; rank < num_ranks; ++rank)
      sum[i] += scales[rank * blocks + i / kBlock] * static_cast<float>(codes[rank * n + i]);
  }
}

void change_a_bit(float& value) {
  value = std::nextafter(value, 1.0f);
}

std::vector<float> shared_scales(std::span<const float> bounds, size_t num_ranks) {
  const auto levels = static_cast<float>(127 / num_ranks);
  std::vector<float> scales(bounds.begin(), bounds.end());
  for (float& scale : scales)
    scale /= levels;
  return scales;
}

void expand(std::span<const tsr_tensor_view> o, size_t num_ranks) {
  const auto codes = values<int8_t>(o[0]);
  const std::vector<float> scales = shared_scales(values<float>(o[1]), num_ranks);
  const auto sum = values<float>(o[2]);
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] = scales[i / kBlock] * static_cast<float>(codes[i]);
}

// ---- the pass ----

/// Inserts one action after another, after an anchor.
class Chain {
 public:
  Chain(const ProgramView& view, const Edit& edit, uint64_t anchor)
      : view_(view), edit_(edit), anchor_(anchor), stream_(edit.stream(view.raw.axis, "quantized")) {}

  void call(Tag tag, uint32_t code, const std::vector<tsr_binding>& operands, uint32_t reduce = 0, int32_t group = -1) {
    tsr_action action = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    action.strategy = view_.raw.strategy;
    action.tag = tag;
    action.code = code;
    action.reduce = reduce;
    action.group = group;
    edit_.insert(anchor_, TSR_AFTER, action, operands);
  }
  void collective(uint32_t kind, const std::vector<tsr_binding>& operands, uint32_t reduce = 0) {
    tsr_action action = make_action(kind, stream_);
    action.group = edit_.group(view_.raw.axis);
    action.reduce = reduce;
    edit_.insert(anchor_, TSR_AFTER, action, operands);
  }

 private:
  const ProgramView& view_;
  const Edit& edit_;
  const uint64_t anchor_;
  const uint32_t stream_;
};

tsr_binding bind(uint64_t buffer, uint64_t num_elements, uint32_t mode, uint32_t index = 0) {
  return {buffer, 0, num_elements, TSR_SLOT(mode == TSR_MODE_READ ? TSR_ROLE_SOURCE : TSR_ROLE_DESTINATION, index),
          mode};
}

class Quantized final : public Strategy {
 public:
  static constexpr std::string_view kName = "quantized";
  Quantized(std::string_view, std::span<const tsr_option_value> options)
      : sums_(to_string(option(options, "scheme").s) == "sum"), fault_(to_string(option(options, "fault").s)) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    if (view.raw.reduce_every != TSR_EVERY_STEP || view.raw.reduce_dtype != TSR_F32)
      throw Error(TSR_E_UNSUPPORTED,
                  "gradients are sent as int8, once a step; leave --reduce-every and --reduce-dtype");
    if (view.raw.purpose == TSR_PURPOSE_INIT) storage::broadcast_values(view, edit, edit.stream(view.raw.axis, "init"));
    for (const tsr_home& home : view.homes()) {
      if (!role_of(home, TSR_HOME_STATE(0u)).buffer || home.num_elements == 0) continue;  // nothing trains
      const uint64_t residual =
          edit.add_buffer("residual " + to_string(home.name), TSR_BUFFER_PLUGIN, TSR_F32, home.num_elements, true);
      if (view.raw.purpose == TSR_PURPOSE_STEP) reduce(view, edit, home, residual);
    }
  }

  void call_action(const tsr_call& call) const override {
    const auto o = operands(call);
    const auto n = static_cast<size_t>(call.num_ranks);
    switch (call.tag) {
      case kEncode:
        return encode(o);
      case kDecode:
        decode(o, n);
        if (fault_ == "silent") throw Error(TSR_E_UNAVAILABLE, "");
        if (fault_ == "drift" && call.coordinate == 1) change_a_bit(values<float>(o[2])[0]);
        return;
      case kMeasure:
        return measure(Addend(o, 1, 3), values<float>(o[2]));
      case kRound:
        return round_to(shared_scales(values<float>(o[1]), n), Addend(o, 2, 5), values<int8_t>(o[3]),
                        values<float>(o[4]));
      case kKeep:
        return keep(o);
      case kExpand:
        return expand(o, n);
      default:
        Strategy::call_action(call);
    }
  }

 private:
  void reduce(const ProgramView& view, const Edit& edit, const tsr_home& home, uint64_t residual) const {
    const tsr_home_role& place = role_of(home, TSR_HOME_GRADIENT);
    tsr_binding gradient{place.buffer, place.offset, place.num_elements, kSource, TSR_MODE_READ};
    const uint64_t completed = fault_ == "incomplete" ? 0 : edit.complete(home.id);
    Chain chain(view, edit, completed ? completed : last_writer(view, gradient));
    const uint64_t left = edit.add_buffer("left", TSR_BUFFER_PLUGIN, TSR_F32, gradient.num_elements);
    const tsr_action& clip = *std::ranges::find(view.actions(), uint32_t{TSR_ACTION_CLIP}, &tsr_action::kind);
    std::vector<tsr_binding> loss_scale;  // there is one under fp16 alone
    if (const tsr_binding* scale = scalar_of(clip, TSR_SCALAR_LOSS_SCALE)) loss_scale.push_back(*scale);
    const Operands o{gradient, residual, left, loss_scale};
    sums_ ? sum(view, edit, chain, o) : gather(view, edit, chain, o);
    tsr_binding counts = *scalar_of(clip, TSR_SCALAR_CLIP);
    counts.mode = TSR_MODE_READ;
    // What is kept is of the kind that is left: codes, or addends.
    Chain(view, edit, clip.id)
        .call(kKeep, sums_ ? 0 : kInt8,
              {counts, bind(left, gradient.num_elements, TSR_MODE_READ),
               bind(residual, gradient.num_elements, TSR_MODE_WRITE)},
              sums_ ? TSR_REDUCE_SUM : 0);
  }

  static const tsr_binding* scalar_of(const tsr_action& clip, uint32_t scalar) {
    return ProgramView::find_binding(clip, TSR_SLOT(TSR_ROLE_SCALAR, scalar));
  }

  struct Operands {
    tsr_binding gradient;
    uint64_t residual, left;
    std::vector<tsr_binding> loss_scale;

    std::vector<tsr_binding> and_loss_scale(std::vector<tsr_binding> others) const {
      others.insert(others.end(), loss_scale.begin(), loss_scale.end());
      return others;
    }
  };

  void gather(const ProgramView& view, const Edit& edit, Chain& chain, const Operands& o) const {
    tsr_binding gradient = o.gradient;
    const uint64_t n = gradient.num_elements, blocks = num_blocks(n);
    const auto ranks = static_cast<uint64_t>(view.axis().num_ranks);
    const auto buffer = [&](const char* name, tsr_dtype dtype, uint64_t num_elements) {
      return edit.add_buffer(name, TSR_BUFFER_PLUGIN, dtype, num_elements);
    };
    const uint64_t codes = buffer("codes", TSR_I8, n), scales = buffer("scales", TSR_F32, blocks);
    const uint64_t all_codes = buffer("all codes", TSR_I8, ranks * n);
    const uint64_t all_scales = buffer("all scales", TSR_F32, ranks * blocks);
    chain.call(kEncode, kInt8,
               o.and_loss_scale({gradient, bind(o.residual, n, TSR_MODE_READ, 1), bind(codes, n, TSR_MODE_WRITE, 1),
                                 bind(scales, blocks, TSR_MODE_WRITE, 2), bind(o.left, n, TSR_MODE_WRITE, 3)}));
    if (fault_ == "summed") chain.collective(TSR_ACTION_ALL_REDUCE, {bind(codes, n, TSR_MODE_ADD)}, TSR_REDUCE_SUM);
    chain.collective(TSR_ACTION_ALL_GATHER,
                     {bind(codes, n, TSR_MODE_READ), bind(all_codes, ranks * n, TSR_MODE_WRITE)});
    if (fault_ != "forgotten-gather")
      chain.collective(TSR_ACTION_ALL_GATHER,
                       {bind(scales, blocks, TSR_MODE_READ), bind(all_scales, ranks * blocks, TSR_MODE_WRITE)});
    const std::array<int32_t, 2> half = {0, 1};
    const int32_t group = fault_ == "other-group" ? edit.group(view.raw.axis, half) : edit.group(view.raw.axis);
    gradient.slot = kDestination;
    gradient.mode = TSR_MODE_WRITE;
    if (fault_ == "undecoded") return;
    chain.call(kDecode, fault_ == "other-code" ? kBound : kInt8,
               {bind(all_codes, ranks * n, TSR_MODE_READ),
                fault_ == "forgotten-gather" ? bind(scales, blocks, TSR_MODE_READ, 1)
                                             : bind(all_scales, ranks * blocks, TSR_MODE_READ, 1),
                gradient},
               fault_ == "undeclared" ? 0 : TSR_REDUCE_SUM, fault_ == "undeclared" ? -1 : group);
  }

  void sum(const ProgramView&, const Edit& edit, Chain& chain, const Operands& o) const {
    tsr_binding gradient = o.gradient;
    const uint64_t n = gradient.num_elements, blocks = num_blocks(n);
    const uint64_t bounds = edit.add_buffer("bounds", TSR_BUFFER_PLUGIN, TSR_F32, blocks);
    const uint64_t codes = edit.add_buffer("codes", TSR_BUFFER_PLUGIN, TSR_I8, n);
    chain.call(
        kMeasure, kBound,
        o.and_loss_scale({gradient, bind(o.residual, n, TSR_MODE_READ, 1), bind(bounds, blocks, TSR_MODE_WRITE)}));
    chain.collective(TSR_ACTION_ALL_REDUCE, {bind(bounds, blocks, TSR_MODE_ADD)},
                     fault_ == "summed" ? TSR_REDUCE_SUM : TSR_REDUCE_MAX);
    chain.call(
        kRound, 0,
        o.and_loss_scale({gradient, bind(bounds, blocks, TSR_MODE_READ, 1), bind(o.residual, n, TSR_MODE_READ, 2),
                          bind(codes, n, TSR_MODE_WRITE, 1), bind(o.left, n, TSR_MODE_WRITE, 2)}),
        fault_ == "undeclared" ? 0 : TSR_REDUCE_SUM);
    chain.collective(TSR_ACTION_ALL_REDUCE, {bind(codes, n, TSR_MODE_ADD)}, TSR_REDUCE_SUM);
    gradient.slot = kDestination;
    gradient.mode = TSR_MODE_WRITE;
    chain.call(kExpand, 0, {bind(codes, n, TSR_MODE_READ), bind(bounds, blocks, TSR_MODE_READ, 1), gradient});
  }

  static uint64_t last_writer(const ProgramView& view, const tsr_binding& range) {
    uint64_t last = 0;
    for (const tsr_action& action : view.actions())
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (b.buffer == range.buffer && b.mode != TSR_MODE_READ && b.offset < range.offset + range.num_elements &&
            range.offset < b.offset + b.num_elements)
          last = action.id;
    return last;
  }

  const bool sums_;
  const std::string fault_;
};

constexpr tsr_option kOptions[] = {
    string_option("scheme", "gather", "gather|sum", "gather: all ranks' codes; sum: codes under shared scales"),
    string_option("fault", "none",
                  "none|summed|forgotten-gather|other-group|other-code|undeclared|undecoded|incomplete|drift|silent",
                  "what the host must refuse; no plan shows drift, with which the second rank decodes another bit, nor "
                  "silent: decoding fails without a message")};
constexpr tsr_descriptor kDescriptor =
    descriptor("quantized", TSR_KIND_STRATEGY, "org.tessera.tests.quantized", "1",
               "sums gradients that it sends as int8, with error feedback", kOptions);
using Table = StrategyTable<Quantized, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, Table::kInterface)

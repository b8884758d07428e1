// Fully sharded data parallelism (PyTorch FSDP: Zhao et al. 2023; ZeRO: Rajbhandari et al. 2020): options, groups and
// the layout. sharding.cc rewrites programs.
//
// A group holds the parameters of some units one after another, split into equal slices. With 2 ranks and the 13,312
// elements of a block each rank owns 6,656, regardless of where parameters begin and end. Equal slices make ranks'
// programs equal (one rank is planned for all) and reductions balanced; a slice may contain part of a tensor, so
// optimizers that need whole tensors cannot work on it.

#include "fsdp.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "sharding.h"

namespace tessera::fsdp {
namespace {

Sharding parse_sharding(std::string_view text) {
  if (text == "full_shard") return Sharding::full_shard;
  if (text == "shard_grad_op") return Sharding::shard_grad_op;
  return text == "optimizer_only" ? Sharding::optimizer_only : Sharding::no_shard;
}

uint64_t parse_count(std::string_view text, std::string_view kind) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0)
    throw Error(TSR_E_INVALID_ARGUMENT, "--fsdp.wrap is '" + std::string(kind) + ":" + std::string(text) +
                                            "'; after the colon give a whole number from 1 to " +
                                            std::to_string(std::numeric_limits<uint64_t>::max()) +
                                            (kind == "size" ? ", in bytes" : ", of parameters"));
  return number;
}

}  // namespace

Wrap parse_wrap(std::string_view text) {
  if (text == "unit") return {};
  if (text == "root") return {0, 0, true};
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon != text.npos && kind == "size") return {0, parse_count(text.substr(colon + 1), kind), false};
  if (colon != text.npos && kind == "min-params") return {parse_count(text.substr(colon + 1), kind), 0, false};
  throw Error(TSR_E_INVALID_ARGUMENT,
              "--fsdp.wrap is '" + std::string(text) + "'; give unit, root, size:BYTES or min-params:N");
}

Fsdp::Fsdp(std::string_view, std::span<const tsr_option_value> options)
    : sharding_(parse_sharding(view(option(options, "sharding").s))),
      wrap_(parse_wrap(view(option(options, "wrap").s))),
      unshard_(storage::read_unshard_options(options)) {
  const bool gathers = sharding_ == Sharding::full_shard || sharding_ == Sharding::shard_grad_op;
  const bool is_auto = view(option(options, "reshard-after-forward").s) == "auto";
  if (is_auto) unshard_.keep = sharding_ == Sharding::shard_grad_op;
  if (!is_auto && !gathers)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "fsdp.reshard-after-forward needs a sharding that gathers parameters: full_shard or shard_grad_op");
  if (unshard_.limit && (!gathers || unshard_.keep))
    throw Error(TSR_E_INVALID_ARGUMENT,
                "fsdp.limit-all-gathers needs parameters that are freed after use: full_shard, or shard_grad_op with "
                "reshard-after-forward=true");
}

std::vector<storage::ParamGroup> Fsdp::groups(const ProgramView& view) const {
  std::vector<storage::ParamGroup> groups;
  const auto is_full = [&](const storage::ParamGroup& group) {
    if (wrap_.whole_model) return false;
    const uint64_t bytes = TSR_NUM_BYTES(group.first().value->dtype, group.num_elements);
    return group.num_elements >= wrap_.min_elements && bytes >= wrap_.min_bytes;
  };
  // A slice has the same elements in every role, so frozen parameters and other dtypes are in groups of their own. So
  // are parameters that several pipeline stages share: their gradient is summed between stages whose other parameters
  // differ.
  const auto belongs = [&](const storage::ParamGroup& group, const storage::FlatParam& param) {
    return group.first().value->dtype == param.value->dtype && group.first().states.empty() == param.states.empty() &&
           !storage::is_on_several_stages(view, group.first()) && !storage::is_on_several_stages(view, param);
  };
  for (const storage::FlatParam& param : storage::flat_params(view)) {
    const auto open =
        std::ranges::find_if(groups, [&](const auto& group) { return !is_full(group) && belongs(group, param); });
    if (open == groups.end())
      groups.emplace_back().add(param);
    else
      open->add(param);
  }
  return groups;
}

void Fsdp::layout(const ProgramView& view, const LayoutSink& sink) const {
  if (sharding_ == Sharding::no_shard) return;
  tsr_layout_entry entry{};
  entry.axis = view.raw.axis;
  entry.kind = TSR_LAYOUT_SPLIT;
  entry.dim = -1;
  entry.blocks = 1;
  entry.parts = static_cast<uint32_t>(view.axis().num_ranks);
  entry.roles = TSR_ALL_HOME_ROLES;
  if (sharding_ == Sharding::optimizer_only) entry.roles &= ~(1u << TSR_HOME_VALUE | 1u << TSR_HOME_MASTER);
  for (size_t p = 0; p < view.parameters().size(); ++p) {
    entry.parameter = static_cast<int32_t>(p);
    entry.padded_size = view.parameters()[p].num_elements;
    sink.add_entry(entry);
  }
}

void Fsdp::lower(const ProgramView& view, const Edit& edit) const {
  const std::vector<storage::ParamGroup> all = groups(view);
  if (sharding_ == Sharding::no_shard) {
    replicate(view, edit, all);
  } else {
    Sharder sharder(view, edit, all);
    if (sharding_ == Sharding::optimizer_only)
      sharder.shard_optimizer();
    else
      sharder.shard_all(storage::options_in_mesh(unshard_, view, kName));
  }
  edit.collect_garbage();
}

}  // namespace tessera::fsdp

// ZeRO (Rajbhandari et al. 2020) with whole tensors instead of slices: each tensor has an owner, which alone keeps its
// optimizer state. Tensors are never split, which suits optimizers that need whole matrices. The price is balance: one
// large tensor (wte) may exceed a fair share, and an owner sends while the others wait. owner_pass.cc rewrites
// programs.

#include "zero3.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "owner_pass.h"

namespace tessera::zero3 {
namespace {

Partition parse_partition(std::string_view text) {
  if (text == "balanced") return Partition::balanced;
  return text == "contiguous" ? Partition::contiguous : Partition::round_robin;
}

struct Balance {
  std::vector<int> owners;  // of each item
  uint64_t largest = 0;     // elements of the rank that has most
};

/// Longest processing time first (Graham 1969): at most 4/3 of the best possible largest load. Deterministic, since
/// every rank must compute the same owners: ties go to the earlier item and the lower rank.
Balance balance(std::span<const uint64_t> sizes, int num_ranks) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return sizes[i]; });
  // The first idle rank is taken first, so ranks beyond the number of items own nothing.
  using Load = std::pair<uint64_t, int>;  // elements, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < std::min(num_ranks, static_cast<int>(sizes.size())); ++rank)
    loads.emplace(0, rank);
  Balance result{std::vector<int>(sizes.size())};
  for (const size_t i : order) {
    const auto [load, rank] = loads.top();
    loads.pop();
    loads.emplace(load + sizes[i], rank);
    result.owners[i] = rank;
    result.largest = std::max(result.largest, load + sizes[i]);
  }
  return result;
}

/// Tensors one by one, unless whole units leave no rank with more than the fullest has then. With many ranks that is
/// the owner of the largest tensor (wte), and a unit with one owner is gathered by one broadcast instead of a dozen.
std::vector<int> balanced(std::span<const tsr_parameter> parameters, int num_ranks) {
  std::vector<uint64_t> tensors, units;
  for (const tsr_parameter& parameter : parameters) {
    const auto unit = static_cast<size_t>(parameter.unit);
    if (unit >= units.size()) units.resize(unit + 1);
    tensors.push_back(parameter.num_elements);
    units[unit] += parameter.num_elements;
  }
  Balance by_tensor = balance(tensors, num_ranks);
  const Balance by_unit = balance(units, num_ranks);
  if (by_unit.largest <= by_tensor.largest)
    for (size_t p = 0; p < parameters.size(); ++p)
      by_tensor.owners[p] = by_unit.owners[static_cast<size_t>(parameters[p].unit)];
  return by_tensor.owners;
}

/// A tensor goes to the rank whose equal share of all elements contains its middle.
void split_contiguously(std::span<const tsr_parameter> parameters, uint64_t num_ranks, std::vector<int>& owners) {
  uint64_t total = 0, done = 0;
  for (const tsr_parameter& parameter : parameters)
    total += parameter.num_elements;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const uint64_t middle = done + parameters[p].num_elements / 2;
    owners[p] = static_cast<int>(std::min(middle * num_ranks / std::max<uint64_t>(total, 1), num_ranks - 1));
    done += parameters[p].num_elements;
  }
}

}  // namespace

std::vector<int> assign_owners(std::span<const tsr_parameter> parameters, int num_ranks, Partition partition) {
  std::vector<int> owners(parameters.size());
  switch (partition) {
    case Partition::balanced:
      owners = balanced(parameters, num_ranks);
      break;
    case Partition::contiguous:
      split_contiguously(parameters, static_cast<uint64_t>(num_ranks), owners);
      break;
    case Partition::round_robin:
      for (size_t p = 0; p < owners.size(); ++p)
        owners[p] = static_cast<int>(p % static_cast<size_t>(num_ranks));
  }
  return owners;
}

Zero3::Zero3(std::string_view, std::span<const tsr_option_value> options)
    : partition_(parse_partition(view(option(options, "partition").s))),
      stage_(static_cast<int>(option(options, "stage").i)),
      unshard_(storage::read_unshard_options(options)) {
  if (stage_ < 3 && (unshard_.limit || unshard_.keep))
    throw Error(TSR_E_INVALID_ARGUMENT,
                "zero3.limit-all-gathers and zero3.reshard-after-forward need zero3.stage=3; in stages 1 and 2 every "
                "rank keeps all parameters");
  if (unshard_.limit && unshard_.keep)
    throw Error(TSR_E_INVALID_ARGUMENT, "zero3.limit-all-gathers needs zero3.reshard-after-forward=true");
}

void Zero3::layout(const ProgramView& view, const LayoutSink& sink) const {
  const std::vector<int> owners = assign_owners(view.parameters(), view.axis().num_ranks, partition_);
  constexpr uint32_t kValues = 1u << TSR_HOME_VALUE | 1u << TSR_HOME_MASTER;
  for (size_t p = 0; p < owners.size(); ++p) {
    tsr_layout_entry entry{};
    entry.parameter = static_cast<int32_t>(p);
    entry.axis = view.raw.axis;
    entry.kind = TSR_LAYOUT_SPLIT;
    entry.roles = stage_ == 3 ? TSR_ALL_HOME_ROLES : TSR_ALL_HOME_ROLES & ~kValues;
    entry.dim = -1;
    entry.blocks = entry.parts = 1;
    entry.coordinates = &owners[p];
    entry.num_coordinates = 1;
    entry.padded_size = view.parameters()[p].num_elements;
    sink.add_entry(entry);
  }
}

void Zero3::lower(const ProgramView& view, const Edit& edit) const {
  const std::vector<int> owners = assign_owners(view.parameters(), view.axis().num_ranks, partition_);
  OwnerPass(view, edit, owners, stage_, storage::options_in_mesh(unshard_, view, kName)).run();
  edit.collect_garbage();
}

}  // namespace tessera::zero3

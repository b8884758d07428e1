// Combines --mesh, --strategy and --nproc, which overlap, into one list of axes. Without --mesh there is one axis over
// the whole world. Without --strategy it has the default one. With several axes each needs a strategy, since no default
// would be right for most of them.
//
//     --nproc 4                                        dp=4, the default strategy
//     --strategy fsdp --nproc 4                        dp=4, fsdp
//     --mesh pp=2,dp=2 --strategy pp=pipeline,dp=ddp   two axes, 4 ranks; rank 1 is pp 0, dp 1
//
// Under another launcher the world is the launcher's, and the mesh must have as many ranks.

#include "config/axes.h"

#include <algorithm>
#include <cctype>

#include "base/concat.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

// The product is compared after each axis, so it never leaves 64 bits: at most 2^20 times 2^20.
constexpr int kMaxWorld = 1 << 20;

bool is_axis_name(std::string_view name) {
  const auto is_name_char = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-'; };
  return !name.empty() && std::islower(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

std::string checked_axis_name(std::string_view flag, std::string_view name) {
  if (!is_axis_name(name))
    throw UsageError(concat("--", flag, " has the axis name '", name,
                            "'; a name begins with a lower-case letter and has lower-case letters, digits and dashes"));
  return std::string(name);
}

template <class Items, class Name>
bool has_axis(const Items& items, std::string_view name, Name name_of) {
  return std::any_of(items.begin(), items.end(), [&](const auto& item) { return name_of(item) == name; });
}

std::string axis_names(const std::vector<MeshAxis>& axes) {
  std::string names;
  for (const MeshAxis& axis : axes)
    names += (names.empty() ? "" : ", ") + axis.name;
  return names;
}

int64_t product(const std::vector<AxisFlag>& mesh) {
  int64_t product = 1;
  for (const AxisFlag& axis : mesh)
    product *= axis.num_ranks;
  return product;
}

// The axes before strategies: those of --mesh, or one over the whole world.
std::vector<MeshAxis> bare_axes(const TrainConfig& config, int world_size) {
  std::vector<MeshAxis> axes;
  for (const AxisFlag& axis : config.mesh)
    axes.push_back({axis.name, axis.num_ranks, ""});
  if (!axes.empty()) return axes;
  if (config.strategies.size() > 1)
    throw UsageError("--strategy names more than one axis, which needs --mesh; add one, such as --mesh pp=2,dp=2");
  // --strategy x=fsdp without a mesh names its one axis x.
  const bool named = !config.strategies.empty() && !config.strategies[0].axis.empty();
  return {{named ? config.strategies[0].axis : "dp", world_size, ""}};
}

void put_strategies(const TrainConfig& config, std::vector<MeshAxis>& axes) {
  for (const StrategyFlag& flag : config.strategies) {
    if (flag.axis.empty() && axes.size() > 1)
      throw UsageError(concat("--strategy ", flag.plugin, " does not say which axis of the mesh it is for (",
                              axis_names(axes), "); give --strategy ", axes[0].name, "=", flag.plugin, ",..."));
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& candidate) {
      return flag.axis.empty() || candidate.name == flag.axis;
    });
    if (axis == axes.end())
      throw UsageError(concat("--strategy ", flag.axis, "=", flag.plugin, ": the mesh has no axis '", flag.axis,
                              "'; its axes are ", axis_names(axes)));
    axis->strategy = flag.plugin;
  }
}

}  // namespace

std::vector<AxisFlag> parse_mesh(std::string_view text) {
  std::vector<AxisFlag> mesh;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      throw UsageError(concat("--mesh has '", part, "'; write axes with their ranks, outermost first: pp=2,dp=4"));
    const std::string name = checked_axis_name("mesh", part.substr(0, equals));
    if (has_axis(mesh, name, [](const AxisFlag& axis) { return axis.name; }))
      throw UsageError(concat("--mesh names the axis '", name, "' twice; name each once"));
    mesh.push_back({name, static_cast<int>(parse_integer("mesh " + name, part.substr(equals + 1), 1, kMaxWorld))});
    if (product(mesh) > kMaxWorld)
      throw UsageError(concat("--mesh ", text, " has more than ", kMaxWorld, " ranks; make it smaller"));
  }
  return mesh;
}

std::vector<StrategyFlag> parse_strategies(std::string_view text) {
  std::vector<StrategyFlag> strategies;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.find('=');
    StrategyFlag flag;
    if (equals != std::string_view::npos) flag.axis = checked_axis_name("strategy", part.substr(0, equals));
    flag.plugin = std::string(equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (flag.plugin.empty())
      throw UsageError(concat("--strategy has '", part, "' without a plugin; write one, such as ", kDefaultStrategy,
                              ", or axis=plugin for each axis: dp=", kDefaultStrategy));
    if (has_axis(strategies, flag.axis, [](const StrategyFlag& other) { return other.axis; }))
      throw UsageError(flag.axis.empty()
                           ? concat("--strategy ", text, " names two plugins without an axis; write axis=plugin")
                           : concat("--strategy gives the axis '", flag.axis, "' two plugins; give it one"));
    strategies.push_back(std::move(flag));
  }
  return strategies;
}

std::string print_mesh(const std::vector<AxisFlag>& mesh) {
  std::string printed;
  for (const AxisFlag& axis : mesh)
    printed += concat(printed.empty() ? "" : ",", axis.name, "=", axis.num_ranks);
  return printed;
}

std::string print_strategies(const std::vector<StrategyFlag>& strategies) {
  std::string printed;
  for (const StrategyFlag& strategy : strategies)
    printed += concat(printed.empty() ? "" : ",", strategy.axis, strategy.axis.empty() ? "" : "=", strategy.plugin);
  return printed;
}

int requested_world(const TrainConfig& config) {
  if (config.mesh.empty()) return config.nproc;
  const int from_mesh = static_cast<int>(product(config.mesh));
  if (config.nproc != 0 && config.nproc != from_mesh)
    throw UsageError(concat("--nproc is ", config.nproc, ", but --mesh has ", from_mesh,
                            " ranks; make them equal, or leave out --nproc"));
  return from_mesh;
}

std::vector<MeshAxis> resolve_axes(const TrainConfig& config, int world_size) {
  if (!config.mesh.empty() && product(config.mesh) != world_size)
    throw UsageError(concat("--mesh has ", counted(product(config.mesh), "rank"), ", but the job has ", world_size,
                            "; change --mesh or the number of ranks to start"));
  std::vector<MeshAxis> axes = bare_axes(config, world_size);
  put_strategies(config, axes);
  if (config.strategies.empty() && axes.size() == 1 && axes[0].num_ranks > 1) axes[0].strategy = kDefaultStrategy;
  for (const MeshAxis& axis : axes)
    if (axis.strategy.empty() && axis.num_ranks > 1)
      throw UsageError(
          concat("the axis '", axis.name, "' of the mesh has no strategy; give --strategy ...,", axis.name, "=PLUGIN"));
  return axes;
}

}  // namespace tessera::host

#include "parity/sharding_matrix.h"

#include <algorithm>
#include <exception>

namespace tessera::testing {
namespace {

using Values = std::vector<std::string>;

struct Mode {
  std::string name, plugin;
  Values options;  // without the plugin's name
  bool gathers;    // copies that are given up after use
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> all = {
      {"ddp", "ddp", {}, false},
      {"ddp_small_buckets", "ddp", {"bucket-mb=0.01"}, false},
      {"full_shard", "fsdp", {"sharding=full_shard"}, true},
      {"full_shard_kept", "fsdp", {"sharding=full_shard", "reshard-after-forward=false"}, false},
      {"shard_grad_op", "fsdp", {"sharding=shard_grad_op"}, false},
      {"shard_grad_op_resharded", "fsdp", {"sharding=shard_grad_op", "reshard-after-forward=true"}, true},
      {"optimizer_only", "fsdp", {"sharding=optimizer_only"}, false},
      {"no_shard", "fsdp", {"sharding=no_shard"}, false},
      {"zero1", "zero3", {"stage=1"}, false},
      {"zero2", "zero3", {"stage=2"}, false},
      {"zero3", "zero3", {"stage=3"}, true},
      {"zero3_kept", "zero3", {"stage=3", "reshard-after-forward=false"}, false}};
  return all;
}

const Mode& mode_of(const Space& space, const Space::Row& row) {
  return *std::ranges::find(modes(), space.value(row, "mode"), &Mode::name);
}

template <class Condition>
Values modes_that(const Condition& holds) {
  Values names;
  for (const Mode& mode : modes())
    if (holds(mode)) names.push_back(mode.name);
  return names;
}

/// A mode takes the options of its plugin only, and those that do something.
std::vector<Rule> rules() {
  const Values no_gathers = modes_that([](const Mode& m) { return !m.gathers; });
  const Values no_copies = {"ddp", "ddp_small_buckets", "optimizer_only", "no_shard", "zero1", "zero2"};
  return {{"mode", modes_that([](const Mode& m) { return m.plugin != "fsdp"; }), "wrap", {"unit"}},
          {"mode", modes_that([](const Mode& m) { return m.plugin != "zero3"; }), "partition", {"balanced"}},
          {"mode", no_copies, "prefetch", {"1"}},
          {"mode", no_gathers, "backward", {"pre"}},
          {"mode", no_gathers, "limit", {"0"}},
          {"prefetch", {"0"}, "backward", {"pre"}},
          // Their blocks are two groups, of what trains and what does not, and one action needs both.
          {"freeze", {"*.bias"}, "limit", {"0", "2"}},
          // Inner sums are rounded before the outer ones: other bits than those of a flat axis.
          {"mesh", {"2x2"}, "reduce-dtype", {"float32"}}};
}

}  // namespace

Space sharding_space() {
  return Space({{"mode", modes_that([](const Mode&) { return true; })},
                {"mesh", {"2", "3", "4", "2x2"}},
                {"accumulation", {"1", "3"}},
                {"reduce-every", {"step", "micro-batch"}},
                {"dtype", {"float32", "bf16", "fp16"}},
                {"reduce-dtype", {"float32", "bf16"}},
                {"recompute", {"none", "full", "every=2", "attention"}},
                {"wrap", {"unit", "root", "size:20000", "min-params:6000"}},
                {"partition", {"balanced", "contiguous", "round_robin"}},
                {"prefetch", {"0", "1", "3"}},
                {"backward", {"pre", "post", "none"}},
                {"limit", {"0", "1", "2"}},
                {"freeze", {"none", "*.bias", "wte*,h.1.*"}},
                {"optimizer", {"adamw", "sgd", "momentum"}},
                {"comm", {"local", "gloo"}},
                {"debug", {"none", "memory", "delay", "both"}}},
               rules());
}

int num_ranks_of(const Space& space, const Space::Row& row) {
  const std::string& mesh = space.value(row, "mesh");
  return mesh == "2x2" ? 4 : std::stoi(mesh);
}

std::vector<std::string> flags_of(const Space& space, const Space::Row& row) {
  const auto value = [&](const char* factor) { return space.value(row, factor); };
  const Mode& mode = mode_of(space, row);
  std::vector<std::string> flags = {"--grad-accum=" + value("accumulation"), "--reduce-every=" + value("reduce-every"),
                                    "--dtype=" + value("dtype"), "--reduce-dtype=" + value("reduce-dtype"),
                                    "--recompute=" + value("recompute")};
  const bool is_nested = value("mesh") == "2x2";
  if (is_nested) flags.push_back("--mesh=replicate=2,shard=2");
  flags.push_back("--strategy=" + (is_nested ? "replicate=ddp,shard=" + mode.plugin : mode.plugin));
  // Options of the inner axis by its name: the outer one may have the same plugin.
  const std::string prefix = (is_nested ? "--shard." : "--") + mode.plugin + ".";
  for (const std::string& option : mode.options)
    flags.push_back(prefix + option);
  if (mode.plugin == "fsdp") flags.push_back(prefix + "wrap=" + value("wrap"));
  if (mode.plugin == "zero3") flags.push_back(prefix + "partition=" + value("partition"));
  if (mode.plugin != "ddp") {
    flags.push_back(prefix + "prefetch=" + value("prefetch"));
    flags.push_back(prefix + "backward-prefetch=" + value("backward"));
    flags.push_back(prefix + "limit-all-gathers=" + value("limit"));
  }
  if (value("freeze") != "none") flags.push_back("--freeze=" + value("freeze"));
  if (value("optimizer") == "sgd") flags.insert(flags.end(), {"--optimizer=sgd", "--beta1=0"});
  if (value("optimizer") == "momentum") flags.insert(flags.end(), {"--optimizer=sgd", "--beta1=0.9"});
  if (value("debug") == "memory" || value("debug") == "both") flags.push_back("--debug-memory");
  if (value("debug") == "delay" || value("debug") == "both") flags.push_back("--stream-delay=5");
  return flags;
}

ShardingMatrix::ShardingMatrix(Space space, int num_steps) : space_(std::move(space)), num_steps_(num_steps) {
  model_.write("config.json", R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-5, "vocab_size": 101,
    "n_positions": 19, "n_embd": 33, "n_layer": 2, "n_head": 3, "activation_function": "gelu_new"})");
}

RunResult ShardingMatrix::run(const Space::Row& row) const {
  std::vector<std::string> flags = flags_of(space_, row);
  flags.insert(flags.end(), {"--model=" + model_.path(), "--data=" + golden_folder() + "/tokens.bin", "--batch-size=1",
                             "--seq-len=13", "--lr=0.01", "--clip=0.5", "--steps=" + std::to_string(num_steps_)});
  return run_local(flags, num_ranks_of(space_, row), space_.value(row, "comm"));
}

Space::Row ShardingMatrix::reference_of(const Space::Row& row) const {
  Space::Row reference(row.size());  // the first value of what may not matter
  for (size_t i = 0; i < row.size(); ++i) {
    const Factor& factor = space_.factors()[i];
    if (factor.name == "accumulation" || factor.name == "reduce-every" || factor.name == "dtype" ||
        factor.name == "reduce-dtype" || factor.name == "freeze" || factor.name == "optimizer")
      reference[i] = row[i];
    if (factor.name == "mesh")
      reference[i] = space_.find("mesh", factor.values[row[i]] == "2x2" ? "4" : factor.values[row[i]]);
  }
  return reference;
}

std::string ShardingMatrix::check(const Space::Row& row) {
  try {
    const Space::Row reference = reference_of(row);
    const auto [found, is_new] = references_.try_emplace(reference);
    if (is_new) found->second = run(reference);
    return first_difference(found->second, run(row));
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tessera::testing

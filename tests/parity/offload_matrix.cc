// A further policy is an entry of policies(), with the options that it takes; an option is a factor of
// policy_options().

#include "parity/offload_matrix.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <sstream>

#include "support/compiled_job.h"
#include "support/large_gradients.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Values = std::vector<std::string>;

/// A policy. Of policy_options() it takes `options`; `fixed` are given as they are.
struct Policy {
  std::string name;
  Values options, fixed;
};

const std::vector<Policy>& policies() {
  static const std::vector<Policy> all = {
      {"activations", {"to", "what", "fraction", "ahead", "linger"}, {"min-bytes=0"}},
      {"optimizer-state", {"to", "states", "gradients", "update", "fraction", "ahead", "linger"}, {}},
      {"stream", {"to", "gradients", "update", "fraction", "ahead", "linger"}, {}},
      {"fit", {"to", "ahead", "linger"}, {}}};
  return all;
}

/// Values of --offload: each policy alone, and several in either order.
const Values& offload_values() {
  static const Values all = {
      "activations",    "optimizer-state",    "activations,optimizer-state", "optimizer-state,activations",
      "stream",         "stream,activations", "activations,stream",          "fit",
      "activations,fit"};
  return all;
}

/// The policies of a value of --offload, in its order.
std::vector<Policy> policies_of(const std::string& value) {
  std::vector<Policy> result;
  std::istringstream words(value);
  for (std::string name; std::getline(words, name, ',');)
    result.push_back(*std::ranges::find(policies(), name, &Policy::name));
  return result;
}

/// A mesh with its strategies.
struct Layout {
  std::string name;
  int num_ranks;
  Values flags;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"one", 1, {}},
      {"ddp", 3, {"--strategy=ddp"}},
      {"full_shard", 2, {"--strategy=fsdp"}},
      {"shard_grad_op", 4, {"--strategy=fsdp", "--fsdp.sharding=shard_grad_op"}},
      {"optimizer_only", 2, {"--strategy=fsdp", "--fsdp.sharding=optimizer_only"}},
      {"no_shard", 2, {"--strategy=fsdp", "--fsdp.sharding=no_shard"}},
      {"zero1", 2, {"--strategy=zero3", "--zero3.stage=1"}},
      {"zero2", 2, {"--strategy=zero3", "--zero3.stage=2"}},
      {"zero3", 3, {"--strategy=zero3"}},
      {"hybrid", 4, {"--mesh=replicate=2,shard=2", "--strategy=replicate=ddp,shard=fsdp"}},
      {"pipeline", 2, {"--mesh=pp=2", "--strategy=pp=pipeline"}},
      {"three_stages", 3, {"--mesh=pp=3", "--strategy=pp=pipeline"}},
      {"tensor", 2, {"--mesh=tp=2", "--strategy=tp=tensor"}},
      {"all", 8, {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"}}};
  return all;
}

Values layout_names() {
  Values names;
  for (const Layout& layout : layouts())
    names.push_back(layout.name);
  return names;
}

/// The factors that are options of policies, and --offload-chunk, which those ask for that move state.
const std::vector<Factor>& policy_options() {
  static const std::vector<Factor> all = {
      {"to", {"host", "file"}},         {"what", {"all", "saved", "values"}}, {"states", {"all", "m", "v"}},
      {"gradients", {"true", "false"}}, {"update", {"device", "host"}},       {"chunk", {"16MiB", "32KiB", "4KiB"}},
      {"fraction", {"1", "0.3"}},       {"ahead", {"1", "0", "3"}},           {"linger", {"1", "0", "2"}}};
  return all;
}

bool takes(const std::string& value, const std::string& option) {
  return std::ranges::any_of(policies_of(value),
                             [&](const Policy& p) { return std::ranges::count(p.options, option); });
}

bool decides_by_limit(const std::string& value) {
  return std::ranges::any_of(policies_of(value), [](const Policy& p) { return p.name == "fit"; });
}

/// Options are those of the policies that take them; a block that is computed again saves nothing from its forward, SGD
/// has no second moment, and the host updates in its memory, both moments. Gloo under a few layouts: it takes most of
/// the time.
std::vector<Rule> rules() {
  std::vector<Rule> rules = {{"recompute", {"full"}, "what", {"all", "values"}},
                             {"update", {"host"}, "to", {"host"}},
                             {"update", {"host"}, "states", {"all"}},
                             {"optimizer", {"momentum"}, "states", {"all", "m"}},
                             {"comm", {"gloo"}, "layout", {"ddp", "full_shard", "pipeline", "tensor"}}};
  for (const std::string& value : offload_values())
    for (const Factor& option : policy_options())
      if (!takes(value, option.name) &&
          !(option.name == "chunk" && (takes(value, "states") || takes(value, "gradients") || decides_by_limit(value))))
        rules.push_back({"policy", {value}, option.name, {option.values[0]}});
  return rules;
}

/// What results do not depend on, besides the policy and its options.
constexpr std::array kWithoutEffect = {"policy", "device", "engine", "recompute", "comm", "debug"};

/// For files, which have no names in it.
const std::string& offload_folder() {
  static const TempFolder folder;
  static const std::string path = folder.path();
  return path;
}

const Layout& layout_of(const Space& space, const Space::Row& row) {
  return *std::ranges::find(layouts(), space.value(row, "layout"), &Layout::name);
}

/// Bytes of device memory that the largest rank needs; nothing when the run is refused.
std::optional<uint64_t> planned_bytes(const Space& space, const Space::Row& row, const Values& more) {
  Values flags = job_flags(space, row);
  flags.insert(flags.end(), more.begin(), more.end());
  flags.insert(flags.end(), {"--model=" + golden_folder(), "--batch-size=1", "--seq-len=12"});
  try {
    const CompiledJob job(flags, num_offload_ranks(space, row));
    uint64_t most = 0;
    for (int rank = 0; rank < num_offload_ranks(space, row); ++rank)
      most = std::max(most, job.of(rank).arena_bytes(TSR_MEMORY_DEVICE));
    return most;
  } catch (const Error& refusal) {
    if (refusal.code() != TSR_E_RESOURCE_EXHAUSTED) throw;
    return std::nullopt;
  }
}

/// Two thirds of what the run needs without offload; more where the largest visit or the gaps between so small buffers
/// need more.
Values memory_limit(const Space& space, const Space::Row& row, const Values& policies) {
  const uint64_t without = planned_bytes(space, row, {}).value();
  for (const uint64_t percent : {67, 75, 85, 95}) {
    const uint64_t limit = without * percent / 100;
    Values flags = policies;
    flags.push_back("--device-memory=" + std::to_string(limit));
    if (const auto needed = planned_bytes(space, row, flags); needed && *needed <= limit) return {flags.back()};
  }
  return {"--device-memory=1GiB"};
}

}  // namespace

Space offload_space() {
  std::vector<Factor> factors = {{"layout", layout_names()}, {"policy", offload_values()}};
  factors.insert(factors.end(), policy_options().begin(), policy_options().end());
  const std::vector<Factor> others = {{"device", {"cpu", "other"}},
                                      {"engine", {"auto", "threads"}},
                                      {"accumulation", {"1", "3"}},
                                      {"reduce-every", {"step", "micro-batch"}},
                                      {"dtype", {"float32", "bf16", "fp16"}},
                                      {"reduce-dtype", {"float32", "bf16"}},
                                      {"recompute", {"none", "full", "attention"}},
                                      {"clip", {"1", "0", "0.1"}},
                                      {"optimizer", {"adamw", "momentum"}},
                                      {"freeze", {"none", "wte*,h.1.*"}},
                                      {"comm", {"local", "gloo"}},
                                      {"debug", {"none", "memory", "delay"}}};
  factors.insert(factors.end(), others.begin(), others.end());
  return Space(std::move(factors), rules());
}

Values offload_flags(const Space& space, const Space::Row& row) {
  const std::string& value = space.value(row, "policy");
  Values flags = {"--offload=" + value, "--offload-chunk=" + space.value(row, "chunk")};
  if (space.value(row, "to") == "file")
    flags.insert(flags.end(), {"--offload-dir=" + offload_folder(), "--offload-io=" + space.value(row, "engine")});
  for (const Policy& policy : policies_of(value)) {
    for (const std::string& option : policy.fixed)
      flags.push_back("--" + policy.name + "." + option);
    for (const std::string& option : policy.options)
      flags.push_back("--" + policy.name + "." + option + "=" + space.value(row, option));
  }
  if (decides_by_limit(value)) {
    const Values limit = memory_limit(space, row, flags);
    flags.insert(flags.end(), limit.begin(), limit.end());
  }
  return flags;
}

Values job_flags(const Space& space, const Space::Row& row) {
  const auto value = [&](const char* factor) { return space.value(row, factor); };
  Values flags = layout_of(space, row).flags;
  flags.insert(flags.end(), {"--grad-accum=" + value("accumulation"), "--reduce-every=" + value("reduce-every"),
                             "--reduce-dtype=" + value("reduce-dtype"), "--recompute=" + value("recompute"),
                             "--clip=" + value("clip"), "--dtype=" + value("dtype")});
  if (value("optimizer") == "momentum") flags.insert(flags.end(), {"--optimizer=sgd", "--beta1=0.9"});
  if (value("freeze") != "none") flags.push_back("--freeze=" + value("freeze"));
  if (value("device") == "other")
    flags.insert(flags.end(), {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")});
  if (value("debug") == "memory") flags.push_back("--debug-memory");
  if (value("debug") == "delay") flags.push_back("--stream-delay=5");
  return flags;
}

int num_offload_ranks(const Space& space, const Space::Row& row) {
  return layout_of(space, row).num_ranks;
}

OffloadMatrix::OffloadMatrix(Space space, int num_steps) : space_(std::move(space)), num_steps_(num_steps) {
  write_golden_model_with_large_gradients(large_gradients_, 20);
}

std::string OffloadMatrix::check(const Space::Row& row) {
  try {
    const Space::Row reference = reference_of(row);
    const auto [found, is_new] = references_.try_emplace(reference);
    if (is_new) found->second = run(reference, {});
    return first_difference(found->second, run(row, offload_flags(space_, row)));
  } catch (const std::exception& e) {
    return e.what();
  }
}

RunResult OffloadMatrix::run(const Space::Row& row, const Values& more) const {
  Values flags = job_flags(space_, row);
  flags.insert(flags.end(), more.begin(), more.end());
  const std::string model = space_.value(row, "dtype") == "fp16" ? large_gradients_.path() : golden_folder();
  flags.insert(flags.end(), {"--model=" + model, "--data=" + golden_folder() + "/tokens.bin", "--batch-size=1",
                             "--seq-len=12", "--lr=0.003", "--steps=" + std::to_string(num_steps_)});
  return run_local(flags, layout_of(space_, row).num_ranks, space_.value(row, "comm"));
}

Space::Row OffloadMatrix::reference_of(const Space::Row& row) const {
  Space::Row reference = row;
  for (const Factor& option : policy_options())
    reference[space_.find(option.name)] = 0;
  for (const char* factor : kWithoutEffect)
    reference[space_.find(factor)] = 0;
  return reference;
}

}  // namespace tessera::testing

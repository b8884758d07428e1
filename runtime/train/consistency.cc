// Ranks verify through the key-value store that they run the same job (decision 0005). First settings: each rank
// publishes named fingerprints, and an error names the field that differs, two ranks and both values. Then programs:
//
//     rank 0     compiles one rank of each class, its own among them, verifies the job, sets
//                  programs/sha256/<rank>   the hash that this rank must have
//                  programs/homes/<rank>    that of its homes, which differ within a class, and of where they are in
//                                           all programs; and programs/layout/<rank>
//                  programs/text/<hash>     the text, once for each class
//                  programs/verdict         "" or why the job is refused; set last, when the others are complete
//     rank r     compiles its own programs meanwhile and compares the hash; only if it differs, fetches the text
//
// So a job of 1,024 ranks is verified once, and yet no rank trusts another's plan. A difference means that a plugin, a
// strategy most of all, is not pure or that builds differ; the first line that differs usually shows which.
//
// Nothing is allocated before both have passed.

#include "train/consistency.h"

#include <functional>
#include <span>
#include <string_view>

#include "base/concat.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "compile/compile_homes.h"
#include "config/flag_table.h"
#include "config/usage_error.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "launch/fingerprint.h"
#include "model/model_name.h"
#include "plan/advice/memory_advisor.h"
#include "plan/job_plan.h"
#include "plan/verification.h"
#include "plugins/plugin_options.h"
#include "program/text_difference.h"
#include "tessera/error.hpp"
#include "weights/weight_files.h"

namespace tessera::host {
namespace {

/// The names of strategies or policies.
template <class Named>
std::string names_of(std::span<const Named> all) {
  std::string names;
  for (const Named& one : all)
    names += (names.empty() ? "" : ", ") + one.name;
  return names.empty() ? "none" : names;
}

/// What may make programs differ that should be equal.
std::string suspects(const CompileInput& input) {
  std::string text =
      concat("a strategy (", names_of(input.strategies), ") is not pure or hides that it depends on its coordinate, ");
  if (!input.policies.empty()) text += concat("an offload policy (", names_of(input.policies), ") is not pure, ");
  return text + "or the builds differ";
}

bool is_in_workspaces(const TextDifference& difference) {
  constexpr std::string_view kWorkspace = " = workspace ";  // "%31 = workspace h.0.attention mb=0 f32[2048]"
  return difference.a.find(kWorkspace) != std::string::npos || difference.b.find(kWorkspace) != std::string::npos;
}

/// The plugins that say how large workspaces are.
std::string describers(const Job& job) {
  const std::string device = call_text(address_of(job.plugins.device.device()->describe));
  const auto& communicator = job.plugins.communicator;
  return communicator ? concat(call_text(address_of(communicator->communicator()->describe)), " or ", device) : device;
}

constexpr std::string_view kVerdict = "programs/verdict";
std::string hash_key(int rank) {
  return "programs/sha256/" + std::to_string(rank);
}
std::string homes_key(int rank) {
  return "programs/homes/" + std::to_string(rank);
}
std::string layout_key(int rank) {
  return "programs/layout/" + std::to_string(rank);
}
std::string text_key(const std::string& hash) {
  return "programs/text/" + hash;
}

std::string get_from_rank_0(KeyValueStore& store, std::string_view key, const std::string& purpose,
                            int64_t timeout_ms) {
  try {
    return store.get(key, timeout_ms);
  } catch (const Error& error) {
    // The store's error names a key; the user needs the rank.
    if (error.code() != TSR_E_DEADLINE) throw;
    throw late_error(std::vector{0}, purpose, timeout_ms);
  }
}

/// What each rank must own, by its init program, and where: ranks of one class own different parts in equal places.
/// That their other programs have the pieces of init each rank checks by itself (verify_pieces).
void publish_homes(const CompileInput& input, const JobPrograms& programs, KeyValueStore& store) {
  HomesCompiler compiler(input);
  for (int rank = 0; rank < input.mesh.num_ranks(); ++rank) {
    const HomesFingerprint planned = fingerprint_of_homes(compiler.compile(input.mesh.coordinates(rank)).init);
    store.set(homes_key(rank), planned.homes + programs.of(rank).places);
    store.set(layout_key(rank), planned.layout);
  }
}

/// Rank 0: plans one rank of each class, checks all ranks against one another, and publishes what each must have. A
/// text that is too long for the store is truncated. Returns rank 0's own programs.
RankPrograms publish_programs(const Job& job, const CompileInput& input, KeyValueStore& store,
                              const std::function<void(const JobPrograms&)>& on_planned) {
  JobPrograms programs = with_offers(job, input.log, [&] { return as_usage([&] { return compile_job(input); }); });
  if (const auto refusal = refusal_of(job, input, programs)) {
    store.set(kVerdict, std::string(refusal->what()).substr(0, kMaxValueBytes));
    throw *refusal;
  }
  for (const auto& [representative, members] : programs.classes.members()) {
    const std::string text = text_of(programs.of(representative).all()), hash = sha256_hex(text);
    store.set(text_key(hash), text.substr(0, kMaxValueBytes));
    for (const int rank : members)
      store.set(hash_key(rank), hash);
  }
  publish_homes(input, programs, store);
  store.set(kVerdict, "");
  on_planned(programs);
  return std::move(programs.by_representative.at(programs.classes.representative(0)));
}

/// Before the plugins that they name: a user knows the flags.
void add_flags(std::vector<Fingerprint>& all, const Job& job) {
  for (const ConfigField& field : shared_fields(job.config))
    all.push_back({"--" + field.name, field.value});
  // Paths may differ, but all ranks take part, or none.
  for (const auto& [flag, folder] : {std::pair("--save", job.config.save), std::pair("--resume", job.config.resume),
                                     std::pair("--init-from", job.config.init_from)})
    all.push_back({flag, folder.empty() ? "no folder" : "a folder"});
  all.push_back({"--eval-data", job.config.eval_data.empty() ? "no data" : "data"});
}

/// With what it receives for its options: a default may follow from the machine.
void add_plugin(std::vector<Fingerprint>& all, const LoadedPlugin& plugin, const PluginOptions& options) {
  all.push_back({"plugin " + plugin.name, plugin.fingerprint()});
  for (const tsr_option_value& value : options.values())
    if (!is_per_rank(plugin, view(value.name)))
      all.push_back({concat("--", plugin.name, ".", view(value.name)), std::string(view(value.s))});
}

void add_plugins(std::vector<Fingerprint>& all, const Job& job) {
  const JobPlugins& plugins = job.plugins;
  add_plugin(all, plugins.device, job.options.device);
  if (plugins.cpu.path != plugins.device.path) add_plugin(all, plugins.cpu, job.options.cpu);
  if (plugins.communicator) add_plugin(all, *plugins.communicator, job.options.communicator);
  for (size_t i = 0; i < plugins.strategies.size(); ++i)
    if (plugins.strategies[i]) add_plugin(all, *plugins.strategies[i], job.options.strategies[i]);
  for (size_t i = 0; i < plugins.offload.size(); ++i)
    add_plugin(all, plugins.offload[i], job.options.offload[i]);
}

/// Processes may read different files under equal paths.
void add_inputs(std::vector<Fingerprint>& all, const Job& job, const RunData& data) {
  const bool may_differ = job.mesh.num_ranks() > 1 && !job.ranks_are_threads();
  for (const auto& [dataset, of] : {std::pair(data.training.get(), ""), {data.evaluation.get(), "evaluation "}}) {
    if (!dataset) continue;
    const auto [items, size] = dataset->size();
    all.push_back({concat(items, " in the ", of, "data"), size});
    if (may_differ) all.push_back({concat("the ", of, "data"), dataset->fingerprint()});
  }
  if (!may_differ) return;
  std::vector<std::string> weights;
  // Checkpoints are compared when they are read (saving/resume.cc).
  if (job.config.init_from.empty() && is_model_folder(job.config.model))
    weights = weight_fingerprints(job.config.model);
  all.push_back({"the weights", weights.empty() ? "none" : counted(weights.size(), "file")});
  for (const std::string& file : weights)
    all.push_back({"the weights", file});
}

}  // namespace

void check_job_consistency(const Job& job, const RunData& data, const RankInfo& info, int num_threads, const Log& log) {
  std::vector<Fingerprint> all = {{"the number of ranks", std::to_string(job.mesh.num_ranks())}};
  add_flags(all, job);
  add_plugins(all, job);
  const auto number = [&](const char* name, auto value) { all.push_back({name, std::to_string(value)}); };
  for (const ModelFact& fact : job.architecture().facts())
    all.push_back({fact.name, fact.value});
  std::string deviations;
  for (const Parameter& parameter : job.model.parameters)
    deviations += concat(parameter.initial.mean, " ", parameter.initial.standard_deviation, " ");
  all.push_back({"the initial values of parameters", sha256_hex(deviations)});
  {
    const Progress progress(info.rank == 0 ? log : Log(LogLevel::off), "hashing the data and the weights");
    add_inputs(all, job, data);
  }
  // Kernels divide their work by the number of threads, and BLAS libraries by their environment. Either may change the
  // last bit of a sum, so both are part of "the same job".
  number("threads per rank (--threads)", num_threads);
  all.push_back(library_environment());
  require_equal_fingerprints(*info.store, info.rank, job.mesh.num_ranks(), "compare their settings", all,
                             job.config.start_timeout_ms, log);
}

RankPrograms check_program_consistency(const Job& job, const CompileInput& input, const RankInfo& info,
                                       const std::function<void(const JobPrograms&)>& on_planned) {
  if (info.rank == 0) return publish_programs(job, input, *info.store, on_planned);
  RankPrograms own = as_usage([&] { return compile_rank(input, job.mesh.coordinates(info.rank)); });
  const auto published = [&](std::string_view key) {
    return get_from_rank_0(*info.store, key, "plan the programs of all ranks", job.config.start_timeout_ms);
  };
  const std::string verdict = published(kVerdict);
  if (!verdict.empty()) throw Error(TSR_E_INVALID_ARGUMENT, verdict);
  const auto refuse = [&](const auto&... what) {
    throw Error(TSR_E_FAILED_PRECONDITION, concat("rank ", info.rank, " ", what...));
  };
  const std::string planned = text_of(own.all()), hash = published(hash_key(info.rank));
  if (sha256_hex(planned) != hash) {
    const TextDifference first = first_difference(planned, published(text_key(hash)));
    refuse("plans a different program than rank 0 planned for it: ",
           is_in_workspaces(first) ? describers(job) + " is not pure, " : "", suspects(input), "; ",
           first.text("here", "there"));
  }
  if (own.homes.layout != published(layout_key(info.rank)))
    refuse("declares another layout than rank 0 did for it: ", suspects(input));
  if (own.homes.homes + own.places != published(homes_key(info.rank)))
    refuse("has other homes (their pieces, roles or buffers) than rank 0 planned for it: ", suspects(input));
  return own;
}

std::string lowest_answer(const RankInfo& info, int num_ranks, const std::string& question,
                          const std::string& own_answer, int64_t timeout_ms) {
  KeyValueStore& store = *info.store;
  store.set(concat(question, "/", info.rank), own_answer);
  // The rank that answers last evaluates: no rank need be chosen for it, and the others wait only for the result.
  if (store.add(question + "/answers", 1) == num_ranks) {
    std::string least;
    for (int rank = 0; rank < num_ranks; ++rank)
      if (const std::string answer = store.get(concat(question, "/", rank), timeout_ms);
          !answer.empty() && (least.empty() || answer < least))
        least = answer;
    store.set(question + "/least", least);
  }
  try {
    return store.get(question + "/least", timeout_ms);
  } catch (const Error& error) {
    if (error.code() != TSR_E_DEADLINE) throw;
    throw late_error(missing_ranks(store, question + "/", num_ranks), "answer '" + question + "'", timeout_ms);
  }
}

bool all_ranks_agree(const RankInfo& info, int num_ranks, const std::string& question, bool own_answer,
                     int64_t timeout_ms) {
  return lowest_answer(info, num_ranks, question, own_answer ? "yes" : "no", timeout_ms) == "yes";  // "no" < "yes"
}

void barrier(const RankInfo& info, int num_ranks, const std::string& purpose, int64_t timeout_ms, const Log& log) {
  require_equal_fingerprints(*info.store, info.rank, num_ranks, purpose, {}, timeout_ms, log);
}

}  // namespace tessera::host

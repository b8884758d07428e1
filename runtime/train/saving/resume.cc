// Rank 0 lists the checkpoints that may be meant, best first, by their names below the folder: paths may differ between
// machines. Then all ranks try one after another: each fills its homes, and the next one is tried by all if any rank
// could not read this one. Only then does `init` run, which communicates.

#include "train/saving/resume.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/concat.h"
#include "base/progress.h"
#include "base/read_only_file.h"
#include "checkpoint/held_state.h"
#include "checkpoint/inspect.h"
#include "checkpoint/load.h"
#include "checkpoint/save_folder.h"
#include "config/flag_table.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "data/examples/example_source.h"
#include "tessera/error.hpp"
#include "train/consistency.h"
#include "train/saving/checkpoint_writer.h"
#include "train/saving/own_folder.h"

namespace tessera::host {
namespace {

// The first letter of a rank's answer, by which the lowest decides: what no older checkpoint would mend comes first.
constexpr char kFinal = '0', kDamaged = '1';

/// Where a run begins.
struct Source {
  std::string given;     // a checkpoint, or a folder of them; empty: nowhere
  bool goes_on = false;  // --resume; else --init-from
  bool has_both = false;

  std::string_view flag() const { return goes_on ? "--resume" : "--init-from"; }
};

/// Of both flags --resume counts as soon as its folder, which is that of --save, has a checkpoint: so the command that
/// starts a run from saved parameters goes on with it, too.
Source source_of(const TrainConfig& config) {
  Source source;
  source.has_both = !config.resume.empty() && !config.init_from.empty();
  source.goes_on = source.has_both ? !choose_checkpoint(config.resume).folders.empty() : !config.resume.empty();
  source.given = named_checkpoint(source.goes_on ? config.resume : config.init_from);
  return source;
}

/// The same on all ranks, as rank 0 finds it.
Source source_of_all(const Job& job, const RankInfo& info) {
  constexpr std::string_view kKey = "resume/source";
  const TrainConfig& config = job.config;
  if (config.resume.empty() || config.init_from.empty()) return source_of(config);
  if (info.rank == 0) info.store->set(kKey, source_of(config).goes_on ? "--resume" : "--init-from");
  const bool goes_on = info.store->get(kKey, config.start_timeout_ms) == "--resume";
  return {named_checkpoint(goes_on ? config.resume : config.init_from), goes_on, true};
}

std::string setting(const NamedValues& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, [](const auto& pair) { return std::string_view(pair.first); });
  return found == settings.end() ? "" : found->second;
}

/// What is wrong with the checkpoint for this job, whatever its tensors hold.
void require_fits(const Job& job, const Checkpoint& checkpoint, bool goes_on) {
  require_model(checkpoint, job.architecture().facts(), job.model.parameters);
  const std::string saved = setting(checkpoint.index().run.settings, "optimizer");
  const std::string_view here = to_string(job.config.optimizer);
  if (goes_on && saved.empty())
    throw Error(TSR_E_FAILED_PRECONDITION,
                concat(checkpoint.folder(), "/", kIndexName, " does not name the run's optimizer; start from its ",
                       "parameters alone with --init-from"));
  if (goes_on && saved != here)
    throw Error(TSR_E_FAILED_PRECONDITION,
                concat(checkpoint.folder(), " has the state of --optimizer ", saved, ", and this run has ", here,
                       "; give --optimizer ", saved, ", or start from its parameters alone with --init-from"));
}

bool is_final(const Error& error) {
  return error.code() == TSR_E_FAILED_PRECONDITION || error.code() == TSR_E_UNSUPPORTED;
}

Error nothing_there(const TrainConfig& config, const Source& source) {
  if (config.resume == "latest" && config.save.empty())
    return {TSR_E_NOT_FOUND,
            "--resume latest means the newest checkpoint in the folder of --save, which is not given; give --save, or "
            "the checkpoint's folder"};
  const std::string otherwise = source.goes_on ? ", or leave --resume out to start at step 1"
                                : name_is_there(source.given + "/model.safetensors")
                                    ? concat("; to start from the weights there, give --model ", source.given)
                                    : "";
  return {TSR_E_NOT_FOUND,
          concat(source.flag(), " ", source.given,
                 " holds no checkpoint; give a folder that holds step-N folders, or one of these", otherwise)};
}

/// A checkpoint that this rank may read, and what rank 0 has there.
struct Candidate {
  std::string folder;
  std::string checksum;  // checksum_of() on rank 0
};

/// Of the index, which has those of all that the checkpoint holds; empty where there is none that can be read.
std::string checksum_of(const std::string& folder) {
  constexpr size_t kLongest = 64;
  const std::string begin = beginning_of(concat(folder, "/", kIndexName), kLongest);
  return begin.substr(0, begin.find('\n'));
}

/// Names below the folder, "" for the folder itself, each with a checksum, one a line; published by rank 0.
std::vector<Candidate> candidates(const Job& job, const RankInfo& info, const std::string& given, bool& is_explicit,
                                  const Log& log) {
  constexpr std::string_view kKey = "resume/candidates";
  if (info.rank == 0) {
    const CheckpointChoice choice = choose_checkpoint(given);
    if (!choice.note.empty()) log.warning(choice.note);
    std::string names = choice.is_explicit ? "1" : "0";
    for (const std::string& folder : choice.folders)
      names += concat("\n", choice.is_explicit ? "" : folder.substr(given.size()), "\t", checksum_of(folder));
    info.store->set(kKey, names);
  }
  const std::string names = info.store->get(kKey, job.config.start_timeout_ms);
  is_explicit = names[0] == '1';
  std::vector<Candidate> all;
  for (const std::string_view name : split(names, '\n'))
    if (const size_t tab = name.find('\t'); tab != name.npos)
      all.push_back({given + std::string(name.substr(0, tab)), std::string(name.substr(tab + 1))});
  return all;
}

/// Ranks may read copies on disks of their own.
void require_same(const Candidate& candidate, const Checkpoint& opened) {
  if (candidate.checksum.empty() || checksum_of(candidate.folder) == candidate.checksum) return;
  throw Error(TSR_E_FAILED_PRECONDITION,
              concat(candidate.folder, ", of step ", opened.index().state.step,
                     ", is not the checkpoint that rank 0 reads: their ", kIndexName,
                     " differ; give all ranks one checkpoint, in a folder that they share or in equal copies"));
}

/// What strategies keep for themselves.
void fill_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, RankRuntime& runtime) {
  const Program& program = runtime.programs().first();
  load_own_state(checkpoint, tensors, [&](const StatePlace& place, std::span<const std::byte> elements) {
    runtime.write_state(program.buffer(place.buffer), place.offset, elements);
  });
}

/// Once more, since `init` may have begun it anew; or on no rank, if one of them cannot. Collective.
void restore_own_state(const Job& job, const RunData& data, const RankInfo& info, RankRuntime& runtime,
                       const Checkpoint& checkpoint, const Log& log) {
  const std::vector<HeldTensor> held = held_tensors(runtime.programs().first());
  const std::string own = obstacle_to_own_state(checkpoint, held, info.rank, describe_run(job, *data.training));
  const std::string obstacle =
      lowest_answer(info, job.mesh.num_ranks(), "resume/own-state", own, state_timeout_ms(job));
  if (obstacle.empty()) return fill_own_state(checkpoint, held, runtime);
  if (const std::string required = required_own_state(checkpoint, held); !required.empty())
    throw Error(TSR_E_FAILED_PRECONDITION,
                concat("cannot restore ", required, ", state of a strategy that a run must have to go on: ", obstacle,
                       "; resume with the mesh, the strategies and their options of the run, or start from its ",
                       "parameters alone with --init-from"));
  const std::vector<HeldTensor> kept = kept_own_state(checkpoint, held);
  fill_own_state(checkpoint, kept, runtime);
  log.warning("all of the strategies' own state begins anew",
              kept.empty() ? "" : concat(", except what they declare as kept, such as ", kept.front().name), ": ",
              obstacle);
}

/// Fills the homes from one checkpoint. Returns why it could not, with its first letter; empty: it did.
std::string try_to_fill(const Job& job, const RunData& data, const RankInfo& info, const Candidate& candidate,
                        bool goes_on, RankRuntime& runtime, std::unique_ptr<Checkpoint>& opened, const Log& log) {
  const Program& program = runtime.programs().first();
  const auto answer = [&](char letter, const std::exception& error) {
    return letter + (job.mesh.num_ranks() == 1 ? "" : concat("rank ", info.rank, ": ")) + sentence_of(error);
  };
  try {
    opened = std::make_unique<Checkpoint>(candidate.folder);
    require_same(candidate, *opened);
    require_fits(job, *opened, goes_on);
    const std::vector<HeldTensor> held = held_tensors(program);
    const LoadWhat what = goes_on ? LoadWhat::everything : LoadWhat::parameters;
    runtime.zero_state(loaded_places(held, what));
    const StateSink sink = {[&](const StatePlace& place) { return runtime.values_in_memory(place); },
                            [&](const StatePlace& place, std::span<const float> values) {
                              runtime.write_values(program.buffer(place.buffer), place.offset, values);
                            }};
    Progress progress(info.rank == 0 ? log : Log(LogLevel::off), "reading the checkpoint");
    load_tensors(*opened, held, what, sink, &progress);
    if (!goes_on) return "";
    runtime.set_optimizer_step(opened->index().state.optimizer_step);
    if (obstacle_to_own_state(*opened, held, info.rank, describe_run(job, *data.training)).empty())
      fill_own_state(*opened, held, runtime);
    return "";
  } catch (const Error& error) {
    return answer(is_final(error) ? kFinal : kDamaged, error);
  } catch (const std::exception& error) {
    return answer(kFinal, error);
  }
}

/// The setting as what leaving its flag out means, so that a flag that names its default is not a change.
std::string with_default(const Job& job, const std::string& name, const std::string& value) {
  if (!value.empty()) return value;
  const bool has_tokens = job.items() == "tokens";
  if (name == "data-order") return has_tokens ? "sequential" : "shuffled";
  const bool is_of_examples = name == "data-label" || name == "data-scale";
  return is_of_examples && !has_tokens ? usual_setting(name, job.config.data) : "";
}

/// "--lr 0.001 (was 0.003), ..."
std::string changes_text(const Job& job, const RunDescription& was, const RunDescription& is) {
  const auto per_step = [&is](const RunDescription& run) {
    return setting(run.settings, concat(is.items == "tokens" ? "sequences" : "examples", kPerStep));
  };
  // Another batch on another number of ranks may be the same step.
  const bool is_same_step = per_step(was) == per_step(is);
  std::string text;
  if (!is_same_step && !per_step(was).empty())
    text = concat(is.items == "tokens" ? "sequences" : "examples", " per step ", per_step(is), " (was ", per_step(was),
                  ")");
  for (const auto& [name, value] : is.settings) {
    if (name.ends_with(kPerStep) || name == kTokensAre ||
        (is_same_step && (name == "batch-size" || name == "grad-accum")))
      continue;
    const std::string before = with_default(job, name, setting(was.settings, name));
    const std::string now = with_default(job, name, value);
    const auto shown = [](const std::string& v) { return v.empty() ? std::string("not given") : v; };
    if (before != now)
      text += concat(text.empty() ? "" : ", ", "--", name, " ", shown(now), " (was ", shown(before), ")");
  }
  const std::string tokens_were = setting(was.settings, kTokensAre), tokens_are = setting(is.settings, kTokensAre);
  if (!tokens_were.empty() && tokens_were != tokens_are)
    text += concat(text.empty() ? "" : ", ", "tokens are ", tokens_are, " (were ", tokens_were, ")");
  const std::string_view comma = text.empty() ? "" : ", ";
  if (was.data != is.data)
    text += concat(comma, "data of ", is.data.second, " ", is.data.first, " (was ", was.data.second, ")");
  else if (!was.data_fingerprint.empty() && was.data_fingerprint != is.data_fingerprint)
    text += concat(comma, "data of the same size with other contents, ", is.data_fingerprint, " (was ",
                   was.data_fingerprint, ")");
  return text;
}

/// A model that was trained on the tokens of a tokenizer does not know bytes, nor the other way round.
void warn_of_tokens(const Checkpoint& from, const Dataset& data, const Log& log) {
  const std::string trained = setting(from.index().run.settings, kTokensAre);
  if (trained.empty() || trained == tokens_are(data)) return;
  const auto form = [](bool is_text) { return is_text ? "text, whose bytes are the tokens" : "token files"; };
  log.warning("--data is ", form(data.tokens_are_bytes()), ", and ", from.folder(), " was trained on ",
              form(trained == kBytes), ", so it knows other tokens; give data in the form of that training");
}

/// Of ranks that each trained parameters of their own.
void warn_of_replicas(const Checkpoint& from, bool goes_on, RankRuntime& runtime, const Log& log) {
  for (const HeldTensor& tensor : held_tensors(runtime.programs().first())) {
    if (tensor.parameter < 0) continue;
    const int saved = num_replicas(from, tensor.shared_name);
    const bool each_has_its_own = goes_on && saved == tensor.num_replicas;
    if (saved == 1 || each_has_its_own) continue;
    return log.warning(from.folder(), " holds ", saved,
                       " replicas of the parameters, which differ; all ranks begin with "
                       "the first, since ",
                       goes_on ? concat("this run has ", tensor.num_replicas) : concat("--init-from takes one"));
  }
}

void report(const Job& job, const RunData& data, const Checkpoint& from, const Source& source, RankRuntime& runtime,
            const Log& log) {
  const auto& [state, run] = std::tie(from.index().state, from.index().run);
  const std::string saved = concat("saved after step ", state.step, " under ", layout_text(run));
  warn_of_replicas(from, source.goes_on, runtime, log);
  if (!source.goes_on) {
    warn_of_tokens(from, job.trains ? *data.training : *data.evaluation, log);
    return log.info("parameters: from ", from.folder(), ", ", saved);
  }
  log.info("resumed from ", from.folder(), ", ", saved,
           source.has_both ? concat("; --init-from ", job.config.init_from, " is not read again") : "");
  const std::string changes = changes_text(job, run, describe_run(job, *data.training));
  if (!changes.empty()) log.warning("the run continues with other settings: ", changes);
  if (state.step >= job.config.steps)
    log.warning("nothing is left to train: the checkpoint is of step ", state.step, ", and --steps is ",
                job.config.steps, "; raise --steps to continue");
}

/// What this run asks for that one which goes on from the checkpoint cannot do. Throws UsageError.
void check_steps(const TrainConfig& config, const CheckpointChoice& choice, int64_t step) {
  if (step > config.steps)
    throw UsageError(concat("--steps is ", config.steps, ", and --resume ", config.resume, " is after step ", step,
                            "; give more steps, or an earlier checkpoint"));
  if (!choice.is_explicit || config.overwrite || !resumes_in_its_folder(config)) return;
  if (const auto steps = saved_steps(config.save); !steps.empty() && steps.back() > step)
    throw UsageError(concat("--resume ", config.resume, " goes back to step ", step, ", and --save ", config.save,
                            " holds checkpoints up to step ", steps.back(),
                            "; give another folder for --save, or --overwrite to save among them"));
}

}  // namespace

void check_checkpoints(const Job& job) {
  const TrainConfig& config = job.config;
  require_no_other_run(config);
  const Source source = source_of(config);
  if (source.has_both && !may_start_anew(config))
    throw UsageError(concat("--resume continues a run and --init-from starts one with saved parameters; give one of ",
                            "them, or --resume with the folder of --save, to start the run there and go on with it"));
  if (source.given.empty()) return;
  const CheckpointChoice choice = choose_checkpoint(source.given);
  if (choice.folders.empty() && !(source.goes_on && may_start_anew(config)))
    throw UsageError(nothing_there(config, source).what());
  for (const std::string& folder : choice.folders)
    try {
      const Checkpoint checkpoint(folder);
      require_fits(job, checkpoint, source.goes_on);
      if (source.goes_on) check_steps(config, choice, checkpoint.index().state.step);
      return;
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      if (is_final(error) || (choice.is_explicit && error.code() == TSR_E_NOT_FOUND))
        throw UsageError(error.what(), error.code());
      if (choice.is_explicit) throw;
    }
}

LoadedRun load_run(const Job& job, const RunData& data, const RankInfo& info, RankRuntime& runtime, const Log& log) {
  const Source source = source_of_all(job, info);
  if (source.given.empty()) return {};
  bool is_explicit = false;
  const std::vector<Candidate> folders = candidates(job, info, source.given, is_explicit, log);
  const bool is_new = !source.goes_on || folders.empty();
  if (folders.empty() && !(source.goes_on && may_start_anew(job.config))) throw nothing_there(job.config, source);
  if (is_new && may_start_anew(job.config))
    log.info(job.config.save, " holds no checkpoint yet: the run starts at step 1");
  if (folders.empty()) return {};
  for (size_t i = 0; i < folders.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<Checkpoint> opened;
    const std::string error = lowest_answer(
        info, job.mesh.num_ranks(), concat("resume/", i),
        try_to_fill(job, data, info, folders[i], source.goes_on, runtime, opened, log), state_timeout_ms(job));
    if (error.empty()) {
      const double ms = ms_since(start);
      report(job, data, *opened, source, runtime, log);
      runtime.run_init();
      if (!source.goes_on) return {true, std::nullopt, ms};
      restore_own_state(job, data, info, runtime, *opened, log);
      return {true, opened->index().state, ms};
    }
    const std::string sentence = error.substr(1);
    if (error[0] == kFinal) throw Error(TSR_E_FAILED_PRECONDITION, sentence);
    if (i + 1 == folders.size())
      throw Error(TSR_E_DATA_LOSS, concat(is_explicit || i == 0 ? "" : "no older checkpoint is left: ", sentence));
    log.warning(source.goes_on ? "cannot resume from " : "cannot start from ", folders[i].folder,
                ", and takes the one before, ", folders[i + 1].folder, ": ", sentence);
  }
  return {};
}

}  // namespace tessera::host

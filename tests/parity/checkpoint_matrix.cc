// A kind is what splits the state, over any of its numbers of ranks. Runs that never stop are kept, each with what it
// saved on the way; so are runs that go on with what their own layout has saved, one for each state. A row of the
// matrix costs the runs that load, which are two.
//
// Which layouts add the same sums is in `sums_of`: sums over data ranks are one tree, in blocks or flat, so their
// number alone counts; a pipeline adds a tied embedding's parts by stage, and tensor parallelism adds within a product.

#include "parity/checkpoint_matrix.h"

#include <cmath>
#include <exception>

#include "checkpoint/save_folder.h"
#include "support/compiled_job.h"
#include "support/large_gradients.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Values = std::vector<std::string>;

constexpr int kSavedStep = 3;
constexpr int kSequencesPerStep = 48, kMicroBatches = 2;

struct Kind {
  std::string name;
  Values ranks;
  Values flags;
};

const std::vector<Kind>& kinds() {
  const Values all_ranks = {"1", "2", "3", "4", "8"};
  static const std::vector<Kind> all = {
      {"ddp", all_ranks, {"--strategy=ddp"}},
      {"fsdp", all_ranks, {"--strategy=fsdp"}},
      {"zero3", all_ranks, {"--strategy=zero3"}},
      {"hybrid", {"4", "8"}, {"--strategy=replicate=ddp,shard=fsdp"}},
      {"tp", {"2", "4"}, {"--strategy=tp=tensor"}},
      {"pp", {"2", "3", "4"}, {"--strategy=pp=pipeline"}},
      {"pp_dp_tp", {"8"}, {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"}},
      {"shard_grad_op", {"3", "8"}, {"--strategy=fsdp", "--fsdp.sharding=shard_grad_op"}},
      {"optimizer_only", {"2", "4"}, {"--strategy=fsdp", "--fsdp.sharding=optimizer_only"}},
      {"no_shard", {"2"}, {"--strategy=fsdp", "--fsdp.sharding=no_shard"}},
      {"one_flat_unit", {"3", "4"}, {"--strategy=fsdp", "--fsdp.wrap=root"}},
      {"zero1", {"2", "4"}, {"--strategy=zero3", "--zero3.stage=1"}},
      {"zero2", {"3", "8"}, {"--strategy=zero3", "--zero3.stage=2"}},
      {"activations_host", {"1", "2", "8"}, {"--offload=activations", "--activations.min-bytes=0"}},
      {"activations_file", {"3", "4"}, {"--offload=activations", "--activations.min-bytes=0", "--activations.to=file"}},
      {"optimizer_state_host", {"2", "8"}, {"--offload=optimizer-state"}},
      {"optimizer_state_file", {"1", "3"}, {"--offload=optimizer-state", "--optimizer-state.to=file"}},
      {"stream_host", {"1", "4"}, {"--offload=stream", "--stream.update=host"}},
      {"stream_file", {"2", "8"}, {"--offload=stream", "--stream.to=file"}},
      {"fit_host", {"1", "3", "8"}, {"--offload=fit"}},
      {"fit_file", {"2", "4"}, {"--offload=fit", "--fit.to=file"}}};
  return all;
}

const Kind& kind_of(const std::string& name) {
  return *std::ranges::find(kinds(), name, &Kind::name);
}

Values names_from(size_t begin, size_t end) {
  Values names;
  for (size_t i = begin; i < end; ++i)
    names.push_back(kinds()[i].name);
  return names;
}

constexpr size_t kNumSplits = 7;

/// Offload policies beside each way to split, by the number of ranks.
Values flags_by_ranks(const std::string& kind, int num_ranks) {
  const std::string ranks = std::to_string(num_ranks);
  if (kind == "hybrid") return {"--mesh=replicate=" + std::to_string(num_ranks / 2) + ",shard=2"};
  if (kind == "tp" || kind == "pp") return {"--mesh=" + kind + "=" + ranks};
  const bool is_offload = kind.ends_with("_host") || kind.ends_with("_file");
  if (!is_offload || num_ranks == 1) return {};
  if (num_ranks == 2) return {"--strategy=fsdp"};
  if (num_ranks == 3) return {"--strategy=zero3"};
  if (num_ranks == 4) return {"--strategy=ddp"};
  return {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=zero3,tp=tensor"};
}

bool is_pp_dp_tp(const std::string& kind, int num_ranks) {
  return kind == "pp_dp_tp" || (num_ranks == 8 && (kind.ends_with("_host") || kind.ends_with("_file")));
}

int num_data_ranks(const std::string& kind, int num_ranks) {
  if (is_pp_dp_tp(kind, num_ranks)) return 2;
  return kind == "tp" || kind == "pp" ? 1 : num_ranks;
}

/// Equal for layouts whose runs have equal bits.
std::string sums_of(const std::string& kind, int num_ranks) {
  const std::string ranks = std::to_string(num_ranks);
  if (is_pp_dp_tp(kind, num_ranks)) return "pp_dp_tp";
  return kind == "tp" || kind == "pp" ? kind + ranks : ranks;
}

const Values kSettings = {"adamw", "momentum", "fp16", "frozen_bf16", "shuffled", "evaluated", "micro_batches", "mlp"};

/// No setting in which the runs of layouts go apart by more than the rounding of float32.
bool keeps_losses_near(const std::string& setting) {
  return setting != "fp16" && setting != "frozen_bf16";
}

std::string step_folder(const std::string& folder, int step) {
  return folder + "/" + step_folder_name(step);
}

/// What differs first between the values that a run ended with and those in a checkpoint.
std::string difference(const RunResult& run, const Checkpoint& checkpoint) {
  if (run.num_missing + run.num_contradictions) return "the ranks do not hold each element alike";
  for (const auto& [name, values] : run.parameters) {
    const std::vector<uint32_t> bits = bits_of(checkpoint, name);
    if (!std::ranges::equal(values, bits, {}, [](float value) { return std::bit_cast<uint32_t>(value); })) return name;
  }
  return "";
}

std::string distance(const RunResult& run, const RunResult& other) {
  for (size_t i = 0; i < run.steps.size(); ++i)
    if (!(std::abs(run.steps[i].loss - other.steps[i].loss) <= 1e-4 * other.steps[i].loss))
      return "the loss of step " + std::to_string(run.steps[i].step) +
             " is far from that of the run that never stopped";
  return "";
}

}  // namespace

const Values& kinds_of_split() {
  static const Values names = names_from(0, kNumSplits);
  return names;
}

const Values& other_kinds() {
  static const Values names = names_from(kNumSplits, kinds().size());
  return names;
}

/// A classifier has no tensors that tp splits; gloo costs time, and one rank has nothing to say over it.
Space checkpoint_space() {
  const Values all_ranks = {"1", "2", "3", "4", "8"}, names = names_from(0, kinds().size());
  std::vector<Rule> rules;
  for (const std::string side : {"saved", "loaded"}) {
    for (const Kind& kind : kinds())
      rules.push_back({side, {kind.name}, side + "-ranks", kind.ranks});
    Values without_tp = names;
    std::erase_if(without_tp, [](const std::string& kind) {
      return kind == "tp" || std::ranges::any_of(kind_of(kind).ranks, [&](const std::string& ranks) {
               return is_pp_dp_tp(kind, std::stoi(ranks));
             });
    });
    rules.push_back({"setting", {"mlp"}, side, without_tp});
    rules.push_back({side + "-comm", {"gloo"}, side + "-ranks", {"2", "3", "4", "8"}});
  }
  std::vector<Factor> factors;
  for (const std::string side : {"saved", "loaded"}) {
    factors.push_back({side, names});
    factors.push_back({side + "-ranks", all_ranks});
    factors.push_back({side + "-comm", {"local", "gloo"}});
  }
  factors.push_back({"setting", kSettings});
  return Space(factors, rules);
}

CheckpointMatrix::CheckpointMatrix(int num_more_steps) : num_steps_(kSavedStep + num_more_steps) {
  write_golden_model_with_large_gradients(model_, 300);  // in fp16 the first step is skipped
  std::vector<uint16_t> tokens;
  for (size_t i = 0; i < 1000; ++i)
    tokens.push_back(static_cast<uint16_t>(i * i % 89));
  data_.write("tokens.bin", raw_bytes(tokens));  // shuffled sequences of 6: the second epoch begins in the fourth step
}

CheckpointMatrix::Side CheckpointMatrix::side(const Space::Row& row, const std::string& which) const {
  return {space_.value(row, which), space_.value(row, which + "-comm"), std::stoi(space_.value(row, which + "-ranks"))};
}

/// Two thirds of what the run needs without offload, or more where that cannot be.
Values CheckpointMatrix::limit_for(const Side& side, const std::string& setting) const {
  Values flags = flags_of(side, setting);
  const Values strategy = flags_by_ranks(side.kind, side.num_ranks);
  flags.insert(flags.end(), strategy.begin(), strategy.end());
  const auto planned = [&](const Values& more) -> uint64_t {
    Values all = flags;
    all.insert(all.end(), more.begin(), more.end());
    const CompiledJob job(all, side.num_ranks, side.comm);
    uint64_t most = 0;
    for (int rank = 0; rank < side.num_ranks; ++rank)
      most = std::max(most, job.of(rank).arena_bytes(TSR_MEMORY_DEVICE));
    return most;
  };
  const uint64_t without = planned({});
  for (const uint64_t percent : {67, 75, 85, 95}) {
    const uint64_t limit = without * percent / 100;
    Values fit = kind_of(side.kind).flags;
    fit.insert(fit.end(),
               {"--device-memory=" + std::to_string(limit), "--offload-chunk=4KiB", "--offload-dir=" + folder_.path()});
    try {
      if (planned(fit) <= limit) return {"--device-memory=" + std::to_string(limit)};
    } catch (const Error& refusal) {
      if (refusal.code() != TSR_E_RESOURCE_EXHAUSTED) throw;
    }
  }
  return {"--device-memory=1GiB"};
}

Values CheckpointMatrix::flags_of(const Side& side, const std::string& setting) const {
  const int data_ranks = num_data_ranks(side.kind, side.num_ranks);
  // A step has 48 sequences, in 2 micro-batches or in as many as there are pairs.
  const int batch = setting == "micro_batches" ? 2 : kSequencesPerStep / kMicroBatches / data_ranks;
  const int micro_batches = kSequencesPerStep / batch / data_ranks;
  Values flags = {"--lr=0.003", "--lr-schedule=cosine", "--warmup-steps=2",
                  "--grad-accum=" + std::to_string(micro_batches)};
  if (setting == "mlp") {
    flags.insert(flags.end(), {"--model=mlp:64,32,24,16,10", "--data=" + source_dir("examples/digits/digits.csv.gz"),
                               "--batch-size=" + std::to_string(10 * batch)});
    return flags;
  }
  flags.insert(flags.end(), {"--model=" + (setting == "fp16" ? model_.path() : golden_folder()), "--seq-len=6",
                             "--batch-size=" + std::to_string(batch)});
  flags.push_back("--data=" + (setting == "shuffled" ? data_.path("tokens.bin") : golden_folder() + "/tokens.bin"));
  if (setting == "momentum") flags.insert(flags.end(), {"--optimizer=sgd", "--beta1=0.9"});
  if (setting == "fp16") flags.push_back("--dtype=fp16");
  if (setting == "frozen_bf16") flags.insert(flags.end(), {"--freeze=wte*,h.1.*", "--dtype=bf16"});
  if (setting == "shuffled") flags.push_back("--data-order=shuffled");
  if (setting == "evaluated")
    flags.insert(flags.end(), {"--eval-data=" + data_.path("tokens.bin"), "--eval-every=2", "--eval-batches=1"});
  return flags;
}

RunResult CheckpointMatrix::run(const Side& side, const std::string& setting, int num_steps, const Values& more) const {
  const Kind& kind = kind_of(side.kind);
  Values flags = flags_of(side, setting);
  const auto add = [&](const Values& values) { flags.insert(flags.end(), values.begin(), values.end()); };
  add(kind.flags);
  add(flags_by_ranks(side.kind, side.num_ranks));
  if (side.kind.starts_with("fit_")) add(limit_for(side, setting));
  if (side.kind.ends_with("_host") || side.kind.ends_with("_file")) add({"--offload-chunk=4KiB"});
  if (side.kind.ends_with("_file")) add({"--offload-dir=" + folder_.path()});
  add({"--steps=" + std::to_string(num_steps)});
  add(more);
  return run_local(flags, side.num_ranks, side.comm);
}

const CheckpointMatrix::WholeRun& CheckpointMatrix::whole_run(const Side& side, const std::string& setting) {
  const std::pair key(side, setting);
  if (const auto found = whole_runs_.find(key); found != whole_runs_.end()) return found->second;
  WholeRun whole{{}, folder_.path(std::to_string(whole_runs_.size())), ""};
  whole.result = run(side, setting, num_steps_,
                     {"--save=" + whole.folder, "--save-every=" + std::to_string(kSavedStep), "--keep=0"});
  return whole_runs_.emplace(key, std::move(whole)).first->second;
}

// Layouts of equal sums save one state; that they do is checked where the run is used.
const CheckpointMatrix::WholeRun& CheckpointMatrix::run_from_own(const Side& side, const std::string& setting,
                                                                 const std::string& sums, const std::string& own) {
  const std::tuple key(side, setting, sums);
  if (const auto found = runs_from_own_.find(key); found != runs_from_own_.end()) return found->second;
  const std::string folder = folder_.path("own-" + std::to_string(runs_from_own_.size()));
  WholeRun other{{}, folder + "/other", folder + "/own"};
  std::filesystem::create_directories(folder);
  std::filesystem::copy(own, other.from,
                        std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  other.result = run(side, setting, num_steps_, {"--resume=" + other.from, "--save=" + other.folder});
  return runs_from_own_.emplace(key, std::move(other)).first->second;
}

std::string CheckpointMatrix::sums(const Space::Row& row, const std::string& which) const {
  const Side of = side(row, which);
  return sums_of(of.kind, of.num_ranks);
}

RunState CheckpointMatrix::saved_state(const Space::Row& row) {
  const WholeRun& whole = whole_run(side(row, "saved"), space_.value(row, "setting"));
  return Checkpoint(step_folder(whole.folder, kSavedStep)).index().state;
}

std::string CheckpointMatrix::check(const Space::Row& row) {
  try {
    std::string text = compare(row);
    for (const char* name : {"own", "rest"})
      std::filesystem::remove_all(folder_.path(name));
    return text;
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string CheckpointMatrix::compare(const Space::Row& row) {
  const std::string& setting = space_.value(row, "setting");
  const Side from = side(row, "saved"), to = side(row, "loaded");
  const auto run_to = [&](int num_steps, const std::string& resume, const std::string& save) {
    return run(to, setting, num_steps, {"--resume=" + resume, "--save=" + folder_.path(save)});
  };
  const std::string saved = step_folder(whole_run(from, setting).folder, kSavedStep);
  const RunResult loaded = run_to(kSavedStep, saved, "own");
  const std::string own = step_folder(folder_.path("own"), kSavedStep);
  if (const auto text = difference(loaded, Checkpoint(saved)); !text.empty()) return "loaded: " + text;
  if (const auto text = difference(Checkpoint(saved), Checkpoint(own)); !text.empty()) return "saved again: " + text;

  const RunResult rest = run_to(num_steps_, saved, "rest");
  const Checkpoint at_end(step_folder(folder_.path("rest"), num_steps_));
  const WholeRun& whole = whole_run(to, setting);
  const RunResult end_of_whole = without_steps(whole.result, kSavedStep);
  if (sums_of(from.kind, from.num_ranks) == sums_of(to.kind, to.num_ranks)) {
    if (const auto text = first_difference(end_of_whole, rest); !text.empty()) return "never stopped: " + text;
    return difference(Checkpoint(step_folder(whole.folder, num_steps_)), at_end);
  }
  // Under the other layout from that state on: what this layout itself has saved of it.
  const WholeRun& other = run_from_own(to, setting, sums_of(from.kind, from.num_ranks), own);
  if (const auto text = difference(Checkpoint(other.from), Checkpoint(own)); !text.empty())
    return "of layouts with equal sums, one has saved another state: " + text;
  if (const auto text = first_difference(other.result, rest); !text.empty()) return "from its own checkpoint: " + text;
  if (const auto text = difference(Checkpoint(step_folder(other.folder, num_steps_)), at_end); !text.empty())
    return "from its own checkpoint: " + text;
  return keeps_losses_near(setting) ? distance(rest, end_of_whole) : "";
}

}  // namespace tessera::testing

// The report as JSON, in the order and with the names of docs/plan.md. All sizes are in bytes.
//
//     {"rank": 0, "ranks": 4, "same_ranks": [0, 1, 2, 3], "largest": true, "tokens_per_step": 8192, "device": "cpu",
//      "arena_bytes": 1572864, ..., "peak": {"program": "step", "index": 41, "action": "...", "largest": [...]},
//      "traffic": [{"stream": "comm.dp.gradient", "collective": "all_reduce", "collectives": 5, "sent_bytes": 786432}]}
//
// For programs, where the text is for people: exact numbers where that rounds, every class of memory also where it is
// 0. A key that does not apply is left out ("time" without --rates, "shortfall" where the job fits), never null.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/format.h"
#include "plan/plan_report.h"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

Json by_class(const BytesByClass& bytes) {
  Json json = Json::object();
  for (const MemoryClass what : all_memory_classes())
    json[class_key(what)] = bytes[what];
  return json;
}

Json with_total(const BytesByClass& bytes) {
  Json json = by_class(bytes);
  json["total"] = bytes.total();
  return json;
}

Json peak_json(const PlanReport& r) {
  Json largest = Json::array();
  for (const LiveBuffer& b : r.memory.largest)
    largest.push_back({{"name", b.name}, {"class", class_key(b.what)}, {"bytes", b.num_bytes}});
  return {
      {"program", r.peak_program}, {"index", r.memory.peak_action}, {"action", r.peak_action}, {"largest", largest}};
}

/// A number for each action, not a chart: what reads it may draw its own.
Json timeline_json(const PlanReport& r) {
  Json phases = Json::array();
  for (const PhaseRun& run : phase_runs(r.phases))
    phases.push_back(
        {{"phase", to_string(run.phase)}, {"first_action", run.first_action}, {"actions", run.num_actions}});
  return {{"program", r.peak_program}, {"live_bytes", r.memory.live}, {"phases", phases}};
}

Json traffic_json(const PlanReport& r) {
  Json json = Json::array();
  for (const Traffic& t : r.traffic)
    json.push_back({{"stream", t.stream},
                    {"collective", action_name(t.kind)},
                    {"collectives", t.num_actions},
                    {"sent_bytes", t.sent_bytes}});
  return json;
}

Json gathers_json(const PlanReport& r) {
  Json json = Json::array();
  for (const UnitGathers& g : r.gathers)
    json.push_back({{"unit", g.unit}, {"times", g.num_times}, {"collectives", g.num_collectives}});
  return json;
}

/// What the narrowest link or disk has to carry in a second, for forward and backward to hide their copies.
std::optional<double> hidden_at(const PlanReport& r) {
  double rate = 0;
  for (const MovePhase phase : {MovePhase::forward, MovePhase::backward})
    if (const auto num_bytes = static_cast<double>(r.moved.of(phase).narrowest_bytes()); r.prediction && num_bytes > 0)
      rate = std::max(rate, num_bytes / r.prediction->of(phase).compute_seconds);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

Json offload_json(const PlanReport& r) {
  Json places = Json::array(), moved = Json::array();
  for (const PlaceUse& place : r.places)
    places.push_back({{"place", memory_name(place.memory)},
                      {"rest_bytes", place.report.states.total()},
                      {"peak_bytes", place.report.peak.total()},
                      {"by_class", by_class(place.report.peak)}});
  for (const MovePhase phase : kMovePhases)
    moved.push_back({{"phase", to_string(phase)},
                     {"in_bytes", r.moved.of(phase).in_bytes},
                     {"out_bytes", r.moved.of(phase).out_bytes},
                     {"file_read_bytes", r.moved.of(phase).file_read_bytes},
                     {"file_written_bytes", r.moved.of(phase).file_written_bytes},
                     {"operations", r.moved.operations_of(phase)}});
  Json json = {{"policies", r.policies}, {"chunk_bytes", r.chunk_bytes}, {"places", places}, {"moved", moved}};
  if (const auto rate = hidden_at(r)) json["hidden_at_bytes_per_second"] = *rate;
  if (r.prediction) json["predicted_seconds"] = r.prediction->step_seconds;
  return json;
}

Json time_json(const PlanReport& r, const Prediction& p) {
  Json phases = Json::array();
  for (const MovePhase phase : kMovePhases) {
    const PhaseTime& time = p.of(phase);
    phases.push_back({{"phase", to_string(phase)},
                      {"compute_seconds", time.compute_seconds},
                      {"host_seconds", time.host_seconds},
                      {"in_seconds", time.in_seconds},
                      {"out_seconds", time.out_seconds},
                      {"file_seconds", time.file_seconds},
                      {"link_seconds", time.link_seconds}});
  }
  return {{"rates", r.rates->file},
          {"measured", r.rates->measured},
          {"threads", r.rates->num_threads},
          {"predicted_seconds", p.step_seconds},
          {"bound_seconds", p.bound()},
          // "tokens_per_second", or "examples_per_second" of a classifier.
          {r.items + "_per_second", static_cast<double>(r.tokens_per_step) / p.step_seconds},
          {"phases", phases}};
}

Json reduce_every_json(const PlanReport& r) {
  Json json = {{"value", r.reduce_every == TSR_EVERY_STEP ? "step" : "micro-batch"}};
  if (const auto& cost = r.reduce_every_cost) {
    json["step"] = {{"gradient_bytes", cost->step_gradient_bytes}, {"sent_bytes", cost->step_sent_bytes}};
    json["micro_batch"] = {{"gradient_bytes", cost->micro_batch_gradient_bytes},
                           {"sent_bytes", cost->micro_batch_sent_bytes}};
  }
  return json;
}

Json balance_json(const Balance& b) {
  Json json = {{"min_bytes", b.min_bytes}, {"mean_bytes", b.mean_bytes}, {"max_bytes", b.max_bytes},
               {"min_rank", b.min_rank},   {"max_rank", b.max_rank},     {"imbalance", b.imbalance()}};
  if (!b.bottleneck.empty()) json["bottleneck"] = {{"parameter", b.bottleneck}, {"bytes", b.bottleneck_bytes}};
  return json;
}

/// Without the command line, which only what fits has: the smallest does not.
Json trial_json(const Trial& trial) {
  return {{"flags", trial.flags}, {"arena_bytes", trial.arena_bytes}};
}

Json shortfall_json(const MemoryShortfall& shortfall) {
  Json fitting = Json::array();
  for (const Trial& trial : shortfall.fitting) {
    fitting.push_back(trial_json(trial));
    if (!trial.command.empty()) fitting.back()["command"] = trial.command;
  }
  return {{"memory", memory_name(shortfall.memory)},   {"rank", shortfall.rank},
          {"arena_bytes", shortfall.arena_bytes},      {"limit_bytes", shortfall.limit_bytes},
          {"copy_bytes", shortfall.copy_bytes},        {"would_fit", fitting},
          {"smallest", trial_json(shortfall.smallest)}};
}

}  // namespace

std::string plan_json(const PlanReport& r) {
  Json programs = Json::array();
  for (const ProgramSummary& program : r.programs)
    programs.push_back(
        {{"name", program.name}, {"actions", program.num_actions}, {"arena_bytes", program.arena_bytes}});
  Json json = {{"rank", r.rank},
               {"ranks", r.num_ranks},
               {"same_ranks", r.same_ranks},
               {"largest", r.is_largest},
               {r.items + "_per_step", r.tokens_per_step},
               {"device", r.device},
               {"arena_bytes", r.arena_bytes},
               {"host_arena_bytes", r.host_arena_bytes},
               {"save_copy_bytes", r.save_copy_bytes},
               {"waste_bytes", r.memory.waste_bytes()},
               {"states", with_total(r.memory.states)},
               {"peak_bytes", with_total(r.memory.peak)},
               {"most_bytes", by_class(r.memory.most)},
               {"peak", peak_json(r)},
               {"programs", programs},
               {"timeline", timeline_json(r)},
               {"traffic", traffic_json(r)},
               {"gathers", gathers_json(r)},
               {"offload", offload_json(r)},
               {"reduce_every", reduce_every_json(r)},
               {"balance", balance_json(r.balance)}};
  if (r.prediction) json["time"] = time_json(r, *r.prediction);
  if (r.shortfall) json["shortfall"] = shortfall_json(*r.shortfall);
  return json.dump(2);
}

}  // namespace tessera::host

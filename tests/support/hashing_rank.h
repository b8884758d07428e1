// Programs as functions of what their actions read: an action hashes what it reads, and writes hashes of that.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory/memory_plan.h"
#include "program/program.h"

namespace tessera::testing {
using namespace host;

inline uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccdu ^ (a >> 33);
}

/// What an action has read: its id and a hash. Copies are left out: only they may be different.
using Trace = std::vector<std::pair<uint64_t, uint64_t>>;

/// Every buffer at an address of its own; those of one kind and name at one address in all programs.
inline std::vector<MemoryPlan> spread(std::span<Program* const> programs) {
  std::map<std::pair<uint32_t, std::string>, uint64_t> persistent;
  uint64_t end = 0;
  const auto place = [&](const Buffer& buffer) { return std::exchange(end, end + buffer.num_bytes()); };
  std::vector<MemoryPlan> plans;
  for (const Program* program : programs)
    for (MemoryPlan& plan = plans.emplace_back(); const Buffer& buffer : program->buffers) {
      if (!buffer.persistent) {
        plan.address[buffer.id] = place(buffer);
        continue;
      }
      const auto [found, is_new] = persistent.try_emplace({buffer.kind, buffer.name}, 0);
      if (is_new) found->second = place(buffer);
      plan.address[buffer.id] = found->second;
    }
  return plans;
}

/// A rank that runs programs: its memories, which begin with garbage, and persistent buffers, which begin with values.
class HashingRank {
 public:
  HashingRank(std::span<Program* const> programs, std::vector<MemoryPlan> plans)
      : programs_(programs.begin(), programs.end()), plans_(std::move(plans)) {
    for (size_t p = 0; p < programs_.size(); ++p)
      for (const auto& [id, address] : plans_[p].address) {
        const Buffer& buffer = programs_[p]->buffer(id);
        std::vector<uint64_t>& memory = memories_.at(buffer.memory);
        memory.resize(std::max(memory.size(), address / sizeof(float) + buffer.num_elements), 0xbad);
      }
    for_each_persistent(
        [](uint64_t& cell, const Buffer& buffer, uint64_t i) { cell = mix(std::hash<std::string>()(buffer.name), i); });
  }

  /// In list order, or with `random` in a random order that keeps each stream's and all dependencies.
  Trace run(size_t which, std::mt19937* random = nullptr) {
    Trace trace;
    const Program& program = *programs_[which];
    if (random)
      run_streams(program, plans_[which], *random, trace);
    else
      for (const Action& action : program.actions)
        run_action(program, plans_[which], action, trace);
    std::ranges::sort(trace);
    return trace;
  }

  std::map<std::string, std::vector<uint64_t>> persistent_contents() {
    std::map<std::string, std::vector<uint64_t>> contents;
    for_each_persistent([&](uint64_t& cell, const Buffer& buffer, uint64_t) { contents[buffer.name].push_back(cell); });
    return contents;
  }

 private:
  template <class Visit>
  void for_each_persistent(Visit&& visit) {
    for (const Buffer& buffer : programs_[0]->buffers)
      for (uint64_t i = 0; buffer.persistent && i < buffer.num_elements; ++i)
        visit(memories_.at(buffer.memory)[plans_[0].address.at(buffer.id) / sizeof(float) + i], buffer, i);
  }

  void run_action(const Program& program, const MemoryPlan& plan, const Action& action, Trace& trace) {
    const auto cells = [&](const Binding& b) {
      return memories_.at(program.buffer(b.buffer).memory).begin() +
             static_cast<int64_t>(plan.address.at(b.buffer) / sizeof(float) + b.offset);
    };
    if (action.kind == TSR_ACTION_COPY) {
      std::copy_n(cells(action.bindings[0]), action.bindings[0].num_elements, cells(action.bindings[1]));
      return;
    }
    uint64_t hash = action.id;
    for (const Binding& b : action.bindings)
      for (uint64_t i = 0; b.mode != TSR_MODE_WRITE && i < b.num_elements; ++i)
        hash = mix(hash, cells(b)[static_cast<int64_t>(i)]);
    trace.emplace_back(action.id, hash);
    for (uint64_t index = 0; const Binding& b : action.bindings)
      for (uint64_t i = 0; b.mode != TSR_MODE_READ && i < b.num_elements; ++i)
        cells(b)[static_cast<int64_t>(i)] = mix(hash, ++index);
  }

  void run_streams(const Program& program, const MemoryPlan& plan, std::mt19937& random, Trace& trace) {
    std::vector<std::vector<size_t>> queues(program.streams.size());
    for (size_t i = 0; i < program.actions.size(); ++i)
      queues[program.actions[i].stream].push_back(i);
    std::vector<size_t> next(queues.size());
    std::vector<bool> is_done(program.actions.size());
    for (size_t done = 0; done < program.actions.size();) {
      const size_t stream = random() % queues.size();
      if (next[stream] == queues[stream].size()) continue;
      const size_t i = queues[stream][next[stream]];
      const Action& action = program.actions[i];
      if (!std::ranges::all_of(action.dependencies, [&](uint32_t before) { return is_done[before]; })) continue;
      run_action(program, plan, action, trace);
      is_done[i] = true;
      ++next[stream];
      ++done;
    }
  }

  std::vector<Program*> programs_;
  std::vector<MemoryPlan> plans_;
  std::array<std::vector<uint64_t>, 8> memories_;  // by TSR_MEMORY_*
};

}  // namespace tessera::testing
